r"""Common refinements in higher dimension: a depth-first search over tuples of keys.

Beyond five or six dimensions a cell has too many vertices to be carried along. Instead each tuple
:math:`(j_1, \dots, j_H)` is decided by itself: it is a cell exactly when some :math:`y` satisfies
:math:`(p_{h j_h} - p_{h l}) \cdot y > 0` for every head h and every other key l. The search extends prefixes
that can still win, so it asks about :math:`N` extensions per cell of the previous heads, each a small
min-norm-point problem warm-started from its parent (``linear_programs``). A feasible prefix keeps its point
as a witness, an infeasible one is proven so by a positive combination of rows that vanishes; what floats
cannot settle is decided in rationals.
"""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import dot, nearest_float
from hardmax.geometry.cones.frames import Frame, Head, independent_columns, scaled_heads
from hardmax.geometry.cones.witnesses import is_inside, surely_inside
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.feasibility.linear_programs import (
    corral_workspace,
    search_prefixes_kernel,
    tabulate_walls_kernel,
)
from hardmax.geometry.feasibility.rational_programs import Separation, separate_exactly
from hardmax.geometry.scores import Scores

__all__ = ["PrefixSearch"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_WALLS_IN_MEMORY = 10**7  # entries; beyond, rows are formed again for every prefix


class PrefixSearch:
    """One search in the whole space; the answers are the attributes.

    Attributes
    ----------
    choices : (n, H) int64
        Winning tuples in lexicographic order, each key the lowest index of its group of identical scores.
    witnesses : (n, d) float64
    exact_witnesses : dict
        Rational witnesses of the rows whose float witness could not be shown to win.
    n_decided_exactly : int
        How many prefixes needed rational arithmetic.
    """

    def __init__(self, families: list[Scores]) -> None:
        self.families = families
        self.domain = WholeSpace(families[0].d)
        linear = all(f.linear for f in families)
        self.frame = Frame(families[0].d, independent_columns(families, self.domain), linear)
        self.n_decided_exactly = 0
        heads = scaled_heads(families, self.domain, self.frame)
        self.heads = [self._winners(head) for head in heads]
        choices, points, exact = self._search(self.heads)
        self.degenerate: bool | None = True if self.n_decided_exactly else None
        self._finish(choices, points, exact)

    def _winners(self, head: Head) -> Head:
        """The head without the keys that have no cell of their own: they never win in a tuple either."""
        if head.n_keys <= 2:
            return head
        choices, _, _ = self._search([head])
        nobody = np.empty(0, dtype=np.int64)
        return head.restricted(np.sort(choices[:, 0]), nobody, nobody)

    def _search(self, heads: list[Head]) -> tuple[Integers, Floats, dict[tuple[int, ...], list[Fraction]]]:
        D, H = self.frame.D, len(heads)
        if D == 0:
            return np.zeros((1, H), dtype=np.int64), np.zeros((1, 0)), {}
        affine = not self.frame.linear
        points = np.concatenate([head.rows.points for head in heads])
        error = np.concatenate([head.rows.error for head in heads])
        key_start = np.concatenate([[0], np.cumsum([head.n_keys for head in heads])])
        row_start = np.concatenate([[0], np.cumsum([head.n_keys - 1 for head in heads])]) + int(affine)
        n_rows = int(row_start[-1])
        rows, row_error = np.zeros((max(n_rows, 1), D)), np.zeros(max(n_rows, 1))
        if affine:
            rows[0, -1] = 1.0
        walls, wall_start = _tabulated_walls(points, error, key_start)
        state = np.zeros(3, dtype=np.int64)
        next_key, choice = np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
        sure, x = np.zeros(H + 1, dtype=np.bool_), np.zeros((H + 1, D))
        corral, weights = np.zeros((H + 1, D + 1), dtype=np.int64), np.zeros((H + 1, D + 1))
        sizes, values, work = np.zeros(H + 1, dtype=np.int64), np.empty(n_rows + 1), corral_workspace(D)
        out_choices, out_points = np.empty((1024, H), dtype=np.int64), np.empty((1024, D))
        parked = np.empty((256, H + 1), dtype=np.int64)
        found_choices: list[Integers] = []
        found_points: list[Floats] = []
        exact: dict[tuple[int, ...], list[Fraction]] = {}
        waiting: list[tuple[list[int], Floats]] = []
        x[0] = 0.7 + 0.3 * np.sin(2.4 * np.arange(D))
        lowest = 0
        while True:
            search_prefixes_kernel(
                points, error, key_start, row_start, walls, wall_start, lowest, state, next_key, sure, choice,
                x, corral, sizes, weights, rows, row_error, values, work, out_choices, out_points, parked,
            )  # fmt: skip
            found_choices.append(out_choices[: state[1]].copy())
            found_points.append(out_points[: state[1]].copy())
            for node in parked[: state[2]]:
                prefix = node[: node[H]].tolist()
                answer = self._decide(heads, prefix)
                if answer.witness is None:
                    continue
                point = [Fraction(int(v.p), int(v.q)) for v in answer.witness]
                size = max(abs(v) for v in point)
                floats = np.array([float(v / size) for v in point])
                if len(prefix) == H:
                    exact[tuple(prefix)] = point
                    found_choices.append(np.array([prefix], dtype=np.int64))
                    found_points.append(floats[None, :])
                else:
                    waiting.append((prefix, floats))
            state[1:] = 0
            if state[0] >= lowest:
                continue
            if not waiting:
                break
            # go on below a prefix that the rationals have shown to be feasible
            prefix, floats = waiting.pop()
            lowest = len(prefix)
            for g, j in enumerate(prefix):
                choice[g] = j
                own = points[key_start[g] + j]
                others = np.delete(points[key_start[g] : key_start[g + 1]], j, axis=0)
                noise = np.delete(error[key_start[g] : key_start[g + 1]], j) + error[key_start[g] + j]
                lengths = np.maximum(np.linalg.norm(own - others, axis=1), 1e-300)
                rows[row_start[g] : row_start[g + 1]] = (own - others) / lengths[:, None]
                row_error[row_start[g] : row_start[g + 1]] = noise / lengths + 4 * D * 2.0**-53
            state[0], next_key[lowest], sure[lowest], sizes[lowest] = lowest, 0, False, 0
            x[lowest] = floats
        return np.concatenate(found_choices), np.concatenate(found_points), exact

    def _decide(self, heads: list[Head], prefix: list[int]) -> Separation:
        """One prefix, in rationals."""
        self.n_decided_exactly += 1
        rows: list[list[flint.fmpq]] = []
        if not self.frame.linear:
            rows.append([flint.fmpq(0)] * (self.frame.D - 1) + [flint.fmpq(1)])
        for head, j in zip(heads, prefix, strict=False):
            own = head.exact(j)
            for l in range(head.n_keys):
                if l != j:
                    rows.append([a - b for a, b in zip(own, head.exact(l), strict=True)])
        if not rows:
            return Separation(tuple(flint.fmpq(1) for _ in range(self.frame.D)))

        def not_positive(y: list[flint.fmpz]) -> list[int]:
            point = [flint.fmpq(v) for v in y]
            values = [dot(row, point) for row in rows]
            worst = min(range(len(rows)), key=lambda i: values[i])
            return [worst] if values[worst] <= 0 else []

        return separate_exactly(rows.__getitem__, [0], not_positive)

    def _finish(
        self, choices: Integers, points: Floats, exact: dict[tuple[int, ...], list[Fraction]]
    ) -> None:
        users = np.column_stack([head.index[choices[:, h]] for h, head in enumerate(self.heads)])
        order = np.lexsort(users.T[::-1])
        witnesses = self.frame.to_space(points) if self.frame.D else np.zeros((len(users), self.frame.d))
        shown = surely_inside(self.families, self.domain, users, witnesses)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.exact_witnesses: dict[int, tuple[Fraction, ...]] = {}
        for i in np.flatnonzero(~shown).tolist():
            if is_inside(self.families, self.domain, users[i], witnesses[i]):
                continue
            prefix = choices[i].tolist()
            y = exact.get(tuple(prefix))
            if y is None:
                witness = self._decide(self.heads, prefix).witness
                y = [Fraction(int(v.p), int(v.q)) for v in witness or ()]
            x = self.frame.to_space_exactly(y)
            witnesses[i] = [nearest_float(v) for v in x]
            if not is_inside(self.families, self.domain, users[i], witnesses[i]):
                self.exact_witnesses[int(rank[i])] = tuple(x)
        self.choices = np.ascontiguousarray(users[order])
        self.witnesses = np.ascontiguousarray(witnesses[order])


def _tabulated_walls(points: Floats, error: Floats, key_start: Integers) -> tuple[Floats, Integers]:
    """The walls of all pairs of keys within each head, or nothing when they are too many."""
    sizes = np.diff(key_start)
    wall_start = np.concatenate([[0], np.cumsum(sizes * (sizes - 1))])
    width = points.shape[1] + 1
    walls = np.empty((int(wall_start[-1]) if wall_start[-1] * width <= _WALLS_IN_MEMORY else 0, width))
    if len(walls):
        tabulate_walls_kernel(points, error, key_start, walls)
    return walls, wall_start
