r"""Proofs that rows which only just are never positive together, are not: an exact linear dependence.

A unit often touches a cone without cutting it: :math:`z = \sum_l \lambda_l g_l` with positive
:math:`\lambda_l` and fewer rows :math:`g_l` than there are variables. Errors of floats, however small, hide
that. It is proven in two steps. *Floats* prove that the rows :math:`g_l` are independent and that the weights
which reproduce z in as many coordinates are positive (:func:`simplex_kernels.certify`). Then z is that
combination in *all* coordinates if it depends on the rows, which is a statement about a rank and is proven
without any error, in one of three ways:

- there are as many rows as variables;
- all rows are composed of the k units of an earlier layer that are on, and a constant, and there are k + 1
  of them: a space of dimension at most k + 1 has no room for one more;
- the rows are whole numbers (weights of few bits), and modulo primes whose product exceeds every minor
  (Hadamard's bound) the rank does not grow with z.
"""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel
from hardmax.exact.residues import primes_below
from hardmax.regions.engine.layer_kernels import CERTIFIED, FOLD, UNIT, copy, layer_row
from hardmax.regions.search.integer_kernels import DIGITS, whole_row
from hardmax.regions.search.simplex_kernels import (
    EMPTY,
    GIVEN_UP,
    INSIDE,
    OPEN,
    certify,
    largest_margin,
    length_of,
    minimise,
    slopes_of,
)

_list = primes_below(1 << 31)
PRIMES = np.array([next(_list) for _ in range(24)])
PRIME_BITS = 30.9  # of each
SMALL = 1e-9  # multipliers up to this are taken for zero, and the rest must do
BOUND = 1 << 62  # code of the bound of a variable: BOUND + 2 j + (1 for the upper one)


@kernel(inner=True)
def bound_row(lp, j, upper, n, out):
    """The row of the bound of a variable in the box, positive inside; returns by what it was divided."""
    end = lp.high[j] if upper == 1 else lp.low[j]
    sign = -1.0 if upper == 1 else 1.0
    for k in range(n):
        out[k] = 0.0
    length = np.sqrt(1.0 + end * end)
    out[j] = sign / length
    out[n - 1] = -sign * end / length
    return length


@kernel(inner=True)
def gather(lp, rows, errors, codes, signs, n):
    """The rows that a solved program needs to make up its objective: written to ``lifted``, with their codes
    and signs in ``codes_kept``; returns how many, -1 if there is no room."""
    kept, k = 0, lp.size[0]
    room = min(lp.lifted.shape[0], lp.codes_kept.shape[0] - 1, n)
    for b in range(k):
        if lp.weights[b] > SMALL:
            if kept == room:
                return -1
            i = lp.tight[b]
            copy(rows[i], 0, lp.lifted[kept], 0, n)
            lp.lifted_error[kept] = errors[i]
            lp.codes_kept[kept, 0] = codes[i]
            lp.codes_kept[kept, 1] = signs[i]
            kept += 1
    if lp.reach[0] > 0.0:
        for j in range(n - 1):
            if lp.position[j] < 0 and abs(lp.reduced[j]) > SMALL:
                if kept == room:
                    return -1
                upper = 1 if lp.y[j] == lp.high[j] else 0
                bound_row(lp, j, upper, n, lp.lifted[kept])
                lp.lifted_error[kept] = 4.0 * UNIT
                lp.codes_kept[kept, 0] = BOUND + 2 * j + upper
                lp.codes_kept[kept, 1] = 1
                kept += 1
    return kept


@kernel(inner=True)
def invert(lp, k, n):
    """Choose as many columns as there are rows in ``lifted``, and invert that part of them; False: it is
    nearly singular. ``free`` are the columns; ``inverse[i]`` times row j is 1 for i = j, else 0."""
    a, x, free = lp.square, lp.inverse, lp.free
    for i in range(k):
        copy(lp.lifted[i], 0, a[i], 0, n)
        for j in range(k):
            x[i, j] = 1.0 if i == j else 0.0  # a = x times the rows
    for step in range(k):
        best, row, column = 0.0, step, 0
        for i in range(step, k):
            for j in range(n):
                if abs(a[i, j]) > best:
                    best, row, column = abs(a[i, j]), i, j
        if not best > 1e-7:
            return False
        for j in range(n):
            a[step, j], a[row, j] = a[row, j], a[step, j]
        for j in range(k):
            x[step, j], x[row, j] = x[row, j], x[step, j]
        free[step] = column
        pivot = a[step, column]
        for j in range(n):
            a[step, j] /= pivot
        for j in range(k):
            x[step, j] /= pivot
        for i in range(k):
            factor = a[i, column]
            if i != step and factor != 0.0:
                for j in range(n):
                    a[i, j] -= factor * a[step, j]
                for j in range(k):
                    x[i, j] -= factor * x[step, j]
    # x is the inverse of the chosen columns; its transpose has the direction that belongs to a row as a row
    for i in range(k):
        for j in range(i):
            x[i, j], x[j, i] = x[j, i], x[i, j]
    return True


