"""Processing the tasks of an enumeration: here, in threads, or on a cluster.

A worker takes a task, works on it for a fraction of a second and gives it back, with the cells it found and
the state it has come to. So the list of tasks always knows a moment from which everything can go on: limits,
progress, Ctrl-C, checkpoints and workers that die all rely on that and on nothing else.

Threads share the list, each with a machine of its own; the compiled machines hold no lock of the interpreter.
Processes, here or on a Dask cluster, get the tasks as messages: plain arrays, and the network once per
worker. joblib says which of them are wanted.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

from joblib.externals.loky import get_reusable_executor
from joblib.parallel import LokyBackend, MultiprocessingBackend, get_active_backend

from hardmax.errors import HardmaxError, InvalidInputError, written
from hardmax.progress import Progress
from hardmax.regions.engine.question import Question
from hardmax.regions.engine.stack_machine import State
from hardmax.regions.engine.tasks import Checkpoint, Outcome, Schedule, Task, cut_task, snapshot
from hardmax.regions.maps.merging import Fingerprints

_MOST_JOBS = 10_000
_SLICE = 0.05  # seconds between two looks at the clock
BUNDLE = 64  # tasks in a message to a worker of a cluster, at most
AHEAD = 2  # messages per worker that are under way: one waits while one is processed
LETTER = 32  # messages that are handed out, or collected, at once
LETTER_BYTES = 1 << 22  # about as many bytes at once, and in a message; Dask warns at ten million
_NUMBERS = 1 << 10  # tasks that a message may lead to
_EARLY = 1.0  # seconds after which it is worth to know what to expect
_MOST_STEPS = 1 << 20  # in a call; an engine may return after fewer
_PATIENCE = 3  # failures in a row without any progress before a cluster's error is raised
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def far_slice(under_way: int) -> float:
    """Seconds that a message keeps a worker of a cluster busy, at most.

    A message costs the scheduler of Dask and the client about a millisecond each. The more messages are under
    way, the longer they are, so that the two can follow; while there are few, pieces come back soon.
    """
    return max(0.5, 0.0025 * under_way)


def enough_weight(waiting: float, jobs: int) -> float:
    """Of tasks of this weight that wait for so many workers: how much is worth a message.

    Small tasks go out together, as many as weigh as much as a big one. The list of tasks does not depend on
    that, only who processes them.
    """
    return max(waiting, 1.0) / (2.0 * jobs)


def last_task(seconds: float) -> float:
    """The part of a message's time in which no task is begun, so that few come back unfinished: those have
    all the maps of the machine along, ten times as many bytes as a piece that waits."""
    return min(0.5, 0.5 * seconds)


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
        used = time.thread_time()
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
        used = time.thread_time() - used
        if self._prints is None:
            self._prints = self.question.prints(machine)
        cells = self.question.kept(machine, self._prints)
        if machine.done:
            return Outcome(None, machine.tally, cells, used)
        self._at = snapshot(machine)
        return Outcome(self._at, machine.tally, cells, used)

    def explore(self, task: Task, limit: int, numbers: Iterator[int], begin: float, end: float) -> list[Task]:
        """Process a task and the tasks it is cut into, as long as there is time and there are numbers.

        After ``begin`` none is begun, at ``end`` one is left unfinished. Returns all of them, in order. They
        are those that the list of tasks would have cut.
        """
        tasks, at = [task], 0
        while at < len(tasks):
            task, now = tasks[at], time.monotonic()
            if task.state is None or (now >= begin and at > 0):
                break
            task.take(self.work(task.state, limit if at == 0 else task.quota, max(end - now, 0.0)))
            at += 1
            if task.used_up and task.generation:
                pieces = cut_task(self.machine, task, numbers)
                if pieces is None:
                    break
                tasks[at:at] = pieces
            elif task.state is not None:
                break
        return tasks


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
                _far_away(question, schedule, limits, backend, jobs)
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


@dataclass(frozen=True)
class Message:
    """What a worker gets: tasks with the cells that each may find, numbers for more tasks, and the time it
    has."""

    run: str
    tasks: list[tuple[Task, int]]
    numbers: range
    seconds: float


@dataclass(frozen=True)
class Answer:
    """What became of the tasks of a message, each in one or more tasks, and how many numbers were used.

    ``None``: the worker does not have the question of this run yet. Tasks that are left out were not started.
    """

    tasks: list[list[Task]] | None
    used: int = 0


_here = threading.local()  # the machine that a thread of a worker process keeps between messages


def work(message: Message, question: dict[str, Any] | None) -> Answer:
    """What a worker of a cluster does with a message; the question comes along if it may be new to it."""
    if getattr(_here, "run", None) != message.run:
        if question is None:
            return Answer(None)
        asked = Question.of_message(question)
        _here.worker, _here.run = Worker(asked, asked.machine()), message.run
    numbers, end = iter(message.numbers), time.monotonic() + message.seconds
    begin = end - last_task(message.seconds)
    results: list[list[Task]] = []
    for task, limit in message.tasks:
        if results and time.monotonic() >= begin:
            break
        results.append(_here.worker.explore(task, limit, numbers, begin, end))
    return Answer(results, len(message.numbers) - len(list(numbers)))


class Processes:
    """The processes of joblib on this machine. Each gets the question once, as far as that can be known."""

    def __init__(self, jobs: int, question: dict[str, Any]) -> None:
        self._executor: Executor = get_reusable_executor(max_workers=jobs, env=_ONE_THREAD)
        self._question, self._new_workers = question, jobs

    def send(self, messages: list[Message], answer: Callable[..., Any] = work) -> list[Future[Any]]:
        """Hand out messages; what becomes of each is a future."""
        return [self._executor.submit(answer, message, self._for_new_worker()) for message in messages]

    def _for_new_worker(self) -> dict[str, Any] | None:
        self._new_workers -= 1
        return self._question if self._new_workers >= 0 else None

    def results(self, futures: list[Future[Any]]) -> list[Any]:
        """What became of messages that are done: answers, or the errors that were raised instead."""
        return [future.exception() or future.result() for future in futures]

    def lost(self) -> None:
        """A message had no answer: whoever gets the next one may be new."""
        self._new_workers = max(self._new_workers, 0) + 1


class DaskWorkers:
    """The workers of a Dask cluster. The scheduler brings the question to all of them, from one to the next.

    Messages go out and come back in bundles. What a message costs the scheduler is mostly the price of a
    letter to it or from it, so that ten in one letter cost it less than half.
    """

    def __init__(self, client: Any, question: dict[str, Any]) -> None:
        self._client = client
        [self._question] = client.scatter([question], broadcast=True, hash=False)

    def send(self, messages: list[Message], answer: Callable[..., Any] = work) -> list[Any]:
        """Hand out messages; what becomes of each is a future."""
        futures: list[Any] = self._client.map(answer, messages, question=self._question, pure=False)
        return futures

    def results(self, futures: list[Any]) -> list[Any]:
        """What became of messages that are done: answers, or the errors that were raised instead."""
        finished = [future for future in futures if future.status == "finished"]
        try:
            answers = iter(self._client.gather(finished))
        except Exception as error:  # the worker that had one of them is gone
            return [error] * len(futures)
        return [
            next(answers) if future in finished else future.exception() or RuntimeError(future.status)
            for future in futures
        ]

    def lost(self) -> None:
        """A message had no answer."""


def far_workers(backend: Any, jobs: int, question: dict[str, Any]) -> Processes | DaskWorkers:
    """The processes of a backend of joblib."""
    if hasattr(backend, "client"):  # Dask
        return DaskWorkers(backend.client, question)
    if isinstance(backend, LokyBackend | MultiprocessingBackend):
        return Processes(jobs, question)
    raise InvalidInputError(
        "joblib's backend must be threading, loky, multiprocessing or dask, but was "
        f"{type(backend).__name__}; try joblib.parallel_config(backend='loky')."
    )


def _far_away(question: Question, schedule: Schedule, limits: _Limits, backend: Any, jobs: int) -> None:
    """Process tasks in other processes, in messages.

    As many messages are under way as workers can take, whatever the others wait for: the pieces of a task
    that is cut go out when its answer is here.
    """
    messages, asked = _Messages(schedule, limits, jobs), question.message()
    answers: SimpleQueue[Any] = SimpleQueue()
    under_way: dict[Any, tuple[Processes | DaskWorkers, _Sent]] = {}
    far, failures = far_workers(backend, jobs, asked), 0
    try:
        while True:
            while ready := messages.bundle(AHEAD * jobs, len(under_way)):
                futures = far.send([sent.message for sent in ready])
                under_way |= {future: (far, sent) for future, sent in zip(futures, ready, strict=True)}
                for future in futures:
                    future.add_done_callback(answers.put)
            if not under_way:
                return
            done = _waiting(answers, LETTER)
            if not done:
                messages.look()
            by_sender: dict[Any, list[Any]] = {}
            for future in done:
                by_sender.setdefault(under_way[future][0], []).append(future)
            for sender, futures in by_sender.items():
                for future, answer in zip(futures, sender.results(futures), strict=True):
                    _, sent = under_way.pop(future)
                    if isinstance(answer, Answer):
                        failures = 0
                        messages.receive(sent, answer, far)
                        continue
                    if isinstance(answer, HardmaxError) or not isinstance(answer, Exception):
                        raise answer
                    # workers died, or their connections: tasks are where they were before they were sent
                    messages.lost(sent, far)
                    if sender is far:  # the first of perhaps many messages that this loses
                        failures += 1
                        if failures > _PATIENCE:
                            raise answer
                        far = far_workers(backend, jobs, asked)
    finally:
        for future in under_way:
            future.cancel()


def _waiting(answers: SimpleQueue[Any], most: int) -> list[Any]:
    """What is in a queue, at most so much; waits a moment for the first."""
    found = []
    try:
        found.append(answers.get(timeout=_SLICE))
        while len(found) < most:
            found.append(answers.get_nowait())
    except Empty:
        pass
    return found


@dataclass(frozen=True)
class _Sent:
    """A message that is under way, and the tasks of the list that it stands for."""

    message: Message
    tasks: list[Task]


def _bytes(task: Task) -> int:
    return sum(array.nbytes for array in (task.state or {}).values())


class _Messages:
    """Messages to the workers of a cluster, and their answers."""

    def __init__(self, schedule: Schedule, limits: _Limits, jobs: int) -> None:
        self.run = secrets.token_hex(8)
        self.schedule, self.limits, self.jobs = schedule, limits, jobs
        self.stopped = schedule.full

    def bundle(self, most: int, under_way: int) -> list[_Sent]:
        """The next messages, so that at most so many are under way; those of one letter."""
        ready: list[_Sent] = []
        size = 0
        while len(ready) < min(LETTER, most - under_way) and size < LETTER_BYTES:
            sent = self.next(under_way + len(ready))
            if sent is None:
                break
            ready.append(sent)
            size += sum(map(_bytes, sent.tasks))
        return ready

    def next(self, under_way: int) -> _Sent | None:
        """A message with the first tasks that wait; ``None`` if there are none."""
        if self.stopped:
            return None
        schedule, weight, size = self.schedule, 0.0, 0
        tasks: list[Task] = []
        enough = enough_weight(schedule.weight_waiting, self.jobs)
        while len(tasks) < BUNDLE and size < LETTER_BYTES and not weight >= enough:
            task = schedule.next()
            if task is None:
                break
            tasks.append(task)
            weight += task.weight
            size += _bytes(task)
        if not tasks:
            return None
        # with a limit on cells, tasks are cut here, where it is known who comes before
        numbers = schedule.reserve(_NUMBERS) if schedule.max_cells is None else range(0)
        left = self.limits.left() / AHEAD  # it may have to wait for another message to be processed
        seconds = max(0.01, min(far_slice(under_way), left))
        bundle = [
            (replace(task, begin=None, cells=[], running=False, seconds=0.0), schedule.limit(task))
            for task in tasks
        ]
        return _Sent(Message(self.run, bundle, numbers, seconds), tasks)

    def receive(self, sent: _Sent, answer: Answer, far: Processes | DaskWorkers) -> None:
        """Write down what a worker sent back."""
        if answer.tasks is None:
            self.lost(sent, far)
            return
        spare = sent.message.numbers[answer.used :]
        for task, tasks in zip(sent.tasks, answer.tasks, strict=False):
            self.schedule.exchange(task, tasks, spare)
            spare = range(0)
        self.schedule.put_back(sent.tasks[len(answer.tasks) :])
        self.look()

    def look(self) -> None:
        """Report, save, and stop at a limit."""
        self.stopped = self.limits.look(nullcontext()) or self.schedule.full

    def lost(self, sent: _Sent, far: Processes | DaskWorkers) -> None:
        """No answer will come."""
        self.schedule.put_back(sent.tasks)
        far.lost()


def check_jobs(n_jobs: int | None) -> None:
    """Refuse what joblib would not understand."""
    if n_jobs is not None and n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0; try 1, or -1 for every core.")
    if n_jobs is not None and abs(n_jobs) > _MOST_JOBS:
        raise InvalidInputError(
            f"n_jobs must be at most {_MOST_JOBS:,}, but was {written(n_jobs)}; try -1 for every core."
        )
