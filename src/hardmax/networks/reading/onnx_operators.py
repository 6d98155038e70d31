"""The operators of ONNX that are read, each as operations of a graph.

A value is a tensor of the graph (floats, which may depend on the input) or a plain array: floats of the file
as they stand there, and whole numbers, which shapes and indices are made of. What ONNX says of an operator
changes with its version, mostly where an attribute became an input of the same name; :class:`Call` finds
either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import nearest_float
from hardmax.networks.reading.forms import Numbers, SparseMatrix, fractions, numbers_of
from hardmax.networks.reading.graph import Graph, Shape, Tensor
from hardmax.networks.reading.normalisation import batch_norm
from hardmax.networks.reading.windows import average_pool, convolve, max_pool

Value = Tensor | NDArray[Any]

_MOST_ENTRIES = 2**24  # of one tensor, or of the entries of one sparse matrix
_MOST_IN_ALL = 2**25
_MOST_AXES = 16
_MOST_COMPUTED = 2**20  # entries of a constant that is computed, or of factors that may be fractions
_MOST_BITS = 2**12  # of one fraction
_MOST_BITS_IN_ALL = 2**27
_UNBOUNDED = float(np.finfo(np.float32).max)  # how files write that Clip has no limit


class Refused(Exception):
    """Why a node cannot be read, without its name."""


@dataclass
class Sizes:
    """What has been made so far: a file must not take memory or time without end."""

    total: int = 0
    bits: int = 0  # of fractions

    def charge(self, shape: Sequence[int], what: str = "a value") -> None:
        """Count a value before it is made."""
        size = prod(shape)
        self.total += size
        if len(shape) > _MOST_AXES or size > _MOST_ENTRIES or self.total > _MOST_IN_ALL:
            raise Refused(f"makes {what} too large to be read, of {size:,} numbers")

    def compute(self, size: int) -> None:
        """Look at numbers before they are computed: exact arithmetic is slow."""
        if size > _MOST_COMPUTED:
            raise Refused(f"computes {size:,} numbers exactly, which takes too long")

    def check(self, made: Sequence[Value]) -> None:
        """Look at what was made: no floats without entries, no fractions that grow without end."""
        for value in made:
            if not isinstance(value, Tensor):
                continue
            if 0 in value.shape:
                raise Refused(f"makes a value without entries, of shape {value.shape}")
            if value.value is not None and value.value.dtype == object:
                lengths = [max(abs(v.numerator), v.denominator).bit_length() for v in value.value.flat]
                self.bits += sum(lengths)
                if max(lengths) > _MOST_BITS or self.bits > _MOST_BITS_IN_ALL:
                    raise Refused("makes constants that are fractions too long to be read")


@dataclass
class Call:
    """One node, with what it reads and its attributes; defaults are those of its version."""

    graph: Graph
    sizes: Sizes
    version: int
    attributes: dict[str, Any]
    names: list[str]
    inputs: list[Value | None]
    n_outputs: int
    final: bool
    read_tensor: Callable[[Any], NDArray[Any]]
    note: dict[str, Any] = field(default_factory=dict)

    def value(self, i: int) -> Value | None:
        """An input, or ``None`` if it is left out."""
        return self.inputs[i] if i < len(self.inputs) else None

    def given(self, i: int) -> Value:
        """An input that must be there."""
        found = self.value(i)
        if found is None:
            raise Refused(f"has no input {i}")
        return found

    def tensor(self, i: int) -> Tensor:
        """An input of floats."""
        return self.lifted(self.given(i))

    def lifted(self, value: Value) -> Tensor:
        """Floats as a tensor of the graph."""
        if isinstance(value, Tensor):
            return value
        if value.dtype.kind != "f":
            raise Refused("computes with whole numbers where floats are read")
        return self.graph.constant(value)

    def constant(self, i: int, what: str) -> Numbers:
        """An input whose numbers are known."""
        found = self.tensor(i).value
        if found is None:
            raise Refused(f"has {what} that depend on the input")
        return found

    def option(self, name: str) -> Any:
        """An attribute, or the array of an input of that name; ``None`` if there is neither."""
        if name in self.attributes:
            return self.attributes[name]
        found = self.value(self.names.index(name)) if name in self.names else None
        if isinstance(found, Tensor):
            if found.value is None:
                raise Refused(f"has {name} that depends on the input")
            return found.value
        return found

    def integers(self, name: str) -> list[int] | None:
        """Whole numbers: an attribute or an input."""
        found = self.option(name)
        if found is None:
            return None
        array = np.asarray(found, dtype=np.int64 if isinstance(found, list) else None)
        if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > 2**16:
            raise Refused(f"has {name} that are no list of whole numbers")
        return [int(n) for n in array.reshape(-1)]

    def number(self, name: str) -> Any:
        """One number: an attribute or an input."""
        found = self.option(name)
        if found is None:
            return None
        array = np.asarray(found)
        if array.size != 1 or array.dtype.kind not in "fiuO":
            raise Refused(f"has {name} that is not one number")
        return array.reshape(-1)[0]

    def axis(self, name: str, rank: int, *, end: bool = False) -> int:
        """An axis as a number from 0; ``end`` allows the one behind the last."""
        return _axis(int(self.attributes[name]), rank, end)

    def flag(self, name: str) -> bool:
        """A whole number that means yes or no."""
        found = self.attributes.get(name, 0)
        if found not in (0, 1):  # runtimes differ about what else it means
            raise Refused(f"has {name} {found}, which must be 0 or 1")
        return bool(found)


def _axis(axis: int, rank: int, end: bool = False) -> int:
    if not -rank <= axis < rank + end:
        raise Refused(f"has axis {axis}, but reads a value with {rank} axes")
    return axis + rank if axis < 0 else axis


def _axes(axes: Sequence[int], rank: int) -> list[int]:
    found = [_axis(axis, rank) for axis in axes]
    if len(set(found)) != len(found):
        raise Refused("names an axis twice")
    return found


# Entries in another order
# ----------------------------------------------------------------------------------------------------------


def _moved(call: Call, value: Value, move: Callable[[NDArray[Any]], NDArray[Any]]) -> list[Value]:
    """Entries in another order: of plain arrays themselves, of tensors by their numbers."""
    if not isinstance(value, Tensor):
        return [np.asarray(move(value))]
    return [call.graph.select(value, move(value.positions))]


def _identity(call: Call) -> list[Value]:
    return [call.given(0)]


def _reshaped(call: Call, shape: Sequence[int]) -> list[Value]:
    value = call.given(0)
    if prod(shape) != prod(value.shape):
        raise Refused(f"gives {prod(value.shape)} entries the shape {tuple(shape)}")
    if isinstance(value, Tensor):
        return [call.graph.reshape(value, shape)]
    return [value.reshape(shape)]


def _reshape(call: Call) -> list[Value]:
    before, wanted = call.given(0).shape, call.integers("shape")
    if wanted is None or len(wanted) > _MOST_AXES or min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        raise Refused(f"has shape {wanted}")
    if not call.flag("allowzero"):
        if any(size == 0 and i >= len(before) for i, size in enumerate(wanted)):
            raise Refused(f"has shape {wanted} for a value of shape {before}")
        wanted = [before[i] if size == 0 else size for i, size in enumerate(wanted)]
    if -1 in wanted:
        rest = prod(size for size in wanted if size != -1)
        if rest == 0 or prod(before) % rest:
            raise Refused(f"has shape {wanted} for a value of shape {before}")
        wanted = [prod(before) // rest if size == -1 else size for size in wanted]
    return _reshaped(call, wanted)


def _flatten(call: Call) -> list[Value]:
    shape = call.given(0).shape
    axis = call.axis("axis", len(shape), end=True)
    return _reshaped(call, (prod(shape[:axis]), prod(shape[axis:])))


def _squeeze(call: Call) -> list[Value]:
    shape, axes = call.given(0).shape, call.integers("axes")
    if axes == []:
        raise Refused("has an empty list of axes")
    chosen = [i for i, n in enumerate(shape) if n == 1] if axes is None else _axes(axes, len(shape))
    if any(shape[i] != 1 for i in chosen):
        raise Refused(f"removes axes {chosen} of shape {shape}, not all of length 1")
    return _reshaped(call, [n for i, n in enumerate(shape) if i not in chosen])


def _unsqueeze(call: Call) -> list[Value]:
    shape, axes = call.given(0).shape, call.integers("axes")
    if axes is None or len(axes) > _MOST_AXES:
        raise Refused(f"has axes {axes}" if axes is None else "has too many axes")
    chosen, rest = _axes(axes, len(shape) + len(axes)), iter(shape)
    return _reshaped(call, [1 if i in chosen else next(rest) for i in range(len(shape) + len(axes))])


def _transpose(call: Call) -> list[Value]:
    value = call.given(0)
    order = call.attributes.get("perm") or list(range(len(value.shape)))[::-1]
    if sorted(order) != list(range(len(value.shape))):
        raise Refused(f"has perm {order} for a value with {len(value.shape)} axes")
    return _moved(call, value, lambda entries: np.transpose(entries, order))


def _concat(call: Call) -> list[Value]:
    parts = [call.given(i) for i in range(len(call.inputs))]
    axis = call.axis("axis", len(parts[0].shape))
    shapes = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    if len(shapes) != 1 or len({len(part.shape) for part in parts}) != 1:
        raise Refused(f"joins shapes {', '.join(str(part.shape) for part in parts[:5])}")
    call.sizes.charge([sum(prod(part.shape) for part in parts)])
    if any(isinstance(part, Tensor) for part in parts):
        return [call.graph.concat([call.lifted(part) for part in parts], axis)]
    return [np.concatenate(_plain(call, parts), axis=axis)]


def _slice(call: Call) -> list[Value]:
    value = call.given(0)
    starts, ends = call.integers("starts") or [], call.integers("ends") or []
    axes, steps = call.integers("axes"), call.integers("steps")
    axes = _axes(list(range(len(starts))) if axes is None else axes, len(value.shape))
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Refused(f"has starts {starts}, ends {ends}, axes {axes} and steps {steps}")
    cuts = [slice(None)] * len(value.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cuts[axis] = slice(start, end, step)
    return _moved(call, value, lambda entries: entries[tuple(cuts)])


def _split(call: Call) -> list[Value]:
    value = call.given(0)
    axis = call.axis("axis", len(value.shape))
    n, count, sizes = value.shape[axis], call.n_outputs, call.integers("split")
    if sizes is None:
        if call.attributes.get("num_outputs", count) != count or (n % count and call.version < 18):
            raise Refused(f"splits {n} entries into {count} parts")
        each = -(-n // count)
        sizes = [min(each, max(n - i * each, 0)) for i in range(count)]
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != n:
        raise Refused(f"splits {n} entries into {count} parts of {sizes[:8]}")
    ends = np.cumsum(sizes)
    parts: list[Value] = []
    for end, size in zip(ends, sizes, strict=True):
        parts += _moved(call, value, lambda e, s=slice(end - size, end): e[(slice(None),) * axis + (s,)])  # type: ignore[misc]
    return parts


def _gather(call: Call) -> list[Value]:
    value, index = call.given(0), call.given(1)
    axis = call.axis("axis", len(value.shape))
    if isinstance(index, Tensor) or index.dtype.kind not in "iu":
        raise Refused("has indices that are not known whole numbers")
    n = value.shape[axis]
    if index.size and not (int(index.min()) >= -n and int(index.max()) < n):
        raise Refused(f"has indices {int(index.min())} to {int(index.max())} into {n} entries")
    call.sizes.charge([*value.shape[:axis], *index.shape, *value.shape[axis + 1 :]])
    return _moved(call, value, lambda entries: np.take(entries, index, axis=axis))


def _expand(call: Call) -> list[Value]:
    value, wanted = call.given(0), call.integers("shape")
    if wanted is None or min(wanted, default=1) < 0 or len(wanted) > _MOST_AXES:
        raise Refused(f"has shape {wanted}")
    shape = _broadcast(call, [value.shape, tuple(wanted)])
    return _moved(call, value, lambda entries: np.broadcast_to(entries, shape))


def _pad(call: Call) -> list[Value]:
    value, pads, axes = call.given(0), call.integers("pads"), call.integers("axes")
    rank = len(value.shape)
    axes = _axes(list(range(rank)) if axes is None else axes, rank)
    mode = call.attributes["mode"].decode("ascii", "replace")
    if mode not in ("constant", "reflect", "edge"):
        raise Refused(f"has mode {mode!r}")
    if pads is None or len(pads) != 2 * len(axes):
        raise Refused(f"has {len(pads or [])} pads for {len(axes)} axes")
    fill = call.number("value" if "value" in call.attributes else "constant_value")
    before, after = np.zeros((2, rank), dtype=object)
    before[axes], after[axes] = pads[: len(axes)], pads[len(axes) :]
    kept = [slice(max(0, -b), n - max(0, -a)) for n, b, a in zip(value.shape, before, after, strict=True)]
    left = [max(0, s.stop - s.start) for s in kept]
    wide = [(max(0, b), max(0, a)) for b, a in zip(before, after, strict=True)]
    call.sizes.charge([n + b + a for n, (b, a) in zip(left, wide, strict=True)])
    if mode == "reflect" and any(n <= max(b, a) for n, (b, a) in zip(left, wide, strict=True) if b or a):
        raise Refused("reflects more entries than there are")
    if 0 in left and mode != "constant":
        raise Refused("pads a value without entries")
    if mode != "constant":
        return _moved(call, value, lambda entries: np.pad(entries[tuple(kept)], wide, mode=mode))
    tensor = call.lifted(value)
    index = np.pad(tensor.positions[tuple(kept)], wide, constant_values=tensor.size)
    return [call.graph.gather([tensor, call.graph.constant(0.0 if fill is None else fill)], index)]


# Constants
# ----------------------------------------------------------------------------------------------------------


def _constant(call: Call) -> list[Value]:
    names = [name for name in call.attributes if name.startswith("value")]
    if len(names) != 1 or names[0] in ("value_string", "value_strings") or "sparse_value" in call.attributes:
        raise Refused("must have one value of plain numbers")
    value = call.attributes[names[0]]
    if names[0] == "value":
        return [call.read_tensor(value)]
    call.sizes.charge(np.shape(value))
    return [np.array(value, dtype=np.float64 if "float" in names[0] else np.int64)]


def _constant_of_shape(call: Call) -> list[Value]:
    found = call.given(0)
    if (
        isinstance(found, Tensor)
        or found.dtype.kind not in "iu"
        or found.ndim != 1
        or len(found) > _MOST_AXES
    ):
        raise Refused("has a shape that is not known")
    shape = [int(n) for n in found]
    if min(shape, default=0) < 0:
        raise Refused(f"has shape {shape}")
    call.sizes.charge(shape)
    filled = call.read_tensor(call.attributes["value"]) if "value" in call.attributes else np.zeros(1)
    if filled.size != 1:
        raise Refused("must have a value of one number")
    return [np.full(shape, filled.reshape(-1)[0])]


def _shape(call: Call) -> list[Value]:
    sizes = call.given(0).shape
    return [np.array(sizes, dtype=np.int64)[call.attributes.get("start", 0) : call.attributes.get("end")]]


_CASTS = {1: np.float32, 10: np.float16, 11: np.float64, 16: np.float32}  # bfloat16 is rounded below
_WHOLE = {
    2: np.uint8,
    3: np.int8,
    4: np.uint16,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    12: np.uint32,
}


def _rounded(known: NDArray[Any]) -> NDArray[np.float64]:
    """The next floats; infinities beyond them."""
    if known.dtype != object:
        return known.astype(np.float64)
    return np.array([nearest_float(value) for value in known.flat], dtype=np.float64).reshape(known.shape)


def _cast(call: Call) -> list[Value]:
    """Floats of the input stay what they are, as everywhere without rounding; constants are rounded."""
    value, to = call.given(0), int(call.attributes["to"])
    known = value.value if isinstance(value, Tensor) else value
    if to not in _CASTS and to not in _WHOLE:
        raise Refused("casts to a type that is not read")
    if known is None:
        if to in _WHOLE:
            raise Refused("casts a value that depends on the input to whole numbers")
        return [value]
    if to in _CASTS and to != 16:
        with np.errstate(over="ignore"):
            return [_rounded(known).astype(_CASTS[to]).astype(np.float64)]
    if to == 16:
        raise Refused("casts a constant to bfloat16")
    if known.dtype.kind in "fO" and not bool(np.all(np.abs(known) < 2.0**31)):
        raise Refused("casts constants to whole numbers that are too large")
    if _WHOLE[to] is np.bool_:
        return [np.asarray(known != 0, dtype=np.bool_)]
    return [np.trunc(known.astype(np.float64)).astype(_WHOLE[to])]


# Arithmetic
# ----------------------------------------------------------------------------------------------------------


def _broadcast(call: Call, shapes: Sequence[Shape]) -> Shape:
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise Refused(f"joins shapes {', '.join(map(str, shapes[:5]))}") from None
    call.sizes.charge(shape)
    return shape


def _plain(call: Call, values: Sequence[Value]) -> list[NDArray[Any]]:
    """Plain arrays of one type."""
    arrays = [value for value in values if not isinstance(value, Tensor)]
    if len(arrays) != len(values) or len({array.dtype for array in arrays}) != 1:
        raise Refused("joins values of different types")
    return arrays


def _entrywise(
    whole: Callable[..., Any], floats: Callable[[Call, list[Tensor]], Tensor]
) -> Callable[[Call], list[Value]]:
    """An operator with one function for whole numbers and one for floats; shapes are broadcast."""

    def operator(call: Call) -> list[Value]:
        values = [call.given(i) for i in range(len(call.inputs))]
        shapes = [value.shape for value in values]
        if len(set(shapes)) > 1 and call.version < 7:
            raise Refused(
                f"joins shapes {', '.join(map(str, shapes[:5]))}, which its version does not repeat"
            )
        shape = _broadcast(call, shapes)
        if all(not isinstance(value, Tensor) and value.dtype.kind in "iu" for value in values):
            arrays = _plain(call, values)
            with np.errstate(all="ignore"):
                found = arrays[0]
                for other in arrays[1:]:
                    found = np.asarray(whole(found, other), dtype=found.dtype)
                return [whole(found) if len(arrays) == 1 else found]
        tensors = [call.lifted(value) for value in values]
        if all(tensor.value is not None for tensor in tensors):
            call.sizes.compute(prod(shape))
        return [floats(call, tensors)]

    return operator


def _sum(call: Call, tensors: list[Tensor]) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = call.graph.add(total, tensor)
    return total


def _times(call: Call, tensors: list[Tensor]) -> Tensor:
    a, b = tensors
    if b.value is None:
        a, b = b, a
    if b.value is None:
        raise Refused("multiplies two values that depend on the input")
    return call.graph.scale(a, b.value)


def _divided(call: Call, tensors: list[Tensor]) -> Tensor:
    a, b = tensors
    if b.value is None:
        raise Refused("divides by a value that depends on the input")
    if not bool(np.all(b.value != 0)):
        raise Refused("divides by zero")
    call.sizes.compute(b.size)
    return call.graph.scale(a, numbers_of(Fraction(1) / fractions(b.value), "a factor"))


def _whole_division(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    if not b.all():
        raise Refused("divides by zero")
    towards_zero = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    return np.asarray(towards_zero if a.dtype.kind == "i" else a // b)


def _largest(call: Call, tensors: list[Tensor]) -> Tensor:
    return call.graph.maximum(tensors)


def _smallest(call: Call, tensors: list[Tensor]) -> Tensor:
    negated = [call.graph.negate(tensor) for tensor in tensors]
    return call.graph.negate(call.graph.maximum(negated))


# Linear layers
# ----------------------------------------------------------------------------------------------------------


def _product(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The matrix product as numpy understands it, of which one factor must be known."""
    if not a.shape or not b.shape:
        raise Refused("multiplies a value without axes")
    if b.value is not None:
        return _times_known(call, a, b.value)
    if a.value is None:
        raise Refused("multiplies two values that depend on the input")
    # a b is the transpose of b' a'
    found = _times_known(
        call, _turned(call, b), a.value if a.value.ndim == 1 else np.swapaxes(a.value, -1, -2)
    )
    return found if 1 in (len(a.shape), len(b.shape)) else _turned(call, found)


