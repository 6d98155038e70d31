"""Many texts, two models, a training: means over texts with their intervals, head by head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator

from hardmax.plotting.style import INK, LINES, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hardmax.models.atlas.corpus_atlas import CorpusAtlas
    from hardmax.models.atlas.generation import GenerationAtlas
    from hardmax.models.atlas.router_load import RouterLoad
    from hardmax.models.comparisons.along_training import AlongTraining
    from hardmax.models.comparisons.compare import ModelComparison
    from hardmax.models.influence.corpus_influence import CorpusInfluence

_WIDTH = 0.8  # of a layer, whose heads stand side by side


def _places(layer: Any, head: Any) -> Any:
    """Where the heads of each layer stand: side by side around the number of the layer's rank."""
    rank = np.unique(layer, return_inverse=True)[1]
    return rank + _WIDTH * ((head + 0.5) / (int(np.max(head)) + 1) - 0.5)


def _layers(ax: Axes, layer: Any) -> None:
    numbers = np.unique(layer)
    ax.set_xticks(range(len(numbers)), [str(n) for n in numbers])
    ax.set_xlim(-0.6, len(numbers) - 0.4)
    for i in range(1, len(numbers)):
        ax.axvline(i - 0.5, color="0.9", linewidth=0.7, zorder=0)
    ax.set_xlabel("layer, its heads from left to right")
    ax.grid(axis="y", color="0.92", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def draw_corpus_atlas(
    atlas: CorpusAtlas, *, statistic: str = "share_within_10", ax: Axes | None = None
) -> Axes:
    """Draw the mean of a statistic over texts, with its interval and the texts themselves behind it.

    Examples
    --------
    >>> import hardmax as hm
    >>> X = np.random.default_rng(0).standard_normal((10, 15, 4))
    >>> draw_corpus_atlas(hm.head_atlas(hm.models.bundled_source(), X)).get_xlabel()
    'layer, its heads from left to right'
    """
    from hardmax.models.atlas.corpus_atlas import SHARES, STATISTICS

    found, values = atlas.interval(statistic), atlas.of(statistic)
    at = _places(atlas.layer, atlas.head)
    n_layers = len(np.unique(atlas.layer))
    with styled():
        ax = given_or_new(ax, max(5.6, 1.2 + 1.3 * n_layers), 4.0)
        shown = values[:: max(1, len(values) // 200)]  # every text up to 200, else every second, third, ...
        ax.plot(
            np.tile(at, len(shown)), shown.ravel(), ".", color="0.75", markersize=2, zorder=1, rasterized=True
        )
        reach = np.nan_to_num(np.stack([found.mean - found.low, found.high - found.mean]))
        ax.errorbar(
            at,
            found.mean,
            yerr=np.maximum(reach, 0.0),
            fmt="o",
            color=LINES[0],
            markersize=3.5,
            elinewidth=1.4,
            zorder=3,
        )
        if statistic in SHARES:
            ax.set_ylim(-0.03, 1.03)
        ax.set(
            title=f"{atlas.model}, {len(atlas.names)} texts in grey: mean and "
            f"{100 * atlas.confidence:g} % interval over texts",
            ylabel=STATISTICS.get(statistic, statistic),
        )
        ax.title.set_fontsize(9.5)
        ax.yaxis.label.set_fontsize(8)
        _layers(ax, atlas.layer)
    return ax


def draw_router_load(found: RouterLoad, *, ax: Axes | None = None) -> Axes:
    """Draw the load of every expert over its even share, with its interval over texts, layer by layer."""
    shares = found.interval("share")
    even = found.k[:, None] / found.n_experts
    r, e = (place.ravel() for place in np.indices(shares.mean.shape))
    at = _places(found.layer[r], e)
    mean, low, high = ((part / even).ravel() for part in (shares.mean, shares.low, shares.high))
    with styled():
        ax = given_or_new(ax, max(5.6, 1.2 + 0.9 * len(found.layer)), 3.6)
        reach = np.nan_to_num(np.stack([mean - low, high - mean]))
        ax.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        ax.errorbar(
            at, mean, yerr=np.maximum(reach, 0.0), fmt="o", color=LINES[0], markersize=3.5, elinewidth=1.2
        )
        ax.set_ylim(bottom=0.0)
        texts = "1 text" if len(found.names) == 1 else f"{len(found.names)} texts"
        ax.set(title=f"{found.model}, {texts}: tokens per expert", ylabel="load over the even one")
        ax.title.set_fontsize(9.5)
        _layers(ax, found.layer)
        ax.set_xlabel("layer, its experts from left to right")
    return ax


def draw_corpus_influence(
    found: CorpusInfluence, *, measure: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the gain of information sets and of rollout after every layer, with intervals over texts."""
    measure = found.measures[0] if measure is None else measure
    j = found.measures.index(measure)
    after = np.arange(1, found.n_layers + 1)
    sets, rollout = found.interval("gain"), found.interval("rollout_gain")
    with styled():
        ax = given_or_new(ax, 6.2, 4.0)
        for i, rule in enumerate(found.rules):
            colour = LINES[i % len(LINES)]
            for part, line, words in ((sets, "-", "sets"), (rollout, ":", "rollout")):
                mean = part.mean[:, i, j]
                low, high = (
                    np.where(np.isfinite(e), e, mean) for e in (part.low[:, i, j], part.high[:, i, j])
                )
                ax.plot(after, mean, line, color=colour, marker="o", markersize=3.5, label=f"{rule}: {words}")
                ax.fill_between(after, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.axhline(0.0, color=INK, linewidth=0.8)
        ax.set(
            title=f"{found.model}, {len(found.names)} texts: gain by {measure}",
            xlabel="after layer",
            ylabel="gain: 0 as a random set, 1 as the best",
        )
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(frameon=False, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def draw_comparison(found: ModelComparison, *, statistic: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the direct and the total difference of a statistic for every head, with intervals over texts.

    Heads that are named, after correction for all of them, are filled.
    """
    statistic = found.statistics[0] if statistic is None else statistic
    j = found.statistics.index(statistic)
    at = _places(found.layer, found.head)
    kinds = ("direct", "total") if found.has_direct else ("total",)
    words = {"direct": "with the inputs of the first model", "total": "with its own inputs"}
    with styled():
        ax = given_or_new(ax, max(5.6, 1.2 + 1.3 * len(np.unique(found.layer))), 4.0)
        for i, kind in enumerate(kinds):
            part, sure = found.interval(kind), found.p_values(kind)[:, j] <= found.alpha
            mean = part.mean[:, j]
            reach = np.stack([mean - part.low[:, j], part.high[:, j] - mean])
            shift = (i - (len(kinds) - 1) / 2) * 0.3 * _WIDTH / (int(found.head.max()) + 1)
            for which, face in ((sure, LINES[i]), (~sure, "white")):
                ax.errorbar(
                    at[which] + shift,
                    mean[which],
                    yerr=np.maximum(np.nan_to_num(reach[:, which]), 0.0),
                    fmt="os"[i],
                    color=LINES[i],
                    markerfacecolor=face,
                    markersize=4.5,
                    elinewidth=1.2,
                    label=words[kind] if face != "white" else None,
                )
        ax.axhline(0.0, color=INK, linewidth=0.8, zorder=0)
        ax.set(
            title=f"{found.b} minus {found.a}, {len(found.names)} texts; filled: beyond their spread",
            ylabel=f"difference of {statistic.replace('_', ' ')}",
        )
        ax.title.set_fontsize(9.5)
        _layers(ax, found.layer)
        ax.legend(frameon=False, fontsize=8)
    return ax


def draw_along_training(found: AlongTraining) -> Figure:
    """Draw hardness, margins, information sets and cells along a training, in four panels.

    A triangle marks a checkpoint at which a head becomes hard (up) or soft again (down); it is filled where
    the interval over texts leaves the threshold out.
    """
    steps = found.steps.astype(float)
    dots: dict[str, Any] = {"marker": "o", "markersize": 3}
    with styled():
        figure = new_figure(10.4, 7.4)
        axes = figure.subplots(2, 2)
        top, margins, sets, cells = axes.ravel()
        for ax, statistic in ((top, "share_within_10"), (margins, "margin")):
            part = found.interval(statistic)
            for i, name in enumerate(found.heads):
                colour = LINES[i % len(LINES)]
                ax.plot(steps, part.mean[:, i], color=colour, label=name, **dots)
                low, high = (
                    np.where(np.isfinite(e[:, i]), e[:, i], part.mean[:, i]) for e in (part.low, part.high)
                )
                ax.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        rows = {place: i for i, place in enumerate(zip(found.layer, found.head, strict=True))}
        for event in found.events:
            colour = LINES[rows[event.layer, event.head] % len(LINES)]
            marker = "^" if event.what == "hard" else "v"
            face = colour if event.sure else "white"
            style: Any = {"marker": marker, "markersize": 9, "markerfacecolor": face, "zorder": 5}
            top.plot([event.step], [event.share], color=colour, **style)
        top.axhline(found.hard, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        top.set(title="queries within 10 % of hardmax", ylabel="share, mean over texts", ylim=(-0.03, 1.03))
        margins.set(title="margin", ylabel="lead of the winner / temperature", yscale="log")
        if len(found.heads) <= 12:
            top.legend(frameon=False, fontsize=8)
        for layer in range(1, found.set_sizes.shape[2]):
            colour = LINES[(layer - 1) % len(LINES)]
            for sizes, line, words in (
                (found.set_sizes, "-", "a token"),
                (found.read_out_sizes, ":", "the last"),
            ):
                label = f"{words}, after layer {layer}"
                sets.plot(steps, sizes[:, :, layer].mean(axis=1), line, color=colour, label=label, **dots)
        sets.set(title="information sets (arg-max)", ylabel="share of the positions", ylim=(-0.03, 1.03))
        counts = np.where(found.cells >= 0, found.cells, np.nan)
        for layer in range(found.cells.shape[2]):
            colour = LINES[layer % len(LINES)]
            for t in range(found.cells.shape[1]):
                label = f"layer {layer}" if t == 0 else ""
                cells.plot(steps, counts[:, t, layer], color=colour, label=label, alpha=0.8, **dots)
        cells.set(title="exact cells on the principal plane, one line per text", ylabel="cells")
        cells.set_ylim(bottom=0)
        if np.isfinite(found.error).all():
            other = cells.twinx()
            other.plot(steps, found.error, color=INK, linestyle="--", linewidth=1.1)
            other.set(ylabel="error of the task (NMSE), dashed", yscale="log")
        for ax, place in ((sets, "best"), (cells, "lower left")):
            ax.legend(frameon=False, fontsize=8, loc=place)
        apart = steps[steps > 0]
        for ax in axes.ravel():
            ax.set_xlabel("step")
            if len(apart) > 2 and apart[-1] > 20 * apart[0]:  # checkpoints that double, and the start at 0
                ax.set_xscale("symlog", linthresh=float(apart[0]), linscale=0.6)
                ax.set_xlim(-0.2 * float(apart[0]), 1.2 * float(apart[-1]))
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
            ax.grid(color="0.92", linewidth=0.6)
            ax.set_axisbelow(True)
    return figure


def draw_generation(found: GenerationAtlas, *, ax: Axes | None = None) -> Axes:
    """Draw the probability of the winner at every step, heads down; dots: within 10 % of hardmax."""
    steps, rows = found.winners.shape
    with styled():
        ax = given_or_new(ax, max(5.0, 2.0 + 0.32 * steps), 1.6 + 0.26 * rows)
        image = ax.imshow(found.top_probabilities.T, vmin=0.0, vmax=1.0, cmap="cividis", aspect="auto")
        at = np.argwhere(found.within_10)
        ax.plot(at[:, 0], at[:, 1], "o", color=INK, markersize=4, markeredgewidth=0)
        asks = found.tokens[found.n_prompt - 1 : found.n_prompt - 1 + steps]
        ax.set_xticks(range(steps), asks, rotation=60, ha="right", fontsize=7.5)
        names = [f"{n}.{h}" for n, h in zip(found.layer, found.head, strict=True)]
        every = max(1, rows // 24)
        ax.set_yticks(range(0, rows, every), names[::every], fontsize=7.5)
        ax.set(
            xlabel="token that asks, step by step",
            ylabel="layer.head",
            title="probability of the winner; dots: within 10 % of hardmax",
        )
        ax.title.set_fontsize(9.5)
        if ax.figure is not None:
            ax.figure.colorbar(image, ax=ax, shrink=0.9)
    return ax
