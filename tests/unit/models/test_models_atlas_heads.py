"""Margins, distances to hardmax and to walls, sinks; keys that can win and how far they get."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from captured_layers import causal, random_layer
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

import hardmax as hm
from hardmax.errors import InvalidInputError, NotFiniteError
from hardmax.models.atlas.head_measures import key_usage, measure_queries
from hardmax.models.atlas.reachable_keys import keys_that_can_win, largest_probability, read_keys
from hardmax.models.reading.sources import CapturedLayer

seeds = st.integers(0, 10_000)


def by_hand(layer: CapturedLayer, head: int, t: int) -> dict[str, object] | None:
    """One query in fractions: nothing is shared with the code that is tested."""
    group = head // (layer.heads // len(layer.keys))
    sigma = Fraction(float(layer.scale))
    q = [Fraction(float(v)) for v in layer.queries[head][t]]
    keys = [[Fraction(float(v)) for v in row] for row in layer.keys[group]]
    bias = [Fraction(0)] * len(keys)
    if layer.bias is not None:
        bias = [Fraction(float(v)) for v in layer.bias[head if len(layer.bias) > 1 else 0][t]]
    seen = [s for s in range(len(keys)) if layer.present[t, s]]
    if not seen:
        return None
    score = {s: sigma * sum(a * b for a, b in zip(q, keys[s], strict=True)) + bias[s] for s in seen}
    winner = min(seen, key=lambda s: (-score[s], s))
    copies = [s for s in seen if keys[s] == keys[winner] and bias[s] == bias[winner]]
    others = [s for s in seen if s not in copies]
    p = {s: np.exp(float(score[s] - score[winner])) for s in seen}
    total = sum(p.values())
    squares = {
        s: sum((a - b) ** 2 for a, b in zip(keys[winner], keys[s], strict=True))
        for s in others
        if keys[s] != keys[winner]
    }
    walls = [float(score[winner] - score[s]) / (float(sigma) * float(squares[s]) ** 0.5) for s in squares]
    values = np.asarray(layer.values[group], dtype=float)
    soft = sum(p[s] * values[s] for s in seen) / total
    hard = np.mean([values[s] for s in copies], axis=0)
    W = np.eye(values.shape[1]) if layer.output_weights is None else layer.output_weights[head]
    moved, size = np.linalg.norm(W @ (soft - hard)), np.linalg.norm(W @ soft)
    return {
        "winner": winner,
        "others": len(others),
        "margin": float(score[winner] - max(score[s] for s in others)) if others else None,
        "top": 1.0 / total,
        "tv": sum(p[s] for s in others) / total,
        "wall": min(walls, default=np.inf),
        "moved": (moved, size),
    }


@st.composite
def layers(draw: st.DrawFn) -> CapturedLayer:
    n = draw(st.integers(1, 6))
    heads = draw(st.sampled_from([1, 2, 4]))
    groups = draw(st.sampled_from([g for g in (1, 2, 4) if heads % g == 0 and g <= heads]))
    rng = np.random.default_rng(draw(seeds))
    masked = draw(st.sampled_from(["none", "causal", "some"]))
    present = {
        "none": np.ones((n, n), dtype=bool),
        "causal": causal(n),
        "some": rng.random((n, n)) < 0.6,
    }[masked]
    bias = draw(st.sampled_from([None, 1, heads]))
    return random_layer(
        rng,
        n=n,
        heads=heads,
        groups=groups,
        d_head=draw(st.integers(1, 3)),
        present=present,
        bias=None if bias is None else rng.integers(-1, 2, (bias, n, n)) / 2.0,
        integers=draw(st.booleans()),
        scale=draw(st.sampled_from([0.5, 1.0, 3**-0.5])),
    )


@given(layers())
@settings(max_examples=80, deadline=None)
def test_every_query_as_by_hand_in_fractions(layer: CapturedLayer) -> None:
    for head in range(layer.heads):
        found = measure_queries(layer, head)
        for t in range(layer.n_queries):
            wanted = by_hand(layer, head, t)
            if wanted is None:
                assert found.winner[t] == -1
                assert not found.choice[t]
                continue
            if found.winner[t] != wanted["winner"]:  # floats cannot tell them apart: a tie
                assert found.margin[t] <= 1e-14 or wanted["margin"] <= 1e-14
                continue
            assert found.choice[t] == (wanted["others"] > 0)
            if not found.choice[t]:
                assert np.isnan(found.margin[t])
                assert np.isnan(found.wall_distance[t])
                continue
            assert found.margin[t] == pytest.approx(wanted["margin"], abs=1e-13)
            assert found.top_probability[t] == pytest.approx(wanted["top"], rel=1e-12)
            assert found.total_variation[t] == pytest.approx(wanted["tv"], rel=1e-12)
            moved, size = wanted["moved"]
            if size > 1e-9:
                assert found.output_distance[t] == pytest.approx(moved / size, rel=1e-9, abs=1e-12)
            if np.isinf(wanted["wall"]):
                assert np.isinf(found.wall_distance[t])
            else:
                error = abs(found.wall_distance[t] - wanted["wall"])
                assert error <= found.wall_rounding[t] + 1e-15 * wanted["wall"]
                assert found.wall_rounding[t] < 1e-12


@given(layers())
@settings(max_examples=60, deadline=None)
def test_what_margins_guarantee_holds(layer: CapturedLayer) -> None:
    for head in range(layer.heads):
        found = measure_queries(layer, head)
        some = found.choice
        assert (found.total_variation[some] <= found.total_variation_bound[some] * (1 + 1e-12)).all()
        sure = found.total_variation_bound[some] <= 0.1
        assert (found.total_variation[some][sure] <= 0.1 * (1 + 1e-12)).all()


def test_without_copies_the_numbers_are_those_of_check_stability() -> None:
    for present in (None, causal(9)):
        layer = random_layer(3, n=9, heads=3, present=present)
        for head in range(3):
            found = measure_queries(layer, head)
            rows = found.choice
            report = hm.check_stability(layer.scores(head)[rows], 1.0)
            np.testing.assert_array_equal(found.winner[rows], report.routing)
            np.testing.assert_array_equal(found.n_keys[rows], report.n_keys)
            for ours, theirs in (
                (found.margin, report.margin),
                (found.top_probability, report.top_probability),
                (found.total_variation, report.total_variation),
                (found.total_variation_bound, report.total_variation_bound),
            ):
                np.testing.assert_allclose(ours[rows], theirs, rtol=1e-9, atol=1e-13)
            n, margin = int(found.n_keys[-1]), float(found.margin[-1])
            bounds = hm.stability_bounds(n, margin, 1.0)
            assert found.total_variation_bound[-1] == pytest.approx(bounds.gradient_sharp / 2)
            for eta in (0.01, 0.1):  # and the margin that is needed for it is where the bound crosses
                needed = hm.temperature.margin_needed(n, 1.0, tolerance=eta)
                assert (margin >= needed) == (found.total_variation_bound[-1] <= eta)


def test_copies_win_together() -> None:
    layer = random_layer(5, n=6, heads=1)
    twice = replace(
        layer,
        keys=np.concatenate([layer.keys, layer.keys], axis=1),
        values=np.concatenate([layer.values, layer.values], axis=1),
        present=np.ones((6, 12), dtype=bool),
    )
    one, two = measure_queries(layer, 0), measure_queries(twice, 0)
    np.testing.assert_array_equal(one.winner, two.winner)
    for name in ("margin", "total_variation", "total_variation_bound", "output_distance", "wall_distance"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)
    np.testing.assert_allclose(two.top_probability, one.top_probability / 2)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_no_step_shorter_than_the_wall_distance_changes_the_winner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, n=7, heads=1, d_head=3, bias=rng.standard_normal((1, 7, 7)))
    found = measure_queries(layer, 0)
    q, k, B, sigma = layer.queries[0], layer.keys[0], layer.bias[0], layer.scale
    for t in range(7):
        steps = rng.standard_normal((200, 3))
        steps *= found.wall_distance[t] * (1 - 1e-9) / np.linalg.norm(steps, axis=1, keepdims=True)
        around = ((q[t] + steps) @ k.T * sigma + B[t]).argmax(axis=1)
        assert (around == found.winner[t]).all()
        # and one that is a little longer, straight at the nearest wall, does
        j = found.winner[t]
        lead = (q[t] @ (k[j] - k).T) * sigma + B[t, j] - B[t]
        away = np.linalg.norm(k[j] - k, axis=1)
        away[j] = 1.0
        order = np.where(np.arange(7) == j, np.inf, lead / away)
        rival = int(order.argmin())
        there = q[t] - (k[j] - k[rival]) / away[rival] * found.wall_distance[t] * (1 + 1e-6)
        assert (there @ k.T * sigma + B[t]).argmax() != j


def test_a_bias_of_minus_infinity_is_a_mask() -> None:
    layer = random_layer(1, n=5, heads=1)
    bias = np.where(causal(5), 0.0, -np.inf)[None]
    ours, wanted = (
        measure_queries(replace(layer, bias=bias), 0),
        measure_queries(replace(layer, present=causal(5)), 0),
    )
    np.testing.assert_array_equal(ours.winner, wanted.winner)
    np.testing.assert_array_equal(ours.margin, wanted.margin)


def test_parts_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = random_layer(2, n=9, present=causal(9))
    whole = measure_queries(layer, 1)
    monkeypatch.setattr("hardmax.models.atlas.head_measures._NUMBERS", 20)
    monkeypatch.setattr("hardmax.models.atlas.head_measures._DIFFERENCES", 30)
    parts = measure_queries(layer, 1)
    for name in whole.__dataclass_fields__:
        np.testing.assert_allclose(getattr(whole, name), getattr(parts, name), rtol=1e-13)


def test_sinks_win_more_than_their_share() -> None:
    n = 16
    keys = np.eye(n)[None] * 1.0
    queries = np.eye(n)[None].copy()
    queries[0, 4:] = np.eye(n)[2]  # twelve queries agree on key 2
    layer = CapturedLayer(0, queries[0], queries, keys, keys, np.ones((n, n), dtype=bool), 1.0)
    used = key_usage(measure_queries(layer, 0), layer.present)
    assert used.sinks == (2,)
    assert used.sink_share == 13 / 16
    assert used.wins.tolist() == [1, 1, 13, 1] + [0] * 12
    p = np.array([1, 1, 13, 1]) / 16
    assert used.entropy == pytest.approx(-(p * np.log2(p)).sum())
    assert used.relative_entropy == pytest.approx(used.entropy / 4)
    probability = np.e / (np.e + n - 1)
    assert used.sink_mass == pytest.approx((13 * probability + 3 * (1 / (np.e + n - 1))) / 16)
    with pytest.raises(InvalidInputError, match="sink_factor"):
        key_usage(measure_queries(layer, 0), layer.present, factor=0.5)


def test_a_key_that_few_may_read_is_no_sink_for_winning_them() -> None:
    """Causal: an even share is counted over the queries that may read a key."""
    n = 6
    keys = np.arange(n, dtype=float)[None, :, None]  # the newest key always wins: an even spread
    queries = np.ones((1, n, 1))
    layer = CapturedLayer(0, queries[0], queries, keys, keys, causal(n), 1.0)
    used = key_usage(measure_queries(layer, 0), layer.present)
    assert used.wins.tolist() == [0, 1, 1, 1, 1, 1]
    assert used.sinks == ()


def test_bad_numbers_are_refused() -> None:
    layer = random_layer(0)
    broken = layer.queries.copy()
    broken[1, 2, 0] = np.nan
    with pytest.raises(NotFiniteError, match="layer 0, head 1"):
        measure_queries(replace(layer, queries=broken), 1)
    with pytest.raises(InvalidInputError, match="scale"):
        measure_queries(replace(layer, scale=0.0), 0)
    with pytest.raises(InvalidInputError, match="masks all"):
        replace(layer, present=np.zeros((8, 8), dtype=bool)).reading_position()
    with pytest.raises(InvalidInputError, match="positions"):
        layer.reading_position(8)


# Keys that can win
# ----------------------------------------------------------------------------------------------------------


def wins_somewhere(keys: np.ndarray, biases: np.ndarray, j: int) -> bool:
    """Whether key j leads all different keys by something, by a linear program of another library."""
    rivals = [i for i in range(len(keys)) if (keys[i] != keys[j]).any() or biases[i] != biases[j]]
    if not rivals:
        return True
    d = keys.shape[1]
    rows = np.column_stack([keys[rivals] - keys[j], np.ones(len(rivals))])
    found = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=rows,
        b_ub=biases[j] - biases[rivals],
        bounds=[(-1e3, 1e3)] * d + [(None, 1.0)],
    )
    return bool(-found.fun > 1e-7)


@given(layers(), seeds)
@settings(max_examples=60, deadline=None)
def test_keys_that_can_win_are_those_of_a_linear_program(layer: CapturedLayer, seed: int) -> None:
    head = seed % layer.heads
    reads = np.flatnonzero(layer.present.any(axis=1))
    if not len(reads):
        return
    t = int(reads[seed % len(reads)])
    read = read_keys(layer, head, t)
    found = keys_that_can_win(read, layer.scale, np.array([1.0, 2.0]))
    seen = layer.present[t]
    keys = layer.keys[layer.group(head)]
    bias = np.zeros(len(keys))
    if layer.bias is not None:
        bias = layer.bias[head if len(layer.bias) > 1 else 0][t] / layer.scale
    index = np.flatnonzero(seen)
    wanted = np.zeros(len(keys), dtype=bool)
    wanted[index] = [wins_somewhere(keys[index], bias[index], i) for i in range(len(index))]
    np.testing.assert_array_equal(found.can_win, wanted)
    assert found.n_present == seen.sum()
    measured = measure_queries(layer, head)
    if measured.choice[t] and measured.margin[t] > 1e-9:
        assert found.can_win[measured.winner[t]]


@given(seeds, st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_query_exceeds_what_is_said_to_be_possible(seed: int, biased: bool) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    bias = np.broadcast_to(rng.standard_normal(n), (1, n, n)).copy() if biased else None
    layer = random_layer(rng, n=n, heads=1, d_head=d, bias=bias, integers=bool(rng.integers(2)))
    read = read_keys(layer, 0)
    assert read.position is None  # all queries see the same keys with the same biases
    radius = float(rng.uniform(0.1, 4.0))
    found = keys_that_can_win(read, layer.scale, np.array([radius / 2, radius]))
    if len(read.keys) < 2:
        assert np.isnan(found.margin)
        return
    queries = rng.standard_normal((400, d))
    queries *= radius * rng.random((400, 1)) ** 0.2 / np.linalg.norm(queries, axis=1, keepdims=True)
    tried = measure_queries(
        replace(
            layer,
            queries=queries[None],
            present=np.ones((400, n), dtype=bool),
            bias=None if bias is None else np.repeat(bias[:, :1], 400, axis=1),
        ),
        0,
    )
    assert tried.margin.max() <= found.margin_bound * (1 + 1e-12)
    assert tried.top_probability.max() <= found.probability_bound * (1 + 1e-12)
    assert found.margin <= found.margin_bound * (1 + 1e-12)
    assert found.probability <= found.probability_bound
    if not biased:
        assert found.margin_bound - found.margin < 1e-9
        assert found.margin_at_median == pytest.approx(0.75 * found.margin)
        assert tried.margin.max() <= found.margin * (1 + 1e-9) + 1e-12
        if d > 1 or len(read.keys) == 2:
            assert tried.margin.max() >= 0.3 * found.margin  # the bound is not idle


@given(seeds)
@settings(max_examples=12, deadline=None)
def test_the_largest_probability_is_bracketed(seed: int) -> None:
    """Against a general optimiser, key by key, with biases and copies."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    keys, biases = rng.standard_normal((n, d)), rng.standard_normal(n)
    copies, radius = rng.integers(1, 3, n), float(rng.uniform(0.2, 3.0))
    low, high = largest_probability(keys, biases, radius, copies=copies)

    def against(q: np.ndarray, j: int) -> float:
        s = keys @ q + biases
        return float(np.log(np.sum(copies * np.exp(s - s[j]))))

    ball = {"type": "ineq", "fun": lambda q: radius**2 - q @ q}
    best = max(
        np.exp(-minimize(against, np.zeros(d), args=(j,), constraints=[ball], method="SLSQP").fun)
        for j in range(n)
    )
    assert low <= best * (1 + 1e-6)
    assert best <= high * (1 + 1e-6)
    assert high - low < 2e-3


