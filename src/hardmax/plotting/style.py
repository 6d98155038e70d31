"""One look for all pictures: colours that colour-blind readers can tell apart, thin black walls, text as
text.

The fills are Paul Tol's "light" scheme, made for labelled areas under dark text; the strong colours are those
of Okabe and Ito.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FILLS", "INK", "LINES", "Picture", "given_or_new", "new_figure", "styled"]

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
    """The settings of all hardmax pictures, for as long as the block lasts; the user's own come back after
    it."""
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
