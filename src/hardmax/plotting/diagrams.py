"""Power diagrams (P1 figure 3) and tropical polynomials (P1 Definitions III.7 and III.8) in the plane.

Cells of a diagram are coloured by key, walls are black, keys are white stars. A key whose cell has no
interior keeps its star, but hollow: it is there, and it never wins on an open set. Cells of an order-k
diagram carry the numbers of the k keys that win there.

Cells and walls of polynomials may run to infinity; what is drawn is the part inside a box, clipped in floats,
for the eye only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.path import Path
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.geometry.diagrams.order_k_diagrams import OrderKDiagram
from hardmax.geometry.domains import Box
from hardmax.plotting.style import (
    FILLS,
    GROUND,
    INK,
    LINES,
    Picture,
    different_neighbours,
    frame,
    given_or_new,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram
    from hardmax.tropical.hypersurfaces import Hypersurface
    from hardmax.tropical.polynomials import CommonRefinement


Floats = NDArray[np.float64]
_MAX_LABELS = 40  # beyond this, numbers would cover the picture

_FARTHEST = 1e150  # of 0 that a coordinate may be in a picture


def draw_diagram(
    diagram: PowerDiagram | OrderKDiagram,
    *,
    ax: Axes | None = None,
    box: Box | None = None,
    title: str | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Draw a power diagram of the plane: coloured cells, black walls, keys as white stars.

    Up to forty keys, stars carry the number of their key, and cells too where stars lie outside their cells.

    Parameters
    ----------
    diagram : PowerDiagram or OrderKDiagram
        A diagram in two dimensions.
    box : Box, optional
        The part of the plane that is shown; by default a square that holds every key.
    title : str, optional
        A line above the picture.
    colours : sequence of str, optional
        One colour per cell; by default those of :func:`cell_colours`.

    Examples
    --------
    >>> import hardmax as hm
    >>> axes = draw_diagram(hm.power_diagram([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0]))
    >>> axes.figure.savefig("two-sites.svg")  # doctest: +SKIP
    """
    _check_plane(diagram.d, box, "diagrams")
    points = diagram.sites
    box = _drawable(_square(points, 0.65) if box is None else box)
    with styled():
        ax = given_or_new(ax, 4.6, 4.6)
        colours = cell_colours(diagram) if colours is None else colours
        crowded = len(points) > _MAX_LABELS
        wall = 0.5 if crowded else 1.1
        polygons = diagram.polygons(box)
        for colour, corners in zip(colours, polygons, strict=True):
            if len(corners) > 2:
                patch = Polygon(corners, facecolor=colour, edgecolor=INK, linewidth=wall, joinstyle="round")
                ax.add_patch(patch)
        draw_keys(ax, diagram)
        if not crowded:
            _name_keys(ax, points)
            if isinstance(diagram, OrderKDiagram):
                _name_sets(ax, diagram, polygons, box)
            else:
                _name_cells(ax, diagram, polygons, box)
        frame(ax, box, "$q_1$", "$q_2$")
        if title is not None:
            ax.set_title(title)
    return ax


def draw_keys(ax: Axes, diagram: PowerDiagram | OrderKDiagram, size: float = 130) -> None:
    """Draw the keys of a diagram: white stars for those that win on an open set, hollow ones for the others.

    Beyond forty keys they are dots.
    """
    n = len(diagram.sites)
    winners, crowded = _winners(diagram), n > _MAX_LABELS
    for won, face, zorder in ((True, "white", 4), (False, "none", 3)):
        x, y = diagram.sites[winners == won].T
        ax.scatter(
            x,
            y,
            s=max(2.0, 1600 / n) if crowded else size,
            marker="." if crowded else "*",
            facecolors=face,
            edgecolors=INK,
            linewidths=0.4 if crowded else 0.9,
            zorder=zorder,
        )


def _winners(diagram: PowerDiagram | OrderKDiagram) -> NDArray[np.bool_]:
    """The keys that win on an open set, alone or with others."""
    return diagram.reachable if isinstance(diagram, OrderKDiagram) else diagram.nonempty


