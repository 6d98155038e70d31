"""
One head is a power diagram
===========================

Four keys in the plane of queries. Inside a cell one key has the largest score. Key 3 has no cell: it lies
between the others and never wins.
"""

import hardmax as hm

keys = [[2, 0], [-1, 2], [-1, -2], [0.2, 0.1]]
head = hm.attention_diagram(keys)
print(head)

axes = head.plot()
axes.set_title("3 of 4 keys can win")
