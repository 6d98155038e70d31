"""``hardmax regions``: exact counts of saved and described networks, limits, Ctrl-C, wrong input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.cli.networks import DESCRIPTIONS, read_network, read_polygon
from hardmax.regions.verify import Verification

ROOT = Path(__file__).resolve().parents[3]
MLP = "mlp:2,16,16,16,1,seed=0"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test works in its own empty folder, so that messages show short file names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: object):
    return CliRunner().invoke(main, ["regions", *(str(arg) for arg in args)])


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
    assert result.stderr.startswith("hardmax: ")
    return result.stderr


def shifted_fold() -> hm.Network:
    """Four cells, three regions."""
    head = hm.Attention([[[0, -1], [0, 1]]], None, [[[0, 0], [1, 0]]])
    return hm.Network([head, hm.FeedForward([[1, 0]], [0], [[1], [0]], [0, 0])])


# Right answers ------------------------------------------------------------------------------------------


def test_golden_counts():
    assert answer(MLP, "--box", -4, 4, "--count")["n_cells"] == 778
    assert answer(MLP, "--whole", "--count")["n_cells"] == 1066
    saw = "sawtooth:d=2,n_tokens=3,teeth=2,depth=1"
    assert answer(saw, "--box", 0, 1, "--exact", "--count", "--regions")["n_regions"] == 144
    assert answer(saw, "--box", -4, 4, "--count")["n_cells"] == 169


def test_json_says_everything_about_every_cell():
    report = answer(MLP, "--box", -4, 4, "--regions")
    found = hm.enumerate_regions(hm.Network.random_mlp([2, 16, 16, 16, 1], 0), hm.Box.cube(2, -4, 4))
    assert (report["n_cells"], report["n_regions"], report["complete"], report["exact"]) == (
        778,
        778,
        True,
        True,
    )
    assert report["relu_bits"][5] == "".join(str(int(bit)) for bit in found.relu_bits[5])
    for name in ("routings", "witnesses", "margins", "volumes", "linear", "offset", "region_of_cell"):
        assert np.array_equal(
            np.array(report[name]).reshape(getattr(found, name).shape), getattr(found, name)
        )


def test_cells_are_glued_when_asked():
    shifted_fold().save("block.npz")
    assert "n_regions" not in answer("block.npz", "--box", -4, 4)
    assert answer("block.npz", "--box", -4, 4, "--regions")["region_of_cell"] == [0, 1, 0, 2]
    result = run("block.npz", "--box", -4, 4, "--regions")
    assert result.stdout.splitlines()[0] == "4 cells in 3 linear regions, complete, exact"
    assert run("block.npz", "--box", -4, 4).stdout.splitlines()[2].split()[-1] == "16"  # the area of cell 0


def test_unbounded_cells_have_infinite_areas():
    report = answer(MLP, "--whole")
    assert report["n_unbounded"] > 0
    assert "inf" in report["volumes"]
    assert report["coverage"] is None


def test_a_network_on_the_line():
    result = run("sawtooth:d=1,n_tokens=3,teeth=2,depth=1", "--box", 0, 1)
    assert result.stdout.splitlines()[0] == "12 cells, complete, exact"
    assert "length" in result.stdout.splitlines()[1]


def test_polygons_as_corners_and_as_half_planes():
    Path("corners.csv").write_text("0,0\n1/3,2\n-2,1\n")
    Path("reversed.csv").write_text("0,0\n-2,1\n1/3,2\n")
    Path("halves.csv").write_text("6,-1,0\n-3,7,13\n-1,-2,0\n")
    counts = {
        answer(MLP, "--polygon", name, "--count")["n_cells"]
        for name in ("corners.csv", "reversed.csv", "halves.csv")
    }
    assert len(counts) == 1
    triangle = read_polygon(Path("corners.csv"))
    slope = triangle.a.fractions[0]
    assert slope @ np.array([Fraction(1, 3), 2]) == triangle.b.fractions[0] == 0


def test_slices_from_the_command_line_and_from_a_file():
    hm.Network.random(3, 5, 2, 2, 8, 0).save("wide.npz")
    Path("slice.csv").write_text("0,0,1\n1,0,0\n0,1/2,0\n")
    here = answer("wide.npz", "--slice", "0,0,1:1,0,0:0,1/2,0", "--whole", "--count")
    assert here == answer("wide.npz", "--slice-file", "slice.csv", "--whole", "--count")
    assert answer("wide.npz", "--slice", "0,0,1:1,0,0", "--box", -1, 1)["d"] == 1


def test_a_saved_result_is_shown_again():
    first = answer(MLP, "--box", -4, 4, "--out", "cells.npz")
    assert answer("cells.npz") == first
    assert "without --box" in refused("cells.npz", "--box", -4, 4)
    assert "must hold a Network or a RegionSet" in refused(saved_diagram(), "--box", -4, 4)


def saved_diagram() -> str:
    hm.attention_diagram([[1.0, 0.0], [0.0, 1.0]]).save("diagram.npz")
    return "diagram.npz"


def test_verification(monkeypatch):
    assert answer(MLP, "--box", -4, 4, "--verify")["verified"]["crossings"] == "passed"
    assert "check witnesses: passed" in run(MLP, "--box", -4, 4, "--verify").stdout

    def failing(self):
        return Verification({"witnesses": "failed: cell 0"}, {"witnesses": 1}, 0)

    monkeypatch.setattr(hm.regions.RegionSet, "verify", failing)
    result = run(MLP, "--box", -4, 4, "--verify")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "failed its own check" in result.stderr


@pytest.mark.parametrize("options", [[], ["--colour", "region"], ["--depths"]])
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_pictures(ending, options):
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")
    result = run(
        "transformer:n_tokens=4,heads=1,d_ff=4,depth=1", "--box", -4, 4, "--plot", f"cells.{ending}", *options
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == f"drew cells.{ending}\n"
    start = Path(f"cells.{ending}").read_bytes()[:200]
    assert b"<?xml" in start if ending == "svg" else start.startswith(b"\x89PNG")


def test_jobs_do_not_change_the_answer():
    assert answer(MLP, "--box", -1, 1, "--jobs", 2) == answer(MLP, "--box", -1, 1)


def test_the_count_on_the_page_is_what_the_command_prints():
    block = re.search(
        r"\$ hardmax regions (.*?)\n(.*?)```", (ROOT / "docs" / "regions.md").read_text(), flags=re.DOTALL
    )
    assert run(*block[1].split()).stdout == block[2]


# Limits, checkpoints, Ctrl-C ----------------------------------------------------------------------------


def test_stopping_early_says_so():
    result = run(MLP, "--box", -4, 4, "--max-cells", 10)
    assert result.stdout.splitlines()[0] == "10 cells, INCOMPLETE, exact"
    assert "Stopped early: there are at least this many cells." in result.stdout
    assert not answer(MLP, "--box", -4, 4, "--max-cells", 10, "--count")["complete"]


def test_a_later_command_goes_on_from_the_checkpoint():
    stopped = run(MLP, "--box", -4, 4, "--max-cells", 100, "--checkpoint", "run.npz")
    assert "goes on from run.npz" in stopped.stdout
    assert Path("run.npz").exists()
    assert answer(MLP, "--box", -4, 4, "--checkpoint", "run.npz") == answer(MLP, "--box", -4, 4)
    assert not Path("run.npz").exists()


def test_a_checkpoint_of_another_run_is_refused():
    run(MLP, "--box", -4, 4, "--max-cells", 100, "--checkpoint", "run.npz")
    assert "belongs to another network, domain or option" in refused(
        MLP, "--box", -3, 3, "--checkpoint", "run.npz"
    )


@pytest.mark.skipif(os.name == "nt", reason="signals are sent differently there")
@pytest.mark.parametrize("checkpoint", [[], ["--checkpoint", "run.npz"]])
def test_ctrl_c_leaves_with_one_sentence(checkpoint, elsewhere):
    program = (
        "import sys; from hardmax.cli import main, regions\n"
        "from contextlib import contextmanager\n"
        "@contextmanager\n"
        "def told():\n"
        "    yield lambda state: print(state.n_cells, flush=True)\n"
        "regions._progress = told\n"
        "main(['regions', *sys.argv[1:]])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "mlp:2,64,64,64,1", "--box", "-4", "4", "--exact", *checkpoint],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=elsewhere,
        # a test run in the background of a shell inherits that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    sentence = "interrupted; the same command goes on from run.npz." if checkpoint else "interrupted."
    assert errors.splitlines()[-1] == f"hardmax: {sentence}"
    assert Path("run.npz").exists() == bool(checkpoint)


def test_progress_is_shown_on_a_terminal(monkeypatch):
    from hardmax.cli import regions
    from hardmax.regions.api import Progress

    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with regions._progress() as told:
        told(Progress(1234, 0.5, 1.0))
        told(Progress(2000, None, 1.0))
    assert "1,234 cells" in screen.text or "2,000 cells" in screen.text


class Terminal:
    """A standard error that says it is a terminal."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


