r"""Units and keys that follow others on a whole layer cell: the list of them, and what keys that tie put out.

A unit whose row is a multiple of another's follows it. A key whose composed score agrees with that of an
earlier key of its head wins with it: that one gives the signature, and the mean of their outputs goes on.
Both are *twins*, written behind the bits or winners of the layer: how many there are, then for each its
number and twice that of the other, plus one if it is on where the other is off. A unit that is zero on the
whole layer cell may be listed as its own twin.

Units that have the weights of an earlier one, or the opposite ones, follow it on every layer cell: they are
known before the first cell (:func:`like`).

A mean of :math:`m` outputs (keys of the block that have one score count as often as they occur) has
:math:`m` in its denominator. So do all rows behind it, and the bound on their denominators grows with it:
:func:`mean_bits`.
"""

from __future__ import annotations

import math

from hardmax.compiling import kernel
from hardmax.exact import double_double_kernels as pairs


@kernel(inlined=True)
def forget_twins(here, signs):
    """No unit or key of the layer cell is known to follow another."""
    signs[here.sign_at + 2 + here.words + here.heads] = 0


@kernel(inlined=True)
def add_twin(here, signs, unit, other, sign):
    """From now on ``unit`` is on where ``other`` is (sign 1), or is not (sign -1)."""
    at = here.sign_at + 2 + here.words + here.heads
    signs[at + 1 + 2 * signs[at]] = unit
    signs[at + 2 + 2 * signs[at]] = 2 * other + (1 if sign < 0 else 0)
    signs[at] += 1


@kernel(inlined=True)
def n_twins(here, signs):
    """How many units or keys of the layer cell follow others."""
    return signs[here.sign_at + 2 + here.words + here.heads]


@kernel(inlined=True)
def twin(here, signs, t):
    """Twin t: its number, that of the unit or key that it follows, and whether it is turned around."""
    at = here.sign_at + 3 + here.words + here.heads + 2 * t
    return signs[at], signs[at + 1] >> 1, signs[at + 1] & 1


@kernel(inlined=True)
def like(net, here, unit):
    """The first unit with the weights of this one, and 1, or -1 if these are the opposite; -1 if none has."""
    if here.like < 0 or net.like[here.like + unit] < 0:
        return -1, 1
    code = net.like[here.like + unit]
    return code >> 1, 1 - 2 * (code & 1)


@kernel(inlined=True)
def followed(here, signs, unit):
    """The unit that this one is listed to follow, and 1, or -1 if it is turned around; -1 if it is not
    listed.
    """
    for t in range(n_twins(here, signs)):
        listed, other, turned = twin(here, signs, t)
        if listed == unit:
            return other, 1 - 2 * turned
    return -1, 1


@kernel(inlined=True)
def follow_twins(here, signs, word):
    """Set the bits of the units that follow others, once those are settled."""
    for t in range(n_twins(here, signs)):
        unit, other, turned = twin(here, signs, t)
        on = ((word[other >> 6] >> (other & 63)) & 1) ^ turned
        word[unit >> 6] = (word[unit >> 6] & ~(1 << (unit & 63))) | (on << (unit & 63))


# keys


@kernel(inlined=True)
def share_of(net, here, signs, winner):
    """How many keys of the block win together: those that ``winner`` stands for, and its twins."""
    total = max(net.multiplicities[here.offsets + winner], 1)
    for t in range(n_twins(here, signs)):
        key, other, _ = twin(here, signs, t)
        if other == winner:
            total += net.multiplicities[here.offsets + key]
    return total


@kernel(inlined=True)
def has_twins(here, signs, winner):
    """Whether other keys win with this one."""
    found = False
    for t in range(n_twins(here, signs)):
        found = found or twin(here, signs, t)[1] == winner
    return found


@kernel(inner=True)
def add_output(net, here, signs, winner, hidden, out, to, count):
    """Write ``hidden`` plus what the winner of a head puts out, or the mean of what it and its twins do.

    The mean is summed in double-double, so it is off by the roundings of the weights, of the quotient and of
    itself, however many keys tie.
    """
    weights, d, n = net.weights, here.d_out, n_twins(here, signs)
    if n == 0 or not has_twins(here, signs, winner):
        for r in range(count):
            out[to + r] = hidden[r] + weights[here.outputs + winner * d + r]
        return
    share = float(share_of(net, here, signs, winner))
    for r in range(count):
        h, l = 0.0, 0.0
        for t in range(-1, n):
            key, other = winner, winner
            if t >= 0:
                key, other, _ = twin(here, signs, t)
            if other == winner:
                times = float(max(net.multiplicities[here.offsets + key], int(t < 0)))
                ph, pl = pairs.multiply(weights[here.outputs + key * d + r], 0.0, times, 0.0)
                h, l = pairs.add(h, l, ph, pl)
        out[to + r] = hidden[r] + h / share


@kernel(inlined=True)
def common_multiple(a, b):
    """The least common multiple of two positive integers."""
    c, d = a, b
    while d != 0:
        c, d = d, c % d
    return a // c * b


@kernel(inner=True)
def mean_bits(net, here, signs, winners):
    """log2, rounded up, of the least common multiple of the shares of a layer's heads."""
    bits, common = 0.0, 1
    for h in range(here.heads):
        share = share_of(net, here, signs, winners[h])
        common = common_multiple(common, share)
        if common > 1 << 40 or share > 1 << 20:
            bits += math.log2(float(common)) + 1e-9
            common = 1
    return bits + math.log2(float(common)) + 1e-9


@kernel(inner=True)
def mean_multiple(net, here, signs, winners, most):
    """The least common multiple of the shares of those heads of a layer in which keys tie; 0 if it is larger
    than ``most``, below 2^31.
    """
    common = 1
    for h in range(here.heads):
        if common > 0 and has_twins(here, signs, winners[h]):
            share = share_of(net, here, signs, winners[h])
            common = common_multiple(common, share) if share <= most else 0
            common = common if common <= most else 0
    return common
