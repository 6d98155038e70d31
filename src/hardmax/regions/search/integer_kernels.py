r"""Networks with weights of few bits: rows that floats hold without rounding, and proofs in whole numbers.

Small integers, ternary and quantised weights are multiples of a power of two, and so are all rows composed of
them. A sum of products of such numbers is exact in floats, in any order and fused or not, as long as the sum
of the absolute values is below :math:`2^{53}` times the unit of the last place. The units depend on the
network only (:func:`hardmax.regions.search.geometry.units_of`); the sizes are looked at cell by cell. Rows
without rounding have no error, and one that is zero is known to be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import (
    FOLD,
    LEAVES_EXACT,
    NEXT_DA,
    NEXT_DC,
    NEXT_EA,
    NEXT_EC,
    RA,
    RC,
    ROWS_EXACT,
    layer_row,
)

Floats = NDArray[np.float64]

# columns of the table of units
Z_UNIT, OUT_UNIT, Z_SUM, Z_CONSTANT, OUT_SUM, OUT_CONSTANT = range(6)
DIGITS = 2.0**53


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
        if i > 0 and errors[i - 1, LEAVES_EXACT] == 0.0:
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
            e[NEXT_DA] = 0.0
            e[NEXT_DC] = 0.0
            e[NEXT_EA] = 0.0
            e[NEXT_EC] = 0.0


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
    """The row of a fold or side as whole numbers, positive inside; False: it is known with rounding only."""
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
    if (code >> 19) & 0x7FFFF != code & 0x7FFFF:
        return False
    layer, unit = code >> 54, (code >> 38) & 0xFFFF
    here = layer_row(net.table, layer)
    if here.kind != FOLD or errors[layer, ROWS_EXACT] == 0.0:
        return False
    scale = sign / units.layers[layer, Z_UNIT]  # a power of two
    for k in range(n):
        out[k] = scale * path[here.z_at + k * here.rows + unit]
    return True
