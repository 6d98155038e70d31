"""How far a study is, and how long it will take.

Costs say how much work each job is compared with the others. What finished jobs took, and running ones so
far, gives seconds per unit of cost; what is left is shared by all slots of all living drivers, and takes at
least as long as the longest job that is under way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from hardmax.lab.leases import living_drivers
from hardmax.lab.store import RunStore

__all__ = ["StudyProgress", "progress_of"]


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is.

    Attributes
    ----------
    waiting, running, finished, failed : int
        Numbers of jobs.
    drivers, slots : int
        Who is at work, and on how many jobs at a time.
    cpu_seconds : float
        What all finished jobs took.
    remaining : float or None
        Estimated seconds; ``None`` while nothing is known, or nobody works.
    recovered : int
        Finished jobs whose file was damaged when this driver began, and which are run again.
    trouble : str
        Why nothing can be written at the moment, if that is so.
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


@dataclass(frozen=True)
class Pace:
    """How fast a running job is: what it says about itself, since it first did.

    Attributes
    ----------
    share : float
        How much of it is done, from 0 to 1.
    gained, seconds : float
        How much of that was done since its first word, and in which time. What came before, such as
        compiling, does not count.
    first_at : float
        When that word came.
    """

    share: float
    gained: float
    seconds: float
    first_at: float

    @classmethod
    def after(cls, before: Pace | None, share: float, now: float) -> Pace:
        """The pace after one more word."""
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
    with store.translated():
        drivers = living_drivers(store)
        done_cost, done_seconds, cpu = store.database.execute(
            "SELECT total(cost), total(seconds), total(cpu_seconds) FROM jobs WHERE state = 'finished'"
        ).fetchone()
        (waiting_cost,) = store.database.execute(
            "SELECT total(cost) FROM jobs WHERE state = 'waiting'"
        ).fetchone()
        running = store.database.execute(
            "SELECT key, cost, since FROM jobs WHERE state = 'running'"
        ).fetchall()
    counts = store.counts()
    slots = sum(slots for _, _, slots in drivers)
    now = time.time()
    jobs = [(cost, max(now - since, 0.0), paces.get(key)) for key, cost, since in running]
    remaining = _remaining(float(waiting_cost), jobs, float(done_cost), float(done_seconds), slots)
    if not counts["waiting"] and not counts["running"]:
        remaining = 0.0
    return StudyProgress(
        **counts,
        drivers=len(drivers),
        slots=slots,
        cpu_seconds=float(cpu),
        remaining=remaining,
        recovered=recovered,
        trouble=trouble,
    )


def _remaining(
    waiting_cost: float,
    running: list[tuple[float, float, Pace | None]],
    done_cost: float,
    done_seconds: float,
    slots: int,
) -> float | None:
    """Seconds that are left; ``running`` holds cost, seconds so far and pace (if known) of each job.

    Examples
    --------
    >>> half = Pace(share=0.5, gained=0.5, seconds=10.0, first_at=0.0)
    >>> _remaining(4.0, [(2.0, 10.0, half)], 0.0, 0.0, 2)  # 10 s per unit; 5 units left, shared by two
    25.0
    >>> _remaining(0.0, [(2.0, 10.0, half), (9.0, 15.0, None)], 4.0, 40.0, 2)  # the longest one decides
    75.0
    """
    if not slots:
        return None
    known = [(cost * pace.gained, pace.seconds) for cost, _, pace in running if pace and pace.gained > 0]
    cost, spent = done_cost + sum(c for c, _ in known), done_seconds + sum(s for _, s in known)
    if cost <= 0 or spent <= 0:
        return None
    rate = spent / cost
    left = [c * (1.0 - pace.share) if pace else max(c - s / rate, 0.0) for c, s, pace in running]
    return max(rate * (waiting_cost + sum(left)) / slots, *(rate * c for c in [0.0, *left]))
