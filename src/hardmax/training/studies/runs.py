"""One run of a job, in whichever process or thread a pool runs it.

A run knows nothing of the store: it gets the text of a job and returns the bytes of its result. On the
machine of the driver it reports the share that is done in a small file.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hardmax
from hardmax import storage
from hardmax.errors import HardmaxError, MissingExtraError
from hardmax.results import Result, restored, strict
from hardmax.training.studies.runners import RUNNERS, find_runner

__all__ = ["Run", "perform", "prepare_process", "share_of"]

_REPORT_EVERY = 0.5  # seconds between two reports of the share that is done
_LOOK_EVERY = 1.0  # seconds between two looks whether the driver is still there
_LONGEST_ERROR = 4000  # characters


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
    """The single values of a result, in strict JSON; reading it makes sure that it can be read."""
    stored = storage.from_bytes(content, f"what {runner} returned")
    result = restored(stored, f"what {runner} returned")
    values = {name: getattr(result, name) for name in (RUNNERS[runner].values if runner in RUNNERS else ())}
    single = (bool, int, float, str)
    values.update({n: v for n, v in stored.state.items() if v is None or isinstance(v, single)})
    return dict(strict(values))


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
