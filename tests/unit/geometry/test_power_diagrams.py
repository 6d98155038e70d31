"""Power diagrams: the statements of P1 section IV, a proof for every key, and the manners of a result."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax import errors
from hardmax.geometry.diagrams.interiors import decide_interiors
from hardmax.geometry.scores import Scores

QUARTERS = st.integers(-8, 8).map(lambda i: i / 4)


def lifted(diagram) -> list[list[Fraction]]:
    """Slopes and offset of every key, in fractions."""
    return [
        [Fraction(int(v.p), int(v.q)) for v in diagram.scores.exact_row(j)] for j in range(diagram.n_keys)
    ]


def scores_at(rows, x) -> list[Fraction]:
    point = [Fraction(v) for v in x]
    return [sum((a * b for a, b in zip(row, point, strict=False)), row[-1]) for row in rows]


def check_every_proof(diagram) -> None:
    """A witness where strictly no other score is as large, or a combination that is never beaten."""
    rows = lifted(diagram)
    for j in range(diagram.n_keys):
        if diagram.nonempty[j]:
            witness = diagram.exact_witnesses.get(j, diagram.witnesses[j].tolist())
            values = scores_at(rows, witness)
            assert all(v < values[j] for v, row in zip(values, rows, strict=True) if row != rows[j])
        else:
            assert np.isnan(diagram.witnesses[j]).all()
            certificate = diagram.empty_certificate(j)
            support, weights = certificate.support.tolist(), certificate.weights
            assert certificate.verify()
            assert len(support) == len(set(support)) <= diagram.d + 1
            assert sum(weights) == 1
            assert all(w > 0 for w in weights)
            assert all(rows[i] != rows[j] for i in support)
            mixed = [
                sum(w * rows[i][k] for w, i in zip(weights, support, strict=True))
                for k in range(diagram.d + 1)
            ]
            assert mixed[:-1] == rows[j][:-1]
            assert mixed[-1] >= rows[j][-1]


@st.composite
def diagrams(draw, max_d=6, max_keys=9, kinds=("keys", "biased", "sites")):
    """Small diagrams full of ties, repetitions and collinear keys."""
    d, n = draw(st.integers(1, max_d)), draw(st.integers(1, max_keys))
    entry = draw(st.sampled_from([st.integers(-1, 1), st.integers(-3, 3), QUARTERS]))
    keys = draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=n, max_size=n))
    offsets = draw(st.lists(entry, min_size=n, max_size=n))
    kind = draw(st.sampled_from(kinds))
    if kind == "sites":
        diagram = hm.power_diagram(keys, offsets)
    else:
        diagram = hm.attention_diagram(keys, offsets if kind == "biased" else None)
    if draw(st.booleans()):  # such small diagrams are decided in rationals; this is the road of large ones
        diagram.__dict__["_interiors"] = decide_interiors(diagram.scores, method="search")
    return diagram


# ----------------------------------------------------------------------------------------------------------
# Witness or certificate
# ----------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(diagrams())
def test_every_key_has_a_witness_or_a_certificate(diagram):
    check_every_proof(diagram)


@settings(max_examples=60)
@given(diagrams(max_d=3))
def test_search_and_splitting_agree(diagram):
    search = decide_interiors(diagram.scores, method="search")
    splitting = decide_interiors(diagram.scores, method="splitting")
    np.testing.assert_array_equal(search.nonempty, splitting.nonempty)
    np.testing.assert_array_equal(diagram.nonempty, search.nonempty)


@settings(max_examples=60)
@given(diagrams(), st.integers(-40, 40), st.sampled_from([Fraction(1, 3), Fraction(7), Fraction(1, 1000)]))
def test_scaling_and_common_shifts_change_no_cell(diagram, shift, factor):
    rows = lifted(diagram)
    moved = [[factor * v + shift for v in row] for row in rows]
    again = hm.attention_diagram(
        np.array([row[:-1] for row in moved], dtype=object),
        np.array([row[-1] for row in moved], dtype=object),
    )
    if diagram.biased or not again.biased:
        np.testing.assert_array_equal(again.nonempty, diagram.nonempty)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 9, 20])
@pytest.mark.parametrize("kind", ["keys", "biased", "sites"])
def test_random_diagrams(d, kind):
    rng = np.random.default_rng([d, len(kind)])
    keys = rng.standard_normal((40, d)) * rng.uniform(size=(40, 1))
    offsets = 0.5 * rng.standard_normal(40)
    diagram = {
        "keys": lambda: hm.attention_diagram(keys),
        "biased": lambda: hm.attention_diagram(keys, offsets),
        "sites": lambda: hm.power_diagram(keys, offsets),
    }[kind]()
    check_every_proof(diagram)


def test_far_from_the_origin():
    """A common shift by 2^40 costs no decision: only differences count, and 2^-12 survives beside 2^40."""
    rng = np.random.default_rng(7)
    near = np.round(rng.standard_normal((30, 3)) * 2**12) / 2**12
    far = hm.attention_diagram(near + 2.0**40)
    np.testing.assert_array_equal(far.nonempty, hm.attention_diagram(near).nonempty)
    check_every_proof(far)
    points = rng.standard_normal((200, 3))
    exact = [
        int(np.argmax([float(v) for v in scores_at(lifted(hm.attention_diagram(near)), x)])) for x in points
    ]
    np.testing.assert_array_equal(far.locate(points), exact)


def test_columns_of_very_different_size():
    rng = np.random.default_rng(8)
    keys = rng.standard_normal((25, 4))
    stretched = keys * [1e-12, 1.0, 1e9, 1e150]
    np.testing.assert_array_equal(
        hm.attention_diagram(stretched).nonempty, hm.attention_diagram(keys).nonempty
    )
    check_every_proof(hm.attention_diagram(stretched))


def test_keys_on_the_edge_of_float64():
    """The widest and the narrowest numbers that there are."""
    for keys in (
        [[1e308], [-1e308], [5e307]],
        [[5e-324], [0.0], [1e-323]],
        [[1e308, 5e-324], [-1e308, 0.0], [0.0, 1.0]],
    ):
        diagram = hm.attention_diagram(keys)
        check_every_proof(diagram)
        check_every_proof(hm.attention_diagram(keys, [0.0, 5e-324, 1e-300][: len(keys)]))


def test_a_cell_that_holds_no_float():
    """The cell of key 1 is the open interval (1, 1 + 2^-60) between two neighbouring floats."""
    thin = Fraction(1, 2**60)
    diagram = hm.attention_diagram([[0], [1], [2]], [Fraction(0), Fraction(-1), -2 - thin])
    assert diagram.nonempty.tolist() == [True, True, True]
    assert set(diagram.exact_witnesses) == {1}
    assert 1 < diagram.exact_witnesses[1][0] < 1 + thin
    check_every_proof(diagram)


def test_fractions_are_kept():
    """A third is no float: the key between the two others is exactly on their line, or off it by 10^-40."""
    third, hair = Fraction(1, 3), Fraction(1, 10**40)
    for shift, inside in ((Fraction(0), True), (hair, False)):
        diagram = hm.attention_diagram([[0, third], [third, third + shift], [1, third]])
        assert bool(diagram.nonempty[1]) is not inside
        check_every_proof(diagram)


def test_rank_deficient_query_maps():
    """The factors are kept: a map of rank 2 makes a diagram of rank 2, which a rounded product would not."""
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((30, 6))
    left, right = rng.standard_normal((6, 2)), rng.standard_normal((2, 7))
    matrix = np.array(
        [
            [sum(Fraction(a) * Fraction(b) for a, b in zip(row, col, strict=True)) for col in right.T]
            for row in left
        ]
    )
    diagram = hm.attention_diagram(keys, query_map=(matrix, None))
    plane = hm.attention_diagram(keys, query_map=(left, None))  # the same keys seen in the plane
    np.testing.assert_array_equal(diagram.nonempty, plane.nonempty)
    assert 3 <= diagram.nonempty.sum() < 30
    searched = decide_interiors(diagram.scores, method="search")
    assert searched.n_decided_exactly == 0  # two carrying coordinates, in general position
    check_every_proof(diagram)
    check_every_proof(plane)


@pytest.mark.parametrize("d", [1, 2, 5, 70])
def test_one_key_and_copies_of_one_key(d):
    for keys in (np.ones((1, d)), np.ones((4, d))):
        for diagram in (
            hm.attention_diagram(keys),
            hm.power_diagram(keys),
            hm.attention_diagram(keys, np.ones(len(keys))),
        ):
            assert diagram.nonempty.all()
            assert diagram.locate(np.zeros((2, d))).tolist() == [0, 0]
            check_every_proof(diagram)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_many_collinear_keys(d):
    """More keys than the splitting kernel compares one by one, on one line: the two ends win."""
    rng = np.random.default_rng(6)
    along = rng.permutation(2001) - 1000.0
    diagram = hm.attention_diagram(np.multiply.outer(along, [1.0, -2.0, 3.0][:d]))
    np.testing.assert_array_equal(diagram.nonempty, np.abs(along) == 1000)
    certificate = diagram.empty_certificate(int(np.flatnonzero(along == 1)[0]))
    assert sorted(along[certificate.support]) == [-1000, 1000]
    assert certificate.verify()


def test_equal_slopes_keep_the_highest_offset():
    diagram = hm.attention_diagram([[1.0, 2.0]] * 4, [0.0, 3.0, 3.0, -1.0])
    assert diagram.nonempty.tolist() == [False, True, True, False]
    check_every_proof(diagram)


def test_high_dimension_with_structure():
    """Midpoints of vertices in 64-d: supports of two keys, decided in rationals."""
    rng = np.random.default_rng(12)
    corners = np.round(rng.standard_normal((40, 64)) * 2**20) / 2**20
    middles = (corners[:10] + corners[10:20]) / 2
    diagram = hm.attention_diagram(np.concatenate([corners, middles]))
    assert diagram.nonempty.tolist() == [True] * 40 + [False] * 10
    assert [diagram.empty_certificate(40 + i).support.tolist() for i in range(10)] == [
        [i, 10 + i] for i in range(10)
    ]
    check_every_proof(diagram)


def test_512_keys_in_128_dimensions():
    rng = np.random.default_rng(1)
    keys = rng.standard_normal((512, 128)) * rng.uniform(size=(512, 1))
    diagram = hm.attention_diagram(keys)
    empty = np.flatnonzero(~diagram.nonempty)
    assert diagram._interiors.n_decided_exactly == 0
    np.testing.assert_array_equal(
        diagram.locate(diagram.witnesses[diagram.nonempty]), np.flatnonzero(diagram.nonempty)
    )
    for j in empty[:2]:
        assert diagram.empty_certificate(int(j)).verify()


# ----------------------------------------------------------------------------------------------------------
# The statements of section IV
# ----------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    diagrams(max_d=3, kinds=("keys", "biased")),
    st.lists(st.lists(QUARTERS, min_size=3, max_size=3), max_size=6),
)
def test_theorem_iv_3_with_ties(diagram, points):
    """Largest score and least power |q - k|^2 - (|k|^2 + 2b) are the same set of keys at every q."""
    rows = lifted(diagram)
    queries = [q[: diagram.d] for q in points] + [[0.0] * diagram.d] + [row[:-1] for row in rows[:2]]
    weights = [sum((v * v for v in row[:-1]), 2 * row[-1]) for row in rows]
    power = hm.power_diagram(np.array([r[:-1] for r in rows], dtype=object), np.array(weights, dtype=object))
    np.testing.assert_array_equal(power.nonempty, diagram.nonempty)
    assert power.biased == diagram.biased
    for q in queries:
        values = scores_at(rows, q)
        powers = [
            sum((Fraction(x) - c) ** 2 for x, c in zip(q, row, strict=False)) - w
            for row, w in zip(rows, weights, strict=True)
        ]
        best = {j for j, v in enumerate(values) if v == max(values)}
        assert best == {j for j, v in enumerate(powers) if v == min(powers)}
        assert power.locate([q]).tolist() == diagram.locate([q]).tolist() == [min(best)]


def test_remark_iv_5_pullback_by_the_query_map():
    rng = np.random.default_rng(5)
    keys, biases = rng.standard_normal((20, 4)), rng.standard_normal(20)
    w_q, b_q = rng.standard_normal((4, 3)), rng.standard_normal(4)
    diagram = hm.attention_diagram(keys, biases, query_map=(w_q, b_q))
    assert diagram.d == 3
    x = rng.standard_normal((3000, 3))
    expected = ((x @ w_q.T + b_q) @ keys.T + biases).argmax(axis=1)
    np.testing.assert_array_equal(diagram.locate(x), expected)
    check_every_proof(diagram)


def test_remark_iv_6_equal_norms_are_voronoi():
    """All norms are 65 exactly: the scores differ from Voronoi's by a constant, and every key has a cell."""
    keys = np.array(
        [[16, 63], [25, 60], [33, 56], [39, 52], [-16, 63], [-63, 16], [0, 65], [65, 0], [-39, -52]], float
    )
    diagram, voronoi = hm.attention_diagram(keys), hm.power_diagram(keys)
    assert diagram.nonempty.all()
    grid = np.stack(np.meshgrid(np.arange(-9, 10), np.arange(-9, 10)), axis=-1).reshape(-1, 2).astype(float)
    np.testing.assert_array_equal(diagram.locate(grid), voronoi.locate(grid))
    assert diagram.adjacency().tolist() == voronoi.adjacency().tolist()


