"""Networks: the forward pass against plain loops and rationals, signatures, affine maps, slices, refusals."""

from __future__ import annotations

import resource
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax import errors
from hardmax.networks.blocks import Affine, Attention, FeedForward
from hardmax.networks.network import Network
from hardmax.networks.signatures import pack_bits, unpack_bits

# ----------------------------------------------------------------------------------------------
# The same forward pass in plain Python, number by number; with fractions it is exact
# ----------------------------------------------------------------------------------------------


def numbers(array):
    """The exact numbers of an array as nested lists of fractions."""
    source = array.floats if array.fractions is None else array.fractions
    return np.array([Fraction(v) for v in source.flat], dtype=object).reshape(source.shape).tolist()


def dot(u, v):
    return sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0))


def plain_block(block, x):
    """Output, routings and bits of one block at one point of fractions, and whether anything was a tie."""
    routings, bits, tie = [], [], False
    if isinstance(block, Affine):
        y = [dot(row, x) + b for row, b in zip(numbers(block.w), numbers(block.b), strict=True)]
        return y, routings, bits, tie
    if isinstance(block, FeedForward):
        identity = [[Fraction(int(i == j)) for j in range(block.d_in)] for i in range(block.d_in)]
        w_in = identity if block.w_in is None else numbers(block.w_in)
        z = [dot(row, x) + b for row, b in zip(w_in, numbers(block.b_in), strict=True)]
        bits, tie = [value > 0 for value in z], 0 in z
        active = [max(value, Fraction(0)) for value in z]
        added = [
            dot(row, active) + b for row, b in zip(numbers(block.w_out), numbers(block.b_out), strict=True)
        ]
    else:
        scores, biases, outputs = numbers(block.scores), numbers(block.biases), numbers(block.outputs)
        added = [Fraction(0)] * block.d_out
        for h in range(block.heads):
            s = {j: dot(scores[h][j], x) + biases[h][j] for j in range(block.n_tokens) if block.mask[h, j]}
            tied = [j for j in s if s[j] == max(s.values())]
            routings.append(tied[0])
            tie = tie or len(tied) > 1
            for i in range(block.d_out):
                added[i] += sum(outputs[h][j][i] for j in tied) / len(tied)
    y = [a + b for a, b in zip(x, added, strict=True)] if block.skip else added
    return y, routings, bits, tie


def plain_forward(network, x):
    y, routings, bits, tie = [Fraction(v) for v in x], [], [], False
    for block in network.blocks:
        y, more_routings, more_bits, more_tie = plain_block(block, y)
        routings += more_routings
        bits += more_bits
        tie = tie or more_tie
    return y, routings, bits, tie


# ----------------------------------------------------------------------------------------------
# Random small networks of all kinds
# ----------------------------------------------------------------------------------------------

KINDS = ["gaussian", "integer", "fraction"]


def draw(rng, kind, *shape):
    if kind == "gaussian":
        return rng.standard_normal(shape)
    integers = rng.integers(-2, 3, shape)
    if kind == "integer":
        return integers
    return np.array([Fraction(int(v), 3) for v in integers.flat], dtype=object).reshape(shape)


