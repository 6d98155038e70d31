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
        return ()

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The value: ``tokens`` are arrays (..., d), ``bests`` values of maxima."""
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
class OfOne(Node):
    """Made of one part."""

    part: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        """What it is made of."""
        return (self.part,)


@dataclass(frozen=True, eq=False)
class OfTwo(Node):
    """Made of two parts."""

    left: Node
    right: Node

    @property
    def parts(self) -> tuple[Node, ...]:
        """What it is made of."""
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """A number, a given vector or a given matrix."""

    value: Any
    kind: str
    column: int

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """Itself."""
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

    @property
    def parts(self) -> tuple[Node, ...]:
        """Its body."""
        return (self.body,)

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The value that was found for it."""
        return bests[self]


@dataclass(frozen=True, eq=False)
class Transposed(OfOne):
    """x'."""

    column: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """A row for a vector and a vector for a row."""
        return {"vector": "row", "row": "vector"}.get(self.part.kind, self.part.kind)

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The same array, or the transposed matrix."""
        value = self.part.evaluate(tokens, bests)
        return value.T if self.kind == "matrix" else value


@dataclass(frozen=True, eq=False)
class Sum(OfTwo):
    """a + b, or a - b with sign -1."""

    sign: float
    column: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of its parts."""
        return self.left.kind

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The sum."""
        return self.left.evaluate(tokens, bests) + self.sign * self.right.evaluate(tokens, bests)


@dataclass(frozen=True, eq=False)
class Product(OfTwo):
    """A product of numbers, vectors and matrices that fit together."""

    kind: str
    column: int

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The product."""
        a, b = self.left.evaluate(tokens, bests), self.right.evaluate(tokens, bests)
        kinds = (self.left.kind, self.right.kind)
        if kinds == ("row", "vector"):
            return (a * b).sum(axis=-1)
        if kinds == ("row", "matrix"):
            return a @ b
        if kinds == ("matrix", "vector"):
            return b @ a.T
        if kinds == ("matrix", "matrix"):
            return a @ b
        if kinds[0] == "scalar" and kinds[1] in ("vector", "row"):
            return np.asarray(a)[..., None] * b
        if kinds[1] == "scalar" and kinds[0] in ("vector", "row"):
            return a * np.asarray(b)[..., None]
        return a * b


@dataclass(frozen=True, eq=False)
class Quotient(OfTwo):
    """A scalar divided by a scalar."""

    column: int
    kind: str = "scalar"

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The quotient."""
        return self.left.evaluate(tokens, bests) / self.right.evaluate(tokens, bests)


@dataclass(frozen=True, eq=False)
class Power(OfOne):
    """A scalar to a fixed power."""

    exponent: float
    column: int
    kind: str = "scalar"

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The power; the square of a length without its root."""
        if isinstance(self.part, Norm) and self.exponent == 2:
            value = self.part.part.evaluate(tokens, bests)
            return (value * value).sum(axis=-1)
        value = self.part.evaluate(tokens, bests)
        return value * value if self.exponent == 2 else value**self.exponent


