"""Recipes: options are read strictly, a folder is written whole or not at all, and only recipes' folders are
replaced."""

from __future__ import annotations

import ast
import csv
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import hardmax as hm
from hardmax.cli import main
from hardmax.errors import InvalidInputError
from hardmax.papers import recipes as mechanism
from hardmax.papers.ledger import Finding, Verdict, all_claims
from hardmax.papers.paper import papers, sections
from hardmax.papers.recipes import (
    Comparison,
    Option,
    Outcome,
    Recipe,
    Settings,
    _shown,
    command_line,
    compared,
    find_recipe,
    measured,
    recipes,
    stated,
    write_reproduction,
)
from hardmax.plotting.style import new_figure


def toy_outcome(settings: Settings) -> Outcome:
    figure = new_figure(2.0, 2.0)
    figure.add_subplot().plot([0, 1], settings.rng("line").normal(size=2))
    table = {"n": [1, 2], "x": np.array([[0.5, np.inf], [np.nan, 2.0]]), "word": ["a,b", "|"]}
    return Outcome({"picture": figure}, {"numbers_of": table}, (compared("a | b", "1", "2", len("12") == 1),))


TOY = Recipe(
    "tropical.fig9",
    "A toy",
    (
        Option("size", 3, "a size", medium=30, paper=300, least=1),
        Option("box", 4.0, "a box"),
        Option("scale", 1.0, "a scale", positive=True),
        Option("widths", (4, 8), "some widths", least=1),
        Option("skip", False, "whether"),
        Option("pairing", "paired", "which", choices=("paired", "unpaired")),
    ),
    toy_outcome,
)


@pytest.fixture
def toy(monkeypatch):
    """The toy is a recipe like the others."""
    known = {**recipes(), TOY.name: TOY}
    monkeypatch.setattr(mechanism, "recipes", lambda: known)
    return TOY


# Options and settings
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("size", "7", 7),
        ("size", np.int64(7), 7),
        ("box", "2", 2.0),
        ("box", 3, 3.0),
        ("widths", "16", (16,)),
        ("widths", " 1, 2 ", (1, 2)),
        ("widths", [5, 6], (5, 6)),
        ("skip", "Yes", True),
        ("skip", "0", False),
        ("skip", True, True),
        ("pairing", "unpaired", "unpaired"),
    ],
)
def test_an_option_reads_values_and_texts(name, given, value):
    chosen = TOY.settings("quick", 0, {name: given})[name]
    assert chosen == value
    assert type(chosen) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("size", "2.5", "size must be a whole number of at least 1, but was '2.5'"),
        ("size", 0, "at least 1, but was 0"),
        ("size", True, "whole number"),
        ("size", 2.5, "whole number"),
        ("box", "wide", "box must be a number, but was 'wide'"),
        ("box", "nan", "a number"),
        ("box", float("inf"), "a number"),
        ("scale", "0", "scale must be a positive number, but was '0'"),
        ("scale", -1.0, "a positive number"),
        ("widths", "", "a list, separated by commas, of: a whole number of at least 1, but was"),
        ("widths", "4,-1", "but was '-1'"),
        ("widths", 4, "a list"),
        ("skip", "perhaps", "true or false"),
        ("skip", 1, "true or false"),
        ("pairing", "both", "pairing must be paired or unpaired, but was 'both'"),
        ("siez", 3, "did you mean size?"),
        ("colour", 3, "options of tropical.fig9 (size, box, scale, widths, skip, pairing)"),
    ],
)
def test_an_option_refuses_what_it_is_not_with_one_sentence(name, given, message):
    with pytest.raises(InvalidInputError) as caught:
        TOY.settings("quick", 0, {name: given})
    assert message in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_profiles_have_their_own_defaults():
    sizes = [TOY.settings(profile)["size"] for profile in ("quick", "medium", "paper")]
    assert sizes == [3, 30, 300]
    assert [Option("n", 1, "n", medium=2).value_in(p) for p in ("quick", "medium", "paper")] == [1, 2, 2]


@pytest.mark.parametrize(("profile", "seed"), [("slow", 0), ("quick", -1), ("quick", 1.5), ("quick", True)])
def test_a_wrong_profile_or_seed_is_refused(profile, seed):
    with pytest.raises(InvalidInputError, match=r"profile must be one of|seed must be a whole number"):
        TOY.settings(profile, seed)


def test_a_default_that_does_not_fit_its_option_is_refused():
    with pytest.raises(InvalidInputError):
        Option("n", 0, "n", least=1)
    with pytest.raises(InvalidInputError):
        Option("n", 3, "n", paper=2.5)
    with pytest.raises(InvalidInputError, match="must show the type"):
        Option("n", (), "n")


