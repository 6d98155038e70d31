r"""The functions that P2 asks a transformer to compute: maxima and minima over tuples of tokens.

A target knows its values, the positions it depends on, and what P2 asks of it: how many tokens it
retrieves, and the dimension, order and number of its comparisons. The targets of the paper are functions of
this module; :class:`Target` and :class:`Term` make others, and :func:`parse` reads them from a line of
text.

Examples
--------
>>> import hardmax as hm
>>> target = hm.targets.triangle_center()
>>> target([[[1.0, 0.0], [-0.5, 0.8], [0.3, 0.3], [-0.5, -0.8]]])
array([0.])
>>> target.comparisons(9), target.comparisons(64)
(<Interval: 0>, <Interval: 35987 to 41643>)
"""

from __future__ import annotations

from hardmax.targets.builtin import (
    depth_separation,
    kth_largest,
    pairwise,
    position_sum,
    retrieval,
    triangle_center,
)
from hardmax.targets.differences import measure_active
from hardmax.targets.intervals import Interval
from hardmax.targets.sampling import SwitchSupport, is_permutation_invariant, switch_support, winning_supports
from hardmax.targets.target import Target
from hardmax.targets.terms import FixedTerm, Term
from hardmax.targets.text.grammar import names_in
from hardmax.targets.text.reading import parse
from hardmax.targets.token_domains import InputDomain

__all__ = [
    "retrieval",
    "pairwise",
    "triangle_center",
    "depth_separation",
    "kth_largest",
    "position_sum",
    "parse",
    "names_in",
    "Target",
    "Term",
    "FixedTerm",
    "InputDomain",
    "Interval",
    "switch_support",
    "SwitchSupport",
    "winning_supports",
    "is_permutation_invariant",
    "measure_active",
]
