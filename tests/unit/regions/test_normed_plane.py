"""Cells with conic walls: closed forms, the exact engine where walls are flat, and connected pixels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import hardmax as hm
from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.networks import LayerNorm, RMSNorm
from hardmax.regions import normed_diagram, routing_network

BOX = hm.Box.cube(2, -1, 1)


def lifted(scores, biases, *, epsilon=0):
    """Points of the plane as (x, y, 1), an RMSNorm, and heads."""
    up = hm.Affine([[1, 0], [0, 1], [0, 0]], [0, 0, 1])
    heads = np.asarray(scores, dtype=float)
    outputs = np.zeros((*heads.shape[:2], 3))
    return hm.Network([up, RMSNorm([1, 1, 1], epsilon=epsilon), hm.Attention(heads, biases, outputs)])


def test_a_circle():
    # 1 / rho > 3/2, so x^2 + y^2 + 1 < 4/3
    diagram = normed_diagram(lifted([[[0, 0, 1], [0, 0, 0]]], [[0, 1.5]]), BOX)
    assert diagram.n_cells == 2
    assert len(diagram.vertices) == 0
    # a circle that leaves the square at its four sides: the four corners are parts of their own
    wide = normed_diagram(lifted([[[0, 0, 1], [0, 0, 0]]], [[0, 1.15]]), BOX)
    assert wide.n_cells == 5
    assert len(wide.routings) == 2


def test_a_strip():
    net = hm.Network(
        [
            hm.Affine([[1, 0], [0, 0]], [0, 1]),
            RMSNorm([1, 1], epsilon=0),
            hm.Attention([[[0, 1], [0, 0]]], [[0, 1]], np.zeros((1, 2, 2)), skip=True),
        ]
    )
    assert normed_diagram(net, hm.Box([-2, -1], [2, 1])).n_cells == 3
    assert normed_diagram(net, hm.Box([-2, -1], [0.5, 1])).n_cells == 2


def test_two_circles():
    # 1 / rho against two constants: circles around the origin, one inside the other
    heads = [[[0, 0, 1], [0, 0, 0]]] * 2
    assert normed_diagram(lifted(heads, [[0, 1.5], [0, 1.6]]), BOX).n_cells == 3


@pytest.mark.parametrize("seed", range(4))
def test_flat_walls_against_the_exact_engine(seed):
    rng = np.random.default_rng(seed)
    norm = (LayerNorm if seed % 2 else RMSNorm)(rng.normal(size=4), epsilon=0.1)
    heads = rng.normal(size=(2, 5, 4))
    up = hm.Affine(rng.normal(size=(4, 2)), rng.normal(size=4))
    net = hm.Network([up, norm, hm.Attention(heads, None, heads)])
    box = hm.Box.cube(2, -3, 3)
    diagram = normed_diagram(net, box)
    assert diagram.n_cells == hm.count_cells(routing_network(net), box).n_cells > 3


@pytest.mark.parametrize("seed", [1, 5, 20, 31])
def test_connected_pixels(seed):
    rng = np.random.default_rng(seed)
    heads, keys = 1 + seed % 2, 3 + seed % 4
    norm = RMSNorm(rng.normal(size=4), epsilon=0.01)
    if seed % 2:
        norm = LayerNorm(rng.normal(size=4), rng.normal(size=4), epsilon=0.01)
    scores = rng.normal(size=(heads, keys, 4))
    up = hm.Affine(3 * rng.normal(size=(4, 2)), 0.5 * rng.normal(size=4))
    net = hm.Network([up, norm, hm.Attention(scores, 0.5 * rng.normal(size=(heads, keys)), scores)])
    diagram = normed_diagram(net, BOX)
    assert diagram.proven
    n = 500
    grid = (np.arange(n) + 0.5) / n * 2 - 1
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    seen, number = np.unique(net.signature(points).routings, axis=0, return_inverse=True)
    image = number.reshape(n, n)
    assert {tuple(row) for row in seen.tolist()} <= {tuple(row) for row in diagram.routings.tolist()}
    parts = 0
    for k in range(len(seen)):
        labels, _ = ndimage.label(image == k, np.ones((3, 3)))
        parts += int(np.count_nonzero(np.bincount(labels.ravel())[1:] > 15))  # tips fall into single pixels
    assert parts <= diagram.n_cells <= parts + 3
    found = net.signature(diagram.witnesses).routings
    assert (found == diagram.routings).all()


def test_saved_drawn_and_not_proven(tmp_path):
    net = lifted([[[0, 0, 1], [0, 0, 0]], [[3, 0, 1], [0, 0, 0]]], [[0, 1.5], [0, 1.25]])
    diagram = normed_diagram(net, BOX)
    again = hm.load(diagram.save(tmp_path / "diagram.npz"))
    assert again.n_cells == diagram.n_cells == 4
    assert np.array_equal(again.vertices, diagram.vertices)
    assert len(diagram.vertices) == 2
    pytest.importorskip("matplotlib")
    assert diagram.plot().get_title() == "4 cells, proven"
    plane = [[[1, 0], [0, 1]]]
    origin = hm.Network([RMSNorm([1, 1], epsilon=0), hm.Attention(plane, [[0, 0.3]], plane)])
    open_ = normed_diagram(origin, BOX)
    assert open_.n_cells is None
    assert "norm may vanish" in open_.reason
    assert normed_diagram(origin, hm.Box([0.25, 0.25], [1, 1])).n_cells == 2
    with pytest.raises(InvalidInputError, match="must begin with"):
        normed_diagram(hm.Network([hm.Affine([[1, 0]])]), BOX)
    with pytest.raises(UnsupportedDimensionError, match="restrict"):
        normed_diagram(hm.Network(net.blocks[1:]), hm.Box.cube(3, -1, 1))
