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

# what is known about a group: the edges that share a name
OWNER, KIND, UNIT, HEAD, KEY_A, KEY_B, ROW_A, ROW_B, FIRST_HEAD = range(9)
FIELDS = 9
# across a bend the winning scores go on, so the map is continuous; across a quiet wall both keys have the
# same output
FOLD, BEND, WALL, QUIET_WALL = range(4)

BEFORE, EQUAL, AFTER, OPEN = -1, 0, 1, 2  # OPEN: not known
# what becomes of an edge
COVERED, UNCOVERED = 0, 1
_SLACK = 1.0 + 1e-12
UNCLEAR = -1.0  # a length that floats do not know well enough
LENGTH_ERROR = 1e-6  # relative; where floats cannot prove as much, rationals measure


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


@kernel(inner=True)
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


@kernel(inner=True)
def third_key(info, s, g, g_):
    """Whether two crossing lines are the walls of one third key against the two keys of line s."""
    if info[s, KIND] == FOLD or info[g, KIND] == FOLD or info[g_, KIND] == FOLD:
        return False
    if info[g, OWNER] != info[s, OWNER] or info[g_, OWNER] != info[s, OWNER]:
        return False
    if info[g, HEAD] != info[s, HEAD] or info[g_, HEAD] != info[s, HEAD]:
        return False
    a, b = info[s, ROW_A], info[s, ROW_B]
    c, c_ = np.int64(-1), np.int64(-2)
    if info[g, ROW_A] == a or info[g, ROW_A] == b:
        c = info[g, ROW_B]
    elif info[g, ROW_B] == a or info[g, ROW_B] == b:
        c = info[g, ROW_A]
    if info[g_, ROW_A] == a or info[g_, ROW_A] == b:
        c_ = info[g_, ROW_B]
    elif info[g_, ROW_B] == a or info[g_, ROW_B] == b:
        c_ = info[g_, ROW_A]
    return c == c_


@kernel(inner=True)
def compare(info, s, t, r, line, k, l):
    """The order of the ends k and l on line s: by position and error, then by the lines crossing s there."""
    if t[k] == t[l] and np.isinf(t[k]):
        return EQUAL
    gap = (r[k] + r[l]) * _SLACK
    if t[l] - t[k] > gap:
        return BEFORE
    if t[k] - t[l] > gap:
        return AFTER
    if line[k] == line[l] or third_key(info, s, line[k], line[l]):
        return EQUAL
    return OPEN


@kernel(inner=True)
def same_routings(routings, tied, i, j, first_head, but):
    """Whether two cells agree in all heads from ``first_head`` on, one excepted, and have no tied keys."""
    if tied[i] or tied[j]:
        return False
    for head in range(first_head, routings.shape[1]):
        if head != but and routings[i, head] != routings[j, head]:
            return False
    return True


@kernel(inner=True)
def side_of(info, s, bits, routings, cell):
    """0 or 1: the side of line s on which a cell lies; -1 if its signature does not tell."""
    if info[s, KIND] == FOLD:
        unit = info[s, UNIT]
        return np.int64((bits[cell, unit >> 6] >> np.uint64(unit & 63)) & np.uint64(1))
    winner = routings[cell, info[s, HEAD]]
    if winner == info[s, KEY_A]:
        return np.int64(0)
    return np.int64(1) if winner == info[s, KEY_B] else np.int64(-1)


@kernel(inner=True)
def divide(info, s, pieces, n, cell_of, bits, routings, items):
    """Number the pieces of a line, those of side 0 first; returns how many these are, -1 if it is unclear."""
    n0, n1 = np.int64(0), np.int64(0)
    for k in range(n):
        side = side_of(info, s, bits, routings, cell_of[pieces[k]])
        if side < 0:
            return np.int64(-1)
        if side == 0:
            items[n0] = k
            n0 += 1
        else:
            n1 += 1
            items[n - n1] = k
    return n0


