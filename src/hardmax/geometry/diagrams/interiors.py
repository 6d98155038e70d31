r"""Which keys win on an open set, and whose cell is empty (P1 Theorem IV.3), with a proof for every key.

Key j has a cell with interior exactly when some x gives it a score above every key outside its tie group,
:math:`(a_j - a_l) \cdot x + (b_j - b_l) > 0`. With :math:`y = (x, 1)` and lifted keys :math:`p_l = (a_l,
b_l)` this says that :math:`p_j` is the strict maximum of a linear function with positive last entry (of any
linear function when there are no offsets). Three steps settle all keys:

1. Guesses that cost one matrix product for all keys: the whitened direction
   :math:`\Sigma^{-1}(p_j - \bar p)`, and for affine scores the key itself as a point. A guess counts when its
   margin exceeds a proven bound on the rounding.
2. Wolfe's algorithm against the winners found so far
   (:func:`~hardmax.geometry.feasibility.linear_programs.settle_keys_kernel`). It ends with a witness, or with
   a support in general position whose weights are proven positive in floats.
3. What rounding leaves open, in rationals (:mod:`hardmax.geometry.feasibility.rational_programs`).

Lifted keys are centred and their columns scaled by powers of two, so that the bounds follow the spread of the
keys and not their distance from the origin; neither changes a cell.

Why a key never wins (:class:`EmptinessCertificate`): a convex combination of other keys is at least as good
everywhere. If :math:`\sum_i w_i a_i = a_j` and :math:`\sum_i w_i b_i \ge b_j` with positive weights that sum
to 1, then :math:`\sum_i w_i s_i(x) \ge s_j(x)` for every x. Where key j is a maximum, all keys of the support
must tie with it, and two different scores tie on a hyperplane at most: the cell of j has no interior. By
Gordan's theorem such a combination exists for every key without interior, and by Caratheodory's d + 1 keys
suffice. The weights are rational numbers, so that anyone can check them by adding fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.exact.rationals import dot, fraction, nearest_float, pivots, power_of_two
from hardmax.geometry.cones.splitting import refine
from hardmax.geometry.diagrams.max_margins import proven_margins
from hardmax.geometry.feasibility import linear_programs as programs
from hardmax.geometry.feasibility.rational_programs import convex_weights, separate_exactly
from hardmax.geometry.scores import UNIT_ROUNDOFF, Scores

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TOLERANCE = 1e-12  # relative margin below which the compiled search hands over to proofs and rationals
_SMALL = 3000  # open keys times entries: such work is done in rationals before a kernel could be loaded
_BATCH = 1 << 24  # keys of a batch times all entries: tenths of a second
_GUESS_ALL = 8192  # above this many keys the quadratic table of guesses is not worth its time
_CUT_SECONDS = {1: 2e-5, 2: 4e-5, 3: 3.5e-4}  # rough time per key of cutting space into cells, by dimension
# rough time per open key of the search: fixed, and per key that it is held against
_SETTLE_SECONDS = (6e-5, 3e-8)


@dataclass(frozen=True, eq=False)
class Interiors:
    """Which keys win on an open set, and why.

    Attributes
    ----------
    nonempty : (N,) bool
        True for every member of a tie group that wins together.
    witnesses : (N, d) float64
        An interior point of each cell (for linear scores a direction whose largest entry has size 1), NaN
        without interior.
    exact_witnesses : dict
        Key -> rational point, for cells so thin that the float witness is not inside.
    support_start : (N + 1,) int64
    support_keys : int64 array
        ``support_keys[support_start[j] : support_start[j + 1]]`` are the keys (lowest of their tie group) of
        which a convex combination beats key j, where one was looked for. The index N says that key j lies
        below it.
    n_decided_exactly : int
        How many keys needed rational arithmetic.
    """

    nonempty: NDArray[np.bool_]
    witnesses: Floats
    exact_witnesses: dict[int, tuple[Fraction, ...]]
    support_start: Integers
    support_keys: Integers
    n_decided_exactly: int = 0

    def support(self, j: int) -> tuple[int, ...]:
        """The support found for key ``j``, empty if none was looked for."""
        return tuple(self.support_keys[self.support_start[j] : self.support_start[j + 1]].tolist())


class LiftedKeys:
    r"""Lifted keys :math:`(a_j, b_j)`, one per tie group, as well-scaled floats with error bounds, and
    exactly on demand.

    Attributes
    ----------
    index : (n,) int64
        The key of the user that each row stands for.
    points : (n, D) float64
        Centred and scaled rows; D = d for linear scores, d + 1 otherwise.
    error : (n,) float64
        Bound on the sum of the entries' errors, centring apart.
    noise : (n,) float64
        Bound on the error of a computed product with a vector of norm 1.
    """

    def __init__(self, scores: Scores, index: Integers) -> None:
        self.scores = scores
        self.index = index
        self.affine = not scores.linear
        self.columns = carrying_columns(scores)
        rows = scores.slopes[np.ix_(index, self.columns)]
        if self.affine:
            rows = np.column_stack([rows, scores.offsets[index]])
        with np.errstate(over="ignore", invalid="ignore"):
            centre = rows.mean(axis=0)
            overflows = ~np.isfinite(rows - centre).all(axis=0)  # then that column stays where it is
            centred = rows - np.where(overflows, 0.0, centre)
        largest = np.abs(centred).max(axis=0, initial=0.0)
        self.exponents = np.where(largest > 0.0, np.frexp(largest)[1] - 1, 0).astype(np.int64)
        D = len(self.exponents)
        with np.errstate(over="ignore", under="ignore"):  # an infinite error sends every key to the rationals
            self.points = np.ascontiguousarray(np.ldexp(centred, -self.exponents))
            lost = np.ldexp(scores.row_error[index], -int(self.exponents.min(initial=0)))
        self.error = np.abs(self.points).sum(axis=1) * (UNIT_ROUNDOFF * 1.01) + lost * 1.01 + 1e-300
        norms = np.sqrt(np.einsum("ij,ij->i", self.points, self.points))
        self.noise = (norms + 1e-150) * (UNIT_ROUNDOFF * 1.01 * (D + 8)) + self.error
        self._exact: dict[int, list[flint.fmpq]] = {}

    @property
    def n(self) -> int:
        """The number of different scores."""
        return len(self.points)

    @property
    def D(self) -> int:
        """The length of a lifted key."""
        return int(self.points.shape[1])

    @property
    def nearly_on_a_line(self) -> bool:
        """Whether one direction carries all keys up to rounding; two of them win, and the search sees it."""
        values = np.linalg.eigvalsh(self.points.T @ self.points)
        return len(values) < 2 or bool(values[-2] <= 1e-12 * values[-1])

    @cached_property
    def last(self) -> float:
        """The last entry of y that makes :math:`x_0 = 1` (of affine scores)."""
        return float(np.ldexp(1.0, self.exponents[-1])) if self.affine else 1.0

    def to_space(self, y: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Witnesses y (rows) as points x of the user, and whether nothing was lost on the way.

        For affine scores the last entry of y is :attr:`last`; for linear ones x is a direction with largest
        entry near 1. Both are powers of two away from y, so only overflow and underflow can lose something.
        """
        exponents = self.exponents[: len(self.columns)]
        y = y[:, : len(self.columns)]
        shift = -exponents + np.zeros((len(y), 1), dtype=np.int64)
        if not self.affine:
            top = np.where(y != 0.0, np.frexp(y)[1] + shift, -(10**6)).max(axis=1, keepdims=True)
            shift = shift - np.where(top > -(10**6), top, 0) + 1
        x = np.zeros((len(y), self.scores.d))
        with np.errstate(over="ignore", under="ignore"):
            x[:, self.columns] = np.ldexp(y, shift)
            kept = np.ldexp(x[:, self.columns], -shift) == y
        return x, np.asarray(kept.all(axis=1) & np.isfinite(x).all(axis=1))

    def exact(self, row: int) -> list[flint.fmpq]:
        """Row ``row`` in rationals, scaled as the floats are but not centred."""
        if row not in self._exact:
            exact = self.scores.exact_row(int(self.index[row]))
            values = [exact[c] for c in self.columns.tolist()] + ([exact[-1]] if self.affine else [])
            self._exact[row] = [
                v * power_of_two(-int(e)) for v, e in zip(values, self.exponents, strict=True)
            ]
        return self._exact[row]

    def exact_difference(self, row: int, other: int) -> list[flint.fmpq]:
        """:math:`p_{row} - p_{other}`, or the row (0, ..., 0, 1) for ``other = n``."""
        if other == self.n:
            return [flint.fmpq(0)] * (self.D - 1) + [flint.fmpq(1)]
        return [a - b for a, b in zip(self.exact(row), self.exact(other), strict=True)]

    def not_beaten(self, row: int, y: list[flint.fmpz], most: int) -> list[int]:
        """At most ``most`` rows that ``row`` does not strictly beat in direction y; none if it beats all."""
        bits = max(abs(v).bit_length() for v in y)
        floats = np.array([float(Fraction(int(v), 2**bits)) for v in y])
        products = self.points @ floats
        length = float(np.linalg.norm(floats)) * (1.0 + 1e-9)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is compared exactly
            slack = self.noise * (1.5 * length)  # half as much again for the rounding of y
            gap = (products[row] - slack[row]) - (products + slack)
        gap[row] = np.inf
        found: list[int] = []
        if self.affine and y[-1] <= 0:
            found.append(self.n)
        doubtful = np.flatnonzero(~(gap > 0.0))
        for other in doubtful[np.argsort(gap[doubtful], kind="stable")].tolist():
            difference = self.exact_difference(row, other)
            if dot(difference, y) <= 0:
                found.append(other)
                if len(found) >= most:
                    break
        return found


