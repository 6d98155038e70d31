"""Keys of a head that tie on a whole layer cell: joined in the kernels, with their mean in all numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice, product
from math import lcm, log2, prod

import flint
import numpy as np
import pytest
from numba.core.caching import NullCache
from test_signs import exact_rows, layer_of, residue, row_modulo, row_of_pairs

import hardmax as hm
from hardmax.compiling import kernel
from hardmax.exact import double_double_kernels, residue_kernels
from hardmax.exact.residues import primes_below
from hardmax.networks.layers import layers_of
from hardmax.regions.engine import layer_kernels, sign_kernels
from hardmax.regions.engine.decide import CompiledLadder
from hardmax.regions.engine.sign_kernels import MISSING
from hardmax.regions.plane.machine import PlaneMachine
from hardmax.regions.search import integer_kernels
from hardmax.regions.search.machine import SearchMachine
from hardmax.regions.space.machine import SpaceMachine


def integers(rng, *shape, most=1):
    return rng.integers(-most, most + 1, shape).astype(float)


def tied_network(d, seed, *, thirds=False):
    """Attention behind maps of low rank, two or three layers of it, so that ties lie behind ties."""
    rng = np.random.default_rng([d, seed])
    e, blocks = 3, []
    low = integers(rng, e, 1) @ integers(rng, 1, d) if seed % 3 else integers(rng, e, d)
    blocks.append(hm.Affine(low, integers(rng, e)))
    for layer in range(2 + seed % 2):
        heads, keys = int(rng.integers(1, 3)), int(rng.integers(3, 7))
        scores = integers(rng, heads, keys, e)
        scores[:, rng.integers(keys)] = scores[:, 0]  # the same score twice: it counts twice in a mean
        mask = rng.random((heads, keys)) < 0.8
        mask[:, 0] = True
        outputs = integers(rng, heads, keys, e, most=2)
        if thirds:
            outputs = np.vectorize(lambda v: Fraction(int(v), 3))(outputs)
        biases = np.zeros((heads, keys)) if layer % 2 else integers(rng, heads, keys)
        blocks.append(hm.Attention(scores, biases, outputs, mask=mask, skip=bool(seed % 4)))
        if rng.random() < 0.5:
            w = [integers(rng, *shape) for shape in ((3, e), (3,), (e, 3), (e,))]
            blocks.append(hm.FeedForward(*w, skip=bool(rng.integers(2))))
    return hm.Network(blocks)


def machine_of(network, d, *, arithmetic="certified", store=False, search=False):
    kind = SearchMachine if search else PlaneMachine if d == 2 else SpaceMachine
    return kind(layers_of(network), hm.Box.cube(d, -3, 3), arithmetic=arithmetic, store=store, sliver=0.0)


def finished(machine):
    while not machine.done:
        machine.advance(10_000)
    return machine


def signatures(machine):
    cells = finished(machine).cells()
    order = np.lexsort([*cells.routings.T, *cells.bits.T])
    return cells.bits[order], cells.routings[order], cells.tied[order]


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("thirds", [False, True])
def test_rows_behind_ties_are_those_of_rationals(d, thirds):
    """Modulo primes, in double-double and in floats, at every layer on the path; and their denominators
    divide what the bound allows."""
    behind = 0
    for seed in range(12):
        machine = machine_of(tied_network(d, seed, thirds=thirds), d)
        units = [*np.ldexp(1.0, getattr(machine, "_units", np.zeros(d, dtype=np.int64))), 1.0]
        for _ in range(25):
            machine.advance(2)
            if machine.done:
                break
            machine.ladder.counts[MISSING] = 100
            machine.ladder.grow()
            rungs, net, errors = machine.ladder.rungs, machine.program.net, machine.errors
            finer = sign_kernels.FINER * max(1.0, errors[0, layer_kernels.PAIRS])
            for layer in range(layer_of(machine) + 1):
                here, error = machine.program.row(layer), errors[layer]
                rows = exact_rows(machine, layer)
                means = error[layer_kernels.MEANS]
                common = lcm(*(int(v.q) for row in rows for v in row))
                assert log2(common) <= rungs.denominators[layer] + means
                for i, row in enumerate(rows):
                    places = here.z_at + here.rows * np.arange(d + 1) + i
                    row_of_pairs(d + 1, net, machine.signs, rungs, layer, i)
                    for block in range(len(rungs.mod.primes)):
                        row_modulo(d + 1, net, machine.signs, rungs, block, layer, i)
                    for place, value, unit in zip(places, row, units, strict=True):
                        exact = Fraction(int(value.p), int(value.q)) * Fraction(unit)
                        bound = error[layer_kernels.RC if place == places[-1] else layer_kernels.RA]
                        assert abs(Fraction(machine.path[place]) - exact) <= Fraction(bound)
                        pair = Fraction(rungs.pairs.high[place]) + Fraction(rungs.pairs.low[place])
                        assert abs(pair - exact) <= Fraction(finer) * Fraction(bound)
                        for block, lane in np.ndindex(rungs.mod.primes.shape):
                            prime = int(rungs.mod.primes[block, lane])
                            expected = residue(flint.fmpq(*exact.as_integer_ratio()), prime)
                            found = rungs.mod.path[block, residue_kernels.LANES * place + lane]
                            assert int(found) % prime == expected
                behind += means > 0.1
    assert behind > 10


@pytest.mark.parametrize("d", [2, 3, 4])
def test_ties_need_no_rationals_and_give_the_cells_of_rationals(d):
    tied = 0
    for seed in range(24 if d < 4 else 10):
        network = tied_network(d, seed, thirds=seed % 5 == 0)
        machine, exact = (
            machine_of(network, d, arithmetic=arithmetic, store=True) for arithmetic in ("certified", "exact")
        )
        for found, expected in zip(signatures(machine), signatures(exact), strict=True):
            assert np.array_equal(found, expected)
        assert machine.n_rational == 0
        tied += int(machine.cells().tied.sum())
    assert tied > 5


@kernel
def row_in_units(n, net, units, path, errors, code, out):
    return integer_kernels.whole_row(n, net, units, path, errors, code, 1, -1, out)


def row_of_whole_numbers(machine, layer, i, j):
    """Row i of a fold layer, or j minus i of a layer of heads, as the search knows it; None if it does
    not."""
    out, here, error = np.zeros(machine.n), machine.program.row(layer), machine.errors[layer]
    code = (layer << 54) | ((i << 19 | j) if here.heads else i << 38)
    if not row_in_units(
        machine.n, machine.program.net, machine._units, machine.path, machine.errors, code, out
    ):
        return None
    table = machine._units.layers[layer]
    multiple = error[layer_kernels.MULTIPLE] * table[integer_kernels.DENOMINATOR]
    return [Fraction(v) * Fraction(table[integer_kernels.Z_UNIT]) / Fraction(multiple) for v in out]


@pytest.mark.parametrize("thirds", [False, True])
def test_the_search_joins_keys_of_whole_numbers(thirds):
    """Rows that are called exact or whole are those of rationals, also behind means; no head needs
    rationals."""
    behind = odd = 0
    for d, seed in product((2, 3, 7), range(12)):
        network = tied_network(d, seed, thirds=thirds)
        machine, exact = (
            machine_of(network, d, arithmetic=arithmetic, store=True, search=True)
            for arithmetic in ("certified", "exact")
        )
        while not machine.done:
            machine.advance(3)
            for layer in range(0 if machine.done else layer_of(machine) + 1):
                here, error = machine.program.row(layer), machine.errors[layer]
                rows = [[Fraction(int(w.p), int(w.q)) for w in row] for row in exact_rows(machine, layer)]
                for i, row in enumerate(rows):
                    found = [Fraction(v) for v in machine.path[here.z_at + here.rows * np.arange(d + 1) + i]]
                    off = [abs(v - w) for v, w in zip(found, row, strict=True)]
                    assert max(off[:-1]) <= Fraction(error[layer_kernels.RA])
                    assert off[-1] <= Fraction(error[layer_kernels.RC])
                    if error[layer_kernels.ROWS_EXACT]:
                        assert max(off) == 0
                        behind += error[layer_kernels.MEANS] > 0.1
                    if i > 0 or not here.heads:
                        if here.kind == layer_kernels.AFFINE:
                            continue
                        first = rows[0] if here.heads else [0] * (d + 1)
                        whole = row_of_whole_numbers(machine, layer, 0 if here.heads else i, i)
                        assert whole == [v - w for v, w in zip(row, first, strict=True)]
                        odd += error[layer_kernels.MULTIPLE] % 3 == 0
        for found, expected in zip(signatures(machine), signatures(exact), strict=True):
            assert np.array_equal(found, expected)
        assert machine.n_rational == 0
    assert behind > 0 or thirds
    assert odd > 50


@kernel
def in_units(value, off, e, u):
    return integer_kernels.whole_number(value, off, e, u)


def test_whole_numbers_are_only_those_that_floats_tell():
    """With a unit of 1/4 behind a mean of three keys, numbers are multiples of a twelfth."""
    e, u = np.zeros(layer_kernels.ERRORS), np.zeros(7)
    e[layer_kernels.MULTIPLE], u[integer_kernels.Z_UNIT], u[integer_kernels.DENOMINATOR] = 3.0, 0.25, 1.0
    assert in_units(7 / 12, 1e-16, e, u) == 7
    assert in_units(7 / 12 + 0.03, 0.04, e, u) == 7
    assert np.isnan(in_units(7 / 12, 0.042, e, u))  # half a unit
    assert in_units(-1e-17, 1e-16, e, u) == 0
    assert np.isnan(in_units(2.0**49 / 3, 0.0, e, u))  # the last rounding is as large as the unit
    u[integer_kernels.DENOMINATOR] = 5.0
    assert in_units(7 / 60, 1e-16, e, u) == 7
    for change in ({"multiple": 0.0}, {"unit": 0.0}, {"multiple": 2.0**31}):
        e[layer_kernels.MULTIPLE] = change.get("multiple", 3.0)
        u[integer_kernels.Z_UNIT] = change.get("unit", 0.25)
        assert np.isnan(in_units(0.0, 0.0, e, u))


def test_keys_that_all_agree_win_together():
    """One cell per layer of heads: the mean of all outputs, which counts keys of one score as often as they
    occur."""
    scores = [[[0.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, -2.0]]]
    outputs = [[[1.0, 0.0], [0.0, 0.0], [3.0, 0.0], [3.0, 0.0]]]
    flat = hm.Affine([[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0])
    network = hm.Network([flat, hm.Attention(scores, None, outputs, skip=False)] * 2)
    found = hm.enumerate_regions(network, hm.Box.cube(2, -1, 1))
    assert found.n_cells == 1
    assert found.routings.tolist() == [[0, 0]]
    assert found[0].offset.tolist() == [7 / 4, 0.0]
    assert hm.count_cells(network, hm.Box.cube(2, -1, 1)).n_rational == 0


SHARE = 4099  # prime; keys that tie
OTHERS = 4093, 4091  # primes; those of more heads


def gap_behind_means(d, count, shift, shares):
    """A unit that is a gap everywhere: a product of primes over 2^shift and over the numbers of tied keys.
    Floats do not see it, because a large number cancels."""
    large, numerator = 2**30, prod(islice(primes_below(residue_kernels.TOP), count))
    parts, rest = [], numerator
    for i, a in enumerate(shares[:-1]):  # rest / (a b) = x / a + y / b, where b is the product of the others
        b = prod(shares[i + 1 :])
        parts.append(rest * pow(b, -1, a) % a)
        rest = (rest - b * parts[-1]) // a
    parts.append(rest)
    lift, n = np.eye(d + 1, d), max(shares)
    scores = np.zeros((len(shares), n, d + 1))
    scores[:, 1:, d] = 1.0  # of a coordinate that is zero everywhere
    biases = np.where(np.arange(n) < np.array(shares)[:, None], 0.0, -1.0)
    outputs = np.full((len(shares), n, d + 1), Fraction(0))
    outputs[:, :, d] = Fraction(large)
    outputs[:, 0, d] += [Fraction(part, 2**shift) for part in parts]
    return hm.Network(
        [
            hm.Affine(lift, np.zeros(d + 1)),
            hm.Attention(scores, biases, outputs, skip=True),
            hm.FeedForward(np.eye(d + 1)[d:], [-float(large * len(shares))], [[1.0]], None),
        ]
    )


def mistakes(d, count, shares=(SHARE,)):
    """For how many shifts the unit is called off, which is on."""
    wrong = 0
    first = 24 * count - 12 * (len(shares) - 1)  # before it, floats see the gap
    for shift in range(first, first + 40):
        machine = machine_of(gap_behind_means(d, count, shift, shares), d, store=True)
        machine.ladder.counts[MISSING] = 24 * count + 24
        assert machine.ladder.grow()  # before double-double is asked
        bits, routings, tied = signatures(machine)
        assert (routings.tolist(), tied.tolist()) == ([[0] * len(shares)], [1])
        wrong += bits.tolist() != [[1]]
    return wrong


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_the_number_of_tied_keys_counts_in_denominators(d, count):
    assert mistakes(d, count) == 0


def test_the_numbers_of_keys_that_tie_in_several_heads_multiply_in_denominators():
    assert mistakes(2, residue_kernels.LANES, (SHARE, *OTHERS)) == 0


@pytest.mark.parametrize("forgotten", [log2(SHARE), residue_kernels.BITS])
def test_that_test_sees_a_bound_that_does_not_grow_and_a_prime_too_few(forgotten, monkeypatch):
    """Denominators without the share of the tied keys, or as if one more prime had vanished."""
    tables = CompiledLadder._tables

    def smaller(self, primes):
        rungs = tables(self, primes)
        return rungs._replace(denominators=rungs.denominators - forgotten)

    monkeypatch.setattr(CompiledLadder, "_tables", smaller)
    assert mistakes(2, residue_kernels.LANES) > 0  # one prime of a block more would see it


@kernel
def inverse_of(number, prime):
    return residue_kernels.reciprocal(number, prime)


@kernel
def quotient_of(a, b):
    return double_double_kernels.quotient(a, b)


for _kernel in (inverse_of, quotient_of):
    _kernel._cache = NullCache()  # the stamp of a cache here would not see edits of the sources


def test_reciprocals():
    for prime in islice(primes_below(residue_kernels.TOP), 5):
        for number in (1, 2, 3, 7, 4099, 2**19, prime - 1):
            found = inverse_of(number, float(prime))
            assert int(found) * number % prime == 1
            assert abs(found) <= prime / 2 + 1
    for a, b in ((1.0, 3.0), (4098.0, 4099.0), (1.0, 7.0), (5.0, 5.0)):
        high, low = quotient_of(a, b)
        assert abs(Fraction(high) + Fraction(low) - Fraction(a) / Fraction(b)) < Fraction(1, 2**104)


def test_a_run_that_is_saved_behind_a_tie_goes_on():
    network = tied_network(2, 7)
    whole = signatures(machine_of(network, 2, store=True))
    machine = machine_of(network, 2, store=True)
    while not machine.done:
        machine.advance(6)  # primes are not saved, and a step that asks for them counts
        state = {name: array.copy() for name, array in machine.state().items()}
        machine = machine_of(network, 2, store=True)
        machine.restore(state)
    for found, expected in zip(signatures(machine), whole, strict=True):
        assert np.array_equal(found, expected)
