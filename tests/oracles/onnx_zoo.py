"""ONNX models for tests: every operator that is read, with its attributes, and networks made of them.

A case is written down without numbers: nodes as ``("Gemm", "x w b", "y", {"transB": 1})`` and constants by
their shape (random numbers) or by their values. :meth:`Case.model` fills in numbers of one type.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
}
IR_VERSION = 8  # of opset 17; older ones need it too

Node = tuple[Any, ...]


class Numbers(tuple):
    """Given numbers of the type of the network (a plain tuple is the shape of random ones)."""


@dataclass(frozen=True)
class Case:
    """A model without its numbers.

    Attributes
    ----------
    shape : tuple
        Of the input; ``batch`` is the size of a first axis in front of it, a word or a number, if any.
    nodes : list of (operator, inputs, outputs, attributes)
        The last one makes the output, ``y``.
    constants : dict
        A tuple is the shape of random numbers, a list holds whole numbers, :class:`Numbers` given ones.
    """

    name: str
    shape: tuple[int, ...]
    nodes: Sequence[Node]
    constants: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    batch: str | int | None = "N"
    dropped: str | None = None  # the final activation that a reader leaves out
    types: tuple[type, ...] = (np.float32, np.float64)

    def model(self, dtype: Any = np.float32) -> onnx.ModelProto:
        """The model with random numbers, the same every time."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        shape = self.shape if self.batch is None else (self.batch, *self.shape)
        nodes = [
            helper.make_node(
                op, inputs.split(" "), outputs.split(" "), name=f"{op.lower()}_{i}", **dict(*rest)
            )
            for i, (op, inputs, outputs, *rest) in enumerate(self.nodes)
        ]
        for node in nodes:  # a lonely dash is an optional input that is left out
            node.input[:] = ["" if name == "-" else name for name in node.input if name]
        return network_of(
            nodes, shape, {n: _array(v, rng, dtype) for n, v in self.constants.items()}, self.opset, dtype
        )


def network_of(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str],
    constants: Mapping[str, np.ndarray],
    opset: int = 17,
    dtype: Any = np.float32,
) -> onnx.ModelProto:
    """A model from ``x`` to ``y``."""
    kind = TYPES[np.dtype(dtype)]
    graph = helper.make_graph(
        list(nodes),
        "made",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)  # the output needs a shape


def _array(value: Any, rng: np.random.Generator, dtype: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Numbers):
        return np.array(value, dtype=dtype)
    if isinstance(value, tuple):
        return rng.normal(size=value).astype(dtype)
    return np.array(value, dtype=np.int64)


def scalar(value: float) -> np.ndarray:
    """A number without axes, of type float32."""
    return np.array(value, dtype=np.float32)


def one(op: str, shape: tuple[int, ...], inputs: str = "x", **rest: Any) -> Case:
    """A case of one node; ``attributes`` and the fields of :class:`Case` may be given."""
    attributes = rest.pop("attributes", {})
    note = rest.pop("note", "")
    words = " ".join(f"{k}={v}" for k, v in attributes.items())
    name = " ".join(filter(None, (op, inputs, str(shape), words, note, f"opset {rest.get('opset', 17)}")))
    return Case(name, shape, [(op, inputs, "y", attributes)], **rest)


