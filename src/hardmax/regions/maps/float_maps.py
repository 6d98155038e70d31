r"""The affine map of every cell, recomputed from its signature in floats.

An engine may arrive at a cell along many ways, each rounding differently. The maps shown to users are
therefore recomputed from the signatures, every sum in ascending order of units and keys, so that they depend
on nothing else; and each comes with a bound on its distance from the exact map.

Cells on which several keys of a head coincide identically are few; their maps come from rationals.

The kernels read a network as a list of steps. Each layer is one or two of them: an affine layer one product;
a fold layer a product (or, where the scores are the identity, a bias) and a sum over the units that are on; a
wall layer the outputs of the winners, a max layer their scores. Matrices are stored with the summed index
first, so that a unit or a coordinate contributes one contiguous row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import NotFiniteError
from hardmax.exact.rationals import ExactArray, as_exact, nearest_float
from hardmax.networks.layers import AffineLayer, ArgmaxLayer, Layer, MaxLayer, ReluLayer
from hardmax.regions.engine.program import spectral_bound
from hardmax.regions.maps import map_kernels as kernels
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.map_kernels import float_maps

__all__ = ["entry_bound", "frozen", "pattern_maps", "PatternMaps", "projected_maps", "Steps", "steps_of"]

_UNIT = 2.0**-53
_FINENESS = 2**20
_SLACK = 1.0 + 1e-9


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
        self, bits: NDArray[np.uint64], routings: NDArray[np.int32], exact_maps: ExactMaps
    ) -> PatternMaps:
        """The same maps; those in which floats overflowed are computed again in rationals.

        Raises
        ------
        NotFiniteError
            When an entry of a map itself is beyond the range of floats.
        """
        kept = np.isfinite(self.linear).all(axis=(1, 2)) & np.isfinite(self.offset).all(axis=1)
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

    def _set_exactly(
        self, cell: int, bits: NDArray[np.uint64], routings: NDArray[np.int32], exact_maps: ExactMaps
    ) -> None:
        """Replace a map by the exact one, rounded."""
        rows, denominator = exact_maps.output(bits[cell], routings[cell])
        for r, row in enumerate(rows.tolist()):
            entries = [nearest_float(Fraction(int(value), denominator)) for value in row]
            self.linear[cell, r], self.offset[cell, r] = entries[:-1], entries[-1]
        self.error[cell] = _rounding(self, cell)


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
    maps = _float_maps(steps_of(layers, exact_maps.d), bits, routings)
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
    generator = np.random.default_rng(rng)
    directions = generator.integers(-_FINENESS, _FINENESS + 1, (2, e)) / _FINENESS
    projection = AffineLayer(
        as_exact(directions, "directions", ndim=2), as_exact(np.zeros(2), "zero", ndim=1)
    )
    untied = np.zeros(len(tied), dtype=np.uint8)
    maps = pattern_maps((*layers, projection), bits, routings, untied, exact_maps)
    weights = [[int(v) for v in row] for row in (directions * _FINENESS).astype(np.int64)]
    for cell in np.flatnonzero(tied).tolist():
        rows, denominator = exact_maps.output(bits[cell], routings[cell])
        table = rows.tolist()
        for r, weight in enumerate(weights):
            entries = [
                nearest_float(
                    Fraction(
                        int(sum(w * row[c] for w, row in zip(weight, table, strict=True))),
                        denominator * _FINENESS,
                    )
                )
                for c in range(exact_maps.d + 1)
            ]
            maps.linear[cell, r], maps.offset[cell, r] = entries[:-1], entries[-1]
        maps.error[cell] = _rounding(maps, cell)
    return maps


def _rounding(maps: PatternMaps, cell: int) -> float:
    """The error of a map that was rounded from rationals."""
    top = max(np.abs(maps.linear[cell]).max(initial=0.0), np.abs(maps.offset[cell]).max(initial=0.0))
    return float(top * 2 * _UNIT + 5e-324)


def _float_maps(steps: Steps, bits: NDArray[np.uint64], routings: NDArray[np.int32]) -> PatternMaps:
    n, e, columns = len(bits), steps.d_out, steps.d + 1
    maps = PatternMaps(np.empty((n, e, steps.d)), np.empty((n, e)), np.empty(n))
    sizes = np.zeros((len(steps.table) + 1, columns))
    sizes[0, :-1] = 1.0
    float_maps(
        steps.table,
        steps.norms,
        steps.numbers(),
        steps.lookup,
        steps.lookup_at,
        frozen(bits),
        frozen(routings),
        0,
        n,
        steps.entering(np.float64),
        np.zeros((columns, steps.sums)),
        np.zeros(steps.longest, dtype=np.int64),
        np.zeros_like(sizes),
        sizes,
        steps.output_at,
        maps.linear,
        maps.offset,
        maps.error,
    )
    return maps


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous read-only view: kernels are compiled anew for arrays that differ in either respect.

    >>> frozen(np.arange(6)[::2]).flags.writeable
    False
    """
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


