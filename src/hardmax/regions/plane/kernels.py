r"""The compiled part of the plane engine: polygons are cut, layer by layer, depth first.

A *node* is a convex polygon on which the signature is settled up to some point of some layer. In a fold layer
the first unit that still changes sign cuts the polygon in two; in a wall layer the next head cuts it into the
cells of its upper envelope. A polygon whose layer is settled enters the next layer with the affine map of its
hidden vector; one that has passed the last layer is a cell. Nodes wait on an explicit stack, so the machine
can stop after any number of steps and go on later. A fold node stays in the work arrays as long as there is
one to go on with, and goes back onto the stack when the machine stops.

Every predicate is the sign of an affine function at a vertex. A vertex is the cross product of two lines,
:math:`(X, Y, W) = \ell \times \ell'` with :math:`W > 0`, never a combination of other vertices, so its error
depends on two lines only. Lines are rows of the composed map of their layer; their errors are bounded per
layer cell by norms (see :func:`~hardmax.regions.engine.layer_kernels.enter`). If :math:`|\delta a| \le
\delta_a` and :math:`|\delta c| \le \delta_c` for all rows, and :math:`E_{XY}, E_W` bound the errors of a
vertex, then

.. math::

    |\mathrm{fl}(aX + bY + cW) - \text{exact}| \le (\delta_a + 5u\,\bar a)(|X| + |Y|)
        + (\delta_c + 5u\,\bar c) W + \bar a E_{XY} + \bar c E_W

with bounds :math:`\bar a, \bar c` on the coefficients of the layer: one number per vertex. A sign below it is
*undecided*, and :mod:`~hardmax.regions.engine.sign_kernels` decides it where it is made. What is open even
then stops the kernel: the node goes back onto the stack and the caller decides in rationals. A vertex of an
unbounded polygon is :math:`(X, Y, W) + M (D_x, D_y, 0)` with :math:`M \to \infty`; its sign is the sign of
the :math:`M`-part, then of the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.geometry.cones.ray_kernels import lowest
from hardmax.regions.engine.layer_kernels import (
    A_MAX,
    C_MAX,
    CERTIFIED,
    EXACT,
    FLOAT,
    FOLD,
    HEADER,
    HUGE,
    RA,
    RC,
    T_A,
    T_C,
    TAME,
    TINY,
    UNIT,
    WALL,
    carried,
    copy,
    enter_groups,
    given_units,
    layer_row,
    leave,
    leave_units,
    write_header,
    write_signature,
)
from hardmax.regions.engine.sign_kernels import (
    FAR_SIDE,
    N_ZERO,
    OPEN,
    ZERO,
    agree,
    ask_at,
    join_key,
    may_be_multiple,
    may_vanish,
    multiple_of,
    place_at,
    sharpen,
    vanishes,
)
from hardmax.regions.engine.sign_kernels import sign_at as compiled_sign_at
from hardmax.regions.engine.twin_kernels import (
    add_output,
    add_twin,
    follow_twins,
    followed,
    forget_twins,
    has_twins,
    like,
    n_twins,
    twin,
)

# floats of a vertex and the edge that starts there
X, Y, W, EXY, EW, DX, DY, ED, LA, LB, LC, LDA, LDC = range(13)
FLOATS_PER_EDGE = 13
COLUMNS = 3  # of a composed map: two slopes and a constant
AT_INFINITY = -2  # owner of a side at infinity
SYMBOLIC = -1.0  # LDC of a side at infinity: its constant term is M

# header of a node, at its end: kind, layer, head, edges, pending, tied, ints, floats

# the control array
C_STATUS, C_INTS, C_FLOATS, C_CELLS, C_SERIAL, C_STEPS, C_TRUST, C_LAST, C_EMIT, C_ANSWERED = range(10)
C_ASKED_UNIT, C_OUT_CELLS, C_OUT_EDGES, C_SLIVERS, C_WORDS, C_UNBOUNDED, C_ROUTES = range(10, 17)
C_MOST_CELLS, C_STRIDE = 17, 18
CONTROL = 20

# why the machine stopped; from UNDECIDED_HEAD on, the node on top of the stack is untouched (but for BUDGET)
RUNNING, DONE, UNDECIDED_FOLD, UNDECIDED_HEAD, STACK_FULL, OUTPUT_FULL, POLYGON_FULL = range(7)
BUDGET, UNCERTAIN = 7, 8

MASK = 62  # vertices that fit into the sign masks
NEAR = 1 << 62  # of a candidate: it can have a wall with the key in question
UNSEEN, WAITING, FOLLOWS = -1, -2, -3  # keys of a head; otherwise the edges of the key's cell, 0 for none

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class State(NamedTuple):
    """What belongs to a run: counters, the composed maps along the path, and the stack."""

    control: Integers
    totals: Floats  # area so far, tolerance, unit of length
    layer_cells: Integers
    path: Floats
    errors: Floats
    signs: Integers
    answer: Integers  # signs that were decided for the node on top
    si: Integers
    sf: Floats


class Work(NamedTuple):
    """The working polygon and its units."""

    p: Floats
    q: Integers
    half_p: Floats
    half_q: Integers
    limits: Floats
    pend: Integers
    word: Integers
    yv: Floats
    routes: Integers
    code: Integers
    codes: Integers
    extra: Floats
    units: Integers
    positive: Integers
    negative: Integers


class Heads(NamedTuple):
    """Work space for the keys of a head; the bag holds its cells in the order they are found."""

    cand: Integers
    todo: Integers
    bag_f: Floats
    bag_i: Integers
    bag_k: Integers
    df: Floats
    di: Integers
    n_level: (
        Integers  # how many keys, listed in cand, are level with the key of the last cell on a side of it
    )


class Out(NamedTuple):
    """The cells that were found."""

    bits: NDArray[np.uint64]
    routes: NDArray[np.int32]
    tied: NDArray[np.uint8]
    start: Integers
    vertices: Floats
    labels: Integers
    witness: Floats


@kernel(inlined=True)
def side(a, b, c, vx, vy, vw, t, far, dx, dy, t_far):
    """1 positive, 2 negative, 3 undecided, 0 zero (known exactly)."""
    if far:
        s = a * dx + b * dy
        code = 0
        if not (s <= -t_far):
            code = 1
        if not (s >= t_far):
            code += 2
        if code != 0:
            return code
    s = a * vx + b * vy + c * vw
    code = 0
    if not (s <= -t):
        code = 1
    if not (s >= t):
        code += 2
    return code


@kernel(inlined=True)
def threshold(trust, p, o, t_a, t_c, a_max, c_max):
    """The bound on the error of any row of the layer at the vertex at ``p[o]``.

    NaN, from which no sign is certain, where nothing is known, or where a product may have overflown.
    """
    if trust == FLOAT:
        return 0.0
    if trust == EXACT:
        return np.nan
    size = abs(p[o + X]) + abs(p[o + Y])
    t = 1.0001 * (t_a * size + t_c * p[o + W] + a_max * p[o + EXY] + c_max * p[o + EW])
    if not (t >= TINY):  # all factors zero: every row is known exactly there; anything else has underflown
        if (
            (size == 0.0 or t_a == 0.0)
            and (p[o + W] == 0.0 or t_c == 0.0)
            and (p[o + EXY] == 0.0 or a_max == 0.0)
            and (p[o + EW] == 0.0 or c_max == 0.0)
        ):
            return 0.0
        return np.nan
    return t if t < HUGE else np.nan


@kernel(inlined=True)
def threshold_far(trust, p, o, t_a, a_max):
    """The same for the part at infinity."""
    if trust == FLOAT:
        return 0.0
    if trust == EXACT:
        return np.nan
    size = abs(p[o + DX]) + abs(p[o + DY])
    t = 1.0001 * (t_a * size + a_max * p[o + ED])
    if not (t >= TINY):
        if (size == 0.0 or t_a == 0.0) and (p[o + ED] == 0.0 or a_max == 0.0):
            return 0.0
        return np.nan
    return t if t < HUGE else np.nan


@kernel(inlined=True)
def tame(v):
    """Whether a coefficient is zero or far from the ends of the floats' range."""
    return v == 0.0 or (abs(v) > 1.0 / TAME and abs(v) < TAME)


