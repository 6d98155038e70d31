"""Newton polytopes and Minkowski sums in two and three dimensions, as P1 figure 4 draws them.

The hull that is drawn comes from Qhull in floats, for the eye only; the vertices and their number are those
of the result, which are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Polygon
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.plotting.style import FILLS, INK, LINES, Picture, new_figure, number_of, styled, towards_eye

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.minkowski import MinkowskiVertices

Proportions = Literal["auto", "true", "round"]

_NARROW = 1 / 400  # variance ratio below which a sum is drawn as an affine image
_COPLANAR = 1e-6  # cosine slack up to which triangles of the drawn hull are joined to one face


def draw_sum(
    result: MinkowskiVertices,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    colour: str = FILLS[0],
    view: tuple[float, float] = (18.0, -60.0),
    proportions: Proportions = "auto",
) -> Axes:
    """Draw the Minkowski sum of some heads with its vertices.

    Parameters
    ----------
    result : MinkowskiVertices
        A sum in two or three dimensions.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise. In three dimensions it needs ``projection="3d"``.
    title : str, optional
        A line above the picture; by default the number of vertices.
    colour : str
        The colour of the faces.
    view : (elevation, azimuth)
        Where the eye stands, in degrees, in three dimensions.
    proportions : {"auto", "true", "round"}
        In three dimensions: true proportions, or an affine image that is equally thick in every direction; by
        default the image only for sums so narrow that nothing could be seen.

    Examples
    --------
    >>> import hardmax as hm
    >>> square = hm.minkowski_vertices([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    >>> draw_sum(square).get_title()
    '4 vertices'
    """
    points = np.asarray(result.vertices, dtype=np.float64)
    d = points.shape[1]
    if d not in (2, 3):
        raise UnsupportedDimensionError(
            f"a Minkowski sum is drawn in dimension 2 or 3, but this one has dimension {d}."
        )
    if ax is not None and isinstance(ax, Axes3D) != (d == 3):
        raise InvalidInputError(
            f"ax must have projection {'3d' if d == 3 else 'none'} for a sum in dimension {d}."
        )
    with styled():
        if ax is None:
            ax = new_figure(4.6, 4.6).add_subplot(projection="3d" if d == 3 else None)
        if d == 3:
            _draw_solid(ax, points, colour, view, proportions)
        else:
            _draw_polygon(ax, points, colour)
        ax.set_title(title if title is not None else number_of(result.count, "vertex", "vertices"))
    return ax


def _draw_polygon(ax: Axes, points: NDArray[np.float64], colour: str) -> None:
    around = points - points.mean(axis=0)
    order = np.argsort(np.arctan2(around[:, 1], around[:, 0]))
    ax.add_patch(Polygon(points[order], closed=True, facecolor=colour, edgecolor=INK, linewidth=1.1))
    ax.scatter(points[:, 0], points[:, 1], s=22, color=LINES[1], edgecolors=INK, linewidths=0.5, zorder=3)
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.margins(0.08)


def _draw_solid(
    ax: Any, points: NDArray[np.float64], colour: str, view: tuple[float, float], proportions: Proportions
) -> None:
    shown, rescaled = _placed(points, proportions)
    faces = hull_faces(shown)
    eye = towards_eye(view)
    light = eye + np.array([0.3, 0.2, 0.9])
    light /= np.linalg.norm(light)
    front = np.zeros(len(shown), dtype=bool)
    for normal, corners in faces:
        front[corners] |= normal @ eye > 0
    if not faces:
        front[:] = True
    # A convex solid needs no sorting: first the far side, its vertices, then the near side over them.
    for near in (False, True):
        side = [(normal, corners) for normal, corners in faces if (normal @ eye > 0) == near]
        shades = [np.array(to_rgb(colour)) * (0.6 + 0.4 * max(0.0, normal @ light)) for normal, _ in side]
        if side:
            polygons = Poly3DCollection(
                [shown[np.append(corners, corners[0])] for _, corners in side],  # closed outlines
                facecolors=shades,
                edgecolors=INK,
                linewidths=0.7,
                alpha=0.88,
                zorder=2 if near else 0,
            )
            # the limits are set below; matplotlib 3.11 would read them from uninitialised padding
            ax.add_collection(polygons, autolim=False)
    ax.computed_zorder = False
    if not front.all():
        ax.scatter(*shown[~front].T, s=9, color=INK, linewidths=0, depthshade=False, zorder=1)
    ax.scatter(
        *shown[front].T, s=16, color=LINES[1], edgecolors=INK, linewidths=0.5, depthshade=False, zorder=3
    )
    radius = float(np.linalg.norm(shown, axis=1).max()) or 1.0  # fits from every side
    ax.set(xlim=(-radius, radius), ylim=(-radius, radius), zlim=(-radius, radius))
    ax.set_proj_type("ortho")
    ax.set_box_aspect((1, 1, 1), zoom=1.6)
    ax.view_init(*view)
    ax.set_axis_off()
    if rescaled:
        note = "an affine image: same faces, evenly thick"
        ax.text2D(0.5, 0.0, note, transform=ax.transAxes, ha="center", va="bottom", fontsize=8)


def _placed(points: NDArray[np.float64], proportions: Proportions) -> tuple[NDArray[np.float64], bool]:
    """The points around the origin, and whether they were mapped affinely to equal spread in every direction.

    Heads on a parabola are a hundred times longer than wide; an affine map changes neither faces nor
    vertices.
    """
    shown = points - (points.max(axis=0) + points.min(axis=0)) / 2
    spread, axes = np.linalg.eigh(np.cov(shown.T)) if len(shown) > 1 else (np.zeros(3), np.eye(3))
    thick = spread > 1e-12 * spread.max()
    narrow = thick.any() and spread[thick].min() < _NARROW * spread.max()
    if proportions == "true" or (proportions == "auto" and not narrow):
        return shown, False
    scale = np.where(thick, 1 / np.sqrt(np.where(thick, spread, 1.0)), 0.0)
    shown = shown @ (axes * scale) @ axes.T
    return shown - (shown.max(axis=0) + shown.min(axis=0)) / 2, True


def hull_faces(points: NDArray[np.float64]) -> list[tuple[NDArray[np.float64], NDArray[np.intp]]]:
    """The faces of the hull of points in space, each as its outer normal and its corners in order.

    Triangles of Qhull that lie in one plane are joined. A flat set is one face seen from both sides; points
    on a line have none.
    """
    centred = points - points.mean(axis=0)
    _, size, axes = np.linalg.svd(centred, full_matrices=True)
    rank = int((size > 1e-9 * max(size.max(), 1e-300)).sum())
    if rank < 2:
        return []
    if rank == 2:
        outline = _in_order(points, np.arange(len(points)), axes[2])
        return [(sign * axes[2], outline) for sign in (1.0, -1.0)]
    hull = ConvexHull(points)
    planes: list[tuple[NDArray[np.float64], set[int]]] = []
    for equation, simplex in zip(hull.equations, hull.simplices, strict=True):
        for normal, corners in planes:
            if np.linalg.norm(normal - equation) < _COPLANAR:
                corners.update(simplex.tolist())
                break
        else:
            planes.append((equation, set(simplex.tolist())))
    return [
        (equation[:3], _in_order(points, np.array(sorted(corners)), equation[:3]))
        for equation, corners in planes
    ]


def _in_order(
    points: NDArray[np.float64], corners: NDArray[np.intp], normal: NDArray[np.float64]
) -> NDArray[np.intp]:
    around = points[corners] - points[corners].mean(axis=0)
    first = around[0] / np.linalg.norm(around[0])
    second = np.cross(normal, first)
    return corners[np.argsort(np.arctan2(around @ second, around @ first))]


def compare_sums(
    results: Sequence[MinkowskiVertices],
    *,
    titles: Sequence[str],
    view: tuple[float, float] = (18.0, -60.0),
    proportions: Proportions = "auto",
) -> Picture:
    """Draw several sums side by side, for instance one, two and three heads as in P1 figure 4.

    Parameters
    ----------
    results : sequence of MinkowskiVertices
        Sums in three dimensions.
    titles : sequence of str
        One per sum; the number of vertices is written below it.
    view, proportions
        As in :func:`draw_sum`.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> cube = [hm.minkowski_vertices([[np.zeros(3), edge] for edge in np.eye(3)[:h]]) for h in (1, 2, 3)]
    >>> [axes.get_title() for axes in compare_sums(cube, titles=["segment", "square", "cube"]).axes]
    ['segment\\n2 vertices', 'square\\n4 vertices', 'cube\\n8 vertices']
    """
    if len(results) != len(titles) or not results:
        raise InvalidInputError(
            f"titles must hold one line per sum ({len(results)}), but holds {len(titles)}."
        )
    with styled():
        figure = new_figure(3.7 * len(results), 4.3)
        for i, (result, title) in enumerate(zip(results, titles, strict=True)):
            ax = figure.add_subplot(1, len(results), i + 1, projection="3d")
            draw_sum(
                result,
                ax=ax,
                title=f"{title}\n{number_of(result.count, 'vertex', 'vertices')}",
                colour=FILLS[(0, 3, 2)[i % 3]],
                view=view,
                proportions=proportions,
            )
    return figure
