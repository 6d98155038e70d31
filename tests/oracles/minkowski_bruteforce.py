"""Vertices of a Minkowski sum by brute force over all tuples of keys, in three ways that share nothing.

The cells of the common refinement of H heads are the tuples of keys that win together on an open set. For
linear scores they are the vertices of the sum of the heads' hulls; for affine scores ``a . x + b`` they are
the *upper* vertices of the sum of the lifted hulls, that is the vertices of ``conv{(sum a, sum b)} +
cone{(0, ..., 0, -1)}``.

* :func:`ppl_vertices`: the Parma Polyhedra Library on all sums, in rationals. The arbiter.
* :func:`simplex_vertices`: one linear program per tuple, by a simplex method written below in ``Fraction``;
  each answer carries its own proof (a point, or multipliers), which is checked before it is returned.
* :func:`qhull_count`: scipy's Qhull in floats on the unique sums, after an exact reduction to their affine
  hull. A count only, to be trusted in general position.

Heads are lists of lifted keys ``(a_j, b_j)`` as in :mod:`oracles.certificates`; linear scores have all ``b_j
= 0``.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import lcm

import numpy as np
from scipy.spatial import ConvexHull

from .certificates import Head, LiftedKey, dot


def sums_of_tuples(heads: list[Head]) -> dict[LiftedKey, list[tuple[int, ...]]]:
    """Every sum of one lifted key per head, with the tuples (lowest index of identical keys) that give it."""
    distinct = [[(j, key) for j, key in enumerate(head) if head.index(key) == j] for head in heads]
    found: dict[LiftedKey, list[tuple[int, ...]]] = {}
    for combination in itertools.product(*distinct):
        total = tuple(
            sum(column, Fraction(0)) for column in zip(*(key for _, key in combination), strict=True)
        )
        found.setdefault(total, []).append(tuple(j for j, _ in combination))
    return found


def is_linear(heads: list[Head]) -> bool:
    return all(key[-1] == 0 for head in heads for key in head)


# ----------------------------------------------------------------------------------------------
# (b) Parma Polyhedra Library
# ----------------------------------------------------------------------------------------------


def ppl_vertices(heads: list[Head]) -> dict[LiftedKey, tuple[int, ...]]:
    """The (upper) vertices of the sum as exact lifted points, each with its tuple of choices.

    A vertex of a sum is the sum of vertices in exactly one way, so its tuple is unique; two tuples with the
    same sum would mean a mistake here, and raise.
    """
    from ppl import C_Polyhedron, Generator_System, Linear_Expression, point, ray

    sums = sums_of_tuples(heads)
    linear = is_linear(heads)
    d = len(heads[0][0]) - 1
    width = d if linear else d + 1
    generators = Generator_System()
    for total in sums:
        denominator = lcm(*(value.denominator for value in total))
        numerators = [int(value * denominator) for value in total[:width]]
        generators.insert(point(Linear_Expression(numerators, 0), denominator))
    if not linear:
        generators.insert(ray(Linear_Expression([0] * d + [-1], 0)))
    vertices = {}
    for generator in C_Polyhedron(generators).minimized_generators():
        if not generator.is_point():
            continue
        divisor = int(generator.divisor())
        total = tuple(Fraction(int(value), divisor) for value in generator.coefficients())
        total = total if not linear else (*total, Fraction(0))
        (choice,) = sums[total]
        vertices[total] = choice
    return vertices


# ----------------------------------------------------------------------------------------------
# (c) a simplex method in rationals
# ----------------------------------------------------------------------------------------------


def strict_solution(rows: list[tuple[Fraction, ...]], width: int) -> tuple[Fraction, ...] | None:
    """A point y with ``row . y > 0`` for every row, or None when there is none.

    By Gordan's theorem exactly one holds: such a y exists, or some ``lambda >= 0`` with ``sum lambda = 1``
    has ``sum lambda_i row_i = 0``. The second system is put to phase one of the simplex method (Bland's
    rule, so it ends); when its least infeasibility is positive, the dual values are the first system's y.
    """
    if not rows:
        return (Fraction(0),) * width
    size = width + 1  # equations: one per coordinate, and the sum
    columns = len(rows)
    # Tableau [A | I | rhs] with A = (rows ; 1)^T; every right-hand side is >= 0 already.
    tableau = [[row[i] for row in rows] for i in range(width)] + [[Fraction(1)] * columns]
    for i, line in enumerate(tableau):
        line.extend(Fraction(int(i == k)) for k in range(size))
        line.append(Fraction(int(i == width)))
    basis = [columns + i for i in range(size)]
    # Reduced costs of "minimise the sum of the artificial variables".
    cost = [-sum(line[j] for line in tableau) for j in range(columns)]
    cost += [Fraction(0)] * size + [-sum(line[-1] for line in tableau)]
    while True:
        entering = next((j for j in range(columns) if cost[j] < 0), None)
        if entering is None:
            break
        ratios = [
            (line[-1] / line[entering], basis[i], i) for i, line in enumerate(tableau) if line[entering] > 0
        ]
        _, _, leaving = min(ratios)
        pivot = tableau[leaving][entering]
        tableau[leaving] = [value / pivot for value in tableau[leaving]]
        for line in (*(tableau[i] for i in range(size) if i != leaving), cost):
            factor = line[entering]
            if factor:
                line[:] = [value - factor * base for value, base in zip(line, tableau[leaving], strict=True)]
        basis[leaving] = entering
    if cost[-1] == 0:
        multipliers = {basis[i]: tableau[i][-1] for i in range(size) if basis[i] < columns}
        if sum(multipliers.values()) != 1 or any(value < 0 for value in multipliers.values()):
            raise AssertionError("the multipliers of an infeasible system are wrong")
        for axis in range(width):
            if sum(value * rows[j][axis] for j, value in multipliers.items()) != 0:
                raise AssertionError("the multipliers of an infeasible system do not cancel the rows")
        return None
    # Dual values: 1 - (reduced cost of the artificial variable of that equation).
    dual = [1 - cost[columns + i] for i in range(size)]
    solution = tuple(-value for value in dual[:width])
    if any(dot(row, solution) <= 0 for row in rows):
        raise AssertionError("the solution of a strict system is not strict")
    return solution


def cell_interior(heads: list[Head], choice: tuple[int, ...]) -> tuple[Fraction, ...] | None:
    """A point where every head h routes to ``choice[h]`` strictly, or None when that cell has no interior."""
    d = len(heads[0][0]) - 1
    rows = [
        tuple(p - q for p, q in zip(head[j], other, strict=True))
        for head, j in zip(heads, choice, strict=True)
        for other in head
        if other != head[j]
    ]
    if is_linear(heads):
        return strict_solution([row[:-1] for row in rows], d)
    # a . x + b > 0 has a solution iff a . y + b s > 0, s > 0 has one; then x = y / s.
    solution = strict_solution([*rows, (Fraction(0),) * d + (Fraction(1),)], d + 1)
    return None if solution is None else tuple(value / solution[-1] for value in solution[:-1])


def simplex_vertices(heads: list[Head]) -> dict[LiftedKey, tuple[int, ...]]:
    """As :func:`ppl_vertices`, from one linear program per tuple of keys."""
    vertices = {}
    for total, choices in sums_of_tuples(heads).items():
        winners = [choice for choice in choices if cell_interior(heads, choice) is not None]
        if winners:
            (vertices[total],) = winners
    return vertices


# ----------------------------------------------------------------------------------------------
# (a) Qhull
# ----------------------------------------------------------------------------------------------


def spanning_coordinates(points: list[tuple[Fraction, ...]]) -> list[int]:
    """Coordinates on which the affine hull of ``points`` projects one to one: as many as its dimension."""
    origin = points[0]
    basis: list[tuple[int, list[Fraction]]] = []
    for point in points[1:]:
        row = [p - q for p, q in zip(point, origin, strict=True)]
        for pivot, base in basis:
            if row[pivot]:
                factor = row[pivot] / base[pivot]
                row = [value - factor * other for value, other in zip(row, base, strict=True)]
        pivot = next((i for i, value in enumerate(row) if value), None)
        if pivot is not None:
            basis.append((pivot, row))
        if len(basis) == len(origin):
            break
    return sorted(pivot for pivot, _ in basis)


def hull_vertex_indices(points: list[tuple[Fraction, ...]]) -> list[int]:
    """Indices of the hull's vertices among distinct points: exact in dimension 0 and 1, Qhull above."""
    axes = spanning_coordinates(points)
    if not axes:
        return [0]
    if len(axes) == 1:
        order = sorted(range(len(points)), key=lambda i: points[i][axes[0]])
        return sorted({order[0], order[-1]})
    floats = np.array([[float(point[axis]) for axis in axes] for point in points])
    if len(points) == len(axes) + 1:
        return list(range(len(points)))  # a simplex
    return sorted(int(i) for i in ConvexHull(floats).vertices)


def qhull_count(heads: list[Head]) -> int:
    """The number of (upper) vertices of the sum by Qhull on all unique sums.

    Upper vertices are the vertices of the sum with the segment from 0 to ``-drop e_{d+1}`` that lie on the
    segment's upper end.
    """
    sums = list(sums_of_tuples(heads))
    if is_linear(heads):
        return len(hull_vertex_indices([total[:-1] for total in sums]))
    heights = [total[-1] for total in sums]
    drop = max(heights) - min(heights) + 1
    dropped = [(*total[:-1], total[-1] - drop) for total in sums]
    return sum(index < len(sums) for index in hull_vertex_indices(sums + dropped))
