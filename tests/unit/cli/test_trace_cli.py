"""``hardmax trace``: networks, transformers, trained models and saved traces, and wrong input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.training.trained_models import bundled_model


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test works in its own empty folder, so that messages show short file names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: object):
    return CliRunner().invoke(main, ["trace", *(str(arg) for arg in args)])


def answer(*args: object):
    """The JSON that the command prints."""
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*args: object) -> str:
    """The one sentence with which it refuses wrong input."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


def test_a_network_gives_the_pieces_of_trace_segment():
    found = answer("mlp:2,8,8,1,seed=0", "--from", "-4,1/3", "--to", "4,4")
    net = hm.Network.random_mlp([2, 8, 8, 1], 0)
    from fractions import Fraction

    trace = hm.trace_segment(net, [-4, Fraction(1, 3)], [4, 4])
    assert found["kind"] == "SegmentTrace"
    assert found["exact"]
    assert found["complete"]
    assert found["breakpoints"] == trace.breakpoints.tolist()
    on = trace.signatures.relu[0].copy()
    for changes, after in zip(found["changes"], trace.signatures.relu[1:], strict=True):
        for change in changes:
            on[change["unit"]] = change["on"]
        assert (on == after).all()


def test_a_saved_transformer_and_sequences_in_files(elsewhere):
    rng = np.random.default_rng(0)
    look = hm.SelfAttention(*rng.standard_normal((3, 2, 2, 3)), rng.standard_normal((2, 3, 2)))
    model = hm.Transformer([look])
    model.save("model.npz")
    start, end = rng.standard_normal((2, 4, 3))
    np.save("start.npy", start)
    np.savetxt("end.csv", end, delimiter=",", fmt="%.17g")
    found = answer(
        "model.npz", "--from", "start.npy", "--to", "end.csv", "--out", "trace.npz", "--plot", "t.svg"
    )
    trace = hm.trace_segment(model, start, end)
    assert found["kind"] == "TransformerTrace"
    assert found["routings"] == trace.routings.tolist()
    assert (elsewhere / "t.svg").stat().st_size > 1000
    again = answer("trace.npz")
    assert again["breakpoints"] == found["breakpoints"]
    first = found["changes"][0][0]
    at = first["head"], first["token"]
    assert (first["from"], first["to"]) == (trace.routings[(0, *at)], trace.routings[(1, *at)])
    assert "is a saved trace" in refused("trace.npz", "--from", "start.npy")


def test_a_bundled_model_gets_its_cls_token_and_is_enclosed_as_it_was_trained():
    ends = "--from", "random:0", "--to", "random:1"
    hard = answer("pairwise-2-relu", *ends, "--max-pieces", 20)
    assert hard["kind"] == "TransformerTrace"
    assert hard["n_pieces"] == 20
    assert not hard["complete"]
    soft = answer("pairwise-2", "--rule", "softmax", *ends)
    assert soft["kind"] == "CertifiedTrace"
    assert soft["complete"]
    assert not soft["exact"]
    assert soft["n_unseparated"] == 0
    assert all(soft["proven"])
    assert np.shape(soft["routings"])[1:] == (4, 16)
    table = run("pairwise-2", "--rule", "softmax", *ends).stdout
    assert f"{soft['n_pieces']} pieces (CertifiedTrace)" in table
    assert "0 not separated" in table


def test_a_trained_model_in_a_file():
    bundled_model("pairwise-2-relu").save("mine.safetensors")
    ends = "--from", "random:2", "--to", "random:3", "--max-pieces", 5
    assert answer("mine.safetensors", *ends)["begin"] == answer("pairwise-2-relu", *ends)["begin"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing", "--from", "1", "--to", "2"], "there is no 'nothing'"),
        (["mlp:2,4,1", "--from", "0,0"], "--from A and --to B"),
        (["mlp:2,4,1", "--from", "0,0,0", "--to", "1,1,1"], "must have the 2 coordinates"),
        (["mlp:2,4,1", "--from", "0,x", "--to", "1,1"], "'x' was given"),
        (["mlp:2,4,1", "--from", "0,0:1", "--to", "1,1"], "rows of one length"),
        (["mlp:2,4,1", "--from", "1,1", "--to", "1,1"], "must be different points"),
        (["mlp:2,4,1", "--from", "0,0", "--to", "1,1", "--rule", "softmax"], "--rule belongs to a trained"),
        (["mlp:2,4,1", "--from", "0,0", "--to", "1,1", "--depth", 1], "--depth belongs to the folder"),
        (["mlp:2,4,1", "--from", "0,0", "--to", "1,1", "--text", "a"], "a text needs a MODEL"),
        (["pairwise-2", "--from", "1,2", "--to", "3,4"], "must hold 15 tokens of 4 numbers"),
        (["pairwise-2", "--from", "missing.npy", "--to", "random:1"], "missing.npy does not exist"),
        ([".", "--from", "1", "--to", "2"], "takes --text and --to-text"),
        ([".", "--text", "a"], "needs --text and --to-text"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(args, words):
    assert words in refused(*args)
