"""
A proof about every input
=========================

A controller with 300 ReLU units scores a turn by distance and bearing of another aircraft (left). That the
score is at most 1.02 is proven for the whole square by cutting it into boxes (right), small ones where the
score changes most.
"""

import matplotlib.pyplot as plt

import hardmax as hm

network, box = hm.load("../../../examples/controller.npz"), hm.Box.cube(2, -1, 1)
plane = network.restrict([0, 0, 0.5, 0.2, 0.2], [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]])
found = hm.verify(plane, "y0 <= 1.02", box)
found.certificate.replay()  # checks the proof again, with nothing but fractions
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
hm.enumerate_regions(plane, box).plot(ax=left, colour="output:0")
found.certificate.plot(ax=right)
left.set(xlabel="distance", ylabel="bearing", title="the score")
right.set(
    xlabel="distance", ylabel="", title=f"at most 1.02: {found.verdict}, {found.certificate.n_leaves} boxes"
)
