"""Power diagrams against Qhull lifting, exact programs, HiGHS, Delaunay, half-space intersection and NNLS.

Every witness and every emptiness certificate of a tested diagram is re-checked in rationals by code that
shares nothing with the library.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, Delaunay, cKDTree

import hardmax as hm
from hardmax import errors
from oracles.certificates import cleared, emptiness_problems, lift_keys, lift_sites, win_problems
from oracles.diagrams import (
    EnvelopeProgram,
    clipped_area,
    distance_to_hull,
    hull_edges,
    qhull_winners,
    shoelace,
    upper_hull_edges,
)
from oracles.instances import FAMILIES, instance
from oracles.judging import reference
from oracles.minkowski_bruteforce import cell_interior


def certify(diagram, head, *, certificates=None):
    """Every witness proves its win, every emptiness certificate its emptiness; ties win together."""
    n_keys, d = len(head), len(head[0]) - 1
    assert diagram.nonempty.shape == (n_keys,)
    assert diagram.nonempty.dtype == bool
    assert diagram.witnesses.shape == (n_keys, d)
    exact_witnesses = getattr(diagram, "exact_witnesses", {})
    integers = cleared(head)
    for j in range(n_keys):
        if diagram.nonempty[j]:
            witness = exact_witnesses.get(j, diagram.witnesses[j])
            assert win_problems(head, j, witness, integers) == []
        else:
            assert np.isnan(diagram.witnesses[j]).all()
    empty = np.flatnonzero(~diagram.nonempty)
    for j in empty if certificates is None else empty[:certificates]:
        certificate = diagram.empty_certificate(int(j))
        assert emptiness_problems(head, int(j), certificate.support, certificate.weights) == []
    first = {}
    for j, key in enumerate(head):
        assert diagram.nonempty[j] == diagram.nonempty[first.setdefault(key, j)]


def winners(diagram, head) -> set[int]:
    return {j for j in np.flatnonzero(diagram.nonempty).tolist() if head.index(head[j]) == j}


def pairs(adjacency) -> set[tuple[int, int]]:
    rows = np.asarray(adjacency)
    assert rows.ndim == 2
    assert rows.shape[1] == 2
    found = {tuple(sorted(row)) for row in rows.tolist()}
    assert len(found) == len(rows)
    return found


# ----------------------------------------------------------------------------------------------
# Which cells have interior
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n_keys", [1, 2, 5, 12, 60])
def test_nonempty_against_qhull_lifting(d, n_keys):
    rng = np.random.default_rng([d, n_keys])
    keys = rng.standard_normal((n_keys, d))
    head = lift_keys(keys)
    diagram = hm.attention_diagram(keys)
    assert winners(diagram, head) == qhull_winners(head)
    certify(diagram, head)

    biases = 0.4 * rng.standard_normal(n_keys)
    head = lift_keys(keys, biases)
    diagram = hm.attention_diagram(keys, biases)
    assert winners(diagram, head) == qhull_winners(head)
    certify(diagram, head)

    weights = 0.4 * rng.standard_normal(n_keys)
    head = lift_sites(keys, weights)
    diagram = hm.power_diagram(keys, weights)
    assert winners(diagram, head) == qhull_winners(head)
    certify(diagram, head)

    diagram = hm.power_diagram(keys)
    assert diagram.nonempty.all()  # Voronoi cells of distinct sites
    certify(diagram, lift_sites(keys))


@st.composite
def small_diagrams(draw):
    d = draw(st.integers(1, 4))
    n_keys = draw(st.integers(1, 9))
    number = st.one_of(
        st.integers(-2, 2), st.integers(-2, 2), st.sampled_from([Fraction(1, 3), Fraction(-3, 7), 0.1])
    )
    keys = np.array([[draw(number) for _ in range(d)] for _ in range(n_keys)], dtype=object).reshape(
        n_keys, d
    )
    offsets = np.array([draw(number) for _ in range(n_keys)], dtype=object)
    return keys, offsets, draw(st.sampled_from(["unbiased", "biased", "sites", "Voronoi"]))


@settings(deadline=None, max_examples=150)
@given(small_diagrams())
def test_drawn_diagrams_against_exact_programs(drawn):
    """Every key of small degenerate diagrams against one exact linear program of its own."""
    keys, offsets, kind = drawn
    if kind == "unbiased":
        diagram, head = hm.attention_diagram(keys), lift_keys(keys)
    elif kind == "biased":
        diagram, head = hm.attention_diagram(keys, offsets), lift_keys(keys, offsets)
    elif kind == "sites":
        diagram, head = hm.power_diagram(keys, offsets), lift_sites(keys, offsets)
    else:
        diagram, head = hm.power_diagram(keys), lift_sites(keys)
    certify(diagram, head)
    for j in range(len(head)):
        assert diagram.nonempty[j] == (cell_interior([head], (j,)) is not None)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_against_exact_oracles(family):
    """All keys of a Minkowski instance as one diagram: degenerate, nearly so, badly scaled; d = 1 to 8."""
    first = list(FAMILIES).index(family)
    for number in range(first, first + 16 * len(FAMILIES), len(FAMILIES)):
        case = instance(20_000 + number, tuples=200, dimensions=(1, 2, 3, 4, 5, 6, 7, 8))
        keys = np.concatenate([np.asarray(points, dtype=object) for points in case.point_sets])
        offsets = None
        if case.biases is not None:
            offsets = np.concatenate([np.asarray(biases, dtype=object) for biases in case.biases])
        for diagram, head in [
            (hm.attention_diagram(keys, offsets), lift_keys(keys, offsets)),
            (hm.power_diagram(keys, offsets), lift_sites(keys, offsets)),
        ]:
            certify(diagram, head)
            expected = reference([head])
            if expected is not None:
                assert {(j,) for j in winners(diagram, head)} == set(expected.values()), case


def test_query_maps():
    """Scores k . (W x + c) + b: the diagram of keys W^T k with offsets k . c + b, kept exact."""
    rng = np.random.default_rng(11)
    for d_head, d, n_keys, rank in [(2, 3, 12, 2), (4, 2, 15, 2), (3, 3, 20, 1), (5, 4, 25, 2), (2, 2, 6, 0)]:
        keys = rng.standard_normal((n_keys, d_head))
        matrix = rng.integers(-2, 3, size=(d_head, rank)) @ rng.integers(-2, 3, size=(rank, d)) + 0.0
        shift, biases = rng.standard_normal(d_head), rng.standard_normal(n_keys)
        for b_q, b in [(None, None), (shift, None), (shift, biases), (None, biases)]:
            diagram = hm.attention_diagram(keys, b, query_map=(matrix, b_q))
            head = lift_keys(keys, b, (matrix, b_q))
            certify(diagram, head)
            for j in range(n_keys):
                assert diagram.nonempty[j] == (cell_interior([head], (j,)) is not None)


def test_query_map_that_makes_keys_equal():
    """A projection makes (0,1) and (0,2) the same key: they tie on all of space and win together."""
    diagram = hm.attention_diagram([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0]], query_map=([[1.0], [0.0]], None))
    assert diagram.nonempty.tolist() == [True, True, True]
    assert diagram.locate([[-1.0], [1.0]]).tolist() == [0, 2]


def test_64_dimensions_with_exact_combinations():
    """40 integer keys and 20 dyadic combinations of them, unbiased and biased, against HiGHS."""
    rng = np.random.default_rng(64)
    corners = rng.integers(-9, 10, size=(40, 64)).astype(float)
    weights = np.zeros((20, 40))
    for row in weights:
        row[rng.choice(40, size=4, replace=False)] = (
            [0.25, 0.25, 0.25, 0.25] if rng.random() < 0.5 else [0.5, 0.25, 0.125, 0.125]
        )
    keys = np.vstack([corners, weights @ corners])
    order = rng.permutation(60)
    keys = keys[order]
    diagram = hm.attention_diagram(keys)
    program = EnvelopeProgram(np.column_stack([keys, np.zeros(60)]))
    assert diagram.nonempty.tolist() == [program.nonempty(j) for j in range(60)]
    assert diagram.nonempty.sum() == 40
    certify(diagram, lift_keys(keys))

    heights = rng.integers(-4, 5, size=40).astype(float)
    shift = rng.choice([-1.0, 0.0, 1.0], size=20)  # below the combination, on it, above it
    biases = np.concatenate([heights, weights @ heights + shift])[order]
    diagram = hm.attention_diagram(keys, biases)
    expected = np.concatenate([np.ones(40, bool), shift > 0])[order]
    assert diagram.nonempty.tolist() == expected.tolist()
    program = EnvelopeProgram(np.column_stack([keys, biases]))
    assert diagram.nonempty.tolist() == [program.nonempty(j) for j in range(60)]
    certify(diagram, lift_keys(keys, biases))


@pytest.mark.parametrize(("n_keys", "d"), [(60, 64), (150, 24), (150, 12), (90, 8)])
def test_radial_keys_against_highs(n_keys, d):
    rng = np.random.default_rng([n_keys, d])
    keys = rng.standard_normal((n_keys, d)) * rng.uniform(size=(n_keys, 1))
    for biases in (None, 0.3 * rng.standard_normal(n_keys)):
        diagram = hm.attention_diagram(keys, biases)
        program = EnvelopeProgram(np.column_stack([keys, np.zeros(n_keys) if biases is None else biases]))
        assert diagram.nonempty.tolist() == [program.nonempty(j) for j in range(n_keys)]
        certify(diagram, lift_keys(keys, biases), certificates=12)


def test_512_radial_keys_in_64_dimensions():
    """448 full and 64 empty cells, as HiGHS found too; every proof is re-checked in rationals."""
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((512, 64)) * rng.uniform(size=(512, 1))
    diagram = hm.attention_diagram(keys)
    assert int(diagram.nonempty.sum()) == 448
    certify(diagram, lift_keys(keys))


def test_lower_dimensional_keys_in_high_dimension():
    """Integer keys of rank 3 in 30-d: their hull is three-dimensional and most of a grid lies inside it."""
    rng = np.random.default_rng(30)
    grid = rng.integers(-2, 3, size=(80, 3))
    keys = (grid @ rng.integers(-3, 4, size=(3, 30))).astype(float)
    head = lift_keys(keys)
    diagram = hm.attention_diagram(keys)
    certify(diagram, head)
    assert winners(diagram, head) == {j for j in qhull_winners(lift_keys(grid)) if head.index(head[j]) == j}


# ----------------------------------------------------------------------------------------------
# Degenerate diagrams
# ----------------------------------------------------------------------------------------------


def grid_sites(side, d):
    return np.stack(np.meshgrid(*[np.arange(side)] * d, indexing="ij"), axis=-1).reshape(-1, d).astype(float)


@pytest.mark.parametrize(("side", "d"), [(7, 1), (6, 2), (4, 3)])
def test_voronoi_of_a_grid(side, d):
    """Every site has its cube; neighbours differ by one in one coordinate, corners do not count."""
    sites = grid_sites(side, d)
    diagram = hm.power_diagram(sites)
    assert diagram.nonempty.all()
    certify(diagram, lift_sites(sites))
    distance = np.abs(sites[:, None] - sites[None]).sum(axis=2)
    assert pairs(diagram.adjacency()) == {
        tuple(pair) for pair in np.argwhere(np.triu(distance == 1)).tolist()
    }
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, side, size=(2000, d))
    expected = np.ravel_multi_index(np.clip(np.rint(points), 0, side - 1).astype(int).T, (side,) * d)
    np.testing.assert_array_equal(diagram.locate(points), expected)


def test_unbiased_grid_has_the_corners_only():
    keys = grid_sites(5, 3)
    diagram = hm.attention_diagram(keys)
    corner = np.isin(keys, [0.0, 4.0]).all(axis=1)
    np.testing.assert_array_equal(diagram.nonempty, corner)
    certify(diagram, lift_keys(keys))
    sides = np.abs(keys[:, None] - keys[None]).sum(axis=2) == 4
    edges = np.argwhere(np.triu(sides & corner[:, None] & corner[None])).tolist()
    assert pairs(diagram.adjacency()) == {tuple(pair) for pair in edges}


def test_collinear_sites():
    sites = np.array([[float(t), 2.0 * t + 1] for t in (3, 0, 7, 1, 4)])
    diagram = hm.power_diagram(sites)
    certify(diagram, lift_sites(sites))
    assert diagram.nonempty.all()
    assert pairs(diagram.adjacency()) == {(1, 3), (0, 3), (0, 4), (2, 4)}
    unbiased = hm.attention_diagram(sites)
    assert unbiased.nonempty.tolist() == [False, True, True, False, False]
    certify(unbiased, lift_keys(sites))
    assert pairs(unbiased.adjacency()) == {(1, 2)}


def test_duplicates_win_together():
    keys = np.array(
        [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0], [4.0, 0.0], [1.0, 1.0], [0.0, -0.0], [-0.0, 4.0]]
    )
    diagram = hm.attention_diagram(keys)
    assert diagram.nonempty.tolist() == [True, True, True, False, True, False, True, True]
    certify(diagram, lift_keys(keys))
    assert diagram.locate([[1.0, 0.0], [-1.0, -1.0], [-1.0, 5.0]]).tolist() == [1, 0, 2]
    twice = hm.power_diagram(np.zeros((3, 2)), [1.0, 2.0, 2.0])
    assert twice.nonempty.tolist() == [False, True, True]
    certify(twice, lift_sites(np.zeros((3, 2)), [1, 2, 2]))


def test_all_keys_identical():
    diagram = hm.attention_diagram(np.ones((5, 3)))
    assert diagram.nonempty.all()
    certify(diagram, lift_keys(np.ones((5, 3))))
    assert diagram.locate(np.random.default_rng(0).standard_normal((4, 3))).tolist() == [0, 0, 0, 0]


def test_a_site_exactly_on_the_envelope_is_empty():
    """The weight at which a cell disappears: a hair more and it is there, a hair less and it is gone."""
    sites = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]
    for weight, expected in [
        (-2, False),
        (Fraction(-2) + Fraction(1, 10**30), True),
        (Fraction(-2) - Fraction(1, 10**30), False),
    ]:
        weights = [Fraction(0)] * 4 + [Fraction(weight)]
        diagram = hm.power_diagram(sites, weights)
        assert bool(diagram.nonempty[4]) is expected
        certify(diagram, lift_sites(sites, weights))


def test_keys_of_equal_norm_give_voronoi():
    """Remark IV.6: all keys (3,4,0), (0,5,0), ... have norm 5, so attention routes to the nearest key."""
    keys = np.array(
        [[3, 4, 0], [4, 3, 0], [0, 5, 0], [0, 0, 5], [-3, 0, 4], [0, -4, -3], [-5, 0, 0], [0, 3, -4]], float
    )
    diagram, voronoi = hm.attention_diagram(keys), hm.power_diagram(keys)
    assert diagram.nonempty.all()
    assert voronoi.nonempty.all()
    certify(diagram, lift_keys(keys))
    assert pairs(diagram.adjacency()) == pairs(voronoi.adjacency())
    points = np.random.default_rng(0).standard_normal((5000, 3))
    nearest = np.linalg.norm(points[:, None] - keys[None], axis=2).argmin(axis=1)
    np.testing.assert_array_equal(diagram.locate(points), nearest)
    np.testing.assert_array_equal(voronoi.locate(points), nearest)


def test_theorem_iv_3():
    """Unbiased keys are the power diagram with sites k_j and weights |k_j|^2."""
    rng = np.random.default_rng(4)
    keys = rng.integers(-4, 5, size=(12, 3)).astype(float)
    attention, power = hm.attention_diagram(keys), hm.power_diagram(keys, (keys**2).sum(axis=1))
    np.testing.assert_array_equal(attention.nonempty, power.nonempty)
    assert pairs(attention.adjacency()) == pairs(power.adjacency())
    points = rng.integers(-3, 4, size=(500, 3)).astype(float)
    np.testing.assert_array_equal(attention.locate(points), power.locate(points))


EXTREME = {
    "a kernel must not divide by what has underflowed": (
        [[0.35283617272523293], [5.100770646852467e-72], [7.049907053429368e34]],
        [3.761105404253049e-34, -6.443361160911744e-53, 2.5418797986439087e22],
    ),
    "sites near zero beside sites far away": (
        [
            [1.564777656964779e-09],
            [-1001570470.211636],
            [587562565.8738817],
            [3.171352136124457e-09],
            [-967059.7191221485],
        ],
        None,
    ),
    "products beyond the float range": ([[3.9e174], [1.05e-22]], [-3.4e212, -1.4e-294]),
    "a bias that dwarfs every key": ([[0.0], [-2.61e-54]], [-1.3e285, -4.4e-281]),
    "three sizes that do not meet": (
        [[-128.0], [1.9892929456391466e87], [1.8827498946116282e-183]],
        [2.3497242605489167e298, -1.0234018318861174e202, 5.373851200424936e-54],
    ),
    "tiny keys": ([[-1.1e-38], [5.9e-67]], [-1.6e51, -7.2e148]),
    "subnormal keys": ([[5e-324, 0.0], [0.0, 5e-324], [0.0, 0.0], [-5e-324, -5e-324]], None),
}


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_scales_are_right_or_refused(name):
    keys, offsets = EXTREME[name]
    for make, lift in [(hm.attention_diagram, lift_keys), (hm.power_diagram, lift_sites)]:
        head = lift(keys, offsets)
        try:
            diagram = make(keys, offsets)
            nonempty = diagram.nonempty.tolist()
        except errors.NotFiniteError:
            continue
        assert nonempty == [cell_interior([head], (j,)) is not None for j in range(len(head))]
        certify(diagram, head)


@pytest.mark.parametrize("n_keys", [1, 2])
def test_one_and_two_keys(n_keys):
    keys = np.array([[1.0, 2.0], [0.0, 5.0]])[:n_keys]
    for diagram, head in [
        (hm.attention_diagram(keys), lift_keys(keys)),
        (hm.power_diagram(keys), lift_sites(keys)),
    ]:
        assert diagram.nonempty.all()
        certify(diagram, head)
        assert pairs(diagram.adjacency()) == ({(0, 1)} if n_keys == 2 else set())


# ----------------------------------------------------------------------------------------------
# Adjacency
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "n_keys"), [(2, 5), (2, 80), (3, 30), (4, 14)])
def test_adjacency_of_voronoi_is_delaunay(d, n_keys):
    sites = np.random.default_rng([d, n_keys]).standard_normal((n_keys, d))
    expected = set()
    for simplex in Delaunay(sites).simplices:
        expected |= {tuple(sorted((int(i), int(j)))) for i in simplex for j in simplex if i < j}
    assert pairs(hm.power_diagram(sites).adjacency()) == expected


@pytest.mark.parametrize(("d", "n_keys"), [(2, 40), (3, 25), (4, 14)])
def test_adjacency_against_the_lifted_hull(d, n_keys):
    rng = np.random.default_rng([d, n_keys, 1])
    keys, biases = rng.standard_normal((n_keys, d)), 0.3 * rng.standard_normal(n_keys)
    assert pairs(hm.attention_diagram(keys, biases).adjacency()) == upper_hull_edges(
        np.column_stack([keys, biases])
    )
    assert pairs(hm.attention_diagram(keys).adjacency()) == hull_edges(keys)


# ----------------------------------------------------------------------------------------------
# Polygons in the plane
# ----------------------------------------------------------------------------------------------


def polygons_by_key(diagram, box):
    """Key -> (m, 2) corners, for every key that is drawn."""
    polygons = diagram.polygons(box)
    items = polygons.items() if hasattr(polygons, "items") else enumerate(polygons)
    return {int(j): np.asarray(corners) for j, corners in items if corners is not None and len(corners)}


@pytest.mark.parametrize("kind", ["gaussian", "integer", "biased", "unbiased", "fractions"])
def test_polygons_tile_the_box(kind):
    rng = np.random.default_rng(9)
    low, high = (-2.0, -1.0), (1.5, 2.0)
    box = hm.Box(low, high)
    sites = rng.standard_normal((25, 2))
    offsets = 0.3 * rng.standard_normal(25)
    if kind == "integer":
        sites = rng.integers(-2, 3, size=(25, 2)).astype(float)
    if kind == "fractions":
        sites = np.array(
            [[Fraction(int(v), 7) for v in row] for row in rng.integers(-9, 10, size=(25, 2))], dtype=object
        )
    if kind == "unbiased":
        diagram, head = hm.attention_diagram(sites), lift_keys(sites)
    elif kind == "biased":
        diagram, head = hm.attention_diagram(sites, offsets), lift_keys(sites, offsets)
    else:
        diagram, head = hm.power_diagram(sites), lift_sites(sites)
    polygons = polygons_by_key(diagram, box)
    lifted = np.array(head, dtype=float)
    first = [head.index(key) for key in head]
    total = 0.0
    for j in range(len(head)):
        area, corners = clipped_area(lifted, j, low, high) if diagram.nonempty[j] else (0.0, np.empty((0, 2)))
        ours = polygons.get(j, polygons.get(first[j]))
        if area == 0:
            assert ours is None or abs(float(shoelace(ours.tolist()))) < 1e-9
            continue
        assert float(shoelace(ours.tolist())) == pytest.approx(area, rel=1e-9)
        assert len(ours) == len(corners)
        gaps = np.linalg.norm(ours.astype(float)[:, None] - corners[None], axis=2)
        assert gaps.min(axis=1).max() < 1e-9
        assert gaps.min(axis=0).max() < 1e-9
        if first[j] == j:
            total += float(shoelace(ours.tolist()))
    assert total == pytest.approx(3.5 * 3.0, rel=1e-12)


def test_polygons_of_a_grid_are_unit_squares():
    sites = grid_sites(3, 2)
    polygons = polygons_by_key(hm.power_diagram(sites), hm.Box([-0.5, -0.5], [2.5, 2.5]))
    assert sorted(polygons) == list(range(9))
    for j, polygon in polygons.items():
        expected = {
            tuple(sites[j] + corner) for corner in ([-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5])
        }
        assert {tuple(corner) for corner in polygon.tolist()} == expected
        assert shoelace(polygon.tolist()) == 1


def test_polygons_need_the_plane():
    with pytest.raises(errors.HardmaxError):
        hm.power_diagram(np.eye(3)).polygons(hm.Box.cube(3, -1, 1))
    with pytest.raises(errors.HardmaxError):
        hm.power_diagram(np.eye(2)).polygons(hm.Box.cube(3, -1, 1))


# ----------------------------------------------------------------------------------------------
# Point location
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_keys", "d"), [(1, 1), (7, 1), (40, 2), (300, 3), (100, 16), (512, 64)])
def test_locate_is_argmax(n_keys, d):
    rng = np.random.default_rng([n_keys, d])
    keys, biases = rng.standard_normal((n_keys, d)), rng.standard_normal(n_keys)
    points = 3 * rng.standard_normal((20_001, d))
    np.testing.assert_array_equal(hm.attention_diagram(keys).locate(points), (points @ keys.T).argmax(axis=1))
    expected = (points @ keys.T + biases).argmax(axis=1)
    np.testing.assert_array_equal(hm.attention_diagram(keys, biases).locate(points), expected)
    distances = (points**2).sum(axis=1)[:, None] - 2 * points @ keys.T + (keys**2).sum(axis=1) - biases
    np.testing.assert_array_equal(hm.power_diagram(keys, biases).locate(points), distances.argmin(axis=1))


def test_locate_on_walls_takes_the_lowest_index():
    diagram = hm.attention_diagram([[1, 0], [0, 1], [-1, 0], [0, -1]])
    assert diagram.locate([[1, 1], [-1, 1], [0, 0], [-1, -1], [1, -1]]).tolist() == [0, 1, 0, 2, 0]


def test_locate_takes_points_as_they_are():
    """1/3 lies on the wall between 2/3 and 0; the float next to it does not."""
    diagram = hm.power_diagram([[Fraction(2, 3)], [Fraction(0)]])
    assert diagram.locate([[Fraction(1, 3)]]).tolist() == [0]
    assert diagram.locate([[1 / 3]]).tolist() == [1]
    hair = Fraction(1, 10**40)
    assert diagram.locate([[Fraction(1, 3) - hair], [Fraction(1, 3) + hair]]).tolist() == [1, 0]


def test_locate_agrees_with_witnesses():
    rng = np.random.default_rng(8)
    keys = rng.integers(-3, 4, size=(60, 3)).astype(float)
    biases = rng.integers(-3, 4, size=60).astype(float)
    head = lift_keys(keys, biases)
    diagram = hm.attention_diagram(keys, biases)
    full = np.flatnonzero(diagram.nonempty)
    np.testing.assert_array_equal(
        diagram.locate(diagram.witnesses[full]), [head.index(head[j]) for j in full]
    )


def test_locate_of_no_points():
    located = hm.attention_diagram(np.eye(3)).locate(np.empty((0, 3)))
    assert located.shape == (0,)


# ----------------------------------------------------------------------------------------------
# MaxMargin
# ----------------------------------------------------------------------------------------------


def reach_values(diagram) -> np.ndarray:
    reach = diagram.max_margin()
    return np.asarray(getattr(reach, "values", reach), dtype=float)


@pytest.mark.parametrize(("n_keys", "d"), [(2, 1), (5, 2), (30, 2), (30, 3), (40, 10), (60, 64)])
def test_reach_is_the_distance_to_the_hull_of_the_others(n_keys, d):
    rng = np.random.default_rng([n_keys, d, 2])
    keys = rng.standard_normal((n_keys, d)) * rng.uniform(size=(n_keys, 1))
    reach = reach_values(hm.attention_diagram(keys))
    expected = [distance_to_hull(keys[j], np.delete(keys, j, axis=0)) for j in range(n_keys)]
    np.testing.assert_allclose(reach, expected, rtol=1e-7, atol=1e-8)


def test_reach_is_zero_exactly_for_empty_cells_and_copies():
    keys = np.array([[0, 0], [4, 0], [0, 4], [1, 1], [2, 2], [4, 0]], float)
    diagram = hm.attention_diagram(keys)
    reach = reach_values(diagram)
    expected = [distance_to_hull(keys[j], np.delete(keys, j, axis=0)) for j in range(6)]
    np.testing.assert_allclose(reach, expected, atol=1e-12)
    np.testing.assert_array_equal(reach[3:], [0.0, 0.0, 0.0])
    assert reach[1] == 0.0  # key 5 is its copy: no query tells them apart
    np.testing.assert_allclose(reach[0], np.sqrt(2.0))


def test_no_query_of_norm_one_has_a_larger_margin():
    rng = np.random.default_rng(6)
    keys = rng.standard_normal((12, 3))
    reach = reach_values(hm.attention_diagram(keys))
    queries = rng.standard_normal((100_000, 3))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    scores = queries @ keys.T
    ordered = np.sort(scores, axis=1)
    margins = ordered[:, -1] - ordered[:, -2]
    best = np.zeros(12)
    np.maximum.at(best, scores.argmax(axis=1), margins)
    assert (best <= reach + 1e-12).all()
    full = reach > 0.2
    assert (best[full] >= 0.9 * reach[full]).all()  # a hundred thousand directions on the sphere come close


def test_reach_of_a_biased_diagram_is_refused():
    keys = np.eye(3)
    with pytest.raises(errors.BiasedDiagramError):
        hm.attention_diagram(keys, [0.0, 1.0, 0.0]).max_margin()
    with pytest.raises(errors.BiasedDiagramError):
        hm.power_diagram(2 * keys, [0.0, 1.0, 0.0]).max_margin()


# ----------------------------------------------------------------------------------------------
# Bad input
# ----------------------------------------------------------------------------------------------

nan, inf = float("nan"), float("inf")
BAD = {
    "NaN key": (lambda: hm.attention_diagram([[0.0, nan]]), errors.NotFiniteError, "keys"),
    "infinite key": (lambda: hm.attention_diagram([[0.0, inf]]), errors.NotFiniteError, "keys"),
    "NaN bias": (lambda: hm.attention_diagram([[0.0, 1.0]], [nan]), errors.NotFiniteError, "biases"),
    "NaN site": (lambda: hm.power_diagram([[nan, 0.0]]), errors.NotFiniteError, "sites"),
    "infinite weight": (lambda: hm.power_diagram([[0.0, 0.0]], [inf]), errors.NotFiniteError, "weights"),
    "ragged keys": (lambda: hm.attention_diagram([[0.0, 1.0], [1.0]]), errors.InvalidInputError, "keys"),
    "no keys": (lambda: hm.attention_diagram(np.empty((0, 2))), errors.InvalidInputError, "keys"),
    "no sites": (lambda: hm.power_diagram([]), errors.InvalidInputError, "sites"),
    "no coordinates": (lambda: hm.power_diagram(np.empty((4, 0))), errors.InvalidInputError, "sites"),
    "one-dimensional list": (lambda: hm.power_diagram([1.0, 2.0]), errors.InvalidInputError, "sites"),
    "three-dimensional array": (
        lambda: hm.attention_diagram(np.zeros((2, 2, 2))),
        errors.InvalidInputError,
        "keys",
    ),
    "too few biases": (
        lambda: hm.attention_diagram(np.eye(3), [0.0]),
        errors.DimensionMismatchError,
        "biases",
    ),
    "too many weights": (
        lambda: hm.power_diagram(np.eye(2), [0.0] * 3),
        errors.DimensionMismatchError,
        "weights",
    ),
    "words": (lambda: hm.attention_diagram([["a", "b"]]), errors.InvalidInputError, "keys"),
    "query map of the wrong height": (
        lambda: hm.attention_diagram(np.eye(3), query_map=(np.eye(2), None)),
        errors.DimensionMismatchError,
        "W_Q",
    ),
    "query shift of the wrong length": (
        lambda: hm.attention_diagram(np.eye(3), query_map=(np.eye(3), [0.0])),
        errors.DimensionMismatchError,
        "b_Q",
    ),
    "points of the wrong dimension": (
        lambda: hm.attention_diagram(np.eye(3)).locate([[0.0, 1.0]]),
        errors.DimensionMismatchError,
        "points",
    ),
    "NaN point": (
        lambda: hm.attention_diagram(np.eye(2)).locate([[0.0, nan]]),
        errors.NotFiniteError,
        "points",
    ),
    "certificate of a key that is not there": (
        lambda: hm.attention_diagram([[0.0], [1.0], [2.0]]).empty_certificate(7),
        (errors.InvalidInputError, IndexError),
        "7",
    ),
    "certificate of a full cell": (
        lambda: hm.attention_diagram([[0.0], [1.0], [2.0]]).empty_certificate(0),
        errors.HardmaxError,
        "0",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, error, word = BAD[name]
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert word in message
    assert "\n" not in message


# ----------------------------------------------------------------------------------------------
# A million keys
# ----------------------------------------------------------------------------------------------


def test_a_million_unbiased_keys_in_the_plane():
    keys = np.random.default_rng(0).standard_normal((1_000_000, 2))
    diagram = hm.attention_diagram(keys)
    expected = np.zeros(len(keys), bool)
    expected[ConvexHull(keys).vertices] = True
    np.testing.assert_array_equal(diagram.nonempty, expected)
    head = lift_keys(keys[expected])
    for position, j in enumerate(np.flatnonzero(expected)):
        assert win_problems(head, position, diagram.witnesses[j]) == []
    for j in np.flatnonzero(~expected)[::100_000]:
        certificate = diagram.empty_certificate(int(j))
        rows = [int(j), *(int(i) for i in certificate.support)]
        assert emptiness_problems(lift_keys(keys[rows]), 0, range(1, len(rows)), certificate.weights) == []


def test_many_sites_in_the_plane():
    """``python tests/scripts/million_sites.py`` does the same with a million, in half a minute."""
    check_sites(150_000)


def check_sites(n_sites):
    """All sites have a cell; some witnesses are re-checked against their nearest sites, in rationals."""
    sites = np.random.default_rng(0).standard_normal((n_sites, 2))
    diagram = hm.power_diagram(sites)
    assert diagram.nonempty.all()
    rows = np.random.default_rng(1).choice(len(sites), size=200, replace=False)
    witnesses = diagram.witnesses[rows]
    for j, witness, near in zip(rows, witnesses, cKDTree(sites).query(witnesses, k=12)[1], strict=True):
        assert int(near[0]) == int(j)
        assert win_problems(lift_sites(sites[near]), 0, witness) == []
