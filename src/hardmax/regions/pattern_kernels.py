r"""Affine maps from signatures, compiled: once in floats with error bounds, once modulo a prime.

Cells come in lexicographic order of their signatures, so neighbours in the list share the maps of their
common prefix of layers. Both kernels keep the map entering every layer of the current cell (and, for a fold
layer, the pre-activations) and start again at the first layer whose part of the signature differs.

A map is kept as three vectors: the coefficients of :math:`x`, of :math:`y`, and the constants. Sums run over
units and keys in ascending order, whatever the blocking; so a map depends on its signature only, not on how
or when its cell was found.

The float kernel bounds the 2-norm of the error of each of the three vectors. If :math:`e` bounds the error
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

__all__ = ["BOUNDS", "COLUMNS", "ERRORS", "float_maps", "residue_maps"]

# columns of the table of layers; *_AT are places in the flat arrays
(
    KIND,
    D_IN,
    D_OUT,
    ROWS,
    SKIP,
    IDENTITY,
    FIRST,
    SCORES_AT,
    BIASES_AT,
    OUTPUTS_AT,
    OFFSETS_AT,
    X_AT,
    Z_AT,
    SUMS_AT,
) = range(14)
COLUMNS = 14
AFFINE, FOLD, WALL = 0, 1, 2
BLOCK = 64  # units after which a sum is kept
FEW = 3  # outputs so few are summed one by one, in registers

# columns of the table of norms
SIGMA_IN, PHI_IN, NORM_IN, GAMMA_IN, SIGMA_OUT, PHI_OUT, NORM_OUT, GAMMA_OUT = range(8)
BOUNDS = 8

# per layer: errors of the three vectors that enter, errors of the pre-activations, and the sizes of both
E_X, E_Z, SIZE_Z, SIZE_X = 0, 3, 6, 9
ERRORS = 12

_SLACK = 1.0 + 1e-9  # for the arithmetic of the bounds themselves
_TINY = 1e-290  # for underflow


@intrinsic
def _lowest(typingctx, word):
    """The position of the lowest one of a 64-bit word that is not zero."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@kernel(inlined=True)
def between(low, high):
    """Ones at the places low to high - 1 of a word."""
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(low)
    if high < 64:
        mask &= (np.uint64(1) << np.uint64(high)) - np.uint64(1)
    return mask


@kernel
def first_difference(table, bits, routings, cell, before):
    """The first layer at which the signatures of two cells differ, and the first unit of a fold layer."""
    for layer in range(table.shape[0] - 1):
        first = table[layer, FIRST]
        rows = table[layer, ROWS]
        if table[layer, KIND] == FOLD:
            for word in range(first >> 6, (first + rows + 63) >> 6):
                difference = bits[cell, word] ^ bits[before, word]
                if difference != np.uint64(0):
                    shift = word << 6
                    difference &= between(max(first - shift, 0), min(first + rows - shift, 64))
                    if difference != np.uint64(0):
                        return layer, shift + _lowest(difference) - first
        elif table[layer, KIND] == WALL:
            for head in range(first, first + rows):
                if routings[cell, head] != routings[before, head]:
                    return layer, 0
    return table.shape[0] - 1, 0


@kernel
def units_on(bits, cell, first, low, high, on):
    """List the units from ``low`` to ``high`` of a layer that are on; returns how many."""
    count = 0
    for word in range((first + low) >> 6, (first + high + 63) >> 6):
        shift = word << 6
        left = bits[cell, word] & between(max(first + low - shift, 0), min(first + high - shift, 64))
        while left != np.uint64(0):
            on[count] = shift + _lowest(left) - first
            count += 1
            left &= left - np.uint64(1)
    return count


