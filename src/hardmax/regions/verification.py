r"""Checking a set of cells from the outside.

Nothing of the engine is used to judge its result: the network's own forward pass says which signature a point
has and what its value is, and geometry says where the point lies. Where the forward pass, which is rounded,
contradicts the list, the point is put through the network once more in rationals; only a contradiction that
stands there is a failure. :class:`Verification` reports what was checked and how often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.algebra.rationals import ExactArray, dot, rational
from hardmax.errors import CertificateError
from hardmax.networks.blocks import Affine, Attention, FeedForward, Maxout
from hardmax.networks.network import Network
from hardmax.regions.adjacency import Contacts
from hardmax.regions.cells import AT_INFINITY
from hardmax.regions.rational_plane import corners_of, domain_polygon

if TYPE_CHECKING:
    from hardmax.regions.region_set import RegionSet

__all__ = ["Verification", "exact_signature", "verify"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TOLERANCE = 1e-9  # beyond it a float is not trusted and rationals are asked
_STEP = 1e-3  # how far across a border the neighbour is looked for, on the way to its witness
_EXACTLY = 2000  # contradictions per check that are settled in rationals
_CROSSINGS = 1_000_000


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


def verify(regions: RegionSet, *, n_points: int = 10_000, rng: int | np.random.Generator = 0) -> Verification:
    r"""Check cells, maps and borders against the network itself.

    * ``witnesses``: the witness of every cell has the cell's signature;
    * ``maps``: there the network has the value of the cell's map, and of the map of its region's first cell;
    * ``distinct``: no signature is listed twice;
    * ``areas``: they add up to the area of the domain;
    * ``points``: random points have a listed signature and lie in the polygon of that cell;
    * ``closed``: every piece of every edge has a listed cell beyond it, or is a side of the domain;
    * ``crossings``: a step across each of these pieces leads to the neighbour that is listed there;
    * ``borders``: the perimeters of the cells add up to twice the common borders and the rim of the domain.

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
    check = _Check(regions, np.random.default_rng(rng))
    check.distinct()
    check.witnesses()
    check.maps()
    check.areas()
    check.points(n_points)
    check.closed()
    check.crossings()
    check.borders()
    return Verification(check.checks, check.counts, check.settled)