def test_the_inequalities_of_margins_and_probabilities_point_the_right_way() -> None:
    """A margin gives at least 1/(1+(n-1)e^-m), all others level, and at most 1/(1+e^-m), one rival alone."""
    m = 1.3
    level = hm.check_stability([[m, 0.0, 0.0, 0.0]], 1.0).top_probability[0]
    alone = hm.check_stability([[m, 0.0, -50.0, -50.0]], 1.0).top_probability[0]
    assert level == pytest.approx(1 / (1 + 3 * np.exp(-m)))
    assert alone == pytest.approx(1 / (1 + np.exp(-m)))
    layer = random_layer(4, n=6, heads=1)
    found = keys_that_can_win(read_keys(layer, 0), layer.scale, np.array([2.0]))
    assert found.probability >= 1 / (1 + 5 * np.exp(-found.margin))
    assert found.probability_bound <= 1 / (1 + np.exp(-found.margin_bound)) * (1 + 2e-3)


def test_which_keys_a_position_sees() -> None:
    layer = random_layer(6, n=5, heads=2, groups=1, present=causal(5))
    assert read_keys(layer, 0).position == 4
    assert read_keys(layer, 1, 2).position == 2
    assert read_keys(layer, 1, 2).present.tolist() == [True] * 3 + [False] * 2
    np.testing.assert_array_equal(read_keys(layer, 0).keys, read_keys(layer, 1).keys)
    open_layer = random_layer(6, n=5)
    assert read_keys(open_layer, 0).position is None
    constant = replace(open_layer, bias=np.full((1, 5, 5), 0.3))
    assert read_keys(constant, 0).position is None
    assert read_keys(constant, 0).biases is None
    alibi = -0.5 * np.abs(np.subtract.outer(np.arange(5), np.arange(5)))[None].astype(float)
    with_bias = replace(open_layer, bias=alibi)
    assert read_keys(with_bias, 1, 3).position == 3
    np.testing.assert_array_equal(np.sort(read_keys(with_bias, 1, 3).biases), np.sort(alibi[0, 3]))


