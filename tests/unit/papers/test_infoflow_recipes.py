"""Recipes of the InfoFlow paper that need no training: what they find, against the golden values."""

from __future__ import annotations

import csv

import pytest

import hardmax as hm
from hardmax.papers.infoflow import theorem1
from hardmax.papers.recipes import find_recipe


def columns(path) -> dict[str, list[str]]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def verdicts(name, out, **settings):
    made = hm.reproduce(name, out, settings=settings)
    return {comparison.quantity: comparison for comparison in made.comparisons}


def test_figure_2(tmp_path):
    found = verdicts("infoflow.fig2", tmp_path)
    assert found["root of the first tree"].computed == "{3}"
    assert found["root of the second tree"].computed == "{1}"
    assert found["comparisons, exactly D(T - 1)"].computed == "6"
    assert {row.verdict for row in found.values()} == {"holds (proved)"}
    other = verdicts("infoflow.fig2", tmp_path, values="1,3,2")
    assert other["root of the first tree"].verdict == "not compared"


def test_figure_3(tmp_path):
    assert {c.verdict for c in verdicts("infoflow.fig3", tmp_path).values()} == {"holds (proved)"}


def test_figure_5(tmp_path):
    found = verdicts("infoflow.fig5", tmp_path)
    assert found["positions read in layer 1, score as printed"].computed == "1, 2, 3, 1"
    assert found["positions read in layer 1, score as printed"].verdict == "fails"
    assert found["positions read in layer 1, score negated"].verdict == "holds (proved)"
    assert found["I(5, 2), score as printed"].verdict == "fails"
    assert found["I(5, 2), score negated"].verdict == "holds (proved)"
    assert {row.claim for row in found.values()} == {"infoflow.if.appe"}
    assert (tmp_path / "infoflow.fig5" / "fig5_as_printed.svg").stat().st_size > 1000


GOLDEN = {  # (D, T): the paper's count, equation (5) printed; N = D(T - D)
    (2, 4): (2, 2), (3, 8): (3, 2), (4, 8): (3, 3), (6, 16): (4, 4), (6, 31): (5, 5), (6, 32): (6, 5),
    (6, 36): (6, 6), (6, 64): (6, 6),
}  # fmt: skip
REPAIRED = {(3, 4): 2, (3, 5): 3, (4, 8): 3, (4, 10): 4, (6, 25): 5, (6, 26): 6}


@pytest.mark.parametrize("D", [2, 3, 4, 6])
def test_section_6(D, tmp_path):
    verdicts("infoflow.sec6", tmp_path, maxima=D)
    table = columns(tmp_path / "infoflow.sec6" / "heads.csv")
    rows = {int(T): i for i, T in enumerate(table["T"])}
    for (d, T), (paper, printed) in GOLDEN.items():
        if d == D:
            assert int(table["paper"][rows[T]]) == paper
            assert int(table["equation (5), printed"][rows[T]]) == printed
    for (d, T), heads in REPAIRED.items():
        if d == D:
            assert int(table["equation (5), repaired"][rows[T]]) == heads
    assert {int(heads) for heads in table["exact"]} == {D}


def test_proposition_1(tmp_path):
    found = verdicts("infoflow.prop1", tmp_path, inputs=20)
    assert found["h1 by the paper's count, D = 6"].computed == "5"
    assert found["h1 by the paper's count, D = 6"].verdict == "fails"
    assert found["h1 by the paper's count, D = 5"].verdict == "holds (proved)"
    table = columns(tmp_path / "infoflow.prop1" / "counts.csv")
    assert table["h1 by paper"] == ["2", "3", "4", "5", "5"]
    assert table["h1 by unordered"] == ["1", "2", "2", "3", "3"]
    assert {float(share) for share in table["(D, D) learns"]} == {1.0}
    assert max(float(share) for share in table["(D-1, D) learns"]) < 1.0


def test_proposition_2(tmp_path):
    found = verdicts("infoflow.prop2", tmp_path)
    firsts = [c.computed for name, c in found.items() if name.startswith("first T")]
    assert firsts == ["111", "118", "303"]
    table = columns(tmp_path / "infoflow.prop2" / "sizes.csv")
    sizes = dict(zip(map(int, table["T"]), map(int, table["M (2, 2), E = 24"]), strict=True))
    assert {T: sizes[T] for T in (16, 32, 64, 128, 256, 1024, 4096)} == {
        16: 2, 32: 5, 64: 8, 128: 14, 256: 22, 1024: 56, 4096: 141,
    }  # fmt: skip
    assert [int(M) for M in table["M (4, 4), E = 24"]][:4] == [1, 3, 8, 13]
    assert table["exponent (2, 2), E = 24"][2:5] == ["0", "1/6", "5/6"]
    assert table["exponent (4, 4), E = 48"][-1] == "39/8"
    assert found["exponent at the tested T <= 64"].verdict == "fails"
    safe = verdicts("infoflow.prop2", tmp_path, comparisons="safe")
    assert {row.verdict for row in safe.values()} == {"not compared"}  # another N than the paper's
    assert [c.computed for name, c in safe.items() if name.startswith("first T")] == ["116", "123", "308"]


def test_one_accuracy_has_no_slope(tmp_path):
    found = verdicts("infoflow.thm1", tmp_path, epsilons="0.5", inputs=5)
    assert not [row for row in found.values() if "nan" in row.computed]
    assert found["width of the output block, O(1)"].verdict == "open"
    two = verdicts("infoflow.thm1", tmp_path, epsilons="0.4,0.1,0.025", inputs=5)
    assert two["width of the output block, O(1)"].verdict == "fails"


def test_a_verdict_follows_the_numbers(monkeypatch):
    """A construction for a larger epsilon has larger errors than the one that is asked for."""
    true = theorem1.separation_transformer
    monkeypatch.setattr(theorem1, "separation_transformer", lambda _, *rest, **more: true(1.0, *rest, **more))
    recipe = find_recipe("infoflow.thm1")
    outcome = recipe.run(recipe.settings(given={"epsilons": "0.1", "inputs": 5}))
    rows = {row.quantity: row.verdict for row in outcome.comparisons}
    assert rows["largest error over ε"] == "fails"
