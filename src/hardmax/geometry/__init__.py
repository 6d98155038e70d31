"""Polyhedra: scores, domains, cells, power diagrams, Minkowski sums.

Does not depend on networks.

Examples
--------
>>> import hardmax as hm
>>> hm.geometry.Box.cube(2, -1, 1).d
2
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
