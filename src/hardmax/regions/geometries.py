r"""What can be asked about the shape of cells, whatever their dimension.

One class per kind of :class:`~hardmax.regions.cells.Cells`: intervals, polygons, polyhedra, half-spaces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.regions.cells import AT_INFINITY, Cells, Contacts
from hardmax.regions.maps.exact_maps import ExactMaps, Name, Row, inner_row, interior_point, strictly_inside

Floats = NDArray[np.float64]


class Geometry(ABC):
    """The shape of some cells.

    Parameters
    ----------
    cells : Cells
    exact : ExactMaps
        The network and the domain, for rows without rounding.
    d : int
        The dimension of the domain.
    """

    def __init__(self, cells: Cells, exact: ExactMaps, d: int) -> None:
        self.cells, self.exact, self.d = cells, exact, d

    @property
    def dimension(self) -> int:
        """The dimension of what is measured by ``sizes``."""
        return self.d

    @property
    @abstractmethod
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[Floats | None, Floats | None]:
        """Volumes and surfaces, infinite where a cell is unbounded; ``None`` where they are not computed."""

    @property
    @abstractmethod
    def vertices(self) -> Floats:
        """All finite vertices of all cells; a shared one appears once per cell."""

    @abstractmethod
    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of a cell."""

    @abstractmethod
    def exact_vertices(self, i: int) -> list[list[Fraction]]:
        """The finite vertices of a cell without rounding, in the order of :meth:`cell_vertices`."""

    @abstractmethod
    def contacts(self) -> Contacts:
        """Pairs of adjacent cells."""

    def contact_sizes(self, contacts: Contacts) -> Floats:
        """How large the common parts of adjacent cells are."""
        return contacts.lengths

    def facet_name(self, f: int) -> Name:
        """The name of facet ``f`` of all cells, as the edges of contacts number them."""
        owner, wall = self.cells.facets.content[f].tolist()
        return owner, wall

    def contact_row(self, contacts: Contacts, k: int) -> Row:
        """The exact row of the hyperplane of contact ``k``, nonnegative on the first of its cells."""
        return self.row(int(contacts.pairs[k, 0]), self.facet_name(int(contacts.edges[k, 0])))

    def contact_rows(self, contacts: Contacts, k: int) -> list[Row]:
        """The exact rows of both cells of contact ``k``, and that of infinity: together they bound it."""
        i, j = contacts.pairs[k].tolist()
        return [(0,) * self.exact.d + (1,), *self.rows(i), *self.rows(j)]

    def coverage(self) -> float | None:
        """The share of the domain that the cells fill, if the engine did not measure it on its way."""
        return None

    def domain_size(self) -> float | None:
        """The size of the domain, rounded; ``None`` if it is unbounded or not measured."""
        return None

    def boundary(self, i: int) -> list[Name]:
        """The names of a cell's facets; infinity is none."""
        return [name for name in self.cells.names(i) if name[0] != AT_INFINITY]

    def row(self, i: int, name: Name) -> Row:
        """The exact row of a facet, nonnegative on the cell."""
        return inner_row(self.exact, name, self.cells.bits[i], self.cells.routings[i])

    def rows(self, i: int) -> list[Row]:
        """The exact rows of a cell's facets, nonnegative on the cell; infinity left out."""
        return [self.row(i, name) for name in self.boundary(i)]

    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside a cell: the float witness if it is, else one found in rationals."""
        rows = self.rows(i)
        witness = self.cells.witnesses[i, : self.d]
        if np.isfinite(witness).all():
            point = [Fraction(float(v)) for v in witness]
            if strictly_inside(rows, point):
                return point
        inside = self.inner_point(i, rows)
        if inside is None:
            raise CertificateError(f"cell {i} has no interior point; the list of cells is damaged.")
        return inside

    def inner_point(self, i: int, rows: list[Row]) -> list[Fraction] | None:
        """A rational point strictly inside a cell."""
        return interior_point(rows, self.d)
