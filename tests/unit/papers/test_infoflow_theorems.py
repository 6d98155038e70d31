"""The theorems of the InfoFlow paper in the ledger and in the recipes."""

from __future__ import annotations

import copy
import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.papers import replay
from hardmax.papers.infoflow import theorem1, theorems2_3
from hardmax.papers.ledger import Claim, Verdict, check_claims, write_certificates
from hardmax.papers.recipes import find_recipe, reproduce

CLAIMS = [
    thing for module in (theorem1, theorems2_3) for thing in vars(module).values() if isinstance(thing, Claim)
]
NAMES = {
    "t1.lower",
    "t1.k.order",
    "t1.identity14",
    "t1.kset",
    "t1.step3.factor",
    "t1.softmaxgap",
    "t1.build",
    "t1.width",
    "t1.a21",
    "t1.outputo1",
    "t1-rem",
    "t2.exponents",
    "t2.pair",
    "t2.bound",
    "t2.rem",
    "t3.rem",
    "t3.heaviside",
    "t3.slope",
    "t3.tanhlp",
    "t3.supnorm",
    "t3.analog",
    "t3.bounded",
    "t3.o",
    "t3.identity",
    "lemma1",
}


@pytest.fixture(scope="module")
def ledger():
    return check_claims([claim.name for claim in CLAIMS])


def test_every_claim_about_the_theorems_is_there():
    assert {claim.name.removeprefix("infoflow.") for claim in CLAIMS} == NAMES


def test_the_verdicts_are_as_pinned(ledger):
    assert [(entry.name, entry.verdict) for entry in ledger.surprises] == []
    fails = {entry.name.removeprefix("infoflow.") for entry in ledger if entry.verdict is Verdict.FAILS}
    assert fails == {"t1.outputo1", "t3.identity"}
    misprints = {entry.name for entry in ledger if entry.verdict is Verdict.MISPRINT}
    assert misprints == {f"infoflow.{name}" for name in ("t1.kset", "t1.step3.factor", "t3.o")}
    assert ledger["infoflow.t3.supnorm"].verdict is Verdict.VACUOUS


def test_golden_values(ledger):
    assert ledger["infoflow.t2.bound"].numbers["width"] == pytest.approx(
        [96.55, 25.62, 6.042e9, 2.111e4], rel=1e-3
    )
    assert ledger["infoflow.t3.o"].numbers["lower_bounds"] == pytest.approx(
        [2.758, 27.78, 46.28, 545.6], rel=1e-3
    )
    assert ledger["infoflow.t3.identity"].numbers["error"][:3] == pytest.approx(
        [0.238, 0.0758, 0.0203], rel=4e-3
    )
    assert ledger["infoflow.t1.width"].numbers["slope"] == pytest.approx(-0.987, abs=0.01)


def test_what_fails_has_a_certificate_and_what_holds_a_proof_or_a_finite_check(ledger):
    for entry in ledger:
        if entry.verdict in (Verdict.FAILS, Verdict.VACUOUS):
            assert entry.certificate is not None
            assert entry.correction
        if entry.verdict is Verdict.PROVED:
            assert entry.proof or entry.certificate is not None


