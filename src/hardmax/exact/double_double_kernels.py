r"""Compiled double-double arithmetic: sums and products of pairs of floats.

A pair :math:`h + l` is added and multiplied by error-free transformations of floats (Dekker, Knuth); the
compiler must not reorder them, so these kernels are compiled as written.
"""

from __future__ import annotations

from hardmax.compiling import kernel

UNIT = 2.0**-98  # above the relative error of one operation on pairs


@kernel(inlined=True)
def _two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel(inlined=True)
def _two_product(a, b):
    p = a * b
    t = 134217729.0 * a  # 2^27 + 1 splits a float into halves of 26 bits
    ah = t - (t - a)
    al = a - ah
    t = 134217729.0 * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@kernel(inlined=True)
def add(ah, al, bh, bl):
    """The sum of two pairs."""
    s, e = _two_sum(ah, bh)
    return _two_sum(s, e + (al + bl))


@kernel(inlined=True)
def multiply(ah, al, bh, bl):
    """The product of two pairs."""
    p, e = _two_product(ah, bh)
    return _two_sum(p, e + (ah * bl + al * bh))


@kernel(inlined=True)
def quotient(a, b):
    """The quotient of two floats, as a pair."""
    h = a / b
    p, e = _two_product(h, b)
    return _two_sum(h, ((a - p) - e) / b)


@kernel
def products(wh, wl, yh, yl, zh, zl):
    """z += W y for matrices of pairs; z has as many columns as y."""
    n, m = wh.shape
    for i in range(n):
        for c in range(yh.shape[1]):
            h, l = zh[i, c], zl[i, c]
            for j in range(m):
                ph, pl = multiply(wh[i, j], wl[i, j], yh[j, c], yl[j, c])
                h, l = add(h, l, ph, pl)
            zh[i, c] = h
            zl[i, c] = l


@kernel(inner=True)
def dot(wh, wl, w, yh, yl, y, count):
    """The sum of products of weights and numbers, as a pair."""
    h, l = 0.0, 0.0
    for j in range(count):
        ph, pl = multiply(wh[w + j], wl[w + j], yh[y + j], yl[y + j])
        h, l = add(h, l, ph, pl)
    return h, l


@kernel(inner=True)
def add_multiple(wh, wl, w, fh, fl, yh, yl, y, count):
    """y += f w, entry by entry."""
    for r in range(count):
        ph, pl = multiply(wh[w + r], wl[w + r], fh, fl)
        yh[y + r], yl[y + r] = add(yh[y + r], yl[y + r], ph, pl)


@kernel(inner=True)
def sparse_dot(wh, wl, w, columns, first, end, yh, yl, y):
    """The sum of products of the listed columns, as a pair."""
    h, l = 0.0, 0.0
    for t in range(first, end):
        j = columns[t]
        ph, pl = multiply(wh[w + j], wl[w + j], yh[y + j], yl[y + j])
        h, l = add(h, l, ph, pl)
    return h, l
