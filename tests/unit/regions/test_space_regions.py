"""Region sets in three and more dimensions: volumes, adjacency, exactness, verification, files, pictures."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracles.made_cells import changed, region_set
from oracles.random_space import space_instance
from oracles.rational_space import enumerate_space
from oracles.slow_space import space_cells
from scipy.spatial import ConvexHull

import hardmax as hm
from hardmax.errors import UnsupportedDimensionError
from hardmax.networks.layers import layers_of
from hardmax.plotting.solids import draw_slices
from hardmax.regions.cells import decode_wall, encode_wall
from hardmax.regions.maps.exact_maps import ExactMaps, strictly_inside
from hardmax.regions.result import RegionSet
from hardmax.regions.space import contacts
from hardmax.regions.space.geometry import SpaceGeometry, domain_volume
from hardmax.regions.space.machine import SpaceMachine
from hardmax.regions.space.sizes import VOLUME_ERROR

CUBE = hm.Box.cube(3, -4, 4)
KINDS = {"fold": 0, "wall": 1}


def enumerated(net, domain, *, cells=None) -> RegionSet:
    machine = SpaceMachine(layers_of(net), domain, arithmetic="certified", store=True, sliver=1e-9)
    while not machine.done:
        machine.advance(100_000)
    found = region_set(net, domain, machine)
    return found if cells is None else replace(found, cells=cells(found.cells))


def adjacency(found) -> dict:
    pairs, kinds = found.adjacency.tolist(), found.adjacency_kind.tolist()
    return {tuple(pair): kind for pair, kind in zip(pairs, kinds, strict=True)}


def oracle(net, domain) -> dict:
    return {pair: KINDS[kind] for pair, kind in enumerate_space(net, domain).adjacency.items()}


def unknown(cells):
    """The same cells with vertices about which floats say nothing."""
    return changed(cells, "vertices", -1, np.inf)


# Against rational arithmetic ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(60))
def test_random_networks_agree_with_rationals(number):
    """Adjacency with its kinds, regions, volumes, hyperplanes and points inside: all as brute force has
    them."""
    instance = space_instance(number)
    found = enumerated(instance.network, instance.domain)
    if found.n_cells > 120:
        pytest.skip("too many cells for brute force")
    expected = enumerate_space(instance.network, instance.domain)
    assert found.n_cells == expected.n_cells
    assert adjacency(found) == {pair: KINDS[kind] for pair, kind in expected.adjacency.items()}
    assert found.region_of_cell.tolist() == expected.region_of_cell
    volumes = [float(cell.volume) if cell.volume is not None else np.inf for cell in expected.cells]
    assert found.volumes == pytest.approx(volumes, rel=1e-9, abs=0)
    assert found.bounded.tolist() == [cell.bounded for cell in expected.cells]
    for i in range(0, found.n_cells, 5):
        assert expected.cells[i].contains(found.exact_witness(i), strictly=True)
        rows = found.exact_halfspaces(i)
        sides = [row for row in expected.cells[i].halfspaces if any(row[:-1])]
        assert len(rows) == len(sides)
        for *a, b in rows:
            assert max(abs(v) for v in a) == 1
            row = (*(-v for v in a), b)
            assert any(
                all(row[p] * side[q] == row[q] * side[p] for p in range(len(row)) for q in range(p))
                for side in sides
            )
    report = found.verify(n_points=100)
    assert report.ok, report


@pytest.mark.parametrize("number", [1, 7, 16, 26, 40])
def test_unknown_vertices_change_nothing(number):
    """Without any knowledge of vertices, rationals find the same pairs and the same sizes."""
    instance = space_instance(number)
    found = enumerated(instance.network, instance.domain)
    blind = replace(found, cells=unknown(found.cells))
    assert adjacency(blind) == adjacency(found)
    assert blind.adjacency_length == pytest.approx(found.adjacency_length, rel=1e-9)
    assert blind.volumes == pytest.approx(found.volumes, rel=1e-9)


def test_slow_and_compiled_cells_have_the_same_neighbours():
    """Cells that another program wrote down: other facets are listed, the answers are the same."""
    for net, domain in [
        (hm.Network.random(3, n_tokens=4, heads=2, depth=2, d_ff=3, rng=1), CUBE),
        (hm.Network.random(3, n_tokens=3, heads=1, depth=2, d_ff=3, rng=2), hm.WholeSpace(3)),
        (hm.networks.sawtooth_network(3, 2, 1, 1), CUBE),
    ]:
        found = enumerated(net, domain)
        other = replace(found, cells=space_cells(net, domain))
        assert adjacency(other) == adjacency(found)
        assert other.volumes == pytest.approx(found.volumes)
        assert other.verify(n_points=200).ok


# Sizes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "widths"), [(3, [8, 8]), (4, [6, 5]), (5, [5, 3]), (6, [4, 2])])
def test_volumes_and_surfaces_are_those_of_hulls(d, widths):
    found = enumerated(hm.Network.random_mlp([d, *widths, 1], 0), hm.Box.cube(d, -4, 4))
    geometry = found._geometry
    volumes, surfaces = geometry.sizes
    for i in range(0, found.n_cells, 1 + found.n_cells // 40):
        hull = ConvexHull(found.cell_vertices(i))
        assert volumes[i] == pytest.approx(hull.volume, rel=1e-9)
        assert surfaces[i] == pytest.approx(hull.area, rel=1e-9)
    assert found.coverage == pytest.approx(1.0, rel=1e-12)
    blind = replace(found, cells=unknown(found.cells))._geometry
    assert blind.sizes[0] == pytest.approx(volumes, rel=1e-11)
    assert blind.sizes[1] == pytest.approx(surfaces, rel=1e-11)
    around = geometry.measured.areas[(found.cells.owner >= 0) & (geometry.facets.face >= 0)].sum()
    assert around == pytest.approx(2 * found.adjacency_length.sum(), rel=1e-9)


def test_a_grid_of_boxes():
    """Planes parallel to the sides: boxes with integer sides, whose sizes are exact in floats."""
    rows = np.repeat(np.eye(3), 2, axis=0)
    found = enumerated(hm.Network([hm.FeedForward(rows, [-1, 2, -1, 2, 0, 3], np.ones((1, 6)), [0])]), CUBE)
    assert found.n_cells == 27
    assert len(found.adjacency) == 54
    assert found.volumes.sum() == 512.0
    assert found.adjacency_length.sum() == 6 * 64
    assert found.coverage == 1.0
    assert found.n_slivers == 0


def test_a_pyramid_has_a_vertex_on_four_facets():
    """|x| + |y| < z and its neighbours: four facets meet in the origin."""
    rows = [[1, 1, -1], [1, -1, -1], [-1, 1, -1], [-1, -1, -1]]
    net = hm.Network([hm.FeedForward(rows, [0] * 4, np.ones((1, 4)), [0])])
    found = enumerated(net, hm.Box([-1, -1, -1], [1, 1, 1]))
    pyramid = int(found.locate([[0.0, 0.0, 0.5]])[0])
    assert found.volumes[pyramid] == pytest.approx(2 / 3)
    assert adjacency(found) == oracle(net, hm.Box([-1, -1, -1], [1, 1, 1]))


def test_a_sliver_is_measured_exactly():
    """Two planes 2^-60 apart: a cell thinner than floats can see, measured and listed."""
    gap = Fraction(1, 2**60)
    net = hm.Network([hm.FeedForward([[1, 1, 1]] * 2, np.array([Fraction(0), gap]), [[1, 1]], [0])])
    found = enumerated(net, CUBE)
    assert found.n_cells == 3
    assert found.n_slivers == 1
    assert found.volumes[found.slivers[0]] == pytest.approx(48.0 * 2.0**-60, rel=1e-9)
    assert found.verify(n_points=100).ok


def test_volumes_of_domains():
    simplex = hm.Polytope(np.vstack([-np.eye(5), np.ones(5)]), [0] * 5 + [1])
    assert domain_volume(ExactMaps((), simplex), 5) == pytest.approx(1 / 120)
    assert domain_volume(ExactMaps((), hm.WholeSpace(3)), 3) is None


# Adjacency ------------------------------------------------------------------------------------------------


def jumping(shift) -> hm.Network:
    """A wall at x = 0 that moves what follows by a shift, then folds at y = 0, y = 1 and z = 0."""
    wall = hm.Attention([[[-1, 0, 0], [1, 0, 0]]], None, [[[0, 0, 0], [0, shift, 0]]])
    fold = hm.FeedForward([[0, 1, 0], [0, 1, 0], [0, 0, 1]], [0, -1, 0], np.ones((1, 3)), [0])
    return hm.Network([wall, fold])


@pytest.mark.parametrize(
    ("shift", "pairs"), [(0.25, 10), (1, 8), (0, 6), (Fraction(1) + Fraction(1, 10**40), 10)]
)
def test_partitions_that_do_not_match_across_a_wall(shift, pairs):
    """Shifted by one, corners meet and do not touch; shifted by a hair more, they touch in a hair."""
    found = enumerated(jumping(shift), CUBE)
    assert int(found.adjacency_kind.sum()) == pairs
    assert adjacency(found) == oracle(jumping(shift), CUBE)
    assert found.adjacency_length[found.adjacency_kind == 1].sum() == pytest.approx(64)


def test_three_keys_on_one_wall():
    """Scores -x, 0 and x: key 1 wins nowhere but is level on x = 0, and the two sides may name it."""
    head = hm.Attention([[[-1, 0, 0], [0, 0, 0], [1, 0, 0]]], None, [[[0, 0, 0], [5, 5, 5], [0, 1, 0]]])
    net = hm.Network([head, hm.FeedForward([[0, 1, 0], [0, 1, 1]], [0, 0], [[1, 1]], [0])])
    expected = oracle(net, CUBE)
    assert adjacency(enumerated(net, CUBE)) == expected

    def renamed(cells):
        """What an engine may just as well write: the left cells meet key 1 there, the right ones key 0."""
        wall = cells.wall.copy()
        for f in range(len(wall)):
            i = int(np.searchsorted(cells.facets.offsets, f, side="right")) - 1
            layer, group, a, b = decode_wall(wall[f])
            if cells.owner[f] >= 0 and layer == 0 and cells.routings[i, 0] == 0 and (a, b) == (0, 2):
                wall[f] = encode_wall(layer, group, 0, 1)
        return changed(cells, "facets", 1, wall)

    assert adjacency(enumerated(net, CUBE, cells=renamed)) == expected


def test_units_with_one_hyperplane():
    """Two units that switch together: neighbours differ in two bits, and a later layer sees one fold."""
    first = hm.FeedForward([[1, 1, 0], [-2, -2, 0]], [0, 0], [[1, 1], [1, 0], [0, 1]], [0, 0, 0])
    net = hm.Network([first, hm.FeedForward(np.eye(3), [-1, 0, 0], np.ones((1, 3)), [0])])
    assert adjacency(enumerated(net, CUBE)) == oracle(net, CUBE)


def test_a_fold_on_which_a_later_head_ties():
    """The unit is continuous on x = 0, but there two keys are level, and what they add jumps: lines end."""
    fold = hm.FeedForward([[1, 0, 0]], [0], [[0], [0], [0]], [0, 0, 0], skip=True)
    head = hm.Attention([[[1, 0, 0], [-1, 0, 0]]], None, [[[0, 0, 0], [0, 1, 0]]])
    net = hm.Network([fold, head, hm.FeedForward([[0, 1, 0], [0, 1, 1]], [0, 0], [[1, 1]], [0])])
    found = enumerated(net, CUBE)
    assert adjacency(found) == oracle(net, CUBE)
    beyond = found.relu_bits[found.adjacency[:, 0], 0] != found.relu_bits[found.adjacency[:, 1], 0]
    assert beyond.sum() > 4  # the two sides of the fold are cut differently
    assert found.adjacency_length[beyond].sum() == pytest.approx(64)


def repeating(seed):
    """Integer weights, and a first layer in which units share hyperplanes, some with opposite signs."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (4, 4))
    rows = np.concatenate([rows, -rows[:2], 2 * rows[2:3]]).astype(float)
    layers = [
        (rows[:, :3], rows[:, 3]),
        (rng.integers(-2, 3, (5, 7)), rng.integers(-2, 3, 5)),
        (np.ones((1, 5)), [0]),
    ]
    return hm.Network.mlp([(np.asarray(w, float), np.asarray(b, float)) for w, b in layers])


