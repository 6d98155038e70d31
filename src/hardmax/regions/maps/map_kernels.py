r"""Affine maps from signatures, compiled: in floats with error bounds, modulo a prime; and gluing equal ones.

A network is a list of steps (:mod:`hardmax.regions.maps.float_maps`): products with a matrix, sums over the
units that are on, biases, outputs or scores of winning keys. Cells come in lexicographic order of their
signatures, so neighbours in the list share what the first steps give. Both kernels keep the map after every
step of the current cell, and for sums over units the sum after every block of units; they start again where
the signature differs.

A map of :math:`d` inputs is kept as :math:`d + 1` vectors: the coefficients of each input, and last the
constants. Sums run over units and keys in ascending order, whatever the blocking; so a map depends on its
signature only, not on how or when its cell was found.

The float kernel bounds the 2-norm of the error of each of these vectors. If :math:`e` bounds the error
of what enters, :math:`\sigma` the spectral norm of a matrix and :math:`\varphi` its Frobenius norm, then a
product in floats has error at most :math:`\sigma e + \gamma\,(\varphi (\|\hat y\| + e) + \|b\|)` with
:math:`\gamma = (n + 4) u`: rounding of the sums, and of the weights where they are not floats.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hardmax.compiling import kernel

__all__ = ["BLOCK", "close_maps", "COLUMNS", "float_maps", "NORMS", "number_regions", "residue_maps", "unite"]

# kinds of steps
# a matrix; its columns of the units that are on; a bias; outputs of winners; scores of winners
PRODUCT, FOLD, SHIFT, WALL, PICK = range(5)

# columns of the table of steps. A vector is known by its number (0 is the input, k + 1 what step k gives)
# and by where it stands; *_AT are places in flat arrays, -1 for none.
KIND, SOURCE, SOURCE_AT, LENGTH, TARGET_AT, SIZE, SKIP, SKIP_AT = range(8)
MATRIX_AT, OFFSETS_AT, FIRST, COUNT, SUMS_AT = range(8, 13)
COLUMNS = 13

# columns of the table of norms
SIGMA, PHI, NORM, GAMMA = range(4)
NORMS = 4

BLOCK = 64  # units after which a sum is kept
FEW = 3  # outputs so few are summed one by one, in registers

_SLACK = 1.0 + 1e-9  # for the arithmetic of the bounds themselves
_TINY = 1e-290  # for underflow
_LOST = 1e-150  # for numbers whose squares underflow


@intrinsic
def _lowest(typingctx, word):
    """The position of the lowest one of a 64-bit word that is not zero."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@kernel(inlined=True)
def between(low, high):
    """Ones at the places low to high - 1 of a word."""
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(max(low, 0))
    if high < 64:
        mask &= (np.uint64(1) << np.uint64(high)) - np.uint64(1)
    return mask


@kernel(inner=True)
def first_difference(table, bits, routings, cell, before):
    """The first step at which the signatures of two cells differ, and the first unit if it is a fold."""
    for step in range(table.shape[0]):
        first = table[step, FIRST]
        if table[step, KIND] == FOLD:
            stop = first + table[step, LENGTH]
            for word in range(first >> 6, (stop + 63) >> 6):
                difference = bits[cell, word] ^ bits[before, word]
                if difference != np.uint64(0):
                    shift = word << 6
                    difference &= between(first - shift, stop - shift)
                    if difference != np.uint64(0):
                        return step, shift + _lowest(difference) - first
        elif table[step, KIND] == WALL or table[step, KIND] == PICK:
            for head in range(first, first + table[step, COUNT]):
                if routings[cell, head] != routings[before, head]:
                    return step, np.int64(0)
    return table.shape[0], np.int64(0)


@kernel(inner=True)
def choose(kind, bits, cell, first, low, high, chosen):
    """List the columns from ``low`` to ``high`` that a product sums: all, or the units that are on."""
    if kind == PRODUCT:
        for i in range(low, high):
            chosen[i - low] = i
        return high - low
    count = np.int64(0)
    for word in range((first + low) >> 6, (first + high + 63) >> 6):
        shift = word << 6
        left = bits[cell, word] & between(first + low - shift, first + high - shift)
        while left != np.uint64(0):
            chosen[count] = shift + _lowest(left) - first
            count += 1
            left &= left - np.uint64(1)
    return count


