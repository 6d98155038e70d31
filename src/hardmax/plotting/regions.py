"""Cells and regions of networks: coloured areas, black walls, white folds (P1 figures 1, 2 and 7).

Where a routing changes, the map may jump: a wall, black. Where a ReLU switches, it only folds: white. Lines
between cells of one region, across which the map stays the same, are dotted. Lines get thinner where cells
get small and vanish where there is no room for them, so that a hundred thousand cells still make a picture;
such pictures are pixels, also inside an SVG, with text and axes as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D

from hardmax.errors import InvalidInputError
from hardmax.networks.blocks import Affine, Attention
from hardmax.networks.network import Network
from hardmax.plotting.profiles import draw_profile
from hardmax.plotting.region_colours import map_colours, region_colours
from hardmax.plotting.region_shapes import Shapes, box_shown
from hardmax.plotting.style import INK, Picture, new_figure, styled
from hardmax.regions.enumeration import enumerate_regions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box, Domain
    from hardmax.regions.region_set import RegionSet

__all__ = ["compare_depths", "draw_regions"]

Colouring = Literal["map", "region"]

_WALL, _FOLD = 1.3, 0.8  # points, where there is room
_MANY = 5_000  # cells beyond which a picture is pixels
_GROUND = "#B9C7D3"  # of the legend: white lines show on it
_LABELS = {"wall": "wall: a routing changes", "fold": "fold: a ReLU switches", "seam": "same map on both sides"}


def draw_regions(
    result: RegionSet,
    *,
    ax: Axes | None = None,
    box: Box | None = None,
    colour: Colouring = "map",
    title: str | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw the cells of a network: areas coloured by their affine map, black walls, white folds.

    Parameters
    ----------
    result : RegionSet
        In the plane; on the line, what is drawn is the graph of the network (:func:`draw_profile`).
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    box : Box, optional
        The part of the plane that is shown: by default the domain, or the busy part of an unbounded one.
    colour : {"map", "region"}
        Similar colours for similar affine maps, or different colours for neighbouring regions.
    title : str, optional
        A line above the picture; by default the numbers of cells and regions.
    legend : bool, optional
        Whether to explain the lines; by default in a new figure only.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.enumerate_regions(hm.sawtooth_network(2, 3, 2, 1), hm.Box.cube(2, 0, 1))
    >>> axes = draw_regions(found)
    >>> axes.get_title(), len(axes.figure.legends)
    ('144 cells, 144 regions', 1)
    """
    if result.d == 1:
        return draw_profile(result, ax=ax, box=box, title=title, legend=legend)
    box = _checked(box, result)
    colours_of = {"map": map_colours, "region": region_colours}
    if colour not in colours_of:
        raise InvalidInputError(f"colour must be one of {', '.join(colours_of)}, but was {colour!r}.")
    with styled():
        own = ax is None
        ax = new_figure(5.4, 5.8).add_subplot() if ax is None else ax
        shapes = Shapes.of(result, box)
        colours = map_colours(result, box, shapes.areas) if colour == "map" else region_colours(result)
        _draw_cells(ax, shapes, colours)
        drawn = _draw_lines(ax, shapes)
        _frame(ax, box, result.network)
        ax.set_title(title if title is not None else _count(result))
        if legend or (legend is None and own):
            _explain(ax.figure, drawn)
    return ax


def _checked(box: Box | None, result: RegionSet) -> Box:
    if box is None:
        return box_shown(result)
    if box.d != result.d:
        raise InvalidInputError(f"box must have dimension {result.d}, but has {box.d}.")
    return box


def _draw_cells(ax: Axes, shapes: Shapes, colours: Any) -> None:
    for numbers, corners in shapes.polygons():
        # a thin edge in the colour of the area closes the seams between antialiased areas
        ax.add_collection(
            PolyCollection(
                corners,
                facecolors=colours[numbers],
                edgecolors=colours[numbers],
                linewidths=0.3,
                rasterized=shapes.result.n_cells > _MANY,
            ),
            autolim=False,
        )


def _draw_lines(ax: Axes, shapes: Shapes) -> set[str]:
    """Folds, then walls over them; returns which kinds there are."""
    result, contacts = shapes.result, shapes.result._contacts
    segments, layers = shapes.contacts()
    inches = min(ax.get_window_extent().width, ax.get_window_extent().height) / ax.figure.get_dpi()
    widths = shapes.widths(layers, 72.0 * inches / float((shapes.box.high.floats - shapes.box.low.floats).max()))
    walls = contacts[1] == 1
    region = result.region_of_cell[contacts[0]]
    seams = region[:, 0] == region[:, 1]
    kinds: dict[str, Any] = {"fold": ~walls & ~seams, "wall": walls & ~seams, "seam": seams}
    for kind, chosen in kinds.items():
        shown = np.flatnonzero(chosen & (widths > 0.0))
        shown = shown[np.argsort(widths[shown], kind="stable")]
        limit = _WALL if kind == "wall" else _FOLD
        ax.add_collection(
            LineCollection(
                segments[shown],
                colors=INK if kind == "wall" else "white",
                linewidths=np.minimum(widths[shown], limit).round(2),
                linestyles=(0, (1, 2)) if kind == "seam" else "solid",
                capstyle="butt" if kind == "seam" else "round",
                rasterized=result.n_cells > _MANY,
            ),
            autolim=False,
        )
    ax.add_collection(LineCollection(shapes.outline(), colors=INK, linewidths=0.8), autolim=False)
    return {kind for kind, chosen in kinds.items() if chosen.any()}


