"""Cells and regions of networks: coloured areas, black walls, white folds (P1 figures 1, 2 and 7).

Where a routing changes, the map may jump: a wall, black. Where a ReLU switches, it only folds: white. Lines
between cells of one region, across which the map stays the same, are dotted. Lines get thinner where cells
get small and vanish where there is no room for them, so that a hundred thousand cells still make a picture;
such pictures are pixels, also inside an SVG, with text and axes as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.plotting.captions import axis_names, counted, explain
from hardmax.plotting.profiles import draw_profile
from hardmax.plotting.region_shapes import (
    MANY,
    Shapes,
    box_shown,
    line_kinds,
    line_look,
    map_colours,
    region_colours,
)
from hardmax.plotting.solids import draw_solid
from hardmax.plotting.style import INK, Picture, new_figure, size_in_points, styled
from hardmax.regions.api import enumerate_regions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box, Domain
    from hardmax.networks.network import Network
    from hardmax.regions.result import RegionSet

Colouring = Literal["map", "region"]

_COLOURINGS = ("map", "region")
_WALL, _FOLD = 1.3, 0.8  # points, where there is room


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
        In the plane; on the line, what is drawn is the graph of the network, in space the cells cut open
        (:func:`~hardmax.plotting.solids.draw_solid`).
    box : Box, optional
        The part of the plane that is shown: by default the domain, or the busy part of an unbounded one.
    colour : {"map", "region"}
        Similar colours for similar affine maps, or different colours for neighbouring regions.
    title : str, optional
        A line above the picture; by default the numbers of cells and regions.
    legend : bool, optional
        Whether to explain the lines below the figure; by default only when it is new.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.enumerate_regions(hm.networks.sawtooth_network(2, 3, 2, 1), hm.Box.cube(2, 0, 1))
    >>> axes = draw_regions(found)
    >>> axes.get_title(), len(axes.figure.legends)
    ('144 cells, 144 regions', 1)
    """
    box = _checked(result, box, colour)
    legend = ax is None if legend is None else legend
    if result.d == 1:
        return draw_profile(result, ax=ax, box=box, title=title, legend=legend)
    if result.d == 3:
        return draw_solid(result, ax=ax, box=box, colour=colour, title=title, legend=legend)
    with styled():
        ax = _new_axes(box) if ax is None else ax
        drawn = _draw(ax, result, box, colour, counted(result) if title is None else title)
        if legend:
            explain(ax.figure, drawn)
    return ax


def _checked(result: RegionSet, box: Box | None, colour: str) -> Box:
    if result.d > 3:
        raise UnsupportedDimensionError(
            f"there are pictures of cells in up to three dimensions, but these have {result.d}; try a slice: "
            "hm.enumerate_regions(network.restrict(origin, directions), domain).plot() with two or three "
            "directions."
        )
    if colour not in _COLOURINGS:
        raise InvalidInputError(f"colour must be one of {', '.join(_COLOURINGS)}, but was {colour!r}.")
    if box is None:
        return box_shown(result)
    if box.d != result.d:
        raise InvalidInputError(f"box must have dimension {result.d}, but has {box.d}.")
    return box


def _new_axes(box: Box) -> Axes:
    width, height = box.high.floats - box.low.floats
    return new_figure(5.4, 1.2 + 4.6 * float(np.clip(height / width, 0.4, 1.6))).add_subplot()


def _draw(ax: Axes, result: RegionSet, box: Box, colour: str, title: str) -> set[str]:
    """Draw into axes; returns which kinds of lines there are."""
    (left, bottom), (right, top) = box.low.floats, box.high.floats
    across, up = axis_names(result.network)
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=across, ylabel=up, title=title)
    if 0.2 < (right - left) / (top - bottom) < 5.0:
        ax.set_aspect("equal")
    ax.locator_params(nbins=5)
    shapes = Shapes.of(result, box)
    colours = map_colours(result, box, shapes.areas) if colour == "map" else region_colours(result)
    _draw_cells(ax, shapes, colours)
    return _draw_lines(ax, shapes)


def _draw_cells(ax: Axes, shapes: Shapes, colours: Any) -> None:
    corners: Any
    for numbers, corners in shapes.polygons():
        # a thin edge in the colour of the area closes the seams between antialiased areas
        ax.add_collection(
            PolyCollection(
                corners,
                facecolors=colours[numbers],
                edgecolors=colours[numbers],
                linewidths=0.3,
                rasterized=shapes.result.n_cells > MANY,
            ),
            autolim=False,
        )


