r"""The norm of the covariance of a softmax, by its secular equation instead of an eigenproblem.

The Hessian of :math:`P_\tau(s) = \tau\log\sum_j e^{s_j/\tau}` is
:math:`\tau^{-1} (\mathrm{diag}\,p - p p^T)`, a diagonal matrix minus one of rank one. Its largest eigenvalue
:math:`\lambda` lies between the two largest probabilities and solves
:math:`\sum_j p_j / (p_j - \lambda) = 0`.

Let :math:`\varepsilon = e^{-\delta/\tau}` be the second largest probability over the largest,
:math:`r_j \le 1` those of the rivals over the second largest, and
:math:`\lambda = \varepsilon(1 + \omega) / \sum_j e^{(s_j - \max s)/\tau}`. Then

.. math:: F(\omega) = \Bigl(\sum_j \frac{r_j}{\omega + (1 - r_j)}\Bigr)^{-1}
          - (1 - \varepsilon) + \varepsilon\,\omega = 0 .

:math:`F` increases and is concave (one over a sum of convex reciprocals), so Newton's method never passes the
root from the left and closes in on it from any start. The differences :math:`1 - \varepsilon` and
:math:`1 - r_j` are computed without cancellation, and no exponential is needed that could underflow, so that
a norm of :math:`10^{-400}` still has a logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spectrum", "leading_eigenvalue"]

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
    leaders = np.count_nonzero(
        below == 0.0, axis=1
    )  # keys that tie with the second: omega is exact without others
    omega = leaders * lead / (1.0 + leaders * epsilon)
    open_rows = np.flatnonzero(omega > _TIE)  # else the two largest tie, or there is no rival
    for _ in range(_MAX_STEPS):
        if len(open_rows) == 0:
            break
        w = omega[open_rows]
        reciprocals = 1.0 / (w[:, None] + below[open_rows])
        weighted = shares[open_rows] * reciprocals
        sums = weighted.sum(axis=1)
        slope = np.einsum("ij,ij->i", weighted, reciprocals) / sums**2 + epsilon[open_rows]
        step = (lead[open_rows] - epsilon[open_rows] * w - 1.0 / sums) / slope
        omega[open_rows] = w + step
        open_rows = open_rows[step > 4e-16 * w]
    return np.asarray(omega)
