r"""Signs that floats leave open: the rungs of the ladder that are compiled into the kernels.

The question is always the sign of a composed row :math:`r` at a vertex, which is the ray on :math:`d` other
composed rows (facets, each known by name): up to orientation, the sign of the determinant of these :math:`D =
d + 1` rows. Two rungs answer it here, in this order:

*Zero proof.* An undecided sign is nearly always exactly zero: units that coincide, walls that meet in a
point. The composed maps are computed modulo primes, one prime after the other. A residue that is not zero
proves that the determinant is not. Otherwise primes are added until they prove that it is: with
:math:`q_i` the denominator of row :math:`i`, the determinant times :math:`\prod q_i` is an integer, at most
:math:`\prod q_i \|r_i\|` (Hadamard; where floats bound the value of :math:`r` at the vertex, its norm and
the constants of the facets do not count). An integer that vanishes modulo primes whose product is larger is
zero.

*Double-double.* What is not zero gets its sign from the same rows with about thirty digits. Facets are scaled
by powers of two to :math:`\|F\|_1 \le 1`; then a minor of order :math:`k` is at most 1 and computed within
:math:`\tfrac12 k(k+1)` units plus the errors of its rows, and its product with a row scaled alike is off by
the sum of both errors and :math:`D + 2` units. The errors of rows are those of the floats
(:func:`~hardmax.regions.engine.layer_kernels.bound_errors`), which are proportional to the unit of rounding.

Units whose rows vanish on a whole layer cell, or are multiples of those of others, are recognised once per
layer cell by the same residues (:func:`vanishes`, :func:`multiple_of`). They cut nothing: a *twin* follows
the unit of which it is a multiple. So are keys of a head that tie (:func:`agree`): they win together, and
the mean of their outputs goes on, modulo primes and in double-double as well
(:mod:`~hardmax.regions.engine.twin_kernels`).

Both walk along the path of the depth-first search through the layers, and remember: what enters a layer is
known by the number of its layer cell, and rows are computed when they are asked for. Modulo a prime nothing
is rounded, so what enters a layer follows from what entered it last, by the units that have changed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.exact import double_double_kernels as pairs
from hardmax.exact import residue_kernels as modulo
from hardmax.geometry.cones.ray_kernels import lowest, popcount
from hardmax.regions.engine import layer_kernels
from hardmax.regions.engine.layer_kernels import (
    A_MAX,
    AFFINE,
    C_MAX,
    FOLD,
    MEANS,
    RA,
    RC,
    layer_row,
    nonzeros,
)
from hardmax.regions.engine.twin_kernels import add_twin, n_twins, share_of, twin

DOMAIN_SIDE, AT_INFINITY = -1, -2  # owners of facets that are no rows of the network
FAR_SIDE = -4  # the slope of a side of the plane's symbolic box (0 to 3), or a diagonal of it (4, 5)
NO_FACET = -9

# How much smaller errors of pairs are than those of floats: all are proportional to the unit of rounding. A
# sum of n products of pairs is off by at most n + 8 units of 2^-98, one of floats by n + 6 units.
FINER = 1.5 * pairs.UNIT / layer_kernels.UNIT

PAIRS = 0  # where it stands that the double-double ray is known; that modulo block b stands at 1 + b
ZERO, POSITIVE, NEGATIVE, OPEN = range(4)  # signs, as kernels write them

# what was counted: zeros proven, signs from double-double, questions left open, bits that primes lack
N_ZERO, N_PAIRS, N_OPEN, MISSING = range(4)
COUNTS = 8

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Modulo(NamedTuple):
    """The network modulo primes, and what is known along the path: row b of each array is modulo block b.

    Blocks have L lanes (:mod:`~hardmax.exact.residue_kernels`), and every number takes L places.
    """

    primes: Floats  # (B, L)
    inverses: Floats  # (B, L): one over them, rounded
    bits: Floats  # (B,): log2 of the product of the primes of a block, a little below
    shares: Floats  # (B, L): room for one over the number of keys that tie
    weights: Floats  # (B, weights L); those that are listed are left out
    nonzero: Floats  # (B, listed weights L)
    path: Floats  # (B, path L)
    entered: Integers  # (B, layers): the layer cell whose hidden vector is there
    origin: Integers  # (B, layers): the layer cell before, and below, the signs there
    words: Integers  # (B, signs)
    known: Integers  # (B, path): the layer cell whose row is there, at its first column


class Pairs(NamedTuple):
    """The same in double-double, with one row: the first halves of the weights are the network's."""

    weights_low: Floats
    high: Floats  # (path,)
    low: Floats
    entered: Integers
    origin: Integers
    words: Integers
    known: Integers


class Sides(NamedTuple):
    """Rows of the domain."""

    mod: Floats  # (B, sides * D * L)
    high: Floats  # (sides * D,)
    low: Floats
    error: Floats  # (sides,): of the pairs, per entry
    bits: Floats  # (sides, 2): log2 of the norm, and of the denominator


class Vertex(NamedTuple):
    """The vertex in question: the facets it is on, its ray, and room to compute that."""

    names: Integers  # (2 * D,): owners and walls of its facets
    asked: Integers  # those of the vertex for which rays are known
    rays_mod: Floats  # (B, D * L): its ray modulo primes
    ray_high: Floats  # (D,)
    ray_low: Floats
    fresh: Integers  # (1 + B,): which rays are known, in pairs and modulo blocks; 2 for one that is not zero
    facets_high: Floats  # (D * D * L,): pairs need no lanes
    facets_low: Floats
    minors_high: Floats  # (2^D * L,)
    minors_low: Floats
    size: Floats  # (3,): error of the double-double ray, bits of the facets by slopes, by norms


