"""How many comparisons a model can make: P2's equation (5), as printed and as repaired.

Attention compares T - 1 times per head and reading token; inside an information set I, P2 allows
|I|^beta1 - 1 further comparisons, where beta1 is the dimension of comparison of the target:

    sum over tokens t and layers l < L of  |I(t, l)|^beta1 - 1 + h_l (T - 1)
    + sum over layers l <= L of            |I(CLS, l)|^beta1 - 1 + h_l (T - 1).

Taken literally, an empty set counts -1, and one head that reads everything (which "learns" every target)
falls short of D(T - D) for the retrieval of D >= 3 maxima. Three versions are kept apart, and every number
carries the name of its version:

``printed``
    the formula, literally;
``clamped``
    an empty set counts 0;
``repaired``
    an empty set counts 0, and inside a set D0 (|I|^beta1 - 1) comparisons are allowed, one tree for each of
    the D0 tokens to be found.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_flow import InformationFlow, Sizes

__all__ = [
    "ComparisonCount",
    "maximum_comparisons",
    "minimal_set_size",
    "model_comparisons",
    "size_recursion",
]

Version = Literal["printed", "clamped", "repaired"]


@dataclass(frozen=True)
class ComparisonCount:
    """A number of comparisons, with the version of equation (5) that it comes from; ``int(count)``.

    Attributes
    ----------
    number : int
        The comparisons; for a flow the most over its inputs.
    version : str
        "printed", "clamped" or "repaired".
    beta1 : int
        The dimension of comparison of the target.
    max_active : int or None
        D0, for the repaired version.
    per_input : tuple of int
        For a flow, the comparisons input by input.
    """

    number: int
    version: Version
    beta1: int
    max_active: int | None = None
    per_input: tuple[int, ...] = ()

    def __int__(self) -> int:
        return self.number

    __index__ = __int__

    def __str__(self) -> str:
        return f"{self.number} (equation (5), {self.version})"


def size_recursion(architecture: Architecture) -> Sizes:
    """The largest sets that max-position retrieval can make, after layers 1, 2, ...

    tok_l = min(T, (1 + h_l) tok_{l-1}), cls_l = min(T, cls_{l-1} + h_l tok_{l-1}), from 1 and 0.

    Examples
    --------
    >>> import hardmax as hm
    >>> size_recursion(hm.Architecture(64, 4, (6, 6), 36))
    Sizes(tokens=array([7]), cls=array([ 6, 48]))
    """
    T = architecture.n_tokens
    tokens, cls = [1], [0]
    for h in architecture.heads:
        cls.append(min(T, cls[-1] + h * tokens[-1]))
        tokens.append(min(T, (1 + h) * tokens[-1]))
    return Sizes(np.array(tokens[1:-1], dtype=np.int64), np.array(cls[1:], dtype=np.int64))


def model_comparisons(
    model: Architecture | InformationFlow,
    beta1: int,
    *,
    version: Version = "printed",
    max_active: int | None = None,
    sizes: tuple[ArrayLike, ArrayLike] | None = None,
) -> ComparisonCount:
    """Equation (5) for the sets of a flow, for given sizes, or at its maximum for an architecture.

    Parameters
    ----------
    model : Architecture or InformationFlow
        For an architecture without ``sizes``: the most that max-position retrieval alone can reach.
    beta1 : int
        The dimension of comparison of the target.
    version : {"printed", "clamped", "repaired"}
        Which form of (5); see :mod:`hardmax.flow.costs.comparisons`.
    max_active : int, optional
        D0 of the target, which the repaired version needs.
    sizes : pair of arrays, optional
        |I(t, l)| of the tokens for l = 1, ..., L - 1, either (L - 1,) for all tokens alike or (L - 1, T), and
        |I(CLS, l)| for l = 1, ..., L.

    Examples
    --------
    Two layers of six heads and 64 tokens, for a target that compares pairs:

    >>> import hardmax as hm
    >>> print(model_comparisons(hm.Architecture(64, 4, (6, 6), 36), 2))
    30358 (equation (5), printed)

    One head that reads everything, for the retrieval of D = 3 maxima of T = 8 (the target needs 21, by the
    paper's own lower bound 15):

    >>> shape, everything = hm.Architecture(8, 1, (1,), 1), ([], [8])
    >>> print(model_comparisons(shape, 1, sizes=everything))
    14 (equation (5), printed)
    >>> print(model_comparisons(shape, 1, sizes=everything, version="repaired", max_active=3))
    28 (equation (5), repaired)
    """
    beta1, factor = _checked(beta1, version, max_active)
    if isinstance(model, InformationFlow):
        if sizes is not None:
            raise InvalidInputError("sizes belongs to an architecture; a flow has its own.")
        shape = model.architecture
        per_input = tuple(
            _equation_5(shape, tokens.tolist(), cls.tolist(), beta1, version, factor)
            for tokens, cls in zip(model.sizes.tokens, model.sizes.cls, strict=True)
        )
        return ComparisonCount(max(per_input), version, beta1, max_active, per_input)
    tokens, cls = size_recursion(model) if sizes is None else sizes
    number = _equation_5(model, *_checked_sizes(model, tokens, cls), beta1, version, factor)
    return ComparisonCount(number, version, beta1, max_active)


def maximum_comparisons(
    architecture: Architecture,
    beta1: int,
    *,
    version: Version = "printed",
    max_active: int | None = None,
) -> ComparisonCount:
    """The most that max-position retrieval can reach, in closed form.

    With P_l = (1 + h_1) ... (1 + h_l), the sets are min(T, P_l) and min(T, P_l - 1), so (5) is at most

        sum_{l<L} T (min(T, P_l)^b - 1 + h_l (T-1)) + sum_{l<=L} (min(T, P_l - 1)^b - 1 + h_l (T-1)).

    For two layers and b = 2 the last sum has (h1 + h2)(T - 1), where P2's (47) has 2(T - 1).

    Examples
    --------
    >>> import hardmax as hm
    >>> print(maximum_comparisons(hm.Architecture(64, 4, (2, 2), 24), 2))
    8894 (equation (5), printed)
    """
    beta1, factor = _checked(beta1, version, max_active)
    T, heads = architecture.n_tokens, architecture.heads
    products = [prod(1 + h for h in heads[: l + 1]) for l in range(len(heads))]
    attention = T * (T - 1) * sum(heads[:-1]) + (T - 1) * sum(heads)
    inside = T * sum(min(T, p) ** beta1 - 1 for p in products[:-1])
    inside += sum(min(T, p - 1) ** beta1 - 1 for p in products)
    return ComparisonCount(attention + factor * inside, version, beta1, max_active)


def minimal_set_size(
    n_comparisons: int,
    architecture: Architecture,
    beta1: int,
    *,
    version: Version = "printed",
    max_active: int | None = None,
) -> int:
    """M, the smallest size that all sets may have for equation (5) to reach ``n_comparisons``.

    The smallest M >= 1 with (T (L-1) + L) (M^beta1 - 1) + (T - 1) (T sum_{l<L} h_l + sum_l h_l) >= N, with a
    factor D0 before M^beta1 - 1 in the repaired version. It may exceed T: then no model of this architecture
    has enough comparisons by this count. A bound that counting gives, not a theorem about transformers.

    Examples
    --------
    The triangle target with 64 tokens, by the paper's count C(64, 3) - 3:

    >>> import hardmax as hm
    >>> minimal_set_size(41661, hm.Architecture(64, 2, (2, 2), 24), 3)
    8
    """
    beta1, factor = _checked(beta1, version, max_active)
    wanted = max(_whole(n_comparisons, None, "n_comparisons"), 0)  # the paper's C(T, 3) - 3 starts at -2
    T, L, heads = architecture.n_tokens, architecture.depth, architecture.heads
    missing = wanted - (T - 1) * (T * sum(heads[:-1]) + sum(heads))
    if missing <= 0:
        return 1
    per_set = -(-missing // (factor * (T * (L - 1) + L)))  # M^beta1 - 1 must reach this
    low, high = 1, per_set + 1  # (per_set + 1)^beta1 - 1 >= per_set
    while low < high:
        middle = (low + high) // 2
        if middle**beta1 - 1 >= per_set:
            high = middle
        else:
            low = middle + 1
    return low


def _equation_5(
    shape: Architecture,
    tokens: list[list[int]],
    cls: list[int],
    beta1: int,
    version: Version,
    factor: int,
) -> int:
    T, heads = shape.n_tokens, shape.heads
    least = -1 if version == "printed" else 0
    attention = T * (T - 1) * sum(heads[:-1]) + (T - 1) * sum(heads)
    inside: int = sum(max(size**beta1 - 1, least) for layer in tokens for size in layer)
    inside += sum(max(size**beta1 - 1, least) for size in cls)
    return int(attention + factor * inside)


def _checked_sizes(shape: Architecture, tokens: Any, cls: Any) -> tuple[list[list[int]], list[int]]:
    T, L = shape.n_tokens, shape.depth
    of_tokens, of_cls = np.asarray(tokens), np.asarray(cls)
    if of_tokens.shape == (L - 1,):
        of_tokens = np.repeat(of_tokens[:, None], T, axis=1)
    if of_tokens.shape != (L - 1, T) or of_cls.shape != (L,):
        raise DimensionMismatchError(
            f"sizes must be of the tokens, ({L - 1},) or ({L - 1}, {T}), and of CLS, ({L},), but had the "
            f"shapes {of_tokens.shape} and {of_cls.shape}."
        )
    for array in (of_tokens, of_cls):
        if array.size and (not np.issubdtype(array.dtype, np.integer) or array.min() < 0 or array.max() > T):
            raise InvalidInputError(f"sizes must be whole numbers between 0 and {T}.")
    return of_tokens.tolist(), of_cls.tolist()


def _checked(beta1: Any, version: Any, max_active: Any) -> tuple[int, int]:
    """beta1, and the factor before the comparisons inside a set."""
    if version not in ("printed", "clamped", "repaired"):
        raise InvalidInputError(f'version must be "printed", "clamped" or "repaired", but was {version!r}.')
    beta1 = _whole(beta1, 1, "beta1")
    if version != "repaired":
        return beta1, 1
    if max_active is None:
        raise InvalidInputError("the repaired equation (5) needs max_active, the D0 of the target.")
    return beta1, _whole(max_active, 1, "max_active")


def _whole(value: Any, least: int | None, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInputError(f"{name} must be a whole number, but was {value!r}.") from None
    if least is not None and number < least:
        raise InvalidInputError(f"{name} must be at least {least}, but was {number}.")
    return number
