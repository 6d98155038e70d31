r"""The one kernel that cuts cells: common refinements of argmax partitions.

Each head cuts space by :math:`\arg\max_j (a_j \cdot x + b_j)`; all heads together by the common refinement (P1 Definition III.8), whose
full-dimensional cells are, for whole heads, the vertices of the Minkowski sum of their Newton polytopes (Definition III.13).

:func:`refine` takes the heads one after the other and cuts every cell found so far into the cells of the next head. Inside a cell the
winning keys are found by walking across walls, so the work follows the number of cells that exist, not the number of combinations.
Cells are cones: an affine problem is homogenised to :math:`y = (x, x_0)`, :math:`x_0 \ge 0`, a linear one is a cone already. Signs are
proven in floats or decided in rationals (``splitting_kernels``, ``rational_splitting``); nothing is perturbed, so duplicates, ties,
collinear keys and vertices on many facets are ordinary input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.algebra.rationals import rational
from hardmax.errors import CertificateError, DimensionMismatchError, EmptyDomainError, InvalidInputError
from hardmax.geometry import splitting_kernels as kernels
from hardmax.geometry.candidates import candidate_neighbours
from hardmax.geometry.domains import Domain, WholeSpace
from hardmax.geometry.rational_splitting import RationalCone, integer_row
from hardmax.geometry.scores import Scores

__all__ = ["Refinement", "refine"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_COMPARE_ALL = 250  # heads with more keys than this get candidate lists before their walls are computed
_PARENTS_PER_CALL = 4096  # the compiled loop returns this often, so that Ctrl-C is heard
_CHECK_ALL_KEYS = 400_000_000  # above this many comparisons a witness is checked against the facets of its cell only


@dataclass
class _Frame:
    """The coordinates in which cells are cut: some columns of x, scaled by powers of two, and x_0 last when affine."""

    d: int
    columns: list[int]
    linear: bool
    exponents: list[int] = field(default_factory=list)  # y_i = 2^exponents[i] x_i

    @property
    def D(self) -> int:
        return len(self.columns) + (not self.linear)

    def floats(self, slopes: Floats, offsets: Floats) -> Floats:
        columns = slopes[:, self.columns]
        return columns if self.linear else np.column_stack([columns, offsets])

    def exact(self, row: list[flint.fmpq]) -> list[flint.fmpq]:
        picked = [row[c] for c in self.columns] + ([] if self.linear else [row[-1]])
        return [value * _power(-e) for value, e in zip(picked, self.exponents, strict=True)]

    def to_space(self, y: Floats) -> Floats:
        """Homogeneous points, one per row, as points of R^d (of the unit cube's boundary when linear)."""
        x = np.zeros((len(y), self.d))
        y = np.ldexp(y, -np.array(self.exponents, dtype=np.int64))
        if self.linear:
            x[:, self.columns] = y / np.maximum(np.abs(y).max(axis=1, initial=0.0), 1e-300)[:, None]
        else:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                x[:, self.columns] = y[:, :-1] / y[:, -1:]
        return x

    def to_space_exactly(self, y: list[int]) -> list[Fraction]:
        x = [Fraction(0)] * self.d
        scaled = [Fraction(v) * Fraction(2) ** -e for v, e in zip(y, self.exponents, strict=True)]
        for c, value in zip(self.columns, scaled, strict=False):
            x[c] = value if self.linear else value / scaled[-1]
        return x


@dataclass
class _Head:
    """One head in the frame: a row per distinct score, neighbours as lists."""

    points: Floats
    error: Floats
    grain: int
    index: Integers  # row -> key of the user
    exact: Callable[[int], list[flint.fmpq]]
    neighbour_start: Integers
    neighbours: Integers

    def restricted(self, keep: Integers, start: Integers, neighbours: Integers) -> _Head:
        exact = self.exact
        rows = keep.tolist()
        return _Head(
            np.ascontiguousarray(self.points[keep]),
            self.error[keep],
            self.grain,
            self.index[keep],
            lambda j: exact(rows[j]),
            start,
            neighbours,
        )


@dataclass
class _Cells:
    """Many cones in flat arrays; cell i has rays ray_start[i] .. ray_start[i+1] and facets likewise."""

    D: int
    words: int
    choices: Integers
    parent: Integers
    key: Integers
    free: Integers
    ray_start: Integers
    rays: Floats
    ray_error: Floats
    ray_bits: Integers
    mask: NDArray[np.uint64]
    facet_start: Integers
    normals: Floats
    error: Floats
    bits: Integers
    label: Integers

    @classmethod
    def room(cls, D: int, words: int, cells: int, rays: int, facets: int) -> _Cells:
        return cls(
            D,
            words,
            np.empty((0, 0), dtype=np.int64),
            np.empty(cells, dtype=np.int64),
            np.empty(cells, dtype=np.int64),
            np.empty(cells, dtype=np.int64),
            np.zeros(cells + 1, dtype=np.int64),
            np.empty((rays, D)),
            np.empty(rays),
            np.empty(rays, dtype=np.int64),
            np.zeros((rays, words), dtype=np.uint64),
            np.zeros(cells + 1, dtype=np.int64),
            np.empty((facets, D)),
            np.empty(facets),
            np.empty(facets, dtype=np.int64),
            np.empty((facets, 2), dtype=np.int64),
        )

    _PER_CELL = ("parent", "key", "free", "ray_start", "facet_start")
    _PER_RAY = ("rays", "ray_error", "ray_bits", "mask")
    _PER_FACET = ("normals", "error", "bits", "label")

    @property
    def n(self) -> int:
        return len(self.key)

    def grow(self) -> None:
        for name in (*self._PER_CELL, *self._PER_RAY, *self._PER_FACET):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)]))

    def widen(self) -> None:
        self.words *= 2
        self.mask = np.concatenate([self.mask, np.zeros_like(self.mask)], axis=1)

    def trim(self, cells: int, rays: int, facets: int) -> None:
        for names, size in ((self._PER_RAY, rays), (self._PER_FACET, facets)):
            for name in names:
                setattr(self, name, getattr(self, name)[:size].copy())
        for name in self._PER_CELL:
            size = cells + 1 if name.endswith("start") else cells
            setattr(self, name, getattr(self, name)[:size].copy())

    def parents_arguments(self) -> tuple[Any, ...]:
        return (self.ray_start, self.rays, self.ray_error, self.ray_bits, self.mask, self.facet_start, self.normals,
                self.error, self.bits, self.label, self.free)  # fmt: skip

    def output_arguments(self) -> tuple[Any, ...]:
        return (self.parent, self.key, self.free, self.ray_start, self.rays, self.ray_error, self.ray_bits, self.mask,
                self.facet_start, self.normals, self.error, self.bits, self.label)  # fmt: skip

    def append(self, cone: RationalCone, parent: int, key: int, counts: Integers) -> None:
        """Store a rational cone, rounded, with the bounds that rounding earns."""
        free, rays = cone.pointed_form()
        keep = list(range(len(cone.facets)))
        if cone.dimension - len(cone.lines) > 1:
            alive = 0
            for m in cone.masks:
                alive |= m
            keep = [s for s in keep if alive >> s & 1]
        while (
            counts[0] >= len(self.key)
            or counts[1] + len(rays) > len(self.rays)
            or counts[2] + len(keep) > len(self.normals)
        ):
            self.grow()
        while self.D + len(keep) > 64 * self.words:
            self.widen()
        for ray, m in zip(rays, cone.masks, strict=True):
            g = counts[1]
            floats, bits = _rounded(ray, max(abs(v) for v in ray).bit_length())
            self.rays[g], self.ray_bits[g] = floats, bits
            self.ray_error[g] = 0.0 if bits <= 53 else 2.0**-52
            word = free
            for slot, s in enumerate(keep):
                word |= (m >> s & 1) << (self.D + slot)
            for w in range(self.words):
                self.mask[g, w] = np.uint64(word >> (64 * w) & (2**64 - 1))
            counts[1] += 1
        for s in keep:
            g = counts[2]
            row, self.label[g] = cone.facets[s]
            floats, bits = _rounded(row, (sum(abs(v) for v in row) - 1).bit_length())
            self.normals[g], self.bits[g] = floats, bits
            self.error[g] = 0.0 if bits <= 53 else 2.0**-52
            counts[2] += 1
        cell = counts[0]
        self.parent[cell], self.key[cell], self.free[cell] = parent, key, free
        counts[0] += 1
        self.ray_start[cell + 1], self.facet_start[cell + 1] = counts[1], counts[2]


