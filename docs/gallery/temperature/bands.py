"""
The band around each wall
=========================

In the coloured areas softmax is within one per cent of hardmax, because the best score leads by enough. In
the grey bands around the walls nothing is guaranteed. Their width is proportional to the temperature.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Polygon

import hardmax as hm

keys = np.array([[2.0, 0.4], [0.2, 1.9], [-1.7, 0.8], [-0.8, -1.6], [1.2, -1.4]])
head, box = hm.attention_diagram(keys), hm.Box.cube(2, -3, 3)
figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.8), layout="constrained", sharey=True)
for axes, temperature in zip(panels, (0.4, 0.2, 0.05)):
    head.plot(ax=axes, box=box)
    lead = hm.temperature.margin_needed(len(keys), temperature, tolerance=0.01)
    for j, cell in enumerate(list(axes.patches)):
        behind = hm.attention_diagram(keys, -lead * np.eye(5)[j])  # key j needs a lead to win
        axes.add_patch(Polygon(behind.polygons(box)[j], facecolor=cell.get_facecolor(), zorder=1))
        cell.set(facecolor="0.8", zorder=0.9)
    axes.set_title(f"temperature {temperature}")
    axes.label_outer()
