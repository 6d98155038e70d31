"""Targets by name: ``"pairwise:4"`` is one of the paper's, anything else is read as the text form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax.bounds.large_integers import positive
from hardmax.errors import InvalidInputError
from hardmax.randomness import generator_of
from hardmax.targets import builtin, tasks
from hardmax.targets.grammar import names_in
from hardmax.targets.parsing import parse
from hardmax.targets.target import Target
from hardmax.targets.tokens import InputDomain

_WITHOUT_NUMBER = ("triangle-center", "depth-separation")
_NAMES = ("pairwise", "retrieval", "kth-largest", *_WITHOUT_NUMBER, "position-sum", *tasks.NAMES)
_FORMS = (
    "targets are retrieval:D, pairwise:D, triangle-center, depth-separation, kth-largest:K, "
    'position-sum:P,Q,..., copy:P or associative-recall, or a text such as "max(s,t) x[s]\' A x[t]"; '
    "hm.advise takes induction and k-hop:K, too"
)
_MOST_WEIGHTS = 1 << 22  # of random matrices; ten times more take twenty seconds
_D = 4  # numbers per token where a target names matrices and nothing says how large they are


def named(
    text: str,
    *,
    matrices: ArrayLike | Mapping[str, ArrayLike] | None = None,
    d: int | None = None,
    domain: InputDomain | str | None = None,
    rng: int | np.random.Generator = 0,
) -> Target:
    """The target that a text names: one of the paper's with its number, or the text form of :func:`parse`.

    Parameters
    ----------
    text : str
        ``"retrieval:D"``, ``"pairwise:D"``, ``"triangle-center"``, ``"depth-separation"``,
        ``"kth-largest:K"``, ``"position-sum:P,Q"``, ``"copy:P"``, ``"associative-recall"`` or a text such as
        ``"max(s,t) x[s]' A x[t]"``. Tasks of which the paper says nothing (``"parity"``, ``"majority"``,
        ``"mean-pooling"``, ``"sorting"``, ``"induction"``, ``"k-hop:K"``) raise an error that says what is
        known of them.
    matrices : array or mapping of str to array, optional
        The matrices of ``"pairwise"`` (then without a number), or those that a text names. Without them they
        are standard normal, drawn from ``rng``.
    d : int, optional
        The numbers per token; that of the target when left out, 4 where matrices are drawn.
    domain : {"cube01", "cube11", "gaussian"}, optional
        Where tokens lie; that of the target when left out.
    rng : int or Generator
        For matrices that are not given.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.targets.named("kth-largest:2")([[[0.3], [0.9], [0.5]]])
    array([0.5])
    >>> hm.targets.named("pairwise:3").d_token
    4
    >>> hm.targets.named("max(t) x[t][0]").dimension
    <Interval: 1>
    >>> hm.targets.named("pairwse:3")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: 'pairwse:3' is no target (did you mean pairwise?); targets are ...
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"target must be a Target or a text, but was a {type(text).__name__}.")
    name, _, rest = text.strip().partition(":")
    d = None if d is None else positive("d", d)
    place: dict[str, Any] = {} if domain is None else {"domain": domain}
    size: dict[str, Any] = {} if d is None else {"d": d}
    if name not in _NAMES:
        if re.fullmatch(r"[A-Za-z]+(-[A-Za-z]+)*", name):
            near = get_close_matches(name, _NAMES, n=1)
            guess = f" (did you mean {near[0]}?)" if near else ""
            raise InvalidInputError(f"{text!r} is no target{guess}; {_FORMS}.")
        width = d if d is not None or matrices is not None or not names_in(text) else _D
        return parse(text, matrices=matrices, d=width, rng=rng, **place)
    if name == "pairwise":
        if matrices is None:
            width = _D if d is None else d
            shape = (positive("pairwise", _one_number(name, rest)), width, width)
            if shape[0] * width**2 > _MOST_WEIGHTS:
                raise InvalidInputError(
                    f"{text!r} must have at most {_MOST_WEIGHTS:,} weights, as all its random matrices are "
                    f"looked at, but has {shape[0]:,} of {width} x {width}; try a smaller number or d."
                )
            stack = generator_of(rng).standard_normal(shape)
        elif rest:
            raise InvalidInputError("pairwise must have either a number or matrices, but has both.")
        else:
            given = list(matrices.values()) if isinstance(matrices, Mapping) else matrices
            stack = np.asarray(given, dtype=np.float64)
        return builtin.pairwise(stack[0] if stack.ndim == 4 else stack, **place)
    if matrices is not None:
        raise InvalidInputError(f"matrices belong to pairwise and to text forms, but the target is {name}.")
    if name in tasks.NAMES:
        return tasks.task(name, rest, **place)
    if name == "position-sum":
        return builtin.position_sum(whole_numbers(rest, "the positions of position-sum"), **size, **place)
    if rest and name in _WITHOUT_NUMBER:
        raise InvalidInputError(f"{name} takes no number, but was given {rest!r}.")
    numbers = () if name in _WITHOUT_NUMBER else (_one_number(name, rest),)
    made: Target = getattr(builtin, name.replace("-", "_"))(*numbers, **size, **place)
    return made


def as_target(target: Target | str, rng: int | np.random.Generator = 0) -> Target:
    """A target as it is, or the one that a text names."""
    return target if isinstance(target, Target) else named(target, rng=rng)


def _one_number(name: str, rest: str) -> int:
    try:
        return int(rest)
    except ValueError:
        raise InvalidInputError(
            f"{name} must be followed by a number, as in {name}:4, but was followed by {rest!r}; {_FORMS}."
        ) from None


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"{name} must be whole numbers separated by commas, such as 4,4, but were {text!r}."
        ) from None