@kernel(inner=True)
def add_three(w, at, e, chosen, count, x0, x1, x2, x_at, s0, s1, s2, s_at):
    """Add chosen rows of w (of length e), times three factors each, to three vectors, in order."""
    if e <= FEW:
        for r in range(e):
            a, b, c = s0[s_at + r], s1[s_at + r], s2[s_at + r]
            for k in range(count):
                i = x_at + chosen[k]
                v = w[at + chosen[k] * e + r]
                a += v * x0[i]
                b += v * x1[i]
                c += v * x2[i]
            s0[s_at + r] = a
            s1[s_at + r] = b
            s2[s_at + r] = c
        return
    base = np.uintp(s_at)
    k = 0
    while k < count:
        # four at a time, to load and store the sums less often; the order is kept. Beyond the end, nothing
        # is added by adding zero times the last row.
        i0 = chosen[k]
        i1 = chosen[min(k + 1, count - 1)]
        i2 = chosen[min(k + 2, count - 1)]
        i3 = chosen[min(k + 3, count - 1)]
        if k + 4 <= count:
            a0, a1, a2, a3 = x0[x_at + i0], x0[x_at + i1], x0[x_at + i2], x0[x_at + i3]
            b0, b1, b2, b3 = x1[x_at + i0], x1[x_at + i1], x1[x_at + i2], x1[x_at + i3]
            c0, c1, c2, c3 = x2[x_at + i0], x2[x_at + i1], x2[x_at + i2], x2[x_at + i3]
            p0, p1 = np.uintp(at + i0 * e), np.uintp(at + i1 * e)
            p2, p3 = np.uintp(at + i2 * e), np.uintp(at + i3 * e)
            for place in range(e):
                r = np.uintp(place)
                v0, v1, v2, v3 = w[p0 + r], w[p1 + r], w[p2 + r], w[p3 + r]
                y = base + r
                s0[y] = (((s0[y] + v0 * a0) + v1 * a1) + v2 * a2) + v3 * a3
                s1[y] = (((s1[y] + v0 * b0) + v1 * b1) + v2 * b2) + v3 * b3
                s2[y] = (((s2[y] + v0 * c0) + v1 * c1) + v2 * c2) + v3 * c3
            k += 4
        else:
            a, b, c = x0[x_at + i0], x1[x_at + i0], x2[x_at + i0]
            p = np.uintp(at + i0 * e)
            for place in range(e):
                r = np.uintp(place)
                y = base + r
                s0[y] += w[p + r] * a
                s1[y] += w[p + r] * b
                s2[y] += w[p + r] * c
            k += 1


@kernel(inner=True)
def add_one(w, at, e, chosen, count, x, x_at, s, s_at):
    """``add_three`` for one vector."""
    base = np.uintp(s_at)
    for k in range(count):
        a = x[x_at + chosen[k]]
        p = np.uintp(at + chosen[k] * e)
        for place in range(e):
            r = np.uintp(place)
            s[base + r] += w[p + r] * a


@kernel(inner=True)
def add_columns(w, at, e, chosen, count, x, x_at, s, s_at):
    """Add chosen rows of w (of length e), times the factors of every vector, in order."""
    c = 0
    while c + 3 <= x.shape[0]:
        add_three(w, at, e, chosen, count, x[c], x[c + 1], x[c + 2], x_at, s[c], s[c + 1], s[c + 2], s_at)
        c += 3
    while c < x.shape[0]:
        add_one(w, at, e, chosen, count, x[c], x_at, s[c], s_at)
        c += 1


@kernel(inner=True)
def copy(x, x_at, n, y, y_at):
    """Copy n entries of every vector."""
    source, target = np.uintp(x_at), np.uintp(y_at)
    for c in range(x.shape[0]):
        u, v = x[c], y[c]
        for place in range(n):
            r = np.uintp(place)
            v[target + r] = u[source + r]


@kernel(reorder=True, inner=True)
def measure(x, at, n, sizes, number):
    """Bounds on the 2-norms of all vectors; numbers whose squares underflow are below ``_LOST``."""
    base = np.uintp(at)
    for c in range(x.shape[0]):
        u = x[c]
        total = 0.0
        for place in range(n):
            r = base + np.uintp(place)
            total += u[r] * u[r]
        sizes[number, c] = np.sqrt(total) + _LOST * n


@kernel(inner=True)
def bound_errors(table, norms, step, errors, sizes):
    """The errors of what a step gives: see the head of this module."""
    source, skip, kind = table[step, SOURCE], table[step, SKIP], table[step, KIND]
    constants = errors.shape[1] - 1
    for c in range(constants + 1):
        error, size = errors[source, c], sizes[source, c]
        kept, more = (errors[skip, c], sizes[skip, c]) if skip >= 0 else (0.0, 0.0)
        if kind == SHIFT and c < constants:
            errors[step + 1, c] = error
            continue
        if kind == WALL:
            error, size = 0.0, 0.0
        gamma = norms[step, GAMMA]
        total = norms[step, SIGMA] * error + kept
        if c == constants:
            more += norms[step, NORM]
        elif kind == WALL:
            gamma = 0.0
        if gamma > 0.0:
            total = (total + gamma * (norms[step, PHI] * (size + error) + more)) * _SLACK + _TINY
        errors[step + 1, c] = total


