r"""How far a point is from a decision boundary: exact programs, one for each piece that could be nearest.

Boxes around the pieces, rounded outward, give lower bounds; pieces are looked at in the order of these, until
the next bound is beyond the best distance found, and left out if their hyperplane is. For the 2-norm, the
nearest point of a piece is the point of smallest norm in the hull of its vertices less :math:`p` (Wolfe's
algorithm in rationals). For the norms 1 and infinity it is a linear program: the lowest :math:`(x, t)` with
:math:`x` in the piece and :math:`|x - p| \le t`. Of the inequalities that make up the norm only those are
used that a lowest vertex violates, one after the other, each cutting the double description of the piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import (
    DimensionMismatchError,
    IncompleteError,
    InvalidInputError,
    UnsupportedDimensionError,
)
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import as_exact, fraction, nearest_float, rational
from hardmax.geometry.cones.rational_splitting import RationalCone, integer_row
from hardmax.geometry.feasibility.rational_programs import smallest_point
from hardmax.regions.maps.exact_maps import Row, common_cone, hyperplane_basis, rays_in_space
from hardmax.results import Result

if TYPE_CHECKING:
    from hardmax.regions.decisions.boundary import DecisionBoundary

Floats = NDArray[np.float64]
Point = list[Fraction]

_NORMS = {"1": 1, "2": 2, "inf": math.inf}
_MOST = 6  # beyond, vertices of pieces are too many
_DOWN = 1.0 - 1e-12  # for bounds in floats


@dataclass(frozen=True, eq=False, repr=False)
class DecisionDistance(Result):
    r"""How far a point is from the decision boundary of a network: ``boundary.distance(point, norm)``.

    Attributes
    ----------
    point : tuple of Fraction
    norm : {"1", "2", "inf"}
    exact : Fraction or None
        The distance to the boundary inside the domain; of norm 2 its square, which is rational when the
        distance is not. ``None`` if the domain holds no boundary.
    exact_nearest : tuple of Fraction or None
        A point of the boundary at that distance.
    piece : int or None
        The number of a piece that contains it.
    class_here : int
        The class at the point.
    class_beyond : int or None
        The class on the other side of the piece.
    edge : Fraction or None
        The distance to the domain's rim, of norm 2 its square; ``None`` if the domain has none.
    distance, edge_distance, lower_bound : float
        The same in floats: infinite where there is none. ``lower_bound`` is the smaller of the two: no other
        class is nearer, inside of the domain or outside.
    certain : bool
        Whether the distance is that to the boundary everywhere: no rim is nearer that could hide a nearer
        one.

    Examples
    --------
    >>> import hardmax as hm
    >>> sign = hm.Network.mlp([([[1, 1]], [-1])])
    >>> found = hm.decision_boundary(sign, hm.Box.cube(2, -3, 3)).distance([0, 0], norm=1)
    >>> found.exact, found.nearest.tolist(), found.certain
    (Fraction(1, 1), [0.0, 1.0], True)
    """

    kind: ClassVar[str] = "DecisionDistance"

    point: tuple[Fraction, ...]
    norm: str
    exact: Fraction | None
    exact_nearest: tuple[Fraction, ...] | None
    piece: int | None
    class_here: int
    class_beyond: int | None
    edge: Fraction | None

    @property
    def distance(self) -> float:
        """The distance to the boundary inside the domain; infinite if there is none."""
        return self._length(self.exact)

    @property
    def edge_distance(self) -> float:
        """The distance to the domain's rim; infinite if it has none."""
        return self._length(self.edge)

    @property
    def certain(self) -> bool:
        """Whether nothing outside of the domain can be nearer."""
        return self.edge is None or (self.exact is not None and self.exact <= self.edge)

    @property
    def lower_bound(self) -> float:
        """A distance below which there is no other class, inside of the domain or outside."""
        return min(self.distance, self.edge_distance)

    @property
    def nearest(self) -> Any:
        """The nearest point in floats; ``None`` if there is no boundary."""
        if self.exact_nearest is None:
            return None
        return np.array([nearest_float(v) for v in self.exact_nearest])

    def _length(self, value: Fraction | None) -> float:
        if value is None:
            return math.inf
        return _square_root(value) if self.norm == "2" else nearest_float(value)

    def _summary(self) -> str:
        across = f"from class {self.class_here} to class {self.class_beyond}"
        if self.exact is None and self.edge is None:
            return "no boundary anywhere"
        if self.exact is None:
            return f"no boundary in the domain, at least {self.lower_bound:.6g}, norm {self.norm}"
        if self.certain:
            return f"{self.distance:.6g} {across}, norm {self.norm}, exact"
        return (
            f"at least {self.lower_bound:.6g}, norm {self.norm}: the domain ends there, {self.distance:.6g} "
            f"{across} inside"
        )

    def _table(self) -> dict[str, Any]:
        nearest = [float("nan")] * len(self.point) if self.nearest is None else self.nearest.tolist()
        return {"point": [nearest_float(v) for v in self.point], "nearest": nearest}


