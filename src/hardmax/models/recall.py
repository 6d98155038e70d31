r"""How much of what really matters lies inside a set, and what other sets of the same size would hold.

For token t with influences :math:`a_s \ge 0` of the input positions and a set S of k positions,

.. math:: \operatorname{recall}(S) = \sum_{s \in S} a_s \Big/ \sum_{s \in C} a_s

over the candidates C: the positions that the mask lets reach t, *without t itself*. A token always keeps
itself by the residual stream and mostly matters most to itself, so leaving it in would flatter every set.
With it, each recall r becomes :math:`\alpha + (1 - \alpha) r`, where :math:`\alpha` is the token's own
share.

Three sets of the same size stand beside it: a random one, whose expected recall is exactly
:math:`k / \lvert C\rvert`; the k positions that attention rollout ranks highest; and the k most influential
ones, which no set of that size beats. Where k is 0 or all of C, every set of the size is the same and nothing
is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError

__all__ = ["COLUMNS", "Spread", "recall_columns", "spread"]

Floats = NDArray[np.float64]

COLUMNS = (
    "size",
    "candidates",
    "own_share",
    "recall",
    "random_expected",
    "random_mean",
    "random_low",
    "random_high",
    "beaten",
    "rollout",
    "best",
)
"""What is known per token: the size of the set and the number of candidates (both without the token itself),
the token's own share of all influence, the recall of the set, the exact expectation for a random set of the
size, mean and 5 % and 95 % quantiles of seeded draws, the share of draws that the set beats (ties by halves),
the recalls of rollout's set and of the best set."""


def recall_columns(
    influence: Floats,
    sets: NDArray[np.bool_],
    candidates: NDArray[np.bool_],
    ranking: Floats,
    *,
    n_draws: int = 200,
    rng: int | np.random.Generator = 0,
) -> dict[str, Floats]:
    """Recalls of all tokens of a text, one entry per token and column.

    Parameters
    ----------
    influence : array (M, Q, N)
        One matrix per measure; not negative.
    sets : array of bool (R, Q, N)
        One family of sets per rule.
    candidates : array of bool (Q, N)
        What can matter; the token itself is taken out here.
    ranking : array (Q, N)
        What rollout says.
    n_draws : int
        Random sets per token and size.
    rng : int or Generator

    Returns
    -------
    dict of arrays (R, M, Q)
        The columns of :data:`COLUMNS`. Recalls are NaN where no candidate has any influence.

    Examples
    --------
    >>> influence = np.array([[[5.0, 3.0, 1.0, 0.0]]])
    >>> inside = np.array([[[True, True, False, False]]])
    >>> rollout = np.array([[0.1, 0.2, 0.3, 0.4]])
    >>> found = recall_columns(influence, inside, np.ones((1, 4), dtype=bool), rollout)
    >>> [float(found[name][0, 0, 0]) for name in ("size", "candidates", "recall", "rollout", "best")]
    [1.0, 3.0, 0.75, 0.0, 0.75]
    >>> float(found["random_expected"][0, 0, 0]) == 1 / 3
    True
    """
    if n_draws < 1:
        raise InvalidInputError(f"n_draws must be at least 1, but was {n_draws}.")
    generator = np.random.default_rng(rng)
    n_measures, n_queries, n_keys = influence.shape
    shape = (len(sets), n_measures, n_queries)
    found = {name: np.full(shape, np.nan) for name in COLUMNS}
    for t in range(n_queries):
        others = candidates[t].copy()
        if t < n_keys:
            others[t] = False
        places = np.flatnonzero(others)
        weights = influence[:, t, places]
        total = weights.sum(axis=1)
        own = influence[:, t, t] if t < n_keys else np.zeros(n_measures)
        draws = np.argsort(generator.random((n_draws, len(places))), axis=1)
        by_rollout = np.argsort(-ranking[t, places], kind="stable")
        inside = sets[:, t, places]
        for j in range(n_measures):
            everything = own[j] + total[j]
            found["own_share"][:, j, t] = own[j] / everything if everything > 0 else np.nan
            found["candidates"][:, j, t] = len(places)
            found["size"][:, j, t] = inside.sum(axis=1)
            if not total[j] > 0:
                continue
            shares = weights[j] / total[j]
            random = _filling(shares[draws])  # (draws, k): recall of the first k of each random order
            rolled, best = _filling(shares[by_rollout]), _filling(np.sort(shares)[::-1])
            for i, members in enumerate(inside):
                k = int(members.sum())
                recall, of_draws = float(shares[members].sum()), random[:, k]
                low, high = np.quantile(of_draws, [0.05, 0.95])
                # equal sets may differ by the order of their sums
                same = np.abs(of_draws - recall) <= 1e-12
                beaten = np.mean(np.where(same, 0.5, of_draws < recall))
                row = (recall, k / len(places), of_draws.mean(), low, high, beaten, rolled[k], best[k])
                for name, value in zip(COLUMNS[3:], row, strict=True):
                    found[name][i, j, t] = value
    return found


