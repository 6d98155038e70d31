"""Numbered small networks with properties: random, tight, strict and weak, on boxes and polytopes."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

import hardmax as hm
from hardmax.verification.properties import Atom, Joined, Linear

from .random_rules import rule_instance


def _numbers(rng):
    kind = rng.integers(4)
    if kind == 0:
        return lambda shape: rng.integers(-2, 3, shape).astype(float)
    if kind == 1:
        return lambda shape: rng.standard_normal(shape)
    if kind == 2:
        return lambda shape: rng.integers(-8, 9, shape) / 4
    return lambda shape: np.frompyfunc(lambda p, q: Fraction(int(p), int(q)), 2, 1)(
        rng.integers(-6, 7, shape), rng.integers(1, 8, shape)
    )


def relu_network(rng) -> tuple[hm.Network, object]:
    """ReLU, leaky, skip connections, maxout; a box or a polytope."""
    draw, d = _numbers(rng), int(rng.integers(1, 4))
    kind = rng.integers(4)
    if kind == 3:
        groups = int(rng.integers(1, 4))
        first = hm.Maxout(draw((groups, 3, d)), draw((groups, 3)), draw((2, groups)), draw((2,)))
        blocks = [first, hm.FeedForward(draw((2, 2)), draw((2,)), draw((2, 2)), draw((2,)))]
    else:
        widths = [d, *rng.integers(1, 4, rng.integers(1, 3)).tolist()]
        blocks = []
        for a, b in itertools.pairwise(widths):
            slope = Fraction(1, 4) if kind == 1 else 0
            out = a if kind == 2 else b
            blocks.append(
                hm.FeedForward(
                    draw((b, a)), draw((b,)), draw((out, b)), draw((out,)), slope=slope, skip=kind == 2
                )
            )
            if kind == 2 and out != b:
                blocks.append(hm.Affine(draw((b, out)), draw((b,))))
        blocks.append(hm.Affine(draw((2, widths[-1])), draw((2,))))
    low, high = rng.integers(-3, 0, d).tolist(), rng.integers(1, 4, d).tolist()
    domain = hm.Box(low, high)
    if rng.integers(4) == 0:
        eye = np.eye(d)
        cut = rng.integers(-2, 3, (1, d)).astype(float)
        domain = hm.Polytope(np.concatenate([eye, -eye, cut]), [*high, *(-v for v in low), 1.0])
    return hm.Network(blocks), domain


def drawn(number: int) -> tuple[hm.Network, object]:
    """The network and domain of a number: every third one has heads."""
    if number % 3 == 0:
        instance = rule_instance(number // 3)
        return instance.network, instance.domain
    return relu_network(np.random.default_rng([23, number]))


def unsafe(number: int, network: hm.Network, top) -> list[list[tuple]]:
    """Conjunctions (x, y, constant, strict); ``top(weights)`` is a supremum that tight ones touch."""
    rng = np.random.default_rng([29, number])
    cases = []
    for _ in range(int(rng.integers(1, 3))):
        case = []
        for _ in range(int(rng.integers(1, 3))):
            y = [Fraction(int(v)) for v in rng.integers(-2, 3, network.d_out)]
            x = [
                Fraction(int(v)) if rng.integers(3) == 0 else Fraction(0)
                for v in rng.integers(-2, 3, network.d)
            ]
            constant = Fraction(int(rng.integers(-16, 9)), 4)
            case.append((x, y, constant, bool(rng.integers(2))))
        if rng.integers(
            2
        ):  # touches the supremum: whether it holds hangs on strictness and on what is attained
            y = [Fraction(int(v)) for v in rng.integers(-2, 3, network.d_out)]
            zero = [Fraction(0)] * network.d
            shift = Fraction(int(rng.integers(-1, 2)), 10**12) if rng.integers(3) == 0 else Fraction(0)
            case = [(zero, y, -top(y) + shift, bool(rng.integers(2)))]
        cases.append(case)
    return cases


def condition(cases):
    """The same as a condition of hardmax."""
    parts = []
    for case in cases:
        atoms = []
        for x, y, constant, strict in case:
            terms = [("x", i, v) for i, v in enumerate(x) if v] + [("y", i, v) for i, v in enumerate(y) if v]
            atoms.append(Atom(Linear(tuple(terms), constant), strict))
        parts.append(Joined(True, tuple(atoms)))
    return Joined(False, tuple(parts))
