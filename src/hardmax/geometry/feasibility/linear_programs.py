r"""Strict feasibility of homogeneous systems: is there a y with :math:`g_l \cdot y > 0` for every row?

By Gordan's theorem exactly one of two things exists: such a :math:`y` (a *witness*), or a convex combination
of the rows that is zero (a *certificate*; by Caratheodory at most D + 1 rows are needed). Both are read off
one object, the point of smallest norm in the hull of the rows,

.. math:: y^* = \arg\min \{ |y| : y \in \operatorname{conv}(g_1, \dots, g_m) \},

because :math:`g_l \cdot y^* \ge |y^*|^2`: a nonzero :math:`y^*` is the witness with the largest margin among
all vectors of its norm, and :math:`y^* = 0` is a certificate. "Key j can win", "this tuple of keys is a
vertex of the Minkowski sum" and ``max_margin`` are all this question (P1 Theorem IV.3, section V-A).

The compiled kernel is Wolfe's algorithm. It keeps a *corral*, affinely independent rows whose hull holds the
current point inside, and a QR factor of the lifted corral (columns :math:`(s, g_i)`, where s is the size of
the rows). With :math:`q_0` the first row of Q, the smallest point of the affine hull is
:math:`s\,(Q q_0)/|q_0|^2` without its first entry and its weights solve :math:`R u = q_0`; no normal
equations, so nothing is squared. One more kernel proves that a corral of full size holds a positive
combination that is exactly zero, whatever was rounded on the way; two drivers ask the question for many keys.

Calling the kernels (from numba or from Python)::

    work = corral_workspace(D)  # tuple of arrays, reusable for every problem of this D
    status, size = min_norm_point_kernel(
        rows,         # (M, D) float64, C-contiguous; only rows[:n_rows] are read
        n_rows,       # int >= 1
        corral,       # (D + 1,) int64, in/out: indices of rows; the first `corral_size` are a warm start
        corral_size,  # int, 0 for a cold start
        x,            # (D,) in/out: for a cold start a guess that is tried first, or zero; on exit the point
        weights,      # (D + 1,) in/out: convex weights of the corral (a warm start with sum 0: equal weights)
        values,       # (M,) out: rows[:n_rows] @ x
        work,         # corral_workspace(D)
        scale,        # s = max |g_l| over the rows (1.0 for unit rows), or 0.0 to have it computed
        stop_when_positive,  # True: stop at the first point that is positive on every row
        tol,          # relative to s: see the statuses
        max_iter,     # major cycles; about 10 * D + 50 is plenty
    )

Statuses: ``POSITIVE`` every value exceeds ``tol * s * |x|`` (a proof when ``tol`` covers the rounding of the
rows and of a dot product, ``(D + 2) * 2**-53`` for exact rows); ``ZERO`` :math:`|x| \le tol \cdot s`, the
corral is the Gordan support up to rounding; ``OPTIMAL`` (only without ``stop_when_positive``) the duality gap
:math:`|x| - \min_l g_l \cdot x / |x|` is at most ``tol * s``; ``UNDECIDED`` neither within rounding: ask the
rationals. Then ::

    proved = certify_zero_kernel(rows, row_error, corral, size, weights, work)

is True when the rows ``corral[:size]``, each moved by at most ``row_error[l]`` in the sum of its entries,
always have a positive combination that vanishes. It needs ``size == D + 1`` (general position).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel

POSITIVE, ZERO, OPTIMAL, UNDECIDED = 0, 1, 2, 3
OPEN, WINS, EMPTY, PARKED = 0, 1, 2, 3  # verdicts of settle_keys_kernel; parked keys go to the rationals

Workspace: TypeAlias = tuple[
    NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]
]

_SMALL_PRODUCT = 1024  # below this many entries a plain loop beats the call into BLAS
_DEPENDENT = 1e-13  # a new row this close to the span of the lifted corral adds nothing but noise


def corral_workspace(dimension: int) -> Workspace:
    """Scratch arrays for problems with rows of length ``dimension``."""
    n = dimension + 2
    return np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((4, n))


@kernel(reorder=True, inlined=True)
def _dot(u, v, start, end):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(start, end):
        total += u[i] * v[i]
    return total


@kernel(reorder=True, allocates=True, inner=True)
def _price_by_blas(rows, n_rows, x, values):  # type: ignore[no-untyped-def]
    np.dot(rows[:n_rows], x, values[:n_rows])
    return np.argmin(values[:n_rows])


@kernel(reorder=True, inlined=True)
def _price(rows, n_rows, x, values):  # type: ignore[no-untyped-def]
    """values = rows @ x and the index of its smallest entry."""
    d = x.shape[0]
    if n_rows * d <= _SMALL_PRODUCT:
        best, lowest = 0, np.inf
        for i in range(n_rows):
            total = 0.0
            for k in range(d):
                total += rows[i, k] * x[k]
            values[i] = total
            if total < lowest:
                best, lowest = i, total
        return best
    return _price_by_blas(rows, n_rows, x, values)


@kernel(reorder=True, inlined=True)
def _append(rows, index, size, scale, q, r, lifted):  # type: ignore[no-untyped-def]
    """Add the lifted row to the QR factor; False when it lies in the span already.

    Gram-Schmidt, twice: after two passes the new direction is orthogonal to working accuracy.
    """
    n = rows.shape[1] + 1
    lifted[0] = scale
    for k in range(n - 1):
        lifted[k + 1] = rows[index, k]
    norm = np.sqrt(_dot(lifted, lifted, 0, n))
    for i in range(size):
        r[i, size] = 0.0
    for _ in range(2):
        for i in range(size):
            along = 0.0
            for k in range(n):
                along += q[i, k] * lifted[k]
            r[i, size] += along
            for k in range(n):
                lifted[k] -= along * q[i, k]
    rest = np.sqrt(_dot(lifted, lifted, 0, n))
    if rest <= _DEPENDENT * norm or size >= n:
        return False
    r[size, size] = rest
    for k in range(n):
        q[size, k] = lifted[k] / rest
    return True


@kernel(reorder=True, inner=True)
def _remove(position, size, n, q, r):  # type: ignore[no-untyped-def]
    """Drop one column of the QR factor by plane rotations."""
    for i in range(size):
        first = max(position, i - 1)
        for j in range(first, size - 1):
            r[i, j] = r[i, j + 1]
    for i in range(position, size - 1):
        a, b = r[i, i], r[i + 1, i]
        h = np.sqrt(a * a + b * b)
        if h == 0.0:
            continue
        c, s = a / h, b / h
        r[i, i] = h
        r[i + 1, i] = 0.0
        for j in range(i + 1, size - 1):
            a, b = r[i, j], r[i + 1, j]
            r[i, j] = c * a + s * b
            r[i + 1, j] = c * b - s * a
        for k in range(n):
            a, b = q[i, k], q[i + 1, k]
            q[i, k] = c * a + s * b
            q[i + 1, k] = c * b - s * a


@kernel(reorder=True, inlined=True)
def _affine_weights(size, q, r, target):  # type: ignore[no-untyped-def]
    """Weights (sum 1) of the smallest point of the affine hull of the corral."""
    total = 0.0
    for i in range(size - 1, -1, -1):
        rest = q[i, 0]
        for j in range(i + 1, size):
            rest -= r[i, j] * target[j]
        target[i] = rest / r[i, i]
        total += target[i]
    if total != 0.0:
        for i in range(size):
            target[i] /= total


@kernel(reorder=True)
def _shrink_to_inside(corral, size, weights, n, q, r, target):  # type: ignore[no-untyped-def]
    """Wolfe's minor cycles: walk to the smallest point of the affine hull, dropping rows on the way."""
    while True:
        _affine_weights(size, q, r, target)
        step, blocking = 1.0, -1
        for i in range(size):
            if target[i] <= 0.0:
                ratio = weights[i] / (weights[i] - target[i]) if weights[i] > 0.0 else 0.0
                if blocking < 0 or ratio < step:
                    step, blocking = ratio, i
        if blocking < 0:
            for i in range(size):
                weights[i] = target[i]
            return size
        for i in range(size):
            weights[i] += step * (target[i] - weights[i])
        weights[blocking] = 0.0
        for i in range(size - 1, -1, -1):
            if weights[i] <= 0.0 and size > 1:
                _remove(i, size, n, q, r)
                for j in range(i, size - 1):
                    weights[j] = weights[j + 1]
                    corral[j] = corral[j + 1]
                size -= 1


