"""What came of trainings: every seed as a point, medians as lines, the paper's numbers beside them.

Also probes of heads (:func:`draw_recovery`) and attention weights by position (:func:`draw_weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator

from hardmax.plotting.style import FILLS, INK, LINES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hardmax.training.states import Recovery

_PRINTED: dict[str, Any] = {"marker": "D", "markerfacecolor": "none", "markersize": 5.5}


@dataclass(frozen=True)
class Measured:
    """Values of several seeds at some places.

    Attributes
    ----------
    label : str
    x : sequence of float
    seeds : sequence of sequences of float
        The values of all seeds at each x; an empty one was not run.
    paper : sequence of float or None
        What the paper prints at each x; empty when it prints nothing.
    """

    label: str
    x: Sequence[float]
    seeds: Sequence[Sequence[float]]
    paper: Sequence[float | None] = ()


@dataclass(frozen=True)
class MeasuredPanel:
    """One pair of axes: series of seeds, and where a prediction changes.

    Attributes
    ----------
    title, x_label : str
    series : tuple of Measured
    threshold : float, optional
        Where the prediction changes; ``threshold_label`` says what it says.
    exponents : tuple of (x, exponent)
        The predicted cost exponent at each place, drawn against an axis of its own on the right.
    x_log : bool
    ticks : tuple of str
        Words for the places, in their order, instead of numbers.
    """

    title: str
    x_label: str
    series: tuple[Measured, ...]
    threshold: float | None = None
    threshold_label: str = ""
    exponents: tuple[tuple[float, float], ...] = ()
    x_log: bool = False
    ticks: tuple[str, ...] = ()


def draw_measured(panels: Sequence[MeasuredPanel], *, y_label: str = "validation NMSE") -> Figure:
    """Draw panels side by side.

    Examples
    --------
    >>> panel = MeasuredPanel("two maxima", "D", (Measured("(D, D)", [2], [[1e-4, 2e-4]], [5.9e-5]),))
    >>> draw_measured([panel]).axes[0].get_ylabel()
    'validation NMSE'
    """
    with styled():
        figure = new_figure(5.2 * len(panels), 4.3)
        for number, panel in enumerate(panels):
            ax = figure.add_subplot(1, len(panels), number + 1)
            _draw_panel(panel, ax)
            ax.set_ylabel(y_label)
    return figure


def _draw_panel(panel: MeasuredPanel, ax: Axes) -> None:
    places = sorted({float(x) for series in panel.series for x in series.x})
    apart = min(np.diff(places), default=1.0) if not panel.x_log else 0.0
    n = len(panel.series)
    for i, series in enumerate(panel.series):
        colour = LINES[i % len(LINES)]
        shift = 0.0 if panel.x_log else (i - (n - 1) / 2) * 0.16 * apart
        run = [(x + shift, list(values)) for x, values in zip(series.x, series.seeds, strict=True) if values]
        for x, values in run:
            seeds: Any = {"markersize": 4, "alpha": 0.55, "markeredgewidth": 0, "zorder": 3}
            ax.plot([x] * len(values), values, "o", color=colour, **seeds)
        ax.plot(
            [x for x, _ in run],
            [float(np.median(values)) for _, values in run],
            color=colour,
            linewidth=1.5,
            marker="_",
            markersize=13,
            markeredgewidth=2,
            label=series.label,
            zorder=4,
        )
        printed = [(x + shift, p) for x, p in zip(series.x, series.paper, strict=False) if p is not None]
        if printed:
            xs, ps = zip(*printed, strict=True)
            ax.plot(xs, ps, color=colour, linestyle=":", linewidth=0.9, **_PRINTED)
    if any(p is not None for series in panel.series for p in series.paper):
        ax.plot([], [], color="0.4", linestyle="none", label="the paper (mean)", **_PRINTED)
    ax.set_yscale("log")
    if panel.x_log:
        ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(places))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels(panel.ticks or [f"{x:g}" for x in places])
    if not panel.x_log:
        ax.set_xlim(places[0] - 0.45 * apart, places[-1] + 0.45 * apart)
    if panel.threshold is not None:
        ax.axvline(
            panel.threshold, color=INK, linestyle=(0, (4, 3)), linewidth=1, label=panel.threshold_label
        )
    ax.set(title=panel.title, xlabel=panel.x_label)
    ax.grid(axis="y", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines["top"].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    if panel.exponents:
        other = ax.twinx()
        xs, ps = zip(*panel.exponents, strict=True)
        other.plot(xs, ps, color="0.5", marker="s", markersize=4, linestyle="--", linewidth=1.1)
        other.set_ylabel("predicted exponent p: $\\varepsilon^{-p}$ parameters", color="0.4")
        other.tick_params(axis="y", colors="0.4")
        other.set_ylim(min(0.0, min(ps)) - 0.05 * max(1.0, max(ps)), 1.25 * max(1.0, max(ps)))
        other.spines["top"].set_visible(False)
        handles += other.get_lines()
        labels += ["predicted exponent"]
    else:
        ax.spines["right"].set_visible(False)
    ax.legend(
        handles, labels, frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2
    )


@dataclass(frozen=True)
class Probed:
    """Recovery errors of the heads of one model: before and after training, and the paper's."""

    title: str
    initialised: Sequence[float]
    trained: Sequence[float]


