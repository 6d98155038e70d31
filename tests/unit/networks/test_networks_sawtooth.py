"""The sawtooth network of the tropical paper, Theorem V.7, in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax import errors
from hardmax.networks.constructions import (
    genuine_sawtooth,
    narrow_sawtooth,
    rounding_temperature,
    sawtooth_network,
)

HALF = Fraction(1, 2)


def tooth(x, n_tokens, teeth):
    """One layer in one coordinate, from its description: N copies of a sawtooth with w teeth, on [0, 1]."""
    z = n_tokens * x - min(int(n_tokens * x), n_tokens - 1)
    t = 2 * teeth * z
    k = min(int(t), 2 * teeth - 1)
    return t - k if k % 2 == 0 else k + 1 - t


def sawtooth(point, n_tokens, teeth, depth):
    values = list(point)
    for _ in range(depth):
        values = [tooth(x, n_tokens, teeth) for x in values]
    return tuple(values)


def middles(pieces):
    return [Fraction(2 * i + 1, 2 * pieces) for i in range(pieces)]


SIZES = [(1, 3, 2, 1), (1, 3, 2, 2), (1, 1, 1, 3), (2, 3, 2, 1), (2, 2, 1, 2), (3, 2, 1, 1)]


def points(d, pieces, count=150):
    """The middle of every piece, or of some of them, in a rational place off the middle."""
    every = list(product(middles(pieces), repeat=d))
    step = max(1, len(every) // count)
    return [tuple(v + Fraction(1, 5 * pieces) for v in point) for point in every[::step]]


@pytest.mark.parametrize(("d", "n_tokens", "teeth", "depth"), SIZES)
@pytest.mark.parametrize("variant", ["plain", "ffn_skip", "genuine", "narrow", "rounded"])
def test_the_network_is_the_sawtooth(d, n_tokens, teeth, depth, variant):
    net = sawtooth_network(d, n_tokens, teeth, depth, variant=variant)
    assert (net.d, net.d_out) == (d, d)
    for point in points(d, (2 * teeth * n_tokens) ** depth):
        assert net.exact_value(point) == sawtooth(point, n_tokens, teeth, depth)


@pytest.mark.parametrize(("d", "n_tokens", "teeth", "depth"), [(2, 3, 2, 2), (3, 2, 1, 1), (3, 2, 2, 1)])
def test_the_bias_free_network_is_the_sawtooth_on_the_slice(d, n_tokens, teeth, depth):
    net = sawtooth_network(d, n_tokens, teeth, depth, variant="bias_free")
    assert all(block.biases.all_zero() for block in net.blocks[::2])
    assert [block.heads for block in net.blocks[::2]] == [d - 1] * depth
    assert [block.width for block in net.blocks[1::2]] == [2 * teeth * (d - 1)] * depth
    for point in points(d - 1, (2 * teeth * n_tokens) ** depth):
        assert net.exact_value([*point, 1]) == (*sawtooth(point, n_tokens, teeth, depth), 1)


@pytest.mark.parametrize("variant", ["plain", "ffn_skip", "genuine", "narrow", "rounded"])
@pytest.mark.parametrize(
    ("d", "n_tokens", "teeth", "depth"), [(1, 3, 2, 2), (2, 2, 1, 1), (2, 3, 2, 1), (1, 2, 1, 3)]
)
def test_every_piece_has_a_signature_and_a_map_of_its_own(d, n_tokens, teeth, depth, variant):
    pieces = (2 * teeth * n_tokens) ** depth
    net = sawtooth_network(d, n_tokens, teeth, depth, variant=variant)
    centres = np.array(list(product(middles(pieces), repeat=d)), dtype=float)
    seen = net.signature(centres)
    assert (
        len({row.tobytes() + bits.tobytes() for row, bits in zip(seen.routings, seen.bits, strict=True)})
        == pieces**d
    )
    maps = set()
    for x in centres:
        linear, offset = net.affine_at(x)
        assert np.abs(linear) == pytest.approx(pieces * np.eye(d), rel=1e-12)
        maps.add((*np.round(linear.ravel()), *np.round(offset, 6)))
    assert len(maps) == pieces**d


def test_the_map_is_continuous_where_the_routing_changes():
    """s(0) = s(1): on a wall, the mean over the tied keys is not the limit, but both sides agree."""
    net = sawtooth_network(1, 3, 2, 1)
    tiny = Fraction(1, 10**9)
    for wall in (Fraction(1, 3), Fraction(2, 3)):
        left, right = net.exact_value([wall - tiny])[0], net.exact_value([wall + tiny])[0]
        assert left == right == 12 * tiny


@pytest.mark.parametrize(
    ("d", "n_tokens", "teeth", "depth"), [(1, 3, 2, 3), (2, 3, 1, 2), (2, 2, 2, 2), (3, 2, 1, 2)]
)
def test_the_genuine_transformer_is_a_full_forward_pass(d, n_tokens, teeth, depth):
    """All N + 1 tokens pass through all layers with shared weights; plain loops over fractions."""
    layer, start = genuine_sawtooth(d, n_tokens, teeth)
    net = sawtooth_network(d, n_tokens, teeth, depth, variant="genuine")
    ideal = sawtooth_network(d, n_tokens, teeth, depth)
    width = d + 3
    assert start.shape == (n_tokens + 1, width)
    assert max(block.d_in for block in net.blocks[1:]) == width
    rng = np.random.default_rng(0)
    for _ in range(6):
        x = [Fraction(int(v), 1000) for v in rng.integers(0, 1001, d)]
        tokens = [list(token) for token in start]
        tokens[-1][:d] = x
        for _ in range(depth):
            tokens = full_layer(layer, tokens)
        assert [token[d:] for token in tokens] == [list(token[d:]) for token in start]  # keys never change
        assert tuple(tokens[-1][:d]) == net.exact_value(x)
        if all(v.denominator > n_tokens for v in x):  # off the walls of the first layer
            assert tuple(tokens[-1][:d]) == ideal.exact_value(x)


@pytest.mark.parametrize(
    ("d", "n_tokens", "teeth", "depth"),
    [(1, 1, 1, 2), (1, 3, 2, 3), (2, 3, 1, 2), (2, 2, 3, 2), (3, 2, 1, 2)],
)
def test_the_narrow_transformer_is_a_full_forward_pass(d, n_tokens, teeth, depth):
    """Width d + 1: the moving token has a key of its own here; the context stays as it is all the same."""
    layer, start = narrow_sawtooth(d, n_tokens, teeth)
    net = sawtooth_network(d, n_tokens, teeth, depth, variant="narrow")
    assert start.shape == (n_tokens + 2, d + 1)
    assert max(block.d_in for block in net.blocks[1:]) == d + 1
    assert layer.w_in.shape == (d * (2 * teeth + 1) + 2, d + 1)
    rng = np.random.default_rng(0)
    ends = [Fraction(0), Fraction(1)]
    for k in range(8):
        x = (
            [ends[k] for _ in range(d)]
            if k < 2
            else [Fraction(int(v), 1009) for v in rng.integers(0, 1010, d)]
        )
        tokens = [list(token) for token in start]
        tokens[-1][:d] = [2 + n_tokens * v for v in x]
        for _ in range(depth):
            tokens = full_layer(layer, tokens)
            assert tokens[:-1] == [list(token) for token in start[:-1]]
        found = tuple((v - 2) / n_tokens for v in tokens[-1][:d])
        assert found == net.exact_value(x) == sawtooth(x, n_tokens, teeth, depth)


@pytest.mark.parametrize(
    ("d", "n_tokens", "teeth", "depth"),
    [
        (1, 2, 1, 4),
        (1, 3, 2, 2),
        (1, 5, 1, 2),
        (1, 7, 3, 1),
        (2, 2, 1, 2),
        (2, 3, 2, 1),
        (2, 4, 1, 1),
        (2, 5, 1, 1),
    ],
)
def test_the_narrow_transformer_has_all_regions(d, n_tokens, teeth, depth):
    net = sawtooth_network(d, n_tokens, teeth, depth, variant="narrow")
    count = hm.count_regions(net, hm.Box.cube(d, 0, 1))
    assert count.complete
    assert count.exact
    assert count.n_regions == count.n_cells == (2 * teeth * n_tokens) ** (d * depth)


@pytest.mark.parametrize(
    ("d", "n_tokens", "teeth", "depth"), [(1, 2, 2, 3), (1, 4, 2, 2), (2, 2, 2, 1), (1, 1, 1, 3)]
)
def test_the_rounded_network_keeps_its_values_at_a_temperature(d, n_tokens, teeth, depth):
    """All pieces none of whose layers touches a wall between two keys survive, with the same output."""
    net = sawtooth_network(d, n_tokens, teeth, depth, variant="rounded")
    pieces = 2 * teeth * n_tokens
    centres = np.array(list(product(middles(pieces**depth), repeat=d)), dtype=float)
    safe = np.ones(len(centres), dtype=bool)
    x = centres.copy()
    for _ in range(depth):
        branch = np.floor(x * pieces).astype(int)
        wall = np.isin(branch % (2 * teeth), [0, 2 * teeth - 1]) & (branch > 0) & (branch < pieces - 1)
        safe &= ~(wall & (n_tokens > 1)).any(axis=1)
        x = np.where(branch % 2 == 0, pieces * x - branch, branch + 1 - pieces * x)
    assert safe.sum() == (pieces - 2 * (n_tokens - 1)) ** (d * depth)
    temperature = min(rounding_temperature(n_tokens, teeth), 1.0)
    found = hm.temperature.surviving_cells(net, centres, temperature)
    assert found.kept[safe].all()
    assert found.output_error[safe].max() < 1e-9
    assert hm.temperature.surviving_cells(net, centres, temperature / 2).kept[safe].all()
    if n_tokens > 1:  # far above it the same pieces are lost
        assert not hm.temperature.surviving_cells(net, centres, 50 * temperature).kept[safe].all()


def full_layer(layer, tokens):
    """One layer on a whole sequence of lists of fractions, written as plainly as possible."""

    def times(matrix, vector):
        return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]

    after = []
    for token in tokens:
        y = list(token)
        for h in range(len(layer.w_q)):
            query = times(layer.w_q[h], token)
            scores = [
                sum(a * b for a, b in zip(times(layer.w_k[h], other), query, strict=True)) for other in tokens
            ]
            tied = [j for j, score in enumerate(scores) if score == max(scores)]
            values = [times(layer.w_o[h], times(layer.w_v[h], tokens[j])) for j in tied]
            y = [a + sum(v[i] for v in values) / len(tied) for i, a in enumerate(y)]
        hidden = [max(Fraction(0), z) for z in times(layer.w_in, y)]
        after.append(times(layer.w_out, hidden))
    return after


def test_the_shared_layer_agrees_with_plain_loops():
    layer, tokens = genuine_sawtooth(2, 3, 1)
    tokens = tokens.copy()
    tokens[-1, :2] = [Fraction(1, 7), Fraction(5, 9)]
    assert layer(tokens).tolist() == full_layer(layer, tokens.tolist())


def test_the_genuine_transformer_has_no_biases_and_never_looks_at_itself():
    net = sawtooth_network(2, 3, 2, 2, variant="genuine")
    for block in net.blocks[1:-1]:
        assert (block.biases if hasattr(block, "biases") else block.b_in).all_zero()
    x = np.random.default_rng(0).uniform(0, 1, (1000, 2))
    assert net.signature(x).routings.max() == 2  # of keys 0 to 3, the last of which is the token itself


def test_weights_are_fractions_and_the_description_says_what_it_is():
    net = sawtooth_network(2, 3, 2, 1)
    assert net.blocks[0].scores.fractions[0, 0].tolist() == [Fraction(1, 6), 0]
    assert net.description["variant"] == "plain"


@pytest.mark.parametrize(
    ("arguments", "variant", "words"),
    [
        ((0, 1, 1, 1), "plain", "d must be a whole number of at least 1"),
        ((1, 0, 1, 1), "plain", "n_tokens"),
        ((1, 1, 0, 1), "plain", "teeth"),
        ((1, 1, 1, 0), "plain", "depth"),
        ((1, 1, 1, 1), "bias-free", "variant must be one of plain"),
        ((1, 1, 1, 1), "bias_free", "d must be at least 2"),
    ],
)
def test_refusals(arguments, variant, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        sawtooth_network(*arguments, variant=variant)
