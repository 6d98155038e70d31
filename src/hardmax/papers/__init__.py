"""The papers, a folder each: every statement as a claim with a verdict, every figure as a recipe.

Examples
--------
>>> import hardmax as hm
>>> hm.papers.check_claims("tropical.pow_512_8")
<Ledger: 1 claim: 1 fails as printed (a misprint); 1 certificate>
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
