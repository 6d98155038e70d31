"""
A mixture of experts
====================

A router sends every input to the best two of four experts, each a small ReLU layer. The walls of the router
are black; inside each of its cells only the two chosen experts fold the output.
"""

import numpy as np

import hardmax as hm

rng = np.random.default_rng(5)
experts = [
    hm.FeedForward(rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=(2, 4))) for _ in range(4)
]
router = rng.normal(size=(4, 2))
block = hm.networks.MixtureOfExperts(router, rng.normal(size=4), experts, k=2, skip=True)
found = hm.enumerate_regions(hm.Network([block]), hm.Box.cube(2, -3, 3))
axes = found.plot()
