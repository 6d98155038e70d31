"""Many texts: intervals over texts, files of texts, checkpoints that survive a kill."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

import hardmax as hm
from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.models.atlas.corpus_atlas import STATISTICS
from hardmax.models.atlas.head_measures import measure_queries
from hardmax.models.reading.text_runs import over_texts
from hardmax.models.reading.texts import read_texts
from hardmax.models.spread import holm, mean_intervals, paired_p_values

X = np.random.default_rng(3).standard_normal((12, 15, 4))


@pytest.fixture(scope="module")
def source():
    return hm.models.bundled_source()


@pytest.fixture(scope="module")
def atlas(source):
    return hm.head_atlas(source, X)


# Intervals over texts
# ----------------------------------------------------------------------------------------------------------


def tokens_of_texts(rng, n_corpora, n_texts, n_tokens, draw):
    """Texts with a level of their own, and tokens around it: (corpora, texts, tokens)."""
    levels = draw(rng, (n_corpora, n_texts, 1))
    return levels + rng.standard_normal((n_corpora, n_texts, n_tokens))


@pytest.mark.parametrize(
    ("draw", "mean", "least"),
    [
        (lambda rng, shape: rng.standard_normal(shape), 0.0, 0.94),
        (lambda rng, shape: rng.exponential(size=shape), 1.0, 0.92),
        (lambda rng, shape: (rng.random(shape) < 0.3).astype(float), 0.3, 0.92),
    ],
    ids=["normal", "skewed", "two kinds"],
)
def test_intervals_over_texts_cover_and_intervals_over_tokens_do_not(draw, mean, least):
    rng = np.random.default_rng(0)
    tokens = tokens_of_texts(rng, 4000, 30, 20, draw)
    over = mean_intervals(tokens.mean(axis=2).T)
    covered = np.mean((over.low <= mean) & (mean <= over.high))
    assert least <= covered <= 0.965
    pooled = mean_intervals(tokens.reshape(4000, -1).T)  # as if tokens were independent
    assert np.mean((pooled.low <= mean) & (mean <= pooled.high)) < 0.75


def test_the_intervals_are_those_of_scipy():
    values = np.random.default_rng(1).gamma(2.0, size=(9, 4))
    found = mean_intervals(values, confidence=0.9)
    low, high = stats.t.interval(0.9, 8, loc=values.mean(axis=0), scale=stats.sem(values))
    np.testing.assert_allclose([found.low, found.high], [low, high])
    np.testing.assert_allclose(paired_p_values(values - 2.0), stats.ttest_1samp(values, 2.0).pvalue)
    values[3, 1] = np.nan
    assert mean_intervals(values).n.tolist() == [9, 8, 9, 9]
    np.testing.assert_allclose(mean_intervals(values).mean[1], np.delete(values[:, 1], 3).mean())


def test_equal_values_have_no_deviation():
    found = mean_intervals(np.full((7, 1), 0.1))
    assert found.deviation[0] == 0.0
    assert found.low[0] == found.mean[0] == found.high[0] == 0.1
    with pytest.raises(InvalidInputError, match="confidence must be above 0"):
        mean_intervals(np.zeros((3, 1)), confidence=95)


def test_holm_keeps_the_rate_of_any_false_rejection():
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(1000):
        shared = rng.standard_normal((20, 1))  # tests that depend on each other
        p = paired_p_values(0.5 * shared + rng.standard_normal((20, 50)))
        wrong += bool((holm(p) <= 0.05).any())
    assert wrong <= 70  # 50 are allowed, and 3 standard deviations
    assert wrong > 5


def test_holm_by_hand():
    np.testing.assert_allclose(holm(np.array([0.04, 0.001, 0.03])), [0.06, 0.003, 0.06])


# The atlas of a corpus
# ----------------------------------------------------------------------------------------------------------


def test_a_corpus_holds_what_its_texts_say_one_by_one(source, atlas):
    one = [hm.head_atlas(hm.models.bundled.BundledSource("one", source.model, x), plane=None) for x in X]
    pairs = {
        "margin": "margin_median",
        "top_probability": "top_probability",
        "tv_to_hardmax": "tv_to_hardmax",
        "share_within_10": "share_measured_10",
        "share_hard_10": "share_hard_10",
        "win_entropy": "usage_entropy_relative",
        "sink_share": "sink_share",
        "sink_mass": "sink_mass",
        "wall_distance": "wall_distance_relative",
    }
    for name, field in pairs.items():
        wanted = np.array([[getattr(record, field) for record in a.heads] for a in one])
        np.testing.assert_array_equal(atlas.of(name), wanted)
        np.testing.assert_allclose(atlas.interval(name).mean, wanted.mean(axis=0))
    sinks = [[record.sink for record in a.heads] for a in one]
    found = [[-1 if s < 0 else int(atlas.sink_words[s][1:]) - 1 for s in row] for row in atlas.sinks]
    assert found == sinks
    assert atlas.n_tokens.tolist() == [16] * 12


def test_entropy_is_that_of_the_probabilities(source):
    seen = []
    source.read(X[0], seen.append)
    for layer in seen:
        for h in range(layer.heads):
            found = measure_queries(layer, h)
            p = layer.probabilities(h)[found.choice]
            wanted = -(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=1)
            np.testing.assert_allclose(found.entropy[found.choice], wanted, rtol=1e-9, atol=1e-12)


def test_a_corpus_is_saved_tabled_and_drawn(atlas, tmp_path):
    again = hm.load(atlas.save(tmp_path / "atlas.npz"))
    np.testing.assert_array_equal(again.values, atlas.values)
    assert again.names == atlas.names
    assert again.sink_words == atlas.sink_words
    frame = again.to_frame()
    assert len(frame) == 4
    assert (frame["margin_low"] < frame["margin"]).all()
    assert (again.to_csv(tmp_path / "heads.csv").read_text().count("\n")) == 5
    heads = json.loads(again.to_json(tmp_path / "atlas.json").read_text())["heads"]
    assert heads[0]["mean"]["margin"] == pytest.approx(float(frame["margin"][0]))
    assert again.plot(statistic="margin").get_ylabel() == STATISTICS["margin"]
    with pytest.raises(InvalidInputError, match="statistic must be one of margin"):
        again.plot(statistic="hardness")
    assert again.hardest(1)[0].mean["share_within_10"] == frame["share_within_10"].max()


def test_texts_that_cannot_be_read_are_named(source):
    with pytest.raises(InvalidInputError, match="text 2 is empty"):
        hm.head_atlas(source, ["a", " "])
    with pytest.raises(InvalidInputError, match="positions and plane must be left out"):
        hm.head_atlas(source, X, positions=[2])
    with pytest.raises(InvalidInputError, match="text 1: text must be left out for the bundled model"):
        hm.head_atlas(source, ["some words"])
    with pytest.raises(InvalidInputError, match="checkpoint belongs to many texts"):
        hm.head_atlas(source, checkpoint="folder")


# Influence over a corpus
# ----------------------------------------------------------------------------------------------------------


def test_influence_of_a_corpus_holds_the_medians_of_its_texts(source, tmp_path):
    options = {"rules": ["argmax", "top-2"], "n_draws": 10}
    found = hm.measure_influence(source, X[:5], **options)
    values = found.values.copy()
    values[:, 0, 0, 0, found.columns.index("recall")] = [0.9, 1.0, 1.0, 0.6, 1.0]
    values[:, 0, 0, 0, found.columns.index("gain")] = [-3.0, 1.0, 1.0, 0.6, 1.0]
    spread = dataclasses.replace(found, values=values)
    assert spread.interval("recall").high[0, 0, 0] == 1.0  # a share; 1.11 by the formula
    assert spread.interval("gain").low[0, 0, 0] < -1.0  # no share
    for i, x in enumerate(X[:5]):
        own = hm.models.bundled.BundledSource("one", source.model, x)
        report = hm.measure_influence(own, **options, n_bootstrap=2)
        for j, rule in enumerate(report.rules):
            for layer in (1, 2):
                one = report.summary(layer=layer, rule=rule)
                names = ("recall", "random", "rollout", "best", "gain", "size")
                mine = [found.values[i, layer - 1, j, 0, found.columns.index(name)] for name in names]
                np.testing.assert_array_equal(mine, [getattr(one, name).median for name in names])
                assert found.values[i, layer - 1, j, 0, -1] == one.share_compared
    again = hm.load(found.save(tmp_path / "influence.npz"))
    np.testing.assert_array_equal(again.values, found.values)
    assert len(again.to_frame()) == 4
    assert again.plot().get_xlabel() == "after layer"
    with pytest.raises(InvalidInputError, match="column must be one of"):
        found.interval("hits")


# Files of texts
# ----------------------------------------------------------------------------------------------------------


def test_texts_come_from_lines_json_lines_objects_and_globs(tmp_path):
    (tmp_path / "lines.txt").write_text("one\n\n two \n")
    (tmp_path / "rows.jsonl").write_text('{"body": "one"}\n"two"\n')
    (tmp_path / "names.json").write_text('{"a": "one", "b": "two"}')
    (tmp_path / "page 1.md").write_text("one\ntwo\n")
    (tmp_path / "page 2.md").write_text("three")
    assert read_texts(tmp_path / "lines.txt") == {"line 1": "one", "line 3": "two"}
    assert read_texts(tmp_path / "rows.jsonl", field="body") == {"line 1": "one", "line 2": "two"}
    assert read_texts(tmp_path / "names.json") == {"a": "one", "b": "two"}
    pages = read_texts(str(tmp_path / "page*.md"))
    assert list(pages.values()) == ["one\ntwo", "three"]
    assert [os.path.basename(name) for name in pages] == ["page 1.md", "page 2.md"]


def test_only_line_ends_end_a_line(tmp_path):
    """JSON may hold U+2028 and U+0085 as they are; Python's splitlines would cut there."""
    text = "one\u2028two\x85three"
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"text": text}, ensure_ascii=False) + "\r\n", encoding="utf-8"
    )
    assert read_texts(tmp_path / "rows.jsonl") == {"line 1": text}
    (tmp_path / "lines.txt").write_text(f"{text}\nfour\n", encoding="utf-8")
    assert read_texts(tmp_path / "lines.txt") == {"line 1": text, "line 2": "four"}


