"""
The cells of a network
======================

Two layers of attention with two heads each and two ReLU layers, on a square. Every area is a cell on which
the network is affine; the list is complete and exact. Similar colours mean similar affine maps.
"""

import hardmax as hm

network = hm.Network.random(2, n_tokens=8, heads=2, depth=2, d_ff=8, rng=1)
found = hm.enumerate_regions(network, hm.Box.cube(2, -4, 4))
print(found, found.verify().ok)

axes = found.plot()
