r"""Upper bounds on the norms of matrices and vectors, for every analysis of rounding errors.

Each is computed once per network, with a margin that covers the rounding of its own computation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray
from hardmax.networks.layers import ArgmaxLayer
from hardmax.regions.engine.layers import TAME

__all__ = ["norms_of", "score_norms", "spectral_bound", "value_norms"]

Floats = NDArray[np.float64]


def spectral_bound(matrix: Floats) -> float:
    r"""An upper bound on :math:`\|A\|_2`, a few per cent above it.

    :math:`\|A\|_2^{2^{k+1}} = \|(A^T A)^{2^k}\|_2 \le \|(A^T A)^{2^k}\|_\infty`.

    >>> 5.0 <= spectral_bound(np.array([[3.0, 0.0], [0.0, 5.0]])) <= 5.1
    True
    """
    if matrix.size == 0:
        return 0.0
    scale = float(np.abs(matrix).max())
    if scale == 0.0 or not np.isfinite(scale):
        return scale
    a = matrix / scale
    gram = a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a
    log_norm, power = 0.0, 1.0
    for _ in range(5):
        size = float(np.abs(gram).sum(axis=1).max())
        if not size > 1e-100:
            break
        log_norm += np.log(size) / power
        gram = gram / size
        gram = gram @ gram
        power *= 2.0
    log_norm += np.log(max(float(np.abs(gram).sum(axis=1).max()), 1e-100)) / power
    crude = np.sqrt(float(np.abs(a).sum(axis=0).max()) * float(np.abs(a).sum(axis=1).max()))
    return 1.01 * scale * float(min(np.exp(0.5 * log_norm), crude))


def score_norms(array: ExactArray) -> tuple[float, float, float]:
    """Bounds on the largest row norm, the spectral norm, and the spectral norm of the absolute values."""
    if array.floats.size == 0:
        return 0.0, 0.0, 0.0
    scale = float(np.abs(array.floats).max())
    if scale > 0.0 and not 1.0 / TAME < scale < TAME:
        return np.inf, np.inf, np.inf  # squares would be lost or infinite: nothing is certain here
    rows = 1.01 * float(np.sqrt((array.floats**2).sum(axis=1).max()))
    return rows, spectral_bound(array.floats), spectral_bound(np.abs(array.floats))


def norms_of(rows: Floats) -> Floats:
    """2-norms of rows, rounded up; infinite where the squares prove nothing."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    sure = (squares > 1e-270) & (squares < 1e280)
    norms = np.where(sure, 1.0001 * np.sqrt(np.where(sure, squares, 1.0)), np.inf)
    vanish = np.flatnonzero(squares == 0.0)  # zeros, or squares that underflow
    norms[vanish[~rows[vanish].any(axis=1)]] = 0.0
    return norms


def value_norms(layer: ArgmaxLayer) -> tuple[float, float]:
    """Bounds on the largest entry and on the 2-norm of the sum of what the winners of all heads add."""
    largest = norm = 0.0
    for h in range(layer.heads):
        values = layer.outputs.floats[layer.head_start[h] : layer.head_start[h + 1]]
        most = float(np.abs(values).max(initial=0.0))
        largest += most
        norm += min(1.01 * most * float(np.sqrt(values.shape[1])), float(norms_of(values).max(initial=0.0)))
    return largest, norm
