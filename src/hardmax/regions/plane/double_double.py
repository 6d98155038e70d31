r"""The second look at a sign, in double-double arithmetic: the same error analysis, unit :math:`2^{-98}`.

A number is an unevaluated sum :math:`h + l` of two floats, which carries about 106 bits. Sums and products of
such pairs are exact up to :math:`2^{-102}` of the absolute values that enter, so every bound of the float
filter holds again with its unit replaced. What is still undecided afterwards is, in practice, exactly zero,
and that only integers can prove.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.double_double_kernels import UNIT, products, signs
from hardmax.exact.rationals import ExactArray
from hardmax.geometry.domains import Domain
from hardmax.networks.layers import AffineLayer, ArgmaxLayer, Layer, MaxLayer, ReluLayer
from hardmax.regions.engine.program import score_norms

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows of a composed map as pairs, with bounds on the errors of slopes and of constants."""

    high: Floats
    low: Floats
    slope_error: float
    constant_error: float


@dataclass(frozen=True)
class _Hidden:
    high: Floats
    low: Floats
    slope_error: float  # 2-norms
    constant_error: float


class DoubleDoubleMaps:
    """Rows of the layers along one path of the enumeration, computed when asked for.

    A layer cell is known by its serial number; while that stays the same, its rows are kept.
    """

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers
        self._pairs: dict[tuple[int, str], tuple[Floats, Floats]] = {}
        self._norms: dict[tuple[int, str], tuple[float, float, float]] = {}
        self._kept: dict[int, tuple[int, _Hidden, Rows, tuple[float, float]]] = {}

    def forget(self) -> None:
        """Keep no rows: the numbers of layer cells begin anew."""
        self._kept.clear()

    def rows(self, layer: int, serials: dict[int, int], winners: dict[int, NDArray[np.int64]]) -> Rows:
        """The rows of a layer.

        ``serials`` numbers the layer cells of the path; ``winners`` holds, for every layer before, the units
        that are on (a 0/1 vector) or the winning keys.
        """
        return self._at(layer, serials, winners)[2]

    def _at(
        self, layer: int, serials: dict[int, int], winners: dict[int, NDArray[np.int64]]
    ) -> tuple[int, _Hidden, Rows, tuple[float, float]]:
        serial = serials.get(layer, 0)
        kept = self._kept.get(layer)
        if kept is not None and kept[0] == serial and self.layers[layer].cuts:
            return kept
        hidden = self._entering(layer, serials, winners)
        rows, errors = self._scores(layer, hidden)
        self._kept[layer] = (serial, hidden, rows, errors)
        return self._kept[layer]

    def _entering(
        self, layer: int, serials: dict[int, int], winners: dict[int, NDArray[np.int64]]
    ) -> _Hidden:
        if layer == 0:
            return _Hidden(np.eye(2, 3), np.zeros((2, 3)), 0.0, 0.0)
        _, hidden, rows, (z_a, z_c) = self._at(layer - 1, serials, winners)
        block = self.layers[layer - 1]
        if isinstance(block, AffineLayer):
            return _Hidden(rows.high, rows.low, z_a, z_c)
        if isinstance(block, MaxLayer):
            chosen = winners[layer - 1]
            high, low = rows.high[chosen], rows.low[chosen]
            if not block.skip:
                return _Hidden(high, low, z_a, z_c)
            high, low = np.vstack([hidden.high, high]), np.vstack([hidden.low, low])
            return _Hidden(high, low, hidden.slope_error + z_a, hidden.constant_error + z_c)
        if isinstance(block, ArgmaxLayer):
            return self._routed(layer - 1, block, hidden, winners[layer - 1])
        return self._folded(layer - 1, block, hidden, rows, (z_a, z_c), winners[layer - 1])

    def _scores(self, layer: int, hidden: _Hidden) -> tuple[Rows, tuple[float, float]]:
        """Rows S y + b, with bounds per row, and the 2-norms of their errors."""
        block = self.layers[layer]
        matrix = block.weights if isinstance(block, AffineLayer) else block.scores
        biases = block.offsets if isinstance(block, AffineLayer) else block.biases
        bh, bl = self._pair(layer, "biases", biases)
        na, nc = _norms(hidden)
        b_norm = 1.01 * float(np.linalg.norm(bh))
        if matrix is None:
            high, low = hidden.high.copy(), hidden.low.copy()
            high[:, 2], low[:, 2] = sum_of_pairs(high[:, 2], low[:, 2], bh, bl)
            gamma = 8 * UNIT
            a, c = hidden.slope_error, hidden.constant_error + gamma * (nc + b_norm)
            return Rows(high, low, a, c), (a, c)
        wh, wl = self._pair(layer, "scores", matrix)
        high, low = np.zeros((len(bh), 3)), np.zeros((len(bh), 3))
        high[:, 2], low[:, 2] = bh, bl
        products(wh, wl, hidden.high, hidden.low, high, low)
        rho, sigma, sigma_abs = self._norm(layer, "scores", matrix)
        gamma = (wh.shape[1] + 8) * UNIT
        return (
            Rows(
                high,
                low,
                rho * (hidden.slope_error + gamma * na),
                rho * (hidden.constant_error + gamma * nc) + gamma * b_norm,
            ),
            (
                sigma * hidden.slope_error + gamma * sigma_abs * na,
                sigma * hidden.constant_error + gamma * (sigma_abs * nc + b_norm),
            ),
        )

    def _folded(
        self,
        layer: int,
        block: ReluLayer,
        hidden: _Hidden,
        rows: Rows,
        errors: tuple[float, float],
        on: NDArray[np.int64],
    ) -> _Hidden:
        uh, ul = self._pair(layer, "outputs", block.outputs)
        oh, ol = self._pair(layer, "offsets", block.offsets)
        high, low = np.zeros((len(oh), 3)), np.zeros((len(oh), 3))
        high[:, 2], low[:, 2] = oh, ol
        chosen = np.flatnonzero(on)
        products(
            np.ascontiguousarray(uh[:, chosen]),
            np.ascontiguousarray(ul[:, chosen]),
            rows.high[chosen],
            rows.low[chosen],
            high,
            low,
        )
        _, sigma, sigma_abs = self._norm(layer, "outputs", block.outputs)
        gamma = (block.units + 8) * UNIT
        na = 1.01 * float(np.sqrt((rows.high[:, :2] ** 2).sum(axis=0).max(initial=0.0)))
        nc = 1.01 * float(np.linalg.norm(rows.high[:, 2])) + 1.01 * float(np.linalg.norm(oh))
        a, c = sigma * errors[0] + gamma * sigma_abs * na, sigma * errors[1] + gamma * (sigma_abs + 1.0) * nc
        if block.skip:
            high, low = sum_of_pairs(high, low, hidden.high, hidden.low)
            ha, hc = _norms(hidden)
            a, c = a + hidden.slope_error + gamma * ha, c + hidden.constant_error + gamma * hc
        return _Hidden(high, low, a, c)

    def _routed(self, layer: int, block: ArgmaxLayer, hidden: _Hidden, winners: NDArray[np.int64]) -> _Hidden:
        vh, vl = self._pair(layer, "outputs", block.outputs)
        high, low = np.zeros((block.d_out, 3)), np.zeros((block.d_out, 3))
        a = c = 0.0
        if block.skip:
            high, low = hidden.high.copy(), hidden.low.copy()
            a, c = hidden.slope_error, hidden.constant_error
        for key in winners:
            high[:, 2], low[:, 2] = sum_of_pairs(high[:, 2], low[:, 2], vh[key], vl[key])
            c += 8 * UNIT * 1.01 * float(np.linalg.norm(high[:, 2]) + 2 * np.linalg.norm(vh[key]))
        return _Hidden(high, low, a, c)

    def _pair(self, layer: int, name: str, array: ExactArray) -> tuple[Floats, Floats]:
        if (layer, name) not in self._pairs:
            self._pairs[layer, name] = pair_of(array)
        return self._pairs[layer, name]

    def _norm(self, layer: int, name: str, array: ExactArray) -> tuple[float, float, float]:
        if (layer, name) not in self._norms:
            self._norms[layer, name] = score_norms(array)
        return self._norms[layer, name]


