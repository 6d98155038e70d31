r"""Is this head really hard? Margins, probabilities and curvature of the scores a head has seen.

For each query the margin says how far the largest score leads, the total variation distance
:math:`1 - \max_j p_j` how far the softmax is from a one-hot vector, and the norm of the Hessian how far from
affine the log-sum-exp is there. The bounds of P1 Theorem VI.1, corrected, are put beside them, and it is said
where they are vacuous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.results import Result
from hardmax.temperature.arguments import check_rows, checked_tolerance, positive_temperature, score_table
from hardmax.temperature.bands import margin_needed
from hardmax.temperature.covariance import leading_eigenvalue
from hardmax.temperature.outputs import farthest_values, output_errors, value_table

__all__ = ["StabilityReport", "check_stability"]

Floats = NDArray[np.float64]

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
    hard : bool
        Whether the total variation distance is at most the tolerance.
    share_hard : float
        The share of such queries.
    margin_needed : float
        The margin from which on every query is hard, with the largest number of keys that occurs.

    Examples
    --------
    >>> report = check_stability([[3.0, 1.0, float("-inf")]], temperature=1.0)
    >>> report.n_keys, report.margin, report.hessian_norm.round(4), report.hessian_vacuous
    (array([2]), array([2.]), array([0.21]), array([False]))
    """

    kind: ClassVar[str] = "StabilityReport"

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
        """The margin from which on every query is hard."""
        return margin_needed(int(self.n_keys.max()), self.temperature, tolerance=self.tolerance)

    def _state(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

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

    Returns
    -------
    StabilityReport

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
        columns["output_error"] = output_errors(scores, routing, vectors, tau)
        columns["output_error_bound"] = columns["total_variation_bound"] * farthest_values(
            scores, routing, vectors
        )
    return columns