def nearest_piece(boundary: DecisionBoundary, point: ArrayLike, norm: float | str) -> DecisionDistance:
    """The nearest point of a boundary."""
    name = "inf" if norm in (math.inf, "inf") else str(norm).removesuffix(".0")
    if name not in _NORMS:
        raise InvalidInputError(f"norm must be 1, 2 or inf, but was {norm!r}.")
    if boundary.d > _MOST:
        raise UnsupportedDimensionError(
            f"distances to a boundary are computed in up to {_MOST} dimensions, but it has {boundary.d}; try "
            "a slice, network.restrict(origin, directions) or network.plane_through(a, b, c)."
        )
    if not boundary.complete:
        raise IncompleteError(
            "the boundary must be complete to say what is nearest, but it was stopped early; compute it "
            "without limits."
        )
    p = fractions_of(as_exact(point, "point", ndim=1)).tolist()
    if len(p) != boundary.d:
        raise DimensionMismatchError(f"point must have {boundary.d} coordinates, but has {len(p)}.")
    edge = _edge_distance(boundary, p, name)
    here = _class_at(boundary, p)
    found = _nearest(boundary, p, name, here)
    if found is None:
        return DecisionDistance(tuple(p), name, None, None, None, here, None, edge)
    length, piece, x = found
    beyond = next((c for c in boundary.classes[piece].tolist() if c != here), None)
    return DecisionDistance(tuple(p), name, length, tuple(x), piece, here, beyond, edge)


def _class_at(boundary: DecisionBoundary, p: Point) -> int:
    """The class at a point, without rounding."""
    at: Any = np.array(p, dtype=object)
    values = list(boundary.network.exact_value(at))
    return values.index(max(values)) if len(values) > 1 else int(values[0] > 0)


def _edge_distance(boundary: DecisionBoundary, p: Point, norm: str) -> Fraction | None:
    """The distance to the domain's rim, of norm 2 its square."""
    found: Fraction | None = None
    exact = boundary.class_cells._exact_maps
    for i in range(boundary.domain.b.shape[0]):
        *slopes, constant = exact.domain_line(i)
        room = sum((a * v for a, v in zip(slopes, p, strict=True)), Fraction(constant))
        if room < 0:
            raise InvalidInputError(
                f"point must lie in the domain of the boundary, but {[nearest_float(v) for v in p]} does not."
            )
        length = _dual(slopes, norm)
        distance = room * room / length if norm == "2" else room / length
        found = distance if found is None else min(found, distance)
    return found


def _dual(slopes: list[int], norm: str) -> int:
    """The norm of a slope by which distances to its hyperplane are divided; of norm 2 its square."""
    if norm == "2":
        return sum(a * a for a in slopes)
    return sum(map(abs, slopes)) if norm == "inf" else max(map(abs, slopes))


def _nearest(
    boundary: DecisionBoundary, p: Point, norm: str, here: int
) -> tuple[Fraction, int, Point] | None:
    """The distance (of norm 2 its square), the piece and the point of it that are nearest.

    Of pieces at the same distance one with the class of the point is chosen, then the first.
    """
    low, high = boundary._boxes
    at = np.array([nearest_float(v) for v in p])
    apart = np.maximum(np.maximum(low - np.nextafter(at, np.inf), np.nextafter(at, -np.inf) - high), 0.0)
    bounds = np.linalg.norm(apart, ord=_NORMS[norm], axis=1) * _DOWN if len(apart) else np.zeros(0)
    if norm == "2":
        bounds = bounds * bounds * _DOWN
    best: tuple[Fraction, bool, int, Point] | None = None
    for k in np.argsort(bounds, kind="stable").tolist():
        if best is not None and best[0] < float(bounds[k]):
            break
        *slopes, constant = boundary._row(k)
        apart_by = abs(sum((a * v for a, v in zip(slopes, p, strict=True)), Fraction(constant)))
        plane = (apart_by * apart_by if norm == "2" else apart_by) / _dual(slopes, norm)
        if best is not None and best[0] < plane:
            continue
        x = nearest_point(boundary, k, p, norm)
        found = _length_of(p, x, norm), here not in boundary.classes[k].tolist(), k, x
        if best is None or found[:3] < best[:3]:
            best = found
    return None if best is None else (best[0], best[2], best[3])


