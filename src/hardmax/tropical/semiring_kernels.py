r"""Compiled max-plus matrix products; loaded by :mod:`hardmax.tropical.semirings` when a product is large.

They stand in a module of their own because importing numba costs more than most products: scalar work never
pays for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel


@kernel(allocates=True)
def max_plus(a: NDArray[np.float64], b: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    r"""Write :math:`\max_k (a_{ik} + b_{kj})` into ``out``, which starts as :math:`-\infty`.

    >>> product = np.full((1, 1), -np.inf)
    >>> max_plus(np.array([[1.0, 5.0]]), np.array([[2.0], [-3.0]]), product)
    >>> product
    array([[3.]])
    """
    n, inner = a.shape
    columns = b.shape[1]
    wide, deep = 512, 64  # a tile of b (256 kB) stays in the second-level cache while i runs
    for start in range(0, columns, wide):
        stop = min(start + wide, columns)
        for first in range(0, inner, deep):
            for i in range(n):
                row = out[i, start:stop]
                for k in range(first, min(first + deep, inner)):
                    left = a[i, k]
                    right = b[k, start:stop]
                    for j in range(stop - start):
                        value = left + right[j]
                        row[j] = value if value > row[j] else row[j]


@kernel(allocates=True)
def soft_max_plus(
    a: NDArray[np.float64], b: NDArray[np.float64], tau: float, out: NDArray[np.float64]
) -> None:
    r"""Write :math:`\tau \log \sum_k e^{(a_{ik} + b_{kj})/\tau}` into ``out`` (initially :math:`-\infty`).

    >>> product = np.full((1, 1), -np.inf)
    >>> soft_max_plus(np.zeros((1, 2)), np.zeros((2, 1)), 1.0, product)
    >>> float(np.round(product[0, 0], 6))
    0.693147
    """
    n, inner = a.shape
    columns = b.shape[1]
    winner = np.empty(columns, np.int64)
    weight = np.empty(columns, np.float64)
    for i in range(n):
        winner[:] = -1
        weight[:] = 0.0
        for k in range(inner):
            for j in range(columns):
                value = a[i, k] + b[k, j]
                if value > out[i, j]:
                    out[i, j] = value
                    winner[j] = k
        for k in range(inner):
            for j in range(columns):
                if k != winner[j] and out[i, j] > -np.inf:
                    weight[j] += np.exp((a[i, k] + b[k, j] - out[i, j]) / tau)
        for j in range(columns):
            if winner[j] >= 0:
                out[i, j] += tau * np.log1p(weight[j])
