r"""Where cells are looked for: a box, a polytope, or the whole space.

Every domain is an intersection of half-spaces :math:`\{x : Ax \le b\}` with interior. The whole space has
none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, EmptyDomainError, InvalidInputError, written
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.randomness import MOST_EXACT, check_room
from hardmax.untrusted import ratio_of, ratio_text


class _Halfspaces:
    """What every domain offers."""

    if TYPE_CHECKING:  # fields of some domains, properties of others

        @property
        def d(self) -> int:
            """The dimension of the space."""
            ...

        @property
        def a(self) -> ExactArray:
            """The rows of A, exactly."""
            ...

        @property
        def b(self) -> ExactArray:
            """The right-hand sides b, exactly."""
            ...

    def halfspaces(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``(A, b)`` with :math:`A x \\le b`, as floats; of a box the upper sides first."""
        return self.a.floats, self.b.floats

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Which of the points (one per row) satisfy every inequality, in float arithmetic."""
        x = as_exact(points, "points", ndim=2).floats
        if x.shape[1] != self.d:
            raise DimensionMismatchError(f"points must have {self.d} columns, but have {x.shape[1]}.")
        return np.asarray((x @ self.a.floats.T <= self.b.floats).all(axis=1))


@dataclass(frozen=True, init=False, eq=False)
class Polytope(_Halfspaces):
    r"""The polyhedron :math:`\{x \in \mathbb{R}^d : A x \le b\}`.

    It may be unbounded. Rows of ``A`` that are zero, and systems without interior, are refused when cells are
    looked for.

    Examples
    --------
    >>> triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
    >>> triangle.contains([[0.2, 0.2], [1.0, 1.0]])
    array([ True, False])
    """

    a: ExactArray
    b: ExactArray

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        matrix, vector = as_exact(A, "A", ndim=2), as_exact(b, "b", ndim=1)
        if matrix.shape[0] != vector.shape[0]:
            raise DimensionMismatchError(
                f"A and b must have as many rows, but have {matrix.shape[0]} and {vector.shape[0]}."
            )
        if matrix.shape[1] == 0:
            raise InvalidInputError(f"A must have at least one column, but has shape {matrix.shape}.")
        object.__setattr__(self, "a", matrix)
        object.__setattr__(self, "b", vector)

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return self.a.shape[1]

    def state(self) -> dict[str, Any]:
        """The domain as plain values."""
        return {"kind": "Polytope", "a": _plain(self.a), "b": _plain(self.b)}

    def __repr__(self) -> str:
        return f"Polytope(d={self.d}, {self.b.shape[0]} half-spaces)"


@dataclass(frozen=True, init=False, eq=False)
class Box(_Halfspaces):
    r"""The box :math:`[l_1, h_1] \times \dots \times [l_d, h_d]`.

    Examples
    --------
    >>> Box([-1, -1], [1, 2]).volume
    6.0
    >>> Box.cube(3, -4, 4)
    Box([-4, -4, -4], [4, 4, 4])
    """

    low: ExactArray
    high: ExactArray

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        lower, upper = as_exact(low, "low", ndim=1), as_exact(high, "high", ndim=1)
        if lower.shape != upper.shape:
            raise DimensionMismatchError(
                f"low and high must have the same length, but have {lower.shape[0]} and {upper.shape[0]}."
            )
        if lower.shape[0] == 0:
            raise InvalidInputError("low must have at least one entry, but is empty.")
        for i in range(lower.shape[0]):
            if lower.rational(i) >= upper.rational(i):
                raise EmptyDomainError(
                    f"low must be below high in every coordinate, but coordinate {i} has "
                    f"{lower.floats[i]:g} and {upper.floats[i]:g}."
                )
        object.__setattr__(self, "low", lower)
        object.__setattr__(self, "high", upper)

    @classmethod
    def cube(cls, d: int, low: Any, high: Any) -> Box:
        """The cube :math:`[low, high]^d`."""
        if d < 1:
            raise InvalidInputError(f"d must be at least 1, but was {written(d)}.")
        check_room("the corners", d, 2, most=MOST_EXACT)
        return cls([low] * d, [high] * d)

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return self.low.shape[0]

    @property
    def volume(self) -> float:
        """The product of the side lengths."""
        return float(np.prod(self.high.floats - self.low.floats))

    @cached_property
    def a(self) -> ExactArray:
        """The rows of A, exactly."""
        identity = np.eye(self.d)
        return ExactArray(np.concatenate([identity, -identity]))

    @cached_property
    def b(self) -> ExactArray:
        """The right-hand sides b, exactly."""
        return as_exact(np.concatenate([self.high.numbers, -self.low.numbers]), "box", ndim=1)

    def state(self) -> dict[str, Any]:
        """The domain as plain values."""
        return {"kind": "Box", "low": _plain(self.low), "high": _plain(self.high)}

    def __repr__(self) -> str:
        low, high = (", ".join(f"{v:g}" for v in side.floats) for side in (self.low, self.high))
        return f"Box([{low}], [{high}])"


@dataclass(frozen=True)
class WholeSpace(_Halfspaces):
    r"""All of :math:`\mathbb{R}^d`.

    Examples
    --------
    >>> WholeSpace(2).contains([[1e300, 0.0]])
    array([ True])
    """

    d: int

    def __post_init__(self) -> None:
        if self.d < 1:
            raise InvalidInputError(f"d must be at least 1, but was {self.d}.")

    @property
    def a(self) -> ExactArray:
        """The rows of A, exactly."""
        return ExactArray(np.empty((0, self.d)))

    @property
    def b(self) -> ExactArray:
        """The right-hand sides b, exactly."""
        return ExactArray(np.empty(0))

    def state(self) -> dict[str, Any]:
        """The domain as plain values."""
        return {"kind": "WholeSpace", "d": self.d}


Domain = Box | Polytope | WholeSpace


def domain_of(state: dict[str, Any]) -> Domain:
    """The domain that plain values stand for.

    >>> domain_of(Box([0, -1], [1, 2]).state())
    Box([0, -1], [1, 2])
    """
    if state["kind"] == "WholeSpace":
        return WholeSpace(int(state["d"]))
    if state["kind"] == "Box":
        return Box(_numbers(state["low"]), _numbers(state["high"]))
    b = _numbers(state["b"])
    a = np.array(_numbers(state["a"]), dtype=object).reshape(len(b), -1)
    return Polytope(a.tolist(), b)


def _plain(array: ExactArray) -> list[Any]:
    if array.fractions is not None:
        return [ratio_text(value) for value in array.fractions.flat]
    return array.floats.ravel().tolist()


def _numbers(values: list[Any]) -> list[Any]:
    return [ratio_of(value) if isinstance(value, str) else float(value) for value in values]
