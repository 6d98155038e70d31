"""Tiny networks in which ties are the rule: small integers, ternary weights, lattices, duplicated and negated
units, sums that cancel, coinciding hyperplanes, tied keys and ties behind ties, maxout, sawtooth; each
reproducible from a number.

``structured_instance(number)`` is the same everywhere: kind, dimension (1 to 4; 7 to 10, where only linear
programs search, if asked for), domain and weights follow from the number. Every seventh network has one
number moved by a little, so that something that would be zero is not: whoever proves zeros must not prove
these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from benchmarks.kinds import comparators, extreme_of_pairs
from hardmax import Affine, Attention, Box, FeedForward, Maxout, Network
from hardmax.networks import sawtooth_network

from . import lines
from .judging_regions import Judgement, judge
from .judging_space import Judgement as SpaceJudgement
from .judging_space import judge_space, searched
from .random_networks import PLACES, Instance
from .random_space import SPACE_PLACES

__all__ = ["STRUCTURED_KINDS", "judge_structured", "structured_instance", "structured_instances"]

Array = np.ndarray
MOVED_EVERY, SEARCHED_EVERY = 7, 5  # coprime, so that every combination occurs with every kind
# units of the first layer, by dimension; a rational enumeration takes some 50 ms
MOST_UNITS = {1: 16, 2: 12, 3: 7, 4: 4, 7: 3, 8: 2, 9: 2, 10: 2}


class Structured:
    """Draws the arrays of one network in d dimensions."""

    def __init__(self, rng: np.random.Generator, d: int) -> None:
        self.rng, self.d = rng, d

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    @property
    def width(self) -> int:
        return self.between(2, MOST_UNITS[self.d])

    def integers(self, *shape: int, most: int = 2) -> Array:
        return self.rng.integers(-most, most + 1, shape).astype(float)

    def scale(self) -> float:
        """What quantised weights are multiplied with: a float32, often a power of two."""
        return float(np.float32(2.0 ** self.between(-3, 2) if self.coin() else self.rng.uniform(0.1, 2)))

    def dyadic(self, *shape: int) -> Array:
        """Numbers with 20 binary digits: generic, but their sums and small multiples are exact."""
        return self.rng.integers(-(2**19), 2**19, shape) / 2.0**18

    def numbers(self, *shape: int) -> Array:
        return self.integers(*shape) if self.coin() else self.dyadic(*shape)

    def relu(self, inputs: int, width: int, outputs: int, most: int = 2) -> FeedForward:
        skip = inputs == outputs and self.coin(0.3)
        arrays = [
            self.integers(*shape, most=most)
            for shape in ((width, inputs), (width,), (outputs, width), (outputs,))
        ]
        return FeedForward(*arrays, skip=skip)


def _integers(draw: Structured) -> list:
    """Two or three ReLU layers with integers in -2 .. 2."""
    e = draw.between(1, 3)
    blocks = [draw.relu(draw.d, draw.width, e), draw.relu(e, draw.between(2, 5), 1)]
    return blocks + ([draw.relu(1, 2, 1)] if draw.coin(0.3) else [])


def _ternary(draw: Structured) -> list:
    """A perceptron with weights -s, 0 and s; biases are multiples of s, or zero."""
    widths = [draw.d, draw.width, draw.between(2, 5), draw.between(2, 3), 1]
    layers = []
    for inputs, outputs in pairwise(widths):
        s, biased = draw.scale(), draw.coin(0.7)
        layers.append((s * draw.integers(outputs, inputs, most=1), s * biased * draw.integers(outputs)))
    return list(Network.mlp(layers).blocks)


def _quantised(draw: Structured) -> list:
    """Gaussian weights as four-bit integers times one number per layer."""
    widths = [draw.d, draw.width, draw.between(2, 5), 1]
    layers = []
    for inputs, outputs in pairwise(widths):
        s = draw.scale()
        w, b = draw.rng.standard_normal((outputs, inputs)), draw.rng.standard_normal(outputs)
        layers.append((s * np.clip(np.rint(3 * w), -7, 7), s * np.rint(2 * b)))
    return list(Network.mlp(layers).blocks)


def _lattice(draw: Structured) -> list:
    """The maximum of minima of some affine functions, several of them equal, by three or four units per
    pair."""
    n = draw.between(2, 5 if draw.d < 3 else max(2, 7 - draw.d))
    slopes, offsets = draw.numbers(n, draw.d), draw.numbers(n)
    size = 4 if draw.d > 2 or draw.coin() else int(draw.rng.choice([8, 16]))
    chosen = draw.rng.integers(0, n, size)
    blocks: list = [Affine(slopes[chosen], offsets[chosen])]
    while size > 1:
        blocks.append(extreme_of_pairs(size, int(draw.rng.choice([-1, 1])), units=draw.between(3, 4)))
        size //= 2
    return blocks


def _sorting(draw: Structured) -> list:
    """Three integer combinations of the inputs, sorted by comparators."""
    stages = [[(0, 1)], [(1, 2)], [(0, 1)]][: draw.between(2, 3)]
    read = Affine(draw.integers(3, draw.d), draw.integers(3))
    return [read, *(comparators(3, stage) for stage in stages)]


def _repeated_rows(draw: Structured) -> tuple[Array, Array]:
    """Rows and biases of which many are another one times 1, -1, 2 or -1/2."""
    width = draw.width
    w, b = draw.numbers(width, draw.d), draw.numbers(width)
    for unit in range(1, width):
        if draw.coin(0.6):
            of, factor = draw.between(0, unit - 1), float(draw.rng.choice([1, -1, 2, -0.5]))
            w[unit], b[unit] = factor * w[of], factor * b[of]
    return w, b


def _duplicated_units(draw: Structured) -> list:
    w, b = _repeated_rows(draw)
    e = draw.between(1, 3)
    return [
        FeedForward(w, b, draw.integers(e, len(b)), draw.integers(e)),
        draw.relu(e, draw.between(2, 5), 1),
    ]


def _cancelling_sums(draw: Structured) -> list:
    """relu(z) - relu(-z) - z with z handed on by other units, and differences of equal sums: zero on every
    cell, or zero but for a few."""
    n = draw.between(1, 3 if draw.d < 4 else 2)
    w, b = draw.dyadic(n, draw.d), draw.dyadic(n) * draw.coin()
    w_in, b_in = np.concatenate([w, -w, 2 * w, -2 * w]), np.concatenate([b, -b, 2 * b, -2 * b])
    whole = np.concatenate([np.eye(n), -np.eye(n), -0.5 * np.eye(n), 0.5 * np.eye(n)], axis=1)  # zero
    spoiled = whole.copy()
    spoiled[draw.between(0, n - 1), draw.between(0, 4 * n - 1)] *= draw.rng.choice([0, 2, -1])
    outputs = np.concatenate([whole, spoiled])
    return [FeedForward(w_in, b_in, outputs, None), draw.relu(2 * n, draw.between(2, 4), 1)]


def _coinciding_hyperplanes(draw: Structured) -> list:
    """Units of the second layer that vanish on the hyperplanes of the first: combinations of relu(z) and
    relu(-z) without a bias."""
    n = draw.between(1, 3 if draw.d < 4 else 2)
    w, b = draw.numbers(n, draw.d), draw.numbers(n)
    outputs = np.zeros((2 * n, 2 * n))
    for i in range(n):
        outputs[[[2 * i], [2 * i + 1]], [i, n + i]] = draw.integers(2, 2)
    first = FeedForward(np.concatenate([w, -w]), np.concatenate([b, -b]), outputs, None)
    width = draw.between(2, 3)
    second = draw.integers(width, 2 * n)
    return [first, FeedForward(second, draw.integers(width) * draw.coin(0.3), draw.integers(1, width), None)]


def _tied_keys(draw: Structured) -> list:
    """Integer heads: keys of a small grid, some of them several times, with the same or other values."""
    blocks: list = []
    for _ in range(draw.between(1, 2)):
        heads, keys = draw.between(1, 2 if draw.d < 4 else 1), draw.between(2, 5)
        again = draw.rng.integers(0, keys, keys + 1)
        scores = draw.integers(heads, keys, draw.d, most=1)[:, again]
        biases = draw.integers(heads, keys)[:, again]
        if draw.coin(0.3):
            biases = -(scores**2).sum(axis=2) / 2  # the nearest point of the grid
        values = draw.integers(heads, keys, draw.d)
        values = values[:, again] if draw.coin() else draw.integers(heads, keys + 1, draw.d)
        blocks.append(Attention(scores, biases, values, skip=draw.coin(0.7)))
    return blocks + ([draw.relu(draw.d, draw.between(2, 3), 1)] if draw.coin() else [])


def _ties_behind_ties(draw: Structured) -> list:
    """Integer heads behind maps of low rank, which make keys equal on whole cells: two or three layers of
    them, with masked keys and keys that all agree, and folds between them or not."""
    d, e = draw.d, draw.between(1, 3)
    low = draw.integers(e, 1, most=1) @ draw.integers(1, d, most=1)
    first = [Affine(low, draw.integers(e)), draw.relu(d, draw.between(1, 3), e, most=1)]
    blocks: list = [first[draw.between(0, 1)]]
    for _ in range(draw.between(2, 3)):
        heads, keys = draw.between(1, 2), draw.between(2, 5)
        scores = draw.integers(heads, keys, e, most=1) * (not draw.coin(0.1))
        scores[:, draw.between(0, keys - 1)] = scores[:, 0]
        biases = draw.integers(heads, keys, most=1) * draw.coin()
        mask = draw.rng.random((heads, keys)) < 0.85
        mask[:, draw.between(0, keys - 1)] = True
        values = draw.integers(heads, keys, e)
        blocks.append(Attention(scores, biases, values, mask=mask, skip=draw.coin(0.7)))
        if draw.coin(0.3):
            blocks.append(draw.relu(e, draw.between(1, 2), e, most=1))
        elif draw.coin(0.2):
            blocks.append(Affine(draw.integers(e, 1, most=1) @ draw.integers(1, e, most=1), draw.integers(e)))
    return blocks


def _maxout(draw: Structured) -> list:
    """Integer pieces, some of them twice."""
    groups, pieces = draw.between(1, 3), draw.between(2, 3)
    again = draw.rng.integers(0, pieces, pieces + 1)
    scores, biases = draw.integers(groups, pieces, draw.d)[:, again], draw.integers(groups, pieces)[:, again]
    e = draw.between(1, 2)
    first = Maxout(scores, biases, draw.integers(e, groups), draw.integers(e))
    if draw.coin():
        return [first, draw.relu(e, draw.between(2, 3), 1)]
    return [first, Maxout(draw.integers(1, 3, e), draw.integers(1, 3), None, None)]


def _sawtooth(draw: Structured) -> list:
    """The transformer of P1 Theorem V.7, with its folds where they are, or a tent map by ReLU layers."""
    d = draw.d
    if d <= 2 and draw.coin():
        sizes = [(1, 1, 2), (2, 1, 1), (1, 2, 1)] + ([(2, 1, 2), (3, 1, 1), (3, 2, 1)] if d == 1 else [])
        n_tokens, teeth, depth = sizes[draw.between(0, len(sizes) - 1)]
        return list(sawtooth_network(d, n_tokens, teeth, depth).blocks)
    folded = min(d, 2)
    w_in = np.repeat(np.eye(folded), 2, axis=0)
    b_in = np.tile([0.0, -0.5], folded)
    w_out = np.kron(np.eye(folded), [[2.0, -4.0]])
    read = Affine(np.eye(folded, d) if draw.coin() else draw.integers(folded, d, most=1), np.zeros(folded))
    return [read, *[FeedForward(w_in, b_in, w_out, None)] * (3 if folded == 1 else 2)]


STRUCTURED_KINDS: dict[str, Callable[[Structured], list]] = {
    "integers": _integers,
    "ternary": _ternary,
    "lattice": _lattice,
    "duplicated units": _duplicated_units,
    "cancelling sums": _cancelling_sums,
    "coinciding hyperplanes": _coinciding_hyperplanes,
    "tied keys": _tied_keys,
    "ties behind ties": _ties_behind_ties,
    "maxout": _maxout,
    "sawtooth": _sawtooth,
    "quantised": _quantised,
    "sorting": _sorting,
}

ARRAYS = {
    Affine: ("w", "b"),
    FeedForward: ("w_in", "b_in", "w_out", "b_out"),
    Attention: ("scores", "biases", "outputs"),
    Maxout: ("scores", "biases", "w_out", "b_out"),
}


def moved(network: Network, rng: np.random.Generator) -> Network:
    """The network with one number moved by 2^-52 to 2^-20 of its size (of one, if it is zero)."""
    blocks = list(network.blocks)
    at = int(rng.integers(len(blocks)))
    block = blocks[at]
    arrays = [getattr(block, name) for name in ARRAYS[type(block)]]
    which = int(rng.choice([i for i, array in enumerate(arrays) if array is not None]))
    values = np.array(arrays[which].floats)
    place = tuple(int(rng.integers(size)) for size in values.shape)
    values[place] += (
        (abs(values[place]) or 1.0) * float(rng.choice([-1, 1])) * 2.0 ** -int(rng.integers(20, 53))
    )
    floats = [values if i == which else array for i, array in enumerate(arrays)]
    options: dict = {} if isinstance(block, Affine) else {"skip": block.skip}
    if isinstance(block, Attention):
        options["mask"] = block.mask
    blocks[at] = type(block)(*floats, **options)
    return Network(blocks)


def _place(rng: np.random.Generator, d: int, turn: int) -> tuple[str, object]:
    """Kinds of domains take turns."""
    if d == 1:
        place = lines.PLACES[turn % len(lines.PLACES)]
        return place.__name__.strip("_").replace("_", " "), place(rng)
    places = PLACES if d == 2 else SPACE_PLACES
    name = list(places)[turn % len(places)]
    if name == "many sides":
        name = "cube"  # seventy sides: slow, and swept elsewhere
    return name, PLACES[name](rng) if d == 2 else SPACE_PLACES[name](rng, d)


def structured_instance(
    number: int, *, move: bool = True, kind: str | None = None, dimension: int | None = None
) -> Instance:
    """Instance ``number``: kind, unless it is given, and kind of domain take turns, the rest is drawn;
    ``move`` False leaves every number where it is, ``dimension`` is drawn unless it is given."""
    rng = np.random.default_rng([20240, 16, number])
    kinds = list(STRUCTURED_KINDS)
    turn = number // len(kinds) if kind is None else number
    kind = kind or kinds[number % len(kinds)]
    d = int(rng.choice([1, 2, 3, 4], p=[0.25, 0.45, 0.22, 0.08]))
    d = d if dimension is None else dimension
    network = Network(STRUCTURED_KINDS[kind](Structured(rng, d)))
    if number % MOVED_EVERY == MOVED_EVERY - 1:
        other, kind = moved(network, rng), f"{kind}, moved"
        network = other if move else network
    place, domain = _place(rng, d, turn)
    if kind.startswith("sawtooth") and rng.random() < 0.7:
        place, domain = "unit cube", Box.cube(d, 0, 1)  # its folds lie on the border
    return Instance(number, f"{kind} in {d}-D", place, network, domain)


def structured_instances(count: int, start: int = 0) -> Iterator[Instance]:
    return (structured_instance(number) for number in range(start, start + count))


def judge_structured(
    case: Instance, arithmetics: tuple[str, ...] = ("certified",)
) -> Judgement | SpaceJudgement:
    """Cells, maps, contacts and regions against the rational enumerator for the dimension; every fifth
    network also by linear programs, which decide signs of their own."""
    judgement = (judge if case.domain.d == 2 else judge_space)(case, arithmetics)
    if case.number % SEARCHED_EVERY == 0:
        searching = judge_space(case, engine=searched)
        judgement.problems.extend(f"[search] {problem}" for problem in searching.problems)
    return judgement
