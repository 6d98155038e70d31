r"""The compiled half of the splitting kernel: cones cut by hyperplanes, with proven signs.

A cell is a polyhedral cone in :math:`\mathbb{R}^D` (affine problems are homogenised, so :math:`D = d + 1`), kept as its extreme rays
and the set of facets that each ray lies on. A ray is never derived from other rays: it is the generalised cross product of
:math:`D-1` facet normals, so its error does not grow with the number of cuts that led to it. Every normal is scaled by a power of two
to :math:`\|F_i\|_1 \le 1`. Then every minor of order :math:`k` is at most 1 in absolute value, Laplace expansion computes it within
:math:`\tfrac12 k (k+1) u` plus the sum of the errors of its rows, and the sign of :math:`a \cdot r` is proven whenever

.. math:: |\mathrm{fl}(a \cdot r)| > \varepsilon_r + \rho_a + D u ,

where :math:`\rho` bounds the 1-norm error of a normal and :math:`\varepsilon_r` the largest error of a coordinate of the ray. When the
numbers are small integers (up to a power of two) all of this is exact, and a zero is known to be zero: ``bits`` counts how many binary
digits a value needs, and 53 are available.

A cone may contain lines. ``free`` is a set of coordinates whose unit vectors, added as equations, cut the lines away; rays are
represented inside that coordinate subspace, and the unit rows sit in the facet slots 0 .. D-1. The first cuts turn free coordinates
into proper facets one at a time (`_cut_line`).

Nothing here decides a sign that the bound does not prove: such a cut returns ``UNDECIDED`` and is repeated in rationals.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# results of a cut
MISSES, TOUCHES, CUTS, EMPTIES, UNDECIDED, OVERFLOWS = 0, 1, 2, 3, 4, 5
# results of `expand`
DONE, FULL = 0, 1

INEXACT = 1 << 20  # "bits" of a value that is not a small integer
_UNIT = 2.0**-53
_SAFETY = 1.02  # absorbs the second-order terms of the bounds above

# labels of facets that do not come from a head
DOMAIN, ARTIFICIAL = -1, -2


@njit(cache=True, nogil=True)
def _popcount(x):
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def _has(mask, i, slot):
    return (mask[i, slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1) != np.uint64(0)


@njit(cache=True, nogil=True)
def _set(mask, i, slot):
    mask[i, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)


@njit(cache=True, nogil=True)
def _cross(rows, D, out, minors):
    """The vector of signed maximal minors of ``rows[0 .. D-2]``: orthogonal to each of them."""
    if D == 1:
        out[0] = 1.0
    elif D == 2:
        out[0] = rows[0, 1]
        out[1] = -rows[0, 0]
    elif D == 3:
        out[0] = rows[0, 1] * rows[1, 2] - rows[0, 2] * rows[1, 1]
        out[1] = rows[0, 2] * rows[1, 0] - rows[0, 0] * rows[1, 2]
        out[2] = rows[0, 0] * rows[1, 1] - rows[0, 1] * rows[1, 0]
    elif D == 4:
        p01 = rows[0, 0] * rows[1, 1] - rows[0, 1] * rows[1, 0]
        p02 = rows[0, 0] * rows[1, 2] - rows[0, 2] * rows[1, 0]
        p03 = rows[0, 0] * rows[1, 3] - rows[0, 3] * rows[1, 0]
        p12 = rows[0, 1] * rows[1, 2] - rows[0, 2] * rows[1, 1]
        p13 = rows[0, 1] * rows[1, 3] - rows[0, 3] * rows[1, 1]
        p23 = rows[0, 2] * rows[1, 3] - rows[0, 3] * rows[1, 2]
        r0, r1, r2, r3 = rows[2, 0], rows[2, 1], rows[2, 2], rows[2, 3]
        out[0] = r1 * p23 - r2 * p13 + r3 * p12
        out[1] = -(r0 * p23 - r2 * p03 + r3 * p02)
        out[2] = r0 * p13 - r1 * p03 + r3 * p01
        out[3] = -(r0 * p12 - r1 * p02 + r2 * p01)
    else:
        # minors[S] = minor of the first |S| rows on the columns S, by Laplace expansion along the last row
        full = (1 << D) - 1
        minors[0] = 1.0
        for subset in range(1, full):
            size = _popcount(np.uint64(subset))
            total = 0.0
            sign = 1.0 if size & 1 else -1.0
            for column in range(D):
                if subset >> column & 1:
                    total += sign * rows[size - 1, column] * minors[subset ^ (1 << column)]
                    sign = -sign
            minors[subset] = total
        sign = 1.0
        for column in range(D):
            out[column] = sign * minors[full ^ (1 << column)]
            sign = -sign


@njit(cache=True, nogil=True)
def _choose_rows(need, pool, n_pool, normals, D, chosen, basis):
    """Pick ``need`` independent normals out of a pool by pivoted Gram-Schmidt; returns how many were found."""
    found = 0
    taken = np.zeros(n_pool, dtype=np.bool_)
    residual = np.empty((n_pool, D))
    for i in range(n_pool):
        for c in range(D):
            residual[i, c] = normals[pool[i], c]
    while found < need:
        best, size = -1, 1e-12
        for i in range(n_pool):
            if not taken[i]:
                total = 0.0
                for c in range(D):
                    total += residual[i, c] * residual[i, c]
                if total > size:
                    best, size = i, total
        if best < 0:
            return found
        taken[best] = True
        chosen[found] = pool[best]
        found += 1
        norm = math.sqrt(size)
        for c in range(D):
            basis[c] = residual[best, c] / norm
        for i in range(n_pool):
            if not taken[i]:
                dot = 0.0
                for c in range(D):
                    dot += residual[i, c] * basis[c]
                for c in range(D):
                    residual[i, c] -= dot * basis[c]
    return found


@njit(cache=True, nogil=True)
def _sign(a, a_error, a_bits, D, ray, ray_error, ray_bits):
    """-1, 0, 1 where the sign of a . ray is proven, 2 where it is not."""
    total = 0.0
    for c in range(D):
        total += a[c] * ray[c]
    if a_bits + ray_bits <= 53:
        return 1 if total > 0.0 else (-1 if total < 0.0 else 0)
    bound = _SAFETY * (ray_error + a_error + (D + 1) * _UNIT)
    return 1 if total > bound else (-1 if total < -bound else 2)


@njit(cache=True, nogil=True)
def _finish_ray(D, rows_error, rows_bits, ray):
    """Scale a cross product to largest entry in [1/2, 1); returns (error, bits), error < 0 when the ray is zero."""
    largest = 0.0
    for c in range(D):
        largest = max(largest, abs(ray[c]))
    if largest == 0.0:
        return -1.0, 0
    exponent = math.frexp(largest)[1]
    for c in range(D):
        ray[c] = math.ldexp(ray[c], -exponent)
    bits = rows_bits
    error = 0.0
    if rows_bits <= 53:
        bits = rows_bits + exponent
    else:
        bits = INEXACT
        error = math.ldexp(_SAFETY * (rows_error + D * D * _UNIT), -exponent)
    return error, bits


@njit(cache=True, nogil=True)
def _cut_line(D, state, rays, ray_error, ray_bits, mask, used, normals, error, bits, a, a_error, a_bits, slot, rows, minors):
    """Cut a cone that contains lines by a . y >= 0 where a does not vanish on all of them.

    Returns CUTS, MISSES (a vanishes on every line: an ordinary cut follows), UNDECIDED or OVERFLOWS.
    """
    n, free = state[0], state[1]
    pool = np.empty(used.shape[0], dtype=np.int64)
    n_pool = 0
    for s in range(D, used.shape[0]):
        if used[s] and s != slot:
            pool[n_pool] = s
            n_pool += 1
    n_free = 0
    for i in range(D):
        if free >> i & 1:
            n_free += 1
    De = D - n_free
    chosen = np.empty(D, dtype=np.int64)
    basis = np.empty(D)
    if _choose_rows(De, pool, n_pool, normals, D, chosen, basis) < De:
        return UNDECIDED
    # the line l_i: all chosen facets and all free coordinates but i vanish
    line = np.empty(D)
    best_line = np.empty(D)
    best, best_size, best_error, best_bits, best_sign = -1, 0.0, 0.0, 0, 0
    all_zero = True
    for i in range(D):
        if not free >> i & 1:
            continue
        k = 0
        total_error, total_bits = 0.0, 0
        for q in range(De):
            rows[k] = normals[chosen[q]]
            total_error += error[chosen[q]]
            total_bits += bits[chosen[q]]
            k += 1
        for c in range(D):
            if free >> c & 1 and c != i:
                rows[k] = normals[c]
                k += 1
        _cross(rows, D, line, minors)
        line_error, line_bits = _finish_ray(D, total_error, total_bits, line)
        if line_error < 0.0:
            all_zero = False
            continue
        sign = _sign(a, a_error, a_bits, D, line, line_error, line_bits)
        if sign == 2:
            all_zero = False
        elif sign != 0:
            all_zero = False
            size = 0.0
            for c in range(D):
                size += a[c] * line[c]
            if abs(size) > best_size:
                best, best_size, best_error, best_bits, best_sign = i, abs(size), line_error, line_bits, sign
                best_line[:] = line
    if all_zero:
        return MISSES
    if best < 0:
        return UNDECIDED
    if n + 1 > rays.shape[0]:
        return OVERFLOWS
    # every old ray slides along the line into the new facet: its row e_best is replaced by a
    local = np.empty(used.shape[0], dtype=np.int64)
    for r in range(n):
        m = 0
        outside = -1
        for q in range(n_pool):
            if _has(mask, r, pool[q]):
                local[m] = pool[q]
                m += 1
            elif outside < 0:
                outside = pool[q]
        if outside < 0 or _choose_rows(De - 1, local, m, normals, D, chosen, basis) < De - 1:
            return UNDECIDED
        k = 0
        total_error, total_bits = a_error, a_bits
        for q in range(De - 1):
            rows[k] = normals[chosen[q]]
            total_error += error[chosen[q]]
            total_bits += bits[chosen[q]]
            k += 1
        for c in range(D):
            if free >> c & 1 and c != best:
                rows[k] = normals[c]
                k += 1
        rows[k] = a
        _cross(rows, D, line, minors)
        new_error, new_bits = _finish_ray(D, total_error, total_bits, line)
        if new_error < 0.0:
            return UNDECIDED
        sign = _sign(normals[outside], error[outside], bits[outside], D, line, new_error, new_bits)
        if sign == 2 or sign == 0:
            return UNDECIDED
        for c in range(D):
            rays[r, c] = line[c] * sign
        ray_error[r], ray_bits[r] = new_error, new_bits
        mask[r, best >> 6] &= ~(np.uint64(1) << np.uint64(best & 63))
        _set(mask, r, slot)
    for c in range(D):
        rays[n, c] = best_line[c] * best_sign
    ray_error[n], ray_bits[n] = best_error, best_bits
    mask[n, :] = np.uint64(0)
    for q in range(n_pool):
        _set(mask, n, pool[q])
    for c in range(D):
        if free >> c & 1 and c != best:
            _set(mask, n, c)
    state[0] = n + 1
    state[1] = free & ~(1 << best)
    return CUTS


@njit(cache=True, nogil=True)
def _free_slot(D, used):
    for s in range(D, used.shape[0]):
        if not used[s]:
            return s
    return -1


@njit(cache=True, nogil=True)
def _write_facet(slot, used, normals, error, bits, label, a, a_error, a_bits, head, key):
    used[slot] = True
    normals[slot, : a.shape[0]] = a
    error[slot] = a_error
    bits[slot] = a_bits
    label[slot, 0] = head
    label[slot, 1] = key


@njit(cache=True, nogil=True)
def cut(
    D, state, rays, ray_error, ray_bits, mask, used, normals, error, bits, label,
    a, a_error, a_bits, head, key, rows, minors, sign, new_rays, new_error, new_bits, new_mask,
):  # fmt: skip
    """Intersect the working cone with a . y >= 0; returns MISSES, TOUCHES, CUTS, EMPTIES, UNDECIDED or OVERFLOWS.

    After TOUCHES, CUTS and MISSES the working cone is the intersection. After EMPTIES the intersection has no interior, and after
    UNDECIDED and OVERFLOWS the working cone is spoilt.
    """
    n, free = state[0], state[1]
    words = mask.shape[1]
    slot = _free_slot(D, used)
    if slot < 0:
        return OVERFLOWS
    De = D
    for i in range(D):
        if free >> i & 1:
            De -= 1
    if free != 0:
        result = _cut_line(
            D, state, rays, ray_error, ray_bits, mask, used, normals, error, bits, a, a_error, a_bits, slot, rows, minors
        )
        if result != MISSES:
            if result == CUTS:
                _write_facet(slot, used, normals, error, bits, label, a, a_error, a_bits, head, key)
            return result
    n_pos, n_neg, n_zero = 0, 0, 0
    for i in range(n):
        s = _sign(a, a_error, a_bits, D, rays[i], ray_error[i], ray_bits[i])
        if s == 2:
            return UNDECIDED
        sign[i] = s
        if s > 0:
            n_pos += 1
        elif s < 0:
            n_neg += 1
        else:
            n_zero += 1
    if n_pos == 0:
        return EMPTIES
    if n_neg == 0:
        if n_zero >= De - 1:  # the hyperplane holds a facet of the cone: keep its label too
            _write_facet(slot, used, normals, error, bits, label, a, a_error, a_bits, head, key)
            for i in range(n):
                if sign[i] == 0:
                    _set(mask, i, slot)
            return TOUCHES
        return TOUCHES if n_zero > 0 else MISSES
    simple = True
    for i in range(n):
        on = 0
        for w in range(words):
            on += _popcount(mask[i, w])
        if on != D - 1:
            simple = False
            break
    n_new = 0
    common = np.empty(words, dtype=np.uint64)
    for p in range(n):
        if sign[p] <= 0:
            continue
        for q in range(n):
            if sign[q] >= 0:
                continue
            shared = 0
            for w in range(words):
                common[w] = mask[p, w] & mask[q, w]
                shared += _popcount(common[w])
            if shared < D - 2:
                continue
            if not simple:
                adjacent = True
                for i in range(n):
                    if i != p and i != q:
                        inside = True
                        for w in range(words):
                            if common[w] & ~mask[i, w] != np.uint64(0):
                                inside = False
                                break
                        if inside:
                            adjacent = False
                            break
                if not adjacent:
                    continue
            if n_new >= new_rays.shape[0]:
                return OVERFLOWS
            # D - 2 independent facets through the edge, and the new one
            total_error, total_bits = a_error, a_bits
            if shared == D - 2:
                k = 0
                for w in range(words):
                    word = common[w]
                    while word != np.uint64(0):
                        low = word & (~word + np.uint64(1))
                        s = (w << 6) + _popcount(low - np.uint64(1))
                        rows[k] = normals[s]
                        total_error += error[s]
                        total_bits += bits[s]
                        k += 1
                        word ^= low
            else:
                pool = np.empty(shared, dtype=np.int64)
                k = 0
                for w in range(words):
                    word = common[w]
                    while word != np.uint64(0):
                        low = word & (~word + np.uint64(1))
                        pool[k] = (w << 6) + _popcount(low - np.uint64(1))
                        k += 1
                        word ^= low
                chosen = np.empty(D, dtype=np.int64)
                basis = np.empty(D)
                if _choose_rows(D - 2, pool, shared, normals, D, chosen, basis) < D - 2:
                    return UNDECIDED
                for k in range(D - 2):
                    rows[k] = normals[chosen[k]]
                    total_error += error[chosen[k]]
                    total_bits += bits[chosen[k]]
            rows[D - 2] = a
            ray = new_rays[n_new]
            _cross(rows, D, ray, minors)
            e, b = _finish_ray(D, total_error, total_bits, ray)
            if e < 0.0:
                return UNDECIDED
            # a facet through exactly one end of the edge is strictly positive at the new ray: it fixes the direction
            direction = 2
            for w in range(words):
                word = mask[p, w] ^ mask[q, w]
                while word != np.uint64(0):
                    low = word & (~word + np.uint64(1))
                    s = (w << 6) + _popcount(low - np.uint64(1))
                    direction = _sign(normals[s], error[s], bits[s], D, ray, e, b)
                    if direction == 1 or direction == -1:
                        break
                    direction = 2
                    word ^= low
                if direction != 2:
                    break
            if direction == 2:
                return UNDECIDED
            if direction < 0:
                for c in range(D):
                    ray[c] = -ray[c]
            new_error[n_new] = e
            new_bits[n_new] = b
            for w in range(words):
                new_mask[n_new, w] = common[w]
            _set(new_mask, n_new, slot)
            n_new += 1
    kept = 0
    for i in range(n):
        if sign[i] < 0:
            continue
        if kept != i:
            rays[kept] = rays[i]
            ray_error[kept] = ray_error[i]
            ray_bits[kept] = ray_bits[i]
            mask[kept] = mask[i]
        if sign[i] == 0:
            _set(mask, kept, slot)
        kept += 1
    if kept + n_new > rays.shape[0]:
        return OVERFLOWS
    for i in range(n_new):
        rays[kept] = new_rays[i]
        ray_error[kept] = new_error[i]
        ray_bits[kept] = new_bits[i]
        mask[kept] = new_mask[i]
        kept += 1
    state[0] = kept
    _write_facet(slot, used, normals, error, bits, label, a, a_error, a_bits, head, key)
    for w in range(words):  # a facet that no ray lies on any more is redundant: its slot is free again
        alive = np.uint64(0)
        for i in range(kept):
            alive |= mask[i, w]
        for b in range(64):
            s = (w << 6) + b
            if s >= D and s < used.shape[0] and used[s] and (alive >> np.uint64(b)) & np.uint64(1) == np.uint64(0):
                if De > 1:
                    used[s] = False
    return CUTS


@njit(cache=True, nogil=True)
def wall(points, point_error, grain, D, j, l, a):
    """The scaled normal of {s_j = s_l}, pointing to j's side; returns (error, bits)."""
    size = 0.0
    for c in range(D):
        a[c] = points[j, c] - points[l, c]
        size += abs(a[c])
    if size == 0.0:
        return 4.0, INEXACT  # distinct keys whose floats coincide: nothing can be decided in floats
    mantissa, exponent = math.frexp(size)
    if mantissa == 0.5:
        exponent -= 1
    if exponent < -900:
        return 4.0, INEXACT
    for c in range(D):
        a[c] = math.ldexp(a[c], -exponent)
    if grain > -INEXACT and exponent - grain <= 53:
        return 0.0, exponent - grain
    return _SAFETY * (_UNIT + math.ldexp(point_error[j] + point_error[l], -exponent)), INEXACT


