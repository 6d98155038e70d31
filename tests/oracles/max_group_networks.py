"""Tiny networks with maxout, max-pooling and leaky ReLU among their blocks, reproducible from a number."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax import Affine, Attention, FeedForward, Maxout, Network

from .random_networks import NUMBERS, PLACES, Instance

SLOPES = (0.25, 0.01, -1, Fraction(1, 3), 1, 2.0, Fraction(-3, 7))


class Maker:
    """Draws blocks from one kind of numbers."""

    def __init__(self, rng: np.random.Generator, numbers: str) -> None:
        self.rng, self.numbers = rng, numbers

    def __call__(self, *shape: int) -> np.ndarray:
        return NUMBERS[self.numbers](self.rng, shape)

    def biases(self, *shape: int) -> np.ndarray | None:
        return None if self.rng.random() < 0.3 else self(*shape)

    def maxout(self, d: int) -> Maxout:
        rng = self.rng
        groups, pieces = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        skip = rng.random() < 0.4
        e = d if skip else int(rng.integers(1, 4))
        scores, biases = self(groups, pieces, d), self.biases(groups, pieces)
        if pieces > 1 and rng.random() < 0.3:  # a piece twice
            scores[:, -1] = scores[:, 0]
            if biases is not None:
                biases[:, -1] = biases[:, 0]
        mask = rng.random((groups, pieces)) < 0.8
        mask[np.arange(groups), rng.integers(0, pieces, groups)] = True
        plain = (not skip or groups == d) and rng.random() < 0.4
        w_out, e = (None, groups) if plain else (self(e, groups), e)
        b_out = self(e) if rng.random() < 0.5 else None
        return Maxout(scores, biases, w_out, b_out, mask=mask, skip=skip)

    def pool(self, d: int) -> Maxout:
        rng = self.rng
        windows = [
            rng.integers(0, d, int(rng.integers(1, 4))).tolist() for _ in range(int(rng.integers(1, 4)))
        ]
        return Maxout.pool(d, windows)

    def leaky(self, d: int) -> FeedForward:
        rng = self.rng
        width = d if rng.random() < 0.2 else int(rng.integers(1, 6))
        skip = rng.random() < 0.4
        e = d if skip else int(rng.integers(1, 4))
        slope = SLOPES[rng.integers(len(SLOPES))]
        if rng.random() < 0.4:  # one per unit, some of them zero
            slope = [slope if rng.random() < 0.6 else 0 for _ in range(width)]
        w_in = None if width == d and rng.random() < 0.5 else self(width, d)
        b_in, b_out = self.biases(width), self.biases(e)
        return FeedForward(w_in, b_in, self(e, width), b_out, skip=skip, slope=slope)

    def relu(self, d: int) -> FeedForward:
        width, e = self.rng.integers(1, 6, 2)
        return FeedForward(self(width, d), self.biases(width), self(e, width), None)

    def attention(self, d: int) -> Attention:
        heads, keys = self.rng.integers(1, 3), self.rng.integers(1, 6)
        return Attention(self(heads, keys, d), self.biases(heads, keys), self(heads, keys, d))

    def affine(self, d: int) -> Affine:
        e = int(self.rng.integers(1, 4))
        return Affine(self(e, d), self.biases(e))


def max_network(number: int, d: int = 2) -> tuple[Network, str]:
    """One to four blocks, at least one of them new, and what they are; kinds of numbers take turns."""
    rng = np.random.default_rng([20240, 5, number] if d == 2 else [20240, 5, number, d])
    numbers = list(NUMBERS)[number % len(NUMBERS)]
    make = Maker(rng, numbers)
    new = ("maxout", "pool", "leaky", "maxout", "leaky")
    kinds = [str(rng.choice([*new, "relu", "attention", "affine"])) for _ in range(rng.integers(1, 5))]
    kinds[rng.integers(len(kinds))] = new[number % len(new)]
    blocks: list = []
    for kind in kinds:
        blocks.append(getattr(make, kind)(blocks[-1].d_out if blocks else d))
    return Network(blocks), f"{', '.join(kinds)}, {numbers}"


def max_instance(number: int) -> Instance:
    """A network with two inputs, and a domain; kinds of domains take turns too."""
    network, kind = max_network(number)
    place = list(PLACES)[number // len(NUMBERS) % len(PLACES)]
    rng = np.random.default_rng([20240, 6, number])
    return Instance(number, kind, place, network, PLACES[place](rng))
