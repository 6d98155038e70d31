r"""A fingerprint of the affine map of every cell: eight bytes that equal maps always share.

Two cells belong to one region only if their maps are equal. A fixed random combination of all entries of a
map, modulo two primes, is the same for equal maps and different for almost all others; so cells whose
fingerprint occurs once are regions of their own, and only the others have to be kept and compared.

A map is a sum of products of the network's numbers, so its residues come straight from the signature
(:mod:`hardmax.regions.maps.residues`); the few cells with tied keys are averaged in rationals first.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import as_exact
from hardmax.networks.layers import AffineLayer, Layer
from hardmax.regions.cells import Cells
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.residues import Residues

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

__all__ = ["Fingerprints", "certain_contacts", "different", "repeated"]

_SIZE = 1 << 20  # of the random weights
_SEED = 20_240


class _Remembered(Residues):
    """Residues that are asked for again and again modulo the same few primes."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        super().__init__(layers)
        self._known: dict[int, NDArray[np.uint32]] = {}

    def modulo(self, prime: int) -> NDArray[np.uint32]:
        """All numbers of the network modulo a prime, laid out flat."""
        if prime not in self._known:
            self._known[prime] = super().modulo(prime)
        return self._known[prime]


class Fingerprints:
    """Makes fingerprints of the maps of a network's cells.

    Parameters
    ----------
    exact : ExactMaps
        Asked about cells with tied keys.
    """

    def __init__(self, exact: ExactMaps) -> None:
        self.exact = exact
        d, layers = exact.d, exact.layers
        e = layers[-1].d_out if layers else d
        generator = np.random.default_rng(_SEED)
        self._rows = generator.integers(1, _SIZE, e)
        self._columns = generator.integers(1, _SIZE, d + 1)
        projection = AffineLayer(
            as_exact(self._rows[None].astype(np.float64), "rows", ndim=2),
            as_exact(np.zeros(1), "zero", ndim=1),
        )
        self._residues = _Remembered((*layers, projection))
        self._primes = list(islice(self._residues.primes(), 2))

    def of(self, cells: Cells) -> NDArray[np.uint64]:
        """The fingerprints of some cells, uint64 (n,)."""
        result = np.zeros(cells.n, dtype=np.uint64)
        untied = np.flatnonzero(cells.tied == 0)
        for prime in self._primes:
            maps = self._residues.maps(cells.bits, cells.routings, untied, prime)
            values = maps[:, 0].astype(np.uint64) * self._columns.astype(np.uint64)  # below 2^51
            result[untied] = (result[untied] << np.uint64(32)) | values.sum(axis=1) % np.uint64(prime)
        for cell in np.flatnonzero(cells.tied):
            result[cell] = self._tied(cells.bits[cell], cells.routings[cell])
        return result

    def _tied(self, bits: NDArray[np.uint64], routings: NDArray[np.int32]) -> int:
        rows, denominator = self.exact.output(bits, routings)
        total = sum(
            int(weight) * int(factor) * int(entry)
            for weight, row in zip(self._rows, rows.tolist(), strict=True)
            for factor, entry in zip(self._columns, row, strict=True)
        )
        high, low = (total * pow(denominator, -1, prime) % prime for prime in self._primes)
        return high << 32 | low

    def among(self, cells: Cells, values: NDArray[np.uint64]) -> Cells:
        """The cells whose fingerprint is one of ``values``, which are sorted."""
        return cells.select(np.isin(self.of(cells), values))


def different(prints: NDArray[np.uint64]) -> int:
    """How many different fingerprints there are.

    >>> different(np.array([3, 1, 3], dtype=np.uint64))
    2
    """
    return len(np.unique(prints))


def repeated(prints: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], int]:
    """The fingerprints that occur more than once, sorted, and how many occur once.

    >>> repeated(np.array([3, 1, 3, 2], dtype=np.uint64))
    (array([3], dtype=uint64), 2)
    """
    prints = np.sort(prints)
    begins = np.ones(len(prints), dtype=np.bool_)
    begins[1:] = prints[1:] != prints[:-1]
    places = np.flatnonzero(begins)
    alone = np.diff(places, append=len(prints)) == 1
    return prints[places[~alone]], int(alone.sum())


def certain_contacts(regions: RegionSet) -> bool:
    """Whether floats prove of every contact that the two edges overlap.

    Among all cells of a network, pieces of a fold are matched one by one without looking at coordinates, and
    that is right because none is missing (see :func:`~hardmax.regions.maps.adjacency.adjacent_cells`). Among
    some of the cells it is right wherever the matched pieces do overlap: two cells on both sides of a fold,
    with the same routings after it, that overlap at all end together.
    """
    contacts, cells = regions._contacts, regions.cells
    if cells.kind != "polygons" or not len(contacts.edges):
        return True  # elsewhere contacts do not rely on the cells that are missing
    after = np.arange(1, len(cells.vx) + 1)
    after[cells.facets.offsets[1:] - 1] = cells.facets.offsets[:-1]
    here, there = contacts.edges.T
    x, y, r = cells.vx, cells.vy, cells.vr
    with np.errstate(invalid="ignore", over="ignore"):
        dx, dy = x[after[here]] - x[here], y[after[here]] - y[here]
        length = np.hypot(dx, dy)
        start, end = (((x[v] - x[here]) * dx + (y[v] - y[here]) * dy) / length for v in (after[there], there))
        overlap = np.minimum(end, length) - np.maximum(start, 0.0)
        doubt = 8.0 * (r[here] + r[after[here]] + r[there] + r[after[there]]) + 1e-14 * length
        certain = overlap > doubt
    if cells.unbounded:
        far = (cells.dx != 0.0) | (cells.dy != 0.0)
        certain |= far[here] | far[after[here]] | far[there] | far[after[there]]
    return bool(certain.all())
