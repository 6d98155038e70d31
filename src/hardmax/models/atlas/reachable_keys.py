r"""Which keys of a head can ever win, how clearly, and with which probability.

A key can win when its cell in the space of queries, :math:`\mathbb{R}^{d_{head}}`, has interior; every answer
of :mod:`hardmax.geometry` to that carries its proof. The diagram is that of the keys which one query may
read. Without a mask and without biases all queries share it. With a causal or sliding mask, or with biases,
it belongs to a position. Rotary encodings turn queries and keys, which are captured after the turn: in the
turned space the diagram of the keys is the same for all positions, because a rotation is an isometry, and
only its pull-back to inputs depends on the position. With relative keys every position has a diagram of its
own. A softcap changes no winner, so cells are those of the scores before it; the margins and probabilities
below are about scores without one.

*How clearly.* At queries of norm at most R the largest margin of key j, in units of temperature, is
:math:`\sigma R` times its distance from the hull of the others
(:mod:`hardmax.geometry.diagrams.max_margins`); no query of that norm has a larger one. With biases the margin
is not homogeneous: keys are lifted to :math:`(k_j, B_j / \sigma R)`, whose reach times :math:`\sqrt 2\,
\sigma R` bounds it from above.

*With which probability.* A margin m over n - 1 others gives the winner at least
:math:`1/(1 + (n-1)e^{-m})`, where all others are level, and at most :math:`1/(1 + e^{-m})`, where one rival
counts and the rest are far below. The largest probability over the ball is a concave program, :math:`\log
p_j(q) = -\log \sum_l e^{s_l(q) - s_j(q)}`, and convex duality brackets it: any query of the ball bounds it
from below, any weights :math:`\lambda` over the other keys bound it from above,

.. math:: \min_{|q| \le R} \log \sum_{l \ne j} e^{s_l - s_j} \ \ge\ H(\lambda)
          - \sigma R\, \bigl\lvert k_j - \textstyle\sum_l \lambda_l k_l \bigr\rvert
          - B_j + \textstyle\sum_l \lambda_l B_l .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.diagrams.power_diagrams import PowerDiagram, attention_diagram
from hardmax.models.reading.sources import CapturedLayer

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_STEPS = 40
_CLOSE = 1e-3  # a bracket of the largest probability this narrow is not refined


@dataclass(frozen=True, eq=False)
class ReadKeys:
    """The different keys that one query of a head may read."""

    position: int | None  # the query; None where every query has these keys and biases
    present: NDArray[np.bool_]  # (N,)
    keys: Floats  # (n, d_head), each once
    biases: Floats | None  # (n,), added to scaled scores; None where all are equal
    copy_of: Integers  # for each key that is present, its row in ``keys``
    capped: bool = False  # do scores pass through a softcap?

    def diagram(self) -> PowerDiagram:
        """The power diagram in the space of scaled queries, whose cells are those of queries, scaled."""
        return attention_diagram(self.keys, self.biases)


def read_keys(layer: CapturedLayer, head: int, position: int | None = None) -> ReadKeys:
    """The keys that the query at ``position`` (by default the last that reads anything) may read."""
    row = layer.reading_position(position)
    present, bias = layer.readable(head)
    shared = bool((present == present[row]).all()) and (bias is None or bool((bias == bias[row]).all()))
    shared = shared and layer.relative is None
    seen, capped = present[row], layer.softcap is not None
    keys = layer.keys_of(head, row)[seen]
    if bias is None or not np.ptp(bias[row][seen]):
        different, copy_of = np.unique(keys, axis=0, return_inverse=True)
        return ReadKeys(None if shared else row, seen, different, None, copy_of.ravel(), capped)
    rows, copy_of = np.unique(np.column_stack([keys, bias[row][seen]]), axis=0, return_inverse=True)
    return ReadKeys(None if shared else row, seen, rows[:, :-1], rows[:, -1], copy_of.ravel())


@dataclass(frozen=True, eq=False)
class KeysThatCanWin:
    """Which keys have a cell, and how far they could get at the query norms that occur.

    Margins are in units of temperature; a margin or probability of a key is the largest that any query of
    the largest norm gives it: attained by one, and a bound that is proven not to be exceeded. Where scores
    pass through a softcap they are not known, and NaN.
    """

    position: int | None  # the query whose keys these are; None where all queries have the same
    can_win: NDArray[np.bool_]  # (N,): the cell has interior, certified; false for keys that are not read
    n_present: int  # keys that the query may read
    query_norm: float  # the largest norm of the head's queries
    median_norm: float
    margin: float  # NaN where there is no choice, as all below
    margin_bound: float  # differs from the margin by rounding without biases
    margin_at_median: float  # the attained one for the median norm; NaN with biases
    probability: float
    probability_bound: float

    @property
    def n_can_win(self) -> int:
        """How many keys can win."""
        return int(self.can_win.sum())


def keys_that_can_win(
    read: ReadKeys, scale: float, norms: Floats, diagram: PowerDiagram | None = None
) -> KeysThatCanWin:
    """Certified cells and reach of the keys that a query may read.

    Parameters
    ----------
    read : ReadKeys
    scale : float
        Of the layer.
    norms : array
        Norms of the queries that occur.
    diagram : PowerDiagram, optional
        ``read.diagram()``, where it is known already: heads that share keys share it.

    Examples
    --------
    Four keys at the corners of a square and their mean, which never wins.

    >>> keys = np.array([[[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]]])
    >>> queries = np.full((1, 2, 2), 3.0)
    >>> layer = CapturedLayer(0, queries[0], queries, keys, keys, np.ones((2, 5), dtype=bool), 0.5)
    >>> found = keys_that_can_win(read_keys(layer, 0), 0.5, np.array([2.0]))
    >>> found.can_win, round(found.margin, 6)      # the mean of the square is sqrt(2) from its corner
    (array([ True,  True,  True,  True, False]), 1.414214)
    """
    position, present = read.position, read.present
    n, n_present = len(read.keys), int(present.sum())
    largest, median = (float(norms.max()), float(np.median(norms))) if norms.size else (np.nan, np.nan)
    can_win = np.zeros(len(present), dtype=np.bool_)
    if n == 0:
        return KeysThatCanWin(position, can_win, 0, largest, median, *[np.nan] * 5)
    cells = read.diagram() if diagram is None else diagram
    can_win[present] = cells.nonempty[read.copy_of]
    if n == 1 or not norms.size or read.capped:
        return KeysThatCanWin(position, can_win, n_present, largest, median, *[np.nan] * 5)
    margins, bounds, directions = _largest_margins(read, cells, scale, largest)
    margin, share = float(margins.max()), median / largest if largest > 0.0 else 0.0
    copies = np.bincount(read.copy_of, minlength=n)
    probability, probability_bound = largest_probability(
        read.keys * scale, read.biases, largest, copies=copies, directions=directions
    )
    return KeysThatCanWin(
        position=position,
        can_win=can_win,
        n_present=n_present,
        query_norm=largest,
        median_norm=median,
        margin=margin,
        margin_bound=float(bounds.max()),
        margin_at_median=share * margin if read.biases is None else np.nan,
        probability=probability,
        probability_bound=probability_bound,
    )


def _largest_margins(
    read: ReadKeys, cells: PowerDiagram, scale: float, radius: float
) -> tuple[Floats, Floats, Floats]:
    """For each key a margin that a query of the ball attains (0 where none does), one that none exceeds, and
    the direction of such a query."""
    if read.biases is None:
        reach = cells.max_margin()
        size = scale * radius
        return reach.lower * size, reach.upper * size, np.nan_to_num(reach.queries)
    lift = max(scale * radius, 1e-300)
    lifted = attention_diagram(np.column_stack([read.keys, read.biases / lift])).max_margin()
    directions = np.nan_to_num(lifted.queries[:, :-1])
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    directions = np.divide(directions, length, out=np.zeros_like(directions), where=length > 0.0)
    table = (directions * lift) @ read.keys.T + read.biases
    own = np.diagonal(table).copy()
    np.fill_diagonal(table, -np.inf)
    attained = np.where(cells.nonempty, np.maximum(own - table.max(axis=1), 0.0), 0.0)
    bound = np.where(cells.nonempty, np.sqrt(2.0) * lift * lifted.upper * (1.0 + 1e-12), 0.0)
    return attained, np.maximum(attained, bound), directions


def largest_probability(
    keys: Floats,
    biases: Floats | None,
    radius: float,
    *,
    copies: Integers | None = None,
    directions: Floats | None = None,
) -> tuple[float, float]:
    r"""A bracket of :math:`\max_j \max_{|q| \le R} \operatorname{softmax}(k \cdot q + b)_j`.

    Parameters
    ----------
    keys : array (n, d)
        Different keys, already scaled.
    biases : array (n,) or None
    radius : float
        R.
    copies : array of int (n,), optional
        How often each key occurs; each copy has the probability of one key.
    directions : array (n, d), optional
        Where to begin, one unit vector (or zero) per key.

    Returns
    -------
    attained, bound : float
        A probability that some query of the ball gives, and one that none exceeds, in float64.

    Examples
    --------
    Two keys: the best query looks along their difference.

    >>> low, high = largest_probability(np.array([[1.0, 0.0], [-1.0, 0.0]]), None, 1.5)
    >>> round(low, 9), round(high, 9), round(1 / (1 + float(np.exp(-3.0))), 9)
    (0.952574127, 0.952574127, 0.952574127)
    """
    n = len(keys)
    shift = np.zeros(n) if biases is None else np.asarray(biases, dtype=np.float64)
    count = np.ones(n) if copies is None else np.asarray(copies, dtype=np.float64)
    if n == 1:
        return float(1.0 / count[0]), float(1.0 / count[0])
    q = np.zeros_like(keys) if directions is None else directions * radius
    rows = np.arange(n)
    step = np.ones(n)
    best_odds, bounds = np.full(n, np.inf), np.full(n, -np.inf)  # logarithms of the odds against each key
    best_q, best_toward = q.copy(), q.copy()
    for _ in range(_STEPS):
        odds, toward, gap = _ascent(keys, shift, count, radius, rows, q[rows])
        bounds[rows] = np.maximum(bounds[rows], odds - gap)
        better = odds < best_odds[rows]
        won, lost = rows[better], rows[~better]
        best_odds[won], best_q[won], best_toward[won] = odds[better], q[won], toward[better]
        step[lost] /= 4.0
        attained = float((1.0 / (count + np.exp(best_odds))).max())
        limit = 1.0 / (count + np.exp(bounds))
        rows = np.flatnonzero(limit > attained + _CLOSE)
        if not len(rows):
            break
        q[rows] = best_q[rows] + step[rows, None] * (best_toward[rows] - best_q[rows])
    return attained, min(1.0, float(limit.max()) * (1.0 + 1e-12))


def _ascent(
    keys: Floats, shift: Floats, count: Floats, radius: float, rows: Integers, q: Floats
) -> tuple[Floats, Floats, Floats]:
    """Log-odds against the keys ``rows`` at their queries, where to go from there, and the duality gap."""
    each = np.arange(len(rows))
    table = q @ keys.T + shift
    own = table[each, rows]
    table += np.log(count)
    table[each, rows] = -np.inf
    top = table.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        weights = np.exp(table - top)
    total = weights.sum(axis=1)
    away = keys[rows] - (weights @ keys) / total[:, None]
    length = np.linalg.norm(away, axis=1)
    toward = radius * np.divide(away, length[:, None], out=np.zeros_like(away), where=length[:, None] > 0.0)
    odds = top[:, 0] + np.log(total) - own
    gap = np.maximum(radius * length - np.einsum("ij,ij->i", q, away), 0.0)
    return odds, toward, gap
