r"""Batch normalisation with fixed statistics: an affine map, written into a graph.

.. math:: y = \gamma \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta

Each factor :math:`\gamma / \sqrt{\sigma^2 + \varepsilon}` is rounded to float64 once, because a root is
seldom rational; it is a number of the network from then on, and everything else is exact.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.networks.reading.forms import fractions, numbers_of
from hardmax.networks.reading.graph import Graph, Tensor

_BITS = 200  # of a root before it is rounded


def batch_norm(
    graph: Graph,
    tensor: Tensor,
    mean: Any,
    variance: Any,
    scale: Any = None,
    shift: Any = None,
    epsilon: Any = 0,
) -> Tensor:
    """Every channel, the first axis of a tensor, with its own mean and variance.

    Examples
    --------
    >>> graph = Graph((2,))
    >>> y = batch_norm(graph, graph.input, mean=[1, 0], variance=[4, 0.25], shift=[0, 3])
    >>> graph.blocks(y)[0]([5.0, 1.0])
    array([2., 5.])
    """
    channels = tensor.shape[0] if tensor.shape else 0
    means, variances = fractions(numbers_of(mean, "mean")), fractions(numbers_of(variance, "variance"))
    gamma = np.full(channels, Fraction(1)) if scale is None else fractions(numbers_of(scale, "scale"))
    beta = np.full(channels, Fraction(0)) if shift is None else fractions(numbers_of(shift, "shift"))
    if {means.shape, variances.shape, gamma.shape, beta.shape} != {(channels,)}:
        raise DimensionMismatchError(
            f"batch normalisation must have one mean, variance, scale and shift for each of the {channels} "
            f"channels before it, but has {means.size}, {variances.size}, {gamma.size} and {beta.size}."
        )
    eps = Fraction(epsilon)
    factors = np.array([over_root(g, v + eps) for g, v in zip(gamma, variances, strict=True)])
    offsets = beta - means * fractions(factors)
    across = (channels, *[1] * (len(tensor.shape) - 1))
    scaled = graph.scale(tensor, factors.reshape(across))
    return graph.shift(scaled, numbers_of(offsets, "offsets").reshape(across))


def over_root(scale: Fraction, variance: Fraction) -> float:
    """Scale over the root of a variance, rounded to float64.

    >>> over_root(Fraction(3), Fraction(4)), over_root(Fraction(1), Fraction(2)) == 0.5**0.5
    (1.5, True)
    """
    if variance <= 0:
        raise InvalidInputError(f"a variance plus epsilon must be above 0, but was {float(variance):g}.")
    # 1 / sqrt(p / q) = sqrt(p q) / p, with the root of an integer of at least twice as many bits
    p, q = variance.numerator, variance.denominator
    bits = _BITS + p.bit_length() + q.bit_length()
    root = Fraction(isqrt(p * q << 2 * bits), p << bits)
    return float(scale * root)
