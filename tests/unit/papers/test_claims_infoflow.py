"""The ledger of the InfoFlow paper: verdicts as pinned, and certificates that stand alone."""

from __future__ import annotations

import pytest
from ledger_checks import LedgerContract, quick_ledger


@pytest.fixture(scope="module")
def ledger():
    return quick_ledger("infoflow")


class TestLedger(LedgerContract):
    fewest_certificates = 20
