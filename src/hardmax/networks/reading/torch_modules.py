"""A torch module becomes the blocks of a network; torch itself is never imported here.

A module that torch defines is one of torch's functions with the module's attributes as arguments
(:data:`MODULES`); what the function does is in :mod:`hardmax.networks.reading.torch_operations`. Sequentials
are walked, and any other module is traced by ``torch.fx``, which runs its ``forward`` on symbols: nested
modules, functions and operators all become nodes. Everything that stands in the way is listed at once.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from hardmax.errors import (
    DimensionMismatchError,
    InvalidInputError,
    NotFiniteError,
    UnsupportedNetworkError,
)
from hardmax.networks.blocks import Block
from hardmax.networks.reading.graph import Graph, Tensor
from hardmax.networks.reading.torch_attention import AttentionOptions, encoder_layer, multihead
from hardmax.networks.reading.torch_operations import OPERATIONS, Refused
from hardmax.networks.reading.torch_traces import Values, entries
from hardmax.networks.reading.torch_weights import array_of

# the function of each class, the attributes that are its arguments, and what they are if they are missing
_CONVOLUTION = ("weight", "bias", "stride", "padding", "dilation", "groups")
_MAX_POOL = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
_AVERAGE_POOL = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
_BATCH_NORM = ("running_mean", "running_var", "weight", "bias", "training", "eps")
_DROPOUT = ("p", "training")
MODULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Linear": ("linear", ("weight", "bias")),
    "Conv1d": ("conv1d", _CONVOLUTION),
    "Conv2d": ("conv2d", _CONVOLUTION),
    "BatchNorm1d": ("batch_norm", _BATCH_NORM),
    "BatchNorm2d": ("batch_norm", _BATCH_NORM),
    "SyncBatchNorm": ("batch_norm", _BATCH_NORM),
    "LayerNorm": ("layer_norm", ("normalized_shape", "weight", "bias", "eps")),
    "RMSNorm": ("rms_norm", ("normalized_shape", "weight", "eps")),
    "MaxPool1d": ("max_pool1d", _MAX_POOL),
    "MaxPool2d": ("max_pool2d", _MAX_POOL),
    "AvgPool1d": ("avg_pool1d", _AVERAGE_POOL),
    "AvgPool2d": ("avg_pool2d", (*_AVERAGE_POOL, "divisor_override")),
    "AdaptiveAvgPool1d": ("adaptive_avg_pool1d", ("output_size",)),
    "AdaptiveAvgPool2d": ("adaptive_avg_pool2d", ("output_size",)),
    "AdaptiveMaxPool1d": ("adaptive_max_pool1d", ("output_size", "return_indices")),
    "AdaptiveMaxPool2d": ("adaptive_max_pool2d", ("output_size", "return_indices")),
    "ReLU": ("relu", ()),
    "LeakyReLU": ("leaky_relu", ("negative_slope",)),
    "PReLU": ("prelu", ("weight",)),
    "Hardtanh": ("hardtanh", ("min_val", "max_val")),
    "ReLU6": ("relu6", ()),
    "Hardsigmoid": ("hardsigmoid", ()),
    "Flatten": ("flatten", ("start_dim", "end_dim")),
    "Unflatten": ("unflatten", ("dim", "unflattened_size")),
    "ZeroPad1d": ("pad", ("pad",)),
    "ZeroPad2d": ("pad", ("pad",)),
    "Identity": ("identity", ()),
    "Dropout": ("dropout", _DROPOUT),
    "Dropout1d": ("dropout", _DROPOUT),
    "Dropout2d": ("dropout", _DROPOUT),
    "AlphaDropout": ("dropout", _DROPOUT),
    "FeatureAlphaDropout": ("dropout", _DROPOUT),
}
_DEFAULTS = {"start_dim": 1, "training": False}
# functions that do not change which output is the largest, and are dropped at the end
_FINAL = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "sigmoid": "Sigmoid"}
_ATTENTION = ("MultiheadAttention", "TransformerEncoderLayer")
# what may be done with weights before they are used: nothing is computed
_REARRANGES = (
    "getitem",
    "t",
    "transpose",
    "permute",
    "view",
    "reshape",
    "flatten",
    "squeeze",
    "unsqueeze",
    "detach",
)
_WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}


def read_module(
    module: Any, input_shape: Any = None, attention: AttentionOptions | None = None
) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """The blocks of a torch module, and how they were read; see
    :meth:`hardmax.networks.network.Network.from_torch`.
    """
    reader = _Reader(attention)
    module = _unwrapped(module)
    graph = Graph(_shape(input_shape) if input_shape is not None else reader.input_shape(module))
    try:
        output = reader.read(module, graph.input, "")
    except InvalidInputError:
        reader.check()  # what was refused comes first: sizes need not fit behind it
        raise
    reader.check(output, graph)
    if output.value is not None:
        raise InvalidInputError("module must give something that depends on its input, but does not.")
    return graph.blocks(output), reader.description()


class _Reader:
    """Reads modules into a graph, and keeps what could not be read."""

    def __init__(self, attention: AttentionOptions | None) -> None:
        self._attention = attention
        self._obstacles: list[str] = []
        self._dropped: dict[int, tuple[str, str]] = {}  # nodes behind a softmax: its name and where it is
        self._notes: dict[str, Any] = {}

    def refuse(self, what: str, path: str, why: str = "") -> None:
        """Keep an obstacle."""
        place = f" at {path}" if path else ""
        self._obstacles.append(f"{what}{place}{f' {why}' if why else ''}")

    def check(self, output: Tensor | None = None, graph: Graph | None = None) -> None:
        """Raise what was refused, all of it."""
        if output is not None and graph is not None:
            for node, (name, path) in self._dropped.items():
                if node != output.node and graph.reads(node, output):
                    self.refuse(name, path, "that is not the last operation")
        if self._obstacles:
            raise UnsupportedNetworkError(list(dict.fromkeys(self._obstacles)))

    def description(self) -> dict[str, Any]:
        """How the network was read."""
        dropped = [name for name, _ in self._dropped.values()]
        return {"made_by": "Network.from_torch", **self._notes} | (
            {"dropped": dropped[-1]} if dropped else {}
        )

    # Modules
    # ------------------------------------------------------------------------------------------------------

    def read(self, module: Any, x: Any, path: str) -> Any:
        """What a module makes of a tensor."""
        module = _unwrapped(module)
        kind = _kind(module)
        if _hooked(module):
            self.refuse(kind, path or "the top", "with hooks")
            return x
        if kind == "Sequential" and _of_torch(module):
            for name, part in _children(module):
                x = self.read(part, x, f"{path}.{name}" if path else name)
            return x
        if not _of_torch(module):
            return self._traced(module, x, path)
        return self._known(module, kind, x, path or "the top")

    def _known(self, module: Any, kind: str, x: Any, path: str) -> Any:
        """What a module that torch defines makes of a tensor."""
        if kind in _ATTENTION:
            return self._attend(module, kind, x, path)
        if kind in _FINAL.values():
            name = next(name for name, final in _FINAL.items() if final == kind)
            return self._end(name, x, path, getattr(module, "dim", None))
        if kind not in MODULES:
            self.refuse(kind, path)
            return x
        if getattr(module, "padding_mode", "zeros") != "zeros":
            self.refuse(kind, path, f"with padding mode {module.padding_mode}")
            return x
        name, attributes = MODULES[kind]
        options = {a: _number(getattr(module, a)) for a in attributes if hasattr(module, a)}
        options = {a: _DEFAULTS[a] for a in attributes if a in _DEFAULTS} | options
        if name == "linear":
            options["weight"] = _weight(module)
        return self.call(name, (x,), options, kind, path)

    def call(self, name: str, args: tuple[Any, ...], options: Mapping[str, Any], what: str, path: str) -> Any:
        """What a function makes of its arguments; the first tensor among them if that is refused."""
        if name in _FINAL:
            dim = options.get("dim", args[1] if len(args) > 1 else None)
            return self._end(name, args[0] if args else options.get("input"), path, dim)
        try:
            if name not in OPERATIONS:
                raise Refused
            if "input" in options:
                args, options = (options["input"], *args), {k: v for k, v in options.items() if k != "input"}
            result = OPERATIONS[name](*args, **options)
        except Refused as reason:
            self.refuse(what, path, str(reason))
            return next((value for value in args if isinstance(value, Tensor)), None)
        except (DimensionMismatchError, NotFiniteError) as error:
            raise error.about(f"{what} at {path}") from error
        except (TypeError, IndexError):
            self.refuse(what, path, "with arguments that are not read")
            return next((value for value in args if isinstance(value, Tensor)), None)
        if name == "batch_norm":
            self._notes["rounded"] = "scale over root of variance of each channel of BatchNorm, to float64"
        return result

    def _end(self, name: str, x: Any, path: str, dim: Any) -> Any:
        """A softmax or sigmoid, which is dropped if nothing follows."""
        if not isinstance(x, Tensor):
            self.refuse(_FINAL[name], path, "of something that does not depend on the input")
            return x
        if name != "sigmoid" and (len(x.shape) != 1 or dim not in (None, 1, -1)):
            self.refuse(_FINAL[name], path, "along an axis that is not the only one beside the batch")
        last = x.graph.select(x, x.positions)
        self._dropped[last.node] = (_FINAL[name], path)
        return last

    def _attend(self, module: Any, kind: str, x: Any, path: str) -> Any:
        if self._attention is None:
            self.refuse(kind, path, "whose context is not given (say context=...)")
            return x
        if self._notes.get("context") is not None:
            self.refuse(kind, path, "whose context is what another one gives")
            return x
        self._notes |= self._attention.description()
        try:
            return (multihead if kind == "MultiheadAttention" else encoder_layer)(module, x, self._attention)
        except Refused as reason:
            self.refuse(kind, path, str(reason))
            return x

    # Modules of the user's own
    # ------------------------------------------------------------------------------------------------------

    def _traced(self, module: Any, x: Any, path: str) -> Any:
        """What the ``forward`` of any module makes of a tensor, node by node."""
        traced = self._trace(module, path)
        if traced is None:
            return x
        values, inputs = Values(), [x]
        for node in traced.nodes:
            here = f"{path}.{node.name}" if path else node.name
            args, options = values.of(tuple(node.args)), values.of(dict(node.kwargs))
            if values.overwritten(node):
                self.refuse(f"{node.name} of a tensor that was changed in place before", path)
            if node.op == "placeholder":
                if not inputs and not args:
                    self.refuse(f"a second input, {node.target},", path)
                result = inputs.pop() if inputs else args[0] if args else x
            elif node.op == "get_attr":
                result = _attribute(module, node.target)
            elif node.op == "output":
                return self._output(args[0], path)
            elif node.op == "call_module":
                part = _attribute(module, node.target)
                result = self._called(part, args, options, f"{path}.{node.target}" if path else node.target)
                values.share(node, _kind(part), bool(getattr(part, "inplace", False)))
            else:
                name = node.target if node.op == "call_method" else node.target.__name__
                result = self._function(name, node.target, args, options, here)
                values.share(node, name, bool(options.get("inplace", False)))
            values.known[node] = result
        return x

    def _called(self, part: Any, args: tuple[Any, ...], options: Mapping[str, Any], path: str) -> Any:
        given = [*args, *options.values()]
        if len(given) != 1 or not isinstance(given[0], Tensor):
            self.refuse(_kind(part), path, f"with {len(given)} arguments")
            return next((value for value in given if isinstance(value, Tensor)), None)
        return self.read(part, given[0], path)

    def _function(
        self, name: str, target: Any, args: tuple[Any, ...], options: Mapping[str, Any], path: str
    ) -> Any:
        """A function, a method or an operator; weights may be rearranged first, and lengths computed with."""
        values = list(entries([*args, *options.values()]))
        if any(isinstance(value, Tensor) for value in values):
            plain = [_numbers_in(value) for value in args]
            return self.call(name, tuple(plain), _numbers_in(dict(options)), f"{name}()", path)
        if all(isinstance(value, (int, float)) for value in values) and target in vars(operator).values():
            return target(*args, **options)
        if name in _REARRANGES and args:
            if name == "getitem":
                return args[0][args[1]]
            return getattr(args[0], name)(*args[1:], **options)
        self.refuse(f"{name}()", path, "of constants")
        return None

    def _output(self, value: Any, path: str) -> Any:
        if isinstance(value, (tuple, list)) and len(value) == 1:
            value = value[0]
        if not isinstance(value, Tensor):
            count = len(value) if isinstance(value, (tuple, list, dict)) else 0
            self.refuse(
                f"{count} outputs where one is needed" if count else "an output that is no tensor", path
            )
            return next((entry for entry in entries([value]) if isinstance(entry, Tensor)), None)
        return value

    def _trace(self, module: Any, path: str) -> Any:
        """The graph of a module's ``forward``, or ``None`` if torch cannot make it."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(module, torch.nn.Module):
            self.refuse(_kind(module), path or "the top")
            return None
        fx = import_module("torch.fx")
        try:
            return fx.Tracer().trace(module)
        except Exception as error:  # whatever the forward of a stranger's module raises
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            self.refuse(_kind(module), path or "the top", f"whose forward torch.fx cannot trace ({reason})")
            return None

    # The shape of the input
    # ------------------------------------------------------------------------------------------------------

    def input_shape(self, module: Any) -> tuple[int, ...]:
        """What the first module that says so takes."""
        for kind, part in self._in_order(module):
            if kind == "Linear":
                return (int(_weight(part).shape[1]),)
            if kind == "BatchNorm1d":
                return (int(part.num_features),)
            if kind == "MultiheadAttention":
                return (int(part.embed_dim),)
            if kind == "TransformerEncoderLayer":
                return (int(part.self_attn.embed_dim),)
            if kind in ("LayerNorm", "RMSNorm"):
                return tuple(part.normalized_shape)
            if kind.startswith(
                ("Conv", "MaxPool", "AvgPool", "Adaptive", "BatchNorm", "Unflatten", "ZeroPad")
            ):
                break
        for kind, _ in self._in_order(module):
            if kind not in (*MODULES, *_FINAL.values(), *_ATTENTION):
                self.refuse(kind, "")
        self.refuse("an input whose shape the module does not tell (say input_shape=...)", "")
        raise UnsupportedNetworkError(self._obstacles)

    def _in_order(self, module: Any) -> Iterator[tuple[str, Any]]:
        """The modules that torch defines, in the order in which they are used."""
        module = _unwrapped(module)
        if _kind(module) == "Sequential" and _of_torch(module):
            for _, part in _children(module):
                yield from self._in_order(part)
        elif _of_torch(module):
            yield _kind(module), module
        else:
            traced = _Reader(None)._trace(module, "")
            for node in traced.nodes if traced is not None else ():
                if node.op == "call_module":
                    yield from self._in_order(_attribute(module, node.target))
            if traced is None and hasattr(module, "children"):
                for part in module.children():
                    yield from self._in_order(part)


