"""Networks on the line, and along a segment: their outputs, one curve each, interrupted where they jump.

On the line, cells are bands coloured by their affine map, with walls (black) and folds (white) between them;
at a wall the graph may jump, at a fold it only changes its slope. Along a segment, the breakpoints stand
behind the curves, walls dark and folds light, the thinner the more there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from hardmax.plotting.captions import axis_names, counted, explain
from hardmax.plotting.region_shapes import MANY, cell_colours, line_kinds, line_look
from hardmax.plotting.style import INK, LINES, given_or_new, size_in_points, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box
    from hardmax.regions.result import RegionSet
    from hardmax.regions.segment.trace import SegmentTrace
    from hardmax.regions.sequences.frozen_context import FrozenContextEffect
    from hardmax.regions.sequences.trace import TransformerTrace


Floats = NDArray[np.float64]

_ROOM = 0.15  # share of a cell that the line beside it may take
_WALL, _FOLD = 1.3, 0.9  # points, where there is room
_CURVES = len(LINES)  # outputs that are drawn
_FOLD_COLOUR = "#9AA7B1"
_SPACE = 0.25  # share of the space between two breakpoints that their lines may take


def draw_profile(
    result: RegionSet,
    *,
    ax: Axes | None,
    box: Box,
    colour: str = "map",
    title: str | None = None,
    legend: bool = True,
    handles: Sequence[Any] = (),
) -> Axes:
    """Draw a network on the line: its graph, over bands for its cells.

    Parameters
    ----------
    result : RegionSet
        Cells on the line.
    box : Box
        The interval that is shown.
    colour : {"map", "region", "cell", "class"}
        By what cells are coloured; of colour "class" are cells that are cut by class.
    title : str, optional
        By default the numbers of cells and regions.
    legend : bool
        Whether to explain the lines.
    handles : sequence
        What the legend says first.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.networks.sawtooth_network(1, n_tokens=3, teeth=2, depth=1)
    >>> axes = draw_profile(hm.enumerate_regions(net, hm.Box([0], [1])), ax=None, box=hm.Box([0], [1]))
    >>> axes.get_title(), len(axes.lines)
    ('12 cells, 12 regions', 1)
    """
    left, right = float(box.low.floats[0]), float(box.high.floats[0])
    ends = _ends(result, left, right)
    order = np.argsort(ends[:, 0], kind="stable")
    order = order[(ends[order, 1] > left) & (ends[order, 0] < right)]
    shown = np.clip(ends[order], left, right)
    # (cells, outputs, 2)
    values = result.linear[order] * shown[:, None, :] + result.offset[order][:, :, None]
    many = len(order) > MANY
    with styled():
        ax = given_or_new(ax, 6.4, 4.2)
        low, high = float(values[:, :_CURVES].min()), float(values[:, :_CURVES].max())
        margin = 0.06 * (high - low) if high > low else 1.0
        bottom, top = low - margin, high + margin
        corners: Any = np.empty((len(order), 4, 2))
        corners[:, :, 0] = shown[:, [0, 1, 1, 0]]
        corners[:, :, 1] = [bottom, bottom, top, top]
        lengths = np.maximum(np.diff(np.clip(ends, left, right))[:, 0], 0.0)
        colours = cell_colours(result, box, lengths, colour)[order]
        ax.add_collection(
            PolyCollection(corners, facecolors=colours, edgecolors=colours, linewidths=0.3, rasterized=many),
            autolim=False,
        )
        drawn = _draw_breaks(ax, result, ends, (left, right), (bottom, top), colour == "class")
        curves = _draw_curves(ax, shown, values)
        ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=axis_names(result.network)[0], ylabel="$f(x)$")
        ax.set_title(title if title is not None else counted(result))
        if legend:
            explain(ax.figure, drawn, [*handles, *curves])
    return ax


def _ends(result: RegionSet, left: float, right: float) -> Floats:
    """The two ends of every cell; infinite ones are put outside the interval that is shown."""
    cells = result.cells
    if cells.kind == "intervals":
        ends = cells.vertices.content[:, 0].reshape(-1, 2)
        far = 2.0 * (abs(left) + abs(right)) + 1.0
        far += float(np.abs(np.where(np.isfinite(ends), ends, 0.0)).max(initial=0.0))
        return np.clip(ends, -far, far)
    x = cells.vx
    if cells.unbounded:
        x = x + cells.dx * 2.0 * (abs(left) + abs(right) + float(np.abs(x).max(initial=0.0)) + 1.0)
    start = cells.facets.offsets[:-1]
    return np.column_stack([np.minimum.reduceat(x, start), np.maximum.reduceat(x, start)])


def _draw_breaks(
    ax: Axes,
    result: RegionSet,
    ends: Floats,
    interval: tuple[float, float],
    height: tuple[float, float],
    by_class: bool,
) -> set[str]:
    pairs = result.adjacency
    at = np.minimum(ends[pairs[:, 0], 1], ends[pairs[:, 1], 1])
    room = np.minimum(*np.diff(ends, axis=1)[:, 0][pairs].T) / (interval[1] - interval[0])
    widths = _ROOM * size_in_points(ax)[0] * room
    kinds, many = line_kinds(result, result.region_of_cell, by_class=by_class), result.n_cells > MANY
    for kind, chosen in kinds.items():
        shown = np.flatnonzero(chosen & ((widths.round(2) > 0.05) | (kind == "boundary")))
        segments: Any = np.empty((len(shown), 2, 2))
        segments[:, :, 0] = at[shown, None]
        segments[:, :, 1] = height
        ax.add_collection(
            LineCollection(segments, **line_look(kind, widths[shown], _WALL, _FOLD), rasterized=many),
            autolim=False,
        )
    return {kind for kind, chosen in kinds.items() if chosen.any()}


def _draw_curves(ax: Axes, ends: Floats, values: Floats) -> list[Line2D]:
    """One curve per output, interrupted where it jumps."""
    n, outputs = values.shape[:2]
    curves = []
    for i in range(min(outputs, _CURVES)):
        y = values[:, i]
        size = float(np.abs(y).max(initial=0.0))
        jumps = np.flatnonzero(np.abs(y[1:, 0] - y[:-1, 1]) > 1e-9 * size) + 1
        places = np.insert(ends.ravel(), 2 * jumps, np.nan)
        heights = np.insert(y.ravel(), 2 * jumps, np.nan)
        width = float(np.clip(300.0 / n, 0.1, 1.8))  # thinner when it goes up and down more often
        casing = [Stroke(linewidth=width + 1.6, foreground="white"), Normal()] if width > 1.0 else []
        label = f"$f_{{{i + 1}}}(x)$" if outputs > 1 else "$f(x)$"
        ax.plot(places, heights, color=LINES[i], linewidth=width, path_effects=casing)
        curves.append(Line2D([], [], color=LINES[i], linewidth=1.8, label=label))
    return curves


def draw_trace(result: SegmentTrace | TransformerTrace, *, ax: Axes | None) -> Axes:
    """Draw the outputs of a network along a segment; those of a transformer token by token.

    Parameters
    ----------
    result : SegmentTrace or TransformerTrace
        The pieces of the network.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.networks.sawtooth_network(1, n_tokens=3, teeth=2, depth=1)
    >>> axes = draw_trace(hm.trace_segment(net, [0], [1]), ax=None)
    >>> axes.get_title(), len(axes.lines)
    ('12 pieces', 1)
    """
    places = np.concatenate([[0.0], result.breakpoints, [result.reach]])
    ends = np.column_stack([places[:-1], places[1:]])[: result.n_pieces]
    flat = result.values.reshape(result.n_pieces, 2, -1)
    values = np.swapaxes(flat, 1, 2)[:, :_CURVES]  # (pieces, outputs, 2)
    with styled():
        ax = given_or_new(ax, 6.4, 4.2)
        low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        margin = 0.06 * (high - low) if high > low else 1.0
        width = float(np.clip(_SPACE * size_in_points(ax)[0] / max(result.n_pieces, 1), 0.05, 1.0))
        named = []
        for kind, colour, name in ((0, _FOLD_COLOUR, "fold"), (1, INK, "wall")):
            shown = result.breakpoints[result.kinds == kind]
            lines = [[(t, low - margin), (t, high + margin)] for t in shown.tolist()]
            ax.add_collection(LineCollection(lines, colors=colour, linewidths=width), autolim=False)
            named += [Line2D([], [], color=colour, linewidth=1.0, label=name)] if len(lines) else []
        curves = _draw_curves(ax, ends, values)
        if result.values.ndim == 4:  # of a transformer: (pieces, 2, tokens, outputs)
            outputs = result.values.shape[3]
            for i, curve in enumerate(curves):
                output = f", $f_{{{i % outputs + 1}}}$" if outputs > 1 else ""
                curve.set_label(f"token {i // outputs}{output}")
        ax.set(xlim=(0.0, 1.0), ylim=(low - margin, high + margin))
        ax.set(xlabel="$t$, from start (0) to end (1)", ylabel="$f$")
        ax.set_title("1 piece" if result.n_pieces == 1 else f"{result.n_pieces} pieces")
        handles = [*(curves if len(curves) > 1 else []), *named]
        if handles:
            ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return ax


def draw_frozen_context(result: FrozenContextEffect, *, ax: Axes | None) -> Axes:
    """Draw which token each head reads along a segment: with frozen keys above, with moving keys below.

    Where both differ the lower strip is hatched.

    Parameters
    ----------
    result : FrozenContextEffect

    Examples
    --------
    >>> import hardmax as hm
    >>> layer = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]])
    >>> effect = hm.regions.frozen_context_effect(hm.Transformer([layer]), [[1.0], [2.0]], 0, [4.0])
    >>> axes = draw_frozen_context(effect, ax=None)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['head 1 frozen', 'moving']
    """
    heads = result.frozen.shape[1]
    read = np.unique(np.concatenate([result.frozen, result.moving]))
    colours = {int(token): LINES[i % len(LINES)] for i, token in enumerate(read)}
    with styled():
        ax = given_or_new(ax, 6.4, 0.9 + 0.62 * heads)
        places, labels = [], []
        for h in range(heads):
            for below, strip in enumerate((result.frozen[:, h], result.moving[:, h])):
                height = -(h * 1.3 + 0.5 * below)
                places.append(height)
                labels.append("moving" if below else f"head {h + 1} frozen")
                _draw_strip(ax, result, strip, height, colours)
                if below:
                    _draw_differences(ax, result, h, height)
        ax.set(xlim=(0.0, 1.0), ylim=(min(places) - 0.4, 0.4), xlabel="share of the way")
        ax.set_yticks(places, labels)
        ax.set_title(
            f"token {result.follow}: all heads agree on {100 * result.agreement_of_all:.0f} % of the way"
        )
        for side in ("left", "right", "top"):
            ax.spines[side].set_visible(False)
    return ax


def _draw_strip(
    ax: Axes, result: FrozenContextEffect, strip: NDArray[np.int32], height: float, colours: dict[int, Any]
) -> None:
    """Stretches in which one token is read, with its number where there is room."""
    starts = np.flatnonzero(np.diff(strip, prepend=-1))
    ends = [*starts[1:], len(strip)]
    for first, last in zip(starts.tolist(), ends, strict=True):
        left, right = result.breakpoints[first], result.breakpoints[last]
        token = int(strip[first])
        ax.broken_barh([(left, right - left)], (height - 0.2, 0.4), color=colours[token], linewidth=0)
        if right - left > 0.035:
            # a ground of its own, over hatches
            disc = {"boxstyle": "round,pad=0.15", "facecolor": colours[token], "edgecolor": "none"}
            ax.text(
                0.5 * (left + right), height, str(token), ha="center", va="center", color="white", size=8,
                bbox=disc, zorder=4,
            )  # fmt: skip


def _draw_differences(ax: Axes, result: FrozenContextEffect, h: int, height: float) -> None:
    differ = np.flatnonzero(result.frozen[:, h] != result.moving[:, h])
    spans = [(result.breakpoints[i], result.breakpoints[i + 1] - result.breakpoints[i]) for i in differ]
    ax.broken_barh(spans, (height - 0.2, 0.4), facecolor="none", edgecolor="white", hatch="////", linewidth=0)
