"""Power diagrams (P1 figure 3) and tropical polynomials (P1 Definitions III.7 and III.8) in the plane.

Cells of a diagram are coloured by key, walls are black, keys are white stars. A key whose cell has no
interior keeps its star, but hollow: it is there, and it never wins on an open set.

Cells and walls of polynomials may run to infinity; what is drawn is the part inside a box, clipped in floats,
for the eye only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.path import Path
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.geometry.domains import Box
from hardmax.plotting.style import FILLS, INK, LINES, Picture, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram
    from hardmax.tropical.hypersurfaces import Hypersurface
    from hardmax.tropical.polynomials import CommonRefinement


__all__ = ["compare_diagrams", "draw_diagram", "draw_hypersurface", "draw_refinement"]

Floats = NDArray[np.float64]
_MAX_LABELS = 40  # beyond this, numbers would cover the picture


def draw_diagram(
    diagram: PowerDiagram,
    *,
    ax: Axes | None = None,
    box: Box | None = None,
    labels: bool = True,
    title: str | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Draw a power diagram of the plane: coloured cells, black walls, keys as white stars.

    Parameters
    ----------
    diagram : PowerDiagram
        A diagram in two dimensions.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    box : Box, optional
        The part of the plane that is shown; by default a square that holds every key.
    labels : bool
        Whether stars carry the number of their key, and cells too where stars lie outside their cells (left
        out when there are more than forty keys).
    title : str, optional
        A line above the picture.
    colours : sequence of str, optional
        One colour per key; by default those of :func:`cell_colours`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> axes = draw_diagram(hm.power_diagram([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0]))
    >>> axes.figure.savefig("two-sites.svg")  # doctest: +SKIP
    """
    if diagram.d != 2:
        raise UnsupportedDimensionError(
            f"a diagram is drawn in dimension 2, but this one has dimension {diagram.d}."
        )
    points = diagram.sites
    if box is None:
        box = box_around(points)
    if box.d != 2:
        raise InvalidInputError(f"box must have dimension 2, but has {box.d}.")
    with styled():
        ax = given_or_new(ax, 4.6, 4.6)
        colours = cell_colours(diagram) if colours is None else colours
        crowded = len(points) > _MAX_LABELS
        polygons = diagram.polygons(box)
        for colour, corners in zip(colours, polygons, strict=True):
            if len(corners) > 2:
                wall = 0.5 if crowded else 1.1
                ax.add_patch(
                    Polygon(corners, facecolor=colour, edgecolor=INK, linewidth=wall, joinstyle="round")
                )
        _draw_keys(ax, points, diagram.nonempty, labels and not crowded)
        if labels and not crowded:
            _name_cells(ax, diagram, polygons, box)
        (left, bottom), (right, top) = box.low.floats, box.high.floats
        ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="$q_1$", ylabel="$q_2$")
        ax.locator_params(nbins=5)
        if title is not None:
            ax.set_title(title)
    return ax


def _draw_keys(ax: Axes, points: NDArray[np.float64], nonempty: NDArray[np.bool_], labels: bool) -> None:
    crowded = len(points) > _MAX_LABELS
    for winners, face, zorder in ((True, "white", 4), (False, "none", 3)):
        ax.scatter(
            points[nonempty == winners, 0],
            points[nonempty == winners, 1],
            s=max(2.0, 1600 / len(points)) if crowded else 130,
            marker="." if crowded else "*",
            facecolors=face,
            edgecolors=INK,
            linewidths=0.4 if crowded else 0.9,
            zorder=zorder,
        )
    if labels:
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
        x, y = np.mean(polygons[j], axis=0)
        ax.text(x, y, f"cell {j}", ha="center", va="center", fontsize=8, zorder=6)


def cell_colours(diagram: PowerDiagram) -> list[str]:
    """One colour per key: the palette in order while it lasts, else adjacent cells in different colours."""
    n = len(diagram.nonempty)
    if n <= len(FILLS):
        return list(FILLS[:n])
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for i, j in diagram.adjacency().tolist():
        neighbours[i].add(j)
        neighbours[j].add(i)
    chosen = [-1] * n
    for j in range(n):
        taken = {chosen[i] for i in neighbours[j]}
        turn = [
            (j + k) % len(FILLS) for k in range(len(FILLS))
        ]  # begin elsewhere each time: all colours occur
        chosen[j] = next((colour for colour in turn if colour not in taken), j % len(FILLS))
    return [FILLS[colour] for colour in chosen]


def box_around(points: NDArray[np.float64]) -> Box:
    """A square that holds all points with a margin."""
    centre = (points.max(axis=0) + points.min(axis=0)) / 2
    radius = 0.65 * float(np.ptp(points, axis=0).max())
    if radius == 0.0:  # one place only
        radius = max(1.0, float(np.abs(centre).max()))
    return Box((centre - radius).tolist(), (centre + radius).tolist())


