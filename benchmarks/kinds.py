"""Networks that people bring: trained, quantised, pruned, compiled, built by hand; each the same every time.

``kinds()`` lists them. Training is Adam in numpy from a fixed seed, so that it needs no other package.
``random_like`` is the network they are compared with: the same blocks with Gaussian numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.flow.theorems.codes import Code, analog_code, binary_code
from hardmax.networks import sawtooth_network

Array = np.ndarray
Layers = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Units:
    """Inputs are zero + one * x, with x between -1 and 1."""

    zero: Array
    one: Array


@dataclass(frozen=True)
class Kind:
    """A network on a domain, and what is asked of it.

    Attributes
    ----------
    name : str
    make : callable
        Returns the network. It is called once: training takes a second.
    domain : Box
    plane : (origin, directions), optional
        The slice of the input space that the domain is in.
    most_random, most_forward : float, optional
        The greatest ratio, per cell, to a random network of the same shape and to a forward pass.
    units : Units, optional
        What the inputs are measured in. Random networks get their inputs in units of one.
    legs : int
        Unless 0, the network is asked along a polyline with so many legs through the domain.
    asked : Domain, optional
        What is asked about instead of the box: a polytope, or the whole space.
    """

    name: str
    make: Callable[[], hm.Network]
    domain: hm.Box
    plane: tuple[Array, Array] | None = None
    most_random: float | None = None
    most_forward: float | None = None
    units: Units | None = None
    legs: int = 0
    asked: hm.Polytope | hm.WholeSpace | None = None

    def question(self, network: hm.Network) -> tuple[hm.Network, hm.Box]:
        """The network on its slice, and the domain."""
        plane, domain = self.plane, self.domain
        if self.units is not None and plane is not None:
            d = domain.d
            centre = self.units.zero + self.units.one * plane[0]
            side = self.units.one[:d] * domain.high.floats
            domain = hm.Box(centre[:d] - side, centre[:d] + side)
            plane = np.concatenate([np.zeros(d), centre[d:]]), plane[1]
        return self._along(network if plane is None else network.restrict(*plane), domain)

    def random_question(self, network: hm.Network, seed: int) -> tuple[hm.Network, hm.Box]:
        """A random network of the same shape on the same slice and domain."""
        network = random_like(network, seed)
        return self._along(network if self.plane is None else network.restrict(*self.plane), self.domain)

    def _along(self, network: hm.Network, domain: hm.Box) -> tuple[hm.Network, hm.Box]:
        return (along(network, domain, self.legs), hm.Box([0], [1])) if self.legs else (network, domain)


def along(network: hm.Network, domain: hm.Box, legs: int) -> hm.Network:
    """A network on [0, 1]: along a polyline through the domain, by a ReLU layer whose numbers are exact."""
    low, high = domain.low.floats, domain.high.floats
    corners = np.random.default_rng(0).integers(0, 65, (legs + 1, domain.d)) / 64
    slopes = legs * np.diff(low + (high - low) * corners, axis=0)
    turns = np.diff(slopes, axis=0, prepend=0.0)
    start = low + (high - low) * corners[0]
    return hm.Network(
        [hm.FeedForward(np.ones((legs, 1)), -np.arange(legs) / legs, turns.T, start), *network.blocks]
    )


def random_like(network: hm.Network, seed: int = 0) -> hm.Network:
    """The same blocks with Gaussian numbers: weights by the square root of their inputs, biases by a half."""
    rng = np.random.default_rng(seed)

    def weights(array: Any) -> Array:
        return rng.standard_normal(array.shape) / np.sqrt(array.shape[-1])

    def biases(array: Any) -> Array:
        return 0.5 * rng.standard_normal(array.shape)

    blocks: list[Any] = []
    for block in network.blocks:
        if isinstance(block, hm.Attention):
            outputs = rng.standard_normal(block.outputs.shape) / np.sqrt(block.heads)
            scores = rng.standard_normal(block.scores.shape)
            blocks.append(hm.Attention(scores, biases(block.biases), outputs, skip=block.skip))
        elif isinstance(block, hm.Maxout):
            linear = None if block.w_out is None else weights(block.w_out)
            offsets = None if block.b_out is None else biases(block.b_out)
            blocks.append(hm.Maxout(weights(block.scores), biases(block.biases), linear, offsets))
        elif isinstance(block, hm.FeedForward):
            # as Network.random_mlp: units that read the layer before have their bias there
            w_in = None if block.w_in is None else weights(block.w_in)
            b_in = None if block.w_in is None else biases(block.b_in)
            blocks.append(
                hm.FeedForward(w_in, b_in, weights(block.w_out), biases(block.b_out), skip=block.skip)
            )
        else:
            blocks.append(hm.Affine(weights(block.w), biases(block.b)))
    return hm.Network(blocks)


# Training
# ----------------------------------------------------------------------------------------------------------


def he_layers(widths: Sequence[int], rng: np.random.Generator) -> Layers:
    return [
        (rng.standard_normal((out, inputs)) * np.sqrt(2 / inputs), 0.1 * rng.standard_normal(out))
        for inputs, out in pairwise(widths)
    ]


def softmax_gradient(outputs: Array, labels: Array) -> Array:
    """Of the cross-entropy; one output is a logit, several are one per class."""
    if outputs.shape[1] == 1:
        return (1 / (1 + np.exp(-outputs)) - labels) / len(outputs)
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return (shares - labels) / len(outputs)


def squares_gradient(outputs: Array, values: Array) -> Array:
    return 2 * (outputs - values) / values.size


def train(
    layers: Layers,
    inputs: Array,
    wanted: Array,
    *,
    gradient: Callable[[Array, Array], Array] = softmax_gradient,
    steps: int = 1500,
    rate: float = 3e-3,
    batch: int = 128,
    decay: float = 0.0,
    l1: float = 0.0,
    masks: Sequence[Array] | None = None,
    batch_norm: bool = False,
    seed: int = 1,
) -> Layers:
    """The layers after so many steps of Adam. Batch norm is folded into the weights at the end."""
    rng = np.random.default_rng(seed)
    hidden = len(layers) - 1
    values = [array.copy() for layer in layers for array in layer]
    if batch_norm:
        values += [function(len(b)) for _, b in layers[:-1] for function in (np.ones, np.zeros)]
    first, second = ([np.zeros_like(value) for value in values] for _ in range(2))

    def normed(z: Array, i: int) -> tuple[Array, Array, Array]:
        spread = np.sqrt(z.var(axis=0) + 1e-5)
        unit = (z - z.mean(axis=0)) / spread
        at = 2 * len(layers) + 2 * i
        return values[at] * unit + values[at + 1], unit, spread

    for step in range(1, steps + 1):
        rows = rng.integers(0, len(inputs), batch)
        acts, kept, y = [], [], inputs[rows]
        for i in range(len(layers)):
            acts.append(y)
            z = y @ values[2 * i].T + values[2 * i + 1]
            if i < hidden and batch_norm:
                z, unit, spread = normed(z, i)
                kept.append((unit, spread))
            y = np.maximum(z, 0) if i < hidden else z
        back = gradient(y, wanted[rows])
        slopes: list[Any] = [None] * len(values)
        for i in reversed(range(len(layers))):
            if i < hidden:
                back = back * (acts[i + 1] > 0)
                if batch_norm:
                    unit, spread = kept[i]
                    at = 2 * len(layers) + 2 * i
                    slopes[at], slopes[at + 1] = (back * unit).sum(axis=0), back.sum(axis=0)
                    back = back * values[at]
                    back = (back - back.mean(axis=0) - unit * (back * unit).mean(axis=0)) / spread
            slopes[2 * i] = back.T @ acts[i] + l1 * np.sign(values[2 * i])
            slopes[2 * i + 1] = back.sum(axis=0)
            back = back @ values[2 * i]
        now = rate * (1 - step / (steps + 1))
        for j, slope in enumerate(slopes):
            first[j] = 0.9 * first[j] + 0.1 * slope
            second[j] = 0.999 * second[j] + 0.001 * slope**2
            move = first[j] / (1 - 0.9**step) / (np.sqrt(second[j] / (1 - 0.999**step)) + 1e-8)
            values[j] -= now * (move + decay * values[j])
            if masks is not None and j % 2 == 0 and j < 2 * len(layers):
                values[j] *= masks[j // 2]
    if batch_norm:
        y = inputs
        for i in range(hidden):  # with mean and spread of all inputs
            z = y @ values[2 * i].T + values[2 * i + 1]
            at = 2 * len(layers) + 2 * i
            factor = values[at] / np.sqrt(z.var(axis=0) + 1e-5)
            values[2 * i + 1] = factor * (values[2 * i + 1] - z.mean(axis=0)) + values[at + 1]
            values[2 * i] = factor[:, None] * values[2 * i]
            y = np.maximum(y @ values[2 * i].T + values[2 * i + 1], 0)
    return [(values[2 * i], values[2 * i + 1]) for i in range(len(layers))]


# A classifier of two moons, and what becomes of it
# ----------------------------------------------------------------------------------------------------------

MOONS = [2, 64, 64, 64, 1]
MOONS_BOX = hm.Box.cube(2, -3, 3)


def two_moons(count: int = 1000, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    angle, label = np.pi * rng.random(count), rng.integers(0, 2, count)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    points = np.where(label[:, None] == 0, upper, [1.0, 0.5] - upper) - [0.5, 0.25]
    return points + 0.1 * rng.standard_normal((count, 2)), label[:, None].astype(float)


def moons(widths: Sequence[int] = MOONS, **options: Any) -> Layers:
    return train(he_layers(widths, np.random.default_rng(0)), *two_moons(), **options)


@cache
def trained_moons() -> Layers:
    return moons()


@cache
def sparse_moons() -> Layers:
    """Most weights are nearly zero: quantised, they are zero, and many units coincide."""
    return moons(l1=3e-4)


def pruned(layers: Layers, share: float = 0.8) -> Layers:
    """The smallest weights of every layer set to zero, and the others trained on."""
    masks = [np.abs(w) > np.quantile(np.abs(w), share) for w, _ in layers]
    cut = [(w * mask, b) for (w, b), mask in zip(layers, masks, strict=True)]
    return train(cut, *two_moons(), steps=500, rate=1e-3, masks=masks, seed=2)


def quantised(layers: Layers, bits: int) -> Layers:
    """Weights and biases as integers times one float32 per layer; weights within so many bits.

    Such products are exact in float64, as they are in a network that was stored like that.
    """
    grid = []
    for w, b in layers:
        most = 2 ** (bits - 1) - 1
        step = float(np.float32(np.abs(w).max() / most))
        grid.append((np.clip(np.rint(w / step), -most, most) * step, np.rint(b / step) * step))
    return grid


def ternary(layers: Layers) -> Layers:
    """Weights -s, 0 and s, one s per layer; biases are multiples of s."""
    grid = []
    for w, b in layers:
        large = np.abs(w) > 0.7 * np.abs(w).mean()
        step = float(np.float32(np.abs(w[large]).mean()))
        grid.append((np.sign(w) * large * step, np.rint(b / step) * step))
    return grid


# Maxima of minima, and other programs in ReLU layers
# ----------------------------------------------------------------------------------------------------------


def extreme_of_pairs(n: int, sign: int, units: int = 4) -> hm.FeedForward:
    """The maximum (with ``sign`` -1 the minimum) of neighbours a, b, by four units or by three.

    Four: (s + |d|)/2 with s = a + b and d = a - b. Three: max(a, b) = relu(a - b) + relu(b) - relu(-b).
    """
    w_in, w_out = np.zeros((units * n // 2, n)), np.zeros((n // 2, units * n // 2))
    for pair in range(n // 2):
        a, b, rows = 2 * pair, 2 * pair + 1, slice(units * pair, units * (pair + 1))
        if units == 4:
            w_in[rows, a], w_in[rows, b] = (1, -1, 1, -1), (1, -1, -1, 1)
            w_out[pair, rows] = 0.5, -0.5, 0.5 * sign, 0.5 * sign
        else:
            w_in[rows, a], w_in[rows, b] = (sign, 0, 0), (-sign, 1, -1)
            w_out[pair, rows] = sign, 1, -1
    return hm.FeedForward(w_in, None, w_out, None)


def affine_functions(count: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, 2)), rng.standard_normal(count)


def lattice(functions: int) -> hm.Network:
    """The maximum of n minima of n of the n functions, some repeated: widths n^2, 2n^2, n^2/2, ..., 1."""
    slopes, offsets = affine_functions(functions)
    chosen = np.random.default_rng(1).integers(0, functions, functions**2)
    blocks: list[Any] = [hm.Affine(slopes[chosen], offsets[chosen])]
    n = len(chosen)
    while n > 1:
        blocks.append(extreme_of_pairs(n, -1 if n > functions else 1))
        n //= 2
    return hm.Network(blocks)


def pairwise_lattice(functions: int) -> hm.Network:
    """The maximum of the minima of all pairs, which is the second largest of the functions."""
    slopes, offsets = affine_functions(functions)
    pairs = list(combinations(range(functions), 2))
    n = 1 << (len(pairs) - 1).bit_length()
    chosen = [i for pair in (*pairs, *[pairs[0]] * (n - len(pairs))) for i in pair]
    blocks: list[Any] = [hm.Affine(slopes[chosen], offsets[chosen]), extreme_of_pairs(2 * n, -1, units=3)]
    while n > 1:
        blocks.append(extreme_of_pairs(n, 1, units=3))
        n //= 2
    return hm.Network(blocks)


def comparators(n: int, pairs: Sequence[tuple[int, int]]) -> hm.FeedForward:
    """The smaller value first in every pair (a, b): a - relu(a - b) and b + relu(a - b); v is two units."""
    identity = np.eye(n)
    apart = np.array([identity[a] - identity[b] for a, b in pairs])
    w_in = np.concatenate([apart, identity, -identity])
    return hm.FeedForward(w_in, None, np.concatenate([-apart.T, identity, -identity], axis=1), None)


def sorting_stages(n: int) -> Iterator[list[tuple[int, int]]]:
    """The comparators of Batcher's odd-even mergesort, n a power of two, stage by stage."""
    p = 1
    while p < n:
        k = p
        while k >= 1:
            yield [
                (i + j, i + j + k)
                for j in range(k % p, n - k, 2 * k)
                for i in range(min(k, n - j - k))
                if (i + j) // (2 * p) == (i + j + k) // (2 * p)
            ]
            k //= 2
        p *= 2


