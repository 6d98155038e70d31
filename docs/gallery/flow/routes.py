"""
Routes of information
=====================

Every token looks for its opposite, then the classification token looks for the best of these pairs. Arrows
go from what is read to the reader; what never reaches the classification token is pale.
"""

import numpy as np

import hardmax as hm

opposite = hm.MaxPosition(hm.BilinearScore(-np.eye(2)))
best = hm.MaxPosition(hm.KeyScore(lambda keys: -(keys[:, :, 0] * keys[:, :, 1]).sum(axis=-1)))
plan = hm.Plan([{"tokens": [opposite]}, {"cls": [best]}])
tokens = [[0, -1], [0.7, 0.7], [0.1, 1], [-0.2, -0.9], [0.9, 0.1]]
flow = hm.information_sets(hm.Architecture(n_tokens=5, d_token=2, heads=(1, 1), widths=4), plan, tokens)
print(flow.trace())

axes = flow.plot()
