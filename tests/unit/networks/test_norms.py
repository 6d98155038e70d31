"""Norms, smooth activations and softmax as blocks: against torch, and refused where cells are asked for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.networks import LayerNorm, RMSNorm, SmoothFeedForward
from hardmax.regions import routing_network

RNG = np.random.default_rng(0)
X = 3 * RNG.normal(size=(50, 6))
SCALE, SHIFT = RNG.normal(size=(2, 6))
WEIGHTS = RNG.normal(size=(8, 6)), RNG.normal(size=8), RNG.normal(size=(6, 8)), RNG.normal(size=6)


def test_norms_against_torch():
    torch = pytest.importorskip("torch")
    x, scale, shift = (torch.tensor(array) for array in (X, SCALE, SHIFT))
    layer = torch.nn.functional.layer_norm(x, (6,), scale, shift, 1e-5).numpy()
    assert np.allclose(LayerNorm(SCALE, SHIFT)(X), layer, rtol=1e-13, atol=1e-13)
    root = torch.nn.functional.rms_norm(x, (6,), scale, 1e-3).numpy()
    assert np.allclose(RMSNorm(SCALE, epsilon=1e-3)(X), root, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "silu", "tanh"])
def test_activations_against_torch(activation):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    functions = {
        "gelu": functional.gelu,
        "gelu-tanh": lambda z: functional.gelu(z, approximate="tanh"),
        "silu": functional.silu,
        "tanh": torch.tanh,
    }
    x = torch.tensor(X)
    w, b, u, c = (torch.tensor(array) for array in WEIGHTS)
    expected = (x + functions[activation](x @ w.T + b) @ u.T + c).numpy()
    block = SmoothFeedForward(*WEIGHTS, activation=activation, skip=True)
    assert np.allclose(block(X), expected, rtol=1e-12, atol=1e-12)


def test_softmax_attention_against_torch():
    torch = pytest.importorskip("torch")
    scores, biases, outputs = RNG.normal(size=(2, 5, 6)), RNG.normal(size=(2, 5)), RNG.normal(size=(2, 5, 6))
    block = hm.Attention(scores, biases, outputs, rule="softmax", temperature=0.7)
    s = torch.einsum("hkd,nd->nhk", torch.tensor(scores), torch.tensor(X)) + torch.tensor(biases)
    p = torch.softmax(s / 0.7, dim=2)
    expected = X + torch.einsum("nhk,hkd->nd", p, torch.tensor(outputs)).numpy()
    assert np.allclose(block(X), expected, rtol=1e-13, atol=1e-13)
    net = hm.Network([block])
    assert (net.signature(X).routings == s.argmax(dim=2).numpy()).all()
    assert np.array_equal(net(X, temperature=5.0), net(X))  # its own temperature


def test_norms_of_the_largest_and_smallest_numbers():
    for size in (1e-300, 1e300):
        assert np.allclose(RMSNorm([1, 1], epsilon=0)([3 * size, 4 * size]), np.array([3, 4]) / np.sqrt(12.5))


def test_saved_and_loaded(tmp_path):
    third = [Fraction(1, 3)] * 6
    head = hm.Attention(
        RNG.normal(size=(1, 3, 6)), None, RNG.normal(size=(1, 3, 6)), rule="softmax", temperature=2
    )
    net = hm.Network(
        [LayerNorm(third, SHIFT), RMSNorm(SCALE), head, SmoothFeedForward(*WEIGHTS, activation="silu")]
    )
    again = hm.load(net.save(tmp_path / "net.npz"))
    assert np.array_equal(again(X), net(X))
    assert again.blocks[0].scale.rational(0) == net.blocks[0].scale.rational(0)
    assert repr(again.blocks) == repr(net.blocks)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RMSNorm(SCALE, epsilon=0)(0 * X), "epsilon 0 is not defined at the zero vector"),
        (lambda: LayerNorm(SCALE, epsilon=0)(0 * X + 2), "a vector of equal coordinates"),
        (lambda: RMSNorm(SCALE, epsilon=-1), "epsilon must be a number of at least 0"),
        (lambda: RMSNorm([]), "scale must hold"),
        (lambda: LayerNorm(SCALE, [1.0]), "shift must hold one number per coordinate"),
        (lambda: SmoothFeedForward(*WEIGHTS, activation="relu"), "activation must be one of gelu"),
        (
            lambda: hm.Attention([[[1.0]]], None, [[[1.0]]], rule="softmax"),
            "temperature must be given with rule 'softmax'",
        ),
        (lambda: hm.Attention([[[1.0]]], None, [[[1.0]]], rule="softmax", temperature=0), "above 0"),
        (
            lambda: hm.Attention([[[1.0]]], None, [[[1.0]]], temperature=1),
            "temperature must be left out with rule 'hardmax'",
        ),
        (lambda: hm.Attention([[[1.0]]], None, [[[1.0]]], rule="soft"), "rule must be"),
    ],
)
def test_bad_input_gets_one_sentence(make, sentence):
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        make()
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    "block",
    [
        LayerNorm([1, 1]),
        RMSNorm([1, 1]),
        SmoothFeedForward([[1, 0]], None, [[1], [1]]),
        hm.Attention([[[1, 0], [0, 1]]], None, [[[1, 0], [0, 1]]], rule="softmax", temperature=1),
    ],
    ids=lambda block: type(block).__name__,
)
def test_engines_refuse_what_is_not_piecewise_affine(block):
    net, box = hm.Network([hm.Affine([[1, 2], [3, 4]]), block]), hm.Box.cube(2, -1, 1)
    for question in (hm.enumerate_regions, hm.count_cells, hm.count_regions, hm.estimate_cells):
        with pytest.raises(InvalidInputError, match=f"block 1 is {type(block).__name__}.*trace_segment"):
            question(net, box)
    for value in (net.affine_at, net.exact_value):
        with pytest.raises(InvalidInputError, match="trace_segment"):
            value([1.0, 2.0])


def test_routing_without_bias_does_not_see_the_norm():
    for norm in (LayerNorm(SCALE[:5], epsilon=Fraction(1, 10)), RMSNorm(SCALE[:5], epsilon=0)):
        head = hm.Attention(RNG.normal(size=(2, 6, 5)), None, RNG.normal(size=(2, 6, 5)))
        net = hm.Network([hm.Affine(RNG.normal(size=(5, 2)), RNG.normal(size=5)), norm, head])
        flat = routing_network(net)
        points = 3 * RNG.normal(size=(5000, 2))
        assert (flat.signature(points).routings == net.signature(points).routings).all()
        cells = hm.enumerate_regions(flat, hm.Box.cube(2, -3, 3))
        assert (net.signature(cells.witnesses).routings == cells.routings).all()
        assert hm.count_cells(flat, hm.Box.cube(2, -3, 3)).n_cells == cells.n_cells
    shifted = hm.Network(
        [LayerNorm([1, 1], [0, 1]), hm.Attention([[[1, 0], [0, 1]]], None, [[[1, 0], [0, 1]]])]
    )
    with pytest.raises(InvalidInputError, match="head 0 has constants from 0 to 1"):
        routing_network(shifted)
    with pytest.raises(InvalidInputError, match="must begin with"):
        routing_network(hm.Network([hm.Affine([[1.0]])]))
