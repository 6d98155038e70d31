"""Exact regions of thousands of small networks, generic and degenerate, against the rational enumerator.

Every kind of network meets every kind of domain. Held against it are the signatures and their order, polygons
(exactly), vertices within their bounds, witnesses with their margins, areas, maps, adjacent cells and what
lies between them, and regions; every fourth network also with all decisions in rationals.
``tests/scripts/sweeps.py --only plane`` goes on with as many more as asked for.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from oracles.judging_regions import judge, signatures_of
from oracles.random_networks import KINDS, PLACES, instance, rescaled
from oracles.rational_regions import enumerate_rationally, exact_forward, integers, reduced

ROUNDS = 13  # networks of every kind on every kind of domain


def numbers(kind: str, rounds: int, first: int = 0) -> list[int]:
    """Numbers of instances of one kind, all kinds of domains in turn."""
    start = list(KINDS).index(kind)
    turns = range(first * len(PLACES), (first + rounds) * len(PLACES))
    return [start + len(KINDS) * turn for turn in turns]


@pytest.mark.parametrize("kind", KINDS)
def test_regions_are_those_of_the_rational_enumerator(kind):
    for turn, number in enumerate(numbers(kind, ROUNDS)):
        case = instance(number)
        share = (turn + turn // len(PLACES)) % 4 == 0  # every kind of domain gets its share
        judgement = judge(
            case, ("certified", "exact") if share else ("certified",), counting=turn % 2 == 0 or share
        )
        assert not judgement.problems, f"{judgement.problems}\n{case!r}"


def test_there_are_enough_networks_and_they_are_varied():
    every = [instance(number) for kind in KINDS for number in numbers(kind, ROUNDS)]
    assert len({case.number for case in every}) == len(every) >= 2000
    assert {(case.kind, case.place) for case in every} == {
        (kind, place) for kind in KINDS for place in PLACES
    }
    blocks = [block for case in every for block in case.network.blocks]
    assert {(type(block).__name__, block.skip) for block in blocks} == {
        ("Attention", True),
        ("Attention", False),
        ("FeedForward", True),
        ("FeedForward", False),
        ("Affine", False),
    }


# On the line ------------------------------------------------------------------------------------


def on_a_line(case):
    """The network of an instance on a line, and its interval."""
    rng = np.random.default_rng(case.number)
    origin = [Fraction(int(v), 3) for v in rng.integers(-6, 7, 2)]
    direction = rng.integers(-3, 4, 2)
    direction[0] += not direction.any()
    low = Fraction(int(rng.integers(-12, 3)), 3)
    interval = hm.Box([low], [low + Fraction(int(rng.integers(1, 20)), 3)])
    return case.network.restrict(origin, [direction.tolist()]), interval


@pytest.mark.parametrize("kind", KINDS)
def test_cells_on_a_line_are_those_of_a_strip(kind):
    """A network on an interval is the network on a strip that forgets the second coordinate."""
    for number in numbers(kind, 2, first=1000):
        network, interval = on_a_line(instance(number))
        strip = hm.Box([interval.low.rational(0), 0], [interval.high.rational(0), 1])
        wide = hm.Network([hm.Affine([[1, 0]], [0]), *network.blocks])
        expected = enumerate_rationally(wide, strip)
        found = hm.enumerate_regions(network, interval)
        assert signatures_of(found) == expected.signatures
        assert found.witnesses.shape == (found.n_cells, 1)
        assert np.allclose(found.volumes, [float(cell.area) for cell in expected.cells], rtol=1e-7, atol=0)
        assert {tuple(pair) for pair in found.adjacency.tolist()} == set(expected.adjacency)
        assert found.region_of_cell.tolist() == expected.region_of_cell
        assert found.linear.shape == (found.n_cells, network.d_out, 1)
        for i, cell in enumerate(expected.cells):
            ends = sorted({Fraction(x, t) for polygon in cell.polygons for x, _, t in polygon})
            assert sorted(row[1] / row[0] for row in found.exact_halfspaces(i)) == ends
            assert len(found.cell_vertices(i)) == 2
        whole = hm.enumerate_regions(network, hm.WholeSpace(1))
        expected = enumerate_rationally(wide, hm.Polytope([[0, 1], [0, -1]], [1, 0]))
        assert signatures_of(whole) == expected.signatures
        assert whole.region_of_cell.tolist() == expected.region_of_cell
        assert whole.bounded.tolist() == [cell.bounded for cell in expected.cells]


# The same question asked in another way ---------------------------------------------------------


# four of the six kinds of domains for every kind of network, in turn
SOME = [numbers(kind, 1, first=1010)[(k + j) % len(PLACES)] for k, kind in enumerate(KINDS) for j in range(4)]


def test_results_do_not_depend_on_jobs_limits_or_the_arithmetic():
    for number in SOME[::3]:
        case = instance(number)
        found = hm.enumerate_regions(case.network, case.domain)
        for options in ({"n_jobs": 2}, {"max_cells": 10**6, "time_limit": 600.0}, {"arithmetic": "exact"}):
            other = hm.enumerate_regions(case.network, case.domain, **options)
            assert signatures_of(other) == signatures_of(found), case
            assert (other.linear == found.linear).all(), case
            assert (other.offset == found.offset).all(), case


def test_cells_by_depth_are_the_cells_of_the_first_blocks():
    for number in SOME:
        case = instance(number)
        depths = [
            hm.count_cells(case.network.truncate(i + 1), case.domain).n_cells
            for i, block in enumerate(case.network.blocks)
            if type(block).__name__ != "Affine"
        ]
        assert list(hm.count_cells(case.network, case.domain).cells_by_depth) == depths, case


def test_a_factor_two_changes_nothing():
    """Scores and pre-activations times a power of two, the plane times another: the same cells, exactly."""
    for number in SOME:
        case = instance(number)
        if case.place != "whole plane":
            continue
        blocks = []
        for block in case.network.blocks:
            if type(block).__name__ == "Attention":
                scores, biases = times(block.scores, 1024), times(block.biases, 1024)
                block = hm.Attention(scores, biases, block.outputs, mask=block.mask, skip=block.skip)
            elif type(block).__name__ == "FeedForward" and block.w_in is not None:
                w_in, b_in = times(block.w_in, 2), times(block.b_in, 2)
                block = hm.FeedForward(
                    w_in, b_in, times(block.w_out, Fraction(1, 2)), block.b_out, skip=block.skip
                )
            blocks.append(block)
        found = hm.enumerate_regions(case.network, case.domain)
        scaled = hm.enumerate_regions(hm.Network(blocks), case.domain)
        shrunk = hm.Network([hm.Affine([[0.25, 0], [0, 0.25]], [0, 0]), *case.network.blocks])
        assert signatures_of(scaled) == signatures_of(found), case
        assert scaled.region_of_cell.tolist() == found.region_of_cell.tolist(), case
        assert signatures_of(hm.enumerate_regions(shrunk, case.domain)) == signatures_of(found), case


def times(array, factor):
    """An exact array times a number, as nested lists."""
    exact = array.fractions if array.fractions is not None else array.floats
    values = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        values[index] = Fraction(exact[index]) * factor
    return values.tolist()


def test_a_part_of_the_domain_has_some_of_the_cells():
    """Cut by a line, the two halves have the cells of the whole: each cell once, or in both halves."""
    for number in SOME:
        case = instance(number)
        if case.place not in ("polygon", "unbounded polygon", "many sides"):
            continue
        rng = np.random.default_rng(number)
        row, right = rng.integers(-3, 4, 2), int(rng.integers(-4, 5))
        row[0] += 4 * (not row.any())
        whole = signatures_of(hm.enumerate_regions(case.network, case.domain))
        halves = []
        for sign in (1, -1):
            a = np.concatenate([case.domain.a.floats, [sign * row]])
            b = np.append(case.domain.b.floats, sign * right)
            try:
                halves.append(signatures_of(hm.enumerate_regions(case.network, hm.Polytope(a, b))))
            except hm.errors.EmptyDomainError:
                halves.append([])
        assert sorted(set(halves[0]) | set(halves[1])) == sorted(whole), case
        assert all(set(half) <= set(whole) for half in halves), case


def test_a_saved_result_tells_the_same(tmp_path):
    for number in SOME[::4]:
        case = instance(number)
        found = hm.enumerate_regions(case.network, case.domain)
        found.save(tmp_path / "regions.npz")
        loaded = hm.load(tmp_path / "regions.npz")
        assert signatures_of(loaded) == signatures_of(found), case
        assert loaded.region_of_cell.tolist() == found.region_of_cell.tolist(), case
        assert (loaded.adjacency == found.adjacency).all(), case
        assert [loaded.exact_halfspaces(i) for i in range(loaded.n_cells)] == [
            found.exact_halfspaces(i) for i in range(found.n_cells)
        ], case


def test_points_are_located_in_their_cells():
    """Wherever the float forward pass sees the exact signature of a point, its cell is found and contains
    it."""
    rng = np.random.default_rng(5)
    located = 0
    for number in SOME[::2]:
        case = instance(number)
        found = hm.enumerate_regions(case.network, case.domain)
        index = {signature: i for i, signature in enumerate(signatures_of(found))}
        points = 3 * rng.standard_normal((20, 2))
        points = points[case.domain.contains(points)]
        assert len(found.locate(points)) == len(points)
        for point, i in zip(points, found.locate(points).tolist(), strict=True):
            x, y = map(Fraction, point.tolist())
            exact = exact_forward(case.network, (x, y))[:2]
            cell = index[exact]  # a random point lies on no line
            assert all(a * x + b * y < c for a, b, c in found.exact_halfspaces(cell)), case
            signature = case.network.signature(point)
            if (
                tuple(signature.routings[0].tolist()),
                tuple(signature.relu[0].astype(int).tolist()),
            ) == exact:
                assert i == cell, case
                located += 1
    assert located > 300


def test_wide_outputs_are_glued_as_narrow_ones():
    """Maps with many rows are told apart by combinations of them; twelve copies change nothing."""
    for number in SOME:
        case = instance(number)
        e = case.network.d_out
        rows = np.random.default_rng(number).integers(-2, 3, (12, e))
        rows[:e] = np.eye(e)
        wide = hm.Network([*case.network.blocks, hm.Affine(rows, np.zeros(12))])
        expected = enumerate_rationally(case.network, case.domain)
        found = hm.enumerate_regions(wide, case.domain)
        assert found.region_of_cell.tolist() == expected.region_of_cell, case
        assert found.linear.shape == (found.n_cells, 12, 2)


def test_half_spaces_are_in_lowest_terms_and_not_redundant():
    for number in SOME[::2]:
        case = instance(number)
        found = hm.enumerate_regions(case.network, case.domain)
        for i in range(found.n_cells):
            rows = found.exact_halfspaces(i)
            directions = {reduced(tuple(integers(np.array(row[:2], dtype=object))[0])) for row in rows}
            assert len(directions) == len(rows), case  # no two parallel rows that face the same way
            assert all(max(abs(v) for v in row[:2]) == 1 for row in rows), case


# At the ends of the range of floats -------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_scales_do_not_matter(place):
    """Weights and domains times powers of two between 2^-1000 and 2^1000."""
    start = list(PLACES).index(place)
    for kind in range(len(KINDS)):
        case = rescaled(instance(kind + len(KINDS) * start))
        judgement = judge(case, ("certified", "exact") if kind % 4 == 0 else ("certified",))
        assert not judgement.problems, f"{judgement.problems}\n{case!r}"
