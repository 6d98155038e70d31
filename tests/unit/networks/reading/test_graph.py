"""Graphs of operations become chains of blocks that compute the same, without rounding."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from hardmax.networks.reading.graph import Graph


def exact(array):
    """Entries as fractions."""
    array = np.asarray(array)
    return np.array([Fraction(v) for v in array.ravel().tolist()], dtype=object).reshape(array.shape)


class Mirror:
    """Tensors of a graph beside their values at one point, which plain fractions compute."""

    def __init__(self, shape, rng):
        self.graph, self.rng = Graph(shape), rng
        self.point = exact(rng.integers(-8, 9, shape) / 4)
        self.made = [(self.graph.input, self.point)]

    def any(self):
        return self.made[self.rng.integers(len(self.made))]

    def keep(self, tensor, value):
        assert tensor.shape == value.shape
        if tensor.value is not None:
            assert (exact(tensor.value) == value).all()
        self.made.append((tensor, value))

    def numbers(self, shape):
        kind = self.rng.integers(3)
        if kind == 0:
            return self.rng.standard_normal(shape)
        if kind == 1:
            return self.rng.integers(-2, 3, shape)
        return exact(self.rng.integers(-3, 4, shape)) / 3

    def grow(self):
        rng, graph = self.rng, self.graph
        (a, x), (b, y) = self.any(), self.any()
        match rng.integers(11):
            case 0:
                index = rng.integers(a.size, size=rng.integers(1, 4, size=rng.integers(1, 3)))
                self.keep(graph.select(a, index), x.ravel()[index])
            case 1:
                flat = graph.reshape(a, (a.size,)), graph.reshape(b, (b.size,))
                self.keep(graph.concat(flat, 0), np.concatenate([x.ravel(), y.ravel()]))
            case 2 | 3:
                weights, bias = self.numbers((rng.integers(1, 5), a.size)), None
                value = exact(weights) @ x.ravel()
                if rng.random() < 0.7:
                    bias = self.numbers(len(weights))
                    value = value + exact(bias)
                self.keep(graph.affine(a, weights, bias), value)
            case 4:
                flat, other = graph.reshape(a, (a.size,)), graph.reshape(b, (b.size,))
                n = min(a.size, b.size)
                one, two = graph.select(flat, np.arange(n)), graph.select(other, np.arange(n))
                self.keep(graph.add(one, two), x.ravel()[:n] + y.ravel()[:n])
            case 5:
                factors = self.numbers(a.shape)
                self.keep(graph.scale(a, factors), x * exact(factors))
            case 6:
                offsets = self.numbers(a.shape)
                self.keep(graph.shift(a, offsets), x + exact(offsets))
            case 7 | 8:
                slope = 0 if rng.random() < 0.7 else self.numbers(a.shape)
                below = np.where(x > 0, x, x * exact(slope))
                self.keep(graph.relu(a, slope), below)
            case 9:
                low, high = sorted(exact(self.numbers(2)))
                limits = [(low, high), (low, None), (None, high)][rng.integers(3)]
                value = x
                if limits[0] is not None:
                    value = np.where(value > low, value, low)
                if limits[1] is not None:
                    value = np.where(value < high, value, high)
                self.keep(graph.clip(a, *limits), value)
            case 10:
                if rng.random() < 0.5:
                    groups = [rng.integers(a.size, size=rng.integers(1, 4)).tolist() for _ in range(3)]
                    flat = x.ravel()
                    best = np.array([max(flat[i] for i in group) for group in groups], dtype=object)
                    self.keep(graph.pool_max(a, groups), best)
                else:
                    shift = self.numbers(a.shape)
                    moved = graph.shift(graph.negate(a), shift)
                    value = exact(shift) - x
                    self.keep(graph.maximum([a, moved]), np.where(x > value, x, value))


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_compute_what_fractions_compute(seed):
    rng = np.random.default_rng(seed)
    mirror = Mirror((3,), rng)
    for _ in range(rng.integers(2, 14)):
        mirror.grow()
    if rng.random() < 0.4:
        mirror.keep(mirror.graph.constant([1, 2]), exact([1, 2]))
        mirror.grow()
    tensor, value = mirror.made[-1]
    if tensor.value is not None:
        tensor = mirror.graph.add(
            tensor, mirror.graph.select(mirror.graph.input, np.zeros(tensor.shape, int))
        )
        value = value + mirror.point[0]
    net = hm.Network(mirror.graph.blocks(tensor))
    assert (net.d, net.d_out) == (3, value.size)
    assert net.exact_value(mirror.point) == tuple(value.ravel())
    assert net(mirror.point.astype(float)) == pytest.approx(value.ravel().astype(float), rel=1e-9, abs=1e-9)


def mlp_like(layers, slope=0):
    graph = Graph((layers[0][0].shape[1],))
    y = graph.input
    for i, (w, b) in enumerate(layers):
        y = graph.affine(graph.relu(y, slope) if i else y, w, b)
    return hm.Network(graph.blocks(y))


@pytest.mark.parametrize("widths", [[2, 1], [2, 5, 1], [2, 3, 9, 4, 2]])
@pytest.mark.parametrize("slope", [0, 0.25])
def test_a_chain_becomes_the_blocks_of_mlp(widths, slope):
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((m, n)), rng.standard_normal(m)) for n, m in pairwise(widths)]
    ours, theirs = mlp_like(layers, slope), hm.Network.mlp(layers, slope=slope)
    assert [repr(block) for block in ours.blocks] == [repr(block) for block in theirs.blocks]
    for a, b in zip(ours.blocks, theirs.blocks, strict=True):
        for name, value in b.state().items():
            assert np.array_equal(a.state()[name], value), name
