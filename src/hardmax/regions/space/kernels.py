r"""The compiled part of the space engine: polyhedra are cut, layer by layer, depth first.

As in the plane, a *node* is a convex polyhedron on which the signature is settled up to some point of some
layer, and nodes wait on an explicit stack. A polyhedron is kept as its rays in :math:`\mathbb{R}^D`,
:math:`D = d + 1` (vertices :math:`(x, 1)` up to scale, directions :math:`(x, 0)`), and for each ray the set
of facets it lies on. Rays and facets live in slots: a cut puts new rays into free slots, and the two halves
differ only in which rays are alive, so sets of rays and facets are words of bits that are never renumbered.

Every predicate is the sign of an affine function at a ray. A ray is the cross product of :math:`d` facet
normals, never a combination of other rays, so its error depends on those normals only. Normals are scaled by
powers of two to :math:`\|F\|_1 \le 1`; then minors are at most 1 and a minor of order :math:`k` is computed
within :math:`\tfrac12 k(k+1)u` plus the errors of its rows. With slopes bounded by :math:`\bar a`, constants
by :math:`\bar c`, their errors by :math:`\delta_a, \delta_c`, and :math:`\varepsilon` for a ray
:math:`(x, x_0)`,

.. math::

    |\mathrm{fl}(a \cdot x + c x_0) - \text{exact}| \le (\delta_a + (D+2)u \bar a) \|x\|_1
        + (\delta_c + (D+2) u \bar c) x_0 + \varepsilon (d (\bar a + \delta_a) + \bar c + \delta_c) .

A sign below that bound is *undecided*, and :mod:`~hardmax.regions.engine.sign_kernels` decides it where it is
made; what is open even then, the caller decides in rationals. Which pairs of rays span an edge
is combinatorial, so it is right once the signs are: in a simple polyhedron, those with :math:`d - 1` common
facets; in any other, those whose common facets no third ray shares.

A polyhedron that contains a line has no vertex. It travels as a list of facets without rays, and the caller
cuts it in rationals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.geometry.cones.ray_kernels import choose, cross, free_slot, highest, lowest, popcount
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
    TINY,
    UNIT,
    WALL,
    add_units,
    carried,
    copy,
    enter_groups,
    given_units,
    layer_row,
    leave,
    without_units,
    write_header,
    write_signature,
)
from hardmax.regions.engine.sign_kernels import (
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

# header of a node, at its end: kind, layer, head, ray slots, pending, 2 * facet slots + tied, ints, floats

# the control array
C_STATUS, C_INTS, C_FLOATS, C_CELLS, C_SERIAL, C_STEPS, C_TRUST, C_LAST, C_EMIT, C_FREE = range(10)
C_OUT_CELLS, C_OUT_RAYS, C_OUT_FACETS, C_UNBOUNDED, C_WORDS, C_ROUTES, C_MOST_CELLS = range(10, 17)
CONTROL = 20

# why the machine stopped; from UNDECIDED_HEAD on, the node on top of the stack is untouched (but for BUDGET)
RUNNING, DONE, UNDECIDED_FOLD, UNDECIDED_HEAD, STACK_FULL, OUTPUT_FULL, RAYS_FULL = range(7)
BUDGET, UNCERTAIN, HAS_LINES, BAG_FULL, FACETS_FULL = 7, 8, 9, 10, 11

UNSEEN, FOLLOWS = -1, -2  # keys of a head; otherwise 0 if waiting or without a cell, 1 + place in the bag
AT_INFINITY = -2  # owner of the facet x0 >= 0, which a polyhedron that touches it has in slot 0

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class State(NamedTuple):
    """What belongs to a run: counters, the composed maps along the path, and the stack (ints twice: as
    numbers and as words).
    """

    control: Integers
    layer_cells: Integers
    path: Floats
    errors: Floats
    signs: Integers
    si: Integers
    su: Words
    sf: Floats


class Cell(NamedTuple):
    """The working polyhedron: rays and facets in slots. The flat arrays are the same memory, for copying."""

    rays: Floats  # (slots, D + 1): coordinates, error
    mask: Words  # (slots, words): the facets a ray lies on
    alive: Words  # which ray slots are taken
    facets: Floats  # (slots, D + 1): normal, error
    label: Integers  # (slots, 3): owner, wall, side
    used: Words  # which facet slots are taken
    flat_rays: Floats
    flat_mask: Words
    flat_facets: Floats
    flat_label: Integers


class Pending(NamedTuple):
    """Units whose sign is not settled, with the rays at which they may be positive or negative."""

    unit: Integers
    positive: Words  # (words, units), so that loops over units touch memory in order
    negative: Words


class Room(NamedTuple):
    """Work space."""

    word: Integers
    routes: Integers
    hidden: Floats
    on: Integers
    sums: Floats
    above: Words
    below: Words
    fresh: Words
    rest: Words
    pick: Integers
    pool: Integers
    minors: Floats
    residual: Floats
    row: Floats
    slots: Integers
    near: Words
    pairs: Integers
    bounds: Floats
    size: Integers
    place: Integers


class Heads(NamedTuple):
    """Work space for the keys of a head; the bag holds the nodes of its cells in the order they are found."""

    table: Floats  # scores of all keys at all rays
    slack: Floats  # how far a difference of two may be off
    rivals: Integers  # (key, how many rays it takes), those that take most first
    todo: Integers
    seen: Integers
    place: Integers
    bag_i: Integers
    bag_u: Words
    bag_f: Floats


class Out(NamedTuple):
    """The cells that were found."""

    bits: Words
    routes: NDArray[np.int32]
    tied: NDArray[np.uint8]
    free: Integers
    ray_start: Integers
    rays: Floats
    facet_start: Integers
    label: Integers
    mask: Words
    witness: Floats


@kernel(inlined=True)
def bit(slot):
    """The word with one bit."""
    return np.uint64(1) << np.uint64(slot & 63)


@kernel(inlined=True)
def top_slot(words):
    """One more than the highest slot in a set."""
    for r in range(words.shape[0]):
        w = words.shape[0] - 1 - r
        if words[w] != np.uint64(0):
            return (w << 6) + highest(words[w]) + 1
    return 0


@kernel(inlined=True)
def touches_infinity(cell):
    """Whether infinity is a facet of the working cell."""
    return cell.used[0] & np.uint64(1) != np.uint64(0) and cell.label[0, 0] == AT_INFINITY


@kernel(inlined=True)
def dot(D, row, rays, v):
    """The value of a row at ray v."""
    if D == 4:
        return (row[0] * rays[v, 0] + row[1] * rays[v, 1]) + (row[2] * rays[v, 2] + row[3] * rays[v, 3])
    s = (row[0] * rays[v, 0] + row[1] * rays[v, 1]) + (row[2] * rays[v, 2] + row[3] * rays[v, 3])
    for c in range(4, D):
        s += row[c] * rays[v, c]
    return s


# errors


@kernel(inlined=True)
def threshold(trust, D, rays, v, e):
    """The bound on the error of any row of the layer at ray v; NaN, from which no sign is certain, where
    nothing is known.
    """
    if trust == FLOAT:
        return 0.0
    if trust == EXACT:
        return np.nan
    size = 0.0
    for c in range(D - 1):
        size += abs(rays[v, c])
    x0 = abs(rays[v, D - 1])
    spread = (D - 1) * e[A_MAX] + e[C_MAX]
    t = 1.0001 * (e[T_A] * size + e[T_C] * x0 + rays[v, D] * spread)
    if not (t >= TINY):
        if (
            (size == 0.0 or e[T_A] == 0.0)
            and (x0 == 0.0 or e[T_C] == 0.0)
            and (rays[v, D] == 0.0 or spread == 0.0)
        ):
            return 0.0
        return np.nan
    return t if t < HUGE else np.nan


# facets and rays


@kernel(inlined=True)
def write_facet(D, row, error, cell, slot, owner, wall, side):
    """Put a hyperplane, scaled by a power of two to 1-norm at most 1, into a facet slot."""
    size = 0.0
    for c in range(D):
        size += abs(row[c])
    exponent = math.frexp(size)[1]
    known = size > 1e-250 and size < 1e250 and error < size
    scale = math.ldexp(1.0, -exponent) if known else 1.0
    for c in range(D):
        cell.facets[slot, c] = row[c] * scale
    cell.facets[slot, D] = 1.001 * error * scale if known else np.inf
    cell.label[slot, 0] = owner
    cell.label[slot, 1] = wall
    cell.label[slot, 2] = side
    cell.used[slot >> 6] |= bit(slot)


@kernel(inlined=True)
def new_ray(D, rays, facets, mask, used, pick, v, minors):
    """rays[v] = the ray on the picked facets that points inside, with a bound on its error.

    Which of the two directions it is: x0 is not negative; at infinity, no facet is. Where floats cannot tell,
    the error is infinite and every sign there will be asked for.
    """
    cross(D, facets, pick, rays, v, minors)
    largest = 0.0
    for c in range(D):
        largest = max(largest, abs(rays[v, c]))
    error = 0.0
    for k in range(D - 1):
        error += facets[pick[k], D]
    error += D * D * UNIT
    if not (largest > 100.0 * error) or not (largest > 1e-200):
        for c in range(D):
            rays[v, c] = 0.0
        rays[v, D - 1] = 1.0
        rays[v, D] = np.inf
        return
    scale = 1.0 / largest
    error = 1.02 * (error * scale + 2.0 * UNIT)
    turn = 0.0
    if abs(rays[v, D - 1]) * scale > error:
        turn = 1.0 if rays[v, D - 1] > 0.0 else -1.0
    else:
        best = 0.0
        for w in range(used.shape[0]):
            word = used[w] & ~mask[v, w]
            while word != np.uint64(0):
                s = (w << 6) + lowest(word)
                word &= word - np.uint64(1)
                value = 0.0
                for c in range(D):
                    value += facets[s, c] * rays[v, c]
                value *= scale
                bound = error + facets[s, D] + D * UNIT
                if abs(value) > 1.02 * bound and abs(value) > best:
                    best = abs(value)
                    turn = 1.0 if value > 0.0 else -1.0
    for c in range(D):
        rays[v, c] *= scale * turn
    rays[v, D] = error
    if turn == 0.0:
        rays[v, D - 1] = 1.0
        rays[v, D] = np.inf


@kernel(inlined=True)
def is_simple(d, cell):
    """Whether every ray of the working cell lies on d facets."""
    mask, alive, wf = cell.mask, cell.alive, cell.used.shape[0]
    for w in range(alive.shape[0]):
        odd = np.uint64(0)
        if wf == 1:
            flat = cell.flat_mask
            for v in range(64):
                odd |= np.uint64(popcount(flat[(w << 6) + v]) != d) << np.uint64(v)
            odd &= alive[w]
        else:
            word = alive[w]
            while word != np.uint64(0):
                v = (w << 6) + lowest(word)
                word &= word - np.uint64(1)
                count = 0
                for f in range(wf):
                    count += popcount(mask[v, f])
                odd |= np.uint64(count != d)
        if odd != np.uint64(0):
            return False
    return True


@kernel(inlined=True)
def edges(d, cell, simple, room):
    """List the pairs of a ray above and a ray below that span an edge; returns how many there are.

    -1 when there are more than slots for rays.
    """
    mask, alive = cell.mask, cell.alive
    above, below, near, pairs = room.above, room.below, room.near, room.pairs
    wr, wf = alive.shape[0], cell.used.shape[0]
    most = pairs.shape[0]
    found = 0
    if simple and wf == 1:  # most cells are of this kind
        n_near = 0
        for w in range(wr):
            word = below[w]
            while word != np.uint64(0):
                q = (w << 6) + lowest(word)
                word &= word - np.uint64(1)
                near[n_near] = mask[q, 0]
                room.slots[n_near] = q
                n_near += 1
        for w in range(wr):
            word = above[w]
            while word != np.uint64(0):
                p = (w << 6) + lowest(word)
                word &= word - np.uint64(1)
                mine = mask[p, 0]
                for k0 in range(0, n_near, 64):
                    hits = np.uint64(0)
                    for k in range(min(n_near - k0, 64)):
                        hits |= np.uint64(popcount(mine & near[k0 + k]) == d - 1) << np.uint64(k)
                    if found + popcount(hits) > most:
                        return -1
                    while hits != np.uint64(0):
                        pairs[found, 0] = p
                        pairs[found, 1] = room.slots[k0 + lowest(hits)]
                        found += 1
                        hits &= hits - np.uint64(1)
        return found
    for wp in range(wr):
        word_p = above[wp]
        while word_p != np.uint64(0):
            p = (wp << 6) + lowest(word_p)
            word_p &= word_p - np.uint64(1)
            for wq in range(wr):
                word_q = below[wq]
                while word_q != np.uint64(0):
                    q = (wq << 6) + lowest(word_q)
                    word_q &= word_q - np.uint64(1)
                    count = 0
                    for f in range(wf):
                        count += popcount(mask[p, f] & mask[q, f])
                    if count < d - 1 or (simple and count != d - 1):
                        continue
                    if not simple:
                        edge = True
                        for w in range(wr):
                            word = alive[w]
                            while word != np.uint64(0) and edge:
                                v = (w << 6) + lowest(word)
                                word &= word - np.uint64(1)
                                if v == p or v == q:  # noqa: SIM109
                                    continue
                                inside = True
                                for f in range(wf):
                                    if mask[p, f] & mask[q, f] & ~mask[v, f] != np.uint64(0):
                                        inside = False
                                if inside:
                                    edge = False
                        if not edge:
                            continue
                    if found == most:
                        return -1
                    pairs[found, 0] = p
                    pairs[found, 1] = q
                    found += 1
    return found


@kernel(inlined=True)
def divide(D, cell, slot, room):
    """Put a ray into a free slot for every edge that facet ``slot`` crosses; ``fresh`` = the new rays.

    ``above`` and ``below`` are the rays on its two sides; those on it learn of it. ``rest`` collects the
    slots that are taken. False when the slots do not suffice.
    """
    rays, mask, alive, facets, used = cell.rays, cell.mask, cell.alive, cell.facets, cell.used
    above, below, fresh, rest = room.above, room.below, room.fresh, room.rest
    pick, pool = room.pick, room.pool
    wr, wf = alive.shape[0], used.shape[0]
    d = D - 1
    found = edges(d, cell, is_simple(d, cell), room)
    if found < 0:
        return False
    for w in range(wr):
        fresh[w] = np.uint64(0)
        rest[w] = alive[w]
    for e in range(found):
        p, q = room.pairs[e, 0], room.pairs[e, 1]
        v = free_slot(rest)
        if v < 0:
            return False
        rest[v >> 6] |= bit(v)
        fresh[v >> 6] |= bit(v)
        k = 0
        for f in range(wf):
            word = mask[p, f] & mask[q, f]
            mask[v, f] = word
            while word != np.uint64(0):
                pool[k] = (f << 6) + lowest(word)
                k += 1
                word &= word - np.uint64(1)
        if k == d - 1:
            for i in range(d - 1):
                pick[i] = pool[i]
        else:
            k = choose(D, d - 1, pool, k, facets, pick, room.residual)
        mask[v, slot >> 6] |= bit(slot)
        if k < d - 1:
            for c in range(D):
                rays[v, c] = 0.0
            rays[v, D - 1] = 1.0
            rays[v, D] = np.inf
        else:
            pick[d - 1] = slot
            new_ray(D, rays, facets, mask, used, pick, v, room.minors)
    for w in range(wr):
        word = alive[w] & ~above[w] & ~below[w]
        while word != np.uint64(0):
            v = (w << 6) + lowest(word)
            word &= word - np.uint64(1)
            mask[v, slot >> 6] |= bit(slot)
    return True


@kernel(inlined=True)
def touched(cell, alive, f):
    """Word f of the facets that the rays ``alive`` lie on."""
    facets = np.uint64(0)
    for w in range(alive.shape[0]):
        word = alive[w]
        while word != np.uint64(0):
            facets |= cell.mask[(w << 6) + lowest(word), f]
            word &= word - np.uint64(1)
    return facets


@kernel(inlined=True)
def replace(cell, lost, fresh):
    """Some rays of the working cell are replaced by new ones; facets without a ray are given up."""
    for w in range(cell.alive.shape[0]):
        cell.alive[w] = (cell.alive[w] & ~lost[w]) | fresh[w]
    for f in range(cell.used.shape[0]):
        cell.used[f] = touched(cell, cell.alive, f)


# nodes


@kernel(inlined=True)
def write_polyhedron(D, cell, alive, ints, words, floats, io, fo, size, place):
    """Write the rays ``alive`` of the working cell and the facets they touch; returns where ints and floats
    go on.

    ``size`` = [ray slots, facet slots].
    """
    nr = top_slot(alive)
    wf = cell.used.shape[0]
    nf = 0
    for f in range(wf):
        facets = touched(cell, alive, f)
        place[f] = np.int64(facets)
        if facets != np.uint64(0):
            nf = (f << 6) + highest(facets) + 1
    size[0] = nr
    size[1] = nf
    nwf, nwr = (nf + 63) >> 6, (nr + 63) >> 6
    at = io
    copy(cell.flat_label, 0, ints, at, 3 * nf)
    at += 3 * nf
    copy(place, 0, ints, at, nwf)
    at += nwf
    copy(alive, 0, words, at, nwr)
    at += nwr
    if nwf == wf:
        copy(cell.flat_mask, 0, words, at, nr * wf)
    else:
        for v in range(nr):
            for f in range(nwf):
                words[at + v * nwf + f] = cell.mask[v, f]
    at += nr * nwf
    y = fo
    copy(cell.flat_facets, 0, floats, y, nf * (D + 1))
    y += nf * (D + 1)
    copy(cell.flat_rays, 0, floats, y, nr * (D + 1))
    y += nr * (D + 1)
    return at, y


@kernel(inlined=True)
def load(D, state, cell, io, fo, nr, nf):
    """The working cell becomes the polyhedron of a node; returns where its ints and floats go on."""
    si, su, sf = state.si, state.su, state.sf
    nwf, nwr = (nf + 63) >> 6, (nr + 63) >> 6
    at = io
    copy(si, at, cell.flat_label, 0, 3 * nf)
    at += 3 * nf
    wf = cell.used.shape[0]
    for f in range(wf):
        cell.used[f] = su[at + f] if f < nwf else np.uint64(0)
    at += nwf
    for w in range(cell.alive.shape[0]):
        cell.alive[w] = su[at + w] if w < nwr else np.uint64(0)
    at += nwr
    if nwf == wf:
        copy(su, at, cell.flat_mask, 0, nr * wf)
    else:
        for v in range(nr):
            for f in range(wf):
                cell.mask[v, f] = su[at + v * nwf + f] if f < nwf else np.uint64(0)
    at += nr * nwf
    y = fo
    copy(sf, y, cell.flat_facets, 0, nf * (D + 1))
    y += nf * (D + 1)
    copy(sf, y, cell.flat_rays, 0, nr * (D + 1))
    y += nr * (D + 1)
    return at, y


@kernel(inner=True)
def ask_at_ray(D, net, state, rungs, cell, v, room):
    """The questions that follow are about ray v; returns a coordinate whose sign is certain, and that sign
    (0: nothing is known, or no facets that determine it were found).
    """
    k = 0
    for f in range(cell.used.shape[0]):
        word = cell.mask[v, f]
        while word != np.uint64(0):
            room.pool[k] = (f << 6) + lowest(word)
            k += 1
            word &= word - np.uint64(1)
    if k == D - 1:
        copy(room.pool, 0, room.pick, 0, k)
    elif choose(D, D - 1, room.pool, k, cell.facets, room.pick, room.residual) < D - 1:
        return 0, 0.0
    for f in range(D - 1):
        rungs.vertex.names[2 * f] = cell.label[room.pick[f], 0]
        rungs.vertex.names[2 * f + 1] = cell.label[room.pick[f], 1]
    ask_at(D, net, state, rungs)
    column = 0
    for c in range(1, D):
        if abs(cell.rays[v, c]) > abs(cell.rays[v, column]):
            column = c
    if abs(cell.rays[v, column]) > cell.rays[v, D]:
        return column, 1.0 if cell.rays[v, column] > 0.0 else -1.0
    far = touches_infinity(cell) and cell.mask[v, 0] & np.uint64(1) != np.uint64(0)
    return D - 1, 0.0 if far else 1.0


@kernel(inner=True)
def ray_sign(D, net, state, rungs, cell, v, layer, i, j, room):
    """The sign of row i (minus row j, if that is not negative) of a layer at ray v when floats leave it open:
    0 zero, 1 positive, 2 negative, 3 still open.

    A ray that floats know badly is placed anew.
    """
    column, turn = ask_at_ray(D, net, state, rungs, cell, v, room)
    if turn == 0.0:
        return OPEN
    here, rays = layer_row(net.table, layer), cell.rays
    value = 0.0
    for c in range(D):
        z = here.z_at + c * here.rows
        value += (state.path[z + i] - (state.path[z + j] if j >= 0 else 0.0)) * rays[v, c]
    finite = rays[v, D - 1] - rays[v, D]
    size = abs(value) + 2.0 * threshold(CERTIFIED, D, rays, v, state.errors[layer])
    bound = 1.01 * size / finite if finite > 0.0 and size < 1e300 else np.inf
    code = compiled_sign_at(D, net, state, rungs, layer, i, j, bound, column, turn)
    if not (rays[v, D] < 1e-12):
        place_ray(D, net, state, rungs, cell, v, column, turn)
    return code


@kernel(inner=True)
def place_ray(D, net, state, rungs, cell, v, column, turn):
    """Replace the ray in question, in slot v, by what double-double knows of it, if that is more."""
    error = place_at(D, net, state, rungs, column, turn, rungs.vertex.minors_high, 0)
    if error < cell.rays[v, D]:
        for c in range(D):
            cell.rays[v, c] = rungs.vertex.minors_high[c]
        cell.rays[v, D] = error


@kernel(inner=True)
def settle_pending(D, net, state, rungs, cell, layer, pending, first, n_pending, rays, room):
    """Decide the open signs of pending units from ``first`` on, at some rays of the working cell.

    The lists of pending units do not change: a unit may be positive, or negative, nowhere afterwards.
    """
    for w in range(rays.shape[0]):
        everywhere = np.uint64(0)
        for j in range(first, n_pending):
            everywhere |= pending.positive[w, j] & pending.negative[w, j]
        everywhere &= rays[w]
        while everywhere != np.uint64(0):
            v = (w << 6) + lowest(everywhere)
            everywhere &= everywhere - np.uint64(1)
            for j in range(first, n_pending):
                if pending.positive[w, j] & pending.negative[w, j] & bit(v) != np.uint64(0):
                    code = ray_sign(D, net, state, rungs, cell, v, layer, pending.unit[j], -1, room)
                    if code & 1 == 0:
                        pending.positive[w, j] &= ~bit(v)
                    if code & 2 == 0:
                        pending.negative[w, j] &= ~bit(v)


@kernel(inner=True)
def find_twins(D, net, state, rungs, layer, pending, n_pending, nwr):
    """Pending units that vanish, or follow others, are no longer pending; returns how many are left."""
    here = layer_row(net.table, layer)
    kept = 0
    for j in range(n_pending):
        unit = pending.unit[j]
        first, sign = like(net, here, unit)
        if first >= 0 and first != unit:
            other, turn = followed(here, state.signs, first)
            if other == first:  # that one vanishes
                continue
            for r in range(kept):
                other = first if pending.unit[r] == first else other
            if other >= 0:
                add_twin(here, state.signs, unit, other, sign * turn)
                continue
        sign = 0
        for r in range(kept):
            if may_be_multiple(net, state, layer, pending.unit[r], unit):
                sign = multiple_of(
                    D, net, state.path, state.errors, state.signs, rungs.mod, rungs.denominators,
                    rungs.counts, layer, pending.unit[r], unit,
                )  # fmt: skip
            if sign != 0:
                add_twin(here, state.signs, unit, pending.unit[r], sign)
                break
        zero = sign == 0 and may_vanish(net, state, layer, unit)
        if zero:
            zero = vanishes(
                D, net, state.path, state.errors, state.signs, rungs.mod, rungs.denominators,
                rungs.counts, layer, unit,
            )  # fmt: skip
        if zero and first == unit:
            add_twin(here, state.signs, unit, unit, 1)
        if sign == 0 and not zero:
            pending.unit[kept] = unit
            for w in range(nwr):
                pending.positive[w, kept] = pending.positive[w, j]
                pending.negative[w, kept] = pending.negative[w, j]
            kept += 1
    return kept


@kernel(inlined=True)
def add_signs(D, path, z_at, n, rays, v, t, sums, pending):
    """Signs of all rows at ray v, as bits of their sets."""
    w, shift = v >> 6, np.uint64(v & 63)
    x0, x1, x2, x3 = rays[v, 0], rays[v, 1], rays[v, 2], rays[v, 3]
    z1, z2, z3 = z_at + n, z_at + 2 * n, z_at + 3 * n
    if D > 4:
        for i in range(n):
            sums[i] = path[z_at + 4 * n + i] * rays[v, 4]
        for c in range(5, D):
            for i in range(n):
                sums[i] += path[z_at + c * n + i] * rays[v, c]
    for i in range(n):
        s = (path[z_at + i] * x0 + path[z1 + i] * x1) + (path[z2 + i] * x2 + path[z3 + i] * x3)
        if D > 4:
            s += sums[i]
        pending.positive[w, i] |= np.uint64(not (s <= -t)) << shift
        pending.negative[w, i] |= np.uint64(not (s >= t)) << shift


@kernel(inlined=True)
def descend(D, net, state, cell, nr, layer, pending, room, rungs):
    """The working polyhedron enters ``layer``, its hidden vector in the path: push its first node. False: no
    room.
    """
    path, errors, control = state.path, state.errors, state.control
    layer = enter_groups(D, net, path, errors, layer, control[C_TRUST])
    here = layer_row(net.table, layer)
    n, words = here.rows, here.words
    e = carried(here, control[C_LAST] == layer)
    io, fo = control[C_INTS], control[C_FLOATS]
    wr, wf = cell.alive.shape[0], cell.used.shape[0]
    most = 3 * 64 * wf + wf + wr + nr * wf + n * (1 + 2 * wr) + words + here.heads + HEADER
    if io + most > state.si.shape[0] or fo + (D + 1) * (64 * wf + nr) + D * e > state.sf.shape[0]:
        return False
    control[C_SERIAL] += 1
    state.signs[here.sign_at] = control[C_SERIAL]
    state.signs[here.sign_at + 1] = 0
    forget_twins(here, state.signs)
    if control[C_SERIAL] == 1 and control[C_TRUST] == CERTIFIED:
        sharpen(D, net, state, rungs, layer)
    si, su, sf = state.si, state.su, state.sf
    if nr > 0:
        at, y = write_polyhedron(D, cell, cell.alive, si, su, sf, io, fo, room.size, room.place)
        nr, nf = room.size[0], room.size[1]
    else:  # it contains a line: facets only
        nf = top_slot(cell.used)
        at, y = io, fo
        for s in range(nf):
            for c in range(3):
                si[at + c] = cell.label[s, c]
            at += 3
            for c in range(D + 1):
                sf[y + c] = cell.facets[s, c]
            y += D + 1
        for f in range((nf + 63) >> 6):
            su[at] = cell.used[f]
            at += 1
    nwr = (nr + 63) >> 6
    y_at, m, z_at = here.y_at, here.d_in, here.z_at
    n_pending = 0
    if here.kind == FOLD:
        known = here.given >= 0 and control[C_TRUST] == CERTIFIED and nr > 0
        known = known and given_units(net, here, state.signs, si[at:])
        n_on = 0
        for i in range(n if known else 0):
            if (si[at + (i >> 6)] >> (i & 63)) & 1 != 0:
                room.on[n_on] = i
                n_on += 1
        n_asked = 0 if known else n
        for i in range(n_asked):
            for w in range(nwr):
                pending.positive[w, i] = np.uint64(0)
                pending.negative[w, i] = np.uint64(0)
        for w in range(0 if known else nwr):
            word = cell.alive[w]
            while word != np.uint64(0):
                v = (w << 6) + lowest(word)
                word &= word - np.uint64(1)
                t = threshold(control[C_TRUST], D, cell.rays, v, errors[layer])
                add_signs(D, path, z_at, n, cell.rays, v, t, room.sums, pending)
        doubt = np.uint64(0 if known else rungs.counts[N_ZERO])
        for i in range(n_asked):
            pos, neg = np.uint64(0), np.uint64(0)
            for w in range(nwr):
                pos |= pending.positive[w, i]
                neg |= pending.negative[w, i]
                doubt |= pending.positive[w, i] & pending.negative[w, i]
            if nr == 0 or (pos != np.uint64(0) and neg != np.uint64(0)):
                pending.unit[n_pending] = i
                for w in range(nwr):
                    pending.positive[w, n_pending] = pending.positive[w, i]
                    pending.negative[w, n_pending] = pending.negative[w, i]
                n_pending += 1
            elif pos != np.uint64(0):
                room.on[n_on] = i
                n_on += 1
        if nr > 0 and control[C_TRUST] == CERTIFIED and doubt != np.uint64(0):
            if rungs.counts[N_ZERO] > 0:
                n_pending = find_twins(D, net, state, rungs, layer, pending, n_pending, nwr)
            settle_pending(D, net, state, rungs, cell, layer, pending, 0, n_pending, cell.alive, room)
        count = 0
        for j in range(n_pending):
            pos, neg = np.uint64(0), np.uint64(0)
            for w in range(nwr):
                pos |= pending.positive[w, j]
                neg |= pending.negative[w, j]
                su[at + 1 + w] = pending.positive[w, j]
                su[at + 1 + nwr + w] = pending.negative[w, j]
            si[at] = pending.unit[j]
            if nr == 0 or (pos != np.uint64(0) and neg != np.uint64(0)):
                at += 1 + 2 * nwr
                count += 1
            elif pos != np.uint64(0):
                room.on[n_on] = pending.unit[j]
                n_on += 1
        n_pending = count
        for j in range(words):
            si[at + j] = 0
        for j in range(n_on):
            si[at + (room.on[j] >> 6)] |= 1 << (room.on[j] & 63)
        at += words
        if e > 0:
            without_units(D, net, path, layer, sf, y)
            add_units(D, net.weights, here.outputs, e, room.on, n_on, path, z_at, n, sf, y)
        y += D * e
    else:
        for h in range(here.heads):
            si[at + h] = 0
        at += here.heads
        for r in range(e):
            sf[y + r] = path[y_at + (D - 1) * m + r] if here.skip == 1 else 0.0
        y += e
    control[C_INTS] = write_header(si, at, here.kind, layer, 0, nr, n_pending, 2 * nf, io, y - fo)
    control[C_FLOATS] = y
    return True


@kernel
def begin(D, net, state, cell, nr, pending, room, rungs):
    """The working polyhedron enters the first layer. False: no room."""
    return descend(D, net, state, cell, nr, 0, pending, room, rungs)


# folds


@kernel(inner=True)
def settle(D, path, z_at, n, i, cell, e, trust, pending, first, nwr):
    """Try in floats the signs of a pending unit that are still open."""
    for w in range(nwr):
        word = pending.positive[w, first] & pending.negative[w, first]
        while word != np.uint64(0):
            v = (w << 6) + lowest(word)
            word &= word - np.uint64(1)
            t = threshold(trust, D, cell.rays, v, e)
            s = 0.0
            for c in range(D):
                s += path[z_at + c * n + i] * cell.rays[v, c]
            if s <= -t:
                pending.positive[w, first] &= ~bit(v)
            if s >= t:
                pending.negative[w, first] &= ~bit(v)


@kernel(inlined=True)
def push_fold(D, net, state, cell, alive, layer, pending, first, n_pending, n_on, room):
    """Push a fold node: the rays ``alive`` of the working cell, and the pending units from ``first`` on that
    still change sign there.

    ``n_on`` 1: the unit before ``first`` is on; 0: whatever was settled before is written down already.
    """
    here = layer_row(net.table, layer)
    control = state.control
    si, su, sf = state.si, state.su, state.sf
    io, fo = control[C_INTS], control[C_FLOATS]
    at, y = write_polyhedron(D, cell, alive, si, su, sf, io, fo, room.size, room.place)
    nr, nf = room.size[0], room.size[1]
    nwr = (nr + 63) >> 6
    if n_on == 1:
        room.on[0] = pending.unit[first - 1]
    count = 0
    for j in range(first, n_pending):
        pos, neg = np.uint64(0), np.uint64(0)
        for w in range(nwr):
            a, b = pending.positive[w, j] & alive[w], pending.negative[w, j] & alive[w]
            su[at + 1 + w] = a
            su[at + 1 + nwr + w] = b
            pos |= a
            neg |= b
        si[at] = pending.unit[j]
        if pos != np.uint64(0) and neg != np.uint64(0):
            count += 1
            at += 1 + 2 * nwr
        elif pos != np.uint64(0):
            room.on[n_on] = pending.unit[j]
            n_on += 1
    words = here.words
    copy(room.word, 0, si, at, words)
    for j in range(n_on):
        si[at + (room.on[j] >> 6)] |= 1 << (room.on[j] & 63)
    at += words
    e = carried(here, control[C_LAST] == layer)
    copy(room.hidden, 0, sf, y, D * e)
    if e > 0 and n_on > 0:
        add_units(
            D, net.weights, here.outputs, e, room.on, n_on, state.path, here.z_at,
            here.rows, sf, y,
        )  # fmt: skip
    y += D * e
    control[C_INTS] = write_header(si, at, here.kind, layer, 0, nr, count, 2 * nf, io, y - fo)
    control[C_FLOATS] = y


@kernel(inlined=True)
def keep_half(D, net, state, cell, lost, slot, layer, pending, first, n_pending, room):
    """The working cell becomes its half below facet ``slot``, where the unit before ``first`` is off.

    ``lost`` are the rays above. Returns how many units still change sign; they come first in ``pending``.
    """
    here = layer_row(net.table, layer)
    wr = cell.alive.shape[0]
    replace(cell, lost, room.fresh)
    for c in range(D):
        cell.facets[slot, c] = -cell.facets[slot, c]
    cell.label[slot, 2] = -cell.label[slot, 2]
    n_on = 0
    count = 0
    for j in range(first, n_pending):
        pos, neg = np.uint64(0), np.uint64(0)
        for w in range(wr):
            a, b = pending.positive[w, j] & cell.alive[w], pending.negative[w, j] & cell.alive[w]
            pending.positive[w, count] = a
            pending.negative[w, count] = b
            pos |= a
            neg |= b
        i = pending.unit[j]
        pending.unit[count] = i
        if pos != np.uint64(0) and neg != np.uint64(0):
            count += 1
        elif pos != np.uint64(0):
            room.on[n_on] = i
            room.word[i >> 6] |= 1 << (i & 63)
            n_on += 1
    e = carried(here, state.control[C_LAST] == layer)
    if e > 0 and n_on > 0:
        add_units(
            D, net.weights, here.outputs, e, room.on, n_on, state.path, here.z_at,
            here.rows, room.hidden, 0,
        )  # fmt: skip
    return count


@kernel(inner=True)
def add_twins(D, net, state, layer, room):
    """On a leaf, units that follow others get their bits, and send what they have to send."""
    here, signs = layer_row(net.table, layer), state.signs
    at = here.sign_at + 2 + here.words
    if signs[at] == 0:
        return
    follow_twins(here, signs, room.word)
    n_on = 0
    for t in range(signs[at]):
        unit = signs[at + 1 + 2 * t]
        if (room.word[unit >> 6] >> (unit & 63)) & 1:
            room.on[n_on] = unit
            n_on += 1
    e = carried(here, state.control[C_LAST] == layer)
    if e > 0:
        add_units(
            D, net.weights, here.outputs, e, room.on, n_on, state.path, here.z_at, here.rows, room.hidden, 0
        )


@kernel(inlined=True)
def last_cells(pending, first, n_pending, alive):
    """How many cells of the last layer the polyhedron with rays ``alive`` falls into; 0 if only cutting
    tells.

    One if no pending unit from ``first`` on changes sign there, two if one does so for sure.
    """
    cells = 1
    for j in range(first, n_pending):
        pos, neg, up, down = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for w in range(alive.shape[0]):
            a, b = pending.positive[w, j] & alive[w], pending.negative[w, j] & alive[w]
            pos |= a
            neg |= b
            up |= a & ~b
            down |= b & ~a
        if pos != np.uint64(0) and neg != np.uint64(0):
            if cells == 2 or up == np.uint64(0) or down == np.uint64(0):
                return 0
            cells = 2
    return cells


@kernel(inlined=True)
def fold_step(D, net, state, cell, pending, n_pending, nwr, layer, room, rungs, last_step):
    """Cut the fold node in the work arrays until it is a leaf; returns a status and the pending units that
    are left.

    The half where the unit is on goes onto the stack, the other stays in the work arrays: a step for each
    cut. ``RUNNING`` when it is a leaf, ``BUDGET`` after the cut of the last step, ``DONE`` when its cells are
    counted already: who counts cells needs to know how many there are, and not what they look like.
    """
    here = layer_row(net.table, layer)
    path, control = state.path, state.control
    n, z_at = here.rows, here.z_at
    e = carried(here, control[C_LAST] == layer)
    error = state.errors[layer]
    trust = control[C_TRUST]
    wr, wf = cell.alive.shape[0], cell.used.shape[0]
    owner = state.signs[here.sign_at]
    first = 0
    status = RUNNING
    counting = control[C_LAST] == layer and control[C_EMIT] == 0 and not touches_infinity(cell)
    while first < n_pending:
        # a cut counts at most four cells at once, and the other half is left
        counting = counting and control[C_CELLS] + 5 <= control[C_MOST_CELLS]
        if counting and first == n_pending - 1 and last_cells(pending, first, n_pending, cell.alive) == 2:
            control[C_CELLS] += 2
            state.layer_cells[layer] += 2
            status = DONE
            break
        # room for both halves
        most = 3 * 64 * wf + wf + wr + 64 * wr * wf + n_pending * (1 + 2 * wr) + here.words + HEADER
        if control[C_INTS] + 2 * most > state.si.shape[0]:
            status = STACK_FULL
            break
        if control[C_FLOATS] + 2 * ((D + 1) * 64 * (wf + wr) + D * e) > state.sf.shape[0]:
            status = STACK_FULL
            break
        i = pending.unit[first]
        both, pos, neg = np.uint64(0), np.uint64(0), np.uint64(0)
        for w in range(nwr):
            both |= pending.positive[w, first] & pending.negative[w, first]
        if both != np.uint64(0) and trust != EXACT:
            settle(D, path, z_at, n, i, cell, error, trust, pending, first, nwr)
            if trust == CERTIFIED:  # primes may have come since it was made
                settle_pending(D, net, state, rungs, cell, layer, pending, first, first + 1, cell.alive, room)
            both = np.uint64(0)
        for w in range(nwr):
            both |= pending.positive[w, first] & pending.negative[w, first]
            pos |= pending.positive[w, first]
            neg |= pending.negative[w, first]
        if both != np.uint64(0):
            status = UNDECIDED_FOLD
            break
        if pos == np.uint64(0) or neg == np.uint64(0):
            if pos != np.uint64(0):
                room.word[i >> 6] |= 1 << (i & 63)
                if e > 0:
                    room.on[0] = i
                    add_units(
                        D, net.weights, here.outputs, e, room.on, 1, path, z_at, n, room.hidden,
                        0,
                    )  # fmt: skip
            first += 1
            continue
        if counting and n_pending - first == 2:
            # both halves may be seen to be cut by the other unit at the rays that are there
            cells = 0
            for w in range(wr):
                room.rest[w] = cell.alive[w] & ~(pending.negative[w, first] if w < nwr else np.uint64(0))
            cells += last_cells(pending, first + 1, n_pending, room.rest)
            for w in range(wr):
                room.rest[w] = cell.alive[w] & ~(pending.positive[w, first] if w < nwr else np.uint64(0))
            cells += last_cells(pending, first + 1, n_pending, room.rest)
            if cells == 4:
                control[C_CELLS] += cells
                state.layer_cells[layer] += cells
                status = DONE
                break
        slot = free_slot(cell.used)
        if slot < 0:
            status = FACETS_FULL
            break
        for c in range(D):
            room.row[c] = path[z_at + c * n + i]
        wall = (layer << 54) | (i << 38)
        write_facet(D, room.row, (D - 1) * error[RA] + error[RC], cell, slot, owner, wall, 1)
        for w in range(wr):
            room.above[w] = pending.positive[w, first] if w < nwr else np.uint64(0)
            room.below[w] = pending.negative[w, first] if w < nwr else np.uint64(0)
        if not divide(D, cell, slot, room):
            status = RAYS_FULL
            break
        # signs of the other pending units at the new rays
        n_fresh = 0
        for w in range(wr):
            word = room.fresh[w]
            while word != np.uint64(0):
                v = (w << 6) + lowest(word)
                word &= word - np.uint64(1)
                room.slots[n_fresh] = v
                room.bounds[n_fresh] = threshold(trust, D, cell.rays, v, error)
                n_fresh += 1
        doubt = np.uint64(0)
        for j in range(first + 1, n_pending):
            for c in range(D):
                room.row[c] = path[z_at + pending.unit[j] + c * n]
            k = 0
            for w in range(wr):
                old = ~room.fresh[w] if w < nwr else np.uint64(0)
                up, down = pending.positive[w, j] & old, pending.negative[w, j] & old
                for _ in range(popcount(room.fresh[w])):
                    v, t = room.slots[k], room.bounds[k]
                    s = dot(D, room.row, cell.rays, v)
                    shift = np.uint64(v & 63)
                    up |= np.uint64(not (s <= -t)) << shift
                    down |= np.uint64(not (s >= t)) << shift
                    k += 1
                pending.positive[w, j] = up
                pending.negative[w, j] = down
                doubt |= up & down & room.fresh[w]
        if doubt != np.uint64(0) and trust == CERTIFIED:
            settle_pending(D, net, state, rungs, cell, layer, pending, first + 1, n_pending, room.fresh, room)
        # the half where the unit is on waits below the other
        for w in range(wr):
            room.rest[w] = (cell.alive[w] & ~room.below[w]) | room.fresh[w]
        first += 1
        cells = last_cells(pending, first, n_pending, room.rest) if counting else 0
        if cells == 0:
            push_fold(D, net, state, cell, room.rest, layer, pending, first, n_pending, 1, room)
        if counting:
            for w in range(wr):
                room.rest[w] = (cell.alive[w] & ~room.above[w]) | room.fresh[w]
            off = last_cells(pending, first, n_pending, room.rest)
            control[C_CELLS] += cells + off
            state.layer_cells[layer] += cells + off
            if off > 0:
                status = DONE
                break
        n_pending = keep_half(D, net, state, cell, room.above, slot, layer, pending, first, n_pending, room)
        first = 0
        nwr = (top_slot(cell.alive) + 63) >> 6
        if control[C_STEPS] >= last_step:
            status = BUDGET
            break
        control[C_STEPS] += 1
    return status, first, n_pending


# walls

UNKNOWN, LEVEL = -1, -2  # what may be said of two keys besides a number of rays


@kernel(inner=True)
def clip(D, net, state, rungs, layer, j, l, cell, owner, wall, room):
    """Keep the part of the working cell where key j beats key l.

    Returns 0 if l is nowhere above, 1 after a cut, -1 if l is level on a facet, 2 if nothing is left, 3 if a
    sign is undecided, 4 or 5 if slots for rays or facets are missing.
    """
    here, path, error, trust = (
        layer_row(net.table, layer), state.path, state.errors[layer], state.control[C_TRUST],
    )  # fmt: skip
    z_at, n = here.z_at, here.rows
    wr = cell.alive.shape[0]
    for c in range(D):
        room.row[c] = path[z_at + c * n + j] - path[z_at + c * n + l]
    any_above, any_below = False, False
    level = 0
    for w in range(wr):
        room.above[w] = np.uint64(0)
        room.below[w] = np.uint64(0)
        word = cell.alive[w]
        while word != np.uint64(0):
            v = (w << 6) + lowest(word)
            word &= word - np.uint64(1)
            t = 2.0 * threshold(trust, D, cell.rays, v, error)
            s = dot(D, room.row, cell.rays, v)
            up, down = not (s <= -t), not (s >= t)
            if up and down and trust == CERTIFIED:
                code = ray_sign(D, net, state, rungs, cell, v, layer, j, l, room)
                up, down = code & 1 != 0, code & 2 != 0
            if up and down:
                return 3
            if up:
                room.above[w] |= bit(v)
                any_above = True
            elif down:
                room.below[w] |= bit(v)
                any_below = True
            else:
                level += 1
    if not any_above:
        return 2 if any_below else 3  # keys that tie on the whole cell are for the caller to join
    if not any_below and level < D - 1:
        return 0
    slot = free_slot(cell.used)
    if slot < 0:
        return 5
    size = 0.0
    for c in range(D):
        size += abs(room.row[c])
    bound = 2.0 * ((D - 1) * error[RA] + error[RC]) + UNIT * size
    write_facet(D, room.row, bound, cell, slot, owner, wall, 1 if j > l else -1)
    if not any_below:
        # level on a whole facet, which has two names from now on: key l may be the one that wins beyond it
        for w in range(wr):
            word = cell.alive[w] & ~room.above[w]
            while word != np.uint64(0):
                v = (w << 6) + lowest(word)
                word &= word - np.uint64(1)
                cell.mask[v, slot >> 6] |= bit(slot)
        return -1
    if not divide(D, cell, slot, room):
        return 4
    replace(cell, room.below, room.fresh)
    return 1


@kernel(inner=True)
def write_head(D, net, state, cell, layer, head, key, tied, room, ints, words, floats, io, fo, size):
    """Write the node of the working cell, on which ``key`` wins ``head``; returns where the next begins."""
    here = layer_row(net.table, layer)
    at, y = write_polyhedron(D, cell, cell.alive, ints, words, floats, io, fo, size, room.place)
    heads = here.heads
    copy(room.routes, 0, ints, at, heads)
    ints[at + head] = key
    at += heads
    e = carried(here, state.control[C_LAST] == layer)
    if e > 0:
        add_output(net, here, state.signs, key, room.hidden, floats, y, e)
    if here.outputs >= 0 and has_twins(here, state.signs, key):
        tied = 1
    y += e
    at = write_header(ints, at, here.kind, layer, head + 1, size[0], 0, 2 * size[1] + tied, io, y - fo)
    return at, y


@kernel(inner=True)
def rays_taken(D, net, state, rungs, layer, j, l, keys, n_rays):
    """At how many rays of the node key l is perhaps not below key j; LEVEL if they agree on all of it."""
    takes = 0
    for v in range(n_rays):
        if not (keys.table[v, j] - keys.table[v, l] > keys.slack[v]):
            takes += 1
    if takes < n_rays or state.control[C_TRUST] != CERTIFIED:
        return takes
    same = agree(
        D, net, state.path, state.errors, state.signs, rungs.mod, rungs.denominators, rungs.counts, layer, l,
        j,
    )  # fmt: skip
    if same == OPEN:
        return UNKNOWN
    return LEVEL if same == ZERO else takes


@kernel(inner=True)
def head_step(D, net, state, cell, layer, head, nr, nf, tied, io, fo, room, keys, rungs):
    """Cut the node at ``io``, ``fo`` of the stack into the cells of one head; returns a status.

    The winners inside a convex polyhedron are connected through their common walls, so a walk from one winner
    finds them all; only walls of finished cells are followed.
    """
    here = layer_row(net.table, layer)
    path, control = state.path, state.control
    z_at, n = here.z_at, here.rows
    k0 = net.heads_at[here.head_at + head]
    k1 = net.heads_at[here.head_at + head + 1]
    wr, wf = cell.alive.shape[0], cell.used.shape[0]
    e = carried(here, control[C_LAST] == layer)
    most_i = 3 * 64 * wf + wf + wr + 64 * wr * wf + here.heads + HEADER
    most_f = (D + 1) * 64 * (wf + wr) + e
    bag_i, bag_u, bag_f = keys.bag_i, keys.bag_u, keys.bag_f
    error, trust = state.errors[layer], control[C_TRUST]
    if k1 - k0 == 1:
        if control[C_INTS] + most_i > state.si.shape[0] or control[C_FLOATS] + most_f > state.sf.shape[0]:
            return STACK_FULL
        if nr == 0:
            return HAS_LINES
        control[C_INTS], control[C_FLOATS] = write_head(
            D, net, state, cell, layer, head, k0, tied, room, state.si, state.su, state.sf,
            control[C_INTS], control[C_FLOATS], room.size,
        )  # fmt: skip
        return BUDGET
    if nr == 0:
        return HAS_LINES
    if trust == EXACT:
        return UNDECIDED_HEAD
    owner = state.signs[here.sign_at]
    todo, seen, place, rivals = keys.todo, keys.seen, keys.place, keys.rivals
    for i in range(k0, k1):
        seen[i] = UNSEEN
    for t in range(n_twins(here, state.signs)):
        seen[twin(here, state.signs, t)[0]] = FOLLOWS
    n_todo = 0
    n_rays = 0
    for w in range(wr):
        word = cell.alive[w]
        while word != np.uint64(0):
            v = (w << 6) + lowest(word)
            word &= word - np.uint64(1)
            best = k0  # the first key follows none
            for i in range(k0, k1):
                if seen[i] == FOLLOWS:
                    continue
                s = 0.0
                for c in range(D):
                    s += path[z_at + c * n + i] * cell.rays[v, c]
                keys.table[n_rays, i] = s
                if s > keys.table[n_rays, best]:
                    best = i
            keys.slack[n_rays] = 2.0 * threshold(trust, D, cell.rays, v, error)
            n_rays += 1
            if seen[best] == UNSEEN:
                seen[best] = 0
                todo[n_todo] = best
                n_todo += 1
    bag_at, bag_to = 0, 0
    found = 0
    done = 0
    fresh = False
    while done < n_todo or found == 0:
        if done == n_todo:  # at every ray the highest keys are level, and none of those tried has a cell
            for i in range(k0, k1):
                if seen[i] == UNSEEN:
                    seen[i] = 0
                    todo[n_todo] = i
                    n_todo += 1
            if done == n_todo:
                return UNDECIDED_HEAD
        j = todo[done]
        done += 1
        if seen[j] == FOLLOWS:
            continue
        if fresh:
            load(D, state, cell, io, fo, nr, nf)
        fresh = True
        # how many rays of the whole node a rival takes: those that take most come first
        n_rivals = 0
        earlier = -1  # a key that ties with j and comes before it
        near = net.near_at[here.offsets + j]
        asks_others = False  # those that are not near, where several near ones coincide on a facet
        r = 0
        while r < (k1 - k0 if near < 0 else net.near[near]):
            l = k0 + r if near < 0 else net.near[near + 1 + r]
            r += 1
            if l == j or (near < 0 and seen[l] == FOLLOWS):
                continue
            takes = LEVEL
            if seen[l] != FOLLOWS:
                takes = rays_taken(D, net, state, rungs, layer, j, l, keys, n_rays)
            if takes == 0:
                continue
            if takes == UNKNOWN:
                return UNDECIDED_HEAD
            if takes == LEVEL and near >= 0:  # keys that tie on the whole node: all are asked, from the first
                near = -1
                r = 0
                n_rivals = 0
                continue
            if takes == LEVEL and l < j:
                earlier = l
                break
            if takes == LEVEL:
                join_key(net, state.errors, state.signs, layer, l, j)
                seen[l] = FOLLOWS
                continue
            k = n_rivals
            while k > 0 and rivals[2 * k - 1] < takes:
                rivals[2 * k] = rivals[2 * k - 2]
                rivals[2 * k + 1] = rivals[2 * k - 1]
                k -= 1
            rivals[2 * k] = l
            rivals[2 * k + 1] = takes
            n_rivals += 1
        result = 0
        for k in range(n_rivals if earlier < 0 else 0):
            l = rivals[2 * k]
            wall = (layer << 54) | (head << 38) | (min(j, l) << 19) | max(j, l)
            result = clip(D, net, state, rungs, layer, j, l, cell, owner, wall, room)
            if result >= 2:
                break
            asks_others = asks_others or (near >= 0 and result == -1)
        for l in range(k0, k1 if asks_others and earlier < 0 and result < 2 else k0):
            if l == j or seen[l] == FOLLOWS:
                continue
            takes = rays_taken(D, net, state, rungs, layer, j, l, keys, n_rays)
            if takes == 0:
                continue
            if takes == UNKNOWN:
                return UNDECIDED_HEAD
            if takes == LEVEL and l < j:
                earlier = l
                break
            if takes == LEVEL:
                join_key(net, state.errors, state.signs, layer, l, j)
                seen[l] = FOLLOWS
                continue
            wall = (layer << 54) | (head << 38) | (min(j, l) << 19) | max(j, l)
            result = clip(D, net, state, rungs, layer, j, l, cell, owner, wall, room)
            if result >= 2:
                break
        if earlier >= 0:  # it stands for both
            if seen[earlier] == UNSEEN:
                seen[earlier] = 0
                todo[n_todo] = earlier
                n_todo += 1
            continue
        if result >= 4:
            return RAYS_FULL if result == 4 else FACETS_FULL
        if result == 3:
            return UNDECIDED_HEAD
        if result == 2:
            continue
        for f in range(wf):
            word = cell.used[f]
            while word != np.uint64(0):
                s = (f << 6) + lowest(word)
                word &= word - np.uint64(1)
                if cell.label[s, 0] == owner and cell.label[s, 1] >> 38 == (layer << 16) | head:
                    rival = ((cell.label[s, 1] >> 19) & 0x7FFFF) + (cell.label[s, 1] & 0x7FFFF) - j
                    if seen[rival] == UNSEEN:
                        seen[rival] = 0
                        todo[n_todo] = rival
                        n_todo += 1
        if bag_at + most_i + 4 > bag_i.shape[0] or bag_to + most_f > bag_f.shape[0]:
            return BAG_FULL
        seen[j] = 1 + found
        place[2 * found] = bag_at
        place[2 * found + 1] = bag_to
        bag_at, bag_to = write_head(
            D, net, state, cell, layer, head, j, tied, room, bag_i, bag_u, bag_f, bag_at, bag_to, room.size
        )
        found += 1
    place[2 * found] = bag_at
    place[2 * found + 1] = bag_to
    if control[C_INTS] + bag_at > state.si.shape[0] or control[C_FLOATS] + bag_to > state.sf.shape[0]:
        return STACK_FULL
    at, y = control[C_INTS], control[C_FLOATS]
    for r in range(k1 - k0):
        j = k1 - 1 - r
        if seen[j] > 0:
            i = seen[j] - 1
            for k in range(place[2 * i], place[2 * i + 2]):
                state.si[at] = bag_i[k]
                at += 1
            for k in range(place[2 * i + 1], place[2 * i + 3]):
                state.sf[y] = bag_f[k]
                y += 1
    control[C_INTS], control[C_FLOATS] = at, y
    return BUDGET


# results


@kernel(inner=True)
def witness(D, cell, out, at):
    """A point inside the working cell, and a proven lower bound on its distance from every facet (0: none
    was proven).

    The mean of the vertices; in an unbounded cell far enough out.
    """
    d = D - 1
    row, last, length = np.uintp(at), np.uintp(d), np.uintp(D + 1)
    rays, facets = cell.flat_rays, cell.flat_facets
    vertices = 0
    for w in range(cell.alive.shape[0]):
        word = cell.alive[w]
        while word != np.uint64(0):
            v = np.uintp((w << 6) + lowest(word)) * length
            word &= word - np.uint64(1)
            if rays[v + last] > 0.0:
                vertices += 1
    reach = 1.0
    margin = 0.0
    for _ in range(64):
        far = False
        for c in range(d):
            out[row + np.uintp(c)] = 0.0
        for w in range(cell.alive.shape[0]):
            word = cell.alive[w]
            while word != np.uint64(0):
                v = np.uintp((w << 6) + lowest(word)) * length
                word &= word - np.uint64(1)
                if rays[v + last] > 0.0:
                    for c in range(d):
                        out[row + np.uintp(c)] += rays[v + np.uintp(c)] / rays[v + last] / vertices
                else:
                    far = True
                    for c in range(d):
                        out[row + np.uintp(c)] += reach * rays[v + np.uintp(c)]
        margin = np.inf
        for f in range(cell.used.shape[0]):
            word = cell.used[f]
            while word != np.uint64(0):
                s = (f << 6) + lowest(word)
                word &= word - np.uint64(1)
                if cell.label[s, 0] == AT_INFINITY or not (margin > 0.0):
                    continue
                first = np.uintp(s) * length
                constant, error = facets[first + last], facets[first + last + np.uintp(1)]
                value, size, square = constant, abs(constant), 0.0
                top = 1.0
                for c in range(d):
                    x, a = out[row + np.uintp(c)], facets[first + np.uintp(c)]
                    top = max(top, abs(x))
                    value += a * x
                    size += abs(a * x)
                    square += a * a
                distance = value - error * top - (D + 4.0) * UNIT * size
                distance /= 1.0001 * np.sqrt(square) + error + 1e-300
                margin = margin if distance >= margin else distance  # NaN, where nothing is known, stays
        if margin > 0.0 or not far:
            break
        reach *= 2.0
    out[row + last] = margin if margin > 0.0 else 0.0


@kernel(inlined=True)
def closed_up(word, used):
    """The bits of a word at the places that are used, moved together: those of unused places fall out."""
    word &= used
    result, shift, gaps = np.uint64(0), np.uint64(0), ~used
    while word != np.uint64(0):
        before = ~gaps & (gaps - np.uint64(1))  # all places below the first gap; all of them if there is none
        result |= (word & before) >> shift
        word &= ~before
        gaps &= gaps - np.uint64(1)
        shift += np.uint64(1)
    return result


@kernel(inner=True)
def write_cell(D, net, state, cell, nr, out, room):
    """Write down a finished cell; returns a status."""
    control = state.control
    wr, wf = cell.alive.shape[0], cell.used.shape[0]
    at_infinity = touches_infinity(cell)
    if nr == 0:
        return HAS_LINES
    n_cell, n_ray, n_facet = control[C_OUT_CELLS], control[C_OUT_RAYS], control[C_OUT_FACETS]
    rays, facets = 0, 0
    known = True
    for w in range(wr):
        rays += popcount(cell.alive[w])
        word = cell.alive[w]
        while word != np.uint64(0):
            v = (w << 6) + lowest(word)
            word &= word - np.uint64(1)
            scale = cell.rays[v, D - 1]
            if at_infinity and cell.mask[v, 0] & np.uint64(1) != np.uint64(0):
                scale = 1.0
            known = known and cell.rays[v, D] < 1e-6 * scale
    for f in range(wf):
        facets += popcount(cell.used[f])
    if not known and control[C_TRUST] != FLOAT and control[C_FREE] == 0:
        return UNCERTAIN
    if n_cell + 1 >= out.ray_start.shape[0] or (n_ray + rays) * (D + 1) > out.rays.shape[0]:
        return OUTPUT_FULL
    words = (facets + 63) >> 6
    if words > out.mask.shape[1] or n_ray + rays > out.mask.shape[0]:
        return OUTPUT_FULL
    if 2 * (n_facet + facets) > out.label.shape[0]:
        return OUTPUT_FULL
    witness(D, cell, out.witness, n_cell * D)
    out.free[n_cell] = control[C_FREE] >> 1
    k = 0
    for f in range(wf):
        word = cell.used[f]
        while word != np.uint64(0):
            s = (f << 6) + lowest(word)
            word &= word - np.uint64(1)
            room.place[s] = k
            out.label[2 * (n_facet + k)] = cell.label[s, 0]
            out.label[2 * (n_facet + k) + 1] = cell.label[s, 1]
            k += 1
    r = n_ray
    to, length = np.uintp(n_ray * (D + 1)), np.uintp(D + 1)
    for w in range(wr):
        word = cell.alive[w]
        while word != np.uint64(0):
            v = (w << 6) + lowest(word)
            word &= word - np.uint64(1)
            at = np.uintp(v) * length
            for c in range(D + 1):
                out.rays[to + np.uintp(c)] = cell.flat_rays[at + np.uintp(c)]
            to += length
            for f in range(out.mask.shape[1]):
                out.mask[r, f] = np.uint64(0)
            if wf == 1:
                out.mask[r, 0] = closed_up(cell.mask[v, 0], cell.used[0])
            else:
                for f in range(wf):
                    on = cell.mask[v, f] & cell.used[f]
                    while on != np.uint64(0):
                        s = room.place[(f << 6) + lowest(on)]
                        on &= on - np.uint64(1)
                        out.mask[r, s >> 6] |= bit(s)
            r += 1
    out.tied[n_cell] = write_signature(
        net, control[C_LAST], state.signs, out, n_cell, control[C_WORDS], control[C_ROUTES]
    )
    control[C_OUT_CELLS] = n_cell + 1
    control[C_OUT_RAYS] = n_ray + rays
    control[C_OUT_FACETS] = n_facet + facets
    out.ray_start[n_cell + 1] = n_ray + rays
    out.facet_start[n_cell + 1] = n_facet + facets
    control[C_FREE] = 0
    return RUNNING


@kernel
def run(columns, net, state, cell, pending, room, keys, rungs, out, budget):
    """Take nodes off the stack until it is empty, the budget is used up, or the caller is needed.

    ``columns`` is a tuple of D numbers, of which only the length counts: it belongs to the type, so the
    machine code is made for one dimension, and loops over coordinates are none.
    """
    D = len(columns)
    control, si, su, sf = state.control, state.si, state.su, state.sf
    last = control[C_LAST]
    last_step = control[C_STEPS] + budget
    while control[C_STEPS] < last_step:
        control[C_STEPS] += 1
        if control[C_INTS] == 0:
            control[C_STATUS] = DONE
            return
        if control[C_CELLS] >= control[C_MOST_CELLS]:
            control[C_STATUS] = BUDGET
            return
        end, floats = control[C_INTS], control[C_FLOATS]
        kind, layer, head, nr = si[end - 8], si[end - 7], si[end - 6], si[end - 5]
        here = layer_row(net.table, layer)
        n_pending, nf, tied = si[end - 4], si[end - 3] >> 1, si[end - 3] & 1
        io, fo = end - si[end - 2], floats - si[end - 1]
        before = control[C_CELLS]
        if nr > cell.rays.shape[0] or nf > cell.facets.shape[0]:
            control[C_STATUS] = RAYS_FULL if nr > cell.rays.shape[0] else FACETS_FULL
            return
        at, y = load(D, state, cell, io, fo, nr, nf)
        e = carried(here, control[C_LAST] == layer)
        control[C_INTS] = io
        control[C_FLOATS] = fo
        leaf = False
        status = RUNNING
        first = 0
        if kind == FOLD:
            nwr = (nr + 63) >> 6
            for j in range(n_pending):
                pending.unit[j] = si[at]
                at += 1
                for w in range(nwr):
                    pending.positive[w, j] = su[at + w]
                    pending.negative[w, j] = su[at + nwr + w]
                at += 2 * nwr
            copy(si, at, room.word, 0, here.words)
            copy(sf, y, room.hidden, 0, D * e)
            if n_pending > 0:
                if nr == 0:
                    status = HAS_LINES
                else:
                    status, first, n_pending = fold_step(
                        D, net, state, cell, pending, n_pending, nwr, layer, room, rungs, last_step
                    )
                    nr = top_slot(cell.alive)
            if status == RUNNING:
                leaf = True
                add_twins(D, net, state, layer, room)
                copy(room.word, 0, state.signs, here.sign_at + 2, here.words)
        else:
            heads = here.heads
            copy(si, at, room.routes, 0, heads)
            copy(sf, y, room.hidden, 0, e)
            if head == heads:
                leaf = True
                state.signs[here.sign_at + 1] = tied
                copy(room.routes, 0, state.signs, here.sign_at + 2, heads)
            else:
                status = head_step(D, net, state, cell, layer, head, nr, nf, tied, io, fo, room, keys, rungs)
        if leaf:
            if layer == last:
                far = nr == 0 or touches_infinity(cell) or control[C_FREE] > 1
                if control[C_EMIT] == 1:
                    status = write_cell(D, net, state, cell, nr, out, room)
                if status == RUNNING:
                    control[C_CELLS] += 1
                    control[C_UNBOUNDED] += 1 if far else 0
                    state.layer_cells[layer] += 1
            else:
                leave(D, net, state.path, state.errors, state.signs, layer, room.routes, room.hidden)
                if descend(D, net, state, cell, nr, layer + 1, pending, room, rungs):
                    state.layer_cells[layer] += 1
                else:
                    status = STACK_FULL
        if status == RUNNING or (kind == FOLD and status == DONE) or (kind == WALL and status == BUDGET):
            continue
        if kind == FOLD and (control[C_INTS] > io or control[C_CELLS] > before or status == UNDECIDED_FOLD):
            # halves lie where the node was, or are counted: what is left of it goes on top of them
            push_fold(D, net, state, cell, cell.alive, layer, pending, first, n_pending, 0, room)
        else:  # nothing was changed: the node is still where it was
            control[C_INTS] = end
            control[C_FLOATS] = floats
        if status != BUDGET:
            control[C_STATUS] = status
            return
    control[C_STATUS] = DONE if control[C_INTS] == 0 else BUDGET
