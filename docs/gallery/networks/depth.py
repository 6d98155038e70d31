"""
What each layer adds
====================

The cells after the first, second, third and fourth block of one network. Attention makes walls (black), at
which the output may jump. A ReLU layer makes folds (white), at which only the slope changes.
"""

import hardmax as hm
from hardmax.plotting.regions import compare_depths

network = hm.Network.random(2, n_tokens=6, heads=1, depth=2, d_ff=6, rng=3)
figure = compare_depths(network, hm.Box.cube(2, -4, 4))