def decide_interiors(
    scores: Scores, *, method: str | None = None, look: Callable[[], object] | None = None
) -> Interiors:
    """Decide for every key whether its cell has interior.

    Parameters
    ----------
    scores : Scores
    method : {"search", "splitting"}, optional
        ``"splitting"`` cuts space into the cells (low dimension, many keys), ``"search"`` looks at one key
        after the other (any dimension). Both give the same answer; the faster one is taken by default.
    look : callable, optional
        Called between batches of keys; what it raises ends the search.

    Examples
    --------
    >>> square = Scores.of_keys([[1, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]])
    >>> decide_interiors(square).nonempty
    array([ True,  True,  True,  True, False])
    """
    group = scores.tie_group
    index = np.unique(group)
    if len(index) == 1:
        everything = np.zeros((scores.n_keys, scores.d))
        return Interiors(np.ones(scores.n_keys, dtype=np.bool_), everything, {}, *_no_supports(scores.n_keys))
    if method == "splitting":
        return _by_splitting(scores, look)
    search = _Search(LiftedKeys(scores, index), look)
    many = scores.linear and scores.d in (2, 3) and len(index) > 500
    if method is None and many and not search.lifted.nearly_on_a_line:
        return _by_splitting(scores, look)  # few cells, and only these are cut
    guesses = search.guess()
    still_open = int((search.verdict == programs.OPEN).sum())
    if method is None and still_open * search.lifted.points.size <= _SMALL:
        search.verdict[search.verdict == programs.OPEN] = programs.PARKED
    if method is None and not scores.linear and scores.d in _CUT_SECONDS and len(index) > 1000:
        settling = still_open * (_SETTLE_SECONDS[0] + _SETTLE_SECONDS[1] * len(index))
        if settling > len(index) * _CUT_SECONDS[scores.d]:
            return _by_splitting(scores, look)
    search.settle(guesses)
    search.settle_exactly()
    return search.answer()