@njit(cache=True, nogil=True)
def _climb(points, D, neighbour_start, neighbours, y, j):
    """The key with the largest score at y: on a convex envelope a local maximum over neighbours is global."""
    best = 0.0
    for c in range(D):
        best += points[j, c] * y[c]
    while True:
        next_j = j
        for t in range(neighbour_start[j], neighbour_start[j + 1]):
            l = neighbours[t]
            value = 0.0
            for c in range(D):
                value += points[l, c] * y[c]
            if value > best:
                best = value
                next_j = l
        if next_j == j:
            return j
        j = next_j


@njit(cache=True, nogil=True)
def expand(
    D, head, points, point_error, grain, neighbour_start, neighbours, start,
    parent, ray_start, p_rays, p_ray_error, p_ray_bits, p_mask, facet_start, p_normals, p_error, p_bits, p_label, p_free,
    seeds, n_seeds, visited, stamp, queue,
    state, rays, ray_error, ray_bits, mask, used, normals, error, bits, label,
    rows, minors, sign, new_rays, new_error, new_bits, new_mask,
    counts, o_parent, o_key, o_free, o_ray_start, o_rays, o_ray_error, o_ray_bits, o_mask,
    o_facet_start, o_normals, o_error, o_bits, o_label, parked, touched,
):  # fmt: skip
    """Cut one parent cell into the cells of one head; returns DONE, FULL (grow the output) or OVERFLOWS (grow the work space).

    Winning keys are found by walking from a winner to the keys whose walls it touches, so the cost follows the number of cells
    that come out. Keys whose cell could not be decided go to ``parked``. ``counts`` = [cells, rays, facets, parked, last winner].
    """
    a = np.empty(D)
    n_parent = ray_start[parent + 1] - ray_start[parent]
    n_facets = facet_start[parent + 1] - facet_start[parent]
    words = mask.shape[1]
    head_of_queue, tail = 0, 0
    if n_seeds == 0:
        y = np.zeros(D)
        for i in range(ray_start[parent], ray_start[parent + 1]):
            for c in range(D):
                y[c] += p_rays[i, c]
        queue[0] = _climb(points, D, neighbour_start, neighbours, y, start)
        visited[queue[0]] = stamp
        tail = 1
    else:
        for i in range(n_seeds):
            if visited[seeds[i]] != stamp:
                visited[seeds[i]] = stamp
                queue[tail] = seeds[i]
                tail += 1
    while head_of_queue < tail:
        j = queue[head_of_queue]
        head_of_queue += 1
        # the working cone starts as the parent
        if n_parent > rays.shape[0] or D + n_facets > used.shape[0]:
            return OVERFLOWS
        state[0] = n_parent
        state[1] = p_free[parent]
        for i in range(n_parent):
            g = ray_start[parent] + i
            rays[i] = p_rays[g]
            ray_error[i] = p_ray_error[g]
            ray_bits[i] = p_ray_bits[g]
            mask[i] = p_mask[g]
        for s in range(used.shape[0]):
            used[s] = s < D or s < D + n_facets
        for s in range(D):
            for c in range(D):
                normals[s, c] = 1.0 if c == s else 0.0
            error[s] = 0.0
            bits[s] = 0
            label[s, 0] = ARTIFICIAL
            label[s, 1] = s
        for i in range(n_facets):
            g = facet_start[parent] + i
            normals[D + i] = p_normals[g]
            error[D + i] = p_error[g]
            bits[D + i] = p_bits[g]
            label[D + i] = p_label[g]
        result = MISSES
        n_touched = 0
        for t in range(neighbour_start[j], neighbour_start[j + 1]):
            l = neighbours[t]
            a_error, a_bits = wall(points, point_error, grain, D, j, l, a)
            result = cut(
                D, state, rays, ray_error, ray_bits, mask, used, normals, error, bits, label,
                a, a_error, a_bits, head, l, rows, minors, sign, new_rays, new_error, new_bits, new_mask,
            )  # fmt: skip
            if result >= EMPTIES:
                break
            if result == TOUCHES:
                touched[n_touched] = l
                n_touched += 1
        if result == OVERFLOWS:
            return OVERFLOWS
        if result == UNDECIDED:
            if counts[3] >= parked.shape[0]:
                return FULL
            parked[counts[3]] = j
            counts[3] += 1
            continue
        if result == EMPTIES:
            continue
        n = state[0]
        n_used = 0
        for s in range(D, used.shape[0]):
            if used[s]:
                n_used += 1
                if label[s, 0] == head and visited[label[s, 1]] != stamp:
                    visited[label[s, 1]] = stamp
                    queue[tail] = label[s, 1]
                    tail += 1
        for i in range(n_touched):
            if visited[touched[i]] != stamp:
                visited[touched[i]] = stamp
                queue[tail] = touched[i]
                tail += 1
        cell = counts[0]
        if cell >= o_key.shape[0] or counts[1] + n > o_rays.shape[0] or counts[2] + n_used > o_normals.shape[0]:
            return FULL
        o_parent[cell] = parent
        o_key[cell] = j
        o_free[cell] = state[1]
        o_ray_start[cell + 1] = counts[1] + n
        o_facet_start[cell + 1] = counts[2] + n_used
        # facets move to consecutive slots
        for i in range(n):
            g = counts[1] + i
            o_rays[g] = rays[i]
            o_ray_error[g] = ray_error[i]
            o_ray_bits[g] = ray_bits[i]
            for w in range(words):
                o_mask[g, w] = np.uint64(0)
            for s in range(D):
                if _has(mask, i, s):
                    _set(o_mask, g, s)
        k = 0
        for s in range(D, used.shape[0]):
            if used[s]:
                g = counts[2] + k
                o_normals[g] = normals[s]
                o_error[g] = error[s]
                o_bits[g] = bits[s]
                o_label[g] = label[s]
                for i in range(n):
                    if _has(mask, i, s):
                        _set(o_mask, counts[1] + i, D + k)
                k += 1
        counts[0] = cell + 1
        counts[1] += n
        counts[2] += n_used
        counts[4] = j
    return DONE


