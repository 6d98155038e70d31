r"""The rational half of the splitting kernel: exact cuts, storage of cones, and proofs of witnesses.

A :class:`RationalCone` is the double description of a cone: its extreme rays as primitive integer vectors, a
basis of the lines it contains, and for each ray the set of facets it lies on. It takes over where the
compiled kernel cannot prove a sign, and it is the whole engine when ``arithmetic="exact"``. :class:`Cells`
keeps many cones in flat arrays for the compiled kernel, rational ones rounded with error bounds;
:func:`surely_inside` and :func:`is_inside` prove that a float point is inside the cell that it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import or_

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import dot, pivots, rational
from hardmax.geometry.cones.splitting_kernels import (
    ARTIFICIAL,
    CUTS,
    EMPTIES,
    FULL,
    INEXACT,
    MISSES,
    TOUCHES,
    Cone,
    Scratch,
    Store,
    certify,
)
from hardmax.geometry.domains import Domain
from hardmax.geometry.scores import Scores

Label = tuple[int, int]


def integer_row(row: list[flint.fmpq]) -> list[int]:
    """The primitive integer vector on the same ray as a rational vector.

    >>> integer_row([flint.fmpq(1, 2), flint.fmpq(-1, 3)])
    [3, -2]
    """
    denominator = math.lcm(*(int(value.q) for value in row))
    return _primitive([int(value.p) * (denominator // int(value.q)) for value in row])


def _primitive(vector: list[int]) -> list[int]:
    divisor = math.gcd(*vector)
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
        """Intersect with ``normal . y >= 0``; returns MISSES, TOUCHES, CUTS or EMPTIES as the kernel does."""
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
        alive = reduce(or_, self.masks, 0)
        return [s for s in range(len(self.facets)) if alive >> s & 1]

    def interior_point(self) -> list[int]:
        """A sum of the extreme rays, moved along the lines: in the interior of a full-dimensional cone."""
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
        columns = pivots(basis, rank)
        free = sum(1 << pivot for pivot in columns)
        rays = []
        for ray in self.rays:
            moved = [flint.fmpq(x) for x in ray]
            for i, pivot in enumerate(columns):
                shift = moved[pivot]
                moved = [x - shift * basis[i, c] for c, x in enumerate(moved)]
            rays.append(integer_row(moved))
        return free, rays


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TABLE_KEYS = 1024  # heads with more keys have short lists of neighbours and need no table of scores


class Cells:
    """A growing list of cones of one dimension, with the keys that were chosen on the way to each.

    ``counts`` = [cells, rays, facets, parked keys, last winner, next parent, stamp] is shared with the
    compiled kernel.
    """

    def __init__(self, D: int, words: int, cells: int, rays: int, facets: int) -> None:
        self.D = D
        self.counts = np.zeros(7, dtype=np.int64)
        self.choices: Integers = np.empty((0, 0), dtype=np.int64)
        self.store = Store(
            parent=np.empty(cells, dtype=np.int64),
            key=np.empty(cells, dtype=np.int64),
            free=np.empty(cells, dtype=np.int64),
            ray_start=np.zeros(cells + 1, dtype=np.int64),
            rays=np.empty((rays, D + 2)),
            mask=np.empty((rays, words), dtype=np.uint64),
            facet_start=np.zeros(cells + 1, dtype=np.int64),
            facets=np.empty((facets, D + 2)),
            label=np.empty((facets, 2), dtype=np.int64),
        )

    @property
    def n(self) -> int:
        """The number of cells."""
        return int(self.counts[0])

    @property
    def words(self) -> int:
        """How many 64-bit words a set of facet slots takes."""
        return int(self.store.mask.shape[1])

    def grow(self) -> None:
        """Twice the room."""
        grown = [np.empty((2 * len(array), *array.shape[1:]), dtype=array.dtype) for array in self.store]
        for new, old, size in zip(grown, self.store, self._sizes(), strict=True):
            new[:size] = old[:size]
        self.store = Store._make(grown)

    def widen(self, words: int) -> None:
        """Room for 64 * words facet slots per ray."""
        missing = words - self.words
        if missing > 0:
            zeros = np.zeros((len(self.store.mask), missing), dtype=np.uint64)
            self.store = self.store._replace(mask=np.concatenate([self.store.mask, zeros], axis=1))

    def trim(self) -> None:
        """Show only what is filled. Untouched pages of large arrays cost nothing, so nothing is copied."""
        self.store = Store._make(array[:size] for array, size in zip(self.store, self._sizes(), strict=True))

    def _sizes(self) -> list[int]:
        """How much of each array of the store is filled, in the order of its fields."""
        n, rays, facets = (int(count) for count in self.counts[:3])
        return [n, n, n, n + 1, rays, rays, n + 1, facets, facets]

    def append(self, cone: RationalCone, parent: int, key: int) -> None:
        """Store a rational cone, rounded, with the error bounds that rounding earns."""
        free, rays = cone.pointed_form()
        keep = cone.touching()
        counts = self.counts
        while (
            counts[0] >= len(self.store.key)
            or counts[1] + len(rays) > len(self.store.rays)
            or counts[2] + len(keep) > len(self.store.facets)
        ):
            self.grow()
        self.widen(-(-(self.D + len(keep)) // 64))
        store = self.store
        for ray, m in zip(rays, cone.masks, strict=True):
            g = counts[1]
            store.rays[g] = _rounded(ray, max(map(abs, ray)).bit_length())
            slots = free
            for k, s in enumerate(keep):
                slots |= (m >> s & 1) << (self.D + k)
            for w in range(self.words):
                store.mask[g, w] = np.uint64(slots >> (64 * w) & (2**64 - 1))
            counts[1] += 1
        for s in keep:
            g = counts[2]
            row, store.label[g] = cone.facets[s]
            store.facets[g] = _rounded(row, (sum(map(abs, row)) - 1).bit_length())
            counts[2] += 1
        cell = counts[0]
        store.parent[cell], store.key[cell], store.free[cell] = parent, key, free
        counts[0] += 1
        store.ray_start[cell + 1], store.facet_start[cell + 1] = counts[1], counts[2]


class Workspace:
    """Room for one working cone; doubles when a cone does not fit."""

    def __init__(self, D: int, n_keys: int) -> None:
        self.D, self.n_keys = D, n_keys
        self._allocate(words=1, capacity=64)

    def _allocate(self, words: int, capacity: int) -> None:
        D, slots = self.D, 64 * words
        self.words, self.capacity = words, capacity
        facets, label = np.zeros((slots, D + 2)), np.full((slots, 2), ARTIFICIAL, dtype=np.int64)
        facets[:D, :D] = np.eye(D)
        self.cone = Cone(
            state=np.zeros(2, dtype=np.int64),
            rays=np.empty((capacity, D + 2)),
            mask=np.zeros((capacity, words), dtype=np.uint64),
            used=np.zeros(words, dtype=np.uint64),
            facets=facets,
            label=label,
        )
        self.cone.used[0] = np.uint64((1 << D) - 1)
        self.scratch = Scratch(
            sign=np.empty(capacity, dtype=np.int64),
            order=np.empty(capacity, dtype=np.int64),
            shared_with=np.empty(capacity, dtype=np.int64),
            rays=np.empty((capacity, D + 2)),
            mask=np.zeros((capacity, words), dtype=np.uint64),
            pick=np.empty(max(D, 2), dtype=np.int64),
            pool=np.empty(slots, dtype=np.int64),
            minors=np.empty(1 << D),
            residual=np.empty((slots, D)),
            vector=np.empty(D),
            table=np.empty((capacity if self.n_keys <= _TABLE_KEYS else 0, self.n_keys)),
            slack=np.empty(capacity),
            queue=np.empty(self.n_keys + 1, dtype=np.int64),
            walls=np.empty(self.n_keys + 1, dtype=np.int64),
            depth=np.empty(self.n_keys + 1),
            depth_of=np.empty(self.n_keys),
        )

    def widen(self, words: int) -> None:
        """Room for 64 * words facet slots."""
        if words > self.words:
            self._allocate(words, self.capacity)

    def make_room(self, status: int, parents: Cells, out: Cells) -> None:
        """Answer FULL (the output) or OVERFLOWS (the working cone) with twice the room."""
        if status == FULL:
            out.grow()
            return
        words = self.words * 2 if self.capacity >= 128 * self.words else self.words
        self._allocate(words, 2 * self.capacity)
        parents.widen(words)
        out.widen(words)


def _rounded(row: list[int], length: int) -> list[float]:
    """An integer vector divided by 2^length as floats, then the bound on their error and their bits."""
    if length <= 53:
        return [*(math.ldexp(v, -length) for v in row), 0.0, length]
    return [*(float(Fraction(v, 2**length)) for v in row), 2.0**-52, INEXACT]


Rivals = tuple[Integers, Integers]


def surely_inside(
    families: list[Scores],
    domain: Domain,
    choices: Integers,
    points: Floats,
    rivals: list[Rivals | None] | None = None,
) -> NDArray[np.bool_]:
    """Which float points provably win every head strictly with the chosen keys, strictly inside the domain.

    Parameters
    ----------
    choices : (n, H) int64
        The chosen key of each head, the lowest index of its group of identical scores.
    points : (n, d) float64
    rivals : list of (start, keys), optional
        Per head the keys that suffice as rivals of each point, ``keys[start[i] : start[i + 1]]``; all keys by
        default.
    """
    shown = np.asarray(np.isfinite(points).all(axis=1))
    safe = np.where(shown[:, None], points, 0.0)
    for h, family in enumerate(families):
        index = np.unique(family.tie_group)
        start, keys = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
        limited = None if rivals is None else rivals[h]
        if limited is not None:
            start, keys = limited[0], np.searchsorted(index, limited[1])
        slopes, offsets = family.slopes[index], family.offsets[index]
        with np.errstate(over="ignore"):  # an infinite size shows nothing
            sizes = np.abs(slopes).sum(axis=1) + np.abs(offsets)
        own = np.searchsorted(index, choices[:, h])
        certify(
            np.ascontiguousarray(slopes.T), offsets, sizes, family.row_error[index],
            own, safe, start, keys, np.empty(len(index)), shown,
        )  # fmt: skip
    a, b = domain.halfspaces()
    with np.errstate(over="ignore", invalid="ignore"):  # as above
        size = np.abs(safe) @ np.abs(a).T + np.abs(b)
        room = b - safe @ a.T
        return np.asarray(shown & (room > 4 * (a.shape[1] + 3) * 2.0**-53 * size).all(axis=1))


def is_inside(
    families: list[Scores], domain: Domain, choice: Integers, point: Iterable[float | Fraction]
) -> bool:
    """Whether one point lies strictly inside a cell, decided in rationals."""
    values = list(point)
    if not all(isinstance(v, Fraction) or math.isfinite(v) for v in values):
        return False
    x = [rational(v) for v in values] + [flint.fmpq(1)]
    for family, j in zip(families, choice.tolist(), strict=True):
        own = dot(family.exact_row(j), x)
        if any(dot(family.exact_row(l), x) >= own for l in range(family.n_keys) if family.tie_group[l] != j):
            return False
    a, b = domain.a, domain.b
    return all(dot(a.rational_row(i), x[:-1]) < b.rational(i) for i in range(b.shape[0]))
