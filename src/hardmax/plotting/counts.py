"""Counts and bounds on a logarithmic scale, beside the cells they count (P1 figure 1, Example V.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardmax.bounds import HeadBudget
from hardmax.bounds.large_integers import log10_of
from hardmax.plotting.captions import explain
from hardmax.plotting.regions import draw_regions
from hardmax.plotting.style import INK, LINES, Picture, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box
    from hardmax.regions.result import RegionSet

__all__ = ["Series", "draw_budget", "draw_explosion"]

Series = Mapping[str, Sequence[int]]
_MARKERS = ("o", "s", "^", "D")


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

    Returns
    -------
    matplotlib Figure

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

    Parameters
    ----------
    budget : HeadBudget
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Returns
    -------
    matplotlib Axes

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