@pytest.mark.parametrize("seed", range(4))
def test_units_that_switch_together_need_no_rationals(seed, monkeypatch):
    """Facets that overlap are the same set if no routing changes: those that touch in less are not asked."""
    net = repeating(seed)
    expected = oracle(net, CUBE)
    found = enumerated(net, CUBE)
    monkeypatch.setattr(contacts._CommonParts, "cone", None)
    assert adjacency(found) == expected
    assert len(found._contacts.uncovered) == 0
    differ = (found.relu_bits[found.adjacency[:, 0]] != found.relu_bits[found.adjacency[:, 1]]).sum(axis=1)
    assert differ.max() > 1  # otherwise a lookup finds them all


def test_a_group_that_finds_no_room_is_compared_again(monkeypatch):
    net = repeating(0)
    expected = oracle(net, CUBE)
    overlay, calls = contacts.kernels.overlay, []

    def narrow(*arguments):
        calls.append(len(calls))
        out, sizes, open_ = (arguments[k] for k in (-5, -4, -3))
        if calls[-1] < 3:
            arguments = (*arguments[:-5], out[:2], sizes[:2], open_[:2], *arguments[-2:])
        return overlay(*arguments)

    monkeypatch.setattr(contacts.kernels, "overlay", narrow)
    assert adjacency(enumerated(net, CUBE)) == expected
    assert len(calls) > 3


