"""
Information sets, layer by layer
================================

How many of 64 input positions can a token know? With two heads per layer the set can triple in every layer.
On random inputs sets overlap and grow more slowly: the line is the mean over tokens and inputs, the area
the least and the most.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

rng, n_layers = np.random.default_rng(0), 6
layer = [
    [hm.MaxPosition(hm.BilinearScore(rng.normal(size=(3, 3)))) for _ in range(2)] for _ in range(n_layers)
]
plan = hm.Plan([*({"tokens": heads} for heads in layer), {}])
shape = hm.Architecture(n_tokens=64, d_token=3, heads=(2,) * (n_layers + 1), widths=12)
flow = hm.information_sets(shape, plan, rng.uniform(-1, 1, size=(50, 64, 3)))
layers, sizes = range(1, n_layers + 1), flow.sizes.tokens
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.plot(layers, np.minimum(3.0 ** np.arange(1, n_layers + 1), 64), "k--", label="at most")
axes.plot(layers, sizes.mean(axis=(0, 2)), "o-", label="mean")
axes.fill_between(layers, sizes.min(axis=(0, 2)), sizes.max(axis=(0, 2)), alpha=0.25, label="least and most")
axes.set(xlabel="layer", ylabel="known positions", title="two heads per layer, 64 tokens", ylim=(0, None))
axes.legend(frameon=False)
