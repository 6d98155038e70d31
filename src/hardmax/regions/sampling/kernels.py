r"""The compiled half of the Monte Carlo estimate: points to hashes of signatures, and hashes to counts.

On the cell of a prefix (the signature up to some layer) the hidden vector is an affine function of the input,
:math:`y = Mx + c`. All sampled points that share a prefix therefore share the scores of the next layer,
:math:`(SM)x + (Sc + b)`: composed once, as d columns and a constant one, they cost d multiplications per
score and point, however wide the layers are. Most of these scores do not even matter: over the bounding box
of the points most units keep their sign and most keys cannot win. ``share_prefixes`` walks the tree of
prefixes depth first with the points sorted into it. A prefix with no more than d points is not worth d + 1
columns: such points are left over, and ``push_points`` sends them through the network themselves, a block
of them at a time.

The hash of a signature is the exclusive or of one random 64-bit word per winning key and per unit that is on
(Zobrist). For independent uniform words two different signatures collide with probability :math:`2^{-64}`,
whatever the signatures are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import (
    AFFINE,
    BIASES,
    D_IN,
    D_OUT,
    FOLD,
    HEAD_AT,
    HEADS,
    KIND,
    OFFSETS,
    OUTPUTS,
    ROWS,
    SCORES,
    SKIP,
)  # fmt: skip

BLOCK = 64  # points that pass through the network together: each row of weights is read once for all of them
TILE = 512  # entries of their hidden vectors that are worked on at a time, so that they stay in the cache
NEIGHBOURS = 256  # points that are held against the scores together
_SLACK = 2.0**-40  # decisions this close, relative to the size of the terms, are left to every point

# the state of a walk
DEPTH, LEFT, NEXT = range(3)
NOT_BEGUN = -2

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class Sampled(NamedTuple):
    """A program as points read it."""

    table: Integers
    numbers: Floats  # scores by columns
    heads_at: Integers
    counts: Floats  # how many keys of the block each key stands for; negative where the first of a tie wins
    words: Words  # one for every row of scores
    words_at: Integers  # where those of a layer begin
    last: int


class Workspace(NamedTuple):
    """Room for one batch of points: the stack of prefixes, and the lists that sort points into them."""

    state: Integers
    hidden: Floats  # (layers * (d + 1), widest): columns of M, then c, of the prefix at each depth
    scores: Floats  # likewise of the scores
    near: Floats  # (BLOCK and d + 3, widest): the scores that matter, and two more rows to find them
    frame: Integers  # (layers, 3): the points of the prefix begin, end, and where its next child begins
    prefix: Words  # the hash so far
    active: Integers  # (2 * widest,): the units that are on, or the keys that win and a list of ties
    run: Floats  # (d + 2, NEIGHBOURS): coordinates of neighbouring points, a score, the best of a head
    best: Integers
    near_words: Words
    near_heads: Integers
    everything: Integers  # 0, 1, 2, ...
    order: Integers  # the points, neighbours in space together, sorted into the tree
    part: Words  # the hash of the present layer alone, in the same order
    left: Integers  # points left over
    member: Integers
    swap: Integers
    slots: Integers  # open addressing: hash -> group
    group_part: Words
    group_at: Integers


@kernel(reorder=True, inner=True)
def _pass(numbers, n, matrix, at, keeps, index, terms, hidden, source, s, count, constant, target, t):
    """Send rows [s:] of ``source`` through a matrix into rows [t:] of ``target``; -1 stands for none.

    Only the entries in ``index`` take part; what entered is added if ``keeps``. Rows before ``constant`` are
    columns of linear parts and get no constants.
    """
    for b in range(count):
        for u in range(n):
            value = hidden[s + b, u] if keeps else 0.0
            target[t + b, u] = value + numbers[np.uintp(at + u)] if b >= constant and at >= 0 else value
    if matrix < 0:
        return
    for begin in range(0, n, TILE):
        end = min(begin + TILE, n)
        for i in range(0, terms, 4):  # four rows at a time; the last is repeated with coefficient zero
            i0, i1 = index[i], index[min(i + 1, terms - 1)]
            i2, i3 = index[min(i + 2, terms - 1)], index[min(i + 3, terms - 1)]
            r0, r1, r2, r3 = matrix + i0 * n, matrix + i1 * n, matrix + i2 * n, matrix + i3 * n
            for b in range(count):
                a0, a1 = source[s + b, i0], source[s + b, i1] if i + 1 < terms else 0.0
                a2 = source[s + b, i2] if i + 2 < terms else 0.0
                a3 = source[s + b, i3] if i + 3 < terms else 0.0
                if a0 != 0.0 or a1 != 0.0 or a2 != 0.0 or a3 != 0.0:
                    for u in range(begin, end):
                        target[t + b, np.uintp(u)] += (
                            a0 * numbers[np.uintp(r0 + u)]
                            + a1 * numbers[np.uintp(r1 + u)]
                            + a2 * numbers[np.uintp(r2 + u)]
                            + a3 * numbers[np.uintp(r3 + u)]
                        )


@kernel(inner=True)
def _hash_units(values, v, n, words, at):
    """The words of the units that are on, combined."""
    hashed = np.uint64(0)
    for u in range(n):
        hashed ^= words[np.uintp(at + u)] if values[v, u] > 0.0 else np.uint64(0)
    return hashed


@kernel(inner=True)
def _hash_keys(net, layer, values, v, active):
    """The words of the keys that win, combined; a head's winner is the first of the largest."""
    hashed, heads_at, first = np.uint64(0), net.heads_at, net.table[layer, HEAD_AT]
    for head in range(net.table[layer, HEADS]):
        winner = heads_at[first + head]
        best = values[v, winner]
        for k in range(winner + 1, heads_at[first + head + 1]):
            if values[v, k] > best:
                best, winner = values[v, k], k
        hashed ^= net.words[net.words_at[layer] + winner]
        active[head] = winner
    return hashed