def _linear() -> Iterator[Case]:
    w, b = {"w": (4, 3)}, {"w": (4, 3), "b": (3,)}
    yield one("Gemm", (4,), "x w b", constants=b)
    yield one("Gemm", (4,), "x w", constants=w, opset=11)
    yield one("Gemm", (4,), "x w b", constants=b, opset=7)
    yield one("Gemm", (4,), "x w b", constants=b, attributes={"alpha": 0.3, "beta": -2.5})
    yield one("Gemm", (4,), "x w b", constants={"w": (3, 4), "b": (1, 3)}, attributes={"transB": 1})
    yield one("Gemm", (4,), "x w b", constants={"w": (4, 3), "b": ()}, note="scalar")
    yield one(
        "Gemm", (4, 2), "x w b", constants={"w": (4, 3), "b": (2, 3)}, attributes={"transA": 1}, batch=None
    )
    yield one("Gemm", (4, 2), "w x b", constants={"w": (3, 4), "b": (3, 1)}, batch=None)
    yield one(
        "Gemm", (4, 2), "w x", constants={"w": (2, 3)}, attributes={"transA": 1, "transB": 1}, batch=None
    )
    yield one("MatMul", (4,), "x w", constants=w)
    yield one("MatMul", (4,), "x w", constants=w, opset=7)
    yield one("MatMul", (2, 4), "x w", constants=w)
    yield one("MatMul", (2, 4), "w x", constants={"w": (3, 2)})
    yield one("MatMul", (2, 4), "x w", constants={"w": (4,)})
    yield one("MatMul", (2, 4), "w x", constants={"w": (2,)})
    yield one("MatMul", (3, 2, 4), "x w", constants={"w": (3, 4, 2)})
    yield one("MatMul", (4,), "x w", constants={"w": (4,)}, batch=None)
    yield one("MatMul", (1, 2, 4), "x w", constants={"w": (3, 4, 2)}, batch=None)


def _arithmetic() -> Iterator[Case]:
    for op in ("Add", "Sub", "Mul", "Div"):
        for opset in (7, 13, 14):
            yield one(op, (2, 3), "x c", constants={"c": (3,)}, opset=opset)
        yield one(op, (2, 3), "x c", constants={"c": ()})
        yield one(op, (2, 3), "x c", constants={"c": (2, 1)})
        yield one(op, (1, 3), "x c", constants={"c": (4, 2, 3)}, batch=None)
    for op in ("Add", "Sub", "Mul"):
        yield one(op, (2, 3), "c x", constants={"c": (1, 3)})
    yield one("Add", (3,), "x x")
    yield one("Sub", (3,), "x x")
    yield Case(
        "sum of broadcast variables",
        (2, 3),
        [("Slice", "x zero one_ axis", "row"), ("Relu", "row", "r"), ("Sub", "x r", "y")],
        {"zero": [0], "one_": [1], "axis": [1]},
    )
    yield one("Neg", (3,))
    yield one("Sum", (3,), "x c x", constants={"c": (3,)})


