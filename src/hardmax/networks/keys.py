r"""The keys of an attention block as the forward pass uses them.

Keys of a head with equal floats are merged into one that stands for all of them: matrix products may round
equal columns differently, and whether keys tie must not depend on that. Heads with fewer keys than others are
padded with keys of bias minus infinity, so that one matrix product serves all heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import NotFiniteError
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray

__all__ = ["DistinctKeys", "distinct_keys", "working_floats"]

Floats = NDArray[np.float64]


def working_floats(array: ExactArray) -> Floats:
    """Floats that are at hand: those of a product are not multiplied out exactly for a forward pass."""
    return array.approximation if isinstance(array, ExactProduct) else array.floats


@dataclass(frozen=True, eq=False)
class DistinctKeys:
    """H heads of at most K distinct keys.

    Attributes
    ----------
    slopes : (d, H * K) float64
    offsets : (H, K) float64
        Minus infinity for padding.
    first : (H, K) int32
        The lowest index of a key that it stands for.
    counts : (H, K) float64
        The number of keys that it stands for, zero for padding.
    outputs : (H, K, e) float64
        The mean of their outputs.
    """

    slopes: Floats
    offsets: Floats
    first: NDArray[np.int32]
    counts: Floats
    outputs: Floats

    def scores(self, points: Floats) -> tuple[Floats, NDArray[np.intp], Floats]:
        """The scores (n, H, K), the first winning key of each head (n, H, 1), and its score."""
        with np.errstate(over="ignore", invalid="ignore"):
            s = (points @ self.slopes).reshape(-1, *self.offsets.shape)
            s += self.offsets
        winners = s.argmax(axis=2, keepdims=True)  # of a NaN, if there is one
        best = np.take_along_axis(s, winners, axis=2)
        if not np.isfinite(best).all():
            raise NotFiniteError(
                "scores must stay within float64, but overflow at some x; rescale the input or the weights."
            )
        return s, winners, best

    def hard(self, points: Floats) -> tuple[list[Floats], NDArray[np.int32]]:
        """What each head adds at temperature zero, and the routings (n, H)."""
        s, winners, best = self.scores(points)
        tied = s == best
        several = np.count_nonzero(tied, axis=2) > 1
        added = []
        for h, outputs in enumerate(self.outputs):
            part = outputs[winners[:, h, 0]]
            shared = np.flatnonzero(several[:, h])
            if len(shared):
                weights = tied[shared, h] * self.counts[h]
                part[shared] = weights @ outputs / weights.sum(axis=1, keepdims=True)
            added.append(part)
        return added, self.first[np.arange(len(self.first)), winners[:, :, 0]]

    def soft(self, points: Floats, temperature: float) -> list[Floats]:
        """What each head adds at a positive temperature."""
        s, _, best = self.scores(points)
        s -= best
        with np.errstate(over="ignore", under="ignore"):  # far below the best: exp(-inf) is zero
            s /= temperature
            weights = np.exp(s, out=s)
        weights *= self.counts
        weights /= weights.sum(axis=2, keepdims=True)  # the best has weight exp(0), so this is at least one
        return [weights[:, h] @ outputs for h, outputs in enumerate(self.outputs)]


def distinct_keys(
    scores: ExactArray, biases: ExactArray, outputs: ExactArray, mask: NDArray[np.bool_]
) -> DistinctKeys:
    """Merge keys with equal floats, drop those that the mask leaves out, and pad.

    >>> from hardmax.exact.rationals import as_exact
    >>> a, v = as_exact([[[1], [1], [2]]], "a", ndim=3), as_exact([[[0], [1], [5]]], "v", ndim=3)
    >>> keys = distinct_keys(a, as_exact([[0, 0, 0]], "b", ndim=2), v, np.ones((1, 3), dtype=bool))
    >>> keys.first, keys.counts, keys.outputs[0, :, 0]
    (array([[0, 2]], dtype=int32), array([[2., 1.]]), array([0.5, 5. ]))
    """
    a, b, v = working_floats(scores), working_floats(biases), working_floats(outputs)
    heads, _, d = a.shape
    groups = []
    for h in range(heads):
        present = np.flatnonzero(mask[h])
        rows = np.concatenate([a[h, present], b[h, present, None]], axis=1)
        _, lowest, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(
            lowest
        )  # keys ascend by their lowest index, so that the first maximum is the lowest
        groups.append((present, present[lowest[order]], np.argsort(order)[group.ravel()]))
    shape = (heads, max(len(lowest) for _, lowest, _ in groups))
    slopes, offsets = np.zeros((*shape, d)), np.full(shape, -np.inf)
    first, counts = np.zeros(shape, dtype=np.int32), np.zeros(shape)
    means = np.zeros((*shape, v.shape[2]))
    for h, (present, lowest, group) in enumerate(groups):
        k = len(lowest)
        slopes[h, :k], offsets[h, :k], first[h, :k] = a[h, lowest], b[h, lowest], lowest
        counts[h, :k] = np.bincount(group, minlength=k)
        np.add.at(means[h], group, v[h, present])
        means[h, :k] /= counts[h, :k, None]
    return DistinctKeys(np.ascontiguousarray(slopes.reshape(-1, d).T), offsets, first, counts, means)
