"""From text to target: which parts are terms, which of them have a form that is known, what joins them.

:mod:`hardmax.targets.grammar` reads the text into an expression. Here its top-level summands are sorted:
a maximum with a constant factor becomes a term (a negative factor turns it into a minimum), tokens at fixed
positions become one fixed term, and what is left, a product or function of maxima, becomes the outer
function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.errors import DimensionMismatchError, InvalidInputError, TargetSyntaxError
from hardmax.randomness import check_room, generator_of
from hardmax.targets.expressions import (
    Best,
    Constant,
    Expression,
    Index,
    Node,
    Polynomial,
    Product,
    Quotient,
    Sum,
    Token,
    degree_two,
)
from hardmax.targets.grammar import Parser, names_in
from hardmax.targets.target import Target
from hardmax.targets.terms import FixedTerm, Term
from hardmax.targets.tokens import (
    Bilinear,
    Coordinate,
    InputDomain,
    LinearForm,
    SquaredSum,
    TokenFunction,
    as_domain,
    as_matrix,
)

Floats = NDArray[np.float64]

_MOST_COORDINATES = 2**22  # of a token


def parse(
    text: str,
    *,
    matrices: ArrayLike | Mapping[str, ArrayLike] | None = None,
    d: int | None = None,
    domain: InputDomain | str = "cube11",
    rng: int | np.random.Generator | None = None,
) -> Target:
    """Read a target from its text form; the grammar is at :mod:`hardmax.targets.grammar`.

    Parameters
    ----------
    text : str
        For example ``"sum(i<4) max(s,t) x[s]' A[i] x[t]"`` or ``"min(r,s,t) |x[r] + x[s] + x[t]|^2"``.
    matrices : array or mapping of str to array, optional
        The matrices (d, d) and vectors (d,) that the text names, or stacks of them; an array alone is ``A``.
    d : int, optional
        The dimension of a token; that of the matrices when left out, or as many coordinates as the text
        names, or 1.
    domain : {"cube11", "cube01", "gaussian"}
        Where tokens lie.
    rng : int or Generator, optional
        Draw the entries of matrices that are named, with a capital, but not given: independent standard
        normal.

    Raises
    ------
    TargetSyntaxError
        When the text cannot be read; its ``column`` counts from 1.
    GrowingActiveSetError
        When the text sums over all positions.

    Examples
    --------
    >>> import hardmax as hm
    >>> target = hm.targets.parse("max(t) x[t][0] - 2 min(s!=t) |x[s] - x[t]|^2")
    >>> target([[[1.0], [4.0], [2.0]]])
    array([2.])
    >>> hm.targets.parse("sum(i<4) max(s,t) x[s]' A[i] x[t]", d=4, rng=0).dimension
    <Interval: 2>
    >>> hm.targets.parse("max(t x[t][0]")
    Traceback (most recent call last):
    hardmax.errors.TargetSyntaxError: column 7 of 'max(t x[t][0]': expected ')' or another index, but found
    'x'.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"text must be a string, but was a {type(text).__name__}.")
    given = _given(matrices)
    width = _width(given) if d is None else d
    if width is None and rng is not None and names_in(text):
        raise InvalidInputError("d must be given when matrices are drawn, but was left out.")
    if width is None:
        parser = Parser(text, given, None)
        _read(parser, text)
        width = max(parser.coordinates, 1)
    width = positive("d", width)
    check_room("a token", width, most=_MOST_COORDINATES)
    if rng is not None:
        generator = generator_of(rng)
        for name, count in names_in(text).items():
            if name not in given:
                shape = (count, width, width) if count else (width, width)
                check_room("matrices", *shape)
                given[name] = generator.standard_normal(shape)
    return _assembled(_read(Parser(text, given, width), text), text, width, as_domain(domain))


def _read(parser: Parser, text: str) -> Node:
    try:
        return parser.target()
    except RecursionError:
        raise TargetSyntaxError(text[:40], 1, "the brackets are nested too deeply to be read") from None


def _given(matrices: ArrayLike | Mapping[str, ArrayLike] | None) -> dict[str, Floats]:
    if matrices is None:
        return {}
    named = matrices if isinstance(matrices, Mapping) else {"A": matrices}
    given = {}
    for name, value in named.items():
        try:
            array = np.array(value, dtype=np.float64)
        except ValueError as error:
            raise DimensionMismatchError(f"matrices[{name!r}] must be an array of one shape.") from error
        if array.ndim not in (1, 2, 3) or array.size == 0:
            raise DimensionMismatchError(
                f"matrices[{name!r}] must be a vector, a matrix or a stack of matrices, but its shape was "
                f"{array.shape}."
            )
        if not np.all(np.isfinite(array)):
            raise InvalidInputError(
                f"matrices[{name!r}] must hold real numbers, but holds NaN or an infinity."
            )
        given[name] = array
    return given


def _width(given: Mapping[str, Floats]) -> int | None:
    widths = {array.shape[-1] for array in given.values()}
    if len(widths) > 1:
        raise DimensionMismatchError(f"matrices must all belong to one dimension, but name {sorted(widths)}.")
    return widths.pop() if widths else None