class _Work:
    """Scratch space of the compiled kernel for one working cone."""

    def __init__(self, D: int, words: int, capacity: int) -> None:
        slots = 64 * words
        self.capacity = capacity
        self.state = np.zeros(2, dtype=np.int64)
        self.cone = (
            np.empty((capacity, D)),
            np.empty(capacity),
            np.empty(capacity, dtype=np.int64),
            np.zeros((capacity, words), dtype=np.uint64),
            np.zeros(slots, dtype=np.bool_),
            np.empty((slots, D)),
            np.empty(slots),
            np.empty(slots, dtype=np.int64),
            np.empty((slots, 2), dtype=np.int64),
        )
        self.scratch = (
            np.empty((max(D, 2), D)),
            np.empty(1 << D if D > 4 else 1),
            np.empty(capacity, dtype=np.int64),
            np.empty((capacity, D)),
            np.empty(capacity),
            np.empty(capacity, dtype=np.int64),
            np.zeros((capacity, words), dtype=np.uint64),
        )

    def arguments(self) -> tuple[Any, ...]:
        return (self.state, *self.cone, *self.scratch)


@dataclass(eq=False)
class Refinement:
    r"""The full-dimensional cells of a common refinement.

    Attributes
    ----------
    choices : (n_cells, H) int64
        The winning key of each head, the lowest index of a group of identical scores. Rows are in lexicographic order.
    witnesses : (n_cells, d) float64
        A point in the interior of each cell; a direction of largest entry 1 when all scores are linear.
    exact_witnesses : dict
        Rational interior points of the cells in which the float witness could not be shown to be one.
    is_fan : bool
        Whether all cells are cones with apex 0.
    n_decided_exactly : int
        How many cells needed rational arithmetic.
    degenerate : bool
        Whether somewhere more than D-1 facets met in a ray, so that the input is not in general position.
    """

    families: list[Scores]
    domain: Domain
    choices: Integers
    witnesses: Floats
    exact_witnesses: dict[int, tuple[Fraction, ...]]
    is_fan: bool
    n_decided_exactly: int
    degenerate: bool
    _cells: _Cells
    _order: Integers
    _frame: _Frame
    _heads: list[_Head]

    @property
    def n_cells(self) -> int:
        return len(self.choices)

    @property
    def d(self) -> int:
        return self._frame.d

    def generators(self, i: int) -> Floats:
        """Homogeneous vertices and rays of cell ``i`` as rows ``[x0, x]``: ``x / x0`` is a vertex, ``x0 = 0`` a ray."""
        cell = int(self._order[i])
        y = self._cells.rays[self._cells.ray_start[cell] : self._cells.ray_start[cell + 1]]
        y = np.ldexp(y, -np.array(self._frame.exponents, dtype=np.int64))
        out = np.zeros((len(y), self.d + 1))
        out[:, [c + 1 for c in self._frame.columns]] = y if self.is_fan else y[:, :-1]
        if not self.is_fan:
            out[:, 0] = y[:, -1]
        return out

    def lines(self) -> Floats:
        """A basis of the lines that every cell contains, as rows: directions in which no score difference changes."""
        dropped = [c for c in range(self.d) if c not in self._frame.columns]
        if not dropped:
            return np.empty((0, self.d))
        rows = np.concatenate([f.slopes - f.slopes[0] for f in self.families] + [self.domain.a.floats])
        _, _, basis = np.linalg.svd(np.concatenate([rows, np.zeros((self.d, self.d))]))
        return np.asarray(basis[len(self._frame.columns) :])

    def vertices(self, i: int) -> Floats:
        """The finite vertices of cell ``i``, one per row."""
        if self.is_fan:
            return np.zeros((1, self.d)) if not len(self.lines()) else np.empty((0, self.d))
        g = self.generators(i)
        g = g[g[:, 0] > 0]
        return np.asarray(g[:, 1:] / g[:, :1])

    def facets(self, i: int) -> list[tuple[int, int]]:
        """Across each facet of cell ``i``: ``(head, key)``, or ``(-1, row)`` for a facet of the domain.

        Walls that share one facet (several collinear keys, or two heads with a common wall) are listed one after the other.
        """
        return [label for label, _ in self.facets_with_generators(i)]

    def facets_with_generators(self, i: int) -> list[tuple[tuple[int, int], Integers]]:
        """The facets of cell ``i`` with the rows of :meth:`generators` that lie on them."""
        cell, cells = int(self._order[i]), self._cells
        mask = cells.mask[cells.ray_start[cell] : cells.ray_start[cell + 1]]
        start, stop = int(cells.facet_start[cell]), int(cells.facet_start[cell + 1])
        on = [np.flatnonzero(_bit(mask, cells.D + s)) for s in range(stop - start)]
        sets = [frozenset(rows.tolist()) for rows in on]
        out = []
        for s, rows in enumerate(on):
            # a wall that only touches the cell lies, as a set, strictly inside a true facet
            if any(sets[s] < other for other in sets):
                continue
            head, key = (int(v) for v in cells.label[start + s])
            if head == kernels.DOMAIN and key < 0:
                continue  # the hyperplane at infinity
            out.append(((head, int(self._heads[head].index[key]) if head >= 0 else key), rows))
        return out

    def adjacency(self) -> Integers:
        """For one head: the pairs of keys whose cells meet in dimension d-1 (inside the domain), sorted."""
        if len(self.families) != 1:
            raise InvalidInputError(f"adjacency of keys needs exactly one head, but there are {len(self.families)}.")
        winners = set(self.choices[:, 0].tolist())
        pairs = set()
        for i in range(self.n_cells):
            j = int(self.choices[i, 0])
            for head, key in self.facets(i):
                if head >= 0 and key in winners:
                    pairs.add((min(j, key), max(j, key)))
        return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)

    @cached_property
    def n_facets(self) -> Integers:
        """The number of stored walls per cell (an upper bound on its facets)."""
        return np.diff(self._cells.facet_start)[self._order]