def sorting_network(n: int) -> hm.Network:
    """Sorts n integer combinations of two numbers; all weights are integers."""
    rng = np.random.default_rng(0)
    read = hm.Affine(rng.integers(-3, 4, (n, 2)).astype(float), rng.integers(-3, 4, n).astype(float))
    return hm.Network([read, *(comparators(n, stage) for stage in sorting_stages(n))])


def integer_layers(widths: Sequence[int], most: int = 2) -> Layers:
    """Weights and biases are integers up to ``most``."""
    rng = np.random.default_rng(0)
    return [
        (rng.integers(-most, most + 1, (n, m)).astype(float), rng.integers(-most, most + 1, n).astype(float))
        for m, n in pairwise(widths)
    ]


def integer_maxout() -> hm.Network:
    """Three layers of maxima of four integer functions."""
    rng = np.random.default_rng(0)

    def integers(*shape: int) -> Array:
        return rng.integers(-2, 3, shape).astype(float)

    return hm.Network(
        [
            hm.Maxout(integers(16, 4, inputs), 4 * integers(16, 4), integers(8, 16), integers(8))
            for inputs in (2, 8, 8)
        ]
    )


def lookup_program(side: int, depth: int) -> hm.Network:
    """Heads that subtract the nearest point of an integer grid, and ReLU layers with integer weights."""
    grid = np.stack(np.meshgrid(*[np.arange(side) - side // 2] * 2), axis=-1).reshape(1, -1, 2).astype(float)
    nearest = hm.Attention(2 * grid, -(grid**2).sum(axis=2), -grid)  # 2 k.x - |k|^2 = |x|^2 - |x - k|^2
    w_in = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, -1], [1, -1], [-1, 1]], dtype=float)
    w_out = np.array([[2, 2, 1, -1, 1, 0, 0, -1], [1, -1, 2, 2, 0, 1, -1, 0]], dtype=float)
    return hm.Network([nearest, hm.FeedForward(w_in, None, w_out, [-1.0, 0.0])] * depth)