@examples(max_examples=20)
@given(st.integers(0, 2**32), st.text(max_size=8), st.text(max_size=8))
def test_streams_of_random_numbers_depend_on_seed_and_name_only(seed, one, two):
    settings = Settings("quick", seed, {})
    assert settings.rng(one, 3).integers(1 << 62) == Settings("paper", seed, {}).rng(one, 3).integers(1 << 62)
    if one != two:
        assert settings.rng(one).integers(1 << 62) != settings.rng(two).integers(1 << 62)
    assert settings.rng(one).integers(1 << 62) != Settings("quick", seed + 1, {}).rng(one).integers(1 << 62)


# The recipes there are
# ----------------------------------------------------------------------------------------------------------


def test_every_recipe_has_a_name_of_its_paper_and_described_options():
    for name, recipe in recipes().items():
        assert name == recipe.name
        assert name.partition(".")[0] in papers()
        assert recipe.title
        names = [option.name for option in recipe.options]
        assert len(names) == len(set(names))
        assert all(option.help and option.name.isidentifier() for option in recipe.options)


def test_figures_come_in_the_order_of_the_papers():
    names = list(recipes())
    figures = [name for name in names if name.startswith("tropical.fig")]
    assert figures == sorted(figures, key=lambda name: int(name[len("tropical.fig") :]))
    assert mechanism._place("tropical.fig10") > mechanism._place("tropical.fig2")
    assert mechanism._place("infoflow.fig2") > mechanism._place("tropical.table2")


def test_the_command_that_a_page_shows_gives_the_same_settings():
    """What is printed for a shell is read back as the same values, for every option of every recipe."""
    for recipe in recipes().values():
        for profile in mechanism.PROFILES:
            settings = recipe.settings(profile)
            texts = {name: _shown(value) for name, value in settings.items()}
            assert recipe.settings("quick", 0, texts).chosen == settings.chosen


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("fig4", "tropical.fig4"), ("tropical.figure6", "tropical.fig6"), ("Tropical.Fig7", "tropical.fig7")],
)
def test_an_unknown_recipe_suggests_the_nearest(asked, meant):
    with pytest.raises(InvalidInputError, match=rf"but was '{asked}'; did you mean {meant}\?$"):
        hm.reproduce(asked, "nowhere")
    with pytest.raises(InvalidInputError, match="--list shows all"):
        find_recipe("quite another thing")
    assert not Path("nowhere").exists()


# Verdicts
# ----------------------------------------------------------------------------------------------------------

DECIDES = {"compared": 3, "stated.judged": 1, "stated.compared": 1, "stated.refuted": 1}
"""Which argument the verdict is computed from."""


