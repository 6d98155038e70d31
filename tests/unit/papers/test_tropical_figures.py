"""Figures 2, 3, 4, 6 and 7 of the tropical paper: every number is found a second time, without the code that
made it."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.papers import replay
from hardmax.regions.growth import Growth, HeadChoices, NetworkChoices, cell_growth, vertex_growth

SMALL = {
    "fig2": {"draws": 3},
    "fig3": {"draws": 5},
    "fig4": {"draws": 2},
    "fig6": {
        "seeds": 2,
        "samples": 20_000,
        "sweep_seeds": 2,
        "sweep_d_ff": (4,),
        "vertex_seeds": 2,
        "sweep_d_k": (1,),
    },
    "fig7": {"draws": 4},
}


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """Every recipe once, with small settings."""
    out = tmp_path_factory.mktemp("figures")
    return {name: hm.reproduce(f"tropical.{name}", out, settings=small) for name, small in SMALL.items()}


def table(done, name):
    """A table as it stands in the file."""
    with open(Path(done.folder) / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: [row[key] for row in rows] for key in rows[0]}


def numbers(done, name, *columns):
    found = table(done, name)
    return np.array([[float(value) for value in found[column]] for column in columns]).T


def codes(*columns):
    """The different rows of a table of small whole numbers."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code = 8 * code + np.asarray(column, dtype=np.int64)
    return np.unique(code).tolist()


def row(done, words):
    (found,) = [each for each in done.comparisons if words in each.quantity]
    return found


@pytest.mark.parametrize("name", SMALL)
def test_every_picture_has_titles_and_names_on_its_axes(figures, name):
    svg = "".join(path.read_text() for path in Path(figures[name].folder).glob("*.svg"))
    words = {
        "fig2": ["layer 1", "7 cells", "34 cells", "unit 3"],
        "fig3": ["Voronoi", "attention", "wall"],
        "fig4": ["6 vertices", "36 vertices", "92 vertices"],
        "fig6": ["number of keys", "Monte Carlo", "slope", "paper"],
        "fig7": ["A: attention", "7 cells", "8 cells", "wall: a routing changes"],
    }
    assert all(word in svg for word in words[name])


# Figure 2
# ----------------------------------------------------------------------------------------------------------


def test_figure_2_draws_34_cells_and_says_that_49_is_no_maximum(figures):
    done = figures["fig2"]
    assert row(done, "cells after layer 1").computed == "7"
    assert row(done, "most cells").computed == "between 34 (found) and 40 (bound)"
    assert row(done, "most cells").verdict == "fails"
    weights = numbers(done, "weights", "w0", "w1", "bias")[:3], table(done, "weights")
    w1, b1 = weights[0][:, :2], weights[0][:, 2]
    second = np.array([[float(weights[1][f"w{k}"][i]) for k in range(3)] for i in (3, 4, 5)])
    b2 = np.array([float(weights[1]["bias"][i]) for i in (3, 4, 5)])
    axis = np.linspace(-40.0, 40.0, 601) ** 3 / 1600 + 0.013  # fine near the middle, far out at the ends
    fine = np.linspace(-2.5, 7.5, 801)
    seen = set()
    for points in (axis, fine):
        x = np.array(np.meshgrid(points, points)).reshape(2, -1).T
        before = x @ w1.T + b1
        after = np.maximum(before, 0.0) @ second.T + b2
        seen |= set(codes(*(before > 0).T, *(after > 0).T))
    assert len(seen) == 34


# Figure 3
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["keys", "keys_light_corner"])
def test_figure_3_keys_have_a_cell_exactly_if_they_are_corners_of_the_hull(figures, name):
    found = table(figures["fig3"], name)
    keys = numbers(figures["fig3"], name, "k_0", "k_1")
    corners = set(ConvexHull(keys).vertices.tolist())
    assert [value == "True" for value in found["has_cell"]] == [j in corners for j in range(len(keys))]
    assert [bool(text) for text in found["combination_of"]] == [j not in corners for j in range(len(keys))]


