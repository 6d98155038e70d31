r"""Theorem 1, part 1 of P2: one layer of H heads needs many parameters for the depth-separation target.

A single layer within :math:`\varepsilon` of :math:`\min_{s,t} 2(1 + x(s)^\top x(t))` has
:math:`\Omega(\varepsilon^{-k})` parameters. The paper prints two exponents k; the formal one is the larger,
so it implies the other. The proof builds two sequences on the sphere: a token :math:`b`, tokens near
:math:`-b` at squared distances that differ by :math:`4\varepsilon`, and elsewhere the tokens that the heads
like best. (The caps that the paper intersects with :math:`Q_0` are meant to be :math:`-(B(b_i, L) \cap
Q_0)`; as printed they are empty.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow.theorems.colliding_pairs import CollidingPair, closest_choices
from hardmax.flow.theorems.depth_separation import separation_target
from hardmax.flow.theorems.two_layer import Floats, frozen_array, positive_number
from hardmax.networks.constructions.random_networks import check_size

__all__ = ["SeparationExponents", "SingleLayer", "cap_centres", "separation_exponents", "separation_pair"]


@dataclass(frozen=True)
class SeparationExponents:
    r"""Exponents k of :math:`\Omega(\varepsilon^{-k})` for one layer, as printed in two places.

    Attributes
    ----------
    informal : Fraction
        (T - 2H)/(H(n + 1) + 1) - 1, Theorem 1.
    formal : Fraction
        (T - H - 1)/(H(n + 1) + 1) - 1, Theorem 4: at least the informal one, equal only for H = 1.
    """

    informal: Fraction
    formal: Fraction


def separation_exponents(n_tokens: int, heads: int, n: int) -> SeparationExponents:
    """The two printed exponents of Theorem 1, part 1; not positive means that nothing is claimed.

    Examples
    --------
    >>> found = separation_exponents(64, 4, 6)
    >>> round(float(found.informal), 6), round(float(found.formal), 6)
    (0.931034, 1.034483)
    """
    for name, value in (("n_tokens", n_tokens), ("heads", heads), ("n", n)):
        check_size(value, name, 1)
    below = heads * (n + 1) + 1
    return SeparationExponents(
        Fraction(n_tokens - 2 * heads, below) - 1, Fraction(n_tokens - heads - 1, below) - 1
    )


@dataclass(frozen=True, eq=False)
class SingleLayer:
    r"""What CLS reads in one layer: head i averages :math:`V_i x(t)` by :math:`e^{\beta q_i^\top x(t)}`.

    Parameters
    ----------
    scores : array of shape (H, 3)
        :math:`q_i^\top = (W_{Q,i} c)^\top W_{K,i} P`, the embedding included.
    values : array of shape (H, n, 3)
    beta : float

    Examples
    --------
    >>> layer = SingleLayer([[1.0, 0.0, 0.0]], [[[1.0, 0.0, 0.0]]], 1.0)
    >>> layer(np.zeros((5, 3)))
    array([[0.]])
    """

    scores: Floats
    values: Floats
    beta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", frozen_array(self.scores, "scores", 2))
        object.__setattr__(self, "values", frozen_array(self.values, "values", 3))
        object.__setattr__(self, "beta", positive_number(self.beta, "beta"))
        if self.values.shape[::2] != self.scores.shape or self.scores.shape[1] != 3:
            raise DimensionMismatchError(
                "scores and values must have shapes (H, 3) and (H, n, 3), but have "
                f"{self.scores.shape} and {self.values.shape}."
            )

    @classmethod
    def random(cls, heads: int, n: int, rng: int | np.random.Generator, *, beta: float = 3.0) -> SingleLayer:
        """Scores and values uniform in [-1, 1]."""
        rng = np.random.default_rng(rng)
        return cls(rng.uniform(-1, 1, (heads, 3)), rng.uniform(-1, 1, (heads, n, 3)), beta)

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.scores)

    @property
    def n(self) -> int:
        """The dimension of a head."""
        return int(self.values.shape[1])

    def __call__(self, tokens: ArrayLike) -> Floats:
        """The attention output at one sequence (T, 3): (H, n)."""
        x = np.asarray(tokens, dtype=np.float64)
        logs = self.beta * (x @ self.scores.T)
        weights = np.exp(logs - logs.max(axis=0))
        mixed: Floats = np.einsum("th,hnd,td->hn", weights / weights.sum(axis=0), self.values, x)
        return mixed


def cap_centres(heads: int) -> tuple[Floats, float]:
    r"""H + 1 points of :math:`Q_0` and a radius L: at least 4L apart, their caps inside :math:`Q_0`.

    :math:`Q_0` is the part of the sphere with :math:`x_1, x_2 \in [-1/2, 0]` and :math:`x_3 < 0`.

    Examples
    --------
    >>> centres, radius = cap_centres(1)
    >>> round(radius, 5), bool(np.linalg.norm(centres[0] - centres[1]) >= 4 * radius)
    (0.10355, True)
    """
    check_size(heads, "heads", 1)
    if heads == 1:  # two points on the diagonal have more room than on a grid
        radius = 0.5 / (2.0 + 2.0 * math.sqrt(2.0))
        flat = np.array([[-radius, -radius], [radius - 0.5, radius - 0.5]])
    else:
        side = math.ceil(math.sqrt(heads + 1))
        radius = 0.5 / (4 * (side - 1) + 2)
        ticks = -radius - 4 * radius * np.arange(side)
        flat = np.array([[x, y] for x in ticks for y in ticks])[: heads + 1]
    return np.column_stack([flat, -np.sqrt(1.0 - (flat**2).sum(axis=1))]), radius


def separation_pair(layer: SingleLayer, *, n_tokens: int, epsilon: float) -> CollidingPair:
    r"""Two sequences that one layer hardly tells apart, with targets :math:`4\varepsilon` apart.

    Parameters
    ----------
    layer : SingleLayer
    n_tokens : int
        T, more than H + 1; T - H - 1 tokens are free.
    epsilon : float
        Small enough for two grid points per token: at most :math:`L^2/(8(T-H-1))`.

    Returns
    -------
    CollidingPair
        The width is that of the output block: its 2-norm Lipschitz constant is at most
        :math:`p\sqrt{nH} \cdot nH`, the output matrix of the layer included.

    Examples
    --------
    >>> pair = separation_pair(SingleLayer.random(1, 1, 0), n_tokens=8, epsilon=1.1e-4)
    >>> bool(pair.target_gap >= 4.4e-4), bool(pair.attention_gap < 1e-6)
    (True, True)
    """
    epsilon = positive_number(epsilon, "epsilon")
    check_size(n_tokens, "n_tokens", layer.heads + 2)
    centres, radius = cap_centres(layer.heads)
    free = n_tokens - layer.heads - 1
    n_grid = math.floor(radius**2 / (4 * free * epsilon))
    if n_grid < 2:
        raise InvalidInputError(
            f"epsilon must be at most L^2/(8 (T - H - 1)) = {radius**2 / (8 * free):.3g} for two grid points "
            f"per token, but was {epsilon:g}."
        )
    liked = _liked_tokens(layer, centres, radius)
    cap = _untouched(liked, centres, radius)
    b = centres[cap]
    squares = radius**2 * np.arange(free * n_grid) / (free * n_grid)
    grids = _at_distance(-b, squares).reshape(free, n_grid, 3)
    fixed = np.concatenate([liked, b[None]])

    # sums of weights and of weighted values per head, in units of the fixed tokens' weights
    logs = layer.beta * (grids @ layer.scores.T)
    reference = (layer.beta * (fixed @ layer.scores.T)).max(axis=0)
    weights = np.exp(logs - reference)
    moved = weights[..., None] * np.einsum("hnd,jqd->jqhn", layer.values, grids)
    parts = np.concatenate([moved.reshape(free, n_grid, -1), weights], axis=2)
    scale = np.maximum(np.abs(parts).max(axis=(0, 1)), 1e-300)
    candidates = []
    for choice in closest_choices(parts, scale, best=50):
        differ = choice[0] != choice[1]
        pair = []
        for each in choice:
            chosen = grids[np.arange(free), each]
            pair.append(np.concatenate([np.where(differ[:, None], chosen, liked[0]), fixed]))
        candidates.append((float(np.abs(layer(pair[0]) - layer(pair[1])).max()), pair))
    gap, pair = min(candidates, key=lambda candidate: candidate[0])
    target_gap = abs(float(np.diff(separation_target(np.stack(pair)))[0]))
    width = layer.n * layer.heads
    apart = float(np.linalg.norm(layer(pair[0]) - layer(pair[1])))
    return CollidingPair(
        first=pair[0],
        second=pair[1],
        target_gap=target_gap,
        attention_gap=gap,
        guaranteed_gap=math.inf,  # the paper's constants are asymptotic
        epsilon=epsilon,
        required_width=max(target_gap - 2 * epsilon, 0.0) / (width**1.5 * apart) if apart > 0 else math.inf,
        n_searched=n_grid**free,
    )


def _liked_tokens(layer: SingleLayer, centres: Floats, radius: float) -> Floats:
    r"""For each head the token with the largest weight on the caps around :math:`-b_i`.

    The score is linear, so on a cap it is largest at its gradient's direction or, if that lies outside, on
    the rim in the plane of centre and gradient.
    """
    angle = 2 * math.asin(radius / 2)
    tokens = []
    for score in layer.scores:
        candidates = []
        for centre in -centres:
            tangent = score - (score @ centre) * centre
            length = float(np.linalg.norm(tangent))
            turn = min(math.atan2(length, float(score @ centre)), angle)
            direction = tangent / length if length > 0 else np.zeros(3)
            candidates.append(math.cos(turn) * centre + math.sin(turn) * direction)
        tokens.append(max(candidates, key=lambda token: float(score @ token)))
    return np.array(tokens)


def _untouched(liked: Floats, centres: Floats, radius: float) -> int:
    """A cap that holds no liked token; there are more caps than heads."""
    distance = np.linalg.norm(liked[None] + centres[:, None], axis=2).min(axis=1)
    return int(np.argmax(distance > radius * (1 + 1e-9)))


def _at_distance(centre: Floats, squares: Floats) -> Floats:
    """Points of the sphere at given squared distances from a centre, along one great circle."""
    tangent = np.cross(centre, [1.0, 0.0, 0.0])
    tangent /= np.linalg.norm(tangent)
    turns = 2 * np.arcsin(np.sqrt(squares) / 2)
    return np.asarray(np.cos(turns)[:, None] * centre + np.sin(turns)[:, None] * tangent)
