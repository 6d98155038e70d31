"""The ledger of the InfoFlow paper: verdicts as pinned, and certificates that stand alone."""

from __future__ import annotations

import pytest
from ledger_checks import LedgerContract

import hardmax as hm


@pytest.fixture(scope="module")
def ledger():
    return hm.check_claims("infoflow")


class TestLedger(LedgerContract):
    fewest_certificates = 20