def _length_of(p: Point, x: Point, norm: str) -> Fraction:
    steps = [abs(a - b) for a, b in zip(p, x, strict=True)]
    if norm == "2":
        return sum((s * s for s in steps), Fraction(0))
    return max(steps) if norm == "inf" else sum(steps, Fraction(0))


def nearest_point(boundary: DecisionBoundary, k: int, p: Point, norm: str) -> Point:
    """The nearest point of one piece; one of several with the norms 1 and infinity."""
    part = boundary._part(k)
    if norm != "2":
        return _lowest(part.cone, boundary._row(k), p, norm)
    points = part.points
    if part.directions:  # cut off beyond a point that is known
        reach = _length_of(p, points[0], "1")
        rows = boundary._rows(k) + _around(p, reach, len(p))
        cone = common_cone(rows, [], boundary._row(k), boundary.d)
        if cone is None:  # the reach is 0
            return points[0]
        rays = rays_in_space(cone, boundary._row(k))
        points = [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in rays]
    moved = [[rational(v - c) for v, c in zip(point, p, strict=True)] for point in points]
    return [fraction(v) + c for v, c in zip(smallest_point(moved), p, strict=True)]


def _around(p: Point, reach: Fraction, d: int) -> list[Row]:
    """The rows of a box around a point."""
    rows = []
    for c in range(d):
        for sign in (1, -1):
            row = [Fraction(sign * (c == k)) for k in range(d)] + [reach - sign * p[c]]
            rows.append(tuple(integer_row([rational(v) for v in row])))
    return rows


def _lowest(piece: RationalCone, row: Row, p: Point, norm: str) -> Point:
    """The nearest point of a piece, given as a cone in the basis of its hyperplane."""
    basis = hyperplane_basis(row)
    floor, n = 1 << len(piece.facets), piece.dimension  # the piece times t >= 0
    cone = RationalCone(
        n + 1,
        [[*line, 0] for line in piece.lines],
        [*([*ray, 0] for ray in piece.rays), [0] * n + [1]],
        [*(mask | floor for mask in piece.masks), floor - 1],
        [*(([*normal, 0], label) for normal, label in piece.facets), ([0] * n + [1], (0, 0))],
    )
    while True:
        height, length, x = min(_vertices(cone, basis, p, norm))
        if height == length:
            return x
        signs = _supporting([a - b for a, b in zip(x, p, strict=True)], norm)
        slopes = [-s for s in signs] + [sum((s * c for s, c in zip(signs, p, strict=True)), Fraction(0))]
        part = [sum((a * v for a, v in zip(slopes, vector, strict=True)), Fraction(0)) for vector in basis]
        cone.cut(integer_row([rational(v) for v in [*part, Fraction(1)]]), (0, 0))  # t >= signs . (x - p)


def _vertices(
    cone: RationalCone, basis: list[list[int]], p: Point, norm: str
) -> Iterator[tuple[Fraction, Fraction, Point]]:
    """The vertices of a lifted piece: how high they are, how far from p, and where."""
    for ray in cone.rays:
        x = [sum(v * b[c] for v, b in zip(ray, basis, strict=False)) for c in range(len(p) + 1)]
        if x[-1]:
            point = [Fraction(v, x[-1]) for v in x[:-1]]
            yield Fraction(ray[-1], x[-1]), _length_of(p, point, norm), point


def _supporting(step: Point, norm: str) -> list[int]:
    """The slope, of dual norm 1, whose product with a step is its norm."""
    signs = [1 if v >= 0 else -1 for v in step]
    if norm == "1":
        return signs
    longest = max(range(len(step)), key=lambda c: abs(step[c]))
    return [sign * (c == longest) for c, sign in enumerate(signs)]


def _square_root(value: Fraction) -> float:
    """The square root of a fraction, correctly rounded up to the last place, also far out of range."""
    p, q = value.numerator, value.denominator
    shift = max(0, 128 - (p.bit_length() - q.bit_length())) // 2
    return nearest_float(Fraction(math.isqrt((p << (2 * shift)) // q), 1 << shift))
