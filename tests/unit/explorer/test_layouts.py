"""The explorer's JavaScript against the library, in node: random and degenerate layouts."""

from __future__ import annotations

import numpy as np
import pytest
from explorer_layouts import NODE, SHAPES, draw, judged, layout

import hardmax as hm
from hardmax.explorer.answers import answer

pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path: the page's modules are not run")


def test_confirmed_counts_are_those_of_the_library():
    """A few hundred of the layouts of tests/scripts/explorer_sweep.py, which runs thousands."""
    rng = np.random.default_rng(20)
    states = [draw(rng, i) for i in range(360)]
    for state, page in zip(states, judged(states), strict=True):
        assert page["exact"]["complete"], state
        expected = answer(state)
        assert {name: page["exact"][name] for name in expected} == expected, state


def test_live_counts_are_right_in_general_position():
    rng = np.random.default_rng(21)
    states = [
        {"mode": "heads", "half": 3.0, "heads": rng.standard_normal((3, 5, 3)).tolist()} for _ in range(20)
    ]
    assert [page["live"]["count"] for page in judged(states)] == [answer(state)["count"] for state in states]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_keys_that_beat_a_key_do_beat_it(shape):
    """Held against these few keys alone, the key has no cell either."""
    rng = np.random.default_rng(22)
    states = []
    for _ in range(12):
        keys = layout(rng, shape, 8)
        states.append(
            {
                "mode": "head",
                "scores": "attention",
                "rule": "hardmax",
                "temperature": 0,
                "half": 3.0,
                "keys": np.column_stack([keys, np.zeros(len(keys))]).tolist(),
            }
        )
    for state, page in zip(states, judged(states), strict=True):
        keys = np.array(state["keys"])[:, :2]
        for j, rivals in page["exact"]["beaten"]:
            if rivals is None:  # the same as an earlier key
                assert any((keys[j] == keys[l]).all() for l in range(j))
            else:
                assert 1 <= len(rivals) <= 3
                assert not hm.attention_diagram(keys[[j, *rivals]]).nonempty[0]
