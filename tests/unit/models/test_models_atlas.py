"""The head atlas and its command, on layers that are plain arrays."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict, fields, replace
from itertools import combinations

import numpy as np
import pytest
from captured_layers import Layers, causal, random_layer
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.cli.models import number_list
from hardmax.errors import InvalidInputError
from hardmax.models.atlas.head_atlas import HeadRecord
from hardmax.models.atlas.layer_cells import LayerSlice


def two_layers(**options) -> Layers:
    return Layers([random_layer(i, n=7, heads=4, groups=2, index=i, **options) for i in range(2)])


@pytest.fixture(scope="module")
def atlas() -> hm.models.HeadAtlas:
    return hm.head_atlas(two_layers(), "seven words")


def test_one_row_per_head_and_one_picture_per_layer(atlas: hm.models.HeadAtlas) -> None:
    assert [(record.layer, record.head) for record in atlas.heads] == [
        (layer, head) for layer in range(2) for head in range(4)
    ]
    assert [piece.layer for piece in atlas.slices] == [0, 1]
    assert atlas.layers == (0, 1)
    assert len(atlas.of_layer(1)) == 4
    assert atlas.notes == ()
    assert atlas.reading.forward_seconds == 0.25
    assert atlas.ratio == atlas.cpu_seconds / 0.25
    assert repr(atlas).startswith("<HeadAtlas: arrays, 8 heads of 2 layers on 7 tokens, ")


def test_rows_are_statistics_of_scores(atlas: hm.models.HeadAtlas) -> None:
    """Computed once more with the simplest means: no copies here, no mask."""
    source = two_layers()
    for i, record in enumerate(atlas.heads):
        layer = source.layers[record.layer]
        scores = layer.scores(record.head)
        order = np.sort(scores, axis=1)
        margin = order[:, -1] - order[:, -2]
        p = layer.probabilities(record.head)
        winners = p.argmax(axis=1)
        np.testing.assert_array_equal(atlas.winners[i], winners)
        np.testing.assert_allclose(atlas.margins[i], margin)
        np.testing.assert_allclose(atlas.top_probabilities[i], p.max(axis=1))
        assert record.margin_median == pytest.approx(np.median(margin))
        assert record.margin_low == pytest.approx(np.quantile(margin, 0.1))
        assert record.margin_high == pytest.approx(np.quantile(margin, 0.9))
        assert record.top_probability == pytest.approx(np.median(p.max(axis=1)))
        assert record.tv_to_hardmax == pytest.approx(np.median(1 - p.max(axis=1)))
        values, W = layer.values[layer.group(record.head)], layer.output_weights[record.head]
        soft, hard = p @ values @ W.T, values[winners] @ W.T
        distance = np.linalg.norm(soft - hard, axis=1) / np.linalg.norm(soft, axis=1)
        assert record.output_distance == pytest.approx(np.median(distance))
        odds = 6 * np.exp(-margin)
        for eta, sure, seen in (
            (0.01, record.share_hard_1, record.share_measured_1),
            (0.1, record.share_hard_10, record.share_measured_10),
        ):
            assert sure == np.mean(odds / (1 + odds) <= eta)
            assert seen == np.mean(1 - p.max(axis=1) <= eta)
            assert sure <= seen
        assert record.share_vacuous == np.mean(odds >= 1)
        norms = np.linalg.norm(layer.queries[record.head], axis=1)
        assert record.query_norm == pytest.approx(norms.max())
        assert record.query_norm_median == pytest.approx(np.median(norms))
        assert record.wall_distance_median == pytest.approx(np.median(atlas.wall_distances[i]))
        assert record.wall_distance_relative == pytest.approx(np.median(atlas.wall_distances[i] / norms))
        diagram = hm.attention_diagram(layer.keys[layer.group(record.head)])
        np.testing.assert_array_equal(atlas.can_win[i], diagram.nonempty)
        assert (record.keys_can_win, record.keys_can_win_of) == (diagram.nonempty.sum(), 7)
        reach = diagram.max_margin().values.max()
        assert record.largest_reach_margin == pytest.approx(reach * layer.scale * norms.max())
        assert record.median_reach_margin == pytest.approx(reach * layer.scale * np.median(norms))
        assert margin.max() <= record.largest_reach_margin_bound
        assert p.max() <= record.largest_reach_probability_bound
        assert record.keys_do_win == len(set(winners))
        assert record.position == -1


def test_rows_of_hard_causal_heads_are_statistics_over_queries_with_a_choice() -> None:
    """Query by query, over the keys that it reads; the first has only itself and does not count."""
    layer = random_layer(5, n=24, heads=3, present=causal(24), scale=4.0)
    for record in hm.head_atlas(Layers([layer]), plane=None).heads:
        margins, tops, proven = [], [], []
        for t in range(1, 24):
            scores = sorted((4.0 * float(layer.queries[record.head, t] @ layer.keys[record.head, s]))
                            for s in range(t + 1))  # fmt: skip
            margins.append(scores[-1] - scores[-2])
            tops.append(1 / sum(math.exp(score - scores[-1]) for score in scores))
            odds = t * math.exp(-margins[-1])  # no rival is nearer than the second
            proven.append(odds / (1 + odds))
        assert record.n_queries == 23
        assert record.margin_low == pytest.approx(np.quantile(margins, 0.1))
        assert record.margin_high == pytest.approx(np.quantile(margins, 0.9))
        assert record.tv_to_hardmax == pytest.approx(np.median(1 - np.array(tops)))
        for eta, sure, seen in (
            (0.01, record.share_hard_1, record.share_measured_1),
            (0.1, record.share_hard_10, record.share_measured_10),
        ):
            assert sure == pytest.approx(np.mean(np.array(proven) <= eta))
            assert seen == pytest.approx(np.mean(1 - np.array(tops) <= eta))
        assert 0 < record.share_hard_1 < record.share_measured_1 < 1


def test_layers_heads_and_positions_are_chosen() -> None:
    source = two_layers(present=causal(7))
    atlas = hm.head_atlas(source, "x", layers=[1], heads=[2, 0], positions=[3, 5], plane=(0, 1, 2))
    assert source.asked == ("x", (1,))
    assert [(record.layer, record.head) for record in atlas.heads] == [(1, 0), (1, 2)]
    assert [(piece.position, piece.heads) for piece in atlas.slices] == [(3, (0, 2)), (5, (0, 2))]
    assert {piece.spanned_by for piece in atlas.slices} == {"tokens 0, 1 and 2"}
    assert [(record.head, record.position, record.keys_can_win_of) for record in atlas.positions] == [
        (0, 3, 4), (0, 5, 6), (2, 3, 4), (2, 5, 6),
    ]  # fmt: skip
    assert {record.position for record in atlas.heads} == {5}
    assert {record.keys_can_win_of for record in atlas.heads} == {6}
    assert {record.n_queries for record in atlas.heads} == {6}  # the first query has no choice
    assert np.isnan(atlas.margins[:, 0]).all()
    assert atlas.settings["plane"] == [0, 1, 2]


def test_without_a_choice_there_is_nothing_to_measure() -> None:
    """One token, and one token said three times without positions: one key in truth."""
    alone = hm.head_atlas(Layers([random_layer(0, n=1)]))
    layer = random_layer(0, n=1)
    thrice = replace(
        layer,
        inputs=np.repeat(layer.inputs, 3, axis=0),
        queries=np.repeat(layer.queries, 3, axis=1),
        keys=np.repeat(layer.keys, 3, axis=1),
        values=np.repeat(layer.values, 3, axis=1),
        present=np.ones((3, 3), dtype=bool),
    )
    for atlas, n in ((alone, 1), (hm.head_atlas(Layers([thrice])), 3)):
        for record in atlas.heads:
            assert record.n_queries == 0
            assert math.isnan(record.margin_median)
            assert math.isnan(record.share_hard_1)
            assert math.isnan(record.largest_reach_margin)
            assert record.keys_can_win == record.keys_can_win_of == n
            assert (record.sink, record.keys_do_win) == (-1, 0)
        assert [piece.n_cells for piece in atlas.slices] == [1]
        assert (atlas.winners == 0).all()


def test_heads_that_share_keys_and_biases_that_do_not() -> None:
    slopes = np.array([0.5, 0.25])[:, None, None]
    distance = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    layer = random_layer(3, n=7, heads=2, groups=1, present=causal(7), bias=-slopes * distance)
    atlas = hm.head_atlas(Layers([layer]))
    for record in atlas.heads:
        assert record.position == 6
        assert math.isnan(record.median_reach_margin)
        assert record.largest_reach_margin <= record.largest_reach_margin_bound
        bias = -slopes[record.head, 0, 0] * distance[6] / layer.scale
        np.testing.assert_array_equal(
            atlas.can_win[record.head], hm.attention_diagram(layer.keys[0], bias).nonempty
        )


def test_more_queries_than_keys() -> None:
    """As in training: CLS asks and is never read."""
    layer = random_layer(2, n=6)
    layer = replace(
        layer, keys=layer.keys[:, :5], values=layer.values[:, :5], present=np.ones((6, 5), dtype=bool)
    )
    atlas = hm.head_atlas(Layers([layer]))
    assert len(atlas.text_tokens) == 6
    assert len(atlas.key_tokens) == 5
    assert atlas.winners.shape == (2, 6)
    assert atlas.can_win.shape == (2, 5)


def test_layers_that_do_not_tell_have_no_picture() -> None:
    silent = replace(random_layer(0), query_map=None)
    atlas = hm.head_atlas(Layers([silent]))
    assert atlas.slices == ()
    assert "layer 0 has no slice" in atlas.notes[0]
    flat = random_layer(0, d_model=1)
    assert "one dimension" in hm.head_atlas(Layers([flat])).notes[0]
    assert hm.head_atlas(two_layers(), plane=None).slices == ()


def test_progress_counts_layers() -> None:
    seen = []
    hm.head_atlas(two_layers(), plane=None, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_a_column_of_an_older_file_is_left_out(atlas: hm.models.HeadAtlas) -> None:
    """Records said ``certified`` once, which was always true."""
    state = atlas._state()
    older = {**state, "heads": {**state["heads"], "certified": [True] * len(atlas.heads)}}
    assert hm.models.HeadAtlas._from_state(older).heads == atlas.heads


def test_files(atlas: hm.models.HeadAtlas, tmp_path) -> None:
    again = hm.load(atlas.save(tmp_path / "atlas.npz"))
    assert again.heads == atlas.heads
    assert again.positions == atlas.positions
    assert vars(again.reading) == {**vars(atlas.reading), "forward_seconds": 0.0}
    assert again.settings == atlas.settings
    np.testing.assert_array_equal(again.winners, atlas.winners)
    np.testing.assert_array_equal(again.slices[1].corners, atlas.slices[1].corners)
    assert not again.margins.flags.writeable
    rows = list(csv.DictReader(atlas.to_csv(tmp_path / "heads.csv").read_text().splitlines()))
    assert list(rows[0]) == [field.name for field in fields(HeadRecord)]
    assert float(rows[3]["margin_median"]) == atlas.heads[3].margin_median
    summary = json.loads(atlas.to_json(tmp_path / "atlas.json").read_text())
    assert summary["heads"][2] == asdict(atlas.heads[2])
    assert "corners" not in summary["slices"][0]
    assert "ratio_to_forward_pass" not in summary  # the same question gives the same bytes
    assert atlas.summary()["ratio_to_forward_pass"] == atlas.ratio
    frame = atlas.to_frame()
    assert list(frame["keys_can_win"]) == [record.keys_can_win for record in atlas.heads]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layers": [2]}, "layers must be between 0 and 1, but held 2"),
        ({"layers": [2, 3, 4]}, "but held 2 and 2 more"),
        ({"layers": []}, "layers must be a list"),
        ({"layers": [0.5]}, "layers must be a list of numbers"),
        ({"heads": [4]}, "heads must be between 0 and 3"),
        ({"heads": ["a"]}, "heads must be a list of numbers"),
        ({"positions": [7]}, "positions must be queries from 0 to 6"),
        ({"plane": "diagonal"}, "plane must be"),
        ({"plane": (0, 1)}, "layer 0: plane must name three tokens"),
        ({"sink_factor": 0.0}, "sink_factor"),
    ],
)
def test_wrong_wishes_get_one_sentence(options, sentence) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        hm.head_atlas(two_layers(), **options)


# The command
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = two_layers(present=causal(7))
    monkeypatch.setattr("hardmax.models.atlas.head_atlas.as_source", lambda model, *, tokenizer, hub: source)

    def run(*args: object):
        return CliRunner().invoke(main, ["atlas", *(str(arg) for arg in args)])

    return run


def test_tables_for_people(command) -> None:
    printed = command("model", "--text", "words").stdout
    assert "arrays (made up) on 7 tokens" in printed
    assert "7/7 at 6" in printed or "6/7 at 6" in printed
    assert "times the model's plain forward pass" in printed
    assert "Cells on the plane of three tokens of each layer" in printed


def test_without_a_model_the_one_that_comes_along_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str):
        return CliRunner().invoke(main, list(arguments))

    printed = run("atlas", "--plane", "none")
    assert printed.exit_code == 0, printed.output
    assert "pairwise-2 (hardmax training) on 16 tokens" in printed.stdout
    assert "15/15" in printed.stdout
    printed = run("influence", "--read-out", "15", "--draws", "5", "--out", "influence.npz")
    assert printed.exit_code == 0, printed.output
    assert "argmax: position 15 can know 6: x4 x7 x11 x12 x13 x15" in printed.stdout
    assert hm.load("influence.npz").model == "pairwise-2"
    for arguments in (("atlas", "--text", "a"), ("atlas", "--file", "a"), ("influence", "--texts", "a")):
        refused = run(*arguments)
        assert refused.exit_code == 2
        assert "a text needs a MODEL" in refused.stderr
    assert "must be a Hugging Face model" in run("influence", "--norms", "--draws", "5").stderr


def test_json_for_machines(command, tmp_path) -> None:
    (tmp_path / "text.txt").write_text("words", encoding="utf-8")
    result = command("model", "--file", "text.txt", "--layers", "0-1", "--heads", "1,3", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [(row["layer"], row["head"]) for row in report["heads"]] == [(0, 1), (0, 3), (1, 1), (1, 3)]
    assert len(report["slices"]) == 2
    none = json.loads(command("model", "--text", "w", "--plane", "none", "--json").stdout)
    assert none["slices"] == []


def test_files_of_the_command(command, tmp_path) -> None:
    result = command("model", "--text", "words", "--out", "atlas", "--plane", "0,1,2", "--positions", "3,5")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "atlas").iterdir()) == [
        "atlas.json",
        "atlas.npz",
        "heads.csv",
    ]
    atlas = hm.load(tmp_path / "atlas" / "atlas.npz")
    assert [piece.position for piece in atlas.slices] == [3, 5, 3, 5]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "give one of --text and --file"),
        (["--text", "a", "--file", "b"], "give one of --text and --file"),
        (["--file", "missing.txt"], "missing.txt must be a text file"),
        (["--file", "bytes.txt"], "must be a text file in UTF-8"),
        (["--text", "a", "--layers", "x"], "--layers must be numbers and ranges"),
        (["--text", "a", "--layers", "5-3"], "ranges that go up"),
        (["--text", "a", "--layers", "9"], "layers must be between 0 and 1"),
        (["--text", "a", "--layers", "9" * 5000], "at most 5 digits"),
        (["--text", "a", "--plane", "0,1"], "three tokens"),
        (["--text", "a", "--out", "no/where"], "its folder does not exist"),
    ],
)
def test_wrong_input_of_the_command(command, tmp_path, args, sentence) -> None:
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    result = command("model", *args)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert sentence in result.stderr
    assert not (tmp_path / "no").exists()


def test_lists_of_numbers() -> None:
    assert number_list("7", "--heads") == (7,)
    assert number_list("0,3-5, 9", "--heads") == (0, 3, 4, 5, 9)
    for wrong in ("", "-1", "1-2-3", "a", "1,,2", "²"):
        with pytest.raises(InvalidInputError, match="--heads"):
            number_list(wrong, "--heads")


# Pictures
# ----------------------------------------------------------------------------------------------------------


def _cell_at(piece: LayerSlice, point: np.ndarray) -> int:
    """The cell that holds a point of the plane."""
    for i, corners in enumerate(piece.polygons):
        ahead = np.roll(corners, -1, axis=0) - corners
        left = ahead[:, 0] * (point - corners)[:, 1] - ahead[:, 1] * (point - corners)[:, 0]
        if (left >= 0).all():
            return i
    raise AssertionError(f"no cell holds {point}")


def test_pictures_show_every_cell_token_and_head(atlas: hm.models.HeadAtlas) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection

    from hardmax.plotting.atlases import draw_slice

    piece = atlas.slices[0]
    axes = draw_slice(piece, tokens=atlas.text_tokens)
    assert any(len(found.get_paths()) == piece.n_cells for found in axes.collections)
    walls = [found for found in axes.collections if found.get_label().startswith("head ")]
    assert [len(found.get_segments()) for found in walls] == [len(piece.walls(i)) for i in range(4)]
    assert len({tuple(found.get_colors()[0]) for found in walls}) == 4  # one colour per head
    assert piece.holds.sum() >= 3  # the tokens that span the plane
    hollow, full = axes.collections[-2:]
    assert (len(hollow.get_offsets()), len(full.get_offsets())) == ((~piece.holds).sum(), piece.holds.sum())
    dots = np.concatenate([hollow.get_offsets(), full.get_offsets()])
    np.testing.assert_allclose(np.sort(dots, axis=0), np.sort(piece.token_places, axis=0))
    assert [text.get_text() for text in axes.texts] == list(atlas.text_tokens)
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    words = [text.get_window_extent(canvas.get_renderer()) for text in axes.texts]
    assert not any(a.overlaps(b) for a, b in combinations(words, 2))
    assert walls == [found for found in axes.collections if isinstance(found, LineCollection)]
    for h, lines in enumerate(walls):
        assert len(lines.get_segments()) > 0
        for a, b in lines.get_segments():  # the winner of this head differs on both sides, and no other does
            step = 1e-5 * np.array([a[1] - b[1], b[0] - a[0]]) / np.linalg.norm(b - a)
            here, there = (_cell_at(piece, (a + b) / 2 + side * step) for side in (1, -1))
            assert np.flatnonzero(piece.routings[here] != piece.routings[there]).tolist() == [h]
    assert f"{piece.n_cells} cells of 4 heads" in axes.get_title()
    assert piece.plot().get_xlabel() == f"plane of {piece.spanned_by}"
    [image] = atlas.plot().images
    assert image.get_array().shape == (2, 4)
    assert image.get_array()[1, 2] == atlas.of_layer(1)[2].top_probability
    with pytest.raises(InvalidInputError, match="box"):
        atlas.plot(box=hm.Box.cube(2, -1, 1))


def test_two_runs_write_the_same_bytes(tmp_path):
    """How long it took is in the result, but in no file."""
    written = []
    for name in ("one", "two"):
        found = hm.head_atlas(hm.models.bundled_source())
        assert found.cpu_seconds > 0.0
        saved, numbers = found.save(tmp_path / f"{name}.npz"), found.to_json(tmp_path / f"{name}.json")
        written.append((saved.read_bytes(), numbers.read_bytes()))
    assert written[0] == written[1]
    assert hm.load(tmp_path / "one.npz").cpu_seconds == 0.0
