r"""What an enumeration of the line writes down: cells as intervals with named ends.

An end is named like an edge in the plane: by the layer cell in which the break was found (``owner``) and the
unit or pair of keys (``wall``), so that its exact place can be asked for. The engine finds cells from left to
right; the result is in lexicographic order of their signatures, as everywhere, and ``position`` remembers
where on the line a cell is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.groups import AffineLayer, FoldLayer, Layer, MaxLayer
from hardmax.networks.signatures import pack_bits, unpack_bits
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, decode_wall
from hardmax.regions.segment.rational_intervals import NEGATIVE_END, POSITIVE_END, Place, root_of

if TYPE_CHECKING:
    from hardmax.regions.maps.adjacency import Contacts
    from hardmax.regions.maps.exact_maps import ExactMaps

__all__ = ["SegmentCells", "exact_place", "signature_order"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SegmentCells:
    """The cells of a network on the line.

    Attributes
    ----------
    bits, routings, tied
        Signatures, as in :class:`~hardmax.regions.cells.Cells`.
    low, high : float64 (n,)
        The two ends; infinite ones are infinite.
    low_error, high_error : float64 (n,)
        Bounds on their errors.
    lengths : float64 (n,)
        How long the intervals are, from ends relative to a point of the domain.
    low_owner, low_wall, high_owner, high_wall : int64 (n,)
        What each end is; owner -1 is a side of the domain (``wall`` its number), -2 infinity.
    position : int64 (n,)
        How many cells lie to the left.
    witnesses : float64 (n, 1)
    margins : float64 (n,)
        A proven lower bound on the distance of the witness from the ends; 0 where floats prove none.
    """

    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    low: Floats
    high: Floats
    low_error: Floats
    high_error: Floats
    lengths: Floats
    low_owner: Integers
    low_wall: Integers
    high_owner: Integers
    high_wall: Integers
    position: Integers
    witnesses: Floats
    margins: Floats

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            getattr(self, name).setflags(write=False)

    @classmethod
    def of(cls, written: dict[str, NDArray[Any]]) -> SegmentCells:
        """What was written down, from left to right."""
        witnesses, margins = _witnesses(
            written["low"], written["high"], written["low_error"], written["high_error"]
        )
        return cls(**written, witnesses=witnesses[:, None], margins=margins)

    def in_order(self, layers: tuple[Layer, ...]) -> SegmentCells:
        """The same cells in the order of their signatures."""
        order = signature_order(layers, self.bits, self.routings)
        return SegmentCells(**{name: np.ascontiguousarray(a[order]) for name, a in self.state().items()})

    @cached_property
    def along(self) -> Integers:
        """The numbers of the cells from left to right."""
        return np.argsort(self.position)

    @property
    def n(self) -> int:
        """The number of cells."""
        return len(self.tied)

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells have two ends."""
        return np.isfinite(self.low) & np.isfinite(self.high)

    @property
    def volumes(self) -> Floats:
        """Lengths; infinite for unbounded cells."""
        return self.lengths

    def cell_vertices(self, i: int) -> Floats:
        """The finite ends of cell ``i``, one per row."""
        ends = np.array([[self.low[i]], [self.high[i]]])
        return np.asarray(ends[np.isfinite(ends[:, 0])])

    @cached_property
    def vertices(self) -> Floats:
        """All finite ends of all cells, one per row; a shared one appears once per cell."""
        ends = np.column_stack([self.low, self.high]).ravel()
        return np.asarray(ends[np.isfinite(ends)][:, None])

    def boundary(self, i: int) -> list[tuple[int, int]]:
        """``(owner, wall)`` of the finite ends of cell ``i``."""
        ends = [(self.low_owner[i], self.low_wall[i]), (self.high_owner[i], self.high_wall[i])]
        return [(int(owner), int(wall)) for owner, wall in ends if owner != AT_INFINITY]

    def exact_ends(self, i: int, exact: ExactMaps) -> tuple[Place, Place]:
        """The two ends of cell ``i`` without rounding: fractions, or infinities."""
        bits, routings = self.bits[i], self.routings[i]
        low = exact_place(exact, int(self.low_owner[i]), int(self.low_wall[i]), bits, routings)
        high = exact_place(exact, int(self.high_owner[i]), int(self.high_wall[i]), bits, routings)
        return (NEGATIVE_END if low is None else low, POSITIVE_END if high is None else high)

    def exact_halfspaces(self, i: int, exact: ExactMaps) -> list[list[Fraction]]:
        """Rows :math:`(a, b)`, :math:`a t \\le b` on cell ``i``, with a = -1 or 1."""
        low, high = self.exact_ends(i, exact)
        rows = []
        if isinstance(high, Fraction):
            rows.append([Fraction(1), high])
        if isinstance(low, Fraction):
            rows.append([Fraction(-1), -low])
        return rows

    def exact_witness(self, i: int, exact: ExactMaps) -> list[Fraction]:
        """A point strictly inside cell ``i``."""
        low, high = self.exact_ends(i, exact)
        if isinstance(low, Fraction):
            return [(low + high) / 2 if isinstance(high, Fraction) else low + 1]
        return [high - 1 if isinstance(high, Fraction) else Fraction(0)]

    def contacts(self, layers: tuple[Layer, ...], exact: ExactMaps | None = None) -> Contacts:
        """Pairs of cells that follow one another on the line; contact in a point counts as length 1."""
        from hardmax.regions.maps.adjacency import Contacts

        left, right = self.along[:-1], self.along[1:]
        meet = (self.high_owner[left] == self.low_owner[right]) & (
            self.high_wall[left] == self.low_wall[right]
        )
        left, right = left[meet], right[meet]
        pairs = np.column_stack([np.minimum(left, right), np.maximum(left, right)])
        kinds = _kinds(layers, self.bits, self.routings, left, right)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        nothing = np.zeros((0, 2), dtype=np.int64)
        return Contacts(pairs[order], kinds[order], np.ones(len(order)), nothing, nothing[:, 0])

    def kinds_along(self, layers: tuple[Layer, ...]) -> NDArray[np.uint8]:
        """For each cell on the line but the last: 0 if a fold follows it, 1 if a wall does."""
        return _kinds(layers, self.bits, self.routings, self.along[:-1], self.along[1:])

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays, for a file."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SegmentCells:
        """The cells of a file."""
        return cls(**{name: state[name] for name in cls.__dataclass_fields__})


