"""A number with its spread over texts: median, quartiles and a bootstrap interval that draws whole texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    generator = np.random.default_rng(rng)
    names, member = np.unique(groups, return_inverse=True)
    drawn_from = np.arange(len(values)) if len(names) == 1 else member
    n = int(drawn_from.max()) + 1
    times = generator.multinomial(n, np.full(n, 1.0 / n), size=n_bootstrap)  # how often each is drawn
    medians = _medians(values, times[:, drawn_from])
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
    low, high = np.quantile(medians, [0.025, 0.975])
    return Spread(float(middle), float(lower), float(upper), float(low), float(high), len(values), len(names))
