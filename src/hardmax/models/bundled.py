r"""The bundled model as a source that can be read: no torch, no download.

It is the transformer of P2 section 3 with 15 tokens in :math:`\mathbb{R}^4` and a classification token CLS,
two layers of two heads (:mod:`hardmax.training.trained_models`). Its tokens are vectors and not words, so it
has no text: it reads a sequence that is drawn from the domain of its target. Positions count from 0, CLS is
position 15 as in P2. CLS asks and is never read, so there are 16 queries and 15 keys; in the last layer CLS
alone asks, and the queries of the other tokens may read nothing there.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.models.influence.interventions import GradientInfluence, Passed
from hardmax.models.reading.sources import CapturedLayer, QueryMap, TextReading, Visit, chosen
from hardmax.training.data import outputs_of
from hardmax.training.layout import TransformerShape
from hardmax.training.states import HeadWeights, LayerStates, head_weights, run_states
from hardmax.training.trained_models import TrainedModel, bundled_model

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BundledSource:
    """A small trained model on one sequence; made by :func:`bundled_source`."""

    name: str
    model: TrainedModel
    sequence: Floats  # (T, d): what is read
    family: str = "hardmax training"

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        return self.model.shape.depth

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return tuple(self.model.shape.heads)

    @property
    def about(self) -> str:
        """What the model is, in a sentence."""
        shape = self.model.shape
        return (
            "The model bundled with hardmax: it was trained to add two maxima of bilinear forms over pairs "
            f"of {shape.n_tokens} vectors with {shape.d_token} coordinates (equation (6) of the InfoFlow "
            "paper), and its last token, CLS, gives the answer; in the last layer CLS alone asks. It reads "
            "one random sequence."
        )

    @property
    def needed(self) -> tuple[int, ...]:
        """The positions that the target depends on in this sequence: its active set."""
        active = _target(self.model).active_set(self.sequence[None])[0]
        return tuple(int(t) for t in np.flatnonzero(np.asarray(active)))

    @property
    def tokens(self) -> tuple[str, ...]:
        """How positions are called: x1, ..., xT and CLS, as P2 writes them."""
        return (*(f"x{t + 1}" for t in range(self.model.shape.n_tokens)), "CLS")

    def digest(self) -> str:
        """SHA-256 of the parameters."""
        return hashlib.sha256(self.model.vector.astype("<f4").tobytes()).hexdigest()

    def read(
        self,
        text: Any,
        visit: Visit,
        *,
        layers: tuple[int, ...] | None = None,
        inputs: Mapping[int, Any] | None = None,
    ) -> TextReading:
        """Send a sequence through the model and show each wanted layer to ``visit``, in order.

        ``text`` is a sequence of vectors (T, d); None for the source's own. Layers for which there are
        ``inputs`` (T + 1, E), CLS last, are shown as they act on these.

        The differences compare scores and probabilities that are rebuilt from the captured queries and keys
        with those of the model's own forward pass.

        Raises
        ------
        InvalidInputError
            When words are given: this model reads vectors. When there is no such layer.
        """
        if isinstance(text, str):
            raise InvalidInputError(
                "text must be left out for the bundled model, because it reads vectors and not words; give a "
                "model with a tokenizer to read a text."
            )
        sequence = self.sequence if text is None else np.asarray(text, dtype=np.float64)
        wanted = chosen(layers, self.n_layers, "layers")
        shape, vector = self.model.shape, self.model.vector
        start = time.process_time()
        states, _ = run_states(shape, vector, sequence[None])
        seconds = time.process_time() - start
        differences = []
        for index in wanted:
            weights, state = head_weights(shape, vector, index), states[index]
            captured = _captured(index, np.concatenate([state.tokens[0], state.cls[:1]]), state, weights)
            differences.append(_differences(captured, state))
            if inputs is not None and index in inputs:
                captured = _captured(index, np.asarray(inputs[index], np.float64), state, weights)
            visit(captured)
        scores, probabilities = zip(*differences, strict=True)
        return TextReading(
            tokens=self.tokens,
            key_tokens=self.tokens[:-1],
            score_difference=max(scores),
            probability_difference=max(probabilities),
            native_difference=None,
            forward_seconds=seconds,
        )

    def disturb(self, text: Any) -> SequenceInterventions:
        """A sequence, ready to have its tokens replaced (:func:`hardmax.measure_influence`)."""
        sequence = self.sequence if text is None else text
        return SequenceInterventions(self.model.shape, self.model.vector, sequence)


def bundled_source(*, rng: int | np.random.Generator = 0) -> BundledSource:
    """The bundled model on a sequence that is drawn with ``rng`` from the domain of its target.

    Examples
    --------
    >>> source = bundled_source()
    >>> seen = []
    >>> reading = source.read(None, seen.append)
    >>> [(layer.heads, layer.n_queries, layer.n_keys) for layer in seen]
    [(2, 16, 15), (2, 16, 15)]
    >>> reading.tokens[-1], reading.probability_difference < 1e-12
    ('CLS', True)
    """
    model = bundled_model()
    sequence = np.asarray(_target(model).sample(1, model.shape.n_tokens, rng=rng)[0], dtype=np.float64)
    return BundledSource("pairwise-2", model, sequence)


def _target(model: TrainedModel) -> Any:
    """What the model was trained to compute."""
    (target,) = outputs_of((model.about or {})["job"]["target"])
    return target


class SequenceInterventions:
    """One sequence of vectors in a small trained model, ready to be disturbed: no torch is needed.

    Tokens are replaced as in :mod:`hardmax.models.influence.interventions`, the model runs in float64, and
    what moves is measured: the states of tokens and CLS between layers, and behind the last layer the output
    of CLS, where the other tokens have none.

    Parameters
    ----------
    shape : TransformerShape
    parameters : array
    sequence : array (T, d)

    Examples
    --------
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
        raise InvalidInputError("probes must be 0 for the bundled model, whose gradients are not measured.")


