"""Maxout, max-pooling and leaky ReLU: values, maps, files, cells and regions, against rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.judging_regions import judge
from oracles.made_cells import region_set
from oracles.max_group_networks import max_instance, max_network
from oracles.rational_regions import exact_forward
from oracles.rational_space import enumerate_space

import hardmax as hm
from hardmax import FeedForward, Maxout, Network, errors
from hardmax.networks.blocks import plain_blocks
from hardmax.networks.layers import AffineLayer, MaxLayer, ReluLayer, layers_of
from hardmax.networks.signatures import unpack_bits
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.sampling.signature_hashes import SignatureHasher, UniformPoints
from hardmax.regions.space.machine import SpaceMachine

SQUARE = hm.Box.cube(2, -1, 1)


# Examples with exact numbers ----------------------------------------------------------------------


def test_maxout_of_three_pieces_has_three_cells():
    """max(x, y, 0): a quadrant and two pieces of what is left, with areas 1, 3/2 and 3/2 of 4."""
    net = Network([Maxout([[[1, 0], [0, 1], [0, 0]]])])
    found = hm.enumerate_regions(net, SQUARE)
    assert found.routings.ravel().tolist() == [0, 1, 2]
    assert found.volumes.tolist() == [1.5, 1.5, 1.0]
    assert found.linear[:, 0].tolist() == [[1, 0], [0, 1], [0, 0]]
    assert found.n_regions == 3
    assert found.adjacency.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert found.adjacency_kind.tolist() == [0, 0, 0]  # folds: the map is continuous
    assert net.exact_value([Fraction(1, 3), Fraction(1, 7)]) == (Fraction(1, 3),)


def test_max_pooling_compares_coordinates():
    """Pooling (x, y), (y, x + y): three lines through the origin make six cells in the whole plane."""
    lift = hm.Affine([[1, 0], [0, 1], [1, 1]])
    net = Network([lift, Maxout.pool(3, [[0, 1], [1, 2], [0, 2]])])
    found = hm.enumerate_regions(net, hm.WholeSpace(2))
    assert found.n_cells == found.n_regions == 6  # x = y, x = 0 and y = 0
    assert net([3.0, 1.0]).tolist() == [3, 4, 4]
    cell = int(found.locate([[3.0, 1.0]])[0])
    assert found.routings[cell].tolist() == [0, 1, 1]
    assert found.linear[cell].tolist() == [[1, 0], [1, 1], [1, 1]]


def test_a_leaky_layer_keeps_the_slope_of_units_that_are_off():
    """max(z, z/10) of x and y, summed: four cells with slopes 1 and 1/10, exactly."""
    net = Network([FeedForward(None, None, [[1, 1]], slope=[Fraction(1, 10), Fraction(1, 10)])])
    found = hm.enumerate_regions(net, SQUARE)
    assert found.n_cells == found.n_regions == 4
    assert found.relu_bits.astype(int).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert found.linear[:, 0].tolist() == [[0.1, 0.1], [0.1, 1], [1, 0.1], [1, 1]]
    exact = ExactMaps(layers_of(net), SQUARE)
    rows, denominator = exact.output(found.bits[1], found.routings[1])
    assert [Fraction(int(v), denominator) for v in rows.entries()] == [Fraction(1, 10), 1, 0]
    assert net.exact_value([-1, Fraction(1, 3)]) == (Fraction(1, 3) - Fraction(1, 10),)


def test_a_leaky_layer_can_be_invertible_where_a_plain_one_is_not():
    """The second plain layer sees at least 1/2 and never folds; a leaky one does where both units are off."""
    layers = [([[1, 0], [0, 1]], [0, 0]), ([[1, 1]], [Fraction(1, 2)]), ([[1]], [0])]
    assert hm.count_cells(Network.mlp(layers), SQUARE).n_cells == 4
    # where both are off, (x + y)/2 + 1/2 still changes its sign; where one is, x + y/2 + 1/2 does not
    assert hm.count_cells(Network.mlp(layers, slope=0.5), SQUARE).n_cells == 5


# Against rationals --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(180))
def test_cells_maps_contacts_and_regions(number):
    case = max_instance(number)
    judgement = judge(case, ("certified", "exact") if number % 5 == 0 else ("certified",))
    assert not judgement.problems, f"{case}\n{judgement.problems}"
    if number % 10 == 1:
        count = hm.count_regions(case.network, case.domain)
        assert count.n_regions == judgement.expected.n_regions


@pytest.mark.parametrize("number", range(200, 240))
def test_values_signatures_and_maps_at_points(number):
    net = max_instance(number).network
    rng = np.random.default_rng(number)
    for point in rng.integers(-40, 40, (6, 2)) / 8 + 0.01:
        routings, bits, value = exact_forward(net, point)
        assert list(net.exact_value(point)) == value
        seen = net.signature(point)
        assert net(point) == pytest.approx(np.array(value, dtype=float), rel=1e-9, abs=1e-9)
        if (seen.routings[0].tolist(), seen.relu[0].tolist()) == (list(routings), [bool(b) for b in bits]):
            linear, offset = net.affine_at(point)
            assert linear @ point + offset == pytest.approx(net(point), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("number", range(240, 252))
def test_a_file_keeps_every_number(number, tmp_path):
    net = max_instance(number).network
    net.save(tmp_path / "net.npz")
    again = hm.load(tmp_path / "net.npz")
    point = [Fraction(1, 3), Fraction(-2, 7)]
    assert again.exact_value(point) == net.exact_value(point)
    assert [repr(block) for block in again.blocks] == [repr(block) for block in net.blocks]


def test_a_result_verifies_itself():
    rng = np.random.default_rng(3)
    net = Network(
        [
            Maxout(rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4))),
            FeedForward(
                rng.standard_normal((6, 3)), rng.standard_normal(6), rng.standard_normal((2, 6)), slope=0.01
            ),
            hm.Attention(rng.standard_normal((1, 4, 2)), None, rng.standard_normal((1, 4, 2))),
            Maxout.pool(2, [[0, 1]]),
        ]
    )
    found = hm.enumerate_regions(net, hm.Box.cube(2, -3, 3))
    assert found.n_cells > 40
    assert found.verify().ok
    points = rng.uniform(-3, 3, (500, 2))
    cells = found.locate(points)
    values = np.einsum("nij,nj->ni", found.linear[cells], points) + found.offset[cells]
    assert values == pytest.approx(net(points), abs=1e-9)


@pytest.mark.parametrize("number", range(24))
def test_cells_in_space(number):
    net, kind = max_network(number, 3)
    domain = hm.WholeSpace(3) if number % 3 == 0 else hm.Box.cube(3, -2, 2)
    expected = enumerate_space(net, domain)
    machine = SpaceMachine(layers_of(net), domain, arithmetic="certified", store=True, sliver=1e-9)
    while not machine.done:
        machine.advance(10**6)
    cells = machine.cells()
    bits = unpack_bits(cells.bits, net.units_total).astype(int).tolist()
    found = [(tuple(r), tuple(b)) for r, b in zip(cells.routings.tolist(), bits, strict=True)]
    assert found == expected.signatures, kind
    regions = region_set(net, domain, machine)
    for i, cell in enumerate(expected.cells):
        exact = np.array([[float(v) for v in row] for row in cell.map.linear])
        error = regions._maps.error[i] + 2e-16 * np.abs(exact)
        assert (np.abs(exact - regions.linear[i]) <= error).all(), kind
    kinds = [("fold", "wall")[k] for k in regions.adjacency_kind.tolist()]
    assert dict(zip(map(tuple, regions.adjacency.tolist()), kinds, strict=True)) == expected.adjacency, kind
    assert regions.region_of_cell.tolist() == expected.region_of_cell, kind


# Laws ---------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_a_relu_layer_is_a_maxout_layer(seed):
    """max(z, 0) as a unit and as a group of two pieces: the same cells, maps and regions."""
    rng = np.random.default_rng(seed)
    w, b, u = rng.integers(-3, 4, (4, 2)), rng.integers(-3, 4, 4), rng.integers(-3, 4, (2, 4))
    pieces = np.stack([np.zeros_like(w), w], axis=1)
    group = Maxout(pieces, np.stack([0 * b, b], axis=1), u)
    after = hm.FeedForward(rng.integers(-2, 3, (3, 2)), [1, -1, 0], [[1, 1, 1]])
    one = hm.enumerate_regions(Network([FeedForward(w, b, u), after]), hm.Box.cube(2, -4, 4))
    other = hm.enumerate_regions(Network([group, after]), hm.Box.cube(2, -4, 4))
    # a piece that is zero everywhere ties with zero: index 0, as a unit that is off
    assert np.array_equal(np.hstack([other.routings == 1, other.relu_bits]), one.relu_bits)
    assert np.array_equal(one.linear, other.linear)
    assert np.array_equal(one.offset, other.offset)
    assert np.array_equal(one.region_of_cell, other.region_of_cell)
    assert np.array_equal(one.adjacency, other.adjacency)
    assert np.array_equal(one.adjacency_kind, other.adjacency_kind)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.fractions(-2, 2, max_denominator=9))
def test_a_leaky_unit_is_a_relu_of_each_sign(seed, slope):
    """max(0, z) + a min(0, z) = max(0, z) - a max(0, -z)."""
    rng = np.random.default_rng(seed)
    w, b, u = rng.integers(-3, 4, (3, 2)), rng.integers(-3, 4, 3), rng.integers(-3, 4, (2, 3))
    skip = bool(seed % 2)
    leaky = Network([FeedForward(w, b, u, skip=skip, slope=slope)])
    both = np.hstack([u, -slope * u.astype(object)])
    split = Network([FeedForward(np.vstack([w, -w]), np.append(b, -b), both, skip=skip)])
    plain = Network(plain_blocks(leaky.blocks))
    for point in rng.integers(-9, 10, (8, 2)):
        value = leaky.exact_value(point)
        assert value == split.exact_value(point) == plain.exact_value(point)
    found, expected = hm.enumerate_regions(leaky, SQUARE), hm.enumerate_regions(split, SQUARE)
    assert found.n_regions == expected.n_regions


def test_sampled_signatures_are_those_of_the_forward_pass():
    for number in range(40):
        net = max_instance(number).network
        box = hm.Box.cube(2, -2, 2)
        source = UniformPoints(box)
        points = source.draw(300, np.random.default_rng(number))
        hasher = SignatureHasher(net, source, np.random.default_rng(0), largest_batch=300)
        seen = net.signature(points)
        rows = [tuple(row) for row in np.hstack([seen.routings, seen.relu]).tolist()]
        for shares in (True, False):
            hasher.shares = shares
            hashes = hasher.hashes(points).tolist() if shares else _pushed(net, source, points)
            pairs = set(zip(rows, hashes, strict=True))
            assert len(pairs) == len(set(rows)) == len(set(hashes)), max_instance(number)


def _pushed(net, source, points):
    """Hashes by the forward pass alone, as beyond eight dimensions."""
    import hardmax.regions.sampling.signature_hashes as module

    before = module._SHARED_UP_TO
    try:
        module._SHARED_UP_TO = 0
        hasher = SignatureHasher(net, source, np.random.default_rng(0), largest_batch=len(points))
        return hasher.hashes(points).tolist()
    finally:
        module._SHARED_UP_TO = before


# The internal form --------------------------------------------------------------------------------


def test_layers_of_the_new_blocks():
    kinds = [type(layer) for layer in layers_of(Network([Maxout.pool(2, [[0, 1], [1]])]))]
    assert kinds == [MaxLayer]
    skipped = layers_of(Network([Maxout([[[1, 0], [1, 0], [0, 1]]], None, [[1], [2]], [3, 4], skip=True)]))
    assert [type(layer) for layer in skipped] == [MaxLayer, AffineLayer]
    assert skipped[0].key.tolist() == [0, 2]  # a piece that is there twice has the lower index
    assert (skipped[0].d_in, skipped[0].d_out) == (2, 3)
    assert skipped[1].weights.floats.tolist() == [[1, 0, 1], [0, 1, 2]]
    leaky = layers_of(Network.mlp([([[1, 2]], [0]), ([[3]], [1]), ([[1]], [0])], slope=0.5))
    assert [type(layer) for layer in leaky] == [AffineLayer, ReluLayer, AffineLayer, ReluLayer, AffineLayer]
    assert all(not layer.weights.rounded for layer in leaky if isinstance(layer, AffineLayer))


def test_a_maxout_block_on_the_line_is_an_upper_envelope():
    """Tangents of a parabola: every one of nine pieces wins on an interval."""
    slopes = np.arange(-4, 5)
    net = Network([Maxout([slopes[:, None]], [-(slopes**2) / 2])])
    found = hm.enumerate_regions(net, hm.Box([-10], [10]))
    assert found.routings.ravel().tolist() == list(range(9))
    assert found.n_regions == 9


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Maxout(np.zeros((0, 1, 2))), "at least one group"),
        (lambda: Maxout([[[1, 0]]], [[1, 2]]), "1 group of 1 piece"),
        (lambda: Maxout([[[1, 0]]], None, [[1, 2]]), "one column per group"),
        (lambda: Maxout([[[1, 0]]], skip=True), "as many outputs as inputs"),
        (lambda: Maxout([[[1, 0]]], mask=[[False]]), "at least one key"),
        (lambda: Maxout.pool(2, [[0, 2]]), "from 0 to 1"),
        (lambda: Maxout.pool(2, [[]]), "at least one coordinate"),
        (lambda: FeedForward([[1]], None, [[1]], slope=[1, 2]), "slope must hold one number per unit"),
    ],
)
def test_blocks_that_make_no_sense(make, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        make()


def test_blocks_say_what_they_are():
    assert repr(Maxout([[[1, 0], [0, 1]], [[1, 1]]])) == "Maxout(2 groups, 2 pieces, 2 -> 2, 1 masked)"
    assert repr(FeedForward([[1]], None, [[1]], slope=0.1)) == "FeedForward(1 unit, 1 -> 1, leaky)"
