r"""A walk from set to set through convex cells, compiled: which sets of keys win somewhere in them.

The cell of a set is cut out of the cone over a convex cell by double description: rays, each with the facets
that it lies on. At a ray, the worst comparison of a member with a key outside (for sparsemax, of a key with
the threshold of the set) is the next cut if it is violated; a cell is finished when none is. Its facets lead
to the sets beyond. Plain floats with a tolerance: what they miss is found by the check of the cells
(:mod:`hardmax.regions.listing`), and a set listed in vain does no harm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.geometry.cones.ray_kernels import lowest, popcount

DONE, SETS_FULL, RAYS_FULL, FACETS_FULL = 0, 1, 2, 3
_ROOT = -1  # the label of a facet of the convex cell itself
_SMALL = 2e-15


class Found(NamedTuple):
    """The sets found so far, as words of bits, in a table of hashes."""

    sets: NDArray[np.uint64]  # (capacity, words)
    wins: NDArray[np.bool_]  # whether some cell of it has interior
    stamp: NDArray[np.int64]  # the walk in which it was met last
    queue: NDArray[np.int64]
    slots: NDArray[np.int64]  # 1 + number of a set; 0: free
    n: NDArray[np.int64]  # [number of sets, walks begun]


class Cone(NamedTuple):
    """The working cone."""

    rays: NDArray[np.float64]  # (most, D), largest entry 1
    masks: NDArray[np.uint64]  # (most, words)
    excess: NDArray[np.float64]  # the worst comparison at a ray
    worst: NDArray[np.int64]  # (most, 2)
    value: NDArray[np.float64]
    label: NDArray[np.int64]  # (facets, 2)


def found_sets(capacity: int, words: int) -> Found:
    """No sets, with room for some."""
    integers = np.int64
    slots = 1 << int(4 * capacity - 1).bit_length()
    return Found(
        np.zeros((capacity, words), dtype=np.uint64),
        np.zeros(capacity, dtype=np.bool_),
        np.zeros(capacity, dtype=integers),
        np.zeros(capacity, dtype=integers),
        np.zeros(slots, dtype=integers),
        np.zeros(2, dtype=integers),
    )


def cone_room(most: int, D: int, words: int) -> Cone:
    """Room for so many rays and so many words of facets."""
    floats: Any = np.float64
    return Cone(
        np.zeros((most, D), dtype=floats),
        np.zeros((most, words), dtype=np.uint64),
        np.zeros(most, dtype=floats),
        np.zeros((most, 2), dtype=np.int64),
        np.zeros(most, dtype=floats),
        np.zeros((64 * words, 2), dtype=np.int64),
    )


@kernel(inlined=True)
def in_set(bits, j):
    """Whether key j is in a set."""
    return (bits[j >> 6] >> np.uint64(j & 63)) & np.uint64(1) != np.uint64(0)


@kernel(inlined=True)
def toggle(bits, j):
    """Put key j into a set, or take it out."""
    bits[j >> 6] ^= np.uint64(1) << np.uint64(j & 63)


@kernel(inner=True)
def enter(found, bits, stamp, n_queue):
    """Put a set into the queue of this walk, unless it was there; returns the new length, or -1: no room."""
    words = bits.shape[0]
    h = np.uint64(0x9E3779B97F4A7C15)
    for w in range(words):
        h = (h ^ bits[w]) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    size = found.slots.shape[0]
    at = np.int64(h & np.uint64(size - 1))
    while found.slots[at] != 0:
        s = found.slots[at] - 1
        same = True
        for w in range(words):
            same = same and found.sets[s, w] == bits[w]
        if same:
            if found.stamp[s] != stamp:
                found.stamp[s] = stamp
                found.queue[n_queue] = s
                n_queue += 1
            return n_queue
        at = at + 1 if at + 1 < size else 0
    s = found.n[0]
    if s >= found.sets.shape[0]:
        return -1
    found.n[0] = s + 1
    found.slots[at] = s + 1
    for w in range(words):
        found.sets[s, w] = bits[w]
    found.stamp[s] = stamp
    found.queue[n_queue] = s
    return n_queue + 1


@kernel
def enter_all(found, sets, wins):
    """Enter sets that were found before into a larger table."""
    n_queue = 0
    for s in range(sets.shape[0]):
        n_queue = enter(found, sets[s], 0, n_queue)
        found.wins[s] = wins[s]
    return n_queue


@kernel(inlined=True)
def score_keys(rows, p, rays, r, score):
    """The scores of all keys at a ray; ``rows`` (P, D, N)."""
    D, n = rows.shape[1], rows.shape[2]
    x = rays[r, 0]
    for j in range(n):
        score[j] = rows[p, 0, j] * x
    for c in range(1, D):
        x = rays[r, c]
        for j in range(n):
            score[j] += rows[p, c, j] * x


@kernel(inner=True)
def best_set(k, tau, rows, p, x, score, bits):
    """The set that wins at a point: the k best, or those above the threshold."""
    D, n = rows.shape[1], rows.shape[2]
    for w in range(bits.shape[0]):
        bits[w] = np.uint64(0)
    score_keys(rows, p, x, 0, score)
    for _ in range(k):
        best = -1
        for j in range(n):
            if not in_set(bits, j) and (best < 0 or score[j] > score[best]):
                best = j
        toggle(bits, best)
    if k > 0:
        return
    highest = -np.inf
    for j in range(n):
        toggle(bits, j)
        highest = max(highest, score[j])
    left = True
    while left:  # the mean of those that are left grows until all of them are above it
        total, m = -tau * x[0, D - 1], 0
        for j in range(n):
            if in_set(bits, j):
                total += score[j] - highest
                m += 1
        left = False
        for j in range(n):
            if in_set(bits, j) and score[j] - highest < total / m and score[j] < highest:
                toggle(bits, j)
                left = True


@kernel(inner=True, finite=True)
def worst_lead(k, score, turn, threshold):
    """By how much the worst comparison is violated; ``turn`` is -1 for members and 1 for other keys."""
    n = score.shape[0]
    if k == 0:
        highest = -1e300
        for j in range(n):
            highest = max(highest, turn[j] * (score[j] - threshold))
        return highest
    least, highest = 1e300, -1e300
    for j in range(n):
        least = min(least, score[j] + (1.0 + turn[j]) * 1e290)
        highest = max(highest, score[j] - (1.0 - turn[j]) * 1e290)
    return highest - least


@kernel(inlined=True)
def judge(k, rows, p, mean, turn, score, cone, r, small):
    """Note the worst comparison at ray r: how much it is violated, and which one it is."""
    D, n = rows.shape[1], rows.shape[2]
    score_keys(rows, p, cone.rays, r, score)
    t = 0.0
    for c in range(D):
        t += mean[c] * cone.rays[r, c]
    excess = worst_lead(k, score, turn, t)
    cone.excess[r] = excess
    if not (excess > small):
        return
    least, highest, a, b = np.inf, -np.inf, 0, 0
    for j in range(n):
        if k == 0:
            if turn[j] * (score[j] - t) > highest:
                highest, a = turn[j] * (score[j] - t), j
        elif turn[j] < 0.0:
            if score[j] < least:
                least, a = score[j], j
        elif score[j] > highest:
            highest, b = score[j], j
    cone.worst[r, 0] = a
    cone.worst[r, 1] = b


@kernel(inner=True)
def cut(cone, m, row, slot, small):
    """Keep the part of a cone of m rays where ``row`` is not negative; returns the number of rays, or -1."""
    rays, masks, value = cone.rays, cone.masks, cone.value
    D, words = rays.shape[1], masks.shape[1]
    for r in range(m):
        value[r] = 0.0
        for c in range(D):
            value[r] += row[c] * rays[r, c]
        if abs(value[r]) <= small:
            value[r] = 0.0
            masks[r, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    fresh = m
    for r in range(m):
        if not (value[r] > 0.0):
            continue
        for q in range(m):
            if not (value[q] < 0.0):
                continue
            common = 0
            for w in range(words):
                common += popcount(masks[r, w] & masks[q, w])
            adjacent = common >= D - 2
            for s in range(m if adjacent and m > 2 else 0):
                if s in (r, q):
                    continue
                covers = True
                for w in range(words):
                    covers = covers and masks[r, w] & masks[q, w] & ~masks[s, w] == np.uint64(0)
                if covers:
                    adjacent = False
                    break
            if not adjacent:
                continue
            if fresh >= rays.shape[0]:
                return -1
            size = 0.0
            for c in range(D):
                rays[fresh, c] = value[r] * rays[q, c] - value[q] * rays[r, c]
                size = max(size, abs(rays[fresh, c]))
            if size == 0.0:
                continue
            for c in range(D):
                rays[fresh, c] /= size
            for w in range(words):
                masks[fresh, w] = masks[r, w] & masks[q, w]
            masks[fresh, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
            value[fresh] = 1.0
            cone.excess[fresh] = np.nan  # not judged yet
            fresh += 1
    kept = 0
    for r in range(fresh):
        if value[r] < 0.0:
            continue
        for c in range(D):
            rays[kept, c] = rays[r, c]
        for w in range(words):
            masks[kept, w] = masks[r, w]
        cone.excess[kept] = cone.excess[r]
        cone.worst[kept, 0], cone.worst[kept, 1] = cone.worst[r, 0], cone.worst[r, 1]
        kept += 1
    return kept


@kernel(allocates=True)
def walk(k, tau, rows, prefix, offsets, rays, masks, first, stop, found, cone):
    """Walk through the sets that win in the cells ``first`` to ``stop``; returns a status and a cell.

    Rows (P, D, N) are scores on prefixes. What is full asks for more room, and to go on with that cell.
    """
    D, n = rows.shape[1], rows.shape[2]
    words = cone.masks.shape[1]
    score, turn, mean, row, point = np.zeros(n), np.zeros(n), np.zeros(D), np.zeros(D), np.zeros((1, D))
    bits = np.zeros(found.sets.shape[1], dtype=np.uint64)
    near = np.zeros(found.sets.shape[1], dtype=np.uint64)
    for i in range(first, stop):
        if offsets[i + 1] == offsets[i]:
            continue
        p = prefix[i]
        found.n[1] += 1
        stamp = found.n[1]
        size = tau
        for c in range(D):
            for j in range(n):
                size = max(size, abs(rows[p, c, j]))
        small = _SMALL * D * size
        point[:] = 0.0
        for v in range(offsets[i], offsets[i + 1]):
            for c in range(D):
                point[0, c] += rays[v, c]
        best_set(k, tau, rows, p, point, score, bits)
        n_queue = enter(found, bits, stamp, 0)
        if n_queue < 0:
            return SETS_FULL, i
        found.wins[found.queue[0]] = True
        done = 0
        while done < n_queue:
            s = found.queue[done]
            done += 1
            bits[:] = found.sets[s]
            m = 0
            mean[:] = 0.0
            for j in range(n):
                turn[j] = 1.0
                if in_set(bits, j):
                    turn[j] = -1.0
                    m += 1
                    for c in range(D):
                        mean[c] += rows[p, c, j]
            if k == 0:
                mean[D - 1] -= tau
                for c in range(D):
                    mean[c] /= m
            m = offsets[i + 1] - offsets[i]
            if m > cone.rays.shape[0]:
                return RAYS_FULL, i
            for r in range(m):
                v = offsets[i] + r
                for c in range(D):
                    cone.rays[r, c] = rays[v, c]
                for w in range(words):
                    cone.masks[r, w] = masks[v, w] if w < masks.shape[1] else np.uint64(0)
                cone.excess[r] = np.nan
            cone.label[:, 0] = _ROOT
            # each comparison cuts once; rounding could repeat them without end
            for _ in range(2 * max(k, 1) * n + 64):
                worst = -1
                for r in range(m):
                    if cone.excess[r] != cone.excess[r]:
                        judge(k, rows, p, mean, turn, score, cone, r, small)
                    if worst < 0 or cone.excess[r] > cone.excess[worst]:
                        worst = r
                if worst < 0 or not (cone.excess[worst] > small):
                    break
                slot = 64 * words  # one that no ray uses
                for w in range(masks.shape[1], words):
                    taken = np.uint64(0)
                    for r in range(m):
                        taken |= cone.masks[r, w]
                    if ~taken != np.uint64(0):
                        slot = 64 * w + lowest(~taken)
                        break
                if slot == 64 * words:
                    return FACETS_FULL, i
                a, b = cone.worst[worst, 0], cone.worst[worst, 1]
                for c in range(D):
                    if k > 0:
                        row[c] = rows[p, c, a] - rows[p, c, b]
                    else:
                        row[c] = turn[a] * (mean[c] - rows[p, c, a])
                cone.label[slot, 0], cone.label[slot, 1] = a, b
                m = cut(cone, m, row, slot, small)
                if m < 0:
                    return RAYS_FULL, i
            if m < D:
                continue
            found.wins[s] = True
            for slot in range(64 * masks.shape[1], 64 * words):
                if cone.label[slot, 0] == _ROOT:
                    continue
                on = 0
                for r in range(m):
                    if (cone.masks[r, slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1) != np.uint64(0):
                        on += 1
                if on < D - 1:
                    continue
                near[:] = bits
                toggle(near, cone.label[slot, 0])
                if k > 0:
                    toggle(near, cone.label[slot, 1])
                n_queue = enter(found, near, stamp, n_queue)
                if n_queue < 0:
                    return SETS_FULL, i
    return DONE, stop