@kernel
def add_columns(w, at, e, chosen, count, p0, p1, p2, p_at, y0, y1, y2, y_at):
    """Add the chosen rows of w (rows of length e), times three factors each, to three vectors, in order."""
    if e <= FEW:
        for r in range(e):
            a, b, c = y0[y_at + r], y1[y_at + r], y2[y_at + r]
            for k in range(count):
                i = chosen[k]
                v = w[at + i * e + r]
                a += v * p0[p_at + i]
                b += v * p1[p_at + i]
                c += v * p2[p_at + i]
            y0[y_at + r], y1[y_at + r], y2[y_at + r] = a, b, c
        return
    base = np.uintp(y_at)
    k = 0
    while k + 4 <= count:  # four at a time: the vectors are loaded and stored less often, the order is kept
        i0, i1, i2, i3 = chosen[k], chosen[k + 1], chosen[k + 2], chosen[k + 3]
        a0, a1, a2, a3 = p0[p_at + i0], p0[p_at + i1], p0[p_at + i2], p0[p_at + i3]
        b0, b1, b2, b3 = p1[p_at + i0], p1[p_at + i1], p1[p_at + i2], p1[p_at + i3]
        c0, c1, c2, c3 = p2[p_at + i0], p2[p_at + i1], p2[p_at + i2], p2[p_at + i3]
        s0, s1 = np.uintp(at + i0 * e), np.uintp(at + i1 * e)
        s2, s3 = np.uintp(at + i2 * e), np.uintp(at + i3 * e)
        for place in range(e):
            r = np.uintp(place)
            v0, v1, v2, v3 = w[s0 + r], w[s1 + r], w[s2 + r], w[s3 + r]
            y = base + r
            y0[y] = (((y0[y] + v0 * a0) + v1 * a1) + v2 * a2) + v3 * a3
            y1[y] = (((y1[y] + v0 * b0) + v1 * b1) + v2 * b2) + v3 * b3
            y2[y] = (((y2[y] + v0 * c0) + v1 * c1) + v2 * c2) + v3 * c3
        k += 4
    while k < count:
        i = chosen[k]
        a, b, c = p0[p_at + i], p1[p_at + i], p2[p_at + i]
        s = np.uintp(at + i * e)
        for place in range(e):
            r = np.uintp(place)
            v = w[s + r]
            y = base + r
            y0[y] += v * a
            y1[y] += v * b
            y2[y] += v * c
        k += 1


@kernel
def set_constant(values, at, e, y0, y1, y2, y_at):
    """Three vectors set to the map that is constant."""
    for r in range(e):
        y0[y_at + r] = 0.0
        y1[y_at + r] = 0.0
        y2[y_at + r] = values[at + r]


@kernel
def copy_map(x0, x1, x2, x_at, m, y0, y1, y2, y_at):
    """Three vectors copied."""
    source, target = np.uintp(x_at), np.uintp(y_at)
    for place in range(m):
        r = np.uintp(place)
        y0[target + r] = x0[source + r]
        y1[target + r] = x1[source + r]
        y2[target + r] = x2[source + r]


@kernel(reorder=True)
def norm(v, at, n):
    """The 2-norm of a part of a vector."""
    total = 0.0
    base = np.uintp(at)
    for r in range(n):
        total += v[base + np.uintp(r)] ** 2
    return np.sqrt(total)


@kernel
def product_error(norms, layer, shift, e, size, constant, extra):
    """The error of a product: see the head of this module."""
    sigma, phi, offset, gamma = (
        norms[layer, shift + SIGMA_IN],
        norms[layer, shift + PHI_IN],
        norms[layer, shift + NORM_IN],
        norms[layer, shift + GAMMA_IN],
    )
    total = phi * (size + e) + extra
    if constant:
        total += offset
    if gamma == 0.0:
        return sigma * e
    return (sigma * e + gamma * total) * _SLACK + _TINY


@kernel
def enter(table, norms, numbers, layer, x0, x1, x2, z0, z1, z2, every, errors):
    """Pre-activations of a fold layer from the map that enters it."""
    n, m = table[layer, ROWS], table[layer, D_IN]
    x_at, z_at = table[layer, X_AT], table[layer, Z_AT]
    biases_at = table[layer, BIASES_AT]
    if table[layer, IDENTITY]:
        for i in range(n):
            z0[z_at + i] = x0[x_at + i]
            z1[z_at + i] = x1[x_at + i]
            z2[z_at + i] = x2[x_at + i] + numbers[biases_at + i]
        errors[layer, E_Z] = errors[layer, E_X]
        errors[layer, E_Z + 1] = errors[layer, E_X + 1]
    else:
        set_constant(numbers, biases_at, n, z0, z1, z2, z_at)
        add_columns(numbers, table[layer, SCORES_AT], n, every, m, x0, x1, x2, x_at, z0, z1, z2, z_at)
        errors[layer, E_Z] = product_error(norms, layer, 0, errors[layer, E_X], norm(x0, x_at, m), False, 0.0)
        errors[layer, E_Z + 1] = product_error(
            norms, layer, 0, errors[layer, E_X + 1], norm(x1, x_at, m), False, 0.0
        )
    errors[layer, E_Z + 2] = product_error(
        norms, layer, 0, errors[layer, E_X + 2], norm(x2, x_at, m), True, 0.0
    )
    # sizes of all pre-activations bound those of the ones that are on, and are computed once per prefix
    errors[layer, SIZE_Z] = norm(z0, z_at, n)
    errors[layer, SIZE_Z + 1] = norm(z1, z_at, n)
    errors[layer, SIZE_Z + 2] = norm(z2, z_at, n)
    if table[layer, SKIP]:
        errors[layer, SIZE_X] = norm(x0, x_at, m)
        errors[layer, SIZE_X + 1] = norm(x1, x_at, m)
        errors[layer, SIZE_X + 2] = norm(x2, x_at, m)


