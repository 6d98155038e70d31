r"""The compiled half of the splitting kernel: cones cut by hyperplanes, with proven signs.

A cell is a polyhedral cone in :math:`\mathbb{R}^D` (affine problems are homogenised, so :math:`D = d + 1`),
kept as its extreme rays and the set of facets that each ray lies on. A ray is never derived from other rays:
it is the generalised cross product of :math:`D-1` facet normals, so its error does not grow with the number
of cuts that led to it. Every normal is scaled by a power of two to :math:`\|F_i\|_1 \le 1`. Then every minor
of order :math:`k` is at most 1 in absolute value, Laplace expansion computes it within
:math:`\tfrac12 k (k+1) u` plus the sum of the errors of its rows, and the sign of :math:`a \cdot r` is proven
whenever

.. math:: |\mathrm{fl}(a \cdot r)| > \varepsilon_r + \rho_a + D u ,

where :math:`\rho` bounds the 1-norm error of a normal and :math:`\varepsilon_r` the largest error of a
coordinate of the ray. When the numbers are small integers (up to a power of two) all of this is exact, and a
zero is known to be zero: ``bits`` counts how many binary digits a value needs, and 53 are available.

A cone may contain lines. ``free`` is a set of coordinates whose unit vectors, added as equations, cut the
lines away; rays are represented inside that coordinate subspace, and the unit rows sit in the facet slots 0
.. D-1. The first cuts turn free coordinates into proper facets one at a time (`_cut_line`).

Nothing here decides a sign that the bound does not prove: such a cut returns ``UNDECIDED`` and is repeated in
rationals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.geometry.cones.ray_kernels import choose, cross, free_slot, lowest, popcount

# results of a cut
MISSES, TOUCHES, CUTS, EMPTIES, UNDECIDED, OVERFLOWS = 0, 1, 2, 3, 4, 5
# results of `expand`
DONE, FULL = 0, 1

INEXACT = 1 << 20  # "bits" of a value that is not a small integer
_UNIT = 2.0**-53
_SAFETY = 1.02  # absorbs the second-order terms of the bounds above

# labels of facets that do not come from a head
DOMAIN, ARTIFICIAL = -1, -2

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class Cone(NamedTuple):
    """One working cone: rays with the set of facet slots they lie on, and facets in slots."""

    state: Integers  # [number of rays, free coordinates as a bit set]
    rays: Floats  # (capacity, D + 2): coordinates, error, bits
    mask: Words
    used: Words  # which facet slots are taken, as a bit set
    facets: Floats  # (slots, D + 2): normal, error, bits
    label: Integers


class Scratch(NamedTuple):
    """Room for the rays that a cut creates, and for small temporary lists."""

    sign: Integers
    order: Integers
    shared_with: Integers
    rays: Floats
    mask: Words
    pick: Integers
    pool: Integers
    minors: Floats
    residual: Floats
    vector: Floats
    table: Floats  # scores of all keys at the rays of the parent
    slack: Floats  # how far such a score difference may be off
    queue: Integers
    walls: Integers
    depth: Floats
    depth_of: Floats  # for each key the number of the parent's rays on its side


class Store(NamedTuple):
    """Many cones in flat arrays: cell i has the rays ray_start[i] .. ray_start[i + 1] - 1, and so on."""

    parent: Integers
    key: Integers
    free: Integers
    ray_start: Integers
    rays: Floats
    mask: Words
    facet_start: Integers
    facets: Floats
    label: Integers


class Rows(NamedTuple):
    """A head: one row per distinct score, a bound on each row's error, and for each key the keys it may have
    walls with.
    """

    points: Floats
    columns: Floats  # the points transposed
    error: Floats
    noise: float  # bounds the rounding of a score difference at a ray of size 1
    grain: int  # every entry is an integer multiple of 2^grain, or -INEXACT
    neighbour_start: Integers
    neighbours: Integers


@kernel(inlined=True)
def _has(mask, i, slot):
    return (mask[i, slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1) != np.uint64(0)


@kernel(inlined=True)
def _set(mask, i, slot):
    mask[i, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)


@kernel(inlined=True)
def _proper(used, w, D):
    """Word w of the taken slots without the D artificial ones."""
    return used[w] & ~np.uint64((1 << D) - 1) if w == 0 else used[w]


@kernel(inlined=True)
def _sign(facets, slot, D, rays, i):
    """The sign of facets[slot] . rays[i]: -1, 0 or 1 where it is proven, 2 where it is not."""
    total = facets[slot, 0] * rays[i, 0]
    if D == 4:
        total += facets[slot, 1] * rays[i, 1] + (facets[slot, 2] * rays[i, 2] + facets[slot, 3] * rays[i, 3])
    else:
        for c in range(1, D):
            total += facets[slot, c] * rays[i, c]
    if facets[slot, D + 1] + rays[i, D + 1] <= 53.0:
        return 1 if total > 0.0 else (-1 if total < 0.0 else 0)
    bound = _SAFETY * (rays[i, D] + facets[slot, D] + (D + 1) * _UNIT)
    return 1 if total > bound else (-1 if total < -bound else 2)


@kernel(inlined=True)
def _new_ray(facets, D, pick, rays, i, minors):
    """rays[i] = the cross product of the picked facets, scaled to a largest entry of at most 1; False when it
    vanishes.
    """
    cross(D, facets, pick, rays, i, minors)
    largest = 0.0
    for c in range(D):
        largest = max(largest, abs(rays[i, c]))
    if largest == 0.0:
        return False
    total_error, total_bits = 0.0, 0.0
    for k in range(D - 1):
        total_error += facets[pick[k], D]
        total_bits += facets[pick[k], D + 1]
    if total_bits <= 53.0:  # exact: scale by a power of two
        exponent = math.frexp(largest)[1]
        scale = math.ldexp(1.0, -exponent)
        rays[i, D] = 0.0
        rays[i, D + 1] = total_bits + exponent
    else:
        scale = 1.0 / largest
        rays[i, D] = _SAFETY * ((total_error + D * D * _UNIT) * scale + 2.0 * _UNIT)
        rays[i, D + 1] = INEXACT
    for c in range(D):
        rays[i, c] *= scale
    return True


@kernel(inlined=True)
def _pick_free(D, free, but, pick, k):
    """Put the free coordinates other than ``but`` behind the first k picks."""
    for c in range(D):
        if free >> c & 1 and c != but:
            pick[k] = c
            k += 1
    return k


@kernel
def _cut_line(D, state, rays, mask, used, facets, slot, s_rays, pick, pool, minors, residual):
    """Cut a cone that contains lines by normals[slot] . y >= 0 where that normal does not vanish on all of
    them.

    Returns CUTS, MISSES (it vanishes on every line: an ordinary cut follows), UNDECIDED or OVERFLOWS.
    """
    n, free = state[0], state[1]
    n_pool = 0
    for w in range(used.shape[0]):
        word = _proper(used, w, D)
        while word != np.uint64(0):
            pool[n_pool] = (w << 6) + lowest(word)
            n_pool += 1
            word &= word - np.uint64(1)
    De = D
    for i in range(D):
        if free >> i & 1:
            De -= 1
    if choose(D, De, pool, n_pool, facets, pick, residual) < De:
        return UNDECIDED
    # the line l_i: all chosen facets and all free coordinates but i vanish on it
    best, best_size, best_sign = -1, 0.0, 0
    all_zero = True
    for i in range(D):
        if not free >> i & 1:
            continue
        _pick_free(D, free, i, pick, De)
        if not _new_ray(facets, D, pick, s_rays, 0, minors):
            all_zero = False
            continue
        sign = _sign(facets, slot, D, s_rays, 0)
        if sign == 0:
            continue
        all_zero = False
        if sign != 2:
            size = 0.0
            for c in range(D):
                size += facets[slot, c] * s_rays[0, c]
            if abs(size) > best_size:
                best, best_size, best_sign = i, abs(size), sign
    if all_zero:
        return MISSES
    if best < 0:
        return UNDECIDED
    if n + 1 > rays.shape[0]:
        return OVERFLOWS
    _pick_free(D, free, best, pick, De)
    _new_ray(facets, D, pick, rays, n, minors)
    for c in range(D):
        rays[n, c] *= best_sign
    for w in range(mask.shape[1]):
        mask[n, w] = np.uint64(0)
    for q in range(n_pool):
        _set(mask, n, pool[q])
    for c in range(D):
        if free >> c & 1 and c != best:
            _set(mask, n, c)
    # every old ray slides along the line into the new facet: its row e_best is replaced by the new normal
    for r in range(n):
        m = 0
        outside = -1
        for w in range(used.shape[0]):
            word = _proper(used, w, D)
            while word != np.uint64(0):
                s = (w << 6) + lowest(word)
                if _has(mask, r, s):
                    pool[m] = s
                    m += 1
                elif outside < 0:
                    outside = s
                word &= word - np.uint64(1)
        if outside < 0 or choose(D, De - 1, pool, m, facets, pick, residual) < De - 1:
            return UNDECIDED
        pick[_pick_free(D, free, best, pick, De - 1)] = slot
        if not _new_ray(facets, D, pick, rays, r, minors):
            return UNDECIDED
        sign = _sign(facets, outside, D, rays, r)
        if sign == 2 or sign == 0:
            return UNDECIDED
        for c in range(D):
            rays[r, c] *= sign
        mask[r, best >> 6] &= ~(np.uint64(1) << np.uint64(best & 63))
        _set(mask, r, slot)
    state[0] = n + 1
    state[1] = free & ~(1 << best)
    return CUTS


@kernel(inlined=True)
def _edge_ray(
    D, mask, facets, p, q, shared, slot,
    s_rays, s_mask, pick, pool, minors, residual, i,
):  # fmt: skip
    """scratch ray i = where the edge between rays p and q meets the new facet; False when not proven."""
    words = mask.shape[1]
    target = pick if shared == D - 2 else pool
    k = 0
    for w in range(words):
        word = s_mask[i, w]
        while word != np.uint64(0):
            target[k] = (w << 6) + lowest(word)
            k += 1
            word &= word - np.uint64(1)
    if shared != D - 2 and choose(D, D - 2, pool, shared, facets, pick, residual) < D - 2:
        return False
    pick[D - 2] = slot
    if not _new_ray(facets, D, pick, s_rays, i, minors):
        return False
    # a facet through exactly one end of the edge is strictly positive at the new ray: it fixes the direction
    for w in range(words):
        word = mask[p, w] ^ mask[q, w]
        while word != np.uint64(0):
            s = (w << 6) + lowest(word)
            direction = _sign(facets, s, D, s_rays, i)
            if direction == 1:
                return True
            if direction == -1:
                for c in range(D):
                    s_rays[i, c] = -s_rays[i, c]
                return True
            word &= word - np.uint64(1)
    return False


@kernel(inlined=True)
def cut(
    D, state, rays, mask, used, facets,
    slot, sign, order, shared_with, s_rays, s_mask, pick, pool, minors, residual,
):  # fmt: skip
    """Intersect the working cone with normals[slot] . y >= 0; returns MISSES, TOUCHES, CUTS, EMPTIES,
    UNDECIDED or OVERFLOWS.

    The new facet's normal, error and bits have been written to an unused slot, which becomes used when the
    cone touches it. After MISSES, TOUCHES and CUTS the working cone is the intersection; after EMPTIES the
    intersection has no interior; after UNDECIDED and OVERFLOWS the working cone is spoilt.
    """
    n, free = state[0], state[1]
    words = mask.shape[1]
    De = D
    if free != 0:
        for i in range(D):
            if free >> i & 1:
                De -= 1
        result = _cut_line(D, state, rays, mask, used, facets, slot, s_rays, pick, pool, minors, residual)
        if result != MISSES:
            if result == CUTS:
                used[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
            return result
    n_pos, n_neg, n_zero = 0, 0, 0
    for i in range(n):
        s = _sign(facets, slot, D, rays, i)
        sign[i] = s
        if s == 1:
            n_pos += 1
        elif s == -1:
            n_neg += 1
        elif s == 0:
            n_zero += 1
        else:
            return UNDECIDED
    if n_pos == 0:
        return EMPTIES
    if n_neg == 0:
        if n_zero > 0 or De == 1:  # keep the label as long as the cone touches the hyperplane
            used[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
            for i in range(n):
                if sign[i] == 0:
                    _set(mask, i, slot)
            return TOUCHES
        return MISSES
    simple = True
    for i in range(n):
        on = 0
        for w in range(words):
            on += popcount(mask[i, w])
        if on != D - 1:
            simple = False
            break
    # split the ray numbers: negative ones first in `order`, then positive ones
    n_low, n_high = 0, n_neg
    for i in range(n):
        if sign[i] < 0:
            order[n_low] = i
            n_low += 1
        elif sign[i] > 0:
            order[n_high] = i
            n_high += 1
    n_new = 0
    for k in range(n_neg, n_high):
        p = order[k]
        for m in range(n_neg):
            shared_with[m] = popcount(mask[p, 0] & mask[order[m], 0])
        for w in range(1, words):
            for m in range(n_neg):
                shared_with[m] += popcount(mask[p, w] & mask[order[m], w])
        for m in range(n_neg):
            shared = shared_with[m]
            if shared < D - 2:
                continue
            q = order[m]
            if n_new >= s_rays.shape[0]:
                return OVERFLOWS
            for w in range(words):
                s_mask[n_new, w] = mask[p, w] & mask[q, w]
            if not simple:
                adjacent = True
                for i in range(n):
                    if i != p and i != q:
                        inside = True
                        for w in range(words):
                            if s_mask[n_new, w] & ~mask[i, w] != np.uint64(0):
                                inside = False
                                break
                        if inside:
                            adjacent = False
                            break
                if not adjacent:
                    continue
            proven = _edge_ray(
                D, mask, facets, p, q, shared, slot, s_rays, s_mask, pick, pool, minors, residual, n_new
            )
            if not proven:
                return UNDECIDED
            _set(s_mask, n_new, slot)
            n_new += 1
    if n - n_neg + n_new > rays.shape[0]:
        return OVERFLOWS
    kept = 0
    for i in range(n):
        if sign[i] == -1:
            continue
        if kept != i:
            _move(D, rays, mask, i, rays, mask, kept)
        if sign[i] == 0:
            _set(mask, kept, slot)
        kept += 1
    for i in range(n_new):
        _move(D, s_rays, s_mask, i, rays, mask, kept)
        kept += 1
    state[0] = kept
    used[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    for w in range(words):  # a facet that no ray lies on any more is redundant: its slot is free again
        alive = np.uint64((1 << D) - 1) if w == 0 else np.uint64(0)
        for i in range(kept):
            alive |= mask[i, w]
        used[w] &= alive
    return CUTS


@kernel(inlined=True)
def _move(D, rays, mask, i, to_rays, to_mask, k):
    for c in range(D + 2):
        to_rays[k, c] = rays[i, c]
    for w in range(mask.shape[1]):
        to_mask[k, w] = mask[i, w]


@kernel(inlined=True)
def write_wall(points, point_error, grain, D, j, l, facets, slot):
    """facets[slot] = the scaled normal of the wall {s_j = s_l}, pointing to the side of j."""
    size = 0.0
    for c in range(D):
        difference = points[j, c] - points[l, c]
        facets[slot, c] = difference
        size += abs(difference)
    if size < 1e-270:  # distinct scores whose floats (nearly) coincide: nothing can be decided in floats
        facets[slot, D] = 4.0
        facets[slot, D + 1] = INEXACT
        return
    scale = 1.0 / size
    if grain > -INEXACT:
        mantissa, exponent = math.frexp(size)
        if mantissa == 0.5:
            exponent -= 1
        if exponent - grain <= 53:  # exact: scale by a power of two
            scale = math.ldexp(1.0, -exponent)
            facets[slot, D] = 0.0
            facets[slot, D + 1] = exponent - grain
        else:
            grain = -INEXACT
    if grain == -INEXACT:
        facets[slot, D] = _SAFETY * (4.0 * _UNIT + (point_error[j] + point_error[l]) * scale)
        facets[slot, D + 1] = INEXACT
    for c in range(D):
        facets[slot, c] *= scale


@kernel(inlined=True)
def misses(D, points, j, l, rays, state, noise):
    """A quick test that the wall between j and l surely misses the working cone.

    It works on the plain difference, of 1-norm at most 2 D; ``noise`` bounds what rounding does to it.
    """
    if state[1] != 0 or state[0] == 1:  # the end of a half-line lies on every wall
        return False
    if D == 4:
        a, b = points[j, 0] - points[l, 0], points[j, 1] - points[l, 1]
        c, d = points[j, 2] - points[l, 2], points[j, 3] - points[l, 3]
        for i in range(state[0]):
            value = (a * rays[i, 0] + b * rays[i, 1]) + (c * rays[i, 2] + d * rays[i, 3])
            if not value > noise + 8.2 * rays[i, 4]:
                return False
        return True
    for i in range(state[0]):
        value = 0.0
        for k in range(D):
            value += (points[j, k] - points[l, k]) * rays[i, k]
        if not value > noise + 2.05 * D * rays[i, D]:
            return False
    return True


@kernel(inner=True)
def _climb(head, D, y, j):
    """The key with the largest score at y: on a convex envelope a local maximum over neighbours is global."""
    points, start, neighbours = head.points, head.neighbour_start, head.neighbours
    best = 0.0
    for c in range(D):
        best += points[j, c] * y[c]
    while True:
        next_j = j
        for t in range(start[j], start[j + 1]):
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


@kernel(inlined=True)
def load(D, store, parent, cone):
    """The working cone becomes a copy of a stored cell; False when it has no room for it."""
    rays, mask, used, facets, label = cone.rays, cone.mask, cone.used, cone.facets, cone.label
    p_rays, p_mask, p_facets, p_label = store.rays, store.mask, store.facets, store.label
    first, n = store.ray_start[parent], store.ray_start[parent + 1] - store.ray_start[parent]
    first_facet = store.facet_start[parent]
    n_facets = store.facet_start[parent + 1] - first_facet
    if n > rays.shape[0] or D + n_facets > 64 * used.shape[0]:
        return False
    cone.state[0] = n
    cone.state[1] = store.free[parent]
    for i in range(n):
        _move(D, p_rays, p_mask, first + i, rays, mask, i)
    for w in range(used.shape[0]):
        filled = min(max(D + n_facets - (w << 6), 0), 64)
        used[w] = ~np.uint64(0) if filled == 64 else np.uint64((1 << filled) - 1)
    for i in range(n_facets):
        for c in range(D + 2):
            facets[D + i, c] = p_facets[first_facet + i, c]
        label[D + i, 0] = p_label[first_facet + i, 0]
        label[D + i, 1] = p_label[first_facet + i, 1]
    return True


@kernel(inlined=True)
def save(D, cone, parent, key, counts, out, place):
    """Append the working cone to the output, facets in consecutive slots; False when the output is full."""
    rays, mask, used, facets, label = cone.rays, cone.mask, cone.used, cone.facets, cone.label
    o_rays, o_mask, o_facets, o_label = out.rays, out.mask, out.facets, out.label
    n, words = cone.state[0], mask.shape[1]
    n_facets = -D
    for w in range(words):
        n_facets += popcount(used[w])
    cell, first, first_facet = counts[0], counts[1], counts[2]
    if cell >= out.key.shape[0] or first + n > o_mask.shape[0] or first_facet + n_facets > o_facets.shape[0]:
        return False
    out.parent[cell] = parent
    out.key[cell] = key
    out.free[cell] = cone.state[1]
    out.ray_start[cell + 1] = first + n
    out.facet_start[cell + 1] = first_facet + n_facets
    for s in range(D):
        place[s] = s
    k = 0
    for w in range(words):
        word = _proper(used, w, D)
        while word != np.uint64(0):
            s = (w << 6) + lowest(word)
            place[s] = D + k
            for c in range(D + 2):
                o_facets[first_facet + k, c] = facets[s, c]
            o_label[first_facet + k, 0] = label[s, 0]
            o_label[first_facet + k, 1] = label[s, 1]
            k += 1
            word &= word - np.uint64(1)
    for i in range(n):
        for c in range(D + 2):
            o_rays[first + i, c] = rays[i, c]
        for w in range(words):
            o_mask[first + i, w] = np.uint64(0)
        for w in range(words):
            word = mask[i, w]
            while word != np.uint64(0):
                _set(o_mask, first + i, place[(w << 6) + lowest(word)])
                word &= word - np.uint64(1)
    counts[0] += 1
    counts[1] += n
    counts[2] += n_facets
    return True


@kernel(inner=True)
def _tabulate(D, columns, noise, rays, first, n, table, slack):
    """table[i, j] = score of key j at the i-th ray of a stored cell; differences are off by less than
    slack[i].

    Entries of points and rays are at most 1 in size, so a difference has 1-norm at most 2 D.
    """
    for i in range(n):
        value = rays[first + i, 0]
        for j in range(columns.shape[1]):
            table[i, j] = columns[0, j] * value
        for c in range(1, D):
            value = rays[first + i, c]
            for j in range(columns.shape[1]):
                table[i, j] += columns[c, j] * value
        slack[i] = noise + 2.05 * D * rays[first + i, D]


@kernel(inlined=True)
def _count_outside(table, slack, n, j, depth_of):
    """depth_of[l] = at how many of the n rays key j is not surely above key l."""
    for l in range(table.shape[1]):
        depth_of[l] = 0.0
    for i in range(n):
        level = table[i, j] - slack[i]
        for l in range(table.shape[1]):
            depth_of[l] += 0.0 if level > table[i, l] else 1.0


@kernel
def expand(D, h, head, store, parent, seeds, n_seeds, visited, stamp, cone, scratch, counts, out, parked):
    """Cut one parent cell into the cells of head h; returns DONE, FULL (grow the output) or OVERFLOWS (grow
    the work space).

    Winning keys are found by walking from a winner to the keys whose walls it touches, so the cost follows
    the number of cells that come out. Keys whose cell could not be decided go to ``parked``. ``counts`` =
    [cells, rays, facets, parked, last winner, next parent, stamp].
    """
    queue = scratch.queue
    state, rays, mask = cone.state, cone.rays, cone.mask
    used, facets, label = cone.used, cone.facets, cone.label
    sign, order, shared_with = scratch.sign, scratch.order, scratch.shared_with
    s_rays, s_mask = scratch.rays, scratch.mask
    pick, pool, minors, residual = scratch.pick, scratch.pool, scratch.minors, scratch.residual
    points, point_error, grain = head.points, head.error, head.grain
    table, slack = scratch.table, scratch.slack
    walls, depth, depth_of = scratch.walls, scratch.depth, scratch.depth_of
    noise = head.noise
    n_parent = store.ray_start[parent + 1] - store.ray_start[parent]
    # not for cones with lines, which a wall may cut without a ray, nor for a half-line, whose end every wall
    # meets
    tabled = store.free[parent] == 0 and 1 < n_parent <= table.shape[0]
    if tabled:
        _tabulate(D, head.columns, noise, store.rays, store.ray_start[parent], n_parent, table, slack)
    neighbour_start, neighbours = head.neighbour_start, head.neighbours
    first, tail = 0, 0
    if n_seeds == 0:
        for c in range(D):
            scratch.vector[c] = 0.0
        for i in range(store.ray_start[parent], store.ray_start[parent + 1]):
            for c in range(D):
                scratch.vector[c] += store.rays[i, c]
        for c in range(D):  # any direction will do along a line that the parent contains
            if store.free[parent] >> c & 1:
                scratch.vector[c] += 0.7 + 0.3 * math.sin(2.4 * c)
        queue[0] = _climb(head, D, scratch.vector, counts[4])
        visited[queue[0]] = stamp
        tail = 1
    for i in range(n_seeds):
        if visited[seeds[i]] != stamp:
            visited[seeds[i]] = stamp
            queue[tail] = seeds[i]
            tail += 1
    while first < tail:
        j = queue[first]
        first += 1
        if not load(D, store, parent, cone):
            return OVERFLOWS
        result = MISSES
        if tabled:
            _count_outside(table, slack, n_parent, j, depth_of)
        n_walls = 0
        for t in range(neighbour_start[j], neighbour_start[j + 1]):
            l = neighbours[t]
            outside = 0.0
            if tabled:
                outside = depth_of[l]
                if outside == 0.0:  # most walls do not even meet the parent
                    continue
            # walls that cut away most come first: what they leave is met by fewer others
            k = n_walls
            while k > 0 and depth[k - 1] < outside:
                walls[k] = walls[k - 1]
                depth[k] = depth[k - 1]
                k -= 1
            walls[k] = l
            depth[k] = outside
            n_walls += 1
        for t in range(n_walls):
            l = walls[t]
            if misses(D, points, j, l, rays, state, noise):
                continue
            slot = free_slot(used)
            if slot < 0:
                return OVERFLOWS
            write_wall(points, point_error, grain, D, j, l, facets, slot)
            label[slot, 0] = h
            label[slot, 1] = l
            result = cut(
                D, state, rays, mask, used, facets,
                slot, sign, order, shared_with, s_rays, s_mask, pick, pool, minors, residual,
            )  # fmt: skip
            if result >= EMPTIES:
                break
        if result == OVERFLOWS:
            return OVERFLOWS
        if result == UNDECIDED:
            parked[counts[3]] = j
            counts[3] += 1
            continue
        if result == EMPTIES:
            continue
        for w in range(used.shape[0]):
            word = _proper(used, w, D)
            while word != np.uint64(0):
                s = (w << 6) + lowest(word)
                if label[s, 0] == h and visited[label[s, 1]] != stamp:
                    visited[label[s, 1]] = stamp
                    queue[tail] = label[s, 1]
                    tail += 1
                word &= word - np.uint64(1)
        if not save(D, cone, parent, j, counts, out, pool):
            return FULL
        counts[4] = j
    return DONE


@kernel
def expand_many(D, h, head, store, stop, nobody, visited, cone, scratch, counts, out, parked):
    """`expand` for the parents counts[5] .. stop-1, until one needs more room or a rational decision."""
    while counts[5] < stop:
        cells, n_rays, n_facets = counts[0], counts[1], counts[2]
        counts[6] += 1
        status = expand(
            D, h, head, store, counts[5], nobody, 0, visited, counts[6], cone, scratch, counts, out, parked
        )
        if status != DONE:
            counts[0], counts[1], counts[2], counts[3] = cells, n_rays, n_facets, 0
            return status
        if counts[3] > 0 or counts[0] == cells:
            return DONE
        counts[5] += 1
    return DONE


@kernel
def certify(columns, offsets, sizes, row_error, choices, witnesses, rival_start, rivals, values, shown):
    """Unmark the witnesses at which the chosen key does not beat its rivals by more than the rounding error.

    ``choices`` holds, per witness, the number of the winner; ``columns`` (d, N) are the slopes, transposed,
    of pairwise different scores, and ``sizes`` their 1-norms with the offset included. The rivals of witness
    i are ``rivals[rival_start[i] : rival_start[i + 1]]``, or all others when ``rivals`` is empty. ``values``
    (N,) is scratch space.
    """
    d, n_keys = columns.shape
    for i in range(witnesses.shape[0]):
        if not shown[i]:
            continue
        j = choices[i]
        largest = 1.0
        for c in range(d):
            largest = max(largest, abs(witnesses[i, c]))
        noise = _SAFETY * largest * (d + 4) * _UNIT
        moved = _SAFETY * largest
        own = offsets[j] - noise * sizes[j] - moved * row_error[j]
        for c in range(d):
            own += columns[c, j] * witnesses[i, c]
        if rivals.shape[0] == 0:
            for l in range(n_keys):
                values[l] = offsets[l] + (noise * sizes[l] + moved * row_error[l])
            for c in range(d):
                x = witnesses[i, c]
                for l in range(n_keys):
                    values[l] += columns[c, l] * x
            values[j] = -np.inf
            highest = -np.inf
            for l in range(n_keys):
                highest = max(highest, values[l])
            shown[i] = own > highest
            continue
        for t in range(rival_start[i], rival_start[i + 1]):
            l = rivals[t]
            value = offsets[l] + (noise * sizes[l] + moved * row_error[l])
            for c in range(d):
                value += columns[c, l] * witnesses[i, c]
            if l != j and not own > value:
                shown[i] = False
                break
