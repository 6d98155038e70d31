"""Expressions of tokens, as the text form of a target writes them.

An expression is a tree of small nodes. Each knows its kind (a scalar, a vector, a transposed vector, a
matrix) and the column of the text where it stands, can be evaluated on arrays of tokens, and can say
whether it is a polynomial of degree two, which is how bilinear forms and squared sums are recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


# Polynomials
# ----------------------------------------------------------------------------------------------------------

Polynomial = dict[tuple[Index, ...], Any]
"""The coefficients of a scalar or of a vector by the tokens they multiply: () is the constant, (s,) holds
those of the coordinates of x[s], (s, t) those of products of coordinates of x[s] and x[t]. Of a vector, the
first axis counts its entries."""


_WIDEST = 2**12  # coordinates of a token in a product: 134 MB for each pair of tokens


class _NotQuadratic(Exception):
    """Raised on the way through an expression that is no polynomial of degree two."""


def degree_two(node: Node, d: int) -> Polynomial | None:
    """A scalar as a polynomial of degree two at most in the coordinates of its tokens, or None.

    Where it would hold d x d numbers of tokens with thousands of coordinates, it is not made.
    """
    try:
        return _polynomial(node, d)
    except _NotQuadratic:
        return None


def _polynomial(node: Node, d: int) -> Polynomial:
    """A scalar, or a vector that is affine in the tokens; a row counts as the vector it transposes."""
    match node:
        case Constant():
            return {(): node.value}
        case Token():
            if node.coordinate is None and d > _WIDEST:
                raise _NotQuadratic
            return {(node.index,): np.eye(d) if node.coordinate is None else one_at(node.coordinate, d)}
        case Transposed():
            return _polynomial(node.part, d)
        case Sum():
            signed = _product({(): node.sign}, _polynomial(node.right, d))
            return _collected([*_polynomial(node.left, d).items(), *signed.items()])
        case Quotient():
            divisor = _polynomial(node.right, d)
            if divisor.keys() <= {()} and divisor.get((), 0.0) != 0.0:
                return _product(_polynomial(node.left, d), {(): 1.0 / divisor[()]})
        case Power(exponent=2):
            base = node.part.part if isinstance(node.part, Norm) else node.part
            factor = _polynomial(base, d)
            return _product(factor, factor, inner=base.kind != "scalar")
        case Product(kind="scalar"):
            left, right = _polynomial(node.left, d), _polynomial(node.right, d)
            return _product(left, right, inner=node.left.kind == "row")
        case Product(kind="vector" | "row"):
            for one, rest in ((node.left, node.right), (node.right, node.left)):
                if one.kind in ("scalar", "matrix") and not one.indices():
                    value = np.asarray(one.evaluate({}, {}), dtype=float)
                    turned = value if one is node.left else value.T  # a row times M is M' times the vector
                    return {
                        tokens: turned @ part if one.kind == "matrix" else value * part
                        for tokens, part in _polynomial(rest, d).items()
                    }
    raise _NotQuadratic


def one_at(index: int, d: int) -> NDArray[np.float64]:
    """The weights of one coordinate of d.

    >>> one_at(1, 3)
    array([0., 1., 0.])
    """
    weights = np.zeros(d)
    weights[index] = 1.0
    return weights


def _collected(parts: Iterable[tuple[tuple[Index, ...], Any]]) -> Polynomial:
    total: Polynomial = {}
    for tokens, part in parts:
        total[tokens] = total.get(tokens, 0.0) + part
    return total


def _product(a: Polynomial, b: Polynomial, *, inner: bool = False) -> Polynomial:
    """The product of two scalars, of a scalar and a vector, or the inner product of two vectors."""
    if any(len(s) + len(t) > 2 for s in a for t in b):
        raise _NotQuadratic
    if not inner and any(np.size(m) * np.size(n) > _WIDEST**2 for m in a.values() for n in b.values()):
        raise _NotQuadratic
    times = (lambda m, n: m.T @ n) if inner else np.multiply.outer
    return _collected((s + t, times(m, n)) for s, m in a.items() for t, n in b.items())
