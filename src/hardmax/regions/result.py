r"""The cells of a network and the regions they form.

A cell is the set of inputs with one signature: a convex polyhedron. A region is a maximal connected set on
which the network is one affine map: adjacent cells with equal maps, glued. What is cheap is kept (signatures,
vertices, witnesses); maps, volumes, adjacency and regions are computed when they are first asked for. What
depends on the dimension is asked of a geometry (:mod:`hardmax.regions.geometries`), one for each kind of
cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import (
    InvalidInputError,
    MissingExtraError,
    NotFiniteError,
    UnsupportedDimensionError,
)
from hardmax.geometry.domains import Box, Domain, domain_of
from hardmax.networks.heads.key_sets import Listed, listed_in_file
from hardmax.networks.layers import layers_of
from hardmax.networks.network import Network
from hardmax.networks.signatures import Signature, unpack_bits
from hardmax.regions.cell_checks import check_cells, sound_cells
from hardmax.regions.cells import Cells, Contacts
from hardmax.regions.geometries import Geometry
from hardmax.regions.listing import domain_size
from hardmax.regions.maps.exact_maps import ExactMaps, scaled_rows
from hardmax.regions.outlook import Outlook
from hardmax.regions.plane.geometry import PlaneGeometry, planar
from hardmax.regions.search.geometry import HalfspaceGeometry
from hardmax.regions.segment.geometry import SegmentGeometry
from hardmax.regions.space.geometry import SpaceGeometry
from hardmax.results import Result, pictures

if TYPE_CHECKING:
    import networkx

    from hardmax.regions.verify import Verification

Floats = NDArray[np.float64]

_GEOMETRIES: dict[str, type[Geometry]] = {
    "intervals": SegmentGeometry,
    "polygons": PlaneGeometry,
    "polyhedra": SpaceGeometry,
    "halfspaces": HalfspaceGeometry,
}


@dataclass(frozen=True, eq=False, repr=False)
class Cell:
    """One cell of a region set: ``regions[i]``."""

    regions: RegionSet
    index: int

    @property
    def routings(self) -> NDArray[np.int32]:
        """The winning key of every head."""
        return np.asarray(self.regions.routings[self.index])

    @property
    def relu_bits(self) -> NDArray[np.bool_]:
        """Which ReLU units are on."""
        return np.asarray(self.regions.relu_bits[self.index])

    @property
    def signature(self) -> Signature:
        """Routings and bits together."""
        return self.regions.signature(self.index)

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes that win on a part of it."""
        return tuple(np.flatnonzero(self.regions.classes[self.index]).tolist())

    @property
    def volume(self) -> float | None:
        """Its volume (area, length); ``None`` in seven and more dimensions."""
        return None if self.regions.volumes is None else float(self.regions.volumes[self.index])

    @property
    def bounded(self) -> bool:
        """Whether it is bounded."""
        return bool(self.regions.bounded[self.index])

    @property
    def witness(self) -> Floats:
        """A point inside."""
        return np.asarray(self.regions.witnesses[self.index])

    @property
    def exact_witness(self) -> list[Fraction]:
        """A point strictly inside, as fractions."""
        return self.regions.exact_witness(self.index)

    @property
    def linear(self) -> Floats:
        """The linear part of the map, (d_out, d)."""
        return np.asarray(self.regions.linear[self.index])

    @property
    def offset(self) -> Floats:
        """The constant part of the map, (d_out,)."""
        return np.asarray(self.regions.offset[self.index])

    @property
    def exact_map(self) -> tuple[list[list[Fraction]], list[Fraction]]:
        """Both parts as fractions."""
        return self.regions.exact_map(self.index)

    @property
    def region(self) -> int:
        """The number of its region."""
        return int(self.regions.region_of_cell[self.index])

    @property
    def vertices(self) -> Floats:
        """The finite vertices."""
        return self.regions.cell_vertices(self.index)

    @property
    def exact_vertices(self) -> list[list[Fraction]]:
        """The finite vertices as fractions."""
        return self.regions.exact_vertices(self.index)

    @property
    def halfspaces(self) -> tuple[Floats, Floats]:
        """``(A, b)`` with :math:`A x \\le b`."""
        return self.regions.halfspaces(self.index)

    @property
    def exact_halfspaces(self) -> list[list[Fraction]]:
        """Rows :math:`(a, b)` with :math:`a \\cdot x \\le b`, as fractions."""
        return self.regions.exact_halfspaces(self.index)

    def __repr__(self) -> str:
        return f"<Cell {self.index} of {self.regions.n_cells}: witness {self.witness.tolist()}>"


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
    volumes : ndarray of float64 or None
        Volumes (areas, lengths); infinite for unbounded cells, ``None`` in seven and more dimensions.
    coverage : float or None
        Total volume over the domain's; a sanity check, not the proof of completeness.
    n_slivers : int, slivers : ndarray
        Cells thinner than the tolerance.
    classes : ndarray of bool, (n_cells, n_classes)
        Which classes win somewhere on each cell, the network being a classifier.
    complete, exact : bool
        Whether every cell was found; whether every decision was proven.
    outlook : Outlook or None
        If not complete: a bound and a sample of the number of cells.

    Notes
    -----
    Cells are in lexicographic order of their signatures, block by block, so the order depends on the network
    and the domain only. ``len(regions)`` is their number, ``regions[i]`` one of them, a :class:`Cell`, and a
    loop over the result runs over all.

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
    >>> [cell.offset.tolist() for cell in cells]
    [[0.0], [-1.0], [0.0], [2.0]]
    """

    kind: ClassVar[str] = "RegionSet"

    network: Network
    domain: Domain
    cells: Cells
    arithmetic: str
    complete: bool
    covered: float | None
    sliver: float
    outlook: Outlook | None = None
    listed: Listed | None = None

    @classmethod
    def of_machine(
        cls,
        network: Network,
        domain: Domain,
        machine: Any,
        cells: Cells,
        *,
        arithmetic: str,
        complete: bool,
        covered: float | None,
        outlook: Outlook | None = None,
        listed: Listed | None = None,
    ) -> Self:
        """Cells that a machine found, or several for the same question; its exact maps are used again."""
        found = cls(network, domain, cells, arithmetic, complete, covered, machine.tolerance, outlook, listed)
        found.__dict__["_exact_maps"] = machine.exact_maps
        return found

    # one by one

    def __len__(self) -> int:
        return self.n_cells

    def __getitem__(self, i: int) -> Cell:
        if not -self.n_cells <= i < self.n_cells:
            raise IndexError(f"i must be in range({self.n_cells}), but was {i}.")
        return Cell(self, i % self.n_cells)

    def __iter__(self) -> Iterator[Cell]:
        return (Cell(self, i) for i in range(self.n_cells))

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
        return unpack_bits(self.cells.bits, self.plain.units_total)

    @property
    def plain(self) -> Network:
        """The network whose signatures these are.

        It is ``network``, unless some of its heads choose sets of keys: then it has a key for each set, and
        routings number the sets; see :meth:`chosen`.
        """
        return self.network if self.listed is None else self.listed.network

    def chosen(self, block: int) -> NDArray[np.bool_]:
        """Which keys the heads of a block with rule "top-k" or "sparsemax" choose, (n_cells, H, N).

        Examples
        --------
        >>> import hardmax as hm
        >>> head = hm.Attention([[[1.0], [0.0], [-1.0]]], None, [[[0.0], [1.0], [2.0]]], rule="top-k", k=2)
        >>> hm.enumerate_regions(hm.Network([head]), hm.Box([-1], [1])).chosen(0)[:, 0].astype(int)
        array([[1, 1, 0],
               [0, 1, 1]])
        """
        if self.listed is None or block not in self.listed.choices:
            raise InvalidInputError(
                f"block must be the number of one whose heads choose sets of keys, but was {block!r}."
            )
        return self.listed.chosen(block, self.cells.routings, self.relu_bits)

    def signature(self, i: int) -> Signature:
        """The signature of cell ``i``."""
        i = self._index(i)
        return Signature(self.cells.routings[i : i + 1], self.cells.bits[i : i + 1], self.plain.units_total)

    # geometry

    @property
    def d(self) -> int:
        """The dimension of the domain."""
        return self.domain.d

    @cached_property
    def _geometry(self) -> Geometry:
        return _GEOMETRIES[self.cells.kind](self.cells, self._exact_maps, self.d)

    @property
    def witnesses(self) -> Floats:
        """A point inside each cell."""
        return self.cells.witnesses[:, : self.d]

    @property
    def margins(self) -> Floats:
        """Proven lower bounds on the distance from witness to boundary."""
        return self.cells.margins

    @cached_property
    @sound_cells()
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""
        return self._geometry.bounded

    @cached_property
    @sound_cells()
    def volumes(self) -> Any:
        """Volumes (areas in the plane, lengths on the line), infinite for unbounded cells.

        ``None`` in seven and more dimensions.
        """
        return self._geometry.sizes[0]

    @cached_property
    @sound_cells()
    def coverage(self) -> float | None:
        """Total volume over the domain's; ``None`` where that has no meaning."""
        return self._geometry.coverage() if self.covered is None else self.covered

    @cached_property
    @sound_cells()
    def slivers(self) -> NDArray[np.int64]:
        """Bounded cells of volume V and surface S with d V / S below the tolerance.

        The radius of the largest ball inside is between V / S and d V / S. Where volumes are ``None``, the
        cells in which no ball of that size around the witness is proven.
        """
        volume, surface = self._geometry.sizes
        if volume is None or surface is None:
            return np.flatnonzero(~(self.margins > self.sliver))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.flatnonzero(~(self._geometry.dimension * volume > self.sliver * surface) & self.bounded)

    @property
    def n_slivers(self) -> int:
        """The number of slivers; they are listed and counted like all other cells."""
        return len(self.slivers)

    @sound_cells()
    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of cell ``i``: counterclockwise in the plane, the two ends on the line."""
        return _within_float64(self._geometry.cell_vertices(self._index(i)))

    @sound_cells()
    def exact_vertices(self, i: int) -> list[list[Fraction]]:
        """The finite vertices of cell ``i`` as fractions, in the order of :meth:`cell_vertices`.

        Examples
        --------
        >>> import hardmax as hm
        >>> fold = hm.Network.mlp([([[3.0]], [-1.0]), ([[1.0]], [0.0])])
        >>> hm.enumerate_regions(fold, hm.Box([0], [1])).exact_vertices(0)
        [[Fraction(0, 1)], [Fraction(1, 3)]]
        """
        return self._geometry.exact_vertices(self._index(i))

    @cached_property
    @sound_cells()
    def vertices(self) -> Floats:
        """All finite vertices of all cells, one row each; a shared one appears once per cell."""
        return _within_float64(self._geometry.vertices)

    @sound_cells()
    def polygons(self, box: Box | None = None) -> list[Floats]:
        """The cells of the plane as polygons, counterclockwise.

        Parameters
        ----------
        box : Box, optional
            Unbounded cells are cut off there; required if there are any.
        """
        geometry = self._geometry
        if not isinstance(geometry, PlaneGeometry):
            raise UnsupportedDimensionError(
                f"polygons are cells of the plane, but these have dimension {self.d}; try cell_vertices(i), "
                "or a plane slice, network.restrict(origin, directions)."
            )
        if box is None and not self.bounded.all():
            raise InvalidInputError(
                "box must say where unbounded cells are cut off; try box=hm.Box.cube(2, -4, 4)."
            )
        return [geometry.polygon(i, box) for i in range(self.n_cells)]

    @sound_cells()
    def halfspaces(self, i: int) -> tuple[Floats, Floats]:
        """``(A, b)`` with :math:`A x \\le b` on cell ``i``, correctly rounded; no redundant rows."""
        rows = self.exact_halfspaces(i)
        a = np.array([[float(v) for v in row[: self.d]] for row in rows]).reshape(-1, self.d)
        return a, np.array([float(row[-1]) for row in rows])

    @sound_cells()
    def exact_halfspaces(self, i: int) -> list[list[Fraction]]:
        """Rows :math:`(a, b)`, :math:`a \\cdot x \\le b` on cell ``i``, rational, :math:`\\max |a_j| = 1`."""
        return scaled_rows(self._geometry.rows(self._index(i)), self.d)

    @sound_cells()
    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside cell ``i``, as fractions."""
        return self._geometry.exact_witness(self._index(i))

    @cached_property
    def _exact_maps(self) -> ExactMaps:
        layers, domain = layers_of(self.plain), self.domain
        return ExactMaps(*(planar(layers, domain) if self.cells.kind == "polygons" else (layers, domain)))

    def _index(self, i: int) -> int:
        if not -self.n_cells <= i < self.n_cells:
            raise InvalidInputError(f"i must be in range({self.n_cells}), but was {i}.")
        return i % self.n_cells

    # maps, adjacency, regions

    @cached_property
    def _maps(self) -> Any:
        from hardmax.regions.maps.float_maps import pattern_maps

        cells = self.cells
        return pattern_maps(self._exact_maps.layers, cells.bits, cells.routings, cells.tied, self._exact_maps)

    @cached_property
    def _finite_maps(self) -> Any:
        return self._maps.finite(self.cells.bits, self.cells.routings, self._exact_maps)

    @property
    def linear(self) -> Floats:
        """The linear parts of the maps, (n_cells, d_out, d).

        Entries are right up to ``map_errors``: at most 1e-9 times the largest entry of the map, proven. A map
        whose numbers cancel so that floats would lose more is computed in rationals and rounded once.

        Examples
        --------
        >>> import hardmax as hm
        >>> steps = [hm.Affine([[1.0]], [b]) for b in (5.0, 2.0**60, -(2.0**60))]
        >>> cells = hm.enumerate_regions(hm.Network(steps), hm.Box([-1], [1]))
        >>> cells.linear.tolist(), cells.offset.tolist()
        ([[[1.0]]], [[5.0]])
        """
        return np.asarray(self._finite_maps.linear[:, :, : self.d])

    @property
    def offset(self) -> Floats:
        """The constant parts of the maps, (n_cells, d_out), as accurate as ``linear``."""
        return np.asarray(self._finite_maps.offset)

    @property
    def map_errors(self) -> Floats:
        """A proven bound on the error of every entry of ``linear`` and ``offset``, one per cell."""
        return np.asarray(self._finite_maps.error)

    def exact_map(self, i: int) -> tuple[list[list[Fraction]], list[Fraction]]:
        """``(A, b)``, the map :math:`x \\mapsto A x + b` of cell ``i`` in fractions."""
        i = self._index(i)
        rows, denominator = self._exact_maps.output(self.cells.bits[i], self.cells.routings[i])
        table = [[Fraction(int(value), denominator) for value in row] for row in rows.tolist()]
        return [row[: self.d] for row in table], [row[-1] for row in table]

    @cached_property
    @sound_cells()
    def _contacts(self) -> Contacts:
        return self._geometry.contacts()

    @property
    def adjacency(self) -> NDArray[np.int64]:
        """Pairs i < j of cells whose closures meet in dimension d - 1: in a segment, in the plane."""
        return self._contacts.pairs

    @property
    def adjacency_kind(self) -> NDArray[np.uint8]:
        """For each pair: 0 = fold, 1 = wall, after the first block in which the two signatures differ.

        Across a wall the map may jump. Across a fold it is continuous, unless a later routing ties along it.
        """
        return self._contacts.kinds

    @cached_property
    @sound_cells()
    def adjacency_length(self) -> Floats:
        """For each pair: the (d - 1)-dimensional size of the common part, in the plane its length.

        In the plane every length is proven up to a relative error of 1e-6: where floats do not know the ends
        well enough, rationals measure.
        """
        return self._geometry.contact_sizes(self._contacts)

    @cached_property
    @sound_cells()
    def region_of_cell(self) -> NDArray[np.int64]:
        """The region of every cell; regions are numbered by their first cell."""
        from hardmax.regions.maps.merging import glue

        return glue(self)

    @cached_property
    def n_regions(self) -> int:
        """The number of maximal linear regions."""
        return int(self.region_of_cell.max()) + 1 if self.n_cells else 0

    @cached_property
    @sound_cells()
    def classes(self) -> NDArray[np.bool_]:
        """Which classes a cell holds, (n_cells, n_classes): those that win on a part of it with interior.

        The class of an input is the lowest index of the largest output, or 1 where the only output is
        positive, else 0. Cells are cut by class to find out; :func:`hardmax.decision_boundary` keeps the
        parts.

        Examples
        --------
        >>> import hardmax as hm
        >>> net = hm.Network.mlp([([[1.0]], [0.0]), ([[1.0], [0.0]], [0.0, 0.5])])     # max(x, 0) against 1/2
        >>> hm.enumerate_regions(net, hm.Box([-1], [1])).classes
        array([[False,  True],
               [ True,  True]])
        """
        # stands above this module, because it enumerates
        found: NDArray[np.bool_] = import_module("hardmax.regions.decisions.classes").classes_of(self)
        return found

    def to_networkx(self) -> networkx.Graph:
        """The dual graph: a node for every cell, an edge for every two that are adjacent (needs networkx).

        Nodes carry ``witness``, ``volume`` and ``region``, edges ``kind`` ("fold" or "wall") and ``length``.

        Examples
        --------
        >>> import hardmax as hm
        >>> net = hm.Network.mlp([([[1.0, 0.0], [0.0, 1.0]], None), ([[1.0, 1.0]], None)])
        >>> graph = hm.enumerate_regions(net, hm.Box.cube(2, -1, 1)).to_networkx()
        >>> sorted(graph.edges), graph.edges[0, 1]
        ([(0, 1), (0, 2), (1, 3), (2, 3)], {'kind': 'fold', 'length': 1.0})
        """
        try:
            import networkx
        except ImportError as error:
            raise MissingExtraError(
                "to_networkx needs networkx, which is not installed; try: pip install networkx."
            ) from error
        graph = networkx.Graph()
        for cell in self:
            graph.add_node(
                cell.index, witness=tuple(cell.witness.tolist()), volume=cell.volume, region=cell.region
            )
        lengths, walls = self.adjacency_length.tolist(), self.adjacency_kind.tolist()
        for (i, j), wall, length in zip(self.adjacency.tolist(), walls, lengths, strict=True):
            graph.add_edge(i, j, kind="wall" if wall else "fold", length=length)
        return graph

    def plot(
        self,
        *,
        ax: Any = None,
        box: Any = None,
        colour: str = "map",
        points: Any = None,
        labels: Any = None,
    ) -> Any:
        """Draw the cells (needs the extra ``plot``).

        Parameters
        ----------
        ax, box
            As for every result.
        colour : {"map", "region", "cell", "class", "output", "output:K"}
            Similar colours for similar affine maps; one per region, or per cell, neighbours in different
            ones; the winning class, with the decision boundary; or the value of output K (by default of the
            first).
        points : (n, d) array_like, optional
            Data to draw.
        labels : (n,) array_like of int, optional
            Their classes, by which they are coloured.
        """
        return pictures("regions").draw_regions(
            self, ax=ax, box=box, colour=colour, points=points, labels=labels
        )

    def locate(self, points: ArrayLike) -> NDArray[np.int64]:
        """The cell of each point by its signature in float arithmetic; -1 where no listed cell has it."""
        signature = self.plain.signature(np.atleast_2d(np.asarray(points, dtype=np.float64)))
        return self.of_signatures(signature.routings, signature.bits)

    def of_signatures(self, routings: NDArray[np.int32], bits: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The cell with each signature (a row of routings, a row of packed bits); -1 where none is listed."""
        table = self._numbers
        return np.array([table.get(row, -1) for row in _rows(routings, bits)], dtype=np.int64)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {row: i for i, row in enumerate(_rows(self.cells.routings, self.cells.bits))}

    @sound_cells()
    def verify(self, *, n_points: int = 10_000, rng: int | np.random.Generator = 0) -> Verification:
        """Check the result from the outside; see :mod:`hardmax.regions.verify`."""
        from hardmax.regions.verify import verify

        return verify(self, n_points=n_points, rng=rng)

    # what every result has

    def _state(self) -> dict[str, Any]:
        state = {
            "network": self.network._state(),
            "domain": self.domain.state(),
            "arithmetic": self.arithmetic,
            "complete": self.complete,
            "coverage": self.covered,
            "sliver": self.sliver,
            "cells": self.cells.state(),
        }
        if self.listed is not None:
            state["sets"] = self.listed.plain_sets
        return state if self.outlook is None else {**state, "outlook": self.outlook._state()}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        known, network = state.get("outlook"), Network._from_state(state["network"])
        domain = domain_of(state["domain"])
        found = cls(
            outlook=None if known is None else Outlook._from_state(known),
            network=network,
            listed=listed_in_file(network, partial(domain_size, domain), state["sets"])
            if "sets" in state
            else None,
            domain=domain,
            cells=Cells.from_state(state["cells"]),
            arithmetic=state["arithmetic"],
            complete=state["complete"],
            covered=state["coverage"],
            sliver=state["sliver"],
        )
        maps = found._exact_maps
        check_cells(found.cells, maps.layers, maps.domain)
        return found

    def _summary(self) -> str:
        place = {1: "on the line", 2: "in the plane"}.get(self.d, f"in {self.d}-space")
        return (
            f"{_several(self.n_cells, 'cell')} {place}, {_how_sure(self.complete, self.exact, self.outlook)}"
        )

    def _table(self) -> dict[str, Any]:
        table: dict[str, Any] = {"witness": self.witnesses, "margin": self.margins}
        if self.volumes is not None:
            table["volume"] = self.volumes
        if self.routings.shape[1]:
            table["routing"] = self.routings
        return table


def _rows(routings: NDArray[np.int32], bits: NDArray[np.uint64]) -> list[bytes]:
    n = len(routings)
    if n == 0:
        return []
    columns = np.ascontiguousarray(routings, dtype=np.int32), np.ascontiguousarray(bits, dtype=np.uint64)
    table = np.concatenate([column.view(np.uint8).reshape(n, -1) for column in columns], axis=1)
    return [row.tobytes() for row in table]


@dataclass(frozen=True, eq=False, repr=False)
class CellCount(Result):
    """How many cells a network has in a domain: ``int(count)`` or ``count.n_cells``.

    Attributes
    ----------
    n_cells : int
        Cells found; all of them if ``complete``, otherwise a lower bound.
    complete : bool
        Whether every split was decided and followed.
    exact : bool
        Whether every decision was proven (false for ``arithmetic="float"``).
    coverage : float or None
        Area of the cells over the area of the domain; ``None`` in an unbounded domain and in space. A sanity
        check, not the proof.
    n_slivers : int or None
        Cells thinner than the stated tolerance; they are counted like all others. ``None`` in space, where
        volumes are only computed when they are asked for.
    n_unbounded : int or None
        Cells that reach to infinity; ``None`` if linear programs searched for cells, which do not tell.
    cells_by_depth : tuple of int
        Cells of the network cut off after each block that has walls or folds.
    n_zero, n_double_double, n_rational : int
        How often floats could not tell and a proof that the number is zero, double-double arithmetic, or
        rationals decided. Unlike all other numbers they depend on how the work was divided.
    outlook : Outlook or None
        If not complete: a bound and a sample of the number of cells.

    Examples
    --------
    >>> import hardmax as hm
    >>> count = hm.count_cells(hm.Network.random_mlp([2, 16, 16, 16, 1], 0), hm.Box.cube(2, -4, 4))
    >>> count
    <CellCount: 778 cells, complete, exact>
    >>> count.cells_by_depth
    (120, 397, 778)
    """

    kind: ClassVar[str] = "CellCount"
    _nested: ClassVar[dict[str, type]] = {"outlook": Outlook}
    _optional: ClassVar[tuple[str, ...]] = ("outlook",)

    n_cells: int
    complete: bool
    exact: bool
    coverage: float | None
    n_slivers: int | None
    n_unbounded: int | None
    cells_by_depth: tuple[int, ...]
    n_double_double: int
    n_rational: int
    n_zero: int = 0
    outlook: Outlook | None = None

    def __int__(self) -> int:
        return self.n_cells

    def _summary(self) -> str:
        return f"{_several(self.n_cells, 'cell')}, {_how_sure(self.complete, self.exact, self.outlook)}"

    def _table(self) -> dict[str, Any]:
        depth = len(self.cells_by_depth)
        return {"blocks with walls or folds": list(range(1, depth + 1)), "cells": list(self.cells_by_depth)}


@dataclass(frozen=True, eq=False, repr=False)
class RegionCount(Result):
    """How many maximal linear regions a network has in a domain: ``int(count)`` or ``count.n_regions``.

    Attributes
    ----------
    n_regions : int
        Cells glued together wherever adjacent ones carry the same affine map, proven equal.
    n_cells : int
        The cells they are made of.
    complete, exact : bool
        As for :class:`CellCount`. In an incomplete count ``n_regions`` bounds nothing: missing cells may join
        regions or add new ones.
    outlook : Outlook or None
        If not complete: a bound and a sample of the number of cells, not of regions.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1, 0], [-1, 0]]], None, [[[3, 0], [3, 0]]])      # two keys, one value
    >>> hm.count_regions(hm.Network([head]), hm.Box.cube(2, -1, 1))
    <RegionCount: 1 region of 2 cells, complete, exact>
    """

    kind: ClassVar[str] = "RegionCount"
    _nested: ClassVar[dict[str, type]] = {"outlook": Outlook}
    _optional: ClassVar[tuple[str, ...]] = ("outlook",)

    n_regions: int
    n_cells: int
    complete: bool
    exact: bool
    outlook: Outlook | None = None

    def __int__(self) -> int:
        return self.n_regions

    def _summary(self) -> str:
        regions, cells = _several(self.n_regions, "region"), _several(self.n_cells, "cell")
        return f"{regions} of {cells}, {_how_sure(self.complete, self.exact, self.outlook)}"

    def _table(self) -> dict[str, Any]:
        return {"regions": [self.n_regions], "cells": [self.n_cells]}


def _several(n: int, what: str) -> str:
    return f"1 {what}" if n == 1 else f"{n} {what}s"


def _how_sure(complete: bool, exact: bool, outlook: Outlook | None = None) -> str:
    text = f"{'complete' if complete else 'INCOMPLETE'}, {'exact' if exact else 'not certified'}"
    return text if outlook is None else f"{text}; {outlook}"


def _within_float64(vertices: Floats) -> Floats:
    if not np.isfinite(vertices).all():
        raise NotFiniteError("a vertex is beyond float64; exact_vertices(i) has it in fractions.")
    return vertices