# Descriptions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", DESCRIPTIONS.values())
def test_the_examples_of_descriptions_are_networks(text):
    assert read_network(text).d == 2


def test_descriptions_say_what_is_made():
    made = read_network(
        "transformer:n_tokens=5,heads=2,d_ff=8,depth=2,seed=3,d=4,d_head=2,biased=no,ffn_skip=yes"
    )
    assert (
        made.description
        == hm.Network.random(4, 5, 2, 2, 8, 3, d_head=2, biased=False, ffn_skip=True).description
    )
    assert read_network("sawtooth:d=2,n_tokens=2,teeth=1,depth=1,variant=genuine").heads_total == 2
    assert read_network("mlp:3,4,1").description["rng"] == 0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("mlp:2", "at least input and output"),
        ("mlp:2,0,1", "at least 1"),
        ("mlp:2,8,1,sed=3", "unknown sed"),
        ("mlp:2,seed=1,8", "then name=value"),
        ("mlp:2,8,1,seed=1,seed=2", "once each"),
        ("mlp:2,8,1,seed=-1", "whole number for seed"),
        ("mlp:2,__import__('os').getcwd(),1", "must hold whole numbers"),
        ("transformer:n_tokens=5", "must say heads=..."),
        ("transformer:5,2", "every number a name"),
        ("transformer:n_tokens=5,heads=1,d_ff=4,depth=1,biased=maybe", "yes or no"),
        ("sawtooth:d=2,n_tokens=3,teeth=2,depth=1,variant=new", "plain or ffn_skip"),
        ("sawtooth:d=0,n_tokens=3,teeth=2,depth=1", "at least 1"),
        ("other:2,8,1", "described as in"),
    ],
)
def test_wrong_descriptions(text, part):
    assert part in refused(text, "--box", -4, 4)