def _convolutions() -> Iterator[Case]:
    line, plane = (2, 7), (2, 5, 6)
    yield one("Conv", line, "x w b", constants={"w": (3, 2, 3), "b": (3,)})
    yield one("Conv", line, "x w", constants={"w": (3, 2, 3)}, attributes={"strides": [2], "pads": [2, 1]})
    yield one("Conv", line, "x w", constants={"w": (3, 2, 3)}, attributes={"dilations": [2]}, opset=7)
    yield one(
        "Conv", plane, "x w b", constants={"w": (3, 2, 3, 2), "b": (3,)}, attributes={"kernel_shape": [3, 2]}
    )
    for padding in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        options = {"auto_pad": padding, "strides": [2, 2]}
        yield one("Conv", plane, "x w", constants={"w": (2, 2, 3, 2)}, attributes=options)
        yield one("Conv", plane, "x w", constants={"w": (2, 2, 2, 2)}, attributes={"auto_pad": padding})
    yield one("Conv", plane, "x w", constants={"w": (4, 1, 2, 2)}, attributes={"group": 2}, note="depthwise")
    yield one("Conv", (4, 4, 3), "x w", constants={"w": (6, 2, 2, 2)}, attributes={"group": 2}, opset=11)
    options = {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
    yield one("Conv", plane, "x w b", constants={"w": (2, 2, 2, 3), "b": (2,)}, attributes=options, opset=22)
    yield one("Conv", (1, 3, 3, 3), "x w", constants={"w": (2, 1, 2, 2, 2)})


def _normalisation() -> Iterator[Case]:
    spread = Numbers((0.5, 2.0, 0.1))
    constants = {"s": (3,), "b": (3,), "m": (3,), "v": spread}
    for opset in (7, 9, 14, 15):
        yield one("BatchNormalization", (3, 4), "x s b m v", constants=constants, opset=opset)
    squares = constants | {"v": Numbers((0.0, 3.75, 15.75))}  # with epsilon, squares of 1/2, 2 and 4
    yield one("BatchNormalization", (3,), "x s b m v", constants=squares, attributes={"epsilon": 0.25})
    yield one("BatchNormalization", (3, 2, 2), "x s b m v", constants=constants, attributes={"momentum": 0.5})


def _units() -> Iterator[Case]:
    yield one("Relu", (2, 3))
    yield one("Relu", (3,), opset=7)
    yield one("LeakyRelu", (3,))
    for slope in (0.3, -0.5, 1.5, 0.0, 1.0):
        yield one("LeakyRelu", (3,), attributes={"alpha": slope}, opset=9)
    for shape in ((), (1,), (4,), (3, 1), (3, 4)):
        yield one("PRelu", (3, 4), "x s", constants={"s": shape})
    yield one("PRelu", (3, 4), "x s", constants={"s": (4,)}, opset=7)
    for bounds in ({}, {"min": -0.5}, {"max": 0.25}, {"min": -0.5, "max": 0.25}, {"min": 1.0, "max": -1.0}):
        if len(bounds) < 2 or bounds["min"] < bounds["max"]:
            yield one("Clip", (3,), attributes=bounds, opset=7)
        names = ["low" if "min" in bounds else "-", "high" if "max" in bounds else "-"]
        constants = {n: bounds[k] for n, k in (("low", "min"), ("high", "max")) if k in bounds}
        for opset in (11, 12, 13):
            yield Case(
                f"Clip {bounds} opset {opset}",
                (3,),
                [("Clip", f"x {' '.join(names)}".rstrip(" -"), "y")],
                {name: _Scalar(value) for name, value in constants.items()},
                opset,
            )
    for op in ("Max", "Min"):
        yield one(op, (2, 3))
        yield one(op, (2, 3), "x c", constants={"c": (1, 2, 3)}, opset=7, batch=1)
        yield one(op, (2, 3), "x c d", constants={"c": (2, 1), "d": ()}, opset=12)
        yield Case(f"{op} of variables", (2, 3), [("Neg", "x", "n"), (op, "x n x c", "y")], {"c": (3,)})
        yield one(op, (2, 3), "x c", constants={"c": (2, 1, 3)}, batch=None, opset=13)
    yield one("Abs", (3,))
    yield one("HardSigmoid", (3,), attributes={"alpha": 0.25, "beta": 0.4})
    yield one("HardSigmoid", (3,))


class _Scalar(Numbers):
    """One number without axes."""

    def __new__(cls, value: float) -> _Scalar:
        return super().__new__(cls, (value,))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self[0], dtype=dtype)


