r"""What every verification of a set of cells asks, whatever the dimension.

Points are judged by the network's own forward pass; where that is rounded and contradicts, by rationals.
Subclasses know the shape of the cells: where they end, and what lies beyond.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.regions.cells import Cells, Contacts
from hardmax.regions.maps.exact_maps import exact_signature, strictly_inside

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

__all__ = ["Check"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TOLERANCE = 1e-9  # beyond it a float is not trusted and rationals are asked
EXACTLY = 2000  # contradictions per check that are settled in rationals
CROSSINGS = 1_000_000


class Check:
    """One verification under way."""

    sizes_are = "volumes"

    def __init__(self, regions: RegionSet, rng: np.random.Generator) -> None:
        self.regions, self.rng, self.geometry = regions, rng, regions._geometry
        self.contacts: Contacts = regions._contacts
        self.network, self.d = regions.network, regions.d
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

    # cells

    def distinct(self) -> None:
        """No signature twice."""
        several = len(self.regions._numbers) < self.cells.n
        self.report("distinct", self.cells.n, "a signature is listed twice" if several else "")

    def witnesses(self) -> None:
        """Witnesses have the signature of their cell."""
        seen = self.network.signature(self.regions.witnesses)
        wrong = (seen.routings != self.cells.routings).any(axis=1) | (seen.bits != self.cells.bits).any(
            axis=1
        )
        self.agreeing = ~wrong
        failure = ""
        for i in np.flatnonzero(wrong)[:EXACTLY].tolist():
            point = self.interior_point(i)
            if point is None or self.located(point)[0] != i:
                failure = f"the witness of cell {i} has another signature"
                break
            self.settled += 1
        self.report("witnesses", self.cells.n, failure)

    def maps(self) -> None:
        """Maps agree with the forward pass at the witnesses."""
        x = self.regions.witnesses
        values = self.network(x)
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
        rows, denominator = self.regions._exact_maps.output(self.cells.bits[j], self.cells.routings[j])
        lifted = [*self.lifted(point), Fraction(1)]
        exact = [
            sum((int(a) * x for a, x in zip(row, lifted, strict=True)), Fraction(0)) / denominator
            for row in rows.tolist()
        ]
        floats = np.array([[float(Fraction(int(v), denominator)) for v in row] for row in rows.tolist()])
        size = np.abs(floats).max(initial=0.0) + 1.0
        close = np.abs(floats[:, : self.d] - self.regions.linear[j]).max(initial=0.0) <= TOLERANCE * size
        close &= np.abs(floats[:, -1] - self.regions.offset[j]).max(initial=0.0) <= TOLERANCE * size
        return bool(close) and tuple(exact) == tuple(self.network.exact_value(np.array(point, dtype=object)))

    def sizes(self) -> None:
        """Volumes add up."""
        volumes = self.regions.volumes
        size = None if volumes is None else self.regions._geometry.domain_size()
        if volumes is None:
            self.report(self.sizes_are, 0, skipped="volumes are not computed in so many dimensions")
        elif size is None:
            self.report(self.sizes_are, 0, skipped="the domain is unbounded")
        elif not self.regions.complete:
            self.report(self.sizes_are, 0, skipped="the search was stopped")
        else:
            total = math.fsum(volumes.tolist())
            apart = abs(total - size) > 1e-8 * size
            self.report(self.sizes_are, self.cells.n, f"{total!r} instead of {size!r}" if apart else "")

    # points

    def points(self, n_points: int) -> None:
        """Random points have a listed signature and lie in that cell."""
        if not self.regions.complete:
            self.report("points", 0, skipped="the search was stopped")
            return
        x = self.random_points(n_points)
        found = self.regions.locate(x) if len(x) else np.zeros(0, dtype=np.int64)
        outside = np.zeros(len(x), dtype=np.bool_)
        listed = found >= 0
        outside[listed] = ~self.inside(x[listed], found[listed])
        failure = ""
        for p in np.flatnonzero(~listed | outside)[:EXACTLY].tolist():
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
        return self.regions.vertices

    def random_points(self, n_points: int) -> Floats:
        """Points of the domain: uniform where it is bounded, of all sizes where it is not."""
        corners, d, rng = self.corners(), self.d, self.rng
        everywhere = not self.regions.bounded.all()
        if everywhere or not len(corners):
            size = 1.0 + float(np.abs(corners).max(initial=1.0))
        else:
            low, high = corners.min(axis=0), corners.max(axis=0)
        kept: list[Floats] = []
        missing = n_points
        for _ in range(64):  # a sharp wedge may hold few of the points that are tried
            if everywhere or not len(corners):
                radius = size * 10.0 ** rng.uniform(-2.0, 2.0, (2 * n_points, 1))
                x = radius * rng.standard_normal((2 * n_points, d))
            else:
                x = rng.uniform(low, high, (2 * n_points, d))
            kept.append(x[self.regions.domain.contains(x)][:missing])
            missing -= len(kept[-1])
            if missing <= 0:
                break
        return np.concatenate(kept)

    # what subclasses know

    def interior_point(self, cell: int) -> list[Fraction] | None:
        """A rational point inside a cell, if there is one."""
        raise NotImplementedError

    def closed(self) -> None:
        """No piece of boundary is without a cell beyond it."""
        raise NotImplementedError

    def crossings(self) -> None:
        """A step across a border leads to the neighbour."""
        raise NotImplementedError

    def borders(self) -> None:
        """Surfaces add up."""
        raise NotImplementedError
