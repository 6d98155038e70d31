"""Vectors of floats in kernels: values that stay in registers, and functions that write LLVM instructions.

LLVM turns a loop into vector instructions only when it can prove that arrays do not overlap, which it rarely
can. Here a vector is a numba value like any other: it can be loaded, stored, added and passed to a function
that is copied into its caller. Indices are not checked, and negative ones do not count from the end.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

ARRAY, INDEX = None, types.intp  # types of arguments; an array keeps its own


class VectorType(types.Type):
    """The type of a vector of floats with so many bits."""

    def __init__(self, bits: int, lanes: int) -> None:
        self.bits = bits
        self.lanes = lanes
        super().__init__(name=f"vector of {lanes} floats with {bits} bits")

    @property
    def llvm(self) -> ir.VectorType:
        """The same in LLVM."""
        return ir.VectorType(ir.FloatType() if self.bits == 32 else ir.DoubleType(), self.lanes)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.llvm)


def emitted(result: Any, *kinds: Any) -> Any:
    """Make ``emit(builder, *values)``, which writes LLVM instructions, a function that kernels can call.

    Of an array, which is one-dimensional and contiguous, ``emit`` gets the address of its numbers.
    """

    def decorate(emit: Any) -> Any:
        @wraps(emit)
        def typed(typing: Any, *given: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                values = [
                    context.make_array(kind)(context, builder, value).data
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(signature.args, values, strict=True)
                ]
                made = emit(builder, *values)
                if isinstance(made, list):
                    return context.make_tuple(builder, signature.return_type, made)
                return context.get_dummy_value() if made is None else made

            return result(*(a if k is ARRAY else k for a, k in zip(given, kinds, strict=True))), generate

        return intrinsic(typed)

    return decorate


def load_vector(builder: Any, data: Any, index: Any, kind: Any) -> Any:
    """The vector of an LLVM type that begins at ``data[index]``."""
    value = builder.load(builder.bitcast(builder.gep(data, [index]), kind.as_pointer()))
    value.align = _width(kind)
    return value


def store_vector(builder: Any, data: Any, index: Any, value: Any) -> None:
    """Write a vector to ``data[index]`` and what follows."""
    place = builder.bitcast(builder.gep(data, [index]), value.type.as_pointer())
    builder.store(value, place).align = _width(value.type)


def spread_vector(builder: Any, number: Any, kind: Any) -> Any:
    """The same number in every lane."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), None))


def call_vector(builder: Any, name: str, *values: Any) -> Any:
    """A function of LLVM, lane by lane."""
    kind = values[0].type
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(kind, [kind] * len(values)),
        f"llvm.{name}.v{kind.count}f{8 * _width(kind)}",
    )
    return builder.call(function, values)


def _width(kind: Any) -> int:
    """Bytes of a lane."""
    return 4 if kind.element == ir.FloatType() else 8
