r"""Numbers with their spread over texts: tokens of one text are not independent, texts are.

:func:`spread` pools the tokens of a few texts: median, quartiles and a bootstrap that draws whole texts.

:func:`mean_intervals` is for corpora, where each text gives one number: the mean over texts with Student's t
interval, :math:`\bar x \pm t_{n-1} s / \sqrt n`. It covers the mean of the distribution that the texts are
drawn from, at the stated rate where the numbers are normal and nearly so for some dozens of texts otherwise.
:func:`paired_p_values` is the t test that belongs to it, for differences text by text, and :func:`holm`
corrects many such tests: the probability that any true null is rejected stays below the level, however the
tests depend on each other (Holm 1979).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hardmax.errors import InvalidInputError
from hardmax.randomness import generator_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """A number with its spread: median and quartiles over all values.

    ``low`` and ``high`` are a 95 % bootstrap interval of the median: whole groups (texts) are drawn again,
    because tokens of one text are not independent; with a single group its values are drawn.
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
    generator = generator_of(rng)
    names, member = np.unique(groups, return_inverse=True)
    drawn_from = np.arange(len(values)) if len(names) == 1 else member
    n = int(drawn_from.max()) + 1
    times = generator.multinomial(n, np.full(n, 1.0 / n), size=n_bootstrap)  # how often each is drawn
    medians = _medians(values, times[:, drawn_from])
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
    low, high = np.quantile(medians, [0.025, 0.975])
    return Spread(float(middle), float(lower), float(upper), float(low), float(high), len(values), len(names))


# One number per text
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MeanIntervals:
    """Means over texts with t intervals; one entry per column of values (:func:`mean_intervals`)."""

    mean: Floats
    low: Floats
    high: Floats
    deviation: Floats  # the standard deviation over texts; NaN for a single text
    n: NDArray[np.int64]  # texts that have the number

    def cut(self, most: float) -> MeanIntervals:
        """The intervals cut to 0 and ``most``, between which the number lies: they cover no less."""
        low, high = np.clip(self.low, 0.0, most), np.clip(self.high, 0.0, most)
        return replace(self, low=low, high=high)


def mean_intervals(values: Floats, *, confidence: float = 0.95) -> MeanIntervals:
    """Means and t intervals over the first axis; what is NaN is left out.

    With one text there is no interval: ``low`` and ``high`` are NaN.

    Examples
    --------
    >>> found = mean_intervals(np.array([[1.0, 5.0], [2.0, np.nan], [3.0, np.nan]]))
    >>> found.mean, found.n
    (array([2., 5.]), array([3, 1]))
    >>> found.low.round(3), found.high.round(3)
    (array([-0.484,    nan]), array([4.484,   nan]))
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidInputError(f"confidence must be above 0 and below 1, but was {confidence}.")
    n, mean, deviation = _moments(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        quantile = special.stdtrit(np.maximum(n - 1, 1), 0.5 + confidence / 2.0)
        half = quantile * deviation / np.sqrt(n)
    return MeanIntervals(mean, mean - half, mean + half, deviation, n)


def paired_p_values(differences: Floats) -> Floats:
    """Two-sided p-values of the t test that a mean difference over the first axis is zero.

    Differences that are zero on every text give 1, differences that are the same other number on every text
    give 0, and a single text gives NaN.

    Examples
    --------
    >>> paired_p_values(np.array([[0.0, 1.0, 1.0], [0.0, -1.0, 2.0], [0.0, 0.5, 3.0]])).round(3)
    array([1.   , 0.808, 0.074])
    """
    n, mean, deviation = _moments(differences)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(mean) / (deviation / np.sqrt(n))
        p = 2.0 * special.stdtr(np.maximum(n - 1, 1), -t)
    p = np.where((deviation == 0.0) & (mean == 0.0), 1.0, p)
    return np.where(n > 1, p, np.nan)


def holm(p_values: Floats) -> Floats:
    """Holm's adjusted p-values, over all entries together; NaN stays NaN and does not count.

    Rejecting where the adjusted value is at most alpha keeps the probability of any false rejection at most
    alpha.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, np.nan, 0.02]))
    array([0.03, 0.04,  nan, 0.04])
    """
    p = np.asarray(p_values, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(p.ravel()))
    order = known[np.argsort(p.ravel()[known], kind="stable")]
    steps = np.minimum(p.ravel()[order] * np.arange(len(order), 0, -1), 1.0)
    adjusted = np.full(p.size, np.nan)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted.reshape(p.shape)


def _moments(values: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Number, mean and standard deviation over the first axis, without what is NaN."""
    x = np.asarray(values, dtype=np.float64)
    known = np.isfinite(x)
    n = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, x, 0.0).sum(axis=0) / n
        # equal numbers have deviation zero, though their mean is rounded
        same = np.where(known, x, np.inf).min(axis=0) == np.where(known, x, -np.inf).max(axis=0)
        squares = np.where(known, (x - mean) ** 2, 0.0).sum(axis=0)
        deviation = np.where(same, 0.0, np.sqrt(squares / (n - 1)))
    mean = np.where(same & (n > 0), np.where(known, x, -np.inf).max(axis=0), mean)
    return n, mean, np.where(n > 1, deviation, np.nan)
