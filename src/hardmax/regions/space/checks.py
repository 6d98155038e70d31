r"""Verifying cells in space, on the line, and in high dimensions: steps across facets.

For each facet inside the domain a point in its middle is taken and a step made across it, away from the
cell's witness. The point beyond must have the signature of a listed neighbour; where floats say otherwise,
the signature just beyond the exact middle decides.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.regions.cells import AT_INFINITY
from hardmax.regions.checks import CROSSINGS, EXACTLY, Check
from hardmax.regions.maps.exact_maps import interior_point, signature_beyond
from hardmax.regions.space.facet_rows import float_rows
from hardmax.regions.space.geometry import SpaceGeometry

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

__all__ = ["ListedCheck", "SpaceCheck"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_STEP = 1e-6  # how far across a facet, relative to its distance from the witness
_UNIT = 2.0**-53


class _BeyondThePlane(Check):
    """What cells in space and listed cells have in common."""

    def interior_point(self, cell: int) -> list[Fraction] | None:
        """The witness if it is inside, else a point found in rationals."""
        witness = self.regions.witnesses[cell]
        if np.isfinite(witness).all():
            point = [Fraction(float(v)) for v in witness]
            if self.strictly_inside(point, cell):
                return point
        return interior_point(self.regions._geometry.rows(cell), self.d)

    def beyond(self, point: list[Fraction], cell: int) -> int:
        """The listed cell just beyond a rational point of a cell's boundary, seen from inside; or -1."""
        inside = self.interior_point(cell)
        if inside is None:
            return -1
        direction = [a - b for a, b in zip(point, inside, strict=True)]
        return self.listed(*signature_beyond(self.network, point, direction)[:2])


