r"""Cells that know their own shape: intervals on the line, and cells of the search in high dimensions.

Where an engine writes down cells with methods of their own (``bounded``, ``volumes``, ``boundary`` and so
on), this passes questions on to them and adds what follows from the names of their facets.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedDimensionError
from hardmax.exact.rationals import nearest_float
from hardmax.regions.maps.boundary_rows import Name, Row, inner_row, interior_point, strictly_inside
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.search.search_cells import FoundCells
from hardmax.regions.segment.rational_intervals import interval_of

if TYPE_CHECKING:
    from hardmax.regions.maps.adjacency import Contacts

__all__ = ["ListedCells", "ListedGeometry"]

Floats = NDArray[np.float64]


class ListedCells(Protocol):
    """What such a set of cells offers."""

    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    witnesses: Floats
    margins: Floats

    @property
    def n(self) -> int:
        """The number of cells."""

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""

    @property
    def volumes(self) -> Floats | None:
        """Volumes, if they are known."""

    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of a cell."""

    def boundary(self, i: int) -> list[Name]:
        """The names of a cell's facets."""

    def contacts(self, layers: Any, exact: Any) -> Contacts:
        """Pairs of adjacent cells."""

    def state(self) -> dict[str, Any]:
        """Everything that must survive a file."""


class ListedGeometry:
    """What can be asked about the shape of such cells."""

    def __init__(self, cells: ListedCells, exact: ExactMaps, d: int) -> None:
        self.cells, self.exact, self.d = cells, exact, d
        if isinstance(cells, FoundCells):
            cells.bind(exact)

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""
        return self.cells.bounded

    @property
    def sizes(self) -> tuple[Floats | None, Floats | None]:
        """Volumes (``None`` in high dimensions) and surfaces (on the line 1, so that short means thin)."""
        volumes = self.cells.volumes
        return volumes, None if volumes is None else np.ones(self.cells.n)

    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of a cell."""
        return self.cells.cell_vertices(i)

    @cached_property
    def vertices(self) -> Floats:
        """All finite vertices of all cells; a shared one appears once per cell."""
        if self.d > 1:
            raise UnsupportedDimensionError(
                f"vertices are not computed in dimension {self.d}, where cells have too many; try "
                "halfspaces(i), or a slice, network.restrict(origin, directions)."
            )
        points = [self.cells.cell_vertices(i) for i in range(self.cells.n)]
        return np.concatenate(points) if points else np.zeros((0, self.d))

    def boundary(self, i: int) -> list[Name]:
        """The names of a cell's facets."""
        return self.cells.boundary(i)

    def rows(self, i: int) -> list[Row]:
        """The exact rows of a cell's facets, nonnegative on the cell."""
        bits, routings = np.append(self.cells.bits[i], np.uint64(0)), self.cells.routings[i]
        return [inner_row(self.exact, name, bits, routings) for name in self.boundary(i)]

    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside a cell: the float witness if it is, else one found in rationals."""
        rows = self.rows(i)
        witness = self.cells.witnesses[i, : self.d]
        if np.isfinite(witness).all():
            point = [Fraction(float(v)) for v in witness]
            if strictly_inside(rows, point):
                return point
        inside = interior_point(rows, self.d)
        if inside is None:
            raise UnsupportedDimensionError(f"cell {i} has no interior point; the list of cells is damaged.")
        return inside

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells."""
        return self.cells.contacts(self.exact.layers, self.exact)

    def contact_sizes(self, contacts: Contacts) -> Floats:
        """How long the common segments of adjacent cells are."""
        return contacts.lengths

    def domain_size(self) -> float | None:
        """The size of the domain; ``None`` if it is unbounded or not measured."""
        if self.d > 1:
            return None
        interval = interval_of([self.exact.domain_line(i) for i in range(self.exact.domain.b.shape[0])])
        if interval is None or not (isinstance(interval[0], Fraction) and isinstance(interval[2], Fraction)):
            return None
        return nearest_float(interval[2] - interval[0])
