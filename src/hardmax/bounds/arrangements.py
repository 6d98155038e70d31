r"""Cells of hyperplane arrangements (P1 Definition III.2; the theorem is Zaslavsky's)."""

from __future__ import annotations

from hardmax.bounds.large_integers import positive

__all__ = ["binomial_sums", "zaslavsky"]


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
        return binomial_sums(n, d)[-1]
    return 1 if n == 0 or d == 0 else 2 * binomial_sums(n - 1, d - 1)[-1]


def binomial_sums(n: int, top: int) -> list[int]:
    r"""The partial sums :math:`\sum_{i \le j} \binom{n}{i}` for j = 0, ..., min(n, top).

    >>> binomial_sums(3, 5)
    [1, 4, 7, 8]
    """
    term, total, sums = 1, 1, [1]
    for j in range(min(n, top)):
        term = term * (n - j) // (j + 1)
        total += term
        sums.append(total)
    return sums
