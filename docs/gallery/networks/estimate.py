"""
Random points miss cells
========================

How many cells do random points find? The curve still rises after a million points. The exact count takes
less time and shows how many cells the points have missed.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

network, box = hm.Network.random_mlp([2, 64, 64, 64, 1], rng=0), hm.Box.cube(2, -4, 4)
estimate = hm.estimate_cells(network, box, n_samples=1_000_000, rng=0)
exact = hm.count_cells(network, box).n_cells
points = np.geomspace(100, 1_000_000, 40).astype(int)
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.semilogx(points, [estimate.n_signatures_after(n) for n in points.tolist()], label="cells found")
axes.axhline(exact, color="black", linestyle="--", label=f"exact: {exact:,} cells")
axes.set(
    xlabel="random points",
    ylabel="cells",
    title=f"{estimate.n_signatures / exact:.0%} of the cells are found",
)
axes.yaxis.set_major_formatter("{x:,.0f}")
axes.legend(frameon=False)
