r"""The compiled half of the Monte Carlo estimate: points to hashes of signatures, and hashes to counts.

On the cell of a prefix (the signature up to some layer) the hidden vector is an affine function of the input,
:math:`y = Mx + c`. All sampled points that share a prefix therefore share the scores of the next layer,
:math:`(SM)x + (Sc + b)`: composed once, as d columns and a constant one, they cost d multiplications per
score and point, however wide the layers are. ``hash_points`` walks the tree of prefixes depth first with the
points sorted into it. A prefix with no more than d points is not worth d + 1 columns: such points are left
over, and pass through the network themselves, a block of them at a time.

The hash of a signature is the exclusive or of one random 64-bit word per winning key and per unit that is on
(Zobrist). For independent uniform words two different signatures collide with probability :math:`2^{-64}`,
whatever the signatures are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel

__all__ = ["Tally", "Workspace", "hash_points", "rebuild", "tally"]

AFFINE, FOLD, WALL = 0, 1, 2

# columns of the table of layers; *_AT is where something begins
KIND, D_IN, ROWS, D_OUT, SKIP, SCORES_AT, BIASES_AT, OUTPUTS_AT, OFFSETS_AT, WORDS_AT, HEADS_AT, HEADS = range(12)
COLUMNS = 12
IDENTITY = -1  # SCORES_AT of a fold layer whose scores are its input plus biases

BLOCK = 16  # points that pass through the network together: each row of weights is read once for all of them

# the state of a walk
DEPTH, LEFT, NEXT, WORK = range(4)
NOT_BEGUN = -2

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class Workspace(NamedTuple):
    """Room for one batch of points: the stack of prefixes, and the lists that sort points into them."""

    state: Integers
    hidden: Floats  # (layers * (d + 1), widest): columns of M, then c, of the prefix at each depth
    scores: Floats  # likewise of the scores

    values: Floats  # (BLOCK, widest)
    frame: Integers  # (layers, 3): the points of the prefix begin, end, and where its next child begins
    prefix: Words  # the hash so far
    active: Integers  # the units that are on, or the keys that win
    everything: Integers  # 0, 1, 2, ...
    order: Integers  # the points, sorted into the tree
    part: Words  # the hash of the present layer alone, in the same order
    left: Integers  # points left over
    member: Integers
    swap: Integers
    slots: Integers  # open addressing: hash -> group
    group_part: Words
    group_at: Integers


class Tally(NamedTuple):
    """Open addressing: where each hash is listed, how often it came up, and with which point first."""

    slots: Integers
    hashes: Words
    counts: Integers
    first: Integers


@kernel(reorder=True, inlined=True)
def _multiply(numbers, at, index, terms, n, source, s, count, target, t):
    """Add source[s + b, index[i]] * row i of the matrix at ``at`` to target[t + b], for all i and b."""
    whole = terms - terms % 4
    for i in range(0, whole, 4):
        i0, i1, i2, i3 = index[i], index[i + 1], index[i + 2], index[i + 3]
        r0, r1, r2, r3 = at + i0 * n, at + i1 * n, at + i2 * n, at + i3 * n
        for b in range(count):
            a0, a1, a2, a3 = source[s + b, i0], source[s + b, i1], source[s + b, i2], source[s + b, i3]
            if a0 != 0.0 or a1 != 0.0 or a2 != 0.0 or a3 != 0.0:
                for u in range(n):
                    target[t + b, u] += (
                        a0 * numbers[np.uintp(r0 + u)]
                        + a1 * numbers[np.uintp(r1 + u)]
                        + a2 * numbers[np.uintp(r2 + u)]
                        + a3 * numbers[np.uintp(r3 + u)]
                    )
    for i in range(whole, terms):
        r0 = at + index[i] * n
        for b in range(count):
            a0 = source[s + b, index[i]]
            for u in range(n):
                target[t + b, u] += a0 * numbers[np.uintp(r0 + u)]


@kernel(reorder=True)
def _enter(table, layer, numbers, everything, source, s, count, constant, target, t):
    """Scores of a layer (what leaves an affine one) from the hidden rows that enter; rows before ``constant``
    are columns of linear parts and get no biases."""
    d_in, n, scores_at = table[layer, D_IN], table[layer, ROWS], table[layer, SCORES_AT]
    at = table[layer, BIASES_AT]
    for b in range(count):
        weight = 1.0 if b >= constant else 0.0
        for u in range(n):
            target[t + b, u] = weight * numbers[np.uintp(at + u)]
        if scores_at == IDENTITY:
            for u in range(n):
                target[t + b, u] += source[s + b, u]
    if scores_at != IDENTITY:
        _multiply(numbers, scores_at, everything, d_in, n, source, s, count, target, t)


@kernel(reorder=True)
def _leave(table, layer, numbers, active, n_active, hidden, h, scores, s, count, constant, target, t):
    """What leaves a layer with decisions, from the hidden rows that entered, the scores and what is active."""
    n, skip, at, outputs_at = (
        table[layer, D_OUT], table[layer, SKIP], table[layer, OFFSETS_AT], table[layer, OUTPUTS_AT],
    )  # fmt: skip
    folds = table[layer, KIND] == FOLD
    for b in range(count):
        for u in range(n):
            target[t + b, u] = hidden[h + b, u] if skip else 0.0
        if b >= constant:
            if folds:
                for u in range(n):
                    target[t + b, u] += numbers[np.uintp(at + u)]
            else:
                for i in range(n_active):
                    row = outputs_at + active[i] * n
                    for u in range(n):
                        target[t + b, u] += numbers[np.uintp(row + u)]
    if folds:
        _multiply(numbers, outputs_at, active, n_active, n, scores, s, count, target, t)


@kernel(reorder=True)
def _evaluate(columns, row, d, n, points, p, values):
    """Scores at point p: the constant column plus coordinates times the others."""
    for u in range(n):
        values[0, u] = columns[row + d, u]
    whole = d - d % 2
    for c in range(0, whole, 2):
        x, y = points[p, c], points[p, c + 1]
        for u in range(n):
            values[0, u] += x * columns[row + c, u] + y * columns[row + c + 1, u]
    if whole < d:
        x = points[p, whole]
        for u in range(n):
            values[0, u] += x * columns[row + whole, u]


@kernel
def _hash(table, layer, heads_at, words, values, b, active):
    """The words of the layer's decisions, combined; the keys that win are listed in ``active``."""
    n, at = table[layer, ROWS], table[layer, WORDS_AT]
    hashed = np.uint64(0)
    if table[layer, KIND] == FOLD:
        for u in range(n):
            hashed ^= words[np.uintp(at + u)] if values[b, u] > 0.0 else np.uint64(0)
    else:
        first = table[layer, HEADS_AT]
        for head in range(table[layer, HEADS]):
            winner = heads_at[first + head]
            best = values[b, winner]
            for k in range(winner + 1, heads_at[first + head + 1]):  # the first of the largest
                if values[b, k] > best:
                    best, winner = values[b, k], k
            hashed ^= words[at + winner]
            active[head] = winner
    return hashed


