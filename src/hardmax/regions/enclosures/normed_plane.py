r"""The first routing behind a norm, on a plane: cells with conic walls, counted with proof.

Behind a norm the scores of a head are, up to the positive factor :math:`1/\rho(x)`,
:math:`\ell_j(x) + c_j\,\rho(x)` with :math:`\rho = \sqrt{q}`, q a quadratic function. Walls are
:math:`\ell + c\rho = 0`: in space, with :math:`z = \rho(x)`, they are planes. So two walls meet on a line,
where one quadratic equation is left, and so do a wall and its tangents of one direction.

A line sweeps over the box. Its *critical* positions are those at corners of walls, at tangents, and at the
sides and corners of the box: all of them are enclosed, with python-flint. Shortly before and shortly behind
each of them the sequence of cells along the line is traced with proof. Outside a small window around the
critical point the two sequences are the same, which is proven as well, and cells that correspond are one. The
number of cells, connected ones, is what remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, ClassVar, NamedTuple, Self

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, UnsupportedDimensionError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import as_exact, rational
from hardmax.fields import check_shapes
from hardmax.geometry.domains import Box
from hardmax.limits import Clock, look
from hardmax.networks.network import Network
from hardmax.networks.reading.sources import NetworkLike, as_network
from hardmax.progress import watched
from hardmax.regions.enclosures.normed_routing import normed_head, normed_scores
from hardmax.regions.enclosures.trace import CertifiedTrace, certified_trace
from hardmax.results import Result

_SLANTS = (Fraction(5, 37), Fraction(-11, 53), Fraction(29, 41))  # of the sweeping line
_BITS = 256


@dataclass(frozen=True, eq=False, repr=False)
class NormedDiagram(Result):
    """The cells of the first routing behind a norm, in a box of the plane.

    Attributes
    ----------
    network, domain
        What was asked: the network up to its first attention.
    n_cells : int or None
        The number of connected sets with one routing of all heads; ``None`` if it is not proven.
    routings : ndarray of int32, (n, heads)
        The different routings that were seen with proof; all of them if the count is proven.
    witnesses : ndarray of float64, (n, 2)
        A point of each.
    vertices : ndarray of float64, (n_vertices, 2)
        Where three keys of a head tie, or two walls of different heads cross.
    proven : bool
        Whether the count is.
    reason : str
        Why it is not.

    Examples
    --------
    >>> import hardmax as hm
    >>> keys = [[[2, 0], [-1, 2], [-1, -2]]]
    >>> head = hm.Attention(keys, [[0, 0.5, -0.5]], keys)
    >>> net = hm.Network([hm.networks.RMSNorm([1, 1], epsilon=0.1), head])
    >>> hm.regions.normed_diagram(net, hm.Box.cube(2, -1, 1))
    <NormedDiagram: 3 cells, 3 routings, proven>
    """

    kind: ClassVar[str] = "NormedDiagram"

    network: Network
    domain: Box
    n_cells: int | None
    routings: NDArray[np.int32]
    witnesses: NDArray[np.float64]
    vertices: NDArray[np.float64]
    reason: str

    @property
    def proven(self) -> bool:
        """Whether the number of cells is proven."""
        return self.n_cells is not None

    def _state(self) -> dict[str, Any]:
        names = ("n_cells", "routings", "witnesses", "vertices", "reason")
        ends = {"low": self.domain.low.numbers, "high": self.domain.high.numbers}
        return {"network": self.network._state(), **ends, **{name: getattr(self, name) for name in names}}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        whole = dict(state)
        network = Network._from_state(whole.pop("network"))
        check_shapes(whole, {"routings": "n heads", "witnesses": "n 2", "vertices": "v 2"})
        return cls(network=network, domain=Box(whole.pop("low"), whole.pop("high")), **whole)

    def _summary(self) -> str:
        routings = f"{len(self.routings)} routings"
        if not self.proven:
            return f"{routings} seen, number of cells not proven: {self.reason}"
        return f"{self.n_cells} cells, {routings}, proven"

    def _table(self) -> dict[str, Any]:
        return {"routing": self.routings, "witness": self.witnesses}


class _NotProven(Exception):
    """Why a count is not proven."""


def normed_diagram(
    network: NetworkLike,
    domain: Box,
    *,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> NormedDiagram:
    """The cells of the first routing behind a norm, in a box of the plane, counted where that is proven.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or a saved network
        With two inputs, that begins with a norm and attention, after affine blocks at most
        (``network.restrict`` cuts a plane out of a larger one). What follows is ignored.
    domain : Box
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being computed, in words,
        and the seconds since it began.

    Returns
    -------
    NormedDiagram

    Examples
    --------
    The inside of a circle, and its outside.

    >>> import hardmax as hm
    >>> up = hm.Affine([[1, 0], [0, 1], [0, 0]], [0, 0, 1])
    >>> head = hm.Attention([[[0, 0, 1], [0, 0, 0]]], [[0, 1.5]], [[[0, 0, 0], [0, 0, 0]]])
    >>> net = hm.Network([up, hm.networks.RMSNorm([1, 1, 1], epsilon=0), head])
    >>> normed_diagram(net, hm.Box.cube(2, -1, 1)).n_cells
    2
    """
    network = as_network(network)
    found = normed_head(network)
    if found is None:
        raise InvalidInputError(
            "network must begin with a LayerNorm or RMSNorm and attention, after affine blocks at most, but "
            f"its blocks are {', '.join(type(block).__name__ for block in network.blocks)}."
        )
    if network.d != 2 or not isinstance(domain, Box) or domain.d != 2:
        raise UnsupportedDimensionError(
            f"normed_diagram needs two inputs and a Box of the plane, but the network takes {network.d}; "
            "try network.restrict(origin, directions) with two directions."
        )
    clock = Clock(time_limit, "sweep over the box")
    first = network.truncate(len(found[0]) + 2)
    n_cells, reason, sweep = None, "", None
    before = flint.ctx.prec
    try:
        flint.ctx.prec = _BITS
        with watched(progress, clock):
            for slant in _SLANTS:
                sweep = _Sweep(first, found, domain, slant)
                try:
                    n_cells, reason = sweep.count(), ""
                    break
                except _NotProven as problem:
                    reason = str(problem)
    finally:
        flint.ctx.prec = before
    assert sweep is not None
    seen = sorted(sweep.seen.items())
    return NormedDiagram(
        network=first,
        domain=domain,
        n_cells=n_cells,
        routings=np.array([key for key, _ in seen], dtype=np.int32).reshape(len(seen), first.heads_total),
        witnesses=np.array([point for _, point in seen], dtype=np.float64).reshape(len(seen), 2),
        vertices=np.array(sweep.vertices, dtype=np.float64).reshape(-1, 2),
        reason=reason,
    )


class _Wall(NamedTuple):
    """The function l(x) + c rho(x), as (l1, l2, l0) and c, that decides between two keys of a head."""

    head: int
    old: int
    new: int
    line: tuple[Any, Any, Any]
    c: Any


class _Point(NamedTuple):
    """A critical point: where it is, and where the line is that sweeps over it."""

    place: Any
    x: Any
    y: Any
    vertex: bool


class _Sweep:
    def __init__(self, network: Network, found: Any, box: Box, slant: Fraction) -> None:
        self.network, self.slant = network, slant
        self.low, self.high = fractions_of(box.low), fractions_of(box.high)
        self.seen: dict[tuple[int, ...], tuple[float, float]] = {}
        self.vertices: list[tuple[float, float]] = []
        affine, norm, head = found
        a, o = np.array([[Fraction(i == j) for j in range(2)] for i in range(2)], dtype=object), None
        o = np.array([Fraction(0)] * 2, dtype=object)
        for block in affine:
            w, b = fractions_of(block.w), fractions_of(block.b)
            a, o = w.dot(a), w.dot(o) + b
        slopes, constants = normed_scores(norm, head)
        lines, shifts = slopes.dot(a), slopes.dot(o)  # (H, K, 2), (H, K)
        self.scores = [
            {
                j: ((*lines[h, j], shifts[h, j]), constants[h, j])
                for j in np.flatnonzero(head.mask[h]).tolist()
            }
            for h in range(head.heads)
        ]
        if norm.centred:
            a, o = a - a.mean(axis=0), o - o.mean()
        d = norm.d_in
        self.square = (
            (a[:, 0] ** 2).sum() / d,
            2 * (a[:, 0] * a[:, 1]).sum() / d,
            (a[:, 1] ** 2).sum() / d,
            2 * (a[:, 0] * o).sum() / d,
            2 * (a[:, 1] * o).sum() / d,
            (o**2).sum() / d + fractions_of(norm.epsilon)[0],
        )

    # Critical points
    # ------------------------------------------------------------------------------------------------------

    def _q(self, x: Any, y: Any) -> Any:
        xx, xy, yy, bx, by, c = self.square
        return xx * x * x + xy * x * y + yy * y * y + bx * x + by * y + c

    def _walls(self) -> list[_Wall]:
        walls = []
        for h, scores in enumerate(self.scores):
            look()
            for i, j in combinations(scores, 2):
                (a, c), (b, e) = scores[i], scores[j]
                line = tuple(p - q for p, q in zip(a, b, strict=True))
                if any(line) or c != e:  # equal keys never part
                    walls.append(_Wall(h, i, j, line, c - e))
        return walls

    def _on_line(self, wall: _Wall, line: tuple[Any, Any, Any]) -> Iterator[tuple[Any, Any]]:
        """Where a wall meets the line l1 x + l2 y + l0 = 0."""
        p, q, r = line
        if p == 0 and q == 0:
            if r == 0:
                raise _NotProven("two walls coincide")
            return
        size = p * p + q * q
        x0, y0, dx, dy = -p * r / size, -q * r / size, -q, p
        l1, l0 = wall.line[0] * dx + wall.line[1] * dy, wall.line[0] * x0 + wall.line[1] * y0 + wall.line[2]
        xx, xy, yy, bx, by, _ = self.square
        q2 = xx * dx * dx + xy * dx * dy + yy * dy * dy
        q1 = 2 * xx * x0 * dx + xy * (x0 * dy + y0 * dx) + 2 * yy * y0 * dy + bx * dx + by * dy
        q0, cc = self._q(x0, y0), wall.c * wall.c
        for t in _quadratic(l1 * l1 - cc * q2, 2 * l0 * l1 - cc * q1, l0 * l0 - cc * q0):
            value = _arb(l0) + _arb(l1) * t
            if wall.c == 0 or not (value * _arb(wall.c) > 0):  # l and c rho have opposite signs
                yield _arb(x0) + _arb(dx) * t, _arb(y0) + _arb(dy) * t

    def _points(self) -> list[_Point]:
        walls = self._walls()
        found: list[_Point] = []
        (l1, l2), (h1, h2) = self.low, self.high
        for x, y in ((l1, l2), (l1, h2), (h1, l2), (h1, h2)):
            found.append(_Point(_arb(x + self.slant * y), _arb(x), _arb(y), False))
        by_head: dict[int, list[_Wall]] = {}
        for wall in walls:
            by_head.setdefault(wall.head, []).append(wall)
        for wall in walls:
            p, q, _ = wall.line
            along = (
                q - self.slant * p
            )  # the slope of l along the sweeping line, whose direction is (-slant, 1)
            if wall.c == 0:
                if along == 0:
                    raise _NotProven("a straight wall is parallel to the sweeping line")
            else:
                xx, xy, yy, bx, by, _ = self.square
                s, cc = self.slant, wall.c * wall.c
                tangent = (
                    -2 * along * p + cc * (xy - 2 * s * xx),
                    -2 * along * q + cc * (2 * yy - s * xy),
                    -2 * along * wall.line[2] + cc * (by - s * bx),
                )
                if any(tangent):
                    self._add(found, wall, tangent, [wall], vertex=False)
            for side in ((1, 0, -l1), (1, 0, -h1), (0, 1, -l2), (0, 1, -h2)):
                self._add(found, wall, side, [wall], vertex=False)
        for same in by_head.values():
            for first, second in combinations(same, 2):
                if first.old == second.old:  # three keys of a head: i with j, and i with k
                    self._meet(found, first, second)
        for a, b in combinations(by_head.values(), 2):
            for first in a:
                for second in b:
                    self._meet(found, first, second)
        return found

    def _meet(self, found: list[_Point], first: _Wall, second: _Wall) -> None:
        line = tuple(second.c * p - first.c * q for p, q in zip(first.line, second.line, strict=True))
        if first.c == 0 and second.c == 0:
            line = first.line
            first = second
        elif first.c == 0:
            first, second = second, first
        self._add(found, first, line, [first, second], vertex=True)

    def _add(self, found: list[_Point], wall: _Wall, line: Any, walls: list[_Wall], *, vertex: bool) -> None:
        look()
        for x, y in self._on_line(wall, line):
            if self._outside(x, y) or self._idle(x, y, walls):
                continue
            found.append(_Point(x + _arb(self.slant) * y, x, y, vertex))

    def _outside(self, x: Any, y: Any) -> bool:
        (l1, l2), (h1, h2) = ([_arb(v) for v in end] for end in (self.low, self.high))
        return bool(x < l1 or x > h1 or y < l2 or y > h2)

    def _idle(self, x: Any, y: Any, walls: list[_Wall]) -> bool:
        """Whether some other key is surely ahead at a point of walls."""
        root = _above_zero(_evaluated(self.square, x, y)).sqrt()
        for wall in walls:
            scores = self.scores[wall.head]
            values = {j: _linear(line, x, y) + _arb(c) * root for j, (line, c) in scores.items()}
            if any(value > values[wall.old] for value in values.values()):
                return True
        return False

    # Sequences along the sweeping line
    # ------------------------------------------------------------------------------------------------------

    def _span(self, place: Fraction) -> tuple[Fraction, Fraction]:
        """The second coordinates of the part of the line x + slant y = place inside the box."""
        (l1, l2), (h1, h2) = self.low, self.high
        ends = sorted(((place - l1) / self.slant, (place - h1) / self.slant))
        return max(l2, ends[0]), min(h2, ends[1])

    def _trace(self, start: tuple[Fraction, Fraction], end: tuple[Fraction, Fraction]) -> CertifiedTrace:
        points = [as_exact(list(point), "point", ndim=1) for point in (start, end)]
        trace = certified_trace(self.network, *points)
        if trace.n_unseparated or not trace.complete or not trace.n_pieces:
            raise _NotProven("changes along a line could not be separated")
        for key, middle in zip(trace.routings.tolist(), trace.pieces.mean(axis=1), strict=True):
            self.seen.setdefault(tuple(key), tuple(trace.point(float(middle)).tolist()))
        return trace

    def _column(self, place: Fraction) -> tuple[list[tuple[int, ...]], list[tuple[Fraction, Fraction]]]:
        """The routings along the line at a place, and the brackets between them in the second coordinate."""
        bottom, top = self._span(place)
        ends = [(place - self.slant * y, y) for y in (bottom, top)]
        trace = self._trace(*ends)
        brackets = [
            (bottom + Fraction(low) * (top - bottom), bottom + Fraction(high) * (top - bottom))
            for low, high in trace.brackets.tolist()
        ]
        return [tuple(row) for row in trace.routings.tolist()], brackets

    def count(self) -> int:
        """The number of cells."""
        if not self._clear():
            raise _NotProven("the norm may vanish in the box")
        points = sorted(self._points(), key=lambda point: float(point.place.mid()))
        self.vertices = [(float(p.x.mid()), float(p.y.mid())) for p in points if p.vertex]
        for before, behind in pairwise(points):
            if not before.place < behind.place:
                raise _NotProven("two critical points could not be separated")
        parent: list[int] = []

        def root(i: int) -> int:
            while parent[i] != i:
                i = parent[i]
            return i

        def new() -> int:
            parent.append(len(parent))
            return len(parent) - 1

        column: list[tuple[int, tuple[int, ...]]] = []
        for i, point in enumerate(points[:-1]):
            gap = _fraction(points[i + 1].place.lower()) - _fraction(point.place.upper())
            look(f"{i:,} of {len(points):,} critical points")
            if i == 0:
                first, _ = self._column(_fraction(point.place.upper()) + gap / 2)
                column = [(new(), key) for key in first]
                continue
            back = _fraction(point.place.lower()) - _fraction(points[i - 1].place.upper())
            left, right, below, above = self._passed(point, min(gap, back))
            if left != [key for _, key in column]:
                raise _NotProven("the order of cells changed between critical points")
            after = [(new(), key) for key in right]
            pairs = [(k, k) for k in range(below)]
            pairs += [(len(left) - 1 - k, len(right) - 1 - k) for k in range(above)]
            for p, q in pairs:
                parent[root(after[q][0])] = root(column[p][0])
            column = after
        return len({root(i) for i in range(len(parent))})

    def _passed(self, point: _Point, gap: Fraction) -> tuple[list[Any], list[Any], int, int]:
        """The sequences before and behind a critical point, and how many cells pass below and above it."""
        y = _fraction(point.y.mid())
        y = Fraction(round(y * 2**80), 2**80)
        step = gap / 64
        for _ in range(14):
            places = _fraction(point.place.lower()) - step, _fraction(point.place.upper()) + step
            places = _rounded(places[0], step), _rounded(places[1], step)
            spans = [self._span(place) for place in places]
            window = Fraction(float(step) ** (1 / 3)) / 2
            try:
                (left, before), (right, behind) = (self._column(place) for place in places)
            except _NotProven:
                step /= 16
                continue
            sides = []
            for edge, outer in ((y - window, -1), (y + window, 1)):
                inside = all(low < edge < high for low, high in spans)
                if not inside:  # the window reaches the end of the line
                    sides.append(0)
                    continue
                counts = [_beyond(brackets, edge, outer) for brackets in (before, behind)]
                rail = [(place - self.slant * edge, edge) for place in places]
                if None in counts or counts[0] != counts[1] or self._trace(*rail).n_pieces != 1:
                    break
                assert counts[0] is not None
                sides.append(counts[0] + 1)
            if len(sides) == 2 and _matching(left, right, *sides):
                return left, right, sides[0], sides[1]
            step /= 16
        raise _NotProven("what happens at a critical point could not be settled")

    def _clear(self) -> bool:
        """Whether the square under the root is positive all over the box: by its least value in the plane."""
        xx, xy, yy, bx, by, c = self.square
        det = 4 * xx * yy - xy * xy
        if det > 0:
            x, y = (xy * by - 2 * yy * bx) / det, (xy * bx - 2 * xx * by) / det
            if self._q(x, y) > 0:
                return True
            (l1, l2), (h1, h2) = self.low, self.high
            return not (l1 <= x <= h1 and l2 <= y <= h2)
        # along one direction only: the square is a square of a line plus a constant
        if xx == 0 and yy == 0:
            return bool(c > 0)
        least = c - (bx * bx / (4 * xx) if xx else by * by / (4 * yy))
        return bool(least > 0)


def _matching(left: list[Any], right: list[Any], below: int, above: int) -> bool:
    """Whether the cells that pass are the same, and no cell between them is on both sides."""
    if below > min(len(left), len(right)) or above > min(len(left), len(right)):
        return False
    if left[:below] != right[:below] or (above and left[-above:] != right[-above:]):
        return False
    inner = [set(row[below : len(row) - above]) for row in (left, right)]
    return not inner[0] & inner[1]


def _beyond(brackets: list[tuple[Fraction, Fraction]], edge: Fraction, side: int) -> int | None:
    """How many brackets lie on one side of a place; ``None`` if it lies inside one."""
    if any(low <= edge <= high for low, high in brackets):
        return None
    return sum((high < edge) if side < 0 else (low > edge) for low, high in brackets)


def _rounded(place: Fraction, step: Fraction) -> Fraction:
    """A place with few digits, near on the scale of a step."""
    digits = 1 << (max(1, int(1 / step)).bit_length() + 8)
    return Fraction(round(place * digits), digits)


def _quadratic(a: Fraction, b: Fraction, c: Fraction) -> list[Any]:
    """The real roots of a t^2 + b t + c as balls."""
    if a == 0:
        if b == 0:
            if c == 0:
                raise _NotProven("a wall contains a line")
            return []
        return [_arb(-c / b)]
    under = b * b - 4 * a * c
    if under < 0:
        return []
    if under == 0:
        return [_arb(-b / (2 * a))]
    root = _arb(under).sqrt()
    return [(-_arb(b) + sign * root) / _arb(2 * a) for sign in (-1, 1)]


def _arb(value: Any) -> flint.arb:
    return flint.arb(rational(Fraction(value)))


def _linear(line: tuple[Any, Any, Any], x: Any, y: Any) -> Any:
    return _arb(line[0]) * x + _arb(line[1]) * y + _arb(line[2])


def _evaluated(square: tuple[Any, ...], x: Any, y: Any) -> Any:
    xx, xy, yy, bx, by, c = (_arb(value) for value in square)
    return xx * x * x + xy * x * y + yy * y * y + bx * x + by * y + c


def _above_zero(value: flint.arb) -> flint.arb:
    return value.nonnegative_part() if not value > 0 else value


def _fraction(value: flint.arb) -> Fraction:
    mantissa, exponent = value.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
