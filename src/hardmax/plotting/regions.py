"""Cells and regions of networks: coloured areas, black walls, white folds (P1 figures 1, 2 and 7).

Where a routing changes, the map may jump: a wall, black. Where a ReLU switches, it only folds: white. Lines
between cells of one region, across which the map stays the same, are dotted. Lines get thinner where cells
get small and vanish where there is no room for them, so that a hundred thousand cells still make a picture;
such pictures are pixels, also inside an SVG, with text and axes as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.tri import Triangulation

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.plotting.captions import axis_names, counted, explain
from hardmax.plotting.classes import Palette, checked_points, draw_points, number_areas, points_legend
from hardmax.plotting.profiles import draw_profile
from hardmax.plotting.region_shapes import MANY, Shapes, box_shown, cell_colours, line_kinds, line_look
from hardmax.plotting.solids import draw_solid
from hardmax.plotting.style import INK, LINES, Picture, new_figure, number_of, size_in_points, styled
from hardmax.regions.api import enumerate_regions
from hardmax.regions.decisions.boundary import DecisionBoundary, decision_boundary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.geometry.domains import Box, Domain
    from hardmax.networks.network import Network
    from hardmax.regions.result import RegionSet

COLOURINGS = ("map", "region", "cell", "class", "output")
"""What cells can be coloured by; "output:K" is the output with number K."""

_WALL, _FOLD = 1.3, 0.8  # points, where there is room
_VALUES = (LINES[0], "#F7F7F7", LINES[1])  # low, zero, high


def draw_regions(
    result: RegionSet,
    *,
    ax: Axes | None = None,
    box: Box | None = None,
    colour: str = "map",
    points: Any = None,
    labels: Any = None,
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
    colour : {"map", "region", "cell", "class", "output", "output:K"}
        Similar colours for similar affine maps; different colours for neighbouring regions, or cells; a
        colour for each class, with the decision boundary; or the value of output K, in the plane.
    points : (n, d) array_like, optional
        Data, in the plane or on the line.
    labels : (n,) array_like of int, optional
        Their classes: points have their colours.
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
    words = counted(result) if title is None else title
    if colour != "class":
        return _drawn(result, None, ax, box, colour, points, labels, words, legend)
    by_class = _by_class(result)
    return _drawn(by_class.class_cells, by_class, ax, box, colour, points, labels, words, legend)


def draw_boundary(
    boundary: DecisionBoundary,
    *,
    ax: Axes | None = None,
    box: Box | None = None,
    points: Any = None,
    labels: Any = None,
    title: str | None = None,
    legend: bool | None = None,
) -> Axes:
    """Draw a decision boundary: areas coloured by class, the boundary black, dotted where outputs jump.

    Parameters
    ----------
    boundary : DecisionBoundary
        In the plane, on the line or in space.
    ax, box, points, labels, title, legend
        As in :func:`draw_regions`.

    Examples
    --------
    >>> import hardmax as hm
    >>> boundary = hm.decision_boundary(hm.Network.random_mlp([2, 16, 3], 0), hm.Box.cube(2, -4, 4))
    >>> draw_boundary(boundary, points=[[0.0, 1.0]]).get_title()
    '26 pieces, length 17.17'
    """
    box = _checked(boundary.class_cells, box, "class")
    words = number_of(len(boundary), "piece" if boundary.d > 1 else "boundary point")
    if boundary.d > 1:
        words += f", {'length' if boundary.d == 2 else 'area'} {boundary.total_size:.4g}"
    words = words if title is None else title
    return _drawn(boundary.class_cells, boundary, ax, box, "class", points, labels, words, legend, plain=True)


def _drawn(
    result: RegionSet,
    boundary: DecisionBoundary | None,
    ax: Axes | None,
    box: Box,
    colour: str,
    points: Any,
    labels: Any,
    title: str,
    legend: bool | None,
    *,
    plain: bool = False,
) -> Axes:
    """A picture in one, two or three dimensions; of a ``plain`` one only the boundary."""
    legend = ax is None if legend is None else legend
    classes = result.routings[:, -1].astype(np.int64) if boundary is not None else np.zeros(0, np.int64)
    palette = Palette(classes, max(result.network.d_out, 2))
    handles: list[Any] = palette.legend()
    data = None if points is None else checked_points(points, labels, result.d)
    handles += [] if data is None else points_legend(data[1], palette)
    if result.d == 3:
        if data is not None:
            raise InvalidInputError(
                "points must be left out of pictures of space; try a plane: plane_through."
            )
        return draw_solid(result, ax=ax, box=box, colour=colour, title=title, legend=legend, handles=handles)
    if result.d == 1:
        ax = draw_profile(result, ax=ax, box=box, colour=colour, title=title, legend=legend, handles=handles)
        if data is not None:
            draw_points(
                ax, np.column_stack([data[0], np.full(len(data[0]), ax.get_ylim()[0])]), data[1], palette
            )
        return ax
    with styled():
        ax = _new_axes(box, output_number(colour) is not None) if ax is None else ax
        drawn = _draw(ax, result, box, colour, title, boundary, plain)
        if data is not None:
            inside = ((data[0] >= box.low.floats) & (data[0] <= box.high.floats)).all(axis=1)
            draw_points(ax, data[0][inside], None if data[1] is None else data[1][inside], palette)
        if legend:
            explain(ax.figure, drawn, handles)
    return ax


def _by_class(result: RegionSet) -> DecisionBoundary:
    """The same cells, cut by class."""
    return decision_boundary(result.network, result.domain, arithmetic=result.arithmetic)


def _checked(result: RegionSet, box: Box | None, colour: str) -> Box:
    if result.d > 3:
        raise UnsupportedDimensionError(
            f"there are pictures of cells in up to three dimensions, but these have {result.d}; try a slice: "
            "hm.enumerate_regions(network.restrict(origin, directions), domain).plot() with two or three "
            "directions."
        )
    output = output_number(colour)
    if colour not in COLOURINGS and output is None:
        raise InvalidInputError(
            f"colour must be one of {', '.join(COLOURINGS)} or output:K, but was {colour!r}."
        )
    if output is not None and not output < result.network.d_out:
        raise InvalidInputError(
            f"colour must name one of the {result.network.d_out} outputs, from output:0 on, but was "
            f"{colour!r}."
        )
    if output is not None and result.d != 2:
        raise InvalidInputError(
            f'colour "output" is for pictures of the plane, but the dimension is {result.d}; try "map".'
        )
    if box is None:
        return box_shown(result)
    if box.d != result.d:
        raise InvalidInputError(f"box must have dimension {result.d}, but has {box.d}.")
    return box


def output_number(colour: str) -> int | None:
    """The output by which cells are coloured; ``None`` for other colours.

    >>> output_number("output"), output_number("output:2"), output_number("map")
    (0, 2, None)
    """
    name, colon, number = str(colour).partition(":")
    if name != "output" or (colon and not (number.isascii() and number.isdigit())):
        return None
    return int(number) if colon else 0


def _new_axes(box: Box, scale: bool) -> Axes:
    """Axes for a box, with room for a scale of colours beside them."""
    width, height = box.high.floats - box.low.floats
    return new_figure(
        6.4 if scale else 5.4, 1.2 + 4.6 * float(np.clip(height / width, 0.4, 1.6))
    ).add_subplot()


def _draw(
    ax: Axes,
    result: RegionSet,
    box: Box,
    colour: str,
    title: str,
    boundary: DecisionBoundary | None = None,
    plain: bool = False,
) -> set[str]:
    """Draw into axes; returns which kinds of lines there are."""
    (left, bottom), (right, top) = box.low.floats, box.high.floats
    across, up = axis_names(result.network)
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=across, ylabel=up, title=title)
    if 0.2 < (right - left) / (top - bottom) < 5.0:
        ax.set_aspect("equal")
    ax.locator_params(nbins=5)
    shapes = Shapes.of(result, box)
    output = output_number(colour)
    if output is not None:
        _draw_values(ax, shapes, output)
    else:
        _draw_cells(ax, shapes, cell_colours(result, box, shapes.areas, colour))
    drawn = _draw_lines(ax, shapes, boundary, plain)
    if boundary is not None:
        number_areas(ax, result, shapes.polygons(), shapes.areas, shapes.contacts()[0][boundary._numbers])
    return drawn


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


def _draw_values(ax: Axes, shapes: Shapes, output: int) -> None:
    """The values of an output: affine on each triangle of a fan, so the shading is the function itself."""
    linear, offset = shapes.result.linear[:, output], shapes.result.offset[:, output]
    places, values, triangles, n = [], [], [], 0
    for numbers, corners in shapes.polygons():
        k = corners.shape[1]
        places.append(corners.reshape(-1, 2))
        values.append(((corners * linear[numbers, None]).sum(axis=2) + offset[numbers, None]).ravel())
        fan = np.column_stack([np.zeros(k - 2, int), np.arange(1, k - 1), np.arange(2, k)])
        first = n + k * np.arange(len(numbers))
        triangles.append((first[:, None, None] + fan).reshape(-1, 3))
        n += k * len(numbers)
    x, y = np.concatenate(places).T
    f = np.concatenate(values)
    inside = (np.column_stack([x, y]) >= shapes.box.low.floats) & (
        np.column_stack([x, y]) <= shapes.box.high.floats
    )
    seen = f[inside.all(axis=1)] if inside.all(axis=1).any() else f
    low, high = float(seen.min()), float(seen.max())
    if low < 0.0 < high:  # white is zero, where a network with one output decides
        reach = max(-low, high)
        low, high = -reach, reach
        palette: Any = LinearSegmentedColormap.from_list("signed", _VALUES)
    else:
        palette = matplotlib.colormaps["cividis"]
    drawn = ax.tripcolor(
        Triangulation(x, y, np.concatenate(triangles)), f, shading="gouraud", cmap=palette, vmin=low,
        vmax=high if high > low else low + 1.0, rasterized=True,
    )  # fmt: skip
    name = "$f(x)$" if shapes.result.network.d_out == 1 else f"output {output}"
    ax.figure.colorbar(drawn, ax=ax, label=name, fraction=0.045)


def _draw_lines(ax: Axes, shapes: Shapes, boundary: DecisionBoundary | None, plain: bool) -> set[str]:
    """Folds, then walls over them, then lines inside regions; returns which of these there are."""
    result = shapes.result
    segments: Any
    segments, layers = shapes.contacts()
    size = float((shapes.box.high.floats - shapes.box.low.floats).max())
    widths = shapes.widths(layers, min(size_in_points(ax)) / size)
    kinds = line_kinds(result, result.region_of_cell, by_class=boundary is not None)
    if plain:
        kinds = {"boundary": kinds["boundary"]}
    for kind, chosen in kinds.items():
        shown = np.flatnonzero(chosen & ((widths > 0.0) | (kind == "boundary")))
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
    drawn = {kind for kind, chosen in kinds.items() if chosen.any()}
    if "fold" in drawn and {block.name for block in result.network.blocks if block.cuts} == {"attention"}:
        drawn = drawn - {"fold"} | {"support"}  # there is no ReLU: these are the folds of sparsemax
    if boundary is not None and boundary.jumps.any():
        jumps = boundary._numbers[boundary.jumps]
        ax.add_collection(
            LineCollection(segments[jumps], colors="white", linewidths=0.9, linestyles=(0, (1, 2.5))),
            autolim=False,
        )
        drawn.add("jump")
    outline: Any = shapes.outline()
    ax.add_collection(LineCollection(outline, colors=INK, linewidths=0.8), autolim=False)
    return drawn


def compare_depths(
    network: Network,
    domain: Domain,
    *,
    blocks: Sequence[int] | None = None,
    box: Box | None = None,
    colour: str = "map",
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
    colour : {"map", "region", "cell", "class", "output", "output:K"}

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
    results: Mapping[str, RegionSet], *, box: Box | None = None, colour: str = "map"
) -> Picture:
    """Draw the cells of the same keys under different rules, panel by panel.

    Parameters
    ----------
    results : dict of RegionSet
        By what stands above each panel; all with inputs in the plane.
    box : Box, optional
        The part of the plane that all panels show.
    colour : {"map", "region", "cell", "class", "output", "output:K"}

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
        layout.set(w_pad=0.1, h_pad=0.1)  # the numbers at the corners of neighbouring panels do not touch
        for i, (title, result) in enumerate(zip(titles, results, strict=True)):
            ax = figure.add_subplot(rows, columns, i + 1)
            words, by_class = f"{title}\n{counted(result)}", _by_class(result) if colour == "class" else None
            cells = result if by_class is None else by_class.class_cells
            drawn |= _draw(ax, cells, shown, colour, words, by_class)
            if i % columns:
                ax.set_ylabel("")
                ax.tick_params(labelleft=False)
            if i + columns < len(results):  # there is a panel below
                ax.set_xlabel("")
                ax.tick_params(labelbottom=False)
        explain(figure, drawn)
    return figure
