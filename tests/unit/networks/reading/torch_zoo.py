"""Networks made with torch, one of each kind that is read, and what they compute, in plain fractions.

The second function of each pair takes an array of fractions and shares nothing with the library: loops over
windows, sums of products.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def exact(tensor):
    """The numbers of a tensor as fractions."""
    array = tensor.detach().double().numpy() if hasattr(tensor, "detach") else np.asarray(tensor, dtype=float)
    return np.array([Fraction(v) for v in array.ravel().tolist()], dtype=object).reshape(array.shape)


def linear(part, x):
    y = exact(part.weight) @ x
    return y if part.bias is None else y + exact(part.bias)


def conv2d(part, x):
    """(C, H, W) with zero padding, stride, dilation and groups, place by place."""
    w = exact(part.weight)
    (sy, sx), (dy, dx), (py, px) = part.stride, part.dilation, part.padding
    padded = np.full((x.shape[0], x.shape[1] + 2 * py, x.shape[2] + 2 * px), Fraction(0), dtype=object)
    padded[:, py : py + x.shape[1], px : px + x.shape[2]] = x
    out, depth, kh, kw = w.shape
    rows = (padded.shape[1] - dy * (kh - 1) - 1) // sy + 1
    columns = (padded.shape[2] - dx * (kw - 1) - 1) // sx + 1
    y = np.empty((out, rows, columns), dtype=object)
    for o in range(out):
        first = o // (out // part.groups) * depth
        for i in range(rows):
            for j in range(columns):
                window = padded[
                    first : first + depth, i * sy : i * sy + dy * kh : dy, j * sx : j * sx + dx * kw : dx
                ]
                y[o, i, j] = (window[:, :kh, :kw] * w[o]).sum()
        if part.bias is not None:
            y[o] = y[o] + Fraction(part.bias[o].item())
    return y


def conv1d(part, x):
    wide = nn.Conv2d(
        part.in_channels,
        part.out_channels,
        (1, *part.kernel_size),
        stride=(1, *part.stride),
        padding=(0, *part.padding),
        dilation=(1, *part.dilation),
        groups=part.groups,
    ).double()
    wide.weight.data, wide.bias.data = part.weight.data[:, :, None], part.bias.data
    return conv2d(wide, x[:, None])[:, 0]


def pool2d(x, size, best=max):
    rows, columns = x.shape[1] // size, x.shape[2] // size
    y = np.empty((x.shape[0], rows, columns), dtype=object)
    for c, i, j in np.ndindex(y.shape):
        y[c, i, j] = best(x[c, i * size : (i + 1) * size, j * size : (j + 1) * size].ravel())
    return y


def mean(values):
    return sum(values, Fraction(0)) / len(values)


def batch_norm(part, x):
    """The factor by sixty decimal digits, rounded to a float; everything else in fractions."""
    gamma = np.ones(part.num_features) if part.weight is None else part.weight.detach().numpy()
    beta = np.zeros(part.num_features) if part.bias is None else part.bias.detach().numpy()
    y = np.empty(x.shape, dtype=object)
    with localcontext() as context:
        context.prec = 60
        for c in range(part.num_features):
            root = (Decimal(part.running_var[c].item()) + Decimal(part.eps)).sqrt()
            factor = Fraction(float(Decimal(float(gamma[c])) / root))
            y[c] = (x[c] - Fraction(part.running_mean[c].item())) * factor + Fraction(float(beta[c]))
    return y


def relu(x, slope=0):
    return np.where(
        x > 0, x, x * (exact(slope) if np.ndim(slope) or hasattr(slope, "detach") else Fraction(slope))
    )


def clip(x, low, high):
    return np.minimum(np.maximum(x, Fraction(low)), Fraction(high))


class ResidualBlock(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.norm_like = nn.Identity()
        self.up, self.down = nn.Linear(d, hidden), nn.Linear(hidden, d)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm_like(x))))


class ResidualMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 6)
        self.blocks = nn.Sequential(ResidualBlock(6, 9), ResidualBlock(6, 5))
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.blocks(self.first(x)))


def residual_mlp(net, x):
    h = linear(net.first, x)
    for block in net.blocks:
        h = h + linear(block.down, relu(linear(block.up, h)))
    return linear(net.last, h)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(6 * 2 * 2, 10),
        nn.ReLU(),
        nn.Linear(10, 3),
        nn.LogSoftmax(dim=1),
    )


def lenet_exactly(net, x):
    h = pool2d(relu(conv2d(net[0], x.reshape(1, 12, 12))), 2)
    h = pool2d(relu(conv2d(net[3], h)), 2, mean).ravel()
    return linear(net[9], relu(linear(net[7], h)))


def shuffle_statistics(net):
    for part in net.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            part.running_mean.normal_()
            part.running_var.uniform_(0.3, 2.0)
            if part.affine:
                part.weight.data.normal_()
                part.bias.data.normal_()
    return net


def batch_norm_net():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.BatchNorm1d(12, affine=False),
        nn.Linear(12, 5),
        nn.BatchNorm1d(5),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(5, 2),
    )


def batch_norm_exactly(net, x):
    h = relu(batch_norm(net[1], conv2d(net[0], x.reshape(2, 4, 4)))).ravel()
    h = relu(batch_norm(net[6], linear(net[5], batch_norm(net[4], h))))
    return linear(net[9], h)


class DenseConcat(nn.Module):
    """Every layer reads all layers before it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 4), nn.Linear(7, 4), nn.Linear(11, 4)])
        self.last = nn.Linear(15, 2)

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, torch.relu(layer(x))], dim=1)
        return self.last(x)