@njit(cache=True, nogil=True)
def expand_many(
    D, head, points, point_error, grain, neighbour_start, neighbours,
    stop, ray_start, p_rays, p_ray_error, p_ray_bits, p_mask, facet_start, p_normals, p_error, p_bits, p_label, p_free,
    visited, queue,
    state, rays, ray_error, ray_bits, mask, used, normals, error, bits, label,
    rows, minors, sign, new_rays, new_error, new_bits, new_mask,
    counts, o_parent, o_key, o_free, o_ray_start, o_rays, o_ray_error, o_ray_bits, o_mask,
    o_facet_start, o_normals, o_error, o_bits, o_label, parked, touched,
):  # fmt: skip
    """`expand` for the parents counts[5] .. stop-1, until one needs the driver's help (more room, or a rational decision)."""
    seeds = np.empty(0, dtype=np.int64)
    while counts[5] < stop:
        parent = counts[5]
        cells, n_rays, n_facets = counts[0], counts[1], counts[2]
        counts[6] += 1
        status = expand(
            D, head, points, point_error, grain, neighbour_start, neighbours, counts[4],
            parent, ray_start, p_rays, p_ray_error, p_ray_bits, p_mask, facet_start, p_normals, p_error, p_bits, p_label, p_free,
            seeds, 0, visited, counts[6], queue,
            state, rays, ray_error, ray_bits, mask, used, normals, error, bits, label,
            rows, minors, sign, new_rays, new_error, new_bits, new_mask,
            counts, o_parent, o_key, o_free, o_ray_start, o_rays, o_ray_error, o_ray_bits, o_mask,
            o_facet_start, o_normals, o_error, o_bits, o_label, parked, touched,
        )  # fmt: skip
        if status != DONE:
            counts[0], counts[1], counts[2], counts[3] = cells, n_rays, n_facets, 0
            return status
        if counts[3] > 0 or counts[0] == cells:
            return DONE
        counts[5] += 1
    return DONE