def _turned(call: Call, tensor: Tensor) -> Tensor:
    """The last two axes exchanged, if there are two."""
    if len(tensor.shape) == 1:
        return tensor
    if tensor.value is not None:
        return call.graph.constant(np.swapaxes(tensor.value, -1, -2))
    return call.graph.select(tensor, np.swapaxes(tensor.positions, -1, -2))


def _times_known(call: Call, a: Tensor, b: Numbers) -> Tensor:
    """A tensor times a known matrix, or stack of them."""
    left = a.positions[None, :] if len(a.shape) == 1 else a.positions
    right = b[:, None] if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise Refused(f"multiplies shapes {a.shape} and {b.shape}")
    stack = _broadcast(call, [left.shape[:-2], right.shape[:-2]])
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    full = (*stack, m, n, k)
    call.sizes.charge(full, "a matrix")
    _check_fractions(a, b, k, prod(full))
    columns, values = left[..., :, None, :], np.swapaxes(right, -1, -2)[..., None, :, :]
    if prod(full) == n * k:  # one row times one matrix, the usual case
        matrix = SparseMatrix.of_dense(values.reshape(n, k), "weights")
    else:
        rows = np.repeat(np.arange(prod(stack) * m * n), k)
        columns, values = (np.broadcast_to(array, full).ravel() for array in (columns, values))
        matrix = SparseMatrix.of_entries(rows, columns, values, (prod(stack) * m * n, a.size))
    shape = [*stack, *([m] if len(a.shape) > 1 else []), *([n] if b.ndim > 1 else [])]
    return call.graph.affine(a, matrix, shape=shape)


