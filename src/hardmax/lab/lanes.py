"""Vectors as values inside kernels, and the two tiles in which all products are computed.

LLVM turns a loop into vector instructions only when it can prove that arrays do not overlap, which it rarely
can, and keeps little in registers between loops. Kernels that say themselves what stays in a register are
several times faster. Here a vector of floats is a numba value like any other: it can be loaded, stored, added
and passed to a function that is copied into its caller. A tile is the inner loop of a matrix product, written
for a fixed number of rows and vectors that all stay in registers.

Vectors have as many lanes as the registers of the processor: 16 with AVX-512, 8 otherwise. Indices are not
checked, and negative ones do not count from the end. Kernels that use this file are not compiled again when
it is edited: touch them too.
"""

from __future__ import annotations

import os
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

__all__ = [
    "LANES",
    "ROUNDING",
    "larger",
    "largest",
    "load",
    "madd",
    "minus",
    "outer_tile",
    "over",
    "plus",
    "power_of_two",
    "product_tile",
    "root",
    "rough_reciprocal",
    "smaller",
    "spread",
    "spread_at",
    "store",
    "sum_tile",
    "times",
    "total",
]


def _lanes() -> int:
    named = os.environ.get("NUMBA_CPU_NAME")  # kernels for another processor than this one
    return 16 if named is None and llvm.get_host_cpu_features().get("avx512f", False) else 8


LANES = _lanes()
_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_WHOLE = ir.VectorType(_INT, LANES)
_N = types.intp


class VectorType(types.Type):
    """The type of a vector of single-precision floats."""

    def __init__(self) -> None:
        super().__init__(name=f"vector of {LANES} floats")


VECTOR = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


# Memory
# ---------------------------------------------------------------------------------------------------------


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def _load(builder: Any, data: Any, index: Any, kind: Any = _VECTOR) -> Any:
    value = builder.load(builder.bitcast(builder.gep(data, [index]), kind.as_pointer()))
    value.align = 4
    return value


def _store(builder: Any, data: Any, index: Any, value: Any) -> None:
    place = builder.bitcast(builder.gep(data, [index]), value.type.as_pointer())
    builder.store(value, place).align = 4


def _spread(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, _INT(0))
    return builder.shuffle_vector(one, one, ir.Constant(_WHOLE, None))


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """The vector that begins at ``array[index]``; the array is one-dimensional and contiguous."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, _data(context, builder, signature.args[0], arguments[0]), arguments[1])

    return VECTOR(array, _N), generate


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a vector to ``array[index : index + LANES]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _data(context, builder, signature.args[0], arguments[0])
        _store(builder, data, arguments[1], arguments[2])
        return context.get_dummy_value()

    return types.void(array, _N, VECTOR), generate


@intrinsic
def spread(typing: Any, number: Any) -> Any:
    """The same number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _spread(builder, arguments[0])

    return VECTOR(types.float32), generate


@intrinsic
def spread_at(typing: Any, array: Any, index: Any) -> Any:
    """``array[index]`` in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _data(context, builder, signature.args[0], arguments[0])
        return _spread(builder, builder.load(builder.gep(data, [arguments[1]])))

    return VECTOR(array, _N), generate


# Arithmetic
# -----------------------------------------------------------------------------------------------------


def _call(builder: Any, name: str, arguments: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")
    return builder.call(function, arguments)


def _called(name: str) -> Any:
    return lambda context, builder, signature, arguments: _call(builder, name, arguments)


@intrinsic
def madd(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once."""
    return VECTOR(VECTOR, VECTOR, VECTOR), _called("fma")


@intrinsic
def plus(typing: Any, a: Any, b: Any) -> Any:
    """``a + b``."""
    return VECTOR(VECTOR, VECTOR), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic
def minus(typing: Any, a: Any, b: Any) -> Any:
    """``a - b``."""
    return VECTOR(VECTOR, VECTOR), lambda context, builder, signature, arguments: builder.fsub(*arguments)


@intrinsic
def times(typing: Any, a: Any, b: Any) -> Any:
    """``a * b``."""
    return VECTOR(VECTOR, VECTOR), lambda context, builder, signature, arguments: builder.fmul(*arguments)


@intrinsic
def over(typing: Any, a: Any, b: Any) -> Any:
    """``a / b``."""
    return VECTOR(VECTOR, VECTOR), lambda context, builder, signature, arguments: builder.fdiv(*arguments)


