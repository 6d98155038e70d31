"""Which geometry belongs to which set of cells, and how cells go into a file and come back.

Every engine writes cells in its own form: polygons, polyhedra with rays, intervals, or, in high dimensions,
signatures with the names of their facets. A geometry answers the same questions about each.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hardmax.errors import FileFormatError
from hardmax.regions.cells import Cells
from hardmax.regions.halfspace_geometry import ListedCells, ListedGeometry
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.plane.geometry import PlaneGeometry
from hardmax.regions.space.geometry import SpaceGeometry
from hardmax.regions.space.space_cells import SpaceCells

__all__ = ["AnyCells", "Geometry", "cells_from", "geometry_of", "state_of"]

AnyCells = Cells | SpaceCells | ListedCells
Geometry = PlaneGeometry | SpaceGeometry | ListedGeometry

# where the classes are that know how to restore themselves
_HOMES = {
    "SegmentCells": "hardmax.regions.segment.segment_cells",
    "FoundCells": "hardmax.regions.search.search_cells",
}


def geometry_of(cells: AnyCells, exact: ExactMaps, d: int) -> Geometry:
    """The geometry of a set of cells."""
    if isinstance(cells, Cells):
        return PlaneGeometry(cells, exact, d)
    if isinstance(cells, SpaceCells):
        return SpaceGeometry(cells, exact)
    return ListedGeometry(cells, exact, d)


def state_of(cells: AnyCells) -> dict[str, Any]:
    """Everything about cells that must survive a file."""
    if isinstance(cells, Cells | SpaceCells):
        fields = {name: getattr(cells, name) for name in cells.__dataclass_fields__}
        fields = {name: value for name, value in fields.items() if value is not None}
    else:
        fields = dict(cells.state())
    # files of the plane are older than this entry
    return fields if isinstance(cells, Cells) else {"form": type(cells).__name__, **fields}


def cells_from(state: dict[str, Any]) -> AnyCells:
    """The cells of a file."""
    form = state.pop("form", "Cells")
    if form == "Cells":
        return Cells(**{name: state.get(name) for name in Cells.__dataclass_fields__})  # type: ignore[arg-type]
    if form == "SpaceCells":
        return SpaceCells(**{name: state[name] for name in SpaceCells.__dataclass_fields__})
    if form not in _HOMES:
        raise FileFormatError(f"the file holds cells of the unknown form {form!r}; try a newer hardmax.")
    home = import_module(_HOMES[form])
    found: AnyCells = getattr(home, form).from_state(state)
    return found