@kernel(inlined=True)
def meet(p, e, a, b, c, da, dc, q, o):
    """Write the crossing of the edge at ``p[e]`` and the line (a, b, c) as the vertex at ``q[o]``."""
    la, lb, lc, lda, ldc = p[e + LA], p[e + LB], p[e + LC], p[e + LDA], p[e + LDC]
    if ldc == SYMBOLIC:
        w = la * b - lb * a
        x = lb * c
        y = -la * c
        dx = -b
        dy = a
        exy = 2.0 * dc
        ew = da
        ed = da
    else:
        s1, s2, s3, s4 = lb * c, b * lc, lc * a, c * la
        s5, s6 = la * b, a * lb
        x = s1 - s2
        y = s3 - s4
        w = s5 - s6
        exy = (
            4.0 * UNIT * (abs(s1) + abs(s2) + abs(s3) + abs(s4))
            + (abs(lb) + abs(la)) * dc + (abs(c) + dc) * 2.0 * lda
            + (abs(a) + abs(b)) * ldc + (abs(lc) + ldc) * 2.0 * da
        )  # fmt: skip
        ew = 3.0 * UNIT * (abs(s5) + abs(s6)) + (abs(la) + abs(lb) + lda) * da + (abs(a) + abs(b) + da) * lda
        dx = 0.0
        dy = 0.0
        ed = 0.0
    known = tame(la) and tame(lb) and tame(lc) and tame(a) and tame(b) and tame(c)
    if not known or not (abs(w) > 1.001 * ew) or not (abs(w) > TINY):
        # the lines do cross, but their angle is lost in the error: every sign there will be asked for
        exy = np.inf
        ew = np.inf
        ed = np.inf
        if w == 0.0:
            w = 1.0
    if w < 0.0:
        x, y, w, dx, dy = -x, -y, -w, -dx, -dy
    q[o + X] = x
    q[o + Y] = y
    q[o + W] = w
    q[o + EXY] = exy
    q[o + EW] = ew
    q[o + DX] = dx
    q[o + DY] = dy
    q[o + ED] = ed


@kernel
def close_polygon(p, k):
    """Compute the vertices of a polygon whose k lines are given: vertex v is where lines v - 1 and v meet."""
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        before = (v - 1 if v > 0 else k - 1) * FLOATS_PER_EDGE
        if p[before + LDC] == SYMBOLIC and p[o + LDC] == SYMBOLIC:  # a corner (+-M, +-M)
            p[o + X] = 0.0
            p[o + Y] = 0.0
            p[o + W] = 1.0
            p[o + EXY] = 0.0
            p[o + EW] = 0.0
            p[o + DX] = -p[before + LA] - p[o + LA]
            p[o + DY] = -p[before + LB] - p[o + LB]
            p[o + ED] = 0.0
        elif p[o + LDC] == SYMBOLIC:
            meet(p, o, p[before + LA], p[before + LB], p[before + LC], p[before + LDA], p[before + LDC], p, o)
        else:
            meet(p, before, p[o + LA], p[o + LB], p[o + LC], p[o + LDA], p[o + LDC], p, o)


@kernel(inlined=True)
def runs(code, k, wanted):
    """Where the cyclic run of vertices with this sign starts, and its length."""
    start = 0
    for v in range(k):
        if code[v] == wanted and code[v - 1 if v > 0 else k - 1] != wanted:
            start = v
            break
    length = 0
    v = start
    while length < k and code[v] == wanted:
        length += 1
        v = v + 1 if v + 1 < k else 0
    return start, length


@kernel(inlined=True)
def run_of(mask, k):
    """The same for a mask of k bits that are neither all set nor all clear."""
    before = (mask << 1) | (mask >> (k - 1))
    start = lowest(np.uint64(mask & ~before))
    return start, lowest(np.uint64(~(turned(mask, k, start, k) >> 1)))


@kernel(inlined=True)
def write_side(p, q, k, start, length, first, last, extra, owner, wall, sf, fo, si, io):
    """Write one side of a cut polygon: the crossing ``first``, the run, the crossing ``last``; returns its
    edges.

    ``extra`` holds the two crossings, each a vertex followed by the cutting line.
    """
    before = start - 1 if start > 0 else k - 1
    copy(extra, first * FLOATS_PER_EDGE, sf, fo, 8)
    for c in range(8, FLOATS_PER_EDGE):
        sf[fo + c] = p[before * FLOATS_PER_EDGE + c]
    si[io] = q[2 * before]
    si[io + 1] = q[2 * before + 1]
    v = start
    for j in range(1, length + 1):
        copy(p, v * FLOATS_PER_EDGE, sf, fo + j * FLOATS_PER_EDGE, FLOATS_PER_EDGE)
        si[io + 2 * j] = q[2 * v]
        si[io + 2 * j + 1] = q[2 * v + 1]
        v = v + 1 if v + 1 < k else 0
    o = fo + (length + 1) * FLOATS_PER_EDGE
    copy(extra, last * FLOATS_PER_EDGE, sf, o, FLOATS_PER_EDGE)
    si[io + 2 * length + 2] = owner
    si[io + 2 * length + 3] = wall
    return length + 2


@kernel(inlined=True)
def crossings(p, k, code, a, b, c, da, dc, extra, start, length):
    """Where the line crosses the boundary: ``extra[0]`` before the run of vertices, ``extra[1]`` after it."""
    before = start - 1 if start > 0 else k - 1
    after = (start + length) % k
    for s in range(2):
        o = s * FLOATS_PER_EDGE
        corner = before if s == 0 else after
        edge = before if s == 0 else (after - 1 if after > 0 else k - 1)
        if code[corner] == 0:
            copy(p, corner * FLOATS_PER_EDGE, extra, o, 8)
        else:
            meet(p, edge * FLOATS_PER_EDGE, a, b, c, da, dc, extra, o)
        extra[o + LA] = a
        extra[o + LB] = b
        extra[o + LC] = c
        extra[o + LDA] = da
        extra[o + LDC] = dc


@kernel(inlined=True)
def turned(mask, k, start, length):
    """Bits start .. start + length - 1 of a cyclic mask of k bits, moved to bits 1 .. length."""
    low = mask >> start
    if start > 0:
        low |= mask << (k - start)
    return (low & ((1 << length) - 1)) << 1


@kernel(reorder=True, inner=True)
def add_signs(path, z_at, n, p, o0, o1, o2, o3, t0, t1, t2, t3, positive, negative):
    """Which rows may be positive, and which negative, at some of four vertices: bits of words.

    Written so that many rows are done at once.
    """
    x0, y0, v0 = p[o0 + X], p[o0 + Y], p[o0 + W]
    x1, y1, v1 = p[o1 + X], p[o1 + Y], p[o1 + W]
    x2, y2, v2 = p[o2 + X], p[o2 + Y], p[o2 + W]
    x3, y3, v3 = p[o3 + X], p[o3 + Y], p[o3 + W]
    for w in range((n + 63) >> 6):
        z = z_at + 64 * w
        pos = 0
        neg = 0
        for i in range(min(64, n - 64 * w)):
            a, b, c = path[z + i], path[z + n + i], path[z + 2 * n + i]
            s0 = a * x0 + b * y0 + c * v0
            s1 = a * x1 + b * y1 + c * v1
            s2 = a * x2 + b * y2 + c * v2
            s3 = a * x3 + b * y3 + c * v3
            up = 1 - (np.int64(s0 <= -t0) & np.int64(s1 <= -t1) & np.int64(s2 <= -t2) & np.int64(s3 <= -t3))
            down = 1 - (np.int64(s0 >= t0) & np.int64(s1 >= t1) & np.int64(s2 >= t2) & np.int64(s3 >= t3))
            pos |= up << i
            neg |= down << i
        positive[w] |= pos
        negative[w] |= neg


