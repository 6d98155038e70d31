"""Expressions of tokens, as the text form of a target writes them.

An expression is a tree of small nodes. Each knows its kind (a scalar, a vector, a transposed vector, a
matrix) and the column of the text where it stands, can be evaluated on arrays of tokens, and can say
whether it is a polynomial of degree two, which is how bilinear forms and squared sums are recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FUNCTIONS",
    "Apply",
    "Best",
    "Constant",
    "Expression",
    "Node",
    "Norm",
    "Power",
    "Product",
    "Quadratic",
    "Quotient",
    "Sum",
    "Token",
    "Transposed",
    "degree_two",
]

Floats = NDArray[np.float64]
Index = str | int  # the name of a running index, or a fixed position

FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
}


class Node:
    """A part of an expression."""

    kind: str
    column: int

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes below this one."""
        return tuple(value for value in vars(self).values() if isinstance(value, Node))

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The value: ``tokens`` are arrays (..., d), ``bests`` values of maxima."""
        return self._combined(*(part.evaluate(tokens, bests) for part in self.parts))

    def _combined(self, *values: Any) -> Any:
        """The value, given those of the parts."""
        raise NotImplementedError

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def indices(self) -> set[Index]:
        """The running indices and fixed positions of the tokens in it."""
        return {node.index for node in self.walk() if isinstance(node, Token)}


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """A number, a given vector or a given matrix."""

    value: Any
    kind: str
    column: int

    def _combined(self) -> Any:
        return self.value


@dataclass(frozen=True, eq=False)
class Token(Node):
    """x[t], or one of its coordinates."""

    index: Index
    coordinate: int | None
    column: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """A vector, or a scalar when a coordinate is taken."""
        return "vector" if self.coordinate is None else "scalar"

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The token at its index."""
        token = tokens[self.index]
        return token if self.coordinate is None else token[..., self.coordinate]


@dataclass(frozen=True, eq=False)
class Best(Node):
    """The maximum, minimum or k-th best value of a body over tuples of positions."""

    extremum: str
    names: tuple[str, ...]
    tuples: str
    rank: int
    body: Node
    column: int
    kind: str = "scalar"

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The value that was found for it."""
        return bests[self]


@dataclass(frozen=True, eq=False)
class Transposed(Node):
    """x'."""

    part: Node
    column: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """A row for a vector and a vector for a row."""
        return {"vector": "row", "row": "vector"}.get(self.part.kind, self.part.kind)

    def _combined(self, value: Any) -> Any:
        return value.T if self.kind == "matrix" else value


