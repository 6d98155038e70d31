"""P1 section III: the tropical semiring, polynomials, rational maps, refinements (claims: papers/tropical).

Examples
--------
>>> import hardmax as hm
>>> hm.tropical.oplus(2.0, 3.0)
3.0
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
