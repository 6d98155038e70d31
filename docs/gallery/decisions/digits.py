"""
The plane through three images
==============================

A network reads images of 64 pixels. Three images, a 3, a 5 and an 8, span a plane; its points are mixtures
of the three. The picture shows exactly which digit the network sees where.
"""

from pathlib import Path

import numpy as np

import hardmax as hm

examples = Path("../../../examples")
network, images = hm.load(examples / "digits.npz"), np.load(examples / "digit_images.npy")
plane = network.plane_through(*images)
axes = hm.decision_boundary(plane.network, hm.Box([-2, -2], [5, 5])).plot()
for (x, y), image in zip(plane.points, images):
    axes.plot(x, y, "ko", markeredgecolor="white", zorder=7)
    inset = axes.inset_axes((x + 0.15, y + 0.15, 0.9, 0.9), transform=axes.transData, zorder=6)
    inset.imshow(image.reshape(8, 8), cmap="Greys")
    inset.set(xticks=[], yticks=[])
axes.set_title("which digit? the plane through a 3, a 5 and an 8")
