r"""Properties: linear inequalities of inputs and outputs, joined by *and*, *or* and *not*.

A property is a :class:`Condition` that shall hold at every input of a domain. It can be written as text,

    ``y0 <= 3 and (y1 > y0 or x0 >= 0.5)``,

with inputs ``x0, x1, ...`` and outputs ``y0, y1, ...``, or made with operators from :func:`inputs` and
:func:`outputs`. Numbers are exact: ``0.1`` in a text is one tenth. To decide it, its negation is written as a
disjunction of conjunctions: the *unsafe set*, which must be empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from hardmax.bounds.large_integers import positive
from hardmax.errors import InvalidInputError
from hardmax.randomness import MOST_EXACT, check_room
from hardmax.untrusted import ratio_text

MAX_DISJUNCTS = 10_000
MAX_NESTING = 100
_MAX_TEXT = 1_000_000
_MAX_DIGITS = 1_000
_MAX_BITS = 2**15  # of a numerator or denominator: products of few numbers as long as a text may hold


@dataclass(frozen=True)
class Linear:
    r"""A linear function :math:`\sum a_i x_i + \sum b_j y_j + c` of inputs and outputs.

    Comparisons give a :class:`Condition`.

    Examples
    --------
    >>> y = outputs(2)
    >>> y[0] - 2 * y[1] + 1 <= 3
    <Condition: y0 - 2 y1 - 2 <= 0>
    """

    terms: tuple[tuple[str, int, Fraction], ...]  # ("x" or "y", index, coefficient), sorted, none zero
    constant: Fraction = Fraction(0)

    @classmethod
    def sum(cls, parts: Iterable[Linear]) -> Linear:
        """The sum of many, in time that is linear in their number.

        >>> Linear.sum([*outputs(2), *outputs(1)]) <= 0
        <Condition: 2 y0 + y1 <= 0>
        """
        sums: dict[tuple[str, int], Fraction] = {}
        constant = Fraction(0)
        for part in parts:
            for name, i, value in part.terms:
                sums[name, i] = _bounded(sums.get((name, i), 0) + value)
            if part.constant:
                constant = _bounded(constant + part.constant)
        return cls(tuple((name, i, v) for (name, i), v in sorted(sums.items()) if v), constant)

    def __add__(self, other: Linear | float | Fraction) -> Linear:
        return Linear.sum((self, _linear(other)))

    __radd__ = __add__

    def __mul__(self, factor: float | Fraction) -> Linear:
        value = _number(factor)
        if not value:
            return Linear(())
        terms = tuple((n, i, _bounded(v * value)) for n, i, v in self.terms)
        return Linear(terms, _bounded(self.constant * value))

    __rmul__ = __mul__

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Linear | float | Fraction) -> Linear:
        return self + -_linear(other)

    def __rsub__(self, other: Linear | float | Fraction) -> Linear:
        return _linear(other) - self

    def __le__(self, other: Linear | float | Fraction) -> Condition:
        return Atom(_linear(other) - self, strict=False)

    def __ge__(self, other: Linear | float | Fraction) -> Condition:
        return Atom(self - _linear(other), strict=False)

    def __lt__(self, other: Linear | float | Fraction) -> Condition:
        return Atom(_linear(other) - self, strict=True)

    def __gt__(self, other: Linear | float | Fraction) -> Condition:
        return Atom(self - _linear(other), strict=True)

    def __str__(self) -> str:
        parts = []
        for name, i, value in self.terms:
            size = "" if abs(value) == 1 else f"{ratio_text(abs(value))} "
            parts += ["-" if value < 0 else "+", f"{size}{name}{i}"]
        if self.constant or not parts:
            parts += ["-" if self.constant < 0 else "+", ratio_text(abs(self.constant))]
        text = " ".join(parts[1:])
        return text if parts[0] == "+" else f"-{text}"


class Condition:
    """Something that is true or false of an input and its output; join with ``&``, ``|`` and ``~``.

    Examples
    --------
    >>> y = outputs(2)
    >>> ~(y[0] <= y[1])
    <Condition: -y0 + y1 < 0>
    """

    def __and__(self, other: Condition) -> Condition:
        return Joined(True, (self, other))

    def __or__(self, other: Condition) -> Condition:
        return Joined(False, (self, other))

    def __invert__(self) -> Condition:
        raise NotImplementedError

    def conjunctions(self) -> list[tuple[Atom, ...]]:
        """The same as a disjunction of conjunctions of inequalities."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise InvalidInputError("conditions must be joined with &, | and ~, not with and, or and not.")

    def __repr__(self) -> str:
        return f"<Condition: {self}>"


