"""A network along a segment: its outputs over the way from one end to the other.

One curve per output (the first six), interrupted where it jumps; behind them the breakpoints, walls dark and
folds light, the thinner the more there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection

from hardmax.plotting.profiles import _CURVES, _draw_curves
from hardmax.plotting.style import INK, given_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.regions.segment.trace import SegmentTrace

__all__ = ["draw_trace"]

_FOLD = "#9AA7B1"
_ROOM = 0.25  # share of the space between two breakpoints that their lines may take


def draw_trace(result: SegmentTrace, *, ax: Axes | None) -> Axes:
    """Draw the outputs of a network along a segment.

    Parameters
    ----------
    result : SegmentTrace
        The pieces of the network.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Returns
    -------
    matplotlib Axes

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
    values = np.swapaxes(result.values, 1, 2)[:, :_CURVES]  # (pieces, outputs, 2)
    with styled():
        ax = given_or_new(ax, 6.4, 4.2)
        low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        margin = 0.06 * (high - low) if high > low else 1.0
        points = 72.0 * ax.get_window_extent().width / ax.figure.get_dpi()
        width = float(np.clip(_ROOM * points / max(result.n_pieces, 1), 0.05, 1.0))
        for kind, colour in ((0, _FOLD), (1, INK)):
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
