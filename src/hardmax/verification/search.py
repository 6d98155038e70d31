r"""The search: nodes are closed by proofs, or cut.

On every node the relaxation (:mod:`hardmax.verification.relaxation`) bounds the constraints of each
conjunction of the unsafe set. A conjunction is closed where one of them, or a combination of them with the
node's facts, is negative everywhere. Points that look unsafe in floats are evaluated in rationals. What is
left is cut: an input is halved while many decisions are open; few are cut at the hyperplanes where they
change. On a node without open decisions the network is affine, and a linear program in rationals decides:
with multipliers, or with a point. There are finitely many decisions, so the search ends with a verdict,
however tight the property is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from hardmax.exact.rationals import fraction, rational
from hardmax.networks.network import Network
from hardmax.verification import programs
from hardmax.verification.exact_cells import ExactCell
from hardmax.verification.nodes import Cut, Node, children
from hardmax.verification.properties import Constraint, Group
from hardmax.verification.relaxation import Outcome, Rows, relaxed
from hardmax.verification.stages import Program, exact_text

Floats = NDArray[np.float64]

FEW = 6  # so many open decisions are cut rather than inputs halved
_MULTIPLIERS = 2**20
_PROGRAM_UP_TO = 40  # combinations of constraints are looked for with at most so many open decisions
_FINEST = 2.0**-40  # inputs are not halved below this part of the box
_NEARLY = 1e-9
_RISE = 0.125  # a threshold rises by at least this part of the bound above it
_TOUCHING = 1e-7
_ARITY = 4  # more than the parts of a cut


@dataclass(eq=False)
class Branch:
    """A node of the tree: what was proven there, and how it was cut; ``node`` is set while it is open."""

    node: Node | None
    proofs: list[list[Any]] = field(default_factory=list)
    cut: Cut | None = None
    children: list[Branch] = field(default_factory=list)
    bound: float = 0.0  # what the goal can be above the threshold, at most: the next branch has the largest


@dataclass(eq=False)
class Violation:
    """An input of the unsafe set: the conjunction that holds there, the exact point, and the outputs."""

    disjunct: int
    point: tuple[Fraction, ...]
    outputs: tuple[Fraction, ...]


class Explorer:
    """Closes or cuts the nodes of one group.

    With ``rising``, the only constraint is ``objective > threshold`` and the threshold rises to the best
    value that is found: at the end it is the supremum. When it is ``late``, no more points are tried.
    """

    def __init__(
        self,
        network: Network,
        program: Program,
        group: Group,
        *,
        rising: bool = False,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.network, self.program, self.group = network, program, group
        self.rising, self.late = rising, late
        self.best: tuple[Fraction, tuple[Fraction, ...], bool] | None = None
        middle, radius = self.root().ball
        with np.errstate(over="ignore"):
            self.magnitudes = program.magnitudes(np.abs(middle) + radius)
        self.disjuncts = [list(conjunction) for conjunction in group.disjuncts]
        self._float_parts()

    def _float_parts(self) -> None:
        self._parts = [
            (
                np.array([[float(v) for v in c.x] for c in conjunction]).reshape(-1, self.program.d),
                np.array([[float(v) for v in c.y] for c in conjunction]).reshape(-1, self.program.d_out),
                np.array([float(c.constant) for c in conjunction]),
            )
            for conjunction in self.disjuncts
        ]

    def root(self) -> Node:
        """The whole box."""
        return Node(self.group.low, self.group.high, (), tuple(range(len(self.group.disjuncts))))

    # One node
    # ------------------------------------------------------------------------------------------------------

    def visit(self, branch: Branch) -> Violation | None:
        """Close the branch or cut it into new open ones; or find a violation."""
        node = branch.node
        assert node is not None
        outcome = relaxed(self.program, node, self.magnitudes)
        proofs: list[list[Any]] = []
        live, rows = [], {}
        touching = False
        for d in node.live:
            rows[d] = self._rows(d, outcome)
            proof, touches = (None, False) if outcome.lost else self._closed(d, rows[d], outcome)
            touching |= touches
            if proof is None:
                live.append(d)
            else:
                proofs.append(proof)
                if proof[1] < 0:
                    live = []
                    break
        if live:
            found = self._tried(node, live, rows)
            if found is not None and not self.rising:
                return found
            if found is not None:
                live = [d for d in live if not self._recheck(d, outcome, proofs)]
        cut: Cut | None = None
        if live:
            if not outcome.open and not outcome.lost:
                violation = self._decided(node, live, outcome, proofs)
                if violation is not None:
                    return violation
            elif (touching or all(what.cut[0] == "empty" for what in outcome.open)) and self._emptied(
                node, outcome, proofs
            ):
                pass
            else:
                cut = self._cut(node, live, rows, outcome)
        branch.proofs = proofs
        branch.node = None
        if cut is not None:
            branch.cut = cut
            bound = float(rows[live[0]].highest()[0]) if self.rising else 0.0
            parts = children(self.program, node, cut, tuple(live))
            branch.children = [Branch(part, bound=bound) for part in parts]
        return None

    def _rows(self, d: int, outcome: Outcome) -> Rows:
        """The constraints of a conjunction as affine forms."""
        on_x, on_y, constants = self._parts[d]
        out, inputs = outcome.out, outcome.inputs
        columns = on_y @ out.columns + on_x @ inputs.columns
        columns[:, 0] += constants
        size = np.abs(on_y) @ (np.abs(out.columns).sum(axis=1) + out.radius)
        size += np.abs(on_x) @ np.abs(inputs.columns).sum(axis=1) + np.abs(constants)
        return Rows(columns, np.abs(on_y) @ out.radius + 2.0**-42 * size)

    def _closed(self, d: int, rows: Rows, outcome: Outcome) -> tuple[list[Any] | None, bool]:
        """A proof, if there is one; and whether constraints and facts can only just hold together."""
        highest = rows.highest()
        best = int(np.argmin(highest)) if len(highest) else -1
        if best >= 0 and highest[best] < 0.0:
            return ["b", d, [[best, 1]], []], False
        if outcome.facts or (len(highest) > 1 and len(outcome.open) <= _PROGRAM_UP_TO):
            return _combined(d, rows, outcome)
        return None, False

    def _recheck(self, d: int, outcome: Outcome, proofs: list[list[Any]]) -> bool:
        """Whether a conjunction is closed now that the threshold has risen."""
        proof = None if outcome.lost else self._closed(d, self._rows(d, outcome), outcome)[0]
        if proof is not None:
            proofs.append(proof)
        return proof is not None

    # Violations
    # ------------------------------------------------------------------------------------------------------

    def _tried(self, node: Node, live: list[int], rows: dict[int, Rows]) -> Violation | None:
        """The middle of the box and the corners to which constraints point."""
        n = self.program.d
        signs = [np.zeros(n)]
        for d in live:
            for row in rows[d].columns:
                signs.append(np.sign(row[1 : 1 + n]))
            if len(rows[d].columns) > 1:
                scaled = rows[d].columns / np.abs(rows[d].columns).sum(axis=1, keepdims=True).clip(1e-300)
                signs.append(np.sign(scaled[:, 1 : 1 + n].sum(axis=0)))
        corners = np.unique(np.array(signs), axis=0)
        middle, radius = node.ball
        # a threshold rises by steps that matter: exact values cost more than nodes
        least = _RISE * float(rows[live[0]].highest()[0]) if self.rising else 0.0
        return self.try_points(middle + corners * radius, live, node, corners, least)

    def try_points(
        self,
        points: Floats,
        live: Sequence[int],
        node: Node,
        corners: Floats | None = None,
        least: float = 0.0,
    ) -> Violation | None:
        """A point at which a live conjunction holds exactly, if one looks so in floats, by ``least``."""
        values = self.program.values(points)
        for d in live:
            on_x, on_y, constants = self._parts[d]
            margins = values @ on_y.T + points @ on_x.T + constants
            size = np.abs(values) @ np.abs(on_y.T) + np.abs(points) @ np.abs(on_x.T) + np.abs(constants)
            slack = (margins + _NEARLY * size).min(axis=1, initial=np.inf)
            order = np.argsort(-slack)
            for i in order[:2].tolist():
                if not slack[i] >= least:
                    break
                if self.late():  # an exact value costs a second in a wide network
                    return None
                point = self._exact(points[i], node, None if corners is None else corners[i])
                outputs = self.violates(d, point)
                if outputs is not None:
                    return Violation(d, point, outputs)
        return None

    def _exact(self, point: Floats, node: Node, corner: Floats | None) -> tuple[Fraction, ...]:
        found = []
        for i, (low, high) in enumerate(zip(node.low, node.high, strict=True)):
            if corner is not None and corner[i] != 0.0:
                found.append(low if corner[i] < 0.0 else high)
            else:
                found.append(min(max(Fraction(float(point[i])), low), high))
        return tuple(found)

    def violates(self, d: int, point: tuple[Fraction, ...]) -> tuple[Fraction, ...] | None:
        """The outputs at a point where a conjunction holds, in rationals; a rising threshold rises there."""
        values = self.network.exact_value(np.array(point, dtype=object))
        if not all(constraint.holds(point, values) for constraint in self.disjuncts[d]):
            return None
        if self.rising:
            goal = self.disjuncts[0][0]
            value = sum((b * v for b, v in zip(goal.y, values, strict=True)), Fraction(0))
            self.raise_to(value, point, attained=True)
        return values

    def raise_to(self, value: Fraction, point: tuple[Fraction, ...], *, attained: bool) -> None:
        """Make the threshold of the objective a value that is reached or approached."""
        goal = self.disjuncts[0][0]
        self.best = (value, point, attained)
        self.disjuncts[0][0] = Constraint(goal.x, goal.y, -value, strict=True)
        self._float_parts()

    # Nodes without open decisions
    # ------------------------------------------------------------------------------------------------------

    def _decided(
        self, node: Node, live: list[int], outcome: Outcome, proofs: list[list[Any]]
    ) -> Violation | None:
        """Decide every live conjunction in rationals."""
        cell = ExactCell(self.program, node, outcome.choices)
        facts = [cell.facts[k] for k in range(len(node.facts))]
        low, high = [rational(v) for v in node.low], [rational(v) for v in node.high]
        for d in live:
            if self.rising:
                self._raised(cell, facts, low, high)
            rows = [cell.constraint(constraint) for constraint in self.disjuncts[d]]
            point, multipliers = programs.decide([*rows, *facts], low, high)
            if point is not None:
                found = tuple(fraction(value) for value in point)
                outputs = self.violates(d, found)
                if outputs is None:
                    raise ArithmeticError("a decided node and the network disagree at a point")
                return Violation(d, found, outputs)
            assert multipliers is not None
            proofs.append(_exact_proof(d, multipliers, len(rows)))
        return None

    def _raised(self, cell: ExactCell, facts: list[Any], low: list[Any], high: list[Any]) -> None:
        """Raise the threshold to the supremum on a cell, if the cell is not empty and that is higher."""
        goal, *domain = self.disjuncts[0]
        facts = [*facts, *(cell.constraint(constraint) for constraint in domain)]
        if programs.decide(facts, low, high)[0] is None:
            return
        row = cell.constraint(Constraint(goal.x, goal.y, Fraction(0), strict=False))
        value, point, _ = programs.maximum(row.coefficients, facts, low, high)
        top = fraction(value + row.constant)
        assert self.best is not None
        if top < -goal.constant or (top == -goal.constant and self.best[2]):
            return
        level = programs.Row(row.coefficients, -value, "=")
        there = programs.decide([level, *facts], low, high)[0]
        if top == -goal.constant and there is None:
            return
        shown = point if there is None else there
        self.raise_to(top, tuple(fraction(v) for v in shown), attained=there is not None)

    def _emptied(self, node: Node, outcome: Outcome, proofs: list[list[Any]]) -> bool:
        """Whether facts contradict each other in rationals: the node holds no input."""
        cell = ExactCell(self.program, node, outcome.choices)
        known = sorted(cell.facts)
        low, high = [rational(v) for v in node.low], [rational(v) for v in node.high]
        _, multipliers = programs.decide([cell.facts[k] for k in known], low, high)
        if multipliers is None:
            return False
        named = [[k, exact_text(fraction(m))] for k, m in zip(known, multipliers, strict=True) if m != 0]
        proofs.append(["e", -1, [], named])
        return True

    # Cuts
    # ------------------------------------------------------------------------------------------------------

    def _cut(self, node: Node, live: list[int], rows: dict[int, Rows], outcome: Outcome) -> Cut:
        hardest, weight = -np.inf, np.zeros(outcome.out.columns.shape[1])
        for d in live:
            highest = rows[d].highest()
            if not len(highest):
                continue
            spread = rows[d].spread()
            best = int(np.argmin(highest / np.maximum(spread, 1e-300)))
            if highest[best] / max(spread[best], 1e-300) > hardest:
                hardest = highest[best] / max(spread[best], 1e-300)
                weight = np.abs(rows[d].columns[best])
        d = self.program.d
        widths = [float(b - a) for a, b in zip(node.low, node.high, strict=True)]
        whole = [float(b - a) for a, b in zip(self.group.low, self.group.high, strict=True)]
        fine = [w > _FINEST * v for w, v in zip(widths, whole, strict=True)]
        unsure = [what for what in outcome.open if what.cut[0] != "empty"]
        gains = [float(weight[1 + d + what.symbol]) if what.symbol >= 0 else what.width for what in unsure]
        # where halving again and again leaves decisions open, they meet in a point
        halvings = sum(np.log2(v / w) for w, v in zip(widths, whole, strict=True) if w > 0.0)
        few = FEW + max(0.0, halvings - 6 * d)
        if (len(unsure) <= few or not any(fine)) and unsure:
            heads = [what for what in unsure if what.cut[0] != "s"]
            if heads:
                return heads[0].cut
            # the first stage: facts are exact rows only up to the first stage with an open decision
            gains = [
                g if what.cut[1] == unsure[0].cut[1] else -1.0 for g, what in zip(gains, unsure, strict=True)
            ]
            return unsure[int(np.argmax(gains))].cut
        smear = weight[1 : 1 + d] * 0.5
        for what, gain in zip(unsure, gains, strict=True):
            if what.row is not None and what.symbol >= 0:
                smear = smear + gain * what.row
        if not smear.any():
            smear = np.array(widths) / np.maximum(whole, 1e-300)
        smear = np.where(fine, smear, -1.0)
        i = int(np.argmax(smear))
        middle = Fraction(float(node.ball[0][i]))
        if not node.low[i] < middle < node.high[i]:
            middle = (node.low[i] + node.high[i]) / 2
        return ("x", i, middle)


def _exact_proof(d: int, multipliers: list[Any], n: int) -> list[Any]:
    named: list[Any] = [[k, exact_text(fraction(m))] for k, m in enumerate(multipliers) if m != 0]
    if not any(k < n for k, _ in named):
        return ["e", -1, [], [[k - n, m] for k, m in named]]
    return ["e", d, [pair for pair in named if pair[0] < n], [[k - n, m] for k, m in named if k >= n]]


def _combined(d: int, rows: Rows, outcome: Outcome) -> tuple[list[Any] | None, bool]:
    """A combination of constraints and facts that is negative everywhere, found by a linear program.

    Second, whether they can hold together, but not by more than rounding.
    """
    columns = np.concatenate([rows.columns, *(fact.columns for fact in outcome.facts)])
    radius = np.concatenate([rows.radius, *(fact.radius for fact in outcome.facts)])
    highest = columns[:, 0] + np.abs(columns[:, 1:]).sum(axis=1) + radius
    n = len(rows.columns)
    if (highest < 0.0).any():
        i = int(np.argmin(highest))
        return (["b", d, [[i, 1]], []] if i < n else ["b", -1, [], [[i - n, 1]]]), False
    if len(columns) < 2:
        return None, False
    scale = np.abs(columns).sum(axis=1)
    scale[scale == 0.0] = 1.0
    used = np.flatnonzero(np.abs(columns[:, 1:]).sum(axis=0) > 0)
    with np.errstate(over="ignore", invalid="ignore"):
        table = columns[:, 1 + used] / scale[:, None]
        heights = (columns[:, 0] + radius) / scale
    if not (np.isfinite(table).all() and np.isfinite(heights).all()):
        return None, False  # beyond floats there is no program to solve
    level = np.array([False] * n + outcome.equal)
    goal = np.zeros(len(used) + 1)
    goal[-1] = -1.0
    found = scipy.optimize.linprog(
        goal,
        A_ub=np.column_stack(
            [np.concatenate([-table, table[level]]), np.concatenate([~level, np.zeros(level.sum())])]
        ),
        b_ub=np.concatenate([heights, (radius / scale)[level] - (columns[:, 0] / scale)[level]]),
        bounds=[(-1.0, 1.0)] * len(used) + [(None, 1.0)],
        method="highs",
    )
    if found.status == 2:  # facts that hold with equality hold nowhere: rationals will say so
        return None, True
    if found.status != 0 or found.fun <= 0.0:
        return None, found.status == 0 and -found.fun < _TOUCHING
    weights = -found.ineqlin.marginals[: len(table)]
    weights[level] += found.ineqlin.marginals[len(table) :]
    weights = np.where(level, weights, np.maximum(weights, 0.0)) / scale
    largest = np.abs(weights).max()
    if not largest > 0.0:
        return None, True
    whole = np.rint(weights / largest * _MULTIPLIERS)
    total = whole @ columns
    error = np.abs(whole) @ (radius + 2.0**-42 * np.abs(columns).sum(axis=1))
    if not total[0] + np.abs(total[1:]).sum() + error < 0.0:
        return None, True
    named = [[k, int(m)] for k, m in enumerate(whole.tolist()) if m]
    of_rows, of_facts = [p for p in named if p[0] < n], [[k - n, m] for k, m in named if k >= n]
    return ["b", d if of_rows else -1, of_rows, of_facts], False


@dataclass(eq=False)
class Progress:
    """What a function that watches a search is called with.

    Attributes
    ----------
    share : float
        Of the volume of the box that is proven; a cut along a decision counts as a half.
    n_nodes, n_open : int
        Nodes visited, and nodes that are open.
    seconds : float

    Examples
    --------
    >>> Progress(0.5, 10, 3, 1.0).line()
    (0.5, '10 nodes, 3 open, 1 s')
    """

    share: float
    n_nodes: int
    n_open: int
    seconds: float

    def line(self) -> tuple[float | None, str]:
        """What a bar shows."""
        return self.share, f"{self.n_nodes:,} nodes, {self.n_open:,} open, {self.seconds:.0f} s"


def run(
    explorer: Explorer,
    roots: list[Branch],
    *,
    keep_going: Callable[[int, int, float], bool],
) -> tuple[str, Violation | None]:
    """Visit open branches until none is left, one violates, or ``keep_going`` says stop.

    Depth first; while a threshold rises, the largest bound first.
    ``keep_going`` is called after every visit, with the number of nodes visited, that of open ones, and the
    share that is closed; the first visit is always made, so that a search that is taken up again gets on.
    Returns "holds", "violated" or "unknown"; what is open stays open in the tree.
    """
    order = count()
    heap = [(-branch.bound, next(order), branch) for branch in roots]
    n, closed = 0, 0.0
    while heap:
        branch = heap[0][2]
        node = branch.node
        assert node is not None
        found = explorer.visit(branch)
        if found is not None:
            return "violated", found
        heappop(heap)
        n += 1
        if not branch.children:
            closed += node.share
        first = -n * _ARITY if not explorer.rising else 0  # depth first, unless the largest bound goes first
        for k, part in enumerate(branch.children):
            heappush(heap, (-part.bound, first + k if first else next(order), part))
        if not keep_going(n, len(heap), closed):
            return ("holds" if not heap else "unknown"), None
    return "holds", None