def key_handle(face: str, label: str) -> Line2D:
    """A star for a legend, white or hollow ("none")."""
    look: Any = {"marker": "*", "markersize": 11, "markeredgecolor": INK, "linestyle": "none"}
    return Line2D([], [], markerfacecolor=face, label=label, **look)


def _name_keys(ax: Axes, points: Floats) -> None:
    for j, place in enumerate(points):
        ax.annotate(
            str(j),
            place,
            xytext=(6, 5),
            textcoords="offset points",
            fontsize=9,
            zorder=5,
            annotation_clip=True,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.55},
        )


def _name_cells(ax: Axes, diagram: PowerDiagram, polygons: Sequence[Any], box: Box) -> None:
    """Write the numbers of their keys into the cells, unless every star in sight lies in its own cell.

    With biases or a query map a key may be drawn anywhere, and a star says nothing about the cell around it.
    """
    group = diagram.scores.tie_group  # the lowest index of a tied group speaks for it
    cells = [j for j, corners in enumerate(polygons) if len(corners) > 2 and group[j] == j]
    shown = box.contains(diagram.sites)
    if all(shown[j] and Path(polygons[j]).contains_point(diagram.sites[j]) for j in cells):
        return
    for j in cells:
        x, y = _free_place(polygons[j], diagram.sites)
        ax.text(x, y, f"cell {j}", ha="center", va="center", fontsize=8, zorder=6)


def _name_sets(ax: Axes, diagram: OrderKDiagram, polygons: Sequence[Any], box: Box) -> None:
    """Write the members of their sets into the cells that are large enough for it, beside the stars."""
    room = 2e-3 * box.volume
    for members, corners in zip(diagram.sets.tolist(), polygons, strict=True):
        if len(corners) > 2 and _area(corners) > room * len(members):
            x, y = _free_place(corners, diagram.sites)
            ax.text(x, y, ",".join(map(str, members)), ha="center", va="center", fontsize=8, zorder=6)


def _free_place(corners: Any, taken: Floats) -> Floats:
    """A place for a word inside a polygon, as far from its walls and from the stars as can be.

    >>> _free_place(np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]]), np.array([[1.0, 1.0]]))
    array([2.8, 2.8])
    """
    corners = np.asarray(corners, dtype=np.float64)
    middle, rim = corners.mean(axis=0), np.concatenate([corners, (corners + np.roll(corners, -1, 0)) / 2])
    places = (middle + np.linspace(0.0, 0.8, 9)[:, None, None] * (rim - middle)).reshape(-1, 2)
    sides = np.roll(corners, -1, axis=0) - corners
    normals = np.column_stack([-sides[:, 1], sides[:, 0]]) / np.linalg.norm(sides, axis=1)[:, None]
    from_walls = np.abs(((places[:, None] - corners) * normals).sum(axis=2)).min(axis=1)
    # words are wide and low, and a star has its number at the right
    gap = (places[:, None] - taken) * [0.6, 1.0]
    from_stars = 0.5 * np.linalg.norm(gap, axis=2).min(axis=1, initial=np.inf)
    return np.asarray(places[np.minimum(from_walls, from_stars).argmax()])


def _area(corners: Floats) -> float:
    x, y = corners.T
    return abs(float(x @ np.roll(y, -1) - np.roll(x, -1) @ y)) / 2


def cell_colours(diagram: PowerDiagram | OrderKDiagram) -> list[str]:
    """One colour per cell: the palette in order while it lasts, else adjacent cells in different colours."""
    n = diagram.n_cells if isinstance(diagram, OrderKDiagram) else diagram.n_keys
    if n <= len(FILLS):
        return list(FILLS[:n])
    return [FILLS[colour] for colour in different_neighbours(n, diagram.adjacency(), len(FILLS))]


