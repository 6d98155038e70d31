"""
Voronoi, power diagram and attention
====================================

The same keys three times: the nearest key wins, the nearest after subtracting a weight, the largest inner
product. Attention is the power diagram whose weights are the squared lengths of the keys.
"""

import numpy as np

import hardmax as hm
from hardmax.plotting.diagrams import compare_diagrams

keys = np.array([[2.2, 0.4], [0.7, 1.9], [-1.5, 1.2], [-1.9, -0.9], [0.5, -1.8], [0.6, 0.2], [-0.4, -0.5]])
diagrams = [
    hm.power_diagram(keys),
    hm.power_diagram(keys, [0, 0, 1.5, 0, 0, 0, 1.5]),
    hm.attention_diagram(keys),
]
titles = ["Voronoi: the nearest key", "weight 1.5 for keys 2 and 6", "attention: the largest score"]
figure = compare_diagrams(diagrams, titles=titles, box=hm.Box.cube(2, -3, 3))
