r"""The heads of a refinement before the first cut: their coordinates, and which keys can have a common wall.

*Coordinates.* Three things are settled without rounding: which coordinates of :math:`x` matter (score
differences may span a smaller space); whether the problem is linear (cells are cones already) or affine
(homogenised to :math:`y = (x, x_0)`, :math:`x_0 \ge 0`); and powers of two that bring all columns to one
size, so that one error bound fits them all and nothing overflows.

*Candidate neighbours*, for heads with many keys. Space is covered by simplicial cones. On such a cone every
score difference is a positive combination of its values at the D rays, so a key that is strictly below
another key at all rays is strictly below it on the whole closed cone: it can neither win there nor touch a
winner. Cones are halved until few keys are left; keys that are never left together cannot be neighbours.

The lists that come out contain every true neighbour (and some others), so cutting the cell of a winning key
by the walls on its list gives the cell exactly. For a key that wins nowhere a list may be too short to show
it, so a walk over these lists has to start at a key that does win: from there it only meets winners and keys
that tie with a winner at some point, and near such a point all the keys that matter are on each other's
lists. Rays are sums of earlier rays and stay exact: small integers up to a power of two, so the two halves
cover their parent without a gap; a cone whose middle ray would be rounded is not halved any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.errors import InvalidInputError
from hardmax.exact.rationals import grain as grain_of
from hardmax.exact.rationals import pivots, power_of_two
from hardmax.geometry.cones.splitting_kernels import INEXACT, Rows
from hardmax.geometry.domains import Domain
from hardmax.geometry.scores import Scores

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NOTHING = -(1 << 20)  # exponent of zero
_TINY = 1e-250  # entries below this size after scaling count as rounded


@dataclass
class Frame:
    """Some columns of x, scaled by powers of two, and x_0 last when the problem is affine."""

    d: int
    columns: list[int]
    linear: bool
    exponents: list[int] = field(default_factory=list)  # y_i = 2^exponents[i] x_i

    @property
    def D(self) -> int:
        """The number of homogeneous coordinates."""
        return len(self.columns) + (not self.linear)

    def floats(self, slopes: Floats, offsets: Floats) -> Floats:
        """The rows (a, b) in the frame's columns, not yet scaled."""
        columns = slopes[:, self.columns]
        return columns if self.linear else np.column_stack([columns, offsets])

    def exact(self, row: list[flint.fmpq]) -> list[flint.fmpq]:
        """An exact row (a, b) in the frame, scaled."""
        picked = [row[c] for c in self.columns] + ([] if self.linear else [row[-1]])
        return [value * power_of_two(-e) for value, e in zip(picked, self.exponents, strict=True)]

    def unscaled(self, y: Floats) -> Floats:
        """Undo the powers of two: homogeneous rows (x, x_0), up to a factor that avoids overflow."""
        powers = -np.array(self.exponents, dtype=np.int64)
        return np.asarray(np.ldexp(y, np.minimum(powers, powers - powers.max(initial=0))))

    def to_space(self, y: Floats) -> Floats:
        """Homogeneous points as points of R^d; directions of largest entry 1 when linear."""
        x = np.zeros((len(y), self.d))
        y = self.unscaled(y)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.linear:
                x[:, self.columns] = y / np.abs(y).max(axis=1, initial=0.0, keepdims=True)
            else:
                x[:, self.columns] = y[:, :-1] / y[:, -1:]
        return x

    def to_space_exactly(self, y: Sequence[int | Fraction]) -> list[Fraction]:
        """The same for one integer vector."""
        powers = [Fraction(2**-e) if e < 0 else Fraction(1, 2**e) for e in self.exponents]
        scaled = [v * power for v, power in zip(y, powers, strict=True)]
        size = max(map(abs, scaled), default=Fraction(1)) if self.linear else scaled[-1]
        x = [Fraction(0)] * self.d
        for c, value in zip(self.columns, scaled, strict=False):
            x[c] = value / size
        return x


@dataclass
class Head:
    """One head in the frame: a row per distinct score."""

    rows: Rows
    index: Integers  # row -> key of the user
    exact: Callable[[int], list[flint.fmpq]]

    @property
    def n_keys(self) -> int:
        """The number of rows."""
        return len(self.rows.points)

    def restricted(self, keep: Integers, start: Integers, neighbours: Integers) -> Head:
        """Only some rows, with new lists of neighbours (numbered among those rows)."""
        exact, old, rows = self.exact, keep.tolist(), self.rows
        points = np.ascontiguousarray(rows.points[keep])
        columns = np.ascontiguousarray(points.T)
        kept = Rows(points, columns, rows.error[keep], rows.noise, rows.grain, start, neighbours)
        return Head(kept, self.index[keep], lambda j: exact(old[j]))


