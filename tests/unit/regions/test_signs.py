"""The compiled rungs of the ladder: rows modulo primes and as pairs, zero proofs, signs at vertices."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, islice
from math import prod

import flint
import numpy as np
import pytest
from numba.core.caching import NullCache

import hardmax as hm
from hardmax.compiling import kernel
from hardmax.exact import residue_kernels
from hardmax.exact.rationals import as_exact
from hardmax.exact.residues import Residues, primes_below
from hardmax.networks.layers import layers_of
from hardmax.regions.cells import DOMAIN_SIDE, encode_wall
from hardmax.regions.engine import layer_kernels, sign_kernels
from hardmax.regions.engine.program import Program
from hardmax.regions.engine.sign_kernels import MISSING, NEGATIVE, OPEN, POSITIVE, ZERO
from hardmax.regions.plane.machine import PlaneMachine
from hardmax.regions.space.machine import SpaceMachine


@kernel
def row_modulo(D, net, signs, rungs, block, layer, i):
    sign_kernels._provide_mod(D, net, signs, rungs.mod, block, block + 1, layer, i)


@kernel
def row_of_pairs(D, net, signs, rungs, layer, i):
    sign_kernels._provide_pairs(D, net, signs, rungs.pairs, 0, 1, layer, i)


@kernel
def ask(D, net, state, rungs, layer, i, j):
    sign_kernels.ask_at(D, net, state, rungs)
    return sign_kernels.sign_at(D, net, state, rungs, layer, i, j, np.inf, D - 1, 1.0)


for _kernel in (row_modulo, row_of_pairs, ask):
    _kernel._cache = NullCache()  # the stamp of a cache here would not see edits of the sources


def integers(rng, *shape):
    return rng.integers(-2, 3, shape).astype(float)


def networks(d):
    rng = np.random.default_rng(d)
    yield hm.Network.random_mlp([d, 8, 8, 8, 1], 0)
    yield hm.Network.random(d, 5, 2, 2, 6, 1, ffn_skip=True)
    yield hm.Network.mlp(
        [(integers(rng, 6, d), integers(rng, 6)), (integers(rng, 6, 6), integers(rng, 6))] * 1
    )
    thirds = np.array(
        [[Fraction(int(v), 3) for v in row] for row in rng.integers(-4, 5, (6, d))], dtype=object
    )
    yield hm.Network(
        [
            hm.FeedForward(thirds, [Fraction(1, 7)] * 6, integers(rng, 4, 6), None),
            hm.Maxout(integers(rng, 3, 2, 4), integers(rng, 3, 2)),
            hm.FeedForward(integers(rng, 5, 3), integers(rng, 5), integers(rng, 1, 5), None),
        ]
    )
    sparse = np.zeros((40, 20))
    sparse[np.arange(40), rng.integers(0, 20, 40)] = rng.standard_normal(40)
    first = hm.FeedForward(rng.standard_normal((6, d)), None, rng.standard_normal((20, 6)), None)
    yield hm.Network([first, hm.FeedForward(sparse, None, sparse[:, :20].T.copy(), rng.standard_normal(20))])


def machines(d, steps):
    """Machines that stopped somewhere, with primes."""
    domain = hm.Box.cube(d, -4, 4)
    for network in networks(d):
        kind = PlaneMachine if d == 2 else SpaceMachine
        machine = kind(layers_of(network), domain, arithmetic="certified", store=False, sliver=0.0)
        for _ in range(steps):
            machine.advance(7)
            if machine.done:
                break
            machine.ladder.counts[MISSING] = 300
            machine.ladder.grow()
            yield machine


def exact_rows(machine, layer):
    """Rows of a layer on the path of a machine, as fractions."""
    bits, routings = machine._prefix(layer)
    hidden, q = machine.exact_maps.entering(layer, bits, routings)
    y = flint.fmpq_mat(hidden) / q
    block, d = machine.layers[layer], machine.domain.d
    rows = []
    for i in range(block.biases.shape[0]):
        if block.scores is None:
            row = [y[i, c] for c in range(d + 1)]
        else:
            w = flint.fmpq_mat(1, y.nrows(), block.scores.rational_row(i))
            row = (w * y).entries()
        rows.append([*row[:-1], row[-1] + block.biases.rational(i)])
    return rows


def layer_of(machine):
    """The layer of the node on top of the stack."""
    return int(machine.si[int(machine.control[machine.kernels.C_INTS]) - layer_kernels.HEADER + 1])


def residue(value, prime):
    return int(value.p) * pow(int(value.q), -1, prime) % prime


@pytest.mark.parametrize("d", [2, 3, 4])
def test_rows_modulo_primes_and_in_pairs_are_those_of_rationals(d):
    compared = 0
    for machine in machines(d, steps=4):
        ladder, net, D = machine.ladder, machine.program.net, d + 1
        for layer in range(layer_of(machine) + 1):
            here, error = machine.program.row(layer), machine.errors[layer]
            bounds = [sign_kernels.FINER * error[layer_kernels.RA]] * d
            bounds.append(sign_kernels.FINER * error[layer_kernels.RC])
            for i, row in enumerate(exact_rows(machine, layer)):
                places = here.z_at + here.rows * np.arange(D) + i
                row_of_pairs(D, net, machine.signs, ladder.rungs, layer, i)
                for place, value, bound in zip(places, row, bounds, strict=True):
                    pair = Fraction(ladder.rungs.pairs.high[place]) + Fraction(ladder.rungs.pairs.low[place])
                    assert abs(pair - Fraction(int(value.p), int(value.q))) <= Fraction(bound)
                for block, primes in enumerate(ladder.rungs.mod.primes):
                    row_modulo(D, net, machine.signs, ladder.rungs, block, layer, i)
                    numbers = ladder.rungs.mod.path[block].reshape(-1, residue_kernels.LANES)[places]
                    for prime, found in zip(primes.astype(int).tolist(), numbers.T, strict=True):
                        assert [int(v) % prime for v in found] == [residue(value, prime) for value in row]
                        assert np.abs(found).max() <= prime / 2 + 1
                compared += 1
    assert compared > 200


@pytest.mark.parametrize("d", [2, 3, 4])
def test_signs_at_vertices_are_those_of_rationals(d):
    """Of all rows of the first layers and of sides of the domain, taken d at a time and one more."""
    rng, seen = np.random.default_rng(d), {ZERO: 0, POSITIVE: 0, NEGATIVE: 0}
    for machine in machines(d, steps=3):
        net, D, layer = machine.program.net, d + 1, layer_of(machine)
        state = machine._state
        facets = [((DOMAIN_SIDE, i), list(machine.exact_maps.domain_line(i))) for i in range(2 * d)]
        for l in range(layer + 1):
            here = machine.program.row(l)
            if here.kind == layer_kernels.FOLD:
                rows = exact_rows(machine, l)
                names = [(machine._owner(l), encode_wall(l, i)) for i in range(here.rows)]
                facets += list(zip(names, rows, strict=True))
        last = exact_rows(machine, layer)
        choices = list(islice(combinations(range(len(facets)), d), 4000))
        for choice in rng.permutation(choices)[:60]:
            matrix = flint.fmpq_mat([[flint.fmpq(v) for v in facets[f][1]] for f in choice])
            minor = flint.fmpq_mat(d, d, [matrix[r, c] for r in range(d) for c in range(d)]).det()
            if not minor:
                continue  # no vertex there, or one at infinity
            for i, row in enumerate(last[:4]):
                total = flint.fmpq_mat([*matrix.tolist(), row]).det() / minor
                code = OPEN
                while code == OPEN:
                    rungs = machine.ladder.rungs
                    rungs.vertex.names[: 2 * d] = np.ravel([facets[place][0] for place in choice])
                    code = ask(D, net, state, rungs, layer, i, -1)
                    if not machine.ladder.grow():
                        break
                expected = ZERO if total == 0 else POSITIVE if total > 0 else NEGATIVE
                assert code == expected or (code == OPEN and 0 < abs(total) < flint.fmpq(1, 10**20))
                seen[expected] += 1
    assert min(seen.values()) > 10


def hidden_gap(d, gap):
    """A unit max(x, 0), then max(x, 0) + K - (K - gap), which floats round to the former.

    Two units that are multiples of each other come first: primes are made when a zero is to be proven.
    """
    large, weights = 2**30, np.zeros((3, d))
    weights[0, 0], weights[1:, int(d > 1)] = 1.0, (3.0, -1.0)
    return hm.Network(
        [
            hm.FeedForward(weights, [0.0] * 3, [[1.0, 0.0, 0.0]], [float(large)]),
            hm.FeedForward([[1.0]], [gap - large], [[1.0]], None),
        ]
    )


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 4, 7, 8, 16])
def test_no_number_is_called_zero_because_all_primes_but_one_say_so(d, count):
    """The gap vanishes modulo the first primes; with some denominator, just one more is needed."""
    first = list(islice(primes_below(residue_kernels.TOP), count))
    assert all(2**residue_kernels.BITS < p < residue_kernels.TOP for p in first)
    box = hm.Box.cube(d, -1, 1)
    for shift in range(24 * count + 22, 24 * count + 50):
        for gap in (Fraction(prod(first), 2**shift), -Fraction(prod(first), 2**shift)):
            network = hidden_gap(d, gap)
            found, exact = (hm.enumerate_regions(network, box, arithmetic=a) for a in ("certified", "exact"))
            assert found.n_cells == (2 if gap > 0 else 3) * (1 if d == 1 else 2)
            assert np.array_equal(found.bits, exact.bits)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_units_are_no_twins_because_all_primes_but_one_say_so(count):
    """Units s x and s x + gap, where s and gap vanish modulo different primes, and so does every minor.

    Both are sums with a large number that cancels. Twins are looked for once a zero is proven.
    """
    first = list(islice(primes_below(residue_kernels.TOP), 2 * count))
    large, box = 2**30, hm.Box.cube(2, -2, 2)
    for shift in range(24 * count + 18, 24 * count + 40):
        gap, slope = (Fraction(prod(part), 2**shift) for part in (first[:count], first[count:]))
        weights = [[1.0, 0.0], [3.0, 3.0], [-1.0, -1.0]]
        network = hm.Network(
            [
                hm.FeedForward(weights, [4.0, 0.0, 0.0], [[1.0, 0.0, 0.0], [0.0] * 3], [0.0, float(large)]),
                hm.FeedForward(
                    np.array([[slope, Fraction(1)]] * 2, dtype=object),
                    [-4 * slope - large, gap - 4 * slope - large],
                    np.eye(2),
                    None,
                ),
            ]
        )
        found, exact = (hm.enumerate_regions(network, box, arithmetic=a) for a in ("certified", "exact"))
        assert np.array_equal(found.bits, exact.bits)
        assert hm.count_cells(network, box).n_zero > 0


def test_facets_that_are_dependent_prove_nothing():
    """A vertex that is named by the same facet twice is no vertex: every determinant vanishes there."""
    network = hm.Network.random_mlp([2, 4, 1], 0)
    machine = PlaneMachine(
        layers_of(network), hm.Box.cube(2, -4, 4), arithmetic="certified", store=False, sliver=0.0
    )
    machine.ladder.counts[MISSING] = 300
    assert machine.ladder.grow()
    machine.ladder.rungs.vertex.names[:4] = DOMAIN_SIDE, 0, DOMAIN_SIDE, 0
    assert ask(3, machine.program.net, machine._state, machine.ladder.rungs, 0, 0, -1) == OPEN


def test_balanced_residues_are_congruent_and_small():
    prime = next(primes_below(residue_kernels.TOP))
    values = [0.1, -3.0, 2.0**-1074, 1.7e308, Fraction(-5, 7)]
    found = Residues(as_exact(values, "x", ndim=1)).balanced(prime)
    assert np.abs(found).max() < prime / 2
    assert [int(v) % prime for v in found] == [
        residue(flint.fmpq(*v.as_integer_ratio()), prime) for v in values
    ]


@kernel
def dots(weights, path, primes, inverses, out):
    total = residue_kernels.dot(weights, 0, path, 0, len(weights) // residue_kernels.LANES, primes, inverses)
    residue_kernels.put(out, 0, residue_kernels.reduced(total, primes, inverses))


@pytest.mark.parametrize("count", [0, 1, 7, 59, 60, 61, 120, 121, 5000])
def test_sums_of_products_modulo_a_prime_are_exact(count):
    lanes = residue_kernels.LANES
    primes = np.array([*islice(primes_below(residue_kernels.TOP), lanes - 1), 1])
    rng, half, out = np.random.default_rng(count), primes // 2, np.full(lanes, np.nan)
    small = np.minimum(half, 5)
    a, b = (rng.choice([-half, half, small, -small], count).astype(float) for _ in range(2))
    dots(a.ravel(), b.ravel(), primes.astype(float), 1.0 / primes, out)
    for lane, prime in enumerate(primes.tolist()):
        total = sum(int(x) * int(y) for x, y in zip(a[:, lane], b[:, lane], strict=True))
        assert int(out[lane]) % prime == total % prime
        assert abs(out[lane]) <= prime / 2 + 1


def test_structured_networks_need_no_rationals():
    rng = np.random.default_rng(0)
    for _ in range(5):
        shapes = [(12, 2), (12, 12), (12, 12), (1, 12)]
        network = hm.Network.mlp([(integers(rng, *shape), integers(rng, shape[0])) for shape in shapes])
        count = hm.count_cells(network, hm.Box.cube(2, -4, 4))
        assert count.n_rational == 0
        assert count.n_cells == hm.count_cells(network, hm.Box.cube(2, -4, 4), arithmetic="exact").n_cells
        assert count.n_zero > 0


def physical(d, seed):
    """A network whose inputs are measured in thousands and thousandths, and the box in which they lie."""
    rng = np.random.default_rng(seed)
    one, zero = np.array([30_000.0, 3.2, 1e-3, 500.0])[:d], np.array([30_000.0, 0.0, 0.01, 600.0])[:d]
    weights = rng.standard_normal((5, d)) / one
    biases = rng.standard_normal(5) / 8 - weights @ zero
    rest = [(rng.standard_normal((5, 5)), rng.standard_normal(5) / 4), (np.ones((1, 5)), None)]
    return hm.Network.mlp([(weights, biases), *rest]), hm.Box(zero - one / 8, zero + one / 8)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_inputs_of_different_sizes_leave_nothing_to_rationals(d):
    for seed in range(6):
        network, box = physical(d, seed)
        found, exact = (hm.enumerate_regions(network, box, arithmetic=a) for a in ("certified", "exact"))
        assert hm.count_cells(network, box).n_rational == 0
        assert found.n_cells == exact.n_cells > 3
        assert np.array_equal(found.bits, exact.bits)
        assert found.n_regions == exact.n_regions
        for witness, i in zip(found.witnesses, range(found.n_cells), strict=True):
            assert np.array_equal(network.signature(witness).bits.ravel(), found.signature(i).bits.ravel())
        assert found.verify().ok


@pytest.mark.parametrize("d", [2, 3, 4])
def test_rows_rounded_from_pairs_stay_within_their_error_bounds(d):
    """Of a slice through physical units: its constants cancel in the first layer."""
    sharpened = 0
    for seed in range(4):
        network, box = physical(d, seed)
        centre = (box.low.floats + box.high.floats) / 2
        network = network.restrict(centre, np.diag(box.high.floats - centre))
        box = hm.Box.cube(d, -1, 1)
        kind = PlaneMachine if d == 2 else SpaceMachine
        machine = kind(layers_of(network), box, arithmetic="certified", store=False, sliver=0.0)
        units = np.ldexp(1.0, machine._units) if d > 2 else np.ones(d)
        worse = machine.errors[0, layer_kernels.PAIRS]
        sharpened += worse > 1.0
        while not machine.done:
            machine.advance(3)
            if machine.done:
                break
            for layer in range(layer_of(machine) + 1):
                here, error = machine.program.row(layer), machine.errors[layer]
                for i, row in enumerate(exact_rows(machine, layer)):
                    places = here.z_at + here.rows * np.arange(d + 1) + i
                    rungs = machine.ladder.rungs
                    row_of_pairs(d + 1, machine.program.net, machine.signs, rungs, layer, i)
                    for place, value, unit in zip(places, row, (*units, 1.0), strict=True):
                        exact = Fraction(int(value.p), int(value.q)) * Fraction(unit)
                        bound = error[layer_kernels.RC if place == places[-1] else layer_kernels.RA]
                        assert abs(Fraction(machine.path[place]) - exact) <= Fraction(bound)
                        pair = Fraction(rungs.pairs.high[place]) + Fraction(rungs.pairs.low[place])
                        most = Fraction(sign_kernels.FINER * max(1.0, worse)) * Fraction(bound)
                        assert abs(pair - exact) <= most
    assert sharpened > 0


def test_units_with_the_weights_of_others_are_listed():
    """Equal, opposite, and opposite but for a bias; fractions whose floats are equal are told apart."""
    weights = [[1.0, 2.0], [-1.0, -2.0], [0.0, 3.0], [1.0, 2.0], [-1.0, -2.0]]
    biases = [0.5, -0.5, 0.0, 0.5, 0.5]
    layers = layers_of(hm.Network([hm.FeedForward(weights, biases, np.ones((1, 5)), None)]))
    assert Program.of(layers).like[:5].tolist() == [0, 1, -1, 0, -1]
    close = np.array([[Fraction(1, 3)], [Fraction(1 / 3)], [-Fraction(1, 3)]], dtype=object)
    layers = layers_of(hm.Network([hm.FeedForward(close, [0.0] * 3, np.ones((1, 3)), None)]))
    assert Program.of(layers, columns=2).like[:3].tolist() == [0, -1, 1]
