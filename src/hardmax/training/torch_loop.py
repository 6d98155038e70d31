"""The plain torch loop: the reference for the fused step, and what runs where that cannot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import MissingExtraError
from hardmax.training.layout import TransformerShape

try:
    import torch
except ImportError as error:
    raise MissingExtraError(
        "training with torch needs torch, which is not installed; try: pip install 'hardmax[training]', or "
        "path='fused'."
    ) from error

from hardmax.training.transformer import Transformer

__all__ = ["TorchSteps"]

Floats = NDArray[np.float32]


class TorchSteps:
    """AdamW steps of a :class:`~hardmax.training.transformer.Transformer` on the mean squared error."""

    def __init__(
        self,
        shape: TransformerShape,
        vector: Floats,
        *,
        batch: int = 128,
        weight_decay: float = 1e-2,
        clip: float = 1.0,
    ) -> None:
        self.model = Transformer(shape, vector)
        self._batch, self._clip = batch, clip
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1.0, weight_decay=weight_decay)

    @property
    def parameters(self) -> Floats:
        """A copy of the vector."""
        return self.model.vector()

    def run(self, X: Floats, Y: Floats, order: NDArray[np.int64], rates: NDArray[np.float64]) -> float:
        """One step for each rate, on consecutive batches of ``order``; the mean loss."""
        losses = []
        for number, rate in enumerate(rates):
            rows = order[number * self._batch : (number + 1) * self._batch]
            for group in self._optimizer.param_groups:
                group["lr"] = float(rate)
            self._optimizer.zero_grad()
            loss = ((self.model(torch.from_numpy(X[rows])) - torch.from_numpy(Y[rows])) ** 2).mean()
            loss.backward()
            if self._clip > 0:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._clip)
            self._optimizer.step()
            losses.append(float(loss.detach()))
        return float(np.mean(losses))

    def predict(self, X: Floats) -> Floats:
        """(B, T, d) -> (B, outputs)."""
        with torch.no_grad():
            parts = [self.model(torch.from_numpy(np.array(part))).numpy() for part in _parts(X)]
        return np.concatenate(parts)


def _parts(X: Floats) -> list[Floats]:
    return [X[start : start + 1024] for start in range(0, len(X), 1024)]
