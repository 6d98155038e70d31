"""Example VI.2 and figure 5, redone."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.recipes import find_recipe
from hardmax.plotting.temperatures import draw_temperatures, key_colours


def numbers(done) -> dict:
    with open(f"{done.folder}/numbers.json", encoding="utf-8") as file:
        return json.load(file)


def test_example_vi2_both_ways(tmp_path):
    done = hm.reproduce("tropical.exVI2", tmp_path)
    assert {"exVI2.svg", "exVI2.png", "bounds.csv", "comparison.md"} <= set(done.files)
    table = done.tables["bounds"]
    assert sorted(set(table["temperature"])) == [0.125, 1.0, 8.0]
    verdicts = {row.quantity: row.verdict for row in done.comparisons}
    assert verdicts["norm of the Hessian at most"] == "fails"
    assert verdicts["temperature of a standard head, d_k = 64"] == "fails"
    assert verdicts["value above the maximum"] == "holds (proved)"
    vacuous = [row for row in done.comparisons if row.verdict == "vacuous"]
    assert [row.computed.startswith("5 of 5 bounds say nothing") for row in vacuous] == [True, True]
    vacuous = [
        temperature for temperature, flag in zip(table["temperature"], table["vacuous"], strict=True) if flag
    ]
    assert sorted(set(vacuous)) == [1.0, 8.0]


def test_example_vi2_with_other_numbers_claims_nothing_about_the_paper():
    recipe = find_recipe("tropical.exVI2")
    outcome = recipe.run(recipe.settings(given={"n_tokens": 16, "margin": 30.0}))
    assert all("7.18e-6" not in row.paper for row in outcome.comparisons)
    numbers = [row for row in outcome.comparisons if row.claim == "tropical.ex_vi2_numbers"]
    assert [row.verdict for row in numbers] == ["not compared"] * 3


def test_a_head_of_one_dimension_has_temperature_one_either_way():
    recipe = find_recipe("tropical.exVI2")
    outcome = recipe.run(recipe.settings(given={"d_head": 1}))
    verdicts = {row.quantity: row.verdict for row in outcome.comparisons}
    assert verdicts["temperature of a standard head, d_k = 1"] == "holds numerically"
    assert verdicts["margin that gives the printed accuracy on raw scores"] == "holds numerically"


def test_figure_5_has_the_same_cells_at_every_temperature(tmp_path):
    done = hm.reproduce("tropical.fig5", tmp_path, settings={"grid": 61, "draws": 5}, seed=3)
    table = done.tables["temperatures"]
    assert len(set(table["cells_of_the_most_probable_key"])) == 1
    assert done.comparisons[0].verdict == "holds numerically"
    shares = list(table["share_above_99_percent"])
    assert shares == sorted(shares)
    assert shares[-1] > 0.95
    assert {"fig5.svg", "fig5.png"} <= set(done.files)
    assert numbers(done)["settings"]["grid"] == 61


def test_the_picture_shows_values_blended_by_softmax():
    diagram = hm.attention_diagram([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.1, 0.1]])
    figure = draw_temperatures(diagram, [1.0, 1e-3], box=hm.Box.cube(2, -2, 2), resolution=40)
    soft, hard = (np.asarray(ax.images[0].get_array()) for ax in figure.axes[:2])
    colours = key_colours(4)
    used = {tuple(np.round(colour, 6)) for colour in hard.reshape(-1, 3)}
    assert {tuple(np.round(colour, 6)) for colour in colours[:3]} <= used
    assert tuple(np.round(colours[3], 6)) not in used  # the last key has no cell
    x = -2 + 4 * (np.array([5, 31]) + 0.5) / 40  # pixel in column 5, row 31
    p = np.exp(diagram.sites @ x)
    assert soft[31, 5] == pytest.approx(p @ colours / p.sum(), abs=1e-9)
    assert all(len(ax.lines) == 3 for ax in figure.axes[:2])