@kernel
def leave_fold(
    table, norms, numbers, layer, unit, bits, cell, x0, x1, x2, z0, z1, z2, s0, s1, s2, on, errors
):
    """The map that leaves a fold layer.

    The sums over its units are kept after every block of units; a cell that differs from the one before it
    only from ``unit`` on takes up the sum there.
    """
    m, e, n = table[layer, D_IN], table[layer, D_OUT], table[layer, ROWS]
    x_at, y_at, z_at = table[layer, X_AT], table[layer + 1, X_AT], table[layer, Z_AT]
    block = unit // BLOCK
    at = table[layer, SUMS_AT] + block * e
    if block == 0:
        set_constant(numbers, table[layer, OFFSETS_AT], e, s0, s1, s2, at)
    low = block * BLOCK
    while low < n:
        high = min(low + BLOCK, n)
        copy_map(s0, s1, s2, at, e, s0, s1, s2, at + e)
        at += e
        count = units_on(bits, cell, table[layer, FIRST], low, high, on)
        add_columns(numbers, table[layer, OUTPUTS_AT], e, on, count, z0, z1, z2, z_at, s0, s1, s2, at)
        low = high
    copy_map(s0, s1, s2, at, e, x0, x1, x2, y_at)
    if table[layer, SKIP]:
        for r in range(m):
            x0[y_at + r] += x0[x_at + r]
            x1[y_at + r] += x1[x_at + r]
            x2[y_at + r] += x2[x_at + r]
    for c in range(3):
        kept = errors[layer, E_X + c] if table[layer, SKIP] else 0.0
        size = errors[layer, SIZE_X + c] if table[layer, SKIP] else 0.0
        errors[layer + 1, E_X + c] = kept + product_error(
            norms, layer, SIGMA_OUT, errors[layer, E_Z + c], errors[layer, SIZE_Z + c], c == 2, size
        )


@kernel
def leave_wall(table, norms, numbers, lookup, lookup_at, routings, cell, layer, x0, x1, x2, errors):
    """The map that leaves a wall layer: the winners' outputs added to the constants."""
    m, e = table[layer, D_IN], table[layer, D_OUT]
    x_at, y_at, first = table[layer, X_AT], table[layer + 1, X_AT], table[layer, FIRST]
    if table[layer, SKIP]:
        copy_map(x0, x1, x2, x_at, m, x0, x1, x2, y_at)
        for c in range(3):
            errors[layer + 1, c] = errors[layer, c]
    else:
        for r in range(e):
            x0[y_at + r] = 0.0
            x1[y_at + r] = 0.0
            x2[y_at + r] = 0.0
        for c in range(3):
            errors[layer + 1, c] = 0.0
    size = norm(x2, y_at, e)
    for head in range(first, first + table[layer, ROWS]):
        at = table[layer, OUTPUTS_AT] + e * lookup[lookup_at[head] + routings[cell, head]]
        for r in range(e):
            x2[y_at + r] += numbers[at + r]
    total = (size + norms[layer, NORM_OUT]) * norms[layer, GAMMA_OUT]
    if total > 0.0:
        errors[layer + 1, 2] = (errors[layer + 1, 2] + total) * _SLACK + _TINY


@kernel
def leave_affine(table, norms, numbers, layer, x0, x1, x2, every, errors):
    """The map that leaves an affine layer."""
    m, e = table[layer, D_IN], table[layer, D_OUT]
    x_at, y_at = table[layer, X_AT], table[layer + 1, X_AT]
    set_constant(numbers, table[layer, OFFSETS_AT], e, x0, x1, x2, y_at)
    add_columns(numbers, table[layer, OUTPUTS_AT], e, every, m, x0, x1, x2, x_at, x0, x1, x2, y_at)
    errors[layer + 1, 0] = product_error(
        norms, layer, SIGMA_OUT, errors[layer, 0], norm(x0, x_at, m), False, 0.0
    )
    errors[layer + 1, 1] = product_error(
        norms, layer, SIGMA_OUT, errors[layer, 1], norm(x1, x_at, m), False, 0.0
    )
    errors[layer + 1, 2] = product_error(
        norms, layer, SIGMA_OUT, errors[layer, 2], norm(x2, x_at, m), True, 0.0
    )


