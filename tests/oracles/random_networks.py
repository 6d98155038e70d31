"""Tiny networks of many kinds, generic and degenerate, and domains of the plane, each reproducible from a
number.

``instance(number)`` is the same everywhere: kind, domain and weights follow from the number. The kinds say
what is special (integer weights, zero biases, duplicate keys, layers that lose rank, dead units, coincidences
spoiled in the last place, ...); everything else is drawn at random, skips, masks and biases included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax import Affine, Attention, Box, FeedForward, Maxout, Network, Polytope, WholeSpace

Array = np.ndarray


@dataclass(frozen=True)
class Instance:
    """A network and a domain of the same dimension."""

    number: int
    kind: str
    place: str
    network: Network
    domain: Box | Polytope | WholeSpace

    @property
    def name(self) -> str:
        return f"number {self.number}: {self.kind}, {self.place}"

    def __repr__(self) -> str:  # what pytest and hypothesis print on failure: enough to rebuild the instance
        return f"Instance({self.name!r})\n{described(self.network, self.domain)}"


def described(network, domain) -> str:
    """Source text that rebuilds a network and a domain, number by number."""

    def text(array) -> str:
        if array is None:
            return "None"
        values = array.floats if array.fractions is None else array.fractions
        return (
            f"np.array({values.tolist()!r}, dtype=object)"
            if array.fractions is not None
            else repr(values.tolist())
        )

    lines = ["network = hm.Network(["]
    for block in network.blocks:
        kind = type(block).__name__
        if kind == "Attention":
            mask = np.asarray(block.mask).tolist()
            inside = [text(block.scores), text(block.biases), text(block.outputs)]
            inside += [f"mask={mask}", f"skip={block.skip}"]
            if (block.rule, block.ties) != ("hardmax", "mean"):
                tau = text(block.temperature)
                inside += [f"rule={block.rule!r}", f"k={block.k}", f"temperature={tau}"]
                inside += [f"ties={block.ties!r}"]
        elif kind == "FeedForward":
            inside = [text(a) for a in (block.w_in, block.b_in, block.w_out, block.b_out)]
            inside += [f"skip={block.skip}", f"slope={text(block.slope)}"]
        elif kind == "Maxout":
            inside = [text(a) for a in (block.scores, block.biases, block.w_out, block.b_out)]
            inside += [f"mask={np.asarray(block.mask).tolist()}", f"skip={block.skip}"]
        else:
            inside = [text(block.w), text(block.b)]
        lines.append(f"    hm.{kind}({', '.join(inside)}),")
    place = type(domain).__name__
    if place == "Box":
        inside = [text(domain.low), text(domain.high)]
    elif place == "Polytope":
        inside = [text(domain.a), text(domain.b)]
    else:
        inside = [str(domain.d)]
    return "\n".join([*lines, "])", f"domain = hm.{place}({', '.join(inside)})"])


# ----------------------------------------------------------------------------------------------
# Numbers
# ----------------------------------------------------------------------------------------------


def _gaussian(rng, shape):
    return rng.standard_normal(shape)


def _integer(rng, shape):
    return rng.integers(-2, 3, shape).astype(float)


def _thirds(rng, shape):
    values = np.empty(shape, dtype=object)
    for index in np.ndindex(values.shape):
        values[index] = Fraction(int(rng.integers(-6, 7)), 3)
    return values


def _tenths(rng, shape):
    """Long in binary, so that coincidences in decimal are near misses in floats."""
    return rng.integers(-20, 21, shape) * 0.1


def _last_place(rng, shape):
    """Integers, many of them moved by a few units in the last place: floats cannot decide, rationals must."""
    values = rng.integers(-2, 3, shape).astype(float)
    return values + rng.integers(-2, 3, shape) * (rng.random(shape) < 0.5) * 2.0**-50


def _scales(rng, shape):
    return rng.integers(-3, 4, shape) * 10.0 ** rng.integers(-6, 7, shape)


NUMBERS = {
    "gaussian": _gaussian,
    "integer": _integer,
    "thirds": _thirds,
    "tenths": _tenths,
    "last place": _last_place,
    "scales": _scales,
}


# ----------------------------------------------------------------------------------------------
# Blocks
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """How the blocks of one network are drawn; ``None`` = at random, block by block."""

    rng: np.random.Generator
    numbers: str
    biased: bool | None = None
    attention_skip: bool | None = None
    ffn_skip: bool | None = None
    heads: tuple[int, int] = (1, 3)
    n_tokens: tuple[int, int] = (2, 7)
    width: tuple[int, int] = (2, 9)
    masked: bool = False

    def coin(self, fixed: bool | None = None) -> bool:
        return bool(self.rng.random() < 0.5) if fixed is None else fixed

    def between(self, bounds: tuple[int, int]) -> int:
        return int(self.rng.integers(bounds[0], bounds[1] + 1))

    def array(self, *shape: int) -> Array:
        return NUMBERS[self.numbers](self.rng, shape)

    def biases(self, *shape: int) -> Array:
        values = self.array(*shape)
        return values if self.coin(self.biased) else values * 0

    def mask(self, heads: int, n_tokens: int) -> Array | None:
        """A mask with a key in every head, for about one layer in ten (always if asked for)."""
        if not self.masked and self.rng.random() > 0.1:
            return None
        mask = self.rng.random((heads, n_tokens)) < 0.6
        mask[np.arange(heads), self.rng.integers(0, n_tokens, heads)] = True
        return mask

    def attention_arrays(self, d: int, e: int) -> tuple[Array, Array, Array]:
        heads, n_tokens = self.between(self.heads), self.between(self.n_tokens)
        return (
            self.array(heads, n_tokens, d),
            self.biases(heads, n_tokens),
            self.array(heads, n_tokens, e),
        )

    def attention(self, d: int, e: int | None = None, arrays=None) -> Attention:
        skip = self.coin(self.attention_skip) if e is None or e == d else False
        scores, biases, outputs = arrays or self.attention_arrays(d, e or d)
        return Attention(scores, biases, outputs, mask=self.mask(*biases.shape), skip=skip)

    def feed_forward_arrays(self, d: int, e: int) -> tuple[Array, Array, Array, Array]:
        width = self.between(self.width)
        return self.array(width, d), self.biases(width), self.array(e, width), self.biases(e)

    def feed_forward(self, d: int, e: int | None = None, arrays=None) -> FeedForward:
        skip = self.coin(self.ffn_skip) if e is None or e == d else False
        return FeedForward(*(arrays or self.feed_forward_arrays(d, e or d)), skip=skip)

    def affine(self, d: int, e: int) -> Affine:
        return Affine(self.array(e, d), self.biases(e))

    def body(self, d: int, size: int | None = None) -> list:
        """One to three blocks from R^d; the last may change the dimension."""
        patterns = [("A",), ("F",), ("A", "A"), ("A", "F"), ("F", "A"), ("A", "F", "A"), ("A", "F", "A", "F")]
        pattern = patterns[int(self.rng.integers(len(patterns))) if size is None else size]
        last = d if self.coin() else self.between((1, 2))
        return [
            (self.attention if letter == "A" else self.feed_forward)(
                d, last if i == len(pattern) - 1 and last != d else None
            )
            for i, letter in enumerate(pattern)
        ]


def _transformer(draw: Draw) -> list:
    return draw.body(2)


def _duplicate_keys(draw: Draw) -> list:
    """Keys that occur several times, with the same or other outputs; sometimes a layer makes more of them
    equal."""
    blocks = _flat(draw) if draw.coin() else []
    arrays = draw.attention_arrays(2, 2)
    n_tokens = arrays[0].shape[1]
    again = draw.rng.integers(0, n_tokens, n_tokens + 2)
    scores, biases, outputs = (a[:, again] for a in arrays)
    if draw.coin():
        outputs = draw.array(*outputs.shape)
    blocks.append(draw.attention(2, arrays=(scores, biases, outputs)))
    return blocks + ([draw.feed_forward(2)] if draw.coin() else [])


def _flat(draw: Draw) -> list:
    """A layer after which less than two dimensions are left, somewhere or everywhere."""
    way = draw.between((0, 3))
    if way == 0:
        return [Affine(draw.array(2, 1) * draw.array(1, 2), draw.biases(2))]
    if way == 1:
        w_in = draw.array(3, 1) * draw.array(1, 2)
        return [FeedForward(w_in, draw.biases(3), draw.array(2, 3), draw.biases(2), skip=draw.coin())]
    if way == 2:
        w_out = draw.array(2, 1) * draw.array(1, 2)
        return [FeedForward(draw.array(2, 2), draw.biases(2), w_out, draw.biases(2))]
    return [FeedForward(None, draw.biases(2), draw.array(2, 2), draw.biases(2))]


def _rank_deficient(draw: Draw) -> list:
    blocks = _flat(draw)
    if draw.coin():
        scores, biases, outputs = draw.attention_arrays(2, 2)
        line = draw.array(1, 1, 2)
        blocks.append(draw.attention(2, arrays=(scores[:, :, :1] * line, biases, outputs)))
    else:
        blocks.append(draw.attention(2))
    return blocks + ([draw.feed_forward(2)] if draw.coin() else [])


def _dead_units(draw: Draw) -> list:
    """Units that are zero, off or on everywhere, units whose output counts for nothing, equal and opposite
    units."""
    w_in, b_in, w_out, b_out = draw.feed_forward_arrays(2, 2)
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
    block = draw.feed_forward(2, arrays=(w_in, b_in, w_out, b_out))
    return [
        *([draw.attention(2)] if draw.coin() else []),
        block,
        *([draw.attention(2)] if draw.coin() else []),
    ]


def _feed_forward_only(draw: Draw) -> list:
    """A multilayer perceptron: later layers have no input matrix of their own."""
    widths = [2] + [draw.between((2, 6)) for _ in range(draw.between((2, 4)))]
    blocks = [FeedForward(draw.array(widths[1], 2), draw.biases(widths[1]), *_out(draw, widths, 2))]
    for i in range(2, len(widths)):
        blocks.append(FeedForward(None, draw.array(widths[i]) * 0, *_out(draw, widths, i + 1)))
    return blocks


def _out(draw: Draw, widths: list[int], i: int) -> tuple[Array, Array]:
    e = widths[i] if i < len(widths) else draw.between((1, 2))
    return draw.array(e, widths[i - 1]), draw.biases(e)


def _several_layers(draw: Draw) -> list:
    draw = Draw(draw.rng, draw.numbers, draw.biased, heads=(1, 2), n_tokens=(2, 5), width=(2, 5))
    letters = [draw.attention, draw.feed_forward]
    first = draw.between((0, 1))
    return [letters[(first + i) % 2](2) for i in range(draw.between((3, 4)))]


def _identical_values(draw: Draw) -> list:
    """All keys of a head add the same: walls without a jump, cells that are one region."""
    scores, biases, outputs = draw.attention_arrays(2, 2)
    outputs = outputs[:, :1] + outputs * 0
    if draw.coin() and outputs.shape[1] > 1:
        outputs[0, -1] = draw.array(2)
    blocks = [draw.attention(2, arrays=(scores, biases, outputs))]
    return blocks + ([draw.feed_forward(2)] if draw.coin() else [])


def _equal_and_opposite(draw: Draw) -> list:
    """Heads that share walls: the same keys again, mirrored or scaled, so that walls coincide and outputs
    cancel."""
    scores, biases, outputs = draw.attention_arrays(2, 2)
    factor = draw.rng.choice([-1, 1, 2])
    scores, biases = (np.concatenate([a[:1], a[:1] * int(factor)]) for a in (scores, biases))
    outputs = np.concatenate([outputs[:1], -outputs[:1] if draw.coin() else outputs[:1]])
    blocks = [draw.attention(2, arrays=(scores, biases, outputs))]
    return blocks + ([draw.feed_forward(2)] if draw.coin() else [draw.attention(2)])


def _wide_slice(draw: Draw) -> list:
    d = draw.between((3, 5))
    return [draw.affine(2, d), *draw.body(d, draw.between((0, 3)))]


def _narrow(draw: Draw) -> list:
    """Through one dimension: parallel strips."""
    return [draw.affine(2, 1), *draw.body(1, draw.between((2, 5)))]


# kind: numbers (None = any), choices for all blocks, blocks
KINDS: dict[str, tuple[str | None, dict, Callable[[Draw], list]]] = {
    "gaussian": ("gaussian", {"biased": True}, _transformer),
    "integer": ("integer", {}, _transformer),
    "zero biases": (None, {"biased": False}, _transformer),
    "duplicate keys": ("integer", {}, _duplicate_keys),
    "rank deficient": ("integer", {}, _rank_deficient),
    "dead units": ("integer", {"width": (2, 6)}, _dead_units),
    "attention skip": (None, {"attention_skip": True, "ffn_skip": False}, _transformer),
    "both skips": (None, {"attention_skip": True, "ffn_skip": True}, _transformer),
    "thirds": ("thirds", {}, _transformer),
    "masks": ("integer", {"masked": True, "n_tokens": (4, 9)}, _transformer),
    "last place": ("last place", {}, _transformer),
    "last place, flat": ("last place", {}, _rank_deficient),
    "attention only": (None, {}, lambda draw: [draw.attention(2), draw.attention(2)]),
    "feed-forward only": (None, {}, _feed_forward_only),
    "feed-forward only, integer": ("integer", {}, _feed_forward_only),
    "several layers": ("gaussian", {}, _several_layers),
    "several layers, integer": ("integer", {}, _several_layers),
    "one token": (None, {"n_tokens": (1, 1)}, _transformer),
    "one head": ("integer", {"heads": (1, 1), "n_tokens": (4, 9)}, _transformer),
    "identical values": ("integer", {}, _identical_values),
    "equal and opposite heads": ("integer", {}, _equal_and_opposite),
    "no attention skip": (None, {"attention_skip": False}, _transformer),
    "wide slice": (None, {"width": (2, 5)}, _wide_slice),
    "one dimension": (None, {}, _narrow),
    "tenths": ("tenths", {}, _transformer),
    "scales": ("scales", {}, _transformer),
}


# ----------------------------------------------------------------------------------------------
# Domains
# ----------------------------------------------------------------------------------------------


def _cube(rng):
    side = int(rng.integers(1, 7))
    return Box.cube(2, -side, side)


def _thirds_box(rng):
    low = [Fraction(int(v), 3) for v in rng.integers(-9, 4, 2)]
    return Box(low, [v + Fraction(int(w), 3) for v, w in zip(low, rng.integers(2, 25, 2), strict=True)])


def _polygon(rng):
    """Three to seven sides around a point; some may be redundant, some have rounded normals."""
    while True:
        n = int(rng.integers(3, 8))
        a = rng.integers(-4, 5, (n, 2)) if rng.random() < 0.5 else rng.standard_normal((n, 2))
        angles = np.sort(np.arctan2(a[:, 1], a[:, 0]))
        gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi))
        if a.any(axis=1).all() and gaps.max() < 3.0:  # bounded, and not by a hair
            centre = rng.integers(-3, 4, 2)
            return Polytope(a, a @ centre + rng.integers(1, 9, n))


def _plane(rng):
    return WholeSpace(2)


def _unbounded(rng):
    """A half-plane, strip, wedge or more: one to four sides around a point that leave a way out."""
    while True:
        n = int(rng.integers(1, 5))
        a = rng.integers(-3, 4, (n, 2)) if rng.random() < 0.7 else rng.standard_normal((n, 2))
        if n > 1 and rng.random() < 0.4:
            a[-1] = -a[0]
        angles = np.sort(np.arctan2(a[:, 1], a[:, 0]))
        gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi))
        if a.any(axis=1).all() and gaps.max() > 3.1:
            centre = rng.integers(-3, 4, 2)
            return Polytope(a, a @ centre + rng.integers(1, 9, n))


def _many_sides(rng):
    """More sides than the bits of a word."""
    n = int(rng.integers(60, 90))
    angles = 2 * np.pi * (np.arange(n) + 0.5 * rng.random(n)) / n
    a = np.column_stack([np.cos(angles), np.sin(angles)])
    return Polytope(a, np.full(n, float(rng.integers(1, 7))))


PLACES: dict[str, Callable] = {
    "cube": _cube,
    "box in thirds": _thirds_box,
    "polygon": _polygon,
    "whole plane": _plane,
    "unbounded polygon": _unbounded,
    "many sides": _many_sides,
}


def instance(number: int) -> Instance:
    """Instance ``number``: the kind and the kind of domain take turns, the rest is drawn."""
    rng = np.random.default_rng([20240, 3, number])
    kinds, places = list(KINDS), list(PLACES)
    kind, place = kinds[number % len(kinds)], places[(number // len(kinds)) % len(places)]
    numbers, choices, blocks = KINDS[kind]
    draw = Draw(rng, numbers or str(rng.choice(list(NUMBERS))), **choices)
    return Instance(number, kind, place, Network(blocks(draw)), PLACES[place](rng))


def instances(count: int, start: int = 0) -> Iterator[Instance]:
    return (instance(number) for number in range(start, start + count))


# ----------------------------------------------------------------------------------------------
# Extreme scales
# ----------------------------------------------------------------------------------------------


def rescaled(case: Instance) -> Instance:
    """The instance with weights and domain times powers of two, up to the ends of the range of floats."""
    rng = np.random.default_rng([20240, 4, case.number])
    largest = int(rng.choice([60, 300, 520, 1000]))

    def power() -> int:
        return int(rng.integers(-largest, largest + 1)) if rng.random() < 0.7 else 0

    def times(array, exponent: int) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            values = np.ldexp(array.floats, exponent)
        return np.nan_to_num(values, posinf=1.7e308, neginf=-1.7e308)

    blocks: list = []
    for block in case.network.blocks:
        e = power()
        if isinstance(block, Attention):
            biases = times(block.biases, power() if rng.random() < 0.3 else e)
            scores, outputs = times(block.scores, e), times(block.outputs, power())
            blocks.append(Attention(scores, biases, outputs, mask=block.mask, skip=block.skip))
        elif isinstance(block, FeedForward):
            w_in = None if block.w_in is None else times(block.w_in, e)
            w_out, b_out = times(block.w_out, power()), times(block.b_out, power())
            b_in, slope = times(block.b_in, e), times(block.slope, power() // 8) if block.leaky else 0
            blocks.append(FeedForward(w_in, b_in, w_out, b_out, skip=block.skip, slope=slope))
        elif isinstance(block, Maxout):
            scores, biases = times(block.scores, e), times(block.biases, e)
            w_out = None if block.w_out is None else times(block.w_out, power())
            b_out = times(block.b_out, power())
            blocks.append(Maxout(scores, biases, w_out, b_out, mask=block.mask, skip=block.skip))
        else:
            blocks.append(Affine(times(block.w, e), times(block.b, power())))
    return Instance(
        case.number,
        f"{case.kind}, rescaled",
        case.place,
        Network(blocks),
        _rescaled(case.domain, times, power),
    )


def _rescaled(domain, times, power):
    """A domain times a power of two; itself if its interior is lost."""
    e = power()
    if isinstance(domain, Box):
        low, high = times(domain.low, e), times(domain.high, e)
        return Box(low, high) if (low < high).all() else domain
    if isinstance(domain, Polytope):
        a, b = times(domain.a, power()), times(domain.b, e)
        return Polytope(a, b) if a.any(axis=1).all() and (b > 0).all() else domain
    return domain
