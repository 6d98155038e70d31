r"""Uniform points in a bounded domain.

A box is scaled; a polygon is cut into triangles, found exactly, so that even a sliver wastes no draw; a
polytope in higher dimension is cut out of its bounding box by rejection. A domain that is unbounded has no
uniform distribution, and says so.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import EmptyDomainError, InvalidInputError, NotFiniteError
from hardmax.geometry.domains import Box, Domain, Polytope
from hardmax.regions.plane.rational_polygons import corners_of, domain_polygon

__all__ = ["UniformPoints"]

Floats = NDArray[np.float64]

_TRIES = 1 << 16  # points of the bounding box that are drawn at a time
_LEAST_SHARE = 1e-4  # of the bounding box; below it rejection would take too long


class UniformPoints:
    """A source of uniform points in a domain.

    Parameters
    ----------
    domain : Box or Polytope
        Bounded, with interior.

    Attributes
    ----------
    low, high : (d,) float64
        The bounding box.

    Examples
    --------
    >>> from hardmax.geometry.domains import Polytope
    >>> triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
    >>> points = UniformPoints(triangle).draw(1000, np.random.default_rng(0))
    >>> bool(triangle.contains(points).all()) and np.allclose(points.mean(axis=0), 1 / 3, atol=0.03)
    True
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.corners: Floats | None = None
        match domain:
            case Box():
                self.low, self.high = domain.low.floats, domain.high.floats
            case Polytope() if domain.d == 1:
                self.low, self.high = _interval(domain)
            case Polytope() if domain.d == 2:
                self.corners = _corners(domain)
                self.low, self.high = self.corners.min(axis=0), self.corners.max(axis=0)
            case Polytope():
                self.low, self.high = _bounding_box(domain)
            case _:
                raise _unbounded(domain)
        with np.errstate(over="ignore"):
            if not np.isfinite(self.high - self.low).all():
                raise NotFiniteError("domain must have sides that fit into float64; try a smaller box.")
        if not (self.high > self.low).all():
            raise EmptyDomainError(
                "domain must be wide enough for floats to tell its ends apart; scale it up."
            )

    def draw(self, n: int, generator: np.random.Generator) -> Floats:
        """Independent uniform points, one per row."""
        if self.corners is not None:
            return self._in_triangles(n, generator)
        if isinstance(self.domain, Polytope) and self.domain.d > 2:
            return self._by_rejection(n, generator)
        return self._in_box(n, generator)

    def _in_box(self, n: int, generator: np.random.Generator) -> Floats:
        points = generator.random((n, len(self.low)))
        points *= self.high - self.low
        points += self.low
        return np.minimum(points, self.high, out=points)

    def _in_triangles(self, n: int, generator: np.random.Generator) -> Floats:
        """A triangle of the fan at the first corner, by area; in it a uniform point."""
        apex = self.corners[0]  # type: ignore[index]
        sides = self.corners[1:] - apex  # type: ignore[index]
        u, v = sides[:-1], sides[1:]
        areas = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
        shares = np.cumsum(areas) / areas.sum()
        r = generator.random((3, n))
        i = np.minimum(np.searchsorted(shares, r[0], side="right"), len(shares) - 1)
        root = np.sqrt(r[1])[:, None]
        t = r[2][:, None]
        return np.asarray(apex + root * ((1 - t) * u[i] + t * v[i]))

    def _by_rejection(self, n: int, generator: np.random.Generator) -> Floats:
        points = np.empty((n, len(self.low)))
        found = tried = 0
        while found < n:
            some = self._in_box(_TRIES, generator)
            some = some[self.domain.contains(some)][: n - found]
            points[found : found + len(some)] = some
            found, tried = found + len(some), tried + _TRIES
            if found < _LEAST_SHARE * tried and found < n:
                raise InvalidInputError(
                    f"domain must fill at least {_LEAST_SHARE:g} of its bounding box to be sampled, but "
                    f"{found} of {tried} points were inside; try a Box, or network.restrict to a slice."
                )
        return points


def _unbounded(domain: Domain) -> InvalidInputError:
    return InvalidInputError(
        f"domain must be bounded, because an unbounded one has no uniform points, but was {domain!r}; "
        f"try hm.Box.cube({domain.d}, -4, 4)."
    )


def _empty() -> EmptyDomainError:
    return EmptyDomainError(
        "domain must have interior, but its half-spaces leave no open set; check the signs of A x <= b."
    )


def _corners(domain: Polytope) -> Floats:
    """The corners of a polygon, counterclockwise, from exact lines."""
    halfspaces = []
    for i in range(domain.b.shape[0]):
        row = [-value for value in domain.a.rational_row(i)] + domain.b.rational_row(i)
        scale = lcm(*(int(value.q) for value in row))
        halfspaces.append([int(value.p) * (scale // int(value.q)) for value in row])
    polygon = domain_polygon(halfspaces)
    if polygon is None:
        raise _empty()
    lines, labels = polygon
    if min(labels) < 0:
        raise _unbounded(domain)
    return np.array(
        [[Fraction(x, w), Fraction(y, w)] for x, y, w, _, _ in corners_of(lines)], dtype=np.float64
    )


def _interval(domain: Polytope) -> tuple[Floats, Floats]:
    low: list[flint.fmpq] = []
    high: list[flint.fmpq] = []
    for i in range(domain.b.shape[0]):
        a, b = domain.a.rational((i, 0)), domain.b.rational(i)
        if a == 0:
            if b < 0:
                raise _empty()
        else:
            (high if a > 0 else low).append(b / a)
    if not low or not high:
        raise _unbounded(domain)
    if max(low) >= min(high):
        raise _empty()
    ends = (max(low), min(high))
    return tuple(np.array([int(end.p) / int(end.q)]) for end in ends)  # type: ignore[return-value]


def _bounding_box(domain: Polytope) -> tuple[Floats, Floats]:
    """By linear programs; one more finds the largest ball inside and shows that there is one."""
    from scipy.optimize import linprog

    a, b = domain.halfspaces()
    norms = np.linalg.norm(a, axis=1)
    free = [(None, None)] * domain.d
    ball = linprog(
        np.append(np.zeros(domain.d), -1.0), np.column_stack([a, norms]), b, bounds=[*free, (None, 1.0)]
    )
    if ball.status == 2 or (ball.status == 0 and not ball.x[-1] > 0.0):
        raise _empty()
    ends = []
    for sign in (1.0, -1.0):
        for i in range(domain.d):
            end = linprog(sign * np.eye(domain.d)[i], a, b, bounds=free)
            if end.status != 0:
                raise _unbounded(domain)
            ends.append(end.x[i])
    return np.array(ends[: domain.d]), np.array(ends[domain.d :])