class _Check:
    """One verification under way."""

    def __init__(self, regions: RegionSet, rng: np.random.Generator) -> None:
        self.regions, self.rng = regions, rng
        contacts: Any = regions._contacts
        self.contacts: Contacts = contacts
        self.cells, self.network, self.d = regions.cells, regions.network, regions.d
        self.checks: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.settled = 0
        start = self.cells.edge_start
        self.cell_of = np.repeat(np.arange(self.cells.n), np.diff(start))
        self.after = np.arange(1, len(self.cells.vx) + 1)
        self.after[start[1:] - 1] = start[:-1]
        self.far = np.zeros(len(self.cells.vx), dtype=np.bool_)
        if self.cells.dx is not None and self.cells.dy is not None:
            self.far = (self.cells.dx != 0.0) | (self.cells.dy != 0.0)

        vx, vy = self.cells.vx, self.cells.vy
        self.lengths = np.hypot(vx[self.after] - vx, vy[self.after] - vy)

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
        for i in np.flatnonzero(wrong)[:_EXACTLY].tolist():
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
            doubtful = (~(off <= _TOLERANCE * size)).any(axis=1) | ~self.agreeing
            for i in np.flatnonzero(doubtful)[:_EXACTLY].tolist():
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
        padded = [*point, Fraction(0)][:2]
        exact = [
            (int(a) * padded[0] + int(b) * padded[1] + int(c)) / denominator for a, b, c in rows.tolist()
        ]
        floats = np.array([[float(Fraction(int(v), denominator)) for v in row] for row in rows.tolist()])
        size = np.abs(floats).max(initial=0.0) + 1.0
        close = np.abs(floats[:, : self.d] - self.regions.linear[j]).max(initial=0.0) <= _TOLERANCE * size
        close &= np.abs(floats[:, -1] - self.regions.offset[j]).max(initial=0.0) <= _TOLERANCE * size
        return bool(close) and tuple(exact) == tuple(self.network.exact_value(np.array(point, dtype=object)))

    def areas(self) -> None:
        """Areas add up."""
        area = _domain_area(self.regions)
        if area is None:
            self.report("areas", 0, skipped="the domain is unbounded")
        elif not self.regions.complete:
            self.report("areas", 0, skipped="the search was stopped")
        else:
            total = math.fsum(self.regions.volumes.tolist())
            apart = abs(total - area) > 1e-8 * area
            self.report("areas", self.cells.n, f"{total!r} instead of {area!r}" if apart else "")

    # points

    def points(self, n_points: int) -> None:
        """Random points have a listed signature and lie in that cell."""
        if not self.regions.complete:
            self.report("points", 0, skipped="the search was stopped")
            return
        x = _random_points(self.regions, n_points, self.rng)
        found = self.regions.locate(x) if len(x) else np.zeros(0, dtype=np.int64)
        outside = np.zeros(len(x), dtype=np.bool_)
        listed = found >= 0
        outside[listed] = ~self.inside(x[listed], found[listed])
        failure = ""
        for p in np.flatnonzero(~listed | outside)[:_EXACTLY].tolist():
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

    def inside(self, x: Floats, cell: Integers) -> NDArray[np.bool_]:
        """Which points certainly lie in the polygon of their cell, in floats."""
        cells = self.cells
        counts = np.diff(cells.edge_start)[cell]
        rows = np.repeat(np.arange(len(x)), counts)
        edges = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        edges += np.repeat(cells.edge_start[cell], counts)
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

    def exactly_inside(self, point: list[Fraction], cell: int) -> bool:
        """Whether a rational point lies in a cell's closed polygon."""
        x, y = [*point, Fraction(1, 2)][:2]
        lines = self.regions._exact_lines(cell)
        return all(line[0] * x + line[1] * y + line[2] >= 0 for line in lines)

    def strictly_inside(self, point: list[Fraction], cell: int) -> bool:
        """Whether a rational point lies in the interior of a cell's polygon."""
        x, y = [*point, Fraction(1, 2)][:2]
        return all(line[0] * x + line[1] * y + line[2] > 0 for line in self.regions._exact_lines(cell))

    def interior_point(self, cell: int) -> list[Fraction] | None:
        """A rational point inside a cell's polygon: its witness or the mean of its corners, if one is."""
        witness = [Fraction(float(v)) for v in self.regions.witnesses[cell]]
        if self.strictly_inside(witness, cell):
            return witness
        lines = self.regions._exact_lines(cell, symbolic=True)
        corners = corners_of([(*line, 0) if len(line) == 3 else line for line in lines])
        if any(corner[2] == 0 for corner in corners):
            return None
        for exponent in range(1 if all(corner[3] == 0 == corner[4] for corner in corners) else 1100):
            zero, k = Fraction(0), len(corners)
            x = sum((Fraction(c[0] + (c[3] << exponent), c[2]) for c in corners), zero) / k
            y = sum((Fraction(c[1] + (c[4] << exponent), c[2]) for c in corners), zero) / k
            if self.strictly_inside([x, y], cell):
                return [x, y][: self.d]
        return None

    def located(self, point: list[Fraction]) -> tuple[int, bool]:
        """The cell with the signature of a rational point, or -1; whether something is level there."""
        routings, bits, level = exact_signature(self.network, point)
        words = [0] * self.cells.bits.shape[1]
        for unit, on in enumerate(bits):
            words[unit // 64] |= int(on) << (unit % 64)
        row = np.array(routings, dtype=np.int32).tobytes() + np.array(words, dtype=np.uint64).tobytes()
        return self.regions._numbers.get(row, -1), level

    # borders

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
        if len(pairs) > _CROSSINGS:
            chosen = np.sort(self.rng.choice(len(pairs), _CROSSINGS, replace=False))
        middle = self.middles(edges[chosen])
        target = pairs[chosen, 1]
        x = (middle + _STEP * (self.cells.witnesses[target] - middle))[:, : self.d]
        usable = np.isfinite(x).all(axis=1)
        found = np.full(len(x), -1, dtype=np.int64)
        if usable.any():
            found[usable] = self.regions.locate(x[usable])
        failure = ""
        for k in np.flatnonzero(usable & (found != target))[:_EXACTLY].tolist():
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
        if cells.dx is not None and cells.dy is not None:
            v = np.column_stack([cells.dx[after] - cells.dx[edges], cells.dy[after] - cells.dy[edges]])
            u = np.where((self.far[edges] | self.far[after])[:, None], v, u)
        return u

    def places(self, vertices: Integers, base: Floats, u: Floats) -> Floats:
        """Where vertices lie on lines given by a point and a unit vector."""
        cells = self.cells
        t = (cells.vx[vertices] - base[:, 0]) * u[:, 0] + (cells.vy[vertices] - base[:, 1]) * u[:, 1]
        if cells.dx is not None and cells.dy is not None:
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


def exact_signature(network: Network, point: list[Fraction]) -> tuple[list[int], list[bool], bool]:
    """Routings and bits at a rational point, and whether a unit is zero or keys are level there.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 1], [1, -1]], [0, 0]), ([[1, 1]], [0])])
    >>> exact_signature(net, [Fraction(1, 3), Fraction(1, 3)])
    ([], [True, False], True)
    """
    y = [rational(value) for value in point]
    routings: list[int] = []
    bits: list[bool] = []
    level = False
    for block in network.blocks:
        if isinstance(block, Affine):
            y = _product(block.w, y, block.b)
        elif isinstance(block, FeedForward):
            z = (
                [value + block.b_in.rational(i) for i, value in enumerate(y)]
                if block.w_in is None
                else _product(block.w_in, y, block.b_in)
            )
            bits += [bool(value > 0) for value in z]
            level |= any(value == 0 for value in z)
            z = [value if value > 0 else block.slope.rational(i) * value for i, value in enumerate(z)]
            out = _product(block.w_out, z, block.b_out)
            y = [a + b for a, b in zip(y, out, strict=True)] if block.skip else out
        elif isinstance(block, Maxout):
            maxima = []
            for h in range(block.heads):
                best, tied = _winners(block, h, y)
                routings.append(tied[0])
                level |= len(tied) > 1
                maxima.append(best)
            if block.w_out is None:
                out = [value + block.b_out.rational(i) for i, value in enumerate(maxima)]
            else:
                out = _product(block.w_out, maxima, block.b_out)
            y = [a + b for a, b in zip(y, out, strict=True)] if block.skip else out
        else:
            moved = [flint.fmpq(0)] * block.d_out
            for h in range(block.heads):
                _, tied = _winners(block, h, y)
                routings.append(tied[0])
                level |= len(tied) > 1
                for k in range(block.d_out):
                    total = sum((block.outputs.rational((h, j, k)) for j in tied), flint.fmpq(0))
                    moved[k] += total / len(tied)
            y = [a + b for a, b in zip(y, moved, strict=True)] if block.skip else moved
    return routings, bits, level


def _winners(block: Attention | Maxout, h: int, y: list[flint.fmpq]) -> tuple[flint.fmpq, list[int]]:
    """The largest score of a head at a point, and the keys that have it."""
    keys = np.flatnonzero(block.mask[h]).tolist()
    scores = {
        j: dot([block.scores.rational((h, j, k)) for k in range(block.d_in)], y)
        + block.biases.rational((h, j))
        for j in keys
    }
    best = max(scores.values())
    return best, [j for j in keys if scores[j] == best]


def _product(matrix: ExactArray, y: list[flint.fmpq], offsets: ExactArray) -> list[flint.fmpq]:
    return [dot(matrix.rational_row(i), y) + offsets.rational(i) for i in range(matrix.shape[0])]


def _random_points(regions: RegionSet, n_points: int, rng: np.random.Generator) -> Floats:
    """Points of the domain: uniform where it is bounded, of all sizes where it is not."""
    cells, d = regions.cells, regions.d
    corners = np.column_stack([cells.vx, cells.vy])[:, :d]
    low, high = corners.min(axis=0, initial=0.0), corners.max(axis=0, initial=0.0)
    if cells.dx is None:
        low, high = corners.min(axis=0), corners.max(axis=0)
    kept: list[Floats] = []
    missing = n_points
    for _ in range(64):  # a sharp wedge may hold few of the points that are tried
        if cells.dx is None:
            x = rng.uniform(low, high, (2 * n_points, d))
        else:
            size = (1.0 + np.abs(corners).max(initial=1.0)) * 10.0 ** rng.uniform(
                -2.0, 2.0, (2 * n_points, 1)
            )
            x = size * rng.standard_normal((2 * n_points, d))
        kept.append(x[regions.domain.contains(x)][:missing])
        missing -= len(kept[-1])
        if missing <= 0:
            break
    return np.concatenate(kept)


def _domain_area(regions: RegionSet) -> float | None:
    """The exact area of the domain, rounded; ``None`` if it is unbounded."""
    exact = regions._exact_maps
    polygon = domain_polygon([exact.domain_line(i) for i in range(exact.domain.b.shape[0])])
    if polygon is None or any(line[3] for line in polygon[0]):
        return None
    points = [(Fraction(x, w), Fraction(y, w)) for x, y, w, _, _ in corners_of(polygon[0])]
    turned = points[1:] + points[:1]
    return float(sum((x * v - y * u for (x, y), (u, v) in zip(points, turned, strict=True)), Fraction(0)) / 2)
