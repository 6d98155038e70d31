r"""Theorem 2 of P2: what it costs softmax attention to retrieve the k-th largest value, k >= 2.

For :math:`M(X) = f_2\bigl(\sum_t e^{\rho(x(t))} f_1(x(t)) / \sum_t e^{\rho(x(t))}\bigr)` with
non-decreasing :math:`\rho` and weights of at most 1, an error of at most :math:`\varepsilon` for
:math:`F_k(X) = x_{(k)}` forces

.. math::

    \text{width}(f_2) \;\ge\; \frac{(k-1)\,\varepsilon}{4 n m} \Bigl\lfloor \frac{1}{16 m \varepsilon}
    \Bigr\rfloor^{m/(n+1)}, \qquad m = T - k + 1,

whenever :math:`\varepsilon < 1/(64m)` and the bracket to the power is above 4/3. The paper states three
exponents: this one stands in the proof; those of its two statements are smaller, so they follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.colliding_pairs import CollidingPair, closest_choices
from hardmax.flow.theorems.two_layer import Floats, positive_number
from hardmax.networks.constructions.random_networks import check_size

__all__ = ["RetrievalExponents", "retrieval_exponents", "retrieval_pair", "retrieval_width_bound"]


@dataclass(frozen=True)
class RetrievalExponents:
    r"""Exponents o of :math:`\Omega(\varepsilon^{-o})` in Theorem 2, as printed in three places.

    Attributes
    ----------
    informal : Fraction
        (T - k - 1)/(n + 1) - 1, Theorem 2.
    formal : Fraction
        (T - k)/(n + 1) - 1, Theorem 5.
    proof : Fraction
        (T - k + 1)/(n + 1) - 1, what the proof gives: the one to use.
    """

    informal: Fraction
    formal: Fraction
    proof: Fraction


def retrieval_exponents(n_tokens: int, k: int, n: int) -> RetrievalExponents:
    """The three printed exponents of Theorem 2; they may be negative, and then say nothing.

    Examples
    --------
    >>> found = retrieval_exponents(64, 2, 6)
    >>> found.informal, found.formal, found.proof
    (Fraction(54, 7), Fraction(55, 7), Fraction(8, 1))
    """
    _check(n_tokens, k, n)
    informal, formal, proof = (Fraction(n_tokens - k + i, n + 1) - 1 for i in (-1, 0, 1))
    return RetrievalExponents(informal, formal, proof)


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

    candidates = []
    for choice in closest_choices(parts, np.ones(n + 1), best=20):
        free = [grids[np.arange(m), each] for each in choice]
        differ = free[0] != free[1]
        pair = [np.concatenate([np.ones(k - 1), np.where(differ, part, 0.0)]) for part in free]
        candidates.append((float(np.abs(read(pair[0]) - read(pair[1])).max()), pair))
    gap, pair = min(candidates, key=lambda candidate: candidate[0])
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
    check_size(n_tokens, "n_tokens", 1)
    check_size(n, "n", 1)
    check_size(k, "k", 2)
    if k > n_tokens:
        raise InvalidInputError(f"k must be at most n_tokens = {n_tokens}, but was {k}.")
