"""Decision boundaries against rationals, closed forms, marching squares, grids, Qhull, and slices."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from oracles.lines import on_a_line
from oracles.rational_boundary import boundary_problems, boundary_rationally, classifier
from scipy.spatial import Voronoi

import hardmax as hm
from hardmax.errors import (
    DimensionMismatchError,
    IncompleteError,
    InvalidInputError,
    UnsupportedNetworkError,
)

SQUARE = hm.Box.cube(2, -4, 4)


def piece_distances(points: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """The distance of each point to the nearest segment, in floats."""
    begin, run = segments[:, 0], segments[:, 1] - segments[:, 0]
    to = points[:, None] - begin
    share = np.clip((to * run).sum(axis=2) / (run**2).sum(axis=1), 0, 1)
    return np.linalg.norm(to - share[..., None] * run, axis=2).min(axis=1)


def segments_of(boundary) -> np.ndarray:
    return np.array([piece.vertices for piece in boundary]).reshape(-1, 2, 2)


def nearest_centre(centres) -> hm.Network:
    """Class i where centre i is nearest: 2 c.x - |c|^2 is largest."""
    c = np.asarray(centres, dtype=float)
    return hm.Network.mlp([(2 * c, -(c**2).sum(axis=1))])


# Against rationals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_random_networks_have_the_boundaries_and_distances_of_the_rational_oracle(start):
    """Pieces, exact ends, classes, cells, jumps, lengths, hyperplanes, components; distances in 3 norms."""
    pieces = 0
    for number in range(start, start + 100):
        case = classifier(number)
        expected, problems = boundary_problems(case, "exact" if number % 10 == 3 else "certified")
        assert not problems, (case, problems[:3])
        pieces += len(expected.pieces)
    assert pieces > 100


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_lattice_and_quantised_networks_have_the_boundaries_of_the_rational_oracle(start):
    """Integer and ternary weights, lattices, units that coincide and cancel: ties are the rule."""
    pieces = 0
    for number in range(start, start + 100):
        case = classifier(number, structured=True)
        expected, problems = boundary_problems(case)
        assert not problems, (case, problems[:3])
        pieces += len(expected.pieces)
    assert pieces > 100


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_networks_on_the_line_change_class_where_the_boundary_says_and_nowhere_else(start):
    points = 0
    for number in range(start, start + 50):
        network, domain = on_a_line(number)
        found = hm.decision_boundary(network, domain)
        assert found.complete
        places = sorted((piece.exact_vertices[0][0], *piece.classes) for piece in found)
        points += len(places)
        inner = [place for place, _, _ in places]
        low, high = found.class_cells._geometry.exact_ends, found.class_cells.cells.position
        order = np.argsort(high)
        for i in order.tolist():  # one cell after the other, from left to right
            left, right = low(i)
            inside = found.class_cells.exact_witness(i)[0]
            assert not any(left < place < right for place in inner)
            values = network.exact_value(np.array([inside], dtype=object))
            expected = values.index(max(values)) if len(values) > 1 else int(values[0] > 0)
            assert found.class_of_cell[i] == expected
        classes = found.class_of_cell[order].tolist()
        changes = [tuple(sorted(pair)) for pair in pairwise(classes) if pair[0] != pair[1]]
        assert changes == [(a, b) for _, a, b in places]
    assert points > 20


def test_the_oracle_tells_a_wrong_boundary():
    """The same comparison fails when a single number of the network differs in the last place."""
    case = classifier(2)
    assert boundary_rationally(case.network, case.domain).pieces
    net = hm.Network.mlp([([[3.0, 1.0]], [-1.0])])
    ends = boundary_rationally(net, SQUARE).pieces[0].finite_ends
    moved = hm.Network.mlp([([[3.0, 1.0]], [np.nextafter(-1.0, 0)])])
    assert {tuple(v) for v in hm.decision_boundary(net, SQUARE).exact_vertices(0)} == ends
    assert {tuple(v) for v in hm.decision_boundary(moved, SQUARE).exact_vertices(0)} != ends


# Closed forms -------------------------------------------------------------------------------------------


def cross_polytope(d: int) -> hm.Network:
    """1 - |x_1| - ... - |x_d|: positive inside of a diamond, an octahedron, ..."""
    return hm.Network.mlp([(np.vstack([np.eye(d), -np.eye(d)]), None), (-np.ones((1, 2 * d)), [1.0])])


@pytest.mark.parametrize(
    ("d", "pieces", "size", "volume"), [(1, 2, 2, 2), (2, 4, 4 * 2**0.5, 2), (3, 8, 4 * 3**0.5, 4 / 3)]
)
def test_cross_polytopes(d, pieces, size, volume):
    found = hm.decision_boundary(cross_polytope(d), hm.Box.cube(d, -2, 2))
    assert len(found) == pieces
    assert found.total_size == pytest.approx(size, rel=1e-14)
    assert found.class_sizes == pytest.approx([4**d - volume, volume])
    corners = {tuple(v) for piece in found for v in piece.exact_vertices}
    assert corners == {tuple(s * (i == c) for i in range(d)) for c in range(d) for s in (-1, 1)}
    assert found.distance([0] * d, "inf").exact == Fraction(1, d)
    assert found.distance([0] * d, 1).exact == 1
    assert found.distance([0] * d, 2).exact == Fraction(1, d)  # its square


def test_a_regular_polygon_by_maxout():
    """1 - max_i a_i . x >= 0 is a polygon around the unit circle: its perimeter is 2 n tan(pi / n)."""
    n = 11
    angles = 2 * np.pi * np.arange(n) / n
    normals = np.column_stack([np.cos(angles), np.sin(angles)])
    net = hm.Network([hm.Maxout([normals], None, [[-1.0]], [1.0])])
    found = hm.decision_boundary(net, SQUARE)
    assert len(found) == n
    assert found.total_size == pytest.approx(2 * n * np.tan(np.pi / n), rel=1e-12)
    assert found.n_decision_regions == 2
    assert found.distance([0, 0]).distance == pytest.approx(1.0, rel=1e-15)


def test_a_lattice_of_centres_in_the_plane_and_in_space():
    """Four classes meet in a point, eight in space; those that touch in a point have no piece in common."""
    grid = [[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    found = hm.decision_boundary(nearest_centre(grid), hm.Box.cube(2, -1.5, 1.5))
    assert len(found) == 12
    assert found.total_size == pytest.approx(12.0, rel=1e-15)
    assert all(np.abs(np.subtract(grid[a], grid[b])).sum() == 1 for a, b in found.classes.tolist())
    cube = [[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)]
    found = hm.decision_boundary(nearest_centre(cube), hm.Box.cube(3, -1, 1))
    assert len(found) == 12
    assert found.total_size == pytest.approx(12.0, rel=1e-15)
    assert found.n_decision_regions == 8


@pytest.mark.parametrize("seed", range(5))
def test_nearest_centres_have_the_ridges_of_qhull(seed):
    """In a box the mirror images of the centres make the Voronoi cells end at the sides."""
    centres = np.random.default_rng(seed).uniform(0, 1, (25, 2))
    images = [centres]
    for axis in range(2):
        for side in (0.0, 1.0):
            image = centres.copy()
            image[:, axis] = 2 * side - image[:, axis]
            images.append(image)
    judge = Voronoi(np.concatenate(images))
    ridges = {
        tuple(sorted(pair)): float(np.linalg.norm(np.diff(judge.vertices[ends], axis=0)))
        for pair, ends in zip(judge.ridge_points.tolist(), judge.ridge_vertices, strict=True)
        if max(pair) < 25
    }
    found = hm.decision_boundary(nearest_centre(centres), hm.Box.cube(2, 0, 1))
    lengths = {tuple(pair): size for pair, size in zip(found.classes.tolist(), found.sizes, strict=True)}
    assert lengths.keys() == ridges.keys()
    assert all(lengths[pair] == pytest.approx(ridges[pair], abs=1e-9) for pair in ridges)


def test_walls_across_which_the_class_jumps():
    """Where x2 > 0, x1 moves by 1, else by -1; the sign of x1 decides: two half-lines and a step of 2."""
    head = hm.Attention([[[0, 1], [0, -1]]], None, [[[1, 0], [-1, 0]]])
    net = hm.Network([head, hm.Affine([[1, 0]], [0])])
    found = hm.decision_boundary(net, hm.Box.cube(2, -2, 2))
    assert found.total_size == 6.0
    assert found.jumps.sum() == 1
    step = found[int(np.flatnonzero(found.jumps)[0])]
    assert {tuple(v) for v in step.exact_vertices} == {(-1, 0), (1, 0)}
    assert step.size == 2.0
    assert step.cells == (0, 1) or step.cells == (1, 0)
    inside = [piece for piece in found if not piece.jump]
    assert all(piece.cells[0] == piece.cells[1] for piece in inside)
    answer = found.distance([0, Fraction(1, 2)])
    assert (answer.exact, answer.class_here, answer.class_beyond) == (Fraction(1, 4), 1, 0)


# Degenerate boundaries ----------------------------------------------------------------------------------


def test_outputs_that_tie_on_a_whole_cell():
    """max(x, 0) ties with 0 for x < 0: the lower class has that side, and the fold is boundary only once."""
    units = ([[1.0, 0.0]], None)
    low_first = hm.decision_boundary(hm.Network.mlp([units, ([[0.0], [1.0]], None)]), SQUARE)
    assert len(low_first) == 1
    assert low_first[0].cells == (0, 1)
    assert low_first[0].vertices[:, 0].tolist() == [0, 0]
    assert not low_first[0].jump
    high_first = hm.decision_boundary(hm.Network.mlp([units, ([[1.0], [0.0]], None)]), SQUARE)
    assert len(high_first) == 0  # the first output is never below the second
    assert high_first.distance([1, 1]).exact is None
    assert high_first.distance([1, 1]).lower_bound == 3.0


@pytest.mark.parametrize("rows", [[[0, 0]], [[0, 0], [0, 0]], [[1, 2], [1, 2], [1, 2]]])
def test_constant_and_equal_outputs_have_no_boundary(rows):
    found = hm.decision_boundary(hm.Network.mlp([(rows, None)]), hm.WholeSpace(2))
    assert len(found) == 0
    assert found.class_of_cell.tolist() == [0]
    assert repr(found.distance([5, 5])) == "<DecisionDistance: no boundary anywhere>"


def test_a_tie_that_only_touches_is_no_boundary():
    """-|x| and 0: they tie on a line, and class 1 wins on both sides of it."""
    net = hm.Network.mlp([([[1.0, 0.0], [-1.0, 0.0]], None), ([[-1.0, -1.0], [0.0, 0.0]], None)])
    found = hm.decision_boundary(net, SQUARE)
    assert len(found) == 0
    assert found.n_decision_regions == 1
    assert hm.enumerate_regions(net, SQUARE).classes.tolist() == [[False, True]] * 2


def test_the_whole_plane_has_half_lines_and_lines():
    line = hm.decision_boundary(hm.Network.mlp([([[1, 1]], [-1])]), hm.WholeSpace(2))
    assert line.exact_vertices(0) == []
    assert line.sizes.tolist() == [np.inf]
    assert line.distance([0, 0]).exact == Fraction(1, 2)
    assert line.distance([0, 0], "inf").exact_nearest == (Fraction(1, 2), Fraction(1, 2))
    assert line.distance([Fraction(1, 2), Fraction(1, 2)]).exact == 0
    corner = hm.decision_boundary(nearest_centre([[0, 0], [2, 0], [0, 2]]), hm.WholeSpace(2))
    assert [piece.exact_vertices for piece in corner] == [[[1, 1]]] * 3
    assert corner.distance([3, 3]).exact_nearest == (3, 3)
    assert corner.distance([-3, 0]).exact_nearest == (-3, 1)  # on a half-line


# Other judges -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_marching_squares_follow_the_boundary(seed):
    contourpy = pytest.importorskip("contourpy")
    net = hm.Network.random_mlp([2, 16, 16, 1], seed)
    shift = float(np.median(net(np.random.default_rng(0).uniform(-4, 4, (500, 2)))))
    net = hm.Network([*net.blocks, hm.Affine([[1.0]], [-shift])])  # so that there is a boundary
    found = hm.decision_boundary(net, SQUARE)
    n = 801
    axis = np.linspace(-4, 4, n)
    values = net(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))[:, 0].reshape(n, n)
    lines = contourpy.contour_generator(axis, axis, values).lines(0.0)
    length = sum(np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in lines)
    assert length == pytest.approx(found.total_size, rel=2e-2)
    points = np.concatenate(lines)[:: max(1, len(np.concatenate(lines)) // 2000)]
    assert piece_distances(points, segments_of(found)).max() < 8 / n
    marching = np.concatenate([np.stack([a, b]) for line in lines for a, b in pairwise(line)]).reshape(
        -1, 2, 2
    )
    assert piece_distances(segments_of(found).mean(axis=1), marching).max() < 16 / n


@pytest.mark.parametrize("rule", [None, "top-k", "sparsemax", "relu"])
def test_a_dense_grid_has_the_classes_and_the_boundary_between_them(rule):
    net = hm.Network.random(2, n_tokens=5, heads=1, depth=1, d_ff=6, rng=7)
    if rule is not None:
        options = {"top-k": {"k": 2}, "sparsemax": {"temperature": 1}, "relu": {"temperature": 10}}
        net = net.with_rule(rule, **options[rule])
    net = hm.Network([*net.blocks, hm.Affine([[1.0, 0.2], [-0.3, 1.0], [0.5, -1.0]], [0.0, 0.2, 0.1])])
    found = hm.decision_boundary(net, SQUARE)
    assert len(found) > 5
    n = 161
    axis = np.linspace(-4, 4, n) + 1e-3 / np.pi
    grid = np.stack(np.meshgrid(axis[:-1], axis[:-1]), axis=-1).reshape(-1, 2)
    classes = net(grid).argmax(axis=1)
    assert np.array_equal(found.classify(grid), classes)
    cell = found.class_cells.locate(grid)
    assert (cell >= 0).all()
    assert np.array_equal(found.class_of_cell[cell], classes)
    square = classes.reshape(n - 1, n - 1)
    step = 8 / (n - 1)
    changes = np.argwhere(square[:, 1:] != square[:, :-1])
    middles = np.column_stack([axis[changes[:, 1]] + step / 2, axis[changes[:, 0]]])
    assert piece_distances(middles, segments_of(found)).max() <= step / 2 + 1e-9
    shares = np.bincount(classes, minlength=3) / len(classes)
    assert found.class_sizes / 64 == pytest.approx(shares, abs=0.02)


@pytest.mark.parametrize("seed", range(6))
def test_the_boundary_in_space_meets_planes_in_the_boundary_of_the_slice(seed):
    rng = np.random.default_rng(seed)
    if seed % 2:
        net = hm.Network.random_mlp([3, 8, 6, 3], seed)
    else:
        net = hm.Network.random(3, n_tokens=5, heads=1, depth=1, d_ff=5, rng=seed)
    found = hm.decision_boundary(net, hm.Box.cube(3, -2, 2))
    assert found.total_size == pytest.approx(float(found.class_cells.adjacency_length[found._numbers].sum()))
    origin = np.array([0.0, 0.0, float(rng.integers(-128, 128)) / 128 + 1 / 512])
    slice_ = net.restrict(origin, [[1, 0, 0], [0, 1, 0]])
    flat = hm.decision_boundary(slice_, hm.Box.cube(2, -2, 2))
    total = 0.0
    for piece in found:
        height = piece.vertices[:, 2] - origin[2]
        around = [*range(len(height)), 0]
        ends = [
            piece.vertices[i] + height[i] / (height[i] - height[j]) * (piece.vertices[j] - piece.vertices[i])
            for i, j in pairwise(around)
            if height[i] * height[j] < 0
        ]
        assert len(ends) in (0, 2)  # so the polygon is convex and its corners are in order
        total += float(np.linalg.norm(ends[0] - ends[1])) if ends else 0.0
    assert flat.total_size == pytest.approx(total, rel=1e-9)


def test_seven_dimensions_have_pieces_without_vertices():
    net = hm.Network.random_mlp([7, 4, 3], 3)
    found = hm.decision_boundary(net, hm.Box.cube(7, -2, 2))
    assert found.complete
    assert len(found) > 0
    assert np.isnan(found.sizes).all()
    for piece in list(found)[:5]:
        a, b = found.exact_hyperplane(piece.index)[:7], found.exact_hyperplane(piece.index)[7]
        for cell, sign in zip(
            found._sides(np.arange(found.class_cells.n_cells))[piece.index], (1, -1), strict=True
        ):
            witness = found.class_cells.exact_witness(int(cell))
            assert sign * (sum(u * v for u, v in zip(a, witness, strict=True)) - b) < 0
    with pytest.raises(InvalidInputError, match="up to 6 dimensions"):
        found.distance(np.zeros(7))


# Distances ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_no_random_point_nearer_than_the_distance_has_another_class(d, norm):
    rng = np.random.default_rng([d, 5])
    if d < 3:
        net = hm.Network.random(d, n_tokens=4, heads=1, depth=1, d_ff=6, rng=d)
        net = hm.Network([*net.blocks, hm.Affine(rng.standard_normal((3, d)), rng.standard_normal(3))])
    else:
        net = hm.Network.random_mlp([d, 7 if d < 5 else 4, 3], d)
    found = hm.decision_boundary(net, hm.Box.cube(d, -3, 3))
    assert len(found) > 0
    for _ in range(3):
        p = rng.uniform(-1.5, 1.5, d)
        answer = found.distance(p, norm)
        here = int(net(p).argmax())
        assert answer.class_here == here
        assert np.linalg.norm(answer.nearest - p, norm) == pytest.approx(answer.distance, rel=1e-12)
        moves = rng.standard_normal((20_000, d))
        moves /= np.linalg.norm(moves, norm, axis=1)[:, None]
        moves *= answer.lower_bound * (1 - 1e-9) * rng.random((20_000, 1)) ** (1 / d)
        assert (net(p + moves).argmax(axis=1) == here).all()
        around = answer.nearest + 1e-6 * rng.standard_normal((200, d))
        assert (net(around).argmax(axis=1) == answer.class_beyond).any()


def cube_around(p, r) -> hm.Box:
    low, high = (np.array([v + s * r for v in p], dtype=object) for s in (-1, 1))
    return hm.Box(low, high)


def some_class_leads(net, here: int, box: hm.Box) -> bool:
    """Whether another output is larger than that of a class somewhere in a box, by exact verification."""
    others = [c for c in range(net.d_out) if c != here]
    verdict = hm.verify(net, " and ".join(f"y{here} >= y{c}" for c in others), box)
    if verdict.verdict == "violated":
        values = net.exact_value(np.array(verdict.counterexample, dtype=object))
        assert max(values) > values[here]
    assert verdict.verdict in ("holds", "violated")
    return verdict.verdict == "violated"


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_distances_are_where_verification_begins_to_find_another_class(start):
    """Bisection of the radius of a box around a point: a search that knows nothing about boundaries.

    The enclosure of the radius at which another class appears holds the distance, and `maximise` puts it
    there exactly: the lead of the others is 0 at the distance and negative before, for continuous networks.
    """
    n_inside = 0
    for seed in range(start, start + 10):
        rng = np.random.default_rng([20243, seed])
        d = 2 + seed % 2
        blocks = [hm.FeedForward(*eighths(rng, (5, d), (5,), (d, 5), (d,)), skip=bool(seed % 4 == 1))]
        if seed % 5 == 4:  # a head, across whose walls the outputs jump
            blocks.append(hm.Attention(*eighths(rng, (1, 3, d), (1, 3), (1, 3, d))))
        n_classes = 2 + seed % 3
        net = hm.Network([*blocks, hm.Affine(*eighths(rng, (n_classes, d), (n_classes,)))])
        boundary = hm.decision_boundary(net, hm.Box.cube(d, -4, 4))
        p = eighths(rng, (d,))[0] / 4
        found = boundary.distance(p, "inf")
        p = list(found.point)
        low, high = Fraction(0), found.edge
        if not some_class_leads(net, found.class_here, cube_around(p, high)):
            assert found.exact is None or not found.certain
            continue
        for _ in range(12):
            middle = (low + high) / 2
            if some_class_leads(net, found.class_here, cube_around(p, middle)):
                high = middle
            else:
                low = middle
        assert found.certain
        assert low <= found.exact <= high, seed
        n_inside += 1
        leads = [
            max(
                hm.maximise(net, objective, cube_around(p, found.exact * (1 + Fraction(s, 2**40)))).value
                for objective in (np.eye(n_classes) - np.eye(n_classes)[found.class_here])
                if objective.any()
            )
            for s in (-1, 0, 1)
        ]
        assert leads[0] < 0 < leads[2], seed
        assert leads[1] == 0 or boundary.jumps[found.piece], seed
    assert n_inside >= 9


def eighths(rng, *shapes) -> list:
    """Small dyadic numbers."""
    return [rng.integers(-16, 17, shape) / 8 for shape in shapes]


def test_the_rim_of_the_domain_limits_what_is_known():
    net = hm.Network.mlp([([[1.0, 0.0]], [-3.0])])  # the boundary is x1 = 3
    inside = hm.decision_boundary(net, hm.Box([0, -1], [4, 1]))
    answer = inside.distance([1, 0])
    assert (answer.distance, answer.edge_distance, answer.certain, answer.lower_bound) == (
        2.0,
        1.0,
        False,
        1.0,
    )
    assert inside.distance([Fraction(5, 2), 0]).certain
    outside = hm.decision_boundary(net, hm.Box([0, -1], [2, 1])).distance([1, 0], 1)
    assert (outside.exact, outside.lower_bound, outside.certain) == (None, 1.0, False)
    triangle = hm.Polytope([[-1, 0], [0, -1], [3, 4]], [0, 0, 12])
    rim = hm.decision_boundary(net, triangle)
    assert rim.distance([1, 1]).edge == Fraction(1)
    assert rim.distance([2, 1], "inf").edge == Fraction(2, 7)
    assert rim.distance([2, 1], 1).edge == Fraction(2, 4)


def test_distances_of_numbers_out_of_the_range_of_floats():
    tiny = Fraction(1, 10**400)
    found = hm.decision_boundary(hm.Network.mlp([([[1, 0]], [0])]), SQUARE)
    answer = found.distance(np.array([tiny, 0], dtype=object))
    assert answer.exact == tiny * tiny
    assert answer.distance == 0.0
    exact = found.distance(np.array([Fraction(1, 3), 0], dtype=object))
    assert exact.distance == pytest.approx(1 / 3, rel=1e-16)


def test_what_is_refused():
    net = hm.Network.random_mlp([2, 8, 3], 0)
    found = hm.decision_boundary(net, SQUARE)
    with pytest.raises(InvalidInputError, match="norm must be 1, 2 or inf"):
        found.distance([0, 0], 3)
    with pytest.raises(InvalidInputError, match="must lie in the domain"):
        found.distance([5, 0])
    with pytest.raises(DimensionMismatchError, match="2 coordinates"):
        found.distance([5, 0, 0])
    with pytest.raises(InvalidInputError, match=r"i must be in range"):
        found.vertices(len(found))
    with pytest.raises(IndexError, match=r"i must be in range"):
        found[len(found)]
    with pytest.raises(InvalidInputError, match="must be a Network, a torch module"):
        hm.decision_boundary(abs, SQUARE)
    part = hm.decision_boundary(net, SQUARE, max_cells=5)
    assert not part.complete
    assert "INCOMPLETE" in repr(part)
    with pytest.raises(IncompleteError, match="must be complete"):
        part.distance([0, 0])
    with pytest.raises(IncompleteError, match="not all"):
        _ = hm.enumerate_regions(net, SQUARE, max_cells=5).classes
    soft = hm.Network([hm.Attention([[[1.0], [0.0]]], None, [[[1.0], [0.0]]], rule="softmax", temperature=1)])
    with pytest.raises(InvalidInputError, match="piecewise affine"):
        hm.decision_boundary(soft, hm.Box([0], [1]))


# Files, cells, graphs, planes ---------------------------------------------------------------------------


def test_a_boundary_survives_a_file(tmp_path):
    net = hm.Network.random(2, n_tokens=4, heads=1, depth=1, d_ff=4, rng=0)
    found = hm.decision_boundary(net, SQUARE)
    again = hm.load(found.save(tmp_path / "boundary.npz"))
    assert repr(again) == repr(found)
    assert np.array_equal(again.classes, found.classes)
    assert [piece.exact_vertices for piece in again] == [piece.exact_vertices for piece in found]
    assert repr(again.network) == repr(net)
    answer = found.distance([Fraction(1, 3), 0])
    back = hm.load(answer.save(tmp_path / "distance.npz"))
    assert (back.exact, back.exact_nearest, back.point) == (answer.exact, answer.exact_nearest, answer.point)
    assert len(found.to_frame()) == len(found)


def test_cells_of_a_region_set_tell_everything_about_themselves():
    net = hm.Network.random_mlp([2, 6, 3], 0)
    regions = hm.enumerate_regions(net, SQUARE)
    for cell in regions:
        a, b = (
            np.array([[float(v) for v in row] for row in part])
            for part in (cell.exact_map[0], [cell.exact_map[1]])
        )
        assert np.allclose(a, cell.linear)
        assert np.allclose(b[0], cell.offset)
        assert np.allclose(np.array(cell.exact_vertices, dtype=float), cell.vertices)
        rows = cell.exact_halfspaces
        assert all(
            sum(s * v for s, v in zip(row[:-1], vertex, strict=True)) <= row[-1]
            for row in rows
            for vertex in cell.exact_vertices
        )
        assert cell.signature.relu[0].tolist() == cell.relu_bits.tolist()
        assert cell.bounded
        inside = int(net(cell.witness).argmax())
        assert inside in cell.classes
    assert sum(cell.volume for cell in regions) == pytest.approx(64.0)


@pytest.mark.parametrize(("d", "domain"), [(1, "box"), (2, "space"), (3, "box"), (3, "space")])
def test_exact_vertices_are_where_the_float_ones_are(d, domain):
    net = hm.Network.random_mlp([d, 5, 4, 1], 1)
    regions = hm.enumerate_regions(net, hm.Box.cube(d, -3, 3) if domain == "box" else hm.WholeSpace(d))
    for i in range(regions.n_cells):
        exact = np.array(regions.exact_vertices(i), dtype=float).reshape(-1, d)
        assert np.allclose(exact, regions.cell_vertices(i), atol=1e-9)


def test_the_dual_graph():
    networkx = pytest.importorskip("networkx")
    net = hm.Network.random(2, n_tokens=4, heads=1, depth=1, d_ff=4, rng=0)
    regions = hm.enumerate_regions(net, SQUARE)
    graph = regions.to_networkx()
    assert sorted(tuple(sorted(edge)) for edge in graph.edges) == [
        tuple(p) for p in regions.adjacency.tolist()
    ]
    assert networkx.is_connected(graph)
    kinds = [graph.edges[i, j]["kind"] for i, j in regions.adjacency.tolist()]
    assert kinds == ["wall" if kind else "fold" for kind in regions.adjacency_kind]
    same = networkx.Graph()
    same.add_nodes_from(graph)
    region = networkx.get_node_attributes(graph, "region")
    same.add_edges_from((i, j) for i, j in graph.edges if region[i] == region[j])
    assert networkx.number_connected_components(same) == regions.n_regions


@pytest.mark.parametrize("kind", ["floats", "integers", "fractions"])
def test_a_plane_through_three_points_rounds_nothing(kind):
    rng = np.random.default_rng(1)
    numbers = {
        "floats": lambda: rng.standard_normal(5),
        "integers": lambda: rng.integers(-8, 9, 5),
        "fractions": lambda: np.array([Fraction(int(v), 7) for v in rng.integers(-8, 9, 5)], dtype=object),
    }[kind]
    net = hm.Network.random_mlp([5, 6, 3], 0)
    given = [numbers() for _ in range(3)]
    plane = net.plane_through(*given)
    for place, point in zip(plane.exact_points, given, strict=True):
        assert plane.network.exact_value(np.array(place, dtype=object)) == net.exact_value(point)
    u, v = plane.directions.numbers
    exact = [[Fraction(x) for x in row] for row in (u, v)]
    assert sum(a * b for a, b in zip(*exact, strict=True)) == 0
    assert [float(sum(a * a for a in row)) for row in exact] == pytest.approx([1, 1], abs=1e-6)
    apart = np.linalg.norm(np.asarray(given[1], float) - np.asarray(given[2], float))
    assert np.linalg.norm(plane.points[1] - plane.points[2]) == pytest.approx(apart, rel=1e-6)
    back, off = plane.project(np.array(given, dtype=float))
    assert np.allclose(back, plane.points)
    assert np.allclose(off, 0, atol=1e-9)


def test_three_points_on_a_line_have_no_plane():
    net = hm.Network.random_mlp([3, 4, 2], 0)
    for points in ([[0, 0, 0], [1, 1, 1], [3, 3, 3]], [[1, 0, 0], [1, 0, 0], [0, 1, 0]]):
        with pytest.raises(InvalidInputError, match="must not lie on one line"):
            net.plane_through(*points)
    with pytest.raises(DimensionMismatchError, match="b must have 3 coordinates"):
        net.plane_through([0, 0, 0], [1, 0], [0, 1, 0])


# Torch and ONNX -----------------------------------------------------------------------------------------


def assert_classes_on_both_sides(boundary, classify) -> None:
    """A short step from the middle of a piece to either side leads to its two classes, as others see it."""
    judged = 0
    for piece in boundary:
        a, b, right = map(float, boundary.exact_hyperplane(piece.index))
        step = 1e-3 * piece.size * np.array([a, b]) / np.hypot(a, b)
        middle = piece.vertices.mean(axis=0)
        assert abs(a * middle[0] + b * middle[1] - right) <= 1e-9 * np.hypot(a, b)
        sides = np.stack([middle - step, middle + step])
        if (
            len(set(boundary.cell_of_class_cell[boundary.class_cells.locate(sides)])) == 1
            and piece.size > 0.05
        ):
            assert classify(sides).tolist() == list(piece.classes)
            judged += 1
    assert judged >= 5


def test_a_torch_module_is_taken_as_it_is():
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    module = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    )
    found = hm.decision_boundary(module, hm.Box.cube(2, -8, 8))
    assert found.complete
    assert found.n_classes == 3

    def classify(points):
        with torch.no_grad():
            return module.double()(torch.from_numpy(points)).argmax(dim=1).numpy()

    assert_classes_on_both_sides(found, classify)
    points = np.random.default_rng(0).uniform(-8, 8, (2000, 2))
    assert (found.classify(points) == classify(points)).mean() > 0.999
    module[1] = torch.nn.GELU()
    with pytest.raises(UnsupportedNetworkError, match="GELU at 1"):
        hm.decision_boundary(module, SQUARE)


def test_an_onnx_file_is_taken_as_it_is():
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path = Path(__file__).resolve().parents[3] / "examples" / "moons.onnx"
    found = hm.decision_boundary(str(path), hm.Box.cube(2, -2, 3))
    assert (len(found), found.complete, found.exact) == (34, True, True)
    session = runtime.InferenceSession(str(path))

    def classify(points):
        return session.run(None, {"point": points.astype(np.float32)})[0].argmax(axis=1)

    assert_classes_on_both_sides(found, classify)
    points = np.random.default_rng(0).uniform(-2, 3, (20_000, 2))
    theirs = classify(points)
    assert (found.classify(points) == theirs).mean() > 0.999
    area = 25 * np.array([(theirs == 0).mean(), (theirs == 1).mean()])
    assert found.class_sizes == pytest.approx(area, abs=0.4)
    same = hm.decision_boundary(path, hm.Box.cube(2, -2, 3))  # a path, too
    assert same.total_size == found.total_size


def test_a_part_of_a_boundary_says_no_total_and_computes_no_sizes_for_its_name():
    network = hm.Network.random_mlp([3, 12, 12, 3], 0)
    part = hm.decision_boundary(network, hm.Box.cube(3, -4, 4), max_cells=40)
    assert "INCOMPLETE" in repr(part)
    assert "area" not in repr(part)
    assert "sizes" not in part.__dict__
    assert part.n_pieces > 1
    assert part[0].size == part.sizes[0]
