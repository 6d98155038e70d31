"""``hardmax stability``: bounds, scores and networks, and one sentence for wrong input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main

SCORES = np.array([[3.0, 1.0, -np.inf], [0.0, 0.0, 9.0]])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("scores.npy", SCORES)


def run(*args: object):
    return CliRunner().invoke(main, ["stability", *(str(arg) for arg in args)])


def answer(*args: object):
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    return result.stderr.strip()


def test_bounds_for_machines():
    report = answer("--n-tokens", 512, "--margin", 2, "--temperature", 0.125)
    bounds = hm.stability_bounds(512, 2.0, 0.125)
    assert report["hessian_sharp"] == bounds.hessian_sharp
    assert report["log10"]["hessian_paper"] == bounds.log10.hessian_paper
    assert report["vacuous"] == []


def test_bounds_for_people_say_where_the_paper_is_wrong():
    printed = run("--n-tokens", 512, "--margin", 2, "--temperature", 0.125).stdout
    assert "The paper's bound is false here" in printed
    assert "0.999942" in printed
    cold = run("--n-tokens", 512, "--margin", 1e3, "--temperature", 1e-6).stdout
    assert "10^-434294473.19" in cold
    assert "false here" in cold  # although both are zero as floats
    assert "says nothing" in run("--n-tokens", 512, "--margin", 2, "--d-head", 64).stdout


def test_three_ways_to_say_the_temperature():
    by_name = [("--temperature", 8), ("--d-head", 64), ("--beta", 0.125)]
    answers = [answer("--n-tokens", 9, "--margin", 2, *words) for words in by_name]
    assert len({report["hessian"] for report in answers}) == 1


def test_scores_with_a_mask():
    report = answer("scores.npy", "--temperature", 1)
    assert report["n_keys"] == [2, 3]
    assert report["routing"] == [0, 2]
    assert report["margin"] == [2.0, 9.0]
    assert report["share_hard"] == 0.5
    printed = run("scores.npy", "--temperature", 1).stdout
    assert "50.00% of the queries are hard" in printed


def test_a_saved_report_is_shown_again():
    run("scores.npy", "--temperature", 1, "--out", "report.npz")
    assert answer("report.npz")["margin"] == [2.0, 9.0]
    assert hm.load("report.npz").temperature == 1.0


def test_a_picture_of_the_report():
    assert run("scores.npy", "--temperature", 1, "--plot", "hard.svg").exit_code == 0
    with open("hard.svg", encoding="utf-8") as file:
        assert "50.0% of 2 queries are hard" in file.read()


def test_values_give_output_errors():
    np.save("values.npy", np.eye(3))
    errors = answer("scores.npy", "--temperature", 1, "--values", "values.npy")["output_error"]
    assert len(errors) == 2
    table = run("scores.npy", "--temperature", 1, "--values", "values.npy").stdout.splitlines()
    assert "output error" in table[1]
    assert f"{errors[0]:.6g}" in table[2]


def test_a_network():
    words = ("--network", "sawtooth:d=1,n_tokens=4,teeth=1,depth=3", "--box", 0, 1, "--samples", 2000)
    report = answer(*words, "--temperature", 0.125)
    assert (report["n_surviving"], report["n_points"]) == (0, 2000)
    assert "surviving" in run(*words, "--temperature", 1e-4).stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "give one of: a file of SCORES"),
        (("scores.npy", "--n-tokens", 3, "--temperature", 1), "give one of"),
        (("--n-tokens", 3, "--temperature", 1), "must be given together"),
        (("--n-tokens", 3, "--margin", 1), "give one of --temperature"),
        (("--n-tokens", 3, "--margin", 1, "--temperature", 1, "--beta", 1), "give one of --temperature"),
        (("--n-tokens", 3, "--margin", -1, "--temperature", 1), "margin must be a number of at least 0"),
        (("--n-tokens", 3, "--margin", 1, "--temperature", 0), "above 0"),
        (("--n-tokens", 3, "--margin", 1, "--temperature", "nan"), "above 0"),
        (("--n-tokens", 3, "--margin", 1, "--beta", 0), "beta must be"),
        (("--n-tokens", 0, "--margin", 1, "--temperature", 1), "n_tokens must be"),
        (("scores.npy", "--temperature", 1, "--tolerance", 2), "tolerance must lie between 0 and 1"),
        (("--n-tokens", 3, "--margin", 1, "--beta", 1, "--plot", "a.svg"), "it needs SCORES"),
        (("nothing.npy", "--temperature", 1), "does not exist"),
        (("nan.npy", "--temperature", 1), "must be finite"),
        (("masked.npy", "--temperature", 1), "masked.npy: scores must leave every query a key"),
        (("--network", "mlp:2,4,1,seed=0", "--temperature", 1), "--box must say"),
    ],
)
def test_wrong_input_gets_one_sentence(args, words):
    np.save("nan.npy", np.array([[np.nan, 1.0]]))
    np.save("masked.npy", np.array([[-np.inf, -np.inf]]))
    assert words in refused(*args)


def test_certified_temperatures(tmp_path):
    head = hm.Attention([[[1.0], [-1.0]]], None, [[[1.0, 0.0], [0.0, 3.0]]], skip=False)
    hm.Network([head]).save("program.npz")
    np.savetxt("inputs.csv", [[1.0], [-2.0]])
    report = answer("--network", "program.npz", "--inputs", "inputs.csv", "--plot", "decisions.svg")
    assert report["temperature"] == pytest.approx(2 / np.log(3), rel=2e-6)
    assert report["decisions"] == [0, 1]
    assert (tmp_path / "decisions.svg").exists()
    printed = run("--network", "program.npz", "--inputs", "inputs.csv").stdout
    assert "The proof ends first at input 0." in printed
    assert "leave out --temperature" in refused(
        "--network", "program.npz", "--inputs", "inputs.csv", "--temperature", 1
    )
    assert "--inputs needs --network" in refused("--inputs", "inputs.csv", "scores.npy")