@kernel(inner=True)
def meet_wholly(e, e1, f, f1, vx, vy, vr, dx, dy, far):
    """Whether edges from the two sides of a line end in the same points, as far as floats can tell."""
    r, r_ = (vr[e] + vr[f1]) * _SLACK, (vr[f] + vr[e1]) * _SLACK
    if abs(vx[e] - vx[f1]) > r or abs(vy[e] - vy[f1]) > r:
        return False
    if abs(vx[f] - vx[e1]) > r_ or abs(vy[f] - vy[e1]) > r_:
        return False
    if far:
        for v in (e, e1, f, f1):
            if dx[v] != 0.0 or dy[v] != 0.0:
                return False
    return True


@kernel(inner=True)
def locate(pieces, n, edge_start, cell_of, vx, vy, vr, dx, dy, far, frame):
    """Choose the axis along which a line runs faster, by its longest edge; -1 if errors leave it open.

    ``frame`` gets the components of that edge. Returns ``(axis, edge)``.
    """
    best, longest = 0.0, np.int64(-1)
    for k in range(n):
        e = pieces[k]
        cell = cell_of[e]
        f = e + 1 if e + 1 < edge_start[cell + 1] else edge_start[cell]
        if not (np.isfinite(vr[e]) and np.isfinite(vr[f])):
            continue
        x, y = vx[f] - vx[e], vy[f] - vy[e]
        certain = max(abs(x), abs(y)) - 4.0 * (vr[e] + vr[f])
        if far and (dx[e] != 0.0 or dy[e] != 0.0 or dx[f] != 0.0 or dy[f] != 0.0):
            x, y = dx[f] - dx[e], dy[f] - dy[e]
            certain = np.inf
        if certain > best:
            best, longest = certain, e
            frame[0], frame[1] = x, y
    if longest < 0:
        return np.int64(-1), longest
    return np.int64(0) if abs(frame[0]) >= abs(frame[1]) else np.int64(1), longest


@kernel(inner=True)
def place_ends(
    pieces,
    items,
    low,
    high,
    upwards,
    axis,
    group,
    edge_start,
    cell_of,
    v,
    vr,
    dx,
    dy,
    far,
    t,
    r,
    line,
    vertex,
):
    """Positions, errors, crossing lines and vertices of the ends of pieces: of piece k at 2k (lower) and
    2k + 1.
    """
    for m in range(low, high):
        k = items[m]
        e = pieces[k]
        cell = cell_of[e]
        f = e + 1 if e + 1 < edge_start[cell + 1] else edge_start[cell]
        before = e - 1 if e > edge_start[cell] else edge_start[cell + 1] - 1
        a, b = (2 * k, 2 * k + 1) if upwards else (2 * k + 1, 2 * k)
        t[a], r[a], line[a], vertex[a] = v[e], vr[e], group[before], e
        t[b], r[b], line[b], vertex[b] = v[f], vr[f], group[f], f
        if far:
            if dx[e] != 0.0 or dy[e] != 0.0:
                t[a] = np.inf if (dx[e] if axis == 0 else dy[e]) > 0.0 else -np.inf
                r[a] = 0.0 if np.isfinite(r[a]) else r[a]
            if dx[f] != 0.0 or dy[f] != 0.0:
                t[b] = np.inf if (dx[f] if axis == 0 else dy[f]) > 0.0 else -np.inf
                r[b] = 0.0 if np.isfinite(r[b]) else r[b]


@kernel(inner=True)
def put_in_order(items, base, count, t, r, keys, spare):
    """Sort the pieces of one side by their middles; whether these are all told apart.

    Pieces of one side do not overlap, so this is their order.
    """
    if count == 1:
        return True
    for m in range(base, base + count):
        k = items[m]
        keys[k] = t[2 * k] + t[2 * k + 1]
    sort_by(keys, items, base, base + count, spare)
    for m in range(base, base + count - 1):
        k, l = items[m], items[m + 1]
        if not (keys[l] - keys[k] > (r[2 * k] + r[2 * k + 1] + r[2 * l] + r[2 * l + 1]) * _SLACK):
            return False
    return True


