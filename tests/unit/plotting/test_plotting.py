"""Pictures: drawn without a screen, with text as text, and showing what the result says."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError, UnsupportedDimensionError

pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")

from hardmax import plotting
from hardmax.plotting import diagrams, polytopes, style

KEYS = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.25, 0.125]])
CUBE = [[np.zeros(3), edge] for edge in np.eye(3)]


def written(axes, ending: str = "svg") -> bytes:
    buffer = io.BytesIO()
    axes.figure.savefig(buffer, format=ending)
    return buffer.getvalue()


def test_a_diagram_has_one_patch_per_cell_and_a_star_per_key():
    axes = hm.attention_diagram(KEYS).plot(box=hm.Box.cube(2, -3, 3))
    assert len(axes.patches) == 3
    winners, losers = axes.collections
    assert (len(winners.get_offsets()), len(losers.get_offsets())) == (3, 1)
    assert losers.get_facecolor().size == 0 or losers.get_facecolor()[0, 3] == 0  # hollow
    assert axes.get_xlim() == (-3, 3)


def test_the_same_key_keeps_its_colour():
    figure = diagrams.compare_diagrams(
        [hm.power_diagram(KEYS, np.zeros(4)), hm.attention_diagram(KEYS)],
        titles=["Voronoi", "attention"],
        box=hm.Box.cube(2, -3, 3),
    )
    left, right = ([patch.get_facecolor() for patch in axes.patches] for axes in figure.axes)
    assert left[:3] == right


@pytest.mark.parametrize(
    "keys", [[[0.0, 0.0]], [[5.0, 5.0]] * 3, [[0.0, 0.0], [1e-9, 0.0]], [[1e9, 1.0], [2e9, 3.0]]]
)
def test_a_box_is_found_for_any_keys(keys):
    axes = hm.attention_diagram(keys).plot()
    left, right = axes.get_xlim()
    assert left < right
    assert written(axes, "png").startswith(b"\x89PNG")


def test_many_keys_are_drawn_without_numbers():
    axes = hm.attention_diagram(np.random.default_rng(0).normal(size=(60, 2))).plot()
    assert not axes.texts


def test_svg_text_is_text_and_the_file_repeats():
    diagram = hm.attention_diagram(KEYS)
    axes = diagrams.draw_diagram(diagram, title="a searchable title")
    first = written(axes)
    assert b"a searchable title" in first
    assert first == written(diagrams.draw_diagram(diagram, title="a searchable title"))


def test_a_picture_goes_where_it_is_told():
    figure = style.new_figure(4, 4)
    axes = figure.add_subplot()
    assert hm.attention_diagram(KEYS).plot(ax=axes) is axes


def test_a_cube_has_six_faces_eight_corners():
    result = hm.minkowski_vertices(CUBE)
    axes = result.plot()
    assert axes.get_title() == "8 vertices"
    faces = polytopes.hull_faces(np.array(result.vertices, dtype=float))
    assert sorted(len(corners) for _, corners in faces) == [4] * 6
    assert written(axes, "png").startswith(b"\x89PNG")


def test_joined_faces_satisfy_eulers_formula():
    points = np.random.default_rng(1).normal(size=(40, 3)).round(1)
    faces = polytopes.hull_faces(points)
    edges = {
        frozenset(pair) for _, c in faces for pair in zip(c.tolist(), np.roll(c, 1).tolist(), strict=True)
    }
    corners = set().union(*edges)
    assert len(corners) - len(edges) + len(faces) == 2


@pytest.mark.parametrize(("n", "faces"), [(1, 0), (2, 2), (3, 6)])
def test_flat_sums_are_drawn_too(n, faces):
    result = hm.minkowski_vertices(CUBE[:n])
    assert len(polytopes.hull_faces(np.array(result.vertices, dtype=float))) == faces
    assert result.plot().get_title() == f"{2**n} vertices"


def test_a_single_point_is_drawn():
    assert hm.minkowski_vertices([[[1.0, 2.0, 3.0]]]).plot().get_title() == "1 vertex"
    assert hm.minkowski_vertices([[[1.0, 2.0]]]).plot().get_title() == "1 vertex"


def test_a_sum_in_the_plane():
    axes = hm.minkowski_vertices([KEYS, KEYS]).plot()
    assert len(axes.patches) == 1


def test_narrow_sums_are_shown_as_an_affine_image_and_say_so():
    p = np.arange(-2.0, 4.0)
    heads = [np.column_stack([p * u, p * v, -100 * p**2]) for u, v in ((1, 0), (-1, 2), (-1, -3))]
    axes = hm.minkowski_vertices(heads).plot()
    assert [text.get_text() for text in axes.texts] == ["an affine image: same faces, evenly thick"]


def test_sums_side_by_side():
    sums = [hm.minkowski_vertices(CUBE[:n]) for n in (1, 2, 3)]
    figure = polytopes.compare_sums(sums, titles=["one", "two", "three"])
    assert [axes.get_title() for axes in figure.axes] == [
        "one\n2 vertices",
        "two\n4 vertices",
        "three\n8 vertices",
    ]


def area(patch) -> float:
    x, y = patch.get_xy()[:-1].T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


@pytest.mark.parametrize(
    ("exponents", "coefficients"),
    [
        ([[0, 0], [1, 0], [0, 1]], None),
        ([[0, 0], [1, 0]], [0, 0.5]),  # walls and cells that contain a line
        ([[0, 0], [1, 1e-4], [1, -1e-4]], None),  # a wedge that is almost a half-plane
        ([[2, 1]], None),  # one term wins everywhere
        ([[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [0, 2]], [0, 0.3, 0.2, 0.1, -1, -0.9]),
    ],
)
def test_the_cells_of_a_polynomial_fill_the_box(exponents, coefficients):
    p = hm.TropicalPolynomial(exponents, coefficients)
    box = hm.Box.cube(2, -2, 2)
    cells = p.cells()
    axes = cells.plot(box=box)
    assert len(axes.patches) == cells.n_cells
    assert sum(area(patch) for patch in axes.patches) == pytest.approx(16.0)
    assert cells.plot().get_xlim()[0] < cells.plot().get_xlim()[1]


def test_walls_are_drawn_in_the_colour_of_their_polynomial():
    p = hm.TropicalPolynomial([[0, 0], [1, 0], [0, 1]])
    walls = p.hypersurface()
    (lines,) = walls.plot().collections
    assert len(lines.get_segments()) == 3
    assert {tuple(colour) for colour in lines.get_colors()} == {tuple(lines.get_colors()[0])}
    assert written(walls.plot(box=hm.Box.cube(2, -1, 1)), "png").startswith(b"\x89PNG")


def test_tropical_pictures_are_of_the_plane():
    p = hm.TropicalPolynomial([[0, 0, 0], [1, 0, 0]])
    with pytest.raises(UnsupportedDimensionError, match="cells are drawn in dimension 2"):
        p.cells().plot()
    with pytest.raises(UnsupportedDimensionError, match="walls are drawn in dimension 2"):
        p.hypersurface().plot()


def test_what_cannot_be_drawn_says_so():
    with pytest.raises(
        UnsupportedDimensionError, match="diagrams are drawn in dimension 2, but these have dimension 3"
    ):
        hm.attention_diagram(np.eye(3)).plot()
    with pytest.raises(UnsupportedDimensionError, match="dimension 2 or 3, but this one has dimension 4"):
        hm.minkowski_vertices([np.eye(4)]).plot()
    with pytest.raises(InvalidInputError, match="box must have dimension 2"):
        hm.attention_diagram(KEYS).plot(box=hm.Box.cube(3, -1, 1))
    with pytest.raises(InvalidInputError, match="box belongs to pictures of the plane"):
        hm.minkowski_vertices([KEYS]).plot(box=hm.Box.cube(2, -1, 1))
    with pytest.raises(InvalidInputError, match="ax must have projection 3d"):
        hm.minkowski_vertices(CUBE).plot(ax=style.new_figure(3, 3).add_subplot())
    with pytest.raises(InvalidInputError, match="one line per diagram"):
        diagrams.compare_diagrams([], titles=["a"], box=hm.Box.cube(2, -1, 1))
    with pytest.raises(InvalidInputError, match="one line per sum"):
        polytopes.compare_sums([], titles=["a"])


def test_other_results_have_no_picture():
    class Unknown:
        kind = "Mystery"

    with pytest.raises(InvalidInputError, match="no picture of a Mystery"):
        plotting.draw(Unknown())


def test_drawing_touches_no_global_state(tmp_path):
    """No pyplot, no display, and the user's settings come back."""
    code = """
import sys, matplotlib
before = matplotlib.rcParams.copy()  # dict() would ask for the backend, and so load pyplot
import hardmax as hm
axes = hm.attention_diagram([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]).plot()
axes.figure.savefig("picture.svg")
after = matplotlib.rcParams.copy()
assert {**after, "backend": 0} == {**before, "backend": 0}
assert "matplotlib.pyplot" not in sys.modules
"""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")
    no_screen = {key: value for key, value in os.environ.items() if key not in screens}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=no_screen, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_cells_carry_their_numbers_when_a_star_lies_outside_its_cell():
    """With biases a key may be drawn far from the cell it wins; the picture says whose cell each is."""
    moved = hm.attention_diagram([[1.0, 0.0], [-1.0, 0.0]], [-9.0, 0.0])  # the wall is at x = 4.5
    axes = moved.plot(box=hm.Box([-6, -6], [6, 6]))
    named = [text.get_text() for text in axes.texts if text.get_text().startswith("cell")]
    assert named == ["cell 0", "cell 1"]
    unbiased = hm.attention_diagram([[1.0, 0.0], [-1.0, 0.0]]).plot(box=hm.Box([-6, -6], [6, 6]))
    assert not [text for text in unbiased.texts if text.get_text().startswith("cell")]


def test_names_of_cells_do_not_cover_stars_and_the_legend_names_what_is_there():
    keys = np.array(
        [[2.2, 0.4], [0.7, 1.9], [-1.5, 1.2], [-1.9, -0.9], [0.5, -1.8], [0.6, 0.2], [-0.4, -0.5]]
    )
    box = hm.Box.cube(2, -3, 3)
    weighted = hm.power_diagram(keys, [0, 0, 1.5, 0, 0, 0, 1.5])
    figure = diagrams.compare_diagrams([weighted], titles=["weighted"], box=box)
    (axes,) = figure.axes
    names = {
        text.get_text(): np.array(text.get_position()) for text in axes.texts if "cell" in text.get_text()
    }
    assert len(names) == 7
    for name, place in names.items():
        assert weighted.locate(place[None])[0] == int(name.removeprefix("cell "))
        assert np.linalg.norm(keys - place, axis=1).min() > 0.3
    words = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
    assert words == [["key", "wall"]]
    attention = diagrams.compare_diagrams([hm.attention_diagram(keys)], titles=["attention"], box=box)
    assert "key that wins on no open set" in [text.get_text() for text in attention.legends[0].get_texts()]