def test_figure_3_blames_the_wrong_keys():
    """The shortest key has a full cell, and a long one can have none: what counts is the hull."""
    smallest_wins = hm.attention_diagram([[0.1, 0.0], [-5.0, 1.0], [-5.0, -1.0]])
    assert smallest_wins.nonempty.all()
    assert np.argmin(smallest_wins.weights) == 0
    long_loses = hm.attention_diagram([[9.0, 1.0], [9.0, -1.0], [8.9, 0.0], [0.0, 0.1]])
    assert long_loses.nonempty.tolist() == [True, True, False, True]
    assert long_loses.weights[2] > long_loses.weights[3]


@settings(max_examples=60)
@given(diagrams(max_d=4, kinds=("keys",)), st.integers(1, 50))
def test_unbiased_cells_are_cones_through_the_origin(diagram, factor):
    assert len(set(scores_at(lifted(diagram), [0] * diagram.d))) == 1  # every closed cell holds the origin
    won = np.flatnonzero(diagram.nonempty)
    scaled = diagram.witnesses[won] * float(factor)
    np.testing.assert_array_equal(diagram.locate(scaled), diagram.tie_group[won])


@settings(max_examples=60)
@given(diagrams(max_d=4, kinds=("keys",)))
def test_the_longest_key_always_has_interior(diagram):
    rows = lifted(diagram)
    squares = [sum(v * v for v in row[:-1]) for row in rows]
    assert diagram.nonempty[squares.index(max(squares))]