def test_certificates_replay_without_hardmax(ledger, tmp_path):
    paths = write_certificates(ledger, tmp_path)
    assert len(paths) == 13
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "replay.py"), *map(str, paths)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def _tampered(value, path=()):
    """Copies of the data with one number changed."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _tampered(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _tampered(item, (*path, i))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path, value + 1
    elif isinstance(value, str):
        yield path, value + "0"


def test_a_tampered_expectation_is_rejected(ledger):
    for entry in ledger:
        if entry.certificate is None:
            continue
        record = entry.certificate.record(entry, entry.verdict)
        for path, value in _tampered(record["expected"]):
            broken = copy.deepcopy(record)
            place = broken["expected"]
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            assert replay.failure(broken) is not None, (entry.name, path)


@pytest.mark.parametrize(
    ("claim", "path", "value"),
    [
        ("infoflow.t1.kset", ("centre", 2), "-5/7"),  # not on the sphere
        ("infoflow.t1.kset", ("radius",), "9/10"),  # the ball reaches Q0
        ("infoflow.t1.step3.factor", ("token", 0), 0),
        ("infoflow.t1.a21", ("left", 0, 1), 2),
        ("infoflow.t1.outputo1", ("units",), 19),
        ("infoflow.t1.identity14", ("grid", 0), 2),  # no longer three values
        ("infoflow.t2.exponents", ("cases", 0, 0), 17),
        ("infoflow.t2.pair", ("first", 6), "1/3"),
        ("infoflow.t3.heaviside", ("encoder", "w_out", 0, 3), "1/2"),
        ("infoflow.t3.heaviside", ("encoder", "b_in", 0), "-1/7"),
        ("infoflow.t3.supnorm", ("points", 1, 1), "1/2"),  # off the face
        ("infoflow.t3.supnorm", ("w_out", 0), -1),
        ("infoflow.t1.lower", ("first", 0, 0), "3/2"),
        ("infoflow.t1.lower", ("epsilon",), "1/50"),
        ("infoflow.t3.identity", ("sizes", 0), 2),
    ],
)
def test_tampered_data_is_rejected(ledger, claim, path, value):
    record = copy.deepcopy(ledger[claim].certificate.record(ledger[claim], ledger[claim].verdict))
    assert replay.failure(record) is None
    place = record["data"]
    for key in path[:-1]:
        place = place[key]
    assert place[path[-1]] != value
    place[path[-1]] = value
    assert replay.failure(record) is not None


@pytest.mark.parametrize("x", ["0", "1/1000", "1/3", "-1/2", "1", "5/2", "-7"])
def test_enclosures_of_tanh(x):
    low, high = replay.tanh_bounds(Fraction(x))
    assert low <= high
    assert high - low < Fraction(1, 10**20)
    assert abs(float(low) - math.tanh(float(Fraction(x)))) < 1e-15


@pytest.mark.parametrize("name", ["infoflow.thm1", "infoflow.thm2", "infoflow.thm3"])
def test_recipes_write_pictures_tables_and_comparisons(name, tmp_path):
    pytest.importorskip("matplotlib")
    small = {
        "infoflow.thm1": {"epsilons": "0.4,0.2", "inputs": 20},
        "infoflow.thm2": {"maps": 1},
        "infoflow.thm3": {"epsilons": "0.5,0.25", "units": 2000, "alternations": 2},
    }[name]
    done = reproduce(name, tmp_path, settings=small)
    folder = tmp_path / name
    short = name.removeprefix("infoflow.")
    assert (folder / f"{short}.png").stat().st_size > 10_000
    assert (folder / f"{short}.svg").read_text().startswith("<?xml")
    numbers = json.loads((folder / "numbers.json").read_text())
    assert numbers["comparisons"]
    assert all(row.verdict for row in done.comparisons)
    if name == "infoflow.thm2":
        widths = [row.computed for row in done.comparisons if row.quantity.startswith("width")]
        assert widths == ["96.55", "25.62", "6.042e+09", "2.111e+04"]
        assert hm.load(done.save(tmp_path / "done.npz")).comparisons == done.comparisons


def test_a_recipe_gives_the_same_numbers_again():
    recipe = find_recipe("infoflow.thm1")
    settings = recipe.settings(given={"epsilons": "0.4,0.2", "inputs": 20})
    assert recipe.run(settings).comparisons == recipe.run(settings).comparisons


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.proof], ids=lambda claim: claim.name)
def test_a_linked_proof_exists(claim):
    page, _, anchor = claim.proof.partition("#")
    text = (Path(__file__).resolve().parents[3] / "docs" / page).read_text()
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}