@kernel
def float_maps(
    table, norms, numbers, lookup, lookup_at, bits, routings, start, stop,
    x, s, chosen, errors, sizes, output_at, linear, offset, error,
):  # fmt: skip
    """The maps of cells ``start`` to ``stop`` with bounds on their errors.

    Row c of ``x`` holds vector c of the maps after every step, row c of ``s`` those of the sums under way.
    """
    steps, constants = table.shape[0], x.shape[0] - 1
    for cell in range(start, stop):
        first, unit = np.int64(0), np.int64(0)
        if cell > start:
            first, unit = first_difference(table, bits, routings, cell, cell - 1)
        for step in range(first, steps):
            kind, n, e = table[step, KIND], table[step, LENGTH], table[step, SIZE]
            x_at, y_at, skip_at = table[step, SOURCE_AT], table[step, TARGET_AT], table[step, SKIP_AT]
            offsets_at, at = table[step, OFFSETS_AT], table[step, SUMS_AT]
            heads, head_0 = table[step, COUNT], table[step, FIRST]
            if kind == WALL:
                for c in range(constants + 1):
                    for r in range(e):
                        s[c, at + r] = 0.0
                for head in range(head_0, head_0 + heads):
                    row = table[step, MATRIX_AT] + e * lookup[lookup_at[head] + routings[cell, head]]
                    for r in range(e):
                        s[constants, at + r] += numbers[row + r]
            elif kind == PICK:
                copy(x, x_at, e - heads, s, at)
                for h in range(heads):
                    key = lookup[lookup_at[head_0 + h] + routings[cell, head_0 + h]]
                    row, place = table[step, MATRIX_AT] + n * key, at + e - heads + h
                    for c in range(constants + 1):
                        total = numbers[offsets_at + key] if c == constants else 0.0
                        for i in range(n):
                            total += numbers[row + i] * x[c, x_at + i]
                        s[c, place] = total
            elif kind == SHIFT:
                copy(x, x_at, n, s, at)
                for r in range(n):
                    s[constants, at + r] += numbers[offsets_at + r]
            else:
                width = BLOCK if kind == FOLD else max(n, 1)
                block = unit // BLOCK if kind == FOLD and step == first else 0
                at += block * e
                if block == 0:
                    for c in range(constants):
                        for r in range(e):
                            s[c, at + r] = 0.0
                    for r in range(e):
                        s[constants, at + r] = numbers[offsets_at + r]
                low = block * width
                while low < n:
                    high = min(low + width, n)
                    copy(s, at, e, s, at + e)
                    at += e
                    count = choose(kind, bits, cell, table[step, FIRST], low, high, chosen)
                    add_columns(numbers, table[step, MATRIX_AT], e, chosen, count, x, x_at, s, at)
                    low = high
            copy(s, at, e, x, y_at)
            if skip_at >= 0:
                for c in range(constants + 1):
                    for r in range(e):
                        x[c, y_at + r] += x[c, skip_at + r]
            bound_errors(table, norms, step, errors, sizes)
            measure(x, y_at, e, sizes, step + 1)
        worst, trace = 0.0, 0.0
        for c in range(constants + 1):
            worst = max(worst, errors[steps, c])
            trace += errors[steps, c]
            for r in range(linear.shape[1]):
                value = x[c, output_at + r]
                trace += abs(value)
                if c < constants:
                    linear[cell, r, c] = value
                else:
                    offset[cell, r] = value
        error[cell] = worst if np.isfinite(trace) else np.inf  # an overflow on the way leaves its trace


# Modulo a prime below 2^31
# ----------------------------------------------------------------------------------------------------------


@kernel(inner=True)
def add_residues(w, at, e, chosen, count, x, x_at, s, s_at, prime):
    """``add_columns`` modulo a prime; factors are reduced, sums stay below p 2^32."""
    shifted = np.uint64(prime) << np.uint64(32)
    base = np.uintp(s_at)
    for k in range(count):
        i = x_at + chosen[k]
        p = np.uintp(at + chosen[k] * e)
        for c in range(x.shape[0]):
            a, sums = x[c, i], s[c]
            for place in range(e):
                r = np.uintp(place)
                t = sums[base + r] + np.uint64(w[p + r]) * a
                sums[base + r] = t - shifted if t >= shifted else t