# ----------------------------------------------------------------------------------------------------------
# Point location
# ----------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(diagrams(max_d=3), st.lists(st.lists(QUARTERS, min_size=3, max_size=3), min_size=1, max_size=8))
def test_locate_takes_the_lowest_of_the_best(diagram, points):
    rows = lifted(diagram)
    queries = [q[: diagram.d] for q in points]
    values = [scores_at(rows, q) for q in queries]
    assert diagram.locate(queries).tolist() == [v.index(max(v)) for v in values]


def test_locate_decides_near_ties_that_floats_get_wrong():
    """0.1 + 0.2 is not 0.3: the float scores differ although the exact ones decide the other way."""
    keys = [[0.1, 0.2], [0.3, 0.0]]
    diagram = hm.attention_diagram(keys)
    point = [1.0, 1.0]
    exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(k, point, strict=True)) for k in keys]
    assert diagram.locate([point]).tolist() == [exact.index(max(exact))]
    third = Fraction(1, 3)
    tied = hm.attention_diagram([[third, 0], [0, third], [third, third]], [0, 0, -third])
    assert tied.locate([[1, 1]]).tolist() == [0]
    assert tied.locate([[Fraction(1, 7), Fraction(1, 7)], [Fraction(1, 7), Fraction(2, 7)]]).tolist() == [
        0,
        1,
    ]


