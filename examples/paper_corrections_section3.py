"""What section III of the tropical paper gets wrong, computed: run it and read.

    python examples/paper_corrections_section3.py

The statements are those of "Expressivity of Transformers: A Tropical Geometry Perspective", section III.
Walls, counts and slopes are decided in rationals, not read off a grid.
"""

from __future__ import annotations

import math
from fractions import Fraction

import hardmax as hm

HALF = Fraction(1, 2)


def walls_on_the_line(thing: hm.TropicalPolynomial | hm.tropical.TropicalRationalMap) -> list[float]:
    """The walls of something with one variable, as numbers."""
    walls = thing.hypersurface()
    return sorted({float(walls.vertices(i)[0, 0]) for i in range(walls.n_walls)})


def newton_polytope_does_not_determine_the_regions() -> None:
    """Definition III.5: "completely characterized by its Newton polytope"."""
    print("1. Does the Newton polytope determine the regions? (Definition III.5 says: completely.)")
    high = hm.TropicalPolynomial([[0], [1], [2]], [0, 5, 0])
    low = hm.TropicalPolynomial([[0], [1], [2]], [0, -5, 0])
    for p in (high, low):
        newton = [int(vertex[0]) for vertex in p.newton_polytope().exact_vertices()]
        print(f"   {p}: Newton polytope {newton}, {p.cells().n_cells} regions, walls {walls_on_the_line(p)}")
    same = high.newton_polytope() == low.newton_polytope()
    print(f"   same Newton polytope: {same}; same function: {high == low}")
    print("   No. The upper hull of the lifted points (exponent, coefficient) does.\n")


def cells_are_cones_only_for_equal_coefficients() -> None:
    """Definition III.7: "the normal fan is the collection of polyhedral cones"."""
    print("2. Are the cells cones? (Definition III.7 says so, coefficients or not.)")
    for p in (hm.TropicalPolynomial([[0], [1]]), hm.TropicalPolynomial([[0], [1]], [0, -1])):
        print(f"   {p}: wall at {walls_on_the_line(p)}, cones with apex 0: {p.cells().is_fan}")
    print("   Only where the terms that win have equal coefficients.\n")


def log_lifting_does_not_preserve_the_walls() -> None:
    """Remark III.11: log-lifting is "preserving the same routing hypersurfaces"."""
    print("3. Does log-lifting keep the routing walls? (Remark III.11 says so.)")
    head = hm.tropical.log_lifted_head([[-1], [1]], [0, 2])
    slopes = [head.affine_at([x])[0].item() for x in (-2, -HALF, 1)]
    print(f"   keys -1, +1, log-values 0, 2: slopes {slopes}, walls {walls_on_the_line(head)}")
    print(f"   routing (the denominator alone): walls {walls_on_the_line(head.denominator)}")
    winner = int(head.denominator.active_terms([-HALF])[0])
    value = head.exact_value([-HALF])[0]
    print(f"   at -1/2 key {winner} wins, whose log-value is {[0, 2][winner]}, but the head gives {value}")
    for tau in (1.0, 0.1, 0.01):
        gap, bound = abs(head([0.0], tau)[0] - head([0.0])[0]), tau * math.log(2)
        print(f"   temperature {tau:4}: |tau log z - limit| at 0 is {gap:.6f} <= tau log N = {bound:.6f}")
    constant = hm.tropical.log_lifted_head([[-1], [1]], [3, 3])
    n_maps = len({tuple(part.item() for part in constant.affine_at([x])) for x in (-1, 1)})
    print(f"   equal log-values: {constant.common_refinement().n_cells} cells, but {n_maps} linear region")
    print("   No. The values move walls, and cells only bound the regions of Remark III.12 from above.\n")


def feed_forward_is_rational_not_polynomial() -> None:
    """Section III-E: FFNs "act as tropical polynomials"."""
    print("4. Is an FFN a tropical polynomial? (Section III-E says so.)")
    tooth = hm.tropical.relu_layer([[1], [1]], [0, -HALF], [[2, -4]])
    values = [tooth.exact_value([x])[0] for x in (0, HALF, 1)]
    print(
        f"   the paper's sawtooth at 0, 1/2, 1: {', '.join(map(str, values))}: above its chord, so not convex"
    )
    print(f"   numerator {tooth.numerators[0].simplified()}, denominator {tooth.denominator.simplified()}")
    smile = hm.tropical.relu_layer([[1], [-1]], None, [[1, 1]])
    print(f"   without negative output weights it is one: |x| = {smile.numerators[0].simplified()}")
    print("   No. It is a tropical rational map; hm.tropical.relu_layer gives it.")


if __name__ == "__main__":
    newton_polytope_does_not_determine_the_regions()
    cells_are_cones_only_for_equal_coefficients()
    log_lifting_does_not_preserve_the_walls()
    feed_forward_is_rational_not_polynomial()