@kernel(inner=True)
def classify_all(path, z_at, n, p, k, trust, error, pend, word, limits, positive, negative):
    """Signs of all units at all vertices: pending (unit, may be positive, may be negative), or on, or off.

    Returns the number of pending units; those that are on are written to ``word``. A polygon with more
    vertices than a mask holds keeps all its units pending.
    """
    words = (n + 63) >> 6
    for w in range(words):
        word[w] = 0
        positive[w] = 0
        negative[w] = 0
    if k > MASK:
        for i in range(n):
            pend[3 * i] = i
            pend[3 * i + 1] = 1
            pend[3 * i + 2] = 1
        return n
    bounded = True
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        limits[2 * v] = threshold(trust, p, o, error[T_A], error[T_C], error[A_MAX], error[C_MAX])
        if p[o + DX] != 0.0 or p[o + DY] != 0.0:
            bounded = False
            limits[2 * v + 1] = threshold_far(trust, p, o, error[T_A], error[A_MAX])
    if bounded:
        v = 0
        while v < k:  # four vertices at a time, the last of them again where there are fewer
            v1, v2, v3 = min(v + 1, k - 1), min(v + 2, k - 1), min(v + 3, k - 1)
            add_signs(
                path, z_at, n, p,
                v * FLOATS_PER_EDGE, v1 * FLOATS_PER_EDGE, v2 * FLOATS_PER_EDGE, v3 * FLOATS_PER_EDGE,
                limits[2 * v], limits[2 * v1], limits[2 * v2], limits[2 * v3], positive, negative,
            )  # fmt: skip
            v += 4
    else:
        for w in range(words):
            positive[w] = -1 if n - 64 * w >= 64 else (1 << (n - 64 * w)) - 1
            negative[w] = positive[w]
    count = 0
    for w in range(words):
        word[w] = positive[w] & ~negative[w]
        both = np.uint64(positive[w] & negative[w])
        while both != np.uint64(0):
            i = 64 * w + lowest(both)
            both &= both - np.uint64(1)
            a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
            pos = 0
            neg = 0
            for v in range(k):
                o = v * FLOATS_PER_EDGE
                dx, dy, t_far = p[o + DX], p[o + DY], limits[2 * v + 1]
                far = dx != 0.0 or dy != 0.0
                s = side(a, b, c, p[o + X], p[o + Y], p[o + W], limits[2 * v], far, dx, dy, t_far)
                pos |= (s & 1) << v
                neg |= (s >> 1) << v
            pend[3 * count] = i
            pend[3 * count + 1] = pos
            pend[3 * count + 2] = neg
            if pos != 0 and neg != 0:
                count += 1
            elif pos != 0:
                word[w] |= 1 << (i & 63)
    return count


@kernel(inlined=True)
def open_sign(net, state, rungs, p, o, owner_a, wall_a, owner_b, wall_b, layer, i, j):
    """The sign of row i (minus row j, if that is not negative) of a layer at the vertex at ``p[o]``, where
    two sides meet, when floats leave it open: 0 zero, 1 positive, 2 negative, 3 still open.
    """
    here = layer_row(net.table, layer)
    path, e, n, z = state.path, state.errors[layer], here.rows, here.z_at + i
    t = threshold(CERTIFIED, p, o, e[T_A], e[T_C], e[A_MAX], e[C_MAX])
    value = path[z] * p[o + X] + path[z + n] * p[o + Y] + path[z + 2 * n] * p[o + W]
    if j >= 0:
        z = here.z_at + j
        value -= path[z] * p[o + X] + path[z + n] * p[o + Y] + path[z + 2 * n] * p[o + W]
    room = p[o + W] - p[o + EW]
    value = 1.01 * (abs(value) + 2.0 * t) / room if room > 0.0 else np.inf
    if not (value >= 0.0):  # nothing is known about the vertex
        value = np.inf
    names = rungs.vertex.names
    names[0], names[1], names[2], names[3] = owner_a, wall_a, owner_b, wall_b
    far = owner_a == AT_INFINITY or owner_b == AT_INFINITY
    while True:
        column, turn, bound = COLUMNS - 1, 1.0, value
        if far:  # the power of M first
            dx, dy = p[o + DX], p[o + DY]
            if owner_a == AT_INFINITY and owner_b == AT_INFINITY:
                names[2], names[3] = FAR_SIDE, 4 if dx * dy < 0.0 else 5
            column = 0 if abs(dx) >= abs(dy) else 1
            size = dx if column == 0 else dy
            turn, bound = 1.0 if size > 0.0 else -1.0, np.inf
        ask_at(COLUMNS, net, state, rungs)
        code = compiled_sign_at(COLUMNS, net, state, rungs, layer, i, j, bound, column, turn)
        if not far:
            return code
        if code != ZERO:
            return code if abs(size) > p[o + ED] else OPEN
        far = False
        if owner_a == AT_INFINITY:
            names[0], names[1] = FAR_SIDE, wall_a
        if owner_b == AT_INFINITY:
            names[2], names[3] = FAR_SIDE, wall_b


@kernel(inner=True)
def vertex_sign(net, state, rungs, p, o, owner_a, wall_a, owner_b, wall_b, layer, i, j):
    """:func:`open_sign` as a call, for places where it is asked once."""
    return open_sign(net, state, rungs, p, o, owner_a, wall_a, owner_b, wall_b, layer, i, j)


@kernel(inlined=True)
def find_twins(net, state, rungs, layer, pend, n_pend):
    """Pending units that vanish, or follow others, are no longer pending; returns how many are left."""
    here = layer_row(net.table, layer)
    kept = 0
    for j in range(n_pend):
        unit, pos, neg = pend[3 * j], pend[3 * j + 1], pend[3 * j + 2]
        first, sign = like(net, here, unit)
        if first >= 0 and first != unit:
            other, turn = followed(here, state.signs, first)
            if other == first:  # that one vanishes
                continue
            for r in range(kept):
                other = first if pend[3 * r] == first else other
            if other >= 0:
                add_twin(here, state.signs, unit, other, sign * turn)
                continue
        sign = 0
        for r in range(kept):
            if may_be_multiple(net, state, layer, pend[3 * r], unit):
                sign = multiple_of(
                    COLUMNS, net, state.path, state.errors, state.signs, rungs.mod, rungs.denominators,
                    rungs.counts, layer, pend[3 * r], unit,
                )  # fmt: skip
            if sign != 0:
                add_twin(here, state.signs, unit, pend[3 * r], sign)
                break
        zero = sign == 0 and may_vanish(net, state, layer, unit)
        if zero:
            zero = vanishes(
                COLUMNS, net, state.path, state.errors, state.signs, rungs.mod, rungs.denominators,
                rungs.counts, layer, unit,
            )  # fmt: skip
        if zero and first == unit:
            add_twin(here, state.signs, unit, unit, 1)
        if sign == 0 and not zero:
            pend[3 * kept] = unit
            pend[3 * kept + 1] = pos
            pend[3 * kept + 2] = neg
            kept += 1
    return kept


@kernel(inner=True)
def settle(net, state, rungs, p, q, k, layer, pend, first, n_pend, word):
    """Decide the open signs of the pending units from ``first`` on; returns how many units are pending then.

    Those that turn out to be on are written to ``word``.
    """
    everywhere = 0
    for j in range(first, n_pend):
        everywhere |= pend[3 * j + 1] & pend[3 * j + 2]
    if everywhere == 0:
        return n_pend
    for v in range(k):
        if (everywhere >> v) & 1 == 0:
            continue
        u = v - 1 if v > 0 else k - 1
        for j in range(first, n_pend):
            if ((pend[3 * j + 1] & pend[3 * j + 2]) >> v) & 1:
                code = open_sign(
                    net, state, rungs, p, v * FLOATS_PER_EDGE, q[2 * u], q[2 * u + 1], q[2 * v], q[2 * v + 1],
                    layer, pend[3 * j], -1,
                )  # fmt: skip
                if code & 1 == 0:
                    pend[3 * j + 1] &= ~(1 << v)
                if code & 2 == 0:
                    pend[3 * j + 2] &= ~(1 << v)
    kept = first
    for j in range(first, n_pend):
        i, pos, neg = pend[3 * j], pend[3 * j + 1], pend[3 * j + 2]
        if pos != 0 and neg != 0:
            pend[3 * kept] = i
            pend[3 * kept + 1] = pos
            pend[3 * kept + 2] = neg
            kept += 1
        elif pos != 0:
            word[i >> 6] |= 1 << (i & 63)
    return kept


@kernel(inner=True)
def settle_all(net, state, rungs, p, q, k, layer, pend, n_pend, word):
    """What can be said of pending units when a layer is entered; returns how many are pending then.

    Twins are looked for in networks in which numbers were zero before.
    """
    if rungs.counts[N_ZERO] > 0:
        n_pend = find_twins(net, state, rungs, layer, pend, n_pend)
    return settle(net, state, rungs, p, q, k, layer, pend, 0, n_pend, word)


