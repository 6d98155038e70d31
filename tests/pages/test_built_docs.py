"""The documentation as Sphinx builds it, but for the gallery's scripts, which `make docs` runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hardmax.papers.tropical.sec3_algebra import NOTATION

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["'](?:https?:)?//[^>]*>""")


@pytest.mark.slow
def test_the_pages_build_without_a_warning_and_load_nothing_from_elsewhere(tmp_path):
    """A dead link, a page in no table of contents and a malformed docstring are warnings."""
    pytest.importorskip("sphinx")
    out = tmp_path / "docs"
    command = ["sphinx", "-q", "-W", "--keep-going", "-d", tmp_path / "state", "-D", "plot_gallery=0"]
    done = subprocess.run(
        [sys.executable, "-m", *command, ROOT / "docs", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text() for path in out.rglob("*.html")}
    assert {path.name: LOADED.findall(text) for path, text in pages.items() if LOADED.search(text)} == {}
    frame = re.search(r'<iframe src="([^"]+)"', pages[out / "explorer.html"])
    assert frame is not None
    assert (out / frame[1]).read_text().startswith("<!doctype html>")
    notation = pages[out / "notation.html"]
    assert notation.count("<math") >= len(NOTATION)
    assert "$" not in notation[notation.index("<article") : notation.index("</article>")]
