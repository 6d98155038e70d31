r"""The compiled linear programs of the search engine: does a cone, or its part of a box, reach a side?

.. math:: \min\; c \cdot y \quad\text{subject to}\quad g_l \cdot y \ge 0,\; l \le y \le h .

*In a box* :math:`y = (x, 1)` and the bounds are those of the domain: its sides are no rows, so a program has
only as many rows as there are cuts on the way to a cell, in seven dimensions and in seven hundred. A bounded
polytope lies in a box, too, and its sides are rows. *In a cone* (the domain is unbounded) the sides of the
domain and :math:`x_0 > 0` are rows, and :math:`|y_k| \le 1` only keeps the program bounded.

The dual simplex method starts from the corner of the bounds that is best for c and ends in one of two ways.
A point with :math:`c \cdot y < 0`, moved a little towards a point inside, is a witness of the other side; it
is believed when every row is larger there than the bound on its error. Or the multipliers
:math:`\lambda \ge 0` prove that c is positive. In a box the least value of :math:`c - \sum \lambda_l g_l` at
a corner is such a proof, whatever was rounded on the way to :math:`\lambda`. In a cone c must be the
combination :math:`\sum \lambda_l g_l` itself, a Farkas certificate, and an approximate inverse of the basis
proves that the weights of the *exact* rows are positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import CERTIFIED, EXACT, FLOAT, UNIT, copy

# verdicts about one side of a cone
OPEN, INSIDE, EMPTY = 0, 1, 2

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Simplex(NamedTuple):
    """Room for a linear program, its bounds, and its solution ``y``.

    The last variable of the bounds is t, that of a lifted program. ``reach`` is a bound on |y| in a box, and
    zero for a cone. ``sides`` counts the sides of the domain that are bounds. ``work`` counts
    multiplications.
    """

    low: Floats
    high: Floats
    reach: Floats
    sides: Integers
    work: Integers
    lifted: Floats
    lifted_error: Floats
    size: Integers  # how many rows are tight
    tight: Integers  # rows
    free: Integers  # as many variables, those between their bounds
    position: Integers  # of a variable among the free ones; -1: at a bound
    flips: Integers
    inverse: Floats
    square: Floats
    whole: Integers
    codes_kept: Integers
    weights: Floats  # multipliers of the tight rows
    reduced: Floats  # reduced costs of the variables
    falls: Floats
    slopes: Floats
    column: Floats
    sizes: Floats
    y: Floats
    c: Floats


OPTIMAL, BOUNDED, GIVEN_UP = 0, 1, 2  # how a linear program ends
MANY = 32  # variables from which a point is looked for by relaxation before a program is solved
RELAXATIONS = 40


@kernel(reorder=True, inner=True)
def violated(lp, rows, m, skip, n, k):
    """The constraint that y violates most: a row, or -1 - j for a bound of variable j; and by how much."""
    free, low, high, y = lp.free, lp.low, lp.high, lp.y
    least = 1e-11
    found = m
    for i in range(m):
        total = 0.0
        for j in range(n):
            total += rows[i, j] * y[j]
        if -total > least and i != skip:
            least = -total
            found = i
    for f in range(k):  # the others are at their bounds
        j = free[f]
        beyond = max(low[j] - y[j], y[j] - high[j])
        if beyond > least:
            least = beyond
            found = -1 - j
    return found, least


@kernel(reorder=True, inner=True)
def price(lp, rows, entering, n, k):
    """How the multipliers and reduced costs fall as the multiplier of the entering constraint grows."""
    tight, free, inverse, y = lp.tight, lp.free, lp.inverse, lp.y
    falls, slopes = lp.falls, lp.slopes
    if entering >= 0:
        for j in range(n):
            slopes[j] = rows[entering, j]
        for b in range(k):
            a = 0.0
            for f in range(k):
                a += rows[entering, free[f]] * inverse[b, f]
            falls[b] = a
    else:
        j = -1 - entering
        sign = 1.0 if y[j] < lp.low[j] else -1.0
        for i in range(n):
            slopes[i] = 0.0
        slopes[j] = sign
        for b in range(k):
            falls[b] = sign * inverse[b, lp.position[j]]
    for b in range(k):
        a = falls[b]
        for j in range(n):
            slopes[j] -= a * rows[tight[b], j]


@kernel(inner=True)
def first_zero(lp, n, k, slack):
    """The multiplier (b) or the reduced cost (-1 - j) that becomes zero first, with every variable flipped to
    its other bound on the way while the entering constraint stays violated; k: none.

    ``slack`` is by how much it is violated. Returns the place, the step, and what is left of the violation.
    """
    low, high, y, reduced, slopes = lp.low, lp.high, lp.y, lp.reduced, lp.slopes
    least, last, pivot = np.inf, k, 0.0
    for b in range(k):
        a = lp.falls[b]
        if a > 1e-11:
            ratio = lp.weights[b] / a
            if ratio < least - 1e-13 or (ratio <= least + 1e-13 and a > pivot):
                least, last, pivot = ratio, b, a
    flipped = 0
    while True:
        nearest, variable, size = np.inf, -1, 0.0
        for j in range(n):
            if lp.position[j] >= 0 or low[j] == high[j]:
                continue
            a = slopes[j] if y[j] == low[j] else -slopes[j]
            if a > 1e-11:
                ratio = max(reduced[j] if y[j] == low[j] else -reduced[j], 0.0) / a
                if ratio < nearest - 1e-13 or (ratio <= nearest + 1e-13 and a > size):
                    nearest, variable, size = ratio, j, a
        # bounds go first: without them the certificate of a cone is complete
        if variable < 0 or nearest > least + 1e-13:
            return last, least, slack, flipped
        width = high[variable] - low[variable]
        if size * width >= slack:
            return -1 - variable, nearest, slack, flipped
        slack -= size * width
        # its reduced cost changes sign when the step is made, as it should at the other bound
        y[variable] = high[variable] if y[variable] == low[variable] else low[variable]
        lp.flips[flipped] = variable
        flipped += 1


@kernel(reorder=True, inner=True)
def follow_flips(lp, rows, flipped, k):
    """Free variables move so that tight rows stay tight where others were flipped."""
    tight, free, inverse, y = lp.tight, lp.free, lp.inverse, lp.y
    for b in range(k):
        moved = 0.0
        for i in range(flipped):
            j = lp.flips[i]
            width = lp.high[j] - lp.low[j]
            moved += rows[tight[b], j] * (width if y[j] == lp.high[j] else -width)
        for f in range(k):
            y[free[f]] -= moved * inverse[b, f]


@kernel(reorder=True, inner=True)
def exchange(lp, rows, entering, leaving, step, slack, target, n, k):
    """One pivot: a row or bound enters, a tight row or the bound of a variable leaves; returns the number of
    tight rows, or -1 if the pivot is lost in rounding. A bound that enters puts its variable at ``target``.

    ``inverse[b]`` is the direction of the free variables in which only the b-th tight row grows, by one.
    """
    tight, free, position = lp.tight, lp.free, lp.position
    inverse, weights, y, reduced = lp.inverse, lp.weights, lp.y, lp.reduced
    falls, column = lp.falls, lp.column
    for b in range(k):
        weights[b] = max(weights[b] - step * falls[b], 0.0)
    for j in range(n):
        reduced[j] -= step * lp.slopes[j]
    bound = -1 - entering if entering < 0 else 0
    at = position[bound]
    if entering < 0:
        reduced[bound] = step if target == lp.low[bound] else -step
    if leaving >= 0:
        # along the direction in which only the leaving row grows
        pivot = inverse[leaving, at] if entering < 0 else falls[leaving]
        if abs(pivot) < 1e-11:
            return -1
        t = (target - y[bound]) / pivot if entering < 0 else slack / pivot
        for f in range(k):
            y[free[f]] += t * inverse[leaving, f]
        if entering >= 0:
            for f in range(k):
                inverse[leaving, f] /= pivot
            for b in range(k):
                if b != leaving:
                    a = falls[b]
                    for f in range(k):
                        inverse[b, f] -= a * inverse[leaving, f]
            tight[leaving] = entering
            weights[leaving] = step
            return k
        for b in range(k):
            if b != leaving:
                a = inverse[b, at] / pivot
                for f in range(k):
                    inverse[b, f] -= a * inverse[leaving, f]
        last = k - 1
        for f in range(k):
            inverse[leaving, f] = inverse[last, f]
        for b in range(last):
            inverse[b, at] = inverse[b, last]
        tight[leaving] = tight[last]
        weights[leaving] = weights[last]
        free[at] = free[last]
        position[free[at]] = at
        position[bound] = -1
        y[bound] = target
        return last
    # a variable leaves its bound; column: how free variables fall as it grows
    variable = -1 - leaving
    for f in range(k):
        column[f] = 0.0
    for b in range(k):
        a = rows[tight[b], variable]
        for f in range(k):
            column[f] += a * inverse[b, f]
    pivot = -column[at] if entering < 0 else lp.slopes[variable]
    if abs(pivot) < 1e-11:
        return -1
    t = (target - y[bound]) / pivot if entering < 0 else slack / pivot
    for f in range(k):
        y[free[f]] -= t * column[f]
    y[variable] += t
    reduced[variable] = 0.0
    if entering < 0:
        for b in range(k):
            a = inverse[b, at] / column[at]
            for f in range(k):
                inverse[b, f] -= a * column[f]
            inverse[b, at] = a
        free[at] = variable
        position[variable] = at
        position[bound] = -1
        y[bound] = target
        return k
    for f in range(k):
        inverse[k, f] = -column[f] / pivot
    for b in range(k):
        a = falls[b]
        for f in range(k):
            inverse[b, f] -= a * inverse[k, f]
        inverse[b, k] = -a / pivot
    inverse[k, k] = 1.0 / pivot
    tight[k] = entering
    weights[k] = step
    free[k] = variable
    position[variable] = k
    return k + 1


@kernel(reorder=True, inner=True)
def minimise(lp, rows, errors, m, skip, c, c_error, n, lifted, most):
    """min c . y subject to rows[l] . y >= 0 (l != skip) and low <= y <= high, by the dual simplex method.

    It starts from the best corner of the bounds and keeps a basis of the tight rows only, as many as there
    are variables between their bounds. A step flips every variable to its other bound that it pays to flip.
    Returns ``OPTIMAL``: ``y`` is, up to rounding. ``BOUNDED``: in a box, c is proven positive (for a
    ``lifted`` program: the rows are proven to have no common point); in a cone, no variable is at a bound, so
    c is the combination ``weights`` of the tight rows. ``GIVEN_UP``: neither after so many pivots.
    """
    low, high, y, reduced = lp.low, lp.high, lp.y, lp.reduced
    boxed = lp.reach[0] > 0.0
    k = 0
    lp.size[0] = 0
    for j in range(n):
        y[j] = low[j] if c[j] > 0.0 else high[j]
        reduced[j] = c[j]
        if boxed and n >= MANY:
            # where c is made of few rows, all reduced costs would become zero together, and the method
            # stall; they only guide it: proofs are about c itself
            odd = 1e-9 * (1.0 + (j * 37 % 97) / 97.0)
            reduced[j] += odd if c[j] > 0.0 else -odd
        lp.position[j] = -1
    for _ in range(most):
        lp.work[0] += (m + k + 3) * n + 2 * k * k
        if boxed:
            total = 0.0
            for j in range(n):
                total += c[j] * y[j]
            if total > 1e-13 * lp.reach[0] and bounded_below(lp, rows, errors, c, c_error, n - lifted, k):
                return BOUNDED
        entering, slack = violated(lp, rows, m, skip, n, k)
        if entering == m:
            return OPTIMAL
        price(lp, rows, entering, n, k)
        target = 0.0
        if entering < 0:
            j = -1 - entering
            target = low[j] if y[j] < low[j] else high[j]
        leaving, step, left, flipped = first_zero(lp, n, k, slack)
        if leaving == k:
            return GIVEN_UP
        if flipped > 0:
            lp.work[0] += flipped * (n + k)
            follow_flips(lp, rows, flipped, k)
        k = exchange(lp, rows, entering, leaving, step, left, target, n, k)
        if k < 0:
            return GIVEN_UP
        lp.size[0] = k
        if k == n:
            return BOUNDED
    return GIVEN_UP


@kernel(reorder=True, inner=True)
def bounded_below(lp, rows, errors, c, c_error, n, k):
    r"""Whether the exact c is provably positive where the exact tight rows are nonnegative in the box.

    For any :math:`\lambda \ge 0`, there :math:`c \cdot y \ge (c - \sum_l \lambda_l g_l) \cdot y`, and
    that is least at a corner of the box: its value is computed and bounded with all its rounding. ``errors``
    are bounds in 2-norm, and |y| is at most ``reach`` in the box.
    """
    tight, weights, low, high = lp.tight, lp.weights, lp.low, lp.high
    moved = c_error
    for b in range(k):
        if weights[b] > 0.0:
            moved += errors[tight[b]] * weights[b]
    total = 0.0
    unsure = 0.0
    for j in range(n):
        lp.column[j] = c[j]
        lp.sizes[j] = abs(c[j])
    for b in range(k):
        a = weights[b]
        if a > 0.0:
            for j in range(n):
                term = a * rows[tight[b], j]
                lp.column[j] -= term
                lp.sizes[j] += abs(term)
    for j in range(n):
        corner = low[j] if lp.column[j] > 0.0 else high[j]
        total += lp.column[j] * corner
        unsure += lp.sizes[j] * max(abs(low[j]), abs(high[j]))
    return total > 1.001 * (moved * lp.reach[0] + (2.0 * n + k + 8.0) * UNIT * unsure) + 1e-280


@kernel(reorder=True, inner=True)
def certify(lp, rows, errors, c, c_error, n):
    r"""Whether the exact c is provably a positive combination of the exact basic rows.

    Columns of A are the basic rows, X is the transposed ``inverse``, nearly :math:`A^{-1}`. With :math:`\rho
    = \|I - XA\|_\infty < 1` for all rows within their errors, A is invertible, and the exact weights differ
    from w by at most :math:`\|X(c - Aw)\|_\infty / (1 - \rho)`; every sum is bounded with its own rounding.
    ``errors`` are bounds in 2-norm.
    """
    tight, free, inverse, weights = lp.tight, lp.free, lp.inverse, lp.weights
    gamma = (n + 4) * UNIT
    moved = c_error
    for b in range(n):
        if not weights[b] > 0.0:
            return False
        moved += errors[tight[b]] * weights[b]
    worst = 0.0
    shift = 0.0
    for i in range(n):
        # row i of X is inverse[i]
        length = 0.0
        for k in range(n):
            length += inverse[i, k] * inverse[i, k]
        length = 1.0001 * np.sqrt(length)
        if not length < 1e100:
            return False
        rho = 0.0
        for j in range(n):
            row = tight[j]
            entry = 0.0
            size = 0.0
            for k in range(n):
                term = inverse[i, k] * rows[row, free[k]]
                entry += term
                size += abs(term)
            if i == j:
                entry -= 1.0
                size += 1.0
            rho += abs(entry) + gamma * size + length * errors[row]
        worst = max(worst, rho)
        total = length * moved
        for k in range(n):
            rest = c[free[k]]
            size = abs(rest)
            for b in range(n):
                term = rows[tight[b], free[k]] * weights[b]
                rest -= term
                size += abs(term)
            total += abs(inverse[i, k]) * (abs(rest) + 2.0 * gamma * size)
        shift = max(shift, total)
    if not 1.0001 * worst < 0.5:
        return False
    radius = 1.001 * shift / (1.0 - 1.0001 * worst) + 1e-280
    proven = True
    for b in range(n):
        proven = proven and weights[b] > radius
    return proven


@kernel(inlined=True)
def proven_positive(lp, rows, errors, c, c_error, n, trust):
    """Whether a program that ended as ``BOUNDED`` proves what it says; in a box it has proven it already."""
    return lp.reach[0] > 0.0 or trust == FLOAT or certify(lp, rows, errors, c, c_error, n)


@kernel(inner=True)
def follows(lp, rows, errors, m, skip, z, z_error, n, trust):
    """Whether z is provably positive on the cone of the rows but ``skip``."""
    lifted = 0
    if minimise(lp, rows, errors, m, skip, z, z_error, n, lifted, 40 + 10 * n) != BOUNDED:
        return False
    return proven_positive(lp, rows, errors, z, z_error, n, trust)


@kernel(reorder=True, inlined=True)
def dot(rows, i, y, n):
    """The product of row i and a vector."""
    total = 0.0
    for k in range(n):
        total += rows[i, k] * y[k]
    return total


@kernel(reorder=True, inlined=True)
def length_of(y, n):
    """The 2-norm of a vector."""
    total = 0.0
    for k in range(n):
        total += y[k] * y[k]
    return np.sqrt(total)


@kernel(inlined=True)
def noise(error, n, trust):
    """The value of a unit row at a unit vector is off by at most this; NaN, from which nothing is certain,
    when nothing may be decided in floats."""
    if trust == FLOAT:
        return 1e-12
    if trust == EXACT:
        return np.nan
    return 1.001 * (error + (n + 3) * UNIT)


@kernel(inner=True)
def normalised(lp, y, n):
    """Bring a vector to last entry 1 in a box, else to largest entry 1; False if that is not possible."""
    if lp.reach[0] > 0.0:
        y[n - 1] = 1.0
        return True
    largest = 0.0
    for k in range(n):
        largest = max(largest, abs(y[k]))
    if not (largest > 1e-200 and largest < 1e200):
        return False
    for k in range(n):
        y[k] /= largest
    return True


@kernel(inlined=True)
def from_sides(lp, y, k):
    """How far coordinate k is provably from the sides of the box; bounds are off by less than two digits."""
    low, high = lp.low[k], lp.high[k]
    below = y[k] - low - 5.0 * UNIT * (abs(low) + abs(y[k])) - 1e-300
    above = high - y[k] - 5.0 * UNIT * (abs(high) + abs(y[k])) - 1e-300
    return min(below, above)


@kernel(inner=True)
def clearance(lp, rows, errors, m, skip, y, n, trust):
    """How far inside all rows, and the box, a vector is provably, relative to its length; not positive: not
    provably."""
    length = length_of(y, n)
    least = np.inf
    for i in range(m):
        if i != skip:
            least = min(least, dot(rows, i, y, n) - length * noise(errors[i], n, trust))
            if not least > 0.0:
                return least
    if lp.reach[0] > 0.0:
        for k in range(n - 1):
            least = min(least, from_sides(lp, y, k))
            if not least > 0.0:
                return least
    return least / length


@kernel(inner=True)
def lift(lp, rows, errors, m, skip, n):
    """The rows but ``skip`` with one more variable, t: rows[l] . y >= t; returns how many there are."""
    count = 0
    for i in range(m):
        if i != skip:
            copy(rows[i], 0, lp.lifted[count], 0, n)
            lp.lifted[count, n] = -1.0
            lp.lifted_error[count] = errors[i]
            count += 1
    return count


@kernel(inner=True)
def into_box(lp, rows, m, y, n):
    """Move a vector towards the middle of the box, half as far as the rows allow and at most half-way."""
    most = 1.0
    middle, low, high = lp.column, lp.low, lp.high
    for k in range(n):
        middle[k] = 0.5 * low[k] + 0.5 * high[k]
    for i in range(m):
        here, there = dot(rows, i, y, n), dot(rows, i, middle, n)
        if there < 0.0:
            most = min(most, max(here, 0.0) / (max(here, 0.0) - there))
    for k in range(n - 1):
        y[k] += 0.5 * most * (middle[k] - y[k])


@kernel(inner=True)
def largest_lifted(lp, m, n, trust):
    """Is there a y at which m lifted rows are positive? The largest t says."""
    rows, error, c, outside = lp.lifted, lp.lifted_error, lp.c, -1
    for k in range(n):
        c[k] = 0.0
    c[n] = -1.0
    lifted, exact = 1, 0.0
    if minimise(lp, rows, error, m, outside, c, exact, n + 1, lifted, 60 + 20 * n) == BOUNDED:
        if trust == FLOAT:
            return EMPTY
        proven = trust == CERTIFIED and proven_positive(lp, rows, error, c, exact, n + 1, trust)
        return EMPTY if proven else OPEN
    if lp.reach[0] > 0.0:
        into_box(lp, rows, m, lp.y, n)
    if normalised(lp, lp.y, n) and clearance(lp, rows, error, m, outside, lp.y, n, trust) > 0.0:
        return INSIDE
    return EMPTY if trust == FLOAT else OPEN


@kernel(inner=True)
def largest_margin(lp, rows, errors, m, n, trust):
    """Is there a y with rows[l] . y > 0 for all l? ``INSIDE`` (with y), ``EMPTY``, or ``OPEN``.

    The largest t with rows[l] . y >= t in the box |y|_k <= 1 is a linear program in one more variable.
    """
    return largest_lifted(lp, lift(lp, rows, errors, m, -1, n), n, trust)


@kernel(inner=True)
def slopes_of(rows, errors, codes, signs, m, n):
    """Overwrite rows with their slopes at length 1, and return how many there are: the row of x_0, which has
    none, is left out."""
    count = 0
    for i in range(m):
        square = 0.0
        for k in range(n - 1):
            square += rows[i, k] * rows[i, k]
        if square == 0.0 and errors[i] == 0.0:
            continue
        length = np.sqrt(square)
        sure = errors[i] < 0.1 * length
        errors[count] = 1.01 * errors[i] / length + 2.0 * UNIT if sure else np.inf
        for k in range(n - 1):
            rows[count, k] = rows[i, k] / length if sure else 0.0
        codes[count], signs[count] = codes[i], signs[i]
        count += 1
    return count


@kernel(inner=True)
def grows_somewhere(lp, rows, errors, codes, signs, m, n, trust):
    """Is there a direction in which all rows grow, so that the cell is unbounded? ``EMPTY``: it is bounded.

    Overwrites the rows with their slopes.
    """
    count = slopes_of(rows, errors, codes, signs, m, n)
    if count == 0:
        return INSIDE
    return largest_margin(lp, rows, errors, count, n - 1, trust)


@kernel(inner=True)
def step_across(lp, rows, errors, m, skip, z, z_error, w, n, trust):
    """A point beyond z = 0 on the way from w straight across, if the cone reaches far enough there.

    It costs as much as one pivot. The step goes to the middle of what lies beyond, at most as far as w is in
    front of z = 0.
    """
    y, boxed = lp.y, lp.reach[0] > 0.0
    lp.work[0] += 2 * m * n
    d = n - 1 if boxed else n
    square = 0.0
    for k in range(d):
        square += z[k] * z[k]
    height = 0.0
    for k in range(n):
        height += z[k] * w[k]
    if not (square > 1e-20 and height > 0.0):
        return False
    crossing = height / square
    far = 3.0 * crossing
    for i in range(m):
        if i != skip:
            fall = 0.0
            for k in range(d):
                fall += rows[i, k] * z[k]
            if fall > 0.0:
                far = min(far, dot(rows, i, w, n) / fall)
    if boxed:
        for k in range(d):
            if z[k] != 0.0:
                side = w[k] - lp.low[k] if z[k] > 0.0 else lp.high[k] - w[k]
                far = min(far, side / abs(z[k]))
    if not far > 1.01 * crossing:
        return False
    t = 0.5 * (crossing + far)
    for k in range(d):
        y[k] = w[k] - t * z[k]
    if boxed:
        y[d] = 1.0
    return far_enough(lp, rows, errors, m, skip, z, z_error, n, trust)


@kernel(reorder=True, inner=True)
def relaxed(lp, rows, m, skip, z, w, n, margin):
    """A point beyond z = 0 by the relaxation method: w is reflected at whatever it violates, again and again.

    It is worth its price in many dimensions, where few rows are near to each other. Every row but ``skip``
    shall be at least ``margin``. Returns whether all are after some rounds.
    """
    y, d = lp.y, n - 1 if lp.reach[0] > 0.0 else n
    copy(w, 0, y, 0, n)
    for _ in range(RELAXATIONS):
        lp.work[0] += 2 * (m + 1) * n
        settled = True
        for i in range(-1, m):
            if i == skip and i >= 0:
                continue
            row = z if i < 0 else rows[i]
            sign = -1.0 if i < 0 else 1.0
            value = 0.0
            for k in range(n):
                value += row[k] * y[k]
            value *= sign
            if value < margin:
                settled = False
                square = 0.0
                for k in range(d):
                    square += row[k] * row[k]
                if not square > 1e-20:
                    return False
                t = sign * (2.0 * margin - value) / square
                for k in range(d):
                    y[k] += t * row[k]
        if lp.reach[0] > 0.0:
            for k in range(d):
                width = lp.high[k] - lp.low[k]
                if y[k] < lp.low[k] + 1e-3 * width or y[k] > lp.high[k] - 1e-3 * width:
                    settled = False
                    y[k] = min(max(y[k], lp.low[k] + 2e-3 * width), lp.high[k] - 2e-3 * width)
        if settled:
            return True
    return False


@kernel(inner=True)
def reaches(lp, rows, errors, m, skip, z, z_error, w, n, trust):
    """Whether a point in the cone with z < 0 is found without a program; w is inside, with z . w > 0."""
    if step_across(lp, rows, errors, m, skip, z, z_error, w, n, trust):
        return True
    if n < MANY:
        return False
    length = length_of(w, n)
    for margin in (1e-3, 3e-5):
        if relaxed(lp, rows, m, skip, z, w, n, margin * length) and far_enough(
            lp, rows, errors, m, skip, z, z_error, n, trust
        ):
            return True
    return False


@kernel(inner=True)
def far_enough(lp, rows, errors, m, skip, z, z_error, n, trust):
    """Whether ``y`` is clearly inside all rows but ``skip`` and clearly where z < 0."""
    y = lp.y
    if not normalised(lp, y, n):
        return False
    length = length_of(y, n)
    below = -length * noise(z_error, n, trust)
    for k in range(n):
        below -= z[k] * y[k]
    if not below > 1e-6 * length:
        return False
    return clearance(lp, rows, errors, m, skip, y, n, trust) > 1e-6


@kernel(inner=True)
def other_side(lp, rows, errors, m, z, z_error, w, n, trust, skip):
    """Does the cone reach where z < 0, given w inside with z . w > 0? ``y`` is the witness if so."""
    y, lifted = lp.y, 0
    if reaches(lp, rows, errors, m, skip, z, z_error, w, n, trust):
        return INSIDE
    if minimise(lp, rows, errors, m, skip, z, z_error, n, lifted, 40 + 10 * n) == BOUNDED:
        return EMPTY if proven_positive(lp, rows, errors, z, z_error, n, trust) else OPEN
    above = 0.0
    below = 0.0
    for k in range(n):
        above += z[k] * w[k]
        below -= z[k] * y[k]
    if below > 1e-9 and above > 0.0:
        # half-way from where the segment to w crosses z = 0
        crossing = above / (above + below)
        t = 0.5 * (1.0 + crossing)
        for k in range(n):
            y[k] = t * y[k] + (1.0 - t) * w[k]
        if far_enough(lp, rows, errors, m, skip, z, z_error, n, trust):
            return INSIDE
    # a thin place: look for the best point there
    count = lift(lp, rows, errors, m, skip, n)
    for k in range(n):
        lp.lifted[count, k] = -z[k]
    lp.lifted[count, n] = -1.0
    lp.lifted_error[count] = z_error
    return largest_lifted(lp, count + 1, n, trust)
