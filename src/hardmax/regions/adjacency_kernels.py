r"""Overlaying the two sides of every wall and fold, compiled.

The pieces of boundary named ``(owner, wall)`` lie on one line :math:`S`. The cells on each side cut :math:`S`
into pieces; a piece of one side touches a piece of the other in positive length iff the intervals overlap. A
position on :math:`S` is one coordinate of the vertex (the one in which the line runs faster), known up to the
error of the vertex. Two positions are told apart when they differ by more than their errors; they are
known to be equal when the lines crossing :math:`S` there have the same name, or are the walls of one third
key against the two keys of :math:`S`. Whatever is left open goes to rationals, together with its whole line.
"""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel

__all__ = ["FIELDS", "by_group", "name_groups", "overlay", "sort_contacts"]

# what is known about a group: the edges that share a name
OWNER, KIND, UNIT, HEAD, KEY_A, KEY_B, ROW_A, ROW_B, FIRST_HEAD = range(9)
FIELDS = 9
FOLD, WALL, QUIET_WALL = 0, 1, 2  # across a quiet wall both keys have the same output

BEFORE, EQUAL, AFTER, OPEN = -1, 0, 1, 2
# what becomes of an edge
COVERED, UNCOVERED = 0, 1
_SLACK = 1.0 + 1e-12


@kernel
def name_groups(owner, wall, slots, group, representative):
    """Number the names (owner, wall) in order of appearance; returns how many there are.

    ``slots`` is a hash table of a power of two entries, all -1, at least half of them never used.
    """
    mask = np.uint64(len(slots) - 1)
    count = 0
    for e in range(len(owner)):
        h = np.uint64(owner[e]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(wall[e])
        h ^= h >> np.uint64(32)
        h *= np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(29)
        at = h & mask
        while True:
            g = slots[at]
            if g < 0:
                slots[at] = count
                representative[count] = e
                group[e] = count
                count += 1
                break
            r = representative[g]
            if owner[r] == owner[e] and wall[r] == wall[e]:
                group[e] = g
                break
            at = (at + np.uint64(1)) & mask
    return count


@kernel
def by_group(group, start, order):
    """Edges sorted by group, ascending inside each; ``start`` has one entry more than there are groups."""
    for e in range(len(group)):
        start[group[e] + 1] += 1
    for g in range(len(start) - 1):
        start[g + 1] += start[g]
    for e in range(len(group)):
        order[start[group[e]]] = e
        start[group[e]] += 1
    for g in range(len(start) - 1, 0, -1):
        start[g] = start[g - 1]
    start[0] = 0


@kernel
def sort_by(keys, items, base, stop, spare):
    """Sort ``items[base:stop]`` by ``keys[item]``: merge sort, short runs by insertion."""
    run = 12
    low = base
    while low < stop:
        high = min(low + run, stop)
        for i in range(low + 1, high):
            item = items[i]
            j = i
            while j > low and keys[items[j - 1]] > keys[item]:
                items[j] = items[j - 1]
                j -= 1
            items[j] = item
        low = high
    while run < stop - base:
        low = base
        while low < stop:
            middle, high = min(low + run, stop), min(low + 2 * run, stop)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or keys[items[i]] <= keys[items[j]]):
                    spare[k] = items[i]
                    i += 1
                else:
                    spare[k] = items[j]
                    j += 1
            low = high
        for k in range(base, stop):
            items[k] = spare[k]
        run *= 2


@kernel(inlined=True)
def compare(t, r, g, t_, r_, g_):
    """The order of two positions with errors r, r_ and crossing lines g, g_."""
    if t == t_ and np.isinf(t):
        return EQUAL
    gap = (r + r_) * _SLACK
    if t_ - t > gap:
        return BEFORE
    if t - t_ > gap:
        return AFTER
    if g == g_:
        return EQUAL
    return OPEN


@kernel
def third_key(info, s, g, g_):
    """Whether two crossing lines are the walls of one third key against the two keys of line s."""
    if info[s, KIND] == FOLD or info[g, KIND] == FOLD or info[g_, KIND] == FOLD:
        return False
    if info[g, OWNER] != info[s, OWNER] or info[g_, OWNER] != info[s, OWNER]:
        return False
    if info[g, HEAD] != info[s, HEAD] or info[g_, HEAD] != info[s, HEAD]:
        return False
    a, b = info[s, ROW_A], info[s, ROW_B]
    c, c_ = -1, -2
    if info[g, ROW_A] == a or info[g, ROW_A] == b:
        c = info[g, ROW_B]
    elif info[g, ROW_B] == a or info[g, ROW_B] == b:
        c = info[g, ROW_A]
    if info[g_, ROW_A] == a or info[g_, ROW_A] == b:
        c_ = info[g_, ROW_B]
    elif info[g_, ROW_B] == a or info[g_, ROW_B] == b:
        c_ = info[g_, ROW_A]
    return c == c_


