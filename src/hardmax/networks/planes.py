r"""The plane through three data points, with coordinates in which nothing is rounded.

With :math:`u = b - a` and :math:`w = |u|^2 (c - a) - \langle c - a, u\rangle\, u` the plane is
:math:`a + t_1 \sigma_1 u + t_2 \sigma_2 w`. The two directions are orthogonal, and floats of 24 bits for
:math:`\sigma_1, \sigma_2` make their lengths 1 up to :math:`10^{-7}`, so pictures and lengths in the plane
are those in space. Sums and products of floats are dyadic rationals: directions and coordinates are kept as
such, whatever :math:`\sigma` is, and the three points lie exactly where they are said to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact

if TYPE_CHECKING:
    from hardmax.networks.network import Network

Floats = NDArray[np.float64]

_BITS = 24  # of the factors that make directions as long as 1


@dataclass(frozen=True, eq=False, repr=False)
class PlaneThrough:
    r"""A network on the plane through three points: ``network.plane_through(a, b, c)``.

    Attributes
    ----------
    network : Network
        The network on the plane, with two inputs: :math:`t \mapsto f(o + t_1 u_1 + t_2 u_2)`.
    points : (3, 2) float64
        The coordinates of the three points, correctly rounded; the first is (0, 0), the second (r, 0).
    exact_points : list of lists of Fraction
        The same without rounding.
    origin, directions : ExactArray
        :math:`o`, and :math:`u_1, u_2` as rows: orthogonal, of length 1 up to :math:`10^{-7}`.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 2, 3], [0, 1, 0]], None)])
    >>> plane = net.plane_through([0, 0, 1], [3, 0, 1], [0, 4, 1])
    >>> plane.network(plane.points[2]), net([0, 4, 1])
    (array([11.,  4.]), array([11.,  4.]))
    >>> coordinates, off = plane.project([[3, 4, 6]])     # the nearest point of the plane, and how far it is
    >>> coordinates.round(6), off
    (array([[3., 4.]]), array([5.]))
    """

    network: Network
    exact_points: list[list[Fraction]]
    origin: ExactArray
    directions: ExactArray

    @cached_property
    def points(self) -> Floats:
        """The coordinates of the three points."""
        return np.array([[float(v) for v in point] for point in self.exact_points])

    def project(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """The coordinates of the nearest points of the plane, and how far they are, in floats.

        Parameters
        ----------
        x : (n, d) array_like
            Points of the space in which the network lives.
        """
        points = as_exact(x, "x", ndim=2).floats
        if points.shape[1] != self.origin.shape[0]:
            raise DimensionMismatchError(
                f"x must have {self.origin.shape[0]} columns, but has {points.shape[1]}."
            )
        sizes = np.abs(self.directions.floats).max(axis=1)
        directions = self.directions.floats / sizes[:, None]  # squares of long ones would overflow
        moved = points - self.origin.floats
        scaled = moved @ directions.T / (directions**2).sum(axis=1)
        return scaled / sizes, lengths(moved - scaled @ directions)

    def __repr__(self) -> str:
        places = ", ".join(f"({x:.6g}, {y:.6g})" for x, y in self.points)
        return f"<PlaneThrough: {self.network!r}, points at {places}>"


def plane_through(network: Network, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> PlaneThrough:
    """The network on the plane through three points; see :meth:`Network.plane_through`."""
    given = [as_exact(values, name, ndim=1) for values, name in ((a, "a"), (b, "b"), (c, "c"))]
    for point, name in zip(given, "abc", strict=True):
        if point.shape[0] != network.d:
            raise DimensionMismatchError(
                f"{name} must have {network.d} coordinates, as the network's input, but has {point.shape[0]}."
            )
    start, *others = (fractions_of(point) for point in given)
    u, v = (other - start for other in others)
    square, along = _dot(u, u), _dot(u, v)
    w = v * square - u * along
    if not square or not any(w):
        raise InvalidInputError("a, b and c must not lie on one line; try three other points.")
    first, second = _near_one(square), _near_one(_dot(w, w))
    directions = as_exact(np.array([u * first, w * second]), "directions", ndim=2)
    zero = Fraction(0)
    places = [[zero, zero], [1 / first, zero], [along / square / first, 1 / (square * second)]]
    return PlaneThrough(network.restrict(given[0], directions), places, given[0], directions)  # type: ignore[arg-type]


def _dot(u: NDArray[Any], v: NDArray[Any]) -> Fraction:
    return sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0))


def _near_one(square: Fraction) -> Fraction:
    """A dyadic factor of few bits that makes a vector with this square as long as 1, nearly."""
    exponent = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    scaled = square / Fraction(4) ** exponent  # between 1/4 and 16
    mantissa = round(math.ldexp(1.0 / math.sqrt(scaled), _BITS))
    return Fraction(mantissa, 2**_BITS) / Fraction(2) ** exponent


def lengths(rows: Floats) -> Floats:
    """The Euclidean lengths of vectors whose squares may lie outside the range of float64.

    >>> lengths(np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]])) / [5e200, 5e-200, 1.0]
    array([1., 1., 0.])
    """
    sizes = np.abs(rows).max(axis=1, initial=0.0)
    usable = np.where((sizes > 0.0) & np.isfinite(sizes), sizes, 1.0)
    with np.errstate(over="ignore"):  # a length beyond float64 is infinite
        return np.asarray(np.linalg.norm(rows / usable[:, None], axis=1) * usable)
