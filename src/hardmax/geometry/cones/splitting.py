r"""The one kernel that cuts cells: common refinements of argmax partitions.

Each head cuts space by :math:`\arg\max_j (a_j \cdot x + b_j)`; all heads together by the common refinement
(P1 Definition III.8), whose full-dimensional cells are, in the whole space, the vertices of the Minkowski sum
of the heads' Newton polytopes (Definition III.13).

:func:`refine` takes the heads one after the other and cuts every cell found so far into the cells of the
next head. Inside a cell the winning keys are found by walking across walls, so the work follows the number of
cells that exist, not the number of combinations. Signs are proven in floats (``splitting_kernels``) or
decided in rationals (``rational_splitting``); nothing is perturbed, so duplicates, ties, collinear keys and
vertices on many facets are ordinary input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError, DimensionMismatchError, EmptyDomainError, InvalidInputError
from hardmax.exact.rationals import dot, nearest_float
from hardmax.geometry.cones import splitting_kernels as kernels
from hardmax.geometry.cones.heads import Frame, Head, candidate_neighbours, independent_columns, scaled_heads
from hardmax.geometry.cones.rational_splitting import (
    Cells,
    RationalCone,
    Workspace,
    integer_row,
    is_inside,
    surely_inside,
)
from hardmax.geometry.domains import Domain, WholeSpace
from hardmax.geometry.scores import Scores

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FEW_KEYS = 40  # with fewer keys in a head, looking for its own walls first does not pay
_COMPARE_ALL = {1: 250, 2: 250, 3: 600}  # homogeneous dimension -> up to how many keys all pairs are compared
_COMPARE_ALL_BEYOND = 2500  # the same in higher dimension, where candidate lists are long and cost more
_LOOK_EVERY = 0.1  # seconds
_PARENTS_PER_CALL = 4096  # the compiled loop returns this often, so that Ctrl-C is heard
_CHECK_ALL_KEYS = 400_000_000  # with more comparisons a witness is checked against the facets of its cell


@dataclass(eq=False)
class Refinement:
    r"""The full-dimensional cells of a common refinement.

    Attributes
    ----------
    choices : (n_cells, H) int64
        The winning key of each head, the lowest index of a group of identical scores. Rows are in
        lexicographic order.
    witnesses : (n_cells, d) float64
        A point in the interior of each cell; a direction of largest entry 1 when the cells are cones.
    exact_witnesses : dict
        Rational interior points of the cells in which no float witness could be shown to be one.
    is_fan : bool
        Whether all cells are cones with apex 0.
    n_decided_exactly : int
        How many cells needed rational arithmetic.
    degenerate : bool
        Whether the input is not in general position: identical scores, a direction that no score sees, or a
        ray on more facets than its dimension needs.
    """

    families: list[Scores]
    domain: Domain
    choices: Integers
    witnesses: Floats
    exact_witnesses: dict[int, tuple[Fraction, ...]]
    is_fan: bool
    n_decided_exactly: int
    degenerate: bool
    _cells: Cells
    _order: Integers
    _frame: Frame
    _heads: list[Head]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.choices)

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return self._frame.d

    def generators(self, i: int) -> Floats:
        """Homogeneous vertices and rays of cell ``i`` as rows ``[x0, x]``: ``x / x0`` is a vertex, ``x0 = 0``
        a ray.

        Directions in which nothing changes (see :meth:`lines`) come on top.
        """
        store, cell = self._cells.store, int(self._order[i])
        y = self._frame.unscaled(
            store.rays[store.ray_start[cell] : store.ray_start[cell + 1], : self._frame.D]
        )
        out = np.zeros((len(y), self.d + 1))
        out[:, [c + 1 for c in self._frame.columns]] = y if self.is_fan else y[:, :-1]
        if not self.is_fan:
            out[:, 0] = y[:, -1]
        return out

    def lines(self) -> Floats:
        """A basis of the lines that every cell contains, as rows: directions in which no score difference
        changes.
        """
        if len(self._frame.columns) == self.d:
            return np.empty((0, self.d))
        halves = [f.slopes / 2 for f in self.families]  # whose differences do not overflow
        rows = np.concatenate([half - half[0] for half in halves] + [self.domain.a.floats])
        basis = np.linalg.svd(np.concatenate([rows, np.zeros((self.d, self.d))]))[2]
        return np.asarray(basis[len(self._frame.columns) :])

    def vertices(self, i: int) -> Floats:
        """The finite vertices of cell ``i``, one per row."""
        if self.is_fan:
            return np.zeros((int(len(self._frame.columns) == self.d), self.d))
        g = self.generators(i)
        g = g[g[:, 0] > 0]
        return np.asarray(g[:, 1:] / g[:, :1])

    def facets(self, i: int) -> list[tuple[int, int]]:
        """Across each facet of cell ``i``: ``(head, key)``, or ``(-1, row)`` for a facet of the domain.

        Walls that share one facet (several collinear keys, or two heads with a common wall) are listed one
        after the other.
        """
        return [label for label, _ in self.facets_with_generators(i)]

    def facets_with_generators(self, i: int) -> list[tuple[tuple[int, int], Integers]]:
        """The facets of cell ``i`` with the rows of :meth:`generators` that lie on them."""
        cells, store, cell = self._cells, self._cells.store, int(self._order[i])
        mask = store.mask[store.ray_start[cell] : store.ray_start[cell + 1]]
        start, stop = int(store.facet_start[cell]), int(store.facet_start[cell + 1])
        on = [np.flatnonzero(_bit(mask, cells.D + s)) for s in range(stop - start)]
        sets = [frozenset(rows.tolist()) for rows in on]
        out = []
        for s, rows in enumerate(on):
            # a wall that only touches the cell lies, as a set of rays, strictly inside a true facet
            if any(sets[s] < other for other in sets):
                continue
            head, key = (int(v) for v in store.label[start + s])
            if head == kernels.DOMAIN and key < 0:
                continue  # the hyperplane at infinity
            out.append(((head, int(self._heads[head].index[key]) if head >= 0 else key), rows))
        return out

    def adjacency(self) -> Integers:
        """For one head: the pairs of keys whose cells meet in dimension d-1 (inside the domain), sorted."""
        if len(self.families) != 1:
            raise InvalidInputError(
                f"adjacency of keys needs exactly one head, but there are {len(self.families)}."
            )
        store, index = self._cells.store, self._heads[0].index
        owner = np.repeat(np.arange(self._cells.n), np.diff(store.facet_start))
        # where no ray lies on more facets than it must, every stored wall is a facet
        crowded = self._crowded_cells()
        plain = (store.label[:, 0] == 0) & ~crowded[owner]
        pairs = [np.column_stack([index[store.key[owner[plain]]], index[store.label[plain, 1]]])]
        for i in np.flatnonzero(crowded[self._order]).tolist():
            near = [key for head, key in self.facets(i) if head >= 0]
            pairs.append(np.array([[int(self.choices[i, 0]), key] for key in near]).reshape(-1, 2))
        both = np.concatenate(pairs)
        wins = np.zeros(self.families[0].n_keys, dtype=np.bool_)
        wins[self.choices[:, 0]] = True
        both = both[wins[both[:, 1]]].astype(np.int64)
        codes = np.sort(both.min(axis=1) * len(wins) + both.max(axis=1))
        codes = codes[np.append(True, codes[1:] != codes[:-1])] if len(codes) else codes
        return np.column_stack(np.divmod(codes, len(wins)))

    def _crowded_cells(self) -> NDArray[np.bool_]:
        store = self._cells.store
        over = np.bitwise_count(store.mask).sum(axis=1) > self._frame.D - 1
        if not len(over):  # the whole space is one cell
            return np.zeros(self._cells.n, dtype=np.bool_)
        return np.asarray(np.logical_or.reduceat(over, store.ray_start[:-1]))


Look = Callable[[float, int], object]
"""Called again and again with the share of the work that is done and a number of cells; it may raise."""


def refine(
    families: Iterable[Scores],
    domain: Domain | None = None,
    *,
    arithmetic: str = "certified",
    look: Look | None = None,
) -> Refinement:
    r"""All full-dimensional cells of the common refinement of the heads' argmax partitions.

    Parameters
    ----------
    families : iterable of Scores
        One per head; all of the same dimension.
    domain : Box, Polytope or WholeSpace, optional
        Where to look; the whole space by default.
    arithmetic : {"certified", "exact"}
        ``"certified"`` proves each sign in floats and turns to rationals only where that fails; ``"exact"``
        uses rationals throughout. Both give the same cells.
    look : callable, optional
        Called again and again with the share of the work that is done and the cells found in the present
        head; what it raises ends the search.

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
            raise DimensionMismatchError(
                f"all heads must live in one space, but have dimensions {d} and {family.d}."
            )
    domain = WholeSpace(d) if domain is None else domain
    if domain.d != d:
        raise DimensionMismatchError(
            f"the domain must have dimension {d} like the heads, but has {domain.d}."
        )
    return _Engine(families, domain, arithmetic == "exact", look).run()


