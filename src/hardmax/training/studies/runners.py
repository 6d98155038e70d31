"""Runners: functions that take the text of a job and return its result.

Some have a short name. Any other is named ``module:function``, and whoever runs a study has to name it too,
because a file alone must never decide which code is run.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.training.jobs import Job
    from hardmax.training.loop import TrainingResult

__all__ = ["RUNNERS", "Runner", "check_runner_name", "find_runner"]


@dataclass(frozen=True)
class Runner:
    """A runner with a short name.

    Attributes
    ----------
    function : str
        Where it is, as ``module:function``.
    read : str
        What reads the text of a job, or refuses it.
    cost : str
        What says how much work a job is, if anything does.
    values : tuple of str
        Attributes of its results that tables show, besides single values that the result files hold.
    """

    function: str
    read: str
    cost: str = ""
    values: tuple[str, ...] = ()


RUNNERS: Mapping[str, Runner] = {
    "cells": Runner(
        "hardmax.training.studies.random_cells:run_job", "hardmax.training.studies.random_cells:read_job"
    ),
    "train": Runner(
        "hardmax.training.studies.runners:run_training",
        "hardmax.training.jobs:Job.from_json",
        "hardmax.training.studies.runners:training_cost",
        ("best", "final", "stuck"),
    ),
}
"""The runners that have a short name: training, and cells of random networks."""


def check_runner_name(name: str) -> None:
    """Refuse what cannot be the name of a runner."""
    part = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
    if name in RUNNERS or re.fullmatch(f"{part}:{part}", name):
        return
    close = difflib.get_close_matches(name, RUNNERS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise InvalidInputError(
        f"runner must be {' or '.join(map(repr, RUNNERS))} or of the form module:function, but was "
        f"{name!r}{hint}"
    )


def find_runner(name: str) -> Callable[..., Any]:
    """Import the function of a runner.

    Examples
    --------
    >>> find_runner("math:sqrt")(16)
    4.0
    """
    check_runner_name(name)
    return imported(RUNNERS[name].function if name in RUNNERS else name, name)


def imported(place: str, name: str) -> Callable[..., Any]:
    """Import what stands at ``module:function``, for the runner with this name."""
    module, _, path = place.partition(":")
    try:
        function = reduce(getattr, path.split("."), import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise  # the module is there; something that it needs is not
        raise InvalidInputError(
            f"the runner {name!r} must be importable, but there is no module {error.name!r} on the path."
        ) from error
    except AttributeError as error:
        raise InvalidInputError(f"the runner {name!r} must exist, but {error}.") from error
    if not callable(function):
        raise InvalidInputError(f"the runner {name!r} must be a function, but is not.")
    return function


def run_training(text: str, *, progress: Callable[[float], object]) -> TrainingResult:
    """The runner ``train``: train the job that ``Job.to_json`` described."""
    from hardmax.training.jobs import Job
    from hardmax.training.loop import train

    job = Job.from_json(text)

    def report(samples: int, _: float) -> None:
        progress(samples / job.settings.n_samples)

    return train(job, progress=report)


def training_cost(job: Job) -> float:
    """Multiplications per sequence, roughly, times sequences."""
    shape = job.shape
    tokens = shape.n_tokens + 1
    layers = zip(shape.widths, shape.hidden, strict=True)
    return job.settings.n_samples * float(
        sum(tokens * (4 * E * E + 2 * tokens * E + 2 * E * w) for E, w in layers)
    )