def _check_fractions(a: Tensor, b: Numbers, terms: int, products: int) -> None:
    """Sums of many fractions with different denominators take long: they grow with every term."""
    known = [b] if a.value is None else [a.value, b]
    if a.value is not None and any(array.dtype == object for array in known):
        bits = max(
            int(max(abs(v.numerator), v.denominator)).bit_length() for c in known for v in fractions(c).flat
        )
        if products * terms * bits > 2**28:
            raise Refused("makes constants of fractions that are too long")


def _matmul(call: Call) -> list[Value]:
    return [_product(call, call.tensor(0), call.tensor(1))]


def _gemm(call: Call) -> list[Value]:
    a, b = call.tensor(0), call.tensor(1)
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise Refused(f"multiplies shapes {a.shape} and {b.shape}")
    a = _turned(call, a) if call.flag("transA") else a
    b = _turned(call, b) if call.flag("transB") else b
    found = call.graph.scale(_product(call, a, b), _factor(call, "alpha"))
    if call.value(2) is None:
        return [found]
    added = call.tensor(2)
    if _broadcast(call, [found.shape, added.shape]) != found.shape:
        raise Refused(f"adds shape {added.shape} to shape {found.shape}")
    return [call.graph.add(found, call.graph.scale(added, _factor(call, "beta")))]


