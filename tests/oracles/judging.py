"""Hold a computed list of Minkowski vertices against an oracle's list, exactly."""

from __future__ import annotations

import importlib.util
from fractions import Fraction

import numpy as np

from .certificates import Head, LiftedKey, tuple_problems
from .minkowski_bruteforce import ppl_vertices, simplex_vertices, sums_of_tuples

HAS_PPL = importlib.util.find_spec("ppl") is not None
WITHOUT_PPL = "pplpy is not installed: exact vertices come from the simplex oracle, on tiny instances only"
SIMPLEX_SUMS = 40  # one exact linear program per sum: this many take a fraction of a second


def reference(heads: list[Head]) -> dict[LiftedKey, tuple[int, ...]] | None:
    """The exact vertices and their tuples; None when no installed oracle can give them in reasonable time."""
    if HAS_PPL:
        return ppl_vertices(heads)
    if len(sums_of_tuples(heads)) <= SIMPLEX_SUMS:
        return simplex_vertices(heads)
    return None


def witness_of(result, row: int):
    """The witness that stands for a row: the exact one where there is one."""
    return result.exact_witnesses.get(row, result.witnesses[row])


def result_problems(result, heads: list[Head]) -> list[str]:
    """What is wrong with a result in itself: shapes, witnesses, vertices that are not sums of choices."""
    d = len(heads[0][0]) - 1
    count = result.count
    shapes = {
        "choices": (result.choices.shape, (count, len(heads))),
        "vertices": (result.vertices.shape, (count, d)),
        "witnesses": (result.witnesses.shape, (count, d)),
    }
    problems = [f"{name} has shape {got}, not {want}" for name, (got, want) in shapes.items() if got != want]
    if problems:
        return problems
    if len({tuple(row) for row in result.choices.tolist()}) != count:
        problems.append("a tuple of choices occurs twice")
    for row in range(count):
        choice = result.choices[row].tolist()
        problems += [
            f"row {row} {choice}: {text}" for text in tuple_problems(heads, choice, witness_of(result, row))
        ]
        if row in result.exact_witnesses and not tuple_problems(heads, choice, result.witnesses[row]):
            problems.append(
                f"row {row} {choice}: an exact witness although the float witness shows the strict win"
            )
        keys = [head[j] for head, j in zip(heads, choice, strict=True)]
        for axis in range(d):
            given = float(result.vertices[row, axis])
            total = sum((key[axis] for key in keys), Fraction(0))
            slack = Fraction(1, 10**13) * sum(abs(key[axis]) for key in keys)
            if (
                given in (float("inf"), float("-inf"))
                or given != given
                or abs(Fraction(given) - total) > slack
            ):
                problems.append(
                    f"row {row} {choice}: vertex coordinate {axis} is not the sum of the chosen keys"
                )
    return problems


def missing_and_extra(result, vertices: dict[LiftedKey, tuple[int, ...]]) -> tuple[set, set]:
    """Tuples that the oracle has and the result has not, and the other way round."""
    found = {tuple(row) for row in np.asarray(result.choices).tolist()}
    expected = set(vertices.values())
    return expected - found, found - expected
