"""Score functions of heads: what a head compares, and how many numbers it needs for it.

In a transformer the score of a key y for a query x is an inner product of two vectors of length n_l, so as a
function of (x, y) it has rank at most n_l. P2 names this as a limitation of its cost law: the law does not
ask for the rank. Scores that know their rank carry it here as ``rank``; for others it is measured
(:mod:`hardmax.flow.costs.score_ranks`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError

__all__ = ["BilinearScore", "KeyScore", "ScoreFunction", "score_name"]

Floats = NDArray[np.float64]


class ScoreFunction(Protocol):
    """score(queries (B, S, slots, d), keys (B, T, slots, d)) -> (B, S, T); the largest score wins."""

    def __call__(self, queries: Floats, keys: Floats, /) -> ArrayLike:
        """The scores of all keys for all queries."""
        ...


class BilinearScore:
    """The score x' A y of the key y for the query x, each the first slot that is given.

    Parameters
    ----------
    matrix : array (d, d)
        A. Its rank is the head width that this score needs.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> score = hm.BilinearScore([[0, 1], [0, 0]])
    >>> score(np.array([[[[2.0, 0.0]]]]), np.array([[[[0.0, 3.0]], [[5.0, 1.0]]]]))
    array([[[6., 2.]]])
    >>> score.rank
    1
    """

    def __init__(self, matrix: ArrayLike) -> None:
        array = np.array(matrix, dtype=np.float64)
        if array.ndim != 2:
            raise DimensionMismatchError(f"matrix must be a matrix, but had the shape {array.shape}.")
        if not np.isfinite(array).all():
            raise NotFiniteError("matrix must be finite, but holds NaN or an infinity.")
        array.setflags(write=False)
        self.matrix: Floats = array
        self.rank = int(np.linalg.matrix_rank(array))

    def __call__(self, queries: Floats, keys: Floats, /) -> Floats:
        """x' A y for all queries and keys."""
        if queries.shape[-1] != self.matrix.shape[0] or keys.shape[-1] != self.matrix.shape[1]:
            raise DimensionMismatchError(
                f"the matrix of a bilinear score must fit the tokens, but is {self.matrix.shape} for tokens "
                f"of {keys.shape[-1]} numbers."
            )
        if not queries.shape[2] or not keys.shape[2]:
            raise InvalidInputError(
                "a bilinear score needs a query and a key, but this token holds no information yet; the "
                "classification token starts empty, try KeyScore."
            )
        values: Floats = (queries[:, :, 0] @ self.matrix) @ keys[:, :, 0].swapaxes(1, 2)
        return values

    def __repr__(self) -> str:
        return f"BilinearScore({' x '.join(map(str, self.matrix.shape))}, rank {self.rank})"


class KeyScore:
    """A score that depends on the key only, as every score of the still empty classification token does.

    Parameters
    ----------
    function : callable
        keys (B, T, slots, d) -> (B, T).

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> score = hm.KeyScore(lambda keys: keys[:, :, 0, 0])
    >>> score(np.empty((1, 1, 0, 1)), np.array([[[[2.0]], [[3.0]]]]))
    array([[[2., 3.]]])
    """

    rank = 1

    def __init__(self, function: Callable[[Floats], ArrayLike]) -> None:
        self.function = function

    def __call__(self, queries: Floats, keys: Floats, /) -> Floats:
        """The function of the keys, the same for all queries."""
        values = np.asarray(self.function(keys), dtype=np.float64)
        if values.shape != keys.shape[:2]:
            raise DimensionMismatchError(
                f"a function of the keys must give one number per key, {keys.shape[:2]}, but gave the shape "
                f"{values.shape}."
            )
        return np.broadcast_to(values[:, None, :], (len(keys), queries.shape[1], keys.shape[1]))

    def __repr__(self) -> str:
        return f"KeyScore({score_name(self.function)})"


def score_name(score: Any) -> str:
    """A short name of a score function, for traces and files.

    >>> score_name(BilinearScore([[1.0]]))
    'BilinearScore(1 x 1, rank 1)'
    >>> score_name(len)
    'len'
    """
    name = getattr(score, "__name__", None)
    return str(name) if name is not None else repr(score)
