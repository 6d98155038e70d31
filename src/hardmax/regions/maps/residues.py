r"""Proving that affine maps are equal, by residues modulo primes.

Let :math:`D` be the product of the common denominators of all layers. On every cell without tied keys the
entries of :math:`D A` and :math:`D b` are integers. If two maps :math:`(A, b)` and :math:`(A', b')` differ by
less than :math:`\delta` in every entry (their floats and the error bounds say so), then the entries of
:math:`D (A - A')` and :math:`D (b - b')` are integers below :math:`D \delta`. An integer that vanishes modulo
primes whose product exceeds :math:`D \delta` is zero. So a handful of primes *proves* equality, and one
nonzero residue proves the opposite.

The residues need no denominators: a fraction :math:`p/q` is :math:`p q^{-1}` modulo a prime that does not
divide :math:`q`, and a map is a sum of products of such numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import lcm, log2

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray
from hardmax.networks.layers import AffineLayer, FoldLayer, Layer, MaxLayer
from hardmax.regions.maps.exact_maps import common_denominator
from hardmax.regions.maps.map_kernels import residue_maps
from hardmax.regions.maps.steps import Steps, entry_bound, frozen, steps_of

__all__ = ["Residues", "residues_of"]

_TOP = 2**31  # primes below: two residues have a product below 2^62
_BITS_PER_PRIME = 30.9  # of the largest thousands of them
_MEMORY = 2**27  # bytes of residues held at a time


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
        self._steps: Steps = steps_of(layers)

    @cached_property
    def denominators(self) -> list[int]:
        """The common denominators of the matrices of every layer; their product serves for all maps."""
        found: list[int] = []
        for layer in self._layers:
            if isinstance(layer, AffineLayer):
                found.append(_lcm(layer.weights, layer.offsets))
            elif isinstance(layer, FoldLayer):
                found += [_lcm(layer.scores, layer.biases), _lcm(layer.outputs, layer.offsets)]
            elif isinstance(layer, MaxLayer):
                found.append(_lcm(layer.scores, layer.biases))
            else:
                found.append(_lcm(layer.outputs))
        return found

    def primes(self) -> Iterator[int]:
        """Primes below 2^31 that divide no denominator, from the largest down."""
        odd = [q for q in self.denominators if q & (q - 1)]
        candidate = _TOP + 1
        while True:
            candidate -= 2
            if flint.fmpz(candidate).is_prime() and all(q % candidate for q in odd):
                yield candidate

    def primes_needed(self, bound: float) -> int:
        """How many primes prove that two maps are equal if no entry differs by more than ``bound``."""
        bits = sum(log2(q) for q in self.denominators) + log2(max(bound, 1e-300))
        return max(1, int(np.ceil((bits + 2.0) / _BITS_PER_PRIME)))

    def entry_bound(self) -> float:
        """A bound on the entries of the map of any cell; infinite if it exceeds all floats."""
        return entry_bound(self._steps)

    def modulo(self, prime: int) -> NDArray[np.uint32]:
        """All numbers of the network modulo a prime, laid out flat."""
        parts = [
            _turned(residues_of(array, prime), array.shape, turn)
            for array, turn in zip(self._steps.arrays, self._steps.transposed, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)

    def maps(
        self,
        bits: NDArray[np.uint64],
        routings: NDArray[np.int32],
        cells: NDArray[np.int64],
        prime: int,
        *,
        first_row: int = 0,
        rows: int | None = None,
    ) -> NDArray[np.uint32]:
        """Maps of some cells (ascending) modulo a prime: (len(cells), rows, d + 1), constants last."""
        return self._maps(self.modulo(prime), bits, routings, cells, prime, first_row, rows)

    def _maps(
        self,
        numbers: NDArray[np.uint32],
        bits: NDArray[np.uint64],
        routings: NDArray[np.int32],
        cells: NDArray[np.int64],
        prime: int,
        first_row: int,
        rows: int | None,
    ) -> NDArray[np.uint32]:
        steps = self._steps
        out = np.empty((len(cells), steps.d_out if rows is None else rows, steps.d + 1), dtype=np.uint32)
        residue_maps(
            steps.table,
            numbers,
            steps.lookup,
            steps.lookup_at,
            frozen(bits),
            frozen(routings),
            frozen(cells),
            np.uint64(prime),
            steps.entering(np.uint64),
            np.zeros((steps.d + 1, steps.sums), dtype=np.uint64),
            np.zeros(steps.longest, dtype=np.int64),
            steps.output_at + first_row,
            out,
        )
        return out

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
            step = max(1, min(self._steps.d_out, _MEMORY // (4 * (self._steps.d + 1) * len(cells))))
            for row in range(0, self._steps.d_out, step):
                rows = min(step, self._steps.d_out - row)
                maps = self._maps(numbers, bits, routings, cells, prime, row, rows)
                for part in range(0, len(left), 1 << 16):
                    here = slice(part, part + (1 << 16))
                    agree = maps[places[here, 0]] == maps[places[here, 1]]
                    same[left[here]] &= agree.all(axis=(1, 2))
        return same


def residues_of(array: ExactArray, prime: int) -> NDArray[np.uint32]:
    r"""Every entry modulo a prime below :math:`2^{31}` that divides no denominator, flat.

    >>> from fractions import Fraction
    >>> from hardmax.exact.rationals import as_exact
    >>> residues_of(as_exact([0.5, -1.0, Fraction(1, 3)], "x", ndim=1), 7)    # 2 * 4 = 3 * 5 = 1 modulo 7
    array([4, 6, 5], dtype=uint32)
    """
    if array.fractions is not None:
        values = [
            v.numerator * pow(v.denominator, -1, prime) % prime for v in array.fractions.ravel().tolist()
        ]
        return np.array(values, dtype=np.uint32)
    mantissas, exponents = np.frexp(array.floats.ravel())
    digits = np.ldexp(mantissas, 53).astype(np.int64) % prime
    powers, place = np.unique(exponents.astype(np.int64) - 53, return_inverse=True)
    scales = np.array([pow(2, int(e), prime) for e in powers], dtype=np.int64)
    return (digits * scales[place] % prime).astype(np.uint32)


def _lcm(*arrays: ExactArray | None) -> int:
    return lcm(*(common_denominator(array) for array in arrays if array is not None))


def _turned(residues: NDArray[np.uint32], shape: tuple[int, ...], turn: bool) -> NDArray[np.uint32]:
    return np.ascontiguousarray(residues.reshape(shape).T).ravel() if turn else residues
