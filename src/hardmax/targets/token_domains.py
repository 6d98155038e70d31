"""Where tokens live. Every target carries its input domain, because verdicts depend on it.

P2 uses three: the cube [0,1]^d in its section 3, [-1,1]^d in appendices A.1 and D.1, Gaussian tokens in its
experiments. On [0,1]^1 the triangle-center target is a plain minimum, on [-1,1]^d it compares triples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError

__all__ = ["InputDomain", "as_domain"]

Floats = NDArray[np.float64]

_MEANING = {"cube01": "[0, 1]^d, uniform", "cube11": "[-1, 1]^d, uniform", "gaussian": "R^d, standard normal"}


@dataclass(frozen=True)
class InputDomain:
    """The set in which every token lies, and the law from which samples are drawn.

    Parameters
    ----------
    kind : {"cube01", "cube11", "gaussian"}
        The cube [0,1]^d or [-1,1]^d with uniform coordinates, or all of R^d with standard normal ones. The
        coordinates of all tokens are independent.

    Examples
    --------
    >>> import numpy as np
    >>> domain = InputDomain("cube11")
    >>> domain.sample(np.random.default_rng(0), (2, 3, 1)).shape
    (2, 3, 1)
    >>> domain.contains([[0.5, -1.0]]), InputDomain("cube01").contains([[0.5, -1.0]])
    (True, False)
    """

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in _MEANING:
            raise InvalidInputError(
                f"domain must be one of {', '.join(map(repr, _MEANING))}, but was {self.kind!r}."
            )

    @property
    def low(self) -> float:
        """The least value of a coordinate, minus infinity for Gaussian tokens."""
        return {"cube01": 0.0, "cube11": -1.0}.get(self.kind, -np.inf)

    @property
    def high(self) -> float:
        """The largest value of a coordinate, infinity for Gaussian tokens."""
        return {"cube01": 1.0, "cube11": 1.0}.get(self.kind, np.inf)

    def sample(self, rng: int | np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """An array of independent coordinates: ``shape`` is that of the whole array, (B, T, d) for B
        sequences."""
        generator = np.random.default_rng(rng)
        if self.kind == "gaussian":
            return generator.standard_normal(shape)
        uniform = generator.random(shape)
        return uniform if self.kind == "cube01" else 2.0 * uniform - 1.0

    def contains(self, tokens: object) -> bool:
        """Whether every coordinate of ``tokens`` lies in the domain."""
        values = np.asarray(tokens, dtype=float)
        return bool(
            np.all(np.isfinite(values)) and np.all(values >= self.low) and np.all(values <= self.high)
        )

    def __str__(self) -> str:
        return _MEANING[self.kind]


def as_domain(domain: InputDomain | str) -> InputDomain:
    """``domain`` itself, or the domain of that kind."""
    return domain if isinstance(domain, InputDomain) else InputDomain(domain)
