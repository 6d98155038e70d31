r"""The compiled part of the search engine: cells are found by linear programs instead of vertices.

Space is homogenised: :math:`y = (x, x_0) \in \mathbb{R}^D`, :math:`D = d + 1`, and a cell is an open cone
:math:`\{y : g_l \cdot y > 0\}` with :math:`x_0 > 0` among the rows. A *node* of the depth-first search is
such a cone, on which the signature is settled up to some unit or head of some layer, together with a
*witness* inside. Taking the next unit, with row :math:`z`, there are two questions, one for each side; the
witness answers one of them at once, and the other is a linear program
(:mod:`hardmax.regions.search.simplex_kernels`). What that proves neither empty nor not is undecided, and the
caller decides it in rationals.

In a box the rows of a cone are only the cuts on the way to it, and witnesses are points :math:`(x, 1)`; the
sides of the box are bounds of the programs. A bounded polytope is searched in a box around it, with its sides
as rows.

A head is searched in the same way (the largest margin of a key over those that are known to win, as one more
variable). A cone enters the next layer without the rows that are proven to follow from the others: it is
*prepared*, which takes a program per row and per unit.

A call returns after a bounded number of multiplications (``MOST_WORK``), also between two programs of one
node or of a preparation: where it stopped is written into the node, and the next call goes on from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import (
    AFFINE,
    CERTIFIED,
    EXACT,
    FLOAT,
    FOLD,
    HEADER,
    RA,
    RC,
    TAME,
    UNIT,
    WALL,
    add_units,
    carried,
    copy,
    enter,
    enter_groups,
    layer_row,
    leave,
    leave_affine,
    without_units,
    write_header,
    write_signature,
)
from hardmax.regions.engine.sign_kernels import join_key
from hardmax.regions.engine.twin_kernels import add_output, forget_twins, has_twins, n_twins, twin
from hardmax.regions.search.dependence_kernels import heaviest, never_negative, recedes
from hardmax.regions.search.integer_kernels import (
    is_zero,
    leave_exactly,
    mark_exact,
    same_key,
)
from hardmax.regions.search.simplex_kernels import (
    EMPTY,
    INSIDE,
    OPEN,
    dot,
    follows,
    from_sides,
    grows_somewhere,
    largest_margin,
    length_of,
    noise,
    normalised,
    other_side,
    reaches,
)

# floats of a node: its witness, its share of the tree of cells if every split halves it, sums of outputs
# header of a node, at its end: whether the witness is inside, layer, head, cuts, minus the place in the list
# of pending units, tied, ints, floats

C_STATUS, C_INTS, C_FLOATS, C_CELLS, C_SERIAL, C_STEPS, C_TRUST, C_LAST, C_EMIT, C_ANSWERED = range(10)
C_OUT_CELLS, C_OUT_FACETS, C_WORDS, C_ROUTES, C_MOST_CELLS, C_DIMENSION, C_PROGRAMS = range(10, 17)
C_UNBOUNDED = 17
C_OPEN_DOMAIN = 18  # 1 where cells may be unbounded
C_PREPARING = 19  # 1 + rows and units of the layer on top that are prepared; 0: all are
CONTROL = 20
MOST_WORK = 20_000_000  # multiplications in a call, about 20 ms

RUNNING, DONE, UNDECIDED_FOLD, UNDECIDED_HEAD, STACK_FULL, OUTPUT_FULL, WORK_FULL, BUDGET = range(8)
UNDECIDED_CELL, WAITING = 8, 9  # WAITING: the first cone is yet to be made

FOLLOWS = 3  # a key that wins with an earlier one; 1 if it wins, 2 if not, 0 if that is not known
INFINITY, SIDE = -1, -2  # codes of the row x_0 > 0, and of side s of the domain: SIDE - s

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class State(NamedTuple):
    """What belongs to a run: counters, composed maps and rows along the path, and the stack."""

    control: Integers
    layer_cells: Integers
    path: Floats
    errors: Floats
    rows: Floats  # of all layers, one after the other
    row_errors: Floats
    row_at: Integers  # where the rows of a layer begin
    signs: Integers
    pend: Integers  # units of a layer that may cut its cone
    base_at: Integers  # where the cone of a layer begins in the base, and how many rows it has
    si: Integers
    sf: Floats
    totals: Floats  # the share of the tree that is settled


class Base(NamedTuple):
    """The rows of the cones along the path, positive inside."""

    rows: Floats
    error: Floats
    code: Integers
    sign: Integers


class Work(NamedTuple):
    """The working node."""

    cuts: Integers
    choice: Integers
    word: Integers
    units: Integers
    hidden: Floats
    w: Floats
    above: Floats
    below: Floats
    wins: Integers
    points: Floats
    z: Floats


class Out(NamedTuple):
    """The cells that were found."""

    bits: NDArray[np.uint64]
    routes: NDArray[np.int32]
    tied: NDArray[np.uint8]
    start: Integers
    codes: Integers
    witness: Floats


# ----------------------------------------------------------------------------------------------
# Layers
# ----------------------------------------------------------------------------------------------


@kernel(inner=True)
def unit_row(rows, at, n, error, slack):
    """Bring a row to length 1; the bound on its error there, infinite where it may be zero."""
    square = 0.0
    for k in range(n):
        square += rows[at, k] * rows[at, k]
    length = np.sqrt(square)
    if not (length > 1.0 / TAME and length < TAME and length > 2.0 * error):
        return np.inf
    for k in range(n):
        rows[at, k] /= length
    return slack * error / length + 2.0 * UNIT


@kernel(inner=True)
def write_rows(net, path, errors, rows, row_errors, row_at, layer, n):
    """The composed rows of a layer that was entered, row by row, with bounds on their errors in 2-norm.

    Rows of a fold layer are brought to length 1, and the bound is infinite where they may be zero; those of a
    wall layer stay as they are.
    """
    here = layer_row(net.table, layer)
    e = errors[layer]
    count, z, first = here.rows, here.z_at, row_at[layer]
    error = 1.0001 * ((n - 1) * e[RA] + e[RC])
    fold = here.kind == FOLD
    for i in range(count):
        for k in range(n):
            rows[first + i, k] = path[z + k * count + i]
        row_errors[first + i] = unit_row(rows, first + i, n, error, 1.001) if fold else error


@kernel(inner=True)
def difference(rows, row_errors, a, b, n, out, at):
    """Row ``at`` of ``out``: score b minus score a at length 1; returns the bound on its error, infinite
    where it may be zero."""
    size = 0.0
    for k in range(n):
        size = max(size, abs(rows[b, k]), abs(rows[a, k]))
        out[at, k] = rows[b, k] - rows[a, k]
    return unit_row(out, at, n, 1.001 * (row_errors[a] + row_errors[b] + n * UNIT * size), 1.001)


@kernel(inner=True)
def write_cut(code, sign, rows, row_errors, row_at, n, cones, at):
    """The row of a fold or wall, positive on the side ``sign``, as row ``at`` of the base."""
    layer = code >> 54
    group = (code >> 38) & 0xFFFF
    a, b = (code >> 19) & 0x7FFFF, code & 0x7FFFF
    first = row_at[layer]
    if a == b:
        copy(rows[first + group], 0, cones.rows[at], 0, n)
        cones.error[at] = row_errors[first + group]
    else:
        cones.error[at] = difference(rows, row_errors, first + a, first + b, n, cones.rows, at)
    if sign < 0:
        for k in range(n):
            cones.rows[at, k] = -cones.rows[at, k]
    cones.code[at] = code
    cones.sign[at] = sign


# ----------------------------------------------------------------------------------------------
# Nodes
# ----------------------------------------------------------------------------------------------


@kernel(inlined=True)
def summed(here, is_last):
    """How many sums of outputs a node carries: those of attention, unless it is the last layer."""
    return carried(here, is_last) if here.kind == WALL else 0


@kernel
def push(state, layer, head, place, cuts, n_cuts, choice, n_choice, w, share, hidden, e, known, tied):
    """Put a node on the stack; False: no room. ``choice`` holds the bits or the winners of its layer."""
    control, si, sf = state.control, state.si, state.sf
    n = control[C_DIMENSION]
    io, fo = control[C_INTS], control[C_FLOATS]
    ints, floats = 2 * n_cuts + n_choice + HEADER, n + 1 + e
    if io + ints > si.shape[0] or fo + floats > sf.shape[0]:
        return False
    copy(cuts, 0, si, io, 2 * n_cuts)
    at = io + 2 * n_cuts
    copy(choice, 0, si, at, n_choice)
    at += n_choice
    copy(w, 0, sf, fo, n)
    sf[fo + n] = share
    copy(hidden, 0, sf, fo + n + 1, e)
    control[C_INTS] = write_header(si, at, known, layer, head, n_cuts, -place, tied, io, floats)
    control[C_FLOATS] = fo + floats
    return True


@kernel(inner=True)
def copy_rows(cones, at, to, count, n):
    """Copy so many rows of the base, in ascending order."""
    for i in range(count):
        copy(cones.rows[at + i], 0, cones.rows[to + i], 0, n)
        cones.error[to + i] = cones.error[at + i]
        cones.code[to + i] = cones.code[at + i]
        cones.sign[to + i] = cones.sign[at + i]


@kernel(inner=True)
def prepare(net, units, state, cones, lp):
    """Drop the rows of the cone on top that provably follow from the others, then settle the units that do
    not cut it; False: there was too much work, and the next call goes on."""
    control, si, signs, base_at, pend = state.control, state.si, state.signs, state.base_at, state.pend
    rows, row_errors = state.rows, state.row_errors
    n, trust, end = control[C_DIMENSION], control[C_TRUST], control[C_INTS]
    known, layer = si[end - 8], si[end - 7]
    here = layer_row(net.table, layer)
    w = state.sf[control[C_FLOATS] - si[end - 1] :]
    choice = end - si[end - 2]  # the node has no cuts yet
    start, first = base_at[layer, 0], state.row_at[layer]
    base, base_error, z = cones.rows, cones.error, lp.c
    at = control[C_PREPARING] - 1
    while at < base_at[layer, 1]:
        m = base_at[layer, 1]
        copy(base[start + at], 0, z, 0, n)
        control[C_PROGRAMS] += 1
        cone, cone_error = base[start : start + m], base_error[start : start + m]
        error = cone_error[at]
        needed = m == 1 or (known == 1 and reaches(lp, cone, cone_error, m, at, z, error, w, n, trust))
        if not needed and follows(lp, cone, cone_error, m, at, z, error, n, trust):
            copy_rows(cones, start + at + 1, start + at, m - at - 1, n)
            base_at[layer, 1] = m - 1
        else:
            at += 1
        control[C_PREPARING] = at + 1
        if lp.work[0] > MOST_WORK:
            return False
    m = base_at[layer, 1]
    cone, cone_error = base[start : start + m], base_error[start : start + m]
    length = length_of(w, n)
    outside = -1
    folds = here.rows if here.kind == FOLD else 0
    while at < m + folds:
        i = at - m
        error = row_errors[first + i]
        settled = is_zero(n, net, units, state.path, state.errors, layer, i)  # such a unit is off
        if known == 1 and error < np.inf and trust != EXACT:
            s = dot(rows, first + i, w, n)
            if abs(s) > length * noise(error, n, trust):
                for k in range(n):
                    z[k] = rows[first + i, k] if s > 0.0 else -rows[first + i, k]
                control[C_PROGRAMS] += 1
                cut = reaches(lp, cone, cone_error, m, outside, z, error, w, n, trust)
                settled = not cut and follows(lp, cone, cone_error, m, outside, z, error, n, trust)
                if settled and s > 0.0:
                    si[choice + (i >> 6)] |= 1 << (i & 63)
        if not settled:
            pend[first + signs[here.sign_at + 1]] = i
            signs[here.sign_at + 1] += 1
        at += 1
        control[C_PREPARING] = at + 1
        if lp.work[0] > MOST_WORK:
            return False
    control[C_PREPARING] = 0
    return True


@kernel
def descend(net, units, state, work, start, m, w, share, known, tied, layer):
    """A cone (rows start .. start + m of the base) enters ``layer``, its hidden vector in the path: push its
    first node, which is yet to be prepared. False: no room on the stack."""
    path, errors, rows, row_errors, row_at, signs, control, si, sf = (
        state.path, state.errors, state.rows, state.row_errors, state.row_at, state.signs, state.control,
        state.si, state.sf,
    )  # fmt: skip
    base_at = state.base_at
    cuts, choice, hidden = work.cuts, work.choice, work.hidden
    n, trust = control[C_DIMENSION], control[C_TRUST]
    # bounds are needed in floats without a filter too: a row that may be zero has no direction
    entered = layer
    layer = enter_groups(n, net, path, errors, layer, CERTIFIED)
    mark_exact(n, net, units, path, errors, entered, layer)
    here = layer_row(net.table, layer)
    words, heads = here.words, here.heads
    e = summed(here, control[C_LAST] == layer)
    if control[C_INTS] + words + heads + HEADER > si.shape[0] or control[C_FLOATS] + n + 1 + e > sf.shape[0]:
        return False
    write_rows(net, path, errors, rows, row_errors, row_at, layer, n)
    control[C_SERIAL] += 1
    signs[here.sign_at] = control[C_SERIAL]
    signs[here.sign_at + 1] = 0
    forget_twins(here, signs)
    base_at[layer, 0] = start
    base_at[layer, 1] = m
    # in rationals no row is dropped; the units are all kept by the way
    control[C_PREPARING] = 1 if trust != EXACT else 1 + m
    head = 0
    no_cuts = 0
    if here.kind == FOLD:
        for j in range(words):
            choice[j] = 0
        return push(state, layer, head, no_cuts, cuts, no_cuts, choice, words, w, share, hidden, e, known,
                    tied)  # fmt: skip
    for h in range(heads):
        choice[h] = 0
    m_in = here.d_in
    for r in range(e):
        hidden[r] = path[here.y_at + (n - 1) * m_in + r] if here.skip == 1 else 0.0
    return push(state, layer, head, no_cuts, cuts, no_cuts, choice, heads, w, share, hidden, e, known, tied)


@kernel(inner=True)
def clear_winner(rows, row_errors, k0, k1, y, n, trust, wins):
    """The key whose score is provably the largest at y, of those that follow no other; -1 if none is."""
    best = k0
    top = -np.inf
    for i in range(k0, k1):
        s = dot(rows, i, y, n)
        if wins[i - k0] != FOLLOWS and s > top:
            best = i
            top = s
    if trust == FLOAT:
        return best
    length = length_of(y, n)
    for i in range(k0, k1):
        if i != best and wins[i - k0] != FOLLOWS:
            gap = 0.0
            size = 0.0
            for k in range(n):
                gap += (rows[best, k] - rows[i, k]) * y[k]
                size += (abs(rows[best, k]) + abs(rows[i, k])) * abs(y[k])
            if (
                not gap
                > 1.001 * (length * (row_errors[best] + row_errors[i]) + (n + 4) * UNIT * size) + 1e-280
            ):
                return -1
    return best


@kernel(inner=True)
def beats(net, units, state, cones, lp, layer, head, i, rivals, start, m, wins):
    """Is there a point of the cone where key i beats all keys that ``wins`` marks with ``rivals``? If there
    are none of these, all others but those that follow: ``INSIDE`` (with a point), ``EMPTY`` or ``OPEN``.
    """
    here, control = layer_row(net.table, layer), state.control
    n, trust, first = control[C_DIMENSION], control[C_TRUST], state.row_at[layer]
    k0, k1 = net.heads_at[here.head_at + head], net.heads_at[here.head_at + head + 1]
    count, rows = m, cones.rows
    for j in range(k0, k1):
        if j != i and (wins[j - k0] == rivals or (rivals == 0 and wins[j - k0] != FOLLOWS)):
            at = start + count
            cones.error[at] = difference(state.rows, state.row_errors, first + j, first + i, n, rows, at)
            cones.code[at] = (layer << 54) | (head << 38) | (min(i, j) << 19) | max(i, j)
            cones.sign[at] = 1 if i > j else -1
            if not cones.error[at] < np.inf:  # equal as far as floats can see
                return OPEN if trust != FLOAT else EMPTY
            count += 1
    control[C_PROGRAMS] += 1
    verdict = largest_margin(
        lp, rows[start : start + count], cones.error[start : start + count], count, n, trust
    )
    if verdict != OPEN or trust != CERTIFIED:
        return verdict
    # rows that are never positive together: any of them is opposed to a combination of the others
    skip = heaviest(lp)
    if skip < 0:
        return OPEN
    z, code = lp.c, cones.code[start + skip]
    for k in range(n):
        z[k] = -rows[start + skip, k]
    if never_negative(
        n, net, units, state.path, state.errors, state.signs, rows[start : start + count],
        cones.error[start : start + count], cones.code[start:], cones.sign[start:], count, skip, z,
        cones.error[start + skip], code, INFINITY, lp,
    ):  # fmt: skip
        return EMPTY
    return OPEN


@kernel(inner=True)
def winners_of(net, units, state, cones, lp, layer, head, w, start, m, wins, points):
    """Which keys win somewhere in the cone, each with a witness: ``wins`` 1. False: undecided.

    A key is held against those known to win. If it beats them all somewhere, whoever wins there is one more
    winner. Where floats cannot tell who that is, the key is held against all others.
    """
    here, control = layer_row(net.table, layer), state.control
    n, trust, row = control[C_DIMENSION], control[C_TRUST], state.row_at[layer]
    k0, k1 = net.heads_at[here.head_at + head], net.heads_at[here.head_at + head + 1]
    rows, row_errors = state.rows, state.row_errors
    for i in range(k0, k1):
        wins[i - k0] = 0
    for t in range(n_twins(here, state.signs)):
        key = twin(here, state.signs, t)[0]
        if key >= k0 and key < k1:
            wins[key - k0] = FOLLOWS
    if trust == CERTIFIED:
        for j in range(k0, k1):
            for i in range(j + 1, k1):
                if wins[j - k0] == 0 and wins[i - k0] == 0 and same_key(
                    n, net, units, state.path, state.errors, layer, i, j
                ):  # fmt: skip
                    join_key(net, state.errors, state.signs, layer, i, j)
                    wins[i - k0] = FOLLOWS
    found = clear_winner(rows, row_errors, row + k0, row + k1, w, n, trust, wins)
    if found >= 0:
        copy(w, 0, points[found - row - k0], 0, n)
        wins[found - row - k0] = 1
    for i in range(k0, k1):
        while wins[i - k0] == 0:
            rivals = 1 if found >= 0 else 0
            verdict = beats(net, units, state, cones, lp, layer, head, i, rivals, start, m, wins)
            another = -1
            if verdict == INSIDE:
                another = clear_winner(rows, row_errors, row + k0, row + k1, lp.y, n, trust, wins)
                if another < 0 and rivals == 1:
                    rivals = 0
                    verdict = beats(net, units, state, cones, lp, layer, head, i, rivals, start, m, wins)
                    if verdict == INSIDE:
                        another = clear_winner(rows, row_errors, row + k0, row + k1, lp.y, n, trust, wins)
            if verdict == OPEN:
                return False
            if verdict == EMPTY:
                wins[i - k0] = 2
                break
            if another < 0 or wins[another - row - k0] != 0:
                return False
            found = another
            wins[found - row - k0] = 1
            copy(lp.y, 0, points[found - row - k0], 0, n)
    return found >= 0


@kernel(inner=True)
def hidden_of(n, net, path, layer, word, units, hidden):
    """The map that leaves a fold layer, from the bits of its units."""
    here = layer_row(net.table, layer)
    count = 0
    for i in range(here.rows):
        if (word[i >> 6] >> (i & 63)) & 1:
            units[count] = i
            count += 1
    without_units(n, net, path, layer, hidden, 0)
    add_units(n, net.weights, here.outputs, here.d_out, units, count, path,
              here.z_at, here.rows, hidden, 0)  # fmt: skip


@kernel(inlined=True)
def sides_of(lp):
    """Sides of the domain that are bounds of the programs."""
    return lp.sides[0]


@kernel(inner=True)
def emit(net, state, cones, lp, out, start, m, w, known, tied):
    """Write a cell down; of a box, every side is a candidate for a facet."""
    control = state.control
    base, base_error, base_code = cones.rows, cones.error, cones.code
    n = control[C_DIMENSION]
    cell, facet = control[C_OUT_CELLS], control[C_OUT_FACETS]
    words, routes = control[C_WORDS], control[C_ROUTES]
    write_signature(net, control[C_LAST], state.signs, out, cell, words, routes)
    out.tied[cell] = tied
    margin = np.inf if known == 1 else 0.0
    d = n - 1
    size = 1.0
    for k in range(d):
        if w[d] != 0.0:
            x = w[k] / w[d]
        else:  # beyond the range of floats
            x = np.inf * w[k] if w[k] != 0.0 else 0.0
        out.witness[cell * n + k] = x
        size = max(size, abs(x))
    size *= np.sqrt(n)
    for s in range(sides_of(lp)):
        out.codes[facet] = SIDE - s
        facet += 1
        if margin > 0.0:
            margin = max(min(margin, from_sides(lp, w, s % d)), 0.0)
    for i in range(start, start + m):
        if base_code[i] == INFINITY:
            continue
        out.codes[facet] = base_code[i]
        facet += 1
        height = base[i, d]
        slope = 0.0
        for k in range(d):
            height += base[i, k] * out.witness[cell * n + k]
            slope += base[i, k] * base[i, k]
        if margin > 0.0:
            unsure = size * noise(base_error[i], n, CERTIFIED)
            height = (height - unsure) / (1.001 * np.sqrt(slope) + base_error[i])
            margin = min(margin, height) if height > 0.0 else 0.0
    if not (size < 1e100):
        margin = 0.0
    out.witness[cell * n + d] = margin
    out.start[cell + 1] = facet
    control[C_OUT_CELLS] += 1
    control[C_OUT_FACETS] = facet


@kernel(inner=True)
def interrupt(state, place, known, w, word, n_cuts, n_choice):
    """Write into the node on top how far it is decided."""
    si, end = state.si, state.control[C_INTS]
    si[end - 4] = -place
    si[end - 8] = known
    copy(w, 0, state.sf, state.control[C_FLOATS] - si[end - 1], state.control[C_DIMENSION])
    copy(word, 0, si, end - si[end - 2] + 2 * n_cuts, n_choice)


@kernel
def run(net, units, state, cones, work, lp, out, budget):
    """Process nodes until the stack is empty, the budget is spent, or the caller is needed."""
    path, errors, rows, row_errors, row_at, signs, control, si, sf = (
        state.path, state.errors, state.rows, state.row_errors, state.row_at, state.signs, state.control,
        state.si, state.sf,
    )  # fmt: skip
    layer_cells, base_at, pend, pend_at = state.layer_cells, state.base_at, state.pend, state.row_at
    base, base_error, y = cones.rows, cones.error, lp.y
    cuts, choice, word, hidden, w, above, below, wins, points, z = (
        work.cuts, work.choice, work.word, work.hidden, work.w, work.above, work.below, work.wins,
        work.points, work.z,
    )  # fmt: skip
    heads_at = net.heads_at
    n, trust = control[C_DIMENSION], control[C_TRUST]
    outside = -1
    begin = control[C_STEPS]
    lp.work[0] = 0
    while True:
        if control[C_INTS] == 0:
            control[C_STATUS] = DONE
            return
        if control[C_STEPS] - begin >= budget or control[C_CELLS] >= control[C_MOST_CELLS]:
            control[C_STATUS] = BUDGET
            return
        if lp.work[0] > MOST_WORK or (control[C_PREPARING] > 0 and not prepare(net, units, state, cones, lp)):
            control[C_STATUS] = BUDGET
            return
        # the node on top of the stack
        end = control[C_INTS]
        known, layer, head = si[end - 8], si[end - 7], si[end - 6]
        here = layer_row(net.table, layer)
        n_cuts, place, tied = si[end - 5], -si[end - 4], si[end - 3]
        node, floats = end - si[end - 2], control[C_FLOATS] - si[end - 1]
        fold = here.kind == FOLD
        n_choice = here.words if fold else here.heads
        e = summed(here, control[C_LAST] == layer)
        start, m = base_at[layer, 0], base_at[layer, 1]
        keys = 0
        if not fold and head < here.heads:
            k0 = heads_at[here.head_at + head]
            k1 = heads_at[here.head_at + head + 1]
            keys = k1 - k0
        more = n_cuts + keys + 4
        if (
            start + m + more > base.shape[0]
            or m + more > lp.lifted.shape[0]
            or 2 * (more - 2) > cuts.shape[0]
        ):
            control[C_STATUS] = WORK_FULL
            return
        # room for whatever becomes of it
        copies = 2 if fold else keys + 1
        ints = 2 * (n_cuts + keys + 1) + n_choice + HEADER
        if (
            control[C_INTS] + copies * ints + choice.shape[0] + HEADER > si.shape[0]
            or control[C_FLOATS] + copies * (n + 1 + e) + n + 1 + hidden.shape[0] > sf.shape[0]
        ):
            control[C_STATUS] = STACK_FULL
            return
        if control[C_EMIT] == 1 and (
            control[C_OUT_CELLS] + 1 >= out.tied.shape[0]
            or control[C_OUT_FACETS] + sides_of(lp) + m + n_cuts + 1 >= out.codes.shape[0]
        ):
            control[C_STATUS] = OUTPUT_FULL
            return
        copy(si, node, cuts, 0, 2 * n_cuts)
        for j in range(n_cuts):
            write_cut(cuts[2 * j], cuts[2 * j + 1], rows, row_errors, row_at, n, cones, start + m + j)
        m += n_cuts
        copy(si, node + 2 * n_cuts, word, 0, n_choice)
        copy(sf, floats, w, 0, n)
        share = sf[floats + n]
        copy(sf, floats + n + 1, hidden, 0, e)
        cone, cone_error = base[start : start + m], base_error[start : start + m]
        split = False
        if fold:
            pending = signs[here.sign_at + 1]
            length = length_of(w, n)
            while place < pending:
                if lp.work[0] > MOST_WORK:
                    interrupt(state, place, known, w, word, n_cuts, n_choice)
                    control[C_STATUS] = BUDGET
                    return
                i = pend[pend_at[layer] + place]
                row = row_at[layer] + i
                on, off = OPEN, OPEN
                if trust != EXACT and row_errors[row] < np.inf:
                    s = dot(rows, row, w, n)
                    clear = known == 1 and abs(s) > length * noise(row_errors[row], n, trust)
                    if clear:
                        for k in range(n):
                            z[k] = rows[row, k] if s > 0.0 else -rows[row, k]
                        control[C_PROGRAMS] += 1
                        other = other_side(lp, cone, cone_error, m, z, row_errors[row], w, n, trust, outside)
                        if other == OPEN and never_negative(
                            n, net, units, path, errors, signs, cone, cone_error, cones.code[start:],
                            cones.sign[start:], m, outside, z, row_errors[row], (layer << 54) | (i << 38),
                            INFINITY, lp,
                        ):  # fmt: skip
                            other = EMPTY
                        if s > 0.0:
                            on, off = INSIDE, other
                            copy(w, 0, above, 0, n)
                            copy(y, 0, below, 0, n)
                        else:
                            on, off = other, INSIDE
                            copy(y, 0, above, 0, n)
                            copy(w, 0, below, 0, n)
                    else:
                        # the witness does not tell: ask for both sides
                        for side in range(2):
                            for k in range(n):
                                base[start + m, k] = rows[row, k] if side == 1 else -rows[row, k]
                            base_error[start + m] = row_errors[row]
                            control[C_PROGRAMS] += 1
                            both, both_error = base[start : start + m + 1], base_error[start : start + m + 1]
                            other = largest_margin(lp, both, both_error, m + 1, n, trust)
                            if side == 1:
                                on = other
                                copy(y, 0, above, 0, n)
                            else:
                                off = other
                                copy(y, 0, below, 0, n)
                if on == EMPTY and off == EMPTY:  # only without a filter
                    off = OPEN if trust != FLOAT else INSIDE
                    copy(w, 0, below, 0, n)
                if (on == OPEN and off != EMPTY) or (off == OPEN and on != EMPTY):
                    interrupt(state, place, known, w, word, n_cuts, n_choice)
                    control[C_STATUS] = UNDECIDED_FOLD
                    return
                if on == INSIDE and off == INSIDE:
                    split = True
                    break
                if off == EMPTY:
                    word[i >> 6] |= 1 << (i & 63)
                if known == 0 and (on == INSIDE or off == INSIDE):
                    copy(above if on == INSIDE else below, 0, w, 0, n)
                    known = 1
                    length = length_of(w, n)
                place += 1
            if split:
                control[C_STEPS] += 1
                control[C_INTS] = node
                control[C_FLOATS] = floats
                cuts[2 * n_cuts] = (layer << 54) | (i << 38)
                cuts[2 * n_cuts + 1] = 1
                inside = 1
                word[i >> 6] |= 1 << (i & 63)
                push(state, layer, head, place + 1, cuts, n_cuts + 1, word, n_choice, above, 0.5 * share,
                     hidden, e, inside, tied)  # fmt: skip
                cuts[2 * n_cuts + 1] = -1
                word[i >> 6] &= ~(1 << (i & 63))
                push(state, layer, head, place + 1, cuts, n_cuts + 1, word, n_choice, below, 0.5 * share,
                     hidden, e, inside, tied)  # fmt: skip
                continue
        elif head < here.heads:
            decided = known == 1 and trust != EXACT
            if not decided or not winners_of(
                net, units, state, cones, lp, layer, head, w, start, m, wins, points
            ):
                control[C_STATUS] = UNDECIDED_HEAD
                return
            control[C_STEPS] += 1
            control[C_INTS] = node
            control[C_FLOATS] = floats
            winners = 0
            for q in range(keys):
                winners += wins[q] == 1
            for q in range(keys - 1, -1, -1):
                if wins[q] != 1:
                    continue
                j = k0 + q
                total = n_cuts
                for p in range(keys):
                    if wins[p] == 1 and p != q:
                        i = k0 + p
                        cuts[2 * total] = (layer << 54) | (head << 38) | (min(i, j) << 19) | max(i, j)
                        cuts[2 * total + 1] = 1 if j > i else -1
                        total += 1
                word[head] = j
                if e > 0:
                    add_output(net, here, signs, j, hidden, above, 0, e)
                ties = here.outputs >= 0 and has_twins(here, signs, j)
                inside = 1
                push(state, layer, head + 1, place, cuts, total, word, n_choice, points[q], share / winners,
                     above, e, inside, 1 if ties else tied)  # fmt: skip
            continue
        # settled: the layer is left
        if start + 2 * m + 4 > base.shape[0]:
            control[C_STATUS] = WORK_FULL
            return
        at = here.sign_at + 2
        copy(word, 0, signs, at, n_choice)
        if control[C_LAST] == layer:
            if control[C_OPEN_DOMAIN] == 1:
                reach = control[C_ANSWERED]
                control[C_ANSWERED] = OPEN
                if reach == OPEN and trust != EXACT:
                    copy_rows(cones, start, start + m, m, n)
                    control[C_PROGRAMS] += 1
                    reach = recedes(
                        n, net, units, path, errors, signs, layer, base[start + m :], base_error[start + m :],
                        cones.code[start + m :], cones.sign[start + m :], m, INFINITY, trust, lp,
                    )  # fmt: skip
                if reach == OPEN:
                    control[C_STATUS] = UNDECIDED_CELL
                    return
                control[C_UNBOUNDED] += reach == INSIDE
            control[C_STEPS] += 1
            control[C_INTS] = node
            control[C_FLOATS] = floats
            layer_cells[layer] += 1
            control[C_CELLS] += 1
            state.totals[0] += share
            if control[C_EMIT] == 1:
                emit(net, state, cones, lp, out, start, m, w, known, tied)
            continue
        if fold:
            hidden_of(n, net, path, layer, word, work.units, hidden)
        leave(n, net, path, errors, signs, layer, word, hidden)
        leave_exactly(net, errors, signs, layer, word)
        copy_rows(cones, start, start + m, m, n)
        control[C_STEPS] += 1
        control[C_INTS] = node
        control[C_FLOATS] = floats
        layer_cells[layer] += 1
        lp.work[0] += n * here.d_out * here.rows
        descend(net, units, state, work, start + m, m, w, share, known, tied, layer + 1)


# ----------------------------------------------------------------------------------------------
# What is asked about cells afterwards
# ----------------------------------------------------------------------------------------------


@kernel(inner=True)
def parts_at(table, bits, routings, i, j, layer):
    """Whether two cells have different signatures in a layer."""
    here = layer_row(table, layer)
    first = here.first
    if here.kind == FOLD:
        for u in range(first, first + here.rows):
            shift = np.uint64(u & 63)
            if ((bits[i, u >> 6] ^ bits[j, u >> 6]) >> shift) & np.uint64(1):
                return True
    elif here.kind == WALL:
        for h in range(first, first + here.heads):
            if routings[i, h] != routings[j, h]:
                return True
    return False


@kernel(inner=True)
def chosen(net, bits, routings, i, layer, word):
    """The bits of a cell in a fold layer, the compiled keys that win in a wall layer."""
    here = layer_row(net.table, layer)
    first = here.first
    if here.kind == FOLD:
        for j in range(here.words):
            word[j] = 0
        for u in range(here.rows):
            if (bits[i, (first + u) >> 6] >> np.uint64((first + u) & 63)) & np.uint64(1):
                word[u >> 6] |= 1 << (u & 63)
    elif here.kind == WALL:
        for h in range(here.heads):
            k = net.heads_at[here.head_at + h]
            while net.key_of[here.offsets + k] != routings[i, first + h]:
                k += 1
            word[h] = k


@kernel
def outline(
    net, last, n, path, errors, path_signs, rows, row_errors, row_at, bits, routings, tied, start, codes,
    signs, witnesses, sides, side_errors, cell_rows, cell_errors, verdict, unbounded, bounded_domain, cones,
    work, lp,
):  # fmt: skip
    """For every cell: rows of its candidates (length 1, positive inside) with errors, which of them are
    facets (0 no, 1 yes, 2 undecided), and whether it is unbounded (likewise).

    ``signs`` (per candidate) says on which side of its hyperplane the cell lies.
    """
    base, base_error = cones.rows, cones.error
    word, hidden, w, z = work.word, work.hidden, work.w, work.z
    boxed, own = lp.reach[0] > 0.0, work.cuts  # the row of each candidate, if it has one
    for i in range(tied.shape[0]):
        changed = i == 0
        for layer in range(last + 1):
            here = layer_row(net.table, layer)
            if changed:
                enter(n, net, path, errors, layer, CERTIFIED)
                write_rows(net, path, errors, rows, row_errors, row_at, layer, n)
            changed = changed or parts_at(net.table, bits, routings, i, i - 1, layer)
            if changed and layer < last:
                if here.kind == AFFINE:
                    leave_affine(n, net, path, errors, layer)
                else:
                    chosen(net, bits, routings, i, layer, word)
                    if here.kind == FOLD:
                        hidden_of(n, net, path, layer, word, work.units, hidden)
                    elif here.outputs >= 0:
                        e, m_in = here.d_out, here.d_in
                        for r in range(e):
                            hidden[r] = 0.0
                            if here.skip == 1:
                                hidden[r] = path[here.y_at + (n - 1) * m_in + r]
                            for h in range(here.heads):
                                hidden[r] += net.weights[here.outputs + word[h] * e + r]
                    leave(n, net, path, errors, path_signs, layer, word, hidden)
        for k in range(n - 1):
            base[0, k] = 0.0
            w[k] = witnesses[i, k]
        w[n - 1] = 1.0
        m = 0
        if not boxed:
            base[0, n - 1] = 1.0
            base_error[0] = 0.0
            m = 1
        for f in range(start[i], start[i + 1]):
            code = codes[f]
            if code <= SIDE:
                copy(sides[SIDE - code], 0, base[m], 0, n)
                base_error[m] = side_errors[SIDE - code]
            else:
                write_cut(code, signs[f], rows, row_errors, row_at, n, cones, m)
                if tied[i] == 1:  # its float map is not the mean that it should be
                    base_error[m] = np.inf
            copy(base[m], 0, cell_rows[f], 0, n)
            cell_errors[f] = base_error[m]
            own[f - start[i]] = -1 if boxed and code <= SIDE else m
            m += own[f - start[i]] == m
        for f in range(start[i], start[i + 1]):
            verdict[f] = 2
            if not (tied[i] == 0 and cell_errors[f] < np.inf and normalised(lp, w, n)):
                continue
            copy(cell_rows[f], 0, z, 0, n)
            # the side itself does not count: the program may go as far beyond it as the box is wide
            side = SIDE - codes[f] if boxed and codes[f] <= SIDE else -1
            k = side % (n - 1)
            low, high = lp.low[k], lp.high[k]
            if side >= n - 1:
                lp.low[k] -= high - low
            elif side >= 0:
                lp.high[k] += high - low
            skip = own[f - start[i]]
            found = other_side(lp, base, base_error, m, z, cell_errors[f], w, n, CERTIFIED, skip)
            lp.low[k], lp.high[k] = low, high
            if found != OPEN:
                verdict[f] = found == INSIDE
        unbounded[i] = 0
        if not bounded_domain:
            found = grows_somewhere(lp, base, base_error, cones.code, cones.sign, m, n, CERTIFIED)
            unbounded[i] = 2 if found == OPEN else found == INSIDE


@kernel(inner=True)
def projected(cell_rows, cell_errors, first, stop, skip, h, h_error, p, n, base, base_error, at):
    r"""Rows of a cell inside the hyperplane h . y = 0, coordinate p eliminated:
    :math:`g - (g_p / h_p) h`. Returns where the next row goes.

    With :math:`|h_p| \ge 1/\sqrt n` and unit rows, errors :math:`\delta_g, \delta_h` become at most
    :math:`3 n (\delta_g + \delta_h)`, and rounding adds less than :math:`8 n u`.
    """
    for f in range(first, stop):
        if f == skip:
            continue
        ratio = cell_rows[f, p] / h[p]
        column = 0
        for k in range(n):
            if k != p:
                base[at, column] = cell_rows[f, k] - ratio * h[k]
                column += 1
        error = 3.0 * n * (cell_errors[f] + h_error) + 8.0 * n * UNIT
        base_error[at] = unit_row(base, at, n - 1, error, 1.01)
        at += 1
    return at


@kernel(inner=True)
def opposed(start, codes, signs, i, j, f, g, cell_rows, cell_errors, h, h_error, p, n):
    """Whether two cells lie on two sides of a hyperplane other than that of their facets f and g, drawn in
    the same layer cell."""
    layer = codes[f] >> 54
    for r in range(start[i], start[i + 1]):
        if r == f or codes[r] < 0 or codes[r] >> 54 != layer or not cell_errors[r] < np.inf:
            continue
        for q in range(start[j], start[j + 1]):
            if q != g and codes[q] == codes[r] and signs[q] != signs[r]:
                ratio = cell_rows[r, p] / h[p]
                square = 0.0
                for k in range(n):
                    v = cell_rows[r, k] - ratio * h[k]
                    square += v * v
                if np.sqrt(square) > 2.0 * (3.0 * n * (cell_errors[r] + h_error) + 8.0 * n * UNIT):
                    return True
    return False


@kernel
def touching(
    pairs, start, codes, signs, cell_rows, cell_errors, n, verdict, cones, h, lp,
):  # fmt: skip
    """Do cells i and j meet in dimension d - 1, on facet f of i and g of j? 0 no, 1 yes, 2 undecided.

    Each row of ``pairs`` is (i, j, f, g), facets numbered among all candidates; only facets are listed.
    """
    base, base_error = cones.rows, cones.error
    for q in range(pairs.shape[0]):
        i, j, f, g = pairs[q, 0], pairs[q, 1], pairs[q, 2], pairs[q, 3]
        verdict[q] = 2
        if not (cell_errors[f] < 1e-3 and cell_errors[g] < 1e-3):
            continue
        p = 0
        for k in range(n):
            h[k] = cell_rows[f, k]
            if abs(h[k]) > abs(h[p]):
                p = k
        if opposed(start, codes, signs, i, j, f, g, cell_rows, cell_errors, h, cell_errors[f], p, n):
            verdict[q] = 0
            continue
        m = 0
        for side in range(2):
            own, skip = (i, f) if side == 0 else (j, g)
            m = projected(cell_rows, cell_errors, start[own], start[own + 1], skip, h, cell_errors[f], p, n,
                          base, base_error, m)  # fmt: skip
        # the point must not lie at infinity: one more row, x_0
        for k in range(n - 1):
            base[m, k] = -h[k] / h[p] if p == n - 1 else 0.0
        if p < n - 1:
            base[m, n - 2] = 1.0
        error = 3.0 * n * cell_errors[f] + 8.0 * n * UNIT
        base_error[m] = unit_row(base, m, n - 1, error, 1.01)
        known = True
        for r in range(m + 1):
            known = known and base_error[r] < np.inf
        if not known:
            continue
        found = largest_margin(lp, base, base_error, m + 1, n - 1, CERTIFIED)
        if found != OPEN:
            verdict[q] = found == INSIDE