@dataclass(frozen=True, eq=False)
class Norm(OfOne):
    """|v|, the length of a vector or the absolute value of a scalar."""

    column: int
    kind: str = "scalar"

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The length."""
        value = self.part.evaluate(tokens, bests)
        return np.abs(value) if self.part.kind == "scalar" else np.sqrt((value * value).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Apply(OfOne):
    """One of the functions of :data:`FUNCTIONS` of a scalar."""

    name: str
    column: int
    kind: str = "scalar"

    def evaluate(self, tokens: Mapping[Index, Floats], bests: Mapping[Node, Floats]) -> Any:
        """The value of the function."""
        return FUNCTIONS[self.name](self.part.evaluate(tokens, bests))


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


def degree_two(node: Node, d: int) -> Quadratic | None:
    """A scalar as a polynomial of degree two at most in the coordinates of its tokens, or None."""
    return _scalar(node, d)


def _scalar(node: Node, d: int) -> Quadratic | None:
    if isinstance(node, Constant):
        return Quadratic(float(node.value))
    if isinstance(node, Token) and node.coordinate is not None:
        return Quadratic(linear={node.index: np.eye(d)[node.coordinate]})
    if isinstance(node, Sum):
        left, right = _scalar(node.left, d), _scalar(node.right, d)
        return None if left is None or right is None else _add(left, right, node.sign)
    if isinstance(node, Quotient):
        left, right = _scalar(node.left, d), _scalar(node.right, d)
        if left is None or right is None or right.linear or right.quadratic or right.constant == 0.0:
            return None
        return _times(left, Quadratic(1.0 / right.constant))
    if isinstance(node, Product):
        if node.left.kind == "row":
            a, b = _vector(node.left, d), _vector(node.right, d)
            return None if a is None or b is None else _inner(a, b)
        left, right = _scalar(node.left, d), _scalar(node.right, d)
        return None if left is None or right is None else _times(left, right)
    if isinstance(node, Power) and node.exponent == 2:
        if isinstance(node.part, Norm) and node.part.part.kind != "scalar":
            v = _vector(node.part.part, d)
            return None if v is None else _inner(v, v)
        base = _scalar(node.part.part if isinstance(node.part, Norm) else node.part, d)
        return None if base is None else _times(base, base)
    return None


_Affine = tuple[Floats, dict[Index, Floats]]  # constant vector, and a matrix for each token


def _vector(node: Node, d: int) -> _Affine | None:
    """A vector, or a row as the vector it transposes, as an affine map of tokens."""
    if isinstance(node, Constant):
        return np.asarray(node.value, dtype=float), {}
    if isinstance(node, Token):
        return np.zeros(d), {node.index: np.eye(d)}
    if isinstance(node, Transposed):
        return _vector(node.part, d)
    if isinstance(node, Sum):
        left, right = _vector(node.left, d), _vector(node.right, d)
        if left is None or right is None:
            return None
        parts = dict(left[1])
        for t, matrix in right[1].items():
            parts[t] = parts.get(t, 0.0) + node.sign * matrix
        return left[0] + node.sign * right[0], parts
    if isinstance(node, Product):
        for factor, rest in ((node.left, node.right), (node.right, node.left)):
            if factor.kind in ("scalar", "matrix") and not factor.indices():
                value = np.asarray(factor.evaluate({}, {}), dtype=float)
                inner = _vector(rest, d)
                if inner is None:
                    return None
                if factor.kind == "scalar":
                    return value * inner[0], {t: value * m for t, m in inner[1].items()}
                matrix = value if factor is node.left else value.T  # a row times M is M' times the vector
                return matrix @ inner[0], {t: matrix @ m for t, m in inner[1].items()}
    return None


def _add(a: Quadratic, b: Quadratic, sign: float) -> Quadratic:
    linear, quadratic = dict(a.linear), dict(a.quadratic)
    for t, v in b.linear.items():
        linear[t] = linear.get(t, 0.0) + sign * v
    for pair, m in b.quadratic.items():
        quadratic[pair] = quadratic.get(pair, 0.0) + sign * m
    return Quadratic(a.constant + sign * b.constant, linear, quadratic)


def _times(a: Quadratic, b: Quadratic) -> Quadratic | None:
    if (a.quadratic and (b.linear or b.quadratic)) or (b.quadratic and a.linear):
        return None
    linear = {t: b.constant * v for t, v in a.linear.items()}
    for t, v in b.linear.items():
        linear[t] = linear.get(t, 0.0) + a.constant * v
    quadratic = {pair: b.constant * m for pair, m in a.quadratic.items()}
    for pair, m in b.quadratic.items():
        quadratic[pair] = quadratic.get(pair, 0.0) + a.constant * m
    for s, v in a.linear.items():
        for t, w in b.linear.items():
            quadratic[s, t] = quadratic.get((s, t), 0.0) + np.outer(v, w)
    return Quadratic(a.constant * b.constant, linear, quadratic)


def _inner(a: _Affine, b: _Affine) -> Quadratic:
    linear: dict[Index, Floats] = {}
    for t, m in b[1].items():
        linear[t] = linear.get(t, 0.0) + a[0] @ m
    for t, m in a[1].items():
        linear[t] = linear.get(t, 0.0) + b[0] @ m
    quadratic = {(s, t): m.T @ n for s, m in a[1].items() for t, n in b[1].items()}
    linear = {t: v for t, v in linear.items() if np.any(v)}
    return Quadratic(float(a[0] @ b[0]), linear, quadratic)
