r"""What a picture of regions draws: polygons, segments between them with a width for each, and colours.

Everything here is in floats, for the eye only. Vertices at infinity are put far outside the part of the plane
that is shown, and polygons that reach too far are cut off. A line may be as wide as a fixed share of the room
around it: the thickness :math:`2A/P` (area, perimeter) of the cells of the network *up to the layer that drew
the line*. So the few lines of early layers stay strong where deep layers cut thousands of small cells, and
lines with no room are not drawn at all.

Colours are similar for similar affine maps, or different for neighbouring regions. By map: the maps, as
vectors of slopes and values, are projected onto their three main directions (principal components, weighted
by area); the first two become the colour, the third the lightness, in the perceptual colour space Oklab, so
that equal steps look equally large. Equal maps get equal colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from hardmax.geometry.domains import Box
from hardmax.plotting.classes import Palette
from hardmax.plotting.diagrams import clipped
from hardmax.plotting.style import FILLS, INK, different_neighbours
from hardmax.regions.cells import DOMAIN_SIDE, Cells, encode_wall
from hardmax.regions.maps.float_maps import projected_maps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hardmax.regions.result import RegionSet


MANY = 2_000
"""Cells beyond which a picture is pixels."""


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LAYER_AT = encode_wall(1, 0).bit_length() - 1  # where the code of a line keeps its layer
_FAR = 20.0  # polygons that reach further than this many box widths are cut off
_SHARE = {"wall": 0.2, "fold": 0.1}  # of the room around a line that it may take
_THINNEST = 0.09  # points; thinner lines are not drawn
_BOUNDARY = 2.2  # points, of decision boundaries
_SIZES = (4, 6, 10, 24)  # polygons are drawn from arrays; up to so many corners fit into one

_LIGHTNESS, _CHROMA = 0.82, 0.073  # calm enough for black and white lines on top
_WIDE = 8  # networks with more outputs are coloured by two combinations of them
_FILLS = FILLS[:7] + FILLS[8:]  # olive beside its lighter sister is hard to tell in small cells
_SOFT = 0.3  # share of white in the colours of regions


def box_shown(result: RegionSet) -> Box:
    """The part of the plane or line that a picture shows by default: the domain, or its busy part."""
    if isinstance(result.domain, Box):
        return result.domain
    points = result.vertices if len(result.vertices) else result.witnesses
    if result.bounded.all():
        low, high = points.min(axis=0), points.max(axis=0)
        return Box(low.tolist(), high.tolist())
    centre = np.median(points, axis=0)
    radius = 1.3 * float(np.quantile(np.abs(points - centre).max(axis=1), 0.75))
    if not radius > 0.0:  # one vertex, or none
        radius = max(1.0, float(np.abs(centre).max()))
    return Box((centre - radius).tolist(), (centre + radius).tolist())


@dataclass(frozen=True, eq=False)
class Shapes:
    """The polygons of some cells in the plane.

    Attributes
    ----------
    result : RegionSet
    box : Box
        What is shown.
    corners : float64 (E, 2)
        The start of every edge of every cell; vertices at infinity have been put far out.
    cut : dict
        The corners of the cells that reach so far that they had to be cut off.
    areas : float64 (n,)
        Of the cells, as far as they lie near the box.
    """

    result: RegionSet
    box: Box
    corners: Floats
    cut: dict[int, Floats]
    areas: Floats

    @classmethod
    def of(cls, result: RegionSet, box: Box) -> Shapes:
        """The shapes of a result, as seen in a box."""
        cells = result.cells
        corners = cells.vertices.content[:, :2]
        if cells.unbounded:
            seen = np.abs(np.concatenate([box.low.floats, box.high.floats])).max()
            reach = 1e3 * (seen + float(np.abs(corners).max(initial=0.0)))
            corners = corners + reach * cells.vertices.content[:, 3:]
        start = cells.facets.offsets[:-1]
        low, high = np.minimum.reduceat(corners, start), np.maximum.reduceat(corners, start)
        bottom, top = _widened(box, _FAR)
        near = _widened(box, 1.0)
        frame = Box(near[0].tolist(), near[1].tolist())
        far = ((low < bottom) | (high > top)).any(axis=1)
        far &= ((high > near[0]) & (low < near[1])).all(axis=1)
        cut = {
            i: clipped(corners[cells.facets.offsets[i] : cells.facets.offsets[i + 1]], frame)
            for i in np.flatnonzero(far).tolist()
        }
        # around the first corner, so that a small cell far out keeps its digits
        x, y = (corners - np.repeat(corners[start], cells.facets.counts, axis=0)).T
        after = _next_edge(cells.facets.offsets)
        areas = 0.5 * np.add.reduceat(x * y[after] - y * x[after], start)
        for i, polygon in cut.items():
            u, v = polygon.T if len(polygon) else np.zeros((2, 1))
            areas[i] = 0.5 * float(u @ np.roll(v, -1) - v @ np.roll(u, -1))
        return cls(result, box, corners, cut, np.clip(areas, 0.0, frame.volume))

    @property
    def cells(self) -> Cells:
        """The polygons as they were stored."""
        return self.result.cells

    # Areas
    # ------------------------------------------------------------------------------------------------------

    def polygons(self) -> Iterator[tuple[Integers, Floats]]:
        """The cells in sight, in a few arrays: their numbers, and their corners of shape (n, k, 2).

        Polygons of an array that have fewer corners repeat their last one.
        """
        start, sizes = self.cells.facets.offsets[:-1], self.cells.facets.counts
        low, high = np.minimum.reduceat(self.corners, start), np.maximum.reduceat(self.corners, start)
        seen: Any = ((high > self.box.low.floats) & (low < self.box.high.floats)).all(axis=1)
        for i, corners in self.cut.items():
            if seen[i] and len(corners) > 2:
                yield np.array([i]), corners[None]
        seen[list(self.cut)] = False
        fewest = 0
        for most in (*_SIZES, int(sizes.max(initial=0))):
            chosen = np.flatnonzero(seen & (sizes > fewest) & (sizes <= most))
            fewest = most
            if len(chosen):
                k = int(sizes[chosen].max())
                edges = start[chosen, None] + np.minimum(np.arange(k), sizes[chosen, None] - 1)
                yield chosen, self.corners[edges]

    # Lines
    # ------------------------------------------------------------------------------------------------------

    def contacts(self) -> tuple[Floats, Integers]:
        """The segments (P, 2, 2) in which adjacent cells meet, and the layer that drew each."""
        contacts: Any = self.result._contacts
        after = _next_edge(self.cells.facets.offsets)
        here, there = contacts.edges.T
        begin = self.corners[here]
        run = self.corners[after[here]] - begin
        length = np.hypot(*run.T)
        along = run / np.where(length > 0.0, length, 1.0)[:, None]
        ends = [((self.corners[edge] - begin) * along).sum(axis=1) for edge in (there, after[there])]
        low, high = np.clip(np.minimum(*ends), 0.0, length), np.clip(np.maximum(*ends), 0.0, length)
        segments = begin[:, None] + np.stack([low, high], axis=1)[..., None] * along[:, None]
        return _shortened(segments, self.box), self.cells.wall[here] >> _LAYER_AT

    def outline(self) -> Floats:
        """The segments (S, 2, 2) on the boundary of the domain."""
        sides = np.flatnonzero(self.cells.owner == DOMAIN_SIDE)
        after = _next_edge(self.cells.facets.offsets)
        return np.stack([self.corners[sides], self.corners[after[sides]]], axis=1)

    def widths(self, layers: Integers, points_per_unit: float) -> Floats:
        """How wide each contact may be drawn, in points; 0 where it is not drawn."""
        contacts: Any = self.result._contacts
        widths = np.zeros(len(layers))
        for layer, thickness in self._thickness().items():
            chosen = np.flatnonzero(layers == layer)
            both = thickness[contacts.pairs[chosen]]
            drawn = self.result._exact_maps.layers[layer]
            share = _SHARE["wall" if drawn.jumps else "fold"]
            widths[chosen] = share * points_per_unit * both.min(axis=1)
        widths[widths < _THINNEST] = 0.0
        return widths

    def _thickness(self) -> dict[int, Floats]:
        """For each layer: how thick the cell of the network up to that layer is around each cell.

        Cells are sorted by signature, layer by layer, so those that agree up to a layer follow each other.
        """
        cells, layers = self.cells, self.result._exact_maps.layers
        n = cells.n
        after = _next_edge(cells.facets.offsets)
        edges = _shortened(np.stack([self.corners, self.corners[after]], axis=1), self.box)
        lengths = np.hypot(*(edges[:, 1] - edges[:, 0]).T)
        drawn_in = np.where(cells.owner < 0, -1, cells.wall >> _LAYER_AT)
        first = np.zeros(n, dtype=np.bool_)
        first[:1] = True
        found: dict[int, Floats] = {}
        for i, layer in enumerate(layers):
            if layer.heads:
                winners = cells.routings[:, layer.head_slice]
                first[1:] |= (winners[1:] != winners[:-1]).any(axis=1)
            elif layer.units:
                first[1:] |= _differ(cells.bits, layer.unit_slice.start, layer.unit_slice.stop)
            else:
                continue
            groups = np.flatnonzero(first)
            around = np.add.reduceat(np.where(drawn_in <= i, lengths, 0.0), cells.facets.offsets[:-1])
            area, perimeter = np.add.reduceat(self.areas, groups), np.add.reduceat(around, groups)
            thickness = 2.0 * area / np.where(perimeter > 0.0, perimeter, 1.0)
            found[i] = np.repeat(thickness, np.diff(np.append(groups, n)))
        return found


def line_kinds(
    result: RegionSet, region: Integers, *, by_class: bool = False
) -> dict[str, NDArray[np.bool_]]:
    """Which lines between cells are folds, which are walls, and which lie inside a region (in this order).

    ``region`` says which region each cell belongs to; -1 where that is not known. Of cells that are cut
    ``by_class``, lines between two classes come last.
    """
    both = region[result.adjacency]
    seams = (both[:, 0] == both[:, 1]) & (both[:, 0] >= 0)
    walls = result.adjacency_kind == 1
    kinds = {"fold": ~walls & ~seams, "wall": walls & ~seams, "seam": seams}
    if by_class:
        i, j = result.routings[result.adjacency, -1].T
        kinds = {kind: chosen & (i == j) for kind, chosen in kinds.items()} | {"boundary": i != j}
    return kinds


def line_look(kind: str, room: Floats, wall: float, fold: float) -> dict[str, Any]:
    """How lines of a kind are drawn: as wide as there is room, but no wider than walls or folds are."""
    if kind == "boundary":  # what the picture is about: as wide everywhere
        return {"colors": INK, "linewidths": _BOUNDARY}
    return {
        "colors": INK if kind == "wall" else "white",
        "linewidths": np.minimum(room, wall if kind == "wall" else fold).round(2),
        "linestyles": (0, (1, 2)) if kind == "seam" else "solid",
    }


def _widened(box: Box, widths: float) -> tuple[Floats, Floats]:
    """The corners of a box with some of its widths added on every side."""
    width = widths * (box.high.floats - box.low.floats)
    return box.low.floats - width, box.high.floats + width


def _shortened(segments: Floats, box: Box) -> Floats:
    """Segments (S, 2, 2) cut to the surroundings of a box; those that do not meet them lose their length."""
    low, high = _widened(box, 1.0)
    begin, run = segments[:, 0], segments[:, 1] - segments[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        enter, leave = (low - begin) / run, (high - begin) / run
    first, last = np.minimum(enter, leave), np.maximum(enter, leave)
    still = run == 0.0  # parallel to a side: inside or outside all along
    inside = (begin >= low) & (begin <= high)
    first = np.where(still, np.where(inside, 0.0, 1.0), first).max(axis=1).clip(0.0, 1.0)
    last = np.where(still, np.where(inside, 1.0, 0.0), last).min(axis=1).clip(0.0, 1.0)
    last = np.maximum(first, last)
    return begin[:, None] + np.stack([first, last], axis=1)[..., None] * run[:, None]


def _next_edge(edge_start: Integers) -> Integers:
    after = np.arange(1, int(edge_start[-1]) + 1)
    after[edge_start[1:] - 1] = edge_start[:-1]
    return after


def _differ(bits: NDArray[np.uint64], first: int, last: int) -> NDArray[np.bool_]:
    """Whether the bits of units ``first`` to ``last`` differ between each cell and the next."""
    found = np.zeros(len(bits) - 1, dtype=np.bool_)
    for word in range(first // 64, -(-last // 64)):
        low, high = max(first - 64 * word, 0), min(last - 64 * word, 64)
        mask = np.uint64(((1 << high) - 1) & ~((1 << low) - 1))
        found |= (bits[1:, word] ^ bits[:-1, word]) & mask != 0
    return found


def cell_colours(result: RegionSet, box: Box, areas: Floats, colour: str) -> Floats:
    """One colour (red, green, blue) per cell, by map, region, cell or class."""
    if colour == "map":
        return map_colours(result, box, areas)
    if colour == "class":
        classes = result.routings[:, -1].astype(np.int64)
        return Palette(classes, result.plain.blocks[-1].n_tokens).areas(classes)
    return region_colours(result, result.region_of_cell if colour == "region" else np.arange(result.n_cells))


def map_colours(result: RegionSet, box: Box, areas: Floats) -> Floats:
    """One colour (red, green, blue) per cell; the more alike two maps, the more alike their colours.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> found = hm.enumerate_regions(hm.Network.random_mlp([2, 3, 1], 0), hm.Box.cube(2, -4, 4))
    >>> colours = map_colours(found, found.domain, found.volumes)
    >>> colours.shape == (found.n_cells, 3), bool((colours >= 0).all() and (colours <= 1).all())
    (True, True)
    """
    maps = _features(result, box)
    weights = areas / areas.sum() if areas.sum() > 0.0 else np.full(len(maps), 1.0 / max(len(maps), 1))
    maps = maps - weights @ maps
    spread, axes = np.linalg.eigh((maps * weights[:, None]).T @ maps)
    axes = axes[:, ::-1][:, :3]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    spread = spread[::-1][:3]
    main = np.zeros((len(maps), 3))
    shown = spread > 1e-18 * max(float(spread[0]), 1e-300)
    main[:, : len(spread)][:, shown] = (maps @ axes)[:, shown] / np.sqrt(spread[shown])
    # neighbouring maps are often close: a ripple in lightness, itself a function of the map, tells them apart
    ripple = np.abs((main @ np.array([7.3, 5.1, 3.7])) % 2.0 - 1.0) - 0.5
    first, second, third = np.tanh(0.8 * main).T
    return _rgb(_LIGHTNESS + 0.04 * third + 0.05 * ripple, _CHROMA * first, _CHROMA * second)


def _features(result: RegionSet, box: Box) -> Floats:
    """Slopes over half the box and the value in its middle, one row per cell."""
    if result.network.d_out <= _WIDE:
        linear, offset = result.linear, result.offset
    else:
        cells, exact = result.cells, result._exact_maps
        maps: Any = projected_maps(exact.layers, cells.bits, cells.routings, cells.tied, exact)
        linear, offset = maps.linear[:, :, : result.d], maps.offset
    middle = (box.low.floats + box.high.floats) / 2
    half = (box.high.floats - box.low.floats) / 2
    slopes = (linear * half).reshape(len(linear), -1)
    return np.concatenate([slopes, linear @ middle + offset], axis=1)


def _rgb(lightness: Floats, a: Floats, b: Floats) -> Floats:
    """From Oklab to sRGB (Ottosson 2020)."""
    cones = [
        lightness + 0.3963377774 * a + 0.2158037573 * b,
        lightness - 0.1055613458 * a - 0.0638541728 * b,
        lightness - 0.0894841775 * a - 1.2914855480 * b,
    ]
    linear = np.stack(cones, axis=-1) ** 3 @ np.array(
        [
            [4.0767416621, -1.2684380046, -0.0041960863],
            [-3.3077115913, 2.6097574011, -0.7034186147],
            [0.2309699292, -0.3413193965, 1.7076147010],
        ]
    )
    linear = np.clip(linear, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def region_colours(result: RegionSet, region: Integers) -> Floats:
    """One colour (red, green, blue) per cell: one per region, neighbouring regions in different ones.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.enumerate_regions(hm.Network.random_mlp([2, 3, 1], 0), hm.Box.cube(2, -4, 4))
    >>> colours = region_colours(found, found.region_of_cell)
    >>> all((colours[i] != colours[j]).any() for i, j in found.adjacency)
    True
    """
    palette = np.array([to_rgb(fill) for fill in _FILLS])
    palette = palette + _SOFT * (1.0 - palette)
    pairs = np.unique(region[result.adjacency], axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    chosen = different_neighbours(int(region.max(initial=-1)) + 1, pairs, len(palette))
    return palette[np.array(chosen, dtype=np.int64)[region]]
