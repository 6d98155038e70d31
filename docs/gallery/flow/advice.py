"""
How many heads does a task need?
================================

The same target, and architectures that can carry what it needs, the smallest first. Reading everything with
one head works too, at forty times the parameters.
"""

import numpy as np

import hardmax as hm

target = hm.targets.pairwise(np.random.default_rng(0).standard_normal((4, 4, 4)))
advice = hm.advise(target, n_tokens=64)
for each in advice.suggestions:
    print(each.heads, each.widths, each.parameters, each.rules)

axes = advice.plot()