@kernel(inner=True)
def end_together(info, s, pieces, items, n0, cell_of, routings, tied, t, r):
    """Whether the map is continuous across line s, so that the pieces of both sides match one by one.

    Where cells are missing, because a search was stopped, ends are visibly apart.
    """
    for m in range(n0):
        k, l = items[m], items[n0 + m]
        i, j = cell_of[pieces[k]], cell_of[pieces[l]]
        if not same_routings(routings, tied, i, j, info[s, FIRST_HEAD], info[s, HEAD]):
            return False
        for end in range(2):
            a, b = 2 * k + end, 2 * l + end
            if abs(t[a] - t[b]) > (r[a] + r[b]) * _SLACK:
                return False
    return True


@kernel(inner=True)
def length_between(u, v, vx, vy, error):
    """The distance of two vertices; UNCLEAR if it is not proven up to LENGTH_ERROR.

    ``error`` is the sum of the errors of every coordinate that had a say in which vertices these are, two at
    each end. A chosen vertex is off by one of the two, and where the choice was wrong, by both once more,
    along a line that runs faster in the coordinate that was compared: by less than 3 times their sum.
    """
    length = np.sqrt((vx[u] - vx[v]) ** 2 + (vy[u] - vy[v]) ** 2)
    in_range = 1e-140 < length < 1e140  # squares neither vanish nor overflow
    return length if in_range and 3.0 * error * _SLACK < LENGTH_ERROR * length else UNCLEAR


@kernel(inner=True)
def common_length(k, l, t, r, vertex, vx, vy):
    """The length of the common part of pieces k and l: from the later start to the earlier end."""
    low = 2 * k if t[2 * k] >= t[2 * l] else 2 * l
    high = 2 * k + 1 if t[2 * k + 1] <= t[2 * l + 1] else 2 * l + 1
    if np.isinf(t[low]) or np.isinf(t[high]):
        return np.inf
    error = 0.0
    for end in (2 * k, 2 * l, 2 * k + 1, 2 * l + 1):
        if not np.isinf(t[end]):
            error += r[end]
    return length_between(vertex[low], vertex[high], vx, vy, error)


@kernel(inner=True)
def keep(out_edges, out_kind, out_length, at, e, f, kind, length):
    """Write down a contact."""
    out_edges[at, 0] = e
    out_edges[at, 1] = f
    out_kind[at] = kind
    out_length[at] = length


@kernel(inner=True)
def merge(
    info, s, pieces, items, n0, n1, t, r, line, vertex, vx, vy, out_edges, out_kind, out_length, n_out, state
):
    """Overlay two ordered lists of intervals; returns the number of contacts so far, -1 if it stays open.

    Edges are marked that are not covered over their full length.
    """
    i, j = 0, 0
    fresh = True  # whether the starts of the two pieces still have to be compared
    while i < n0 and j < n1:
        k, l = items[i], items[n0 + j]
        if fresh:
            c = compare(info, s, t, r, line, 2 * k + 1, 2 * l)
            if c == OPEN:
                return np.int64(-1)
            if c != AFTER:
                state[pieces[k]] = UNCOVERED
                i += 1
                continue
            c = compare(info, s, t, r, line, 2 * l + 1, 2 * k)
            if c == OPEN:
                return np.int64(-1)
            if c != AFTER:
                state[pieces[l]] = UNCOVERED
                j += 1
                continue
            c = compare(info, s, t, r, line, 2 * k, 2 * l)
            if c == OPEN:
                return np.int64(-1)
            if c == BEFORE:
                state[pieces[k]] = UNCOVERED
            elif c == AFTER:
                state[pieces[l]] = UNCOVERED
            fresh = False
        length = common_length(k, l, t, r, vertex, vx, vy)
        keep(out_edges, out_kind, out_length, n_out, pieces[k], pieces[l], info[s, KIND], length)
        n_out += 1
        c = compare(info, s, t, r, line, 2 * k + 1, 2 * l + 1)
        if c == OPEN:
            return np.int64(-1)
        # step on; a gap before the next piece leaves something of the other side uncovered
        if c != AFTER:
            i += 1
            d = EQUAL if i == n0 else compare(info, s, t, r, line, 2 * k + 1, 2 * items[i])
            if d >= AFTER:
                return np.int64(-1)
            if c == BEFORE and (i == n0 or d == BEFORE):
                state[pieces[l]] = UNCOVERED
            fresh |= d == BEFORE
        if c != BEFORE:
            j += 1
            d = EQUAL if j == n1 else compare(info, s, t, r, line, 2 * l + 1, 2 * items[n0 + j])
            if d >= AFTER:
                return np.int64(-1)
            if c == AFTER and (j == n1 or d == BEFORE):
                state[pieces[k]] = UNCOVERED
            fresh |= d == BEFORE
    for m in range(i, n0):
        state[pieces[items[m]]] = UNCOVERED
    for m in range(j, n1):
        state[pieces[items[n0 + m]]] = UNCOVERED
    return np.int64(n_out)