def small_network(seed, kind):
    """Attention with a mask, without a skip, with a skip; ReLU layers of all forms; an affine map."""
    rng = np.random.default_rng(seed)
    mask = rng.random((2, 4)) < 0.7
    mask[:, 1] = True
    first = Attention(
        [draw(rng, kind, 4, 2), draw(rng, kind, 4, 2)],
        draw(rng, kind, 2, 4),
        draw(rng, kind, 2, 4, 2),
        mask=mask,
    )
    second = FeedForward(draw(rng, kind, 5, 2), draw(rng, kind, 5), draw(rng, kind, 3, 5), draw(rng, kind, 3))
    third = Attention(
        [draw(rng, kind, 2, 3), draw(rng, kind, 5, 3)],
        [draw(rng, kind, 2), draw(rng, kind, 5)],
        [draw(rng, kind, 2, 2), draw(rng, kind, 5, 2)],
        skip=False,
    )
    fourth = FeedForward(None, None, draw(rng, kind, 2, 2), draw(rng, kind, 2), skip=True)
    return Network([first, second, third, fourth, Affine(draw(rng, kind, 1, 2), draw(rng, kind, 1))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_exact_values_are_those_of_plain_loops(seed, kind):
    net = small_network(seed, kind)
    rng = np.random.default_rng(seed)
    for x in [
        *rng.integers(-2, 3, (5, 2)).tolist(),
        *rng.standard_normal((3, 2)).tolist(),
        [Fraction(1, 7), 0],
    ]:
        assert list(net.exact_value(x)) == plain_forward(net, x)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_float_values_signatures_and_maps_agree_with_plain_loops(seed, kind):
    net = small_network(seed, kind)
    points = np.random.default_rng(seed).standard_normal((20, 2))
    values, seen = net(points), net.signature(points)
    compared = 0
    for i, x in enumerate(points):
        value, routings, bits, tie = plain_forward(net, x)
        if tie:  # a unit that is dead on a cell can make later keys tie there, which floats need not notice
            continue
        compared += 1
        assert values[i] == pytest.approx([float(v) for v in value], abs=1e-12)
        assert seen.routings[i].tolist() == routings
        assert seen.relu[i].tolist() == bits
        linear, offset = net.affine_at(x)
        assert linear @ x + offset == pytest.approx(values[i], abs=1e-12)
        assert net(x) == pytest.approx(values[i], abs=1e-13)
    assert compared or kind != "gaussian"


@pytest.mark.parametrize("seed", range(6))
def test_integers_tie_exactly_in_floats_too(seed):
    """Small integers are computed without rounding, ties included."""
    net = small_network(seed, "integer").truncate(2)
    points = np.random.default_rng(seed).integers(-3, 4, (40, 2))
    values, seen = net(points), net.signature(points)
    for i, x in enumerate(points.tolist()):
        value, routings, bits, _ = plain_forward(net, x)
        assert values[i] == pytest.approx([float(v) for v in value], abs=1e-13)
        assert seen.routings[i].tolist() == routings
        assert seen.relu[i].tolist() == bits


# ----------------------------------------------------------------------------------------------
# Temperature and ties
# ----------------------------------------------------------------------------------------------


def plain_softmax(block, x, temperature):
    y = x.copy() if block.skip else np.zeros(block.d_out)
    for h in range(block.heads):
        present = np.flatnonzero(block.mask[h])
        s = block.scores.floats[h, present] @ x + block.biases.floats[h, present]
        p = np.exp((s - s.max()) / temperature)
        y += (p / p.sum()) @ block.outputs.floats[h, present]
    return y


@pytest.mark.parametrize("temperature", [0.1, 1.0, 8.0])
def test_softmax_at_a_temperature(temperature):
    block = small_network(0, "gaussian").blocks[0]
    for x in np.random.default_rng(0).standard_normal((10, 2)):
        assert block(x, temperature) == pytest.approx(plain_softmax(block, x, temperature), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_small_temperatures_approach_zero(kind):
    net = small_network(3, kind)
    points = np.random.default_rng(1).standard_normal((30, 2))
    assert net(points, 1e-9) == pytest.approx(net(points), abs=1e-9)
    assert net(points, 1e-300) == pytest.approx(net(points), abs=1e-12)  # nothing overflows on the way


def test_tied_keys_share_and_that_is_the_limit():
    block = Attention([[[1, 0], [0, 1], [-1, -1]]], None, [[[6, 0], [0, 6], [0, 0]]], skip=False)
    assert block([1.0, 1.0]).tolist() == [3.0, 3.0]
    assert block([0.0, 0.0]).tolist() == [2.0, 2.0]
    assert block([0.0, 0.0], 1e-6) == pytest.approx([2.0, 2.0])
    assert Network([block]).signature([[0.0, 0.0], [1.0, 1.0]]).routings.tolist() == [[0], [0]]


def test_duplicate_keys_weigh_as_many():
    """Keys 0 and 2 are the same; where key 1 ties with them the mean is over three keys."""
    block = Attention([[[1], [-1], [1]]], None, [[[0], [9], [3]]], skip=False)
    assert block([[1.0], [0.0], [-1.0]])[:, 0].tolist() == [1.5, 4.0, 9.0]
    assert block([0.0], 2.0) == pytest.approx([4.0])
    assert Network([block]).signature([[1.0], [-1.0]]).routings.tolist() == [[0], [1]]


def test_duplicate_keys_tie_whatever_the_matrix_product_rounds():
    rng = np.random.default_rng(0)
    keys = np.repeat(rng.standard_normal((1, 1, 37)), 29, axis=1)
    outputs = np.arange(29.0)[None, :, None]
    block = Attention(keys, None, outputs, skip=False)
    assert np.array_equal(block(rng.standard_normal((50, 37)))[:, 0], np.full(50, 14.0))


def test_keys_that_tie_on_a_whole_cell_share_in_the_map():
    """The ReLU layer makes the plane a line, on which two different keys have the same score."""
    third = Fraction(1, 3)
    flat = FeedForward([[1, 0]], [0], [[third], [third]], [0, 0])
    head = Attention([[[1, 0], [0, 1], [0.1, 0.1]]], None, [[[1, 1], [3, 3], [0, 0]]], skip=False)
    net = Network([flat, head])
    linear, offset = net.affine_at([5.0, 1.0])
    assert (linear.tolist(), offset.tolist()) == ([[0.0, 0.0], [0.0, 0.0]], [2.0, 2.0])
    assert net.exact_value([5, 1]) == (2, 2)


def test_nearly_tied_keys_do_not_share_in_the_map():
    """Scores that differ by one part in 10^15 on a cell: floats leave it open, rationals do not."""
    first, second = Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**15)
    head = Attention([[[first], [second]]], None, [[[1], [3]]], skip=False)
    assert Network([head]).affine_at([2.0**40])[1].tolist() == [3.0]
    wide = Affine([[1], [1]], [0, 0])
    head = Attention([[[first, 0], [0, second]]], None, [[[1], [3]]], skip=False)
    assert Network([wide, head]).affine_at([2.0**40])[1].tolist() == [3.0]


def test_a_map_is_the_same_number_by_number_however_often_it_is_asked_for():
    net = Network.random(3, n_tokens=7, heads=2, depth=2, d_ff=9, rng=1)
    x = [0.3, -1.0, 2.0]
    first, again = net.affine_at(x), net.affine_at(np.array(x))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])


