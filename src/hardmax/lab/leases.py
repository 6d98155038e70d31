"""What a driver may do with a run store: claim jobs for a while, and write down what came of them.

A driver has a random name. It claims jobs in an immediate transaction, so that no two drivers get the same
one, and holds them by a lease that it renews as long as it lives. Jobs whose lease has run out are anybody's
again. On one machine nobody has to wait for that: a driver also holds a lock on a file, which the system
takes from it when it dies, however it dies.

A result is written beside its place and forced to the disk; then, in one immediate transaction, the driver
makes sure that nobody has finished the job before, moves the file to its place and commits the row.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardmax.errors import IncompleteError
from hardmax.lab.store import RunStore, disk_refuses
from hardmax.storage import sync_folder

__all__ = ["Answer", "Claim", "Seat", "living_drivers"]

LEASE = 120.0  # seconds
DEATHS = 3  # a job that has killed this many workers has failed


@dataclass(frozen=True)
class Claim:
    """A job that was claimed."""

    key: str
    text: str
    cost: float


@dataclass(frozen=True)
class Answer:
    """What a worker made of a job.

    Attributes
    ----------
    content : bytes
        The result, as a file.
    summary : dict
        Its single values, in strict JSON.
    seconds, cpu_seconds : float
    version : str
        The hardmax of the worker.
    """

    content: bytes
    summary: dict[str, Any]
    seconds: float
    cpu_seconds: float
    version: str


class Seat:
    """The place of one driver at a store.

    Parameters
    ----------
    store : RunStore
    slots : int
        How many jobs it runs at a time; shown to others.
    lease : float
        Seconds for which a claim holds without being renewed.
    """

    def __init__(self, store: RunStore, *, slots: int = 1, lease: float = LEASE) -> None:
        self.store, self.lease = store, lease
        self.name = secrets.token_hex(8)
        self._lock = _Lock.taken(_lock_path(store, self.name))
        try:
            with store.writing():
                self._sign(slots)
        except BaseException:
            self._lock.dropped()
            raise

    def _sign(self, slots: int) -> None:
        now = time.time()
        self.slots = slots
        self.store.database.execute(
            "INSERT INTO drivers (id, host, machine, pid, slots, since, lease) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, lease = excluded.lease",
            (self.name, platform.node(), this_machine(), os.getpid(), slots, now, now + self.lease),
        )

    # Claiming
    # ------------------------------------------------------------------------------------------------------

    def claim(self, n: int) -> list[Claim]:
        """Claim up to ``n`` jobs that nobody has, the most costly ones first."""
        now = time.time()
        with self.store.writing() as database:
            self._free_abandoned(now)
            found = database.execute(
                "SELECT key, text, cost FROM jobs WHERE state = 'waiting' "
                "ORDER BY cost DESC, position LIMIT ?",
                (n,),
            ).fetchall()
            for key, _, _ in found:
                database.execute(
                    "UPDATE jobs SET state = 'running', driver = ?, lease = ?, since = ?, "
                    "attempts = attempts + 1 WHERE key = ?",
                    (self.name, now + self.lease, now, key),
                )
                self.store.note(key, self.name, "claimed")
        return [Claim(*row) for row in found]

    def renew(self, slots: int | None = None) -> set[str]:
        """Hold what is claimed for longer; returns the keys that are still this driver's."""
        with self.store.writing() as database:
            self._sign(self.slots if slots is None else slots)
            database.execute(
                "UPDATE jobs SET lease = ? WHERE driver = ? AND state = 'running'",
                (time.time() + self.lease, self.name),
            )
            mine = database.execute(
                "SELECT key FROM jobs WHERE driver = ? AND state = 'running'", (self.name,)
            ).fetchall()
        return {key for (key,) in mine}

    def _free_abandoned(self, now: float) -> None:
        database = self.store.database
        dead = self._dead_drivers()
        for key, driver, lease in database.execute(
            "SELECT key, driver, lease FROM jobs WHERE state = 'running' AND driver <> ?", (self.name,)
        ).fetchall():
            if driver in dead or lease is None or lease < now:
                database.execute(
                    "UPDATE jobs SET state = 'waiting', driver = NULL, lease = NULL WHERE key = ?", (key,)
                )
                self.store.note(
                    key, driver, "abandoned", "driver died" if driver in dead else "lease ran out"
                )
        for driver in dead:
            database.execute("DELETE FROM drivers WHERE id = ?", (driver,))
            _lock_path(self.store, driver).unlink(missing_ok=True)
            self._remove_partial(driver)
        database.execute("DELETE FROM drivers WHERE machine <> ? AND lease < ?", (this_machine(), now))

    def _dead_drivers(self) -> set[str]:
        """Drivers of this machine whose lock is free; of others only their leases tell."""
        here = self.store.database.execute(
            "SELECT id FROM drivers WHERE machine = ? AND id <> ?", (this_machine(), self.name)
        ).fetchall()
        return {name for (name,) in here if _Lock.is_free(_lock_path(self.store, name))}

    # Writing down
    # ------------------------------------------------------------------------------------------------------

    def finish(self, key: str, answer: Answer) -> bool:
        """Keep a result; returns whether it was the first one for its job."""
        store, place = self.store, self.store.result_path(key)
        partial = place.with_name(f".{key}.{self.name}.partial")
        try:
            with open(partial, "wb") as file:
                file.write(answer.content)
                file.flush()
                os.fsync(file.fileno())
            with store.writing() as database:
                (state,) = database.execute("SELECT state FROM jobs WHERE key = ?", (key,)).fetchone()
                if state == "finished":
                    return False
                os.replace(partial, place)
                sync_folder(place.parent)
                database.execute(
                    "UPDATE jobs SET state = 'finished', driver = ?, lease = NULL, error = NULL, "
                    "summary = ?, sha256 = ?, size = ?, seconds = ?, cpu_seconds = ?, version = ?, "
                    "finished = ? WHERE key = ?",
                    (
                        self.name,
                        json.dumps(answer.summary, allow_nan=False),
                        hashlib.sha256(answer.content).hexdigest(),
                        len(answer.content),
                        answer.seconds,
                        answer.cpu_seconds,
                        answer.version,
                        time.time(),
                        key,
                    ),
                )
                store.note(key, self.name, "finished")
            return True
        finally:
            partial.unlink(missing_ok=True)

    def fail(self, key: str, error: str) -> None:
        """A job cannot be run: it would fail again."""
        with self.store.writing() as database:
            changed = database.execute(
                "UPDATE jobs SET state = 'failed', lease = NULL, error = ? "
                "WHERE key = ? AND driver = ? AND state = 'running'",
                (error, key, self.name),
            ).rowcount
            if changed:
                self.store.note(key, self.name, "failed", error)

    def lose(self, key: str, why: str) -> None:
        """The worker of a job died: it waits again, or has failed if that happened too often."""
        with self.store.writing() as database:
            row = database.execute(
                "SELECT deaths FROM jobs WHERE key = ? AND driver = ? AND state = 'running'", (key, self.name)
            ).fetchone()
            if row is None:
                return
            deaths = int(row[0]) + 1
            state, error = "waiting", None
            if deaths >= DEATHS:
                state, error = "failed", f"its worker died {deaths} times, the last time because {why}"
            database.execute(
                "UPDATE jobs SET state = ?, driver = NULL, lease = NULL, deaths = ?, error = ? WHERE key = ?",
                (state, deaths, error, key),
            )
            self.store.note(key, self.name, "worker died", why)

    def leave(self) -> None:
        """Give back what is still claimed and free the seat; a disk that refuses leaves it to the lock."""
        try:
            with self.store.writing() as database:
                for (key,) in database.execute(
                    "SELECT key FROM jobs WHERE driver = ? AND state = 'running'", (self.name,)
                ).fetchall():
                    database.execute(
                        "UPDATE jobs SET state = 'waiting', driver = NULL, lease = NULL WHERE key = ?", (key,)
                    )
                    self.store.note(key, self.name, "given back")
                database.execute("DELETE FROM drivers WHERE id = ?", (self.name,))
        except IncompleteError:
            pass  # somebody keeps the database locked
        except OSError as error:
            if not disk_refuses(error):
                raise
        finally:
            self._lock.dropped()

    def _remove_partial(self, driver: str) -> None:
        """Remove what a driver left that was killed while it wrote."""
        for path in (self.store.folder / "results").glob(f".*.{driver}.partial"):
            path.unlink(missing_ok=True)


