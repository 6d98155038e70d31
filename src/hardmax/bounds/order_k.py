r"""How many cells a head that reads its k best keys can cut: the cells of order-k diagrams.

Bounds hold for all keys. In general position there are most cells: each has an inner point, where k scores
lie strictly above the others, and a small change of the keys keeps that. The bounds come from arrangements of
graphs, from k-sets in the plane and from a sample of the keys in space; they are proven, or cited where they
are classical, in ``docs/theorems.md``, Theorem 6.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, log10

from hardmax.bounds.arrangements import zaslavsky
from hardmax.bounds.bound import Bound, RegionBounds, Side
from hardmax.bounds.heads import pair_arrangement
from hardmax.bounds.large_integers import binomial_digits, check_digits, dimension, positive
from hardmax.errors import InvalidInputError, written


def order_k_bounds(
    n_tokens: int, d: int, k: int, *, biased: bool = False, voronoi: bool = False
) -> RegionBounds:
    r"""Bounds on the number of cells of order-k diagrams: how many sets of k keys one head can read.

    Parameters
    ----------
    n_tokens, d : int
        N and d, at least 1.
    k : int
        How many keys win together, from 1 to N.
    biased : bool
        Whether scores may carry biases (power diagrams); otherwise cells are cones.
    voronoi : bool
        Whether the scores are those of N sites without weights, which are biased scores.

    Returns
    -------
    RegionBounds
        ``upper`` is the least upper bound of all (a maximum where a construction is known to reach it),
        ``lower`` what constructions reach; iterating lists each bound with its hypotheses.

    Examples
    --------
    >>> order_k_bounds(6, 2, 3)
    <RegionBounds: between 6 and 12 cells for n_tokens=6, d=2, k=3>
    >>> bounds = order_k_bounds(9, 2, 3, voronoi=True)
    >>> bounds.upper.value, bounds.upper.side.value
    (28, 'maximum')
    >>> [(bound.name, bound.value) for bound in order_k_bounds(9, 2, 3, biased=True)][:3]
    [('subsets', 84), ('pair_arrangement', 667), ('levels', 107)]
    """
    n, d, k = positive("n_tokens", n_tokens), dimension("d", d), positive("k", k)
    if k > n:
        raise InvalidInputError(f"k must be at most n_tokens ({written(n)}), but was {written(k)}.")
    check_digits(binomial_digits(n, k), min(k, n - k) + 1)
    affine = bool(biased or voronoi)
    bounds = _upper_bounds(n, d, k, affine)
    if voronoi and d <= 2:
        bounds.append(_voronoi(n, d, k))
    reached, how = _reached(n, d, k, affine, bool(voronoi))
    bounds.append(Bound("constructed", Side.LOWER, reached, how, "keys of the construction"))
    least = min(bound.value for bound in bounds if bound.side is not Side.LOWER)
    name = "least of the upper bounds"
    bounds.append(Bound("order_k", Side.MAXIMUM if least == reached else Side.UPPER, least, name, "none"))
    question = {"n_tokens": n, "d": d, "k": k, "biased": affine or None, "voronoi": bool(voronoi) or None}
    return RegionBounds({key: value for key, value in question.items() if value is not None}, tuple(bounds))


def order_k_upper(n_tokens: int, d: int, k: int, *, biased: bool = False, voronoi: bool = False) -> int:
    """No order-k diagram of N keys has more cells: the least of the bounds of :func:`order_k_bounds`.

    Examples
    --------
    One key more or less than all of them: as many cells as keys.

    >>> order_k_upper(50, 3, 1), order_k_upper(50, 3, 49), order_k_upper(50, 3, 50)
    (50, 50, 1)
    >>> order_k_upper(200, 2, 2, voronoi=True), order_k_upper(200, 2, 2, biased=True)
    (594, 1549)
    """
    return order_k_bounds(n_tokens, d, k, biased=biased, voronoi=voronoi).upper.value


def _upper_bounds(n: int, d: int, k: int, affine: bool) -> list[Bound]:
    """The bounds that need nothing but the sizes."""
    subsets = Side.MAXIMUM if n <= d + 1 else Side.UPPER
    bounds = [
        Bound("subsets", subsets, comb(n, k), "binom(N, k)", "none; attained by simplices, N <= d + 1"),
        Bound(
            "pair_arrangement",
            Side.UPPER,
            pair_arrangement(n, 1, d, biased=affine),
            "cells of the binom(N, 2) walls between two keys",
            "none",
        ),
    ]
    if k in (1, n - 1):
        winners = n if affine or d > 1 else min(n, 2)
        bounds.append(
            Bound("one_key", Side.MAXIMUM, winners, "N; 2 for linear scores on a line", "k = 1 or k = N - 1")
        )
    small = min(k, n - k)  # the best k keys are the complement of the worst N - k
    if small == 0:
        return bounds
    if n > d:
        bounds.append(_levels(n, d, k, affine))
    if d == 1 and not affine:
        bounds.append(Bound("line", Side.MAXIMUM, 2, "2", "linear scores on a line, k < N"))
    if d + affine == 2:
        formula = "k N - 3 binom(k, 2); N (N - 1) - 6 binom(k, 2) for k = N/2"
        bounds.append(
            Bound("small_sets", Side.UPPER, _planar_sets(n, small), formula, "k <= N/2, else N - k for k")
        )
    if d + affine == 3 and n > 3:
        formula = "1 + (n + e)/2, n = N (k + 1)^(k + 1) / (2 (k - 1)^(k - 1)), e = small_sets"
        check_digits(2 * (small + 1) * log10(small + 1), 10_000)  # a fraction in lowest terms
        corners = Fraction(n * (small + 1) ** (small + 1), 2 * (small - 1) ** (small - 1))
        ends = _planar_sets(n, small) if affine else 2
        value = int(1 + (corners + ends) / 2)
        hypotheses = "affine scores on the plane, or e = 2 in space; k <= N/2, else N - k for k"
        bounds.append(Bound("sampled_levels", Side.UPPER, value, formula, hypotheses))
    return bounds


def _levels(n: int, d: int, k: int, affine: bool) -> Bound:
    """All orders together are the cells of an arrangement; the other orders have at least d + 1 each."""
    together = zaslavsky(n, d + 1, central=not affine) - 2
    if affine or 2 * k == n:
        value = together - (n - 2) * (d + 1)
    else:  # orders k and N - k have equally many cells, because -x turns the order round
        value = (together - (n - 3) * (d + 1)) // 2
    formula = (
        "cells of N graphs, less 2 and d + 1 for every other order; half of it for linear scores, k != N/2"
    )
    return Bound("levels", Side.UPPER, value, formula, "N > d, k < N")


def _planar_sets(n: int, k: int) -> int:
    """An upper bound on the k-sets of N points of the plane, 1 <= k <= N/2."""
    if 2 * k == n:
        return n * (n - 1) - 6 * comb(k, 2)
    return k * n - 3 * comb(k, 2)


def _voronoi(n: int, d: int, k: int) -> Bound:
    """Sites without weights on the line or in the plane."""
    if d == 1:
        return Bound("voronoi", Side.MAXIMUM, n - k + 1, "N - k + 1", "different sites on a line")
    if 2 * k > n:
        formula, hypotheses = "k (N - k) + 1", "sites in the plane, k > N/2; attained in convex position"
        return Bound("voronoi", Side.MAXIMUM, k * (n - k) + 1, formula, hypotheses)
    value = (2 * k - 1) * n - (k * k - 1) - 3 * comb(k, 2)
    hypotheses = "sites in the plane, k <= N/2; attained on three arms for k - 1 <= N/3"
    side = Side.MAXIMUM if k - 1 <= n // 3 else Side.UPPER
    return Bound("voronoi", side, value, "(2k - 1) N - (k^2 - 1) - 3 binom(k, 2)", hypotheses)


def _reached(n: int, d: int, k: int, affine: bool, voronoi: bool) -> tuple[int, str]:
    """What constructions reach, and how."""
    if n <= d + 1:
        return comb(n, k), "corners of a simplex: every set wins"
    if k == n:
        return 1, "all keys"
    if voronoi and d == 1:
        return n - k + 1, "different sites"
    if voronoi and d == 2 and 2 * k <= n and k - 1 <= n // 3:
        return _voronoi(
            n, d, k
        ).value, "sites on three slightly bent arms, each at a multiple of the last distance"
    if d == 1:
        best = max(k, n - k) + 1 if affine else 2
        return best, "sites on a line, or their negated scores" if affine else "largest and smallest keys"
    if not affine and d == 2:
        return n, "corners of a convex polygon"
    return k * (n - k) + 1, "order-k Voronoi diagram of sites in convex position in the plane"