def _pools() -> Iterator[Case]:
    line, plane = (2, 7), (2, 6, 7)
    k2, k3 = {"kernel_shape": [2, 2]}, {"kernel_shape": [3, 3], "strides": [2, 2]}
    for op in ("MaxPool", "AveragePool"):
        yield one(op, line, attributes={"kernel_shape": [3]}, opset=7)
        yield one(op, line, attributes={"kernel_shape": [3], "strides": [2], "pads": [1, 1]})
        yield one(op, plane, attributes=k2)
        yield one(op, plane, attributes=k3 | {"pads": [1, 0, 2, 1]}, opset=10)
        yield one(op, plane, attributes=k3 | {"ceil_mode": 1}, opset=11)
        yield one(
            op,
            line,
            attributes={"kernel_shape": [3], "strides": [3], "pads": [1, 1], "ceil_mode": 1},
            opset=19,
        )
        for padding in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield one(op, plane, attributes=k3 | {"auto_pad": padding})
        yield one(op, (1, 3, 4, 3), attributes={"kernel_shape": [2, 2, 2]})
        yield one(op, line, attributes={"kernel_shape": [2], "dilations": [3]}, opset=19)
        yield one(op, line, attributes={"kernel_shape": [2], "dilations": [2], "pads": [1, 1]}, opset=22)
    yield one(
        "MaxPool", line, attributes={"kernel_shape": [2], "dilations": [3], "storage_order": 1}, opset=12
    )
    counted = {"count_include_pad": 1}
    yield one("AveragePool", plane, attributes=k3 | {"pads": [1, 1, 1, 1]} | counted, opset=7)
    yield one("AveragePool", plane, attributes=k3 | {"pads": [1, 0, 2, 1]} | counted, opset=19)
    yield one("AveragePool", plane, attributes=k3 | {"auto_pad": "SAME_LOWER"} | counted)
    yield one(
        "AveragePool", plane, attributes=k3 | {"pads": [1, 1, 1, 1], "ceil_mode": 1} | counted, opset=22
    )
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield one(op, (2, 3, 4))
        yield one(op, (2, 5), opset=7)
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"):
        old = 11
        yield one(op, (2, 3), attributes={"axes": [2], "keepdims": 0}, opset=old)
        yield one(op, (2, 3), attributes={"axes": [-1, -2]}, opset=old)
        yield one(op, (2, 3), "x a", constants={"a": [-1]}, attributes={"keepdims": 0}, opset=18)
        yield one(op, (2, 3), opset=18, batch=None)
        yield one(op, (2, 3), attributes={"noop_with_empty_axes": 1}, opset=18, batch=None)


