r"""Closed forms for the largest number of cells (P1 section V), each with the hypotheses it needs.

Bounds are integers of arbitrary size: they grow like :math:`N^{dL}`.
"""

from __future__ import annotations

from math import comb
from operator import index

from hardmax.errors import InvalidInputError

__all__ = ["vertex_maximum"]


def vertex_maximum(n_tokens: int, heads: int, d: int, *, biased: bool = False) -> int:
    r"""The largest number of routing cells of H heads with N keys each in :math:`\mathbb{R}^d`, attained.

    .. math::

        V_{\mathrm{lin}}(N, H, d) = \sum_{j=0}^{d-1} \binom{H}{j} (N-1)^j + \binom{H-1}{d-1}, \qquad
        V_{\mathrm{aff}}(N, H, d) = \sum_{j=0}^{d} \binom{H}{j} (N-1)^j .

    The linear form counts the vertices of a Minkowski sum of H polytopes with N vertices each (bias-free
    scores), the affine form the upper vertices of the lifted sum (scores with free biases). For N = 1 both
    are 1. P1 Theorem V.2 prints
    :math:`O((NH)^{\lfloor d/2 \rfloor})` for H > d; that is too small for every d >= 3.

    Parameters
    ----------
    n_tokens, heads, d : int
        N, H and d, all at least 1.
    biased : bool
        Whether scores may carry biases.

    See Also
    --------
    hardmax.parabolic_heads : keys that attain the maximum.

    Notes
    -----
    Proven here by Euler characteristics for linear d <= 3 and affine d <= 2 (``docs/minkowski.md``); for
    larger d the upper bound rests on Weibel (2012) and on Montufar, Ren and Zhang (2021). That it is attained
    is checked exactly by :func:`hardmax.parabolic_heads`.

    Examples
    --------
    P1 figure 4 claims 216 vertices for three heads of six keys in space; no more than 92 are possible.

    >>> vertex_maximum(6, 3, 3), vertex_maximum(6, 3, 3, biased=True), vertex_maximum(6, 3, 4)
    (92, 216, 216)
    """
    n_tokens, heads, d = _positive("n_tokens", n_tokens), _positive("heads", heads), _positive("d", d)
    if n_tokens == 1:
        return 1
    top = d if biased else d - 1
    total = sum(comb(heads, j) * int((n_tokens - 1) ** j) for j in range(min(top, heads) + 1))
    return total if biased else total + comb(heads - 1, d - 1)


def _positive(name: str, value: int) -> int:
    try:
        number = index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or number < 1:
        raise InvalidInputError(f"{name} must be an integer of at least 1, but was {value!r}.")
    return number
