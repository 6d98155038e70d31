"""Every verb that takes a network takes a torch module, an ONNX file and a saved network."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax import errors
from hardmax.cli import main
from hardmax.networks.reading.sources import as_network

BOX = hm.Box.cube(2, -1, 1)
POINTS = [[0.25, 0.5], [-0.75, 0.125]]
VERBS = {
    "enumerate_regions": lambda net: hm.enumerate_regions(net, BOX).n_cells,
    "count_cells": lambda net: hm.count_cells(net, BOX).n_cells,
    "count_regions": lambda net: hm.count_regions(net, BOX).n_regions,
    "estimate_cells": lambda net: hm.estimate_cells(net, BOX, n_samples=500, rng=0).n_signatures,
    "trace_segment": lambda net: hm.trace_segment(net, *POINTS).n_pieces,
    "certified_temperature": lambda net: float(hm.certified_temperature(net, POINTS).temperature),
    "decision_boundary": lambda net: hm.decision_boundary(net, BOX).total_size,
    "verify": lambda net: hm.verify(net, "y0 <= 0.25", BOX).verdict,
    "maximise": lambda net: hm.maximise(net, 0, BOX).value,
    "surviving_cells": lambda net: hm.temperature.surviving_cells(net, POINTS, 0.5).n_surviving,
}


@pytest.fixture(scope="module")
def module():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).eval()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_any_source(verb, module, tmp_path):
    net = hm.Network.from_torch(module)
    net.save(tmp_path / "net.npz")
    expected = VERBS[verb](net)
    assert VERBS[verb](module) == expected
    assert VERBS[verb](tmp_path / "net.npz") == expected
    assert VERBS[verb](str(tmp_path / "net.npz")) == expected


def test_a_plane_through_points_is_a_network():
    net = hm.Network.random_mlp([3, 5, 2], rng=0)
    plane = net.plane_through([0, 0, 0], [1, 0, 1], [0, 1, 1])
    assert hm.count_cells(plane, BOX).n_cells == hm.count_cells(plane.network, BOX).n_cells > 1


def test_an_onnx_file(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    weights = onnx.numpy_helper.from_array(np.array([[1.0, -1.0], [0.5, 2.0]], dtype=np.float32), "W")
    nodes = [helper.make_node("MatMul", ["x", "W"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    value = {name: helper.make_tensor_value_info(name, kinds.FLOAT, ["batch", 2]) for name in "xy"}
    graph = helper.make_graph(nodes, "g", [value["x"]], [value["y"]], [weights])
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx")
    assert hm.count_cells(tmp_path / "net.onnx", BOX).n_cells == 4
    assert as_network(str(tmp_path / "net.onnx")).d == 2
    arguments = ["regions", str(tmp_path / "net.onnx"), "--box", "-1", "1", "--count", "--json"]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["n_cells"] == 4


def test_what_stands_in_the_way_is_said_in_one_sentence(module, tmp_path):
    torch = sys.modules["torch"]
    crooked = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.GELU(), torch.nn.Linear(3, 3), torch.nn.Tanh()
    )
    with pytest.raises(errors.UnsupportedNetworkError, match=r"\(1\) GELU at 1; \(2\) Tanh at 3"):
        hm.enumerate_regions(crooked, BOX)
    with pytest.raises(errors.UnsupportedNetworkError, match="say input_shape"):
        hm.count_cells(torch.nn.Conv2d(1, 1, 3), BOX)
    with pytest.raises(errors.InvalidInputError, match="a torch module, an ONNX file or a saved network"):
        hm.enumerate_regions(3, BOX)
    path = tmp_path / "net.pt"
    path.write_bytes(b"anything")
    with pytest.raises(errors.FileFormatError, match="can run code"):
        hm.enumerate_regions(path, BOX)
    refused = CliRunner().invoke(main, ["regions", str(path), "--box", "-1", "1"])
    assert refused.exit_code == 2
    assert "can run code" in refused.output
    cells = hm.enumerate_regions(module, BOX)
    cells.save(tmp_path / "cells.npz")
    with pytest.raises(errors.InvalidInputError, match="but was <RegionSet"):
        hm.count_cells(tmp_path / "cells.npz", BOX)
    with pytest.raises(FileNotFoundError):
        hm.count_cells(tmp_path / "nothing.npz", BOX)


def test_a_saved_transformer_is_traced(tmp_path):
    look = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]])
    model = hm.Transformer([look])
    model.save(tmp_path / "model.npz")
    ends = [[1.0], [-2.0]], [[3.0], [0.5]]
    assert hm.trace_segment(tmp_path / "model.npz", *ends).n_pieces == hm.trace_segment(model, *ends).n_pieces
    with pytest.raises(errors.InvalidInputError, match="but was <Transformer"):
        hm.count_cells(model, BOX)
