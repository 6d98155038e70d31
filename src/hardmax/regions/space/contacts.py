r"""Which cells in space touch along a facet, and whether a fold or a wall lies between them.

Two cells are adjacent when their closures meet in dimension d - 1. Let them part in layer :math:`l`: they lie
in one cell of the layers before, and on two sides of a hyperplane :math:`H` that was drawn in it.

**Flips.** If their signatures differ in one ReLU unit of layer :math:`l` only, all later rows agree on
:math:`H` (the map is continuous and the routings are the same), so both facets are the same set: a lookup of
the flipped signature finds the neighbour, and this facet has no other. The same holds for two keys with equal
outputs, and for any two keys of the last layer. Cells with tied keys are left out: their map may jump.

**Overlaps.** Elsewhere the two sides of :math:`H` are cut differently. Facets are grouped by name, candidates
come from bounding boxes, and floats with error bounds prove most pairs apart or overlapping; the rest is
decided in rationals (:func:`~hardmax.regions.maps.exact_maps.common_cone`).

Several units may vanish on :math:`H` and flip together, which no lookup finds. But if the routings from layer
:math:`l` on agree, two facets that overlap are the same set here too, and have no other neighbour. *Proof*:
what enters layer :math:`l` is one affine map. Where both facets are, a set that is open in :math:`H`, what
enters each later layer is the same from both sides, for a ReLU is continuous; so the affine functions of the
two cells agree on all of :math:`H`, layer by layer. Their signs on the common part are the signs that both
cells ask for, so on :math:`H` the two cells obey the same inequalities.

**Names.** In a fold layer both cells list the unit that separates them first. In a head, three keys may be
level on :math:`H`, and the two sides may name different pairs. Then no cell on the other side has that name:
on each side of :math:`H` one key wins along all of it. So facets with one-sided names, and only these, are
matched by their exact hyperplane with the facets that were drawn in the same cell by the same head.

**Rows in floats.** A facet drawn in layer :math:`l` lies where a score of that layer vanishes, or where two
are level. The scores are affine functions on the layer cell in which the facet was drawn, so they are the
maps of the network cut off before that layer and followed by the matrix of its scores; one signature per
layer cell gives them all (:func:`float_rows`).
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd, inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.networks.layers import AffineLayer, ArgmaxLayer, Layer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, GROUP_BITS, KEY_BITS, Cells, Contacts, decode_wall
from hardmax.regions.maps.adjacency_kernels import by_group, name_groups
from hardmax.regions.maps.exact_maps import ExactMaps, Row, common_cone, is_positive, rays_in_space
from hardmax.regions.maps.float_maps import frozen, pattern_maps
from hardmax.regions.space import facet_kernels as kernels
from hardmax.regions.space.sizes import exact_area, room_for, shape_of

if TYPE_CHECKING:
    from hardmax.regions.space.geometry import SpaceGeometry

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_LAYER_SHIFT = GROUP_BITS + 2 * KEY_BITS
_HEAD_SHIFT = 2 * KEY_BITS
_MEMORY = 1 << 24  # entries of maps computed at once


def touching_cells(geometry: SpaceGeometry) -> Contacts:
    """All pairs of cells whose closures meet in dimension d - 1.

    In the result, ``lengths`` are the sizes of the common parts (negative codes where these are whole facets,
    or wanted in rationals, which are measured only when they are asked for: see :func:`sizes_of_contacts`),
    ``edges`` the facets on which two cells meet, and ``uncovered`` the facets beyond which no cell is listed.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network([hm.FeedForward([[1.0, 0.0, 0.0]], [0.0], [[1.0]], [0.0])])
    >>> halves = hm.enumerate_regions(net, hm.Box.cube(3, -1, 1))
    >>> halves.adjacency.tolist(), halves.adjacency_length.tolist()
    ([[0, 1]], [4.0])
    """
    search = _Search(geometry)
    search.flips()
    search.overlaps()
    search.misnamed()
    return search.contacts()


def sizes_of_contacts(geometry: SpaceGeometry, contacts: Contacts) -> Floats:
    """The (d - 1)-dimensional sizes of the common parts."""
    sizes = contacts.lengths.copy()
    for column, code in enumerate((kernels.FIRST_WHOLE, kernels.SECOND_WHOLE)):
        whole = np.flatnonzero(sizes == code)
        sizes[whole] = geometry.measured.areas[contacts.edges[whole, column]]
    common = _CommonParts(geometry)
    for k in np.flatnonzero(sizes == kernels.UNCLEAR).tolist():
        sizes[k] = common.size(*contacts.edges[k].tolist())
    return sizes


class _CommonParts:
    """The common parts of facets on one hyperplane, in rationals."""

    def __init__(self, geometry: SpaceGeometry) -> None:
        self.geometry = geometry
        self._cell_rows = lru_cache(4096)(self._true_rows)
        self._drawn: dict[tuple[int, int], tuple[Row, Row]] = {}  # rows by name, and turned around

    @cached_property
    def cell_of(self) -> Integers:
        """The cell of every facet."""
        return self.geometry.cells.facets.cell_of

    def row(self, f: int) -> Row:
        """The row of a facet as it was drawn, whatever side the cell is on."""
        return self._both(f)[0]

    def _both(self, f: int) -> tuple[Row, Row]:
        """The same, and its negative: it is that of every cell with a facet of this name."""
        cells = self.geometry.cells
        name = int(cells.owner[f]), int(cells.wall[f])
        if name not in self._drawn:
            row = drawn_row(cells, self.geometry.exact, int(self.cell_of[f]), f)
            self._drawn[name] = row, tuple(-v for v in row)
        return self._drawn[name]

    def _true_rows(self, i: int) -> list[Row]:
        """Rows of the distinct true facets of a cell, nonnegative on it, infinity included."""
        cells, exact, face = self.geometry.cells, self.geometry.exact, self.geometry.facets.face
        signature = cells.bits[i], cells.routings[i]
        return [
            self._both(f)[int(cells.owner[f] >= 0 and not is_positive(exact, int(cells.wall[f]), *signature))]
            for f in cells.facets.span(i)
            if face[f] == f
        ]

    def cone(self, f: int, g: int) -> RationalCone | None:
        """The common part of two facets; ``None`` if it is thinner."""
        here, there = (self._cell_rows(int(self.cell_of[k])) for k in (f, g))
        return common_cone(here, there, self.row(f), self.geometry.d)

    def size(self, f: int, g: int) -> float:
        """The size of the common part of two facets."""
        cone = self.cone(f, g)
        return 0.0 if cone is None else _cone_size(cone, self.row(f), self.geometry.d)


class _Search:
    """The true facets of all cells, and the contacts found so far."""

    def __init__(self, geometry: SpaceGeometry) -> None:
        self.geometry, self.cells, self.exact = geometry, geometry.cells, geometry.exact
        self.common = _CommonParts(geometry)
        self.d, self.face = geometry.d, geometry.facets.face
        cells = self.cells
        self.shape = shape_of(cells)
        self.owner, self.wall = cells.owner, cells.wall
        self.layers = _tables(self.exact.layers)
        self.side = np.zeros(len(cells.owner), dtype=np.int8)
        kernels.sides(self.shape, self.layers, self.side)
        for f in np.flatnonzero(self.side == 0).tolist():
            self.side[f] = self._side(f)
        self.found: list[tuple[Integers, Integers, Floats]] = []  # pairs of cells i < j, their facets, sizes
        self.left = np.zeros(0, dtype=np.int64)  # facets whose neighbours no lookup finds

    @property
    def cell_of(self) -> Integers:
        """The cell of every facet."""
        return self.common.cell_of

    # facets in floats

    def flips(self) -> None:
        """Neighbours whose signature differs in one entry across which nothing jumps."""
        cells = self.cells
        hashes = np.zeros(cells.n, dtype=np.uint64)
        slots = np.full(1 << (2 * max(cells.n, 4) - 1).bit_length(), -1, dtype=np.int64)
        kernels.hash_signatures(self.shape, hashes, slots)
        n = len(cells.owner)
        done = np.zeros(n, dtype=np.uint8)
        pairs, facets = np.empty((n, 2), dtype=np.int64), np.empty((n, 2), dtype=np.int64)
        sizes = np.empty(n)
        signature = (np.zeros(column.shape[1], dtype=column.dtype) for column in (cells.bits, cells.routings))
        count = kernels.match_flips(
            self.shape, self.layers, self.face, self.side, hashes, slots, *signature, done, pairs, facets,
            sizes,
        )  # fmt: skip
        self.found.append((pairs[:count], facets[:count], sizes[:count]))
        left = np.empty(n, dtype=np.int64)
        self.left = left[: kernels.remaining(self.shape, self.face, done, left)].copy()

    def overlaps(self) -> None:
        """Compare the facets on the two sides of every hyperplane."""
        cells = self.cells
        left = self.left
        if not len(left):
            return
        involved = np.zeros(cells.n, dtype=np.bool_)
        involved[self.cell_of[left]] = True
        needed = np.flatnonzero(involved[self.cell_of] & (self.face >= 0))
        rows = float_rows(cells, self.exact, self.cell_of, needed)
        drawn = kernels.Drawn(self.face, self.geometry.facets.far, self.side, *rows)
        start, order = self._grouped(left)
        scratch = room_for(cells, pairs=True)
        clipping = _clipping(len(scratch.points), self.d, 2 * cells.masks.content.shape[1])
        most = int(np.diff(start).max(initial=1))
        boxes, ranks = np.zeros((2, most, self.d)), np.zeros((2, most), dtype=np.int64)
        room = max(1024, 4 * len(left))
        at, numbers = 0, np.zeros(2, dtype=np.int64)
        undecided: list[tuple[int, int]] = []
        matched = np.zeros(len(self.face), dtype=np.uint8)
        while at < len(start) - 1:
            out = np.empty((room, 2), dtype=np.int64)
            sizes, open_ = np.empty(room), np.empty((room, 2), dtype=np.int64)
            numbers[:] = 0
            before = at
            at = kernels.overlay(
                start, order, at, self.cell_of, self.shape, self.layers, drawn, *boxes, *ranks, clipping,
                scratch, out, sizes, open_, numbers, matched,
            )  # fmt: skip
            found, more = numbers.tolist()
            self._keep(out[:found].copy(), sizes[:found].copy())
            undecided += open_[:more].tolist()
            if at == before:
                room *= 2
        self._decide([(f, g) for f, g in undecided if not matched[f] and not matched[g]])

    def _grouped(self, facets: Integers) -> tuple[Integers, Integers]:
        """Facets by name: where groups start, and facets in that order."""
        group, _ = named(self.owner[facets], self.wall[facets])
        start = np.zeros(int(group.max(initial=-1)) + 2, dtype=np.int64)
        order = np.empty(len(facets), dtype=np.int64)
        by_group(group, start, order)
        return start, facets[order]

    # in rationals

    def _side(self, f: int) -> int:
        row = self.geometry.facet_row(int(self.cell_of[f]), f)
        return 1 if row == self.common.row(f) else -1

    def _decide(self, pairs: list[tuple[int, int]]) -> None:
        """Decide pairs of facets on one hyperplane in rationals."""
        found = [
            (f, g) if self.cell_of[f] < self.cell_of[g] else (g, f)
            for f, g in pairs
            if self.common.cone(f, g) is not None
        ]
        if found:
            self._keep(np.array(found, dtype=np.int64), np.full(len(found), kernels.UNCLEAR))

    def _keep(self, facets: Integers, sizes: Floats) -> None:
        """Write down pairs of facets that overlap, the first of the cell with the lower number."""
        self.found.append((self.cell_of[facets], facets, sizes))

    def misnamed(self) -> None:
        """Walls whose two sides name different pairs of keys: compare exact hyperplanes."""
        kind = self.layers.table[self.wall[self.left] >> _LAYER_SHIFT, kernels.KIND]
        left = self.left[kind == kernels.WALL]
        if not len(left):
            return
        start, order = self._grouped(left)
        signs = self.side[order].astype(np.int64)
        low, high = np.minimum.reduceat(signs, start[:-1]), np.maximum.reduceat(signs, start[:-1])
        one_sided = np.repeat(low == high, np.diff(start))
        head = self.wall[order] >> _HEAD_SHIFT
        drawn, _ = named(self.owner[order], head)  # the same cell, the same head
        suspects = np.zeros(int(drawn.max()) + 1, dtype=np.bool_)
        suspects[drawn[one_sided]] = True
        planes: dict[tuple[int, ...], list[int]] = defaultdict(list)
        known: dict[tuple[int, int], Row] = {}
        for k in np.flatnonzero(suspects[drawn]).tolist():
            f = int(order[k])
            name = int(self.owner[f]), int(self.wall[f])
            if name not in known:
                known[name] = _normalised(self.common.row(f))
            planes[(int(drawn[k]), *known[name])].append(f)
        pairs = []
        for facets in planes.values():
            names = {(int(self.owner[f]), int(self.wall[f])) for f in facets}
            if len(names) < 2:
                continue
            above = [f for f in facets if self._above(f)]
            below = [f for f in facets if not self._above(f)]
            pairs += [
                (f, g) for f in above for g in below if self.wall[f] != self.wall[g] and self._near(f, g)
            ]
        self._decide(pairs)

    def _above(self, f: int) -> bool:
        """Whether a facet's cell lies on the positive side of its normalised hyperplane."""
        row = self.geometry.facet_row(int(self.cell_of[f]), f)
        return next(v for v in row if v) > 0

    def _near(self, f: int, g: int) -> bool:
        """Whether the boxes of two facets meet, as far as floats can tell."""
        boxes = [self._box(f), self._box(g)]
        return bool((boxes[0][0] <= boxes[1][1]).all() and (boxes[1][0] <= boxes[0][1]).all())

    def _box(self, f: int) -> tuple[Floats, Floats]:
        i, cells = int(self.cell_of[f]), self.cells
        everywhere = np.full(self.d, -inf), np.full(self.d, inf)
        s = f - int(cells.facets.offsets[i])
        rays = np.arange(cells.vertices.offsets[i], cells.vertices.offsets[i + 1])
        rays = rays[(cells.masks.content[rays, s // 64] >> np.uint64(s % 64)) & np.uint64(1) != 0]
        e, w = cells.ray_error[rays], cells.rays[rays, -1]
        if cells.free[i] or self.geometry.facets.far[rays].any() or not (w > 2.0 * e).all():
            return everywhere
        points = cells.rays[rays, :-1] / w[:, None]
        slack = (2.0 * e * (1.0 + np.abs(points).max(axis=1)) / w)[:, None] + 2.0**-50 * np.abs(points)
        return (points - slack).min(axis=0), (points + slack).max(axis=0)

    # result

    def contacts(self) -> Contacts:
        """Everything that was found: each pair once, in lexicographic order."""
        pairs, facets, sizes = self.found[0]
        uncovered = self.left
        if len(self.found) > 1:
            met = np.zeros(len(self.face), dtype=np.bool_)
            met[self.face[np.concatenate([overlapping for _, overlapping, _ in self.found[1:]])]] = True
            uncovered = uncovered[~met[self.face[uncovered]]]
            pairs, facets, sizes = (np.concatenate(parts) for parts in zip(*self.found, strict=True))
        n = len(pairs)
        start, order = np.zeros(self.cells.n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
        kept = Contacts(
            np.empty((n, 2), dtype=np.int64), np.empty(n, dtype=np.uint8), np.empty(n),
            np.empty((n, 2), dtype=np.int64), uncovered,
        )  # fmt: skip
        jumps = np.array([*(layer.jumps for layer in self.exact.layers), False], dtype=np.uint8)
        count = kernels.sort_contacts(
            self.shape, jumps, pairs, facets, sizes, start, order, kept.pairs, kept.edges, kept.lengths,
            kept.kinds,
        )  # fmt: skip
        result = Contacts(
            kept.pairs[:count], kept.kinds[:count], kept.lengths[:count], kept.edges[:count], uncovered
        )
        for array in result:
            array.setflags(write=False)
        return result


def _clipping(rays: int, d: int, words: int) -> kernels.Clipping:
    """Room to clip facets: for so many rays, marked with so many words."""
    cut, spare = np.zeros((2, rays, d + 1))
    marks, spare_marks = np.zeros((2, rays, words), dtype=np.uint64)
    events = np.zeros(2, dtype=np.int64)
    return kernels.Clipping(cut, marks, np.zeros(rays), spare, spare_marks, events, np.zeros(d + 1))


def _tables(layers: tuple[Layer, ...]) -> kernels.Layers:
    """What kernels need to know about layers: kinds, units and heads before, keys and classes of outputs."""
    from hardmax.regions.maps.adjacency import _classes

    table = np.zeros((max(len(layers), 1), kernels.LAYER_COLUMNS), dtype=np.int64)
    keys: list[Integers] = []
    classes: list[Integers] = []
    n_keys = 0
    last = max((k for k, layer in enumerate(layers) if layer.cuts), default=-1)
    heads_before = 0
    for k, layer in enumerate(layers):
        if layer.units:
            table[k] = kernels.FOLD, layer.unit_slice.start, 0, 0, heads_before
        elif isinstance(layer, ArgmaxLayer):
            table[k] = kernels.WALL, layer.first_head, n_keys, int(k == last), layer.first_head
            heads_before = layer.head_slice.stop
            keys.append(np.asarray(layer.key, dtype=np.int64))
            bends = not layer.jumps  # the winning score goes on: nothing jumps
            classes.append(np.zeros(len(layer.key), np.int64) if bends else _classes(layer.outputs))
            n_keys += len(layer.key)
    nothing = [np.zeros(1, dtype=np.int64)]
    return kernels.Layers(table, np.concatenate(keys or nothing), np.concatenate(classes or nothing))


def _normalised(row: Row) -> Row:
    """A row in lowest terms whose first nonzero entry is positive: one for each hyperplane."""
    divisor = gcd(*row)
    if next(v for v in row if v) < 0:
        divisor = -divisor
    return tuple(v // divisor for v in row)


def _cone_size(cone: RationalCone, row: Row, d: int) -> float:
    """The size of a common part, from its exact vertices; infinite if it is unbounded."""
    if cone.lines:
        return inf
    rays = rays_in_space(cone, row)
    if any(ray[-1] == 0 for ray in rays):
        return inf
    points = [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in rays]
    sets = [sum(1 << k for k, m in enumerate(cone.masks) if m >> s & 1) for s in range(len(cone.facets))]
    return exact_area(points, sets, d)


def named(owner: Integers, wall: Integers) -> tuple[Integers, Integers]:
    """Number the names (owner, wall) in order of appearance, and say where each appears first.

    >>> named(np.array([5, 5, 7, 5]), np.array([1, 2, 1, 1]))
    (array([0, 1, 2, 0]), array([0, 1, 2]))
    """
    n = len(owner)
    slots = np.full(1 << (2 * max(n, 4) - 1).bit_length(), -1, dtype=np.int64)
    group, representative = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    count = name_groups(frozen(owner), frozen(wall), slots, group, representative)
    return group, representative[:count].copy()


def drawn_row(cells: Cells, exact: ExactMaps, i: int, f: int) -> Row:
    """The exact row of facet f of cell i as it was drawn, whatever side the cell is on."""
    owner, wall = int(cells.owner[f]), int(cells.wall[f])
    if owner == AT_INFINITY:
        return (0,) * exact.d + (1,)
    if owner == DOMAIN_SIDE:
        return exact.domain_line(wall)
    return exact.line(*decode_wall(wall), cells.bits[i], cells.routings[i])


def float_rows(
    cells: Cells, exact: ExactMaps, cell_of: Integers, facets: Integers
) -> tuple[Integers, Floats, Floats]:
    """Rows of facets as they were drawn, scaled to entries of about 1.

    Returns
    -------
    row_of : int64 (F,)
        Which row belongs to a facet; -1 for facets that were not asked for.
    rows : float64 (names, d + 1)
    errors : float64 (names,)
        A bound on the error of every entry of a row.
    """
    group, representative = named(cells.owner[facets], cells.wall[facets])
    row_of = np.full(len(cells.owner), -1, dtype=np.int64)
    row_of[facets] = group
    rows, errors = np.zeros((len(representative), exact.d + 1)), np.zeros(len(representative))
    chosen = facets[representative]
    layer = np.where(cells.owner[chosen] >= 0, cells.wall[chosen] >> _LAYER_SHIFT, -1)
    untied = cells.tied[cell_of[chosen]] == 0
    plain = np.zeros(len(chosen), dtype=np.bool_)
    for number, block in enumerate(exact.layers):
        here = np.flatnonzero((layer == number) & untied)
        plain[here] = True
        if len(here) and block.cuts:
            rows[here], errors[here] = _drawn_in(number, block, cells, exact, cell_of, chosen[here])
    for k in np.flatnonzero(~plain | ~np.isfinite(errors)).tolist():
        row = drawn_row(cells, exact, int(cell_of[chosen[k]]), int(chosen[k]))
        top = max(abs(v) for v in row)
        rows[k] = [v / top for v in row]
        errors[k] = 2.0**-52
    return row_of, rows, errors


def _drawn_in(
    number: int, block: Layer, cells: Cells, exact: ExactMaps, cell_of: Integers, facets: Integers
) -> tuple[Floats, Floats]:
    """Rows of facets drawn in one layer; the error is infinite where floats overflow."""
    scores = block.scores if block.scores is not None else ExactArray(np.eye(block.d_in))
    layers = (*exact.layers[:number], AffineLayer(scores, block.biases))
    wall = cells.wall[facets]
    unit = (wall >> _HEAD_SHIFT) & ((1 << GROUP_BITS) - 1)
    a, b = (wall >> KEY_BITS) & ((1 << KEY_BITS) - 1), wall & ((1 << KEY_BITS) - 1)
    owners, first, which = np.unique(cells.owner[facets], return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    start = np.searchsorted(which[order], np.arange(len(owners) + 1))
    rows, errors = np.empty((len(facets), exact.d + 1)), np.empty(len(facets))
    step = max(1, _MEMORY // (scores.shape[0] * (exact.d + 1)))
    for begin in range(0, len(owners), step):
        end = min(begin + step, len(owners))
        part = order[start[begin] : start[end]]
        cell = cell_of[facets[first[begin:end]]]
        maps = pattern_maps(
            layers,
            np.ascontiguousarray(cells.bits[cell]),
            np.ascontiguousarray(cells.routings[cell]),
            np.zeros(len(cell), dtype=np.uint8),
            exact,
        )
        table = np.concatenate([maps.linear, maps.offset[:, :, None]], axis=2)
        at = which[part] - begin
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if block.units:
                values, bound = table[at, unit[part]], maps.error[at]
            else:
                values = table[at, b[part]] - table[at, a[part]]
                bound = 2.0 * maps.error[at] + 2.0**-52 * np.abs(values).max(axis=1)
            top = np.abs(values).max(axis=1)
            top = np.ldexp(1.0, np.frexp(top)[1])  # a power of two: scaling rounds nothing
            rows[part] = values / top[:, None]
            good = np.isfinite(rows[part]).all(axis=1) & (top > 1e-290)
            errors[part] = np.where(good, bound / top, inf)
    return rows, errors
