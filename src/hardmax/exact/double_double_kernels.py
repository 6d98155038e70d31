r"""Compiled double-double arithmetic: sums and products of pairs of floats, and the signs built from them.

A pair :math:`h + l` is added and multiplied by error-free transformations of floats (Dekker, Knuth); the
compiler must not reorder them, so these kernels are compiled as written.
"""

from __future__ import annotations

from hardmax.compiling import kernel

UNIT = 2.0**-98  # above the relative error of one operation on pairs
TINY = 1e-200  # below it a product may have underflown


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
def _add(ah, al, bh, bl):
    s, e = _two_sum(ah, bh)
    return _two_sum(s, e + (al + bl))


@kernel(inlined=True)
def _multiply(ah, al, bh, bl):
    p, e = _two_product(ah, bh)
    return _two_sum(p, e + (ah * bl + al * bh))


@kernel
def products(wh, wl, yh, yl, zh, zl):
    """z += W y for matrices of pairs; z has as many columns as y."""
    n, m = wh.shape
    for i in range(n):
        for c in range(yh.shape[1]):
            h, l = zh[i, c], zl[i, c]
            for j in range(m):
                ph, pl = _multiply(wh[i, j], wl[i, j], yh[j, c], yl[j, c])
                h, l = _add(h, l, ph, pl)
            zh[i, c] = h
            zl[i, c] = l


@kernel
def signs(lh, ll, la, lc, at_infinity, rh, rl, ra, rc, codes):
    """Codes (0 undecided, 1, -1) of rows at the corners where consecutive lines of a polygon meet."""
    k = lh.shape[0]
    for v in range(k):
        u = v - 1 if v > 0 else k - 1
        if at_infinity[u] or at_infinity[v]:
            continue  # corners at infinity are left to integers
        s1h, s1l = _multiply(lh[u, 1], ll[u, 1], lh[v, 2], ll[v, 2])
        s2h, s2l = _multiply(lh[v, 1], ll[v, 1], lh[u, 2], ll[u, 2])
        xh, xl = _add(s1h, s1l, -s2h, -s2l)
        s3h, s3l = _multiply(lh[u, 2], ll[u, 2], lh[v, 0], ll[v, 0])
        s4h, s4l = _multiply(lh[v, 2], ll[v, 2], lh[u, 0], ll[u, 0])
        yh, yl = _add(s3h, s3l, -s4h, -s4l)
        s5h, s5l = _multiply(lh[u, 0], ll[u, 0], lh[v, 1], ll[v, 1])
        s6h, s6l = _multiply(lh[v, 0], ll[v, 0], lh[u, 1], ll[u, 1])
        wh, wl = _add(s5h, s5l, -s6h, -s6l)
        u_ab, v_ab = abs(lh[u, 0]) + abs(lh[u, 1]), abs(lh[v, 0]) + abs(lh[v, 1])
        u_c, v_c = abs(lh[u, 2]), abs(lh[v, 2])
        exy = (
            4.0 * UNIT * (abs(s1h) + abs(s2h) + abs(s3h) + abs(s4h))
            + u_ab * lc[v] + (v_c + lc[v]) * 2.0 * la[u] + v_ab * lc[u] + (u_c + lc[u]) * 2.0 * la[v]
        )  # fmt: skip
        ew = 4.0 * UNIT * (abs(s5h) + abs(s6h)) + (u_ab + la[u]) * la[v] + (v_ab + la[v]) * la[u]
        if not (abs(wh) > 2.0 * ew) or not (abs(wh) > TINY):
            continue
        sign = 1.0 if wh > 0.0 else -1.0
        for i in range(rh.shape[0]):
            ph, pl = _multiply(rh[i, 0], rl[i, 0], xh, xl)
            qh, ql = _multiply(rh[i, 1], rl[i, 1], yh, yl)
            oh, ol = _multiply(rh[i, 2], rl[i, 2], wh, wl)
            sh, sl = _add(ph, pl, qh, ql)
            sh, sl = _add(sh, sl, oh, ol)
            a, c = max(abs(rh[i, 0]), abs(rh[i, 1])), abs(rh[i, 2])
            size, wide = 1.001 * (abs(xh) + abs(yh)), 1.001 * abs(wh)
            t = (ra + 6.0 * UNIT * a) * size + (rc + 6.0 * UNIT * c) * wide + (a + ra) * exy + (c + rc) * ew
            if t > TINY:
                if sh * sign > 1.001 * t:
                    codes[i, v] = 1
                elif sh * sign < -1.001 * t:
                    codes[i, v] = -1