def test_figure_3_the_lightest_key_keeps_its_cell(figures):
    found = table(figures["fig3"], "keys_light_corner")
    weights = [float(value) for value in found["weight"]]
    assert found["has_cell"][int(np.argmin(weights))] == "True"
    lost = [weight for weight, kept in zip(weights, found["has_cell"], strict=True) if kept == "False"]
    assert lost
    assert min(lost) > min(weights)
    assert "have none" in row(figures["fig3"], "heavier keys without a cell").computed


# Figure 4
# ----------------------------------------------------------------------------------------------------------


def test_figure_4_has_92_vertices_each_of_which_wins_somewhere(figures):
    done = figures["fig4"]
    assert table(done, "counts")["drawn"] == ["6", "36", "92"]
    assert table(done, "counts")["maximum"] == ["6", "36", "92"]
    assert (row(done, "most vertices").paper, row(done, "most vertices").computed) == ("216", "92")
    sets, _ = hm.geometry.parabolic_heads(6, 3, 3)
    choices = numbers(done, "vertices", "choice_0", "choice_1", "choice_2").astype(int)
    witnesses = numbers(done, "vertices", "witness_0", "witness_1", "witness_2")
    assert len(np.unique(choices, axis=0)) == 92
    for h, keys in enumerate(sets):
        scores = witnesses @ np.asarray(keys, dtype=float).T
        assert (scores.argmax(axis=1) == choices[:, h]).all()


def test_figure_4_with_other_numbers(tmp_path):
    done = hm.reproduce("tropical.fig4", tmp_path, settings={"n_tokens": 3, "heads": 2, "draws": 1})
    assert row(done, "most vertices").computed == "9"
    assert row(done, "most vertices").verdict == "holds (proved)"


# Figure 6
# ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 1000), min_size=4, max_size=4), min_size=2, max_size=5))
def test_slopes_are_those_of_a_least_squares_line(counts):
    growth = Growth((2, 3, 5, 7), np.array(counts))
    x = np.log([2, 3, 5, 7])
    lines = [np.polyfit(x, np.log(line), 1) for line in counts]
    np.testing.assert_allclose(growth.slopes, [line[0] for line in lines], atol=1e-9)
    slope, intercept = np.polyfit(x, np.log(np.mean(counts, axis=0)), 1)
    np.testing.assert_allclose([growth.slope, growth.intercept], [slope, intercept], atol=1e-9)
    np.testing.assert_allclose(growth.slope_spread, np.std([line[0] for line in lines], ddof=1), atol=1e-9)


def test_growth_needs_two_lengths_and_knows_no_spread_of_one_draw():
    with pytest.raises(InvalidInputError, match="at least two different N"):
        Growth((3, 3), np.array([[1, 2]]))
    assert np.isnan(Growth((2, 3), np.array([[1, 2]])).slope_spread)


@pytest.mark.parametrize("choices", [NetworkChoices(), NetworkChoices(d_k=2, score_bias=True, ffn_skip=True)])
def test_paired_networks_share_their_weights(choices):
    points = np.random.default_rng(1).uniform(-4, 4, (500, 2))
    compared = 0
    for seed in range(6):
        two, five = choices.draw((2, 5), 2, np.random.default_rng(seed))
        routing = [network.truncate(1).signature(points).routings for network in (two, five)]
        assert (routing[0] < 2).all()
        same = (routing[1] < 2).all(axis=1)  # where a later key wins, the networks may differ
        one, other = (network.truncate(2)(points[same]) for network in (two, five))
        np.testing.assert_array_equal(one, other)
        compared += int(same.sum())
    assert compared > 100


def test_unpaired_networks_share_nothing():
    two, five = NetworkChoices(pairing="unpaired").draw((2, 5), 1, np.random.default_rng(0))
    assert not np.array_equal(two.blocks[1].w_in.floats, five.blocks[1].w_in.floats)


