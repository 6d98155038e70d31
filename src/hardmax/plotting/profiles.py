"""Networks on the line, and along a segment: their outputs, one curve each, interrupted where they jump.

On the line, cells are bands coloured by their affine map, with walls (black) and folds (white) between them;
at a wall the graph may jump, at a fold it only changes its slope. Along a segment, the breakpoints stand
behind the curves, walls dark and folds light, the thinner the more there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from hardmax.plotting.captions import axis_names, counted, explain
from hardmax.plotting.region_shapes import MANY, line_kinds, line_look, map_colours
from hardmax.plotting.style import INK, LINES, given_or_new, size_in_points, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box
    from hardmax.regions.result import RegionSet
    from hardmax.regions.segment.trace import SegmentTrace
    from hardmax.regions.sequences.trace import TransformerTrace


Floats = NDArray[np.float64]

_ROOM = 0.15  # share of a cell that the line beside it may take
_WALL, _FOLD = 1.3, 0.9  # points, where there is room
_CURVES = len(LINES)  # outputs that are drawn
_FOLD_COLOUR = "#9AA7B1"
_SPACE = 0.25  # share of the space between two breakpoints that their lines may take


def draw_profile(
    result: RegionSet, *, ax: Axes | None, box: Box, title: str | None = None, legend: bool = True
) -> Axes:
    """Draw a network on the line: its graph, over bands for its cells.

    Parameters
    ----------
    result : RegionSet
        Cells on the line.
    box : Box
        The interval that is shown.
    title : str, optional
        By default the numbers of cells and regions.
    legend : bool
        Whether to explain the lines.

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
        colours = map_colours(result, box, np.maximum(np.diff(np.clip(ends, left, right))[:, 0], 0.0))[order]
        ax.add_collection(
            PolyCollection(corners, facecolors=colours, edgecolors=colours, linewidths=0.3, rasterized=many),
            autolim=False,
        )
        drawn = _draw_breaks(ax, result, ends, (left, right), (bottom, top), many)
        curves = _draw_curves(ax, shown, values)
        ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=axis_names(result.network)[0], ylabel="$f(x)$")
        ax.set_title(title if title is not None else counted(result))
        if legend:
            explain(ax.figure, drawn, curves)
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
    many: bool,
) -> set[str]:
    pairs = result.adjacency
    at = np.minimum(ends[pairs[:, 0], 1], ends[pairs[:, 1], 1])
    room = np.minimum(*np.diff(ends, axis=1)[:, 0][pairs].T) / (interval[1] - interval[0])
    widths = _ROOM * size_in_points(ax)[0] * room
    kinds = line_kinds(result, result.region_of_cell)
    for kind, chosen in kinds.items():
        shown = np.flatnonzero(chosen & (widths.round(2) > 0.05))
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
        for kind, colour in ((0, _FOLD_COLOUR), (1, INK)):
            shown = result.breakpoints[result.kinds == kind]
            lines = [[(t, low - margin), (t, high + margin)] for t in shown.tolist()]
            ax.add_collection(LineCollection(lines, colors=colour, linewidths=width), autolim=False)
        curves = _draw_curves(ax, ends, values)
        ax.set(xlim=(0.0, 1.0), ylim=(low - margin, high + margin))
        ax.set(xlabel="$t$, from start (0) to end (1)", ylabel="$f$")
        ax.set_title("1 piece" if result.n_pieces == 1 else f"{result.n_pieces} pieces")
        if len(curves) > 1:
            ax.legend(handles=curves, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return ax
