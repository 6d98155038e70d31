"""
Temperature blurs the walls
===========================

Every key has a colour, and a query gets the colours that softmax mixes for it. At a low temperature each
cell has one colour; at a high one all keys are mixed everywhere. The walls stay where they are.
"""

import hardmax as hm
from hardmax.plotting.temperatures import draw_temperatures

keys = [[2.0, 0.4], [0.2, 1.9], [-1.7, 0.8], [-0.8, -1.6], [1.2, -1.4]]
head = hm.attention_diagram(keys)
figure = draw_temperatures(head, [2.0, 0.5, 0.1], box=hm.Box.cube(2, -3, 3))
