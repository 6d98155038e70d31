"""The report: what it says is what was measured, whatever tokens are called, and it is written whole."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from report_sources import HOSTILE, ArraySource

import hardmax as hm
from hardmax.cli import main
from hardmax.models import bundled
from hardmax.models.bundled import bundled_source
from hardmax.models.report import files as report_files
from hardmax.models.report.flow_figures import place_labels, slice_figure
from hardmax.models.report.head_figures import head_figures
from hardmax.models.report.page import COLUMNS, heads_csv, json_for_script
from hardmax.models.report.svg import escape, figure_style, linear_scale, log_scale
from hardmax.storage import written_whole
from hardmax.training.learned_routing import routed_flow
from hardmax.training.states import run_states

FIGURES = ["margins", "hardness", "guarantees", "keys", "sinks", "slice-0", "slice-1", "growth", "recall"]


@pytest.fixture(scope="module")
def bundled_report():
    return hm.report()


@pytest.fixture(scope="module")
def hostile():
    return hm.report(ArraySource(HOSTILE, name="</h1><script>x</script>"), "text", read_out=0)


class Page(HTMLParser):
    """The elements of a page, its texts by element, and whatever could load something."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.loads: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.words: dict[str, list[str]] = {}
        self.cells: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        name = f"{tag}.{given.get('class', '')}".split(" ")[0].rstrip(".")
        self._open.append(name)
        self.words.setdefault(name, []).append("")
        self.ids += [given["id"]] if "id" in given else []
        for key in ("src", "href", "xlink:href", "action", "data"):
            if key in given and not given[key].startswith("#"):
                self.loads.append((tag, key, given[key]))
        if any(key.startswith("on") for key in given):
            self.loads.append((tag, "handler", str(given)))
        if tag == "tr":
            self.cells.append([])
        if "data-v" in given:
            self.cells[-1].append(given["data-v"])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self._open.pop()

    def handle_endtag(self, tag):
        if self._open:
            self._open.pop()

    def handle_data(self, data):
        if self._open:
            self.words[self._open[-1]][-1] += data


# The bundled model as a source
# ----------------------------------------------------------------------------------------------------------


def test_the_captured_layers_of_the_bundled_model_give_its_own_states():
    source = bundled_source(rng=3)
    layers = []
    reading = source.read(None, layers.append)
    states, _ = run_states(source.model.shape, source.model.vector, source.sequence[None])
    for layer, state in zip(layers, states, strict=True):
        fetched = sum(
            layer.probabilities(h) @ layer.values[h] @ layer.output_weights[h].T for h in range(layer.heads)
        )
        np.testing.assert_allclose(layer.inputs[-1] + fetched[-1], state.cls_attended[0], atol=1e-12)
        if state.attended is not None:
            np.testing.assert_allclose(layer.inputs[:-1] + fetched[:-1], state.attended[0], atol=1e-12)
    assert reading.probability_difference < 1e-12 > reading.score_difference
    assert [layer.present.any(axis=1).sum() for layer in layers] == [16, 1]  # CLS alone asks at the end


def test_the_fidelity_of_the_bundled_model_can_fail(monkeypatch):
    captured = bundled._captured
    monkeypatch.setattr(bundled, "_captured", lambda *args: dataclasses.replace(captured(*args), scale=0.5))
    assert bundled_source().read(None, lambda layer: None).probability_difference > 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_what_cls_knows_is_what_the_lab_says(seed):
    source = bundled_source(rng=seed)
    found = hm.report(source, rules=["argmax"])
    routed = routed_flow(source.model.shape, source.model.vector, source.sequence[None])
    known = found.flows[0].known_by(found.read_out)
    assert set(known) == {int(t) for t in np.flatnonzero(routed.sets(source.n_layers)[0])}


def test_the_bundled_model_reads_no_text_and_has_two_layers():
    with pytest.raises(hm.errors.InvalidInputError, match="text must be left out"):
        hm.report(None, "words")
    with pytest.raises(hm.errors.InvalidInputError, match="layers must be between 0 and 1"):
        bundled_source().read(None, lambda layer: None, layers=(2,))
    seen = []
    bundled_source().read(None, seen.append, layers=(1,))
    assert [layer.index for layer in seen] == [1]


