r"""Cells that linear programs found, in any dimension: facets, which cells are bounded, which touch.

The candidates of a cell are the hyperplanes that cut it out of the domain on the way to it, among them all
its facets. What is known about them is found out when it is first asked for, by compiled linear programs with
proven error bounds, and in integers where those leave a question open.

*Facets.* A hyperplane :math:`l` of a cell :math:`\{y : g_k \cdot y > 0\}` holds a facet when the cell's rows
with :math:`g_l` turned round still have a solution. A cell is unbounded when all its slopes are
nonnegative in some direction.

*Contacts.* Across the fold of a unit the map is continuous, so the later hyperplanes of both sides meet the
fold in the same places: the cell beyond a facet is the one whose signature differs in that unit only, if no
keys are tied in either of them. Across a wall the map jumps, and signatures beyond may differ in many places;
there, and wherever a fold has no such partner, pairs of facets in one hyperplane are tested for a common part
of dimension :math:`d - 1`. Two cells that touch have the same signature up to some layer and part in it, so
the hyperplane between them was drawn in that layer, in one and the same layer cell; only facets drawn there
are paired.

*Integers.* A cone is a list of integer rows, meant as :math:`g_l \cdot y > 0`, with the row of :math:`x_0`
among them where that matters. Everything is reduced to strict feasibility
(:func:`~hardmax.geometry.feasibility.rational_programs.separate`): a solution, or rows with a positive
combination that vanishes. In the second case all of these rows are zero wherever none of them is negative, so
what is left to look at is the subspace where they vanish.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, frexp, gcd, lcm
from typing import Any, NamedTuple

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedDimensionError
from hardmax.exact.rationals import ExactArray
from hardmax.exact.residues import common_denominator
from hardmax.geometry.domains import Box
from hardmax.geometry.feasibility.rational_programs import Separation, separate
from hardmax.networks.layers import ArgmaxLayer, Layer, ReluLayer
from hardmax.regions.cells import DOMAIN_SIDE, Cells, Contacts, decode_wall
from hardmax.regions.engine import layer_kernels
from hardmax.regions.engine.program import Program
from hardmax.regions.engine.stack_machine import allocated, types_of
from hardmax.regions.geometries import Geometry
from hardmax.regions.maps.exact_maps import ExactMaps, Name
from hardmax.regions.search import kernels
from hardmax.regions.search.integer_kernels import (
    DENOMINATOR,
    MOST,
    OUT_CONSTANT,
    OUT_SUM,
    OUT_UNIT,
    Z_CONSTANT,
    Z_SUM,
    Z_UNIT,
    Units,
)
from hardmax.regions.search.simplex_kernels import Simplex

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_REMEMBERED = 4096  # cells whose rows are kept as integers
IntegerRow = tuple[int, ...]


def _no_limit() -> None:
    """There is as much time as it takes."""


class HalfspaceGeometry(Geometry):
    """What can be asked about cells without a list of vertices."""

    @cached_property
    def outline(self) -> Outline:
        """Which candidates are facets."""
        return Outline(self.cells, self.exact)

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded: those of a box all are."""
        if isinstance(self.exact.domain, Box):
            return np.ones(self.cells.n, dtype=np.bool_)
        return self.outline.facets.bounded

    @property
    def sizes(self) -> tuple[None, None]:
        """Linear programs compute no volumes."""
        return None, None

    @property
    def vertices(self) -> Floats:
        """Vertices are not known here."""
        raise self._too_many()

    def cell_vertices(self, i: int) -> Floats:
        """Vertices are not known here."""
        raise self._too_many()

    def exact_vertices(self, i: int) -> list[list[Fraction]]:
        """Vertices are not known here."""
        raise self._too_many()

    def facet_name(self, f: int) -> Name:
        """The name of facet ``f`` of all cells."""
        return int(self.outline.facets.owner[f]), int(self.outline.facets.wall[f])

    def _too_many(self) -> UnsupportedDimensionError:
        return UnsupportedDimensionError(
            f"vertices are not computed in dimension {self.d}, where cells have too many; try "
            "halfspaces(i), or a slice, network.restrict(origin, directions)."
        )

    def boundary(self, i: int) -> list[Name]:
        """The names (owner, wall) of the facets of a cell, in the order in which they were drawn."""
        facets = self.outline.facets
        at = slice(int(facets.start[i]), int(facets.start[i + 1]))
        return list(zip(facets.owner[at].tolist(), facets.wall[at].tolist(), strict=True))

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells; sizes are not known (NaN), ``edges`` number the facets of all cells."""
        return _Contact(self.cells, self.exact.layers, self.outline).found()


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
        self.program = Program.of(exact.layers, columns=self.n)
        self.sign = self._signs()
        self.rows_of = lru_cache(_REMEMBERED)(self._rows_of)
        size = int(cells.facets.counts.max(initial=0)) + 2
        self.base = base_of(2 * size + 2, self.n)
        box = exact.domain if isinstance(exact.domain, Box) else None
        self.work, self.simplex = workspace(2 * size, self.n, self.program.widest, box)
        _, self.cone_simplex = workspace(2 * size, self.n, self.program.widest, None)
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
        for number in range(self.program.last + 1):
            layer, at = self.program.row(number), layer_of == number
            rows, place = drawn[at], layer.first + group[at]
            owner = self.cell_of[rows]
            if layer.heads:
                higher = cells.routings[owner, place] == self.program.key_of[layer.offsets + b[at]]
            else:
                shift = (place & 63).astype(np.uint64)
                higher = (cells.bits[owner, place >> 6] >> shift) & np.uint64(1) == 1
            sign[rows] = np.where(higher, 1, -1)
        return sign

    def _trace(self) -> None:
        cells, n, program, row_at = self.cells, self.n, self.program, self.program.row_at
        path = np.zeros(program.path_size)
        for k in range(n - 1):
            path[k * (n - 1) + k] = 1.0
        sides, side_errors = unit_sides(self.exact)
        bits, routings = plain(cells.bits, program.words), plain(cells.routings, program.heads)
        kernels.outline(
            program.net, program.last, n, path,
            np.zeros((program.last + 2, layer_kernels.ERRORS)), np.zeros(program.sign_size, dtype=np.int64),
            np.zeros((int(row_at[-1]) + 1, n)), np.zeros(int(row_at[-1]) + 1), row_at, bits, routings,
            plain(cells.tied), plain(cells.facets.offsets), plain(self.codes), self.sign,
            plain(cells.witnesses), sides, side_errors, self.rows, self.errors, self.verdict, self.unbounded,
            domain_is_bounded(self.exact), self.base, self.work, self.simplex,
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

    def _rows_of(self, i: int) -> list[IntegerRow]:
        """The rows of the candidates of cell i as integers, positive inside."""
        return [self.row(c) for c in self.cells.facets.span(i)]

    def row(self, c: int) -> IntegerRow:
        """The row of candidate c as integers."""
        code, sign, i = int(self.codes[c]), int(self.sign[c]), int(self.cell_of[c])
        bits = np.append(self.cells.bits[i], np.uint64(0))
        return exact_row(self.exact, code, sign, bits, self.cells.routings[i])

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


def exact_row(
    exact: ExactMaps, code: int, sign: int, bits: NDArray[np.uint64], routings: NDArray[np.int32]
) -> IntegerRow:
    """A row of a cone as integers, positive inside."""
    if code == kernels.INFINITY:
        return (*[0] * exact.d, 1)
    if code <= kernels.SIDE:
        return exact.domain_line(kernels.SIDE - code)
    row = exact.line(*decode_wall(code), bits, routings)
    return row if sign > 0 else tuple(-v for v in row)


def unit_sides(exact: ExactMaps) -> tuple[Floats, Floats]:
    """The sides of the domain as rows of length 1, nonnegative inside, with bounds on their errors."""
    a, b = exact.domain.halfspaces()
    rows = np.column_stack([-a, b])
    rounded = exact.domain.a.rounded or exact.domain.b.rounded
    with np.errstate(all="ignore"):
        length = np.sqrt((rows * rows).sum(axis=1))
        tame = (length > 1.0 / layer_kernels.TAME) & (length < layer_kernels.TAME)
        unit = np.where(tame[:, None], rows / length[:, None], 0.0)
    return unit, np.where(tame, (2.0 + 2.0 * rounded) * layer_kernels.UNIT, np.inf)


def domain_is_bounded(exact: ExactMaps, check_time: Callable[[], None] = _no_limit) -> bool:
    """Whether the domain is bounded: a box is, whatever its dimension, and only a polytope takes programs."""
    domain = exact.domain
    if isinstance(domain, Box):
        return True
    return is_bounded([exact.domain_line(i) for i in range(domain.b.shape[0])], exact.d, check_time)


def bounding_box(
    rows: Sequence[IntegerRow], inside: Sequence[flint.fmpq], check_time: Callable[[], None] = _no_limit
) -> Box:
    """A box around a bounded polytope, given by rows and a point inside; it is at most a few times as wide.

    A bound is moved away until rationals prove that nothing lies beyond. It has few digits, so that whole
    numbers speak of it, too.

    >>> rows = [(1, 0, 0), (0, 1, 0), (-1, -1, 1), (0, 0, 1)]
    >>> box = bounding_box(rows, [flint.fmpq(1, 4), flint.fmpq(1, 4), flint.fmpq(1)])
    >>> bool((box.low.floats <= 0).all()), bool((box.high.floats >= 1).all())
    (True, True)
    """
    d = len(inside) - 1
    ends = np.zeros((2, d))
    for k in range(d):
        middle = _ratio(inside[k]) / _ratio(inside[d])
        for side, sign in enumerate((-1, 1)):
            end = middle
            while True:
                bound = _outwards(end, middle, sign)  # what follows is about the float
                beyond = [0] * (d + 1)
                beyond[k], beyond[d] = sign * bound.denominator, -sign * bound.numerator
                point = inner_point([*rows, tuple(beyond)], check_time)
                if point is None:
                    break
                end = middle + 2 * (_ratio(point[k]) / _ratio(point[d]) - middle)
            ends[side, k] = float(bound)
    return Box(ends[0], ends[1])


def _outwards(end: Fraction, middle: Fraction, sign: int) -> Fraction:
    """A float of few digits at the end, or beyond by less than a thirtieth of the way from the middle."""
    far = float(end - middle)
    if far == 0.0:
        return Fraction(float(end))
    step = Fraction(2) ** (frexp(far)[1] - 6)
    return Fraction(float(sign * ceil(sign * end / step) * step))


def _ratio(value: flint.fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def units_of(layers: tuple[Layer, ...], box: Box | None, sides: Sequence[IntegerRow] = ()) -> Units:
    """The units of the last place of a network whose weights have few bits; zeros where they have not.

    Rows and what leaves have a common denominator on cells without tied keys: its power of two gives the
    unit.
    """
    table = np.zeros((len(layers) + 1, 7))
    entering = 1  # the identity enters
    for row, layer in zip(table, layers, strict=False):
        weights = layer.scores
        scores = entering if weights is None else entering * common_denominator(weights)
        scores = lcm(scores, common_denominator(layer.biases))
        row[Z_UNIT], row[DENOMINATOR] = _unit(scores)
        row[Z_SUM] = 1.0 if weights is None else _row_sum(weights)
        row[Z_CONSTANT] = _size(layer.biases)
        leaving = scores
        row[OUT_SUM] = 1.0
        if isinstance(layer, ReluLayer):
            leaving = lcm(scores * common_denominator(layer.outputs), common_denominator(layer.offsets))
            row[OUT_SUM], row[OUT_CONSTANT] = _row_sum(layer.outputs), _size(layer.offsets)
        elif isinstance(layer, ArgmaxLayer) and layer.jumps:  # means of outputs are looked at cell by cell
            leaving = lcm(common_denominator(layer.outputs), entering)
            row[OUT_SUM], row[OUT_CONSTANT] = 0.0, layer.heads * _size(layer.outputs)
        unit, odd = _unit(leaving)
        row[OUT_UNIT] = unit if odd == 1.0 else 0.0  # floats round thirds
        entering = leaving
        if not row[Z_UNIT] > 0.0:
            break
    corner = 0.0
    if box is not None and not (box.low.rounded or box.high.rounded):
        corner, _ = _unit(lcm(common_denominator(box.low), common_denominator(box.high)))
    small = [[float(v) for v in row] if max(map(abs, row)) < 2**53 else [0.0] * len(row) for row in sides]
    return Units(table, np.array([corner]), np.array(small or [[0.0]]))


def _unit(denominator: int) -> tuple[float, float]:
    """One over the power of two in a denominator, and the odd part of that; zeros where they are too large.

    >>> _unit(12)
    (0.25, 3.0)
    """
    power = denominator & -denominator
    odd = denominator // power
    return (1.0 / power, float(odd)) if power < 1 << 900 and odd <= MOST else (0.0, 0.0)


def _size(array: ExactArray) -> float:
    return float(np.abs(array.floats).max(initial=0.0))


def _row_sum(array: ExactArray) -> float:
    return float(np.abs(array.floats).sum(axis=1).max(initial=0.0))


def base_of(size: int, n: int) -> kernels.Base:
    """Room for so many rows of cones."""
    base: kernels.Base = allocated(
        kernels.Base, {"rows": (size, n), "error": size, "code": size, "sign": size}
    )
    return base


def workspace(
    size: int, n: int, widest: int, box: Box | None, *, is_domain: bool = True
) -> tuple[kernels.Work, Simplex]:
    """Room for a node, and for linear programs with so many rows of length n: in a box, or in a cone.

    The box may be the domain, or one around it, whose sides mean nothing."""
    widest = max(widest, n) + 1
    cell = dict.fromkeys(("choice", "word", "units", "wins"), widest) | dict.fromkeys(
        ("w", "below", "z"), n + 1
    )
    cell |= {"cuts": 2 * (size + 2), "hidden": n * widest, "above": widest + 1}
    program: dict[str, Any] = dict.fromkeys(types_of(Simplex), n + 1)
    program |= {"reach": 1, "sides": 1, "work": 1, "size": 1, "lifted_error": size + 2}
    program |= {"lifted": (size + 2, n + 1), "codes_kept": (n + 1, 2)}
    program |= dict.fromkeys(("inverse", "square", "whole"), (n + 1, n + 1))
    simplex: Simplex = allocated(Simplex, program)
    if box is None:
        simplex.low[:], simplex.high[:] = -1.0, 1.0
    else:
        _set_bounds(simplex, box)
        simplex.sides[0] = 2 * box.d if is_domain else 0
    return allocated(kernels.Work, cell | {"points": (widest, n + 1)}), simplex


def _set_bounds(simplex: Simplex, box: Box) -> None:
    """The box as bounds of (x, 1), rounded outwards, and those of t.

    Products with the bounds must neither overflow nor be lost, so nothing is certain in a box that is larger
    than 1e30.
    """
    low, high, d = box.low.floats, box.high.floats, box.d
    simplex.low[:d] = np.nextafter(low, -np.inf) if box.low.rounded else low
    simplex.high[:d] = np.nextafter(high, np.inf) if box.high.rounded else high
    simplex.low[d] = simplex.high[d] = 1.0
    corner = np.maximum(np.abs(low), np.abs(high))
    # three times: a program about a side goes beyond it, as far as the box is wide
    within = corner.max() < 1e30
    reach = 3.01 * np.sqrt(1.0 + float((corner**2).sum())) if within else np.inf
    simplex.reach[0] = reach
    simplex.low[d + 1], simplex.high[d + 1] = (-reach, reach) if within else (-1e30, 1e30)


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
    units, heads = np.arange(layer.unit_slice.start, layer.unit_slice.stop), layer.head_slice
    changed = (cells.bits[1:] ^ cells.bits[:-1])[:, units >> 6] >> (units & 63).astype(np.uint64)
    parted = (changed & np.uint64(1)).any(axis=1)
    return np.asarray(parted | (cells.routings[1:, heads] != cells.routings[:-1, heads]).any(axis=1))


class _Contact:
    """The pairs of cells that meet in dimension d - 1, found facet by facet."""

    def __init__(self, cells: Cells, layers: tuple[Layer, ...], outline: Outline) -> None:
        self.cells, self.layers, self.outline = cells, layers, outline
        self.pairs: dict[tuple[int, int], tuple[int, int, int]] = {}

    def found(self) -> Contacts:
        outline = self.outline
        true = np.flatnonzero((outline.verdict == 1) & (outline.codes >= 0))
        number = np.cumsum(outline.verdict == 1) - 1  # of each facet among the facets of all cells
        left = self._by_signature(true)
        beyond = self._by_programs(left)
        pairs = np.array(sorted(self.pairs), dtype=np.int64).reshape(-1, 2)
        found = [self.pairs[i, j] for i, j in pairs.tolist()]
        return Contacts(
            pairs=pairs,
            kinds=np.array([kind for kind, _, _ in found], dtype=np.uint8),
            lengths=np.full(len(pairs), np.nan),
            edges=number[np.array([edges for _, *edges in found], dtype=np.int64).reshape(-1, 2)],
            uncovered=number[np.array(beyond, dtype=np.int64)],
        )

    def _add(self, f: int, g: int, kind: int) -> None:
        i, j = int(self.outline.cell_of[f]), int(self.outline.cell_of[g])
        if i > j:
            i, j, f, g = j, i, g, f
        self.pairs[i, j] = kind, f, g

    def _by_signature(self, true: Integers) -> list[int]:
        """Match facets on folds with those of the cell beyond; returns those that are left."""
        cells = self.cells
        facet_of = {(int(self.outline.cell_of[f]), int(self.outline.codes[f])): int(f) for f in true.tolist()}
        index = {
            (cells.bits[i].tobytes(), cells.routings[i].tobytes()): i
            for i in range(cells.n)
            if not cells.tied[i]
        }
        left = []
        for f in true.tolist():
            i, code = int(self.outline.cell_of[f]), int(self.outline.codes[f])
            layer, unit, _, _ = decode_wall(code)
            block = self.layers[layer]
            partner = None
            if block.units and not cells.tied[i]:
                bits = cells.bits[i].copy()
                u = block.unit_slice.start + unit
                bits[u >> 6] ^= np.uint64(1) << np.uint64(u & 63)
                j = index.get((bits.tobytes(), cells.routings[i].tobytes()))
                partner = None if j is None else facet_of.get((j, code))
            if partner is None:
                left.append(f)
            else:
                self._add(f, partner, 0)
        return left

    def _by_programs(self, left: list[int]) -> list[int]:
        """Test pairs of facets in one hyperplane; returns the facets that have nothing beyond."""
        groups: dict[tuple[int, IntegerRow], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        cell = self.outline.cell_of[left]
        layer = decoded(self.outline.codes[left])[0]
        owners = self.outline.layer_cells(layer, cell)
        for f, owner, number in zip(left, owners.tolist(), layer.tolist(), strict=True):
            row = reduced(self.outline.row(f))
            turned = tuple(-v for v in row)
            groups[owner * len(self.layers) + number, max(row, turned)][int(row > turned)].append(f)
        tests = [(f, g) for below, above in groups.values() for f in below for g in above]
        covered = set()
        for (f, g), meet in zip(tests, self._touch(tests), strict=True):
            if meet:
                number = decode_wall(int(self.outline.codes[f]))[0]
                self._add(f, g, int(self.layers[number].jumps))
                covered |= {f, g}
        return [f for f in left if f not in covered]

    def _touch(self, tests: list[tuple[int, int]]) -> list[bool]:
        if not tests:
            return []
        o = self.outline
        facets = np.array(tests, dtype=np.int64)
        table = np.ascontiguousarray(np.column_stack([o.cell_of[facets], facets]))
        verdict = np.zeros(len(tests), dtype=np.uint8)
        kernels.touching(
            table, plain(self.cells.facets.offsets), plain(o.codes), o.sign, o.rows, o.errors, o.n, verdict,
            o.base, o.work.z, o.cone_simplex,
        )  # fmt: skip
        answers = []
        for (i, j, f, _), found in zip(table.tolist(), verdict.tolist(), strict=True):
            if found == 2:
                rows = [*o.rows_of(i), *o.rows_of(j), o.infinity]
                found = share_facet(o.row(f), rows)
            answers.append(bool(found))
        return answers


def times(row: Sequence[int], point: Sequence[Any]) -> Any:
    """The value of a row at a point.

    >>> times((1, 2), [flint.fmpq(1, 2), flint.fmpq(1, 4)])
    1
    """
    return sum((a * b for a, b in zip(row, point, strict=True)), flint.fmpz(0))


def reduced(row: IntegerRow) -> IntegerRow:
    """A row without common divisor.

    >>> reduced((4, -6, 0))
    (2, -3, 0)
    """
    divisor = gcd(*row)
    return row if divisor <= 1 else tuple(v // divisor for v in row)


def inner_point(
    rows: Sequence[IntegerRow], check_time: Callable[[], None] = _no_limit
) -> list[flint.fmpq] | None:
    """A point where every row is positive; ``None`` if there is none.

    ``check_time`` is called again and again, and may raise an exception.

    >>> inner_point([(1, 0), (-1, 1)]) is None, inner_point([(1, 0), (-1, 0)]) is None
    (False, True)
    """
    if not rows:
        return []
    found = _separated(rows, check_time)
    return None if found.witness is None else list(found.witness)


def _separated(rows: Sequence[IntegerRow], check_time: Callable[[], None] = _no_limit) -> Separation:
    """Floats look first, at rows that are rounded once; they mostly leave one exact solve to be done."""
    floats = np.zeros((len(rows), len(rows[0])))
    for i, row in enumerate(rows):
        bits = max(abs(v) for v in row).bit_length()
        floats[i] = [v / (1 << bits) if bits < 1000 else float(Fraction(v, 1 << bits)) for v in row]
    error = np.abs(floats).sum(axis=1) * 2.0**-52

    def exact_row(i: int) -> list[flint.fmpq]:
        check_time()
        return [flint.fmpq(v) for v in rows[i]]

    return separate(floats, row_error=error, exact_row=exact_row)


def facet_numbers(rows: Sequence[IntegerRow], asked: Sequence[int]) -> set[int]:
    """Which of the rows asked for are facets of the cone, of equal rows only the first.

    >>> facet_numbers([(1, 0), (0, 1), (1, 1), (0, 2)], [0, 1, 2, 3])
    {0, 1}
    """
    place: dict[IntegerRow, int] = {}
    for i, row in enumerate(rows):
        place.setdefault(reduced(row), i)
    different = list(place)
    found = set()
    for s, row in enumerate(different):
        if place[row] in asked:
            turned = [*different[:s], tuple(-v for v in row), *different[s + 1 :]]
            if inner_point(turned) is not None:
                found.add(place[row])
    return found


def is_bounded(rows: Sequence[IntegerRow], d: int, check_time: Callable[[], None] = _no_limit) -> bool:
    """Whether no direction but zero has nonnegative slope in every row (slopes first, the constant last).

    >>> is_bounded([(1, 0, 0), (0, 1, 0), (-1, -1, 1)], 2), is_bounded([(1, 0, 0), (-1, 0, 1)], 2)
    (True, False)
    """
    slopes = [row[:d] for row in rows if any(row[:d])]
    while d > 0:
        if not slopes:
            return False
        found = _separated(slopes, check_time)
        if found.witness is not None:
            return False
        # a direction that grows nowhere along these rows: go on in the subspace where they vanish
        d, slopes = _where_vanishing([slopes[i] for i in found.support], slopes)
    return True


def share_facet(hyperplane: IntegerRow, rows: Sequence[IntegerRow]) -> bool:
    """Whether the rows that do not vanish on a hyperplane are all positive somewhere on it.

    >>> share_facet((1, 0, 0), [(1, 0, 0), (0, 1, 0), (0, -1, 2), (-1, 0, 0), (0, 1, -1), (0, 0, 1)])
    True
    >>> share_facet((1, 0, 0), [(0, -1, 1), (0, 1, -1), (0, 0, 1)])
    False
    """
    _, inside = _where_vanishing([hyperplane], rows)
    return inner_point(inside) is not None


def _where_vanishing(zero: Sequence[IntegerRow], rows: Sequence[IntegerRow]) -> tuple[int, list[IntegerRow]]:
    """Rows as functions on the space where some vanish, those that vanish there left out; its dimension."""
    space, dimension = flint.fmpz_mat([list(row) for row in zero]).nullspace()
    if dimension == 0:
        return 0, []
    wide = space.nrows()
    basis = flint.fmpz_mat([[space[i, j] for j in range(dimension)] for i in range(wide)])
    different = list(dict.fromkeys(rows))
    moved = (flint.fmpz_mat([list(row) for row in different]) * basis).tolist() if different else []
    return dimension, [tuple(int(v) for v in row) for row in moved if any(row)]
