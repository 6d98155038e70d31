r"""Facets of polyhedral cells, compiled: which are true ones, how large they are, where two of them overlap.

A cell is known by its rays (homogeneous vertices and directions) and by which listed facets each ray lies on;
this incidence is exact. Everything combinatorial is read from it: a face is a set of rays, its own facets are
the largest proper intersections with the listed ones. Nothing here assumes that cells are simple.

Whether facets of two cells overlap is asked in floats with error bounds. A facet's hyperplane row and a ray
are each known up to a bound per entry, so the sign of their product is proven or open. Two facets on one
hyperplane are apart when all rays of one lie outside some other hyperplane of the second cell; they overlap
when a point of the common hyperplane is strictly inside all others. What neither proves is left to rationals.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from hardmax.compiling import kernel
from hardmax.regions.cells import AT_INFINITY, GROUP_BITS, KEY_BITS

APART, MEET, OPEN = 0, 1, 2
# in place of the size of a common part: not known; all of the first facet; all of the second
UNCLEAR, FIRST_WHOLE, SECOND_WHOLE = -1.0, -2.0, -3.0
# columns of the table of layers
KIND, FIRST, KEYS_AT, LAST = range(4)
LAYER_COLUMNS = 4
FOLD, WALL = 0, 1

_UNIT = 2.0**-53
_ONE = np.uint64(1)
_LAYER_SHIFT = GROUP_BITS + 2 * KEY_BITS
_GROUP_SHIFT = 2 * KEY_BITS
_GROUP_MASK = (1 << GROUP_BITS) - 1
_KEY_MASK = (1 << KEY_BITS) - 1


# cells: rays and facets, which rays lie on which facets, signatures
Shape = namedtuple("Shape", "ray_start rays ray_error facet_start owner wall mask free bits routings tied")
# facets as they were drawn: the true ones, rays at infinity, sides of cells, rows in floats
Drawn = namedtuple("Drawn", "face far side row_of rows errors")
# a row per layer; all keys, and the classes of their outputs
Layers = namedtuple("Layers", "table keys classes")
# where a face is cut into simplices: see pull
Room = namedtuple("Room", "sets distinct points sub count at pulled basis product result")
# where a facet is cut with half-spaces, see clip: rays with their marks, and room for new ones
Clipping = namedtuple("Clipping", "cut marks values spare spare_marks events point")


# sets of rays


@kernel(inlined=True)
def holds(bits, r):
    """Whether a set has a member."""
    return (bits[r >> 6] >> np.uint64(r & 63)) & _ONE != 0


@kernel(inlined=True)
def include(bits, r):
    """Add a member to a set."""
    bits[r >> 6] |= _ONE << np.uint64(r & 63)


@kernel(inlined=True)
def size_of(a, b, words):
    """How many members two sets have in common."""
    members = 0
    for w in range(words):
        x = a[w] & b[w]
        while x:
            x &= x - _ONE
            members += 1
    return members


@kernel(inlined=True)
def inside(a, b, words):
    """Whether set a is contained in set b."""
    missing = np.uint64(0)
    for w in range(words):
        missing |= a[w] & ~b[w]
    return missing == 0


@kernel(inlined=True)
def lowest(a, words):
    """The first member of a set; -1 if it is empty."""
    for w in range(words):
        if a[w]:
            r = w << 6
            word = a[w]
            while word & _ONE == 0:
                word >>= _ONE
                r += 1
            return r
    return -1


@kernel(inlined=True)
def ray_sets(shape, i, sets):
    """For each facet of cell i the set of its rays."""
    first, n_rays = shape.ray_start[i], shape.ray_start[i + 1] - shape.ray_start[i]
    n_facets = shape.facet_start[i + 1] - shape.facet_start[i]
    words = (n_rays + 63) >> 6
    sets[:n_facets, :words] = 0
    for r in range(n_rays):
        for s in range(n_facets):
            if holds(shape.mask[first + r], s):
                include(sets[s], r)
    return first, n_rays, shape.facet_start[i], n_facets, words


@kernel
def classify(shape, sets, face, far, bounded):
    """True facets, rays at infinity, bounded cells.

    ``face[f]`` is -1 for a redundant facet, else the first facet of the cell with the same rays: several
    hyperplanes may coincide on a cell.
    """
    owner = shape.owner
    for i in range(len(bounded)):
        first, n_rays, base, n_facets, words = ray_sets(shape, i, sets)
        bounded[i] = 1
        for s in range(n_facets):
            found = s
            for t in range(n_facets):
                if t != s and inside(sets[s], sets[t], words):
                    # a row that is constant on the cell touches it at infinity only
                    beyond = owner[base + t] == AT_INFINITY and owner[base + s] != AT_INFINITY
                    if beyond or not inside(sets[t], sets[s], words):
                        found = -1
                        break
                    if t < found:
                        found = t
            face[base + s] = -1 if found < 0 else base + found
            if owner[base + s] == AT_INFINITY:
                for r in range(n_rays):
                    if holds(sets[s], r):
                        far[first + r] = 1
                        bounded[i] = 0
                if n_rays == 1:  # a cell that is the whole space: one ray, and nothing at infinity but lines
                    bounded[i] = 0


# sizes


@kernel(inner=True)
def faces_of(bits, level, sets, n_sets, words, out):
    """The facets of a face of dimension ``level``: its largest proper intersections with the sets."""
    count = 0
    for s in range(n_sets):
        if inside(bits, sets[s], words) or size_of(bits, sets[s], words) < level:
            continue
        for w in range(words):
            out[count, w] = bits[w] & sets[s, w]
        fresh = True
        for t in range(count):
            if inside(out[count], out[t], words):
                fresh = False
                break
        if not fresh:
            continue
        kept = 0
        for t in range(count):
            if not inside(out[t], out[count], words):
                if kept != t:
                    for w in range(words):
                        out[kept, w] = out[t, w]
                kept += 1
        if kept != count:
            for w in range(words):
                out[kept, w] = out[count, w]
        count = kept + 1
    return count


@kernel(inner=True)
def direction(points, d, v, base, basis, top, level):
    """The part of ``points[v] - points[base]`` orthogonal to the directions of the levels above; its length.

    Directions of levels ``top - 1`` down to ``level + 1`` are unit vectors; this one goes to ``level``. Level
    -1 is the last row.
    """
    row = level if level >= 0 else basis.shape[0] - 1
    for c in range(d):
        basis[row, c] = points[v, c] - points[base, c]
    for _ in range(2):  # once more, against rounding
        for l in range(top - 1, level, -1):
            s = 0.0
            for c in range(d):
                s += basis[row, c] * basis[l, c]
            for c in range(d):
                basis[row, c] -= s * basis[l, c]
    s = 0.0
    for c in range(d):
        s += basis[row, c] * basis[row, c]
    s = np.sqrt(s)
    if s > 0.0:
        for c in range(d):
            basis[row, c] /= s
    return s


@kernel(inner=True)
def pull(room, k, whole, sets, n_sets, words, apex):
    """The size of a face of dimension k, and of the cone over it with tip ``apex`` (a point, or -1).

    The face is cut into simplices by pulling its first vertex: cones from there over those of its facets that
    do not contain it, and so on down to edges. ``sub[level]`` are the facets of the face under way at that
    level, ``pulled[level]`` its vertex, ``basis[level]`` the orthogonal direction to it and ``product`` the
    volume of the parallelepiped so far. Adds to ``result``.
    """
    points, sub, count, at, pulled = room.points, room.sub, room.count, room.at, room.pulled
    basis, product, result, d = room.basis, room.product, room.result, room.points.shape[1]
    factorial = 1.0
    for i in range(2, k + 1):
        factorial *= i
    level = k
    for w in range(words):
        sub[k + 1, 0, w] = whole[w]
    count[k + 1], at[k + 1] = 1, 0
    entering = True
    base = 0
    while True:
        if entering:
            bits = sub[level + 1, at[level + 1]]
            v = lowest(bits, words)
            pulled[level] = v
            if level == k:
                base = v
                product[k] = 1.0
            else:
                product[level] = product[level + 1] * direction(points, d, v, base, basis, k, level)
            if level == 1:
                other = -1
                for r in range(v + 1, words << 6):
                    if holds(bits, r):
                        other = r
                        break
                if other >= 0:
                    size = product[1] * direction(points, d, other, base, basis, k, 0)
                    result[0] += size / factorial
                    if apex >= 0:
                        height = direction(points, d, apex, base, basis, k, -1)
                        result[1] += size * height / (factorial * (k + 1))
                entering = False
                level += 1
                continue
            count[level] = faces_of(bits, level, sets, n_sets, words, sub[level])
            at[level] = -1
        # the next facet that does not contain the pulled vertex
        if level > k:
            return
        at[level] += 1
        while at[level] < count[level] and holds(sub[level, at[level]], pulled[level]):
            at[level] += 1
        if at[level] < count[level]:
            level -= 1
            entering = True
        else:
            level += 1
            entering = False


@kernel
def measure(shape, face, far, bounded, room, volume, surface, doubt, area):
    """Volumes and surfaces of bounded cells, sizes of bounded facets, and how uncertain the vertices are."""
    rays, ray_error, result = shape.rays, shape.ray_error, room.result
    sets, distinct, points, d = room.sets, room.distinct, room.points, room.points.shape[1]
    for i in range(len(bounded)):
        first, n_rays, base, n_facets, words = ray_sets(shape, i, sets)
        worst = 0.0
        for r in range(n_rays):
            if far[first + r]:
                continue
            w, e = rays[first + r, d], ray_error[first + r]
            size = 0.0
            for c in range(d):
                points[r, c] = rays[first + r, c] / w
                size = max(size, abs(points[r, c]))
            if w > 2.0 * e:
                worst = max(worst, 2.0 * e * (1.0 + size) / w + 4.0 * _UNIT * size)
            else:
                worst = np.inf
        doubt[i] = worst
        n_distinct = 0
        for s in range(n_facets):  # distinct true facets are enough to know every face
            if face[base + s] == base + s:
                for w in range(words):
                    distinct[n_distinct, w] = sets[s, w]
                n_distinct += 1
        volume[i], surface[i] = 0.0, 0.0
        for s in range(n_facets):
            f = base + s
            area[f] = 0.0
            if face[f] != f:
                continue
            unbounded = False
            for r in range(n_rays):
                if far[first + r] and holds(sets[s], r):
                    unbounded = True
            if unbounded:
                area[f] = np.inf
                continue
            result[0], result[1] = 0.0, 0.0
            apex = np.int64(-1)
            if bounded[i] and not holds(sets[s], 0):
                apex = np.int64(0)
            pull(room, d - 1, sets[s], distinct, n_distinct, words, apex)
            area[f] = result[0]
            surface[i] += result[0]
            volume[i] += result[1]
        for s in range(n_facets):
            if face[base + s] >= 0:
                area[base + s] = area[face[base + s]]
        if not bounded[i]:
            volume[i], surface[i] = np.inf, np.inf


# neighbours by signature


@kernel(inlined=True)
def mixed(value, place):
    """A hash of a word and its place."""
    h = (value + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(32))


@kernel
def hash_signatures(shape, hashes, slots):
    """Put every signature into an open hash table; a hash is a sum over words and heads."""
    bits, routings = shape.bits, shape.routings
    words, heads = bits.shape[1], routings.shape[1]
    last = np.uint64(len(slots) - 1)
    for i in range(len(hashes)):
        h = np.uint64(0)
        for w in range(words):
            h += mixed(bits[i, w], w)
        for k in range(heads):
            h += mixed(np.uint64(routings[i, k]), words + k)
        hashes[i] = h
        at = (h ^ (h >> np.uint64(31))) & last
        while slots[at] >= 0:
            at = (at + _ONE) & last
        slots[at] = i


@kernel(inlined=True)
def place_of(layers, wall):
    """The layer of a wall, the number of its unit or head, and where its two keys are listed."""
    layer = wall >> _LAYER_SHIFT
    first = layers.table[layer, KEYS_AT]
    return (
        layer,
        layers.table[layer, FIRST] + ((wall >> _GROUP_SHIFT) & _GROUP_MASK),
        first + ((wall >> KEY_BITS) & _KEY_MASK),
        first + (wall & _KEY_MASK),
    )


@kernel
def sides(shape, layers, side):
    """On which side of its hyperplane a cell lies: 1 where the row is positive, -1 where it is negative.

    0 where the signature does not tell, because another key is level with the winner.
    """
    for i in range(len(shape.tied)):
        for f in range(shape.facet_start[i], shape.facet_start[i + 1]):
            side[f] = 1
            if shape.owner[f] < 0:
                continue
            layer, place, a, b = place_of(layers, shape.wall[f])
            if layers.table[layer, KIND] == FOLD:
                if not holds(shape.bits[i], place):
                    side[f] = -1
            elif shape.routings[i, place] == layers.keys[a]:
                side[f] = -1
            elif shape.routings[i, place] != layers.keys[b]:
                side[f] = 0


@kernel
def match_flips(shape, layers, face, side, hashes, slots, done, out):
    """Pairs of cells whose signatures differ in one unit, or in one head across which nothing jumps.

    Writes (facet of i, cell j) and marks the facets as done; returns the number of pairs.
    """
    facet_start, owner, wall, tied = shape.facet_start, shape.owner, shape.wall, shape.tied
    bits, routings = shape.bits, shape.routings
    words, heads = bits.shape[1], routings.shape[1]
    last = np.uint64(len(slots) - 1)
    n = 0
    for i in range(len(facet_start) - 1):
        if tied[i]:
            continue
        for f in range(facet_start[i], facet_start[i + 1]):
            if owner[f] < 0 or face[f] < 0 or done[face[f]] or side[f] == 0:
                continue
            layer, place, a, b = place_of(layers, wall[f])
            fold = layers.table[layer, KIND] == FOLD
            word, key = np.uint64(0), np.int32(0)
            h = hashes[i]
            if fold:
                word = bits[i, place >> 6] ^ (_ONE << np.uint64(place & 63))
                h += mixed(word, place >> 6) - mixed(bits[i, place >> 6], place >> 6)
            else:
                if not layers.table[layer, LAST] and layers.classes[a] != layers.classes[b]:
                    continue
                key = np.int32(layers.keys[b] if side[f] < 0 else layers.keys[a])
                h += mixed(np.uint64(key), words + place) - mixed(
                    np.uint64(routings[i, place]), words + place
                )
            at = (h ^ (h >> np.uint64(31))) & last
            found = -1
            while slots[at] >= 0:
                j = slots[at]
                at = (at + _ONE) & last
                if hashes[j] != h or tied[j]:
                    continue
                same = True
                for w in range(words):
                    expected = word if fold and w == place >> 6 else bits[i, w]
                    if bits[j, w] != expected:
                        same = False
                        break
                if not same:
                    continue
                for k in range(heads):
                    expected_key = key if not fold and k == place else routings[i, k]
                    if routings[j, k] != expected_key:
                        same = False
                        break
                if same:
                    found = j
                    break
            if found < 0:
                continue
            done[face[f]] = 1
            # the first of two cells reports, or the second if the first does not list this facet
            other = namesake(shape, f, found)
            if i < found or other < 0 or face[other] < 0:
                out[n, 0], out[n, 1] = f, found
                n += 1
    return n


@kernel(inlined=True)
def namesake(shape, f, j):
    """The facet of cell j with the name of facet f; -1 if there is none."""
    for g in range(shape.facet_start[j], shape.facet_start[j + 1]):
        if shape.owner[g] == shape.owner[f] and shape.wall[g] == shape.wall[f]:
            return g
    return -1


@kernel
def same_name(shape, facets, cells, out):
    """For each facet the one of another cell with its name; -1 if there is none."""
    for k in range(len(facets)):
        out[k] = namesake(shape, facets[k], cells[k])


# overlapping facets of one hyperplane


@kernel(inlined=True)
def value_at(row, error, ray, ray_error, d):
    """Row times ray, and a bound on its distance from the exact value."""
    value, size, total, length = 0.0, 0.0, 0.0, 0.0
    for c in range(d + 1):
        term = row[c] * ray[c]
        value += term
        size += abs(term)
        total += abs(row[c])
        length += abs(ray[c])
    bound = (d + 3) * _UNIT * size + 1.01 * (error * length + ray_error * (total + (d + 1) * error)) + 1e-300
    return value, bound


@kernel(inner=True)
def third_key(shape, f, t):
    """The wall that cuts the wall f of keys a and b where t does: if t is of keys b and c, that of a and c.

    -1 if the two are not walls of one head, drawn in one cell.
    """
    owner, wall = shape.owner, shape.wall
    if owner[f] != owner[t] or wall[f] >> _GROUP_SHIFT != wall[t] >> _GROUP_SHIFT:
        return np.int64(-1)
    a, b = (wall[f] >> KEY_BITS) & _KEY_MASK, wall[f] & _KEY_MASK
    p, q = (wall[t] >> KEY_BITS) & _KEY_MASK, wall[t] & _KEY_MASK
    if p == a:
        k, c = b, q
    elif p == b:
        k, c = a, q
    elif q == a:
        k, c = b, p
    elif q == b:
        k, c = a, p
    else:
        return np.int64(-1)
    return ((wall[f] >> _GROUP_SHIFT) << _GROUP_SHIFT) | (min(k, c) << KEY_BITS) | max(k, c)


@kernel(inner=True)
def relation(shape, drawn, i, f, t):
    """What facet f of cell i knows about the hyperplane of facet t of another cell, without looking.

    MEET: cell i lists a hyperplane with the same trace on that of f, and lies on the same side: f is inside.
    APART: on the other side. OPEN: nothing.
    """
    owner, wall, side = shape.owner, shape.wall, drawn.side
    other = third_key(shape, f, t)
    for u in range(shape.facet_start[i], shape.facet_start[i + 1]):
        if owner[u] == owner[t]:
            if wall[u] == wall[t]:
                return MEET if side[u] == side[t] else APART
            if wall[u] == other:  # both winners are ahead of the same third key
                return MEET
    return OPEN


@kernel(inner=True)
def separated(shape, drawn, i, f, j, g):
    """Whether a hyperplane of cell j has all rays of facet f of cell i on its outer side.

    APART: proven. MEET: no hyperplane of j can separate them. OPEN: not known.
    """
    facet_start, face = shape.facet_start, drawn.face
    answer = MEET
    s, d = face[f] - facet_start[i], shape.rays.shape[1] - 1
    for t in range(facet_start[j], facet_start[j + 1]):
        if face[t] != t or t == face[g]:
            continue
        known = relation(shape, drawn, i, f, t)
        if known == APART:
            return APART
        if known == MEET:
            continue
        outside, unclear = True, False
        sign, h = 1.0 if drawn.side[t] > 0 else -1.0, drawn.row_of[t]
        for r in range(shape.ray_start[i], shape.ray_start[i + 1]):
            if not holds(shape.mask[r], s):
                continue
            value, bound = value_at(drawn.rows[h], drawn.errors[h], shape.rays[r], shape.ray_error[r], d)
            value *= sign
            if value > bound:
                outside = False
                break
            if not value < -bound:
                unclear = True
        if outside:
            if not unclear:
                return APART
            answer = OPEN
    return answer


@kernel(inner=True)
def clip(clipping, n, row, error, sign, place):
    """Cut a cone given by its rays and their marks with a half-space; returns the number of rays.

    Rays whose value is not told from zero are taken to lie on the hyperplane. ``events`` counts the rays that
    were cut off and those that were not told from zero. -1: no room.
    """
    cut, marks, values, events = clipping.cut, clipping.marks, clipping.values, clipping.events
    spare, spare_marks = clipping.spare, clipping.spare_marks
    most, words, d = len(values), marks.shape[1], cut.shape[1] - 1
    for r in range(n):
        value, bound = value_at(row, error, cut[r], 4.0 * _UNIT, d)
        values[r] = 0.0 if abs(value) <= 4.0 * bound else sign * value
        if values[r] < 0.0:
            events[0] += 1
        elif values[r] == 0.0:
            events[1] += 1
    m = 0
    for r in range(n):
        if values[r] < 0.0:
            continue
        if m == most:
            return np.int64(-1)
        for c in range(d + 1):
            spare[m, c] = cut[r, c]
        for w in range(words):
            spare_marks[m, w] = marks[r, w]
        if values[r] == 0.0:
            include(spare_marks[m], place)
        m += 1
    for p in range(n):
        if values[p] <= 0.0:
            continue
        for q in range(n):
            if values[q] >= 0.0:
                continue
            if size_of(marks[p], marks[q], words) < d - 2:
                continue
            adjacent = True
            for r in range(n):
                if r in (p, q):
                    continue
                covers = True
                for w in range(words):
                    if marks[p, w] & marks[q, w] & ~marks[r, w]:
                        covers = False
                        break
                if covers:
                    adjacent = False
                    break
            if not adjacent:
                continue
            if m == most:
                return np.int64(-1)
            top = 0.0
            for c in range(d + 1):
                spare[m, c] = values[p] * cut[q, c] - values[q] * cut[p, c]
                top = max(top, abs(spare[m, c]))
            if top > 0.0:
                for c in range(d + 1):
                    spare[m, c] /= top
            for w in range(words):
                spare_marks[m, w] = marks[p, w] & marks[q, w]
            include(spare_marks[m], place)
            m += 1
    for r in range(m):
        for c in range(d + 1):
            cut[r, c] = spare[r, c]
        for w in range(words):
            marks[r, w] = spare_marks[r, w]
    return np.int64(m)


@kernel(inner=True)
def proven_inside(shape, drawn, point, slip, i, f):
    """Whether a point, moved by at most ``slip``, is strictly inside all true facets of cell i but f."""
    for t in range(shape.facet_start[i], shape.facet_start[i + 1]):
        if drawn.face[t] != t or t == drawn.face[f]:
            continue
        row, error = drawn.rows[drawn.row_of[t]], drawn.errors[drawn.row_of[t]]
        value, bound = value_at(row, error, point, 0.0, len(point) - 1)
        total = 0.0
        for c in range(len(point)):
            total += abs(row[c]) + error
        if drawn.side[t] < 0:
            value = -value
        if not value > bound + 1.01 * slip * total:
            return False
    return True


@kernel(inner=True)
def common_part(shape, drawn, clipping, room, i, f, j, g):
    """Clip facet f of cell i to facet g of cell j: MEET if a common point is proven.

    The size of the common part goes to ``result``: UNCLEAR if floats cannot tell which vertices it has,
    FIRST_WHOLE if it is all of f.
    """
    facet_start, mask = shape.facet_start, shape.mask
    face, rows, errors = drawn.face, drawn.rows, drawn.errors
    cut, marks, events, point = clipping.cut, clipping.marks, clipping.events, clipping.point
    sets, result, d = room.sets, room.result, room.points.shape[1]
    events[0], events[1] = 0, 0
    words, s = mask.shape[1], face[f] - facet_start[i]
    n = np.int64(0)
    for r in range(shape.ray_start[i], shape.ray_start[i + 1]):
        if not holds(mask[r], s):
            continue
        if n == len(clipping.values):
            return OPEN
        for c in range(d + 1):
            cut[n, c] = shape.rays[r, c]
        for w in range(words):
            marks[n, w], marks[n, words + w] = mask[r, w], 0
        n += 1
    for t in range(facet_start[j], facet_start[j + 1]):
        if face[t] != t or t == face[g]:
            continue
        if relation(shape, drawn, i, f, t) == MEET:
            continue
        sign, h = 1.0 if drawn.side[t] > 0 else -1.0, drawn.row_of[t]
        n = clip(clipping, n, rows[h], errors[h], sign, 64 * words + t - facet_start[j])
        if n < d:
            return OPEN
    top = 0.0
    for c in range(d + 1):
        point[c] = 0.0
        for r in range(n):
            point[c] += cut[r, c]
        top = max(top, abs(point[c]))
    if not top > 0.0:
        return OPEN
    for c in range(d + 1):
        point[c] /= top
    # the nearest point of the hyperplane itself is so far away
    h = drawn.row_of[f]
    value, bound = value_at(rows[h], errors[h], point, 0.0, d)
    length = 0.0
    for c in range(d + 1):
        length += max(abs(rows[h, c]) - errors[h], 0.0) ** 2
    if not length > 0.0:
        return OPEN
    slip = 1.01 * (abs(value) + bound) / np.sqrt(length)
    if not proven_inside(shape, drawn, point, slip, i, f):
        return OPEN
    if not proven_inside(shape, drawn, point, slip, j, g):
        return OPEN
    result[0], result[1] = FIRST_WHOLE, 0.0
    if events[0] == 0:
        return MEET  # nothing was cut off
    result[0] = UNCLEAR
    if events[1]:
        return MEET
    result[0] = 0.0
    set_words = (n + 63) >> 6
    for r in range(n):
        if cut[r, d] <= 1e-15:
            result[0] = np.inf
            return MEET
        for c in range(d):
            room.points[r, c] = cut[r, c] / cut[r, d]
    sets[:, :set_words] = 0
    k = 0
    for side_of in range(2):
        cell, but = (i, face[f]) if side_of == 0 else (j, face[g])
        for t in range(facet_start[cell], facet_start[cell + 1]):
            if face[t] != t or t == but:
                continue
            place = 64 * words * side_of + t - facet_start[cell]
            for r in range(n):
                if holds(marks[r], place):
                    include(sets[k], r)
            k += 1
    for r in range(n):
        include(sets[k], r)
    pull(room, d - 1, sets[k], sets, k, set_words, np.int64(-1))
    return MEET


@kernel(inner=True)
def box_of(shape, drawn, i, f, low, high):
    """A box around a facet; infinite in the directions of rays at infinity."""
    rays, far, d = shape.rays, drawn.far, len(low)
    s = drawn.face[f] - shape.facet_start[i]
    for c in range(d):
        low[c], high[c] = np.inf, -np.inf
    for r in range(shape.ray_start[i], shape.ray_start[i + 1]):
        if not holds(shape.mask[r], s):
            continue
        w, e = rays[r, d], shape.ray_error[r]
        for c in range(d):
            if far[r] or not w > 2.0 * e:
                if not far[r] or abs(rays[r, c]) <= e or not e < np.inf:
                    low[c], high[c] = -np.inf, np.inf
                elif rays[r, c] > 0.0:
                    high[c] = np.inf
                else:
                    low[c] = -np.inf
            else:
                x = rays[r, c] / w
                slack = 2.0 * e * (1.0 + abs(x)) / w + 4.0 * _UNIT * abs(x)
                low[c], high[c] = min(low[c], x - slack), max(high[c], x + slack)


@kernel
def overlay(
    group_start, order, first_group, cell_of, shape, drawn, low, high, ranked, stack, clipping, room,
    out, out_size, undecided, numbers,
):  # fmt: skip
    """Compare the facets on the two sides of every hyperplane.

    Facets ``order[group_start[k]:group_start[k + 1]]`` have one name. Pairs (f, g) that overlap go to ``out``
    with the size of the common part, pairs that floats cannot decide to ``undecided``. ``numbers`` holds how
    many there are of each. Returns the first group for which there was no room, or the number of groups.
    """
    free, side, result, d = shape.free, drawn.side, room.result, low.shape[1]
    for group in range(first_group, len(group_start) - 1):
        begin, end = group_start[group], group_start[group + 1]
        found, open_ = numbers[0], numbers[1]
        m = end - begin
        for k in range(m):
            f = order[begin + k]
            i = cell_of[f]
            if free[i]:
                for c in range(d):
                    low[k, c], high[k, c] = -np.inf, np.inf
            else:
                box_of(shape, drawn, i, f, low[k], high[k])
            ranked[k] = k
        # sweep along the axis in which the boxes are spread most
        axis, most = 0, -1.0
        for c in range(d):
            least, largest = np.inf, -np.inf
            for k in range(m):
                if low[k, c] > -np.inf:
                    least, largest = min(least, low[k, c]), max(largest, low[k, c])
            if largest - least > most:
                axis, most = c, largest - least
        heap_sort(low, axis, ranked, m)
        alive = 0
        for k in range(m):
            x = ranked[k]
            f = order[begin + x]
            i = cell_of[f]
            kept = 0
            for l in range(alive):
                y = stack[l]
                if high[y, axis] < low[x, axis]:
                    continue
                stack[kept] = y
                kept += 1
                g = order[begin + y]
                j = cell_of[g]
                if side[f] == side[g] or i == j:
                    continue
                apart = False
                for c in range(d):
                    if high[y, c] < low[x, c] or high[x, c] < low[y, c]:
                        apart = True
                        break
                if apart:
                    continue
                answer = OPEN
                if not free[i] and not free[j]:
                    answer = separated(shape, drawn, i, f, j, g)
                    if answer != APART:
                        answer = separated(shape, drawn, j, g, i, f)
                    if answer != APART:
                        for turn in range(2):  # from the other side, if this one is not clear
                            k1, f1, k2, f2 = (i, f, j, g) if turn == 0 else (j, g, i, f)
                            answer = common_part(shape, drawn, clipping, room, k1, f1, k2, f2)
                            if answer == MEET and result[0] != UNCLEAR:
                                # whose facet it is, in the order in which they are written down
                                if result[0] == FIRST_WHOLE and k1 > k2:
                                    result[0] = SECOND_WHOLE
                                break
                if answer == APART:
                    continue
                if answer == MEET:
                    if found == len(out):
                        return group
                    out[found, 0], out[found, 1] = (f, g) if i < j else (g, f)
                    out_size[found] = result[0]
                    found += 1
                else:
                    if open_ == len(undecided):
                        return group
                    undecided[open_, 0], undecided[open_, 1] = (f, g) if i < j else (g, f)
                    open_ += 1
            stack[kept] = x
            alive = kept + 1
        numbers[0], numbers[1] = found, open_
    return len(group_start) - 1


@kernel(inner=True)
def heap_sort(low, axis, items, n):
    """Sort items by ``low[item, axis]``."""
    for begin in range(n // 2 - 1, -1, -1):
        sift(low, axis, items, begin, n)
    for end in range(n - 1, 0, -1):
        items[0], items[end] = items[end], items[0]
        sift(low, axis, items, 0, end)


@kernel(inner=True)
def sift(low, axis, items, root, n):
    """Restore the order of a heap below its root."""
    while True:
        child = 2 * root + 1
        if child >= n:
            return
        if child + 1 < n and low[items[child], axis] < low[items[child + 1], axis]:
            child += 1
        if low[items[root], axis] >= low[items[child], axis]:
            return
        items[root], items[child] = items[child], items[root]
        root = child
