"""Networks whose cells and regions are known: examples with exact numbers, golden counts, constructions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from oracles.judging_regions import cell_problems, contact_problems, signatures_of
from oracles.random_networks import described
from oracles.rational_regions import enumerate_rationally

import hardmax as hm

SQUARE = hm.Box.cube(2, -4, 4)
PLANE = hm.WholeSpace(2)
INTERVAL = hm.Box([-4], [4])


def held_against_rationals(network, domain, arithmetic="certified"):
    """The regions, after a comparison of everything with the rational enumerator."""
    found = hm.enumerate_regions(network, domain, arithmetic=arithmetic)
    expected = enumerate_rationally(network, domain)
    problems = cell_problems(found, expected) or contact_problems(found, expected)
    assert not problems, f"{problems[:5]}\n{described(network, domain)[:2000]}"
    return found


def ends(found) -> list[tuple[Fraction, ...]]:
    """The exact ends of the cells of a network on an interval."""
    return [tuple(sorted(row[1] / row[0] for row in found.exact_halfspaces(i))) for i in range(found.n_cells)]


# What the paper says and what is true -----------------------------------------------------------


def test_the_map_jumps_at_a_wall():
    """Keys and values -1 and 1, with skip: x - 1 and x + 1: a jump of 2 at 0, not continuous (claim 20)."""
    head = hm.Attention([[[-1], [1]]], None, [[[-1], [1]]])
    found = hm.enumerate_regions(hm.Network([head]), INTERVAL)
    assert found.routings.tolist() == [[0], [1]]
    assert ends(found) == [(-4, 0), (0, 4)]
    assert found.linear.ravel().tolist() == [1, 1]
    assert found.offset.ravel().tolist() == [-1, 1]
    assert found.adjacency.tolist() == [[0, 1]]
    assert found.adjacency_kind.tolist() == [1]
    assert found.n_regions == 2


def shifted_fold(*, skip: bool) -> hm.Network:
    """x_1 moves by 1 where x_2 > 0; a ReLU reads it."""
    head = hm.Attention([[[0, -1], [0, 1]]], None, [[[0, 0], [1, 0]]])
    fold = hm.FeedForward([[1, 0]], [0], [[1], [0]], [0, 0], skip=skip)
    return hm.Network([head, fold])


def test_there_are_more_cells_than_regions():
    """Where the ReLU is off the output is 0 on both sides of the wall: one region of two cells, an L (claim
    21)."""
    found = held_against_rationals(shifted_fold(skip=False), SQUARE)
    assert signatures_of(found) == [((0,), (0,)), ((0,), (1,)), ((1,), (0,)), ((1,), (1,))]
    assert found.volumes.tolist() == [16, 16, 12, 20]
    assert found.region_of_cell.tolist() == [0, 1, 0, 2]
    assert (found.n_cells, found.n_regions) == (4, 3)
    assert hm.count_regions(shifted_fold(skip=False), SQUARE).n_regions == 3
    walls = found.adjacency[found.adjacency_kind == 1].tolist()
    assert walls == [[0, 2], [0, 3], [1, 3]]  # where a fold meets the wall, the other side has no vertex


def test_with_a_skip_around_the_relu_every_cell_is_a_region():
    found = held_against_rationals(shifted_fold(skip=True), SQUARE)
    assert (found.n_cells, found.n_regions) == (4, 4)


def test_sampled_signatures_are_no_lower_bound_on_regions():
    """Four signatures are easily seen, but there are three regions (claim 22)."""
    network = shifted_fold(skip=False)
    points = np.random.default_rng(0).uniform(-4, 4, (1000, 2))
    signature = network.signature(points)
    seen = np.unique(np.column_stack([signature.routings, signature.relu]), axis=0)
    assert len(seen) == hm.count_cells(network, SQUARE).n_cells == 4
    assert len(seen) > hm.count_regions(network, SQUARE).n_regions
    assert hm.estimate_cells(network, SQUARE, n_samples=1000).n_signatures == 4


def test_random_transformers_without_and_with_a_skip_around_the_relus():
    """24 of each: sampled signatures never exceed the cells, often the regions; with the skip all agree."""
    beyond = {}
    for skip in (False, True):
        counts = []
        for seed in range(24):
            network = hm.Network.random(
                2, n_tokens=5, heads=2, depth=1 + seed // 12, d_ff=3, rng=seed, ffn_skip=skip
            )
            found = hm.enumerate_regions(network, SQUARE)
            seen = hm.estimate_cells(network, SQUARE, n_samples=100_000, rng=seed).n_signatures
            assert found.n_regions <= found.n_cells
            assert seen <= found.n_cells
            counts.append((found.n_cells > found.n_regions, seen > found.n_regions))
        beyond[skip] = [sum(column) for column in zip(*counts, strict=True)]
    assert beyond[True] == [0, 0]
    assert beyond[False][0] == 12
    assert beyond[False][1] >= 7


def test_a_block_is_not_the_common_refinement_of_its_parts():
    """Wall at 0, values 3 and 0, ReLU at y = 1: four cells; the walls 0 and 1 alone make three (claim 32)."""
    head = hm.Attention([[[-1], [1]]], None, [[[3], [0]]])
    fold = hm.FeedForward([[1]], [-1], [[1]], [0])
    found = hm.enumerate_regions(hm.Network([head, fold]), INTERVAL)
    assert signatures_of(found) == [((0,), (0,)), ((0,), (1,)), ((1,), (0,)), ((1,), (1,))]
    assert ends(found) == [(-4, -2), (-2, 0), (0, 1), (1, 4)]
    quiet = hm.Attention([[[-1], [1]]], None, [[[0], [0]]])
    refinement = hm.enumerate_regions(hm.Network([quiet, fold]), INTERVAL)
    assert ends(refinement) == [(-4, 0), (0, 1), (1, 4)]
    assert refinement.n_regions == 2  # equal values on both sides of the wall: it does not show


def test_the_refinement_is_neither_an_upper_nor_a_lower_bound_but_the_product_is():
    more = fewer = 0
    for seed in range(24):
        block = hm.Network.random(2, n_tokens=5, heads=2, depth=1, d_ff=4, rng=seed)
        attention, fold = block.blocks
        quiet = hm.Attention(attention.scores, attention.biases, np.zeros(attention.outputs.shape))
        cells = hm.count_cells(block, PLANE).n_cells
        refinement = hm.count_cells(hm.Network([quiet, fold]), PLANE).n_cells
        routings = hm.count_cells(hm.Network([attention]), PLANE).n_cells
        assert cells <= routings * hm.count_cells(hm.Network([fold]), PLANE).n_cells
        more, fewer = more + (cells > refinement), fewer + (cells < refinement)
    assert more >= 5
    assert fewer >= 5


# Golden counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "in_the_square", "in_the_plane"),
    [(16, 778, 1066), (32, 3203, 4557), (64, 12347, 16513), (128, 48655, 64664)],
)
def test_perceptrons_with_three_hidden_layers(width, in_the_square, in_the_plane):
    network = hm.Network.random_mlp([2, width, width, width, 1], 0)
    assert hm.count_cells(network, SQUARE).n_cells == in_the_square
    assert hm.count_cells(network, PLANE).n_cells == in_the_plane
    if width <= 64:
        found = hm.enumerate_regions(network, SQUARE)
        assert (found.n_cells, found.n_regions) == (in_the_square, in_the_square)
        assert abs(found.coverage - 1) < 1e-9
        assert found.n_slivers == 0


@pytest.mark.slow
def test_a_quarter_of_a_million_cells():
    count = hm.count_cells(hm.Network.random_mlp([2, 256, 256, 256, 1], 0), SQUARE)
    assert count.n_cells == 223579
    assert count.complete
    assert count.exact


@pytest.mark.parametrize(
    ("hidden", "cells"), [([64] * 6, 35794), ([32] * 16, 10938), ([2000], 1705129)], ids=["6", "16", "1"]
)
def test_deep_and_wide_perceptrons(hidden, cells):
    assert hm.count_cells(hm.Network.random_mlp([2, *hidden, 1], 0), SQUARE).n_cells == cells


def test_lines_in_general_position():
    """n lines in the plane: 1 + n + C(n, 2) cells, n^2 pieces of lines; more units than bits in a word."""
    n = 150
    slopes = np.arange(1, n + 1)
    network = hm.Network(
        [hm.FeedForward(np.column_stack([slopes, -np.ones(n)]), slopes**2, np.ones((1, n)), [0])]
    )
    found = hm.enumerate_regions(network, PLANE)
    assert found.n_cells == found.n_regions == 1 + n + n * (n - 1) // 2
    assert len(found.adjacency) == n * n
    assert int((~found.bounded).sum()) == 2 * n
    assert not found.adjacency_kind.any()


# The sawtooth of Theorem V.7 --------------------------------------------------------------------


@pytest.mark.parametrize("arithmetic", ["certified", "exact"])
@pytest.mark.parametrize("variant", ["plain", "ffn_skip", "genuine"])
@pytest.mark.parametrize(
    ("arguments", "inside", "around"),
    [((2, 3, 2, 1), 144, 169), ((2, 2, 1, 2), 256, 324), ((1, 3, 2, 2), 144, 146), ((1, 5, 3, 1), 30, 31)],
)
def test_sawtooth(arguments, inside, around, variant, arithmetic):
    """(2wN)^{dL} cells on [0, 1]^d, each with a map of its own; on [-4, 4]^d a few more."""
    d, n_tokens, teeth, depth = arguments
    network = hm.networks.sawtooth_network(*arguments, variant=variant)
    found = hm.enumerate_regions(network, hm.Box.cube(d, 0, 1), arithmetic=arithmetic)
    assert found.n_cells == inside == (2 * teeth * n_tokens) ** (d * depth)
    maps = np.column_stack([found.linear.reshape(inside, -1), found.offset])
    assert len(np.unique(maps, axis=0)) == found.n_regions == inside
    assert np.allclose(
        np.abs(np.linalg.det(found.linear)), float(inside)
    )  # every cell is mapped onto the cube
    assert np.allclose(found.volumes, 1 / inside, rtol=1e-7)
    wide = hm.enumerate_regions(network, hm.Box.cube(d, -4, 4), arithmetic=arithmetic)
    assert wide.n_regions == around
    assert wide.n_cells == around or variant == "genuine"  # units that pass tokens on switch out there


@pytest.mark.parametrize("arguments", [(2, 3, 2, 1), (2, 2, 1, 2), (3, 3, 2, 1), (3, 2, 1, 2)])
def test_bias_free_sawtooth(arguments):
    """Linear scores on the slice x_d = 1: (2wN)^{(d-1)L}."""
    d, n_tokens, teeth, depth = arguments
    whole = hm.networks.sawtooth_network(*arguments, variant="bias_free")
    slice_ = whole.restrict([0] * (d - 1) + [1], np.eye(d)[: d - 1])
    found = hm.enumerate_regions(slice_, hm.Box.cube(d - 1, 0, 1))
    assert found.n_cells == found.n_regions == (2 * teeth * n_tokens) ** ((d - 1) * depth)


# Attention and Minkowski sums -------------------------------------------------------------------


HEADS = {
    "gaussian": lambda rng, n: rng.standard_normal((n, 2)),
    "integer": lambda rng, n: rng.integers(-2, 3, (n, 2)).astype(float),
    "on a line": lambda rng, n: rng.integers(-3, 4, (n, 1)) * np.array([[1.0, 2.0]]),
    "on a circle": lambda rng, n: np.array(
        [[(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)] for t in rng.standard_normal(n)]
    ),
}


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", HEADS)
def test_cells_of_attention_are_vertices_of_a_minkowski_sum(kind, biased):
    """Linear scores: a cell per vertex of the sum of hulls; affine: per upper vertex of the lifted sum."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        sizes = rng.integers(1, 12, int(rng.integers(1, 5)))
        keys = [HEADS[kind](rng, n) for n in sizes]
        biases = [rng.integers(-2, 3, n).astype(float) for n in sizes] if biased else None
        sums = hm.minkowski_vertices(keys, biases)
        network = hm.Network([hm.Attention(keys, biases, keys)])
        found = hm.enumerate_regions(network, PLANE)
        assert found.n_cells == hm.count_cells(network, PLANE).n_cells == sums.count
        assert {tuple(row) for row in found.routings.tolist()} == {
            tuple(row) for row in sums.choices.tolist()
        }


