"""Pictures of cells and regions: every cell, every wall and fold, drawn fast and told apart."""

from __future__ import annotations

import io

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError

pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")

from matplotlib.collections import LineCollection, PolyCollection

from hardmax.plotting.blocks import compare_block
from hardmax.plotting.captions import axis_names
from hardmax.plotting.region_shapes import Shapes, box_shown, map_colours, region_colours
from hardmax.plotting.regions import compare_depths, compare_rules, draw_regions
from hardmax.plotting.style import INK, new_figure

SQUARE = hm.Box.cube(2, -4, 4)
TRANSFORMER = hm.Network.random(2, n_tokens=6, heads=2, depth=2, d_ff=8, rng=1)


def written(figure, ending: str = "png") -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending)
    return buffer.getvalue()


def areas(axes) -> list[np.ndarray]:
    return [p.vertices for c in axes.collections if isinstance(c, PolyCollection) for p in c.get_paths()]


def lines(axes) -> dict[str, np.ndarray]:
    """The segments of each kind: folds, walls, seams, outline."""
    found = [c for c in axes.collections if isinstance(c, LineCollection)]
    return {
        name: np.array(c.get_segments()).reshape(-1, 2, 2)
        for name, c in zip(("fold", "wall", "seam", "outline"), found, strict=True)
    }


def area(polygon: np.ndarray) -> float:
    x, y = polygon.T
    return 0.5 * abs(float(x[:-1] @ y[1:] - y[:-1] @ x[1:]))


def shifted_fold() -> hm.Network:
    head = hm.Attention([[[0, -1], [0, 1]]], None, [[[0, 0], [1, 0]]])
    return hm.Network([head, hm.FeedForward([[1, 0]], [0], [[1], [0]], [0, 0])])


@pytest.fixture(scope="module")
def cells():
    return hm.enumerate_regions(TRANSFORMER, SQUARE)


# Areas --------------------------------------------------------------------------------------------------


def test_every_cell_is_drawn_and_together_they_fill_the_square(cells):
    axes = draw_regions(cells)
    drawn = areas(axes)
    assert len(drawn) == cells.n_cells
    assert sum(map(area, drawn)) == pytest.approx(64.0)
    assert axes.get_xlim() == (-4, 4)
    assert axes.get_title() == f"{cells.n_cells} cells, {cells.n_regions} regions"
    assert cells.plot().get_title() == axes.get_title()


def test_unbounded_cells_are_cut_off_outside_the_box():
    found = hm.enumerate_regions(TRANSFORMER, hm.WholeSpace(2))
    box = hm.Box.cube(2, -6, 6)
    shapes = Shapes.of(found, box)
    for numbers, corners in shapes.polygons():
        assert (np.abs(corners) < 20 * 12 + 6).all()
        assert len(numbers) == len(corners)
    points = np.random.default_rng(0).uniform(-6, 6, (500, 2))
    inside = np.zeros(500, dtype=int)
    for _, corners in shapes.polygons():
        for polygon in corners:
            edge = np.roll(polygon, -1, axis=0) - polygon
            to = points[:, None] - polygon
            inside += (edge[:, 0] * to[..., 1] - edge[:, 1] * to[..., 0] >= 0).all(axis=1)
    assert (inside == 1).all()  # as a partition should


def test_a_half_plane_without_vertices():
    found = hm.enumerate_regions(hm.Network.mlp([([[1, 0]], [0]), ([[1]], [0])]), hm.WholeSpace(2))
    axes = draw_regions(found)
    assert len(areas(axes)) == 2
    assert written(axes.figure).startswith(b"\x89PNG")


def test_one_cell_only():
    found = hm.enumerate_regions(hm.Network([hm.Affine(np.eye(2), [0, 0])]), SQUARE)
    axes = draw_regions(found)
    assert axes.get_title() == "1 cell, 1 region"
    assert not axes.figure.legends  # there is nothing to explain


