"""A plain evaluator of ONNX graphs in rationals: node by node and entry by entry, for one input.

It shares nothing with the reader. Floats are arrays of ``Fraction``; whole numbers, which only shapes and
indices are, stay arrays of numpy. Windows are followed one position at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import ceil, floor, isqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

ENDS = ("Softmax", "LogSoftmax", "Sigmoid")  # they are passed over
exactly = np.frompyfunc(Fraction, 1, 1)


def rounded(value: float) -> float:
    """A default as the schemas hold it, in float32."""
    return float(np.float32(value))


def plain_value(model: onnx.ModelProto, x: Any) -> np.ndarray:
    """The output for one input, whose entries count as the rational numbers that they are."""
    (entry,) = model.graph.input
    shape = [d.dim_value or 1 for d in entry.type.tensor_type.shape.dim]
    values = {entry.name: exactly(np.asarray(x, dtype=object)).reshape(shape), "": None}
    values |= {t.name: _constant(numpy_helper.to_array(t)) for t in model.graph.initializer}
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs = [values[name] for name in node.input]
        found = PLAIN[node.op_type](*inputs, n=len(node.output), **attributes)
        several = found if isinstance(found, tuple) else (np.asarray(found),)
        values |= zip(node.output, several, strict=False)
    return values[model.graph.output[0].name].reshape(-1)


def _constant(array: np.ndarray) -> np.ndarray:
    return np.asarray(exactly(array.astype(object)), dtype=object) if array.dtype.kind == "f" else array


def _entrywise(function: Callable[..., Any]) -> Callable[..., Any]:
    def applied(*arrays: np.ndarray, **_: Any) -> np.ndarray:
        found = arrays[0]
        for other in arrays[1:]:
            found = function(found, other)
        return found

    return applied


def _gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    **_: Any,
) -> Any:
    found = Fraction(alpha) * ((a.T if transA else a) @ (b.T if transB else b))
    return found if c is None else found + Fraction(beta) * c


def _matmul(a: Any, b: Any, **_: Any) -> Any:
    if b.ndim == 1:
        return _matmul(a, b[:, None])[..., 0]
    if a.ndim == 1:
        return _matmul(a[None, :], b)[..., 0, :]
    return np.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _windows(
    sizes: list[int], options: dict[str, Any], kernel: list[int]
) -> tuple[list[int], list[int], Callable[..., Any]]:
    """Sizes of the output, padding in front, and the positions that an output position sees."""
    d = len(sizes)
    strides = options.get("strides") or [1] * d
    dilations = options.get("dilations") or [1] * d
    pads = list(options.get("pads") or [0] * (2 * d))
    reach = [dilation * (k - 1) + 1 for dilation, k in zip(dilations, kernel, strict=True)]
    auto = options.get("auto_pad", b"NOTSET").decode()
    if auto.startswith("SAME"):
        for i in range(d):
            total = max(0, (ceil(sizes[i] / strides[i]) - 1) * strides[i] + reach[i] - sizes[i])
            small, large = total // 2, total - total // 2
            pads[i], pads[i + d] = (small, large) if auto == "SAME_UPPER" else (large, small)
    round_ = ceil if options.get("ceil_mode") else floor
    out = []
    for i in range(d):
        steps = round_(Fraction(sizes[i] + pads[i] + pads[i + d] - reach[i], strides[i])) + 1
        if options.get("ceil_mode") and (steps - 1) * strides[i] >= sizes[i] + pads[i]:
            steps -= 1  # it would begin in the padding behind
        out.append(steps)

    def seen(position: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], bool, bool]]:
        for tap in product(*(range(k) for k in kernel)):
            at = tuple(
                p * s + t * e - b
                for p, s, t, e, b in zip(position, strides, tap, dilations, pads, strict=False)
            )
            inside = all(0 <= a < size for a, size in zip(at, sizes, strict=True))
            padded = all(-pads[i] <= at[i] < sizes[i] + pads[i + d] for i in range(d))
            yield tap, at, inside, padded

    return out, pads, seen


def _conv(x: Any, w: Any, b: Any = None, *, group: int = 1, **options: Any) -> Any:
    out, _, seen = _windows(list(x.shape[2:]), options, list(w.shape[2:]))
    y = np.full((x.shape[0], w.shape[0], *out), Fraction(0), dtype=object)
    per_in, per_out = w.shape[1], w.shape[0] // group
    for image, channel in np.ndindex(y.shape[:2]):
        first = channel // per_out * per_in
        for position in np.ndindex(*out):
            total = Fraction(0) if b is None else b[channel]
            for tap, at, inside, _ in seen(position):
                if inside:
                    for c in range(per_in):
                        total += w[(channel, c, *tap)] * x[(image, first + c, *at)]
            y[(image, channel, *position)] = total
    return y


def _pool(choose: Callable[[list[Any], int], Any]) -> Callable[..., Any]:
    def pooled(x: Any, *, kernel_shape: list[int], **options: Any) -> Any:
        out, _, seen = _windows(list(x.shape[2:]), options, kernel_shape)
        y = np.empty((*x.shape[:2], *out), dtype=object)
        for image, channel in np.ndindex(y.shape[:2]):
            for position in np.ndindex(*out):
                window = list(seen(position))
                inside = [x[(image, channel, *at)] for _, at, is_in, _ in window if is_in]
                padded = sum(is_padded for _, _, _, is_padded in window)
                y[(image, channel, *position)] = choose(
                    inside, padded if options.get("count_include_pad") else len(inside)
                )
        return y

    return pooled


def _batch_norm(
    x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = rounded(1e-5), **_: Any
) -> Any:
    across = (-1,) + (1,) * (x.ndim - 2)
    spread = np.array([_root(v + Fraction(epsilon)) for v in variance], dtype=object)
    scale, shift, mean, spread = (a.reshape(across) for a in (scale, shift, mean, spread))
    return (x - mean) / spread * scale + shift


def _root(value: Fraction) -> Fraction:
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    assert root * root == value, "the root of this number is not rational"
    return root


def _clip(x: Any, low: Any = None, high: Any = None, **options: Any) -> Any:
    low = low if low is not None else options.get("min")
    high = high if high is not None else options.get("max")
    x = x if low is None else np.maximum(x, Fraction(np.asarray(low).item()))
    return x if high is None else np.minimum(x, Fraction(np.asarray(high).item()))


def _leaky(x: Any, slopes: Any = None, *, alpha: float = rounded(0.01), **_: Any) -> Any:
    return np.where(x > 0, x, x * (Fraction(alpha) if slopes is None else slopes))


def _hard_sigmoid(x: Any, *, alpha: float = rounded(0.2), beta: float = 0.5, **_: Any) -> Any:
    return _clip(x * Fraction(alpha) + Fraction(beta), 0, 1)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(
        x: Any,
        given: Any = None,
        *,
        axes: Any = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
        **_: Any,
    ) -> Any:
        axes = axes if given is None else given.tolist()
        if axes is None and noop_with_empty_axes:
            return x
        found = function(
            x, axis=tuple(range(x.ndim)) if axes is None else tuple(axes), keepdims=bool(keepdims)
        )
        return np.asarray(found, dtype=object)

    return reduced


def _mean(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.sum(x, axis=axis, keepdims=keepdims) / Fraction(int(np.prod([x.shape[a] for a in axis])))


def _everywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, **_: function(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _reshape(x: Any, to: Any, *, allowzero: int = 0, **_: Any) -> Any:
    return x.reshape(
        [x.shape[i] if size == 0 and not allowzero else size for i, size in enumerate(to.tolist())]
    )


def _flatten(x: Any, *, axis: int = 1, **_: Any) -> Any:
    return x.reshape(int(np.prod(x.shape[: axis % x.ndim if axis < 0 else axis], dtype=int)), -1)


def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None, **_: Any) -> Any:
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n, step = x.shape[axis], int(step)
        start, end = (int(v) + (n if v < 0 else 0) for v in (start, end))
        picked = [i for i in range(n) if (start <= i < end if step > 0 else end < i <= start)]
        picked = picked if step > 0 else picked[::-1]
        x = np.take(x, picked[:: abs(step)], axis=axis)
    return x


def _split(
    x: Any, sizes: Any = None, *, axis: int = 0, split: Any = None, num_outputs: int = 0, n: int, **_: Any
) -> tuple[Any, ...]:
    sizes = split if sizes is None else sizes
    if sizes is None:
        each = -(-x.shape[axis] // n)
        sizes = [each] * (n - 1) + [x.shape[axis] - each * (n - 1)]
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


def _pad(
    x: Any, pads: Any = None, value: Any = 0.0, axes: Any = None, *, mode: bytes = b"constant", **options: Any
) -> Any:
    pads = np.asarray(pads).tolist()
    fill = Fraction(np.asarray(0.0 if value is None else value).item())
    axes = range(x.ndim) if axes is None else axes.tolist()
    for i, axis in enumerate(axes):
        before, after, n = pads[i], pads[i + len(axes)], x.shape[axis]
        picked = []
        for at in range(-before, n + after):
            if mode == b"edge":
                at = min(max(at, 0), n - 1)
            elif mode == b"reflect":
                at = abs(at)
                at = at if at < n else 2 * (n - 1) - at
            picked.append(at)
        parts = [
            np.take(x, [at], axis=axis) if 0 <= at < n else np.full_like(np.take(x, [0], axis=axis), fill)
            for at in picked
        ]
        x = np.concatenate(parts, axis=axis)
    return x


def _constant_node(**options: Any) -> Any:
    (value,) = (options[k] for k in options if k.startswith("value"))
    array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.array(value)
    return _constant(array)


def _filled(shape: Any, *, value: Any = None, **_: Any) -> Any:
    number = numpy_helper.to_array(value) if value is not None else np.zeros(1, dtype=np.float32)
    return _constant(np.full(shape.tolist(), number[0]))


def _cast(x: Any, *, to: int, **_: Any) -> Any:
    kind = helper.tensor_dtype_to_np_dtype(to)
    return _constant(x.astype(kind)) if kind.kind == "f" else x.astype(kind)


def _unsqueeze(x: Any, given: Any = None, *, axes: Any = None, **_: Any) -> Any:
    return np.expand_dims(x, tuple(axes if given is None else given.tolist()))


def _squeeze(x: Any, given: Any = None, *, axes: Any = None, **_: Any) -> Any:
    axes = axes if given is None else given.tolist()
    return np.squeeze(x, None if axes is None else tuple(axes))


PLAIN: dict[str, Callable[..., Any]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _entrywise(np.add),
    "Sum": _entrywise(np.add),
    "Sub": _entrywise(np.subtract),
    "Mul": _entrywise(np.multiply),
    "Div": _entrywise(lambda a, b: a / b if a.dtype == object else a // b),
    "Max": _entrywise(np.maximum),
    "Min": _entrywise(np.minimum),
    "Neg": lambda x, **_: -x,
    "Abs": lambda x, **_: np.abs(x),
    "Relu": lambda x, **_: np.maximum(x, Fraction(0)),
    "LeakyRelu": _leaky,
    "PRelu": _leaky,
    "HardSigmoid": _hard_sigmoid,
    "Clip": _clip,
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "MaxPool": _pool(lambda inside, _: max(inside)),
    "AveragePool": _pool(lambda inside, count: sum(inside, Fraction(0)) / count),
    "GlobalAveragePool": _everywhere(_mean),
    "GlobalMaxPool": _everywhere(np.max),
    "ReduceMean": _reduced(_mean),
    "ReduceSum": _reduced(np.sum),
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Transpose": lambda x, perm=None, **_: np.transpose(x, perm),
    "Concat": lambda *parts, axis, **_: np.concatenate(parts, axis=axis),
    "Slice": _slice,
    "Split": _split,
    "Gather": lambda x, i, axis=0, **_: np.take(x, i, axis=axis),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": lambda x, to, **_: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(to.tolist()))),
    "Pad": _pad,
    "Identity": lambda x, **_: x,
    "Dropout": lambda x, *rest, **_: x,
    "Constant": _constant_node,
    "ConstantOfShape": _filled,
    "Shape": lambda x, start=0, end=None, **_: np.array(x.shape, dtype=np.int64)[start:end],
    "Cast": _cast,
    **dict.fromkeys(ENDS, lambda x, **_: x),
}
