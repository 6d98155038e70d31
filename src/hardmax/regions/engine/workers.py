"""Processing the tasks of an enumeration: here, in threads, or on a cluster.

A worker takes a task, works on it for a fraction of a second and gives it back, with the cells it found and
the state it has come to. So the list of tasks always knows a moment from which everything can go on: limits,
progress, Ctrl-C, checkpoints and workers that die all rely on that and on nothing else.

Threads share the list, each with a machine of its own; the compiled machines hold no lock of the interpreter.
Any other backend of joblib gets the tasks as messages: plain arrays, and the network once per worker.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from hardmax.errors import HardmaxError, InvalidInputError
from hardmax.progress import Progress
from hardmax.regions.engine.question import Question
from hardmax.regions.engine.stack_machine import State
from hardmax.regions.engine.tasks import Checkpoint, Outcome, Schedule, Task, snapshot
from hardmax.regions.maps.merging import Fingerprints

_SLICE = 0.05  # seconds between two looks at the clock
_FAR_SLICE = 1.0  # seconds that a message keeps a worker of a cluster busy
_BUNDLE = 8  # tasks in a message, at most
_EARLY = 1.0  # seconds after which it is worth to know what to expect
_MOST_STEPS = 1 << 20  # in a call; an engine may return after fewer
_PATIENCE = 3  # failures in a row without any progress before a cluster's error is raised


class Worker:
    """A machine that works on one task after the other."""

    def __init__(self, question: Question, machine: Any, deadline: float = math.inf) -> None:
        self.question = question
        self.machine = machine
        self.deadline = deadline
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
        machine.deadline = self.deadline
        begin = before = time.monotonic()
        while True:
            machine.advance(self._steps)
            now = time.monotonic()
            if machine.done or machine.n_cells >= limit or now - begin >= seconds:
                break
            spent, before = now - before, now
            left = min(_SLICE, seconds - (now - begin))
            faster = min(int(self._steps * left / max(spent, 1e-6)), 4 * self._steps)
            self._steps = max(1, min(faster, _MOST_STEPS))
        machine.deadline = math.inf  # whoever else uses the machine needs an answer
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

    question: Question
    schedule: Schedule
    begin: float
    time_limit: float | None
    progress: Callable[[Progress], object] | None
    checkpoint: Checkpoint | None

    def look(self, lock: AbstractContextManager[Any]) -> bool:
        """Report and save what is due; returns whether to stop. The lock is not held during the report."""
        now = time.monotonic()
        seconds = now - self.begin
        known = self.question.outlook if seconds >= _EARLY else None
        self.schedule.collect()
        with lock:
            if self.checkpoint is not None:
                self.checkpoint.maybe_save(self.schedule)
            tally = self.schedule.tally() if self.progress is not None else None
        if self.progress is not None and tally is not None:
            most = self.schedule.max_cells
            n_cells = tally.n_cells if most is None else min(tally.n_cells, most)
            settled = self.schedule.machine.settled(tally.size)
            self.progress(Progress(n_cells, settled, seconds, known))
        return self.left() <= 0

    @property
    def deadline(self) -> float:
        """When the time is over."""
        return math.inf if self.time_limit is None else self.begin + self.time_limit

    def left(self) -> float:
        """Seconds until the time limit."""
        return self.deadline - time.monotonic()


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
    limits = _Limits(question, schedule, begin, time_limit, progress, checkpoint)
    jobs, backend = _jobs(n_jobs)
    worker = Worker(question, schedule.machine, limits.deadline)
    try:
        # a small problem is done before other workers could start
        stopped = _alone(worker, schedule, limits, head_only=jobs > 1 or backend is not None)
        if not stopped and not schedule.done and not schedule.full:
            if backend is None:
                _in_threads(question, worker, schedule, limits, jobs)
            else:
                _far_away(question, schedule, limits, n_jobs, jobs)
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
    schedule.machine = question.machine()  # the first thread has the old one

    def loop(worker: Worker | None) -> None:
        try:
            worker = worker or Worker(question, question.machine(), limits.deadline)
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


def _far_away(question: Question, schedule: Schedule, limits: _Limits, n_jobs: int | None, jobs: int) -> None:
    """Process tasks on the workers of a backend of joblib, in messages of about a second."""
    messages = _Messages(question, schedule, limits, jobs)
    failures = 0
    while not messages.stopped and not schedule.done and not schedule.full:
        cluster = joblib.Parallel(
            n_jobs=n_jobs, batch_size=1, pre_dispatch=2 * jobs, return_as="generator_unordered"
        )
        try:
            with _closing(cluster(messages.waiting())) as answers:
                for answer in answers:
                    messages.receive(answer)
                    failures = 0
        except HardmaxError:
            raise
        except Exception:
            # workers died, or their connections: every task is where it was before they got it
            failures += 1
            if failures > _PATIENCE:
                raise
            messages.lost()


@contextmanager
def _closing(answers: Any) -> Iterator[Any]:
    """Leave without joblib's warning about cancelled work: it is done again, or not needed."""
    try:
        yield answers
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*have been cancelled")
            answers.close()


class _Messages:
    """Messages to the workers of a cluster. joblib fetches them from threads of its own."""

    def __init__(self, question: Question, schedule: Schedule, limits: _Limits, jobs: int) -> None:
        self.run = secrets.token_hex(8)
        self.question = question.message()
        self.schedule, self.limits, self.jobs = schedule, limits, jobs
        self.stopped = False
        self._lock = threading.Lock()
        self._under_way: dict[int, Task] = {}
        self._new_workers = jobs  # that do not have the question yet

    def waiting(self) -> Iterator[Any]:
        """A message for every bundle of tasks that waits, until there are none."""
        while True:
            with self._lock:
                bundle = [] if self.stopped else self._bundle()
                if not bundle:
                    return
                question = self.question if self._new_workers > 0 else None
                self._new_workers -= question is not None
            seconds = max(0.01, min(_FAR_SLICE, self.limits.left()))
            yield joblib.delayed(work)(self.run, question, bundle, seconds)

    def _bundle(self) -> list[tuple[int, State, int]]:
        waiting = sum(task.state is not None and not task.running for task in self.schedule.tasks)
        bundle: list[tuple[int, State, int]] = []
        for _ in range(max(1, min(_BUNDLE, waiting // (2 * self.jobs)))):
            task = self.schedule.next()
            if task is None or task.state is None:
                break
            self._under_way[task.number] = task
            bundle.append((task.number, task.state, self.schedule.limit(task)))
        return bundle

    def receive(self, answer: list[tuple[int, Outcome | None]]) -> None:
        """Write down what a worker sent back."""
        with self._lock:
            if all(outcome is None for _, outcome in answer):
                self._new_workers += 1
            for number, outcome in answer:
                task = self._under_way.pop(number)
                if outcome is None:
                    task.running = False
                else:
                    self.schedule.give_back(task, outcome)
        if self.limits.look(self._lock):
            self.stopped = True

    def lost(self) -> None:
        """No answer will come for what is under way."""
        with self._lock:
            self._under_way.clear()
            self.schedule.put_back()
            self._new_workers = self.jobs


def check_jobs(n_jobs: int | None) -> None:
    """Refuse what joblib would not understand."""
    if n_jobs is not None and n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0; try 1, or -1 for every core.")
