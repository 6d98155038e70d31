r"""Theorem 3 of P2, part 2, repaired: how wide a decoder must be, and what bounded weights do to it.

As printed the theorem assumes an error of at most :math:`\varepsilon < 1/2` for all inputs, which no
continuous encoder :math:`f_1: [0,1]^m \to \mathbb{R}^n`, n < m, allows. On the boundary of the cube, a sphere
of dimension m - 1 >= n, the map :math:`V \mapsto f_1(V) - f_1(1 - V)` is odd, so by Borsuk and Ulam it
vanishes somewhere. There V and 1 - V have the same code although :math:`\lVert V - (1 - V) \rVert_\infty =
1`: every decoder is wrong by 1/2 at one of them. :func:`antipodal_pair` finds the pair for a given encoder.

In the mean the theorem is true, with an explicit constant: if :math:`E \lVert V - f_2(f_1(V)) \rVert_\infty
\le \varepsilon` for V uniform on :math:`[0,1]^m`, any measurable encoder :math:`f_1` into :math:`[0,1]^n`,
and weights of at most B, then the decoder has at least

.. math:: p \;\ge\; \frac{2\varepsilon}{B^2 n} \Bigl( 2^{-1/n} (6\varepsilon)^{-m/n} - 1 \Bigr)

hidden tanh units. That is far from sharp: tanh units with weights of at most 1 are analytic in a fixed
strip, so every further alternation of a decoder costs a factor (:func:`alternation_width_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares, linprog

from hardmax.errors import DimensionMismatchError, IncompleteError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.softmax_transformers import Floats, TwoLayer, positive_number
from hardmax.networks.random_networks import check_size
from hardmax.randomness import generator_of

_RHO = (math.pi + math.sqrt(math.pi**2 + 4.0)) / 2.0


def decoder_width_bound(m: int, n: int, epsilon: float, *, weight_bound: float = 1.0) -> float:
    r"""The least width of a decoder with mean error epsilon (L_1 of the maximum norm), or 0.

    Parameters
    ----------
    m, n : int
        Numbers that are stored, and latent coordinates.
    epsilon : float
        The mean error.
    weight_bound : float
        B, the largest absolute value of a weight.

    Examples
    --------
    >>> cases = ((2, 1, 0.01), (2, 1, 0.001), (3, 1, 0.01), (8, 2, 0.01))
    >>> [float(f"{decoder_width_bound(*case):.4g}") for case in cases]
    [2.758, 27.78, 46.28, 545.6]
    """
    check_size(m, "m", 1)
    check_size(n, "n", 1)
    epsilon = positive_number(epsilon, "epsilon")
    weight_bound = positive_number(weight_bound, "weight_bound")
    packed = 2.0 ** (-1.0 / n) * (6.0 * epsilon) ** (-m / n)
    return max(0.0, float(2.0 * epsilon / (weight_bound**2 * n) * (packed - 1.0)))


def identity_error(p: int) -> float:
    r"""The largest error of :math:`p \tanh(v/p)` on [0, 1], :math:`1 - p\tanh(1/p) \approx 1/(3p^2)`.

    Examples
    --------
    >>> [round(identity_error(p), 5) for p in (1, 2, 4, 8, 16)]
    [0.23841, 0.07577, 0.02033, 0.00518, 0.0013]
    """
    check_size(p, "p", 1)
    return 1.0 - p * math.tanh(1.0 / p)


def identity_block(m: int, n: int, p: int) -> TwoLayer:
    r"""A tanh block, weights at most 1, for :math:`V \mapsto (V, 0)` or back: n >= m in Theorem 3.

    p equal units per number, :math:`p \tanh(v/p)`. No tanh block is exactly the identity: it is bounded, and
    analytic functions that agree on an interval agree everywhere.

    Parameters
    ----------
    m, n : int
        Inputs and outputs; min(m, n) of them are passed on.
    p : int
        Units per number.

    Examples
    --------
    >>> there, back = identity_block(2, 3, 8), identity_block(3, 2, 8)
    >>> bool(np.abs(back(there([[1.0, 0.5]])) - [[1.0, 0.5]]).max() <= 2 * identity_error(8))
    True
    >>> there.largest_weight, there.n_parameters
    (1.0, 99)
    """
    for name, value in (("m", m), ("n", n), ("p", p)):
        check_size(value, name, 1)
    passed = min(m, n)
    w_in = np.repeat(np.eye(m)[:passed] / p, p, axis=0)
    w_out = np.repeat(np.eye(n)[:, :passed], p, axis=1)
    return TwoLayer(w_in, np.zeros(passed * p), w_out, np.zeros(n))


def alternation_width_bound(alternations: int, *, amplitude: float = 0.25) -> float:
    r"""A proven lower bound on the width of a tanh block on [0, 1] that alternates, weights at most 1.

    If :math:`f(x_i) \le -a` and :math:`\ge a` in turn at k + 1 points, then :math:`p \ge \tfrac{a}{2} (\rho
    - 1) \rho^{k-1}` with :math:`\rho = (\pi + \sqrt{\pi^2 + 4})/2 = 3.433`; levels may be moved by a
    constant.

    Examples
    --------
    >>> [round(alternation_width_bound(k), 1) for k in (2, 4, 6, 8)]
    [1.0, 12.3, 145.0, 1708.7]
    """
    check_size(alternations, "alternations", 1)
    amplitude = positive_number(amplitude, "amplitude")
    return amplitude / 2.0 * (_RHO - 1.0) * _RHO ** (alternations - 1)


@dataclass(frozen=True, eq=False)
class AlternationProgram:
    """The width that a block on [0, 1] needs to alternate, by linear programming; numerical, not proven."""

    width: float
    multipliers: Floats  # one per point, scaled to the bound 1 on a fine grid of theta and b
    points: Floats


def alternation_program(
    alternations: int,
    *,
    amplitude: float = 0.25,
    n_dictionary: int = 81,
    n_check: int = 401,
) -> AlternationProgram:
    r"""How wide a tanh block with weights of at most 1 must be to alternate k times at equal steps on [0, 1].

    A block of width p with outer weights and output bias of at most 1 has :math:`\sum_r |\alpha_r| \le p`,
    so multipliers of alternating signs with :math:`|\sum_i \lambda_i \tanh(\theta x_i + b)| \le 1` for all
    :math:`|\theta|, |b| \le 1` prove :math:`p \ge a \sum_i |\lambda_i| - |\sum_i \lambda_i|`. They are
    found on a dictionary of units and scaled by what a finer grid finds.

    Parameters
    ----------
    alternations : int
        k, at most 8; beyond that floats do not resolve the program.
    amplitude : float
        a.
    n_dictionary, n_check : int
        Units per axis of the program, and of the grid on which its answer is evaluated again.

    Examples
    --------
    >>> [round(alternation_program(k, n_dictionary=41, n_check=101).width, 2) for k in (1, 2)]
    [0.54, 8.16]
    """
    check_size(alternations, "alternations", 1)
    points = np.linspace(0.0, 1.0, alternations + 1)
    signs = (-1.0) ** np.arange(alternations + 1)
    axis = np.linspace(-1.0, 1.0, n_dictionary)
    units = np.tanh(axis[:, None, None] * points + axis[None, :, None]).reshape(-1, len(points))
    # variables: |lambda_i|, whose signs are those of the levels, and a bound on the sum of lambda
    rows = np.concatenate([units, -units]) * signs
    sums = np.concatenate([[signs], [-signs]])
    found = linprog(
        np.append(np.full(len(points), -amplitude), 1.0),
        A_ub=np.block([[rows, np.zeros((len(rows), 1))], [sums, np.full((2, 1), -1.0)]]),
        b_ub=np.concatenate([np.ones(len(rows)), np.zeros(2)]),
        bounds=(0, None),
        method="highs",
    )
    if found.status != 0:
        raise IncompleteError(
            f"the linear program for {alternations} alternations was not solved; try fewer."
        )
    multipliers = found.x[:-1] * signs
    fine = np.linspace(-1.0, 1.0, n_check)
    largest = max(
        float(np.abs(np.tanh(theta * points + fine[:, None]) @ multipliers).max()) for theta in fine
    )
    multipliers = multipliers / largest
    width = amplitude * float(np.abs(multipliers).sum()) - abs(float(multipliers.sum()))
    return AlternationProgram(width, multipliers, points)


@dataclass(frozen=True, eq=False)
class AntipodalPair:
    """A point of the boundary of the cube and its antipode, with nearly the same code."""

    point: Floats  # V; some coordinate is 0 or 1, so V and 1 - V are 1 apart in the maximum norm
    antipode: Floats  # 1 - V
    code_gap: float  # the largest difference of a coordinate of the code

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
    generator = generator_of(rng)
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
