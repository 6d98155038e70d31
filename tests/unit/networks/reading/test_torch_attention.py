"""torch's attention with a fixed context: softmax as torch computes it, hardmax as fractions do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import hardmax as hm  # noqa: E402
from hardmax import errors  # noqa: E402
from hardmax.networks import Attention, Network  # noqa: E402
from tests.unit.networks.reading.torch_zoo import exact  # noqa: E402

nn = torch.nn
N_POINTS = 4_000


def made(build, *args, **options):
    torch.manual_seed(0)
    module = build(*args, **options, dtype=torch.float64).eval()
    for parameter in module.parameters():
        parameter.data.normal_()
    return module


def queries(d, n=N_POINTS):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def context_of(d, n=7):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def attended(module, x, context):
    """One query after the other, as batches of sequences with one token."""
    many = context.expand(len(x), *context.shape)
    with torch.no_grad():
        order = (0, 1) if module.batch_first else (1, 0)
        q, k = x[:, None].permute(*order, 2), many.permute(*order, 2)
        return module(q, k, k, need_weights=False)[0].permute(*order, 2)[:, 0].numpy()


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 5, "vdim": 5}, {"batch_first": True}])
def test_softmax_is_what_torch_computes(options):
    module = made(nn.MultiheadAttention, 6, 2, **options)
    context, x = context_of(options.get("kdim", 6)), queries(6)
    ours = Attention.from_torch(module, context, rule="softmax")
    expected = attended(module, x, context)
    assert ours(x.numpy()) == pytest.approx(expected, rel=1e-11, abs=1e-11)
    network = Network.from_torch(module, context=context, rule="softmax")
    assert np.array_equal(network(x.numpy()), ours(x.numpy()))


def by_hand(module, context, x, hard):
    """Heads one after the other, in numpy or in fractions."""
    d = module.head_dim
    w, b = exact(module.in_proj_weight), exact(module.in_proj_bias)
    w_q, w_k, w_v = np.split(w, 3)
    b_q, b_k, b_v = np.split(b, 3)
    parts = []
    for h in range(module.num_heads):
        rows = slice(h * d, (h + 1) * d)
        q = w_q[rows] @ x + b_q[rows]
        scores = [q @ (w_k[rows] @ token + b_k[rows]) for token in context]
        parts.append(w_v[rows] @ context[hard(scores)] + b_v[rows])
    return exact(module.out_proj.weight) @ np.concatenate(parts) + exact(module.out_proj.bias)


def test_hardmax_in_fractions():
    module = made(nn.MultiheadAttention, 4, 2)
    context = context_of(4, 5)
    ours = Network.from_torch(module, context=context)
    for row in np.random.default_rng(0).integers(-8, 9, (5, 4)):
        x = exact(row)
        expected = by_hand(module, exact(context), x, lambda scores: int(np.argmax(scores)))
        assert ours.exact_value(x) == tuple(expected)


def test_hardmax_is_the_limit_of_torch():
    module = made(nn.MultiheadAttention, 4, 2)
    context, x = context_of(4), queries(4, 500)
    ours = Network.from_torch(module, context=context)
    sharp = made(nn.MultiheadAttention, 4, 2)
    with torch.no_grad():  # softmax at a thousandth of the temperature
        sharp.in_proj_weight[:4] *= 1e6
        sharp.in_proj_bias[:4] *= 1e6
    close = np.abs(ours(x.numpy()) - attended(sharp, x, context)).max(axis=1) < 1e-6
    assert close.mean() > 0.99


@pytest.mark.parametrize("activation", ["relu", nn.ReLU()])
def test_an_encoder_layer_is_what_torch_computes(activation):
    layer = made(nn.TransformerEncoderLayer, 6, 2, 9, activation=activation)
    context, x = context_of(6), queries(6)
    net = Network.from_torch(layer, context=context, rule="softmax")
    with torch.no_grad():
        y = layer.norm1(x + torch.from_numpy(attended(layer.self_attn, x, context)))
        expected = layer.norm2(y + layer.linear2(torch.relu(layer.linear1(y)))).numpy()
    assert net(x.numpy()) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert [type(block).__name__ for block in net.blocks] == [
        "Attention",
        "LayerNorm",
        "FeedForward",
        "LayerNorm",
    ]
    trace = hm.trace_segment(Network.from_torch(layer, context=context), x[0].numpy(), x[1].numpy())
    assert trace.complete
    with pytest.raises(errors.InvalidInputError, match="piecewise affine"):
        hm.count_cells(Network.from_torch(layer, context=context), hm.Box.cube(6, -1, 1))


class Around(nn.Module):
    """A residual stream around attention, and a layer that needs what came before it."""

    def __init__(self):
        super().__init__()
        self.first, self.attention, self.last = nn.Linear(2, 4), nn.MultiheadAttention(4, 2), nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.first(x))
        return self.last(torch.cat([h, h + self.attention(h)], dim=1))


def test_values_pass_beside_attention():
    torch.manual_seed(0)
    module = Around().double().eval()
    context = context_of(4, 5)
    net = Network.from_torch(module, context=context)
    for row in np.random.default_rng(0).integers(-8, 9, (5, 2)):
        x = exact(row)
        h = exact(module.first.weight) @ x + exact(module.first.bias)
        h = np.where(h > 0, h, Fraction(0))
        seen = by_hand(module.attention, exact(context), h, lambda scores: int(np.argmax(scores)))
        y = exact(module.last.weight) @ np.concatenate([h, h + seen]) + exact(module.last.bias)
        assert net.exact_value(x) == tuple(y)
    assert hm.enumerate_regions(net, hm.Box.cube(2, -2, 2)).n_cells > 1


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True), "add_bias_kv"),
        (lambda: nn.MultiheadAttention(4, 2, add_zero_attn=True), "add_zero_attn"),
        (lambda: nn.MultiheadAttention(4, 2, dropout=0.1), "training mode"),
        (lambda: nn.MultiheadAttention(4, 2, kdim=4, vdim=3), "different spaces"),
        (lambda: nn.TransformerEncoderLayer(4, 2, norm_first=True, dropout=0.0), "norm_first"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="gelu", dropout=0.0), "activation gelu"),
        (lambda: nn.TransformerEncoderLayer(4, 2), "training mode"),
        (lambda: nn.TransformerDecoderLayer(4, 2), "TransformerDecoderLayer"),
        (
            lambda: nn.Sequential(nn.MultiheadAttention(4, 2), nn.MultiheadAttention(4, 2)),
            "at 1 whose context is what another one gives",
        ),
    ],
)
def test_attention_that_is_not_read(module, words):
    with pytest.raises(errors.UnsupportedNetworkError, match=words):
        Network.from_torch(module(), context=context_of(4), input_shape=(4,))


def test_attention_without_a_context():
    with pytest.raises(errors.UnsupportedNetworkError, match="say context="):
        Network.from_torch(nn.MultiheadAttention(4, 2))
    with pytest.raises(errors.InvalidInputError, match=r"must be an nn\.MultiheadAttention, but is a Linear"):
        Attention.from_torch(nn.Linear(2, 2), context_of(4))