@kernel(inner=True)
def _enter(net, layer, everything, hidden, s, count, constant, target, t):
    """Rows [s:] of hidden vectors to scores, or to what leaves an affine layer."""
    row = net.table[layer]
    _pass(
        net.numbers, row[ROWS], row[SCORES], row[BIASES], row[SCORES] < 0, everything, row[D_IN], hidden,
        hidden, s, count, constant, target, t,
    )  # fmt: skip


@kernel(inner=True)
def _leave(net, layer, index, terms, hidden, scores, s, count, constant, target, t):
    """Rows [s:] of scores to what leaves, by the units or winners in ``index``; a wall adds nothing yet."""
    row = net.table[layer]
    if row[OUTPUTS] < 0:  # what entered, if kept, then the scores of the winners
        kept = row[D_OUT] - row[HEADS]
        for b in range(count):
            for u in range(kept):
                target[t + b, u] = hidden[s + b, u]
            for h in range(row[HEADS]):
                target[t + b, kept + h] = scores[s + b, index[h]]
        return
    fold = row[KIND] == FOLD
    _pass(
        net.numbers, row[D_OUT], row[OUTPUTS] if fold else np.int64(-1),
        row[OFFSETS] if fold else np.int64(-1), row[SKIP] == 1, index, terms, hidden, scores, s, count,
        constant, target, t,
    )  # fmt: skip


@kernel(inner=True)
def _add_winners(net, layer, active, scores, s, count, target, t):
    """Add to row t what the winning keys put out; keys tied in all ``count`` rows [s:] of scores share,
    unless the first of them wins.
    """
    table, numbers, heads_at, counts = net.table, net.numbers, net.heads_at, net.counts
    n, weights_at, first = table[layer, D_OUT], table[layer, OFFSETS], table[layer, HEAD_AT]
    for head in range(table[layer, HEADS]):
        winner, total, tied = active[head], 0.0, 0
        shares = counts[weights_at + winner] > 0.0
        for k in range(winner, heads_at[first + head + 1] if shares else winner + 1):
            same = 0
            while same < count and scores[s + same, k] == scores[s + same, winner]:
                same += 1
            if same == count:
                total += counts[weights_at + k]
                active[table[layer, HEADS] + tied] = k
                tied += 1
        for i in range(tied):
            k = active[table[layer, HEADS] + i]
            share, row = counts[weights_at + k] / total, table[layer, OUTPUTS] + k * n
            for u in range(n):
                target[t, u] += share * numbers[np.uintp(row + u)]


