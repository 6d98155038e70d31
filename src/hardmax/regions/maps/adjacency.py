r"""Which cells touch along a segment, and whether a fold or a wall lies between them.

Two cells are adjacent when their closures meet in positive length. The partition is not face to face: across
a wall the map may jump, so the lines of later layers end there, and a cell may touch several others along one
of its edges. But every edge carries the name of its line, and a line's two sides are partitions of the same
segment. So the pieces are grouped by name and the two partitions overlaid (compiled). What floats cannot
decide is decided here in integers, and edges whose partner has another name (when several keys share a wall)
are found by their exact line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, inf
from typing import cast

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.exact.rationals import ExactArray
from hardmax.networks.layers import ArgmaxLayer, Layer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells, Contacts, decode_wall, encode_wall
from hardmax.regions.maps import adjacency_kernels as kernels
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.float_maps import frozen

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Position = tuple[int, flint.fmpq]  # -1 and 1: the two ends of the line at infinity


def adjacent_cells(cells: Cells, layers: tuple[Layer, ...], exact: ExactMaps) -> Contacts:
    r"""All pairs of cells that share a segment.

    Notes
    -----
    Across a fold the map is continuous, and pieces are matched without looking at coordinates. *Claim*: let
    :math:`C_1, \dots, C_k` and :math:`D_1, \dots, D_k` be the cells along the two sides of a segment
    :math:`S` drawn by unit :math:`g` of layer :math:`l`, in order, none with tied keys, such that
    :math:`C_i` and :math:`D_i` have the same routings in all layers after :math:`l`. Then :math:`C_i \cap S
    = D_i \cap S`. *Proof*: suppose that the first :math:`i - 1` pieces agree and :math:`C_i` ends at
    :math:`s` before :math:`D_i` does. Where both lie along :math:`S`, what enters each later layer is the
    same from both sides: a ReLU is continuous, and routings agree. These maps are affine on each cell, so
    they are the same affine functions on the line of :math:`S`. As :math:`C_i` ends at :math:`s`, some line
    of it crosses :math:`S` there: the pre-activation of a unit, or the lead of the winner over another key,
    is an affine function on :math:`S`, not constant, and vanishes at :math:`s`. It is the same function for
    :math:`D_i`, whose bit or routing is settled by its sign before :math:`s`; so :math:`D_i` ends at
    :math:`s` too. (Lines of layers up to :math:`l` are the same on both sides anyway.) The same holds across
    a wall between two keys with equal outputs.

    Examples
    --------
    >>> from hardmax.geometry.domains import Box
    >>> from hardmax.networks.blocks import FeedForward
    >>> from hardmax.networks.network import Network
    >>> from hardmax.networks.layers import layers_of
    >>> from hardmax.regions.plane.machine import PlaneMachine
    >>> net = Network([FeedForward([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], [[1.0, 1.0]], [0.0])])
    >>> layers, square = layers_of(net), Box.cube(2, -1, 1)
    >>> machine = PlaneMachine(layers, square, arithmetic="certified", store=True, sliver=0.0)
    >>> machine.advance(1000)
    >>> contacts = adjacent_cells(machine.cells(), layers, machine.exact_maps)
    >>> contacts.pairs.tolist(), contacts.lengths.tolist(), len(contacts.uncovered)
    ([[0, 1], [0, 2], [1, 3], [2, 3]], [1.0, 1.0, 1.0, 1.0], 0)
    """
    search = _Search(cells, layers, exact)
    search.overlay()
    search.decide_postponed()
    search.match_leftovers()
    return search.contacts()


def lengths_of_contacts(
    cells: Cells, layers: tuple[Layer, ...], exact: ExactMaps, contacts: Contacts
) -> Floats:
    """The lengths of the common segments, those that floats left unclear measured in rationals.

    Each is right up to a proven relative error of ``LENGTH_ERROR``.
    """
    unclear = np.flatnonzero(contacts.lengths == kernels.UNCLEAR)
    if not len(unclear):
        return contacts.lengths
    search = _Search(cells, layers, exact)
    lengths = contacts.lengths.copy()
    for k in unclear.tolist():
        (a, b), (c, d) = (sorted(search.ends(edge)) for edge in contacts.edges[k].tolist())
        lengths[k] = search.length(int(contacts.edges[k, 0]), max(a, c), min(b, d))
    lengths.setflags(write=False)
    return lengths


_ALWAYS = 256  # so few edges are not worth filtering
_FINENESS = 1e-6  # of angles, and of distances relative to the extent of the edges


class _Search:
    """The edges of all cells, their groups, and the contacts found so far."""

    def __init__(self, cells: Cells, layers: tuple[Layer, ...], exact: ExactMaps) -> None:
        self.cells, self.layers, self.exact = cells, layers, exact
        self.n_edges = len(cells.owner)
        self.cell_of = cells.facets.cell_of
        self.group, representative = self._groups()
        self.owner = cells.owner[representative]
        self.wall = cells.wall[representative]
        self.representative = representative
        self.info = self._describe()
        self.state = np.zeros(self.n_edges, dtype=np.uint8)
        self.found: list[tuple[int, int, int, float]] = []
        self._lines: dict[int, tuple[int, int, int]] = {}

    def _groups(self) -> tuple[Integers, Integers]:
        slots = np.full(1 << (2 * max(self.n_edges, 4) - 1).bit_length(), -1, dtype=np.int64)
        group = np.empty(self.n_edges, dtype=np.int64)
        representative = np.empty(self.n_edges, dtype=np.int64)
        owner, wall = frozen(self.cells.owner), frozen(self.cells.wall)
        count = kernels.name_groups(owner, wall, slots, group, representative)
        return group, representative[:count].copy()

    def _describe(self) -> Integers:
        """Kind, unit, head and keys of every group."""
        info = np.full((len(self.owner), kernels.FIELDS), -1, dtype=np.int64)
        info[:, kernels.OWNER] = self.owner
        info[:, kernels.KIND] = kernels.FOLD
        drawn = np.flatnonzero(self.owner >= 0)
        layer_of, group, a, b = _decode_walls(self.wall[drawn])
        heads_after = 0
        for number, layer in enumerate(self.layers):
            at = layer_of == number
            rows = drawn[at]
            if layer.units:
                info[rows, kernels.UNIT] = layer.unit_slice.start + group[at]
                info[rows, kernels.FIRST_HEAD] = heads_after
            elif layer.heads:
                walls = cast(ArgmaxLayer, layer)
                info[rows, kernels.HEAD] = walls.first_head + group[at]
                info[rows, kernels.ROW_A], info[rows, kernels.ROW_B] = a[at], b[at]
                info[rows, kernels.KEY_A], info[rows, kernels.KEY_B] = walls.key[a[at]], walls.key[b[at]]
                info[rows, kernels.FIRST_HEAD] = walls.first_head
                info[rows, kernels.KIND] = kernels.BEND
                if walls.jumps:
                    values = _classes(walls.outputs)
                    quiet = values[a[at]] == values[b[at]]
                    info[rows, kernels.KIND] = np.where(quiet, kernels.QUIET_WALL, kernels.WALL)
                heads_after = walls.head_slice.stop
        return info

    # compiled

    def overlay(self) -> None:
        """Overlay the two sides of every group in floats; what stays open is postponed."""
        cells, edges = self.cells, self.n_edges
        start = np.zeros(len(self.owner) + 1, dtype=np.int64)
        order = np.empty(edges, dtype=np.int64)
        kernels.by_group(self.group, start, order)
        self.group_start, self.order = start, order
        most = int(np.diff(start).max(initial=1))
        far = cells.unbounded
        nothing = frozen(np.zeros(1))
        self.out_edges = np.empty((edges, 2), dtype=np.int64)
        self.out_kind = np.empty(edges, dtype=np.uint8)
        self.out_length = np.empty(edges)
        postponed = np.empty(len(self.owner), dtype=np.int64)
        directions = (cells.dx, cells.dy) if far else (nothing, nothing)
        lines = [frozen(array) for array in (cells.vx, cells.vy, cells.vr, *directions)]
        signatures = frozen(cells.bits), frozen(cells.routings), frozen(cells.tied)
        self.n_found, count = kernels.overlay(
            order, start, self.group, self.info, frozen(cells.facets.offsets), self.cell_of,
            *lines, far, *signatures,
            *np.zeros((2, 2 * most)), *np.zeros((2, 2 * most), dtype=np.int64), np.zeros(most),
            *np.zeros((3, most), dtype=np.int64), np.zeros(2),
            self.out_edges, self.out_kind, self.out_length, self.state, postponed,
        )  # fmt: skip
        self.postponed = postponed[:count]

    # exact

    def line(self, edge: int) -> tuple[int, int, int]:
        """The exact line of an edge in lowest terms, the first of its nonzero coefficients positive."""
        group = int(self.group[edge])
        if group not in self._lines:
            cell = int(self.cell_of[edge])
            if self.owner[group] == DOMAIN_SIDE:
                row = self.exact.domain_line(int(self.wall[group]))
            else:
                signature = self.cells.bits[cell], self.cells.routings[cell]
                row = self.exact.line(*decode_wall(int(self.wall[group])), *signature)
            divisor = gcd(*row) * (1 if row[0] > 0 or (row[0] == 0 and row[1] > 0) else -1)
            self._lines[group] = (row[0] // divisor, row[1] // divisor, row[2] // divisor)
        return self._lines[group]

    def ends(self, edge: int) -> tuple[Position, Position]:
        """Where an edge starts and ends on its line: the coordinate in which the line runs faster."""
        edges = self.cells.facets.span(int(self.cell_of[edge]))
        first, stop = edges.start, edges.stop
        after = edge + 1 if edge + 1 < stop else first
        before = edge - 1 if edge > first else stop - 1
        return self._position(edge, before, edge), self._position(edge, after, after)

    def _position(self, edge: int, other: int, vertex: int) -> Position:
        a, b, c = self.line(edge)
        along_x = abs(b) >= abs(a)
        if self.owner[self.group[other]] == AT_INFINITY:
            direction = (self.cells.dx if along_x else self.cells.dy)[vertex]
            return (1 if direction > 0 else -1), flint.fmpq(0)
        a_, b_, c_ = self.line(other)
        w = a * b_ - a_ * b
        if w == 0:
            raise CertificateError(
                f"edges {edge} and {other} of cell {int(self.cell_of[edge])} follow each other on one line."
            )
        return 0, flint.fmpq(b * c_ - b_ * c if along_x else c * a_ - c_ * a, w)

    def length(self, edge: int, low: Position, high: Position) -> float:
        """The length of a part of the line of an edge, rounded at the end."""
        if low[0] or high[0]:
            return inf
        a, b, _ = self.line(edge)
        slope = flint.fmpq(a, b) if abs(b) >= abs(a) else flint.fmpq(b, a)
        return _float(high[1] - low[1]) * float(np.hypot(1.0, _float(slope)))

    def decide_postponed(self) -> None:
        """Overlay the groups that floats left open."""
        for group in self.postponed.tolist():
            edges = self.order[self.group_start[group] : self.group_start[group + 1]]
            self._overlay_exactly(edges.tolist())

    def match_leftovers(self) -> None:
        """Contacts of edges with different names on one line: compare the exact lines of uncovered edges."""
        uncovered = np.flatnonzero(self.state == kernels.UNCOVERED)
        uncovered = uncovered[possibly_collinear(self.cells, self.cell_of, self.group, uncovered)]
        lines: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for edge in uncovered.tolist():
            lines[self.line(edge)].append(edge)
        for edges in lines.values():
            if len({int(self.group[edge]) for edge in edges}) > 1:
                self.state[edges] = kernels.COVERED
                self._overlay_exactly(edges)

    def _overlay_exactly(self, edges: Iterable[int]) -> None:
        """Overlay edges of one line: those that run up it against those that run down."""
        up: list[_Piece] = []
        down: list[_Piece] = []
        for edge in edges:
            start, end = self.ends(edge)
            if start < end:
                up.append(_Piece(start, end, edge))
            else:
                down.append(_Piece(end, start, edge))
        for pieces in (up, down):
            pieces.sort(key=lambda piece: piece.low)
        for here, there in _overlaps(up, down):
            self._keep(here, there)
        for piece in up + down:
            if not piece.covered:
                self.state[piece.edge] = kernels.UNCOVERED

    def _keep(self, here: _Piece, there: _Piece) -> None:
        e, f = here.edge, there.edge
        length = self.length(e, max(here.low, there.low), min(here.high, there.high))
        kinds = self.info[[self.group[e], self.group[f]], kernels.KIND]
        self.found.append((e, f, int(kinds.max()), length))

    # result

    def contacts(self) -> Contacts:
        """Everything that was found, sorted."""
        m = self.n_found
        edges, kind, length = self.out_edges[:m], self.out_kind[:m], self.out_length[:m]
        if self.found:
            more = np.array([(e, f) for e, f, _, _ in self.found], dtype=np.int64)
            edges = np.concatenate([edges, more])
            kind = np.concatenate([kind, np.array([k for _, _, k, _ in self.found], dtype=np.uint8)])
            length = np.concatenate([length, np.array([l for _, _, _, l in self.found])])
        n = len(edges)
        pairs, sides = np.empty((n, 2), dtype=np.int64), np.empty((n, 2), dtype=np.int64)
        kinds, lengths = np.empty(n, dtype=np.uint8), np.empty(n)
        start, order = np.zeros(self.cells.n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
        kernels.sort_contacts(
            edges, kind, length, n, self.cell_of, start, order, pairs, kinds, lengths, sides
        )
        uncovered = np.flatnonzero(self.state == kernels.UNCOVERED)
        result = Contacts(pairs, kinds, lengths, sides, uncovered)
        for array in result:
            array.setflags(write=False)
        return result


@dataclass
class _Piece:
    """An edge as an interval of its line, and how far it is covered from below."""

    low: Position
    high: Position
    edge: int
    reached: Position | None = None

    @property
    def covered(self) -> bool:
        return self.reached == self.high

    def cover(self, low: Position, high: Position) -> None:
        if (self.reached or self.low) == low:  # pieces come in order, so a gap stays a gap
            self.reached = high


def _overlaps(up: list[_Piece], down: list[_Piece]) -> Iterable[tuple[_Piece, _Piece]]:
    """Pairs of pieces that overlap in positive length; both lists in order and free of overlaps."""
    i = j = 0
    while i < len(up) and j < len(down):
        here, there = up[i], down[j]
        low, high = max(here.low, there.low), min(here.high, there.high)
        if low < high:
            here.cover(low, high)
            there.cover(low, high)
            yield here, there
        if here.high == high:
            i += 1
        if there.high == high:
            j += 1


def _float(value: flint.fmpq) -> float:
    p, q = int(value.p), int(value.q)
    try:
        return p / q
    except OverflowError:
        return inf if p > 0 else -inf


def _decode_walls(codes: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """``decode_wall`` for many codes."""
    layer, group, a = encode_wall(1, 0), encode_wall(0, 1), encode_wall(0, 0, 1)
    return codes // layer, codes % layer // group, codes % group // a, codes % a


def _classes(values: ExactArray) -> Integers:
    """Equal rows have equal numbers."""
    if values.fractions is None:
        keys = [row.tobytes() for row in values.floats]
    else:
        keys = [tuple(row) for row in values.fractions]
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def possibly_collinear(
    cells: Cells, cell_of: NDArray[np.int64], group: NDArray[np.int64], edges: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of the edges cannot be told from the line of an edge with another name, in floats.

    Errs on the side of yes: edges that are too short, too uncertain or unbounded are always kept.
    """
    keep = np.ones(len(edges), dtype=np.bool_)
    if len(edges) <= _ALWAYS:
        return keep
    last = edges + 1 == cells.facets.offsets[cell_of[edges] + 1]
    after = np.where(last, cells.facets.offsets[cell_of[edges]], edges + 1)
    x, y, x_, y_ = cells.vx[edges], cells.vy[edges], cells.vx[after], cells.vy[after]
    r = cells.vr[edges] + cells.vr[after]
    if cells.unbounded:
        d = [np.abs(v[at]) for v in (cells.dx, cells.dy) for at in (edges, after)]
        r = np.where(sum(d) > 0.0, np.inf, r)
    length = np.hypot(x_ - x, y_ - y)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.maximum(np.hypot(x, y), np.hypot(x_, y_))
        angle_error = 4.0 * r / length
        known = (angle_error < _FINENESS / 4) & np.isfinite(reach)
        extent = float(reach[known].max(initial=1.0))
        known &= angle_error * reach + 4.0 * r < _FINENESS * extent / 4
        nx, ny = -(y_ - y) / length, (x_ - x) / length
    flip = (ny < 0) | ((ny == 0) & (nx < 0))
    nx, ny = np.where(flip, -nx, nx), np.where(flip, -ny, ny)
    angle, offset = np.arctan2(ny, nx), (nx * x + ny * y) / extent
    near_zero = known & (angle < 4 * _FINENESS)  # seen from the other side, the angle is beyond pi
    places = np.concatenate([np.flatnonzero(known), np.flatnonzero(near_zero)])
    angle = np.concatenate([angle[known], angle[near_zero] + np.pi])
    offset = np.concatenate([offset[known], -offset[near_zero]])
    names = group[edges][places]
    shared = np.zeros(len(edges), dtype=np.bool_)
    for shift_a in (0.0, 0.5):  # two points closer than half a cell share one in some of the shifted grids
        for shift_o in (0.0, 0.5):
            column = np.floor(angle / (4 * _FINENESS) + shift_a).astype(np.int64)
            row = np.floor(offset / (4 * _FINENESS) + shift_o).astype(np.int64)
            _, square = np.unique(np.stack([column, row], axis=1), axis=0, return_inverse=True)
            square = square.ravel()
            low = np.full(int(square.max(initial=0)) + 1, np.iinfo(np.int64).max)
            high = np.full(len(low), -1)
            np.minimum.at(low, square, names)
            np.maximum.at(high, square, names)
            shared[places[low[square] != high[square]]] = True
    return shared | ~known