@kernel(inlined=True)
def descend(net, state, work, rungs, k, layer):
    """The polygon in the work arrays enters ``layer``, its hidden vector in the path.

    Returns the layer of max-groups it ends in and how many of its units are pending: a fold node stays in the
    work arrays, that of a wall layer goes onto the stack. The layer is -1 where there is no room.
    """
    path, errors, signs, control, si, sf = (
        state.path, state.errors, state.signs, state.control, state.si, state.sf,
    )  # fmt: skip
    p, q = work.p, work.q
    layer = enter_groups(COLUMNS, net, path, errors, layer, control[C_TRUST])
    here = layer_row(net.table, layer)
    n, e = here.rows, carried(here, control[C_LAST] == layer)
    io, fo = control[C_INTS], control[C_FLOATS]
    if io + 2 * k + 3 * n + here.words + here.heads + HEADER > si.shape[0]:
        return -1, 0
    if fo + FLOATS_PER_EDGE * k + e > sf.shape[0]:
        return -1, 0
    control[C_SERIAL] += 1
    signs[here.sign_at] = control[C_SERIAL]
    signs[here.sign_at + 1] = 0
    forget_twins(here, signs)
    if control[C_SERIAL] == 1 and control[C_TRUST] == CERTIFIED:
        sharpen(COLUMNS, net, state, rungs, layer)
    if here.kind == FOLD:
        if here.given >= 0 and control[C_TRUST] == CERTIFIED and given_units(net, here, signs, work.word):
            return layer, 0
        n_pend = classify_all(
            path, here.z_at, n, p, k, control[C_TRUST], errors[layer], work.pend, work.word, work.limits,
            work.positive, work.negative,
        )  # fmt: skip
        if control[C_TRUST] == CERTIFIED and k <= MASK:
            doubt = rungs.counts[N_ZERO]
            for j in range(n_pend):
                doubt |= work.pend[3 * j + 1] & work.pend[3 * j + 2]
            if doubt != 0:
                n_pend = settle_all(net, state, rungs, p, q, k, layer, work.pend, n_pend, work.word)
        return layer, n_pend
    copy(p, 0, sf, fo, FLOATS_PER_EDGE * k)
    copy(q, 0, si, io, 2 * k)
    y = fo + FLOATS_PER_EDGE * k
    at = io + 2 * k
    for h in range(here.heads):
        si[at + h] = 0
    at += here.heads
    for r in range(e):
        sf[y + r] = path[here.y_at + 2 * here.d_in + r] if here.skip == 1 else 0.0
    control[C_INTS] = write_header(si, at, WALL, layer, 0, k, 0, 0, io, FLOATS_PER_EDGE * k + e)
    control[C_FLOATS] = y + e
    return layer, 0


@kernel
def begin(net, state, work, rungs, k):
    """The polygon of the domain in the work arrays enters the first layer. False: no room."""
    layer, n_pend = descend(net, state, work, rungs, k, 0)
    if layer >= 0 and layer_row(net.table, layer).kind == FOLD:
        push_fold(net, state, work, k, layer, n_pend)
    return layer >= 0


@kernel(inlined=True)
def units_of_half(work, k, start, length, first, last, unit, n_pend, ints, at):
    """The units that still cross one half of a polygon that ``unit`` cut, written to ``ints``.

    Returns their number, and that of the units that are on from now on, which are listed in ``units``.
    """
    pend, codes, units = work.pend, work.codes, work.units
    units[0] = unit
    n_on = last  # the crossing of the positive half that comes last is number 1
    count = 0
    if k <= MASK and length + 2 <= MASK:
        top = length + 1
        for j in range(1, n_pend):
            i, pos, neg = pend[3 * j], pend[3 * j + 1], pend[3 * j + 2]
            ca = codes[2 * j + first]
            cb = codes[2 * j + last]
            pos = turned(pos, k, start, length) | (ca & 1) | ((cb & 1) << top)
            neg = turned(neg, k, start, length) | (ca >> 1) | ((cb >> 1) << top)
            ints[at + 3 * count] = i
            ints[at + 3 * count + 1] = pos
            ints[at + 3 * count + 2] = neg
            units[n_on] = i
            count += np.int64(pos != 0) & np.int64(neg != 0)
            n_on += np.int64(pos != 0) & np.int64(neg == 0)
    else:
        # some masks do not fit: whatever is not written here is asked for when its turn comes
        count = n_pend - 1
        undecided = (1 << min(length + 2, MASK)) - 1
        for j in range(count):
            ints[at + 3 * j] = pend[3 * j + 3]
            ints[at + 3 * j + 1] = undecided
            ints[at + 3 * j + 2] = undecided
    return count, n_on


@kernel(inlined=True)
def push_half(net, state, work, k, start, length, owner, wall, layer, unit, n_pend):
    """Push the half of a polygon where ``unit`` is on: polygon, units that still cross it, and bits."""
    words = layer_row(net.table, layer).words
    control, si, sf = state.control, state.si, state.sf
    io, fo = control[C_INTS], control[C_FLOATS]
    kk = write_side(work.p, work.q, k, start, length, 0, 1, work.extra, owner, wall, sf, fo, si, io)
    at = io + 2 * kk
    count, n_on = units_of_half(work, k, start, length, 0, 1, unit, n_pend, si, at)
    at += 3 * count
    copy(work.word, 0, si, at, words)
    for j in range(n_on):
        si[at + (work.units[j] >> 6)] |= 1 << (work.units[j] & 63)
    floats = FLOATS_PER_EDGE * kk
    control[C_INTS] = write_header(si, at + words, FOLD, layer, 0, kk, count, 0, io, floats)
    control[C_FLOATS] = fo + floats


@kernel(inlined=True)
def keep_half(work, k, start, length, owner, wall, unit, n_pend):
    """The polygon in the work arrays becomes its half where ``unit`` is off; returns its edges and units."""
    p, q, half_p, half_q, word, units = work.p, work.q, work.half_p, work.half_q, work.word, work.units
    kk = write_side(p, q, k, start, length, 1, 0, work.extra, owner, wall, half_p, 0, half_q, 0)
    copy(half_p, 0, p, 0, FLOATS_PER_EDGE * kk)
    copy(half_q, 0, q, 0, 2 * kk)
    count, n_on = units_of_half(work, k, start, length, 1, 0, unit, n_pend, work.pend, 0)
    for j in range(n_on):
        word[units[j] >> 6] |= 1 << (units[j] & 63)
    return kk, count


