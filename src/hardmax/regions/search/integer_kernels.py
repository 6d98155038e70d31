r"""Networks with weights of few bits: rows that floats hold without rounding, and proofs in whole numbers.

Small integers, ternary and quantised weights are multiples of a power of two, and so are all rows composed of
them. A sum of products of such numbers is exact in floats, in any order and fused or not, as long as the sum
of the absolute values is below :math:`2^{53}` times the unit of the last place. The units depend on the
network only (:func:`hardmax.regions.search.geometry.units_of`); the sizes are looked at cell by cell. Rows
without rounding have no error, and one that is zero is known to be; so are keys of a head that agree. The
mean of what these put out may be no multiple of the unit, which is looked at when the layer is left.

In such networks hyperplanes coincide, or touch a cell without cutting it: z = g + g' where g and g' are
positive on the cell, for instance. No bound on an error can prove that. Multipliers
:math:`\lambda \ge 0` do, if :math:`\sum_l \lambda_l g_l` of *whole numbers* is nowhere positive in the box
(zero, in a cone), for then the rows are not all positive at any point. Their ratios are read off the linear
program that found the place and rounded to small fractions. The sum is then computed without rounding, so
it does not matter where the fractions came from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import (
    DA,
    ENTERS_EXACT,
    FOLD,
    LEAVES_EXACT,
    NEXT_DA,
    NEXT_DC,
    NEXT_EA,
    NEXT_EC,
    RA,
    RC,
    ROWS_EXACT,
    WALL,
    layer_row,
)
from hardmax.regions.engine.twin_kernels import has_twins, mean_bits

Floats = NDArray[np.float64]

# columns of the table of units
Z_UNIT, OUT_UNIT, Z_SUM, Z_CONSTANT, OUT_SUM, OUT_CONSTANT = range(6)
DIGITS = 2.0**53
DENOMINATORS = 60


class Units(NamedTuple):
    """The unit of the last place of every layer's scores, and of what leaves it; sums of weights and sizes of
    constants that bound them. A unit of zero: there is none. ``box`` is the unit of the box's corners;
    ``sides`` are those of the domain as whole numbers, zeros where they are too large for a float."""

    layers: Floats
    box: Floats
    sides: Floats


@kernel(inner=True)
def largest(path, at, count):
    """The largest absolute value of some numbers."""
    most = 0.0
    for i in range(count):
        v = abs(path[at + i])
        if not v <= most:
            most = v
    return most


@kernel(inner=True)
def mark_exact(n, net, units, path, errors, first, layer):
    """Find out which layers from ``first`` to ``layer``, just entered, have rows without rounding; these
    have no errors."""
    for i in range(first, layer + 1):
        here, e, u = layer_row(net.table, i), errors[i], units.layers[i]
        e[ROWS_EXACT] = 0.0
        e[LEAVES_EXACT] = 0.0
        if i > 0 and (errors[i, ENTERS_EXACT] if i == first else errors[i - 1, LEAVES_EXACT]) == 0.0:
            continue
        entered = largest(path, here.y_at, n * here.d_in)
        if not 1.001 * (u[Z_SUM] * entered + u[Z_CONSTANT]) < DIGITS * u[Z_UNIT]:
            continue
        e[ROWS_EXACT] = 1.0
        e[RA] = 0.0
        e[RC] = 0.0
        scores = largest(path, here.z_at, n * here.rows)
        most = u[OUT_SUM] * scores + u[OUT_CONSTANT] + (entered if here.skip == 1 else 0.0)
        if 1.001 * most < DIGITS * u[OUT_UNIT]:
            e[LEAVES_EXACT] = 1.0
            if here.kind == WALL and here.outputs >= 0:  # unless keys tie: see leave_exactly
                continue
            e[NEXT_DA] = 0.0
            e[NEXT_DC] = 0.0
            e[NEXT_EA] = 0.0
            e[NEXT_EC] = 0.0


@kernel(inner=True)
def leave_exactly(n, net, units, path, errors, signs, layer, winners):
    """What left a layer enters the next one: find out whether floats hold it without rounding.

    The mean of keys that tie may be no multiple of the unit. A sum of quotients of small integers that floats
    round to a multiple of it is one: otherwise it is further away than their errors.
    """
    here, e = layer_row(net.table, layer), errors[layer]
    exact = e[LEAVES_EXACT] == 1.0
    if exact and here.kind == WALL and here.outputs >= 0:
        tied = False
        for h in range(here.heads):
            tied = tied or has_twins(here, signs, winners[h])
        if tied:
            unit, at = units.layers[layer, OUT_UNIT], layer_row(net.table, layer + 1).y_at
            constants = at + (n - 1) * here.d_out
            most = 1.0
            for r in range(constants, constants + here.d_out):
                exact = exact and path[r] / unit == np.rint(path[r] / unit)
                most = max(most, abs(path[r]) / unit)
            size = max(most, units.layers[layer, OUT_CONSTANT] / unit)
            exact = exact and mean_bits(net, here, signs, winners) + np.log2(size * here.heads) < 40.0
        if exact:
            for k in range(4):
                errors[layer + 1, DA + k] = 0.0
    errors[layer + 1, ENTERS_EXACT] = 1.0 if exact else 0.0


@kernel(inner=True)
def same_key(n, net, path, errors, layer, i, j):
    """Whether the scores of two keys are known to agree."""
    here = layer_row(net.table, layer)
    same = errors[layer, ROWS_EXACT] == 1.0
    for k in range(n):
        z = here.z_at + k * here.rows
        same = same and path[z + i] == path[z + j]
    return same


@kernel(inner=True)
def is_zero(n, net, path, errors, layer, unit):
    """Whether the row of a unit is known to be zero."""
    here = layer_row(net.table, layer)
    if errors[layer, ROWS_EXACT] == 0.0:
        return False
    zero = True
    for k in range(n):
        zero = zero and path[here.z_at + k * here.rows + unit] == 0.0
    return zero


@kernel(inner=True)
def whole_row(n, net, units, path, errors, code, sign, infinity, out):
    """The row of a fold, wall or side as whole numbers, positive inside; False: it is not known so."""
    if code == infinity:
        for k in range(n - 1):
            out[k] = 0.0
        out[n - 1] = 1.0
        return True
    if code < infinity:
        side = infinity - 1 - code  # codes of sides begin below that of infinity
        known = False
        for k in range(n):
            out[k] = units.sides[side, k]
            known = known or out[k] != 0.0
        return known
    if code < 0:
        return False
    layer, unit, a, b = code >> 54, (code >> 38) & 0xFFFF, (code >> 19) & 0x7FFFF, code & 0x7FFFF
    here = layer_row(net.table, layer)
    if errors[layer, ROWS_EXACT] == 0.0:
        return False
    scale = sign / units.layers[layer, Z_UNIT]  # a power of two
    whole = True
    for k in range(n):
        z = here.z_at + k * here.rows
        out[k] = scale * (path[z + unit] if here.kind == FOLD else path[z + b] - path[z + a])
        whole = whole and abs(out[k]) < DIGITS
    return whole


@kernel(inner=True)
def vanishes_in_integers(n, net, units, path, errors, codes, signs, m, z_code, z_sign, infinity, lp):
    """Whether m rows and the row z are proven never to be positive together in the box, or at all.

    The program that was solved last is that of these rows, lifted, z behind the others; its multipliers are
    the hint.
    """
    k = lp.size[0]
    row, total, sizes = lp.slopes, lp.column, lp.sizes
    boxed = lp.reach[0] > 0.0
    # multipliers of rows of whole numbers, instead of rows of length 1; that of z becomes 1, or the largest
    of_z = 0.0
    most = 0.0
    for b in range(k):
        lp.falls[b] = 0.0
        if not lp.weights[b] > 1e-9:
            continue
        i = lp.tight[b]
        code, sign = (codes[i], signs[i]) if i < m else (z_code, z_sign)
        if not whole_row(n, net, units, path, errors, code, sign, infinity, row):
            return False
        square = 0.0
        for j in range(n):
            square += row[j] * row[j]
        lp.falls[b] = lp.weights[b] / np.sqrt(square)
        most = max(most, lp.falls[b])
        if i == m:
            of_z = lp.falls[b]
    if not of_z > 0.0:
        of_z = most
    if not of_z > 0.0:
        return False
    for denominator in range(1, DENOMINATORS + 1):
        fits = True
        for b in range(k):
            ratio = denominator * lp.falls[b] / of_z
            fits = fits and abs(ratio - np.round(ratio)) < 1e-6 and ratio < 1e9
        if not fits:
            continue
        for j in range(n):
            total[j] = 0.0
            sizes[j] = 0.0
        for b in range(k):
            factor = np.round(denominator * lp.falls[b] / of_z)
            if factor > 0.0:
                i = lp.tight[b]
                code, sign = (codes[i], signs[i]) if i < m else (z_code, z_sign)
                whole_row(n, net, units, path, errors, code, sign, infinity, row)
                for j in range(n):
                    total[j] += factor * row[j]
                    sizes[j] += abs(factor * row[j])
        size = 0.0
        best = 0.0
        zero = True
        for j in range(n):
            far = max(abs(lp.low[j]), abs(lp.high[j]), 1.0) if boxed else 1.0
            size += sizes[j] * far
            if boxed:
                best += max(total[j] * lp.low[j], total[j] * lp.high[j])
            zero = zero and total[j] == 0.0
        # every number above is a multiple of the box's unit and smaller than 2^53 of it: nothing was rounded
        exact = 1.001 * size < DIGITS * (units.box[0] if boxed else 1.0)
        if exact and (zero or (boxed and best <= 0.0)):
            return True
    return False