def test_attention_without_biases_is_a_fan():
    """2-D, linear scores: every cell is a cone, and the cells lie around the origin in a cycle."""
    keys = np.random.default_rng(0).standard_normal((4, 30, 2))
    found = hm.enumerate_regions(hm.Network([hm.Attention(keys, None, keys)]), PLANE)
    assert not found.bounded.any()
    assert len(found.adjacency) == found.n_cells
    assert (np.bincount(found.adjacency.ravel(), minlength=found.n_cells) == 2).all()
    assert all(row[2] == 0 for i in range(found.n_cells) for row in found.exact_halfspaces(i))


# Polygons with many sides -----------------------------------------------------------------------


def rational_circle(n: int) -> list[list[Fraction]]:
    """n points of the unit circle with rational coordinates, counterclockwise."""
    half = [Fraction(2 * k + 1 - n, n) for k in range(n)]  # tangents of half the angles, in (-1, 1)
    front = [[(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)] for t in half[: (n + 1) // 2 * 2]]
    return front + [[-x, -y] for x, y in front]


@pytest.mark.parametrize("n", [30, 31, 32, 33, 50, 100])
def test_one_cell_with_many_sides(n):
    """A key in the middle of keys on a circle: its cell has a side for each of them."""
    circle = rational_circle(n)
    keys = [[0, 0], *circle]
    biases = [1, *([0] * len(circle))]
    network = hm.Network([hm.Attention([keys], [biases], [keys])])
    for arithmetic in ("certified", "exact"):
        found = hm.enumerate_regions(network, PLANE, arithmetic=arithmetic)
        assert found.n_cells == len(circle) + 1
        assert len(found.exact_halfspaces(0)) == len(found.cell_vertices(0)) == len(circle)
        assert found.bounded.tolist() == [True] + [False] * len(circle)
        assert len(found.adjacency) == 2 * len(circle)


@pytest.mark.parametrize("n", [31, 32, 40])
@pytest.mark.parametrize("biased", [False, True])
def test_polygons_with_more_sides_than_a_mask_are_cut_correctly(n, biased):
    """A middle cell with 2n sides and a round domain, cut by ReLUs through vertices and by other heads."""
    circle = rational_circle(n)
    keys = [[0, 0], *circle]
    biases = [1, *([0] * len(circle))]
    values = [[0, 0]] * len(keys)
    bias = Fraction(1, 3) if biased else 0
    folds = hm.FeedForward(
        [[1, 0], [1, 1], [0, 1], [-1, 2]], [bias] * 4, [[1, 2, 0, 1], [0, 1, 1, 1]], [0, 0]
    )
    heads = hm.Attention(
        [[[1, 0], [0, 1], [-1, -1]], [[2, 1], [1, 2], [0, 0]]], None, np.ones((2, 3, 2)), skip=True
    )
    network = hm.Network([hm.Attention([keys], [biases], [values]), heads, folds])
    round_domain = hm.Polytope(circle, [3] * len(circle))
    held_against_rationals(network, round_domain)
    held_against_rationals(network, PLANE)
    held_against_rationals(hm.Network([heads, folds]), round_domain, "exact")


# On the line ------------------------------------------------------------------------------------


def test_a_network_on_the_line():
    """max(0, 1 - |x|) and its cells, regions and maps."""
    tent = hm.Network([hm.FeedForward([[1], [1], [1]], [1, 0, -1], [[1, -2, 1]], [0])])
    found = hm.enumerate_regions(tent, hm.Box([-2], [Fraction(7, 3)]))
    assert ends(found) == [(-2, -1), (-1, 0), (0, 1), (1, Fraction(7, 3))]
    assert found.linear.ravel().tolist() == [0, 1, -1, 0]
    assert found.offset.ravel().tolist() == [0, 1, 1, 0]
    assert np.allclose(found.volumes, [1, 1, 1, 4 / 3], rtol=1e-12)
    assert found.adjacency.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert found.n_regions == 4
    assert [found.cell_vertices(i).ravel().tolist() for i in range(3)] == [[-2, -1], [-1, 0], [0, 1]]
    whole = hm.enumerate_regions(tent, hm.WholeSpace(1))
    assert whole.n_cells == 4
    assert whole.bounded.tolist() == [False, True, True, False]
    assert whole.coverage is None
    ray = hm.enumerate_regions(tent, hm.Polytope([[-2]], [1]))  # x >= -1/2
    assert ends(ray) == [(Fraction(-1, 2), 0), (0, 1), (1,)]


def test_breakpoints_on_a_line_are_exact():
    """A lookup table: N keys on the line have N - 1 walls, in the middle between neighbours."""
    places = [Fraction(k * k, 7) for k in range(12)]
    head = hm.Attention(
        [[[p] for p in places]], [[-p * p / 2 for p in places]], [[[p] for p in places]], skip=False
    )
    found = hm.enumerate_regions(hm.Network([head]), hm.Box([-1], [20]))
    walls = [(p + q) / 2 for p, q in pairwise(places)]
    assert ends(found) == list(pairwise([-1, *walls, 20]))
    assert found.routings.ravel().tolist() == list(range(12))
    assert np.allclose(found.offset.ravel(), [float(p) for p in places], rtol=1e-15)
    assert not found.linear.any()


# Networks that hardly are -----------------------------------------------------------------------


def test_an_affine_network_is_one_cell():
    network = hm.Network([hm.Affine([[1, 2], [3, 4]], [5, 6])])
    for domain in (SQUARE, PLANE, hm.Polytope([[1, 0]], [0])):
        found = held_against_rationals(network, domain)
        assert (found.n_cells, found.n_regions, len(found.adjacency)) == (1, 1, 0)
        assert found.linear.tolist() == [[[1, 2], [3, 4]]]
        assert found.offset.tolist() == [[5, 6]]


def test_one_key_a_constant_and_dead_units_cut_nothing():
    one_key = hm.Attention([[[1, 2]]], None, [[[5, 7]]])
    dead = hm.FeedForward([[0, 0], [1, 1]], [-1, -100], [[1, 1], [2, 2]], [0, 0])
    constant = hm.FeedForward([[0, 0]], [3], [[2], [1]], [0, 0])
    for blocks in ([one_key], [dead], [constant], [one_key, dead], [dead, one_key, constant]):
        assert held_against_rationals(hm.Network(blocks), SQUARE).n_cells == 1


def test_walls_on_the_sides_of_the_domain_and_through_its_corners():
    """Lines along the sides make no cell; diagonals through the corners do."""
    rows = [[1, 0], [1, 0], [0, 1], [0, -1], [1, 1], [1, -1]]
    network = hm.Network([hm.FeedForward(rows, [4, -4, -4, -4, 0, 0], np.ones((1, 6)), [0])])
    assert held_against_rationals(network, SQUARE).n_cells == 4


def test_slivers_are_listed_and_counted():
    """Two parallel folds 2^-40 apart: a cell of that width, thinner than the tolerance and yet a cell."""
    network = hm.Network([hm.FeedForward([[1, 0], [1, 0]], [0, 2.0**-40], [[1, 1]], [0])])
    found = held_against_rationals(network, SQUARE)
    assert found.n_cells == 3
    assert (found.n_slivers, found.slivers.tolist()) == (1, [1])
    assert found.volumes[1] == 8 * 2.0**-40
    assert hm.count_cells(network, SQUARE).n_slivers == 1
    assert hm.enumerate_regions(network, SQUARE, sliver=1e-15).n_slivers == 0


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-8, 1e8, 1e150, 1e300])
def test_extreme_scales(scale):
    """The same arrangement at the ends of the range of floats: four lines, a wall, eleven cells or more."""
    lines = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -2.0]])
    offsets = np.array([0.0, 0.5, -1.0, 0.25])
    head = hm.Attention([[[1.0, 1.0], [-1.0, 0.5]]], [[0.25, 0.5]], [[[1.0, 0.0], [0.0, 1.0]]])
    plain = hm.Network([head, hm.FeedForward(lines, offsets, np.ones((2, 4)), [0, 0])])
    expected = signatures_of(held_against_rationals(plain, SQUARE))
    shrunk = hm.Affine([[1 / scale, 0], [0, 1 / scale]], [0, 0])
    box = hm.Box.cube(2, Fraction(-4) / Fraction(1 / scale), Fraction(4) / Fraction(1 / scale))
    assert signatures_of(held_against_rationals(hm.Network([shrunk, *plain.blocks]), box)) == expected
    scores = np.array([[[1.0, 1.0], [-1.0, 0.5]]]) * scale
    biases = np.array([[0.25, 0.5]]) * scale
    loud = hm.Attention(scores, biases, [[[1.0, 0.0], [0.0, 1.0]]])
    fold = hm.FeedForward(lines * scale, offsets * scale, np.ones((2, 4)), [0, 0])
    assert signatures_of(held_against_rationals(hm.Network([loud, fold]), SQUARE)) == expected


def test_a_slice_of_a_wide_network():
    """A plane through R^50 in a depth-2 transformer: cells by enumeration, points by the forward pass."""
    rng = np.random.default_rng(0)
    wide = hm.Network.random(50, n_tokens=20, heads=2, depth=2, d_ff=16, rng=0)
    flat = wide.restrict(rng.standard_normal(50), rng.standard_normal((2, 50)))
    found = hm.enumerate_regions(flat, hm.Box.cube(2, -1, 1))
    assert abs(found.coverage - 1) < 1e-9
    points = rng.uniform(-1, 1, (2000, 2))
    cells = found.locate(points)
    assert (cells >= 0).all()
    values = np.einsum("nij,nj->ni", found.linear[cells], points) + found.offset[cells]
    assert np.allclose(values, flat(points), rtol=1e-9, atol=1e-9)


def test_a_regionset_knows_its_neighbourhood_exactly():
    """Depth 3 with walls and folds against the rational enumerator, some hundred cells."""
    network = hm.Network.random(2, n_tokens=6, heads=2, depth=3, d_ff=8, rng=5)
    found = held_against_rationals(network, SQUARE)
    assert found.n_cells > 150
    assert set(found.adjacency_kind.tolist()) == {0, 1}
