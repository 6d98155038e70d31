"""
How far is the boundary?
========================

For each of five points the nearest point of the decision boundary, exactly, and the circle up to which the
class is certain. The network has six ReLU units.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

w_in = [[-0.95, 0.6], [4.12, 0.23], [-1.43, 1.02], [-2.51, 1.69], [-0.36, 0.07], [2.77, 2.92]]
w_out = [[0.81, -4.11, 1.26, 2.26, 0.22, 2.95], [-0.81, 4.1, -1.28, -2.24, -0.23, -2.94]]
network = hm.Network.mlp([(w_in, [-0.24, -4.1, -0.41, -0.68, -0.02, -1.14]), (w_out, [-2.97, 2.97])])
boundary = hm.decision_boundary(network, hm.Box([-1.75, -1.25], [2.75, 1.75]))
axes = boundary.plot()
for point in np.array([[-0.5, 1.0], [0.5, 0.75], [0.4, -0.3], [1.5, -0.4], [2.0, 0.5]]):
    found = boundary.distance(point)
    axes.plot(*np.array([point, found.nearest]).T, "ko-", markevery=[0], markersize=4, zorder=6)
    axes.add_patch(plt.Circle(point, found.distance, fill=False, linestyle="--", zorder=6))
