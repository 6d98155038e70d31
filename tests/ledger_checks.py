"""What must be true of the ledger of a paper, whichever it is; the tests of each paper call these."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from hardmax.papers import replay
from hardmax.papers.ledger import Entry, Ledger, Verdict, all_claims, check_claims, write_certificates
from hardmax.papers.paper import contents


@cache
def quick_ledger(paper: str) -> Ledger:
    """The ledger of a paper, computed once for all tests of a run."""
    return check_claims(paper)


DOCS = Path(__file__).resolve().parent.parent / "docs"


def unexpected(ledger: Ledger) -> dict[str, tuple[str, str, str]]:
    return {e.name: (str(e.verdict), str(e.expected), e.computed) for e in ledger.surprises}


REFUTED = (Verdict.FAILS, Verdict.MISPRINT)


def without_certificate(ledger: Ledger) -> list[str]:
    """Failures need an exact counterexample; what is called proved needs a certificate or a proof."""
    bare = [e for e in ledger if e.certificate is None]
    return [
        e.name
        for e in bare
        if e.verdict in REFUTED or (e.verdict in (Verdict.PROVED, Verdict.UNSTATED) and not e.proof)
    ]


def without_words(ledger: Ledger) -> list[str]:
    return [
        e.name
        for e in ledger
        if not (e.statement.strip() and e.place.strip() and e.computation.strip() and e.computed.strip())
        or (e.verdict in REFUTED and not e.correction.strip())
        or bool(e.unstated.strip()) != (e.verdict == Verdict.UNSTATED)
        or "\n" in e.computed
    ]


def contents_gaps() -> dict[str, list[str]]:
    """What is wrong between the tables of contents of all papers and their claims; all must be empty."""
    places, claims = list(contents()), all_claims()
    placed = {name for place in places for name in place.claims}
    listed = Counter((place.paper, place.name) for place in places)
    return {
        "places with neither claims nor a reason": [
            place.name for place in places if not place.claims and len(place.reason) < 20
        ],
        "claims that there are not": sorted(placed - {claim.name for claim in claims}),
        "statements of a paper without a place": [
            claim.name for claim in claims if not claim.own and claim.name not in placed
        ],
        "places listed twice": [name for (_, name), times in listed.items() if times > 1],
    }


def called_proved(ledger: Ledger) -> list[str]:
    """A computation proves nothing about other instances."""
    return [e.name for e in ledger if re.search(r"\bproved\b|\bproven\b", f"{e.computed} {e.computation}")]


def missing_proofs(ledger: Ledger) -> list[str]:
    return [e.name for e in ledger if e.proof and not (DOCS / e.proof.partition("#")[0]).is_file()]


def replayed_alone(ledger: Ledger, folder: Path) -> subprocess.CompletedProcess[str]:
    """Every certificate, checked by a Python that sees neither hardmax nor any installed package."""
    written = write_certificates(ledger, folder / "made")
    alone = folder / "alone"
    alone.mkdir()
    for path in [*written, folder / "made" / "replay.py"]:
        shutil.copy(path, alone)
    return run_replay(alone, "replay.py", ".")


def run_replay(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", *arguments],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )


def record_of(entry: Entry) -> dict[str, Any]:
    assert entry.certificate is not None
    record = entry.certificate.record(entry, entry.verdict)
    return json.loads(json.dumps(record))  # as a file gives it back


def accepts_another_expectation(entry: Entry) -> list[Any]:
    """Places of ``expected`` that can be changed without the certificate being rejected; must be none."""
    record = record_of(entry)
    value = replay.value_of(record["claim"], record["data"])
    places = list(leaves(record["expected"])) or [()]
    accepted = []
    for place in places:
        changed = altered(record["expected"], place) if place else "something else"
        if replay.same(value, changed):
            accepted.append(place)
    return accepted


def notices_changed_data(entry: Entry, tries: int = 12) -> bool:
    """Whether a change of a number, a list or a name somewhere in the data is noticed."""
    record = record_of(entry)
    places = list(leaves(record["data"]))
    for place in places[:: max(1, len(places) // tries)]:
        for far in (False, True):
            if replay.failure({**record, "data": altered(record["data"], place, far=far)}) is not None:
                return True
    return False


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Any:
    """The places of all numbers, strings and truth values in nested lists and dictionaries."""
    items = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if items is None:
        yield place
        return
    for key, item in items:
        yield from leaves(item, (*place, key))


def altered(value: Any, place: tuple[Any, ...], *, far: bool = False) -> Any:
    """``value`` with the leaf at ``place`` changed to another of the same kind, nearby or far away."""
    value = copy.deepcopy(value)
    *way, last = place
    inner = value
    for key in way:
        inner = inner[key]
    old = inner[last]
    if isinstance(old, bool):
        inner[last] = not old
    elif isinstance(old, int):
        inner[last] = -1000 - old if far else old + 1
    elif isinstance(old, str) and re.fullmatch(r"-?\d+/\d+", old):
        inner[last] = "-" + old.lstrip("-") if not old.startswith("-") else old[1:]
    elif isinstance(old, str) and "0x" in old:
        inner[last] = (-float.fromhex(old) + 1.0).hex()
    else:
        inner[last] = "changed"
    return value


def docs_write() -> Any:
    """The program that writes docs/claims.md."""
    spec = importlib.util.spec_from_file_location("docs_write", DOCS / "write.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing_on_the_page(ledger: Ledger) -> list[str]:
    """Claims whose computed line is not on docs/claims.md as it was computed just now."""
    page, write = (DOCS / "claims.md").read_text(), docs_write()
    return [e.name for e in ledger if f"{write.COMPUTED}{write.marked(e.computed)}\n" not in page]


def rounding_residuals(ledger: Ledger) -> list[str]:
    """Claims whose computed line shows a difference as small as rounding; the next processor has another."""
    return [e.name for e in ledger if re.search(r"(?<!below )\b\d[\d.]*e-(09|[1-9]\d)", e.computed)]


class LedgerContract:
    """The tests that the ledger of every paper passes; a module with a fixture ``ledger`` derives from it."""

    fewest_certificates = 1

    def test_the_verdicts_are_the_expected_ones(self, ledger):
        assert unexpected(ledger) == {}

    def test_what_fails_has_a_counterexample_and_what_holds_has_a_reason(self, ledger):
        assert without_certificate(ledger) == []
        assert without_words(ledger) == []
        assert missing_proofs(ledger) == []
        assert called_proved(ledger) == []

    def test_certificates_are_accepted_without_hardmax(self, ledger, tmp_path):
        done = replayed_alone(ledger, tmp_path)
        assert done.stderr == ""
        assert done.returncode == 0, done.stdout
        accepted = [line for line in done.stdout.splitlines() if line.startswith("accepted")]
        assert len(accepted) == len(certified(ledger)) >= self.fewest_certificates

    def test_a_certificate_with_another_expectation_is_rejected(self, ledger):
        accepted = {e.name: accepts_another_expectation(e) for e in certified(ledger)}
        assert {name: places for name, places in accepted.items() if places} == {}

    def test_changed_data_are_noticed(self, ledger):
        assert [e.name for e in certified(ledger) if not notices_changed_data(e)] == []

    def test_no_number_is_a_residual_of_rounding(self, ledger):
        assert rounding_residuals(ledger) == []

    def test_the_page_shows_what_was_computed(self, ledger):
        assert missing_on_the_page(ledger) == [], "run: python docs/write.py claims"


def certified(ledger: Ledger) -> list[Entry]:
    return [entry for entry in ledger if entry.certificate is not None]