# Wrong input --------------------------------------------------------------------------------------------


def test_one_domain_is_needed():
    assert "none of them did" in refused(MLP)
    assert "--box and --whole did" in refused(MLP, "--box", 0, 1, "--whole")
    assert "below high" in refused(MLP, "--box", 1, 0)
    assert "a number such as" in refused(MLP, "--box", "a", 1)


def test_slices_that_do_not_fit():
    assert "origin and one or more directions" in refused("mlp:3,8,1", "--slice", "0,0,0", "--whole")
    assert "origin and one or more directions" in refused("mlp:3,8,1", "--slice", "0,0,0:1,0", "--whole")
    assert "3 input dimensions" in refused("mlp:3,8,1", "--slice", "0,0:1,0:0,1", "--whole")
    np.savetxt("slice.csv", np.eye(3), delimiter=",")
    assert "say the same twice" in refused(
        "mlp:3,8,1", "--slice", "0,0,0:1,0,0", "--slice-file", "slice.csv", "--whole"
    )


def test_networks_in_space():
    found = answer("mlp:3,4,4,1,seed=0", "--box", -4, 4, "--regions", "--plot", "solid.png")
    expected = hm.enumerate_regions(hm.Network.random_mlp([3, 4, 4, 1], 0), hm.Box.cube(3, -4, 4))
    assert (found["n_cells"], found["n_regions"]) == (expected.n_cells, expected.n_regions)
    assert Path("solid.png").stat().st_size > 10_000
    assert "volume" in run("mlp:3,4,1,seed=0", "--box", -4, 4).stdout
    Path("half.csv").write_text("1,0,0,0\n-1,0,0,4\n0,1,0,4\n0,-1,0,4\n0,0,1,4\n0,0,-1,4\n")
    half = answer("mlp:3,4,1,seed=0", "--polytope", "half.csv", "--count")
    domain = hm.Box([-4, -4, -4], [0, 4, 4])
    network = hm.Network.random_mlp([3, 4, 1], 0)
    assert half["n_cells"] == hm.count_cells(network, domain).n_cells
    assert "half-spaces of 5 numbers" in refused("mlp:4,4,1", "--polytope", "half.csv")
    assert "three dimensions" in refused("mlp:4,3,1,seed=0", "--box", -1, 1, "--plot", "none.png")


