r"""Gluing cells into regions: adjacent cells with the same affine map.

A region is a maximal connected open set on which the network is one affine map; it is a union of cells that
touch in dimension d - 1. Most pairs of neighbours differ visibly: their float maps are further apart than the
error bounds. The few that do not are proven equal or different modulo primes; cells with tied keys are
compared in rationals. No tolerance decides anything.

*Proof by residues.* Let :math:`D` be the product of the common denominators of all layers. On every cell
without tied keys the entries of :math:`D A` and :math:`D b` are integers. If two maps :math:`(A, b)` and
:math:`(A', b')` differ by less than :math:`\delta` in every entry (their floats and the error bounds say so),
then the entries of :math:`D (A - A')` and :math:`D (b - b')` are integers below :math:`D \delta`. An integer
that vanishes modulo primes whose product exceeds :math:`D \delta` is zero. So a handful of primes *proves*
equality, and one nonzero residue proves the opposite. The residues need no denominators: a fraction
:math:`p/q` is :math:`p q^{-1}` modulo a prime that does not divide :math:`q`, and a map is a sum of products
of such numbers.

*Fingerprints.* A fixed random combination of all entries of a map, modulo two primes, is the same for equal
maps and different for almost all others. So cells whose fingerprint occurs once are regions of their own, and
only the others have to be kept and compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import islice
from math import lcm, log2
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import as_exact
from hardmax.exact.residues import common_denominator, primes_below, residues_of
from hardmax.networks.layers import AffineLayer, Layer
from hardmax.regions.cells import Cells
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.maps.float_maps import PatternMaps, Walk, frozen, projected_maps
from hardmax.regions.maps.map_kernels import close_maps, number_regions, unite

if TYPE_CHECKING:
    from hardmax.regions.result import RegionSet

_WIDE = 8  # maps of more rows are told apart by projections
_TOP = 2**31  # primes below: two residues have a product below 2^62
_BITS_PER_PRIME = 30.9  # of the largest thousands of them
_MEMORY = 2**27  # bytes of residues held at a time
_SIZE = 1 << 20  # of the random weights
_SEED = 20_240


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
    cells: Cells,
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
    cells: Cells,
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
        bound = 2.0 * residues.walk.entry_bound()
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


def _key(cells: Cells, exact: ExactMaps, cell: int, keys: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The exact map of a cell in lowest terms."""
    if cell not in keys:
        rows, denominator = exact.output(cells.bits[cell], cells.routings[cell])
        keys[cell] = (denominator, *(int(value) for value in rows.entries()))
    return keys[cell]


class Residues:
    """The maps of cells modulo primes.

    Parameters
    ----------
    layers : tuple of Layer
        The network in its internal form.

    Examples
    --------
    >>> from hardmax.networks.blocks import FeedForward
    >>> from hardmax.networks.network import Network
    >>> from hardmax.networks.layers import layers_of
    >>> net = Network([FeedForward([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0], [[1.0, -1.0]], [0.5])])
    >>> bits, none = np.array([[1], [2], [3]], dtype=np.uint64), np.zeros((3, 0), dtype=np.int32)
    >>> residues = Residues(layers_of(net))        # max(x, 0) - max(-x, 0) + 1/2 is x + 1/2 on both sides
    >>> residues.equal(bits, none, np.array([[0, 1], [1, 2]]), bound=4.0)
    array([ True, False])
    """

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._layers = layers
        self.walk = Walk(layers)

    @cached_property
    def denominators(self) -> list[int]:
        """The common denominators of the factors of the map on a cell; their product serves for all maps."""
        return [lcm(*map(common_denominator, factor)) for layer in self._layers for factor in layer.factors]

    def primes(self) -> Iterator[int]:
        """Primes below 2^31 that divide no denominator, from the largest down."""
        return primes_below(_TOP, [array for array, _ in self.walk.program.parts])

    def primes_needed(self, bound: float) -> int:
        """How many primes prove that two maps are equal if no entry differs by more than ``bound``."""
        bits = sum(log2(q) for q in self.denominators) + log2(max(bound, 1e-300))
        return max(1, int(np.ceil((bits + 2.0) / _BITS_PER_PRIME)))

    def modulo(self, prime: int) -> NDArray[np.uint32]:
        """All numbers of the network modulo a prime, in the order of its program."""
        return self.walk.program.by_columns(partial(residues_of, prime=prime))

    def equal(
        self,
        bits: NDArray[np.uint64],
        routings: NDArray[np.int32],
        pairs: NDArray[np.int64],
        *,
        bound: float,
    ) -> NDArray[np.bool_]:
        """Which pairs of cells, none with tied keys, have the same map.

        ``bound`` is known to be no less than any difference between entries of the two maps of a pair.
        """
        same = np.ones(len(pairs), dtype=np.bool_)
        needed = self.primes_needed(bound)
        for count, prime in enumerate(self.primes()):
            left = np.flatnonzero(same)
            if count == needed or not len(left):
                return same
            cells, places = np.unique(pairs[left], return_inverse=True)
            places = places.reshape(-1, 2)
            numbers = self.modulo(prime)
            e = self.walk.d_out
            step = max(1, min(e, _MEMORY // (4 * (self.walk.d + 1) * len(cells))))
            for row in range(0, e, step):
                rows = min(step, e - row)
                maps = self.walk.residue_maps(numbers, bits, routings, cells, prime, row, rows)
                for part in range(0, len(left), 1 << 16):
                    here = slice(part, part + (1 << 16))
                    agree = maps[places[here, 0]] == maps[places[here, 1]]
                    same[left[here]] &= agree.all(axis=(1, 2))
        return same


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
        residues = Residues((*layers, projection))
        self._walk = residues.walk
        self._modulo = {prime: residues.modulo(prime) for prime in islice(residues.primes(), 2)}
        # a combination of the columns is a multiple of the value of the map at one point
        weights = self._columns.tolist()
        self._points = {
            prime: np.array([w * pow(weights[-1], -1, prime) % prime for w in weights[:-1]], dtype=np.uint64)
            for prime in self._modulo
        }

    def of(self, cells: Cells) -> NDArray[np.uint64]:
        """The fingerprints of some cells, uint64 (n,)."""
        result = np.zeros(cells.n, dtype=np.uint64)
        untied = np.flatnonzero(cells.tied == 0)
        for prime, numbers in self._modulo.items():
            point = self._points[prime]
            images = self._walk.residue_maps(numbers, cells.bits, cells.routings, untied, prime, point=point)
            values = images[:, 0, 0].astype(np.uint64) * np.uint64(self._columns[-1])  # below 2^51
            result[untied] = (result[untied] << np.uint64(32)) | values % np.uint64(prime)
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
        high, low = (total * pow(denominator, -1, prime) % prime for prime in self._modulo)
        return high << 32 | low

    def among(self, cells: Cells, values: NDArray[np.uint64]) -> Cells:
        """The cells whose fingerprint is one of ``values``, which are sorted."""
        return cells.select(np.isin(self.of(cells), values))


def repeated(prints: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], int]:
    """The fingerprints that occur more than once, sorted, and how many occur once.

    >>> repeated(np.array([3, 1, 3, 2], dtype=np.uint64))
    (array([3], dtype=uint64), 2)
    """
    values, counts = np.unique(prints, return_counts=True)
    return values[counts > 1], int((counts == 1).sum())


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
