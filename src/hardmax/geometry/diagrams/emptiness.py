r"""Why a key never wins: a convex combination of other keys that is at least as good everywhere.

If :math:`\sum_i w_i a_i = a_j` and :math:`\sum_i w_i b_i \ge b_j` with positive weights that sum to 1, then
:math:`\sum_i w_i s_i(x) \ge s_j(x)` for every x. Where key j is a maximum, all keys of the support must tie
with it, and two different scores tie on a hyperplane at most: the cell of j has no interior. By Gordan's
theorem such a combination exists for every key without interior, and by Caratheodory's d + 1 keys suffice.
The weights are rational numbers, so that anyone can check them by adding fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.geometry.feasibility.rational_programs import convex_weights
from hardmax.geometry.scores import Scores

__all__ = ["EmptinessCertificate"]


@dataclass(frozen=True, eq=False)
class EmptinessCertificate:
    r"""A proof that the cell of one key has no interior.

    .. math:: \sum_i w_i a_i = a_j, \qquad \sum_i w_i b_i \ge b_j, \qquad w_i > 0, \quad \sum_i w_i = 1

    Attributes
    ----------
    key : int
        The key j that never wins on an open set.
    support : (m,) int64
        The keys i of the combination, at most d + 1, none of them tied with j everywhere.
    weights : tuple of Fraction
        The weights, exactly; computed when first asked for. That they exist and are positive was proven
        before.

    Examples
    --------
    >>> import hardmax as hm
    >>> certificate = hm.attention_diagram([[0, 0], [4, 0], [0, 4], [1, 1]]).empty_certificate(3)
    >>> certificate.support, certificate.weights
    (array([0, 1, 2]), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))
    >>> certificate.verify()
    True
    """

    key: int
    scores: Scores
    found: tuple[int, ...]

    @property
    def support(self) -> NDArray[np.int64]:
        """The keys of the combination."""
        return self._exact[0]

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The weight of each key of the support."""
        return self._exact[1]

    @cached_property
    def _exact(self) -> tuple[NDArray[np.int64], tuple[Fraction, ...]]:
        solved = _solve(self.scores, self.key, self.found)
        support = np.array(sorted(solved), dtype=np.int64)
        support.setflags(write=False)
        return support, tuple(Fraction(int(solved[i].p), int(solved[i].q)) for i in support.tolist())

    def verify(self) -> bool:
        """Check the combination with nothing but fractions and the numbers as given."""
        own = _fractions(self.scores, self.key)
        others = [_fractions(self.scores, i) for i in self.support.tolist()]
        weights = self.weights
        # whole multiples of one fraction, so that sums of long fractions need no cancelling
        common = math.lcm(*(w.denominator for w in weights))
        shares = [w.numerator * (common // w.denominator) for w in weights]
        mixed = [
            sum((n * v for n, v in zip(shares, column, strict=True)), Fraction(0))
            for column in zip(*others, strict=True)
        ]
        return (
            0 < len(weights) <= self.scores.d + 1
            and all(n > 0 for n in shares)
            and sum(shares) == common
            and all(other != own for other in others)
            and mixed[:-1] == [common * v for v in own[:-1]]
            and mixed[-1] >= common * own[-1]
        )

    def __repr__(self) -> str:
        return f"<EmptinessCertificate: key {self.key} lies below a combination of {len(self.found)} others>"


def _fractions(scores: Scores, j: int) -> list[Fraction]:
    return [Fraction(int(value.p), int(value.q)) for value in scores.exact_row(j)]


def _solve(scores: Scores, key: int, found: tuple[int, ...]) -> dict[int, flint.fmpq]:
    """Exact weights on at most d + 1 keys; the index ``n_keys`` in ``found`` says that the key lies below."""
    slack = scores.n_keys
    length = scores.d if scores.linear else scores.d + 1
    own = scores.exact_row(key)[:length]
    rows: list[list[flint.fmpq]] = []
    for i in found:
        if i == slack:
            rows.append([flint.fmpq(0)] * (length - 1) + [flint.fmpq(1)])
        else:
            rows.append([a - b for a, b in zip(own, scores.exact_row(i)[:length], strict=True)])
    weights = convex_weights(rows)
    if weights is None:
        raise CertificateError(
            f"the support {found} does not prove that key {key} is empty; please report this input."
        )
    solved = {i: w for i, w in zip(found, weights, strict=True) if i != slack}
    total = sum(solved.values(), flint.fmpq(0))
    solved = {i: w / total for i, w in solved.items()}
    return _raised(scores, solved) if len(solved) > scores.d + 1 else solved


def _raised(scores: Scores, weights: dict[int, flint.fmpq]) -> dict[int, flint.fmpq]:
    """From d + 2 keys around a lifted key to the d + 1 of the face above it.

    Lifted keys in general position have one affine dependence among their slopes. Moving the weights along it
    keeps the slope, raises the offset, and ends where the first weight vanishes.
    """
    keys = list(weights)
    exact = [scores.exact_row(i) for i in keys]
    columns = [[flint.fmpq(1), *row[:-1]] for row in exact]
    reduced, rank = flint.fmpq_mat([list(c) for c in zip(*columns, strict=True)]).rref()
    pivots, free, r = [], [], 0
    for c in range(len(keys)):
        if r < rank and reduced[r, c] != 0:
            pivots.append(c)
            r += 1
        else:
            free.append(c)
    direction = [flint.fmpq(0)] * len(keys)
    direction[free[0]] = flint.fmpq(1)
    for r, c in enumerate(pivots):
        direction[c] = -reduced[r, free[0]]
    if sum((s * row[-1] for s, row in zip(direction, exact, strict=True)), flint.fmpq(0)) < 0:
        direction = [-s for s in direction]
    step = min(weights[i] / -s for i, s in zip(keys, direction, strict=True) if s < 0)
    moved = {i: weights[i] + step * s for i, s in zip(keys, direction, strict=True)}
    return {i: w for i, w in moved.items() if w > 0}
