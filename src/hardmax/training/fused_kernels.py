r"""One training step as one kernel: forward pass, backward pass and AdamW for a whole batch.

All states stand feature-major, one row per coordinate, so that columns fill vectors. There are two kinds of
columns. The tokens of a few sequences stand side by side, each sequence padded to whole vectors (*block*);
products with weight matrices treat the columns of a block alike. The CLS tokens of a larger number of
sequences stand side by side (*group*), since everything that happens to a CLS token but reading is the same
for all of them.

CLS reads with folded matrices, :math:`q^\top W_K x(s) = (W_K^\top q)^\top x(s)` and :math:`\sum_s p(s) W_V
x(s) = W_V \sum_s p(s) x(s)`, which is exact and touches every token twice instead of projecting all of them;
the last layer needs nothing else. Attention weights of tokens are kept before normalisation, as :math:`e(s,
t) = \exp(\beta (\rho(s,t) - m(t)))` with :math:`r(t) = 1 / \sum_s e(s,t)`; then :math:`\partial L /
\partial \rho = \beta\, e\, (V^\top r\, \partial a - r\, a^\top \partial a)` needs no further sum over s.

Padded columns hold numbers that no real column sees, and their derivatives are zero.

Kernels that say themselves what stays in a register are several times faster than loops
(:mod:`hardmax.vectors`). A tile is the inner loop of a matrix product, written for a fixed number of rows and
vectors that all stay in registers. Vectors have as many lanes as the registers of the processor: 16 with
AVX-512, 8 otherwise.
"""

from __future__ import annotations

import os
from collections import namedtuple
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from hardmax.compiling import kernel
from hardmax.vectors import (
    ARRAY,
    INDEX,
    VectorType,
    emitted,
    load_vector,
    spread_vector,
    store_vector,
)
from hardmax.vectors import call_vector as _call

# Vectors
# ----------------------------------------------------------------------------------------------------------


def _lanes() -> int:
    named = os.environ.get("NUMBA_CPU_NAME")  # kernels for another processor than this one
    return 16 if named is None and llvm.get_host_cpu_features().get("avx512f", False) else 8


LANES = _lanes()
VECTOR = VectorType(32, LANES)
_VECTOR = VECTOR.llvm
_INT = ir.IntType(32)
_WHOLE = ir.VectorType(_INT, LANES)
_ZERO = ir.Constant(_VECTOR, None)


# Memory
# ---------------------------------------------------------------------------------------------------------


def _load(builder: Any, data: Any, index: Any, kind: Any = _VECTOR) -> Any:
    """The vector that begins at ``data[index]``."""
    return load_vector(builder, data, index, kind)


_store = store_vector


def _spread(builder: Any, number: Any) -> Any:
    """The same number in every lane."""
    return spread_vector(builder, number, _VECTOR)


def _spread_at(builder: Any, data: Any, index: Any) -> Any:
    """``data[index]`` in every lane."""
    return _spread(builder, builder.load(builder.gep(data, [index])))


load = emitted(VECTOR, ARRAY, INDEX)(lambda builder, data, index: _load(builder, data, index))
store = emitted(types.void, ARRAY, INDEX, VECTOR)(_store)
spread, spread_at = emitted(VECTOR, types.float32)(_spread), emitted(VECTOR, ARRAY, INDEX)(_spread_at)


# Arithmetic
# -----------------------------------------------------------------------------------------------------


def _select(builder: Any, sign: str, a: Any, b: Any) -> Any:
    """a where it compares so to b, and b elsewhere, also where a is NaN."""
    return builder.select(builder.fcmp_ordered(sign, a, b), a, b)


def _pairwise(emit: Any) -> Any:
    return emitted(VECTOR, VECTOR, VECTOR)(emit)


plus = _pairwise(lambda builder, a, b: builder.fadd(a, b))
minus = _pairwise(lambda builder, a, b: builder.fsub(a, b))
times = _pairwise(lambda builder, a, b: builder.fmul(a, b))
over = _pairwise(lambda builder, a, b: builder.fdiv(a, b))
larger = _pairwise(lambda builder, a, b: _select(builder, ">", a, b))
smaller = _pairwise(lambda builder, a, b: _select(builder, "<", a, b))
madd = emitted(VECTOR, VECTOR, VECTOR, VECTOR)(lambda builder, a, b, c: _call(builder, "fma", a, b, c))
root = emitted(VECTOR, VECTOR)(lambda builder, a: _call(builder, "sqrt", a))


@emitted(VECTOR, VECTOR)
def step(builder, a):
    """One where a is above zero, and zero elsewhere."""
    zero, one = (ir.Constant(_VECTOR, [number] * LANES) for number in (0.0, 1.0))
    return builder.select(builder.fcmp_ordered(">", a, zero), one, zero)


@emitted(VECTOR, VECTOR)
def rough_reciprocal(builder, a):
    """1 / a for positive a, to an eighth: the exponent bits are mirrored; Newton's steps do the rest."""
    mirror = ir.Constant(_WHOLE, [0x7EF311C7] * LANES)
    return builder.bitcast(builder.sub(mirror, builder.bitcast(a, _WHOLE)), _VECTOR)


# of a polynomial for 2^x on [-1/2, 1/2], the highest power first
_EXP2 = (1.535335e-4, 1.3398875e-3, 9.618438e-3, 5.5503324e-2, 2.4022648e-1, 6.931472e-1, 1.0)


