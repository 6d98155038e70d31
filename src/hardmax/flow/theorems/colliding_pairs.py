r"""Two inputs that attention hardly tells apart although the target does: the pigeonholes of P2.

Each of m free tokens chooses among N grid points, the grids of different tokens being ordered by the
target. There are :math:`N^m` sequences, but attention sees only sums over tokens, few numbers; so two
sequences have almost the same sums. Where the two agree, both get the same neutral token, which leaves the
difference of the sums alone; where they differ first (in the order of the grids), the target differs. The
closest pair is found here by a search over all sequences, so the gaps are what they are and not what the
pigeonhole guarantees.

**Theorem 2**: what it costs softmax attention to retrieve the k-th largest value, k >= 2. For :math:`M(X) =
f_2\bigl(\sum_t e^{\rho(x(t))} f_1(x(t)) / \sum_t e^{\rho(x(t))}\bigr)` with non-decreasing :math:`\rho` and
weights of at most 1, an error of at most :math:`\varepsilon` for :math:`F_k(X) = x_{(k)}` forces

.. math::

    \text{width}(f_2) \;\ge\; \frac{(k-1)\,\varepsilon}{4 n m} \Bigl\lfloor \frac{1}{16 m \varepsilon}
    \Bigr\rfloor^{m/(n+1)}, \qquad m = T - k + 1,

whenever :math:`\varepsilon < 1/(64m)` and the bracket to the power is above 4/3. The paper states three
exponents: this one stands in the proof; those of its two statements are smaller, so they follow.

**Theorem 1, part 1**: a single layer of H heads within :math:`\varepsilon` of :math:`\min_{s,t} 2(1 +
x(s)^\top x(t))` has :math:`\Omega(\varepsilon^{-k})` parameters. The paper prints two exponents k; the formal
one is the larger, so it implies the other. The proof builds two sequences on the sphere: a token :math:`b`,
tokens near :math:`-b` at squared distances that differ by :math:`4\varepsilon`, and elsewhere the tokens that
the heads like best. (The caps that the paper intersects with :math:`Q_0` are meant to be :math:`-(B(b_i, L)
\cap Q_0)`; as printed they are empty.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.depth_separation import separation_target
from hardmax.flow.theorems.softmax_transformers import Floats, frozen_array, positive_number
from hardmax.networks.random_networks import check_size
from hardmax.randomness import generator_of
from hardmax.results import Result

_MOST = 2_000_000  # sequences that are searched


@dataclass(frozen=True, eq=False, repr=False)
class CollidingPair(Result):
    r"""Two sequences with nearly the same attention output and clearly different targets.

    Attributes
    ----------
    first, second : array of shape (T, d)
        The sequences.
    target_gap : float
        :math:`|F(X) - F(Y)|`, at least :math:`4\varepsilon`.
    attention_gap : float
        The largest difference of a coordinate of the attention output.
    guaranteed_gap : float
        What the pigeonhole principle promises for it; infinite where it promises nothing at this epsilon.
    epsilon : float
    required_width : float
        A tanh block with weights of at most 1 that reads the attention output and is within epsilon of the
        target at both sequences has at least so many units.
    n_searched : int
        Sequences among which the pair was found.

    Examples
    --------
    >>> pair = retrieval_pair(lambda x: x[:, None], lambda x: 3 * x, n_tokens=6, k=2, epsilon=0.003)
    >>> bool(pair.attention_gap < pair.guaranteed_gap), bool(pair.target_gap >= 0.012 - 1e-12)
    (True, True)
    """

    kind: ClassVar[str] = "CollidingPair"
    _shapes: ClassVar[dict[str, str]] = {
        "first": "T d",
        "second": "T d",
    }

    first: Floats
    second: Floats
    target_gap: float
    attention_gap: float
    guaranteed_gap: float
    epsilon: float
    required_width: float
    n_searched: int

    def _summary(self) -> str:
        return (
            f"{len(self.first)} tokens, targets {self.target_gap:.3g} apart, attention "
            f"{self.attention_gap:.3g} apart, so width {self.required_width:.3g} at least"
        )

    def _table(self) -> dict[str, Any]:
        return {"token": np.arange(len(self.first)), "first": self.first, "second": self.second}


def closest_choices(
    parts: Floats, scale: Floats, *, best: int = 1
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The pairs of choices with the closest sums, closest first.

    Parameters
    ----------
    parts : array of shape (m, N, f)
        What choice q of token j adds to the sums.
    scale : array of shape (f,)
        What a difference in each sum is measured in; the largest quotient counts.
    best : int
        How many pairs.

    Returns
    -------
    list of (array of shape (m,), array of shape (m,))
        Choices per token.

    Examples
    --------
    >>> parts = np.array([[[0.0], [1.0]], [[0.0], [1.01]]])
    >>> closest_choices(parts, np.ones(1))
    [(array([0, 1]), array([1, 0]))]
    """
    m, n, _ = parts.shape
    if n < 2 or m < 1:
        raise InvalidInputError(
            f"epsilon must leave at least 2 grid points per token, but left {n}; try a smaller one."
        )
    if m * np.log(n) > np.log(_MOST):
        raise InvalidInputError(
            f"{n}^{m} sequences are more than {_MOST} to search; try a larger epsilon or fewer tokens."
        )
    sums: Floats = np.zeros((1, parts.shape[2]))
    for part in parts:  # the last token runs fastest
        sums = (sums[:, None, :] + part[None, :, :]).reshape(-1, parts.shape[2])
    tree = cKDTree(sums / scale)
    distance, neighbour = tree.query(sums / scale, k=2, p=np.inf)
    me = np.arange(len(sums))
    column = (neighbour[:, 0] == me).astype(int)  # of the other one: duplicates may come in any order
    other, apart = neighbour[me, column], distance[me, column]
    pairs: dict[tuple[int, int], None] = {}
    for i in np.argsort(apart, kind="stable"):
        pairs[min(i, other[i]), max(i, other[i])] = None
        if len(pairs) == best:
            break
    digits = n ** np.arange(m - 1, -1, -1)
    return [((i // digits) % n, (j // digits) % n) for i, j in pairs]


def _closest_pair(
    parts: Floats,
    scale: Floats,
    best: int,
    sequence: Callable[[NDArray[np.int64], NDArray[np.bool_]], Floats],
    read: Callable[[Floats], Floats],
) -> tuple[float, list[Floats]]:
    """Of the ``best`` closest choices the two sequences that attention reads most alike, and their gap."""
    candidates = []
    for choice in closest_choices(parts, scale, best=best):
        pair = [sequence(each, choice[0] != choice[1]) for each in choice]
        candidates.append((float(np.abs(read(pair[0]) - read(pair[1])).max()), pair))
    return min(candidates, key=lambda candidate: candidate[0])


@dataclass(frozen=True)
class RetrievalExponents:
    r"""Exponents o of :math:`\Omega(\varepsilon^{-o})` in Theorem 2, as printed in three places."""

    informal: Fraction  # (T - k - 1)/(n + 1) - 1, Theorem 2
    formal: Fraction  # (T - k)/(n + 1) - 1, Theorem 5
    proof: Fraction  # (T - k + 1)/(n + 1) - 1, what the proof gives: the one to use


def retrieval_exponents(n_tokens: int, k: int, n: int) -> RetrievalExponents:
    """The three printed exponents of Theorem 2; they may be negative, and then say nothing.

    Examples
    --------
    >>> found = retrieval_exponents(64, 2, 6)
    >>> found.informal, found.formal, found.proof
    (Fraction(54, 7), Fraction(55, 7), Fraction(8, 1))
    """
    _check(n_tokens, k, n)
    return RetrievalExponents(*(Fraction(n_tokens - k + i, n + 1) - 1 for i in (-1, 0, 1)))


def retrieval_width_bound(n_tokens: int, k: int, n: int, epsilon: float | Fraction) -> float:
    """The explicit lower bound on the width of the block behind the attention, 0 where it does not apply.

    Parameters
    ----------
    n_tokens, k, n : int
        Tokens, which largest value (at least 2), dimension of the attention output.
    epsilon : float or Fraction

    Examples
    --------
    >>> [float(f"{retrieval_width_bound(*case):.4g}") for case in ((16, 2, 2, 1e-4), (64, 2, 6, 1e-5))]
    [96.55, 6042000000.0]
    """
    _check(n_tokens, k, n)
    exact = epsilon if isinstance(epsilon, Fraction) else Fraction(positive_number(epsilon, "epsilon"))
    if exact <= 0:
        raise InvalidInputError(f"epsilon must be positive, but was {epsilon}.")
    m = n_tokens - k + 1
    if exact >= Fraction(1, 64 * m):
        return 0.0
    grid = math.floor(1 / (16 * m * exact))
    power = m / (n + 1) * math.log(grid)
    if power <= math.log(4 / 3):
        return 0.0
    return math.exp(math.log((k - 1) * float(exact) / (4 * n * m)) + power)


def retrieval_pair(
    f1: Callable[[Floats], Floats],
    rho: Callable[[Floats], Floats],
    *,
    n_tokens: int,
    k: int,
    epsilon: float,
) -> CollidingPair:
    r"""Two sequences that a given attention map hardly tells apart although their k-th largest values differ.

    Parameters
    ----------
    f1 : callable
        (N,) -> (N, n), the values, in [0, 1].
    rho : callable
        (N,) -> (N,), the scores, non-decreasing on [0, 1].
    n_tokens, k : int
        T and k, 2 <= k <= T.
    epsilon : float
        Below 1/(64 m), m = T - k + 1; all :math:`N^m` sequences are searched, N = floor(1/(16 m epsilon)).

    Returns
    -------
    CollidingPair
        Tokens of dimension 1; targets at least 4 epsilon apart.

    Examples
    --------
    >>> pair = retrieval_pair(lambda x: x[:, None] ** 2, lambda x: 5 * x, n_tokens=7, k=2, epsilon=0.002)
    >>> pair.n_searched, bool(pair.attention_gap < 1e-5)
    (15625, True)
    """
    epsilon = positive_number(epsilon, "epsilon")
    check_size(n_tokens, "n_tokens", 2)
    _check(n_tokens, k, 1)
    m = n_tokens - k + 1
    if epsilon >= 1 / (64 * m):
        raise InvalidInputError(f"epsilon must be below 1/(64 m) = {1 / (64 * m):.4g}, but was {epsilon:g}.")
    n_grid = math.floor(1 / (16 * m * epsilon))
    grids = np.arange(m)[:, None] / (2 * m) + 4 * epsilon * np.arange(1, n_grid + 1)
    log_weights, values = _attention_parts(f1, rho, grids.ravel())
    top, _ = _attention_parts(f1, rho, np.ones(1))
    if log_weights.max() > top[0] + 1e-12:
        raise InvalidInputError("rho must be non-decreasing on [0, 1], but is largest before 1.")
    weights = np.exp(log_weights - top[0])
    n = values.shape[1]
    parts = np.column_stack([weights[:, None] * values, weights]).reshape(m, n_grid, n + 1)

    def read(sequence: Floats) -> Floats:
        logs, vectors = _attention_parts(f1, rho, sequence)
        shares = np.exp(logs - logs.max())
        return np.asarray(shares @ vectors / shares.sum())

    def sequence(choice: NDArray[np.int64], differ: NDArray[np.bool_]) -> Floats:
        return np.concatenate([np.ones(k - 1), np.where(differ, grids[np.arange(m), choice], 0.0)])

    gap, pair = _closest_pair(parts, np.ones(n + 1), 20, sequence, read)
    target_gap = abs(float(np.sort(pair[0])[-k] - np.sort(pair[1])[-k]))
    eta = 4 * m * n_grid ** (-m / (n + 1))
    return CollidingPair(
        first=pair[0][:, None],
        second=pair[1][:, None],
        target_gap=target_gap,
        attention_gap=gap,
        guaranteed_gap=2 * eta / (k - 1) if n_grid ** (m / (n + 1)) > 4 / 3 else math.inf,
        epsilon=epsilon,
        required_width=max(target_gap - 2 * epsilon, 0.0) / (n * gap) if gap > 0 else math.inf,
        n_searched=n_grid**m,
    )


def _attention_parts(
    f1: Callable[[Floats], Floats], rho: Callable[[Floats], Floats], x: Floats
) -> tuple[Floats, Floats]:
    values, scores = np.asarray(f1(x), dtype=float), np.asarray(rho(x), dtype=float)
    if values.ndim != 2 or len(values) != len(x) or scores.shape != x.shape:
        raise DimensionMismatchError(
            f"f1 and rho must return shapes ({len(x)}, n) and ({len(x)},), but returned {values.shape} and "
            f"{scores.shape}."
        )
    if not (np.isfinite(values).all() and np.isfinite(scores).all()):
        raise NotFiniteError("f1 and rho must be finite on [0, 1], but returned NaN or an infinity.")
    return scores, values


def _check(n_tokens: int, k: int, n: int) -> None:
    for name, value, least in (("n_tokens", n_tokens, 1), ("n", n, 1), ("k", k, 2)):
        check_size(value, name, least)
    if k > n_tokens:
        raise InvalidInputError(f"k must be at most n_tokens = {n_tokens}, but was {k}.")


@dataclass(frozen=True)
class SeparationExponents:
    r"""Exponents k of :math:`\Omega(\varepsilon^{-k})` for one layer, as printed in two places."""

    informal: Fraction  # (T - 2H)/(H(n + 1) + 1) - 1, Theorem 1
    formal: Fraction  # (T - H - 1)/(H(n + 1) + 1) - 1, Theorem 4: equal for H = 1, else larger


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
        rng = generator_of(rng)
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
    # a cap that holds no liked token; there are more caps than heads
    distance = np.linalg.norm(liked[None] + centres[:, None], axis=2).min(axis=1)
    b = centres[np.argmax(distance > radius * (1 + 1e-9))]
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

    def sequence(choice: NDArray[np.int64], differ: NDArray[np.bool_]) -> Floats:
        chosen = grids[np.arange(free), choice]
        return np.concatenate([np.where(differ[:, None], chosen, liked[0]), fixed])

    gap, pair = _closest_pair(parts, scale, 50, sequence, layer)
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


def _at_distance(centre: Floats, squares: Floats) -> Floats:
    """Points of the sphere at given squared distances from a centre, along one great circle."""
    tangent = np.cross(centre, [1.0, 0.0, 0.0])
    tangent /= np.linalg.norm(tangent)
    turns = 2 * np.arcsin(np.sqrt(squares) / 2)
    return np.asarray(np.cos(turns)[:, None] * centre + np.sin(turns)[:, None] * tangent)
