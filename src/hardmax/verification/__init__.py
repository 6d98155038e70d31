"""Exact questions with certificates: does a property hold everywhere, and how large does an output get?

Examples
--------
>>> import hardmax as hm
>>> net = hm.Network.mlp([([[1, 0], [0, 1]], None), ([[1, -1]], None)])
>>> hm.verify(net, "y0 <= 1", hm.Box.cube(2, -1, 1)).verdict
'holds'
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
