r"""Networks with weights of few bits: rows that are whole numbers, and floats that tell which.

Small integers, ternary and quantised weights are multiples of a power of two, and so are all rows composed of
them. The mean of what :math:`m` tied keys put out is one when it is multiplied by :math:`m`, and so are the
rows behind it: a layer cell has a *multiple*, the least common one of all shares on the way to it. Weights
that are fractions have denominators, which multiply from layer to layer. So every row is a whole number times
a unit that is known, and whoever knows it within less than half the unit knows it exactly
(:func:`whole_number`). Rows that are zero, and keys of a head that agree, are recognised in this way, and
exact linear dependences are proven with whole numbers (:mod:`hardmax.regions.search.dependence_kernels`).

Mostly there is no error at all: a sum of products of such numbers is exact in floats, in any order and fused
or not, as long as the sum of the absolute values is below :math:`2^{53}` times the unit of the last place,
and the multiple is a power of two. The units depend on the network only
(:func:`hardmax.regions.search.geometry.units_of`); the sizes are looked at cell by cell.
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
    LEAVES,
    MULTIPLE,
    RA,
    RC,
    ROWS_EXACT,
    UNIT,
    WALL,
    layer_row,
)
from hardmax.regions.engine.twin_kernels import common_multiple, mean_multiple, n_twins

Floats = NDArray[np.float64]

# columns of the table of units
Z_UNIT, OUT_UNIT, Z_SUM, Z_CONSTANT, OUT_SUM, OUT_CONSTANT, DENOMINATOR = range(7)
DIGITS = 2.0**53
MOST = 1 << 30  # multiples and denominators that are followed


class Units(NamedTuple):
    """The unit of the last place of every layer's scores, and of what leaves it; sums of weights and sizes of
    constants that bound them; the odd part of the denominator of the scores. A unit of zero: there is none.
    ``box`` is the unit of the box's corners;
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
        enters = i == 0
        if i == 0:
            e[MULTIPLE] = 1.0
        elif i == first:
            enters = e[ENTERS_EXACT] == 1.0
        else:  # behind an affine layer
            e[MULTIPLE] = errors[i - 1, MULTIPLE]
            enters = 1.001 * e[MULTIPLE] * errors[i - 1, LEAVES] < DIGITS
        e[ROWS_EXACT] = 0.0
        e[LEAVES] = np.inf
        entered = largest(path, here.y_at, n * here.d_in)
        most = 1.001 * e[MULTIPLE] * (u[Z_SUM] * entered + u[Z_CONSTANT])
        if not (enters and u[DENOMINATOR] == 1.0 and most < DIGITS * u[Z_UNIT]):
            continue
        e[ROWS_EXACT] = 1.0
        e[RA] = 0.0
        e[RC] = 0.0
        scores = largest(path, here.z_at, n * here.rows)
        most = u[OUT_SUM] * scores + u[OUT_CONSTANT] + (entered if here.skip == 1 else 0.0)
        if u[OUT_UNIT] > 0.0:
            e[LEAVES] = most / u[OUT_UNIT]


@kernel(inner=True)
def leave_exactly(net, errors, signs, layer, winners):
    """What left a layer enters the next one: what means of tied keys have divided it by, and whether floats
    hold it without rounding."""
    here, e, entering = layer_row(net.table, layer), errors[layer], errors[layer + 1]
    multiple = e[MULTIPLE]
    if here.kind == WALL and here.outputs >= 0 and n_twins(here, signs) > 0 and multiple > 0.0:
        common = mean_multiple(net, here, signs, winners, MOST)
        common = common_multiple(np.int64(multiple), common) if common > 0 else 0
        multiple = float(common) if common <= MOST else 0.0
    entering[MULTIPLE] = multiple
    whole = np.int64(multiple)
    power = whole > 0 and whole & (whole - 1) == 0
    exact = power and 1.001 * multiple * e[LEAVES] < DIGITS
    entering[ENTERS_EXACT] = 1.0 if exact else 0.0
    if exact:
        for k in range(4):
            entering[DA + k] = 0.0


@kernel(inlined=True)
def whole_number(value, off, e, u):
    """A number of the rows of a layer cell, in its unit: exact. NaN if floats do not know which it is.

    ``off`` bounds what ``value`` is off but for its last rounding, ``e`` and ``u`` belong to the layer.
    """
    multiple = e[MULTIPLE] * u[DENOMINATOR]
    if not (u[Z_UNIT] > 0.0 and multiple > 0.0 and multiple <= MOST):
        return np.nan
    scale = multiple / u[Z_UNIT]
    found = scale * value
    rounding = 0.0 if e[ROWS_EXACT] == 1.0 else 3.0 * UNIT * abs(found)
    if not (1.001 * scale * off + rounding < 0.49 and abs(found) < DIGITS):
        return np.nan
    return np.rint(found)


@kernel(inner=True)
def same_key(n, net, units, path, errors, layer, i, j):
    """Whether the scores of two keys are known to agree."""
    here, e, u = layer_row(net.table, layer), errors[layer], units.layers[layer]
    for k in range(n):
        z = here.z_at + k * here.rows
        off = 2.0 * (e[RA] if k < n - 1 else e[RC])
        if whole_number(path[z + i] - path[z + j], off, e, u) != 0.0:  # NaN included
            return False
    return True


@kernel(inner=True)
def is_zero(n, net, units, path, errors, layer, unit):
    """Whether the row of a unit is known to be zero."""
    here, e, u = layer_row(net.table, layer), errors[layer], units.layers[layer]
    for k in range(n):
        off = e[RA] if k < n - 1 else e[RC]
        if whole_number(path[here.z_at + k * here.rows + unit], off, e, u) != 0.0:
            return False
    return True


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
    here, e, u = layer_row(net.table, layer), errors[layer], units.layers[layer]
    whole = True
    for k in range(n):
        z, off = here.z_at + k * here.rows, e[RA] if k < n - 1 else e[RC]
        if here.kind == FOLD:
            out[k] = sign * whole_number(path[z + unit], off, e, u)
        else:
            out[k] = sign * whole_number(path[z + b] - path[z + a], 2.0 * off, e, u)
        whole = whole and out[k] == out[k]
    return whole
