r"""Hahn 2020: what hard attention cannot read off many tokens, and how little one token weighs in softmax.

A hard head reads one token: the one with the largest score, the first of them if there are several. What a
token holds after a layer is at most its own content and, per head, the position and the content that were
read. Here nothing else is assumed: scores are arbitrary tables, and a readout may do anything with what the
last token holds. So parity of the input can be read off if and only if no two inputs of different parity
leave the same content, which is decided by looking at all inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import permutations, product

import numpy as np

from hardmax.papers.ledger import Effort, Finding, Verdict, claim, holding

Bits = tuple[int, ...]
Ranks = dict[tuple[int, int], int]  # a hard head of one layer: the order of the pairs (position, bit)


def first_best(ranks: Sequence[float]) -> int:
    """The position that a hard head reads: the smallest rank, the first of them on a tie."""
    return min(range(len(ranks)), key=ranks.__getitem__)


def decides_parity(n: int, last_content: Callable[[Bits], Hashable]) -> bool:
    """Whether the parity of n bits is a function of what the last token holds, over all 2^n inputs."""
    seen: dict[Hashable, int] = {}
    return all(seen.setdefault(last_content(x), sum(x) % 2) == sum(x) % 2 for x in product((0, 1), repeat=n))


def reads(heads: Sequence[Ranks], x: Bits) -> tuple[tuple[int, int], ...]:
    """Position and bit that each head of one layer reads."""
    places = [first_best([ranks[i, bit] for i, bit in enumerate(x)]) for ranks in heads]
    return tuple((i, x[i]) for i in places)


def restriction(n: int, heads: Sequence[Ranks]) -> dict[int, int]:
    """Inputs that fix what every head of one layer reads at the last token: the last bit, and one per head.

    The best pair of a head among those that agree with what is fixed is read whatever the other inputs are,
    once it is fixed too.
    """
    fixed = {n - 1: 0}
    for ranks in heads:
        free = [(i, bit) for i, bit in ranks if fixed.get(i, bit) == bit]
        position, bit = min(free, key=ranks.__getitem__)
        fixed[position] = bit
    return fixed


def rankings(n: int) -> Iterator[Ranks]:
    """Every order of the pairs (position, bit) of n tokens: all that one hard head of one layer can be."""
    pairs = list(product(range(n), (0, 1)))
    for order in permutations(range(len(pairs))):
        yield dict(zip(pairs, order, strict=True))


def _random_ranks(rng: np.random.Generator, n: int) -> Ranks:
    return dict(zip(product(range(n), (0, 1)), rng.permutation(2 * n).tolist(), strict=True))


@claim("classical.hahn.one_layer", "Hahn 2020, one layer, sharp", Verdict.PROVED).states(
    "In one layer with H hard heads, whatever the scores, a token can hold the parity of n bits (its own "
    "included) if and only if n <= H + 1.",
    hypotheses="scores depend on the token that asks, and on position and bit of the token that is read; any "
    "readout of the own bit and of what is read",
    computation="all 720 orders of pairs (position, bit) for one head and three bits, and 400 random pairs "
    "of orders for two heads and four bits: whether parity is held, and whether fixing H + 1 inputs fixes "
    "all reads; H heads that read fixed positions for H = 1, 2, 3",
    proof="classical.md#one-layer-of-hard-heads",
    own=True,
)
def _one_layer(effort: Effort) -> Finding:
    rng = np.random.default_rng(2020)
    cases: list[tuple[int, list[Ranks]]] = [(3, [ranks]) for ranks in rankings(3)]
    cases += [(4, [_random_ranks(rng, 4), _random_ranks(rng, 4)]) for _ in range(400)]
    pinned = held = 0
    for n, heads in cases:
        contents = {x: (x[-1], reads(heads, x)) for x in product((0, 1), repeat=n)}
        held += decides_parity(n, contents.__getitem__)
        fixed = restriction(n, heads)
        kept = [x for x in contents if all(x[i] == bit for i, bit in fixed.items())]
        pinned += len({contents[x] for x in kept}) == 1 and len(kept) >= 2
    enough = [_fixed_positions(n_heads) for n_heads in (1, 2, 3)]
    return holding(
        held == 0 and pinned == len(cases) and all(enough),
        f"{len(cases)} layers with H + 2 bits: parity is held by {held}, and H + 1 fixed inputs fix all "
        f"reads in {pinned}; heads on fixed positions hold the parity of H + 1 bits for H = 1, 2, 3",
        {"layers": len(cases), "held": held, "pinned": pinned},
    )


def _fixed_positions(n_heads: int) -> bool:
    """Whether heads that prefer positions 0, 1, ... hold the parity of one bit more than there are heads."""
    n = n_heads + 1
    pairs = list(product(range(n), (0, 1)))
    heads = [{(i, bit): 2 * ((i - h) % n) + bit for i, bit in pairs} for h in range(n_heads)]
    return decides_parity(n, lambda x: (x[-1], reads(heads, x)))


def random_transformer(n: int, n_heads: int, depth: int, seed: int) -> Callable[[Bits], Hashable]:
    """What the last token holds, for random tables of ranks: each depends on layer, head, the token that
    asks with its content, and position and content of the token that is read."""
    tables: dict[Hashable, float] = {}
    rng = np.random.default_rng([2020, seed])

    def rank(key: Hashable) -> float:
        if key not in tables:
            tables[key] = float(rng.random())
        return tables[key]

    def held(layer: int, i: int, contents: Sequence[Hashable]) -> Hashable:
        asks = [(layer, head, i, contents[i]) for head in range(n_heads)]
        places = [first_best([rank((*ask, j, c)) for j, c in enumerate(contents)]) for ask in asks]
        return contents[i], *((j, contents[j]) for j in places)

    def last_content(x: Bits) -> Hashable:
        contents: Sequence[Hashable] = x
        for layer in range(depth):
            contents = [held(layer, i, contents) for i in range(n)]
        return contents[-1]

    return last_content


@claim("classical.hahn.hard", "Hahn 2020, hard attention", Verdict.CHECKED).states(
    "A transformer with hard attention cannot compute the parity of its input for all lengths, unless the "
    "number of layers or heads grows with the length.",
    hypotheses="hard attention reads the first token with the largest score; the theorem for every depth is "
    "cited, its text was not at hand",
    computation="random transformers with arbitrary tables of scores, two layers and one or two heads, and "
    "three layers and one head, of 6 to 10 bits: all inputs, whether parity is a function of what the last "
    "token holds. One layer is settled by classical.hahn.one_layer",
)
def _hard(effort: Effort) -> Finding:
    settings = [(6, 1, 2), (8, 1, 2), (8, 2, 2), (10, 1, 2), (10, 1, 3)]
    draws = 4 if effort is Effort.QUICK else 40
    tried = [
        decides_parity(n, random_transformer(n, heads, depth, seed))
        for n, heads, depth in settings
        for seed in range(draws)
    ]
    return holding(
        not any(tried),
        f"{len(tried)} transformers of 6 to 10 bits, {len(settings)} settings: parity is held by "
        f"{sum(tried)} of them",
        {"transformers": len(tried), "held": sum(tried)},
        by=Verdict.CHECKED,
    )


@claim("classical.hahn.depth", "Hahn 2020, growing depth", Verdict.PROVED).states(
    "With L layers of H hard heads a token can hold the parity of (H + 1)^L bits: log n / log(H + 1) layers, "
    "rounded up, are enough for n bits.",
    hypotheses="hard heads that read fixed positions, and a sum modulo 2 after every layer",
    computation="every input for five pairs (H, L)",
    proof="classical.md#parity-with-growing-depth",
    own=True,
)
def _depth(effort: Effort) -> Finding:
    pairs = [(1, 1), (1, 2), (1, 3), (2, 2), (3, 1)]
    right = [
        all(tree_parity(x, heads, depth) == sum(x) % 2 for x in product((0, 1), repeat=(heads + 1) ** depth))
        for heads, depth in pairs
    ]
    return holding(
        all(right),
        ", ".join(f"{(h + 1) ** l} bits with H = {h}, L = {l}" for h, l in pairs) + ": right on every input",
        {"bits": [(h + 1) ** l for h, l in pairs]},
    )


def tree_parity(x: Sequence[int], heads: int, depth: int) -> int:
    """Token i adds the tokens (H + 1)^l, 2 (H + 1)^l, ... further on, modulo 2, in layer l = 0, 1, ...

    >>> tree_parity([1, 0, 1, 1], 1, 2)
    1
    """
    values = list(x)
    for layer in range(depth):
        step = (heads + 1) ** layer
        values = [sum(values[i : i + heads * step + 1 : step]) % 2 for i in range(len(values))]
    return values[0]


@claim("classical.hahn.soft", "Hahn 2020, soft attention", Verdict.PROVED).states(
    "If one input symbol of a transformer with soft attention is exchanged, what another token holds after "
    "the last layer changes by O(1/n), n the length, with a constant that depends on the weights and not on "
    "n.",
    hypotheses="bounded inputs and positional vectors, Lipschitz feed-forward layers, scores that are "
    "bilinear in the contents, depth and heads fixed",
    computation="an explicit bound for layers tanh(y + attention) with scores and values of norm 1/2: the "
    "largest change over eight exchanged positions against it, for one to three layers and n from 16 to 512; "
    "n times the bound at n = 10^6 and 10^9",
    proof="classical.md#one-token-in-softmax",
)
def _soft(effort: Effort) -> Finding:
    sizes, depths = (16, 64, 256, 512), (1, 2, 3)
    ratios = [_change(n, depth) / largest_change(n, depth) for depth in depths for n in sizes]
    limits = [tuple(n * largest_change(n, depth) for n in (10**6, 10**9)) for depth in depths]
    return holding(
        max(ratios) <= 1 and all(near <= 1.1 * far for near, far in limits),
        f"{len(ratios)} transformers change by at most {max(ratios):.3f} of the bound; n times the bound "
        f"tends to {', '.join(f'{far:.3g}' for _, far in limits)} with one, two, three layers",
        {"ratios": ratios, "limits": limits},
    )


WIDTH, NORM = 3, 0.5


def largest_change(n: int, depth: int) -> float:
    r"""A bound on the change of another token: g from layer to layer, for contents of norm at most B.

    Scores lie within :math:`A = B^2/2` of zero and change by at most :math:`B g`, values by :math:`g/2`; the
    exchanged token has weight at most :math:`e^{2A}/(e^{2A} + n - 1)`.
    """
    g, norm = 0.0, 1.0
    for _ in range(depth):
        value, spread = NORM * norm, np.exp(2 * NORM * norm**2)
        weights = np.expm1(min(4 * NORM * norm * g, 50.0))
        g += weights * value + NORM * g + 4 * value * spread / (spread + n - 1)
        norm = np.sqrt(WIDTH)  # tanh of anything
    return float(g)


def _flipped(x: np.ndarray, j: int) -> np.ndarray:
    return np.where(np.arange(len(x)) == j, 1 - x, x)


def _change(n: int, depth: int) -> float:
    """The largest change of the last token over eight exchanged positions, in a random transformer whose
    weights do not depend on n."""
    rng = np.random.default_rng([202, depth])

    def of_norm(norm: float, *shape: int) -> np.ndarray:
        drawn = rng.standard_normal(shape)
        return norm * drawn / np.linalg.norm(drawn, 2)

    layers = [(of_norm(NORM, WIDTH, WIDTH), of_norm(NORM, WIDTH, WIDTH)) for _ in range(depth)]
    symbols = np.stack([of_norm(0.5, 1, WIDTH)[0] for _ in range(2)])
    waves = np.cos(np.arange(n)[:, None] * rng.uniform(0, 3, WIDTH))
    positions = 0.5 * waves / np.sqrt(WIDTH)

    def last(x: np.ndarray) -> np.ndarray:
        held = symbols[x] + positions
        for scores, values in layers:
            weights = np.exp(held @ scores @ held.T)
            held = np.tanh(held + (weights / weights.sum(axis=1, keepdims=True)) @ (held @ values))
        return np.asarray(held[-1])

    x = np.random.default_rng(n).integers(0, 2, n)
    places = np.linspace(0, n - 2, 8).astype(int)
    return float(max(np.linalg.norm(last(x) - last(_flipped(x, j))) for j in places))
