"""Storage for cones: many cells in flat arrays, and the working space of the compiled kernel."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import ARTIFICIAL, FULL, INEXACT, Cone, Scratch, Store

__all__ = ["Cells", "Workspace"]

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