@settings(max_examples=100)
@given(diagrams(max_d=3), st.lists(st.lists(QUARTERS, min_size=3, max_size=3), min_size=1, max_size=8))
def test_locate_by_tree_and_among_winners(diagram, points):
    """The roads for very many keys end where the plain one does, on walls and at ties too."""
    queries = np.array([q[: diagram.d] for q in points])
    expected = diagram.locate(queries)
    np.testing.assert_array_equal(diagram._locate_among_winners(queries, True), expected)
    if len(diagram._locator.index) > 1 and "sites" in diagram.scores.source:
        likely, still_open = diagram._locator.likely_winner(queries, by_tree=True)
        np.testing.assert_array_equal(diagram._locator.index[likely][~still_open], expected[~still_open])
        rows = lifted(diagram)
        for q in queries[~still_open]:
            values = scores_at(rows, q.tolist())
            assert len({tuple(rows[j]) for j, v in enumerate(values) if v == max(values)}) == 1


def test_locate_among_thousands_of_sites():
    rng = np.random.default_rng(14)
    sites, points = rng.standard_normal((3000, 2)), rng.standard_normal((500, 2))
    weights = 0.01 * rng.uniform(size=3000)
    diagram = hm.power_diagram(sites, weights)
    assert diagram._locator.prefers_tree
    powers = ((points[:, None] - sites) ** 2).sum(axis=2) - weights
    np.testing.assert_array_equal(diagram.locate(points), powers.argmin(axis=1))
    grid = np.stack(np.meshgrid(np.arange(50.0), np.arange(50.0), indexing="ij"), axis=-1).reshape(-1, 2)
    corners = rng.integers(0, 49, size=(200, 2)) + 0.5  # four sites tie
    first = [int(a * 50 + b) for a, b in corners - 0.5]
    np.testing.assert_array_equal(hm.power_diagram(grid).locate(corners), first)
    np.testing.assert_array_equal(hm.power_diagram(grid / 10).locate(corners / 10)[:3] >= 0, True)


