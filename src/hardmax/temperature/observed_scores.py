r"""Is this head really hard? Margins, curvature and output errors of the scores a head has seen.

For each query the margin says how far the largest score leads, the total variation distance
:math:`1 - \max_j p_j` how far the softmax is from a one-hot vector, and the norm of the Hessian how far from
affine the log-sum-exp is there. The bounds of P1 Theorem VI.1, corrected, are put beside them, and it is said
where they are vacuous.

**Curvature.** The Hessian of :math:`P_\tau(s) = \tau\log\sum_j e^{s_j/\tau}` is
:math:`\tau^{-1} (\mathrm{diag}\,p - p p^T)`, a diagonal matrix minus one of rank one. Its largest eigenvalue
:math:`\lambda` lies between the two largest probabilities and solves the secular equation
:math:`\sum_j p_j / (p_j - \lambda) = 0`. Let :math:`\varepsilon = e^{-\delta/\tau}` be the second largest
probability over the largest, :math:`r_j \le 1` those of the rivals over the second largest, and
:math:`\lambda = \varepsilon(1 + \omega) / \sum_j e^{(s_j - \max s)/\tau}`. Then

.. math:: F(\omega) = \Bigl(\sum_j \frac{r_j}{\omega + (1 - r_j)}\Bigr)^{-1}
          - (1 - \varepsilon) + \varepsilon\,\omega = 0 .

:math:`F` increases and is concave (one over a sum of convex reciprocals), so Newton's method never passes the
root from the left and closes in on it from any start. The differences :math:`1 - \varepsilon` and
:math:`1 - r_j` are computed without cancellation, and no exponential is needed that could underflow, so that
a norm of :math:`10^{-400}` still has a logarithm.

**Output** (P1 Corollary IV.4 in its true form, :func:`output_error_bound`). The corollary's proof says
"uniformly" on the interior of the cell. That is false: :math:`Z` at the query :math:`\tau q` and temperature
:math:`\tau` is :math:`Z` at q and temperature 1, and :math:`\tau q` is in the cell whenever q is, so the
supremum over the cell is the same number at every temperature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.rationals import as_exact
from hardmax.results import Result
from hardmax.temperature.arguments import check_rows, checked_tolerance, positive_temperature, score_table
from hardmax.temperature.bands import margin_needed
from hardmax.temperature.margin_bounds import stability_bounds

Floats = NDArray[np.float64]

_TIE = 1e-280  # an eigenvalue is 1 + omega times something: below this, omega changes nothing
_MAX_STEPS = 100  # about ten suffice; a row that has not settled by then is settled to the last bits


@dataclass(frozen=True, eq=False)
class Spectrum:
    """What the softmax of each row of scores is like, in numbers that keep their relative accuracy.

    Attributes
    ----------
    margin : (n,) float64
        The lead of the largest score over the next; infinite without a rival.
    gap : (n,) float64
        The margin divided by the temperature.
    rivals : (n,) float64
        The sum of the rivals' probabilities over the largest of them; 0 without a rival.
    omega : (n,) float64
        The root of the secular equation; 0 without a rival.
    """

    margin: Floats
    gap: Floats
    rivals: Floats
    omega: Floats

    @property
    def log_odds(self) -> Floats:
        """The natural logarithm of all rivals' probability over that of the winner."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.rivals) - self.gap)

    @property
    def odds(self) -> Floats:
        """The probability of all rivals over that of the winner."""
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(-self.gap) * self.rivals)

    @property
    def norm(self) -> Floats:
        """The largest eigenvalue of the covariance."""
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(-self.gap) * (1.0 + self.omega) / (1.0 + self.odds))

    @property
    def log_norm(self) -> Floats:
        """Its natural logarithm."""
        return np.asarray(np.log1p(self.omega) - self.gap - np.log1p(self.odds))


def leading_eigenvalue(scores: Floats, temperature: float) -> Spectrum:
    """Solve the secular equation for every row of scores; minus infinity leaves a key out.

    Parameters
    ----------
    scores : (n, N) float64
        At least one finite score in each row.
    temperature : float

    Examples
    --------
    Two equal scores: the covariance of a fair coin has norm 1/2.

    >>> leading_eigenvalue(np.array([[0.0, 0.0], [0.0, -np.inf]]), 1.0).norm
    array([0.5, 0. ])
    """
    n, keys = scores.shape
    if keys == 1:
        return Spectrum(np.full(n, np.inf), np.full(n, np.inf), np.zeros(n), np.zeros(n))
    rows = np.arange(n)
    winner = scores.argmax(axis=1)
    best = scores[rows, winner]
    others = scores.copy()
    others[rows, winner] = -np.inf
    second = others.max(axis=1)
    alone = np.isneginf(second)
    with np.errstate(over="ignore", under="ignore"):
        margin = best - second  # infinite without a rival
        gap = margin / temperature
        others -= np.where(alone, 0.0, second)[:, None]  # a row alone stays at minus infinity
        others /= temperature
        below = -np.expm1(others)  # 1 - r
        shares = np.exp(others, out=others)  # r
    total = shares.sum(axis=1)
    omega = _root(shares, below, np.exp(-gap), -np.expm1(-gap))
    return Spectrum(margin, gap, total, np.where(alone, 0.0, omega))


