"""``hardmax verify``: exit codes, JSON, certificates that are written, resumed and replayed, wrong input."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.verification import read_certificate

VNNLIB = """; outputs above 1 are unsafe
(declare-const X_0 Real)
(declare-const Y_0 Real)
(assert (>= X_0 0.0))
(assert (<= X_0 1.0))
(assert ({} Y_0 1.0))
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tent(elsewhere):
    """0, 1, 0 at 0, 1/2, 1."""
    layers = [([[1], [1]], [0, -0.5]), ([[2, -4]], [0])]
    return hm.Network.mlp(layers).save(elsewhere / "tent.npz").name


@pytest.fixture
def hard(elsewhere):
    """A network whose maximum takes more than a few nodes, and its maximum."""
    net = hm.Network.random_mlp([3, 16, 16, 1], 0)
    return net.save(elsewhere / "hard.npz").name, hm.maximise(net, 0, hm.Box.cube(3, -1, 1)).value


def run(*args: object):
    return CliRunner().invoke(main, ["verify", *(str(arg) for arg in args)])


def refused(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("hardmax: ")
    return result.stderr


def test_exit_codes_and_what_is_printed(tent, hard):
    result = run(tent, "y0 <= 1", "--box", 0, 1)
    assert (result.exit_code, result.stdout) == (0, "holds\n")
    assert "nodes" in result.stderr
    result = run(tent, "y0 < 1", "--box", 0, 1)
    assert result.exit_code == 1
    assert result.stdout == "violated\n  x0 = 1/2 (0.5)\n  y0 = 1 (1)\n"
    network, value = hard
    result = run(network, f"y0 <= {value}", "--box", -1, 1, "--time-limit", 1e-9)
    assert result.exit_code == 3
    assert result.stdout.startswith("unknown\n  ")
    assert "% of the volume is proven" in result.stdout


def test_json_has_exact_numbers_and_hashes(tent):
    result = run(tent, "y0 <= 0.9", "--box", 0, 1, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["verdict"]) == (1, "violated")
    (x,), (y,) = told["counterexample"], told["outputs"]
    assert hm.load(tent).exact_value([Fraction(x)]) == (Fraction(y),)
    assert Fraction(y) > Fraction(9, 10)
    result = run(tent, "y0 <= 1", "--box", 0, 1, "--json")
    held = json.loads(result.stdout)
    assert (result.exit_code, held["verdict"], held["counterexample"]) == (0, "holds", None)
    assert held["share"] == 1
    assert held["leaves"] >= 1
    assert held["network_sha256"] == told["network_sha256"]
    assert held["property_sha256"] != told["property_sha256"]


def test_a_certificate_is_written_and_replayed(tent, elsewhere):
    assert run(tent, "y0 <= 1", "--box", 0, 1, "--certificate", "proof.json.gz").exit_code == 0
    result = run("--replay", "proof.json.gz")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "accepted: holds"
    told = json.loads(run("--replay", "proof.json.gz", "--json").stdout)
    assert (told["accepted"], told["verdict"]) == (True, "holds")
    # the same tree for a property that does not hold
    record = read_certificate("proof.json.gz").record
    record["data"]["property"][0]["unsafe"][0][0]["constant"] = "-1/2"
    (elsewhere / "false.json").write_text(json.dumps(record))
    result = run("--replay", "false.json")
    assert result.exit_code == 1
    assert result.stdout.startswith("REJECTED: ")
    assert json.loads(run("--replay", "false.json", "--json").stdout)["accepted"] is False


def test_resume_goes_on_and_without_it_the_search_begins_anew(hard):
    network, value = hard
    asked = network, f"y0 <= {value}", "--box", -1, 1, "--certificate", "proof.json"
    assert run(*asked, "--time-limit", 1e-9).exit_code == 3
    assert run("--replay", "proof.json").exit_code == 1  # nodes are open
    begun = json.loads(run(*asked, "--json").stdout)
    assert run(*asked, "--time-limit", 1e-9).exit_code == 3
    went_on = json.loads(run(*asked, "--resume", "--json").stdout)
    assert (begun["verdict"], went_on["verdict"]) == ("holds", "holds")
    assert went_on["nodes"] < begun["nodes"]
    assert run("--replay", "proof.json").exit_code == 0


def test_an_old_certificate_stays_until_the_new_one_is_whole(tent, elsewhere):
    asked = tent, "y0 <= 1", "--box", 0, 1, "--certificate", "proof.json"
    assert run(*asked).exit_code == 0
    old = (elsewhere / "proof.json").read_bytes()
    refused(tent, "y0 <= ", "--box", 0, 1, "--certificate", "proof.json")
    assert (elsewhere / "proof.json").read_bytes() == old
    assert run(tent, "y0 < 1", *asked[2:]).exit_code == 1
    assert read_certificate("proof.json").record["expected"]["verdict"] == "violated"
    assert "belongs to another" in refused(tent, "y0 <= 3", *asked[2:], "--resume")


def test_an_onnx_network_with_a_vnnlib_file(elsewhere):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    weights = {"a": ([2, 1], [1, 1]), "b": ([2], [0, -0.5]), "c": ([1, 2], [2, -4]), "d": ([1], [0])}
    nodes = [
        helper.make_node("Gemm", ["x", "a", "b"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "c", "d"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor(name, TensorProto.FLOAT, *what) for name, what in weights.items()],
    )
    onnx.save(helper.make_model(graph), elsewhere / "tent.onnx")
    for sign, code in ((">", 0), (">=", 1)):
        (elsewhere / "above.vnnlib").write_text(VNNLIB.format(sign))
        result = run("tent.onnx", "above.vnnlib", "--certificate", "proof.json")
        assert result.exit_code == code, result.output
        assert run("--replay", "proof.json").exit_code == 0


def test_wrong_input_gets_one_sentence(tent, elsewhere):
    assert "NETWORK and PROPERTY" in refused(tent)
    assert "--resume" in refused(tent, "y0 <= 1", "--box", 0, 1, "--resume")
    assert "no such file" in refused("missing.npz", "y0 <= 1")
    assert "no such file" in refused(tent, "missing.vnnlib").lower()
    assert "outputs of the network" in refused(tent, "y7 <= 1", "--box", 0, 1)
    assert "bounded" in refused(tent, "y0 <= 1")
    (elsewhere / "broken.json").write_text("{")
    assert "certificate" in refused("--replay", "broken.json")
    (elsewhere / "broken.vnnlib").write_text("(assert")
    refused(tent, "broken.vnnlib")


def test_two_runs_say_and_write_the_same_bytes(tmp_path, monkeypatch):
    now = [1_700_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])  # what gzip would write into its header
    found = []
    for name in ("first.json.gz", "second.json.gz"):
        file = tmp_path / name
        line = ["verify", "mlp:2,3,1,seed=0", "y0 <= 1000", "--box", "-1", "1", "--json", "--certificate"]
        result = CliRunner().invoke(main, [*line, str(file)])
        assert result.exit_code == 0
        found.append((result.stdout, file.read_bytes()))
        now[0] += 1000.0
    assert found[0] == found[1]


def test_what_claims_check_says_does_not_depend_on_the_clock():
    line = ["claims", "check", "--select", "tropical.fig4_216", "--json"]
    first, second = (CliRunner().invoke(main, line).stdout for _ in range(2))
    assert json.loads(first)["entries"][0]["verdict"]
    assert first == second
