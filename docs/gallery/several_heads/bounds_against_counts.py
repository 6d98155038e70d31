"""
Counts against the bound
========================

How many cells do two heads in three dimensions cut when the number of keys grows? The bound is reached by
keys on a parabola. Random keys stay far below: most of them lie inside the hull and never win.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

rng, sizes = np.random.default_rng(0), [4, 8, 16, 32, 64]
best = [hm.minkowski_vertices(hm.geometry.parabolic_heads(n, 2, 3)[0]).count for n in sizes]
drawn = [[hm.minkowski_vertices(rng.standard_normal((2, n, 3))).count for n in sizes] for _ in range(10)]
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.loglog(sizes, [hm.vertex_maximum(n, 2, 3) for n in sizes], "k--", label="most possible")
axes.loglog(sizes, best, "o", label="keys on a parabola")
axes.loglog(sizes, np.mean(drawn, axis=0), "s-", label="random keys, mean of 10 draws")
axes.fill_between(
    sizes, np.min(drawn, axis=0), np.max(drawn, axis=0), alpha=0.25, color="C1", label="least and most"
)
axes.set(xlabel="keys per head $N$", ylabel="cells", title="two heads in three dimensions")
axes.set_xticks(sizes, sizes, minor=False)
axes.minorticks_off()
axes.legend(frameon=False)
