"""
One head is a power diagram
===========================

Cells of four keys: inside a cell one key has the largest score. The fourth key never wins.
"""

import hardmax as hm

head = hm.attention_diagram([[2, 0], [-1, 2], [-1, -2], [0.2, 0.1]])
axes = head.plot()
