r"""How hard one head is on one sequence: margins, distances to hardmax, distances to walls, sinks.

For a query q with scaled scores :math:`s_l = \sigma\, q \cdot k_l + B_l` over the keys it may read, winner j:

* margin :math:`\Delta = s_j - \max_{l \not\sim j} s_l`, in units of temperature because scores are scaled;
* distance to hardmax in total variation, :math:`1 - \sum_{l \sim j} p_l`, and what the margin guarantees for
  it (P1 Theorem VI.1, corrected): with m winners among n keys at most :math:`r/(1+r)`,
  :math:`r = \frac{n-m}{m} e^{-\Delta}`;
* distance to the nearest wall of its cell, :math:`\min_l (s_j - s_l) / (\sigma \lvert k_j - k_l\rvert)`. The
  cell is the intersection of these half-spaces, so the nearest of their hyperplanes is the distance to its
  boundary, redundant half-spaces included.

Where scores pass through a softcap, margins and probabilities are those of what enters the softmax, and
winners and distances to walls those of the scores before it, which are affine in the query and have the same
order. Where a layer adds relative keys, every query is measured against the keys that it meets.

:math:`l \sim j` are the winner and its copies: keys with the same score for every query, as repeated tokens
without positions have. They win together, one cell, and hardmax is the mean over them, the limit of softmax
at temperature zero. A query exactly on a wall counts for the lowest index. Queries that have no choice,
because all keys they may read are copies of one, say nothing about a head and are left out of its statistics.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, NotFiniteError, written
from hardmax.models.reading.sources import CapturedLayer

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NUMBERS = 2**19  # scores in one part
_DIFFERENCES = 2**21  # coordinates of differences of keys in one part
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class QueryMeasures:
    """What one head does with each query; one entry per query."""

    winner: Integers  # the winning key, the lowest index among copies; -1 where nothing may be read
    choice: NDArray[np.bool_]  # are there two different keys to choose from? All below is NaN where not
    n_keys: Integers  # keys that the query may read
    margin: Floats  # the lead of the winner over the best other key, in units of temperature
    top_probability: Floats  # of the winner itself
    total_variation: Floats  # measured distance to hardmax
    total_variation_bound: Floats  # what margin and number of keys guarantee for it
    entropy: Floats  # of its probabilities, in bits
    output_distance: Floats  # between the outputs of softmax and of hardmax, over the norm of the former
    wall_distance: Floats  # of the query to the boundary of its cell; infinite where no wall exists
    wall_rounding: Floats  # how far rounding may have moved that distance, proven
    norm: Floats  # of the query
    key_mass: Floats  # (N,): for each key the sum of its probabilities over the queries with a choice


def measure_queries(layer: CapturedLayer, head: int) -> QueryMeasures:
    """Measure every query of one head.

    Parameters
    ----------
    layer : CapturedLayer
    head : int
        Counted from 0.

    Returns
    -------
    QueryMeasures
        In double precision of the captured numbers.

    Examples
    --------
    Two keys and their copy, three queries; the last may read the first key only.

    >>> keys = np.array([[[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]])
    >>> queries = np.array([[[3.0, 0.0], [-0.5, 2.0], [0.0, 1.0]]])
    >>> may = np.array([[True, True, True], [True, True, True], [True, False, False]])
    >>> layer = CapturedLayer(0, np.zeros((3, 2)), queries, keys, keys, may, 1.0)
    >>> found = measure_queries(layer, 0)
    >>> found.winner, found.choice
    (array([0, 1, 0]), array([ True,  True, False]))
    >>> found.margin, found.wall_distance
    (array([ 6.,  1., nan]), array([3. , 0.5, nan]))
    """
    scale = float(layer.scale)
    if not 0.0 < scale < np.inf:
        raise InvalidInputError(f"scale must be a finite number above 0, but was {scale}.")
    if layer.relative is not None:
        own = layer.one_head(head)
        return _together([measure_queries(own.met_by(t), 0) for t in range(layer.n_queries)])
    queries = np.asarray(layer.queries[head], dtype=np.float64)
    keys, copy_of = np.unique(layer.keys_of(head), axis=0, return_inverse=True)
    if not (np.isfinite(queries).all() and np.isfinite(keys).all()):
        raise NotFiniteError(
            f"queries and keys must be finite, but layer {layer.index}, head {head}, holds NaN or infinities."
        )
    values = np.asarray(layer.values[layer.group(head)], dtype=np.float64)
    weights = None if layer.output_weights is None else np.asarray(layer.output_weights[head], np.float64).T
    present, bias = layer.readable(head)
    step = max(1, _NUMBERS // max(1, layer.n_keys))
    parts = []
    for start in range(0, layer.n_queries, step):
        rows = slice(start, start + step)
        some = None if bias is None else bias[rows]
        part = _Part(queries[rows], keys, copy_of.ravel(), present[rows], some, scale)
        parts.append(QueryMeasures(**part.measured(values, weights, layer.capped)))
    return _together(parts)


def _together(parts: Sequence[QueryMeasures]) -> QueryMeasures:
    """The measures of one query after the other, as those of all."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in QueryMeasures.__dataclass_fields__
        if name != "key_mass"
    }
    return QueryMeasures(**columns, key_mass=np.sum([part.key_mass for part in parts], axis=0))