def _kind(module: Any) -> str:
    return _class(module).__name__


def _class(module: Any) -> type:
    """The class of a module; one with parametrised weights has a class of its own above it."""
    kind = type(module)
    return kind.__mro__[1] if hasattr(module, "parametrizations") else kind


def _of_torch(module: Any) -> bool:
    """Whether torch defines the module's class; what is no torch module at all goes by its name."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        return True
    return str(_class(module).__module__).startswith("torch.nn.modules")


def _unwrapped(module: Any) -> Any:
    while _kind(module) in _WRAPPERS and hasattr(module, _WRAPPERS[_kind(module)]):
        module = getattr(module, _WRAPPERS[_kind(module)])
    return module


def _hooked(module: Any) -> bool:
    names = ("_forward_hooks", "_forward_pre_hooks")
    return any(getattr(module, name, None) for name in names)


def _children(module: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a Sequential with the names that torch prints; one part may stand twice."""
    parts = getattr(module, "_modules", None)
    yield from (parts.items() if parts is not None else ((str(i), part) for i, part in enumerate(module)))


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _number(value: Any) -> Any:
    """A tensor of torch as an array; anything else as it is."""
    return array_of(value) if hasattr(value, "detach") else value


def _numbers_in(value: Any) -> Any:
    """The same inside lists and dictionaries."""
    if isinstance(value, (tuple, list)):
        return type(value)(_numbers_in(entry) for entry in value)
    if isinstance(value, dict):
        return {name: _numbers_in(entry) for name, entry in value.items()}
    return _number(value)


def _weight(module: Any) -> Any:
    weight = _number(getattr(module, "weight", None))
    if np.ndim(weight) != 2:
        raise InvalidInputError("a Linear must have a weight matrix, but one has none.")
    return weight


def _shape(values: Any) -> tuple[int, ...]:
    try:
        return (int(values),) if np.ndim(values) == 0 else tuple(int(n) for n in values)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "input_shape must hold the lengths of the axes of one point, as in (1, 28, 28), but was "
            f"{values!r}."
        ) from None