@kernel(inlined=True)
def fold_step(net, state, work, rungs, layer, k, n_pend):
    """Settle the first pending unit of a fold node in the work arrays.

    Returns a status, and the edges and pending units of the node in the work arrays: ``RUNNING`` when it is a
    leaf, ``BUDGET`` after a cut. The half where the unit is on then waits on the stack.
    """
    here = layer_row(net.table, layer)
    path, errors, signs, control, answer, si, sf = (
        state.path, state.errors, state.signs, state.control, state.answer, state.si, state.sf,
    )  # fmt: skip
    p, pend, word, code, codes, extra = work.p, work.pend, work.word, work.code, work.codes, work.extra
    n, z_at, words = here.rows, here.z_at, here.words
    first = 0
    error = errors[layer]
    status = RUNNING
    while first < n_pend:
        i = pend[3 * first]
        a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
        if k <= MASK:
            pos, neg = pend[3 * first + 1], pend[3 * first + 2]
            if pos & neg != 0 and control[C_TRUST] == CERTIFIED:  # primes may have come since it was made
                n_pend = settle(net, state, rungs, p, work.q, k, layer, pend, first, n_pend, word)
                if first == n_pend:
                    break
                i, pos, neg = pend[3 * first], pend[3 * first + 1], pend[3 * first + 2]
            undecided, positive, negative = pos & neg != 0, pos != 0, neg != 0
        else:
            undecided, positive, negative = False, False, False
            for v in range(k):
                o = v * FLOATS_PER_EDGE
                t = threshold(control[C_TRUST], p, o, error[T_A], error[T_C], error[A_MAX], error[C_MAX])
                far = p[o + DX] != 0.0 or p[o + DY] != 0.0
                t_far = threshold_far(control[C_TRUST], p, o, error[T_A], error[A_MAX]) if far else 0.0
                code[v] = side(a, b, c, p[o + X], p[o + Y], p[o + W], t, far, p[o + DX], p[o + DY], t_far)
                if control[C_ANSWERED] == 1:
                    code[v] = answer[v]
                undecided = undecided or code[v] == 3
                positive = positive or code[v] == 1
                negative = negative or code[v] == 2
            control[C_ANSWERED] = 0
        if undecided:
            control[C_ASKED_UNIT] = i
            status = UNDECIDED_FOLD
            break
        if positive and negative:
            break
        if positive:
            word[i >> 6] |= 1 << (i & 63)
        first += 1
    if first > 0:  # what is settled must not be asked again
        n_pend -= first
        for j in range(3 * n_pend):
            pend[j] = pend[j + 3 * first]
    if n_pend == 0 or status != RUNNING:
        return status, k, n_pend
    # room for both halves: together they have at most k + 4 edges
    if control[C_INTS] + 2 * (k + 4) + 2 * (3 * n_pend + words + HEADER) > si.shape[0]:
        return STACK_FULL, k, n_pend
    if control[C_FLOATS] + FLOATS_PER_EDGE * (k + 4) > sf.shape[0]:
        return STACK_FULL, k, n_pend
    i = pend[0]
    a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
    owner = signs[here.sign_at]
    wall = (layer << 54) | (i << 38)
    if k <= MASK:
        pos, neg = pend[1], pend[2]
        for v in range(k):
            code[v] = ((pos >> v) & 1) | (((neg >> v) & 1) << 1)
        start, length = run_of(pos, k)
    else:
        start, length = runs(code, k, 1)
    crossings(p, k, code, a, b, c, error[RA], error[RC], extra, start, length)
    if k <= MASK:
        before = start - 1 if start > 0 else k - 1
        after = (start + length) % k
        for s in range(2):
            o = s * FLOATS_PER_EDGE
            v = before if s == 0 else after
            if code[v] == 0:
                for j in range(1, n_pend):
                    codes[2 * j + s] = ((pend[3 * j + 1] >> v) & 1) | (((pend[3 * j + 2] >> v) & 1) << 1)
            else:
                t = threshold(control[C_TRUST], extra, o, error[T_A], error[T_C], error[A_MAX], error[C_MAX])
                vx, vy, vw, dx, dy = extra[o + X], extra[o + Y], extra[o + W], extra[o + DX], extra[o + DY]
                far = dx != 0.0 or dy != 0.0
                t_far = threshold_far(control[C_TRUST], extra, o, error[T_A], error[A_MAX]) if far else 0.0
                for j in range(1, n_pend):
                    r = z_at + pend[3 * j]
                    codes[2 * j + s] = side(
                        path[r], path[r + n], path[r + 2 * n], vx, vy, vw, t, far, dx, dy, t_far
                    )
                    if codes[2 * j + s] == OPEN and control[C_TRUST] == CERTIFIED:
                        edge = before if s == 0 else (after - 1 if after > 0 else k - 1)
                        codes[2 * j + s] = vertex_sign(
                            net, state, rungs, extra, o, work.q[2 * edge], work.q[2 * edge + 1], owner, wall,
                            layer, pend[3 * j], -1,
                        )  # fmt: skip
    push_half(net, state, work, k, start, length, owner, wall, layer, i, n_pend)
    start, length = run_of(neg, k) if k <= MASK else runs(code, k, 2)
    k, n_pend = keep_half(work, k, start, length, owner, wall, i, n_pend)
    return BUDGET, k, n_pend


@kernel(inlined=True)
def push_fold(net, state, work, k, layer, n_pend):
    """Put the fold node of the work arrays onto the stack, where it is known to fit."""
    words = layer_row(net.table, layer).words
    control, si, sf = state.control, state.si, state.sf
    io, fo = control[C_INTS], control[C_FLOATS]
    copy(work.p, 0, sf, fo, FLOATS_PER_EDGE * k)
    copy(work.q, 0, si, io, 2 * k)
    at = io + 2 * k
    copy(work.pend, 0, si, at, 3 * n_pend)
    at += 3 * n_pend
    copy(work.word, 0, si, at, words)
    floats = FLOATS_PER_EDGE * k
    control[C_INTS] = write_header(si, at + words, FOLD, layer, 0, k, n_pend, 0, io, floats)
    control[C_FLOATS] = fo + floats


@kernel(inlined=True)
def set_candidate(cand, r, i, marks):
    """Candidate number r is key i, of whose signs nothing is known."""
    cand[4 * r] = i
    cand[4 * r + 1] = 0
    cand[4 * r + 2] = 0
    cand[4 * r + 3] = marks


