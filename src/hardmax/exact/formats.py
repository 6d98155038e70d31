r"""Floating-point formats below float64: what they can hold, and how float64 numbers are rounded to them.

A format with precision p and exponents from e_min to e_max holds the numbers :math:`\pm k\,2^{e-p+1}` with
integers :math:`k < 2^p`, and subnormal ones with :math:`e = e_{min}`. Rounding to nearest, ties to even, is a
monotone map R with

.. math:: \lvert R(x) - x\rvert \le u\,\lvert x\rvert \;\text{ for } \lvert x\rvert \ge 2^{e_{min}}, \qquad
          \lvert R(x) - x\rvert \le u\,2^{e_{min}} \;\text{ below}, \qquad u = 2^{-p} .

Monotone is what bounds are made of: a number in [a, b] is rounded to one in [R(a), R(b)].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes
    ----------
    name : str
    precision : int
        p, the bits of the significand, the hidden one included.
    e_min : int
        The exponent of the smallest normal number, :math:`2^{e_{min}}`.
    largest : float
        The largest finite number.
    """

    name: str
    precision: int
    e_min: int
    largest: float

    @property
    def unit(self) -> float:
        """The unit roundoff u, 2^-p: the largest relative error of rounding a normal number."""
        return 2.0**-self.precision

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with full precision."""
        return 2.0**self.e_min

    def rounded(self, values: ArrayLike) -> Floats:
        """The nearest numbers of the format, ties to even, as float64; infinite where that overflows.

        Formats without infinities, such as float8_e4m3, have NaN or their largest number there; what
        overflows has no value that could be relied on in any of them.

        Examples
        --------
        >>> FORMATS["bfloat16"].rounded([1.0, 1.00390625, 1.01171875, 1e-41, 3.4e38])
        array([1.      , 1.      , 1.015625, 0.      ,      inf])
        """
        x = np.asarray(values, dtype=np.float64)
        _, exponent = np.frexp(x)  # |x| is in [2^(e-1), 2^e)
        grain = np.maximum(exponent - self.precision, self.e_min - self.precision + 1)
        with np.errstate(invalid="ignore", over="ignore"):
            nearest = np.ldexp(np.rint(np.ldexp(x, -grain)), grain)
        return np.where(np.abs(nearest) > self.largest, np.copysign(np.inf, x), nearest)


FORMATS = {
    form.name: form
    for form in (
        Format("float32", 24, -126, 2.0**128 - 2.0**104),
        Format("bfloat16", 8, -126, 2.0**128 - 2.0**120),
        Format("float16", 11, -14, 65504.0),
        Format("float8_e4m3", 4, -6, 448.0),
        Format("float8_e5m2", 3, -14, 57344.0),
    )
}
"""The formats by name; those of eight bits are torch's ``float8_e4m3fn`` and ``float8_e5m2``."""

_OTHER_NAMES = {
    "fp32": "float32", "single": "float32", "bf16": "bfloat16", "fp16": "float16", "half": "float16",
    "float8_e4m3fn": "float8_e4m3", "e4m3": "float8_e4m3", "e4m3fn": "float8_e4m3", "e5m2": "float8_e5m2",
}  # fmt: skip


def format_of(name: object, argument: str = "dtype") -> Format:
    """The format with a name; the name of a dtype of numpy or torch will do.

    >>> format_of("torch.bfloat16").unit, format_of("e4m3").largest
    (0.00390625, 448.0)
    """
    word = getattr(name, "__name__", None) or str(name)
    word = word.removeprefix("torch.")
    found = FORMATS.get(_OTHER_NAMES.get(word, word))
    if found is None:
        raise InvalidInputError(f"{argument} must be one of {', '.join(FORMATS)}, but was {name!r}.")
    return found
