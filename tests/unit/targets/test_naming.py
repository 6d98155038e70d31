"""Targets by name: the same ones as by their functions, and a sentence for what is none."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import GrowingActiveSetError, InvalidInputError
from hardmax.training.fused import FusedSteps
from hardmax.training.layout import TransformerShape


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("retrieval:3", hm.targets.retrieval(3)),
        ("kth-largest:2", hm.targets.kth_largest(2)),
        ("position-sum:0,2", hm.targets.position_sum([0, 2])),
        ("triangle-center", hm.targets.triangle_center()),
        ("depth-separation", hm.targets.depth_separation()),
        ("pairwise:2", hm.targets.pairwise(np.random.default_rng(0).standard_normal((2, 4, 4)))),
    ],
)
def test_a_name_is_the_function(text, made):
    X = made.sample(20, 5, 1)
    named = hm.targets.named(text)
    assert (named(X) == made(X)).all()
    assert repr(named) == repr(made)


def test_verbs_take_names():
    target = hm.targets.named("pairwise:2")
    assert hm.advise("pairwise:2", 16).to_dict() == hm.advise(target, 16).to_dict()
    shape = hm.Architecture(16, 4, (2, 2), 16)
    assert hm.estimate_cost("pairwise:2", shape).upper == hm.estimate_cost(target, shape).upper


def test_pairwise_takes_matrices_instead_of_a_number():
    stack = np.random.default_rng(5).standard_normal((2, 3, 3))
    X = np.random.default_rng(6).standard_normal((4, 5, 3))
    for given in (stack, {"A": stack[0], "B": stack[1]}):
        assert (hm.targets.named("pairwise", matrices=given)(X) == hm.targets.pairwise(stack)(X)).all()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (3, {}, "must be a Target or a text, but was a int"),
        ("retrievl:3", {}, r"no target \(did you mean retrieval\?\)"),
        ("pairwise", {}, "must be followed by a number"),
        ("pairwise:2", {"matrices": np.ones((1, 2, 2))}, "either a number or matrices"),
        ("retrieval:1", {"matrices": np.ones((1, 2, 2))}, "matrices belong to pairwise"),
        ("triangle-center:2", {}, "takes no number"),
        ("position-sum:a", {}, "separated by commas"),
    ],
)
def test_what_is_no_target_gets_one_sentence(text, options, words):
    with pytest.raises(InvalidInputError, match=words):
        hm.targets.named(text, **options)


# Tasks by name
# ----------------------------------------------------------------------------------------------------------


def test_associative_recall_reads_the_value_beside_the_nearest_key():
    """Against a plain loop, on sequences whose marks and keys are clearly apart."""
    rng = np.random.default_rng(0)
    X = np.empty((200, 8, 3))
    X[..., 0] = 0.05 * rng.random((200, 8))
    asks = rng.integers(0, 8, 200)
    X[np.arange(200), asks, 0] = 1.0
    X[..., 1] = rng.permuted(np.tile(np.arange(8) ** 2 / 5.0, (200, 1)), axis=1)
    X[..., 2] = rng.random((200, 8))
    target = hm.targets.named("associative-recall")
    values, active = target(X), target.active_set(X)
    for i, x in enumerate(X):
        gaps = np.abs(x[:, 1] - x[asks[i], 1])
        gaps[asks[i]] = np.inf
        found = int(gaps.argmin())
        assert set(np.flatnonzero(active[i])) == {asks[i], found}
        assert values[i] == pytest.approx(100 - 10 * gaps[found] ** 2 + x[found, 2])


def test_the_adviser_gives_recall_two_layers_and_copying_one():
    recall = hm.advise("associative-recall", n_tokens=32)
    assert recall.suggestions[0].heads == (1, 1)
    assert recall.suggestions[0].share == 1.0
    assert hm.advise("copy:3", n_tokens=32).suggestions[0].heads == (1,)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("parity", "Hahn 2020"),
        ("majority", "one head with equal scores"),
        ("mean-pooling", "one head with equal scores"),
        ("sorting", "try kth-largest:3"),
    ],
)
def test_tasks_whose_active_set_grows_are_refused_with_what_is_known(name, known):
    with pytest.raises(GrowingActiveSetError, match="says nothing about it") as raised:
        hm.advise(name, n_tokens=16)
    assert known in str(raised.value)


@pytest.mark.parametrize(("name", "near"), [("induction", "associative-recall"), ("k-hop:3", "induction")])
def test_chains_are_no_targets_and_point_to_what_there_is(name, near):
    with pytest.raises(InvalidInputError, match=r"hm\.advise has such a plan") as raised:
        hm.targets.named(name)
    assert near in str(raised.value)


@pytest.mark.parametrize(
    ("name", "heads", "widths"),
    [
        ("induction", (1, 1), (4, 2)),
        ("k-hop:3", (1, 1, 1), (4, 6, 3)),
        ("k-hop:4", (1, 1, 1, 1), (4, 6, 6, 2)),
    ],
)
def test_the_adviser_has_plans_for_chains(name, heads, widths):
    advice = hm.advise(name, n_tokens=48, max_depth=4)
    first, everything = advice.suggestions
    assert (first.heads, first.widths, first.share, first.exponent) == (heads, widths, 1.0, 0)
    assert (everything.heads, everything.widths) == ((1,), (96,))
    assert advice.what_was_done() == (
        "carries what it needs on 100 % of 128 sampled inputs; nothing was trained"
    )
    assert "nothing was run" in advice.what_was_done(1)


def test_chains_that_do_not_fit_are_said():
    assert hm.advise("k-hop:8", n_tokens=64).needs[-1].endswith("try max_depth=5.")
    with pytest.raises(InvalidInputError, match="k-hop must be followed by a number"):
        hm.advise("k-hop", n_tokens=8)
    fits, narrowed = hm.advise("induction", 16, budget=400).suggestions
    assert (fits.exponent, narrowed.rules, narrowed.exponent > 1) == (0, "everything", True)
    assert fits.parameters <= 400 >= narrowed.parameters


def test_wrong_numbers_of_tasks_are_said():
    with pytest.raises(InvalidInputError, match="copy must be followed by a position"):
        hm.targets.named("copy")
    with pytest.raises(InvalidInputError, match="parity takes no number"):
        hm.targets.named("parity:3")


def test_equal_scores_average_so_one_layer_has_the_mean_and_the_majority():
    """What the refusals of mean-pooling and majority say: CLS, with queries of zero, receives the mean."""
    shape = TransformerShape(7, 1, widths=(2,), heads=(1,), hidden=(2,), activation="relu")
    parts = {parameter.name: np.zeros(parameter.shape, np.float32) for parameter in shape.parameters}
    parts["encoder.weight"][0, 0] = 1.0
    parts["layers.0.key"][:] = [[3.0, 1.0], [2.0, 5.0]]  # any keys: queries are zero
    parts["layers.0.value"][:] = parts["layers.0.output"][:] = np.eye(2)
    parts["layers.0.hidden.weight"][0, 0] = parts["layers.0.out.weight"][0, 0] = 1.0
    steps = FusedSteps(shape, shape.join(parts))
    X = np.array(list(product((0.0, 1.0), repeat=7)), dtype=np.float32)[:, :, None]
    means = steps.predict(X)[:, 0]
    np.testing.assert_allclose(means, X.mean(axis=(1, 2)), atol=1e-6)
    assert ((means > 0.5) == (X.sum(axis=(1, 2)) >= 4)).all()