def code_network(code: Code) -> hm.Network:
    """Theorem 3 of P2: steps are heads with two keys, what is linear is carried beside them."""
    blocks: list[Any] = []
    for part in (code.encoder, code.decoder):
        steps = part.width - part.n_linear
        inputs, outputs = part.d_in, part.d_out
        linear = part.w_out[:, steps:] @ part.w_in[steps:]
        offset = part.w_out[:, steps:] @ part.b_in[steps:] + part.b_out
        blocks.append(
            hm.Affine(np.concatenate([np.eye(inputs), linear]), np.concatenate([np.zeros(inputs), offset]))
        )
        scores, values = np.zeros((steps, 2, inputs + outputs)), np.zeros((steps, 2, inputs + outputs))
        biases = np.zeros((steps, 2))
        scores[:, 1, :inputs], biases[:, 1] = part.w_in[:steps], part.b_in[:steps]
        values[:, 1, inputs:] = part.w_out[:, :steps].T
        blocks.append(hm.Attention(scores, biases, values))
        blocks.append(hm.Affine(np.eye(inputs + outputs)[inputs:], np.zeros(outputs)))
    return hm.Network(blocks)


# Digits and a controller
# ----------------------------------------------------------------------------------------------------------

# Rows of five dots per digit, as on a display of seven by five dots.
DIGITS = (
    "01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111", "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100",
)  # fmt: skip