def _shapes() -> Iterator[Case]:
    for axis in (0, 1, 2, 3, -1):
        yield one("Flatten", (2, 3), attributes={"axis": axis}, opset=11, batch=1)
    yield one("Flatten", (2, 3), opset=7)
    for to in ([-1, 6], [0, -1], [0, 3, -1], [0, 0, 3, 1]):
        yield one("Reshape", (2, 3), "x to", constants={"to": to}, note=str(to))
    yield one("Reshape", (2, 3), "x to", constants={"to": [3, 2]}, attributes={"allowzero": 1}, batch=None)
    yield one("Reshape", (2, 3), "x to", constants={"to": [6]}, opset=7, batch=None)
    yield one("Transpose", (2, 3), batch=None)
    yield one("Transpose", (2, 3, 4), attributes={"perm": [0, 3, 1, 2]})
    yield one("Concat", (2, 3), "x c x", constants={"c": (1, 2, 3)}, attributes={"axis": 1}, batch=1)
    yield one("Concat", (2, 3), "x x", attributes={"axis": -1})
    yield one("Concat", (3,), "x", attributes={"axis": 1}, opset=7)
    yield one("Slice", (4, 3), attributes={"axes": [1, 2], "starts": [1, -2], "ends": [9, 2**40]}, opset=9)
    yield one("Slice", (4,), attributes={"starts": [0, 1], "ends": [1, -1]}, opset=7, batch=1)
    names = "x starts ends axes steps"
    for starts, ends, axes, steps in (
        ([-1], [-(2**62)], [1], [-1]),
        ([3, 0], [0, 3], [-2, -1], [-2, 2]),
        ([10], [-10], [1], [-3]),
    ):
        constants = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
        yield one(
            "Slice", (5, 4), names, constants=constants, opset=13, note=f"{starts} {ends} {axes} {steps}"
        )
    yield one(
        "Slice", (4, 2), "x starts ends", constants={"starts": [0, 1], "ends": [1, 3]}, opset=10, batch=1
    )
    for indices in ([2, 0, 0], 1, [[0, 1], [-1, 2]]):
        yield one(
            "Gather", (3, 2), "x i", constants={"i": indices}, attributes={"axis": 1}, note=str(indices)
        )
    yield one("Gather", (3,), "x i", constants={"i": [2, 1]}, attributes={"axis": -1}, opset=11)
    yield one("Gather", (3,), "x i", constants={"i": 1}, opset=7, batch=None)
    yield one("Squeeze", (1, 3, 1), attributes={"axes": [1, -1]}, opset=11)
    yield one("Squeeze", (1, 3, 1), "x a", constants={"a": [1]}, opset=13)
    yield one("Squeeze", (1, 3, 1), batch=1)
    yield one("Unsqueeze", (3,), attributes={"axes": [0, 3]}, opset=11)
    yield one("Unsqueeze", (3,), "x a", constants={"a": [-1, 1]}, opset=13)
    yield one("Identity", (3,))
    yield one("Dropout", (3,), opset=7, attributes={"ratio": 0.3})
    yield one("Dropout", (3,), "x r t", constants={"r": _Scalar(0.3), "t": np.array(False)}, opset=13)
    pads = [0, 1, 2, 0, 2, 1]
    yield one("Pad", (2, 3), attributes={"pads": pads}, opset=7)
    yield one("Pad", (2, 3), attributes={"pads": pads, "value": 1.5, "mode": "constant"}, opset=10)
    yield one("Pad", (2, 3), "x p v", constants={"p": pads, "v": _Scalar(-0.5)}, opset=13)
    yield one("Pad", (2, 3), "x p", constants={"p": [0, 0, -1, 0, 1, 2]}, opset=13, note="negative")
    yield one("Pad", (2, 3), "x p - a", constants={"p": [1, 2], "a": [-1]}, opset=18)
    for mode in ("reflect", "edge"):
        yield one(
            "Pad", (2, 4), "x p", constants={"p": [0, 0, 2, 0, 0, 3]}, attributes={"mode": mode}, opset=18
        )
    yield one("Expand", (1, 3), "x to", constants={"to": [1, 2, 1]})
    yield Case(
        "Split",
        (6,),
        [("Split", "x s", "a b c", {"axis": 1}), ("Concat", "c a b", "y", {"axis": 1})],
        {"s": [1, 2, 3]},
    )
    yield Case(
        "Split evenly",
        (5,),
        [("Split", "x", "a b", {"axis": -1, "num_outputs": 2}), ("Concat", "b a", "y", {"axis": 1})],
        opset=18,
    )
    yield Case(
        "Split by attribute",
        (5,),
        [("Split", "x", "a b", {"axis": 1, "split": [2, 3]}), ("Concat", "b a", "y", {"axis": 1})],
        opset=11,
    )