def test_what_the_answer_needs_is_the_active_set(bundled_report):
    page = bundled_report.html()
    needed = [bundled_report.atlas.key_tokens[t] for t in bundled_report.needed]
    marked = re.findall(r'<span class="tok [^"]*needed"[^>]*>([^<]*)</span>', page)
    assert marked == needed
    assert len(needed) >= 2


# What is written
# ----------------------------------------------------------------------------------------------------------


def test_a_report_is_a_page_with_its_numbers_and_drawings(bundled_report, tmp_path):
    paths = bundled_report.write(tmp_path / "new" / "folder")
    names = [path.relative_to(tmp_path / "new" / "folder").as_posix() for path in paths]
    assert names == ["report.html", "report.json", "heads.csv", *(f"figures/{name}.svg" for name in FIGURES)]
    page = Page(paths[0].read_text())
    assert page.loads == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", paths[0].read_text())
    assert set(FIGURES) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    saved = json.loads(paths[1].read_text())
    assert saved["atlas"]["heads"][0]["margin_median"] == bundled_report.atlas.heads[0].margin_median
    rows = list(csv.DictReader(io.StringIO(paths[2].read_text())))
    assert [float(row["margin_median"]) for row in rows] == [
        r.margin_median for r in bundled_report.atlas.heads
    ]


def test_drawings_are_files_of_their_own(hostile, tmp_path):
    hostile.write(tmp_path)
    for path in (tmp_path / "figures").iterdir():
        text = path.read_text()
        root = ET.fromstring(text)  # well-formed, whatever tokens are called
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.find("{*}title").text
        assert root.find("{*}desc").text
        assert "var(" not in text
        assert "nan" not in re.sub(r">[^<]*<", "><", text)
        assert not {child.tag.split("}")[1] for child in root.iter()} & {"script", "b", "img", "a", "use"}


def test_the_table_holds_the_numbers(bundled_report):
    page = Page(bundled_report.html())
    rows = [row for row in page.cells if row]
    for row, record in zip(rows, bundled_report.atlas.heads, strict=True):
        for column, cell in zip(COLUMNS, row, strict=True):
            value = float(getattr(record, column.field))
            if column.field == "sink" and value < 0:
                assert cell == ""
            else:
                assert float(cell) == pytest.approx(value, rel=1e-6)


def test_a_report_is_saved_and_loaded(bundled_report, tmp_path):
    again = hm.load(bundled_report.save(tmp_path / "report.npz"))
    assert again.html() == bundled_report.html()
    assert json_for_script(again.to_dict()) == json_for_script(bundled_report.to_dict())  # NaN as null
    assert repr(again) == repr(bundled_report)


def test_a_failure_leaves_an_older_report_as_it_was(bundled_report, tmp_path, monkeypatch):
    bundled_report.write(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other = hm.report(rng=1)
    assert other.html() != bundled_report.html()
    opened = []

    def full(path):
        opened.append(path)
        if len(opened) == 4:
            raise OSError("no space left")
        return written_whole(path)

    with monkeypatch.context() as patched:
        patched.setattr(report_files, "written_whole", full)
        with pytest.raises(OSError, match="no space"):
            other.write(tmp_path)
        opened.clear()
        with pytest.raises(OSError, match="no space"):
            other.write(tmp_path / "fresh")
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in (tmp_path / "fresh").rglob("*") if path.is_file()]
    assert not list(tmp_path.rglob("*.partial"))


def test_a_file_is_no_folder(bundled_report, tmp_path):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(NotADirectoryError, match="it is a file"):
        bundled_report.write(tmp_path / "report")
    assert (tmp_path / "report").read_text() == "mine"


# Tokens are data
# ----------------------------------------------------------------------------------------------------------


