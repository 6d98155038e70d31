r"""VNN-LIB files: the properties of verification competitions.

Read is the part of the grammar that VNN-COMP uses: ``declare-const`` of ``X_i`` and ``Y_j`` as ``Real``,
``assert`` with ``<=``, ``>=``, ``<``, ``>``, ``=``, ``and``, ``or``, ``not`` and linear arithmetic. The
assertions together describe the *unsafe* set: a point that satisfies them all is a violation. Decimal
constants are exact rationals. Files are data: expressions are taken apart here and nothing in them is run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.untrusted import plain_text
from hardmax.verification.properties import Atom, Condition, Joined, Linear, decimal

MAX_SIZE = 100_000_000
MAX_TOKENS = 4_000_000  # each takes up to 100 bytes of memory; an image of 150,528 numbers has three million
_MAX_DEPTH = 200
_NAME = re.compile(r"([XY])_([0-9]{1,9})")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKENS = re.compile(r";[^\n]*|[()]|\|[^|]*\||\"[^\"]*\"|[^\s();]+")
_IGNORED = ("set-logic", "set-info", "set-option", "check-sat", "get-model", "exit", "vnnlib-version")


def read_vnnlib(path: str | Path) -> Condition:
    """The unsafe set that a VNN-LIB file describes.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Condition
        True of the inputs and outputs that the property forbids; ``~`` of it is what shall hold.

    Raises
    ------
    FileFormatError
        With the line, if the file is not VNN-LIB or goes beyond the grammar.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "p.vnnlib"
    >>> _ = file.write_text("(declare-const Y_0 Real) (assert (>= Y_0 2))")
    >>> read_vnnlib(file)
    <Condition: (-y0 + 2 <= 0)>
    """
    file = Path(path)
    try:
        return parse_vnnlib(plain_text(file, most=MAX_SIZE))
    except InvalidInputError as error:
        raise FileFormatError(f"{path} cannot be read as VNN-LIB: {error}") from None


def parse_vnnlib(text: str) -> Condition:
    """The unsafe set that a VNN-LIB text describes.

    Examples
    --------
    >>> parse_vnnlib('''(declare-const X_0 Real) (declare-const Y_0 Real)
    ...     (assert (<= X_0 0.5)) (assert (>= X_0 -0.5)) (assert (or (>= Y_0 2) (<= Y_0 -2)))''')
    <Condition: (x0 - 1/2 <= 0 and -x0 - 1/2 <= 0 and (-y0 + 2 <= 0 or y0 + 2 <= 0))>
    """
    declared: set[tuple[str, int]] = set()
    asserted: list[Condition] = []
    for line, form in _forms(text):
        reader = _Assertion(line, declared)
        head = form[0] if isinstance(form, list) and form else form
        if head in ("declare-const", "declare-fun") and isinstance(form, list):
            _declare(line, form, declared)
        elif head == "assert" and isinstance(form, list) and len(form) == 2:
            asserted.append(reader.condition(form[1]))
        elif head not in _IGNORED:
            raise InvalidInputError(f"line {line}: {_short(form)} is no command that is known here.")
    if not asserted:
        raise InvalidInputError("there is no assert.")
    return Joined(True, tuple(asserted))


def _declare(line: int, form: list[Any], declared: set[tuple[str, int]]) -> None:
    name = form[1] if len(form) > 1 and isinstance(form[1], str) else ""
    match = _NAME.fullmatch(name)
    if match is None or form[-1] != "Real" or (form[2:-1] not in ([], [[]])):
        raise InvalidInputError(
            f"line {line}: declared must be X_i or Y_j of sort Real, but was {_short(form)}."
        )
    declared.add((match[1].lower(), int(match[2])))


def _forms(text: str) -> Iterator[tuple[int, Any]]:
    """The expressions of the text, each with the line on which it begins."""
    stack: list[list[Any]] = []
    begun = line = 1
    at = 0
    for count, match in enumerate(_TOKENS.finditer(text)):
        if count >= MAX_TOKENS:
            raise InvalidInputError(f"there are more than {MAX_TOKENS:,} names, numbers and brackets.")
        line += text.count("\n", at, match.start())
        at, token = match.start(), match.group()
        if token.startswith(";"):
            continue
        if token == "(":
            begun = begun if stack else line
            stack.append([])
            if len(stack) > _MAX_DEPTH:
                raise InvalidInputError(f"line {line}: brackets are more than {_MAX_DEPTH} deep.")
        elif token == ")":
            if not stack:
                raise InvalidInputError(f"line {line}: there is a ) without its (.")
            done = stack.pop()
            if stack:
                stack[-1].append(done)
            else:
                yield begun, done
        elif stack:
            stack[-1].append(token)
        else:
            raise InvalidInputError(f"line {line}: {token[:40]!r} stands outside of all brackets.")
    if stack:
        raise InvalidInputError(f"line {begun}: a ( is never closed.")


class _Assertion:
    """Reads what an assert says."""

    def __init__(self, line: int, declared: set[tuple[str, int]]) -> None:
        self.line, self.declared = line, declared

    def _wrong(self, form: Any, problem: str) -> InvalidInputError:
        return InvalidInputError(f"line {self.line}: {_short(form)} {problem}.")

    def condition(self, form: Any) -> Condition:
        if form in ("true", "false"):
            return Joined(form == "true", ())
        if not isinstance(form, list) or not form or not isinstance(form[0], str):
            raise self._wrong(form, "is no condition")
        head, *rest = form
        if head in ("and", "or"):
            return Joined(head == "and", tuple(self.condition(part) for part in rest))
        if head == "not" and len(rest) == 1:
            return ~self.condition(rest[0])
        if head in ("<=", ">=", "<", ">", "=") and len(rest) >= 2:
            values = [self.linear(part) for part in rest]
            found: list[Condition] = []
            for a, b in itertools.pairwise(values):
                if head in ("<=", "=", "<"):
                    found.append(Atom(b - a, strict=head == "<"))
                if head in (">=", "=", ">"):
                    found.append(Atom(a - b, strict=head == ">"))
            return found[0] if len(found) == 1 else Joined(True, tuple(found))
        raise self._wrong(form, "is no condition that is known here")

    def linear(self, form: Any) -> Linear:
        if isinstance(form, str):
            match = _NAME.fullmatch(form)
            if match is not None:
                name = (match[1].lower(), int(match[2]))
                if name not in self.declared:
                    raise self._wrong(form, "is used but not declared")
                return Linear(((*name, Fraction(1)),))
            if _NUMBER.fullmatch(form):
                return Linear((), decimal(form))
            raise self._wrong(form, "is neither a number nor X_i or Y_j")
        if not isinstance(form, list) or len(form) < 2 or not isinstance(form[0], str):
            raise self._wrong(form, "is no linear expression")
        head, *parts = form
        if head not in ("+", "-", "*", "/"):
            raise self._wrong(form, "is no linear expression")
        values = [self.linear(part) for part in parts]
        total, *others = values
        if head == "-" and not others:
            return -total
        if head in ("+", "-"):
            return Linear.sum([total, *(others if head == "+" else (-other for other in others))])
        for value in others:
            if head == "*" and not (total.terms and value.terms):
                total = total * value.constant if total.terms else value * total.constant
            elif head == "/" and not value.terms and value.constant:
                total = total * (1 / value.constant)
            else:
                raise self._wrong(form, "is no linear expression")
        return total


def _short(form: Any) -> str:
    def written(value: Any, room: int) -> str:
        if isinstance(value, str):
            return value[:room]
        return "(" + " ".join(written(part, room // 2) for part in value[:4]) + ")"

    text = written(form, 40)
    return text if len(text) <= 60 else text[:57] + "..."
