"""Theorem 9 of docs/theorems.md: signatures with a margin are few at every depth if layers do not expand."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError


def hot_network(d, n_tokens, depth, rng):
    """Layers of attention without skip connection, keys and outputs in a unit ball around the origin."""
    blocks = []
    for _ in range(depth):
        keys = rng.uniform(-1, 1, (1, n_tokens, d)) / np.sqrt(d)
        outputs = rng.uniform(-1, 1, (1, n_tokens, d)) / np.sqrt(d)
        blocks.append(hm.Attention(keys, rng.normal(size=(1, n_tokens)) / 20, outputs, skip=False))
    return hm.Network(blocks)


@pytest.mark.parametrize(("d", "n_tokens", "depth"), [(1, 5, 1), (1, 5, 20), (2, 6, 3), (2, 6, 20)])
def test_clear_signatures_do_not_grow_with_depth(d, n_tokens, depth):
    """Diameters are at most 2, so the growth is at most 1 from temperature 1 on."""
    rng = np.random.default_rng([d, depth])
    net = hot_network(d, n_tokens, depth, rng)
    points, margin = rng.uniform(-1, 1, (4000, d)), 0.02
    clear, x = np.ones(len(points), dtype=bool), points
    for block in net.blocks:
        scores = np.sort(x @ block.scores.floats[0].T + block.biases.floats[0], axis=1)
        clear &= scores[:, -1] - scores[:, -2] >= margin
        x = hm.Network([block])(x, 1.0)
    soft = net.signature(points[clear], 1.0).routings
    found = len(np.unique(soft, axis=0)) if clear.any() else 0
    assert found <= hm.temperature.clear_signatures_bound(d, side=2.0, margin=margin, slope=2.0)
    if depth == 1:
        assert found > 1
    spread = np.ptp(x, axis=0).max()
    assert spread <= 2.0 * (1.0 if depth == 1 else 0.6)  # hot layers contract


def test_without_a_margin_there_is_no_such_bound():
    """Layers that move nothing, with a wall each at another place."""
    depth = 30
    blocks = [
        hm.Attention([[[1.0], [-1.0]]], [[-2 * (i + 1) / (depth + 1), 0.0]], [[[0.0], [0.0]]])
        for i in range(depth)
    ]
    found = hm.temperature.surviving_cells(hm.Network(blocks), np.linspace(0, 1, 3000)[:, None], 5.0)
    assert found.n_surviving == found.n_soft == depth + 1


@pytest.mark.parametrize("name", ["side", "margin", "slope", "growth"])
def test_numbers_must_be_positive(name):
    given = {"side": 1.0, "margin": 1.0, "slope": 1.0, "growth": 1.0} | {name: 0.0}
    with pytest.raises(InvalidInputError, match=f"{name} must be a positive"):
        hm.temperature.clear_signatures_bound(1, **given)


def test_the_first_block_reads_the_input_itself():
    """Eleven clear cells in the first layer: a constant that is small behind it does not make them fewer."""
    walls, keys = np.arange(1, 11) / 10, np.arange(11.0)
    middles = np.linspace(0.05, 1.05, 11)[:, None] * keys - np.concatenate([[0.0], np.cumsum(walls)])
    assert middles.argmax(axis=1).tolist() == list(range(11))
    assert np.diff(np.sort(middles, axis=1), axis=1)[:, -1].min() == pytest.approx(0.05)
    assert hm.temperature.clear_signatures_bound(1, side=1.0, margin=0.05, slope=10.0) >= 11
    with pytest.raises(InvalidInputError, match="growth must be at least 1"):
        hm.temperature.clear_signatures_bound(1, side=1.0, margin=0.05, slope=10.0, growth=0.01)