@kernel(inner=True)
def made_of_few(net, path_signs, codes, count, most, layers, infinity):
    """Whether rows, or their slopes, are known to lie in a space of at most so many dimensions: functions of
    the units that are on in one of the first layers. A constant is one more function."""
    for layer in range(layers):
        here = layer_row(net.table, layer)
        if here.kind != FOLD or here.skip == 1:
            continue
        inside = True
        for i in range(count):
            code = codes[i, 0]
            if code == infinity:
                continue
            # a fold or wall of a later layer, or a unit of this one that is on
            later = code >= 0 and code < BOUND and code >> 54 > layer
            own = code >= 0 and code < BOUND and code >> 54 == layer and codes[i, 1] > 0
            inside = inside and (later or own)
        if not inside:
            continue
        on = 0
        for j in range(here.words):
            word = np.uint64(path_signs[here.sign_at + 2 + j])
            while word != np.uint64(0):
                word &= word - np.uint64(1)
                on += 1
        if on <= most:
            return True
    return False


@kernel(inner=True)
def whole(n, net, units, path, errors, code, sign, infinity, lp, out):
    """A row as whole numbers, up to a positive factor; False: it is not known as such."""
    if code < BOUND:
        return whole_row(n, net, units, path, errors, code, sign, infinity, out)
    j, upper = (code - BOUND) >> 1, (code - BOUND) & 1
    if not units.box[0] > 0.0:
        return False
    end, one = (lp.high[j] if upper == 1 else lp.low[j]) / units.box[0], 1.0 / units.box[0]
    if not (abs(end) < DIGITS and one < DIGITS):
        return False
    for i in range(n):
        out[i] = 0.0
    out[j] = -one if upper == 1 else one
    out[n - 1] = end if upper == 1 else -end
    return True


@kernel(inner=True)
def power(base, exponent, prime):
    """A power modulo a prime below 2^31."""
    result = 1
    while exponent > 0:
        if exponent & 1:
            result = result * base % prime
        base = base * base % prime
        exponent >>= 1
    return result


@kernel(inner=True)
def rank_at_most(n, a, count, most, prime):
    """Whether rows of residues have at most this rank modulo the prime; overwrites them."""
    rank = 0
    for column in range(n):
        pivot = -1
        for i in range(rank, count):
            if a[i, column] != 0:
                pivot = i
                break
        if pivot < 0:
            continue
        if rank == most:
            return False
        for j in range(column, n):
            a[rank, j], a[pivot, j] = a[pivot, j], a[rank, j]
        scale = power(a[rank, column], prime - 2, prime)
        for i in range(rank + 1, count):
            if a[i, column] != 0:
                factor = prime - a[i, column] * scale % prime
                for j in range(column, n):
                    a[i, j] = (a[i, j] + factor * a[rank, j]) % prime
        rank += 1
    return True


@kernel(inner=True)
def dependent_as_integers(n, columns, net, units, path, errors, codes, count, most, infinity, lp):
    """Whether the first columns of rows have rank ``most`` at most, by residues of whole numbers."""
    bits = 1.0
    for i in range(count):
        if not whole(n, net, units, path, errors, codes[i, 0], codes[i, 1], infinity, lp, lp.square[i]):
            return False
        square = 0.0
        for j in range(columns):
            square += lp.square[i, j] * lp.square[i, j]
        if not square >= 1.0:
            return False
        bits += 0.5 * np.log2(square) + 1e-6
    used = 0
    while bits > 0.0:
        if used == PRIMES.shape[0]:
            return False
        prime = PRIMES[used]
        for i in range(count):
            for j in range(columns):
                value = np.int64(lp.square[i, j]) % prime
                lp.whole[i, j] = value + prime if value < 0 else value
        if not rank_at_most(columns, lp.whole, count, most, prime):
            return False
        bits -= PRIME_BITS
        used += 1
    return True


@kernel(inner=True)
def combination(lp, z, z_error, k, n):
    """Whether, in some k of n coordinates, z is proven to be a positive combination of the k rows in
    ``lifted``, and these are proven to be independent."""
    if not invert(lp, k, n):
        return False
    for i in range(k):
        lp.tight[i] = i
        lp.weights[i] = 0.0
        for j in range(k):
            lp.weights[i] += lp.inverse[i, j] * z[lp.free[j]]
    return certify(lp, lp.lifted, lp.lifted_error, z, z_error, k)


@kernel(inner=True)
def heaviest(lp):
    """The row with the largest multiplier in the program that was solved last; -1 if none has one."""
    row, most = -1, SMALL
    for b in range(lp.size[0]):
        if lp.weights[b] > most:
            row, most = lp.tight[b], lp.weights[b]
    return row


