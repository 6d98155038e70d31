"""The run store: one folder per study, in which nothing that was finished is ever lost.

The folder holds ``store.sqlite``, ``results/`` with one file per finished job, and ``drivers/`` with a lock
per driver. The database is opened by drivers and by whoever asks how far a study is, never by workers. A job
is finished when its row says so; the row is committed after its file is complete on the disk, and knows the
file's SHA-256. A file without such a row is nothing.

The database uses SQLite's rollback journal, which also works where folders are shared between machines.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from hardmax.errors import FileFormatError, IncompleteError, InvalidInputError
from hardmax.lab.studies import Study
from hardmax.results import load
from hardmax.versions import installed_versions

__all__ = ["SCHEMA", "STATES", "JobRow", "RunStore", "disk_refuses", "is_store"]

SCHEMA = 1
"""Number of the layout of the database; it grows when an older hardmax could no longer use a store."""

STATES = ("waiting", "running", "finished", "failed")
DATABASE = "store.sqlite"

_APPLICATION = 0x68_6D_61_78  # "hmax", in the header of the file
_BUSY = 60.0  # seconds to wait while another driver writes
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_TABLES = """
CREATE TABLE study (name TEXT NOT NULL, runner TEXT NOT NULL, version TEXT NOT NULL, made REAL NOT NULL);
CREATE TABLE jobs (
    position INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    cost REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'finished', 'failed')),
    driver TEXT,
    lease REAL,
    since REAL,
    attempts INTEGER NOT NULL DEFAULT 0,
    deaths INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    summary TEXT,
    sha256 TEXT,
    size INTEGER,
    seconds REAL,
    cpu_seconds REAL,
    version TEXT,
    finished REAL
);
CREATE INDEX jobs_by_state ON jobs (state, cost DESC, position);
CREATE TABLE drivers (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, machine TEXT NOT NULL, pid INTEGER NOT NULL,
    slots INTEGER NOT NULL, since REAL NOT NULL, lease REAL NOT NULL
);
CREATE TABLE events (
    number INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT NOT NULL, driver TEXT, what TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT ''
);
CREATE INDEX events_by_key ON events (key, number);
"""


@dataclass(frozen=True)
class JobRow:
    """What the store knows about a job.

    Attributes
    ----------
    position : int
        Its place in the study.
    key : str
        SHA-256 of its text.
    text : str
        The job as canonical JSON.
    cost : float
    state : {"waiting", "running", "finished", "failed"}
    driver : str or None
        Who runs it, or ran it last.
    since : float or None
        When that began, in seconds since 1970.
    attempts, deaths : int
        How often it was begun, and how often its worker died.
    error : str or None
        Why it failed.
    summary : str or None
        The single values of its result, as JSON.
    sha256, size : str, int or None
        Of its result file.
    seconds, cpu_seconds : float or None
        What it took.
    version : str or None
        The hardmax that ran it.
    finished : float or None
        When, in seconds since 1970.
    """

    position: int
    key: str
    text: str
    cost: float
    state: str
    driver: str | None
    since: float | None
    attempts: int
    deaths: int
    error: str | None
    summary: str | None
    sha256: str | None
    size: int | None
    seconds: float | None
    cpu_seconds: float | None
    version: str | None
    finished: float | None

    @property
    def job(self) -> Any:
        """The job as a JSON value."""
        return json.loads(self.text)

    @property
    def values(self) -> dict[str, Any]:
        """The single values of its result."""
        return {} if self.summary is None else dict(json.loads(self.summary))


_COLUMNS = ", ".join(field.name for field in fields(JobRow))


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
        When its database is damaged, of another program, or of a newer hardmax.

    Examples
    --------
    >>> import tempfile
    >>> from hardmax.lab.studies import Study
    >>> study = Study.of("roots", [{"n": 2}, {"n": 3}], runner="my_module:root")
    >>> with RunStore.create(tempfile.mkdtemp() + "/roots", study) as store:
    ...     store.counts()
    {'waiting': 2, 'running': 0, 'finished': 0, 'failed': 0}
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / DATABASE
        if not is_store(self.folder):
            raise InvalidInputError(f"{folder} must be the folder of a study, but holds no {DATABASE}.")
        self.database = self._opened("rw")
        try:
            with self.translated():
                self._check()
                stated = self.database.execute("SELECT name, runner FROM study").fetchone()
        except BaseException:
            self.database.close()
            raise
        if stated is None:
            self.database.close()
            raise InvalidInputError(f"{folder} must be the folder of a study, but its store is empty.")
        self.name, self.runner = str(stated[0]), str(stated[1])

    @classmethod
    def create(cls, folder: str | Path, study: Study) -> Self:
        """Make the store of a study, or add what is new in the study to the store that is there."""
        folder = Path(folder)
        if folder.exists() and not is_store(folder):
            if not folder.is_dir():
                raise NotADirectoryError(f"{folder} must be a folder, but is a file.")
            if any(folder.iterdir()) and not (folder / DATABASE).exists():
                raise InvalidInputError(
                    f"{folder} must be a new folder or that of a study, but holds other files."
                )
        for part in (folder, folder / "results", folder / "drivers"):
            part.mkdir(parents=True, exist_ok=True)
        made = cls.__new__(cls)
        made.folder, made.path = folder, folder / DATABASE
        made.database = made._opened("rwc")
        try:
            with made.writing():
                made._begin(study)
                made._add(study)
        finally:
            made.database.close()
        return cls(folder)

    def _begin(self, study: Study) -> None:
        if self._pragma("user_version") == 0 and not self._tables():
            for statement in _TABLES.split(";"):
                self.database.execute(statement)
            self.database.execute(f"PRAGMA application_id = {_APPLICATION}")
            self.database.execute(f"PRAGMA user_version = {SCHEMA}")
            version = str(installed_versions()["hardmax"])
            self.database.execute(
                "INSERT INTO study VALUES (?, ?, ?, ?)", (study.name, study.runner, version, time.time())
            )
        self._check()
        name, runner = self.database.execute("SELECT name, runner FROM study").fetchone()
        if (name, runner) != (study.name, study.runner):
            raise InvalidInputError(
                f"{self.folder} must belong to the study {study.name!r} with the runner {study.runner!r}, "
                f"but belongs to {name!r} with {runner!r}; name another folder."
            )

    def _add(self, study: Study) -> None:
        (last,) = self.database.execute("SELECT coalesce(max(position), -1) FROM jobs").fetchone()
        known = {key for (key,) in self.database.execute("SELECT key FROM jobs")}
        new = [job for job in study.jobs if job.key not in known]
        self.database.executemany(
            "INSERT INTO jobs (position, key, text, cost) VALUES (?, ?, ?, ?)",
            [(last + 1 + i, job.key, job.text, job.cost) for i, job in enumerate(new)],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    # Reading
    # ------------------------------------------------------------------------------------------------------

    def rows(self, state: str | None = None) -> list[JobRow]:
        """Every job, or those in one state, in the order of the study."""
        where, values = ("", ()) if state is None else (" WHERE state = ?", (state,))
        with self.translated():
            found = self.database.execute(f"SELECT {_COLUMNS} FROM jobs{where} ORDER BY position", values)
            return [JobRow(*row) for row in found]

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        with self.translated():
            found = dict(self.database.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
        return {state: int(found.get(state, 0)) for state in STATES}

    def state_of(self, key: str) -> str | None:
        """The state of one job, or ``None`` if there is no such job."""
        with self.translated():
            found = self.database.execute("SELECT state FROM jobs WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def history(self, key: str) -> list[tuple[float, str | None, str, str]]:
        """What happened to a job: time, driver, what, and details."""
        with self.translated():
            return self.database.execute(
                "SELECT at, driver, what, detail FROM events WHERE key = ? ORDER BY number", (key,)
            ).fetchall()

    def result_path(self, key: str) -> Path:
        """Where the result of a job is kept."""
        if not re.fullmatch("[0-9a-f]{64}", key):  # a database of a stranger must not name other places
            raise FileFormatError(f"{self.path} must know jobs by 64 hexadecimal digits, but has {key!r}.")
        return self.folder / "results" / f"{key}.npz"

    def result(self, key: str) -> Any:
        """The result of a finished job.

        Raises
        ------
        FileFormatError
            When its file is missing or damaged; ``hardmax lab resume`` computes it again.
        """
        with self.translated():
            row = self.database.execute("SELECT state, sha256 FROM jobs WHERE key = ?", (key,)).fetchone()
        if row is None or row[0] != "finished":
            raise InvalidInputError(
                f"key must be that of a finished job of {self.folder}, but {key!r} is "
                f"{'unknown' if row is None else row[0]}."
            )
        path = self.result_path(key)
        if _digest(path) != row[1]:
            state = "is not the file that was written" if path.exists() else "is missing"
            raise FileFormatError(f"{path} {state}; hardmax lab resume {self.folder} computes the job again.")
        return load(path)

    def damaged(self) -> list[str]:
        """Keys of finished jobs whose file is missing or not the one that was written."""
        with self.translated():
            found = self.database.execute(
                "SELECT key, sha256, size FROM jobs WHERE state = 'finished' ORDER BY position"
            ).fetchall()
        return [key for key, sha256, size in found if not self._is_whole(key, sha256, size)]

    def _is_whole(self, key: str, sha256: str, size: int) -> bool:
        path = self.result_path(key)
        try:
            if path.stat().st_size != size:
                return False
        except FileNotFoundError:
            return False
        return _digest(path) == sha256

    # Writing
    # ------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """An immediate transaction: nobody else writes meanwhile, and all of it happens or nothing."""
        with self.translated():
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield self.database
                self.database.execute("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                raise

    def retry_failed(self) -> int:
        """Let failed jobs wait again; returns how many there were."""
        with self.writing() as database:
            keys = [key for (key,) in database.execute("SELECT key FROM jobs WHERE state = 'failed'")]
            for key in keys:
                self._let_wait(key, "tried again")
        return len(keys)

    def recover(self) -> list[str]:
        """Let finished jobs whose file is missing or damaged wait again; returns their keys."""
        found = self.damaged()
        if found:
            with self.writing():  # another driver may have recovered them meanwhile
                still = set(self.damaged())
                found = [key for key in found if key in still]
                for key in found:
                    self._let_wait(key, "result damaged")
        return found

    def _let_wait(self, key: str, what: str) -> None:
        self.database.execute(
            "UPDATE jobs SET state = 'waiting', driver = NULL, lease = NULL, error = NULL, deaths = 0, "
            "summary = NULL, sha256 = NULL, size = NULL, seconds = NULL, cpu_seconds = NULL, version = NULL, "
            "finished = NULL WHERE key = ?",
            (key,),
        )
        self.note(key, None, what)

    def note(self, key: str, driver: str | None, what: str, detail: str = "") -> None:
        """Write an event down, inside a transaction."""
        self.database.execute(
            "INSERT INTO events (at, key, driver, what, detail) VALUES (?, ?, ?, ?, ?)",
            (time.time(), key, driver, what, detail),
        )

    # The database
    # ------------------------------------------------------------------------------------------------------

    def _opened(self, mode: str) -> sqlite3.Connection:
        with self.translated():
            uri = f"{self.path.resolve().as_uri()}?mode={mode}"
            database = sqlite3.connect(uri, uri=True, timeout=_BUSY, isolation_level=None)
            database.execute("PRAGMA synchronous = EXTRA")  # the end of a transaction outlives a power cut
        return database

    def _pragma(self, name: str) -> int:
        return int(self.database.execute(f"PRAGMA {name}").fetchone()[0])

    def _tables(self) -> set[str]:
        return {name for (name,) in self.database.execute("SELECT name FROM sqlite_master")}

    def _check(self) -> None:
        schema, tables = self._pragma("user_version"), self._tables()
        if self._pragma("application_id") != _APPLICATION or "study" not in tables:
            raise FileFormatError(f"{self.path} must be the store of a study, but is another database.")
        if schema > SCHEMA:
            found = self.database.execute("SELECT version FROM study").fetchone()
            made_by = f" {found[0]}" if found else ""
            raise FileFormatError(
                f"{self.path} was written by a newer hardmax{made_by} (schema {schema}, this version reads "
                f"up to {SCHEMA}); upgrade with: pip install --upgrade hardmax."
            )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of SQLite as errors of hardmax, and a full disk as what it is."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise FileFormatError(
                    f"{self.path} must be the store of a study, but is damaged ({error})."
                ) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise IncompleteError(
                    f"{self.path} is kept locked by another process; try again when it is done."
                ) from error
            if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                number = errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO
                raise OSError(number, str(error), str(self.path)) from error
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
                raise PermissionError(f"cannot write {self.path}: {error}.") from error
            raise


def is_store(folder: str | Path) -> bool:
    """Whether a folder holds the store of a study."""
    path = Path(folder) / DATABASE
    return path.is_file() and path.stat().st_size > 0


def disk_refuses(error: OSError) -> bool:
    """Whether an error says that the disk, or what one may use of it, is full or out of order."""
    return error.errno in _REFUSALS


def _digest(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
