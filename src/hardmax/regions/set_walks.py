"""The first list of sets of keys: those that a walk through cells meets.

Inside a convex cell on which scores are affine, the sets that win are connected through their common walls:
one step leads from a set to one with a key exchanged (for sparsemax, one key more or fewer). So a walk from
one of them meets all, up to rounding (:mod:`hardmax.regions.set_walk_kernels`).
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from hardmax.regions import set_walk_kernels as kernels
from hardmax.regions.cells import Cells

Floats = NDArray[np.float64]
_FAR = 2.0**24  # how far vertices at infinity are taken to be, in units of the others


def walked_sets(k: int, tau: float, rows: Floats, prefix: NDArray[np.int64], cells: Cells) -> list[list[int]]:
    """The sets that win in cells: of k keys, or for k = 0 the supports of sparsemax at temperature ``tau``.

    ``rows`` (P, N, D) are scores as maps, the constant last, and ``prefix`` says which is that of a cell.
    """
    offsets, rays, masks = cones(cells)
    n, D = rows.shape[1:]
    # in units of the largest number: a walk compares with constants, and must not meet the ends of the floats
    power = -int(np.frexp(max(tau, np.abs(rows).max(initial=0.0)))[1])
    tau, columns = float(np.ldexp(tau, power)), np.ascontiguousarray(np.ldexp(rows, power).transpose(0, 2, 1))
    found = kernels.found_sets(1024, -(-n // 64))
    cone = kernels.cone_room(64 + int(np.diff(offsets).max(initial=0)), D, masks.shape[1] + 1)
    status, i = kernels.DONE, 0
    while i < cells.n:
        status, i = kernels.walk(k, tau, columns, prefix, offsets, rays, masks, i, cells.n, found, cone)
        if status == kernels.SETS_FULL:
            sets, wins = found.sets[: found.n[0]], found.wins
            found = kernels.found_sets(4 * len(found.sets), found.sets.shape[1])
            kernels.enter_all(found, sets, wins)
        elif status == kernels.RAYS_FULL:
            cone = kernels.cone_room(2 * len(cone.rays), D, cone.masks.shape[1])
        elif status == kernels.FACETS_FULL:
            cone = kernels.cone_room(len(cone.rays), D, cone.masks.shape[1] + 1)
    sets = found.sets[: found.n[0]][found.wins[: found.n[0]]]
    members = np.unpackbits(sets.view(np.uint8), axis=1, count=n, bitorder="little")
    numbers = np.nonzero(members)[1].tolist()
    ends = [0, *np.cumsum(members.sum(axis=1)).tolist()]
    return [numbers[start:stop] for start, stop in pairwise(ends)]


def cones(cells: Cells) -> tuple[NDArray[np.int64], Floats, NDArray[np.uint64]]:
    """Where the rays of each cell begin, the rays, and on which facets they lie, as words of bits.

    Vertices at infinity are taken to be far away, and the whole space is a large cube. Other cells that
    contain lines get a small simplex around their witness.
    """
    content, offsets = cells.vertices.content, np.asarray(cells.vertices.offsets, dtype=np.int64)
    if cells.kind == "polyhedra":
        rays, masks = content[:, :-1], cells.masks.content
        if cells.n == 1 and cells.free[0] and not len(cells.owner):
            signs = np.array(list(product((-1.0, 1.0), repeat=cells.d)))
            rays = np.column_stack([signs, np.full(len(signs), 1.0 / _FAR)])
            on = (signs > 0) + 2 * np.arange(cells.d)
            masks = np.bitwise_or.reduce(np.uint64(1) << on.astype(np.uint64), axis=1, keepdims=True)
            offsets = np.array([0, len(rays)])
        elif cells.free.any():
            return _around_witnesses(cells)
    else:
        counts, d = np.diff(offsets), cells.d
        rays = np.ones((len(content), d + 1))
        rays[:, :d] = content[:, :d]
        if cells.kind == "intervals":
            far = ~np.isfinite(content[:, 0])
            size = 1.0 + np.abs(content[~far, 0]).max(initial=0.0)
            rays[far, 0] = np.sign(content[far, 0]) * _FAR * size
        elif cells.unbounded:
            size = _FAR * (1.0 + np.abs(content[:, :2]).max(initial=0.0))
            rays[:, :2] += size * content[:, 3:5]
        place = np.arange(len(content)) - np.repeat(offsets[:-1], counts)
        before = np.where(place > 0, place, np.repeat(counts, counts)) - 1
        masks = np.zeros((len(content), -(-int(counts.max(initial=1)) // 64)), dtype=np.uint64)
        each = np.arange(len(content))
        if cells.kind == "polygons":
            masks[each, before >> 6] |= np.uint64(1) << (before & 63).astype(np.uint64)
        masks[each, place >> 6] |= np.uint64(1) << (place & 63).astype(np.uint64)
    rays = np.ascontiguousarray(rays / np.abs(rays).max(axis=1, keepdims=True, initial=1e-300))
    return offsets, rays, np.ascontiguousarray(masks)


def _around_witnesses(cells: Cells) -> tuple[NDArray[np.int64], Floats, NDArray[np.uint64]]:
    """A simplex around the witness of each cell, inside it where its margin says so."""
    d = cells.d
    corners = np.vstack([np.eye(d), -np.ones(d)])
    points = cells.witnesses[:, None] + (0.5 / d * np.minimum(cells.margins, 1.0))[:, None, None] * corners
    rays = np.concatenate([points, np.ones((cells.n, d + 1, 1))], axis=2).reshape(-1, d + 1)
    every = (np.uint64(1) << np.uint64(d + 1)) - np.uint64(1)
    masks = np.tile(every ^ (np.uint64(1) << np.arange(d + 1, dtype=np.uint64)), cells.n)[:, None]
    rays /= np.abs(rays).max(axis=1, keepdims=True)
    return np.arange(cells.n + 1) * (d + 1), np.ascontiguousarray(rays), np.ascontiguousarray(masks)
