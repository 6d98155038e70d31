"""What is not read is refused by name, all of it at once, and nothing is read wrongly."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hardmax import errors  # noqa: E402
from hardmax.networks import Network  # noqa: E402

nn, F = torch.nn, torch.nn.functional

REFUSED = {
    "GELU": nn.GELU(),
    "SiLU": nn.SiLU(),
    "Mish": nn.Mish(),
    "Hardswish": nn.Hardswish(),
    "Tanh": nn.Tanh(),
    "Softplus": nn.Softplus(),
    "ELU": nn.ELU(),
    "CELU": nn.CELU(),
    "SELU": nn.SELU(),
    "Softsign": nn.Softsign(),
    "Tanhshrink": nn.Tanhshrink(),
    "Softshrink": nn.Softshrink(),
    "Hardshrink": nn.Hardshrink(),
    "LogSigmoid": nn.LogSigmoid(),
    "RReLU": nn.RReLU(),
    "GLU": nn.GLU(),
    "Threshold": nn.Threshold(0.1, 20),
    "Softmin": nn.Softmin(dim=1),
    "Softmax2d": nn.Softmax2d(),
    "GroupNorm": nn.GroupNorm(2, 4),
    "InstanceNorm1d": nn.InstanceNorm1d(4),
    "LocalResponseNorm": nn.LocalResponseNorm(2),
    "LSTM": nn.LSTM(4, 4),
    "GRU": nn.GRU(4, 4),
    "RNN": nn.RNN(4, 4),
    "Embedding": nn.Embedding(4, 4),
    "Bilinear": nn.Bilinear(4, 4, 4),
    "Conv3d": nn.Conv3d(1, 1, 1),
    "ConvTranspose1d": nn.ConvTranspose1d(1, 1, 1),
    "ConvTranspose2d": nn.ConvTranspose2d(1, 1, 1),
    "MaxPool3d": nn.MaxPool3d(1),
    "AvgPool3d": nn.AvgPool3d(1),
    "LPPool1d": nn.LPPool1d(2, 1),
    "FractionalMaxPool2d": nn.FractionalMaxPool2d(2, output_size=1),
    "MaxUnpool1d": nn.MaxUnpool1d(1),
    "Upsample": nn.Upsample(scale_factor=2),
    "PixelShuffle": nn.PixelShuffle(1),
    "Fold": nn.Fold(2, 1),
    "Unfold": nn.Unfold(1),
    "ReflectionPad1d": nn.ReflectionPad1d(1),
    "ReplicationPad1d": nn.ReplicationPad1d(1),
    "CircularPad1d": nn.CircularPad1d(1),
    "BatchNorm3d": nn.BatchNorm3d(1),
    "Dropout3d": nn.Dropout3d(),
    "ChannelShuffle": nn.ChannelShuffle(1),
    "CosineSimilarity": nn.CosineSimilarity(),
    "Transformer": nn.Transformer(4, 2, 1, 1, 4),
    "TransformerEncoder": nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 4), 1),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_a_module_that_is_not_read_is_named(kind):
    stack = nn.Sequential(nn.Linear(4, 4), REFUSED[kind], nn.ReLU(), nn.Tanh()).eval()
    with pytest.raises(errors.UnsupportedNetworkError, match=rf"\(1\) {kind} at 1; ") as caught:
        Network.from_torch(stack)
    assert caught.value.obstacles == (f"{kind} at 1", "Tanh at 3")


class Made(nn.Module):
    """A module with a given forward."""

    def __init__(self, forward):
        super().__init__()
        self.first, self.given = nn.Linear(4, 4), forward
        self.register_buffer("weights", torch.arange(16.0, dtype=torch.float64).reshape(4, 4) / 8 - 1)

    def forward(self, x):
        return self.given(self, self.first(x))


REFUSED_FORWARDS = {
    "gelu() at gelu": lambda self, x: F.gelu(x),
    "silu() at silu": lambda self, x: F.silu(x),
    "tanh() at tanh": lambda self, x: torch.tanh(x),
    "exp() at exp": lambda self, x: x.exp(),
    "pow() at pow": lambda self, x: x**2,
    "mul() at mul of two tensors": lambda self, x: x * x,
    "truediv() at truediv with a divisor": lambda self, x: x / (x + 5),
    "truediv() at truediv by zero": lambda self, x: x / 0,
    "matmul() at matmul with a factor": lambda self, x: x @ x.t(),
    "sqrt() at sqrt": lambda self, x: torch.sqrt(x),
    "sort() at sort": lambda self, x: torch.sort(x, dim=1)[0],
    "where() at where": lambda self, x: torch.where(x > 0, x, 2 * x),
    "einsum() at einsum": lambda self, x: torch.einsum("bi,ij->bj", x, self.weights),
    "Softmax at softmax that is not the last": lambda self, x: torch.softmax(x, dim=1) * 2,
    "Sigmoid at sigmoid that is not the last": lambda self, x: x + torch.sigmoid(x),
    "Softmax at softmax along an axis": lambda self, x: torch.softmax(x, dim=0),
    "getitem() at getitem of some points": lambda self, x: x[0],
    "mean() at mean over the whole batch": lambda self, x: x.mean(),
    "mean() at mean along the batch axis": lambda self, x: x.mean(dim=0),
    "max() at max_1 along an axis": lambda self, x: torch.max(x, dim=1)[0],
    "view() at view from shape": lambda self, x: x.view(-1),
    "reshape() at reshape from shape": lambda self, x: x.reshape(-1, 3),
    "permute() at permute of the batch": lambda self, x: x.permute(1, 0),
    "cat() at cat along the batch": lambda self, x: torch.cat([x, x], dim=0),
    "dropout() at dropout in training mode": lambda self, x: F.dropout(x, 0.5),
    "2 outputs": lambda self, x: (x, x),
    "whose forward torch.fx cannot trace": lambda self, x: x if x.sum() > 0 else -x,
    "mul() at mul with a constant of shape (4, 4)": lambda self, x: x * self.weights,
    "with arguments that are not read": lambda self, x: torch.add(x, x, out=x),
    "that was changed in place before": lambda self, x: x.relu_() + x,
    "add of a tensor that was changed": lambda self, x: x.view(-1, 2, 2).relu_().view(-1, 4) + x,
    "to() at to": lambda self, x: x.to(torch.float16),
    "Made at the top whose forward": lambda self, x: zeroed(x),
}


def zeroed(x):
    y = x + 0
    y[:, 0] = 0
    return y


@pytest.mark.parametrize("words", REFUSED_FORWARDS)
def test_a_forward_that_is_not_read_is_refused(words):
    made = Made(REFUSED_FORWARDS[words]).eval()
    with pytest.raises(errors.UnsupportedNetworkError) as caught:
        Network.from_torch(made)
    assert words in str(caught.value)


FORWARDS = {
    "in place, not read again": lambda self, x: (x + 1).relu_().mul_(3).add_(x),
    "inplace=True": lambda self, x: F.relu(F.hardtanh(x, inplace=True), inplace=True),
    "augmented": lambda self, x: add_twice(x),
    "weights rearranged": lambda self, x: x @ self.weights.t() + F.linear(x, self.weights[:, [1, 0, 2, 3]]),
    "lengths": lambda self, x: x.view(x.shape[0], x.shape[1] // 2, -1).sum(dim=-1, keepdim=True).flatten(1),
    "stack and split": lambda self, x: torch.stack(x.split([2, 2], dim=1), 2).permute(0, 2, 1).flatten(1),
    "pad": lambda self, x: F.pad(x.unsqueeze(1), (1, 2), value=0.5).squeeze(1),
    "minimum": lambda self, x: torch.minimum(x, self.weights[0]) - torch.min(x, -x),
    "axes": lambda self, x: torch.maximum(x, 0.5 * x).unsqueeze(1).transpose(1, 2).squeeze(2),
    "keywords": lambda self, x: torch.clamp(input=x, min=-1.0, max=0.25),
    "ellipsis": lambda self, x: x[..., 1:3] - x[:, :2],
    "hard": lambda self, x: (
        F.relu6(x) + F.hardsigmoid(x) + F.leaky_relu(x, 0.3) + F.prelu(x, self.weights[0])
    ),
}


def add_twice(x):
    y = x * 2
    y += x
    y -= 1
    y *= 3
    y /= 4
    return y


@pytest.mark.parametrize("name", FORWARDS)
def test_a_forward_that_is_read(name):
    torch.manual_seed(0)
    made = Made(FORWARDS[name]).double().eval()
    x = torch.randn(200, 4, dtype=torch.float64)
    with torch.no_grad():
        expected = made(x).numpy()
    assert Network.from_torch(made)(x.numpy()) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def drawn(rng, axes):
    """A random convolution or pool over a random grid, and the shape of its input."""
    grid = rng.integers(5, 9, axes).tolist()
    kernel = rng.integers(1, 4, axes).tolist()
    stride, padding = rng.integers(1, 4, axes).tolist(), [int(rng.integers(0, k // 2 + 1)) for k in kernel]
    kind = rng.integers(4)
    ceil = bool(rng.integers(2))
    if kind == 0:
        groups = int(rng.integers(1, 3))
        made = [nn.Conv1d, nn.Conv2d][axes - 1](
            2,
            4,
            kernel,
            stride=stride,
            padding=padding if rng.random() < 0.8 else "valid",
            dilation=rng.integers(1, 3, axes).tolist(),
            groups=groups,
            bias=bool(rng.integers(2)),
        )
    elif kind == 1:
        dilation = rng.integers(1, 3, axes).tolist()
        made = [nn.MaxPool1d, nn.MaxPool2d][axes - 1](kernel, stride, padding, dilation, ceil_mode=ceil)
    elif kind == 2:
        options = {"ceil_mode": ceil, "count_include_pad": bool(rng.integers(2))}
        if axes == 1:
            made = nn.AvgPool1d(kernel, stride, padding, **options)
        else:
            override = None if rng.random() < 0.7 else 5
            made = nn.AvgPool2d(kernel, stride, padding, **options, divisor_override=override)
    else:
        sizes = [int(rng.choice([m for m in range(1, n + 1) if n % m == 0])) for n in grid]
        made = [nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d][axes - 1](sizes if axes == 2 else sizes[0])
    return made.double(), (2, *grid)


@pytest.mark.parametrize("seed", range(80))
@pytest.mark.parametrize("axes", [1, 2])
def test_windows_of_all_kinds(seed, axes):
    torch.manual_seed(seed)
    made, shape = drawn(np.random.default_rng([seed, axes]), axes)
    x = torch.randn(20, *shape, dtype=torch.float64)
    try:
        with torch.no_grad():
            expected = made(x).reshape(20, -1).numpy()
    except RuntimeError:  # a window that does not fit
        with pytest.raises(errors.InvalidInputError):
            Network.from_torch(made, input_shape=shape)
        return
    ours = Network.from_torch(made, input_shape=shape)(x.reshape(20, -1).numpy())
    assert ours == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes_are_refused_by_name(mode):
    with pytest.raises(errors.UnsupportedNetworkError, match=f"Conv1d at the top with padding mode {mode}"):
        Network.from_torch(nn.Conv1d(1, 1, 3, padding=1, padding_mode=mode), input_shape=(1, 5))


def test_training_mode_is_refused():
    stack = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 1))
    with pytest.raises(
        errors.UnsupportedNetworkError, match=r"BatchNorm1d at 1 in training.*Dropout at 2 in train"
    ):
        Network.from_torch(stack)
    assert Network.from_torch(stack.eval()).d == 2
    with pytest.raises(errors.UnsupportedNetworkError, match="without running statistics"):
        Network.from_torch(
            nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False)).eval()
        )


def test_hooks_and_parametrizations():
    weighted = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)).double().eval()
    x = torch.randn(10, 3, dtype=torch.float64)
    with torch.no_grad():
        expected = weighted(x).numpy()
    assert Network.from_torch(nn.Sequential(weighted), input_shape=3)(x.numpy()) == pytest.approx(expected)
    hooked = nn.Linear(3, 2)
    hooked.register_forward_hook(lambda module, args, out: 2 * out)
    with pytest.raises(errors.UnsupportedNetworkError, match="Linear at 0 with hooks"):
        Network.from_torch(nn.Sequential(hooked))


def test_a_class_that_borrows_a_name_is_traced():
    class Linear(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    made = Linear(3, 2).double()
    x = torch.randn(10, 3, dtype=torch.float64)
    with torch.no_grad():
        assert Network.from_torch(made, input_shape=3)(x.numpy()) == pytest.approx(made(x).numpy())


def test_wrapped_modules():
    inner = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert Network.from_torch(nn.DataParallel(inner)).units_total == 3


def test_what_is_too_large_is_refused_before_memory_is_gone():
    with pytest.raises(errors.UnsupportedNetworkError, match="numbers, where at most 16777216 are possible"):
        Network.from_torch(nn.Conv2d(3, 64, 7, stride=2, padding=3), input_shape=(3, 224, 224))
