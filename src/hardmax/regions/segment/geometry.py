r"""Cells on the line: intervals with named ends.

The engine finds cells from left to right; the result is in lexicographic order of their signatures, as
everywhere, and ``position`` remembers where on the line a cell is.

What floats cannot tell is asked in rationals: a row is two integers :math:`(a, c)`, the affine function
:math:`at + c` up to a positive factor; a place is a ``Fraction`` or one of the two infinities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import nearest_float
from hardmax.networks.layers import Layer
from hardmax.networks.signatures import pack_bits
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells, Contacts, Ragged, decode_wall
from hardmax.regions.geometries import Geometry
from hardmax.regions.maps.exact_maps import ExactMaps

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Place = Fraction | float  # a float only for the infinities


def interval_cells(written: dict[str, NDArray[Any]]) -> Cells:
    """What the engine wrote down, from left to right."""
    ends = [written[name] for name in ("low", "low_error", "high", "high_error")]
    names = [written[name] for name in ("low_owner", "low_wall", "high_owner", "high_wall")]
    witnesses, margins = _witnesses(ends[0], ends[2], ends[1], ends[3])
    n = len(witnesses)
    two_each = np.arange(0, 2 * n + 1, 2, dtype=np.int64)
    columns = {name: written[name] for name in ("bits", "routings", "tied", "lengths", "position")}
    cells = Cells(
        kind="intervals",
        witnesses=witnesses[:, None],
        margins=margins,
        facets=Ragged(two_each, np.column_stack(names).reshape(2 * n, 2)),
        vertices=Ragged(two_each, np.column_stack(ends).reshape(2 * n, 2)),
        **columns,
    )
    for array in (*columns.values(), cells.witnesses, margins, cells.facets.content, cells.vertices.content):
        array.setflags(write=False)
    return cells


class SegmentGeometry(Geometry):
    """What can be asked about intervals."""

    @property
    def low(self) -> Floats:
        """The left ends; infinite ones are infinite."""
        return np.asarray(self.cells.vertices.content[::2, 0])

    @property
    def high(self) -> Floats:
        """The right ends."""
        return np.asarray(self.cells.vertices.content[1::2, 0])

    @cached_property
    def along(self) -> Integers:
        """The numbers of the cells from left to right."""
        return np.argsort(self.cells.position)

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells have two ends."""
        return np.isfinite(self.low) & np.isfinite(self.high)

    @property
    def sizes(self) -> tuple[Floats, Floats]:
        """Lengths, infinite for unbounded cells; surfaces are 1, so that short means thin."""
        return self.cells.lengths, np.ones(self.cells.n)

    def cell_vertices(self, i: int) -> Floats:
        """The finite ends of a cell, one per row."""
        ends = self.cells.vertices[i][:, :1]
        return np.asarray(ends[np.isfinite(ends[:, 0])])

    @cached_property
    def vertices(self) -> Floats:
        """All finite ends of all cells, one per row; a shared one appears once per cell."""
        ends = self.cells.vertices.content[:, :1]
        return np.asarray(ends[np.isfinite(ends[:, 0])])

    def exact_ends(self, i: int) -> tuple[Place, Place]:
        """The two ends of a cell without rounding: fractions, or infinities."""
        bits, routings = self.cells.bits[i], self.cells.routings[i]
        low, high = (exact_place(self.exact, *name, bits, routings) for name in self.cells.names(i))
        return (NEGATIVE_END if low is None else low, POSITIVE_END if high is None else high)

    def exact_vertices(self, i: int) -> list[list[Fraction]]:
        """The finite ends of a cell without rounding."""
        return [[end] for end in self.exact_ends(i) if isinstance(end, Fraction)]

    def contacts(self) -> Contacts:
        """Pairs of cells that follow one another on the line; contact in a point counts as length 1."""
        left, right = self.along[:-1], self.along[1:]
        names = self.cells.facets.content
        meet = (names[2 * left + 1] == names[2 * right]).all(axis=1)
        left, right = left[meet], right[meet]
        kinds = kinds_between(self.exact.layers, self.cells, left, right)
        pairs, edges = np.column_stack([left, right]), np.column_stack([2 * left + 1, 2 * right])
        turned = left > right
        pairs[turned], edges[turned] = pairs[turned, ::-1], edges[turned, ::-1]
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        none = np.zeros(0, dtype=np.int64)
        return Contacts(pairs[order], kinds[order], np.ones(len(order)), edges[order], none)

    def domain_size(self) -> float | None:
        """The length of the domain; ``None`` if it is unbounded."""
        interval = interval_of([self.exact.domain_line(i) for i in range(self.exact.domain.b.shape[0])])
        if interval is None or not (isinstance(interval[0], Fraction) and isinstance(interval[2], Fraction)):
            return None
        return nearest_float(interval[2] - interval[0])


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


