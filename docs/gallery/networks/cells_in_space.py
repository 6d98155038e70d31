"""
Cells in space, cut open
========================

A ReLU network with three inputs. On the left one octant of the cube is removed to show the cells inside; on
the right the cube is cut into slices.
"""

import hardmax as hm

network = hm.Network.random_mlp([3, 8, 8, 1], rng=0)
found = hm.enumerate_regions(network, hm.Box.cube(3, -4, 4))
print(found)

axes = found.plot()