def draw_recovery(probed: Sequence[Probed], *, y_label: str = "recovery error (56)") -> Figure:
    """Draw recovery errors, head by head, one panel per model.

    Examples
    --------
    >>> figure = draw_recovery([Probed("ours", [0.4, 0.4], [0.03, 0.05])])
    >>> len(figure.axes[0].patches)
    4
    """
    with styled():
        figure = new_figure(1.2 + 3.2 * len(probed), 3.6)
        top = 1.35 * max(max([*one.initialised, *one.trained], default=1.0) for one in probed)
        for number, one in enumerate(probed):
            ax = figure.add_subplot(1, len(probed), number + 1)
            heads = np.arange(1, len(one.trained) + 1)
            for at, label, errors, fill in (
                (heads - 0.2, "initialised", one.initialised, FILLS[8]),
                (heads + 0.2, "trained", one.trained, FILLS[0]),
            ):
                ax.bar(at, errors, 0.38, color=fill, edgecolor=INK, linewidth=0.6, label=label)
            if not len(heads):
                ax.text(0.5, 0.5, "not run", transform=ax.transAxes, ha="center", color="0.4")
            ax.set(title=one.title, xlabel="head", xticks=heads, ylim=(0, top))
            if number == 0:
                ax.set_ylabel(y_label)
                ax.legend(frameon=False, fontsize=8.5)
            ax.spines[["top", "right"]].set_visible(False)
    return figure


def draw_probe(found: Recovery) -> Figure:
    """Draw what a probe of one model found."""
    title = f"token of rank {found.rank}"
    return draw_recovery([Probed(title, found.initialised.tolist(), found.trained.tolist())])


def draw_weights(weights: Any, *, expected: float, title: str) -> Figure:
    """Draw the attention weights of CLS by position: the mean over inputs, and how far they spread.

    Parameters
    ----------
    weights : array (B, T)
    expected : float
        The weight that the paper reports, as a line.

    Examples
    --------
    >>> draw_weights([[0.5, 0.5, 0.0]], expected=0.5, title="two of three").axes[0].get_title()
    'two of three'
    """
    found = np.asarray(weights, dtype=float)
    places = np.arange(1, found.shape[1] + 1)
    mean = found.mean(axis=0)
    reach = np.stack([mean - found.min(axis=0), found.max(axis=0) - mean])
    with styled():
        figure = new_figure(6.0, 3.6)
        ax = figure.add_subplot()
        ax.bar(places, mean, 0.7, color=FILLS[0], edgecolor=INK, linewidth=0.6, label="mean")
        ax.errorbar(
            places, mean, yerr=reach, fmt="none", ecolor=INK, elinewidth=1, capsize=3, label="least and most"
        )
        ax.axhline(
            expected, color=LINES[1], linestyle="--", linewidth=1.1, label=f"the paper: {expected:.3g}"
        )
        ax.set(title=title, xlabel="position", ylabel="attention weight of CLS", xticks=places)
        ax.legend(frameon=False, fontsize=8.5)
        ax.spines[["top", "right"]].set_visible(False)
    return figure