def _root(shares: Floats, below: Floats, epsilon: Floats, lead: Floats) -> Floats:
    """Newton's method on all rows at once, from the left; ``lead`` is 1 - epsilon."""
    leaders = np.count_nonzero(below == 0.0, axis=1)  # tie with the second: omega is exact without others
    omega = leaders * lead / (1.0 + leaders * epsilon)
    open_rows = np.flatnonzero(omega > _TIE)  # else the two largest tie, or there is no rival
    for _ in range(_MAX_STEPS):
        if len(open_rows) == 0:
            break
        w = omega[open_rows]
        reciprocals = 1.0 / (w[:, None] + below[open_rows])
        weighted = shares[open_rows] * reciprocals
        sums = weighted.sum(axis=1)
        over = weighted / sums[:, None], reciprocals / sums[:, None]  # their product alone may overflow
        slope = np.einsum("ij,ij->i", *over) + epsilon[open_rows]
        step = (lead[open_rows] - epsilon[open_rows] * w - 1.0 / sums) / slope
        omega[open_rows] = w + step
        open_rows = open_rows[step > 4e-16 * w]
    return np.asarray(omega)


_NUMBERS = 2**19  # scores in one part: 4 MB, however large the input


@dataclass(frozen=True, eq=False, repr=False)
class StabilityReport(Result):
    r"""What :func:`check_stability` found, one entry per query.

    Arrays have the shape of the scores without their last axis (``(1,)`` for one query).

    Attributes
    ----------
    temperature, tolerance : float
    n_keys : int64
        Keys that are not masked.
    routing : int64
        The winning key, the lowest index among ties.
    margin : float64
        The lead of the largest score over the next; infinite where there is no other key.
    top_probability, total_variation : float64
        The probability of the winner, and one minus it: the total variation distance to hardmax.
    log10_total_variation : float64
        Its decimal logarithm, for what no float can hold.
    hessian_norm, log10_hessian_norm : float64
        The spectral norm of :math:`\tau^{-1}(\mathrm{diag}\,p - pp^T)`.
    value_error : float64
        :math:`\tau\log\sum_j e^{s_j/\tau} - \max_j s_j`.
    value_bound, total_variation_bound, hessian_bound : float64
        What the margin and the number of keys guarantee: the corrected bounds of Theorem VI.1
        (the gradient's is twice that of the total variation).
    value_vacuous, gradient_vacuous, hessian_vacuous : bool
        Where these bounds say nothing; see :class:`StabilityBounds`.
    output_error, output_error_bound : float64 or None
        With values: :math:`\lVert Z - v_i\rVert_2`, and what the margin guarantees for it.

    Examples
    --------
    >>> report = check_stability([[3.0, 1.0, float("-inf")]], temperature=1.0)
    >>> report.n_keys, report.margin, report.hessian_norm.round(4), report.hessian_vacuous
    (array([2]), array([2.]), array([0.21]), array([False]))
    """

    kind: ClassVar[str] = "StabilityReport"
    _shapes: ClassVar[dict[str, str]] = dict.fromkeys(
        (
            "n_keys",
            "routing",
            "margin",
            "top_probability",
            "total_variation",
            "log10_total_variation",
            "hessian_norm",
            "log10_hessian_norm",
            "value_error",
            "value_bound",
            "total_variation_bound",
            "hessian_bound",
            "value_vacuous",
            "gradient_vacuous",
            "hessian_vacuous",
            "output_error",
            "output_error_bound",
        ),
        "n ...",
    )

    temperature: float
    tolerance: float
    n_keys: NDArray[np.int64]
    routing: NDArray[np.int64]
    margin: Floats
    top_probability: Floats
    total_variation: Floats
    log10_total_variation: Floats
    hessian_norm: Floats
    log10_hessian_norm: Floats
    value_error: Floats
    value_bound: Floats
    total_variation_bound: Floats
    hessian_bound: Floats
    value_vacuous: NDArray[np.bool_]
    gradient_vacuous: NDArray[np.bool_]
    hessian_vacuous: NDArray[np.bool_]
    output_error: Floats | None = None
    output_error_bound: Floats | None = None

    @property
    def hard(self) -> NDArray[np.bool_]:
        """Whether the total variation distance to hardmax is at most the tolerance."""
        return np.asarray(self.total_variation <= self.tolerance)

    @property
    def share_hard(self) -> float:
        """The share of queries that are hard."""
        return float(self.hard.mean())

    @property
    def margin_needed(self) -> float:
        """The margin from which on every query is hard, with the largest number of keys that occurs."""
        return margin_needed(int(self.n_keys.max()), self.temperature, tolerance=self.tolerance)

    def _summary(self) -> str:
        n = self.margin.size
        queries = "1 query" if n == 1 else f"{n:,} queries"
        return (
            f"{queries} at temperature {self.temperature:g}, {self.share_hard:.4g} of them hard at tolerance "
            f"{self.tolerance:g}"
        )

    def _table(self) -> dict[str, Any]:
        names = [
            "n_keys",
            "routing",
            "margin",
            "top_probability",
            "total_variation",
            "total_variation_bound",
            "hessian_norm",
            "hessian_bound",
            "value_error",
            "value_bound",
            "value_vacuous",
            "gradient_vacuous",
            "hessian_vacuous",
            "hard",
        ]
        table = {name: getattr(self, name).ravel() for name in names}
        if self.output_error is not None and self.output_error_bound is not None:
            table["output_error"] = self.output_error.ravel()
            table["output_error_bound"] = self.output_error_bound.ravel()
        return table


