"""The verdict and the routes of a report: sentences equal recomputed numbers, paths equal a plain loop."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest
from report_sources import HOSTILE, ArraySource, large_report

import hardmax as hm
from hardmax.models.bundled import bundled_source
from hardmax.models.influence.routing_flow import RoutingRule
from hardmax.models.reading.loading import read
from hardmax.models.report.kept_attention import STOPS, AttentionRecorder
from hardmax.models.report.page import json_for_script

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on the path: the script is not run")
ROUTES = str(files("hardmax.models.report") / "routes.js")


@pytest.fixture(scope="module")
def found():
    return hm.report()


@pytest.fixture(scope="module")
def soft():
    return hm.report(ArraySource([f"w{i}" for i in range(12)], layers=3, heads=4, spread=0.5), "text")


def layers_of(source):
    seen = []
    source.read("text" if isinstance(source, ArraySource) else None, seen.append)
    return seen


# The verdict
# ----------------------------------------------------------------------------------------------------------


def test_the_first_sentences_are_recomputed_from_probabilities(found, soft):
    for report, source in (
        (found, bundled_source()),
        (soft, ArraySource([f"w{i}" for i in range(12)], layers=3, heads=4, spread=0.5)),
    ):
        within, total, by_layer, spread, own = 0, 0, [], [], []
        for layer in layers_of(source):
            here = [0, 0]
            for h in range(layer.heads):
                table, readers = layer.probabilities(h), np.flatnonzero(layer.present.any(axis=1))
                own.append(np.mean([table[t, t] if t < layer.n_keys else 0.0 for t in readers]))
                for t in range(layer.n_queries):
                    if layer.present[t].sum() < 2:
                        continue
                    p = np.sort(layer.probabilities(h)[t])[::-1]
                    here[0] += int(1 - p[0] <= 0.1)
                    here[1] += 1
                    spread.append(int(np.searchsorted(np.cumsum(p), 0.9)) + 1)
            within, total = within + here[0], total + here[1]
            by_layer.append(here[0] / here[1])
        share = within / total
        words = "poor" if share < 0.25 else "partial" if share < 0.75 else "good"
        first, keys, where, layers = report.verdict.how_well
        assert f", is a {words} description of this model's attention on this text" in first
        assert f"for {within:,} of {total:,} queries" in first
        told = [float(x) for x in re.findall(r": (\d+) %", layers.replace("under 1 %", "0 %"))]
        np.testing.assert_allclose(told, [100 * s for s in by_layer], atol=1.0)
        assert f"{np.mean(own):.0%}".replace("%", " % to the token itself") in where
        assert f"gives 0.9 of its attention to {np.median(spread):g} of " in keys


def test_what_follows_names_the_heads_that_are_described(found, soft):
    for report in (found, soft):
        hard = [r for r in report.atlas.heads if r.share_measured_10 >= 0.5]
        [follows] = report.verdict.follows
        assert f"describe {len(hard)} of {len(report.atlas.heads)} heads" in follows
        assert ("collapsed" in follows) == (2 * len(hard) < len(report.atlas.heads))
    assert found.verdict.holds
    assert not soft.verdict.holds
    best = max(soft.atlas.heads, key=lambda r: (r.share_measured_10, r.top_probability))
    hardest = next(s for s in soft.verdict.look_first if s.startswith("Hardest heads"))
    assert hardest.startswith(f"Hardest heads: layer {best.layer} head {best.head} (")
    assert f"top probability {best.top_probability:.2f}" in hardest


def test_sinks_are_counted_over_heads(found):
    named = [found.atlas.key_tokens[r.sink] for r in found.atlas.heads if r.sink >= 0]
    sentence = next(s for s in found.verdict.look_first if s.startswith("Sinks"))
    for token in set(named):
        assert re.search(rf"“{token}” at position \d+ in {named.count(token)} head", sentence)


def test_heads_whose_winner_predicts_influence_are_ranked_by_a_plain_loop(found):
    text = found.influence.texts[0]
    influence = text.influence["ablation mean"]
    for rank in found.verdict.ranks:
        [row] = [i for i, r in enumerate(found.atlas.heads) if (r.layer, r.head) == (rank.layer, rank.head)]
        shares = []
        for t, s in enumerate(found.atlas.winners[row]):
            others = [k for k in range(15) if k not in (s, t)]
            if 0 <= s != t:
                mine = influence[rank.layer, t, s]
                theirs = influence[rank.layer, t, others]
                shares.append(((theirs < mine).sum() + 0.5 * (theirs == mine).sum()) / len(others))
        assert rank.rank == pytest.approx(np.mean(shares))
        assert rank.queries == len(shares)
    assert [r.rank for r in found.verdict.ranks] == sorted(
        (r.rank for r in found.verdict.ranks), reverse=True
    )


def test_the_recall_in_the_verdict_is_that_of_influence(found):
    layer = found.influence.telling_layer()
    summary = found.influence.summary(layer=layer)
    sentence = next(s for s in found.verdict.look_first if s.startswith("After"))
    for value in (summary.recall.median, summary.random.median, summary.rollout.median):
        assert f"{value:.0%}".replace("%", " %") in sentence


def test_the_verdict_stands_in_the_page_the_numbers_and_the_command(found, soft):
    for report in (found, soft):
        page = report.html()
        for sentence in report.verdict.sentences:
            assert html.escape(sentence).replace("&#x27;", "&#39;").replace(" %", "\u00a0%") in page
        assert page.index('id="verdict"') < page.index('class="facts"')
        saved = json.loads(json_for_script(report.to_dict()))["verdict"]
        assert saved["sentences"] == list(report.verdict.sentences)
        assert saved["share_within_10"] == pytest.approx(report.verdict.share)
    assert found.html().count("<details>") == 0  # the words have a class
    assert soft.html().count("<details>") == 3
    why = f"winning key alone, and here these are {len(soft.verdict.described)} of 12 heads."
    assert soft.html().count(why) == 3


def test_no_headline_is_about_keys_that_can_win(found):
    facts = re.search(r'<dl class="facts">(.*?)</dl>', found.html(), flags=re.DOTALL)[1]
    assert "can win" not in facts
    assert "can know" not in facts


def test_a_verdict_without_routes_or_influence():
    report = hm.report(rules=(), influence=None)
    assert report.attention is None
    assert math.isnan(report.verdict.keys_for_90)
    assert not any("attention to" in sentence for sentence in report.verdict.sentences)
    assert 'id="routes"' not in report.html()


# What is kept
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_kept_probabilities_are_within_their_rounding_and_in_order(causal):
    source = ArraySource([f"w{i}" for i in range(9)], layers=2, heads=3, causal=causal)
    recorder = AttentionRecorder(source)
    read(source, "text", [recorder])
    kept = recorder.kept()
    for layer in layers_of(source):
        for h, row in enumerate(kept.rows_of(layer.index)):
            p = layer.probabilities(h)
            np.testing.assert_array_equal(
                kept.order[row], np.argsort(-layer.scores(h), axis=1, kind="stable")[:, : kept.n_kept]
            )
            roots = np.sqrt(np.take_along_axis(p, kept.order[row], axis=1))
            assert np.abs(roots - kept.roots[row] / 255).max() <= 0.5 / 255 + 1e-12
            scores = kept.low[row] + kept.step[row] * kept.scores[row].astype(float)
            real = (layer.queries[h] @ layer.keys[h].T * layer.scale)[:, kept.columns[row]]
            real = real - real.mean(axis=1, keepdims=True)
            assert np.abs(scores - real).max() <= 2.01 * kept.step[row]  # the winner may be lifted by one
            masked = np.where(layer.present[:, kept.columns[row]], scores, -np.inf)
            np.testing.assert_array_equal(
                kept.columns[row][masked.argmax(axis=1)], layer.scores(h).argmax(axis=1)
            )


def test_a_model_that_is_too_large_keeps_nothing(monkeypatch):
    monkeypatch.setattr("hardmax.models.report.kept_attention.MOST_ROWS", 10)
    report = hm.report(ArraySource("abcd"), "text")
    assert report.attention is None
    assert "too many" in report.html()


@pytest.mark.slow
def test_a_page_of_twelve_layers_of_twelve_heads_and_128_tokens_is_small():
    report = large_report()
    assert [len(report.atlas.heads), len(report.atlas.slices), len(report.atlas.text_tokens)] == [
        144,
        12,
        128,
    ]
    assert report.attention.order.shape == (144, 128, 8)
    assert len(report.html().encode()) <= 1_500_000


def test_two_runs_write_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        hm.report().write(tmp_path / name)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) > 5
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path


def test_a_notebook_shows_the_page_in_a_frame_without_rights():
    report = hm.report(ArraySource(HOSTILE, name="</iframe><script>x</script>"), "text")
    shown = report._repr_html_()
    assert shown.count("<") == 2  # the frame and its end
    srcdoc = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    assert srcdoc == report.html()
    assert "allow-same-origin" not in shown


# Routes
# ----------------------------------------------------------------------------------------------------------


def in_node(code, report):
    """What a piece of script returns; ``m`` is the attention that the page of a report holds."""
    data = re.search(r'id="data">(.*?)</script>', report.html(), flags=re.DOTALL)[1]
    program = (
        f"const Routes = require({json.dumps(ROUTES)});"
        "const data = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "const m = Routes.open(data.texts[0].attention);"
        f"console.log(JSON.stringify((() => {{ {code} }})()));"
    )
    done = subprocess.run([NODE, "-e", program], input=data, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def plain_reads(layers, rule, n_queries):
    """Who reads whom under a rule, by a plain loop over probabilities: (layer, token) -> set of keys."""
    rule, reads = RoutingRule.of(rule), {}
    for layer in layers:
        tables = [layer.probabilities(h) for h in range(layer.heads)]
        for t in range(n_queries):
            keys = set()
            for table in tables:
                ranked = sorted(
                    (s for s in range(layer.n_keys) if layer.present[t, s]), key=lambda s: -table[t, s]
                )
                held = 0.0
                for place, s in enumerate(ranked):
                    if (place >= rule.top) if rule.top else (held >= rule.mass):
                        break
                    keys.add(s)
                    held += table[t, s]
            reads[layer.index, t] = keys
    return reads


def plain_paths(reads, depth, n_queries, column, token, read_out):
    """Tokens per column on paths from a place to the read-out, and on paths into it."""

    def back(column, token):
        on = [set() for _ in range(depth + 1)]
        on[column] = {token}
        for c in range(column, 0, -1):
            on[c - 1] = on[c] | {s for t in on[c] for s in reads[c - 1, t]}
        return on

    forth = [set() for _ in range(depth + 1)]
    forth[column] = {token}
    for c in range(column, depth):
        forth[c + 1] = forth[c] | {t for t in range(n_queries) if reads[c, t] & forth[c]}
    lead, reaches = back(depth, read_out), read_out in forth[depth]
    to = [sorted(a & b) if reaches else [] for a, b in zip(forth, lead, strict=True)]
    return {"to": to, "from": [sorted(on) for on in back(column, token)], "reaches": reaches}


PATHS = """
return places.map(([stop, column, token]) => {
  const found = Routes.paths(m, Routes.table(m, m.stops.indexOf(stop)), column, token, data.texts[0].readOut);
  return { to: found.to.map(Routes.tokens), from: found.from.map(Routes.tokens), reaches: found.reaches };
});
"""


@needs_node
@pytest.mark.parametrize("causal", [False, True])
def test_the_paths_of_200_tokens_equal_a_plain_loop(causal):
    source = ArraySource([f"w{i}" for i in range(17)], layers=3, heads=2, causal=causal, spread=1.0)
    report = hm.report(source, "text")
    rng = np.random.default_rng(5)
    places = [[str(rng.choice(STOPS)), int(rng.integers(4)), int(rng.integers(17))] for _ in range(200)]
    found = in_node(f"const places = {json.dumps(places)}; {PATHS}", report)
    layers = layers_of(source)
    reads = {stop: plain_reads(layers, stop, 17) for stop in STOPS}
    kinds = set()
    for (stop, column, token), one in zip(places, found, strict=True):
        assert one == plain_paths(reads[stop], 3, 17, column, token, report.read_out), (stop, column, token)
        kinds.add(one["reaches"])
    assert kinds == {True, False}  # both kinds of tokens were asked for


@needs_node
def test_paths_of_the_bundled_model_are_those_of_its_flow(found):
    """A token that asks and is never read, and a last layer in which it alone asks."""
    [one] = in_node(f"const places = [['argmax', 2, 15]]; {PATHS}", found)
    assert tuple(t for t in one["from"][0] if t < 15) == found.flows[0].known_by(15)
    live = found.flows[0].on_the_way(15)
    assert one["from"] == [np.flatnonzero(on).tolist() for on in live]


@needs_node
@pytest.mark.parametrize("causal", [False, True])
def test_the_diagram_of_the_page_is_that_of_the_scores(causal):
    source = ArraySource([f"w{i}" for i in range(14)], layers=1, heads=2, causal=causal, spread=1.0)
    report = hm.report(source, "text")
    three = [13, 12, 11] if causal else [0, 5, 9]
    found = in_node(f"return Routes.diagram(m, 0, 1, {three});", report)
    [layer] = layers_of(source)
    kept = report.attention
    keys = kept.columns[1][layer.present[found["lead"]][kept.columns[1]]]
    real = layer.queries[1] @ layer.keys[1].T * layer.scale
    rows = real[:, keys] - real[:, keys].mean(axis=1, keepdims=True)
    a, b, c = rows[three]
    q, _ = np.linalg.qr(np.stack([b - a, c - a], axis=1))
    signs = np.sign([q[:, 0] @ (b - a), q[:, 1] @ (c - a)])
    q = q * signs
    places = (rows - a) @ q / math.sqrt(len(keys))
    wrong = 6 * kept.step[1]
    np.testing.assert_allclose(np.array(found["places"], dtype=float), places, atol=wrong)
    # each cell: at a point well inside, its key has the largest real score
    agree = 0
    for cell in found["cells"]:
        middle = np.mean(cell["polygon"], axis=0)
        scores = a + math.sqrt(len(keys)) * (q @ middle)
        lead = scores.max() - scores[list(keys).index(cell["key"])]
        assert lead <= 4 * wrong
        agree += lead == 0
    assert agree >= 0.7 * len(found["cells"]) > 1
    area = 0.0
    for cell in found["cells"]:
        x, y = np.array(cell["polygon"]).T
        area += abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    assert area == pytest.approx(np.prod(np.subtract(found["high"], found["low"])))
    for t in three:
        if layer.present[t].sum() == layer.present[found["lead"]].sum():
            assert found["holds"][t]  # the three tokens stand where they route


@needs_node
def test_a_layer_in_which_one_token_reads_has_a_diagram(found):
    for head in range(2):
        one = in_node(f"return Routes.diagram(m, 1, {head}, [15, 11, 14]);", found)
        assert np.isfinite([*one["low"], *one["high"]]).all()
        assert (np.subtract(one["high"], one["low"]) > 0).all()
        assert [t for t, place in enumerate(one["places"]) if place is not None] == [15]
        assert one["holds"][15]


@needs_node
def test_three_tokens_on_a_line_have_no_diagram():
    report = hm.report(ArraySource("abcdef"), "text")
    assert in_node("return Routes.diagram(m, 0, 0, [1, 1, 2]);", report) is None


# Progress
# ----------------------------------------------------------------------------------------------------------


def test_progress_is_reported_from_loading_to_influence():
    seen = []
    hm.report(progress=lambda *told: seen.append(told))
    assert seen[0] == ("loading the model", 0, 0)
    assert seen[1] == ("reading the text", 0, 0)
    assert ("layers", 1, 2) in seen
    assert ("layers", 2, 2) in seen
    assert seen[-1][0] == "influence"
    assert seen[-1][1] == seen[-1][2] == 15


def test_the_bar_of_a_report_is_written_at_once(capsys):
    hm.report(progress=True, rules=["argmax"])
    assert capsys.readouterr().err.startswith("\rloading the model")
    with pytest.raises(hm.errors.InvalidInputError, match="progress must be True"):
        hm.report(progress="yes")


def test_a_flow_draws_its_routes(found):
    pytest.importorskip("matplotlib")
    flow = found.flows[0]
    axes = flow.plot(position=15)
    drawn = sum(len(lines.get_segments()) for lines in axes.collections[:4])
    assert drawn == flow.routes.sum() + 2 * 16  # reads, and what 16 tokens keep in two layers
    assert axes.get_title() == "argmax: CLS can know 6 of 15 positions"
    with pytest.raises(hm.errors.InvalidInputError, match="routes are drawn whole"):
        flow.plot(box=hm.Box.cube(2, -1, 1))
