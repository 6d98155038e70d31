"""The examples run, and the demo writes the figures and counts that it promises."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_demo_writes_figures_and_counts(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("demo", EXAMPLES / "demo.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    monkeypatch.setattr(demo, "OUT", tmp_path / "demo")
    assert demo.main() == 0
    written = sorted(path.name for path in (tmp_path / "demo").iterdir())
    pictures = ["advice", "figure3", "figure4", "regions", "regions-by-depth", "trained-layer"]
    assert written == sorted(
        [
            "counts.json",
            "infoflow.fig5",
            "report",
            *(f"{name}.{ending}" for name in pictures for ending in ("png", "svg")),
        ]
    )
    counts = json.loads((tmp_path / "demo" / "counts.json").read_text())
    page = counts["report"]
    assert Path(page["page"]) == tmp_path / "demo" / "report" / "report.html"
    assert "</html>" in Path(page["page"]).read_text()
    assert (page["heads"], page["files"]) == (4, 12)
    assert set(page["answer_needs"]) <= set(page["cls_can_know"])
    assert counts["figure_3"] == {
        "keys": 8,
        "voronoi_cells": 8,
        "attention_cells": 6,
        "keys_without_cell": [6, 7],
    }
    assert list(counts["figure_4"]["vertices"].values()) == [6, 36, 92]
    assert counts["figure_4"]["maximum_linear_R3"] == 92
    assert counts["figure_4"]["vertices_affine_R3"] == counts["figure_4"]["vertices_linear_R4"] == 216
    regions = counts["regions"]
    assert (regions["n_cells"], regions["n_regions"], regions["complete"]) == (5309, 5309, True)
    assert regions["cells_by_depth"] == [47, 1677, 2508, 3442, 3555, 5309]
    assert regions["n_signatures"] == 4970  # what two million points find
    assert float(regions["lower_bound"]) <= float(regions["upper_bound"])
    assert regions["n_cells"] <= float(regions["upper_bound"])
    assert counts["advice"]["heads"] == [4, 4]
    assert counts["advice"]["learns"] == 1 > counts["advice"]["without_a_head_of_layer_1"]
    assert counts["appendix_e"]["I(5, 2), score negated"] == "{1, 3}"
    assert counts["trained_model"]["nmse"] < 1e-3
    assert counts["trained_model"]["what_it_needs_arrives"] > 0.9
    assert counts["trained_model"]["cells_of_layer_1"] > 1
    printed = capsys.readouterr().out
    assert printed.index("Figure 3") < printed.index("Regions")  # the first picture comes first
    assert f"Report: {page['page']}" in printed
    assert "5,309 cells, all of them" in printed
    assert str(tmp_path / "demo") in printed
    assert "216 is impossible" in printed
    assert "92 vertices" in (tmp_path / "demo" / "figure4.svg").read_text()


# The demo is tried above. Findings and trainings take minutes: the former are tried on a tiny model in
# test_models_influence.py, the latter made the models that come with hardmax (test_piecewise.py) and the
# controller that verify_controller.py reads.
# many_texts.py needs a folder with a real model, and the language model needs transformers
# (hm.compare and hm.along_training on such models: test_comparisons.py).
MODELS = ("many_texts.py", "grammar_language_model.py")
LONG = ("demo.py", "minilm_findings.py", "train_relu_models.py", "train_controller.py", *MODELS)
ELSEWHERE = {EXAMPLES / name for name in LONG}
OTHERS = sorted(path.stem for path in set(EXAMPLES.glob("*.py")) - ELSEWHERE)
FEWER = {"moving_keys": ["--sequences", "1", "--texts", "1"]}  # with its defaults it takes a minute
NEEDS = {"export_moons": ("torch", "onnx")}
SLOW = {"verify_controller": pytest.mark.slow}  # half a minute


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in OTHERS])
def test_an_example_runs(name, tmp_path):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *FEWER.get(name, [])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
