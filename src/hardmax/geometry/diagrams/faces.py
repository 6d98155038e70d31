r"""Faces of a power diagram in low dimension, read off the cells that the splitting kernel cuts.

Walls are where two cells meet in dimension d - 1, vertices where the walls end. The cells know which keys tie
at each of their corners; here the corners that several cells share are recognised as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.cones.splitting import Refinement
from hardmax.geometry.scores import Scores

__all__ = ["Facet", "counter_clockwise", "vertices_of", "walls_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Facet:
    """The wall between two cells: the convex hull of ``points`` plus the cone of ``rays``.

    Attributes
    ----------
    keys : (int, int)
        The two keys that tie on it, the lower index first.
    points : (m, d) float64
    rays : (r, d) float64
        Directions in which the wall is unbounded; a line appears as two opposite rays.
    """

    keys: tuple[int, int]
    points: Floats
    rays: Floats

    def __post_init__(self) -> None:
        self.points.setflags(write=False)
        self.rays.setflags(write=False)

    @property
    def bounded(self) -> bool:
        """Whether the wall is a polytope."""
        return len(self.rays) == 0


def walls_of(cells: Refinement) -> list[Facet]:
    """The walls between the cells of one head, in the order of their pairs of keys."""
    d = cells.d
    winner = cells.choices[:, 0]
    winners = set(winner.tolist())
    lines = cells.lines()
    walls: dict[tuple[int, int], Facet] = {}
    for i in range(cells.n_cells):
        generators = cells.generators(i)
        for (_, other), on in cells.facets_with_generators(i):
            j = int(winner[i])
            if other in winners and j < other and (j, other) not in walls:
                g = generators[on]
                if cells.is_fan:
                    points, rays = np.zeros((1, d)), g[:, 1:]
                else:
                    finite = g[:, 0] > 0
                    points, rays = g[finite, 1:] / g[finite, :1], g[~finite, 1:]
                walls[(j, other)] = Facet((j, other), points, np.concatenate([rays, lines, -lines]))
    return [walls[pair] for pair in sorted(walls)]


def counter_clockwise(corners: Floats) -> Floats:
    """The corners of a convex polygon in counter-clockwise order."""
    centred = corners - corners.mean(axis=0)
    order = np.argsort(np.arctan2(centred[:, 1], centred[:, 0]), kind="stable")
    return np.ascontiguousarray(corners[order])


def vertices_of(cells: Refinement, scores: Scores) -> Floats:
    """The vertices of all cells, each once.

    A vertex is named by the keys that tie there. In general position every cell around it sees the same d + 1
    keys; otherwise different cells see different ones, and the points are compared as rationals.
    """
    d = scores.d
    if len(cells.lines()):
        return np.empty((0, d))
    if cells.is_fan:
        return np.zeros((1, d))
    found: dict[frozenset[int], Floats] = {}
    for i in range(cells.n_cells):
        generators = cells.generators(i)
        tied: list[set[int]] = [{int(cells.choices[i, 0])} for _ in generators]
        for (_, other), on in cells.facets_with_generators(i):
            for g in on.tolist():
                tied[g].add(other)
        for g, keys in zip(generators, tied, strict=True):
            if g[0] > 0.0:
                found.setdefault(frozenset(keys), g[1:] / g[0])
    points = list(found.values())
    if cells.degenerate:
        exact = {_exact_vertex(scores, sorted(keys)) for keys in found}
        points = [np.array([float(v) for v in point]) for point in exact]
    array = np.array(points).reshape(-1, d)
    return np.ascontiguousarray(array[np.lexsort(array.T[::-1])])


def _exact_vertex(scores: Scores, keys: list[int]) -> tuple[Fraction, ...]:
    """The point where all these keys tie."""
    first, *others = (scores.exact_row(j) for j in keys)
    system = flint.fmpq_mat([[a - b for a, b in zip(first, row, strict=True)] for row in others])
    reduced, _ = system.rref()
    return tuple(Fraction(int(-reduced[i, scores.d].p), int(reduced[i, scores.d].q)) for i in range(scores.d))
