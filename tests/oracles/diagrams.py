"""Power diagrams by other means: Qhull lifting, HiGHS programs, NNLS distances, half-space intersection.

Heads are lists of lifted keys ``(a_j, b_j)`` in rationals (:mod:`oracles.certificates`) or float arrays with
the offset in the last column, as each function says.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import highspy
import numpy as np
from scipy.optimize import nnls
from scipy.spatial import ConvexHull, HalfspaceIntersection

from .certificates import Head
from .minkowski_bruteforce import hull_vertex_indices, is_linear


def qhull_winners(head: Head) -> set[int]:
    """Keys (first of identical ones) whose cell has interior: hull vertices, or upper ones of the lift."""
    first = [j for j, key in enumerate(head) if head.index(key) == j]
    keys = [head[j] for j in first]
    if is_linear([head]):
        return {first[i] for i in hull_vertex_indices([key[:-1] for key in keys])}
    heights = [key[-1] for key in keys]
    drop = max(heights) - min(heights) + 1
    dropped = [(*key[:-1], key[-1] - drop) for key in keys]
    return {first[i] for i in hull_vertex_indices(keys + dropped) if i < len(keys)}


def upper_hull_edges(lifted: np.ndarray) -> set[tuple[int, int]]:
    """Edges of the regular triangulation of generic keys: pairs of keys whose cells meet in a wall."""
    hull = ConvexHull(lifted)
    edges = set()
    for simplex, equation in zip(hull.simplices, hull.equations, strict=True):
        if equation[-2] > 0:
            edges.update(tuple(sorted((int(i), int(j)))) for i, j in combinations(simplex, 2))
    return edges


def hull_edges(points: np.ndarray) -> set[tuple[int, int]]:
    """Edges of the hull of points in general position: pairs of unbiased keys whose cones meet in a wall."""
    return {
        tuple(sorted((int(i), int(j))))
        for simplex in ConvexHull(points).simplices
        for i, j in combinations(simplex, 2)
    }


class EnvelopeProgram:
    """How high do the other lifted keys reach above key j? One HiGHS program per key, in floats.

    Maximise ``sum w_i b_i - b_j`` over convex combinations of the other keys with ``sum w_i a_i = a_j``.
    Infeasible: the cell is full; otherwise the cell has interior iff the value is negative.
    """

    def __init__(self, lifted: np.ndarray) -> None:
        self.lifted = lifted
        n_keys, width = lifted.shape
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("primal_feasibility_tolerance", 1e-9)
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = n_keys, width
        program.sense_ = highspy.ObjSense.kMaximize
        program.col_cost_ = lifted[:, -1].copy()
        program.col_lower_, program.col_upper_ = np.zeros(n_keys), np.full(n_keys, highspy.kHighsInf)
        program.row_lower_ = program.row_upper_ = np.append(lifted[0, :-1], 1.0)
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.arange(n_keys + 1, dtype=np.int32) * width
        program.a_matrix_.index_ = np.tile(np.arange(width, dtype=np.int32), n_keys)
        program.a_matrix_.value_ = np.column_stack([lifted[:, :-1], np.ones(n_keys)]).ravel()
        self.highs.passModel(program)

    def nonempty(self, j: int, tolerance: float = 1e-7) -> bool:
        for row, value in enumerate(self.lifted[j, :-1]):
            self.highs.changeRowBounds(row, value, value)
        self.highs.changeColBounds(j, 0.0, 0.0)
        self.highs.run()
        status = self.highs.getModelStatus()
        value = self.highs.getInfo().objective_function_value
        self.highs.changeColBounds(j, 0.0, highspy.kHighsInf)
        if status == highspy.HighsModelStatus.kInfeasible:
            return True
        if status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"HiGHS: {status}")
        return value - self.lifted[j, -1] < -tolerance


def distance_to_hull(point: np.ndarray, others: np.ndarray) -> float:
    """Distance from ``point`` to the hull of ``others`` by non-negative least squares.

    The least-squares solution of ``[P^T; 1^T] u = (0, 1)``, ``u >= 0``, with rows ``P = others - point`` is a
    multiple of the weights of the hull's nearest point, because scaling u trades the two terms off alike for
    all u.
    """
    differences = others - point
    scale = np.abs(differences).max()
    if scale == 0:
        return 0.0
    matrix = np.vstack([differences.T / scale, np.ones(len(others))])
    weights, _ = nnls(matrix, np.append(np.zeros(len(point)), 1.0), maxiter=100 * len(others))
    return float(np.linalg.norm((weights / weights.sum()) @ differences))


def clipped_area(head: np.ndarray, j: int, low, high) -> tuple[float, np.ndarray]:
    """Area and corners of cell j inside a box of the plane, by scipy's half-space intersection."""
    from scipy.optimize import linprog

    others = np.delete(head, j, axis=0)
    rows = np.column_stack([others[:, :2] - head[j, :2], others[:, 2] - head[j, 2]])  # row . (x, 1) <= 0
    rows = rows[np.abs(rows).sum(axis=1) > 0]
    sides = np.array([[1, 0, -high[0]], [-1, 0, low[0]], [0, 1, -high[1]], [0, -1, low[1]]], float)
    half_spaces = np.vstack([rows, sides])
    norms = np.linalg.norm(half_spaces[:, :2], axis=1)
    if (norms == 0).any():
        flat = norms == 0
        if (half_spaces[flat, 2] > 0).any():
            return 0.0, np.empty((0, 2))
        half_spaces, norms = half_spaces[~flat], norms[~flat]
    inner = linprog(
        [0, 0, -1],
        np.column_stack([half_spaces[:, :2], norms]),
        -half_spaces[:, 2],
        bounds=[(None, None)] * 2 + [(0, None)],
    )
    if inner.status != 0 or inner.x[2] < 1e-9:
        return 0.0, np.empty((0, 2))
    corners = HalfspaceIntersection(half_spaces, inner.x[:2]).intersections
    hull = ConvexHull(corners)
    return float(hull.volume), corners[hull.vertices]


def shoelace(polygon) -> Fraction:
    """Twice-signed-area formula in rationals; positive when the corners run counter-clockwise."""
    corners = [
        tuple(Fraction(v) if not isinstance(v, np.generic) else Fraction(v.item()) for v in corner)
        for corner in polygon
    ]
    total = Fraction(0)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        total += x0 * y1 - x1 * y0
    return total / 2
