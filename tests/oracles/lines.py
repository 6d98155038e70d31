"""Networks on lines: slices of the random networks, with intervals, half-lines and whole lines."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax import Box, Polytope, WholeSpace
from oracles.random_networks import instance, rescaled
from oracles.random_space import space_instance


def _interval(rng):
    return Box([-int(rng.integers(1, 7))], [int(rng.integers(1, 7))])


def _thirds(rng):
    low = Fraction(int(rng.integers(-9, 4)), 3)
    return Box([low], [low + Fraction(int(rng.integers(2, 25)), 3)])


def _line(rng):
    return WholeSpace(1)


def _half_line(rng):
    return Polytope([[float(rng.choice([-2, -1, 1, 3]))]], [float(rng.integers(-3, 4))])


def _redundant(rng):
    return Polytope([[1.0], [-1.0], [2.0]], [float(rng.integers(1, 6)), float(rng.integers(0, 5)), 7.0])


PLACES = (_interval, _thirds, _line, _half_line, _redundant)


def on_a_line(number: int, *, scaled: bool = False):
    """A network with one input and a domain; a third of them are slices of networks beyond the plane."""
    rng = np.random.default_rng([20240, 6, number])
    case = space_instance(number) if number % 3 == 2 and not scaled else instance(number)
    if scaled:
        case = rescaled(case)
    d = case.network.d
    if rng.random() < 0.5:
        origin, direction = rng.integers(-2, 3, d).astype(float), rng.integers(-2, 3, d).astype(float)
    else:
        origin, direction = rng.standard_normal((2, d))
    return case.network.restrict(origin, [direction]), PLACES[int(rng.integers(len(PLACES)))](rng)