@kernel
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
def share_prefixes(table, last, numbers, heads_at, words, points, hashes, room, budget):
    """Hash points along the tree of prefixes; list those that are left over.

    Goes on where an earlier call stopped, stops after about ``budget`` multiplications, and returns whether
    the walk is over.
    """
    n_points, d = points.shape
    state, frame, order, part, prefix = room.state, room.frame, room.order, room.part, room.prefix
    hidden, scores, values, active = room.hidden, room.scores, room.values, room.active
    columns, used, zero = d + 1, 0, table[0, KIND] * 0
    depth, left = state[DEPTH], state[LEFT]
    entering = depth == NOT_BEGUN
    if entering:
        depth = 0
        for i in range(n_points):
            order[i] = i
        for c in range(columns):
            for u in range(d):
                hidden[c, u] = 1.0 if c == u else 0.0
        frame[0, 0], frame[0, 1], prefix[0] = 0, n_points, np.uint64(0)
    while depth >= 0:
        row, n, kind = depth * columns, table[depth, ROWS], table[depth, KIND]
        if entering:
            begin, end = frame[depth, 0], frame[depth, 1]
            target, at = (hidden, row + columns) if kind == AFFINE else (scores, row)
            _enter(table, depth, numbers, room.everything, hidden, row, columns, columns - 1, target, at)
            used += (columns * table[depth, D_IN] + (end - begin) * d) * n
            frame[depth, 2] = end
            if kind == AFFINE:
                frame[depth + 1, 0], frame[depth + 1, 1], prefix[depth + 1] = begin, end, prefix[depth]
                depth += 1
                continue
            for i in range(begin, end):
                _evaluate(scores, row, d, n, points, order[i], values)
                part[i] = _hash(table, depth, heads_at, words, values, zero, active)
            if depth == last:
                for i in range(begin, end):
                    hashes[order[i]] = prefix[depth] ^ part[i]
            else:
                _gather(begin, end, order, part, room.member, room.swap, room.slots, room.group_part, room.group_at)
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
        _evaluate(scores, row, d, n, points, order[begin], values)
        _hash(table, depth, heads_at, words, values, zero, active)
        n_active = table[depth, HEADS]
        if kind == FOLD:
            n_active = 0
            for u in range(n):
                if values[0, u] > 0.0:
                    active[n_active] = u
                    n_active += 1
        _leave(
            table, depth, numbers, active, n_active, hidden, row, scores, row, columns, columns - 1,
            hidden, row + columns,
        )  # fmt: skip
        used += columns * n_active * table[depth, D_OUT]
        frame[depth + 1, 0], frame[depth + 1, 1] = begin, after
        prefix[depth + 1] = prefix[depth] ^ part[begin]
        depth += 1
        entering = True
    state[DEPTH], state[LEFT] = depth, left
    return depth < 0


