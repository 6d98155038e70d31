r"""Tokens: where they lie, and functions of a few of them, which terms of a target maximise or minimise.

Every target carries its input domain, because verdicts depend on it. P2 uses three: the cube [0,1]^d in its
section 3, [-1,1]^d in appendices A.1 and D.1, Gaussian tokens in its experiments. On [0,1]^1 the
triangle-center target is a plain minimum, on [-1,1]^d it compares triples.

A user's function takes r arrays of tokens, each (..., d), and returns an array (...). The forms of P2 are
classes, so that their best tuples can be found fast and their degenerate cases recognised: a bilinear form
:math:`x(s)^\top A x(t)` of equations (6) and (8), and the squared length of a sum of tokens of equation (7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.randomness import check_room, generator_of

Floats = NDArray[np.float64]
TokenFunction = Callable[..., Any]
Method = TypeVar("Method", bound=Callable[..., Any])
_MEANING = {"cube01": "[0, 1]^d, uniform", "cube11": "[-1, 1]^d, uniform", "gaussian": "R^d, standard normal"}


def as_matrix(matrix: ArrayLike, name: str) -> Floats:
    """A finite square matrix of floats, read-only."""
    values = np.array(matrix, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise DimensionMismatchError(
            f"{name} must be a square matrix (d, d), but its shape was {values.shape}."
        )
    if not np.all(np.isfinite(values)):
        raise NotFiniteError(f"{name} must hold real numbers, but holds NaN or an infinity.")
    values.setflags(write=False)
    return values


def as_sequences(sequences: ArrayLike, d: int | None = None, least: int = 1) -> Floats:
    """Sequences (B, T, d) of finite floats, with T at least ``least``."""
    X = np.asarray(sequences, dtype=np.float64)
    if X.ndim != 3 or X.shape[1] < least or (d is not None and X.shape[2] != d):
        raise DimensionMismatchError(
            f"sequences must have shape (B, T, {d or 'd'}), or one of them (T, {d or 'd'}), with T at least "
            f"{least}, but had shape {X.shape}."
        )
    if not np.all(np.isfinite(X)):
        raise NotFiniteError("sequences must hold real numbers, but hold NaN or an infinity.")
    return X


def one_or_many(method: Method) -> Method:
    """A method of sequences (B, T, d) that takes one sequence (T, d) as well: its row of the result."""

    @wraps(method)
    def of_either(self: Any, sequences: ArrayLike) -> Any:
        if np.ndim(sequences) != 2:
            return method(self, sequences)
        found = method(self, np.asarray(sequences)[None])
        return tuple(rows[0] for rows in found) if isinstance(found, tuple) else found[0]

    return cast(Method, of_either)


def returned(value: Any, shape: tuple[int, ...], name: str, *, nan: bool = False) -> Floats:
    """What a user's function returned, as floats; refused when it has another shape, or NaN in it."""
    values = np.asarray(value, dtype=np.float64)
    if values.shape != shape:
        raise DimensionMismatchError(f"{name} must return shape {shape}, but returned shape {values.shape}.")
    if not nan and np.isnan(values).any():
        raise NotFiniteError(f"{name} must return real numbers, but returned NaN.")
    return values


@dataclass(frozen=True, eq=False)
class Bilinear:
    r""":math:`(ax + b)^\top A (ay + b) + c` with a matrix A and numbers a, b, c.

    The affine map of the tokens carries a target from one cube to another: a = 2, b = -1 maps [0,1]^d to
    [-1,1]^d.
    """

    matrix: Floats
    scale: float = 1.0
    offset: float = 0.0
    constant: float = 0.0

    def __call__(self, first: Floats, second: Floats) -> Floats:
        """The form at two arrays of tokens (..., d)."""
        left = self.scale * first + self.offset
        right = self.scale * second + self.offset
        return np.asarray(((left @ self.matrix) * right).sum(axis=-1) + self.constant)

    def table(self, sequences: Floats, sign: float = 1.0) -> Floats:
        """Values of all pairs of positions up to the constant, times a sign: (B, T, d) gives (B, T, T)."""
        tokens = self.scale * sequences + self.offset
        return np.asarray((tokens @ (sign * self.matrix)) @ tokens.transpose(0, 2, 1))

    @property
    def symmetric(self) -> bool:
        """Whether both tokens play the same part."""
        return bool(np.array_equal(self.matrix, self.matrix.T))

    def definiteness(self) -> str:
        """``"positive"``, ``"negative"`` (semidefinite, symmetric), ``"zero"`` or ``"neither"``."""
        if not self.matrix.any():
            return "zero"
        if not self.symmetric:
            return "neither"
        eigenvalues = np.linalg.eigvalsh(self.matrix)
        slack = 1e-12 * float(np.abs(eigenvalues).max())
        if eigenvalues.min() >= -slack:
            return "positive"
        return "negative" if eigenvalues.max() <= slack else "neither"

    def rank(self) -> int:
        """The rank of the matrix."""
        return int(np.linalg.matrix_rank(self.matrix))


@dataclass(frozen=True, eq=False)
class SquaredSum:
    r""":math:`\lvert \sum_j (a x_j + b) \rvert^2` of r tokens."""

    arity: int
    scale: float = 1.0
    offset: float = 0.0

    def __call__(self, *tokens: Floats) -> Floats:
        """The squared length at r arrays of tokens (..., d)."""
        total = tokens[0]
        for token in tokens[1:]:
            total = total + token
        total = self.scale * total + self.arity * self.offset
        return np.asarray((total * total).sum(axis=-1))

    @property
    def symmetric(self) -> bool:
        """All tokens play the same part."""
        return True


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of a token."""

    index: int

    def __call__(self, token: Floats) -> Floats:
        """The coordinate of tokens (..., d)."""
        return np.asarray(token[..., self.index])


@dataclass(frozen=True)
class LinearForm:
    r""":math:`w \cdot x` of a token."""

    weights: tuple[float, ...]

    def __call__(self, token: Floats) -> Floats:
        """The inner product with tokens (..., d)."""
        return np.asarray(token @ np.array(self.weights))


def check_arity(
    function: TokenFunction, arity: int, d_token: int, points: Sequence[Floats], name: str
) -> None:
    """Refuse a function that cannot be evaluated, returns another shape, or ignores one of its tokens.

    ``points`` are r arrays (n, d) of sample tokens.
    """
    try:
        found = np.asarray(function(*points), dtype=np.float64)
    except Exception as error:
        raise InvalidInputError(
            f"{name} must be a function of {arity} arrays of tokens (..., {d_token}), but calling it raised "
            f"{type(error).__name__}: {error}."
        ) from error
    value = returned(found, points[0].shape[:-1], name, nan=True)
    if not np.all(np.isfinite(value)):
        raise NotFiniteError(
            f"{name} must return real numbers, but returned NaN or an infinity on tokens of its domain."
        )
    for j in range(arity):
        moved = list(points)
        moved[j] = np.roll(points[j], 1, axis=0)
        if np.array_equal(np.asarray(function(*moved), dtype=np.float64), value):
            raise InvalidInputError(
                f"{name} must depend on each of its {arity} tokens, but does not change with token {j}; "
                "leave that token out."
            )


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
        generator = generator_of(rng)
        check_room("samples", *shape)
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
