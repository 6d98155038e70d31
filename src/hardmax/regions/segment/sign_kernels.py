r"""Signs that floats leave open on the line: the compiled rungs of the ladder, asked interval by interval.

On the line the vertex of a question (:mod:`hardmax.regions.engine.sign_kernels`) is a root: the end of an
interval, or the break of another unit or pair of keys of the same layer. The rungs walk along a path through
the layers, so the signature of an interval is laid out as one (:func:`follow`). Neighbours differ in few
layers, and only what has changed is computed again. Nothing here depends on which interval came before:
floats are computed anew, and rungs answer what is true.

What stays open is listed for the caller, who may provide primes and ask again, or decide in rationals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.exact import double_double_kernels as pairs
from hardmax.regions.engine.layer_kernels import (
    AFFINE,
    CERTIFIED,
    CHANGES,
    FOLD,
    HUGE,
    UNIT,
    copy,
    enter,
    layer_row,
    leave,
    leave_affine,
    leave_units,
)
from hardmax.regions.engine.sign_kernels import (
    AT_INFINITY,
    FAR_SIDE,
    NO_FACET,
    ask_at,
    ray_in_pairs,
    vanishes,
)
from hardmax.regions.engine.sign_kernels import NEGATIVE as LADDER_NEGATIVE
from hardmax.regions.engine.sign_kernels import OPEN as LADDER_OPEN
from hardmax.regions.engine.sign_kernels import ZERO as LADDER_ZERO
from hardmax.regions.engine.sign_kernels import sign_at as compiled_sign_at
from hardmax.regions.engine.twin_kernels import forget_twins
from hardmax.regions.segment.kernels import NEGATIVE, OPEN, POSITIVE, ZERO, root_error, sign_at

COLUMNS = 2  # slopes and constants
OWN = -100  # the owner of a break of the layer in question
SERIAL, ENTERED = 0, 1  # in ``Path.known``: the last number of a layer cell; layers whose scores are there
_ZERO_PLACE = 3  # with FAR_SIDE: the root of the row (1, 0)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Path(NamedTuple):
    """The path of one interval through the layers, as the rungs read it, and room to lay it out."""

    path: Floats
    errors: Floats  # (layers + 1, ERRORS)
    signs: Integers
    known: Integers  # (2,)
    word: Integers
    units: Integers
    hidden: Floats
    place: Floats  # (3,): a root as a pair, and its error


class Asked(NamedTuple):
    """A layer on a batch of intervals, as the float kernels left it."""

    zu: Floats  # (n, rows)
    zc: Floats
    rho: Floats  # (rows,)
    bias: Floats
    ea: Floats  # (n,)
    ec: Floats
    gamma: float
    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    ends: Floats  # (4, n)
    names: Integers  # (4, n)
    origin: float


@kernel(inlined=True)
def _word(bits, k, unit, count):
    """``count`` bits from unit ``unit`` of a signature on, at most 64."""
    word, shift = unit >> 6, np.uint64(unit & 63)
    value = bits[k, word] >> shift
    if shift > np.uint64(0) and word + 1 < bits.shape[1]:
        value |= bits[k, word + 1] << (np.uint64(64) - shift)
    if count < 64:
        value &= (np.uint64(1) << np.uint64(count)) - np.uint64(1)
    return np.int64(value)


@kernel(inlined=True)
def _row_of(net, here, h, key):
    """The row of a key of head h: keys of a head ascend, or descend where the last wins ties."""
    first, last = net.heads_at[here.head_at + h], net.heads_at[here.head_at + h + 1] - 1
    ascend = net.key_of[here.offsets + first] <= net.key_of[here.offsets + last]
    while first < last:
        middle = (first + last) >> 1
        if (net.key_of[here.offsets + middle] < key) == ascend and net.key_of[here.offsets + middle] != key:
            first = middle + 1
        else:
            last = middle
    return first


@kernel(inner=True)
def follow(net, state, bits, routings, k, layer):
    """Lay out interval k up to the scores of a layer; no keys may tie on it before."""
    signs, known, word = state.signs, state.known, state.word
    path, errors = state.path, state.errors
    if known[ENTERED] == 0:
        path[0], path[1] = 1.0, 0.0  # the position itself
        known[SERIAL] += 1
        signs[layer_row(net.table, 0).sign_at] = known[SERIAL]
        enter(COLUMNS, net, path, errors, 0, CERTIFIED)
        known[ENTERED] = 1
    l = np.int64(0)
    while l < layer:
        here = layer_row(net.table, l)
        at = here.sign_at + 2
        same = l + 1 < known[ENTERED]
        if here.kind == FOLD:
            for j in range(here.words):
                word[j] = _word(bits, k, here.first + 64 * j, here.rows - 64 * j)
                same = same and word[j] == signs[at + j]
        elif here.kind != AFFINE:
            for h in range(here.heads):
                word[h] = _row_of(net, here, h, routings[k, here.first + h])
                same = same and word[h] == signs[at + h]
        if not same:
            if here.kind == AFFINE:
                leave_affine(COLUMNS, net, path, errors, l)
            else:
                if here.kind == FOLD:
                    errors[l, CHANGES] = -1.0  # computed anew: bounds must not depend on what came before
                    leave_units(COLUMNS, net, path, errors, l, word, signs, state.units)
                else:
                    signs[at - 1] = 0
                    forget_twins(here, signs)
                    copy(word, 0, signs, at, here.heads)
                    if here.outputs >= 0:
                        e, m = here.d_out, here.d_in
                        for r in range(e):
                            total = path[here.y_at + (COLUMNS - 1) * m + r] if here.skip == 1 else 0.0
                            for h in range(here.heads):
                                total += net.weights[here.outputs + word[h] * e + r]
                            state.hidden[r] = total
                    leave(COLUMNS, net, path, errors, signs, l, word, state.hidden)
                known[SERIAL] += 1
                signs[layer_row(net.table, l + 1).sign_at] = known[SERIAL]
            enter(COLUMNS, net, path, errors, l + 1, CERTIFIED)
            known[ENTERED] = l + 2
        l += 1


@kernel(inlined=True)
def _as_sign(code):
    """The answer of the rungs as a number: -1, 0, 1, or 2 where it is open."""
    if code == LADDER_ZERO:
        return ZERO
    if code == LADDER_OPEN:
        return OPEN
    return NEGATIVE if code == LADDER_NEGATIVE else POSITIVE


@kernel(inlined=True)
def _ask(net, state, rungs, layer, i, j, owner, wall, side, value):
    """The sign of row i (minus row j) of a layer at a place that is known by name; ``side`` is -1 or 1 for
    the ends of the line. ``value`` bounds the row there.
    """
    names = rungs.vertex.names
    far = owner == AT_INFINITY
    names[0], names[1] = owner, (np.int64(0) if far else wall)
    while True:
        column, turn, bound = COLUMNS - 1, 1.0, value
        if far:
            column, turn, bound = 0, side, np.inf
        ask_at(COLUMNS, net, state, rungs)
        sign = _as_sign(compiled_sign_at(COLUMNS, net, state, rungs, layer, i, j, bound, column, turn))
        if not far or sign != ZERO:
            return sign
        # constant: its value anywhere
        far, value = False, np.inf
        names[0], names[1] = np.int64(FAR_SIDE), np.int64(_ZERO_PLACE)


@kernel(inner=True)
def _asked_sign(net, state, rungs, layer, i, j, owner, wall, side, value):
    """The same as a call, for the questions of heads."""
    return _ask(net, state, rungs, layer, i, j, owner, wall, side, value)


@kernel(inlined=True)
def wall_of(layer, group, i, j):
    """The code of the break of a unit, or of two rows of a head."""
    code = (np.int64(layer) << 54) | (np.int64(group) << 38)
    if j < 0:
        return code
    return code | (np.int64(min(i, j)) << 19) | np.int64(max(i, j))


@kernel(inner=True)
def place_in_pairs(net, state, rungs, owner, wall, origin):
    """Write a place that is known by name, relative to the origin, as a pair and its error; returns whether
    something is known.
    """
    out = state.place
    rungs.vertex.names[0], rungs.vertex.names[1] = owner, wall
    ask_at(COLUMNS, net, state, rungs)
    error = ray_in_pairs(COLUMNS, net, state, rungs)
    ray = rungs.vertex
    bottom = abs(ray.ray_high[1])
    if not (bottom > 1e12 * error) or not (bottom > 1e-100):
        return False
    xh = ray.ray_high[0] / ray.ray_high[1]
    xl = 0.0
    for _ in range(2):
        ph, pl = pairs.multiply(xh, xl, ray.ray_high[1], ray.ray_low[1])
        rh, _rl = pairs.add(ray.ray_high[0], ray.ray_low[0], -ph, -pl)
        xh, xl = pairs.add(xh, xl, rh / ray.ray_high[1], 0.0)
    size = abs(xh)
    if not (size < 1e100):
        return False
    xh, xl = pairs.add(xh, xl, -origin, 0.0)
    out[0], out[1] = xh, xl
    out[2] = 1.01 * (error * (1.0 + size) / (bottom - error) + 8.0 * pairs.UNIT * (size + abs(origin)))
    return True


@kernel(inner=True)
def _refined(net, state, rungs, owner, wall, origin, place, error, e):
    """Replace a place by its float from double-double, where that is nearer to the truth."""
    if place_in_pairs(net, state, rungs, owner, wall, origin):
        off = 1.01 * (abs(state.place[1]) + state.place[2]) + 1e-300
        if not (off > error[e]):
            place[e] = state.place[0]
            error[e] = off
    return error[e] < HUGE


@kernel(inlined=True)
def _root(a, c):
    """The root of a s + c in floats, whose error is infinite where the slope is lost."""
    return -c / a if a != 0.0 else 0.0


@kernel(inlined=True)
def _value_below(a, c, alpha, kappa, size_a, size_c, s, e):
    """A bound on a s + c at a place; infinite if nothing is known."""
    t = alpha * (abs(s) + e) + kappa + abs(a) * e + 5.0 * UNIT * (size_a * abs(s) + size_c)
    value = 1.01 * (abs(a * s + c) + t)
    return value if value < HUGE else np.inf


@kernel
def settle_units(net, state, rungs, asked, layer, questions, on, ev_int, ev_float, counts):
    """Signs of units at the ends of intervals: bits for the left, and events.

    ``questions`` are rows of (interval, unit). Events go to ``ev_int`` (interval, unit) and ``ev_float``
    (place, error). Questions that stay open move to the front. ``counts`` gets the numbers of both.
    """
    ends, names = asked.ends, asked.names
    events, left_open = 0, 0
    last = np.int64(-1)
    for q in range(questions.shape[0]):
        k, i = questions[q, 0], questions[q, 1]
        answered = asked.tied[k] == 0
        if answered:
            if k != last:
                follow(net, state, asked.bits, asked.routings, k, layer)
                rungs.vertex.asked[0] = NO_FACET
                last = k
            a, c = asked.zu[k, i], asked.zc[k, i]
            alpha = asked.rho[i] * asked.ea[k]
            kappa = asked.rho[i] * asked.ec[k] + asked.gamma * abs(asked.bias[i])
            if not (abs(a) > alpha) and not (abs(c) > kappa) and vanishes(
                COLUMNS, net, state.path, state.errors, state.signs, rungs.mod, rungs.denominators,
                rungs.counts, layer, i,
            ):  # fmt: skip
                continue
            left, right = np.int64(ZERO), np.int64(ZERO)
            for side in range(2):
                s, e = ends[2 * side, k], ends[2 * side + 1, k]
                sign = np.int64(sign_at(a, c, alpha, kappa, abs(a), abs(c), s, e, CERTIFIED))
                if sign == OPEN:
                    value = _value_below(a, c, alpha, kappa, abs(a), abs(c), s, e)
                    sign = np.int64(
                        _ask(
                            net, state, rungs, layer, i, np.int64(-1), names[2 * side, k],
                            names[2 * side + 1, k], 2.0 * side - 1.0, value,
                        )
                    )  # fmt: skip
                if sign == OPEN:
                    answered = False
                    break
                if side == 0:
                    left = sign
                else:
                    right = sign
            if answered and left * right < 0:
                place = _root(a, c)
                error = root_error(place, a, alpha, kappa)
                ev_float[events, 0], ev_float[events, 1] = place, error
                near = not (place - error > ends[0, k] + ends[1, k])
                if near or not (place + error < ends[2, k] - ends[3, k]):
                    wall = wall_of(layer, i, 0, -1)
                    answered = _refined(
                        net, state, rungs, np.int64(OWN), wall, asked.origin, ev_float[:, 0], ev_float[:, 1],
                        events,
                    )  # fmt: skip
                if answered:
                    ev_int[events, 0], ev_int[events, 1] = k, i
                    events += 1
            if answered and (left > 0 or (left == 0 and right > 0)):
                on[k, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
        if not answered:
            questions[left_open, 0], questions[left_open, 1] = k, i
            left_open += 1
    counts[0] = events
    counts[1] = left_open


@kernel
def settle_order(net, state, rungs, asked, layer, rows, on, clusters, parent, group, old, key, place, error,
                 order, first, counts):  # fmt: skip
    """Order the events of clusters, rows of (begin, end) in the sorted events; breaks that coincide are one.

    ``order`` gets the events in their order, ``first`` where a new break begins. Clusters that stay open move
    to the front, ``counts[0]`` is their number. ``rows`` is the number of keys of the layer, 0 for units.
    """
    left_open = 0
    last = np.int64(-1)
    for q in range(clusters.shape[0]):
        begin, end = clusters[q, 0], clusters[q, 1]
        k = parent[begin]
        answered = asked.tied[k] == 0
        if rows > 0:
            for e in range(begin, end):
                answered = answered and key[e] < rows and old[e] < rows
        if answered:
            if k != last:
                follow(net, state, asked.bits, asked.routings, k, layer)
                rungs.vertex.asked[0] = NO_FACET
                last = k
            first[begin] = 1
            order[begin] = begin
            for e in range(begin + 1, end):
                i, j = (group[e], np.int64(-1)) if rows == 0 else (key[e], old[e])
                rising = rows > 0 or on[k, i >> 6] & (np.uint64(1) << np.uint64(i & 63)) == np.uint64(0)
                a, c = asked.zu[k, i], asked.zc[k, i]
                alpha = asked.rho[i] * asked.ea[k]
                kappa = asked.rho[i] * asked.ec[k] + asked.gamma * abs(asked.bias[i])
                size_a, size_c = abs(a), abs(c)
                if j >= 0:
                    a -= asked.zu[k, j]
                    c -= asked.zc[k, j]
                    alpha += asked.rho[j] * asked.ea[k]
                    kappa += asked.rho[j] * asked.ec[k] + asked.gamma * abs(asked.bias[j])
                    size_a += abs(asked.zu[k, j])
                    size_c += abs(asked.zc[k, j])
                at = np.int64(e)  # where it belongs
                same = False
                while at > begin:
                    start = at - 1  # the first of the events that coincide with the one before
                    while first[start] == 0:
                        start -= 1
                    f = order[start]
                    sign = np.int64(OPEN)  # of its place minus that of f
                    if place[e] - error[e] > place[f] + error[f]:
                        sign = np.int64(POSITIVE)
                    elif place[e] + error[e] < place[f] - error[f]:
                        sign = np.int64(NEGATIVE)
                    else:
                        wall = wall_of(layer, group[f], old[f], key[f] if rows > 0 else np.int64(-1))
                        value = _value_below(a, c, alpha, kappa, size_a, size_c, place[f], error[f])
                        sign = np.int64(_ask(net, state, rungs, layer, i, j, np.int64(OWN), wall, 1.0, value))
                        if sign != OPEN and rising:
                            sign = -sign
                    if sign == OPEN:
                        answered = False
                    if sign in (OPEN, POSITIVE):
                        break
                    if sign == ZERO:
                        same = True
                        break
                    at = start
                if not answered:
                    break
                for move in range(e, at, -1):
                    order[move] = order[move - 1]
                    first[move] = first[move - 1]
                order[at] = e
                first[at] = 0 if same else 1
        if answered:
            # a break is where its best known event is; breaks that floats do not tell apart are placed anew
            start = np.int64(begin)
            for at in range(begin + 1, end + 1):
                if at < end and first[at] == 0:
                    f, e = order[start], order[at]
                    if error[e] < error[f]:
                        place[f], error[f] = place[e], error[e]
                else:
                    if start > begin:
                        before = np.int64(start - 1)
                        while first[before] == 0:
                            before -= 1
                        pair = order[before], order[start]
                        if not (place[pair[0]] + error[pair[0]] < place[pair[1]] - error[pair[1]]):
                            for f in pair:
                                wall = wall_of(layer, group[f], old[f], key[f] if rows > 0 else np.int64(-1))
                                _refined(
                                    net, state, rungs, np.int64(OWN), wall, asked.origin, place, error, f
                                )
                    start = np.int64(at)
        else:
            clusters[left_open, 0], clusters[left_open, 1] = begin, end
            left_open += 1
    counts[0] = left_open


@kernel(inlined=True)
def _difference(asked, k, j, w):
    """Row j minus row w on interval k: slope, constant, their errors, and what they were summed from."""
    a = asked.zu[k, j] - asked.zu[k, w]
    c = asked.zc[k, j] - asked.zc[k, w]
    rho = asked.rho[j] + asked.rho[w]
    alpha = rho * asked.ea[k]
    kappa = rho * asked.ec[k] + asked.gamma * (abs(asked.bias[j]) + abs(asked.bias[w]))
    size_a = abs(asked.zu[k, j]) + abs(asked.zu[k, w])
    size_c = abs(asked.zc[k, j]) + abs(asked.zc[k, w])
    return a, c, alpha, kappa, size_a, size_c


@kernel(inner=True)
def _compared(net, state, rungs, asked, layer, k, j, w, owner, wall, s, e, side):
    """The sign of row j minus row w at a place."""
    a, c, alpha, kappa, size_a, size_c = _difference(asked, k, j, w)
    sign = np.int64(sign_at(a, c, alpha, kappa, size_a, size_c, s, e, CERTIFIED))
    if sign == OPEN:
        value = _value_below(a, c, alpha, kappa, size_a, size_c, s, e)
        sign = np.int64(_asked_sign(net, state, rungs, layer, j, w, owner, wall, side, value))
    return sign


@kernel(inner=True)
def _steeper(net, state, rungs, asked, layer, k, j, w):
    """The sign of the slope of row j minus row w."""
    a, _c, alpha, _kappa, size_a, _size_c = _difference(asked, k, j, w)
    t = 1.0001 * (alpha + 5.0 * UNIT * size_a)
    if abs(a) > t and t < HUGE and (t > 1e-280 or t == 0.0):
        return np.int64(POSITIVE) if a > 0.0 else np.int64(NEGATIVE)
    rungs.vertex.names[0], rungs.vertex.names[1] = np.int64(AT_INFINITY), np.int64(0)
    ask_at(COLUMNS, net, state, rungs)
    return np.int64(_as_sign(compiled_sign_at(COLUMNS, net, state, rungs, layer, j, w, np.inf, 0, 1.0)))


@kernel
def contenders(asked, k, first, stop, keys):
    """List the keys that are not certainly beaten, at both ends of an interval, by one and the same key;
    returns how many.
    """
    s0, e0, s1, e1 = asked.ends[0, k], asked.ends[1, k], asked.ends[2, k], asked.ends[3, k]
    best0, best1 = first, first
    for j in range(first + 1, stop):
        if asked.zu[k, j] * s0 + asked.zc[k, j] > asked.zu[k, best0] * s0 + asked.zc[k, best0]:
            best0 = j
        if asked.zu[k, j] * s1 + asked.zc[k, j] > asked.zu[k, best1] * s1 + asked.zc[k, best1]:
            best1 = j
    n = 0
    for j in range(first, stop):
        beaten = False
        for best in (best0, best1):
            if j != best and not beaten:
                a, c, alpha, kappa, size_a, size_c = _difference(asked, k, j, best)
                beaten = (
                    sign_at(a, c, alpha, kappa, size_a, size_c, s0, e0, CERTIFIED) == NEGATIVE
                    and sign_at(a, c, alpha, kappa, size_a, size_c, s1, e1, CERTIFIED) == NEGATIVE
                )
        if not beaten:
            keys[n] = j
            n += 1
    return n


@kernel
def settle_heads(net, state, rungs, asked, layer, head_start, jumps, questions, keys, steep, winner, ev_int,
                 ev_float, counts):  # fmt: skip
    """The winners of heads along intervals: the first one, and events.

    ``questions`` are rows of (interval, head). Events go to ``ev_int`` (interval, head, the winners before
    and after) and ``ev_float``. Heads with outputs (``jumps``) whose keys win together stay open.
    """
    ends, names = asked.ends, asked.names
    events, left_open = 0, 0
    last = np.int64(-1)
    for q in range(questions.shape[0]):
        k, h = questions[q, 0], questions[q, 1]
        answered = asked.tied[k] == 0 and ev_int.shape[0] - events > head_start[h + 1] - head_start[h]
        begin = events
        if answered:
            if k != last:
                follow(net, state, asked.bits, asked.routings, k, layer)
                rungs.vertex.asked[0] = NO_FACET
                last = k
            s0, e0, s1, e1 = ends[0, k], ends[1, k], ends[2, k], ends[3, k]
            n = contenders(asked, k, head_start[h], head_start[h + 1], keys)
            w = keys[0]
            for t in range(1, n):
                j = keys[t]
                sign = _compared(
                    net, state, rungs, asked, layer, k, j, w, names[0, k], names[1, k], s0, e0, -1.0
                )
                if sign == ZERO and s0 != -np.inf:
                    sign = _steeper(net, state, rungs, asked, layer, k, j, w)
                if sign == OPEN:
                    answered = False
                    break
                if sign == POSITIVE:
                    w = j
            if answered:
                winner[k, h] = w
            while answered:
                # the key that overtakes first; of several in one place the steepest
                f = np.int64(-1)
                for t in range(n):
                    j = keys[t]
                    if j == w:
                        continue
                    steep[t] = _steeper(net, state, rungs, asked, layer, k, j, w)
                    if steep[t] == OPEN:
                        answered = False
                        break
                    if steep[t] == ZERO and jumps:
                        # the same line: they win together
                        together = _compared(
                            net, state, rungs, asked, layer, k, j, w, names[0, k], names[1, k], s0, e0, -1.0
                        )
                        if together in (ZERO, OPEN):
                            answered = False
                            break
                    if steep[t] != POSITIVE:
                        continue
                    if f < 0:
                        f = j
                        continue
                    a, c, alpha, kappa, size_a, size_c = _difference(asked, k, f, w)
                    place = _root(a, c)
                    error = root_error(place, a, alpha + 2.0 * UNIT * size_a, kappa + 2.0 * UNIT * size_c)
                    sign = _compared(
                        net, state, rungs, asked, layer, k, j, w, np.int64(OWN), wall_of(layer, h, w, f),
                        place, error, 1.0,
                    )  # fmt: skip
                    if sign == ZERO:
                        sign = _steeper(net, state, rungs, asked, layer, k, j, f)
                    if sign == OPEN:
                        answered = False
                        break
                    if sign == POSITIVE:
                        f = j
                if not answered or f < 0:
                    break
                sign = _compared(
                    net, state, rungs, asked, layer, k, f, w, names[2, k], names[3, k], s1, e1, 1.0
                )
                if sign == OPEN:
                    answered = False
                if sign != POSITIVE:
                    break
                a, c, alpha, kappa, size_a, size_c = _difference(asked, k, f, w)
                place = _root(a, c)
                error = root_error(place, a, alpha + 2.0 * UNIT * size_a, kappa + 2.0 * UNIT * size_c)
                ev_float[events, 0], ev_float[events, 1] = place, error
                if not (place - error > s0 + e0) or not (place + error < s1 - e1):
                    answered = _refined(
                        net, state, rungs, np.int64(OWN), wall_of(layer, h, w, f), asked.origin,
                        ev_float[:, 0], ev_float[:, 1], events,
                    )  # fmt: skip
                    if not answered:
                        break
                ev_int[events, 0], ev_int[events, 1], ev_int[events, 2], ev_int[events, 3] = k, h, w, f
                events += 1
                w = f
        if not answered:
            events = begin
            questions[left_open, 0], questions[left_open, 1] = k, h
            left_open += 1
    counts[0] = events
    counts[1] = left_open


@kernel
def settle_lengths(net, state, rungs, asked, layer, chosen, lengths, counts):
    """Lengths of cells that floats do not know well, from double-double; those that stay open move to the
    front of ``chosen``, ``counts[0]`` is their number.
    """
    left_open = 0
    for q in range(chosen.shape[0]):
        k = chosen[q]
        answered = (
            asked.tied[k] == 0 and asked.names[0, k] != AT_INFINITY and asked.names[2, k] != AT_INFINITY
        )
        if answered:
            follow(net, state, asked.bits, asked.routings, k, layer)
            rungs.vertex.asked[0] = NO_FACET
            answered = place_in_pairs(net, state, rungs, asked.names[0, k], asked.names[1, k], asked.origin)
        if answered:
            xh, xl, off = state.place[0], state.place[1], state.place[2]
            answered = place_in_pairs(net, state, rungs, asked.names[2, k], asked.names[3, k], asked.origin)
            h, _l = pairs.add(state.place[0], state.place[1], -xh, -xl)
            if answered and h > 2.0**30 * (off + state.place[2]):
                lengths[k] = h
                continue
        chosen[left_open] = k
        left_open += 1
    counts[0] = left_open
