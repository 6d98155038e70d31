r"""How wide a head must be for a score, and what a narrower head does instead.

A head of width n scores by :math:`q(y) \cdot k(x)` with :math:`q(y), k(x) \in \mathbb{R}^n`, and a summand
that depends on the query alone changes no winner. So it produces a score :math:`S(y, x)` exactly if and only
if :math:`S(y, x) - r(y)` has rank at most n for some r: this is the *rank* of the score here. For a
polynomial of degree two it is the rank of a matrix of its coefficients and is computed in rationals. Proofs
are in ``docs/advise.md``:

* a bilinear form of rank r needs n = r, whatever functions q and k are: a narrower head has other winners;
* squared distances in d dimensions need n = d + 1;
* the best narrower matrix cuts the singular values, and then a maximum is missed by at most
  :math:`\sigma_{n+1} \max |y| \operatorname{diam} X`;
* the next smaller value than one that was found needs n = 2, at values that are a gap apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.exact.rationals import exact_rank, is_positive_definite, rational
from hardmax.targets.expressions import Expression, degree_two
from hardmax.targets.terms import Term
from hardmax.targets.tokens import Bilinear, InputDomain, SquaredSum

Floats = NDArray[np.float64]

BELOW = 2  # the rank of "the largest value below the one that was found"


def partner_rank(term: Term, d_token: int) -> int | None:
    """The rank of the score by which a token looks for its partner in a term of pairs; None if unknown.

    That a token may not be its own partner is left to a mask and not counted.

    Examples
    --------
    >>> import hardmax as hm
    >>> for text in ("max(s,t) x[s]' x[t]", "min(s!=t) |x[s] - x[t]|^2", "max(s,t) x[s][0] x[t][1]"):
    ...     print(partner_rank(hm.targets.parse(text, d=3).terms[0], 3))
    3
    4
    1
    """
    function = term.function
    if term.arity != 2:
        return None
    if isinstance(function, Bilinear):
        return form_rank(function.matrix)
    if isinstance(function, SquaredSum):
        return d_token + 1  # 2 x.y + |x|^2
    if isinstance(function, Expression):
        form = degree_two(function.node, d_token)
        if form is not None:
            key, query = function.names
            return _quadratic_rank(form, key, query, d_token)
    return None


def _quadratic_rank(form: Any, key: Any, query: Any, d: int) -> int:
    """The rank of a polynomial of degree two: coefficients of x and of its squares by 1 and y."""
    zero = np.zeros((d, d))
    mixed = form.get((key, query), zero) + form.get((query, key), zero).T
    linear = form.get((key,), np.zeros(d))
    squares = form.get((key, key), zero)
    rows = np.column_stack([linear, mixed])
    if np.any(squares + squares.T):
        rows = np.vstack([rows, np.eye(1, d + 1)])
    return form_rank(rows)


def form_rank(matrix: ArrayLike) -> int:
    """The exact rank of a matrix, or the smaller one from which it differs by rounding only.

    Examples
    --------
    The product of two factors of rank 2 has a larger rank once it is rounded, by singular values of 1e-16:

    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 4))
    >>> exact_rank(A), form_rank(A), form_rank([[1, 2], [2, 4]])
    (4, 2, 1)
    """
    A = np.asarray(matrix, dtype=np.float64)
    return min(exact_rank(A), int(np.linalg.matrix_rank(A)))


@dataclass(frozen=True, eq=False)
class NarrowForm:
    """The best bilinear form of smaller rank, and how far it is from the given one."""

    matrix: Floats  # of rank at most the width, up to rounding
    distance: float  # proved: the spectral norm of the difference is at most this


def narrow_form(matrix: ArrayLike, width: int) -> NarrowForm:
    """A bilinear form cut to its ``width`` largest singular values.

    No matrix of this rank is closer in the spectral norm (Eckart, Young and Mirsky). ``distance`` is an upper
    bound, proved in rationals for the matrix that is returned.

    Examples
    --------
    >>> narrow = narrow_form([[3, 0], [0, 0.5]], 1)
    >>> narrow.matrix.tolist(), round(narrow.distance, 6)
    ([[3.0, 0.0], [0.0, 0.0]], 0.5)
    """
    A = np.asarray(matrix, dtype=np.float64)
    width = positive("width", width, least=0)
    left, values, right = np.linalg.svd(A)
    if exact_rank(A) <= width:
        return NarrowForm(A, 0.0)
    cut = (left[:, :width] * values[:width]) @ right[:width]
    rest = A - cut  # rounded once more: its error is part of the slack below
    guess = float(np.linalg.norm(rest, 2))
    slack = 1e-12 * float(values[0])
    while True:
        bound = guess + slack
        if _norm_is_below(A, cut, bound):
            return NarrowForm(cut, bound)
        slack *= 16


def _norm_is_below(A: Floats, B: Floats, bound: float) -> bool:
    """Whether the spectral norm of A - B is less than a bound: bound^2 - (A-B)'(A-B) > 0, in rationals."""
    rows, columns = A.shape
    difference = flint.fmpq_mat(
        rows, columns, [rational(a) - rational(b) for a, b in zip(A.ravel(), B.ravel(), strict=True)]
    )
    gram = difference.transpose() * difference
    square = rational(bound) ** 2
    table = [[(square if i == j else 0) - gram[i, j] for j in range(columns)] for i in range(columns)]
    return is_positive_definite(flint.fmpq_mat(table))


def missed_maximum(term: Term, width: int, domain: InputDomain, d_token: int) -> float | None:
    r"""What a term of pairs can lose if tokens look for partners by the best score of rank ``width``.

    A proved bound on the loss: 0 where the rank suffices, None where none is known (tokens that are not
    bounded, functions that are no bilinear form).

    Examples
    --------
    On the cube [-1, 1]^2 a token is at most :math:`\sqrt 2` long and two are at most :math:`2\sqrt 2` apart:

    >>> import hardmax as hm
    >>> term = hm.targets.pairwise([[[3, 0], [0, 0.5]]], domain="cube11").terms[0]
    >>> domain = hm.targets.InputDomain("cube11")
    >>> [round(missed_maximum(term, width, domain, 2), 6) for width in (1, 2)]
    [2.0, 0.0]
    """
    form = term.function
    if not isinstance(form, Bilinear):
        rank = partner_rank(term, d_token)
        return 0.0 if rank is not None and rank <= width else None
    if exact_rank(form.matrix) <= width:
        return 0.0
    if not math.isfinite(domain.high - domain.low):
        return None
    ends = [form.scale * end + form.offset for end in (domain.low, domain.high)]
    longest = math.sqrt(d_token) * max(map(abs, ends))
    across = math.sqrt(d_token) * abs(ends[1] - ends[0])
    bound = narrow_form(form.matrix, width).distance * longest * across
    return math.nextafter(bound * (1 + 1e-12), math.inf)


def narrowed(function: Any, width: int | None) -> Any:
    """A bilinear form cut to a rank; other functions, and forms of no larger rank, as they are."""
    if width is None or not isinstance(function, Bilinear) or form_rank(function.matrix) <= width:
        return function
    return replace(function, matrix=narrow_form(function.matrix, width).matrix)
