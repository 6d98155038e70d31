"""The backtest of the adviser: what is stored fits together, and the page says what the numbers say."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def backtest():
    spec = importlib.util.spec_from_file_location(
        "advise_backtest", ROOT / "benchmarks" / "advise_backtest.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["advise_backtest"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["advise_backtest"]


@pytest.fixture(scope="module")
def found():
    return json.loads((RESULTS / "advise-backtest.json").read_text())


def test_predictions_were_not_changed_after_they_were_written(backtest, found):
    rows = backtest.read_predictions()
    assert len(rows) == 2 * len(backtest.TASKS) == 80
    for predicted, trained in zip(rows, found, strict=True):
        assert {name: trained[name] for name in predicted} == predicted


def test_a_changed_prediction_is_told(backtest, tmp_path, monkeypatch):
    stored = json.loads(backtest.PREDICTIONS.read_text())
    stored["predictions"][0]["prediction"] = "the rival does as well"
    changed = tmp_path / "predictions.json"
    changed.write_text(json.dumps(stored))
    monkeypatch.setattr(backtest, "PREDICTIONS", changed)
    with pytest.raises(SystemExit, match="digest does not fit"):
        backtest.read_predictions()


def test_rivals_have_as_many_parameters(found):
    for row in found:
        own, rival = row["suggestion"], row["rival"]
        extra = row["n_tokens"] * own["widths"][0] if own["positions"] and not rival["positions"] else 0
        assert rival["parameters"] + extra >= own["parameters"]


def test_verdicts_follow_the_rule_that_was_written_before(found):
    for row in found:
        own, rival = min(row["nmse"]), min(row["rival_nmse"])
        fails, equal = rival >= 3 * own, own / 3 < rival < 3 * own
        right = fails if row["prediction"] == "the rival fails" else equal
        assert (row["verdict"] == "hit") == (own <= 0.05 and right)


def test_the_page_says_what_one_seed_alone_would_have_said(backtest, found):
    alone = [
        [
            backtest._verdict(row["prediction"], row["nmse"][seed], row["rival_nmse"][seed]) == "hit"
            for row in found
        ]
        for seed in (0, 1)
    ]
    both = sum(a and b for a, b in zip(*alone, strict=True))
    stopped = [row for row in found if row["verdict"] == "hit" and max(row["nmse"]) > 0.05]
    page = " ".join((RESULTS / "advise-backtest.md").read_text().split())
    assert f"by seed 0 alone {sum(alone[0])} of the 80 predictions hold" in page
    assert f"by seed 1 alone {sum(alone[1])}, by each of them {both}" in page
    assert f"In {len(stopped)} of the 60 hits one of the two suggestions stopped above 0.05" in page
    assert {row["task"] for row in stopped} == {
        "two linear forms",
        "second largest of 8",
        "second largest of 16",
    }


def test_the_page_counts_what_the_file_holds(found):
    page = (RESULTS / "advise-backtest.md").read_text()
    for kind in ("budget", "prediction"):
        for value in {row[kind] for row in found}:
            rows = [row for row in found if row[kind] == value]
            counts = Counter(row["verdict"].removeprefix("miss: ") for row in rows)
            lost, hits = counts["the suggestion does not train"], counts["hit"]
            wanted = f'{value}"? \\| {len(rows)} \\| {hits} \\| {lost} \\| {len(rows) - hits - lost} \\|'
            assert re.search(wanted, page), wanted
    assert page.count("| hit |") == sum(row["verdict"] == "hit" for row in found) == 60