def refine(families: Iterable[Scores], domain: Domain | None = None, *, arithmetic: str = "certified") -> Refinement:
    r"""All full-dimensional cells of the common refinement of the heads' argmax partitions.

    Parameters
    ----------
    families : iterable of Scores
        One per head; all of the same dimension.
    domain : Box, Polytope or WholeSpace, optional
        Where to look; the whole space by default.
    arithmetic : {"certified", "exact"}
        ``"certified"`` proves each sign in floats and turns to rationals only where that fails; ``"exact"`` uses rationals
        throughout. Both give the same cells.

    Examples
    --------
    Two heads in the plane, three directions each: a hexagonal sum.

    >>> first = Scores.of_keys([[1, 0], [-1, 1], [-1, -1]])
    >>> second = Scores.of_keys([[-1, 0], [1, 1], [1, -1]])
    >>> refine([first, second]).n_cells
    6
    """
    families = list(families)
    if not families:
        raise InvalidInputError("families must hold at least one head, but is empty.")
    if arithmetic not in ("certified", "exact"):
        raise InvalidInputError(f"arithmetic must be 'certified' or 'exact', but was {arithmetic!r}.")
    d = families[0].d
    for family in families:
        if family.d != d:
            raise DimensionMismatchError(f"all heads must live in one space, but have dimensions {d} and {family.d}.")
    domain = WholeSpace(d) if domain is None else domain
    if domain.d != d:
        raise DimensionMismatchError(f"the domain must have dimension {d} like the heads, but has {domain.d}.")
    return _Engine(families, domain, arithmetic == "exact").run()


