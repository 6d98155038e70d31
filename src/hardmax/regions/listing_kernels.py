"""Whether the sets that win on cells are the best at their vertices, compiled."""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import UNIT


@kernel(inlined=True)
def scores_at(tau, rows, row_error, p, rays, errors, v, value):
    r"""The scores at a ray; returns a bound on the error of a difference of two, or of a score and a mean.

    A score :math:`a \cdot x + b x_0` at a ray with errors :math:`\delta` in its entries, from rows with
    errors :math:`\varepsilon`, is off by at most
    :math:`\varepsilon \|r\|_1 + \delta \|a\|_1 + (D + 2) u \sum |a_c r_c|`. The comparison of two scores
    doubles that. The mean of a set of scores less the temperature is a mean of such errors, and
    :math:`n + 2` more roundings are counted for it.
    """
    n, D = rows.shape[1], rows.shape[2]
    length, slope, size = 0.0, 0.0, 0.0
    for c in range(D):
        length += abs(rays[v, c])
    for j in range(n):
        total, sum_a, sum_r = 0.0, 0.0, 0.0
        for c in range(D):
            term = rows[p, j, c] * rays[v, c]
            total += term
            sum_a += abs(rows[p, j, c])
            sum_r += abs(term)
        value[j] = total
        slope, size = max(slope, sum_a), max(size, sum_r)
    error = row_error[p] * (length + D * errors[v]) + errors[v] * slope
    error += (D + n + 6.0) * UNIT * (size + tau * abs(rays[v, D - 1]))
    return 2.02 * error + 1e-300


@kernel(inlined=True)
def lead(k, members, s, value, a, j, level):
    """By how much the winning set is above its neighbour (a, j)."""
    if k > 0:
        return value[members[s, a]] - value[j]
    return value[j] - level if members[s, j] != 0 else level - value[j]


@kernel(inlined=True)
def threshold(members, s, value, tau):
    """The threshold of a set: the mean of its scores, less the temperature over its size."""
    m, total = 0, -tau
    for j in range(value.shape[0]):
        if members[s, j] != 0:
            m += 1
            total += value[j]
    return total / m


@kernel(inlined=True)
def closest(k, members, s, value):
    """By how much the lowest member of a set is above the highest other key; infinite for sparsemax."""
    lowest, highest = np.inf, -np.inf
    a = 0
    for j in range(value.shape[0]):
        if a < k and members[s, a] == j:
            lowest = min(lowest, value[j])
            a += 1
        else:
            highest = max(highest, value[j])
    return lowest - highest


@kernel(allocates=True)
def find_rivals(k, tau, rows, row_error, prefix, offsets, rays, errors, winner, members, rivals):
    """The neighbours of winning sets that are not surely below them at some vertex of a cell.

    A row of ``rivals``: the cell, the vertex, the neighbour (a, j), and whether it is surely above there.
    Returns how many there are, or -1 if they have no room.
    """
    n, D = rows.shape[1], rows.shape[2]
    value, inside = np.zeros(n), np.zeros(n, dtype=np.bool_)
    count = 0
    for i in range(offsets.shape[0] - 1):
        s = winner[i]
        if k > 0:
            inside[:] = False
            for a in range(k):
                inside[members[s, a]] = True
        for v in range(offsets[i], offsets[i + 1]):
            error = scores_at(tau, rows, row_error, prefix[i], rays, errors, v, value)
            if k > 0 and closest(k, members, s, value) > error:
                continue
            level = 0.0 if k > 0 else threshold(members, s, value, tau * rays[v, D - 1])
            for a in range(max(k, 1)):
                for j in range(n):
                    gap = lead(k, members, s, value, a, j, level)
                    if gap > error or inside[j]:
                        continue
                    if count == rivals.shape[0]:
                        return -1
                    rivals[count, 0], rivals[count, 1] = i, v
                    rivals[count, 2], rivals[count, 3] = a, j
                    rivals[count, 4] = gap < -error
                    count += 1
    return count
