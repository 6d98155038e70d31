"""Small networks whose numbers reach from one end of float64 to the other, each reproducible from a number.

Weights, biases, keys and sides of boxes are small integers, some of them times 5e-324, 1e-300 or 1e308.
Products and sums overflow, underflow and cancel, so that floats decide little; rationals know the answer.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hardmax import (
    Affine,
    Attention,
    Box,
    FeedForward,
    Network,
    WholeSpace,
    count_cells,
    enumerate_regions,
    storage,
)
from hardmax.errors import NotFiniteError
from hardmax.results import restored
from oracles.rational_regions import enumerate_rationally
from oracles.rational_space import enumerate_space

SCALES = (5e-324, 1e-320, 1e-308, 1e-300, 1e-160, 1e-20, 1.0, 1.0, 1.0, 1e20, 1e155, 1e300, 5e307)
SIDES = (1e-320, 1e-300, 1.0, 1.0, 4.0, 1e300, 1e308)


def _numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    values = rng.integers(-3, 4, shape).astype(np.float64)
    scales = np.array(SCALES)[rng.integers(len(SCALES), size=shape)]
    return np.where(rng.integers(3, size=shape) == 0, values * scales, values)


def extreme_case(number: int) -> tuple[Network, Any]:
    """A network with one or two blocks, in one to three dimensions, and a domain."""
    rng = np.random.default_rng(number)
    d = int(rng.integers(1, 4))
    blocks: list[Any] = []
    for _ in range(int(rng.integers(1, 3))):
        match int(rng.integers(4)):
            case 0:
                parts = _numbers(rng, 1, 3, d), _numbers(rng, 1, 3), _numbers(rng, 1, 3, d)
                blocks.append(Attention(*parts))
            case 1:
                blocks.append(Affine(_numbers(rng, d, d), _numbers(rng, d)))
            case _:
                parts = _numbers(rng, 2, d), _numbers(rng, 2), _numbers(rng, d, 2)
                blocks.append(FeedForward(*parts, _numbers(rng, d)))
    side = float(rng.choice(SIDES))
    return Network(blocks), WholeSpace(d) if rng.integers(4) == 0 else Box.cube(d, -side, side)


def extreme_problems(number: int) -> list[str]:
    """What differs from the rationals: counts, regions, and maps beyond their proven errors."""
    network, domain = extreme_case(number)
    expected = (enumerate_rationally if domain.d == 2 else enumerate_space)(network, domain)
    found = enumerate_regions(network, domain)
    problems = []
    if (int(count_cells(network, domain)), found.n_cells) != (expected.n_cells, expected.n_cells):
        problems.append(f"{found.n_cells} cells instead of {expected.n_cells}")
    if found.n_regions != expected.n_regions:
        problems.append(f"{found.n_regions} regions instead of {expected.n_regions}")
    if not found.verify(n_points=50).ok:
        problems.append(f"{found.verify(n_points=50)}")
    stored = storage.Stored(found.kind, found._state(), {})
    again = restored(storage.from_bytes(storage.to_bytes(stored), "saved"), "saved")
    if again.n_regions != found.n_regions:
        problems.append("a file does not give it back")
    try:
        maps = np.concatenate([found.linear, found.offset[:, :, None]], axis=2)
    except NotFiniteError:
        return problems  # named, as it should be
    for i, error in enumerate(found.map_errors.tolist()):
        linear, offset = found.exact_map(i)
        exact = [[*row, b] for row, b in zip(linear, offset, strict=True)]
        for row, truth in zip(maps[i].tolist(), exact, strict=True):
            if any(abs(Fraction(a) - b) > Fraction(error) for a, b in zip(row, truth, strict=True)):
                problems.append(f"the map of cell {i} is not within {error}")
    return problems
