r"""Attention rollout: a common guess at which inputs a token listens to, to compare with.

Attention of a layer, averaged over its heads and mixed with the residual stream by halves, is taken for a
random walk, and the walk is followed through the layers:

.. math:: R_l = \bigl(\tfrac12 I + \tfrac12 \bar P_l\bigr) R_{l-1}, \qquad R_0 = I,
          \qquad \bar P_l = \tfrac1H \sum_h P_{lh}.

It knows neither values nor norms nor feed-forward layers (Abnar and Zuidema, 2020). Row t of :math:`R_l` sums
to one and ranks the input positions for token t.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.models.reading.captured_layer import CapturedLayer

__all__ = ["RolloutRecorder"]

Floats = NDArray[np.float64]


class RolloutRecorder:
    """Follows the walk as layers pass.

    Parameters
    ----------
    residual : float
        How much of a token stays with itself per layer; a half by custom.
    max_tokens : int, optional
        Texts with more tokens are not followed, because every layer takes the square of that in memory.

    Attributes
    ----------
    walks : list of array (Q, Q)
        :math:`R_0, R_1, ...`; columns of queries that are never read belong to themselves alone.

    Examples
    --------
    >>> recorder = RolloutRecorder()
    >>> zeros, ones = np.zeros((1, 2, 1)), np.ones((2, 2), dtype=bool)
    >>> for index in range(2):
    ...     recorder(CapturedLayer(index, zeros[0], zeros, zeros, zeros, ones, 1.0))
    >>> recorder.walks[-1]
    array([[0.625, 0.375],
           [0.375, 0.625]])
    """

    layers: tuple[int, ...] | None = None  # a walk needs every layer

    def __init__(self, *, residual: float = 0.5, max_tokens: int | None = None) -> None:
        if not 0.0 <= residual <= 1.0:
            raise InvalidInputError(f"residual must be from 0 to 1, but was {residual}.")
        self.residual, self.max_tokens = residual, max_tokens
        self.walks: list[Floats] = []

    def __call__(self, layer: CapturedLayer) -> None:
        """Take the step of this layer."""
        n, n_keys = layer.n_queries, layer.n_keys
        if self.max_tokens is not None and n > self.max_tokens:
            return
        if not self.walks:
            self.walks.append(np.eye(n))
        if layer.index != len(self.walks) - 1:
            raise InvalidInputError(
                f"layers must pass in order from layer 0 on, but layer {layer.index} came at place "
                f"{len(self.walks) - 1}; rollout needs every layer."
            )
        if self.walks[-1].shape[0] != n or n_keys > n:
            raise DimensionMismatchError(
                f"every layer must have {self.walks[-1].shape[0]} queries and no more keys, but layer "
                f"{layer.index} has {n} and {n_keys}."
            )
        step = np.zeros((n, n))
        for head in range(layer.heads):
            step[:, :n_keys] += layer.probabilities(head) / layer.heads
        stays = step.sum(axis=1) < 0.5  # a query that may read nothing keeps what it has
        step[stays] = np.eye(n)[stays]
        mixed = self.residual * np.eye(n) + (1.0 - self.residual) * step
        self.walks.append(mixed @ self.walks[-1])

    def rollout(self, n_keys: int) -> Floats:
        """The weights of the input positions after layers 1, ..., L: (L, Q, N)."""
        return np.stack(self.walks[1:])[:, :, :n_keys]
