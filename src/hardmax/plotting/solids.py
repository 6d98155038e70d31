r"""Cells in space, cut open: a box without one octant, and parallel slices through it.

What is seen of a solid are plane sections, and the sections of cells are cells of the network restricted to
the plane: they are enumerated there, exactly, and coloured by the cell in space whose signature they have.
Seen from the missing octant, no face of the open box covers another one, so nothing has to be sorted. Colours
and lines are those of the plane: black walls, white folds, thinner where there is less room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection
from numpy.typing import NDArray

from hardmax.errors import EmptyDomainError, InvalidInputError
from hardmax.geometry.domains import Box, Polytope
from hardmax.plotting.captions import axis_names, counted, explain
from hardmax.plotting.region_shapes import (
    MANY,
    Shapes,
    box_shown,
    cell_colours,
    line_kinds,
    line_look,
)
from hardmax.plotting.style import INK, new_figure, size_in_points, styled, towards_eye
from hardmax.regions.api import enumerate_regions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.regions.result import RegionSet

Floats = NDArray[np.float64]

_VIEW = (24.0, 38.0)  # elevation and azimuth, degrees: from the octant that is missing
_SHADES = (0.94, 0.86, 1.0)  # of faces across the first, second and third axis
_UNLISTED = to_rgb("#FFFFFF")
_WALL, _FOLD = 1.2, 0.7  # points, where there is room
_SLICES = 5
_SOFTER = 0.72  # lines on a tilted face have less room than on the page


def draw_solid(
    result: RegionSet,
    *,
    ax: Axes | None = None,
    box: Box | None = None,
    colour: str = "map",
    title: str | None = None,
    legend: bool | None = None,
    handles: Sequence[Any] = (),
) -> Axes:
    """Draw cells in space: the box cut open and, in a new figure, parallel slices beside it.

    Parameters
    ----------
    result : RegionSet
        In three dimensions.
    ax : matplotlib Axes, optional
        Where to draw, with ``projection="3d"``; a new figure with two panels otherwise.
    box, colour, title, legend
        As in :func:`~hardmax.plotting.regions.draw_regions`; of colour "class" are cells that are cut by
        class.
    handles : sequence
        What the legend says first.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network([hm.FeedForward([[1.0, 1.0, 1.0]], [0.0], [[1.0]], [0.0])])
    >>> axes = draw_solid(hm.enumerate_regions(net, hm.Box.cube(3, -1, 1)))
    >>> axes.get_title(), len(axes.figure.axes)
    ('2 cells, 2 regions', 2)
    """
    shown = box_shown(result) if box is None else box
    colours, by_class = _colours(result, shown, colour), colour == "class"
    legend = ax is None if legend is None else legend
    words = counted(result) if title is None else title
    with styled():
        beside = None
        if ax is None:
            figure = new_figure(9.4, 5.2)
            ax, beside = (figure.add_subplot(1, 2, i, projection="3d") for i in (1, 2))
        elif not hasattr(ax, "set_zlim"):
            raise InvalidInputError(
                'ax must have projection="3d" for cells in space, but is flat; try '
                'figure.add_subplot(projection="3d").'
            )
        drawn = _draw(ax, result, shown, colours, _open_faces(result, shown), words, by_class)
        if beside is not None:
            slices = f"slices across {axis_names(result.network)[2]}"
            drawn |= _draw(beside, result, shown, colours, _layers(shown, _SLICES), slices, by_class)
        if legend:
            explain(ax.figure, drawn, handles)
    return ax


def draw_slices(result: RegionSet, *, n_slices: int = _SLICES, box: Box | None = None) -> Axes:
    """Draw parallel slices through cells in space, one above the other.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network([hm.FeedForward([[1.0, 1.0, 1.0]], [0.0], [[1.0]], [0.0])])
    >>> axes = draw_slices(hm.enumerate_regions(net, hm.Box.cube(3, -1, 1)), n_slices=3)
    >>> axes.get_title()
    '2 cells, 2 regions'
    """
    shown = box_shown(result) if box is None else box
    with styled():
        ax = new_figure(5.4, 5.4).add_subplot(projection="3d")
        faces = _layers(shown, n_slices)
        explain(ax.figure, _draw(ax, result, shown, _colours(result, shown, "map"), faces, counted(result)))
    return ax


@dataclass(frozen=True)
class _Face:
    """A rectangle across an axis: ``low`` and ``high`` are its corners along the two other axes."""

    axis: int
    place: float
    low: tuple[float, float]
    high: tuple[float, float]
    edges: tuple[tuple[float, float], ...] = ()  # the outline that is drawn: by default its own

    def in_space(self, points: Any) -> Floats:
        """Points of the rectangle (..., 2) as points of space (..., 3)."""
        points = np.asarray(points)
        found = np.empty((*points.shape[:-1], 3))
        across, up = (c for c in range(3) if c != self.axis)
        found[..., self.axis] = self.place
        found[..., across], found[..., up] = points[..., 0], points[..., 1]
        return found

    def outline(self) -> Floats:
        """The line drawn around it."""
        (a, b), (c, d) = self.low, self.high
        return self.in_space(self.edges or [[a, b], [c, b], [c, d], [a, d], [a, b]])

    def middle(self) -> Floats:
        """Its middle."""
        return self.in_space((np.array(self.low) + np.array(self.high)) / 2)


def _open_faces(result: RegionSet, box: Box) -> list[_Face]:
    """What is seen of a box without its upper octant; of another bounded domain its three middle planes."""
    low, high = box.low.floats, box.high.floats
    middle = (low + high) / 2
    faces = []
    for axis in range(3):
        a, b = (c for c in range(3) if c != axis)
        if isinstance(result.domain, Polytope) and result.bounded.all():
            faces += [
                _Face(axis, middle[axis], (x[0], y[0]), (x[1], y[1]))
                for x in ((low[a], middle[a]), (middle[a], high[a]))
                for y in ((low[b], middle[b]), (middle[b], high[b]))
            ]
            continue
        (p, q), (r, s), (u, v) = low[[a, b]], middle[[a, b]], high[[a, b]]
        around = ((p, q), (u, q), (u, s), (r, s), (r, v), (p, v), (p, q))
        faces.append(_Face(axis, middle[axis], (r, s), (u, v)))
        faces.append(_Face(axis, high[axis], (p, q), (r, v), around))
        faces.append(_Face(axis, high[axis], (r, q), (u, s), around))
    return faces


def _layers(box: Box, n: int) -> list[_Face]:
    """Parallel rectangles across the third axis, from below to above, not quite at the ends."""
    low, high = box.low.floats, box.high.floats
    places = low[2] + (high[2] - low[2]) * (np.arange(n) + 0.5) / n
    return [_Face(2, float(z), (low[0], low[1]), (high[0], high[1])) for z in places]


def _colours(result: RegionSet, box: Box, colour: str) -> Floats:
    volumes = np.clip(np.nan_to_num(result.volumes, posinf=box.volume), 0.0, box.volume)
    return cell_colours(result, box, volumes, colour)


def _draw(
    ax: Any,
    result: RegionSet,
    box: Box,
    colours: Floats,
    faces: list[_Face],
    title: str,
    by_class: bool = False,
) -> set[str]:
    """Draw sections into axes; returns which kinds of lines there are."""
    low, high = box.low.floats, box.high.floats
    ax.set_proj_type("ortho")
    ax.view_init(*_VIEW)
    ax.computed_zorder = False
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    sides = (high - low) / (high - low).max()
    ax.set_box_aspect(np.maximum(sides, 0.3), zoom=0.98)
    for name, axis in zip(axis_names(result.network), (ax.xaxis, ax.yaxis, ax.zaxis), strict=True):
        axis.set_label_text(name)
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis.line.set_linewidth(0.0)
        axis.set_tick_params(labelsize=7, pad=0)
        axis.get_major_locator().set_params(nbins=3)
    ax.grid(False)
    ax.set_title(title, y=1.03)
    drawn: set[str] = set()
    eye = towards_eye(_VIEW)
    for order, face in enumerate(sorted(faces, key=lambda f: float(f.middle() @ eye))):
        section = _section(result, face)
        if section is not None:
            drawn |= _draw_section(ax, result, section, face, colours, 3 * order, box, by_class)
            if not isinstance(result.domain, Polytope):
                outline: Any = [face.outline()]
                # an open box covers nothing of itself; slices cover each other
                over = 3 * len(faces) if face.edges else 3 * order + 2
                ax.add_collection3d(
                    Line3DCollection(outline, colors=INK, linewidths=0.7, zorder=over), autolim=False
                )
    return drawn


def _section(result: RegionSet, face: _Face) -> RegionSet | None:
    """The cells of the network restricted to a rectangle; ``None`` where the domain does not reach."""
    origin = np.zeros(3)
    origin[face.axis] = face.place
    directions = np.delete(np.eye(3), face.axis, axis=0)
    slice_ = result.network.restrict(origin, directions)
    domain: Box | Polytope = Box(list(face.low), list(face.high))
    if isinstance(result.domain, Polytope):
        a, b = result.domain.halfspaces()
        rows, ends = domain.halfspaces()
        inner, rest = a @ directions.T, b - a @ origin
        proper = np.abs(inner).max(axis=1) > 0.0
        if (rest[~proper] < 0.0).any():
            return None
        domain = Polytope(np.concatenate([rows, inner[proper]]), np.concatenate([ends, rest[proper]]))
    try:
        return enumerate_regions(slice_, domain)
    except EmptyDomainError:
        return None


def _draw_section(
    ax: Any,
    result: RegionSet,
    section: RegionSet,
    face: _Face,
    colours: Floats,
    zorder: int,
    box: Box,
    by_class: bool,
) -> set[str]:
    """Areas and lines of one section."""
    within = Box(list(face.low), list(face.high))
    shapes = Shapes.of(section, within)
    cell = result.of_signatures(section.routings, section.bits)
    fills = np.where((cell >= 0)[:, None], colours[np.maximum(cell, 0)], _UNLISTED) * _SHADES[face.axis]
    many = result.n_cells > MANY
    corners: Any
    for numbers, corners in shapes.polygons():
        ax.add_collection3d(
            Poly3DCollection(
                face.in_space(corners),
                facecolors=fills[numbers],
                edgecolors=fills[numbers],
                linewidths=0.3,
                rasterized=many,
                zorder=zorder,
            ),
            autolim=False,
        )
    segments, layers = shapes.contacts()
    diagonal = float(np.linalg.norm(box.high.floats - box.low.floats))
    widths = shapes.widths(layers, _SOFTER * min(size_in_points(ax)) / diagonal)
    region = np.where(cell >= 0, result.region_of_cell[np.maximum(cell, 0)], -1)
    kinds = line_kinds(section, region, by_class=by_class)
    for kind, chosen in kinds.items():
        shown = np.flatnonzero(chosen & ((widths > 0.0) | (kind == "boundary")))
        if len(shown):
            lines: Any = face.in_space(segments[shown])
            ax.add_collection3d(
                Line3DCollection(
                    lines,
                    **line_look(kind, widths[shown], _WALL, _FOLD),
                    rasterized=many,
                    zorder=zorder + 1,
                ),
                autolim=False,
            )
    if isinstance(result.domain, Polytope):
        rim: Any = face.in_space(shapes.outline())
        ax.add_collection3d(
            Line3DCollection(rim, colors=INK, linewidths=0.5, zorder=zorder + 2), autolim=False
        )
    return {kind for kind, chosen in kinds.items() if chosen.any()}
