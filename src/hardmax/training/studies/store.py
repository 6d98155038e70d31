"""The run store: the folder of a study, and the files in it.

It holds plain files, each written whole or not at all:

- ``study.json``: name and runner;
- ``jobs/``: lists of jobs, one file per list that was added, with its checksum in its name;
- ``results/KEY.npz``: one file per finished run;
- ``failed/KEY.json``: why a job failed;
- ``drivers/NAME.json``: what a driver is running, rewritten every few seconds.

A job is finished when its file is there. Drivers read each other's files to avoid running a job twice, but
nothing depends on that: if two of them do run the same job, both get the same result and the last file stays.

The file of a finished run is the npz file of its result, as :func:`hardmax.load` and ``numpy.load`` read it.
The comment of the zip archive holds a record in JSON (the key of the job, times, single values) and the
SHA-256 of everything else, so a file proves by itself that it is complete and to which job it belongs.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from hardmax import storage
from hardmax.errors import DamagedFileError, FileFormatError, InvalidInputError
from hardmax.fields import check_types
from hardmax.results import restored
from hardmax.storage import written_whole
from hardmax.training.studies.study import Study, StudyJob
from hardmax.untrusted import ZIP_ERRORS, check_plain, parsed_json, plain_bytes, said_plainly
from hardmax.versions import installed_versions

SCHEMA = 1
"""Number of the layout of the folder; it grows when an older hardmax could no longer use one."""

STATES = ("waiting", "running", "finished", "failed")

_STUDY = "study.json"
_FOLDERS = ("jobs", "results", "failed", "drivers")
_STALE = 60.0  # seconds after which a driver that has not written its file counts as gone
_LONGEST_RUN = 2**30  # bytes of the file of a finished run
_LONGEST = 65_535  # bytes in the comment of a zip archive
_DAMAGE = (*ZIP_ERRORS, LookupError, TypeError, AttributeError, NotImplementedError, MemoryError)


@dataclass(frozen=True)
class JobRow:
    """What the store knows about a job.

    Attributes
    ----------
    position : int
        Its place in the study.
    planned : StudyJob
    state : {"waiting", "running", "finished", "failed"}
    record : RunRecord or None
        Of its run, if it is finished.
    error : str or None
        Why it failed.
    attempts : int
        How often it was started, if it is finished or failed.
    """

    position: int
    planned: StudyJob
    state: str
    record: RunRecord | None = None
    error: str | None = None
    attempts: int = 0

    @property
    def key(self) -> str:
        """The key of the job."""
        return self.planned.key

    @property
    def job(self) -> Any:
        """The job as a JSON value."""
        return json.loads(self.planned.text)

    @property
    def values(self) -> dict[str, Any]:
        """The single values of its result."""
        return {} if self.record is None else self.record.values


@dataclass(frozen=True)
class DriverState:
    """A driver, as its file describes it.

    Attributes
    ----------
    name, host : str
    pid : int
    slots : int
        Jobs that it runs at a time.
    running : dict
        When each of its jobs was started, by key, in seconds since 1970.
    at : float
        When it wrote this.
    """

    name: str
    host: str
    pid: int
    slots: int
    running: Mapping[str, float] = field(default_factory=dict)
    at: float = 0.0

    @property
    def alive(self) -> bool:
        """Whether it is running, as far as one can know."""
        if self.host == platform.node() and not _is_process(self.pid):
            return False
        return self.at >= time.time() - _STALE


class RunStore:
    """The store of a study.

    Parameters
    ----------
    folder : path-like
        A folder that :meth:`create` has made.

    Raises
    ------
    InvalidInputError
        When there is no study in that folder.
    FileFormatError
        When its description is damaged, or of a newer hardmax.

    Examples
    --------
    >>> import tempfile
    >>> study = Study.of("roots", [{"n": 2}, {"n": 3}], runner="my_module:root")
    >>> RunStore.create(tempfile.mkdtemp() + "/roots", study).counts()
    {'waiting': 2, 'running': 0, 'finished': 0, 'failed': 0}
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not is_store(self.folder):
            raise InvalidInputError(f"{folder} must be the folder of a study, but holds no {_STUDY}.")
        self.name, self.runner = _read_description(self.folder / _STUDY)
        self.jobs: dict[str, StudyJob] = {}
        """Every job by its key, in the order of the study."""
        self._records: dict[str, RunRecord] = {}
        self.read_jobs()

    @classmethod
    def create(cls, folder: str | Path, study: Study) -> Self:
        """Make the store of a study, or add what is new in the study to the store that is there."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} must be a folder, but is a file.")
        if folder.exists() and not is_store(folder):
            foreign = {path.name for path in folder.iterdir() if not path.name.startswith(f".{_STUDY}")}
            if foreign - set(_FOLDERS):
                raise InvalidInputError(
                    f"{folder} must be a new folder or that of a study, but holds other files."
                )
        known: Mapping[str, StudyJob] = {}
        if is_store(folder):
            store = cls(folder)
            known = store.jobs
            if (store.name, store.runner) != (study.name, study.runner):
                raise InvalidInputError(
                    f"{folder} must belong to the study {study.name!r} with the runner {study.runner!r}, "
                    f"but belongs to {store.name!r} with {store.runner!r}; name another folder."
                )
        for part in _FOLDERS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        new = [job for job in study.jobs if job.key not in known]
        if new:
            _write_jobs(folder / "jobs", new)
        if not is_store(folder):  # last, because a folder with this file is a study
            described = {"schema": SCHEMA, "study": study.name, "runner": study.runner}
            described["version"] = str(installed_versions()["hardmax"])
            _write(folder / _STUDY, json.dumps(described, indent=1))
        return cls(folder)

    def read_jobs(self) -> list[StudyJob]:
        """Read the lists of jobs again; returns those that are new."""
        found: dict[str, StudyJob] = {}
        for path in sorted((self.folder / "jobs").glob("[0-9]*.json")):
            for job in _read_jobs(path):
                found.setdefault(job.key, job)
        new = [job for key, job in found.items() if key not in self.jobs]
        self.jobs = found
        return new

    # Reading
    # ------------------------------------------------------------------------------------------------------

    def rows(self, state: str | None = None) -> list[JobRow]:
        """Every job, or those in one state, in the order of the study."""
        records, failures = self.records(), _names(self.folder / "failed", ".json")
        running = {key for driver in self.drivers() for key in driver.running}
        rows = []
        for position, (key, job) in enumerate(self.jobs.items()):
            failure = None if key in records or key not in failures else self.failure(key)
            if key in records:
                row = JobRow(position, job, "finished", records[key], attempts=records[key].attempts)
            elif failure is not None:
                row = JobRow(position, job, "failed", error=failure[0], attempts=failure[1])
            else:
                row = JobRow(position, job, "running" if key in running else "waiting")
            if state is None or row.state == state:
                rows.append(row)
        return rows

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        states = [row.state for row in self.rows()]
        return {state: states.count(state) for state in STATES}

    def state_of(self, key: str) -> str | None:
        """The state of one job, or ``None`` if there is no such job."""
        if key not in self.jobs:
            return None
        if read_record(self.result_path(key)) is not None:
            return "finished"
        if self.failure(key) is not None:
            return "failed"
        return "running" if any(key in driver.running for driver in self.drivers()) else "waiting"

    def records(self) -> dict[str, RunRecord]:
        """The records of finished runs by key. Files are read once, and not checked."""
        names = _names(self.folder / "results", ".npz")
        self._records = {key: record for key, record in self._records.items() if key in names}
        for key in names - self._records.keys():
            record = read_record(self.result_path(key)) if key in self.jobs else None
            if record is not None:
                self._records[key] = record
        return self._records

    def failure(self, key: str) -> tuple[str, int] | None:
        """Why a job failed and how often it was started; ``None`` if it has not failed."""
        with suppress(OSError, ValueError, LookupError, TypeError, OverflowError):
            stated = parsed_json(plain_bytes(self.folder / "failed" / f"{key}.json"), key)
            return str(stated["error"]), int(stated["attempts"])
        return None

    def result_path(self, key: str) -> Path:
        """Where the result of a job is kept."""
        return self.folder / "results" / f"{key}.npz"

    def result(self, key: str) -> Any:
        """The result of a finished job.

        Raises
        ------
        FileFormatError
            When its file is damaged; ``hardmax training resume`` computes it again.
        """
        path = self.result_path(key)
        if key not in self.jobs or not path.exists():
            raise InvalidInputError(
                f"key must be that of a finished job of {self.folder}, but {key!r} is "
                f"{self.state_of(key) or 'unknown'}."
            )
        try:
            return read_result(path)
        except FileFormatError as error:
            raise FileFormatError(
                f"{error}; hardmax training resume {self.folder} computes the job again."
            ) from error

    def damaged(self) -> list[str]:
        """Keys of the jobs whose file is not the one that was written."""
        names = _names(self.folder / "results", ".npz")
        return [key for key in self.jobs if key in names and not _is_sound(self.result_path(key))]

    def drivers(self) -> list[DriverState]:
        """The drivers that are running, as far as one can know."""
        return [driver for driver in self._all_drivers() if driver.alive]

    def _all_drivers(self) -> Iterator[DriverState]:
        for path in sorted((self.folder / "drivers").glob("*.json")):
            with suppress(OSError, ValueError, TypeError, AttributeError):
                stated = parsed_json(plain_bytes(path), str(path))
                check_types(DriverState, stated)
                yield DriverState(path.stem, **stated)

    # Writing
    # ------------------------------------------------------------------------------------------------------

    def finish(self, content: bytes, record: RunRecord) -> None:
        """Write the file of a finished run."""
        with written_whole(self.result_path(record.key)) as file:
            file.write(run_file(content, record))
        (self.folder / "failed" / f"{record.key}.json").unlink(missing_ok=True)

    def fail(self, key: str, error: str, attempts: int) -> None:
        """Write down why a job failed."""
        _write(self.folder / "failed" / f"{key}.json", json.dumps({"error": error, "attempts": attempts}))

    def write_driver(self, driver: DriverState) -> None:
        """Write the file of a driver."""
        stated = asdict(driver)
        _write(self.folder / "drivers" / f"{stated.pop('name')}.json", json.dumps(stated))

    def remove_driver(self, name: str) -> None:
        """Remove the file of a driver."""
        (self.folder / "drivers" / f"{name}.json").unlink(missing_ok=True)

    def retry_failed(self) -> dict[str, int]:
        """Let failed jobs wait again; returns how often each was started."""
        failures = {key: self.failure(key) for key in _names(self.folder / "failed", ".json")}
        for key in failures:
            (self.folder / "failed" / f"{key}.json").unlink(missing_ok=True)
        return {key: failure[1] for key, failure in failures.items() if failure is not None}

    def recover(self) -> list[str]:
        """Remove damaged result files and what dead drivers have left; returns the keys of the former."""
        damaged = self.damaged()
        for key in damaged:
            self.result_path(key).unlink(missing_ok=True)
        for driver in self._all_drivers():
            if not driver.alive:
                self.remove_driver(driver.name)
        if not self.drivers():  # nobody is writing
            for part in ("results", "failed", "drivers"):
                for path in (self.folder / part).glob(".*.partial"):
                    path.unlink(missing_ok=True)
        return damaged


def is_store(folder: str | Path) -> bool:
    """Whether a folder holds a study."""
    return (Path(folder) / _STUDY).is_file()


def _read_description(path: Path) -> tuple[str, str]:
    try:
        stated = parsed_json(plain_bytes(path), str(path))
        schema, name, runner = int(stated["schema"]), str(stated["study"]), str(stated["runner"])
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise DamagedFileError(f"{path} must describe a study, but is damaged.") from error
    if schema > SCHEMA:
        raise FileFormatError(
            f"{path} was written by a newer hardmax {stated.get('version', '')} (schema {schema}, this "
            f"version reads up to {SCHEMA}); upgrade hardmax to read it."
        )
    return name, runner


def _write_jobs(folder: Path, jobs: list[StudyJob]) -> None:
    """One more list; its number decides the order, its checksum makes the name unique."""
    lines = [json.dumps({"key": job.key, "cost": job.cost, "text": job.text}) for job in jobs]
    text = "\n".join(lines) + "\n"
    number = len(list(folder.glob("[0-9]*.json")))
    _write(folder / f"{number:06d}-{_digest(text)}.json", text)


def _read_jobs(path: Path) -> list[StudyJob]:
    text = plain_bytes(path).decode(errors="replace")
    if not path.stem.endswith(f"-{_digest(text)}"):
        raise DamagedFileError(f"{path} is not the file that was written; add the jobs of the study again.")
    with said_plainly(f"{path} must list the jobs of a study, but does not"):
        stated = [parsed_json(line, "a line") for line in text.splitlines()]
        for job in stated:
            check_types(StudyJob, job)
        return [StudyJob(job["text"], job["cost"], job["key"]) for job in stated]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _write(path: Path, text: str) -> None:
    with written_whole(path) as file:
        file.write(text.encode())


def _names(folder: Path, ending: str) -> set[str]:
    """Keys that have a file in a folder."""
    with suppress(FileNotFoundError):
        names = (name.removesuffix(ending) for name in os.listdir(folder) if name.endswith(ending))
        return {name for name in names if re.fullmatch("[0-9a-f]{64}", name)}
    return set()


def _is_sound(path: Path) -> bool:
    try:
        with suppress(FileNotFoundError):  # another driver has removed it
            checked_content(path)
    except FileFormatError:
        return False
    return True


def _is_process(pid: int) -> bool:
    if os.name == "nt":  # there signal 0 would interrupt it
        return True
    try:
        os.kill(pid, 0)
    except OverflowError:  # no process has such a number
        return False
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


@dataclass(frozen=True)
class RunRecord:
    """What is known about a finished run besides its result.

    Attributes
    ----------
    key : str
        Of the job.
    values : dict
        The single values of the result, in strict JSON.
    seconds, cpu_seconds : float
    attempts : int
        How often the job was started.
    version : str
        The hardmax that ran it.
    finished : float
        When, in seconds since 1970.
    """

    key: str
    values: dict[str, Any]
    seconds: float
    cpu_seconds: float
    attempts: int
    version: str
    finished: float


def run_file(content: bytes, record: RunRecord) -> bytes:
    """The npz file ``content`` with a record and a checksum as its comment.

    Raises
    ------
    InvalidInputError
        When the single values are too long for the comment.
    """
    if content[-2:] != b"\0\0":  # a comment of its own
        content = storage.to_bytes(storage.from_bytes(content, "the result"))
    text = json.dumps(asdict(record), sort_keys=True, allow_nan=False)
    comment = json.dumps({"record": text, "sha256": _checksum(content, text)}).encode()
    if len(comment) > _LONGEST:
        raise InvalidInputError(
            f"the single values of a result must fit into {_LONGEST} bytes, but took {len(comment)}."
        )
    return content[:-2] + len(comment).to_bytes(2, "little") + comment


def read_record(path: Path) -> RunRecord | None:
    """The record of a run file, or ``None`` where there is none that can be read; the rest is not checked."""
    try:
        check_plain(path)
        with zipfile.ZipFile(path) as archive:
            return _record(archive.comment, path)
    except _DAMAGE:
        return None


def read_result(path: Path) -> Any:
    """The result in a run file, after its checksum and its key were checked.

    Raises
    ------
    FileFormatError
        When the file is not the one that was written for the job in its name.
    """
    return restored(storage.from_bytes(checked_content(path), str(path)), str(path))


def checked_content(path: Path) -> bytes:
    """The npz file without its record, after a check of both; see :func:`read_result`."""
    data = plain_bytes(path, most=_LONGEST_RUN)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            comment = archive.comment
        _record(comment, path)
        ending = len(comment).to_bytes(2, "little") + comment
        content = data[: -len(ending)] + b"\0\0"
        stated = parsed_json(comment, str(path))
        sound = data.endswith(ending) and stated["sha256"] == _checksum(content, stated["record"])
    except _DAMAGE:
        sound = False
    if not sound:
        raise DamagedFileError(f"{path} is not the file that was written")
    return content


def _record(comment: bytes, path: Path) -> RunRecord:
    fields = parsed_json(parsed_json(comment, str(path))["record"], str(path))
    check_types(RunRecord, fields)
    record = RunRecord(**fields)
    if record.key != path.stem:
        raise ValueError("the file of another job")
    return record


def _checksum(content: bytes, text: str) -> str:
    return hashlib.sha256(content + text.encode()).hexdigest()