def signs_at_corners(lines: list[Rows | None], rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Signs of the chosen rows at the corners of a polygon, 0 where they stay open.

    ``lines`` holds one line per side, as a set of rows with one member; ``None`` for a side at infinity.
    """
    k = len(lines)
    high, low, a, c = np.zeros((k, 3)), np.zeros((k, 3)), np.zeros(k), np.zeros(k)
    at_infinity = np.array([line is None for line in lines])
    for v, line in enumerate(lines):
        if line is not None:
            high[v], low[v], a[v], c[v] = line.high[0], line.low[0], line.slope_error, line.constant_error
    codes = np.zeros((len(chosen), k), dtype=np.int64)
    signs(
        high,
        low,
        a,
        c,
        at_infinity,
        rows.high[chosen],
        rows.low[chosen],
        rows.slope_error,
        rows.constant_error,
        codes,
    )
    return codes


def pair_of(array: ExactArray) -> tuple[Floats, Floats]:
    """An exact array as pairs of floats, correct to 106 bits.

    >>> from hardmax.exact.rationals import as_exact
    >>> from fractions import Fraction
    >>> high, low = pair_of(as_exact([Fraction(1, 3)], "x", ndim=1))
    >>> abs(Fraction(high[0]) + Fraction(low[0]) - Fraction(1, 3)) < Fraction(1, 2**106)
    True
    """
    high = np.array(array.floats)
    low = np.zeros_like(high)
    if array.fractions is not None:
        for index, value in np.ndenumerate(array.fractions):
            low[index] = float(value - type(value)(float(high[index])))
    return high, low


def sum_of_pairs(ah: Floats, al: Floats, bh: Floats, bl: Floats) -> tuple[Floats, Floats]:
    """Entrywise sums of pairs."""
    s = ah + bh
    t = s - ah
    e = (ah - (s - t)) + (bh - t) + (al + bl)
    high = s + e
    return high, e - (high - s)


def _norms(hidden: _Hidden) -> tuple[float, float]:
    squares = (hidden.high**2).sum(axis=0)
    return 1.01 * float(np.sqrt(squares[:2].max())), 1.01 * float(np.sqrt(squares[2]))


def one_row(rows: Rows, i: int) -> Rows:
    """Row i alone."""
    return Rows(rows.high[i : i + 1], rows.low[i : i + 1], rows.slope_error, rows.constant_error)


def difference(rows: Rows, i: int, j: int) -> Rows:
    """Row i minus row j, as pairs."""
    high, low = sum_of_pairs(rows.high[i], rows.low[i], -rows.high[j], -rows.low[j])
    size = 8.0 * UNIT * float(np.abs(rows.high[[i, j]]).max())
    return Rows(high[None], low[None], 2.0 * rows.slope_error + size, 2.0 * rows.constant_error + size)


def side_row(domain: Domain, i: int) -> Rows:
    """A side of the domain as pairs; rounded only where fractions were given."""
    ah, al = pair_of(domain.a.take(np.array([i])))
    bh, bl = pair_of(domain.b.take(np.array([i])))
    size = 4.0 * UNIT * float(max(np.abs(ah).max(), np.abs(bh).max()))
    error = size if domain.a.rounded or domain.b.rounded else 0.0
    return Rows(np.column_stack([-ah, bh]), np.column_stack([-al, bl]), error, error)