@pytest.mark.parametrize(
    "wrong",
    [{"pairing": "half"}, {"box": 0.0}, {"box": -1.0}, {"heads": 0}, {"d_ff": -1}, {"ffn_bias": -1.0}],
)
def test_wrong_choices_of_networks_are_refused(wrong):
    with pytest.raises(InvalidInputError, match=r"must be"):
        NetworkChoices(**wrong).draw((2, 3), 1, np.random.default_rng(0))


def test_wrong_choices_of_heads_are_refused():
    with pytest.raises(InvalidInputError, match="tokens must be independent or shared"):
        HeadChoices(tokens="borrowed")


def test_random_points_find_no_more_signatures_than_there_are_cells(figures):
    cells, regions, signatures = numbers(figures["fig6"], "cells", "cells", "regions", "signatures").T
    assert (signatures <= cells).all()
    assert (regions <= cells).all()
    assert (signatures > 0.5 * cells).all()


def test_cells_of_figure_6_are_those_that_points_on_a_grid_find():
    """A fine grid finds nearly every cell of small networks, and never one that is not there."""
    choices = NetworkChoices(d_ff=3)
    found = cell_growth(choices, n_tokens=(2, 4), depths=(1, 2), draws=2, stream=np.random.default_rng)
    axis = np.linspace(-4.0, 4.0, 701)[:-1] + 0.0057
    points = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
    for i in range(2):
        for k, network in enumerate(choices.draw((2, 4), 2, np.random.default_rng(i))):
            for depth in (1, 2):
                counted = int(found[depth].cells.counts[i, k])
                signature = network.truncate(2 * depth).signature(points)
                seen = len(codes(*signature.routings.T, *signature.relu.T))
                assert counted - 2 <= seen <= counted


def test_vertices_of_figure_6_are_those_of_qhull():
    draws, n_tokens = 2, (3, 5)
    found = vertex_growth(
        HeadChoices(), n_tokens=n_tokens, heads=3, draws=draws, stream=np.random.default_rng
    )
    for i in range(draws):
        factors = HeadChoices().draw(5, 3, np.random.default_rng(i))
        for k, n in enumerate(n_tokens):
            heads = [chain[0].floats[:n] @ chain[1].floats for chain in factors]
            for h in (2, 3):
                sums = [sum(keys) for keys in product(*heads[:h])]
                assert found[h - 1].counts[i, k] == len(ConvexHull(sums).vertices)


@pytest.mark.parametrize("tokens", ["independent", "shared"])
def test_heads_of_low_rank_stay_of_low_rank(tokens):
    flat = vertex_growth(
        HeadChoices(d_k=1, tokens=tokens), n_tokens=(2, 6), heads=3, draws=1, stream=np.random.default_rng
    )
    assert [growth.counts.tolist() for growth in flat] == [[[2, 2]], [[4, 4]], [[8, 8]]]
    plane = vertex_growth(
        HeadChoices(d_k=2, tokens=tokens), n_tokens=(2, 6), heads=1, draws=1, stream=np.random.default_rng
    )
    factors = HeadChoices(d_k=2, tokens=tokens).draw(6, 1, np.random.default_rng(0))[0]
    keys = (
        np.linalg.multi_dot([chain.floats for chain in factors[:-1]])
        if len(factors) > 2
        else factors[0].floats
    )
    assert plane[0].counts[0, 1] == len(ConvexHull(keys).vertices)


def test_the_slopes_of_figure_6b_are_those_that_were_measured_before():
    """0.994, 1.738 and 2.078 for Gaussian heads of full rank, up to the error of twelve draws."""
    found = vertex_growth(
        HeadChoices(),
        n_tokens=range(2, 8),
        heads=3,
        draws=12,
        stream=lambda i: np.random.default_rng([66, i]),
    )
    for growth, slope in zip(found, (0.994, 1.738, 2.078), strict=True):
        assert abs(growth.slope - slope) < 3 * growth.slope_error + 0.01
    assert found[0].slope < found[1].slope < found[2].slope


