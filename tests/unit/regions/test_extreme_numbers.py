"""Numbers from one end of float64 to the other: the cells that rationals find, maps with proven errors."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
import pytest
from oracles.extreme_networks import extreme_problems

import hardmax as hm
from hardmax.errors import HardmaxError, NotFiniteError


@pytest.mark.parametrize("start", range(0, 36, 12))
def test_extreme_networks_have_the_cells_that_rationals_find(start):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {number: extreme_problems(number) for number in range(start, start + 12)}
    assert not {number: problems for number, problems in found.items() if problems}


def test_a_constant_survives_numbers_that_cancel():
    steps = hm.Network([hm.Affine([[1.0]], [b]) for b in (5.0, 2.0**60, -(2.0**60))])
    cells = hm.enumerate_regions(steps, hm.Box([-1], [1]))
    assert (cells.linear.tolist(), cells.offset.tolist()) == ([[[1.0]]], [[5.0]])
    assert cells.map_errors[0] < 1e-14
    assert hm.trace_segment(steps, [-1], [1]).values.tolist() == [[[4.0], [6.0]]]


def test_a_map_beyond_floats_is_a_named_error():
    steps = hm.Network([hm.Affine([[1e300]], [0.0]), hm.Affine([[1e300]], [0.0])])
    cells = hm.enumerate_regions(steps, hm.Box([-1], [1]))
    with pytest.raises(NotFiniteError, match=r"exact_map\(0\)"):
        _ = cells.linear
    assert cells.exact_map(0)[0] == [[int(1e300) ** 2]]


def test_cells_of_numbers_that_overflow_in_a_forward_pass_are_still_counted():
    big = hm.FeedForward([[1e-300, 1e300, 0], [1, 1, 1]], [0, 1], [[1, 1]] * 3, None)
    assert int(hm.count_cells(hm.Network([big]), hm.Box.cube(3, -1e300, 1e300))) == 4
    tiny = hm.FeedForward([[5e-324, *[0] * 6], [0, 1, *[0] * 5]], [1, 1], [[1, 1]] * 7, None)
    assert int(hm.count_cells(hm.Network([tiny]), hm.WholeSpace(7))) == 4


@pytest.mark.parametrize("temperature", [5e-324, 1e-320, 1e-300, 1.0, 1e300, 1e308])
def test_extreme_temperatures_give_numbers_or_a_sentence(temperature):
    keys = np.array([[1e308, -1e-320], [-1e308, 1.0], [0.0, 5e-324]])
    questions = (
        lambda: hm.check_stability(np.array([[1e308, -1e308, 0.0]]), temperature, values=keys[:, :1]),
        lambda: hm.stability_bounds(n_tokens=3, margin=1e-320, temperature=temperature),
        lambda: hm.certified_temperature(
            hm.Network([hm.Attention(keys[None], None, keys[None])]), [[1.0, 1.0]]
        ),
        lambda: hm.attention_diagram(keys).nonempty,
        lambda: hm.minkowski_vertices([keys, keys[:2]]).count,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for question in questions:
            with suppress(HardmaxError):
                repr(question())


def test_sizes_of_forty_digits():
    assert "at most" in repr(hm.bounds.mlp_bounds([2, 10**40, 1]))
    with pytest.raises(HardmaxError, match="d_model must be at most 100,000"):
        hm.region_bounds(n_tokens=4, heads=2, d_model=10**40, d_ff=4, depth=1)
