"""How far a study is, how long it will take, and its runs as a table.

Costs say how much work each job is compared with the others. Seconds per unit of cost are the median over the
jobs that were finished last and those that report how fast they are: the first job of a worker may compile
for longer than it runs. What is left is shared by all slots of all running drivers, and takes at least as
long as the longest job that is running.

A table is CSV, JSON or parquet and has one row per job, in the order of the study. Its columns are the
entries of the jobs (``job.``), the single values of their results (``result.``), and what the store knows. A
job that is not finished is in the table too, with its state and without a result.
"""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hardmax.errors import InvalidInputError, MissingExtraError
from hardmax.results import columns_of, plain, strict
from hardmax.storage import written_whole
from hardmax.training.studies.store import STATES, JobRow, RunStore

_LAST = 200  # finished jobs that decide the speed
FORMATS = ("csv", "json", "parquet")


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


def job_rows(store: RunStore) -> list[dict[str, Any]]:
    """One dictionary per job, all with the same entries."""
    return _filled(_row(row) for row in store.rows())


def _row(row: JobRow) -> dict[str, Any]:
    return {
        "position": row.position,
        "key": row.key,
        "state": row.state,
        **_flat(row.job, "job"),
        **{f"result.{name}": value for name, value in row.values.items()},
        "seconds": None if row.record is None else row.record.seconds,
        "cpu_seconds": None if row.record is None else row.record.cpu_seconds,
        "attempts": row.attempts,
        "version": None if row.record is None else row.record.version,
        "error": row.error,
    }


def history_rows(store: RunStore) -> list[dict[str, Any]]:
    """One dictionary per line of the table of each result; of a training, that is its history.

    Raises
    ------
    FileFormatError
        When a result file is damaged.
    """
    rows: list[dict[str, Any]] = []
    for row in store.rows("finished"):
        columns = {name: plain(list(c)) for name, c in columns_of(store.result(row.key)._table()).items()}
        job = _flat(row.job, "job")
        for step in range(max((len(column) for column in columns.values()), default=0)):
            values = {name: column[step] for name, column in columns.items() if step < len(column)}
            rows.append({"position": row.position, "key": row.key, **job, "step": step, **values})
    return _filled(rows)


def _flat(value: Any, name: str) -> dict[str, Any]:
    """The entries of nested objects under dotted names; a list is one entry, as JSON."""
    if isinstance(value, dict):
        return {
            key: entry for inner in value for key, entry in _flat(value[inner], f"{name}.{inner}").items()
        }
    return {name: json.dumps(value) if isinstance(value, list) else value}


def _filled(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the same entries in the same order, absent ones as ``None``; job, result, then the rest."""
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)

    def group(name: str) -> int:
        belongs = (name in ("position", "key", "state"), name.startswith("job"), name.startswith("result."))
        return belongs.index(True) if any(belongs) else len(belongs)

    order = sorted(names, key=group)
    return [{name: row.get(name) for name in order} for row in rows]


def export_rows(rows: list[dict[str, Any]], form: str) -> bytes:
    """A table as the bytes of a file.

    Examples
    --------
    >>> export_rows([{"key": "a", "job.seed": 1}, {"key": "b", "job.seed": None}], "csv")
    b'key,job.seed\\r\\na,1\\r\\nb,\\r\\n'
    """
    match form:
        case "csv":
            text = io.StringIO(newline="")
            table = csv.DictWriter(text, list(rows[0]) if rows else [])
            table.writeheader()
            table.writerows(rows)
            return text.getvalue().encode()
        case "json":
            return (json.dumps(strict(rows), indent=1, allow_nan=False) + "\n").encode()
        case "parquet":
            return _parquet(rows)
        case _:
            raise InvalidInputError(
                f"the form of a table must be one of {', '.join(FORMATS)}, but was {form!r}."
            )


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    try:
        import pandas
        import pyarrow  # noqa: F401 (pandas writes parquet with it)
    except ImportError as error:
        raise MissingExtraError(
            "parquet needs pandas and pyarrow, which are not both installed; try: pip install pandas pyarrow."
        ) from error
    file = io.BytesIO()
    columns = {name: _one_kind([row[name] for row in rows]) for name in (rows[0] if rows else {})}
    pandas.DataFrame(columns).to_parquet(file, index=False, engine="pyarrow")
    return file.getvalue()


def _one_kind(column: list[Any]) -> list[Any]:
    """A column as parquet wants it, with values of one kind: numbers, where infinities are words in JSON, or
    else the JSON of each.

    Examples
    --------
    >>> _one_kind([1, 0.5, "inf", None]), _one_kind([2, "x"])
    ([1.0, 0.5, inf, None], ['2', '"x"'])
    """
    infinite = {"inf": math.inf, "-inf": -math.inf}
    kinds = {type(value) for value in column if value is not None}
    if len(kinds) < 2:
        return column
    numbers = [infinite.get(value, value) if isinstance(value, str) else value for value in column]
    if all(value is None or type(value) in (int, float) for value in numbers):
        return [None if value is None else float(value) for value in numbers]
    return [None if value is None else json.dumps(value) for value in column]


def write_table(rows: list[dict[str, Any]], path: str | Path) -> Path:
    """Write a table to a file whose ending says which form it has."""
    path = Path(path)
    content = export_rows(rows, path.suffix.lower().removeprefix("."))
    with written_whole(path) as file:
        file.write(content)
    return path
