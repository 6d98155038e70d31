"""
Frozen keys against moving keys
===============================

One token moves. With frozen keys only its query changes; in the transformer its key and value change too.
The strips show which token each head reads along the way; where both differ the lower strip is hatched.
"""

import numpy as np

import hardmax as hm

rng = np.random.default_rng(3)
look = hm.SelfAttention(*rng.standard_normal((3, 3, 3, 4)), rng.standard_normal((3, 4, 3)))
tokens, goal = rng.standard_normal((6, 4)), rng.standard_normal(4)
effect = hm.regions.frozen_context_effect(hm.Transformer([look]), tokens, 2, 3 * goal)
print(effect)

axes = effect.plot()