@kernel
def float_maps(
    table, norms, numbers, lookup, lookup_at, bits, routings, start, stop,
    x0, x1, x2, z0, z1, z2, s0, s1, s2, on, every, errors, linear, offset, error,
):  # fmt: skip
    """The maps of cells ``start`` to ``stop`` with bounds on their errors.

    ``table`` has one row per layer and a last one that only says where the output stands.
    """
    layers = table.shape[0] - 1
    for cell in range(start, stop):
        if cell == start:
            first, unit = 0, 0
            if layers > 0 and table[0, KIND] == FOLD:
                enter(table, norms, numbers, 0, x0, x1, x2, z0, z1, z2, every, errors)
        else:
            first, unit = first_difference(table, bits, routings, cell, cell - 1)
        for layer in range(first, layers):
            kind = table[layer, KIND]
            if kind == FOLD:
                leave_fold(
                    table, norms, numbers, layer, unit if layer == first else 0, bits, cell,
                    x0, x1, x2, z0, z1, z2, s0, s1, s2, on, errors,
                )  # fmt: skip
            elif kind == WALL:
                leave_wall(
                    table, norms, numbers, lookup, lookup_at, routings, cell, layer, x0, x1, x2, errors
                )
            else:
                leave_affine(table, norms, numbers, layer, x0, x1, x2, every, errors)
            if layer + 1 < layers and table[layer + 1, KIND] == FOLD:
                enter(table, norms, numbers, layer + 1, x0, x1, x2, z0, z1, z2, every, errors)
        at = table[layers, X_AT]
        for r in range(linear.shape[1]):
            linear[cell, r, 0] = x0[at + r]
            linear[cell, r, 1] = x1[at + r]
            offset[cell, r] = x2[at + r]
        worst = max(errors[layers, 0], errors[layers, 1], errors[layers, 2])
        trace = errors[layers, 0] + errors[layers, 1] + errors[layers, 2]
        for r in range(linear.shape[1]):
            trace += abs(linear[cell, r, 0]) + abs(linear[cell, r, 1]) + abs(offset[cell, r])
        error[cell] = worst if np.isfinite(trace) else np.inf  # an overflow on the way leaves its trace


# modulo a prime below 2^31: entries of vectors are reduced, sums of products stay below p 2^32


@kernel
def add_residues(w, at, e, chosen, count, p0, p1, p2, p_at, y0, y1, y2, y_at, prime):
    """``add_columns`` modulo a prime; the sums are reduced at the end."""
    shifted = np.uint64(prime) << np.uint64(32)
    if e <= FEW:
        for r in range(e):
            a, b, c = y0[y_at + r], y1[y_at + r], y2[y_at + r]
            for k in range(count):
                i = chosen[k]
                v = np.uint64(w[at + i * e + r])
                a += v * p0[p_at + i]
                b += v * p1[p_at + i]
                c += v * p2[p_at + i]
                a = a - shifted if a >= shifted else a
                b = b - shifted if b >= shifted else b
                c = c - shifted if c >= shifted else c
            y0[y_at + r], y1[y_at + r], y2[y_at + r] = a % prime, b % prime, c % prime
        return
    base = np.uintp(y_at)
    for k in range(count):
        i = chosen[k]
        a, b, c = p0[p_at + i], p1[p_at + i], p2[p_at + i]
        s = np.uintp(at + i * e)
        for place in range(e):
            r = np.uintp(place)
            v = np.uint64(w[s + r])
            y = base + r
            t0 = y0[y] + v * a
            t1 = y1[y] + v * b
            t2 = y2[y] + v * c
            y0[y] = t0 - shifted if t0 >= shifted else t0
            y1[y] = t1 - shifted if t1 >= shifted else t1
            y2[y] = t2 - shifted if t2 >= shifted else t2
    for r in range(e):
        y0[y_at + r] %= prime
        y1[y_at + r] %= prime
        y2[y_at + r] %= prime


@kernel
def set_constant_residues(values, at, e, y0, y1, y2, y_at):
    """Three vectors set to the map that is constant."""
    for r in range(e):
        y0[y_at + r] = np.uint64(0)
        y1[y_at + r] = np.uint64(0)
        y2[y_at + r] = np.uint64(values[at + r])