class Rungs(NamedTuple):
    """What the compiled rungs of the ladder work with."""

    mod: Modulo
    pairs: Pairs
    sides: Sides
    vertex: Vertex
    denominators: Floats  # (layers,): log2 of the denominator of the rows of a layer
    counts: Integers


# Walks along the path. A kernel that is called passes each array of its named tuples along, which takes
# longer than a row does; so what is small here is copied into its caller.


@kernel(inlined=True)
def _row_mod(D, net, numbers, walk, here, i):
    """Row i of a layer modulo the primes of a block, column by column."""
    path, weights, primes, inverses = (
        numbers.path[walk], numbers.weights[walk], numbers.primes[walk], numbers.inverses[walk],
    )  # fmt: skip
    m, n, w = here.d_in, here.rows, here.scores + i * here.d_in
    first, end = nonzeros(net, here.nonzero_scores, i)
    for c in range(D):
        y = here.y_at + c * m
        if here.scores < 0:
            value = modulo.residues(path, y + i)
        elif first >= 0:
            value = modulo.sparse_dot(
                numbers.nonzero[walk], net.nonzero, first, end, path, y, primes, inverses
            )
        else:
            value = modulo.dot(weights, w, path, y, m, primes, inverses)
        if c == D - 1:
            value = modulo.plus(value, modulo.residues(weights, here.biases + i))
        modulo.put(path, here.z_at + c * n + i, modulo.reduced(value, primes, inverses))


@kernel(inlined=True)
def _row_pairs(D, net, numbers, walk, here, i):
    """The same in double-double."""
    m, n, w = here.d_in, here.rows, here.scores + i * here.d_in
    first, end = nonzeros(net, here.nonzero_scores, i)
    for c in range(D):
        y, z = here.y_at + c * m, here.z_at + c * n + i
        if here.scores < 0:
            h, l = numbers.high[y + i], numbers.low[y + i]
        elif first >= 0:
            h, l = pairs.sparse_dot(
                net.weights, numbers.weights_low, w, net.nonzero, first, end, numbers.high, numbers.low, y
            )
        else:
            h, l = pairs.dot(net.weights, numbers.weights_low, w, numbers.high, numbers.low, y, m)
        if c == D - 1:
            b = here.biases + i
            h, l = pairs.add(h, l, net.weights[b], numbers.weights_low[b])
        numbers.high[z] = h
        numbers.low[z] = l


@kernel(inlined=True)
def _add_unit_mod(D, net, numbers, walk, before, i, sign, to):
    """Add what unit i of the layer before sends, or take it away; not reduced."""
    path, weights, listed = numbers.path[walk], numbers.weights[walk], numbers.nonzero[walk]
    e = before.d_out
    first, end = nonzeros(net, before.nonzero_outputs, i)
    for c in range(D):
        factor = modulo.residues(path, before.z_at + c * before.rows + i)
        factor = modulo.times(modulo.spread(sign), factor)
        w, y = before.outputs + i * e, to + c * e
        if first >= 0:
            for t in range(first, end):
                r = y + net.nonzero[t]
                modulo.put(
                    path, r, modulo.add_product(modulo.residues(path, r), modulo.residues(listed, t), factor)
                )
        else:
            modulo.add_multiple(weights, w, factor, path, y, e)


@kernel(inlined=True)
def _add_unit_pairs(D, net, numbers, walk, before, i, sign, to):
    """The same in double-double."""
    e = before.d_out
    for c in range(D):
        z = before.z_at + c * before.rows + i
        fh, fl = sign * numbers.high[z], sign * numbers.low[z]
        if fh != 0.0:
            pairs.add_multiple(
                net.weights, numbers.weights_low, before.outputs + i * e, fh, fl, numbers.high, numbers.low,
                to + c * e, e,
            )  # fmt: skip


@kernel(inlined=True)
def _add_weights_mod(net, numbers, walk, w, times, share, to, count):
    """Add ``times / share`` times weights to numbers of the path; not reduced."""
    factor = modulo.spread(1.0)
    if share > 1:
        modulo.put_reciprocals(share, numbers.primes[walk], numbers.shares[walk])
        factor = modulo.times(modulo.spread(float(times)), modulo.residues(numbers.shares[walk], 0))
        factor = modulo.reduced(factor, numbers.primes[walk], numbers.inverses[walk])
    modulo.add_multiple(numbers.weights[walk], w, factor, numbers.path[walk], to, count)


@kernel(inlined=True)
def _add_weights_pairs(net, numbers, walk, w, times, share, to, count):
    """The same in double-double."""
    h, l = pairs.quotient(float(times), float(share))
    pairs.add_multiple(net.weights, numbers.weights_low, w, h, l, numbers.high, numbers.low, to, count)


@kernel(inlined=True)
def _move_mod(numbers, walk, source, to, count):
    """Copy numbers of the path; zeros where ``source`` is negative."""
    path = numbers.path[walk]
    for r in range(modulo.LANES * count):
        path[modulo.LANES * to + r] = path[modulo.LANES * source + r] if source >= 0 else 0.0