def _assembled(node: Node, text: str, d: int, domain: InputDomain) -> Target:
    best: list[tuple[float, Best]] = []
    fixed: list[tuple[float, Node]] = []
    joined: list[tuple[float, Node]] = []
    constant = 0.0
    for factor, part in _summands(node, 1.0, text):
        has_best = [n for n in part.walk() if isinstance(n, Best)]
        places = [n.column for n in part.walk() if isinstance(n, Token) and isinstance(n.index, int)]
        if has_best and places:
            raise TargetSyntaxError(
                text,
                places[0],
                "a token at a fixed position is multiplied by a maximum; only sums of both can be read",
            )
        if isinstance(part, Best):
            best.append((factor, part))
        elif has_best:
            joined.append((factor, part))
        elif part.indices():
            fixed.append((factor, part))
        else:
            constant += factor * _number(part, text)
    if not best and not fixed and not joined:
        raise TargetSyntaxError(text, 1, "no token takes part, so there is nothing to compute")
    if not joined:
        terms: list[Term | FixedTerm] = [
            _term(one, factor, constant if i == 0 else 0.0, d) for i, (factor, one) in enumerate(best)
        ]
        if fixed:
            terms.append(_fixed(fixed, 0.0 if best else constant))
        return Target(tuple(terms), None, d, domain, text)
    nodes = [n for _, part in [*best, *joined] for n in part.walk() if isinstance(n, Best)]
    terms = [_term(one, 1.0, 0.0, d) for one in nodes]
    if fixed:
        terms.append(_fixed(fixed, 0.0))
    outer = _Combination(tuple(nodes), (*best, *joined), constant, plus_last=bool(fixed))
    return Target(tuple(terms), outer, d, domain, text)


@dataclass(frozen=True, eq=False)
class _Combination:
    """A constant plus expressions times factors, as a function of an array whose columns are the values of
    maxima, or tokens at fixed positions; the value of a fixed term may be one more column that is added."""

    columns: tuple[Any, ...]
    summands: tuple[tuple[float, Node], ...]
    constant: float
    plus_last: bool = False

    def __call__(self, array: Floats) -> Floats:
        known: dict[Any, Floats] = {column: array[:, j] for j, column in enumerate(self.columns)}
        total = np.full(len(array), self.constant)
        for factor, part in self.summands:
            total = total + factor * np.asarray(part.evaluate(known, known))
        return total + array[:, -1] if self.plus_last else total


def _summands(node: Node, factor: float, text: str) -> list[tuple[float, Node]]:
    """The summands of a scalar, each with a constant factor."""
    if isinstance(node, Sum):
        return [*_summands(node.left, factor, text), *_summands(node.right, factor * node.sign, text)]
    if isinstance(node, Product) and node.left.kind == node.right.kind == "scalar":
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if not _varies(one):
                return _summands(other, factor * _number(one, text, "a factor"), text)
    if isinstance(node, Quotient) and not _varies(node.right):
        return _summands(node.left, factor / _number(node.right, text, "a divisor"), text)
    return [(factor, node)]


def _number(node: Node, text: str, what: str = "") -> float:
    """The value of an expression without tokens; factors and divisors must not be zero."""
    try:
        with np.errstate(all="ignore"):
            value = float(node.evaluate({}, {}))
    except (ArithmeticError, TypeError):
        value = float("nan")
    if not np.isfinite(value):
        raise TargetSyntaxError(text, node.column, "this is not a real number")
    if what and value == 0.0:
        raise TargetSyntaxError(text, node.column, f"{what} must not be zero")
    return value


def _varies(node: Node) -> bool:
    return bool(node.indices()) or any(isinstance(n, Best) for n in node.walk())


def _term(best: Best, factor: float, constant: float, d: int) -> Term:
    body = best.body
    if factor != 1.0:
        body = Product(Constant(factor, "scalar", body.column), body, "scalar", body.column)
    if constant:
        body = Sum(body, Constant(constant, "scalar", body.column), 1.0, body.column)
    extremum = best.extremum if factor > 0 else {"max": "min", "min": "max"}[best.extremum]
    function = _recognised(degree_two(body, d), best.names) or Expression(body, best.names)
    return Term(function, len(best.names), extremum, best.tuples, best.rank)


def _fixed(parts: list[tuple[float, Node]], constant: float) -> FixedTerm:
    positions = tuple(sorted({int(index) for _, part in parts for index in part.indices()}))
    return FixedTerm(positions, _Combination(positions, tuple(parts), constant))


def _recognised(form: Polynomial | None, names: tuple[str, ...]) -> TokenFunction | None:
    """The known form that a polynomial of degree two is, if it is one."""
    if form is None:
        return None
    constant = float(form.get((), 0.0))
    linear, quadratic = ({k: m for k, m in form.items() if len(k) == n and np.any(m)} for n in (1, 2))
    if len(names) == 1 and not quadratic and not constant and linear:
        weights = linear[names[:1]]
        if weights.max() == 1.0 and np.count_nonzero(weights) == 1:
            return Coordinate(int(weights.argmax()))
        return LinearForm(tuple(weights.tolist()))
    if linear or not quadratic:
        return None
    zero = np.zeros_like(next(iter(quadratic.values())))

    def coupling(s: Index, t: Index) -> Any:
        return quadratic.get((s, t), zero) + (quadratic.get((t, s), zero).T if s != t else 0.0)

    if len(names) == 2 and not any(np.any(coupling(name, name)) for name in names):
        return Bilinear(as_matrix(coupling(names[0], names[1]), "matrix"), constant=constant)
    square = coupling(names[0], names[0])
    scale = float(square[0, 0])
    eye = scale * np.eye(len(square))
    same = all(np.array_equal(coupling(s, t), eye if s == t else 2 * eye) for s in names for t in names)
    if len(names) > 1 and scale > 0.0 and not constant and same:
        return SquaredSum(len(names), scale**0.5)
    return None