@dataclass(frozen=True, repr=False)
class Atom(Condition):
    """``form >= 0``, or ``form > 0`` if strict."""

    form: Linear
    strict: bool

    def __invert__(self) -> Condition:
        return Atom(-self.form, not self.strict)

    def conjunctions(self) -> list[tuple[Atom, ...]]:
        """Itself."""
        return [(self,)]

    def __str__(self) -> str:
        return f"{-self.form} {'<' if self.strict else '<='} 0"


@dataclass(frozen=True, repr=False)
class Joined(Condition):
    """All (``every``) or one of several conditions."""

    every: bool
    parts: tuple[Condition, ...]

    def __invert__(self) -> Condition:
        return Joined(not self.every, tuple(~part for part in self.parts))

    def conjunctions(self) -> list[tuple[Atom, ...]]:
        """Multiplied out, as long as that stays below :data:`MAX_DISJUNCTS`."""
        lists = [part.conjunctions() for part in self.parts]
        size = 1
        for some in lists:
            size = size * len(some) if self.every else size + len(some)
            if size > MAX_DISJUNCTS + 1:
                raise InvalidInputError(
                    f"property must not have more than {MAX_DISJUNCTS} cases when it is multiplied out; "
                    "split it into several."
                )
        if not self.every:
            return [atoms for some in lists for atoms in some]
        return [tuple(dict.fromkeys(a for atoms in case for a in atoms)) for case in product(*lists)]

    def __str__(self) -> str:
        word = " and " if self.every else " or "
        return "(" + word.join(map(str, self.parts)) + ")" if self.parts else str(self.every).lower()


def inputs(d: int) -> tuple[Linear, ...]:
    """The inputs of a network, to write properties with.

    Examples
    --------
    >>> x, y = inputs(1), outputs(2)
    >>> (y[0] <= 3 * x[0]) & ~(y[1] > 0)
    <Condition: (-3 x0 + y0 <= 0 and y1 <= 0)>
    """
    return _variables("x", d)


def outputs(d: int) -> tuple[Linear, ...]:
    """The outputs of a network, to write properties with.

    Examples
    --------
    >>> outputs(2)[1] >= 3
    <Condition: -y1 + 3 <= 0>
    """
    return _variables("y", d)


def _variables(letter: str, d: int) -> tuple[Linear, ...]:
    check_room(f"the variables {letter}", positive("d", d, least=0), most=MOST_EXACT)
    return tuple(Linear(((letter, i, Fraction(1)),)) for i in range(d))


def _number(value: Any) -> Fraction:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, Fraction, np.number)):
        raise InvalidInputError(f"a property must be made of finite numbers, but has {value!r}.")
    try:
        return Fraction(value.item() if isinstance(value, np.number) else value)
    except (ValueError, OverflowError):
        raise InvalidInputError(f"a property must be made of finite numbers, but has {value!r}.") from None


