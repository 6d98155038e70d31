"""Order-k diagrams: what users see of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax import errors
from hardmax.geometry.diagrams.order_k import is_winning, surely_winning, winning_sets
from hardmax.geometry.diagrams.set_location import locate_sets
from hardmax.geometry.scores import Scores

SQUARE = [[1, 0], [0, 1], [-1, 0], [0, -1]]


def test_k_of_one_is_the_power_diagram():
    diagram = hm.attention_diagram(SQUARE, k=1)
    assert type(diagram) is hm.geometry.PowerDiagram
    assert diagram.nonempty.tolist() == hm.attention_diagram(SQUARE).nonempty.tolist()
    assert type(hm.power_diagram(SQUARE, k=np.int64(1))) is hm.geometry.PowerDiagram


def test_all_keys_win_together_everywhere():
    diagram = hm.attention_diagram(SQUARE, k=4)
    assert diagram.sets.tolist() == [[0, 1, 2, 3]]
    assert diagram.adjacency().shape == (0, 2)
    assert diagram.locate([[0, 0], [5, 1]]).tolist() == [[0, 1, 2, 3]] * 2


def test_identical_keys_enter_by_index():
    """Keys 0, 2 and 3 are one score: the lowest of them are in the set."""
    keys = [[1], [2], [1], [1], [-5]]
    assert hm.attention_diagram(keys, k=2).sets.tolist() == [[0, 1], [0, 4]]
    assert hm.attention_diagram(keys, k=3).sets.tolist() == [[0, 1, 2], [0, 2, 4]]
    assert hm.attention_diagram(keys, k=4).sets.tolist() == [[0, 1, 2, 3], [0, 2, 3, 4]]
    assert hm.attention_diagram([[3, 1]] * 5, k=2).sets.tolist() == [[0, 1]]


def test_collinear_keys_turn_round_all_at_once():
    """On a line of keys two sets win; across the common wall all members change."""
    diagram = hm.attention_diagram([[j, 2 * j] for j in range(7)], k=3)
    assert diagram.sets.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert diagram.adjacency().tolist() == [[0, 1]]


def test_keys_that_win_alone_nowhere_are_read_second():
    """Key 0 lies inside the hull of the others, and has a cell with each of them."""
    diagram = hm.attention_diagram([[0, 0], [3, 0], [-1, 2], [-1, -2]], k=2)
    assert not hm.attention_diagram(diagram.slopes).nonempty[0]
    assert diagram.reachable.all()


def test_parallel_scores_have_walls_at_infinity():
    diagram = hm.attention_diagram([[0, 0], [0, 0], [1, 0], [1, 0]], [0, 1, 0, 1], k=2)
    assert diagram.sets.tolist() == [[0, 1], [1, 3], [2, 3]]
    assert diagram.adjacency().tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("keys", "k", "sentence"),
    [
        (SQUARE, 0, "k must be an integer of at least 1, but was 0."),
        (SQUARE, -2, "k must be an integer of at least 1, but was -2."),
        (SQUARE, 1.5, "k must be an integer of at least 1, but was 1.5."),
        (SQUARE, "two", "k must be an integer of at least 1, but was 'two'."),
        (SQUARE, None, "k must be an integer of at least 1, but was None."),
        (SQUARE, True, "k must be an integer of at least 1, but was True."),
        (SQUARE, 5, "k must be at most the number of keys, but was 5 for 4 keys."),
        ([[1, 2]], 2, "k must be at most the number of keys, but was 2 for 1 key."),
    ],
)
def test_a_bad_k_gets_one_sentence(keys, k, sentence):
    for call in (hm.attention_diagram, hm.power_diagram):
        with pytest.raises(errors.InvalidInputError) as refused:
            call(keys, k=k)
        assert str(refused.value) == sentence


def test_a_bad_k_of_a_sum_gets_one_sentence():
    with pytest.raises(errors.InvalidInputError, match=r"k\[1\] must be at most the number of keys"):
        hm.minkowski_vertices([SQUARE, SQUARE[:2]], k=[2, 3])
    with pytest.raises(errors.DimensionMismatchError, match="one for each of the 2 heads, but holds 3"):
        hm.minkowski_vertices([SQUARE, SQUARE], k=[1, 2, 1])


def test_other_bad_input():
    diagram = hm.attention_diagram(SQUARE, k=2)
    with pytest.raises(errors.DimensionMismatchError, match="points must have 2 columns, but have 3"):
        diagram.locate([[1, 2, 3]])
    with pytest.raises(errors.NotFiniteError):
        diagram.locate(np.array([[np.nan, 0.0]]))
    with pytest.raises(errors.UnsupportedDimensionError, match="adjacency is known up to dimension 4"):
        hm.attention_diagram(np.vstack([np.eye(6), -np.eye(6)]), k=2).adjacency()
    with pytest.raises(errors.UnsupportedDimensionError, match="polygons are cells of the plane"):
        hm.attention_diagram(np.eye(3), k=2).polygons(hm.Box.cube(2, -1, 1))


@pytest.mark.parametrize("scale", [2.0**-1074, 1e-300, 1e-150, 1.0, 1e150, 8e307])
def test_sizes_from_the_smallest_to_the_largest_floats(scale):
    keys = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [0, 0]]) * scale
    for k in (2, 3, 4):
        expected = hm.attention_diagram(keys / scale, k=k)
        diagram = hm.attention_diagram(keys, k=k)
        assert diagram.sets.tolist() == expected.sets.tolist()
        assert diagram.locate(diagram.witnesses).tolist() == diagram.sets.tolist()


def test_a_cell_thinner_than_floats_keeps_a_rational_witness():
    """Key 1 and key 2 cross key 0 at points closer together than two floats near 1/3."""
    tiny = Fraction(1, 10**40)
    keys, biases = [[0], [3], [-3]], [0, -1 + tiny, 1 + tiny]
    diagram = hm.attention_diagram(keys, biases, k=2)
    assert [0, 1] in diagram.sets.tolist()
    for i, members in enumerate(diagram.sets.tolist()):
        point = diagram.exact_witnesses.get(i, diagram.witnesses[i])
        assert is_winning(diagram.scores, members, point)
    assert len(diagram.exact_witnesses) == 1


def test_a_rank_deficient_query_map():
    keys = np.array([[1, 2, 3], [2, 4, 7], [0, 0, 1], [5, 1, 1], [1, 1, 1]])
    through = hm.attention_diagram(keys, k=2, query_map=(np.outer([1, 2, 0], [1, 1]), None))
    slopes = keys @ [1, 2, 0]
    assert through.sets.tolist() == hm.attention_diagram(slopes[:, None], k=2).sets.tolist()


def test_polygons_cover_the_box_and_hold_the_points_located_there():
    rng = np.random.default_rng(0)
    diagram = hm.power_diagram(rng.standard_normal((9, 2)), k=3)
    polygons = diagram.polygons(hm.Box.cube(2, -2, 2))
    x, y = (
        np.array([np.append(p[:, axis], p[0, axis]) for p in polygons if len(p)], dtype=object)
        for axis in (0, 1)
    )
    areas = [abs(np.sum(a[:-1] * b[1:] - a[1:] * b[:-1])) / 2 for a, b in zip(x, y, strict=True)]
    assert sum(areas) == pytest.approx(16.0)
    for members, corners in zip(diagram.sets.tolist(), polygons, strict=True):
        if len(corners) > 2:
            assert diagram.locate(corners.mean(axis=0)[None, :]).tolist() == [members]


def test_walls_and_corners_of_sums():
    diagram = hm.power_diagram([[0, 0], [2, 0], [0, 2], [2, 2]], k=2)
    assert diagram.sets.tolist() == [[0, 1], [0, 2], [1, 3], [2, 3]]
    assert diagram.vertices().tolist() == [[1.0, 1.0]]
    assert [wall.keys for wall in diagram.facets()] == [tuple(pair) for pair in diagram.adjacency().tolist()]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1, max_size=7),
    st.lists(st.tuples(*[st.fractions(-4, 4, max_denominator=6)] * 2), min_size=1, max_size=5),
    st.integers(1, 7),
)
def test_points_are_located_by_sorting_rational_scores(rows, points, k):
    k = min(k, len(rows))
    scores = Scores.of_keys([row[:2] for row in rows], [row[2] for row in rows])
    expected = []
    for x in points:
        values = [row[0] * x[0] + row[1] * x[1] + row[2] for row in rows]
        expected.append(sorted(sorted(range(len(rows)), key=lambda j: (-values[j], j))[:k]))
    exact = hm.geometry.OrderKDiagram(scores, k).locate(points)
    assert exact.tolist() == expected
    integers = np.array([[round(v) for v in x] for x in points], dtype=float)
    for x, members in zip(integers, locate_sets(scores, k, integers).tolist(), strict=True):
        values = [row[0] * x[0] + row[1] * x[1] + row[2] for row in rows]
        assert members == sorted(sorted(range(len(rows)), key=lambda j: (-values[j], j))[:k])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 2), min_size=2, max_size=8), st.integers(1, 8))
def test_best_and_worst_keys_are_complements(rows, k):
    """The k best keys of the scores are what the N - k best of the negated ones leave, in reversed order."""
    n = len(rows)
    k = min(k, n - 1)
    best = winning_sets(Scores.of_keys(rows), k).sets
    worst = winning_sets(Scores.of_keys([[-v for v in row] for row in rows[::-1]]), n - k).sets
    left = sorted(sorted(set(range(n)) - {n - 1 - j for j in members}) for members in worst.tolist())
    assert left == best.tolist()


def test_proofs_of_witnesses_refuse_what_is_not_inside():
    scores = Scores.of_keys([[1], [2], [1], [-5]])
    sets = np.array([[0, 1]])
    assert surely_winning(scores, sets, np.array([[1.0]])).tolist() == [True]
    assert surely_winning(scores, sets, np.array([[-1.0]])).tolist() == [False]
    assert surely_winning(scores, sets, np.array([[np.inf]])).tolist() == [False]
    # of the identical keys 0 and 2 one is in the set: key 3 must beat the other, too
    assert not is_winning(scores, [0, 3], [Fraction(1)])
    assert is_winning(scores, [0, 3], [-1.0])
    assert surely_winning(scores, np.array([[0, 3]]), np.array([[1.0]])).tolist() == [False]
    assert not is_winning(scores, [0, 1], [float("nan")])


def test_both_methods_agree_on_more_keys():
    rng = np.random.default_rng(4)
    for scores in (
        Scores.of_keys(rng.standard_normal((24, 3))),
        Scores.of_sites(rng.standard_normal((20, 2))),
        Scores.of_keys(rng.integers(-2, 3, (24, 3)), rng.integers(-2, 3, 24)),
    ):
        walk, levels = (winning_sets(scores, 3, method=method) for method in ("walk", "levels"))
        assert walk.sets.tolist() == levels.sets.tolist()


def test_cells_of_random_points_are_found():
    """Sampling sees no set that is missing, with 120 keys in four dimensions."""
    rng = np.random.default_rng(8)
    diagram = hm.attention_diagram(rng.standard_normal((120, 4)), k=2)
    seen = {tuple(row) for row in diagram.locate(rng.standard_normal((20_000, 4))).tolist()}
    assert seen <= {tuple(row) for row in diagram.sets.tolist()}
    assert len(seen) > 0.8 * diagram.n_cells


@pytest.mark.parametrize("biases", [None, [Fraction(1, 3), 0, 1, 2]])
def test_a_diagram_survives_a_file(biases, tmp_path):
    diagram = hm.attention_diagram(SQUARE, biases, k=2)
    diagram.save(tmp_path / "pairs.npz")
    again = hm.load(tmp_path / "pairs.npz")
    assert type(again) is hm.geometry.OrderKDiagram
    assert (again.k, again.sets.tolist()) == (2, diagram.sets.tolist())
    assert again.adjacency().tolist() == diagram.adjacency().tolist()
    assert again.scores.exact_row(0) == diagram.scores.exact_row(0)
    sums = hm.minkowski_vertices([SQUARE, SQUARE[:3]], k=[2, 1])
    sums.save(tmp_path / "sum.npz")
    loaded = hm.load(tmp_path / "sum.npz")
    assert loaded.winning_keys(0).tolist() == sums.winning_keys(0).tolist()
    assert loaded.verify().ok


def test_table_and_summary():
    diagram = hm.power_diagram(SQUARE, k=2)
    assert repr(diagram) == "<OrderKDiagram: 4 keys in 2-d, biased, the 2 best win>"
    assert list(diagram.to_frame().columns) == ["key_0", "key_1", "witness_0", "witness_1"]
    assert repr(diagram) == "<OrderKDiagram: 4 keys in 2-d, biased, the 2 best win, 4 cells>"
    assert not diagram.sets.flags.writeable
    text = repr(hm.minkowski_vertices([SQUARE, SQUARE[:3]], k=2))
    assert (
        text == "<MinkowskiVertices: 6 vertices of the sum of 2 heads (4, 3 keys, the 2, 2 best win) in R^2>"
    )


def test_picture():
    axes = hm.attention_diagram(SQUARE, k=2).plot(box=hm.Box.cube(2, -2, 2))
    assert len(axes.patches) == 4
    assert "0,1" in {text.get_text() for text in axes.texts}
