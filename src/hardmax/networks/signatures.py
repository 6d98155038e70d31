"""Signatures: the routing of every head and the on/off bit of every ReLU unit, layer by layer.

Bits are packed, sixty-four to a word, because a network has thousands of units and a picture millions of
points: unit u of all units, in the order of the blocks, is bit u % 64 of word u // 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.block import many


@dataclass(frozen=True, eq=False, repr=False)
class Signature:
    """The signatures of points.

    Attributes
    ----------
    routings : (n_points, heads_total) int32
        The winning key of every head, block by block; the lowest index among keys that tie.
    bits : (n_points, ceil(units_total / 64)) uint64
        Whether the pre-activation of a unit is above zero, packed.
    units_total : int
        The number of ReLU units.
    relu : (n_points, units_total) bool
        The same bits, unpacked on demand.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1], [-1]], [0, 0]), ([[1, 1]], [0])])
    >>> net.signature([[2.0], [-3.0], [0.0]]).relu
    array([[ True, False],
           [False,  True],
           [False, False]])
    """

    routings: NDArray[np.int32]
    bits: NDArray[np.uint64]
    units_total: int

    def __post_init__(self) -> None:
        self.routings.setflags(write=False)
        self.bits.setflags(write=False)

    @cached_property
    def relu(self) -> NDArray[np.bool_]:
        """The on/off bits, one column per unit."""
        return unpack_bits(self.bits, self.units_total)

    def __len__(self) -> int:
        return len(self.routings)

    def __repr__(self) -> str:
        points, heads = self.routings.shape
        return f"Signature({many(points, 'point')}, {many(heads, 'head')}, {many(self.units_total, 'unit')})"


def pack_bits(relu: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Rows of booleans as rows of 64-bit words, the first unit in the lowest bit.

    >>> pack_bits(np.array([[True, False, True]]))
    array([[5]], dtype=uint64)
    """
    n, units = relu.shape
    packed = np.zeros((n, -(-units // 64) * 8), dtype=np.uint8)
    packed[:, : -(-units // 8)] = np.packbits(relu, axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64, copy=False)


def unpack_bits(bits: NDArray[np.uint64], units: int) -> NDArray[np.bool_]:
    """The inverse of :func:`pack_bits`.

    >>> unpack_bits(np.array([[5]], dtype=np.uint64), 3)
    array([[ True, False,  True]])
    """
    octets = np.ascontiguousarray(bits.astype("<u8", copy=False)).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=units, bitorder="little").view(np.bool_)
