r"""What a linear map can still read from a state behind the first attention: P2 Appendix C.1 and C.2.

Head i of the first layer has its own winner at every token, :math:`s_i(t) = \arg\max_s A_i(x(t), x(s))` with
the scores :math:`A_i` of the model itself. A linear map with bias :math:`g_i` is fitted from the state
:math:`x_1'(t)` to the token :math:`x(s_i(t))`, and measured on other sequences by equation (56),

.. math:: \mathcal E_i = \mathbb E_X \mathbb E_t \frac{|g_i(x_1'(t)) - x(s_i(t))|^2}{|x(s_i(t))|^2} .

The second-largest token, and the k-th largest, are asked for in the same way. A model is compared with
itself at initialisation, whose heads have winners of their own.

An error of 1 is what the map 0 achieves; the best constant does no worse on average, and a map fitted by
plain least squares can do worse, because (56) weighs small tokens heavily. The expectation of
:math:`1/|x|^2` is infinite for Gaussian tokens of dimension 1 and 2: there (56) is not a number that samples
converge to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.results import Result
from hardmax.training.layout import TransformerShape
from hardmax.training.states import states_in_blocks

__all__ = ["Recovery", "recovery", "recovery_errors", "token_of_rank"]

Floats = NDArray[np.float64]
Fit = Literal["plain", "weighted"]


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Result):
    """How well the token of some rank is recovered, before and after training.

    Attributes
    ----------
    rank : int
        1 for the winner, 2 for the second largest.
    initialised, trained : array (h,)
        The error (56) of each head of the first layer.
    n_fit, n_test : int
        Sequences on which maps were fitted and measured.
    fit : {"plain", "weighted"}
        Least squares, or with the weights of (56).

    Examples
    --------
    >>> Recovery(1, np.array([0.4, 0.5]), np.array([0.1, 0.2]), 1000, 500, "plain").ratio
    array([0.25, 0.4 ])
    """

    kind: ClassVar[str] = "Recovery"

    rank: int
    initialised: Floats
    trained: Floats
    n_fit: int
    n_test: int
    fit: Fit

    @property
    def ratio(self) -> Floats:
        """Trained over initialised, head by head."""
        return self.trained / self.initialised

    def _state(self) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "initialised": self.initialised,
            "trained": self.trained,
            "n_fit": self.n_fit,
            "n_test": self.n_test,
            "fit": self.fit,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

    def _summary(self) -> str:
        which = {1: "largest", 2: "second largest", 3: "third largest"}.get(
            self.rank, f"{self.rank}-th largest"
        )
        ratios = ", ".join(f"{value:.3g}" for value in self.ratio)
        return f"{which} token, trained / initialised {ratios}"

    def _table(self) -> dict[str, Any]:
        return {
            "head": list(range(1, len(self.trained) + 1)),
            "initialised": self.initialised,
            "trained": self.trained,
            "ratio": self.ratio,
        }


def recovery(
    shape: TransformerShape,
    initialised: ArrayLike,
    trained: ArrayLike,
    X_fit: ArrayLike,
    X_test: ArrayLike,
    *,
    rank: int = 1,
    fit: Fit = "plain",
) -> Recovery:
    """The errors (56) of a model before and after training.

    Parameters
    ----------
    shape : TransformerShape
        At least two layers: in the last one only the classification token asks.
    initialised, trained : array
        The two vectors of parameters.
    X_fit, X_test : array (B, T, d)
        Sequences on which maps are fitted, and others on which they are measured.
    rank : int
        1 for the token with the largest score, 2 for the second largest.
    fit : {"plain", "weighted"}
        The paper says "by regression"; plain least squares is that. "weighted" minimises (56) itself.

    Returns
    -------
    Recovery
    """
    before, after = (
        recovery_errors(shape, vector, X_fit, X_test, rank=rank, fit=fit) for vector in (initialised, trained)
    )
    return Recovery(rank, before, after, len(np.asarray(X_fit)), len(np.asarray(X_test)), fit)


def recovery_errors(
    shape: TransformerShape,
    parameters: ArrayLike,
    X_fit: ArrayLike,
    X_test: ArrayLike,
    *,
    rank: int = 1,
    fit: Fit = "plain",
) -> Floats:
    """The error (56) of every head of the first layer of one model."""
    if shape.depth < 2:
        raise InvalidInputError(
            "shape must have two layers or more: in the last one the tokens have no states behind the "
            "attention."
        )
    if not 1 <= rank <= shape.n_tokens:
        raise InvalidInputError(f"rank must be between 1 and {shape.n_tokens}, but was {rank}.")
    if fit not in ("plain", "weighted"):
        raise InvalidInputError(f'fit must be "plain" or "weighted", but was {fit!r}.')
    states, wanted = _regression(shape, parameters, X_fit, rank)
    if len(states) < 2 * states.shape[1]:
        raise InvalidInputError(
            f"X_fit must hold at least {2 * states.shape[1]} tokens for maps of {states.shape[1]} "
            f"coefficients, "
            f"but held {len(states)}."
        )
    maps = _fitted(states, wanted, fit)
    states, wanted = _regression(shape, parameters, X_test, rank)
    return np.array([_error(states @ maps[i], wanted[:, i]) for i in range(len(maps))])


def _regression(
    shape: TransformerShape, parameters: ArrayLike, X: ArrayLike, rank: int
) -> tuple[Floats, Floats]:
    """States behind the first attention with a column of ones, (B T, E + 1), and what to read from them,
    (B T, h, d)."""
    inputs = np.asarray(X, dtype=np.float64)
    states, wanted = [], []
    for block, layers in states_in_blocks(shape, parameters, inputs):
        scores, attended = layers[0].of_tokens
        sources = token_of_rank(scores, rank)  # (B, h, T)
        rows = np.arange(len(scores))[:, None, None]
        found = inputs[block][rows, sources]  # (B, h, T, d)
        states.append(attended.reshape(-1, attended.shape[2]))
        wanted.append(found.transpose(0, 2, 1, 3).reshape(-1, found.shape[1], found.shape[3]))
    stacked = np.concatenate(states)
    return np.column_stack([stacked, np.ones(len(stacked))]), np.concatenate(wanted)


def token_of_rank(scores: Floats, rank: int) -> NDArray[np.intp]:
    """The key of the rank-th largest score in every row, ties by position.

    >>> token_of_rank(np.array([[0.5, 2.0, 1.0]]), 1), token_of_rank(np.array([[0.5, 2.0, 1.0]]), 2)
    (array([1]), array([2]))
    """
    if rank == 1:
        return np.asarray(scores.argmax(axis=-1))
    return np.asarray(np.argsort(-scores, axis=-1, kind="stable")[..., rank - 1])


def _fitted(states: Floats, wanted: Floats, fit: Fit) -> Floats:
    """One map per head, (h, E + 1, d)."""
    n, h, d = wanted.shape
    if fit == "plain":  # the states are the same for all heads
        maps = np.linalg.lstsq(states, wanted.reshape(n, h * d), rcond=None)[0]
        return np.asarray(maps.reshape(-1, h, d).swapaxes(0, 1))
    found = []
    for i in range(h):
        scale = 1.0 / np.linalg.norm(wanted[:, i], axis=1, keepdims=True)
        found.append(np.linalg.lstsq(states * scale, wanted[:, i] * scale, rcond=None)[0])
    return np.array(found)


def _error(found: Floats, wanted: Floats) -> float:
    return float((((found - wanted) ** 2).sum(axis=1) / (wanted**2).sum(axis=1)).mean())