def test_a_search_that_was_stopped_early():
    """Facets without a cell beyond are left alone, not matched with strangers."""
    net = hm.Network.random(3, n_tokens=5, heads=2, depth=2, d_ff=4, rng=3)
    machine = SpaceMachine(layers_of(net), CUBE, arithmetic="certified", store=True, sliver=0.0)
    machine.limit(40)
    machine.advance(10_000)
    part = region_set(net, CUBE, machine, complete=False)
    full = adjacency(enumerated(net, CUBE))
    whole = enumerated(net, CUBE)
    number = whole.of_signatures(part.routings, part.bits)
    mapped = {tuple(sorted((int(number[i]), int(number[j])))) for i, j in part.adjacency.tolist()}
    listed = set(number.tolist())
    assert mapped == {pair for pair in full if set(pair) <= listed}
    assert part.verify().ok


# Everything else a region set offers ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformer() -> RegionSet:
    return enumerated(hm.Network.random(3, n_tokens=5, heads=2, depth=2, d_ff=4, rng=0), CUBE)


def test_what_it_says(transformer):
    assert repr(transformer) == f"<RegionSet: {transformer.n_cells} cells in 3-space, complete, exact>"
    assert transformer.linear.shape == (transformer.n_cells, 3, 3)
    assert transformer.vertices.shape[1] == 3
    assert len(transformer._table()["volume"]) == transformer.n_cells
    x = transformer.witnesses
    assert (transformer.locate(x) == np.arange(transformer.n_cells)).all()
    values = np.einsum("nek,nk->ne", transformer.linear, x) + transformer.offset
    assert values == pytest.approx(transformer.network(x))
    with pytest.raises(UnsupportedDimensionError, match="dimension 3"):
        transformer.polygons()