@kernel(reorder=True, inlined=True)
def _place(size, scale, q, x):  # type: ignore[no-untyped-def]
    """x = smallest point of the affine hull of the corral; returns its squared norm."""
    d = x.shape[0]
    total = 0.0
    for k in range(d):
        x[k] = 0.0
    for i in range(size):
        lead = q[i, 0]
        total += lead * lead
        for k in range(d):
            x[k] += lead * q[i, k + 1]
    square = 0.0
    for k in range(d):
        x[k] *= scale / total
        square += x[k] * x[k]
    return square


@kernel(reorder=True, inner=True)
def _row_size(rows, n_rows):  # type: ignore[no-untyped-def]
    largest = 0.0
    for i in range(n_rows):
        largest = max(largest, _dot(rows[i], rows[i], 0, rows.shape[1]))
    return np.sqrt(largest)


@kernel(reorder=True)
def min_norm_point_kernel(  # type: ignore[no-untyped-def]
    rows, n_rows, corral, corral_size, x, weights, values, work, scale, stop_when_positive, tol, max_iter
):
    """Wolfe's algorithm; see the top of this module for the arguments. Returns ``(status, corral_size)``."""
    q, r, _, vectors = work
    lifted, target = vectors[0], vectors[1]
    d = x.shape[0]
    n = d + 1
    if scale == 0.0:
        scale = _row_size(rows, n_rows)
    if scale == 0.0:  # every row is zero: any one of them is the certificate
        corral[0], weights[0] = 0, 1.0
        x[:] = 0.0
        values[:n_rows] = 0.0
        return ZERO, 1
    size = 0
    for i in range(corral_size):
        if _append(rows, corral[i], size, scale, q, r, lifted):
            corral[size], weights[size] = corral[i], max(weights[i], 0.0)
            size += 1
    if size == 0:
        square = _dot(x, x, 0, d)
        if square == 0.0:
            for i in range(n_rows):
                for k in range(d):
                    x[k] += rows[i, k]
            square = _dot(x, x, 0, d)
        entering = _price(rows, n_rows, x, values)
        if stop_when_positive and values[entering] > tol * scale * np.sqrt(square):
            return POSITIVE, 0
        _append(rows, entering, 0, scale, q, r, lifted)
        corral[0], weights[0], size = entering, 1.0, 1
    total = 0.0
    for i in range(size):
        total += weights[i]
    for i in range(size):
        weights[i] = weights[i] / total if total > 0.0 else 1.0 / size
    previous = np.inf
    for _ in range(max_iter):
        size = _shrink_to_inside(corral, size, weights, n, q, r, target)
        square = _place(size, scale, q, x)
        norm = np.sqrt(square)
        entering = _price(rows, n_rows, x, values)
        if norm <= tol * scale:
            return ZERO, size
        if stop_when_positive:
            if values[entering] > tol * scale * norm:
                return POSITIVE, size
        elif values[entering] >= square - tol * scale * norm:
            return OPTIMAL, size
        if square >= previous:
            return UNDECIDED, size
        previous = square
        if not _append(rows, entering, size, scale, q, r, lifted):
            return UNDECIDED, size
        corral[size], weights[size] = entering, 0.0
        size += 1
    return UNDECIDED, size


