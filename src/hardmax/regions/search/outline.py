r"""Facets of the cells that the search found, and which cells are bounded: by linear programs.

A hyperplane :math:`l` of a cell :math:`\{y : g_k \cdot y > 0\}` holds a facet when the cell's rows with
:math:`g_l` turned round still have a solution. A cell is unbounded when all its slopes are nonnegative in
some direction. Compiled linear programs with proven error bounds answer, and rationals what those leave open.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.domains import Box
from hardmax.networks.layers import FoldLayer, Layer, WallLayer
from hardmax.regions.cells import DOMAIN_SIDE, Cells, decode_wall
from hardmax.regions.engine import layers
from hardmax.regions.engine.program import Program
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.search import kernels
from hardmax.regions.search.rational_programs import IntegerRow, facet_numbers, is_bounded

__all__ = ["Facets", "Outline", "decoded", "domain_is_bounded", "plain", "unit_sides"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_REMEMBERED = 4096  # cells whose rows are kept as integers


class Facets(NamedTuple):
    """The facets of all cells: those of cell i are ``start[i]:start[i + 1]``."""

    start: Integers
    owner: Integers
    wall: Integers
    bounded: NDArray[np.bool_]


class Outline:
    """Rows of all candidates, in floats with their errors and, on demand, as integers."""

    def __init__(self, cells: Cells, exact: ExactMaps) -> None:
        self.cells, self.exact = cells, exact
        self.n = cells.d + 1
        self.infinity: IntegerRow = (*[0] * cells.d, 1)
        self.cell_of = cells.facets.cell_of
        self.codes = np.where(cells.owner == DOMAIN_SIDE, kernels.SIDE - cells.wall, cells.wall)
        self.sign = self._signs()
        self._remembered: dict[int, list[IntegerRow]] = {}
        size = int(cells.facets.counts.max(initial=0)) + 2
        self.work = _workspace(2 * size + 2, self.n)
        self.rows = np.zeros((len(self.codes), self.n))
        self.errors = np.zeros(len(self.codes))
        self.verdict = np.zeros(len(self.codes), dtype=np.uint8)
        self.unbounded = np.zeros(cells.n, dtype=np.uint8)
        self._trace()
        self._decide()

    def _signs(self) -> Integers:
        """On which side of every candidate its cell lies: 1 where a unit is on or the higher key wins."""
        cells = self.cells
        sign = np.ones(len(self.codes), dtype=np.int64)
        drawn = np.flatnonzero(self.codes >= 0)
        layer_of, group, _, b = (np.asarray(v) for v in decoded(self.codes[drawn]))
        for number, layer in enumerate(self.exact.layers):
            at = layer_of == number
            rows, units = drawn[at], group[at]
            owner = self.cell_of[rows]
            if isinstance(layer, FoldLayer):
                u = layer.first_unit + units
                on = (cells.bits[owner, u >> 6] >> (u & 63).astype(np.uint64)) & np.uint64(1)
                sign[rows] = np.where(on == 1, 1, -1)
            elif isinstance(layer, WallLayer):
                routed = cells.routings[owner, layer.first_head + units]
                sign[rows] = np.where(routed == layer.key[b[at]], 1, -1)
        return sign

    def _trace(self) -> None:
        cells, n, t = self.cells, self.n, self.work
        program = Program.of(self.exact.layers, columns=n)
        table = program.table
        row_at = np.concatenate([[0], np.cumsum(table[: program.last + 1, layers.ROWS])]).astype(np.int64)
        path = np.zeros(program.path_size)
        for k in range(n - 1):
            path[k * (n - 1) + k] = 1.0
        sides, side_errors = unit_sides(self.exact)
        bits, routings = plain(cells.bits, program.words), plain(cells.routings, program.heads)
        kernels.outline(
            program.net, program.last, n, path,
            np.zeros((program.last + 2, layers.ERRORS)), np.zeros((int(row_at[-1]) + 1, n)),
            np.zeros(int(row_at[-1]) + 1), row_at, bits, routings,
            plain(cells.tied), plain(cells.facets.offsets), plain(self.codes), self.sign,
            plain(cells.witnesses), sides, side_errors, self.rows, self.errors, self.verdict, self.unbounded,
            domain_is_bounded(self.exact), t["base"], t["base_error"], t["base_code"], t["base_sign"],
            np.zeros(program.widest + 1, dtype=np.int64), np.zeros(program.widest + 1, dtype=np.int64),
            np.zeros(n * (program.widest + 1)), t["w"], t["z"],
            t["lifted"], t["lifted_error"], t["basis"], t["inverse"], t["multipliers"], t["y"], t["values"],
            t["c"],
        )  # fmt: skip

    def _decide(self) -> None:
        """What floats left open, in rationals."""
        start = self.cells.facets.offsets
        for i in np.unique(self.cell_of[self.verdict == 2]).tolist():
            at = slice(int(start[i]), int(start[i + 1]))
            open_ones = np.flatnonzero(self.verdict[at] == 2).tolist()
            facets = facet_numbers([*self.rows_of(i), self.infinity], open_ones)
            self.verdict[at][open_ones] = [int(f in facets) for f in open_ones]
        for i in np.flatnonzero(self.unbounded == 2).tolist():
            self.unbounded[i] = not is_bounded(self.rows_of(i), self.cells.d)

    def rows_of(self, i: int) -> list[IntegerRow]:
        """The rows of the candidates of cell i as integers, positive inside."""
        if i not in self._remembered:
            start = self.cells.facets.offsets
            while len(self._remembered) >= _REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
            self._remembered[i] = [self.row(c) for c in range(int(start[i]), int(start[i + 1]))]
        return self._remembered[i]

    def row(self, c: int) -> IntegerRow:
        """The row of candidate c as integers."""
        code, i = int(self.codes[c]), int(self.cell_of[c])
        if code <= kernels.SIDE:
            return self.exact.domain_line(kernels.SIDE - code)
        layer, group, a, b = decode_wall(code)
        bits = np.append(self.cells.bits[i], np.uint64(0))
        row = self.exact.line(layer, group, a, b, bits, self.cells.routings[i])
        return row if self.sign[c] > 0 else tuple(-v for v in row)

    @cached_property
    def facets(self) -> Facets:
        """The names of all facets."""
        cells = self.cells
        true = np.flatnonzero(self.verdict == 1)
        start = np.concatenate([[0], np.cumsum(np.bincount(self.cell_of[true], minlength=cells.n))])
        code = self.codes[true]
        side = code <= kernels.SIDE
        owner = np.where(side, DOMAIN_SIDE, self.layer_cells(decoded(code)[0], self.cell_of[true]))
        wall = np.where(side, kernels.SIDE - code, code)
        return Facets(start.astype(np.int64), owner, wall, self.unbounded == 0)

    def layer_cells(self, layer: Integers, cell: Integers) -> Integers:
        """The number of the layer cell a hyperplane was drawn in: the first cell whose signature agrees up to
        there."""
        owner = np.zeros(len(cell), dtype=np.int64)
        fresh = np.zeros(self.cells.n, dtype=np.bool_)
        fresh[:1] = True
        for number, block in enumerate(self.exact.layers):
            first = np.maximum.accumulate(np.where(fresh, np.arange(self.cells.n), 0))
            at = layer == number
            owner[at] = first[cell[at]]
            fresh[1:] |= _parts(self.cells, block)
        return owner


def unit_sides(exact: ExactMaps) -> tuple[Floats, Floats]:
    """The sides of the domain as rows of length 1, nonnegative inside, with bounds on their errors."""
    a, b = exact.domain.halfspaces()
    rows = np.column_stack([-a, b])
    rounded = exact.domain.a.rounded or exact.domain.b.rounded
    with np.errstate(all="ignore"):
        length = np.sqrt((rows * rows).sum(axis=1))
        tame = (length > 1.0 / layers.TAME) & (length < layers.TAME)
        unit = np.where(tame[:, None], rows / length[:, None], 0.0)
    return unit, np.where(tame, (2.0 + 2.0 * rounded) * layers.UNIT, np.inf)


def domain_is_bounded(exact: ExactMaps) -> bool:
    """Whether the domain is bounded: a box is, whatever its dimension, and only a polytope takes programs."""
    domain = exact.domain
    if isinstance(domain, Box):
        return True
    return is_bounded([exact.domain_line(i) for i in range(domain.b.shape[0])], exact.d)


def _workspace(size: int, n: int) -> dict[str, NDArray[Any]]:
    """Arrays for programs with so many rows of length n."""
    return {
        "base": np.zeros((size, n)),
        "base_error": np.zeros(size),
        "base_code": np.zeros(size, dtype=np.int64),
        "base_sign": np.zeros(size, dtype=np.int64),
        "lifted": np.zeros((size, n + 1)),
        "lifted_error": np.zeros(size),
        "basis": np.zeros(n + 1, dtype=np.int64),
        "inverse": np.zeros((n + 1, n + 1)),
        "multipliers": np.zeros(n + 1),
        "values": np.zeros(size + n + 2),
        **{name: np.zeros(n + 1) for name in ("w", "y", "z", "c")},
    }


def plain(array: NDArray[Any], columns: int | None = None) -> NDArray[Any]:
    """A contiguous copy that kernels take without compiling again for read-only arrays; never without
    columns."""
    if columns == 0:
        return np.zeros((len(array), 1), dtype=array.dtype)
    return np.array(array, order="C")


def decoded(codes: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Layer, group and keys of many codes (nonsense for sides of the domain)."""
    return codes >> 54, (codes >> 38) & 0xFFFF, (codes >> 19) & 0x7FFFF, codes & 0x7FFFF


def _parts(cells: Cells, layer: Layer) -> NDArray[np.bool_]:
    """Whether each cell but the first differs from the one before it in a layer."""
    if isinstance(layer, FoldLayer):
        units = np.arange(layer.first_unit, layer.first_unit + layer.units)
        changed = cells.bits[1:] ^ cells.bits[:-1]
        return np.asarray(
            ((changed[:, units >> 6] >> (units & 63).astype(np.uint64)) & np.uint64(1)).any(axis=1)
        )
    if isinstance(layer, WallLayer):
        heads = slice(layer.first_head, layer.first_head + layer.heads)
        return np.asarray((cells.routings[1:, heads] != cells.routings[:-1, heads]).any(axis=1))
    return np.zeros(max(cells.n - 1, 0), dtype=np.bool_)
