r"""The blocks of a network: attention, ReLU layers, maxout, affine maps (P1 Definition III.1).

All numbers are :class:`~hardmax.exact.rationals.ExactArray`: floats drive the forward pass, and the exact
numbers behind them, where they differ, decide about regions. :class:`Attention` has a module of its own,
:mod:`hardmax.networks.attention`.

A group of a :class:`Maxout` is a head whose output is the winning *score* instead of a value that belongs to
the winner. So its routing, the index of the winning piece, is part of the signature like that of a head; but
where it changes the two pieces have the same value, and the map bends without a jump.

In a file a block is a dictionary of plain values. Exact numbers survive: an array whose floats are exact is
saved as floats, any other as fractions, and the product of weights as its factors, each of them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.attention import Attention, DistinctKeys, distinct_keys
from hardmax.networks.block import (
    BaseBlock,
    Traced,
    biases_of,
    heads_of,
    many,
    mask_of,
    no_routings,
    no_units,
    sizes,
    vector_of,
)

__all__ = ["Affine", "Attention", "Block", "FeedForward", "Maxout", "block_of", "state_of"]

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Maxout(BaseBlock):
    r"""The largest of several affine pieces, group by group.

    .. math:: x \mapsto [x +]\; W_{out}\, m(x) + b_{out}, \qquad
              m_g(x) = \max_j \; a_{gj} \cdot x + b_{gj} .

    Parameters
    ----------
    scores : (G, k, d) array_like
        The slopes :math:`a_{gj}` of the pieces. A list of G matrices with different numbers of rows is
        padded, and the padding is masked.
    biases : (G, k) array_like or None
        The constants :math:`b_{gj}`; ``None`` for zeros.
    w_out : (e, G) array_like or None
        ``None`` stands for the identity: the maxima themselves go on.
    b_out : (e,) array_like or None
        ``None`` for zeros.
    mask : (G, k) array_like of bool, optional
        ``True`` where a piece is present. Every group needs one.
    skip : bool, default False
        Whether the input is added (then :math:`e = d`).

    Attributes
    ----------
    scores, biases, b_out : ExactArray
    w_out : ExactArray or None
    mask : (G, k) bool, read-only
    skip : bool
    d_in, d_out, heads, pieces : int
        ``heads`` is G: in signatures a group counts as a head.

    Examples
    --------
    The absolute value and the larger of two coordinates.

    >>> block = Maxout([[[1, 0], [-1, 0]], [[1, 0], [0, 1]]])
    >>> block([-3.0, 2.0])
    array([3., 2.])
    >>> block
    Maxout(2 groups, 2 pieces, 2 -> 2)

    Max-pooling over pairs of neighbours.

    >>> Maxout.pool(4, [[0, 1], [2, 3]])([1.0, 5.0, 4.0, 2.0])
    array([5., 4.])
    """

    scores: ExactArray
    biases: ExactArray
    w_out: ExactArray | None
    b_out: ExactArray
    mask: NDArray[np.bool_]
    skip: bool
    width: ClassVar[int] = 0
    name: ClassVar[str] = "maxout"

    def __init__(
        self,
        scores: ArrayLike | Sequence[ArrayLike],
        biases: ArrayLike | Sequence[ArrayLike] | None = None,
        w_out: ArrayLike | None = None,
        b_out: ArrayLike | None = None,
        *,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        skip: bool = False,
    ) -> None:
        a, lengths = heads_of(scores, "scores", ndim=3)
        groups, pieces, d = a.shape
        if groups == 0 or pieces == 0 or d == 0:
            raise InvalidInputError(
                "scores must hold at least one group with one piece in one dimension, but has shape "
                f"{a.shape}."
            )
        if biases is None:
            b, bias_lengths = ExactArray(np.zeros((groups, pieces))), lengths
        else:
            b, bias_lengths = biases_of(biases)
        if b.shape != a.shape[:2] or bias_lengths != lengths:
            wanted = sizes(lengths).replace("head", "group").replace("key", "piece")
            raise DimensionMismatchError(
                f"biases must hold one number per group and piece, {wanted}, but has shape {b.shape}."
            )
        second = None if w_out is None else as_exact(w_out, "w_out", ndim=2)
        if second is not None and (second.shape[1] != groups or second.shape[0] == 0):
            raise DimensionMismatchError(
                f"w_out must have one column per group ({groups}) and at least one row, but has shape "
                f"{second.shape}."
            )
        e = groups if second is None else second.shape[0]
        if skip and e != d:
            raise DimensionMismatchError(
                f"a skip connection needs as many outputs as inputs, but has {e} and {d}; say skip=False or "
                "change w_out."
            )
        object.__setattr__(self, "scores", a)
        object.__setattr__(self, "biases", b)
        object.__setattr__(self, "w_out", second)
        object.__setattr__(self, "b_out", vector_of(b_out, "b_out", e, "output"))
        object.__setattr__(self, "mask", mask_of(mask, lengths, pieces))
        object.__setattr__(self, "skip", bool(skip))

    @classmethod
    def pool(cls, d: int, windows: Sequence[Sequence[int]]) -> Maxout:
        r"""Max-pooling: :math:`x \mapsto (\max_{i \in w_1} x_i, \max_{i \in w_2} x_i, \dots)`.

        Parameters
        ----------
        d : int
            The dimension of the input.
        windows : sequence of sequences of int
            The coordinates of each window. Windows may overlap and differ in size; piece j of a group is the
            j-th coordinate of its window.

        Examples
        --------
        >>> Maxout.pool(3, [[0, 1], [1, 2], [2]])([3.0, 1.0, 2.0])
        array([3., 2., 2.])
        """
        rows = []
        for g, window in enumerate(windows):
            index = np.asarray(window)
            if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
                raise InvalidInputError(
                    f"windows must hold lists of at least one coordinate, but window {g} is {window!r}."
                )
            if index.min() < 0 or index.max() >= d:
                raise InvalidInputError(
                    f"windows must name coordinates from 0 to {d - 1}, but window {g} is {index.tolist()}."
                )
            rows.append(np.eye(d)[index])
        return cls(rows)

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.scores.shape[2]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.b_out.shape[0]

    @property
    def heads(self) -> int:
        """The number of groups G: each has a routing."""
        return self.scores.shape[0]

    @property
    def pieces(self) -> int:
        """The number of pieces of the largest group, masked ones included."""
        return self.scores.shape[1]

    @property
    def n_tokens(self) -> int:
        """The number of pieces of the largest group, under the name that it has in every block."""
        return self.pieces

    @property
    def largest(self) -> int:
        """The most numbers that the forward pass holds per point."""
        return max(super().largest, self.keys.counts.size)

    @cached_property
    def keys(self) -> DistinctKeys:
        """The pieces as the forward pass uses them: equal ones merged, masked ones gone."""
        nothing = ExactArray(np.zeros((*self.biases.shape, 0)))
        return distinct_keys(self.scores, self.biases, nothing, self.mask)

    def forward(self, points: Floats, temperature: float = 0.0) -> Floats:
        """The output at the rows of a float64 matrix."""
        return self.trace(points)[0]

    def trace(self, points: Floats) -> Traced:
        """The output and the winning pieces (n, G), the lowest index among ties."""
        keys = self.keys
        _, winners, best = keys.scores(points)
        with np.errstate(over="ignore", invalid="ignore"):
            y = best[:, :, 0] if self.w_out is None else best[:, :, 0] @ self.w_out.floats.T
            y = y + self.b_out.floats
            if self.skip:
                y += points
        return y, keys.first[np.arange(len(keys.first)), winners[:, :, 0]], no_units(points)

    def __repr__(self) -> str:
        size = f"{many(self.heads, 'group')}, {many(self.pieces, 'piece')}, {self.d_in} -> {self.d_out}"
        masked = int((~self.mask).sum())
        return f"Maxout({size}{', skip' if self.skip else ''}{f', {masked} masked' if masked else ''})"


Block = Attention | FeedForward | Maxout | Affine

_ARRAYS: dict[str, dict[str, int]] = {  # the arrays of each block and their numbers of axes
    "Attention": {"scores": 3, "biases": 2, "outputs": 3},
    "FeedForward": {"w_in": 2, "b_in": 1, "w_out": 2, "b_out": 1},
    "Maxout": {"scores": 3, "biases": 2, "w_out": 2, "b_out": 1},
    "Affine": {"w": 2, "b": 1},
}


def state_of(block: Block) -> dict[str, Any]:
    """What must survive a file.

    >>> state_of(Affine([[2.0]]))
    {'block': 'Affine', 'w': array([[2.]]), 'b': array([0.])}
    """
    kind = type(block).__name__
    state: dict[str, Any] = {"block": kind}
    factors: dict[int, tuple[int, ExactArray]] = {}
    for name in _ARRAYS[kind]:
        array: ExactArray | None = getattr(block, name)
        if isinstance(array, ExactProduct):
            chains = [
                [factors.setdefault(id(factor), (len(factors), factor))[0] for factor in chain]
                for chain in array.chains
            ]
            state[name] = {"chains": chains, "scales": list(array.scales), "column": array.column}
        else:
            state[name] = _values(array)
    if factors:
        state["factors"] = [_values(factor) for _, factor in factors.values()]
    if isinstance(block, (Attention, Maxout)):
        state["mask"] = block.mask
    if isinstance(block, FeedForward) and block.leaky:
        state["slope"] = _values(block.slope)
    if not isinstance(block, Affine):
        state["skip"] = block.skip
    return state


def block_of(state: Mapping[str, Any]) -> Block:
    """The block of a state; whatever does not fit together raises ``ValueError``, ``KeyError`` or the like.

    >>> block_of(state_of(Affine([[2.0]], [1.0])))([3.0])
    array([7.])
    """
    kind = state["block"]
    factors = [as_exact(values, "factor", ndim=2) for values in state.get("factors", [])]
    arrays: dict[str, Any] = {}
    for name, ndim in _ARRAYS[kind].items():
        values = state[name]
        if isinstance(values, Mapping):
            chains = [[factors[i] for i in chain] for chain in values["chains"]]
            arrays[name] = ExactProduct(chains, values["scales"], column=values["column"])
        else:
            arrays[name] = None if values is None else as_exact(values, name, ndim=ndim)
    if kind == "Affine":
        return Affine(**arrays)
    if kind == "FeedForward":
        slope = as_exact(state["slope"], "slope", ndim=1) if "slope" in state else 0
        return FeedForward(**arrays, skip=_flag(state["skip"]), slope=slope)  # type: ignore[arg-type]
    mask = np.asarray(state["mask"])
    if kind == "Maxout":
        return Maxout(**arrays, mask=mask, skip=_flag(state["skip"]))
    return Attention(**arrays, mask=mask, skip=_flag(state["skip"]))


def _values(array: ExactArray | None) -> Any:
    if array is None:
        return None
    return array.floats if array.fractions is None else array.fractions


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"skip must be True or False, not {value!r}")
    return value