def compare_diagrams(diagrams: Sequence[PowerDiagram], *, titles: Sequence[str], box: Box) -> Picture:
    """Draw several diagrams of the same keys side by side in one box, with the same colours.

    P1 figure 3 is ``compare_diagrams([power_diagram(keys, 0), attention_diagram(keys)], ...)``.

    Parameters
    ----------
    diagrams : sequence of PowerDiagram
    titles : sequence of str
        One per diagram.
    box : Box
        The part of the plane that all of them show.

    Returns
    -------
    matplotlib Figure

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
            draw_diagram(diagram, ax=ax, box=box, title=title, colours=cell_colours(diagrams[0]))
        shapes: Any = {"marker": "*", "markersize": 11, "markeredgecolor": INK, "linestyle": "none"}
        figure.legend(
            handles=[
                Line2D([], [], markerfacecolor="white", label="key", **shapes),
                Line2D([], [], markerfacecolor="none", label="key that wins on no open set", **shapes),
                Line2D([], [], color=INK, linewidth=1.1, label="wall"),
            ],
            loc="outside lower center",
            ncols=3,
            facecolor=FILLS[-1],  # a white star and a hollow one differ only on a coloured ground
            framealpha=1,
        )
    return figure


def draw_refinement(result: CommonRefinement, *, ax: Axes | None = None, box: Box | None = None) -> Axes:
    """Draw the cells of a common refinement in the plane, one colour per cell.

    Parameters
    ----------
    result : CommonRefinement
        Cells in two dimensions.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    box : Box, optional
        The part of the plane that is shown; by default a square around the vertices.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> line = hm.TropicalPolynomial([[0, 0], [1, 0], [0, 1]])
    >>> len(draw_refinement(line.cells()).patches)
    3
    """
    _check_plane(result.d, box, "cells")
    pieces = [result.generators(i) for i in range(result.n_cells)]
    box = _box_around(pieces) if box is None else box
    with styled():
        ax = given_or_new(ax, 4.6, 4.6)
        for i, piece in enumerate(pieces):
            corners = clipped(_far_points(piece, result.lines, box), box)
            if len(corners) > 2:
                ax.add_patch(Polygon(corners, facecolor=FILLS[i % len(FILLS)], edgecolor=INK, linewidth=1.1))
        _frame(ax, box)
    return ax


def draw_hypersurface(result: Hypersurface, *, ax: Axes | None = None, box: Box | None = None) -> Axes:
    """Draw the walls of tropical polynomials in the plane, one colour per polynomial.

    Parameters
    ----------
    result : Hypersurface
        Walls in two dimensions.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    box : Box, optional
        The part of the plane that is shown; by default a square around the vertices.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> walls = hm.TropicalPolynomial([[0, 0], [1, 0], [0, 1]]).hypersurface()
    >>> len(draw_hypersurface(walls).collections[0].get_segments())
    3
    """
    _check_plane(result.d, box, "walls")
    pieces = [result.generators(i) for i in range(result.n_walls)]
    box = _box_around(pieces) if box is None else box
    with styled():
        ax = given_or_new(ax, 4.6, 4.6)
        ends = [_ends(_far_points(piece, np.empty((0, 2)), box)) for piece in pieces]
        colours = [LINES[int(k) % len(LINES)] for k in result.owner]
        # the axes cut off what sticks out of the box
        ax.add_collection(LineCollection(ends, colors=colours, linewidths=1.8, capstyle="round"))
        _frame(ax, box)
    return ax


def _check_plane(d: int, box: Box | None, what: str) -> None:
    if d != 2:
        raise UnsupportedDimensionError(f"{what} are drawn in dimension 2, but these have dimension {d}.")
    if box is not None and box.d != 2:
        raise InvalidInputError(f"box must have dimension 2, but has {box.d}.")


def _frame(ax: Axes, box: Box) -> None:
    (left, bottom), (right, top) = box.low.floats, box.high.floats
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    ax.locator_params(nbins=5)


def _box_around(pieces: list[Floats]) -> Box:
    """A square around all vertices; some have none, then around the origin."""
    rows = np.concatenate([np.array([[1.0, 0.0, 0.0]]) if not pieces else np.empty((0, 3)), *pieces])
    vertices = rows[rows[:, 0] > 0]
    points = vertices[:, 1:] / vertices[:, :1] if len(vertices) else np.zeros((1, 2))
    bounded = bool((rows[:, 0] > 0).all())
    centre = (points.max(axis=0) + points.min(axis=0)) / 2
    radius = float(np.ptp(points, axis=0).max()) * (0.5 if bounded else 0.8)
    radius = radius if radius > 0 else max(1.0, float(np.abs(centre).max()))
    return Box((centre - radius).tolist(), (centre + radius).tolist())


def _far_points(piece: Floats, lines: Floats, box: Box) -> Floats:
    """The vertices of a piece, and points so far out on its rays that the box does not see the difference."""
    finite = piece[:, 0] > 0
    points = piece[finite, 1:] / piece[finite, :1] if finite.any() else np.zeros((1, 2))
    rays = np.concatenate([piece[~finite, 1:], lines, -lines])
    if not len(rays):
        return np.asarray(points)
    rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
    middle = rays.sum(
        axis=0
    )  # between two almost opposite rays, their far ends alone would cut the wedge short
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
    """The corners of the convex hull of points in the plane, counter-clockwise (lower chain, then upper
    chain)."""
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
