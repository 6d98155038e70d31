"""Networks along segments: breakpoints, signatures, maps, files, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.attention_rules import cells_by_rules, value_by_rules
from oracles.random_networks import instance

import hardmax as hm

NETWORK = hm.Network.random(5, n_tokens=12, heads=3, depth=3, d_ff=32, rng=0)
START, END = [-2.0, 0.3, 1.0, -1.0, 0.0], [2.0, -0.5, 1.0, 1.5, 0.1]


@pytest.fixture(scope="module")
def trace():
    return hm.trace_segment(NETWORK, START, END)


def rows(trace):
    return [(tuple(r), tuple(b)) for r, b in zip(trace.routings.tolist(), trace.bits.tolist(), strict=True)]


def test_pieces_are_the_cells_of_the_slice(trace):
    direction = [Fraction(b) - Fraction(a) for a, b in zip(START, END, strict=True)]
    cells = hm.enumerate_regions(NETWORK.restrict(START, [direction]), hm.Box([0], [1]))
    assert trace.n_pieces == cells.n_cells > 20
    found = {tuple(r) + tuple(b) for r, b in rows(trace)}
    assert found == {
        tuple(r) + tuple(b) for r, b in zip(cells.routings.tolist(), cells.bits.tolist(), strict=True)
    }
    ends = sorted({float(v) for i in range(cells.n_cells) for v in cells.cell_vertices(i)[:, 0]})
    assert np.allclose(ends[1:-1], trace.breakpoints, atol=1e-12)
    assert trace.breakpoints.shape == trace.errors.shape == (trace.n_pieces - 1,)
    assert (np.diff(trace.breakpoints) > 0).all()


def test_signatures_and_values_are_those_of_the_forward_pass(trace):
    places = np.concatenate([[0.0], trace.breakpoints, [1.0]])
    inside = places[:-1] + np.random.default_rng(0).uniform(0.1, 0.9, trace.n_pieces) * np.diff(places)
    points = np.array([trace.point(t) for t in inside])
    seen = NETWORK.signature(points)
    assert np.array_equal(seen.routings, trace.signatures.routings)
    assert np.array_equal(seen.relu, trace.signatures.relu)
    share = ((inside - places[:-1]) / np.diff(places))[:, None]
    expected = (1 - share) * trace.values[:, 0] + share * trace.values[:, 1]
    assert np.allclose(NETWORK(points), expected, atol=1e-10)
    assert np.allclose(trace.slopes * np.diff(places)[:, None], trace.values[:, 1] - trace.values[:, 0])


def test_the_map_bends_at_folds_and_jumps_at_walls(trace):
    jumps = np.abs(trace.values[1:, 0] - trace.values[:-1, 1]).max(axis=1)
    assert (jumps[trace.kinds == 0] < 1e-10).all()
    assert (jumps[trace.kinds == 1] > 1e-3).all()
    assert 0 < trace.kinds.sum() < len(trace.kinds)


def test_exact_breakpoints_are_within_the_errors(trace):
    exact = [trace.exact_breakpoint(i) for i in range(trace.n_pieces - 1)]
    assert exact == sorted(set(exact))
    for place, error, value in zip(trace.breakpoints, trace.errors, exact, strict=True):
        assert abs(Fraction(float(place)) - value) <= Fraction(float(error))
    assert trace.exact_breakpoint(-1) == exact[-1]
    with pytest.raises(hm.errors.InvalidInputError, match=r"i must be in range"):
        trace.exact_breakpoint(trace.n_pieces)


def test_arithmetics_agree(trace):
    exact = hm.trace_segment(NETWORK, START, END, arithmetic="exact")
    assert rows(exact) == rows(trace)
    rough = hm.trace_segment(NETWORK, START, END, arithmetic="float")
    assert rows(rough) == rows(trace)
    assert (exact.exact, trace.exact, rough.exact) == (True, True, False)


@settings(max_examples=40, deadline=None)
@given(number=st.integers(0, 5000), at=st.integers(1, 15))
def test_a_segment_may_be_walked_backwards_and_in_two_parts(number, at):
    case = instance(number)
    rng = np.random.default_rng(number)
    start, end = rng.integers(-3, 4, 2), rng.integers(-3, 4, 2) + [0, 8]
    whole = hm.trace_segment(case.network, start, end)
    back = hm.trace_segment(case.network, end, start)
    assert rows(back) == rows(whole)[::-1]
    middle = [
        Fraction(int(a)) + Fraction(at, 16) * (int(b) - int(a)) for a, b in zip(start, end, strict=True)
    ]
    first = rows(hm.trace_segment(case.network, start, middle))
    second = rows(hm.trace_segment(case.network, middle, end))
    assert first + (second[1:] if first[-1] == second[0] else second) == rows(whole)


def test_a_trace_survives_a_file(trace, tmp_path):
    again = hm.load(trace.save(tmp_path / "trace.npz"))
    assert repr(again) == repr(trace) == f"<SegmentTrace: {trace.n_pieces} pieces, complete, exact>"
    assert rows(again) == rows(trace)
    assert np.array_equal(again.breakpoints, trace.breakpoints)
    assert np.array_equal(again.values, trace.values)
    assert again.exact_breakpoint(3) == trace.exact_breakpoint(3)
    thirds = hm.trace_segment(NETWORK, [Fraction(1, 3)] * 5, END)
    assert hm.load(thirds.save(tmp_path / "thirds.npz")).start.rational(0) == flint.fmpq(1, 3)


def test_a_trace_has_a_table(trace):
    pytest.importorskip("pandas")
    table = trace.to_frame()
    assert len(table) == trace.n_pieces
    assert table["begin"].iloc[0] == 0.0
    assert table["end"].iloc[-1] == 1.0


def test_a_trace_has_a_picture(trace):
    pytest.importorskip("matplotlib")
    axes = trace.plot()
    assert axes.get_title() == f"{trace.n_pieces} pieces"
    assert len(axes.lines) == 5
    with pytest.raises(hm.errors.InvalidInputError, match="a segment is drawn whole"):
        trace.plot(box=hm.Box([0], [1]))


def test_a_trace_may_stop_early(trace):
    part = hm.trace_segment(NETWORK, START, END, max_pieces=7)
    assert (part.n_pieces, part.complete) == (7, False)
    assert rows(part) == rows(trace)[:7]
    assert part.reach == pytest.approx(trace.breakpoints[6])
    assert part.values.shape == (7, 2, 5)
    assert "INCOMPLETE" in repr(part)
    whole = hm.trace_segment(NETWORK, START, END, max_pieces=trace.n_pieces)
    assert whole.complete
    hm.trace_segment(NETWORK, START, END, time_limit=1e-9)  # returns what there is


def test_an_affine_network_is_one_piece():
    trace = hm.trace_segment(hm.Network([hm.Affine([[1.0, 2.0]], [3.0])]), [0, 0], [1, 1])
    assert repr(trace) == "<SegmentTrace: 1 piece, complete, exact>"
    assert trace.values.tolist() == [[[3.0], [6.0]]]
    assert trace.kinds.shape == trace.breakpoints.shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None, START, END), {}, "network must be a Network"),
        ((NETWORK, [0.0], END), {}, "start must have the 5 coordinates"),
        ((NETWORK, START, [0.0]), {}, "end must have the 5 coordinates"),
        ((NETWORK, START, START), {}, "start and end must be different points"),
        ((NETWORK, START, [np.inf, 0, 0, 0, 0]), {}, "end must be finite"),
        ((NETWORK, START, END), {"arithmetic": "fast"}, "arithmetic must be one of"),
        ((NETWORK, START, END), {"max_pieces": 0}, "max_pieces must be at least 1"),
        ((NETWORK, START, END), {"time_limit": 0}, "time_limit must be a positive number"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, options, message):
    with pytest.raises(hm.errors.HardmaxError, match=message):
        hm.trace_segment(*arguments, **options)


# Heads that choose sets -------------------------------------------------------------------------------------

RULES = [
    {"rule": "top-k", "k": 2},
    {"rule": "top-k", "k": 3, "ties": "leftmost"},
    {"rule": "sparsemax", "temperature": 0.75},
]


def rule_network(options, d, seed):
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal if seed % 2 else lambda shape: rng.integers(-3, 4, shape).astype(float)
    heads = [
        hm.Attention(draw((2, 5, d)), draw((2, 5)), draw((2, 5, d)), **options, skip=bool(i))
        for i in range(2)
    ]
    return hm.Network([heads[0], hm.FeedForward(draw((3, d)), draw(3), draw((d, 3)), skip=True), heads[1]])


@pytest.mark.parametrize("options", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_sets_on_a_line_are_those_of_the_oracle(options, seed):
    network = rule_network(options, 1, seed)
    trace = hm.trace_segment(network, [4], [-4])
    expected = cells_by_rules(network, [-4], [4]).cells
    ends = [sorted(Fraction(x, t) for (x, t), _ in cell.piece.vertices) for cell in expected]
    order = sorted(range(len(expected)), key=lambda i: ends[i], reverse=True)
    assert trace.complete
    assert trace.n_pieces == len(expected)
    for place, i in enumerate(order):
        states = expected[i].states
        for block, of_block in ((0, states[0]), (2, states[2])):
            chosen = trace.chosen(block)[place]
            assert tuple(tuple(np.flatnonzero(keys).tolist()) for keys in chosen) == of_block
        if place + 1 < len(order):
            assert trace.exact_breakpoint(place) == (4 - ends[i][0]) / 8
        slopes = [float(-8 * row[0]) for row in expected[i].map]
        np.testing.assert_allclose(trace.slopes[place], slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", RULES)
def test_sets_in_space_take_the_right_values(options):
    network = rule_network(options, 3, 1)
    start, end = np.array([-2.0, 1.0, 3.0]), np.array([2.0, 0.5, -3.0])
    trace = hm.trace_segment(network, start, end)
    places = [Fraction(0), *(trace.exact_breakpoint(i) for i in range(trace.n_pieces - 1)), Fraction(1)]
    assert places == sorted(set(places))
    for i, (low, high) in enumerate(pairwise(places)):
        t = (low + high) / 2
        point = [Fraction(a) + t * (Fraction(b) - Fraction(a)) for a, b in zip(start, end, strict=True)]
        value = trace.values[i, 0] + float(t - low) * trace.slopes[i]
        np.testing.assert_allclose(value, [float(v) for v in value_by_rules(network, point)], atol=1e-9)
    across = hm.enumerate_regions(network.restrict(start, [end - start]), hm.Box([0], [1]))
    assert across.n_cells == trace.n_pieces


@pytest.mark.parametrize("options", RULES)
def test_traces_of_sets_are_cut_short_and_saved(options, tmp_path):
    network = rule_network(options, 2, 1)
    trace = hm.trace_segment(network, [-4, 1], [4, 0])
    part = hm.trace_segment(network, [-4, 1], [4, 0], max_pieces=2)
    assert not part.complete
    assert part.n_pieces == 2
    np.testing.assert_array_equal(part.chosen(2), trace.chosen(2)[:2])
    trace.save(tmp_path / "trace.npz")
    loaded = hm.load(tmp_path / "trace.npz")
    np.testing.assert_array_equal(loaded.chosen(0), trace.chosen(0))
    np.testing.assert_array_equal(loaded.values, trace.values)
    assert loaded.exact_breakpoint(0) == trace.exact_breakpoint(0)
    with pytest.raises(hm.errors.InvalidInputError, match="block must be the number"):
        trace.chosen(1)
