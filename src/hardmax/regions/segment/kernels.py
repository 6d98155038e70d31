r"""The compiled part of the segment engine: signs of units, upper envelopes of heads, pieces of intervals.

On an interval the scores of a layer are affine functions :math:`a_i s + c_i` of the position, known up to
errors :math:`|\delta a_i| \le \alpha_i` and :math:`|\delta c_i| \le \kappa_i`. The sign at an end
:math:`s \pm \epsilon` is certain beyond

.. math:: T_i = \alpha_i (|s| + \epsilon) + \kappa_i + |a_i| \epsilon + 5u (|a_i s| + |c_i|) ,

and a unit that is certain to change between the ends changes at :math:`r = -c/a`, up to
:math:`(\kappa + |r| \alpha) / (|a| - \alpha) + 2u|r|`. For a head, floats only guess the sequence of winners;
it is right if at the left end the first winner, at the right end the last one, and at every break the two
keys that meet there certainly beat all others (scores are affine, so nothing can happen in between). An end
at infinity is decided by the slopes, then by the constants. Whatever is not certain is left to the caller.
"""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import (
    CERTIFIED,
    D_IN,
    EXACT,
    FLOAT,
    FOLD,
    GAMMA,
    HUGE,
    KIND,
    NEXT_DA,
    ROWS,
    SCORES,
    TINY,
    UNIT,
    bound_errors,
    largest_norm,
)  # fmt: skip

POSITIVE, NEGATIVE, OPEN, ZERO = 1, -1, 2, 0


@kernel
def interval_errors(table, f, n, y, z, entering, e, rows, leaving):
    """Bounds for n intervals: numbers such that a row is known up to them times its norm (and gamma times its
    bias), and the errors of what leaves, from those of what enters.

    Slopes before constants; of what enters and leaves first 2-norms, then the largest errors of an entry.
    ``table`` and ``f`` are the layer's rows of the program, ``e`` is work space.
    """
    layer, one = np.int64(0), np.int64(1)
    m, r = table[layer, D_IN], table[layer, ROWS]
    z_na, z_nc = 0.0, 0.0
    for k in range(n):
        y_na, y_nc = largest_norm(y, k * m, m, one), largest_norm(y, (n + k) * m, m, one)
        if table[layer, KIND] == FOLD:
            z_na, z_nc = largest_norm(z, k * r, r, one), largest_norm(z, (n + k) * r, r, one)
        for i in range(4):
            e[(i + 2) % 4] = entering[i, k]
        bound_errors(table, layer, f, e, y_na, y_nc, z_na, z_nc)
        for i in range(4):
            leaving[i, k] = e[NEXT_DA + (i + 2) % 4]
        if table[layer, SCORES] < 0:
            rows[0, k], rows[1, k] = entering[2, k], entering[3, k] + f[GAMMA] * y_nc
        else:
            rows[0, k], rows[1, k] = entering[0, k] + f[GAMMA] * y_na, entering[1, k] + f[GAMMA] * y_nc


@kernel(inlined=True)
def sign_of(v, t):
    """1, -1, 0 (known to vanish: no error at all) or 2 (open)."""
    if v > t:
        return POSITIVE
    if v < -t:
        return NEGATIVE
    if t == 0.0 and v == 0.0:
        return ZERO
    return OPEN


@kernel(inlined=True)
def usable(t):
    """A threshold that products cannot have lost by underflow or overflow; NaN otherwise."""
    return t if (t > TINY and t < HUGE) else np.nan


@kernel(inlined=True)
def sign_at(a, c, alpha, kappa, size_a, size_c, s, e, trust):
    """The sign of a s + c at an end; ``size_a``, ``size_c`` bound what a and c were summed from."""
    if trust == EXACT:
        return OPEN
    if s == np.inf or s == -np.inf:
        if trust == FLOAT:
            sign = sign_of(a, 0.0)
        elif alpha == 0.0 and size_a == 0.0:
            sign = ZERO
        else:
            sign = sign_of(a, usable(1.0001 * (alpha + 5.0 * UNIT * size_a)))
        if sign == OPEN:
            return OPEN
        if sign != ZERO:
            return sign if s > 0.0 else -sign
        s = 0.0
        e = 0.0
        a = 0.0
    v = a * s + c
    if trust == FLOAT:
        return sign_of(v, 0.0)
    if alpha == 0.0 and size_a == 0.0 and kappa == 0.0 and size_c == 0.0:
        return ZERO
    t = alpha * (abs(s) + e) + kappa + abs(a) * e + 5.0 * UNIT * (size_a * abs(s) + size_c)
    return sign_of(v, usable(1.0001 * t))


