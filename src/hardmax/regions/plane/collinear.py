"""Which edges may lie on a common line: a float filter in front of exact comparisons.

When a search was stopped early, many edges have no partner because the cell beyond is missing. Exact lines of
all of them would take long, so edges whose line is visibly nobody else's are set aside first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.regions.cells import Cells

__all__ = ["possibly_collinear"]

_FINENESS = 1e-6  # of angles, and of distances relative to the extent of the edges
_ALWAYS = 256  # so few edges are not worth filtering


def possibly_collinear(
    cells: Cells, cell_of: NDArray[np.int64], group: NDArray[np.int64], edges: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of the edges cannot be told from the line of an edge with another name, in floats.

    Errs on the side of yes: edges that are too short, too uncertain or unbounded are always kept.
    """
    keep = np.ones(len(edges), dtype=np.bool_)
    if len(edges) <= _ALWAYS:
        return keep
    last = edges + 1 == cells.facets.offsets[cell_of[edges] + 1]
    after = np.where(last, cells.facets.offsets[cell_of[edges]], edges + 1)
    x, y, x_, y_ = cells.vx[edges], cells.vy[edges], cells.vx[after], cells.vy[after]
    r = cells.vr[edges] + cells.vr[after]
    if cells.unbounded:
        d = [np.abs(v[at]) for v in (cells.dx, cells.dy) for at in (edges, after)]
        r = np.where(sum(d) > 0.0, np.inf, r)
    length = np.hypot(x_ - x, y_ - y)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.maximum(np.hypot(x, y), np.hypot(x_, y_))
        angle_error = 4.0 * r / length
        known = (angle_error < _FINENESS / 4) & np.isfinite(reach)
        extent = float(reach[known].max(initial=1.0))
        known &= angle_error * reach + 4.0 * r < _FINENESS * extent / 4
        nx, ny = -(y_ - y) / length, (x_ - x) / length
    flip = (ny < 0) | ((ny == 0) & (nx < 0))
    nx, ny = np.where(flip, -nx, nx), np.where(flip, -ny, ny)
    angle, offset = np.arctan2(ny, nx), (nx * x + ny * y) / extent
    near_zero = known & (angle < 4 * _FINENESS)  # seen from the other side, the angle is beyond pi
    places = np.concatenate([np.flatnonzero(known), np.flatnonzero(near_zero)])
    angle = np.concatenate([angle[known], angle[near_zero] + np.pi])
    offset = np.concatenate([offset[known], -offset[near_zero]])
    names = group[edges][places]
    shared = np.zeros(len(edges), dtype=np.bool_)
    for shift_a in (0.0, 0.5):  # two points closer than half a cell share one in some of the shifted grids
        for shift_o in (0.0, 0.5):
            column = np.floor(angle / (4 * _FINENESS) + shift_a).astype(np.int64)
            row = np.floor(offset / (4 * _FINENESS) + shift_o).astype(np.int64)
            _, square = np.unique(np.stack([column, row], axis=1), axis=0, return_inverse=True)
            square = square.ravel()
            low = np.full(int(square.max(initial=0)) + 1, np.iinfo(np.int64).max)
            high = np.full(len(low), -1)
            np.minimum.at(low, square, names)
            np.maximum.at(high, square, names)
            shared[places[low[square] != high[square]]] = True
    return shared | ~known
