"""The command ``hardmax``: right answers, one sentence for wrong input, and nothing ever unpickled."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.cli.inputs import read_arrays, read_heads, read_vectors
from hardmax.cli.installation import KERNELS
from hardmax.geometry.minkowski import Verification
from hardmax.models.report.model_report import ModelReport

KEYS = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.25, 0.125]])
SQUARE = [np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [0.0, 1.0]])]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test works in its own empty folder, so that messages show short file names."""
    monkeypatch.chdir(tmp_path)
    np.save("keys.npy", KEYS)
    np.savetxt("keys.csv", KEYS, delimiter=",")
    for name, head in zip("ab", SQUARE, strict=True):
        np.save(f"{name}.npy", head)
    return tmp_path


def run(*args: object):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def answer(*args: object):
    """The JSON that a command prints."""
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*args: object) -> str:
    """The one sentence with which a command refuses wrong input."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("hardmax: ")
    assert lines[0].endswith((".", "?"))
    assert "Traceback" not in result.output
    return lines[0]


# Right input --------------------------------------------------------------------------------------------


def test_diagram_lists_the_sets_that_win_together():
    report = answer("diagram", "keys.npy", "--k", 2, "--box", -3, 3, "--out", "pairs.npz")
    assert report["sets"] == hm.attention_diagram(KEYS, k=2).sets.tolist()
    assert (report["k"], report["n_cells"], len(report["polygons"])) == (2, 6, 6)
    assert answer("diagram", "pairs.npz")["sets"] == report["sets"]
    shown = run("diagram", "keys.npy", "--k", 2).stdout
    assert "6 sets of 2 out of 4 keys win" in shown
    assert "(0, 1)" in shown


def test_top_k_heads_add_up():
    report = answer("minkowski", "keys.npy", "--k", 2, "--verify")
    assert [row[0] for row in report["choices"]] == hm.attention_diagram(KEYS, k=2).sets.tolist()
    assert "(0, 1)" in run("minkowski", "keys.npy", "--k", 2).stdout


def test_bounds_of_a_top_k_head():
    report = answer("bounds", "--k", 3, "--n-tokens", 6, "--d-model", 2, "--linear")
    assert {bound["name"]: bound["value"] for bound in report["bounds"]}["order_k"] == 12
    assert "28" in run("bounds", "--k", 3, "--n-tokens", 9, "--d-model", 2, "--voronoi").stdout


def test_what_k_does_not_go_with():
    assert "but was 5 for 4 keys" in refused("diagram", "keys.npy", "--k", 5)
    assert "at least 1, but was 0" in refused("minkowski", "keys.npy", "--k", 0)
    assert "--max-margin is about single keys" in refused("diagram", "keys.npy", "--k", 2, "--max-margin")
    run("diagram", "keys.npy", "--k", 2, "--out", "pairs.npz")
    assert "and k already" in refused("diagram", "pairs.npz", "--k", 2)
    sizes = ("--n-tokens", 4, "--d-model", 2)
    assert "k must be at most n_tokens (4)" in refused("bounds", "--k", 5, *sizes)
    assert "--voronoi belongs to --k" in refused("bounds", "--voronoi", *sizes)
    assert "leave out --linear" in refused("bounds", "--k", 2, "--voronoi", "--linear", *sizes)
    assert "leave out --mlp and --budget" in refused("bounds", "--k", 2, "--budget", *sizes)
    assert "says nothing about --k" in refused("bounds", "--k", 2, "--heads", 3, *sizes)


@pytest.mark.parametrize("name", ["keys.npy", "keys.csv"])
def test_diagram_says_which_keys_win(name):
    report = answer("diagram", name)
    assert report["nonempty"] == [True, True, True, False]
    assert report["n_nonempty"] == 3
    scores = KEYS @ np.array(report["witnesses"][1])
    assert scores.argmax() == 1


def test_diagram_prints_a_table():
    result = run("diagram", "keys.npy")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "3 of 4 keys win on a set with interior, in dimension 2"
    assert lines[5].split() == ["3", "no"]


def test_diagram_with_biases_makes_a_hidden_key_win():
    np.save("biases.npy", np.array([0.0, 0.0, 0.0, 1.0]))
    assert answer("diagram", "keys.npy", "--biases", "biases.npy")["nonempty"] == [True] * 4


def test_power_diagram_without_weights_is_voronoi():
    assert answer("diagram", "keys.npy", "--sites")["nonempty"] == [True] * 4


def test_power_diagram_with_the_weights_of_attention():
    np.save("weights.npy", (KEYS**2).sum(axis=1))
    report = answer("diagram", "keys.npy", "--sites", "--weights", "weights.npy")
    assert report["nonempty"] == [True, True, True, False]


def test_a_box_gives_polygons():
    report = answer("diagram", "keys.npy", "--box", "-3", "3")
    assert len(report["polygons"]) == 4
    table = run("diagram", "keys.npy", "--box", "-3", "3").stdout
    areas = [float(line.split()[-1]) for line in table.splitlines()[2:5]]
    assert sum(areas) == pytest.approx(36.0)


def test_reach_is_the_distance_from_the_hull_of_the_others():
    np.save("line.npy", np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 0.0]]))
    reach = answer("diagram", "line.npy", "--max-margin")["max_margin"]
    assert reach == pytest.approx([1.0, 2.0, 0.0], abs=1e-9)


def test_minkowski_of_two_segments_is_a_square():
    report = answer("minkowski", "a.npy", "b.npy")
    assert (report["count"], report["heads"], report["d"]) == (4, 2, 2)
    assert sorted(report["vertices"]) == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize("form", ["stack", "members", "csv"])
def test_heads_come_in_several_forms(form):
    if form == "stack":
        np.save("heads.npy", np.array(SQUARE))
        files = ["heads.npy"]
    elif form == "members":
        np.savez("heads.npz", first=SQUARE[0], second=SQUARE[1])
        files = ["heads.npz"]
    else:
        for i, head in enumerate(SQUARE):
            np.savetxt(f"{i}.csv", head, delimiter=",", header="x,y", comments="")
        files = ["0.csv", "1.csv"]
    assert answer("minkowski", *files)["count"] == 4


def test_minkowski_with_biases_counts_upper_vertices():
    np.save("line.npy", np.array([[-1.0], [0.0], [1.0]]))
    np.save("up.npy", np.array([0.0, 1.0, 0.0]))
    np.save("down.npy", np.array([0.0, -1.0, 0.0]))
    assert answer("minkowski", "line.npy")["count"] == 2
    assert answer("minkowski", "line.npy", "--biases", "up.npy")["count"] == 3
    assert answer("minkowski", "line.npy", "--biases", "down.npy")["count"] == 2
    np.save("both.npy", np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]))  # walls at -1, 1 and at 0
    assert answer("minkowski", "line.npy", "line.npy", "--biases", "both.npy")["count"] == 4


def test_minkowski_verifies(monkeypatch):
    assert answer("minkowski", "a.npy", "b.npy", "--verify")["verified"]["witnesses"] == "passed"
    assert "check witnesses: passed" in run("minkowski", "a.npy", "b.npy", "--verify").stdout

    def failing(self):
        return Verification({"witnesses": "failed: it does not win"})

    monkeypatch.setattr(hm.geometry.MinkowskiVertices, "verify", failing)
    result = run("minkowski", "a.npy", "b.npy", "--verify")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "failed its own check" in result.stderr


def test_fractions_in_csv_are_exact():
    Path("thirds.csv").write_text("1/3,0\n-2/3,1\n# a comment\n\n1,1/7\n")
    (array,) = read_arrays(Path("thirds.csv")).values()
    assert array.dtype == object
    assert answer("diagram", "thirds.csv")["n_keys"] == 3


@pytest.mark.parametrize(
    ("command", "kind"), [("diagram", "PowerDiagram"), ("minkowski", "MinkowskiVertices")]
)
def test_a_saved_result_can_be_shown_again(command, kind):
    first = answer(command, "keys.npy", "--out", "kept.npz")
    assert first["kind"] == kind
    assert type(hm.load("kept.npz")).__name__ == kind
    assert answer(command, "kept.npz") == first


@pytest.mark.parametrize("ending", ["svg", "png"])
@pytest.mark.parametrize("command", ["diagram", "minkowski"])
def test_pictures_are_written(command, ending):
    assert run(command, "keys.npy", "--plot", f"picture.{ending}").exit_code == 0
    start = Path(f"picture.{ending}").read_bytes()[:200]
    assert (b"<svg" in start or b"<?xml" in start) if ending == "svg" else start.startswith(b"\x89PNG")


def test_versions():
    assert answer("versions")["hardmax"] == hm.__version__
    assert "numpy" in run("versions").stdout
    assert hm.__version__ in run("--version").stdout


def test_compile_names_the_kernels():
    """Every engine of every package is in the list that processes share."""
    seconds = answer("compile", "--jobs", "2")["seconds"]
    assert all(elapsed >= 0 for elapsed in seconds.values())
    assert list(seconds) == [name for entry in KERNELS for name in entry]
    refused = run("compile", "--jobs", "0")
    assert (refused.exit_code, "--jobs must be" in refused.stderr) == (2, True)


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(main.commands))])
def test_help_has_examples(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout


def test_the_bare_command_shows_its_help():
    result = run()
    assert result.exit_code == 0
    assert "Commands:" in result.stdout


def test_python_m_hardmax_is_the_command():
    done = subprocess.run([sys.executable, "-m", "hardmax", "--version"], capture_output=True, text=True)
    assert done.stdout == f"hardmax {hm.__version__}\n"


def test_a_long_table_is_cut_and_says_so():
    np.save("many.npy", np.random.default_rng(0).normal(size=(60, 2)))
    assert "... and 20 more rows" in run("diagram", "many.npy").stdout


def test_a_terminal_gets_a_drawn_table(monkeypatch):
    from hardmax.cli import outputs

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    outputs.print_table("Title", ["key"], [["0"], ["1"]], ["[a note]"])
    assert "┃" in screen.getvalue()
    assert "[a note]" in screen.getvalue()


def test_json_has_no_nan():
    """A key that never wins has no witness; JSON says null."""
    assert answer("diagram", "keys.npy")["witnesses"][3] in (None, [None, None])


# Wrong input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["diagram", "minkowski"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_file_with_nan_or_inf(command, bad):
    np.save("bad.npy", np.array([[1.0, 2.0], [3.0, bad]]))
    assert f"bad.npy must be finite, but holds {bad} at index [1, 1]" in refused(command, "bad.npy")


def test_a_ragged_csv_names_the_line():
    Path("ragged.csv").write_text("1,2\n3,4\n5\n")
    assert "ragged.csv must have 2 numbers on every line, but line 3 has 1" in refused(
        "diagram", "ragged.csv"
    )


@pytest.mark.parametrize("ending", ["npy", "npz", "csv"])
def test_an_empty_file(ending):
    Path(f"empty.{ending}").touch()
    assert f"empty.{ending} must hold numbers, but is empty (0 bytes)" in refused(
        "diagram", f"empty.{ending}"
    )
    assert f"empty.{ending}" in refused("minkowski", f"empty.{ending}")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_a_text_file_with_the_wrong_name(ending):
    Path(f"text.{ending}").write_text("1,2\n3,4\n")
    assert f"text.{ending} must be" in refused("diagram", f"text.{ending}")


def test_words_in_a_csv():
    Path("words.csv").write_text("x,y\n1,2\n3,four\n")
    assert "words.csv must hold numbers, but line 3 has 'four'" in refused("diagram", "words.csv")


def test_a_csv_that_is_not_text():
    Path("binary.csv").write_bytes(bytes(range(256)))
    assert "binary.csv must be a text file" in refused("diagram", "binary.csv")


def test_a_missing_file_and_a_folder():
    assert "nowhere.npy does not exist" in refused("diagram", "nowhere.npy")
    Path("folder.npy").mkdir()
    assert "folder.npy must be a file" in refused("minkowski", "folder.npy")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(28, "No space left on device"),
            "cannot read or write: no space left on device; try another",
        ),
        (OSError(30, "Read-only file system", "r"), "cannot read or write r: read-only file system; try"),
        (FileNotFoundError("cannot write r: its folder does not exist."), "cannot write r: its folder does"),
    ],
)
def test_what_the_operating_system_says_becomes_a_sentence(monkeypatch, error, sentence):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(ModelReport, "write", fail)
    done = CliRunner().invoke(main, ["report"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"hardmax: {sentence}")
    assert done.stderr.count("\n") == 1


def test_an_unknown_ending():
    Path("keys.txt").write_text("1 2\n")
    assert "keys.txt must be a .npy, .npz or .csv file, but ends in '.txt'" in refused("diagram", "keys.txt")


@pytest.mark.parametrize("keep", [10, 100, 140])
def test_a_truncated_npy(keep):
    data = Path("keys.npy").read_bytes()
    Path("short.npy").write_bytes(data[:keep])
    assert "short.npy is truncated or damaged" in refused("diagram", "short.npy")


class Bomb:
    def __reduce__(self):
        return (os.system, ("touch exploded",))


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_pickled_objects_are_refused_and_not_run(ending):
    payload = np.array([[Bomb(), 1.0]], dtype=object)
    np.save("bomb.npy", payload) if ending == "npy" else np.savez("bomb.npz", payload)
    assert "must be a plain array of numbers, but holds Python objects" in refused(
        "diagram", f"bomb.{ending}"
    )
    assert not Path("exploded").exists()


@pytest.mark.parametrize("values", [np.array([["a"]]), np.array([[1j]]), np.array([[True]])])
def test_values_that_are_no_real_numbers(values):
    np.save("values.npy", values)
    assert "values.npy must hold real numbers, but holds" in refused("diagram", "values.npy")


@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_arrays_without_entries(shape):
    np.save("none.npy", np.zeros(shape))
    assert f"none.npy must hold numbers, but has shape {shape}" in refused("diagram", "none.npy")


def test_a_vector_is_no_list_of_keys():
    np.save("vector.npy", np.arange(3.0))
    assert "vector.npy must be a matrix with one row per key, but has shape (3,)" in refused(
        "diagram", "vector.npy"
    )
    assert "vector.npy must be a head (N, d) or a stack (H, N, d)" in refused("minkowski", "vector.npy")


def test_too_many_arrays_for_one_diagram():
    np.savez("two.npz", a=KEYS, b=KEYS)
    assert "two.npz must hold one array, but holds 2: a, b" in refused("diagram", "two.npz")


def test_heads_of_different_dimension():
    np.save("space.npy", np.zeros((2, 3)))
    sentence = refused("minkowski", "a.npy", "space.npy")
    assert "a.npy, space.npy: " in sentence


def test_biases_that_do_not_fit():
    np.save("two.npy", np.zeros(2))
    assert "keys.npy, two.npy: " in refused("diagram", "keys.npy", "--biases", "two.npy")
    assert "one list per head (2), but gives 1" in refused(
        "minkowski", "a.npy", "b.npy", "--biases", "two.npy"
    )


def test_options_that_contradict_each_other():
    assert "add --sites" in refused("diagram", "keys.npy", "--weights", "w.npy")
    assert "use --weights" in refused("diagram", "keys.npy", "--sites", "--biases", "w.npy")


def test_a_box_without_a_plane_or_without_inside():
    np.save("space.npy", np.eye(3))
    assert "--box cuts a square out of the plane" in refused("diagram", "space.npy", "--box", "0", "1")
    assert "low must be below high" in refused("diagram", "keys.npy", "--box", "1", "0")


def test_reach_of_a_biased_diagram():
    np.save("biases.npy", np.arange(4.0))
    assert "biases" in refused("diagram", "keys.npy", "--biases", "biases.npy", "--max-margin")


def test_outputs_that_cannot_be_written_are_refused_before_the_work(monkeypatch):
    monkeypatch.setattr(
        hm, "attention_diagram", lambda *args, **options: pytest.fail("the mathematics was started")
    )
    assert "result.txt must end in .npz" in refused("diagram", "keys.npy", "--out", "result.txt")
    assert "picture.gif must end in .svg or .png" in refused("diagram", "keys.npy", "--plot", "picture.gif")
    assert "its folder does not exist" in refused("diagram", "keys.npy", "--out", "nowhere/result.npz")


def test_a_result_of_another_kind():
    run("minkowski", "a.npy", "--out", "sum.npz")
    assert "sum.npz must hold a PowerDiagram or OrderKDiagram, but holds a MinkowskiVertices" in refused(
        "diagram", "sum.npz"
    )
    assert "shown alone" in refused("minkowski", "sum.npz", "a.npy")


def test_wrong_options_and_commands():
    assert "No such option" in refused("diagram", "keys.npy", "--colour")
    assert "No such command" in refused("diagramm", "keys.npy")
    assert "Missing argument" in refused("diagram")
    refused("minkowski")


def test_heads_and_biases_readers():
    np.savez("mixed.npz", stack=np.zeros((2, 4, 3)), single=np.zeros((5, 3)))
    assert [head.shape for head in read_heads([Path("mixed.npz")])] == [(4, 3), (4, 3), (5, 3)]
    np.save("column.npy", np.zeros((4, 1)))
    assert [v.shape for v in read_vectors([Path("column.npy"), Path("column.npy")])] == [(4,), (4,)]


# Leaving ------------------------------------------------------------------------------------------------


def test_an_interrupt_leaves_with_130(monkeypatch):
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hm, "attention_diagram", interrupted)
    result = run("diagram", "keys.npy")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


@pytest.mark.skipif(os.name == "nt", reason="signals are sent differently there")
def test_ctrl_c_in_a_real_process(elsewhere):
    slow = (
        "import sys, time, hardmax; from hardmax.cli import main\n"
        "def work(*args, **options):\n    print('working', flush=True); time.sleep(60)\n"
        "hardmax.attention_diagram = work\n"
        "main(['diagram', 'keys.npy'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=elsewhere,
        # a test run in the background of a shell inherits that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "working\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_a_failed_certificate_is_not_the_users_fault(monkeypatch):
    def failing(*args: object, **options: object) -> None:
        raise hm.errors.CertificateError("a witness does not win.")

    monkeypatch.setattr(hm, "attention_diagram", failing)
    assert run("diagram", "keys.npy").exit_code == 1


def test_missing_matplotlib_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "hardmax.plotting"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delattr(hm, "plotting", raising=False)
    result = run("diagram", "keys.npy", "--plot", "picture.svg")
    assert result.exit_code == 1
    assert "pip install matplotlib" in result.stderr


def test_an_interrupt_while_commands_are_imported_ends_in_a_sentence():
    program = """
import sys
from hardmax.__main__ import run

class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == "hardmax.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting)
run()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hardmax: interrupted.\n")


def test_an_interrupt_inside_a_destructor_is_not_lost():
    program = """
import time
import hardmax.cli
from hardmax.__main__ import run

class Interrupted:
    def __del__(self):
        raise KeyboardInterrupt

def main(prog_name):
    Interrupted()
    for _ in range(1000):
        time.sleep(0.01)

hardmax.cli.main = main
run()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hardmax: interrupted.\n")
