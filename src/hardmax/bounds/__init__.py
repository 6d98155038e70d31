"""Closed forms for how many cells there can be (P1 section V), each with the hypotheses it needs.

All inputs are whole numbers: no function here reads weights, so any package may import this one. A maximum
is attained, an upper bound is one that no network exceeds, a lower bound is one that a construction reaches;
each also gives the form that P1 prints, and what is wrong with it.

Examples
--------
>>> import hardmax as hm
>>> hm.bounds.zaslavsky(4, 2)
11
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
