"""``--time-limit`` of commands: one sentence where nothing is half known, else an answer that says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savetxt("keys.csv", rng.standard_normal((12, 3)), delimiter=",")
    np.savetxt("inputs.csv", rng.standard_normal((2, 3)), delimiter=",")
    head = hm.Attention(rng.standard_normal((1, 5, 3)), None, rng.standard_normal((1, 5, 3)))
    hm.Network([head]).save("network.npz")
    jobs = [{"widths": [2, 4, 1], "seed": 0, "box": 4}]
    Path("study.json").write_text(json.dumps({"study": "cells", "runner": "cells", "jobs": jobs}))
    shape = hm.training.TransformerShape(3, 1, widths=(4,), heads=(1,), hidden=(8,), beta=1.0)
    settings = hm.training.TrainingSettings(
        128, batch=64, train_size=64, validation_size=64, checkpoints=(64,), evaluations=1
    )
    hm.training.train(hm.training.Job({"name": "kth_largest", "k": 2}, shape, settings)).save("trained.npz")


def run(*args: object):
    return CliRunner().invoke(main, [*map(str, args)])


COMMANDS = {
    "flow estimate": ("pairwise:2", "--n-tokens", 64, "--heads", "2,2", "--widths", 24),
    "flow advise": ("pairwise:2", "--n-tokens", 64),
    "stability": ("--network", "network.npz", "--inputs", "inputs.csv"),
    "diagram": ("keys.csv", "--k", 3),
    "minkowski": ("keys.csv", "keys.csv", "--k", 2),
    "report": (),
    "influence": (),
    "atlas": (),
    "flips": (),
    "claims check": ("--select", "tropical.fig4_216"),
    "claims count": ("--select", "tropical.fig4_216"),
    "reproduce": ("tropical.fig4",),
    "stability ": ("--network", "network.npz", "--box", 0, 1, "--temperature", 1),
    "training run": ("study.json",),
    "along-training": ("trained.npz",),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_limit_that_is_too_short_gets_one_sentence(command):
    result = run(*command.split(), *COMMANDS[command], "--time-limit", 1e-9)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    assert "time_limit must be enough to " in line
    assert "so far: " in line
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("stability", "keys.csv", "--temperature", 1), "--network"),
    ],
)
def test_a_limit_where_work_is_bounded_is_refused(asked, words):
    result = run(*asked, "--time-limit", 5)
    assert result.exit_code == 2
    assert "--time-limit belongs to" in result.stderr
    assert words in result.stderr


def test_a_boundary_cut_off_says_how_many_cells_there_are_and_lists_no_pieces():
    asked = "boundary", "mlp:2,40,40,3,seed=0", "--box", -4, 4, "--max-cells", 300
    told = json.loads(run(*asked, "--json").stdout)
    assert (told["complete"], told["n_class_cells"]) == (False, 300)
    assert "n_pieces" not in told
    assert "300 class cells, INCOMPLETE" in run(*asked).stdout
    few = json.loads(run(*asked[:-1], 100, "--json").stdout)
    assert (few["complete"], few["n_class_cells"]) == (False, 100)
    assert few["n_pieces"] == len(few["classes"])
