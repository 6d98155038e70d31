"""The linear programs of the search engine against another solver; networks of few bits against rationals."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import flint
import numba
import numpy as np
import pytest
from scipy.optimize import linprog

import hardmax as hm
from hardmax.networks.layers import layers_of
from hardmax.regions.engine import layer_kernels
from hardmax.regions.engine.program import Program
from hardmax.regions.search import dependence_kernels, integer_kernels, simplex_kernels
from hardmax.regions.search.geometry import units_of, workspace
from hardmax.regions.search.simplex_kernels import BOUNDED, OPTIMAL, minimise


@numba.njit
def solve(lp, rows, errors, m, c, c_error, n, most):
    return minimise(lp, rows, errors, m, -1, c, c_error, n, 0, most)


def program(rng, d, m, integers):
    """Rows that are positive at a point of the box [-1, 1]^d, and an objective."""
    inside = rng.uniform(-0.5, 0.5, d)
    if integers:
        rows = rng.integers(-2, 3, (m, d + 1)).astype(float)
        rows[:, -1] = rng.integers(0, 3, m)
        rows = rows[np.abs(rows).sum(axis=1) > 0]
        c = rng.integers(-2, 3, d + 1).astype(float)
        return rows, c
    rows = rng.standard_normal((m, d + 1))
    rows[:, -1] = rng.uniform(0.01, 1, m) - rows[:, :-1] @ inside
    return rows / np.linalg.norm(rows, axis=1)[:, None], rng.standard_normal(d + 1)


def in_box(d, m):
    return workspace(m + 4, d + 1, 8, hm.Box.cube(d, -1, 1))[1]


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize(("d", "m"), [(1, 2), (3, 5), (7, 12), (20, 30), (60, 40)])
def test_programs_in_a_box_have_the_optimum_of_another_solver(d, m, integers):
    rng = np.random.default_rng([d, m, integers])
    for _ in range(20):
        rows, c = program(rng, d, m, integers)
        best = linprog(c[:-1], A_ub=-rows[:, :-1], b_ub=rows[:, -1], bounds=(-1, 1))
        assert best.status == 0
        least, lp = best.fun + c[-1], in_box(d, len(rows))
        # with such an error of c nothing is proven, so the program runs to its end
        assert solve(lp, rows, np.zeros(len(rows)), len(rows), c, 1e9, d + 1, 1000) == OPTIMAL
        assert lp.y[: d + 1] @ c == pytest.approx(least, abs=1e-8)
        assert (rows @ lp.y[: d + 1] > -1e-9).all()
        status = solve(lp, rows, np.zeros(len(rows)), len(rows), c, 0.0, d + 1, 1000)
        assert (status == BOUNDED) == (least > 1e-9)  # a least value of zero is never proven positive


def test_a_proof_allows_for_every_error():
    """x >= -1 in the box: x + 1 + e is positive, but not for an error of e / reach."""
    lp = in_box(1, 1)
    rows, errors = np.array([[1.0, 0.5]]), np.zeros(1)
    c = np.array([1.0, 1.0 + 1e-6])
    reach = lp.reach[0]
    assert solve(lp, rows[:0], errors, 0, c, 0.0, 2, 50) == BOUNDED
    assert solve(lp, rows[:0], errors, 0, c, 1.01e-6 / reach, 2, 50) == OPTIMAL
    # the multiplier of the row is 1, so its error counts once
    c = np.array([1.0, 0.5 + 1e-6])
    assert solve(lp, rows, errors, 1, c, 0.0, 2, 50) == BOUNDED
    assert solve(lp, rows, np.array([1.01e-6 / reach]), 1, c, 0.0, 2, 50) == OPTIMAL


def test_bounds_of_a_box_of_fractions_are_rounded_outwards():
    box = hm.Box([Fraction(1, 3)] * 2, [Fraction(2, 3)] * 2)
    lp = workspace(4, 3, 8, box)[1]
    assert all(Fraction(v) < Fraction(1, 3) for v in lp.low[:2])
    assert all(Fraction(v) > Fraction(2, 3) for v in lp.high[:2])
    assert units_of((), box).box[0] == 0.0
    assert not workspace(4, 2, 8, hm.Box([0], [1e31]))[1].reach[0] < np.inf


# Networks of few bits ---------------------------------------------------------------------------


def structured(kind, widths, rng):
    layers = []
    for a, b in pairwise(widths):
        most = 1 if kind == "ternary" else 2
        w = rng.integers(-most, most + 1, (b, a)).astype(float)
        c = rng.integers(-most, most + 1, b).astype(float)
        if b > 2 and kind == "duplicates":
            w[1], c[1], w[2], c[2] = w[0], c[0], -w[0], -c[0]
        if b > 2 and kind == "sums":
            w[2], c[2] = w[0] - w[1], c[0] - c[1]
        if kind == "eighths":
            w, c = w / 8, c / 8
        if kind == "large":  # sums of these need more than 53 bits in the second layer
            w, c = w * 2.0**25 + rng.integers(-1, 2, w.shape), c * 2.0**25
        layers.append((w, c))
    return hm.Network.mlp(layers)


KINDS = ("small", "ternary", "duplicates", "sums", "eighths", "large")


@pytest.mark.parametrize("kind", KINDS)
def test_structured_networks_have_the_cells_of_another_engine(kind):
    """Hyperplanes coincide and touch cells everywhere here; the engine of space decides by vertices."""
    rng = np.random.default_rng(KINDS.index(kind))
    for turn in range(25):
        net = structured(kind, [3, 4, 4, 1], rng)
        domain = hm.WholeSpace(3) if turn % 5 == 4 else hm.Box.cube(3, -2, 2)
        found = hm.enumerate_regions(net, domain, engine="search")
        other = hm.enumerate_regions(net, domain)
        assert np.array_equal(found.bits, other.bits), (kind, turn)
        assert found.n_regions == other.n_regions


def domains(d, rng):
    """A simplex, a turned box as a polytope, a cone, and the whole space."""
    turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return [
        hm.Polytope(np.vstack([-np.eye(d), np.ones((1, d))]), np.ones(d + 1)),
        hm.Polytope(np.vstack([turned, -turned]), np.full(2 * d, 2.0)),
        hm.Polytope(-np.eye(d), np.full(d, 2.0)),
        hm.WholeSpace(d),
    ]


@pytest.mark.parametrize("kind", ["random", *KINDS[:-1]])
def test_rationals_are_rare_on_every_domain(kind):
    """Units touch cells without cutting them, and cells are unbounded in fewer directions than there are."""
    rng = np.random.default_rng(17)
    cells = decided = 0
    for widths in ([7, 7, 5, 1], [8, 6, 6, 1], [10, 6, 4, 4, 1]):
        net = hm.Network.random_mlp(widths, rng) if kind == "random" else structured(kind, widths, rng)
        for domain in domains(net.d, rng):
            count = hm.count_cells(net, domain)
            cells, decided = cells + count.n_cells, decided + count.n_rational
    assert cells > 1000
    assert decided * 1000 <= cells


@pytest.mark.parametrize("kind", ["random", *KINDS])
def test_domains_in_exact_arithmetic(kind):
    """The same cells, and the same of them unbounded, where rationals decide everything."""
    rng = np.random.default_rng(5)
    for widths in ([3, 4, 3, 1], [4, 3, 3, 2, 1], [7, 3, 3, 1]):
        net = hm.Network.random_mlp(widths, rng) if kind == "random" else structured(kind, widths, rng)
        for domain in domains(net.d, rng):
            found, exact = (
                hm.enumerate_regions(net, domain, engine="search", arithmetic=arithmetic)
                for arithmetic in ("certified", "exact")
            )
            assert np.array_equal(found.bits, exact.bits)
            counts = [
                hm.count_cells(net, domain, engine="search", arithmetic=arithmetic)
                for arithmetic in ("certified", "exact")
            ]
            assert counts[0].n_unbounded == counts[1].n_unbounded
            assert counts[0].n_cells == counts[1].n_cells == len(found.bits)


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_networks_of_few_bits_need_no_rationals_in_a_box(kind):
    rng = np.random.default_rng(KINDS.index(kind) + 100)
    cells = decided = 0
    for widths in ([7, 6, 6, 1], [8, 5, 5, 5, 1]):
        for _ in range(4):
            net = structured(kind, widths, rng)
            count = hm.count_cells(net, hm.Box.cube(net.d, -2, 2))
            cells, decided = cells + count.n_cells, decided + count.n_rational
    assert decided * 1000 <= cells


def test_the_same_cells_in_exact_arithmetic_in_seven_dimensions():
    rng = np.random.default_rng(3)
    for kind in ("small", "sums", "large"):
        net, box = structured(kind, [7, 4, 4, 1], rng), hm.Box.cube(7, -2, 2)
        certified = hm.enumerate_regions(net, box)
        exact = hm.enumerate_regions(net, box, arithmetic="exact")
        assert np.array_equal(certified.bits, exact.bits)


def test_nothing_is_called_exact_that_was_rounded():
    """The last unit of the second layer is g + g' minus a part in 2^60: a cut that floats do not see."""
    big = 2.0**30
    first = np.array([[big, 1.0, 0], [-big, 1.0, 0]]), np.array([0.0, 0.0])
    for offset, cells in ((0.0, 4), (-(2.0**-30), None)):
        second = np.array([[big, big]]), np.array([offset])
        net = hm.Network.mlp([first, second, (np.ones((1, 1)), np.zeros(1))])
        found = hm.count_cells(net, hm.Box.cube(3, -1, 1), engine="search")
        exact = hm.count_cells(net, hm.Box.cube(3, -1, 1), engine="search", arithmetic="exact")
        assert found.n_cells == exact.n_cells
        assert cells is None or found.n_cells >= cells


