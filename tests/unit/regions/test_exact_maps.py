"""Maps of cells, in rationals and in floats, held against the forward pass and against each other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles.random_networks import instance
from oracles.rational_regions import exact_forward

import hardmax as hm
from hardmax.networks.layers import ArgmaxLayer, ReluLayer, layers_of
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.float_maps import Walk, pattern_maps, projected_maps

SQUARE = hm.Box.cube(2, -4, 4)


def packed(bits) -> np.ndarray:
    words = np.zeros(max(1, -(-len(bits) // 64)), dtype=np.uint64)
    for unit, on in enumerate(bits):
        words[unit // 64] |= np.uint64(int(on) << (unit % 64))
    return words


def signature_at(net, point):
    routings, bits, value = exact_forward(net, point)
    return packed(bits), np.array(routings, dtype=np.int32), value


def random_point(rng):
    return [Fraction(int(v), 997) for v in rng.integers(-3000, 3000, 2)]


def value_at(rows, denominator, point):
    return [(int(a) * point[0] + int(b) * point[1] + int(c)) / denominator for a, b, c in rows.tolist()]


def tied_cells(exact, layers, bits, routings) -> int:
    return int(
        any(
            len(exact.tied_keys(number, head, bits, routings)) > 1
            for number, layer in enumerate(layers)
            if isinstance(layer, ArgmaxLayer)
            for head in range(layer.heads)
        )
    )


# In rationals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(60))
def test_the_map_of_a_signature_gives_the_value_of_the_network(number):
    net = instance(number).network
    exact = ExactMaps(layers_of(net), SQUARE)
    rng = np.random.default_rng(number)
    for _ in range(6):
        point = random_point(rng)
        bits, routings, value = signature_at(net, point)
        rows, denominator = exact.output(bits, routings)
        assert denominator > 0
        assert value_at(rows, denominator, point) == list(value)


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_lines_are_positive_multiples_of_what_they_stand_for(number):
    net = instance(number).network
    layers = layers_of(net)
    exact = ExactMaps(layers, SQUARE)
    point = random_point(np.random.default_rng(number))
    bits, routings, _ = signature_at(net, point)
    for number_, layer in enumerate(layers):
        if not isinstance(layer, ReluLayer | ArgmaxLayer):
            continue
        rows, denominator = exact.entering(number_, bits, routings)
        y = value_at(rows, denominator, point)
        if isinstance(layer, ReluLayer):
            if layer.scores is None:
                z = [v + Fraction(*_ratio(layer.biases, i)) for i, v in enumerate(y)]
            else:
                z = _scores(layer, y)
            lines = [exact.line(number_, i, 0, 0, bits, routings) for i in range(layer.units)]
        else:
            s = _scores(layer, y)
            pairs = [(a, a + 1) for a in range(len(s) - 1)]
            z = [s[b] - s[a] for a, b in pairs]
            lines = [exact.line(number_, 0, a, b, bits, routings) for a, b in pairs]
        at_point = [a * point[0] + b * point[1] + c for a, b, c in lines]
        ratios = {v / w for v, w in zip(at_point, z, strict=True) if w != 0}
        assert [v == 0 for v in at_point] == [w == 0 for w in z]
        assert len(ratios) <= 1  # one denominator for a whole layer
        assert all(ratio > 0 for ratio in ratios)
        assert exact.lines(number_, bits, routings)[0] is not None


def _ratio(array, index):
    value = array.rational(index)
    return int(value.p), int(value.q)


def _scores(layer, y):
    return [
        sum(
            (Fraction(int(w.p), int(w.q)) * v for w, v in zip(layer.scores.rational_row(i), y, strict=True)),
            Fraction(*_ratio(layer.biases, i)),
        )
        for i in range(layer.scores.shape[0])
    ]


def test_entries_beyond_the_layer_are_not_looked_at():
    net = hm.Network.random(2, 4, 2, 2, 70, np.random.default_rng(1))  # 140 units: words shared by two layers
    layers = layers_of(net)
    exact, other = ExactMaps(layers, SQUARE), ExactMaps(layers, SQUARE)
    bits, routings, _ = signature_at(net, [Fraction(1, 3), Fraction(1, 5)])
    changed_bits, changed_routings = bits.copy(), routings.copy()
    changed_bits[1] ^= np.uint64(1 << 10)  # unit 74, the fifth of the second feed-forward block
    changed_bits[2] ^= np.uint64(5)
    changed_routings[2:] = (changed_routings[2:] + 1) % 4
    for layer in range(3):
        assert exact.entering(layer, bits, routings) == other.entering(layer, changed_bits, changed_routings)
        assert exact.entering(layer, bits, routings) == exact.entering(layer, changed_bits, changed_routings)
    assert exact.output(bits, routings) != exact.output(changed_bits, routings)


def test_a_small_memory_changes_nothing():
    net = hm.Network.random(2, 5, 2, 3, 9, np.random.default_rng(2))
    layers = layers_of(net)
    roomy, tight = ExactMaps(layers, SQUARE), ExactMaps(layers, SQUARE, remembered=2)
    rng = np.random.default_rng(0)
    for _ in range(30):
        bits, routings, _ = signature_at(net, random_point(rng))
        assert roomy.output(bits, routings) == tight.output(bits, routings)
    assert len(tight._hidden) <= 2


def test_keys_that_tie_on_a_cell_share_by_their_number():
    """Three keys see only x; the first is there twice. On the half-plane where 0, 1 and 2 win they share."""
    flat = hm.Affine([[1, 0]], [0])
    scores = [[[1], [1], [1], [-1]]]
    biases = [[0, 0, 0, 0]]
    outputs = [[[0], [3], [6], [100]]]
    split = hm.Affine([[1, 0], [0, 0]], [0, 0])  # the second coordinate is lost, so keys differing there tie
    two = hm.Attention([[[1, 5], [1, 5], [1, 7], [-1, 0]]], None, [[[0], [3], [9], [100]]], skip=False)
    net = hm.Network([split, two])
    exact = ExactMaps(layers_of(net), SQUARE)
    bits, routings = packed([]), np.array([0], dtype=np.int32)
    assert exact.tied_keys(1, 0, bits, routings) == [0, 1]  # compiled keys: {0, 1} and {2}
    rows, denominator = exact.output(bits, routings)
    assert Fraction(int(rows[0, 2]), denominator) == 4  # (0 + 3 + 9) / 3, not the mean of 1.5 and 9
    same = hm.Network([flat, hm.Attention(scores, biases, outputs, skip=False)])
    assert exact_forward(same, [1, 0])[2] == [3]
    rows, denominator = ExactMaps(layers_of(same), SQUARE).output(bits, routings)
    assert Fraction(int(rows[0, 2]), denominator) == 3


def test_sides_of_the_domain():
    box = hm.Box([Fraction(1, 3), 0], [1, Fraction(5, 2)])
    exact = ExactMaps(layers_of(hm.Network([hm.Affine([[1, 0]], [0])])), box)
    assert [exact.domain_line(i) for i in range(4)] == [(-1, 0, 1), (0, -2, 5), (3, 0, -1), (0, 1, 0)]


# In floats --------------------------------------------------------------------------------------


def maps_of(net, domain=SQUARE):
    found = hm.enumerate_regions(net, domain)
    layers, cells = layers_of(net), found.cells
    exact = ExactMaps(layers, domain)
    return layers, cells, exact, pattern_maps(layers, cells.bits, cells.routings, cells.tied, exact)


@pytest.mark.parametrize("number", range(0, 120, 2))
def test_float_maps_are_as_close_as_they_say(number):
    one = instance(number)
    layers, cells, exact, maps = maps_of(one.network, one.domain)
    top = Walk(layers).entry_bound()
    for i in range(cells.n):
        rows, denominator = exact.output(cells.bits[i], cells.routings[i])
        for r, row in enumerate(rows.tolist()):
            for value, entry in zip([*maps.linear[i, r], maps.offset[i, r]], row, strict=True):
                true = Fraction(int(entry), denominator)
                assert abs(Fraction(value) - true) <= Fraction(maps.error[i])
                assert cells.tied[i] or abs(true) <= Fraction(top)
        assert cells.tied[i] == tied_cells(exact, layers, cells.bits[i], cells.routings[i])


def test_float_maps_depend_on_the_signature_only():
    net = hm.Network.random(2, 6, 2, 2, 100, np.random.default_rng(3))
    layers, cells, exact, maps = maps_of(net)
    assert cells.n > 500
    for chosen in (np.arange(cells.n)[::7], np.random.default_rng(0).permutation(cells.n)[:300]):
        again = pattern_maps(layers, cells.bits[chosen], cells.routings[chosen], cells.tied[chosen], exact)
        assert np.array_equal(again.linear, maps.linear[chosen])
        assert np.array_equal(again.offset, maps.offset[chosen])


def test_errors_of_a_deep_network_stay_small():
    net = hm.Network.random_mlp([2, 32, 32, 32, 32, 3], np.random.default_rng(0))
    *_, maps = maps_of(net)
    assert maps.error.max() < 1e-11


def test_overflow_is_said():
    net = hm.Network.mlp([([[1e200, 0], [0, 1]], [0, 0]), ([[1e200, 1]], [0])])
    *_, maps = maps_of(net)
    assert np.isinf(maps.error).any()


def test_projections_are_combinations_of_the_rows():
    net = instance(7).network
    layers, cells, exact, _ = maps_of(net, instance(7).domain)
    wide = hm.Network([*net.blocks, hm.Affine(np.ones((12, net.d_out)), np.arange(12.0))])
    maps = projected_maps(
        layers_of(wide), cells.bits, cells.routings, cells.tied, ExactMaps(layers_of(wide), SQUARE)
    )
    assert maps.linear.shape == (cells.n, 2, 2)
    ones = pattern_maps(layers, cells.bits, cells.routings, cells.tied, exact).linear.sum(axis=1)
    # every row of the wide network has the same slope, so both projections are multiples of it
    cross = maps.linear[:, :, 0] * ones[:, None, 1] - maps.linear[:, :, 1] * ones[:, None, 0]
    assert np.abs(cross).max() <= 1e-9 * (1 + np.abs(ones).max()) ** 2