def _draw_lines(ax: Axes, shapes: Shapes) -> set[str]:
    """Folds, then walls over them, then lines inside regions; returns which of these there are."""
    result = shapes.result
    segments: Any
    segments, layers = shapes.contacts()
    size = float((shapes.box.high.floats - shapes.box.low.floats).max())
    widths = shapes.widths(layers, min(size_in_points(ax)) / size)
    kinds = line_kinds(result, result.region_of_cell)
    for kind, chosen in kinds.items():
        shown = np.flatnonzero(chosen & (widths > 0.0))
        shown = shown[np.argsort(widths[shown], kind="stable")]  # the strong ones on top
        ax.add_collection(
            LineCollection(
                segments[shown],
                **line_look(kind, widths[shown], _WALL, _FOLD),
                capstyle="butt" if kind == "seam" else "round",
                rasterized=result.n_cells > MANY,
            ),
            autolim=False,
        )
    outline: Any = shapes.outline()
    ax.add_collection(LineCollection(outline, colors=INK, linewidths=0.8), autolim=False)
    return {kind for kind, chosen in kinds.items() if chosen.any()}


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
        How many blocks to keep in each panel; by default every number whose last block has walls or folds.
    box : Box, optional
        The part of the plane that all panels show.
    colour : {"map", "region"}

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random(2, n_tokens=4, heads=1, depth=2, d_ff=4, rng=0)
    >>> figure = compare_depths(net, hm.Box.cube(2, -3, 3), blocks=[1, 2, 4])
    >>> [axes.get_title().splitlines()[0] for axes in figure.axes]
    ['block 1: attention', 'block 2: ReLU layer', 'block 4: ReLU layer']
    """
    if network.d != 2:
        raise InvalidInputError(
            f"network must take inputs in the plane to be compared depth by depth, but takes {network.d} "
            "numbers."
        )
    if blocks is None:
        blocks = [i + 1 for i, block in enumerate(network.blocks) if block.cuts] or [1]
    if not blocks:
        raise InvalidInputError("blocks must hold at least one number of blocks, but is empty.")
    results = [enumerate_regions(network.truncate(n), domain) for n in blocks]
    shown = _checked(results[-1], box, colour)
    return _panels(results, [f"block {n}: {network.blocks[n - 1].name}" for n in blocks], shown, colour)


def compare_rules(
    results: Mapping[str, RegionSet], *, box: Box | None = None, colour: Colouring = "map"
) -> Picture:
    """Draw the cells of the same keys under different rules, panel by panel.

    Parameters
    ----------
    results : dict of RegionSet
        By what stands above each panel; all with inputs in the plane.
    box : Box, optional
        The part of the plane that all panels show.
    colour : {"map", "region"}

    Examples
    --------
    >>> import hardmax as hm
    >>> net, box = hm.Network.random(2, n_tokens=4, heads=1, depth=1, d_ff=0, rng=0), hm.Box.cube(2, -3, 3)
    >>> two = {"hardmax": net, "top-2": net.with_rule("top-k", k=2)}
    >>> figure = compare_rules({name: hm.enumerate_regions(each, box) for name, each in two.items()})
    >>> [axes.get_title().splitlines()[0] for axes in figure.axes]
    ['hardmax', 'top-2']
    """
    if not results:
        raise InvalidInputError("results must hold at least one RegionSet, but is empty.")
    for name, result in results.items():
        if result.d != 2:
            raise InvalidInputError(f"results must lie in the plane, but {name!r} has dimension {result.d}.")
    shown = _checked(next(iter(results.values())), box, colour)
    return _panels(list(results.values()), list(results), shown, colour)


def _panels(results: Sequence[RegionSet], titles: Sequence[str], shown: Box, colour: str) -> Picture:
    """Partitions of the same part of the plane, side by side."""
    columns = min(len(results), 2 if len(results) == 4 else 3)
    rows = -(-len(results) // columns)
    drawn: set[str] = set()
    with styled():
        figure = new_figure(3.6 * columns, 3.8 * rows + 0.4)
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.1)  # the numbers at the corners of neighbouring panels do not touch
        for i, (title, result) in enumerate(zip(titles, results, strict=True)):
            ax = figure.add_subplot(rows, columns, i + 1)
            drawn |= _draw(ax, result, shown, colour, f"{title}\n{counted(result)}")
            ax.label_outer()
        explain(figure, drawn)
    return figure
