"""Counts over the number of keys on logarithmic axes, with fitted slopes, as P1 figure 6 draws them.

A dot is the mean of the draws, its bar runs from their lowest to their highest decile, the line is fitted to
the means. A second picture shows what the paper does not: slopes of single draws beside each other, choice by
choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from hardmax.errors import InvalidInputError
from hardmax.plotting.style import INK, LINES, given_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.regions.growth import Growth

__all__ = ["Curve", "draw_growth", "draw_slopes"]

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_GREY = "#8A8A8A"


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of the picture: what was counted, its name, and how it is drawn.

    ``hollow`` marks estimates, ``nudge`` moves dots sideways (as a factor) where two curves would hide each
    other, ``fitted`` draws the line.
    """

    growth: Growth
    label: str
    colour: str = LINES[0]
    hollow: bool = False
    nudge: float = 1.0
    fitted: bool = True


def draw_growth(
    curves: Sequence[Curve],
    *,
    ax: Axes | None = None,
    title: str = "",
    ylabel: str = "count",
    references: Mapping[str, Sequence[float]] | None = None,
) -> Axes:
    """Draw counts over N on logarithmic axes, with the line fitted to their means.

    Parameters
    ----------
    curves : sequence of Curve
        All with the same N; the slope of the fit is added to each label.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    title, ylabel : str
    references : mapping of label to values, optional
        Grey dashed lines: bounds, or slopes to compare with, one value per N.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from hardmax.regions.growth import Growth
    >>> axes = draw_growth([Curve(Growth((2, 4, 8), np.array([[4, 16, 64]])), "squares")])
    >>> axes.get_legend().get_texts()[0].get_text()
    'squares: slope 2.000'
    """
    if not curves:
        raise InvalidInputError("curves must hold at least one curve, but is empty.")
    with styled():
        ax = given_or_new(ax, 4.8, 4.4)
        n_tokens = np.asarray(curves[0].growth.n_tokens, dtype=np.float64)
        for i, (label, values) in enumerate((references or {}).items()):
            style = ((0, (5, 3)), (0, (1, 2)), (0, (5, 2, 1, 2)))[i % 3]
            ax.plot(n_tokens, values, color=_GREY, linewidth=1.0, linestyle=style, label=label, zorder=1)
        for curve in curves:
            _draw_curve(ax, curve)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set(xlabel="number of keys $N$", ylabel=ylabel, title=title)
        ax.xaxis.set_major_locator(FixedLocator(n_tokens.tolist()))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_locator(FixedLocator(list(_TICKS)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.grid(True, which="major", color="#E4E4E4", linewidth=0.6)
        ax.set_axisbelow(True)
        handles, labels = ax.get_legend_handles_labels()
        n = len(references or {})  # the curves first, what they are compared with last
        ax.legend(
            handles[n:] + handles[:n],
            labels[n:] + labels[:n],
            loc="upper center",
            bbox_to_anchor=(0.5, -0.14),
            frameon=False,
            fontsize=8.5,
        )
    return ax


def _draw_curve(ax: Axes, curve: Curve) -> None:
    growth = curve.growth
    n_tokens = np.asarray(growth.n_tokens, dtype=np.float64)
    low, high = np.quantile(growth.counts, [0.1, 0.9], axis=0)
    mean = growth.mean
    around = np.vstack([np.clip(mean - low, 0.0, None), np.clip(high - mean, 0.0, None)])
    ax.errorbar(
        n_tokens * curve.nudge,
        mean,
        yerr=around,
        fmt="o",
        markersize=5.5,
        color=curve.colour,
        markerfacecolor="white" if curve.hollow else curve.colour,
        elinewidth=0.9,
        capsize=2.5,
        zorder=3,
        label=f"{curve.label}: slope {growth.slope:.3f}",
    )
    if curve.fitted:
        line = np.exp(growth.intercept) * n_tokens**growth.slope
        ax.plot(n_tokens, line, color=curve.colour, linewidth=1.2, zorder=2)


def draw_slopes(
    rows: Mapping[str, Sequence[Growth]],
    *,
    labels: Sequence[str],
    ax: Axes | None = None,
    title: str = "",
    reference: float | None = None,
    reference_label: str = "",
) -> Axes:
    """Draw the slopes of single draws, row by row, with their mean and its standard error.

    Parameters
    ----------
    rows : mapping of label to sequence of Growth
        One row per choice; its growths are drawn below each other, in the colours of ``labels``.
    labels : sequence of str
        What the growths of a row are.
    ax : matplotlib Axes, optional
    title : str
    reference : float, optional
        A slope to compare with, as a dashed line.
    reference_label : str

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from hardmax.regions.growth import Growth
    >>> one = Growth((2, 4), np.array([[4, 16], [4, 8]]))
    >>> axes = draw_slopes({"squares": [one]}, labels=["all"], reference=2.0, reference_label="paper")
    >>> [text.get_text() for text in axes.get_yticklabels()]
    ['squares']
    """
    if not rows:
        raise InvalidInputError("rows must hold at least one row, but is empty.")
    with styled():
        ax = given_or_new(ax, 5.4, 1.2 + 0.45 * len(rows))
        step = 0.8 / len(labels)
        for i, growths in enumerate(rows.values()):
            for k, growth in enumerate(growths):
                height = i + (k - (len(labels) - 1) / 2) * step
                colour = LINES[k % len(LINES)]
                slopes = growth.slopes
                ax.plot(slopes, np.full(len(slopes), height), "|", color=colour, alpha=0.35, markersize=6)
                ax.errorbar(
                    growth.slope_mean,
                    height,
                    xerr=None if np.isnan(growth.slope_error) else growth.slope_error,
                    fmt="o",
                    color=colour,
                    markersize=5,
                    capsize=2.5,
                    label=labels[k] if i == 0 else None,
                )
        if reference is not None:
            ax.axvline(reference, color=INK, linewidth=1.0, linestyle=(0, (5, 3)), label=reference_label)
        ax.set_yticks(range(len(rows)), list(rows))
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set(xlabel="slope of one draw (|), mean and standard error (dot)", title=title)
        ax.grid(True, axis="x", color="#E4E4E4", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.16),
            ncols=len(labels) + 1,
            frameon=False,
            fontsize=8.5,
        )
    return ax
