r"""The affine map of every cell, recomputed from its signature in floats.

An engine may arrive at a cell along many ways, each rounding differently. The maps shown to users are
therefore recomputed from the signatures, every sum in ascending order of units and keys, so that they depend
on nothing else; and each comes with a bound on its distance from the exact map.

Cells on which several keys of a head coincide identically are few; their maps come from rationals.

The same walk modulo primes gives residues of maps (:mod:`hardmax.regions.maps.merging`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import NotFiniteError
from hardmax.exact.rationals import as_exact, nearest_float
from hardmax.networks.layers import AffineLayer, Layer
from hardmax.randomness import generator_of
from hardmax.regions.engine import layer_kernels as columns
from hardmax.regions.engine.program import Program
from hardmax.regions.maps import map_kernels as kernels
from hardmax.regions.maps.exact_maps import ExactMaps

_UNIT = 2.0**-53
_FINENESS = 2**20
MOST_ERROR = 1e-9
"""The error of an entry of a public map, over the largest entry of the map, that is at most left standing.

Ordinary networks have proven errors of 1e-10 and less. Where large numbers cancel the error is larger, and
the map is computed again in rationals and rounded once.
"""


@dataclass(frozen=True)
class PatternMaps:
    """Affine maps of cells in floats.

    Attributes
    ----------
    linear : ndarray of float64 (n, e, d)
    offset : ndarray of float64 (n, e)
    error : ndarray of float64 (n,)
        A bound on the error of every entry of a cell's map; infinite where floats overflowed.
    """

    linear: NDArray[np.float64]
    offset: NDArray[np.float64]
    error: NDArray[np.float64]

    def finite(
        self,
        bits: NDArray[np.uint64],
        routings: NDArray[np.int32],
        exact_maps: ExactMaps,
    ) -> PatternMaps:
        """The same maps; those in which floats overflowed are computed again in rationals.

        So are those whose error may be above ``MOST_ERROR`` times their largest entry.

        Raises
        ------
        NotFiniteError
            When an entry of a map itself is beyond the range of floats.
        """
        kept = np.isfinite(self.linear).all(axis=(1, 2)) & np.isfinite(self.offset).all(axis=1)
        with np.errstate(invalid="ignore"):  # what overflowed is not kept
            size = np.maximum(
                np.abs(self.linear).max(axis=(1, 2), initial=0.0),
                np.abs(self.offset).max(axis=1, initial=0.0),
            )
            kept &= self.error <= MOST_ERROR * size + 5e-324
        if kept.all():
            return self
        maps = PatternMaps(self.linear.copy(), self.offset.copy(), self.error.copy())
        for cell in np.flatnonzero(~kept).tolist():
            maps._set_exactly(cell, bits, routings, exact_maps)
            if not (np.isfinite(maps.linear[cell]).all() and np.isfinite(maps.offset[cell]).all()):
                raise NotFiniteError(
                    f"the map of cell {cell} must stay within float64, but has larger entries; rescale the "
                    f"network, or take it as fractions: exact_map({cell})."
                )
        return maps

    def _set(self, cell: int, rows: list[list[Any]], denominator: int) -> None:
        """Replace a map by an exact one, rounded."""
        for r, row in enumerate(rows):
            entries = [nearest_float(Fraction(int(value), denominator)) for value in row]
            self.linear[cell, r], self.offset[cell, r] = entries[:-1], entries[-1]
        top = max(np.abs(self.linear[cell]).max(initial=0.0), np.abs(self.offset[cell]).max(initial=0.0))
        self.error[cell] = top * (2 * _UNIT) + 5e-324

    def _set_exactly(
        self, cell: int, bits: NDArray[np.uint64], routings: NDArray[np.int32], exact_maps: ExactMaps
    ) -> None:
        rows, denominator = exact_maps.output(bits[cell], routings[cell])
        self._set(cell, rows.tolist(), denominator)


def pattern_maps(
    layers: tuple[Layer, ...],
    bits: NDArray[np.uint64],
    routings: NDArray[np.int32],
    tied: NDArray[np.uint8],
    exact_maps: ExactMaps,
) -> PatternMaps:
    r"""The map :math:`x \mapsto Ax + b` of every cell, with a bound on its error.

    Parameters
    ----------
    layers : tuple of Layer
        The network in its internal form.
    bits, routings, tied : ndarray
        Signatures of the cells, best in lexicographic order: maps of common prefixes are computed once.
    exact_maps : ExactMaps
        Asked about cells with tied keys.

    Examples
    --------
    >>> from hardmax.geometry.domains import Box
    >>> from hardmax.networks.blocks import FeedForward
    >>> from hardmax.networks.network import Network
    >>> from hardmax.networks.layers import layers_of
    >>> layers = layers_of(Network([FeedForward([[1.0, 0.5], [0.0, 1.0]], [0.25, 0.0], [[1.0, 1.0]], [0.0])]))
    >>> bits = np.arange(4, dtype=np.uint64)[:, None]
    >>> none, untied = np.zeros((4, 0), dtype=np.int32), np.zeros(4, dtype=np.uint8)
    >>> maps = pattern_maps(layers, bits, none, untied, ExactMaps(layers, Box.cube(2, -1, 1)))
    >>> maps.linear[3], maps.offset[3], bool(maps.error[3] < 1e-14)
    (array([[1. , 1.5]]), array([0.25]), True)
    """
    maps = Walk(layers, exact_maps.d).float_maps(bits, routings)
    for cell in np.flatnonzero(tied).tolist():
        maps._set_exactly(cell, bits, routings, exact_maps)
    return maps


def projected_maps(
    layers: tuple[Layer, ...],
    bits: NDArray[np.uint64],
    routings: NDArray[np.int32],
    tied: NDArray[np.uint8],
    exact_maps: ExactMaps,
    *,
    rng: int = 0,
) -> PatternMaps:
    """Two fixed random combinations of the outputs instead of all of them: enough to tell maps apart.

    A network with wide outputs would need more memory for its maps than for its cells. Equal maps have equal
    combinations; maps whose combinations differ beyond the errors are different.
    """
    e = layers[-1].d_out if layers else exact_maps.d
    generator = generator_of(rng)
    directions = generator.integers(-_FINENESS, _FINENESS + 1, (2, e)) / _FINENESS
    projection = AffineLayer(
        as_exact(directions, "directions", ndim=2), as_exact(np.zeros(2), "zero", ndim=1)
    )
    untied = np.zeros(len(tied), dtype=np.uint8)
    maps = pattern_maps((*layers, projection), bits, routings, untied, exact_maps)
    weights = [[int(v) for v in row] for row in (directions * _FINENESS).astype(np.int64)]
    for cell in np.flatnonzero(tied).tolist():
        rows, denominator = exact_maps.output(bits[cell], routings[cell])
        by_column = list(zip(*rows.tolist(), strict=True))
        combined = [[sum(map(mul, weight, column)) for column in by_column] for weight in weights]
        maps._set(cell, combined, denominator * _FINENESS)
    return maps


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous read-only view: kernels are compiled anew for arrays that differ in either respect.

    >>> frozen(np.arange(6)[::2]).flags.writeable
    False
    """
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