@kernel(reorder=True)
def certify_zero_kernel(  # type: ignore[no-untyped-def]
    rows, row_error, corral, size, weights, work, factored=0.0
):
    r"""Whether the corral provably has a positive combination that is exactly zero, for all rows within their
    error.

    Columns of M are the lifted rows :math:`(s, g_i)`. With an approximate inverse B of M and :math:`\rho =
    \|I - BM\|_\infty < 1`, M is invertible and the exact weights differ from ``weights`` by at most
    :math:`\|B(s e_0 - M w)\|_\infty / (1 - \rho)`. Every quantity is bounded above with the rounding of its
    own evaluation. ``factored`` is the s for which ``work`` still holds the QR factor of this corral, as it
    does right after the min-norm point was found, or 0.
    """
    q, r, inverse, vectors = work
    residual, residual_bound, lifted = vectors[0], vectors[1], vectors[2]
    d = rows.shape[1]
    n = d + 1
    if size != n:
        return False
    scale = factored
    if scale == 0.0:
        for i in range(n):
            scale = max(scale, np.sqrt(_dot(rows[corral[i]], rows[corral[i]], 0, d)))
        for i in range(n):
            if not _append(rows, corral[i], i, scale, q, r, lifted):
                return False
    if not 1e-100 < scale < 1e100:  # so that underflow stays far below the bounds
        return False
    # B = R^{-1} Q^T, row by row from the last
    for i in range(n - 1, -1, -1):
        for k in range(n):
            inverse[i, k] = q[i, k]
        for j in range(i + 1, n):
            factor = r[i, j]
            for k in range(n):
                inverse[i, k] -= factor * inverse[j, k]
        for k in range(n):
            inverse[i, k] /= r[i, i]
    unit = 2.0**-53
    # residual of M w = s e_0, entry by entry, with its bound: rounding of n products and sums, and the error
    # of the rows
    for k in range(n):
        residual[k] = 0.0
        residual_bound[k] = 0.0
    for i in range(n):
        for k in range(d):
            term = rows[corral[i], k] * weights[i]
            residual[k + 1] -= term
            residual_bound[k + 1] += abs(term)
        residual[0] -= scale * weights[i]
        residual_bound[0] += abs(scale * weights[i])
    residual[0] += scale
    residual_bound[0] += scale
    moved = 0.0
    for i in range(n):
        moved += row_error[corral[i]] * abs(weights[i])
    worst_rho, worst_shift = 0.0, 0.0
    for i in range(n):
        row_max = 0.0
        for k in range(n):
            row_max = max(row_max, abs(inverse[i, k]))
        # rho: sum over columns of |I - B M| with bounds
        rho = 0.0
        for j in range(n):
            entry = inverse[i, 0] * scale
            size_of_terms = abs(entry)
            for k in range(d):
                term = inverse[i, k + 1] * rows[corral[j], k]
                entry += term
                size_of_terms += abs(term)
            if i == j:
                entry -= 1.0
                size_of_terms += 1.0
            rho += abs(entry) + size_of_terms * (unit * (n + 4)) + row_max * row_error[corral[j]]
        shift = 0.0
        for k in range(n):
            bound = abs(residual[k]) + residual_bound[k] * (unit * (n + 4))
            shift += abs(inverse[i, k]) * bound
        shift += row_max * moved
        worst_rho = max(worst_rho, rho)
        worst_shift = max(worst_shift, shift)
    worst_rho *= 1.0 + 1e-9  # the sums above were themselves rounded
    if not worst_rho < 0.5:
        return False
    radius = worst_shift / (1.0 - worst_rho) * (1.0 + 1e-9) + 1e-300
    proved = True
    for i in range(n):
        proved = proved and weights[i] > radius
    return proved


