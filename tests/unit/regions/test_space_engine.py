"""Cells in three to six dimensions: counts from elsewhere, and shapes that an engine must survive."""

import numpy as np
import pytest
from oracles.random_space import space_instance

import hardmax as hm
from hardmax.errors import HardmaxError
from hardmax.networks.layers import layers_of
from hardmax.regions.space import kernels as space_kernels
from hardmax.regions.space.machine import SpaceMachine

# cells in [-4, 4]^d, found by linear programs and by splitting before this engine was written
GOLDEN = {
    (3, 16, 16, 1): 2936,
    (3, 32, 32, 1): 34615,
    (3, 64, 64, 1): 230970,
    (4, 16, 16, 1): 17249,
    (4, 24, 24, 1): 133134,
    (5, 12, 12, 1): 27477,
    (6, 10, 10, 1): 17176,
}


@pytest.mark.parametrize("widths", GOLDEN, ids=str)
def test_golden_counts(widths):
    count = hm.count_cells(hm.Network.random_mlp(list(widths), 0), hm.Box.cube(widths[0], -4, 4))
    assert (count.n_cells, count.complete, count.exact) == (GOLDEN[widths], True, True)


@pytest.mark.parametrize(("low", "high", "cells"), [(0, 1, 4096), (-4, 4, 5832)])
def test_sawtooth(low, high, cells):
    """(2wN)^{dL} on the unit cube; beyond it each tooth gains an outer piece."""
    network = hm.networks.sawtooth_network(3, 2, 1, 2)
    assert hm.count_cells(network, hm.Box.cube(3, low, high)).n_cells == cells


@pytest.mark.parametrize(("d", "heads", "keys"), [(3, 3, 8), (3, 2, 20), (4, 2, 8), (4, 3, 6), (5, 2, 6)])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_in_the_whole_space_is_a_minkowski_sum(d, heads, keys, biased):
    rng = np.random.default_rng(d)
    scores, biases = rng.standard_normal((heads, keys, d)), rng.standard_normal((heads, keys))
    network = hm.Network(
        [hm.Attention(scores, biases if biased else None, rng.standard_normal((heads, keys, d)))]
    )
    expected = hm.minkowski_vertices(list(scores), list(biases) if biased else None).count
    assert hm.count_cells(network, hm.WholeSpace(d)).n_cells == expected


@pytest.mark.parametrize(("d", "keys", "depth"), [(3, 6, 2), (4, 5, 2), (5, 4, 1)])
def test_transformers_by_two_routes(d, keys, depth):
    """Splitting polyhedra and solving linear programs share neither vertices nor error bounds."""
    network = hm.Network.random(d, n_tokens=keys, heads=2, depth=depth, d_ff=5, rng=d)
    box = hm.Box.cube(d, -3, 3)
    split = hm.enumerate_regions(network, box, engine="space")
    searched = hm.enumerate_regions(network, box, engine="search")
    assert split.n_cells > 50
    np.testing.assert_array_equal(split.routings, searched.routings)
    np.testing.assert_array_equal(split.bits, searched.bits)


def test_hyperplanes_in_general_position():
    """n hyperplanes in R^d have sum_k C(n, k) cells, of which C(n - 1, d) are bounded."""
    from math import comb

    rng = np.random.default_rng(5)
    for d, n in ((3, 9), (4, 8), (5, 8), (6, 8)):
        network = hm.Network.mlp(
            [(rng.standard_normal((n, d)), rng.standard_normal(n)), (np.ones((1, n)), np.zeros(1))]
        )
        count = hm.count_cells(network, hm.WholeSpace(d))
        assert count.n_cells == sum(comb(n, k) for k in range(d + 1))
        assert count.n_cells - count.n_unbounded == comb(n - 1, d)


def test_grid_of_coincident_vertices():
    """Integer planes through common points: every vertex lies on many facets, and zeros are proven."""
    rows = [[a, b, c] for a in (-1, 0, 1) for b in (-1, 0, 1) for c in (0, 1) if (a, b, c) > (0, 0, 0)]
    network = hm.Network.mlp([(rows, [0] * len(rows)), ([[1] * len(rows)], [0])])
    box = hm.Box.cube(3, -1, 1)
    certified, exact = (hm.count_cells(network, box, arithmetic=a) for a in ("certified", "exact"))
    assert certified.n_cells == exact.n_cells
    assert certified.n_zero > 0
    assert certified.n_rational == 0


def test_more_facets_and_vertices_than_a_word_holds():
    """A polytope with 150 facets: sets of facets and of rays take several words."""
    rng = np.random.default_rng(1)
    normals = rng.standard_normal((150, 3))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    domain = hm.Polytope(normals, np.ones(150))
    network = hm.Network.mlp([([[1.0, 0.5, 0.25]], [0.1]), ([[1.0]], [0.0])])
    cells = hm.enumerate_regions(network, domain)
    assert cells.n_cells == 2
    vertices = sum(len(cells.cell_vertices(i)) for i in range(2))
    from scipy.spatial import HalfspaceIntersection

    hull = HalfspaceIntersection(np.column_stack([normals, -np.ones(150)]), np.zeros(3))
    corners = len(np.unique(np.round(hull.intersections, 9), axis=0))
    crossing = vertices - corners  # the cut adds its polygon's corners to both sides
    assert crossing % 2 == 0
    assert crossing > 0
    assert cells.volumes.sum() == pytest.approx(_volume(hull.intersections), rel=1e-9)


