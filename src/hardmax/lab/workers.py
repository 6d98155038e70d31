"""Workers: processes that run one job after the other and know nothing of the store.

A worker reads jobs from its standard input and writes answers to what was its standard output, each with its
length in front; nothing is pickled. When its input ends, because its driver is done or dead, it ends too. A
worker that dies takes nothing along but the job that it was given, and another one is started in its place.
"""

from __future__ import annotations

import inspect
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import hardmax
from hardmax import storage
from hardmax.errors import (
    HardmaxError,
    IncompleteError,
    InvalidInputError,
    MissingExtraError,
)
from hardmax.lab.leases import Answer
from hardmax.lab.runners import RUNNERS, find_runner
from hardmax.results import Result, restored, strict

__all__ = ["Crew", "Report", "Workers", "perform", "serve"]

_SERVE = "from hardmax.lab.workers import serve; serve()"
_TELL_EVERY = 0.5  # seconds between two messages about the share that is done
_GRACE = 5.0  # seconds that a worker has to end by itself
_STARTS = 3  # workers in a row that die before they are ready
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_LONGEST_ERROR = 4000  # characters


@dataclass(frozen=True)
class Report:
    """What a crew says about a job: exactly one of the last four is there.

    Attributes
    ----------
    key : str
    answer : Answer, optional
        It is done.
    error : str, optional
        It raised this, and would again.
    lost : str, optional
        Its worker died, and this is why.
    share : float, optional
        This much of it is done.
    """

    key: str
    answer: Answer | None = None
    error: str | None = None
    lost: str | None = None
    share: float | None = None


class Crew(Protocol):
    """Whoever runs jobs for a driver."""

    def slots(self) -> int:
        """How many jobs it can run at a time, as of now."""

    def hand_out(self, key: str, text: str) -> None:
        """Give it a job; there must be a free slot."""

    def wait(self, seconds: float) -> list[Report]:
        """What has happened, as soon as something has, or when the time is over."""

    def drop(self, key: str) -> None:
        """Stop a job that nobody wants any more."""

    def close(self) -> None:
        """Stop everything."""


# What a worker does
# ----------------------------------------------------------------------------------------------------------


def perform(
    runner: str,
    text: str,
    *,
    progress: Callable[[float], object] | None = None,
    clock: Callable[[], float] = time.process_time,
) -> Answer | str:
    """Run one job; returns its answer, or what it raised, as text.

    Raises
    ------
    InvalidInputError, MissingExtraError
        When the runner itself cannot be had: this is not the job's fault.
    """
    function = find_runner(runner)
    options = {}
    if "progress" in inspect.signature(function).parameters:
        options["progress"] = progress or (lambda share: None)
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
        summary = _summary(made, runner)
    except MissingExtraError:
        raise
    except HardmaxError as error:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return traceback.format_exc()[-_LONGEST_ERROR:].strip()
    return Answer(made, summary, seconds, cpu_seconds, hardmax.__version__)


def _summary(content: bytes, runner: str) -> dict[str, Any]:
    """The single values of a result, in strict JSON; reading it makes sure that it can be read."""
    stored = storage.from_bytes(content, f"what {runner} returned")
    result = restored(stored, f"what {runner} returned")
    values = {name: getattr(result, name) for name in (RUNNERS[runner].values if runner in RUNNERS else ())}
    single = (bool, int, float, str)
    values.update({n: v for n, v in stored.state.items() if v is None or isinstance(v, single)})
    return dict(strict(values))


def serve() -> None:
    """The life of a worker process."""
    requests: queue.Queue[bytes] = queue.Queue()
    # the runner, and what it starts, must neither read the messages nor write among them
    source, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(head: dict[str, Any], body: bytes = b"") -> None:
        with lock:
            try:
                _write_message(answers, head, body)
            except OSError:
                os._exit(0)  # the driver is gone

    def listen() -> None:
        while True:
            message = _read_message(source)
            if message is None:
                os._exit(0)  # whatever runs here, nobody waits for it
            requests.put(message[1])

    runner = json.loads((_read_message(source) or (None, b'""'))[1])
    threading.Thread(target=listen, daemon=True).start()
    try:
        find_runner(runner)
    except (InvalidInputError, MissingExtraError) as error:
        send({"refused": str(error), "extra": isinstance(error, MissingExtraError)})
        return
    except Exception:
        send({"refused": traceback.format_exc()[-_LONGEST_ERROR:].strip(), "extra": False})
        return
    send({"ready": True})
    while True:
        text = requests.get().decode()
        told = 0.0

        def progress(share: float) -> None:
            nonlocal told
            now = time.monotonic()
            if now - told >= _TELL_EVERY:
                told = now
                send({"share": float(share)})

        try:
            made = perform(runner, text, progress=progress)
        except MissingExtraError as error:
            send({"refused": str(error), "extra": True})
            return
        if isinstance(made, str):
            send({"error": made})
        else:
            send(
                {
                    "summary": made.summary,
                    "seconds": made.seconds,
                    "cpu_seconds": made.cpu_seconds,
                    "version": made.version,
                },
                made.content,
            )