def test_one_panel_of_figure_6_and_no_random_points(tmp_path):
    done = hm.reproduce(
        "tropical.fig6",
        tmp_path,
        settings={"part": "a", "seeds": 1, "samples": 0, "sweep_seeds": 1, "lengths": "2,3", "depths": "1"},
    )
    assert "vertices.csv" not in done.files
    assert table(done, "cells")["signatures"] == ["", ""]
    assert not [each for each in done.comparisons if "Monte Carlo" in each.quantity]


def test_one_length_has_no_slope(tmp_path):
    with pytest.raises(InvalidInputError, match="at least two different N"):
        hm.reproduce("tropical.fig6", tmp_path, settings={"part": "a", "lengths": "3", "seeds": 1})


# Figure 7
# ----------------------------------------------------------------------------------------------------------


def test_figure_7_counts_eight_cells_where_the_paper_has_seven(figures):
    done = figures["fig7"]
    assert table(done, "drawn")["cells_of_the_plane"] == ["2", "4", "7", "8"]
    weights = dict(
        zip(table(done, "weights")["vector"], numbers(done, "weights", "x1", "x2", "bias"), strict=True)
    )
    axis = np.linspace(-12.0, 12.0, 481) + 0.0123
    x = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
    scores = np.array([x @ weights[f"key {j}"][:2] + weights[f"key {j}"][2] for j in range(2)])
    winner = scores.argmax(axis=0)
    values = np.array([weights[f"value {j}"][:2] for j in range(2)])
    for shift, cells in ((0.0, 7), (1.0, 8)):
        y = x + shift * values[winner]
        on = [y @ weights[f"unit {i}"][:2] + weights[f"unit {i}"][2] > 0 for i in range(2)]
        assert len(codes(winner, *on)) == cells


def test_figure_7_the_product_bound_holds(figures):
    attention, relu, _, block = numbers(
        figures["fig7"], "random", "attention", "relu_layer", "common_refinement", "block"
    ).T
    assert (block <= attention * relu).all()


# The ledger's lines about figure 6
# ----------------------------------------------------------------------------------------------------------


def test_heads_without_interior_keys_have_sums_that_are_not_extreme():
    ledger = hm.check_claims("tropical.fig6b_interior_explanation")
    assert list(ledger.verdicts.values()) == ["fails"]
    entry = ledger["tropical.fig6b_interior_explanation"]
    certificate = entry.certificate
    assert certificate.expected["extreme_keys"] == [7, 7, 7]
    assert certificate.expected["vertices"] < certificate.expected["sums"] == 343
    heads = [np.array(rows, dtype=float) for rows in certificate.data["heads"]]
    sums = [sum(keys) for keys in product(*heads)]
    assert len(ConvexHull(sums).vertices) == certificate.expected["vertices"]
    for name, change in TAMPERED.items():
        record = json.loads(json.dumps(certificate.record(entry, entry.verdict)))
        change(record["data"])
        assert replay.failure(record) is not None, name


TAMPERED = {
    "a vertex is left out": lambda data: data["winners"].pop(),
    "a loser is left out": lambda data: data["losers"].pop(),
    "another query": lambda data: data["winners"][0].__setitem__(1, data["winners"][1][1]),
    "a query on a wall": lambda data: data["winners"][0].__setitem__(1, [0, 0, 0, 0]),
    "another key": lambda data: data["heads"][0][0].__setitem__(0, 99),
    "weights": lambda data: data["losers"][0].__setitem__(2, [1] * len(data["losers"][0][2])),
    "itself": lambda data: data["losers"].__setitem__(0, [data["losers"][0][0], [data["losers"][0][0]], [1]]),
    "a key that is not there": lambda data: data["losers"][0][1].__setitem__(0, [0, 0, 7]),
}
