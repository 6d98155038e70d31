"""
Is this head hard?
==================

Scores of 1,000 random queries and 128 keys of width 64, scaled so that some queries have a clear winner.
The curve shows which share of the queries is how close to one-hot, and what the margin alone guarantees.
"""

import numpy as np

import hardmax as hm

rng = np.random.default_rng(0)
queries, keys = rng.standard_normal((1000, 64)), rng.standard_normal((128, 64))
scores = 20 * queries @ keys.T
report = hm.check_stability(scores, temperature=hm.temperature.standard_temperature(64))
print(report)

axes = report.plot()