@kernel(inlined=True)
def root_error(r, a, alpha, kappa):
    """How far the root r of a s + c may be from the truth."""
    room = abs(a) - 1.0001 * alpha
    if not (room > TINY) or not (abs(r) < HUGE):
        return np.inf
    return 1.0001 * ((kappa + abs(r) * alpha) / room) + 2.0 * UNIT * abs(r) + TINY


@kernel(inlined=True)
def common_bound(s0, e0, s1, e1, ea, ec, trust):
    """Whether both ends are finite; T is below rho size + abs(a) near and the rounding of c: size, near."""
    far = max(abs(s0), abs(s1))
    wide = max(e0, e1)
    quick = trust == CERTIFIED and far < HUGE and wide < HUGE
    return quick, 1.001 * (ea * (far + wide) + ec), 1.001 * (wide + 6.0 * UNIT * far)


@kernel
def fold_signs(
    zu, zc, rho, bias, ea, ec, gamma, low, low_error, high, high_error, trust,
    on, ev_parent, ev_group, ev_place, ev_error, open_parent, open_unit, counts,
):  # fmt: skip
    """Which units are on at the left of every interval, and where they change inside.

    Slope errors of unit i on interval k are ``rho[i] ea[k]``, those of constants ``rho[i] ec[k] + gamma
    |bias[i]|``. Writes events and open questions as far as they fit; ``counts`` are their true numbers.
    """
    n, units = zu.shape
    events = 0
    asked = 0
    for k in range(n):
        s0, e0, s1, e1 = low[k], low_error[k], high[k], high_error[k]
        quick, size, near = common_bound(s0, e0, s1, e1, ea[k], ec[k], trust)
        for w in range(on.shape[1]):
            on[k, w] = 0
        for i in range(units):
            a = zu[k, i]
            c = zc[k, i]
            if quick:  # nearly all units keep their sign, by far
                t = rho[i] * size + gamma * abs(bias[i]) + abs(a) * near + 6.0 * UNIT * abs(c)
                v0 = a * s0 + c
                v1 = a * s1 + c
                if t > TINY and t < HUGE:
                    if v0 > t and v1 > t:
                        on[k, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
                        continue
                    if v0 < -t and v1 < -t:
                        continue
            alpha = rho[i] * ea[k]
            kappa = rho[i] * ec[k] + gamma * abs(bias[i])
            at_low = sign_at(a, c, alpha, kappa, abs(a), abs(c), s0, e0, trust)
            at_high = sign_at(a, c, alpha, kappa, abs(a), abs(c), s1, e1, trust)
            if at_low == OPEN or at_high == OPEN:
                if asked < open_parent.shape[0]:
                    open_parent[asked] = k
                    open_unit[asked] = i
                asked += 1
                continue
            if at_low == POSITIVE or (at_low == ZERO and at_high == POSITIVE):
                on[k, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
            if at_low * at_high == -1:
                if events < ev_parent.shape[0]:
                    r = -c / a
                    error = 0.0 if trust == FLOAT else root_error(r, a, alpha, kappa)
                    if trust == FLOAT:
                        r = min(max(r, s0), s1)
                    ev_parent[events] = k
                    ev_group[events] = i
                    ev_place[events] = r
                    ev_error[events] = error
                events += 1
    counts[0] = events
    counts[1] = asked


@kernel(inlined=True)
def compare(zu, zc, rho, bias, ea, ec, gamma, k, j, w, s, e, trust):
    """The sign of score j minus score w at a place."""
    a = zu[k, j] - zu[k, w]
    c = zc[k, j] - zc[k, w]
    alpha = (rho[j] + rho[w]) * ea[k]
    kappa = (rho[j] + rho[w]) * ec[k] + gamma * (abs(bias[j]) + abs(bias[w]))
    size_a = abs(zu[k, j]) + abs(zu[k, w])
    size_c = abs(zc[k, j]) + abs(zc[k, w])
    return sign_at(a, c, alpha, kappa, size_a, size_c, s, e, trust)


@kernel(inlined=True)
def ahead(zu, zc, k, j, w, s):
    """Whether, in floats, key j is ahead of key w just right of a place."""
    if s == -np.inf:
        if zu[k, j] != zu[k, w]:
            return zu[k, j] < zu[k, w]
        return zc[k, j] > zc[k, w]
    vj = zu[k, j] * s + zc[k, j]
    vw = zu[k, w] * s + zc[k, w]
    if vj != vw:
        return vj > vw
    return zu[k, j] > zu[k, w]


@kernel
def head_winners(
    zu, zc, rho, bias, ea, ec, gamma, head_start, low, low_error, high, high_error, trust,
    winner, ev_parent, ev_group, ev_old, ev_key, ev_place, ev_error, open_parent, open_head, counts,
):  # fmt: skip
    """The winners of every head along every interval: the first one, and an event for each change."""
    n = zu.shape[0]
    heads = head_start.shape[0] - 1
    events = 0
    asked = 0
    for k in range(n):
        s0, e0, s1, e1 = low[k], low_error[k], high[k], high_error[k]
        quick, size, near = common_bound(s0, e0, s1, e1, ea[k], ec[k], trust)
        for h in range(heads):
            first = head_start[h]
            stop = head_start[h + 1]
            if quick:  # most heads have one winner, by far
                w = first
                w1 = first
                best = zu[k, w] * s0 + zc[k, w]
                best1 = zu[k, w] * s1 + zc[k, w]
                for j in range(first + 1, stop):
                    v0 = zu[k, j] * s0 + zc[k, j]
                    v1 = zu[k, j] * s1 + zc[k, j]
                    if v0 > best:
                        best = v0
                        w = j
                    if v1 > best1:
                        best1 = v1
                        w1 = j
                if w == w1:
                    fixed = rho[w] * size + gamma * abs(bias[w])
                    fixed += abs(zu[k, w]) * near + 6.0 * UNIT * abs(zc[k, w])
                    lost = 0
                    for j in range(first, stop):
                        a = zu[k, j]
                        c = zc[k, j]
                        t = fixed + rho[j] * size + gamma * abs(bias[j])
                        t += abs(a) * near + 6.0 * UNIT * abs(c)
                        behind = a * s0 + c - best < -t and a * s1 + c - best1 < -t and t > TINY and t < HUGE
                        if not behind and j != w:
                            lost += 1
                    if lost == 0:
                        winner[k, h] = w
                        continue
            w = first
            for j in range(first + 1, stop):
                if ahead(zu, zc, k, j, w, s0):
                    w = j
            winner[k, h] = w
            begin = events
            sure = stop - first == 1
            if not sure:
                sure = trust != EXACT
                if trust == CERTIFIED:
                    for j in range(first, stop):
                        if j != w and compare(
                            zu, zc, rho, bias, ea, ec, gamma, k, j, w, s0, e0, trust
                        ) != NEGATIVE:  # fmt: skip
                            sure = False
                            break
                place = s0
                while sure:
                    # the key that overtakes first
                    nearest = np.inf
                    following = -1
                    for j in range(first, stop):
                        a = zu[k, j] - zu[k, w]
                        if a > 0.0:
                            r = (zc[k, w] - zc[k, j]) / a
                            if r < nearest or (r == nearest and zu[k, j] > zu[k, following]):
                                nearest = r
                                following = j
                    if following < 0 or not (nearest < s1):
                        break
                    a = zu[k, following] - zu[k, w]
                    error = 0.0
                    if trust == CERTIFIED:
                        alpha = (rho[following] + rho[w]) * ea[k]
                        alpha += 2.0 * UNIT * (abs(zu[k, following]) + abs(zu[k, w]))
                        kappa = (rho[following] + rho[w]) * ec[k]
                        kappa += gamma * (abs(bias[following]) + abs(bias[w]))
                        kappa += 2.0 * UNIT * (abs(zc[k, following]) + abs(zc[k, w]))
                        error = root_error(nearest, a, alpha, kappa)
                        for j in range(first, stop):
                            if j != w and j != following and compare(
                                zu, zc, rho, bias, ea, ec, gamma, k, j, following, nearest, error, trust
                            ) != NEGATIVE:  # fmt: skip
                                sure = False
                                break
                        if not sure or not (error < HUGE):
                            sure = False
                            break
                    else:
                        nearest = max(nearest, place)
                        place = nearest
                    if events < ev_parent.shape[0]:
                        ev_parent[events] = k
                        ev_group[events] = h
                        ev_old[events] = w
                        ev_key[events] = following
                        ev_place[events] = nearest
                        ev_error[events] = error
                    events += 1
                    w = following
                if sure and trust == CERTIFIED:
                    for j in range(first, stop):
                        if j != w and compare(
                            zu, zc, rho, bias, ea, ec, gamma, k, j, w, s1, e1, trust
                        ) != NEGATIVE:  # fmt: skip
                            sure = False
                            break
            if not sure:
                events = begin
                if asked < open_parent.shape[0]:
                    open_parent[asked] = k
                    open_head[asked] = h
                asked += 1
    counts[0] = events
    counts[1] = asked


@kernel(inner=True)
def _merge_runs(begin, end, key, order, spare):
    """Sort the part begin:end of ``order`` by key; equal keys stay in order."""
    width = np.int64(8)
    for low in range(begin, end, width):  # short runs by insertion
        for i in range(low + 1, min(low + width, end)):
            e = order[i]
            at = np.int64(i)
            while at > low and key[order[at - 1]] > key[e]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = e
    while width < end - begin:
        for low in range(begin, end, 2 * width):
            middle, high = min(low + width, end), min(low + 2 * width, end)
            for i in range(low, middle):
                spare[i] = order[i]
            a, b, to = np.int64(low), np.int64(middle), np.int64(low)
            while a < middle:
                if b < high and key[order[b]] < key[spare[a]]:
                    order[to] = order[b]
                    b += 1
                else:
                    order[to] = spare[a]
                    a += 1
                to += 1
        width *= 2


@kernel
def order_events(starts, parent, place, error, key, order, spare, first, counts):
    """Order events by parent, then by place - error, and number the groups that floats cannot order.

    ``first[i]`` is 1 where event ``order[i]`` begins a new group, ``counts[0]`` their number. ``key``,
    ``spare`` and ``starts``, which has an entry per parent and one more, are room to work in.
    """
    n = starts.shape[0] - 1
    for k in range(n + 1):
        starts[k] = 0
    for e in range(parent.shape[0]):
        key[e] = place[e] - error[e]
        starts[parent[e] + 1] += 1
    for k in range(n):
        starts[k + 1] += starts[k]
    for e in range(parent.shape[0]):
        order[starts[parent[e]]] = e
        starts[parent[e]] += 1
    groups = 0
    begin = np.int64(0)
    for k in range(n):
        end = starts[k]
        _merge_runs(begin, end, key, order, spare)
        reach = -np.inf
        for i in range(begin, end):
            e = order[i]
            new = i == begin or key[e] > reach
            far = place[e] + error[e]
            reach = far if new else max(reach, far)
            first[i] = 1 if new else 0
            groups += 1 if new else 0
        begin = end
    counts[0] = groups


@kernel
def cut_intervals(
    layer, serial, parent, group, old, key, place, error, first, lowest, low, low_error, low_owner, low_wall,
    high, high_error, high_owner, high_wall, child_parent, ev_start, ends, names,
):  # fmt: skip
    """The children that ordered events make; ``first`` marks events that begin a new break.

    ``lowest`` has the row of every key, for keys that win together the lowest; it is empty for units. A break
    is named after the first event there.
    """
    n = low.shape[0]
    child, event, total = np.int64(0), np.int64(0), parent.shape[0]
    for k in range(n):
        child_parent[child] = k
        ev_start[child] = event
        ends[0, child], ends[1, child] = low[k], low_error[k]
        names[0, child], names[1, child] = low_owner[k], low_wall[k]
        while event < total and parent[event] == k:
            if first[event] != 0:
                code = (np.int64(layer) << 54) | (group[event] << 38)
                if lowest.shape[0] > 0:
                    a, b = lowest[old[event]], lowest[key[event]]
                    code |= (min(a, b) << 19) | max(a, b)
                ends[2, child], ends[3, child] = place[event], error[event]
                names[2, child], names[3, child] = serial + k, code
                child += 1
                child_parent[child] = k
                ev_start[child] = event
                ends[0, child], ends[1, child] = place[event], error[event]
                names[0, child], names[1, child] = serial + k, code
            event += 1
        ends[2, child], ends[3, child] = high[k], high_error[k]
        names[2, child], names[3, child] = high_owner[k], high_wall[k]
        child += 1
    ev_start[child] = total


@kernel
def fold_children(
    begin, end, child_parent, ev_start, ev_group, first_unit, parent_bits, parent_tied, parent_routings, on,
    base, zu, zc, columns, bits, tied, routings, y, carry_bits, carry_y, wanted,
):  # fmt: skip
    """Signatures and maps of the children ``begin:end`` of a fold layer, each from the one before it.

    A unit that changes adds or takes away its column times its pre-activation.
    """
    words = bits.shape[1]
    e = carry_y.shape[1]
    for child in range(begin, end):
        o = child - begin
        k = child_parent[child]
        tied[o] = parent_tied[k]
        for h in range(routings.shape[1]):
            routings[o, h] = parent_routings[k, h]
        if ev_start[child] == ev_start[child + 1]:  # the leftmost child of its parent
            for w in range(words):
                carry_bits[w] = parent_bits[k, w]
            for w in range(on.shape[1]):
                lower = first_unit & 63
                word = (first_unit >> 6) + w
                carry_bits[word] |= on[k, w] << np.uint64(lower)
                if lower > 0 and word + 1 < words:
                    carry_bits[word + 1] |= on[k, w] >> np.uint64(64 - lower)
            if wanted:
                for c in range(e):
                    carry_y[0, c] = base[0, k, c]
                    carry_y[1, c] = base[1, k, c]
        for event in range(ev_start[child], ev_start[child + 1]):
            unit = ev_group[event]
            number = first_unit + unit
            bit = np.uint64(1) << np.uint64(number & 63)
            carry_bits[number >> 6] ^= bit
            if wanted:
                sign = 1.0 if carry_bits[number >> 6] & bit else -1.0
                a = sign * zu[k, unit]
                c0 = sign * zc[k, unit]
                for c in range(e):
                    carry_y[0, c] += a * columns[unit, c]
                    carry_y[1, c] += c0 * columns[unit, c]
        for w in range(words):
            bits[o, w] = carry_bits[w]
        if wanted:
            for c in range(e):
                y[0, o, c] = carry_y[0, c]
                y[1, o, c] = carry_y[1, c]


@kernel
def wall_children(
    begin, end, child_parent, ev_start, ev_group, ev_key, winner, first_head, parent_bits, parent_tied,
    parent_routings, key_of, tie_of, outputs, skip, parent_y, bits, tied, routings, y, won, carry_winner,
    wanted,
):  # fmt: skip
    """The same for a wall layer: what the winners of all heads add is summed anew for every child."""
    heads = carry_winner.shape[0]
    e = outputs.shape[1]
    for child in range(begin, end):
        o = child - begin
        k = child_parent[child]
        for w in range(bits.shape[1]):
            bits[o, w] = parent_bits[k, w]
        for h in range(routings.shape[1]):
            routings[o, h] = parent_routings[k, h]
        if ev_start[child] == ev_start[child + 1]:
            for h in range(heads):
                carry_winner[h] = winner[k, h]
        for event in range(ev_start[child], ev_start[child + 1]):
            carry_winner[ev_group[event]] = ev_key[event]
        tied[o] = parent_tied[k]
        for h in range(heads):
            won[o, h] = carry_winner[h]
            routings[o, first_head + h] = key_of[carry_winner[h]]
            tied[o] |= tie_of[carry_winner[h]]
        if wanted:
            if skip:
                for c in range(e):
                    y[0, o, c] = parent_y[0, k, c]
                    y[1, o, c] = parent_y[1, k, c]
            else:
                for c in range(e):
                    y[0, o, c] = 0.0
                    y[1, o, c] = 0.0
            for h in range(heads):
                w = carry_winner[h]
                for c in range(e):
                    y[1, o, c] += outputs[w, c]
