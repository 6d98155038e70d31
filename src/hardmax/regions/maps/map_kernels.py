r"""Affine maps from signatures, compiled: in floats with error bounds, modulo a prime; and gluing equal ones.

The kernels read a network from its :class:`~hardmax.regions.engine.program.Program`, scores by columns: a
unit or a coordinate contributes one contiguous row. Cells come in lexicographic order of their signatures, so
neighbours in the list share what the first layers give. Both kernels keep the map that enters every layer on
the current cell, the scores of fold layers, and the sum after every few units that are on; they start again
where the signature differs.

A map of :math:`d` inputs is kept as :math:`d + 1` vectors: the coefficients of each input, and last the
constants. Sums run over units and keys in ascending order, wherever they start again; so a map depends on its
signature only, not on how or when its cell was found. Its error is bounded as everywhere:
:func:`~hardmax.regions.engine.layer_kernels.enter`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import (
    AFFINE,
    BIASES,
    D_IN,
    D_OUT,
    DA,
    DC,
    FIRST,
    FOLD,
    HEADS,
    KIND,
    NEXT_DA,
    OFFSETS,
    OUTPUTS,
    ROWS,
    SCORES,
    SKIP,
    WALL,
    Y_AT,
    Z_AT,
    bound_errors,
)  # fmt: skip

EVERY = 16  # units that are on after which a sum is kept
FEW = 3  # outputs so few are summed one by one, in registers

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
    """The first layer in which the signatures of two cells differ, and the first unit if it is a fold."""
    layers = table.shape[0] - 1
    for layer in range(layers):
        first = table[layer, FIRST]
        if table[layer, KIND] == FOLD:
            stop = first + table[layer, ROWS]
            for word in range(first >> 6, (stop + 63) >> 6):
                difference = bits[cell, word] ^ bits[before, word]
                if difference != np.uint64(0):
                    shift = word << 6
                    difference &= between(first - shift, stop - shift)
                    if difference != np.uint64(0):
                        return layer, shift + _lowest(difference) - first
        elif table[layer, KIND] == WALL:
            for head in range(first, first + table[layer, HEADS]):
                if routings[cell, head] != routings[before, head]:
                    return layer, np.int64(0)
    return layers, np.int64(0)


@kernel(inner=True)
def units_on(bits, cell, first, low, n, chosen):
    """List the units of a layer from ``low`` on that are on; returns how many."""
    count = np.int64(0)
    for word in range((first + low) >> 6, (first + n + 63) >> 6):
        shift = word << 6
        left = bits[cell, word] & between(first + low - shift, first + n - shift)
        while left != np.uint64(0):
            chosen[count] = shift + _lowest(left) - first
            count += 1
            left &= left - np.uint64(1)
    return count


@kernel(inlined=True)
def sums_before(reached, at, unit):
    """The number of the last sum that was kept before a unit: sum k has all units before ``reached[at + k]``.

    ``reached`` begins with 0 and ends with a number beyond all units.
    """
    k = np.int64(0)
    while reached[at + k + 1] <= unit:
        k += 1
    return k


# places are added as unsigned numbers: a negative one would count from the end, and loops that have to ask
# are not vectorised


@kernel(inner=True)
def clear(x, y, n):
    """Set n entries of every vector to zero."""
    to = np.uintp(y)
    for c in range(x.shape[0]):
        v = x[c]
        for place in range(n):
            v[to + np.uintp(place)] = 0


@kernel(inner=True)
def add_constants(numbers, at, n, x, y):
    """Add n numbers to the constants."""
    here, to, v = np.uintp(at), np.uintp(y), x[x.shape[0] - 1]
    for place in range(n):
        r = np.uintp(place)
        v[to + r] += numbers[here + r]


@kernel(inner=True)
def begin(numbers, at, n, x, y):
    """The vectors of a constant map: zeros, and n numbers."""
    clear(x, y, n)
    add_constants(numbers, at, n, x, y)


@kernel(inner=True)
def add_winners(numbers, outputs, e, lookup, lookup_at, routing, head_0, heads, x, out):
    """What attention adds on a cell: no slopes, and the outputs of the winning keys as constants."""
    clear(x, out, e)
    for head in range(head_0, head_0 + heads):
        add_constants(numbers, outputs + e * lookup[lookup_at[head] + routing[head]], e, x, out)


@kernel(inner=True)
def add_entering(x, y, n, out):
    """Add what enters a layer to what leaves it."""
    here, to = np.uintp(y), np.uintp(out)
    for c in range(x.shape[0]):
        v = x[c]
        for place in range(n):
            r = np.uintp(place)
            v[to + r] += v[here + r]


@kernel(inner=True)
def add_three(w, at, e, chosen, low, high, x0, x1, x2, x_at, s0, s1, s2, s_at):
    """Add rows ``chosen[low:high]`` of w (of length e), times three factors each, to three vectors, in
    order."""
    if e <= FEW:
        for r in range(e):
            a, b, c = s0[s_at + r], s1[s_at + r], s2[s_at + r]
            for k in range(low, high):
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
    k = low
    while k < high:
        # four at a time, to load and store the sums less often; the order is kept. Beyond the end, nothing
        # is added by adding zero times the last row.
        i0 = chosen[k]
        i1 = chosen[min(k + 1, high - 1)]
        i2 = chosen[min(k + 2, high - 1)]
        i3 = chosen[min(k + 3, high - 1)]
        if k + 4 <= high:
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
def add_one(w, at, e, chosen, low, high, x, x_at, s, s_at):
    """``add_three`` for one vector."""
    if e <= FEW:
        for r in range(e):
            a = s[s_at + r]
            for k in range(low, high):
                a += w[at + chosen[k] * e + r] * x[x_at + chosen[k]]
            s[s_at + r] = a
        return
    base = np.uintp(s_at)
    for k in range(low, high):
        a = x[x_at + chosen[k]]
        p = np.uintp(at + chosen[k] * e)
        for place in range(e):
            r = np.uintp(place)
            s[base + r] += w[p + r] * a


@kernel(inner=True)
def add_columns(w, at, e, chosen, low, high, x, x_at, s, s_at):
    """Add rows ``chosen[low:high]`` of w (of length e), times the factors of every vector, in order."""
    c = 0
    while c + 3 <= x.shape[0]:
        add_three(w, at, e, chosen, low, high, x[c], x[c + 1], x[c + 2], x_at, s[c], s[c + 1], s[c + 2], s_at)
        c += 3
    while c < x.shape[0]:
        add_one(w, at, e, chosen, low, high, x[c], x_at, s[c], s_at)
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
def norm(x, c, at, n):
    """A bound on the 2-norm of a vector; numbers whose squares underflow are below ``_LOST``."""
    base, total, u = np.uintp(at), 0.0, x[c]
    for place in range(n):
        r = base + np.uintp(place)
        total += u[r] * u[r]
    return np.sqrt(total) + _LOST * n


@kernel(inner=True)
def measure(x, at, n, sizes, layer, place):
    """Bounds on the norms of all slopes and of the constants, at two places of a row."""
    constants, largest = x.shape[0] - 1, 0.0
    for c in range(constants):
        size = norm(x, c, at, n)
        largest = size if not (size <= largest) else largest  # NaN stays
    sizes[layer, place], sizes[layer, place + 1] = largest, norm(x, constants, at, n)


@kernel
def float_maps(
    table, bounds, numbers, lookup, lookup_at, sums_at, kept_at, bits, routings,
    x, s, reached, chosen, everything, errors, sizes, linear, offset, error,
):  # fmt: skip
    """The maps of all cells with bounds on their errors.

    Row c of ``x`` holds vector c of what enters every layer and of its scores, row c of ``s`` the sums under
    way; ``reached`` says how far each came. ``sizes`` holds the norms of both per layer, slopes before
    constants.
    """
    layers, constants = table.shape[0] - 1, x.shape[0] - 1
    for cell in range(len(bits)):
        first, unit = np.int64(0), np.int64(0)
        if cell > 0:
            first, unit = first_difference(table, bits, routings, cell, cell - 1)
        else:
            measure(x, table[0, Y_AT], constants, sizes, np.int64(0), np.int64(0))
        for layer in range(first, layers):
            kind, m, n, e = table[layer, KIND], table[layer, D_IN], table[layer, ROWS], table[layer, D_OUT]
            y, out, scores = table[layer, Y_AT], table[layer + 1, Y_AT], table[layer, SCORES]
            heads, head_0, outputs = table[layer, HEADS], table[layer, FIRST], table[layer, OUTPUTS]
            if kind == WALL and outputs >= 0:
                add_winners(numbers, outputs, e, lookup, lookup_at, routings[cell], head_0, heads, x, out)
            elif kind == WALL:
                copy(x, y, e - heads, x, out)
                for h in range(heads):
                    key = lookup[lookup_at[head_0 + h] + routings[cell, head_0 + h]]
                    for c in range(constants + 1):
                        total = numbers[table[layer, BIASES] + key] if c == constants else 0.0
                        for i in range(m):
                            total += numbers[scores + i * n + key] * x[c, y + i]
                        x[c, out + e - heads + h] = total
            elif layer > first or cell == 0:
                z = out if kind == AFFINE else table[layer, Z_AT]
                if scores < 0:
                    copy(x, y, n, x, z)
                    add_constants(numbers, table[layer, BIASES], n, x, z)
                else:
                    begin(numbers, table[layer, BIASES], n, x, z)
                    add_columns(numbers, scores, n, everything, 0, m, x, y, x, z)
                measure(x, z, n, sizes, layer, np.int64(2))
            if kind == FOLD:
                kept, at = kept_at[layer], sums_at[layer]
                done = sums_before(reached, kept, unit) if layer == first else np.int64(0)
                if done == 0:
                    begin(numbers, table[layer, OFFSETS], e, s, at)
                count = units_on(bits, cell, head_0, reached[kept + done], n, chosen)
                at += done * e
                low = np.int64(0)
                while low < count:
                    high = min(low + EVERY, count)
                    copy(s, at, e, s, at + e)
                    done += 1
                    at += e
                    add_columns(numbers, outputs, e, chosen, low, high, x, table[layer, Z_AT], s, at)
                    reached[kept + done] = chosen[high - 1] + 1 if high == low + EVERY else n + 1
                    low = high
                reached[kept + done + 1] = n + 1
                copy(s, at, e, x, out)
            if table[layer, SKIP] == 1 and outputs >= 0:
                add_entering(x, y, e, out)
            bound_errors(
                table, layer, bounds[layer], errors[layer],
                sizes[layer, 0], sizes[layer, 1], sizes[layer, 2], sizes[layer, 3],
            )  # fmt: skip
            for i in range(4):
                errors[layer + 1, DA + i] = errors[layer, NEXT_DA + i]
            measure(x, out, e, sizes, layer + 1, np.int64(0))
        worst = max(errors[layers, DA], errors[layers, DC])
        trace = errors[layers, DA] + errors[layers, DC]
        for c in range(constants + 1):
            for r in range(linear.shape[1]):
                value = x[c, table[layers, Y_AT] + r]
                trace += abs(value)
                if c < constants:
                    linear[cell, r, c] = value
                else:
                    offset[cell, r] = value
        error[cell] = 1.0001 * worst if np.isfinite(trace) else np.inf  # an overflow leaves its trace


# Modulo a prime below 2^31
# ----------------------------------------------------------------------------------------------------------


@kernel(inner=True)
def add_residues(w, at, e, chosen, low, high, x, x_at, s, s_at, prime):
    """``add_columns`` modulo a prime p; factors are reduced, sums stay below p 2^32.

    Two products below p^2 are added at a time: p 2^32 + 2 p^2 is below 2^64 and below 2 p 2^32.
    """
    shifted, lower = np.uint64(prime) << np.uint64(32), np.uint64(0xFFFFFFFF)
    base = np.uintp(s_at)
    k = low
    while k < high:
        i0, p0 = chosen[k], np.uintp(at + chosen[k] * e)
        if k + 1 < high:
            i1, p1 = chosen[k + 1], np.uintp(at + chosen[k + 1] * e)
            for c in range(x.shape[0]):
                a0, a1, sums = x[c, x_at + i0] & lower, x[c, x_at + i1] & lower, s[c]
                for place in range(e):
                    r = np.uintp(place)
                    t = sums[base + r] + np.uint64(w[p0 + r]) * a0 + np.uint64(w[p1 + r]) * a1
                    sums[base + r] = min(t, t - shifted)  # where t is smaller, the difference wraps around
        else:
            for c in range(x.shape[0]):
                a0, sums = x[c, x_at + i0] & lower, s[c]
                for place in range(e):
                    r = np.uintp(place)
                    t = sums[base + r] + np.uint64(w[p0 + r]) * a0
                    sums[base + r] = min(t, t - shifted)
        k += 2


@kernel(inner=True)
def reduce(x, y, n, prime):
    """Bring n entries of every vector, all below 2^63, below the prime.

    The quotient is below 2^33, so in floats it is off by one at most.
    """
    to, p, inverse = np.uintp(y), np.int64(prime), 1.0 / np.float64(prime)
    for c in range(x.shape[0]):
        v = x[c]
        for place in range(n):
            r = to + np.uintp(place)
            value = np.int64(v[r])
            rest = value - np.int64(np.float64(value) * inverse) * p
            rest += p & (rest >> 63)  # p where it is negative
            rest -= p
            v[r] = np.uint64(rest + (p & (rest >> 63)))


@kernel
def residue_maps(
    table, numbers, lookup, lookup_at, sums_at, kept_at, bits, routings, cells, prime, x, s, reached, chosen,
    everything, first_row, residues,
):  # fmt: skip
    """The maps of some cells (ascending) modulo a prime: rows ``first_row`` and on, as many as fit."""
    layers, constants = table.shape[0] - 1, x.shape[0] - 1
    shifted = np.uint64(prime) << np.uint64(32)
    for place in range(len(cells)):
        cell = cells[place]
        first, unit = np.int64(0), np.int64(0)
        if place > 0:
            first, unit = first_difference(table, bits, routings, cell, cells[place - 1])
        for layer in range(first, layers):
            kind, m, n, e = table[layer, KIND], table[layer, D_IN], table[layer, ROWS], table[layer, D_OUT]
            y, out, scores = table[layer, Y_AT], table[layer + 1, Y_AT], table[layer, SCORES]
            heads, head_0, outputs = table[layer, HEADS], table[layer, FIRST], table[layer, OUTPUTS]
            if kind == WALL and outputs >= 0:
                add_winners(numbers, outputs, e, lookup, lookup_at, routings[cell], head_0, heads, x, out)
            elif kind == WALL:
                copy(x, y, e - heads, x, out)
                for h in range(heads):
                    key = lookup[lookup_at[head_0 + h] + routings[cell, head_0 + h]]
                    for c in range(constants + 1):
                        total = np.uint64(numbers[table[layer, BIASES] + key] if c == constants else 0)
                        for i in range(m):
                            total += np.uint64(numbers[scores + i * n + key]) * x[c, y + i]
                            if total >= shifted:
                                total -= shifted
                        x[c, out + e - heads + h] = total
            elif layer > first or place == 0:
                z = out if kind == AFFINE else table[layer, Z_AT]
                if scores < 0:
                    copy(x, y, n, x, z)
                    add_constants(numbers, table[layer, BIASES], n, x, z)
                else:
                    begin(numbers, table[layer, BIASES], n, x, z)
                    add_residues(numbers, scores, n, everything, 0, m, x, y, x, z, prime)
                reduce(x, z, n, prime)
            if kind == FOLD:
                kept, at = kept_at[layer], sums_at[layer]
                done = sums_before(reached, kept, unit) if layer == first else np.int64(0)
                if done == 0:
                    begin(numbers, table[layer, OFFSETS], e, s, at)
                count = units_on(bits, cell, head_0, reached[kept + done], n, chosen)
                at += done * e
                low = np.int64(0)
                while low < count:
                    high = min(low + EVERY, count)
                    copy(s, at, e, s, at + e)
                    done += 1
                    at += e
                    add_residues(numbers, outputs, e, chosen, low, high, x, table[layer, Z_AT], s, at, prime)
                    reached[kept + done] = chosen[high - 1] + 1 if high == low + EVERY else n + 1
                    low = high
                reached[kept + done + 1] = n + 1
                copy(s, at, e, x, out)
            if table[layer, SKIP] == 1 and outputs >= 0:
                add_entering(x, y, e, out)
            reduce(x, out, e, prime)
        for r in range(residues.shape[1]):
            for c in range(constants + 1):
                residues[place, r, c] = x[c, table[layers, Y_AT] + first_row + r]


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
