r"""Cells of hyperplane arrangements and of ReLU networks (P1 Definition III.2 and Example III.3).

The count for one arrangement is Zaslavsky's. For a ReLU network P1 multiplies the cells of the layers. That
cannot be attained: where few units of a layer are on, the image is flat, and the next layer cuts a flat image
into fewer pieces (Serra et al. 2018). For two layers of three units in the plane the product is 49, the count
with ranks is 40, and the maximum is 34 (docs/theorems-extremal.md, Theorem 11).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import comb, prod

from hardmax.bounds.bound import Bound, Printed, PrintedForm, RegionBounds, Side
from hardmax.bounds.large_integers import (
    binomial_digits,
    check_digits,
    log10_of,
    positive,
    readable,
    whole_numbers,
)
from hardmax.errors import InvalidInputError


def zaslavsky(n: int, d: int, *, central: bool = False) -> int:
    r"""The largest number of cells into which n hyperplanes cut :math:`\mathbb{R}^d`.

    .. math::

        R(n, d) = \sum_{j=0}^{d} \binom{n}{j}, \qquad
        R_{\mathrm{central}}(n, d) = 2 \sum_{j=0}^{d-1} \binom{n-1}{j} .

    Both are attained in general position, the second among hyperplanes through one point. P1 calls this a
    definition and an exact count; it is a maximum.

    Parameters
    ----------
    n, d : int
        Hyperplanes and dimension, both at least 0.
    central : bool
        Whether all hyperplanes pass through one point.

    Examples
    --------
    >>> [zaslavsky(n, 2) for n in range(1, 6)]
    [2, 4, 7, 11, 16]
    >>> zaslavsky(3, 2, central=True)
    6
    """
    n, d = positive("n", n, least=0), positive("d", d, least=0)
    if not central:
        return _binomial_sum(n, d)
    return 1 if n == 0 or d == 0 else 2 * _binomial_sum(n - 1, d - 1)


def binomial_sums(n: int, top: int) -> Iterator[int]:
    r"""The partial sums :math:`\sum_{i \le j} \binom{n}{i}` for j = 0, ..., min(n, top).

    >>> list(binomial_sums(3, 5))
    [1, 4, 7, 8]
    """
    top = min(n, top)
    check_digits(binomial_digits(n, min(top, n // 2)), (top + 1) * (1 + n.bit_length() // 30))
    term = total = 1
    yield total
    for j in range(top):
        term = term * (n - j) // (j + 1)
        total += term
        yield total


def _binomial_sum(n: int, top: int) -> int:
    """The last of them; the sum over all subsets is a power of two."""
    if top >= n:
        check_digits(binomial_digits(n, n // 2))
        return 1 << n
    return deque(binomial_sums(n, top), maxlen=1).pop()


BEST_FOUND: dict[tuple[int, ...], int] = {(2, 3, 3): 34}
"""Cells of the best networks known: :func:`hardmax.networks.constructions_mlp` has the
weights."""


def mlp_bounds(widths: Sequence[int]) -> RegionBounds:
    r"""Bounds on the number of cells of a ReLU network with the given widths, input first.

    .. math::

        \prod_l R(n_l, d), \qquad
        \sum_{j_1, \dots, j_L} \prod_l \binom{n_l}{j_l}, \quad
        0 \le j_l \le \min\{d, n_1 - j_1, \dots, n_{l-1} - j_{l-1}, n_l\} .

    The first is what P1 Example III.3 calls the theoretical maximum. The second counts with ranks: a cell
    with j units of a layer off has an image of dimension at most :math:`n_l - j`. There are at most
    :math:`\binom{n_l}{j}` such cells and at most :math:`R(n_l, d)` in all, so the worst case fills up the
    cells with the most units on first.

    Parameters
    ----------
    widths : sequence of int
        The input dimension and the hidden widths; the linear output layer has no units and is left out.

    Returns
    -------
    RegionBounds
        ``product``, ``rank_aware``, for three units in the plane and then n the maximum ``three_lines``, and,
        where a network is stored, ``best_found``.

    Examples
    --------
    >>> [(bound.name, bound.value) for bound in mlp_bounds([2, 3, 3])]
    [('product', 49), ('rank_aware', 40), ('three_lines', 34), ('best_found', 34)]
    """
    widths = whole_numbers("widths", widths)
    if len(widths) < 2:
        raise InvalidInputError(
            f"widths must hold the input dimension and at least one hidden width, but was {list(widths)}."
        )
    d, hidden = widths[0], widths[1:]
    rank = min(d, hidden[0])  # inputs that no unit of the first layer tells apart do not count
    factors = [zaslavsky(n, d) for n in hidden]
    digits = sum(map(log10_of, factors))
    check_digits(digits, 64 * rank * len(hidden))  # products of long numbers, all of which are kept
    rank_aware = [1] * (rank + 1)
    for n in reversed(hidden):
        rank_aware = rank_aware_step(n, rank_aware, lambda dimension: 1)
    product, best = prod(factors), BEST_FOUND.get(widths)
    most = rank_aware[rank]
    printed = Printed(
        "Example III.3",
        "product of R(n, d), called the theoretical maximum",
        PrintedForm.HOLDS if product == most else PrintedForm.FALSE,
        "" if product == most else f"as a maximum: no network has more than {readable(most)}",
        product,
    )
    hypotheses = "ReLU layers one after the other, biases free"
    bounds = [
        Bound("product", Side.UPPER, product, "prod_l R(n_l, d)", hypotheses, printed=(printed,)),
        Bound(
            "rank_aware",
            Side.MAXIMUM if len(hidden) == 1 else Side.UPPER,
            most,
            "sum over j of prod_l C(n_l, j_l), j_l <= min(d, n_1 - j_1, ..., n_l)",
            hypotheses,
        ),
    ]
    if widths[:2] == (2, 3) and len(widths) == 3:
        n = widths[2]
        formula = "7 + 6 n + 3 C(n, 2)"
        bounds.append(Bound("three_lines", Side.MAXIMUM, 7 + 6 * n + 3 * comb(n, 2), formula, hypotheses))
    if best is not None:
        found = "the stored network, in the whole plane"
        bounds.append(Bound("best_found", Side.FOUND, best, "counted exactly", found))
    return RegionBounds({"widths": list(widths)}, tuple(bounds))


def rank_aware_step(n: int, following: Sequence[int], routing: Callable[[int], int]) -> list[int]:
    r"""One layer of the count with ranks, from the last layer to the first.

    ``following[k]`` bounds what the layers after this one make of an image of dimension k, and ``routing(k)``
    how many cells attention cuts out of it first. The result is the same for this layer:

    .. math::

        B_l(k) = V(k) \sum_{j=0}^{\min(k, n)} \binom{n}{j}\, B_{l+1}(\min(k, n - j)) .

    Terms with :math:`n - j \ge k` share one factor; the others are a stretch of one list of partial sums.

    >>> rank_aware_step(3, rank_aware_step(3, [1, 1, 1], lambda k: 1), lambda k: 1)
    [1, 16, 40]
    """
    top = len(following) - 1
    sums = list(binomial_sums(n, top))
    shrunk, choices = [0], 1  # partial sums of C(n, k) B(k): terms whose image has dimension k = n - j
    for k in range(min(n, top) + 1):
        shrunk.append(shrunk[-1] + choices * following[k])
        choices = choices * (n - k) // (k + 1)
    counts = []
    for k in range(top + 1):
        total = sums[min(k, n - k)] * following[k] if k <= n else 0
        if 2 * k > n:
            total += shrunk[min(n + 1, k)] - shrunk[max(n - k, 0)]
        counts.append(routing(k) * total)
    return counts
