r"""Verifying cells of the plane: polygons, edges, steps across edges."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.regions.cells import AT_INFINITY
from hardmax.regions.checks import CROSSINGS, EXACTLY, Check
from hardmax.regions.plane.geometry import PlaneGeometry
from hardmax.regions.plane.rational_polygons import corners_of

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

__all__ = ["PlaneCheck"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_STEP = 1e-3  # how far across a border the neighbour is looked for, on the way to its witness


class PlaneCheck(Check):
    """A verification of cells in the plane, or of strips that stand for cells on the line."""

    sizes_are = "areas"

    geometry: PlaneGeometry

    def __init__(self, regions: RegionSet, rng: np.random.Generator) -> None:
        super().__init__(regions, rng)
        start = self.cells.facets.offsets
        self.cell_of = self.cells.facets.cell_of
        self.after = np.arange(1, len(self.cells.vx) + 1)
        self.after[start[1:] - 1] = start[:-1]
        self.far = np.zeros(len(self.cells.vx), dtype=np.bool_)
        if self.cells.unbounded:
            self.far = (self.cells.dx != 0.0) | (self.cells.dy != 0.0)

        vx, vy = self.cells.vx, self.cells.vy
        self.lengths = np.hypot(vx[self.after] - vx, vy[self.after] - vy)

    def lifted(self, point: list[Fraction]) -> list[Fraction]:
        """On the line: the middle of the strip."""
        return [*point, Fraction(1, 2)][:2]

    def corners(self) -> Floats:
        """The vertices, as far as they are finite."""
        return np.column_stack([self.cells.vx, self.cells.vy])[:, : self.d]

    def inside(self, x: Floats, cell: Integers) -> NDArray[np.bool_]:
        """Which points certainly lie in the polygon of their cell, in floats."""
        cells = self.cells
        counts = cells.facets.counts[cell]
        rows = np.repeat(np.arange(len(x)), counts)
        edges = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        edges += np.repeat(cells.facets.offsets[cell], counts)
        u = self.directions(edges)
        with np.errstate(invalid="ignore", divide="ignore"):
            u /= np.hypot(u[:, 0], u[:, 1])[:, None]
            px = x[rows, 0] - cells.vx[edges]
            py = (x[rows, 1] if self.d == 2 else 0.5) - cells.vy[edges]
            # both ends of the edge are uncertain: its direction the more, the shorter it is
            wide = cells.vr[edges] + cells.vr[self.after[edges]]
            length = np.where(self.far[edges] | self.far[self.after[edges]], 1.0, self.lengths[edges])
            slack = 4.0 * (wide + (wide / length + 1e-15) * (np.abs(px) + np.abs(py)))
            good = (u[:, 0] * py - u[:, 1] * px > slack) | (cells.owner[edges] == AT_INFINITY)
        inside = np.ones(len(x), dtype=np.bool_)
        np.logical_and.at(inside, rows, good)
        return inside

    def interior_point(self, cell: int) -> list[Fraction] | None:
        """A rational point inside a cell's polygon: its witness or the mean of its corners, if one is."""
        witness = [Fraction(float(v)) for v in self.regions.witnesses[cell]]
        if self.strictly_inside(witness, cell):
            return witness
        corners = corners_of(self.geometry.symbolic_rows(cell))
        if any(corner[2] == 0 for corner in corners):
            return None
        for exponent in range(1 if all(corner[3] == 0 == corner[4] for corner in corners) else 1100):
            zero, k = Fraction(0), len(corners)
            x = sum((Fraction(c[0] + (c[3] << exponent), c[2]) for c in corners), zero) / k
            y = sum((Fraction(c[1] + (c[4] << exponent), c[2]) for c in corners), zero) / k
            if self.strictly_inside([x, y], cell):
                return [x, y][: self.d]
        return None

    def closed(self) -> None:
        """No piece of an edge is without a cell beyond it."""
        edges = int(np.count_nonzero(self.cells.owner >= 0))
        if not self.regions.complete:
            self.report("closed", 0, skipped="the search was stopped")
            return
        open_ = self.contacts.uncovered
        failure = (
            f"edge {int(open_[0])} of cell {int(self.cell_of[open_[0]])} borders on nothing"
            if len(open_)
            else ""
        )
        self.report("closed", edges, failure)

    def crossings(self) -> None:
        """A step across a border leads to the neighbour."""
        pairs, edges = self.contacts.pairs, self.contacts.edges
        chosen = np.arange(len(pairs))
        if len(pairs) > CROSSINGS:
            chosen = np.sort(self.rng.choice(len(pairs), CROSSINGS, replace=False))
        middle = self.middles(edges[chosen])
        target = pairs[chosen, 1]
        x = (middle + _STEP * (self.cells.witnesses[target] - middle))[:, : self.d]
        usable = np.isfinite(x).all(axis=1)
        found = np.full(len(x), -1, dtype=np.int64)
        if usable.any():
            found[usable] = self.regions.locate(x[usable])
        failure = ""
        for k in np.flatnonzero(usable & (found != target))[:EXACTLY].tolist():
            point = [Fraction(float(v)) for v in x[k]]
            cell = int(target[k])
            # a border thinner than the float errors may be missed; then the point is not in the cell at all
            if self.located(point)[0] != cell and self.strictly_inside(point, cell):
                i, j = pairs[chosen[k]].tolist()
                failure = f"a step from cell {i} does not lead into its neighbour {j}"
                break
            self.settled += 1
        self.report("crossings", int(usable.sum()), failure)

    def middles(self, edges: Integers) -> Floats:
        """The middle of the common part of two edges; one unit from its end where it is unbounded."""
        first, second = edges[:, 0], edges[:, 1]
        base = np.column_stack([self.cells.vx[first], self.cells.vy[first]])
        u = self.directions(first)
        with np.errstate(invalid="ignore", divide="ignore"):
            u /= np.hypot(u[:, 0], u[:, 1])[:, None]
        low, high = np.full(len(edges), -np.inf), np.full(len(edges), np.inf)
        for edge in (first, second):
            start, end = self.places(edge, base, u), self.places(self.after[edge], base, u)
            low, high = np.maximum(low, np.minimum(start, end)), np.minimum(high, np.maximum(start, end))
        with np.errstate(invalid="ignore"):
            t = np.where(np.isinf(low), high - 1.0, np.where(np.isinf(high), low + 1.0, (low + high) / 2))
        return np.asarray(base + np.where(np.isinf(t), 0.0, t)[:, None] * u)

    def directions(self, edges: Integers) -> Floats:
        """The direction of edges, from start to end."""
        cells, after = self.cells, self.after[edges]
        u = np.column_stack([cells.vx[after] - cells.vx[edges], cells.vy[after] - cells.vy[edges]])
        if cells.unbounded:
            v = np.column_stack([cells.dx[after] - cells.dx[edges], cells.dy[after] - cells.dy[edges]])
            u = np.where((self.far[edges] | self.far[after])[:, None], v, u)
        return u

    def places(self, vertices: Integers, base: Floats, u: Floats) -> Floats:
        """Where vertices lie on lines given by a point and a unit vector."""
        cells = self.cells
        t = (cells.vx[vertices] - base[:, 0]) * u[:, 0] + (cells.vy[vertices] - base[:, 1]) * u[:, 1]
        if cells.unbounded:
            s = cells.dx[vertices] * u[:, 0] + cells.dy[vertices] * u[:, 1]
            t = np.where(self.far[vertices], np.where(s > 0.0, np.inf, -np.inf), t)
        return t

    def borders(self) -> None:
        """Perimeters add up."""
        if not self.regions.complete or self.far.any():
            why = "the domain is unbounded" if self.far.any() else "the search was stopped"
            self.report("borders", 0, skipped=why)
            return
        inner = self.cells.owner >= 0
        uncertain = 4.0 * float(self.cells.vr[inner].sum())
        around = math.fsum(self.lengths[inner].tolist())
        if not uncertain <= 1e-3 * around:
            self.report("borders", 0, skipped="the vertices are not known well enough in floats")
            return
        shared = 2.0 * math.fsum(self.contacts.lengths.tolist())
        apart = abs(around - shared) > 1e-9 * around + uncertain
        failure = f"{around!r} around the cells, but {shared!r} shared" if apart else ""
        self.report("borders", len(self.contacts.pairs), failure)
