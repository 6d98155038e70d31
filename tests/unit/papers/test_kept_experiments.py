"""The kept trainings of the medium profile: complete, consistent, and what the verdicts are computed from."""

from __future__ import annotations

import copy
import re
import statistics
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

import pytest

import hardmax as hm
from benchmarks import experiments as bench
from hardmax.papers.infoflow import experiments as kept
from hardmax.papers.infoflow.tables1_to_10 import LARGEST, SECOND
from hardmax.papers.ledger import Verdict, all_claims
from hardmax.papers.recipes import find_recipe

NAMES = list(kept.kept()["recipes"])
OWN = [name for name in NAMES if "same_as" not in kept.kept()["recipes"][name]]


def test_every_training_recipe_is_kept_in_a_file_of_modest_size():
    assert set(NAMES) == set(bench.trained())
    assert len((files("hardmax.papers.infoflow") / kept.FILE).read_bytes()) < 300_000


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_are_those_of_the_profile(name):
    entry = kept.kept()["recipes"][name]
    assert (entry["profile"], entry["seed"]) == ("medium", 0)
    for option in find_recipe(name).options:
        value = option.value_in("medium")
        if option.name not in bench.NOT_KEPT:
            found = entry["settings"][option.name]
            assert (list(value) if isinstance(value, tuple) else value) == found, option.name


@pytest.mark.parametrize("name", OWN)
def test_the_chosen_rate_has_the_lowest_median_of_all_seeds(name):
    """The summary, derived a second time from the single trainings."""
    entry = kept.kept()["recipes"][name]
    runs, summary = entry["tables"]["runs"], entry["tables"]["summary"]
    by_rate = defaultdict(lambda: defaultdict(list))
    for label, rate, best in zip(runs["configuration"], runs["rate"], runs["best"], strict=True):
        by_rate[label][rate].append(best)
    assert list(by_rate) == summary["configuration"]
    for i, found in enumerate(by_rate.values()):
        assert sorted(found) == sorted(entry["settings"]["rates"])
        assert {len(values) for values in found.values()} == {entry["settings"]["seeds"]}
        rate = min(found, key=lambda rate: statistics.median(found[rate]))
        assert rate == summary["rate"][i]
        assert statistics.median(found[rate]) == pytest.approx(summary["median"][i], rel=1e-5)
        assert min(found[rate]) == pytest.approx(summary["least"][i], rel=1e-5)
    values = [runs[column] for column in ("rate", "seed", "best", "final")]
    once = set(zip(*values, strict=True))  # two panels of a recipe may show one training
    assert len(once) == entry["work"]["medium"]["trainings"]


def test_work_is_counted_once():
    found = kept.kept()
    first = [entry["work"]["first"] for entry in found["recipes"].values()]
    assert sum(each["trainings"] for each in first) == found["work"]["medium"]["trainings"]
    assert sum(each["operations"] for each in first) == pytest.approx(found["work"]["medium"]["operations"])
    jobs = list(bench.jobs_of(find_recipe("infoflow.fig4"), "paper").values())
    assert bench.work(jobs) == found["recipes"]["infoflow.fig4"]["work"]["paper"]
    for sentence in kept.SENTENCES.values():  # recipes of a sentence share nothing, so their costs add up
        labels = [
            label
            for name in sentence.recipes
            for label in kept.kept_recipe(name)["tables"]["summary"]["configuration"]
        ]
        assert len(labels) == len(set(labels))


def test_a_line_that_a_run_prints_is_read_again():
    line = bench.PRINTED.format(name="infoflow.fig4", wall=57.06, used=1015.62)
    assert bench.READ.findall(f"something\n{line}\n20 recipes, profile medium: 62.5 minutes, 2873 CPU s") == [
        ("infoflow.fig4", "57.1", "1015.6")
    ]


# Verdicts
# ----------------------------------------------------------------------------------------------------------


def test_every_sentence_is_a_claim_and_docs_count_them():
    """Fourteen sentences, of which five hold, as docs/experiments.md says."""
    claims = {claim.name for claim in all_claims() if claim.name.startswith("infoflow.exp.")}
    assert claims == set(kept.SENTENCES)
    assert hm.check_claims("infoflow.exp.*").counts == {Verdict.NUMERICAL: 5, Verdict.OPEN: 9}


