"""
Which decisions can low precision change?
=========================================

A router chooses two of eight experts for each of 2,000 tokens, computed in eight-bit floats. Right of 1 the
margin exceeds the error that rounding can make, so these decisions cannot flip.
"""

import numpy as np

import hardmax as hm

rng = np.random.default_rng(0)
router = hm.models.RouterLayer(inputs=rng.standard_normal((2000, 64)), weights=rng.standard_normal((8, 64)))
found = hm.models.router_flips(router, dtype="float8_e4m3", k=2)
print(found)

axes = found.plot()
