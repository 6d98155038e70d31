r"""The compiled part of the plane engine: polygons are cut, layer by layer, depth first.

A *node* is a convex polygon on which the signature is settled up to some point of some layer. In a fold layer
the first unit that still changes sign cuts the polygon in two; in a wall layer the next head cuts it into the
cells of its upper envelope. A polygon whose layer is settled enters the next layer with the affine map of its
hidden vector; one that has passed the last layer is a cell. Nodes wait on an explicit stack, so the machine
can stop after any number of steps and go on later.

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
    add_units,
    carried,
    copy,
    enter_groups,
    layer_row,
    leave,
    without_units,
    write_header,
    write_signature,
)
from hardmax.regions.engine.sign_kernels import FAR_SIDE, OPEN, ZERO, ask_at
from hardmax.regions.engine.sign_kernels import sign_at as compiled_sign_at

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
    pend: Integers
    word: Integers
    yv: Floats
    routes: Integers
    code: Integers
    codes: Integers
    extra: Floats
    units: Integers
    on: Integers
    pending: Integers
    more: Integers


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


@kernel(inner=True)
def add_signs(path, z_at, n, vx, vy, vw, t, v, positive, negative):
    """Signs of all rows at vertex v, as bit v of their masks; written so that many rows are done at once."""
    for i in range(n):
        s = path[z_at + i] * vx + path[z_at + n + i] * vy + path[z_at + 2 * n + i] * vw
        positive[i] |= (1 - np.int64(s <= -t)) << v
        negative[i] |= (1 - np.int64(s >= t)) << v


@kernel(inner=True)
def classify_all(path, z_at, n, p, k, trust, error, pending, on, positive, negative):
    """Signs of all units at all vertices: pending (unit, may be positive, may be negative), or on, or off.

    Returns the numbers of pending and of on units. A polygon with more vertices than a mask holds keeps all
    its units pending.
    """
    if k > MASK:
        for i in range(n):
            pending[3 * i] = i
            pending[3 * i + 1] = 1
            pending[3 * i + 2] = 1
        return n, 0
    for i in range(n):
        positive[i] = 0
        negative[i] = 0
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        t = threshold(trust, p, o, error[T_A], error[T_C], error[A_MAX], error[C_MAX])
        if p[o + DX] == 0.0 and p[o + DY] == 0.0:
            add_signs(path, z_at, n, p[o + X], p[o + Y], p[o + W], t, v, positive, negative)
            continue
        t_far = threshold_far(trust, p, o, error[T_A], error[A_MAX])
        for i in range(n):
            a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
            s = side(a, b, c, p[o + X], p[o + Y], p[o + W], t, True, p[o + DX], p[o + DY], t_far)
            positive[i] |= (s & 1) << v
            negative[i] |= (s >> 1) << v
    # written without branches: which units are on looks random to the processor
    n_pending = 0
    n_on = 0
    for i in range(n):
        pos, neg = positive[i], negative[i]
        pending[3 * n_pending] = i
        pending[3 * n_pending + 1] = pos
        pending[3 * n_pending + 2] = neg
        on[n_on] = i
        n_pending += np.int64(pos != 0) & np.int64(neg != 0)
        n_on += np.int64(pos != 0) & np.int64(neg == 0)
    return n_pending, n_on


@kernel(inner=True)
def vertex_sign(net, state, rungs, p, o, owner_a, wall_a, owner_b, wall_b, layer, i, j):
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
    names = rungs.names
    names[0], names[1], names[2], names[3] = owner_a, wall_a, owner_b, wall_b
    if owner_a == AT_INFINITY or owner_b == AT_INFINITY:
        dx, dy = p[o + DX], p[o + DY]
        if owner_a == AT_INFINITY and owner_b == AT_INFINITY:
            names[2], names[3] = FAR_SIDE, 4 if dx * dy < 0.0 else 5
        ask_at(COLUMNS, rungs, state.errors)
        column = 0 if abs(dx) >= abs(dy) else 1
        size = dx if column == 0 else dy
        turn = (1.0 if size > 0.0 else -1.0) if abs(size) > p[o + ED] else np.nan
        code = compiled_sign_at(COLUMNS, net, state, rungs, layer, i, j, np.inf, column, turn)
        if code != ZERO:
            return code if turn == turn else OPEN
        if owner_a == AT_INFINITY:
            names[0], names[1] = FAR_SIDE, wall_a
        if owner_b == AT_INFINITY:
            names[2], names[3] = FAR_SIDE, wall_b
    ask_at(COLUMNS, rungs, state.errors)
    return compiled_sign_at(COLUMNS, net, state, rungs, layer, i, j, value, COLUMNS - 1, 1.0)


@kernel(inner=True)
def settle(net, state, rungs, p, q, k, layer, pending, n_pending, on, n_on):
    """Decide the open signs of pending units; returns the numbers of units that are still pending, and on."""
    everywhere = 0
    for j in range(n_pending):
        everywhere |= pending[3 * j + 1] & pending[3 * j + 2]
    if everywhere == 0:
        return n_pending, n_on
    for v in range(k):
        if (everywhere >> v) & 1 == 0:
            continue
        u = v - 1 if v > 0 else k - 1
        for j in range(n_pending):
            if ((pending[3 * j + 1] & pending[3 * j + 2]) >> v) & 1:
                code = vertex_sign(
                    net, state, rungs, p, v * FLOATS_PER_EDGE, q[2 * u], q[2 * u + 1], q[2 * v], q[2 * v + 1],
                    layer, pending[3 * j], -1,
                )  # fmt: skip
                if code & 1 == 0:
                    pending[3 * j + 1] &= ~(1 << v)
                if code & 2 == 0:
                    pending[3 * j + 2] &= ~(1 << v)
    kept = 0
    for j in range(n_pending):
        i, pos, neg = pending[3 * j], pending[3 * j + 1], pending[3 * j + 2]
        if pos != 0 and neg != 0:
            pending[3 * kept] = i
            pending[3 * kept + 1] = pos
            pending[3 * kept + 2] = neg
            kept += 1
        elif pos != 0:
            on[n_on] = i
            n_on += 1
    return kept, n_on


@kernel
def descend(net, state, work, rungs, k, layer):
    """A polygon enters ``layer``, its hidden vector in the path: push its first node. False: no room."""
    path, errors, signs, control, si, sf = (
        state.path, state.errors, state.signs, state.control, state.si, state.sf,
    )  # fmt: skip
    p, q, units, on, pending, more = work.p, work.q, work.units, work.on, work.pending, work.more
    weights = net.weights
    layer = enter_groups(COLUMNS, net, path, errors, layer, control[C_TRUST])
    here = layer_row(net.table, layer)
    n, words, e = here.rows, here.words, carried(here, control[C_LAST] == layer)
    io, fo = control[C_INTS], control[C_FLOATS]
    if io + 2 * k + 3 * n + words + here.heads + HEADER > si.shape[0]:
        return False
    if fo + FLOATS_PER_EDGE * k + 3 * e > sf.shape[0]:
        return False
    control[C_SERIAL] += 1
    signs[here.sign_at] = control[C_SERIAL]
    signs[here.sign_at + 1] = 0
    copy(p, 0, sf, fo, FLOATS_PER_EDGE * k)
    copy(q, 0, si, io, 2 * k)
    y = fo + FLOATS_PER_EDGE * k
    at = io + 2 * k
    y_at, m = here.y_at, here.d_in
    if here.kind == FOLD:
        n_pending, n_on = classify_all(
            path, here.z_at, n, p, k, control[C_TRUST], errors[layer], pending, on, units, more
        )
        if control[C_TRUST] == CERTIFIED and k <= MASK:
            n_pending, n_on = settle(net, state, rungs, p, q, k, layer, pending, n_pending, on, n_on)
        copy(pending, 0, si, at, 3 * n_pending)
        at += 3 * n_pending
        for j in range(words):
            si[at + j] = 0
        for j in range(n_on):
            si[at + (on[j] >> 6)] |= 1 << (on[j] & 63)
        at += words
        if e > 0:
            without_units(COLUMNS, net, path, layer, sf, y)
            add_units(COLUMNS, weights, here.outputs, e, on, n_on, path, here.z_at, n, sf, y)
        floats = FLOATS_PER_EDGE * k + 3 * e
    else:
        n_pending = 0
        for h in range(here.heads):
            si[at + h] = 0
        at += here.heads
        for r in range(e):
            sf[y + r] = path[y_at + 2 * m + r] if here.skip == 1 else 0.0
        floats = FLOATS_PER_EDGE * k + e
    control[C_INTS] = write_header(si, at, here.kind, layer, 0, k, n_pending, 0, io, floats)
    control[C_FLOATS] = fo + floats
    return True


@kernel(inlined=True)
def push_half(net, state, work, k, start, length, first, last, owner, wall, layer, unit, n_pend, e):
    """Push one half of a polygon that ``unit`` cut: polygon, units that still cross it, bits and map."""
    here = layer_row(net.table, layer)
    path, control, si, sf = state.path, state.control, state.si, state.sf
    p, q, extra, pend, codes, word, yv, on = (
        work.p, work.q, work.extra, work.pend, work.codes, work.word, work.yv, work.on,
    )  # fmt: skip
    words = here.words
    n = here.rows
    io, fo = control[C_INTS], control[C_FLOATS]
    kk = write_side(p, q, k, start, length, first, last, extra, owner, wall, sf, fo, si, io)
    y = fo + FLOATS_PER_EDGE * kk
    at = io + 2 * kk
    copy(yv, 0, sf, y, 3 * e)
    on[0] = unit
    n_on = last  # the crossing of the positive half that comes last is number 1
    count = 0
    if k <= MASK and kk <= MASK:
        top = length + 1
        for j in range(1, n_pend):
            i, pos, neg = pend[3 * j], pend[3 * j + 1], pend[3 * j + 2]
            ca = codes[2 * j + first]
            cb = codes[2 * j + last]
            pos = turned(pos, k, start, length) | (ca & 1) | ((cb & 1) << top)
            neg = turned(neg, k, start, length) | (ca >> 1) | ((cb >> 1) << top)
            si[at + 3 * count] = i
            si[at + 3 * count + 1] = pos
            si[at + 3 * count + 2] = neg
            on[n_on] = i
            count += np.int64(pos != 0) & np.int64(neg != 0)
            n_on += np.int64(pos != 0) & np.int64(neg == 0)
    else:
        # some masks do not fit: whatever is not written here is asked for when its turn comes
        count = n_pend - 1
        undecided = (1 << min(kk, MASK)) - 1
        for j in range(count):
            si[at + 3 * j] = pend[3 * j + 3]
            si[at + 3 * j + 1] = undecided
            si[at + 3 * j + 2] = undecided
    at += 3 * count
    copy(word, 0, si, at, words)
    for j in range(n_on):
        si[at + (on[j] >> 6)] |= 1 << (on[j] & 63)
    at += words
    if e > 0 and n_on > 0:
        outputs, z_at = here.outputs, here.z_at
        add_units(COLUMNS, net.weights, outputs, e, on, n_on, path, z_at, n, sf, y)
    control[C_INTS] = write_header(si, at, FOLD, layer, 0, kk, count, 0, io, FLOATS_PER_EDGE * kk + 3 * e)
    control[C_FLOATS] = fo + FLOATS_PER_EDGE * kk + 3 * e


@kernel(inlined=True)
def fold_step(net, state, work, rungs, layer, k, n_pend):
    """Settle the first pending unit of a fold node in the work arrays; returns a status, 0 when it is a leaf.

    Returns ``BUDGET`` after a cut (two children on the stack) as well: there is nothing left in the work
    arrays.
    """
    here = layer_row(net.table, layer)
    weights = net.weights
    path, errors, signs, control, answer, si, sf = (
        state.path, state.errors, state.signs, state.control, state.answer, state.si, state.sf,
    )  # fmt: skip
    p, pend, word, yv, code, codes, extra, on = (
        work.p, work.pend, work.word, work.yv, work.code, work.codes, work.extra, work.on,
    )  # fmt: skip
    e = carried(here, control[C_LAST] == layer)
    n, z_at, words = here.rows, here.z_at, here.words
    first = 0
    error = errors[layer]
    while first < n_pend:
        i = pend[3 * first]
        a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
        undecided = False
        positive = 0
        negative = 0
        if control[C_ANSWERED] == 1:
            copy(answer, 0, code, 0, k)
            control[C_ANSWERED] = 0
        elif k <= MASK:
            pos, neg = pend[3 * first + 1], pend[3 * first + 2]
            if pos & neg != 0 and control[C_TRUST] == CERTIFIED:  # primes may have come since it was made
                settle(net, state, rungs, p, work.q, k, layer, pend[3 * first :], 1, on, 0)
                pos, neg = pend[3 * first + 1], pend[3 * first + 2]
            for v in range(k):
                code[v] = ((pos >> v) & 1) | (((neg >> v) & 1) << 1)
        else:
            for v in range(k):
                o = v * FLOATS_PER_EDGE
                t = threshold(control[C_TRUST], p, o, error[T_A], error[T_C], error[A_MAX], error[C_MAX])
                far = p[o + DX] != 0.0 or p[o + DY] != 0.0
                t_far = threshold_far(control[C_TRUST], p, o, error[T_A], error[A_MAX]) if far else 0.0
                code[v] = side(a, b, c, p[o + X], p[o + Y], p[o + W], t, far, p[o + DX], p[o + DY], t_far)
        for v in range(k):
            if code[v] == 3:
                undecided = True
            elif code[v] == 1:
                positive += 1
            elif code[v] == 2:
                negative += 1
        if undecided:
            if first > 0:  # what was settled meanwhile must not be asked again
                for j in range(3 * (n_pend - first)):
                    pend[j] = pend[j + 3 * first]
            control[C_ASKED_UNIT] = i
            push_fold(net, state, work, k, layer, n_pend - first, e)
            return UNDECIDED_FOLD
        if positive > 0 and negative > 0:
            break
        if positive > 0:
            word[i >> 6] |= 1 << (i & 63)
            if e > 0:
                on[0] = i
                add_units(COLUMNS, weights, here.outputs, e, on, 1, path, z_at, n, yv, 0)
        first += 1
    if first == n_pend:
        return RUNNING
    if first > 0:
        for j in range(3 * (n_pend - first)):
            pend[j] = pend[j + 3 * first]
        n_pend -= first
    # room for both halves: together they have at most k + 4 edges
    if control[C_INTS] + 2 * (k + 4) + 2 * (3 * n_pend + words + HEADER) > si.shape[0]:
        return STACK_FULL
    if control[C_FLOATS] + FLOATS_PER_EDGE * (k + 4) + 6 * e > sf.shape[0]:
        return STACK_FULL
    i = pend[0]
    a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
    owner = signs[here.sign_at]
    wall = (layer << 54) | (i << 38)
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
    for off in range(2):  # the half where the unit is on waits below the other
        start, length = runs(code, k, 1 + off)
        push_half(net, state, work, k, start, length, off, 1 - off, owner, wall, layer, i, n_pend, e)
    return BUDGET


@kernel(inlined=True)
def push_fold(net, state, work, k, layer, n_pend, e):
    """Put the fold node of the work arrays back onto the stack, where it came from and fits."""
    here = layer_row(net.table, layer)
    control, si, sf = state.control, state.si, state.sf
    p, q, pend, word, yv = work.p, work.q, work.pend, work.word, work.yv
    words = here.words
    io, fo = control[C_INTS], control[C_FLOATS]
    copy(p, 0, sf, fo, FLOATS_PER_EDGE * k)
    copy(yv, 0, sf, fo + FLOATS_PER_EDGE * k, 3 * e)
    copy(q, 0, si, io, 2 * k)
    at = io + 2 * k
    copy(pend, 0, si, at, 3 * n_pend)
    at += 3 * n_pend
    copy(word, 0, si, at, words)
    at += words
    control[C_INTS] = write_header(si, at, FOLD, layer, 0, k, n_pend, 0, io, FLOATS_PER_EDGE * k + 3 * e)
    control[C_FLOATS] = fo + FLOATS_PER_EDGE * k + 3 * e


@kernel(inlined=True)
def clip_to_key(net, state, rungs, layer, k0, k1, j, k, owner, wall_base, work, heads, cf, ci):
    """The part of a polygon where key j beats every other key of its head, written to ``cf, ci``.

    Returns its number of edges; 0 when it has no interior, -1 when a sign is undecided (or the polygon is too
    big for masks). The strongest rival cuts first; a rival that loses at every vertex is forgotten.
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
    count = 0
    for i in range(k0, k1):
        if i != j:
            cand[3 * count] = i
            cand[3 * count + 1] = 0
            cand[3 * count + 2] = 0
            count += 1
    fresh_from = 0  # vertices whose signs are not in the masks yet
    while True:
        for v in range(k):
            if fresh_from == 1 and v != 0 and v != k - 1:
                continue
            o = v * FLOATS_PER_EDGE
            t = threshold(trust, cf, o, t_a, t_c, a_max, c_max)
            vx, vy, vw, dx, dy = cf[o + X], cf[o + Y], cf[o + W], cf[o + DX], cf[o + DY]
            far = dx != 0.0 or dy != 0.0
            t_far = threshold_far(trust, cf, o, t_a, a_max) if far else 0.0
            for r in range(count):
                i = cand[3 * r]
                s = side(
                    path[z_at + i] - aj, path[z_at + n + i] - bj, path[z_at + 2 * n + i] - cj,
                    vx, vy, vw, t, far, dx, dy, t_far,
                )  # fmt: skip
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
                cand[3 * r + 1] |= (s & 1) << v
                cand[3 * r + 2] |= (s >> 1) << v
        full = (1 << k) - 1
        kept = 0
        best = -1
        strongest = -1.0
        for r in range(count):
            i, pos, neg = cand[3 * r], cand[3 * r + 1], cand[3 * r + 2]
            if pos == 0 and neg == full:
                continue
            cand[3 * kept] = i
            cand[3 * kept + 1] = pos
            cand[3 * kept + 2] = neg
            if pos & neg == 0 and pos != 0:
                if neg == 0:
                    return 0
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
        if best < 0:
            break
        i, pos, neg = cand[3 * best], cand[3 * best + 1], cand[3 * best + 2]
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
            cand[3 * kept] = cand[3 * r]
            cand[3 * kept + 1] = turned(cand[3 * r + 1], k, start, length)
            cand[3 * kept + 2] = turned(cand[3 * r + 2], k, start, length)
            kept += 1
        count = kept
        k = kk
        fresh_from = 1
    # whoever is left is undecided somewhere, or exactly level at some vertices: one vertex is no contact
    full = (1 << k) - 1
    level_count = 0
    for r in range(count):
        i, pos, neg = cand[3 * r], cand[3 * r + 1], cand[3 * r + 2]
        if pos != 0:
            return -1
        level = full & ~neg
        if level & (level - 1) == 0:
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
    weights = net.weights
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
    y = fo + FLOATS_PER_EDGE * k
    outputs = here.outputs + key * here.d_out
    for r in range(e):
        sf[y + r] = yv[r] + weights[outputs + r]
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
        bag_k[i] = -1  # -1 unseen, -2 waiting, otherwise edges of its cell
    n_todo = 0
    for v in range(k):
        o = v * FLOATS_PER_EDGE
        far = p[o + DX] != 0.0 or p[o + DY] != 0.0
        best = k0
        value = -np.inf
        for i in range(k0, k1):
            a, b, c = path[z_at + i], path[z_at + n + i], path[z_at + 2 * n + i]
            s = a * p[o + DX] + b * p[o + DY] if far else a * p[o + X] + b * p[o + Y] + c * p[o + W]
            if s > value:
                value = s
                best = i
        if bag_k[best] == -1:
            bag_k[best] = -2
            todo[n_todo] = best
            n_todo += 1
    found = 0
    done = 0
    while done < n_todo:
        j = todo[done]
        done += 1
        if (found + 1) * room > bag_i.shape[0] // 2:
            return POLYGON_FULL
        kk = clip_to_key(net, state, rungs, layer, k0, k1, j, k, owner, wall_base, work, keys,
                         bag_f[FLOATS_PER_EDGE * room * found :], bag_i[2 * room * found :])  # fmt: skip
        if kk < 0:
            return UNDECIDED_HEAD
        bag_k[j] = 0
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
                if bag_k[rival] == -1:
                    bag_k[rival] = -2
                    todo[n_todo] = rival
                    n_todo += 1
        for r in range(keys.n_level[0]):
            rival = keys.cand[r]
            if bag_k[rival] == -1:
                bag_k[rival] = -2
                todo[n_todo] = rival
                n_todo += 1
        found += 1
    if found == 0:
        return UNDECIDED_HEAD
    before_i, before_f = control[C_INTS], control[C_FLOATS]
    for r in range(k1 - k0):
        j = k1 - 1 - r
        if bag_k[j] > 0:
            slot = todo[n + j]
            f, i = bag_f[FLOATS_PER_EDGE * room * slot :], bag_i[2 * room * slot :]
            if not push_head(net, state, layer, head, j, f, i, bag_k[j], routes, yv, e, tied):
                control[C_INTS] = before_i
                control[C_FLOATS] = before_f
                return STACK_FULL
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