class _Engine:
    """One run of :func:`refine`."""

    def __init__(self, families: list[Scores], domain: Domain, exact: bool, look: Look | None = None) -> None:
        self.families, self.domain, self.exact, self.look = families, domain, exact, look
        linear = all(f.linear for f in families) and isinstance(domain, WholeSpace)
        self.frame = Frame(families[0].d, independent_columns(families, domain), linear)
        self.heads = scaled_heads(families, domain, self.frame)
        self.domain_rows = self._domain_rows()
        self.n_exact = 0

    def _domain_rows(self) -> list[tuple[list[int], tuple[int, int]]]:
        if self.frame.linear:
            return []
        rows = [([0] * (self.frame.D - 1) + [1], (kernels.DOMAIN, -1))]  # x_0 >= 0
        for i in range(self.domain.b.shape[0]):
            row = [-value for value in self.domain.a.rational_row(i)] + [self.domain.b.rational(i)]
            if not any(row[:-1]):
                raise EmptyDomainError(f"row {i} of the domain's A must not be zero.")
            rows.append((integer_row(self.frame.exact(row)), (kernels.DOMAIN, i)))
        return rows

    def run(self) -> Refinement:
        cells = self._root(self.domain_rows)
        if self.frame.D == 0:  # every head has one score, up to ties
            cells.choices = np.zeros((1, len(self.heads)), dtype=np.int64)
            return self._result(cells)
        self.heads = [self._with_candidates(head) for head in self.heads]
        if len(self.heads) > 1:
            everywhere = self._root(self.domain_rows[:1])
            for h, head in enumerate(self.heads):
                # candidate lists are safe in a walk from a true winner, which only the first cell guarantees
                all_pairs = len(head.rows.neighbours) == head.n_keys * (head.n_keys - 1)
                if head.n_keys > _FEW_KEYS or not all_pairs:
                    self.heads[h] = self._with_walls(everywhere, h)
        for h in range(len(self.heads)):
            cells = self._level(cells, h)
        return self._result(cells)

    def _root(self, rows: list[tuple[list[int], tuple[int, int]]]) -> Cells:
        cone = RationalCone(self.frame.D)
        for row, label in rows:
            if cone.cut(row, label) == kernels.EMPTIES:
                raise EmptyDomainError("the domain must have interior, but its inequalities leave none.")
        cells = Cells(self.frame.D, 1, 1, 16, 16)
        cells.append(cone, -1, -1)
        cells.trim()
        cells.choices = np.empty((1, 0), dtype=np.int64)
        return cells

    def _with_candidates(self, head: Head) -> Head:
        n = head.n_keys
        if n > _COMPARE_ALL.get(self.frame.D, _COMPARE_ALL_BEYOND):
            return head.restricted(*candidate_neighbours(head.rows, affine=not self.frame.linear))
        others = np.tile(np.arange(n), (n, 1))[~np.eye(n, dtype=np.bool_)]
        return head.restricted(np.arange(n), np.arange(n + 1) * (n - 1), others)

    def _with_walls(self, everywhere: Cells, h: int) -> Head:
        """The head reduced to keys with interior, each with the keys its cell in the whole space touches."""
        cells = self._level(everywhere, h)
        store = cells.store
        order = np.argsort(store.key)
        winners = store.key[order]
        position = np.full(self.heads[h].n_keys, -1, dtype=np.int64)
        position[winners] = np.arange(len(winners))
        owner = position[np.repeat(store.key, np.diff(store.facet_start))]
        near = np.where(store.label[:, 0] == h, position[store.label[:, 1]], -1)
        owner, near = np.divmod(np.unique((owner * len(winners) + near)[near >= 0]), len(winners))
        return self.heads[h].restricted(winners, np.searchsorted(owner, np.arange(len(winners) + 1)), near)

    def _level(self, cells: Cells, h: int) -> Cells:
        """Cut every cell into the cells of head h."""
        return _Level(self, cells, h).run()

    def rational_cone(self, cells: Cells, cell: int) -> RationalCone:
        """A stored cell again, from its facets, in rationals."""
        cone, store = RationalCone(self.frame.D), cells.store
        for g in range(int(store.facet_start[cell]), int(store.facet_start[cell + 1])):
            h, key = (int(v) for v in store.label[g])
            if h == kernels.DOMAIN:
                row = self.domain_rows[key + 1][0]
            else:
                own, other = self.heads[h].exact(int(cells.choices[cell, h])), self.heads[h].exact(key)
                row = integer_row([a - b for a, b in zip(own, other, strict=True)])
            cone.cut(row, (h, key))
        return cone

    def _result(self, cells: Cells) -> Refinement:
        frame, store = self.frame, cells.store
        users = np.column_stack([head.index[cells.choices[:, h]] for h, head in enumerate(self.heads)])
        order = np.lexsort(users.T[::-1])
        if frame.D:
            witnesses = frame.to_space(np.add.reduceat(store.rays[:, : frame.D], store.ray_start[:-1]))
        else:
            witnesses = np.zeros((1, frame.d))
        rivals = [self._facet_keys(cells, h) if cells.n * f.n_keys > _CHECK_ALL_KEYS else None
                  for h, f in enumerate(self.families)]  # fmt: skip
        shown = surely_inside(self.families, self.domain, users, witnesses, rivals)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        exact_witnesses: dict[int, tuple[Fraction, ...]] = {}
        for cell in np.flatnonzero(~shown).tolist():
            point = frame.to_space_exactly(self.rational_cone(cells, cell).interior_point())
            witnesses[cell] = [nearest_float(v) for v in point]
            if not is_inside(self.families, self.domain, users[cell], witnesses[cell]):
                exact_witnesses[int(rank[cell])] = tuple(point)
        degenerate = (
            bool((np.bitwise_count(store.mask).sum(axis=1) > frame.D - 1).any())
            or any(len(head.index) < f.n_keys and len(np.unique(f.tie_group)) < f.n_keys
                   for head, f in zip(self.heads, self.families, strict=True))
            or len(frame.columns) < frame.d
        )  # fmt: skip
        return Refinement(
            self.families, self.domain, np.ascontiguousarray(users[order]),
            np.ascontiguousarray(witnesses[order]), exact_witnesses, frame.linear, self.n_exact,
            degenerate, cells, order, frame, self.heads,
        )  # fmt: skip

    def _facet_keys(self, cells: Cells, h: int) -> tuple[Integers, Integers]:
        """For each cell the keys of head h across its facets: beating those is beating all."""
        store = cells.store
        mine = store.label[:, 0] == h
        owner = np.repeat(np.arange(cells.n), np.diff(store.facet_start))[mine]
        start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=cells.n))])
        return start, self.heads[h].index[store.label[mine, 1]]


