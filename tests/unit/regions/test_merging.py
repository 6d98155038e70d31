"""Gluing: equality of maps proven by residues, held against rationals; regions held against brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from oracles.random_networks import instance
from oracles.rational_regions import enumerate_rationally

import hardmax as hm
from hardmax.compiling import kernel
from hardmax.networks.layers import layers_of
from hardmax.regions.maps import map_kernels
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.float_maps import PatternMaps, pattern_maps, projected_maps
from hardmax.regions.maps.merging import Fingerprints, Residues, equal_pairs, glued

SQUARE = hm.Box.cube(2, -4, 4)


def key(exact, cells, i):
    rows, denominator = exact.output(cells.bits[i], cells.routings[i])
    return [Fraction(int(v), denominator) for v in rows.entries()]


# Residues ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, 120, 3))
def test_residues_are_the_rational_maps_modulo_a_prime(number):
    one = instance(number)
    layers = layers_of(one.network)
    cells = hm.enumerate_regions(one.network, one.domain).cells
    exact, residues = ExactMaps(layers, one.domain), Residues(layers)
    prime = next(residues.primes())
    chosen = np.flatnonzero(cells.tied == 0)[::2]
    maps = residues.walk.residue_maps(residues.modulo(prime), cells.bits, cells.routings, chosen, prime)
    for place, i in enumerate(chosen.tolist()):
        expected = [v.numerator * pow(v.denominator, -1, prime) % prime for v in key(exact, cells, i)]
        assert maps[place].ravel().tolist() == expected


@pytest.mark.parametrize("number", range(1, 120, 3))
def test_equality_by_residues_is_equality(number):
    one = instance(number)
    layers = layers_of(one.network)
    cells = hm.enumerate_regions(one.network, one.domain).cells
    exact, residues = ExactMaps(layers, one.domain), Residues(layers)
    plain = np.flatnonzero(cells.tied == 0)
    if len(plain) < 2:
        return
    pairs = np.random.default_rng(number).choice(plain, (60, 2))
    same = residues.equal(cells.bits, cells.routings, pairs, bound=2 * residues.walk.entry_bound())
    assert same.tolist() == [key(exact, cells, i) == key(exact, cells, j) for i, j in pairs.tolist()]


@kernel
def _reduced(x, n, prime):
    map_kernels.reduce(x, 0, n, prime)


@kernel
def _summed(w, chosen, x, s, prime):
    map_kernels.add_residues(w, 0, s.shape[1], chosen, 0, len(chosen), x, 0, s, 0, prime)


@pytest.mark.parametrize("prime", [2**31 - 1, 2**31 - 19, 2**30 + 3, 3])
def test_residues_at_the_ends_of_their_range(prime):
    """Largest sums, and those next to a multiple of the prime, where a quotient in floats is off by one."""
    top = prime << 32
    multiples = [k * prime for k in (0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32)]
    values = sorted({v for m in multiples for v in (m - 1, m, m + 1) if 0 <= v < top})
    x = np.array([values, values[::-1]], dtype=np.uint64)
    expected = [[v % prime for v in row] for row in x.tolist()]
    _reduced(x, len(values), np.uint64(prime))
    assert x.tolist() == expected

    for n in (1, 2, 3, 17):
        w = np.full(5 * n, prime - 1, dtype=np.uint32)
        x = np.full((2, n), prime - 1, dtype=np.uint64)
        s = np.full((2, 5), top - 1, dtype=np.uint64)
        _summed(w, np.arange(n), x, s, np.uint64(prime))
        assert (s < np.uint64(top)).all()
        assert {v % prime for v in s.ravel().tolist()} == {(top - 1 + n * (prime - 1) ** 2) % prime}


@pytest.mark.parametrize("number", range(2, 120, 6))
def test_a_fingerprint_is_a_combination_of_the_map(number):
    one = instance(number)
    cells = hm.enumerate_regions(one.network, one.domain).cells
    prints = Fingerprints(ExactMaps(layers_of(one.network), one.domain))
    values = prints.of(cells)
    for i in range(0, cells.n, 5):
        assert int(values[i]) == prints._tied(cells.bits[i], cells.routings[i])  # in rationals


def test_a_multiple_of_one_prime_is_not_zero():
    """Two maps that differ by the first prime agree modulo it, and are told apart by the next."""
    residues = Residues(layers_of(hm.Network([hm.Affine([[1, 0]], [0])])))
    first = next(residues.primes())
    fold = hm.FeedForward([[1, 0]], [0], [[1.0]], [0])
    net = hm.Network([fold, hm.Affine([[first]], [0])])
    residues = Residues(layers_of(net))
    bits, none = np.array([[0], [1]], dtype=np.uint64), np.zeros((2, 0), dtype=np.int32)
    numbers = residues.modulo(first)
    assert (residues.walk.residue_maps(numbers, bits, none, np.arange(2), first) == 0).all()
    assert not residues.equal(bits, none, np.array([[0, 1]]), bound=float(2**33)).any()
    assert residues.primes_needed(2.0**33) == 2


def test_primes_that_divide_a_denominator_are_left_out():
    prime = 2**31 - 1
    net = hm.Network([hm.Affine([[Fraction(1, prime), 0]], [0])])
    residues = Residues(layers_of(net))
    chosen = list(islice(residues.primes(), 5))
    assert prime not in chosen
    assert all(p < 2**31 for p in chosen)
    assert len(set(chosen)) == 5


def test_the_primes_suffice():
    """Their product exceeds twice the scaled difference, whatever the bound."""
    net = hm.Network.random_mlp([2, 8, 8, 2], 0)
    residues = Residues(layers_of(net))
    denominator = 1
    for q in residues.denominators:
        denominator *= q
    for bound in (1e-12, 1.0, 1e12):
        product = 1
        for prime in islice(residues.primes(), residues.primes_needed(bound)):
            product *= prime
        assert product > 2 * denominator * Fraction(bound)


# Regions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, 300, 3))
def test_regions_of_random_networks(number):
    one = instance(number)
    found = hm.enumerate_regions(one.network, one.domain)
    expected = enumerate_rationally(one.network, one.domain).region_of_cell
    assert found.region_of_cell.tolist() == expected
    layers, cells = layers_of(one.network), found.cells
    exact = ExactMaps(layers, one.domain)
    projected = projected_maps(layers, cells.bits, cells.routings, cells.tied, exact)
    assert glued(cells, found.adjacency, projected, layers, exact, projected=True).tolist() == expected
    # floats that say nothing: everything is decided by residues
    blind = PatternMaps(projected.linear * 0, projected.offset * 0, np.full(cells.n, np.inf))
    assert glued(cells, found.adjacency, blind, layers, exact, projected=True).tolist() == expected


def test_a_network_that_folds_and_unfolds_is_one_region():
    """max(z, 0) - max(-z, 0) = z for every unit: many cells, one map."""
    rng = np.random.default_rng(0)
    blocks = []
    for _ in range(2):
        w, b, u = rng.standard_normal((12, 2)), rng.standard_normal(12), rng.standard_normal((2, 12))
        blocks.append(
            hm.FeedForward(np.vstack([w, -w]), np.concatenate([b, -b]), np.hstack([u, -u]), np.zeros(2))
        )
    found = hm.enumerate_regions(hm.Network(blocks), SQUARE)
    assert found.n_cells > 100
    assert found.n_regions == 1
    # spoiled in the last place of one weight, its unit makes two regions
    unit = next(u for u in range(12) if len(np.unique(found.relu_bits[:, 24 + u])) == 2)
    spoiled = blocks[1].w_out.floats.copy()
    spoiled[0, unit] = np.nextafter(spoiled[0, unit], 9)
    last = hm.FeedForward(blocks[1].w_in, blocks[1].b_in, spoiled, np.zeros(2))
    assert hm.enumerate_regions(hm.Network([blocks[0], last]), SQUARE).n_regions == 2


@pytest.mark.parametrize("hair", [Fraction(1, 10**30), Fraction(1, 10**300), 2.0**-52, 5e-324])
def test_maps_that_differ_by_a_hair_are_not_glued(hair):
    """Below the floats' resolution there are still two maps, above zero and below."""
    net = hm.Network([hm.FeedForward([[1, 0]], [0], [[hair]], [1]), hm.Affine([[1]], [0])])
    found = hm.enumerate_regions(net, SQUARE)
    assert found.n_cells == 2
    assert found.n_regions == 2
    none = hm.Network([hm.FeedForward([[1, 0]], [0], [[0]], [1])])
    assert hm.enumerate_regions(none, SQUARE).n_regions == 1