def test_wrong_files_get_one_sentence(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"body": "one"}\n')
    (tmp_path / "broken.jsonl").write_text('"fine"\n{"body"\n')
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(FileFormatError, match=r"field 'text', but line 1 has the fields body"):
        read_texts(tmp_path / "rows.jsonl")
    with pytest.raises(FileFormatError, match=r"line 2 of .* must be JSON, but is not"):
        read_texts(tmp_path / "broken.jsonl")
    with pytest.raises(FileFormatError, match="holds none"):
        read_texts(tmp_path / "empty.txt")
    with pytest.raises(FileFormatError, match="matches none"):
        read_texts(str(tmp_path / "*.html"))
    (tmp_path / "numbers.jsonl").write_text('{"text": 3}\n')
    with pytest.raises(FileFormatError, match="line 1 holds 3 there"):
        read_texts(tmp_path / "numbers.jsonl")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_texts(tmp_path / "nothing.txt")
    with pytest.raises(InvalidInputError, match="field belongs to a"):
        read_texts(tmp_path / "empty.txt", field="body")


# Checkpoints
# ----------------------------------------------------------------------------------------------------------


class Counting:
    """A source that counts how often it is read."""

    def __init__(self, source):
        self._source, self.n = source, 0

    def __getattr__(self, name):
        return getattr(self._source, name)

    def read(self, *args, **options):
        self.n += 1
        return self._source.read(*args, **options)


