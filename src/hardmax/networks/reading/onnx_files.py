"""ONNX files: opened as data, checked, and walked node by node into a graph.

The package ``onnx`` parses the file and says what each version of an operator takes (its schemas). Its
compiled checker and shape inference are not run: a file is data from elsewhere, and what they would find
(names that stand twice, cycles, attributes of another version, shapes that do not fit) is checked here, so
that a broken file costs a sentence and never the process. Sizes are checked before memory is taken.

The graph is that of one input: a first axis without a fixed length counts as one long. Numbers are those of
the file, and what is computed from constants alone is computed without rounding; an explicit ``Cast`` rounds,
because that is what it says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import FileFormatError, HardmaxError, MissingExtraError, UnsupportedNetworkError
from hardmax.networks.blocks import Block
from hardmax.networks.reading.graph import Graph, Tensor
from hardmax.networks.reading.onnx_operators import OPERATORS, Call, Refused, Sizes, Value
from hardmax.untrusted import plain_bytes

_MOST_BYTES = 2**28  # of a file together with those beside it: 268 MB
_MOST_NODES = 100_000
_OLDEST_OPSET = 7  # older ones broadcast by attributes
_FINAL = ("Softmax", "LogSoftmax", "Sigmoid")
_PASSING = ("Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast", "Dropout")
_SHOWN = 20  # obstacles in one sentence


def read_onnx(path: str | Path) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """The blocks of the network in an ONNX file, and how it was read.

    Raises
    ------
    MissingExtraError
        Without the package ``onnx``.
    FileFormatError
        If the file is no ONNX file, is damaged, or is too large.
    UnsupportedNetworkError
        Naming everything in it that is not read.
    """
    onnx = _onnx()
    file = Path(path)
    model = _parsed(onnx, file)
    walk = _Walk(onnx, file, model)
    return walk.blocks(), walk.description


def _onnx() -> Any:
    try:
        import onnx
        import onnx.defs
        import onnx.numpy_helper
    except ImportError:
        raise MissingExtraError(
            "reading an ONNX file needs onnx, which is not installed; try: pip install onnx."
        ) from None
    return onnx


def _parsed(onnx: Any, file: Path) -> Any:
    """The message in a file; external tensors are not followed here."""
    if file.is_dir():
        raise IsADirectoryError(f"cannot read {file}: it is a folder.")
    if not file.exists():
        raise FileNotFoundError(f"cannot read {file}: there is no such file.")
    content = plain_bytes(file, most=_MOST_BYTES)
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(content)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        raise FileFormatError(f"{file} must be an ONNX file, but is damaged or something else.") from None
    if any(isinstance(word, bytes) for word in _words(model)):  # what is no UTF-8 comes back as bytes
        raise FileFormatError(f"{file} must be an ONNX file, but its names are damaged.")
    if not model.HasField("graph") or not model.graph.node or not model.graph.output:
        raise FileFormatError(f"{file} must be an ONNX file, but holds no graph with nodes and an output.")
    return model


def _words(model: Any) -> Iterator[str | bytes]:
    """All names in a file."""
    net = model.graph
    for entry in (*net.input, *net.output, *net.initializer):
        yield entry.name
    for node in net.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.t.name)
            yield from (word for pair in attribute.t.external_data for word in (pair.key, pair.value))
    yield from (word for t in net.initializer for pair in t.external_data for word in (pair.key, pair.value))


class _Walk:
    """One file: its nodes become operations of a graph, and what stands in the way is collected."""

    def __init__(self, onnx: Any, file: Path, model: Any) -> None:
        self._onnx, self._file, self._net = onnx, file, model.graph
        self._obstacles: list[str] = []
        self._sizes = Sizes()
        self._needed: set[str] = set()
        self._bytes = file.stat().st_size
        self.description: dict[str, Any] = {"made_by": "Network.from_onnx", "file": file.name}
        self._opset = self._read_opset(model)
        self._makers = {name: node for node in self._net.node for name in node.output if name}
        self._check_names()

    # The file as a whole
    # ------------------------------------------------------------------------------------------------------

    def _read_opset(self, model: Any) -> int:
        versions = {entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")}
        newest = self._onnx.defs.onnx_opset_version()
        if len(versions) != 1:
            raise FileFormatError(
                f"{self._file} must name one version of ONNX's operators, but names {len(versions)}."
            )
        (opset,) = versions
        if not _OLDEST_OPSET <= opset <= newest:
            advice = "a newer package onnx" if opset > newest else "onnx.version_converter"
            raise FileFormatError(
                f"{self._file} must use opset {_OLDEST_OPSET} to {newest}, but uses {opset}; try {advice}."
            )
        return int(opset)

    def _check_names(self) -> None:
        net = self._net
        if max(len(net.node), len(net.initializer), len(net.input)) > _MOST_NODES:
            raise FileFormatError(f"{self._file} must have at most {_MOST_NODES:,} nodes, but has more.")
        constants = [tensor.name for tensor in net.initializer]
        given = [entry.name for entry in net.input if entry.name not in set(constants)]
        names = Counter([*constants, *given, *(name for node in net.node for name in node.output if name)])
        if twice := [name for name, count in names.items() if count > 1]:
            raise FileFormatError(
                f"{self._file} must make each value once, but makes {_listed(twice)} more than once."
            )
        if len(given) != 1 or len(net.output) != 1:
            raise FileFormatError(
                f"{self._file} must have one input and one output, but has the inputs {_listed(given)} and "
                f"the outputs {_listed([entry.name for entry in net.output])}."
            )

    def blocks(self) -> tuple[Block, ...]:
        """The network from input to output."""
        constants = {tensor.name: tensor for tensor in self._net.initializer}
        (entry,) = (entry for entry in self._net.input if entry.name not in constants)
        output = self._net.output[0].name
        graph = Graph(self._input_shape(entry))
        final = self._final(output)
        needed = self._needed = self._reachable(output)
        values: dict[str, Value | None] = {entry.name: graph.input, "": None}
        for name in needed & constants.keys():
            values[name] = self._constant(constants[name])
        for node in self._net.node:
            if needed & set(node.output):
                values |= self._made(graph, node, values, node is final)
        result = values.get(output)
        if more := len(self._obstacles) - _SHOWN:
            self._obstacles[_SHOWN:] = [f"{more} more"] if more > 0 else []
        if self._obstacles:
            raise UnsupportedNetworkError(self._obstacles)
        if not isinstance(result, Tensor):
            raise FileFormatError(
                f"{self._file} must have an output that some node makes of floats, but has not."
            )
        self.description |= {"output": output, "output_shape": list(result.shape)}
        return graph.blocks(result)

    def _input_shape(self, entry: Any) -> tuple[int, ...]:
        kind = entry.type.tensor_type
        floats = ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16")
        if kind.elem_type not in {self._onnx.TensorProto.DataType.Value(name) for name in floats}:
            raise UnsupportedNetworkError(
                [f"the input {entry.name!r} must be a tensor of floats, but is not"]
            )
        # a length that is not known is a word or nothing; some files write 0 or -1
        sizes = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in kind.shape.dim]
        unknown = [i for i, size in enumerate(sizes) if size < 1]
        if not sizes or unknown not in ([], [0]) or (unknown and len(sizes) == 1):
            raise UnsupportedNetworkError(
                [f"the input {entry.name!r} must have axes of fixed length but for a first one, but does not"]
            )
        shape = (1, *sizes[1:]) if unknown else tuple(sizes)
        try:
            self._sizes.charge(shape)
        except Refused as refused:
            raise UnsupportedNetworkError([f"the input {entry.name!r} ({refused})"]) from None
        self.description |= {"input": entry.name, "input_shape": list(shape)}
        return shape

    def _reachable(self, output: str) -> set[str]:
        """Every value that the output depends on."""
        found: set[str] = set()
        stack = [output]
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack.extend(self._makers[name].input if name in self._makers else ())
        return found

    def _final(self, output: str) -> Any:
        """The final softmax or sigmoid, which does not move the argmax, if only new shapes follow it."""
        readers = Counter(name for node in self._net.node for name in node.input)
        name = output
        for _ in range(len(self._net.node)):
            node = self._makers.get(name)
            if node is None or readers[name] > (name != output) or not node.input:
                return None
            if node.op_type in _FINAL and node.domain in ("", "ai.onnx"):
                return node
            if node.op_type not in _PASSING:
                return None
            name = node.input[0]
        return None

    # Nodes and constants
    # ------------------------------------------------------------------------------------------------------

    def _made(self, graph: Graph, node: Any, values: dict[str, Value | None], final: bool) -> dict[str, Any]:
        """What a node makes; nothing, with an obstacle noted, if it is not understood."""
        made: list[Value] = []
        try:
            call = self._call(graph, node, values, final)
            if call is not None:  # otherwise what it reads is missing already
                made = OPERATORS[node.op_type](call)
                self._sizes.check(made)
                if missing := [name for name in node.output[len(made) :] if name in self._needed]:
                    raise Refused(f"makes {_listed(missing)}, which is not read")
                self.description |= call.note
        except UnsupportedNetworkError:
            raise
        except (Refused, HardmaxError) as reason:
            made = []
            where = repr(node.name[:80]) if node.name else f"that makes {_listed(node.output)}"
            self._obstacles.append(f"{_operator(node)} {where} ({str(reason).rstrip('.')})")
        found = dict.fromkeys(node.output) | dict(zip(node.output, made, strict=False))
        return {name: value for name, value in found.items() if name}

    def _call(self, graph: Graph, node: Any, values: dict[str, Value | None], final: bool) -> Call | None:
        if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
            raise Refused("not among the operators that are read")
        try:
            schema = self._onnx.defs.get_schema(node.op_type, self._opset, "")
        except self._onnx.defs.SchemaError:
            raise Refused(f"not an operator of opset {self._opset}") from None
        if schema.deprecated or not schema.min_input <= len(node.input) <= schema.max_input:
            raise Refused(f"has {len(node.input)} inputs, which opset {self._opset} does not know")
        attributes = self._attributes(node, schema)
        if late := [name for name in node.input if name not in values]:
            raise Refused(f"reads {_listed(late)}, which nothing before it makes")
        inputs = [values[name] for name in node.input]
        if any(value is None and name for name, value in zip(node.input, inputs, strict=True)):
            return None
        names = [formal.name for formal in schema.inputs]
        return Call(
            graph,
            self._sizes,
            schema.since_version,
            attributes,
            names,
            inputs,
            len(node.output),
            final,
            self._tensor,
        )

    def _attributes(self, node: Any, schema: Any) -> dict[str, Any]:
        """The attributes of a node with the defaults of its version."""
        value_of = self._onnx.helper.get_attribute_value
        defaults = {name: known.default_value for name, known in schema.attributes.items()}
        found = {name: value_of(default) for name, default in defaults.items() if default.name}
        for attribute in node.attribute:
            known = schema.attributes.get(attribute.name)
            if known is None:
                raise Refused(f"has an attribute {attribute.name!r}, which opset {self._opset} does not know")
            if attribute.ref_attr_name or int(attribute.type) != int(known.type.value):
                raise Refused(
                    f"has an attribute {attribute.name!r} of another type than opset {self._opset} wants"
                )
            found[attribute.name] = value_of(attribute)
        if missing := [n for n, known in schema.attributes.items() if known.required and n not in found]:
            raise Refused(f"has no attribute {_listed(missing)}")
        return found

    def _constant(self, tensor: Any) -> Value | None:
        try:
            return self._tensor(tensor)
        except Refused as refused:
            self._obstacles.append(f"the initialiser {tensor.name!r} ({refused})")
            return None

    def _tensor(self, tensor: Any) -> NDArray[Any]:
        """The array of a tensor in the file: float64, or whole numbers, or booleans."""
        kinds = self._onnx.TensorProto.DataType
        types = "FLOAT DOUBLE FLOAT16 BFLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL"
        names = {kinds.Value(name): name for name in types.split()}
        if tensor.data_type not in names:
            raise Refused("must hold floats or whole numbers, but holds something else")
        shape = tuple(tensor.dims)
        if min(shape, default=0) < 0:
            raise Refused(f"must have a shape, but has {_shown(shape)}")
        self._sizes.charge([max(size, 1) for size in shape])  # numpy minds the others where one is 0
        width = self._onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        if tensor.data_location == self._onnx.TensorProto.EXTERNAL:
            self._bring_in(tensor, prod(shape) * width)
        try:
            array = np.asarray(self._onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, OverflowError, AttributeError):
            array = np.empty(0)
        if array.shape != shape:
            raise Refused(f"must hold {prod(shape):,} numbers for its shape {_shown(shape)}, but does not")
        return array if array.dtype.kind in "iub" else array.astype(np.float64)

    def _bring_in(self, tensor: Any, n_bytes: int) -> None:
        """Data from a file beside the model: a plain name in the same folder, and not one byte too many."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        name = entries.get("location", "")
        if name in ("", ".", "..") or set("/\\\0") & set(name) or len(name) > 200:
            raise Refused(f"must keep its data in a file of the same folder, but names {name[:80]!r}")
        beside = self._file.parent / name
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length", n_bytes))
            there = 0 if beside.is_symlink() or not beside.is_file() else beside.stat().st_size
        except (ValueError, OSError):
            offset = length = there = -1
        if offset < 0 or length != n_bytes or offset + n_bytes > there:
            raise Refused(f"must have {n_bytes:,} bytes of data in {name!r} beside the file, but has not")
        self._bytes += n_bytes
        if self._bytes > _MOST_BYTES:
            raise Refused(f"makes the file larger than {_MOST_BYTES:,} bytes")
        with beside.open("rb") as data:
            data.seek(offset)
            tensor.raw_data = data.read(n_bytes)
        tensor.data_location = self._onnx.TensorProto.DEFAULT


def _operator(node: Any) -> str:
    name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    return str(name) if re.fullmatch(r"[\w.]{1,80}", name) else f"operator {name[:80]!r}"


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name[:80]) for name in names[:5]]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "none"


def _shown(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape[:8]))}{', ...' if len(shape) > 8 else ''})"
