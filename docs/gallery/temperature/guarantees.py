"""
What a margin guarantees
========================

A head of 512 keys. If the best score leads by a margin, the best key gets at least this probability. At the
temperature 8 of a head of width 64 the margin must be large before anything is guaranteed.
"""

import numpy as np

import hardmax as hm
from hardmax.plotting.temperatures import draw_guarantees

margins = np.geomspace(0.05, 200, 120)
bounds = {
    f"temperature {tau:g}": [hm.stability_bounds(512, margin, tau) for margin in margins]
    for tau in (8, 1, 0.125)
}
figure = draw_guarantees(bounds, margin=2.0)
