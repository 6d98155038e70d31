"""
Cells, classes and a jump
=========================

A network with attention may jump: along the dotted part of the boundary both classes lead by a wide margin
on their own side. Thin lines are the cells of the network.
"""

import hardmax as hm

network = hm.Network.random(2, n_tokens=5, heads=1, depth=2, d_ff=6, rng=8)
found = hm.enumerate_regions(network, hm.Box.cube(2, -4, 4))
boundary = hm.decision_boundary(network, hm.Box.cube(2, -4, 4))
print(boundary, int(boundary.jumps.sum()), "pieces at which the outputs jump")

axes = found.plot(colour="class")