def test_equal_maps_far_apart_are_two_regions():
    """f = max(x - 1, 0) + max(-x - 1, 0) - max(-x - 1, 0) ... is zero left and right of a bump."""
    w = [[1, 0], [1, 0], [1, 0]]
    bump = hm.Network([hm.FeedForward(w, [1, 0, -1], [[1, -2, 1]], [0])])
    found = hm.enumerate_regions(bump, SQUARE)
    assert found.n_cells == 4
    assert found.region_of_cell.tolist() == [0, 1, 2, 3]
    assert np.array_equal(found.linear[0], found.linear[3])


def test_weights_beyond_the_floats():
    net = hm.Network.mlp([([[1e200, 0], [0, 1]], [0, 0]), ([[1e200, 1]], [0]), ([[0.0]], [3])])
    found = hm.enumerate_regions(net, SQUARE)
    assert found.n_regions == 1
    assert hm.enumerate_regions(hm.Network(net.blocks[:1]), SQUARE).n_regions == 4


def test_wide_outputs():
    rng = np.random.default_rng(1)
    net = hm.Network.random_mlp([2, 10, 10, 40], rng)
    found = hm.enumerate_regions(net, SQUARE)
    narrow = hm.enumerate_regions(hm.Network([*net.blocks, hm.Affine(np.eye(40)[:3], np.zeros(3))]), SQUARE)
    assert found.n_cells == narrow.n_cells
    assert np.array_equal(found.region_of_cell, narrow.region_of_cell)


def test_pairs_need_not_be_adjacent():
    net = hm.Network([hm.FeedForward([[1, 0], [0, 1]], [0, 0], [[1, 1]], [0])])
    found = hm.enumerate_regions(net, SQUARE)
    layers, cells = layers_of(net), found.cells
    exact = ExactMaps(layers, SQUARE)
    maps = pattern_maps(layers, cells.bits, cells.routings, cells.tied, exact)
    pairs = np.array([[0, 0], [0, 3], [2, 2]])
    assert equal_pairs(cells, pairs, maps, layers, exact).tolist() == [True, False, True]
