"""Targets on the command line: a name with a number, or the text form."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from hardmax.cli.inputs import read_arrays
from hardmax.cli.numbers import WHOLE
from hardmax.cli.outputs import FILE

DOMAINS = ("cube01", "cube11", "gaussian")


def target_options(command: Callable[..., Any], *, hops: bool = False) -> Callable[..., Any]:
    """Give a command TARGET and the options that say which one is meant; it receives the target itself.

    With ``hops`` it takes induction and k-hop:K as well, which are no targets, and receives their name.
    """

    @wraps(command)
    def with_target(
        target: str, d_token: int | None, matrices: Path | None, domain: str | None, seed: int, **others: Any
    ) -> Any:
        from hardmax.targets import named
        from hardmax.targets.tasks import hops_of

        given: Any = None if matrices is None else read_arrays(matrices)
        if given is not None and len(given) == 1:
            (given,) = given.values()
        found: Any = target
        if not hops or hops_of(target) is None:
            found = named(target, matrices=given, d=d_token, domain=domain, rng=seed)
        return command(target=found, seed=seed, **others)

    reading: Callable[..., Any] = with_target
    for option in (
        click.option("--seed", type=WHOLE, default=0, show_default=True, help="For matrices and samples."),
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
        click.option("--d", "d_token", type=WHOLE, help="The numbers per token.  [default: of the target]"),
        click.option("--n-tokens", type=WHOLE, required=True, help="T, the length of a sequence."),
        click.argument("target"),
    ):
        reading = option(reading)
    return reading
