"""Targets on the command line: a name with a number, or the text form."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hardmax.cli.inputs import read_arrays
from hardmax.cli.outputs import FILE
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.targets.target import Target

DOMAINS = ("cube01", "cube11", "gaussian")

_PLAIN = ("triangle-center", "depth-separation")
_BUILT_IN = ("pairwise", "retrieval", "kth-largest", *_PLAIN, "position-sum")
_NAMES = (
    "targets are retrieval:D, pairwise:D, triangle-center, depth-separation, kth-largest:K or "
    'position-sum:P,Q,..., or a text such as "max(s,t) x[s]\' A x[t]"'
)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command TARGET and the options that say which one is meant; it receives the target itself."""

    @wraps(command)
    def with_target(
        target: str, d_token: int | None, matrices: Path | None, domain: str | None, seed: int, **others: Any
    ) -> Any:
        return command(target=read_target(target, d_token, matrices, domain, seed), seed=seed, **others)

    reading: Callable[..., Any] = with_target
    for option in (
        click.option("--seed", type=int, default=0, show_default=True, help="For matrices and samples."),
        click.option(
            "--domain",
            type=click.Choice(DOMAINS),
            help="Where tokens lie: [0,1]^d, [-1,1]^d or all of R^d, normal; verdicts depend on it.",
        ),
        click.option(
            "--matrices",
            type=FILE,
            metavar="FILE",
            help="The matrices that the target names (.npy, .npz or .csv); random ones otherwise.",
        ),
        click.option("--d", "d_token", type=int, help="The numbers per token.  [default: of the target]"),
        click.option("--n-tokens", "n_tokens", type=int, required=True, help="T, the length of a sequence."),
        click.argument("target"),
    ):
        reading = option(reading)
    return reading


def read_target(
    text: str, d_token: int | None, matrices: Path | None, domain: str | None, seed: int
) -> Target:
    """The target that a text names; ``pairwise:4`` is a built-in, anything else the text form.

    Matrices that are named but not given are standard normal, drawn from the seed.
    """
    import numpy as np

    from hardmax import targets

    name, _, rest = text.strip().partition(":")
    place: dict[str, Any] = {} if domain is None else {"domain": domain}
    size: dict[str, Any] = {} if d_token is None else {"d": d_token}
    if name not in _BUILT_IN:
        if re.fullmatch(r"[A-Za-z]+(-[A-Za-z]+)*", name):
            near = get_close_matches(name, _BUILT_IN, n=1)
            guess = f" (did you mean {near[0]}?)" if near else ""
            raise InvalidInputError(f"{text!r} is no target{guess}; {_NAMES}.")
        given: Any = None if matrices is None else read_arrays(matrices)
        if given is not None and len(given) == 1:
            (given,) = given.values()
        d = d_token if d_token is not None or given is not None or not targets.names_in(text) else 4
        return targets.parse(text, matrices=given, d=d, rng=seed, **place)
    if name == "pairwise":
        if matrices is None:
            d = 4 if d_token is None else d_token
            stack = np.random.default_rng(seed).standard_normal((_one_number(name, rest), d, d))
        elif rest:
            raise InvalidInputError("pairwise must have either a number or --matrices, but has both.")
        else:
            stack = np.stack(list(read_arrays(matrices).values()))
        return targets.pairwise(stack[0] if stack.ndim == 4 else stack, **place)
    if matrices is not None:
        raise InvalidInputError(
            f"--matrices belongs to pairwise and to text forms, but the target is {name}."
        )
    if name == "position-sum":
        return targets.position_sum(whole_numbers(rest, "the positions of position-sum"), **size, **place)
    if rest and name in _PLAIN:
        raise InvalidInputError(f"{name} takes no number, but was given {rest!r}.")
    numbers = () if name in _PLAIN else (_one_number(name, rest),)
    made: Target = getattr(targets, name.replace("-", "_"))(*numbers, **size, **place)
    return made


def _one_number(name: str, rest: str) -> int:
    try:
        return int(rest)
    except ValueError:
        raise InvalidInputError(
            f"{name} must be followed by a number, as in {name}:4, but was followed by {rest!r}; {_NAMES}."
        ) from None


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"{name} must be whole numbers separated by commas, such as 4,4, but were {text!r}."
        ) from None
