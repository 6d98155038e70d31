r"""One layer of attention on one sequence, as plain arrays.

Head h of a layer gives the query of token t the probabilities

.. math:: p_{ht} = \operatorname{softmax}_s\bigl(\sigma\, q_{ht} \cdot k_{g(h)s} + B_{hts}\bigr)
          \quad\text{over the keys } s \text{ that } t \text{ may read},

and the token receives :math:`W_O^h \sum_s p_{hts} v_{g(h)s}` from it; g(h) is the group of heads that share
keys and values. In the words of P1 this is a head at temperature :math:`1/\sigma` on raw scores. Queries and
keys are those that really meet: after normalisation and rotation, where a model has them.

Nothing here knows torch: whatever gives these arrays can be measured, a model of any library or none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["CapturedLayer", "QueryMap", "TextReading", "Source", "Visit", "softmax"]

Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class QueryMap:
    """Queries as affine functions of the input: head h asks with ``matrix[h] @ x + offset[h]``.

    Attributes
    ----------
    matrix : array (H, d_head, d_model)
    offset : array (H, d_head)
    position : int or None
        The position for which the map holds, where it depends on it (rotary encodings, frozen norms).
    frozen : tuple of str
        What was held fixed to make it affine ("query norm", for instance); empty where nothing was.
    """

    matrix: Floats
    offset: Floats
    position: int | None = None
    frozen: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CapturedLayer:
    """Attention of one layer on one sequence.

    Attributes
    ----------
    index : int
        The layer, counted from 0.
    inputs : array (Q, d_model)
        What the query projection receives (after the norm, where one stands before it).
    queries : array (H, Q, d_head)
    keys : array (G, N, d_head)
        One row per key and group; head h reads group ``h // (H // G)``.
    values : array (G, N, d_value)
    present : array of bool (Q, N)
        Which keys each query may read: causal, sliding and padding masks.
    scale : float
        What raw scores are multiplied by; the temperature on raw scores is its inverse.
    bias : array (H, Q, N) or None
        What is added to scaled scores where keys are present.
    output_weights : array (H, d_model, d_value) or None
        W_O, head by head.
    query_map : callable or None
        ``query_map(t)``: how queries at position t depend on the input, or None where that is not known.
    """

    index: int
    inputs: Floats
    queries: Floats
    keys: Floats
    values: Floats
    present: NDArray[np.bool_]
    scale: float
    bias: Floats | None = None
    output_weights: Floats | None = None
    query_map: Callable[[int], QueryMap] | None = None

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.queries)

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return int(self.queries.shape[1])

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return int(self.keys.shape[1])

    def group(self, head: int) -> int:
        """Which keys and values a head reads."""
        return head // (self.heads // len(self.keys))

    def scores(self, head: int, rows: slice = slice(None)) -> NDArray[np.float64]:
        """Scaled scores (Q, N) of one head in double precision, -inf where a key may not be read.

        ``rows`` picks queries, for texts whose whole matrix would be large.
        """
        q = np.asarray(self.queries[head, rows], dtype=np.float64)
        k = np.asarray(self.keys[self.group(head)], dtype=np.float64)
        scores = (q @ k.T) * float(self.scale)
        if self.bias is not None:
            scores += self.bias[head if len(self.bias) > 1 else 0, rows]
        np.copyto(scores, -np.inf, where=~self.present[rows])
        return scores

    def probabilities(self, head: int, rows: slice = slice(None)) -> NDArray[np.float64]:
        """Softmax of the scores (Q, N); a query that may read nothing gets zeros."""
        return softmax(self.scores(head, rows))


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of each row; a row that is -inf throughout becomes zeros.

    Examples
    --------
    >>> softmax(np.array([[0.0, -np.inf], [-np.inf, -np.inf]]))
    array([[1., 0.],
           [0., 0.]])
    """
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=weights, where=total > 0))


Visit = Callable[[CapturedLayer], None]
"""What is done with each layer as it passes; the layer is gone afterwards."""


@dataclass(frozen=True, eq=False)
class TextReading:
    """One sequence that went through a model.

    Attributes
    ----------
    tokens : tuple of str
        How queries are named in tables and pictures.
    key_tokens : tuple of str
        How keys are named: the same, but for models whose last token asks and is never read.
    score_difference, probability_difference : float
        The largest difference between what was rebuilt from the captured arrays and what the model computes
        itself, relative to the largest score for scores.
    native_difference : float or None
        The same for probabilities in the precision of the weights, where that is not float32.
    forward_seconds : float
        CPU time of one forward pass in float32, to compare with.
    query_difference : float or None
        The largest difference between queries that follow from ``query_map`` and those that were captured,
        relative to the largest query; None where maps are not known.
    output_difference : float or None
        The same for what W_O receives: probabilities times values against the model's own.
    precision : str
        The type of the model's weights; everything above but ``native_difference`` is computed with them in
        float32.
    """

    tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    score_difference: float
    probability_difference: float
    native_difference: float | None
    forward_seconds: float
    query_difference: float | None = None
    output_difference: float | None = None
    precision: str = "float32"


class Source(Protocol):
    """Anything that can be read: a Hugging Face model, or the bundled one."""

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    @property
    def family(self) -> str:
        """Which kind of model it is."""
        ...

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        ...

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        ...

    def read(self, text: str | None, visit: Visit, *, layers: tuple[int, ...] | None = None) -> TextReading:
        """Send a text through the model and show each wanted layer to ``visit``, in order."""
        ...
