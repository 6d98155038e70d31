"""The recipes that train: every seed is told, nothing is trained twice, what was not run says so."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.papers.infoflow.sec6_pairwise import NMSE_PAIRWISE, width_of
from hardmax.papers.infoflow.sec6_triangles import NMSE_TRIANGLE
from hardmax.papers.infoflow.tables1_to_10 import RECOVERY, retrieval_target
from hardmax.papers.recipes import find_recipe, recipes
from hardmax.papers.training_runs import Group, Trial, kept_folder, operations, spread
from hardmax.training.jobs import Job, TrainingSettings
from hardmax.training.layout import TransformerShape

TINY = {"samples": 512, "train_size": 512, "validation_size": 64, "jobs": 1}
NAMES = [
    *(f"infoflow.table{i}" for i in range(1, 13)),
    *(f"infoflow.{name}" for name in ("fig1a", "fig1b", "fig4", "trained-vs-constructed", "kth-largest")),
    *(f"infoflow.{name}" for name in ("thresholds", "dynamics", "activation")),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """One folder of trainings for all tests of this file."""
    return str(tmp_path_factory.mktemp("trainings"))


def cooked(name, kept, **settings):
    """The outcome of a recipe, without the files: drawing takes longer than these trainings."""
    recipe = find_recipe(name)
    return recipe.run(recipe.settings("quick", 0, {**TINY, "keep": kept, **settings}))


def test_every_experiment_has_its_recipe():
    assert set(NAMES) <= set(recipes())
    for name in NAMES:
        options = {option.name: option for option in find_recipe(name).options}
        assert options["train"].value_in("quick") == "yes"
        assert options["train"].value_in("paper") == "no"
        assert len(options["rates"].value_in("quick")) == 1  # fixed learning rates
        assert len(options["rates"].value_in("medium")) >= 2  # a sweep, the same for every configuration
        assert options["seeds"].value_in("medium") >= 3


@pytest.mark.parametrize(
    ("name", "settings", "figure", "tables"),
    [
        ("infoflow.table11", {"seeds": 2}, "fig1a", {"summary", "runs"}),
        ("infoflow.table12", {"lengths": "3,4", "models": "1,2"}, "fig1b", {"summary", "runs"}),
        ("infoflow.table1", {}, "table1", {"recovery", "summary", "runs"}),
        ("infoflow.table9", {"readings": "pairwise"}, "table9", {"recovery", "summary", "runs"}),
        ("infoflow.fig4", {}, "fig4", {"weights", "summary", "runs"}),
        ("infoflow.kth-largest", {"ks": "1,2"}, "kth_largest", {"exponents", "summary", "runs"}),
        (
            "infoflow.trained-vs-constructed",
            {"hidden": "8", "epsilons": "0.4", "inputs": 20},
            "trained_vs_constructed",
            {"models", "summary", "runs"},
        ),
        (
            "infoflow.thresholds",
            {"heads": "1,2", "depths": "1,2", "lengths": "5", "inputs": 50},
            "thresholds",
            {"predictions", "advice", "information_sets", "summary", "runs"},
        ),
        ("infoflow.dynamics", {"inputs": 40, "sequences": 1}, "dynamics", {"geometry", "summary", "runs"}),
    ],
)
def test_a_recipe_makes_numbers_and_a_picture(name, settings, figure, tables, kept):
    done = cooked(name, kept, **settings)
    assert set(done.figures) == {figure}
    assert set(done.tables) == tables
    assert done.comparisons
    runs = done.tables["runs"]
    assert set(runs["state"]) <= {"trained", "stuck", "diverged"}
    assert all(best <= final for best, final in zip(runs["best"], runs["final"], strict=True))
    assert any("samples" in note for note in done.notes)  # the settings are told
    assert any("gelu" in note and "sigmoidal" in note for note in done.notes)  # a deviation
    assert any(note.startswith("Quick profile:") and "does not show" in note for note in done.notes)
    assert any(note.startswith("Stuck or diverged seeds:") for note in done.notes)


def test_the_files_are_written(kept, tmp_path):
    done = hm.reproduce("infoflow.table4", tmp_path, settings={**TINY, "keep": kept})
    assert {"table4.png", "table4.svg", "recovery.csv", "runs.csv", "comparison.md"} <= set(done.files)
    assert "0.4085" in (tmp_path / "infoflow.table4" / "recovery.csv").read_text()  # the paper's first number


def test_printed_numbers_stand_beside_ours_or_not_run(kept):
    done = cooked("infoflow.table11", kept, seeds=2)
    rows = {row.quantity: row for row in done.comparisons}
    for D, printed in NMSE_PAIRWISE.items():
        row = rows[f"best NMSE, D = {D}, (D, D)"]
        assert float(row.paper) == pytest.approx(float(printed[0]), rel=1e-3)
        assert (row.computed == "not run") == (D != 2)
        assert (row.verdict == "not run") == (D != 2)
    assert "2 seeds" in rows["best NMSE, D = 2, (D, D)"].computed
    assert done.tables["runs"]["seed"] == [0, 1] * 3


def test_nothing_is_trained_twice(kept, monkeypatch):
    first = cooked("infoflow.table11", kept, seeds=2)

    def fail(*args, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr("hardmax.training.loop.train", fail)
    again = cooked("infoflow.table11", kept, seeds=2)
    shared = cooked("infoflow.fig1a", kept, seeds=1)
    assert again.tables == first.tables
    assert shared.tables["runs"]["best"] == first.tables["runs"]["best"][::2]
    with pytest.raises(AssertionError, match="trained again"):
        cooked("infoflow.table11", kept, seeds=3)


def test_a_damaged_training_is_repeated(tmp_path):
    folder = tmp_path / "kept"
    first = cooked("infoflow.kth-largest", str(folder), ks="1", depths="1")
    (file,) = folder.glob("*.npz")
    file.write_bytes(file.read_bytes()[:100])
    again = cooked("infoflow.kth-largest", str(folder), ks="1", depths="1")
    assert again.tables == first.tables
    assert hm.load(file).best == first.tables["runs"]["best"][0]


def test_threads_do_not_change_numbers():
    one = cooked("infoflow.kth-largest", "nowhere", ks="1,2", depths="1")
    two = cooked("infoflow.kth-largest", "nowhere", ks="1,2", depths="1", jobs=2)
    assert one.tables == two.tables


def test_the_paper_profile_tells_its_cost_first_and_runs_nothing(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="hardmax"):
        recipe = find_recipe("infoflow.table12")
        done = recipe.run(recipe.settings("paper", 0, {"keep": str(tmp_path / "none")}))
    (said,) = [r.getMessage() for r in caplog.records if "Estimated cost" in r.getMessage()]
    assert "144 trainings" in said  # 12 lengths, 3 models, 2 rates, 2 seeds
    assert set(done.tables["runs"]["state"]) == {"not run"}
    assert all("not run" in row.computed for row in done.comparisons)
    assert len(done.comparisons) == 3 * len(NMSE_TRIANGLE) + 3
    assert not (tmp_path / "none").exists()
    assert done.tables["summary"]["mean"] == ["not run"] * 36
    assert done.tables["summary"]["stuck"] == ["not run"] * 36
    assert "Stuck or diverged seeds: not run." in done.notes


@pytest.mark.parametrize("name", NAMES)
def test_what_was_not_run_says_so_everywhere(name):
    """No verdict, no table and no note speaks of a training that there is not."""
    done = cooked(name, "nowhere", train="no", **({"epsilons": "0.4"} if "constructed" in name else {}))
    predicted = {"one layer: exponent of the lower bound, H = 1"}  # needs no training
    rows = [row for row in done.comparisons if row.quantity not in predicted]
    assert {row.verdict for row in rows} == {row.computed for row in rows} == {"not run"}
    assert set(done.tables["runs"]["best"]) == set(done.tables["runs"]["final"]) == {"not run"}
    assert set(done.tables["summary"]["median"]) == set(done.tables["summary"]["stuck"]) == {"not run"}
    for table, column in (("weights", "mean"), ("predictions", "median_nmse"), ("information_sets", "nmse")):
        if table in done.tables:
            assert set(done.tables[table][column]) == {"not run"}
    if "recovery" in done.tables:
        ours = [i for i, model in enumerate(done.tables["recovery"]["model"]) if model != "the paper"]
        assert {done.tables["recovery"]["ratio"][i] for i in ours} == {"not run"}
    if "models" in done.tables:
        trained = [i for i, model in enumerate(done.tables["models"]["model"]) if model != "constructed"]
        assert {done.tables["models"]["nmse"][i] for i in trained} == {"not run"}
    assert "Stuck or diverged seeds: not run." in done.notes


def test_advice_stands_beside_what_was_trained(kept):
    done = cooked("infoflow.thresholds", kept, heads="1,2", depths="1,2", lengths="5", inputs=50)
    rows = {row.quantity: row for row in done.comparisons}
    longer, shorter = rows["smallest architecture, T = 15"], rows["smallest architecture, T = 5"]
    assert longer.paper.startswith("advised: heads (2, 2), maxima")
    assert "of 3 trained" in longer.computed  # (1, 1), (2, 2) and one layer of two heads
    assert shorter.paper.startswith("advised: heads (1), everything")
    assert shorter.computed.endswith("; the advised heads were not among them")
    assert done.tables["advice"]["heads"] == ["(2, 2)", "(1)"]


def test_missing_jobs_go_to_a_study_and_come_back(tmp_path):
    """As in the paper profile: write the jobs to a file, run them anywhere, read the run store."""
    from hardmax.training.studies import read_study, run_study

    few = {"ks": "1", "depths": "1", "train": "no"}
    file = tmp_path / "largest.json"
    before = cooked("infoflow.kth-largest", "nowhere", study=str(file), **few)
    assert before.tables["runs"]["state"] == ["not run"]
    study = read_study(file)
    assert [job.key for job in study.jobs] == before.tables["runs"]["job"]
    run_study(tmp_path / "store", study, n_jobs=1)
    after = cooked("infoflow.kth-largest", str(tmp_path / "store"), **few)
    here = cooked("infoflow.kth-largest", "nowhere", **{**few, "train": "yes"})
    assert after.tables == here.tables


# The rules
# ----------------------------------------------------------------------------------------------------------


class Fake:
    """What is needed of a training."""

    def __init__(self, best: float) -> None:
        self.best = self.final = best
        self.diverged, self.stuck = not np.isfinite(best), False


def group(values: dict[float, list[float | None]]) -> Group:
    shape = TransformerShape(3, 1, (2,), (1,), (2,))
    trials, results = [], []
    for rate, seeds in values.items():
        for seed, best in enumerate(seeds):
            job = Job({"name": "kth_largest", "k": 1}, shape, TrainingSettings(128, learning_rate=rate), seed)
            trials.append(Trial("fake", rate, seed, job))
            results.append(None if best is None else Fake(best))
    return Group("fake", tuple(trials), tuple(results))


def test_the_rate_is_chosen_by_the_median_of_all_seeds():
    found = group({1e-3: [1e-4, 0.5, 0.6], 1e-2: [0.2, 0.3, 0.4]})
    assert found.rate == 1e-2
    assert found.values == [0.2, 0.3, 0.4]
    assert found.best is not None
    assert found.best[0].seed == 0
    assert found.median == 0.3


def test_a_rate_with_missing_seeds_is_not_chosen():
    found = group({1e-3: [1e-4, None], 1e-2: [0.2, 0.3]})
    assert found.rate == 1e-2
    nothing = group({1e-3: [None, None]})
    assert (nothing.rate, nothing.values, nothing.median, nothing.best) == (None, [], None, None)
    assert spread(nothing.values) == "not run"


def test_a_seed_that_diverged_counts():
    found = group({1e-2: [0.1, np.inf, np.inf]})
    assert found.median == np.inf
    assert "inf" in spread(found.values)


@pytest.mark.parametrize("table", RECOVERY, ids=lambda table: str(table.number))
def test_widths_follow_one_formula(table):
    assert width_of(6, table.heads[0]) == table.width


def test_the_literal_reading_is_a_sum_of_maxima_of_linear_forms():
    from hardmax.training.data import outputs_of

    (target,) = outputs_of(retrieval_target(3, 4, 7))
    X = np.random.default_rng(0).standard_normal((50, 6, 4))
    vectors = np.random.default_rng(7).standard_normal((3, 4))
    np.testing.assert_allclose(target(X), (X @ vectors.T).max(axis=1).sum(axis=1), atol=1e-4)
    assert target.max_active.high == 3


def test_costs_grow_with_what_is_trained():
    small = TransformerShape(15, 4, (12, 12), (2, 2), (32, 32))
    longer = TransformerShape(64, 4, (12, 12), (2, 2), (32, 32))
    wider = TransformerShape(15, 4, (36, 36), (6, 6), (96, 96))
    assert operations(longer) > 3 * operations(small)
    assert operations(wider) > 3 * operations(small)


def test_where_trainings_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_folder("cache") == tmp_path / "hardmax" / "trainings"
    assert kept_folder("nowhere") is None
    assert kept_folder(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("infoflow.table11", {"samples": -1}),
        ("infoflow.table11", {"rates": "0"}),
        ("infoflow.table12", {"models": "4"}),
        ("infoflow.table1", {"readings": "triples"}),
        ("infoflow.fig4", {"tokens": 2}),
    ],
)
def test_settings_that_cannot_be(name, settings, tmp_path):
    with pytest.raises(InvalidInputError):
        hm.reproduce(name, tmp_path, settings={**settings, "keep": "nowhere"})
