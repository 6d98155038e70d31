r"""Two inputs that attention hardly tells apart although the target does: the pigeonholes of P2.

Each of m free tokens chooses among N grid points, the grids of different tokens being ordered by the
target. There are :math:`N^m` sequences, but attention sees only sums over tokens, few numbers; so two
sequences have almost the same sums. Where the two agree, both get the same neutral token, which leaves the
difference of the sums alone; where they differ first (in the order of the grids), the target differs. The
closest pair is found here by a search over all sequences, so the gaps are what they are and not what the
pigeonhole guarantees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hardmax.errors import InvalidInputError
from hardmax.results import Result

__all__ = ["CollidingPair", "closest_choices"]

Floats = NDArray[np.float64]
_MOST = 2_000_000  # sequences that are searched


@dataclass(frozen=True, eq=False, repr=False)
class CollidingPair(Result):
    r"""Two sequences with nearly the same attention output and clearly different targets.

    Attributes
    ----------
    first, second : array of shape (T, d)
        The sequences.
    target_gap : float
        :math:`|F(X) - F(Y)|`, at least :math:`4\varepsilon`.
    attention_gap : float
        The largest difference of a coordinate of the attention output.
    guaranteed_gap : float
        What the pigeonhole principle promises for it; infinite where it promises nothing at this epsilon.
    epsilon : float
    required_width : float
        A tanh block with weights of at most 1 that reads the attention output and is within epsilon of the
        target at both sequences has at least so many units.
    n_searched : int
        Sequences among which the pair was found.

    Examples
    --------
    >>> from hardmax.flow.theorems.retrieval_bound import retrieval_pair
    >>> pair = retrieval_pair(lambda x: x[:, None], lambda x: 3 * x, n_tokens=6, k=2, epsilon=0.003)
    >>> bool(pair.attention_gap < pair.guaranteed_gap), bool(pair.target_gap >= 0.012 - 1e-12)
    (True, True)
    """

    kind: ClassVar[str] = "CollidingPair"

    first: Floats
    second: Floats
    target_gap: float
    attention_gap: float
    guaranteed_gap: float
    epsilon: float
    required_width: float
    n_searched: int

    def _state(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "second": self.second,
            "target_gap": self.target_gap,
            "attention_gap": self.attention_gap,
            "guaranteed_gap": self.guaranteed_gap,
            "epsilon": self.epsilon,
            "required_width": self.required_width,
            "n_searched": self.n_searched,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

    def _summary(self) -> str:
        return (
            f"{len(self.first)} tokens, targets {self.target_gap:.3g} apart, attention "
            f"{self.attention_gap:.3g} apart, so width {self.required_width:.3g} at least"
        )

    def _table(self) -> dict[str, Any]:
        return {"token": np.arange(len(self.first)), "first": self.first, "second": self.second}


def closest_choices(
    parts: Floats, scale: Floats, *, best: int = 1
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The pairs of choices with the closest sums, closest first.

    Parameters
    ----------
    parts : array of shape (m, N, f)
        What choice q of token j adds to the sums.
    scale : array of shape (f,)
        What a difference in each sum is measured in; the largest quotient counts.
    best : int
        How many pairs.

    Returns
    -------
    list of (array of shape (m,), array of shape (m,))
        Choices per token.

    Examples
    --------
    >>> parts = np.array([[[0.0], [1.0]], [[0.0], [1.01]]])
    >>> closest_choices(parts, np.ones(1))
    [(array([0, 1]), array([1, 0]))]
    """
    m, n, _ = parts.shape
    if n < 2 or m < 1:
        raise InvalidInputError(
            f"epsilon must leave at least 2 grid points per token, but left {n}; try a smaller one."
        )
    if m * np.log(n) > np.log(_MOST):
        raise InvalidInputError(
            f"{n}^{m} sequences are more than {_MOST} to search; try a larger epsilon or fewer tokens."
        )
    sums: Floats = np.zeros((1, parts.shape[2]))
    for part in parts:  # the last token runs fastest
        sums = (sums[:, None, :] + part[None, :, :]).reshape(-1, parts.shape[2])
    tree = cKDTree(sums / scale)
    distance, neighbour = tree.query(sums / scale, k=2, p=np.inf)
    me = np.arange(len(sums))
    other = np.where(
        neighbour[:, 0] == me, neighbour[:, 1], neighbour[:, 0]
    )  # duplicates may come in any order
    apart = np.where(neighbour[:, 0] == me, distance[:, 1], distance[:, 0])
    pairs: dict[tuple[int, int], None] = {}
    for i in np.argsort(apart, kind="stable"):
        pairs[(min(int(i), int(other[i])), max(int(i), int(other[i])))] = None
        if len(pairs) == best:
            break
    digits = n ** np.arange(m - 1, -1, -1)
    return [((i // digits) % n, (j // digits) % n) for i, j in pairs]
