r"""Linear programs in rationals with strict and weak inequalities over a box.

:func:`decide` answers "is there an x in a box with :math:`g_i(x) \ge 0`, :math:`> 0` or :math:`= 0` for every
row?" with a point or with multipliers (Motzkin's alternative): :math:`\sum m_i g_i` is negative on the whole
box, or at most zero there while a strict row has a positive multiplier. Multipliers of inequalities are not
negative. The simplex method is that of Bland, without rounding: it always ends. Programs have few rows and
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import flint

Q = flint.fmpq
ZERO, ONE = flint.fmpq(0), flint.fmpq(1)


@dataclass(frozen=True)
class Row:
    """``coefficients . x + constant`` against zero: ``case`` is ``">="``, ``">"`` or ``"="``."""

    coefficients: tuple[Q, ...]
    constant: Q
    case: str


class _Dictionary:
    """Basic variables as affine functions of the others, all of them at least zero."""

    def __init__(self, a: list[list[Q]], b: list[Q]) -> None:
        self.m, self.n = len(a), len(a[0]) if a else 0
        self.rows = [list(row) for row in a]
        self.b = list(b)
        self.free = list(range(self.n))
        self.basic = list(range(self.n, self.n + self.m))
        self.cost: list[Q] = [ZERO] * self.n
        self.value = ZERO

    def pivot(self, leaving: int, entering: int) -> None:
        row, inverse = self.rows[leaving], 1 / self.rows[leaving][entering]
        row = [value * inverse for value in row]
        row[entering] = inverse
        self.rows[leaving] = row
        self.b[leaving] = self.b[leaving] * inverse
        for i in range(self.m):
            factor = self.rows[i][entering]
            if i != leaving and factor != 0:
                old = self.rows[i]
                new = [u - factor * v if v != 0 else u for u, v in zip(old, row, strict=True)]
                new[entering] = -factor * inverse
                self.rows[i] = new
                self.b[i] -= factor * self.b[leaving]
        factor = self.cost[entering]
        if factor != 0:
            self.value += factor * self.b[leaving]
            self.cost = [u - factor * v if v != 0 else u for u, v in zip(self.cost, row, strict=True)]
            self.cost[entering] = -factor * inverse
        self.free[entering], self.basic[leaving] = self.basic[leaving], self.free[entering]

    def maximise(self) -> bool:
        """Pivot until no cost is positive; whether the maximum is finite."""
        while True:
            columns = [j for j in range(len(self.free)) if self.cost[j] > 0]
            if not columns:
                return True
            entering = min(columns, key=lambda j: self.free[j])
            best, leaving = None, -1
            for i in range(self.m):
                if self.rows[i][entering] > 0:
                    ratio = self.b[i] / self.rows[i][entering]
                    if (
                        best is None
                        or ratio < best
                        or (ratio == best and self.basic[i] < self.basic[leaving])
                    ):
                        best, leaving = ratio, i
            if leaving < 0:
                return False
            self.pivot(leaving, entering)

    def duals(self) -> list[Q]:
        """The multiplier of each row of the program."""
        found = [ZERO] * self.m
        for j, variable in enumerate(self.free):
            if self.n <= variable < self.n + self.m:
                found[variable - self.n] = -self.cost[j]
        return found

    def point(self, size: int) -> list[Q]:
        """The first variables."""
        found = [ZERO] * size
        for i, variable in enumerate(self.basic):
            if variable < size:
                found[variable] = self.b[i]
        return found


def _solved(a: list[list[Q]], b: list[Q], c: list[Q]) -> tuple[str, list[Q], list[Q], Q]:
    """Maximise c.v subject to Av <= b, v >= 0: ("infeasible" or "optimal", point, duals, value)."""
    n, m = len(c), len(a)
    table = _Dictionary(a, b)
    if b and min(b) < 0:
        helper = n + m  # one more variable, subtracted from every row
        for row in table.rows:
            row.append(-ONE)
        table.free.append(helper)
        table.cost = [ZERO] * n + [-ONE]
        table.pivot(min(range(m), key=lambda i: table.b[i]), n)
        table.maximise()
        if table.value < 0:
            return "infeasible", [], table.duals(), table.value
        if helper in table.basic:
            i = table.basic.index(helper)
            table.pivot(i, next(j for j in range(len(table.free)) if table.rows[i][j] != 0))
        j = table.free.index(helper)
        for row in table.rows:
            del row[j]
        del table.free[j]
    table.cost, table.value = [ZERO] * n, ZERO
    for j, variable in enumerate(table.free):
        if variable < n:
            table.cost[j] += c[variable]
    for i, variable in enumerate(table.basic):
        if variable < n and c[variable] != 0:
            table.value += c[variable] * table.b[i]
            table.cost = [u - c[variable] * v for u, v in zip(table.cost, table.rows[i], strict=True)]
    if not table.maximise():
        raise ArithmeticError("a linear program over a box has no maximum")
    return "optimal", table.point(n), table.duals(), table.value


def _prepared(
    rows: Sequence[Row], low: Sequence[Q], high: Sequence[Q], slack: bool
) -> tuple[list[list[Q]], list[Q], list[tuple[int, int]]]:
    """Rows over x - low and, if ``slack``, a number that strict rows must exceed; where each came from."""
    a, b, origin = [], [], []
    extra = 1 if slack else 0
    for k, row in enumerate(rows):
        height = row.constant + sum((u * v for u, v in zip(row.coefficients, low, strict=True)), ZERO)
        for sign in (1, -1) if row.case == "=" else (1,):
            strict = [ONE if row.case == ">" else ZERO] * extra
            a.append([-sign * value for value in row.coefficients] + strict)
            b.append(sign * height)
            origin.append((k, sign))
    d = len(low)
    for i in range(d):
        a.append([ONE if j == i else ZERO for j in range(d)] + [ZERO] * extra)
        b.append(high[i] - low[i])
        origin.append((-1, 1))
    if slack:
        a.append([ZERO] * d + [ONE])
        b.append(ONE)
        origin.append((-1, 1))
    return a, b, origin


def _multipliers(duals: list[Q], origin: list[tuple[int, int]], n: int) -> list[Q]:
    found = [ZERO] * n
    for value, (k, sign) in zip(duals, origin, strict=True):
        if k >= 0:
            found[k] += sign * value
    return found


def decide(rows: Sequence[Row], low: Sequence[Q], high: Sequence[Q]) -> tuple[list[Q] | None, list[Q] | None]:
    """A point of the box at which every row holds, or multipliers that prove that there is none.

    Examples
    --------
    >>> above, below = Row((ONE,), ZERO, ">"), Row((-ONE,), ZERO, ">=")
    >>> decide([above, below], [-ONE], [ONE])
    (None, [1, 1])
    >>> decide([below], [-ONE], [ONE])[0] is not None
    True
    """
    strict = any(row.case == ">" for row in rows)
    a, b, origin = _prepared(rows, low, high, slack=True)
    goal = [ZERO] * len(low) + [ONE if strict else ZERO]
    status, point, duals, value = _solved(a, b, goal)
    if status == "infeasible" or (strict and value == 0):
        return None, _multipliers(duals, origin, len(rows))
    return [u + v for u, v in zip(low, point, strict=False)], None


def maximum(
    goal: Sequence[Q], rows: Sequence[Row], low: Sequence[Q], high: Sequence[Q]
) -> tuple[Q, list[Q], list[Q]]:
    """The largest value of goal.x where rows hold weakly, a point where it is, and multipliers of the rows.

    The rows must hold somewhere.

    >>> value, point, _ = maximum([ONE], [Row((-ONE,), Q(1, 2), ">=")], [ZERO], [ONE])
    >>> value, point
    (1/2, [1/2])
    """
    a, b, origin = _prepared(rows, low, high, slack=False)
    status, point, duals, value = _solved(a, b, list(goal))
    if status == "infeasible":
        raise ArithmeticError("the rows hold nowhere")
    base = sum((u * v for u, v in zip(goal, low, strict=True)), ZERO)
    return (
        base + value,
        [u + v for u, v in zip(low, point, strict=True)],
        _multipliers(duals, origin, len(rows)),
    )


def bounding_box(a: list[list[Q]], b: list[Q]) -> tuple[list[Q], list[Q]] | None:
    """The smallest box around the polyhedron Ax <= b; ``None`` if that is empty.

    Raises ``ArithmeticError`` where it is unbounded.

    >>> bounding_box([[ONE], [-ONE]], [Q(2), Q(1)])
    ([-1], [2])
    """
    d = len(a[0])
    split = [[*row, *(-value for value in row)] for row in a]  # x is a difference of two vectors
    low: list[Q] = []
    high: list[Q] = []
    for i in range(d):
        for sign, side in ((-1, low), (1, high)):
            goal = [ZERO] * (2 * d)
            goal[i], goal[d + i] = Q(sign), Q(-sign)
            status, _, _, value = _solved(split, b, goal)
            if status == "infeasible":
                return None
            side.append(sign * value)
    return low, high