def test_the_numbers_of_the_page_are_the_kept_ones():
    """The medium table of docs/experiments.md."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "experiments.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page[page.index("## What the medium") :].splitlines()]
    shown = {row[0]: row[2] for row in rows if len(row) == 3}

    def medians(recipe, labels):
        return [statistics.median(kept.seeds_of(recipe, label)) for label in labels]

    def numbers(start, n):
        words = next(value for key, value in shown.items() if key.startswith(start))
        return [float(word) for word in re.findall(r"\d[\d.]*(?:e-\d+)?", words)[:n]]

    two = medians("table11", ("D=2 (2,2)", "D=2 (1,2)", "D=2 (2,1)"))
    three = medians("table11", ("D=3 (3,3)", "D=3 (2,3)", "D=3 (3,2)"))
    triangle = medians("table12", [f"T={T} (2,2) E=24" for T in (3, 6, 12, 16)])
    second = [x for table in SECOND for x in kept.ratios_of(table, "pairwise")[0]]
    first = kept.ratios_of(LARGEST[0], "pairwise")[0]
    for start, wanted in (
        ("NMSE with (2, 2)", two),
        ("NMSE with (3, 3)", three),
        ("triangle-center", triangle),
        ("second largest", [min(second), max(second)]),
        ("largest token", [min(first), max(first)]),
    ):
        assert numbers(start, len(wanted)) == pytest.approx(wanted, rel=0.02), start


def scaled(table: str, column: str, factor: float, where: str, recipe: str):
    """A change of the kept numbers: one column of a table, in the rows whose first column begins so."""

    def change(found):
        columns = found["recipes"][f"infoflow.{recipe}"]["tables"][table]
        labels = next(iter(columns.values()))
        columns[column] = [
            value * factor if str(label).startswith(where) else value
            for label, value in zip(labels, columns[column], strict=True)
        ]

    return change


def all_of(*changes):
    def change(found):
        for each in changes:
            each(found)

    return change


TABLE_11 = kept.kept()["recipes"]["infoflow.table11"].get("same_as", "infoflow.table11")[9:]
TABLE_12 = kept.kept()["recipes"]["infoflow.table12"].get("same_as", "infoflow.table12")[9:]


def of_11(where, factor):
    return scaled("runs", "best", factor, where, TABLE_11)


def longer(found):
    """Trainings as long as those of the profile paper."""
    work = found["recipes"][f"infoflow.{TABLE_12}"]["work"]
    work["medium"]["samples"] = 9_000_000 * work["medium"]["trainings"]


def the_same_error(found):
    tables = found["recipes"][f"infoflow.{TABLE_12}"]["tables"]["runs"]
    lengths = [int(label.split()[0][2:]) for label in tables["configuration"]]
    tables["best"] = [T / 100 for T in lengths]


def longer_sequences(found):
    """What was trained at T = 12 and 16 as if it were T = 32 and 64, with errors near 1."""
    entry = found["recipes"][f"infoflow.{TABLE_12}"]
    entry["settings"]["lengths"] = [3, 4, 6, 8, 32, 64]
    for table in (entry["tables"]["runs"], entry["tables"]["summary"]):
        table["configuration"] = [
            label.replace("T=12", "T=32").replace("T=16", "T=64") for label in table["configuration"]
        ]
    runs = entry["tables"]["runs"]
    runs["best"] = [
        0.97 if label.startswith(("T=32", "T=64")) else best
        for label, best in zip(runs["configuration"], runs["best"], strict=True)
    ]


def six_maxima(found):
    """D = 3 as if it were D = 6."""
    entry = found["recipes"][f"infoflow.{TABLE_11}"]
    entry["settings"]["maxima"] = [2, 6]
    for table in (entry["tables"]["runs"], entry["tables"]["summary"]):
        table["configuration"] = [
            {"D=3 (3,3)": "D=6 (6,6)", "D=3 (2,3)": "D=6 (5,6)", "D=3 (3,2)": "D=6 (6,5)"}.get(label, label)
            for label in table["configuration"]
        ]


@pytest.mark.parametrize(
    ("name", "change", "verdict"),
    [
        ("recovered", scaled("recovery", "ratio", 0.5, "D-retrieval", "table1"), Verdict.NUMERICAL),
        (
            "enough-heads",
            all_of(
                scaled("recovery", "ratio", 0.05, "D-retrieval", "table1"),
                scaled("recovery", "ratio", 0.5, "target (6)", "table1"),
            ),
            Verdict.NUMERICAL,
        ),
        ("tenfold", scaled("recovery", "ratio", 0.85, "target (6)", "table1"), Verdict.NUMERICAL),
        ("second", scaled("recovery", "ratio", 0.8, "target (6)", "table9"), Verdict.OPEN),
        ("positions", scaled("weights", "most", 1.01, "2", "fig4"), Verdict.OPEN),
        ("positions", scaled("runs", "best", 100, "one head", "fig4"), Verdict.OPEN),
        ("heads", of_11("D=3 (2,3)", 0.5), Verdict.OPEN),
        ("order", all_of(of_11("D=2 (2,2)", 0.1), of_11("D=3 (3,3)", 0.1)), Verdict.NUMERICAL),
        ("order", all_of(of_11("D=2 (2,2)", 0.1), of_11("D=3", 0.1)), Verdict.OPEN),
        ("gap", all_of(of_11("D=2 (2,2)", 0.5), of_11("D=3 (3,3)", 0.1)), Verdict.NUMERICAL),
        ("narrows", six_maxima, Verdict.NUMERICAL),
        ("first-layer", scaled("runs", "best", 0.1, "target (6) (1,3)", "table7"), Verdict.OPEN),
        ("growth", scaled("runs", "best", 0.1, "T=12 (4,4) E=48", TABLE_12), Verdict.OPEN),
        ("t16", longer, Verdict.NUMERICAL),
        ("t16", all_of(longer, scaled("runs", "best", 0.9, "T=16 (2,2)", TABLE_12)), Verdict.OPEN),
        ("t32", longer_sequences, Verdict.NUMERICAL),
        ("alike", the_same_error, Verdict.NUMERICAL),
    ],
)
def test_other_numbers_give_another_verdict(monkeypatch, name, change, verdict):
    claim = f"infoflow.exp.{name}"
    before = hm.check_claims(claim)[claim].verdict
    found = copy.deepcopy(kept.kept())
    change(found)
    monkeypatch.setattr(kept, "kept", lambda: found)
    after = hm.check_claims(claim)[claim]
    assert after.verdict == verdict
    assert "not reproduced" not in after.computed or verdict == Verdict.OPEN
    if name not in ("order", "t16") or verdict != Verdict.OPEN:
        assert before != verdict