def _captured(index: int, inputs: Floats, states: LayerStates, weights: HeadWeights) -> CapturedLayer:
    """One layer on inputs (T + 1, E): every token asks and CLS last; only tokens are read."""
    tokens = inputs[:-1]
    present = np.ones((len(inputs), len(tokens)), dtype=bool)
    if states.scores is None:  # the last layer, where the model computes nothing for the other tokens
        present[:-1] = False

    def query_map(position: int) -> QueryMap:
        return QueryMap(weights.W_Q, np.zeros(weights.W_Q.shape[:2]), None)

    return CapturedLayer(
        index=index,
        inputs=inputs,
        queries=np.einsum("hne,te->htn", weights.W_Q, inputs),
        keys=np.einsum("hne,te->htn", weights.W_K, tokens),
        values=np.einsum("hne,te->htn", weights.W_V, tokens),
        present=present,
        scale=float(weights.beta),
        output_weights=weights.W_O,
        query_map=query_map,
    )


def _differences(layer: CapturedLayer, states: LayerStates) -> tuple[float, float]:
    """The largest difference of scores, relative to the largest score, and of probabilities."""
    own = states.cls_scores[0][:, None]  # (h, 1, T)
    if states.scores is not None:
        own = np.concatenate([states.scores[0], own], axis=1)
    asked = slice(layer.n_queries - own.shape[1], None)
    probabilities = states.weights(own)
    own = own * states.beta
    largest = max(float(np.abs(own).max()), np.finfo(np.float64).tiny)
    heads = range(layer.heads)
    scores = np.stack([layer.scores(h)[asked] for h in heads])
    rebuilt = np.stack([layer.probabilities(h)[asked] for h in heads])
    return float(np.abs(scores - own).max()) / largest, float(np.abs(rebuilt - probabilities).max())
