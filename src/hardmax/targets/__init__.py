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
from hardmax.targets.grammar import names_in
from hardmax.targets.naming import named
from hardmax.targets.parsing import parse
from hardmax.targets.sampling import (
    SwitchSupport,
    is_permutation_invariant,
    measure_active,
    switch_support,
    winning_supports,
)
from hardmax.targets.target import Interval, Target
from hardmax.targets.terms import FixedTerm, Term
from hardmax.targets.tokens import InputDomain

__all__ = [
    "FixedTerm",
    "InputDomain",
    "Interval",
    "SwitchSupport",
    "Target",
    "Term",
    "depth_separation",
    "is_permutation_invariant",
    "kth_largest",
    "measure_active",
    "named",
    "names_in",
    "pairwise",
    "parse",
    "position_sum",
    "retrieval",
    "switch_support",
    "triangle_center",
    "winning_supports",
]
