"""Broken ONNX files, one per number: bytes changed, fields changed, sizes without end, graphs that bite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from oracles.onnx_zoo import network_of, networks, operators, random_case

Rng = np.random.Generator

SIZES = (0, 1, 2, 3, 7, -1, -2, 2**31, 2**40, -(2**40), 10**12, 2**63 - 1, -(2**63), 1000, 100_000)
NUMBERS = (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, 0.0, -0.0, 1e-45, 3.4e38, 0.1)
WORDS = (
    b"",
    b"SAME_UPPER",
    b"SAME_LOWER",
    b"VALID",
    b"reflect",
    b"\xff\xfe",
    b"x" * 1000,
    b"constant",
    b"wrap",
)
OTHERS = (
    "Erf",
    "Loop",
    "Sin",
    "Resize",
    "LSTM",
    "ArgMax",
    "Pow",
    "Sqrt",
    "Tanh",
    "",
    "Softmax",
    "NoSuchOperator",
)


@cache
def sound_models() -> tuple[bytes, ...]:
    """Files that are sound, to start from."""
    cases = [*operators(), *networks(), *(random_case(i) for i in range(60))]
    return tuple(
        case.model(case.types[-1 if i % 8 == 0 else 0]).SerializeToString() for i, case in enumerate(cases)
    )


def mutated(number: int) -> tuple[str, bytes]:
    """What was done to a file, in words, and the file."""
    rng = np.random.default_rng(number)
    if number % 8 == 0:
        maker = _pick(rng, MONSTERS)
        return maker.__name__.strip("_"), maker(rng).SerializeToString()
    base = _pick(rng, sound_models())
    if number % 8 in (1, 2):
        change = _pick(rng, (_flip, _truncate, _splice, _repeat))
        return change.__name__.strip("_"), change(rng, base)
    model = onnx.ModelProto.FromString(base)
    words = []
    for _ in range(int(rng.integers(1, 4))):
        change = _pick(rng, FIELDS)
        words.append(change.__name__.strip("_"))
        try:
            change(rng, model)
        except (
            ValueError,
            TypeError,
            IndexError,
        ):  # this model has no such field, or it does not take the value
            words.append("not possible")
    return ", ".join(words), model.SerializeToString()


def _pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


# Bytes
# ----------------------------------------------------------------------------------------------------------


def _flip(rng: Rng, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 20))):
        changed[int(rng.integers(len(data)))] = int(rng.integers(256))
    return bytes(changed)


def _truncate(rng: Rng, data: bytes) -> bytes:
    return data[: int(rng.integers(len(data)))]


def _splice(rng: Rng, data: bytes) -> bytes:
    other = _pick(rng, sound_models())
    return data[: int(rng.integers(len(data)))] + other[int(rng.integers(len(other))) :]


def _repeat(rng: Rng, data: bytes) -> bytes:
    """Twice the same message: protobuf merges them, so every name stands twice."""
    return data + data[: int(rng.integers(1, len(data)))]


# Fields
# ----------------------------------------------------------------------------------------------------------


def _node(rng: Rng, model: Any) -> Any:
    return _pick(rng, model.graph.node)


def _attribute_value(rng: Rng, model: Any) -> None:
    attribute = _pick(rng, [a for node in model.graph.node for a in node.attribute])
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = _pick(rng, SIZES)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = np.float32(_pick(rng, NUMBERS[:3] + NUMBERS[5:]))
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = _pick(rng, WORDS)
    elif attribute.type == onnx.AttributeProto.INTS:
        if rng.random() < 0.3 or not attribute.ints:
            attribute.ints.append(_pick(rng, SIZES))
        elif rng.random() < 0.3:
            del attribute.ints[0]
        else:
            attribute.ints[int(rng.integers(len(attribute.ints)))] = _pick(rng, SIZES)
    elif attribute.type == onnx.AttributeProto.TENSOR:
        _spoil(rng, attribute.t)


def _attribute_type(rng: Rng, model: Any) -> None:
    _pick(rng, [a for node in model.graph.node for a in node.attribute]).type = int(rng.integers(15))


def _attribute_name(rng: Rng, model: Any) -> None:
    attribute = _pick(rng, [a for node in model.graph.node for a in node.attribute])
    attribute.name = str(_pick(rng, ("axis", "axes", "pads", "no_such", "", "to", "value", "training_mode")))


def _attribute_gone(rng: Rng, model: Any) -> None:
    node = _pick(rng, [node for node in model.graph.node if node.attribute])
    del node.attribute[int(rng.integers(len(node.attribute)))]


def _attribute_added(rng: Rng, model: Any) -> None:
    names = (
        "axis",
        "axes",
        "ceil_mode",
        "training_mode",
        "spatial",
        "auto_pad",
        "keepdims",
        "broadcast",
        "group",
    )
    name = str(_pick(rng, names))
    _node(rng, model).attribute.append(
        helper.make_attribute(name, _pick(rng, (1, [1, 2], 0.5, "SAME_UPPER", -1)))
    )


def _operator(rng: Rng, model: Any) -> None:
    known = sorted(
        {node.op_type for case in sound_models()[::5] for node in onnx.ModelProto.FromString(case).graph.node}
    )
    _node(rng, model).op_type = str(_pick(rng, [*OTHERS, *known]))


def _domain(rng: Rng, model: Any) -> None:
    _node(rng, model).domain = str(_pick(rng, ("com.microsoft", "ai.onnx.ml", "ai.onnx", "x" * 300)))


def _input_of_node(rng: Rng, model: Any) -> None:
    node, names = _node(rng, model), [t.name for t in model.graph.initializer]
    names += [name for other in model.graph.node for name in other.output] + ["x", "", "nowhere"]
    where = int(rng.integers(len(node.input) + 1))
    if where == len(node.input):
        node.input.append(_pick(rng, names))  # perhaps its own output: a cycle
    elif rng.random() < 0.2:
        del node.input[where]
    else:
        node.input[where] = _pick(rng, names)


def _output_of_node(rng: Rng, model: Any) -> None:
    names = [name for other in model.graph.node for name in other.output] + ["x", "", "more"]
    node = _node(rng, model)
    if rng.random() < 0.5:
        node.output.append(_pick(rng, names))
    else:
        node.output[0] = _pick(rng, names)


def _order(rng: Rng, model: Any) -> None:
    nodes = list(model.graph.node)
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _node_gone(rng: Rng, model: Any) -> None:
    del model.graph.node[int(rng.integers(len(model.graph.node)))]


def _node_again(rng: Rng, model: Any) -> None:
    model.graph.node.append(_node(rng, model))


def _constant_gone(rng: Rng, model: Any) -> None:
    del model.graph.initializer[int(rng.integers(len(model.graph.initializer)))]


def _constant_again(rng: Rng, model: Any) -> None:
    model.graph.initializer.append(_pick(rng, model.graph.initializer))


def _constant_spoiled(rng: Rng, model: Any) -> None:
    _spoil(rng, _pick(rng, model.graph.initializer))


def _spoil(rng: Rng, tensor: Any) -> None:
    """Change one thing of a tensor."""
    match int(rng.integers(8)):
        case 0:
            tensor.dims.append(_pick(rng, SIZES))
        case 1:
            tensor.dims[int(rng.integers(len(tensor.dims)))] = _pick(rng, SIZES)
        case 2:
            tensor.data_type = int(rng.integers(-1, 30))
        case 3:
            tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data) + 1))]
        case 4:
            tensor.float_data.append(1.0)
        case 5:
            tensor.data_location = TensorProto.EXTERNAL
            places = (
                "../../etc/passwd",
                "/etc/passwd",
                "..",
                "",
                ".",
                "model.onnx",
                "nowhere.data",
                "a\0b",
                "a" * 5000,
            )
            for key, values in (
                ("location", places),
                ("offset", ("0", "-1", "1e9", "x")),
                ("length", ("4", "-4", str(2**62))),
            ):
                tensor.external_data.add(key=key, value=str(_pick(rng, values)))
        case _:
            array = np.array(numpy_helper.to_array(tensor))
            values = np.asarray(_pick(rng, NUMBERS if array.dtype.kind == "f" else SIZES[:-2]))
            with np.errstate(all="ignore"):
                array.reshape(-1)[int(rng.integers(array.size))] = values.astype(array.dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _input_shape(rng: Rng, model: Any) -> None:
    shape = model.graph.input[0].type.tensor_type.shape
    if rng.random() < 0.2:
        shape.dim.add(dim_value=_pick(rng, SIZES))
    elif rng.random() < 0.2:
        del shape.dim[int(rng.integers(len(shape.dim)))]
    else:
        dim = _pick(rng, shape.dim)
        if rng.random() < 0.3:
            dim.dim_param = "unknown"
        else:
            dim.dim_value = _pick(rng, SIZES)


def _input_type(rng: Rng, model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = int(rng.integers(20))


def _inputs(rng: Rng, model: Any) -> None:
    if rng.random() < 0.5:
        model.graph.input.append(model.graph.input[0])
        model.graph.input[-1].name = str(_pick(rng, ("x", "x2", "", "y")))
    else:
        del model.graph.input[:]


def _outputs(rng: Rng, model: Any) -> None:
    if rng.random() < 0.7:
        model.graph.output[0].name = str(_pick(rng, ("x", "nowhere", "", model.graph.node[0].output[0])))
    else:
        model.graph.output.append(model.graph.output[0])


def _opset(rng: Rng, model: Any) -> None:
    if rng.random() < 0.2:
        del model.opset_import[:]
    else:
        model.opset_import[0].version = int(
            _pick(rng, (0, 1, 5, 6, 7, 8, 9, 10, 11, 13, 15, 18, 22, 25, 99, -1, 2**40))
        )


def _words(rng: Rng, model: Any) -> None:
    _node(rng, model).name = str(_pick(rng, ("\x00", "a" * 10_000, "\n\n", "'\"", "é", "\u202e")))


FIELDS: tuple[Callable[[Rng, Any], None], ...] = (
    *(
        _attribute_value,
        _attribute_value,
        _attribute_type,
        _attribute_name,
        _attribute_gone,
        _attribute_added,
    ),
    *(_operator, _domain, _input_of_node, _input_of_node, _output_of_node, _order, _node_gone, _node_again),
    *(_constant_gone, _constant_again, _constant_spoiled, _constant_spoiled, _constant_spoiled, _input_shape),
    *(_input_type, _inputs, _outputs, _opset, _words),
)


# Sizes without end, and graphs that bite
# ----------------------------------------------------------------------------------------------------------


def _chain(
    rng: Rng, op: str, inputs: str, length: int, constants: dict[str, np.ndarray], **options: Any
) -> Any:
    """The same node many times, each reading the one before as ``{}``."""
    nodes, last = [], str(_pick(rng, ("x", *constants)))
    for i in range(length):
        nodes.append(helper.make_node(op, inputs.format(last, last).split(), [f"t{i}"], **options))
        last = f"t{i}"
    nodes.append(helper.make_node("Add", ["x", last], ["y"]))
    return _unchecked(nodes, ["N", 3], constants)


def _unchecked(nodes: Any, shape: Any, constants: dict[str, np.ndarray], opset: int = 17) -> Any:
    """A model whose shapes nobody infers: that may take all memory there is."""
    model = network_of([helper.make_node("Identity", ["x"], ["y"])], shape, constants, opset)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _doubled_entries(rng: Rng) -> Any:
    return _chain(rng, "Concat", "{} {}", 60, {}, axis=1)


def _squared_constants(rng: Rng) -> Any:
    return _chain(rng, "Mul", "{} {}", 60, {"c": np.array([0.1, 0.7, 1.3], dtype=np.float32)})


def _long_fractions(rng: Rng) -> Any:
    n = int(_pick(rng, (200, 2000)))
    rows = rng.integers(3, 10_000, size=(n, n)).astype(np.float32)
    nodes = [
        helper.make_node("Div", ["one", "rows"], ["d"]),
        helper.make_node("MatMul", ["d", "d"], ["m"]),
        helper.make_node("ReduceSum", ["d"], ["s"], keepdims=0),
        helper.make_node("Add", ["m", "s"], ["ms"]),
        helper.make_node("ReduceSum", ["ms"], ["all"], keepdims=0),
        helper.make_node("Mul", ["x", "all"], ["y"]),
    ]
    return _unchecked(nodes, ["N", 3], {"one": np.ones(1, dtype=np.float32), "rows": rows})


def _divided_features(rng: Rng) -> Any:
    """A division between two layers: exact coefficients have as many factors as there are features."""
    n = int(_pick(rng, (20, 300)))
    constants = {name: rng.normal(size=(n, n)).astype(np.float32) for name in ("w0", "w1")}
    constants |= {
        "first": rng.normal(size=(3, n)).astype(np.float32),
        "d": rng.normal(size=n).astype(np.float32),
    }
    words = "x first|MatMul a,a w0|MatMul b,b d|Div c,c w1|MatMul e,e d|Div f,f w0|MatMul g,g|Relu y"
    nodes = [
        helper.make_node(part.split("|")[1].split()[0], part.split("|")[0].split(), [part.split()[-1]])
        for part in words.split(",")
    ]
    return _unchecked(nodes, ["N", 3], constants)


def _filled(rng: Rng) -> Any:
    shape = np.array(
        [[10**12], [2**40, 2**40], [100_000, 100_000], [4096, 4096], [-5], [0]][int(rng.integers(6))][:2]
    )
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])]
    return _unchecked(nodes, ["N", 3], {"s": shape.reshape(-1).astype(np.int64)})


def _expanded(rng: Rng) -> Any:
    shape = np.array(_pick(rng, ([10**9, 1], [10**6, 10**6, 1], [5000, 3000, 1], [0, 1])), dtype=np.int64)
    nodes = [helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
    return _unchecked(nodes, ["N", 3], {"s": shape})


def _padded(rng: Rng) -> Any:
    pads = np.array(
        _pick(rng, ([0, 10**9, 0, 10**9], [0, 2**62, 0, 2**62], [0, 3000, 0, 3000], [0, -2, 0, -2]))
    )
    return _unchecked([helper.make_node("Pad", ["x", "p"], ["y"])], ["N", 3], {"p": pads.astype(np.int64)})


def _wide_input(rng: Rng) -> Any:
    shape = _pick(rng, ([1, 10**12], [1, 3, 2000, 2000], [1, 3, 224, 224], [1, 1, 400, 400], [2**40, 2**40]))
    if len(shape) == 2:
        return _unchecked([helper.make_node("Relu", ["x"], ["y"])], shape, {})
    weights = {
        f"w{i}": rng.normal(size=(4, c, 3, 3)).astype(np.float32) for i, c in enumerate((shape[1], 4, 4, 4))
    }
    nodes = [
        helper.make_node("Conv", [f"c{i - 1}" if i else "x", f"w{i}"], [f"c{i}"])
        for i in range(int(rng.integers(1, 5)))
    ]
    nodes.append(helper.make_node("GlobalAveragePool", [nodes[-1].output[0]], ["y"]))
    return _unchecked(nodes, shape, weights)


def _wide_layers(rng: Rng) -> Any:
    """Sound, and large for a file: a matrix of some million numbers."""
    n = int(_pick(rng, (2000, 3000, 4096)))
    weights = {
        "a": rng.normal(size=(3, n)).astype(np.float32),
        "b": rng.normal(size=(n, n)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    return _unchecked(nodes, ["N", 3], weights)


def _outer_sum(rng: Rng) -> Any:
    n = int(_pick(rng, (5000, 100_000)))
    constants = {"a": np.ones((n, 1), dtype=np.float32), "b": np.ones((1, n), dtype=np.float32)}
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("MatMul", ["x", "c"], ["y"])]
    return _unchecked(nodes, ["N", 3], constants)


def _large_averages(rng: Rng) -> Any:
    nodes = [helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
    return _unchecked(nodes, [1, 1, *_pick(rng, ([1000, 1000], [300, 300], [40, 40]))], {})


def _many_channels(rng: Rng) -> Any:
    n = int(_pick(rng, (2_000_000, 3000)))
    constants = {name: rng.random(n).astype(np.float32) for name in "sbmv"}
    return _unchecked([helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"])], [1, n], constants)


def _taken_often(rng: Rng) -> Any:
    index = {"i": np.zeros((1000, 1000), dtype=np.int64)}
    return _chain(rng, "Gather", "{} i", 3, index, axis=-1)


def _many_nodes(rng: Rng) -> Any:
    return _chain(rng, str(_pick(rng, ("Relu", "Identity", "Neg"))), "{}", int(_pick(rng, (500, 3000))), {})


def _large_windows(rng: Rng) -> Any:
    options = _pick(
        rng,
        (
            {"kernel_shape": [10**9], "pads": [10**9, 10**9]},
            {"kernel_shape": [1], "strides": [2**62]},
            {"kernel_shape": [1000], "pads": [2000, 2000]},
            {"kernel_shape": [2], "dilations": [2**40], "pads": [2**40, 0]},
            {"kernel_shape": [3], "pads": [3, 3]},
            {"kernel_shape": [0]},
        ),
    )
    op = str(_pick(rng, ("MaxPool", "AveragePool")))
    return _unchecked([helper.make_node(op, ["x"], ["y"], **options)], ["N", 2, 50], {}, 19)


def _nested_graphs(rng: Rng) -> Any:
    """Graphs in attributes of nodes of graphs, as deep as the format allows."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [])
    for _ in range(int(rng.integers(1, 30))):
        graph = helper.make_graph(
            [
                helper.make_node(
                    "If", ["x"], ["y"], then_branch=graph, else_branch=helper.make_graph([], "e", [], [])
                )
            ],
            "g",
            [],
            [],
        )
    model = _unchecked(list(graph.node), ["N", 3], {})
    model.graph.node[0].input[0] = "x"
    return model


MONSTERS: tuple[Callable[[Rng], Any], ...] = (
    *(_doubled_entries, _squared_constants, _long_fractions, _divided_features, _filled, _expanded, _padded),
    *(
        _wide_input,
        _wide_layers,
        _outer_sum,
        _large_averages,
        _many_channels,
        _taken_often,
        _many_nodes,
        _large_windows,
        _nested_graphs,
    ),
)
