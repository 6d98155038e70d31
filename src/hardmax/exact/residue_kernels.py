r"""Compiled arithmetic modulo primes below :math:`2^{24}`, with floats that hold integers.

A residue lies between :math:`-p/2` and :math:`p/2`, so a product of two is at most :math:`2^{46}` and a sum
of :data:`TERMS` of them stays below :math:`2^{52}`: every intermediate number is an integer that a float
holds exactly, in any order of summation, and the loops are those of float vectors. One reduction follows the
sum. It subtracts the nearest multiple of the prime; the quotient may be off by one in the last place, where
the residue is :math:`p/2` up to one, and the room up to :math:`2^{53}` covers that.

Primes come in blocks of :data:`LANES`, and the residues of one number modulo those of a block stand side by
side: number i of an array is at ``LANES * i``. Numbers are added and multiplied for a whole block at once,
which the processor does in one or two instructions. A block that is not full has the modulus 1 in the lanes
that are left, modulo which everything is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from hardmax.compiling import kernel
from hardmax.vectors import (
    ARRAY,
    INDEX,
    VectorType,
    call_vector,
    emitted,
    load_vector,
    spread_vector,
    store_vector,
)

TOP = 1 << 24  # primes are below
BITS = 23.9  # of every prime that is used: the largest thousands below the top
TERMS = 60  # products that are summed before a reduction
LANES = 8  # primes of a block

VECTOR = VectorType(64, LANES)
_VECTOR = VECTOR.llvm
_FUSED = ("contract",)


def _place(builder: Any, i: Any) -> Any:
    return builder.mul(i, i.type(LANES))


@emitted(VECTOR, ARRAY, INDEX)
def residues(builder, numbers, i):
    """Number i modulo the primes of a block."""
    return load_vector(builder, numbers, _place(builder, i), _VECTOR)


@emitted(types.void, ARRAY, INDEX, VECTOR)
def put(builder, numbers, i, x):
    """Write number i."""
    store_vector(builder, numbers, _place(builder, i), x)


@emitted(VECTOR, types.float64)
def spread(builder, number):
    """A small integer, which is the same modulo every prime."""
    return spread_vector(builder, number, _VECTOR)


@emitted(VECTOR, VECTOR, VECTOR, VECTOR)
def add_product(builder, total, x, y):
    """total + x y, not reduced."""
    return builder.fadd(total, builder.fmul(x, y, flags=_FUSED), flags=_FUSED)


@emitted(VECTOR, VECTOR, VECTOR)
def plus(builder, x, y):
    """x + y, not reduced."""
    return builder.fadd(x, y)


@emitted(VECTOR, VECTOR, VECTOR)
def minus(builder, x, y):
    """x - y, not reduced."""
    return builder.fsub(x, y)


@emitted(VECTOR, VECTOR, VECTOR)
def times(builder, x, y):
    """x y, not reduced."""
    return builder.fmul(x, y)


@emitted(VECTOR, VECTOR, ARRAY, ARRAY)
def reduced(builder, x, primes, inverses):
    """The residues of integers between -2^52 and 2^52; ``inverses`` are 1 / primes, rounded."""
    p, q = (load_vector(builder, data, ir.IntType(64)(0), _VECTOR) for data in (primes, inverses))
    nearest = call_vector(builder, "rint", builder.fmul(x, q))
    return builder.fsub(x, builder.fmul(p, nearest, flags=_FUSED), flags=_FUSED)


@emitted(types.boolean, VECTOR)
def all_zero(builder, x):
    """Whether a number is zero modulo every prime of the block."""
    other = builder.bitcast(builder.fcmp_unordered("!=", x, ir.Constant(_VECTOR, None)), ir.IntType(LANES))
    return builder.icmp_unsigned("==", other, other.type(0))


@kernel(reorder=True, inner=True)
def reduce_all(path, at, count, primes, inverses):
    """Reduce some numbers in place."""
    for r in range(at, at + count):
        put(path, r, reduced(residues(path, r), primes, inverses))


@kernel(reorder=True, inner=True)
def dot(weights, w, path, y, count, primes, inverses):
    """A sum of products; not reduced, but small enough for another term."""
    total, terms = spread(0.0), 0
    for j in range(count):
        total = add_product(total, residues(weights, w + j), residues(path, y + j))
        terms += 1
        if terms == TERMS:
            total, terms = reduced(total, primes, inverses), 1
    return total


@kernel(reorder=True, inlined=True)
def sparse_dot(weights, columns, first, end, path, y, primes, inverses):
    """The same where weights other than zero are listed."""
    total, terms = spread(0.0), 0
    for t in range(first, end):
        total = add_product(total, residues(weights, t), residues(path, y + columns[t]))
        terms += 1
        if terms == TERMS:
            total, terms = reduced(total, primes, inverses), 1
    return total


@kernel(reorder=True, inner=True)
def add_multiple(weights, w, factor, path, y, count):
    """path += factor * weights, not reduced."""
    for r in range(count):
        put(path, y + r, add_product(residues(path, y + r), residues(weights, w + r), factor))


@kernel(inner=True)
def reciprocal(number, prime):
    """One over a number that the prime does not divide, by Euclid's algorithm; 0 modulo 1."""
    a, b, x, y = np.int64(prime), number % np.int64(prime), np.int64(0), np.int64(1)
    while b > 1:
        a, b, x, y = b, a % b, y, x - a // b * y
    return float(y) if b == 1 else 0.0


@kernel(inner=True)
def put_reciprocals(number, primes, out):
    """Write one over a number modulo every prime of a block."""
    for l in range(LANES):
        out[l] = reciprocal(number, primes[l])
