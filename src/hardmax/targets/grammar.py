r"""The text form of targets: ``sum(i<4) max(s,t) x[s]' A[i] x[t]``.

The text is read by a recursive-descent parser; nothing is evaluated as Python. Every error names the column.

::

    target   = sum
    sum      = product { ("+" | "-") product }
    product  = unary { ["*" | "/"] unary }            factors may stand side by side: x[s]' A x[t]
    unary    = "-" unary | power
    power    = atom [ "^" number ]
    atom     = number | name | token | "(" sum ")" | "|" sum "|" | function "(" sum ")" | best | repeated
               each followed by any number of "'" (transposed)
    token    = "x" "[" index "]" [ "[" whole "]" ]    a token, or one of its coordinates
    name     = letter { letter | digit } [ "[" whole | index "]" ]      a given matrix or vector
    best     = ("max" | "min") "(" indices ")" product
             | "kth" "(" whole "," index ")" product                    the k-th largest value
    indices  = index { "," index }                    any positions
             | index { "!=" index }                   no position twice
             | index { "<" index } | index { "<=" index }               ascending
    repeated = "sum" "(" index "<" whole ")" product  the sum for index = 0, 1, ...
    function = "abs" | "sqrt" | "exp" | "log" | "tanh" | "sin" | "cos"

The body of ``max``, ``min``, ``kth`` and ``sum`` is one product: it ends at the next ``+`` or ``-``, so
``max(t) x[t][0] + min(t) x[t][0]`` has two terms and ``max(s,t) (x[s][0] - x[t][1])`` needs its brackets.
Positions, coordinates and the index of ``sum`` count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import GrowingActiveSetError, TargetSyntaxError
from hardmax.targets.expressions import (
    FUNCTIONS,
    Apply,
    Best,
    Constant,
    Index,
    Node,
    Norm,
    Power,
    Product,
    Quotient,
    Sum,
    Token,
    Transposed,
)

Floats = NDArray[np.float64]

_WHOLE = re.compile("[0-9]{1,9}")
_SYMBOL = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(<=|!=|[-+*/^()\[\]|',<])|(\S))"
)
_PRODUCT_KINDS = {
    ("row", "vector"): "scalar",
    ("row", "matrix"): "row",
    ("matrix", "vector"): "vector",
    ("matrix", "matrix"): "matrix",
}
for _kind in ("scalar", "vector", "row", "matrix"):
    _PRODUCT_KINDS |= {("scalar", _kind): _kind, (_kind, "scalar"): _kind}
_KINDS = {",": "all", "!=": "distinct", "<=": "unordered", "<": "subsets"}
_SUMMANDS = 1000
_MOST_REPEATED = 200_000  # symbols, when sums are written out
_WORDS = ("max", "min", "kth", "sum", "x", *FUNCTIONS)


@dataclass(frozen=True)
class _Symbol:
    kind: str  # "number", "name", "sign", "end"
    text: str
    column: int


def _symbols(text: str) -> list[_Symbol]:
    found, at = [], 0
    while match := _SYMBOL.match(text, at):
        group = match.lastindex or 0
        symbol = _Symbol(("", "number", "name", "sign", "stray")[group], match[group], match.start(group) + 1)
        if symbol.kind == "stray":
            raise TargetSyntaxError(text, symbol.column, f"{symbol.text!r} has no meaning here")
        found.append(symbol)
        at = match.end()
    return [*found, _Symbol("end", "the end of the text", len(text.rstrip()) + 1)]


def names_in(text: str) -> dict[str, int]:
    """The given matrices that a text needs, names with a capital, with how many of each (0 without an index).

    Examples
    --------
    >>> names_in("sum(i<4) max(s,t) x[s]' A[i] B x[t]")
    {'A': 4, 'B': 0}
    """
    symbols = _symbols(text)
    texts = [symbol.text for symbol in symbols]
    counts = {
        texts[i + 2]: int(texts[i + 4])
        for i in range(len(texts) - 5)
        if texts[i : i + 2] == ["sum", "("] and texts[i + 3] == "<" and _WHOLE.fullmatch(texts[i + 4])
    }
    needed: dict[str, int] = {}
    for i, symbol in enumerate(symbols):
        if symbol.kind == "name" and symbol.text[0].isupper():
            count = 0
            if texts[i + 1] == "[":
                inside = texts[i + 2]
                count = int(inside) + 1 if _WHOLE.fullmatch(inside) else counts.get(inside, 0)
            needed[symbol.text] = max(needed.get(symbol.text, 0), count)
    return needed


class Parser:
    """Reads one text.

    ``given`` maps names to matrices (d, d), vectors (d,) or stacks of them. Without d the text is read as
    if tokens were numbers and ``coordinates`` tells how many coordinates it asks for.
    """

    def __init__(self, text: str, given: Mapping[str, Floats], d: int | None) -> None:
        self.text, self.given = text, given
        self.d = 1 if d is None else d
        self.any_coordinate = d is None
        self.coordinates = 0  # as many as the text asks for
        self.symbols = _symbols(text)
        self.at = 0
        self.running: list[str] = []  # indices of the maximum around
        self.counters: dict[str, int] = {}  # indices of sums around
        self.repeated = 0  # symbols that sums have read, each as often as it was

    def target(self) -> Node:
        """The whole text, as a scalar."""
        if self.symbols[0].kind == "end":
            raise TargetSyntaxError(self.text, 1, 'there is nothing to read; try "max(t) x[t][0]"')
        node = self._as_scalar(self._sum())
        if self._next.kind != "end":
            raise self._unexpected("the end of the text")
        return node

    # Symbols

    @property
    def _next(self) -> _Symbol:
        return self.symbols[self.at]

    def _take(self, text: str | None = None, expected: str = "") -> _Symbol:
        symbol = self._next
        if text is not None and (symbol.text != text or symbol.kind == "end"):
            raise self._unexpected(expected or repr(text))
        self.at += 1
        return symbol

    def _sees(self, *texts: str) -> bool:
        return self._next.kind == "sign" and self._next.text in texts

    def _error(self, column: int, problem: str) -> TargetSyntaxError:
        return TargetSyntaxError(self.text, column, problem)

    def _unexpected(self, expected: str) -> TargetSyntaxError:
        found = self._next
        shown = found.text if found.kind == "end" else repr(found.text)
        return self._error(found.column, f"expected {expected}, but found {shown}")

    def _whole(self, what: str) -> int:
        symbol = self._next
        if symbol.kind != "number" or not _WHOLE.fullmatch(symbol.text):
            raise self._unexpected(f"a whole number of at most nine digits for {what}")
        return int(self._take().text)

    def _number(self) -> float:
        symbol = self._take()
        value = float(symbol.text)
        if not isfinite(value):
            raise self._error(symbol.column, f"the number {symbol.text} is too large")
        return value

    # Expressions

    def _sum(self) -> Node:
        node = self._product()
        while self._sees("+", "-"):
            sign = self._take()
            right = self._product()
            if node.kind != right.kind:
                node, right = self._as_scalar(node), self._as_scalar(right)
            node = Sum(node, right, 1.0 if sign.text == "+" else -1.0, sign.column)
        return node

    def _product(self) -> Node:
        node = self._unary()
        while True:
            if self._sees("*", "/"):
                sign = self._take()
                right = self._unary()
                if sign.text == "/":
                    node = Quotient(self._as_scalar(node), self._as_scalar(right), sign.column)
                else:
                    node = self._times(node, right, sign.column)
            elif self._next.kind in ("name", "number") or self._sees("("):
                column = self._next.column
                node = self._times(node, self._power(), column)
            else:
                return node

    def _times(self, left: Node, right: Node, column: int) -> Node:
        kinds = (left.kind, right.kind)
        if kinds not in _PRODUCT_KINDS and self.d == 1:  # tokens of dimension 1 are numbers
            left, right = self._as_scalar(left), self._as_scalar(right)
            kinds = (left.kind, right.kind)
        if kinds not in _PRODUCT_KINDS:
            hint = "; transpose the first: x[s]' x[t]" if kinds == ("vector", "vector") else ""
            raise self._error(column, f"a {kinds[0]} times a {kinds[1]} has no meaning here{hint}")
        return Product(left, right, _PRODUCT_KINDS[kinds], column)

    def _unary(self) -> Node:
        if self._sees("-"):
            column = self._take().column
            return self._times(Constant(-1.0, "scalar", column), self._unary(), column)
        return self._power()

    def _power(self) -> Node:
        node = self._atom()
        if self._sees("^"):
            column = self._take().column
            negative = self._sees("-") and bool(self._take())
            if self._next.kind != "number":
                raise self._unexpected("a number as exponent")
            exponent = self._number()
            node = Power(self._as_scalar(node), -exponent if negative else exponent, column)
        return node

    def _atom(self) -> Node:
        symbol = self._next
        if symbol.kind == "number":
            node: Node = Constant(self._number(), "scalar", symbol.column)
        elif symbol.kind == "name":
            node = self._named()
        elif self._sees("("):
            self._take()
            node = self._sum()
            self._take(")")
        elif self._sees("|"):
            self._take()
            node = Norm(self._sum(), symbol.column)
            self._take("|", "a closing '|'")
        else:
            raise self._unexpected("a number, a name or a bracket")
        while self._sees("'"):
            node = Transposed(node, self._take().column)
        return node

    def _named(self) -> Node:
        symbol = self._take()
        word = symbol.text
        if word == "x":
            return self._token(symbol.column)
        if word in ("max", "min", "kth") and self._sees("("):
            return self._best(symbol)
        if word == "sum" and self._sees("("):
            return self._repeated(symbol)
        if word in FUNCTIONS and self._sees("("):
            self._take("(")
            node = self._as_scalar(self._sum())
            self._take(")")
            return Apply(node, word, symbol.column)
        return self._given(symbol)

    def _token(self, column: int) -> Node:
        self._take("[", "'[' and a position after x")
        index = self._index()
        self._take("]")
        if not self._sees("["):
            return Token(index, None, column)
        self._take()
        place = self._next.column
        coordinate = self._counter_or_whole("a coordinate")
        self._take("]")
        self.coordinates = max(self.coordinates, coordinate + 1)
        if coordinate >= self.d and not self.any_coordinate:
            raise self._error(
                place, f"coordinate {coordinate} is beyond tokens of dimension {self.d}, counted from 0"
            )
        return Token(index, coordinate, column)

    def _index(self) -> Index:
        symbol = self._next
        if symbol.kind == "number":
            position = self._whole("a position")
            if self.running:
                raise self._error(
                    symbol.column, f"position {position} is fixed, but the maximum runs over all of them"
                )
            return position
        if symbol.kind != "name":
            raise self._unexpected("an index or a position")
        self._take()
        if symbol.text in self.counters:
            if self.running:
                raise self._error(symbol.column, f"{symbol.text!r} is a fixed position inside a maximum")
            return self.counters[symbol.text]
        if symbol.text not in self.running:
            known = ", ".join((*self.running, *self.counters))
            have = f"only {known} can stand here" if known else "no max, min or sum around it names it"
            raise self._error(symbol.column, f"the index {symbol.text!r} is not known; {have}")
        return symbol.text

    def _counter_or_whole(self, what: str) -> int:
        if self._next.kind == "name" and self._next.text in self.counters:
            return self.counters[self._take().text]
        return self._whole(what)

    def _best(self, word: _Symbol) -> Node:
        if self.running:
            raise self._error(
                word.column, f"{word.text} stands inside the body of another; close that with brackets"
            )
        self._take("(")
        rank = 1
        if word.text == "kth":
            place = self._next.column
            rank = self._whole("k")
            if rank < 1:
                raise self._error(place, "k must be 1 or more")
            self._take(",")
        indices, signs = [self._fresh([])], set()
        while self._sees(*_KINDS):
            signs.add(self._take().text)
            indices.append(self._fresh([index.text for index in indices]))
        if len(signs) > 1:
            joined = " and ".join(sorted(signs))
            raise self._error(indices[0].column, f"one sign must join all indices, but {joined} do")
        if rank > 1 and len(indices) > 1:
            raise self._error(indices[1].column, "kth takes a single index")
        self._take(")", "')' or another index")
        self.running = [index.text for index in indices]
        body = self._as_scalar(self._product())
        for index in indices:
            if index.text not in body.indices():
                problem = f"the index {index.text!r} is not used in the body of {word.text}"
                raise self._error(index.column, problem)
        tuples = _KINDS[signs.pop()] if signs else "all"
        extremum = "min" if word.text == "min" else "max"
        names, self.running = tuple(self.running), []
        return Best(extremum, names, tuples, rank, body, word.column)

    def _fresh(self, taken: list[str]) -> _Symbol:
        symbol = self._next
        if symbol.kind != "name":
            raise self._unexpected("the name of an index")
        if symbol.text in (*taken, *self.counters, *_WORDS):
            raise self._error(symbol.column, f"{symbol.text!r} is taken; choose another name for the index")
        return self._take()

    def _repeated(self, word: _Symbol) -> Node:
        self._take("(")
        name = self._fresh(self.running).text
        if self._sees(")"):
            raise GrowingActiveSetError(
                f"column {word.column} of {self.text!r}: a sum over all positions makes the active set grow "
                f"with T; give it an end, as in sum({name}<4)."
            )
        self._take("<", f"'<' and the number of summands after {name!r}")
        place = self._next.column
        count = self._whole("the number of summands")
        if not 1 <= count <= _SUMMANDS:
            raise self._error(place, f"a sum needs 1 to {_SUMMANDS} summands, but has {count}")
        self._take(")")
        body_at, node = self.at, None
        for value in range(count):
            self.at = body_at
            self.counters[name] = value
            part = self._product()
            self.repeated += self.at - body_at
            if self.repeated > _MOST_REPEATED:
                raise self._error(place, f"sums stand for more than {_MOST_REPEATED:,} symbols")
            node = part if node is None else Sum(node, part, 1.0, word.column)
        del self.counters[name]
        return node  # type: ignore[return-value]

    def _given(self, symbol: _Symbol) -> Node:
        name = symbol.text
        which = None
        if self._sees("["):
            self._take()
            which = self._counter_or_whole(f"the index of {name}")
            self._take("]")
        if name not in self.given:
            known = [*self.given, *_WORDS, *self.running, *self.counters]
            close = get_close_matches(name, known, n=1)
            near = f"; did you mean {close[0]!r}?" if close else "; give it with matrices={...}"
            raise self._error(symbol.column, f"the name {name!r} is not known{near}")
        value = np.asarray(self.given[name], dtype=np.float64)
        if which is not None:
            if value.ndim < 2 or which >= len(value):
                count = len(value) if value.ndim > 1 else 0
                raise self._error(
                    symbol.column, f"there are {count} matrices {name}, so {name}[{which}] is not known"
                )
            value = value[which]
        if value.shape not in ((self.d, self.d), (self.d,)):
            raise self._error(
                symbol.column,
                f"{name} must have shape ({self.d}, {self.d}) or ({self.d},), but has {value.shape}",
            )
        return Constant(value, "matrix" if value.ndim == 2 else "vector", symbol.column)

    def _as_scalar(self, node: Node) -> Node:
        if node.kind == "scalar":
            return node
        if self.d == 1:
            if isinstance(node, Token):
                return Token(node.index, 0, node.column)
            if node.kind == "matrix":
                return Constant(float(np.asarray(node.evaluate({}, {})).reshape(())), "scalar", node.column)
            one = Constant(np.ones(1), "vector", node.column)
            row = node if node.kind == "row" else Transposed(node, node.column)
            return Product(row, one, "scalar", node.column)
        hint = "; take a coordinate, x[t][0], or a length, |x[t]|" if node.kind == "vector" else ""
        raise self._error(node.column, f"a number is needed here, but this is a {node.kind}{hint}")
