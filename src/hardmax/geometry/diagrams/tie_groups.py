"""Keys with identical scores, in sets of k winners: the lowest indices are in the set.

Between different scores the order at a point decides; a group of identical ones enters a set together, and
only the group of the k-th key may enter in part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.scores import Scores


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Which keys have identical scores.

    Attributes
    ----------
    group : (N,) int64
        The number of each key's group; groups are numbered by their lowest keys.
    sizes : (n,) int64
        How many keys each group has.
    place : (N,) int64
        The place of each key among the keys of its group.
    first : (n,) int64
        The lowest key of each group.
    """

    group: NDArray[np.int64]
    sizes: NDArray[np.int64]
    place: NDArray[np.int64]
    first: NDArray[np.int64]

    @classmethod
    def of(cls, scores: Scores) -> TieGroups:
        """The groups of a head."""
        first, group = np.unique(scores.tie_group, return_inverse=True)
        sizes = np.bincount(group)
        order = np.argsort(group, kind="stable")
        place = np.empty(scores.n_keys, dtype=np.int64)
        place[order] = np.arange(scores.n_keys) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls(group, sizes, place, first)

    @property
    def n(self) -> int:
        """The number of different scores."""
        return len(self.sizes)

    def sets(self, above: NDArray[np.bool_], pivots: NDArray[np.int64], k: int) -> NDArray[np.int64]:
        """The k keys of each row: all of the groups ``above``, and the lowest ones of the group ``pivots``.

        Examples
        --------
        >>> ties = TieGroups.of(Scores.of_keys([[1], [2], [1], [1]]))
        >>> ties.sets(np.array([[False, True]]), np.array([0]), 3)
        array([[0, 1, 2]])
        """
        rest = (k - above @ self.sizes)[:, None]
        partial = (self.group == pivots[:, None]) & (self.place < rest)
        return np.asarray(np.nonzero(above[:, self.group] | partial)[1].reshape(-1, k))