def _exp2(builder: Any, *xs: Any) -> list[Any]:
    """2^x for x between -125 and 125: the nearest whole power, times a polynomial.

    Several are computed step by step side by side: a processor looks ahead less far than one takes.
    """

    def spread_out(number: float) -> Any:
        return ir.Constant(_VECTOR, [number] * LANES)

    rounding = spread_out(1.5 * 2.0**23)  # x plus this is x rounded to a whole number, in its lowest bits
    wholes = [builder.fadd(x, rounding) for x in xs]
    rests = [builder.fsub(x, builder.fsub(whole, rounding)) for x, whole in zip(xs, wholes, strict=True)]
    powers = [spread_out(_EXP2[0])] * len(xs)
    for coefficient in map(spread_out, _EXP2[1:]):
        powers = [_call(builder, "fma", p, f, coefficient) for p, f in zip(powers, rests, strict=True)]
    made = []
    for power, whole in zip(powers, wholes, strict=True):  # the whole number is added to the exponent bits
        exponent = builder.shl(builder.bitcast(whole, _WHOLE), ir.Constant(_WHOLE, [23] * LANES))
        made.append(builder.bitcast(builder.add(builder.bitcast(power, _WHOLE), exponent), _VECTOR))
    return made


exp2 = emitted(VECTOR, VECTOR)(lambda builder, x: _exp2(builder, x)[0])


@emitted(types.UniTuple(VECTOR, 4), *[VECTOR] * 4)
def exp2_of_four(builder, a, b, c, d):
    """Four times ``exp2``."""
    return _exp2(builder, a, b, c, d)


def _rotated(builder: Any, vector: Any, n: int) -> Any:
    return builder.shuffle_vector(
        vector, vector, ir.Constant(_WHOLE, [(i + n) % LANES for i in range(LANES)])
    )


def _folded(builder: Any, value: Any, combine: Any) -> Any:
    half = LANES // 2
    while half:
        value = combine(value, _rotated(builder, value, half))
        half //= 2
    return builder.extract_element(value, _INT(0))


_of_lanes = emitted(types.float32, VECTOR)
total = _of_lanes(lambda builder, a: _folded(builder, a, builder.fadd))
largest = _of_lanes(lambda builder, a: _folded(builder, a, partial(_select, builder, ">")))


# Tiles
# ----------------------------------------------------------------------------------------------------------

ZERO, KEPT, BIAS = 0, 1, 2  # what a product starts from


def _sums(builder: Any, n: int) -> list[Any]:
    """Places for n vectors, all zero; LLVM keeps them in registers."""
    places = [cgutils.alloca_once(builder, _VECTOR) for _ in range(n)]
    for place in places:
        builder.store(_ZERO, place)
    return places


def _steps(builder: Any, begin: Any, step: Any, n: int) -> list[Any]:
    """begin, begin + step, ...: n indices."""
    return [builder.add(begin, builder.mul(step, step.type(i))) for i in range(n)]


def product_tile(heights: tuple[int, ...], n_vectors: int) -> Any:
    """The tile of a product that makes some rows of ``n_vectors`` vectors.

    ``tile(high, W, w, by_row, by_column, ws, x, x_step, inner, out, out_step, start, base)`` writes, for row
    i < high, which is one of ``heights``,

        ws[out + i out_step + lane] = start + sum_j W[w + i by_row + j by_column] ws[x + j x_step + lane],

    j < inner, where start is 0 (ZERO), ``ws[base + i out_step + lane]`` (KEPT) or ``W[base + i]`` (BIAS).
    """

    @emitted(types.void, INDEX, ARRAY, *[INDEX] * 3, ARRAY, *[INDEX] * 7)
    def tile(builder, high, W, w, by_row, by_column, ws, x, x_step, inner, out, out_step, start, base):
        whole = inner.type
        lanes = [whole(v * LANES) for v in range(n_vectors)]

        def rows_at_once(n_rows):
            sums = [_sums(builder, n_vectors) for _ in range(n_rows)]
            with builder.if_then(builder.icmp_signed("==", start, whole(KEPT))):
                for row, place in zip(sums, _steps(builder, base, out_step, n_rows), strict=True):
                    for one, lane in zip(row, lanes, strict=True):
                        builder.store(_load(builder, ws, builder.add(place, lane)), one)
            with builder.if_then(builder.icmp_signed("==", start, whole(BIAS))):
                for i, row in enumerate(sums):
                    for one in row:
                        builder.store(_spread_at(builder, W, builder.add(base, whole(i))), one)
            places = _steps(builder, w, by_row, n_rows)
            with cgutils.for_range(builder, inner) as loop:
                across = builder.mul(loop.index, by_column)
                at = builder.add(x, builder.mul(loop.index, x_step))
                vectors = [_load(builder, ws, builder.add(at, lane)) for lane in lanes]
                for row, place in zip(sums, places, strict=True):
                    factor = _spread_at(builder, W, builder.add(place, across))
                    for one, vector in zip(row, vectors, strict=True):
                        builder.store(_call(builder, "fma", factor, vector, builder.load(one)), one)
            for row, place in zip(sums, _steps(builder, out, out_step, n_rows), strict=True):
                for one, lane in zip(row, lanes, strict=True):
                    _store(builder, ws, builder.add(place, lane), builder.load(one))

        for n_rows in heights:
            with builder.if_then(builder.icmp_signed("==", high, whole(n_rows))):
                rows_at_once(n_rows)

    return tile