class _Engine:
    def __init__(self, families: list[Scores], domain: Domain, exact: bool) -> None:
        self.families, self.domain, self.exact = families, domain, exact
        linear = all(f.linear for f in families) and isinstance(domain, WholeSpace)
        self.frame = _Frame(families[0].d, _independent_columns(families, domain), linear)
        self.heads = self._scaled_heads()
        self.domain_rows = self._domain_rows()
        self.degenerate = False
        self.n_exact = 0

    def _scaled_heads(self) -> list[_Head]:
        frame = self.frame
        kept, raw, shifts = [], [], []
        for family in self.families:
            index = np.unique(family.tie_group)
            points = frame.floats(family.slopes[index], family.offsets[index])
            largest = float(np.abs(points).max(initial=0.0))
            shift = -int(np.frexp(largest)[1]) if largest else 0
            kept.append(index)
            raw.append(np.ldexp(points, shift))
            shifts.append(shift)
        rows, values = self.domain.a.floats, self.domain.b.floats
        stacked = np.concatenate([*raw, frame.floats(rows, values)])
        sizes = np.abs(stacked).max(axis=0, initial=0.0)
        frame.exponents = [int(np.frexp(size)[1]) if size else 0 for size in sizes]
        heads = []
        for h, family in enumerate(self.families):
            points = np.ascontiguousarray(np.ldexp(raw[h], -np.array(frame.exponents, dtype=np.int64)))
            scale = max((shifts[h] - e for e in frame.exponents), default=0)
            with np.errstate(over="ignore"):
                error = np.ldexp(family.row_error[kept[h]], scale)
            exact_floats = not error.any() and bool(((np.abs(points) > 1e-250) | (points == 0.0)).all())
            if not exact_floats:
                error = error + 1e-250
            everyone = np.empty(0, dtype=np.int64)
            heads.append(
                _Head(points, error, _grain(points) if exact_floats else -kernels.INEXACT, kept[h],
                      self._exact_rows(family, kept[h], shifts[h]), everyone, everyone)  # fmt: skip
            )
        return heads

    def _exact_rows(self, family: Scores, index: Integers, shift: int) -> Callable[[int], list[flint.fmpq]]:
        rows: dict[int, list[flint.fmpq]] = {}
        power = _power(shift)

        def exact(j: int) -> list[flint.fmpq]:
            if j not in rows:
                rows[j] = [value * power for value in self.frame.exact(family.exact_row(int(index[j])))]
            return rows[j]

        return exact

    def _domain_rows(self) -> list[tuple[list[int], tuple[int, int]]]:
        if self.frame.linear:
            return []
        at_infinity = [0] * (self.frame.D - 1) + [1]
        rows = [(at_infinity, (kernels.DOMAIN, -1))]
        for i in range(self.domain.b.shape[0]):
            row = [-value for value in self.domain.a.rational_row(i)] + [self.domain.b.rational(i)]
            if all(value == 0 for value in row[:-1]):
                raise EmptyDomainError(f"row {i} of the domain's A must not be zero.")
            rows.append((integer_row(self.frame.exact(row)), (kernels.DOMAIN, i)))
        return rows

    def run(self) -> Refinement:
        root = self._root()
        cells = root
        if self.frame.D == 0:
            cells.choices = np.zeros((1, len(self.heads)), dtype=np.int64)
        else:
            everywhere = root if isinstance(self.domain, WholeSpace) else self._root(whole=True)
            for h in range(len(self.heads)):
                self.heads[h] = self._with_candidates(self.heads[h])
                if len(self.heads) > 1:
                    self.heads[h] = self._with_walls(everywhere, h)
            for h in range(len(self.heads)):
                cells = self._level(cells, h)
        return self._result(cells)

    def _root(self, whole: bool = False) -> _Cells:
        cone = RationalCone(self.frame.D)
        for row, label in self.domain_rows[: 1 if whole else None]:
            if cone.cut(row, label) == kernels.EMPTIES:
                raise EmptyDomainError("the domain must have interior, but its inequalities leave none.")
        cells = _Cells.room(self.frame.D, 1, 1, 16, 16)
        counts = np.zeros(7, dtype=np.int64)
        cells.append(cone, -1, -1, counts)
        cells.trim(int(counts[0]), int(counts[1]), int(counts[2]))
        cells.choices = np.empty((1, 0), dtype=np.int64)
        return cells

    def _with_candidates(self, head: _Head) -> _Head:
        n = len(head.points)
        if n <= _COMPARE_ALL:
            others = np.arange(n)[None, :].repeat(n, axis=0)[~np.eye(n, dtype=np.bool_)]
            return head.restricted(np.arange(n), np.arange(n + 1) * (n - 1), others.astype(np.int64))
        keep, start, neighbours = candidate_neighbours(head.points, head.error, cone_is_halfspace=not self.frame.linear)
        return head.restricted(keep, start, neighbours)

    def _with_walls(self, everywhere: _Cells, h: int) -> _Head:
        """The head reduced to keys with interior, each with the keys its cell in the whole space touches."""
        cells = self._level(everywhere, h)
        order = np.argsort(cells.key)
        winners = cells.key[order]
        position = np.full(len(self.heads[h].points), -1, dtype=np.int64)
        position[winners] = np.arange(len(winners))
        lists = []
        for cell in order.tolist():
            label = cells.label[cells.facet_start[cell] : cells.facet_start[cell + 1]]
            near = np.unique(position[label[label[:, 0] == h, 1]])
            lists.append(near[near >= 0])
        start = np.concatenate([[0], np.cumsum([len(near) for near in lists])]).astype(np.int64)
        return self.heads[h].restricted(winners, start, np.concatenate(lists).astype(np.int64))

    def _level(self, cells: _Cells, h: int) -> _Cells:
        head, D = self.heads[h], self.frame.D
        n_keys = len(head.points)
        guess = max(4 * cells.n, 4 * n_keys if cells.n == 1 else 0, 64)
        out = _Cells.room(D, cells.words, guess, guess * 2 ** (D - 1), guess * 2 * D)
        work = _Work(D, cells.words, 64)
        counts = np.zeros(7, dtype=np.int64)
        visited, queue = np.zeros(n_keys, dtype=np.int64), np.empty(n_keys + 1, dtype=np.int64)
        parked = np.empty(n_keys, dtype=np.int64)
        touched = np.empty(max(int(np.diff(head.neighbour_start).max(initial=0)), 1), dtype=np.int64)
        shape = (D, h, head.points, head.error, head.grain, head.neighbour_start, head.neighbours)

        def make_room(status: int) -> None:
            nonlocal work
            if status == kernels.FULL:
                out.grow()
            else:
                if work.capacity >= 128 * cells.words:
                    cells.widen()
                    out.widen()
                work = _Work(D, cells.words, 2 * work.capacity)

        while counts[5] < cells.n:
            if not self.exact:
                stop = min(cells.n, int(counts[5]) + _PARENTS_PER_CALL)
                while out.words > cells.words:
                    cells.widen()
                    work = _Work(D, cells.words, work.capacity)
                status = kernels.expand_many(
                    *shape, stop, *cells.parents_arguments(), visited, queue, *work.arguments(),
                    counts, *out.output_arguments(), parked, touched,
                )  # fmt: skip
                if status != kernels.DONE:
                    make_room(status)
                    continue
                if counts[5] >= stop:
                    continue
            self._settle(cells, out, h, counts, visited, queue, parked, touched, shape, make_room, lambda: work)
            counts[5] += 1
        out.trim(int(counts[0]), int(counts[1]), int(counts[2]))
        out.choices = np.column_stack([cells.choices[out.parent], out.key])
        return out

    def _settle(
        self, cells: _Cells, out: _Cells, h: int, counts: Integers, visited: Integers, queue: Integers, parked: Integers,
        touched: Integers, shape: tuple[Any, ...], make_room: Callable[[int], None], work: Callable[[], _Work],
    ) -> None:  # fmt: skip
        """Finish one parent whose cells the compiled kernel could not all decide, in rationals where needed."""
        parent, head = int(counts[5]), self.heads[h]
        stamp = int(counts[6])
        first = int(np.count_nonzero(out.parent[: counts[0]] == parent)) if counts[0] else 0
        produced = first
        cone = self._rational_cone(cells, parent)
        if self.exact:
            counts[6] += 1
            stamp = int(counts[6])
            pending = [self._exact_winner(cone, head)]
            visited[pending[0]] = stamp
        else:
            pending = parked[: counts[3]].tolist()
        while True:
            seeds: list[int] = []
            for j in pending:
                child = cone.copy()
                near: list[int] = []
                result = kernels.MISSES
                own = head.exact(j)
                for l in head.neighbours[head.neighbour_start[j] : head.neighbour_start[j + 1]].tolist():
                    other = head.exact(l)
                    result = child.cut(integer_row([a - b for a, b in zip(own, other, strict=True)]), (h, l))
                    if result == kernels.EMPTIES:
                        break
                    if result in (kernels.TOUCHES, kernels.CUTS):
                        near.append(l)
                self.n_exact += 1
                if result != kernels.EMPTIES:
                    out.append(child, parent, j, counts)
                    produced += 1
                    seeds += near
            seeds = sorted({l for l in seeds if visited[l] != stamp})
            if not seeds and not produced:
                seeds = np.flatnonzero(visited != stamp).tolist()
                if not seeds:
                    raise CertificateError("a cell lost all its keys; please report this input.")
            if not seeds:
                counts[3] = 0
                return
            if self.exact:
                visited[seeds] = stamp
                pending = seeds
                continue
            before = counts.copy()
            seen = visited.copy()
            while True:
                counts[3] = 0
                while out.words > cells.words:
                    cells.widen()
                scratch = work()
                if scratch.cone[3].shape[1] != cells.words:
                    scratch = _Work(self.frame.D, cells.words, scratch.capacity)
                status = kernels.expand(
                    *shape, counts[4], parent, *cells.parents_arguments(), np.array(seeds, dtype=np.int64), len(seeds),
                    visited, stamp, queue, *scratch.arguments(), counts, *out.output_arguments(), parked, touched,
                )  # fmt: skip
                if status == kernels.DONE:
                    break
                counts[:] = before
                visited[:] = seen
                make_room(status)
            produced += int(counts[0] - before[0])
            pending = parked[: counts[3]].tolist()

    def _exact_winner(self, cone: RationalCone, head: _Head) -> int:
        y = [flint.fmpq(v) for v in cone.interior_point()]
        values = [sum((a * b for a, b in zip(head.exact(j), y, strict=True)), flint.fmpq(0)) for j in range(len(head.points))]
        return max(range(len(values)), key=lambda j: values[j])

    def _rational_cone(self, cells: _Cells, cell: int) -> RationalCone:
        cone = RationalCone(self.frame.D)
        for g in range(int(cells.facet_start[cell]), int(cells.facet_start[cell + 1])):
            h, key = (int(v) for v in cells.label[g])
            if h == kernels.DOMAIN:
                row = self.domain_rows[key + 1][0]
            else:
                own, other = self.heads[h].exact(int(cells.choices[cell, h])), self.heads[h].exact(key)
                row = integer_row([a - b for a, b in zip(own, other, strict=True)])
            cone.cut(row, (h, key))
        return cone

    def _result(self, cells: _Cells) -> Refinement:
        frame = self.frame
        users = np.column_stack([head.index[cells.choices[:, h]] for h, head in enumerate(self.heads)])
        order = np.lexsort(users.T[::-1]) if len(users) > 1 else np.zeros(len(users), dtype=np.int64)
        totals = np.zeros((cells.n, frame.D))
        if frame.D:
            np.add.at(totals, np.repeat(np.arange(cells.n), np.diff(cells.ray_start)), cells.rays)
        witnesses = frame.to_space(totals) if frame.D else np.zeros((cells.n, frame.d))
        shown = self._shown(cells, users, witnesses)
        exact_witnesses: dict[int, tuple[Fraction, ...]] = {}
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        for cell in np.flatnonzero(~shown).tolist():
            point = frame.to_space_exactly(self._rational_cone(cells, cell).interior_point())
            if frame.linear:
                size = max((abs(v) for v in point), default=Fraction(1)) or Fraction(1)
                point = [v / size for v in point]
            witnesses[cell] = [_nearest(v) for v in point]
            if not self._wins(users[cell], witnesses[cell]):
                exact_witnesses[int(rank[cell])] = tuple(point)
        counts = np.diff(cells.ray_start)
        incidences = np.bitwise_count(cells.mask).sum(axis=1, dtype=np.int64)
        degenerate = bool((incidences > frame.D - 1).any()) or any(f.tie_group.tolist() != list(range(f.n_keys)) for f in self.families)
        del counts
        return Refinement(
            self.families, self.domain, np.ascontiguousarray(users[order]), np.ascontiguousarray(witnesses[order]),
            exact_witnesses, frame.linear, self.n_exact, degenerate or len(frame.columns) < frame.d,
            cells, order, frame, self.heads,
        )  # fmt: skip

    def _shown(self, cells: _Cells, users: Integers, witnesses: Floats) -> NDArray[np.bool_]:
        """Which float witnesses provably win every head strictly, and lie strictly inside the domain."""
        shown = np.isfinite(witnesses).all(axis=1)
        safe = np.where(shown[:, None], witnesses, 0.0)
        for h, family in enumerate(self.families):
            index = np.unique(family.tie_group)
            rows = np.searchsorted(index, users[:, h])
            if cells.n * len(index) <= _CHECK_ALL_KEYS:
                start, lists = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
            else:
                lists, start = self._facet_keys(cells, h, index)
            kernels.certify(
                np.ascontiguousarray(family.slopes[index]), family.offsets[index], family.row_error[index],
                rows, safe, start, lists, shown,
            )  # fmt: skip
        a, b = self.domain.halfspaces()
        if len(b):
            size = np.abs(safe) @ np.abs(a).T + np.abs(b)
            shown &= (b - safe @ a.T > 4 * (a.shape[1] + 3) * 2.0**-53 * size).all(axis=1)
        return shown

    def _facet_keys(self, cells: _Cells, h: int, index: Integers) -> tuple[Integers, Integers]:
        mine = cells.label[:, 0] == h
        owner = np.repeat(np.arange(cells.n), np.diff(cells.facet_start))[mine]
        keys = np.searchsorted(index, self.heads[h].index[cells.label[mine, 1]])
        return keys, np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=cells.n))]).astype(np.int64)

    def _wins(self, choice: Integers, x: Floats) -> bool:
        """Whether a float point lies strictly inside a cell, in rationals."""
        if not np.isfinite(x).all():
            return False
        point = [rational(float(v)) for v in x] + [flint.fmpq(1)]
        for family, j in zip(self.families, choice.tolist(), strict=True):
            scores = [sum((a * b for a, b in zip(family.exact_row(l), point, strict=True)), flint.fmpq(0))
                      for l in range(family.n_keys)]  # fmt: skip
            group = family.tie_group
            if any(scores[l] >= scores[j] for l in range(family.n_keys) if group[l] != j):
                return False
        for i in range(self.domain.b.shape[0]):
            row = self.domain.a.rational_row(i)
            if sum((a * b for a, b in zip(row, point, strict=False)), flint.fmpq(0)) >= self.domain.b.rational(i):
                return False
        return True