@kernel
def push_points(table, last, numbers, heads_at, words, points, hashes, room, budget):
    """Hash the points that are left over; stop after about ``budget`` multiplications.

    Returns whether all of them are done.
    """
    d = points.shape[1]
    state, left, active = room.state, room.left, room.active
    inputs, values, outputs = room.hidden, room.scores, room.values
    used, zero = 0, table[0, KIND] * 0
    while state[NEXT] < state[LEFT] and used <= budget:
        begin = state[NEXT]
        count = min(BLOCK, state[LEFT] - begin)
        state[NEXT] = begin + count
        for b in range(count):
            hashes[left[begin + b]] = np.uint64(0)
            for u in range(d):
                inputs[b, u] = points[left[begin + b], u]
        for layer in range(last + 1):
            n, kind = table[layer, ROWS], table[layer, KIND]
            target = inputs if kind == AFFINE else values
            if kind == AFFINE:
                for b in range(count):
                    for u in range(table[layer, D_IN]):
                        outputs[b, u] = inputs[b, u]
            source = outputs if kind == AFFINE else inputs
            _enter(table, layer, numbers, room.everything, source, zero, count, zero, target, zero)
            used += count * n * (table[layer, D_IN] + table[layer, D_OUT])
            if kind == AFFINE:
                continue
            together = count if kind == FOLD else 1
            for b in range(count):
                hashes[left[begin + b]] ^= _hash(table, layer, heads_at, words, values, b, active)
                if kind == FOLD:
                    for u in range(n):
                        values[b, u] = max(values[b, u], 0.0)
                if layer < last and (kind == WALL or b == count - 1):
                    chosen, n_active = (room.everything, n) if kind == FOLD else (active, table[layer, HEADS])
                    first = b + 1 - together
                    _leave(
                        table, layer, numbers, chosen, n_active, inputs, first, values, first, together, zero,
                        outputs, first,
                    )  # fmt: skip
            if layer < last:
                for b in range(count):
                    for u in range(table[layer, D_OUT]):
                        inputs[b, u] = outputs[b, u]
    return state[NEXT] == state[LEFT]


@kernel
def tally(hashes, begin, number, listed, slots, known, counts, first):
    """Count hashes from place ``begin`` on; return where it stopped (the list is full) and the list's length."""
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
