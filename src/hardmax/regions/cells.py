r"""What an enumeration of the plane writes down: cells as polygons with named edges.

Cells are stored flat, in lexicographic order of their signatures, layer by layer: winners of a head in order
of their keys, a unit off before on. An edge remembers the straight line it lies on: the *layer cell* in which
that line was drawn (``owner``: one number per cell of the network up to that layer) and the code of the unit
or the pair of keys (``wall``). So ``(owner, wall)`` names one straight segment, and the cells on its two
sides each partition it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AT_INFINITY", "DOMAIN_SIDE", "Cells", "decode_wall", "encode_wall"]

DOMAIN_SIDE, AT_INFINITY = -1, -2  # owners of edges that are no fold and no wall

KEY_BITS, GROUP_BITS = 19, 16  # of the codes of walls
_KEY, _GROUP = (1 << KEY_BITS) - 1, (1 << GROUP_BITS) - 1


def encode_wall(layer: int, group: int, a: int = 0, b: int = 0) -> int:
    """The code of unit ``group`` of a fold layer, or of keys a < b of head ``group`` of a wall layer.

    >>> decode_wall(encode_wall(3, 2, 10, 17))
    (3, 2, 10, 17)
    """
    return (layer << (GROUP_BITS + 2 * KEY_BITS)) | (group << (2 * KEY_BITS)) | (a << KEY_BITS) | b


def decode_wall(code: int) -> tuple[int, int, int, int]:
    """``(layer, group, a, b)`` of a code; a = b = 0 for a unit."""
    code = int(code)
    return (
        code >> (GROUP_BITS + 2 * KEY_BITS),
        (code >> (2 * KEY_BITS)) & _GROUP,
        (code >> KEY_BITS) & _KEY,
        code & _KEY,
    )


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a network in a domain of the plane.

    Attributes
    ----------
    bits : uint64 (n, words)
        ReLU bits, unit u of the network at word u // 64, bit u % 64.
    routings : int32 (n, heads)
        Winning key of every head, the lowest of those that win together.
    tied : uint8 (n,)
        1 where several keys with different scores coincide on the cell, so that its map is a mean.
    edge_start : int64 (n + 1,)
        Edges of cell i are ``edge_start[i]:edge_start[i + 1]``, counterclockwise; an edge runs from its
        vertex to the next one of its cell.
    vx, vy, vr : float64 (E,)
        The vertex at which an edge starts and a bound on its error in each coordinate (infinite: unknown).
    dx, dy : float64 (E,) or None
        In unbounded domains: the vertex is (vx + M dx, vy + M dy) with M beyond every number.
    owner, wall : int64 (E,)
        The line of the edge; owner -1 is a side of the domain (``wall`` its number), -2 the end of the plane.
    witnesses : float64 (n, 2)
    margins : float64 (n,)
        A proven lower bound on the distance of the witness from the cell's boundary; 0 where floats prove
        none.
    """

    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    edge_start: NDArray[np.int64]
    vx: NDArray[np.float64]
    vy: NDArray[np.float64]
    vr: NDArray[np.float64]
    dx: NDArray[np.float64] | None
    dy: NDArray[np.float64] | None
    owner: NDArray[np.int64]
    wall: NDArray[np.int64]
    witnesses: NDArray[np.float64]
    margins: NDArray[np.float64]

    @property
    def n(self) -> int:
        """The number of cells."""
        return len(self.tied)