@intrinsic
def root(typing: Any, a: Any) -> Any:
    """The square root."""
    return VECTOR(VECTOR), _called("sqrt")


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """The larger of each pair; the second where the first is NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return VECTOR(VECTOR, VECTOR), generate


@intrinsic
def smaller(typing: Any, a: Any, b: Any) -> Any:
    """The smaller of each pair; the second where the first is NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *arguments), *arguments)

    return VECTOR(VECTOR, VECTOR), generate


ROUNDING = 12582912.0
"""1.5 * 2^23: ``x + ROUNDING`` is x rounded to a whole number, which stands in its lowest bits."""


@intrinsic
def power_of_two(typing: Any, a: Any, shifted: Any) -> Any:
    """``a * 2**n`` where ``shifted`` is n + ROUNDING: n is added to the exponent bits, if they have room."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = [builder.bitcast(argument, _WHOLE) for argument in arguments]
        exponent = builder.shl(bits[1], ir.Constant(_WHOLE, [23] * LANES))
        return builder.bitcast(builder.add(bits[0], exponent), _VECTOR)

    return VECTOR(VECTOR, VECTOR), generate


@intrinsic
def rough_reciprocal(typing: Any, a: Any) -> Any:
    """1 / a for positive a, to an eighth: the exponent bits are mirrored; Newton's steps do the rest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        mirror = ir.Constant(_WHOLE, [0x7EF311C7] * LANES)
        return builder.bitcast(builder.sub(mirror, builder.bitcast(arguments[0], _WHOLE)), _VECTOR)

    return VECTOR(VECTOR), generate


def _folded(builder: Any, value: Any, combine: Any) -> Any:
    half = LANES // 2
    while half:
        mask = ir.Constant(_WHOLE, [(i + half) % LANES for i in range(LANES)])
        value = combine(value, builder.shuffle_vector(value, value, mask))
        half //= 2
    return builder.extract_element(value, _INT(0))