@kernel
def residue_maps(
    table, numbers, lookup, lookup_at, bits, routings, cells, prime, x, s, chosen, output_at, residues
):
    """The maps of some cells (ascending) modulo a prime: rows ``output_at`` and on, as many as fit."""
    steps, constants = table.shape[0], x.shape[0] - 1
    shifted = np.uint64(prime) << np.uint64(32)
    for place in range(len(cells)):
        cell = cells[place]
        first, unit = np.int64(0), np.int64(0)
        if place > 0:
            first, unit = first_difference(table, bits, routings, cell, cells[place - 1])
        for step in range(first, steps):
            kind, n, e = table[step, KIND], table[step, LENGTH], table[step, SIZE]
            x_at, y_at, skip_at = table[step, SOURCE_AT], table[step, TARGET_AT], table[step, SKIP_AT]
            offsets_at, at = table[step, OFFSETS_AT], table[step, SUMS_AT]
            heads, head_0 = table[step, COUNT], table[step, FIRST]
            if kind == WALL:
                for c in range(constants + 1):
                    for r in range(e):
                        s[c, at + r] = np.uint64(0)
                for head in range(head_0, head_0 + heads):
                    row = table[step, MATRIX_AT] + e * lookup[lookup_at[head] + routings[cell, head]]
                    for r in range(e):
                        s[constants, at + r] += np.uint64(numbers[row + r])
            elif kind == PICK:
                copy(x, x_at, e - heads, s, at)
                for h in range(heads):
                    key = lookup[lookup_at[head_0 + h] + routings[cell, head_0 + h]]
                    row = table[step, MATRIX_AT] + n * key
                    for c in range(constants + 1):
                        total = np.uint64(numbers[offsets_at + key]) if c == constants else np.uint64(0)
                        for i in range(n):
                            total += np.uint64(numbers[row + i]) * x[c, x_at + i]
                            if total >= shifted:
                                total -= shifted
                        s[c, at + e - heads + h] = total
            elif kind == SHIFT:
                copy(x, x_at, n, s, at)
                for r in range(n):
                    s[constants, at + r] += np.uint64(numbers[offsets_at + r])
            else:
                width = BLOCK if kind == FOLD else max(n, 1)
                block = unit // BLOCK if kind == FOLD and step == first else 0
                at += block * e
                if block == 0:
                    for c in range(constants):
                        for r in range(e):
                            s[c, at + r] = np.uint64(0)
                    for r in range(e):
                        s[constants, at + r] = np.uint64(numbers[offsets_at + r])
                low = block * width
                while low < n:
                    high = min(low + width, n)
                    copy(s, at, e, s, at + e)
                    at += e
                    count = choose(kind, bits, cell, table[step, FIRST], low, high, chosen)
                    add_residues(numbers, table[step, MATRIX_AT], e, chosen, count, x, x_at, s, at, prime)
                    low = high
            for c in range(constants + 1):
                for r in range(e):
                    a = s[c, at + r]
                    if skip_at >= 0:
                        a += x[c, skip_at + r]
                    x[c, y_at + r] = a % prime
        for r in range(residues.shape[1]):
            for c in range(constants + 1):
                residues[place, r, c] = x[c, output_at + r]


@kernel
def close_maps(linear, offset, error, pairs, close):
    """Mark the pairs whose maps agree within their errors; returns a bound on the differences of those.

    The bound is infinite if some map is.
    """
    widest = 0.0
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        gap = (error[i] + error[j]) * (1.0 + 1e-12)
        agree = True
        for r in range(linear.shape[1]):
            # written so that NaN and infinity count as agreement: floats say nothing then
            for c in range(linear.shape[2]):
                if abs(linear[i, r, c] - linear[j, r, c]) > gap:
                    agree = False
            if not agree or abs(offset[i, r] - offset[j, r]) > gap:
                agree = False
                break
        close[p] = agree
        if agree:
            widest = max(widest, 2.0 * gap if np.isfinite(gap) else np.inf)
    return widest


@kernel
def unite(pairs, same, parent):
    """Union of the cells of every pair that is marked; the root of a set is its first cell."""
    for p in range(len(pairs)):
        if not same[p]:
            continue
        i, j = pairs[p, 0], pairs[p, 1]
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        while parent[j] != j:
            parent[j] = parent[parent[j]]
            j = parent[j]
        if i < j:
            parent[j] = i
        elif j < i:
            parent[i] = j


@kernel
def number_regions(parent, region):
    """Number the sets by their first cell; returns how many there are."""
    count = 0
    for i in range(len(parent)):
        if parent[i] == i:
            region[i] = count
            count += 1
        else:
            region[i] = region[parent[i]]
    return count