# ----------------------------------------------------------------------------------------------
# Signatures
# ----------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(0, 200), st.integers(0, 5), st.integers(0, 2**32))
def test_bits_survive_packing(units, n, seed):
    relu = np.random.default_rng(seed).random((n, units)) < 0.5
    bits = pack_bits(relu)
    assert bits.dtype == np.uint64
    assert bits.shape == (n, -(-units // 64))
    assert np.array_equal(unpack_bits(bits, units), relu)
    for u in range(units):
        word = bits[:, u // 64] >> np.uint64(u % 64)
        assert np.array_equal((word & np.uint64(1)).astype(bool), relu[:, u])


def test_a_unit_that_sees_zero_is_off():
    net = Network.mlp([([[1.0], [-1.0]], None), ([[1.0, 1.0]], None)])
    assert net.signature([0.0]).relu.tolist() == [[False, False]]


def test_signatures_are_read_only():
    seen = Network.random_mlp([2, 3, 1], 0).signature([[0.0, 1.0]])
    with pytest.raises(ValueError, match="read-only"):
        seen.bits[0, 0] = 1
    assert repr(seen) == "Signature(1 point, 0 heads, 3 units)"
    assert len(seen) == 1


def test_many_points_need_little_memory():
    net = Network.random(2, n_tokens=50, heads=4, depth=2, d_ff=256, rng=0)
    points = np.random.default_rng(0).uniform(-4, 4, (100_000, 2))
    net(points[:10])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    values, seen = net(points), net.signature(points)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
    chosen = [0, 777, 99_999]
    assert net(points[chosen]) == pytest.approx(values[chosen], abs=1e-12)
    assert np.array_equal(net.signature(points[chosen]).bits, seen.bits[chosen])


def test_no_points_are_no_trouble():
    net = Network.random(2, n_tokens=3, heads=1, depth=1, d_ff=2, rng=0)
    assert net(np.empty((0, 2))).shape == (0, 2)
    assert net.signature(np.empty((0, 2))).routings.shape == (0, 1)


# ----------------------------------------------------------------------------------------------
# Slices, parts, ways to make a network
# ----------------------------------------------------------------------------------------------


def test_a_slice_is_the_network_on_the_slice():
    net = Network.random(5, n_tokens=6, heads=2, depth=2, d_ff=7, rng=2)
    rng = np.random.default_rng(0)
    origin, directions = rng.standard_normal(5), rng.standard_normal((2, 5))
    cut = net.restrict(origin, directions)
    t = rng.standard_normal((20, 2))
    assert cut(t) == pytest.approx(net(origin + t @ directions), abs=1e-12)
    assert (cut.d, cut.d_out, len(cut.blocks)) == (2, 5, 5)


def test_a_slice_keeps_fractions():
    third = Fraction(1, 3)
    cut = Network([Affine([[third, 1]], [third])]).restrict([third, 0], [[third, 0], [0, third]])
    assert cut.exact_value([1, 2]) == (third * (third + third) + 2 * third + third,)


def test_a_slice_of_a_slice():
    net = Network.random_mlp([3, 4, 1], 0)
    cut = net.restrict([0, 0, 1], [[1, 0, 0], [0, 1, 0]]).restrict([0.5, 0], [[1, 1]])
    assert cut([2.0]) == pytest.approx(net([2.5, 2.0, 1.0]))


def test_truncating_keeps_the_first_blocks():
    net = Network.random(2, n_tokens=4, heads=1, depth=2, d_ff=3, rng=0)
    x = [0.2, 0.7]
    step = net.blocks[1](net.blocks[0](x))
    assert net.truncate(2)(x) == pytest.approx(step)
    for wrong in (0, 5):
        with pytest.raises(errors.InvalidInputError, match="n_blocks must be from 1 to 4"):
            net.truncate(wrong)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_an_mlp_is_the_usual_one(depth):
    rng = np.random.default_rng(depth)
    widths = [2, 5, 4, 3, 2][: depth + 1]
    layers = [(rng.standard_normal((b, a)), rng.standard_normal(b)) for a, b in pairwise(widths)]
    x = rng.standard_normal((10, 2))
    y = x
    for i, (w, b) in enumerate(layers):
        y = (np.maximum(y, 0) if i else y) @ w.T + b
    net = Network.mlp(layers)
    assert net(x) == pytest.approx(y, abs=1e-12)
    assert net.units_total == sum(widths[1:-1])


def test_random_mlps_are_drawn_as_declared():
    rng = np.random.default_rng(0)
    w1, b1 = rng.standard_normal((4, 2)) / np.sqrt(2), 0.5 * rng.standard_normal(4)
    w2, b2 = rng.standard_normal((1, 4)) / np.sqrt(4), 0.5 * rng.standard_normal(1)
    block = Network.random_mlp([2, 4, 1], 0).blocks[0]
    for found, expected in ((block.w_in, w1), (block.b_in, b1), (block.w_out, w2), (block.b_out, b2)):
        assert np.array_equal(found.floats, expected)


def test_random_transformers_are_drawn_as_declared():
    net = Network.random(
        2,
        5,
        3,
        1,
        4,
        7,
        score_scale=2.0,
        bias_scale=0.25,
        output_scale=3.0,
        ffn_scale=1.5,
        ffn_bias_scale=0.1,
    )
    rng = np.random.default_rng(7)
    attention, ffn = net.blocks
    assert np.array_equal(attention.scores.floats, 2.0 * rng.standard_normal((3, 5, 2)))
    assert np.array_equal(attention.biases.floats, 0.25 * rng.standard_normal((3, 5)))
    assert np.array_equal(attention.outputs.floats, 3.0 * rng.standard_normal((3, 5, 2)))
    assert np.array_equal(ffn.w_in.floats, 1.5 * rng.standard_normal((4, 2)) / np.sqrt(2))
    assert np.array_equal(ffn.b_in.floats, 0.1 * rng.standard_normal(4))
    assert np.array_equal(ffn.w_out.floats, 1.5 * rng.standard_normal((2, 4)) / np.sqrt(4))
    assert np.array_equal(ffn.b_out.floats, 0.1 * rng.standard_normal(2))
    assert (attention.skip, ffn.skip) == (True, False)
    assert net.description["score_scale"] == 2.0
    assert net.description["rng"] == 7


def test_random_transformers_without_biases_or_feed_forward():
    net = Network.random(2, 5, 2, 3, 0, 0, biased=False, attention_skip=False)
    assert [type(block).__name__ for block in net.blocks] == ["Attention"] * 3
    assert all(block.biases.all_zero() and not block.skip for block in net.blocks)


def test_scores_of_rank_d_head_have_exactly_that_rank():
    import flint

    block = Network.random(3, 6, 2, 1, 0, 0, d_head=2).blocks[0]
    for h in range(2):
        exact = numbers(block.scores)[h]
        matrix = flint.fmpq_mat(6, 3, [flint.fmpq(v.numerator, v.denominator) for row in exact for v in row])
        assert matrix.rank() == 2
    assert block.scores.floats == pytest.approx(block.scores.approximation, rel=1e-12, abs=1e-14)


# ----------------------------------------------------------------------------------------------
# What is refused, and in which words
# ----------------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Attention([[[NAN]]], None, [[[0.0]]]), errors.NotFiniteError, r"scores\[0\] .* holds nan"),
        (lambda: Attention(np.full((1, 1, 1), NAN), None, [[[0.0]]]), errors.NotFiniteError, "scores .* nan"),
        (lambda: Attention([[[1.0]]], [[-np.inf]], [[[0.0]]]), errors.NotFiniteError, "never win by mask"),
        (lambda: Attention([[[1.0]]], None, [[[np.inf]]]), errors.NotFiniteError, "outputs.* holds inf"),
        (lambda: FeedForward([[NAN]], [0], [[1]], [0]), errors.NotFiniteError, "w_in .* nan"),
        (lambda: FeedForward([[1]], [0], [[1]], [NAN]), errors.NotFiniteError, "b_out .* nan"),
        (lambda: Affine([[1.0]], [NAN]), errors.NotFiniteError, "b must be finite, but holds nan at index 0"),
        (lambda: Attention([], None, []), errors.InvalidInputError, "at least one head"),
        (
            lambda: Attention([[1.0]], None, [[1.0]]),
            errors.DimensionMismatchError,
            r"scores\[0\] must be a matrix",
        ),
        (
            lambda: Attention([[[1]], [[1, 2]]], None, [[[1]]]),
            errors.DimensionMismatchError,
            "same last dimension",
        ),
        (
            lambda: Attention([[[1], [2]]], [[1]], [[[1], [2]]]),
            errors.DimensionMismatchError,
            "biases .* 2 keys",
        ),
        (lambda: Attention([[[1], [2]]], None, [[[1]]]), errors.DimensionMismatchError, "outputs .* 2 keys"),
        (lambda: Attention([[[1, 2]]], None, [[[1]]]), errors.DimensionMismatchError, "skip connection"),
        (
            lambda: Attention([[[1], [2]], [[1]]], None, [[[1], [2]], [[1], [2]]]),
            errors.DimensionMismatchError,
            "heads of 2, 1 keys",
        ),
        (
            lambda: Attention([[[1]]], None, [[[1]]], mask=[[False]]),
            errors.InvalidInputError,
            "at least one key, but head 0",
        ),
        (
            lambda: Attention([[[1]]], None, [[[1]]], mask=[[1]]),
            errors.InvalidInputError,
            "mask must hold True",
        ),
        (
            lambda: Attention([[[1]]], None, [[[1]]], mask=3),
            errors.InvalidInputError,
            "mask must hold one row",
        ),
        (
            lambda: Attention([[[1], [2]]], None, [[[1], [2]]], mask=[[True]]),
            errors.DimensionMismatchError,
            r"mask .* shapes \(1,\)",
        ),
        (lambda: FeedForward([[1, 2]], [0], [[1, 1]], [0]), errors.DimensionMismatchError, r"per unit \(1\)"),
        (lambda: FeedForward([[1, 2]], [0], [[1]], [0], skip=True), errors.DimensionMismatchError, "skip"),
        (lambda: FeedForward([[1]], [0, 0], [[1]], [0]), errors.DimensionMismatchError, "b_in .* holds 2"),
        (
            lambda: FeedForward(np.ones((0, 2)), [], np.ones((1, 0)), [0]),
            errors.InvalidInputError,
            "one unit",
        ),
        (lambda: Affine(np.ones((0, 2))), errors.InvalidInputError, "at least one row"),
        (lambda: Affine([[1, 2], [3]]), errors.InvalidInputError, "rectangular"),
        (lambda: Affine([["a"]]), errors.InvalidInputError, "real numbers"),
        (lambda: Network([]), errors.InvalidInputError, "at least one block"),
        (lambda: Network(3), errors.InvalidInputError, "sequence of blocks"),
        (lambda: Network([np.eye(2)]), errors.InvalidInputError, "block 0 is a ndarray"),
        (
            lambda: Network([Affine(np.ones((3, 2))), FeedForward(np.ones((4, 5)), None, np.ones((1, 4)))]),
            errors.DimensionMismatchError,
            r"block 0, Affine\(2 -> 3\), gives 3 .* block 1, FeedForward\(4 units, 5 -> 1\), takes 5",
        ),
        (lambda: Network.mlp([]), errors.InvalidInputError, "at least one pair"),
        (lambda: Network.mlp([np.eye(3)]), errors.InvalidInputError, "layer 0 is no pair"),
        (lambda: Network.mlp([([[1.0]], [1.0, 2.0])]), errors.DimensionMismatchError, "b of layer 0"),
        (
            lambda: Network.mlp([(np.ones((3, 2)), None), (np.ones((1, 2)), None)]),
            errors.DimensionMismatchError,
            r"layer 1 must take what layer 0 gives \(3\)",
        ),
        (lambda: Network.random_mlp([2], 0), errors.InvalidInputError, "widths"),
        (lambda: Network.random_mlp([2, 0, 1], 0), errors.InvalidInputError, r"widths\[1\]"),
        (
            lambda: Network.random(2, 0, 1, 1, 1, 0),
            errors.InvalidInputError,
            "n_tokens must be a whole number",
        ),
        (lambda: Network.random(2, 1, 1, 1, 1.5, 0), errors.InvalidInputError, "d_ff"),
        (lambda: Network.random(2, 1, 1, 1, 1, 0, d_head=0), errors.InvalidInputError, "d_head"),
        (lambda: Network.random(2, 1, 1, 1, 1, 0, bias_scale=NAN), errors.InvalidInputError, "bias_scale"),
    ],
)
def test_refusals(make, error, words):
    with pytest.raises(error, match=words) as caught:
        make()
    assert str(caught.value).count(". ") == 0  # one sentence


@pytest.mark.parametrize(
    ("x", "temperature", "words"),
    [
        ([0.0], 0.0, r"x must have 2 coordinates per point"),
        ([[0.0, NAN]], 0.0, "x must be finite"),
        ([[0.0, 1.0], [2.0]], 0.0, "x must be a rectangular"),
        ([[["a", "b"]]], 0.0, "x must have 2 coordinates"),
        ([["a", "b"]], 0.0, "real numbers"),
        ([0.0, 0.0], -1.0, "temperature must be a finite number of at least 0"),
        ([0.0, 0.0], NAN, "temperature"),
        ([0.0, 0.0], np.inf, "temperature"),
        ([1e308, 1e308], 0.0, "float64"),
    ],
)
def test_bad_points_are_refused(x, temperature, words):
    net = Network.random(2, n_tokens=3, heads=2, depth=2, d_ff=4, rng=0, score_scale=100.0)
    with pytest.raises(errors.InvalidInputError, match=words):
        net(x, temperature)


def test_overflow_in_a_relu_layer_is_noticed():
    net = Network.mlp([([[1e200]], None), ([[1e200]], None)])
    with pytest.raises(errors.NotFiniteError, match="overflows"):
        net([1.0])
    with pytest.raises(errors.NotFiniteError, match="overflows"):
        net.signature([1.0])


def test_bad_slices_are_refused():
    net = Network.random_mlp([3, 2, 1], 0)
    for origin, directions in (([0, 0], [[1, 0, 0]]), ([0, 0, 0], [[1, 0]]), ([0, 0, 0], np.empty((0, 3)))):
        with pytest.raises(errors.DimensionMismatchError, match="3 input dimensions"):
            net.restrict(origin, directions)
