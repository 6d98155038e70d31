"""Whole numbers that are known between two ends, with the reasons for both.

What P2 asks of a target (how many tokens it retrieves, its dimension, order and number of comparisons) is
rarely known exactly: syntax gives upper ends, sampled inputs and theorems give lower ones. An interval
keeps the two apart, says why each end holds, and calls itself exact only where they meet without a further
assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardmax.errors import InvalidInputError

__all__ = ["Interval"]


@dataclass(frozen=True)
class Interval:
    r"""A whole number n with :math:`low \le n \le high`.

    Attributes
    ----------
    low, high : int
        The ends, both included.
    reasons : tuple of str
        Why each end holds; a reason begins with "at least", "at most" or "exactly".
    assuming : tuple of str
        What must be true besides, for instance that an outer function depends on each of its terms. Empty
        when the reasons stand by themselves.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.targets.triangle_center().comparisons(64)
    <Interval: 35987 to 41643>
    >>> hm.targets.pairwise([[[0.0, 1.0], [-1.0, 0.0]]]).dimension.exact
    True
    """

    low: int
    high: int
    reasons: tuple[str, ...] = ()
    assuming: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInputError(
                f"low must be at most high, but the interval was {self.low} to {self.high}."
            )

    @property
    def exact(self) -> bool:
        """Whether both ends meet and nothing is assumed."""
        return self.low == self.high and not self.assuming

    def to_dict(self) -> dict[str, Any]:
        """The interval in plain Python, for JSON."""
        return {
            "low": self.low,
            "high": self.high,
            "exact": self.exact,
            "reasons": list(self.reasons),
            "assuming": list(self.assuming),
        }

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        """``3`` when both ends meet, ``3 to 7`` when they do not."""
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"

    def __repr__(self) -> str:
        return f"<Interval: {self}{', assuming more' if self.assuming else ''}>"