def scaled_heads(families: list[Scores], domain: Domain, frame: Frame) -> list[Head]:
    """Choose the powers of two and express every head in the frame, one row per group of identical scores."""
    kept = [np.unique(family.tie_group) for family in families]
    raw = [frame.floats(f.slopes[index], f.offsets[index]) for f, index in zip(families, kept, strict=True)]
    # sizes as exponents: a product of two powers of two may leave the float range that its factors are in
    sizes = [_exponents(points) for points in raw]
    shifts = [
        -int(size.max(initial=_NOTHING)) if size.max(initial=_NOTHING) > _NOTHING else 0 for size in sizes
    ]
    columns = [size + shift for size, shift in zip(sizes, shifts, strict=True)]
    columns.append(_exponents(frame.floats(domain.a.floats, domain.b.floats)))
    largest = np.max(columns, axis=0, initial=_NOTHING)
    frame.exponents = [int(e) if e > _NOTHING // 2 else 0 for e in largest]
    return [
        _scaled_head(family, index, points, shift, frame)
        for family, index, points, shift in zip(families, kept, raw, shifts, strict=True)
    ]


def _exponents(points: Floats) -> Integers:
    """For each column the e with largest entry in [2^(e-1), 2^e), or far below everything when it is zero."""
    largest = np.abs(points).max(axis=0, initial=0.0)
    return np.where(largest > 0.0, np.frexp(largest)[1].astype(np.int64), _NOTHING)


def _scaled_head(family: Scores, index: Integers, raw: Floats, shift: int, frame: Frame) -> Head:
    powers = shift - np.array(frame.exponents, dtype=np.int64)
    points = np.ascontiguousarray(np.ldexp(raw, powers))
    with np.errstate(over="ignore"):
        error = np.ldexp(family.row_error[index], int(powers.max(initial=0)))
    if bool((np.abs(points)[raw != 0.0] < _TINY).any()):  # something came close to underflow
        error = error + _TINY
    grain = -INEXACT if error.any() else grain_of(points)
    rows: dict[int, list[flint.fmpq]] = {}
    power = power_of_two(shift)

    def exact(j: int) -> list[flint.fmpq]:
        if j not in rows:
            rows[j] = [value * power for value in frame.exact(family.exact_row(int(index[j])))]
        return rows[j]

    nobody = np.empty(0, dtype=np.int64)
    columns = np.ascontiguousarray(points.T)
    D = frame.D
    noise = 4.1 * D * (D + 2) * 2.0**-53 + 2.1 * float(error.max(initial=0.0))
    return Head(Rows(points, columns, error, noise, grain, nobody, nobody), index, exact)


def independent_columns(families: list[Scores], domain: Domain) -> list[int]:
    r"""Coordinates that carry the whole partition.

    Score differences (and the domain's rows) span a space of rank r. Restricting x to r coordinates whose
    columns are independent keeps every value of all differences, hence every cell, so the other coordinates
    can be set to zero.
    """
    d = families[0].d
    # halves, because the difference of two large slopes may overflow
    floats = np.concatenate([0.5 * f.slopes - 0.5 * f.slopes[0] for f in families] + [domain.a.floats])

    def exact(i: int) -> list[flint.fmpq]:
        for f in families:
            if i < f.n_keys:
                return [a - b for a, b in zip(f.exact_row(i)[:-1], f.exact_row(0)[:-1], strict=True)]
            i -= f.n_keys
        return domain.a.rational_row(i)

    proposed = _proposed(floats, d)
    if len(proposed) == d and flint.fmpq_mat([exact(i) for i in proposed]).rank() == d:
        return list(range(d))
    basis: list[list[flint.fmpq]] = []
    # a float elimination proposes independent rows, an exact rank confirms them; only if that falls short
    # every row is looked at
    for i in [*proposed, *range(len(floats))]:
        if len(basis) == d:
            return list(range(d))
        row = exact(i)
        if any(row) and flint.fmpq_mat([*basis, row]).rref()[1] > len(basis):
            basis.append(row)
    if len(basis) == d:
        return list(range(d))
    if not basis:
        return []
    return pivots(*flint.fmpq_mat(basis).rref())


def _proposed(rows: Floats, d: int) -> list[int]:
    residual = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    proposed: list[int] = []
    for _ in range(min(d, len(rows))):
        norms = np.einsum("ij,ij->i", residual, residual)
        i = int(np.argmax(norms))
        if norms[i] < 1e-24:
            break
        proposed.append(i)
        residual = residual - np.outer(residual @ residual[i], residual[i]) / norms[i]
    return proposed


_UNIT = 2.0**-53
_LEAF = {1: 3, 2: 4, 3: 6, 4: 9, 5: 24}  # cones with at most this many keys are not halved
_CROWD = 20_000  # more keys than this in one cone that cannot be halved: the pairs would not fit into memory


def candidate_neighbours(rows: Rows, *, affine: bool) -> tuple[Integers, Integers, Integers]:
    """Keys that may win somewhere, and for each of them the keys it may have a wall with.

    Returns
    -------
    keep : (m,) int64
        Rows that can win; all others are strictly below the maximum everywhere.
    start, neighbours : int64
        ``neighbours[start[i] : start[i + 1]]`` are positions in ``keep``: a superset of the neighbours of
        ``keep[i]``.
    """
    n, D = rows.points.shape
    if D == 1:
        return _ends_of_a_line(rows)
    leaf = _LEAF.get(D, 4 ** (D - 2))
    room, pair_room = 6 * n + 4096, 16 * n + 4096
    while True:
        ids, values = np.empty(room, dtype=np.int64), np.empty((room, D))
        alone, pairs = np.zeros(n, dtype=np.bool_), np.empty(pair_room, dtype=np.int64)
        status, n_pairs = _search(rows.points, rows.error, affine, leaf, ids, values, alone, pairs)
        if status == _CROWDED:
            raise InvalidInputError(
                f"more than {_CROWD} keys come so close to a common tie that float64 cannot tell them apart; "
                "thin out the keys or round them."
            )
        if status == _DONE:
            break
        room, pair_room = (2 * room, pair_room) if status == _LISTS_FULL else (room, 2 * pair_room)
    found = np.sort(pairs[:n_pairs])
    low, high = np.divmod(found[np.append(True, found[1:] != found[:-1])] if n_pairs else found, n)
    keep = np.flatnonzero(alone)
    position = np.full(n, -1, dtype=np.int64)
    position[keep] = np.arange(len(keep))
    low, high = position[low], position[high]
    source, target = np.divmod(
        np.sort(np.concatenate([low * len(keep) + high, high * len(keep) + low])), len(keep)
    )
    return keep, np.searchsorted(source, np.arange(len(keep) + 1)), target


def _ends_of_a_line(rows: Rows) -> tuple[Integers, Integers, Integers]:
    """On a line through 0 the only wall is 0 itself, between the largest and the smallest slope."""
    slopes, slack = rows.points[:, 0], 4 * rows.error + 2.0**-50
    keep = np.flatnonzero((slopes + slack >= slopes.max()) | (slopes - slack <= slopes.min()))
    m = len(keep)
    others = np.tile(np.arange(m), (m, 1))[~np.eye(m, dtype=np.bool_)]
    return keep, np.arange(m + 1) * (m - 1), others


_DONE, _LISTS_FULL, _PAIRS_FULL, _CROWDED = 0, 1, 2, 3


@kernel(inner=True)
def _collect(n, D, start, count, ids, values, margin, alone, pairs, n_pairs):  # type: ignore[no-untyped-def]
    """Record the pairs of a cone that is not halved any more; -1 when there is no room."""
    # a key below another one on the whole cone is of no use there
    kept = start
    for i in range(start, start + count):
        beaten = False
        for k in range(start, start + count):
            beaten = k != i
            for c in range(D):
                if not values[k, c] - values[i, c] > margin:
                    beaten = False
                    break
            if beaten:
                break
        if not beaten:
            pairs_end = n_pairs + kept - start
            if pairs_end > pairs.shape[0]:
                return -1
            alone[ids[i]] = True
            for k in range(start, kept):
                pairs[n_pairs] = min(ids[i], ids[k]) * n + max(ids[i], ids[k])
                n_pairs += 1
            ids[kept], ids[i] = ids[i], ids[kept]
            for c in range(D):
                values[kept, c], values[i, c] = values[i, c], values[kept, c]
            kept += 1
    return n_pairs


@kernel(allocates=True)
def _search(points, error, affine, leaf, ids, values, alone, pairs):  # type: ignore[no-untyped-def]
    """Depth-first halving; ``ids`` and ``values`` are stacks of candidate lists with their scores at the rays
    of the cone.
    """
    n, D = points.shape
    deepest = 400
    cones = np.empty((deepest, D, D))
    first = np.empty(deepest, dtype=np.int64)
    length = np.empty(deepest, dtype=np.int64)
    stuck = np.empty(deepest, dtype=np.int64)
    n_pairs = 0
    largest_error = 0.0
    for j in range(n):
        largest_error = max(largest_error, error[j])
    # scores at rays with entries of size at most 1, points with entries of size at most 1
    margin = 4.0 * (D * (D + 2) * _UNIT + largest_error)
    pivots = np.empty(D + 1, dtype=np.int64)
    pivot_values = np.empty((D + 1, D))
    middle = np.empty(D)
    n_orthants = 1 << (D - 1 if affine else D)
    for orthant in range(n_orthants):
        if n > ids.shape[0]:
            return _LISTS_FULL, 0
        for r in range(D):
            for c in range(D):
                cones[0, r, c] = 0.0
            cones[0, r, r] = -1.0 if orthant >> r & 1 else 1.0
        for j in range(n):
            ids[j] = j
            for r in range(D):
                values[j, r] = points[j, r] * cones[0, r, r]
        first[0] = 0
        length[0] = n
        stuck[0] = 0
        top = 0
        while top >= 0:
            start, count = first[top], length[top]
            # drop the keys that one of the pivots beats at every ray
            for r in range(D + 1):
                best = -np.inf
                for i in range(start, start + count):
                    value = 0.0
                    if r < D:
                        value = values[i, r]
                    else:
                        for c in range(D):
                            value += values[i, c]
                    if value > best:
                        best = value
                        pivots[r] = i
            kept = start
            for r in range(D + 1):
                for c in range(D):
                    pivot_values[r, c] = values[pivots[r], c]
            for i in range(start, start + count):
                beaten = False
                for r in range(D + 1):
                    beaten = True
                    for c in range(D):
                        if not pivot_values[r, c] - values[i, c] > margin:
                            beaten = False
                            break
                    if beaten:
                        break
                if not beaten:
                    if kept != i:
                        ids[kept] = ids[i]
                        for c in range(D):
                            values[kept, c] = values[i, c]
                    kept += 1
            remaining = kept - start
            stuck[top] = 0 if remaining < 0.9 * count else stuck[top] + 1
            count = remaining
            length[top] = count
            # around a point where many keys tie, halving makes no progress: stop after D vain attempts
            split = count > leaf and stuck[top] <= D and top + 2 < deepest
            if split:
                # halve the longest edge; rays are comparable in size because each is scaled to largest entry
                # in [1/2, 1)
                p, q, longest = 0, 1, -1.0
                for a in range(D):
                    for b in range(a + 1, D):
                        aa, bb, ab = 0.0, 0.0, 0.0
                        for c in range(D):
                            aa += cones[top, a, c] * cones[top, a, c]
                            bb += cones[top, b, c] * cones[top, b, c]
                            ab += cones[top, a, c] * cones[top, b, c]
                        spread = 1.0 - ab / math.sqrt(aa * bb)
                        if spread > longest:
                            p, q, longest = a, b, spread
                exact = True
                size = 0.0
                for c in range(D):
                    u, v = cones[top, p, c], cones[top, q, c]
                    total = u + v
                    back = total - u
                    if (u - (total - back)) + (v - back) != 0.0:
                        exact = False
                    middle[c] = total
                    size = max(size, abs(total))
                if exact and size > 0.0:
                    scale = math.ldexp(1.0, -math.frexp(size)[1])
                    for c in range(D):
                        middle[c] *= scale
                else:
                    split = False
            if not split:
                if count > _CROWD:
                    return _CROWDED, 0
                n_pairs = _collect(n, D, start, count, ids, values, margin, alone, pairs, n_pairs)
                if n_pairs < 0:
                    return _PAIRS_FULL, 0
                top -= 1
                continue
            # the first half takes a copy of the list, the second half reuses the parent's place
            if start + 2 * count > ids.shape[0]:
                return _LISTS_FULL, 0
            for i in range(count):
                ids[start + count + i] = ids[start + i]
                total = 0.0
                for c in range(D):
                    total += points[ids[start + i], c] * middle[c]
                for c in range(D):
                    values[start + count + i, c] = values[start + i, c]
                values[start + count + i, p] = total
                values[start + i, q] = total
            for r in range(D):
                for c in range(D):
                    cones[top + 1, r, c] = cones[top, r, c]
            for c in range(D):
                cones[top + 1, p, c] = middle[c]
                cones[top, q, c] = middle[c]
            first[top + 1] = start + count
            length[top + 1] = count
            stuck[top + 1] = stuck[top]
            top += 1
    return _DONE, n_pairs