def digit_images(count: int = 2000, seed: int = 0) -> tuple[Array, Array]:
    """Images of 8 x 8 pixels between 0 and 1: shifted, blurred and noisy digits, and one column per class."""
    rng = np.random.default_rng(seed)
    glyphs = np.array([[[int(dot) for dot in row] for row in digit.split()] for digit in DIGITS], dtype=float)
    labels = rng.integers(0, 10, count)
    images = np.zeros((count, 10, 10))
    for image, label in zip(images, labels, strict=True):
        down, right = rng.integers(1, 3), rng.integers(1, 5)
        image[down : down + 7, right : right + 5] = glyphs[label]
    blurred = 0.6 * images[:, 1:-1, 1:-1]
    for shift in ((0, 1), (2, 1), (1, 0), (1, 2)):
        blurred = blurred + 0.1 * images[:, shift[0] : shift[0] + 8, shift[1] : shift[1] + 8]
    noisy = np.clip(blurred + 0.05 * rng.standard_normal(blurred.shape), 0, 1)
    return noisy.reshape(count, 64), np.eye(10)[labels]


def digits_classifier() -> hm.Network:
    layers = he_layers([64, 32, 32, 10], np.random.default_rng(0))
    return hm.Network.mlp(train(layers, *digit_images(), steps=1000))