def _filling(shares: Floats) -> Floats:
    """The recall of the first 0, 1, 2, ... of an order."""
    filled = np.zeros((*shares.shape[:-1], shares.shape[-1] + 1))
    np.cumsum(shares, axis=-1, out=filled[..., 1:])
    return filled


@dataclass(frozen=True)
class Spread:
    """A number with its spread.

    Attributes
    ----------
    median, lower_quartile, upper_quartile : float
        Over all values.
    low, high : float
        A 95 % bootstrap interval of the median: whole groups (texts) are drawn again, because tokens of one
        text are not independent; with a single group its values are drawn.
    n, n_groups : int
    """

    median: float
    lower_quartile: float
    upper_quartile: float
    low: float
    high: float
    n: int
    n_groups: int

    def __str__(self) -> str:
        return (
            f"{self.median:.3g} (quartiles {self.lower_quartile:.3g} to {self.upper_quartile:.3g}; 95 % of "
            f"the median {self.low:.3g} to {self.high:.3g})"
        )


def _medians(values: Floats, times: NDArray[np.int64]) -> Floats:
    """The median of the values, each taken so often; one per row of ``times``."""
    order = np.argsort(values)
    filled = np.cumsum(times[:, order], axis=1)
    total = filled[:, -1:]
    middle = [values[order][(filled > rank).argmax(axis=1)] for rank in ((total - 1) // 2, total // 2)]
    return np.asarray((middle[0] + middle[1]) / 2.0)


def spread(
    values: Floats, groups: NDArray[np.int64], *, n_bootstrap: int = 1000, rng: int | np.random.Generator = 0
) -> Spread:
    """Median, quartiles and a bootstrap interval over groups; NaN where there is no value.

    Examples
    --------
    >>> result = spread(np.arange(9.0), np.repeat([0, 1, 2], 3))
    >>> result.median, result.lower_quartile, result.n_groups, result.low <= 4.0 <= result.high
    (4.0, 2.0, 3, True)
    """
    kept = np.isfinite(values)
    values, groups = np.asarray(values)[kept], np.asarray(groups)[kept]
    if not len(values):
        return Spread(*(float("nan"),) * 5, 0, 0)
    generator = np.random.default_rng(rng)
    names, member = np.unique(groups, return_inverse=True)
    drawn_from = np.arange(len(values)) if len(names) == 1 else member
    n = int(drawn_from.max()) + 1
    times = generator.multinomial(n, np.full(n, 1.0 / n), size=n_bootstrap)  # how often each is drawn
    medians = _medians(values, times[:, drawn_from])
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
    low, high = np.quantile(medians, [0.025, 0.975])
    return Spread(float(middle), float(lower), float(upper), float(low), float(high), len(values), len(names))
