"""Running a study: submit jobs to a pool, write what comes back, until every job is finished or has failed.

Several drivers may run one study, on one machine or on many that share its folder. Each may be stopped or
killed at any moment: finished jobs stay finished, the others are run again by the next driver.

When the disk is full, a driver starts nothing new, keeps what comes back in memory and tries again to write
it; after a while it gives up.
"""

from __future__ import annotations

import errno
import os
import platform
import secrets
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from hardmax.errors import IncompleteError, InvalidInputError
from hardmax.progress import shown
from hardmax.training.studies.pools import Lost, Pool, pool_for
from hardmax.training.studies.progress import Pace, StudyProgress, progress_of
from hardmax.training.studies.run_files import RunRecord
from hardmax.training.studies.runners import RUNNERS
from hardmax.training.studies.runs import Run, share_of
from hardmax.training.studies.store import DriverState, RunStore
from hardmax.training.studies.study import Study, StudyJob, planned

__all__ = ["run_study"]

_POLL = 1.0  # seconds between two looks at jobs that other drivers run
_REPORT_EVERY = 0.5  # seconds between two reports of progress
_RETRY = 1.0  # seconds between two attempts to write to a full disk
_WRITE_EVERY = 5.0  # seconds after which a driver writes its file again
_DEATHS = 3  # workers that a job may lose
_STARTS = 3  # workers in a row that die before they have begun a job
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def run_study(
    folder: str | Path,
    study: Study | None = None,
    *,
    n_jobs: int | None = None,
    dask: str | None = None,
    runner: str | None = None,
    retry_failed: bool = False,
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
        When the disk stays full, or the cluster is gone. Everything that was finished is kept.

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
            Driver(name, store, pool, shares, report, disk_full_timeout, recovered, attempts).run()
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


class Driver:
    """One driver."""

    def __init__(
        self,
        name: str,
        store: RunStore,
        pool: Pool,
        shares: Path,
        progress: Callable[[StudyProgress], object] | None,
        disk_full_timeout: float,
        recovered: int,
        attempts: Mapping[str, int],
    ) -> None:
        self.name, self.store, self.pool = name, store, pool
        self._shares, self._progress, self._timeout = shares, progress, disk_full_timeout
        self._recovered = recovered
        self._attempts, self._deaths = Counter(attempts), Counter[str]()
        self._failed_starts = 0
        self._queue = deque(self._by_cost(list(store.jobs.values())))
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

    def run(self) -> None:
        """Run jobs until none is left, here or anywhere."""
        while True:
            self._write_results()
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
                self._attempts[job.key] += 1
                shares = str(self._shares / job.key) if self.pool.local else None
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
        if self._progress is not None:
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
        begun = self._shares / key
        if isinstance(outcome, Lost):
            self._lose(job, outcome.reason, begun=not self.pool.local or begun.exists())
        elif isinstance(outcome, Run):
            record = RunRecord(
                key,
                outcome.values,
                outcome.seconds,
                outcome.cpu_seconds,
                self._attempts[key],
                outcome.version,
                time.time(),
            )
            self._unwritten.append(lambda: store.finish(outcome.content, record))
        else:
            self._unwritten.append(lambda: store.fail(key, outcome, self._attempts[key]))
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
        self._unwritten.append(lambda: self.store.fail(job.key, error, self._attempts[job.key]))

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
        self._full_since = now if self._full_since is None else self._full_since
        self._trouble = f"waiting for room on the disk ({error.strerror})"
        self._retry_at = now + _RETRY
        if not self._running and now - self._full_since >= self._timeout:
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
        if self._progress is None or (clock < self._report_at and not now):
            return
        for job in self._running.values():
            share, pace = share_of(self._shares / job.key), self._paces.get(job.key)
            if share is not None and (pace is None or share != pace.share):
                self._paces[job.key] = Pace.after(pace, share, clock)
        self._progress(
            progress_of(self.store, paces=self._paces, recovered=self._recovered, trouble=self._trouble)
        )
        end = time.monotonic()
        self._report_at = end + max(_REPORT_EVERY, 20 * (end - clock))  # of many jobs, less often
