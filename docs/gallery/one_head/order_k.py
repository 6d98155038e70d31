"""
Top-k heads cut order-k diagrams
================================

A head that reads the k best keys has one cell for every set of keys that can win together. Six keys: 6
cells for the best one, 10 for the best two, 11 for the best three.
"""

import numpy as np

import hardmax as hm
from hardmax.plotting.diagrams import compare_diagrams

keys = np.array([[-1.6, -0.9], [1.5, -1.2], [0.2, 1.7], [-0.9, 0.6], [0.6, 0.1], [1.7, 1.1]])
diagrams = [hm.power_diagram(keys, k=k) for k in (1, 2, 3)]
counts = [int(diagrams[0].nonempty.sum()), diagrams[1].n_cells, diagrams[2].n_cells]
figure = compare_diagrams(
    diagrams,
    titles=[f"the {k} nearest: {n} cells" for k, n in zip(("one", "two", "three"), counts)],
    box=hm.Box.cube(2, -3, 3),
)