class Walk:
    """A network laid out for the kernels that go through its layers cell by cell, and room for them.

    Attributes
    ----------
    program : Program
        All layers; places count the entries of one vector of a map.
    lookup, lookup_at : ndarray of int64
        Row of the compiled key of a head: ``lookup[lookup_at[head] + key]``.
    d, d_out : int
        The numbers of inputs and of outputs.
    """

    def __init__(self, layers: tuple[Layer, ...], d: int = 2) -> None:
        self.program = program = Program.of(layers, columns=1, whole=True)
        self.d, self.d_out = (layers[0].d_in, layers[-1].d_out) if layers else (d, d)
        # a layer keeps the sum of no units and one after every few that are on
        kept = [1 - -layer.units // kernels.EVERY if layer.units else 0 for layer in layers]
        self.sums_at = np.cumsum([0, *(k * layer.d_out for k, layer in zip(kept, layers, strict=True))])
        self.kept_at = np.cumsum([0, *(k + 1 for k in kept)])
        self.everything = np.arange(max(program.widest, 1))
        places: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        for row in program.table[program.table[:, columns.HEADS] > 0]:
            starts = program.heads_at[row[columns.HEAD_AT] :][: row[columns.HEADS] + 1]
            keys = program.key_of[row[columns.OFFSETS] :][: row[columns.ROWS]]
            for start, stop in pairwise(starts.tolist()):
                places.append(np.full(int(keys[start:stop].max()) + 1, -1, dtype=np.int64))
                places[-1][keys[start:stop]] = np.arange(start, stop)
        self.lookup = np.append(np.concatenate(places), 0)
        self.lookup_at = np.cumsum([len(place) for place in places])

    def room(self, entering: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Vectors of all maps, sums under way and how far they came, lists of units.

        ``entering`` are the vectors that enter the first layer: the unit vectors and zero for maps, a single
        point for values.
        """
        vectors = np.zeros((len(entering), self.d + self.program.path_size), dtype=entering.dtype)
        vectors[:, : self.d] = entering
        sums = np.zeros((len(entering), int(self.sums_at[-1]) + 1), dtype=entering.dtype)
        reached = np.full(self.kept_at[-1], self.program.widest + 1)
        reached[self.kept_at[:-1]] = 0
        return vectors, sums, reached, np.zeros_like(self.everything), self.everything

    def float_maps(self, bits: NDArray[np.uint64], routings: NDArray[np.int32]) -> PatternMaps:
        """The maps of all cells in floats."""
        n, table = len(bits), self.program.table
        maps = PatternMaps(np.empty((n, self.d_out, self.d)), np.empty((n, self.d_out)), np.empty(n))
        kernels.float_maps(
            table, self.program.bounds, self.program.by_columns(), self.lookup, self.lookup_at, self.sums_at,
            self.kept_at, frozen(bits), frozen(routings), *self.room(np.eye(self.d + 1, self.d)),
            np.zeros((len(table), columns.ERRORS)), np.zeros((len(table), 4)), maps.linear, maps.offset,
            maps.error,
        )  # fmt: skip
        return maps

    def residue_maps(
        self,
        numbers: NDArray[np.uint32],
        bits: NDArray[np.uint64],
        routings: NDArray[np.int32],
        cells: NDArray[np.int64],
        prime: int,
        first_row: int = 0,
        rows: int | None = None,
        point: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.uint32]:
        """Maps of some cells (ascending) modulo a prime: (len(cells), rows, d + 1), constants last.

        With a point, its image instead of the map: (len(cells), rows, 1).
        """
        entering = np.eye(self.d + 1, self.d, dtype=np.uint64) if point is None else point[None]
        shape = (len(cells), self.d_out if rows is None else rows, len(entering))
        out = np.empty(shape, dtype=np.uint32)
        kernels.residue_maps(
            self.program.table, numbers, self.lookup, self.lookup_at, self.sums_at, self.kept_at,
            frozen(bits), frozen(routings), frozen(cells), np.uint64(prime), *self.room(entering), first_row,
            out,
        )  # fmt: skip
        return out

    def entry_bound(self) -> float:
        """A bound on the entries of the map of any cell; infinite beyond floats.

        >>> layer = AffineLayer(as_exact([[3, 4]], "w", ndim=2), as_exact([1], "b", ndim=1))
        >>> 5.0 <= Walk((layer,)).entry_bound() < 5.2
        True
        """
        slope, constant = 1.0, 0.0
        for row, f in zip(self.program.table.tolist(), self.program.bounds.tolist()[:-1], strict=False):
            before = slope, constant
            slope, constant = f[columns.SIGMA] * slope, f[columns.SIGMA] * constant + f[columns.B_NORM]
            if row[columns.KIND] == columns.FOLD:
                sigma = f[columns.SIGMA_OUT]
                slope, constant = sigma * slope, sigma * constant + f[columns.O_NORM]
            elif row[columns.OUTPUTS] >= 0:
                slope, constant = 0.0, f[columns.O_NORM]
            if row[columns.SKIP]:
                slope, constant = slope + before[0], constant + before[1]
        return 1.01 * max(slope, constant) if np.isfinite(slope + constant) else float("inf")
