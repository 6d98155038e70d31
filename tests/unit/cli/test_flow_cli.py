"""``hardmax flow``: estimate, advise, trace and trees, with tables, JSON, files and pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main

APPENDIX_E = [[0.0, -1.0], [0.7, 0.7], [0.0, 1.0], [-0.2, -0.9]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*args: object):
    return CliRunner().invoke(main, ["flow", *map(str, args)])


def answer(*args: object):
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.output
    (line,) = result.stderr.splitlines()
    return line


def test_estimate_in_words_and_in_json(tmp_path):
    question = ("estimate", "pairwise:2", "--n-tokens", 12, "--heads", "2,2", "--widths", 12, "--samples", 32)
    report = answer(*question)
    assert (report["kind"], report["rules"], report["upper"]) == ("CostEstimate", "max-position", "1/3")
    assert report["thresholds"]["heads"] == 2
    assert report["comparisons"]["reasons"]
    table = run(*question, "--out", "e.npz", "--plot", "e.svg")
    assert table.exit_code == 0
    assert "carried on all 32 samples" in table.stdout
    assert "max-position retrieval carries what it needs with sets of up to 4 tokens" in table.stdout
    assert "equation (5), repaired" in table.stdout
    assert hm.load(tmp_path / "e.npz").upper == hm.estimate_cost(
        hm.targets.pairwise(np.random.default_rng(0).standard_normal((2, 4, 4))),
        hm.Architecture(12, 4, (2, 2), 12),
        n_samples=32,
    ).upper  # fmt: skip
    assert (tmp_path / "e.svg").read_text().startswith("<?xml")


def test_advice_in_words_and_in_json():
    report = answer("advise", "pairwise:2", "--n-tokens", 16, "--samples", 16)
    assert report["suggestions"][0]["heads"] == [2, 2]
    assert report["suggestions"][0]["without"][0]["lost"] == "term 2"
    words = run("advise", "pairwise:2", "--n-tokens", 16, "--samples", 16, "--plot", "a.png").stdout
    assert "Without one head of layer 1 of the first (heads 1, 2): term 2 lost" in words
    assert words.splitlines()[2].split()[:5] == ["2,", "2", "12,", "16", "4233"]
    small = run("advise", "pairwise:2", "--n-tokens", 16, "--samples", 16, "--budget", 5)
    assert small.exit_code == 0
    assert "No architecture fits into the budget" in small.stdout


def test_the_trace_of_appendix_e():
    np.savetxt("tokens.csv", APPENDIX_E, delimiter=",")
    question = (
        "trace",
        "min(s,t) x[s]' x[t]",
        "--d",
        2,
        "--n-tokens",
        4,
        "--heads",
        "1,1",
        "--input",
        "tokens.csv",
    )
    report = answer(*question)
    assert report["token_sets"][1] == [[0, 2], [1, 3], [0, 2], [2, 3]]
    assert report["cls_sets"] == [[], [], [0, 2]]
    assert report["active"] == [0, 2]
    assert report["learns"] is True
    words = run(*question, "--plot", "trace.svg").stdout
    assert "2      CLS    x1 (ties with x3)  {x1, x3}" in words
    assert words.splitlines()[-1] == "The target depends on x1, x3; all of them are in the set of CLS."


def test_the_trees_of_figure_2():
    np.savetxt("values.csv", [[0.1], [0.3], [0.4], [0.2]], delimiter=",")
    text = "max(t) x[t][0] + min(t) x[t][0]"
    report = answer("trees", text, "--n-tokens", 4, "--input", "values.csv")
    assert [tree["root"] for tree in report["trees"]] == [[2], [0]]
    assert report["comparisons"]["low"] == report["comparisons"]["high"] == 6
    words = run("trees", text, "--n-tokens", 4, "--input", "values.csv", "--plot", "trees.png").stdout
    assert "The target depends on {x1, x3} at this input." in words


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("retrieval:3", "retrieval of 3 maxima"),
        ("kth-largest:2", "second largest score"),
        ("position-sum:0,2", "sum over positions 0, 2"),
        ("triangle-center", "triangle-center"),
        ("depth-separation", "depth separation"),
    ],
)
def test_targets_have_names(text, name):
    assert answer("trees", text, "--n-tokens", 4)["target"] == name


def test_matrices_come_from_a_file():
    matrices = np.random.default_rng(5).standard_normal((2, 3, 3))
    np.save("A.npy", matrices)
    report = answer("trees", "pairwise", "--matrices", "A.npy", "--n-tokens", 5)
    X = np.array([report["input"]])
    assert report["active"] == hm.targets.pairwise(matrices).active_set(X)[0].nonzero()[0].tolist()
    text = answer("trees", "sum(i<2) max(s,t) x[s]' A[i] x[t]", "--matrices", "A.npy", "--n-tokens", 5,
                  "--domain", "gaussian")  # fmt: skip
    assert text["active"] == report["active"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("advise", "pairwise:x", "--n-tokens", 4), "must be followed by a number"),
        (("advise", "pairwise", "--n-tokens", 4), "must be followed by a number"),
        (("advise", "triangle-centre", "--n-tokens", 4), "did you mean triangle-center?"),
        (("advise", "foo", "--n-tokens", 4), "'foo' is no target; targets are retrieval:D"),
        (("advise", "retrieval:1", "--n-tokens", 4, "--exponent", "nan"), "max_exponent"),
        (("advise", "retrieval:1", "--n-tokens", 4, "--max-heads", 0), "max_heads"),
        (("advise", "retrieval:0", "--n-tokens", 4), "D was 0"),
        (("advise", "max(t x[t][0]", "--n-tokens", 4), "column 7"),
        (("advise", "sum(t) x[t][0]", "--n-tokens", 4), "grow with T"),
        (("advise", "triangle-center:2", "--n-tokens", 4), "takes no number"),
        (("advise", "retrieval:1", "--matrices", "A.npy", "--n-tokens", 4), "matrices belong to"),
        (("advise", "position-sum:0,9", "--n-tokens", 4), "at least 10"),
        (("advise", "retrieval:1", "--n-tokens", 0), "at least 1"),
        (
            ("estimate", "retrieval:2", "--n-tokens", 4, "--heads", "2,x", "--widths", 4),
            "separated by commas",
        ),
        (("estimate", "retrieval:2", "--n-tokens", 4, "--heads", "2,2", "--widths", "5"), "try width 6"),
        (
            ("estimate", "retrieval:2", "--n-tokens", 4, "--heads", "2", "--widths", "4", "--plot", "e.pdf"),
            ".svg",
        ),
        (("trace", "retrieval:2", "--n-tokens", 4, "--heads", "2", "--input", "no.csv"), "does not exist"),
        (("trees", "retrieval:2", "--n-tokens", 4, "--input", "wrong.csv"), "4 tokens with 2 numbers"),
    ],
)
def test_bad_input_gets_one_sentence(args, words):
    np.savetxt("wrong.csv", np.zeros((3, 2)), delimiter=",")
    np.save("A.npy", np.zeros((1, 2, 2)))
    line = refused(*args)
    assert words in line
    assert line.startswith("hardmax: ")
    assert line.endswith((".", "?"))


def test_advice_says_what_was_done_and_what_narrower_heads_lose():
    table = run("advise", "pairwise:1", "--n-tokens", 12, "--domain", "cube11", "--samples", 256).stdout
    assert "The first carries what it needs on 100 % of 256 sampled inputs; nothing was trained." in table
    assert (
        "With heads of width 3 in layer 1, one less than the rank of a score: a maximum is missed by" in table
    )
    narrow = run("estimate", "pairwise:1", "--n-tokens", 12, "--heads", "1,1", "--widths", "2,8").stdout
    assert "a score of rank 4 in a head of width 2; with the best score of that rank no bound" in narrow
    hops = run("advise", "k-hop:3", "--n-tokens", 24).stdout
    assert "3 hops: 3 layers of one head, with positional encoding" in hops
    assert "carries what it needs on 100 % of 128 sampled inputs; nothing was trained" in hops
