"""
The decision boundary of a classifier
=====================================

A network from an ONNX file, trained on two half moons. The line between its two classes is computed
exactly, piece by piece, and drawn over the data.
"""

import numpy as np

import hardmax as hm

rng, labels = np.random.default_rng(0), np.arange(120) % 2
angles = rng.uniform(0, np.pi, 120)
upper, lower = (
    np.array([np.cos(angles), np.sin(angles)]),
    np.array([1 - np.cos(angles), 0.5 - np.sin(angles)]),
)
points = np.where(labels, lower, upper).T + 0.12 * rng.standard_normal((120, 2))
network = hm.Network.from_onnx("../../../examples/moons.onnx")
boundary = hm.decision_boundary(network, hm.Box([-1.75, -1.25], [2.75, 1.75]))
axes = boundary.plot(points=points, labels=labels)