def plane_through(points: Array) -> tuple[Array, Array]:
    """Origin and directions: (0, 0), (1, 0) and (0, 1) are the three points."""
    return points[0], points[1:] - points[0]


CONTROLLER = [4, *[50] * 6, 5]
PHYSICAL = Units(
    np.array([30_000.0, 0.0, 0.0, 600.0]), np.array([30_000.0, 3.2, 3.2, 500.0])
)  # ft, rad, ft/s


def controller(units: Units | None = None) -> hm.Network:
    """Scores of five commands by distance, bearing, heading and speed of an intruder: smooth, and trained.

    With units, its first layer takes the inputs as they are measured.
    """
    if units is not None:
        first, *others = controller_layers()
        w = first[0] / units.one
        return hm.Network.mlp([(w, first[1] - w @ units.zero), *others])
    return hm.Network.mlp(controller_layers())


@cache
def controller_layers() -> Layers:
    x = np.random.default_rng(0).uniform(-1, 1, (5000, 4))
    distance, bearing, heading, speed = x.T
    risk = np.exp(-2 * (1 + distance)) * (1 + 0.5 * speed)
    crossing = np.sin(np.pi * (bearing - heading))
    turns = np.linspace(-1, 1, 5)
    wanted = np.abs(turns) * 0.2 - risk[:, None] * np.tanh(2 * turns * crossing[:, None])
    layers = he_layers(CONTROLLER, np.random.default_rng(1))
    return train(layers, x, wanted, gradient=squares_gradient, steps=3000, rate=1e-2)


