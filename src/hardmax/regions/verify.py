r"""Checking a set of cells from the outside.

Nothing of the engine is used to judge its result: the network's own forward pass says which signature a point
has and what its value is, and geometry says where the point lies. Where the forward pass, which is rounded,
contradicts the list, the point is put through the network once more in rationals; only a contradiction that
stands there is a failure. :class:`Verification` reports what was checked and how often.

:class:`Check` asks what can be asked in every dimension. Its subclasses know the shape of the cells. In the
plane, steps lead across the common part of two edges. In space, a step leads across the middle of a facet,
away from the cell's witness; the point beyond must have the signature of a listed neighbour, and where floats
say otherwise, the signature just beyond the exact middle decides.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError, NotFiniteError
from hardmax.randomness import generator_of
from hardmax.regions.cells import AT_INFINITY, Cells, Contacts, Ragged
from hardmax.regions.maps.exact_maps import exact_signature, interior_point, signature_beyond, strictly_inside
from hardmax.regions.plane.geometry import PlaneGeometry, corners_of
from hardmax.regions.space.contacts import float_rows
from hardmax.regions.space.geometry import SpaceGeometry, mean_point

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TOLERANCE = 1e-9  # beyond it a float is not trusted and rationals are asked
EXACTLY = 2000  # contradictions per check that are settled in rationals
CROSSINGS = 1_000_000
_PLANE_STEP = 1e-3  # how far across a border the neighbour is looked for, on the way to its witness
_SPACE_STEP = 1e-6  # how far across a facet, relative to its distance from the witness
_UNIT = 2.0**-53


@dataclass(frozen=True)
class Verification:
    """What was checked.

    Attributes
    ----------
    checks : dict of str
        For each check ``"passed"``, ``"failed: ..."`` or ``"skipped: ..."``.
    counts : dict of int
        How many cells, points or borders each check looked at.
    settled_exactly : int
        Contradictions of the rounded forward pass that rationals resolved.
    """

    checks: dict[str, str]
    counts: dict[str, int]
    settled_exactly: int

    @property
    def ok(self) -> bool:
        """No check failed."""
        return not self.failures

    @property
    def failures(self) -> list[str]:
        """The checks that failed, each with the first contradiction."""
        return [f"{name} {what}" for name, what in self.checks.items() if what.startswith("failed")]

    def require(self) -> None:
        """Raise :class:`CertificateError` if a check failed."""
        if self.failures:
            raise CertificateError(f"the cells contradict the network: {'; '.join(self.failures)}.")

    def __repr__(self) -> str:
        checks = (f"{name} {what} ({self.counts[name]})" for name, what in self.checks.items())
        return "<Verification: " + "; ".join(checks) + ">"


class Check(ABC):
    """One verification under way."""

    sizes_are, pieces_are = "volumes", "facet"
    inner: Integers  # the pieces of boundary inside the domain

    def __init__(self, regions: RegionSet, rng: np.random.Generator) -> None:
        self.regions, self.rng, self.geometry = regions, rng, regions._geometry
        self.contacts: Contacts = regions._contacts
        self.network, self.d = regions.plain, regions.d
        self.cells: Cells = regions.cells
        self.checks: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.settled = 0

    def report(self, name: str, count: int, failure: str = "", *, skipped: str = "") -> None:
        """Write down the outcome of a check."""
        self.counts[name] = count
        self.checks[name] = (
            f"failed: {failure}" if failure else f"skipped: {skipped}" if skipped else "passed"
        )

    def stopped(self, name: str) -> bool:
        """Whether the search was stopped, so that a check means nothing and is skipped."""
        if not self.regions.complete:
            self.report(name, 0, skipped="the search was stopped")
        return not self.regions.complete

    # cells

    def distinct(self) -> None:
        """No signature twice."""
        several = len(self.regions._numbers) < self.cells.n
        self.report("distinct", self.cells.n, "a signature is listed twice" if several else "")

    def witnesses(self) -> None:
        """Witnesses have the signature of their cell."""
        try:
            seen = self.network.signature(self.regions.witnesses)
            wrong = (seen.routings != self.cells.routings).any(axis=1)
            wrong |= (seen.bits != self.cells.bits).any(axis=1)
        except NotFiniteError:  # floats overflow on the way: rationals say
            wrong = np.ones(self.cells.n, dtype=np.bool_)
        self.agreeing = ~wrong
        failure = ""
        for i in np.flatnonzero(wrong)[:EXACTLY].tolist():
            point = self.interior_point(i)
            if point is None or self.located(point)[0] != i:
                failure = f"the witness of cell {i} has another signature"
                break
            x = self.regions.witnesses[i].tolist()
            if self.cells.margins[i] > 0.0 and not self.strictly_inside([Fraction(v) for v in x], i):
                failure = f"the witness of cell {i} must lie inside by its margin, but does not"
                break
            self.settled += 1
        self.report("witnesses", self.cells.n, failure)

    def maps(self) -> None:
        """Maps agree at the witnesses with the forward pass of the network as given."""
        x = self.regions.witnesses
        values = self.regions.network(x)
        linear, offset = self.regions.linear, self.regions.offset
        first = np.full(self.regions.n_regions, self.cells.n, dtype=np.int64)
        region = self.regions.region_of_cell
        np.minimum.at(first, region, np.arange(self.cells.n))
        failure = ""
        for which in (np.arange(self.cells.n), first[region]):
            size = np.einsum("nek,nk->ne", np.abs(linear[which]), np.abs(x)) + np.abs(offset[which]) + 1.0
            off = np.abs(np.einsum("nek,nk->ne", linear[which], x) + offset[which] - values)
            doubtful = (~(off <= TOLERANCE * size)).any(axis=1) | ~self.agreeing
            for i in np.flatnonzero(doubtful)[:EXACTLY].tolist():
                if not self.exact_map_agrees(i, int(which[i])):
                    failure = failure or f"the map of cell {int(which[i])} gives another value in cell {i}"
                self.settled += 1
        self.report("maps", self.cells.n, failure)

    def exact_map_agrees(self, i: int, j: int) -> bool:
        """Whether the map of cell j is right at the rational witness of cell i, and its floats near it."""
        point = self.interior_point(i)
        if point is None:
            return False
        linear, offset = self.regions.exact_map(j)
        exact = [
            sum((a * x for a, x in zip(row, point, strict=True)), constant)
            for row, constant in zip(linear, offset, strict=True)
        ]
        floats = np.array([[*row, b] for row, b in zip(linear, offset, strict=True)], dtype=np.float64)
        stored = np.column_stack([self.regions.linear[j], self.regions.offset[j]])
        size = np.abs(floats).max(initial=0.0) + 1.0
        close = np.abs(floats - stored).max(initial=0.0) <= TOLERANCE * size
        value = self.regions.network.exact_value(np.array(point, dtype=object))
        return bool(close) and tuple(exact) == tuple(value)

    def sizes(self) -> None:
        """Volumes add up."""
        volumes = self.regions.volumes
        size = None if volumes is None else self.regions._geometry.domain_size()
        if volumes is None:
            self.report(self.sizes_are, 0, skipped="volumes are not computed in so many dimensions")
        elif size is None:
            self.report(self.sizes_are, 0, skipped="the domain is unbounded")
        elif not self.stopped(self.sizes_are):
            total = math.fsum(volumes.tolist())
            apart = abs(total - size) > 1e-8 * size
            self.report(self.sizes_are, self.cells.n, f"{total!r} instead of {size!r}" if apart else "")

    # points

    def points(self, n_points: int) -> None:
        """Random points have a listed signature and lie in that cell."""
        if self.stopped("points"):
            return
        x = self.random_points(n_points)
        found = self.regions.locate(x) if len(x) else np.zeros(0, dtype=np.int64)
        certain = found >= 0
        certain[certain] = self.inside(x[certain], found[certain])
        failure = ""
        for p in np.flatnonzero(~certain)[:EXACTLY].tolist():
            point = [Fraction(float(v)) for v in x[p]]
            cell, level = self.located(point)
            if cell < 0 and not level:
                failure = f"the signature of the point {x[p].tolist()} is not listed"
                break
            if cell >= 0 and not level and not self.exactly_inside(point, cell):
                failure = f"the point {x[p].tolist()} has the signature of cell {cell}, but lies outside it"
                break
            self.settled += 1
        self.report("points", len(x), failure)

    def located(self, point: list[Fraction]) -> tuple[int, bool]:
        """The cell with the signature of a rational point, or -1; whether something is level there."""
        routings, bits, level = exact_signature(self.network, point)
        return self.listed(routings, bits), level

    def listed(self, routings: list[int], bits: list[bool]) -> int:
        """The cell with a signature, or -1."""
        words = [0] * self.cells.bits.shape[1]
        for unit, on in enumerate(bits):
            words[unit // 64] |= int(on) << (unit % 64)
        row = np.array(routings, dtype=np.int32).tobytes() + np.array(words, dtype=np.uint64).tobytes()
        return self.regions._numbers.get(row, -1)

    def inside(self, x: Floats, cell: Integers) -> NDArray[np.bool_]:
        """Which points certainly lie in their cell, in floats; the others are asked about in rationals."""
        return np.zeros(len(x), dtype=np.bool_)

    def pieces_of(self, cell: Integers) -> tuple[Integers, Integers]:
        """All facets of some cells, and for each the place of its cell among them."""
        chosen = Ragged(self.cells.facets.offsets, np.arange(len(self.cells.owner)))[cell]
        return chosen.cell_of, chosen.content

    def located_floats(self, x: Floats) -> tuple[NDArray[np.bool_], Integers]:
        """Which points are finite, and the cells with their signatures, or -1."""
        usable = np.asarray(np.isfinite(x).all(axis=1))
        found = np.full(len(x), -1, dtype=np.int64)
        if usable.any():
            found[usable] = self.regions.locate(x[usable])
        return usable, found

    def lifted(self, point: list[Fraction]) -> list[Fraction]:
        """A point in the coordinates of the rows of cells."""
        return point

    def exactly_inside(self, point: list[Fraction], cell: int) -> bool:
        """Whether a rational point lies in a closed cell."""
        x = self.lifted(point)
        rows = self.regions._geometry.rows(cell)
        return all(sum((a * v for a, v in zip(row, x, strict=False)), Fraction(row[-1])) >= 0 for row in rows)

    def strictly_inside(self, point: list[Fraction], cell: int) -> bool:
        """Whether a rational point lies in the interior of a cell."""
        return strictly_inside(self.regions._geometry.rows(cell), self.lifted(point))

    def corners(self) -> Floats:
        """Points between which the cells lie: their vertices."""
        vertices = self.regions._geometry.vertices
        return vertices[np.isfinite(vertices).all(axis=1)]

    def random_points(self, n_points: int) -> Floats:
        """Points of the domain: uniform where it is bounded, of all sizes where it is not."""
        corners, rng, shape = self.corners(), self.rng, (2 * n_points, self.d)
        everywhere = not self.regions.bounded.all() or not len(corners)
        size = 1.0 + float(np.abs(corners).max(initial=1.0))
        kept: list[Floats] = []
        missing = n_points
        for _ in range(64):  # a sharp wedge may hold few of the points that are tried
            if everywhere:
                radius = size * 10.0 ** rng.uniform(-2.0, 2.0, (2 * n_points, 1))
                x = radius * rng.standard_normal(shape)
            else:
                x = rng.uniform(corners.min(axis=0), corners.max(axis=0), shape)
            kept.append(x[self.regions.domain.contains(x)][:missing])
            missing -= len(kept[-1])
            if missing <= 0:
                break
        return np.concatenate(kept)

    # what subclasses know

    @abstractmethod
    def interior_point(self, cell: int) -> list[Fraction] | None:
        """A rational point inside a cell, if there is one."""

    def closed(self) -> None:
        """No piece of boundary is without a cell beyond it."""
        if self.stopped("closed"):
            return
        failure = ""
        if len(self.contacts.uncovered):
            f = int(self.contacts.uncovered[0])
            cell = int(self.cells.facets.cell_of[f])
            failure = f"{self.pieces_are} {f} of cell {cell} borders on nothing"
        self.report("closed", len(self.inner), failure)

    @abstractmethod
    def crossings(self) -> None:
        """A step across a border leads to the neighbour."""

    @abstractmethod
    def borders(self) -> None:
        """Surfaces add up."""

    def compare_borders(self, around: float, lengths: Floats, slack: float) -> None:
        """What lies around the cells is twice what they share."""
        shared = 2.0 * math.fsum(lengths.tolist())
        apart = abs(around - shared) > slack
        failure = f"{around!r} around the cells, but {shared!r} shared" if apart else ""
        self.report("borders", len(self.contacts.pairs), failure)


class PlaneCheck(Check):
    """A verification of cells in the plane, or of strips that stand for cells on the line."""

    sizes_are, pieces_are = "areas", "edge"
    geometry: PlaneGeometry

    def __init__(self, regions: RegionSet, rng: np.random.Generator) -> None:
        super().__init__(regions, rng)
        start = self.cells.facets.offsets
        self.inner = np.flatnonzero(self.cells.owner >= 0)
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
        rows, edges = self.pieces_of(cell)
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

    def crossings(self) -> None:
        """A step across a border leads to the neighbour."""
        pairs, edges = self.contacts.pairs, self.contacts.edges
        chosen = np.arange(len(pairs))
        if len(pairs) > CROSSINGS:
            chosen = np.sort(self.rng.choice(len(pairs), CROSSINGS, replace=False))
        middle = self.middles(edges[chosen])
        target = pairs[chosen, 1]
        x = (middle + _PLANE_STEP * (self.cells.witnesses[target] - middle))[:, : self.d]
        usable, found = self.located_floats(x)
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
        uncertain = 4.0 * float(self.cells.vr[self.inner].sum())
        around = math.fsum(self.lengths[self.inner].tolist())
        if not uncertain <= 1e-3 * around:
            self.report("borders", 0, skipped="the vertices are not known well enough in floats")
            return
        self.compare_borders(around, self.regions.adjacency_length, 1e-9 * around + uncertain)


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
        rows, facets = self.pieces_of(cell)
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

    def crossings(self) -> None:
        """A step across the middle of a facet leads to a listed neighbour."""
        if self.stopped("crossings"):
            return
        chosen = self.inner[self.cells.free[self.cell_of[self.inner]] == 0]
        if len(chosen) > CROSSINGS:
            chosen = np.sort(self.rng.choice(chosen, CROSSINGS, replace=False))
        cell = self.cell_of[chosen]
        middle = self.middles(chosen)
        x = middle + _SPACE_STEP * (middle - self.cells.witnesses[cell])
        usable, found = self.located_floats(x)
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
            shift = (s[here] % 64).astype(np.uint64)
            on = (cells.masks.content[r, s[here] // 64] >> shift) & np.uint64(1) != 0
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
        s = f - int(cells.facets.offsets[i])
        rays = zip(self.geometry.exact_rays(i), cells.masks[i], strict=True)
        return mean_point([ray for ray, mask in rays if int(mask[s // 64]) >> (s % 64) & 1])

    def borders(self) -> None:
        """Surfaces add up."""
        if not self.regions.complete or not self.regions.bounded.all():
            why = "the search was stopped" if self.regions.bounded.all() else "the domain is unbounded"
            self.report("borders", 0, skipped=why)
            return
        around = math.fsum(self.geometry.measured.areas[self.inner].tolist())
        self.compare_borders(around, self.regions.adjacency_length, 1e-6 * around)


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
        elif not self.stopped("closed"):
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


_CHECKS: dict[str, type[Check]] = {
    "intervals": ListedCheck,
    "polygons": PlaneCheck,
    "polyhedra": SpaceCheck,
    "halfspaces": ListedCheck,
}


def verify(regions: RegionSet, *, n_points: int = 10_000, rng: int | np.random.Generator = 0) -> Verification:
    r"""Check cells, maps and borders against the network itself.

    * ``witnesses``: the witness of every cell has the cell's signature;
    * ``maps``: there the network has the value of the cell's map, and of the map of its region's first cell;
    * ``distinct``: no signature is listed twice;
    * ``areas`` (``volumes`` outside the plane): they add up to the size of the domain;
    * ``points``: random points have a listed signature and lie inside that cell;
    * ``closed``: every piece of every edge (every facet) has a listed cell beyond it, or is a side of the
      domain;
    * ``crossings``: a step across each of these pieces (across the middle of each facet) leads to a neighbour
      that is listed there;
    * ``borders``: the perimeters (surfaces) of the cells add up to twice the common borders and the rim of
      the domain.

    What cannot be asked in a dimension is skipped, and says so.

    Parameters
    ----------
    regions : RegionSet
    n_points : int
        Random points.
    rng : int or numpy Generator

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 1], [1, -1]], [0, 0]), ([[1, 1]], [0])])
    >>> report = hm.enumerate_regions(net, hm.Box.cube(2, -1, 1)).verify(n_points=100)
    >>> report.ok, report.counts["witnesses"], report.counts["crossings"]
    (True, 4, 4)
    """
    with np.errstate(all="ignore"):
        check = _CHECKS[regions.cells.kind](regions, generator_of(rng))
    steps: dict[str, Callable[[], None]] = {
        "distinct": check.distinct,
        "witnesses": check.witnesses,
        "maps": check.maps,
        check.sizes_are: check.sizes,
        "points": partial(check.points, n_points),
        "closed": check.closed,
        "crossings": check.crossings,
        "borders": check.borders,
    }
    with np.errstate(all="ignore"):  # what overflows is asked in rationals, or skipped
        for name, step in steps.items():
            try:
                step()
            except (NotFiniteError, OverflowError):
                check.report(name, 0, skipped="its numbers are beyond float64")
            except (ArithmeticError, LookupError, CertificateError) as error:  # cells that are none
                check.report(name, 0, f"the cells contradict themselves ({type(error).__name__})")
    return Verification(check.checks, check.counts, check.settled)
