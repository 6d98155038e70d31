r"""Compiled arithmetic modulo a prime below :math:`2^{24}`, with floats that hold integers.

A residue lies between :math:`-p/2` and :math:`p/2`, so a product of two is at most :math:`2^{46}` and a sum
of :data:`TERMS` of them stays below :math:`2^{52}`: every intermediate number is an integer that a float
holds exactly, in any order of summation, and the loops are those of float vectors. One reduction follows the
sum. It subtracts the nearest multiple of the prime; the quotient may be off by one in the last place, where
the residue is :math:`p/2` up to one, and the room up to :math:`2^{53}` covers that.
"""

from __future__ import annotations

import numpy as np

from hardmax.compiling import kernel

TOP = 1 << 24  # primes are below
BITS = 23.9  # of every prime that is used: the largest thousands below the top
TERMS = 60  # products that are summed before a reduction


@kernel(reorder=True, inlined=True)
def reduced(value, prime, inverse):
    """The residue of an integer between -2^52 and 2^52; ``inverse`` is 1 / prime, rounded."""
    return value - prime * np.rint(value * inverse)


@kernel(reorder=True, inner=True)
def reduce_all(path, at, count, prime, inverse):
    """Reduce some numbers in place."""
    for r in range(at, at + count):
        path[r] -= prime * np.rint(path[r] * inverse)


@kernel(reorder=True, inner=True)
def dot(weights, w, path, y, count, prime, inverse):
    """A sum of products; not reduced, but small enough for another term."""
    total = 0.0
    first = 0
    while first + TERMS < count:
        part = 0.0
        for j in range(first, first + TERMS):
            part += weights[w + j] * path[y + j]
        total = reduced(total + part, prime, inverse)
        first += TERMS
    for j in range(first, count):
        total += weights[w + j] * path[y + j]
    return total


@kernel(reorder=True, inlined=True)
def sparse_dot(weights, columns, first, end, path, y, prime, inverse):
    """The same where weights other than zero are listed."""
    total = 0.0
    while first + TERMS < end:
        part = 0.0
        for t in range(first, first + TERMS):
            part += weights[t] * path[y + columns[t]]
        total = reduced(total + part, prime, inverse)
        first += TERMS
    for t in range(first, end):
        total += weights[t] * path[y + columns[t]]
    return total


@kernel(reorder=True, inner=True)
def add_multiple(weights, w, factor, path, y, count):
    """path += factor * weights, not reduced."""
    for r in range(count):
        path[y + r] += weights[w + r] * factor


@kernel(inlined=True)
def reciprocal(number, prime, inverse):
    """One over a number that the prime does not divide (Fermat: its power to prime - 2)."""
    base, result, power = reduced(float(number), prime, inverse), 1.0, np.int64(prime) - 2
    while power > 0:
        if power & 1:
            result = reduced(result * base, prime, inverse)
        base = reduced(base * base, prime, inverse)
        power >>= 1
    return result
