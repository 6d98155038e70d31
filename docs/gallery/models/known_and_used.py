"""
What the model can know, and what it uses
=========================================

How far does the output of the bundled model move when a token is removed? The six tokens in the information
set of its classification token come first, before all tokens that it cannot know.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

source = hm.models.bundled_source()
known = np.array(hm.models.token_flow(source).known_by(-1))
influence = hm.measure_influence(source).texts[0].influence["ablation mean"][-1, -1]
others = np.setdiff1d(np.arange(len(influence)), known)
figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axes.semilogy(known, influence[known], "o", markersize=9, label="in the information set")
axes.semilogy(others, influence[others], "o", color="0.6", label="not in it")
axes.set(
    xlabel="token",
    ylabel="change of the output",
    xticks=np.arange(len(influence)),
    title="one input of the bundled model",
)
axes.legend(frameon=False)
