"""Processing the tasks of an enumeration: here, in threads, or on a cluster.

A worker takes a task, works on it for a fraction of a second and gives it back, with the cells it found and
the state it has come to. So the list of tasks always knows a moment from which everything can go on: limits,
progress, Ctrl-C, checkpoints and workers that die all rely on that and on nothing else.

Threads share the list, each with a machine of its own; the compiled machines hold no lock of the interpreter.
Processes, here or on a Dask cluster, get the tasks as messages: plain arrays, and the network once per
worker. joblib says which of them are wanted.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from joblib.externals.loky import get_reusable_executor
from joblib.parallel import LokyBackend, MultiprocessingBackend, get_active_backend

from hardmax.errors import HardmaxError, InvalidInputError
from hardmax.progress import Progress
from hardmax.regions.engine.question import Question
from hardmax.regions.engine.stack_machine import State
from hardmax.regions.engine.tasks import Checkpoint, Outcome, Schedule, Task, snapshot
from hardmax.regions.maps.merging import Fingerprints

_SLICE = 0.05  # seconds between two looks at the clock
BUNDLE = 64  # tasks in a message to a worker of a cluster, at most
AHEAD = 2  # messages per worker that are under way: one waits while one is processed
_PATIENCE = 3  # failures in a row without any progress before a cluster's error is raised
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def far_slice(jobs: int) -> float:
    """Seconds that a message keeps one of so many workers busy, at most.

    A message costs the scheduler of Dask about a millisecond, so a thousand workers need longer messages.
    """
    return max(1.0, 0.003 * jobs)


class Worker:
    """A machine that works on one task after the other."""

    def __init__(self, question: Question, machine: Any) -> None:
        self.question = question
        self.machine = machine
        self._prints: Fingerprints | None = None
        self._at: State | None = None  # the state that the machine is in
        self._steps = 2_000

    def work(self, state: State, limit: int, seconds: float) -> Outcome:
        """Go on from a state until it is done, has found ``limit`` cells, or the time is over."""
        machine = self.machine
        if self._at is not state:
            machine.restore(state)
        self._at = None
        machine.limit(limit)
        begin = before = time.monotonic()
        while True:
            machine.advance(self._steps)
            now = time.monotonic()
            if machine.done or machine.n_cells >= limit or now - begin >= seconds:
                break
            spent, before = now - before, now
            left = min(_SLICE, seconds - (now - begin))
            self._steps = max(1, min(int(self._steps * left / max(spent, 1e-6)), 4 * self._steps))
        if self._prints is None:
            self._prints = self.question.prints(machine)
        cells = self.question.kept(machine, self._prints)
        if machine.done:
            return Outcome(None, machine.tally, cells)
        self._at = snapshot(machine)
        return Outcome(self._at, machine.tally, cells)


@dataclass(frozen=True)
class _Limits:
    """When to stop, what to report, where to keep the state; used by the main thread only."""

    schedule: Schedule
    begin: float
    time_limit: float | None
    progress: Callable[[Progress], object] | None
    checkpoint: Checkpoint | None

    def look(self, lock: AbstractContextManager[Any]) -> bool:
        """Report and save what is due; returns whether to stop. The lock is not held during the report."""
        now = time.monotonic()
        self.schedule.collect()
        with lock:
            if self.checkpoint is not None:
                self.checkpoint.maybe_save(self.schedule)
            tally = self.schedule.tally() if self.progress is not None else None
        if self.progress is not None and tally is not None:
            most = self.schedule.max_cells
            n_cells = tally.n_cells if most is None else min(tally.n_cells, most)
            self.progress(Progress(n_cells, self.schedule.machine.share(tally.size), now - self.begin))
        return self.left() <= 0

    def left(self) -> float:
        """Seconds until the time limit."""
        if self.time_limit is None:
            return float("inf")
        return self.begin + self.time_limit - time.monotonic()


def run(
    question: Question,
    schedule: Schedule,
    *,
    n_jobs: int | None,
    begin: float,
    time_limit: float | None,
    progress: Callable[[Progress], object] | None,
    checkpoint: Checkpoint | None,
) -> None:
    """Process the tasks of a schedule, until all are done or ``time_limit`` seconds after ``begin``."""
    limits = _Limits(schedule, begin, time_limit, progress, checkpoint)
    jobs, backend = _jobs(n_jobs)
    worker = Worker(question, schedule.machine)
    try:
        # a small problem is done before other workers could start
        stopped = _alone(worker, schedule, limits, head_only=jobs > 1 or backend is not None)
        if not stopped and not schedule.done and not schedule.full:
            if backend is None:
                _in_threads(question, worker, schedule, limits, jobs)
            else:
                _far_away(question, schedule, limits, partial(_executor, backend, jobs), jobs)
    except BaseException:
        schedule.put_back()
        if checkpoint is not None:
            checkpoint.save(schedule)
        raise
    if checkpoint is not None:
        if schedule.done:
            checkpoint.finish(schedule)
        else:
            checkpoint.save(schedule)


def _jobs(n_jobs: int | None) -> tuple[int, Any]:
    """How many workers, and the backend of joblib that has them (``None``: threads of this process)."""
    if n_jobs == 1:
        return 1, None
    backend, _ = get_active_backend(prefer="threads")
    _, configured = get_active_backend()  # where threads are only preferred, joblib forgets how many
    jobs = max(1, int(backend.effective_n_jobs(configured if n_jobs is None else n_jobs)))
    return jobs, None if getattr(backend, "supports_sharedmem", False) else backend


def _alone(worker: Worker, schedule: Schedule, limits: _Limits, *, head_only: bool) -> bool:
    """Process tasks in this thread; returns whether a limit stopped it."""
    while not (head_only and len(schedule.tasks) > 1):
        task = schedule.next()
        if task is None or task.state is None:
            return False
        outcome = worker.work(task.state, schedule.limit(task), min(_SLICE, limits.left()))
        schedule.give_back(task, outcome)
        if limits.look(nullcontext()):
            return True
    return False


# threads
# ----------------------------------------------------------------------------------------------------------


def _in_threads(question: Question, worker: Worker, schedule: Schedule, limits: _Limits, jobs: int) -> None:
    """Process tasks in threads of this process; the main thread looks after limits."""
    changed = threading.Condition()
    stop, over = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def loop(worker: Worker | None) -> None:
        try:
            worker = worker or Worker(question, question.machine())
            while not stop.is_set():
                with changed:
                    task = schedule.next()
                    if task is None or task.state is None:
                        if not any(other.running for other in schedule.tasks):
                            return
                        changed.wait(_SLICE)  # a task that is running may be cut
                        continue
                    state, limit = task.state, schedule.limit(task)
                outcome = worker.work(state, limit, _SLICE)
                with changed:
                    schedule.give_back(task, outcome)
                    changed.notify_all()
        except BaseException as error:
            errors.append(error)
            stop.set()
        finally:
            with changed:
                changed.notify_all()
            over.set()

    threads = [
        threading.Thread(target=loop, args=(worker if i == 0 else None,), daemon=True) for i in range(jobs)
    ]
    for thread in threads:
        thread.start()
    try:
        while not over.wait(_SLICE):
            if limits.look(changed):
                break
        else:
            for thread in threads:
                thread.join()
            limits.look(changed)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


# clusters
# ----------------------------------------------------------------------------------------------------------

Message = tuple[str, dict[str, Any] | None, list[tuple[int, State, int]], float]
_here = threading.local()  # the machine that a thread of a worker process keeps between messages


def work(
    run: str, question: dict[str, Any] | None, tasks: list[tuple[int, State, int]], seconds: float
) -> list[tuple[int, Outcome | None]]:
    """What a worker of a cluster does with a message: the numbers of its tasks, and what came of them.

    ``None`` stands for a task that was not started: no time was left, or the worker does not have the
    question of this run yet.
    """
    if getattr(_here, "run", None) != run:
        if question is None:
            return [(number, None) for number, _, _ in tasks]
        asked = Question.of_message(question)
        _here.worker, _here.run = Worker(asked, asked.machine()), run
    results: list[tuple[int, Outcome | None]] = []
    end = time.monotonic() + seconds
    for number, state, limit in tasks:
        left = end - time.monotonic()
        outcome = None
        if left > 0 or not results:
            outcome = _here.worker.work(state, limit, max(left, 0.0))
        results.append((number, outcome))
    return results


def _executor(backend: Any, jobs: int) -> Executor:
    """The processes of a backend of joblib, as :mod:`concurrent.futures` sees them."""
    if hasattr(backend, "client"):  # Dask
        executor: Executor = backend.client.get_executor(pure=False)
        return executor
    if isinstance(backend, LokyBackend | MultiprocessingBackend):
        executor = get_reusable_executor(max_workers=jobs, env=_ONE_THREAD)
        return executor
    raise InvalidInputError(
        "joblib's backend must be threading, loky, multiprocessing or dask, but was "
        f"{type(backend).__name__}; try joblib.parallel_config(backend='loky')."
    )


def _far_away(
    question: Question, schedule: Schedule, limits: _Limits, executors: Callable[[], Executor], jobs: int
) -> None:
    """Process tasks in other processes, in messages.

    As many messages are under way as workers can take, whatever the others wait for: the pieces of a task
    that is cut go out when its answer is here.
    """
    messages = _Messages(question, schedule, limits, jobs)
    answers: SimpleQueue[Future[Any]] = SimpleQueue()
    under_way: dict[Future[Any], tuple[Executor, list[int]]] = {}
    executor, failures = executors(), 0
    try:
        while True:
            while len(under_way) < AHEAD * jobs and (message := messages.next()) is not None:
                future = executor.submit(work, *message)
                under_way[future] = executor, [number for number, _, _ in message[2]]
                future.add_done_callback(answers.put)
            if not under_way:
                return
            try:
                future = answers.get(timeout=_SLICE)
            except Empty:
                messages.look()
                continue
            asked, numbers = under_way.pop(future)
            try:
                answer = future.result()
            except HardmaxError:
                raise
            except Exception:
                # workers died, or their connections: tasks are where they were before they were sent
                messages.lost(numbers)
                if asked is executor:  # the first of perhaps many messages that this loses
                    failures += 1
                    if failures > _PATIENCE:
                        raise
                    executor = executors()
            else:
                failures = 0
                messages.receive(answer)
    finally:
        for future in under_way:
            future.cancel()


class _Messages:
    """Messages to the workers of a cluster, and their answers."""

    def __init__(self, question: Question, schedule: Schedule, limits: _Limits, jobs: int) -> None:
        self.run = secrets.token_hex(8)
        self.question = question.message()
        self.schedule, self.limits, self.jobs = schedule, limits, jobs
        self.stopped = schedule.full
        self._under_way: dict[int, Task] = {}
        self._new_workers = jobs  # that do not have the question yet

    def next(self) -> Message | None:
        """A message with the first tasks that wait; ``None`` if there are none."""
        if self.stopped:
            return None
        bundle: list[tuple[int, State, int]] = []
        for _ in range(max(1, min(BUNDLE, self.schedule.n_waiting // (2 * self.jobs)))):
            task = self.schedule.next()
            if task is None or task.state is None:
                break
            self._under_way[task.number] = task
            bundle.append((task.number, task.state, self.schedule.limit(task)))
        if not bundle:
            return None
        question = self.question if self._new_workers > 0 else None
        self._new_workers -= question is not None
        left = self.limits.left() / AHEAD  # it may have to wait for another message to be processed
        return self.run, question, bundle, max(0.01, min(far_slice(self.jobs), left))

    def receive(self, answer: list[tuple[int, Outcome | None]]) -> None:
        """Write down what a worker sent back."""
        if all(outcome is None for _, outcome in answer):
            self._new_workers += 1
        for number, outcome in answer:
            task = self._under_way.pop(number)
            if outcome is None:
                self.schedule.put_back([task])
            else:
                self.schedule.give_back(task, outcome)
        self.look()

    def look(self) -> None:
        """Report, save, and stop at a limit."""
        self.stopped = self.limits.look(nullcontext()) or self.schedule.full

    def lost(self, numbers: list[int]) -> None:
        """No answer will come for these tasks."""
        self.schedule.put_back([self._under_way.pop(number) for number in numbers])
        self._new_workers += 1


def check_jobs(n_jobs: int | None) -> None:
    """Refuse what joblib would not understand."""
    if n_jobs is not None and n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0; try 1, or -1 for every core.")
