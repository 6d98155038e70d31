r"""Residues: exact numbers modulo primes, and how many primes prove that a number is zero.

A rational number with a known denominator :math:`q` and a known size, :math:`|v| < B`, is zero if and only if
the integer :math:`q v` is, and an integer below :math:`q B` that vanishes modulo primes whose product exceeds
:math:`q B` is zero. A fraction :math:`p/q` is :math:`p q^{-1}` modulo a prime that does not divide :math:`q`,
so sums and products need no denominators on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray, grain


def common_denominator(array: ExactArray) -> int:
    """A common denominator of every entry.

    >>> from hardmax.exact.rationals import as_exact
    >>> common_denominator(as_exact([0.75, 2.0], "x", ndim=1))
    4
    """
    if array.fractions is not None:
        return lcm(*{int(value.denominator) for value in array.fractions.ravel().tolist()})
    return 1 << max(-grain(array.floats), 0)


def primes_below(top: int, arrays: Sequence[ExactArray] = ()) -> Iterator[int]:
    """Odd primes below an even number, from the largest down, that divide no denominator of the arrays.

    >>> from itertools import islice
    >>> list(islice(primes_below(100), 3))
    [97, 89, 83]
    """
    odd = {common_denominator(array) for array in arrays if array.fractions is not None}
    for candidate in range(top - 1, 2, -2):
        if flint.fmpz(candidate).is_prime() and all(q % candidate for q in odd):
            yield candidate


class Residues:
    """The entries of an exact array, modulo one prime after the other.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from hardmax.exact.rationals import as_exact
    >>> Residues(as_exact([0.5, -1.0, Fraction(1, 3)], "x", ndim=1)).modulo(7)    # 2 * 4 = 3 * 5 = 1 modulo 7
    array([4, 6, 5])
    """

    def __init__(self, array: ExactArray) -> None:
        self._numerators: list[int] | None = None
        if array.fractions is not None:
            ratios = [value.as_integer_ratio() for value in array.fractions.ravel().tolist()]
            self._numerators = [numerator for numerator, _ in ratios]
            self._denominators: dict[int, int] = {}  # numbered
            number = [self._denominators.setdefault(q, len(self._denominators)) for _, q in ratios]
            self._denominator = np.array(number, dtype=np.int64)
        values, self._value = np.unique(array.floats.ravel(), return_inverse=True)  # quantised ones are few
        mantissas, exponents = np.frexp(values)
        self._digits = np.ldexp(mantissas, 53).astype(np.int64)
        self._powers, self._place = np.unique(exponents.astype(np.int64) - 53, return_inverse=True)

    def modulo(self, prime: int) -> NDArray[np.int64]:
        r"""Every entry modulo a prime below :math:`2^{31}` that divides no denominator, flat."""
        if self._numerators is not None:
            inverses = np.array([pow(q, -1, prime) for q in self._denominators], dtype=np.int64)
            values = np.array([value % prime for value in self._numerators], dtype=np.int64)
            return np.asarray(values * inverses[self._denominator] % prime)
        scales = np.array([pow(2, int(e), prime) for e in self._powers], dtype=np.int64)
        return np.asarray((self._digits % prime * scales[self._place] % prime)[self._value])

    def balanced(self, prime: int) -> NDArray[np.float64]:
        """Every entry modulo an odd prime, between -prime / 2 and prime / 2, as floats."""
        residues = self.modulo(prime)
        return np.where(residues > prime // 2, residues - prime, residues).astype(np.float64)


def residues_of(array: ExactArray, prime: int) -> NDArray[np.uint32]:
    r"""Every entry modulo a prime below :math:`2^{31}` that divides no denominator, flat."""
    return Residues(array).modulo(prime).astype(np.uint32)
