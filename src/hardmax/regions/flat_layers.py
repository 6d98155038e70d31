r"""A network's layers as flat arrays, for the kernels that recompute maps from signatures.

One table row per layer says where its numbers stand. Matrices are stored with the summed index first, so that
a unit or a coordinate contributes one contiguous row. Norms of the matrices, needed for error bounds, are
rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.algebra.rationals import ExactArray
from hardmax.networks.groups import AffineLayer, FoldLayer, Layer, WallLayer
from hardmax.regions.pattern_kernels import (
    AFFINE,
    BIASES_AT,
    BLOCK,
    BOUNDS,
    COLUMNS,
    D_IN,
    D_OUT,
    FIRST,
    FOLD,
    IDENTITY,
    KIND,
    NORM_IN,
    NORM_OUT,
    OFFSETS_AT,
    OUTPUTS_AT,
    ROWS,
    SCORES_AT,
    SIGMA_IN,
    SIGMA_OUT,
    SKIP,
    SUMS_AT,
    WALL,
    X_AT,
    Z_AT,
)
from hardmax.regions.program import spectral_bound

__all__ = ["FlatLayers", "entry_bound", "flatten"]

_UNIT = 2.0**-53
_SLACK = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class FlatLayers:
    """What the kernels read.

    Attributes
    ----------
    table : ndarray of int64 (layers + 1, columns)
        Where everything stands; the last row only says where the output goes.
    norms : ndarray of float64 (layers, bounds)
        Upper bounds of norms, for the errors.
    arrays : tuple of ExactArray
        The matrices in the order in which they stand in the flat array of numbers.
    transposed : tuple of bool
        Which of them are stored by columns.
    lookup, lookup_at : ndarray of int64
        Row of the compiled key of a head: ``lookup[lookup_at[head] + key]``.
    width : int
        Size of the three vectors that hold the hidden maps; ``units`` of those for pre-activations, ``sums``
        of those for sums over the first units of a layer.
    """

    table: NDArray[np.int64]
    norms: NDArray[np.float64]
    arrays: tuple[ExactArray, ...]
    transposed: tuple[bool, ...]
    lookup: NDArray[np.int64]
    lookup_at: NDArray[np.int64]
    width: int
    units: int
    sums: int

    @property
    def d_out(self) -> int:
        """Dimension of what leaves the last layer."""
        return int(self.table[-1, D_IN])

    @property
    def longest(self) -> int:
        """The longest sum."""
        return int(self.table[:, [D_IN, ROWS]].max(initial=1))

    def numbers(self) -> NDArray[np.float64]:
        """All matrices one after the other, as floats."""
        parts = [
            (array.floats.T if turn else array.floats).ravel()
            for array, turn in zip(self.arrays, self.transposed, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)


def flatten(layers: tuple[Layer, ...], d: int = 2) -> FlatLayers:
    """Lay out a network for the kernels.

    >>> from hardmax.algebra.rationals import as_exact
    >>> layer = AffineLayer(as_exact([[1, 2]], "w", ndim=2), as_exact([3], "b", ndim=1))
    >>> flatten((layer,)).numbers()
    array([1., 2., 3.])
    """
    table = np.zeros((len(layers) + 1, COLUMNS), dtype=np.int64)
    norms = np.zeros((len(layers), BOUNDS))
    arrays: list[ExactArray] = []
    transposed: list[bool] = []
    lookups: list[NDArray[np.int64]] = []
    lookup_at: list[int] = []
    at = looked_up = x_at = z_at = sums_at = 0

    def store(array: ExactArray, turn: bool = False) -> int:
        nonlocal at
        place = at
        arrays.append(array)
        transposed.append(turn)
        at += array.floats.size
        return place

    for number, layer in enumerate(layers):
        row = table[number]
        row[D_IN], row[D_OUT], row[X_AT], row[Z_AT] = layer.d_in, layer.d_out, x_at, z_at
        x_at += layer.d_in
        if isinstance(layer, AffineLayer):
            row[KIND] = AFFINE
            row[OUTPUTS_AT], row[OFFSETS_AT] = store(layer.weights, True), store(layer.offsets)
            norms[number, SIGMA_OUT:] = _norms(layer.weights, layer.offsets, layer.d_in)
        elif isinstance(layer, FoldLayer):
            row[KIND], row[ROWS], row[FIRST], row[SKIP] = FOLD, layer.units, layer.first_unit, layer.skip
            row[IDENTITY] = layer.scores is None
            row[SCORES_AT] = 0 if layer.scores is None else store(layer.scores, True)
            row[BIASES_AT] = store(layer.biases)
            row[OUTPUTS_AT], row[OFFSETS_AT] = store(layer.outputs, True), store(layer.offsets)
            norms[number, SIGMA_IN:SIGMA_OUT] = _norms(layer.scores, layer.biases, layer.d_in)
            norms[number, SIGMA_OUT:] = _norms(layer.outputs, layer.offsets, layer.units)
            z_at += layer.units
            row[SUMS_AT] = sums_at
            sums_at += layer.d_out * (-(-layer.units // BLOCK) + 1)
        else:
            row[KIND], row[ROWS], row[FIRST], row[SKIP] = WALL, layer.heads, layer.first_head, layer.skip
            row[OUTPUTS_AT] = store(layer.outputs)
            norms[number, SIGMA_OUT:] = _wall_norms(layer)
            for h in range(layer.heads):
                start, stop = int(layer.head_start[h]), int(layer.head_start[h + 1])
                places = np.full(int(layer.key[start:stop].max()) + 1, -1, dtype=np.int64)
                places[layer.key[start:stop]] = np.arange(start, stop)
                lookups.append(places)
                lookup_at.append(looked_up)
                looked_up += len(places)
    d_out = layers[-1].d_out if layers else d
    table[-1, D_IN], table[-1, X_AT] = d_out, x_at
    return FlatLayers(
        table,
        norms,
        tuple(arrays),
        tuple(transposed),
        np.concatenate([*lookups, np.zeros(1, dtype=np.int64)]),
        np.array([*lookup_at, 0], dtype=np.int64),
        x_at + d_out,
        max(z_at, 1),
        max(sums_at, 1),
    )


def entry_bound(flat: FlatLayers) -> float:
    """A bound on the entries of the map of any cell, from the norms of the layers; infinite beyond floats.

    >>> from hardmax.algebra.rationals import as_exact
    >>> layer = AffineLayer(as_exact([[3, 4]], "w", ndim=2), as_exact([1], "b", ndim=1))
    >>> 5.0 <= entry_bound(flatten((layer,))) < 5.2
    True
    """
    slope, constant = 1.0, 0.0
    for row, norms in zip(flat.table, flat.norms, strict=False):
        if row[KIND] == WALL:
            slope, constant = row[SKIP] * slope, row[SKIP] * constant + float(norms[NORM_OUT])
            continue
        kept = (slope, constant) if row[SKIP] else (0.0, 0.0)
        if row[KIND] == FOLD:
            sigma = float(norms[SIGMA_IN])
            slope, constant = sigma * slope, sigma * constant + float(norms[NORM_IN])
        sigma = float(norms[SIGMA_OUT])
        slope, constant = sigma * slope + kept[0], sigma * constant + float(norms[NORM_OUT]) + kept[1]
    top = 1.01 * max(slope, constant)
    return top if np.isfinite(top) else float("inf")


def _norms(matrix: ExactArray | None, vector: ExactArray, summed: int) -> tuple[float, float, float, float]:
    length = _length(vector.floats)
    if matrix is None:  # the identity: one addition of a bias, if there is one
        return 1.0, 1.0, length, 0.0 if vector.all_zero() else 4.0 * _UNIT
    return spectral_bound(matrix.floats), _length(matrix.floats), length, 1.01 * (summed + 5) * _UNIT


def _wall_norms(layer: WallLayer) -> tuple[float, float, float, float]:
    lengths = np.sqrt((layer.outputs.floats**2).sum(axis=1))
    longest = sum(
        float(lengths[start:stop].max())
        for start, stop in zip(layer.head_start[:-1], layer.head_start[1:], strict=True)
    )
    return 0.0, 0.0, longest * _SLACK, 1.01 * (layer.heads + 4) * _UNIT


def _length(values: NDArray[np.float64]) -> float:
    """The 2-norm of all entries, rounded up."""
    top = float(np.abs(values).max(initial=0.0))
    if top == 0.0:
        return 0.0
    return float(np.sqrt(((values / top) ** 2).sum()) * top * _SLACK)
