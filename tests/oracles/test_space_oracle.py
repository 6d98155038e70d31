"""The rational enumerator of any dimension, held against known counts, the plane, single points and linear
programs."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import highspy
import numpy as np
import pytest

import hardmax as hm
from oracles.random_networks import instances
from oracles.random_space import SPACE_KINDS, space_instance, space_instances
from oracles.rational_regions import enumerate_rationally, exact_forward
from oracles.rational_space import Cone, cone_of, enumerate_space


def planes(rows, *, e=1):
    """One hidden layer whose units are the rows (a, c): a . x + c."""
    rows = np.array(rows)
    return hm.Network([hm.FeedForward(rows[:, :-1], rows[:, -1], np.ones((e, len(rows))), [0] * e)])


# Counts known without a computer ----------------------------------------------------------------


@pytest.mark.parametrize(("d", "n"), [(1, 4), (2, 5), (3, 6), (4, 6)])
def test_hyperplanes_in_general_position(d, n):
    """sum_{k <= d} C(n, k) cells, C(n - 1, d) of them bounded; a hyperplane is cut into cells by the others,
    and each piece lies between two cells."""
    t = np.arange(1, n + 1)
    net = planes(np.column_stack([t**k for k in range(1, d + 1)] + [t**0]))
    found = enumerate_space(net, hm.WholeSpace(d))
    assert found.n_cells == sum(comb(n, k) for k in range(d + 1))
    assert sum(cell.bounded for cell in found.cells) == comb(n - 1, d)
    assert len(found.adjacency) == n * sum(comb(n - 1, k) for k in range(d))
    assert set(found.adjacency.values()) == {"fold"}
    assert not any(contact.jumps for contact in found.contacts)


def test_cells_that_contain_lines():
    """x = 0 and x = 1 in R^4: three slabs with three lines each."""
    found = enumerate_space(planes([[1, 0, 0, 0, 0], [1, 0, 0, 0, -1]]), hm.WholeSpace(4))
    assert [len(cell.cone.lines) for cell in found.cells] == [3, 3, 3]
    assert [cell.bits for cell in found.cells] == [(0, 0), (1, 0), (1, 1)]
    assert list(found.adjacency) == [(0, 1), (1, 2)]


def test_volumes_are_exact():
    """The corner x + y + z < 1/3 of the cube has volume 1/162; the whole cube has 1."""
    found = enumerate_space(planes([[1, 1, 1, Fraction(-1, 3)]]), hm.Box([0, 0, 0], [1, 1, 1]))
    assert [cell.volume for cell in found.cells] == [Fraction(1, 162), Fraction(161, 162)]
    assert found.volume == 1
    cross = hm.Polytope(list(product([-1, 1], repeat=4)), [1] * 16)
    assert cone_of(cross).volume == Fraction(16, 24)
    assert len(cone_of(cross).facets) == 16


def test_a_vertex_on_many_facets_and_facets_that_are_none():
    """Eight planes through the apex of a cone over an octagon; a plane that touches it in the apex only."""
    around = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    cone: Cone | None = Cone.whole(3)
    for a, b in around:
        size = 3 if a * b == 0 else 2
        cone = cone.clip((size * a, size * b, 3, 0))
    cone = cone.clip((0, 0, 1, 0)).clip((0, 0, -1, 1))
    assert len(cone.halfspaces) == 9
    assert sum(ray[:-1] == (0, 0, 0) for ray in cone.rays) == 1


@pytest.mark.parametrize(("seed", "d", "keys"), [(0, 3, 8), (1, 3, 14), (2, 4, 10)])
def test_attention_without_biases_has_one_cell_per_vertex_of_the_hull(seed, d, keys):
    from scipy.spatial import ConvexHull

    scores = np.random.default_rng(seed).standard_normal((1, keys, d))
    found = enumerate_space(hm.Network([hm.Attention(scores, None, scores)]), hm.WholeSpace(d))
    hull = ConvexHull(scores[0])
    edges = {tuple(sorted(pair)) for s in hull.simplices for pair in product(s, s) if pair[0] != pair[1]}
    winners = [cell.routings[0] for cell in found.cells]
    assert winners == sorted(hull.vertices.tolist())
    assert {tuple(sorted((winners[i], winners[j]))) for i, j in found.adjacency} == edges


# Against the plane, single points and linear programs -------------------------------------------


def test_in_the_plane_it_agrees_with_the_enumerator_of_polygons():
    for case in instances(104):
        plane = enumerate_rationally(case.network, case.domain)
        space = enumerate_space(case.network, case.domain)
        assert space.signatures == plane.signatures, case
        assert space.adjacency == plane.adjacency, case
        assert space.region_of_cell == plane.region_of_cell, case
        assert [contact.jumps for contact in space.contacts] == [contact.jumps for contact in plane.contacts]
        for mine, other in zip(space.cells, plane.cells, strict=True):
            assert (mine.bounded, mine.volume) == (other.bounded, other.area), case
            assert (mine.map.rows, mine.map.denominator) == (other.map.rows, other.map.denominator), case


@pytest.mark.parametrize("kind", SPACE_KINDS)
def test_points_lie_in_the_cell_with_their_signature_and_have_its_value(kind):
    """The forward pass of single points in rationals: signature, place and value of the map."""
    rng = np.random.default_rng(7)
    first = list(SPACE_KINDS).index(kind)
    for number in range(first, first + 5 * len(SPACE_KINDS), len(SPACE_KINDS)):
        case = space_instance(number)
        found = enumerate_space(case.network, case.domain)
        index = {cell.signature: cell for cell in found.cells}
        points = rng.standard_normal((200, case.domain.d)) * 10.0 ** rng.integers(-2, 2, (200, 1))
        points = points[case.domain.contains(points)][:6].tolist()
        points += [cell.witness for cell in found.cells[:4]]
        for point in points:
            x = [Fraction(v) for v in point]
            routings, bits, output = exact_forward(case.network, x)
            assert (routings, bits) in index, f"{(routings, bits)} at {point} is not listed\n{case!r}"
            cell = index[routings, bits]
            assert cell.contains(x), case
            assert cell.map(x) == output, case


def test_cells_fill_the_domain_and_hold_their_witnesses():
    for case in space_instances(100):
        found = enumerate_space(case.network, case.domain)
        assert all(cell.contains(cell.witness, strictly=True) for cell in found.cells), case
        if found.bounded and case.domain.d <= 4:
            assert sum(cell.volume for cell in found.cells) == found.volume, case


def test_every_facet_has_a_cell_beyond():
    """A little beyond the middle of a facet lies a neighbour, or nothing of the domain."""
    for case in space_instances(50):
        found = enumerate_space(case.network, case.domain)
        sides = set(found.cone.halfspaces)
        for i, cell in enumerate(found.cells):
            beyond = {row for row in cell.halfspaces if row not in sides}
            have = {
                contact.hyperplane if contact.hyperplane in beyond else tuple(-v for v in contact.hyperplane)
                for contact in found.contacts
                if i in contact.cells
            }
            assert have == beyond, case


def test_coordinates_do_not_matter_in_the_whole_space():
    for case in space_instances(120):
        if case.place == "whole space":
            d = case.domain.d
            front = np.eye(d, dtype=int) + np.tri(d, k=-1, dtype=int) * 2
            shift = [Fraction(i, 7) for i in range(d)]
            here = enumerate_space(case.network, case.domain)
            there = enumerate_space(hm.Network([hm.Affine(front, shift), *case.network.blocks]), case.domain)
            assert here.signatures == there.signatures, case
            assert here.adjacency == there.adjacency, case
            assert here.region_of_cell == there.region_of_cell, case


def widest_ball(rows):
    """The largest t <= 1 with row . (x, 1) >= t |slope| for all rows, by HiGHS; negative if there is none."""
    rows = np.array(rows)
    d = rows.shape[1] - 1
    program = highspy.Highs()
    program.silent()
    for low, high, cost in [*[(-highspy.kHighsInf, highspy.kHighsInf, 0.0)] * d, (-1e4, 1.0, -1.0)]:
        program.addCol(cost, low, high, 0, [], [])
    for row in rows:
        size = float(np.linalg.norm(row[:-1]))
        entries = np.append(row[:-1], -size)
        program.addRow(-float(row[-1]), highspy.kHighsInf, d + 1, np.arange(d + 1, dtype=np.int32), entries)
    program.run()
    return -program.getInfo().objective_function_value


@pytest.mark.parametrize("seed", range(3))
def test_every_signature_is_tried_by_linear_programs(seed):
    """Attention and a ReLU layer in R^3: all 3 x 3 x 2^4 signatures, with the inequalities each one means."""
    rng = np.random.default_rng(seed)
    scores, outputs = rng.standard_normal((2, 2, 3, 3))
    biases = rng.standard_normal((2, 3))
    w, b = rng.standard_normal((4, 3)), rng.standard_normal(4)
    net = hm.Network([hm.Attention(scores, biases, outputs), hm.FeedForward(w, b, np.ones((1, 4)), [0.0])])
    box = hm.Box.cube(3, -2, 2)
    found = enumerate_space(net, box)
    sides = np.column_stack([-box.a.floats, box.b.floats])
    listed = []
    for routing in product(range(3), repeat=2):
        walls = [
            np.append(scores[h, j] - scores[h, k], biases[h, j] - biases[h, k])
            for h, j in enumerate(routing)
            for k in range(3)
            if k != j
        ]
        shift = outputs[0, routing[0]] + outputs[1, routing[1]]
        for bits in product((0, 1), repeat=4):
            folds = [(2 * bit - 1) * np.append(w[u], w[u] @ shift + b[u]) for u, bit in enumerate(bits)]
            if widest_ball([*sides, *walls, *folds]) > 1e-9:
                listed.append((routing, bits))
    assert found.signatures == listed
