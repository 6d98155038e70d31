r"""Influence in the small models of the lab, which read vectors: no torch is needed.

Tokens are replaced as in :mod:`hardmax.models.influence.interventions`, the model runs in float64, and what
moves is measured: the states of tokens and CLS between layers, and behind the last layer the output of CLS,
where the other tokens have none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.lab.layout import TransformerShape
from hardmax.lab.states import run_states
from hardmax.models.influence.interventions import GradientInfluence, Passed

__all__ = ["SequenceInterventions"]

Floats = NDArray[np.float64]


class SequenceInterventions:
    """One sequence of vectors in one model of the lab, ready to be disturbed.

    Parameters
    ----------
    shape : TransformerShape
    parameters : array
    sequence : array (T, d)

    Examples
    --------
    >>> from hardmax.models.bundled import bundled_source
    >>> source = bundled_source()
    >>> disturbed = SequenceInterventions(source.model.shape, source.model.vector, source.sequence)
    >>> disturbed.ablation("mean").shape
    (2, 16, 15)
    """

    differentiable = False

    def __init__(self, shape: TransformerShape, parameters: ArrayLike, sequence: ArrayLike) -> None:
        self._shape, self._parameters = shape, np.asarray(parameters)
        self._sequence = np.asarray(sequence, dtype=np.float64)
        self.n_tokens, self.d = (int(n) for n in self._sequence.shape)

    def baselines(self) -> dict[str, str]:
        """What can be put in the place of a token, in words."""
        return {"mean": "the mean of the tokens of the sequence", "zero": "the zero vector"}

    def ablation(self, baseline: str = "mean", *, passed: Passed | None = None) -> Floats:
        """How far each state moves when one token is replaced: (L, T + 1, T), exact; zero where the model
        computes no state."""
        if baseline not in self.baselines():
            known = ", ".join(self.baselines())
            raise InvalidInputError(f"baseline must be one of {known}, but was {baseline!r}.")
        instead = self._sequence.mean(axis=0) if baseline == "mean" else np.zeros(self.d)
        T = self.n_tokens
        inputs = np.repeat(self._sequence[None], T + 1, axis=0)  # the last one stays as it is
        inputs[np.arange(T), np.arange(T)] = instead
        layers, outputs = run_states(self._shape, self._parameters, inputs)
        if passed is not None:
            passed(T)
        found = np.zeros((len(layers), T + 1, T))
        for depth, after in enumerate(layers[1:]):
            states = np.concatenate([after.tokens, after.cls[:, None]], axis=1)
            found[depth] = np.linalg.norm(states[:-1] - states[-1], axis=-1).T
        found[-1, T] = np.linalg.norm(outputs[:-1] - outputs[-1], axis=-1)
        return found

    def gradient(
        self, *, probes: int | None = None, rng: int = 0, passed: Passed | None = None
    ) -> GradientInfluence:
        """Not measured: this program does not differentiate."""
        raise InvalidInputError("probes must be 0 for a model of the lab, whose gradients are not measured.")