class _Level:
    """The cells of one head inside every cell of the heads before it."""

    def __init__(self, engine: _Engine, cells: Cells, h: int) -> None:
        self.engine, self.cells, self.h = engine, cells, h
        self.head, D = engine.heads[h], engine.frame.D
        n_keys = self.head.n_keys
        guess = max(8 * cells.n, 2 * n_keys, 256)
        self.out = Cells(D, cells.words, guess, guess * 2 ** (D - 1), guess * 2 * D)
        self.work = Workspace(D, n_keys)
        self.visited, self.parked = np.zeros(n_keys, dtype=np.int64), np.empty(n_keys, dtype=np.int64)

    def run(self) -> Cells:
        cells, out, counts, nobody = self.cells, self.out, self.out.counts, np.empty(0, dtype=np.int64)
        if cells.n == 1:  # candidate lists are only safe for walks that start at a key that wins
            self._walk()
        look, at_once, before = self.engine.look, _PARENTS_PER_CALL, time.monotonic()
        if look is not None:
            at_once = 1
        while counts[5] < cells.n:
            if look is not None:
                now = time.monotonic()
                look((self.h + int(counts[5]) / cells.n) / len(self.engine.heads), out.n)
                quick = now - before < _LOOK_EVERY
                at_once = min(2 * at_once, _PARENTS_PER_CALL) if quick else max(at_once // 2, 1)
                before = now
            if not self.engine.exact:
                stop = min(cells.n, int(counts[5]) + at_once)
                self._align()
                status = kernels.expand_many(
                    out.D, self.h, self.head.rows, cells.store, stop, nobody, self.visited,
                    self.work.cone, self.work.scratch, counts, out.store, self.parked,
                )  # fmt: skip
                if status != kernels.DONE:
                    self.work.make_room(status, cells, out)
                    continue
                if counts[5] >= stop:
                    continue
            self._walk()
        out.trim()
        out.choices = np.column_stack([cells.choices[out.store.parent], out.store.key])
        return out

    def _walk(self) -> None:
        """Find all cells of the next parent, starting from what the compiled walk has left open.

        Where it has found nothing at all (its first guess only tied for the maximum, or this is the very
        first cell) the walk starts anew from the keys that win or tie at an interior point, decided exactly:
        at least one of them has a cell.
        """
        counts = self.out.counts
        cone = self.engine.rational_cone(self.cells, int(counts[5]))
        self._resume(cone, self._take_parked())
        if not self._has_child():
            counts[6] += 1
            self._resume(cone, self._unsettled(self._winners(cone.interior_point())))
        if not self._has_child():
            raise CertificateError("a cell lost all its keys; please report this input.")
        counts[5] += 1

    def _has_child(self) -> bool:
        n, parents = self.out.n, self.out.store.parent
        return n > 0 and int(parents[n - 1]) == self.out.counts[5]

    def _take_parked(self) -> list[int]:
        pending: list[int] = self.parked[: self.out.counts[3]].tolist()
        self.out.counts[3] = 0
        return pending

    def _resume(self, cone: RationalCone, pending: list[int]) -> None:
        """Decide the pending keys of a parent in rationals and walk on from them."""
        while pending:
            near: set[int] = set().union(*(self._rational_child(cone, j) for j in pending))
            pending = self._unsettled(sorted(l for l in near if self.visited[l] != self.out.counts[6]))

    def _unsettled(self, keys: list[int]) -> list[int]:
        """Walk from some keys in floats; returns those that are left to rationals."""
        if self.engine.exact:
            self.visited[keys] = self.out.counts[6]
            return keys
        if keys:
            self._compiled_children(keys)
        return self._take_parked()

    def _rational_child(self, cone: RationalCone, j: int) -> set[int]:
        """Append the cell of key j inside a rational cone, if it has interior; returns what it touches."""
        head = self.head
        child, own = cone.copy(), head.exact(j)
        self.engine.n_exact += 1
        start, stop = head.rows.neighbour_start[j], head.rows.neighbour_start[j + 1]
        for l in head.rows.neighbours[start:stop].tolist():
            normal = integer_row([a - b for a, b in zip(own, head.exact(l), strict=True)])
            if child.cut(normal, (self.h, l)) == kernels.EMPTIES:
                return set()
        self.out.append(child, int(self.out.counts[5]), j)
        labels = [child.facets[s][1] for s in child.touching()]
        return {key for head_of_label, key in labels if head_of_label == self.h}

    def _compiled_children(self, seeds: list[int]) -> None:
        """The compiled walk from given keys; what it cannot decide is left in ``parked``."""
        out, counts, work, visited = self.out, self.out.counts, self.work, self.visited
        before, seen = counts.copy(), visited.copy()
        starts = np.array(seeds, dtype=np.int64)
        while True:
            self._align()
            status = kernels.expand(
                out.D, self.h, self.head.rows, self.cells.store, int(counts[5]), starts, len(starts),
                visited, int(counts[6]), work.cone, work.scratch, counts, out.store, self.parked,
            )  # fmt: skip
            if status == kernels.DONE:
                return
            counts[:], visited[:] = before, seen
            work.make_room(status, self.cells, out)

    def _winners(self, y: list[int]) -> list[int]:
        """The keys whose scores are largest at an integer point: those that floats cannot rule out, compared
        exactly.
        """
        size = max(map(abs, y))
        scores = self.head.rows.points @ np.array([float(Fraction(v, size)) for v in y])
        slack = 4 * (len(y) + 2) ** 2 * 2.0**-53 + self.head.rows.error
        with np.errstate(over="ignore"):
            near = np.flatnonzero(scores + 2 * slack >= scores.max()).tolist()
        point = [flint.fmpq(v) for v in y]
        exact = [dot(self.head.exact(j), point) for j in near]
        best = max(exact)
        return [j for j, score in zip(near, exact, strict=True) if score == best]

    def _align(self) -> None:
        """All facet sets with equally many words."""
        words = max(self.cells.words, self.out.words, self.work.words)
        for holder in (self.cells, self.out, self.work):
            holder.widen(words)


def _bit(mask: NDArray[np.uint64], slot: int) -> NDArray[np.bool_]:
    return np.asarray((mask[:, slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1), dtype=np.bool_)