def test_a_run_goes_on_where_it_was(source, atlas, tmp_path):
    counted = Counting(source)
    hm.head_atlas(counted, X[:7], checkpoint=tmp_path / "run")
    assert counted.n == 7
    whole = hm.head_atlas(counted, X, checkpoint=tmp_path / "run")
    assert counted.n == 12
    np.testing.assert_array_equal(whole.values, atlas.values)
    damaged = sorted((tmp_path / "run").glob("*.npz"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    again = hm.head_atlas(counted, X, checkpoint=tmp_path / "run")
    assert counted.n == 13
    np.testing.assert_array_equal(again.values, atlas.values)


def test_a_folder_of_another_question_is_refused(source, tmp_path):
    hm.head_atlas(source, X[:1], checkpoint=tmp_path / "run")
    with pytest.raises(InvalidInputError, match="made with another layers"):
        hm.head_atlas(source, X[:1], layers=[0], checkpoint=tmp_path / "run")
    moved = source.model.vector.copy()
    moved[0] += 1
    other = hm.models.bundled.BundledSource(
        source.name, hm.training.TrainedModel(source.model.shape, moved), X[0]
    )
    with pytest.raises(InvalidInputError, match="made with another weights"):
        hm.head_atlas(other, X[:1], checkpoint=tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(InvalidInputError, match="holds thesis"):
        hm.head_atlas(source, X[:1], checkpoint=tmp_path / "mine")


SLOW_RUN = """
import sys, time
from hardmax.models.reading.text_runs import over_texts
log = open(sys.argv[2], "a", buffering=1)
def measure(text):
    log.write(text + "\\n")
    time.sleep(0.01)
    return {"n": len(text)}
texts = {str(i): "x" * (i + 1) for i in range(60)}
run = over_texts(texts, measure, question={"what": "test"}, checkpoint=sys.argv[1])
print(sum(found["n"] for found in run))
"""


def test_a_killed_run_loses_at_most_one_text(tmp_path):
    """A process is killed at several moments; each time the next one measures at most one text again."""
    folder, log = tmp_path / "run", tmp_path / "log"
    log.touch()
    command = [sys.executable, "-c", SLOW_RUN, str(folder), str(log)]
    kills = 0
    for wait in (0.05, 0.12, 0.2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        began = len(log.read_text().splitlines())
        until = time.monotonic() + 60
        while len(log.read_text().splitlines()) <= began and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(wait)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills >= 2
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == sum(range(1, 61))
    measured = log.read_text().splitlines()
    assert len(set(measured)) == 60
    assert len(measured) <= 60 + 3  # each kill repeats one text at most
    assert not [path for path in folder.iterdir() if path.suffix not in (".npz", ".json", ".partial")]


def test_texts_are_measured_once_though_they_stand_twice(tmp_path):
    seen = []

    def measure(text):
        seen.append(text)
        return {"n": 1}

    texts = {"a": "same", "b": "same", "c": "other"}
    assert len(list(over_texts(texts, measure, question={}, checkpoint=tmp_path / "run"))) == 3
    assert seen == ["same", "other"]


def test_texts_are_read_with_one_thread_of_blas():
    from hardmax.models.reading.threads import blas_pools, one_thread

    pools = blas_pools()
    if not pools:
        pytest.skip("numpy and scipy have another library than OpenBLAS here")
    before = [pool.get() for pool in pools]
    try:
        for pool in pools:
            pool.set(2)
        seen = over_texts({"a": "x"}, lambda text: {"n": [pool.get() for pool in pools]}, question={})
        assert [found["n"] for found in seen] == [[1] * len(pools)]
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert [pool.get() for pool in pools] == [2] * len(pools)
    finally:
        for pool, n in zip(pools, before, strict=True):
            pool.set(n)