def _constants() -> Iterator[Case]:
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [3], [0.5, -1.0, 2.0])
    single = helper.make_tensor("t", TensorProto.FLOAT, [1], [0.1])
    only = (np.float32,)
    for name, attribute in (("value", tensor), ("value_float", 0.1), ("value_floats", [1.0, 0.5, 0.1])):
        yield Case(
            f"Constant {name}",
            (3,),
            [("Constant", "", "c", {name: attribute}), ("Add", "x c", "y")],
            types=only,
        )
    for name, number in (("value_int", 2), ("value_ints", [2, 0])):
        yield Case(
            f"Constant {name}",
            (3,),
            [("Constant", "", "c", {name: number}), ("Gather", "x c", "y", {"axis": 1})],
        )
    yield Case(
        "ConstantOfShape",
        (3,),
        [
            ("ConstantOfShape", "s", "c", {"value": single}),
            ("Mul", "x c", "z"),
            ("ConstantOfShape", "s", "o"),
            ("Add", "z o", "y"),
        ],
        {"s": [3]},
        types=only,
    )
    flat = [
        ("Shape", "x", "s"),
        ("Gather", "s zero", "n", {"axis": 0}),
        ("Unsqueeze", "n zeros", "n1"),
        ("Concat", "n1 rest", "to", {"axis": 0}),
        ("Reshape", "x to", "y"),
    ]
    yield Case("shape arithmetic", (2, 3), flat, {"zero": 0, "zeros": [0], "rest": [-1]})
    part = [("Shape", "x", "s", {"start": 1, "end": -1}), ("Cast", "s", "f", {"to": 1}), ("Div", "x f", "y")]
    yield Case("part of a shape", (2, 3), part, types=only)
    sizes = [
        ("Shape", "x", "s"),
        ("Slice", "s one_ three", "t"),
        ("Mul", "t t", "u"),
        ("Sub", "u t", "v"),
        ("Div", "v two", "w"),
        ("Concat", "minus w", "to", {"axis": 0}),
        ("Reshape", "x to", "y"),
    ]
    yield Case("whole numbers", (3, 4), sizes, {"one_": [1], "three": [2], "two": [1], "minus": [-1]})
    cast = [
        ("Cast", "x", "d", {"to": TensorProto.DOUBLE}),
        ("Mul", "d c", "e"),
        ("Cast", "e", "y", {"to": 1}),
    ]
    yield Case("Cast", (3,), cast, {"c": np.array([0.1, 3.0, -0.7])}, types=only)
    cast = [("Cast", "c", "d", {"to": 1}), ("Add", "x d", "y")]
    yield Case("Cast of a constant rounds", (3,), cast, {"c": np.array([0.1, 3.0, -0.7])}, types=only)
    folded = [
        ("Mul", "c d", "e"),
        ("Add", "e d", "f"),
        ("Transpose", "w", "wt"),
        ("MatMul", "x wt", "z"),
        ("Div", "z f", "y"),
    ]
    yield Case("folded constants", (4,), folded, {"c": (3,), "d": (3,), "w": (3, 4)})
    applied = [("Relu", "c", "r"), ("Gemm", "r w", "g"), ("Add", "x g", "y")]
    yield Case("layers of constants", (3,), applied, {"c": (1, 4), "w": (4, 3)})


def _ends() -> Iterator[Case]:
    for op, options in (
        ("Softmax", {"axis": 1}),
        ("Softmax", {}),
        ("LogSoftmax", {"axis": -1}),
        ("Sigmoid", {}),
    ):
        nodes = [("Gemm", "x w b", "z"), (op, "z", "y", options)]
        yield Case(f"final {op} {options}", (4,), nodes, {"w": (4, 3), "b": (3,)}, dropped=op)
    nodes = [
        ("Relu", "x", "z"),
        ("Softmax", "z", "s", {"axis": 1}),
        ("Reshape", "s to", "r"),
        ("Identity", "r", "y"),
    ]
    yield Case("Softmax, then a new shape", (4,), nodes, {"to": [0, 2, 2]}, opset=11, dropped="Softmax")


def operators() -> list[Case]:
    """Every operator alone."""
    makers = (_linear, _arithmetic, _convolutions, _normalisation, _units, _pools, _shapes, _constants, _ends)
    return [case for maker in makers for case in maker()]


def _dense(sizes: Sequence[int], op: str, start: str, end: str) -> tuple[list[Node], dict[str, Any]]:
    """Layers with a ReLU between them, each as ``op`` wants its weights."""
    nodes: list[Node] = []
    constants: dict[str, Any] = {}
    last = start
    for i, (n, m) in enumerate(pairwise(sizes)):
        final = i == len(sizes) - 2
        out = end if final else f"{end}_z{i}"
        w, b = f"{end}_w{i}", f"{end}_b{i}"
        constants |= {w: (m, n) if op != "MatMul" else (n, m), b: (m,)}
        if op == "Gemm":
            nodes.append(("Gemm", f"{last} {w} {b}", out, {"transB": 1}))
        elif op == "MatMul":
            nodes += [("MatMul", f"{last} {w}", f"{out}_m"), ("Add", f"{b} {out}_m", out)]
        else:
            nodes += [
                ("Transpose", w, f"{w}t"),
                ("MatMul", f"{last} {w}t", f"{out}_m"),
                ("Add", f"{out}_m {b}", out),
            ]
        if not final:
            nodes.append(("Relu", out, f"{end}_h{i}"))
            last = f"{end}_h{i}"
    return nodes, constants


