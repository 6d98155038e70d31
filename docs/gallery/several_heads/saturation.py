"""
More heads than dimensions
==========================

Random heads of four keys in two, three and four dimensions. With few heads each one can multiply the number
of cells by four (dotted). Beyond the dimension the count grows only like a power of the number of heads.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

rng = np.random.default_rng(0)
heads = np.arange(1, 11)
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
for d in (2, 3, 4):
    keys = rng.standard_normal((10, 4, d))
    axes.semilogy(
        heads, [hm.minkowski_vertices(keys[:h]).count for h in heads], "o-", label=f"counted, d = {d}"
    )
    axes.semilogy(heads, [hm.vertex_maximum(4, h, d) for h in heads.tolist()], "k--", linewidth=0.8)
axes.semilogy(heads[:7], 4.0 ** heads[:7], "k:", label="$4^H$")
axes.plot([], [], "k--", linewidth=0.8, label="most possible")
axes.set(xlabel="heads $H$", ylabel="cells", xticks=heads, title="each further head adds less")
axes.legend(frameon=False)
