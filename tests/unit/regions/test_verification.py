"""Verification: it passes on what is right, and finds what was spoiled."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracles.made_cells import changed
from oracles.random_networks import instance

import hardmax as hm
from hardmax.errors import CertificateError
from hardmax.regions.verify import exact_signature

SQUARE = hm.Box.cube(2, -4, 4)
NAMES = ["distinct", "witnesses", "maps", "areas", "points", "closed", "crossings", "borders"]


def transformer():
    return hm.Network.random(2, 6, 2, 1, 8, np.random.default_rng(0))


def failed(regions) -> set[str]:
    return {line.split()[0] for line in regions.verify(n_points=500).failures}


@pytest.mark.parametrize("number", range(0, 300, 6))
def test_right_answers_pass(number):
    one = instance(number)
    report = hm.enumerate_regions(one.network, one.domain).verify(n_points=100)
    assert report.ok, report
    assert list(report.checks) == NAMES
    report.require()


def test_the_report_says_what_was_done():
    found = hm.enumerate_regions(transformer(), SQUARE)
    report = found.verify(n_points=321)
    assert report.ok
    assert set(report.checks.values()) == {"passed"}
    assert report.counts["points"] == 321
    assert report.counts["witnesses"] == found.n_cells
    assert report.counts["crossings"] == len(found.adjacency)
    assert "areas passed" in repr(report)


def test_the_line():
    head = hm.Attention([[[1.0], [-1.0]]], None, [[[3.0], [0.0]]])
    net = hm.Network([head, hm.FeedForward([[1.0]], [-1.0], [[1.0]], [0.0])])
    for domain in (hm.Box([-4], [4]), hm.WholeSpace(1)):
        assert hm.enumerate_regions(net, domain).verify(n_points=50).ok


def test_a_search_that_was_stopped_is_not_blamed():
    found = hm.enumerate_regions(transformer(), SQUARE, max_cells=20)
    assert not found.complete
    report = found.verify(n_points=100)
    assert report.ok
    assert report.checks["closed"].startswith("skipped")
    assert report.checks["witnesses"] == "passed"


def test_a_missing_cell_is_found():
    found = hm.enumerate_regions(transformer(), SQUARE)
    largest = int(found.volumes.argmax())
    kept = np.delete(np.arange(found.n_cells), largest)
    assert {"areas", "points", "closed", "borders"} <= failed(replace(found, cells=found.cells.select(kept)))


def test_a_cell_listed_twice_is_found():
    found = hm.enumerate_regions(transformer(), SQUARE)
    twice = np.sort(np.append(np.arange(found.n_cells), 5))
    assert "distinct" in failed(replace(found, cells=found.cells.select(twice)))


def test_a_wrong_signature_is_found():
    found = hm.enumerate_regions(transformer(), SQUARE)
    routings = found.cells.routings.copy()
    routings[3, 0] = (routings[3, 0] + 1) % 6
    spoiled = replace(found, cells=replace(found.cells, routings=routings))
    assert "witnesses" in failed(spoiled)
    with pytest.raises(CertificateError, match="the witness of cell 3"):
        spoiled.verify(n_points=10).require()


def test_a_wrong_map_is_found():
    found = hm.enumerate_regions(transformer(), SQUARE)
    other = hm.Network([*transformer().blocks[:-1], hm.FeedForward(*_changed(transformer().blocks[-1]))])
    spoiled = replace(found, network=other)  # the cells of one network, the outputs of another
    spoiled.__dict__["_maps"] = found._maps
    assert failed(spoiled) == {"maps"}


def _changed(block):
    w_out = block.w_out.floats.copy()
    w_out[0, 0] += 1e-3
    return block.w_in, block.b_in, w_out, block.b_out


def test_a_wrong_polygon_is_found():
    found = hm.enumerate_regions(transformer(), SQUARE)
    vx = found.cells.vx.copy()
    vx[found.cells.facets.offsets[7]] += 0.5
    assert "areas" in failed(replace(found, cells=changed(found.cells, "vertices", 0, vx)))


def test_signatures_in_rationals():
    net = jumping = hm.Network(
        [hm.Attention([[[1], [-1], [1]]], None, [[[2], [0], [4]]]), hm.FeedForward(None, [-3], [[1]], [0])]
    )
    assert exact_signature(net, [Fraction(1, 7)]) == ([0], [True], True)  # keys 0 and 2 tie: the mean is 3
    assert exact_signature(jumping, [Fraction(0)]) == ([0], [False], True)
    assert exact_signature(jumping, [Fraction(-1, 7)]) == ([1], [False], False)
