"""ONNX files: values against onnxruntime and onnx's own evaluator, exactly against a plain one, refusals."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from oracles.mutated_onnx import mutated  # noqa: E402
from oracles.onnx_zoo import Case, network_of, networks, operators, random_case  # noqa: E402
from oracles.plain_onnx import plain_value  # noqa: E402

import hardmax as hm  # noqa: E402
from hardmax.errors import (  # noqa: E402
    FileFormatError,
    HardmaxError,
    MissingExtraError,
    UnsupportedNetworkError,
)

ALONE, COMBINED = operators(), [*networks(), *(random_case(i) for i in range(80))]
# For each of about 570 models; by hand once with HARDMAX_ONNX_POINTS=100000, which takes minutes.
POINTS = int(os.environ.get("HARDMAX_ONNX_POINTS", "300"))
onnxruntime.set_default_logger_severity(4)


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def runner(model: onnx.ModelProto):
    """What computes the model: onnxruntime if it has kernels for its type, else onnx's own evaluator."""
    options = onnxruntime.SessionOptions()
    # optimised, it rounds limits of Min and Max to float32 in a graph of doubles (random graph 74)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content, providers = model.SerializeToString(), ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(content, options, providers=providers)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return ReferenceEvaluator(model)


def inputs_of(case: Case, dtype: type, count: int) -> np.ndarray:
    """Points, (count, *shape); some coordinates are the same or zero, so that maxima tie."""
    rng = np.random.default_rng(len(case.name))
    points = rng.normal(size=(count, *case.shape)) * rng.choice(
        [0.5, 3.0], size=(count, *[1] * len(case.shape))
    )
    points[: count // 10] = np.round(points[: count // 10])
    return points.astype(dtype)


def expected_of(case: Case, model: onnx.ModelProto, points: np.ndarray) -> np.ndarray:
    run = runner(model)
    if case.batch == "N" and isinstance(run, onnxruntime.InferenceSession):
        found = run.run(None, {"x": points})[0]
        if found.shape[:1] == points.shape[:1]:
            return found.reshape(len(points), -1)
    shape = case.shape if case.batch is None else (1, *case.shape)
    return np.array([run.run(None, {"x": point.reshape(shape)})[0].reshape(-1) for point in points])


def compare(case: Case, dtype: type, folder: Path, count: int) -> int:
    """The values of a model at some points; how many were compared with something outside."""
    model = case.model(dtype)
    network = hm.Network.from_onnx(saved(model, folder))
    points = inputs_of(case, dtype, count)
    if dtype == np.float64 and isinstance(runner(model), ReferenceEvaluator):
        points = points[:40]  # it is slow
    try:
        expected = expected_of(case, model, points)
    except (TypeError, ValueError, IndexError):  # onnx's evaluator has no such version
        return 0
    found = network(points.reshape(len(points), -1).astype(float))
    if case.dropped == "Sigmoid":
        found = 1.0 / (1.0 + np.exp(-found))
    elif case.dropped is not None:
        found -= np.log(np.exp(found).sum(axis=1, keepdims=True))
        found = np.exp(found) if case.dropped == "Softmax" else found
    assert network.description.get("dropped") == case.dropped
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * (1.0 + np.abs(expected).max())
    return len(points)


# onnx's own evaluator is wrong about these, and onnxruntime has no kernels for doubles
UNJUDGED = (
    "MaxPool x (2, 6, 7) kernel_shape=[3, 3] strides=[2, 2] auto_pad=SAME_LOWER",
    "GlobalMaxPool x (2, 5) opset 7",
    "BatchNormalization x s b m v (3, 4) opset 9",
)


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_agree(part, dtype, tmp_path):
    compared = 0
    for case in [*ALONE, *COMBINED][part::8]:
        if dtype in case.types and not (dtype == np.float64 and case.name.startswith(UNJUDGED)):
            compared += compare(case, dtype, tmp_path, POINTS)
    # sixteen parts: more than 1e5 points altogether
    assert compared > (11_000 if dtype == np.float32 else 5_000)


@pytest.mark.parametrize("part", range(4))
def test_values_are_exact(part, tmp_path):
    compared = 0
    for case in [*ALONE, *COMBINED][part::4]:
        if case.name == "Cast":  # a value of the input is not rounded, a plain evaluator rounds
            continue
        for dtype in case.types[-1:]:
            model = case.model(dtype)
            network = hm.Network.from_onnx(saved(model, tmp_path))
            for x in inputs_of(case, np.float64, 20)[[0, -1]]:
                try:
                    expected = plain_value(model, x)
                except AssertionError:  # an irrational root
                    continue
                assert network.exact_value(x.reshape(-1)) == tuple(expected), case.name
                compared += 1
    assert compared > 140


def test_every_operator_is_alone_in_the_zoo():
    from hardmax.networks.reading.onnx_operators import OPERATORS

    assert {node[0] for case in ALONE for node in case.nodes} == set(OPERATORS)


# Refusals
# ----------------------------------------------------------------------------------------------------------


def test_each_operator_outside_the_list_is_named(tmp_path):
    from hardmax.networks.reading.onnx_operators import OPERATORS

    schemas = {schema.name: schema for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    others = sorted(name for name in schemas if name not in OPERATORS)
    assert len(others) > 100
    for name in others:
        node = helper.make_node(name, ["x"], ["y"], name="here")
        with pytest.raises(UnsupportedNetworkError, match=f"{name} 'here' \\(not among"):
            hm.Network.from_onnx(saved(_bare([node]), tmp_path))


def _bare(nodes, shape=("N", 3), constants=None, opset=17):
    model = network_of([helper.make_node("Relu", ["x"], ["y"])], shape, constants or {}, opset)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def test_all_obstacles_at_once(tmp_path):
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"], name="first"),
        helper.make_node("Mul", ["x", "x"], ["b"], name="square"),
        helper.make_node("Add", ["a", "b"], ["c"], name="sum"),
        helper.make_node("FusedConv", ["c", "x"], ["d"], domain="com.microsoft"),
        helper.make_node("Softmax", ["d"], ["e"], name="soft"),
        helper.make_node("Relu", ["e"], ["y"], name="last"),
    ]
    with pytest.raises(UnsupportedNetworkError) as caught:
        hm.Network.from_onnx(saved(_bare(nodes), tmp_path))
    assert caught.value.obstacles == (
        "Tanh 'first' (not among the operators that are read)",
        "Mul 'square' (multiplies two values that depend on the input)",
        "com.microsoft.FusedConv that makes 'd' (not among the operators that are read)",
    )
    del nodes[3]
    nodes[3].input[0] = "x"
    with pytest.raises(UnsupportedNetworkError, match=r"Softmax 'soft' \(is not piecewise linear"):
        hm.Network.from_onnx(saved(_bare(nodes), tmp_path))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (helper.make_node("Div", ["c", "x"], ["y"]), "divides by a value that depends on the input"),
        (helper.make_node("Div", ["x", "zero"], ["y"]), "divides by zero"),
        (helper.make_node("MatMul", ["x", "x"], ["y"]), "multiplies two values"),
        (helper.make_node("Gather", ["x", "c"], ["y"]), "indices that are not known whole numbers"),
        (helper.make_node("Reshape", ["x", "two"], ["y"]), "gives 3 entries the shape"),
        (helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64), "depends on the input to whole"),
        (helper.make_node("Softmax", ["x"], ["y"], axis=0), "may move the argmax"),
        (helper.make_node("LeakyRelu", ["x"], ["y"], alpha=float("nan")), "has alpha nan"),
        (helper.make_node("Relu", ["x"], ["y"], alpha=1.0), "attribute 'alpha', which opset 17"),
        (helper.make_node("Relu", ["nowhere"], ["y"]), "reads 'nowhere', which nothing before it makes"),
        (helper.make_node("Relu", ["y"], ["y"]), "reads 'y', which nothing before it makes"),
        (helper.make_node("Concat", ["x", "x"], ["y"]), "has no attribute 'axis'"),
        (helper.make_node("Pad", ["x", "pads"], ["y"], mode="wrap"), "has mode 'wrap'"),
        (helper.make_node("Add", ["x", "nan"], ["y"]), "must be finite"),
        (helper.make_node("ReduceSum", ["x"], ["y"], keepdims=7), "has keepdims 7, which must be 0 or 1"),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0]), "has perm"),
        (helper.make_node("Add", ["x", "one"], ["y"]), "whole numbers where floats are read"),
        (helper.make_node("ConstantOfShape", ["huge"], ["y"]), "too large to be read"),
        (helper.make_node("Expand", ["x", "huge"], ["y"]), "too large to be read"),
    ],
)
def test_refusals_say_why(node, words, tmp_path):
    constants = {
        "c": np.ones(3, dtype=np.float32),
        "zero": np.array([1, 0, 1], dtype=np.float32),
        "two": np.array([2, 2]),
        "one": np.array([1]),
        "pads": np.zeros(4, dtype=np.int64),
        "nan": np.array([np.nan], dtype=np.float32),
        "huge": np.array([10**6, 10**6, 1]),
    }
    with pytest.raises(UnsupportedNetworkError) as caught:
        hm.Network.from_onnx(saved(_bare([node], constants=constants), tmp_path))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.graph.ClearField("node"), "holds no graph"),
        (lambda m: m.ClearField("opset_import"), "names 0"),
        (lambda m: setattr(m.opset_import[0], "version", 6), "uses 6; try onnx.version_converter"),
        (lambda m: setattr(m.opset_import[0], "version", 999), "uses 999; try a newer package onnx"),
        (lambda m: m.graph.input.append(helper.make_tensor_value_info("z", 1, [3])), "inputs 'x', 'z'"),
        (lambda m: m.graph.node.append(m.graph.node[0]), "makes 'y' more than once"),
        (lambda m: m.graph.output.append(m.graph.output[0]), "outputs 'y', 'y'"),
        (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 7), "tensor of floats"),
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim.add(dim_param="length"), "fixed length"),
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim.add(dim_value=10**12), "too large"),
    ],
)
def test_bad_files_say_why(change, words, tmp_path):
    model = _bare([helper.make_node("Relu", ["x"], ["y"])])
    change(model)
    with pytest.raises((FileFormatError, UnsupportedNetworkError)) as caught:
        hm.Network.from_onnx(saved(model, tmp_path))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "opset", "words"),
    [
        (
            [helper.make_node("Expand", ["x", "one"], ["y"])],
            7,
            "Expand that makes 'y' (not an operator of opset 7",
        ),
        (
            [
                helper.make_node("Dropout", ["x"], ["a", "mask"]),
                helper.make_node("Cast", ["mask"], ["y"], to=1),
            ],
            17,
            "Dropout that makes 'a', 'mask' (makes 'mask', which is not read)",
        ),
        ([helper.make_node("A\nB", ["x"], ["y"])], 17, "operator 'A\\nB' that makes 'y' (not among"),
    ],
)
def test_more_refusals(nodes, opset, words, tmp_path):
    with pytest.raises(UnsupportedNetworkError) as caught:
        hm.Network.from_onnx(
            saved(_bare(nodes, constants={"one": np.ones(1, np.int64)}, opset=opset), tmp_path)
        )
    assert words in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        hm.Network.from_onnx(tmp_path / "nothing.onnx")
    with pytest.raises(IsADirectoryError):
        hm.Network.from_onnx(tmp_path)
    named = saved(_bare([helper.make_node("Relu", ["x"], ["y"], name="name")]), tmp_path)
    named.write_bytes(named.read_bytes().replace(b"name", b"n\xffme"))
    with pytest.raises(FileFormatError, match="names are damaged"):
        hm.Network.from_onnx(named)
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(FileFormatError, match="damaged or something else"):
        hm.Network.from_onnx(tmp_path / "text.onnx")


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtraError, match="pip install onnx"):
        hm.Network.from_onnx(tmp_path / "any.onnx")


