r"""How far attention at a real temperature is from hardmax (P1 section VI).

One word for all of it: the *temperature* :math:`\tau` divides the scores,
:math:`p = \mathrm{softmax}(s / \tau)`, and zero is hardmax. A standard transformer divides its raw scores
:math:`q \cdot k` by :math:`\sqrt{d_{head}}`, so its temperature is :math:`\sqrt{d_{head}}`, not one over it,
as P1 section III-D says; P2's :math:`\beta` is :math:`1 / \tau`. The *margin* :math:`\delta` of a query is
the lead of its largest score over the next one. Everything here depends on
:math:`\varepsilon = e^{-\delta/\tau}` and on the number of keys.

Examples
--------
>>> import hardmax as hm
>>> hm.temperature.standard_temperature(64)
8.0
"""

from hardmax.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