class _Part:
    """Some queries of one head."""

    def __init__(
        self,
        queries: Floats,
        keys: Floats,
        copy_of: Integers,
        present: NDArray[np.bool_],
        bias: Floats | None,
        scale: float,
    ) -> None:
        self.keys, self.copy_of, self.present, self.scale = keys, copy_of, present, scale
        self.norm = np.linalg.norm(queries, axis=1)
        # different keys are multiplied once, so that copies have the same score to the last bit
        self.scores = (queries @ keys.T * scale)[:, copy_of]
        if bias is not None:
            self.scores += bias
        self.scores[~present] = -np.inf
        self.reads = present.any(axis=1)
        self.each = np.arange(len(queries))
        self.winner = self.scores.argmax(axis=1)
        self.top = np.where(self.reads, self.scores[self.each, self.winner], 0.0)
        self.same = (copy_of == copy_of[self.winner][:, None]) & present
        if bias is not None:
            self.same &= bias == bias[self.each, self.winner][:, None]
        self.rival = present & ~self.same
        self.choice = self.rival.any(axis=1)

    def measured(
        self, values: Floats, output_weights: Floats | None, capped: Callable[[Floats], Floats]
    ) -> dict[str, NDArray[Any]]:
        n, m = self.present.sum(axis=1), self.same.sum(axis=1)
        with np.errstate(under="ignore", invalid="ignore", divide="ignore"):
            walls, rounding = self._walls(self.top[:, None] - self.scores)
            lead = capped(self.top.copy())[:, None] - capped(self.scores.copy())
            lead[~self.present] = np.inf
            margin = np.where(self.rival, lead, np.inf).min(axis=1, initial=np.inf)
            weights = np.exp(-lead)  # zero where a key is masked
            total = weights.sum(axis=1)
            odds = (n - m) / m * np.exp(-margin)
            # log2 of 1/p is (lead + log total) / log 2; a masked key has weight 0 and an infinite lead
            spread_out = np.where(weights > 0.0, weights * lead, 0.0).sum(axis=1) / total
            entropy = (spread_out + np.log(total)) / np.log(2.0)
            weights /= np.where(self.reads, total, 1.0)[:, None]
            soft = weights @ values
            hard = values[self.winner]
            if (m > 1).any():
                hard = self.same / np.maximum(m, 1)[:, None] @ values
            apart, size = soft - hard, soft
            if output_weights is not None:
                apart, size = apart @ output_weights, size @ output_weights
            moved, length = np.linalg.norm(apart, axis=1), np.linalg.norm(size, axis=1)
            measured = {
                "margin": margin,
                "top_probability": 1.0 / total,
                "total_variation": np.where(self.rival, weights, 0.0).sum(axis=1),
                "total_variation_bound": odds / (1.0 + odds),
                "entropy": entropy,
                "output_distance": np.where(moved > 0.0, moved / length, 0.0),
                "wall_distance": walls,
                "wall_rounding": rounding,
            }
        return {
            **{name: np.where(self.choice, column, np.nan) for name, column in measured.items()},
            "winner": np.where(self.reads, self.winner, -1),
            "choice": self.choice,
            "n_keys": n,
            "norm": self.norm,
            "key_mass": weights[self.choice].sum(axis=0),
        }

    def _walls(self, lead: Floats) -> tuple[Floats, Floats]:
        """Distances to the nearest wall, and a bound on what rounding did to them.

        A score is wrong by at most (d + 2) units of |q||k| and a few of its own size, a distance of keys by
        a relative d / 2 + 2; both are taken twice as large.
        """
        d = self.keys.shape[1]
        asked, row = np.unique(self.copy_of[self.winner], return_inverse=True)
        far = key_distances(self.keys, asked)[row.ravel()][:, self.copy_of]
        wall = self.rival & (far > 0.0)  # equal keys with different biases never meet
        length = np.sqrt(np.einsum("ij,ij->i", self.keys, self.keys))[self.copy_of]
        distance = np.where(wall, lead / (self.scale * far), np.inf)
        size = self.norm[:, None] * (length[self.winner][:, None] + length)
        height = np.abs(self.top)[:, None] + np.abs(np.where(self.present, self.scores, 0.0))
        wrong = (2 * (d + 2) * _UNIT * size + 4 * _UNIT * height / self.scale) / far
        wrong = np.where(wall, wrong + (d + 4) * _UNIT * np.abs(distance), 0.0)
        nearest = distance.min(axis=1, initial=np.inf)
        low = np.where(wall, distance - wrong, np.inf).min(axis=1, initial=np.inf)
        high = np.where(wall, distance + wrong, np.inf).min(axis=1, initial=np.inf)
        moved = np.maximum(nearest - low, high - nearest)
        return nearest, np.where(np.isfinite(nearest), moved, 0.0)