def _totals(builder: Any, vectors: list[Any]) -> tuple[Any, list[int]]:
    """The sums of 2^k vectors at once: a vector, and the lane in which each sum stands.

    Two vectors are folded into one that holds both, again and again; this takes three instructions per sum
    instead of eight. Halves are chosen such that each shuffle is a single instruction.
    """
    held = [(vector, [number]) for number, vector in enumerate(vectors)]
    block = LANES
    while len(held) > 1:
        half, folded = block // 2, []
        per_lane = max(1, 4 // block)  # blocks inside one 128-bit lane
        for (a, ids_a), (b, ids_b) in zip(held[::2], held[1::2], strict=True):
            low: list[int] = []
            ids: list[int] = []
            if block > 4:
                low = [s + j * block + i for s in (0, LANES) for j in range(len(ids_a)) for i in range(half)]
                ids = [*ids_a, *ids_b]
            else:  # stay inside 128-bit lanes
                for lane in range(0, LANES, 4):
                    first = lane // block
                    for source, names in ((0, ids_a), (LANES, ids_b)):
                        for j in range(per_lane):
                            low += [source + lane + j * block + i for i in range(half)]
                            ids.append(names[first + j])
            high = [index + half for index in low]
            parts = [builder.shuffle_vector(a, b, ir.Constant(_WHOLE, mask)) for mask in (low, high)]
            folded.append((builder.fadd(*parts), ids))
        held, block = folded, half
    vector, ids = held[0]
    lanes = [0] * len(ids)
    for place, number in enumerate(ids):
        lanes[number] = place * block
    while block > 1:
        block //= 2
        vector = builder.fadd(vector, _rotated(builder, vector, block))
    return vector, lanes


def _add_row(builder: Any, data: Any, at: Any, vector: Any, lanes: list[int]) -> None:
    """Add some lanes of a vector to consecutive numbers."""
    whole = ir.Constant(ir.VectorType(_INT, len(lanes)), lanes)
    row = builder.shuffle_vector(vector, vector, whole)
    _store(builder, data, at, builder.fadd(_load(builder, data, at, row.type), row))


def outer_tile(n_rows: int, n_columns: int) -> Any:
    """The tile of a sum of outer products; rows times columns is a power of two.

    ``tile(out, o, by_row, by_column, ws, y, y_step, x, x_step, n)`` adds, for row i and column j,

        out[o + i by_row + j by_column] += sum_{t < n} ws[y + i y_step + t] ws[x + j x_step + t],

    n a multiple of the lanes.
    """

    @emitted(types.void, ARRAY, *[INDEX] * 3, ARRAY, *[INDEX] * 5)
    def tile(builder, out, o, by_row, by_column, ws, y, y_step, x, x_step, n):
        whole = n.type
        sums = [_sums(builder, n_columns) for _ in range(n_rows)]
        ys, xs = _steps(builder, y, y_step, n_rows), _steps(builder, x, x_step, n_columns)
        with cgutils.for_range(builder, builder.sdiv(n, whole(LANES))) as loop:
            at = builder.mul(loop.index, whole(LANES))
            columns = [_load(builder, ws, builder.add(place, at)) for place in xs]
            for row, place in zip(sums, ys, strict=True):
                factor = _load(builder, ws, builder.add(place, at))
                for one, column in zip(row, columns, strict=True):
                    builder.store(_call(builder, "fma", factor, column, builder.load(one)), one)
        vector, lanes = _totals(builder, [builder.load(one) for row in sums for one in row])
        rows = _steps(builder, o, by_row, n_rows)
        with builder.if_else(builder.icmp_signed("==", by_column, whole(1))) as (together, apart):
            with together:
                for i, place in enumerate(rows):
                    _add_row(builder, out, place, vector, lanes[i * n_columns : (i + 1) * n_columns])
            with apart:
                places = [one for place in rows for one in _steps(builder, place, by_column, n_columns)]
                for place, lane in zip(places, lanes, strict=True):
                    number = builder.gep(out, [place])
                    one = builder.extract_element(vector, _INT(lane))
                    builder.store(builder.fadd(builder.load(number), one), number)

    return tile


def sum_tile(n_rows: int) -> Any:
    """The tile of sums over rows; the number of rows is a power of two.

    ``tile(out, o, ws, y, y_step, n)`` adds the sum of ``ws[y + i y_step : ... + n]`` to ``out[o + i]``.
    """

    @emitted(types.void, ARRAY, INDEX, ARRAY, *[INDEX] * 3)
    def tile(builder, out, o, ws, y, y_step, n):
        whole = n.type
        sums, ys = _sums(builder, n_rows), _steps(builder, y, y_step, n_rows)
        with cgutils.for_range(builder, builder.sdiv(n, whole(LANES))) as loop:
            at = builder.mul(loop.index, whole(LANES))
            for one, place in zip(sums, ys, strict=True):
                row = _load(builder, ws, builder.add(place, at))
                builder.store(builder.fadd(builder.load(one), row), one)
        vector, lanes = _totals(builder, [builder.load(one) for one in sums])
        _add_row(builder, out, o, vector, lanes)

    return tile


# The step
# ----------------------------------------------------------------------------------------------------------

f32 = np.float32
NO_POSITIONS, ADDITIVE, APPENDED = 0, 1, 2
TANH, GELU, RELU = 0, 1, 2
LOOK, DERIVE, LEARN = 0, 1, 2  # how far a pass goes

LAYER = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("width", "heads", "hidden", "above"),
            # where parameters begin in the vector
            *("query", "key", "value", "output", "norm_weight", "norm_bias"),
            *("hidden_weight", "hidden_bias", "out_weight", "out_bias"),
            # where states of tokens begin in the work space
            *("x", "qkv", "e", "r", "a", "y", "hat", "spread", "pre", "act"),
            # and of CLS
            *("c", "q", "u", "p", "z", "v", "cy", "chat", "cspread", "cpre", "cact"),
        )
    ]
)


# sizes, and where everything begins
Plan = namedtuple(
    "Plan",
    "depth n_tokens d_token n_outputs activation positions cls_position layer_norm "
    "d_embedded d_position encoder_hidden "
    # parameters
    "first_weight first_bias encoder_weight encoder_bias cls place "
    # columns: of one sequence, of a block, of a group; rows of attention weights
    "own columns group rows "
    # work space
    "inputs embedded_pre embedded_act output d_output dx dx_above dy da dqkv dp dh dc dcy dch dv du dq dd",
)


# Elementary functions
# -------------------------------------------------------------------------------------------


@kernel(inlined=True)
def reciprocal(x):
    """1 / x for positive x, by three steps of Newton; a division takes four times as long."""
    one, y = spread(f32(1.0)), minus(spread(f32(0.0)), x)
    r = rough_reciprocal(x)
    r = madd(r, madd(y, r, one), r)
    r = madd(r, madd(y, r, one), r)
    return madd(r, madd(y, r, one), r)


