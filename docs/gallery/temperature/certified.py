"""
Up to which temperature is a program right?
===========================================

Two heads look up what follows a letter in "abca". With hardmax all answers are right. The green range is
proven for softmax; at the dashed line a decision changes, which is proven too.
"""

import numpy as np

import hardmax as hm

letters, follows, places = np.array([0, 1, 2, 0]), np.array([1, 2, 0, 3]), np.arange(4)
find = hm.Attention([2 * letters[:, None]], [-(letters**2) + places / 8], [places[:, None]], skip=False)
fetch = hm.Attention([2 * places[:, None]], [-(places**2)], [np.eye(4)[follows]], skip=False)
found = hm.certified_temperature(hm.Network([find, fetch]), [[0], [1], [2]])
print(found)

axes = found.plot()
