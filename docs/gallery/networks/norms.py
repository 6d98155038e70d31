"""
Behind a norm the walls are conics
==================================

Three heads read a normalised input. The norm is not piecewise linear, so the walls of the heads are conics:
a circle, an ellipse and a hyperbola. The number of cells is still proven.
"""

import numpy as np

import hardmax as hm

lift = hm.Affine([[1, 0], [0, 1], [0, 0]], [0, 0, 1])
norm = hm.networks.RMSNorm([1, 1, 1], epsilon=0)
keys = [[[0, 0, 1], [0, 0, 0]], [[0.6, 0, 1], [0, 0, 0]], [[0, 2, 0.5], [0, 0, 0]]]
heads = hm.Attention(keys, [[0, 0.9], [0, 1.7], [0, 1.5]], np.zeros((3, 2, 3)))
found = hm.regions.normed_diagram(hm.Network([lift, norm, heads]), hm.Box.cube(2, -2.5, 2.5))
axes = found.plot()
