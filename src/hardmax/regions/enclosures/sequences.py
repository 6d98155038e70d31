"""Transformers as stages of an enclosure: all tokens move, states have shape (n, tokens, d).

A map that all tokens pass through is the stage of its layer with the tokens as further intervals. In
self-attention the scores are products of two moving vectors, one group for every head and query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.arithmetic import exact_stack, fractions_of
from hardmax.exact.balls import Constant
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions, Transformer
from hardmax.regions.enclosures.jets import Jet
from hardmax.regions.enclosures.stages import Choice, Stage, softmax, stage_of


@dataclass(frozen=True)
class Place:
    """Where the choices of a stage stand in the signature: heads or units from ``first`` on, at tokens."""

    first: int
    tokens: tuple[int, ...]
    token_first: bool  # the order of the choices: tokens outside, or heads outside


def sequence_stages(
    transformer: Transformer, start: ExactArray, end: ExactArray, counts: NDArray[np.int64] | None = None
) -> tuple[list[Stage], list[Place | None]]:
    """The stages of a transformer behind a segment of sequences, and where their choices stand.

    With ``counts`` every token stands for so many equal ones.
    """
    n_tokens = start.shape[0]
    stages: list[Stage] = [_way(start, end)]
    places: list[Place | None] = [None]
    units = groups = unit = head = 0
    seen: tuple[int, ...] = tuple(range(n_tokens))
    for block, tokens in zip(transformer.blocks, transformer.computed(n_tokens), strict=True):
        if isinstance(block, SelfAttention):
            made = [_self_attention(block, n_tokens, [seen.index(t) for t in tokens], counts)]
        else:
            if tokens != seen:
                stages.append(_chosen([seen.index(t) for t in tokens]))
                places.append(None)
            if isinstance(block, Positions):
                made = [_positions(block, tokens)]
            else:
                layers = [layer for plain in block.plain() for layer in plain.layers(0, 0)]
                made = [_per_token(stage_of(layer), len(tokens)) for layer in layers]
        seen = tokens
        for stage in made:
            stage.first = units if stage.units else groups
            units, groups = units + stage.units, groups + stage.groups
            place = None
            if stage.units or stage.groups:
                place = Place(unit if stage.units else head, tokens, not isinstance(block, SelfAttention))
            stages.append(stage)
            places.append(place)
        unit, head = unit + block.width, head + block.heads
    return stages, places


def _way(start: ExactArray, end: ExactArray) -> Stage:
    steps = (fractions_of(end) - fractions_of(start)).reshape(-1, 1)
    w, b = Constant(as_exact(steps, "end", ndim=2)), Constant(start.rearranged(np.ravel))
    shape = start.shape
    return Stage(lambda jet, f, choice: _shaped(jet.affine(w, b), lambda n: (n, *shape)))


def _shaped(jet: Jet, shape: Any) -> Jet:
    return jet.arranged(lambda array: array.reshape(array.shape[0], *shape(array.shape[1])))


def _chosen(rows: list[int]) -> Stage:
    return Stage(lambda jet, f, choice: jet.arranged(lambda array: array[:, :, rows]))


def _positions(block: Positions, tokens: tuple[int, ...]) -> Stage:
    values = Constant(block.values.take(list(tokens)))
    return Stage(lambda jet, f, choice: jet.plus(type(jet.c).constant(values)))


def _per_token(stage: Stage, n_tokens: int) -> Stage:
    """A stage of vectors as a stage of sequences: every token is an interval of its own."""

    def folded(jet: Jet) -> Jet:
        flat = jet.balls.arranged(lambda array: array.reshape(array.shape[0], -1, *array.shape[3:]))
        return Jet(flat, np.repeat(jet.radius, n_tokens))

    def unfolded(jet: Jet, radius: NDArray[Any]) -> Jet:
        def shape(array: NDArray[Any]) -> NDArray[Any]:
            return array.reshape(array.shape[0], -1, n_tokens, *array.shape[2:])

        return Jet(jet.balls.arranged(shape), radius)

    if stage.decide is None:
        return Stage(lambda jet, f, choice: unfolded(stage.leave(folded(jet), None, None), jet.radius))
    inner = stage.decide

    def decide(jet: Jet) -> Jet:
        functions = unfolded(inner(folded(jet)), jet.radius)

        def flat(array: NDArray[Any]) -> NDArray[Any]:
            return array.reshape(*array.shape[:2], -1, *array.shape[4:])

        return functions.arranged(flat)

    size = stage.units + stage.groups

    def leave(jet: Jet, functions: Jet, choice: Choice) -> Jet:
        def flat(array: NDArray[Any]) -> NDArray[Any]:
            return array.reshape(array.shape[0], -1, size, *array.shape[3:])

        again = Jet(functions.balls.arranged(flat), np.repeat(jet.radius, n_tokens))
        return unfolded(stage.leave(folded(jet), again, choice.reshape(-1, size)), jet.radius)

    def same(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        token = a[0] // size
        return token == b[0] // size and stage.same((a[0] % size, *a[1:]), (b[0] % size, *b[1:]))

    return Stage(
        leave,
        decide,
        units=stage.units * n_tokens,
        groups=stage.groups * n_tokens,
        keys=np.tile(stage.keys, (n_tokens, 1)) if stage.groups else stage.keys,
        present=np.tile(stage.present, (n_tokens, 1)) if stage.groups else stage.present,
        free=stage.free,
        same=same,
    )


def _self_attention(
    block: SelfAttention, n_tokens: int, queries: list[int], counts: NDArray[np.int64] | None
) -> Stage:
    heads, n_queries = block.heads, len(queries)
    # the matrices of all heads as one: few large products are faster than many small ones
    w_q, w_k, w_v = (Constant(exact_stack([*ws])) for ws in (block.W_Q, block.W_K, block.W_V))
    b_q, b_k, b_v = (
        _biases(bs, ws) for bs, ws in ((block.b_Q, block.W_Q), (block.b_K, block.W_K), (block.b_V, block.W_V))
    )
    w_o = Constant(exact_stack([*block.W_O], axis=1))
    b_o = None if block.b_O is None else Constant(block.b_O)
    inner, outer = (_slices([w.shape[0] for w in ws]) for ws in (block.W_Q, block.W_V))
    scales = [Constant(as_exact([scale], "scale", ndim=1)) for scale in block.scale]
    bias = block.score_bias
    biases = None if bias is None else [Constant(_rows(bias, h, queries)) for h in range(heads)]
    temperature = Constant(ExactArray(np.array([block.temperature or 1.0])))
    present = np.tile(block.present(n_tokens)[queries], (heads, 1))
    many = None if counts is None else Constant(ExactArray(counts.astype(np.float64)))

    def asked(jet: Jet) -> Jet:
        return jet.arranged(lambda array: array[:, :, queries])

    def decide(jet: Jet) -> Jet:
        constant = type(jet.c).constant
        q, k = asked(jet).affine(w_q, b_q), jet.affine(w_k, b_k)
        k = k.arranged(lambda array: array.swapaxes(-1, -2))
        scores = []
        for h, part in enumerate(inner):
            own = q.arranged(lambda array, part=part: array[..., part])
            s = own.matmul(k.arranged(lambda array, part=part: array[..., part, :]))
            if block.scale[h] != 1:
                s = s.times(constant(scales[h]))
            scores.append(s if biases is None else s.plus(constant(biases[h])))
        balls = type(scores[0].balls).joined(
            [s.balls for s in scores], 2
        )  # (K + 1, n, heads * queries, keys)
        return Jet(balls, jet.radius)

    def leave(jet: Jet, scores: Jet, winners: Choice) -> Jet:
        weights = softmax(scores, present, temperature, many) if block.rule == "softmax" else None
        values = jet.affine(w_v, b_v)
        reads = []
        for h, part in enumerate(outer):
            rows = slice(h * n_queries, (h + 1) * n_queries)
            v = values.arranged(lambda array, part=part: array[..., part])
            if weights is None:
                n = np.arange(len(winners))[:, None]
                chosen = winners[:, rows]
                reads.append(v.arranged(lambda array, n=n, chosen=chosen: array[:, n, chosen]))
            else:
                reads.append(weights.arranged(lambda array, rows=rows: array[:, :, rows]).matmul(v))
        read = Jet(type(jet.balls).joined([part.balls for part in reads], -1), jet.radius)
        total = read.affine(w_o, b_o)
        return total + asked(jet) if block.skip else total

    keys = np.tile(np.arange(n_tokens), (heads * n_queries, 1))
    free = block.rule == "softmax"
    return Stage(leave, decide, groups=heads * n_queries, keys=keys, present=present, free=free)


def _biases(biases: Sequence[ExactArray | None], weights: Sequence[ExactArray]) -> Constant | None:
    if all(b is None for b in biases):
        return None
    zeros = [ExactArray(np.zeros(len(w.floats))) for w in weights]
    return Constant(exact_stack([zero if b is None else b for b, zero in zip(biases, zeros, strict=True)]))


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(*pair) for pair in pairwise(ends)]


def _rows(bias: ExactArray, h: int, queries: list[int]) -> ExactArray:
    return bias.rearranged(lambda array: array[h][queries])


def signature_of(
    choices: Any,
    stages: Sequence[Stage],
    places: Sequence[Place | None],
    transformer: Transformer,
    n_tokens: int,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Routings (n, heads, tokens), -1 where a token is not computed, and bits (n, units, tokens)."""
    n = len(choices.bits)
    routings = np.full((n, transformer.heads_total, n_tokens), -1, dtype=np.int32)
    relu = np.zeros((n, transformer.units_total, n_tokens), dtype=np.bool_)
    for stage, place in zip(stages, places, strict=True):
        if place is None:
            continue
        tokens = list(place.tokens)
        each = (stage.units + stage.groups) // len(tokens)
        shape = (n, len(tokens), each) if place.token_first else (n, each, len(tokens))
        values = choices.of(stage)
        if stage.groups:
            values = np.take_along_axis(stage.keys[None], values[..., None].astype(np.int64), axis=-1)[..., 0]
        values = values.reshape(shape)
        values = values.swapaxes(1, 2) if place.token_first else values
        table = relu if stage.units else routings
        table[:, place.first : place.first + values.shape[1], tokens] = values
    return routings, relu