@kernel(inlined=True)
def _move_pairs(numbers, walk, source, to, count):
    """The same in double-double."""
    for r in range(count):
        numbers.high[to + r] = numbers.high[source + r] if source >= 0 else 0.0
        numbers.low[to + r] = numbers.low[source + r] if source >= 0 else 0.0


@kernel(inlined=True)
def _reduce_mod(numbers, walk, to, count):
    """Bring sums back between -p/2 and p/2."""
    modulo.reduce_all(numbers.path[walk], to, count, numbers.primes[walk], numbers.inverses[walk])


@kernel(inlined=True)
def _reduce_pairs(numbers, walk, to, count):
    """Pairs need no reduction."""


def _walk(row, add_unit, add_weights, move, reduce, exact):
    """The walk along the path for one kind of numbers: the kernel that provides a row of a layer.

    ``exact`` says that nothing is rounded: then what enters a layer is mended, unit by unit.
    """

    @kernel(inlined=True)
    def ensure_row(D, net, signs, numbers, walk, here, i):
        """Compute row i of a layer whose hidden vector is there, unless it is known."""
        serial = signs[here.sign_at]
        if numbers.known[walk, here.z_at + i] != serial:
            row(D, net, numbers, walk, here, i)
            numbers.known[walk, here.z_at + i] = serial

    @kernel(inlined=True)
    def enter(D, net, signs, numbers, walk, layer):
        """Compute what enters a layer on the path."""
        first = layer
        while first > 0:
            if numbers.entered[walk, first] == signs[layer_row(net.table, first).sign_at]:
                break
            first -= 1
        for l in range(first + 1, layer + 1):
            before, here = layer_row(net.table, l - 1), layer_row(net.table, l)
            to, e, m, n = here.y_at, before.d_out, before.d_in, before.rows
            at = before.sign_at + 2
            if before.kind == AFFINE:
                for i in range(n):
                    ensure_row(D, net, signs, numbers, walk, before, i)
                move(numbers, walk, before.z_at, to, D * n)
            elif before.kind == FOLD:
                follows = exact and numbers.origin[walk, l] == signs[before.sign_at]
                if not follows:
                    move(numbers, walk, before.y_at if before.skip == 1 else -1, to, D * e)
                    add_weights(net, numbers, walk, before.offsets, 1, 1, to + (D - 1) * e, e)
                terms = 0
                for w in range(before.words):
                    now = np.uint64(signs[at + w])
                    old = np.uint64(numbers.words[walk, at + w]) if follows else np.uint64(0)
                    changed = now ^ old
                    while changed != np.uint64(0):
                        j = lowest(changed)
                        changed &= changed - np.uint64(1)
                        ensure_row(D, net, signs, numbers, walk, before, (w << 6) + j)
                        sign = 1.0 if (now >> np.uint64(j)) & np.uint64(1) != np.uint64(0) else -1.0
                        add_unit(D, net, numbers, walk, before, (w << 6) + j, sign, to)
                        terms += 1
                        if terms == modulo.TERMS - 2:
                            reduce(numbers, walk, to, D * e)
                            terms = 0
                    numbers.words[walk, at + w] = signs[at + w]
                reduce(numbers, walk, to, D * e)
                numbers.origin[walk, l] = signs[before.sign_at]
            elif before.outputs < 0:  # the winning scores leave, and what entered beside them
                kept = e - before.heads
                for h in range(before.heads):
                    ensure_row(D, net, signs, numbers, walk, before, signs[at + h])
                for c in range(D):
                    move(numbers, walk, before.y_at + c * m, to + c * e, kept)
                    for h in range(before.heads):
                        move(numbers, walk, before.z_at + c * n + signs[at + h], to + c * e + kept + h, 1)
            else:
                # the mean of what a winner and its twins put out, for every head
                constants = to + (D - 1) * e
                move(numbers, walk, before.y_at if before.skip == 1 else -1, to, D * e)
                terms = 0
                for h in range(before.heads):
                    winner = signs[at + h]
                    share, count = np.int64(1), np.int64(0)
                    if signs[at - 1] != 0:
                        count = n_twins(before, signs)
                        share = share_of(net, before, signs, winner)
                    for t in range(-1, count):
                        key, other = winner, winner
                        if t >= 0:
                            key, other, _ = twin(before, signs, t)
                        if other != winner:
                            continue
                        times = np.int64(1)
                        if count > 0:
                            times = max(net.multiplicities[before.offsets + key], np.int64(t < 0))
                        add_weights(net, numbers, walk, before.outputs + key * e, times, share, constants, e)
                        terms += 1
                        if terms == modulo.TERMS - 2:
                            reduce(numbers, walk, constants, e)
                            terms = 0
                reduce(numbers, walk, to, D * e)
            numbers.entered[walk, l] = signs[here.sign_at]

    @kernel(inner=True)
    def compute_row(D, net, signs, numbers, first, end, layer, i):
        """Compute row i of a layer on the path, for some walks."""
        here = layer_row(net.table, layer)
        for walk in range(first, end):
            entered = layer == 0 or numbers.entered[walk, layer] == signs[here.sign_at]
            if not entered:
                enter(D, net, signs, numbers, walk, layer)
            ensure_row(D, net, signs, numbers, walk, here, i)

    @kernel(inlined=True)
    def provide(D, net, signs, numbers, walk, end, layer, i):
        """Have row i of a layer at its place in the path.

        Where it is missing, it is computed for the walks up to ``end``, too: they come next.
        """
        here = layer_row(net.table, layer)
        if numbers.known[walk, here.z_at + i] != signs[here.sign_at]:
            compute_row(D, net, signs, numbers, walk, end, layer, i)

    return provide