def test_units_of_a_network():
    net = hm.Network.mlp([(np.array([[0.5, 3.0]]), np.array([0.125])), (np.array([[2.0]]), np.array([0.25]))])
    table = units_of(layers_of(net), hm.Box([0, 0], [0.5, 1])).layers
    assert table[0, integer_kernels.Z_UNIT] == 0.125
    assert table[0, integer_kernels.Z_SUM] == 3.5
    assert units_of(layers_of(net), hm.Box([0, 0], [0.5, 1])).box[0] == 0.5
    assert simplex_kernels.MANY > 8  # few variables do without relaxation


@numba.njit
def proven(n, net, units, path, errors, path_signs, rows, row_errors, codes, signs, m, z, z_code, lp):
    return dependence_kernels.never_negative(
        n,
        net,
        units,
        path,
        errors,
        path_signs,
        rows,
        row_errors,
        codes,
        signs,
        m,
        -1,
        z,
        4e-16,
        z_code,
        -1,
        lp,
    )


@numba.njit
def dependent(n, columns, net, units, path, errors, codes, count, most, lp):
    return dependence_kernels.dependent_as_integers(
        n, columns, net, units, path, errors, codes, count, most, -1, lp
    )


@numba.njit
def rank_is_at_most(n, rows, count, most, prime):
    return dependence_kernels.rank_at_most(n, rows, count, most, prime)


