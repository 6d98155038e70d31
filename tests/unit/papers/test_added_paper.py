"""Adding a paper is adding a folder: a toy paper appears everywhere, and nothing else was changed."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import ledger_checks
import pytest
from click.testing import CliRunner

import hardmax as hm
import hardmax.papers
from hardmax.cli import main
from hardmax.papers import replay
from hardmax.papers.ledger import Verdict, all_claims
from hardmax.papers.paper import contents, papers, sections
from hardmax.papers.recipes import recipes

PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-paper.md"
FILES = dict(re.findall(r"```{code-block} python\n:caption: (\S+)\n\n(.*?)```", PAGE.read_text(), re.DOTALL))
PAPER, SUMS = FILES["toy/__init__.py"], FILES["toy/sums.py"]

MORE = """
from hardmax.papers.recipes import Outcome, compared, recipe


@claim("toy.own_sums", "Theorem 1, even", Verdict.CHECKED).states(
    "The first n even numbers have the sum n(n + 1).",
    hypotheses="n >= 1",
    computation="the sums up to n = 20",
    own=True,
)
def _own_sums(effort):
    sums = [sum(range(2, 2 * n + 1, 2)) for n in range(1, 21)]
    agree = sums == [n * (n + 1) for n in range(1, 21)]
    return holding(agree, f"{len(sums)} sums, the last {sums[-1]}", by=Verdict.CHECKED)


@recipe("toy.table1", "The first sums")
def _table_1(settings):
    rows = {"n": [1, 2, 3], "sum": [1, 4, 9]}
    return Outcome(tables={"sums": rows}, comparisons=(compared("sum of 3", "9", "9", rows["sum"][2] == 9),))
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The folder of the page, with some more in it, on the search path of the package of papers."""
    folder = tmp_path / "more_papers" / "toy"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PAPER)
    (folder / "sums.py").write_text(SUMS + MORE)
    before = set(sys.modules)
    monkeypatch.setattr(hardmax.papers, "__path__", [*hardmax.papers.__path__, str(folder.parent)])
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("hardmax.papers.toy"):
            del sys.modules[name]
    vars(hardmax.papers).pop("toy", None)


def run(*args: str):
    return CliRunner().invoke(main, list(args))


def test_the_ledger_and_the_recipes_find_the_folder(toy):
    assert list(papers())[-1] == "toy"
    assert sections()[-1] == "toy.sums"
    assert [claim.name for claim in all_claims()][-2:] == ["toy.odd_sums", "toy.own_sums"]
    ledger = hm.check_claims("toy")
    assert ledger.by_origin == {"toy": {Verdict.CHECKED: 1}, "own": {Verdict.CHECKED: 1}}
    assert ledger["toy.odd_sums"].computed == "20 sums, the last 400"
    assert ledger_checks.unexpected(ledger) == {}
    assert list(recipes())[-1] == "toy.table1"


def test_the_table_of_contents_is_checked(toy):
    assert [place.name for place in contents()][-2:] == ["Theorem 1", "Remark 2"]
    assert not any(ledger_checks.contents_gaps().values())


@pytest.mark.parametrize(
    ("line", "instead", "gap"),
    [
        ("Theorem 1: odd_sums", "", "statements of a paper without a place"),
        ("Theorem 1: odd_sums", "Theorem 1: odd_sum", "claims that there are not"),
        ("Remark 2: - a remark on history; nothing is asserted", "Remark 2: - no", "places with neither"),
        ("Remark 2: - a", "Theorem 1: - a", "places listed twice"),
    ],
)
def test_a_gap_in_the_table_of_contents_is_found(toy, line, instead, gap):
    assert line in PAPER
    (toy / "__init__.py").write_text(PAPER.replace(line, instead))
    found = [what for what, names in ledger_checks.contents_gaps().items() if names]
    assert any(what.startswith(gap) for what in found)


def test_the_page_of_claims_shows_it(toy):
    page = ledger_checks.docs_write().claims_page(hm.check_claims("toy"))
    assert "\n## toy\n\nA. Adder, *On Sums*, 2026 (arXiv:0000.00000)\n" in page
    assert "| toy | Theorem 1 | [`toy.odd_sums`](#toyodd_sums) |  |" in page
    assert "### toy.own_sums" in page
    assert "| toy | our own |" in page
    assert page.count("- computed: 20 sums") == 2


def test_the_commands_know_it(toy):
    listed = run("claims", "list", "--paper", "toy")
    assert listed.exit_code == 0
    assert listed.output.splitlines()[0] == "toy.odd_sums  (Theorem 1)"
    assert run("claims", "check", "--paper", "toy").output.endswith(
        "2 claims: 2 holds (checked on stated instances)\n"
    )
    assert "|toy]" in run("claims", "check", "--help").output
    counted = run("claims", "count", "--paper", "toy").output.splitlines()
    assert counted[0].split() == ["verdict", "toy", "own"]
    assert counted[-1].split() == ["all", "1", "1"]


def test_its_rules_are_ready_to_be_copied(toy, monkeypatch):
    (toy / "rules.py").write_text(FILES["toy/rules.py"])
    write = ledger_checks.docs_write()
    monkeypatch.setattr(write, "REPLAY", toy.parent / "replay.py")
    copied = write.rules_of("toy")
    assert copied.startswith('# toy\n\n\n@rule("toy.wrong_sum", "odd_sum", MISPRINT)\ndef a_sum(data):')
    assert "import" not in copied
    monkeypatch.setattr(replay, "RULES", {})
    exec(copied, vars(replay).copy())
    assert replay.value_of("toy.wrong_sum", {"n": 5, "printed": 26}) == {"sum": 25}
    with pytest.raises(replay.Rejected, match="the printed sum is right"):
        replay.value_of("toy.wrong_sum", {"n": 5, "printed": 25})


def test_claims_are_judged_by_the_rules_just_written(toy, tmp_path, monkeypatch):
    """As ``python docs/write.py claims replay`` does, which once wrote that a new claim is open."""
    (toy / "rules.py").write_text(FILES["toy/rules.py"])
    write, seen = ledger_checks.docs_write(), []
    (tmp_path / "replay.py").write_text(write.REPLAY.read_text())
    shutil.copytree(toy, tmp_path / "toy", dirs_exist_ok=True)
    for name, place in (("REPLAY", "replay.py"), ("PUBLISHED", "replay.sha256"), ("PAGES", "")):
        monkeypatch.setattr(write, name, tmp_path / place)
    monkeypatch.setattr(write, "claims_page", lambda _: "the page")
    monkeypatch.setattr(write.importlib, "reload", lambda module: seen.append(module))
    monkeypatch.setattr(hm, "check_claims", lambda: seen.append("claims"))
    monkeypatch.setattr(sys, "argv", ["write.py", "claims", "replay"])
    assert write.main() == 0
    assert seen == [replay, "claims"]
    assert '@rule("toy.wrong_sum", "odd_sum", MISPRINT)' in (tmp_path / "replay.py").read_text()
    assert (tmp_path / "claims.md").read_text() == "the page"


def test_without_the_folder_it_is_gone():
    assert "toy" not in papers()
    refused = run("claims", "list", "--paper", "toy")
    assert refused.exit_code == 2
    assert "'toy' is not one of 'tropical', 'infoflow'" in refused.output
