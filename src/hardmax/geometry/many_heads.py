r"""Cells of many heads from few of them: the count is a polynomial in the number of heads.

In general position the number of cells of a set S of heads is

.. math:: r(S) = \sum_{T \subseteq S,\ |T| \le t} m(T) + c, \qquad
          m(T) = \sum_{U \subseteq T} (-1)^{|T| - |U|}\, r(U),

with t = d and c = 0 for scores with biases, t = d - 1 and :math:`c = \binom{H-1}{d-1}` without
(``docs/theorems.md``, Theorem 8). So the cells of up to t heads at a time decide how many all H heads cut,
and if the heads are drawn independently from one distribution, the expected number is a polynomial in H of
degree t. :func:`vertices_from_subsets` evaluates the sum, or estimates it from a sample of subsets.

For keys with independent standard Gaussian entries :func:`expected_vertices` knows the polynomial. The sum of
H such polytopes is a Gaussian image of a product of H simplices. A vertex of a polytope P is still one in a
Gaussian image in d dimensions with the probability :math:`2 (\upsilon_{d-1} + \upsilon_{d-3} + \dots)`, where
:math:`\upsilon_k` are the conic intrinsic volumes of the cone of P at the vertex (Affentranger and Schneider
1992), and angles of products multiply. Hence

.. math:: E\, r = 2 \sum_{s \ge 0} [z^{d-1-2s}]\ W_N(z)^H, \qquad
          W_N(z) = \sum_k (k+1) \binom{N}{k+1} \beta_k \gamma_k z^k,

with the angle :math:`\beta_k` of a regular k-simplex at a vertex, and its external angle
:math:`\gamma_k = \int \Phi(h)^{N-k-1} \sqrt{(k+1)/2\pi}\, e^{-(k+1)h^2/2}\, dh` as a face of the simplex with
N corners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, lgamma, log, pi, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import dimension, positive, whole_numbers
from hardmax.errors import InvalidInputError
from hardmax.geometry.minkowski import as_heads, minkowski_vertices, mixed_counts
from hardmax.limits import Clock, look
from hardmax.progress import shown
from hardmax.randomness import MOST_EXACT, check_room, generator_of
from hardmax.results import Result

_STEP, _FROM, _TO = 1 / 64, -10.0, 14.0  # of the trapezoidal rule, whose error falls like exp(-2 pi^2 / step)
_HIGHEST = 10  # dimensions; beyond, the recursion for angles of simplices loses its digits
_SUBSETS = 10**6
_CHECKED = 4  # sets of heads that are looked at for general position
_MOST_KEYS = 10**9


@dataclass(frozen=True, eq=False, repr=False)
class SubsetCount(Result):
    """The number of cells of all heads, from subsets of them.

    Attributes
    ----------
    value : float
        The count if ``exact``, otherwise an unbiased estimate of it.
    standard_error : float
        Of the estimate; 0 if ``exact``.
    exact : bool
        Whether every subset was counted.
    mixed : tuple of float
        The mean of m(T) over the sets T of j heads that were counted, j = 0, 1, ...
    heads, d, n_subsets : int
        ``heads`` is the number of heads with more than one key; ``n_subsets`` sets of the largest size were
        counted, with all their subsets.
    biased : bool

    Examples
    --------
    Two keys per head are hyperplanes, any two of which cut space into four: m = 1 for every set of heads.

    >>> import numpy as np
    >>> found = vertices_from_subsets(np.random.default_rng(0).standard_normal((5, 2, 3)))
    >>> found.exact, int(found.value), found.mixed
    (True, 22, (1.0, 1.0, 1.0))
    """

    kind: ClassVar[str] = "SubsetCount"

    value: float
    standard_error: float
    exact: bool
    mixed: tuple[float, ...]
    heads: int
    d: int
    n_subsets: int
    biased: bool

    def _summary(self) -> str:
        size = len(self.mixed) - 1
        if self.exact:
            return f"{int(self.value)} cells of {self.heads} heads, from all sets of {size}"
        return (
            f"about {self.value:.6g} cells of {self.heads} heads (standard error {self.standard_error:.2g}), "
            f"from {self.n_subsets} sets of {size}"
        )

    def _table(self) -> dict[str, Any]:
        return {"heads": list(range(len(self.mixed))), "mean of m": list(self.mixed)}


def vertices_from_subsets(
    point_sets: Sequence[ArrayLike] | ArrayLike,
    biases: Sequence[ArrayLike] | ArrayLike | None = None,
    *,
    n_samples: int | None = None,
    rng: int | np.random.Generator = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
) -> SubsetCount:
    r"""How many cells H heads cut, from the cells of at most d - 1 of them at a time (d with biases).

    Parameters
    ----------
    point_sets, biases
        As for :func:`minkowski_vertices`. The heads must be in general position, as random ones are: no d of
        them (d + 1 with biases) tie at one input other than the origin. This is assumed; equal heads are
        refused, and a few sets of heads are checked.
    n_samples : int, optional
        How many sets of heads to draw, with replacement; all of them are counted if it is left out.
    rng : int or numpy Generator
        Of the sample, and of the sets that are checked.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of sets counted and their
        total.

    Returns
    -------
    SubsetCount

    See Also
    --------
    hardmax.minkowski_vertices : lists the cells.

    Examples
    --------
    >>> import numpy as np
    >>> heads = np.random.default_rng(0).standard_normal((8, 5, 3))
    >>> vertices_from_subsets(heads), minkowski_vertices(heads).count
    (<SubsetCount: 285 cells of 8 heads, from all sets of 2>, 285)
    >>> many = np.random.default_rng(0).standard_normal((1000, 5, 3))
    >>> vertices_from_subsets(many, n_samples=100)
    <SubsetCount: about ... cells of 1000 heads (standard error ...), from 100 sets of 2>
    """
    clock = Clock(time_limit, "count all sets of heads")
    with shown(progress, lambda done, total: (done / total, f"{done:,} of {total:,} sets"), clock) as report:
        return _from_subsets(point_sets, biases, n_samples, rng, report)


def _from_subsets(
    point_sets: Sequence[ArrayLike] | ArrayLike,
    biases: Sequence[ArrayLike] | ArrayLike | None,
    n_samples: int | None,
    rng: int | np.random.Generator,
    report: Callable[[int, int], object] | None,
) -> SubsetCount:
    sets, values = as_heads(point_sets, biases)
    first = minkowski_vertices(sets[:1], None if values is None else values[:1])  # checks the arguments
    d, biased = first.d, values is not None
    walled = [
        h for h, points in enumerate(sets) if len(points) > 1
    ]  # one key has no walls and changes nothing
    sets, values = [sets[h] for h in walled], None if values is None else [values[h] for h in walled]
    H = len(sets)
    if H == 0:
        return SubsetCount(1.0, 0.0, True, (1.0,), 0, d, 1, biased)
    _check_different(sets, values)
    size = min(H, d if biased else d - 1)
    constant = 0 if biased else comb(H - 1, d - 1)
    exact, generator = n_samples is None, generator_of(rng)
    if exact:
        if comb(H, size) > _SUBSETS:
            raise InvalidInputError(
                f"n_samples must be given for {H} heads in {d} dimensions, because there are "
                f"{comb(H, size)} sets of {size} heads; try n_samples=1000."
            )
        drawn = list(combinations(range(H), size))
    else:
        n_drawn = positive("n_samples", n_samples, least=2)
        check_room("the sets of heads", n_drawn, size, most=MOST_EXACT)
        drawn = []
        for _ in range(n_drawn):
            look()
            drawn.append(tuple(sorted(generator.choice(H, size, replace=False).tolist())))
    _check_position(sets, values, size, 0 if biased else 1, generator)
    counts: dict[tuple[int, ...], int] = {(): 1}
    parts = {part for group in drawn for j in range(1, size + 1) for part in combinations(group, j)}
    for subset in parts:
        counts[subset] = _count(sets, values, subset)
        if report is not None:
            report(len(counts) - 1, len(parts))
    mixed = mixed_counts(counts)
    means = np.array(
        [[np.mean([mixed[p] for p in combinations(group, j)]) for j in range(size + 1)] for group in drawn]
    )
    if exact:
        total = sum(mixed.values()) + constant
        return SubsetCount(float(total), 0.0, True, _floats(means), H, d, len(drawn), biased)
    each = means @ np.array([float(comb(H, j)) for j in range(size + 1)]) + constant
    error = float(each.std(ddof=1) / sqrt(len(drawn)))
    return SubsetCount(float(each.mean()), error, False, _floats(means), H, d, len(drawn), biased)


def _floats(means: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(means.mean(axis=0).tolist())


def _check_different(sets: list[Any], values: list[Any] | None) -> None:
    """Refuse what certainly is not in general position: two equal heads."""
    seen: dict[str, int] = {}
    for h, points in enumerate(sets):
        text = repr((np.asarray(points).tolist(), None if values is None else np.asarray(values[h]).tolist()))
        if text in seen:
            raise InvalidInputError(
                f"point_sets must be heads in general position, but {seen[text]} and {h} are equal; "
                "try minkowski_vertices."
            )
        seen[text] = h


def _count(sets: list[Any], values: list[Any] | None, subset: tuple[int, ...]) -> int:
    """The cells of some of the heads."""
    chosen = None if values is None else [values[h] for h in subset]
    return minkowski_vertices([sets[h] for h in subset], chosen).count


def _check_position(
    sets: list[Any], values: list[Any] | None, size: int, expected: int, generator: np.random.Generator
) -> None:
    """Some sets of one head more than are counted: general position says what their m is."""
    if len(sets) <= size:
        return
    for _ in range(_CHECKED):
        group = tuple(sorted(generator.choice(len(sets), size + 1, replace=False).tolist()))
        parts = [part for j in range(1, size + 2) for part in combinations(group, j)]
        counts = {(): 1} | {part: _count(sets, values, part) for part in parts}
        if mixed_counts(counts)[group] != expected:
            raise InvalidInputError(
                f"point_sets must be heads in general position, but the heads {list(group)} are not; "
                "try minkowski_vertices."
            )


def expected_vertices(n_tokens: int | Sequence[int], heads: int, d: int) -> float:
    r"""The mean number of cells of H heads whose keys have independent standard Gaussian entries.

    Parameters
    ----------
    n_tokens : int or sequence of int
        N, or one number per head.
    heads, d : int
        H, and the dimension, at most 10. Scores are linear.

    Returns
    -------
    float
        To about ten digits.

    See Also
    --------
    hardmax.vertex_maximum : the largest number possible.

    Examples
    --------
    One head is a Gaussian polytope, in the plane a polygon. Heads with two keys are hyperplanes.

    >>> round(expected_vertices(100, 1, 2), 4)
    8.8892
    >>> round(expected_vertices(2, 6, 3), 6), round(expected_vertices(4, 1, 3), 6)
    (32.0, 4.0)
    >>> [round(expected_vertices(64, h, 4)) for h in (1, 2, 4, 8)]     # a polynomial in H of degree 3
    [32, 205, 1550, 12247]
    """
    heads, d = positive("heads", heads), dimension("d", d)
    if d > _HIGHEST:
        raise InvalidInputError(f"d must be at most {_HIGHEST}, but was {d}.")
    sizes = whole_numbers("n_tokens", n_tokens, length=heads)
    if max(sizes) > _MOST_KEYS:
        raise InvalidInputError(f"n_tokens must be at most {_MOST_KEYS}, but was {max(sizes)}.")
    if max(sizes) == 1:
        return 1.0
    power = np.zeros(d)
    power[0] = 1.0
    for n in sorted(set(sizes)):
        power = _times(power, _to_power(np.array(angle_sums(n, d)), sizes.count(n)))
    return float(2 * power[d - 1 :: -2].sum())


def _times(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product of two polynomials, up to the degree of the first."""
    return np.asarray(np.convolve(a, b)[: len(a)])


