"""A power diagram with the attributes of ``scipy.spatial.Voronoi``, for code that was written for that class.

Vertices, ridges and regions are numbered as SciPy numbers them, with -1 for a vertex at infinity. They are
read off the exact cells, so that a vertex on many ridges is one vertex, not a cluster of nearly equal ones.
Every ridge is listed; Qhull leaves out those in space that have one vertex and go to infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.cones.splitting import Refinement
from hardmax.geometry.diagrams.key_diagrams import KeyDiagram, vertices_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class VoronoiView:
    """What ``scipy.spatial.Voronoi`` says of points, said of the cells of a power diagram.

    Made by :meth:`hardmax.geometry.PowerDiagram.as_voronoi`; functions such as
    ``scipy.spatial.voronoi_plot_2d`` take it.

    Attributes
    ----------
    points : (N, d) float64
        The sites.
    vertices : (n_vertices, d) float64
        The vertices of the cells.
    ridge_points : (n_ridges, 2) int64
        The two sites between which each ridge lies.
    ridge_vertices : list of list of int
        The vertices of each ridge; -1 stands for infinity and comes first. In space they go around the ridge.
    regions : list of list of int
        The vertices of each cell with interior; -1 stands for infinity. In the plane they go around the cell.
    point_region : (N,) int64
        The region of each site, -1 where its cell has no interior; sites with the same score share one.
    weights : (N,) float64
        The weights of the sites, which ``scipy.spatial.Voronoi`` does not have.

    Examples
    --------
    >>> import hardmax as hm
    >>> view = hm.power_diagram([[0, 0], [2, 0], [0, 2]]).as_voronoi()
    >>> view.ridge_dict
    {(0, 1): [-1, 0], (0, 2): [-1, 0], (1, 2): [-1, 0]}
    """

    points: Floats
    vertices: Floats
    ridge_points: Integers
    ridge_vertices: list[list[int]]
    regions: list[list[int]]
    point_region: Integers
    weights: Floats

    furthest_site = False

    @property
    def ndim(self) -> int:
        """The dimension d."""
        return int(self.points.shape[1])

    @property
    def npoints(self) -> int:
        """The number of sites N."""
        return len(self.points)

    @property
    def min_bound(self) -> Floats:
        """The least coordinates of the sites."""
        return np.asarray(self.points.min(axis=0))

    @property
    def max_bound(self) -> Floats:
        """The greatest coordinates of the sites."""
        return np.asarray(self.points.max(axis=0))

    @property
    def ridge_dict(self) -> dict[tuple[int, int], list[int]]:
        """Pair of sites -> vertices of the ridge between them."""
        pairs = map(tuple, self.ridge_points.tolist())
        return dict(zip(pairs, self.ridge_vertices, strict=True))


def voronoi_view(diagram: KeyDiagram, cells: Refinement) -> VoronoiView:
    """The cells of a diagram in the form of SciPy."""
    d, has_lines = diagram.d, len(cells.lines()) > 0
    vertices, numbers = vertices_of(cells, diagram.scores)
    winner = cells.choices[:, 0]
    winners = set(winner.tolist())
    ridges: dict[tuple[int, int], list[int]] = {}
    regions: list[list[int]] = []
    for i, number in enumerate(numbers):
        generators, apex = cells.generators(i), []
        if cells.is_fan and not has_lines:  # cones are listed by their rays alone
            apex = [len(generators)]
            generators, number = np.vstack([generators, np.eye(1, d + 1)]), np.append(number, 0)
        facets = cells.facets_with_generators(i)
        regions.append(_listed(generators, number, np.eye(d) if d == 2 and not has_lines else None))
        for (_, other), on in facets:
            pair = (int(winner[i]), other)
            if other in winners and pair[0] < other and pair not in ridges:
                rows = [*on.tolist(), *apex]
                wall = diagram.slopes[other] / 2 - diagram.slopes[pair[0]] / 2  # nothing overflows
                plane = np.linalg.svd(wall[None])[2][1:] if d == 3 and not has_lines else None
                ridges[pair] = _listed(generators[rows], number[rows], plane)
                if d == 2 and len(ridges[pair]) == 1:
                    ridges[pair] *= 2  # a whole line ends nowhere
    pairs = sorted(ridges)
    region_of = np.full(diagram.n_keys, -1)
    region_of[winner] = np.arange(len(winner))
    return VoronoiView(
        diagram.sites,
        vertices,
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        [ridges[pair] for pair in pairs],
        regions,
        region_of[diagram.tie_group],
        diagram.weights,
    )


def _listed(generators: Floats, number: Integers, plane: Floats | None) -> list[int]:
    """The vertices of a face, and -1 once where it is unbounded; in a plane they go around the face.

    Seen from a point inside, a vertex lies in the direction of ``x / x0`` minus that point and a ray in its
    own, so that the angles of both have one order.
    """
    if plane is not None and len(generators) > 2:
        finite = generators[:, 0] > 0
        exponents = np.frexp(generators[finite])[1]
        largest = max(0, int((exponents[:, 1:] - exponents[:, :1]).max(initial=0)))  # nothing overflows
        points = np.ldexp(generators[finite, 1:], -largest) / generators[finite, :1]
        rays = generators[~finite, 1:]
        rays = rays / np.abs(rays).max(axis=1, keepdims=True)
        rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
        inside = points.sum(axis=0) / max(len(points), 1) + rays.sum(axis=0)
        seen = np.empty((len(generators), len(plane)))
        seen[finite], seen[~finite] = (points - inside) @ plane.T, rays @ plane.T
        number = number[np.argsort(np.arctan2(seen[:, 1], seen[:, 0]), kind="stable")]
        around = list(dict.fromkeys(number.tolist()))
        first = around.index(-1) if -1 in around else 0
        return around[first:] + around[:first]
    return sorted(set(number.tolist()) or {-1})
