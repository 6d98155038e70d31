"""A power diagram in the form of scipy.spatial.Voronoi, against that class and without it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import Voronoi

import hardmax as hm


def numbered_like(view, other):
    """For each vertex of ``view`` the same vertex of ``other``."""
    assert len(view.vertices) == len(other.vertices)
    gaps = np.linalg.norm(view.vertices[:, None] - other.vertices[None], axis=2)
    found = gaps.argmin(axis=1)
    scale = 1 + np.linalg.norm(view.vertices, axis=1)
    assert (gaps.min(axis=1) <= 1e-7 * scale**2).all()
    assert len(set(found.tolist())) == len(found)
    return {-1: -1, **dict(enumerate(found.tolist()))}


def cyclic(numbers):
    """A cycle up to its start and direction."""
    turns = [tuple(numbers[i:] + numbers[:i]) for i in range(len(numbers))]
    return min(turns + [turn[::-1] for turn in turns])


@pytest.mark.parametrize(("d", "n"), [(2, 4), (2, 12), (2, 80), (3, 6), (3, 40)])
def test_unweighted_diagrams_are_those_of_scipy(d, n):
    rng = np.random.default_rng([d, n])
    for _ in range(4):
        points = rng.uniform(-1, 1, (n, d))
        view, other = hm.power_diagram(points).as_voronoi(), Voronoi(points)
        same = numbered_like(view, other)
        theirs = {
            tuple(sorted(pair)): ridge
            for pair, ridge in zip(other.ridge_points.tolist(), other.ridge_vertices, strict=True)
        }
        # Qhull leaves out a ridge in space that has one vertex and goes to infinity
        left_out = view.ridge_dict.keys() - theirs.keys()
        assert all(d == 3 and len(view.ridge_dict[pair]) == 2 for pair in left_out)
        assert theirs.keys() <= view.ridge_dict.keys()
        for pair in theirs:
            ridge = view.ridge_dict[pair]
            assert cyclic([same[v] for v in ridge]) == cyclic(theirs[pair])
            assert -1 not in ridge[1:]
        for j in range(n):
            ours = [same[v] for v in view.regions[view.point_region[j]]]
            region = other.regions[other.point_region[j]]
            assert set(ours) == set(region)
            assert len(ours) == len(set(ours))
            if d == 2:
                assert cyclic(ours) == cyclic(list(region))
        assert view.points.tolist() == points.tolist()
        assert view.min_bound.tolist() == other.min_bound.tolist()
        assert (view.ndim, view.npoints, view.furthest_site) == (other.ndim, other.npoints, False)


def test_weights_ties_and_cells_without_interior():
    """The square with a light centre: four rays from one vertex, which no cell sees twice."""
    sites = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1], [2, 2]]
    view = hm.power_diagram(sites, [0, 0, 0, 0, -2, 0]).as_voronoi()
    assert view.vertices.tolist() == [[1.0, 1.0]]
    assert view.point_region.tolist() == [0, 1, 2, 3, -1, 3]
    assert view.regions == [[-1, 0]] * 4
    assert view.ridge_dict == {pair: [-1, 0] for pair in [(0, 1), (0, 2), (1, 3), (2, 3)]}


def test_cones_lines_and_one_site():
    cones = hm.attention_diagram([[2, 0], [-1, 2], [-1, -2]]).as_voronoi()
    assert cones.vertices.tolist() == [[0.0, 0.0]]
    assert (cones.regions, cones.ridge_vertices) == ([[-1, 0]] * 3, [[-1, 0]] * 3)
    solid = hm.attention_diagram([[1, 1, 1], [-1, -1, 1], [-1, 1, -1], [1, -1, -1]]).as_voronoi()
    assert (len(solid.ridge_points), solid.ridge_vertices[0]) == (6, [-1, 0])
    strips = hm.power_diagram([[0, 0], [1, 0], [3, 0]]).as_voronoi()
    assert (strips.regions, strips.ridge_vertices) == ([[-1]] * 3, [[-1, -1]] * 2)
    assert hm.power_diagram([[1, 2]]).as_voronoi().regions == [[-1]]
    line = hm.power_diagram([[0], [1], [3]]).as_voronoi()
    assert (line.regions, line.ridge_vertices) == ([[-1, 0], [0, 1], [-1, 1]], [[0], [1]])


def test_the_lattice_has_square_cells_in_order():
    view = hm.power_diagram([[x, y] for x in range(4) for y in range(4)]).as_voronoi()
    corners = view.vertices[view.regions[view.point_region[5]]]
    assert np.abs(np.roll(corners, -1, 0) - corners).sum(axis=1).tolist() == [1.0] * 4
    assert len(view.vertices) == 9


def test_scipy_draws_it():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure
    from scipy.spatial import voronoi_plot_2d

    rng = np.random.default_rng(0)
    diagram = hm.power_diagram(rng.uniform(size=(12, 2)), rng.uniform(0, 0.05, 12))
    axes = Figure().add_subplot()
    voronoi_plot_2d(diagram.as_voronoi(), axes)
    finite, infinite = axes.collections[-2:]
    walls = diagram.facets()
    assert len(finite.get_segments()) == sum(wall.bounded for wall in walls)
    for segment in infinite.get_segments():  # in the direction in which the wall goes to infinity
        way = (segment[1] - segment[0]) / np.linalg.norm(segment[1] - segment[0])
        assert any(
            np.allclose(wall.points[0], segment[0])
            and np.allclose(wall.rays[0] / np.linalg.norm(wall.rays[0]), way)
            for wall in walls
            if not wall.bounded
        )
