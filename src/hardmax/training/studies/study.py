"""Studies: lists of jobs, each of which can be run alone, by anybody, with the same result.

A job is a JSON value; its key is the SHA-256 of its canonical text, so that equal jobs are one job wherever
they are written down. Runners with a short name (:mod:`hardmax.training.studies.runners`) read their jobs
first: entries that were left out are filled in, and the key may depend on more, such as the version of the
numerics.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardmax.errors import FileFormatError, HardmaxError, InvalidInputError
from hardmax.storage import written_whole
from hardmax.training.data import canonical
from hardmax.training.studies.runners import RUNNERS, check_runner_name, imported
from hardmax.untrusted import parsed_json, plain_bytes

_MOST_JOBS = 1_000_000


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
    key : str
        What the job is known by, 64 hexadecimal digits; SHA-256 of the text if left out.
    """

    text: str
    cost: float = 1.0
    key: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.cost) and self.cost > 0):
            raise InvalidInputError(f"the cost of a job must be a positive number, but was {self.cost!r}.")
        if not self.key:
            object.__setattr__(self, "key", hashlib.sha256(self.text.encode()).hexdigest())
        if not re.fullmatch("[0-9a-f]{64}", self.key):  # it becomes the name of a file
            raise InvalidInputError(f"the key of a job must be 64 hexadecimal digits, but was {self.key!r}.")


def planned(job: Any, runner: str, *, cost: float | None = None) -> StudyJob:
    """A job as its runner reads it; ``cost`` replaces the runner's estimate.

    Raises
    ------
    InvalidInputError
        When it is no job of that runner.
    """
    text = _text(job)
    if runner not in RUNNERS:
        return StudyJob(text, 1.0 if cost is None else cost)
    reads = RUNNERS[runner]
    try:
        read = imported(reads.read, runner)(text)
        amount = float(imported(reads.cost, runner)(read)) if cost is None and reads.cost else cost
    except HardmaxError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidInputError(f"a job of the runner {runner!r} must be complete, but {error}.") from error
    return StudyJob(_text(read), 1.0 if amount is None else amount, str(getattr(read, "key", "")))


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
        parameter ``progress``, it gets a function to call with the share that is done, from 0 to 1.

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
        check_runner_name(runner)
        found: dict[str, StudyJob] = {}
        for number, job in enumerate(jobs):
            if number >= _MOST_JOBS:
                raise InvalidInputError(
                    f"the study {name!r} must have at most {_MOST_JOBS} jobs, but has more."
                )
            try:
                made = planned(job, runner, cost=None if cost is None else float(cost(job)))
            except InvalidInputError as error:
                raise InvalidInputError(f"job {number} of the study {name!r}: {error}") from error
            found.setdefault(made.key, made)
        return cls(name, tuple(found.values()), runner)


def _text(job: Any) -> str:
    if hasattr(job, "to_json"):
        job = job.to_json()
        job = json.loads(job) if isinstance(job, str) else job
    return canonical(job)


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
    >>> _ = path.write_text('{"study": "roots", "runner": "my:root", "job": {}, "vary": {"n": [2, 3]}}')
    >>> [job.text for job in read_study(path).jobs]
    ['{"n":2}', '{"n":3}']
    """
    path = Path(path)
    stated = parsed_json(plain_bytes(path), str(path))
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


def write_study(study: Study, path: str | Path) -> Path:
    """Write a study to a JSON file that :func:`read_study` and ``hardmax training run`` read.

    Examples
    --------
    >>> import tempfile
    >>> study = Study.of("roots", [{"n": 2}], runner="my:root")
    >>> read_study(write_study(study, tempfile.mkdtemp() + "/roots.json")) == study
    True
    """
    jobs = [json.loads(job.text) for job in study.jobs]
    text = json.dumps({"study": study.name, "runner": study.runner, "jobs": jobs}, indent=1)
    with written_whole(path) as file:
        file.write(text.encode() + b"\n")
    return Path(path)


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