@numba.njit
def marked(n, net, units, path, errors):
    integer_kernels.mark_exact(n, net, units, path, errors, 0, 0)


def entered(rows):
    """A layer whose composed rows are these, in the box [-1, 1]^d, as if it had just been entered."""
    rows = np.asarray(rows, dtype=np.float64)
    layer = rows[:, :-1], rows[:, -1]
    net = hm.Network.mlp([layer, (np.ones((1, len(rows))), np.zeros(1))])
    n, box = rows.shape[1], hm.Box.cube(net.d, -1, 1)
    program = Program.of(layers_of(net), columns=n)
    path, errors = np.zeros(program.path_size), np.zeros((program.last + 2, layer_kernels.ERRORS))
    here = program.row(0)
    path[here.y_at : here.y_at + n * (n - 1)] = np.eye(n, n - 1).ravel()
    path[here.z_at : here.z_at + rows.size] = rows.T.ravel()
    units = units_of(program.layers, box)
    marked(n, program.net, units, path, errors)
    return program, units, path, errors, workspace(len(rows) + 4, n, 8, box)[1]


def never_positive_together(rows):
    """Whether that is proven of the rows, in the box [-1, 1]^d."""
    program, units, path, errors, lp = entered(rows)
    rows, m = np.asarray(rows, dtype=np.float64), len(rows) - 1
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    codes, ones = np.arange(m + 1) << 38, np.ones(m + 1, dtype=np.int64)
    return proven(
        rows.shape[1], program.net, units, path, errors, np.zeros(program.sign_size, dtype=np.int64), unit,
        np.full(m + 1, 4e-16), codes, ones, m, -unit[m], m << 38, lp,
    )  # fmt: skip