@kernel(inner=True)
def never_negative(
    n, net, units, path, errors, path_signs, rows, row_errors, codes, signs, m, skip, z, z_error, z_code,
    infinity, lp,
):  # fmt: skip
    """Whether z is proven positive where m rows but ``skip`` are (and in the box): a positive combination of
    some of them, found by a program and proven as the head of this module says."""
    lifted = 0
    if minimise(lp, rows, row_errors, m, skip, z, z_error, n, lifted, 40 + 10 * n) == GIVEN_UP:
        return False
    k = gather(lp, rows, row_errors, codes, signs, n)
    if k < 1 or not combination(lp, z, z_error, k, n):
        return False
    if k == n:
        return True
    kept = lp.codes_kept
    kept[k, 0], kept[k, 1] = z_code, 1
    if made_of_few(net, path_signs, kept, k, k - 1, z_code >> 54, infinity):  # the constant is the last
        return True
    return dependent_as_integers(n, n, net, units, path, errors, kept, k + 1, k, infinity, lp)


@kernel(inner=True)
def without(lp, rows, errors, i, k, g):
    """Row i without the k rows in ``lifted`` that were inverted, in the other coordinates, in ``column``;
    returns the bound on its error.

    The exact coefficients differ from those computed by at most twice the norm of the inverse times what is
    left in the chosen coordinates, because the inverse is right up to a factor of one half.
    """
    inverse, free, kept = lp.inverse, lp.free, lp.lifted
    largest = sizes = unsure = 0.0
    for b in range(k):
        total, norm = 0.0, 0.0
        for f in range(k):
            total += inverse[b, f] * rows[i, free[f]]
            norm += abs(inverse[b, f])
        lp.falls[b] = total
        largest = max(largest, norm)
        sizes += abs(total)
        unsure += abs(total) * lp.lifted_error[b]
    rest = 0.0
    for f in range(k):
        left = rows[i, free[f]]
        for b in range(k):
            left -= lp.falls[b] * kept[b, free[f]]
        rest = max(rest, abs(left))
    rounding = 2.0 * (k + 4) * UNIT * (1.0 + sizes)
    unsure += errors[i]
    at = 0
    for j in range(g):
        if lp.position[j] < 0:
            value = rows[i, j]
            for b in range(k):
                value -= lp.falls[b] * kept[b, j]
            lp.column[at] = value
            at += 1
    coefficients = 2.01 * largest * (rest + unsure + rounding)
    return 1.01 * (unsure + (k + 1) * coefficients + rounding * np.sqrt(g + 1.0))


@kernel(inner=True)
def recedes(
    n, net, units, path, errors, path_signs, layer, rows, row_errors, codes, signs, m, infinity, trust, lp
):  # fmt: skip
    """Is there a direction in which no row falls, so that the cell is unbounded? ``EMPTY``: it is bounded.

    Rows whose positive combination vanishes are constant in every such direction. Where that is proven, the
    question goes on in the coordinates that they leave, without the rows that are proven to depend on
    them. Overwrites the rows.
    """
    count = slopes_of(rows, row_errors, codes, signs, m, n)
    g, gone, kept, z = n - 1, 0, lp.codes_kept, lp.c
    while True:
        if count == 0 or g == 0:
            return INSIDE if g > 0 else EMPTY
        verdict = largest_margin(lp, rows, row_errors, count, g, trust)
        if verdict != OPEN or trust != CERTIFIED:
            return verdict
        k = 0
        for b in range(lp.size[0]):
            if lp.weights[b] > SMALL:
                lp.flips[k] = lp.tight[b]
                k += 1
        if k < 2 or k > g + 1 or gone + k > n:
            return OPEN
        k -= 1
        last = lp.flips[k]
        for b in range(k + 1):
            i = lp.flips[b]
            kept[gone + b, 0], kept[gone + b, 1] = codes[i], signs[i]
            if b < k:
                copy(rows[i], 0, lp.lifted[b], 0, g)
                lp.lifted_error[b] = row_errors[i]
        for j in range(g):
            z[j] = -rows[last, j]
        if not combination(lp, z, row_errors[last], k, g):
            return OPEN
        if k == g:
            return EMPTY
        gone += k
        if not (
            made_of_few(net, path_signs, kept, gone + 1, gone, layer, infinity)
            or dependent_as_integers(n, n - 1, net, units, path, errors, kept, gone + 1, gone, infinity, lp)
        ):
            return OPEN
        for j in range(g):
            lp.position[j] = -1
        for f in range(k):
            lp.position[lp.free[f]] = f
        left = 0
        for i in range(count):
            among = False
            for b in range(k + 1):
                among = among or lp.flips[b] == i
            if among:
                continue
            error = without(lp, rows, row_errors, i, k, g)
            length = length_of(lp.column, g - k)
            if error < 0.1 * length:
                for j in range(g - k):
                    rows[left, j] = lp.column[j] / length
                row_errors[left] = 1.01 * error / length + 2.0 * UNIT
                codes[left], signs[left] = codes[i], signs[i]
                left += 1
                continue
            kept[gone, 0], kept[gone, 1] = codes[i], signs[i]
            if not (
                made_of_few(net, path_signs, kept, gone + 1, gone, layer, infinity)
                or dependent_as_integers(
                    n, n - 1, net, units, path, errors, kept, gone + 1, gone, infinity, lp
                )
            ):
                return OPEN
        count = left
        g -= k