def check_stability(
    scores: ArrayLike, temperature: float, *, tolerance: float = 0.01, values: ArrayLike | None = None
) -> StabilityReport:
    r"""How close the softmax of scores is to hardmax, query by query.

    Parameters
    ----------
    scores : (..., N) array_like
        One query per row, one score per key: raw ones with ``temperature`` :math:`\sqrt{d_{head}}`, scaled
        ones with 1. ``-inf`` masks a key. Millions are processed part by part; float32 is computed with in
        float64.
    temperature : float
        :math:`\tau > 0`.
    tolerance : float
        A query is called hard when its total variation distance :math:`1 - \max_j p_j` is at most this;
        between 0 and 1.
    values : (N, e) array_like, optional
        The values, to measure the output error :math:`\lVert Z - v_i\rVert_2` of P1 Corollary IV.4 too.

    Raises
    ------
    InvalidInputError
        If the temperature is not positive, or all keys of a query are masked.
    NotFiniteError
        If the scores hold NaN or plus infinity.

    Examples
    --------
    >>> report = check_stability([[2.0, 0.0, 0.0], [16.0, 0.0, 0.0]], temperature=1.0)
    >>> report.margin, report.top_probability.round(4), report.hard
    (array([ 2., 16.]), array([0.787, 1.   ]), array([False,  True]))
    >>> report
    <StabilityReport: 2 queries at temperature 1, 0.5 of them hard at tolerance 0.01>
    """
    tau = float(positive_temperature(temperature))
    eta = checked_tolerance(tolerance)
    table = score_table(scores)
    shape = table.shape[:-1]
    table = table.reshape(-1, table.shape[-1])
    vectors = None if values is None else value_table(values, table.shape[1])
    step = max(1, _NUMBERS // table.shape[1])
    parts = [_part(table, start, step, tau, vectors) for start in range(0, len(table), step)]
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]).reshape(shape) for name in parts[0]
    }
    return StabilityReport(temperature=tau, tolerance=eta, **columns)