def kinds_between(
    layers: tuple[Layer, ...], cells: Cells, left: Integers, right: Integers
) -> NDArray[np.uint8]:
    """0 where two signatures part in a fold layer, 1 where they part in a wall layer."""
    kinds = np.zeros(len(left), dtype=np.uint8)
    open_ = np.ones(len(left), dtype=np.bool_)
    total = sum(layer.units for layer in layers)
    differ = cells.bits[left] ^ cells.bits[right]
    for layer in layers:
        if layer.units:
            mask = np.zeros((1, total), dtype=np.bool_)
            mask[0, layer.unit_slice] = True
            open_ &= ~(differ & pack_bits(mask)).any(axis=1)
        elif layer.heads:
            heads = layer.head_slice
            parts = (cells.routings[left, heads] != cells.routings[right, heads]).any(axis=1)
            if layer.jumps:  # maxima are continuous
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


NEGATIVE_END, POSITIVE_END = -math.inf, math.inf


def sign_at(row: Sequence[int], place: Place) -> int:
    """The sign of a row at a place: -1, 0 or 1.

    >>> sign_at((2, -1), Fraction(1, 2)), sign_at((-3, 5), POSITIVE_END)
    (0, -1)
    """
    a, c = row[0], row[1]
    if isinstance(place, Fraction):
        value = a * place.numerator + c * place.denominator
    elif a:
        value = a if place > 0 else -a
    else:
        value = c
    return (value > 0) - (value < 0)


def root_of(row: Sequence[int]) -> Fraction:
    """Where a row that is not constant vanishes."""
    return Fraction(-row[1], row[0])


def interval_of(halfspaces: Sequence[Sequence[int]]) -> tuple[Place, int, Place, int] | None:
    """The interval of half-lines :math:`at + c \\ge 0`: its ends and the numbers of the rows that bound it
    (-1 at infinity); ``None`` if it has no interior.

    >>> interval_of([(1, 0), (-2, 3), (-1, 7)])
    (Fraction(0, 1), 0, Fraction(3, 2), 1)
    """
    low: Place = NEGATIVE_END
    high: Place = POSITIVE_END
    low_side = high_side = -1
    for i, row in enumerate(halfspaces):
        if row[0] == 0:
            if row[1] < 0:
                return None
            continue
        place = root_of(row)
        if row[0] > 0 and place > low:
            low, low_side = place, i
        elif row[0] < 0 and place < high:
            high, high_side = place, i
    return (low, low_side, high, high_side) if low < high else None


def upper_envelope(
    rows: dict[int, tuple[int, int]], low: Place, high: Place
) -> list[tuple[list[int], Place]]:
    """The winners among affine functions along an interval: ``(keys that win together, where they begin)``.

    >>> upper_envelope({0: (-1, 0), 1: (0, -1), 2: (1, 0), 3: (1, 0)}, NEGATIVE_END, POSITIVE_END)
    [([0], -inf), ([2, 3], Fraction(0, 1))]
    """
    together: dict[tuple[int, int], list[int]] = {}
    for key, row in rows.items():
        together.setdefault(row, []).append(key)
    lines = list(together)
    if isinstance(low, Fraction):
        p, q = low.numerator, low.denominator
        line = max(lines, key=lambda row: (row[0] * p + row[1] * q, row[0]))
    else:
        line = min(lines, key=lambda row: (row[0], -row[1]))
    found: list[tuple[list[int], Place]] = [(together[line], low)]
    while True:
        steeper = [row for row in lines if row[0] > line[0]]
        if not steeper:
            return found
        meets = [(Fraction(line[1] - row[1], row[0] - line[0]), -row[0], row) for row in steeper]
        place, _, line = min(meets)
        if place >= high:
            return found
        found.append((together[line], place))
