"""Networks: piecewise-affine maps as plain arrays of exact numbers. Does not depend on geometry.

Examples
--------
>>> import hardmax as hm
>>> hm.networks.Network.random(2, 3, 2, 1, 4, rng=0)
<Network: 2 -> 2, 2 blocks, 2 heads, 4 units>
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
