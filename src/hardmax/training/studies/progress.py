"""How far a study is, and how long it will take.

Costs say how much work each job is compared with the others. Seconds per unit of cost are the median over the
jobs that were finished last and those that report how fast they are: the first job of a worker may compile
for longer than it runs. What is left is shared by all slots of all running drivers, and takes at least as
long as the longest job that is running.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from hardmax.training.studies.store import STATES, RunStore

__all__ = ["Pace", "StudyProgress", "duration", "progress_of"]

_LAST = 200  # finished jobs that decide the speed


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is.

    Attributes
    ----------
    waiting, running, finished, failed : int
        Numbers of jobs.
    drivers, slots : int
        Running drivers, and how many jobs they run at a time.
    cpu_seconds : float
        Processor time of all finished jobs.
    remaining : float or None
        Estimated seconds; ``None`` while nothing is known, or no driver is running.
    recovered : int
        Finished jobs whose file was damaged when this driver began, and which are run again.
    trouble : str
        Why nothing can be written at the moment, or empty.
    """

    waiting: int
    running: int
    finished: int
    failed: int
    drivers: int = 0
    slots: int = 0
    cpu_seconds: float = 0.0
    remaining: float | None = None
    recovered: int = 0
    trouble: str = ""

    @property
    def total(self) -> int:
        """All jobs."""
        return self.waiting + self.running + self.finished + self.failed

    @property
    def complete(self) -> bool:
        """Whether every job is finished."""
        return self.finished == self.total

    def __str__(self) -> str:
        words = [f"{self.finished} of {self.total} finished", f"{self.running} running"]
        if self.failed:
            words.append(f"{self.failed} failed")
        if self.recovered:
            words.append(f"{self.recovered} with a damaged file run again")
        if self.remaining is not None:
            words.append(f"about {duration(self.remaining)} left")
        if self.trouble:
            words.append(self.trouble)
        return ", ".join(words)


def duration(seconds: float) -> str:
    """A time in the unit that fits.

    Examples
    --------
    >>> duration(45), duration(600), duration(86400)
    ('45 s', '10 min', '24.0 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


@dataclass(frozen=True)
class Pace:
    """How fast a running job is, from the shares that it reports.

    Attributes
    ----------
    share : float
        How much of it is done, from 0 to 1.
    gained, seconds : float
        How much of that was done since its first report, and in which time. What came before, such as
        compiling, does not count.
    first_at : float
        When that report came.
    """

    share: float
    gained: float
    seconds: float
    first_at: float

    @classmethod
    def after(cls, before: Pace | None, share: float, now: float) -> Pace:
        """The pace after one more report."""
        if before is None:
            return cls(share, 0.0, 0.0, now)
        return cls(share, share - before.share + before.gained, now - before.first_at, before.first_at)


def progress_of(
    store: RunStore,
    *,
    paces: Mapping[str, Pace] | None = None,
    recovered: int = 0,
    trouble: str = "",
) -> StudyProgress:
    """How far the study of a store is; ``paces`` says how fast some running jobs are."""
    paces = paces or {}
    rows, drivers, now = store.rows(), store.drivers(), time.time()
    states = Counter(row.state for row in rows)
    since = {key: at for driver in drivers for key, at in driver.running.items()}
    slots = sum(driver.slots for driver in drivers)
    finished = sorted(
        ((row.record, row.planned.cost) for row in rows if row.record is not None),
        key=lambda pair: pair[0].finished,
    )
    remaining: float | None = 0.0
    if states["waiting"] or states["running"]:
        remaining = _remaining(
            sum(row.planned.cost for row in rows if row.state == "waiting"),
            [
                (row.planned.cost, max(now - since.get(row.key, now), 0.0), paces.get(row.key))
                for row in rows
                if row.state == "running"
            ],
            [record.seconds / cost for record, cost in finished[-_LAST:]],
            slots,
        )
    return StudyProgress(
        **{state: states[state] for state in STATES},
        drivers=len(drivers),
        slots=slots,
        cpu_seconds=sum(record.cpu_seconds for record, _ in finished),
        remaining=remaining,
        recovered=recovered,
        trouble=trouble,
    )


def _remaining(
    waiting_cost: float,
    running: list[tuple[float, float, Pace | None]],
    rates: list[float],
    slots: int,
) -> float | None:
    """Seconds that are left.

    ``running`` holds cost, seconds so far and pace (if known) of each job, ``rates`` the seconds per unit of
    cost of finished ones.

    Examples
    --------
    >>> half = Pace(share=0.5, gained=0.4, seconds=8.0, first_at=0.0)
    >>> _remaining(4.0, [(2.0, 30.0, half)], [], 2)  # 10 s per unit; 5 units left, shared by two
    25.0
    >>> _remaining(0.0, [(2.0, 30.0, half), (9.0, 15.0, None)], [10.0, 10.0], 2)  # the longest one decides
    75.0
    >>> _remaining(3.0, [], [50.0, 1.0, 1.0], 1)  # the first one compiled something
    3.0
    """
    paced = [pace.seconds / pace.gained / cost for cost, _, pace in running if pace and pace.gained > 0]
    if not slots or not (rates or paced):
        return None
    rate = median([*rates, *paced])
    left = [_left(cost, seconds, pace, rate) for cost, seconds, pace in running]
    return max((rate * waiting_cost + sum(left)) / slots, *left, 0.0)


def _left(cost: float, seconds: float, pace: Pace | None, rate: float) -> float:
    """Seconds that a running job still needs."""
    if pace is None:
        return max(rate * cost - seconds, 0.0)
    own = pace.seconds / pace.gained if pace.gained > 0 else rate * cost
    return own * (1.0 - pace.share)
