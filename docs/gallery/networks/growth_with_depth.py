"""
Cells against depth
===================

How many cells does a network of given size have, and how many could it have? The sawtooth construction
grows like the upper bound. Random networks of the same size have far fewer cells.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

depths, box = [1, 2, 3], hm.Box.cube(2, 0, 1)
size = {"n_tokens": 3, "heads": 2, "d_ff": 4}
most = [hm.region_bounds(d_model=2, depth=L, **size).upper.value for L in depths]
saw = [
    hm.count_cells(hm.networks.sawtooth_network(2, n_tokens=3, teeth=1, depth=L), box).n_cells for L in depths
]
nets = [[hm.Network.random(2, depth=L, rng=seed, **size) for L in depths] for seed in range(20)]
drawn = np.array([[hm.count_cells(net, hm.Box.cube(2, -8, 8)).n_cells for net in row] for row in nets])
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.semilogy(depths, most, "k--", label="at most")
axes.semilogy(depths, saw, "o-", label="sawtooth")
axes.semilogy(depths, drawn.mean(axis=0), "s-", label="random, mean of 20")
axes.set(xlabel="depth $L$", ylabel="cells", xticks=depths, title="3 keys, 2 heads, 4 ReLU units per layer")
axes.legend(frameon=False)