def test_locate_many_ties_at_once():
    """A hundred thousand points on the walls of a grid: settled on the lattice, without rationals."""
    sites = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0), indexing="ij"), axis=-1).reshape(-1, 2)
    points = np.random.default_rng(0).integers(-1, 10, size=(100_000, 2)) / 2
    expected = [(a * 5 + b) for a, b in np.clip(np.ceil(points - 0.5), 0, 4).astype(int)]
    np.testing.assert_array_equal(hm.power_diagram(sites).locate(points), expected)


def test_locate_uncertified_is_plain_argmax():
    rng = np.random.default_rng(4)
    keys, points = rng.standard_normal((50, 7)), rng.standard_normal((5000, 7))
    diagram = hm.attention_diagram(keys)
    np.testing.assert_array_equal(diagram.locate(points, certified=False), (points @ keys.T).argmax(axis=1))
    np.testing.assert_array_equal(
        diagram.locate(points.astype(np.float32)),
        (points.astype(np.float32).astype(float) @ keys.T).argmax(axis=1),
    )


# ----------------------------------------------------------------------------------------------------------
# Faces
# ----------------------------------------------------------------------------------------------------------


def test_walls_and_vertices_of_a_triangle():
    sites = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    diagram = hm.power_diagram(sites)
    assert diagram.adjacency().tolist() == [[0, 1], [0, 2], [1, 2]]
    assert diagram.vertices().tolist() == [[2.0, 2.0]]
    for wall in diagram.facets():
        assert not wall.bounded
        assert wall.points.tolist() == [[2.0, 2.0]]
        assert len(wall.rays) == 1
        i, j = wall.keys
        middle = wall.points[0] + wall.rays[0]
        values = scores_at(lifted(diagram), middle)
        assert float(values[i]) == pytest.approx(float(values[j]))
        assert max(values) in (values[i], values[j])


