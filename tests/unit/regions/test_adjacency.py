"""Adjacency of cells: by hand, in rationals, with names mixed up, with cells missing, by brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from oracles.judging_regions import length_problems
from oracles.made_cells import changed
from oracles.random_networks import instance
from oracles.rational_boundary import classifier
from oracles.rational_regions import enumerate_rationally

import hardmax as hm
from hardmax.networks.layers import layers_of
from hardmax.regions.cells import Cells, Ragged, decode_wall, encode_wall
from hardmax.regions.maps.adjacency import adjacent_cells, lengths_of_contacts, possibly_collinear
from hardmax.regions.maps.adjacency_kernels import UNCLEAR
from hardmax.regions.maps.exact_maps import ExactMaps

SQUARE = hm.Box.cube(2, -4, 4)


def contacts_of(net, domain=SQUARE, change=lambda cells: cells):
    """Contacts of the cells, changed or not, with their lengths measured."""
    cells = change(hm.enumerate_regions(net, domain).cells)
    question = layers_of(net), ExactMaps(layers_of(net), domain)
    contacts = adjacent_cells(cells, *question)
    return contacts._replace(lengths=lengths_of_contacts(cells, *question, contacts))


def as_dict(contacts):
    return {
        tuple(pair): kind for pair, kind in zip(contacts.pairs.tolist(), contacts.kinds.tolist(), strict=True)
    }


def oracle(net, domain):
    kinds = {"fold": 0, "wall": 1}
    return {pair: kinds[kind] for pair, kind in enumerate_rationally(net, domain).adjacency.items()}


def unknown(cells: Cells) -> Cells:
    """The same cells with vertices about which floats say nothing."""
    return changed(cells, "vertices", 2, np.inf)


def rough(cells: Cells) -> Cells:
    """The same cells with vertices known to a tenth only."""
    return changed(cells, "vertices", 2, cells.vr + 0.1)


# By hand ----------------------------------------------------------------------------------------


def test_a_grid():
    """Three vertical and two horizontal lines: twelve cells, and the borders of a 4 x 3 grid."""
    rows = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], dtype=float)
    net = hm.Network([hm.FeedForward(rows, [-1, 0, 1, -1, 1], np.ones((1, 5)), [0])])
    found = contacts_of(net)
    assert len(found.pairs) == 3 * 3 + 4 * 2
    assert set(found.kinds) == {0}
    assert found.lengths.sum() == pytest.approx(3 * 8 + 2 * 8)
    assert len(found.uncovered) == 0
    assert (np.lexsort(found.pairs.T[::-1]) == np.arange(len(found.pairs))).all()
    assert not found.pairs.flags.writeable


def jumping(shift: Fraction | float):
    """A wall at x = 0 that moves what follows up or down, then a fold at y = 0 and one at y = 1."""
    wall = hm.Attention([[[-1, 0], [1, 0]]], None, [[[0, 0], [0, shift]]])
    return hm.Network([wall, hm.FeedForward([[0, 1], [0, 1]], [0, -1], np.ones((1, 2)), [0])])


def test_across_a_wall_borders_do_not_match():
    """Left of the wall the cuts are at 0 and 1, right of it at -1/4 and 3/4: five contacts along the wall."""
    found = contacts_of(jumping(0.25))
    along = as_dict(found)
    assert sum(along.values()) == 5
    assert found.lengths[found.kinds == 1].sum() == pytest.approx(8)
    assert len(along) == 5 + 4
    assert along == oracle(jumping(0.25), SQUARE)


def test_ends_that_coincide_across_a_wall_are_no_contact():
    """Shifted by one, the cut at 0 on the right meets the cut at 1 on the left: corners that only touch."""
    found = contacts_of(jumping(1))
    assert sum(as_dict(found).values()) == 4
    assert as_dict(found) == oracle(jumping(1), SQUARE)
    third = contacts_of(jumping(Fraction(1, 3)))
    assert sum(as_dict(third).values()) == 5


def test_a_gap_below_the_floats_is_seen():
    """Shifted by one and a hair: the corners no longer meet, and one more pair touches along the hair."""
    hair = Fraction(1) + Fraction(1, 10**40)
    found = contacts_of(jumping(hair))
    assert sum(as_dict(found).values()) == 5
    assert as_dict(found) == oracle(jumping(hair), SQUARE)
    assert found.lengths.min() == pytest.approx(1e-40, rel=1e-6)


def test_a_wall_without_a_jump():
    """Both keys have the same output: pieces match one by one, but it is a wall all the same."""
    net = jumping(0)
    found = contacts_of(net)
    assert sum(as_dict(found).values()) == 3
    assert as_dict(found) == oracle(net, SQUARE)


def test_three_keys_on_one_wall():
    """Scores -x, 0 and x: key 1 wins nowhere but is level with both on x = 0."""
    head = hm.Attention([[[-1, 0], [0, 0], [1, 0]]], None, [[[0, 0], [5, 5], [0, 1]]])
    net = hm.Network([head, hm.FeedForward([[0, 1]], [0], [[1]], [0])])
    expected = oracle(net, SQUARE)
    assert as_dict(contacts_of(net)) == expected

    def renamed(cells):
        """What an engine may just as well write: the left cells meet key 1 there, the right ones key 0."""
        wall = cells.wall.copy()
        for cell in range(cells.n):
            if cells.routings[cell, 0] == 0:
                for e in cells.facets.span(cell):
                    if cells.owner[e] >= 0 and decode_wall(wall[e])[0] == 0:
                        wall[e] = encode_wall(0, 0, 0, 1)
        return changed(cells, "facets", 1, wall)

    mixed = contacts_of(net, change=renamed)
    assert as_dict(mixed) == expected
    assert len(mixed.uncovered) == 0
    assert as_dict(contacts_of(net, change=lambda cells: unknown(renamed(cells)))) == expected


def test_the_whole_plane():
    net = jumping(0.25)
    found = contacts_of(net, hm.WholeSpace(2))
    assert as_dict(found) == oracle(net, hm.WholeSpace(2))
    # along the wall two contacts are rays; each of the four cuts is one
    assert np.isinf(found.lengths).sum() == 2 + 4
    assert as_dict(contacts_of(net, hm.WholeSpace(2), unknown)) == as_dict(found)


def test_one_cell_has_no_neighbours():
    found = contacts_of(hm.Network([hm.Affine([[1, 0]], [0])]))
    assert found.pairs.shape == (0, 2)
    assert found.edges.shape == (0, 2)


# By brute force ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, 400, 3))
def test_random_networks(number):
    one = instance(number)
    cells = hm.enumerate_regions(one.network, one.domain).cells
    layers = layers_of(one.network)
    exact = ExactMaps(layers, one.domain)
    found = adjacent_cells(cells, layers, exact)
    assert as_dict(found) == oracle(one.network, one.domain)
    assert len(found.pairs) == len(as_dict(found))
    assert len(found.uncovered) == 0
    for change in (unknown, rough) if number % 4 == 0 else ():
        other = adjacent_cells(change(cells), layers, exact)
        assert as_dict(other) == as_dict(found)
        assert len(other.uncovered) == 0
    start = cells.facets.offsets
    for side in range(2):  # the edges belong to the cells
        i, e = found.pairs[:, side], found.edges[:, side]
        assert ((start[i] <= e) & (e < start[i + 1])).all()


@pytest.mark.parametrize("widths", [[2, 16, 16, 16, 1], [2, 40, 40, 1]])
def test_floats_and_rationals_agree_on_a_network_of_some_size(widths):
    net = hm.Network.random_mlp(widths, 0)
    found, exactly = contacts_of(net), contacts_of(net, change=unknown)
    assert np.array_equal(found.pairs, exactly.pairs)
    assert np.allclose(found.lengths, exactly.lengths, rtol=1e-9, atol=1e-9)


# Missing cells ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [*range(40, 80), 1000])
def test_missing_cells_leave_holes(number):
    if number == 1000:
        net, domain = hm.Network.random(2, 8, 2, 2, 24, np.random.default_rng(0)), SQUARE
    else:
        net, domain = instance(number).network, instance(number).domain
    layers = layers_of(net)
    exact = ExactMaps(layers, domain)
    cells = hm.enumerate_regions(net, domain).cells
    whole = adjacent_cells(cells, layers, exact)
    kept = np.flatnonzero(np.random.default_rng(number).random(cells.n) < 0.6)
    if len(kept) == 0:
        return
    part = adjacent_cells(cells.select(kept), layers, exact)
    place = {int(i): p for p, i in enumerate(kept)}
    expected = {
        (place[i], place[j]): kind for (i, j), kind in as_dict(whole).items() if i in place and j in place
    }
    assert as_dict(part) == expected
    lost = any((i in place) != (j in place) for i, j in as_dict(whole))
    assert (len(part.uncovered) > 0) == lost


def test_the_filter_keeps_what_may_be_collinear():
    """A thousand random edges and a few pairs on common lines, some of them nearly vertical."""
    rng = np.random.default_rng(0)
    n, lines = 1000, 40
    start, direction = rng.uniform(-4, 4, (n, 2)), rng.standard_normal((n, 2))
    angle = np.concatenate([rng.uniform(0, np.pi, lines - 3), [0.0, np.pi / 2, np.pi - 1e-13]])
    u = np.column_stack([np.cos(angle), np.sin(angle)])
    at = rng.uniform(-2, 2, (lines, 2))
    start = np.concatenate([start, at, at + 3 * u])
    direction = np.concatenate([direction, u, -u])
    edges = len(start)
    vertices = np.stack([start, start + direction, start + direction[:, ::-1] * [1, -1]], axis=1).reshape(
        -1, 2
    )
    offsets, errors = np.arange(0, 3 * edges + 1, 3), np.full(len(vertices), 1e-13)
    cells = Cells(
        kind="polygons",
        bits=np.zeros((edges, 0), dtype=np.uint64),
        routings=np.zeros((edges, 0), dtype=np.int32),
        tied=np.zeros(edges, dtype=np.uint8),
        witnesses=np.zeros((edges, 2)),
        margins=np.zeros(edges),
        facets=Ragged(offsets, np.zeros((len(vertices), 2), dtype=np.int64)),
        vertices=Ragged(offsets, np.column_stack([vertices, errors])),
    )
    cell_of = np.repeat(np.arange(edges), 3)
    kept = possibly_collinear(cells, cell_of, cell_of, np.arange(0, 3 * edges, 3))
    assert kept[n:].all()
    assert kept[:n].mean() < 0.05


# Lengths ------------------------------------------------------------------------------------------


def test_lengths_far_out_and_near_zero_are_those_of_the_rational_oracle():
    """Ill-conditioned edges: a difference of coordinates near 1e15, contacts near 1e-16, almost parallel
    lines. Differences of floats are wrong from the first or second digit there.
    """
    far = [classifier(427), *(instance(number) for number in (1021, 1072, 1077))]
    for case in (*far, *(classifier(number) for number in (62, 90, 141, 162, 192))):
        found, expected = (
            enumerate_(case.network, case.domain)
            for enumerate_ in (hm.enumerate_regions, enumerate_rationally)
        )
        assert not length_problems(found, expected), case
        assert (found._contacts.lengths == UNCLEAR).any(), case  # these are what the filter is for


def test_lengths_of_a_fan_of_almost_parallel_lines():
    """Lines y = k h x - h k^2 / 2 for k = 0..6 with h = 2^-40, moved by 2^20: a closed form in fractions.

    Two lines k < m cross at x = (k + m) / 2; line k is cut there, at places that are multiples of 1/2.
    """
    h, shift, n = Fraction(1, 2**40), 2**20, 7
    rows = [[-k * h, Fraction(1)] for k in range(n)]
    starts = [
        h * k * k / 2 - shift + k * h * shift for k in range(n)
    ]  # (x, y) moved to (x + shift, y + shift)
    net = hm.Network.mlp(
        [(np.array(rows, dtype=object), np.array(starts, dtype=object)), (np.ones((1, n)), [0])]
    )
    box = hm.Box([shift - 1, shift - 1], [shift + n, shift + 1])
    found = hm.enumerate_regions(net, box)
    expected = []
    for k in range(n):
        places = [Fraction(-1), *sorted(Fraction(k + m, 2) for m in range(n) if m != k), Fraction(n)]
        expected += [float(b - a) * float(np.hypot(1, float(k * h))) for a, b in pairwise(places)]
    assert sorted(found.adjacency_length.tolist()) == pytest.approx(sorted(expected), rel=1e-6)
    assert not length_problems(found, enumerate_rationally(net, box))


def test_lengths_beyond_the_squares_of_floats():
    """Squares of lengths overflow, or vanish: a grid scaled by a power of two has lengths scaled by it."""
    for exponent in (-600, 0, 600):
        size = 2.0**exponent
        net = hm.Network.mlp([(np.eye(2), [-size, size]), (np.ones((1, 2)), [0])])
        found = hm.enumerate_regions(net, hm.Box.cube(2, -4 * size, 4 * size))
        assert sorted((found.adjacency_length / size).tolist()) == [3, 3, 5, 5]


def test_lengths_do_not_depend_on_how_well_floats_know_the_vertices():
    for number in range(0, 60, 4):
        case = instance(number)
        found = hm.enumerate_regions(case.network, case.domain)
        for change in (unknown, rough):
            again = contacts_of(case.network, case.domain, change)
            assert again.lengths == pytest.approx(found.adjacency_length, rel=1e-6), case