def dense_exactly(net, x):
    for layer in net.layers:
        x = np.concatenate([x, relu(linear(layer, x))])
    return linear(net.last, x)


def prelu_net():
    net = nn.Sequential(
        nn.Linear(3, 6), nn.PReLU(6), nn.Linear(6, 4), nn.PReLU(), nn.LeakyReLU(0.2), nn.Linear(4, 2)
    )
    net[1].weight.data.normal_()
    return net


def prelu_exactly(net, x):
    h = relu(linear(net[0], x), net[1].weight)
    h = relu(relu(linear(net[2], h), Fraction(net[3].weight.item())), Fraction(net[4].negative_slope))
    return linear(net[5], h)


def hard_net():
    return nn.Sequential(
        nn.Linear(3, 5),
        nn.Hardtanh(-0.5, 0.75),
        nn.Linear(5, 5),
        nn.ReLU6(),
        nn.Linear(5, 4),
        nn.Hardsigmoid(),
        nn.Linear(4, 2),
        nn.Sigmoid(),
    )


def hard_exactly(net, x):
    h = clip(linear(net[0], x), -0.5, 0.75)
    h = clip(linear(net[2], h), 0, 6)
    h = clip(linear(net[4], h) / 6 + Fraction(1, 2), 0, 1)
    return linear(net[6], h)


class Pools(nn.Module):
    """Pools with padding, global pools and functional forms."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3, padding=2, dilation=2, groups=2)
        self.pool = nn.MaxPool1d(3, stride=2, padding=1)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        x = self.pool(self.conv(x))
        average = F.adaptive_avg_pool1d(x, 1).squeeze(-1)
        largest = torch.amax(x, dim=2)
        return self.last(torch.cat((average, largest), 1))


def pools_exactly(net, x):
    h = conv1d(net.conv, x.reshape(2, 8))
    ends = [(0, 2), (1, 4), (3, 6), (5, 8)]
    h = np.array([[max(row[a:b]) for a, b in ends] for row in h], dtype=object)
    both = [mean(row) for row in h] + [max(row) for row in h]
    return linear(net.last, np.array(both, dtype=object))


class Nested(nn.Module):
    """Custom modules in custom modules, and arithmetic by operators, methods and functions."""

    def __init__(self):
        super().__init__()
        self.inner = ResidualBlock(4, 3)
        self.register_buffer("scale", torch.tensor([1.0, -0.5, 3.0, 0.25]))
        self.first = nn.Linear(4, 4, bias=False)
        self.again = nn.Sequential(nn.Sequential(nn.Linear(4, 6)), nn.ReLU())
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        y = self.inner(x) * self.scale - 0.5
        y = y.view(x.size(0), 2, 2).transpose(1, 2).reshape(-1, 4)
        z = torch.maximum(self.first(y), 1 - x)
        z = (z / 3 + F.leaky_relu(-z, 0.1)).clamp(max=2.0)
        a, b = self.again(z).chunk(2, dim=1)
        return self.last(torch.abs(a) - 2 * b[:, [2, 0, 1]])


def nested_exactly(net, x):
    h = x + linear(net.inner.down, relu(linear(net.inner.up, x)))
    y = (h * exact(net.scale) - Fraction(1, 2)).reshape(2, 2).T.ravel()
    z = np.maximum(linear(net.first, y), 1 - x)
    z = np.minimum(z / 3 + relu(-z, Fraction(0.1)), Fraction(2))
    hidden = relu(linear(net.again[0][0], z))
    a, b = hidden[:3], hidden[3:]
    return linear(net.last, np.abs(a) - 2 * b[[2, 0, 1]])


class Mixed(nn.Module):
    """A ResNet block with a strided shortcut and batch normalisation, pooled to one number per channel."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding="same")
        self.one, self.two = (
            nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False),
            nn.Conv2d(4, 4, 3, padding=1),
        )
        self.norm_one, self.norm_two = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.shortcut = nn.Conv2d(3, 4, 1, stride=2)
        self.pool, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 3)

    def forward(self, x):
        x = F.relu(self.stem(x))
        y = self.norm_two(self.two(F.relu(self.norm_one(self.one(x)))))
        x = F.relu(y + self.shortcut(x))
        return self.last(torch.flatten(self.pool(x), 1))


def mixed_exactly(net, x):
    stem = nn.Conv2d(1, 3, 3, padding=1).double()
    stem.load_state_dict(net.stem.state_dict())
    h = relu(conv2d(stem, x.reshape(1, 4, 4)))
    y = batch_norm(net.norm_two, conv2d(net.two, relu(batch_norm(net.norm_one, conv2d(net.one, h)))))
    h = relu(y + conv2d(net.shortcut, h))
    return linear(net.last, np.array([mean(channel.ravel()) for channel in h], dtype=object))


ZOO = {
    "residual MLP": (ResidualMLP, residual_mlp, (3,)),
    "LeNet": (lenet, lenet_exactly, (1, 12, 12)),
    "batch norm": (batch_norm_net, batch_norm_exactly, (2, 4, 4)),
    "dense concat": (DenseConcat, dense_exactly, (3,)),
    "PReLU": (prelu_net, prelu_exactly, (3,)),
    "hard activations": (hard_net, hard_exactly, (3,)),
    "pools": (Pools, pools_exactly, (2, 8)),
    "nested": (Nested, nested_exactly, (4,)),
    "ResNet block": (Mixed, mixed_exactly, (1, 4, 4)),
}


def made(name, seed=0):
    """A network of the zoo in float64 and evaluation mode."""
    torch.manual_seed(seed)
    build, plain, shape = ZOO[name]
    net = shuffle_statistics(build().double()).eval()
    return net, plain, shape