@kernel(inlined=True)
def tanh(x):
    """1 - 2 / (e^(2x) + 1); beyond 10 it is 1 to the last bit."""
    limit = spread(f32(10.0))
    y = smaller(larger(x, minus(spread(f32(0.0)), limit)), limit)
    e = exp2(times(y, spread(f32(2.8853900817779268))))
    one = spread(f32(1.0))
    r = reciprocal(plus(e, one))
    return minus(one, plus(r, r))


# Products
# -------------------------------------------------------------------------------------------------------

product_of_two, product_of_one = product_tile((6, 4, 2, 1), 2), product_tile((12, 8, 6, 4, 2, 1), 1)
outer_2x4, outer_1x4, outer_4x1, outer_1x1 = (outer_tile(*n) for n in ((2, 4), (1, 4), (4, 1), (1, 1)))
sum_8, sum_1 = (sum_tile(n) for n in (8, 1))


@kernel(inner=True)
def product(W, w, by_row, by_column, ws, x, x_step, out, out_step, rows, inner, columns, start, base):
    """out[i, :] = start + sum_j W[w + i by_row + j by_column] x[j, :].

    The last tile may overlap the one before and then makes some rows twice; ``base`` is therefore never
    ``out`` itself.
    """
    t = 0
    while t < columns:
        wide = 2 if t + 2 * LANES <= columns else 1
        high = 4 if rows >= 4 else 2 if rows >= 2 else 1
        if wide == 2:
            high = 6 if rows % 6 == 0 else high
        else:
            high = 12 if rows % 12 == 0 else 8 if rows >= 8 else 6 if rows >= 6 else high
        i = 0
        while i < rows:
            k = min(i, rows - high)
            r, p, o = w + k * by_row, x + t, out + k * out_step + t
            b = base + k if start == BIAS else base + k * out_step + t
            if wide == 2:
                product_of_two(high, W, r, by_row, by_column, ws, p, x_step, inner, o, out_step, start, b)
            else:
                product_of_one(high, W, r, by_row, by_column, ws, p, x_step, inner, o, out_step, start, b)
            i += high
        t += wide * LANES


@kernel(inner=True)
def outer(out, o, by_row, by_column, ws, y, y_step, x, x_step, rows, columns, n):
    """out[o + i by_row + j by_column] += sum_t y[i, t] x[j, t]."""
    j = 0
    while j + 4 <= columns:
        i = 0
        at, p = o + j * by_column, x + j * x_step
        while i + 2 <= rows:
            outer_2x4(out, at + i * by_row, by_row, by_column, ws, y + i * y_step, y_step, p, x_step, n)
            i += 2
        if i < rows:
            outer_1x4(out, at + i * by_row, by_row, by_column, ws, y + i * y_step, y_step, p, x_step, n)
        j += 4
    while j < columns:
        i = 0
        at, p = o + j * by_column, x + j * x_step
        while i + 4 <= rows:
            outer_4x1(out, at + i * by_row, by_row, by_column, ws, y + i * y_step, y_step, p, x_step, n)
            i += 4
        while i < rows:
            outer_1x1(out, at + i * by_row, by_row, by_column, ws, y + i * y_step, y_step, p, x_step, n)
            i += 1
        j += 1


@kernel(inner=True)
def sums(out, o, ws, y, y_step, rows, n):
    """out[o + i] += sum_t y[i, t]."""
    i = 0
    while i + 8 <= rows:
        sum_8(out, o + i, ws, y + i * y_step, y_step, n)
        i += 8
    while i < rows:
        sum_1(out, o + i, ws, y + i * y_step, y_step, n)
        i += 1


# Parts of a layer
# -----------------------------------------------------------------------------------------------


@kernel(inner=True)
def activate(ws, pre, act, n, kind):
    """act = tanh(pre), or GELU or ReLU with the derivative in place of pre."""
    zero, one, half = spread(f32(0.0)), spread(f32(1.0)), spread(f32(0.5))
    if kind == TANH:
        for i in range(0, n, LANES):
            store(ws, act + i, tanh(load(ws, pre + i)))
        return
    if kind == RELU:
        for i in range(0, n, LANES):
            x = load(ws, pre + i)
            store(ws, act + i, larger(zero, x))  # in this order NaN stays NaN
            store(ws, pre + i, step(x))
        return
    a, b, c = spread(f32(0.7978845608028654)), spread(f32(0.044715)), spread(f32(0.134145))
    for i in range(0, n, LANES):
        x = load(ws, pre + i)
        xx = times(x, x)
        t = tanh(times(times(a, x), madd(xx, b, one)))
        hx = times(half, x)
        store(ws, act + i, madd(hx, t, hx))
        slope = times(times(hx, a), times(minus(one, times(t, t)), madd(xx, c, one)))
        store(ws, pre + i, plus(madd(half, t, half), slope))


@kernel(inner=True)
def activate_back(ws, pre, act, d, n, kind):
    """d times the derivative of the activation."""
    one = spread(f32(1.0))
    for i in range(0, n, LANES):
        if kind == TANH:
            y = load(ws, act + i)
            store(ws, d + i, times(load(ws, d + i), minus(one, times(y, y))))
        else:
            store(ws, d + i, times(load(ws, d + i), load(ws, pre + i)))


@kernel(inner=True)
def normalise(ws, y, hat, deviation, theta, weight, bias, rows, step):
    """Layer norm of each column of y, in place; ``hat`` and ``deviation`` stay for the way back."""
    share = spread(f32(1.0) / f32(rows))
    for t in range(0, step, LANES):
        mean, square = spread(f32(0.0)), spread(f32(0.0))
        for i in range(rows):
            mean = plus(mean, load(ws, y + i * step + t))
        mean = times(mean, share)
        for i in range(rows):
            x = minus(load(ws, y + i * step + t), mean)
            square = madd(x, x, square)
        r = over(spread(f32(1.0)), root(madd(square, share, spread(f32(1e-5)))))
        store(ws, deviation + t, r)
        for i in range(rows):
            x = times(minus(load(ws, y + i * step + t), mean), r)
            store(ws, hat + i * step + t, x)
            store(ws, y + i * step + t, madd(x, spread_at(theta, weight + i), spread_at(theta, bias + i)))


