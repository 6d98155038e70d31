r"""Lemma 1 of P2: a Heaviside unit is a tanh unit up to any error in :math:`L_p(\mu)`, :math:`\mu` finite.

.. math:: \lVert 1_{\{x \ge 0\}} - \tfrac12(1 + \tanh(Bx + C)) \rVert_{L_p(\mu)} < \delta .

The shift C takes care of an atom at zero, where the step is 1; B is large enough for everything that does
not lie next to zero. It holds for every :math:`1 \le p < \infty` (the paper asks for p > 1) and on any
interval. In the maximum norm it is false: a continuous function stays at least 1/2 away from a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hardmax.errors import InvalidInputError
from hardmax.flow.theorems.two_layer import Floats, positive_number

__all__ = ["TanhStep", "tanh_step"]


@dataclass(frozen=True)
class TanhStep:
    r"""The function :math:`\tfrac12 (1 + \tanh(Bx + C))` in place of a step at zero.

    Attributes
    ----------
    steepness, shift : float
        B and C.
    error_bound : float
        A proven bound on the error in :math:`L_p(\mu)`.
    """

    steepness: float
    shift: float
    error_bound: float

    def __call__(self, x: ArrayLike) -> Floats:
        """Values."""
        return 0.5 * (1.0 + np.tanh(self.steepness * np.asarray(x, dtype=np.float64) + self.shift))


def tanh_step(
    delta: float,
    *,
    p: float = 2.0,
    density: float = 1.0,
    interval: tuple[float, float] = (-1.0, 1.0),
    atoms: Mapping[float, float] | None = None,
) -> TanhStep:
    r"""Lemma 1 as a function: B and C for an error below delta in :math:`L_p(\mu)`.

    Parameters
    ----------
    delta : float
        The error that is allowed.
    p : float
        At least 1, finite.
    density : float
        A bound on the density of the continuous part of :math:`\mu`.
    interval : (float, float)
        Where it lives.
    atoms : mapping of float to float, optional
        Point masses, by their place; the one at zero is where the shift is needed.

    Returns
    -------
    TanhStep

    Notes
    -----
    :math:`\mu` is cut into what lies within :math:`\eta` of zero (a third of :math:`\delta^p`), the atom at
    zero (a third) and the rest (a third), as in the paper.

    Examples
    --------
    >>> step = tanh_step(0.05, atoms={0.0: 2.0})
    >>> bool(step.error_bound < 0.05), bool(1 - step(0.0) < 0.05)
    (True, True)
    """
    delta = positive_number(delta, "delta")
    if not 1.0 <= p < math.inf:
        raise InvalidInputError(
            f"p must be at least 1 and finite, but was {p}: no tanh unit is uniformly close."
        )
    low, high = interval
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError(f"interval must be (low, high) with low < high, but was {interval}.")
    masses = {float(place): float(mass) for place, mass in (atoms or {}).items()}
    bad = [mass for mass in (density, *masses.values()) if not 0.0 <= mass < math.inf]
    if bad:
        raise InvalidInputError(f"density and atoms must be finite and at least 0, but there was {bad[0]}.")
    share = delta**p / 3.0
    nearest = min((abs(place) for place in masses if place != 0.0), default=math.inf)
    eta = min(nearest, 0.99 * share / (2.0 * density) if density > 0 else math.inf, high - low)
    eta *= 1.0 - 1e-12  # no atom lies strictly within eta
    total = density * (high - low) + sum(masses.values())
    at_zero = masses.get(0.0, 0.0)
    shift = _reach(share, at_zero, p) if at_zero > 0 else 0.0
    rest = _reach(share / 2.0, total, p)
    steepness = (rest + shift) / eta
    tails = 2.0 * total * _tail(rest) ** p
    bound = (2.0 * eta * density + at_zero * _tail(shift) ** p + tails) ** (1.0 / p)
    return TanhStep(steepness, shift, bound)


def _tail(r: float) -> float:
    r""":math:`1 - \tfrac12(1 + \tanh r)`, without cancellation."""
    return 1.0 / (1.0 + math.exp(min(2.0 * r, 700.0)))


def _reach(share: float, mass: float, p: float) -> float:
    """The smallest r >= 0 with ``mass * tail(r)**p`` a little below ``share``."""
    if mass <= 0:
        return 0.0
    tail = (0.99 * share / mass) ** (1.0 / p)
    return max(0.0, 0.5 * math.log(max(1.0 / tail - 1.0, 1.0)))
