"""Classes in pictures: one colour and one marker each, data points, and numbers where there is room.

Areas have the light colours of :mod:`hardmax.plotting.style`, data points the same colours, darker, and a
marker of their own, so that a picture can be read without colours. A point whose label is not the class of
the area around it stands out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import as_exact
from hardmax.plotting.style import FILLS, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.regions.result import RegionSet

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MARKERS = "os^DvPX<>"
_SOFT, _DARK = 0.35, 0.55  # share of white in areas, of the light colour in points
_NUMBERED = 3  # classes from which on areas carry their number
_PLACES = 64  # cells of a class, the largest, where its number may stand


class Palette:
    """Colours for the classes of a picture: by number, or by order of those that occur if there are many.

    Examples
    --------
    >>> palette = Palette(np.array([0, 2, 2]), 3)
    >>> palette.shown, palette.area(2).round(2).tolist()
    ([0, 2], [0.52, 0.83, 0.74])
    """

    def __init__(self, classes: Integers, n_classes: int) -> None:
        self.shown: list[int] = np.unique(classes).tolist()
        self._many = n_classes > len(FILLS)
        self._places = {c: i for i, c in enumerate(self.shown)}

    def _place(self, c: int) -> int:
        return (self._places.get(c, len(self._places)) if self._many else c) % len(FILLS)

    def area(self, c: int) -> Floats:
        """The colour of areas."""
        light = np.array(to_rgb(FILLS[self._place(c)]))
        return np.asarray(light + _SOFT * (1.0 - light))

    def point(self, c: int) -> tuple[float, float, float]:
        """The colour of points."""
        red, green, blue = (_DARK * v for v in to_rgb(FILLS[self._place(c)]))
        return red, green, blue

    def marker(self, c: int) -> str:
        """The marker of points."""
        return _MARKERS[self._place(c) % len(_MARKERS)]

    def areas(self, classes: Integers) -> Floats:
        """The colours of many areas."""
        table = np.zeros((max(self.shown, default=-1) + 1, 3))
        for c in self.shown:
            table[c] = self.area(c)
        return np.asarray(table[classes])

    def legend(self) -> list[Any]:
        """A patch for every class in the picture."""
        return [
            Patch(facecolor=tuple(self.area(c).tolist()), edgecolor=INK, label=f"class {c}")
            for c in self.shown
        ]


def checked_points(points: Any, labels: Any, d: int) -> tuple[Floats, Integers | None]:
    """Data points with their labels, once they fit."""
    x = as_exact(points, "points", ndim=2).floats
    if x.shape[1] != d:
        raise DimensionMismatchError(f"points must have {d} columns, but have {x.shape[1]}.")
    if labels is None:
        return x, None
    y = np.asarray(labels)
    if y.shape != (len(x),) or y.dtype.kind not in "iub":
        raise InvalidInputError(
            f"labels must be {len(x)} whole numbers, one per point, but have shape {y.shape} and type "
            f"{y.dtype}."
        )
    return x, y.astype(np.int64)


def draw_points(ax: Axes, x: Floats, labels: Integers | None, palette: Palette) -> None:
    """Draw data points, each with the colour and marker of its label."""
    look: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.7, "zorder": 5, "clip_on": False}
    size = float(np.clip(3000.0 / max(len(x), 1), 14.0, 60.0))
    if labels is None:
        ax.scatter(x[:, 0], x[:, 1], s=size, color=INK, **look)
        return
    for c in np.unique(labels).tolist():
        mine = x[labels == c]
        ax.scatter(mine[:, 0], mine[:, 1], s=size, color=[palette.point(c)], marker=palette.marker(c), **look)


def points_legend(labels: Integers | None, palette: Palette) -> list[Any]:
    """What a legend says about data points."""
    if labels is None:
        return [Line2D([], [], linestyle="", marker="o", color=INK, label="data")]
    return [
        Line2D([], [], linestyle="", marker=palette.marker(c), color=palette.point(c), label=f"label {c}")
        for c in np.unique(labels).tolist()
    ]


def number_areas(ax: Axes, result: RegionSet, polygons: Any, areas: Floats, lines: Floats) -> None:
    """Write the number of each class, of several, where it is furthest from lines (S, 2, 2) and the frame."""
    classes = result.routings[:, -1]
    if len(np.unique(classes)) < _NUMBERED:
        return
    middles = np.full((result.n_cells, 2), np.nan)
    for numbers, corners in polygons:
        middles[numbers] = corners.mean(axis=1)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    begin, run = lines[:, 0], lines[:, 1] - lines[:, 0]
    length = (run**2).sum(axis=1)
    for c in np.unique(classes).tolist():
        mine = np.flatnonzero((classes == c) & np.isfinite(middles[:, 0]))
        mine = mine[np.argsort(-areas[mine])][:_PLACES]
        x, y = middles[mine].T
        room = np.minimum(np.minimum(x - left, right - x), np.minimum(y - bottom, top - y))
        if len(lines):
            to = middles[mine][:, None] - begin
            share = np.clip((to * run).sum(axis=2) / np.where(length > 0.0, length, 1.0), 0.0, 1.0)
            room = np.minimum(room, np.linalg.norm(to - share[..., None] * run, axis=2).min(axis=1))
        if len(mine) and room.max() > 0.02 * (right - left):
            at = middles[mine[int(room.argmax())]].tolist()
            ax.text(
                at[0], at[1], str(c), ha="center", va="center", fontsize=12, weight="bold", clip_on=True,
                zorder=4, path_effects=[Stroke(linewidth=2.5, foreground="white"), Normal()],
            )  # fmt: skip