# Data beside the file
# ----------------------------------------------------------------------------------------------------------


def _external(folder: Path, **entries: str) -> Path:
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)
    model = _bare([helper.make_node("MatMul", ["x", "w"], ["y"])], constants={"w": weights})
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    (folder / "w.data").write_bytes(b"\0\0\0\0" + weights.tobytes())
    for key, value in ({"location": "w.data", "offset": "4", "length": "24"} | entries).items():
        tensor.external_data.add(key=key, value=value)
    return saved(model, folder)


def test_data_beside_the_file_is_read(tmp_path):
    assert hm.Network.from_onnx(_external(tmp_path))([1.0, 1.0, 1.0]).tolist() == [6.0, 9.0]


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "../w.data"},
        {"location": "/etc/passwd"},
        {"location": ""},
        {"location": ".."},
        {"location": "link.data"},
        {"location": "fifo.data"},
        {"location": "missing.data"},
        {"location": "n" * 5000},
        {"offset": "8"},
        {"offset": "-4"},
        {"offset": "x"},
        {"length": "23"},
        {"length": str(2**62)},
    ],
)
def test_data_elsewhere_is_refused(entries, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "w.data").write_bytes(bytes(28))
    (inner / "link.data").symlink_to(tmp_path / "w.data")
    os.mkfifo(inner / "fifo.data")
    with pytest.raises(UnsupportedNetworkError, match="initialiser 'w'"):
        hm.Network.from_onnx(_external(inner, **entries))