@kernel(inlined=True)
def clip_to_key(net, state, rungs, layer, k0, k1, j, k, owner, wall_base, work, heads, cf, ci):
    """The part of a polygon where key j beats every other key of its head, written to ``cf, ci``.

    Returns its number of edges; 0 when it has no interior, -1 when a sign is undecided (or the polygon is too
    big for masks), -2 - i when it ties with an earlier key i. The strongest rival cuts first; a rival that
    loses at every vertex is forgotten, and so are later keys that tie: they win with j from now on.
    """
    here = layer_row(net.table, layer)
    path, error, trust, z_at, n = (
        state.path,
        state.errors[layer],
        state.control[C_TRUST],
        here.z_at,
        here.rows,
    )
    p, q, code, extra = work.p, work.q, work.code, work.extra
    cand, df, di = heads.cand, heads.df, heads.di
    if k > MASK - 2:
        return -1
    copy(p, 0, cf, 0, FLOATS_PER_EDGE * k)
    copy(q, 0, ci, 0, 2 * k)
    aj, bj, cj = path[z_at + j], path[z_at + n + j], path[z_at + 2 * n + j]
    t_a, t_c, a_max, c_max = 2.0 * error[T_A], 2.0 * error[T_C], 2.0 * error[A_MAX], 2.0 * error[C_MAX]
    # the keys that can have a wall with j; the others only where several of them coincide on a side, and all
    # at once where one of them ties with another key on the whole polygon
    rivals = net.near_at[here.offsets + j]
    all_asked, asks_others = False, False
    count = -1
    known = 0  # candidates whose signs are in the masks, but for fresh vertices
    fresh_from = 0  # vertices whose signs are not in the masks yet
    while True:
        if count < 0:
            all_asked = rivals < 0
            count = 0
            for r in range(k1 - k0 if all_asked else net.near[rivals]):
                i = k0 + r if all_asked else net.near[rivals + 1 + r]
                if i != j and heads.bag_k[i] != FOLLOWS:
                    set_candidate(cand, count, i, NEAR)
                    count += 1
                elif i != j and not all_asked:
                    count = -1
                    break
            if count < 0:
                rivals = -1
                continue
        for v in range(k):
            old = fresh_from == 2 or (fresh_from == 1 and v != 0 and v != k - 1)
            if old and known == count:
                continue
            o = v * FLOATS_PER_EDGE
            t = threshold(trust, cf, o, t_a, t_c, a_max, c_max)
            vx, vy, vw, dx, dy = cf[o + X], cf[o + Y], cf[o + W], cf[o + DX], cf[o + DY]
            far = dx != 0.0 or dy != 0.0
            t_far = threshold_far(trust, cf, o, t_a, a_max) if far else 0.0
            for r in range(known if old else 0, count):
                i = cand[4 * r]
                s = side(
                    path[z_at + i] - aj, path[z_at + n + i] - bj, path[z_at + 2 * n + i] - cj,
                    vx, vy, vw, t, far, dx, dy, t_far,
                )  # fmt: skip
                if v == 0 and r >= known and trust == CERTIFIED and s in (OPEN, ZERO):
                    same = agree(
                        COLUMNS, net, path, state.errors, state.signs, rungs.mod, rungs.denominators,
                        rungs.counts, layer, i, j,
                    )  # fmt: skip
                    if same == OPEN:
                        return -1
                    if same == ZERO and i < j:
                        return -2 - i
                    if same == ZERO and not all_asked:
                        rivals = -1
                        break
                    if same == ZERO:
                        join_key(net, state.errors, state.signs, layer, i, j)
                        heads.bag_k[i] = FOLLOWS
                        continue
                if s == OPEN and trust == CERTIFIED and cand[4 * r + 3] & NEAR == 0:
                    cand[4 * r + 3] |= 1 << v  # where its rivals stand decides; it is asked when it cuts
                    s = ZERO
                if s == OPEN and trust == CERTIFIED:
                    u = v - 1 if v > 0 else k - 1
                    s = vertex_sign(
                        net,
                        state,
                        rungs,
                        cf,
                        o,
                        ci[2 * u],
                        ci[2 * u + 1],
                        ci[2 * v],
                        ci[2 * v + 1],
                        layer,
                        i,
                        j,
                    )
                    if s == OPEN:
                        return -1
                cand[4 * r + 1] |= (s & 1) << v
                cand[4 * r + 2] |= (s >> 1) << v
            if rivals < 0 and not all_asked:
                break
            if v == 0 and known < count:  # keys that tie are no rivals
                kept = known
                for r in range(known, count):
                    if heads.bag_k[cand[4 * r]] != FOLLOWS:
                        copy(cand, 4 * r, cand, 4 * kept, 4)
                        kept += 1
                count = kept
        if rivals < 0 and not all_asked:
            count = -1
            continue
        known = count
        full = (1 << k) - 1
        kept = 0
        best = -1
        strongest = -1.0
        for r in range(count):
            i, pos, neg, marks = cand[4 * r], cand[4 * r + 1], cand[4 * r + 2], cand[4 * r + 3]
            if pos == 0 and neg == full:
                continue
            copy(cand, 4 * r, cand, 4 * kept, 4)
            if pos & neg == 0 and pos != 0:
                if neg == 0 and marks & ~NEAR == 0:
                    return 0
                if best >= 0 and marks & NEAR < cand[4 * best + 3] & NEAR:
                    kept += 1
                    continue
                if best >= 0 and marks & NEAR > cand[4 * best + 3] & NEAR:
                    best = -1
                    strongest = -1.0
                a, b, c = path[z_at + i] - aj, path[z_at + n + i] - bj, path[z_at + 2 * n + i] - cj
                for v in range(k):
                    if (pos >> v) & 1:
                        o = v * FLOATS_PER_EDGE
                        value = (a * cf[o + X] + b * cf[o + Y] + c * cf[o + W]) / cf[o + W]
                        if not (value <= strongest):
                            strongest = value
                            best = kept
                if best < 0:
                    best = kept
            kept += 1
        count = kept
        known = kept
        if best < 0 and all_asked:
            break
        if best < 0 and not asks_others:
            # a set that is more than one step away wins beyond a side only if several neighbours are level
            for r in range(count):
                level = ((1 << k) - 1) & ~cand[4 * r + 2]
                next_to = (level >> 1) | ((level & 1) << (k - 1))
                asks_others = asks_others or level & next_to != 0
            if not asks_others:
                break
        if best < 0:
            for v in range(k):
                o = v * FLOATS_PER_EDGE
                work.limits[v] = threshold(trust, cf, o, t_a, t_c, a_max, c_max)
                if cf[o + DX] != 0.0 or cf[o + DY] != 0.0:
                    work.limits[v] = np.inf
            listed = rivals + 1
            for i in range(k0, k1):
                while listed <= rivals + net.near[rivals] and net.near[listed] < i:
                    listed += 1
                near = listed <= rivals + net.near[rivals] and net.near[listed] == i
                if i == j or near or heads.bag_k[i] == FOLLOWS:
                    continue
                a, b, c = path[z_at + i] - aj, path[z_at + n + i] - bj, path[z_at + 2 * n + i] - cj
                below = True
                for v in range(k):
                    o = v * FLOATS_PER_EDGE
                    value = a * cf[o + X] + b * cf[o + Y] + c * cf[o + W]
                    below = below and value <= -work.limits[v]
                if not below:
                    set_candidate(cand, count, i, 0)
                    count += 1
            all_asked = True
            fresh_from = 2
            continue
        marks = cand[4 * best + 3] & ~NEAR
        if marks != 0:  # signs that were left open
            for v in range(k):
                if (marks >> v) & 1:
                    u = v - 1 if v > 0 else k - 1
                    s = vertex_sign(
                        net, state, rungs, cf, v * FLOATS_PER_EDGE, ci[2 * u], ci[2 * u + 1], ci[2 * v],
                        ci[2 * v + 1], layer, cand[4 * best], j,
                    )  # fmt: skip
                    if s == OPEN:
                        return -1
                    cand[4 * best + 1] |= (s & 1) << v
                    cand[4 * best + 2] |= (s >> 1) << v
            cand[4 * best + 3] &= NEAR
            fresh_from = 2
            continue
        i, pos, neg = cand[4 * best], cand[4 * best + 1], cand[4 * best + 2]
        for v in range(k):
            code[v] = ((pos >> v) & 1) | (((neg >> v) & 1) << 1)
        start, length = runs(code, k, 2)
        if length + 2 > MASK - 2:
            return -1
        a, b, c = path[z_at + i] - aj, path[z_at + n + i] - bj, path[z_at + 2 * n + i] - cj
        da = 2.0 * error[RA] + UNIT * error[A_MAX] * 2.0
        dc = 2.0 * error[RC] + UNIT * error[C_MAX] * 2.0
        crossings(cf, k, code, a, b, c, da, dc, extra, start, length)
        wall = wall_base | (min(i, j) << 19) | max(i, j)
        kk = write_side(cf, ci, k, start, length, 0, 1, extra, owner, wall, df, 0, di, 0)
        copy(df, 0, cf, 0, FLOATS_PER_EDGE * kk)
        copy(di, 0, ci, 0, 2 * kk)
        kept = 0
        for r in range(count):
            if r == best:
                continue
            cand[4 * kept] = cand[4 * r]
            cand[4 * kept + 1] = turned(cand[4 * r + 1], k, start, length)
            cand[4 * kept + 2] = turned(cand[4 * r + 2], k, start, length)
            marks = cand[4 * r + 3]
            cand[4 * kept + 3] = marks & NEAR | turned(marks & ~NEAR, k, start, length)
            kept += 1
        count = kept
        known = kept
        k = kk
        fresh_from = 1
    # whoever is left is undecided somewhere, or exactly level at some vertices: one vertex is no contact
    full = (1 << k) - 1
    level_count = 0
    for r in range(count):
        i, pos, neg = cand[4 * r], cand[4 * r + 1], cand[4 * r + 2]
        if pos != 0:
            return -1
        level = full & ~neg
        if level & (level - 1) == 0:
            continue
        if cand[4 * r + 3] & NEAR == 0:  # perhaps it wins beyond a side
            cand[level_count] = i
            level_count += 1
            continue
        if level == full:
            return -1
        # level on a side: another key whose wall with j is that line, and perhaps the one that wins beyond
        other = i
        for v in range(k):
            u = v + 1 if v + 1 < k else 0
            on_side = (level >> v) & (level >> u) & 1 != 0
            if on_side and ci[2 * v] == owner and ci[2 * v + 1] >> 38 == wall_base >> 38:
                rival = ((ci[2 * v + 1] >> 19) & 0x7FFFF) + (ci[2 * v + 1] & 0x7FFFF) - j
                if i < rival:  # of walls on one line, that of the first key gives its name
                    ci[2 * v + 1] = wall_base | (min(i, j) << 19) | max(i, j)
                    other = rival
        cand[level_count] = other
        level_count += 1
    heads.n_level[0] = level_count
    return k


@kernel
def push_head(net, state, layer, head, key, f, i, k, routes, yv, e, tied):
    """Push the polygon on which ``key`` wins ``head``, waiting for the next head. False: no room."""
    here = layer_row(net.table, layer)
    control, si, sf = state.control, state.si, state.sf
    heads = here.heads
    io, fo = control[C_INTS], control[C_FLOATS]
    if io + 2 * k + heads + HEADER > si.shape[0] or fo + FLOATS_PER_EDGE * k + e > sf.shape[0]:
        return False
    copy(f, 0, sf, fo, FLOATS_PER_EDGE * k)
    copy(i, 0, si, io, 2 * k)
    at = io + 2 * k
    copy(routes, 0, si, at, heads)
    si[at + head] = key
    if e > 0:
        add_output(net, here, state.signs, key, yv, sf, fo + FLOATS_PER_EDGE * k, e)
    if here.outputs >= 0 and has_twins(here, state.signs, key):
        tied = 1
    at += heads
    control[C_INTS] = write_header(si, at, WALL, layer, head + 1, k, 0, tied, io, FLOATS_PER_EDGE * k + e)
    control[C_FLOATS] = fo + FLOATS_PER_EDGE * k + e
    return True


