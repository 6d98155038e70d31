"""
Three ways to read
==================

In one layer a token keeps its own content and reads that of others: the token with the largest score, all
tokens, or fixed positions. Here token x3 reads four tokens under each of these rules.
"""

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.plotting.flows import draw_reading

rules = {
    "the winner of a head": hm.MaxPosition(hm.KeyScore(lambda keys: keys[:, :, 0, 0])),
    "everything": hm.GlobalRead(),
    "fixed positions": hm.Positions((0, 1)),
}
tokens, shape = [[0.9], [0.1], [0.4], [0.2]], hm.Architecture(n_tokens=4, d_token=1, heads=(1, 1), widths=1)
figure, panels = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
for axes, (name, rule) in zip(panels, rules.items()):
    flow = hm.information_sets(shape, hm.Plan([{"tokens": [rule]}, {}]), tokens)
    draw_reading(flow, 2, ax=axes, title=name)