class SpaceCheck(_BeyondThePlane):
    """A verification of cells in three to six dimensions."""

    geometry: SpaceGeometry

    def __init__(self, regions: RegionSet, rng: np.random.Generator) -> None:
        super().__init__(regions, rng)
        self.cell_of = self.cells.facets.cell_of
        face = self.geometry.facets.face
        self.inner = np.flatnonzero((face == np.arange(len(face))) & (self.cells.owner >= 0))

    def inside(self, x: Floats, cell: Integers) -> NDArray[np.bool_]:
        """Which points certainly satisfy every row of their cell."""
        cells, face = self.cells, self.geometry.facets.face
        counts = cells.facets.counts[cell]
        rows = np.repeat(np.arange(len(x)), counts)
        facets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        facets += np.repeat(cells.facets.offsets[cell], counts)
        true = (face[facets] == facets) & (cells.owner[facets] != AT_INFINITY)
        rows, facets = rows[true], facets[true]
        if not len(facets):
            return np.ones(len(x), dtype=np.bool_)
        row_of, table, errors = float_rows(cells, self.geometry.exact, self.cell_of, np.unique(facets))
        lifted = np.concatenate([x, np.ones((len(x), 1))], axis=1)[rows]
        normal, error = table[row_of[facets]], errors[row_of[facets]]
        value = (normal * lifted).sum(axis=1)
        size = np.abs(normal * lifted).sum(axis=1)
        slack = (self.d + 3) * _UNIT * size + 1.01 * error * np.abs(lifted).sum(axis=1)
        # which side the cell is on: that of its witness, if it is clear
        witness = np.concatenate([cells.witnesses, np.ones((cells.n, 1))], axis=1)[cell[rows]]
        there = (normal * witness).sum(axis=1)
        inside = np.ones(len(x), dtype=np.bool_)
        np.logical_and.at(inside, rows, (np.abs(value) > slack) & ((value > 0) == (there > 0)))
        return inside

    def corners(self) -> Floats:
        """The vertices."""
        return self.geometry.vertices

    # borders

    def closed(self) -> None:
        """No facet is without a cell beyond it."""
        if not self.regions.complete:
            self.report("closed", 0, skipped="the search was stopped")
            return
        open_ = self.contacts.uncovered
        failure = (
            f"facet {int(open_[0])} of cell {int(self.cell_of[open_[0]])} borders on nothing"
            if len(open_)
            else ""
        )
        self.report("closed", len(self.inner), failure)

    def crossings(self) -> None:
        """A step across the middle of a facet leads to a listed neighbour."""
        if not self.regions.complete:
            self.report("crossings", 0, skipped="the search was stopped")
            return
        chosen = self.inner[self.cells.free[self.cell_of[self.inner]] == 0]
        if len(chosen) > CROSSINGS:
            chosen = np.sort(self.rng.choice(chosen, CROSSINGS, replace=False))
        cell = self.cell_of[chosen]
        middle = self.middles(chosen)
        x = middle + _STEP * (middle - self.cells.witnesses[cell])
        usable = np.isfinite(x).all(axis=1)
        found = np.full(len(x), -1, dtype=np.int64)
        if usable.any():
            found[usable] = self.regions.locate(x[usable])
        listed = self.adjacent(cell, found)
        failure = ""
        for k in np.flatnonzero(usable & ~listed)[:EXACTLY].tolist():
            i = int(cell[k])
            beyond = self.beyond(self.exact_middle(int(chosen[k])), i)
            if not self.adjacent(np.array([i]), np.array([beyond]))[0]:
                failure = f"facet {int(chosen[k])} of cell {i} does not lead to a listed neighbour"
                break
            self.settled += 1
        self.report("crossings", int(usable.sum()), failure)

    def adjacent(self, i: Integers, j: Integers) -> NDArray[np.bool_]:
        """Which of the pairs are listed as adjacent."""
        n = np.int64(self.cells.n)
        known = self.contacts.pairs[:, 0] * n + self.contacts.pairs[:, 1]  # sorted
        asked = np.minimum(i, j) * n + np.maximum(i, j)
        at = np.minimum(np.searchsorted(known, asked), max(len(known) - 1, 0))
        return np.asarray((j >= 0) & (known[at] == asked)) if len(known) else np.zeros(len(i), dtype=np.bool_)

    def middles(self, facets: Integers) -> Floats:
        """A point inside each facet: the mean of its vertices, moved along its directions."""
        cells, far = self.cells, self.geometry.facets.far
        middle, weight = np.zeros((len(facets), self.d)), np.zeros(len(facets))
        cell = self.cell_of[facets]
        s = facets - cells.facets.offsets[cell]
        counts = cells.vertices.counts[cell]
        for k in range(int(counts.max(initial=0))):
            here = np.flatnonzero(counts > k)
            r = cells.vertices.offsets[cell[here]] + k
            on = (cells.masks.content[r, s[here] // 64] >> (s[here] % 64).astype(np.uint64)) & np.uint64(
                1
            ) != 0
            here, r = here[on], r[on]
            near = far[r] == 0
            with np.errstate(divide="ignore", invalid="ignore"):
                middle[here[near]] += cells.rays[r[near], :-1] / cells.rays[r[near], -1:]
            middle[here[~near]] += cells.rays[r[~near], :-1]
            weight[here[near]] += 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(middle / weight[:, None])

    def exact_middle(self, f: int) -> list[Fraction]:
        """A rational point in the relative interior of a facet."""
        i, cells = int(self.cell_of[f]), self.cells
        s, first = f - int(cells.facets.offsets[i]), int(cells.vertices.offsets[i])
        point = [Fraction(0)] * (self.d + 1)
        for k, ray in enumerate(self.geometry.exact_rays(i)):
            if int(cells.masks.content[first + k, s // 64]) >> (s % 64) & 1:
                weight = Fraction(1, ray[-1]) if ray[-1] else Fraction(1, max(abs(v) for v in ray))
                point = [p + weight * v for p, v in zip(point, ray, strict=True)]
        return [p / point[-1] for p in point[:-1]]

    def borders(self) -> None:
        """Surfaces add up."""
        if not self.regions.complete or not self.regions.bounded.all():
            why = "the search was stopped" if self.regions.bounded.all() else "the domain is unbounded"
            self.report("borders", 0, skipped=why)
            return
        around = math.fsum(self.geometry.measured.areas[self.inner].tolist())
        shared = 2.0 * math.fsum(self.regions.adjacency_length.tolist())
        apart = abs(around - shared) > 1e-6 * around
        failure = f"{around!r} around the cells, but {shared!r} shared" if apart else ""
        self.report("borders", len(self.contacts.pairs), failure)


class ListedCheck(_BeyondThePlane):
    """A verification of cells on the line, or of cells in high dimensions, which have no list of vertices."""

    def corners(self) -> Floats:
        """Ends on the line; elsewhere the witnesses, and the corners of a box."""
        if self.d == 1:
            return self.geometry.vertices
        domain: Any = self.regions.domain
        sides = [domain.low.floats, domain.high.floats] if hasattr(domain, "low") else []
        return np.concatenate([self.regions.witnesses, *(side[None] for side in sides)])

    def closed(self) -> None:
        """Every end is shared or a side of the domain; in high dimensions facets are not listed by pieces."""
        if self.d > 1:
            self.report("closed", 0, skipped="facets are not measured in so many dimensions")
        elif not self.regions.complete:
            self.report("closed", 0, skipped="the search was stopped")
        else:
            pieces = len(self.contacts.pairs)
            apart = pieces != self.cells.n - 1
            failure = f"{self.cells.n} intervals, but {pieces} places where they meet" if apart else ""
            self.report("closed", pieces, failure)

    def crossings(self) -> None:
        """Between the witnesses of neighbours on the line lies nothing else; elsewhere skipped."""
        if self.d > 1:
            self.report("crossings", 0, skipped="facets have no list of vertices in so many dimensions")
            return
        failure, pairs = "", self.contacts.pairs[:EXACTLY].tolist()
        for i, j in pairs:
            ends = [{_root(row) for row in self.geometry.rows(cell)} for cell in (i, j)]
            common = ends[0] & ends[1]
            if not any(self.beyond([end], i) == j for end in common):
                failure = failure or f"a step from cell {i} does not lead into its neighbour {j}"
        self.report("crossings", len(pairs), failure)

    def borders(self) -> None:
        """There is nothing to measure."""
        self.report("borders", 0, skipped="borders have no size here")


def _root(row: tuple[int, ...]) -> Fraction:
    return Fraction(-row[-1], row[0])
