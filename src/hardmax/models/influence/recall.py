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

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError

__all__ = ["COLUMNS", "recall_columns"]

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