def test_halfspaces_hold_exactly_at_the_witness(transformer):
    for i in range(0, transformer.n_cells, 17):
        a, b = transformer.halfspaces(i)
        assert (a @ transformer.witnesses[i] < b).all()
        rows = transformer._geometry.rows(i)
        assert strictly_inside(rows, transformer.exact_witness(i))
        assert len(transformer._geometry.boundary(i)) >= len(b)


def test_saved_and_loaded(transformer, tmp_path):
    again = hm.load(transformer.save(tmp_path / "cells.npz"))
    assert repr(again) == repr(transformer)
    assert adjacency(again) == adjacency(transformer)
    assert (again.volumes == transformer.volumes).all()
    assert again.verify(n_points=100).ok


def test_a_cell_that_contains_lines():
    """One unit in the whole space: two half-spaces, no vertex, a fold between them."""
    net = hm.Network([hm.FeedForward([[1, 2, 3]], [1], [[1]], [0])])
    found = enumerated(net, hm.WholeSpace(3))
    assert adjacency(found) == {(0, 1): 0}
    assert found.adjacency_length.tolist() == [np.inf]
    assert not found.bounded.any()
    assert [len(found.cell_vertices(i)) for i in range(2)] == [0, 0]
    for i in range(2):
        assert strictly_inside(found._geometry.rows(i), found.exact_witness(i))
    everything = enumerated(hm.Network([hm.Affine(np.eye(3), [0, 0, 0])]), hm.WholeSpace(3))
    assert everything.n_cells == 1
    assert everything.volumes.tolist() == [np.inf]
    assert everything.exact_halfspaces(0) == []
    assert len(everything.exact_witness(0)) == 3