def _frame(ax: Axes, box: Box, network: Network) -> None:
    (left, bottom), (right, top) = box.low.floats, box.high.floats
    across, up = axis_names(network)
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=across, ylabel=up)
    if 0.2 < (right - left) / (top - bottom) < 5.0:
        ax.set_aspect("equal")
    ax.locator_params(nbins=5)


def axis_names(network: Network) -> list[str]:
    """The names of the input's coordinates; those of a slice say along which direction they run.

    Examples
    --------
    >>> import hardmax as hm
    >>> wide = hm.Network.random_mlp([4, 8, 1], 0)
    >>> axis_names(wide.restrict([0, 0, 0, 0], [[0, 1, 0, 0], [1, 1, 0, 0]]))
    ['$x_2$', '$t_2$ (slice direction 2)']
    """
    first = network.blocks[0]
    if not isinstance(first, Affine) or first.d_out <= first.d_in:
        return [f"$x_{i + 1}$" for i in range(network.d)] if network.d > 1 else ["$x$"]
    names = []
    for i in range(network.d):
        direction, origin = first.w.floats[:, i], first.b.floats
        along = np.flatnonzero(direction)
        plain = len(along) == 1 and direction[along[0]] == 1.0 and origin[along[0]] == 0.0
        names.append(f"$x_{{{along[0] + 1}}}$" if plain else f"$t_{i + 1}$ (slice direction {i + 1})")
    return [name.replace("{", "").replace("}", "") if len(name) < 8 else name for name in names]


def _count(result: RegionSet) -> str:
    cells = "1 cell" if result.n_cells == 1 else f"{result.n_cells:,} cells"
    regions = "1 region" if result.n_regions == 1 else f"{result.n_regions:,} regions"
    return f"{cells}, {regions}" if result.complete else f"{cells}, incomplete"


def _explain(figure: Any, drawn: set[str]) -> None:
    looks: dict[str, Any] = {
        "wall": {"color": INK, "linewidth": 1.6},
        "fold": {"color": "white", "linewidth": 1.6},
        "seam": {"color": "white", "linewidth": 1.2, "linestyle": (0, (1, 2))},
    }
    handles = [Line2D([], [], label=_LABELS[kind], **look) for kind, look in looks.items() if kind in drawn]
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=len(handles),
            facecolor=_GROUND,
            framealpha=1,
            edgecolor="none",
            fontsize=9,
        )


def compare_depths(
    network: Network,
    domain: Domain,
    *,
    blocks: Sequence[int] | None = None,
    box: Box | None = None,
    colour: Colouring = "map",
) -> Picture:
    """Draw what each depth adds: the exact cells of the first blocks of a network, panel by panel.

    Parameters
    ----------
    network : Network
        With inputs in the plane.
    domain : Box, Polytope or WholeSpace
    blocks : sequence of int, optional
        How many blocks to keep in each panel; by default every number after which there is a new wall or fold.
    box : Box, optional
        The part of the plane that all panels show.
    colour : {"map", "region"}

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random(2, n_tokens=4, heads=1, depth=2, d_ff=4, rng=0)
    >>> figure = compare_depths(net, hm.Box.cube(2, -3, 3), blocks=[1, 2, 4])
    >>> figure.axes[0].get_title()
    'block 1: attention\\n4 cells, 4 regions'
    """
    if blocks is None:
        blocks = [i + 1 for i, block in enumerate(network.blocks) if not isinstance(block, Affine)] or [1]
    results = [enumerate_regions(network.truncate(n), domain) for n in blocks]
    if any(result.d != 2 for result in results) or not results:
        raise InvalidInputError(f"depths are compared in dimension 2, but the network takes {network.d} numbers.")
    box = _checked(box, results[-1])
    columns = min(len(results), 3 if len(results) != 4 else 2)
    rows = -(-len(results) // columns)
    drawn: set[str] = set()
    with styled():
        figure = new_figure(3.5 * columns, 3.8 * rows + 0.4)
        for i, (n, result) in enumerate(zip(blocks, results, strict=True)):
            ax = figure.add_subplot(rows, columns, i + 1)
            name = _name(network.blocks[n - 1])
            draw_regions(result, ax=ax, box=box, colour=colour, title=f"block {n}: {name}\n{_count(result)}")
            ax.label_outer()
            contacts = result._contacts
            drawn |= {"wall"} if (contacts[1] == 1).any() else set()
            drawn |= {"fold"} if (contacts[1] == 0).any() else set()
        _explain(figure, drawn)
    return figure


def _name(block: Any) -> str:
    if isinstance(block, Attention):
        return "attention"
    return "affine map" if isinstance(block, Affine) else "ReLU layer"