def test_a_key_that_only_touches_the_envelope_cannot_win() -> None:
    """Three keys on a line, decided exactly whatever the scale."""
    keys = np.array([[[-1.0], [0.0], [1.0]]])
    layer = CapturedLayer(
        0, np.zeros((1, 1)), np.ones((1, 1, 1)), keys, keys, np.ones((1, 3), dtype=bool), 0.1,
        bias=np.full((1, 1, 3), 0.3),
    )  # fmt: skip

    def can_win(*bias: float) -> list[bool]:
        read = read_keys(replace(layer, bias=np.array([[bias]])), 0)
        return keys_that_can_win(read, 0.1, np.ones(1)).can_win.tolist()

    assert can_win(0.3, 0.3, 0.3) == [True, False, True]
    assert can_win(0.3, 0.3 + 2.0**-54, 0.3) == [True, True, True]
    middle = Fraction(0.1) + Fraction(0.3) < 2 * Fraction(0.2)  # decimals round: it is not a tie in floats
    assert can_win(0.1, 0.2, 0.3) == [True, middle, True]


def test_copies_share_the_largest_probability() -> None:
    layer = random_layer(9, n=5, heads=1)
    twice = replace(
        layer,
        keys=np.concatenate([layer.keys, layer.keys], axis=1),
        values=np.concatenate([layer.values, layer.values], axis=1),
        present=np.ones((5, 10), dtype=bool),
    )
    one, two = (
        keys_that_can_win(read_keys(some, 0), layer.scale, np.array([3.0])) for some in (layer, twice)
    )
    assert two.margin == pytest.approx(one.margin)
    assert two.probability == pytest.approx(one.probability / 2, abs=1e-3)
    assert two.probability_bound <= 0.5
    assert (two.n_can_win, two.n_present) == (2 * one.n_can_win, 10)


def test_winning_everything_among_two_keys_makes_no_sink() -> None:
    keys = np.array([[[1.0], [-1.0]]])
    queries = np.ones((1, 8, 1))
    layer = CapturedLayer(0, queries[0], queries, keys, keys, np.ones((8, 2), dtype=bool), 1.0)
    found = measure_queries(layer, 0)
    assert key_usage(found, layer.present).sinks == ()  # twice its even share, and four times is asked for
    assert key_usage(found, layer.present, factor=2.0).sinks == (0,)