def test_whole_numbers_prove_what_is_true_and_nothing_else():
    assert never_positive_together([(1, 0), (-1, 0)])  # x and -x
    assert never_positive_together([(1, 0, 0), (0, 1, 0), (-2, -3, 0)])
    assert never_positive_together([(3, 0), (-2, 0)])
    third = (-211 * 101 + 13 * 307, -211 * 7 - 89 * 307, 0)  # -211 times the first, -307 times the second
    assert never_positive_together([(101, 7, 0), (-13, 89, 0), third])
    assert never_positive_together([(1, 0.5), (-1, -0.5)])
    assert never_positive_together([(-1, -1)])  # -x - 1 touches 0 at the side of the box
    assert not never_positive_together([(1, 0), (-1, 1)])  # both are positive between 0 and 1
    assert not never_positive_together([(1, 0), (-1, 2.0**-20)])
    assert not never_positive_together([(-1, -0.875)])


def test_what_floats_cannot_tell_apart_is_not_taken_for_equal():
    """Rows that differ by a quarter in 2^50 are one row in floats of length 1."""
    big = 2.0**50
    assert never_positive_together([(1, big, 0), (-1, -big, 0)])
    assert not never_positive_together([(1, big, 0), (-1, -big, 0.25)])
    assert not never_positive_together([(1, big, 0.25), (-1, -big, 0)])


def test_one_prime_does_not_prove_a_dependence():
    """The minor of (1, 0) and (1, p) is p: zero modulo p, and nothing but zero is a proof."""
    p = float(dependence_kernels.PRIMES[0])
    for second, found in (((1.0, p, 0.0), False), ((1.0, 0.0, 0.0), True), ((3.0, 0.0, 0.0), True)):
        program, units, path, errors, lp = entered([(1.0, 0.0, 0.0), second])
        codes = np.array([[0, 1], [1 << 38, 1]])
        assert dependent(3, 3, program.net, units, path, errors, codes, 2, 1, lp) == found
    product = float(dependence_kernels.PRIMES[0]) * 2.0**21  # two primes are needed
    program, units, path, errors, lp = entered([(1.0, 0.0, 0.0), (1.0, product, 0.0)])
    assert not dependent(3, 3, program.net, units, path, errors, np.array([[0, 1], [1 << 38, 1]]), 2, 1, lp)


def test_primes_are_primes_and_as_long_as_they_say():
    primes = dependence_kernels.PRIMES.tolist()
    assert len(set(primes)) == len(primes)
    assert all(flint.fmpz(p).is_prime() and 2**dependence_kernels.PRIME_BITS < p < 2**31 for p in primes)


def test_ranks_modulo_a_prime():
    draw, prime = np.random.default_rng(7), int(dependence_kernels.PRIMES[1])
    for _ in range(200):
        m, n, r = (int(v) for v in draw.integers(1, 7, 3))
        rows = draw.integers(-50, 51, (m, r)) @ draw.integers(-50, 51, (r, n))
        rank = flint.nmod_mat(m, n, [int(v) for v in rows.ravel()], prime).rank()
        for most in range(m + 1):
            assert rank_is_at_most(n, rows % prime, m, most, prime) == (rank <= most)


def test_rows_are_exact_up_to_53_digits():
    flag = integer_kernels.ROWS_EXACT
    assert entered([(2.0**51, 2.0**51, 1.0)])[3][0, flag] == 1.0
    assert entered([(2.0**52, 2.0**52, 1.0)])[3][0, flag] == 0.0
    assert entered([(2.0**51, 2.0**51, 0.25)])[3][0, flag] == 0.0  # the unit is a quarter