def controllers() -> Iterator[Kind]:
    """The first d inputs around a point, the others fixed: with inputs of order one, and as measured."""
    centre = np.array([0.1, -0.2, 0.15, 0.05])
    for name, units in (("", None), (", physical units", PHYSICAL)):
        for d, side in ((2, 1.0), (3, 0.1), (4, 0.08)):
            yield Kind(
                f"controller 6x50, {d}-D{name}",
                lambda units=units: controller(units),
                hm.Box.cube(d, -side, side),
                (centre, np.eye(4)[:d]),
                most_random=5 if d == 4 else None,
                units=units,
            )


# The list
# ----------------------------------------------------------------------------------------------------------


def mlp(make: Callable[..., Layers], *args: Any, **options: Any) -> Callable[[], hm.Network]:
    return lambda: hm.Network.mlp(make(*args, **options))


def random(*widths: int) -> Callable[[], hm.Network]:
    return lambda: hm.Network.random_mlp(widths, 0)


def integer_transformer(
    d: int, width: int, depth: int, seed: int, *, most: int = 1, low: bool = False
) -> Any:
    """Integers up to ``most``: ReLU units, then layers of two heads with ReLU units between them.

    Few units are on in many cells, so what enters a head has low rank there, and keys tie on whole cells;
    ``low`` puts an affine map of rank 1 before every second layer of heads.
    """
    rng, e, keys = np.random.default_rng(seed), 3, 8

    def whole(*shape: int) -> Array:
        return rng.integers(-most, most + 1, shape).astype(float)

    blocks: list[Any] = [hm.FeedForward(whole(width, d), whole(width), whole(e, width), whole(e))]
    for layer in range(depth):
        if low and layer % 2:
            blocks.append(hm.Affine(whole(e, 1) @ whole(1, e), whole(e)))
        blocks.append(hm.Attention(whole(2, keys, e), whole(2, keys), whole(2, keys, e)))
        if layer < depth - 1:
            blocks.append(hm.FeedForward(whole(4, e), whole(4), whole(e, 4), whole(e), skip=True))
    return hm.Network(blocks)


def searched() -> Iterator[Kind]:
    """Heads in seven dimensions, where linear programs search: 2 to 6 keys tie on whole cells."""
    d = 7
    sides = np.concatenate([np.eye(d), -np.eye(d), np.ones((1, d)), -np.ones((1, d))])
    polytope = hm.Polytope(sides, np.repeat([4.0, 6.0], [2 * d, 2]))
    for name, make in (
        ("heads, -2 .. 2 7-D", lambda: integer_transformer(d, 8, 2, 1, most=2)),
        ("heads, low rank 7-D", lambda: integer_transformer(d, 8, 3, 2, low=True)),
    ):
        for place, asked in (("", None), (", polytope", polytope), (", whole space", hm.WholeSpace(d))):
            yield Kind(name + place, make, hm.Box.cube(d, -4, 4), asked=asked)


def lines(kinds: Sequence[Kind]) -> Iterator[Kind]:
    """The same networks on the line, and some more: signs are decided there by another engine."""
    names = ("random [2,64,64,64,1]", "trained", "pruned, 80 %", "int8", "int4", "ternary",
             "l1 penalty, int4", "lattice of 8", "lattice of 16", "lattice of 32", "sawtooth, depth 3",
             "compiled: sort 8", "compiled: lookup", "deep and narrow, random",
             "deep and narrow, trained")  # fmt: skip
    box = hm.Box.cube(2, -4, 4)
    more = [
        Kind("integers, -2 to 2", mlp(integer_layers, [2, 64, 64, 64, 1]), box, most_random=10),
        Kind("maxout, integers", integer_maxout, box, most_random=10),
    ]
    for kind in (*(kind for kind in kinds if kind.name in names), *more):
        most_random = None if kind.name.startswith("random") else 10
        yield replace(kind, name=f"line: {kind.name}", legs=16, most_random=most_random, most_forward=None)