# What is decided about numbers
# ----------------------------------------------------------------------------------------------------------


def test_constants_are_computed_without_rounding(tmp_path):
    third = [
        helper.make_node("Div", ["one", "three"], ["t"]),
        helper.make_node("Mul", ["x", "t"], ["y"]),
    ]
    constants = {"one": np.ones(1, dtype=np.float32), "three": np.full(1, 3, dtype=np.float32)}
    network = hm.Network.from_onnx(saved(_bare(third, constants=constants), tmp_path))
    assert network.exact_value([1, 0, 0])[0] == Fraction(1, 3)


def test_nodes_that_the_output_does_not_need_are_passed_over(tmp_path):
    nodes = [helper.make_node("Erf", ["x"], ["unused"]), helper.make_node("Relu", ["x"], ["y"])]
    assert hm.Network.from_onnx(saved(_bare(nodes), tmp_path))([1.0, -1.0, 2.0]).tolist() == [1.0, 0.0, 2.0]


def test_constants_may_be_listed_as_inputs(tmp_path):
    model = _bare([helper.make_node("Mul", ["x", "c"], ["y"])], constants={"c": np.full(3, 2, np.float32)})
    model.graph.input.insert(0, helper.make_tensor_value_info("c", TensorProto.FLOAT, [3]))
    assert hm.Network.from_onnx(saved(model, tmp_path))([1.0, 2.0, 3.0]).tolist() == [2.0, 4.0, 6.0]


