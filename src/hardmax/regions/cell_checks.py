"""Cells from a file: compared with the network and the domain before a kernel sees them.

Compiled code follows offsets, numbers of keys and codes of walls without looking whether they exist. So every
number of a file that stands for something must stand for something that the network has. That the cells are
the right ones is another question, which :mod:`hardmax.regions.verify` answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError, DamagedFileError
from hardmax.fields import check_finite, check_offsets, check_range, check_shapes
from hardmax.geometry.domains import Domain
from hardmax.networks.layers import Layer
from hardmax.regions.cells import (
    AT_INFINITY,
    DOMAIN_SIDE,
    GROUP_BITS,
    KEY_BITS,
    NOT_NAMED,
    Cells,
    Ragged,
    signature_order,
)

_TYPES = {
    "bits": np.uint64,
    "routings": np.int32,
    "tied": np.uint8,
    "witnesses": np.float64,
    "margins": np.float64,
    "facets": np.int64,
    "vertices": np.float64,
    "masks": np.uint64,
    "free": np.int64,
    "lengths": np.float64,
    "position": np.int64,
}
# of each kind: columns of vertices beyond the dimension, columns of its own, and what is stored row by row
_KINDS: dict[str, tuple[tuple[int, ...], tuple[str, ...], tuple[tuple[str, str], ...]]] = {
    "intervals": ((1,), ("lengths", "position"), (("facets", "vertices"),)),
    "polygons": ((1, 3), (), (("facets", "vertices"),)),
    "polyhedra": ((2,), ("masks", "free"), (("masks", "vertices"),)),
    "halfspaces": ((), (), ()),
}
_FAR_SIDES = 4  # of the plane
_MOST_FACETS = 2**20  # of a polyhedron


def check_cells(cells: Cells, layers: tuple[Layer, ...], domain: Domain) -> None:
    """Refuse cells that do not fit together, or do not fit a network in a domain.

    Raises
    ------
    DamagedFileError
        Naming the column.
    """
    _check_columns(cells)
    _check_signatures(cells, layers)
    _check_numbers(cells, domain.d)
    _check_facets(cells, layers, domain)


def _check_columns(cells: Cells) -> None:
    if cells.kind not in _KINDS:
        raise DamagedFileError(f"its kind must be one of {', '.join(_KINDS)}, but was {cells.kind!r}.")
    widths, own, aligned = _KINDS[cells.kind]
    table = cells.table
    others = {"masks", "free", "lengths", "position"} - set(own)
    if set(table) != set(_TYPES) - others:
        raise DamagedFileError(f"its {cells.kind} must have the columns of their kind, but have others.")
    arrays: dict[str, Any] = {}
    for name, column in table.items():
        ragged = name in ("facets", "vertices", "masks")
        if isinstance(column, Ragged) != ragged:
            raise DamagedFileError(f"its {name} must{'' if ragged else ' not'} have offsets.")
        array = column.content if isinstance(column, Ragged) else column
        if not isinstance(array, np.ndarray) or array.dtype != _TYPES[name]:
            raise DamagedFileError(f"its {name} must be an array of {np.dtype(_TYPES[name])}, but is not.")
        arrays[name] = array
        if isinstance(column, Ragged):
            if not array.ndim:
                raise DamagedFileError(f"its {name} must have rows, but has none.")
            check_offsets(f"{name}.offsets", column.offsets, len(array))
            if len(column) != len(cells.tied):
                raise DamagedFileError(f"its {name} must belong to {len(cells.tied)} cells, but do not.")
    shapes = {
        **dict.fromkeys(("tied", "margins", "free", "lengths", "position"), "cells"),
        "bits": "cells words",
        "routings": "cells heads",
        "witnesses": "cells d",
        "facets": "facets 2",
        "vertices": "vertices columns",
        "masks": "vertices slots",
    }
    sizes = check_shapes(arrays, {name: shapes[name] for name in arrays})
    if widths and sizes["columns"] - sizes["d"] not in widths:
        raise DamagedFileError(f"its vertices must have the columns of {cells.kind}, but do not.")
    for one, other in aligned:
        if not np.array_equal(getattr(cells, one).offsets, getattr(cells, other).offsets):
            raise DamagedFileError(f"its {one} and {other} must belong to the same cells, but do not.")


def _check_signatures(cells: Cells, layers: tuple[Layer, ...]) -> None:
    units = sum(layer.units for layer in layers)
    heads = sum(layer.heads for layer in layers)
    words = -(-units // 64)
    if cells.bits.shape[1] != words or cells.routings.shape[1] != heads:
        raise DamagedFileError(
            f"its bits and routings must be those of {units} units and {heads} heads, but have "
            f"{cells.bits.shape[1]} and {cells.routings.shape[1]} columns."
        )
    if units % 64 and (cells.bits[:, -1] >> np.uint64(units % 64)).any():
        raise DamagedFileError("its bits must be those of the units of the network, but there are others.")
    for layer in layers:
        for h in range(layer.heads):
            if not layer.has_keys(h, cells.routings[:, layer.first_head + h]).all():
                raise DamagedFileError(
                    f"its routings must be keys of head {layer.first_head + h}, but one is not."
                )
    check_range("tied", cells.tied, 0, 2)
    order = signature_order(layers, cells.bits, cells.routings)
    before, after = order[:-1], order[1:]
    same = (cells.bits[before] == cells.bits[after]).all(axis=1)
    same &= (cells.routings[before] == cells.routings[after]).all(axis=1)
    if same.any():
        raise DamagedFileError("its cells must have different signatures, but two are the same.")


def _check_numbers(cells: Cells, d: int) -> None:
    if cells.d != d:
        raise DamagedFileError(f"its witnesses must have {d} coordinates, but have {cells.d}.")
    if not (cells.margins >= 0.0).all():
        raise DamagedFileError("its margins must not be negative, but one is.")
    check_finite("witnesses", cells.witnesses[cells.margins > 0.0])  # without a margin floats know none
    vertices = cells.vertices.content
    if cells.kind == "intervals":
        if np.isnan(vertices).any() or not (vertices[:, 1] >= 0.0).all():
            raise DamagedFileError("its vertices must be numbers with errors, but are not.")
        if not np.array_equal(np.sort(cells.position), np.arange(cells.n)):
            raise DamagedFileError("its position must number the cells, but does not.")
        if not (cells.lengths >= 0.0).all():
            raise DamagedFileError("its lengths must not be negative, but one is.")
    elif cells.kind == "polygons":
        known = vertices[np.isfinite(vertices[:, d])]  # without a bound on its error floats know none
        check_finite("vertices", np.delete(known, d, axis=1))
        if not (vertices[:, d] >= 0.0).all():
            raise DamagedFileError("its vertices must have errors that are not negative, but one is.")
    elif cells.kind == "polyhedra":
        check_finite("vertices", vertices[np.isfinite(vertices[:, d + 1]), : d + 1])
        if not (vertices[:, d + 1] >= 0.0).all():
            raise DamagedFileError("its vertices must have errors that are not negative, but one is.")
        check_range("free", cells.free, 0, 1 << d)
        _check_masks(cells)
    if cells.kind == "intervals" and not (cells.facets.counts == 2).all():
        raise DamagedFileError("its facets must be two for every interval, but are not.")
    if cells.kind == "polygons" and not (cells.facets.counts >= 3).all():
        raise DamagedFileError("its facets must be at least three for every polygon, but are not.")


def _check_masks(cells: Cells) -> None:
    """Bits of masks number facets of the cell."""
    masks, words = cells.masks.content, cells.masks.content.shape[1]
    facets = np.repeat(cells.facets.counts, cells.masks.counts)
    if len(facets) and int(facets.max()) > _MOST_FACETS:
        raise DamagedFileError("its facets must be fewer for every cell.")
    for word in range(words):
        room = np.clip(facets - 64 * word, 0, 64)
        partial = room < 64
        beyond = masks[partial, word] >> room[partial].astype(np.uint64)
        if beyond.any():
            raise DamagedFileError("its masks must name facets of their cell, but one does not.")


def _check_facets(cells: Cells, layers: tuple[Layer, ...], domain: Domain) -> None:
    owner, wall = cells.owner, cells.wall
    lowest = NOT_NAMED if cells.kind == "halfspaces" else AT_INFINITY
    if owner.size and int(owner.min()) < lowest:
        raise DamagedFileError("its facets must have owners, but one has none.")
    check_range("facets of the domain", wall[owner == DOMAIN_SIDE], 0, domain.b.shape[0])
    check_range("facets at infinity", wall[owner == AT_INFINITY], 0, _FAR_SIDES)
    named = wall[(owner >= 0) | (owner == NOT_NAMED)]
    if named.size and int(named.min()) < 0:
        raise DamagedFileError("its facets must be folds and walls of the network, but one is not.")
    number = named >> (GROUP_BITS + 2 * KEY_BITS)
    group = (named >> (2 * KEY_BITS)) & ((1 << GROUP_BITS) - 1)
    a, b = (named >> KEY_BITS) & ((1 << KEY_BITS) - 1), named & ((1 << KEY_BITS) - 1)
    check_range("facets", number, 0, len(layers))
    for i, layer in enumerate(layers):
        here = number == i
        if here.any():
            fits = _exist(layer, group[here], a[here], b[here])
            if not fits.all():
                raise DamagedFileError(
                    f"its facets must be folds and walls of the network, but layer {i} has no such one."
                )


def _exist(layer: Layer, group: Any, a: Any, b: Any) -> NDArray[np.bool_]:
    """Which codes stand for a unit, or for two keys of a head, of a layer."""
    if layer.units:
        return np.asarray((group < layer.units) & (a == 0) & (b == 0))
    return layer.has_walls(group, a, b)


@contextmanager
def sound_cells() -> Iterator[None]:
    """Say it in a sentence where cells contradict themselves, which only those of a file can do.

    A file may hold numbers that all stand for something, and yet no polyhedra: vertices that lie on other
    lines than it says, edges that do not meet. ``verify`` finds out; nothing else has to expect it.
    """
    try:
        yield
    except (ArithmeticError, LookupError) as error:
        raise CertificateError(
            f"the cells must be those of the network, but contradict themselves ({type(error).__name__}); "
            "the list of cells is damaged."
        ) from error
