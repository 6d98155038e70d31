r"""The affine map of every cell, recomputed from its signature in floats.

An engine may arrive at a cell along many ways, each rounding differently. The maps shown to users are
therefore recomputed from the signatures, every sum in ascending order of units and keys, so that they depend
on nothing else; and each comes with a bound on its distance from the exact map.

Cells on which several keys of a head coincide identically are few; their maps come from rationals.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import NotFiniteError
from hardmax.exact.rationals import as_exact, nearest_float
from hardmax.networks.layers import AffineLayer, Layer
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.map_kernels import float_maps
from hardmax.regions.maps.steps import Steps, frozen, steps_of

__all__ = ["PatternMaps", "pattern_maps", "projected_maps"]

_UNIT = 2.0**-53
_FINENESS = 2**20


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