def exact_place(
    exact: ExactMaps,
    owner: int,
    wall: int,
    bits_row: NDArray[np.uint64],
    routings_row: NDArray[np.int32],
) -> Fraction | None:
    """Where an end of a cell with this signature lies; ``None`` at infinity."""
    if owner == AT_INFINITY:
        return None
    if owner == DOMAIN_SIDE:
        return root_of(exact.domain_line(wall))
    return root_of(exact.line(*decode_wall(wall), bits_row, routings_row))


def signature_order(
    layers: tuple[Layer, ...], bits: NDArray[np.uint64], routings: NDArray[np.int32]
) -> Integers:
    """The lexicographic order of signatures, layer by layer: keys ascending, a unit off before on.

    >>> from hardmax.networks.groups import layers_of
    >>> from hardmax.networks.network import Network
    >>> layers = layers_of(Network.random_mlp([1, 2, 1], 0))
    >>> signature_order(layers, np.array([[1], [3], [2]], dtype=np.uint64), np.zeros((3, 0), dtype=np.int32))
    array([2, 0, 1])
    """
    n = len(bits)
    if n == 0:
        return np.arange(0)
    columns: list[NDArray[np.uint8]] = []
    units = sum(layer.units for layer in layers if isinstance(layer, FoldLayer))
    relu = unpack_bits(bits, units) if units else np.zeros((n, 0), dtype=np.bool_)
    for layer in layers:
        if isinstance(layer, AffineLayer):
            continue
        if isinstance(layer, FoldLayer):
            part = relu[:, layer.first_unit : layer.first_unit + layer.units]
            columns.append(np.packbits(part, axis=1))
        else:
            keys = np.ascontiguousarray(
                routings[:, layer.first_head : layer.first_head + layer.heads], dtype=">u4"
            )
            columns.append(keys.view(np.uint8).reshape(n, -1))
    width = sum(column.shape[1] for column in columns)
    if width == 0:
        return np.arange(n)
    padded = np.zeros((n, -(-width // 8) * 8), dtype=np.uint8)
    np.concatenate(columns, axis=1, out=padded[:, :width])
    words = padded.view(">u8").astype(np.uint64)
    varied = np.flatnonzero((words != words[0]).any(axis=0))
    if not len(varied):
        return np.arange(n)
    return np.lexsort(words[:, varied[::-1]].T)


def _kinds(
    layers: tuple[Layer, ...],
    bits: NDArray[np.uint64],
    routings: NDArray[np.int32],
    left: Integers,
    right: Integers,
) -> NDArray[np.uint8]:
    """0 where two signatures part in a fold layer, 1 where they part in a wall layer."""
    kinds = np.zeros(len(left), dtype=np.uint8)
    open_ = np.ones(len(left), dtype=np.bool_)
    total = sum(layer.units for layer in layers if isinstance(layer, FoldLayer))
    differ = bits[left] ^ bits[right]
    for layer in layers:
        if isinstance(layer, AffineLayer):
            continue
        if isinstance(layer, FoldLayer):
            mask = np.zeros((1, total), dtype=np.bool_)
            mask[0, layer.first_unit : layer.first_unit + layer.units] = True
            open_ &= ~(differ & pack_bits(mask)).any(axis=1)
        else:
            heads = slice(layer.first_head, layer.first_head + layer.heads)
            parts = (routings[left, heads] != routings[right, heads]).any(axis=1)
            if not isinstance(layer, MaxLayer):  # maxima are continuous
                kinds[open_ & parts] = 1
            open_ &= ~parts
    return kinds


def _witnesses(low: Floats, high: Floats, low_error: Floats, high_error: Floats) -> tuple[Floats, Floats]:
    """Midpoints (or points beyond the only end), and how far from the ends they are at least."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = low + 0.5 * (high - low)
        witness = np.where(
            np.isfinite(middle),
            middle,
            np.where(
                np.isfinite(low), low + np.maximum(1.0, np.abs(low)), high - np.maximum(1.0, np.abs(high))
            ),
        )
        witness = np.where(np.isfinite(witness), witness, 0.0)
        left = np.where(np.isfinite(low), (witness - low) * (1.0 - 1e-15) - low_error, np.inf)
        right = np.where(np.isfinite(high), (high - witness) * (1.0 - 1e-15) - high_error, np.inf)
        margin = np.minimum(left, right)
    return witness, np.where(margin > 0.0, margin, 0.0)
