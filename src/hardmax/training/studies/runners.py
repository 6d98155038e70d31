"""Runners: functions that take the text of a job and return its result; and one run of a job.

Some runners have a short name: ``train``, and ``cells``, which counts the cells of random ReLU networks. Any
other is named ``module:function``, and whoever runs a study has to name it too, because a file alone must
never decide which code is run.

A run happens in whichever process or thread a pool chooses. It knows nothing of the store: it gets the text
of a job and returns the bytes of its result. On the machine of the driver it reports the share that is done
in a small file.
"""

from __future__ import annotations

import difflib
import inspect
import json
import math
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hardmax
from hardmax import storage
from hardmax.errors import HardmaxError, InvalidInputError, MissingExtraError
from hardmax.results import Result, restored, strict

if TYPE_CHECKING:
    from hardmax.regions.result import CellCount
    from hardmax.training.jobs import Job
    from hardmax.training.loop import TrainingResult

_REPORT_EVERY = 0.5  # seconds between two reports of the share that is done
_LOOK_EVERY = 1.0  # seconds between two looks whether the driver is still there
_LONGEST_ERROR = 4000  # characters
_LONGEST_VALUE = 1000  # characters of a text that is a single value


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
        "hardmax.training.studies.runners:run_cells", "hardmax.training.studies.runners:read_cells"
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


@dataclass(frozen=True)
class Run:
    """A finished run: the npz file of its result, its single values, and what it took."""

    content: bytes
    values: dict[str, Any]
    seconds: float
    cpu_seconds: float
    version: str


def prepare_process(driver: int) -> None:
    """Make this process a worker: Ctrl-C is left to the driver, and the worker ends when the driver does.

    What a job prints goes to standard error, because the driver may be printing JSON.

    Parameters
    ----------
    driver : int
        The process number of the driver, which is the parent of this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_LOOK_EVERY)
        os._exit(0)  # nobody waits for what runs here

    if os.name != "nt":  # there a process keeps the number of its parent
        threading.Thread(target=watch, daemon=True).start()


def perform(runner: str, text: str, shares: str | None = None, *, own_process: bool = False) -> Run | str:
    """Run one job; returns the run, or what it raised, as text.

    Parameters
    ----------
    runner : str
        The name of a runner.
    text : str
        The job.
    shares : str, optional
        The file in which the share that is done is reported. It is there as soon as the job has begun.
    own_process : bool
        Whether nothing else runs in this process, so that its processor time is that of the job.

    Raises
    ------
    InvalidInputError, MissingExtraError
        When the runner itself cannot be had: this is not the job's fault.
    """
    report = _reporter(shares)
    function = find_runner(runner)
    options = {"progress": report} if "progress" in inspect.signature(function).parameters else {}
    if shares is not None:
        with suppress(OSError):
            Path(shares).touch()
    clock = time.process_time if own_process else time.thread_time
    begin, cpu = time.monotonic(), clock()
    try:
        made = function(text, **options)
        seconds, cpu_seconds = time.monotonic() - begin, clock() - cpu
        if isinstance(made, Result):
            made = storage.to_bytes(storage.Stored(made.kind, made._state(), made.provenance))
        if not isinstance(made, bytes):
            raise TypeError(
                f"a runner must return a result or the bytes of its file, but {runner} returned "
                f"{type(made).__name__}."
            )
        values = _single_values(made, runner)
    except MissingExtraError:
        raise
    except HardmaxError as error:
        return f"{type(error).__name__}: {error}"
    except (Exception, SystemExit):
        return traceback.format_exc()[-_LONGEST_ERROR:].strip()
    return Run(made, values, seconds, cpu_seconds, hardmax.__version__)


def _single_values(content: bytes, runner: str) -> dict[str, Any]:
    """The single values of a result, in strict JSON, without long texts; reading it makes sure that it can be
    read."""
    stored = storage.from_bytes(content, f"what {runner} returned")
    result = restored(stored, f"what {runner} returned")
    values = {name: getattr(result, name) for name in (RUNNERS[runner].values if runner in RUNNERS else ())}
    single = (bool, int, float, str)
    values.update({n: v for n, v in stored.state.items() if v is None or isinstance(v, single)})
    short = {n: v for n, v in values.items() if not isinstance(v, str) or len(v) <= _LONGEST_VALUE}
    return dict(strict(short))


def _reporter(shares: str | None) -> Callable[[float], None]:
    last = float("-inf")

    def report(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if shares is not None and now - last >= _REPORT_EVERY:
            last = now
            with suppress(OSError):
                Path(shares).write_text(f"{share:.9f}\n")

    return report


def share_of(path: Path) -> float | None:
    """The share that a run has reported, or ``None`` if it has not."""
    try:
        text = path.read_text()
    except OSError:
        return None
    return min(max(float(text), 0.0), 1.0) if text.endswith("\n") else None


def read_cells(text: str) -> dict[str, Any]:
    """Read a job of the runner ``cells``, or refuse it.

    A job is ``{"widths": [2, 16, 16, 1], "seed": 0, "box": 4}``: the network ``Network.random_mlp(widths,
    seed)`` in the cube of half side ``box``.

    Examples
    --------
    >>> read_cells('{"widths":[2,8,1],"seed":0,"box":4}')["widths"]
    [2, 8, 1]
    """
    job = json.loads(text)
    if not isinstance(job, dict) or job.keys() != {"widths", "seed", "box"}:
        raise InvalidInputError(
            f"a job of the runner 'cells' must have widths, seed and box, but was {text}."
        )
    widths, seed, box = job["widths"], job["seed"], job["box"]
    if not isinstance(widths, list) or len(widths) < 2 or not all(_is_integer(n) and n > 0 for n in widths):
        raise InvalidInputError(f"widths must be at least two positive whole numbers, but was {widths!r}.")
    if not _is_integer(seed) or seed < 0:
        raise InvalidInputError(f"seed must be a whole number, zero or more, but was {seed!r}.")
    if not (_is_integer(box) or isinstance(box, float)) or not (math.isfinite(box) and box > 0):
        raise InvalidInputError(f"box must be a positive number, but was {box!r}.")
    return job


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def run_cells(text: str) -> CellCount:
    """The runner ``cells``: count the cells of the random network that a job describes.

    Examples
    --------
    >>> run_cells('{"widths":[2,8,1],"seed":0,"box":4}')
    <CellCount: 32 cells, complete, exact>
    """
    from hardmax.geometry.domains import Box
    from hardmax.networks.network import Network
    from hardmax.regions.api import count_cells

    job = read_cells(text)
    network = Network.random_mlp(job["widths"], job["seed"])
    return count_cells(network, Box.cube(job["widths"][0], -job["box"], job["box"]), n_jobs=1)
