"""The entries that were derived again without the library: the script runs, and the page lists them."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests" / "scripts" / "rederive.py"
PAGE = (ROOT / "docs" / "results" / "rederived.md").read_text()

spec = importlib.util.spec_from_file_location("rederive", SCRIPT)
rederive = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rederive)


@pytest.mark.parametrize("name", rederive.DERIVED)
def test_an_entry_is_derived_again(name):
    agrees, line = rederive.DERIVED[name]()
    assert agrees, line


def test_the_page_lists_what_was_derived():
    assert set(re.findall(r"^\| `(\S+)` \|", PAGE, re.MULTILINE)) == set(rederive.DERIVED)
    assert len(rederive.DERIVED) == 24


def test_every_entry_is_on_the_page_of_claims():
    names = re.findall(r"^### (\S+)$", rederive.PAGE.read_text(), re.MULTILINE)
    assert set(rederive.DERIVED) <= set(names)
    twenty, more = rederive.drawn(rederive.PAGE.read_text())
    assert len({*twenty, *more}) == 24


def test_nothing_of_the_library_is_used():
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(SCRIPT.read_text()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert not any(name.startswith("hardmax") for name in imported)
