"""Whether the sets that win on cells are the best at their vertices, compiled."""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel
from hardmax.regions.engine.layer_kernels import UNIT


@kernel(allocates=True)
def check_cells(
    k, tau, rows, row_error, prefix, offsets, rays, errors, winner, members, known, missing, proven, above
):
    r"""Compare the winning set of every cell with its neighbours, at every vertex.

    A score :math:`a \cdot x + b x_0` at a ray with errors :math:`\delta` in its entries, from rows with errors
    :math:`\varepsilon`, is off by at most :math:`\varepsilon \|r\|_1 + \delta \|a\|_1 + (D + 2) u \sum |a_c
    r_c|`. The comparison of two scores doubles that; the mean of a set is a mean of such errors, and its
    :math:`n + 2` more roundings are counted.
    """
    n, D = rows.shape[1], rows.shape[2]
    value = np.zeros(n)
    for i in range(offsets.shape[0] - 1):
        p, s = prefix[i], winner[i]
        for v in range(offsets[i], offsets[i + 1]):
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
            error = 2.02 * error + 1e-300
            if k > 0:
                lowest, highest = np.inf, -np.inf
                a = 0
                for j in range(n):
                    if a < k and members[s, a] == j:
                        lowest = min(lowest, value[j])
                        a += 1
                    else:
                        highest = max(highest, value[j])
                if lowest - highest > error:
                    continue
                for a in range(k):
                    if value[members[s, a]] - highest > error:
                        continue
                    for j in range(n):
                        gap = value[members[s, a]] - value[j]
                        if not (gap > error) and not known[s, a, j]:
                            missing[s, a, j] = True
                            proven[i] = False
                            if gap < -error:
                                above[v] = 1
            else:
                m, total = 0, 0.0
                for j in range(n):
                    if members[s, j] != 0:
                        m += 1
                        total += value[j]
                level = (total - tau * rays[v, D - 1]) / m
                for j in range(n):
                    gap = value[j] - level if members[s, j] != 0 else level - value[j]
                    if not (gap > error) and not known[s, 0, j]:
                        missing[s, 0, j] = True
                        proven[i] = False
                        if gap < -error:
                            above[v] = 1