def networks() -> list[Case]:
    """Networks as people who verify networks have them."""
    found = []
    for op in ("Gemm", "MatMul", "transposed"):
        nodes, constants = _dense([5, 8, 8, 3], op, "x", "y")
        found.append(Case(f"dense layers, {op}", (5,), nodes, constants))
    nodes, constants = _dense([5] + [50] * 6 + [5], "transposed", "flat", "y")
    front = [("Sub", "x mean", "centred"), ("Div", "centred range", "scaled"), ("Flatten", "scaled", "flat")]
    constants |= {"mean": (5,), "range": Numbers((1.5, 2.0, 0.7, 1.0, 3.0))}
    found.append(Case("collision avoidance 6 x 50", (1, 1, 5), front + nodes, constants, batch=1))
    nodes, constants = _dense([12, 8, 3], "Gemm", "flat", "y")
    found.append(Case("Flatten and Gemm", (3, 4), [("Flatten", "x", "flat"), *nodes], constants))
    keras = [
        ("Transpose", "x", "t", {"perm": [0, 3, 1, 2]}),
        ("Conv", "t k c", "z", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ("Relu", "z", "h"),
        ("MaxPool", "h", "p", {"kernel_shape": [2, 2], "strides": [1, 1]}),
        ("Transpose", "p", "q", {"perm": [0, 2, 3, 1]}),
        ("Reshape", "q to", "flat"),
    ]
    nodes, constants = _dense([8, 6, 3], "MatMul", "flat", "z_end")
    constants |= {"k": (2, 1, 3, 3), "c": (2,), "to": [-1, 8]}
    end = [("Softmax", "z_end", "y")]
    found.append(Case("converted from Keras", (5, 6, 1), keras + nodes + end, constants, dropped="Softmax"))
    statistics = {"s": (3,), "sb": (3,), "m": (3,), "v": Numbers((0.5, 2.0, 0.1))}
    convolution = [
        ("Conv", "x k", "z", {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", "z s sb m v", "n"),
        ("Relu", "n", "h"),
        ("AveragePool", "h", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", "p l lb", "u"),
        ("LeakyRelu", "u", "h2", {"alpha": 0.1}),
        ("GlobalAveragePool", "h2", "g"),
        ("Flatten", "g", "f"),
        ("Gemm", "f w b", "y"),
    ]
    constants = statistics | {"k": (3, 1, 3, 3), "l": (4, 3, 2, 2), "lb": (4,), "w": (4, 2), "b": (2,)}
    found.append(Case("convolutions with batch norm", (1, 5, 4), convolution, constants))
    residual = [
        ("Gemm", "x w0 b0", "h0"),
        ("Relu", "h0", "r0"),
        ("Gemm", "r0 w1 b1", "h1"),
        ("Add", "h1 x", "s1"),
        ("Relu", "s1", "r1"),
        ("Gemm", "r1 w2 b2", "h2"),
        ("Add", "s1 h2", "s2"),
        ("Concat", "s2 r0 x", "all", {"axis": 1}),
        ("Gemm", "all w3", "y"),
    ]
    constants = {f"w{i}": (4, 4) for i in range(3)} | {f"b{i}": (4,) for i in range(3)} | {"w3": (12, 2)}
    found.append(Case("residual blocks and a concatenation", (4,), residual, constants))
    branches = [
        ("Conv", "x k", "a", {"pads": [1, 1]}),
        ("Relu", "a", "ar"),
        ("MaxPool", "x", "b", {"kernel_shape": [3], "pads": [1, 1]}),
        ("Concat", "ar b x", "c", {"axis": 1}),
        ("Transpose", "c", "t", {"perm": [0, 2, 1]}),
        ("PRelu", "t slope", "p"),
        ("Flatten", "p", "f"),
        ("MatMul", "f w", "m"),
        ("Clip", "m low high", "l"),
        ("Slice", "x zero one_ two", "first"),
        ("Flatten", "first", "ff"),
        ("Max", "l ff", "y"),
    ]
    constants = {"k": (2, 2, 3), "slope": (6,), "w": (24, 2), "low": _Scalar(-1.0), "high": _Scalar(2.0)}
    constants |= {"zero": [0], "one_": [1], "two": [2]}
    found.append(Case("branches of an inception block", (2, 4), branches, constants))
    recurrent = [
        ("Gemm", "x w b", "h0"),
        ("Relu", "h0", "r0"),
        ("Gemm", "r0 w b", "h1"),
        ("Relu", "h1", "r1"),
        ("Min", "r1 x", "y"),
    ]
    found.append(Case("shared weights", (3,), recurrent, {"w": (3, 3), "b": (3,)}))
    return found


def random_case(seed: int) -> Case:
    """A random graph: at each step an operator that fits a random tensor that is there already."""
    rng = np.random.default_rng(seed)
    nodes: list[Node] = []
    constants: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {"x": (int(rng.integers(1, 3)), int(rng.integers(2, 5)))}

    def add(op: str, inputs: str, shape: tuple[int, ...], **attributes: Any) -> None:
        out = f"t{len(nodes)}"
        nodes.append((op, inputs, out, attributes))
        shapes[out] = shape

    def constant(value: Any) -> str:
        constants[name := f"c{len(constants)}"] = value
        return name

    for _ in range(int(rng.integers(3, 12))):
        source = str(rng.choice(list(shapes)[-4:]))
        c, n = shapes[source]
        same = [name for name, shape in shapes.items() if shape == (c, n)]
        other = str(rng.choice(same))
        match int(rng.integers(14)):
            case 0:
                add("Relu", source, (c, n))
            case 1:
                add("LeakyRelu", source, (c, n), alpha=float(rng.choice([0.1, -0.5, 0.75])))
            case 2:
                add("Add", f"{source} {other}", (c, n))
            case 3:
                add("Sub", f"{source} {other}", (c, n))
            case 4:
                m = int(rng.integers(1, 5))
                add("MatMul", f"{source} {constant((n, m))}", (c, m))
            case 5:
                kernel, out = int(rng.integers(1, n + 1)), int(rng.integers(1, 3))
                add(
                    "Conv", f"{source} {constant((out, c, kernel))} {constant((out,))}", (out, n - kernel + 1)
                )
            case 6:
                kernel = int(rng.integers(1, n + 1))
                op = str(rng.choice(["MaxPool", "AveragePool"]))
                add(op, source, (c, n - kernel + 1), kernel_shape=[kernel])
            case 7 if c * n < 12:
                add("Concat", f"{source} {other}", (c, 2 * n), axis=2)
            case 8:
                add("Transpose", source, (n, c), perm=[0, 2, 1])
            case 9:
                add("Mul", f"{source} {constant((c, 1))}", (c, n))
            case 10:
                add(str(rng.choice(["Max", "Min"])), f"{source} {other} {constant((n,))}", (c, n))
            case 11:
                add("Clip", f"{source} {constant(_Scalar(-0.5))} {constant(_Scalar(1.0))}", (c, n))
            case 12:
                picked = [int(i) for i in rng.integers(n, size=int(rng.integers(1, 4)))]
                add("Gather", f"{source} {constant(picked)}", (c, len(picked)), axis=2)
            case _:
                add("Reshape", f"{source} {constant([0, n, c])}", (n, c))
    last = list(shapes)[-1]
    ends = [name for name in shapes if not any(name in node[1].split(" ") for node in nodes)]
    flats = []
    for name in ends if last != "x" else ["x"]:
        flats.append(f"f_{name}")
        nodes.append(("Flatten", name, flats[-1]))
    nodes.append(("Concat", " ".join(flats), "y", {"axis": 1}))
    return Case(f"random graph {seed}", shapes["x"], nodes, constants)