@pytest.mark.parametrize(
    ("corners", "part"),
    [
        ("0,0\n1,1\n1,0\n0,1\n", "convex polygon in order"),
        ("0,0\n1,1\n", "at least three corners"),
        ("1,0,0\n-1,0,-1\n", "must have interior"),
        ("1,0,0,0\n", "at least three corners"),
    ],
)
def test_polygons_that_are_none(corners, part):
    Path("polygon.csv").write_text(corners)
    assert part in refused(MLP, "--polygon", "polygon.csv")


def test_files_that_are_no_networks():
    assert "no such file" in refused("missing.npz", "--box", 0, 1)
    Path("damaged.npz").write_bytes(b"PK\x03\x04 something else")
    assert "damaged.npz" in refused("damaged.npz", "--box", 0, 1)


def test_options_that_do_not_go_together():
    assert "--count keeps no cells" in refused(MLP, "--box", 0, 1, "--count", "--plot", "a.png")
    assert "--count keeps no cells" in refused(MLP, "--box", 0, 1, "--count", "--verify")
    assert "add --plot" in refused(MLP, "--box", 0, 1, "--depths")
    assert "n_jobs must not be 0" in refused(MLP, "--box", 0, 1, "--jobs", 0)
    assert "positive number of seconds" in refused(MLP, "--box", 0, 1, "--time-limit", -1)


# Many cores ---------------------------------------------------------------------------------------------


def test_jobs_change_nothing():
    one, two = (answer("mlp:2,300,1,seed=0", "--box", -4, 4, "--count", "--jobs", n) for n in (1, 2))
    assert {**one, "provenance": None} == {**two, "provenance": None}
    assert one["n_cells"] > 1 << 15


def test_clusters_that_cannot_be_meant():
    assert "leave one of them out" in refused(MLP, "--box", -4, 4, "--jobs", 2, "--dask", "tcp://127.0.0.1:1")
    pytest.importorskip("distributed")
    assert "--dask must be the address of a running scheduler" in refused(
        MLP, "--box", -4, 4, "--dask", "nothing://nowhere"
    )


HEAD = "transformer:n_tokens=6,heads=1,d_ff=0,depth=1"


def test_a_rule_for_all_attention():
    network = hm.Network.random(2, n_tokens=6, heads=1, depth=1, d_ff=0, rng=0)
    box = hm.Box.cube(2, -3, 3)
    report = answer(HEAD, "--box", -3, 3, "--rule", "top-k", "--k", 2)
    found = hm.enumerate_regions(network.with_rule("top-k", k=2), box)
    assert report["n_cells"] == found.n_cells
    assert report["chosen"]["0"] == found.chosen(0).astype(int).tolist()
    soft = answer(HEAD, "--box", -3, 3, "--rule", "sparsemax", "--temperature", "1/3", "--count")
    third = network.with_rule("sparsemax", temperature=[Fraction(1, 3)])
    assert soft["n_cells"] == hm.count_cells(third, box).n_cells
    table = run(HEAD, "--box", -3, 3, "--rule", "top-k", "--k", 2).stdout.splitlines()
    assert table[2].split()[1:3] == ["{1,", "3}"]
    assert answer(HEAD, "--box", -3, 3, "--ties", "leftmost")["n_cells"] == 4


def test_a_panel_for_each_rule(elsewhere):
    result = run(HEAD, "--box", -3, 3, "--rules", "hardmax,top-2,sparsemax:1/2,relu", "--plot", "rules.svg")
    assert result.exit_code == 0, result.output
    text = (elsewhere / "rules.svg").read_text()
    assert all(name in text for name in ("hardmax", "top-2", "sparsemax:1/2", "relu", "7 cells"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rules", "hardmax"), "--rules belongs to --plot"),
        (("--rules", "hardmax", "--plot", "a.png", "--k", 2), "--rules belongs to --plot"),
        (("--rules", "top2", "--plot", "a.png"), "holds 'top2'"),
        (("--rules", "sparsemax:x", "--plot", "a.png"), "'x'"),
        (("--rule", "sparsemax"), "temperature must be given"),
        (("--rule", "sparsemax", "--temperature", 0), "temperature must be above 0"),
        (("--rule", "top-k", "--k", 7), "k must be at most the number of keys"),
        (("--k", 2), "k must be left out with rule 'hardmax'"),
    ],
)
def test_rules_that_make_no_sense(options, message):
    assert message in refused(HEAD, "--box", -3, 3, *options)


def test_a_network_without_attention_has_no_rule():
    assert "network must have attention" in refused(MLP, "--box", -3, 3, "--rule", "relu")