@kernel(inner=True)
def _active(net, layer, scores, row, points, p, v, active):
    """List the units that are on at point p, or the keys that win; return how many. Row v takes the scores.

    Terms are added in the same order as in ``_hash_run`` and nothing is fused, so both decide alike.
    """
    n, d, count = net.table[layer, ROWS], points.shape[1], 0
    for u in range(n):
        scores[v, u] = scores[row + d, u]
    for c in range(d):
        x = points[p, c]
        for u in range(n):
            scores[v, u] += x * scores[row + c, u]
    if net.table[layer, KIND] == FOLD:
        for u in range(n):
            if scores[v, u] > 0.0:
                active[count] = u
                count += 1
        return count
    _hash_keys(net, layer, scores, v, active)
    return net.table[layer, HEADS]


@kernel(inner=True)
def _narrow(net, layer, scores, row, points, order, begin, end, near, near_words, near_heads):
    r"""Copy the scores whose decision differs among the points; return the hash of the others and how many.

    With m the value at the centre of the points' bounding box and r its largest change within the box, a unit
    matters when \|m\| <= r, and a key when its m + r reaches the largest m - r of its head.
    """
    table, heads_at, words, at = net.table, net.heads_at, net.words, net.words_at[layer]
    d, n = points.shape[1], table[layer, ROWS]
    for u in range(n):
        near[d + 1, u], near[d + 2, u] = scores[row + d, u], _SLACK * abs(scores[row + d, u])
    for c in range(d):
        low = high = points[order[begin], c]
        for i in range(begin, end):
            low, high = min(low, points[order[i], c]), max(high, points[order[i], c])
        centre, reach = 0.5 * low + 0.5 * high, (0.5 * high - 0.5 * low) + _SLACK * max(abs(low), abs(high))
        for u in range(n):
            near[d + 1, u] += centre * scores[row + c, u]
            near[d + 2, u] += reach * abs(scores[row + c, u])
    settled, kept = np.uint64(0), 0
    folds, first = table[layer, KIND] == FOLD, table[layer, HEAD_AT]
    for head in range(1 if folds else table[layer, HEADS]):
        start, stop, bar = 0, n, 0.0
        if not folds:
            start, stop = heads_at[first + head], heads_at[first + head + 1]
            bar = -np.inf
            for u in range(start, stop):
                bar = max(bar, near[d + 1, u] - near[d + 2, u])
            near_heads[head] = kept
        for u in range(start, stop):
            middle, radius = near[d + 1, u], near[d + 2, u]
            if not (middle + radius < bar):
                if folds and middle - radius > 0.0:
                    settled ^= words[at + u]
                else:
                    for c in range(d + 1):
                        near[c, kept] = scores[row + c, u]
                    near_words[kept] = words[at + u]
                    kept += 1
        near_heads[head + 1] = kept
    return settled, kept