_provide_mod = _walk(_row_mod, _add_unit_mod, _add_weights_mod, _move_mod, _reduce_mod, True)
_provide_pairs = _walk(_row_pairs, _add_unit_pairs, _add_weights_pairs, _move_pairs, _reduce_pairs, False)


# rows by name


@kernel(inlined=True)
def _wall_parts(wall):
    """Of the code of a wall: the layer, and the rows of which it is the first, minus the second if that is
    not negative.
    """
    layer, group, a, b = wall >> 54, (wall >> 38) & 0xFFFF, (wall >> 19) & 0x7FFFF, wall & 0x7FFFF
    if a == b:
        return layer, group, -1
    return layer, b, a


@kernel(inner=True)
def _at_infinity(D, owner, wall, out, at):
    """The row of a facet at infinity."""
    for c in range(D):
        out[at + c] = 1.0 if c == D - 1 and owner == AT_INFINITY else 0.0
    if owner == FAR_SIDE:
        out[at] = 1.0 if wall >= 3 else -1.0 if wall == 1 else 0.0
        out[at + 1] = 1.0 if wall in (0, 4) else -1.0 if wall in (2, 5) else 0.0


@kernel(inlined=True)
def _difference_mod(D, net, signs, rungs, b, count, layer, i, j, out, at):
    """Row i of a layer, minus row j if that is not negative, modulo block b of ``count`` that are needed."""
    here = layer_row(net.table, layer)
    _provide_mod(D, net, signs, rungs.mod, b, count, layer, i)
    if j >= 0:
        _provide_mod(D, net, signs, rungs.mod, b, count, layer, j)
    path = rungs.mod.path[b]
    for c in range(D):
        z = here.z_at + c * here.rows
        value = modulo.residues(path, z + i)
        if j >= 0:
            value = modulo.minus(value, modulo.residues(path, z + j))
            value = modulo.reduced(value, rungs.mod.primes[b], rungs.mod.inverses[b])
        modulo.put(out, at + c, value)


@kernel(inlined=True)
def _named_mod(D, net, signs, rungs, b, count, owner, wall, out, at):
    """The row of a facet modulo block b."""
    if owner in (AT_INFINITY, FAR_SIDE):
        _at_infinity(D, owner, wall, rungs.vertex.minors_low, 0)
        for c in range(D):
            modulo.put(out, at + c, modulo.spread(rungs.vertex.minors_low[c]))
    elif owner == DOMAIN_SIDE:
        for c in range(D):
            modulo.put(out, at + c, modulo.residues(rungs.sides.mod[b], wall * D + c))
    else:
        layer, i, j = _wall_parts(wall)
        _difference_mod(D, net, signs, rungs, b, count, layer, i, j, out, at)


@kernel(inner=True)
def _scaled(D, high, low, at, error):
    """Scale a row of pairs by a power of two to 1-norm at most 1; returns its error then, infinite if nothing
    is known.
    """
    size = error
    for c in range(D):
        size += abs(high[at + c])
    if not (size > 1e-140) or not (size < 1e140):
        return np.inf
    scale = math.ldexp(1.0, -math.frexp(1.01 * size)[1])
    for c in range(D):
        high[at + c] *= scale
        low[at + c] *= scale
    return 1.01 * error * scale


@kernel(inner=True)
def _difference_pairs(D, net, state, rungs, layer, i, j, high, low, at):
    """Row i of a layer, minus row j if that is not negative, as scaled pairs; returns the error of the row in
    1-norm, infinite if nothing is known.
    """
    here = layer_row(net.table, layer)
    e = state.errors[layer]
    _provide_pairs(D, net, state.signs, rungs.pairs, 0, 1, layer, i)
    error = FINER * max(1.0, state.errors[0, layer_kernels.PAIRS]) * ((D - 1) * e[RA] + e[RC])
    if j >= 0:
        _provide_pairs(D, net, state.signs, rungs.pairs, 0, 1, layer, j)
        error *= 2.0
    for c in range(D):
        z = here.z_at + c * here.rows
        h, l = rungs.pairs.high[z + i], rungs.pairs.low[z + i]
        if j >= 0:
            error += 4.0 * pairs.UNIT * (abs(h) + abs(rungs.pairs.high[z + j]))
            h, l = pairs.add(h, l, -rungs.pairs.high[z + j], -rungs.pairs.low[z + j])
        high[at + c], low[at + c] = h, l
    return _scaled(D, high, low, at, error)


@kernel(inner=True)
def _named_pairs(D, net, state, rungs, owner, wall, high, low, at):
    """The row of a facet as scaled pairs; returns its error in 1-norm."""
    if owner in (AT_INFINITY, FAR_SIDE):
        _at_infinity(D, owner, wall, high, at)
        for c in range(D):
            low[at + c] = 0.0
        return _scaled(D, high, low, at, 0.0)
    if owner == DOMAIN_SIDE:
        for c in range(D):
            high[at + c] = rungs.sides.high[wall * D + c]
            low[at + c] = rungs.sides.low[wall * D + c]
        return _scaled(D, high, low, at, D * rungs.sides.error[wall])
    layer, i, j = _wall_parts(wall)
    return _difference_pairs(D, net, state, rungs, layer, i, j, high, low, at)


