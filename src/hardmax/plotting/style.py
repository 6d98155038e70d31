"""One look for all pictures: colours that colour-blind readers can tell apart, black walls, text as text.

The fills are Paul Tol's "light" scheme, made for labelled areas under dark text; the strong colours are those
of Okabe and Ito.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box

FILLS = (
    "#77AADD",
    "#EE8866",
    "#44BB99",
    "#EEDD88",
    "#FFAABB",
    "#99DDFF",
    "#BBCC33",
    "#AAAA00",
    "#DDDDDD",
)
"""Areas."""

LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Lines and points."""

INK = "#1A1A1A"
"""Walls, edges and text."""

GROUND = "#B9C7D3"
"""Behind a legend with white lines, or with white stars beside hollow ones, which differ on it only."""

_SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: searchable, selectable, and small files
    "svg.hashsalt": "hardmax",  # the same picture gives the same file
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.8,
    "savefig.dpi": 160,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.12,
}


@contextmanager
def styled() -> Iterator[None]:
    """The settings of all hardmax pictures, for as long as the block lasts."""
    with matplotlib.rc_context(_SETTINGS):
        yield


class Picture(Figure):
    """A figure that keeps its look when it is saved, because fonts and file options are decided only then."""

    def savefig(self, fname: Any, **options: Any) -> None:  # type: ignore[override]
        """Write the figure to a file; the same figure gives the same bytes."""
        ending = options.get("format") or str(fname).rpartition(".")[2]
        if ending == "svg":
            options.setdefault("metadata", {"Date": None})
        with styled():
            super().savefig(fname, **options)


def new_figure(width: float, height: float) -> Picture:
    """An empty figure of a size in inches that belongs to no screen."""
    return Picture(figsize=(width, height), layout="constrained")


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes that were given, or those of a new figure of a size in inches."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def size_in_points(ax: Axes) -> tuple[float, float]:
    """The width and the height of axes in points, of which lines have a few."""
    page, scale = ax.get_window_extent(), 72.0 / ax.figure.get_dpi()
    return page.width * scale, page.height * scale


def frame(ax: Axes, box: Box, across: str, up: str) -> None:
    """Show a box of the plane in true proportions, with names for its axes."""
    (left, bottom), (right, top) = box.low.floats, box.high.floats
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel=across, ylabel=up)
    ax.locator_params(nbins=5)


def different_neighbours(n: int, pairs: NDArray[np.int64], n_colours: int) -> list[int]:
    """A colour for each of n things, so that neighbours differ as long as there are enough colours.

    >>> different_neighbours(3, np.array([[0, 2], [1, 2]]), 2)
    [0, 1, 0]
    """
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for i, j in pairs.tolist():
        neighbours[max(i, j)].append(min(i, j))
    chosen: list[int] = []
    for i in range(n):
        taken = {chosen[j] for j in neighbours[i]}
        turn = [(i + k) % n_colours for k in range(n_colours)]  # begin elsewhere: all colours occur
        chosen.append(next((colour for colour in turn if colour not in taken), turn[0]))
    return chosen


def towards_eye(view: tuple[float, float]) -> NDArray[np.float64]:
    """The direction towards an eye at an elevation and an azimuth in degrees.

    >>> towards_eye((90.0, 0.0)).round(9)
    array([0., 0., 1.])
    """
    elevation, azimuth = np.radians(view)
    level = np.cos(elevation)
    return np.array([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)])


def number_of(number: int, word: str, words: str = "") -> str:
    """A number and what it counts; ``words`` is the plural, where it takes more than an s.

    >>> number_of(1, "cell"), number_of(1200, "cell"), number_of(2, "vertex", "vertices")
    ('1 cell', '1,200 cells', '2 vertices')
    """
    return f"1 {word}" if number == 1 else f"{number:,} {words or word + 's'}"