@settings(max_examples=60)
@given(diagrams(max_d=3, max_keys=8))
def test_walls_lie_between_their_cells(diagram):
    rows = lifted(diagram)
    walls = diagram.facets()
    assert [list(wall.keys) for wall in walls] == diagram.adjacency().tolist()
    for wall in walls:
        point = (
            wall.points.mean(axis=0) + wall.rays.sum(axis=0) if len(wall.rays) else wall.points.mean(axis=0)
        )
        values = np.array([float(v) for v in scores_at(rows, point.tolist())])
        i, j = wall.keys
        scale = 1e-9 * (1 + np.abs(values).max())
        assert abs(values[i] - values[j]) < scale
        assert values[i] >= values.max() - scale


def test_vertices_of_a_grid_appear_once():
    sites = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij"), axis=-1).reshape(-1, 2)
    vertices = hm.power_diagram(sites).vertices()
    assert vertices.tolist() == [[x, y] for x in (0.5, 1.5, 2.5) for y in (0.5, 1.5)]
    assert hm.attention_diagram(sites).vertices().tolist() == [[0.0, 0.0]]  # one fan
    assert hm.power_diagram([[0.0, 0.0], [1.0, 0.0]]).vertices().shape == (0, 2)  # a strip has none


def test_vertices_in_general_position_satisfy_euler():
    """In the plane V - E + F = 1 for a diagram with unbounded cells and connected walls."""
    sites = np.random.default_rng(2).standard_normal((60, 2))
    diagram = hm.power_diagram(sites)
    assert len(diagram.vertices()) - len(diagram.adjacency()) + 60 == 1


def test_polygons_of_a_fan_and_of_copies():
    diagram = hm.attention_diagram([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [1.0, 0.0]])
    polygons = diagram.polygons(hm.Box.cube(2, -1, 1))
    assert [len(p) for p in polygons] == [4, 4, 4, 0]
    doubled = [(p[:, 0] * np.roll(p[:, 1], -1) - np.roll(p[:, 0], -1) * p[:, 1]).sum() for p in polygons]
    assert sum(doubled) / 2 == pytest.approx(4.0)  # counter-clockwise, so areas are positive
    assert min(doubled[:3]) > 0


def test_faces_are_refused_in_high_dimension():
    diagram = hm.attention_diagram(np.eye(6))
    for question in (diagram.adjacency, diagram.facets, diagram.vertices):
        with pytest.raises(errors.UnsupportedDimensionError, match="dimension 6"):
            question()
    with pytest.raises(errors.UnsupportedDimensionError):
        diagram.polygons(hm.Box.cube(2, -1, 1))
    with pytest.raises(errors.InvalidInputError, match="box"):
        hm.attention_diagram(np.eye(2)).polygons((-1, 1))


