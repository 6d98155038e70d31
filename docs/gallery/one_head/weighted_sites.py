"""
Weighted sites in the form of SciPy
===================================

The power diagram of six sites with weights, as a view with the attributes of ``scipy.spatial.Voronoi``. The
circles have the square roots of the weights as radii. SciPy's own function draws the view.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import voronoi_plot_2d

import hardmax as hm

sites = np.array([[0, 0], [4, 0], [1, 3], [5, 4], [-2, 2.5], [2.4, 1.4]])
weights = np.array([1.0, 2.5, 0.6, 4.0, 0.3, 0.2])
view = hm.power_diagram(sites, weights).as_voronoi()
figure, axes = plt.subplots(figsize=(5, 4.4), layout="constrained")
voronoi_plot_2d(view, ax=axes, line_width=1.4, point_size=9)
for site, weight in zip(sites, weights):
    axes.add_patch(plt.Circle(site, weight**0.5, fill=False, color="tab:orange"))
axes.set(
    aspect="equal",
    xlim=(-3.5, 7.5),
    ylim=(-2.2, 6.5),
    title=f"{len(view.regions)} regions, {len(view.vertices)} vertices",
)
