r"""The compiled part of the sweep along a segment: states with error bounds, and certain crossings.

On a piece the state of a token is :math:`A + sB`. Two vectors per token are kept, each with a bound
:math:`\nu` of its 2-norm and a bound :math:`\varepsilon` of the 2-norm of its error. A matrix with
:math:`\|W\|_2 \le \rho` and :math:`\|W\|_F \le \varphi` makes of them

.. math:: \varepsilon' = \rho\,\varepsilon + \gamma_{n+3}\,\varphi\,\nu + 2u\,\|b\| ,

whatever the order of the sums, and the product of a query and a key is off by at most
:math:`\varepsilon_q \nu_k + \nu_q \varepsilon_k + \gamma_{r+3} \nu_q \nu_k`. Since :math:`0 \le s \le 1`, the
errors of the three coefficients of a score add up to a bound :math:`E` of its error along the whole segment.

Let :math:`D` be the score of a rival minus that of the winner, in floats and known up to :math:`E`. Nothing
happens before :math:`l` if :math:`D + E < 0` on the way to it: at both ends where :math:`D` is convex, at
:math:`l` where it is concave and still rises there. Something has happened at :math:`h` if
:math:`D(h) > E`. Floats only guess :math:`l` and :math:`h` (as roots of :math:`D \pm 2E`); the guess is
checked, and :math:`E` holds the rounding of the check. What cannot be checked is left open.

A break itself is known between two floats :math:`a \le b`, so a winner behind it is certain only if its
rivals stay behind up to :math:`b`. A rival that has just been overtaken meets the new winner in between; it
stays behind up to any later place where :math:`D + E < 0`, because a quadratic that falls below zero either
never returns or is convex.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from hardmax.compiling import kernel

UNIT = 2.0**-53
TINY = 2.0**-900  # far above what underflow can do
SAFE = 1.0 + 1e-9  # bounds are computed in floats themselves
SLACK = 32 * UNIT  # for the differences of coefficients and for their values at a point

# rows of scores: token, group, key; a group is a head, a ReLU unit (off, on) or a group of pieces
Rows = namedtuple("Rows", "quadratics errors present winner low high second rival tied")
# vectors A and B of all tokens: (groups, tokens, 2, d), and bounds (groups, tokens, 2)
States = namedtuple("States", "vectors norms errors")
# a matrix for each group, transposed; its Frobenius norm, its 2-norm, the norm of the offset
Linear = namedtuple("Linear", "weights offsets norms")


@kernel(inlined=True)
def _norm(v, n):
    """A bound of the 2-norm, rounded up; squares of tiny numbers vanish, so those are added up plainly."""
    total = 0.0
    for i in range(n):
        total += v[i] * v[i]
    if total < 1e-250:
        total = 0.0
        for i in range(n):
            total += abs(v[i])
        return total * SAFE
    return np.sqrt(total) * SAFE


@kernel(reorder=True)
def map_tokens(source, tokens, linear, target):
    """The tokens behind a linear map, for each group."""
    groups, d, r = linear.weights.shape
    own = source.vectors.shape[0] > 1
    for i in range(len(tokens)):
        t = tokens[i]
        for g in range(groups):
            f = g if own else 0
            for c in range(2):
                x, y = source.vectors[f, t, c], target.vectors[g, t, c]
                for k in range(r):
                    y[k] = linear.offsets[g, k] if c == 0 else 0.0
                for j in range(d):
                    if x[j] != 0.0:
                        for k in range(r):
                            y[k] += linear.weights[g, j, k] * x[j]
                n, e = source.norms[f, t, c], source.errors[f, t, c]
                error = linear.norms[g, 1] * e + (d + 3) * UNIT * linear.norms[g, 0] * n
                if n > 0.0:
                    error += TINY
                if c == 0:
                    error += 2 * UNIT * linear.norms[g, 2]
                error *= SAFE
                target.errors[g, t, c] = error
                target.norms[g, t, c] = _norm(y, r) + error


@kernel
def add_tokens(target, tokens, source):
    """The tokens plus other vectors of theirs."""
    d = source.vectors.shape[3]
    for i in range(len(tokens)):
        t = tokens[i]
        for c in range(2):
            x, y = source.vectors[0, t, c], target.vectors[0, t, c]
            for k in range(d):
                y[k] += x[k]
            total = target.norms[0, t, c] + source.norms[0, t, c]
            error = (target.errors[0, t, c] + source.errors[0, t, c] + UNIT * total) * SAFE
            target.errors[0, t, c] = error
            target.norms[0, t, c] = _norm(y, d) + error


@kernel
def mask_units(source, tokens, winner, slopes, steepest, target):
    """Units behind their activation: those that are off shrink by their slope."""
    w = source.vectors.shape[3]
    for i in range(len(tokens)):
        t = tokens[i]
        for c in range(2):
            x, y = source.vectors[0, t, c], target.vectors[0, t, c]
            for k in range(w):
                y[k] = x[k] if winner[t, k] == 1 else slopes[k] * x[k]
            n = source.norms[0, t, c]
            error = steepest * (source.errors[0, t, c] + 2 * UNIT * n) * SAFE
            if n > 0.0:
                error += TINY
            target.errors[0, t, c] = error
            target.norms[0, t, c] = _norm(y, w) + error


@kernel
def take_pieces(source, tokens, winner, pieces, target):
    """The winning pieces of every group."""
    groups = winner.shape[1]
    for i in range(len(tokens)):
        t = tokens[i]
        for c in range(2):
            y = target.vectors[0, t, c]
            for g in range(groups):
                y[g] = source.vectors[0, t, c, g * pieces + winner[t, g]]
            error = source.errors[0, t, c]
            target.errors[0, t, c] = error
            target.norms[0, t, c] = _norm(y, groups) + error


@kernel
def read_values(values, tokens, winner, target):
    """What the heads of each token read, added to what stands in the target."""
    groups, d = winner.shape[1], values.vectors.shape[3]
    for i in range(len(tokens)):
        t = tokens[i]
        for c in range(2):
            y = target.vectors[0, t, c]
            total, error = target.norms[0, t, c], target.errors[0, t, c]
            for g in range(groups):
                s = winner[t, g]
                v = values.vectors[g, s, c]
                for k in range(d):
                    y[k] += v[k]
                total += values.norms[g, s, c]
                error += values.errors[g, s, c]
            error = (error + groups * UNIT * total) * SAFE
            target.errors[0, t, c] = error
            target.norms[0, t, c] = _norm(y, d) + error


@kernel
def affine_rows(source, tokens, first, per_group, rows):
    """Scores that are affine: coordinate ``g * per_group + k`` is that of key ``first + k`` of group g."""
    groups = rows.quadratics.shape[1]
    for i in range(len(tokens)):
        t = tokens[i]
        e = source.errors[0, t, 0] + source.errors[0, t, 1]
        for g in range(groups):
            for k in range(per_group):
                a, b = source.vectors[0, t, 0, g * per_group + k], source.vectors[0, t, 1, g * per_group + k]
                q = rows.quadratics[t, g, first + k]
                q[0], q[1], q[2] = a, b, 0.0
                rows.errors[t, g, first + k] = (e + SLACK * (abs(a) + abs(b))) * SAFE


@kernel(reorder=True)
def score_rows(queries, keys, shifts, tokens, changed, rows):
    """Scores of queries and keys, where one of both has changed."""
    groups, n, r = queries.vectors.shape[0], queries.vectors.shape[1], queries.vectors.shape[3]
    gamma = (r + 3) * UNIT
    for i in range(len(tokens)):
        t = tokens[i]
        for g in range(groups):
            qa, qb = queries.vectors[g, t, 0], queries.vectors[g, t, 1]
            na, nb = queries.norms[g, t, 0], queries.norms[g, t, 1]
            ea, eb = queries.errors[g, t, 0], queries.errors[g, t, 1]
            for s in range(n):
                if not ((changed[t] or changed[s]) and rows.present[t, g, s]):
                    continue
                ka, kb = keys.vectors[g, s, 0], keys.vectors[g, s, 1]
                ma, mb = keys.norms[g, s, 0], keys.norms[g, s, 1]
                fa, fb = keys.errors[g, s, 0], keys.errors[g, s, 1]
                c0, c1, c2 = 0.0, 0.0, 0.0
                for k in range(r):
                    c0 += qa[k] * ka[k]
                    c1 += qa[k] * kb[k] + qb[k] * ka[k]
                    c2 += qb[k] * kb[k]
                e = (ea + eb) * (ma + mb) + (na + nb) * (fa + fb) + 2 * gamma * (na + nb) * (ma + mb)
                if na + nb > 0.0 and ma + mb > 0.0:
                    e += TINY
                if shifts.shape[0] > 0:
                    c0 += shifts[g, t, s]
                    e += 2 * UNIT * abs(shifts[g, t, s]) + TINY
                q = rows.quadratics[t, g, s]
                q[0], q[1], q[2] = c0, c1, c2
                rows.errors[t, g, s] = (e + SLACK * (abs(c0) + abs(c1) + abs(c2))) * SAFE


@kernel(inlined=True)
def upward(c, d1, d2):
    """About where c + d1 s + d2 s^2 changes from negative to positive; infinity if nowhere."""
    inside = d1 * d1 - 4.0 * d2 * c
    if not inside >= 0.0:
        return np.inf
    root = np.sqrt(inside)
    if d1 > 0.0:
        return -2.0 * c / (d1 + root)
    if d2 == 0.0:
        return np.inf
    return (root - d1) / (2.0 * d2)


@kernel(inlined=True)
def crossing(d0, d1, d2, e, a, b, below):
    """Between which places a rival that is behind overtakes, looking from a place between ``a`` and ``b``.

    (-1, inf): it is not certain that the rival is behind there. (inf, inf): it never overtakes. With
    ``below`` it is known that the rival falls behind at that place, where both meet.
    """
    u = d0 + e
    if not below and not u + a * (d1 + a * d2) < 0.0:
        return -1.0, np.inf
    peak = False  # whether a concave D may be too high between a and 1
    if d2 < 0.0 and not below:
        v = -d1 / (2.0 * d2)
        peak = a < v < 1.0 and not u + v * (d1 + v * d2) < 0.0
    if u + (d1 + d2) < 0.0 and not peak:
        return np.inf, np.inf
    low = upward(u + e, d1, d2)
    checked = a < low <= 1.0 and u + low * (d1 + low * d2) < 0.0
    if not (checked and (below or d2 >= 0.0 or d1 + 2.0 * d2 * low >= 0.0)):
        low = a
    if low < b and not below:  # it may have overtaken before we are there
        return -1.0, np.inf
    high = upward(d0 - 2.0 * e, d1, d2)
    if not (b < high <= 1.0 and low <= high and (d0 - e) + high * (d1 + high * d2) > 0.0):
        high = np.inf
    return low, high


@kernel
def crossings(rows, t, g, a, b, lows, highs):
    """For every rival of the winner of a row the places between which it overtakes."""
    w = rows.winner[t, g]
    of_w = rows.quadratics[t, g, w]
    for k in range(rows.quadratics.shape[2]):
        lows[k], highs[k] = np.inf, np.inf
        if k != w and rows.present[t, g, k]:
            q = rows.quadratics[t, g, k]
            e = rows.errors[t, g, k] + rows.errors[t, g, w]
            lows[k], highs[k] = crossing(q[0] - of_w[0], q[1] - of_w[1], q[2] - of_w[2], e, a, b, False)


@kernel(inlined=True)
def _insert(rows, t, g, k, low, high):
    if low < rows.low[t, g]:
        rows.second[t, g] = rows.low[t, g]
        rows.low[t, g], rows.high[t, g], rows.rival[t, g] = low, high, k
    elif low < rows.second[t, g]:
        rows.second[t, g] = low


@kernel(inner=True)
def settle_row(rows, t, g, w, flipped, units, a, b):
    """Look for the rivals that may overtake winner w; False if it is not certain that w wins."""
    rows.low[t, g], rows.high[t, g], rows.second[t, g], rows.rival[t, g] = np.inf, np.inf, np.inf, -1
    of_w = rows.quadratics[t, g, w]
    for k in range(rows.quadratics.shape[2]):
        if k == w or not rows.present[t, g, k]:
            continue
        q = rows.quadratics[t, g, k]
        e = rows.errors[t, g, k] + rows.errors[t, g, w]
        d0, d1, d2 = q[0] - of_w[0], q[1] - of_w[1], q[2] - of_w[2]
        if units and e == 0.0 and w == 0 and d0 == 0.0 and d1 == 0.0:
            continue  # a unit that is zero all along is off
        low, high = crossing(d0, d1, d2, e, a, b, k == flipped)
        if low < 0.0:
            return False
        _insert(rows, t, g, k, low, high)
    return True


@kernel(inlined=True)
def _best_at(rows, t, g, b):
    best, at = -np.inf, np.int64(-1)
    for k in range(rows.quadratics.shape[2]):
        if rows.present[t, g, k]:
            q = rows.quadratics[t, g, k]
            value = q[0] + b * (q[1] + b * q[2])
            if at < 0 or value > best:
                best, at = value, k
    return at


@kernel
def settle(rows, tokens, changed, moving, units, a, b, event, dirty, log, opened):
    """Winners just behind a place between a and b, and who may overtake them.

    ``changed`` says whose scores are new, as queries and, if keys are ``moving``, as keys. ``event`` is a row
    (token, group) and the rival that certainly overtakes there, or minus ones. Tokens whose output is new
    become ``dirty``; new winners go to ``log``, rows that are not certain to ``opened``. Returns how many
    there are of both.
    """
    n_log, n_open = 0, 0
    groups, keys = rows.winner.shape[1], rows.present.shape[2]
    n_changed = 0
    for s in range(len(changed)):
        n_changed += changed[s]
    for i in range(len(tokens)):
        t = tokens[i]
        if changed[t]:
            dirty[t] = True
        if not (changed[t] or (moving and n_changed > 0) or t == event[0]):
            continue
        for g in range(groups):
            w = np.int64(rows.winner[t, g])
            target, flipped = np.int64(-1), np.int64(-1)
            again = changed[t]
            if t == event[0] and g == event[1]:
                target, flipped, again = event[2], w, True
            if moving and not again:
                if changed[w] or rows.tied[t, g]:  # a key that shared may do so no longer
                    again = True
                else:
                    of_w = rows.quadratics[t, g, w]
                    for k in range(keys):
                        if not (changed[k] and rows.present[t, g, k]):
                            continue
                        if k == rows.rival[t, g]:
                            again = True
                            break
                        q = rows.quadratics[t, g, k]
                        e = rows.errors[t, g, k] + rows.errors[t, g, w]
                        low, high = crossing(q[0] - of_w[0], q[1] - of_w[1], q[2] - of_w[2], e, a, b, False)
                        if low < 0.0:
                            again = True
                            break
                        _insert(rows, t, g, k, low, high)
            if not again:
                continue
            if target < 0:
                target = _best_at(rows, t, g, b)
            if rows.tied[t, g] or not settle_row(rows, t, g, target, flipped, units, a, b):
                opened[n_open, 0], opened[n_open, 1] = t, g
                n_open += 1
                continue
            if moving and changed[target]:
                dirty[t] = True
            if target != w:
                rows.winner[t, g] = target
                dirty[t] = True
                log[n_log, 0], log[n_log, 1], log[n_log, 2] = t, g, target
                n_log += 1
    return n_log, n_open


@kernel
def earliest(low, tokens, found):
    """The row (token, group) with the least lower bound, into ``found``; that bound, and the next one."""
    first, second = np.inf, np.inf
    found[0], found[1] = -1, -1
    for i in range(len(tokens)):
        t = tokens[i]
        for g in range(low.shape[1]):
            value = low[t, g]
            if value < first:
                second, first = first, value
                found[0], found[1] = t, g
            elif value < second:
                second = value
    return first, second