@intrinsic
def total(typing: Any, a: Any) -> Any:
    """The sum over the lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _folded(builder, arguments[0], builder.fadd)

    return types.float32(VECTOR), generate


@intrinsic
def largest(typing: Any, a: Any) -> Any:
    """The largest lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def combine(one: Any, other: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", one, other), one, other)

        return _folded(builder, arguments[0], combine)

    return types.float32(VECTOR), generate


# Tiles
# ----------------------------------------------------------------------------------------------------------


def product_tile(n_rows: int, n_vectors: int) -> Any:
    """The tile of a product that makes ``n_rows`` rows of ``n_vectors`` vectors.

    ``tile(W, w, by_row, by_column, ws, x, x_step, inner, out, out_step, start, base)`` writes, for row i,

        ws[out + i out_step + lane] = start + sum_j W[w + i by_row + j by_column] ws[x + j x_step + lane],

    j < inner, where start is 0 (``start == 0``), ``ws[base + i out_step + lane]`` (1) or ``W[base + i]`` (2).
    """

    @intrinsic
    def tile(
        typing: Any,
        W: Any,
        w: Any,
        by_row: Any,
        by_column: Any,
        ws: Any,
        x: Any,
        x_step: Any,
        inner: Any,
        out: Any,
        out_step: Any,
        start: Any,
        base: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            matrix = _data(context, builder, signature.args[0], arguments[0])
            memory = _data(context, builder, signature.args[4], arguments[4])
            w, by_row, by_column = arguments[1:4]
            x, x_step, inner, out, out_step, start, base = arguments[5:]
            whole = inner.type
            sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(n_vectors)] for _ in range(n_rows)]

            def beginning(pick: Any) -> None:
                for i in range(n_rows):
                    for v in range(n_vectors):
                        builder.store(pick(i, v), sums[i][v])

            def kept(i: int, v: int) -> Any:
                place = builder.add(base, builder.mul(out_step, whole(i)))
                return _load(builder, memory, builder.add(place, whole(v * LANES)))

            def bias(i: int, v: int) -> Any:
                return _spread(builder, builder.load(builder.gep(matrix, [builder.add(base, whole(i))])))

            beginning(lambda i, v: ir.Constant(_VECTOR, None))
            with builder.if_then(builder.icmp_signed("==", start, whole(1))):
                beginning(kept)
            with builder.if_then(builder.icmp_signed("==", start, whole(2))):
                beginning(bias)
            rows = [builder.add(w, builder.mul(by_row, whole(i))) for i in range(n_rows)]
            with cgutils.for_range(builder, inner) as loop:
                across = builder.mul(loop.index, by_column)
                at = builder.add(x, builder.mul(loop.index, x_step))
                vectors = [
                    _load(builder, memory, builder.add(at, whole(v * LANES))) for v in range(n_vectors)
                ]
                for i in range(n_rows):
                    number = builder.load(builder.gep(matrix, [builder.add(rows[i], across)]))
                    factor = _spread(builder, number)
                    for v in range(n_vectors):
                        value = _call(builder, "fma", [factor, vectors[v], builder.load(sums[i][v])])
                        builder.store(value, sums[i][v])
            for i in range(n_rows):
                place = builder.add(out, builder.mul(out_step, whole(i)))
                for v in range(n_vectors):
                    value = builder.load(sums[i][v])
                    _store(builder, memory, builder.add(place, whole(v * LANES)), value)
            return context.get_dummy_value()

        return types.void(W, _N, _N, _N, ws, _N, _N, _N, _N, _N, _N, _N), generate

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
        mask = ir.Constant(_WHOLE, [(i + block) % LANES for i in range(LANES)])
        vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, mask))
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

    @intrinsic
    def tile(
        typing: Any,
        out: Any,
        o: Any,
        by_row: Any,
        by_column: Any,
        ws: Any,
        y: Any,
        y_step: Any,
        x: Any,
        x_step: Any,
        n: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = _data(context, builder, signature.args[0], arguments[0])
            memory = _data(context, builder, signature.args[4], arguments[4])
            o, by_row, by_column = arguments[1:4]
            y, y_step, x, x_step, n = arguments[5:]
            whole = n.type
            sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(n_columns)] for _ in range(n_rows)]
            for row in sums:
                for one in row:
                    builder.store(ir.Constant(_VECTOR, None), one)
            ys = [builder.add(y, builder.mul(y_step, whole(i))) for i in range(n_rows)]
            xs = [builder.add(x, builder.mul(x_step, whole(j))) for j in range(n_columns)]
            with cgutils.for_range(builder, builder.sdiv(n, whole(LANES))) as loop:
                at = builder.mul(loop.index, whole(LANES))
                columns = [_load(builder, memory, builder.add(place, at)) for place in xs]
                for i in range(n_rows):
                    row = _load(builder, memory, builder.add(ys[i], at))
                    for j in range(n_columns):
                        value = _call(builder, "fma", [row, columns[j], builder.load(sums[i][j])])
                        builder.store(value, sums[i][j])
            vector, lanes = _totals(builder, [builder.load(one) for row in sums for one in row])
            rows = [builder.add(o, builder.mul(by_row, whole(i))) for i in range(n_rows)]
            with builder.if_else(builder.icmp_signed("==", by_column, whole(1))) as (together, apart):
                with together:
                    for i in range(n_rows):
                        _add_row(builder, target, rows[i], vector, lanes[i * n_columns : (i + 1) * n_columns])
                with apart:
                    for i in range(n_rows):
                        for j in range(n_columns):
                            place = builder.gep(
                                target, [builder.add(rows[i], builder.mul(by_column, whole(j)))]
                            )
                            one = builder.extract_element(vector, _INT(lanes[i * n_columns + j]))
                            builder.store(builder.fadd(builder.load(place), one), place)
            return context.get_dummy_value()

        return types.void(out, _N, _N, _N, ws, _N, _N, _N, _N, _N), generate

    return tile


def sum_tile(n_rows: int) -> Any:
    """The tile of sums over rows; the number of rows is a power of two.

    ``tile(out, o, ws, y, y_step, n)`` adds the sum of ``ws[y + i y_step : ... + n]`` to ``out[o + i]``.
    """

    @intrinsic
    def tile(typing: Any, out: Any, o: Any, ws: Any, y: Any, y_step: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = _data(context, builder, signature.args[0], arguments[0])
            memory = _data(context, builder, signature.args[2], arguments[2])
            o, (y, y_step, n) = arguments[1], arguments[3:]
            whole = n.type
            sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(n_rows)]
            for one in sums:
                builder.store(ir.Constant(_VECTOR, None), one)
            ys = [builder.add(y, builder.mul(y_step, whole(i))) for i in range(n_rows)]
            with cgutils.for_range(builder, builder.sdiv(n, whole(LANES))) as loop:
                at = builder.mul(loop.index, whole(LANES))
                for i in range(n_rows):
                    row = _load(builder, memory, builder.add(ys[i], at))
                    builder.store(builder.fadd(builder.load(sums[i]), row), sums[i])
            vector, lanes = _totals(builder, [builder.load(one) for one in sums])
            _add_row(builder, target, o, vector, lanes)
            return context.get_dummy_value()

        return types.void(out, _N, ws, _N, _N, _N), generate

    return tile
