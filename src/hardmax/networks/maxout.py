r"""Maxout and max-pooling: groups of affine pieces of which the largest value goes on.

A group is a head that hands on the winning *score* instead of a value that belongs to the winner. So its
routing, the index of the winning piece, is part of the signature like that of a head; but where it changes
the two pieces have the same value, and the map bends without a jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.arguments import biases_of, heads_of, many, mask_of, sizes, vector_of
from hardmax.networks.block import BaseBlock, Traced, no_units
from hardmax.networks.keys import DistinctKeys, distinct_keys

__all__ = ["Maxout"]

Floats = NDArray[np.float64]


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
