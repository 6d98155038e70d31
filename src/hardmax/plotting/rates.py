"""Rates: how many units, weights or bits a construction takes against the accuracy it reaches.

A picture is a row of panels; a panel is a list of curves. Lines are measured or computed, dashed lines are
what a formula says, grey dotted lines are references such as a slope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from hardmax.plotting.style import INK, LINES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Look = Literal["line", "dashed", "reference", "points"]

_LOOKS: dict[Look, Any] = {
    "line": {"linewidth": 1.6, "marker": "o", "markersize": 3.5},
    "dashed": {"linewidth": 1.5, "linestyle": "--"},
    "reference": {"linewidth": 1.1, "linestyle": ":", "zorder": 1},
    "points": {"linestyle": "none", "marker": "o", "markersize": 5},
}


@dataclass(frozen=True)
class Curve:
    """A curve of a rate picture.

    Attributes
    ----------
    label : str
    x, y : sequence of float
    look : {"line", "dashed", "reference", "points"}
        Computed, stated by a formula, a slope for comparison, or single values.
    colour : int, optional
        Number of its colour; by default the next one, references are grey.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look = "line"
    colour: int | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its curves."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_log: bool = True
    y_log: bool = True
    x_falls: bool = False
    """Whether x runs from large to small, as accuracies do."""


def draw_rates(panels: Sequence[Panel]) -> Figure:
    """Draw panels side by side.

    Examples
    --------
    >>> figure = draw_rates([Panel("widths", "eps", "units", (Curve("built", [1, 0.1], [10, 100]),))])
    >>> len(figure.axes), figure.axes[0].get_title()
    (1, 'widths')
    """
    with styled():
        figure = new_figure(4.6 * len(panels), 3.9)
        for number, panel in enumerate(panels):
            draw_panel(panel, figure.add_subplot(1, len(panels), number + 1))
    return figure


def draw_panel(panel: Panel, ax: Axes) -> Axes:
    """Draw one panel on given axes."""
    free = 0
    for curve in panel.curves:
        if curve.look == "reference":
            colour = "0.55"
        elif curve.colour is not None:
            colour = LINES[curve.colour % len(LINES)]
        else:
            colour, free = LINES[free % len(LINES)], free + 1
        ax.plot(curve.x, curve.y, color=colour, label=curve.label, **_LOOKS[curve.look])
    if panel.x_log:
        ax.set_xscale("log")
        _plain_ticks(ax.xaxis, [value for curve in panel.curves for value in curve.x])
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.y_log:
        ax.set_yscale("log")
        _plain_ticks(ax.yaxis, [value for curve in panel.curves for value in curve.y])
    if panel.x_falls:
        ax.invert_xaxis()
    ax.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines["left"].set_color(INK)
    ax.legend(frameon=False, fontsize=8.5)
    return ax


def _plain_ticks(axis: Any, values: Sequence[float]) -> None:
    """Label 1, 2 and 5 in plain numbers over few decades, and only the powers of ten over many."""
    axis.set_minor_formatter(NullFormatter())
    if max(values) < 1000 * min(values):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
