"""``hardmax bounds``: numbers of any length, and one sentence for wrong input."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main

SIZES = ["--n-tokens", "512", "--heads", "8", "--d-model", "512", "--d-ff", "2048", "--depth", "6"]


def run(*args: str):
    return CliRunner().invoke(main, ["bounds", *args])


def answer(*args: str):
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_command_of_the_issue():
    printed = run(*SIZES)
    assert printed.exit_code == 0
    assert printed.stdout.startswith("between 3.743e1979 and 8.216e3121 cells for n_tokens=512, heads=8")
    rows = {line.split()[0]: line.split() for line in printed.stdout.splitlines()[2:12]}
    assert rows["multi_head_linear"][1:4] == ["maximum", "4.722e21", "8"]
    assert rows["depth"][1:4] == ["upper", "8.216e3121", "48"]
    described = {bound["name"]: bound for bound in answer(*SIZES)["bounds"]}
    found = hm.region_bounds(n_tokens=512, heads=8, d_model=512, d_ff=2048, depth=6)
    for bound in found:
        assert int(described[bound.name]["hex"], 16) == bound.value
        assert described[bound.name]["log10"] == bound.log10
    assert described["single_head"]["value"] == 512
    assert described["multi_head_linear"]["value"] is None  # JSON readers would round it


def test_a_hundred_thousand_digits():
    args = ["--n-tokens", "512", "--heads", "512", "--d-model", "512", "--d-ff", "2048", "--depth", "60"]
    assert "1.138e101724" in run(*args).stdout
    described = answer(*args)["bounds"][-1]
    assert described["log10"] > 100_000
    assert len(described["hex"]) > 80_000


def test_false_forms_come_first():
    lines = run(
        "--n-tokens", "8", "--heads", "4", "--d-model", "3", "--d-ff", "6", "--linear"
    ).stdout.splitlines()
    start = lines.index("What the paper prints:")
    assert lines[start + 1] == (
        "Theorem V.2: O((N H)^floor(d/2)) for H > d: false: the maximum grows like N^2"
    )


def test_restrictions_of_the_keys():
    args = ["--n-tokens", "6", "--heads", "3", "--d-model", "3", "--d-ff", "0"]
    for extra, most in (
        ([], 216),
        (["--linear"], 92),
        (["--linear", "--d-head", "1"], 8),
        (["--linear", "--ranks", "2,1,0"], 12),
        (["--linear", "--ranks", "1"], 8),
        (["--key-span", "1"], 16),
    ):
        assert answer(*args, *extra)["bounds"][-1]["value"] == most


def test_relu_networks_and_budgets(tmp_path):
    assert [bound["value"] for bound in answer("--mlp", "2,3,3")["bounds"]] == [49, 40, 34, 34]
    budget = ["--budget", "--n-tokens", "512", "--d-model", "512", "--heads", "1,8"]
    described = answer(*budget)
    assert [int(value, 16) for value in described["hex"]] == [512, 2**72]
    table = run(*budget, "--out", str(tmp_path / "budget.npz")).stdout.splitlines()
    assert table[-1].split() == ["8", "64", "1048576", "4.722e21", "4.722e21"]
    assert hm.load(tmp_path / "budget.npz").vertices[1] == 2**72


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "--n-tokens must be given; try --n-tokens 512"),
        (SIZES[:-4], "--d-ff must be given; try"),
        ([*SIZES, "--depth", "0"], "depth must be an integer of at least 1, but was 0."),
        ([*SIZES, "--heads", "1,8"], "--heads must be one number; several are compared by --budget."),
        ([*SIZES, "--ranks", "1,2"], "ranks must be one integer, or one for each of the 8 heads"),
        (["--mlp", "2,x"], "Invalid value for '--mlp': must be integers separated by commas, but was '2,x'."),
        (["--mlp", "2,3", "--heads", "1"], "--heads says nothing about --mlp; leave it out."),
        (["--mlp", "2,3", "--budget"], "--mlp and --budget must not both be given; they are two questions."),
        (["--budget", "--n-tokens", "4"], "--d-model must be given"),
        (["--budget", "--n-tokens", "4", "--d-model", "6", "--heads", "4"], "heads must divide d_model (6)"),
        ([*SIZES, "--out", "bounds.json"], "bounds.json must end in .npz."),
    ],
)
def test_wrong_input_gets_one_sentence(args, sentence):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"hardmax: {sentence}")
    assert len(result.stderr.splitlines()) == 1