@kernel(inner=True)
def _copy(source, target):  # type: ignore[no-untyped-def]
    """target = source; an assignment between slices would take seconds to compile."""
    for k in range(target.shape[0]):
        target[k] = source[k]


@kernel(inner=True)
def _cut(values, count, wanted, best):  # type: ignore[no-untyped-def]
    """The ``wanted``-th smallest of the first ``count`` values; infinity when there are no more."""
    if count <= wanted:
        return np.inf
    kept = 0
    for i in range(count):
        value = values[i]
        if kept == wanted:
            if value >= best[kept - 1]:
                continue
            kept -= 1
        j = kept
        while j > 0 and best[j - 1] > value:
            best[j] = best[j - 1]
            j -= 1
        best[j] = value
        kept += 1
    return best[kept - 1]


@kernel(reorder=True, inlined=True)
def _unit_difference(own, other, row):  # type: ignore[no-untyped-def]
    """row = own - other at unit length; returns the length."""
    square = 0.0
    for k in range(own.shape[0]):
        row[k] = own[k] - other[k]
        square += row[k] * row[k]
    length = np.sqrt(square)
    if length > 0.0:
        for k in range(own.shape[0]):
            row[k] /= length
    return length


@kernel(reorder=True, allocates=True, inner=True)
def _wins_surely(points, error, noise, key, y, scores, row):  # type: ignore[no-untyped-def]
    """Whether ``points[key]`` provably has the largest product with y; else the index of the strongest rival.

    A product is off by at most ``noise * |y|``. Where that leaves a rival open, the product with the
    difference is bounded on its own: it is off by (D + 3) roundings of its size and the errors of the two
    points.
    """
    n, d = points.shape
    length, largest = np.sqrt(_dot(y, y, 0, d)), 0.0
    for k in range(d):
        largest = max(largest, abs(y[k]))
    np.dot(points, y, scores[:n])
    floor = scores[key] - noise[key] * length if length > 1e-100 else -np.inf
    sure, strongest = True, -1
    for other in range(n):
        if other != key and not scores[other] + noise[other] * length < floor:
            span = 0.0
            margin = 0.0
            for k in range(d):
                row[k] = points[key, k] - points[other, k]
                margin += row[k] * y[k]
                span += abs(row[k] * y[k])
            slack = span * ((d + 4) * 2.0**-53) + (error[key] + error[other]) * largest * 1.001 + 1e-290
            if not margin > slack:
                sure = False
                if strongest < 0 or scores[other] > scores[strongest]:
                    strongest = other
    return sure, strongest


