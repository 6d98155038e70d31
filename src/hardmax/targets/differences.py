"""Active sets of any function of sequences, by differences: does a function retrieve a bounded number of
tokens?

For functions that are not written as terms. What is found holds at the sampled inputs; it bounds the number
of retrieved tokens from below, and a number that grows with the length of the sequences is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, GrowingActiveSetError, NotFiniteError
from hardmax.targets.token_domains import InputDomain, as_domain

__all__ = ["active_by_differences", "measure_active"]

Floats = NDArray[np.float64]

_GROWTH = 1.4  # twice the length may not have this many times the active tokens


def active_by_differences(
    function: Callable[[Floats], Any], sequences: Floats, *, step: float = 1e-6
) -> NDArray[np.bool_]:
    """Which positions a function of sequences (B, T, d) depends on at each of them: bool (B, T).

    A position counts when its central difference exceeds 1e-6 of the largest one of its sequence.

    Examples
    --------
    >>> import numpy as np
    >>> active_by_differences(lambda X: X.max(axis=(1, 2)), np.array([[[0.1], [0.7], [0.3]]]))
    array([[False,  True, False]])
    """
    n, length, width = sequences.shape
    slopes = np.zeros((n, length))
    for t in range(length):
        for c in range(width):
            sides = []
            for sign in (1.0, -1.0):
                moved = sequences.copy()
                moved[:, t, c] += sign * step
                value = np.asarray(function(moved), dtype=np.float64)
                if value.shape != (n,):
                    raise DimensionMismatchError(
                        f"function must return shape {(n,)}, but returned {value.shape}."
                    )
                if np.isnan(value).any():
                    raise NotFiniteError("function must return real numbers, but returned NaN on its domain.")
                sides.append(value)
            slopes[:, t] = np.maximum(slopes[:, t], np.abs(sides[0] - sides[1]) / (2 * step))
    active: NDArray[np.bool_] = slopes > 1e-6 * slopes.max(axis=1, keepdims=True)
    return active


def measure_active(
    function: Callable[[Floats], Any],
    *,
    d: int = 1,
    domain: InputDomain | str = "cube01",
    lengths: Sequence[int] = (4, 8, 16, 32, 64),
    n: int = 16,
    rng: int = 0,
) -> dict[int, int]:
    """The largest active set that random sequences of each length show.

    Parameters
    ----------
    function : callable
        F, from sequences (B, T, d) to (B,), for every T.
    d : int
        The dimension of a token.
    domain : {"cube01", "cube11", "gaussian"}
        Where tokens lie.
    lengths : sequence of int
        Lengths T, ascending.
    n : int
        Sequences of each length.
    rng : int
        Seed.

    Returns
    -------
    dict of int to int
        The largest size for each length: lower ends of D_0.

    Raises
    ------
    GrowingActiveSetError
        When the size still grows from the last length but one to the last.

    Examples
    --------
    >>> measure_active(lambda X: X[:, :, 0].max(axis=1) + X[:, :, 0].min(axis=1))
    {4: 2, 8: 2, 16: 2, 32: 2, 64: 2}
    >>> measure_active(lambda X: X.mean(axis=(1, 2)))
    Traceback (most recent call last):
    hardmax.errors.GrowingActiveSetError: function must depend on a bounded number of tokens, but depends on
    32 at T = 32 and on 64 at T = 64; only functions that retrieve tokens can be analysed.
    """
    place = as_domain(domain)
    generator = np.random.default_rng(rng)
    sizes = {}
    for length in sorted(lengths):
        active = active_by_differences(function, place.sample(generator, (n, length, d)))
        sizes[int(length)] = int(active.sum(axis=1).max())
    if len(sizes) > 1:
        (before, small), (last, large) = list(sizes.items())[-2:]
        if large > _GROWTH * small:
            raise GrowingActiveSetError(
                f"function must depend on a bounded number of tokens, but depends on {small} at T = "
                f"{before} and on "
                f"{large} at T = {last}; only functions that retrieve tokens can be analysed."
            )
    return sizes
