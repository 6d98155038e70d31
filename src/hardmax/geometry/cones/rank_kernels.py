r"""The compiled half of the order-k walk: the cone on which one score is the k-th largest.

A *rank piece* is the set of inputs at which given keys are above key j and all others below it. Its
inequalities compare every key with j alone, so it is cut out by N - 1 walls through one lifted key, as the
cell of a key is, with the walls of the keys above turned round. Keys in general position have simple pieces,
although the cells of order k, which are unions of pieces, are not simple from three dimensions on.
"""

from __future__ import annotations

from hardmax.compiling import kernel
from hardmax.geometry.cones.ray_kernels import free_slot
from hardmax.geometry.cones.splitting_kernels import (
    DONE,
    EMPTIES,
    FULL,
    MISSES,
    OVERFLOWS,
    cut,
    load,
    misses,
    save,
    write_wall,
)


@kernel
def cut_pieces(D, head, root, above, pivots, stop, cone, scratch, counts, out, parked):  # type: ignore[no-untyped-def]
    """Cut the pieces counts[5] .. stop-1 out of the root cone; returns DONE, FULL or OVERFLOWS.

    ``above[p, m]`` says whether key m is above the pivot of piece p. Pieces that floats cannot cut go to
    ``parked``; ``counts`` = [cells, rays, facets, parked, -, next piece, -].
    """
    state, rays, mask = cone.state, cone.rays, cone.mask
    used, facets, label = cone.used, cone.facets, cone.label
    sign, order, shared_with = scratch.sign, scratch.order, scratch.shared_with
    s_rays, s_mask = scratch.rays, scratch.mask
    pick, pool, minors, residual = scratch.pick, scratch.pool, scratch.minors, scratch.residual
    points, point_error, grain, noise = head.points, head.error, head.grain, head.noise
    while counts[5] < stop:
        p = counts[5]
        j = pivots[p]
        if not load(D, root, 0, cone):
            return OVERFLOWS
        result = MISSES
        for m in range(points.shape[0]):
            if m == j:
                continue
            high, low = (m, j) if above[p, m] else (j, m)
            if misses(D, points, high, low, rays, state, noise):
                continue
            slot = free_slot(used)
            if slot < 0:
                return OVERFLOWS
            write_wall(points, point_error, grain, D, high, low, facets, slot)
            label[slot, 0] = 0
            label[slot, 1] = m
            result = cut(
                D, state, rays, mask, used, facets,
                slot, sign, order, shared_with, s_rays, s_mask, pick, pool, minors, residual,
            )  # fmt: skip
            if result >= EMPTIES:
                break
        if result == OVERFLOWS:
            return OVERFLOWS
        if result >= EMPTIES:
            parked[counts[3]] = p
            counts[3] += 1
        elif not save(D, cone, p, j, counts, out, pool):
            return FULL
        counts[5] += 1
    return DONE