@kernel(reorder=True, allocates=True)
def settle_keys_kernel(  # type: ignore[no-untyped-def]
    points, error, noise, affine, last, order, guesses, rivals, n_rivals, tol,
    verdict, witnesses, corrals, corral_sizes, all_weights, work,
):  # fmt: skip
    """Decide for many points whether each is the strict maximum of some linear function (Clarkson's scheme).

    A point is first held against the ``rivals``, those known to win somewhere. Either they prove it beaten,
    or it beats them all in a direction y; then all points are priced in y, and the strongest one joins the
    rivals. So the work follows the number of winners. Against the rivals, Wolfe's algorithm runs on a working
    set that begins with the strongest rivals under the guess and grows by those it violates most.

    ``points`` (n, D); for affine scores the last entry of y must be positive and is set to ``last`` in the
    witness. ``error`` (n,) bounds the sum of the entries' errors, ``noise`` (n,) the error of a product with
    a vector of norm 1. ``rivals`` (n + 1,) and ``n_rivals`` (1,) grow. Results, one per point: ``verdict``
    (n,), ``witnesses`` (n, D), ``corrals`` (n, D + 1) with ``corral_sizes`` (n,) and ``all_weights`` (n, D +
    1); the index n in a corral stands for the row (0, ..., 0, 1) of affine scores.
    """
    n, d = points.shape
    first, growth = max(2 * d + 2, 40), max(d + 1, 20)
    rows = np.empty((n + 2, d))
    members = np.empty(n + 2, dtype=np.int64)
    values = np.empty(n + 2)
    scores = np.empty(n + 1)
    rival_points = np.empty((n, d))
    place = np.full(n, -1, dtype=np.int64)
    for i in range(n_rivals[0]):
        _copy(points[rivals[i]], rival_points[i])
        place[rivals[i]] = i
    inside = np.zeros(n, dtype=np.bool_)
    corral = np.empty(d + 1, dtype=np.int64)
    weights = np.empty(d + 1)
    x = np.empty(d)
    y = np.empty(d)
    row = np.empty(d)
    best = np.empty(first)
    row_error = np.empty(d + 1)
    chosen = np.empty((d + 1, d))
    identity = np.arange(d + 1)
    for key in order:
        if verdict[key] != OPEN:
            continue
        own = points[key]
        _copy(guesses[key] if guesses.shape[0] == n else own, x)
        count, size, begun = np.int64(0), np.int64(0), False
        if affine:
            rows[0, :] = 0.0
            rows[0, d - 1] = 1.0
            members[0], count = -1, 1
        while verdict[key] == OPEN:
            # strongest rivals that are not in the working set yet
            m = n_rivals[0]
            norm = np.sqrt(_dot(x, x, 0, d))
            np.dot(rival_points[:m], x, scores[:m])
            level = _dot(own, x, 0, d) - tol * norm if begun else -np.inf
            wanted = growth if begun else first
            found = 0
            for i in range(m):
                if not inside[i] and rivals[i] != key and scores[i] >= level:
                    values[found] = -scores[i]
                    found += 1
            if found > 0:
                cut = _cut(values, found, wanted, best)
                for i in range(m):
                    if not inside[i] and rivals[i] != key and scores[i] >= level and -scores[i] <= cut:
                        _unit_difference(own, rival_points[i], rows[count])
                        members[count] = i
                        inside[i] = True
                        count += 1
            fresh = found > 0 or (affine and not begun)
            begun = True
            if fresh:
                status, size = min_norm_point_kernel(
                    rows, count, corral, size, x, weights, values, work, 1.0, True, tol, 20 * d + 100
                )
                if status == POSITIVE:
                    continue
                for i in range(size):
                    member = members[corral[i]]
                    corrals[key, i] = rivals[member] if member >= 0 else n
                    all_weights[key, i] = weights[i]
                corral_sizes[key] = size
                verdict[key] = PARKED
                if status == ZERO and size == d + 1:
                    for i in range(size):
                        _copy(rows[corral[i]], chosen[i])
                        row_error[i] = 0.0
                        member = members[corral[i]]
                        if member >= 0:
                            length = _unit_difference(own, rival_points[member], row)
                            row_error[i] = np.inf  # two keys that coincide in floats prove nothing
                            if length > 0.0:
                                moved = (error[key] + error[rivals[member]]) / length
                                row_error[i] = (moved + 3.0 * 2.0**-53 * np.sqrt(d)) * (1.0 + 1e-9)
                    if certify_zero_kernel(chosen, row_error, identity, size, weights, work):
                        verdict[key] = EMPTY
                continue
            # x beats all rivals: round it to the witness that will be shown, and price every point
            good = norm > 0.0
            if good and affine:
                good = x[d - 1] > 0.0
                for k in range(d - 1):
                    y[k] = x[k] * (last / x[d - 1])
                y[d - 1] = last
            elif good:
                largest = 0.0
                for k in range(d):
                    largest = max(largest, abs(x[k]))
                for k in range(d):
                    y[k] = x[k] / largest
            sure, strongest = False, -1
            if good:
                sure, strongest = _wins_surely(points, error, noise, key, y, scores, row)
            if sure:
                verdict[key] = WINS
                _copy(y, witnesses[key])
                strongest = key
            elif strongest < 0 or place[strongest] >= 0:
                corral_sizes[key] = 0
                verdict[key] = PARKED  # rounding leaves it open
            if strongest >= 0 and place[strongest] < 0:
                place[strongest] = n_rivals[0]
                _copy(points[strongest], rival_points[n_rivals[0]])
                rivals[n_rivals[0]] = strongest
                n_rivals[0] += 1
        for i in range(count):
            if members[i] >= 0:
                inside[members[i]] = False


