"""Drivers: claim jobs, have them run, write down what comes back, until a study is done.

Several drivers may work on one study, on one machine or on many that share its folder. Each may be stopped or
killed at any moment: finished jobs stay finished, the others are run again by whoever comes next.

When the disk is full, a driver claims nothing new, keeps what comes back in memory and tries again to write
it; if nobody makes room it gives up in order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import joblib

from hardmax.errors import IncompleteError, InvalidInputError
from hardmax.lab.clusters import Cluster
from hardmax.lab.leases import LEASE, Seat
from hardmax.lab.progress import Pace, StudyProgress, progress_of
from hardmax.lab.runners import RUNNERS
from hardmax.lab.store import RunStore, disk_refuses
from hardmax.lab.studies import Study, planned
from hardmax.lab.workers import Crew, Report, Workers

__all__ = ["run_study"]

_POLL = 1.0  # seconds between two looks for jobs that others have given up
_TELL = 0.5  # seconds between two words about progress
_AGAIN = 1.0  # seconds between two tries to write to a disk that refuses
_RENEW = 5  # renewals in the time of one lease


def run_study(
    folder: str | Path,
    study: Study | None = None,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    runner: str | None = None,
    retry_failed: bool = False,
    progress: Callable[[StudyProgress], object] | None = None,
    lease: float = LEASE,
    patience: float = 60.0,
) -> StudyProgress:
    """Run the jobs of a study that are not finished, and return when all are.

    Parameters
    ----------
    folder : path-like
        Of the study; it is made if need be.
    study : Study, optional
        Its jobs, if the folder is new or shall get more.
    jobs : int, optional
        How many run at a time, each in a process of its own: one if left out, -1 for every core. On a
        cluster, the most; one for each of its threads if left out.
    dask : str, optional
        The address of a Dask scheduler, whose workers run the jobs.
    runner : str, optional
        The runner of a study that is there already, unless it is one with a short name: a file alone does
        not decide which code is run.
    retry_failed : bool
        Run failed jobs again, too.
    progress : callable, optional
        Is told a :class:`StudyProgress` every now and then.
    lease : float
        Seconds after which others may take the jobs of a driver that is not heard of any more.
    patience : float
        Seconds for which a full disk is borne.

    Returns
    -------
    StudyProgress
        Every job is finished or failed.

    Raises
    ------
    InvalidInputError
        When there is no such study, or its runner is not there.
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
    >>> done = run_study(folder, study, jobs=2)
    >>> done.finished, done.complete
    (2, True)
    >>> with RunStore(folder) as store:
    ...     store.result(study.jobs[1].key)
    <CellCount: ... cells, complete, exact>
    """
    n = _checked_jobs(jobs)
    if study is None:
        _check_trust(folder, runner)
    try:
        with RunStore(folder) if study is None else RunStore.create(folder, study) as store:
            if retry_failed:
                store.retry_failed()
            recovered = len(store.recover())
            _check_plan(store)
            with ExitStack() as stack:
                seat = Seat(store, slots=n or 1, lease=lease)
                stack.callback(seat.leave)
                crew = Workers(store.runner, n or 1) if dask is None else Cluster(store.runner, dask, most=n)
                stack.callback(crew.close)  # before the seat is left: whoever is next has the jobs alone
                Driver(seat, crew, progress=progress, patience=patience, recovered=recovered).run()
            return progress_of(store, recovered=recovered)
    except OSError as error:
        if not disk_refuses(error):
            raise
        raise IncompleteError(
            f"{folder} cannot be written ({error.strerror}); everything that was finished is kept. Make "
            f"room, then: hardmax lab resume {folder}."
        ) from error


def _checked_jobs(jobs: int | None) -> int | None:
    if jobs is not None and (jobs == 0 or jobs < -1):
        raise InvalidInputError(f"jobs must be a positive number, or -1 for every core, but was {jobs}.")
    return int(joblib.cpu_count()) if jobs == -1 else jobs


def _check_trust(folder: str | Path, runner: str | None) -> None:
    with RunStore(folder) as store:
        stated = store.runner
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
    """One driver at work."""

    def __init__(
        self,
        seat: Seat,
        crew: Crew,
        *,
        progress: Callable[[StudyProgress], object] | None = None,
        patience: float = 60.0,
        recovered: int = 0,
    ) -> None:
        self.seat, self.crew, self.store = seat, crew, seat.store
        self._progress, self._patience, self._recovered = progress, patience, recovered
        self._out: dict[str, Pace | None] = {}  # keys of jobs that were handed out, and how fast they are
        self._unwritten: deque[Callable[[], object]] = deque()
        self._refused: float | None = None  # since when the disk refuses
        self._trouble = ""
        self._claim_at = self._write_at = self._tell_at = float("-inf")
        self._renew_at = time.monotonic() + seat.lease / _RENEW

    def run(self) -> None:
        """Work until no job waits or runs, here or anywhere."""
        while True:
            self._write_down()
            self._hand_out()
            if not self._out and not self._unwritten and self._nothing_left():
                self._tell(now=True)
                return
            for report in self.crew.wait(self._pause()):
                self._receive(report)
            self._renew()
            self._tell()

    def _pause(self) -> float:
        now = time.monotonic()
        due = [self._renew_at, now + _POLL]
        if self._progress is not None:
            due.append(self._tell_at)
        return min(max(min(due) - now, 0.0), _POLL)

    def _nothing_left(self) -> bool:
        counts = self.store.counts()
        return counts["waiting"] == counts["running"] == 0

    def _hand_out(self) -> None:
        free = self.crew.slots() - len(self._out)
        if free <= 0 or self._unwritten or time.monotonic() < self._claim_at:
            return
        try:
            claims = self.seat.claim(free)
        except OSError as error:
            self._bear(error)
            self._claim_at = time.monotonic() + _AGAIN
            return
        self._refused, self._trouble = None, ""
        for claim in claims:
            self._out[claim.key] = None
            self.crew.hand_out(claim.key, claim.text)
        if len(claims) < free:
            self._claim_at = time.monotonic() + _POLL

    def _receive(self, report: Report) -> None:
        key = report.key
        if report.share is not None:
            if key in self._out:
                self._out[key] = Pace.after(self._out[key], report.share, time.monotonic())
            return
        self._out.pop(key, None)
        answer, error, lost = report.answer, report.error, report.lost
        if answer is not None:
            self._unwritten.append(lambda: self.seat.finish(key, answer))
        elif error is not None:
            self._unwritten.append(lambda: self.seat.fail(key, error))
        else:
            self._unwritten.append(lambda: self.seat.lose(key, lost or "it is gone"))
        self._claim_at = float("-inf")

    def _write_down(self) -> None:
        if time.monotonic() < self._write_at:
            return
        while self._unwritten:
            try:
                self._unwritten[0]()
            except OSError as error:
                self._bear(error)
                self._write_at = time.monotonic() + _AGAIN
                return
            self._unwritten.popleft()
            self._refused, self._trouble = None, ""

    def _bear(self, error: OSError) -> None:
        """Go on with a disk that refuses, for a while."""
        if not disk_refuses(error):
            raise error
        now = time.monotonic()
        self._refused = now if self._refused is None else self._refused
        self._trouble = f"waiting for room on the disk ({error.strerror})"
        if not self._out and now - self._refused >= self._patience:
            raise error

    def _renew(self) -> None:
        now = time.monotonic()
        if now < self._renew_at:
            return
        self._renew_at = now + self.seat.lease / _RENEW
        try:
            mine = self.seat.renew(self.crew.slots())
        except OSError as error:
            if not disk_refuses(error):
                raise
            return
        for key in [key for key in self._out if key not in mine]:
            del self._out[key]  # the lease ran out, and another driver has the job or has finished it
            self.crew.drop(key)

    def _tell(self, *, now: bool = False) -> None:
        clock = time.monotonic()
        if self._progress is None or (clock < self._tell_at and not now):
            return
        self._tell_at = clock + _TELL
        paces = {key: pace for key, pace in self._out.items() if pace is not None}
        self._progress(progress_of(self.store, paces=paces, recovered=self._recovered, trouble=self._trouble))