def living_drivers(store: RunStore) -> list[tuple[str, str, int]]:
    """Name, host and slots of every driver that is at work, as far as one can know."""
    found = store.database.execute(
        "SELECT id, host, slots, machine, lease FROM drivers ORDER BY since"
    ).fetchall()
    here, now = this_machine(), time.time()
    return [
        (name, host, slots)
        for name, host, slots, machine, lease in found
        if lease >= now and not (machine == here and _Lock.is_free(_lock_path(store, name)))
    ]


def _lock_path(store: RunStore, name: str) -> Path:
    return store.folder / "drivers" / f"{name}.lock"


def this_machine() -> str:
    """A name for the running system: locks on files are reliable between processes that share it."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    with suppress(OSError):
        return f"{platform.node()}/{boot.read_text().strip()}"
    return f"{platform.node()}/{uuid.getnode():x}"


class _Lock:
    """A lock on a file that its holder loses by dying."""

    try:
        import fcntl

        POSSIBLE = True
    except ImportError:
        POSSIBLE = False

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle = path, handle

    @classmethod
    def taken(cls, path: Path) -> _Lock:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        if cls.POSSIBLE:
            cls.fcntl.flock(handle, cls.fcntl.LOCK_EX)
        return cls(path, handle)

    @classmethod
    def is_free(cls, path: Path) -> bool:
        if not cls.POSSIBLE:
            return False
        try:
            handle = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            cls.fcntl.flock(handle, cls.fcntl.LOCK_EX | cls.fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(handle)

    def dropped(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._handle)
