"""Counts and bounds on logarithmic axes: over the number of keys, of layers, of heads (P1 figures 1 and 6).

In figure 6 a dot is the mean of the draws, its bar runs from their lowest to their highest decile, the line
is fitted to the means. :func:`draw_slopes` shows what the paper does not: slopes of single draws beside each
other, choice by choice. :func:`draw_budget` is Example V.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from hardmax.bounds import HeadBudget
from hardmax.bounds.large_integers import log10_of
from hardmax.errors import InvalidInputError
from hardmax.plotting.captions import explain
from hardmax.plotting.regions import draw_regions
from hardmax.plotting.style import INK, LINES, Picture, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box
    from hardmax.regions.growth import Growth
    from hardmax.regions.result import RegionSet


Series = Mapping[str, Sequence[int]]

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_GREY = "#8A8A8A"
_MARKERS = ("o", "s", "^", "D")


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
    title, ylabel : str
    references : mapping of label to values, optional
        Grey dashed lines: bounds, or slopes to compare with, one value per N.

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
    title : str
    reference : float, optional
        A slope to compare with, as a dashed line.
    reference_label : str

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


def draw_explosion(
    found: Sequence[RegionSet], titles: Sequence[str], boxes: Sequence[Box], series: Series
) -> Picture:
    """Draw the cells of deeper and deeper networks, and how many there are.

    Parameters
    ----------
    found : sequence of RegionSet
        The cells to draw, in the plane, one set per depth.
    titles : sequence of str
        What stands above each.
    boxes : sequence of Box
        The part of the plane that each shows.
    series : mapping of name to counts
        One number per depth, drawn in the last panel on a logarithmic scale.

    Examples
    --------
    >>> import hardmax as hm
    >>> square = hm.Box.cube(2, 0, 1)
    >>> found = hm.enumerate_regions(hm.networks.sawtooth_network(2, 2, 1, 1), square)
    >>> figure = draw_explosion([found], ["depth 1"], [square], {"exact": [16]})
    >>> len(figure.axes)
    2
    """
    columns = len(found) + 1
    with styled():
        figure = new_figure(3.7 * columns, 4.3)
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.1)
        for i, (cells, title, box) in enumerate(zip(found, titles, boxes, strict=True)):
            draw_regions(cells, ax=figure.add_subplot(1, columns, i + 1), box=box, title=title)
        _draw_series(figure.add_subplot(1, columns, columns), series)
        explain(figure, {"wall", "fold"})
    return figure


def _draw_series(ax: Axes, series: Series) -> None:
    for number, ((name, counts), colour, marker) in enumerate(
        zip(series.items(), LINES, _MARKERS, strict=False)
    ):
        # the curves rise: above the highest there is room on the left, below the others on the right
        left = number == 0 and len(series) > 1
        depths = range(1, len(counts) + 1)
        ax.plot(depths, counts, marker=marker, color=colour, label=name, linewidth=1.4)
        for depth, count in zip(depths, counts, strict=True):
            ax.annotate(
                f"{count:,}",
                (depth, count),
                xytext=(-6, 5) if left else (7, -5),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize=8,
                color=colour,
            )
    last = max(len(counts) for counts in series.values())
    ax.set(yscale="log", xlabel="depth $L$", title="how many", xticks=range(1, last + 1))
    ax.set_xlim(0.4, last + 0.7)  # room for the numbers
    ax.legend(fontsize=8, frameon=False, loc="lower right")
    ax.margins(y=0.15)


def draw_budget(budget: HeadBudget, *, ax: Axes | None = None) -> Axes:
    """Draw the most routing cells over the number of heads that share one budget of parameters.

    Examples
    --------
    >>> import hardmax as hm
    >>> draw_budget(hm.bounds.head_budget(512, 512)).get_xlabel()
    'heads $H$, of width $d/H$'
    """
    with styled():
        ax = given_or_new(ax, 6.0, 4.2)
        most = [log10_of(value) for value in budget.vertices]
        sums = [log10_of(budget.n_tokens, heads) for heads in budget.heads]
        ax.plot(budget.heads, sums, color=LINES[1], linestyle="--", linewidth=1.2, label="$N^H$")
        ax.plot(budget.heads, most, color=LINES[0], marker="o", linewidth=1.4, label="most cells possible")
        ax.set(
            xscale="log",
            yscale="log" if min(most) > 0.0 else "linear",
            xlabel="heads $H$, of width $d/H$",
            ylabel=r"$\log_{10}$ of the number of cells",
            title=f"{budget.n_parameters[0]:,} parameters, $N = {budget.n_tokens}$",
        )
        ax.set_xticks(budget.heads, [str(heads) for heads in budget.heads])
        ax.minorticks_off()
        if budget.d_head[-1] == 1 and most[-1] < sums[-1]:
            ax.annotate(
                "width 1:\ntwo winners per head",
                (budget.heads[-1], most[-1]),
                xytext=(-14, -46),
                textcoords="offset points",
                ha="right",
                color=INK,
                fontsize=9,
                arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.6},
            )
        ax.legend(frameon=False, loc="upper left")
    return ax