@kernel(inlined=True)
def head_step(net, state, work, keys, rungs, layer, head, k, tied):
    """Cut the polygon of the work arrays into the cells of one head; returns a status.

    The winners inside a convex polygon are connected through their common walls, so a walk from one winner
    finds them all. Keys that are tried and have no cell are discarded; only walls of finished cells are
    followed.
    """
    here = layer_row(net.table, layer)
    path, signs, control = state.path, state.signs, state.control
    p, q, yv, routes = work.p, work.q, work.yv, work.routes
    todo, bag_f, bag_i, bag_k = keys.todo, keys.bag_f, keys.bag_i, keys.bag_k
    heads_at = net.heads_at
    room = keys.df.shape[0] // FLOATS_PER_EDGE
    e = carried(here, control[C_LAST] == layer)
    z_at, n = here.z_at, here.rows
    k0, k1 = heads_at[here.head_at + head], heads_at[here.head_at + head + 1]
    if k1 - k0 == 1:
        if not push_head(net, state, layer, head, k0, p, q, k, routes, yv, e, tied):
            return STACK_FULL
        return BUDGET
    if control[C_TRUST] == EXACT:
        return UNDECIDED_HEAD
    owner = signs[here.sign_at]
    wall_base = (layer << 54) | (head << 38)
    for i in range(k0, k1):
        bag_k[i] = UNSEEN
    for t in range(n_twins(here, signs)):
        bag_k[twin(here, signs, t)[0]] = FOLLOWS
    n_todo = 0
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        far = p[o + DX] != 0.0 or p[o + DY] != 0.0
        best = k0
        value = -np.inf
        for i in range(k0, k1):
            if bag_k[i] == FOLLOWS:
                continue
            a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
            s = a * p[o + DX] + b * p[o + DY] if far else a * p[o + X] + b * p[o + Y] + c * p[o + W]
            if s > value:
                value = s
                best = i
        if bag_k[best] == UNSEEN:
            bag_k[best] = WAITING
            todo[n_todo] = best
            n_todo += 1
    found = 0
    done = 0
    while done < n_todo or found == 0:
        if done == n_todo:  # at every corner the highest keys are level, and none of those tried has a cell
            for i in range(k0, k1):
                if bag_k[i] == UNSEEN:
                    bag_k[i] = WAITING
                    todo[n_todo] = i
                    n_todo += 1
            if done == n_todo:
                return UNDECIDED_HEAD
        j = todo[done]
        done += 1
        if bag_k[j] == FOLLOWS:
            continue
        if (found + 1) * room > bag_i.shape[0] // 2:
            return POLYGON_FULL
        kk = clip_to_key(net, state, rungs, layer, k0, k1, j, k, owner, wall_base, work, keys,
                         bag_f[FLOATS_PER_EDGE * room * found :], bag_i[2 * room * found :])  # fmt: skip
        if kk == -1:
            return UNDECIDED_HEAD
        bag_k[j] = 0
        if kk < 0:  # it ties with an earlier key, which stands for both
            if bag_k[-2 - kk] == UNSEEN:
                bag_k[-2 - kk] = WAITING
                todo[n_todo] = -2 - kk
                n_todo += 1
            continue
        if kk == 0:
            continue
        bag_k[j] = kk
        todo[n + j] = found
        for v in range(kk):
            o = 2 * (room * found + v)
            if bag_i[o] == owner and (bag_i[o + 1] >> 38) == (wall_base >> 38):
                u = (bag_i[o + 1] >> 19) & 0x7FFFF
                w = bag_i[o + 1] & 0x7FFFF
                rival = u + w - j
                if bag_k[rival] == UNSEEN:
                    bag_k[rival] = WAITING
                    todo[n_todo] = rival
                    n_todo += 1
        for r in range(keys.n_level[0]):
            rival = keys.cand[r]
            if bag_k[rival] == UNSEEN:
                bag_k[rival] = WAITING
                todo[n_todo] = rival
                n_todo += 1
        found += 1
    edges = 0
    for j in range(k0, k1):
        edges += max(bag_k[j], 0)
    # all or none: the first of them takes the place of the node
    if control[C_INTS] + 2 * edges + found * (here.heads + HEADER) > state.si.shape[0]:
        return STACK_FULL
    if control[C_FLOATS] + FLOATS_PER_EDGE * edges + found * e > state.sf.shape[0]:
        return STACK_FULL
    for r in range(k1 - k0):
        j = k1 - 1 - r
        if bag_k[j] > 0:
            slot = todo[n + j]
            f, i = bag_f[FLOATS_PER_EDGE * room * slot :], bag_i[2 * room * slot :]
            push_head(net, state, layer, head, j, f, i, bag_k[j], routes, yv, e, tied)
    return BUDGET


@kernel(inner=True)
def perimeter(p, k, unit):
    """The perimeter of a bounded polygon, times ``unit``."""
    total = 0.0
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        r = (v + 1) * FLOATS_PER_EDGE if v + 1 < k else 0
        dx = (p[o + X] / p[o + W] - p[r + X] / p[r + W]) * unit
        dy = (p[o + Y] / p[o + W] - p[r + Y] / p[r + W]) * unit
        total += np.sqrt(dx * dx + dy * dy)
    return total


@kernel(inner=True)
def witness(p, k, far, known, out, at):
    """A point inside a polygon, and a proven lower bound on its distance from every side (0: none was
    proven).

    The mean of the vertices; in an unbounded polygon far enough out. Which side of an edge is inside is told
    by a vertex off that edge whose sign is beyond doubt.
    """
    sx, sy, ux, uy = 0.0, 0.0, 0.0, 0.0
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        sx += p[o + X] / p[o + W] / k
        sy += p[o + Y] / p[o + W] / k
        ux += p[o + DX] / p[o + W] / k
        uy += p[o + DY] / p[o + W] / k
    reach = 1.0
    x, y = sx, sy
    margin = 0.0
    for _ in range(64 if far else 1):
        if far:
            x, y = sx + reach * ux, sy + reach * uy
        margin = np.inf if known else 0.0
        for v in range(k):
            o = v * FLOATS_PER_EDGE
            if p[o + LDC] == SYMBOLIC or not (margin > 0.0):
                continue
            a, b, c = p[o + LA], p[o + LB], p[o + LC]
            size = max(abs(a), abs(b))
            value = a * x + b * y + c
            error = p[o + LDC] + (abs(x) + abs(y)) * (p[o + LDA] + 5.0 * UNIT * size) + 5.0 * UNIT * abs(c)
            inside = 0
            for u in range(2, k):
                r = ((v + u) % k) * FLOATS_PER_EDGE
                t_a, t_c = p[o + LDA] + 5.0 * UNIT * size, p[o + LDC] + 5.0 * UNIT * abs(c)
                t = threshold(CERTIFIED, p, r, t_a, t_c, size + p[o + LDA], abs(c) + p[o + LDC])
                out_there = p[r + DX] != 0.0 or p[r + DY] != 0.0
                t_far = threshold_far(CERTIFIED, p, r, t_a, size + p[o + LDA]) if out_there else 0.0
                s = side(a, b, c, p[r + X], p[r + Y], p[r + W], t, out_there, p[r + DX], p[r + DY], t_far)
                if s == 1 or s == 2:
                    inside = 1 if s == 1 else -1
                    break
            if not (size > 0.0):
                margin = 0.0
                continue
            length = size * np.sqrt((a / size) ** 2 + (b / size) ** 2) + p[o + LDA]
            distance = (inside * value - error) / (1.0001 * length)
            margin = margin if distance >= margin else distance  # NaN, where nothing is known, stays
        if margin > 0.0:
            break
        reach *= 2.0
    out[at] = x
    out[at + 1] = y
    out[at + 2] = margin if margin > 0.0 else 0.0