def test_only_what_is_in_sight_is_drawn(cells):
    axes = draw_regions(cells, box=hm.Box([0, 0], [0.5, 0.5]))
    assert 0 < len(areas(axes)) < cells.n_cells / 2
    assert axes.get_ylim() == (0, 0.5)


def test_polygons_show_their_outline():
    triangle = hm.Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 2])
    axes = draw_regions(hm.enumerate_regions(TRANSFORMER, triangle))
    assert axes.get_xlim() == pytest.approx((0, 2))
    outline = lines(axes)["outline"]
    assert np.hypot(*(outline[:, 1] - outline[:, 0]).T).sum() == pytest.approx(4 + 2 * np.sqrt(2))


def test_an_incomplete_result_says_so():
    found = hm.enumerate_regions(TRANSFORMER, SQUARE, max_cells=5)
    assert draw_regions(found).get_title() == "5 cells so far"


# Lines --------------------------------------------------------------------------------------------------


def test_walls_folds_and_seams_are_told_apart():
    axes = draw_regions(hm.enumerate_regions(shifted_fold(), SQUARE))
    found = lines(axes)

    def sorted_ends(kind):
        return sorted(np.sort(segment, axis=0).round(9).tolist() for segment in found[kind])

    # the fold lies at x1 = -1 above the wall x2 = 0, at 0 below it; left of both the output is 0 everywhere
    assert sorted_ends("fold") == [[[-1, 0], [-1, 4]], [[0, -4], [0, 0]]]
    assert sorted_ends("wall") == [[[-1, 0], [0, 0]], [[0, 0], [4, 0]]]
    assert sorted_ends("seam") == [[[-4, 0], [-1, 0]]]
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "wall: a routing changes",
        "fold: a ReLU switches",
        "same map on both sides",
    ]
    colours = [c.get_edgecolor()[0] for c in axes.collections if isinstance(c, LineCollection)]
    assert colours[0][:3] == pytest.approx([1, 1, 1])
    assert colours[1][:3] == pytest.approx([int(INK[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def test_lines_get_thinner_where_cells_get_smaller():
    found = hm.enumerate_regions(hm.Network.random_mlp([2, 32, 32, 32, 1], 0), SQUARE)
    shapes = Shapes.of(found, SQUARE)
    segments, layers = shapes.contacts()
    assert len(segments) == len(found.adjacency)
    large, small = (shapes.widths(layers, points) for points in (400.0, 4.0))
    assert (small <= large).all()
    assert (small == 0).sum() > (large == 0).sum()
    assert small[layers == 0].mean() > small[layers == 2].mean()  # early lines stay


def test_lengths_of_the_segments_are_those_of_the_contacts(cells):
    segments, _ = Shapes.of(cells, SQUARE).contacts()
    assert np.allclose(np.hypot(*(segments[:, 1] - segments[:, 0]).T), cells.adjacency_length)


# Colours ------------------------------------------------------------------------------------------------


def test_neighbouring_regions_have_different_colours(cells):
    colours = region_colours(cells, cells.region_of_cell)
    i, j = cells.adjacency.T
    same = cells.region_of_cell[i] == cells.region_of_cell[j]
    assert ((colours[i] != colours[j]).any(axis=1) == ~same).all()


def test_equal_maps_have_equal_colours():
    found = hm.enumerate_regions(shifted_fold(), SQUARE)
    colours = map_colours(found, SQUARE, found.volumes)
    assert np.allclose(colours[0], colours[2])
    assert not np.allclose(colours[0], colours[1], atol=0.02)
    assert not np.allclose(colours[1], colours[3], atol=0.02)


def test_wide_outputs_have_colours_too():
    found = hm.enumerate_regions(hm.Network.random_mlp([2, 8, 8, 40], 0), SQUARE)
    colours = map_colours(found, SQUARE, found.volumes)
    assert len(np.unique(colours.round(6), axis=0)) == found.n_cells


def test_a_colouring_that_does_not_exist(cells):
    with pytest.raises(InvalidInputError, match="colour must be one of map, region"):
        draw_regions(cells, colour="rainbow")


# Words --------------------------------------------------------------------------------------------------


def test_axes_of_a_slice_say_so():
    wide = hm.Network.random(5, n_tokens=6, heads=2, depth=1, d_ff=8, rng=0)
    across, up = np.eye(5)[2], np.ones(5)
    axes = draw_regions(hm.enumerate_regions(wide.restrict(np.zeros(5), [across, up]), SQUARE))
    assert axes.get_xlabel() == "$x_{3}$"
    assert axes.get_ylabel() == "$t_{2}$ (slice direction 2)"
    assert axis_names(TRANSFORMER) == ["$x_{1}$", "$x_{2}$"]
    assert axis_names(wide.restrict(np.ones(5), [across, up]))[0] == "$t_{1}$ (slice direction 1)"


def test_pictures_go_where_they_are_told_without_a_legend(cells):
    figure = new_figure(4, 4)
    axes = figure.add_subplot()
    assert draw_regions(cells, ax=axes, title="mine") is axes
    assert axes.get_title() == "mine"
    assert not figure.legends


@pytest.mark.parametrize("box", [hm.Box([0], [1]), hm.Box.cube(3, 0, 1)])
def test_a_box_of_another_dimension(cells, box):
    with pytest.raises(InvalidInputError, match="box must have dimension 2"):
        draw_regions(cells, box=box)


def test_svg_text_is_text_and_the_file_repeats(cells):
    first = written(draw_regions(cells, title="a searchable title").figure, "svg")
    assert b"a searchable title" in first
    assert first == written(draw_regions(cells, title="a searchable title").figure, "svg")


# Depth by depth, the line, and many cells ---------------------------------------------------------------


def test_depth_by_depth():
    figure = compare_depths(TRANSFORMER, SQUARE)
    titles = [axes.get_title().splitlines() for axes in figure.axes]
    assert [title[0] for title in titles] == [
        "block 1: attention",
        "block 2: ReLU layer",
        "block 3: attention",
        "block 4: ReLU layer",
    ]
    by_depth = hm.count_cells(TRANSFORMER, SQUARE).cells_by_depth
    assert [int(title[1].split()[0]) for title in titles] == list(by_depth)
    assert written(figure).startswith(b"\x89PNG")


def test_depths_of_a_slice_skip_its_affine_block():
    wide = hm.Network.random(3, n_tokens=4, heads=1, depth=1, d_ff=4, rng=0).restrict(
        np.zeros(3), np.eye(3)[:2]
    )
    figure = compare_depths(wide, hm.WholeSpace(2), box=SQUARE)
    assert [axes.get_title().splitlines()[0] for axes in figure.axes] == [
        "block 2: attention",
        "block 3: ReLU layer",
    ]
    with pytest.raises(InvalidInputError, match="n_blocks must be from 1"):
        compare_depths(wide, SQUARE, blocks=[9])
    with pytest.raises(InvalidInputError, match="at least one"):
        compare_depths(wide, SQUARE, blocks=[])
    with pytest.raises(InvalidInputError, match="inputs in the plane"):
        compare_depths(hm.Network.random_mlp([1, 2, 1], 0), hm.Box([0], [1]))


def test_the_graph_on_the_line_breaks_at_jumps_only():
    head = hm.Attention([[[-1], [1]]], None, [[[-1], [1]]])
    jump = hm.enumerate_regions(hm.Network([head]), hm.Box([-4], [4]))
    (curve,) = draw_regions(jump).lines
    assert np.isnan(curve.get_xdata()).sum() == 1
    saw = hm.enumerate_regions(hm.networks.sawtooth_network(1, 3, 2, 1), hm.Box([0], [1]))
    axes = draw_regions(saw)
    (curve,) = axes.lines
    assert not np.isnan(curve.get_xdata()).any()
    assert np.allclose(np.unique(curve.get_ydata().round(9)), [0, 1])
    assert len(areas(axes)) == 12
    assert axes.get_xlabel() == "$x$"


def test_the_graph_on_the_whole_line_and_of_several_outputs():
    net = hm.Network.mlp([([[1], [1]], [0, -1]), (np.arange(8).reshape(4, 2), None)])
    axes = draw_regions(hm.enumerate_regions(net, hm.WholeSpace(1)), box=hm.Box([-2], [3]))
    assert len(axes.lines) == 4
    x, y = axes.lines[2].get_data()
    assert np.allclose(y, net(x[:, None])[:, 2])
    left, right = box_shown(hm.enumerate_regions(net, hm.WholeSpace(1))).halfspaces()[1]
    assert left > 1 > 0 > -right


def test_a_constant_on_the_line():
    net = hm.Network([hm.Affine([[0.0]], [2.0])])
    bottom, top = draw_regions(hm.enumerate_regions(net, hm.Box([0], [1]))).get_ylim()
    assert bottom < 2 < top


def test_fifty_thousand_cells_become_pixels():
    found = hm.enumerate_regions(hm.Network.random_mlp([2, 128, 128, 128, 1], 0), SQUARE)
    axes = draw_regions(found)
    picture = written(axes.figure, "svg")
    assert b"<image" in picture
    assert b"48,655 cells" in picture
    assert len(picture) < 5_000_000


def test_a_block_whose_units_are_the_inputs_is_compared():
    """Without input weights the units are the coordinates: their folds are the axes, moved by the biases."""
    keys = hm.Attention([[[1, 0], [-1, 0]]], None, [[[0, 0], [3, 0]]])
    still = hm.Attention([[[1, 0], [-1, 0]]], None, [[[0, 0], [0, 0]]])
    layer = hm.FeedForward(None, [-1, 0], np.eye(2), [0, 0], skip=False)
    box = hm.Box.cube(2, -4, 4)
    found = [
        hm.enumerate_regions(hm.Network(blocks), box)
        for blocks in ([keys], [layer], [still, layer], [keys, layer])
    ]
    titles = [axes.get_title().splitlines()[-1] for axes in compare_block(found, layer, box).axes]
    assert titles == ["2 cells", "4 cells", "6 cells", "8 cells"]


# Classes and values -------------------------------------------------------------------------------------


def test_areas_have_the_colour_of_their_class_and_the_boundary_is_drawn():
    net = hm.Network.random_mlp([2, 8, 3], 0)
    boundary = hm.decision_boundary(net, SQUARE)
    axes = hm.enumerate_regions(net, SQUARE).plot(colour="class")
    drawn = [c for c in axes.collections if isinstance(c, PolyCollection)]
    colours = np.concatenate([c.get_facecolors()[:, :3] for c in drawn])
    assert len(np.unique(colours.round(6), axis=0)) == len(np.unique(boundary.class_of_cell))
    shares = {}
    for c in drawn:
        for path, colour in zip(c.get_paths(), c.get_facecolors(), strict=True):
            key = tuple(colour[:3].round(6))
            shares[key] = shares.get(key, 0.0) + area(path.vertices)
    sizes = boundary.class_sizes[boundary.class_sizes > 0]
    assert sorted(shares.values()) == pytest.approx(sorted(sizes))
    thick = [
        c
        for c in axes.collections
        if isinstance(c, LineCollection) and max(c.get_linewidths(), default=0) > 2
    ]
    lengths = np.diff(np.array(thick[0].get_segments()), axis=1)[:, 0]
    assert np.hypot(*lengths.T).sum() == pytest.approx(boundary.total_size)


def test_a_boundary_shows_data_points_with_the_markers_of_their_labels():
    boundary = hm.decision_boundary(hm.Network.random_mlp([2, 8, 3], 0), SQUARE)
    points = np.random.default_rng(0).uniform(-4, 4, (30, 2))
    labels = boundary.classify(points)
    axes = boundary.plot(points=points, labels=labels)
    assert axes.get_title().startswith(f"{len(boundary)} pieces, length")
    shown = [c for c in axes.collections if len(c.get_offsets()) > 1]
    assert sum(len(c.get_offsets()) for c in shown) == 30
    texts = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert "decision boundary" in texts
    assert {f"label {c}" for c in np.unique(labels)} <= set(texts)
    assert written(axes.figure).startswith(b"\x89PNG")
    assert boundary.plot(points=points).figure.legends[0].get_texts()
    with pytest.raises(InvalidInputError, match="labels must be 30 whole numbers"):
        boundary.plot(points=points, labels=np.zeros(3))
    with pytest.raises(InvalidInputError, match="points must have 2 columns"):
        boundary.plot(points=points[:, :1])


def test_jumps_are_dotted():
    axes = hm.decision_boundary(TRANSFORMER, SQUARE).plot()
    assert "... where outputs jump" in [text.get_text() for text in axes.figure.legends[0].get_texts()]


@pytest.mark.parametrize("d", [1, 3])
def test_boundaries_on_the_line_and_in_space(d):
    boundary = hm.decision_boundary(hm.Network.random_mlp([d, 6, 3], 2), hm.Box.cube(d, -4, 4))
    axes = boundary.plot(points=[[0.5]], labels=[1]) if d == 1 else boundary.plot()
    assert written(axes.figure).startswith(b"\x89PNG")
    if d == 3:
        with pytest.raises(InvalidInputError, match="points must be left out"):
            boundary.plot(points=[[0.0, 0.0, 0.0]])


def test_values_of_an_output_are_shaded_as_they_are():
    net = hm.Network.random_mlp([2, 8, 3], 0)
    found = hm.enumerate_regions(net, SQUARE)
    axes = found.plot(colour="output:2")
    mesh = next(c for c in axes.collections if hasattr(c, "_triangulation"))
    places = np.column_stack([mesh._triangulation.x, mesh._triangulation.y])
    assert np.allclose(mesh.get_array(), net(places)[:, 2])
    for wrong, words in (("output:3", "one of the 3 outputs"), ("outputs", "colour must be one of")):
        with pytest.raises(InvalidInputError, match=words):
            found.plot(colour=wrong)
    line = hm.enumerate_regions(hm.Network.random_mlp([1, 3, 1], 0), hm.Box([-1], [1]))
    with pytest.raises(InvalidInputError, match="pictures of the plane"):
        line.plot(colour="output")


def test_neighbouring_cells_have_different_colours(cells):
    colours = region_colours(cells, np.arange(cells.n_cells))
    assert all((colours[i] != colours[j]).any() for i, j in cells.adjacency)


def test_depths_by_class():
    net = hm.Network.random(2, n_tokens=4, heads=1, depth=2, d_ff=4, rng=0)
    figure = compare_depths(net, SQUARE, colour="class")
    assert len(figure.axes) == 4


def test_folds_of_sparsemax_are_not_said_to_be_of_a_relu():
    net = hm.Network.random(2, n_tokens=4, heads=1, depth=1, d_ff=0, rng=0)
    box = hm.Box.cube(2, -3, 3)
    for network, words in (
        (net.with_rule("sparsemax", temperature=1), "fold: a head reads other keys"),
        (hm.Network.random_mlp([2, 4, 1], 0), "fold: a ReLU switches"),
    ):
        (legend,) = hm.enumerate_regions(network, box).plot().figure.legends
        assert words in [text.get_text() for text in legend.get_texts()]


def test_five_panels_have_numbers_below_the_last_of_each_column():
    net = hm.Network.random(2, n_tokens=4, heads=1, depth=1, d_ff=0, rng=0)
    found = hm.enumerate_regions(net, hm.Box.cube(2, -3, 3))
    figure = compare_rules({str(i): found for i in range(5)})
    assert [bool(axes.get_xlabel()) for axes in figure.axes] == [False, False, True, True, True]
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [True, False, False, True, False]