def test_hostile_tokens_stay_text(hostile):
    page = Page(hostile.html())
    assert page.loads == []
    assert {"b", "img", "use"}.isdisjoint(page.tags)
    assert page.tags.count("script") == 2
    assert page.words["h1"] == ["</h1><script>x</script>"]
    assert '</script><b>"&' in page.words["span.tok"]
    assert any("onerror" in word for word in page.words["span.tok"])
    assert "␀␛[31m␍␊" in page.words["span.tok"]  # control characters are seen
    (data,) = json.loads(page.words["script"][0])["texts"]
    sinks = {row["sink_token"] for row in csv.DictReader(io.StringIO(data["csv"], newline=""))}
    assert sinks <= {*HOSTILE, ""}
    assert data["csv"] == heads_csv(hostile.atlas)
    assert data["tokens"] == list(HOSTILE)


def test_hostile_tokens_survive_a_table_file(hostile):
    every = tuple(
        dataclasses.replace(hostile.atlas.heads[0], sink=i, sink_share=0.5) for i in range(len(HOSTILE))
    )
    atlas = dataclasses.replace(hostile.atlas, heads=every)
    rows = list(csv.DictReader(io.StringIO(heads_csv(atlas), newline="")))
    assert [row["sink_token"] for row in rows] == list(HOSTILE)
    figure = head_figures(atlas)["sinks"]
    assert ET.fromstring(figure.standalone()) is not None


class Text(HTMLParser):
    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.text, self.tags = "", []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, attributes))

    def handle_data(self, data):
        self.text += data


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=40))
def test_escaped_text_comes_back(words):
    shown = "".join("␡" if c == "\x7f" else chr(0x2400 + ord(c)) if ord(c) < 32 else c for c in words)
    parsed = Text(f'<p title="{escape(words)}">{escape(words)}</p>')
    assert parsed.text == shown
    assert parsed.tags == [("p", [("title", shown)])]
    assert ET.fromstring(f"<t>{escape(words)}</t>".translate({0xFFFE: None, 0xFFFF: None})) is not None


@given(
    st.recursive(
        st.text(max_size=20) | st.floats(allow_nan=False, allow_infinity=False), st.lists, max_leaves=5
    )
)
def test_json_in_a_script_comes_back_without_markup(value):
    written = json_for_script(value)
    assert json.loads(written) == value
    assert not set("<>&\u2028\u2029") & set(written)


# Drawing
# ----------------------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e3), st.floats(1.5, 1e4), st.lists(st.floats(1e-4, 1e8), min_size=2, max_size=6))
def test_a_logarithmic_axis_keeps_order_and_stays_inside(low, factor, values):
    scale = log_scale(low, low * factor, 100.0, 0.0)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places, reverse=True)
    assert all(0 <= place <= 100 for place in places)
    inside = [scale.place(value) for value in (low, low * factor)]
    assert inside[0] > inside[1]
    assert all(0 <= scale.place(value) <= 100 for value in (0.0, math.nan, math.inf))


@given(st.floats(-1e4, 1e4), st.floats(1e-2, 1e5))
def test_ticks_of_a_linear_axis_lie_on_it(low, width):
    scale = linear_scale(low, low + width, 0.0, 100.0)
    assert 2 <= len(scale.ticks) <= 7
    assert all(-1e-4 <= scale.place(value) <= 100 + 1e-4 for value, _ in scale.ticks)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 100), st.text("ab", min_size=1, max_size=8)), max_size=12
    )
)
def test_labels_cover_neither_each_other_nor_points(items):
    points, words = [(x, y) for x, y, _ in items], [word for _, _, word in items]
    found = place_labels(points, words, 9.0, (0.0, 0.0, 100.0, 100.0))
    boxes = [
        (x, y - 9.0, x + len(word) * 9.0 * 0.56, y + 1)
        for (spot, word) in zip(found, words, strict=True)
        if spot is not None
        for x, y in [spot]
    ]
    for i, a in enumerate(boxes):
        assert a[0] >= 0
        assert a[2] <= 100
        assert not any(a[0] < x < a[2] and a[1] < y < a[3] for x, y in points)
        for b in boxes[:i]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def test_points_of_the_margin_figure_are_the_margins(bundled_report):
    figure = head_figures(bundled_report.atlas)["margins"]
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>(layer[^<]*)</title>', figure.body)
    heights = {title.split(":")[0]: float(y) for _, y, title in found}
    records = sorted(bundled_report.atlas.heads, key=lambda r: r.margin_median)
    drawn = [heights[f"layer {r.layer}, head {r.head}"] for r in records]
    assert drawn == sorted(drawn, reverse=True)  # upwards is more
    ticks = dict(re.findall(r'<text x="35" y="([\d.]+)"[^>]*>([\d.]+)</text>', figure.body))
    place = {float(word): float(y) - 3.2 for y, word in ticks.items()}
    decade = place[1] - place[10]
    for record in records:
        expected = place[1] - decade * math.log10(record.margin_median)
        assert heights[f"layer {record.layer}, head {record.head}"] == pytest.approx(expected, abs=0.02)


