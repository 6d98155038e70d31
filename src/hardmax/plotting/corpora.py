"""Many texts, two models, a training: means over texts with their intervals, head by head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from hardmax.plotting.style import INK, LINES, given_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.models.atlas.corpus_atlas import CorpusAtlas
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
        ax.yaxis.label.set_fontsize(8.5)
        _layers(ax, atlas.layer)
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