@kernel(inner=True)
def _hash_run(
    folds, heads, near, kept, near_words, near_heads, settled, points, order, begin, end, run, best, part
):
    """Hash the layer at neighbouring points, all points at once for each score that matters."""
    d, n = points.shape[1], end - begin
    for i in range(n):
        for c in range(d):
            run[c, i] = points[order[begin + i], c]
        part[begin + i] = settled
    for head in range(1 if folds else heads):
        first, stop = (0, kept) if folds else (near_heads[head], near_heads[head + 1])
        for i in range(n):
            best[i] = first
        for k in range(first, stop):
            constant, word = near[d, k], near_words[k]
            for i in range(n):
                run[d, i] = constant
            for c in range(d):
                slope = near[c, k]
                for i in range(n):
                    run[d, i] += slope * run[c, i]
            if folds:
                for i in range(n):
                    part[begin + i] ^= word if run[d, i] > 0.0 else np.uint64(0)
            elif k == first:
                for i in range(n):
                    run[d + 1, i] = run[d, i]
            else:  # the first of the largest
                for i in range(n):
                    best[i] = k if run[d, i] > run[d + 1, i] else best[i]
                    run[d + 1, i] = run[d, i] if run[d, i] > run[d + 1, i] else run[d + 1, i]
        if not folds:
            for i in range(n):
                part[begin + i] ^= near_words[best[i]]


@kernel(inner=True)
def _gather(begin, end, order, part, member, swap, slots, group_part, group_at):
    """Bring equal hashes together in ``order`` and ``part``, in the order of their first appearance."""
    size = 4
    while size < 2 * (end - begin):
        size *= 2
    mask = np.uint64(size - 1)
    for i in range(size):
        slots[i] = -1
    groups = 0
    for i in range(begin, end):
        hashed = part[i]
        slot = hashed & mask
        while slots[slot] >= 0 and group_part[slots[slot]] != hashed:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = groups
            group_part[groups] = hashed
            group_at[groups] = 0
            groups += 1
        member[i] = slots[slot]
        group_at[slots[slot]] += 1
    if groups == 1:
        return
    at = begin
    for g in range(groups):
        size = group_at[g]
        for i in range(at, at + size):
            part[i] = group_part[g]
        group_at[g] = at
        at += size
    for i in range(begin, end):
        swap[group_at[member[i]]] = order[i]
        group_at[member[i]] += 1
    for i in range(begin, end):
        order[i] = swap[i]


@kernel
def share_prefixes(net, points, hashes, room, budget):
    """Hash points along the tree of prefixes; list those that are left over.

    Goes on where an earlier call stopped, stops after about ``budget`` multiplications, and returns whether
    the walk is over.
    """
    n_points, d = points.shape
    table, last = net.table, net.last
    state, frame, order, part, prefix = room.state, room.frame, room.order, room.part, room.prefix
    hidden, scores, near, active = room.hidden, room.scores, room.near, room.active
    columns, used = d + 1, 0
    depth, left = state[DEPTH], state[LEFT]
    entering = depth == NOT_BEGUN
    if entering:
        depth = 0
        for c in range(columns):
            for u in range(d):
                hidden[c, u] = 1.0 if c == u else 0.0
        frame[0, 0], frame[0, 1], prefix[0] = 0, n_points, np.uint64(0)
    while depth >= 0:
        row, n, kind = depth * columns, table[depth, ROWS], table[depth, KIND]
        if entering:
            begin, end = frame[depth, 0], frame[depth, 1]
            target, at = (hidden, row + columns) if kind == AFFINE else (scores, row)
            _enter(net, depth, room.everything, hidden, row, columns, columns - 1, target, at)
            used += columns * table[depth, D_IN] * n
            frame[depth, 2] = end
            if kind == AFFINE:
                frame[depth + 1, 0], frame[depth + 1, 1], prefix[depth + 1] = begin, end, prefix[depth]
                depth += 1
                continue
            for start in range(begin, end, NEIGHBOURS):
                stop = min(start + NEIGHBOURS, end)
                settled, kept = _narrow(
                    net,
                    depth,
                    scores,
                    row,
                    points,
                    order,
                    start,
                    stop,
                    near,
                    room.near_words,
                    room.near_heads,
                )
                used += (stop - start) * kept * d + n * d
                _hash_run(
                    kind == FOLD, table[depth, HEADS], near, kept, room.near_words, room.near_heads, settled,
                    points, order, start, stop, room.run, room.best, part,
                )  # fmt: skip
            if depth == last:
                for i in range(begin, end):
                    hashes[order[i]] = prefix[depth] ^ part[i]
            else:
                _gather(
                    begin, end, order, part, room.member, room.swap, room.slots, room.group_part,
                    room.group_at,
                )  # fmt: skip
                frame[depth, 2] = begin
            entering = False
        begin, end = frame[depth, 2], frame[depth, 1]
        if begin == end:
            depth -= 1
            continue
        if used > budget:
            break
        after = begin + 1
        while after < end and part[after] == part[begin]:
            after += 1
        frame[depth, 2] = after
        if after - begin <= d:
            for i in range(begin, after):
                room.left[left] = order[i]
                left += 1
            continue
        n_active = _active(net, depth, scores, row, points, order[begin], row + columns, active)
        _leave(net, depth, active, n_active, hidden, scores, row, columns, columns - 1, hidden, row + columns)
        if kind != FOLD and table[depth, OUTPUTS] >= 0:
            _add_winners(net, depth, active, scores, row, columns, hidden, row + columns + d)
        used += columns * (n_active + 1) * table[depth, D_OUT]
        frame[depth + 1, 0], frame[depth + 1, 1] = begin, after
        prefix[depth + 1] = prefix[depth] ^ part[begin]
        depth += 1
        entering = True
    state[DEPTH], state[LEFT] = depth, left
    return depth < 0


