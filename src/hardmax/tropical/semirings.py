r"""Max-plus numbers and matrices at zero and positive temperature (P1 Definitions III.4 and III.9).

The tropical semiring is :math:`\mathbb{T} = (\mathbb{R} \cup \{-\infty\}, \oplus, \otimes)` with

.. math:: a \oplus b = \max(a, b), \qquad a \otimes b = a + b,

zero :math:`-\infty` and one :math:`0`. At temperature :math:`\tau > 0` the sum becomes the soft maximum
:math:`a \oplus_\tau b = \tau \log(e^{a/\tau} + e^{b/\tau})` while the product stays; softmax attention is
arithmetic in that semiring, and hardmax attention is its limit :math:`\tau \to 0`. The limit is uniform: for
:math:`N` terms

.. math:: 0 \;\le\; a_1 \oplus_\tau \dots \oplus_\tau a_N - \max_j a_j \;\le\; \tau \log N ,

with equality on the right exactly when all terms are equal.

Every sum here is computed as the maximum plus a correction, so no temperature, however small or large,
overflows or loses the maximum. This module knows no geometry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.limits import look

Floats = NDArray[np.float64]

# Below this many multiply-adds numpy finishes before the compiled kernel could be loaded.
_SMALL_PRODUCT = 2**18


def oplus(a: ArrayLike, b: ArrayLike, temperature: float = 0.0) -> Any:
    r"""Tropical sum :math:`a \oplus_\tau b = \tau\log(e^{a/\tau} + e^{b/\tau})`; :math:`\max(a, b)` at zero.

    .. math:: a \oplus_\tau b = m + \tau \log\bigl(1 + e^{-|a - b|/\tau}\bigr), \qquad m = \max(a, b).

    Parameters
    ----------
    a, b : array_like
        Tropical numbers: reals, or ``-inf`` (the zero). Arrays broadcast.
    temperature : float, default 0.0
        :math:`\tau \ge 0`.

    Returns
    -------
    float or ndarray
        A float when both arguments are scalars.

    Raises
    ------
    InvalidInputError
        If the temperature is negative, infinite or NaN, or an argument does not hold real numbers.
    NotFiniteError
        If an argument holds NaN or ``+inf``, or the sum is beyond float64.

    Notes
    -----
    The sum is commutative and has :math:`-\infty` as identity at every temperature. It is associative exactly
    at zero and up to rounding above, and idempotent only at zero: :math:`a \oplus_\tau a = a + \tau\log 2`.

    Examples
    --------
    >>> oplus(2.0, 3.0)
    3.0
    >>> oplus([1.0, float("-inf")], 0.0)
    array([1., 0.])
    >>> round(oplus(0.0, 0.0, temperature=1.0), 6)      # log 2
    0.693147
    """
    tau = _temperature(temperature)
    x, y = _pair(a, b)
    largest, smallest = np.maximum(x, y), np.minimum(x, y)
    if tau == 0.0:
        return _plain(largest)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # -inf - -inf is NaN: there the correction is dropped, because the sum of two zeros is zero
        soft = largest + tau * np.log1p(np.exp((smallest - largest) / tau))
    total = np.where(np.isneginf(largest), -np.inf, soft)
    return _plain(_within_float64(total, np.isneginf(largest)))


def otimes(a: ArrayLike, b: ArrayLike) -> Any:
    r"""Tropical product :math:`a \otimes b = a + b`, at every temperature; :math:`-\infty` absorbs.

    Parameters
    ----------
    a, b : array_like
        Tropical numbers: reals, or ``-inf`` (the zero). Arrays broadcast.

    Returns
    -------
    float or ndarray
        A float when both arguments are scalars.

    Raises
    ------
    NotFiniteError
        If an argument holds NaN or ``+inf``, or the product is beyond float64.

    Examples
    --------
    >>> otimes(2.0, 3.0)
    5.0
    >>> otimes(float("-inf"), [1.0, 1e308])
    array([-inf, -inf])
    """
    x, y = _pair(a, b)
    with np.errstate(over="ignore"):
        product = x + y
    return _plain(_within_float64(product, np.isneginf(x) | np.isneginf(y)))


def tropical_sum(a: ArrayLike, axis: int | None = None, temperature: float = 0.0) -> Any:
    r"""Tropical sum along an axis, :math:`\bigoplus_j a_j = \tau \log \sum_j e^{a_j/\tau}`; the maximum at 0.

    It exceeds the maximum by at least :math:`0` and at most :math:`\tau\log N`, where :math:`N` is the number
    of terms that are not :math:`-\infty`.

    Parameters
    ----------
    a : array_like
        Tropical numbers: reals, or ``-inf`` (the zero).
    axis : int or None, default None
        The axis that is summed; ``None`` sums all entries.
    temperature : float, default 0.0
        :math:`\tau \ge 0`.

    Returns
    -------
    float or ndarray
        A float when one number is left. The empty sum is ``-inf``.

    Raises
    ------
    InvalidInputError, NotFiniteError
        As for :func:`oplus`; also if there is no such axis.

    Examples
    --------
    >>> tropical_sum([[0.0, 2.0], [5.0, float("-inf")]], axis=1)
    array([2., 5.])
    >>> bool(np.isclose(tropical_sum(np.zeros(1000), temperature=0.1), 0.1 * np.log(1000)))  # attained
    True
    """
    tau = _temperature(temperature)
    x = _tropical(a, "a")
    if axis is None:
        x, axis = x.reshape(-1), 0
    elif not isinstance(axis, (int, np.integer)) or not -x.ndim <= axis < x.ndim:
        raise InvalidInputError(
            f"axis must be None or an axis of an array with {x.ndim} axes, but was {axis!r}."
        )
    if x.shape[axis] == 0:
        return _plain(np.full(np.delete(x.shape, axis), -np.inf))
    return _plain(_soft_maximum(x, int(axis), tau))


def tropical_matmul(A: ArrayLike, B: ArrayLike, temperature: float = 0.0) -> Any:
    r"""Tropical matrix product :math:`(A \otimes B)_{ij} = \bigoplus_k (A_{ik} \otimes B_{kj})`.

    At temperature zero :math:`(A \otimes B)_{ij} = \max_k (A_{ik} + B_{kj})`; above, the sum over :math:`k`
    is :math:`\oplus_\tau`.

    Parameters
    ----------
    A : (n, k) or (k,) array_like
    B : (k, m) or (k,) array_like
        Tropical numbers: reals, or ``-inf`` (the zero). Vectors are treated as :func:`numpy.matmul` treats
        them.
    temperature : float, default 0.0
        :math:`\tau \ge 0`.

    Returns
    -------
    float or ndarray
        Of shape (n, m), without the axes that a vector argument lacks; a float for two vectors.

    Raises
    ------
    DimensionMismatchError
        If an argument is not a vector or matrix, or the inner lengths differ.
    InvalidInputError, NotFiniteError
        As for :func:`oplus`.

    Notes
    -----
    :math:`O(nkm)` operations and :math:`O(nm)` memory. Large products run in a compiled kernel, loaded
    on first use; small ones run in numpy. Both return the same numbers at temperature zero; above it they may
    differ by a rounding.

    Examples
    --------
    The product with a weight matrix adds lengths along paths: the longest paths of two edges.

    >>> weights = [[0.0, 2.0], [float("-inf"), 1.0]]
    >>> tropical_matmul(weights, weights)
    array([[  0.,   3.],
           [-inf,   2.]])
    >>> tropical_matmul([1.0, 0.0], weights)
    array([1., 3.])
    """
    tau = _temperature(temperature)
    x, y = _tropical(A, "A"), _tropical(B, "B")
    for name, array in (("A", x), ("B", y)):
        if array.ndim not in (1, 2):
            raise DimensionMismatchError(f"{name} must be a vector or a matrix, but has shape {array.shape}.")
    left, right = np.atleast_2d(x), (y[:, None] if y.ndim == 1 else y)
    if left.shape[1] != right.shape[0]:
        raise DimensionMismatchError(
            f"A must have as many columns as B has rows, but their shapes are {x.shape} and {y.shape}."
        )
    product = _matmul(left, right, tau)
    if x.ndim == 1:
        product = product[0]
    return _plain(product[..., 0] if y.ndim == 1 else product)


def _matmul(a: Floats, b: Floats, tau: float) -> Floats:
    (n, k), m = a.shape, b.shape[1]
    if n * m == 0 or k == 0:
        return np.full((n, m), -np.inf)
    if n * k * m <= _SMALL_PRODUCT:
        with np.errstate(over="ignore"):
            terms = a[:, :, None] + b[None, :, :]
        product = _soft_maximum(terms, 1, tau, check=False)
    else:
        from hardmax.tropical.semiring_kernels import max_plus, soft_max_plus

        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        product = np.full((n, m), -np.inf)
        if tau == 0.0:
            max_plus(a, b, product)
        else:
            soft_max_plus(a, b, tau, product)
    # a sum that overflowed shows as an infinity, unless a larger one hid it rightly
    if np.isfinite(product).all():
        return product
    paths = np.isfinite(a).astype(np.float64) @ np.isfinite(b).astype(np.float64)
    return _within_float64(product, paths == 0.0)


def _soft_maximum(x: Floats, axis: int, tau: float, *, check: bool = True) -> Floats:
    """The sum along an axis that is not empty."""
    largest: Floats = x.max(axis=axis)
    if tau == 0.0:
        return largest
    winner = np.expand_dims(x.argmax(axis=axis), axis)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        weights = np.exp((x - np.expand_dims(largest, axis)) / tau)
        # the winner's weight is 1; log1p of the others keeps corrections far below the rounding of 1
        np.put_along_axis(weights, winner, 0.0, axis=axis)
        soft = largest + tau * np.log1p(weights.sum(axis=axis))
    total: Floats = np.where(np.isfinite(largest), soft, largest)
    return _within_float64(total, np.isneginf(largest)) if check else total


def _tropical(values: ArrayLike, name: str) -> Floats:
    look()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"{name} must be a rectangular array, but its rows differ.") from error
    if array.dtype.kind not in "fiuO":
        raise InvalidInputError(f"{name} must hold real numbers or -inf, but holds {array.dtype}.")
    try:
        floats = array.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{name} must hold real numbers or -inf, but holds something else; "
            "check for strings, None or ragged rows."
        ) from error
    except OverflowError as error:
        raise NotFiniteError(f"{name} must fit into float64, but holds a number beyond 1e308.") from error
    if np.isnan(floats).any() or np.isposinf(floats).any():
        raise NotFiniteError(
            f"{name} must hold real numbers or -inf, but holds {floats[~(floats < np.inf)].flat[0]}."
        )
    return floats + 0.0


def _temperature(value: float) -> float:
    try:
        tau = float(value)
    except OverflowError:
        tau = np.inf if value > 0 else -np.inf
    except (TypeError, ValueError):
        raise InvalidInputError(f"temperature must be one number, but was {value!r}.") from None
    if not 0.0 <= tau < np.inf:
        raise InvalidInputError(f"temperature must be a finite number that is at least 0, but was {tau}.")
    return tau


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    x, y = _tropical(a, "a"), _tropical(b, "b")
    try:
        x_all, y_all = np.broadcast_arrays(x, y)
    except ValueError:
        raise DimensionMismatchError(
            f"a and b must broadcast together, but their shapes are {x.shape} and {y.shape}."
        ) from None
    return x_all, y_all


def _within_float64(values: Floats, zero: NDArray[np.bool_]) -> Floats:
    """Refuse results that overflowed: infinite although the tropical result is a real number."""
    if not (np.isfinite(values) | zero).all():
        raise NotFiniteError("the result must stay within float64, but a sum overflows; rescale the input.")
    return values


def _plain(array: Floats) -> Any:
    return float(array) if array.ndim == 0 else array