@kernel
def same_routings(routings, tied, i, j, first_head, but):
    """Whether two cells agree in all heads from ``first_head`` on, one excepted, and have no tied keys."""
    if tied[i] or tied[j]:
        return False
    for head in range(first_head, routings.shape[1]):
        if head != but and routings[i, head] != routings[j, head]:
            return False
    return True


@kernel
def side_of(info, s, bits, routings, cell):
    """0 or 1: the side of line s on which a cell lies; -1 if its signature does not tell."""
    if info[s, KIND] == FOLD:
        unit = info[s, UNIT]
        return np.int64((bits[cell, unit >> 6] >> np.uint64(unit & 63)) & np.uint64(1))
    winner = routings[cell, info[s, HEAD]]
    if winner == info[s, KEY_A]:
        return 0
    if winner == info[s, KEY_B]:
        return 1
    return -1


@kernel
def locate(start, stop, order, edge_start, cell_of, vx, vy, vr, dx, dy, far):
    """The axis along which a line runs faster, one edge, whether that runs upwards, the length per unit.

    Returns ``(axis, edge, upwards, scale)``; axis -1 if the errors leave the direction open.
    """
    best, best_e, ex, ey = -1.0, np.int64(-1), 0.0, 0.0
    for k in range(start, stop):
        e = order[k]
        cell = cell_of[e]
        f = e + 1 if e + 1 < edge_start[cell + 1] else edge_start[cell]
        x, y, certain = vx[f] - vx[e], vy[f] - vy[e], 0.0
        if far and (dx[e] != 0.0 or dy[e] != 0.0 or dx[f] != 0.0 or dy[f] != 0.0):
            if not (np.isfinite(vr[e]) and np.isfinite(vr[f])):
                continue
            x, y = dx[f] - dx[e], dy[f] - dy[e]
            size = max(abs(x), abs(y))
            if size > 0.0:
                best, best_e, ex, ey = np.inf, e, x, y
                break
        else:
            certain = max(abs(x), abs(y)) - 4.0 * (vr[e] + vr[f])
            if certain > best:
                best, best_e, ex, ey = certain, e, x, y
    if not (best > 0.0):
        return -1, best_e, False, 0.0
    if abs(ex) >= abs(ey):
        return 0, best_e, ex > 0.0, np.sqrt(1.0 + (ey / ex) ** 2)
    return 1, best_e, ey > 0.0, np.sqrt(1.0 + (ex / ey) ** 2)


