"""Tropical polynomials and rational maps: exact laws, and geometry against linear programs and Qhull."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from hardmax import errors
from hardmax.exact.rationals import rational
from hardmax.geometry.domains import Box, Polytope, WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.results import load
from hardmax.tropical.hypersurfaces import Hypersurface, hypersurface
from hardmax.tropical.layers import log_lifted_head, relu_layer
from hardmax.tropical.polynomials import (
    CommonRefinement,
    TropicalPolynomial,
    TropicalProduct,
    TropicalRationalMap,
    common_refinement,
)

laws = settings(deadline=None, max_examples=40)


@st.composite
def polynomials(draw, d=None, max_terms=5):
    """Small polynomials of many kinds: integers with duplicates and ties, plain floats, fractions."""
    d = draw(st.integers(1, 3)) if d is None else d
    m = draw(st.integers(1, max_terms))
    number = draw(
        st.sampled_from(
            [
                st.integers(-2, 2),
                st.floats(-4, 4, allow_subnormal=False).map(lambda v: round(v, 3)),
                st.fractions(-2, 2, max_denominator=7),
            ]
        )
    )
    exponents = [[draw(number) for _ in range(d)] for _ in range(m)]
    coefficients = [draw(number) for _ in range(m)] if draw(st.booleans()) else None
    return TropicalPolynomial(exponents, coefficients)


@st.composite
def groups(draw, n, max_terms=4):
    d = draw(st.integers(1, 2))
    return [draw(polynomials(d=d, max_terms=max_terms)) for _ in range(n)]


def rows_of(p):
    """The exact terms as tuples of fractions."""
    rows = [p.scores.exact_row(j) for j in range(p.n_terms)]
    return [tuple(Fraction(int(v.p), int(v.q)) for v in row) for row in rows]


def exact_max(p, x):
    return max(sum(a * v for a, v in zip(row[:-1], x, strict=True)) + row[-1] for row in rows_of(p))


def rational_points(d, n=6, seed=0):
    rng = np.random.default_rng(seed)
    return [[Fraction(int(v), int(w)) for v, w in rng.integers(1, 30, (d, 2)) - [15, 0]] for _ in range(n)]


def essential_by_linear_programs(exponents, coefficients):
    """Term j wins on an open set when some x gives it a positive lead over all other terms."""
    points = np.column_stack([exponents, coefficients]).astype(float)
    winners = []
    for j, row in enumerate(points):
        if any(np.array_equal(row, other) for other in points[:j]):
            continue
        others = points[~(points == row).all(axis=1)]
        if not len(others):
            winners.append(j)
            continue
        lead = row - others
        a = np.column_stack([-lead[:, :-1], np.ones(len(lead))])  # t - lead . x <= lead_0
        d = points.shape[1] - 1
        result = linprog([0] * d + [-1], A_ub=a, b_ub=lead[:, -1], bounds=[(None, None)] * d + [(None, 1)])
        if result.status == 0 and result.x[-1] > 1e-7:
            winners.append(j)
    return winners


# Values -----------------------------------------------------------------------------------------------


@laws
@given(polynomials())
def test_values_and_active_terms_are_the_maximum(p):
    for x in rational_points(p.d):
        best = exact_max(p, x)
        assert p.exact_value(x) == best
        assert p(np.array(x, dtype=float)) == pytest.approx(float(best), abs=1e-12)
        scores = [sum(a * v for a, v in zip(row[:-1], x, strict=True)) + row[-1] for row in rows_of(p)]
        assert p.active_terms(x).tolist() == [j for j, score in enumerate(scores) if score == best]


def test_ties_below_the_rounding_are_decided():
    third = Fraction(1, 3)
    p = TropicalPolynomial([[1], [third], [0.1]], [0, 0, 0])
    assert p.active_terms([0.0]).tolist() == [0, 1, 2]
    q = TropicalPolynomial([[third], [float(third)]])  # they differ by 2e-17
    assert q.active_terms([1.0]).tolist() == [0 if third > Fraction(float(third)) else 1]
    # 1e-400 is 0.0 in float64, but a coordinate like any other
    tiny = TropicalPolynomial([[1e300], [0]], [0, 1e-200])
    assert tiny.active_terms([Fraction(1, 10**400)]).tolist() == [0]
    assert tiny.active_terms([0.0]).tolist() == [1]


def test_many_points_are_evaluated_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    p = TropicalPolynomial(rng.standard_normal((7, 3)), rng.standard_normal(7))
    x = rng.standard_normal((1001, 3))
    expected = (x @ p.exponents.T + p.coefficients).max(axis=1)
    monkeypatch.setattr("hardmax.tropical.hypersurfaces._BLOCK", 64)
    np.testing.assert_allclose(p(x), expected, rtol=1e-14)
    assert p(x[:0]).shape == (0,)


@laws
@given(polynomials(), st.floats(1e-6, 1e3))
def test_temperature_adds_at_most_tau_log_m(p, tau):
    x = np.array(rational_points(p.d), dtype=float)
    gap = p(x, tau) - p(x)
    assert (gap >= 0).all()
    assert (gap <= tau * np.log(p.n_terms) + 1e-12 * (1 + np.abs(p(x)))).all()


@laws
@given(groups(2), st.floats(1e-3, 10))
def test_sum_and_product_are_those_of_the_semiring_at_every_temperature(pq, tau):
    p, q = pq
    x = np.array(rational_points(p.d), dtype=float)
    np.testing.assert_allclose((p * q)(x, tau), p(x, tau) + q(x, tau), rtol=1e-9, atol=1e-9)
    soft_sum = np.logaddexp(p(x, tau) / tau, q(x, tau) / tau) * tau
    np.testing.assert_allclose((p + q)(x, tau), soft_sum, rtol=1e-9, atol=1e-9)


# Algebra ----------------------------------------------------------------------------------------------


@laws
@given(groups(3, max_terms=3))
def test_polynomials_form_an_idempotent_semiring_of_functions(pqr):
    p, q, r = pqr
    one = TropicalPolynomial(np.zeros((1, p.d)))
    assert p + q == q + p
    assert p * q == q * p
    assert (p + q) + r == p + (q + r)
    assert (p * q) * r == p * (q * r)
    assert p * (q + r) == p * q + p * r
    assert p + p == p
    assert p * one == p
    assert p**2 == p * p
    assert hash(p + p) == hash(p)
    for x in rational_points(p.d, 3):
        assert (p * q).exact_value(x) == p.exact_value(x) + q.exact_value(x)
        assert (p + q).exact_value(x) == max(p.exact_value(x), q.exact_value(x))
        assert (p / q).exact_value(x) == (p.exact_value(x) - q.exact_value(x),)
        assert (p ** Fraction(2, 3)).exact_value(x) == Fraction(2, 3) * p.exact_value(x)
    points = np.array(rational_points(p.d), dtype=float)
    np.testing.assert_allclose((p / q)(points)[:, 0], p(points) - q(points), atol=1e-12)


def test_products_round_nothing():
    p = TropicalPolynomial([[1.0], [0.1]], [0.0, 1e-30])
    q = TropicalPolynomial([[1e-20], [0.2]], [1.0, 0.3])
    assert rows_of(p * q) == [
        tuple(map(sum, zip(a, b, strict=True))) for a, b in product(rows_of(p), rows_of(q))
    ]
    assert (p * q).scores.rounded
    assert not (TropicalPolynomial([[1.5]]) * TropicalPolynomial([[0.25]])).scores.rounded


def test_equality_is_of_functions():
    p = TropicalPolynomial([[0], [2]])
    assert p == TropicalPolynomial([[2], [1], [0], [0]], [0, -1, 0, -3])
    assert p != TropicalPolynomial([[0], [2]], [0, 1e-300])
    assert p != TropicalPolynomial([[0, 0], [2, 0]])
    assert p != 3


def test_terms_of_coefficient_minus_infinity_are_dropped():
    p = TropicalPolynomial([[1, 1], [2, 2], [3, 3]], [0, -np.inf, Fraction(1, 3)])
    assert p.exponents.tolist() == [[1, 1], [3, 3]]
    assert TropicalPolynomial([[0], [1]], np.array([-np.inf, 2.0])).n_terms == 1
    with pytest.raises(errors.InvalidInputError, match="at least one term"):
        TropicalPolynomial([[1], [2]], [-np.inf, -np.inf])


def test_formulas():
    assert repr(TropicalPolynomial([[0, 0], [1, -1], [-2, 0]], [0, -1, 3])) == (
        "TropicalPolynomial(max(0, -1 + x1 - x2, 3 - 2 x1))"
    )
    assert repr(TropicalPolynomial(np.zeros((9, 4)))) == "TropicalPolynomial(9 terms, 4 variables)"


# Essential terms and Newton polytopes -----------------------------------------------------------------


@laws
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 2**32 - 1), st.booleans())
def test_essential_terms_against_linear_programs(d, m, seed, lifted):
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-2, 3, (m, d))
    coefficients = rng.integers(-2, 3, m) if lifted else np.zeros(m)
    p = TropicalPolynomial(exponents, coefficients)
    assert p.essential_terms().tolist() == essential_by_linear_programs(exponents, coefficients)
    assert p.simplified() == p
    assert p.simplified().n_terms == len(p.essential_terms())


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_essential_terms_and_newton_vertices_against_qhull(d, seed):
    rng = np.random.default_rng([d, seed])
    exponents, coefficients = rng.standard_normal((30, d)), rng.standard_normal(30) * 0.3
    p = TropicalPolynomial(exponents, coefficients)
    lifted = ConvexHull(np.column_stack([exponents, coefficients]))
    upper = np.unique(lifted.simplices[lifted.equations[:, d] > 0])
    assert p.essential_terms().tolist() == upper.tolist()
    newton = p.newton_polytope()
    expected = [exponents.argmin(), exponents.argmax()] if d == 1 else ConvexHull(exponents).vertices
    assert newton.terms.tolist() == sorted(expected)
    # the Newton polytope alone only tells the terms that win far away
    assert set(newton.terms) <= set(upper)


@pytest.mark.parametrize("d", [8, 24])
def test_essential_terms_in_high_dimension(d):
    rng = np.random.default_rng(d)
    exponents = rng.standard_normal((40, d))
    exponents[0] = exponents[1:].mean(axis=0)  # inside the hull
    exponents[-1] = exponents[3]  # a duplicate
    flat = TropicalPolynomial(exponents)
    assert flat.essential_terms().tolist() == essential_by_linear_programs(exponents, np.zeros(40))
    assert 0 not in flat.newton_polytope().terms
    raised = TropicalPolynomial(exponents, [1.0] + [0.0] * 39)
    assert 0 in raised.essential_terms()
    assert 0 not in raised.newton_polytope().terms


@laws
@given(groups(2))
def test_newton_polytope_of_a_product_is_the_minkowski_sum(pq):
    p, q = pq
    whole, parts = (p * q).newton_polytope(), p.newton_polytope() + q.newton_polytope()
    assert whole == parts
    assert hash(whole) == hash(parts)
    assert whole.exact_vertices() == sorted(set(whole.exact_vertices()))

    # independently of any hull: support functions add up, and every vertex is needed
    def support(vertices, u):
        return max(sum(a * b for a, b in zip(v, u, strict=True)) for v in vertices)

    first, second, total = (n.exact_vertices() for n in (p.newton_polytope(), q.newton_polytope(), whole))
    for u in rational_points(p.d, 12):
        assert support(total, u) == support(first, u) + support(second, u)
    assert len(total) == len(TropicalPolynomial([list(v) for v in total]).essential_terms())


@pytest.mark.parametrize("seed", range(6))
def test_newton_polytope_of_a_product_against_the_minkowski_engine(seed):
    rng = np.random.default_rng(seed)
    d = 2 + seed % 2
    parts = [TropicalPolynomial(rng.integers(-3, 4, (5, d)), rng.integers(-3, 4, 5)) for _ in range(3)]
    newton = (parts[0] * parts[1] * parts[2]).newton_polytope()
    vertices = minkowski_vertices([p.exponents for p in parts]).vertices
    assert sorted(map(tuple, vertices.tolist())) == [tuple(map(float, v)) for v in newton.exact_vertices()]


def test_equal_coefficients_make_essential_terms_newton_vertices():
    rng = np.random.default_rng(5)
    for c in (0.0, 0.1, -3.0):
        p = TropicalPolynomial(rng.integers(-3, 4, (12, 2)), np.full(12, c))
        assert p.essential_terms().tolist() == p.newton_polytope().terms.tolist()


# Cells and walls --------------------------------------------------------------------------------------


@laws
@given(groups(2))
def test_refinement_cells_are_the_cells_of_the_product(pq):
    p, q = pq
    cells = common_refinement(p, q)
    pairs = [(rows_of(p)[i], rows_of(q)[j]) for i, j in cells.terms.tolist()]
    sums = {tuple(map(sum, zip(a, b, strict=True))) for a, b in pairs}
    assert len(sums) == cells.n_cells
    essential = (p * q).essential_terms()
    assert sums == {rows_of(p * q)[t] for t in essential.tolist()}
    assert (p * q).cells().n_cells == cells.n_cells
    for k, polynomial in enumerate((p, q)):
        for i in range(cells.n_cells):
            active = polynomial.active_terms(cells.exact_witnesses.get(i, cells.witnesses[i]))
            assert active[0] == cells.terms[i, k]
            assert (
                len({rows_of(polynomial)[t] for t in active}) == 1
            )  # strictly inside: only identical terms tie


@pytest.mark.parametrize("seed", range(3))
def test_refinement_cells_are_the_cells_of_a_product_with_many_terms(seed):
    rng = np.random.default_rng(seed)
    p, q = (TropicalPolynomial(rng.standard_normal((20, 2)), rng.standard_normal(20)) for _ in range(2))
    pairs = common_refinement(p, q).terms
    assert (p * q).cells().terms[:, 0].tolist() == sorted((20 * pairs[:, 0] + pairs[:, 1]).tolist())
    assert (p * q).essential_terms().tolist() == sorted((20 * pairs[:, 0] + pairs[:, 1]).tolist())


@laws
@given(polynomials(d=2, max_terms=6))
def test_cells_in_a_box_fill_it(p):
    cells = p.cells(Box.cube(2, -3, 3))
    area = 0.0
    for i in range(cells.n_cells):
        rows = cells.generators(i)
        assert (rows[:, 0] == 1).all()
        hull = ConvexHull(rows[:, 1:])
        area += hull.volume
        assert len(hull.vertices) == len(rows)
    assert area == pytest.approx(36.0)
    assert not cells.is_fan
    assert np.isin(cells.terms[:, 0], p.essential_terms()).all()


def test_fans_are_recognised():
    linear = TropicalPolynomial([[1, 0], [0, 1], [-1, -1]])
    shifted = TropicalPolynomial(linear.exponents, [Fraction(1, 3)] * 3)
    bent = TropicalPolynomial(linear.exponents, [0, 0, 1])
    hidden = TropicalPolynomial(
        [*linear.exponents.tolist(), [0, 0]], [0, 0, 0, -1]
    )  # the odd term never wins
    assert linear.cells().is_fan
    assert shifted.cells().is_fan
    assert hidden.cells().is_fan
    assert not bent.cells().is_fan
    assert common_refinement(linear, shifted).is_fan
    assert not common_refinement(linear, bent).is_fan
    assert not linear.cells(Box.cube(2, -1, 1)).is_fan
    assert linear.cells(Polytope([[-1, 0], [0, -1]], [0, 0])).is_fan
    # a fan's cells are invariant under scaling, and have the vertex 0
    for p in (linear, shifted, hidden):
        cells = p.cells(WholeSpace(2))
        for i in range(cells.n_cells):
            rows = cells.generators(i)
            assert rows[rows[:, 0] > 0][:, 1:].tolist() == [[0.0, 0.0]]
            assert p.active_terms(1000 * cells.witnesses[i]).tolist() == cells.terms[i].tolist()
    assert "cones" in repr(linear.cells())
    assert "cones" not in repr(bent.cells())


@laws
@given(st.integers(1, 3), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_walls_are_where_exactly_two_essential_terms_tie(d, m, seed):
    rng = np.random.default_rng(seed)
    p = TropicalPolynomial(rng.integers(-2, 3, (m, d)), rng.integers(-2, 3, m))
    box = Box.cube(d, -5, 5)
    walls = p.hypersurface(box)
    essential = set(p.essential_terms().tolist())
    assert len({tuple(pair) for pair in walls.terms.tolist()}) == walls.n_walls
    for e in range(walls.n_walls):
        i, j = walls.terms[e].tolist()
        assert i < j
        assert {i, j} <= essential
        vertices = walls.vertices(e)
        assert len(vertices) >= d
        assert np.linalg.matrix_rank(vertices - vertices[0], tol=1e-9) == d - 1
        assert box.contains(vertices * (1 - 1e-12)).all()
        weights = rng.random(len(vertices)) + 0.1
        x = weights @ vertices / weights.sum()
        scores = x @ p.exponents.T + p.coefficients
        assert scores[i] == pytest.approx(scores[j], abs=1e-9)
        others = [k for k in essential if k not in (i, j)]
        assert all(scores[k] < scores[i] - 1e-12 for k in others)
        assert scores[i] == pytest.approx(p(x), abs=1e-9)
    # conversely, every pair of terms that ties above all others somewhere inside the box has its wall
    expected = [pair for pair in combinations(sorted(essential), 2) if ties_inside(p, *pair, essential, 5.0)]
    assert walls.terms.tolist() == [list(pair) for pair in expected]


def ties_inside(p, i, j, essential, half):
    """Whether terms i and j tie, strictly above the other essential terms, inside the box."""
    d = p.d
    rows = np.column_stack([p.exponents, p.coefficients])
    leads = [rows[k] - rows[i] for k in essential if k not in (i, j)]  # (a_k - a_i) x + t <= c_i - c_k
    a = [[*lead[:-1], 1.0] for lead in leads] + [
        [*sign * np.eye(d)[k], 1.0] for k in range(d) for sign in (1, -1)
    ]
    b = [-lead[-1] for lead in leads] + [half] * (2 * d)
    tie = rows[i] - rows[j]
    result = linprog(
        [0] * d + [-1],
        A_ub=a,
        b_ub=b,
        A_eq=[[*tie[:-1], 0.0]],
        b_eq=[-tie[-1]],
        bounds=[(None, None)] * d + [(None, 1)],
    )
    return result.status == 0 and result.x[-1] > 1e-7


def test_walls_of_the_plane_and_of_space():
    tropical_line = TropicalPolynomial([[0, 0], [1, 0], [0, 1]])
    walls = tropical_line.hypersurface(Box.cube(2, -1, 1))
    assert walls.terms.tolist() == [[0, 1], [0, 2], [1, 2]]
    ends = [sorted(map(tuple, s)) for s in walls.segments.tolist()]
    assert ends == [[(0, -1), (0, 0)], [(-1, 0), (0, 0)], [(0, 0), (1, 1)]]
    unbounded = tropical_line.hypersurface()
    assert unbounded.n_walls == 3
    with pytest.raises(errors.InvalidInputError, match="pass a box"):
        _ = unbounded.segments
    whole_line = TropicalPolynomial([[1, 1], [-1, -1]]).hypersurface()  # a wall that is a line
    rays = whole_line.generators(0)
    assert sorted(np.sign(rays[rays[:, 0] == 0][:, 1]).tolist()) == [-1.0, 1.0]
    with pytest.raises(errors.InvalidInputError, match="two variables"):
        _ = TropicalPolynomial([[0], [1]]).hypersurface().segments
    # the walls of max(|x_1|, |x_2|, |x_3|): twelve triangles over the edges of the cube
    cube = TropicalPolynomial(np.concatenate([np.eye(3), -np.eye(3)]))
    inside = cube.hypersurface(Box.cube(3, -1, 1))
    assert inside.n_walls == 12
    assert all(len(inside.vertices(e)) == 3 for e in range(12))
    # a polygon's vertices come in their order around it
    roof = TropicalPolynomial([[0, 0, 1], [0, 0, -1]]).hypersurface(Box.cube(3, -1, 1)).vertices(0)
    assert np.abs(np.diff(np.vstack([roof, roof[:1]]), axis=0)).sum(axis=1).tolist() == [2.0] * 4


@pytest.mark.parametrize("d", [1, 2, 3])
def test_degenerate_polynomials(d):
    single = TropicalPolynomial(np.ones((1, d)), [2])
    assert single.essential_terms().tolist() == [0]
    assert single.cells().n_cells == 1
    assert single.hypersurface(Box.cube(d, -1, 1)).n_walls == 0
    assert single.newton_polytope().vertices.tolist() == [[1.0] * d]
    same = TropicalPolynomial(np.ones((4, d)), [1, 2, 2, 0])
    assert same.essential_terms().tolist() == [1]
    assert same.cells().terms.tolist() == [[1]]
    assert same.newton_polytope().terms.tolist() == [0]
    line = np.outer([0, 1, 2, 3, 1], np.ones(d))
    collinear = TropicalPolynomial(line, [0, 0, 0, 0, 0])
    assert collinear.essential_terms().tolist() == [0, 3]
    assert collinear.cells().n_cells == 2
    assert collinear.hypersurface(Box.cube(d, -1, 1)).terms.tolist() == [[0, 3]]
    concave = TropicalPolynomial(line, [0, 2, 3, 3, 2])
    assert concave.essential_terms().tolist() == [0, 1, 2, 3]
    assert concave.hypersurface(Box.cube(d, -9, 9)).terms.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert len(concave.cells().lines) == d - 1


def test_results_are_saved_and_loaded(tmp_path):
    p = TropicalPolynomial([[0], [Fraction(1, 3)]], [0, Fraction(-1, 7)])
    for k, domain in enumerate((None, Box([-9], [Fraction(28, 3)]), Polytope([[1.0], [-1.0]], [5, 5]))):
        cells = common_refinement(p, p**2, domain=domain)
        again = load(cells.save(tmp_path / f"{k}.npz"))
        assert isinstance(again, CommonRefinement)
        assert again.polynomials == cells.polynomials
        assert np.array_equal(again.terms, cells.terms)
        assert repr(again) == repr(cells)
    walls = p.hypersurface()
    again = load(walls.save(tmp_path / "walls.npz"))
    assert isinstance(again, Hypersurface)
    assert np.array_equal(again.vertices(0), walls.vertices(0))
    assert walls.vertices(0)[0, 0] == pytest.approx(3 / 7)
    assert "1 walls" in repr(walls)
    assert cells.to_dict()["kind"] == "CommonRefinement"
    assert len(cells.to_frame()) == cells.n_cells


# Rational maps ----------------------------------------------------------------------------------------


@laws
@given(groups(3))
def test_rational_maps_are_affine_on_the_cells_of_their_refinement(parts):
    first, second, bottom = parts
    f = TropicalRationalMap([first, second], bottom)
    cells = f.common_refinement()
    for i in range(cells.n_cells):
        x = cells.witnesses[i]
        a, b = f.affine_at(x)
        np.testing.assert_allclose(f(x), a @ x + b, atol=1e-9)
        exact = [rational(v) for v in x]
        values = [Fraction(int(v.p), int(v.q)) for v in exact]
        expected = tuple(exact_max(top, values) - exact_max(bottom, values) for top in (first, second))
        assert f.exact_value(x) == expected
    assert f.hypersurface(Box.cube(f.d, -2, 2)).owner.max(initial=0) < 3


def test_shared_factors_cut_once():
    p = TropicalPolynomial([[0], [1]])
    assert (p / p).common_refinement().polynomials == (p,)
    assert (p / p)([[3.0]]).tolist() == [[0.0]]
    constant = TropicalPolynomial([[0]], [1]) / TropicalPolynomial([[2]])
    assert constant.common_refinement().n_cells == 1
    assert constant.hypersurface().n_walls == 0


@laws
@given(groups(3, max_terms=3), st.lists(st.fractions(0, 3, max_denominator=5), min_size=3, max_size=3))
def test_products_equal_their_expansion(factors, powers):
    lazy = TropicalProduct(factors, powers)
    written = lazy.expanded()
    assert lazy.simplified() == written
    assert lazy.simplified().n_terms == len(written.essential_terms())
    for x in rational_points(lazy.d, 3):
        assert lazy.exact_value(x) == written.exact_value(x)
        assert lazy(np.array(x, dtype=float)) == pytest.approx(float(written.exact_value(x)), abs=1e-9)


def softmax_log(keys, log_values, q, tau):
    """tau log z straight from the definition of attention, with values exp(log_values / tau)."""
    scores = keys @ q
    weights = np.exp((scores - scores.max()) / tau)
    weights /= weights.sum()
    return tau * np.log(weights @ np.exp(log_values / tau))


def test_log_lifted_head_is_tau_log_z_and_converges_at_rate_tau_log_n():
    rng = np.random.default_rng(3)
    worst = 0.0
    for n in (1, 2, 5, 30):
        keys, log_values = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
        head = log_lifted_head(keys, log_values)
        q = rng.standard_normal((200, 3))
        limit = head(q)
        np.testing.assert_allclose(
            head(q[:5], 0.5), [softmax_log(keys, log_values, row, 0.5) for row in q[:5]], rtol=1e-9
        )
        for tau in (10.0, 1.0, 1e-3, 1e-9):
            gap = np.abs(head(q, tau) - limit)
            assert (gap <= tau * np.log(n) + 1e-12).all()
            worst = max(worst, (gap / (tau * np.log(n))).max()) if n > 1 and tau > 1e-6 else worst
    assert 0.5 < worst <= 1.0  # the rate is not only an upper bound


def test_log_lifting_moves_the_walls():
    head = log_lifted_head([[-1], [1]], [0, 2])
    slopes = [head.affine_at([x])[0].item() for x in (-5, -0.5, 5)]
    assert slopes == [0.0, 2.0, 0.0]
    walls = head.hypersurface()
    assert sorted(walls.vertices(e).item() for e in range(walls.n_walls)) == [-1.0, 0.0]
    routing = head.denominator.hypersurface()
    assert [routing.vertices(e).item() for e in range(routing.n_walls)] == [0.0]
    # at -1/2 the winning key is the first, whose log-value is 0; the head says 1
    assert head.denominator.active_terms([-0.5]).tolist() == [0]
    assert head.exact_value([-0.5]) == (1,)
    # constant log-values: the refinement has two cells, the map one region
    constant = log_lifted_head([[-1], [1]], [3, 3])
    assert constant.common_refinement().n_cells == 2
    assert {
        tuple(map(float, np.concatenate([a.ravel(), b]))) for a, b in map(constant.affine_at, [[-1], [1]])
    } == {(0.0, 3.0)}


def test_a_value_of_zero_is_minus_infinity():
    head = log_lifted_head([[-1], [1]], [[0, -np.inf], [2, 0]])
    assert head.numerators[1].n_terms == 1
    with pytest.raises(errors.InvalidInputError, match="at least one term"):
        log_lifted_head([[-1], [1]], [-np.inf, -np.inf])


def forward(w1, b1, w2, b2, x, skip):
    """The layer in rationals."""
    hidden = [
        max(Fraction(0), sum(Fraction(a) * v for a, v in zip(r, x, strict=True)) + Fraction(b))
        for r, b in zip(w1, b1, strict=True)
    ]
    out = [
        sum(Fraction(a) * h for a, h in zip(row, hidden, strict=True)) + Fraction(b)
        for row, b in zip(w2, b2, strict=True)
    ]
    return tuple(o + v for o, v in zip(out, x, strict=True)) if skip else tuple(out)


@laws
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 3), st.booleans(), st.integers(0, 2**32 - 1))
def test_relu_layer_equals_the_forward_pass_exactly(d, units, outputs, skip, seed):
    rng = np.random.default_rng(seed)
    outputs = d if skip else outputs
    w1, b1 = rng.standard_normal((units, d)), rng.standard_normal(units)
    w2, b2 = rng.standard_normal((outputs, units)), rng.standard_normal(outputs)
    w2[rng.random(w2.shape) < 0.2] = 0.0
    w1[rng.random(units) < 0.1] = 0.0
    layer = relu_layer(w1, b1, w2, b2, skip=skip)
    for x in rational_points(d, 4, seed % 100):
        assert layer.exact_value(x) == forward(w1.tolist(), b1.tolist(), w2.tolist(), b2.tolist(), x, skip)
    x = rng.standard_normal((50, d)) * 3
    expected = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2 + (x if skip else 0)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-10, atol=1e-10)


def test_relu_layer_written_out_has_the_same_walls_and_a_residual_shifts_degrees():
    rng = np.random.default_rng(1)
    w1, b1, w2 = rng.standard_normal((4, 2)), rng.standard_normal(4), rng.standard_normal((2, 4))
    plain, residual = relu_layer(w1, b1, w2), relu_layer(w1, b1, w2, skip=True)
    assert plain.common_refinement().n_cells == 11  # four lines in general position
    assert residual.common_refinement().n_cells == 11
    for c in range(2):
        before, after = plain.numerators[c].expanded(), residual.numerators[c].expanded()
        shift = TropicalPolynomial([np.eye(2)[c]])
        assert after == before * shift
        moved = sorted(
            tuple(a + (i == c) for i, a in enumerate(v)) for v in before.newton_polytope().exact_vertices()
        )
        assert after.newton_polytope().exact_vertices() == moved
    x = rng.standard_normal((20, 2))
    written = TropicalRationalMap([n.expanded() for n in plain.numerators], plain.denominator.expanded())
    np.testing.assert_allclose(written(x), plain(x), atol=1e-9)


def test_relu_layer_without_negative_output_weights_is_a_polynomial():
    positive = relu_layer([[1.0], [-2.0]], None, [[1.0, 3.0]])
    assert positive.denominator.n_terms == 1
    signed = relu_layer([[1.0], [1.0]], [0, -0.5], [[2, -4]])
    assert signed.denominator.n_terms == 2
    assert signed([[0.0], [0.5], [1.0]])[:, 0].tolist() == [0.0, 1.0, 0.0]  # above its chord: not convex


def test_a_wide_layer_needs_no_expansion():
    rng = np.random.default_rng(0)
    w1, b1, w2 = rng.standard_normal((40, 2)), rng.standard_normal(40), rng.standard_normal((2, 40))
    layer = relu_layer(w1, b1, w2)
    assert layer.common_refinement().n_cells == 1 + 40 + 40 * 39 // 2
    with pytest.raises(errors.InvalidInputError, match="multiplied out"):
        layer.numerators[0].expanded()
    assert layer.denominator.simplified().n_terms <= 821


# Bad input --------------------------------------------------------------------------------------------


LINE, PLANE, BIG = (
    TropicalPolynomial([[1]]),
    TropicalPolynomial([[1, 1]]),
    TropicalPolynomial(np.zeros((2000, 1))),
)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: TropicalPolynomial([1, 2], [0, 0]), errors.DimensionMismatchError, "exponents"),
        (lambda: TropicalPolynomial(np.empty((0, 2))), errors.InvalidInputError, "at least one term"),
        (lambda: TropicalPolynomial([[1], [2]], [0]), errors.DimensionMismatchError, "one number per term"),
        (lambda: TropicalPolynomial([[np.nan]], [0]), errors.NotFiniteError, "exponents must be finite"),
        (lambda: TropicalPolynomial([[1]], [np.inf]), errors.NotFiniteError, "coefficients must be finite"),
        (lambda: TropicalPolynomial([[1], [1, 2]], [0, 0]), errors.InvalidInputError, "exponents"),
        (lambda: TropicalPolynomial([["a"]], [0]), errors.InvalidInputError, "exponents"),
        (lambda: LINE([[1, 2]]), errors.DimensionMismatchError, "1 coordinates"),
        (lambda: LINE([[np.nan]]), errors.NotFiniteError, "x must be finite"),
        (lambda: TropicalPolynomial([[1e300]])([[1e300]]), errors.NotFiniteError, "overflows"),
        (lambda: LINE([[1]], -1), errors.InvalidInputError, "temperature"),
        (lambda: LINE.active_terms([1, 2]), errors.DimensionMismatchError, "1 coordinates"),
        (lambda: LINE + PLANE, errors.DimensionMismatchError, "variables"),
        (lambda: LINE ** -1, errors.InvalidInputError, "at least 0"),
        (lambda: TropicalPolynomial([[1e308]]) ** 2, errors.NotFiniteError, "exponents"),
        (lambda: BIG * BIG, errors.InvalidInputError, "TropicalProduct"),
        (lambda: TropicalRationalMap([], LINE), errors.InvalidInputError, "numerators"),
        (lambda: TropicalRationalMap([3], LINE), errors.InvalidInputError, "is a int"),
        (lambda: TropicalProduct([]), errors.InvalidInputError, "factors"),
        (lambda: TropicalProduct([LINE], [1, 2]), errors.DimensionMismatchError, "powers"),
        (lambda: TropicalProduct([LINE], [-1]), errors.InvalidInputError, "at least 0"),
        (lambda: common_refinement(), errors.InvalidInputError, "at least one"),
        (lambda: common_refinement(LINE, PLANE), errors.DimensionMismatchError, "variables"),
        (lambda: LINE.cells(Box.cube(2, 0, 1)), errors.DimensionMismatchError, "domain"),
        (lambda: hypersurface([]), errors.InvalidInputError, "at least one"),
        (lambda: log_lifted_head([[1], [2]], [1]), errors.DimensionMismatchError, "log_values"),
        (lambda: log_lifted_head([[1], [2]], [[1], [2, 3]]), errors.InvalidInputError, "log_values"),
        (lambda: relu_layer([[1]], [1, 2], [[1]]), errors.DimensionMismatchError, "b_in"),
        (lambda: relu_layer([[1]], [1], [[1, 2]]), errors.DimensionMismatchError, "w_out"),
        (lambda: relu_layer([[1, 1]], [1], [[1]], skip=True), errors.DimensionMismatchError, "skip"),
        (lambda: relu_layer(np.empty((0, 1)), [], np.empty((1, 0))), errors.InvalidInputError, "w_in"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_operators_refuse_other_types():
    p = LINE
    for operation in (lambda: p + 1, lambda: p * 2.0):
        with pytest.raises(TypeError):
            operation()


# The docs page and the example -------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[3]


def test_the_docs_page_runs_and_its_table_is_true():
    page = (ROOT / "docs" / "tropical-polynomials.md").read_text()
    code = "\n".join("" if line.startswith("```") else line for line in page.splitlines())
    # the table's checks are read with the names that the code above the table has defined
    above, below = code.split("| concept | what the paper says |")
    names = run_examples(above, {})
    checks = [
        re.fullmatch(r".*\| `(.+)` \|", line).group(1).replace(r"\|", "|")
        for line in page.splitlines()
        if line.startswith("| ") and line.count("|") >= 5 and line.endswith("` |")
    ]
    assert len(checks) == 11
    for check in checks:
        assert eval(check, dict(names)), check  # noqa: S307 (our own page)
    run_examples(below, names)


def run_examples(text, names):
    test = doctest.DocTestParser().get_doctest(text, dict(names), "tropical-polynomials.md", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, clear_globs=False)
    assert runner.tries > 0
    assert runner.failures == 0
    return test.globs


def test_the_example_of_corrections_runs():
    script = ROOT / "examples" / "paper_corrections_section3.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    for words in ("3 regions", "2 regions", "slopes [0.0, 2.0, 0.0], walls [-1.0, 0.0]", "0, 1, 0"):
        assert words in done.stdout