# ----------------------------------------------------------------------------------------------------------
# MaxMargin
# ----------------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(diagrams(max_d=4, kinds=("keys",)))
def test_reach_is_bounded_by_its_certificates(diagram):
    reach = diagram.max_margin()
    assert (reach.lower <= reach.values).all()
    assert (reach.values <= reach.upper).all()
    assert (reach.gap <= 1e-11).all()
    copies = np.bincount(diagram.tie_group, minlength=diagram.n_keys)[diagram.tie_group] > 1
    if diagram.n_keys > 1:
        np.testing.assert_array_equal(reach.values > 0, diagram.nonempty & ~copies)
    rows = lifted(diagram)
    for j in np.flatnonzero((reach.values > 0) & np.isfinite(reach.values)):
        q = [Fraction(v) for v in reach.queries[j].tolist()]
        values = scores_at(rows, q)
        margin = values[j] - max(v for i, v in enumerate(values) if i != j)
        # the query's margin, squared and compared without a root, is at least the lower bound
        assert margin**2 >= Fraction(reach.lower[j]) ** 2 * sum(v * v for v in q)
        assert np.linalg.norm(reach.queries[j]) == pytest.approx(1.0)


def test_reach_against_brute_force_in_the_plane():
    """Distance to a polygon by its edges, and the best of many angles."""
    rng = np.random.default_rng(9)
    keys = rng.standard_normal((8, 2))
    reach = hm.attention_diagram(keys).max_margin()
    angles = np.linspace(0, 2 * np.pi, 20001)
    queries = np.column_stack([np.cos(angles), np.sin(angles)])
    table = queries @ keys.T
    for j in range(8):
        others = np.delete(np.arange(8), j)
        margin = (table[:, [j]] - table[:, others]).min(axis=1).max()
        assert max(margin, 0.0) == pytest.approx(reach[j], abs=1e-3)
        edges = [
            np.linalg.norm(
                keys[j]
                - keys[a]
                - np.clip(
                    (keys[j] - keys[a]) @ (keys[b] - keys[a]) / max(((keys[b] - keys[a]) ** 2).sum(), 1e-300),
                    0,
                    1,
                )
                * (keys[b] - keys[a])
            )
            for a in others
            for b in others
        ]
        if reach[j] > 0:
            assert min(edges) == pytest.approx(reach[j])


def test_reach_scales_and_shifts():
    rng = np.random.default_rng(10)
    keys = rng.standard_normal((60, 10)) * rng.uniform(size=(60, 1))
    plain = hm.attention_diagram(keys).max_margin()
    np.testing.assert_allclose(
        hm.attention_diagram(1e-6 * keys).max_margin().values, 1e-6 * plain.values, rtol=1e-9, atol=1e-18
    )
    np.testing.assert_allclose(
        hm.attention_diagram(keys + 100.0).max_margin().values, plain.values, atol=1e-11
    )


def test_reach_of_one_key_of_copies_and_of_biased_keys():
    assert hm.attention_diagram([[1.0, 2.0]]).max_margin().values.tolist() == [np.inf]
    assert hm.attention_diagram(np.ones((3, 2))).max_margin().values.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(errors.BiasedDiagramError, match="unbiased"):
        hm.attention_diagram(np.eye(2), [0.0, 1.0]).max_margin()
    squares = hm.power_diagram([[3.0, 4.0], [0.0, 0.0]], [25.0, 0.0])  # the unbiased diagram in disguise
    np.testing.assert_allclose(squares.max_margin().values, [5.0, 5.0])


def test_reach_through_a_query_map():
    rng = np.random.default_rng(11)
    keys, w_q = rng.standard_normal((15, 5)), rng.standard_normal((5, 3))
    mapped = hm.attention_diagram(keys, query_map=(w_q, None)).max_margin()
    np.testing.assert_allclose(
        mapped.values, hm.attention_diagram(keys @ w_q).max_margin().values, atol=1e-12
    )
    assert (mapped.gap < 1e-11).all()