def kinds() -> list[Kind]:
    box, unit = hm.Box.cube(2, -4, 4), hm.Box.cube(2, 0, 1)
    wide, cube = hm.Box.cube(2, -8, 8), hm.Box.cube(3, -4, 4)
    diagonal = np.zeros(4), np.array([[1.0, 0, 0, 1], [0, 1, 1, 0]])
    images = digit_images()[0][:3]
    binary, analog = binary_code(2, 1, 0.125), analog_code(4, 2, 1 / 32)
    listed = [
        Kind("random [2,64,64,64,1]", random(2, 64, 64, 64, 1), box, most_forward=0.9),
        Kind("random [2,128,128,128,1]", random(2, 128, 128, 128, 1), box, most_forward=0.6),
        Kind("random [2,256,256,256,1]", random(2, 256, 256, 256, 1), box, most_forward=0.35),
        Kind("random [3,64,64,1]", random(3, 64, 64, 1), hm.Box.cube(3, -4, 4), most_forward=2.5),
        Kind("random [4,16,16,1]", random(4, 16, 16, 1), hm.Box.cube(4, -4, 4), most_forward=12),
        Kind("trained", mlp(trained_moons), MOONS_BOX),
        Kind("weight decay", mlp(moons, decay=0.03), MOONS_BOX),
        Kind("l1 penalty", mlp(sparse_moons), MOONS_BOX),
        Kind("batch norm, folded", mlp(moons, batch_norm=True), MOONS_BOX),
        Kind("pruned, 80 %", mlp(lambda: pruned(trained_moons())), MOONS_BOX, most_random=10),
        Kind("int8", mlp(lambda: quantised(trained_moons(), 8)), MOONS_BOX),
        Kind("int4", mlp(lambda: quantised(trained_moons(), 4)), MOONS_BOX, most_random=10),
        Kind("ternary", mlp(lambda: ternary(trained_moons())), MOONS_BOX, most_random=10),
        Kind("l1 penalty, int8", mlp(lambda: quantised(sparse_moons(), 8)), MOONS_BOX),
        Kind("l1 penalty, int4", mlp(lambda: quantised(sparse_moons(), 4)), MOONS_BOX, most_random=10),
        Kind("l1 penalty, ternary", mlp(lambda: ternary(sparse_moons())), MOONS_BOX, most_random=10),
        Kind("lattice of 8", lambda: lattice(8), wide, most_random=10),
        Kind("lattice of 16", lambda: lattice(16), wide, most_random=10),
        Kind("lattice of 32", lambda: lattice(32), wide, most_random=10),
        Kind("pairwise lattice of 8", lambda: pairwise_lattice(8), wide),
        Kind("sawtooth, depth 3", lambda: sawtooth_network(2, 4, 1, 3), unit, most_random=10),
        Kind("sawtooth in thirds", lambda: sawtooth_network(2, 3, 1, 3), unit),
        Kind("compiled: sort 8", lambda: sorting_network(8), box),
        Kind("compiled: lookup", lambda: lookup_program(5, 3), hm.Box.cube(2, -3, 3)),
        Kind("heads, ternary", lambda: integer_transformer(2, 24, 3, 0), wide, most_random=10),
        Kind("heads, -2 .. 2", lambda: integer_transformer(2, 16, 4, 3, most=2), wide, most_random=10),
        Kind("heads, low rank", lambda: integer_transformer(2, 24, 3, 2, low=True), wide, most_random=10),
        Kind("heads, ternary 3-D", lambda: integer_transformer(3, 10, 2, 0), cube, most_random=10),
        Kind("heads, low rank 3-D", lambda: integer_transformer(3, 8, 3, 1, low=True), cube, most_random=10),
        Kind(
            "heads, ternary 4-D",
            lambda: integer_transformer(4, 6, 2, 1),
            hm.Box.cube(4, -4, 4),
            most_random=10,
        ),
        *searched(),
        Kind("P2: binary code", lambda: code_network(binary), unit),
        Kind("P2: analog code", lambda: code_network(analog), unit, diagonal),
        Kind("digits on a plane", digits_classifier, hm.Box.cube(2, -4, 5), plane_through(images)),
        Kind("deep and narrow, random", random(2, *[16] * 16, 1), box),
        Kind("deep and narrow, trained", mlp(moons, [2, *[16] * 16, 1], steps=3000), MOONS_BOX),
        *controllers(),
    ]
    return [*listed, *lines(listed)]
