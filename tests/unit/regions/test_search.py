"""The search engine: against the rational enumerator, golden counts, other methods in seven and eight
dimensions, and itself when it is interrupted, split or asked about its cells."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from oracles.judging_space import judge_space, searched, space_problems, touching_problems
from oracles.random_networks import instances
from oracles.random_space import SPACE_KINDS, space_instance
from oracles.rational_space import enumerate_space

import hardmax as hm
from hardmax.errors import EmptyDomainError, UnsupportedDimensionError
from hardmax.networks.layers import layers_of
from hardmax.regions.cells import Cells, JoinedTables
from hardmax.regions.search.geometry import (
    HalfspaceGeometry,
    facet_numbers,
    inner_point,
    is_bounded,
    share_facet,
)
from hardmax.regions.search.machine import SearchMachine


def machine_of(network, domain, arithmetic="certified", store=True):
    return SearchMachine(layers_of(network), domain, arithmetic=arithmetic, store=store)


def finished(machine, steps=100_000):
    while not machine.done:
        machine.advance(steps)
    return machine


def perceptron(widths):
    rng, layers = np.random.default_rng(0), []
    for n, m in pairwise(widths):
        layers.append((rng.standard_normal((m, n)) / np.sqrt(n), 0.5 * rng.standard_normal(m)))
    return hm.Network.mlp(layers)


def rows_of(cells):
    return [(*r.tolist(), *b.tolist()) for r, b in zip(cells.routings, cells.bits, strict=True)]


# Against the rational enumerator ----------------------------------------------------------------


@pytest.mark.parametrize("kind", SPACE_KINDS)
def test_cells_and_contacts_are_those_of_the_rational_enumerator(kind):
    """Signatures in order, facets, boundedness, witnesses, maps, adjacency and regions."""
    first = list(SPACE_KINDS).index(kind)
    for turn in range(4):
        case = space_instance(first + turn * len(SPACE_KINDS))
        judgement = judge_space(case, ("certified", "exact") if turn == 1 else ("certified",), searched)
        assert not judgement.problems, f"{judgement.problems}\n{case!r}"


def test_every_dimension_from_one_on():
    """The plane and the line are searched like everything else."""
    for case in instances(26):
        judgement = judge_space(case, ("certified",), searched)
        assert not judgement.problems, f"{judgement.problems}\n{case!r}"
    hat = hm.Network([hm.FeedForward([[1.0], [1.0], [1.0]], [1.0, 0.0, -1.0], [[1.0, -2.0, 1.0]], [0.0])])
    found, _ = searched(hat, hm.WholeSpace(1))
    assert (found.n_cells, found.adjacency.tolist()) == (4, [[0, 1], [1, 2], [2, 3]])
    assert found.bounded.tolist() == [False, True, True, False]


# Golden counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "cells"),
    [([3, 16, 16, 1], 2936), ([4, 16, 16, 1], 17249), ([5, 12, 12, 1], 27477), ([6, 10, 10, 1], 17176)],
)
def test_golden_counts_of_perceptrons(widths, cells):
    machine = finished(machine_of(perceptron(widths), hm.Box.cube(widths[0], -4, 4), store=False))
    assert machine.n_cells == cells


@pytest.mark.parametrize(("d", "units"), [(7, 10), (8, 10), (7, 5)])
def test_hyperplanes_in_general_position_in_high_dimensions(d, units):
    """sum_{k <= d} C(n, k) cells, C(n - 1, d) of them bounded, n pieces of sum_{k < d} C(n - 1, k) cells."""
    rng = np.random.default_rng(d)
    w, b = rng.standard_normal((units, d)), rng.standard_normal(units)
    net = hm.Network([hm.FeedForward(w, b, rng.standard_normal((1, units)), [0.0])])
    found, _ = searched(net, hm.WholeSpace(d))
    assert found.n_cells == found.n_regions == sum(comb(units, k) for k in range(d + 1))
    assert int(found.bounded.sum()) == comb(units - 1, d)
    counted = finished(machine_of(net, hm.WholeSpace(d), store=False))
    assert (counted.n_cells, counted.n_unbounded) == (found.n_cells, found.n_cells - comb(units - 1, d))
    assert len(found.adjacency) == units * sum(comb(units - 1, k) for k in range(d))
    assert found.volumes is None
    assert found.coverage is None
    assert (found.locate(found.witnesses) == np.arange(found.n_cells)).all()


@pytest.mark.parametrize(
    ("d", "heads", "keys", "biased"),
    [(3, 3, 7, True), (4, 2, 9, True), (7, 2, 8, True), (8, 2, 7, True), (4, 2, 9, False), (7, 2, 9, False)],
)
def test_attention_in_the_whole_space_has_one_cell_per_vertex_of_a_minkowski_sum(d, heads, keys, biased):
    rng = np.random.default_rng([d, heads, keys])
    scores, biases = rng.standard_normal((heads, keys, d)), rng.standard_normal((heads, keys))
    net = hm.Network([hm.Attention(scores, biases if biased else None, scores)])
    machine = finished(machine_of(net, hm.WholeSpace(d)))
    vertices = hm.minkowski_vertices(list(scores), list(biases) if biased else None)
    assert machine.cells().routings.tolist() == sorted(vertices.choices.tolist())


def test_a_transformer_in_seven_dimensions():
    """Every sampled signature is listed, and every witness has its own."""
    net = hm.Network.random(7, 4, 2, 1, 7, 0)
    box = hm.Box.cube(7, -2, 2)
    found, _ = searched(net, box)
    points = np.random.default_rng(0).uniform(-2, 2, (4000, 7))
    assert (found.locate(points) >= 0).all()
    assert (found.locate(found.witnesses) == np.arange(found.n_cells)).all()
    assert (found.margins > 0).all()


# Interrupted, split, limited --------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformer():
    return hm.Network.random(3, 5, 2, 2, 6, 1), hm.Box.cube(3, -3, 3)


@pytest.mark.parametrize("steps", [1, 7, 100])
def test_a_machine_that_is_stopped_and_restored_goes_on_as_if_nothing_had_happened(transformer, steps):
    whole = finished(machine_of(*transformer)).cells()
    machine = machine_of(*transformer)
    for _ in range(40):
        machine.advance(steps)
        again = machine_of(*transformer)
        again.restore({name: array.copy() for name, array in machine.state().items()})
        machine = again
    found = finished(machine).cells()
    for name in ("bits", "routings", "tied", "owner", "wall", "witnesses", "margins"):
        assert np.array_equal(getattr(found, name), getattr(whole, name)), name
    assert np.array_equal(found.facets.offsets, whole.facets.offsets)


@pytest.mark.parametrize("steps", [0, 5, 60])
def test_parts_of_a_machine_together_find_what_it_finds(transformer, steps):
    whole = finished(machine_of(*transformer))
    machine = machine_of(*transformer)
    machine.advance(steps)
    parts = [machine.cells()]
    count = machine.n_cells
    for state in machine.split():
        task = machine_of(*transformer)
        task.restore(state)
        parts.append(finished(task).cells())
        count += task.n_cells
    assert count == whole.n_cells
    joined = JoinedTables()
    for part in parts:
        joined.append(part.table)
    found, wanted = Cells(kind="halfspaces", **joined.finish()), whole.cells()
    assert rows_of(found) == rows_of(wanted)
    shapes = [HalfspaceGeometry(cells, whole.exact_maps, 3) for cells in (found, wanted)]
    pairs = [shape.contacts().pairs for shape in shapes]
    assert np.array_equal(*pairs)


def test_limit_and_counts(transformer):
    machine = machine_of(*transformer)
    machine.limit(10)
    machine.advance(10_000)
    assert (machine.n_cells, machine.done) == (10, False)
    machine.limit(None)
    counted = finished(machine_of(*transformer, store=False))
    assert finished(machine).n_cells == counted.n_cells == counted.layer_cells[machine.program.last]


def test_arithmetics_agree(transformer):
    found = [
        finished(machine_of(*transformer, arithmetic=a)).cells() for a in ("certified", "exact", "float")
    ]
    assert rows_of(found[0]) == rows_of(found[1]) == rows_of(found[2])


def test_cells_survive_a_file(tmp_path, transformer):
    found, _ = searched(*transformer)
    found.save(tmp_path / "cells.npz")
    again = hm.load(tmp_path / "cells.npz")
    assert rows_of(again.cells) == rows_of(found.cells)
    assert np.array_equal(again.bounded, found.bounded)
    assert again.exact_halfspaces(3) == found.exact_halfspaces(3)
    assert np.array_equal(again.adjacency, found.adjacency)
    assert np.array_equal(again.region_of_cell, found.region_of_cell)


# Special cases ----------------------------------------------------------------------------------


def test_a_domain_without_interior_and_vertices_are_refused():
    net = hm.Network([hm.Affine(np.eye(3), np.zeros(3))])
    with pytest.raises(EmptyDomainError):
        machine_of(net, hm.Polytope([[1, 0, 0], [-1, 0, 0]], [0, 0])).advance(1)
    with pytest.raises(UnsupportedDimensionError, match="vertices"):
        searched(net, hm.WholeSpace(3))[0].cell_vertices(0)


@pytest.mark.parametrize("domain", [hm.WholeSpace(3), hm.Box.cube(3, 0, 1)])
def test_an_affine_network_has_one_cell(domain):
    found, _ = searched(hm.Network([hm.Affine(np.eye(3), np.zeros(3))]), domain)
    assert (found.n_cells, found.n_regions, len(found.adjacency)) == (1, 1, 0)


def test_a_cell_too_thin_for_floats():
    """Between x = 1/3 and its nearest float, and two planes that meet in almost the same place."""
    third = 1 / 3
    rows = np.array([[1, 0, 0, -third], [1, 0, 0, Fraction(-1, 3)], [1, 1e-18, 0, -third]], dtype=object)
    net = hm.Network([hm.FeedForward(rows[:, :3], rows[:, 3], np.ones((1, 3)), [0])])
    box = hm.Box.cube(3, 0, 1)
    expected = enumerate_space(net, box)
    for arithmetic in ("certified", "exact"):
        found, decided = searched(net, box, arithmetic)
        assert not space_problems(found, expected) + touching_problems(found, expected)
        assert decided > 0
        assert (found.margins == 0).any()


def test_questions_about_one_cone_in_integers():
    cube = [(1, 0, 0, 1), (-1, 0, 0, 1), (0, 1, 0, 1), (0, -1, 0, 1), (0, 0, 1, 1), (0, 0, -1, 1)]
    infinity = (0, 0, 0, 1)
    assert is_bounded(cube, 3)
    assert not is_bounded(cube[:5], 3)
    assert not is_bounded([], 1)
    point = inner_point([*cube, infinity, (1, 1, 1, -2)])
    assert point is not None
    assert sum(point[:3]) > 2 * point[3] > 0
    touching = [
        *cube,
        infinity,
        (-1, -1, -1, 3),
        (-1, -1, 0, 2),
        (2, 0, 0, 2),
    ]  # a vertex, an edge, a facet again
    assert facet_numbers(touching, range(len(touching))) == set(range(6))
    assert inner_point([*cube, infinity, (1, 1, 1, -3)]) is None
    assert share_facet((1, 0, 0, 0), [*cube, (0, 1, 1, -1), infinity])
    assert not share_facet((1, 0, 0, 0), [*cube, (0, 1, 1, -2), infinity])