# rays


@kernel(inlined=True)
def _ray_mod(D, net, signs, rungs, b, count):
    """The ray of the vertex in question modulo block b: the minors of its facets; returns 1 if it vanishes, 2
    if not.
    """
    facets, minors, ray, primes, inverses = (
        rungs.vertex.facets_high,
        rungs.vertex.minors_high,
        rungs.vertex.rays_mod[b],
        rungs.mod.primes[b],
        rungs.mod.inverses[b],
    )
    for f in range(D - 1):
        owner, wall = rungs.vertex.names[2 * f], rungs.vertex.names[2 * f + 1]
        _named_mod(D, net, signs, rungs, b, count, owner, wall, facets, f * D)
    full = (1 << D) - 1
    modulo.put(minors, 0, modulo.spread(1.0))
    for subset in range(1, full):
        size = popcount(np.uint64(subset))
        total = modulo.spread(0.0)
        sign = 1.0 if size & 1 else -1.0
        rest = np.uint64(subset)
        while rest != np.uint64(0):
            column = lowest(rest)
            rest &= rest - np.uint64(1)
            minor = modulo.times(modulo.spread(sign), modulo.residues(minors, subset ^ (1 << column)))
            total = modulo.add_product(total, modulo.residues(facets, (size - 1) * D + column), minor)
            sign = -sign
        modulo.put(minors, subset, modulo.reduced(total, primes, inverses))
    sign, vanishes = 1.0, True
    for column in range(D):
        minor = modulo.residues(minors, full ^ (1 << column))
        modulo.put(ray, column, modulo.times(modulo.spread(sign), minor))
        vanishes = vanishes and modulo.all_zero(minor)
        sign = -sign
    return 1 if vanishes else 2


@kernel(inner=True)
def _ray_pairs(D, net, state, rungs):
    """The ray of the vertex in question in double-double, with its error in ``size[0]``."""
    high, low, mh, ml = (
        rungs.vertex.facets_high,
        rungs.vertex.facets_low,
        rungs.vertex.minors_high,
        rungs.vertex.minors_low,
    )
    error = D * D * pairs.UNIT
    for f in range(D - 1):
        error += _named_pairs(
            D, net, state, rungs, rungs.vertex.names[2 * f], rungs.vertex.names[2 * f + 1], high, low, f * D
        )
    rungs.vertex.size[0] = 1.01 * error
    if not (error < 1.0):
        return
    full = (1 << D) - 1
    mh[0], ml[0] = 1.0, 0.0
    for subset in range(1, full):
        size = popcount(np.uint64(subset))
        th, tl = 0.0, 0.0
        sign = 1.0 if size & 1 else -1.0
        rest = np.uint64(subset)
        while rest != np.uint64(0):
            column = lowest(rest)
            rest &= rest - np.uint64(1)
            other, at = subset ^ (1 << column), (size - 1) * D + column
            ph, pl = pairs.multiply(sign * high[at], sign * low[at], mh[other], ml[other])
            th, tl = pairs.add(th, tl, ph, pl)
            sign = -sign
        mh[subset], ml[subset] = th, tl
    sign = 1.0
    for column in range(D):
        other = full ^ (1 << column)
        rungs.vertex.ray_high[column], rungs.vertex.ray_low[column] = sign * mh[other], sign * ml[other]
        sign = -sign


@kernel(inlined=True)
def ray_in_pairs(D, net, state, rungs):
    """Have the ray of the vertex in question in double-double; returns its error."""
    if rungs.vertex.fresh[PAIRS] == 0:
        _ray_pairs(D, net, state, rungs)
        rungs.vertex.fresh[PAIRS] = 1
    return rungs.vertex.size[0]


# questions


@kernel(inlined=True)
def _norms(D, net, state, layer, i, j):
    """Bounds on the norms of the slopes, and of the whole, of row i of a layer, minus row j if that is not
    negative; infinite where floats know nothing.
    """
    here, e, path = layer_row(net.table, layer), state.errors[layer], state.path
    slopes, constant = (D - 1) * e[RA], e[RC]
    if j >= 0:
        slopes, constant = 2.0 * slopes, 2.0 * constant
    for c in range(D):
        z = here.z_at + c * here.rows
        size = abs(path[z + i]) + (abs(path[z + j]) if j >= 0 else 0.0)
        if c < D - 1:
            slopes += size
        else:
            constant += size
    if not (slopes + constant < 1e300):
        return np.inf, np.inf
    return 1.01 * slopes, 1.01 * (slopes + constant)


@kernel(inlined=True)
def _bits(size):
    """log2, a little above."""
    return math.log2(size + 1e-300) + 1e-9


@kernel(inlined=True)
def _blocks(mod, bits):
    """How many blocks of primes have so many bits; at most those that there are."""
    return min(mod.bits.shape[0], 1 + np.int64(max(bits, 0.0) / (modulo.LANES * modulo.BITS)))