@kernel(reorder=True, allocates=True)
def reach_kernel(points, error, keys, guesses, scale, tol, nearest, away, work):  # type: ignore[no-untyped-def]
    """For each key the vector ``nearest`` from the hull of the other points to it, and a proven upper bound
    on the distance.

    Wolfe's algorithm on a working set that grows by the points that come closest along the current vector,
    until none of all points is closer than ``tol * scale``. The bound belongs to the last convex combination,
    whatever stopped the search.
    """
    n, d = points.shape
    first, growth = max(2 * d + 2, 40), max(d + 1, 20)
    rows = np.empty((n, d))
    members = np.empty(n, dtype=np.int64)
    values = np.empty(n)
    scores = np.empty(n)
    inside = np.zeros(n, dtype=np.bool_)
    corral = np.empty(d + 1, dtype=np.int64)
    weights = np.empty(d + 1)
    x = np.empty(d)
    best = np.empty(first)
    total = np.empty(d)
    for which in range(keys.shape[0]):
        key = keys[which]
        _copy(guesses[which], x)
        inside[key] = True
        count, size = np.int64(0), np.int64(0)
        while True:
            norm = np.sqrt(_dot(x, x, 0, d))
            np.dot(points, x, scores)
            level = scores[key] - norm * norm + tol * scale * norm if count > 0 else -np.inf
            wanted = growth if count > 0 else first
            found = 0
            for i in range(n):
                if not inside[i] and scores[i] > level:
                    values[found] = -scores[i]
                    found += 1
            if found == 0:
                break
            cut = _cut(values, found, wanted, best)
            for i in range(n):
                if not inside[i] and scores[i] > level and -scores[i] <= cut:
                    for k in range(d):
                        rows[count, k] = points[key, k] - points[i, k]
                    members[count] = i
                    inside[i] = True
                    count += 1
            status, size = min_norm_point_kernel(
                rows, count, corral, size, x, weights, values, work, scale, False, tol, 20 * d + 100
            )
            if status == ZERO:
                break
        inside[key] = False
        for i in range(count):
            inside[members[i]] = False
        _copy(x, nearest[which])
        # the exact convex combination with these weights, divided by their sum, is a point of the hull
        mass, spread, moved = 0.0, 0.0, 0.0
        total[:] = 0.0
        for i in range(size):
            mass += weights[i]
            row = rows[corral[i]]
            spread += weights[i] * np.sqrt(_dot(row, row, 0, d))
            moved += weights[i] * (error[key] + error[members[corral[i]]])
            for k in range(d):
                total[k] += weights[i] * row[k]
        length = np.sqrt(_dot(total, total, 0, d))
        slack = spread * ((size + d + 8) * 2.0**-53) + moved
        away[which] = (length * (1.0 + (d + 4) * 2.0**-53) + slack) / mass * (1.0 + (size + 4) * 2.0**-53)