def _volume(points):
    from scipy.spatial import ConvexHull

    return ConvexHull(points).volume


def test_cells_that_contain_lines():
    """A network that sees one direction of four: slabs without a vertex."""
    network = hm.Network.mlp([([[1, 2, 3, 4]] * 2, [0, 1]), ([[1, 1]], [0])])
    cells = hm.enumerate_regions(network, hm.WholeSpace(4))
    assert cells.n_cells == 3
    assert not cells.bounded.any()
    assert (cells.margins > 0).all()
    located = cells.locate(cells.witnesses)
    assert located.tolist() == [0, 1, 2]
    nothing = hm.Network([hm.Affine(np.zeros((1, 3)), [1.0])])
    assert hm.count_cells(nothing, hm.WholeSpace(3)).n_cells == 1


def test_a_run_can_be_stopped_and_resumed_anywhere():
    network, box = hm.Network.random(3, 4, 2, 2, 5, 1), hm.Box.cube(3, -2, 2)
    whole = SpaceMachine(layers_of(network), box, arithmetic="certified", store=True, sliver=1e-9)
    while not whole.done:
        whole.advance(10_000)
    pieces = SpaceMachine(layers_of(network), box, arithmetic="certified", store=True, sliver=1e-9)
    while not pieces.done:
        pieces.advance(7)
        state = {name: array.copy() for name, array in pieces.state().items()}
        pieces = SpaceMachine(layers_of(network), box, arithmetic="certified", store=True, sliver=1e-9)
        pieces.restore(state)
    a, b = whole.cells(), pieces.cells()
    assert a.n == b.n > 100
    for name in ("bits", "routings", "rays", "owner", "wall", "witnesses"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.masks.content, b.masks.content)


@pytest.mark.parametrize("number", range(0, 60, 4))
def test_cells_that_are_only_counted_are_those_that_are_stored(number):
    """Counting does not build the last cells: their number, and of the unbounded ones, must not change."""
    case, rng = space_instance(number), np.random.default_rng(number)
    counts = []
    for store, steps in ((True, 100_000), (False, 100_000), (False, 3)):
        machine = SpaceMachine(
            layers_of(case.network), case.domain, arithmetic="certified", store=store, sliver=1e-9
        )
        while not machine.done:
            if steps == 3:  # a stack that is full at any moment
                ints = int(machine.control[space_kernels.C_INTS]) + int(rng.integers(1, 1500))
                floats = int(machine.control[space_kernels.C_FLOATS]) + int(rng.integers(1, 1500))
                machine.si, machine.sf = machine.si[:ints].copy(), machine.sf[:floats].copy()
            machine.advance(steps)
        counts.append((machine.n_cells, machine.n_unbounded, machine.layer_cells.tolist()))
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize("arithmetic", ["certified", "exact", "float"])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6, 7, 40, 41, 42, 43])
def test_counting_stops_at_the_limit(arithmetic, most):
    """Cells are counted up to four at a time, but never beyond the limit."""
    network, box = hm.Network.random_mlp([3, 6, 6, 1], 0), hm.Box.cube(3, -4, 4)
    machine = SpaceMachine(layers_of(network), box, arithmetic=arithmetic, store=False, sliver=1e-9)
    machine.limit(most)
    machine.advance(100_000)
    assert machine.n_cells == most
    machine.limit(None)
    while not machine.done:
        machine.advance(100_000)
    assert machine.n_cells == hm.enumerate_regions(network, box).n_cells


@pytest.mark.parametrize(
    ("domain", "sentence"),
    [
        (hm.Polytope([[1, 0, 0], [-1, 0, 0]], [0, -1]), "interior"),
        (hm.Polytope([[1, 0, 0], [-1, 0, 0]], [0, 0]), "interior"),
        (hm.Box.cube(2, 0, 1), "dimension"),
    ],
)
def test_domains_without_an_answer(domain, sentence):
    with pytest.raises(HardmaxError, match=sentence):
        hm.count_cells(hm.Network.random_mlp([3, 3, 1], 0), domain)


@pytest.mark.parametrize("number", range(0, 60, 5))
def test_stopping_anywhere_and_a_stack_that_overflows_change_nothing(number):
    """A node that was cut leaves halves where it stood; what is left of it must be pushed, not restored."""
    case, rng = space_instance(number), np.random.default_rng(number)
    whole, halting = (
        SpaceMachine(layers_of(case.network), case.domain, arithmetic="certified", store=True, sliver=1e-9)
        for _ in range(2)
    )
    while not whole.done:
        whole.advance(100_000)
    while not halting.done:
        ints = int(halting.control[space_kernels.C_INTS]) + int(rng.integers(1, 1500))
        floats = int(halting.control[space_kernels.C_FLOATS]) + int(rng.integers(1, 1500))
        halting.si, halting.sf = halting.si[:ints].copy(), halting.sf[:floats].copy()
        halting.advance(int(rng.integers(1, 9)))
    for name in ("bits", "routings", "tied", "rays", "owner", "wall", "witnesses", "margins"):
        np.testing.assert_array_equal(getattr(whole.cells(), name), getattr(halting.cells(), name))
    np.testing.assert_array_equal(whole.cells().masks.content, halting.cells().masks.content)
