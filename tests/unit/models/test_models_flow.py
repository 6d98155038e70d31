"""Information sets, rollout, recall, assumptions and frozen norms, against slow definitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.models.atlas.assumptions import AssumptionRecorder, assumption_report
from hardmax.models.atlas.frozen_norms import Norm, differing_shares, disk_points
from hardmax.models.bundled import bundled_source
from hardmax.models.influence.influence_report import TextInfluence, recall_columns, report_of
from hardmax.models.influence.routing_flow import FlowRecorder, RolloutRecorder, RoutingRule
from hardmax.models.reading.sources import CapturedLayer, QueryMap, TextReading
from hardmax.models.spread import _medians, spread
from hardmax.training.learned_routing import routed_flow
from hardmax.training.states import run_states

some = settings(max_examples=40)

RULES = ("argmax", "top-2", "mass 0.5", "mass 0.9", "readable")


def layer_of(scores, index=0, present=None):
    """A layer whose scores are given (H, Q, N): every query asks for a key of its own."""
    scores = np.asarray(scores, dtype=np.float64)
    heads, n_queries, n_keys = scores.shape
    present = np.ones((n_queries, n_keys), dtype=bool) if present is None else present
    zeros = np.zeros((heads, n_queries, 1))
    keys = np.zeros((heads, n_keys, 1))
    return CapturedLayer(index, zeros[0], zeros, keys, keys, present, 1.0, bias=scores)


def reading_of(n_queries, n_keys):
    names = tuple(f"t{i}" for i in range(n_queries))
    return TextReading(names, names[:n_keys], 0.0, 0.0, None, 0.0)


def slow_reads(row, may, rule):
    """The keys of one query by the words of the rule."""
    keys = [s for s in range(len(row)) if may[s]]
    if rule.top is None and rule.mass is None:
        return set(keys)
    weights = {s: np.exp(row[s] - max((row[r] for r in keys), default=0.0)) for s in keys}
    total = sum(weights.values())
    read = set()
    for s in keys:
        larger = [r for r in keys if row[r] > row[s]]
        if rule.top is not None and len(larger) < rule.top:
            read.add(s)
        if rule.mass is not None and sum(weights[r] for r in larger) / total < rule.mass:
            read.add(s)
    return read


def slow_sets(layers, rule):
    n_queries, n_keys = layers[0].n_queries, layers[0].n_keys
    sets = [{t} if t < n_keys else set() for t in range(n_queries)]
    history = [sets]
    for layer in layers:
        after = []
        for t in range(n_queries):
            known = set(sets[t])
            for h in range(layer.heads):
                for s in slow_reads(layer.scores(h)[t], layer.present[t], rule):
                    known |= sets[s]
            after.append(known)
        sets = after
        history.append(sets)
    return history


@st.composite
def stacks(draw):
    """A few layers of small whole scores, so that ties happen, with any mask; the last query may be a CLS."""
    n_keys = draw(st.integers(1, 6))
    n_queries = n_keys + draw(st.integers(0, 1))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    layers = []
    for index in range(draw(st.integers(1, 3))):
        heads = draw(st.integers(1, 3))
        scores = rng.integers(-2, 3, (heads, n_queries, n_keys)) * 0.37
        present = rng.random((n_queries, n_keys)) < draw(st.sampled_from([0.4, 0.8, 1.0]))
        layers.append(layer_of(scores, index, present))
    return layers


def flows_of(layers, rules=RULES):
    recorder = FlowRecorder(rules)
    for layer in layers:
        recorder(layer)
    return recorder.flows(reading_of(layers[0].n_queries, layers[0].n_keys))


@some
@given(stacks())
def test_sets_are_those_of_the_definition(layers):
    for flow in flows_of(layers):
        wanted = slow_sets(layers, RoutingRule.of(flow.rule))
        found = [[set(np.flatnonzero(row)) for row in after] for after in flow.sets]
        assert found == wanted
        assert flow.sizes.tolist() == [[len(known) for known in after] for after in wanted]


@some
@given(stacks())
def test_sets_grow_with_layers_and_with_looser_rules(layers):
    flows = {flow.rule: flow.sets for flow in flows_of(layers)}
    for sets in flows.values():
        assert (sets[1:] >= sets[:-1]).all()
    for narrow, wide in [("argmax", "top-2"), ("argmax", "mass 0.5"), ("mass 0.5", "mass 0.9")]:
        assert (flows[narrow] <= flows[wide]).all()
    assert all((sets <= flows["readable"]).all() for sets in flows.values())


def test_without_ties_a_set_is_no_larger_than_the_product():
    rng = np.random.default_rng(1)
    layers = [layer_of(rng.standard_normal((2, 40, 40)), i) for i in range(3)]
    argmax, top = flows_of(layers, ["argmax", "top-2"])
    assert argmax.ties.tolist() == [0, 0, 0]
    assert argmax.growth["at_most"].tolist() == [1, 3, 9, 27]
    assert top.growth["at_most"].tolist() == [1, 5, 25, 40]
    assert (argmax.sizes.max(axis=1) <= argmax.growth["at_most"]).all()
    assert argmax.sizes[1:].max() > 3  # the bound is tried


def test_more_than_64_positions():
    n = 70
    shift = np.roll(np.eye(n), -1, axis=0)[None]  # everybody looks at the next
    (flow,) = flows_of([layer_of(9 * shift, i) for i in range(3)], ["argmax"])
    assert flow.known_by(63) == (63, 64, 65, 66)
    assert flow.first_layer(62)[[62, 63, 64, 65, 66]].tolist() == [0, 1, 2, 3, -1]


def test_ties_are_counted_and_read_together():
    (flow,) = flows_of([layer_of([[[1.0, 1.0, 0.0], [2.0, 1.0, 1.0], [0.0, 0.0, 0.0]]])], ["argmax"])
    assert flow.ties.tolist() == [2]
    assert flow.sizes[1].tolist() == [2, 2, 3]


def test_the_bundled_model_agrees_with_the_flow_of_the_lab():
    """Two programs for one thing: routed_flow knows nothing of captured layers."""
    for seed in range(3):
        source = bundled_source(rng=seed)
        flow = hm.models.token_flow(source)
        routed = routed_flow(source.model.shape, source.model.vector, source.sequence[None])
        assert flow.sizes[1:, -1].tolist() == routed.sizes.cls[0].tolist()
        assert flow.words[-1, -1].tolist() == routed.cls_words[0, -1].tolist()
        assert flow.sizes[1, :-1].tolist() == routed.sizes.tokens[0, 0].tolist()


def test_a_flow_survives_a_file(tmp_path):
    flow = hm.models.token_flow(bundled_source(), rule="top-2")
    again = hm.load(flow.save(tmp_path / "flow.npz"))
    assert again.tokens == flow.tokens
    assert again.rule == "top-2"
    assert (again.words == flow.words).all()
    assert len(flow.to_frame()) == 3 * 16


@pytest.mark.parametrize("rule", ["", "top-0", "top", "mass 0", "mass 1", "mass 2", "hard", "argmax "[::-1]])
def test_a_rule_that_is_none(rule):
    with pytest.raises(InvalidInputError, match="rule"):
        RoutingRule.of(rule)


def test_layers_must_pass_in_order_and_fit():
    layer = layer_of(np.zeros((1, 3, 3)))
    for recorder in (FlowRecorder(), RolloutRecorder()):
        with pytest.raises(InvalidInputError, match="order"):
            recorder(replace(layer, index=1))
        recorder(layer)
        with pytest.raises(DimensionMismatchError, match="layer 1"):
            recorder(layer_of(np.zeros((1, 4, 4)), 1))
    with pytest.raises(InvalidInputError, match="rules"):
        FlowRecorder([])


def test_positions_and_layers_that_are_not_there():
    (flow,) = flows_of([layer_of(np.zeros((1, 3, 3)))], ["argmax"])
    with pytest.raises(InvalidInputError, match="position"):
        flow.known_by(3)
    with pytest.raises(InvalidInputError, match="layer"):
        flow.known_by(0, layer=2)


# Rollout
# ----------------------------------------------------------------------------------------------------------


@some
@given(stacks())
def test_rollout_is_the_product_of_the_mixed_steps(layers):
    recorder = RolloutRecorder()
    product = np.eye(layers[0].n_queries)
    for layer in layers:
        recorder(layer)
        mean = np.mean([layer.probabilities(h) for h in range(layer.heads)], axis=0)
        step = np.zeros_like(product)
        for t in range(layer.n_queries):
            if layer.present[t].any():
                step[t, : layer.n_keys] = mean[t]
            else:
                step[t, t] = 1.0
        product = (np.eye(len(step)) + step) / 2 @ product
    assert np.allclose(recorder.walks[-1], product, atol=1e-12)
    assert np.allclose(recorder.walks[-1].sum(axis=1), 1.0)


def test_the_share_of_the_residual_is_checked():
    with pytest.raises(InvalidInputError, match="residual"):
        RolloutRecorder(residual=1.5)


# Recall
# ----------------------------------------------------------------------------------------------------------


@some
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(0, 6))
def test_recall_is_what_all_sets_of_the_size_say(seed, n, k):
    rng = np.random.default_rng(seed)
    influence = rng.random((1, n, n))
    others = [s for s in range(n) if s != 0]
    k = min(k, len(others))
    sets = np.zeros((1, n, n), dtype=bool)
    chosen = rng.choice(others, k, replace=False)
    sets[0, 0, chosen] = sets[0, 0, 0] = True
    ranking = rng.random((n, n))
    found = recall_columns(influence, sets, np.ones((n, n), dtype=bool), ranking, n_draws=50, rng=seed)
    row = {name: column[0, 0, 0] for name, column in found.items()}
    total = influence[0, 0, others].sum()
    every = [influence[0, 0, list(some)].sum() / total for some in combinations(others, k)]
    assert row["size"] == k
    assert row["candidates"] == n - 1
    assert row["recall"] == pytest.approx(influence[0, 0, chosen].sum() / total)
    assert row["random_expected"] == pytest.approx(np.mean(every))
    assert row["best"] == pytest.approx(max(every))
    top = sorted(others, key=lambda s: -ranking[0, s])[:k]
    assert row["rollout"] == pytest.approx(influence[0, 0, top].sum() / total)
    assert min(every) - 1e-12 <= row["random_low"] <= row["random_mean"] <= max(every) + 1e-12
    assert row["own_share"] == pytest.approx(influence[0, 0, 0] / influence[0, 0].sum())


def test_draws_agree_with_the_closed_form():
    rng = np.random.default_rng(5)
    influence, sets = rng.random((1, 1, 41)) ** 3, np.zeros((1, 1, 41), dtype=bool)
    sets[0, 0, 3:13] = True
    found = recall_columns(influence, sets, np.ones((1, 41), dtype=bool), rng.random((1, 41)), n_draws=4000)
    error = found["random_mean"][0, 0, 0] - 0.25
    assert abs(error) < 0.01
    assert 0.0 < found["random_low"][0, 0, 0] < 0.25 < found["random_high"][0, 0, 0]
    better = recall_columns(influence, sets, np.ones((1, 41), dtype=bool), rng.random((1, 41)), n_draws=4000)
    assert better["random_mean"][0, 0, 0] == found["random_mean"][0, 0, 0], "a seed is a seed"


def test_only_candidates_count():
    influence = np.array([[[1.0, 2.0, 4.0, 100.0]]])
    sets = np.array([[[True, True, False, True]]])
    may = np.array([[True, True, True, False]])
    found = recall_columns(influence, sets, may, np.zeros((1, 4)))
    assert found["candidates"].item() == 2
    assert found["recall"].item() == pytest.approx(2 / 6)


def test_no_influence_has_no_recall():
    found = recall_columns(
        np.zeros((1, 2, 2)), np.ones((1, 2, 2), dtype=bool), np.ones((2, 2), dtype=bool), np.eye(2)
    )
    assert np.isnan(found["recall"]).all()
    with pytest.raises(InvalidInputError, match="n_draws"):
        recall_columns(
            np.ones((1, 2, 2)),
            np.ones((1, 2, 2), dtype=bool),
            np.ones((2, 2), dtype=bool),
            np.eye(2),
            n_draws=0,
        )


def synthetic_report(seed=0, n=12, texts=3):
    rng = np.random.default_rng(seed)
    made = []
    for i in range(texts):
        layers = [layer_of(3 * rng.standard_normal((2, n, n)), j) for j in range(2)]
        flows = flows_of(layers, ["argmax", "readable"])
        influence = rng.random((2, n, n)) + 2 * flows[0].sets[1:]
        made.append(
            TextInfluence(
                f"text {i}", flows, {"ablation mean": influence}, {}, rng.random((2, n, n)), 0, 8, 0.0
            )
        )
    return report_of("synthetic", made, n_draws=50, n_bootstrap=200)


def test_a_report_sees_influence_that_follows_the_sets():
    report = synthetic_report()
    found = report.summary(layer=1)
    assert found.gain.median > 0.8
    assert abs(found.rollout_gain.median) < 0.5
    assert found.gain.low <= found.gain.median <= found.gain.high
    assert found.share_compared == 1.0
    assert found.random.median == pytest.approx(found.random_drawn.median, abs=0.03)
    assert found.beaten.median > 0.9


def test_with_the_own_token_all_sets_look_better_by_the_same_rule():
    report = synthetic_report(seed=3)
    columns = report.columns
    text, layer, t = 1, 2, 5
    row = (columns["text"] == text) & (columns["layer"] == layer) & (columns["position"] == t)
    measured = report.texts[text].influence["ablation mean"][layer - 1, t]
    inside = report.texts[text].flows[0].sets[layer, t]
    own = columns["own_share"][row].item()
    with_own = own + (1 - own) * columns["recall"][row].item()
    assert with_own == pytest.approx(measured[inside].sum() / measured.sum())


def test_a_report_survives_a_file_and_names_what_it_has(tmp_path):
    report = synthetic_report()
    again = hm.load(report.save(tmp_path / "influence.npz"))
    assert again.summary() == report.summary()
    assert repr(again) == repr(report)
    assert len(report.to_dict()["recall"]) == 2
    assert len(report.to_frame()) == len(report.columns["recall"])
    with pytest.raises(InvalidInputError, match="rule must be one of argmax"):
        report.summary(rule="top-3")
    with pytest.raises(InvalidInputError, match="measure"):
        report.summary(measure="gradient")
    with pytest.raises(InvalidInputError, match="layer"):
        report.summary(layer=3)


@some
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 9))
def test_medians_of_repeated_values(seed, n_draws, n):
    rng = np.random.default_rng(seed)
    values, times = rng.integers(0, 5, n).astype(float), rng.integers(0, 3, (n_draws, n))
    times[:, 0] += 1
    wanted = [np.median(np.repeat(values, row)) for row in times]
    assert _medians(values, times).tolist() == wanted


def test_the_bootstrap_draws_whole_texts():
    """Values that are equal inside each text: only texts can move the median."""
    groups = np.repeat(np.arange(5), 200)
    wide = spread(groups.astype(float), groups)
    narrow = spread(np.tile(np.arange(5.0), 200), np.repeat(np.arange(5), 200))
    assert wide.high - wide.low >= 2.0
    assert narrow.high == narrow.low == 2.0
    alone = spread(np.arange(100.0), np.zeros(100, dtype=int))
    assert alone.low < 49.5 < alone.high
    assert spread(np.array([np.nan]), np.array([0])).n == 0


def test_the_bundled_model_is_disturbed_without_torch():
    """The read-out depends on what replacing a token by hand says, and sets are compared with that."""
    source = bundled_source(rng=1)
    report = hm.measure_influence(source, rules=["argmax"], baselines=["mean", "zero"], n_draws=20)
    assert report.measures == ("ablation mean", "ablation zero")
    assert report.gradient_exact is None
    shape, vector = source.model.shape, source.model.vector
    plain = run_states(shape, vector, source.sequence[None])[1]
    for s in (0, 7):
        moved = source.sequence.copy()
        moved[s] = 0.0
        wanted = np.abs(run_states(shape, vector, moved[None])[1] - plain).item()
        assert report.texts[0].influence["ablation zero"][-1, -1, s] == pytest.approx(wanted)
    assert report.texts[0].influence["ablation zero"][-1, :-1].max() == 0.0
    found = report.summary()
    assert found.recall.n == 1, "after the last layer CLS alone has a state"
    with pytest.raises(InvalidInputError, match="baseline"):
        hm.measure_influence(source, baselines=["mask"])
    with pytest.raises(InvalidInputError, match="probes"):
        hm.measure_influence(source, probes=2)


def test_the_layer_that_still_says_something():
    report = synthetic_report()
    assert report.telling_layer() in (1, 2)
    full = [replace(text, flows=(text.flows[1], text.flows[1])) for text in report.texts]
    assert report_of("full", full, n_draws=2, n_bootstrap=5).telling_layer() is None


# Assumptions
# ----------------------------------------------------------------------------------------------------------


def test_assumptions_are_counted():
    """Four keys, one of them inside the triangle of the others; one query ties, one is hard."""
    keys = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.1, 0.1]])
    queries = np.array([[10.0, 0.0], [-1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
    layer = CapturedLayer(0, queries, queries[None], keys[None], keys[None], np.ones((4, 4), dtype=bool), 1.0)
    recorder = AssumptionRecorder()
    recorder(layer)
    report = assumption_report("toy", ("one",), recorder)
    assert report.queries["margin"].tolist() == pytest.approx([19.0, 0.0, 0.95, 1.9])
    assert report.share_tied() == 0.25
    assert report.share_hard(0.01).median == 0.25
    assert report.share_hard(0.01, guaranteed=True).median == 0.25
    assert report.share_hard_heads(0.1).median == 0.0
    assert report.share_hard_heads(0.1, of_queries=0.25).median == 1.0
    assert report.heads["can_win"].tolist() == [3.0]
    assert report.share_all_win().median == 0.0
    assert report.heads["spans"].tolist() == [1.0]
    recorder(replace(layer, keys=keys[None, [0, 0, 1, 2]], index=1))
    assert recorder.heads["copies"] == [0, 1]


def test_assumptions_of_the_bundled_model(tmp_path):
    source = bundled_source()
    recorder = AssumptionRecorder(reachable=False)
    source.read(None, recorder)
    report = assumption_report(source.name, ("drawn",), recorder)
    assert report.n_layers == 2
    assert np.isnan(report.heads["can_win"]).all()
    margins = report.queries["margin"][report.queries["layer"] == 1]
    assert len(margins) == 2  # in the last layer CLS alone asks, with two heads
    again = hm.load(report.save(tmp_path / "assumptions.npz"))
    assert again.margins(0) == report.margins(0)
    with pytest.raises(InvalidInputError, match="layer"):
        report.margins(7)


# Norms
# ----------------------------------------------------------------------------------------------------------


def norm_case(seed, *, centred=True, biased=True, n=5, d=8, heads=2, d_head=3):
    rng = np.random.default_rng(seed)
    residual = 3 * rng.standard_normal((n, d)) + rng.standard_normal(n)[:, None]
    norm = Norm(centred, 1 + 0.3 * rng.standard_normal(d), biased * rng.standard_normal(d), 1e-5)
    queries = QueryMap(rng.standard_normal((heads, d_head, d)), biased * rng.standard_normal((heads, d_head)))
    keys = rng.standard_normal((heads, n, d_head))
    inputs = norm(residual)
    asked = np.einsum("hed,td->hte", queries.matrix, inputs) + queries.offset[:, None]
    present = np.tri(n, dtype=bool)
    layer = CapturedLayer(0, inputs, asked, keys, keys, present, 0.6, query_map=lambda t: queries)
    directions = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    return layer, norm, residual, directions


@some
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_shares_are_those_of_queries_computed_one_by_one(seed, centred):
    layer, norm, residual, directions = norm_case(seed, centred=centred)
    t, radii, n_points = 4, (0.5, 3.0), 40
    found = differing_shares(layer, norm, residual, t, directions, radii, n_points=n_points)
    queries = layer.query_map(t)
    for i, radius in enumerate(radii):
        points = residual[t] + radius * disk_points(n_points) @ directions
        differs = []
        for x in points:
            routes = []
            for y in (norm(x), norm.frozen(x, residual[t])):
                asked = np.einsum("hed,d->he", queries.matrix, y) + queries.offset
                scores = np.einsum("he,hne->hn", asked, layer.keys) * layer.scale
                scores[:, ~layer.present[t]] = -np.inf
                routes.append(scores.argmax(axis=1))
            differs.append(routes[0] != routes[1])
        wanted = [*np.mean(differs, axis=0), np.any(differs, axis=1).mean()]
        assert found[i].tolist() == pytest.approx(wanted, abs=1.0 / n_points)  # one point may sit on a wall


@some
@given(st.integers(0, 2**32 - 1))
def test_an_rms_norm_without_biases_may_be_frozen(seed):
    """Scores are then multiplied by a positive number, which no arg-max sees."""
    layer, norm, residual, directions = norm_case(seed, centred=False, biased=False)
    assert differing_shares(layer, norm, residual, 3, directions, (0.1, 1.0, 10.0)).max() == 0.0


def test_freezing_matters_the_more_the_farther_one_goes():
    shares = [
        differing_shares(*norm_case(seed)[:3], 4, norm_case(seed)[3], (1e-6, 30.0), n_points=64)
        for seed in range(20)
    ]
    assert np.max([share[0] for share in shares]) == 0.0
    assert np.mean([share[1, -1] for share in shares]) > 0.1


def test_a_norm_case_that_cannot_be_compared():
    layer, norm, residual, directions = norm_case(0)
    with pytest.raises(InvalidInputError, match="query_map"):
        differing_shares(replace(layer, query_map=None), norm, residual, 0, directions, (1.0,))
    with pytest.raises(DimensionMismatchError, match="directions"):
        differing_shares(layer, norm, residual, 0, directions[:1], (1.0,))
    masked = replace(layer, present=np.zeros_like(layer.present))
    with pytest.raises(InvalidInputError, match="mask"):
        differing_shares(masked, norm, residual, 0, directions, (1.0,))


def test_assumptions_of_a_source_with_its_own_sequence():
    """One text may be given as it is, several with or without names, and none where the source has one."""
    source = bundled_source()
    assert hm.models.check_assumptions(source, reachable=False).texts == ("text",)
    assert hm.models.check_assumptions(source, {"mine": None}, reachable=False).texts == ("mine",)
    with pytest.raises(InvalidInputError, match="at least one text"):
        hm.models.check_assumptions(source, [])
    with pytest.raises(InvalidInputError, match="vectors"):
        hm.models.check_assumptions(source, "a text")