def called(call: ast.Call) -> str:
    """The name of a function, or of a method of what a function gives: ``stated(...).compared(...)``."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        return f"{called(call.func.value)}.{call.func.attr}"
    return call.func.id if isinstance(call.func, ast.Name) else ""


def calls(section: str) -> list[tuple[str, ast.Call]]:
    tree = ast.parse(Path(import_module(f"hardmax.papers.{section}").__file__).read_text())
    return [(called(node), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_every_judgement_is_seen():
    names = [name for section in sections() for name, _ in calls(section)]
    assert sum(name.startswith("stated.") for name in names) == names.count("stated") > 40
    assert {name for name in names if name.startswith("stated.")} <= set(DECIDES)


@pytest.mark.parametrize("section", sections())
def test_no_verdict_is_written_down(section):
    """A recipe computes its verdicts, and a claim earns its own."""
    for name, call in calls(section):
        assert name != "Comparison"
        if name in DECIDES:
            judgement = call.args[DECIDES[name]]
            assert not isinstance(judgement, ast.Constant) or judgement.value is None
        if name == "Finding":
            assert ast.unparse(call.args[0]) == "Verdict.MEASUREMENT"
        if name in ("holding", "failing", "earned"):
            assert not any(isinstance(value, ast.Constant) and value.value is True for value in call.args)


def test_recipes_name_claims_that_there_are():
    known = {claim.name for claim in all_claims()}
    named = {
        constant.value
        for section in sections()
        for name, call in calls(section)
        if name in ("stated", "compared", "measured")
        for value in (*call.args[2:], *(keyword.value for keyword in call.keywords))
        for constant in ast.walk(value)
        if isinstance(constant, ast.Constant) and str(constant.value).startswith(tuple(papers()))
    }
    assert len(named) > 30
    assert named <= known


def test_verdicts_are_those_of_the_ledger():
    assert compared("q", "1", "1", True).verdict == "holds numerically"
    assert compared("q", "1", "1", True, exactly=True).verdict == "holds (proved)"
    assert compared("q", "1", "2", False, exactly=True).verdict == "fails"
    assert compared("q", "not stated", "2", None).verdict == "not compared"
    assert stated("q", "1").refuted("2", True).verdict == "fails"
    assert stated("q", "1").refuted("1", False).verdict == "open"
    assert measured("q", "1", "0.9").verdict == "measurement only"
    assert measured("q", "1", "not run").verdict == "not run"
    finding = Finding(Verdict.VACUOUS, "says nothing")
    assert stated("q", "1", "tropical.ex_vi2_tau").judged("2", finding).verdict == "vacuous"
    with pytest.raises(InvalidInputError, match=r"verdict must be one of holds .*, but was 'agrees'"):
        Comparison("q", "1", "1", "agrees")


# The folder
# ----------------------------------------------------------------------------------------------------------


def test_a_reproduction_is_a_folder_of_pictures_tables_and_comparisons(toy, tmp_path):
    done = hm.reproduce(toy.name, tmp_path / "new", seed=5, settings={"size": "7"})
    folder = tmp_path / "new" / toy.name
    assert {path.name for path in folder.iterdir()} == set(done.files)
    assert set(done.files) == {
        "picture.svg",
        "picture.png",
        "numbers_of.csv",
        "numbers.json",
        "comparison.md",
    }
    with open(folder / "numbers_of.csv", newline="") as file:
        assert list(csv.reader(file)) == [
            ["n", "x_0", "x_1", "word"],
            ["1", "0.5", "inf", "a,b"],
            ["2", "nan", "2.0", "|"],
        ]
    numbers = json.loads((folder / "numbers.json").read_text(), parse_constant=pytest.fail)
    assert numbers["settings"] == {
        "size": 7,
        "box": 4.0,
        "scale": 1.0,
        "widths": [4, 8],
        "skip": False,
        "pairing": "paired",
    }
    assert (numbers["seed"], numbers["profile"], numbers["recipe"]) == (5, "quick", toy.name)
    assert numbers["tables"]["numbers_of"]["x_0"] == [0.5, None]
    assert numbers["versions"]["hardmax"] == hm.__version__
    assert numbers["comparisons"][0]["verdict"] == "fails"
    page = (folder / "comparison.md").read_text()
    assert "| a \\| b | 1 | 2 | fails |  |" in page
    assert "hardmax reproduce tropical.fig9 --profile quick --seed 5 --set size=7" in page
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_settings_give_the_same_bytes(toy, tmp_path):
    contents = []
    for name in ("a", "b"):
        done = hm.reproduce(toy.name, tmp_path / name)
        contents.append({file: (Path(done.folder) / file).read_bytes() for file in done.files})
    assert contents[0] == contents[1]
    other = hm.reproduce(toy.name, tmp_path / "c", seed=1)
    assert (Path(other.folder) / "picture.svg").read_bytes() != contents[0]["picture.svg"]


def test_an_earlier_reproduction_is_replaced_and_nothing_else(toy, tmp_path):
    hm.reproduce(toy.name, tmp_path)
    done = hm.reproduce(toy.name, tmp_path, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == [toy.name]
    assert json.loads((Path(done.folder) / "numbers.json").read_text())["seed"] == 1
    (Path(done.folder) / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"it holds 'notes.txt', which no recipe wrote; try another"):
        hm.reproduce(toy.name, tmp_path, seed=2)
    assert json.loads((Path(done.folder) / "numbers.json").read_text())["seed"] == 1


@pytest.mark.parametrize("content", ["", "{}", '{"format": "else", "files": ["numbers.json"]}', "[1]"])
def test_a_folder_that_is_no_reproduction_is_left_alone(toy, tmp_path, content):
    folder = tmp_path / toy.name
    folder.mkdir()
    (folder / "numbers.json").write_text(content)
    with pytest.raises(FileExistsError, match=r"it holds 'numbers\.json'"):
        hm.reproduce(toy.name, tmp_path)
    assert (folder / "numbers.json").read_text() == content


def test_a_file_in_the_place_of_the_folder_is_left_alone(toy, tmp_path):
    (tmp_path / toy.name).write_text("mine")
    with pytest.raises(FileExistsError, match="it is not a folder"):
        hm.reproduce(toy.name, tmp_path)
    assert (tmp_path / toy.name).read_text() == "mine"


def test_a_failure_while_writing_leaves_what_was_there(toy, tmp_path, monkeypatch):
    done = hm.reproduce(toy.name, tmp_path)
    before = {file: (Path(done.folder) / file).read_bytes() for file in done.files}
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == 3:
            raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        hm.reproduce(toy.name, tmp_path, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == [toy.name]
    assert {file: (Path(done.folder) / file).read_bytes() for file in done.files} == before


def test_a_failure_in_the_last_step_puts_the_earlier_folder_back(toy, tmp_path, monkeypatch):
    done = hm.reproduce(toy.name, tmp_path)
    replace = os.replace

    def fails_once(source, target):
        if str(source).endswith(".partial"):
            raise OSError("interrupted")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_once)
    with pytest.raises(OSError, match="interrupted"):
        hm.reproduce(toy.name, tmp_path, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == [toy.name]
    assert json.loads((Path(done.folder) / "numbers.json").read_text())["seed"] == 0


def test_a_recipe_that_fails_writes_nothing(monkeypatch, tmp_path):
    def burn(settings):
        raise InvalidInputError("burnt.")

    monkeypatch.setattr(
        mechanism, "recipes", lambda: {"tropical.fig9": Recipe("tropical.fig9", "", (), burn)}
    )
    with pytest.raises(InvalidInputError, match="burnt"):
        hm.reproduce("tropical.fig9", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_recipe_without_pictures_or_options_is_fine(tmp_path):
    plain = Recipe("tropical.exI1", "Only words", (), lambda settings: Outcome({}, {}, (), ("A remark.",)))
    done = write_reproduction(plain, plain.settings(), plain.run(plain.settings()), tmp_path)
    assert done.files == ("comparison.md", "numbers.json")
    page = (tmp_path / "tropical.exI1" / "comparison.md").read_text()
    assert "A remark." in page
    assert page.endswith(f"    {command_line(plain, plain.settings())}\n")


def test_a_reproduction_is_a_result(toy, tmp_path):
    done = hm.reproduce(toy.name, tmp_path, settings={"widths": (1, 2)})
    again = hm.load(done.save(tmp_path / "done.npz"))
    assert again.comparisons == done.comparisons
    assert again.files == done.files
    assert again.settings["widths"] == [1, 2]
    assert repr(done).startswith("<Reproduction: tropical.fig9, 1 comparisons, 5 files in ")
    assert done.to_frame()["verdict"].tolist() == ["fails"]
    assert "a | b" in done._repr_html_()


# The command
# ----------------------------------------------------------------------------------------------------------


def run(*args: object):
    return CliRunner().invoke(main, ["reproduce", *map(str, args)])


def test_the_command_lists_recipes_and_options():
    listed = run("--list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in recipes())
    described = json.loads(run("--list", "--json").stdout)
    assert [entry["name"] for entry in described] == list(recipes())
    options = run("tropical.fig6", "--list").stdout
    assert all(word in options for word in ("d_ff", "pairing", "2000000", "not stated"))


def test_the_command_cooks(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(toy.name, "--set", "size=9", "--set", "widths=1,2", "--seed", 3)
    assert done.exit_code == 0, done.stderr
    assert "wrote out/tropical.fig9" in done.stderr
    assert done.stdout.splitlines()[0] == "tropical.fig9: A toy"
    report = json.loads(run(toy.name, "--out", "other", "--json").stdout)
    assert report["kind"] == "Reproduction"
    assert report["comparisons"] == [
        {"quantity": "a | b", "paper": "1", "computed": "2", "verdict": "fails", "claim": ""}
    ]
    assert (tmp_path / "other" / toy.name / "picture.svg").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "NAME must be given"),
        (("tropical.fig12",), "did you mean tropical.fig"),
        (("tropical.fig4", "--set", "n_tokens"), "--set must be OPTION=VALUE, but was 'n_tokens'"),
        (("tropical.fig4", "--set", "=3"), "--set must be OPTION=VALUE"),
        (("tropical.fig4", "--set", "draws=1", "--set", "draws=2"), "draws came twice"),
        (("tropical.fig4", "--set", "drows=1"), "did you mean draws?"),
        (
            ("tropical.fig4", "--set", "draws=few"),
            "draws must be a whole number of at least 1, but was 'few'",
        ),
        (("tropical.fig4", "--seed", "-1"), "seed must be a whole number of at least 0, but was -1"),
        (("tropical.fig4", "--profile", "slow"), "slow"),
    ],
)
def test_the_command_answers_bad_input_with_one_sentence(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*args)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_recipes_are_listed_and_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from hardmax.cli import main\n"
        "from click.testing import CliRunner\n"
        "listed = CliRunner().invoke(main, ['reproduce', '--list'])\n"
        "done = CliRunner().invoke(main, ['reproduce', 'tropical.fig4'])\n"
        "print(listed.exit_code, 'tropical.fig4' in listed.stdout, done.exit_code, done.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("0 True 1 hardmax: pictures need matplotlib"), done.stderr
    assert "pip install matplotlib" in done.stdout
    assert list(tmp_path.iterdir()) == []
