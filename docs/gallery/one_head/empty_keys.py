"""
Why a key never wins
====================

Key 5 has no cell. Its certificate names three other keys (dashed) and weights that are fractions. Their
weighted mean is key 5 itself, so one of the three always has a score at least as large.
"""

import numpy as np

import hardmax as hm

keys = np.array([[2.0, 0.2], [0.9, 2.3], [-2.2, 1.2], [-1.6, -1.7], [1.1, -2.2], [0.5, 0.4]])
head = hm.attention_diagram(keys)
certificate = head.empty_certificate(5)
print("checked with fractions:", certificate.verify())

axes = head.plot(box=hm.Box.cube(2, -3, 3))
for winner, weight in zip(certificate.support, certificate.weights):
    axes.plot(*keys[[5, winner]].T, color="black", linestyle="--", linewidth=1)
    axes.annotate(
        f"weight {float(weight):.2f}", keys[winner], (0, -22), textcoords="offset points", ha="center"
    )
axes.set_title("key 5 is a mean of three other keys")
