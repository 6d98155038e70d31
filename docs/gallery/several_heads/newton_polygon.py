"""
A tropical polynomial and its Newton polygon
============================================

The polynomial is the largest of ten affine functions, its terms. Each term that wins somewhere has a cell
(left); the dot at its slope in the Newton polygon has the same colour (right). The black term never wins.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

slopes = np.array([[i, j] for i in range(4) for j in range(4 - i)])
cubic = hm.TropicalPolynomial(slopes, [0, 0.8, -1, -1.2, 0.9, 1.7, 0.4, 0.7, 0.3, -1.5])
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 4.2), layout="constrained")
cells = cubic.cells()
cells.plot(ax=left, box=hm.Box.cube(2, -4, 4))
left.set_title(f"{cells.n_cells} cells")
right.fill(*slopes[[0, 9, 3]].T, color="0.93")
right.scatter(*slopes.T, s=60, color="black")
colours = [patch.get_facecolor() for patch in left.patches]
right.scatter(*slopes[cells.terms[:, 0]].T, s=160, color=colours, edgecolor="black", zorder=3)
right.set(title="Newton polygon", xticks=range(4), yticks=range(4), aspect="equal")