@kernel
def overlay(
    order, group_start, group, info, edge_start, cell_of, vx, vy, vr, dx, dy, far, bits, routings, tied,
    low, low_r, low_g, high, high_r, high_g, keys, items, spare,
    out_edges, out_kind, out_length, state, postponed,
):  # fmt: skip
    """Contacts of all groups. Returns (number of contacts, number of groups left to rationals).

    The arrays from ``low`` to ``spare`` are work space for one group.
    """
    n_out, n_postponed = 0, 0
    for s in range(len(group_start) - 1):
        start, stop = group_start[s], group_start[s + 1]
        if info[s, OWNER] < 0:
            continue
        # the two sides: items[:n0] and items[n0:n]
        n = stop - start
        n0, n1, doubtful = 0, 0, False
        for k in range(n):
            side = side_of(info, s, bits, routings, cell_of[order[start + k]])
            if side == 0:
                items[n0] = k
                n0 += 1
            elif side == 1:
                n1 += 1
                items[n - n1] = k
            else:
                doubtful = True
        if doubtful:
            postponed[n_postponed] = s
            n_postponed += 1
            continue
        if n0 == 0 or n1 == 0:
            for k in range(start, stop):
                state[order[k]] = UNCOVERED
            continue
        kind = info[s, KIND]
        if kind == FOLD and n0 == 1 and n1 == 1:
            e, f = order[start + items[0]], order[start + items[1]]
            i, j = cell_of[e], cell_of[f]
            e1 = e + 1 if e + 1 < edge_start[i + 1] else edge_start[i]
            f1 = f + 1 if f + 1 < edge_start[j + 1] else edge_start[j]
            r, r_ = (vr[e] + vr[f1]) * _SLACK, (vr[f] + vr[e1]) * _SLACK
            apart = (
                abs(vx[e] - vx[f1]) > r
                or abs(vy[e] - vy[f1]) > r
                or abs(vx[f] - vx[e1]) > r_
                or abs(vy[f] - vy[e1]) > r_
            )
            if far:
                apart |= dx[e] != 0.0 or dy[e] != 0.0 or dx[e1] != 0.0 or dy[e1] != 0.0
                apart |= dx[f] != 0.0 or dy[f] != 0.0 or dx[f1] != 0.0 or dy[f1] != 0.0
            if not apart:
                out_edges[n_out, 0], out_edges[n_out, 1] = e, f
                out_length[n_out] = np.sqrt((vx[e1] - vx[e]) ** 2 + (vy[e1] - vy[e]) ** 2)
                out_kind[n_out] = FOLD
                n_out += 1
                continue
        axis, longest, upwards, scale = locate(
            start, stop, order, edge_start, cell_of, vx, vy, vr, dx, dy, far
        )
        if axis < 0:
            postponed[n_postponed] = s
            n_postponed += 1
            continue
        up_side = side_of(info, s, bits, routings, cell_of[longest])
        if not upwards:
            up_side = 1 - up_side
        # positions of both ends of every piece
        for half in range(2):
            for m in range(n0 if half == 0 else n1):
                k = items[m] if half == 0 else items[n0 + m]
                e = order[start + k]
                cell = cell_of[e]
                f = e + 1 if e + 1 < edge_start[cell + 1] else edge_start[cell]
                before = e - 1 if e > edge_start[cell] else edge_start[cell + 1] - 1
                t0, t1 = (vx[e], vx[f]) if axis == 0 else (vy[e], vy[f])
                r0, r1 = vr[e], vr[f]
                if far:
                    d0, d1 = (dx[e], dx[f]) if axis == 0 else (dy[e], dy[f])
                    if dx[e] != 0.0 or dy[e] != 0.0:
                        t0 = np.inf if d0 > 0.0 else -np.inf
                        r0 = 0.0 if np.isfinite(r0) else r0
                    if dx[f] != 0.0 or dy[f] != 0.0:
                        t1 = np.inf if d1 > 0.0 else -np.inf
                        r1 = 0.0 if np.isfinite(r1) else r1
                if half == up_side:
                    low[k], low_r[k], low_g[k] = t0, r0, group[before]
                    high[k], high_r[k], high_g[k] = t1, r1, group[f]
                else:
                    low[k], low_r[k], low_g[k] = t1, r1, group[f]
                    high[k], high_r[k], high_g[k] = t0, r0, group[before]
                middle = low[k] + high[k]
                keys[k] = middle if middle == middle else 0.0
        # pieces of one side do not overlap, so their middles are in the right order once they are told apart
        for half in range(2):
            base, count = (0, n0) if half == 0 else (n0, n1)
            if count == 1:
                continue
            sort_by(keys, items, base, base + count, spare)
            for m in range(count - 1):
                k, l = items[base + m], items[base + m + 1]
                if not (keys[l] - keys[k] > (low_r[k] + high_r[k] + low_r[l] + high_r[l]) * _SLACK):
                    doubtful = True
        if doubtful:
            postponed[n_postponed] = s
            n_postponed += 1
            continue
        if kind != WALL and n0 == n1:
            # the map is continuous across the line: the pieces end together (see `adjacent_cells`)
            together = True
            for m in range(n0):
                i, j = cell_of[order[start + items[m]]], cell_of[order[start + items[n0 + m]]]
                if not same_routings(routings, tied, i, j, info[s, FIRST_HEAD], info[s, HEAD]):
                    together = False
                    break
                # where cells are missing, because the search was stopped, the ends are visibly apart
                k, l = items[m], items[n0 + m]
                if abs(low[k] - low[l]) > (low_r[k] + low_r[l]) * _SLACK or (
                    abs(high[k] - high[l]) > (high_r[k] + high_r[l]) * _SLACK
                ):
                    together = False
                    break
            if together:
                for m in range(n0):
                    k = items[m]
                    out_edges[n_out, 0] = order[start + k]
                    out_edges[n_out, 1] = order[start + items[n0 + m]]
                    out_length[n_out] = max(high[k] - low[k], 0.0) * scale
                    out_kind[n_out] = kind
                    n_out += 1
                continue
        # overlay of two lists of intervals
        first_out = n_out
        i, j = 0, 0
        fresh = True  # whether the starts of both pieces still have to be compared
        while i < n0 and j < n1:
            k, l = items[i], items[n0 + j]
            if fresh:
                c = compare(high[k], high_r[k], high_g[k], low[l], low_r[l], low_g[l])
                if c == OPEN and third_key(info, s, high_g[k], low_g[l]):
                    c = EQUAL
                if c == OPEN:
                    doubtful = True
                    break
                if c != AFTER:
                    state[order[start + k]] = UNCOVERED
                    i += 1
                    continue
                c = compare(high[l], high_r[l], high_g[l], low[k], low_r[k], low_g[k])
                if c == OPEN and third_key(info, s, high_g[l], low_g[k]):
                    c = EQUAL
                if c == OPEN:
                    doubtful = True
                    break
                if c != AFTER:
                    state[order[start + l]] = UNCOVERED
                    j += 1
                    continue
                c = compare(low[k], low_r[k], low_g[k], low[l], low_r[l], low_g[l])
                if c == OPEN and third_key(info, s, low_g[k], low_g[l]):
                    c = EQUAL
                if c == OPEN:
                    doubtful = True
                    break
                if c == BEFORE:
                    state[order[start + k]] = UNCOVERED
                elif c == AFTER:
                    state[order[start + l]] = UNCOVERED
                fresh = False
            out_edges[n_out, 0], out_edges[n_out, 1] = order[start + k], order[start + l]
            out_length[n_out] = max(min(high[k], high[l]) - max(low[k], low[l]), 0.0) * scale
            out_kind[n_out] = kind
            n_out += 1
            c = compare(high[k], high_r[k], high_g[k], high[l], high_r[l], high_g[l])
            if c == OPEN and third_key(info, s, high_g[k], high_g[l]):
                c = EQUAL
            if c == OPEN:
                doubtful = True
                break
            # step on, and see whether the next piece begins where the last one ended
            if c != AFTER:
                i += 1
                if i < n0:
                    m = items[i]
                    d = compare(high[k], high_r[k], high_g[k], low[m], low_r[m], low_g[m])
                    if d == BEFORE:
                        fresh = True
                        if c == BEFORE:
                            state[order[start + l]] = UNCOVERED
                    elif d != EQUAL:
                        doubtful = True
                        break
                elif c == BEFORE:
                    state[order[start + l]] = UNCOVERED
            if c != BEFORE:
                j += 1
                if j < n1:
                    m = items[n0 + j]
                    d = compare(high[l], high_r[l], high_g[l], low[m], low_r[m], low_g[m])
                    if d == BEFORE:
                        fresh = True
                        if c == AFTER:
                            state[order[start + k]] = UNCOVERED
                    elif d != EQUAL:
                        doubtful = True
                        break
                elif c == AFTER:
                    state[order[start + k]] = UNCOVERED
        if doubtful:
            n_out = first_out
            for k in range(start, stop):
                state[order[k]] = COVERED
            postponed[n_postponed] = s
            n_postponed += 1
            continue
        while i < n0:
            state[order[start + items[i]]] = UNCOVERED
            i += 1
        while j < n1:
            state[order[start + items[n0 + j]]] = UNCOVERED
            j += 1
    return n_out, n_postponed


