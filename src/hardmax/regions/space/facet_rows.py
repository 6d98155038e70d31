r"""The hyperplanes of many facets in floats, each with a bound on its error.

A facet drawn in layer :math:`l` lies where a score of that layer vanishes, or where two are level. The scores
are affine functions on the layer cell in which the facet was drawn, so they are the maps of the network cut
off before that layer and followed by the matrix of its scores; one signature per layer cell gives them all.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray
from hardmax.networks.layers import AffineLayer, Layer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, GROUP_BITS, KEY_BITS, Cells, decode_wall
from hardmax.regions.maps.adjacency_kernels import name_groups
from hardmax.regions.maps.exact_maps import ExactMaps, Row
from hardmax.regions.maps.float_maps import frozen, pattern_maps

__all__ = ["drawn_row", "float_rows", "named"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_LAYER_SHIFT = GROUP_BITS + 2 * KEY_BITS
_HEAD_SHIFT = 2 * KEY_BITS
_MEMORY = 1 << 24  # entries of maps computed at once


def named(owner: Integers, wall: Integers) -> tuple[Integers, Integers]:
    """Number the names (owner, wall) in order of appearance, and say where each appears first.

    >>> named(np.array([5, 5, 7, 5]), np.array([1, 2, 1, 1]))
    (array([0, 1, 2, 0]), array([0, 1, 2]))
    """
    n = len(owner)
    slots = np.full(1 << (2 * max(n, 4) - 1).bit_length(), -1, dtype=np.int64)
    group, representative = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    count = name_groups(frozen(owner), frozen(wall), slots, group, representative)
    return group, representative[:count].copy()


def drawn_row(cells: Cells, exact: ExactMaps, i: int, f: int) -> Row:
    """The exact row of facet f of cell i as it was drawn, whatever side the cell is on."""
    owner, wall = int(cells.owner[f]), int(cells.wall[f])
    if owner == AT_INFINITY:
        return (0,) * exact.d + (1,)
    if owner == DOMAIN_SIDE:
        return exact.domain_line(wall)
    return exact.line(*decode_wall(wall), cells.bits[i], cells.routings[i])


def float_rows(
    cells: Cells, exact: ExactMaps, cell_of: Integers, facets: Integers
) -> tuple[Integers, Floats, Floats]:
    """Rows of facets as they were drawn, scaled to entries of about 1.

    Returns
    -------
    row_of : int64 (F,)
        Which row belongs to a facet; -1 for facets that were not asked for.
    rows : float64 (names, d + 1)
    errors : float64 (names,)
        A bound on the error of every entry of a row.
    """
    group, representative = named(cells.owner[facets], cells.wall[facets])
    row_of = np.full(len(cells.owner), -1, dtype=np.int64)
    row_of[facets] = group
    rows, errors = np.zeros((len(representative), exact.d + 1)), np.zeros(len(representative))
    chosen = facets[representative]
    layer = np.where(cells.owner[chosen] >= 0, cells.wall[chosen] >> _LAYER_SHIFT, -1)
    untied = cells.tied[cell_of[chosen]] == 0
    plain = np.zeros(len(chosen), dtype=np.bool_)
    for number, block in enumerate(exact.layers):
        here = np.flatnonzero((layer == number) & untied)
        plain[here] = True
        if len(here) and block.cuts:
            rows[here], errors[here] = _drawn_in(number, block, cells, exact, cell_of, chosen[here])
    for k in np.flatnonzero(~plain | ~np.isfinite(errors)).tolist():
        row = drawn_row(cells, exact, int(cell_of[chosen[k]]), int(chosen[k]))
        top = max(abs(v) for v in row)
        rows[k] = [v / top for v in row]
        errors[k] = 2.0**-52
    return row_of, rows, errors


def _drawn_in(
    number: int, block: Layer, cells: Cells, exact: ExactMaps, cell_of: Integers, facets: Integers
) -> tuple[Floats, Floats]:
    """Rows of facets drawn in one layer; the error is infinite where floats overflow."""
    scores = block.scores if block.scores is not None else ExactArray(np.eye(block.d_in))  # type: ignore[union-attr]
    layers = (*exact.layers[:number], AffineLayer(scores, block.biases))  # type: ignore[union-attr]
    wall = cells.wall[facets]
    unit = (wall >> _HEAD_SHIFT) & ((1 << GROUP_BITS) - 1)
    a, b = (wall >> KEY_BITS) & ((1 << KEY_BITS) - 1), wall & ((1 << KEY_BITS) - 1)
    owners, first, which = np.unique(cells.owner[facets], return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    start = np.searchsorted(which[order], np.arange(len(owners) + 1))
    rows, errors = np.empty((len(facets), exact.d + 1)), np.empty(len(facets))
    step = max(1, _MEMORY // (scores.shape[0] * (exact.d + 1)))
    for begin in range(0, len(owners), step):
        end = min(begin + step, len(owners))
        part = order[start[begin] : start[end]]
        cell = cell_of[facets[first[begin:end]]]
        maps = pattern_maps(
            layers,
            np.ascontiguousarray(cells.bits[cell]),
            np.ascontiguousarray(cells.routings[cell]),
            np.zeros(len(cell), dtype=np.uint8),
            exact,
        )
        table = np.concatenate([maps.linear, maps.offset[:, :, None]], axis=2)
        at = which[part] - begin
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if block.units:
                values, bound = table[at, unit[part]], maps.error[at]
            else:
                values = table[at, b[part]] - table[at, a[part]]
                bound = 2.0 * maps.error[at] + 2.0**-52 * np.abs(values).max(axis=1)
            top = np.abs(values).max(axis=1)
            top = np.ldexp(1.0, np.frexp(top)[1])  # a power of two: scaling rounds nothing
            rows[part] = values / top[:, None]
            good = np.isfinite(rows[part]).all(axis=1) & (top > 1e-290)
            errors[part] = np.where(good, bound / top, inf)
    return rows, errors
