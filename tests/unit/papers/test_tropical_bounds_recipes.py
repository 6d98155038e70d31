"""P1 figure 1, examples III.3 and V.3, tables I and II: what their recipes find, and that they could fail."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.papers.tropical import sec3_algebra
from hardmax.papers.tropical.sec3_algebra import NOTATION, notation_page, resolve
from hardmax.papers.tropical.sec5_theorem_v7 import _with_moved_fold

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("recipes")


def column(done, table, name):
    return list(done.tables[table][name])


def test_figure_1(out):
    done = hm.reproduce("tropical.fig1", out)
    assert column(done, "counts", "regions") == column(done, "counts", "cells") == [64, 4096, 262144]
    assert column(done, "counts", "N^(dL)") == [16, 256, 4096]
    assert column(done, "counts", "paper_lower_bound") == [16, 256, 4096]
    assert column(done, "counts", "(2wN)^(dL)") == [64, 4096, 262144]
    assert column(done, "counts", "upper_bound") == [176, 176**2, 176**3]
    assert column(done, "counts", "cells_with_fold_on_the_border") == [64, None, None]
    assert "exactly" in done.comparisons[2].computed
    verdicts = {row.claim: row.verdict for row in done.comparisons if row.claim}
    assert verdicts == {
        "tropical.v7_formula_equality": "fails",
        "tropical.v7_bound": "holds numerically",
        "tropical.v7_count": "holds numerically",
    }
    assert {"fig1.svg", "fig1.png", "counts.csv", "numbers.json", "comparison.md"} <= set(done.files)
    numbers = json.loads((Path(done.folder) / "numbers.json").read_text())
    assert "262144" in json.dumps(numbers)


def test_moving_the_fold_changes_nothing_on_the_square():
    """Values in rationals, also on walls and folds, and the count of cells."""
    for d, n, teeth, depth in ((1, 3, 2, 2), (2, 2, 1, 2), (2, 3, 2, 1)):
        network = hm.networks.sawtooth_network(d, n, teeth, depth)
        moved = _with_moved_fold(network)
        rng = np.random.default_rng(n)
        for row in rng.integers(0, 61, (60, d)):
            x = [Fraction(int(k), 60) for k in row]
            assert moved.exact_value(x) == network.exact_value(x)
        square = hm.Box.cube(d, 0, 1)
        assert int(hm.count_cells(moved, square)) == int(hm.count_cells(network, square))
        outside = [Fraction(-2)] * d
        assert moved.exact_value(outside) != network.exact_value(outside)


def test_example_iii3(out):
    done = hm.reproduce("tropical.exIII3", out, settings={"draws": 40})
    assert column(done, "bounds", "cells") == [49, 40, 34, 34]
    cells = column(done, "random_networks", "cells")
    assert sum(column(done, "random_networks", "networks")) == 40
    assert max(cells) <= 34
    assert done.comparisons[1].verdict == "fails"
    layers = [[], []]
    for layer, weights, bias in zip(
        *(column(done, "weights", name) for name in ("layer", "weights", "bias")), strict=True
    ):
        layers[layer - 1].append((*map(int, weights.split()), bias))
    rebuilt = hm.Network.mlp(
        [([row[:-1] for row in rows], [row[-1] for row in rows]) for rows in layers] + [(np.eye(3), [0] * 3)]
    )
    assert int(hm.count_cells(rebuilt, hm.WholeSpace(2))) == 34  # the table holds all that is needed


def test_example_v3(out):
    done = hm.reproduce("tropical.exV3", out)
    assert column(done, "budget", "heads")[-1] == 512
    assert column(done, "budget", "most_cells")[3] == "4.722e21"
    assert done.comparisons[2].paper == "1.1e21"
    assert [row.verdict for row in done.comparisons[:4]] == [
        "holds (proved)",
        "holds (proved)",
        "fails as printed (a misprint)",
        "holds (proved)",
    ]
    narrow = hm.reproduce("tropical.exV3", out, settings={"n_tokens": 9, "d_model": 2, "heads": 2})
    assert [row.computed for row in narrow.comparisons[2:4]] == ["4", "H = 1, width 2: 9; width 1: 4"]
    assert [row.verdict for row in narrow.comparisons[2:4]] == ["fails", "fails"]
    assert column(done, "counted", "counted") == column(done, "counted", "maximum") == [5, 25, 16]
    with pytest.raises(InvalidInputError, match=r"heads must divide d_model \(512\), but was 7"):
        hm.reproduce("tropical.exV3", out, settings={"heads": 7})


def test_table_1(out):
    done = hm.reproduce("tropical.table1", out)
    assert column(done, "notation", "symbol") == [row.symbol for row in NOTATION]
    assert all(resolve(name) is not None for row in NOTATION for name in row.code)
    assert sum(not row.code for row in NOTATION) == 1


@pytest.mark.parametrize(
    "name", ["hm.nothing", "hm.regions.RegionSet.nothing", "hm.bounds.zaslavsky(m)", "zaslavsky", "hm"]
)
def test_a_stale_name_is_found(name):
    with pytest.raises(InvalidInputError, match="which does not exist"):
        resolve(name)


def test_the_notation_page_is_fresh():
    assert (ROOT / "docs" / "notation.md").read_text() == notation_page()


def test_table_2(out):
    done = hm.reproduce("tropical.table2", out, settings={"draws": 20})
    assert column(done, "checks", "agreeing") == column(done, "checks", "cases") == [20] * 6
    assert {row.verdict for row in done.comparisons} == {"holds numerically"}


@pytest.mark.parametrize(
    ("broken", "replacement", "row"),
    [
        ("oplus", lambda a, b, temperature=0.0: a + b, 0),
        ("otimes", lambda a, b: max(a, b), 1),
        ("minkowski_vertices", lambda keys: hm.minkowski_vertices(keys[:1]), 5),
    ],
)
def test_table_2_notices_a_broken_operation(out, monkeypatch, broken, replacement, row):
    monkeypatch.setattr(sec3_algebra, broken, replacement)
    done = hm.reproduce("tropical.table2", out, settings={"draws": 10})
    assert done.comparisons[row].verdict == "fails"


def test_a_budget_has_a_picture():
    axes = hm.bounds.head_budget(16, 8).plot()
    assert axes.get_title() == "256 parameters, $N = 16$"
    with pytest.raises(InvalidInputError, match="a budget is drawn whole"):
        hm.bounds.head_budget(16, 8).plot(box=hm.Box.cube(2, 0, 1))