def find_support(scores: Scores, key: int, nonempty: NDArray[np.bool_]) -> tuple[int, ...]:
    """The support for one key without interior, found among the keys that win."""
    group = scores.tie_group
    winners = np.flatnonzero(nonempty & (group == np.arange(scores.n_keys)))
    search = _Search(LiftedKeys(scores, np.concatenate([winners, [group[key]]])))
    search.rivals[: len(winners)] = np.arange(len(winners))
    search.n_rivals[0] = len(winners)
    search.verdict[:-1] = programs.WINS
    if search.lifted.points.size <= _SMALL:
        search.verdict[-1] = programs.PARKED
    search.settle(np.empty((0, search.lifted.D)))
    search.settle_exactly()
    if search.verdict[-1] != programs.EMPTY:
        raise CertificateError(
            f"key {key} was found without interior, but no certificate exists; please report this input."
        )
    return search.support(len(winners))


def _by_splitting(scores: Scores, look: Callable[[], object] | None) -> Interiors:
    cells = refine([scores], look=None if look is None else lambda *_: look())
    group = scores.tie_group
    winners = cells.choices[:, 0]
    own = np.zeros(scores.n_keys, dtype=np.bool_)
    own[winners] = True
    points = np.full((scores.n_keys, scores.d), np.nan)
    points[winners] = cells.witnesses
    exact = {
        j: point
        for cell, point in cells.exact_witnesses.items()
        for j in np.flatnonzero(group == winners[cell]).tolist()
    }
    return Interiors(own[group], points[group], exact, *_no_supports(scores.n_keys), cells.n_decided_exactly)


