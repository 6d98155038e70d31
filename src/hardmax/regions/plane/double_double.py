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
from hardmax.networks.layers import AffineLayer, ArgmaxLayer, Layer, MaxLayer
from hardmax.regions.engine import layer_kernels
from hardmax.regions.engine.layer_kernels import RA, RC

Floats = NDArray[np.float64]
Pairs = tuple[Floats, Floats]

# How much smaller bounds on errors are than those of floats: all are proportional to the unit of rounding. A
# sum of n products of pairs is off by at most n + 8 units of 2^-98, one of floats by n + 6 units.
FINER = 1.5 * UNIT / layer_kernels.UNIT


@dataclass(frozen=True)
class Rows:
    """Rows of a composed map as pairs, with bounds on the errors of slopes and of constants."""

    high: Floats
    low: Floats
    slope_error: float
    constant_error: float


class DoubleDoubleMaps:
    """Rows of the layers along one path of the enumeration, computed when asked for.

    A layer cell is known by its serial number; while that stays the same, its rows are kept.
    """

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers
        self._pairs: dict[tuple[int, str], Pairs] = {}
        self._kept: dict[int, tuple[int, Pairs, Pairs]] = {}

    def forget(self) -> None:
        """Keep no rows: the numbers of layer cells begin anew."""
        self._kept.clear()

    def rows(
        self, layer: int, serials: dict[int, int], winners: dict[int, NDArray[np.int64]], errors: Floats
    ) -> Rows:
        """The rows of a layer.

        ``serials`` numbers the layer cells of the path; ``winners`` holds, for every layer before, the units
        that are on (a 0/1 vector) or the winning keys; ``errors`` are the bounds of the floats.
        """
        high, low = self._at(layer, serials, winners)[1]
        return Rows(high, low, FINER * errors[layer, RA], FINER * errors[layer, RC])

    def _at(
        self, layer: int, serials: dict[int, int], winners: dict[int, NDArray[np.int64]]
    ) -> tuple[Pairs, Pairs]:
        """The vector that enters a layer, and its rows."""
        serial = serials.get(layer, 0)
        kept = self._kept.get(layer)
        if kept is None or kept[0] != serial or not self.layers[layer].cuts:
            hidden = self._entering(layer, serials, winners)
            self._kept[layer] = kept = (serial, hidden, self._scores(layer, hidden))
        return kept[1:]

    def _entering(self, layer: int, serials: dict[int, int], winners: dict[int, NDArray[np.int64]]) -> Pairs:
        if layer == 0:
            return np.eye(2, 3), np.zeros((2, 3))
        (yh, yl), (zh, zl) = self._at(layer - 1, serials, winners)
        block = self.layers[layer - 1]
        if isinstance(block, AffineLayer):
            return zh, zl
        chosen = winners[layer - 1]
        if isinstance(block, MaxLayer):
            kept = len(yh) if block.skip else 0
            return np.vstack([yh[:kept], zh[chosen]]), np.vstack([yl[:kept], zl[chosen]])
        high, low = (yh, yl) if block.skip else (np.zeros((block.d_out, 3)), np.zeros((block.d_out, 3)))
        uh, ul = self._pair(layer - 1, "outputs", block.outputs)
        if isinstance(block, ArgmaxLayer):
            for key in chosen:
                high, low = _plus_constants(high, low, uh[key], ul[key])
            return high, low
        high, low = _plus_constants(high, low, *self._pair(layer - 1, "offsets", block.offsets))
        on = np.flatnonzero(chosen)
        uh, ul = np.ascontiguousarray(uh[:, on]), np.ascontiguousarray(ul[:, on])
        products(uh, ul, zh[on], zl[on], high, low)
        return high, low

    def _scores(self, layer: int, hidden: Pairs) -> Pairs:
        """Rows S y + b."""
        block = self.layers[layer]
        if block.scores is None:
            rows = hidden
        else:
            rows = np.zeros((len(block.biases.floats), 3)), np.zeros((len(block.biases.floats), 3))
            products(*self._pair(layer, "scores", block.scores), *hidden, *rows)
        return _plus_constants(*rows, *self._pair(layer, "biases", block.biases))

    def _pair(self, layer: int, name: str, array: ExactArray) -> Pairs:
        if (layer, name) not in self._pairs:
            self._pairs[layer, name] = pair_of(array)
        return self._pairs[layer, name]


def _plus_constants(high: Floats, low: Floats, ch: Floats, cl: Floats) -> Pairs:
    """A map of pairs with other constants added to its own."""
    high, low = high.copy(), low.copy()
    high[:, 2], low[:, 2] = sum_of_pairs(high[:, 2], low[:, 2], ch, cl)
    return high, low


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
