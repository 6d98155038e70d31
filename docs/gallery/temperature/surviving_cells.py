"""
Which cells survive?
====================

A sawtooth network with 512 cells at temperature zero. As the temperature rises, softmax blurs the heads,
and fewer and fewer cells keep the signature that they have at temperature zero.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

network = hm.networks.sawtooth_network(d=1, n_tokens=4, teeth=1, depth=3)
cells = hm.enumerate_regions(network, hm.Box([0], [1]))
temperatures = np.geomspace(1e-5, 1, 41)
kept = [hm.temperature.surviving_cells(network, cells.witnesses, tau).n_surviving for tau in temperatures]
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.semilogx(temperatures, kept, "o-", markersize=3)
axes.axhline(cells.n_cells, color="black", linestyle="--", label="cells at temperature zero")
axes.set(xlabel="temperature", ylabel="cells with their signature", title="a sawtooth of depth 3")
axes.legend(frameon=False)
