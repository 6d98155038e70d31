r"""What an enumeration in three and more dimensions writes down: cells as polyhedra with named facets.

Points are homogeneous, the constant last: a ray :math:`(x, x_0)` with :math:`x_0 > 0` is the vertex
:math:`x / x_0`, one with :math:`x_0 = 0` a direction in which its cell is unbounded. Facets are named as in
the plane: by the layer cell in which their hyperplane was drawn (``owner``) and the unit or pair of keys
(``wall``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SpaceCells"]


@dataclass(frozen=True, eq=False)
class SpaceCells:
    """The cells of a network in a domain of dimension d >= 3.

    Attributes
    ----------
    d : int
        The dimension of the domain.
    bits, routings, tied
        Signatures, as in :class:`~hardmax.regions.cells.Cells`.
    ray_start : int64 (n + 1,)
        Rays of cell i are ``ray_start[i]:ray_start[i + 1]``.
    rays : float64 (R, d + 1)
        Vertices and directions, homogeneous.
    ray_error : float64 (R,)
        A bound on the error of every entry of a ray (infinite: unknown).
    facet_start : int64 (n + 1,)
        Facets of cell i are ``facet_start[i]:facet_start[i + 1]``.
    owner, wall : int64 (F,)
        The hyperplane of a facet; owner -1 is a side of the domain (``wall`` its number), -2 infinity.
    mask : uint64 (R, words)
        Bit s of a ray's mask: it lies on facet ``facet_start[i] + s`` of its cell. A facet may be redundant:
        then its rays are among those of another one.
    free : int64 (n,)
        0, or for a cell that contains lines a set of coordinates (bit c: coordinate c); its rays are moved
        along the lines to where these coordinates vanish.
    witnesses : float64 (n, d)
    margins : float64 (n,)
        A proven lower bound on the distance of the witness from the cell's boundary; 0 where floats prove
        none.
    """

    d: int
    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    ray_start: NDArray[np.int64]
    rays: NDArray[np.float64]
    ray_error: NDArray[np.float64]
    facet_start: NDArray[np.int64]
    owner: NDArray[np.int64]
    wall: NDArray[np.int64]
    mask: NDArray[np.uint64]
    free: NDArray[np.int64]
    witnesses: NDArray[np.float64]
    margins: NDArray[np.float64]

    @property
    def n(self) -> int:
        """The number of cells."""
        return len(self.tied)
