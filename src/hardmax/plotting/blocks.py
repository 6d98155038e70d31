"""How layers cut what the layers before them made of the plane: P1 figures 2 and 7.

:func:`compare_block` draws a transformer block piece by piece, beside what it really does. Its ReLU layer
sees x + v, not x, where v is the value of the key that won: each attention cell sees the same arrangement of
folds shifted by its own value. The paper draws one arrangement for all cells.

:func:`draw_folding` draws how a second ReLU layer cuts what the first one folded: the cells of the first
layer, its image (a folded sheet in the space of its units, with the cuts of the second layer), and the cells
of both layers. Every panel has the colours of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.plotting.captions import explain
from hardmax.plotting.region_shapes import Shapes
from hardmax.plotting.regions import draw_regions
from hardmax.plotting.style import FILLS, INK, LINES, Picture, frame, new_figure, number_of, styled
from hardmax.regions.api import enumerate_regions

if TYPE_CHECKING:
    from hardmax.geometry.domains import Box
    from hardmax.networks.blocks import FeedForward
    from hardmax.networks.network import Network
    from hardmax.regions.result import RegionSet


Floats = NDArray[np.float64]

_FIRST, _SECOND = 1.6, 0.7  # widths of the folds of both layers, in points


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
            heading = f"{title}\n{number_of(result.n_cells, 'cell')}"
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
    for w, b in zip(*_units(feed_forward), strict=True):
        size = float(w @ w)
        if size > 0.0:
            foot = centre - (w @ centre + b) / size * w
            along = np.array([-w[1], w[0]]) / np.sqrt(size) * reach
            lines.append(np.array([foot - along, foot + along]))
    return lines


def draw_folding(network: Network, box: Box, *, view: tuple[float, float] = (-20.0, -150.0)) -> Picture:
    """Draw the cells of a first layer, their folded image, and the cells of both layers.

    Parameters
    ----------
    network : Network
        Two ReLU layers (and what follows them), from the plane to three units first.
    box : Box
        The part of the plane that is shown, and whose image is.
    view : (elevation, azimuth)
        Where the eye stands in the second panel, in degrees; by default behind the origin, from where the
        sheets that lie in coordinate planes do not hide behind the others.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random_mlp([2, 3, 3, 1], 0)
    >>> figure = draw_folding(net, hm.Box.cube(2, -4, 4))
    >>> [axes.get_title().splitlines()[0] for axes in figure.axes]
    ['layer 1', 'its image: the plane, folded', 'layer 2']
    """
    first = network.blocks[0]
    if network.d != 2 or first.width != 3:
        raise InvalidInputError(
            f"network must start with a ReLU layer of 3 units in the plane, but is {network!r}."
        )
    one, two = (enumerate_regions(network.truncate(n), box, n_jobs=1) for n in (1, 2))
    patterns = one.relu_bits[:, : first.width].tolist()
    parent = [patterns.index(row) for row in two.relu_bits[:, : first.width].tolist()]
    with styled():
        figure = new_figure(11.4, 4.5)
        left = figure.add_subplot(1, 3, 1)
        middle: Any = figure.add_subplot(1, 3, 2, projection="3d")
        right = figure.add_subplot(1, 3, 3)
        _draw_plane(left, one, list(range(one.n_cells)), box, f"layer 1\n{number_of(one.n_cells, 'cell')}")
        _name_patterns(left, one, first.width)
        _draw_image(middle, first, two, parent, view)
        middle.set_title("its image: the plane, folded\ncut by the planes of layer 2")
        _draw_plane(right, two, parent, box, f"layer 2\n{number_of(two.n_cells, 'cell')}")
        _draw_folds(right, one, box, _FIRST)
    return figure


def _units(layer: FeedForward) -> tuple[Floats, Floats]:
    """Weights and biases of the units of a ReLU layer; without weights they read the coordinates."""
    return np.eye(layer.d_in) if layer.w_in is None else layer.w_in.floats, layer.b_in.floats


def _draw_plane(ax: Any, result: RegionSet, parent: list[int], box: Box, title: str) -> None:
    colours = [_tint(p, i) for i, p in enumerate(parent)]
    ax.add_collection(PolyCollection(result.polygons(box), facecolors=colours, edgecolors="none"))
    width = _FIRST if len(set(parent)) == len(parent) else _SECOND
    _draw_folds(ax, result, box, width)
    frame(ax, box, "$x_1$", "$x_2$")
    ax.set_title(title)


def _draw_folds(ax: Any, result: RegionSet, box: Box, width: float) -> None:
    segments: Any = Shapes.of(result, box).contacts()[0]
    ax.add_collection(LineCollection(segments, colors=INK, linewidths=width, capstyle="round"), autolim=False)


def _name_patterns(ax: Any, result: RegionSet, width: int) -> None:
    """Write into each cell of the first layer which of its units are on."""
    for polygon, row in zip(result.polygons(), result.relu_bits[:, :width], strict=True):
        x, y = _centroid(polygon)
        text = "".join("1" if on else "0" for on in row)
        halo = [withStroke(linewidth=2.5, foreground="white")]
        ax.text(x, y, text, ha="center", va="center", fontsize=9, path_effects=halo)


def _centroid(polygon: Floats) -> Floats:
    """The centre of mass of a polygon."""
    around = polygon - polygon[0]
    after = np.roll(around, -1, axis=0)
    cross = around[:, 0] * after[:, 1] - around[:, 1] * after[:, 0]
    if not cross.sum() > 0.0:
        return np.asarray(polygon.mean(axis=0))
    return np.asarray(polygon[0] + (cross[:, None] * (around + after)).sum(axis=0) / (3.0 * cross.sum()))


def _draw_image(ax: Any, layer: Any, result: RegionSet, parent: list[int], view: tuple[float, float]) -> None:
    w, b = _units(layer)
    images = [np.maximum(polygon @ w.T + b, 0.0) for polygon in result.polygons()]
    scale = np.maximum(np.vstack(images).max(axis=0), 1e-300)
    for i, image in enumerate(images):
        face = Poly3DCollection(
            [image / scale], facecolors=[_tint(parent[i], i)], edgecolors=INK, linewidths=0.6, alpha=0.92
        )
        ax.add_collection(face, autolim=False)
    ax.set(xlim=(0, 1), ylim=(0, 1), zlim=(0, 1))
    ax.set(xticks=[], yticks=[], zticks=[])
    ax.set_xlabel("unit 1", labelpad=-10)
    ax.set_ylabel("unit 2", labelpad=-10)
    ax.set_zlabel("unit 3", labelpad=-10)
    ax.set_proj_type("ortho")
    ax.set_box_aspect((1, 1, 1), zoom=1.05)
    ax.view_init(*view)


def _tint(parent: int, child: int) -> tuple[float, float, float]:
    """The colour of a cell of the first layer, a little lighter or darker from child to child."""
    colour = FILLS[parent % (len(FILLS) - 1)]
    white = (0.0, 0.16, 0.32, 0.48)[child % 4] if parent != child else 0.0
    red, green, blue = (share + white * (1 - share) for share in to_rgb(colour))
    return red, green, blue
