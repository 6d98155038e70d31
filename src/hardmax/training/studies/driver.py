"""Running a study: submit jobs to a pool, write what comes back, until every job is finished or has failed.

Several drivers may run one study, on one machine or on many that share its folder. Each may be stopped or
killed at any moment: finished jobs stay finished, the others are run again by the next driver. When the disk
is full, a driver starts nothing new, keeps what comes back in memory and tries again to write it; after a
while it gives up.

A pool runs jobs in processes or threads of this machine, or on a Dask cluster: whatever joblib is configured
for (:func:`joblib.parallel_config`), processes unless something else was chosen. Every process runs one job
at a time and is a pool of its own to loky, the library behind joblib's processes, so that a process that dies
takes only its own job along. joblib's ``Parallel`` is not used, because its Dask backend waits for ever for a
job whose worker was killed.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor
from joblib.parallel import get_active_backend

from hardmax.errors import HardmaxError, IncompleteError, InvalidInputError, MissingExtraError, written
from hardmax.limits import Clock
from hardmax.progress import shown
from hardmax.training.studies.overview import Pace, StudyProgress, progress_of
from hardmax.training.studies.runners import RUNNERS, Run, perform, prepare_process, share_of
from hardmax.training.studies.store import DriverState, RunRecord, RunStore
from hardmax.training.studies.study import Study, StudyJob, planned

_MOST_JOBS = 10_000
_POLL = 1.0  # seconds between two looks at jobs that other drivers run
_REPORT_EVERY = 0.5  # seconds between two reports of progress
_RETRY = 1.0  # seconds between two attempts to write to a full disk
_WRITE_EVERY = 5.0  # seconds after which a driver writes its file again
_DEATHS = 3  # workers that a job may lose
_STARTS = 3  # workers in a row that die before they have begun a job
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_LOOK_EVERY = 2.0  # seconds between two counts of the workers of a cluster
_NO_WORKER = 60.0  # seconds without any worker


def run_study(
    folder: str | Path,
    study: Study | None = None,
    *,
    n_jobs: int | None = None,
    dask: str | None = None,
    runner: str | None = None,
    retry_failed: bool = False,
    time_limit: float | None = None,
    progress: Callable[[StudyProgress], object] | bool | None = None,
    disk_full_timeout: float = 60.0,
) -> StudyProgress:
    """Run the jobs of a study that are not finished, and return when all are.

    Parameters
    ----------
    folder : path-like
        Of the study; it is made if need be.
    study : Study, optional
        Its jobs, if the folder is new or shall get more.
    n_jobs : int, optional
        How many run at a time, each in a process of its own; -1 for every core. If left out, what joblib is
        configured for (:func:`joblib.parallel_config`, which may also choose threads or a Dask cluster), or
        one. On a cluster, the most; one for each of its threads if left out.
    dask : str, optional
        The address of a Dask scheduler, whose workers run the jobs.
    runner : str, optional
        The runner of a study that is there already, unless it is one with a short name: a file alone does
        not decide which code is run.
    retry_failed : bool
        Run failed jobs again, too.
    time_limit : float, optional
        Seconds after which jobs that are running are stopped; they are run again when the study goes on.
    progress : bool or callable, optional
        ``True`` shows a bar; a function is called with a :class:`StudyProgress` every now and then.
    disk_full_timeout : float
        Seconds to wait for room on a full disk.

    Returns
    -------
    StudyProgress
        Every job is finished or failed.

    Raises
    ------
    InvalidInputError
        When there is no such study, or its runner does not exist.
    FileFormatError
        When the store is damaged, or of a newer hardmax.
    IncompleteError
        When the time is over, the disk stays full, or the cluster is gone. Everything that was finished is
        kept.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/cells"
    >>> jobs = [{"widths": [2, 8, 8, 1], "seed": seed, "box": 4} for seed in (0, 1)]
    >>> study = Study.of("cells", jobs, runner="cells")
    >>> done = run_study(folder, study, n_jobs=2)
    >>> done.finished, done.complete
    (2, True)
    >>> RunStore(folder).result(study.jobs[1].key)
    <CellCount: ... cells, complete, exact>
    """
    clock = Clock(time_limit, "run all jobs")
    if study is None:
        _check_trust(folder, runner)
    try:
        store = RunStore(folder) if study is None else RunStore.create(folder, study)
        attempts = store.retry_failed() if retry_failed else {}
        recovered = len(store.recover())
        _check_plan(store)
        with ExitStack() as stack:
            report = stack.enter_context(shown(progress, lambda s: (s.finished / s.total, str(s))))
            name = secrets.token_hex(8)
            shares = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hardmax-")))
            stack.callback(store.remove_driver, name)
            pool = pool_for(n_jobs, dask)
            stack.callback(pool.close)  # first of all: then nothing runs here any more
            counts = recovered, Counter(attempts)
            Driver(name, store, pool, shares, report, disk_full_timeout, *counts).run(clock)
        return progress_of(store, recovered=recovered)
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        raise IncompleteError(
            f"{folder} cannot be written ({error.strerror}); everything that was finished is kept. Make "
            f"room, then: hardmax training resume {folder}."
        ) from error


def _check_trust(folder: str | Path, runner: str | None) -> None:
    stated = RunStore(folder).runner
    if runner is not None and runner != stated:
        raise InvalidInputError(
            f"runner must be that of the study in {folder}, which is {stated!r}, but was {runner!r}."
        )
    if runner is None and stated not in RUNNERS:
        raise InvalidInputError(
            f"the study in {folder} asks to run {stated!r}, which is no part of hardmax; if you trust it, "
            "name it as its runner."
        )


def _check_plan(store: RunStore) -> None:
    """Refuse jobs that would be run today in another way than was planned."""
    if store.runner not in RUNNERS:
        return
    row = next(iter(store.rows("waiting")), None)
    if row is not None and planned(row.job, store.runner).key != row.key:
        raise InvalidInputError(
            f"{store.folder} waits for jobs that this version of hardmax would run with other numbers; begin "
            "the study anew in another folder, or go on with the version that began it."
        )


@dataclass(eq=False)
class Driver:
    """One driver; ``shares`` is the folder in which its jobs report how much of them is done."""

    name: str
    store: RunStore
    pool: Pool
    shares: Path
    progress: Callable[[StudyProgress], object] | None
    disk_full_timeout: float
    recovered: int
    attempts: Counter[str]

    def __post_init__(self) -> None:
        self._deaths, self._failed_starts = Counter[str](), 0
        self._queue = deque(self._by_cost(list(self.store.jobs.values())))
        self._running: dict[Future[Any], StudyJob] = {}
        self._since: dict[str, float] = {}
        self._paces: dict[str, Pace] = {}
        self._unwritten: deque[Callable[[], None]] = deque()
        self._full_since: float | None = None
        self._trouble = ""
        self._look_at = self._retry_at = self._report_at = self._write_at = float("-inf")

    @staticmethod
    def _by_cost(jobs: list[StudyJob]) -> list[StudyJob]:
        """The most costly ones first."""
        return sorted(jobs, key=lambda job: -job.cost)

    def run(self, clock: Clock) -> None:
        """Run jobs until none is left, here or anywhere, or the time is over."""
        while True:
            self._write_results()
            if clock.over:
                state = progress_of(self.store)
                clock.check(f"{state.finished} of {state.total} jobs, which are kept")
            self._submit()
            if not (self._running or self._unwritten or self._queue):
                self._queue.extend(self._by_cost(self.store.read_jobs()))  # others may have added some
                if not self._queue:
                    self._report(now=True)
                    return
            self._wait()
            self._write_driver()
            self._report()

    def _submit(self) -> None:
        """Start jobs in free slots, except for those that other drivers run or have finished."""
        if self._unwritten or time.monotonic() < self._look_at:
            return
        while (free := self.pool.slots() - len(self._running)) > 0:
            chosen = self._choose(free)
            if not chosen:
                self._look_at = time.monotonic() + _POLL
                return
            for job in chosen:
                self._since[job.key] = time.time()
            self._write_driver(now=True)
            elsewhere = self._elsewhere()  # again: another driver may have chosen the same at this moment
            for job in chosen:
                mine = (self._since[job.key], self.name)
                if elsewhere.get(job.key, mine) < mine or self._is_done(job.key):
                    del self._since[job.key]
                    self._queue.append(job)
                    continue
                self.attempts[job.key] += 1
                shares = str(self.shares / job.key) if self.pool.local else None
                self._running[self.pool.submit(self.store.runner, job.text, shares)] = job

    def _choose(self, n: int) -> list[StudyJob]:
        """Take the next jobs from the queue; those that other drivers run go to its end."""
        elsewhere = self._elsewhere()
        chosen: list[StudyJob] = []
        passed: list[StudyJob] = []
        while len(chosen) < n and self._queue:
            job = self._queue.popleft()
            if job.key in elsewhere:
                passed.append(job)
            elif not self._is_done(job.key):
                chosen.append(job)
        self._queue.extend(passed)
        return chosen

    def _elsewhere(self) -> dict[str, tuple[float, str]]:
        """The jobs that other drivers run: since when, and which driver."""
        return {
            key: (since, driver.name)
            for driver in self.store.drivers()
            if driver.name != self.name
            for key, since in driver.running.items()
        }

    def _is_done(self, key: str) -> bool:
        return self.store.result_path(key).exists() or self.store.failure(key) is not None

    def _wait(self) -> None:
        """Wait until a job is done, or something else is due."""
        now = time.monotonic()
        due = [self._write_at]
        if self.progress is not None:
            due.append(self._report_at)
        if self._unwritten:
            due.append(self._retry_at)
        pause = min(max(min(due) - now, 0.0), _POLL)
        if not self._running:
            time.sleep(pause)
            return
        done, _ = wait(self._running, timeout=pause, return_when=FIRST_COMPLETED)
        for future in done:
            self._receive(self._running.pop(future), self.pool.outcome(future))

    def _receive(self, job: StudyJob, outcome: Run | str | Lost) -> None:
        key, store = job.key, self.store
        self._since.pop(key)
        self._paces.pop(key, None)
        self._look_at = float("-inf")
        begun = self.shares / key
        if isinstance(outcome, Lost):
            self._lose(job, outcome.reason, begun=not self.pool.local or begun.exists())
        elif isinstance(outcome, Run):
            stated = {name: value for name, value in vars(outcome).items() if name != "content"}
            record = RunRecord(key=key, attempts=self.attempts[key], finished=time.time(), **stated)
            self._unwritten.append(lambda: store.finish(outcome.content, record))
        else:
            self._unwritten.append(lambda: store.fail(key, outcome, self.attempts[key]))
        begun.unlink(missing_ok=True)

    def _lose(self, job: StudyJob, reason: str, *, begun: bool) -> None:
        """Run a job again whose worker died, unless it has lost too many."""
        self._failed_starts = 0 if begun else self._failed_starts + 1
        if self._failed_starts >= _STARTS:
            raise IncompleteError(f"workers cannot be started: {reason}, {_STARTS} times in a row.")
        self._deaths[job.key] += begun
        deaths = self._deaths[job.key]
        if deaths < _DEATHS:
            self._queue.appendleft(job)
            return
        error = f"its worker died {deaths} times; the last time, {reason}"
        self._unwritten.append(lambda: self.store.fail(job.key, error, self.attempts[job.key]))

    def _write_results(self) -> None:
        """Write what came back; what does not fit on the disk is tried again later."""
        if time.monotonic() < self._retry_at:
            return
        while self._unwritten:
            try:
                self._unwritten[0]()
            except OSError as error:
                self._wait_for_room(error)
                return
            self._unwritten.popleft()
            self._full_since, self._trouble = None, ""

    def _wait_for_room(self, error: OSError) -> None:
        if error.errno not in _DISK_FULL:
            raise error
        now = time.monotonic()
        if self._full_since is None:
            self._full_since, self._report_at = now, now  # trouble is reported at once
        self._trouble = f"waiting for room on the disk ({error.strerror})"
        self._retry_at = now + _RETRY
        if not self._running and now - self._full_since >= self.disk_full_timeout:
            raise error

    def _write_driver(self, *, now: bool = False) -> None:
        """Say what runs here. If the disk is full, other drivers may run it a second time, no more."""
        clock = time.monotonic()
        if clock < self._write_at and not now:
            return
        self._write_at = clock + _WRITE_EVERY
        driver = DriverState(
            self.name, platform.node(), os.getpid(), self.pool.slots(), dict(self._since), time.time()
        )
        with suppress(OSError):
            self.store.write_driver(driver)

    def _report(self, *, now: bool = False) -> None:
        clock = time.monotonic()
        if self.progress is None or (clock < self._report_at and not now):
            return
        for job in self._running.values():
            share, pace = share_of(self.shares / job.key), self._paces.get(job.key)
            if share is not None and (pace is None or share != pace.share):
                self._paces[job.key] = Pace.after(pace, share, clock)
        self.progress(
            progress_of(self.store, paces=self._paces, recovered=self.recovered, trouble=self._trouble)
        )
        end = time.monotonic()
        self._report_at = end + max(_REPORT_EVERY, 20 * (end - clock))  # of many jobs, less often


@dataclass(frozen=True)
class Lost:
    """Why a run was lost, through no fault of the job as far as one knows."""

    reason: str


class Pool:
    """What runs jobs; this one in threads of this process, for those who have configured joblib so. Ctrl-C
    waits for what they run."""

    local = True
    """Whether jobs run on this machine, so that they can report the share that is done."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._pool: Any = ThreadPoolExecutor(n)

    def slots(self) -> int:
        """How many jobs it can run at a time, as of now."""
        return self._n

    def submit(self, runner: str, text: str, shares: str | None) -> Future[Any]:
        """Run a job; there must be a free slot."""
        future: Future[Any] = self._pool.submit(perform, runner, text, shares)
        return future

    def outcome(self, future: Future[Any]) -> Run | str | Lost:
        """What came of a job that is done: a run, what it raised, or why it was lost."""
        made: Run | str = future.result()
        return made

    def close(self) -> None:
        """Stop everything."""
        self._pool.shutdown(cancel_futures=True)