def _bounded(value: Fraction) -> Fraction:
    """A number that was computed, unless it has grown beyond all use."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise InvalidInputError(
            f"a property must have numbers of at most {_MAX_BITS:,} bits, but its sums or products have more."
        )
    return value


def _linear(value: Any) -> Linear:
    return value if isinstance(value, Linear) else Linear((), _number(value))


def decimal(text: str) -> Fraction:
    """A number as it is written, exactly.

    >>> decimal("-0.1"), decimal("2e-3"), decimal("1/3")
    (Fraction(-1, 10), Fraction(1, 500), Fraction(1, 3))
    """
    exponent = re.search(r"[eE]([+-]?[0-9]+)$", text)
    if len(text) > _MAX_DIGITS or (exponent and abs(int(exponent.group(1)[:6])) > _MAX_DIGITS):
        raise InvalidInputError(f"a number must have at most {_MAX_DIGITS} digits, but one has more.")
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidInputError(f"{text[:40]!r} must be a number.") from None


# The text form
# ----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[xyXY]_?[0-9]+)"
    r"|(?P<word>[A-Za-z]+)|(?P<sign><=|>=|==|<|>|=|\+|-|\*|/|\(|\)))"
)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.place = 0
        self.depth = 0

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        at, text = 0, self.text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise self._wrong(at, "is not understood")
            yield match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup)
            at = match.end()
        yield "end", "", len(text)

    def _wrong(self, at: int, problem: str) -> InvalidInputError:
        return InvalidInputError(
            f"property must be inequalities joined by and, or, not, as in 'y0 <= 3 and y1 > y0', but "
            f"{self.text[at : at + 20]!r} at column {at + 1} {problem}."
        )

    def take(self, *wanted: str) -> str | None:
        """The next token if it is one of those wanted."""
        if self.tokens[self.place][1].lower() in wanted and self.tokens[self.place][0] in ("sign", "word"):
            self.place += 1
            return self.tokens[self.place - 1][1].lower()
        return None

    def any_of(self) -> Condition:
        parts = [self.all_of()]
        while self.take("or"):
            parts.append(self.all_of())
        return parts[0] if len(parts) == 1 else Joined(False, tuple(parts))

    def all_of(self) -> Condition:
        parts = [self.one()]
        while self.take("and"):
            parts.append(self.one())
        return parts[0] if len(parts) == 1 else Joined(True, tuple(parts))

    def one(self) -> Condition:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise InvalidInputError(f"property must not be nested more than {MAX_NESTING} deep.")
        try:
            if self.take("not"):
                return ~self.one()
            start = self.place
            if self.take("("):  # a condition in brackets, or a sum in brackets
                try:
                    inner = self.any_of()
                    if self.take(")"):
                        return inner
                except InvalidInputError:
                    pass
                self.place = start
            return self.comparison()
        finally:
            self.depth -= 1

    def comparison(self) -> Condition:
        left, parts = self.sum(), []
        while sign := self.take("<=", ">=", "<", ">", "=", "=="):
            right = self.sum()
            if sign in ("<=", "=", "=="):
                parts.append(left <= right)
            if sign in (">=", "=", "=="):
                parts.append(left >= right)
            if sign in ("<", ">"):
                parts.append(left < right if sign == "<" else left > right)
            left = right
        if not parts:
            raise self._wrong(self.tokens[self.place][2], "should be <=, >=, < or >")
        return parts[0] if len(parts) == 1 else Joined(True, tuple(parts))

    def sum(self) -> Linear:
        parts = [self.term()]
        while sign := self.take("+", "-"):
            term = self.term()
            parts.append(term if sign == "+" else -term)
        return parts[0] if len(parts) == 1 else Linear.sum(parts)

    def term(self) -> Linear:
        value = self.factor()
        while True:
            kind = self.tokens[self.place][0]
            if self.take("/"):
                by = self.factor()
                if by.terms or not by.constant:
                    raise self._wrong(self.tokens[self.place - 1][2], "should be a number other than 0")
                value = value * (1 / by.constant)
            elif self.take("*") or kind in ("name", "number"):
                other = self.factor()
                if value.terms and other.terms:
                    raise self._wrong(self.tokens[self.place - 1][2], "multiplies two unknowns")
                value = value * other.constant if value.terms else other * value.constant
            else:
                return value

    def factor(self) -> Linear:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise InvalidInputError(f"property must not be nested more than {MAX_NESTING} deep.")
        try:
            if self.take("-"):
                return -self.factor()
            if self.take("+"):
                return self.factor()
            if self.take("("):
                inner = self.sum()
                if not self.take(")"):
                    raise self._wrong(self.tokens[self.place][2], "should be )")
                return inner
            kind, text, at = self.tokens[self.place]
            self.place += 1
            if kind == "number":
                return Linear((), decimal(text))
            if kind == "name":
                if len(text) > 12:
                    raise self._wrong(at, "has too large an index")
                return Linear(((text[0].lower(), int(text[1:].lstrip("_")), Fraction(1)),))
            self.place -= 1
            raise self._wrong(at, "should be a number, an input x0, x1, ... or an output y0, y1, ...")
        finally:
            self.depth -= 1


def parsed(text: str) -> Condition:
    """The property that a text states.

    Examples
    --------
    >>> parsed("y0 <= 0.1 and not (y1 > 2 x0 or x1 < 0)")
    <Condition: (y0 - 1/10 <= 0 and (-2 x0 + y1 <= 0 and -x1 <= 0))>
    """
    if len(text) > _MAX_TEXT:
        raise InvalidInputError(f"property must have at most {_MAX_TEXT} characters, but has {len(text)}.")
    reader = _Reader(text)
    found = reader.any_of()
    if reader.tokens[reader.place][0] != "end":
        raise reader._wrong(reader.tokens[reader.place][2], "should be the end")
    return found


# The unsafe set
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constraint:
    r""":math:`a \cdot x + b \cdot y + c \ge 0`, or :math:`> 0` if strict."""

    x: tuple[Fraction, ...]
    y: tuple[Fraction, ...]
    constant: Fraction
    strict: bool

    def holds(self, point: Sequence[Fraction], values: Sequence[Fraction]) -> bool:
        """Whether it holds, exactly."""
        total = self.constant
        total += sum((a * v for a, v in zip(self.x, point, strict=True) if a), Fraction(0))
        total += sum((b * v for b, v in zip(self.y, values, strict=True) if b), Fraction(0))
        return total > 0 if self.strict else total >= 0


@dataclass(frozen=True)
class Group:
    """A box of inputs, and the conjunctions of which none may hold in it."""

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    disjuncts: tuple[tuple[Constraint, ...], ...]


def groups_of(unsafe: Condition, d: int, d_out: int, domain: Condition | None = None) -> tuple[Group, ...]:
    """The unsafe set as boxes with conjunctions; conditions on single inputs make the box.

    Conjunctions over an empty box are left out.

    >>> (group,) = groups_of(parsed("0 <= x0 and x0 <= 1 and y0 >= 2 and x0 <= y0"), 1, 1)
    >>> group.low, group.high, len(group.disjuncts[0])
    ((Fraction(0, 1),), (Fraction(1, 1),), 2)
    """
    condition = unsafe if domain is None else unsafe & domain
    found: dict[tuple[Any, Any], list[tuple[Constraint, ...]]] = {}
    for atoms in condition.conjunctions():
        low: list[Fraction | None] = [None] * d
        high: list[Fraction | None] = [None] * d
        rest, possible = [], True
        for atom in atoms:
            for name, i, _ in atom.form.terms:
                if i >= (d if name == "x" else d_out):
                    what, n = ("inputs", d) if name == "x" else ("outputs", d_out)
                    raise InvalidInputError(
                        f"property must speak of the {n} {what} of the network, {name}0 to {name}{n - 1}, "
                        f"but has {name}{i}."
                    )
            if not atom.form.terms:
                c = atom.form.constant
                possible &= c > 0 if atom.strict else c >= 0
                continue
            name, i, value = atom.form.terms[0]
            if len(atom.form.terms) == 1 and name == "x":
                bound = -atom.form.constant / value
                if value > 0:
                    low[i] = bound if low[i] is None else max(low[i], bound)  # type: ignore[type-var]
                else:
                    high[i] = bound if high[i] is None else min(high[i], bound)  # type: ignore[type-var]
                if not atom.strict:
                    continue
            rest.append(_constraint(atom, d, d_out))
        missing = next((i for i in range(d) if low[i] is None or high[i] is None), None)
        if possible and missing is not None:
            raise InvalidInputError(
                f"domain must be bounded, but input x{missing} has no "
                f"{'lower' if low[missing] is None else 'upper'} bound; give a Box or more bounds."
            )
        if possible and all(a <= b for a, b in zip(low, high, strict=True)):  # type: ignore[operator]
            found.setdefault((tuple(low), tuple(high)), []).append(tuple(rest))
    return tuple(Group(low, high, tuple(cases)) for (low, high), cases in found.items())


def _constraint(atom: Atom, d: int, d_out: int) -> Constraint:
    x, y = [Fraction(0)] * d, [Fraction(0)] * d_out
    for name, i, value in atom.form.terms:
        (x if name == "x" else y)[i] = value
    return Constraint(tuple(x), tuple(y), atom.form.constant, atom.strict)
