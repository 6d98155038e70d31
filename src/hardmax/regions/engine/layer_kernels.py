r"""Entering a layer: the composed map on a cell, and the one analysis of its rounding errors.

The engines of the plane, of space and the search go through the layers of a network in the same way (the
line goes in batches: :mod:`hardmax.regions.segment.machine`). On a cell, the hidden vector that enters a
layer is an affine map of the input, kept as :math:`D = d + 1` columns: the slopes of the :math:`d` input
coordinates, then the constants. The engine calls :func:`enter`, which computes the scores of the layer as
such a map, decides signs with them, and calls :func:`leave` with what goes on. The plane has three columns;
nothing else here depends on the dimension.

The bounds are kept per layer cell in a row of ``errors``: of the hidden vector entry by entry (``DA, DC``)
and in 2-norm (``EA, EC``), of the scores entry by entry (``RA, RC``), and the same for what leaves
(``NEXT_*``). The first of each pair holds for every column of slopes, the second for the constants.

Neighbouring cells of a fold layer differ in few units. :func:`leave_units` changes the map that leaves the
cell before into that of this one, and computes it anew after half as many changes as there are units. Each
change adds ``STEP_*`` to the bounds; ``CHANGES`` counts them, and is negative before the first cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.geometry.cones.ray_kernels import lowest
from hardmax.regions.engine.twin_kernels import mean_bits, n_twins

# kinds of layers
AFFINE, FOLD, WALL = 0, 1, 2

# columns of the table of layers, in the order of LayerRow
KIND, D_IN, D_OUT, ROWS, HEADS, SKIP, SCORES, BIASES = range(8)
OUTPUTS, OFFSETS, Y_AT, Z_AT, SIGN_AT, HEAD_AT, FIRST, WORDS = range(8, 16)
NONZERO_SCORES, NONZERO_OUTPUTS, GIVEN, GIVER, LIKE = range(16, 21)
ROW = 21  # numbers of a row
# columns of the table of norms: of the scores and biases, then of the outputs and offsets
RHO, SIGMA, SIGMA_ABS, GAMMA, B_MAX, B_NORM = range(6)
RHO_OUT, SIGMA_OUT, SIGMA_ABS_OUT, GAMMA_OUT, O_MAX, O_NORM = range(6, 12)

# per layer cell: errors of the hidden vector, of the scores, of the vector that leaves
DA, DC, EA, EC, RA, RC, A_MAX, C_MAX, T_A, T_C, NEXT_DA, NEXT_DC, NEXT_EA, NEXT_EC = range(14)
STEP_DA, STEP_DC, STEP_EA, STEP_EC, CHANGES = range(14, 19)
ROWS_EXACT, LEAVES = 19, 20  # of the search: whether floats hold the rows exactly; the size of what leaves
PAIRS = 21  # in the first row: how much larger errors of pairs may be than FINER times those of floats; or 0
MEANS = 22  # log2 of what means of tied keys add to the denominators of the rows
ENTERS_EXACT = 23  # of the search: whether floats hold what enters exactly
MULTIPLE = 24  # of the search: by what means of tied keys have divided what enters; 0 if that is too large
ERRORS = 25
HEADER = 8  # integers at the end of a node

EXACT, CERTIFIED, FLOAT = 0, 1, 2  # arithmetics
UNIT = 1.2e-16  # above the unit roundoff 2^-53
TINY, HUGE = 1e-280, 1e290
TAME = 1e140  # numbers between 1 / TAME and TAME have products that are neither lost nor infinite

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class LayerRow(NamedTuple):
    """A row of the table of layers; ``*_at`` is where something begins, -1 means that there is none."""

    kind: int
    d_in: int
    d_out: int
    rows: int
    heads: int
    skip: int
    scores: int
    biases: int
    outputs: int
    offsets: int
    y_at: int
    z_at: int
    sign_at: int
    head_at: int
    first: int  # number of its first unit or head in the network
    words: int
    nonzero_scores: int  # where the lists of nonzero weights begin, row by row; -1 if most are not zero
    nonzero_outputs: int  # the same unit by unit
    given: (
        int  # where it stands which units are on for every winner of a layer before; -1 if that is not known
    )
    giver: int  # that layer
    like: int  # where it stands which units have the weights of others, up to a sign; -1 if none has


class Net(NamedTuple):
    """The arrays of a :class:`~hardmax.regions.engine.program.Program` that kernels read."""

    table: Integers
    bounds: Floats
    weights: Floats
    heads_at: Integers
    key_of: Integers
    multiplicities: Integers  # how many keys of the block a key stands for; 0 where the first of a tie wins
    near_at: Integers  # where the rivals of a key begin in ``near``; -1 if every key of its head is one
    near: Integers
    given: Integers  # per winner: whether its units are known, and their bits
    nonzero_at: Integers  # where the list of a row or unit begins
    nonzero: Integers  # positions of nonzero weights in rows and units that have few
    nonzero_weights: Floats  # and these weights
    like: Integers  # per unit: twice the first unit with the same weights, plus one with the opposite; or -1


@kernel(inlined=True)
def layer_row(table, layer):
    """What the table says about a layer."""
    t = table[layer]
    return LayerRow(
        t[0],
        t[1],
        t[2],
        t[3],
        t[4],
        t[5],
        t[6],
        t[7],
        t[8],
        t[9],
        t[10],
        t[11],
        t[12],
        t[13],
        t[14],
        t[15],
        t[16],
        t[17],
        t[18],
        t[19],
        t[20],
    )


@kernel(inlined=True)
def nonzeros(net, lists, i):
    """Where the list of nonzero weights of row or unit i begins and ends; -1 if there is none."""
    if lists < 0:
        return -1, -1
    return net.nonzero_at[lists + i], net.nonzero_at[lists + i + 1]


@kernel(inlined=True)
def copy(source, at, target, to, count):
    """Copy so many entries."""
    for i in range(count):
        target[to + i] = source[at + i]


@kernel(inlined=True)
def carried(here, is_last):
    """How many rows of the map that leaves a layer its nodes carry along: none after the last layer, nor
    where the winning scores themselves leave.
    """
    return 0 if is_last or here.outputs < 0 else here.d_out


@kernel(inlined=True)
def write_header(ints, at, kind, layer, head, size, pending, tied, begin, floats):
    """The end of a node that begins at ``begin``; returns where the next one begins."""
    ints[at] = kind
    ints[at + 1] = layer
    ints[at + 2] = head
    ints[at + 3] = size
    ints[at + 4] = pending
    ints[at + 5] = tied
    ints[at + 6] = at + HEADER - begin
    ints[at + 7] = floats
    return at + HEADER


@kernel(inner=True)
def write_signature(net, last, signs, out, cell, words, routes):
    """Write down bits and winners of a cell; returns whether keys are tied in it."""
    for j in range(cell * words, (cell + 1) * words):
        out.bits[j] = np.uint64(0)
    tied = 0
    for layer in range(last + 1):
        here = layer_row(net.table, layer)
        at = here.sign_at + 2
        if here.kind == FOLD:
            for j in range(here.words):
                bits = np.uint64(signs[at + j])
                unit = here.first + 64 * j
                word, shift = cell * words + (unit >> 6), np.uint64(unit & 63)
                out.bits[word] |= bits << shift
                if unit & 63 != 0 and word + 1 < (cell + 1) * words:
                    out.bits[word + 1] |= bits >> (np.uint64(64) - shift)
        elif here.kind == WALL:
            for h in range(here.heads):
                out.routes[cell * routes + here.first + h] = net.key_of[here.offsets + signs[at + h]]
            if signs[at - 1] != 0:
                tied = 1
    return tied


@kernel(reorder=True, inner=True)
def rows_of(columns, weights, at, biases, n, m, path, y_at, z_at):
    """Rows S y + b of the composed map.

    Three columns at a time, so that a weight is loaded once for the three columns of the plane.
    """
    k = 0
    while k + 3 <= columns:
        y, z = y_at + k * m, z_at + k * n
        for i in range(n):
            r = at + i * m
            a = 0.0
            b = 0.0
            c = 0.0
            for j in range(m):
                w = weights[r + j]
                a += w * path[y + j]
                b += w * path[y + m + j]
                c += w * path[y + 2 * m + j]
            path[z + i] = a
            path[z + n + i] = b
            path[z + 2 * n + i] = c
        k += 3
    while k < columns:
        for i in range(n):
            total = 0.0
            for j in range(m):
                total += weights[at + i * m + j] * path[y_at + k * m + j]
            path[z_at + k * n + i] = total
        k += 1
    for i in range(n):
        path[z_at + (columns - 1) * n + i] += weights[biases + i]


@kernel(reorder=True, inner=True)
def sparse_rows_of(columns, net, here, path):
    """The same where most weights are zero: the others are listed."""
    weights, nonzero, m, n = net.weights, net.nonzero, here.d_in, here.rows
    for i in range(n):
        first, end = nonzeros(net, here.nonzero_scores, i)
        for c in range(columns):
            y = here.y_at + c * m
            total = weights[here.biases + i] if c == columns - 1 else 0.0
            for t in range(first, end):
                total += net.nonzero_weights[t] * path[y + nonzero[t]]
            path[here.z_at + c * n + i] = total


@kernel(reorder=True, inner=True)
def squares(path, at, n):
    """The sum of squares of n numbers."""
    total = 0.0
    for i in range(n):
        total += path[at + i] * path[at + i]
    return total


@kernel(reorder=True, inner=True)
def copied_squares(path, at, to, n):
    """Copy n numbers; returns the sum of their squares."""
    total = 0.0
    for i in range(n):
        v = path[at + i]
        path[to + i] = v
        total += v * v
    return total


@kernel(reorder=True, inner=True)
def shifted_squares(path, at, to, n, weights, biases):
    """Copy n numbers and add biases to the copies; returns the sums of squares before and after."""
    before = 0.0
    after = 0.0
    for i in range(n):
        v = path[at + i]
        z = v + weights[biases + i]
        path[to + i] = z
        before += v * v
        after += z * z
    return before, after


@kernel(inlined=True)
def norm_above(total, path, at, n):
    """The 2-norm of n numbers from the sum of their squares, rounded up; infinite where it proves nothing."""
    if total > 1e-270 and total < 1e280:
        return 1.0001 * np.sqrt(total)
    if total == 0.0:  # zeros, or squares that underflow
        for i in range(n):
            if path[at + i] != 0.0:
                return np.inf
        return 0.0
    return np.inf


@kernel(inner=True)
def largest_norm(path, at, n, columns):
    """The largest 2-norm of some columns of n numbers, rounded up; infinite where squares prove nothing."""
    largest = 0.0
    for c in range(columns):
        largest = max(largest, norm_above(squares(path, at + c * n, n), path, at + c * n, n))
    return largest


@kernel(inner=True)
def enter(columns, net, path, errors, layer, trust):
    r"""Rows of the composed map of a layer, and the bounds on their errors.

    With :math:`\rho` the largest row norm and :math:`\sigma, \sigma_{abs}` bounds on the spectral norms of
    :math:`S` and :math:`|S|`, the rows :math:`z = Sy + b` of a vector with errors :math:`\|\delta y\|_2 \le
    \varepsilon` have :math:`|\delta z_i| \le \rho(\varepsilon + \gamma \|y\|) + \gamma |b_i|` and
    :math:`\|\delta z\|_2 \le \sigma \varepsilon + \gamma(\sigma_{abs}\|y\| + \|b\|)`; what leaves through
    :math:`U`, on any set of units, is bounded in the same way. 2-norms do not grow by the factor
    :math:`\sqrt{n}` per layer that sums of absolute values would cost.

    ``T_A`` and ``T_C`` bound what a row is off at a point, per unit of its coordinates: the error of the row,
    and of the sum of :math:`D` products, at most :math:`D u` in any order. A difference of two rows, or of
    the values of two rows, is rounded once more, and callers double the bound for it: :math:`(D + 2) u`
    covers both.

    Nothing is bounded in floats without a filter (``trust == FLOAT``).
    """
    here = layer_row(net.table, layer)
    e, f = errors[layer], net.bounds[layer]
    y_at, m = here.y_at, here.d_in
    z_at, n = here.z_at, here.rows
    d = columns - 1
    e[CHANGES] = -1.0
    if here.scores < 0:  # the rows are a copy: norms are computed on the way
        y_na = 0.0
        for c in range(d):
            y, z = y_at + c * m, z_at + c * n
            y_na = max(y_na, norm_above(copied_squares(path, y, z, n), path, y, n))
        y, z = y_at + d * m, z_at + d * n
        before, after = shifted_squares(path, y, z, n, net.weights, here.biases)
        y_nc, z_na, z_nc = norm_above(before, path, y, n), y_na, norm_above(after, path, z, n)
    else:
        if here.nonzero_scores >= 0:
            sparse_rows_of(columns, net, here, path)
        else:
            rows_of(columns, net.weights, here.scores, here.biases, n, m, path, y_at, z_at)
        if trust != FLOAT:
            y_na, y_nc = largest_norm(path, y_at, m, d), largest_norm(path, y_at + d * m, m, 1)
            z_na, z_nc = largest_norm(path, z_at, n, d), largest_norm(path, z_at + d * n, n, 1)
    if trust == FLOAT:
        return
    bound_errors(net.table, layer, f, e, y_na, y_nc, z_na, z_nc)
    bound_values(columns, e, z_na, z_nc)


@kernel(inner=True)
def bound_errors(table, layer, f, e, y_na, y_nc, z_na, z_nc):
    r"""Bounds on the errors of scores and of what leaves, as :func:`enter` derives them.

    ``f`` is the layer's row of norms, ``e`` holds the bounds for what enters; the last arguments are the
    norms of what enters (slopes, constants) and of the scores.

    ``STEP_*`` bound what one change adds to the error of the map that leaves a fold layer, where adding or
    subtracting :math:`U_i z_i` for :math:`b` units at once counts as :math:`b + 1` changes. An entry
    :math:`x` of the map becomes the sum of :math:`b` products and :math:`x`. In any order each of them is
    rounded at most :math:`b + 1` times, so the error grows by at most :math:`\gamma (|x| + \sum |U_i z_i|)`
    with :math:`\gamma = (b + 1) u / (1 - (b + 1) u)`. Both sums are bounded as for the whole map, by
    :math:`s = \rho \|z\|`, and :math:`|o|` and :math:`|y|` where there are offsets and a skip; for all
    entries together by :math:`\sigma_{abs}` instead of :math:`\rho`. So the error grows by at most
    :math:`\gamma (2 s + \varepsilon)`, with :math:`\varepsilon < s / 1000` the error so far. That is below
    :math:`2 (b + 1)` ``UNIT`` :math:`s`, because ``UNIT`` is 8 % above :math:`u`. What the weights are
    rounded counts once for a map, not once per change, and is in ``NEXT_*``.
    """
    z_ea, z_ec = bound_scores(table, layer, f, e, y_na, y_nc)
    bound_leaving(table, layer, f, e, y_na, y_nc, z_na, z_nc, z_ea, z_ec)


@kernel(inner=True)
def bound_scores(table, layer, f, e, y_na, y_nc):
    """Bounds on the errors of scores, entry by entry; returns those in 2-norm, of slopes and of constants."""
    here = layer_row(table, layer)
    if here.scores < 0:
        e[RA] = e[DA]
        e[RC] = e[DC] + f[GAMMA] * (y_nc + f[B_MAX])
        z_ea = e[EA]
        z_ec = e[EC] + f[GAMMA] * (y_nc + f[B_NORM])
    else:
        e[RA] = f[RHO] * (e[EA] + f[GAMMA] * y_na)
        e[RC] = f[RHO] * (e[EC] + f[GAMMA] * y_nc) + f[GAMMA] * f[B_MAX]
        z_ea = f[SIGMA] * e[EA] + f[GAMMA] * f[SIGMA_ABS] * y_na
        z_ec = f[SIGMA] * e[EC] + f[GAMMA] * (f[SIGMA_ABS] * y_nc + f[B_NORM])
    return z_ea, z_ec


@kernel(inner=True)
def bound_values(columns, e, z_na, z_nc):
    """Bounds on scores, and on the error of their values, from those on the errors of scores."""
    e[A_MAX] = z_na + e[RA]
    e[C_MAX] = z_nc + e[RC]
    e[T_A] = e[RA] + (columns + 2.0) * UNIT * z_na
    e[T_C] = e[RC] + (columns + 2.0) * UNIT * z_nc


@kernel(inner=True)
def bound_leaving(table, layer, f, e, y_na, y_nc, z_na, z_nc, z_ea, z_ec):
    """Bounds on the errors of what leaves a layer, from those of its scores."""
    here = layer_row(table, layer)
    g = f[GAMMA_OUT]
    if here.kind == FOLD:
        e[NEXT_DA] = f[RHO_OUT] * (z_ea + g * z_na)
        e[NEXT_DC] = f[RHO_OUT] * (z_ec + g * z_nc) + g * f[O_MAX]
        e[NEXT_EA] = f[SIGMA_OUT] * z_ea + g * f[SIGMA_ABS_OUT] * z_na
        e[NEXT_EC] = f[SIGMA_OUT] * z_ec + g * (f[SIGMA_ABS_OUT] * z_nc + f[O_NORM])
        if here.skip == 1:
            e[NEXT_DA] += e[DA] + g * y_na
            e[NEXT_DC] += e[DC] + g * y_nc
            e[NEXT_EA] += e[EA] + g * y_na
            e[NEXT_EC] += e[EC] + g * y_nc
        kept = 1.0 if here.skip == 1 else 0.0
        e[STEP_DA] = 2.0 * UNIT * (f[RHO_OUT] * z_na + kept * y_na)
        e[STEP_DC] = 2.0 * UNIT * (f[RHO_OUT] * z_nc + f[O_MAX] + kept * y_nc)
        e[STEP_EA] = 2.0 * UNIT * (f[SIGMA_ABS_OUT] * z_na + kept * y_na)
        e[STEP_EC] = 2.0 * UNIT * (f[SIGMA_ABS_OUT] * z_nc + f[O_NORM] + kept * y_nc)
    elif here.kind == WALL and here.outputs < 0:
        # the scores of winners leave, and what entered beside them
        skip = here.skip == 1
        e[NEXT_DA] = max(e[RA], e[DA] if skip else 0.0)
        e[NEXT_DC] = max(e[RC], e[DC] if skip else 0.0)
        e[NEXT_EA] = z_ea + (e[EA] if skip else 0.0)
        e[NEXT_EC] = z_ec + (e[EC] if skip else 0.0)
    elif here.kind == WALL:
        e[NEXT_DA] = 0.0
        e[NEXT_EA] = 0.0
        e[NEXT_DC] = g * f[O_MAX]
        e[NEXT_EC] = g * f[O_NORM]
        if here.skip == 1:
            e[NEXT_DA] = e[DA]
            e[NEXT_EA] = e[EA]
            e[NEXT_DC] += e[DC] + g * y_nc
            e[NEXT_EC] += e[EC] + g * y_nc
    else:
        e[NEXT_DA] = e[RA]
        e[NEXT_DC] = e[RC]
        e[NEXT_EA] = z_ea
        e[NEXT_EC] = z_ec


@kernel(inner=True)
def leave_affine(columns, net, path, errors, layer):
    """The rows of an affine layer enter the next one, with the bounds on their errors."""
    here = layer_row(net.table, layer)
    copy(path, here.z_at, path, layer_row(net.table, layer + 1).y_at, columns * here.rows)
    copy(errors[layer], NEXT_DA, errors[layer + 1], DA, 4)
    errors[layer + 1, MEANS] = errors[layer, MEANS]


@kernel(inner=True)
def enter_groups(columns, net, path, errors, layer, trust):
    """Enter ``layer`` and, while it is affine, the next one; returns the layer of max-groups it ends in."""
    enter(columns, net, path, errors, layer, trust)
    while layer_row(net.table, layer).kind == AFFINE:
        leave_affine(columns, net, path, errors, layer)
        layer += 1
        enter(columns, net, path, errors, layer, trust)
    return layer


@kernel(inner=True)
def leave(columns, net, path, errors, signs, layer, winners, hidden):
    """What leaves a layer of max-groups enters the next one, with the bounds on its errors.

    ``hidden`` holds the map that leaves a fold layer, or the constants that leave an attention layer, whose
    slopes are those that entered. Where the winning scores leave, it is not read.
    """
    here = layer_row(net.table, layer)
    errors[layer + 1, MEANS] = errors[layer, MEANS]
    e, m, n = here.d_out, here.d_in, here.rows
    y_at, z_at, to = here.y_at, here.z_at, layer_row(net.table, layer + 1).y_at
    if here.kind == FOLD:
        copy(hidden, 0, path, to, columns * e)
    elif here.outputs < 0:
        # what entered, if kept, then the scores of the winners
        heads = here.heads
        kept = e - heads
        for c in range(columns):
            copy(path, y_at + c * m, path, to + c * e, kept)
            for h in range(heads):
                path[to + c * e + kept + h] = path[z_at + c * n + winners[h]]
    else:
        for r in range((columns - 1) * e):
            path[to + r] = path[y_at + r] if here.skip == 1 else 0.0
        copy(hidden, 0, path, to + (columns - 1) * e, e)
        if n_twins(here, signs) > 0:
            errors[layer + 1, MEANS] += mean_bits(net, here, signs, winners)
    copy(errors[layer], NEXT_DA, errors[layer + 1], DA, 4)


@kernel(inner=True)
def without_units(columns, net, path, layer, out, y):
    """The map that leaves a fold layer in which every unit is off, at ``out[y]``."""
    here = layer_row(net.table, layer)
    e, y_at, offsets = here.d_out, here.y_at, here.offsets
    for r in range((columns - 1) * e):
        out[y + r] = 0.0
    copy(net.weights, offsets, out, y + (columns - 1) * e, e)
    if here.skip == 1:
        for r in range(columns * e):
            out[y + r] += path[y_at + r]


@kernel(inner=True)
def leave_units(columns, net, path, errors, layer, word, signs, units):
    """The map that leaves a fold layer enters the next one, with the bounds on its errors.

    ``word`` says which units are on. On the layer cell before, those in ``signs`` were, and its map still
    stands where the next layer reads it: it is changed by the units that differ, or computed anew.
    """
    here = layer_row(net.table, layer)
    e, n, to, at = errors[layer], here.rows, layer_row(net.table, layer + 1).y_at, here.sign_at + 2
    count = 0
    changes = e[CHANGES]
    if changes >= 0.0:
        for j in range(here.words):
            flipped = np.uint64(word[j] ^ signs[at + j])
            while flipped != np.uint64(0):
                i = lowest(flipped)
                flipped &= flipped - np.uint64(1)
                units[count] = 64 * j + i if (word[j] >> i) & 1 else ~(64 * j + i)
                count += 1
        if count > 0:
            changes += count + 1.0
    if changes < 0.0 or 2.0 * changes > n:
        changes = 0.0
        count = 0
        for j in range(here.words):
            on = np.uint64(word[j])
            while on != np.uint64(0):
                units[count] = 64 * j + lowest(on)
                on &= on - np.uint64(1)
                count += 1
        without_units(columns, net, path, layer, path, to)
    if here.nonzero_outputs >= 0:
        add_sparse_units(columns, net, here, units, count, path, path, to)
    else:
        add_units(columns, net.weights, here.outputs, here.d_out, units, count, path, here.z_at, n, path, to)
    copy(word, 0, signs, at, here.words)
    e[CHANGES] = changes
    entering = errors[layer + 1]
    entering[MEANS] = e[MEANS]
    for i in range(4):
        entering[DA + i] = e[NEXT_DA + i]
        if changes > 0.0:
            entering[DA + i] += changes * e[STEP_DA + i]


@kernel(inlined=True)
def given_units(net, here, signs, word):
    """Write which units of a layer are on, where the winners of a layer before say it; False if not.

    Not where keys tie there: then some units may be zero on the whole cell.
    """
    giver, size = layer_row(net.table, here.giver), 1 + here.words
    for w in range(here.words):
        word[w] = 0
    known = n_twins(giver, signs) == 0
    for h in range(giver.heads):
        at = here.given + size * signs[giver.sign_at + 2 + h]
        known = known and net.given[at] != 0
        for w in range(here.words):
            word[w] |= net.given[at + 1 + w]
    return known


@kernel(inlined=True)
def listed(unit):
    """A unit of a list, and whether it is added (1.0) or, listed as ~i, subtracted (-1.0)."""
    return unit ^ (unit >> 63), 1.0 if unit >= 0 else -1.0


@kernel(inner=True)
def add_sparse_units(columns, net, here, units, count, path, out, y):
    """The same as :func:`add_units` where most outputs are zero: the others are listed."""
    nonzero, e = net.nonzero, here.d_out
    for j in range(count):
        i, s = listed(units[j])
        first, end = nonzeros(net, here.nonzero_outputs, i)
        for c in range(columns):
            a, to = s * path[here.z_at + c * here.rows + i], y + c * e
            for t in range(first, end):
                out[to + nonzero[t]] += net.nonzero_weights[t] * a


@kernel(reorder=True, inner=True)
def add_units(columns, weights, at, e, units, count, path, z_at, n, out, y):
    """Add U[:, i] z_i of the listed units to the map that leaves the layer, four units and three columns at a
    time. A unit i that is listed as ~i is subtracted.
    """
    j = 0
    while j + 4 <= count:
        (i0, s0), (i1, s1) = listed(units[j]), listed(units[j + 1])
        (i2, s2), (i3, s3) = listed(units[j + 2]), listed(units[j + 3])
        w0, w1, w2, w3 = at + i0 * e, at + i1 * e, at + i2 * e, at + i3 * e
        k = 0
        while k + 3 <= columns:
            z = z_at + k * n
            a0, a1, a2, a3 = s0 * path[z + i0], s1 * path[z + i1], s2 * path[z + i2], s3 * path[z + i3]
            z += n
            b0, b1, b2, b3 = s0 * path[z + i0], s1 * path[z + i1], s2 * path[z + i2], s3 * path[z + i3]
            z += n
            c0, c1, c2, c3 = s0 * path[z + i0], s1 * path[z + i1], s2 * path[z + i2], s3 * path[z + i3]
            to = y + k * e
            for r in range(e):
                u0, u1, u2, u3 = weights[w0 + r], weights[w1 + r], weights[w2 + r], weights[w3 + r]
                out[to + r] += u0 * a0 + u1 * a1 + u2 * a2 + u3 * a3
                out[to + e + r] += u0 * b0 + u1 * b1 + u2 * b2 + u3 * b3
                out[to + 2 * e + r] += u0 * c0 + u1 * c1 + u2 * c2 + u3 * c3
            k += 3
        while k < columns:
            z = z_at + k * n
            a0, a1, a2, a3 = s0 * path[z + i0], s1 * path[z + i1], s2 * path[z + i2], s3 * path[z + i3]
            to = y + k * e
            for r in range(e):
                out[to + r] += (
                    weights[w0 + r] * a0 + weights[w1 + r] * a1 + weights[w2 + r] * a2 + weights[w3 + r] * a3
                )
            k += 1
        j += 4
    while j < count:
        i, s = listed(units[j])
        w = at + i * e
        k = 0
        while k + 3 <= columns:
            z, to = z_at + k * n + i, y + k * e
            a, b, c = s * path[z], s * path[z + n], s * path[z + 2 * n]
            for r in range(e):
                u = weights[w + r]
                out[to + r] += u * a
                out[to + e + r] += u * b
                out[to + 2 * e + r] += u * c
            k += 3
        while k < columns:
            a, to = s * path[z_at + k * n + i], y + k * e
            for r in range(e):
                out[to + r] += weights[w + r] * a
            k += 1
        j += 1
