r"""A network laid out for the segment engine: matrices for batched products, and the norms its bounds need.

Hidden vectors of many intervals are the rows of one array, first all slopes :math:`u`, then all constants
:math:`c`, so a layer is one matrix product. If :math:`\|\delta u\|_2 \le \varepsilon`, then row :math:`i` of
:math:`Su` is known up to :math:`\|s_i\| (\varepsilon + \gamma \|u\|)`, in whatever order the product is
summed, and :math:`\|\delta(Su)\|_2 \le \sigma\varepsilon + \gamma \sigma_{abs} \|u\|`; constants likewise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray
from hardmax.networks.layers import AffineLayer, Layer, MaxLayer, ReluLayer
from hardmax.regions.engine.layer_kernels import TAME, UNIT
from hardmax.regions.engine.program import norms_of, spectral_bound, value_norms

__all__ = ["Errors", "SegmentProgram", "Stage"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TERMS = 384  # summed at once
_LARGE = 2**16  # entries from which the norm of absolute values is bounded by sums only


@dataclass(frozen=True)
class Errors:
    """Bounds for the hidden maps of many intervals: 2-norms of the errors of slopes and constants, and the
    largest error of an entry."""

    slope: Floats
    constant: Floats
    slope_entry: Floats
    constant_entry: Floats

    def take(self, rows: Integers) -> Errors:
        """Those of some intervals."""
        return Errors(*(getattr(self, name)[rows] for name in Errors.__dataclass_fields__))


@dataclass(frozen=True)
class _Norms:
    """Of a matrix: norms of its rows, the largest of them, its spectral norm, that of its absolute values."""

    rows: Floats
    most: float
    spectral: float
    absolute: float


@dataclass(frozen=True)
class Stage:
    """One layer: its matrices as floats, and their norms."""

    layer: Layer
    scores: Floats | None  # None: the identity
    biases: Floats
    norms: _Norms
    bias_norm: float
    outputs: Floats  # fold: one row per unit; wall: one row per key; affine: nothing
    offsets: Floats
    out_norms: _Norms
    offset_norm: float
    offset_most: float
    columns: Floats  # norms of what a unit adds

    @property
    def gamma(self) -> float:
        """Relative error of the sums behind a score, the rounding of the weights included."""
        return (6 + (1 if self.scores is None else self.scores.shape[1])) * UNIT

    def rows(self, y: Floats) -> Floats:
        """Scores of n intervals: (2, n, d_in) to (2, n, rows)."""
        two, n, m = y.shape
        z = y.copy() if self.scores is None else (y.reshape(2 * n, m) @ self.scores.T).reshape(two, n, -1)
        z[1] += self.biases
        return np.asarray(z)

    def row_errors(self, y: Floats, errors: Errors) -> tuple[Floats, Floats]:
        """Numbers e such that slopes (constants) of row i are known up to e times its norm (and gamma
        times its bias)."""
        if self.scores is None:
            return errors.slope_entry, errors.constant_entry + self.gamma * norms_of(y[1])
        return errors.slope + self.gamma * norms_of(y[0]), errors.constant + self.gamma * norms_of(y[1])

    def score_errors(self, y: Floats, errors: Errors) -> tuple[Floats, Floats]:
        """2-norms of the errors of all slopes and of all constants."""
        norms, gamma = self.norms, self.gamma
        slope = norms.spectral * errors.slope
        if self.scores is not None:
            slope = slope + gamma * norms.absolute * norms_of(y[0])
        constant = norms.spectral * errors.constant + gamma * (
            norms.absolute * norms_of(y[1]) + self.bias_norm
        )
        return slope, constant

    def affine_errors(self, y: Floats, errors: Errors) -> Errors:
        """Bounds for all scores, or for what leaves an affine layer."""
        slope, constant = self.row_errors(y, errors)
        most = self.norms.most
        biggest = self.gamma * float(np.abs(self.biases).max(initial=0.0))
        return Errors(*self.score_errors(y, errors), most * slope, most * constant + biggest)

    def folded(self, y: Floats, z: Floats, on: NDArray[np.bool_]) -> Floats:
        """What leaves a fold layer when these units are on."""
        two, n, units = z.shape
        masked = np.where(on, z, 0.0).reshape(two * n, units)
        left = masked[:, :_TERMS] @ self.outputs[:_TERMS]
        for begin in range(_TERMS, units, _TERMS):  # shorter sums have smaller bounds
            left += masked[:, begin : begin + _TERMS] @ self.outputs[begin : begin + _TERMS]
        left = left.reshape(two, n, -1)
        left[1] += self.offsets
        if self.layer.skip:  # type: ignore[union-attr]
            left += y
        return np.asarray(left)

    def folded_errors(
        self, y: Floats, z: Floats, left: Floats, errors: Errors, parents: Integers, units: Integers
    ) -> Errors:
        r"""Bounds for what leaves a fold layer, for every child of an interval.

        ``left`` leaves for the leftmost child; ``parents`` and ``units`` name the units that change inside.
        Each change adds :math:`\pm z_i U_i` to the sum so far, E of them to one of norm at most
        :math:`\|left\| + \sum |z_i| \|U_i\|`.
        """
        slope, constant = self.score_errors(y, errors)
        n, width = z.shape[1:]
        gamma = (min(width, _TERMS) + width // _TERMS + 10) * UNIT
        a, c = gamma * norms_of(z[0]), gamma * norms_of(z[1])
        out = self.out_norms
        found = [
            out.spectral * slope + out.absolute * a,
            out.spectral * constant + out.absolute * c + gamma * self.offset_norm,
            out.most * (slope + a),
            out.most * (constant + c) + gamma * self.offset_most,
        ]
        if self.layer.skip:  # type: ignore[union-attr]
            a, c = gamma * norms_of(y[0]), gamma * norms_of(y[1])
            before = (errors.slope, errors.constant, errors.slope_entry, errors.constant_entry)
            found = [e + b + s for e, b, s in zip(found, before, (a, c, a, c), strict=True)]
        count = np.bincount(parents, minlength=n)
        for part in range(2):
            sizes = self.columns[units] * np.abs(z[part, parents, units])
            moved = norms_of(left[part]) + 1.0001 * np.bincount(parents, weights=sizes, minlength=n)
            changed = np.where(count > 0, 1.01 * UNIT * (count + 1) * moved, 0.0)
            found[part] = found[part] + changed
            found[2 + part] = found[2 + part] + changed
        return Errors(*found)

    def routed_errors(self, y: Floats, errors: Errors) -> Errors:
        """Bounds for what leaves a wall layer."""
        if isinstance(self.layer, MaxLayer):
            return self._largest_errors(y, errors)
        gamma = (2 * self.layer.heads + 10) * UNIT
        nothing = np.zeros(y.shape[1])
        if not self.layer.skip:  # type: ignore[union-attr]
            return Errors(
                nothing, nothing + gamma * self.offset_norm, nothing, nothing + gamma * self.offset_most
            )
        size = gamma * norms_of(y[1])
        return Errors(
            errors.slope,
            errors.constant + gamma * self.offset_norm + size,
            errors.slope_entry,
            errors.constant_entry + gamma * self.offset_most + size,
        )

    def _largest_errors(self, y: Floats, errors: Errors) -> Errors:
        """Bounds for winning scores, behind what entered if that is kept."""
        found = self.affine_errors(y, errors)
        if not self.layer.skip:  # type: ignore[union-attr]
            return found
        return Errors(
            found.slope + errors.slope,
            found.constant + errors.constant,
            np.maximum(found.slope_entry, errors.slope_entry),
            np.maximum(found.constant_entry, errors.constant_entry),
        )


@dataclass(frozen=True)
class SegmentProgram:
    """The stages up to the last layer with a max-group (``last``; -1 if there is none)."""

    stages: tuple[Stage, ...]
    last: int
    words: int
    heads: int
    widest: int
    size: int  # weights in all stages

    @classmethod
    def of(cls, layers: tuple[Layer, ...]) -> SegmentProgram:
        """Lay out the layers of a network on the line."""
        groups = [i for i, layer in enumerate(layers) if layer.cuts]
        last = groups[-1] if groups else -1
        stages = tuple(_stage(layer) for layer in layers[: last + 1])
        units = sum(layer.units for layer in layers)
        heads = sum(layer.heads for layer in layers)
        widest = max((max(len(s.biases), s.layer.d_in, s.layer.d_out) for s in stages), default=1)
        size = sum(len(s.biases) * s.layer.d_in + s.outputs.size for s in stages)
        return cls(stages, last, -(-units // 64), heads, widest, size)

    def behind(self, layer: AffineLayer) -> SegmentProgram:
        """The same program with an affine layer in front: a network that is laid out once serves all its
        segments."""
        if self.last < 0:
            return self
        return replace(self, stages=(_stage(layer), *self.stages), last=self.last + 1)


def _stage(layer: Layer) -> Stage:
    nothing = _Norms(np.zeros(0), 0.0, 0.0, 0.0)
    if isinstance(layer, AffineLayer):
        return Stage(
            layer, layer.weights.floats, layer.offsets.floats,
            _norms(layer.weights, layer.offsets), _size(layer.offsets),
            np.zeros((0, 0)), np.zeros(0), nothing, 0.0, 0.0, np.zeros(0),
        )  # fmt: skip
    if isinstance(layer, ReluLayer):
        n = layer.units
        norms = (
            _Norms(np.ones(n), 1.0, 1.0, 1.0) if layer.scores is None else _norms(layer.scores, layer.biases)
        )
        return Stage(
            layer, None if layer.scores is None else layer.scores.floats, layer.biases.floats,
            norms, _size(layer.biases),
            np.ascontiguousarray(layer.outputs.floats.T), layer.offsets.floats,
            _norms(layer.outputs, layer.offsets), _size(layer.offsets),
            float(np.abs(layer.offsets.floats).max(initial=0.0)),
            norms_of(np.ascontiguousarray(layer.outputs.floats.T)),
        )  # fmt: skip
    largest, norm = value_norms(layer)
    if bool(_lost(layer.outputs).any()):
        largest = norm = np.inf
    return Stage(
        layer, layer.scores.floats, layer.biases.floats,
        _norms(layer.scores, layer.biases, whole=not layer.jumps), _size(layer.biases),
        np.ascontiguousarray(layer.outputs.floats), np.zeros(layer.d_out), nothing, norm, largest,
        np.zeros(0),
    )  # fmt: skip


def _norms(matrix: ExactArray, vector: ExactArray, *, whole: bool = True) -> _Norms:
    """Norms of a matrix whose products are added to a vector; ``whole`` unless only its rows count."""
    floats = matrix.floats
    rows = 1.01 * norms_of(floats)
    rows[(rows > 0.0) & ~((rows > 1.0 / TAME) & (rows < TAME))] = np.inf
    rows[_lost(matrix).any(axis=1) | _lost(vector)] = np.inf
    most = float(rows.max(initial=0.0))
    if not np.isfinite(most) or not whole:
        return _Norms(rows, most, np.inf, np.inf)
    if floats.size == 0:
        return _Norms(rows, 0.0, 0.0, 0.0)
    size = np.abs(floats)
    absolute = 1.01 * float(np.sqrt(size.sum(axis=0).max() * size.sum(axis=1).max()))
    if floats.size < _LARGE:
        absolute = min(absolute, spectral_bound(size))
    return _Norms(rows, most, spectral_bound(floats), absolute)


def _lost(array: ExactArray) -> NDArray[np.bool_]:
    """Fractions that are so small that floats do not hold them to relative accuracy."""
    if array.fractions is None:
        return np.zeros(array.shape, dtype=np.bool_)
    return np.asarray((np.abs(array.floats) < 1e-290) & (array.fractions != 0))


def _size(vector: ExactArray) -> float:
    return 1.01 * float(norms_of(vector.floats[None])[0])
