"""The ledger of the InfoFlow paper: verdicts as pinned, and certificates that stand alone."""

from __future__ import annotations

import ledger_checks
import pytest

import hardmax as hm


@pytest.fixture(scope="module")
def ledger():
    return hm.check_claims("infoflow")


def test_the_verdicts_are_the_pinned_ones(ledger):
    assert ledger_checks.unexpected(ledger) == {}


def test_what_fails_has_a_counterexample_and_what_holds_has_a_reason(ledger):
    assert ledger_checks.without_certificate(ledger) == []
    assert ledger_checks.without_words(ledger) == []
    assert ledger_checks.missing_proofs(ledger) == []
    assert ledger_checks.called_proved(ledger) == []


def test_certificates_are_accepted_without_hardmax(ledger, tmp_path):
    done = ledger_checks.replayed_alone(ledger, tmp_path)
    assert done.stderr == ""
    assert done.returncode == 0, done.stdout


def test_a_certificate_with_another_expectation_is_rejected(ledger):
    accepted = {
        e.name: ledger_checks.accepts_another_expectation(e) for e in ledger if e.certificate is not None
    }
    assert {name: places for name, places in accepted.items() if places} == {}


def test_changed_data_are_noticed(ledger):
    certified = [e for e in ledger if e.certificate is not None]
    assert [e.name for e in certified if not ledger_checks.notices_changed_data(e)] == []


def test_the_page_shows_what_was_computed(ledger):
    assert ledger_checks.missing_on_the_page(ledger) == [], "docs/build.py --write-claims"
