"""
Margins in the report of a model
================================

The report of the bundled model: by how much does the winner lead, in units of temperature? Dots are
medians, bars run from the lowest to the highest tenth of the queries; layer 2 has one query only. Above the
dashed line queries are hard.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

report = hm.report()
heads = report.atlas.heads
low, middle, high = (
    np.array([getattr(head, f"margin_{name}") for head in heads]) for name in ("low", "median", "high")
)
needed = hm.temperature.margin_needed(heads[0].n_keys, temperature=1.0, tolerance=0.01)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.errorbar(range(len(heads)), middle, [middle - low, high - middle], fmt="o", capsize=4)
axes.axhline(needed, color="black", linestyle="--", label=f"hard up to 1 %: margin {needed:.1f}")
axes.set_xticks(range(len(heads)), [f"layer {head.layer + 1}\nhead {head.head + 1}" for head in heads])
axes.set(xlim=(-0.5, 3.5), ylabel="margin / temperature", yscale="log", title="how far the winner leads")
axes.legend(frameon=False)
