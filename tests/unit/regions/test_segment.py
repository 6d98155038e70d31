"""The segment engine: cells on the line against the rational enumerator, big networks against themselves."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numba.core.caching import NullCache
from oracles.lines import on_a_line
from oracles.max_group_networks import max_instance
from oracles.rational_regions import enumerate_rationally
from oracles.rational_space import enumerate_space

import hardmax as hm
from hardmax.compiling import kernel
from hardmax.networks.layers import layers_of
from hardmax.regions.cells import AT_INFINITY, Cells, encode_wall
from hardmax.regions.segment.geometry import SegmentGeometry
from hardmax.regions.segment.machine import SegmentMachine
from hardmax.regions.segment.sign_kernels import NO_FACET, OWN, follow, place_in_pairs

NETWORKS = 420


@kernel
def root_as_pair(net, state, rungs, bits, routings, k, layer, wall):
    follow(net, state, bits, routings, k, layer)
    rungs.vertex.asked[0] = NO_FACET
    return place_in_pairs(net, state, rungs, np.int64(OWN), wall, 0.0)


root_as_pair._cache = NullCache()  # the stamp of a cache here would not see edits of the sources


def machine_of(network, domain, arithmetic="certified", **options):
    options = {"store": True, "sliver": 1e-9} | options
    return SegmentMachine(layers_of(network), domain, arithmetic=arithmetic, **options)


def finished(machine, steps=10**9):
    while not machine.done:
        machine.advance(steps)
    return machine


def signatures_of(network, cells):
    relu = hm.networks.Signature(cells.routings.copy(), cells.bits.copy(), network.units_total).relu
    return [
        (tuple(routing), tuple(map(int, bits)))
        for routing, bits in zip(cells.routings.tolist(), relu, strict=True)
    ]


def geometry_of(machine):
    return SegmentGeometry(machine.cells(), machine.exact_maps, 1)


def judge(network, domain, machine):
    """Everything that the rational enumerator knows: signatures in order, ends, lengths, contacts."""
    shape = geometry_of(machine)
    cells, errors = shape.cells, shape.cells.vertices.content[:, 1].reshape(-1, 2)
    expected = enumerate_space(network, domain)
    assert signatures_of(network, cells) == expected.signatures
    for i, cell in enumerate(expected.cells):
        ends = shape.exact_ends(i)
        assert [end for end in ends if isinstance(end, Fraction)] == sorted(v for (v,) in cell.vertices)
        for end, place, error in zip(ends, (shape.low[i], shape.high[i]), errors[i], strict=True):
            assert end == place if not isinstance(end, Fraction) else abs(end - Fraction(place)) <= error
        assert shape.bounded[i] == cell.bounded == (len(shape.cell_vertices(i)) == 2)
        if cell.bounded:
            slack = errors[i].sum() + 1e-12 * float(cell.volume)
            assert abs(Fraction(cells.lengths[i]) - cell.volume) <= Fraction(slack)
        margin, witness = cells.margins[i], Fraction(cells.witnesses[i, 0])
        if margin > 0:
            reach = Fraction(margin) if np.isfinite(margin) else Fraction(10**6)
            assert cell.contains([witness - reach])
            assert cell.contains([witness + reach])
        assert cell.contains(shape.exact_witness(i), strictly=True)
        assert len(shape.boundary(i)) == len(cell.halfspaces)
    contacts = shape.contacts()
    found = zip(contacts.pairs.tolist(), contacts.kinds.tolist(), strict=True)
    kinds = {(i, j): "wall" if kind else "fold" for (i, j), kind in found}
    assert kinds == expected.adjacency
    assert machine.n_unbounded == int((~shape.bounded).sum())


@pytest.mark.parametrize("part", range(6))
def test_cells_on_a_line_are_those_of_the_rational_enumerator(part):
    for number in range(part, NETWORKS, 6):
        network, domain = on_a_line(number)
        machine = finished(machine_of(network, domain))
        judge(network, domain, machine)
        if number % 5 == 0:
            exact = finished(machine_of(network, domain, "exact"))
            assert signatures_of(network, exact.cells()) == signatures_of(network, machine.cells())


def test_compiled_rungs_decide_nearly_everything_and_rationals_agree():
    compiled = rational = 0
    for number in range(1000, 1150):
        network, domain = on_a_line(number)
        machine = finished(machine_of(network, domain))
        judge(network, domain, machine)
        if not machine.cells().tied.any():  # means of keys that win together are for rationals
            compiled += machine.n_zero + machine.n_double_double
            rational += machine.n_rational
    assert compiled > 100
    assert rational < 0.05 * compiled


def test_weights_at_the_ends_of_the_range_of_floats():
    for number in range(150):
        network, domain = on_a_line(number, scaled=True)
        machine = finished(machine_of(network, domain))
        expected = enumerate_space(network, domain)
        assert signatures_of(network, machine.cells()) == expected.signatures


def test_small_batches_give_the_same_cells():
    for number in range(2000, 2030):
        network, domain = on_a_line(number)
        whole = finished(machine_of(network, domain)).cells()
        machine = machine_of(network, domain)
        machine.batch = 1
        cells = finished(machine, 1).cells()
        for name in ("bits", "routings", "tied", "position", "wall"):
            assert np.array_equal(getattr(cells, name), getattr(whole, name)), name
        # a product may be summed in another order when the batch is smaller
        (found, error), (expected, slack) = cells.vertices.content.T, whole.vertices.content.T
        finite = np.isfinite(expected)
        assert np.array_equal(found[~finite], expected[~finite])
        assert (np.abs(found[finite] - expected[finite]) <= (error + slack)[finite]).all()


def test_an_interrupted_run_goes_on():
    network, domain = hm.networks.sawtooth_network(1, n_tokens=3, teeth=2, depth=3), hm.Box([0], [1])
    expected = finished(machine_of(network, domain))
    assert expected.n_cells > 100
    machine = machine_of(network, domain)
    machine.batch = 7
    for _ in range(20):
        machine.advance(3)
    assert not machine.done
    assert 0 < machine.n_cells < expected.n_cells
    later = machine_of(network, domain)
    later.batch = 7
    later.restore(machine.state())
    finished(later)
    assert np.array_equal(later.cells().bits, expected.cells().bits)
    assert np.allclose(geometry_of(later).low, geometry_of(expected).low, rtol=0, atol=1e-9)
    assert later.n_cells == expected.n_cells
    assert later.coverage == pytest.approx(1.0)
    assert later.layer_cells.tolist() == expected.layer_cells.tolist()


def test_a_limit_stops_and_the_first_cells_are_right():
    network, domain = hm.networks.sawtooth_network(1, n_tokens=3, teeth=2, depth=2), hm.Box([-4], [4])
    whole = finished(machine_of(network, domain))
    for most in (1, 10, whole.n_cells - 1, whole.n_cells):
        machine = machine_of(network, domain)
        machine.limit(most)
        machine.advance(10**9)
        assert machine.n_cells == most
        assert machine.done == (most == whole.n_cells)
        some, everything = geometry_of(machine), geometry_of(whole)
        assert np.array_equal(some.cells.bits[some.along], everything.cells.bits[everything.along[:most]])


def test_counting_needs_no_memory_and_gives_the_same_numbers():
    network, domain = hm.networks.sawtooth_network(1, n_tokens=3, teeth=2, depth=3), hm.Box([0], [1])
    stored, counted = (finished(machine_of(network, domain, store=store)) for store in (True, False))
    assert stored.n_cells == counted.n_cells == 1728
    assert not counted.written
    assert stored.layer_cells.tolist() == counted.layer_cells.tolist()
    assert stored.coverage == counted.coverage == pytest.approx(1.0)


@pytest.mark.parametrize(("low", "high", "cells"), [(0, 1, 144), (-4, 4, 146)])
def test_the_sawtooth_network(low, high, cells):
    network = hm.networks.sawtooth_network(1, n_tokens=3, teeth=2, depth=2)
    for arithmetic in ("certified", "exact"):
        machine = finished(machine_of(network, hm.Box([low], [high]), arithmetic))
        assert machine.n_cells == cells
    assert machine.cells().n == cells


def test_cells_survive_a_file():
    network, domain = on_a_line(3)
    cells = finished(machine_of(network, domain)).cells()
    again = Cells.from_state(cells.state())
    for name in ("bits", "routings", "tied", "position", "lengths", "owner", "wall", "witnesses", "margins"):
        assert np.array_equal(getattr(again, name), getattr(cells, name))
    assert np.array_equal(again.vertices.content, cells.vertices.content)


def test_an_affine_network_has_one_cell():
    shape = geometry_of(finished(machine_of(hm.Network([hm.Affine([[2.0]], [1.0])]), hm.WholeSpace(1))))
    assert shape.cells.n == 1
    assert not shape.bounded[0]
    assert shape.cells.margins[0] == np.inf
    assert shape.cells.owner.tolist() == [AT_INFINITY, AT_INFINITY]


def test_a_domain_without_interior_is_refused():
    with pytest.raises(hm.errors.EmptyDomainError, match="domain must have interior"):
        machine_of(on_a_line(0)[0], hm.Polytope([[1.0], [-1.0]], [0.0, -1.0]))


def test_maxout_pooling_and_leaky_layers():
    """Against the rational enumerator of the plane, on a strip whose second coordinate is ignored."""
    for number in range(120):
        rng = np.random.default_rng(number)
        direction = rng.integers(-2, 3, 2) if number % 2 else rng.standard_normal(2)
        network = max_instance(number).network.restrict(rng.integers(-2, 3, 2), [direction])
        wide = hm.Network([hm.Affine([[1, 0]], [0]), *network.blocks])
        expected = enumerate_rationally(wide, hm.Box([-3, 0], [3, 1]))
        machine = machine_of(network, hm.Box([-3], [3]))
        cells = finished(machine).cells()
        assert signatures_of(network, cells) == expected.signatures
        contacts = geometry_of(machine).contacts()
        kinds = {tuple(pair): kind for pair, kind in zip(contacts.pairs, contacts.kinds, strict=True)}
        assert {pair: "wall" if kind else "fold" for pair, kind in kinds.items()} == expected.adjacency


# Breaks that floats cannot tell apart -------------------------------------------------------------


@pytest.mark.parametrize("gap", [Fraction(0), Fraction(1, 10**12), Fraction(1, 10**25), Fraction(1, 10**60)])
@pytest.mark.parametrize("first", ["left", "right"])
def test_two_folds_that_nearly_coincide_are_ordered(gap, first):
    """Units that switch on at 1/3 and at 1/3 + gap; the order is seen in the signature between them."""
    places = [Fraction(1, 3), Fraction(1, 3) + gap]
    if first == "right":
        places.reverse()
    network = hm.Network([hm.FeedForward([[1], [1]], [-places[0], -places[1]], [[1, 1]], [0])])
    machine = finished(machine_of(network, hm.Box([0], [1])))
    shape = geometry_of(machine)
    assert shape.cells.n == (3 if gap else 2)
    along = shape.cells.bits[shape.along, 0].tolist()
    assert along == ([0, 1 if first == "left" else 2, 3] if gap else [0, 3])
    if gap:
        assert shape.cells.lengths[shape.along[1]] == pytest.approx(float(gap), rel=1e-6, abs=0)
    rungs = (machine.n_zero, machine.n_double_double, machine.n_rational)
    assert (
        rungs
        == {0: (1, 0, 0), 12: (0, 0, 0), 25: (0, 1, 0), 60: (0, 0, 1)}[len(str(1 / gap)) - 1 if gap else 0]
    )


def test_a_wall_and_a_fold_of_different_layers_may_coincide():
    head = hm.Attention([[[-1], [1]]], [[[Fraction(1, 3), Fraction(-1, 3)]][0]], [[[0], [0]]])
    fold = hm.FeedForward([[1]], [Fraction(-1, 3)], [[1]], [0])
    machine = finished(machine_of(hm.Network([head, fold]), hm.Box([0], [1])))
    assert machine.cells().n == 2
    assert geometry_of(machine).contacts().kinds.tolist() == [1]


# Big networks -------------------------------------------------------------------------------------


def test_a_big_network_agrees_with_its_forward_pass():
    """Width 384, 12 heads with 128 keys, d_ff 1536: the layers of the network that the engine is made for."""
    network = hm.Network.random(
        384, n_tokens=128, heads=12, depth=2, d_ff=1536, rng=0, ffn_skip=True,
        score_scale=384**-0.5, bias_scale=0.5, output_scale=12**-0.5,
    )  # fmt: skip
    start, end = np.random.default_rng(1).standard_normal((2, 384))
    trace = hm.trace_segment(network, start, start + 0.2 * (end - start))
    assert trace.complete
    assert trace.n_pieces > 100
    places = np.concatenate([[0.0], trace.breakpoints, [1.0]])
    assert (np.diff(places) > 0).all()
    middles = 0.5 * (places[1:] + places[:-1])
    points = np.array([trace.point(t) for t in middles])
    seen = network.signature(points)
    assert np.array_equal(seen.routings, trace.signatures.routings)
    assert np.array_equal(seen.bits, trace.signatures.bits)
    assert np.allclose(network(points), trace.values.mean(axis=1), atol=1e-9)


def test_places_in_double_double_are_those_of_rationals():
    network = hm.Network.random(16, n_tokens=10, heads=3, depth=3, d_ff=48, rng=0, ffn_skip=True)
    network = network.restrict(np.zeros(16), [np.ones(16)])
    machine = finished(machine_of(network, hm.Box([-1], [1])))
    cells, ladder = machine.cells(), machine.undecided._rungs()
    net, path = machine.undecided._net, machine.undecided._path
    assert not cells.tied.any()
    for i in range(0, cells.n, 7):
        for layer, group, a, b in ((2, 5, 0, 0), (3, 0, 2, 7), (6, 11, 0, 0)):
            signature = cells.bits[i], cells.routings[i]
            slope, constant = machine.exact_maps.line(layer, group, a, b, *signature)
            wall = encode_wall(layer, group, a, b)
            assert root_as_pair(net, path, ladder.rungs, cells.bits, cells.routings, i, layer, wall)
            place = Fraction(path.place[0]) + Fraction(path.place[1])
            off = abs(place - Fraction(-constant, slope))
            assert off <= Fraction(path.place[2]) < Fraction(1, 2**70) * max(1, abs(place))


# Regions on the line ------------------------------------------------------------------------------


def test_regions_are_those_of_a_strip():
    """The plane engine enumerates the line as a strip: the same cells, contacts, maps and regions."""
    for number in range(3000, 3040):
        network, domain = on_a_line(number)
        found = hm.enumerate_regions(network, domain)
        strip = hm.enumerate_regions(network, domain, engine="plane")
        assert (found.cells.kind, strip.cells.kind) == ("intervals", "polygons")
        assert np.array_equal(found.bits, strip.bits)
        assert np.array_equal(found.routings, strip.routings)
        assert np.array_equal(found.adjacency, strip.adjacency)
        assert np.array_equal(found.adjacency_kind, strip.adjacency_kind)
        assert np.array_equal(found.region_of_cell, strip.region_of_cell)
        assert np.array_equal(found.linear, strip.linear)
        assert np.array_equal(found.bounded, strip.bounded)
        assert np.allclose(found.volumes, strip.volumes, rtol=1e-6)
        assert (found.coverage is None) == (strip.coverage is None)


def test_regions_on_the_line_survive_a_file_and_are_verified(tmp_path):
    network = hm.Network.random(1, 5, 2, 2, 8, 0)
    found = hm.enumerate_regions(network, hm.Box([-4], [4]))
    again = hm.load(found.save(tmp_path / "line.npz"))
    assert np.array_equal(again.witnesses, found.witnesses)
    assert again.n_regions == found.n_regions
    assert again.verify(n_points=1000).ok


def test_a_checkpoint_on_the_line(tmp_path):
    network, path = hm.networks.sawtooth_network(1, n_tokens=3, teeth=2, depth=3), tmp_path / "line.npz"
    for most in (10, 700):
        part = hm.enumerate_regions(network, hm.Box([0], [1]), checkpoint=path, max_cells=most)
        assert (part.n_cells, part.complete) == (most, False)
        assert path.exists()
    found = hm.enumerate_regions(network, hm.Box([0], [1]), checkpoint=path)
    assert found.n_cells == 1728
    assert found.coverage == pytest.approx(1.0)
    assert not path.exists()


def test_a_domain_far_from_zero_keeps_its_digits():
    network = hm.Network.random(1, 20, 3, 2, 30, 0).restrict([-(2.0**40)], [[1.0]])
    domain = hm.Box([2.0**40 - 2], [2.0**40 + 2])
    machine = finished(machine_of(network, domain))
    assert machine.origin != 0.0
    judge(network, domain, machine)


# The ladder ---------------------------------------------------------------------------------------


def integer_network(rng, widths, most):
    return hm.Network.mlp(
        [
            (
                rng.integers(-most, most + 1, (n, m)).astype(float),
                rng.integers(-most, most + 1, n).astype(float),
            )
            for m, n in pairwise(widths)
        ]
    )


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("widths", [[1, 64, 64, 64, 1], [1, *[12] * 6, 1]])
def test_integer_networks_have_the_same_cells_in_rationals(widths, most):
    """Larger than the enumerator of the tests can do: the same engine without floats and residues."""
    network = integer_network(np.random.default_rng(most), widths, most)
    machines = [finished(machine_of(network, hm.Box([-8], [8]), a)) for a in ("certified", "exact")]
    assert machines[0].n_zero > 10
    assert machines[0].n_rational == 0
    certified, exact = (machine.cells() for machine in machines)
    for name in ("bits", "routings", "tied", "position"):
        assert np.array_equal(getattr(certified, name), getattr(exact, name)), name
    shapes = [geometry_of(machine) for machine in machines]
    assert [shapes[0].exact_ends(i) for i in range(certified.n)] == [
        shapes[1].exact_ends(i) for i in range(exact.n)
    ]


def test_a_slope_that_floats_lose_is_found():
    """Two units whose difference has the slope 2^-70 and changes its sign in the middle of the interval."""
    tiny = Fraction(1, 2**70)
    first = hm.FeedForward([[1], [1]], [2, 2], [[1, -1], [tiny, 0]], [0, -2 * tiny])
    second = hm.FeedForward([[1, 1]], [0], [[1]], [0])
    machine = finished(machine_of(hm.Network([first, second]), hm.Box([-1], [1])))
    shape = geometry_of(machine)
    assert [shape.exact_ends(i) for i in shape.along] == [(-1, 0), (0, 1)]
    assert machine.n_rational <= 1


@pytest.mark.parametrize("copies", [2, 30])
def test_copies_of_a_unit_break_together(copies):
    """Multiples of one row change in one place, whatever their number and sign."""
    rng = np.random.default_rng(copies)
    factors = rng.choice([-3, -1, 1, 5, 7], copies)
    w, b = np.full(copies, 0.1) * factors, np.full(copies, -0.03) * factors
    exact = [(Fraction(0.1) * int(f), -Fraction(0.03) * int(f)) for f in factors]
    network = hm.Network(
        [hm.FeedForward([[a] for a, _ in exact], [c for _, c in exact], [[1.0] * copies], [0])]
    )
    machine = finished(machine_of(network, hm.Box([0], [1])))
    assert machine.n_cells == 2
    assert machine.n_rational == 0
    assert machine.n_zero >= copies - 1
    rounded = hm.Network([hm.FeedForward(w[:, None], b, [[1.0] * copies], [0])])
    roots = {Fraction(-c) / Fraction(a) for a, c in zip(w.tolist(), b.tolist(), strict=True)}
    assert finished(machine_of(rounded, hm.Box([0], [1]))).n_cells == 1 + len(roots)
