"""Time limits, on a clock that the tests move: what is looked at between pieces of work, and what is said."""

import numpy as np
import pytest

import hardmax as hm
from hardmax import limits
from hardmax.errors import IncompleteError, InvalidInputError
from hardmax.progress import shown
from hardmax.verification import stages


class Ticking:
    """A clock that goes on by one second whenever it is looked at."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.fixture
def ticking(monkeypatch):
    clock = Ticking()
    monkeypatch.setattr(limits, "monotonic", clock)
    return clock


def test_a_clock_is_over_after_its_limit_and_says_how_far_it_came(ticking):
    clock = limits.Clock(2.5, "count sheep")
    clock.check("1 sheep")
    clock.check("2 sheep")
    with pytest.raises(IncompleteError, match=r"enough to count sheep, but was 2\.5 s; so far: 3 sheep\."):
        clock.check("3 sheep")
    assert not limits.Clock(None).over


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_what_is_no_limit_is_refused(limit):
    with pytest.raises(InvalidInputError, match="time_limit must be a positive number of seconds"):
        limits.Clock(limit)


def test_progress_and_limit_look_at_the_same_places(ticking):
    seen = []

    def count():
        with shown(seen.append, lambda n: (None, f"{n} sheep"), limits.Clock(2.5, "count")) as look:
            for n in range(10):
                look(n)

    with pytest.raises(IncompleteError, match="so far: 2 sheep"):
        count()
    assert seen == [0, 1, 2]  # reported before it is given up
    with shown(None, lambda n: (None, ""), limits.Clock(None)) as look:
        assert look is None


def test_verify_visits_no_node_after_its_time(ticking):
    net, box = hm.Network.random_mlp([3, 16, 16, 1], 0), hm.Box.cube(3, -1, 1)
    top = hm.maximise(net, 0, box).value
    few = hm.verify(net, f"y0 <= {top}", box, time_limit=20.0)
    more = hm.verify(net, f"y0 <= {top}", box, time_limit=60.0)
    assert few.verdict == "unknown"
    assert few.n_nodes < more.n_nodes <= 60  # every node looks at the clock
    late = hm.verify(net, f"y0 <= {top}", box, time_limit=1e-9)
    assert (late.verdict, late.n_nodes) == ("unknown", 1)  # so that a search that is taken up again gets on


def test_verify_makes_no_fractions_of_wide_layers(monkeypatch):
    """A program of a network without twin units costs no Python object per weight."""

    def refuse(stage):
        raise AssertionError("rows were made of fractions")

    net = hm.Network.random_mlp([30, 40, 40, 2], 0)
    monkeypatch.setattr(stages, "_sparse_rows", refuse)
    stages.program_of(net)
    twins = hm.Network.mlp([([[1.0], [-1.0]], None), ([[1.0, 1.0]], None)])
    with pytest.raises(AssertionError, match="fractions"):
        stages.program_of(twins)


def test_verify_computes_the_outputs_of_a_violation_once(monkeypatch):
    net, asked = hm.Network.random_mlp([3, 8, 1], 0), []
    value = type(net).exact_value
    monkeypatch.setattr(type(net), "exact_value", lambda self, x: asked.append(x) or value(self, x))
    found = hm.verify(net, "y0 <= -100", hm.Box.cube(3, -1, 1))
    assert found.verdict == "violated"
    assert found.outputs == value(net, np.array(found.counterexample, dtype=object))
    assert len(asked) == 1


def test_an_incomplete_boundary_is_shown_without_its_pieces(monkeypatch):
    from hardmax.regions.decisions.boundary import DecisionBoundary

    network = hm.Network.random_mlp([2, 16, 16, 3], 0)
    part = hm.decision_boundary(network, hm.Box.cube(2, -4, 4), max_cells=5)

    def refuse(self):
        raise AssertionError("contacts were computed")

    monkeypatch.setattr(DecisionBoundary, "_contacts", property(refuse))
    assert repr(part) == "<DecisionBoundary: 5 class cells in 2-space, INCOMPLETE, exact>"
    assert part.to_dict()["class_cells"]


def two_heads(rng):
    head = hm.Attention(
        rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5)), 0.1 * rng.standard_normal((2, 5, 3))
    )
    return hm.Network([head, head])


def test_certified_temperature_looks_at_the_clock_within_one_input(ticking):
    rng = np.random.default_rng(0)
    network, point = two_heads(rng), rng.standard_normal((1, 3))
    with pytest.raises(IncompleteError, match="so far: 0 of 1 input read"):
        hm.certified_temperature(network, point, time_limit=3.0)
    with pytest.raises(IncompleteError, match="so far: 0 of 1 input proven"):
        hm.certified_temperature(network, point, time_limit=40.0)


def test_certified_temperature_is_the_same_with_and_without_a_limit():
    rng = np.random.default_rng(0)
    network, points, seen = two_heads(rng), rng.standard_normal((4, 3)), []
    limited = hm.certified_temperature(
        network, points, time_limit=1e6, progress=lambda done, total, what: seen.append((done, total, what))
    )
    plain = hm.certified_temperature(network, points)
    assert limited.temperature == plain.temperature
    assert (limited.curve_leads == plain.curve_leads).all()
    assert {what for _, _, what in seen} > {"read", "proven"}


ASKED = {
    "advise": lambda **limit: hm.advise("pairwise:2", 300, n_samples=300, **limit),
    "estimate_cost": lambda **limit: hm.estimate_cost(
        "pairwise:2", hm.Architecture(300, 4, (2, 2), 24), n_samples=300, **limit
    ),
    "estimate_cost, narrow": lambda **limit: hm.estimate_cost(
        "pairwise:2", hm.Architecture(300, 4, (2, 2), 2), n_samples=300, **limit
    ),
    "information_sets": lambda **limit: hm.information_sets(
        hm.Architecture(300, 2, (1, 1), 4),
        hm.Plan([{"tokens": [DOT]}, {"cls": [DOT]}]),
        np.random.default_rng(0).standard_normal((300, 300, 2)),
        **limit,
    ),
}
DOT = hm.MaxPosition(lambda q, k: np.einsum("bsid,btjd->bst", q, k))


@pytest.mark.parametrize("name", ASKED)
def test_flow_looks_at_the_clock_between_blocks_of_samples(name, monkeypatch):
    """Between two looks no more pairs of tokens are read than in a block, whatever the number of samples."""
    clock = Ticking()
    monkeypatch.setattr(limits, "monotonic", clock)
    ASKED[name](time_limit=1e9)
    assert clock.now > 300 * 300**2 / (1 << 22)
    with pytest.raises(IncompleteError, match=r"time_limit must be enough to .* so far: "):
        ASKED[name](time_limit=3.0)


KEYS = np.random.default_rng(0).standard_normal((12, 3))
HIGH = np.random.default_rng(1).standard_normal((14, 12))
POLYNOMIALS = [hm.TropicalPolynomial(KEYS + i, np.arange(12.0) * i) for i in (1, 2)]

SEARCHES = {
    "a walk": lambda **limit: hm.attention_diagram(KEYS, k=3).find(**limit).sets.tolist(),
    "levels": lambda **limit: hm.attention_diagram(HIGH, k=3).find(**limit).sets.tolist(),
    "sums of sets": lambda **limit: hm.minkowski_vertices([KEYS, -KEYS], k=2, **limit).choices.tolist(),
    "a refinement": lambda **limit: hm.common_refinement(*POLYNOMIALS, **limit).terms.tolist(),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_look_at_the_clock_and_find_the_same_with_a_limit(name, monkeypatch):
    search = SEARCHES[name]
    plain, seen = search(), []
    monkeypatch.setattr(limits, "monotonic", Ticking())
    assert search(time_limit=1e9, progress=lambda *at: seen.append(at)) == plain
    assert seen
    with pytest.raises(IncompleteError, match=r"time_limit must be enough to find .* so far: "):
        search(time_limit=0.5)


def test_a_search_that_was_given_up_can_be_made_again(ticking):
    diagram = hm.attention_diagram(KEYS, k=3)
    with pytest.raises(IncompleteError):
        diagram.find(time_limit=0.5)
    assert diagram.find(time_limit=1e9).n_cells == diagram.n_cells > 12


def model_verbs():
    source, sequences = hm.models.bundled_source(), np.random.default_rng(0).standard_normal((5, 15, 4))
    return {
        "report": lambda **limit: hm.report(None, sequences, **limit),
        "one report": lambda **limit: hm.report(**limit),
        "measure_influence": lambda **limit: hm.measure_influence(
            source, sequences, rules=["argmax"], **limit
        ),
        "one influence": lambda **limit: hm.measure_influence(source, rules=["argmax"], **limit),
        "compare": lambda **limit: hm.compare(source, source, sequences, **limit),
    }


@pytest.mark.parametrize("name", model_verbs())
def test_models_look_at_the_clock_between_passes_and_texts(name, ticking):
    verb = model_verbs()[name]
    with pytest.raises(
        IncompleteError,
        match=r"time_limit must be enough to .* so far: (nothing|loading|.*[0-9] of [0-9])",
    ):
        verb(time_limit=0.5)
    assert ticking.now < 10.0
    assert verb(time_limit=1e9)


def test_trees_and_random_matrices_beyond_patience_are_refused_beforehand():
    with pytest.raises(InvalidInputError, match=r"5 trees would have 2,497,275 leaves at T = 1000"):
        hm.targets.named("pairwise:5").trees(1000)
    with pytest.raises(InvalidInputError, match=r"at most 4,194,304 weights.* 1,000 of 300 x 300"):
        hm.targets.named("pairwise:1000", d=300)


@pytest.mark.filterwarnings("error")
def test_a_box_too_large_to_draw_gets_a_sentence():
    diagram = hm.attention_diagram([[1, 0], [0, 1], [-1, -1]])
    with pytest.raises(InvalidInputError, match=r"box must lie within 1e\+150 of 0 to be drawn, .* 1e\+308"):
        diagram.plot(box=hm.Box.cube(2, -1, 1e308))


def test_a_clock_covers_the_calls_inside(ticking):
    def ask():
        clock = limits.Clock(6.5, "ask all")
        with clock.around_calls():
            clock.check("1 of 9")
            assert limits.Clock(None, "ask one").limited
            assert limits.left(90.0) < 6.5
            while True:
                limits.look()

    with pytest.raises(IncompleteError, match=r"enough to ask all, but was 6\.5 s; so far: 1 of 9"):
        ask()
    limits.look()  # nothing is around it any more
    assert limits.left(None) is None


def test_what_fails_because_it_was_cut_short_is_not_blamed(ticking):
    def fail(seconds):
        with limits.Clock(5.5, "ask all").around_calls():
            ticking.now += seconds
            raise ZeroDivisionError

    with pytest.raises(IncompleteError, match="ask all"):
        fail(9.0)
    with pytest.raises(ZeroDivisionError):
        fail(1.0)


def test_an_enumeration_inside_is_over_with_the_clock_around_it():
    network, box = hm.Network.random_mlp([2, 100, 100, 1], 0), hm.Box.cube(2, -4, 4)
    hm.count_cells(network, box, max_cells=10)  # compiles
    found = []

    def count():
        with limits.Clock(0.5, "count").around_calls():
            found.append(hm.count_cells(network, box, arithmetic="exact"))  # takes minutes

    with pytest.raises(IncompleteError, match="enough to count"):
        count()
    assert not any(one.complete for one in found)


@pytest.mark.parametrize("seconds", ["3", True, None, 10**5000, -(10**5000), 0], ids=range(6))
def test_seconds_are_a_positive_number(seconds):
    if seconds is None or (not isinstance(seconds, (str, bool)) and seconds > 0):
        assert not limits.Clock(seconds).over
        return
    with pytest.raises(InvalidInputError, match="positive number of seconds"):
        limits.Clock(seconds)


def short_verbs(tmp_path):
    """Verbs that are given up at once, whatever they are asked."""
    rng = np.random.default_rng(0)
    source, sequences = hm.models.bundled_source(), rng.standard_normal((3, 15, 4))
    network = hm.Network.random(2, 3, 1, 1, 4, 0)
    shape = hm.training.TransformerShape(3, 1, widths=(4,), heads=(1,), hidden=(8,), beta=1.0)
    settings = hm.training.TrainingSettings(128, batch=64, train_size=64, validation_size=64)
    layer = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]])
    retrieval, largest = hm.targets.retrieval(2), {"name": "kth_largest", "k": 2}
    return {
        "head_atlas": lambda **o: hm.head_atlas(source, **o),
        "corpus": lambda **o: hm.head_atlas(source, sequences, **o),
        "along_training": lambda **o: hm.along_training([source], sequences, **o),
        "check_assumptions": lambda **o: hm.models.check_assumptions(source, **o),
        "token_flow": lambda **o: hm.models.token_flow(source, **o),
        "router_flips": lambda **o: hm.models.router_flips(source, **o),
        "check_claims": lambda **o: hm.check_claims("tropical.fig4_216", **o),
        "reproduce": lambda **o: hm.reproduce("tropical.fig4", tmp_path, **o),
        "train": lambda **o: hm.training.train(hm.training.Job(largest, shape, settings), **o),
        "examples": lambda **o: hm.training.examples(largest, 4, 10, **o),
        "find": lambda **o: hm.attention_diagram(rng.standard_normal((400, 8))).find(**o),
        "vertices_from_subsets": lambda **o: hm.geometry.vertices_from_subsets(
            rng.standard_normal((4, 3, 3)), **o
        ),
        "surviving_cells": lambda **o: hm.temperature.surviving_cells(network, np.zeros((3, 2)), 1.0, **o),
        "switch_support": lambda **o: hm.targets.switch_support(retrieval, n=4, **o),
        "winning_supports": lambda **o: hm.targets.winning_supports(retrieval, 4, n=4, **o),
        "is_permutation_invariant": lambda **o: hm.targets.is_permutation_invariant(retrieval, **o),
        "measure_active": lambda **o: hm.targets.measure_active(lambda X: X.max(axis=(1, 2)), **o),
        "frozen_context_effect": lambda **o: hm.regions.frozen_context_effect(
            hm.Transformer([layer]), [[1.0], [2.0]], 0, [4.0], **o
        ),
    }


@pytest.mark.parametrize("name", short_verbs(None))
def test_verbs_are_given_up_with_a_sentence_and_show_how_far_they_are(name, tmp_path):
    with pytest.raises(IncompleteError, match="time_limit must be enough to "):
        short_verbs(tmp_path)[name](time_limit=1e-9)
    assert not list(tmp_path.iterdir())
    seen = []
    assert (
        short_verbs(tmp_path)[name](time_limit=600.0, progress=lambda *state: seen.append(state)) is not None
    )
    assert seen


def test_a_study_is_stopped_and_goes_on(tmp_path):
    from hardmax.training.studies import Study, run_study

    study = Study.of("cells", [{"widths": [2, 4, 1], "seed": 0, "box": 4}], runner="cells")
    with pytest.raises(IncompleteError, match=r"run all jobs.*so far: 0 of 1 jobs, which are kept"):
        run_study(tmp_path / "cells", study, time_limit=1e-9)
    assert run_study(tmp_path / "cells").complete


@pytest.mark.parametrize(
    "ask",
    [
        lambda n: hm.Network.random(2, 3, 1, 1, 4, 0).with_rule("top-k", k=n),
        lambda n: hm.Network.random(2, 3, 1, 1, 4, 0).with_rule("sparsemax", temperature=-n),
        lambda n: hm.Network.random(2, 3, 1, 1, 4, 0)(np.zeros(2), n),
        lambda n: hm.check_stability([[1.0, 2.0]], n),
        lambda n: hm.tropical.oplus(1.0, 2.0, n),
        lambda n: hm.attention_diagram([[1.0], [2.0]], k=n),
        lambda n: hm.models.router_flips(np.eye(3), k=n),
        lambda n: hm.count_cells(hm.Network.random_mlp([2, 3, 1], 0), hm.Box.cube(2, -1, 1), n_jobs=n),
        lambda n: hm.count_cells(hm.Network.random_mlp([2, 3, 1], 0), hm.Box.cube(2, -1, 1), max_cells=-n),
        lambda n: hm.temperature.standard_temperature(n),
        lambda n: hm.head_atlas(hm.models.bundled_source(), layers=[n]),
        lambda n: hm.head_atlas(hm.models.bundled_source(), sink_factor=n),
    ],
)
def test_integers_of_thousands_of_digits_get_one_sentence(ask):
    with pytest.raises(InvalidInputError, match="must") as error:
        ask(10**5000)
    assert len(str(error.value)) < 300
