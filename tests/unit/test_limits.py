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
