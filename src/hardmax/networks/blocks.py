r"""The blocks of a network: attention with fixed keys, a ReLU layer, an affine map (P1 Definition III.1).

The fourth kind, :class:`~hardmax.networks.maxout.Maxout`, has a module of its own.

Only the query varies. The keys and values of a head are held fixed (P1's conditioned input space), so the
score of key :math:`j` of head :math:`h` is an affine function :math:`a_{hj} \cdot x + b_{hj}` of the input,
and what the head adds when :math:`j` wins is a constant vector :math:`v_{hj}`. All numbers are
:class:`~hardmax.exact.rationals.ExactArray`: floats drive the forward pass, and the exact numbers behind
them, where they differ, decide about regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.arguments import biases_of, heads_of, many, mask_of, sizes, vector_of
from hardmax.networks.block import BaseBlock, Traced, no_routings, no_units
from hardmax.networks.contexts import factored_attention
from hardmax.networks.keys import DistinctKeys, distinct_keys
from hardmax.networks.maxout import Maxout

__all__ = ["Affine", "Attention", "Block", "FeedForward", "Maxout"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Attention(BaseBlock):
    r"""Attention at fixed keys and values.

    .. math:: x \mapsto [x +] \sum_{h=1}^{H} v_{h, j_h(x)}, \qquad
              j_h(x) = \arg\max_j \; a_{hj} \cdot x + b_{hj} .

    Parameters
    ----------
    scores : (H, N, d) array_like
        The slopes :math:`a_{hj}`. A list of H matrices with different numbers of rows is padded, and the
        padding is masked.
    biases : (H, N) array_like or None
        The constants :math:`b_{hj}`; ``None`` for zeros.
    outputs : (H, N, e) array_like
        The vectors :math:`v_{hj}`: values after the output projection.
    mask : (H, N) array_like of bool, optional
        ``True`` where a key is present. Every head needs one.
    skip : bool, default True
        Whether the input is added (then :math:`e = d`).

    Attributes
    ----------
    scores, biases, outputs : ExactArray
    mask : (H, N) bool, read-only
    skip : bool
    d_in, d_out, heads, n_tokens : int

    Notes
    -----
    Keys of a head that tie for the largest score share: the head adds the mean of their outputs, which is
    the limit of softmax at temperature zero.

    Examples
    --------
    Two keys on a line; the map jumps by 2 at 0, where both win.

    >>> head = Attention([[[-1], [1]]], None, [[[-1], [1]]])
    >>> head([[-0.5], [0.0], [0.5]])[:, 0]
    array([-1.5,  0. ,  1.5])
    >>> head
    Attention(1 head, 2 keys, 1 -> 1, skip)
    """

    scores: ExactArray
    biases: ExactArray
    outputs: ExactArray
    mask: NDArray[np.bool_]
    skip: bool
    width: ClassVar[int] = 0
    name: ClassVar[str] = "attention"

    def __init__(
        self,
        scores: ArrayLike | Sequence[ArrayLike],
        biases: ArrayLike | Sequence[ArrayLike] | None,
        outputs: ArrayLike | Sequence[ArrayLike],
        *,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        skip: bool = True,
    ) -> None:
        a, lengths = heads_of(scores, "scores", ndim=3)
        heads, n_tokens, d = a.shape
        if heads == 0 or n_tokens == 0 or d == 0:
            raise InvalidInputError(
                f"scores must hold at least one head with one key in one dimension, but has shape {a.shape}."
            )
        if biases is None:
            b, bias_lengths = ExactArray(np.zeros((heads, n_tokens))), lengths
        else:
            b, bias_lengths = biases_of(biases)
        v, output_lengths = heads_of(outputs, "outputs", ndim=3)
        for name, other, found in (("biases", b, bias_lengths), ("outputs", v, output_lengths)):
            if other.shape[:2] != a.shape[:2] or found != lengths:
                raise DimensionMismatchError(
                    f"{name} must hold one entry per head and key, {sizes(lengths)}, but has shape "
                    f"{other.shape}{'' if len(set(found)) == 1 else f' with {sizes(found)}'}."
                )
        if v.shape[2] == 0:
            raise InvalidInputError(f"outputs must have at least one coordinate, but has shape {v.shape}.")
        if skip and v.shape[2] != d:
            raise DimensionMismatchError(
                f"a skip connection needs outputs of the dimension of the input ({d}), but they have "
                f"{v.shape[2]}; say skip=False or change the outputs."
            )
        present = mask_of(mask, lengths, n_tokens)
        object.__setattr__(self, "scores", a)
        object.__setattr__(self, "biases", b)
        object.__setattr__(self, "outputs", v)
        object.__setattr__(self, "mask", present)
        object.__setattr__(self, "skip", bool(skip))

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.scores.shape[2]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.outputs.shape[2]

    @property
    def heads(self) -> int:
        """The number of heads H."""
        return self.scores.shape[0]

    @property
    def n_tokens(self) -> int:
        """The number of keys N of the largest head, masked ones included."""
        return self.scores.shape[1]

    @property
    def largest(self) -> int:
        """The most numbers that the forward pass holds per point."""
        return max(super().largest, self.keys.counts.size)

    @cached_property
    def keys(self) -> DistinctKeys:
        """The keys as the forward pass uses them: equal ones merged, masked ones gone."""
        return distinct_keys(self.scores, self.biases, self.outputs, self.mask)

    @classmethod
    def from_weights(
        cls,
        context: ArrayLike,
        W_Q: Sequence[ArrayLike] | ArrayLike,
        W_K: Sequence[ArrayLike] | ArrayLike,
        W_V: Sequence[ArrayLike] | ArrayLike,
        W_O: Sequence[ArrayLike] | ArrayLike,
        *,
        b_Q: Sequence[ArrayLike] | ArrayLike | None = None,
        b_K: Sequence[ArrayLike] | ArrayLike | None = None,
        b_V: Sequence[ArrayLike] | ArrayLike | None = None,
        b_O: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        score_bias: ArrayLike | None = None,
        scale: Any = 1,
        skip: bool = True,
    ) -> Attention:
        r"""A real attention layer whose context is held fixed.

        For the tokens :math:`c_j` of the context, keys :math:`k_{hj} = W_K^h c_j + b_K^h` and values
        :math:`W_V^h c_j + b_V^h`,

        .. math:: x \mapsto [x +]\; b_O + \sum_h W_O^h \, (W_V^h c_{j_h} + b_V^h), \qquad
                  j_h = \arg\max_j \; \sigma_h\, k_{hj} \cdot (W_Q^h x + b_Q^h) + \beta_{hj} .

        Parameters
        ----------
        context : (N, d_model) array_like
            The tokens that are attended to. When the token that is followed is among them, its key and value
            stay those of this row: a key that moved with the query would make its score quadratic.
        W_Q, W_K, W_V, W_O : sequences of one matrix per head
            Of shapes (r, d), (r, d_model), (s, d_model), (e, s); ranks r and s may differ between heads.
        b_Q, b_K, b_V : sequences of one vector per head, optional
        b_O : (e,) array_like, optional
            Added once.
        mask : (N,) or (H, N) array_like of bool, optional
            ``True`` where a token may be attended to.
        score_bias : (N,) or (H, N) array_like, optional
            :math:`\beta`, added to the scores after scaling: relative positions, for example.
        scale : number or one per head, default 1
            :math:`\sigma_h > 0`. The default leaves the raw scores; softmax of raw scores over
            :math:`\sqrt{d_{head}}` is then temperature :math:`\sqrt{d_{head}}`.
        skip : bool, default True

        Returns
        -------
        Attention
            Nothing is rounded: products of weights are kept as their factors and multiplied out exactly when
            regions are asked for, so rank-deficient scores stay rank-deficient.

        Examples
        --------
        Both heads read one coordinate; the second knows the sign only.

        >>> context = [[1.0, 0.5], [-1.0, 2.0]]
        >>> layer = Attention.from_weights(
        ...     context, W_Q=[[[1, 0]], [[0, 1]]], W_K=[[[1, 0]], [[1, 0]]],
        ...     W_V=[[[0, 1]], [[0, 1]]], W_O=[[[1], [0]], [[0], [1]]])
        >>> layer([3.0, -1.0])
        array([3.5, 1. ])
        """
        factored = factored_attention(
            context,
            (W_Q, W_K, W_V, W_O),
            (b_Q, b_K, b_V),
            b_O,
            score_bias,
            scale,
        )
        present = (
            None if mask is None else mask_of(mask, [factored.n_tokens] * factored.heads, factored.n_tokens)
        )
        scores: Any = factored.scores
        biases: Any = factored.biases
        outputs: Any = factored.outputs
        return cls(scores, biases, outputs, mask=present, skip=skip)

    def forward(self, points: Floats, temperature: float = 0.0) -> Floats:
        """The output at the rows of a float64 matrix."""
        if temperature == 0.0:
            return self.trace(points)[0]
        return self._sum(points, self.keys.soft(points, temperature))

    def trace(self, points: Floats) -> Traced:
        """The output at temperature zero and the winning keys (n, H), the lowest index among ties."""
        added, routings = self.keys.hard(points)
        return self._sum(points, added), routings, no_units(points)

    def with_keys(self, n_tokens: int) -> Self:
        """The same block with the first keys of each head only; the others are masked."""
        first = np.arange(self.n_tokens) < n_tokens
        scores: Any = self.scores
        biases: Any = self.biases
        outputs: Any = self.outputs
        return type(self)(scores, biases, outputs, mask=self.mask & first, skip=self.skip)

    def _sum(self, points: Floats, added: list[Floats]) -> Floats:
        y = points.copy() if self.skip else np.zeros((len(points), self.d_out))
        with np.errstate(over="ignore", invalid="ignore"):
            for part in added:
                y += part
        return y

    def __repr__(self) -> str:
        size = f"{many(self.heads, 'head')}, {many(self.n_tokens, 'key')}, {self.d_in} -> {self.d_out}"
        masked = int((~self.mask).sum())
        return f"Attention({size}{', skip' if self.skip else ''}{f', {masked} masked' if masked else ''})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FeedForward(BaseBlock):
    r"""A ReLU layer, or a leaky one.

    .. math:: x \mapsto [x +]\; W_{out}\, \varphi(W_{in} x + b_{in}) + b_{out}, \qquad
              \varphi(z) = \max(0, z) + \alpha \min(0, z) .

    Parameters
    ----------
    w_in : (n, d) array_like or None
        ``None`` stands for the identity: the units read the coordinates of the input.
    b_in : (n,) array_like or None
        ``None`` for zeros.
    w_out : (e, n) array_like
    b_out : (e,) array_like or None
        ``None`` for zeros.
    skip : bool, default False
        Whether the input is added (then :math:`e = d`).
    slope : number or (n,) array_like, default 0
        :math:`\alpha`, the slope of a unit that is off: 0 is ReLU, a small number leaky ReLU, one number per
        unit PReLU, -1 the absolute value.

    Attributes
    ----------
    w_in : ExactArray or None
    b_in, w_out, b_out, slope : ExactArray
    skip : bool
    d_in, d_out, width : int

    Examples
    --------
    One tooth of the sawtooth of P1 Lemma F.2: 0, 1, 0 at 0, 1/2, 1.

    >>> tooth = FeedForward([[1], [1]], [0, -0.5], [[2, -4]], None)
    >>> tooth([[0.0], [0.5], [1.0]])[:, 0]
    array([0., 1., 0.])
    >>> tooth
    FeedForward(2 units, 1 -> 1)

    A leaky unit.

    >>> FeedForward([[1]], None, [[1]], slope=0.25)([[-2.0], [2.0]])[:, 0]
    array([-0.5,  2. ])
    """

    w_in: ExactArray | None
    b_in: ExactArray
    w_out: ExactArray
    b_out: ExactArray
    skip: bool
    slope: ExactArray
    heads: ClassVar[int] = 0
    n_tokens: ClassVar[int] = 0

    def __init__(
        self,
        w_in: ArrayLike | None,
        b_in: ArrayLike | None,
        w_out: ArrayLike,
        b_out: ArrayLike | None = None,
        *,
        skip: bool = False,
        slope: ArrayLike = 0,
    ) -> None:
        second = as_exact(w_out, "w_out", ndim=2)
        first = None if w_in is None else as_exact(w_in, "w_in", ndim=2)
        width, d = (second.shape[1], second.shape[1]) if first is None else first.shape
        if width == 0 or d == 0:
            shape = second.shape if first is None else first.shape
            raise InvalidInputError(
                f"{'w_out' if first is None else 'w_in'} must hold at least one unit with one input, but has "
                f"shape {shape}."
            )
        if second.shape[1] != width or second.shape[0] == 0:
            raise DimensionMismatchError(
                f"w_out must have one column per unit ({width}) and at least one row, but has shape "
                f"{second.shape}."
            )
        if skip and second.shape[0] != d:
            raise DimensionMismatchError(
                f"a skip connection needs as many outputs as inputs, but has {second.shape[0]} and {d}; "
                "say skip=False or change w_out."
            )
        object.__setattr__(self, "w_in", first)
        object.__setattr__(self, "b_in", vector_of(b_in, "b_in", width, "unit"))
        object.__setattr__(self, "w_out", second)
        object.__setattr__(self, "b_out", vector_of(b_out, "b_out", second.shape[0], "output"))
        object.__setattr__(self, "skip", bool(skip))
        one_for_all = not isinstance(slope, ExactArray) and np.ndim(slope) == 0
        slopes: Any = np.full(width, slope) if one_for_all else slope
        object.__setattr__(self, "slope", vector_of(slopes, "slope", width, "unit"))

    @property
    def name(self) -> str:
        """What the block is, in words."""
        return f"{'leaky ' if self.leaky else ''}ReLU layer"

    @property
    def leaky(self) -> bool:
        """Whether some unit that is off has a slope."""
        return not self.slope.all_zero()

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.width if self.w_in is None else self.w_in.shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.w_out.shape[0]

    @property
    def width(self) -> int:
        """The number of ReLU units."""
        return self.w_out.shape[1]

    def forward(self, points: Floats, temperature: float = 0.0) -> Floats:
        """The output at the rows of a float64 matrix."""
        return self._output(points, self._preactivations(points))

    def trace(self, points: Floats) -> Traced:
        """The output and which units are on, (n, width): those whose pre-activation is above zero."""
        z = self._preactivations(points)
        on = z > 0.0
        return self._output(points, z), no_routings(points), on

    def _preactivations(self, points: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.w_in is None:
                return points + self.b_in.floats
            z = points @ self.w_in.floats.T
            z += self.b_in.floats
        return np.asarray(z)

    def _output(self, points: Floats, z: Floats) -> Floats:
        """The output when the pre-activations are known; they are overwritten."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.leaky:
                z = np.where(z > 0.0, z, z * self.slope.floats)
            else:
                z = np.maximum(z, 0.0, out=z)
            y = z @ self.w_out.floats.T
            y += self.b_out.floats
            if self.skip:
                y += points
        return np.asarray(y)

    def __repr__(self) -> str:
        size = f"{many(self.width, 'unit')}, {self.d_in} -> {self.d_out}"
        return f"FeedForward({size}{', leaky' if self.leaky else ''}{', skip' if self.skip else ''})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Affine(BaseBlock):
    r"""An affine map :math:`x \mapsto W x + b`.

    Parameters
    ----------
    w : (e, d) array_like
    b : (e,) array_like, optional
        Zeros when left out.

    Attributes
    ----------
    w, b : ExactArray
    d_in, d_out : int

    Examples
    --------
    >>> Affine([[1, 2]], [3])([1.0, 1.0])
    array([6.])
    """

    w: ExactArray
    b: ExactArray
    heads: ClassVar[int] = 0
    width: ClassVar[int] = 0
    n_tokens: ClassVar[int] = 0
    skip: ClassVar[bool] = False
    name: ClassVar[str] = "affine map"

    def __init__(self, w: ArrayLike, b: ArrayLike | None = None) -> None:
        matrix = as_exact(w, "w", ndim=2)
        if 0 in matrix.shape:
            raise InvalidInputError(
                f"w must have at least one row and one column, but has shape {matrix.shape}."
            )
        object.__setattr__(self, "w", matrix)
        object.__setattr__(self, "b", vector_of(b, "b", matrix.shape[0], "output"))

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.w.shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.w.shape[0]

    def forward(self, points: Floats, temperature: float = 0.0) -> Floats:
        """The output at the rows of a float64 matrix."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(points @ self.w.floats.T + self.b.floats)

    def trace(self, points: Floats) -> Traced:
        """The output; an affine map chooses nothing."""
        return self.forward(points), no_routings(points), no_units(points)

    def __repr__(self) -> str:
        return f"Affine({self.d_in} -> {self.d_out})"


Block = Attention | FeedForward | Maxout | Affine
