r"""Cells that linear programs found, in any dimension: signatures, witnesses, and candidates for facets.

The candidates of a cell are the hyperplanes that cut it out of the domain on the way to it, among them all
its facets. Which of them are facets, whether the cell is bounded and which cells touch is found out when it
is first asked for (:mod:`hardmax.regions.search.outline`, :mod:`hardmax.regions.search.contacts`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedDimensionError
from hardmax.regions.cells import Contacts
from hardmax.regions.geometries import Geometry
from hardmax.regions.maps.exact_maps import Name
from hardmax.regions.search.contacts import contacts_of
from hardmax.regions.search.outline import Outline

__all__ = ["HalfspaceGeometry"]

Floats = NDArray[np.float64]


class HalfspaceGeometry(Geometry):
    """What can be asked about cells without a list of vertices."""

    @cached_property
    def outline(self) -> Outline:
        """Which candidates are facets."""
        return Outline(self.cells, self.exact)

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""
        return self.outline.facets.bounded

    @property
    def sizes(self) -> tuple[None, None]:
        """Linear programs compute no volumes."""
        return None, None

    @property
    def vertices(self) -> Floats:
        """Vertices are not known here."""
        raise self._too_many()

    def cell_vertices(self, i: int) -> Floats:
        """Vertices are not known here."""
        raise self._too_many()

    def _too_many(self) -> UnsupportedDimensionError:
        return UnsupportedDimensionError(
            f"vertices are not computed in dimension {self.d}, where cells have too many; try "
            "halfspaces(i), or a slice, network.restrict(origin, directions)."
        )

    def boundary(self, i: int) -> list[Name]:
        """The names (owner, wall) of the facets of a cell, in the order in which they were drawn."""
        facets = self.outline.facets
        at = slice(int(facets.start[i]), int(facets.start[i + 1]))
        return list(zip(facets.owner[at].tolist(), facets.wall[at].tolist(), strict=True))

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells; sizes are not known (NaN), ``edges`` number the facets of all cells."""
        return contacts_of(self.cells, self.exact.layers, self.outline)