def _drawable(box: Box) -> Box:
    """The box, if squares of its coordinates are floats."""
    largest = max(float(np.abs(side.floats).max()) for side in (box.low, box.high))
    if not largest <= _FARTHEST:
        raise InvalidInputError(
            f"box must lie within {_FARTHEST:g} of 0 to be drawn, but reaches {largest:g}; "
            "draw a smaller part."
        )
    return box


def _square(points: Floats, share: float) -> Box:
    """A square around points; from its middle to a side it measures a share of their extent."""
    centre = (points.max(axis=0) + points.min(axis=0)) / 2
    radius = share * float(np.ptp(points, axis=0).max())
    if radius == 0.0:  # one place only
        radius = max(1.0, float(np.abs(centre).max()))
    return Box((centre - radius).tolist(), (centre + radius).tolist())


def compare_diagrams(
    diagrams: Sequence[PowerDiagram | OrderKDiagram], *, titles: Sequence[str], box: Box
) -> Picture:
    """Draw several diagrams of the same keys side by side in one box, cells of a key in the same colour.

    P1 figure 3 is ``compare_diagrams([power_diagram(keys, 0), attention_diagram(keys)], ...)``.

    Parameters
    ----------
    diagrams : sequence of PowerDiagram or OrderKDiagram
    titles : sequence of str
        One per diagram.
    box : Box
        The part of the plane that all of them show.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> keys = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.2, 0.1]])
    >>> both = [hm.power_diagram(keys, np.zeros(4)), hm.attention_diagram(keys)]
    >>> figure = compare_diagrams(both, titles=["Voronoi", "attention"], box=hm.Box.cube(2, -3, 3))
    >>> [len(axes.patches) for axes in figure.axes]
    [4, 3]
    """
    if len(diagrams) != len(titles) or not diagrams:
        raise InvalidInputError(
            f"titles must hold one line per diagram ({len(diagrams)}), but holds {len(titles)}."
        )
    with styled():
        figure = new_figure(4.4 * len(diagrams), 4.9)
        axes = figure.subplots(1, len(diagrams), squeeze=False)[0]
        for ax, diagram, title in zip(axes, diagrams, titles, strict=True):
            same = diagram if isinstance(diagram, OrderKDiagram) else diagrams[0]
            draw_diagram(diagram, ax=ax, box=box, title=title, colours=cell_colours(same))
        handles = [key_handle("white", "key"), Line2D([], [], color=INK, linewidth=1.1, label="wall")]
        if not all(_winners(diagram).all() for diagram in diagrams):
            handles.insert(1, key_handle("none", "key that wins on no open set"))
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=len(handles),
            facecolor=GROUND,
            framealpha=1,
        )
    return figure


def draw_refinement(result: CommonRefinement, *, ax: Axes | None = None, box: Box | None = None) -> Axes:
    """Draw the cells of a common refinement in the plane, one colour per cell.

    Parameters
    ----------
    result : CommonRefinement
        Cells in two dimensions.
    box : Box, optional
        The part of the plane that is shown; by default a square around the vertices.

    Examples
    --------
    >>> import hardmax as hm
    >>> line = hm.TropicalPolynomial([[0, 0], [1, 0], [0, 1]])
    >>> len(draw_refinement(line.cells()).patches)
    3
    """
    _check_plane(result.d, box, "cells")
    pieces = [result.generators(i) for i in range(result.n_cells)]
    with _plane_of(pieces, ax, box) as (ax, box):
        for i, piece in enumerate(pieces):
            corners = clipped(_far_points(piece, result.lines, box), box)
            if len(corners) > 2:
                ax.add_patch(Polygon(corners, facecolor=FILLS[i % len(FILLS)], edgecolor=INK, linewidth=1.1))
    return ax


