r"""How the weights of a head follow from its scores: hardmax, top-k, sparsemax, ReLU.

For the scores :math:`s` of a head, all weights are piecewise affine functions of them:

- *hardmax*: weight 1 for the largest score, the limit of softmax at temperature zero;
- *top-k*: weight :math:`1/k` for each of the k largest; with k = 1 this is hardmax;
- *sparsemax* at temperature :math:`\tau`: the point of the simplex nearest to :math:`s / \tau`, which is
  :math:`\max(s_j - t, 0) / \tau` with the threshold :math:`t` at which the weights add up to one;
- *ReLU*: :math:`\max(s_j, 0) / \tau`; they need not add up to anything.

The threshold of sparsemax is a maximum over sets of keys,

.. math:: t = \max_{S \ne \emptyset} \frac{1}{|S|} \Big( \sum_{j \in S} s_j - \tau \Big) ,

attained by the support: a key above the mean of a set raises it by joining, one below by leaving. So the
supports that occur are the cells of an arrangement of scores, one for each set, as the sets of top-k are the
cells of the sums :math:`\sum_{j \in S} s_j`. Members of a support lie within :math:`\tau` of the largest
score. So as :math:`\tau \to 0` cells of single keys become those of hardmax, and supports of several keys
become thin neighbourhoods of its faces, one for each.

Ties: with hardmax and top-k, keys that tie for the last place share it (``"mean"``), or the lowest index
takes it (``"leftmost"``), or the highest (``"rightmost"``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, written
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact, nearest_float, rational

Floats = NDArray[np.float64]
Row = tuple[flint.fmpq, ...]  # a score: slopes and a constant, or a single value

_TINY = 5e-324  # temperatures below are this one in floats
RULES = ("hardmax", "top-k", "sparsemax", "relu", "softmax")
TIES = ("mean", "leftmost", "rightmost")


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule with what belongs to it, for the heads of one block.

    Attributes
    ----------
    name, ties : str
    k : int or None
        How many keys win; ``None`` for other rules than top-k.
    temperature : ExactArray or None
        As it was given.
    temperatures : list of Fraction
        One per head; empty for rules without.
    """

    name: str
    ties: str
    k: int | None
    temperature: ExactArray | None
    temperatures: list[Fraction]

    def weights(self, scores: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """The weights for scores (..., H, N), minus infinity for absent keys, and which keys are chosen.

        >>> top_2 = rule_of("top-k", 2, None, "mean", np.ones((1, 3), dtype=bool))
        >>> weights, chosen = top_2.weights(np.array([[3.0, 1.0, 1.0]]))
        >>> weights, chosen.astype(int)
        (array([[0.5 , 0.25, 0.25]]), array([[1, 1, 0]]))
        """
        if self.name == "relu":
            positive = np.maximum(scores, 0.0)
            with np.errstate(over="ignore"):
                return positive / self._column, positive > 0.0
        if self.name == "sparsemax":
            return sparsemax(scores, self._column)
        return _largest(scores, self.k or 1, self.ties)

    @property
    def _column(self) -> Floats:
        return np.array([max(float(tau), _TINY) for tau in self.temperatures])[:, None]

    def __str__(self) -> str:
        words = f"top-{self.k}" if self.name == "top-k" else self.name
        if self.temperature is not None:
            values = sorted({float(tau) for tau in self.temperatures})
            words += f" at temperature {', '.join(f'{tau:g}' for tau in values)}"
        return words if self.ties == "mean" else f"{words}, {self.ties}"


def rule_of(name: Any, k: Any, temperature: Any, ties: Any, mask: NDArray[np.bool_]) -> Rule:
    """The rule of a block whose keys are present where ``mask`` says so, once its options make sense.

    >>> print(rule_of("top-k", 2, None, "leftmost", np.ones((1, 3), dtype=bool)))
    top-2, leftmost
    """
    if name not in RULES:
        raise InvalidInputError(f"rule must be one of {', '.join(RULES)}, but was {name!r}.")
    if ties not in TIES:
        raise InvalidInputError(f"ties must be one of {', '.join(TIES)}, but was {ties!r}.")
    if ties != "mean" and name in ("sparsemax", "relu", "softmax"):
        raise InvalidInputError(
            f"ties must be left out with rule {name!r}, whose weights are continuous, but was {ties!r}."
        )
    heads, present = len(mask), mask.sum(axis=1)
    places = _places(name, k, present)
    if temperature is None and name == "relu":
        return Rule(name, ties, places, None, [Fraction(int(n)) for n in present])
    if name in ("hardmax", "top-k"):
        if temperature is not None:
            raise InvalidInputError(
                f"temperature must be left out with rule {name!r}, but was {written(temperature)}; try "
                'rule="sparsemax".'
            )
        return Rule(name, ties, places, None, [])
    if temperature is None:
        raise InvalidInputError(f"temperature must be given with rule {name!r}; try temperature=1.")
    tau = _vector(temperature, 1 if name == "softmax" else heads)
    values = fractions_of(tau).tolist()
    if min(values) <= 0:
        raise InvalidInputError(
            f"temperature must be above 0 with rule {name!r}, but holds {nearest_float(min(values)):g}; "
            'temperature zero is rule="hardmax".'
        )
    return Rule(name, ties, places, tau, values * heads if len(values) == 1 else values)


def _places(name: str, k: Any, present: NDArray[np.int64]) -> int | None:
    if name != "top-k":
        if k is not None:
            raise InvalidInputError(f"k must be left out with rule {name!r}, but was {written(k)}.")
        return None
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InvalidInputError(
            f"k must be a whole number of at least 1 with rule 'top-k', but was {written(k)}."
        )
    if k > present.min():
        h = int(present.argmin())
        raise InvalidInputError(
            f"k must be at most the number of keys that are present, but is {written(k)} and head {h} has "
            f"{present[h]}; lower k or change the mask."
        )
    return int(k)


def _vector(temperature: Any, heads: int) -> ExactArray:
    if not isinstance(temperature, ExactArray) and np.ndim(temperature) == 0:
        temperature = [temperature]
    tau = as_exact(temperature, "temperature", ndim=1)
    if tau.shape[0] not in (1, heads):
        raise DimensionMismatchError(
            f"temperature must be one number{f' or one per head ({heads})' if heads > 1 else ''}, but holds "
            f"{tau.shape[0]}."
        )
    return tau


def _largest(scores: Floats, k: int, ties: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Weight 1/k for each of the k largest scores."""
    chosen = chosen_keys(scores, k, ties)
    if ties != "mean":
        return chosen / k, chosen
    last = np.partition(scores, -k, axis=-1)[..., -k, None]
    above, level = scores > last, scores == last
    left = k - np.count_nonzero(above, axis=-1, keepdims=True)
    shares = above + level * (left / np.maximum(np.count_nonzero(level, axis=-1, keepdims=True), 1))
    return shares / k, chosen


def chosen_keys(scores: Floats, k: int, ties: str) -> NDArray[np.bool_]:
    """Which keys are the k largest; among equal ones the lowest indices, or the highest for "rightmost".

    >>> chosen_keys(np.array([2.0, 2.0, 5.0]), 2, "rightmost")
    array([False,  True,  True])
    """
    turned = scores[..., ::-1] if ties == "rightmost" else scores
    last = np.partition(turned, -k, axis=-1)[..., -k, None]
    chosen, level = turned > last, turned == last
    left = k - np.count_nonzero(chosen, axis=-1, keepdims=True)
    several = np.count_nonzero(level, axis=-1, keepdims=True) > left
    if several.any():
        level &= ~several | (np.cumsum(level, axis=-1) <= left)
    chosen |= level
    return chosen[..., ::-1] if ties == "rightmost" else chosen


def sparsemax(scores: Floats, temperature: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """The point of the simplex nearest to scores over temperature; minus infinity for absent keys."""
    with np.errstate(over="ignore"):  # first the difference: the best key stays at zero
        z = (scores - scores.max(axis=-1, keepdims=True)) / temperature
    ordered = -np.sort(-z, axis=-1)
    with np.errstate(invalid="ignore"):
        sums = np.cumsum(ordered, axis=-1)
        counts = np.arange(1, z.shape[-1] + 1)
        inside = counts * ordered > sums - 1.0
    size = np.count_nonzero(inside, axis=-1)[..., None]
    threshold = (np.take_along_axis(sums, size - 1, axis=-1) - 1.0) / size
    weights = np.maximum(z - threshold, 0.0)
    return weights, weights > 0.0


def exact_weights(
    rule: Rule, head: int, rows: Mapping[int, Row], chosen: Sequence[int] | None
) -> dict[int, Row]:
    r"""The weights of the keys of a head as exact maps, from their scores as exact maps.

    ``chosen`` are the keys that have weight on the cell in question. ``None`` stands for a single point:
    scores are numbers then, and say themselves which keys are chosen.

    >>> rule = rule_of("sparsemax", None, 2, "mean", np.ones((1, 3), dtype=bool))
    >>> exact_weights(rule, 0, {j: (flint.fmpq(s),) for j, s in enumerate([3, 2, -5])}, None)
    {0: (3/4,), 1: (1/4,)}
    """
    if rule.name == "relu":
        keys = [j for j, row in rows.items() if row[0] > 0] if chosen is None else chosen
        return {j: _scaled(rows[j], 1 / rational(rule.temperatures[head])) for j in keys}
    if rule.name == "sparsemax":
        return _exact_sparsemax(rational(rule.temperatures[head]), rows, chosen)
    k = rule.k or 1
    if chosen is None:
        order = sorted(rows, reverse=rule.ties == "rightmost")
        chosen = sorted(order, key=lambda j: rows[j], reverse=True)[:k]
    members = set(chosen)
    shares: dict[int, flint.fmpq] = {}
    groups: dict[Row, list[int]] = {}
    for j, row in rows.items():
        groups.setdefault(row, []).append(j)
    for group in groups.values():
        won = [j for j in group if j in members]
        if not won:
            continue
        sharing = group if rule.ties == "mean" else won
        shares |= dict.fromkeys(sharing, flint.fmpq(len(won), len(sharing) * k))
    zeros = (flint.fmpq(0),) * (len(next(iter(rows.values()))) - 1)
    return {j: (*zeros, share) for j, share in sorted(shares.items())}


def _exact_sparsemax(
    tau: flint.fmpq, rows: Mapping[int, Row], chosen: Sequence[int] | None
) -> dict[int, Row]:
    if chosen is None:
        total = -tau
        keys: list[int] = []
        for j in sorted(rows, key=lambda j: rows[j], reverse=True):
            if keys and rows[j][0] * len(keys) <= total:
                break
            total += rows[j][0]
            keys.append(j)
        chosen = sorted(keys)
    total_row = [sum(column, flint.fmpq(0)) for column in zip(*(rows[j] for j in chosen), strict=True)]
    total_row[-1] -= tau
    mean = [value / len(chosen) for value in total_row]
    return {j: tuple((a - b) / tau for a, b in zip(rows[j], mean, strict=True)) for j in chosen}


def _scaled(row: Row, factor: flint.fmpq) -> Row:
    return tuple(value * factor for value in row)
