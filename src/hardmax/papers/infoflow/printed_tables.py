"""The numbers that P2 prints in its Tables 1 to 12 (appendix C), as exact fractions.

They are data: nothing here is computed. Recovery errors are those of a linear map that reads a token back
from the state after the first layer (Tables 1 to 10); NMSE is the mean square error over the variance of the
target (Tables 11 and 12).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["NMSE_PAIRWISE", "NMSE_TRIANGLE", "RECOVERY", "TRIANGLE_MODELS", "Recovery", "ratio_is_consistent"]


@dataclass(frozen=True)
class Recovery:
    """One of Tables 1 to 10: errors per head before and after training, and their printed ratio.

    Attributes
    ----------
    number : int
        Of the table. Tables 1 to 3 recover the token with the largest score, 4 to 10 the second largest.
    heads : (int, int)
        h_1 and h_2.
    width : int
        E_1.
    initialised, trained, ratio : tuple of Fraction
        One number per head of the first layer, as printed.
    """

    number: int
    heads: tuple[int, int]
    width: int
    initialised: tuple[Fraction, ...]
    trained: tuple[Fraction, ...]
    ratio: tuple[Fraction, ...]

    @property
    def columns(self) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
        """Initialised, trained and ratio, head by head."""
        return zip(self.initialised, self.trained, self.ratio, strict=True)


def ratio_is_consistent(initialised: Fraction, trained: Fraction, ratio: Fraction) -> bool:
    """Whether a printed ratio can be the ratio of two numbers that were rounded to what is printed.

    All three are rounded to four decimals, so ``(t ± u) / (i ± u)`` must meet ``ratio ± u``, u = 1/20000.

    >>> ratio_is_consistent(Fraction("0.3497"), Fraction("0.0302"), Fraction("0.0863"))
    True
    >>> ratio_is_consistent(Fraction("0.3497"), Fraction("0.0302"), Fraction("0.0866"))
    False
    """
    u = Fraction(1, 20000)
    low, high = (trained - u) / (initialised + u), (trained + u) / (initialised - u)
    return low <= ratio + u and ratio - u <= high


def _numbers(text: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(word) for word in text.split())


def _table(number: int, heads: tuple[int, int], width: int, before: str, after: str, ratio: str) -> Recovery:
    return Recovery(number, heads, width, _numbers(before), _numbers(after), _numbers(ratio))


RECOVERY = (
    _table(
        1, (6, 6), 36,
        "0.3497 0.3546 0.3233 0.3738 0.4851 0.3496",
        "0.0302 0.0323 0.0310 0.0305 0.0315 0.0317",
        "0.0863 0.0910 0.0958 0.0817 0.0650 0.0906",
    ),
    _table(
        2, (5, 5), 40,
        "0.3496 0.3711 0.3676 0.3113 0.3836",
        "0.1816 0.1735 0.2433 0.2373 0.2350",
        "0.5195 0.4676 0.6618 0.7624 0.6126",
    ),
    _table(
        3, (5, 6), 40,
        "0.3167 0.3248 0.3413 0.3234 0.3261",
        "0.2099 0.2531 0.1160 0.1382 0.1405",
        "0.6629 0.7793 0.3400 0.4273 0.4308",
    ),
    _table(
        4, (6, 6), 36,
        "0.4085 0.4126 0.3843 0.4303 0.5318 0.4086",
        "0.4061 0.4154 0.4176 0.4191 0.4132 0.4148",
        "0.9940 1.0067 1.0864 0.9739 0.7770 1.0151",
    ),
    _table(
        5, (5, 5), 40,
        "0.4093 0.4272 0.4249 0.3746 0.4390",
        "0.4095 0.4099 0.4097 0.4082 0.4083",
        "1.0005 0.9594 0.9641 1.0895 0.9299",
    ),
    _table(
        6, (5, 6), 40,
        "0.3779 0.3852 0.4013 0.3849 0.3873",
        "0.4018 0.4038 0.4085 0.4050 0.4068",
        "1.0631 1.0483 1.0180 1.0523 1.0505",
    ),
    _table(
        7, (5, 7), 40,
        "0.3854 0.3954 0.3863 0.4124 0.3869",
        "0.4044 0.4077 0.4017 0.4109 0.3996",
        "1.0493 1.0313 1.0399 0.9963 1.0329",
    ),
    _table(
        8, (6, 5), 36,
        "0.4025 0.3800 0.4280 0.4466 0.4230 0.3976",
        "0.4045 0.4027 0.4032 0.4042 0.4028 0.4085",
        "1.0049 1.0598 0.9420 0.9049 0.9524 1.0272",
    ),
    _table(
        9, (7, 5), 42,
        "0.3813 0.3905 0.4137 0.3863 0.3812 0.4053 0.3964",
        "0.4001 0.4026 0.4046 0.4042 0.3996 0.4067 0.4029",
        "1.0493 1.0310 0.9781 1.0461 1.0483 1.0034 1.0163",
    ),
    _table(
        10, (7, 7), 42,
        "0.4740 0.3949 0.3801 0.3922 0.3955 0.4124 0.4001",
        "0.4062 0.4148 0.4147 0.4054 0.4098 0.3903 0.3868",
        "0.8569 1.0506 1.0909 1.0337 1.0364 0.9464 0.9668",
    ),
)  # fmt: skip
"""Tables 1 to 10."""

NMSE_PAIRWISE = {
    D: _numbers(line)
    for D, line in {
        2: "5.89e-5 5.89e-2 3.67e-2",
        3: "6.37e-5 2.64e-2 2.07e-2",
        4: "6.92e-5 1.39e-2 1.30e-2",
        5: "4.69e-4 4.46e-3 7.19e-3",
        6: "1.99e-3 6.26e-3 7.67e-3",
    }.items()
}
"""Table 11: for D the NMSE with heads (D, D), (D-1, D) and (D, D-1)."""

TRIANGLE_MODELS = (((2, 2), 24), ((4, 4), 24), ((4, 4), 48))
"""The three models of Table 12: heads and width."""

NMSE_TRIANGLE = {
    T: _numbers(line)
    for T, line in {
        3: "1.31e-3 9.59e-4 6.20e-4",
        4: "4.58e-3 3.81e-3 3.03e-3",
        5: "1.12e-2 9.51e-3 8.41e-3",
        6: "2.12e-2 2.00e-2 1.84e-2",
        8: "8.61e-2 7.20e-2 7.95e-2",
        10: "2.42e-1 2.27e-1 2.13e-1",
        12: "4.32e-1 4.60e-1 4.52e-1",
        16: "8.43e-1 8.53e-1 8.56e-1",
        24: "9.44e-1 9.44e-1 9.44e-1",
        32: "9.57e-1 9.58e-1 9.59e-1",
        48: "9.79e-1 9.79e-1 9.79e-1",
        64: "9.85e-1 9.85e-1 9.85e-1",
    }.items()
}
"""Table 12: for T the NMSE of the three models."""