@njit(cache=True, nogil=True)
def certify(slopes, offsets, row_error, choices, witnesses, rival_start, rivals, shown):
    """Unmark the witnesses at which the chosen key does not beat its rivals by more than the rounding error.

    ``choices`` holds, per witness, the row of the winner; rows of ``slopes`` are pairwise different scores. The rivals of witness i
    are ``rivals[rival_start[i] : rival_start[i + 1]]``, or all other rows when ``rivals`` is empty.
    """
    n_keys, d = slopes.shape
    everyone = rivals.shape[0] == 0
    for i in range(witnesses.shape[0]):
        if not shown[i]:
            continue
        j = choices[i]
        size = 1.0
        for c in range(d):
            size = max(size, abs(witnesses[i, c]))
        own, own_size = offsets[j], abs(offsets[j])
        for c in range(d):
            own += slopes[j, c] * witnesses[i, c]
            own_size += abs(slopes[j, c] * witnesses[i, c])
        first, last = 0, n_keys
        if not everyone:
            first, last = rival_start[i], rival_start[i + 1]
        for t in range(first, last):
            l = t if everyone else rivals[t]
            if l == j:
                continue
            value, value_size = offsets[l], abs(offsets[l])
            for c in range(d):
                value += slopes[l, c] * witnesses[i, c]
                value_size += abs(slopes[l, c] * witnesses[i, c])
            bound = _SAFETY * ((d + 2) * _UNIT * (own_size + value_size) + (row_error[j] + row_error[l]) * size)
            if not own - value > bound:
                shown[i] = False
                break
