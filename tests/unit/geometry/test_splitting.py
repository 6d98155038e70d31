"""The splitting kernel: certified floats against rationals, Qhull and closed forms."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, Delaunay

from hardmax import Box, Polytope, WholeSpace
from hardmax.errors import DimensionMismatchError, EmptyDomainError, InvalidInputError
from hardmax.geometry.cones import splitting
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.ray_kernels import choose, cross
from hardmax.geometry.cones.splitting import refine
from hardmax.geometry.scores import Scores


def random_family(rng, kind, n_keys, d, biased):
    """Keys that are generic, on a small grid, collinear, multiples of 0.1 (long in binary) or in thirds."""
    if kind == "generic":
        keys = rng.standard_normal((n_keys, d))
    elif kind == "grid":
        keys = rng.integers(-2, 3, (n_keys, d)).astype(float)
    elif kind == "line":
        keys = rng.integers(-3, 4, (n_keys, 1)) * rng.integers(-2, 3, (1, d)).astype(float)
    elif kind == "tenths":
        keys = rng.integers(-3, 4, (n_keys, d)) * 0.1
    else:
        thirds = rng.integers(-3, 4, (n_keys, d)).tolist()
        keys = np.array([[Fraction(v, 3) for v in row] for row in thirds], dtype=object)
    biases = None
    if biased:
        biases = rng.standard_normal(n_keys) if kind == "generic" else rng.integers(-2, 3, n_keys)
    return Scores.of_keys(keys, biases)


@pytest.mark.parametrize("kind", ["generic", "grid", "line", "tenths", "thirds"])
@pytest.mark.parametrize("seed", range(12))
def test_certified_floats_and_rationals_give_the_same_cells(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    for _ in range(4):
        d, heads = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        biased, boxed = bool(rng.random() < 0.5), bool(rng.random() < 0.4)
        families = [random_family(rng, kind, int(rng.integers(1, 7)), d, biased) for _ in range(heads)]
        domain = Box.cube(d, -1, Fraction(4, 3)) if boxed else None
        certified, exact = refine(families, domain), refine(families, domain, arithmetic="exact")
        assert certified.choices.tolist() == exact.choices.tolist()


@given(st.data())
def test_every_point_lies_in_exactly_one_listed_cell(data):
    """Witness points drawn at random are routed to a tuple that is listed."""
    d = data.draw(st.integers(1, 3))
    heads = data.draw(st.integers(1, 3))
    seed = data.draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    families = [random_family(rng, "generic", int(rng.integers(1, 8)), d, True) for _ in range(heads)]
    listed = {tuple(row) for row in refine(families).choices.tolist()}
    points = rng.standard_normal((200, d)) * 3
    routed = {tuple(int(np.argmax(f.slopes @ x + f.offsets)) for f in families) for x in points}
    assert routed <= listed


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(("n", "d"), [(300, 2), (2000, 2), (300, 3), (1200, 3), (260, 4)])
def test_many_keys_agree_with_qhull(n, d, lists, monkeypatch):
    """Once with candidate lists of neighbours, once with all pairs."""
    monkeypatch.setattr(splitting, "_COMPARE_ALL", {})
    monkeypatch.setattr(splitting, "_COMPARE_ALL_BEYOND", 100 if lists else 10**6)
    points = np.random.default_rng(n + d).standard_normal((n, d))
    assert refine([Scores.of_keys(points)]).choices[:, 0].tolist() == sorted(
        ConvexHull(points).vertices.tolist()
    )
    voronoi = refine([Scores.of_sites(points)])
    assert voronoi.n_cells == n
    if d == 2:
        triangles = Delaunay(points).simplices
        edges = {tuple(sorted(map(int, pair))) for t in triangles for pair in combinations(t, 2)}
        assert {tuple(pair) for pair in voronoi.adjacency().tolist()} == edges


@pytest.mark.parametrize("kind", ["generic", "grid", "tenths"])
@pytest.mark.parametrize("seed", range(10))
def test_candidate_lists_change_nothing(kind, seed, monkeypatch):
    """Short lists of possible neighbours, certified floats, against all pairs in rationals."""
    rng = np.random.default_rng([seed, len(kind), 7])
    monkeypatch.setattr(splitting, "_COMPARE_ALL", {})
    for _ in range(4):
        d = int(rng.integers(1, 4))
        families = [random_family(rng, kind, int(rng.integers(6, 40)), d, bool(rng.random() < 0.5))]
        if rng.random() < 0.5:
            families.append(random_family(rng, "grid", 8, d, False))
        monkeypatch.setattr(splitting, "_COMPARE_ALL_BEYOND", 5)
        listed = refine(families)
        monkeypatch.setattr(splitting, "_COMPARE_ALL_BEYOND", 10**6)
        assert listed.choices.tolist() == refine(families, arithmetic="exact").choices.tolist()


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(("n", "d"), [(3, 4), (9, 2), (5, 3)])
def test_grids_of_sites(n, d, lists, monkeypatch):
    """Every Voronoi cell of a grid is a box; 2^d cells meet in each inner corner."""
    monkeypatch.setattr(splitting, "_COMPARE_ALL", {})
    monkeypatch.setattr(splitting, "_COMPARE_ALL_BEYOND", 20 if lists else 10**6)
    sites = np.array(list(product(range(n), repeat=d)))
    cells = refine([Scores.of_sites(sites)], Box.cube(d, Fraction(-1, 2), n - Fraction(1, 2)))
    assert cells.n_cells == n**d
    assert cells.n_decided_exactly == 0  # small integers are exact in floats
    assert len(cells.adjacency()) == d * (n - 1) * n ** (d - 1)
    for i in range(cells.n_cells):
        corners = {tuple(corner) for corner in cells.vertices(i).tolist()}
        assert corners == set(product(*((float(v) - 0.5, float(v) + 0.5) for v in sites[i])))


@pytest.mark.parametrize("n", [70, 200, 700])
def test_a_cell_with_more_than_64_facets(n):
    """One key in the middle of a ring: its cell is an n-gon, more than fits into one machine word."""
    angles = 2 * np.pi * np.arange(n) / n
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    cells = refine([Scores.of_sites(np.concatenate([[[0.0, 0.0]], 4 * ring]))])
    assert cells.n_cells == n + 1
    assert sorted(key for _, key in cells.facets(0)) == list(range(1, n + 1))
    assert len(cells.vertices(0)) == n
    assert np.allclose(np.linalg.norm(cells.vertices(0), axis=1), 2 / np.cos(np.pi / n))


@pytest.mark.parametrize("d", [2, 3, 4])
def test_arrangements_in_general_position_have_zaslavskys_number_of_cells(d):
    """Heads with two keys are hyperplanes; n of them in general position leave sum_{j <= d} C(n, j) cells."""
    n = {2: 12, 3: 8, 4: 7}[d]
    rng = np.random.default_rng(d)
    normals, offsets = rng.standard_normal((n, d)), rng.standard_normal(n)
    planes = [Scores.of_keys([np.zeros(d), a], [0.0, b]) for a, b in zip(normals, offsets, strict=True)]
    assert refine(planes).n_cells == sum(comb(n, j) for j in range(d + 1))
    central = [Scores.of_keys(f.slopes) for f in planes]
    assert refine(central).n_cells == 2 * sum(comb(n - 1, j) for j in range(d))


@pytest.mark.parametrize("d", [2, 3])
def test_a_grid_of_walls(d):
    """Walls x_i = 1, 2, 3 cut the cube into 4^d boxes whose corners lie on more than d facets."""
    families = [Scores.of_keys(np.outer(np.arange(4), np.eye(d)[i]), [0, -1, -3, -6]) for i in range(d)]
    cells = refine(families, Box.cube(d, 0, 4))
    assert cells.n_cells == 4**d
    for i in range(cells.n_cells):
        corners = cells.vertices(i)
        assert len(corners) == 2**d
        assert np.allclose(corners.max(axis=0) - corners.min(axis=0), 1)
    assert refine(families).n_cells == 4**d


def test_areas_of_clipped_cells_add_up():
    sites = np.random.default_rng(5).uniform(-1, 1, (40, 2))
    cells = refine([Scores.of_sites(sites)], Box.cube(2, -1, 1))
    areas = [ConvexHull(cells.vertices(i)).volume for i in range(cells.n_cells)]
    assert sum(areas) == pytest.approx(4.0, rel=1e-12)


def test_a_cell_thinner_than_float_resolution_has_a_rational_witness():
    """A wall squeezed between two others less than one float apart."""
    families = [
        Scores.of_keys([[0], [1]], [0, Fraction(1, 3)]),
        Scores.of_keys([[0], [1]], [0, 1 / 3]),
    ]
    cells = refine(families)
    assert cells.n_cells == 3
    (row, point), *rest = cells.exact_witnesses.items()
    assert not rest
    assert min(-Fraction(1 / 3), -Fraction(1, 3)) < point[0] < max(-Fraction(1 / 3), -Fraction(1, 3))
    assert cells.choices[row].tolist() in ([0, 1], [1, 0])


def test_unused_directions_become_lines():
    keys = np.array([[1.0, 0.0, 1.0], [-1.0, 0.0, -1.0], [0.5, 0.0, 0.5]])
    cells = refine([Scores.of_keys(keys)])
    assert cells.choices[:, 0].tolist() == [0, 1]
    lines = cells.lines()
    assert lines.shape == (2, 3)
    assert np.allclose((keys - keys[0]) @ lines.T, 0)


def test_polytopes_and_unbounded_domains():
    square = Scores.of_keys([[1, 0], [-1, 0], [0, 1], [0, -1]])
    quadrant = Polytope([[-1, 0], [0, -1]], [0, 0])
    assert refine([square], quadrant).choices[:, 0].tolist() == [0, 2]
    triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [-1, -1, Fraction(9, 4)])
    assert refine([square], triangle).n_cells == 2


def test_empty_domains_are_refused():
    scores = Scores.of_keys([[1, 0], [-1, 0]])
    with pytest.raises(EmptyDomainError, match="interior"):
        refine([scores], Polytope([[1, 0], [-1, 0]], [0, 0]))
    with pytest.raises(EmptyDomainError, match="low must be below high"):
        Box([0, 0], [1, 0])
    with pytest.raises(EmptyDomainError, match="zero"):
        refine([scores], Polytope([[0, 0]], [1]))


def test_bad_arguments_name_themselves():
    scores = Scores.of_keys([[1, 0], [-1, 0]])
    with pytest.raises(InvalidInputError, match="families"):
        refine([])
    with pytest.raises(InvalidInputError, match="arithmetic"):
        refine([scores], arithmetic="fast")
    with pytest.raises(DimensionMismatchError, match="domain"):
        refine([scores], WholeSpace(3))
    with pytest.raises(DimensionMismatchError, match="dimensions 2 and 1"):
        refine([scores, Scores.of_keys([[1], [2]])])


def test_a_cube_is_the_intersection_of_its_half_spaces():
    cone = RationalCone(4)
    for i in range(3):
        for sign in (1, -1):
            row = [0, 0, 0, 1]
            row[i] = sign
            cone.cut(row, (0, 2 * i + (sign > 0)))
    assert sorted(tuple(ray) for ray in cone.rays) == sorted(
        (x, y, z, 1) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)
    )
    assert all(mask.bit_count() == 3 for mask in cone.masks)


@pytest.mark.parametrize(("angle", "found"), [(1e-3, 2), (1e-7, 2), (1e-11, 2), (1e-14, 1), (0.0, 1)])
def test_facets_count_as_independent_while_their_cross_product_is_known(angle, found):
    """A square of 1e-24 is a residual of 1e-12; 1e-7 has a cross product with eight digits."""
    rows = np.array([[0.5, 0.25, 0.125], [0.5, 0.25 + angle, 0.125], [0.25, 0.125, 0.0625]])
    pick, residual = np.zeros(3, dtype=np.int64), np.zeros((3, 3))
    assert choose(3, 2, np.arange(3), 3, rows, pick, residual) == found
    if found == 2:
        ray = np.zeros((1, 3))
        cross.py_func(3, rows, pick, ray, 0, np.zeros(8))
        exact = np.cross(*(np.array([Fraction(v) for v in rows[i]], dtype=object) for i in pick[:2]))
        largest = max(abs(v) for v in exact)
        assert max(abs(Fraction(a) - b) for a, b in zip(ray[0], exact, strict=True)) < 2e-15 / angle * largest


def test_dependent_facets_are_not_chosen():
    """Rounding leaves residuals of about 1e-16, far below the cutoff."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        two = rng.standard_normal((2, 5))
        rows = rng.standard_normal((9, 2)) @ two
        rows /= np.abs(rows).sum(axis=1, keepdims=True)
        pick, residual = np.zeros(5, dtype=np.int64), np.zeros((9, 5))
        assert choose(5, 4, np.arange(9), 9, rows, pick, residual) == 2
