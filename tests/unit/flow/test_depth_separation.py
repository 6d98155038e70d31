"""Theorem 1 of the InfoFlow paper: the transformer that is built, and what collides in a single layer."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.colliding_pairs import (
    SingleLayer,
    cap_centres,
    separation_exponents,
    separation_pair,
)
from hardmax.flow.theorems.depth_separation import (
    affine_readout,
    inner_product_block,
    separation_beta,
    separation_inputs,
    separation_target,
    separation_transformer,
    softmax_gap,
    sup_error,
)
from hardmax.flow.theorems.softmax_transformers import SoftmaxLayer, SoftmaxTransformer, TwoLayer


def by_hand(net, tokens):
    """Equations (1) and (2) of the paper, one sum at a time."""
    state = [
        np.concatenate([net.embedding @ x + net.embedding_bias, np.zeros(6 - len(net.embedding))])
        for x in tokens
    ]
    cls = net.cls
    for number, layer in enumerate(net.layers):

        def attended(query, layer=layer, state=state):
            parts = []
            for w_q, w_k, w_v in zip(layer.w_q, layer.w_k, layer.w_v, strict=True):
                scores = [net.beta * float((w_q @ query) @ (w_k @ x)) for x in state]
                weights = [math.exp(score - max(scores)) for score in scores]
                parts.append(sum(w * (w_v @ x) for w, x in zip(weights, state, strict=True)) / sum(weights))
            return query + layer.w_o @ np.concatenate(parts)

        state, cls = [attended(x) for x in state], attended(cls)
        if number < len(net.blocks):
            block = net.blocks[number]
            state = [block.w_out @ np.tanh(block.w_in @ x + block.b_in) + block.b_out for x in state]
            cls = block.w_out @ np.tanh(block.w_in @ cls + block.b_in) + block.b_out
    out = net.output
    return float((out.w_out @ np.tanh(out.w_in @ cls + out.b_in) + out.b_out)[0])


@pytest.mark.parametrize(
    ("epsilon", "n_tokens", "width", "beta"),
    [(0.5, 8, 36, 140.13), (0.5, 64, 36, 332.23), (0.1, 8, 144, 700.66), (0.05, 8, 288, 1401.32)],
)
def test_the_transformer_is_within_epsilon(epsilon, n_tokens, width, beta):
    built = separation_transformer(epsilon, n_tokens)
    assert built.widths[0] == width
    assert round(built.transformer.beta, 2) == beta
    assert built.transformer.largest_weight <= 1.0
    assert built.error_bound <= epsilon
    found = sup_error(built, n_each=60, steps=40)
    assert 0.4 * epsilon < found.largest <= built.error_bound  # the bound is not idle


def test_the_budget_adds_up():
    built = separation_transformer(0.1, 8)
    assert built.softmax_error == pytest.approx(0.1 / 72)
    assert built.product_error <= 0.1 / 72
    assert built.readout_error <= 0.1 / 4


def test_numpy_agrees_with_the_equations_of_the_paper():
    built = separation_transformer(0.5, 5).transformer
    tokens = np.random.default_rng(0).uniform(-1, 1, (4, 5, 3))
    assert built(tokens) == pytest.approx([by_hand(built, each) for each in tokens], abs=1e-12)


@pytest.mark.parametrize("square", ["plain", "richardson"])
@pytest.mark.parametrize("domain", ["cube11", "cube01"])
def test_torch_agrees_to_ten_digits(square, domain):
    torch = pytest.importorskip("torch")
    built = separation_transformer(0.1, 6, square=square, domain=domain)
    tokens = np.random.default_rng(1).uniform(0, 1, (20, 6, 3))
    exported = built.to_torch()(torch.tensor(tokens)).detach().numpy()
    assert np.abs(exported - built.transformer(tokens)).max() < 1e-10
    assert sum(p.numel() for p in built.to_torch().parameters()) >= built.transformer.n_parameters


def test_parameters_do_not_depend_on_the_number_of_tokens():
    counts = {separation_transformer(0.1, n).transformer.n_parameters for n in (1, 2, 8, 1024)}
    assert len(counts) == 1


def test_parameters_are_counted_one_by_one():
    net = separation_transformer(0.5, 8).transformer
    attention = 2 * 4 * 36
    block = 36 * 6 + 36 + 6 * 36 + 6
    output = 27 * 6 + 27 + 27 + 1
    assert net.n_parameters == 9 + 6 + attention + block + output


@pytest.mark.parametrize(("square", "slope", "slack"), [("plain", -1.0, 0.03), ("richardson", -0.5, 0.3)])
def test_widths_grow_as_they_should(square, slope, slack):
    errors = [0.4 / 72 / 2**i for i in range(8)]
    widths = [inner_product_block(error, square=square)[0].width for error in errors]
    assert abs(np.polyfit(np.log(errors), np.log(widths), 1)[0] - slope) < slack
    assert all(width <= 12 * (1 + 1.6 / (72 * error)) for width, error in zip(widths, errors, strict=True))


@given(
    st.sampled_from([1e-2, 1e-3, 1e-4]), st.sampled_from(["plain", "richardson"]), st.integers(0, 2**32 - 1)
)
@settings(max_examples=25, deadline=None)
def test_the_product_block_keeps_its_promise(error, square, seed):
    block, bound = inner_product_block(error, square=square)
    rng = np.random.default_rng(seed)
    xy = np.concatenate([rng.uniform(-1 / 3, 1 / 3, (200, 6)), rng.choice([-1 / 3, 0.0, 1 / 3], (50, 6))])
    values = block(xy)
    assert np.abs(values[:, 0] - (xy[:, :3] * xy[:, 3:]).sum(axis=1)).max() <= bound <= error
    assert (values[:, 1] == 0.5).all()
    assert block.largest_weight <= 1.0


@given(st.floats(1e-3, 1.0), st.floats(-1, 1))
@settings(max_examples=50, deadline=None)
def test_the_readout_keeps_its_promise(error, c):
    block, bound = affine_readout(error, reach=1.0)
    value = block([0.3, 0.5, 0.0, c, -0.2, 0.1])[0]
    assert abs(value - (2 + 18 * c)) <= bound + 1e-12
    assert bound <= error
    assert block.largest_weight <= 1.0


@given(st.integers(2, 40), st.integers(0, 2**32 - 1), st.floats(0.1, 50.0))
@settings(max_examples=100, deadline=None)
def test_no_scores_exceed_the_softmax_gap(n_tokens, seed, beta):
    rho = np.random.default_rng(seed).normal(scale=3 / beta, size=n_tokens)
    weights = np.exp(beta * (rho - rho.max()))
    assert rho.max() - weights @ rho / weights.sum() <= softmax_gap(n_tokens, beta) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("n_tokens", "gap"), [(2, 0.278465), (4, 0.603546), (8, 0.973139), (64, 2.307130), (1024, 4.439870)]
)
def test_the_softmax_gap_is_attained(n_tokens, gap):
    assert softmax_gap(n_tokens, 1.0) == pytest.approx(gap, abs=1e-6)
    rho = np.full(n_tokens, -(1.0 + gap))
    rho[0] = 0.0
    weights = np.exp(rho)
    assert -(weights @ rho) / weights.sum() == pytest.approx(gap, abs=1e-6)


def test_one_token_needs_no_temperature():
    assert separation_beta(1, 0.1) == 1.0
    built = separation_transformer(0.1, 1)
    assert built.errors(np.random.default_rng(0).uniform(-1, 1, (50, 1, 3))).max() <= 0.1


def test_errors_are_measured_where_they_are_guaranteed():
    built = separation_transformer(0.5, 4)
    for tokens, problem in (
        (np.full((1, 4, 3), np.nan), "finite"),
        (np.full((1, 4, 3), 1.5), "must lie in"),
        (np.zeros((1, 5, 3)), "at most the n_tokens = 4"),
    ):
        with pytest.raises((InvalidInputError, NotFiniteError), match=problem):
            built.errors(tokens)
    with pytest.raises(InvalidInputError, match="must lie in"):
        separation_transformer(0.5, 4, domain="cube01").errors(np.full((1, 2, 3), -0.5))
    with pytest.raises(NotFiniteError, match="x must be finite"):
        built.transformer.output([[np.inf] * 6])


def test_a_bounded_beta_breaks_it():
    built = separation_transformer(0.05, 8)
    errors = []
    for beta in (1.0, 10.0, 100.0):
        cooler = replace(built, transformer=built.transformer.with_beta(beta))
        errors.append(sup_error(cooler, n_each=60, steps=10).largest)
    assert errors[0] > 6
    assert errors[1] > 2
    assert errors[2] > 0.15


def test_the_target_is_that_of_the_targets_room():
    tokens = np.random.default_rng(3).uniform(-1, 1, (30, 7, 3))
    brute = [min(2 * (1 + float(x @ y)) for x in each for y in each) for each in tokens]
    assert separation_target(tokens) == pytest.approx(brute)
    assert separation_target((tokens + 1) / 2, domain="cube01") == pytest.approx(brute)
    assert hm.targets.depth_separation()(tokens) == pytest.approx(brute)
    assert hm.targets.depth_separation(domain="cube01")((tokens + 1) / 2) == pytest.approx(brute)


def test_all_families_stay_in_the_cube():
    for tokens in separation_inputs(7, 30, beta=50.0).values():
        assert tokens.shape == (30, 7, 3)
        assert np.abs(tokens).max() <= 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 8), "epsilon must be a positive"),
        ((-1.0, 8), "epsilon must be a positive"),
        ((float("nan"), 8), "epsilon must be a positive"),
        ((7.0, 8), "epsilon must be at most 6"),
        ((0.1, 0), "n_tokens must be a whole number"),
        ((0.1, 2.5), "n_tokens must be a whole number"),
        ((1e-9, 8), "must leave room"),
    ],
)
def test_bad_arguments_of_the_construction(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        separation_transformer(*arguments)


def test_unknown_options_are_named():
    with pytest.raises(InvalidInputError, match="square must be plain or richardson"):
        separation_transformer(0.1, 4, square="cubic")
    with pytest.raises(InvalidInputError, match="domain must be cube11 or cube01"):
        separation_transformer(0.1, 4, domain="ball")


def test_wrong_shapes_are_named():
    net = separation_transformer(0.5, 4).transformer
    with pytest.raises(DimensionMismatchError, match=r"\(batch, T, 3\)"):
        net(np.zeros((2, 4, 2)))
    with pytest.raises(DimensionMismatchError, match="at least 1"):
        net(np.zeros((2, 0, 3)))
    with pytest.raises(DimensionMismatchError, match="last axis"):
        net.output(np.zeros((2, 5)))
    one = np.ones((1, 1))
    with pytest.raises(NotFiniteError, match="w_in"):
        TwoLayer([[np.nan]], [0.0], one, [0.0])
    with pytest.raises(DimensionMismatchError, match="one width"):
        TwoLayer(one, [0.0, 1.0], one, [0.0])
    with pytest.raises(InvalidInputError, match="activation"):
        TwoLayer(one, [0.0], one, [0.0], activation="relu")
    layer = SoftmaxLayer(one[None], one[None], one[None], one)
    with pytest.raises(InvalidInputError, match="one fewer"):
        SoftmaxTransformer(one, [0.0], [0.0], (layer, layer), (), TwoLayer(one, [0.0], one, [0.0]), 1.0)
    with pytest.raises(InvalidInputError, match="beta"):
        SoftmaxTransformer(one, [0.0], [0.0], (layer,), (), TwoLayer(one, [0.0], one, [0.0]), 0.0)
    with pytest.raises(DimensionMismatchError, match="E"):
        SoftmaxLayer(one[None], one[None], one[None], np.ones((2, 1)))


def test_arrays_are_read_only():
    net = separation_transformer(0.5, 4).transformer
    for array in (net.embedding, net.layers[0].w_q, net.blocks[0].w_in, net.output.b_out):
        assert not array.flags.writeable


# Part 1


@pytest.mark.parametrize(
    ("case", "formal", "informal"),
    [
        ((16, 1, 6), 0.75, 0.75),
        ((64, 1, 6), 6.75, 6.75),
        ((64, 2, 6), 3.066667, 3.0),
        ((64, 4, 6), 1.034483, 0.931034),
        ((128, 4, 6), 3.241379, 3.137931),
        ((64, 6, 6), 0.325581, 0.209302),
    ],
)
def test_exponents_of_one_layer(case, formal, informal):
    found = separation_exponents(*case)
    assert float(found.formal) == pytest.approx(formal, abs=1e-6)
    assert float(found.informal) == pytest.approx(informal, abs=1e-6)


@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 20))
def test_the_formal_exponent_implies_the_informal(n_tokens, heads, n):
    found = separation_exponents(n_tokens, heads, n)
    assert found.formal - found.informal == Fraction(heads - 1, heads * (n + 1) + 1)


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 30])
def test_caps_are_apart_and_inside(heads):
    centres, radius = cap_centres(heads)
    assert len(centres) == heads + 1
    assert np.linalg.norm(centres, axis=1) == pytest.approx(1.0)
    gaps = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 10 * np.eye(heads + 1)
    assert gaps.min() >= 4 * radius - 1e-12
    assert (centres[:, :2] - radius >= -0.5 - 1e-12).all()
    assert (centres[:, :2] + radius <= 1e-12).all()
    assert (centres[:, 2] + radius < 0).all()


@pytest.mark.parametrize(
    ("heads", "n", "n_tokens", "epsilon"), [(1, 1, 8, 1.1e-4), (1, 2, 10, 1e-4), (2, 1, 10, 6e-5)]
)
def test_a_single_layer_confuses_two_sequences(heads, n, n_tokens, epsilon):
    layer = SingleLayer.random(heads, n, 5)
    pair = separation_pair(layer, n_tokens=n_tokens, epsilon=epsilon)
    both = np.stack([pair.first, pair.second])
    assert both.shape == (2, n_tokens, 3)
    assert np.linalg.norm(both, axis=2) == pytest.approx(1.0)
    targets = separation_target(both)
    assert abs(targets[0] - targets[1]) == pytest.approx(pair.target_gap)
    assert pair.target_gap >= 4 * epsilon
    assert np.abs(layer(pair.first) - layer(pair.second)).max() == pytest.approx(pair.attention_gap)
    assert pair.attention_gap < 1e-5
    # no closer pair among a sample of the other sequences of the grid was overlooked by orders of magnitude
    assert pair.required_width > 1.0


def test_a_colliding_pair_survives_a_file(tmp_path):
    pair = separation_pair(SingleLayer.random(1, 1, 0), n_tokens=8, epsilon=1.1e-4)
    again = hm.load(pair.save(tmp_path / "pair.npz"))
    assert (again.first == pair.first).all()
    assert again.attention_gap == pair.attention_gap
    assert "apart" in repr(again)


def test_the_grid_of_the_proof_needs_a_tiny_epsilon():
    with pytest.raises(InvalidInputError, match=r"2\.16e-05"):
        separation_pair(SingleLayer.random(1, 1, 0), n_tokens=64, epsilon=1e-4)


def test_blocks_of_sequences_give_the_same_values(monkeypatch):
    net = separation_transformer(0.5, 8).transformer
    tokens = np.random.default_rng(0).uniform(-1, 1, (7, 8, 3))
    whole = net(tokens)
    monkeypatch.setattr("hardmax.flow.theorems.softmax_transformers._SCORES", 150)
    assert net(tokens) == pytest.approx(whole, abs=1e-13)
    assert net(tokens[:0]).shape == (0,)


def test_bad_arguments_of_pairs():
    layer = SingleLayer.random(1, 1, 0)
    with pytest.raises(InvalidInputError, match="two grid points"):
        separation_pair(layer, n_tokens=8, epsilon=0.1)
    with pytest.raises(InvalidInputError, match="more than"):
        separation_pair(layer, n_tokens=20, epsilon=1e-7)
    with pytest.raises(InvalidInputError, match="n_tokens"):
        separation_pair(layer, n_tokens=2, epsilon=1e-4)
    with pytest.raises(DimensionMismatchError, match=r"\(H, 3\)"):
        SingleLayer(np.zeros((1, 2)), np.zeros((1, 1, 2)), 1.0)