def _write_message(file: IO[bytes], head: dict[str, Any], body: bytes) -> None:
    encoded = json.dumps(head).encode()
    file.write(len(encoded).to_bytes(8, "big") + len(body).to_bytes(8, "big") + encoded + body)
    file.flush()


def _read_message(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next message, or nothing when the other side is gone, even in the middle of a word."""
    lengths = file.read(16)
    if len(lengths) < 16:
        return None
    n_head, n_body = int.from_bytes(lengths[:8], "big"), int.from_bytes(lengths[8:], "big")
    head, body = file.read(n_head), file.read(n_body)
    if len(head) < n_head or len(body) < n_body:
        return None
    return dict(json.loads(head)), body


# What a driver has of it
# ----------------------------------------------------------------------------------------------------------


class _Worker:
    """One process, and the job that it was given."""

    def __init__(self, runner: str, inbox: queue.Queue[tuple[_Worker, Any]]) -> None:
        here = str(Path(hardmax.__file__).resolve().parent.parent)
        path = [here, *(entry or os.getcwd() for entry in sys.path)]
        environment = {**dict.fromkeys(_THREADS, "1"), **os.environ, "PYTHONPATH": os.pathsep.join(path)}
        self.key: str | None = None
        self.ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the driver, which gives its jobs back first
        )
        self.send(json.dumps(runner).encode())
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def send(self, body: bytes) -> None:
        with suppress(OSError):  # if it died, the thread that listens to it says so
            _write_message(self.process.stdin, {}, body)  # type: ignore[arg-type]

    def _listen(self, inbox: queue.Queue[tuple[_Worker, Any]]) -> None:
        with self.process.stdout as answers:  # type: ignore[union-attr]
            while True:
                try:
                    message = _read_message(answers)
                except (OSError, ValueError):
                    message = None
                inbox.put((self, message))
                if message is None:
                    return

    def end(self) -> str:
        """End the process, if it has not ended by itself; returns how it ended."""
        with suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            code = self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return _how_it_ended(code)


class Workers:
    """A crew of processes on this machine; whoever dies is replaced.

    Parameters
    ----------
    runner : str
        The name of a runner.
    n : int
        How many jobs run at a time.
    """

    def __init__(self, runner: str, n: int) -> None:
        self._runner, self._n = runner, n
        self._inbox: queue.Queue[tuple[_Worker, Any]] = queue.Queue()
        self._workers: list[_Worker] = []
        self._stillborn = 0

    def slots(self) -> int:
        """How many jobs run at a time."""
        return self._n

    def processes(self) -> list[tuple[int, str | None]]:
        """The process number of every worker, and the key of the job that it runs."""
        return [(worker.process.pid, worker.key) for worker in self._workers]

    def hand_out(self, key: str, text: str) -> None:
        """Give a job to a worker without one, or to a new worker."""
        worker = next((w for w in self._workers if w.key is None), None)
        if worker is None:
            worker = _Worker(self._runner, self._inbox)
            self._workers.append(worker)
        worker.key = key
        worker.send(text.encode())

    def wait(self, seconds: float) -> list[Report]:
        """What has happened, as soon as something has."""
        try:
            messages = [self._inbox.get(timeout=max(seconds, 0.0))]
        except queue.Empty:
            return []
        while not self._inbox.empty():
            messages.append(self._inbox.get())
        return [report for worker, message in messages for report in self._understood(worker, message)]

    def _understood(self, worker: _Worker, message: Any) -> list[Report]:
        if worker not in self._workers:
            return []  # it was dropped
        key = worker.key
        if message is None:
            return self._died(worker)
        head, body = message
        if "ready" in head:
            worker.ready, self._stillborn = True, 0
            return []
        if "refused" in head:
            raise (MissingExtraError if head["extra"] else InvalidInputError)(head["refused"])
        if key is None:
            return []
        if "share" in head:
            return [Report(key, share=min(max(head["share"], 0.0), 1.0))]
        worker.key = None
        if "error" in head:
            return [Report(key, error=head["error"])]
        return [Report(key, answer=Answer(body, **head))]

    def _died(self, worker: _Worker) -> list[Report]:
        self._workers.remove(worker)
        how = worker.end()
        if not worker.ready:
            self._stillborn += 1
            if self._stillborn >= _STARTS:
                raise IncompleteError(f"workers cannot be started: {self._stillborn} in a row {how}.")
        return [] if worker.key is None else [Report(worker.key, lost=f"it {how}")]

    def drop(self, key: str) -> None:
        """Stop a job by ending its worker."""
        for worker in [w for w in self._workers if w.key == key]:
            self._workers.remove(worker)
            worker.process.kill()
            worker.end()

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.end()
        self._workers.clear()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
