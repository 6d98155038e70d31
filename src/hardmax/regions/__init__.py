"""Cells and linear regions of a network, enumerated or estimated by sampling (P1 sections V and VII).

Examples
--------
>>> import hardmax as hm
>>> network = hm.Network.mlp([([[1, 0], [0, 1]], None), ([[1, -1]], None)])
>>> hm.regions.count_cells(network, hm.Box.cube(2, -1, 1)).n_cells
4
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
