"""torch modules, by their looks and by their names."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hardmax import errors
from hardmax.networks.network import Network


def module(kind, **attributes):
    return type(kind, (SimpleNamespace,), {})(**attributes)


class Sequential(list):
    def named_children(self):
        return ((str(i), part) for i, part in enumerate(self))


def linear(rng, fan_in, fan_out, bias=True):
    return module(
        "Linear",
        weight=rng.standard_normal((fan_out, fan_in)),
        bias=rng.standard_normal(fan_out) if bias else None,
    )


def plain_sequential(parts, x):
    for part in parts:
        name = type(part).__name__
        if name == "Sequential":
            x = plain_sequential(part, x)
        elif name == "Linear":
            x = x @ part.weight.T + (0 if part.bias is None else part.bias)
        elif name == "ReLU":
            x = np.maximum(x, 0)
    return x


RELU = module("ReLU")


@pytest.mark.parametrize(
    "layout",
    [
        "L",
        "LRL",
        "LRLRL",
        "LL",
        "LRLL",
        "LLRL",
        "RL",
        "LR",
        "LRR",
        "RRLRR",
        "LRLRRLR",
        "FLRIDL",
        "LR(LR(L))",
        "(L)",
    ],
)
def test_a_sequential_of_any_layout(layout):
    rng = np.random.default_rng(0)
    parts = {
        "R": lambda: RELU,
        "L": lambda: linear(rng, 3, 3, bias=rng.random() < 0.7),
        "F": lambda: module("Flatten"),
        "I": lambda: module("Identity"),
        "D": lambda: module("Dropout", p=0.5, training=False),
    }
    stack = [Sequential()]
    for letter in layout:
        if letter == "(":
            stack.append(Sequential())
        elif letter == ")":
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(parts[letter]())
    x = rng.standard_normal((20, 3))
    net = Network.from_torch(stack[0])
    assert net(x) == pytest.approx(plain_sequential(stack[0], x), abs=1e-12)
    assert net.units_total == 3 * layout.count("R")


def test_everything_that_cannot_be_read_is_named_at_once():
    rng = np.random.default_rng(0)
    net = Sequential(
        [
            linear(rng, 2, 2),
            module("Softplus"),
            Sequential([module("Dropout", p=0.1, training=True), module("GELU")]),
        ]
    )
    with pytest.raises(errors.InvalidInputError) as caught:
        Network.from_torch(net)
    for words in ("Softplus at 1", "GELU at 2.1", "Dropout at 2.0 in training mode"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([RELU], "shape the module does not tell"),
        ([module("Linear", weight=None, bias=None)], "weight matrix"),
        (
            [linear(np.random.default_rng(0), 2, 3), RELU, linear(np.random.default_rng(0), 4, 1)],
            "Linear at 2: weights must take the 3 .* take 4",
        ),
    ],
)
def test_modules_that_make_no_sense(parts, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        Network.from_torch(Sequential(parts))


def test_a_real_sequential():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    made = nn.Sequential(nn.Flatten(), nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).eval()
    x = torch.randn(10, 3)
    with torch.no_grad():
        expected = made(x).numpy()
    assert Network.from_torch(made)(x.numpy()) == pytest.approx(expected, abs=1e-5)
    assert Network.from_torch(made.to(torch.bfloat16)).d == 3
    with pytest.raises(errors.InvalidInputError, match="ELU at 1"):
        Network.from_torch(nn.Sequential(nn.Linear(2, 2), nn.ELU()))


@pytest.mark.parametrize("pool", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}])
@pytest.mark.parametrize("more", [{}, {"ceil_mode": True}, {"dilation": 2}])
def test_a_real_sequential_with_leaky_units_and_pooling(pool, more):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.LeakyReLU(0.2),
        nn.Linear(3, 9),
        nn.LeakyReLU(),
        nn.MaxPool1d(**pool, **more),
        nn.PReLU(),
        nn.LazyLinear(6),
        nn.PReLU(6),
        nn.Linear(6, 2),
        nn.ReLU(),
    )
    x = torch.randn(20, 3)
    with torch.no_grad():
        made[6].weight[:] = torch.randn(6)
        expected = made(x).numpy()
    net = Network.from_torch(made)
    assert net(x.numpy()) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(errors.UnsupportedNetworkError, match="MaxPool1d at 1 with indices"):
        Network.from_torch(nn.Sequential(nn.Linear(2, 4), nn.MaxPool1d(2, return_indices=True)))
    with pytest.raises(errors.UnsupportedNetworkError, match="say input_shape"):
        Network.from_torch(nn.Sequential(nn.MaxPool1d(2), nn.Linear(2, 2)))
    assert Network.from_torch(nn.Sequential(nn.MaxPool1d(2), nn.Linear(2, 2)), input_shape=4).d == 4
    with pytest.raises(errors.DimensionMismatchError, match=r"MaxPool1d at 1: .* kernel 5 must fit"):
        Network.from_torch(nn.Sequential(nn.Linear(2, 2), nn.MaxPool1d(5)))
