"""Sets of positions as words of 64 bits: position t is bit t mod 64 of word t div 64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_ONE = np.uint64(1)


def n_words(n: int) -> int:
    """The words that n positions need.

    >>> n_words(64), n_words(65)
    (1, 2)
    """
    return -(-n // 64)


def singletons(n: int) -> Words:
    """The sets {0}, ..., {n - 1}, one per row."""
    words = np.zeros((n, n_words(n)), dtype=np.uint64)
    t = np.arange(n)
    words[t, t >> 6] = _ONE << (t & 63).astype(np.uint64)
    return words


def full(n: int) -> Words:
    """The set of all n positions."""
    words: Words = np.bitwise_or.reduce(singletons(n), axis=0)
    return words


def add_positions(words: Words, positions: NDArray[Any]) -> None:
    """Put one position (or none: -1) into every set, in place; ``words`` is (..., W), positions (...).

    >>> words = np.zeros((2, 1), dtype=np.uint64)
    >>> add_positions(words, np.array([3, -1]))
    >>> words
    array([[8],
           [0]], dtype=uint64)
    """
    flat = words.reshape(-1, words.shape[-1])
    chosen = positions.reshape(-1).astype(np.int64)
    bits = np.where(chosen < 0, np.uint64(0), _ONE << (chosen & 63).astype(np.uint64))
    flat[np.arange(len(flat)), np.maximum(chosen, 0) >> 6] |= bits
    if not np.shares_memory(flat, words):
        words[...] = flat.reshape(words.shape)


def packed(members: NDArray[np.bool_]) -> Words:
    """Rows of booleans as sets.

    >>> packed(np.array([[True, False, True]]))
    array([[5]], dtype=uint64)
    """
    n = members.shape[-1]
    padded = np.zeros((*members.shape[:-1], 64 * n_words(n)), dtype=bool)
    padded[..., :n] = members
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def unpacked(words: Words, n: int) -> NDArray[np.bool_]:
    """Sets as rows of n booleans.

    >>> unpacked(np.array([[5]], dtype=np.uint64), 3)
    array([[ True, False,  True]])
    """
    octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n, bitorder="little").astype(bool)


def count(words: Words) -> NDArray[np.int32]:
    """The size of every set.

    >>> count(np.array([[5, 1]], dtype=np.uint64))
    array([3], dtype=int32)
    """
    if hasattr(np, "bitwise_count"):
        bits = np.bitwise_count(words)
    else:  # numpy 1.26
        bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1)
    return np.asarray(bits.sum(axis=-1, dtype=np.int32))
