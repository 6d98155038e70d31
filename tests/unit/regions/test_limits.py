"""Limits in every dimension: partial results that say so, from the first moment and inside long decisions."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from hardmax.networks.layers import layers_of
from hardmax.progress import Progress, duration
from hardmax.regions import api
from hardmax.regions.engine import stack_machine, workers
from hardmax.regions.engine.stack_machine import OutOfTime
from hardmax.regions.outlook import Outlook, outlook, upper_bound
from hardmax.regions.search import kernels
from hardmax.regions.search.machine import SearchMachine

WIDTHS = {1: [1, 30, 30, 2], 2: [2, 24, 24, 2], 3: [3, 12, 12, 2], 7: [7, 9, 9, 2], 784: [784, 24, 24, 2]}


def case(d):
    return hm.Network.random_mlp(WIDTHS[d], 1), hm.Box.cube(d, -1, 1)


class Clock:
    """A clock that is a second later at every look."""

    def __init__(self):
        self.now = 0.0

    def thread_time(self):
        return time.thread_time()

    def monotonic(self):
        self.now += 1.0
        return self.now


# The table: every verb in every dimension ---------------------------------------------------------


@pytest.mark.parametrize("d", WIDTHS)
def test_a_limit_on_cells_gives_the_first_ones(d):
    net, box = case(d)
    found = hm.enumerate_regions(net, box, max_cells=4)
    count, regions = hm.count_cells(net, box, max_cells=4), hm.count_regions(net, box, max_cells=4)
    for result in (found, count, regions):
        assert result.n_cells == 4
        assert not result.complete
        assert "INCOMPLETE" in repr(result)
        assert result.outlook.n_signatures > 4
        assert result.outlook.upper.value >= result.outlook.n_signatures
        assert str(result.outlook) in repr(result)
    assert (found.locate(found.witnesses) == np.arange(4)).all()
    assert (found.margins > 0).all()
    assert found.bounded.all()
    assert found.linear.shape == (4, 2, d)
    for share in (found.coverage, count.coverage):
        assert share is None or 0 < share < 1
    assert (found.coverage is None) == (d >= 7)
    if d <= 7:
        whole = hm.enumerate_regions(net, box)
        assert whole.outlook is None
        places = whole.locate(found.witnesses)  # on the line the first ones are those on the left
        assert (places >= 0).all() if d == 1 else (places == np.arange(4)).all()


@pytest.mark.parametrize("d", [2, 3, 7, 784])
@pytest.mark.parametrize("verb", [hm.count_cells, hm.count_regions, hm.enumerate_regions])
def test_a_limit_on_time_is_kept_from_the_first_moment(d, verb, monkeypatch):
    """The clock jumps beyond the limit at the first look."""
    clock = Clock()
    for module in (api, workers, stack_machine):
        monkeypatch.setattr(module, "time", clock)
    net, box = hm.Network.random_mlp([d, 120, 120, 2], 1), hm.Box.cube(d, -1, 1)
    found = verb(net, box, time_limit=1e-9)
    assert not found.complete
    assert found.n_cells <= found.outlook.upper.value
    assert "INCOMPLETE" in repr(found)
    if verb is hm.enumerate_regions:
        assert (found.locate(found.witnesses) == np.arange(found.n_cells)).all()


def test_other_verbs_stop_too(monkeypatch):
    net, box = case(784)
    monkeypatch.setattr("hardmax.limits.monotonic", Clock().monotonic)
    estimate = hm.estimate_cells(net, box, n_samples=20_000, time_limit=1.5)
    assert 0 < estimate.n_samples < 20_000
    assert not estimate.complete
    assert "INCOMPLETE" in repr(estimate)
    with pytest.raises(hm.errors.InvalidInputError, match="time_limit"):
        hm.estimate_cells(net, box, time_limit=0)
    trace = hm.trace_segment(net, [-1.0] * 784, [1.0] * 784, max_pieces=2)
    assert (trace.n_pieces, trace.complete) == (2, False)
    assert 0 < trace.reach < 1


@pytest.mark.parametrize("domain", [hm.WholeSpace(12), hm.Polytope(-np.eye(12), np.ones(12))])
def test_domains_that_are_no_boxes(domain):
    found = hm.enumerate_regions(hm.Network.random_mlp([12, 20, 20, 2], 0), domain, max_cells=3)
    assert found.n_cells == 3
    assert (found.locate(found.witnesses) == np.arange(3)).all()
    assert (found.outlook.n_signatures is None) == isinstance(domain, hm.Polytope)


# Many dimensions -----------------------------------------------------------------------------------


def test_a_call_of_the_kernel_does_a_bounded_amount_of_work():
    """One program more than allowed, at most: here one takes less than the allowance."""
    net, box = hm.Network.random_mlp([300, 60, 60, 2], 0), hm.Box.cube(300, 0, 1)
    machine = SearchMachine(layers_of(net), box, arithmetic="certified", store=False)
    calls = 0
    while machine.n_cells < 10:
        before = machine.n_programs
        machine.advance(10**9)
        calls += 1
        assert machine.simplex.work[0] < 40 * kernels.MOST_WORK
        assert machine.n_programs > before or machine.n_cells
    assert calls > 3
    assert 0 < machine.size < 1e-9


def test_a_machine_stopped_between_programs_goes_on(monkeypatch):
    """Stopped and restored after every call, which does next to nothing."""
    net, box = hm.Network.random_mlp([40, 12, 12, 2], 0), hm.Box.cube(40, -1, 1)
    layers = layers_of(net)
    straight = SearchMachine(layers, box, arithmetic="certified", store=True)
    straight.limit(40)
    while straight.n_cells < 40:
        straight.advance(1000)
    machine = SearchMachine(layers, box, arithmetic="certified", store=True)
    machine.limit(40)
    while machine.n_cells < 40:
        again = SearchMachine(layers, box, arithmetic="certified", store=True)
        again.restore({name: array.copy() for name, array in machine.state().items()})
        again.limit(40)
        machine = again
        machine.advance(1)
    assert np.array_equal(machine.cells().bits, straight.cells().bits)
    assert np.array_equal(machine.cells().witnesses, straight.cells().witnesses)


# Decisions in rationals ------------------------------------------------------------------------------


def test_a_decision_in_rationals_is_left_when_the_time_is_over(monkeypatch):
    rng = np.random.default_rng(0)
    net = hm.Network.mlp([(rng.integers(-2, 3, (5, 3)), rng.integers(-2, 3, 5)), (np.ones((1, 5)), [0])])
    layers, box = layers_of(net), hm.Box.cube(3, -2, 2)
    straight = SearchMachine(layers, box, arithmetic="exact", store=True)
    while not straight.done:
        straight.advance(1000)
    machine = SearchMachine(layers, box, arithmetic="exact", store=True)
    looks = iter([False] * 7 + [True] + [False] * 3 + [True])

    def check_time():
        if next(looks, False):
            raise OutOfTime

    monkeypatch.setattr(machine, "check_time", check_time)
    machine.advance(10**6)
    left = machine.n_rational
    assert not machine.done
    machine.advance(10**6)
    assert not machine.done
    assert machine.n_rational >= left
    machine.advance(10**6)
    assert machine.done
    assert machine.n_rational == straight.n_rational
    assert np.array_equal(machine.cells().bits, straight.cells().bits)


def test_a_machine_behind_its_deadline_decides_nothing_in_rationals(monkeypatch):
    net, box = case(3)
    machine = SearchMachine(layers_of(net), box, arithmetic="exact", store=False)
    monkeypatch.setattr(stack_machine, "time", Clock())
    machine.deadline = 0.0
    machine.advance(10**6)
    assert (machine.n_rational, machine.done) == (0, False)
    machine.deadline = np.inf
    machine.advance(10)
    assert machine.n_rational > 0


# What to expect --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "d"),
    [
        (hm.Network.random_mlp([2, 3, 3, 1], 0), 2),
        (hm.Network.random_mlp([3, 5, 4, 1], 0), 3),
        (hm.Network.random(2, n_tokens=4, heads=2, depth=2, d_ff=3, rng=0), 2),
        (hm.Network.mlp([(np.eye(2), np.zeros(2)), (np.ones((1, 2)), [0])], slope=0.25), 2),
        (hm.Network([hm.Affine(np.eye(2), np.zeros(2))]), 2),
    ],
)
def test_bound_and_sample_enclose_the_count(network, d):
    for domain in (hm.Box.cube(d, -3, 3), hm.WholeSpace(d)):
        known, count = outlook(network, domain), hm.count_cells(network, domain)
        assert known.n_signatures <= count.n_cells <= known.upper.value
        assert known.n_signatures <= known.n_samples


def test_the_bound_of_a_network_is_the_one_with_ranks_where_that_holds():
    assert upper_bound(hm.Network.random_mlp([2, 3, 3, 1], 0)).value == 40
    head = hm.Attention(np.ones((2, 3, 2)) * np.arange(3)[None, :, None], None, np.zeros((2, 3, 2)))
    assert upper_bound(hm.Network([head])).value == 9


def test_points_that_never_meet_say_more_than_their_number():
    bound = upper_bound(hm.Network.random_mlp([2, 3, 3, 1], 0))
    assert Outlook(bound, 1000, 1000, 1000).n_cells_likely == int(1000 * 999 / (2 * np.log(20)))
    assert Outlook(bound, 1000, 5000, 12).n_cells_likely == 1000
    assert Outlook(bound, None, 0, 0).n_cells_likely is None
    assert "random points" not in str(Outlook(bound, None, 0, 0))
    # N equal cells: the first k points are all different with probability below 5 % if the bound exceeds N
    k = 200
    n = int(k * (k - 1) / (2 * np.log(20)))
    assert np.prod(1 - np.arange(k) / (n - 1)) < 0.05


def test_partial_results_survive_a_file(tmp_path):
    net, box = case(2)
    for verb in (hm.count_cells, hm.count_regions, hm.enumerate_regions):
        part = verb(net, box, max_cells=5)
        again = hm.load(part.save(tmp_path / "part.npz"))
        assert repr(again) == repr(part)
        assert again.outlook == part.outlook
        assert json.dumps(part.to_dict())


def test_progress_has_an_estimate_from_the_share_of_the_tree(monkeypatch):
    monkeypatch.setattr(workers, "_EARLY", 0.0)
    told = []
    net, box = case(7)
    count = hm.count_cells(net, box, progress=told.append)
    assert told[-1].share == pytest.approx(1.0)
    assert told[-1].estimate == pytest.approx(count.n_cells)
    assert all(a.share <= b.share for a, b in pairwise(told))
    assert told[0].outlook.n_signatures <= count.n_cells
    assert count.coverage is None


def test_what_a_bar_says():
    share, text = Progress(100, 0.25, 30.0).line()
    assert (share, text) == (0.25, "100 cells of about 400, 30 s, about 2 min left")
    assert Progress(0, 0.0, 1.0).line() == (0.0, "0 cells, 1 s")
    assert Progress(7, 1.0, 1.0).line() == (1.0, "7 cells of about 7, 1 s")
    assert Progress(5, 1e-80, 10.0).seconds_left == pytest.approx(1e81)
    assert duration(1e81).endswith("years")


def test_the_command_line_says_early_what_to_expect(capsys):
    from hardmax.cli.regions import _expected, _Outlook

    known = Outlook(upper_bound(hm.Network.random_mlp([2, 3, 3, 1], 0)), 30, 1000, 5)
    text = _expected(Progress(10, 1e-30, 5.0, known))
    assert "at most 40" in text
    assert "an estimate: about 1e+31 cells" in text
    assert "years more" in text
    assert "At the present rate of 2 cells per second, 30 cells take 15 s" in text
    said = _Outlook()
    for seconds in (1.0, 2.9, 3.0, 4.0):
        said(Progress(10, None, seconds, known))
    assert capsys.readouterr().err.count("This takes long") == 1
    _Outlook()(Progress(10, None, 33.0, known))  # the first report: kernels were compiled before it
    assert capsys.readouterr().err == ""
