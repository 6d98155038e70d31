"""
A transformer whose keys move
=============================

All four tokens move on a straight line to other values, and keys and values move with them. Scores are then
quadratic along the way, and every change of a head or of a ReLU unit is still found exactly.
"""

import numpy as np

import hardmax as hm

rng = np.random.default_rng(0)
look = hm.SelfAttention(*rng.standard_normal((3, 2, 3, 6)), rng.standard_normal((2, 6, 3)))
units = hm.FeedForward(
    rng.standard_normal((4, 6)), rng.standard_normal(4), rng.standard_normal((6, 4)), skip=True
)
start, end = rng.standard_normal((2, 4, 6))
trace = hm.trace_segment(hm.Transformer([look, units, hm.Affine([np.ones(6)])]), start, end)
print(trace)

axes = trace.plot()
