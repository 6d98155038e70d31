r"""What all cones of rays need: sets of slots as words of bits, cross products, independent facets.

A ray of a cone in :math:`\mathbb{R}^D` is the generalised cross product of :math:`D - 1` facet normals, which
are scaled to :math:`\|F\|_1 \le 1`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hardmax.compiling import kernel

SMALLEST_SQUARE = 1e-24  # of the length of what is left of a normal that still counts as independent


@intrinsic
def popcount(typingctx, word):
    """The number of ones of a 64-bit word, as one instruction."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen


@intrinsic
def lowest(typingctx, word):
    """The position of the lowest one of a 64-bit word that is not zero."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic
def highest(typingctx, word):
    """The position of the highest one of a 64-bit word that is not zero."""

    def codegen(context, builder, signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.uint64), codegen


@kernel(inlined=True)
def free_slot(used):
    """The lowest slot that is not taken, or -1."""
    for w in range(used.shape[0]):
        if ~used[w] != np.uint64(0):
            return (w << 6) + lowest(~used[w])
    return -1


@kernel(inlined=True)
def cross(D, f, pick, out, i, minors):
    """out[i] = signed maximal minors of the rows f[pick[0 .. D-2]]: a vector orthogonal to each of them."""
    if D == 1:
        out[i, 0] = 1.0
    elif D == 2:
        p = pick[0]
        out[i, 0] = f[p, 1]
        out[i, 1] = -f[p, 0]
    elif D == 3:
        p, q = pick[0], pick[1]
        out[i, 0] = f[p, 1] * f[q, 2] - f[p, 2] * f[q, 1]
        out[i, 1] = f[p, 2] * f[q, 0] - f[p, 0] * f[q, 2]
        out[i, 2] = f[p, 0] * f[q, 1] - f[p, 1] * f[q, 0]
    elif D == 4:
        p, q, r = pick[0], pick[1], pick[2]
        m01 = f[p, 0] * f[q, 1] - f[p, 1] * f[q, 0]
        m02 = f[p, 0] * f[q, 2] - f[p, 2] * f[q, 0]
        m03 = f[p, 0] * f[q, 3] - f[p, 3] * f[q, 0]
        m12 = f[p, 1] * f[q, 2] - f[p, 2] * f[q, 1]
        m13 = f[p, 1] * f[q, 3] - f[p, 3] * f[q, 1]
        m23 = f[p, 2] * f[q, 3] - f[p, 3] * f[q, 2]
        r0, r1, r2, r3 = f[r, 0], f[r, 1], f[r, 2], f[r, 3]
        out[i, 0] = r1 * m23 - r2 * m13 + r3 * m12
        out[i, 1] = r2 * m03 - r0 * m23 - r3 * m02
        out[i, 2] = r0 * m13 - r1 * m03 + r3 * m01
        out[i, 3] = r1 * m02 - r0 * m12 - r2 * m01
    elif D == 5:
        # Laplace expansion by the 2 x 2 minors m of the first two rows and n of the last two
        p, q, r, s = pick[0], pick[1], pick[2], pick[3]
        m01 = f[p, 0] * f[q, 1] - f[p, 1] * f[q, 0]
        m02 = f[p, 0] * f[q, 2] - f[p, 2] * f[q, 0]
        m03 = f[p, 0] * f[q, 3] - f[p, 3] * f[q, 0]
        m04 = f[p, 0] * f[q, 4] - f[p, 4] * f[q, 0]
        m12 = f[p, 1] * f[q, 2] - f[p, 2] * f[q, 1]
        m13 = f[p, 1] * f[q, 3] - f[p, 3] * f[q, 1]
        m14 = f[p, 1] * f[q, 4] - f[p, 4] * f[q, 1]
        m23 = f[p, 2] * f[q, 3] - f[p, 3] * f[q, 2]
        m24 = f[p, 2] * f[q, 4] - f[p, 4] * f[q, 2]
        m34 = f[p, 3] * f[q, 4] - f[p, 4] * f[q, 3]
        n01 = f[r, 0] * f[s, 1] - f[r, 1] * f[s, 0]
        n02 = f[r, 0] * f[s, 2] - f[r, 2] * f[s, 0]
        n03 = f[r, 0] * f[s, 3] - f[r, 3] * f[s, 0]
        n04 = f[r, 0] * f[s, 4] - f[r, 4] * f[s, 0]
        n12 = f[r, 1] * f[s, 2] - f[r, 2] * f[s, 1]
        n13 = f[r, 1] * f[s, 3] - f[r, 3] * f[s, 1]
        n14 = f[r, 1] * f[s, 4] - f[r, 4] * f[s, 1]
        n23 = f[r, 2] * f[s, 3] - f[r, 3] * f[s, 2]
        n24 = f[r, 2] * f[s, 4] - f[r, 4] * f[s, 2]
        n34 = f[r, 3] * f[s, 4] - f[r, 4] * f[s, 3]
        out[i, 0] = m12 * n34 + m14 * n23 + m23 * n14 + m34 * n12 - m13 * n24 - m24 * n13
        out[i, 1] = m03 * n24 + m24 * n03 - m02 * n34 - m04 * n23 - m23 * n04 - m34 * n02
        out[i, 2] = m01 * n34 + m04 * n13 + m13 * n04 + m34 * n01 - m03 * n14 - m14 * n03
        out[i, 3] = m02 * n14 + m14 * n02 - m01 * n24 - m04 * n12 - m12 * n04 - m24 * n01
        out[i, 4] = m01 * n23 + m03 * n12 + m12 * n03 + m23 * n01 - m02 * n13 - m13 * n02
    else:
        # minors[S] = minor of the first |S| rows on the columns S, by Laplace expansion along the last row
        full = (1 << D) - 1
        minors[0] = 1.0
        for subset in range(1, full):
            size = popcount(np.uint64(subset))
            row = pick[size - 1]
            total = 0.0
            sign = 1.0 if size & 1 else -1.0
            rest = np.uint64(subset)
            while rest != np.uint64(0):
                column = lowest(rest)
                rest &= rest - np.uint64(1)
                total += sign * f[row, column] * minors[subset ^ (1 << column)]
                sign = -sign
            minors[subset] = total
        sign = 1.0
        for column in range(D):
            out[i, column] = sign * minors[full ^ (1 << column)]
            sign = -sign


@kernel
def choose(D, need, pool, n_pool, f, pick, residual):
    """pick = independent rows out of f[pool], as many as needed, by pivoted Gram-Schmidt; returns how many
    were found.

    Nothing is proven by a row being taken or left: whoever gets too few leaves the question to rationals, and
    the cross product of rows that are nearly dependent has a proven error that says so. The cutoff must only
    stay above the noise of the residuals, whose squares are about 1e-31 for dependent rows, and below what
    the cross product can still resolve: with a residual of length r it is known to about 2e-15 / r, so r =
    1e-12 is where it ends to be of use. A cutoff of 1e-12 on the *square*, r = 1e-6, would hand rows to
    rationals whose cross product has nine digits.
    """
    for i in range(n_pool):
        for c in range(D):
            residual[i, c] = f[pool[i], c]
    found = 0
    while found < need:
        best, size = -1, SMALLEST_SQUARE
        for i in range(n_pool):
            total = 0.0
            for c in range(D):
                total += residual[i, c] * residual[i, c]
            if total > size:
                best, size = i, total
        if best < 0:
            return found
        pick[found] = pool[best]
        found += 1
        for i in range(n_pool):
            if i != best:
                dot = 0.0
                for c in range(D):
                    dot += residual[i, c] * residual[best, c]
                dot /= size
                for c in range(D):
                    residual[i, c] -= dot * residual[best, c]
        for c in range(D):
            residual[best, c] = 0.0
    return found