@kernel
def leave_residues(
    table, numbers, lookup, lookup_at, bits, routings, cell, layer, prime, x0, x1, x2, z0, z1, z2, on, every
):
    """The map that leaves a layer modulo a prime."""
    kind, m, e = table[layer, KIND], table[layer, D_IN], table[layer, D_OUT]
    x_at, y_at = table[layer, X_AT], table[layer + 1, X_AT]
    if kind == FOLD:
        count = units_on(bits, cell, table[layer, FIRST], 0, table[layer, ROWS], on)
        set_constant_residues(numbers, table[layer, OFFSETS_AT], e, x0, x1, x2, y_at)
        add_residues(
            numbers,
            table[layer, OUTPUTS_AT],
            e,
            on,
            count,
            z0,
            z1,
            z2,
            table[layer, Z_AT],
            x0,
            x1,
            x2,
            y_at,
            prime,
        )
        if table[layer, SKIP]:
            for r in range(m):
                x0[y_at + r] = (x0[y_at + r] + x0[x_at + r]) % prime
                x1[y_at + r] = (x1[y_at + r] + x1[x_at + r]) % prime
                x2[y_at + r] = (x2[y_at + r] + x2[x_at + r]) % prime
    elif kind == WALL:
        for r in range(e):
            if table[layer, SKIP]:
                x0[y_at + r] = x0[x_at + r]
                x1[y_at + r] = x1[x_at + r]
                x2[y_at + r] = x2[x_at + r]
            else:
                x0[y_at + r] = np.uint64(0)
                x1[y_at + r] = np.uint64(0)
                x2[y_at + r] = np.uint64(0)
        for head in range(table[layer, FIRST], table[layer, FIRST] + table[layer, ROWS]):
            at = table[layer, OUTPUTS_AT] + e * lookup[lookup_at[head] + routings[cell, head]]
            for r in range(e):
                x2[y_at + r] = (x2[y_at + r] + np.uint64(numbers[at + r])) % prime
    else:
        set_constant_residues(numbers, table[layer, OFFSETS_AT], e, x0, x1, x2, y_at)
        add_residues(
            numbers, table[layer, OUTPUTS_AT], e, every, m, x0, x1, x2, x_at, x0, x1, x2, y_at, prime
        )


@kernel
def enter_residues(table, numbers, layer, prime, x0, x1, x2, z0, z1, z2, every):
    """Pre-activations of a fold layer modulo a prime."""
    n, x_at, z_at = table[layer, ROWS], table[layer, X_AT], table[layer, Z_AT]
    if table[layer, IDENTITY]:
        for i in range(n):
            z0[z_at + i] = x0[x_at + i]
            z1[z_at + i] = x1[x_at + i]
            z2[z_at + i] = (x2[x_at + i] + np.uint64(numbers[table[layer, BIASES_AT] + i])) % prime
    else:
        set_constant_residues(numbers, table[layer, BIASES_AT], n, z0, z1, z2, z_at)
        add_residues(
            numbers,
            table[layer, SCORES_AT],
            n,
            every,
            table[layer, D_IN],
            x0,
            x1,
            x2,
            x_at,
            z0,
            z1,
            z2,
            z_at,
            prime,
        )


@kernel
def residue_maps(
    table, numbers, lookup, lookup_at, bits, routings, cells, prime,
    x0, x1, x2, z0, z1, z2, on, every, row_start, residues,
):  # fmt: skip
    """The maps of some cells (ascending) modulo a prime: rows ``row_start`` and on, as many as fit."""
    layers = table.shape[0] - 1
    for place in range(len(cells)):
        cell = cells[place]
        if place == 0:
            first = 0
            if layers > 0 and table[0, KIND] == FOLD:
                enter_residues(table, numbers, 0, prime, x0, x1, x2, z0, z1, z2, every)
        else:
            first, _ = first_difference(table, bits, routings, cell, cells[place - 1])
        for layer in range(first, layers):
            leave_residues(
                table, numbers, lookup, lookup_at, bits, routings, cell, layer, prime,
                x0, x1, x2, z0, z1, z2, on, every,
            )  # fmt: skip
            if layer + 1 < layers and table[layer + 1, KIND] == FOLD:
                enter_residues(table, numbers, layer + 1, prime, x0, x1, x2, z0, z1, z2, every)
        at = table[layers, X_AT] + row_start
        for r in range(residues.shape[1]):
            residues[place, r, 0] = x0[at + r]
            residues[place, r, 1] = x1[at + r]
            residues[place, r, 2] = x2[at + r]
