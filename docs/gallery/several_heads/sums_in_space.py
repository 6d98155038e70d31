"""
Heads in three dimensions
=========================

One, two and three heads with six keys each, placed so that the sum has as many vertices as possible. Two
heads multiply (6 times 6); the third adds fewer, because the dimension is three and the scores have no
biases.
"""

import hardmax as hm
from hardmax.plotting.polytopes import compare_sums

keys, _ = hm.geometry.parabolic_heads(6, 3, 3)
sums = [hm.minkowski_vertices(keys[:h]) for h in (1, 2, 3)]
for h, found in enumerate(sums, start=1):
    print(h, "heads:", found.count, "vertices, at most", hm.vertex_maximum(6, h, 3))
figure = compare_sums(sums, titles=["1 head", "2 heads", "3 heads"], proportions="round")
