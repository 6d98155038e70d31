"""Comparing the maps of adjacent cells in floats, and gluing cells: compiled."""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel

__all__ = ["close_maps", "number_regions", "unite"]


@kernel
def close_maps(linear, offset, error, pairs, close):
    """Mark the pairs whose maps agree within their errors; returns a bound on the differences of those.

    The bound is infinite if some map is.
    """
    widest = 0.0
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        gap = (error[i] + error[j]) * (1.0 + 1e-12)
        agree = True
        for r in range(linear.shape[1]):
            # written so that NaN and infinity count as agreement: floats say nothing then
            for c in range(linear.shape[2]):
                if abs(linear[i, r, c] - linear[j, r, c]) > gap:
                    agree = False
            if not agree or abs(offset[i, r] - offset[j, r]) > gap:
                agree = False
                break
        close[p] = agree
        if agree:
            widest = max(widest, 2.0 * gap if np.isfinite(gap) else np.inf)
    return widest


@kernel
def unite(pairs, same, parent):
    """Union of the cells of every pair that is marked; the root of a set is its first cell."""
    for p in range(len(pairs)):
        if not same[p]:
            continue
        i, j = pairs[p, 0], pairs[p, 1]
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        while parent[j] != j:
            parent[j] = parent[parent[j]]
            j = parent[j]
        if i < j:
            parent[j] = i
        elif j < i:
            parent[i] = j


@kernel
def number_regions(parent, region):
    """Number the sets by their first cell; returns how many there are."""
    count = 0
    for i in range(len(parent)):
        if parent[i] == i:
            region[i] = count
            count += 1
        else:
            region[i] = region[parent[i]]
    return count
