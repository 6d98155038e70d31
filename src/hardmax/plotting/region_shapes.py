r"""What a picture of regions draws: polygons, and the segments between them with a width for each.

Everything here is in floats, for the eye only. Vertices at infinity are put far outside the part of the plane
that is shown, and polygons that reach too far are cut off. A line may be as wide as a fixed share of the room
around it: the thickness :math:`2A/P` (area, perimeter) of the cells of the network *up to the layer that drew
the line*. So the few lines of early layers stay strong where deep layers cut thousands of small cells, and
lines with no room are not drawn at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.domains import Box
from hardmax.networks.groups import FoldLayer, WallLayer
from hardmax.plotting.tropical import clipped
from hardmax.regions.cells import DOMAIN_SIDE, encode_wall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hardmax.regions.region_set import RegionSet

__all__ = ["Shapes", "box_shown"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LAYER_AT = encode_wall(1, 0).bit_length() - 1  # where the code of a line keeps its layer
_FAR = 20.0  # polygons that reach further than this many box widths are cut off
_SHARE = 0.15  # of the room around a line that it may take
_THINNEST = 0.08  # points; thinner lines are not drawn
_SIZES = (4, 6, 10, 24)  # polygons are handed over in arrays; up to so many corners fit into one


def box_shown(result: RegionSet) -> Box:
    """The part of the plane or line that a picture shows unless it is told: the domain, or its busy part."""
    if isinstance(result.domain, Box):
        return result.domain
    points = result.vertices if len(result.vertices) else result.witnesses
    if result.bounded.all():
        low, high = points.min(axis=0), points.max(axis=0)
        return Box(low.tolist(), high.tolist())
    centre = np.median(points, axis=0)
    radius = 1.3 * float(np.quantile(np.abs(points - centre).max(axis=1), 0.9))
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
    areas : float64 (n,)
        Of the part of a cell near the box.
    """

    result: RegionSet
    box: Box
    corners: Floats
    areas: Floats
    perimeters: Floats

    @classmethod
    def of(cls, result: RegionSet, box: Box) -> Shapes:
        """The shapes of a result, as seen in a box."""
        cells = result.cells
        corners = np.column_stack([cells.vx, cells.vy])
        if cells.dx is not None and cells.dy is not None:
            seen = np.abs(np.concatenate([box.low.floats, box.high.floats])).max()
            reach = 1e3 * (seen + float(np.abs(corners).max(initial=0.0)))
            corners = corners + reach * np.column_stack([cells.dx, cells.dy])
        # thickness is judged by what is near the box
        width = box.high.floats - box.low.floats
        near = np.clip(corners, box.low.floats - width, box.high.floats + width)
        start, after = cells.edge_start[:-1], _next_edge(cells.edge_start)
        origin = np.repeat(near[start], np.diff(cells.edge_start), axis=0)
        x, y = (near - origin).T
        areas = 0.5 * np.add.reduceat(x * y[after] - y * x[after], start)
        perimeters = np.add.reduceat(np.hypot(x[after] - x, y[after] - y), start)
        return cls(result, box, corners, np.maximum(areas, 0.0), perimeters)

    # Areas
    # ------------------------------------------------------------------------------------------------------

    def polygons(self) -> Iterator[tuple[Integers, Floats]]:
        """The cells in sight, in a few arrays: their numbers, and their corners of shape (n, k, 2).

        Polygons of an array that have fewer corners repeat their last one.
        """
        start, sizes = self.result.cells.edge_start[:-1], np.diff(self.result.cells.edge_start)
        low, high = (getattr(np, name).reduceat(self.corners, start) for name in ("minimum", "maximum"))
        width = self.box.high.floats - self.box.low.floats
        seen = ((high > self.box.low.floats) & (low < self.box.high.floats)).all(axis=1)
        far = ((high > self.box.high.floats + _FAR * width) | (low < self.box.low.floats - _FAR * width)).any(axis=1)
        for i in np.flatnonzero(seen & far).tolist():
            corners = clipped(self.corners[start[i] : start[i] + sizes[i]], self._around())
            if len(corners) > 2:
                yield np.array([i]), corners[None]
        fewest = 0
        for most in (*_SIZES, int(sizes.max(initial=0))):
            chosen = np.flatnonzero(seen & ~far & (sizes > fewest) & (sizes <= most))
            fewest = most
            if len(chosen):
                k = int(sizes[chosen].max())
                edges = start[chosen, None] + np.minimum(np.arange(k), sizes[chosen, None] - 1)
                yield chosen, self.corners[edges]

    def _around(self) -> Box:
        width = self.box.high.floats - self.box.low.floats
        return Box((self.box.low.floats - width).tolist(), (self.box.high.floats + width).tolist())

    # Lines
    # ------------------------------------------------------------------------------------------------------

    def contacts(self) -> tuple[Floats, Integers]:
        """The segments (P, 2, 2) in which adjacent cells meet, and the layer that drew each."""
        contacts: Any = self.result._contacts
        after = _next_edge(self.result.cells.edge_start)
        here, there = contacts.edges.T
        begin = self.corners[here]
        run = self.corners[after[here]] - begin
        length = np.hypot(*run.T)
        along = run / np.where(length > 0.0, length, 1.0)[:, None]
        ends = [((self.corners[edge] - begin) * along).sum(axis=1) for edge in (there, after[there])]
        low, high = np.clip(np.minimum(*ends), 0.0, length), np.clip(np.maximum(*ends), 0.0, length)
        segments = begin[:, None] + np.stack([low, high], axis=1)[..., None] * along[:, None]
        return segments, self.result.cells.wall[here] >> _LAYER_AT

    def outline(self) -> Floats:
        """The segments (S, 2, 2) on the boundary of the domain."""
        sides = np.flatnonzero(self.result.cells.owner == DOMAIN_SIDE)
        after = _next_edge(self.result.cells.edge_start)
        return np.stack([self.corners[sides], self.corners[after[sides]]], axis=1)

    def widths(self, layers: Integers, points_per_unit: float) -> Floats:
        """How wide each contact may be drawn, in points; 0 where it is not drawn."""
        contacts: Any = self.result._contacts
        widths = np.zeros(len(layers))
        for layer, thickness in self._thickness().items():
            chosen = np.flatnonzero(layers == layer)
            both = thickness[contacts.pairs[chosen]]
            widths[chosen] = _SHARE * points_per_unit * both.min(axis=1)
        widths[widths < _THINNEST] = 0.0
        return widths

    def _thickness(self) -> dict[int, Floats]:
        """For each layer: how thick the cell of the network up to that layer is around each cell.

        Cells are sorted by signature, layer by layer, so those that agree up to a layer follow each other.
        """
        cells, layers = self.result.cells, self.result._exact_maps.layers
        n = cells.n
        after = _next_edge(cells.edge_start)
        width = self.box.high.floats - self.box.low.floats
        near = np.clip(self.corners, self.box.low.floats - width, self.box.high.floats + width)
        lengths = np.hypot(*(near[after] - near).T)
        drawn_in = np.where(cells.owner < 0, -1, cells.wall >> _LAYER_AT)
        first = np.zeros(n, dtype=np.bool_)
        first[:1] = True
        found: dict[int, Floats] = {}
        for i, layer in enumerate(layers):
            if isinstance(layer, WallLayer):
                winners = cells.routings[:, layer.first_head : layer.first_head + layer.heads]
                first[1:] |= (winners[1:] != winners[:-1]).any(axis=1)
            elif isinstance(layer, FoldLayer):
                first[1:] |= _differ(cells.bits, layer.first_unit, layer.first_unit + layer.units)
            else:
                continue
            groups = np.flatnonzero(first)
            around = np.add.reduceat(np.where(drawn_in <= i, lengths, 0.0), cells.edge_start[:-1])
            area, perimeter = np.add.reduceat(self.areas, groups), np.add.reduceat(around, groups)
            thickness = 2.0 * area / np.where(perimeter > 0.0, perimeter, 1.0)
            found[i] = np.repeat(thickness, np.diff(np.append(groups, n)))
        return found


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