def pool_for(n_jobs: int | None, dask: str | None) -> Pool:
    """The pool for so many jobs at a time, on the cluster with this address, or as joblib is configured."""
    if n_jobs is not None and (n_jobs == 0 or not -1 <= n_jobs <= _MOST_JOBS):
        raise InvalidInputError(
            f"n_jobs must be a positive number, or -1 for every core, but was {written(n_jobs)}."
        )
    if dask is not None:
        return _Cluster(_connected(dask), dask, most=None if n_jobs == -1 else n_jobs, own=True)
    backend, configured = get_active_backend()
    if hasattr(backend, "client"):
        client = backend.client
        most = configured if n_jobs is None else n_jobs
        most = None if most in (None, -1) else most
        return _Cluster(client, str(client.scheduler.address), most=most, own=False)
    n = backend.effective_n_jobs(n_jobs or configured or 1)
    if getattr(backend, "supports_sharedmem", False):
        return Pool(n)
    return _Processes(n, threads=getattr(backend, "inner_max_num_threads", None))


class _Processes(Pool):
    """Processes of this machine, each a pool of its own; one that dies is replaced."""

    def __init__(self, n: int, *, threads: int | None) -> None:
        self._n = n
        given = {} if threads is None else dict.fromkeys(_THREADS, str(threads))
        self._environment = {**{name: os.environ.get(name, "1") for name in _THREADS}, **given}
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[Any], ProcessPoolExecutor] = {}

    def submit(self, runner: str, text: str, shares: str | None) -> Future[Any]:
        while True:
            process = self._idle.pop() if self._idle else self._started()
            try:
                future: Future[Any] = process.submit(perform, runner, text, shares, own_process=True)
            except BrokenExecutor:  # it died while it was idle
                process.shutdown(wait=False, kill_workers=True)
                continue
            self._busy[future] = process
            return future

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1, initializer=prepare_process, initargs=(os.getpid(),), env=self._environment
        )

    def outcome(self, future: Future[Any]) -> Run | str | Lost:
        process = self._busy.pop(future)
        try:
            made = super().outcome(future)
        except BrokenExecutor as error:
            process.shutdown(wait=False, kill_workers=True)
            ended = re.search(r"\{(.*)\}", str(error))
            return Lost(f"its worker ended with {ended[1]}" if ended else "its worker died")
        except BaseException:
            process.shutdown(wait=False, kill_workers=True)
            raise
        self._idle.append(process)
        return made

    def close(self) -> None:
        for process in (*self._idle, *self._busy.values()):
            process.shutdown(wait=True, kill_workers=True)
        self._idle.clear()
        self._busy.clear()


