"""P2: which positions are still available at which token, what decoding them costs, what a target needs.

Examples
--------
>>> import hardmax as hm
>>> hm.flow.Plan([{"cls": [hm.flow.GlobalRead()]}])
<Plan: 1 layer, CLS: global>
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