@kernel(reorder=True)
def fill_rows_kernel(points, error, first, last, j, rows, row_error, start):  # type: ignore[no-untyped-def]
    """Unit rows points[j] - points[l] for the other keys of a head, with bounds on their errors."""
    d = points.shape[1]
    k = start
    for other in range(first, last):
        if other != j:
            length = _unit_difference(points[j], points[other], rows[k])
            moved = (error[j] + error[other]) / length if length > 0.0 else 4.0
            row_error[k] = (moved + 3.0 * 2.0**-53 * np.sqrt(d)) * (1.0 + 1e-9)
            k += 1


@kernel(reorder=True, inlined=True)
def _surely_positive(rows, row_error, start, stop, x):  # type: ignore[no-untyped-def]
    """Whether the exact rows start .. stop - 1, each within its error, are all positive at x."""
    d = x.shape[0]
    largest, norm = 0.0, np.sqrt(_dot(x, x, 0, d))
    for k in range(d):
        largest = max(largest, abs(x[k]))
    for i in range(start, stop):
        if not _dot(rows[i], x, 0, d) > row_error[i] * largest + (d + 2) * 2.0**-53 * norm:
            return False
    return largest > 0.0


@kernel(reorder=True)
def tabulate_walls_kernel(points, error, key_start, walls):  # type: ignore[no-untyped-def]
    """Unit rows points[j] - points[l] for all pairs of keys of each head, with a bound on their errors."""
    k = 0
    errors = walls[:, walls.shape[1] - 1]
    for g in range(key_start.shape[0] - 1):
        first, last = key_start[g], key_start[g + 1]
        for j in range(first, last):
            fill_rows_kernel(points, error, first, last, j, walls, errors, k)
            k += last - first - 1