@kernel(inlined=True)
def ask_at(D, net, state, rungs):
    """The questions that follow are about the vertex on the facets in ``names``, unless they are already."""
    same = True
    for f in range(2 * D - 2):
        same = same and rungs.vertex.names[f] == rungs.vertex.asked[f]
        rungs.vertex.asked[f] = rungs.vertex.names[f]
    if same:
        return
    slopes, norms, denominators = 0.0, 0.0, 0.0
    for f in range(D - 1):
        owner, wall = rungs.vertex.names[2 * f], rungs.vertex.names[2 * f + 1]
        if owner == DOMAIN_SIDE:
            slopes += rungs.sides.bits[wall, 0]
            norms += rungs.sides.bits[wall, 0]
            denominators += rungs.sides.bits[wall, 1]
        elif owner in (AT_INFINITY, FAR_SIDE):
            slopes += 1.0
            norms += 1.0
        else:
            layer, i, j = _wall_parts(wall)
            size, norm = _norms(D, net, state, layer, i, j)
            slopes += _bits(size)
            norms += _bits(norm)
            denominators += rungs.denominators[layer] + state.errors[layer, MEANS]
    rungs.vertex.size[1], rungs.vertex.size[2] = slopes + denominators, norms + denominators
    for w in range(rungs.vertex.fresh.shape[0]):
        rungs.vertex.fresh[w] = 0


@kernel(inlined=True)
def zero_at(D, net, state, rungs, layer, i, j, value):
    """Whether row i (minus row j) of a layer vanishes at the vertex in question: ``ZERO`` if that is proven,
    ``POSITIVE`` if it is proven that it does not, otherwise ``OPEN``.

    ``value`` bounds the row at that point, where floats can tell: the determinant is the value times the
    minor of the slopes of the facets. Otherwise the norms of all rows bound it.
    """
    row = rungs.vertex.facets_low
    bits = rungs.vertex.size[2] + _bits(_norms(D, net, state, layer, i, j)[1])
    if value < 1e300:
        bits = min(bits, rungs.vertex.size[1] + _bits(value))
    bits += rungs.denominators[layer] + state.errors[layer, MEANS]
    if not (bits < 1e6):
        return OPEN
    known = -2.0  # the bits of the primes so far, less a margin for the rounding of logarithms
    independent = False  # of facets that are dependent every determinant vanishes: one ray must not
    needed = _blocks(rungs.mod, bits + 2.0)
    for b in range(rungs.mod.bits.shape[0]):
        count = 1 if b == 0 else max(needed, b + 1)  # the first block tells whether the others are worth it
        if rungs.vertex.fresh[1 + b] == 0:
            rungs.vertex.fresh[1 + b] = _ray_mod(D, net, state.signs, rungs, b, count)
        independent = independent or rungs.vertex.fresh[1 + b] == 2
        _difference_mod(D, net, state.signs, rungs, b, count, layer, i, j, row, 0)
        ray = rungs.vertex.rays_mod[b]
        total = modulo.spread(0.0)
        for c in range(D):
            total = modulo.add_product(total, modulo.residues(row, c), modulo.residues(ray, c))
        if not modulo.all_zero(modulo.reduced(total, rungs.mod.primes[b], rungs.mod.inverses[b])):
            return POSITIVE
        known += rungs.mod.bits[b]
        if known > bits and independent:
            return ZERO
    rungs.counts[MISSING] = max(rungs.counts[MISSING], np.int64(max(bits, 0.0)) + 3)
    return OPEN


@kernel(inlined=True)
def pair_sign_at(D, net, state, rungs, layer, i, j, column, turn):
    """The sign of row i (minus row j) of a layer at the vertex in question, from double-double.

    Coordinate ``column`` of the vertex has the sign ``turn``.
    """
    error = ray_in_pairs(D, net, state, rungs)
    at = (D - 1) * D
    high, low = rungs.vertex.facets_high, rungs.vertex.facets_low
    if not (abs(rungs.vertex.ray_high[column]) > error):
        return OPEN
    if rungs.vertex.ray_high[column] < 0.0:
        turn = -turn
    error += _difference_pairs(D, net, state, rungs, layer, i, j, high, low, at) + (D + 2.0) * pairs.UNIT
    if not (error < 1.0):
        return OPEN
    sh, sl = 0.0, 0.0
    for c in range(D):
        ph, pl = pairs.multiply(high[at + c], low[at + c], rungs.vertex.ray_high[c], rungs.vertex.ray_low[c])
        sh, sl = pairs.add(sh, sl, ph, pl)
    if not (abs(sh) > 1.01 * error):
        return OPEN
    return POSITIVE if (sh > 0.0) == (turn > 0.0) else NEGATIVE


@kernel(inner=True)
def place_at(D, net, state, rungs, column, turn, out, at):
    """Write the vertex in question, rounded from double-double to a largest coordinate of about 1; returns a
    bound on the error of its coordinates, infinite if it is not known to eight digits.

    Coordinate ``column`` of the vertex has the sign ``turn``.
    """
    error, largest = ray_in_pairs(D, net, state, rungs), 0.0
    if not (error < 1.0) or not (abs(rungs.vertex.ray_high[column]) > error):
        return np.inf
    for c in range(D):
        largest = max(largest, abs(rungs.vertex.ray_high[c]))
    if not (largest > 1e8 * error) or not (largest > 1e-200):
        return np.inf
    scale = (1.0 if (rungs.vertex.ray_high[column] > 0.0) == (turn > 0.0) else -1.0) / largest
    for c in range(D):
        out[at + c] = rungs.vertex.ray_high[c] * scale
    return 1.02 * (error / largest + 2.0 * layer_kernels.UNIT)