@pytest.mark.parametrize(("d", "place"), [(1, "on the line"), (7, "in 7-space")])
def test_the_same_questions_on_the_line_and_in_high_dimensions(d, place, tmp_path):
    net = hm.Network.random(d, n_tokens=4, heads=1, depth=1, d_ff=3, rng=0)
    found = hm.enumerate_regions(net, hm.Box.cube(d, -1, 1))
    assert place in repr(found)
    assert found.bounded.all()
    assert (found.volumes is None) == (d == 7)
    for i in range(found.n_cells):
        assert strictly_inside(found._geometry.rows(i), found.exact_witness(i))
    assert found.verify(n_points=100).ok
    again = hm.load(found.save(tmp_path / "cells.npz"))
    assert adjacency(again) == adjacency(found)
    assert again.n_regions == found.n_regions
    with pytest.raises(UnsupportedDimensionError, match=f"dimension {d}"):
        found.polygons()
    if d == 7:
        with pytest.raises(UnsupportedDimensionError, match="dimension 7"):
            found.cell_vertices(0)
        with pytest.raises(UnsupportedDimensionError, match="restrict"):
            found.plot()


# Verification ---------------------------------------------------------------------------------------------


def failed(found) -> set[str]:
    return {name for name, what in found.verify(n_points=500).checks.items() if what.startswith("failed")}


def test_verification_notices_damage(transformer):
    assert failed(transformer) == set()
    rays = transformer.cells.rays.copy()
    rays[:, 0] *= 1.001
    assert "volumes" in failed(
        replace(transformer, cells=changed(transformer.cells, "vertices", 0, rays[:, 0]))
    )
    bits = transformer.cells.bits ^ np.uint64(1)
    assert "witnesses" in failed(replace(transformer, cells=replace(transformer.cells, bits=bits)))
    missing = _without(transformer, 7)
    assert {"volumes", "closed", "crossings", "borders"} <= failed(missing)


def _without(found, gone) -> RegionSet:
    """The same result with one cell left out."""
    return replace(found, cells=found.cells.select(np.arange(found.n_cells) != gone))


# Pictures -------------------------------------------------------------------------------------------------


def test_cells_cut_open(transformer, tmp_path):
    axes = transformer.plot()
    assert len(axes.figure.axes) == 2
    assert axes.get_title() == f"{transformer.n_cells} cells, {transformer.n_regions} regions"
    areas = [c for c in axes.collections if type(c).__name__ == "Poly3DCollection"]
    assert len(areas) >= 9
    axes.figure.savefig(tmp_path / "cells.png")
    assert (tmp_path / "cells.png").stat().st_size > 20_000
    flat = axes.figure.add_subplot()
    with pytest.raises(hm.errors.InvalidInputError, match='projection="3d"'):
        transformer.plot(ax=flat)


def test_pictures_of_other_domains():
    simplex = hm.Polytope([[-1, 0, 0], [0, -1, 0], [0, 0, -1], [1, 1, 1]], [1, 1, 1, 3])
    assert enumerated(hm.Network.random_mlp([3, 4, 1], 0), simplex).plot() is not None
    whole = enumerated(hm.Network.random_mlp([3, 4, 1], 0), hm.WholeSpace(3))
    assert draw_slices(whole, n_slices=2).get_title() == f"{whole.n_cells} cells, {whole.n_regions} regions"


def test_no_picture_in_four_dimensions():
    found = enumerated(hm.Network.random_mlp([4, 3, 1], 0), hm.Box.cube(4, -1, 1))
    with pytest.raises(UnsupportedDimensionError, match="restrict"):
        found.plot()


def test_geometry_is_the_same_object(transformer):
    assert isinstance(transformer._geometry, SpaceGeometry)
    assert transformer._geometry is transformer._geometry


@pytest.mark.parametrize("arithmetic", ["certified", "exact"])
@pytest.mark.parametrize("thickness", [2.0**-20, 4e-9, 2.0**-40])
@pytest.mark.parametrize("d", [3, 4])
def test_volumes_of_slivers_are_as_good_as_the_code_says(d, thickness, arithmetic):
    """Between two parallel hyperplanes that meet no end of the first axis: thickness times a cube."""
    row = np.append(1.0, np.full(d - 1, 0.7 / d))
    net = hm.Network.mlp(
        [(np.vstack([row, row]), np.array([0.0, thickness])), (np.ones((1, 2)), np.zeros(1))]
    )
    found = hm.enumerate_regions(net, hm.Box.cube(d, -2, 2), arithmetic=arithmetic)
    exact = float(Fraction(thickness) * 4 ** (d - 1))
    thin = found.volumes.min()
    assert len(found.volumes) == 3
    assert abs(thin - exact) <= VOLUME_ERROR * exact
