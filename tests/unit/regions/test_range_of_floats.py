"""Weights and domains near the ends of the range of floats: the right answer or one sentence."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import NotFiniteError


@pytest.mark.parametrize("engine", ["space", "search"])
def test_a_box_as_large_as_floats_can_tell(engine):
    """Rays whose entries differ by more than floats can hold are rounded without losing their signs."""
    network = hm.Network([hm.FeedForward([[1e-300, 1e300, 0], [1, 1, 1]], [0, 1], [[1, 1]] * 3, None)])
    count = hm.count_cells(network, hm.Box.cube(3, -1e300, 1e300), engine=engine)
    assert (count.n_cells, count.complete) == (4, True)


@pytest.mark.filterwarnings("error")
def test_a_cell_that_no_float_lies_in():
    """The first unit is off left of -2e323: the witness is beyond the floats, the exact one is not."""
    zeros = [0] * 5
    unit = hm.FeedForward([[5e-324, 0, *zeros], [0, 1, *zeros]], [1, 1], [[1, 1]] * 7, None)
    network = hm.Network([unit])
    found = hm.enumerate_regions(network, hm.WholeSpace(7))
    assert (found.n_cells, found.complete, found.n_regions) == (4, True, 4)
    far = found.witnesses[:, 0] == -np.inf
    assert far.tolist() == [True, True, False, False]
    assert found.margins[far].tolist() == [0.0, 0.0]
    for i in range(4):
        point = found.exact_witness(i)
        on = [Fraction(5e-324) * point[0] + 1 > 0, point[1] + 1 > 0]
        assert found.relu_bits[i].tolist() == on


@pytest.mark.filterwarnings("error")
def test_maps_beyond_the_floats_are_refused():
    steep = hm.Network.mlp([(np.full((2, 2), 1e200), [0, 0]), (np.full((1, 2), 1e200), [0])])
    found = hm.enumerate_regions(steep, hm.Box.cube(2, -1, 1))
    assert found.n_regions == 2
    for name in ("linear", "offset"):
        with pytest.raises(NotFiniteError, match=r"the map of cell 1 must stay within float64"):
            getattr(found, name)
    weights, constants = found.exact_map(1)
    assert weights == [[2 * Fraction(1e200) ** 2] * 2]
    assert constants == [0]
    trace = hm.trace_segment(steep, [-1, -1], [1, 1])
    assert trace.n_pieces == 2
    with pytest.raises(NotFiniteError, match="must stay within float64"):
        trace.slopes.any()


@pytest.mark.filterwarnings("error")
def test_maps_that_overflow_on_the_way_are_exact():
    """1e200 * 1e200 is too large for a float, 1e200 * 1e200 * 1e-200 is not."""
    layers = [([[1e200, 0]], [0]), ([[1e200]], [0]), ([[1e-200]], [0]), ([[1]], [0])]
    found = hm.enumerate_regions(hm.Network.mlp(layers), hm.Box.cube(2, -1, 1))
    assert found.linear[:, 0].tolist() == [[0.0, 0.0], [1e200, 0.0]]
    assert found.exact_map(1)[0][0][0] == Fraction(1e200) ** 2 * Fraction(1e-200)


def test_parabolic_keys_are_never_wrapped():
    sets, biases = hm.geometry.parabolic_heads(10, 200, 10)
    assert biases is None
    spacing = 211
    for h, keys in enumerate(sets):
        t = (h + 1) // 2 * (1 if h % 2 else -1)
        for j, key in enumerate(keys.tolist()):
            p = spacing * (j - 5) + t**9 % spacing
            assert key == [*(2 * p * t**i for i in range(9)), -p * p]
    assert {keys.dtype for keys in hm.geometry.parabolic_heads(6, 3, 3)[0]} == {np.dtype(np.int64)}
    large, biases = hm.geometry.parabolic_heads(2, 3000, 7, biased=True)
    assert len(biases) == 3000
    assert max(abs(v) for v in large[-1].ravel().tolist()) > 2**63