@kernel(inlined=True)
def emit(net, state, work, out, k):
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
        size = p[o + W] + (abs(p[o + X]) + abs(p[o + Y])) * unit
        rough = p[o + EW] < 1e-6 * p[o + W] and p[o + EXY] * unit < 1e-6 * size
        known = known and (rough or p[o + EW] == 0.0)  # only corners placed by rationals have no error in W
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
    """Take nodes off the stack until it is empty, the budget is used up, or the caller is needed."""
    control, si, sf = state.control, state.si, state.sf
    p, q, pend, word, yv, routes = work.p, work.q, work.pend, work.word, work.yv, work.routes
    path, errors, signs, layer_cells = state.path, state.errors, state.signs, state.layer_cells
    last = control[C_LAST]
    room = keys.df.shape[0] // FLOATS_PER_EDGE
    while budget > 0:
        budget -= 1
        control[C_STEPS] += 1
        if control[C_INTS] == 0:
            control[C_STATUS] = DONE
            return
        if control[C_CELLS] >= control[C_MOST_CELLS]:
            control[C_STATUS] = BUDGET
            return
        end, floats = control[C_INTS], control[C_FLOATS]
        kind, layer, head = si[end - 8], si[end - 7], si[end - 6]
        here = layer_row(net.table, layer)
        k, n_pend, tied = si[end - 5], si[end - 4], si[end - 3]
        io, fo = end - si[end - 2], floats - si[end - 1]
        if k + 4 > room:
            control[C_STATUS] = POLYGON_FULL
            return
        copy(sf, fo, p, 0, FLOATS_PER_EDGE * k)
        copy(si, io, q, 0, 2 * k)
        at = io + 2 * k
        y = fo + FLOATS_PER_EDGE * k
        e = carried(here, last == layer)
        control[C_INTS] = io
        control[C_FLOATS] = fo
        leaf = False
        if kind == FOLD:
            words = here.words
            copy(si, at, pend, 0, 3 * n_pend)
            copy(si, at + 3 * n_pend, word, 0, words)
            copy(sf, y, yv, 0, 3 * e)
            status = RUNNING
            if n_pend > 0:
                status = fold_step(net, state, work, rungs, layer, k, n_pend)
            if status == RUNNING:
                leaf = True
                copy(word, 0, signs, here.sign_at + 2, words)
        else:
            heads = here.heads
            copy(si, at, routes, 0, heads)
            copy(sf, y, yv, 0, e)
            if head == heads:
                leaf = True
                status = RUNNING
                signs[here.sign_at + 1] = tied
                copy(routes, 0, signs, here.sign_at + 2, heads)
            else:
                status = head_step(net, state, work, keys, rungs, layer, head, k, tied)
        if leaf:
            if layer == last:
                status = emit(net, state, work, out, k)
                if status == RUNNING:
                    layer_cells[layer] += 1
            else:
                leave(COLUMNS, net, path, errors, layer, routes, yv)
                if descend(net, state, work, rungs, k, layer + 1):
                    layer_cells[layer] += 1
                else:
                    status = STACK_FULL
        if status >= UNDECIDED_HEAD and status != BUDGET:
            # nothing was changed: the node is still where it was
            control[C_INTS] = end
            control[C_FLOATS] = floats
            control[C_STATUS] = status
            return
        if status == UNDECIDED_FOLD:
            control[C_STATUS] = status
            return
    control[C_STATUS] = DONE if control[C_INTS] == 0 else BUDGET
