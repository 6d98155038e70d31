r"""The second look of the segment engine: single rows of a composed map in double-double arithmetic.

For a big network the exact map of one interval costs seconds; two breaks that floats cannot order are nearly
always told apart by 30 digits. The signature of the interval is known, so only units that are on, winners,
and the rows in question are touched. A row is returned as rationals with a bound on their errors, and
decisions on it are made in rationals; what is still open afterwards is, in practice, exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.double_double_kernels import UNIT, products
from hardmax.networks.layers import AffineLayer, ArgmaxLayer, Layer, MaxLayer, ReluLayer
from hardmax.networks.signatures import unpack_bits
from hardmax.regions.engine.norms import norms_of
from hardmax.regions.plane.double_double import pair_of, sum_of_pairs
from hardmax.regions.segment.program import SegmentProgram
from hardmax.regions.segment.rational_intervals import upper_envelope

__all__ = ["Ball", "PairMaps", "Row", "disjoint", "root_of", "sign_at", "winners"]

Floats = NDArray[np.float64]

_REMEMBERED = 64
_TAME = 1e100


@dataclass(frozen=True)
class Ball:
    """A number up to an error."""

    middle: Fraction
    radius: Fraction


@dataclass(frozen=True)
class Row:
    """An affine function :math:`at + c` up to errors of its coefficients."""

    slope: Ball
    constant: Ball

    def minus(self, other: Row) -> Row:
        """The difference of two rows."""
        return Row(
            Ball(self.slope.middle - other.slope.middle, self.slope.radius + other.slope.radius),
            Ball(self.constant.middle - other.constant.middle, self.constant.radius + other.constant.radius),
        )


def sign_at(row: Row, place: Ball) -> int | None:
    """The sign of a row at a place; ``None`` if it is open.

    >>> row = Row(Ball(Fraction(1), Fraction(1, 100)), Ball(Fraction(-1), Fraction(0)))
    >>> sign_at(row, Ball(Fraction(2), Fraction(0))), sign_at(row, Ball(Fraction(1), Fraction(0)))
    (1, None)
    """
    a, c = row.slope, row.constant
    value = a.middle * place.middle + c.middle
    slack = a.radius * (abs(place.middle) + place.radius) + abs(a.middle) * place.radius + c.radius
    if abs(value) <= slack:
        return None
    return 1 if value > 0 else -1


def root_of(row: Row) -> Ball | None:
    """Where a row vanishes; ``None`` if its slope may be zero."""
    a, c = row.slope, row.constant
    room = abs(a.middle) - a.radius
    if room <= 0:
        return None
    root = -c.middle / a.middle
    return Ball(root, (c.radius + abs(root) * a.radius) / room)


def disjoint(balls: Sequence[Ball]) -> bool:
    """Whether balls, sorted by their middles, certainly are in this order."""
    return all(p.middle + p.radius < q.middle - q.radius for p, q in pairwise(balls))


def winners(rows: dict[int, Row], low: Ball, high: Ball) -> list[tuple[int, Ball]] | None:
    """The winners of a head along an interval and where each begins; ``None`` if something is open."""
    middles = {key: (row.slope.middle, row.constant.middle) for key, row in rows.items()}
    guess = upper_envelope(middles, low.middle, high.middle)  # type: ignore[arg-type]
    if any(len(tied) > 1 for tied, _ in guess):
        return None
    keys = [tied[0] for tied, _ in guess]
    found = [(keys[0], low)]
    for old, new in pairwise(keys):
        difference = rows[new].minus(rows[old])
        place = root_of(difference)
        if place is None or difference.slope.middle < 0:
            return None
        found.append((new, place))
    for i, (key, place) in enumerate([*found, (keys[-1], high)]):
        meeting = {keys[i - 1], key} if 0 < i < len(found) else {key}
        for j, row in rows.items():
            if j not in meeting and sign_at(row.minus(rows[key]), place) != -1:
                return None
    return found


@dataclass(frozen=True)
class _Hidden:
    """A hidden map as pairs, (m, 2): slopes and constants; bounds on the 2-norms of their errors."""

    high: Floats
    low: Floats
    slope_error: float
    constant_error: float

    @property
    def sizes(self) -> tuple[float, float]:
        slope, constant = norms_of(np.ascontiguousarray(self.high.T)).tolist()
        return _tame(slope), _tame(constant)


class PairMaps:
    """Rows of the layers on cells of a network on the line, by signature."""

    def __init__(self, layers: tuple[Layer, ...], program: SegmentProgram) -> None:
        self.layers = layers
        self.program = program
        self._hidden: dict[Hashable, _Hidden] = {}
        self._units = [0]
        self._heads = [0]
        for layer in layers:
            self._units.append(self._units[-1] + layer.units)
            self._heads.append(self._heads[-1] + layer.heads)

    def rows(
        self,
        layer: int,
        chosen: Sequence[int],
        bits_row: NDArray[np.uint64],
        routings_row: NDArray[np.int32],
    ) -> list[Row] | None:
        """Some rows of a layer, on the cell with this signature; no keys may tie on it before the layer."""
        relu = unpack_bits(bits_row[None], self._units[-1])[0] if self._units[-1] else np.zeros(0, np.bool_)
        hidden = self._entering(layer, relu, routings_row)
        picked = np.array(chosen, dtype=np.int64)
        high, low, gamma = self._scores(layer, picked, hidden)
        stage = self.program.stages[layer]
        slope_size, constant_size = hidden.sizes
        rho = stage.norms.rows[picked]
        slope_error = rho * (hidden.slope_error + gamma * slope_size)
        constant_error = rho * (hidden.constant_error + gamma * constant_size)
        constant_error += gamma * np.abs(stage.biases[picked])
        if not (np.isfinite(slope_error).all() and np.isfinite(constant_error).all()):
            return None
        return [
            Row(_ball(high[i, 0], low[i, 0], slope_error[i]), _ball(high[i, 1], low[i, 1], constant_error[i]))
            for i in range(len(picked))
        ]

    def _entering(self, layer: int, relu: NDArray[np.bool_], routings: NDArray[np.int32]) -> _Hidden:
        if layer == 0:
            return _Hidden(np.array([[1.0, 0.0]]), np.zeros((1, 2)), 0.0, 0.0)
        key = (layer, relu[: self._units[layer]].tobytes(), routings[: self._heads[layer]].tobytes())
        hidden = self._hidden.pop(key, None)
        if hidden is None:
            before = self._entering(layer - 1, relu, routings)
            hidden = self._through(layer - 1, before, relu, routings)
            while len(self._hidden) >= _REMEMBERED:
                self._hidden.pop(next(iter(self._hidden)))
        self._hidden[key] = hidden
        return hidden

    def _scores(self, layer: int, chosen: NDArray[np.int64], hidden: _Hidden) -> tuple[Floats, Floats, float]:
        """Chosen rows S y + b, and the relative error of their sums."""
        block = self.layers[layer]
        matrix = block.weights if isinstance(block, AffineLayer) else block.scores
        biases = block.offsets if isinstance(block, AffineLayer) else block.biases
        bh, bl = pair_of(biases.take(chosen))
        if matrix is None:
            high, low = hidden.high[chosen], hidden.low[chosen]
            high[:, 1], low[:, 1] = sum_of_pairs(high[:, 1], low[:, 1], bh, bl)
            return high, low, 8 * UNIT
        wh, wl = pair_of(matrix.take(chosen))
        high, low = np.zeros((len(chosen), 2)), np.zeros((len(chosen), 2))
        high[:, 1], low[:, 1] = bh, bl
        products(wh, wl, hidden.high, hidden.low, high, low)
        return high, low, (matrix.shape[1] + 8) * UNIT

    def _through(
        self, layer: int, hidden: _Hidden, relu: NDArray[np.bool_], routings: NDArray[np.int32]
    ) -> _Hidden:
        block, stage = self.layers[layer], self.program.stages[layer]
        size_a, size_c = hidden.sizes
        norms = stage.norms
        if isinstance(block, ArgmaxLayer) and not isinstance(block, MaxLayer):
            return self._routed(block, hidden, routings, size_c)
        chosen = np.arange(block.d_out)
        if isinstance(block, ReluLayer):
            chosen = np.flatnonzero(relu[block.first_unit : block.first_unit + block.units])
        elif isinstance(block, MaxLayer):
            chosen = _winners(block, routings)
        high, low, gamma = self._scores(layer, chosen, hidden)
        spectral, absolute = _tame(norms.spectral), _tame(norms.absolute)
        a = spectral * hidden.slope_error + gamma * absolute * size_a
        c = spectral * hidden.constant_error + gamma * (absolute * size_c + _tame(stage.bias_norm))
        if isinstance(block, MaxLayer) and block.skip:
            high, low = np.concatenate([hidden.high, high]), np.concatenate([hidden.low, low])
            a, c = a + hidden.slope_error, c + hidden.constant_error
        if not isinstance(block, ReluLayer):
            return _Hidden(high, low, a, c)
        z_a, z_c = _Hidden(high, low, 0.0, 0.0).sizes
        uh, ul = pair_of(block.outputs)
        oh, ol = pair_of(block.offsets)
        left, left_low = np.zeros((block.d_out, 2)), np.zeros((block.d_out, 2))
        left[:, 1], left_low[:, 1] = oh, ol
        products(
            np.ascontiguousarray(uh[:, chosen]),
            np.ascontiguousarray(ul[:, chosen]),
            high,
            low,
            left,
            left_low,
        )
        out, gamma = stage.out_norms, (len(chosen) + 10) * UNIT
        spectral, absolute = _tame(out.spectral), _tame(out.absolute)
        a = spectral * a + gamma * absolute * z_a
        c = spectral * c + gamma * (absolute * z_c + _tame(stage.offset_norm))
        if block.skip:
            left, left_low = sum_of_pairs(left, left_low, hidden.high, hidden.low)
            a, c = a + hidden.slope_error + gamma * size_a, c + hidden.constant_error + gamma * size_c
            z_a, z_c = _Hidden(left, left_low, 0.0, 0.0).sizes
            a, c = a + gamma * z_a, c + gamma * z_c
        return _Hidden(left, left_low, a, c)

    def _routed(
        self, block: ArgmaxLayer, hidden: _Hidden, routings: NDArray[np.int32], size: float
    ) -> _Hidden:
        high, low = np.zeros((block.d_out, 2)), np.zeros((block.d_out, 2))
        a = c = 0.0
        if block.skip:
            high, low = hidden.high.copy(), hidden.low.copy()
            a, c = hidden.slope_error, hidden.constant_error
        else:
            size = 0.0
        vh, vl = pair_of(block.outputs.take(_winners(block, routings)))
        for h in range(block.heads):
            high[:, 1], low[:, 1] = sum_of_pairs(high[:, 1], low[:, 1], vh[h], vl[h])
        size += sum(_tame(v) for v in norms_of(vh).tolist())
        return _Hidden(high, low, a, c + 8 * (block.heads + 1) * UNIT * size)


def _winners(block: ArgmaxLayer, routings: NDArray[np.int32]) -> NDArray[np.int64]:
    """The compiled keys that the routings of a layer mean."""
    found = []
    for h in range(block.heads):
        start, stop = int(block.head_start[h]), int(block.head_start[h + 1])
        place = np.searchsorted(block.key[start:stop], routings[block.first_head + h])
        found.append(start + int(place))
    return np.array(found, dtype=np.int64)


def _ball(high: float, low: float, error: float) -> Ball:
    return Ball(Fraction(float(high)) + Fraction(float(low)), Fraction(float(error)))


def _tame(size: float) -> float:
    """A norm, or infinity where products of pairs could be lost or overflow."""
    return size if size == 0.0 or 1.0 / _TAME < size < _TAME else math.inf