@kernel(inner=True)
def place(net, state, rungs, p, q, k, v):
    """Replace a vertex that floats know badly by what double-double knows of it."""
    u, o = v - 1 if v > 0 else k - 1, v * FLOATS_PER_EDGE
    if q[2 * u] == AT_INFINITY or q[2 * v] == AT_INFINITY:
        return
    names = rungs.vertex.names
    names[0], names[1], names[2], names[3] = q[2 * u], q[2 * u + 1], q[2 * v], q[2 * v + 1]
    ask_at(COLUMNS, net, state, rungs)
    x, y, w = p[o + X], p[o + Y], p[o + W]
    error = place_at(COLUMNS, net, state, rungs, 2, 1.0, p, o + X)
    if error < np.inf:
        p[o + EXY] = 2.0 * error
        p[o + EW] = error
    else:
        p[o + X], p[o + Y], p[o + W] = x, y, w


@kernel(inlined=True)
def placed(p, o, unit):
    """Whether it is roughly known where a vertex is; only what rationals have placed has no error in W."""
    size = p[o + W] + (abs(p[o + X]) + abs(p[o + Y])) * unit
    rough = p[o + EW] < 1e-6 * p[o + W] and p[o + EXY] * unit < 1e-6 * size
    return rough or p[o + EW] == 0.0


@kernel(inlined=True)
def emit(net, state, work, rungs, out, k):
    """Count a finished cell and, if asked, write it down; returns a status.

    A cell with a vertex whose place is not even roughly known is handed back: its corners are wanted in
    rationals.
    """
    control, totals, p, q = state.control, state.totals, work.p, work.q
    store = control[C_EMIT] == 1
    n_cell, n_edge = control[C_OUT_CELLS], control[C_OUT_EDGES]
    if store and (n_cell + 1 >= out.start.shape[0] or 2 * (n_edge + k) > out.labels.shape[0]):
        return OUTPUT_FULL
    # around the first vertex, so that a small cell far out keeps its digits; in units of the domain's size
    unit = totals[2]
    far = False
    known = True
    for v in range(k):
        far = far or q[2 * v] == AT_INFINITY
        o = v * FLOATS_PER_EDGE
        known = known and placed(p, o, unit)
    if not known and control[C_TRUST] == CERTIFIED:
        known = True
        for v in range(k):
            o = v * FLOATS_PER_EDGE
            if not placed(p, o, unit):
                place(net, state, rungs, p, q, k, v)
                known = known and placed(p, o, unit)
    if not known and control[C_TRUST] != FLOAT:
        return UNCERTAIN
    if far:
        control[C_UNBOUNDED] += 1
    else:
        x0, y0 = p[X] / p[W] * unit, p[Y] / p[W] * unit
        px, py = 0.0, 0.0
        area = 0.0
        around = 0.0
        for v in range(1, k + 1):
            o = v * FLOATS_PER_EDGE if v < k else 0
            vx, vy = p[o + X] / p[o + W] * unit - x0, p[o + Y] / p[o + W] * unit - y0
            area += px * vy - py * vx
            around += abs(vx - px) + abs(vy - py)
            px, py = vx, vy
        totals[0] += 0.5 * area
        # the sum of |dx| + |dy| is at least the perimeter and at most 1.5 times it
        if not (area > totals[1] * around) and not (area > totals[1] * perimeter(p, k, unit)):
            control[C_SLIVERS] += 1
    control[C_CELLS] += 1
    if not store:
        return RUNNING
    witness(p, k, far, known, out.witness, 3 * n_cell)
    out.tied[n_cell] = write_signature(
        net, control[C_LAST], state.signs, out, n_cell, control[C_WORDS], control[C_ROUTES]
    )
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        r = (n_edge + v) * control[C_STRIDE]
        vx, vy = p[o + X] / p[o + W], p[o + Y] / p[o + W]
        out.vertices[r] = vx
        out.vertices[r + 1] = vy
        slack = p[o + W] - p[o + EW]
        out.vertices[r + 2] = (
            2.0 * UNIT * (abs(vx) + abs(vy)) + (p[o + EXY] + (abs(vx) + abs(vy)) * p[o + EW]) / slack
        )
        if not (out.vertices[r + 2] >= 0.0):
            out.vertices[r + 2] = np.inf
        if control[C_STRIDE] == 5:
            out.vertices[r + 3] = p[o + DX] / p[o + W]
            out.vertices[r + 4] = p[o + DY] / p[o + W]
        out.labels[2 * (n_edge + v)] = q[2 * v]
        out.labels[2 * (n_edge + v) + 1] = q[2 * v + 1]
    control[C_OUT_CELLS] = n_cell + 1
    control[C_OUT_EDGES] = n_edge + k
    out.start[n_cell + 1] = n_edge + k
    return RUNNING


@kernel
def run(net, state, work, keys, rungs, out, budget):
    """Process nodes until the stack is empty, the budget is used up, or the caller is needed."""
    control, si, sf = state.control, state.si, state.sf
    p, q, pend, word, yv, routes = work.p, work.q, work.pend, work.word, work.yv, work.routes
    path, errors, signs, layer_cells = state.path, state.errors, state.signs, state.layer_cells
    last = control[C_LAST]
    room = keys.df.shape[0] // FLOATS_PER_EDGE
    held = False  # whether a fold node is in the work arrays
    kind, layer, head, k, n_pend, tied, end, floats = FOLD, 0, 0, 0, 0, 0, 0, 0
    status = RUNNING
    while budget > 0:
        budget -= 1
        control[C_STEPS] += 1
        if not held and control[C_INTS] == 0:
            status = DONE
            break
        if control[C_CELLS] >= control[C_MOST_CELLS]:
            status = BUDGET
            break
        if not held:
            end, floats = control[C_INTS], control[C_FLOATS]
            kind, layer, head = si[end - 8], si[end - 7], si[end - 6]
            k, n_pend, tied = si[end - 5], si[end - 4], si[end - 3]
        if k + 4 > room:
            status = POLYGON_FULL
            break
        here = layer_row(net.table, layer)
        if not held:
            io, fo = end - si[end - 2], floats - si[end - 1]
            at = io + 2 * k
            copy(sf, fo, p, 0, FLOATS_PER_EDGE * k)
            copy(si, io, q, 0, 2 * k)
            control[C_INTS] = io
            control[C_FLOATS] = fo
            if kind == FOLD:
                copy(si, at, pend, 0, 3 * n_pend)
                copy(si, at + 3 * n_pend, word, 0, here.words)
                held = True
            else:
                copy(si, at, routes, 0, here.heads)
                copy(sf, fo + FLOATS_PER_EDGE * k, yv, 0, carried(here, last == layer))
        status = RUNNING
        if kind == FOLD:
            if n_pend > 0:
                status, k, n_pend = fold_step(net, state, work, rungs, layer, k, n_pend)
        elif head < here.heads:
            status = head_step(net, state, work, keys, rungs, layer, head, k, tied)
        if status == RUNNING:  # a leaf
            if kind == FOLD:
                follow_twins(here, signs, word)
            else:
                signs[here.sign_at + 1] = tied
                copy(routes, 0, signs, here.sign_at + 2, here.heads)
            if layer == last:
                if kind == FOLD:
                    copy(word, 0, signs, here.sign_at + 2, here.words)
                status = emit(net, state, work, rungs, out, k)
                if status == RUNNING:
                    layer_cells[layer] += 1
                    held = False
            else:
                if kind == FOLD:
                    leave_units(COLUMNS, net, path, errors, layer, word, signs, work.units)
                else:
                    leave(COLUMNS, net, path, errors, signs, layer, routes, yv)
                entered, pending = descend(net, state, work, rungs, k, layer + 1)
                if entered < 0:
                    status = STACK_FULL
                else:
                    layer_cells[layer] += 1
                    layer, n_pend, kind = entered, pending, layer_row(net.table, entered).kind
                    held = kind == FOLD
        if status != RUNNING and status != BUDGET:
            if not held:  # nothing was changed: the node is still where it was
                control[C_INTS] = end
                control[C_FLOATS] = floats
            break
    if held:
        push_fold(net, state, work, k, layer, n_pend)
    if status in (RUNNING, BUDGET):
        status = DONE if control[C_INTS] == 0 else BUDGET
    control[C_STATUS] = status
