"""The rational enumerator of the tests, held against known counts, single points, sampling and itself."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from oracles.random_networks import KINDS, described, instance, instances
from oracles.rational_regions import (
    _along,
    _edges,
    enumerate_rationally,
    exact_forward,
    line_through,
    pieces_of,
)

PLANE = hm.WholeSpace(2)
SQUARE = hm.Box.cube(2, -4, 4)


def lines(rows, *, skip=False):
    """One hidden layer whose units are the lines ``a x + b y + c``; the sum of the units is the output."""
    rows = np.array(rows)
    return hm.Network([hm.FeedForward(rows[:, :2], rows[:, 2], np.ones((2, len(rows))), [0, 0], skip=skip)])


# Counts known without a computer ----------------------------------------------------------------


def test_lines_in_general_position():
    """n lines make 1 + n + C(n, 2) cells in the plane; two adjacent cells differ in one unit."""
    net = lines([[1, 0, 0], [0, 1, 0], [1, 1, 1], [1, -2, 2], [2, 1, -3]])
    found = enumerate_rationally(net, PLANE)
    assert found.n_cells == 1 + 5 + 10
    assert set(found.adjacency.values()) == {"fold"}
    assert len(found.adjacency) == 5 * 5  # every line is cut into five pieces by the four others
    assert sum(cell.bounded for cell in found.cells) == 6  # C(n - 1, 2)
    assert not any(contact.jumps for contact in found.contacts)


def test_lines_through_one_point_and_parallel_lines():
    assert enumerate_rationally(lines([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, -1, 0]]), PLANE).n_cells == 8
    strips = enumerate_rationally(lines([[1, 0, 0], [1, 0, -1], [2, 0, 1]]), PLANE)
    assert strips.n_cells == 4
    assert len(strips.adjacency) == 3


def test_areas_are_exact():
    found = enumerate_rationally(lines([[1, 1, Fraction(-1, 3)]]), hm.Box([0, 0], [1, 1]))
    assert [cell.area for cell in found.cells] == [Fraction(1, 18), Fraction(17, 18)]
    assert found.area == 1
    assert enumerate_rationally(lines([[1, 0, 0]]), PLANE).cells[0].area is None


def test_units_that_are_zero_are_off_and_cut_nothing():
    found = enumerate_rationally(lines([[0, 0, 0], [0, 0, 1], [0, 0, -1], [1, 0, 4]]), SQUARE)
    assert found.signatures == [((), (0, 1, 0, 1))]  # x + 4 is zero only on a side of the square


def test_keys_that_win_together_are_one_cell_with_the_mean_of_their_outputs():
    """Keys (x, 0, x, x): three win together for x > 0."""
    attention = hm.Attention(
        [[[1, 0], [0, 0], [1, 0], [1, 0]]], None, [[[1, 0], [5, 5], [2, 0], [4, 1]]], skip=False
    )
    found = enumerate_rationally(hm.Network([attention]), PLANE)
    assert found.signatures == [((0,), ()), ((1,), ())]
    assert found.cells[0].map(Fraction(1), Fraction(1)) == [Fraction(7, 3), Fraction(1, 3)]
    assert found.adjacency == {(0, 1): "wall"}


def test_keys_that_a_layer_makes_equal_win_together():
    """After (x, y) -> (x, 0) keys that differ only in the second coordinate are the same."""
    attention = hm.Attention([[[1, 0], [1, 7], [-1, 2]]], None, [[[1, 0], [3, 0], [8, 0]]], skip=False)
    found = enumerate_rationally(hm.Network([hm.Affine([[1, 0], [0, 0]], [0, 0]), attention]), PLANE)
    assert [cell.routings for cell in found.cells] == [(0,), (2,)]
    assert found.cells[0].map.offset == [2, 0]


def test_masked_keys_never_win():
    attention = hm.Attention(
        [[[9, 9], [1, 0], [-1, 0]]], None, np.zeros((1, 3, 2)), mask=[[False, True, True]]
    )
    found = enumerate_rationally(hm.Network([attention]), SQUARE)
    assert [cell.routings for cell in found.cells] == [(1,), (2,)]
    assert found.n_regions == 1  # equal outputs: the wall does not show


def test_equal_maps_are_one_region_only_where_they_touch():
    """max(0, 1 - |x|) is zero left and right of the tent: equal maps that do not touch are two regions. Cut
    off at 2, nothing is left of the tent, and all four cells are one region."""
    tent = hm.FeedForward([[1, 0], [1, 0], [1, 0]], [1, 0, -1], [[1, -2, 1]], [0])
    found = enumerate_rationally(hm.Network([tent]), SQUARE)
    assert (found.n_cells, found.n_regions) == (4, 4)
    assert found.cells[0].map == found.cells[-1].map
    twice = enumerate_rationally(hm.Network([tent, hm.FeedForward([[1]], [-2], [[1]], [0])]), SQUARE)
    assert (twice.n_cells, twice.n_regions) == (4, 1)


@pytest.mark.parametrize(("seed", "keys"), [(0, 3), (1, 6), (2, 12)])
def test_attention_in_the_plane_has_one_cell_per_vertex_of_the_hull(seed, keys):
    from scipy.spatial import ConvexHull

    scores = np.random.default_rng(seed).standard_normal((1, keys, 2))
    found = enumerate_rationally(hm.Network([hm.Attention(scores, None, scores)]), PLANE)
    assert {cell.routings[0] for cell in found.cells} == set(ConvexHull(scores[0]).vertices.tolist())
    assert found.n_cells == found.n_regions == len(found.adjacency)  # the fan of a polygon is a cycle


def test_golden_count_of_a_small_perceptron():
    """[2, 16, 16, 16, 1]: 778 cells in [-4, 4]^2."""
    rng = np.random.default_rng(0)
    widths, layers = [2, 16, 16, 16, 1], []
    for n, m in pairwise(widths):
        layers.append((rng.standard_normal((m, n)) / np.sqrt(n), 0.5 * rng.standard_normal(m)))
    (w0, b0), (w1, b1), (w2, b2), (w3, b3) = layers
    blocks = [
        hm.FeedForward(w0, b0, w1, b1),
        hm.FeedForward(None, np.zeros(16), w2, b2),
        hm.FeedForward(None, np.zeros(16), w3, b3),
    ]
    assert enumerate_rationally(hm.Network(blocks), SQUARE).n_cells == 778


# Against single points and sampling -------------------------------------------------------------


def inside(domain, rng, count):
    """Random points of a domain, as floats."""
    scale = 10.0 ** rng.integers(-2, 3, (20 * count, 1))
    points = rng.standard_normal((20 * count, 2)) * scale + rng.integers(-3, 4, (20 * count, 2))
    return points[domain.contains(points)][:count]


@pytest.mark.parametrize("kind", KINDS)
def test_points_lie_in_the_cell_with_their_signature_and_have_its_value(kind):
    """The forward pass of single points in rationals: signature, place and value of the map."""
    rng = np.random.default_rng(7)
    first = list(KINDS).index(kind)
    for number in range(first, first + 12 * len(KINDS), len(KINDS)):
        case = instance(number)
        found = enumerate_rationally(case.network, case.domain)
        index = {cell.signature: cell for cell in found.cells}
        for point in inside(case.domain, rng, 8).tolist():
            x, y = map(Fraction, point)
            routings, bits, output = exact_forward(case.network, (x, y))
            assert (routings, bits) in index, f"{(routings, bits)} at {point} is not listed\n{case}"
            cell = index[routings, bits]
            assert cell.contains(x, y), case
            assert cell.map(x, y) == output, case


def sampled_signatures(network, points, margin=1e-9):
    """Signatures by a plain float forward pass; points closer to a wall or fold than the margin are left
    out."""
    hidden, clear, columns = points, np.ones(len(points), dtype=bool), []
    for block in network.blocks:
        kind = type(block).__name__
        if kind == "Attention":
            total = hidden if block.skip else 0
            for head in range(block.scores.shape[0]):
                s = hidden @ block.scores.floats[head].T + block.biases.floats[head]
                s = np.where(np.asarray(block.mask)[head], s, -np.inf)
                winner = s.argmax(axis=1)
                if s.shape[1] > 1:
                    top = np.sort(s, axis=1)
                    clear &= top[:, -1] - top[:, -2] > margin * (1 + np.abs(hidden).max(axis=1))
                columns.append(winner)
                total = total + block.outputs.floats[head][winner]
            hidden = total
        elif kind == "FeedForward":
            z = (hidden if block.w_in is None else hidden @ block.w_in.floats.T) + block.b_in.floats
            clear &= (np.abs(z) > margin * (1 + np.abs(hidden).max(axis=1, keepdims=True))).all(axis=1)
            columns += list((z > 0).T.astype(int))
            y = np.maximum(z, 0) @ block.w_out.floats.T + block.b_out.floats
            hidden = hidden + y if block.skip else y
        else:
            hidden = hidden @ block.w.floats.T + block.b.floats
    rows = np.column_stack([c[clear] for c in columns]) if columns else np.empty((int(clear.sum()), 0))
    return {tuple(int(v) for v in row) for row in np.unique(rows, axis=0)}


def in_order_of_blocks(cell):
    return tuple(v for _, choice in cell.path for v in choice)


@pytest.mark.parametrize("kind", ["gaussian", "several layers", "attention skip", "feed-forward only"])
def test_every_sampled_signature_is_listed(kind):
    rng = np.random.default_rng(11)
    first, n_listed, n_sampled = list(KINDS).index(kind), 0, 0
    for number in range(first, first + 12 * len(KINDS), len(KINDS)):
        case = instance(number)
        found = enumerate_rationally(case.network, case.domain)
        listed = {in_order_of_blocks(cell) for cell in found.cells}
        sampled = sampled_signatures(case.network, inside(case.domain, rng, 3000))
        assert sampled <= listed, case
        n_listed, n_sampled = n_listed + len(listed), n_sampled + len(sampled)
    if kind in ("gaussian", "several layers"):  # elsewhere ties and zero units are never clear of the margin
        assert n_sampled > 0.8 * n_listed


# Against itself ---------------------------------------------------------------------------------


def test_cells_fill_the_domain_and_every_edge_has_another_side():
    """Areas add up exactly; on every line the cells on its left and on its right cover the same set, but for
    the sides of the domain."""
    for case in instances(156):
        found = enumerate_rationally(case.network, case.domain)
        if found.bounded:
            assert sum(cell.area for cell in found.cells) == found.area, case
        sides = {
            line_through(piece[i - 1], piece[i])
            for piece in pieces_of(case.domain)
            for i in range(len(piece))
        }
        for line, edges in _edges(found.cells).items():
            opposite = tuple(-v for v in line)
            if case.place != "whole plane" and (line in sides or opposite in sides):
                continue
            left, right = (_covered(line, [e for e in edges if e.left == side]) for side in (True, False))
            assert left == right, case


def _covered(line, edges):
    """The union of the edges as a list of disjoint intervals."""
    place = _along(line)
    union = []
    for edge in sorted(edges, key=lambda e: place(e.low)):
        if union and place(edge.low) <= place(union[-1][1]):
            union[-1][1] = max(union[-1][1], edge.high, key=place)
        else:
            union.append([edge.low, edge.high])
    return union


def test_the_whole_plane_is_a_large_box():
    for case in instances(200):
        if case.place == "whole plane" and case.kind not in ("last place, flat", "last place"):
            box = enumerate_rationally(case.network, hm.Box.cube(2, -(10.0**40), 10.0**40))
            plane = enumerate_rationally(case.network, case.domain)
            assert plane.signatures == box.signatures, case
            assert plane.adjacency == box.adjacency, case
            assert plane.region_of_cell == box.region_of_cell, case


def test_coordinates_do_not_matter_in_the_whole_plane():
    """An invertible affine map in front moves the quadrants, but no signature."""
    front = hm.Affine([[2, 1], [Fraction(1, 3), 1]], [Fraction(5, 7), -3])
    for case in instances(200):
        if case.place == "whole plane":
            here = enumerate_rationally(case.network, case.domain)
            there = enumerate_rationally(hm.Network([front, *case.network.blocks]), case.domain)
            assert here.signatures == there.signatures, case
            assert here.adjacency == there.adjacency, case
            assert here.region_of_cell == there.region_of_cell, case


def test_instances_can_be_rebuilt_from_what_they_print():
    for case in instances(104):
        names: dict = {"hm": hm, "np": np, "Fraction": Fraction}
        exec(described(case.network, case.domain), names)
        here = enumerate_rationally(case.network, case.domain)
        there = enumerate_rationally(names["network"], names["domain"])
        assert here.signatures == there.signatures
        assert [cell.map for cell in here.cells] == [cell.map for cell in there.cells]