@dataclass(frozen=True, eq=False)
class Sum(Node):
    """a + b, or a - b with sign -1."""

    left: Node
    right: Node
    sign: float
    column: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of its parts."""
        return self.left.kind

    def _combined(self, a: Any, b: Any) -> Any:
        return a + self.sign * b


@dataclass(frozen=True, eq=False)
class Product(Node):
    """A product of numbers, vectors and matrices that fit together."""

    left: Node
    right: Node
    kind: str
    column: int

    def _combined(self, a: Any, b: Any) -> Any:
        match self.left.kind, self.right.kind:
            case "row", "vector":
                return (a * b).sum(axis=-1)
            case "matrix", "vector":
                return b @ a.T
            case "row" | "matrix", "matrix":
                return a @ b
            case "scalar", "vector" | "row":
                return np.asarray(a)[..., None] * b
            case "vector" | "row", "scalar":
                return a * np.asarray(b)[..., None]
        return a * b


@dataclass(frozen=True, eq=False)
class Quotient(Node):
    """A scalar divided by a scalar."""

    left: Node
    right: Node
    column: int
    kind: str = "scalar"

    def _combined(self, a: Any, b: Any) -> Any:
        return a / b


@dataclass(frozen=True, eq=False)
class Power(Node):
    """A scalar to a fixed power."""

    part: Node
    exponent: float
    column: int
    kind: str = "scalar"

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The power; the square of a length without its root."""
        if self.exponent != 2:
            return self.part.evaluate(tokens, bests) ** self.exponent
        base = self.part.part if isinstance(self.part, Norm) else self.part
        value = base.evaluate(tokens, bests)
        return value * value if base.kind == "scalar" else (value * value).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class Norm(Node):
    """|v|, the length of a vector or the absolute value of a scalar."""

    part: Node
    column: int
    kind: str = "scalar"

    def _combined(self, value: Any) -> Any:
        return np.abs(value) if self.part.kind == "scalar" else np.sqrt((value * value).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Apply(Node):
    """One of the functions of :data:`FUNCTIONS` of a scalar."""

    part: Node
    name: str
    column: int
    kind: str = "scalar"

    def _combined(self, value: Any) -> Any:
        return FUNCTIONS[self.name](value)


@dataclass(frozen=True, eq=False)
class Expression:
    """A scalar expression as a function of tokens, one for each name."""

    node: Node
    names: tuple[Index, ...]

    def __call__(self, *tokens: Floats) -> Floats:
        """The values at arrays of tokens (..., d)."""
        with np.errstate(all="ignore"):  # the caller refuses NaN in words
            value = self.node.evaluate(dict(zip(self.names, tokens, strict=True)), {})
        return np.broadcast_to(np.asarray(value, dtype=np.float64), tokens[0].shape[:-1])


@dataclass(frozen=True, eq=False)
class Quadratic:
    """constant + sum of linear[s] . x[s] + sum of x[s]' quadratic[s, t] x[t]."""

    constant: float = 0.0
    linear: Mapping[Index, Floats] = field(default_factory=dict)
    quadratic: Mapping[tuple[Index, Index], Floats] = field(default_factory=dict)


class _NotQuadratic(Exception):
    """Raised on the way through an expression that is no polynomial of degree two."""


def degree_two(node: Node, d: int) -> Quadratic | None:
    """A scalar as a polynomial of degree two at most in the coordinates of its tokens, or None."""
    try:
        return _scalar(node, d)
    except _NotQuadratic:
        return None


def _scalar(node: Node, d: int) -> Quadratic:
    match node:
        case Constant():
            return Quadratic(float(node.value))
        case Token() if node.coordinate is not None:
            return Quadratic(linear={node.index: np.eye(d)[node.coordinate]})
        case Sum():
            left, right = _scalar(node.left, d), _scalar(node.right, d)
            return Quadratic(
                left.constant + node.sign * right.constant,
                _added(left.linear, right.linear, node.sign),
                _added(left.quadratic, right.quadratic, node.sign),
            )
        case Quotient():
            left, right = _scalar(node.left, d), _scalar(node.right, d)
            if not (right.linear or right.quadratic or right.constant == 0.0):
                return _times(left, Quadratic(1.0 / right.constant))
        case Product() if node.left.kind == "row":
            return _inner(_vector(node.left, d), _vector(node.right, d))
        case Product():
            return _times(_scalar(node.left, d), _scalar(node.right, d))
        case Power(exponent=2):
            base = node.part.part if isinstance(node.part, Norm) else node.part
            if base.kind != "scalar":
                v = _vector(base, d)
                return _inner(v, v)
            value = _scalar(base, d)
            return _times(value, value)
    raise _NotQuadratic


_Affine = tuple[Floats, dict[Index, Floats]]  # constant vector, and a matrix for each token


def _vector(node: Node, d: int) -> _Affine:
    """A vector, or a row as the vector it transposes, as an affine map of tokens."""
    match node:
        case Constant():
            return np.asarray(node.value, dtype=float), {}
        case Token():
            return np.zeros(d), {node.index: np.eye(d)}
        case Transposed():
            return _vector(node.part, d)
        case Sum():
            (a, left), (b, right) = _vector(node.left, d), _vector(node.right, d)
            return a + node.sign * b, _added(left, right, node.sign)
        case Product():
            for factor, rest in ((node.left, node.right), (node.right, node.left)):
                if factor.kind in ("scalar", "matrix") and not factor.indices():
                    value = np.asarray(factor.evaluate({}, {}), dtype=float)
                    constant, parts = _vector(rest, d)
                    if factor.kind == "scalar":
                        return value * constant, {t: value * m for t, m in parts.items()}
                    matrix = value if factor is node.left else value.T  # a row times M is M' times the vector
                    return matrix @ constant, {t: matrix @ m for t, m in parts.items()}
    raise _NotQuadratic


def _added(one: Mapping[Any, Floats], other: Mapping[Any, Floats], factor: float = 1.0) -> dict[Any, Floats]:
    total = dict(one)
    for key, array in other.items():
        total[key] = total.get(key, 0.0) + factor * array
    return total


def _scaled(arrays: Mapping[Any, Floats], factor: float) -> dict[Any, Floats]:
    return {key: factor * array for key, array in arrays.items()}


def _times(a: Quadratic, b: Quadratic) -> Quadratic:
    if (a.quadratic and (b.linear or b.quadratic)) or (b.quadratic and a.linear):
        raise _NotQuadratic
    quadratic = _added(_scaled(a.quadratic, b.constant), b.quadratic, a.constant)
    mixed = {(s, t): np.outer(v, w) for s, v in a.linear.items() for t, w in b.linear.items()}
    linear = _added(_scaled(a.linear, b.constant), b.linear, a.constant)
    return Quadratic(a.constant * b.constant, linear, _added(quadratic, mixed))


def _inner(a: _Affine, b: _Affine) -> Quadratic:
    linear = _added({t: a[0] @ m for t, m in b[1].items()}, {t: b[0] @ m for t, m in a[1].items()})
    quadratic = {(s, t): m.T @ n for s, m in a[1].items() for t, n in b[1].items()}
    linear = {t: v for t, v in linear.items() if np.any(v)}
    return Quadratic(float(a[0] @ b[0]), linear, quadratic)
