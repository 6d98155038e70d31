"""Nodes of the tree of cuts: a box of inputs, and facts about decisions of the network inside it.

Three kinds of cuts:

- ``("x", i, v)``: input i below or above v;
- ``("s", stage, unit)``: the pre-activation of a ReLU unit is at least zero, or below;
- ``("p", stage, group, i, j)``: score i of a group against score j. For heads that jump there are three
  cases, larger, smaller and equal; elsewhere two, at least and below;
- ``("f", stage, head, j, keys)``: for sparsemax, whether the scores of ``keys`` exceed that of j by at least
  the temperature together (then j has no weight), or by less.

A fact is a cut that is not of the first kind, with the case that holds: ``">"`` ``">="`` ``"<"`` ``"="``.
Cases exclude each other: of two units with one hyperplane, the second is then decided by the first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.verification.stages import ChooseStage, Program

Floats = NDArray[np.float64]
Cut = tuple[Any, ...]


@dataclass(frozen=True)
class Fact:
    """A cut and the case that holds."""

    cut: Cut
    case: str


@dataclass(frozen=True, eq=False)
class Node:
    """A box, facts, and the conjunctions that are still open in it."""

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    facts: tuple[Fact, ...]
    live: tuple[int, ...]
    share: float = 1.0
    depth: int = 0

    @cached_property
    def ball(self) -> tuple[Floats, Floats]:
        """Midpoints and radii of a box in floats that holds this one."""
        low = np.array([_below(v) for v in self.low])
        high = np.array([-_below(-v) for v in self.high])
        with np.errstate(over="ignore"):
            middle = low + (high - low) / 2
        middle = np.where(np.isfinite(middle), middle, low / 2 + high / 2)
        radius = np.maximum(high - middle, middle - low)
        return middle, np.where(high > low, radius * (1 + 2.0**-50) + 5e-324, radius)

    def fact(self, cut: Cut) -> str | None:
        """The case of a cut that is known here."""
        return self._known.get(cut)

    @cached_property
    def _known(self) -> dict[Cut, str]:
        return {fact.cut: fact.case for fact in self.facts}


def _below(value: Fraction) -> float:
    """The largest float that is not above a rational, or one below it."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def cases_of(program: Program, cut: Cut) -> tuple[str, ...]:
    """The cases of a cut, in the order of the children.

    For an input they are below and above.
    """
    if cut[0] == "p":
        stage = program.stages[cut[1]]
        if isinstance(stage, ChooseStage) and stage.k is not None:
            return (">", "<", "=")
    return (">=", "<")


def children(program: Program, node: Node, cut: Cut, live: tuple[int, ...]) -> list[Node]:
    """The parts of a node behind a cut; together they cover it."""
    if cut[0] == "x":
        _, i, value = cut
        below = (*node.high[:i], value, *node.high[i + 1 :])
        above = (*node.low[:i], value, *node.low[i + 1 :])
        width = node.high[i] - node.low[i]
        part = float((value - node.low[i]) / width) if width else 0.5
        return [
            Node(node.low, below, node.facts, live, node.share * part, node.depth + 1),
            Node(above, node.high, node.facts, live, node.share * (1 - part), node.depth + 1),
        ]
    cases = cases_of(program, cut)
    share = node.share / 2
    return [
        Node(
            node.low,
            node.high,
            (*node.facts, Fact(cut, case)),
            live,
            0.0 if case == "=" else share,
            node.depth + 1,
        )
        for case in cases
    ]
