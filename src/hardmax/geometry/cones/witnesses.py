"""Checking witnesses: is a float point provably inside the cell it stands for?"""

from __future__ import annotations

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import dot, rational
from hardmax.geometry.cones.splitting_kernels import certify
from hardmax.geometry.domains import Domain
from hardmax.geometry.scores import Scores

__all__ = ["is_inside", "surely_inside"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
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
    size = np.abs(safe) @ np.abs(a).T + np.abs(b)
    return np.asarray(shown & (b - safe @ a.T > 4 * (a.shape[1] + 3) * 2.0**-53 * size).all(axis=1))


def is_inside(families: list[Scores], domain: Domain, choice: Integers, point: Floats) -> bool:
    """Whether one float point lies strictly inside a cell, decided in rationals."""
    if not np.isfinite(point).all():
        return False
    x = [rational(float(v)) for v in point] + [flint.fmpq(1)]
    for family, j in zip(families, choice.tolist(), strict=True):
        own = dot(family.exact_row(j), x)
        if any(dot(family.exact_row(l), x) >= own for l in range(family.n_keys) if family.tie_group[l] != j):
            return False
    a, b = domain.a, domain.b
    return all(dot(a.rational_row(i), x[:-1]) < b.rational(i) for i in range(b.shape[0]))
