"""
Hardmax, top-k and sparsemax
============================

One head of six keys under six rules. Sparsemax has cells too, one for each set of keys with a positive
weight. As the temperature falls, the cells of a single key fill the plane and the picture becomes that of
hardmax.
"""

import numpy as np

import hardmax as hm
from hardmax.plotting.regions import compare_rules

keys = np.array([[[-1.6, -0.9], [1.5, -1.2], [0.2, 1.7], [-0.9, 0.6], [0.6, 0.1], [1.7, 1.1]]])
head = hm.Network([hm.Attention(keys, -np.square(keys).sum(axis=2) / 2, keys, skip=False)])
rules = {"hardmax": head, "top-2": head.with_rule("top-k", k=2), "top-3": head.with_rule("top-k", k=3)}
for temperature in (4, 1, 0.1):
    rules[f"sparsemax at {temperature}"] = head.with_rule("sparsemax", temperature=temperature)
box = hm.Box.cube(2, -3, 3)
cells = {name: hm.enumerate_regions(rule, box) for name, rule in rules.items()}
figure = compare_rules(cells, colour="cell")
