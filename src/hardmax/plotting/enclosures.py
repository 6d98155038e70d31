"""What is enclosed with proof: a smooth network along a segment, and cells with conic walls.

Along a segment a bracket that holds one change is a dark line, one in which changes could not be separated a
red band. Cells behind a norm are coloured by their routing, point by point; the picture shows what floats
say, the title what is proven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from hardmax.plotting.style import FILLS, INK, LINES, different_neighbours, given_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.regions.enclosures.normed_plane import NormedDiagram
    from hardmax.regions.enclosures.trace import CertifiedTrace

_SAMPLES = 801
_PIXELS = 500
_OPEN = "#CC3311"
_NARROWEST = 0.004  # share of the picture that a red band takes at least


def draw_certified(result: CertifiedTrace, *, ax: Axes | None) -> Axes:
    """Draw the outputs of a network along a segment, with the brackets of its changes behind them.

    Parameters
    ----------
    result : CertifiedTrace

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1, 0], [0, 1]]], [[0, 0.25]], [[[1, 0], [0, 1]]])
    >>> net = hm.Network([hm.networks.RMSNorm([1, 1], epsilon=0), head])
    >>> axes = draw_certified(hm.trace_segment(net, [1, 0], [0, 1]), ax=None)
    >>> axes.get_title(), len(axes.lines)
    ('2 pieces, 1 bracket', 2)
    """
    t = np.linspace(0.0, 1.0, _SAMPLES)
    points = np.array([result.point(float(s)) for s in t])
    values = np.asarray(result.network(points)).reshape(len(t), -1)[:, : len(LINES)]
    with styled():
        ax = given_or_new(ax, 6.4, 4.2)
        low, high = float(values.min()), float(values.max())
        margin = 0.06 * (high - low) if high > low else 1.0
        bottom, top = low - margin, high + margin
        lines = [[(s, bottom), (s, top)] for s in result.breakpoints[result.proven].tolist()]
        width = float(np.clip(60.0 / max(len(lines), 1), 0.2, 1.0))
        ax.add_collection(LineCollection(lines, colors=INK, linewidths=width), autolim=False)
        for left, right in result.brackets[~result.proven].tolist():
            more = max(0.0, _NARROWEST - (right - left)) / 2.0
            ax.axvspan(left - more, right + more, color=_OPEN, alpha=0.6, linewidth=0)
        at = np.searchsorted(t, result.breakpoints)
        for i, column in enumerate(values.T):
            jumps = np.abs(np.diff(column)) > 20.0 * np.median(np.abs(np.diff(column))) + 1e-12
            broken = [k for k in at.tolist() if 0 < k < len(t) and jumps[k - 1]]
            ax.plot(
                np.insert(t, broken, np.nan), np.insert(column, broken, np.nan), color=LINES[i], linewidth=1.6
            )
        ax.set(xlim=(0.0, 1.0), ylim=(bottom, top))
        ax.set(xlabel="$t$, from start (0) to end (1)", ylabel="$f$")
        pieces = "1 piece" if result.n_pieces == 1 else f"{result.n_pieces} pieces"
        brackets = "1 bracket" if len(result.brackets) == 1 else f"{len(result.brackets)} brackets"
        open_ = f", {result.n_unseparated} not separated" if result.n_unseparated else ""
        ax.set_title(f"{pieces}, {brackets}{open_}")
    return ax


def draw_normed(result: NormedDiagram, *, ax: Axes | None) -> Axes:
    """Draw the cells of the first routing behind a norm, with their conic walls.

    Parameters
    ----------
    result : NormedDiagram

    Examples
    --------
    >>> import hardmax as hm
    >>> keys = [[[2, 0], [-1, 2], [-1, -2]]]
    >>> net = hm.Network([hm.networks.RMSNorm([1, 1], epsilon=0.1), hm.Attention(keys, [[0, 1, -1]], keys)])
    >>> draw_normed(hm.regions.normed_diagram(net, hm.Box.cube(2, -1, 1)), ax=None).get_title()
    '3 cells, proven'
    """
    (left, bottom), (right, top) = result.domain.low.floats, result.domain.high.floats
    x = left + (np.arange(_PIXELS) + 0.5) / _PIXELS * (right - left)
    y = bottom + (np.arange(_PIXELS) + 0.5) / _PIXELS * (top - bottom)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    _, cell = np.unique(result.network.signature(points).routings, axis=0, return_inverse=True)
    image = cell.reshape(_PIXELS, _PIXELS)
    beside = [np.column_stack([image[:, 1:].ravel(), image[:, :-1].ravel()])]
    beside.append(np.column_stack([image[1:].ravel(), image[:-1].ravel()]))
    pairs = np.unique(np.sort(np.concatenate(beside), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int64)
    colours = different_neighbours(int(image.max()) + 1, pairs, len(FILLS))
    palette: Any = np.array([to_rgb(FILLS[c]) for c in colours])
    with styled():
        ax = given_or_new(ax, 5.2, 5.0)
        extent = (float(left), float(right), float(bottom), float(top))
        ax.imshow(palette[image], origin="lower", extent=extent, interpolation="nearest", aspect="auto")
        for k in range(int(image.max()) + 1):
            inside = (image == k).astype(float)
            if 0.0 < inside.mean() < 1.0:
                ax.contour(x, y, inside, levels=[0.5], colors=INK, linewidths=0.9)
        if len(result.vertices):
            ax.plot(*result.vertices.T, "o", color=INK, markersize=3)
        cells = "1 cell" if result.n_cells == 1 else f"{result.n_cells} cells"
        ax.set(xlim=extent[:2], ylim=extent[2:], xlabel="$x_1$", ylabel="$x_2$")
        ax.set_title(
            f"{cells}, proven" if result.proven else f"{len(result.routings)} routings seen, count not proven"
        )
        ax.set_aspect("equal")
    return ax
