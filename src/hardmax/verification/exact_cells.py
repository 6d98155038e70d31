"""The exact affine map of a node on which everything is decided, and its facts as exact rows."""

from __future__ import annotations

from typing import Any

import flint
import numpy as np

from hardmax.exact.rationals import rational
from hardmax.verification.nodes import Cut, Fact, Node
from hardmax.verification.programs import ZERO, Q, Row
from hardmax.verification.properties import Constraint
from hardmax.verification.relaxation import sparsemax_map
from hardmax.verification.stages import AffineStage, ChooseStage, MaxStage, Program, ReluStage

CASES = {">": ">", "<": ">", ">=": ">=", "=": "="}


class ExactCell:
    """The network on a node, as far as the choices go: rows [A | b] of the last state that is known.

    ``facts`` are the rows of those facts whose stage was reached.
    """

    def __init__(self, program: Program, node: Node, choices: list[Any]) -> None:
        self.program, self.node = program, node
        d = program.d
        self.rows = flint.fmpq_mat(d, d + 1, [int(i == j) for i in range(d) for j in range(d + 1)])
        self.facts: dict[int, Row] = {}
        self.complete = True
        for number, stage in enumerate(program.stages):
            self._read_facts(number, stage)
            if isinstance(stage, AffineStage):
                self.rows = stage.composed(self.rows)
            elif choices[number] is None:
                self.complete = False
                return
            elif isinstance(stage, ReluStage):
                for unit in np.flatnonzero(~choices[number]).tolist():
                    for c in range(d + 1):
                        self.rows[stage.first + unit, c] = ZERO
            elif isinstance(stage, MaxStage):
                kept = [
                    *range(stage.first),
                    *(a + w for a, w in zip(stage.starts, choices[number], strict=False)),
                ]
                self._take([{place: flint.fmpq(1)} for place in kept])
            else:
                self._choose(stage, choices[number])

    def _read_facts(self, number: int, stage: Any) -> None:
        for k, fact in enumerate(self.node.facts):
            if fact.cut[1] == number:
                self.facts[k] = self._fact(stage, fact)

    def _fact(self, stage: Any, fact: Fact) -> Row:
        combination, constant = functional(stage, fact.cut)
        row = [constant if c == self.program.d else ZERO for c in range(self.program.d + 1)]
        for place, weight in combination.items():
            for c in range(self.program.d + 1):
                row[c] += weight * self.rows[place, c]
        if fact.case == "<":
            row = [-value for value in row]
        return Row(tuple(row[:-1]), row[-1], CASES[fact.case])

    def _take(self, combinations: list[dict[int, Q]], constants: list[Q] | None = None) -> None:
        width = self.program.d + 1
        made = flint.fmpq_mat(len(combinations), width)
        for i, combination in enumerate(combinations):
            for place, weight in combination.items():
                for c in range(width):
                    made[i, c] = made[i, c] + weight * self.rows[place, c]
            if constants is not None:
                made[i, width - 1] = made[i, width - 1] + constants[i]
        self.rows = made

    def _choose(self, stage: ChooseStage, choices: list[Any]) -> None:
        e = stage.outputs.shape[1]
        combinations: list[dict[int, Q]] = [{i: flint.fmpq(1)} if stage.keep else {} for i in range(e)]
        constants = [ZERO] * e
        for h, choice in enumerate(choices):
            a = stage.starts[h]
            values = stage.values[a - stage.first : stage.starts[h + 1] - stage.first]
            if stage.k is not None:
                for j, weight in choice.items():
                    for i in range(e):
                        constants[i] += rational(weight * values[j, i])
                continue
            linear, constant = sparsemax_map(choice, stage.temperatures[h])
            for i in range(e):
                for p, j in enumerate(choice):
                    constants[i] += rational(values[j, i] * constant[p])
                    for q, l in enumerate(choice):
                        weight = rational(values[j, i] * linear[p][q])
                        combinations[i][a + l] = combinations[i].get(a + l, ZERO) + weight
        self._take(combinations, constants)

    def constraint(self, constraint: Constraint) -> Row:
        """A constraint of a property as a row over the inputs."""
        d = self.program.d
        row = [rational(value) for value in (*constraint.x, constraint.constant)]
        for j, weight in enumerate(constraint.y):
            if weight:
                factor = rational(weight)
                for c in range(d + 1):
                    row[c] += factor * self.rows[j, c]
        return Row(tuple(row[:-1]), row[-1], ">" if constraint.strict else ">=")


def functional(stage: Any, cut: Cut) -> tuple[dict[int, Q], Q]:
    """What a cut compares with zero: weights of the state that enters the stage, and a constant."""
    one = flint.fmpq(1)
    if cut[0] == "s":
        return {stage.first + cut[2]: one}, ZERO
    start = stage.starts[cut[2]]
    if cut[0] == "p":
        return {start + cut[3]: one, start + cut[4]: -one}, ZERO
    _, _, head, j, keys = cut
    weights = {start + i: one for i in keys}
    weights[start + j] = flint.fmpq(-len(keys))
    return weights, -rational(stage.temperatures[head])