@kernel
def sort_contacts(edges, kind, length, n, cell_of, start, order, pairs, kinds, lengths, sides):
    """Write contacts as pairs i < j in lexicographic order; ``start`` has one entry more than cells."""
    for c in range(n):
        start[min(cell_of[edges[c, 0]], cell_of[edges[c, 1]]) + 1] += 1
    for i in range(len(start) - 1):
        start[i + 1] += start[i]
    for c in range(n):
        i, j = cell_of[edges[c, 0]], cell_of[edges[c, 1]]
        low, high = min(i, j), max(i, j)
        at = start[low]
        start[low] += 1
        order[at] = c
        pairs[at, 1] = high
    for i in range(len(start) - 1, 0, -1):
        start[i] = start[i - 1]
    start[0] = 0
    for i in range(len(start) - 1):
        for k in range(start[i] + 1, start[i + 1]):
            c, j = order[k], pairs[k, 1]
            m = k
            while m > start[i] and pairs[m - 1, 1] > j:
                order[m], pairs[m, 1] = order[m - 1], pairs[m - 1, 1]
                m -= 1
            order[m], pairs[m, 1] = c, j
        for k in range(start[i], start[i + 1]):
            c = order[k]
            pairs[k, 0] = i
            kinds[k] = 0 if kind[c] == FOLD else 1
            lengths[k] = length[c]
            turned = 0 if cell_of[edges[c, 0]] == i else 1
            sides[k, 0], sides[k, 1] = edges[c, turned], edges[c, 1 - turned]
