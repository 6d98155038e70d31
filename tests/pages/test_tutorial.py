"""The tutorial: its notebooks are its pages, they run, and its pictures are what the code draws."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial"
_spec = importlib.util.spec_from_file_location("docs_tutorial_write", TUTORIAL / "write.py")
write = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(write)


def test_five_steps_with_a_picture_first():
    assert len(write.PAGES) == 5
    for name in write.PAGES:
        assert (TUTORIAL / f"{name}.md").read_text().splitlines()[2].endswith(f"]({name}.png)")
        assert f"]({name}.md)" in (TUTORIAL / "index.md").read_text()


def test_ten_minutes_to_read():
    """At two hundred words a minute, code included."""
    assert sum(len((TUTORIAL / f"{name}.md").read_text().split()) for name in write.PAGES) <= 2000


@pytest.mark.parametrize("name", write.PAGES)
def test_a_notebook_is_its_page_and_runs_and_draws_the_picture(name, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    pytest.importorskip("onnx")
    stored = (TUTORIAL / f"{name}.ipynb").read_text()
    assert stored == write.text_of(write.notebook(name)), "run: python docs/tutorial/write.py"
    assert write.run(json.loads(stored), tmp_path) == []
    drawn, kept = (image.imread(folder / f"{name}.png") for folder in (tmp_path, TUTORIAL))
    # other versions of matplotlib place text and edges a little differently
    assert np.abs(np.subtract(drawn.shape, kept.shape)).max() <= 12
    rows, columns = np.minimum(drawn.shape, kept.shape)[:2]
    assert np.abs(drawn[:rows, :columns] - kept[:rows, :columns]).mean() < 0.03