def _independent_columns(families: list[Scores], domain: Domain) -> list[int]:
    r"""Coordinates that carry the whole partition.

    Score differences span a space of rank r. Restricting x to r coordinates whose columns are independent keeps every value of
    all differences, hence every cell, so the other coordinates can be set to zero; cells are cylinders over them.
    """
    d = families[0].d
    floats = np.concatenate([f.slopes - f.slopes[0] for f in families] + [domain.a.floats])

    def exact(i: int) -> list[flint.fmpq]:
        for f in families:
            if i < f.n_keys:
                return [a - b for a, b in zip(f.exact_row(i)[:-1], f.exact_row(0)[:-1], strict=True)]
            i -= f.n_keys
        return domain.a.rational_row(i)

    # a float elimination proposes independent rows, one exact determinant confirms them
    residual = floats / np.maximum(np.abs(floats).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    proposed: list[int] = []
    for _ in range(d):
        norms = np.einsum("ij,ij->i", residual, residual)
        i = int(np.argmax(norms)) if len(norms) else 0
        if not len(norms) or norms[i] < 1e-24:
            break
        proposed.append(i)
        unit = residual[i] / np.sqrt(norms[i])
        residual = residual - np.outer(residual @ unit, unit)
    basis: list[list[flint.fmpq]] = []
    for i in proposed:
        if _rank([*basis, exact(i)]) == len(basis) + 1:
            basis.append(exact(i))
    if len(basis) < d:
        for i in range(len(floats)):
            row = exact(i)
            if any(value != 0 for value in row) and _rank([*basis, row]) > len(basis):
                basis.append(row)
                if len(basis) == d:
                    break
    if len(basis) == d:
        return list(range(d))
    if not basis:
        return []
    reduced, rank = flint.fmpq_mat(basis).rref()
    return [next(c for c in range(d) if reduced[i, c] != 0) for i in range(rank)]


def _rank(rows: list[list[flint.fmpq]]) -> int:
    return int(flint.fmpq_mat(rows).rref()[1])


def _power(exponent: int) -> flint.fmpq:
    return flint.fmpq(2**exponent) if exponent >= 0 else flint.fmpq(1, 2**-exponent)


def _grain(points: Floats) -> int:
    """The largest e such that every entry is an integer multiple of 2^e."""
    values = points[points != 0.0]
    if not len(values):
        return 0
    mantissa, exponent = np.frexp(values)
    digits = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = digits & -digits
    return int((exponent - 53 + np.log2(lowest.astype(np.float64)).astype(np.int64)).min())


def _rounded(row: list[int], length: int) -> tuple[Floats, int]:
    """An integer vector divided by 2^length, as floats, with the number of bits when that is exact."""
    if length <= 53:
        return np.ldexp(np.array(row, dtype=np.float64), -length), length
    return np.array([float(Fraction(v, 2**length)) for v in row]), kernels.INEXACT


def _bit(mask: NDArray[np.uint64], slot: int) -> NDArray[np.bool_]:
    return np.asarray((mask[:, slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1), dtype=np.bool_)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
