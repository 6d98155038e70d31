"""Tropical polynomials in the plane: their cells and their walls (P1 Definitions III.7 and III.8).

Cells and walls may run to infinity; what is drawn is the part inside a box, clipped in floats, for the eye
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patches import Polygon
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.geometry.domains import Box
from hardmax.plotting.style import FILLS, INK, LINES, given_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.tropical.refinements import CommonRefinement, Hypersurface

__all__ = ["draw_hypersurface", "draw_refinement"]

Floats = NDArray[np.float64]


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
