r"""Why no continuous code is uniformly close with fewer coordinates than numbers (Theorem 3 of P2, part 2).

Let :math:`f_1: [0,1]^m \to \mathbb{R}^n` be continuous, n < m. On the boundary of the cube, a sphere of
dimension m - 1 >= n, the map :math:`V \mapsto f_1(V) - f_1(1 - V)` is odd, so by Borsuk and Ulam it
vanishes somewhere. There V and 1 - V have the same code although :math:`\lVert V - (1 - V) \rVert_\infty =
1`: every decoder is wrong by 1/2 at one of them. So the hypothesis of Theorem 3, part 2, "error at most
:math:`\varepsilon < 1/2` for all inputs", is never met. This module finds the pair for a given encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from hardmax.errors import DimensionMismatchError, IncompleteError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.two_layer import Floats
from hardmax.networks.constructions.random_networks import check_size

__all__ = ["AntipodalPair", "antipodal_pair"]


@dataclass(frozen=True, eq=False)
class AntipodalPair:
    """A point of the boundary of the cube and its antipode, with nearly the same code.

    Attributes
    ----------
    point, antipode : array of shape (m,)
        V and 1 - V; some coordinate of V is 0 or 1, so they are 1 apart in the maximum norm.
    code_gap : float
        The largest difference of a coordinate of the code.
    """

    point: Floats
    antipode: Floats
    code_gap: float

    def sup_error(self, decoder: Callable[[Floats], Floats], encoder: Callable[[Floats], Floats]) -> float:
        """The larger error of a decoder at the two points, in the maximum norm."""
        both = np.stack([self.point, self.antipode])
        return float(np.abs(np.asarray(decoder(np.asarray(encoder(both)))) - both).max())

    def certain_error(self, lipschitz: float) -> float:
        """What every decoder with this Lipschitz constant is wrong by at one of the two, at least."""
        return max(0.0, (1.0 - lipschitz * self.code_gap) / 2.0)


def antipodal_pair(
    encoder: Callable[[Floats], Any], m: int, *, tolerance: float = 1e-9, tries: int = 40, rng: int = 0
) -> AntipodalPair:
    """Two opposite points of the cube's boundary that a continuous encoder maps to the same code.

    Parameters
    ----------
    encoder : callable
        (N, m) -> (N, n), continuous, n < m.
    m : int
        How many numbers it stores.
    tolerance : float
        The code gap that is accepted.
    tries : int
        For n >= 2 the pair is searched by least squares from so many starting points; for n = 1 it is
        bisected along a path from a point to its antipode.
    rng : int

    Returns
    -------
    AntipodalPair

    Raises
    ------
    IncompleteError
        When no pair within the tolerance was found: for n >= 2 the search may miss it, and for an encoder
        that jumps there may be none.

    Examples
    --------
    >>> pair = antipodal_pair(lambda v: np.tanh(v @ [[0.3], [0.7]]), 2)
    >>> pair.code_gap < 1e-15, float(np.abs(pair.point - pair.antipode).max())
    (True, 1.0)
    """
    check_size(m, "m", 2)

    def odd(points: Floats) -> Floats:
        both = np.asarray(encoder(np.concatenate([points, 1.0 - points])), dtype=float)
        if both.ndim != 2 or len(both) != 2 * len(points):
            raise DimensionMismatchError(
                f"encoder must return shape ({2 * len(points)}, n), but returned {both.shape}."
            )
        if not np.isfinite(both).all():
            raise NotFiniteError("encoder must be finite on the cube, but returned NaN or an infinity.")
        return np.asarray(both[: len(points)] - both[len(points) :])

    n = odd(np.full((1, m), 0.25)).shape[1]
    if n >= m:
        raise InvalidInputError(
            f"encoder must have fewer outputs than m = {m}, but has {n}; then nothing has to collide."
        )
    point = _bisected(odd, m) if n == 1 else _searched(odd, m, tolerance, tries, rng)
    pair = AntipodalPair(point, 1.0 - point, float(np.abs(odd(point[None])).max()))
    if pair.code_gap > tolerance:
        raise IncompleteError(
            f"no antipodal pair with code gap {tolerance:g} was found (the best has {pair.code_gap:.2g}); "
            "one exists if the encoder is continuous, try more tries or a larger tolerance."
        )
    return pair


def _on_boundary(directions: Floats) -> Floats:
    """Directions from the centre of the cube, pushed to its boundary; opposite ones stay opposite."""
    return np.asarray(0.5 + 0.5 * directions / np.abs(directions).max(axis=-1, keepdims=True))


def _bisected(odd: Callable[[Floats], Floats], m: int) -> Floats:
    """A zero on the half circle of directions in the plane of the first two axes."""

    def point(angle: float) -> Floats:
        direction = np.zeros(m)
        direction[:2] = np.cos(angle), np.sin(angle)
        return _on_boundary(direction)

    low, high = 0.1, 0.1 + np.pi
    at_low = float(odd(point(low)[None])[0, 0])
    best = (abs(at_low), point(low))
    for _ in range(80):
        middle = (low + high) / 2
        value = float(odd(point(middle)[None])[0, 0])
        best = min(best, (abs(value), point(middle)), key=lambda each: each[0])
        if (value > 0) == (at_low > 0):
            low = middle
        else:
            high = middle
    return best[1]


def _searched(odd: Callable[[Floats], Floats], m: int, tolerance: float, tries: int, rng: int) -> Floats:
    generator = np.random.default_rng(rng)
    best = (np.inf, np.full(m, 0.0))
    for start in generator.normal(size=(tries, m)):
        found = least_squares(
            lambda direction: odd(_on_boundary(direction[None]))[0], start, xtol=1e-15, ftol=1e-15, gtol=1e-15
        )
        gap = float(np.abs(found.fun).max())
        best = min(best, (gap, _on_boundary(found.x)), key=lambda each: each[0])
        if gap <= tolerance:
            break
    return best[1]