@kernel(inner=True)
def normalise_back(ws, d, hat, deviation, theta, grad, weight, bias, rows, step):
    """d becomes the derivative before the layer norm."""
    sums(grad, bias, ws, d, step, rows, step)
    for i in range(rows):
        outer_1x1(grad, weight + i, 1, 1, ws, d + i * step, step, hat + i * step, step, step)
    share = spread(f32(1.0) / f32(rows))
    for t in range(0, step, LANES):
        mean, along = spread(f32(0.0)), spread(f32(0.0))
        for i in range(rows):
            x = times(load(ws, d + i * step + t), spread_at(theta, weight + i))
            mean = plus(mean, x)
            along = madd(x, load(ws, hat + i * step + t), along)
        mean, along, r = times(mean, share), times(along, share), load(ws, deviation + t)
        for i in range(rows):
            x = times(load(ws, d + i * step + t), spread_at(theta, weight + i))
            x = minus(minus(x, mean), times(load(ws, hat + i * step + t), along))
            store(ws, d + i * step + t, times(r, x))


@kernel(inner=True)
def soften(ws, e, r, own, n_tokens, rows, beta):
    """Scores e[s, t] become exp(beta (e - max_s e)), r their inverse sums; rows beyond the tokens become 0.

    What is 2^-40 of the largest weight or less counts as that. It is lost in the sum; and derivatives pass
    through the weights of two layers, whose product with a gradient must not become a denormal number: on
    those a processor is thirty times slower, and heads that have learnt to be hard would make them all day.
    """
    b, least = spread(beta * f32(1.4426950408889634)), spread(f32(-40.0))
    for t in range(0, own, LANES):
        m = load(ws, e + t)
        m1, m2, m3, s = m, m, m, 1
        while s + 4 <= n_tokens:  # four maxima at once: one alone would wait for itself
            at = e + s * own + t
            m = larger(m, load(ws, at))
            m1 = larger(m1, load(ws, at + own))
            m2 = larger(m2, load(ws, at + 2 * own))
            m3 = larger(m3, load(ws, at + 3 * own))
            s += 4
        while s < n_tokens:
            m = larger(m, load(ws, e + s * own + t))
            s += 1
        m = larger(larger(m, m1), larger(m2, m3))
        m = minus(spread(f32(0.0)), times(m, b))
        l0, l1 = spread(f32(0.0)), spread(f32(0.0))
        s = 0
        while s + 4 <= n_tokens:
            at = e + s * own + t
            x0, x1, x2, x3 = exp2_of_four(
                larger(madd(b, load(ws, at), m), least),
                larger(madd(b, load(ws, at + own), m), least),
                larger(madd(b, load(ws, at + 2 * own), m), least),
                larger(madd(b, load(ws, at + 3 * own), m), least),
            )
            store(ws, at, x0)
            store(ws, at + own, x1)
            store(ws, at + 2 * own, x2)
            store(ws, at + 3 * own, x3)
            l0, l1 = plus(plus(l0, x0), x1), plus(plus(l1, x2), x3)
            s += 4
        while s < n_tokens:
            x = exp2(larger(madd(b, load(ws, e + s * own + t), m), least))
            store(ws, e + s * own + t, x)
            l0 = plus(l0, x)
            s += 1
        store(ws, r + t, reciprocal(plus(l0, l1)))
        for s in range(n_tokens, rows):
            store(ws, e + s * own + t, spread(f32(0.0)))


@kernel(inner=True)
def read(ws, s, n_tokens, own, beta):
    """The softmax of one row of scores; columns beyond the tokens get weight 0."""
    for t in range(n_tokens, own):
        ws[s + t] = ws[s]
    m = load(ws, s)
    for t in range(LANES, own, LANES):
        m = larger(m, load(ws, s + t))
    b, least = spread(beta * f32(1.4426950408889634)), spread(f32(-40.0))
    m = spread(largest(m))
    for t in range(0, own, LANES):
        store(ws, s + t, exp2(larger(times(b, minus(load(ws, s + t), m)), least)))
    for t in range(n_tokens, own):
        ws[s + t] = f32(0.0)
    l = spread(f32(0.0))
    for t in range(0, own, LANES):
        l = plus(l, load(ws, s + t))
    r = spread(f32(1.0) / total(l))
    for t in range(0, own, LANES):
        store(ws, s + t, times(r, load(ws, s + t)))


@kernel(inner=True)
def read_back(ws, p, d, own, beta):
    """d becomes beta p (d - sum_t p d)."""
    a, b = spread(f32(0.0)), spread(beta)
    for t in range(0, own, LANES):
        a = madd(load(ws, p + t), load(ws, d + t), a)
    a = spread(total(a))
    for t in range(0, own, LANES):
        store(ws, d + t, times(times(b, load(ws, p + t)), minus(load(ws, d + t), a)))


@kernel(inner=True)
def fill(ws, at, n):
    """n zeros."""
    for i in range(0, n, LANES):
        store(ws, at + i, spread(f32(0.0)))


@kernel(inner=True)
def feed_forward(plan, layer, theta, ws, y, hat, deviation, pre, act, out, columns):
    """Layer norm if there is one, in place of the states y, and the feed-forward block from y to ``out``."""
    E, w, C = layer.width, layer.hidden, columns
    if plan.layer_norm:
        normalise(ws, y, hat, deviation, theta, layer.norm_weight, layer.norm_bias, E, C)
    product(theta, layer.hidden_weight, E, 1, ws, y, C, pre, C, w, E, C, BIAS, layer.hidden_bias)
    activate(ws, pre, act, w * C, plan.activation)
    product(theta, layer.out_weight, w, 1, ws, act, C, out, C, layer.above, w, C, BIAS, layer.out_bias)


