"""
A network along a segment
=========================

Between two inputs with 16 numbers each the network has finitely many affine pieces. All of them are found,
in order. At a wall a head changes its key and the output jumps; at a fold a ReLU switches and the slope
changes.
"""

import numpy as np

import hardmax as hm

layers = hm.Network.random(16, n_tokens=8, heads=2, depth=2, d_ff=16, rng=2)
network = hm.Network([*layers.blocks, hm.Affine([np.ones(16)])])
trace = hm.trace_segment(network, np.full(16, 2.0), np.full(16, -2.0))
print(trace, trace.breakpoints[:3])

axes = trace.plot()
