r"""The cells of a network and the regions they form.

A cell is the set of inputs with one signature: a convex polygon. A region is a maximal connected set on which
the network is one affine map: adjacent cells with equal maps, glued. What is cheap is kept (signatures,
polygons, witnesses); maps, adjacency and regions are computed when they are first asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.algebra.rationals import nearest_float
from hardmax.errors import InvalidInputError
from hardmax.geometry.domains import Box, Domain, Polytope, WholeSpace
from hardmax.networks.groups import WallLayer, layers_of
from hardmax.networks.network import Network
from hardmax.networks.signatures import Signature, unpack_bits
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells, decode_wall
from hardmax.regions.counts import _how_sure
from hardmax.regions.exact_maps import ExactMaps
from hardmax.regions.rational_plane import corners_of
from hardmax.results import Result

if TYPE_CHECKING:
    from hardmax.regions.adjacency import Contacts
    from hardmax.regions.plane import PlaneMachine
    from hardmax.regions.verification import Verification

__all__ = ["RegionSet"]

Floats = NDArray[np.float64]

_DOUBT = 1e-6  # relative error of an area above which it is computed in rationals


@dataclass(frozen=True, eq=False, repr=False)
class RegionSet(Result):
    """Every cell of a network in a domain.

    Attributes
    ----------
    network, domain
        What was asked.
    n_cells, n_regions : int
        Convex cells, and maximal linear regions (``n_regions <= n_cells``).
    routings : ndarray of int32, (n_cells, heads)
        The winning key of every head, the lowest index of those that win together.
    relu_bits : ndarray of bool, (n_cells, units)
        Which ReLU units are on (``bits`` is the packed form that is stored).
    witnesses : ndarray of float64, (n_cells, d)
        A point inside each cell.
    margins : ndarray of float64, (n_cells,)
        A proven lower bound on the distance from the witness to the cell's boundary (0: floats prove none;
        then ``exact_witness(i)`` is inside).
    bounded : ndarray of bool
    coverage : float or None
        Total area over the domain's area; a sanity check, not the proof of completeness.
    n_slivers : int, slivers : ndarray
        Cells thinner than the tolerance.
    complete, exact : bool
        Whether everything was worked off; whether every decision was proven.

    Notes
    -----
    Cells are in lexicographic order of their signatures, block by block, so the order depends on the network
    and the domain only.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1.0], [-1.0]]], None, [[[0.0], [3.0]]])           # wall at 0, values 0 and 3
    >>> fold = hm.FeedForward([[1.0]], [-1.0], [[1.0]], [0.0])                   # folds at y = 1
    >>> cells = hm.enumerate_regions(hm.Network([head, fold]), hm.Box([-4], [4]))
    >>> cells.n_cells                                    # on each side of the wall the fold lies elsewhere
    4
    >>> cells.routings[:, 0], cells.relu_bits[:, 0]
    (array([0, 0, 1, 1], dtype=int32), array([False,  True, False,  True]))
    """

    kind: ClassVar[str] = "RegionSet"

    network: Network
    domain: Domain
    cells: Cells
    arithmetic: str
    complete: bool
    coverage: float | None
    sliver: float

    @classmethod
    def of_machine(
        cls,
        network: Network,
        domain: Domain,
        machine: PlaneMachine,
        complete: bool,
        arithmetic: str,
    ) -> Self:
        """The result of an enumeration."""
        found = cls(
            network=network,
            domain=domain,
            cells=machine.cells(),
            arithmetic=arithmetic,
            complete=complete,
            coverage=machine.coverage,
            sliver=float(machine.totals[1] / machine.totals[2]),
        )
        found.__dict__["_exact_maps"] = machine.exact_maps
        return found

    # counts and signatures

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return self.cells.n

    @property
    def exact(self) -> bool:
        """Whether every decision was proven."""
        return self.arithmetic != "float"

    @property
    def routings(self) -> NDArray[np.int32]:
        """The winning key of every head, one row per cell."""
        return self.cells.routings

    @property
    def bits(self) -> NDArray[np.uint64]:
        """The ReLU bits, packed: unit u at word u // 64, bit u % 64."""
        return self.cells.bits

    @cached_property
    def relu_bits(self) -> NDArray[np.bool_]:
        """Which ReLU units are on, one row per cell."""
        return unpack_bits(self.cells.bits, self.network.units_total)

    def signature(self, i: int) -> Signature:
        """The signature of cell ``i``."""
        i = self._index(i)
        return Signature(self.cells.routings[i : i + 1], self.cells.bits[i : i + 1], self.network.units_total)

    # geometry

    @property
    def d(self) -> int:
        """The dimension of the domain."""
        return self.domain.d

    @property
    def witnesses(self) -> Floats:
        """A point inside each cell."""
        return self.cells.witnesses[:, : self.d]

    @property
    def margins(self) -> Floats:
        """Proven lower bounds on the distance from witness to boundary."""
        return self.cells.margins

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""
        if self.cells.dx is None or self.n_cells == 0:
            return np.ones(self.n_cells, dtype=np.bool_)
        return ~np.logical_or.reduceat(self.cells.owner == AT_INFINITY, self.cells.edge_start[:-1])

    @cached_property
    def volumes(self) -> Floats:
        """Areas (lengths on the line); infinite for unbounded cells."""
        return self._sizes[0]

    @cached_property
    def slivers(self) -> NDArray[np.int64]:
        """Cells whose area is below the tolerance times half their perimeter."""
        area, around = self._sizes
        with np.errstate(over="ignore"):
            return np.flatnonzero(~(2.0 * area > self.sliver * around) & self.bounded)

    @property
    def n_slivers(self) -> int:
        """The number of slivers; they are listed and counted like all other cells."""
        return len(self.slivers)

    @cached_property
    def _sizes(self) -> tuple[Floats, Floats]:
        cells, start = self.cells, self.cells.edge_start[:-1]
        if self.n_cells == 0:
            return np.zeros(0), np.zeros(0)
        after = np.arange(1, len(cells.vx) + 1)
        after[cells.edge_start[1:] - 1] = start
        owner = np.repeat(np.arange(self.n_cells), np.diff(cells.edge_start))
        with np.errstate(invalid="ignore", over="ignore"):
            # relative to a point of the cell, so that a small cell far out keeps its digits
            x, y = cells.vx - cells.witnesses[owner, 0], cells.vy - cells.witnesses[owner, 1]
            area = 0.5 * np.add.reduceat(x * y[after] - y * x[after], start)
            around = np.add.reduceat(np.hypot(x[after] - x, y[after] - y), start)
            # where the vertices are less certain than the cell is thick, rationals say how big it is
            doubt = np.maximum.reduceat(cells.vr, start) * around
            thin = self.bounded & ~(doubt < _DOUBT * area)
        for i in np.flatnonzero(thin):
            area[i], around[i] = self._exact_size(int(i))
        area[~self.bounded] = np.inf
        around[~self.bounded] = np.inf
        return area, around

    def _exact_size(self, i: int) -> tuple[float, float]:
        """Area and perimeter of a bounded cell from its exact corners, rounded at the end."""
        corners = corners_of([(*line, 0) for line in self._exact_lines(i)])
        points = [(Fraction(x, w), Fraction(y, w)) for x, y, w, _, _ in corners]
        area, around = Fraction(0), 0.0
        for (x, y), (u, v) in zip(points, points[1:] + points[:1], strict=True):
            area += (x * v - y * u) / 2
            around += math.hypot(nearest_float(u - x), nearest_float(v - y))
        return nearest_float(area), around

    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of cell ``i``, counterclockwise (the two ends, on the line)."""
        points = self._polygon(self._index(i), None)
        if self.d == 1:  # the strip's two lower corners
            return np.sort(points[points[:, 1] < 0.5, :1], axis=0)
        return points

    @cached_property
    def vertices(self) -> Floats:
        """All finite vertices of all cells, one row each; a shared one appears once per cell."""
        points = np.column_stack([self.cells.vx, self.cells.vy])
        return points[~self._far][:, : self.d]

    @cached_property
    def _far(self) -> NDArray[np.bool_]:
        """Which vertices lie at infinity: those next to a side at infinity."""
        far = self.cells.owner == AT_INFINITY
        before = np.arange(-1, len(far) - 1)
        before[self.cells.edge_start[:-1]] = self.cells.edge_start[1:] - 1
        return np.asarray(far | far[before])

    def polygons(self, box: Box | None = None) -> list[Floats]:
        """The cells as polygons, counterclockwise.

        Parameters
        ----------
        box : Box, optional
            Unbounded cells are cut off there; required if there are any.
        """
        if box is None and not self.bounded.all():
            raise InvalidInputError(
                "box must say where unbounded cells are cut off; try box=hm.Box.cube(2, -4, 4)."
            )
        return [self._polygon(i, box) for i in range(self.n_cells)]

    def _polygon(self, i: int, box: Box | None) -> Floats:
        cells = self.cells
        edges = slice(int(cells.edge_start[i]), int(cells.edge_start[i + 1]))
        points = np.column_stack([cells.vx[edges], cells.vy[edges]])
        if cells.dx is not None and cells.dy is not None:
            far = np.column_stack([cells.dx[edges], cells.dy[edges]])
            if box is None:
                return points[~self._far[edges]]
            low, high = box.low.floats, box.high.floats
            size = float(np.abs(np.concatenate([low, high])).max()) + float(np.abs(points).max()) + 1.0
            scale = np.abs(far[far != 0.0])
            points = points + far * (1e3 * size / (scale.min() if len(scale) else 1.0))
        return points if box is None else _clipped(points, box)

    def halfspaces(self, i: int) -> tuple[Floats, Floats]:
        """``(A, b)`` with :math:`A x \\le b` on cell ``i``, correctly rounded; no redundant rows."""
        rows = self.exact_halfspaces(i)
        a = np.array([[float(v) for v in row[: self.d]] for row in rows]).reshape(-1, self.d)
        return a, np.array([float(row[-1]) for row in rows])

    def exact_halfspaces(self, i: int) -> list[list[Fraction]]:
        """Rows :math:`(a, b)`, :math:`a \\cdot x \\le b` on cell ``i``, in fractions, max |a| = 1."""
        rows: list[list[Fraction]] = []
        for line in self._exact_lines(self._index(i)):
            if line is None or not any(line[: self.d]):
                continue
            size = max(abs(v) for v in line[: self.d])
            row = [Fraction(-v, size) for v in line[: self.d]] + [Fraction(line[2], size)]
            if row not in rows:
                rows.append(row)
        return rows

    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside cell ``i``, as fractions."""
        i = self._index(i)
        lines = [(*line, 0) if len(line) == 3 else line for line in self._exact_lines(i, symbolic=True)]
        corners = corners_of(lines)
        reach = 1
        while True:
            points = [(c[0] + reach * c[3], c[1] + reach * c[4], c[2] * len(corners)) for c in corners]
            x = sum((Fraction(point[0], point[2]) for point in points), Fraction(0))
            y = sum((Fraction(point[1], point[2]) for point in points), Fraction(0))
            if all(line[3] or line[0] * x + line[1] * y + line[2] > 0 for line in lines):
                return [x, y][: self.d]
            reach *= 2

    def _exact_lines(self, i: int, *, symbolic: bool = False) -> list[Any]:
        """The lines of a cell's edges as integers, positive inside."""
        cells = self.cells
        bits, routings = np.append(cells.bits[i], np.uint64(0)), cells.routings[i]
        lines: list[Any] = []
        for e in range(int(cells.edge_start[i]), int(cells.edge_start[i + 1])):
            owner, wall = int(cells.owner[e]), int(cells.wall[e])
            if owner == AT_INFINITY:
                if symbolic:
                    lines.append([(0, 1, 0, 1), (-1, 0, 0, 1), (0, -1, 0, 1), (1, 0, 0, 1)][wall])
                continue
            if owner == DOMAIN_SIDE:
                lines.append(self._exact_maps.domain_line(wall))
                continue
            layer, group, a, b = decode_wall(wall)
            line = self._exact_maps.line(layer, group, a, b, bits, routings)
            block = self._exact_maps.layers[layer]
            if isinstance(block, WallLayer):
                inside = int(block.key[b]) == int(routings[block.first_head + group])
            else:
                unit = block.first_unit + group  # type: ignore[union-attr]
                inside = bool(int(bits[unit // 64]) >> (unit % 64) & 1)
            lines.append(line if inside else tuple(-v for v in line))
        return lines

    @cached_property
    def _exact_maps(self) -> ExactMaps:
        from hardmax.regions.enumeration import planar

        return ExactMaps(*planar(layers_of(self.network), self.domain))

    def _index(self, i: int) -> int:
        if not -self.n_cells <= i < self.n_cells:
            raise InvalidInputError(f"i must number one of the {self.n_cells} cells, but was {i}.")
        return i % self.n_cells

    # maps, adjacency, regions

    @cached_property
    def _maps(self) -> Any:
        from hardmax.regions.pattern_maps import pattern_maps

        cells = self.cells
        return pattern_maps(self._exact_maps.layers, cells.bits, cells.routings, cells.tied, self._exact_maps)

    @property
    def linear(self) -> Floats:
        """The linear parts of the maps, (n_cells, d_out, d)."""
        return np.asarray(self._maps.linear[:, :, : self.d])

    @property
    def offset(self) -> Floats:
        """The constant parts of the maps, (n_cells, d_out)."""
        return np.asarray(self._maps.offset)

    @cached_property
    def _contacts(self) -> Contacts:
        from hardmax.regions.adjacency import adjacent_cells

        return adjacent_cells(self.cells, self._exact_maps.layers, self._exact_maps)

    @property
    def adjacency(self) -> NDArray[np.int64]:
        """Pairs i < j of cells whose closures meet in a segment (in a point, on the line)."""
        return self._contacts.pairs

    @property
    def adjacency_kind(self) -> NDArray[np.uint8]:
        """For each pair: 0 = fold, 1 = wall, after the first block in which the two signatures differ.

        Across a wall the map may jump. Across a fold it is continuous, unless a later routing ties along it.
        """
        return self._contacts.kinds

    @property
    def adjacency_length(self) -> Floats:
        """For each pair: how long the common segment is."""
        return self._contacts.lengths

    @cached_property
    def region_of_cell(self) -> NDArray[np.int64]:
        """The region of every cell; regions are numbered by their first cell."""
        from hardmax.regions.merging import glue

        return glue(self)

    @cached_property
    def n_regions(self) -> int:
        """The number of maximal linear regions."""
        return int(self.region_of_cell.max()) + 1 if self.n_cells else 0

    def locate(self, points: ArrayLike) -> NDArray[np.int64]:
        """The cell of each point by its signature in float arithmetic; -1 where no listed cell has it."""
        signature = self.network.signature(np.atleast_2d(np.asarray(points, dtype=np.float64)))
        table = self._numbers
        rows = _rows(signature.routings, signature.bits)
        return np.array([table.get(row, -1) for row in rows], dtype=np.int64)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {row: i for i, row in enumerate(_rows(self.cells.routings, self.cells.bits))}

    def verify(self, *, n_points: int = 10_000, rng: int | np.random.Generator = 0) -> Verification:
        """Check the result from the outside; see :mod:`hardmax.regions.verification`."""
        from hardmax.regions.verification import verify

        return verify(self, n_points=n_points, rng=rng)

    # what every result has

    def _state(self) -> dict[str, Any]:
        cells = {f"cells.{name}": getattr(self.cells, name) for name in Cells.__dataclass_fields__}
        return {
            "network": self.network._state(),
            "domain": _domain_state(self.domain),
            "arithmetic": self.arithmetic,
            "complete": self.complete,
            "coverage": self.coverage,
            "sliver": self.sliver,
            **{name: value for name, value in cells.items() if value is not None},
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        cells = Cells(**{name: state.get(f"cells.{name}") for name in Cells.__dataclass_fields__})  # type: ignore[arg-type]
        return cls(
            network=Network._from_state(state["network"]),
            domain=_domain_from_state(state["domain"]),
            cells=cells,
            arithmetic=state["arithmetic"],
            complete=state["complete"],
            coverage=state["coverage"],
            sliver=state["sliver"],
        )

    def _summary(self) -> str:
        place = "on the line" if self.d == 1 else "in the plane"
        cells = "1 cell" if self.n_cells == 1 else f"{self.n_cells} cells"
        return f"{cells} {place}, {_how_sure(self.complete, self.exact)}"

    def _table(self) -> dict[str, Any]:
        table: dict[str, Any] = {"witness": self.witnesses, "margin": self.margins, "volume": self.volumes}
        if self.routings.shape[1]:
            table["routing"] = self.routings
        return table


def _rows(routings: NDArray[np.int32], bits: NDArray[np.uint64]) -> list[bytes]:
    n = len(routings)
    if n == 0:
        return []
    table = np.concatenate(
        [
            np.ascontiguousarray(routings, dtype=np.int32).view(np.uint8).reshape(n, -1),
            np.ascontiguousarray(bits, dtype=np.uint64).view(np.uint8).reshape(n, -1),
        ],
        axis=1,
    )
    return [row.tobytes() for row in table]


def _clipped(points: Floats, box: Box) -> Floats:
    """A convex polygon cut to a box."""
    for axis in range(2):
        for sign, bound in ((1.0, float(box.high.floats[axis])), (-1.0, -float(box.low.floats[axis]))):
            if not len(points):
                return points
            slack = bound - sign * points[:, axis]
            kept: list[Floats] = []
            for v in range(len(points)):
                u = (v + 1) % len(points)
                if slack[v] >= 0.0:
                    kept.append(points[v])
                if (slack[v] > 0.0) != (slack[u] > 0.0) and slack[v] != 0.0 and slack[u] != 0.0:
                    t = slack[v] / (slack[v] - slack[u])
                    kept.append(points[v] + t * (points[u] - points[v]))
            points = np.array(kept).reshape(-1, 2)
    return points


def _domain_state(domain: Domain) -> dict[str, Any]:
    if isinstance(domain, WholeSpace):
        return {"kind": "WholeSpace", "d": domain.d}
    if isinstance(domain, Box):
        sides = {"low": domain.low, "high": domain.high}
        return {"kind": "Box", **{name: _numbers_of(side) for name, side in sides.items()}}
    return {"kind": "Polytope", "a": _numbers_of(domain.a), "b": _numbers_of(domain.b)}


def _numbers_of(array: Any) -> Any:
    return (
        [str(v) for v in array.fractions.flat]
        if array.fractions is not None
        else array.floats.ravel().tolist()
    )


def _domain_from_state(state: dict[str, Any]) -> Domain:
    def numbers(values: list[Any]) -> list[Any]:
        return [Fraction(v) if isinstance(v, str) else float(v) for v in values]

    if state["kind"] == "WholeSpace":
        return WholeSpace(int(state["d"]))
    if state["kind"] == "Box":
        return Box(numbers(state["low"]), numbers(state["high"]))
    b = numbers(state["b"])
    a = np.array(numbers(state["a"]), dtype=object).reshape(len(b), -1)
    return Polytope(a.tolist(), b)
