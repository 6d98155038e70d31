"""Every kind of torch network that is read computes what torch computes, and what fractions compute."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import hardmax as hm  # noqa: E402
from tests.unit.networks.reading import torch_zoo as zoo  # noqa: E402


def logits(net, x):
    """The output of a module without its final softmax or sigmoid."""
    last = list(net.children())[-1]
    dropped = isinstance(last, (torch.nn.LogSoftmax, torch.nn.Sigmoid))
    body = torch.nn.Sequential(*list(net.children())[:-1]) if dropped else net
    with torch.no_grad():
        return torch.cat([body(part) for part in x.split(20_000)]).numpy(), dropped


@pytest.mark.parametrize("name", zoo.ZOO)
@pytest.mark.parametrize("n_points", [4_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_zoo_agrees_with_torch(name, n_points):
    net, _, shape = zoo.made(name)
    ours = hm.Network.from_torch(net, input_shape=shape)
    x = torch.randn(n_points, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected, dropped = logits(net, x)
    values = ours(x.reshape(n_points, -1).numpy())
    assert np.abs(values - expected).max() <= 1e-11 * max(1.0, np.abs(expected).max())
    assert ("dropped" in ours.description) == dropped


@pytest.mark.parametrize("name", zoo.ZOO)
def test_the_zoo_agrees_with_fractions(name):
    net, plain, shape = zoo.made(name, seed=3)
    ours = hm.Network.from_torch(net, input_shape=shape)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = zoo.exact(rng.integers(-64, 65, shape) / 32)
        assert ours.exact_value(x.ravel()) == tuple(plain(net, x.ravel() if len(shape) == 1 else x))


@pytest.mark.parametrize("name", [name for name in zoo.ZOO if name != "LeNet"])  # 111,685 cells
def test_the_regions_of_the_zoo_are_verified(name):
    net, _, shape = zoo.made(name)
    ours, rng = hm.Network.from_torch(net, input_shape=shape), np.random.default_rng(0)
    plane = ours.restrict(rng.integers(-4, 5, ours.d) / 4, rng.integers(-4, 5, (2, ours.d)) / 4)
    found = hm.enumerate_regions(plane, hm.Box.cube(2, -1, 1))
    assert found.complete
    found.verify()