def _no_supports(n_keys: int) -> tuple[Integers, Integers]:
    return np.zeros(n_keys + 1, dtype=np.int64), np.empty(0, dtype=np.int64)


class _Search:
    """The state of the search: verdicts, witnesses and corrals, one per lifted key."""

    def __init__(self, lifted: LiftedKeys, look: Callable[[], object] | None = None) -> None:
        n, D = lifted.points.shape
        self.lifted, self.look = lifted, look
        self.verdict = np.zeros(n, dtype=np.int8)
        self.witnesses = np.zeros((n, D))
        self.corrals = np.zeros((n, D + 1), dtype=np.int64)
        self.corral_sizes = np.zeros(n, dtype=np.int64)
        self.weights = np.zeros((n, D + 1))
        self.rivals = np.zeros(n + 1, dtype=np.int64)
        self.n_rivals = np.zeros(1, dtype=np.int64)
        self.rounded_points: dict[int, list[float]] = {}  # witnesses that come from the rationals
        self.exact_points: dict[int, tuple[Fraction, ...]] = {}
        self.n_exact = 0

    def guess(self) -> Floats:
        """Try cheap witnesses for all keys at once; winners become rivals. Returns guesses for the rest."""
        points, n = self.lifted.points, self.lifted.n
        if self.lifted.affine and n <= 4 * _GUESS_ALL:
            slopes = self.lifted.scores.slopes[np.ix_(self.lifted.index, self.lifted.columns)]
            with np.errstate(over="ignore", under="ignore"):  # the key as a point, x = a_j
                own = np.ldexp(slopes, self.lifted.exponents[:-1])
            self._try(np.column_stack([own, np.full(n, self.lifted.last)]))
        if n > _GUESS_ALL or not (self.verdict == programs.OPEN).any():
            return np.empty((0, self.lifted.D))
        values, vectors = np.linalg.eigh(points.T @ points)
        damped = np.maximum(values, 1e-10 * max(values[-1], 1e-300))
        whitened = (points @ vectors) / damped @ vectors.T
        # scaled exactly as the witness is returned, so that the proof holds for the returned point
        if self.lifted.affine:
            last = np.full((n, 1), self.lifted.last)
            upward = np.where(whitened[:, -1:] > 0.0, whitened[:, -1:], np.inf)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                self._try(np.column_stack([whitened[:, :-1] * (last / upward), last]))
        else:
            self._try(whitened / np.maximum(np.abs(whitened).max(axis=1, keepdims=True), 1e-300))
        return np.ascontiguousarray(whitened)

    def _try(self, directions: Floats) -> None:
        """Directions, one per key, that provably make it win become witnesses."""
        tame = np.asarray((np.abs(directions) < 1e150).all(axis=1))
        directions = np.where(tame[:, None], directions, 0.0)  # no direction, and so no witness
        long = np.abs(directions).max(axis=1) > 1e-100
        margins = proven_margins(self.lifted.points, self.lifted.noise, np.arange(self.lifted.n), directions)
        won = np.flatnonzero((margins > 0.0) & long & (self.verdict == programs.OPEN))
        self.verdict[won] = programs.WINS
        self.witnesses[won] = directions[won]
        count = int(self.n_rivals[0])
        self.rivals[count : count + len(won)] = won
        self.n_rivals[0] += len(won)

    def settle(self, guesses: Floats) -> None:
        """Run the compiled search on the open keys, in batches between which Ctrl-C and limits are seen."""
        lifted = self.lifted
        pending = np.flatnonzero(self.verdict == programs.OPEN)
        step = max(1, min(256, _BATCH // lifted.points.size))
        for start in range(0, len(pending), step):
            if self.look is not None:
                self.look()
            programs.settle_keys_kernel(
                lifted.points, lifted.error, lifted.noise, lifted.affine, lifted.last,
                pending[start : start + step], guesses, self.rivals, self.n_rivals, _TOLERANCE,
                self.verdict, self.witnesses, self.corrals, self.corral_sizes, self.weights,
                programs.corral_workspace(lifted.D),
            )  # fmt: skip
        # a witness that overflows in the user's coordinates is rejected
        won = np.flatnonzero(self.verdict == programs.WINS)
        lost = won[~lifted.to_space(self.witnesses[won])[1]]
        self.verdict[lost] = programs.PARKED
        self.corral_sizes[lost] = 0

    def settle_exactly(self) -> None:
        """Decide the parked keys in rationals."""
        lifted = self.lifted
        for key in np.flatnonzero(self.verdict == programs.PARKED).tolist():
            if self.look is not None:
                self.look()
            self.n_exact += 1
            start = self.corrals[key, : self.corral_sizes[key]].tolist()
            if not start:
                away = np.linalg.norm(lifted.points - lifted.points[key], axis=1)
                away[key] = np.inf
                start = [int(np.argmin(away))]
            answer = separate_exactly(
                lambda other, key=key: lifted.exact_difference(key, other),  # type: ignore[misc]
                start,
                lambda y, key=key: lifted.not_beaten(key, y, lifted.D + 1),  # type: ignore[misc]
            )
            if answer.witness is None:
                self.verdict[key] = programs.EMPTY
                self.corral_sizes[key] = len(answer.support)
                self.corrals[key, : len(answer.support)] = answer.support
            else:
                self.verdict[key] = programs.WINS
                self._keep_exact_witness(key, [v.p for v in answer.witness])

    def _keep_exact_witness(self, key: int, y: list[flint.fmpz]) -> None:
        """Round a rational witness, and keep it as well where rounding leaves the cell."""
        lifted = self.lifted
        scaled = [Fraction(int(v)) * Fraction(2) ** -int(e) for v, e in zip(y, lifted.exponents, strict=True)]
        size = scaled.pop() if lifted.affine else max(abs(v) for v in scaled)
        point = [v / size for v in scaled]
        self.rounded_points[key] = floats = [nearest_float(v) for v in point]
        if all(np.isfinite(floats)) and (lifted.affine or any(floats)):
            # the float point in scaled coordinates, as integers
            exact = [
                Fraction(v) * Fraction(2) ** int(e) for v, e in zip(floats, lifted.exponents, strict=False)
            ]
            exact += [Fraction(lifted.last)] * lifted.affine
            common = math.lcm(*(value.denominator for value in exact))
            if not lifted.not_beaten(key, [flint.fmpz(int(v * common)) for v in exact], 1):
                return
        self.exact_points[key] = tuple(self._with_zeros(point, Fraction(0)))

    def _with_zeros(self, values: list[Any], zero: Any) -> list[Any]:
        """Coordinates that carry the diagram, and zero for the others."""
        out = [zero] * self.lifted.scores.d
        for c, value in zip(self.lifted.columns.tolist(), values, strict=True):
            out[c] = value
        return out

    def support(self, key: int) -> tuple[int, ...]:
        """The support of an empty key, as keys of the user; the index N says that the key lies below."""
        index = np.append(self.lifted.index, self.lifted.scores.n_keys)
        return tuple(int(index[i]) for i in self.corrals[key, : self.corral_sizes[key]])

    def answer(self) -> Interiors:
        lifted, scores = self.lifted, self.lifted.scores
        position = np.searchsorted(lifted.index, scores.tie_group)
        points = np.full((lifted.n, scores.d), np.nan)
        won = self.verdict == programs.WINS
        points[won] = lifted.to_space(self.witnesses[won])[0]
        for key, floats in self.rounded_points.items():
            points[key] = self._with_zeros(floats, 0.0)
        exact = {
            j: point
            for key, point in self.exact_points.items()
            for j in np.flatnonzero(position == key).tolist()
        }
        sizes = np.where(won, 0, self.corral_sizes)[position]
        index = np.append(lifted.index, scores.n_keys)
        members = index[self.corrals[position]]
        listed = members[np.arange(lifted.D + 1) < sizes[:, None]]
        start = np.concatenate([[0], np.cumsum(sizes)])
        return Interiors(won[position], points[position], exact, start, listed, self.n_exact)


def carrying_columns(scores: Scores) -> Integers:
    r"""Coordinates of x that carry all scores; the others may be set to zero without losing a cell.

    Through a query map, x acts by :math:`W_Q x` alone. Columns of :math:`W_Q` that span the others do the
    same, and there are at most d_head of them, however large d is. Their independence is proven in floats
    when they are as many as rows, and decided in rationals when :math:`W_Q` has lower rank.
    """
    every = np.arange(scores.d)
    if "w_q" not in scores.source:
        return every
    from scipy.linalg import qr

    w = scores.source["w_q"]
    rows = w.shape[0]
    _, triangle, order = qr(w.floats, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = int((sizes > 1e-10 * max(sizes.max(initial=0.0), 1e-300)).sum())
    if rank == scores.d:
        return every
    if rank == rows:
        square = w.floats[:, order[:rows]]
        inverse = np.linalg.inv(square)
        bound = np.abs(inverse) @ np.abs(square)
        residual = np.abs(np.eye(rows) - inverse @ square) + bound * (UNIT_ROUNDOFF * 2 * (rows + 4))
        return np.sort(order[:rows]).astype(np.int64) if residual.sum(axis=1).max() < 0.5 else every
    exact = flint.fmpq_mat([w.rational_row(i) for i in range(rows)])
    return np.array(pivots(*exact.rref()), dtype=np.int64)


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
        return support, tuple(fraction(solved[i]) for i in support.tolist())

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
    return [fraction(value) for value in scores.exact_row(j)]


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
    lifted = [[flint.fmpq(1), *row[:-1]] for row in exact]
    reduced, rank = flint.fmpq_mat([list(column) for column in zip(*lifted, strict=True)]).rref()
    dependent = pivots(reduced, rank)
    free = next(c for c in range(len(keys)) if c not in dependent)
    direction = [flint.fmpq(int(c == free)) for c in range(len(keys))]
    for r, c in enumerate(dependent):
        direction[c] = -reduced[r, free]
    if dot(direction, [row[-1] for row in exact]) < 0:
        direction = [-s for s in direction]
    step = min(weights[i] / -s for i, s in zip(keys, direction, strict=True) if s < 0)
    moved = {i: weights[i] + step * s for i, s in zip(keys, direction, strict=True)}
    return {i: w for i, w in moved.items() if w > 0}