@kernel
def overlay(
    order, group_start, group, info, edge_start, cell_of, vx, vy, vr, dx, dy, far, bits, routings, tied,
    t, r, line, vertex, keys, items, spare, pieces, frame, out_edges, out_kind, out_length, state, postponed,
):  # fmt: skip
    """Contacts of all groups. Returns (number of contacts, number of groups left to rationals).

    The arrays from ``t`` to ``frame`` are work space for one group.
    """
    n_out, n_postponed = np.int64(0), np.int64(0)
    none = np.int64(0)  # a literal would make functions be compiled twice
    for s in range(len(group_start) - 1):
        start, n = group_start[s], group_start[s + 1] - group_start[s]
        if info[s, OWNER] < 0:
            continue
        for k in range(n):
            pieces[k] = order[start + k]
        n0 = divide(info, s, pieces, n, cell_of, bits, routings, items)
        if n0 == 0 or n0 == n:
            for k in range(n):
                state[pieces[k]] = UNCOVERED
            continue
        kind = info[s, KIND]
        if kind == FOLD and n == 2:
            e, f = pieces[items[0]], pieces[items[1]]
            e1 = e + 1 if e + 1 < edge_start[cell_of[e] + 1] else edge_start[cell_of[e]]
            f1 = f + 1 if f + 1 < edge_start[cell_of[f] + 1] else edge_start[cell_of[f]]
            if meet_wholly(e, e1, f, f1, vx, vy, vr, dx, dy, far):
                length = length_between(e, e1, vx, vy, vr[e] + vr[e1])
                keep(out_edges, out_kind, out_length, n_out, e, f, kind, length)
                n_out += 1
                continue
        done = np.int64(-1)
        axis, longest = np.int64(-1), np.int64(-1)
        if n0 > 0:
            axis, longest = locate(pieces, n, edge_start, cell_of, vx, vy, vr, dx, dy, far, frame)
        if axis >= 0:
            n1 = n - n0
            v = vx if axis == 0 else vy
            # the cells of one side all run the same way
            upwards = (frame[axis] > 0.0) == (side_of(info, s, bits, routings, cell_of[longest]) == 0)
            for side in range(2):
                place_ends(
                    pieces, items, n0 * side, n0 if side == 0 else n, upwards == (side == 0), axis, group,
                    edge_start, cell_of, v, vr, dx, dy, far, t, r, line, vertex,
                )  # fmt: skip
            if put_in_order(items, none, n0, t, r, keys, spare) and put_in_order(
                items, n0, n1, t, r, keys, spare
            ):
                if (
                    kind != WALL
                    and n0 == n1
                    and end_together(info, s, pieces, items, n0, cell_of, routings, tied, t, r)
                ):
                    for m in range(n0):
                        k, l = items[m], items[n0 + m]
                        length = common_length(k, l, t, r, vertex, vx, vy)
                        e, f = pieces[k], pieces[l]
                        keep(out_edges, out_kind, out_length, n_out, e, f, kind, length)
                        n_out += 1
                    continue
                done = merge(
                    info, s, pieces, items, n0, n1, t, r, line, vertex, vx, vy, out_edges, out_kind,
                    out_length, n_out, state,
                )  # fmt: skip
        if done < 0:
            for k in range(n):
                state[pieces[k]] = COVERED
            postponed[n_postponed] = s
            n_postponed += 1
        else:
            n_out = done
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
            kinds[k] = 0 if kind[c] <= BEND else 1
            lengths[k] = length[c]
            turned = 0 if cell_of[edges[c, 0]] == i else 1
            sides[k, 0], sides[k, 1] = edges[c, turned], edges[c, 1 - turned]
