"""``progress=True`` shows a bar, a function is called, anything else gets one sentence: in every verb."""

from __future__ import annotations

import time

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.models.bundled import bundled_source
from hardmax.progress import Bar, Progress

SEQUENCES = np.random.default_rng(0).standard_normal((3, 15, 4))
SQUARE = hm.Box.cube(2, -4, 4)
NETWORK = hm.Network.random_mlp([2, 8, 8, 1], 0)
VERBS = {
    "enumerate_regions": lambda option: hm.enumerate_regions(NETWORK, SQUARE, progress=option),
    "count_cells": lambda option: hm.count_cells(NETWORK, SQUARE, progress=option),
    "count_regions": lambda option: hm.count_regions(NETWORK, SQUARE, progress=option),
    "estimate_cells": lambda option: hm.estimate_cells(NETWORK, SQUARE, n_samples=1000, progress=option),
    "trace_segment": lambda option: hm.trace_segment(NETWORK, [-4, -4], [4, 4], progress=option),
    "measure_influence": lambda option: hm.measure_influence(
        bundled_source(), rules=["argmax"], n_draws=2, n_bootstrap=2, progress=option
    ),
    "check_claims": lambda option: hm.check_claims("tropical.newton*", progress=option),
    "corpus": lambda option: hm.head_atlas(bundled_source(), SEQUENCES, progress=option),
    "compare": lambda option: hm.compare(bundled_source(), bundled_source(), SEQUENCES, progress=option),
    "along_training": lambda option: hm.along_training(
        [bundled_source()], SEQUENCES, n_cells=0, progress=option
    ),
    "head_atlas": lambda option: hm.head_atlas(bundled_source(), plane=None, progress=option),
    "report": lambda option: hm.report(rules=["argmax"], progress=option),
}
WATCHES = ["enumerate_regions", "count_cells", "count_regions", "estimate_cells", "trace_segment"]


@pytest.mark.parametrize("verb", VERBS)
def test_true_shows_a_bar_on_standard_error(verb, capsys):
    VERBS[verb](True)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.rstrip("\n").split("\r")
    assert lines[-1].startswith("[###")
    assert "100 %" in lines[-1]
    assert shown.err.endswith("\n")


@pytest.mark.parametrize("verb", VERBS)
def test_none_and_false_show_nothing(verb, capsys):
    VERBS[verb](None)
    VERBS[verb](False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", WATCHES)
def test_a_function_is_called(verb, capsys):
    seen: list[Progress] = []
    VERBS[verb](seen.append)
    assert seen
    assert seen[-1].n_cells > 10
    assert seen[-1].share == pytest.approx(1.0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("option", [3, "bar"])
def test_anything_else_gets_one_sentence(verb, option):
    with pytest.raises(InvalidInputError, match=f"progress must be True .* but was {option!r}; try"):
        VERBS[verb](option)


def test_a_bar_without_a_share_counts(capsys):
    bar = Bar(Progress.line)
    bar(Progress(1234, None, 2.0))
    bar(Progress(5, None, 3.0))  # too early for a new line, but the last one stands
    bar.close()
    assert capsys.readouterr().err == "\r1,234 cells, 2 s\r5 cells, 3 s    \n"


def test_the_clock_starts_before_the_first_program_is_solved():
    """In 300 dimensions nothing is asked about a box that a box knows: a limit of one second is kept."""
    network, box = hm.Network.random_mlp([300, 4, 1], 0), hm.Box.cube(300, -1, 1)
    hm.count_cells(hm.Network.random_mlp([8, 4, 1], 0), hm.Box.cube(8, -1, 1))  # compiles
    begin = time.process_time()
    count = hm.count_cells(network, box, time_limit=1)
    assert time.process_time() - begin < 5.0
    assert count.n_cells == 16 or not count.complete


def test_the_time_that_a_machine_takes_to_begin_counts(monkeypatch):
    from hardmax.regions.engine.question import Question

    machine, seen = Question.machine, []

    def slow(question):
        time.sleep(0.3)
        return machine(question)

    monkeypatch.setattr(Question, "machine", slow)
    count = hm.count_cells(
        hm.Network.random_mlp([2, 64, 64, 64, 1], 0), SQUARE, time_limit=0.2, progress=seen.append
    )
    assert not count.complete
    assert seen[0].seconds >= 0.3
