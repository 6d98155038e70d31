r"""The rational half of the splitting kernel: the same cuts, decided without rounding.

A :class:`RationalCone` is the double description of a cone: its extreme rays as primitive integer vectors, a
basis of the lines it contains, and for each ray the set of facets it lies on. It takes over where the
compiled kernel cannot prove a sign, and it is the whole engine when ``arithmetic="exact"``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import flint

from hardmax.geometry.cones.splitting_kernels import CUTS, EMPTIES, MISSES, TOUCHES

__all__ = ["RationalCone", "integer_row"]

Label = tuple[int, int]


def integer_row(row: list[flint.fmpq]) -> list[int]:
    """The primitive integer vector on the same ray as a rational vector.

    >>> integer_row([flint.fmpq(1, 2), flint.fmpq(-1, 3)])
    [3, -2]
    """
    denominator = 1
    for value in row:
        denominator = denominator * int(value.q) // gcd(denominator, int(value.q))
    return _primitive([int(value.p) * (denominator // int(value.q)) for value in row])


def _primitive(vector: list[int]) -> list[int]:
    divisor = gcd(*vector)
    return [value // divisor for value in vector] if divisor > 1 else vector


def _dot(a: list[int], b: list[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _combine(alpha: int, u: list[int], beta: int, v: list[int]) -> list[int]:
    return _primitive([alpha * x + beta * y for x, y in zip(u, v, strict=True)])


@dataclass
class RationalCone:
    """A polyhedral cone under construction, starting as the whole space.

    Examples
    --------
    >>> cone = RationalCone(2)
    >>> cone.cut([1, 0], (0, 1)) == CUTS, cone.cut([1, 1], (0, 2)) == CUTS, cone.cut([2, 1], (0, 3)) == MISSES
    (True, True, True)
    >>> sorted(cone.rays)
    [[0, 1], [1, -1]]
    """

    dimension: int
    lines: list[list[int]] = field(default_factory=list)
    rays: list[list[int]] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    facets: list[tuple[list[int], Label]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.lines and not self.rays and not self.facets:
            self.lines = [[int(i == k) for k in range(self.dimension)] for i in range(self.dimension)]

    def copy(self) -> RationalCone:
        """A cone that can be cut without changing this one."""
        return RationalCone(
            self.dimension, list(self.lines), list(self.rays), list(self.masks), list(self.facets)
        )

    def cut(self, normal: list[int], label: Label) -> int:
        """Intersect with ``normal .

        y >= 0``; returns MISSES, TOUCHES, CUTS or EMPTIES as the compiled kernel does.
        """
        bit = 1 << len(self.facets)
        for i, line in enumerate(self.lines):
            value = _dot(normal, line)
            if value:
                self._cut_line(i, normal, value, label, bit)
                return CUTS
        values = [_dot(normal, ray) for ray in self.rays]
        if not any(value > 0 for value in values):
            return EMPTIES
        zeros = sum(value == 0 for value in values)
        if not any(value < 0 for value in values):
            if zeros or self.dimension - len(self.lines) == 1:
                self.facets.append((normal, label))
                self.masks = [
                    m | bit if value == 0 else m for m, value in zip(self.masks, values, strict=True)
                ]
                return TOUCHES
            return MISSES
        self._cut_rays(values, bit)
        self.facets.append((normal, label))
        return CUTS

    def _cut_line(self, i: int, normal: list[int], value: int, label: Label, bit: int) -> None:
        line = self.lines.pop(i)
        if value < 0:
            line, value = [-x for x in line], -value
        self.lines = [_combine(value, other, -_dot(normal, other), line) for other in self.lines]
        self.rays = [_combine(value, ray, -_dot(normal, ray), line) for ray in self.rays]
        self.masks = [m | bit for m in self.masks]
        self.rays.append(line)
        self.masks.append(bit - 1)
        self.facets.append((normal, label))

    def _cut_rays(self, values: list[int], bit: int) -> None:
        positive = [i for i, value in enumerate(values) if value > 0]
        negative = [i for i, value in enumerate(values) if value < 0]
        needed = self.dimension - len(self.lines) - 2
        rays = [ray for ray, value in zip(self.rays, values, strict=True) if value >= 0]
        masks = [
            m | bit if value == 0 else m for m, value in zip(self.masks, values, strict=True) if value >= 0
        ]
        for p in positive:
            for q in negative:
                common = self.masks[p] & self.masks[q]
                if common.bit_count() < needed:
                    continue
                if any(common & ~m == 0 for i, m in enumerate(self.masks) if i != p and i != q):
                    continue
                rays.append(_combine(values[p], self.rays[q], -values[q], self.rays[p]))
                masks.append(common | bit)
        self.rays, self.masks = rays, masks

    def touching(self) -> list[int]:
        """The facets (numbers in ``facets``) that the cone still touches outside its lines."""
        if self.dimension - len(self.lines) == 1:
            return list(range(len(self.facets)))
        alive = 0
        for m in self.masks:
            alive |= m
        return [s for s in range(len(self.facets)) if alive >> s & 1]

    def interior_point(self) -> list[int]:
        """A sum of the extreme rays, moved along the lines: a point in the interior of a full-dimensional
        cone.
        """
        point = [sum(ray[c] for ray in self.rays) for c in range(self.dimension)]
        for i, line in enumerate(self.lines):
            point = [p + (2 * i + 3) ** 2 * v for p, v in zip(point, line, strict=True)]
        return point

    def pointed_form(self) -> tuple[int, list[list[int]]]:
        """Free coordinates (as a bit set) that cut the lines away, and the rays moved into their coordinate
        subspace.
        """
        if not self.lines:
            return 0, self.rays
        basis, rank = flint.fmpq_mat([[flint.fmpq(x) for x in line] for line in self.lines]).rref()
        free, pivots = 0, []
        for i in range(rank):
            pivot = next(c for c in range(self.dimension) if basis[i, c] != 0)
            pivots.append(pivot)
            free |= 1 << pivot
        rays = []
        for ray in self.rays:
            moved = [flint.fmpq(x) for x in ray]
            for i, pivot in enumerate(pivots):
                shift = moved[pivot]
                moved = [x - shift * basis[i, c] for c, x in enumerate(moved)]
            rays.append(integer_row(moved))
        return free, rays