@kernel
def push_points(net, points, hashes, room, budget):
    """Hash the points that are left over; stop after about ``budget`` multiplications.

    Returns whether all of them are done.
    """
    d, table, last = points.shape[1], net.table, net.last
    state, left, active = room.state, room.left, room.active
    inputs, values, outputs = room.hidden, room.scores, room.near
    used, zero, one = 0, np.int64(0), np.int64(1)
    while state[NEXT] < state[LEFT] and used <= budget:
        begin = state[NEXT]
        count = min(BLOCK, state[LEFT] - begin)
        state[NEXT] = begin + count
        for b in range(count):
            hashes[left[begin + b]] = np.uint64(0)
            for u in range(d):
                inputs[b, u] = points[left[begin + b], u]
        for layer in range(last + 1):
            n, kind, sums = table[layer, ROWS], table[layer, KIND], table[layer, OUTPUTS] >= 0
            _enter(net, layer, room.everything, inputs, zero, count, zero, values, zero)
            used += count * n * (table[layer, D_IN] + table[layer, D_OUT])
            if kind == AFFINE:
                inputs, values = values, inputs
                continue
            if kind == FOLD:
                for b in range(count):
                    hashes[left[begin + b]] ^= _hash_units(values, b, n, net.words, net.words_at[layer])
                    for u in range(n):
                        values[b, u] = max(values[b, u], 0.0)
            if layer < last and sums:
                _leave(net, layer, room.everything, n, inputs, values, zero, count, zero, outputs, zero)
            if kind != FOLD:
                for b in range(count):
                    hashes[left[begin + b]] ^= _hash_keys(net, layer, values, b, active)
                    if layer < last and sums:
                        _add_winners(net, layer, active, values, b, one, outputs, b)
                    elif layer < last:
                        _leave(net, layer, active, zero, inputs, values, b, one, zero, outputs, b)
            inputs, outputs = outputs, inputs
    return state[NEXT] == state[LEFT]


@kernel
def tally(hashes, begin, number, listed, slots, known, counts, first):
    """Count hashes from place ``begin`` on; return where it stopped (the list was full) and its length."""
    mask = np.uint64(len(slots) - 1)
    for i in range(begin, len(hashes)):
        hashed = hashes[i]
        slot = hashed & mask
        while slots[slot] >= 0 and known[slots[slot]] != hashed:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            if listed == len(known):
                return i, listed
            slots[slot] = listed
            known[listed], counts[listed], first[listed] = hashed, 0, number + i
            listed += 1
        counts[slots[slot]] += 1
    return len(hashes), listed


@kernel
def rebuild(known, listed, slots):
    """Enter the first ``listed`` hashes into an empty table."""
    mask = np.uint64(len(slots) - 1)
    for i in range(listed):
        slot = known[i] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i
