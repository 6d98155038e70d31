"""
The largest margin of a key
===========================

By how much can a key beat the second best when queries have length one? The arrows point to the best query
of each key. A key without a cell has the margin zero and no arrow.
"""

import hardmax as hm

keys = [[1.6, 0.3], [0.2, 1.5], [-1.5, 0.9], [-0.6, -1.4], [1.1, -1.5], [-0.35, 0.45]]
head = hm.attention_diagram(keys)
found = head.max_margin()
axes = head.plot(box=hm.Box.cube(2, -2.2, 2.2))
for query, margin in zip(found.queries, found.values):
    if margin > 0:
        axes.annotate("", query, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "black"})
        axes.text(*(1.25 * query), f"{margin:.2f}", ha="center", va="center", weight="bold")
axes.set_title("largest margins of queries of length 1")