def test_a_result_that_does_not_depend_on_the_input(tmp_path):
    model = _bare([helper.make_node("Relu", ["c"], ["y"])], constants={"c": np.array([-1, 2], np.float32)})
    assert hm.Network.from_onnx(saved(model, tmp_path))([5.0, 5.0, 5.0]).tolist() == [0.0, 2.0]


def test_description_says_how_it_was_read(tmp_path):
    case = next(case for case in COMBINED if case.dropped == "Softmax")
    network = hm.Network.from_onnx(saved(case.model(), tmp_path))
    assert network.description == {
        "made_by": "Network.from_onnx",
        "file": "model.onnx",
        "input": "x",
        "input_shape": [1, 5, 6, 1],
        "output": "y",
        "output_shape": [1, 3],
        "dropped": "Softmax",
    }
    network.save(tmp_path / "net.npz")
    assert hm.load(tmp_path / "net.npz").description == network.description


def test_rounding_of_batch_norm_is_noted():
    network = hm.Network.from_onnx(Path(__file__).parents[4] / "examples/moons.onnx")
    assert "BatchNormalization" in network.description["rounded"]
    assert network.description["dropped"] == "Softmax"


def test_regions_of_a_file(tmp_path):
    case = next(case for case in COMBINED if case.name == "shared weights")
    network = hm.Network.from_onnx(saved(case.model(), tmp_path))
    plane = network.restrict([0, 0, 0.5], [[1, 0, 0], [0, 1, 0]])
    regions = hm.enumerate_regions(plane, hm.Box([-1, -1], [1, 1]))
    seen = plane.signature(np.random.default_rng(0).uniform(-1, 1, size=(20_000, 2)))
    n_seen = len(np.unique(np.hstack([seen.bits, seen.routings.astype(np.uint64)]), axis=0))
    assert regions.complete
    assert regions.n_cells >= n_seen > 5


# Broken files
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_broken_files_are_read_or_refused(part, tmp_path):
    """A small portion; ``tests/scripts/onnx_mutations.py`` reads thousands, and limits time and memory."""
    for number in range(10_000 + part, 10_200, 4):
        kind, data = mutated(number)
        if len(data) > 10**6:
            continue
        (tmp_path / "model.onnx").write_bytes(data)
        try:
            words = repr(hm.Network.from_onnx(tmp_path / "model.onnx"))
        except HardmaxError as error:
            words = str(error)
        assert words, kind
        assert "\n" not in words, kind


def file_of(path, nodes, constants=()):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in "xy"]
    made = [helper.make_node(operator, inputs, [output]) for operator, inputs, output in nodes]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    return path


def test_onnx_files_that_grow_without_end(tmp_path):
    empty = TensorProto(name="w", data_type=1, dims=[0, 2**60])
    doubled = [("Add", ["x", "x"], "c0"), *(("Add", [f"c{i}"] * 2, f"c{i + 1}") for i in range(1500))]
    deep = [("Relu", ["x"], "c0"), *(("Relu", [f"c{i}"], f"c{i + 1}") for i in range(5100))]
    for nodes, constants, problem in (
        ([("MatMul", ["x", "w"], "y")], [empty], "too large to be read"),
        ([*doubled, ("Identity", ["c1500"], "y")], [], "beyond all floats"),
        ([*deep, ("Identity", ["c5100"], "y")], [], "more than 5,000 layers"),
    ):
        with pytest.raises(UnsupportedNetworkError, match=problem):
            hm.Network.from_onnx(file_of(tmp_path / "m.onnx", nodes, constants))