@dataclass(frozen=True, eq=False)
class Steps:
    """What the kernels read.

    Attributes
    ----------
    table : ndarray of int64 (steps, columns)
        What each step does, and where everything stands.
    norms : ndarray of float64 (steps, 4)
        Upper bounds of norms, for the errors.
    arrays : tuple of ExactArray
        The matrices in the order in which they stand in the flat array of numbers.
    transposed : tuple of bool
        Which of them are stored by columns.
    lookup, lookup_at : ndarray of int64
        Row of the compiled key of a head: ``lookup[lookup_at[head] + key]``.
    width, sums : int
        Sizes of the vectors that hold the maps after each step, and of those for sums under way.
    longest : int
        The most terms of a sum.
    output_at, d_out : int
        Where the output stands and how long it is.
    d : int
        The number of inputs.
    """

    table: NDArray[np.int64]
    norms: NDArray[np.float64]
    arrays: tuple[ExactArray, ...]
    transposed: tuple[bool, ...]
    lookup: NDArray[np.int64]
    lookup_at: NDArray[np.int64]
    width: int
    sums: int
    longest: int
    output_at: int
    d_out: int
    d: int

    def numbers(self) -> NDArray[np.float64]:
        """All matrices one after the other, as floats."""
        parts = [
            (array.floats.T if turn else array.floats).ravel()
            for array, turn in zip(self.arrays, self.transposed, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def entering(self, kind: type[Any]) -> NDArray[Any]:
        """Room for the vectors of all maps, one row each; the map that enters is the identity."""
        vectors = np.zeros((self.d + 1, self.width), dtype=kind)
        vectors[: self.d, : self.d] = np.eye(self.d, dtype=kind)
        return vectors


def steps_of(layers: tuple[Layer, ...], d: int = 2) -> Steps:
    """Lay out a network for the kernels; ``d`` counts the inputs where there is no layer to tell.

    >>> from hardmax.exact.rationals import as_exact
    >>> layer = AffineLayer(as_exact([[1, 2]], "w", ndim=2), as_exact([3], "b", ndim=1))
    >>> steps_of((layer,)).numbers()
    array([1., 2., 3.])
    """
    under_way = _Layout(layers[0].d_in if layers else d)
    for layer in layers:
        if isinstance(layer, AffineLayer):
            under_way.product(layer.weights, layer.offsets)
        elif isinstance(layer, ReluLayer):
            under_way.fold(layer)
        elif isinstance(layer, MaxLayer):
            under_way.maxima(layer)
        else:
            under_way.walls(layer)
    return under_way.finished()


@dataclass
class _Layout:
    """A layout under construction; ``number`` and ``at`` say which vector is the current one, and where."""

    length: int
    number: int = 0
    at: int = 0
    width: int = 0
    sums: int = 0
    size: int = 0
    looked_up: int = 0
    longest: int = 1
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    norms: list[tuple[float, float, float, float]] = field(default_factory=list)
    arrays: list[ExactArray] = field(default_factory=list)
    transposed: list[bool] = field(default_factory=list)
    lookups: list[NDArray[np.int64]] = field(default_factory=list)
    lookup_at: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.width = self.inputs = self.length

    def store(self, array: ExactArray, turn: bool = False) -> int:
        """Put a matrix into the flat array of numbers; returns where."""
        place = self.size
        self.arrays.append(array)
        self.transposed.append(turn)
        self.size += array.floats.size
        return place

    def step(
        self, kind: int, size: int, blocks: int, norms: tuple[float, float, float, float]
    ) -> NDArray[np.int64]:
        """A new step from the current vector, which then is its result."""
        row = np.zeros(kernels.COLUMNS, dtype=np.int64)
        row[kernels.KIND], row[kernels.SOURCE], row[kernels.SOURCE_AT] = kind, self.number, self.at
        row[kernels.LENGTH], row[kernels.SIZE] = self.length, size
        row[kernels.SKIP] = row[kernels.SKIP_AT] = -1
        row[kernels.TARGET_AT], row[kernels.SUMS_AT] = self.width, self.sums
        self.longest = max(self.longest, self.length)
        self.rows.append(row)
        self.norms.append(norms)
        self.number, self.at, self.length = len(self.rows), self.width, size
        self.width += size
        self.sums += size * (blocks + 1)
        return row

    def product(self, matrix: ExactArray, vector: ExactArray) -> None:
        """All of a matrix."""
        row = self.step(kernels.PRODUCT, matrix.shape[0], 1, _norms(matrix, vector))
        row[kernels.MATRIX_AT], row[kernels.OFFSETS_AT] = self.store(matrix, True), self.store(vector)

    def fold(self, layer: ReluLayer) -> None:
        """Pre-activations, then the columns of the units that are on."""
        number, at = self.number, self.at
        if layer.scores is not None:
            self.product(layer.scores, layer.biases)
        else:
            gamma = 0.0 if layer.biases.all_zero() else 4.0 * _UNIT
            row = self.step(kernels.SHIFT, layer.units, 0, (1.0, 1.0, _length(layer.biases.floats), gamma))
            row[kernels.OFFSETS_AT] = self.store(layer.biases)
        blocks = -(-layer.units // kernels.BLOCK)
        row = self.step(kernels.FOLD, layer.d_out, blocks, _norms(layer.outputs, layer.offsets))
        row[kernels.MATRIX_AT], row[kernels.OFFSETS_AT] = (
            self.store(layer.outputs, True),
            self.store(layer.offsets),
        )
        row[kernels.FIRST] = layer.first_unit
        if layer.skip:
            row[kernels.SKIP], row[kernels.SKIP_AT] = number, at

    def walls(self, layer: ArgmaxLayer) -> None:
        """The outputs of the winners."""
        number, at = self.number, self.at
        # a bound on the 2-norms whose squares neither vanish nor overflow
        lengths = np.abs(layer.outputs.floats).max(axis=1, initial=0.0) * np.sqrt(layer.d_out)
        starts, stops = layer.head_start[:-1].tolist(), layer.head_start[1:].tolist()
        longest = sum(float(lengths[start:stop].max()) for start, stop in zip(starts, stops, strict=True))
        norms = (0.0, 0.0, longest * _SLACK, 1.01 * (layer.heads + 4) * _UNIT)
        row = self.step(kernels.WALL, layer.d_out, 0, norms)
        row[kernels.MATRIX_AT] = self.store(layer.outputs)
        row[kernels.FIRST], row[kernels.COUNT] = layer.first_head, layer.heads
        if layer.skip:
            row[kernels.SKIP], row[kernels.SKIP_AT] = number, at
        self.look_up(layer)

    def maxima(self, layer: MaxLayer) -> None:
        """The scores of the winners, behind what entered if that is kept."""
        number = self.number
        lengths = np.array([_length(row) for row in layer.scores.floats])
        starts = layer.head_start[:-1]
        phi = _length(np.maximum.reduceat(lengths, starts))
        norm = _length(np.maximum.reduceat(np.abs(layer.biases.floats), starts))
        sigma = min(spectral_bound(layer.scores.floats), phi)
        row = self.step(kernels.PICK, layer.d_out, 0, (sigma, phi, norm, 1.01 * (layer.d_in + 5) * _UNIT))
        row[kernels.MATRIX_AT], row[kernels.OFFSETS_AT] = self.store(layer.scores), self.store(layer.biases)
        row[kernels.FIRST], row[kernels.COUNT] = layer.first_head, layer.heads
        if layer.skip:
            row[kernels.SKIP] = number  # beside, not added: only the errors have to know
        self.look_up(layer)

    def look_up(self, layer: ArgmaxLayer) -> None:
        """Where the key of a routing stands among the compiled keys, head by head."""
        starts, stops = layer.head_start[:-1].tolist(), layer.head_start[1:].tolist()
        for start, stop in zip(starts, stops, strict=True):
            places = np.full(int(layer.key[start:stop].max()) + 1, -1, dtype=np.int64)
            places[layer.key[start:stop]] = np.arange(start, stop)
            self.lookups.append(places)
            self.lookup_at.append(self.looked_up)
            self.looked_up += len(places)

    def finished(self) -> Steps:
        """The layout, with the current vector as output."""
        nothing = np.zeros(1, dtype=np.int64)
        return Steps(
            table=np.array(self.rows, dtype=np.int64).reshape(-1, kernels.COLUMNS),
            norms=np.array(self.norms).reshape(-1, kernels.NORMS),
            arrays=tuple(self.arrays),
            transposed=tuple(self.transposed),
            lookup=np.concatenate([*self.lookups, nothing]),
            lookup_at=np.array([*self.lookup_at, 0], dtype=np.int64),
            width=self.width,
            sums=max(self.sums, 1),
            longest=self.longest,
            output_at=self.at,
            d_out=self.length,
            d=self.inputs,
        )


def entry_bound(steps: Steps) -> float:
    """A bound on the entries of the map of any cell, from the norms of the steps; infinite beyond floats.

    >>> from hardmax.exact.rationals import as_exact
    >>> layer = AffineLayer(as_exact([[3, 4]], "w", ndim=2), as_exact([1], "b", ndim=1))
    >>> 5.0 <= entry_bound(steps_of((layer,))) < 5.2
    True
    """
    slopes, constants = [1.0], [0.0]
    for row, (sigma, _, norm, _) in zip(steps.table, steps.norms.tolist(), strict=True):
        source, skip = int(row[kernels.SOURCE]), int(row[kernels.SKIP])
        slope, constant = sigma * slopes[source], sigma * constants[source] + norm
        if skip >= 0:
            slope, constant = slope + slopes[skip], constant + constants[skip]
        slopes.append(slope)
        constants.append(constant)
    top = 1.01 * max(slopes[-1], constants[-1])
    return top if np.isfinite(top) else float("inf")


def _norms(matrix: ExactArray, vector: ExactArray) -> tuple[float, float, float, float]:
    terms = matrix.shape[1]
    return (
        spectral_bound(matrix.floats),
        _length(matrix.floats),
        _length(vector.floats),
        1.01 * (terms + 5) * _UNIT,
    )


def _length(values: NDArray[np.float64]) -> float:
    """The 2-norm of all entries, rounded up."""
    top = float(np.abs(values).max(initial=0.0))
    if top == 0.0:
        return 0.0
    return float(np.sqrt(((values / top) ** 2).sum()) * top * _SLACK)