@kernel(inner=True)
def feed_backward(plan, layer, theta, grad, ws, d, y, hat, deviation, pre, act, dh, dy, columns):
    """From the derivative ``d`` of what came out to ``dy``, that of the states before the layer norm."""
    E, w, above, C = layer.width, layer.hidden, layer.above, columns
    sums(grad, layer.out_bias, ws, d, C, above, C)
    outer(grad, layer.out_weight, w, 1, ws, d, C, act, C, above, w, C)
    product(theta, layer.out_weight, 1, w, ws, d, C, dh, C, w, above, C, ZERO, 0)
    activate_back(ws, pre, act, dh, w * C, plan.activation)
    sums(grad, layer.hidden_bias, ws, dh, C, w, C)
    outer(grad, layer.hidden_weight, E, 1, ws, dh, C, y, C, w, E, C)
    product(theta, layer.hidden_weight, 1, E, ws, dh, C, dy, C, E, w, C, ZERO, 0)
    if plan.layer_norm:
        normalise_back(ws, dy, hat, deviation, theta, grad, layer.norm_weight, layer.norm_bias, E, C)


# CLS tokens of a group
# ------------------------------------------------------------------------------------------


@kernel(inner=True)
def cls_forward(plan, layer, beta, theta, ws, out):
    """The CLS tokens of a group through one layer; ``out`` gets what comes out of the block above."""
    E, h, G, own, C = layer.width, layer.heads, plan.group, plan.own, plan.columns
    n, T, B = E // h, plan.n_tokens, C // own
    product(theta, layer.query, E, 1, ws, layer.c, G, layer.q, G, E, E, G, ZERO, 0)
    for i in range(h):
        key, u = layer.key + i * n * E, layer.u + i * E * G
        product(theta, key, 1, E, ws, layer.q + i * n * G, G, u, G, E, n, G, ZERO, 0)
    fill(ws, layer.z, h * E * G)
    for b in range(G):
        x = layer.x + (b // B) * E * C + (b % B) * own
        p = layer.p + b * 2 * h * own
        product(ws, layer.u + b, E * G, G, ws, x, C, p, own, h, E, own, ZERO, 0)
        for i in range(h):
            read(ws, p + i * own, T, own, beta)
        outer(ws, layer.z + b, E * G, G, ws, p, own, x, C, h, E, own)
    for i in range(h):
        value = layer.value + i * n * E
        product(theta, value, E, 1, ws, layer.z + i * E * G, G, layer.v + i * n * G, G, n, E, G, ZERO, 0)
    product(theta, layer.output, E, 1, ws, layer.v, G, layer.cy, G, E, E, G, KEPT, layer.c)
    y, hat, deviation, pre, act = layer.cy, layer.chat, layer.cspread, layer.cpre, layer.cact
    feed_forward(plan, layer, theta, ws, y, hat, deviation, pre, act, out, G)


@kernel(inner=True)
def cls_backward(plan, layer, beta, theta, grad, ws, d, dx):
    """From the derivative ``d`` of what came out to that of the CLS tokens (``plan.dc``) and of the tokens
    that they read (``dx``)."""
    E, h, G, own, C = layer.width, layer.heads, plan.group, plan.own, plan.columns
    n, B = E // h, C // own
    dy, dv, dz, du, dq = plan.dcy, plan.dv, layer.u - h * E * G, plan.du, plan.dq
    y, hat, deviation, pre, act = layer.cy, layer.chat, layer.cspread, layer.cpre, layer.cact
    feed_backward(plan, layer, theta, grad, ws, d, y, hat, deviation, pre, act, plan.dch, dy, G)
    outer(grad, layer.output, E, 1, ws, dy, G, layer.v, G, E, E, G)
    product(theta, layer.output, 1, E, ws, dy, G, dv, G, E, E, G, ZERO, 0)
    for i in range(h):
        value = layer.value + i * n * E
        outer(grad, value, E, 1, ws, dv + i * n * G, G, layer.z + i * E * G, G, n, E, G)
        product(theta, value, 1, E, ws, dv + i * n * G, G, dz + i * E * G, G, E, n, G, ZERO, 0)
    fill(ws, du, h * E * G)
    for b in range(G):
        x = layer.x + (b // B) * E * C + (b % B) * own
        p = layer.p + b * 2 * h * own
        dp = p + h * own
        product(ws, dz + b, E * G, G, ws, x, C, dp, own, h, E, own, ZERO, 0)
        for i in range(h):
            read_back(ws, p + i * own, dp + i * own, own, beta)
        # rows of dz and u, and of p and dp, follow each other: one product for both ways to the tokens
        to = dx + (b // B) * E * C + (b % B) * own
        product(ws, dz + b, G, E * G, ws, p, own, to, C, E, 2 * h, own, ZERO, 0)
        outer(ws, du + b, E * G, G, ws, dp, own, x, C, h, E, own)
    for i in range(h):
        key = layer.key + i * n * E
        outer(grad, key, E, 1, ws, layer.q + i * n * G, G, du + i * E * G, G, n, E, G)
        product(theta, key, E, 1, ws, du + i * E * G, G, dq + i * n * G, G, n, E, G, ZERO, 0)
    outer(grad, layer.query, E, 1, ws, dq, G, layer.c, G, E, E, G)
    product(theta, layer.query, 1, E, ws, dq, G, plan.dc, G, E, E, G, KEPT, dy)


# Tokens of a block
# ----------------------------------------------------------------------------------------------


@kernel(inner=True)
def tokens_forward(plan, layer, beta, theta, ws, block, out):
    """The tokens of a block through one layer, ``out`` gets those of the next."""
    E, h, own, C, R, T = layer.width, layer.heads, plan.own, plan.columns, plan.rows, plan.n_tokens
    n, B = E // h, C // own
    x, q = layer.x + block * E * C, layer.qkv + block * 3 * E * C
    k, v, a, y = q + E * C, q + 2 * E * C, layer.a + block * E * C, layer.y + block * E * C
    product(theta, layer.query, E, 1, ws, x, C, q, C, 3 * E, E, C, ZERO, 0)
    for b in range(B):
        for i in range(h):
            o = i * n * C + b * own
            e = layer.e + ((block * B + b) * h + i) * R * own
            r = layer.r + ((block * B + b) * h + i) * own
            product(ws, k + o, 1, C, ws, q + o, C, e, own, R, n, own, ZERO, 0)
            soften(ws, e, r, own, T, R, beta)
            product(ws, v + o, C, 1, ws, e, own, a + o, C, n, T, own, ZERO, 0)
            for t in range(0, own, LANES):
                factor = load(ws, r + t)
                for m in range(n):
                    store(ws, a + o + m * C + t, times(factor, load(ws, a + o + m * C + t)))
    product(theta, layer.output, E, 1, ws, a, C, y, C, E, E, C, KEPT, x)
    hat, deviation = layer.hat + block * E * C, layer.spread + block * C
    pre, act = layer.pre + block * layer.hidden * C, layer.act + block * layer.hidden * C
    feed_forward(plan, layer, theta, ws, y, hat, deviation, pre, act, out, C)


@kernel(inner=True)
def tokens_backward(plan, layer, beta, theta, grad, ws, block, d, dx):
    """From the derivative ``d`` of the next layer's tokens to that of this one's, added to ``dx``."""
    E, h, own, C, R, T = layer.width, layer.heads, plan.own, plan.columns, plan.rows, plan.n_tokens
    n, B = E // h, C // own
    x, q = layer.x + block * E * C, layer.qkv + block * 3 * E * C
    k, v, a, y = q + E * C, q + 2 * E * C, layer.a + block * E * C, layer.y + block * E * C
    dy, da, dq, dp = plan.dy, plan.da, plan.dqkv, plan.dp
    dk, dv = dq + E * C, dq + 2 * E * C
    hat, deviation = layer.hat + block * E * C, layer.spread + block * C
    pre, act = layer.pre + block * layer.hidden * C, layer.act + block * layer.hidden * C
    feed_backward(plan, layer, theta, grad, ws, d, y, hat, deviation, pre, act, plan.dh, dy, C)
    outer(grad, layer.output, E, 1, ws, dy, C, a, C, E, E, C)
    product(theta, layer.output, 1, E, ws, dy, C, da, C, E, E, C, ZERO, 0)
    fill(ws, dk, 2 * E * C)
    for b in range(B):
        for i in range(h):
            o = i * n * C + b * own
            e = layer.e + ((block * B + b) * h + i) * R * own
            r = layer.r + ((block * B + b) * h + i) * own
            for t in range(0, own, LANES):
                factor, along = load(ws, r + t), spread(f32(0.0))
                for m in range(n):
                    at = o + m * C + t
                    one = times(factor, load(ws, da + at))
                    along = madd(one, load(ws, a + at), along)
                    store(ws, da + at, one)
                store(ws, plan.dd + t, along)
            outer(ws, dv + o, C, 1, ws, da + o, C, e, own, n, R, own)
            product(ws, v + o, 1, C, ws, da + o, C, dp, own, R, n, own, ZERO, 0)
            b_ = spread(beta)
            for t in range(0, own, LANES):
                along = load(ws, plan.dd + t)
                for s in range(R):
                    at = s * own + t
                    value = times(times(b_, load(ws, e + at)), minus(load(ws, dp + at), along))
                    store(ws, dp + at, value)
            outer(ws, dk + o, C, 1, ws, q + o, C, dp, own, n, R, own)
            product(ws, k + o, C, 1, ws, dp, own, dq + o, C, n, T, own, ZERO, 0)
    outer(grad, layer.query, E, 1, ws, dq, C, x, C, 3 * E, E, C)
    for i in range(0, E * C, LANES):
        store(ws, dy + i, plus(load(ws, dy + i), load(ws, dx + i)))
    product(theta, layer.query, 1, E, ws, dq, C, dx, C, E, 3 * E, C, KEPT, dy)


# A group of sequences
# ---------------------------------------------------------------------------------------------------


@kernel(inner=True)
def forward(plan, layers, betas, theta, ws, data, rows, first, last):
    """Outputs for the sequences ``rows[first:last]``, at most a group, one column each."""
    T, d, own, C, G = plan.n_tokens, plan.d_token, plan.own, plan.columns, plan.group
    B, E, inner = C // own, layers[0].width, plan.encoder_hidden
    x, wide, weight, bias = layers[0].x, plan.d_embedded, plan.encoder_weight, plan.encoder_bias
    for b in range(G):
        at = rows[min(first + b, last - 1)] * T * d  # an unfinished group repeats its last sequence
        to = plan.inputs + (b // B) * d * C + (b % B) * own
        for t in range(T):
            for c in range(d):
                ws[to + c * C + t] = data[at + t * d + c]
    for block in range(G // B):
        come = plan.inputs + block * d * C
        to = x + block * E * C
        if inner > 0:
            pre, act = plan.embedded_pre + block * inner * C, plan.embedded_act + block * inner * C
            product(theta, plan.first_weight, d, 1, ws, come, C, pre, C, inner, d, C, BIAS, plan.first_bias)
            activate(ws, pre, act, inner * C, plan.activation)
            product(theta, weight, inner, 1, ws, act, C, to, C, wide, inner, C, BIAS, bias)
        else:
            product(theta, weight, d, 1, ws, come, C, to, C, wide, d, C, BIAS, bias)
        if plan.positions != NO_POSITIONS:
            step, begin = T + plan.cls_position, E - plan.d_position
            for b in range(B):
                for e in range(plan.d_position):
                    at, p = to + (begin + e) * C + b * own, plan.place + e * step
                    for t in range(T):
                        if plan.positions == ADDITIVE:
                            ws[at + t] += theta[p + t]
                        else:
                            ws[at + t] = theta[p + t]
    for e in range(E):
        value = theta[plan.cls + e]
        own_place = e - (E - plan.d_position)
        if plan.cls_position and own_place >= 0:
            value += theta[plan.place + own_place * (T + 1) + T]
        for b in range(G):
            ws[layers[0].c + e * G + b] = value
    for l in range(plan.depth):
        layer = layers[l]
        top = l + 1 == plan.depth
        cls_forward(plan, layer, betas[l], theta, ws, plan.output if top else layers[l + 1].c)
        if not top:
            for block in range(G // B):
                to = layers[l + 1].x + block * layer.above * C
                tokens_forward(plan, layer, betas[l], theta, ws, block, to)


@kernel(inner=True)
def backward(plan, layers, betas, theta, grad, ws):
    """Add the derivative of sum_{i,b} d_output[i, b] output[i, b] to grad."""
    T, d, own, C, G = plan.n_tokens, plan.d_token, plan.own, plan.columns, plan.group
    B, inner = C // own, plan.encoder_hidden
    dx, above, dc = plan.dx, plan.dx_above, plan.d_output
    for m in range(plan.depth):
        l = plan.depth - 1 - m
        layer = layers[l]
        dx, above = above, dx
        cls_backward(plan, layer, betas[l], theta, grad, ws, dc, dx)
        if m > 0:
            for block in range(G // B):
                d_next = above + block * layer.above * C
                tokens_backward(
                    plan, layer, betas[l], theta, grad, ws, block, d_next, dx + block * layer.width * C
                )
        for i in range(0, layer.width * G, LANES):
            store(ws, plan.d_output + i, load(ws, plan.dc + i))
        dc = plan.d_output
    E, wide = layers[0].width, plan.d_embedded
    sums(grad, plan.cls, ws, dc, G, E, G)
    begin = E - plan.d_position
    if plan.cls_position:
        for e in range(plan.d_position):
            sum_1(grad, plan.place + e * (T + 1) + T, ws, dc + (begin + e) * G, G, G)
    for block in range(G // B):
        come, at = plan.inputs + block * d * C, dx + block * E * C
        if plan.positions != NO_POSITIONS:
            for e in range(plan.d_position):
                p, row = plan.place + e * (T + plan.cls_position), at + (begin + e) * C
                for b in range(B):
                    for t in range(T):
                        grad[p + t] += ws[row + b * own + t]
        if wide > 0:
            sums(grad, plan.encoder_bias, ws, at, C, wide, C)
        if inner > 0:
            pre, act = plan.embedded_pre + block * inner * C, plan.embedded_act + block * inner * C
            outer(grad, plan.encoder_weight, inner, 1, ws, at, C, act, C, wide, inner, C)
            product(theta, plan.encoder_weight, 1, inner, ws, at, C, plan.dh, C, inner, wide, C, ZERO, 0)
            activate_back(ws, pre, act, plan.dh, inner * C, plan.activation)
            sums(grad, plan.first_bias, ws, plan.dh, C, inner, C)
            outer(grad, plan.first_weight, d, 1, ws, plan.dh, C, come, C, inner, d, C)
        else:
            outer(grad, plan.encoder_weight, d, 1, ws, at, C, come, C, wide, d, C)


# Steps
# ----------------------------------------------------------------------------------------------------------


@kernel(inner=True)
def adamw(theta, grad, first, second, rate, decay, c1, c2, factor):
    """One step of AdamW with betas 0.9 and 0.999; the gradient is left at zero."""
    b1, b2, eps = spread(f32(0.9)), spread(f32(0.999)), spread(f32(1e-8))
    a1, a2 = spread(f32(1.0) - f32(0.9)), spread(f32(1.0) - f32(0.999))
    keep, s, zero = spread(f32(1.0) - rate * decay), spread(factor), spread(f32(0.0))
    up, down = spread(-rate * c1), spread(c2)
    for i in range(0, theta.size, LANES):
        g = times(load(grad, i), s)
        m = madd(b1, load(first, i), times(a1, g))
        v = madd(b2, load(second, i), times(a2, times(g, g)))
        store(first, i, m)
        store(second, i, v)
        move = over(times(up, m), plus(root(times(v, down)), eps))
        store(theta, i, madd(keep, load(theta, i), move))
        store(grad, i, zero)


@kernel(inner=True)
def norm(grad):
    """The Euclidean norm."""
    a = spread(f32(0.0))
    for i in range(0, grad.size, LANES):
        g = load(grad, i)
        a = madd(g, g, a)
    return np.sqrt(np.float64(total(a)))


@kernel
def run(plan, layers, betas, vectors, data, wanted, order, batch, step, rates, decay, clip, task, out):
    """One pass over a batch of ``order`` for each rate; the mean squared error.

    ``task`` says how far a pass goes: LOOK writes the outputs to ``out``, DERIVE adds the gradient to
    ``grad``, LEARN makes a step of AdamW. It is one kernel because each that can be called from Python would
    hold, and compile, all of the others. ``vectors`` are parameters, gradient, both moments of AdamW, and the
    work space.
    """
    theta, grad, first, second, ws = vectors
    m, G = plan.n_outputs, plan.group
    scale, loss = f32(2.0) / f32(batch * m), 0.0
    for k in range(rates.size):
        last = (k + 1) * batch
        for begin in range(k * batch, last, G):
            end = min(begin + G, last)
            forward(plan, layers, betas, theta, ws, data, order, begin, end)
            for i in range(m):
                for b in range(G):
                    r = f32(0.0)
                    if begin + b < end:
                        value = ws[plan.output + i * G + b]
                        if task == LOOK:
                            out[(begin + b) * m + i] = value
                        else:
                            r = value - wanted[order[begin + b] * m + i]
                    loss += np.float64(r) * np.float64(r)
                    ws[plan.d_output + i * G + b] = scale * r
            if task != LOOK:
                backward(plan, layers, betas, theta, grad, ws)
        if task == LEARN:
            length, factor = norm(grad), 1.0
            if clip > 0.0 and length > clip:
                factor = clip / (length + 1e-6)
            t = step + k + 1
            c1, c2 = 1.0 / (1.0 - 0.9**t), 1.0 / (1.0 - 0.999**t)
            adamw(theta, grad, first, second, f32(rates[k]), f32(decay), f32(c1), f32(c2), f32(factor))
    return loss / (rates.size * batch * m)
