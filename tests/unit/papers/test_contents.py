"""The tables of contents: every place has an entry or a reason, and every entry has a place."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import ledger_checks
import pytest

from hardmax.papers.paper import contents, papers

# What the papers number, written down here a second time: (word, numbers).
ROMAN = {
    "Definition": "III.1 III.2 III.4 III.5 III.6 III.7 III.8 III.9 III.10 III.13 IV.1 IV.2",
    "Example": "III.3 V.3 VI.2",
    "Remark": "III.11 III.12 IV.5 IV.6 V.6 V.8 VI.3",
    "Theorem": "IV.3 V.2 V.5 V.7 VI.1",
    "Corollary": "IV.4 V.4 V.9",
    "Proposition": "V.1",
    "Lemma": "F.1 F.2",
    "Assumption": "E.1",
    "Table": "I II",
    "Figure": "1 2 3 4 5 6 7",
    "Appendix": "A B C D E F G",
    "Section": "III-D III-E VII",
}
ARABIC = {
    "Theorem": "1 2 3 4 5 6",
    "Lemma": "1",
    "Definition": "1 2",
    "Proposition": "1 2",
    "Figure": "1 2 3 4 5",
    "Table": "1 2 3 4 5 6 7 8 9 10 11 12",
    "Appendix": "A.1 A.2 A.3 B.1 B.2 C.1 C.2 C.3 C.4 C.5 D D.1 E",
    "Remark": "after~Theorem~4 after~Theorem~5 after~Theorem~6 in~appendix~C.5",
    "Remark,": "section~5.1 section~5.2",
    "Section": "3 4.2,~mechanism~I 4.2,~mechanism~II 4.2,~mechanism~III 5.1 5.2 5.3 6 6.1 6.2 7",
    "Equation": "(5) (6)",
    "Two-step": "procedure,~section~5.3",
}
NUMBERED = {"tropical": ROMAN, "infoflow": ARABIC}


def unlisted(paper: str) -> set[str]:
    """The places of a paper that its table of contents leaves out."""
    listed = {place.name for place in contents() if place.paper == paper}
    return {
        f"{word} {n.replace('~', ' ')}" for word, ns in NUMBERED[paper].items() for n in ns.split()
    } - listed


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_numbered_place_is_listed(paper):
    assert unlisted(paper) == set()


def test_every_place_has_an_entry_or_a_reason_and_every_statement_a_place():
    """Our own statements need none."""
    assert {what: found for what, found in ledger_checks.contents_gaps().items() if found} == {}


@pytest.mark.parametrize("paper", NUMBERED)
def test_a_place_that_is_left_out_or_emptied_is_noticed(paper, monkeypatch):
    described, module = papers()[paper], import_module(f"hardmax.papers.{paper}")
    lines = described.contents.strip().splitlines()

    def say(*contents):
        monkeypatch.setattr(module, "PAPER", replace(described, contents="\n".join(contents)))

    for i, line in enumerate(lines):
        before, after = lines[:i], lines[i + 1 :]
        say(*before, *after)
        assert unlisted(paper), line
        say(*before, f"{line.split(':')[0]}: ", *after)
        assert any(ledger_checks.contents_gaps().values()), line
        say(*lines, line)
        assert any(ledger_checks.contents_gaps().values()), line
