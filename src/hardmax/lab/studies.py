"""Studies: lists of jobs, each of which can be run alone, by anybody, with the same result.

A job is a JSON value; its key is the SHA-256 of its canonical text, so that equal jobs are one job wherever
they are written down. A runner is a function that takes the text of a job and returns its result. Some
runners have a short name; any other is named ``module:function``, and whoever runs a study has to name it
too, because a file alone must never decide which code is run.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from hardmax.errors import FileFormatError, InvalidInputError

__all__ = ["RUNNERS", "Study", "StudyJob", "canonical", "find_runner", "read_study"]


@dataclass(frozen=True)
class Runner:
    """A runner with a short name: its function, and the function that refuses a text which is no job."""

    function: str
    check: str


RUNNERS: Mapping[str, Runner] = {
    "cells": Runner("hardmax.lab.random_cells:run_job", "hardmax.lab.random_cells:check_job"),
    "train": Runner("hardmax.lab.training:run_job", "hardmax.lab.training:check_job"),
}
"""The runners that have a short name."""

_MOST_JOBS = 1_000_000


def canonical(job: Any) -> str:
    """The one text of a JSON value: keys sorted, nothing that could be written in another way.

    Examples
    --------
    >>> canonical({"seed": 3, "heads": (2, 2)})
    '{"heads":[2,2],"seed":3}'
    """
    try:
        return json.dumps(job, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"a job must consist of JSON values (no NaN, no infinity), but {error}."
        ) from error


@dataclass(frozen=True)
class StudyJob:
    """One job of a study.

    Attributes
    ----------
    text : str
        The job as canonical JSON.
    cost : float
        How much work it is, compared with the others: the most costly ones are run first, and the remaining
        time is estimated from it.
    """

    text: str
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.cost) and self.cost > 0):
            raise InvalidInputError(f"the cost of a job must be a positive number, but was {self.cost!r}.")

    @property
    def key(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def content(self) -> Any:
        """The job as a JSON value."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Study:
    """A list of jobs and the runner that runs them.

    Attributes
    ----------
    name : str
    jobs : tuple of StudyJob
        Each job once, in the order in which tables show them.
    runner : str
        A short name, or ``module:function``: ``function(text)`` returns a
        :class:`~hardmax.results.Result`, or the bytes of the file that its ``save`` writes. If it has a
        parameter ``progress``, it is given a function that may be told the share that is done, from 0 to 1.

    Examples
    --------
    >>> study = Study.of("roots", [{"n": 2}, {"n": 3}, {"n": 2}], runner="my_module:root")
    >>> len(study.jobs), study.jobs[0].text
    (2, '{"n":2}')
    """

    name: str
    jobs: tuple[StudyJob, ...]
    runner: str = "train"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", self.name):
            raise InvalidInputError(
                f"the name of a study must consist of letters, digits, '.', '+', '-' and '_', but was "
                f"{self.name!r}."
            )
        check_runner_name(self.runner)
        if not self.jobs:
            raise InvalidInputError(f"the study {self.name!r} must have at least one job, but has none.")

    @classmethod
    def of(
        cls,
        name: str,
        jobs: Iterable[Any],
        *,
        runner: str = "train",
        cost: Callable[[Any], float] | None = None,
    ) -> Study:
        """The study of given jobs, repeated ones left out.

        Parameters
        ----------
        name : str
        jobs : iterable
            JSON values, or objects whose ``to_json()`` is one (or its text).
        runner : str
        cost : callable, optional
            The cost of a job, given the job.
        """
        found: dict[str, StudyJob] = {}
        check = _check_of(runner)
        for number, job in enumerate(jobs):
            if number >= _MOST_JOBS:
                raise InvalidInputError(
                    f"the study {name!r} must have at most {_MOST_JOBS} jobs, but has more."
                )
            text = _text(job)
            try:
                check(text)
                made = StudyJob(text, 1.0 if cost is None else float(cost(job)))
            except InvalidInputError as error:
                raise type(error)(f"job {number} of the study {name!r}: {error}") from error
            found.setdefault(made.key, made)
        return cls(name, tuple(found.values()), runner)


def _text(job: Any) -> str:
    if hasattr(job, "to_json"):
        job = job.to_json()
        if isinstance(job, str):
            job = json.loads(job)
    return canonical(job)


# Runners
# ----------------------------------------------------------------------------------------------------------


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
    return _imported(RUNNERS[name].function if name in RUNNERS else name, name)


def _imported(place: str, name: str) -> Callable[..., Any]:
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
    return function  # type: ignore[no-any-return]


def _check_of(runner: str) -> Callable[[str], object]:
    check_runner_name(runner)
    if runner in RUNNERS:
        return _imported(RUNNERS[runner].check, runner)
    return lambda text: None


# Files
# ----------------------------------------------------------------------------------------------------------


def read_study(path: str | Path) -> Study:
    """Read a study from a JSON file.

    ``{"study": name, "runner": name, "job": {...}, "vary": {"settings.batch": [64, 128], "seed": [0, 1]}}``
    is the list of all jobs that come from ``job`` by putting in one value for each place that varies, the
    last one fastest. ``"jobs": [...]`` lists more jobs, or all of them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "roots.json"
    >>> _ = path.write_text('{"study": "roots", "runner": "my_module:root", "job": {}, "vary": {"n": [2, 3]}}')
    >>> [job.text for job in read_study(path).jobs]
    ['{"n":2}', '{"n":3}']
    """
    path = Path(path)
    try:
        stated = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} must be a study in JSON, but {error}.") from error
    if not isinstance(stated, dict) or not isinstance(stated.get("study"), str):
        raise FileFormatError(f'{path} must be a JSON object with the name of a study under "study".')
    foreign = stated.keys() - {"study", "runner", "job", "vary", "jobs"}
    if foreign:
        raise FileFormatError(
            f'{path} must have the entries "study", "runner", "job", "vary" and "jobs" only, but has '
            f"{sorted(foreign)[0]!r}."
        )
    vary, more, runner = stated.get("vary", {}), stated.get("jobs", []), stated.get("runner", "train")
    if not isinstance(vary, dict) or not all(isinstance(v, list) and v for v in vary.values()):
        raise FileFormatError(f'{path}: "vary" must name a list of values for each place.')
    if not isinstance(more, list) or not isinstance(runner, str):
        raise FileFormatError(f'{path}: "jobs" must be a list and "runner" a name.')
    if vary and "job" not in stated:
        raise FileFormatError(f'{path}: "vary" needs the "job" that it varies.')
    jobs = _varied(stated["job"], vary, path) if "job" in stated else []
    return Study.of(stated["study"], itertools.chain(jobs, more), runner=runner)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _varied(job: Any, vary: Mapping[str, Sequence[Any]], path: Path) -> Iterable[Any]:
    for values in itertools.product(*vary.values()):
        varied = json.loads(canonical(job))
        for place, value in zip(vary, values, strict=True):
            *outer, last = place.split(".")
            inside = varied
            for name in outer:
                inside = inside.get(name) if isinstance(inside, dict) else None
            if not isinstance(inside, dict):
                raise FileFormatError(
                    f'{path}: "vary" must name places inside of "job", but {place!r} is none.'
                )
            inside[last] = value
        yield varied
