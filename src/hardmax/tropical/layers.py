r"""The parts of a transformer that are tropical rational maps (P1 Definition III.10 and section III-E).

An attention head with log-lifted values is one: :func:`log_lifted_head`. A ReLU layer is another:
:func:`relu_layer`. P1 calls the latter a tropical polynomial; with negative output weights it is none in
general, because a tropical polynomial is convex.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import exact_stack, fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.tropical.polynomials import TropicalPolynomial, TropicalProduct, TropicalRationalMap


def log_lifted_head(keys: ArrayLike, log_values: ArrayLike) -> TropicalRationalMap:
    r"""An attention head with log-lifted values as a tropical rational map (P1 Definition III.10).

    .. math:: F_c(q) = \max_j (k_j \cdot q + \tilde v_{jc}) - \max_l k_l \cdot q
              = \lim_{\tau \to 0} \tau \log z_c(q), \qquad z_c(q) = \frac{\sum_j e^{k_j \cdot q/\tau}\,
              e^{\tilde v_{jc}/\tau}}{\sum_l e^{k_l \cdot q/\tau}} .

    Parameters
    ----------
    keys : (N, d) array_like
    log_values : (N, C) or (N,) array_like
        :math:`\tilde v`; ``-inf`` stands for a value 0.

    Returns
    -------
    TropicalRationalMap
        ``head(q)`` is the limit, ``head(q, temperature)`` is :math:`\tau \log z` itself, computed without
        overflow. They differ by at most :math:`\tau \log N`.

    Notes
    -----
    P1 Remark III.11 says that log-lifting keeps the routing walls. It does not: the walls of the numerators
    depend on the values, and only those of the denominator are where the routing changes.

    Examples
    --------
    Routing changes at 0 alone, but this head folds at -1 too: its slopes are 0, 2, 0.

    >>> head = log_lifted_head([[-1], [1]], [0, 2])
    >>> head([[-2.0], [-1.0], [0.0], [1.0]])[:, 0]
    array([0., 0., 2., 2.])
    """
    k = as_exact(keys, "keys", ndim=2)
    try:
        table = np.asarray(log_values)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            "log_values must be a rectangular array of numbers, but is ragged."
        ) from error
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[0] != k.shape[0] or table.shape[1] == 0:
        raise DimensionMismatchError(
            f"log_values must hold one row per key ({k.shape[0]}) and one column per channel, "
            f"but has shape {table.shape}."
        )
    exponents: Any = k
    numerators = [TropicalPolynomial(exponents, column) for column in table.T]
    return TropicalRationalMap(numerators, TropicalPolynomial(exponents))


def relu_layer(
    w_in: ArrayLike,
    b_in: ArrayLike | None,
    w_out: ArrayLike,
    b_out: ArrayLike | None = None,
    *,
    skip: bool = False,
) -> TropicalRationalMap:
    r"""A ReLU layer :math:`y = [x +]\; W_2 \max(0, W_1 x + b_1) + b_2` as a tropical rational map.

    With :math:`f_u(x) = 0 \oplus (W_1 x + b_1)_u` and :math:`m_u = \max_c \max(0, -W_{2,cu})`,

    .. math:: y_c = \underbrace{b_{2,c}\,[+\, x_c] + \sum_u (W_{2,cu} + m_u) f_u(x)}_{\text{numerator } c}
              \;-\; \underbrace{\sum_u m_u f_u(x)}_{\text{denominator}} ,

    where all weights are at least 0, so that both are tropical polynomials: products of powers of the
    :math:`f_u`. :math:`m` is the smallest denominator of this form that serves all outputs; without negative
    output weights it vanishes, and the layer is a tropical polynomial.

    Parameters
    ----------
    w_in : (n_units, d) array_like
    b_in : (n_units,) array_like or None
    w_out : (n_outputs, n_units) array_like
    b_out : (n_outputs,) array_like, optional
    skip : bool, default False
        Add the input (P1's degree shift: :math:`e_c` is added to every exponent of numerator :math:`c`). Then
        there must be as many outputs as inputs.

    Returns
    -------
    TropicalRationalMap
        Equal to the forward pass: exactly so in :meth:`TropicalRationalMap.exact_value`, up to rounding when
        called.

    Notes
    -----
    The products are not multiplied out, because :math:`n` units would give :math:`2^n` terms and the powers
    times the input weights would have to be rounded. ``numerators[c].expanded()`` writes the terms out for up
    to sixteen units; ``numerators[c].simplified()`` keeps only those that win somewhere.

    Examples
    --------
    One tooth of P1's sawtooth: 0, 1, 0 at 0, 1/2, 1. It is not convex, so no tropical polynomial equals it.

    >>> tooth = relu_layer([[1], [1]], [0, -0.5], [[2, -4]])
    >>> tooth([[0.0], [0.5], [1.0]])[:, 0]
    array([0., 1., 0.])
    """
    w1 = as_exact(w_in, "w_in", ndim=2)
    units, d = w1.shape
    if units == 0 or d == 0:
        raise InvalidInputError(f"w_in must hold at least one unit with one input, but has shape {w1.shape}.")
    b1 = _vector(b_in, "b_in", units, "unit")
    w2 = as_exact(w_out, "w_out", ndim=2)
    outputs = w2.shape[0]
    if w2.shape[1] != units or outputs == 0:
        raise DimensionMismatchError(
            f"w_out must have one column per unit ({units}), but has shape {w2.shape}."
        )
    b2 = _vector(b_out, "b_out", outputs, "output")
    if skip and outputs != d:
        raise DimensionMismatchError(
            f"a skip connection needs as many outputs as inputs, but there are {outputs} and {d}."
        )
    zero, origin = ExactArray(np.zeros((1, d))), ExactArray(np.zeros(1))
    relus = [
        TropicalPolynomial.of_exact(exact_stack([zero, w1.take(u)]), exact_stack([origin, b1.take(u)]))
        for u in np.arange(units)[:, None]
    ]
    weights, offsets = fractions_of(w2), fractions_of(b2)
    most_negative = [max(Fraction(0), -min(column)) for column in weights.T]
    numerators = []
    for c in range(outputs):
        monomial = TropicalPolynomial([[int(skip and i == c) for i in range(d)]], [offsets[c]])
        powers = [Fraction(1), *(w + m for w, m in zip(weights[c], most_negative, strict=True))]
        numerators.append(TropicalProduct([monomial, *relus], powers))
    return TropicalRationalMap(numerators, TropicalProduct(relus, most_negative))


def _vector(values: ArrayLike | None, name: str, length: int, per: str) -> ExactArray:
    vector = ExactArray(np.zeros(length)) if values is None else as_exact(values, name, ndim=1)
    if vector.shape[0] != length:
        raise DimensionMismatchError(
            f"{name} must hold one number per {per} ({length}), but holds {vector.shape[0]}."
        )
    return vector
