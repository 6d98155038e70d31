"""
A sawtooth: depth multiplies
============================

A construction that reaches the lower bound of the theory. With three keys and two ReLU units per layer one
layer has three teeth; every further layer multiplies their number by six.
"""

import matplotlib.pyplot as plt

import hardmax as hm

figure, panels = plt.subplots(3, 1, figsize=(7, 6.4), layout="constrained")
for depth, axes in enumerate(panels, start=1):
    network = hm.networks.sawtooth_network(d=1, n_tokens=3, teeth=1, depth=depth)
    found = hm.enumerate_regions(network, hm.Box([0], [1]))
    found.plot(ax=axes)
    axes.set_title(f"depth {depth}: {found.n_cells} cells")
    axes.label_outer()
