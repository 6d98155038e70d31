r"""Which sets of k keys win together on an open set: the cells of an order-k diagram.

A head that reads its k best keys gives x to the set S of the k largest scores. Its cells are those of the
diagram of sums :math:`s_S = \sum_{j \in S} s_j`, one score per set, of which there are :math:`\binom{N}{k}`;
few of them win. Two methods find these without listing the others.

*A walk*, up to five homogeneous dimensions. Where S wins, its cell falls into rank pieces: on the piece
:math:`(A, j)` the keys A are above key j, all others below it, and :math:`S = A \cup \{j\}`. A piece compares
all keys with one, so it has N - 1 walls and simple corners (:mod:`hardmax.geometry.cones.rank_kernels`).
Where the walk leaves a piece through a facet F, let T be the keys that tie with j on all of F. Every
inequality of the piece has one sign on it, so a key that ties with j at one inner point of F ties on all of
F: lifted keys of T lie on one line, along which their order is that of their scores, and the other side of F
has the same order reversed. In general position T has two keys, and they swap. Collinear lifted keys swap all
at once, and the k-th key of the reversed order need not be one of the two that met. So each facet leads to
exactly one piece, and it has interior. Space minus the faces of dimension d - 2 and less is connected: once
every facet of every piece found has been crossed, no piece is missing.

*Levels*, in any dimension. At an inner point where no two different scores tie, the k - 1 best keys of S are
a set of order k - 1 with interior. So the winning sets of order k are among the extensions of those of order
k - 1 by one key, and a set wins exactly when its sum is a strict maximum of the sums of these
(:mod:`hardmax.geometry.diagrams.interiors`).

Keys with identical scores are ordered by index: the lowest indices are in the set. More than half of the keys
are found as the complement of the N - k worst ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import count

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.exact.rationals import dot, nearest_float, rational
from hardmax.geometry.cones import splitting_kernels as kernels
from hardmax.geometry.cones.heads import Frame, Head, independent_columns, scaled_heads
from hardmax.geometry.cones.rank_kernels import cut_pieces
from hardmax.geometry.cones.rational_splitting import Cells, RationalCone, Workspace, integer_row
from hardmax.geometry.diagrams.interiors import decide_interiors
from hardmax.geometry.diagrams.tie_groups import TieGroups
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.scores import UNIT_ROUNDOFF, Scores

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Look = Callable[[int], object]

RAYS_UP_TO = 5  # homogeneous dimensions in which pieces are carried with their rays
_RANK_UP_TO = 10  # dimensions in which it is worth asking how many coordinates matter
_BATCH = 2048  # pieces per compiled call, so that Ctrl-C is heard
_BLOCK = 1 << 22  # scores that are held at once when witnesses are checked


@dataclass(frozen=True, eq=False)
class WinningSets:
    """The sets of k keys that win on an open set.

    Attributes
    ----------
    sets : (n, k) int64
        The members in increasing order; rows in lexicographic order.
    witnesses : (n, d) float64
        An inner point of each cell; a direction of largest entry 1 for linear scores.
    exact_witnesses : dict
        Row -> rational point, for cells so thin that the float witness is not inside.
    adjacency : (m, 2) int64 or None
        Rows whose cells meet in dimension d - 1; ``None`` where the method does not see it.
    n_decided_exactly : int
        How many decisions needed rational arithmetic.
    """

    sets: Integers
    witnesses: Floats
    exact_witnesses: dict[int, tuple[Fraction, ...]]
    adjacency: Integers | None
    n_decided_exactly: int


def winning_sets(
    scores: Scores, k: int, *, method: str | None = None, look: Look | None = None
) -> WinningSets:
    """All sets of k keys that win together on an open set, each with a witness.

    Parameters
    ----------
    scores : Scores
    k : int
        From 1 to the number of keys.
    method : {"walk", "levels"}, optional
        Both give the same sets; the walk is taken where pieces have few rays.
    look : callable, optional
        Called again and again with the number of sets or pieces found so far; what it raises ends the search.

    Examples
    --------
    Three keys on a line and one beside it: the pair (0, 2) never wins, because key 1 is between them.

    >>> winning_sets(Scores.of_keys([[0, 0], [1, 0], [2, 0], [1, 1]]), 2).sets.tolist()
    [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    n = scores.n_keys
    if k == n or len(np.unique(scores.tie_group)) == 1:
        nobody = np.empty((0, 2), dtype=np.int64)
        return WinningSets(np.arange(k)[None, :], np.zeros((1, scores.d)), {}, nobody, 0)
    if 2 * k > n:
        worst = winning_sets(scores.reversed(), n - k, method=method, look=look)
        member = np.ones((len(worst.sets), n), dtype=np.bool_)
        member[np.arange(len(member))[:, None], n - 1 - worst.sets] = False
        best = np.nonzero(member)[1].reshape(-1, k)
        return _sorted(best, worst.witnesses, worst.exact_witnesses, worst.adjacency, worst.n_decided_exactly)
    if method == "levels" or (method is None and scores.d > _RANK_UP_TO):
        return _by_levels(scores, k, look)
    walk = _Walk(scores, k, look)
    if method is None and walk.frame.D > RAYS_UP_TO:
        return _by_levels(scores, k, look)
    return walk.run()


def _sorted(
    sets: Integers,
    witnesses: Floats,
    exact: dict[int, tuple[Fraction, ...]],
    adjacency: Integers | None,
    n_exact: int,
) -> WinningSets:
    """The sets in lexicographic order, and what belongs to them."""
    order = np.lexsort(sets.T[::-1])
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    if adjacency is not None:
        adjacency = np.unique(np.sort(rank[adjacency], axis=1), axis=0).reshape(-1, 2)
    moved = {int(rank[i]): point for i, point in exact.items()}
    return WinningSets(
        np.ascontiguousarray(sets[order]), np.ascontiguousarray(witnesses[order]), moved, adjacency, n_exact
    )


def surely_winning(scores: Scores, sets: Integers, points: Floats) -> Booleans:
    """At which float points every member provably beats every key outside that is not identical to it."""
    shown = np.asarray(np.isfinite(points).all(axis=1))
    ties = TieGroups.of(scores)
    slopes, offsets = scores.slopes, scores.offsets
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows shows nothing
        sizes = np.abs(slopes).sum(axis=1) + np.abs(offsets)
        for start in range(0, len(sets), max(1, _BLOCK // scores.n_keys)):
            rows = slice(start, start + max(1, _BLOCK // scores.n_keys))
            x = np.where(shown[rows, None], points[rows], 0.0)
            largest = np.maximum(np.abs(x).max(axis=1, initial=0.0), 1.0)[:, None] * 1.02
            error = largest * ((scores.d + 4) * UNIT_ROUNDOFF * sizes + scores.row_error)
            values = x @ slopes.T + offsets
            each, members = np.arange(len(x)), sets[rows]
            low = np.take_along_axis(values - error, members, axis=1)
            high = values + error
            held = np.zeros((len(x), ties.n), dtype=np.int64)
            np.add.at(held, (each[:, None], ties.group[members]), 1)
            rivals = np.where((held == 0)[:, ties.group], high, -np.inf).max(axis=1)
            shown[rows] &= low.min(axis=1) > rivals
            # a group that is in the set in part: the other members have to beat what is left of it
            partial = (held > 0) & (held < ties.sizes)
            shown[rows] &= partial.sum(axis=1) <= 1
            split = np.where(partial.any(axis=1), partial.argmax(axis=1), -1)
            others = np.where(ties.group[members] != split[:, None], low, np.inf).min(axis=1)
            left = np.where(split >= 0, high[each, ties.first[split]], -np.inf)
            shown[rows] &= others > left
    return shown


def is_winning(scores: Scores, members: Iterable[int], point: Iterable[float | Fraction]) -> bool:
    """Whether every member beats every key outside that is not identical to it, decided in rationals."""
    values = list(point)
    if not all(isinstance(v, Fraction) or np.isfinite(v) for v in values):
        return False
    x = [*(rational(v) for v in values), flint.fmpq(1)]
    inside, group = set(members), scores.tie_group
    lowest: dict[int, flint.fmpq] = {}  # of each group in the set
    for j in inside:
        lowest.setdefault(int(group[j]), dot(scores.exact_row(j), x))
    for l in range(scores.n_keys):
        rivals = [value for g, value in lowest.items() if g != group[l]]
        if l not in inside and rivals and dot(scores.exact_row(l), x) >= min(rivals):
            return False
    return True


def _by_levels(scores: Scores, k: int, look: Look | None = None) -> WinningSets:
    """Order by order: every winning set extends a winning set of one key less."""
    ties = TieGroups.of(scores)
    order = np.argsort(ties.group, kind="stable")
    twin = np.full(scores.n_keys, -1)  # the key before it with the same score, which is in the set first
    twin[order[1:]] = np.where(ties.place[order[1:]] > 0, order[:-1], -1)
    sets, n_exact = np.empty((1, 0), dtype=np.int64), 0
    for _ in range(k):
        if look is not None:
            look(len(sets))
        member = np.zeros((len(sets), scores.n_keys + 1), dtype=np.bool_)
        member[np.arange(len(sets))[:, None], sets] = True
        member[:, -1] = True  # a key without a twin may always enter
        parent, key = np.nonzero(~member[:, :-1] & member[:, twin])
        extended = np.unique(np.sort(np.column_stack([sets[parent], key]), axis=1), axis=0)
        sums = scores.sums(extended)
        n_sets = len(sets)
        found = decide_interiors(sums, look=None if look is None else partial(look, n_sets))
        n_exact += found.n_decided_exactly
        # two sets of one sum are no strict maximum: the best k keys of an inner point are unique up to twins
        sets = extended[found.nonempty]
    witnesses = found.witnesses[found.nonempty]
    rank = np.cumsum(found.nonempty) - 1
    exact = {int(rank[i]): point for i, point in found.exact_witnesses.items()}
    for i in np.flatnonzero(~surely_winning(scores, sets, witnesses)).tolist():
        if not is_winning(scores, sets[i].tolist(), exact.get(i, witnesses[i])):
            raise CertificateError(f"the witness of the keys {sets[i].tolist()} fails; please report this.")
    return WinningSets(sets, witnesses, exact, None, n_exact)


class _Walk:
    """The walk over rank pieces. Groups of identical scores are rows of ``head``; pieces speak of groups."""

    def __init__(self, scores: Scores, k: int, look: Look | None = None) -> None:
        self.scores, self.k, self.look = scores, k, look
        domain = WholeSpace(scores.d)
        self.frame = Frame(scores.d, independent_columns([scores], domain), scores.linear)
        self.head: Head = scaled_heads([scores], domain, self.frame)[0]
        self.ties = TieGroups.of(scores)
        self.n_exact = 0

    def run(self) -> WinningSets:
        """Cross every facet of every piece."""
        seed = self._seed()
        known = {_name(*seed): 0}
        above, pivots, inner = [seed[0]], [seed[1]], []
        crossings: list[Integers] = []
        done = 0
        while done < len(above):
            if self.look is not None:
                self.look(len(above))
            stop = min(len(above), done + _BATCH)
            batch = np.array(above[done:stop]), np.array(pivots[done:stop])
            cells = self._cut(*batch)
            inner.append(self._inner_points(cells))
            near, from_piece = self._across(*batch, cells)
            targets = np.empty(len(from_piece), dtype=np.int64)
            packed = np.packbits(near[0], axis=1)
            for i, (row, pivot) in enumerate(zip(packed, near[1].tolist(), strict=True)):
                name = (row.tobytes(), pivot)
                target = known.get(name)
                if target is None:
                    target = known[name] = len(above)
                    above.append(near[0][i])
                    pivots.append(pivot)
                targets[i] = target
            crossings.append(np.column_stack([from_piece + done, targets]))
            done = stop
        return self._result(
            np.array(above), np.array(pivots), np.concatenate(inner), np.concatenate(crossings)
        )

    # One piece
    # ------------------------------------------------------------------------------------------------------

    def _filled(self, above: Booleans, ranking: Iterable[int]) -> tuple[Booleans, int]:
        """The piece whose k-th key is found by taking groups in order, after those already above."""
        above = above.copy()
        held = int(self.ties.sizes[above].sum())
        for g in ranking:
            held += int(self.ties.sizes[g])
            if held >= self.k:
                return above, g
            above[g] = True
        raise CertificateError("a piece lost its keys; please report this input.")

    def _seed(self) -> tuple[Booleans, int]:
        """A piece with interior: the k best groups at a point where the k-th ties with no other."""
        nobody = np.zeros(self.head.n_keys, dtype=np.bool_)
        draw = np.random.default_rng(0)
        for size in count(20):
            y = draw.integers(1, 2 ** min(size, 62), self.frame.D).tolist()
            point = [flint.fmpq(v) for v in y]
            values = [dot(self.head.exact(g), point) for g in range(self.head.n_keys)]
            ranking = sorted(range(self.head.n_keys), key=lambda g: values[g], reverse=True)
            above, pivot = self._filled(nobody, ranking)
            if values.count(values[pivot]) == 1:
                return above, pivot
        raise AssertionError

    def _root(self) -> RationalCone:
        cone = RationalCone(self.frame.D)
        if not self.frame.linear:
            cone.cut([0] * (self.frame.D - 1) + [1], (kernels.DOMAIN, -1))
        return cone

    def _cut(self, above: Booleans, pivots: Integers) -> Cells:
        """The cones of some pieces; ``store.parent`` says which piece each is."""
        D, n = self.frame.D, len(pivots)
        root = Cells(D, 1, 1, 16, 16)
        root.append(self._root(), -1, -1)
        root.trim()
        out = Cells(D, 1, n, 4 * n * 2 ** (D - 1), 4 * n * D)
        work = Workspace(D, self.head.n_keys)
        parked = np.empty(n, dtype=np.int64)
        while out.counts[5] < n:
            words = max(root.words, out.words, work.words)
            for holder in (root, out, work):
                holder.widen(words)
            status = cut_pieces(
                D, self.head.rows, root.store, above, pivots, n, work.cone, work.scratch,
                out.counts, out.store, parked,
            )  # fmt: skip
            if status != kernels.DONE:
                work.make_room(status, root, out)
        for p in parked[: out.counts[3]].tolist():
            out.append(self._rational_piece(above[p], int(pivots[p])), p, int(pivots[p]))
            self.n_exact += 1
        out.trim()
        return out

    def _rational_piece(self, above: Booleans, pivot: int) -> RationalCone:
        cone, own = self._root(), self.head.exact(pivot)
        for g in range(self.head.n_keys):
            if g != pivot:
                wall = [a - b for a, b in zip(self.head.exact(g), own, strict=True)]
                normal = integer_row(wall if above[g] else [-v for v in wall])
                if cone.cut(normal, (0, g)) == kernels.EMPTIES:
                    raise CertificateError("the walk met a piece without interior; please report this input.")
        return cone

    @staticmethod
    def _inner_points(cells: Cells) -> Floats:
        """A point inside each piece, in the order of the pieces."""
        store = cells.store
        points = np.empty((cells.n, cells.D))
        points[store.parent] = np.add.reduceat(store.rays[:, : cells.D], store.ray_start[:-1])
        return points

    # Across the facets
    # ------------------------------------------------------------------------------------------------------

    def _across(
        self, above: Booleans, pivots: Integers, cells: Cells
    ) -> tuple[tuple[Booleans, Integers], Integers]:
        """The pieces behind all facets, and the piece (number in the batch) that each is seen from."""
        store, D = cells.store, cells.D
        owner = np.repeat(np.arange(cells.n), np.diff(store.facet_start))
        # where no ray lies on more facets than it must, every stored wall is a facet of its own
        crowded = np.bitwise_count(store.mask).sum(axis=1) > D - 1
        simple = ~np.logical_or.reduceat(crowded, store.ray_start[:-1]) & (D > 1)
        plain = (store.label[:, 0] == 0) & simple[owner]
        piece, met = store.parent[owner[plain]], store.label[plain, 1]
        rows, new_pivots = self._swapped(above[piece], pivots[piece], met)
        extra_rows, extra_pivots, extra_pieces = [], [], []
        for cell in np.flatnonzero(~simple).tolist():
            p = int(store.parent[cell])
            for tied in self._facets(cells, cell):
                row, pivot = self._reversed(above[p], int(pivots[p]), tied)
                extra_rows.append(row)
                extra_pivots.append(pivot)
                extra_pieces.append(p)
        if extra_rows:
            rows = np.concatenate([rows, np.array(extra_rows)])
            new_pivots = np.concatenate([new_pivots, np.array(extra_pivots)])
            piece = np.concatenate([piece, np.array(extra_pieces)])
        return (rows, new_pivots), piece

    def _swapped(self, above: Booleans, pivots: Integers, met: Integers) -> tuple[Booleans, Integers]:
        """Behind a facet on which the pivot ties with one other group: the two change places."""
        each = np.arange(len(met))
        was_above = above[each, met]
        rows = above.copy()
        rows[each, met] = False
        first, second = np.where(was_above, pivots, met), np.where(was_above, met, pivots)
        enough = rows @ self.ties.sizes + self.ties.sizes[first] >= self.k
        rows[each, first] |= ~enough
        return rows, np.where(enough, first, second)

    def _facets(self, cells: Cells, cell: int) -> list[list[int]]:
        """The groups that tie with the pivot on each facet of a piece with crowded rays; not infinity."""
        store, D = cells.store, cells.D
        first, stop = int(store.facet_start[cell]), int(store.facet_start[cell + 1])
        labels = [(int(h), int(g)) for h, g in store.label[first:stop]]
        if D == 1:  # every wall is the apex of the half-line
            here = [0] * len(labels)
        else:
            mask = store.mask[store.ray_start[cell] : store.ray_start[cell + 1]]
            here = []
            for s in range(D, D + len(labels)):
                bits = (mask[:, s >> 6] >> np.uint64(s & 63)) & np.uint64(1)
                here.append(sum(1 << i for i in np.flatnonzero(bits).tolist()))
        facets: dict[int, list[tuple[int, int]]] = {}
        for label, rays in zip(labels, here, strict=True):
            facets.setdefault(rays, []).append(label)
        # a wall that only touches the piece meets it in part of a true facet
        return [
            [g for _, g in tied]
            for rays, tied in facets.items()
            if not any(rays & ~other == 0 and rays != other for other in facets)
            and all(h != kernels.DOMAIN for h, _ in tied)
        ]

    def _reversed(self, above: Booleans, pivot: int, tied: list[int]) -> tuple[Booleans, int]:
        """Behind a facet on which several groups tie: their lifted keys lie on a line, and turn round."""
        own = self.head.exact(pivot)
        steps = {g: [a - b for a, b in zip(self.head.exact(g), own, strict=True)] for g in tied}
        axis = next(c for c, v in enumerate(steps[tied[0]]) if v)
        outward = 1 if above[tied[0]] == (steps[tied[0]][axis] > 0) else -1
        along = {g: outward * step[axis] for g, step in steps.items()} | {pivot: flint.fmpq(0)}
        base = above.copy()
        base[tied] = False
        return self._filled(base, sorted(along, key=along.__getitem__))

    # The sets
    # ------------------------------------------------------------------------------------------------------

    def _result(self, above: Booleans, pivots: Integers, inner: Floats, crossings: Integers) -> WinningSets:
        members = self.ties.sets(above, pivots, self.k)
        sets, first, which = np.unique(members, axis=0, return_index=True, return_inverse=True)
        which = which.ravel()
        witnesses = self.frame.to_space(inner[first])
        exact: dict[int, tuple[Fraction, ...]] = {}
        for i in np.flatnonzero(~surely_winning(self.scores, sets, witnesses)).tolist():
            if is_winning(self.scores, sets[i].tolist(), witnesses[i]):
                continue
            piece = self._rational_piece(above[first[i]], int(pivots[first[i]]))
            point = self.frame.to_space_exactly(piece.interior_point())
            witnesses[i] = [nearest_float(v) for v in point]
            if not is_winning(self.scores, sets[i].tolist(), witnesses[i]):
                exact[i] = tuple(point)
        pairs = which[crossings]
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        return _sorted(sets, witnesses, exact, pairs, self.n_exact)


def _name(above: Booleans, pivot: int) -> tuple[bytes, int]:
    return np.packbits(above).tobytes(), int(pivot)