@kernel(inlined=True)
def sign_at(D, net, state, rungs, layer, i, j, value, column, turn):
    """The sign of row i (minus row j) of a layer at the vertex in question: the compiled rungs in order."""
    code = zero_at(D, net, state, rungs, layer, i, j, value)
    if code == ZERO:
        rungs.counts[N_ZERO] += 1
        return ZERO
    code = pair_sign_at(D, net, state, rungs, layer, i, j, column, turn)
    if code != OPEN:
        rungs.counts[N_PAIRS] += 1
        return code
    rungs.counts[N_OPEN] += 1
    return OPEN


# rows without the errors of what entered


@kernel(inner=True)
def sharpen(D, net, state, rungs, layer):
    """Round the rows of a layer from double-double, where cancellation has left floats with large errors.

    That is worth it in the first layer that cuts, which has one layer cell: inputs in physical units are
    brought to size one there, and all later layers inherit the errors. What was proportional to the unit of
    rounding no longer is: errors of pairs are then bounded by ``FINER`` times the largest quotient of a bound
    before and after. That holds for later layers too, because bounds are sums of what a layer adds, which is
    in proportion, and of multiples of what enters.
    """
    here, e, f = layer_row(net.table, layer), state.errors[layer], net.bounds[layer]
    m, n, z = here.d_in, here.rows, here.z_at
    z_na = layer_kernels.largest_norm(state.path, z, n, D - 1)
    z_nc = layer_kernels.largest_norm(state.path, z + (D - 1) * n, n, 1)
    unit = layer_kernels.UNIT
    if not (e[RA] > 8.0 * unit * z_na) and not (e[RC] > 8.0 * unit * z_nc):
        return
    if not (e[RA] < 1e100) or not (e[RC] < 1e100):
        return
    for i in range(n):
        _provide_pairs(D, net, state.signs, rungs.pairs, 0, 1, layer, i)
    for r in range(z, z + D * n):
        state.path[r] = rungs.pairs.high[r]
    y_na = layer_kernels.largest_norm(state.path, here.y_at, m, D - 1)
    y_nc = layer_kernels.largest_norm(state.path, here.y_at + (D - 1) * m, m, 1)
    z_na = layer_kernels.largest_norm(state.path, z, n, D - 1)
    z_nc = layer_kernels.largest_norm(state.path, z + (D - 1) * n, n, 1)
    z_ea, z_ec = layer_kernels.bound_scores(net.table, layer, f, e, y_na, y_nc)
    slopes, constants = unit * z_na + 1e-200, unit * z_nc + 1e-200
    worse = max(e[RA] / (slopes + FINER * e[RA]), e[RC] / (constants + FINER * e[RC]))
    worse = max(worse, max(z_ea / (slopes + FINER * z_ea), z_ec / (constants + FINER * z_ec)))
    e[RA], e[RC] = slopes + FINER * e[RA], constants + FINER * e[RC]
    state.errors[0, layer_kernels.PAIRS] = 1.01 * worse
    layer_kernels.bound_values(D, e, z_na, z_nc)
    layer_kernels.bound_leaving(
        net.table, layer, f, e, y_na, y_nc, z_na, z_nc, slopes + FINER * z_ea, constants + FINER * z_ec
    )


# rows that coincide


@kernel(inlined=True)
def may_vanish(net, state, layer, i):
    """Whether the first slope of a row could be zero: a look that spares most questions."""
    return abs(state.path[layer_row(net.table, layer).z_at + i]) <= state.errors[layer, RA]


@kernel(inlined=True)
def may_be_multiple(net, state, layer, i, j):
    """Whether the first two slopes of two rows could be proportional."""
    here, path = layer_row(net.table, layer), state.path
    a, b = path[here.z_at + i], path[here.z_at + here.rows + i]
    c, d = path[here.z_at + j], path[here.z_at + here.rows + j]
    error = 8.0 * (abs(a) + abs(b) + abs(c) + abs(d)) * state.errors[layer, RA]
    return abs(a * d - b * c) <= error + 1e-14 * abs(a * d)


# These three take arrays one by one: passing named tuples along takes longer than a proof.


@kernel(inner=True)
def vanishes(D, net, path, errors, signs, mod, denominators, counts, layer, i):
    """Whether it is proven that row i of a layer is zero on the whole layer cell."""
    here, e = layer_row(net.table, layer), errors[layer]
    for c in range(D):
        if not (abs(path[here.z_at + c * here.rows + i]) <= (e[RA] if c < D - 1 else e[RC])):
            return False
    denominator = denominators[layer] + e[MEANS]
    most = 2.0 * max(e[RA], e[RC])
    return _proven_zero(D, net, signs, mod, denominator, counts, layer, i, -1, most) == ZERO


@kernel(inlined=True)
def agree(D, net, path, errors, signs, mod, denominators, counts, layer, i, j):
    """Whether rows i and j of a layer agree on the whole layer cell: ``ZERO`` if that is proven, ``POSITIVE``
    if they do not, otherwise ``OPEN``.
    """
    here, e = layer_row(net.table, layer), errors[layer]
    for c in range(D):
        z = here.z_at + c * here.rows
        if not (abs(path[z + i] - path[z + j]) <= 2.001 * (e[RA] if c < D - 1 else e[RC])):
            return POSITIVE
    denominator = denominators[layer] + e[MEANS]
    most = 4.01 * max(e[RA], e[RC])
    return _proven_agreement(D, net, signs, mod, denominator, counts, layer, i, j, most)


