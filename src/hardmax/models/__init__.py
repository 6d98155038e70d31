"""Real models: the geometry and the information flow of a trained transformer, read-only (P1, P2).

Examples
--------
>>> import hardmax as hm
>>> hm.models.token_flow(hm.models.bundled_source(), None)
<TokenFlow: 16 tokens, 2 layers, argmax: a token knows 1, 3, 3 of 15 (median after each layer)>
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
