"""Networks: piecewise-affine maps as plain arrays of exact numbers. Knows no polyhedra."""