@kernel(inner=True)
def _proven_agreement(D, net, signs, mod, denominator, counts, layer, i, j, most):
    """:func:`_proven_zero` for the difference of two rows, as a call."""
    return _proven_zero(D, net, signs, mod, denominator, counts, layer, i, j, most)


@kernel(inlined=True)
def _proven_zero(D, net, signs, mod, denominator, counts, layer, i, j, most):
    """``ZERO`` if it is proven that row i of a layer, minus row j if that is not negative, is zero, of which
    floats know that no entry is larger than ``most``; ``POSITIVE`` if it is not; otherwise ``OPEN``.

    Numbers that are too small for their denominator need no prime.
    """
    here = layer_row(net.table, layer)
    bits = 2.0 + _bits(most) + denominator
    if not (bits < 1e6):
        return OPEN
    needed = np.int64(bits) + 3
    for b in range(mod.bits.shape[0]):
        if bits < 0.0:
            break
        _provide_mod(D, net, signs, mod, b, 1 + b, layer, i)
        if j >= 0:
            _provide_mod(D, net, signs, mod, b, 1 + b, layer, j)
        path = mod.path[b]
        for c in range(D):
            z = here.z_at + c * here.rows
            value = modulo.residues(path, z + i)
            if j >= 0:
                value = modulo.minus(value, modulo.residues(path, z + j))
            if not modulo.all_zero(modulo.reduced(value, mod.primes[b], mod.inverses[b])):
                return POSITIVE
        bits -= mod.bits[b]
    if bits < 0.0:
        counts[N_ZERO] += 1
        return ZERO
    counts[MISSING] = max(counts[MISSING], needed)
    return OPEN


@kernel
def join_key(net, errors, signs, layer, key, winner):
    """From now on ``key`` of a head wins with ``winner``, which comes before it.

    Means of many outputs take more roundings in double-double than in floats, where they are corrected.
    """
    here = layer_row(net.table, layer)
    add_twin(here, signs, key, winner, 1)
    most = 1.0 + share_of(net, here, signs, winner)
    errors[0, layer_kernels.PAIRS] = max(errors[0, layer_kernels.PAIRS], most)


@kernel(inner=True)
def multiple_of(D, net, path, errors, signs, mod, denominators, counts, layer, i, j):
    """The sign of the number that row j of a layer is times row i, proven on the whole layer cell; 0 if it
    is no multiple, or that is not proven.
    """
    here, e = layer_row(net.table, layer), errors[layer]
    n, z = here.rows, here.z_at
    pivot = 0
    for c in range(1, D - 1):
        if abs(path[z + c * n + i]) > abs(path[z + pivot * n + i]):
            pivot = c
    a, b = path[z + pivot * n + i], path[z + pivot * n + j]
    if not (abs(a) > 2.0 * e[RA]) or not (abs(b) > 2.0 * e[RA]):
        return 0
    for c in range(D):
        error = 4.0 * (abs(a) + abs(b)) * (e[RA] if c < D - 1 else e[RC])
        if not (abs(a * path[z + c * n + j] - b * path[z + c * n + i]) <= error):
            return 0
    # what a minor is at most: what floats found, the errors of its four numbers, and its rounding
    off, size, largest = max(e[RA], e[RC]), abs(a) + abs(b), e[A_MAX] + e[C_MAX]
    most = 5.0 * size * off + 2.0 * (largest + off) * e[RA] + 4.0 * layer_kernels.UNIT * size * largest
    denominator = denominators[layer] + e[MEANS]
    if not _proven_multiple(D, net, signs, mod, denominator, counts, layer, i, j, pivot, most):
        return 0
    return 1 if (a > 0.0) == (b > 0.0) else -1


@kernel(inlined=True)
def _proven_multiple(D, net, signs, mod, denominator, counts, layer, i, j, pivot, most):
    r"""Whether residues prove that row j of a layer is a multiple of row i, whose coordinate ``pivot`` is not
    zero.

    It is one if all minors :math:`r_{i,p} r_{j,c} - r_{i,c} r_{j,p}` vanish, with :math:`p` the pivot. None
    of them is larger than ``most``.
    """
    here = layer_row(net.table, layer)
    n, z = here.rows, here.z_at
    bits = 2.0 + _bits(most) + 2.0 * denominator
    if not (bits < 1e6):
        return False
    needed = _blocks(mod, bits)
    for b in range(mod.bits.shape[0]):
        end = 1 if b == 0 else max(needed, 1 + b)
        _provide_mod(D, net, signs, mod, b, end, layer, i)
        _provide_mod(D, net, signs, mod, b, end, layer, j)
        path = mod.path[b]
        one = modulo.residues(path, z + pivot * n + i)
        other = modulo.minus(modulo.spread(0.0), modulo.residues(path, z + pivot * n + j))
        for c in range(D):
            minor = modulo.times(one, modulo.residues(path, z + c * n + j))
            minor = modulo.add_product(minor, other, modulo.residues(path, z + c * n + i))
            if not modulo.all_zero(modulo.reduced(minor, mod.primes[b], mod.inverses[b])):
                return False
        bits -= mod.bits[b]
        if bits < 0.0:
            counts[N_ZERO] += 1
            return True
    return False
