"""
Comparison trees
================

The largest and the smallest of four numbers, by comparisons: in each tree a tuple of positions wins against
another and travels up. Blue is the way of the winner to the root.
"""

import hardmax as hm
from hardmax.plotting.comparison_trees import draw_trees

target = hm.targets.parse("max(t) x[t] + min(t) x[t]")
trees = target.trees(4)
print(target.comparisons(4), "comparisons in", trees)

figure = draw_trees(trees, [[0.3], [0.9], [-0.4], [0.5]], titles=["the largest", "the smallest"])
