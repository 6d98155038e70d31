"""What torch's functions do with a tensor of a graph, function by function.

Tensors of torch have a batch axis in front, tensors of a graph have none: :data:`BATCH` stands for its length
wherever torch says how long it is, and axis i of torch is axis i - 1 here. Whatever mixes the points of a
batch, or is not piecewise affine, is refused.

Arguments that are no tensors of the graph are numbers or arrays: weights, and constants of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardmax.networks.norms import LayerNorm, RMSNorm
from hardmax.networks.reading.forms import SparseMatrix, fractions, numbers_of
from hardmax.networks.reading.graph import Graph, Tensor
from hardmax.networks.reading.normalisation import batch_norm as normalised
from hardmax.networks.reading.windows import average_pool, convolve, max_pool


class Refused(Exception):
    """Why an operation cannot be read, in words that follow its name."""


class _Batch:
    """The length of the batch axis, which nobody knows."""

    def __repr__(self) -> str:
        return "BATCH"


BATCH = _Batch()
Operation = Callable[..., Any]
OPERATIONS: dict[str, Operation] = {}  # by the names that torch gives to functions and methods


F = TypeVar("F", bound=Operation)


def combination(*names: str) -> Callable[[F], F]:
    """Register a function of several tensors or numbers under the names it has in torch."""

    def register(function: F) -> F:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return register


def operation(*names: str) -> Callable[[F], F]:
    """Register a function whose first argument is the tensor that it works on."""

    def register(function: F) -> F:
        def checked(x: Any, *args: Any, **options: Any) -> Any:
            if not isinstance(x, Tensor):
                raise Refused("of something that does not depend on the input")
            return function(x, *args, **options)

        OPERATIONS.update(dict.fromkeys(names, checked))
        return function

    return register


def _graph_of(*values: Any) -> Graph:
    return next(value.graph for value in values if isinstance(value, Tensor))


def _numbers(value: Any, name: str) -> Any:
    if isinstance(value, Tensor):
        raise Refused(f"with a {name} that depends on the input")
    return value


# Switches
# ----------------------------------------------------------------------------------------------------------


@operation("relu", "relu_")
def _relu(x: Tensor, inplace: bool = False) -> Tensor:
    return x.graph.relu(x)


@operation("leaky_relu", "leaky_relu_")
def _leaky_relu(x: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return x.graph.relu(x, negative_slope)


@operation("prelu")
def _prelu(x: Tensor, weight: Any) -> Tensor:
    slopes = numbers_of(_numbers(weight, "slope"), "slope").ravel()
    if len(slopes) == 1:
        return x.graph.relu(x, slopes[0])
    return x.graph.relu(x, slopes.reshape(-1, *[1] * (len(x.shape) - 1)))


@operation("hardtanh", "hardtanh_")
def _hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    return x.graph.clip(x, min_val, max_val)


@operation("relu6")
def _relu6(x: Tensor, inplace: bool = False) -> Tensor:
    return x.graph.clip(x, 0, 6)


@operation("hardsigmoid")
def _hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:
    graph = x.graph
    return graph.shift(graph.scale(graph.clip(x, -3, 3), Fraction(1, 6)), Fraction(1, 2))


@operation("clamp", "clamp_", "clip", "clip_")
def _clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    return x.graph.clip(x, _numbers(min, "limit"), _numbers(max, "limit"))


@operation("clamp_min", "clamp_min_")
def _clamp_min(x: Tensor, min: Any) -> Tensor:
    return _clamp(x, min)


@operation("clamp_max", "clamp_max_")
def _clamp_max(x: Tensor, max: Any) -> Tensor:
    return _clamp(x, None, max)


@operation("abs", "absolute")
def _abs(x: Tensor) -> Tensor:
    return x.graph.relu(x, -1)


@combination("maximum", "max", "fmax")
def _maximum(a: Any, b: Any = None, **options: Any) -> Tensor:
    if b is None or options or not isinstance(b, (Tensor, np.ndarray)):
        raise Refused("along an axis")
    graph = _graph_of(a, b)
    return graph.maximum([_lifted(graph, a, b), _lifted(graph, b, a)])


@combination("minimum", "min", "fmin")
def _minimum(a: Any, b: Any = None, **options: Any) -> Tensor:
    if b is None or options or not isinstance(b, (Tensor, np.ndarray)):
        raise Refused("along an axis")
    graph = _graph_of(a, b)
    parts = [graph.negate(_lifted(graph, a, b)), graph.negate(_lifted(graph, b, a))]
    return graph.negate(graph.maximum(parts))


@operation("amax")
def _amax(x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    groups, shape = _along(x, dim, keepdim)
    return x.graph.pool_max(x, groups, shape)


# Affine maps
# ----------------------------------------------------------------------------------------------------------


def _aligned(constant: Any, shape: tuple[int, ...]) -> Any:
    """Numbers that are combined with a batch of tensors of a shape, without the batch axis."""
    numbers = numbers_of(constant, "a constant")
    if numbers.ndim > len(shape) and numbers.shape[0] == 1:
        numbers = numbers[0]
    if numbers.ndim > len(shape):
        raise Refused(f"with a constant of shape {numbers.shape}, which differs along the batch")
    return numbers


def _lifted(graph: Graph, value: Any, other: Any) -> Tensor:
    """A tensor, or numbers that are combined with another tensor."""
    if isinstance(value, Tensor):
        if isinstance(other, Tensor) and len(value.shape) != len(other.shape):
            raise Refused(f"of tensors with {len(value.shape) + 1} and {len(other.shape) + 1} axes")
        return value
    return graph.constant(_aligned(value, other.shape))


@combination("add", "add_", "iadd", "radd", "__add__", "__radd__", "__iadd__")
def _add(a: Any, b: Any, alpha: Any = 1) -> Tensor:
    graph = _graph_of(a, b)
    first, second = _lifted(graph, a, b), _lifted(graph, b, a)
    return graph.add(first, second if alpha == 1 else graph.scale(second, alpha))


@combination("sub", "sub_", "isub", "subtract", "__sub__", "__isub__")
def _sub(a: Any, b: Any, alpha: Any = 1) -> Tensor:
    return _add(a, b, -alpha)


@combination("rsub", "__rsub__")
def _rsub(a: Any, b: Any, alpha: Any = 1) -> Tensor:
    return _sub(b, a, alpha)


@operation("neg", "negative", "__neg__")
def _neg(x: Tensor) -> Tensor:
    return x.graph.negate(x)


@combination("mul", "mul_", "imul", "multiply", "__mul__", "__rmul__", "__imul__")
def _mul(a: Any, b: Any) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        raise Refused("of two tensors that both depend on the input")
    tensor, constant = (a, b) if isinstance(a, Tensor) else (b, a)
    return _graph_of(a, b).scale(tensor, _aligned(constant, tensor.shape))


@operation("truediv", "div", "div_", "divide", "itruediv", "__truediv__", "__itruediv__")
def _div(a: Tensor, b: Any, rounding_mode: Any = None) -> Tensor:
    if rounding_mode is not None:
        raise Refused("with rounding")
    divisors = fractions(np.asarray(numbers_of(_numbers(b, "divisor"), "a divisor")))
    if not divisors.all():
        raise Refused("by zero")
    return _mul(a, np.asarray(1 / divisors, dtype=object))


@operation("linear")
def _linear(x: Tensor, weight: Any, bias: Any = None) -> Tensor:
    w = SparseMatrix.of_dense(_numbers(weight, "weight"), "weight")
    offsets = None if bias is None else numbers_of(_numbers(bias, "bias"), "bias")
    return _on_last_axis(x, w, offsets)


@operation("matmul", "__matmul__", "mm")
def _matmul(a: Tensor, b: Any) -> Tensor:
    weights = np.asarray(_numbers(b, "factor"))
    if weights.ndim != 2:
        raise Refused(f"with a factor of shape {weights.shape}")
    return _linear(a, weights.T)


@combination("addmm")
def _addmm(bias: Any, a: Any, b: Any) -> Tensor:
    return _add(_matmul(a, b), bias)


def _on_last_axis(x: Tensor, w: SparseMatrix, bias: Any) -> Tensor:
    """Weights times the last axis, for all places of the others."""
    lead = x.shape[:-1]
    n = prod(lead)
    if not x.shape or n == 1 or w.shape[1] != x.shape[-1]:
        return x.graph.affine(x, w, bias, (*lead, w.shape[0]))
    place = np.arange(n)[:, None]
    rows, columns = (place * w.shape[0] + w.rows).ravel(), (place * w.shape[1] + w.columns).ravel()
    shape = (n * w.shape[0], x.size)
    matrix = SparseMatrix.of_entries(rows, columns, np.tile(w.values, n), shape)
    return x.graph.affine(x, matrix, None if bias is None else np.tile(bias, n), (*lead, w.shape[0]))


def _each(value: Any, axes: int) -> list[int]:
    """One number per axis, as torch spells it."""
    numbers = [int(v) for v in np.ravel(value)]
    return numbers * axes if len(numbers) == 1 else numbers


def _convolution(axes: int) -> Operation:
    def conv(
        x: Tensor,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        kernel = numbers_of(_numbers(weight, "weight"), "weight")
        _check_grid(x, axes)
        dilations = _each(dilation, axes)
        if padding == "same":
            sums = [d * (k - 1) for d, k in zip(dilations, kernel.shape[2:], strict=True)]
            pads = [(total // 2, total - total // 2) for total in sums]
        else:
            pads = [(p, p) for p in _each(0 if padding == "valid" else padding, axes)]
        offsets = None if bias is None else _numbers(bias, "bias")
        strides = _each(stride, axes)
        options = {"strides": strides, "pads": pads, "dilations": dilations}
        return convolve(x.graph, x, kernel, offsets, groups=groups, **options)

    return conv


def _check_grid(x: Tensor, axes: int) -> None:
    if len(x.shape) != axes + 1:
        raise Refused(f"of a tensor with {len(x.shape) + 1} axes, where {axes + 2} are needed")


def _max_pooling(axes: int) -> Operation:
    def pool(
        x: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor:
        if return_indices:
            raise Refused("with indices")
        grid, kernel = _with_channels(x, axes), _each(kernel_size, axes)
        pooled = max_pool(
            x.graph,
            grid,
            kernel,
            strides=kernel if stride is None or np.size(stride) == 0 else _each(stride, axes),
            pads=[(p, p) for p in _each(padding, axes)],
            dilations=_each(dilation, axes),
            ceil=bool(ceil_mode),
        )
        return x.graph.reshape(pooled, pooled.shape[len(pooled.shape) - len(x.shape) :])

    return pool


def _average_pooling(axes: int) -> Operation:
    def pool(
        x: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        grid, kernel = _with_channels(x, axes), _each(kernel_size, axes)
        pooled = average_pool(
            x.graph,
            grid,
            kernel,
            strides=kernel if stride is None or np.size(stride) == 0 else _each(stride, axes),
            pads=[(p, p) for p in _each(padding, axes)],
            ceil=bool(ceil_mode),
            count_padding=bool(count_include_pad),
            divisor=divisor_override,
        )
        return x.graph.reshape(pooled, pooled.shape[len(pooled.shape) - len(x.shape) :])

    return pool


def _with_channels(x: Tensor, axes: int) -> Tensor:
    """With a channel axis; torch takes a matrix for the channels of one point, so rows stay apart."""
    if len(x.shape) == axes == 1:
        return x.graph.reshape(x, (1, *x.shape))
    _check_grid(x, axes)
    return x


def _adaptive(axes: int, *, largest: bool) -> Operation:
    def pool(x: Tensor, output_size: Any, return_indices: bool = False) -> Tensor:
        if return_indices:
            raise Refused("with indices")
        grid = _with_channels(x, axes)
        spans = list(grid.shape[1:])
        sizes = [
            n if m is None else int(m) for n, m in zip(spans, _each_size(output_size, axes), strict=True)
        ]
        if any(n % m for n, m in zip(spans, sizes, strict=True)):
            raise Refused(f"from {spans} to {sizes}, whose windows differ in size")
        kernel = [n // m for n, m in zip(spans, sizes, strict=True)]
        pooled = (max_pool if largest else average_pool)(x.graph, grid, kernel, strides=kernel)
        return x.graph.reshape(pooled, pooled.shape[len(pooled.shape) - len(x.shape) :])

    return pool


def _each_size(value: Any, axes: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * axes


for _axes in (1, 2):
    operation(f"conv{_axes}d")(_convolution(_axes))
    operation(f"max_pool{_axes}d")(_max_pooling(_axes))
    operation(f"avg_pool{_axes}d")(_average_pooling(_axes))
    operation(f"adaptive_avg_pool{_axes}d")(_adaptive(_axes, largest=False))
    operation(f"adaptive_max_pool{_axes}d")(_adaptive(_axes, largest=True))


@operation("batch_norm")
def _batch_norm(
    x: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = None,
    eps: float = 1e-5,
) -> Tensor:
    if training:
        raise Refused("in training mode (call module.eval() first)")
    if running_mean is None or running_var is None:
        raise Refused("without running statistics, which normalises by the batch")
    return normalised(x.graph, x, running_mean, running_var, weight, bias, eps)


@operation("mean")
def _mean(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    groups, shape = _along(x, dim, keepdim)
    return _sums(x, groups, shape, Fraction(1, groups.shape[1]))


@operation("sum")
def _sum(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    groups, shape = _along(x, dim, keepdim)
    return _sums(x, groups, shape, Fraction(1))


def _sums(x: Tensor, groups: NDArray[np.int64], shape: tuple[int, ...], share: Fraction) -> Tensor:
    rows = np.repeat(np.arange(len(groups)), groups.shape[1])
    shares = np.broadcast_to(numbers_of(share, "share"), rows.shape)
    matrix = SparseMatrix.of_entries(rows, groups.ravel(), shares, (len(groups), x.size))
    return x.graph.affine(x, matrix, None, shape)


def _along(x: Tensor, dim: Any, keep: bool) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Groups of entries that differ along some axes only, and the shape of what they are reduced to."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        raise Refused("over the whole batch")
    axes = sorted({_axis(x, d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])})
    kept = [i for i in range(len(x.shape)) if i not in axes]
    lengths = [x.shape[i] for i in kept]
    groups = x.positions.transpose([*kept, *axes]).reshape(prod(lengths), -1)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)] if keep else lengths
    return groups, tuple(shape)


def _axis(x: Tensor, dim: Any, *, new: bool = False) -> int:
    """An axis of torch as one of the graph."""
    rank = len(x.shape) + 1 + new
    if not -rank <= int(dim) < rank:
        raise Refused(f"along axis {dim} of a tensor with {rank} axes")
    axis = int(dim) % rank
    if axis == 0:
        raise Refused("along the batch axis")
    return axis - 1


# Entries in another order
# ----------------------------------------------------------------------------------------------------------


@operation("flatten")
def _flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    if not x.shape:
        return x
    first, last = _axis(x, start_dim), _axis(x, end_dim)
    joint = prod(x.shape[first : last + 1])
    return x.graph.reshape(x, (*x.shape[:first], joint, *x.shape[last + 1 :]))


@operation("unflatten")
def _unflatten(x: Tensor, dim: int, sizes: Any = None, unflattened_size: Any = None) -> Tensor:
    axis = _axis(x, dim)
    parts = [int(n) for n in (sizes if sizes is not None else unflattened_size)]
    known = prod(n for n in parts if n != -1)
    parts = [x.shape[axis] // known if n == -1 else n for n in parts]
    return x.graph.reshape(x, (*x.shape[:axis], *parts, *x.shape[axis + 1 :]))


@operation("view", "reshape")
def _reshape(x: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    if shape is not None:
        sizes = (shape,)
    wanted = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)
    first, rest = (wanted[0], wanted[1:]) if wanted else (None, [])
    numbers = all(isinstance(n, (int, np.integer)) for n in rest)
    if not numbers or not (first is BATCH or first == -1) or rest.count(-1) > (first is BATCH):
        raise Refused(f"to shape {tuple(wanted)}, which need not keep the points of a batch apart")
    size = x.size
    if -1 in rest:
        known = prod(int(n) for n in rest if n != -1)
        rest = [size // max(known, 1) if n == -1 else n for n in rest]
    if prod(rest) != size:
        raise Refused(f"from shape {(BATCH, *x.shape)} to shape {tuple(wanted)}")
    return x.graph.reshape(x, rest)


@operation("transpose", "swapaxes", "swapdims")
def _transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    index = np.swapaxes(x.positions, _axis(x, dim0), _axis(x, dim1))
    return x.graph.select(x, index)


@operation("permute")
def _permute(x: Tensor, *dims: Any) -> Tensor:
    order = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else list(dims)
    if not order or order[0] != 0:
        raise Refused("of the batch axis")
    return x.graph.select(x, x.positions.transpose([_axis(x, dim) for dim in order[1:]]))


@operation("squeeze")
def _squeeze(x: Tensor, dim: Any = None) -> Tensor:
    if dim is None:
        raise Refused("of all axes, the batch axis among them")
    axes = {_axis(x, d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])}
    return x.graph.reshape(x, [n for i, n in enumerate(x.shape) if i not in axes or n != 1])


@operation("unsqueeze")
def _unsqueeze(x: Tensor, dim: int) -> Tensor:
    axis = _axis(x, dim, new=True)
    return x.graph.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@combination("cat", "concat", "concatenate")
def _cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise Refused("with something that does not depend on the input")
    return _graph_of(*tensors).concat(tensors, _axis(tensors[0], dim))


@combination("stack")
def _stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    return _cat([_unsqueeze(tensor, dim) for tensor in tensors], dim)


@operation("split")
def _split(x: Tensor, split_size_or_sections: Any, dim: int = 0) -> list[Tensor]:
    axis = _axis(x, dim)
    n, sizes = x.shape[axis], split_size_or_sections
    ends = np.cumsum(sizes)[:-1] if isinstance(sizes, (tuple, list)) else np.arange(int(sizes), n, int(sizes))
    return [x.graph.select(x, part) for part in np.split(x.positions, ends, axis=axis)]


@operation("chunk")
def _chunk(x: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    n = x.shape[_axis(x, dim)]
    return _split(x, -(-n // int(chunks)), dim)


@combination("getitem", "__getitem__")
def _getitem(x: Any, index: Any) -> Any:
    if not isinstance(x, Tensor):
        return x[index]
    places = index if isinstance(index, tuple) else (index,)
    if places[0] is Ellipsis and len(places) <= len(x.shape) + 1:
        inside = places
    elif places[0] == slice(None):
        inside = places[1:]
    else:
        raise Refused("of some points of a batch")
    if any(isinstance(place, Tensor) for place in inside):
        raise Refused("with an index that depends on the input")
    return x.graph.select(x, x.positions[tuple(inside)])


@operation("getattr")
def _getattr(x: Tensor, name: str) -> Any:
    if name == "shape":
        return (BATCH, *x.shape)
    raise Refused(f"of {name}")


@operation("size")
def _size(x: Tensor, dim: int | None = None) -> Any:
    sizes = (BATCH, *x.shape)
    return sizes if dim is None else sizes[dim]


@operation("dim", "ndimension")
def _dim(x: Tensor) -> int:
    return len(x.shape) + 1


@operation("pad")
def _pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    if mode != "constant":
        raise Refused(f"in {mode} mode")
    amounts = [(int(a), int(b)) for a, b in zip(pad[::2], pad[1::2], strict=True)][::-1]
    if len(amounts) > len(x.shape) or min(min(pair) for pair in amounts) < 0:
        raise Refused(f"by {list(pad)}")
    amounts = [(0, 0)] * (len(x.shape) - len(amounts)) + amounts
    index = np.pad(x.positions, amounts, constant_values=x.size)  # the constant stands behind all entries
    return x.graph.gather([x, x.graph.constant([0 if value is None else value])], index)


@combination("identity", "contiguous", "clone", "detach", "alias")
def _identity(x: Any, **options: Any) -> Any:
    return x


@combination("float", "double", "to", "type_as", "cpu")
def _cast(x: Any, *types: Any, **options: Any) -> Any:
    if any(word in str(types) + str(options) for word in ("half", "float16", "int", "bool", "long")):
        raise Refused("to fewer digits")
    return x


@combination("dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_alpha_dropout")
def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if training and p > 0:
        raise Refused("in training mode (call module.eval() first)")
    return x


# Norms, which are blocks of their own
# ----------------------------------------------------------------------------------------------------------


@operation("layer_norm")
def layer_norm(
    x: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """LayerNorm over all axes but the batch."""
    scale = _norm_scale(x, normalized_shape, weight)
    shift = None if bias is None else numbers_of(bias, "bias").ravel()
    return x.graph.block(x, LayerNorm(scale, shift, epsilon=eps), x.shape)


@operation("rms_norm")
def _rms_norm(x: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    scale = _norm_scale(x, normalized_shape, weight)
    if eps is None:
        raise Refused("without an epsilon, which then depends on the type of its numbers")
    return x.graph.block(x, RMSNorm(scale, epsilon=eps), x.shape)


def _norm_scale(x: Tensor, shape: Any, weight: Any) -> Any:
    if tuple(_each_size(shape, 1)) != x.shape:
        raise Refused(f"over {tuple(_each_size(shape, 1))} of a tensor of shape {(BATCH, *x.shape)}")
    return np.ones(x.size) if weight is None else numbers_of(weight, "weight").ravel()
