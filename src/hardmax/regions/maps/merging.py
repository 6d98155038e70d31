r"""Gluing cells into regions: adjacent cells with the same affine map.

A region is a maximal connected open set on which the network is one affine map; it is a union of cells that
touch in dimension d - 1. Most pairs of neighbours differ visibly: their float maps are further apart than the
error bounds. The few that do not are proven equal or different modulo primes
(:mod:`hardmax.regions.maps.residues`); cells with tied keys are compared in rationals. No tolerance decides
anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.layers import Layer
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.float_maps import PatternMaps, projected_maps
from hardmax.regions.maps.merging_kernels import close_maps, number_regions, unite
from hardmax.regions.maps.residues import Residues
from hardmax.regions.maps.steps import frozen

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

__all__ = ["equal_pairs", "glue", "glued"]

_WIDE = 8  # maps of more rows are told apart by projections


class Signed(Protocol):
    """What gluing asks of cells: their number, their signatures, and whether keys tie on them."""

    @property
    def n(self) -> int:
        """The number of cells."""

    @property
    def bits(self) -> NDArray[np.uint64]:
        """Packed ReLU bits, (n, words)."""

    @property
    def routings(self) -> NDArray[np.int32]:
        """Winning keys, (n, heads)."""

    @property
    def tied(self) -> NDArray[np.uint8]:
        """Nonzero where several keys of a head coincide on the cell, (n,)."""


def glue(regions: RegionSet) -> NDArray[np.int64]:
    """The region of every cell of a region set; regions are numbered by their first cell."""
    exact, cells = regions._exact_maps, regions.cells
    layers = exact.layers
    if (layers[-1].d_out if layers else exact.d) <= _WIDE:
        maps, projected = regions._maps, False
    else:
        maps, projected = projected_maps(layers, cells.bits, cells.routings, cells.tied, exact), True
    return glued(cells, regions._contacts[0], maps, layers, exact, projected=projected)


def glued(
    cells: Signed,
    pairs: NDArray[np.int64],
    maps: PatternMaps,
    layers: tuple[Layer, ...],
    exact: ExactMaps,
    *,
    projected: bool = False,
) -> NDArray[np.int64]:
    """Connected components of adjacent cells with equal maps, numbered by their first cell.

    Parameters
    ----------
    pairs : int64 (P, 2)
        Adjacent cells.
    maps : PatternMaps
        Maps in floats with error bounds, or two combinations of their rows (``projected``).
    """
    same = equal_pairs(cells, pairs, maps, layers, exact, projected=projected)
    parent = np.arange(cells.n, dtype=np.int64)
    unite(frozen(pairs), same, parent)
    region = np.empty(cells.n, dtype=np.int64)
    number_regions(parent, region)
    return region


def equal_pairs(
    cells: Signed,
    pairs: NDArray[np.int64],
    maps: PatternMaps,
    layers: tuple[Layer, ...],
    exact: ExactMaps,
    *,
    projected: bool = False,
) -> NDArray[np.bool_]:
    """Which pairs of cells have the same map, decided exactly."""
    close = np.zeros(len(pairs), dtype=np.bool_)
    bound = float(
        close_maps(frozen(maps.linear), frozen(maps.offset), frozen(maps.error), frozen(pairs), close)
    )
    candidates = np.flatnonzero(close)
    if not len(candidates):
        return close
    residues = Residues(layers)
    if projected or not np.isfinite(bound):
        bound = 2.0 * residues.entry_bound()
    tied = (cells.tied[pairs[candidates]] != 0).any(axis=1)
    if not np.isfinite(bound):
        tied[:] = True
    plain = candidates[~tied]
    if len(plain):
        close[plain] = residues.equal(cells.bits, cells.routings, pairs[plain], bound=bound)
    keys: dict[int, tuple[int, ...]] = {}
    for p in candidates[tied].tolist():
        i, j = (_key(cells, exact, int(cell), keys) for cell in pairs[p])
        close[p] = i == j
    return close


def _key(cells: Signed, exact: ExactMaps, cell: int, keys: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The exact map of a cell in lowest terms."""
    if cell not in keys:
        rows, denominator = exact.output(cells.bits[cell], cells.routings[cell])
        keys[cell] = (denominator, *(int(value) for value in rows.entries()))
    return keys[cell]
