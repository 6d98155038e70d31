"""A transformer layer that all tokens share: for a whole sequence, or for one token with its context fixed.

Elsewhere in this room only one token moves, and the keys that it sees are given. Here keys are computed from
the tokens that the layer before left, and every token, the context included, passes through the same weights.
The pass over the sequence is slow and plain on purpose: it is what the fixed-context form is held against.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.blocks import Attention, FeedForward

__all__ = ["SharedLayer"]

Matrix = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class SharedLayer:
    """FFN(x + MHSA(x)) without biases, for every token of a sequence.

    Attributes
    ----------
    w_q, w_k, w_v : (H, r, d_model) arrays of Fraction
    w_o : (H, d_model, r) array of Fraction
    w_in, w_out : (n, d_model) and (d_model, n) arrays of Fraction
    """

    w_q: Matrix
    w_k: Matrix
    w_v: Matrix
    w_o: Matrix
    w_in: Matrix
    w_out: Matrix

    def __call__(self, tokens: Matrix) -> Matrix:
        """The layer at temperature zero, applied to all tokens at once, without rounding.

        >>> one = np.array([[[Fraction(1)]]], dtype=object)
        >>> layer = SharedLayer(one, one, one, one, one[0], one[0])
        >>> layer(np.array([[Fraction(1)], [Fraction(-2)]], dtype=object))[:, 0]
        array([Fraction(2, 1), Fraction(0, 1)], dtype=object)
        """
        after = tokens.copy()
        for w_q, w_k, w_v, w_o in zip(self.w_q, self.w_k, self.w_v, self.w_o, strict=True):
            queries, keys, values = tokens @ w_q.T, tokens @ w_k.T, tokens @ w_v.T
            for t, scores in enumerate(queries @ keys.T):
                best = max(scores)
                tied = [j for j, score in enumerate(scores) if score == best]
                after[t] = after[t] + w_o @ (values[tied].sum(axis=0) / len(tied))
        seen = after @ self.w_in.T
        rectified = np.array([max(Fraction(0), z) for z in seen.flat], dtype=object).reshape(seen.shape)
        return np.asarray(rectified @ self.w_out.T)

    def attention(self, tokens: Matrix) -> Attention:
        """The attention block that one token meets when the sequence is ``tokens``."""
        return Attention.from_weights(tokens, self.w_q, self.w_k, self.w_v, self.w_o)

    def feed_forward(self) -> FeedForward:
        """The ReLU layer."""
        return FeedForward(self.w_in, None, self.w_out, None)