# ----------------------------------------------------------------------------------------------------------
# As a result
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["keys", "biased", "mapped", "sites", "fractions"])
def test_saving_keeps_the_numbers_that_were_handed_over(kind, tmp_path):
    rng = np.random.default_rng(13)
    keys, offsets = rng.standard_normal((9, 3)), rng.standard_normal(9)
    third = np.array([[Fraction(int(v), 3) for v in row] for row in rng.integers(-5, 6, size=(9, 3))])
    diagram = {
        "keys": lambda: hm.attention_diagram(keys),
        "biased": lambda: hm.attention_diagram(keys, offsets),
        "mapped": lambda: hm.attention_diagram(keys, offsets, query_map=(rng.standard_normal((3, 2)), None)),
        "sites": lambda: hm.power_diagram(keys, offsets),
        "fractions": lambda: hm.attention_diagram(third, third[:, 0]),
    }[kind]()
    again = hm.load(diagram.save(tmp_path / "diagram.npz"))
    assert lifted(again) == lifted(diagram)
    np.testing.assert_array_equal(again.nonempty, diagram.nonempty)
    np.testing.assert_array_equal(again.witnesses, diagram.witnesses)
    check_every_proof(again)
    assert again.to_dict()["nonempty"] == diagram.nonempty.tolist()


def test_saving_a_thin_cell_and_a_reach(tmp_path):
    thin = hm.attention_diagram([[0], [1], [2]], [Fraction(0), Fraction(-1), -2 - Fraction(1, 2**60)])
    again = hm.load(thin.save(tmp_path / "thin.npz"))
    assert again.exact_witnesses == thin.exact_witnesses
    reach = hm.attention_diagram(np.eye(3)).max_margin()
    reach.save(tmp_path / "reach.npz")
    np.testing.assert_allclose(np.asarray(reach), np.sqrt(1.5))
    assert len(reach) == 3
    assert "3 with a positive margin" in repr(reach)


def test_a_diagram_is_a_value():
    diagram = hm.attention_diagram(np.eye(3))
    assert repr(diagram) == "<PowerDiagram: 3 keys in 3-d, unbiased>"
    assert diagram.nonempty.all()
    assert repr(diagram) == "<PowerDiagram: 3 keys in 3-d, unbiased, 3 cells with interior>"
    for array in (diagram.slopes, diagram.offsets, diagram.nonempty, diagram.witnesses):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert "witness_2" in diagram._repr_html_()


def test_certificates_are_refused_for_full_cells_and_strangers():
    diagram = hm.attention_diagram([[0.0], [1.0], [2.0]])
    with pytest.raises(errors.InvalidInputError, match="key 0 wins"):
        diagram.empty_certificate(0)
    with pytest.raises(errors.InvalidInputError, match="from 0 to 2"):
        diagram.empty_certificate(3)
    assert diagram.empty_certificate(1) is diagram.empty_certificate(-2)
    assert "key 1" in repr(diagram.empty_certificate(1))


def test_a_forged_certificate_is_not_verified():
    from hardmax.geometry.diagrams.interiors import EmptinessCertificate

    scores = Scores.of_keys([[0, 0], [4, 0], [0, 4], [1, 1], [5, 5]])
    genuine = EmptinessCertificate(3, scores, (0, 1, 2))
    assert genuine.verify()
    forged = EmptinessCertificate(3, scores, (0, 1, 2))
    forged.__dict__["_exact"] = (np.array([0, 1, 2]), (Fraction(1, 2), Fraction(1, 2), Fraction(0)))
    assert not forged.verify()
    with pytest.raises(errors.CertificateError):
        EmptinessCertificate(3, scores, (0, 1, 4)).weights  # noqa: B018


def test_vertices_beyond_float64_are_at_infinity() -> None:
    keys = [[1.0, -1.0], [1.0, -1.0], [2.0, 2e-318], [-5e-319, -2.0]]
    diagram = hm.attention_diagram(keys, [-2.0, 1.0, -1.0, 1.0])
    assert np.isinf(diagram.vertices()).any()
    assert len(diagram.facets()) == len(diagram.adjacency())
