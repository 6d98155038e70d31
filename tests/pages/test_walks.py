"""The walks of docs/architecture.md: every hop is called, for the first time in the order of the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import hardmax as hm

SOURCE = Path(hm.__file__).parent
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "architecture.md").read_text()


def regions():
    network = hm.Network.random_mlp([2, 8, 8, 1], rng=0)
    assert hm.enumerate_regions(network, hm.Box.cube(2, -4, 4)).complete


def report():
    assert "<html" in hm.report().html()


def claim():
    assert len(hm.check_claims("tropical.fig4_216")) == 1


def entered(walk):
    """Functions of the library in the order of their first call: (file, qualified name)."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            file = Path(frame.f_code.co_filename).relative_to(SOURCE).as_posix()
            seen.setdefault((file, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(before)
    return list(seen)


@pytest.mark.parametrize(
    ("title", "walk"),
    [("Exact regions", regions), ("A report", report), ("A claim", claim)],
    ids=["regions", "report", "claim"],
)
def test_a_walk_is_as_the_page_says(title, walk):
    section = PAGE.split(f"## {title}, hop by hop")[1].split("\n## ")[0]
    hops = re.findall(r"^\d+\. `([\w/.]+): ([\w.]+)`", section, flags=re.MULTILINE)
    assert len(hops) == len(re.findall(r"^\d+\. ", section, flags=re.MULTILINE)) >= 6
    walk()  # what is only loaded or compiled the first time is no hop
    assert [hop for hop in entered(walk) if hop in hops] == hops