def _factor(call: Call, name: str) -> float:
    value = float(call.attributes[name])
    if not np.isfinite(value):
        raise Refused(f"has {name} {value}")
    return value


def _sliding(call: Call, x: Tensor, kernel: Sequence[int]) -> dict[str, Any]:
    """How windows slide over the axes behind the first two, from the attributes of a node."""
    grid = x.shape[2:]
    d = len(grid)
    if d == 0 or len(kernel) != d or min(kernel) < 1:
        raise Refused(f"has a kernel of shape {tuple(kernel)} for shape {x.shape}")
    found: dict[str, Any] = {}
    for name, length, least in (("strides", d, 1), ("dilations", d, 1), ("pads", 2 * d, 0)):
        found[name] = call.attributes.get(name) or [least] * length
        if len(found[name]) != length or min(found[name]) < least:
            raise Refused(f"has {name} {found[name][:8]} for {d} axes")
    if max(*kernel, *found["strides"], *found["dilations"], *found["pads"]) > 2**31:
        raise Refused("has windows that are too large")
    auto = call.attributes["auto_pad"].decode("ascii", "replace")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for n, k, stride, dilation in zip(grid, kernel, found["strides"], found["dilations"], strict=True):
            total = max(0, (-(-n // stride) - 1) * stride + dilation * (k - 1) + 1 - n)
            small, large = total // 2, total - total // 2
            pads.append((small, large) if auto == "SAME_UPPER" else (large, small))
    elif auto in ("NOTSET", "VALID"):
        given = [0] * (2 * d) if auto == "VALID" else found["pads"]
        pads = list(zip(given[:d], given[d:], strict=True))
    else:
        raise Refused(f"has auto_pad {auto[:40]!r}")
    found["pads"] = pads
    if "ceil_mode" in call.attributes:
        found["ceil"] = call.flag("ceil_mode")
    most = [(n + sum(pad)) // stride + 1 for n, pad, stride in zip(grid, pads, found["strides"], strict=True)]
    call.sizes.charge([*x.shape[:2], *most, *kernel], "windows")
    return found


def _image_by_image(call: Call, x: Tensor, layer: Callable[[Tensor], Tensor]) -> list[Value]:
    """A layer of (channels, grid) for each entry of the first axis, which is most often one long."""
    made = []
    for i in range(x.shape[0]):
        image = layer(call.graph.select(x, x.positions[i]))
        made.append(call.graph.reshape(image, (1, *image.shape)))
    return [made[0] if len(made) == 1 else call.graph.concat(made, 0)]


def _conv(call: Call) -> list[Value]:
    x, weights = call.tensor(0), call.constant(1, "weights")
    bias = None if call.value(2) is None else call.constant(2, "biases")
    groups = int(call.attributes["group"])
    if len(x.shape) < 3 or weights.ndim != len(x.shape) or groups < 1:
        raise Refused(f"reads shape {x.shape} with weights of shape {weights.shape} in {groups} groups")
    filters, depth, *kernel = weights.shape
    if call.attributes.get("kernel_shape", kernel) != kernel:
        raise Refused(f"has another kernel_shape than its weights of shape {weights.shape}")
    if bias is not None and bias.shape != (filters,):
        raise Refused(f"has biases of shape {bias.shape} for {filters} filters")
    options = _sliding(call, x, kernel)
    call.sizes.charge([filters, *x.shape[2:], depth, *kernel], "a matrix")
    _check_fractions(x, weights, depth * prod(kernel), filters * x.size * prod(kernel))
    return _image_by_image(
        call, x, lambda image: convolve(call.graph, image, weights, bias, groups=groups, **options)
    )


def _batch_normalization(call: Call) -> list[Value]:
    x = call.tensor(0)
    trained = call.flag("training_mode") or (call.n_outputs > 1 and call.version < 14)
    if trained or not call.attributes.get("spatial", 1):
        raise Refused("is in training mode" if trained else "does not normalise channels")
    if len(x.shape) < 2:
        raise Refused(f"reads shape {x.shape}, which has no channels")
    scale, shift, mean, variance = (call.constant(i, "statistics") for i in range(1, 5))
    call.sizes.compute(mean.size)
    call.note["rounded"] = "scale over root of variance of each channel of BatchNormalization, to float64"
    epsilon = _factor(call, "epsilon")
    return _image_by_image(
        call, x, lambda image: batch_norm(call.graph, image, mean, variance, scale, shift, epsilon)
    )


# Units and pools
# ----------------------------------------------------------------------------------------------------------


def _relu(call: Call) -> list[Value]:
    return [call.graph.relu(call.tensor(0))]


def _leaky_relu(call: Call) -> list[Value]:
    return [call.graph.relu(call.tensor(0), _factor(call, "alpha"))]


def _absolute(call: Call) -> list[Value]:
    return [call.graph.relu(call.tensor(0), -1)]


def _prelu(call: Call) -> list[Value]:
    x, slopes = call.tensor(0), call.constant(1, "slopes")
    if _broadcast(call, [x.shape, slopes.shape]) != x.shape:
        raise Refused(f"has slopes of shape {slopes.shape} for shape {x.shape}")
    return [call.graph.relu(x, slopes)]


def _clip(call: Call) -> list[Value]:
    x, low, high = call.tensor(0), call.number("min"), call.number("max")
    if any(limit is not None and limit != limit for limit in (low, high)):
        raise Refused("has a limit that is not a number")
    low = None if low is None or low <= -_UNBOUNDED else low
    high = None if high is None or high >= _UNBOUNDED else high
    for limit in (low, high):
        if limit is not None and abs(limit) == float("inf"):
            raise Refused(f"has the limit {limit}")
    if low is not None and high is not None and low > high:  # ONNX: then the result is max everywhere
        return [call.graph.broadcast(call.graph.constant(high), x.shape)]
    return [call.graph.clip(x, low, high)]


def _hard_sigmoid(call: Call) -> list[Value]:
    scaled = call.graph.scale(call.tensor(0), _factor(call, "alpha"))
    return [call.graph.clip(call.graph.shift(scaled, _factor(call, "beta")), 0, 1)]


def _max_pool(call: Call) -> list[Value]:
    x, kernel = call.tensor(0), call.attributes["kernel_shape"]
    options = _sliding(call, x, kernel)
    return _image_by_image(call, x, lambda image: max_pool(call.graph, image, kernel, **options))


def _average_pool(call: Call) -> list[Value]:
    x, kernel = call.tensor(0), call.attributes["kernel_shape"]
    options = _sliding(call, x, kernel) | {"count_padding": call.flag("count_include_pad")}
    call.sizes.compute(x.size * prod(kernel))
    _check_fractions(x, np.ones(1), prod(kernel), x.size * prod(kernel))
    return _image_by_image(call, x, lambda image: average_pool(call.graph, image, kernel, **options))


def _reduced(mean: bool, choose: str) -> Callable[[Call], list[Value]]:
    """Sums, means, maxima and minima over some axes."""

    def operator(call: Call) -> list[Value]:
        x, axes = call.tensor(0), call.integers("axes")
        rank = len(x.shape)
        if not axes and call.flag("noop_with_empty_axes"):
            return [x]
        chosen = _axes(axes, rank) if axes else list(range(rank))
        kept = [i for i in range(rank) if i not in chosen]
        groups = np.transpose(x.positions, kept + chosen).reshape(prod(x.shape[i] for i in kept), -1)
        shape = [1 if i in chosen else n for i, n in enumerate(x.shape)]
        if not call.flag("keepdims"):
            shape = [x.shape[i] for i in kept]
        if choose == "sum":
            n, k = groups.shape
            _check_fractions(x, np.ones(1), k, x.size)
            rows = np.repeat(np.arange(n), k)
            total = SparseMatrix.of_entries(rows, groups.ravel(), np.ones(n * k), (n, x.size))
            return [call.graph.scale(call.graph.affine(x, total, shape=shape), Fraction(1, k if mean else 1))]
        if choose == "max":
            return [call.graph.pool_max(x, groups, shape)]
        return [call.graph.negate(call.graph.pool_max(call.graph.negate(x), groups, shape))]

    return operator


def _global(choose: str) -> Callable[[Call], list[Value]]:
    reduce = _reduced(True, choose)

    def operator(call: Call) -> list[Value]:
        rank = len(call.given(0).shape)
        if rank < 3:
            raise Refused("reads a value that has no axes to pool")
        call.attributes |= {"axes": list(range(2, rank)), "keepdims": 1}
        return reduce(call)

    return operator


# What does nothing, and ends
# ----------------------------------------------------------------------------------------------------------


def _dropout(call: Call) -> list[Value]:
    training = call.value(2)
    if training is not None and (isinstance(training, Tensor) or bool(np.any(training))):
        raise Refused("is in training mode")
    return [call.given(0)]


def _end(name: str) -> Callable[[Call], list[Value]]:
    """A final softmax or sigmoid does not move the argmax: it is left out, and that is noted."""

    def operator(call: Call) -> list[Value]:
        x = call.tensor(0)
        if not call.final:
            _not_linear()
        if name != "Sigmoid":
            axis = call.axis("axis", len(x.shape))
            size = x.shape[axis] if call.version >= 13 else prod(x.shape[axis:])
            if size != x.size:
                raise Refused(f"is taken over {size} of {x.size} outputs, so it may move the argmax")
        call.note["dropped"] = name
        return [x]

    return operator


def _not_linear() -> NoReturn:
    raise Refused("is not piecewise linear; only a final one is left out")


OPERATORS: dict[str, Callable[[Call], list[Value]]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _entrywise(np.add, _sum),
    "Sum": _entrywise(np.add, _sum),
    "Sub": _entrywise(np.subtract, lambda call, pair: call.graph.subtract(*pair)),
    "Mul": _entrywise(np.multiply, _times),
    "Div": _entrywise(_whole_division, _divided),
    "Neg": _entrywise(np.negative, lambda call, one: call.graph.negate(one[0])),
    "Max": _entrywise(np.maximum, _largest),
    "Min": _entrywise(np.minimum, _smallest),
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
    "Relu": _relu,
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Abs": _absolute,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": _global("max"),
    "GlobalAveragePool": _global("sum"),
    "ReduceMean": _reduced(True, "sum"),
    "ReduceSum": _reduced(False, "sum"),
    "ReduceMax": _reduced(False, "max"),
    "ReduceMin": _reduced(False, "min"),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Expand": _expand,
    "Pad": _pad,
    "Identity": _identity,
    "Dropout": _dropout,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Cast": _cast,
    "Softmax": _end("Softmax"),
    "LogSoftmax": _end("LogSoftmax"),
    "Sigmoid": _end("Sigmoid"),
}
"""Every operator that is read, by its name."""