def key_distances(keys: Floats, rows: Integers) -> Floats:
    """Distances of some keys to all keys, one row for each of ``rows``.

    >>> key_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0]))
    array([[0., 5.]])
    """
    between = np.empty((len(rows), len(keys)))
    step = max(1, _DIFFERENCES // keys.size)
    for start in range(0, len(rows), step):
        some = keys[rows[start : start + step], None] - keys[None]
        between[start : start + step] = np.sqrt(np.einsum("ijk,ijk->ij", some, some))
    return between


@dataclass(frozen=True, eq=False)
class Usage:
    """Which keys win on a sequence, and whether one wins far more than its share (:func:`key_usage`)."""

    wins: Integers  # (N,): queries with a choice that each key wins
    entropy: float  # of the distribution of wins, in bits
    relative_entropy: float  # over the largest possible, log2 of the smaller of queries and keys
    sinks: tuple[int, ...]  # the greatest first
    sink_share: float  # the share of the queries that may read it which the first sink wins; 0 without one
    sink_mass: float  # its mean probability over the same queries; 0 without one


def key_usage(found: QueryMeasures, present: NDArray[np.bool_], *, factor: float = 4.0) -> Usage:
    r"""Which keys win, and which of them are sinks.

    The even share of key l is :math:`e_l = \sum_t [l \text{ readable by } t] / n_t` over the queries t with a
    choice among :math:`n_t` keys: what it would win if all keys won equally often. A sink wins at least
    ``factor`` times that, at least a quarter of the queries that may read it, and at least two of them.

    Examples
    --------
    Five queries and ten keys on a line; the key that reaches farthest wins them all.

    >>> keys = np.arange(10.0)[None, :, None]
    >>> queries = np.ones((1, 5, 1))
    >>> layer = CapturedLayer(0, queries[0], queries, keys, keys, np.ones((5, 10), dtype=bool), 1.0)
    >>> used = key_usage(measure_queries(layer, 0), layer.present)
    >>> used.sinks, used.sink_share, round(used.sink_mass, 3), used.entropy
    ((9,), 1.0, 0.632, 0.0)
    """
    if not 1.0 <= factor <= sys.float_info.max:
        raise InvalidInputError(f"sink_factor must be at least 1 and finite, but was {written(factor)}.")
    n_keys, choice = present.shape[1], found.choice
    wins = np.bincount(found.winner[choice], minlength=n_keys)
    total = int(wins.sum())
    if total == 0:
        return Usage(wins, 0.0, 0.0, (), 0.0, 0.0)
    some = present[choice]
    even = (some / some.sum(axis=1)[:, None]).sum(axis=0)
    readers = some.sum(axis=0)
    shares = np.divide(wins, readers, out=np.zeros(n_keys), where=readers > 0)
    greedy = np.flatnonzero((wins >= factor * even) & (shares >= 0.25) & (wins >= 2))
    order = greedy[np.lexsort((greedy, -wins[greedy]))]
    p = wins[wins > 0] / total
    entropy = float(max(0.0, -(p * np.log2(p)).sum()))
    largest = float(np.log2(min(total, int(present.any(axis=0).sum()))))
    relative = entropy / largest if largest > 0.0 else 0.0
    if not len(order):
        return Usage(wins, entropy, relative, (), 0.0, 0.0)
    first = order[0]
    mass = float(found.key_mass[first] / readers[first])
    return Usage(wins, entropy, relative, tuple(order.tolist()), float(shares[first]), mass)
