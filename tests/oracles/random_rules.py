"""Numbered small networks whose heads follow the rules of attention, generic and degenerate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import hardmax as hm

from .random_networks import Instance

RULES = ("top-k", "sparsemax", "relu", "leftmost", "rightmost")  # the first head block of a number


def _integers(rng, shape):
    return rng.integers(-2, 3, shape).astype(float)


def _quarters(rng, shape):
    return rng.integers(-8, 9, shape) / 4


def _gaussian(rng, shape):
    return rng.standard_normal(shape)


def _fractions(rng, shape):
    numbers = rng.integers(-6, 7, shape), rng.integers(1, 8, shape)
    return np.frompyfunc(lambda p, q: Fraction(int(p), int(q)), 2, 1)(*numbers)


NUMBERS = (_integers, _integers, _quarters, _gaussian, _fractions)


def _options(rng, rule: str, fewest: int, heads: int) -> dict:
    """Rule and what belongs to it; at least ``fewest`` keys are present in each head."""
    ties = ("mean", "leftmost", "rightmost")[rng.integers(3)]
    if rule in ("leftmost", "rightmost"):
        return {"ties": rule}
    if rule == "hardmax":
        return {"ties": ties}
    if rule == "top-k":
        return {"rule": rule, "k": int(rng.integers(1, fewest + 1)), "ties": ties}
    taus = [Fraction(1, 4), Fraction(1, 3), 0.5, 1, Fraction(5, 3), 2, 4, 7]
    tau = taus[rng.integers(len(taus))]
    if rng.integers(4) == 0:
        tau = [taus[rng.integers(len(taus))] for _ in range(heads)]
    if rule == "relu" and rng.integers(2):
        tau = None
    return {"rule": rule, "temperature": tau}


def _attention(rng, rule: str, d: int, e: int, heads: int, numbers) -> hm.Attention:
    n = int(rng.integers(2, 6 if heads == 1 else 5))
    a, b, v = numbers(rng, (heads, n, d)), numbers(rng, (heads, n)), numbers(rng, (heads, n, e))
    match rng.integers(9):
        case 0:  # keys that are equal
            a[:, -1], b[:, -1] = a[:, 0], b[:, 0]
        case 1:  # keys that are equal, and what they add
            a[:, n // 2], b[:, n // 2], v[:, n // 2] = a[:, 0], b[:, 0], v[:, 0]
        case 2:  # all scores zero for a head
            a[0], b[0] = 0 * a[0], 0 * b[0]
        case 3:  # keys on a line through the origin
            a = a[:, :, :1] * numbers(rng, (1, 1, d))
        case 4:  # no biases
            b = 0 * b
        case 5:  # outputs that are all equal
            v = v * 0 + v[:, :1]
        case 6:  # parallel to an axis
            a[:, :, 0] = a[:, :1, 0]
    mask = np.ones((heads, n), dtype=bool)
    if rng.integers(4) == 0:
        mask = rng.random((heads, n)) < 0.7
        mask[:, rng.integers(n)] = True
    skip = bool(d == e and rng.integers(2))
    options = _options(rng, rule, int(mask.sum(axis=1).min()), heads)
    return hm.Attention(a, b, v, mask=mask, skip=skip, **options)


def rule_instance(number: int) -> Instance:
    """The network of a number: number % 5 is the rule of the first block."""
    rng = np.random.default_rng([17, number])
    first = RULES[number % len(RULES)]
    numbers = NUMBERS[rng.integers(len(NUMBERS))]
    d = (1, 2, 2, 2, 3)[rng.integers(5)]
    deep = rng.integers(3)  # 0: one block, 1: two, 2: a ReLU block between
    if d == 3 and rng.integers(2):
        deep = 0
    widths = [d, *(int(rng.integers(1, 3)) for _ in range(3))]
    if rng.integers(2):
        widths = [d] * 4
    heads = 2 if deep == 0 and rng.integers(3) == 0 else 1
    blocks = [_attention(rng, first, widths[0], widths[1], heads, numbers)]
    if deep == 2:
        units = int(rng.integers(1, 4))
        w_in, b_in = numbers(rng, (units, widths[1])), numbers(rng, (units,))
        if rng.integers(4) == 0:  # off nearly everywhere: what follows sees a constant
            b_in = b_in - 6
        skip = bool(widths[1] == widths[2] and rng.integers(2))
        blocks.append(
            hm.FeedForward(
                w_in, b_in, numbers(rng, (widths[2], units)), numbers(rng, (widths[2],)), skip=skip
            )
        )
    if deep:
        second = ("hardmax", "top-k", "sparsemax", "relu", "leftmost", "rightmost")[rng.integers(6)]
        blocks.append(_attention(rng, second, blocks[-1].d_out, widths[3], 1, numbers))
    low, high = [-1.0] * d, [1.0] * d
    if rng.integers(2):
        low, high = rng.integers(-4, 0, d).tolist(), rng.integers(1, 5, d).tolist()
    kind = " then ".join(
        str(getattr(block, "rule", "ReLU"))
        + ("" if getattr(block, "ties", "mean") == "mean" else " " + block.ties)
        for block in blocks
    )
    return Instance(
        number, f"{kind}, {numbers.__name__[1:]}", f"box, d = {d}", hm.Network(blocks), hm.Box(low, high)
    )
