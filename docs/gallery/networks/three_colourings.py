"""
Colour by map, by region, by output
===================================

The same cells three times. By map: similar colours for similar slopes. By region: neighbouring cells with
one affine map share a colour. By output: the value of the network, which is affine on every cell.
"""

import matplotlib.pyplot as plt

import hardmax as hm

network = hm.Network.random_mlp([2, 12, 4, 2, 1], rng=3)
found = hm.enumerate_regions(network, hm.Box.cube(2, -3, 3))
titles = {
    "map": f"map: {found.n_cells} cells",
    "region": f"region: {found.n_regions} regions",
    "output": "output",
}
figure, panels = plt.subplots(1, 3, figsize=(10.8, 3.6), layout="constrained", sharey=True)
for axes, (colour, title) in zip(panels, titles.items()):
    found.plot(ax=axes, colour=colour)
    axes.set_title(title)
    axes.label_outer()
