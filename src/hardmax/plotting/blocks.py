"""A transformer block piece by piece, as P1 figure 7 draws it, beside what it really does.

The ReLU layer of a block sees x + v, not x, where v is the value of the key that won: each attention cell
sees the same arrangement of folds shifted by its own value. The paper draws one arrangement for all cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.plotting.captions import explain
from hardmax.plotting.region_shapes import Shapes
from hardmax.plotting.regions import draw_regions
from hardmax.plotting.style import INK, LINES, Picture, new_figure, styled

if TYPE_CHECKING:
    from hardmax.geometry.domains import Box
    from hardmax.networks.blocks import FeedForward
    from hardmax.regions.result import RegionSet

__all__ = ["compare_block"]


def compare_block(results: Sequence[RegionSet], feed_forward: FeedForward, box: Box) -> Picture:
    """Draw attention, the ReLU layer, their common refinement, and the cells of the block itself.

    Parameters
    ----------
    results : four RegionSets in the plane
        Of attention alone, of the ReLU layer alone, of both at the same input, and of the block.
    feed_forward : FeedForward
        The ReLU layer; in the last panel, dashed lines show where its folds would be without attention.
    box : Box
        The part of the plane that is shown.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import hardmax as hm
    >>> keys = hm.Attention([[[1, 0], [-1, 0]]], None, [[[0, 0], [3, 0]]])
    >>> still = hm.Attention([[[1, 0], [-1, 0]]], None, [[[0, 0], [0, 0]]])
    >>> layer = hm.FeedForward([[1, 0]], [-1], [[1], [0]], [0, 0])
    >>> box = hm.Box.cube(2, -4, 4)
    >>> found = [hm.enumerate_regions(hm.Network(blocks), box)
    ...          for blocks in ([keys], [layer], [still, layer], [keys, layer])]
    >>> [axes.get_title().splitlines()[-1] for axes in compare_block(found, layer, box).axes]
    ['2 cells', '2 cells', '3 cells', '4 cells']
    """
    if len(results) != 4:
        raise InvalidInputError(f"results must hold four partitions, but holds {len(results)}.")
    titles = ("A: attention", "B: ReLU layer at $x$", "C: common refinement of A and B", "D: the block")
    with styled():
        figure = new_figure(8.0, 8.8)
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.08, h_pad=0.08)
        for i, (title, result) in enumerate(zip(titles, results, strict=True)):
            ax = figure.add_subplot(2, 2, i + 1)
            heading = f"{title}\n{_cells(result)}"
            draw_regions(result, ax=ax, box=box, colour="map", legend=False, title=heading)
            ax.label_outer()
            if i == 2:  # both sides of this wall carry the same map, but it is a wall of A
                walls: Any = Shapes.of(results[0], box).contacts()[0]
                ax.add_collection(LineCollection(walls, colors=INK, linewidths=1.3), autolim=False)
        for line in fold_lines(feed_forward, box):
            ax.plot(*line.T, color=LINES[1], linewidth=1.1, linestyle=(0, (4, 3)))
        dashed = Line2D([], [], color=LINES[1], linestyle=(0, (4, 3)), label="D: the folds of B")
        explain(figure, {"wall", "fold"}, [dashed])
    return figure


def fold_lines(feed_forward: FeedForward, box: Box) -> list[NDArray[np.float64]]:
    """Where units of a ReLU layer switch, as segments across the box (in floats, for the eye)."""
    low, high = box.low.floats, box.high.floats
    centre, reach = (low + high) / 2, float(np.linalg.norm(high - low))
    lines = []
    w_in: Any = feed_forward.w_in
    for w, b in zip(w_in.floats, feed_forward.b_in.floats, strict=True):
        size = float(w @ w)
        if size > 0.0:
            foot = centre - (w @ centre + b) / size * w
            along = np.array([-w[1], w[0]]) / np.sqrt(size) * reach
            lines.append(np.array([foot - along, foot + along]))
    return lines


def _cells(result: RegionSet) -> str:
    return "1 cell" if result.n_cells == 1 else f"{result.n_cells} cells"