def drawn_walls(figure, head):
    """The walls of a head as a slice draws them, in units of the drawing (n, 2, 2)."""
    path = re.search(rf'<path d="([^"]*)" class="[^"]*wall-of[^"]*"><title>head {head}:', figure.body)
    numbers = re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", path[1]) if path else []
    return np.array(numbers, dtype=float).reshape(-1, 2, 2)


def test_walls_are_drawn_where_a_head_changes_its_key(bundled_report):
    """At every wall two keys of its head win together; a way between other keys crosses a wall."""
    source, rng = bundled_source(), np.random.default_rng(0)
    layers = []
    source.read(None, layers.append)
    piece, layer = bundled_report.atlas.slices[0], layers[0]
    figure = bundled_report.figures["slice-0"]
    unit = min(358.0 / (piece.high - piece.low)[0], 400.0 / (piece.high - piece.low)[1])
    tall = unit * (piece.high - piece.low)[1]

    def scores(points, head):
        x = piece.origin + points @ piece.directions
        return x @ layer.query_map(0).matrix[head].T @ layer.keys[head].T * layer.scale

    for number, head in enumerate(piece.heads):
        drawn = drawn_walls(figure, head)
        assert len(drawn) == len(piece.walls(number)) > 0
        back = np.stack([drawn[..., 0] - 1, 1 + tall - drawn[..., 1]], axis=-1) / unit + piece.low
        falling = np.sort(scores(back.mean(axis=1), head), axis=1)
        slope = np.abs(piece.directions @ layer.query_map(0).matrix[head].T @ layer.keys[head].T).max()
        assert (falling[:, -1] - falling[:, -2] <= 0.4 / unit * slope * layer.scale).all()
        a, b = rng.uniform(piece.low, piece.high, (2, 300, 2))
        other = scores(a, head).argmax(axis=1) != scores(b, head).argmax(axis=1)
        walls = piece.walls(number)
        crossed = np.array([[_crosses(p, q, wall) for wall in walls] for p, q in zip(a, b, strict=True)])
        assert (crossed.any(axis=1) == other).mean() > 0.99  # a wall may be left and met again
        assert crossed.any(axis=1)[other].all()