class _Cluster(Pool):
    """A Dask cluster. It gets jobs as text and sends runs back, so its machines need not share a disk."""

    local = False

    def __init__(self, client: Any, address: str, *, most: int | None, own: bool) -> None:
        self._client, self._address, self._most, self._own = client, address, most, own
        self._pool = client.get_executor(pure=False)
        self._killed = import_module("distributed").KilledWorker
        self._n, self._looked, self._seen = 0, float("-inf"), time.monotonic()

    def slots(self) -> int:
        """The threads of the cluster; workers may come and go."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_EVERY:
            try:
                self._n = sum(self._client.nthreads().values())
            except Exception as error:
                raise self._gone() from error
            self._looked = now
            if self._n:
                self._seen = now
            elif now - self._seen > _NO_WORKER:
                raise IncompleteError(
                    f"the cluster at {self._address} has had no worker for {_NO_WORKER:.0f} seconds; start "
                    "some with: dask worker."
                )
        return self._n if self._most is None else min(self._n, self._most)

    def outcome(self, future: Future[Any]) -> Run | str | Lost:
        try:
            return super().outcome(future)
        except HardmaxError:
            raise
        except self._killed:
            return Lost("it was killed on the cluster, again and again")
        except (CancelledError, OSError, TimeoutError) as error:
            raise self._gone() from error
        except Exception as error:
            raise IncompleteError(f"the cluster at {self._address} cannot run jobs: {error!r}.") from error

    def _gone(self) -> IncompleteError:
        return IncompleteError(f"the cluster at {self._address} is gone; what was finished is kept.")

    def close(self) -> None:
        self._pool.shutdown(wait=False)
        if self._own:
            self._client.close(timeout=5)


def _connected(address: str) -> Any:
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            "a cluster needs Dask, which is not installed; try: pip install distributed."
        ) from error
    try:
        return distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"the address of a Dask scheduler must be one that answers, but {address!r} does not."
        ) from error
