"""
The cells of two heads together
===============================

The common refinement of two heads: inside a cell the winner of both is fixed. Three keys and four keys
could choose in 12 ways; 7 of them occur, because 7 is the number of vertices of the Minkowski sum.
"""

import matplotlib.pyplot as plt

import hardmax as hm

first = hm.TropicalPolynomial([[2, 0.5], [-0.5, 1.5], [-1.5, -1]])
second = hm.TropicalPolynomial([[1.2, 1.2], [-1.2, 1], [-0.8, -1.4], [1, -1]])
cells = [first.cells(), second.cells(), hm.common_refinement(first, second)]
figure, panels = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
for found, axes, name in zip(cells, panels, ["head 1", "head 2", "both heads"]):
    found.plot(ax=axes, box=hm.Box.cube(2, -2, 2))
    axes.set_title(f"{name}: {found.n_cells} cells")
