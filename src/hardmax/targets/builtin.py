r"""The targets of P2, ready to use.

========================= ============================================================== =================
name                      F(X)                                                           P2
========================= ============================================================== =================
``retrieval``             :math:`\sum_i \max_t f_i(x(t))`                                section 5.3, D.1
``pairwise``              :math:`\sum_i \max_{s,t} x(s)^\top A_i x(t)`                   equation (6)
``triangle_center``       :math:`\min_{s,t,u} \lvert x(s) + x(t) + x(u) \rvert^2`        equation (7)
``depth_separation``      :math:`\min_{s,t} 2 (1 + x(s)^\top x(t))`                      equation (8)
``kth_largest``           the k-th largest value of a score                              Theorem 2
``position_sum``          :math:`\sum_{p} x(p)` over fixed positions                     section 4.2
========================= ============================================================== =================

Domains default to the ones that the paper uses for each; they change what is true of a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.errors import DimensionMismatchError, InvalidInputError, written
from hardmax.randomness import check_room
from hardmax.targets.target import Target
from hardmax.targets.terms import FixedTerm, Term
from hardmax.targets.tokens import Bilinear, Coordinate, InputDomain, SquaredSum, as_domain, as_matrix

Floats = NDArray[np.float64]


def retrieval(
    fs: Sequence[Callable[..., Any]] | int,
    *,
    d: int | None = None,
    domain: InputDomain | str = "cube01",
    outer: Callable[[Floats], Any] | None = None,
) -> Target:
    r"""Generalized D-retrieval: :math:`F(X) = F_0(\max_t f_1(x(t)), \dots, \max_t f_D(x(t)))`.

    Parameters
    ----------
    fs : sequence of callables, or int
        Each takes tokens (..., d) and returns (...). A number D stands for the first D coordinates.
    d : int, optional
        The dimension of a token; D when ``fs`` is a number, 1 otherwise.
    domain : {"cube01", "cube11", "gaussian"}
        Where tokens lie.
    outer : callable, optional
        :math:`F_0`; the sum when left out.

    Examples
    --------
    >>> import hardmax as hm
    >>> target = hm.targets.retrieval(3)
    >>> target([[[0.1, 0.9, 0.2], [0.4, 0.3, 0.8]]])
    array([2.1])
    >>> target.active_set([[[0.1, 0.9, 0.2], [0.4, 0.3, 0.8]]])
    array([[ True,  True]])
    >>> target.comparisons(10)
    <Interval: 27>
    """
    if isinstance(fs, (int, np.integer)):
        if fs < 1:
            raise InvalidInputError(f"fs must name at least one function, but D was {fs}.")
        d = int(fs) if d is None else d
        if d < fs:
            raise DimensionMismatchError(
                f"d must be at least {fs} for the first {fs} coordinates, but was {d}."
            )
        check_room(f"the maxima of {fs} coordinates", fs, d)
        fs = [Coordinate(i) for i in range(int(fs))]
    if not isinstance(fs, Sequence) or isinstance(fs, str):
        raise InvalidInputError(
            f"fs must be functions of one token, or how many coordinates, but was {fs!r}."
        )
    functions = list(fs)
    if not functions:
        raise InvalidInputError("fs must hold at least one function, but was empty (D = 0).")
    return Target(
        tuple(Term(f) for f in functions),
        outer,
        d_token=1 if d is None else d,
        domain=domain,
        name=f"retrieval of {len(functions)} maxima",
    )


def pairwise(matrices: ArrayLike, *, domain: InputDomain | str = "gaussian") -> Target:
    r"""The sum of D maxima of bilinear forms: :math:`F(X) = \sum_{i=1}^D \max_{s,t} x(s)^\top A_i x(t)`.

    Parameters
    ----------
    matrices : (D, d, d)
        The matrices :math:`A_i`.
    domain : {"gaussian", "cube11", "cube01"}
        Where tokens lie.

    Notes
    -----
    That the matrices differ is not enough for what P2 says of this target (Proposition 1): for positive
    multiples of the identity one token wins everything.

    Examples
    --------
    >>> import hardmax as hm
    >>> target = hm.targets.pairwise([[[0.0, 1.0], [-1.0, 0.0]]])
    >>> target.winners([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]])
    (array([[0, 2]]),)
    >>> target.comparisons(10)
    <Interval: 26 to 43>
    """
    try:
        stack = list(np.asarray(matrices, dtype=np.float64))
    except ValueError as error:
        raise DimensionMismatchError("matrices must all have the same square shape (d, d).") from error
    if not stack:
        raise InvalidInputError("matrices must hold at least one matrix, but was empty (D = 0).")
    forms = [Bilinear(as_matrix(matrix, f"matrices[{i}]")) for i, matrix in enumerate(stack)]
    for i, form in enumerate(forms):
        if form.definiteness() == "zero":
            raise InvalidInputError(
                f"matrices[{i}] must not be zero: its maximum would not depend on the tokens."
            )
    return Target(
        tuple(Term(form, 2) for form in forms),
        d_token=forms[0].matrix.shape[0],
        domain=domain,
        name=f"sum of {len(forms)} maxima of bilinear forms",
    )


def triangle_center(d: int = 2, *, domain: InputDomain | str = "cube11", distinct: bool = False) -> Target:
    r"""The triangle-center target: :math:`F(X) = \min_{s,t,u} \lvert x(s) + x(t) + x(u) \rvert_2^2`.

    Parameters
    ----------
    d : int
        The dimension of a token.
    domain : {"cube11", "gaussian", "cube01"}
        Where tokens lie. On [0,1]^1 the target is nine times the square of the least token, and compares
        single tokens.
    distinct : bool
        Whether the three positions must differ; the paper allows repetition.

    Examples
    --------
    >>> import hardmax as hm
    >>> target = hm.targets.triangle_center()
    >>> X = [[[1.0, 0.0], [-0.5, 0.8], [0.3, 0.3], [-0.5, -0.8]]]
    >>> target(X), target.winners(X)
    (array([0.]), (array([[0, 1, 3]]),))
    >>> target.dimension, target.order
    (<Interval: 3>, <Interval: 3>)
    """
    term = Term(SquaredSum(3), 3, "min", "distinct" if distinct else "all")
    return Target((term,), d_token=d, domain=domain, name="triangle-center")


def depth_separation(
    d: int = 3, *, domain: InputDomain | str = "cube11", shifted: bool | None = None
) -> Target:
    r"""The target that one layer cannot compute: :math:`F(X) = \min_{s,t} 2 (1 + x(s)^\top x(t))` (Theorem
    1).

    Parameters
    ----------
    d : int
        The dimension of a token, 3 in the paper.
    domain : {"cube11", "cube01", "gaussian"}
        Where tokens lie.
    shifted : bool, optional
        Whether tokens are mapped to :math:`2x - 1` first. Without a choice this is done on [0,1]^d, where the
        formula itself would be another target: all its inner products are at least zero.

    Examples
    --------
    >>> import hardmax as hm
    >>> X = [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.5, 0.0]]]
    >>> hm.targets.depth_separation()(X)
    array([0.])
    >>> hm.targets.depth_separation(domain="cube01")([[[(c + 1) / 2 for c in x] for x in X[0]]])
    array([0.])
    """
    place = as_domain(domain)
    move = place.kind == "cube01" if shifted is None else shifted
    check_room("the matrix", positive("d", d), d)
    matrix = as_matrix(2.0 * np.eye(d), "matrix")
    form = Bilinear(matrix, 2.0, -1.0, 2.0) if move else Bilinear(matrix, constant=2.0)
    return Target((Term(form, 2, "min"),), d_token=d, domain=place, name="depth separation")


def kth_largest(
    k: int,
    *,
    score: Callable[..., Any] | None = None,
    d: int = 1,
    domain: InputDomain | str = "cube01",
) -> Target:
    """The k-th largest score of a token (Theorem 2); ``score`` is the first coordinate when left out.

    Examples
    --------
    >>> import hardmax as hm
    >>> second = hm.targets.kth_largest(2)
    >>> second([[[0.3], [0.9], [0.5]]]), second.active_set([[[0.3], [0.9], [0.5]]])
    (array([0.5]), array([[False, False,  True]]))
    >>> second.trees(8)[0].n_comparisons, second.trees(64)[0].n_comparisons
    (23, 383)
    """
    k = positive("k", k)
    term = Term(Coordinate(0) if score is None else score, rank=k)
    names = {1: "largest", 2: "second largest", 3: "third largest"}
    return Target((term,), d_token=d, domain=domain, name=f"{names.get(k, f'{written(k)}-th largest')} score")


def position_sum(positions: Sequence[int], *, d: int = 1, domain: InputDomain | str = "gaussian") -> Target:
    r"""The sum of the tokens at fixed positions, counted from 0 (P2 section 4.2, mechanism III).

    Examples
    --------
    >>> import hardmax as hm
    >>> target = hm.targets.position_sum([0, 1, 2])
    >>> target([[[1.0], [2.0], [3.0], [100.0]]])
    array([6.])
    >>> target.max_active, target.dimension, target.comparisons(10)
    (<Interval: 3>, <Interval: 1>, <Interval: 0>)
    """
    term = FixedTerm(positions)  # type: ignore[arg-type]
    return Target((term,), d_token=d, domain=domain, name=f"sum over {term}")