def _crosses(p, q, wall):
    def side(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    return side(p, q, wall[0]) * side(p, q, wall[1]) < 0 and side(*wall, p) * side(*wall, q) < 0


def test_a_dot_is_filled_only_where_its_routing_holds(bundled_report):
    source = bundled_source()
    layers = []
    source.read(None, layers.append)
    for number, (piece, layer) in enumerate(zip(bundled_report.atlas.slices, layers, strict=True)):
        x = piece.origin + piece.token_places @ piece.directions
        same = np.ones(len(x), dtype=bool)
        for h in range(layer.heads):
            there = (x @ layer.query_map(0).matrix[h].T @ layer.keys[h].T).argmax(axis=1)
            same &= there == (layer.queries[h] @ layer.keys[h].T).argmax(axis=1)
        same &= layer.present.any(axis=1)
        np.testing.assert_array_equal(piece.holds, same)
        figure = bundled_report.figures[f"slice-{number}"]
        filled = re.findall(r'class="token"', figure.body)
        hollow = re.findall(r'class="token hollow"', figure.body)
        assert (len(filled), len(hollow)) == (same.sum(), len(x) - same.sum())
        readers = int(layer.present.any(axis=1).sum())
        assert f"dots: {same.sum()} of {readers} tokens are filled" in figure.certainty
        assert figure.certainty.startswith("cells exact; ")


def test_the_plane_goes_through_three_tokens_that_belong_to_it():
    causal = hm.report(ArraySource("abcdefgh", causal=True, spread=1.0), "text")
    for found in (causal, hm.report(ArraySource("abcdefgh"), "text")):
        for piece in found.atlas.slices:
            assert len(set(piece.spanning)) == 3
            assert piece.position in piece.spanning
            np.testing.assert_allclose(piece.token_distances[list(piece.spanning)], 0, atol=1e-9)
    for piece in hm.report(ArraySource("abcdefgh"), "text").atlas.slices:
        assert piece.holds[list(piece.spanning)].all()


def test_many_heads_and_heads_that_say_nothing(bundled_report):
    one = bundled_report.atlas.heads[0]
    silent = {
        field.name: math.nan
        for field in dataclasses.fields(one)
        if isinstance(getattr(one, field.name), float)
    }
    heads = tuple(
        dataclasses.replace(one, layer=layer, head=head, **(silent if head == 3 else {}))
        for layer in range(24)
        for head in range(16)
    )
    endless = (
        dataclasses.replace(one, margin_median=math.inf, margin_high=math.inf, wall_distance_median=math.inf),
        *heads[1:],
    )
    alone = dataclasses.replace(bundled_report, attention=None, influence=None)
    big = dataclasses.replace(alone, atlas=dataclasses.replace(alone.atlas, heads=endless))
    page = big.html()
    assert len(page) < 5_000_000
    assert len([row for row in Page(page).cells if row]) == 384
    for name, figure in head_figures(big.atlas).items():
        assert not re.search(r'="[^"]*(nan|inf)', figure.body), name
        ET.fromstring(figure.standalone())
    nothing = dataclasses.replace(
        alone, atlas=dataclasses.replace(alone.atlas, heads=(dataclasses.replace(one, **silent),))
    )
    assert "nothing to describe" in nothing.verdict.sentences[0]
    assert "No head has a median margin here." in nothing.html()


def test_a_report_sends_the_text_through_the_model_once(monkeypatch):
    """Interventions are a pass of their own: fifteen sequences with one token changed, and the plain one."""
    passes, run = [], bundled.run_states
    monkeypatch.setattr(bundled, "run_states", lambda *args: passes.append(len(args[2])) or run(*args))
    assert hm.report().influence is not None
    assert passes == [1, 16]


def test_a_causal_model_is_reported_with_the_position_of_its_pictures():
    found = hm.report(ArraySource("abcdefgh", causal=True), "text", layers=[1], heads=[0, 2])
    assert [(r.layer, r.head) for r in found.atlas.heads] == [(1, 0), (1, 2)]
    assert found.read_out == 7  # no classification token: the last
    assert (
        hm.report(ArraySource(["[CLS]", "a", "b"], causal=True), "text").read_out == 2
    )  # it reads only itself
    assert hm.report(ArraySource(["[CLS]", "a", "b"]), "text").read_out == 0
    assert found.flows[0].n_layers == 2  # information sets need all layers
    assert "Masks and positions are those of the query at position 7 (h)." in found.html()
    assert found.influence is None


def test_few_keys_in_many_dimensions_are_said_to_say_little():
    assert "Here that says little: 4 keys in 4 dimensions" in hm.report(ArraySource("abcd"), "text").html()
    assert "says little" not in hm.report(ArraySource("abcdefghij"), "text").html()


@pytest.mark.parametrize("position", [-17, 16])
def test_a_read_out_that_does_not_exist(position):
    with pytest.raises(hm.errors.InvalidInputError, match="read_out must be from 0 to 15"):
        hm.report(read_out=position)


def test_influence_needs_tokens_that_can_be_disturbed():
    with pytest.raises(hm.errors.InvalidInputError, match="influence must be left out"):
        hm.report(ArraySource("abcd"), "text", influence=True)


def test_influence_in_the_bundled_model_follows_its_information_sets(bundled_report):
    """Its heads are hard, so what an input token changes is what the sets hold."""
    assert bundled_report.influence is not None
    assert "Does influence follow the sets?" in bundled_report.html()
    assert hm.report(influence=False).influence is None


def contrast(a: str, b: str) -> float:
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted([light(a), light(b)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_pair_of_colours_that_carries_text_is_readable():
    colours = {
        name: (light, dark)
        for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", figure_style())
    }
    pairs = [("ink", "paper"), ("soft", "paper"), ("ink", "wash"), ("accent", "paper")]
    pairs += [(f"on-{i}", f"heat-{i}") for i in range(6)] + [("ink", f"fill-{i}") for i in range(6)]
    for theme in (0, 1):
        for text, ground in pairs:
            assert contrast(colours[text][theme], colours[ground][theme]) >= 4.5, (text, ground, theme)
        for i in range(6):  # lines and points
            assert contrast(colours[f"line-{i}"][theme], colours["paper"][theme]) >= 3


# The command
# ----------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_report_without_torch(tmp_path):
    code = "import sys; sys.modules['torch'] = None; from hardmax.cli import main; main(['report'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pairwise-2: 4 heads on 16 tokens\n- Hardmax, where each head reads")
    assert "argmax: CLS can know" in done.stdout
    assert done.stderr == f"wrote {Path('hardmax-report/report.html')} and 11 files beside it\n"
    assert (tmp_path / "hardmax-report" / "report.html").is_file()


def test_the_command_prints_json(tmp_path):
    done = CliRunner().invoke(main, ["report", "--json", "--seed", "2", "--out", str(tmp_path / "r")])
    assert done.exit_code == 0
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "r" / "report.json").read_text())
    assert len(printed["atlas"]["heads"]) == 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--text", "x"], "needs a MODEL with a tokenizer"),
        (["model"], "give one of --text and --file"),
        (["model", "--text", "x", "--file", "y"], "give one of --text and --file"),
        (["model", "--file", "nowhere.txt"], "nowhere.txt must be a text file"),
        (["--out", "nowhere/deeper/r"], "its folder does not exist"),
        (["--layers", "5"], "layers must be between 0 and 1"),
        (["--layers", "x"], "--layers must be numbers"),
        (["--read-out", "99"], "read_out must be from 0 to 15"),
        (["--seed", "-1"], "'--seed': -1 is not in the range"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["report", *arguments])
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_slice_says_which_cells_nobody_sees(bundled_report):
    """Layer 1 of the bundled model has nine cells, most of them slivers along one wall."""
    pieces = bundled_report.atlas.slices
    for number, piece in enumerate(pieces):
        wide = max(np.ptp(np.concatenate(piece.polygons), axis=0))
        thin = 0
        for polygon in piece.polygons:  # the least width of a convex polygon stands on one of its sides
            sides = np.roll(polygon, -1, axis=0) - polygon
            across = np.column_stack([-sides[:, 1], sides[:, 0]])
            norms = np.linalg.norm(across, axis=1)
            across = across[norms > 0] / norms[norms > 0, None]
            thin += bool((np.ptp(polygon @ across.T, axis=0).min() / wide) < 1 / 400)
        told = re.search(
            r"(\d+) of the cells are too thin",
            slice_figure(piece, bundled_report.atlas.text_tokens, number).caption,
        )
        assert (int(told[1]) if told else 0) == pytest.approx(thin, abs=2)
    assert "7 of the cells" in slice_figure(pieces[1], bundled_report.atlas.text_tokens, 1).caption


@pytest.mark.parametrize("family", ["vit", "bert"])
def test_encoded_inputs_have_a_report_without_influence(family):
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    pytest.importorskip("transformers", reason="needs the extra 'models'")
    from tiny_models import tiny_model

    encoded = {"input_ids": torch.tensor([[2, 5, 6, 7, 3]])}
    if family == "vit":
        encoded = {"pixel_values": torch.linspace(-1, 1, 432).sin().reshape(1, 3, 12, 12)}
    found = hm.report(tiny_model(family), encoded)
    assert found.influence is None
    assert len(found.atlas.text_tokens) == (10 if family == "vit" else 5)
    with pytest.raises(hm.errors.InvalidInputError, match="influence must be left out"):
        hm.report(tiny_model(family), encoded, influence=True)
