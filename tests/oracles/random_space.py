"""Tiny networks of many kinds beyond the plane, with their domains, each reproducible from a number.

``space_instance(number)`` is the sibling of ``random_networks.instance`` beyond the plane: kind and kind of
domain take turns, dimension and weights are drawn. Three inputs are the rule, every fourth network has four,
a few have five or six. Sizes are such that the rational enumerator needs a few hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from hardmax import Affine, Box, FeedForward, Network, Polytope, WholeSpace

from .max_group_networks import Maker
from .random_networks import NUMBERS, Draw, Instance

__all__ = ["SPACE_KINDS", "SPACE_PLACES", "space_instance", "space_instances"]


# ----------------------------------------------------------------------------------------------
# Blocks
# ----------------------------------------------------------------------------------------------

PATTERNS = ["A", "F", "AA", "AF", "FA", "FF"]


def _body(draw: Draw, d: int) -> list:
    """One or two blocks from R^d; the last may change the dimension."""
    pattern = PATTERNS[int(draw.rng.integers(len(PATTERNS)))]
    last = None if draw.coin() else draw.between((1, 2))
    return [
        (draw.attention if letter == "A" else draw.feed_forward)(
            d, last if i == len(pattern) - 1 and last != d else None
        )
        for i, letter in enumerate(pattern)
    ]


def _transformer(draw: Draw, d: int) -> list:
    return [draw.attention(d), draw.feed_forward(d)]


def _low_rank(draw: Draw, rows: int, d: int) -> np.ndarray:
    """A matrix of rank at most d - 1, often less."""
    rank = draw.between((1, d - 1))
    terms = [draw.array(rows, 1) * draw.array(1, d) for _ in range(rank)]
    return np.sum(np.array(terms, dtype=terms[0].dtype), axis=0)


def _flat(draw: Draw, d: int) -> list:
    """A layer after which less than d dimensions are left, somewhere or everywhere."""
    way = draw.between((0, 3))
    if way == 0:
        return [Affine(_low_rank(draw, d, d), draw.biases(d))]
    if way == 1:
        w_in = _low_rank(draw, 3, d)
        return [FeedForward(w_in, draw.biases(3), draw.array(d, 3), draw.biases(d), skip=draw.coin())]
    if way == 2:
        w_out = _low_rank(draw, d, 3)
        return [FeedForward(draw.array(3, d), draw.biases(3), w_out, draw.biases(d))]
    return [FeedForward(None, draw.biases(d), draw.array(d, d), draw.biases(d))]


def _rank_deficient(draw: Draw, d: int) -> list:
    """In unbounded domains the cells contain lines."""
    blocks = _flat(draw, d)
    if draw.coin():
        scores, biases, outputs = draw.attention_arrays(d, d)
        line = draw.array(1, 1, d)
        blocks.append(draw.attention(d, arrays=(scores[:, :, :1] * line, biases, outputs)))
    else:
        blocks.append(draw.feed_forward(d) if draw.coin() else draw.attention(d))
    return blocks


def _duplicate_keys(draw: Draw, d: int) -> list:
    """Keys that occur several times, with the same or other outputs; sometimes a layer makes more of them
    equal."""
    blocks = _flat(draw, d) if draw.coin() else []
    arrays = draw.attention_arrays(d, d)
    n_tokens = arrays[0].shape[1]
    again = draw.rng.integers(0, n_tokens, n_tokens + 2)
    scores, biases, outputs = (a[:, again] for a in arrays)
    if draw.coin():
        outputs = draw.array(*outputs.shape)
    blocks.append(draw.attention(d, arrays=(scores, biases, outputs)))
    return blocks


def _dead_units(draw: Draw, d: int) -> list:
    """Units that are zero, off or on everywhere, units whose output counts for nothing, equal and opposite
    units."""
    w_in, b_in, w_out, b_out = draw.feed_forward_arrays(d, d)
    w_in, b_in, w_out = (np.concatenate([a, a], axis=i) for a, i in ((w_in, 0), (b_in, 0), (w_out, 1)))
    for unit in range(len(b_in)):
        way = draw.between((0, 8))
        if way <= 2:
            w_in[unit] = w_in[unit] * 0
            b_in[unit] = (0, -1, 1)[way]
        elif way == 3:
            b_in[unit] = b_in[unit] * 0 - 1000
        elif way == 4:
            w_out[:, unit] = w_out[:, unit] * 0
        elif way == 5:
            w_in[unit], b_in[unit] = -w_in[0], -b_in[0]
    return [
        draw.feed_forward(d, arrays=(w_in, b_in, w_out, b_out)),
        *([draw.attention(d)] if draw.coin() else []),
    ]


def _perceptron(draw: Draw, d: int) -> list:
    """Two hidden layers; the second has no input matrix of its own."""
    first, second, last = draw.between((2, 5)), draw.between((2, 4)), draw.between((1, 2))
    return [
        FeedForward(draw.array(first, d), draw.biases(first), draw.array(second, first), draw.biases(second)),
        FeedForward(None, draw.array(second) * 0, draw.array(last, second), draw.biases(last)),
    ]


def _identical_values(draw: Draw, d: int) -> list:
    """All keys of a head add the same: walls without a jump, cells that are one region."""
    scores, biases, outputs = draw.attention_arrays(d, d)
    outputs = outputs[:, :1] + outputs * 0
    if draw.coin() and outputs.shape[1] > 1:
        outputs[0, -1] = draw.array(d)
    blocks = [draw.attention(d, arrays=(scores, biases, outputs))]
    return blocks + ([draw.feed_forward(d)] if draw.coin() else [])


def _equal_and_opposite(draw: Draw, d: int) -> list:
    """Heads that share walls: the same keys again, mirrored or scaled, so that walls coincide and outputs
    cancel."""
    scores, biases, outputs = draw.attention_arrays(d, d)
    factor = draw.rng.choice([-1, 1, 2])
    scores, biases = (np.concatenate([a[:1], a[:1] * int(factor)]) for a in (scores, biases))
    outputs = np.concatenate([outputs[:1], -outputs[:1] if draw.coin() else outputs[:1]])
    blocks = [draw.attention(d, arrays=(scores, biases, outputs))]
    return blocks + ([draw.feed_forward(d)] if draw.coin() else [])


def _narrow(draw: Draw, d: int) -> list:
    """Through one or two dimensions: every cell is a cylinder."""
    e = draw.between((1, 2))
    return [draw.affine(d, e), *_body(draw, e)]


def _wide(draw: Draw, d: int) -> list:
    """A slice of a network with more inputs."""
    e = d + draw.between((1, 2))
    return [draw.affine(d, e), (draw.attention if draw.coin() else draw.feed_forward)(e)]


def _lattice(draw: Draw, d: int) -> list:
    """Units that are coordinates, their sums and differences: many of them meet in every vertex."""
    width = draw.between(draw.width)
    w_in = draw.rng.integers(-1, 2, (width, d)).astype(float)
    b_in = draw.rng.integers(-1, 2, width).astype(float)
    blocks: list = [FeedForward(w_in, b_in, draw.array(d, width), draw.biases(d), skip=draw.coin())]
    if draw.coin():
        blocks.append(draw.attention(d))
    return blocks


def _max_groups(draw: Draw, d: int) -> list:
    """Maxout, max-pooling and leaky units."""
    make = Maker(draw.rng, draw.numbers)
    first = str(draw.rng.choice(["maxout", "pool", "leaky"]))
    block = getattr(make, first)(d)
    e = block.b_out.shape[0]
    return [block, draw.attention(e)] if draw.coin() else [block]


SMALL: dict = {"heads": (1, 2), "n_tokens": (2, 5), "width": (2, 5)}
SMALLEST: dict = {"heads": (1, 1), "n_tokens": (2, 3), "width": (2, 3)}  # in five and six dimensions

# kind: numbers (None = any), choices for all blocks, blocks
SPACE_KINDS: dict[str, tuple[str | None, dict, Callable[[Draw, int], list]]] = {
    "gaussian": ("gaussian", {"biased": True}, _body),
    "integer": ("integer", {}, _body),
    "zero biases": (None, {"biased": False}, _body),
    "duplicate keys": ("integer", {"n_tokens": (2, 4)}, _duplicate_keys),
    "rank deficient": ("integer", {}, _rank_deficient),
    "dead units": ("integer", {"width": (2, 4), "n_tokens": (2, 3)}, _dead_units),
    "both skips": (None, {"attention_skip": True, "ffn_skip": True}, _body),
    "no skips": (None, {"attention_skip": False, "ffn_skip": False}, _body),
    "thirds": ("thirds", {}, _body),
    "masks": ("integer", {"masked": True, "n_tokens": (4, 7)}, _body),
    "last place": ("last place", {}, _body),
    "last place, flat": ("last place", {}, _rank_deficient),
    "perceptron": (None, {}, _perceptron),
    "perceptron, integer": ("integer", {}, _perceptron),
    "transformer": ("gaussian", {"n_tokens": (2, 4), "width": (2, 3)}, _transformer),
    "transformer, integer": ("integer", {"n_tokens": (2, 4), "width": (2, 3)}, _transformer),
    "one head": ("integer", {"heads": (1, 1), "n_tokens": (5, 9)}, lambda draw, d: [draw.attention(d)]),
    "identical values": ("integer", {"n_tokens": (2, 4), "width": (2, 3)}, _identical_values),
    "equal and opposite heads": ("integer", {"n_tokens": (2, 4), "width": (2, 3)}, _equal_and_opposite),
    "narrow": (None, {}, _narrow),
    "wide": (None, {}, _wide),
    "lattice": ("integer", {"n_tokens": (2, 3)}, _lattice),
    "max-groups": (None, {"n_tokens": (2, 3)}, _max_groups),
    "tenths": ("tenths", {}, _body),
    "scales": ("scales", {}, _body),
}


# ----------------------------------------------------------------------------------------------
# Domains
# ----------------------------------------------------------------------------------------------


def _cube(rng, d):
    side = int(rng.integers(1, 5))
    return Box.cube(d, -side, side)


def _thirds_box(rng, d):
    low = [Fraction(int(v), 3) for v in rng.integers(-9, 4, d)]
    return Box(low, [v + Fraction(int(w), 3) for v, w in zip(low, rng.integers(2, 25, d), strict=True)])


def _simplex(rng, d):
    """A simplex around a point, with one or two more sides; some may be redundant, some meet in a vertex."""
    a = np.concatenate([-np.eye(d), np.ones((1, d)), rng.integers(-2, 3, (2, d))])
    a = a[a.any(axis=1)]
    if rng.random() < 0.5:
        a = a + 0.1 * rng.standard_normal(a.shape)
    return Polytope(a, a @ rng.integers(-2, 3, d) + rng.integers(1, 6, len(a)))


def _whole(rng, d):
    return WholeSpace(d)


def _unbounded(rng, d):
    """One to d half-spaces around a point, sometimes a slab: unbounded, and often with lines."""
    n = int(rng.integers(1, d + 1))
    a = rng.integers(-3, 4, (n, d)) if rng.random() < 0.7 else rng.standard_normal((n, d))
    a[~a.any(axis=1), 0] = 1
    if n > 1 and rng.random() < 0.4:
        a[-1] = -a[0]
    return Polytope(a, a @ rng.integers(-3, 4, d) + rng.integers(1, 9, n))


SPACE_PLACES: dict[str, Callable] = {
    "cube": _cube,
    "whole space": _whole,
    "box in thirds": _thirds_box,
    "unbounded": _unbounded,
    "simplex": _simplex,
}


def space_instance(number: int) -> Instance:
    """Instance ``number``: kind and kind of domain take turns, the rest is drawn."""
    rng = np.random.default_rng([20240, 5, number])
    kinds, places = list(SPACE_KINDS), list(SPACE_PLACES)
    kind, turn = kinds[number % len(kinds)], number // len(kinds)
    place = places[turn % len(places)]
    d = int(rng.choice([3, 4, 5, 6], p=[0.72, 0.22, 0.04, 0.02]))
    numbers, choices, blocks = SPACE_KINDS[kind]
    sizes = {**SMALL, **choices, **(SMALLEST if d > 4 else {})}
    draw = Draw(rng, numbers or str(rng.choice(list(NUMBERS))), **sizes)
    return Instance(number, kind, place, Network(blocks(draw, d)), SPACE_PLACES[place](rng, d))


def space_instances(count: int, start: int = 0) -> Iterator[Instance]:
    return (space_instance(number) for number in range(start, start + count))
