"""
Two heads add up to a Minkowski sum
===================================

Each head has a Newton polygon, the hull of its keys. The vertices of the sum of both polygons are the pairs
of keys that win together: one vertex for every cell of both heads.
"""

import matplotlib.pyplot as plt

import hardmax as hm

first = [[2, 0.5], [-0.5, 1.5], [-1.5, -1]]
second = [[1.2, 1.2], [-1.2, 1], [-0.8, -1.4], [1, -1]]
figure, panels = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained", sharex=True, sharey=True)
for heads, axes, name in zip([[first], [second], [first, second]], panels, ["head 1", "head 2", "their sum"]):
    found = hm.minkowski_vertices(heads)
    found.plot(ax=axes)
    axes.set_title(f"{name}: {found.count} vertices")
print("winning pairs:", found.choices.tolist())
