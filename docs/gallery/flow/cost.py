"""
What an architecture must hold
==============================

The pairwise target of four terms on 64 tokens. Bars show how many numbers a state must carry after each
layer, red marks how wide it is. A bar beyond its mark costs parameters: more of them the smaller the error
is to be.
"""

import numpy as np

import hardmax as hm

target = hm.targets.pairwise(np.random.default_rng(0).standard_normal((4, 4, 4)))
shape = hm.Architecture(n_tokens=64, d_token=4, heads=(4, 4), widths=24)
estimate = hm.estimate_cost(target, shape)
print(estimate.verdict)

axes = estimate.plot()