@kernel(reorder=True)
def search_prefixes_kernel(  # type: ignore[no-untyped-def]
    points, error, key_start, row_start, walls, wall_start, lowest, state, next_key, sure, choice, x, corral,
    sizes, weights, rows, row_error, values, work, out_choices, out_points, parked,
):  # fmt: skip
    """Depth-first search for tuples (j_0, ..., j_{H-1}) whose keys win together somewhere.

    Head g owns the points key_start[g] .. key_start[g + 1] - 1 and, once its key is chosen, the rows
    row_start[g] .. row_start[g + 1] - 1; ``walls`` may hold these rows, with their errors, for every key of
    every head, those of head g from wall_start[g] on. A node of level g has its first g keys chosen; level g
    of ``x``, ``corral``, ``sizes`` and ``weights`` is where Wolfe's algorithm stands for it, ``sure[g]``
    tells that x[g] is proven to satisfy its rows. Everything lives in arrays, so the search can stop at any
    node and go on: ``state`` = [level, tuples found, nodes parked]. It returns when it has come back to level
    ``lowest`` - 1, or when one of the output arrays is full.
    """
    d = points.shape[1]
    heads = key_start.shape[0] - 1
    tol = 8.0 * (d + 4) * 2.0**-53
    while state[0] >= lowest:
        level = state[0]
        if state[1] >= out_points.shape[0] or state[2] >= parked.shape[0]:
            return
        if level == heads:
            for g in range(heads):
                out_choices[state[1], g] = choice[g]
            for k in range(d):
                out_points[state[1], k] = x[level, k]
            state[1] += 1
            state[0] -= 1
            continue
        j = next_key[level]
        if key_start[level] + j >= key_start[level + 1]:
            state[0] -= 1
            continue
        next_key[level] += 1
        choice[level] = j
        n_rows = row_start[level + 1]
        if walls.shape[0] > 0:
            first = wall_start[level] + j * (n_rows - row_start[level])
            for i in range(n_rows - row_start[level]):
                for k in range(d):
                    rows[row_start[level] + i, k] = walls[first + i, k]
                row_error[row_start[level] + i] = walls[first + i, d]
        else:
            fill_rows_kernel(
                points, error, key_start[level], key_start[level + 1], key_start[level] + j,
                rows, row_error, row_start[level],
            )  # fmt: skip
        below = level + 1
        for k in range(d):
            x[below, k] = x[level, k]
        for i in range(sizes[level]):
            corral[below, i] = corral[level, i]
            weights[below, i] = weights[level, i]
        sizes[below] = sizes[level]
        sure[below] = True
        if not (sure[level] and _surely_positive(rows, row_error, row_start[level], n_rows, x[below])):
            status, size = min_norm_point_kernel(
                rows, n_rows, corral[below], sizes[below], x[below], weights[below], values, work,
                1.0, True, tol, 20 * d + 100,
            )  # fmt: skip
            sizes[below] = size
            if status == POSITIVE and _surely_positive(rows, row_error, 0, n_rows, x[below]):
                pass
            elif status != POSITIVE and certify_zero_kernel(
                rows, row_error, corral[below], size, weights[below], work, 1.0
            ):
                continue
            else:
                for g in range(below):
                    parked[state[2], g] = choice[g]
                parked[state[2], heads] = below
                state[2] += 1
                continue
        next_key[below] = 0
        state[0] = below