def draw_hypersurface(result: Hypersurface, *, ax: Axes | None = None, box: Box | None = None) -> Axes:
    """Draw the walls of tropical polynomials in the plane, one colour per polynomial.

    Parameters
    ----------
    result : Hypersurface
        Walls in two dimensions.
    ax, box
        As in :func:`draw_refinement`.

    Examples
    --------
    >>> import hardmax as hm
    >>> walls = hm.TropicalPolynomial([[0, 0], [1, 0], [0, 1]]).hypersurface()
    >>> len(draw_hypersurface(walls).collections[0].get_segments())
    3
    """
    _check_plane(result.d, box, "walls")
    pieces = [result.generators(i) for i in range(result.n_walls)]
    with _plane_of(pieces, ax, box) as (ax, box):
        ends = [_ends(_far_points(piece, np.empty((0, 2)), box)) for piece in pieces]
        colours = [LINES[int(k) % len(LINES)] for k in result.owner]
        # the axes cut off what sticks out of the box
        ax.add_collection(LineCollection(ends, colors=colours, linewidths=1.8, capstyle="round"))
    return ax


def _check_plane(d: int, box: Box | None, what: str) -> None:
    if d != 2:
        raise UnsupportedDimensionError(f"{what} are drawn in dimension 2, but these have dimension {d}.")
    if box is not None and box.d != 2:
        raise InvalidInputError(f"box must have dimension 2, but has {box.d}.")


@contextmanager
def _plane_of(pieces: list[Floats], ax: Axes | None, box: Box | None) -> Iterator[tuple[Axes, Box]]:
    """Axes for pieces of the plane, and the part of it that they show: by default around the vertices."""
    if box is None:
        rows = np.concatenate([np.empty((0, 3)), *pieces])
        finite = rows[:, 0] > 0
        points = rows[finite, 1:] / rows[finite, :1] if finite.any() else np.zeros((1, 2))
        box = _square(points, 0.5 if finite.all() else 0.8)
    with styled():
        ax = given_or_new(ax, 4.6, 4.6)
        yield ax, _drawable(box)
        frame(ax, box, "$x_1$", "$x_2$")


def _far_points(piece: Floats, lines: Floats, box: Box) -> Floats:
    """The vertices of a piece, and points so far out on its rays that the box does not see the difference."""
    finite = piece[:, 0] > 0
    points = piece[finite, 1:] / piece[finite, :1] if finite.any() else np.zeros((1, 2))
    rays = np.concatenate([piece[~finite, 1:], lines, -lines])
    if not len(rays):
        return np.asarray(points)
    rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
    middle = rays.sum(axis=0)  # the far ends of almost opposite rays alone would cut the wedge short
    if np.linalg.norm(middle) > 1e-12:
        rays = np.concatenate([rays, [middle / np.linalg.norm(middle)]])
    corners = np.concatenate([points, [box.low.floats, box.high.floats]])
    distance = 1e3 * float(np.abs(corners - corners[0]).max() + 1.0)
    return np.concatenate([points, *(points + distance * ray for ray in rays)])


def _ends(points: Floats) -> Floats:
    """The two ends of points on a line."""
    along = points @ (points[np.argmax(np.linalg.norm(points - points[0], axis=1))] - points[0])
    return points[[int(along.argmin()), int(along.argmax())]]


def clipped(points: Floats, box: Box) -> Floats:
    """The convex hull of points in the plane, clipped to a box, as corners in order."""
    corners = _hull(points)
    for normal, offset in zip(*box.halfspaces(), strict=True):
        inside = corners @ normal - offset
        kept: list[Floats] = []
        for i in range(len(corners)):
            j = (i + 1) % len(corners)
            if inside[i] <= 0:
                kept.append(corners[i])
            if inside[i] * inside[j] < 0:
                kept.append(corners[i] + inside[i] / (inside[i] - inside[j]) * (corners[j] - corners[i]))
        corners = np.array(kept).reshape(-1, 2)
    return corners


def _hull(points: Floats) -> Floats:
    """The corners of the convex hull of points in the plane, counter-clockwise: lower chain, upper chain."""
    ordered = points[np.lexsort(points.T[::-1])]
    chains: list[Floats] = []
    for along in (ordered, ordered[::-1]):
        chain: list[Floats] = []
        for point in along:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        chains += chain[:-1]
    return np.array(chains).reshape(-1, 2)


def _turn(a: Floats, b: Floats, c: Floats) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
