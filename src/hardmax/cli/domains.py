"""Where commands look: boxes, convex polygons and slices, with every number exactly as it was typed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from hardmax.cli.inputs import read_matrix
from hardmax.errors import InvalidInputError
from hardmax.geometry.domains import Polytope

__all__ = ["NUMBER", "Number", "exact_number", "read_polygon", "read_slice"]

Number = float | Fraction


def exact_number(text: str) -> float | Fraction:
    """A number as it was typed: a fraction such as ``1/3`` stays one.

    >>> exact_number("1/3"), exact_number("-4")
    (Fraction(1, 3), -4.0)
    """
    try:
        return Fraction(text.strip()) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidInputError(
            f"a number such as -4, 0.5 or 1/3 is needed, but {text[:40]!r} was given."
        ) from None


class _Number(click.ParamType):
    """A number or a fraction on the command line."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | Fraction:
        try:
            return value if isinstance(value, (float, Fraction)) else exact_number(str(value))
        except InvalidInputError as error:
            self.fail(str(error), param, ctx)


NUMBER = _Number()


def read_slice(text: str | None, path: Path | None) -> list[Any] | None:
    """Origin and directions of a slice, from the command line or from a file; ``None`` without one.

    >>> read_slice("0,0,1:1,0,0:0,1/2,0", None)
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, Fraction(1, 2), 0.0]]
    """
    if text is None and path is None:
        return None
    if text is not None and path is not None:
        raise InvalidInputError("--slice and --slice-file say the same twice; leave one out.")
    if path is not None:
        rows = read_matrix(path, "point").tolist()
    else:
        rows = [[exact_number(entry) for entry in row.split(",")] for row in str(text).split(":")]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1:
        raise InvalidInputError(
            f"{path or '--slice'} must hold an origin and one or more directions of the same length, as in "
            "0,0,1:1,0,0:0,1,0."
        )
    return rows


def read_polygon(path: Path, d: int = 2) -> Polytope:
    """Half-spaces (a, b) with a.x <= b, or in the plane the corners (x, y) of a convex polygon in order."""
    rows: list[Any] = [[Fraction(entry) for entry in row] for row in read_matrix(path, "corner").tolist()]
    if len(rows[0]) == d + 1:
        return Polytope([row[:d] for row in rows], [row[d] for row in rows])
    if d != 2:
        raise InvalidInputError(
            f"{path} must hold half-spaces of {d + 1} numbers (a, b) with a.x <= b, but its rows have "
            f"{len(rows[0])}."
        )
    if len(rows[0]) != 2 or len(rows) < 3:
        raise InvalidInputError(
            f"{path} must hold at least three corners (x, y) or half-planes (a, b, c), but has shape "
            f"({len(rows)}, {len(rows[0])})."
        )
    turns = [_turn(rows[i - 2], rows[i - 1], rows[i]) for i in range(len(rows))]
    if not (all(turn > 0 for turn in turns) or all(turn < 0 for turn in turns)):
        raise InvalidInputError(f"{path} must hold the corners of a convex polygon in order.")
    sign = 1 if turns[0] > 0 else -1
    a: Any = [
        [sign * (q[1] - p[1]), sign * (p[0] - q[0])] for p, q in zip(rows, rows[1:] + rows[:1], strict=True)
    ]
    b: Any = [u * x + v * y for (u, v), (x, y) in zip(a, rows, strict=True)]
    return Polytope(a, b)


def _turn(p: list[Fraction], q: list[Fraction], r: list[Fraction]) -> Fraction:
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
