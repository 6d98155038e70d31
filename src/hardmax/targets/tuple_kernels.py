"""The compiled search for the shortest sum of three tokens (P2 equation (7)).

All triples are tried, a block of sequences at a time: the innermost loop runs over sequences, which
compilers turn into vector instructions without a reduction in the way. A search that sorts tokens and skips
most triples needs fewer operations, but was seven times slower at 64 tokens.
"""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel

SEQUENCES = 128  # sequences in a block


@kernel
def shortest_triples(coordinates, distinct, room, winners):
    """For each sequence the triple with the shortest sum, the lexicographically first among equals.

    Parameters
    ----------
    coordinates : (d, T, n) float64
        A block of n sequences, those of one coordinate and position side by side.
    distinct : bool
        Whether the three positions must differ.
    room : (d + 3, n) float64
        Sums of two tokens, and rows for lengths.
    winners : (n, 3) int64
        Where the triples are written, in ascending order.
    """
    d, length, n = coordinates.shape
    gap = 1 if distinct else 0
    least, best, lengths = room[d], room[d + 1], room[d + 2]
    for b in range(n):
        best[b] = np.inf
    for i in range(length):
        for j in range(i + gap, length):
            for c in range(d):
                for b in range(n):
                    room[c, b] = coordinates[c, i, b] + coordinates[c, j, b]
            for b in range(n):
                least[b] = best[b]
            for k in range(j + gap, length):
                if d == 2:
                    for b in range(n):
                        first = room[0, b] + coordinates[0, k, b]
                        second = room[1, b] + coordinates[1, k, b]
                        least[b] = min(least[b], first * first + second * second)
                else:
                    for b in range(n):
                        lengths[b] = 0.0
                    for c in range(d):
                        for b in range(n):
                            part = room[c, b] + coordinates[c, k, b]
                            lengths[b] += part * part
                    for b in range(n):
                        least[b] = min(least[b], lengths[b])
            for b in range(n):
                if least[b] < best[b]:
                    best[b] = least[b]
                    winners[b, 0], winners[b, 1] = i, j
    for b in range(n):  # the third position again, from the same sums in the same order
        i, j = winners[b, 0], winners[b, 1]
        for k in range(j + gap, length):
            total = 0.0
            for c in range(d):
                part = coordinates[c, i, b] + coordinates[c, j, b] + coordinates[c, k, b]
                total += part * part
            if total == best[b]:
                winners[b, 2] = k
                break