def _to_power(a: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    result = np.zeros_like(a)
    result[0] = 1.0
    while exponent:
        if exponent % 2:
            result = _times(result, a)
        a, exponent = _times(a, a), exponent // 2
    return result


@lru_cache(maxsize=256)
def angle_sums(n_tokens: int, length: int) -> tuple[float, ...]:
    r"""The first coefficients of :math:`W_N`: sums over vertices and k-faces of a regular simplex of the
    inner angle of the face times its outer angle.

    >>> [round(w, 6) for w in angle_sums(3, 4)]
    [1.0, 1.5, 0.5, 0.0]
    """
    return tuple(_outer(n_tokens, k) * inner_angle(k) if k < n_tokens else 0.0 for k in range(length))


@lru_cache(maxsize=_HIGHEST + 1)
def inner_angle(k: int) -> float:
    """The angle of a regular k-simplex at a vertex, as a share of the sphere.

    A Gaussian image of a k-simplex in k + 1 dimensions has k + 1 vertices for certain, so the formula for
    their mean number gives its angle from those of smaller simplices.

    >>> inner_angle(1), round(1 / inner_angle(2), 9), round(inner_angle(3), 9)
    (0.5, 6.0, 0.043869914)
    """
    if k == 0:
        return 1.0
    return 0.5 - sum(_outer(k + 1, j) * inner_angle(j) for j in range(k - 2, -1, -2)) / (k + 1)


def _outer(n_tokens: int, k: int) -> float:
    """(k + 1) binom(N, k + 1) times the outer angle of a k-face of the regular simplex with N corners."""
    from scipy.special import log_ndtr

    many = lgamma(n_tokens + 1) - lgamma(k + 2) - lgamma(n_tokens - k) + log(k + 1)
    h = np.arange(_FROM, _TO, _STEP)
    exponents = many + 0.5 * log((k + 1) / (2 * pi)) - (k + 1) * h**2 / 2 + (n_tokens - k - 1) * log_ndtr(h)
    return float(_STEP * np.exp(exponents).sum())