def _part(
    table: NDArray[Any], start: int, step: int, tau: float, vectors: Floats | None
) -> dict[str, NDArray[Any]]:
    scores = np.asarray(table[start : start + step], dtype=np.float64)
    check_rows(scores, start)
    routing = scores.argmax(axis=1)
    spectrum = leading_eigenvalue(scores, tau)
    n_keys = np.count_nonzero(~np.isneginf(scores), axis=1)
    rivals = n_keys > 1
    odds = spectrum.odds
    with np.errstate(under="ignore", over="ignore"):
        epsilon = np.exp(-spectrum.gap)
        odds_bound = (n_keys - 1) * epsilon
        value_bound = tau * np.log1p(odds_bound)
        columns: dict[str, NDArray[Any]] = {
            "n_keys": n_keys,
            "routing": routing,
            "margin": spectrum.margin,
            "top_probability": 1.0 / (1.0 + odds),
            "total_variation": odds / (1.0 + odds),
            "log10_total_variation": (spectrum.log_odds - np.log1p(odds)) / math.log(10.0),
            "hessian_norm": spectrum.norm / tau,
            "log10_hessian_norm": (spectrum.log_norm - math.log(tau)) / math.log(10.0),
            "value_error": tau * np.log1p(odds),
            "value_bound": value_bound,
            "total_variation_bound": odds_bound / (1.0 + odds_bound),
            "hessian_bound": np.where(rivals, np.minimum(n_keys * epsilon, 0.5) / tau, 0.0),
            "value_vacuous": rivals & (value_bound >= spectrum.margin),
            "gradient_vacuous": odds_bound >= 1.0,
            "hessian_vacuous": rivals & (n_keys * epsilon >= 0.5),
        }
    if vectors is not None:
        farthest = farthest_values(scores, routing, vectors)
        columns["output_error"] = output_errors(scores, routing, vectors, tau)
        columns["output_error_bound"] = columns["total_variation_bound"] * farthest
    return columns


def output_error_bound(values: ArrayLike, margin: float, temperature: float) -> Floats:
    r"""How far the output of a head can be from the value of the key that leads by a margin.

    .. math:: \lVert Z(q) - v_i \rVert_2 \le \frac{m\varepsilon}{1 + m\varepsilon} \max_l \lVert v_l - v_i
              \rVert_2, \qquad m = N - 1, \quad \varepsilon = e^{-\delta/\tau},

    with equality if all rivals are at the margin and share a value.

    Parameters
    ----------
    values : (N, e) array_like
        :math:`v_j`, one row per key.
    margin : float
        :math:`\delta \ge 0`.
    temperature : float
        :math:`\tau > 0`.

    Returns
    -------
    (N,) float64
        The bound for each key i that may lead.

    Examples
    --------
    Keys and values 1 and -1 on the line. A margin makes the error small, but on the whole cell (margin 0) it
    stays 1, half of the distance of the values, at every temperature.

    >>> output_error_bound([[1.0], [-1.0]], margin=2.0, temperature=0.1)
    array([4.12230724e-09, 4.12230724e-09])
    >>> [float(output_error_bound([[1.0], [-1.0]], 0.0, t)[0]) for t in (1.0, 0.1, 1e-3, 1e-6)]
    [1.0, 1.0, 1.0, 1.0]
    """
    table = value_table(values, None)
    share = stability_bounds(len(table), margin, temperature).gradient_sharp / 2
    return np.array([share * float(_distances(table, i).max()) for i in range(len(table))])


def value_table(values: ArrayLike, n_tokens: int | None) -> Floats:
    """One value per key, as floats."""
    table = as_exact(values, "values", ndim=2).floats
    if 0 in table.shape:
        raise InvalidInputError(f"values must hold at least one value, but has shape {table.shape}.")
    if n_tokens is not None and len(table) != n_tokens:
        raise DimensionMismatchError(f"values must have one row per key ({n_tokens}), but has {len(table)}.")
    return table


def output_errors(scores: Floats, routing: NDArray[np.intp], values: Floats, temperature: float) -> Floats:
    """The distance of the output from the winner's value at every row of scores.

    The winner's own term is left out of the sum, so that small errors keep their digits.
    """
    rows = np.arange(len(scores))
    with np.errstate(under="ignore", over="ignore"):
        weights = np.exp((scores - scores[rows, routing][:, None]) / temperature)
    total = weights.sum(axis=1)
    weights[rows, routing] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        moved = weights @ values - weights.sum(axis=1)[:, None] * values[routing]
    return np.asarray(_norms(moved) / total)


def farthest_values(scores: Floats, routing: NDArray[np.intp], values: Floats) -> Floats:
    """The largest distance of a value from the winner's, among the keys that are not masked."""
    farthest = np.zeros(len(scores))
    for winner in np.unique(routing):
        rows = np.flatnonzero(routing == winner)
        farthest[rows] = np.where(np.isneginf(scores[rows]), 0.0, _distances(values, int(winner))).max(axis=1)
    return farthest


def _distances(values: Floats, key: int) -> Floats:
    with np.errstate(over="ignore"):
        return _norms(values - values[key])


def _norms(rows: Floats) -> Floats:
    """The length of every row; squares do not overflow."""
    _, exponent = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(np.linalg.norm(np.ldexp(rows, -exponent[:, None]), axis=1), exponent)
    if not np.isfinite(found).all():
        raise NotFiniteError("values must be at distances that float64 can hold, but are not; rescale them.")
    return np.asarray(found)
