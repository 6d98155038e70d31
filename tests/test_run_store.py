"""The run store: what a study is, who may claim what, and what counts as finished."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import math
import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from oracles import tiny_runner
from oracles.tiny_runner import jobs, runs

import hardmax as hm
from hardmax import storage
from hardmax.cli import main
from hardmax.errors import FileFormatError, IncompleteError, InvalidInputError, MissingExtraError
from hardmax.lab import drivers, exports, leases
from hardmax.lab.drivers import run_study
from hardmax.lab.leases import Answer, Seat
from hardmax.lab.progress import progress_of
from hardmax.lab.store import SCHEMA, RunStore
from hardmax.lab.studies import Study, StudyJob, canonical, read_study, write_study
from hardmax.lab.workers import perform


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(drivers, "_POLL", 0.05)
    monkeypatch.setattr(drivers, "_AGAIN", 0.02)
    monkeypatch.setattr(drivers, "_TELL", 0.05)


def study_of(entries, name="tiny") -> Study:
    return Study.of(name, entries, runner=tiny_runner.NAME)


def answer(n: int = 0, cpu: float = 0.5) -> Answer:
    result = hm.head_budget(2 + n, 4, heads=[1, 2])
    content = storage.to_bytes(storage.Stored(result.kind, result._state(), {"cpu": cpu}))
    return Answer(content, {"n_tokens": 2 + n}, 1.0, cpu, "0.1.0")


def made(tmp_path, n=4, **entries) -> RunStore:
    return RunStore.create(tmp_path / "study", study_of(jobs(n, **entries)))


# Studies ------------------------------------------------------------------------------------------------


def test_equal_jobs_are_one_job():
    study = study_of([{"n": 1, "seed": 2}, {"seed": 2, "n": 1}, {"n": 1, "seed": 3}])
    assert [job.text for job in study.jobs] == ['{"n":1,"seed":2}', '{"n":1,"seed":3}']
    assert study.jobs[0].key == hashlib.sha256(b'{"n":1,"seed":2}').hexdigest()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: canonical({"x": float("nan")}), "no NaN"),
        (lambda: canonical({"x": {1, 2}}), "must consist of JSON values"),
        (lambda: study_of([]), "at least one job"),
        (lambda: study_of([{}], name="../elsewhere"), "name of a study must consist of"),
        (lambda: Study.of("x", [{}], runner="trian"), "did you mean 'train'"),
        (lambda: Study.of("x", [{}], runner="os;system"), "of the form module:function"),
        (lambda: StudyJob("{}", cost=0.0), "cost of a job must be a positive number"),
        (lambda: StudyJob("{}", key="../../x"), "64 hexadecimal digits"),
        (
            lambda: Study.of("x", [{"widths": [2, 0], "seed": 0, "box": 1}], runner="cells"),
            r"job 0 of the study 'x': widths must be at least two positive whole numbers, but was \[2, 0\]",
        ),
        (lambda: Study.of("x", [{"seed": 0}], runner="cells"), "must have widths, seed and box"),
    ],
)
def test_what_is_no_study(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_a_study_from_a_file(tmp_path):
    path = tmp_path / "s.json"
    stated = {
        "study": "cells",
        "runner": "cells",
        "job": {"widths": [2, 4, 1], "seed": 0, "box": 4},
        "vary": {"seed": [0, 1], "box": [1, 2.5]},
        "jobs": [{"widths": [2, 4, 1], "seed": 9, "box": 4}],
    }
    path.write_text(json.dumps(stated))
    study = read_study(path)
    assert [(json.loads(job.text)["seed"], json.loads(job.text)["box"]) for job in study.jobs] == [
        (0, 1), (0, 2.5), (1, 1), (1, 2.5), (9, 4),
    ]  # fmt: skip
    assert read_study(write_study(study, tmp_path / "again.json")) == study


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be a study in JSON"),
        ("[1]", 'name of a study under "study"'),
        ('{"study": "x", "jobbs": []}', "but has 'jobbs'"),
        ('{"study": "x", "job": {}, "vary": {"n": 3}}', "list of values"),
        ('{"study": "x", "vary": {"n": [3]}}', 'needs the "job"'),
        ('{"study": "x", "runner": "a:b", "job": {}, "vary": {"a.n": [3]}}', "'a.n' is none"),
        ('{"study": "x", "runner": "a:b", "job": {"n": NaN}}', "NaN is not a JSON number"),
        ('{"study": "x", "jobs": {}}', '"jobs" must be a list'),
    ],
)
def test_a_file_that_is_no_study(tmp_path, text, message):
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_study(path)


def test_negative_epochs_are_refused_before_anything_is_stored(tmp_path):
    pytest.importorskip("hardmax.lab.training", reason="the trainer is not there")
    job = {
        "target": {"name": "pairwise", "D": 2, "d": 4, "seed": 0},
        "shape": {"n_tokens": 15, "d_token": 4, "widths": [12, 12], "heads": [2, 2], "hidden": [32, 32]},
        "settings": {"n_samples": -36_000},
        "seed": 0,
    }
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"study": "x", "job": job}))
    done = CliRunner().invoke(main, ["lab", "run", str(path), "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "n_samples must be a whole number, 1 or more, but was -36000" in done.output
    path.write_text(json.dumps({"study": "x", "job": {**job, "shape": {**job["shape"], "heads": [5, 2]}}}))
    done = CliRunner().invoke(main, ["lab", "run", str(path), "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "heads must divide widths" in done.output
    assert not (tmp_path / "x").exists()


# The store ----------------------------------------------------------------------------------------------


def test_more_jobs_are_added_and_known_ones_kept(tmp_path):
    with made(tmp_path, 2) as store:
        seat = Seat(store)
        (claim,) = seat.claim(1)
        seat.finish(claim.key, answer())
        seat.leave()
    with made(tmp_path, 5) as store:
        assert store.counts() == {"waiting": 4, "running": 0, "finished": 1, "failed": 0}
        assert [row.position for row in store.rows()] == list(range(5))
    with pytest.raises(InvalidInputError, match="but belongs to 'tiny'"):
        RunStore.create(tmp_path / "study", study_of(jobs(1), name="other"))


def test_what_is_no_store(tmp_path):
    with pytest.raises(InvalidInputError, match=r"holds no store\.sqlite"):
        RunStore(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="holds other files"):
        RunStore.create(tmp_path, study_of(jobs(1)))
    with pytest.raises(NotADirectoryError, match="is a file"):
        RunStore.create(tmp_path / "thesis.txt", study_of(jobs(1)))
    (tmp_path / "store.sqlite").write_bytes(b"SQLite format 3\0" + bytes(5000))
    with pytest.raises(FileFormatError, match=r"is damaged|is another database"):
        RunStore(tmp_path)
    (tmp_path / "store.sqlite").write_text("not at all a database, but long enough to be read as one\n" * 50)
    with pytest.raises(FileFormatError, match="is damaged"):
        RunStore(tmp_path)
    (tmp_path / "store.sqlite").unlink()
    sqlite3.connect(tmp_path / "store.sqlite").execute("CREATE TABLE study (x)").connection.close()
    with pytest.raises(FileFormatError, match="is another database"):
        RunStore(tmp_path)


def test_a_key_that_names_another_place(tmp_path):
    with made(tmp_path, 1) as store:
        store.database.execute("UPDATE jobs SET key = '../../elsewhere'")
        seat = Seat(store)
        (claim,) = seat.claim(1)
        with pytest.raises(FileFormatError, match="64 hexadecimal digits"):
            seat.finish(claim.key, answer())
        seat.leave()
    assert not (tmp_path / "elsewhere.npz").exists()


def test_a_creation_that_was_killed_is_begun_anew(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "store.sqlite").touch()
    with made(tmp_path, 3) as store:
        assert store.counts()["waiting"] == 3


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    made(tmp_path).close()
    path = tmp_path / "study" / "store.sqlite"
    database = sqlite3.connect(path)
    database.execute("UPDATE study SET version = '9.1'")
    database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    database.commit()
    database.close()
    before = path.read_bytes()
    for attempt in (
        lambda: RunStore(tmp_path / "study"),
        lambda: made(tmp_path, 9),
        lambda: run_study(tmp_path / "study", runner=tiny_runner.NAME),
    ):
        with pytest.raises(
            FileFormatError, match=r"by a newer hardmax 9\.1 \(schema 2, this version reads up"
        ):
            attempt()
    assert path.read_bytes() == before
    for command in ("resume", "status", "export"):
        done = CliRunner().invoke(main, ["lab", command, str(tmp_path / "study")])
        assert done.exit_code == 2
        assert "newer hardmax" in done.output


def test_no_two_drivers_claim_the_same_job(tmp_path):
    made(tmp_path, 60).close()
    claimed: list[str] = []

    def drive():
        with RunStore(tmp_path / "study") as store:
            seat = Seat(store)
            while claims := seat.claim(3):
                claimed.extend(claim.key for claim in claims)
                for claim in claims:
                    seat.fail(claim.key, "not today")
            seat.leave()

    with ThreadPoolExecutor(4) as pool:
        for driver in [pool.submit(drive) for _ in range(4)]:
            driver.result()
    assert len(claimed) == len(set(claimed)) == 60
    assert list((tmp_path / "study" / "drivers").iterdir()) == []


def test_costly_jobs_come_first_and_ties_in_order(tmp_path):
    entries = jobs(6)
    study = Study.of("x", entries, runner=tiny_runner.NAME, cost=lambda job: 1 + job["n"] // 2)
    with RunStore.create(tmp_path / "x", study) as store:
        seat = Seat(store)
        assert [json.loads(claim.text)["n"] for claim in seat.claim(9)] == [4, 5, 2, 3, 0, 1]
        assert seat.claim(9) == []
        seat.leave()
        assert store.counts()["waiting"] == 6


def test_a_lease_that_ran_out(tmp_path):
    """The first to finish counts, whoever holds the lease; nothing is written twice."""
    store = made(tmp_path, 1)
    slow, fast = Seat(store, lease=0.0), Seat(store)
    (mine,) = slow.claim(1)
    time.sleep(0.01)
    (claim,) = fast.claim(1)
    assert claim == mine
    assert slow.renew() == set()
    assert fast.renew() == {claim.key}
    slow.fail(claim.key, "no longer its to judge")
    slow.lose(claim.key, "neither")
    assert store.counts()["running"] == 1
    assert slow.finish(claim.key, answer(cpu=1.0))
    written = store.result_path(claim.key).read_bytes()
    assert not fast.finish(claim.key, answer(cpu=2.0))
    assert store.result_path(claim.key).read_bytes() == written == answer(cpu=1.0).content
    assert [what for _, _, what, _ in store.history(claim.key)] == [
        "claimed", "abandoned", "claimed", "finished",
    ]  # fmt: skip
    assert [path.name for path in (tmp_path / "study" / "results").iterdir()] == [f"{claim.key}.npz"]


def test_a_driver_of_another_machine_is_known_by_its_lease_alone(tmp_path, monkeypatch):
    store = made(tmp_path, 1)
    monkeypatch.setattr(leases, "this_machine", lambda: "far/away")
    far = Seat(store)
    far.claim(1)
    far._lock.dropped()  # as a lock that cannot be seen from here
    monkeypatch.undo()
    near = Seat(store)
    assert near.claim(1) == []
    assert progress_of(store).drivers == 2
    for table in ("jobs", "drivers"):
        store.database.execute(f"UPDATE {table} SET lease = lease - 1000 WHERE lease IS NOT NULL")
    assert len(near.claim(1)) == 1
    near.renew()
    assert progress_of(store).drivers == 1
    near.leave()
    store.close()


class Killed(BaseException):
    """Stands for a process that ends here and now."""


@pytest.mark.parametrize("point", ["write", "fsync", "rename", "row", "commit"])
@pytest.mark.parametrize("what", ["killed", "full"])
def test_nothing_half_written_counts(tmp_path, monkeypatch, point, what):
    """A driver stops at each point of writing a result: the job is not finished, and is run again."""
    store = made(tmp_path, 1)
    seat = Seat(store)
    (claim,) = seat.claim(1)

    def stop(*arguments, **options):
        raise Killed if what == "killed" else OSError(errno.ENOSPC, "no space left")

    class Stopping:
        """A connection that cannot commit."""

        def __init__(self, database):
            self.database = database

        def execute(self, statement, *values):
            return stop() if statement == "COMMIT" else self.database.execute(statement, *values)

        def __getattr__(self, name):
            return getattr(self.database, name)

    class Full:
        def __init__(self, path, mode):
            self.file = open(path, mode)  # noqa: SIM115

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def write(self, content):
            self.file.write(content[:100])
            self.file.flush()
            stop()

    with monkeypatch.context() as patch:
        match point:
            case "write":
                patch.setattr(leases, "open", Full, raising=False)
            case "fsync":
                patch.setattr(leases.os, "fsync", stop)
            case "rename":
                patch.setattr(leases.os, "replace", stop)
            case "row":
                patch.setattr(store, "note", stop)
            case "commit":
                patch.setattr(store, "database", Stopping(store.database))
        with pytest.raises(Killed if what == "killed" else OSError):
            seat.finish(claim.key, answer())
    (row,) = store.rows()
    assert (row.state, row.summary, row.sha256) == ("running", None, None)
    with pytest.raises(InvalidInputError, match="is running"):
        store.result(claim.key)
    assert not list((tmp_path / "study" / "results").glob(".*"))
    seat.leave()
    again = Seat(store)
    (claim,) = again.claim(1)
    assert again.finish(claim.key, answer(cpu=3.0))
    assert store.result_path(claim.key).read_bytes() == answer(cpu=3.0).content
    assert isinstance(store.result(claim.key), hm.bounds.HeadBudget)
    again.leave()
    store.close()


def test_a_partial_file_of_a_dead_driver_is_removed(tmp_path):
    store = made(tmp_path, 1)
    dead = Seat(store)
    (claim,) = dead.claim(1)
    partial = tmp_path / "study" / "results" / f".{claim.key}.{dead.name}.partial"
    partial.write_bytes(b"half")
    os.close(dead._lock._handle)  # what the system does when a process is killed
    alive = Seat(store)
    assert [c.key for c in alive.claim(1)] == [claim.key]
    assert not partial.exists()
    alive.leave()
    store.close()


# Running ------------------------------------------------------------------------------------------------


def test_every_number_of_workers_gives_the_same_files(tmp_path):
    tables = []
    for n in (1, 3):
        study = study_of(jobs(7, do="print"))
        done = run_study(tmp_path / str(n), study, jobs=n)
        assert (done.finished, done.complete) == (7, True)
        with RunStore(tmp_path / str(n)) as store:
            rows = exports.job_rows(store)
            assert all(store.result(row["key"]).n_tokens == 2 + row["job.n"] for row in rows)
        files = {p.name: p.read_bytes() for p in (tmp_path / str(n) / "results").iterdir()}
        timeless = [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]
        tables.append((files, timeless))
    assert tables[0] == tables[1]
    assert [row["job.n"] for row in rows] == list(range(7))


def test_a_job_that_fails_is_told_and_the_others_finish(tmp_path):
    log = tmp_path / "log"
    entries = [
        *jobs(3, log),
        *jobs(1, log, do="raise"),
        *jobs(1, log, do="refuse"),
        *jobs(1, log, do="nonsense"),
    ]
    done = run_study(tmp_path / "s", study_of(entries), jobs=2)
    assert (done.finished, done.failed, done.complete) == (3, 3, False)
    with RunStore(tmp_path / "s") as store:
        errors = [str(row.error) for row in store.rows("failed")]
    assert errors[0].startswith("Traceback")
    assert errors[0].endswith("RuntimeError: no way")
    assert errors[1] == "InvalidInputError: n must be smaller."
    assert "a runner must return a result or the bytes of its file" in errors[2]
    assert sum(runs(log).values()) == 6
    assert run_study(tmp_path / "s", runner=tiny_runner.NAME).failed == 3
    assert sum(runs(log).values()) == 6
    assert run_study(tmp_path / "s", runner=tiny_runner.NAME, retry_failed=True).failed == 3
    assert sum(runs(log).values()) == 9


def test_a_job_that_kills_its_workers_is_given_up(tmp_path):
    log = tmp_path / "log"
    study = study_of([{"n": 0, "log": str(log), "do": "die"}, *({"n": n, "log": str(log)} for n in (1, 2))])
    done = run_study(tmp_path / "s", study)
    assert (done.finished, done.failed) == (2, 1)
    assert runs(log) == {0: 3, 1: 1, 2: 1}
    with RunStore(tmp_path / "s") as store:
        (row,) = store.rows("failed")
    assert row.error == "its worker died 3 times, the last time because it was killed by SIGKILL"


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("no_such_module:run", "no module 'no_such_module'"),
        ("oracles.tiny_runner:walk", "has no attribute 'walk'"),
        ("oracles.tiny_runner:NAME", "must be a function"),
    ],
)
def test_a_runner_that_is_not_there(tmp_path, runner, message):
    with pytest.raises(InvalidInputError, match=message):
        run_study(tmp_path / "s", Study.of("x", jobs(2), runner=runner))
    with RunStore(tmp_path / "s") as store:
        assert store.counts()["waiting"] == 2  # nothing of it is the fault of the jobs


def test_a_missing_extra_is_not_the_fault_of_the_job(monkeypatch):
    def run(text):
        raise MissingExtraError("try: pip install 'hardmax[lab]'.")

    monkeypatch.setattr(tiny_runner, "run", run)
    with pytest.raises(MissingExtraError, match="lab"):
        perform(tiny_runner.NAME, "{}")


def test_a_stored_name_alone_runs_nothing(tmp_path):
    made(tmp_path).close()
    for runner, message in ((None, "if you trust it"), ("os:system", "which is 'oracles.tiny_runner:run'")):
        with pytest.raises(InvalidInputError, match=message):
            run_study(tmp_path / "study", runner=runner)
    with pytest.raises(InvalidInputError, match="jobs must be a positive number"):
        run_study(tmp_path / "study", runner=tiny_runner.NAME, jobs=0)


def test_jobs_of_other_numerics_are_refused(tmp_path):
    study = Study.of("x", [{"widths": [2, 4, 1], "seed": 0, "box": 4}], runner="cells")
    other = Study("x", (StudyJob(study.jobs[0].text, key="0" * 64),), "cells")
    RunStore.create(tmp_path / "x", other).close()
    with pytest.raises(InvalidInputError, match="with other numbers"):
        run_study(tmp_path / "x")


def test_remaining_time_is_told(tmp_path):
    told = []
    study = study_of([*jobs(2, do="half"), *jobs(3, seconds=0.2)])
    done = run_study(tmp_path / "s", study, jobs=2, progress=told.append)
    assert (done.remaining, done.drivers, told[-1].remaining, told[-1].drivers) == (0.0, 0, 0.0, 1)
    assert told[0].remaining is None  # nothing is known yet
    guesses = [state.remaining for state in told if state.remaining]
    assert guesses
    assert all(0 < guess < 60 for guess in guesses)
    half = [state for state in told if state.finished == 0 and state.remaining]
    assert half, "the share of a running job says how long it takes, before any is finished"


# Disks and files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["result", "row", "claim"])
def test_a_disk_that_is_full_for_a_while(tmp_path, monkeypatch, point):
    """Results wait in memory until there is room; no job is run twice."""
    log, refused = tmp_path / "log", []

    def refusing(function):
        def sometimes(*arguments, **options):
            if len(refused) < 5:
                refused.append(function.__name__)
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments, **options)

        return sometimes

    match point:
        case "result":
            monkeypatch.setattr(leases.os, "fsync", refusing(os.fsync))
        case "row":
            monkeypatch.setattr(leases, "sync_folder", refusing(leases.sync_folder))
        case "claim":
            monkeypatch.setattr(Seat, "claim", refusing(Seat.claim))
    told = []
    done = run_study(tmp_path / "s", study_of(jobs(4, log)), progress=told.append)
    assert done.complete
    assert len(refused) == 5
    troubles = {state.trouble for state in told}
    assert troubles == {"", "waiting for room on the disk (No space left on device)"}
    assert told[-1].trouble == ""
    assert runs(log) == dict.fromkeys(range(4), 1)


def test_a_disk_that_stays_full(tmp_path, monkeypatch):
    log = tmp_path / "log"
    with monkeypatch.context() as patch:

        def full(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(leases.os, "fsync", full)
        with pytest.raises(
            IncompleteError, match=r"cannot be written \(No space left on device\).*Make room"
        ):
            run_study(tmp_path / "s", study_of(jobs(4, log)), jobs=2, patience=0.05)
    assert sum(runs(log).values()) == 2  # nothing new is begun on a full disk
    with RunStore(tmp_path / "s") as store:
        assert store.counts() == {"waiting": 4, "running": 0, "finished": 0, "failed": 0}
    assert run_study(tmp_path / "s", runner=tiny_runner.NAME).complete


def test_an_error_that_is_no_full_disk_is_raised(tmp_path, monkeypatch):
    def broken(*arguments):
        raise PermissionError(errno.EACCES, "not yours")

    monkeypatch.setattr(leases.os, "replace", broken)
    with pytest.raises(PermissionError):
        run_study(tmp_path / "s", study_of(jobs(1)))


def test_damaged_result_files_are_computed_again_and_no_others(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "s"
    study = study_of(jobs(5, log))
    run_study(folder, study)
    with RunStore(folder) as store:
        paths = [store.result_path(job.key) for job in study.jobs]
        whole = [path.read_bytes() for path in paths]
        flipped = bytearray(whole[0])
        flipped[len(flipped) // 2] ^= 1
        paths[0].write_bytes(flipped)
        paths[1].write_bytes(whole[1][:-7])
        paths[2].unlink()
        paths[3].write_bytes(whole[4])  # a sound file, but of another job
        assert store.damaged() == [job.key for job in study.jobs[:4]]
        for i, words in enumerate(["is not the file", "is not the file", "is missing", "is not the file"]):
            with pytest.raises(FileFormatError, match=f"{words}.*hardmax lab resume"):
                store.result(study.jobs[i].key)
    checked = CliRunner().invoke(main, ["lab", "status", str(folder), "--check"])
    assert "damaged result files: 4" in checked.output
    untouched = paths[4].stat().st_mtime_ns
    done = run_study(folder, runner=tiny_runner.NAME)
    assert (done.recovered, done.complete) == (4, True)
    assert runs(log) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 1}
    assert [path.read_bytes() for path in paths] == whole
    assert paths[4].stat().st_mtime_ns == untouched


# Tables -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Two finished jobs and one that waits."""
    folder = tmp_path_factory.mktemp("studies") / "tiny"
    run_study(folder, study_of([{"n": n, "list": [n, 1]} for n in (3, 4)]))
    RunStore.create(folder, study_of([{"n": 5, "more": {"x": 0.5}}])).close()
    return folder


def test_tables(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["lab", "export", str(finished)]
    rows = list(csv.DictReader(CliRunner().invoke(main, command).output.splitlines()))
    assert [row["state"] for row in rows] == ["finished", "finished", "waiting"]
    assert [row["job.n"] for row in rows] == ["3", "4", "5"]
    assert [row["job.more.x"] for row in rows] == ["", "", "0.5"]
    assert [row["result.n_tokens"] for row in rows] == ["5", "6", ""]
    assert list(rows[0])[:3] == ["position", "key", "state"]
    records = json.loads(CliRunner().invoke(main, [*command, "--json"]).output)
    assert records[0]["job.list"] == "[3, 1]"
    assert [record["result.n_tokens"] for record in records] == [5, 6, None]
    assert CliRunner().invoke(main, [*command, "--out", "t.json"]).exit_code == 0
    assert json.loads(Path("t.json").read_text()) == records
    history = list(csv.DictReader(CliRunner().invoke(main, [*command, "--history"]).output.splitlines()))
    assert [(row["job.n"], row["step"], row["heads"]) for row in history] == [
        ("3", "0", "1"), ("3", "1", "2"), ("4", "0", "1"), ("4", "1", "2"),
    ]  # fmt: skip
    wrong = CliRunner().invoke(main, [*command, "--out", "t.xlsx"])
    assert wrong.exit_code == 2
    assert "--out must end in .csv, .json, .parquet" in wrong.output


def test_parquet(finished, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="pandas writes parquet with pyarrow")
    path = tmp_path / "t.parquet"
    assert CliRunner().invoke(main, ["lab", "export", str(finished), "--out", str(path)]).exit_code == 0
    table = pandas.read_parquet(path)
    with RunStore(finished) as store:
        expected = exports.job_rows(store)
    assert table["key"].tolist() == [row["key"] for row in expected]
    assert table["result.n_tokens"][:2].tolist() == [5, 6]


def test_parquet_with_columns_of_several_kinds():
    """A seed that diverged has an infinite error, which is a word in JSON."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="pandas writes parquet with pyarrow")
    rows = [
        {"final": 0.5, "target": "max(t) x[t]"},
        {"final": "inf", "target": 3},
        {"final": None, "target": None},
    ]
    table = pandas.read_parquet(io.BytesIO(exports.export_rows(rows, "parquet")))
    assert table["final"][:2].tolist() == [0.5, math.inf]
    assert table["final"].isna().tolist() == [False, False, True]
    assert table["target"][:2].tolist() == ['"max(t) x[t]"', "3"]


def test_parquet_without_pyarrow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"hardmax\[parquet\]"):
        exports.export_rows([{"a": 1}], "parquet")


def test_the_store_needs_neither_torch_nor_dask():
    code = "import sys, hardmax.lab.drivers; print(*({'torch', 'distributed', 'pandas'} & set(sys.modules)))"
    source = str(Path(hm.__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


# The command line ---------------------------------------------------------------------------------------


def test_an_unknown_study(finished, monkeypatch):
    monkeypatch.chdir(finished.parent)
    for command in ("run", "resume", "status", "export"):
        done = CliRunner().invoke(main, ["lab", command, "tinny"])
        assert done.exit_code == 2
        assert "did you mean tiny?" in done.output
        done = CliRunner().invoke(main, ["lab", command, "quite/another"])
        assert done.exit_code == 2
        assert "STUDY must be" in done.output


def test_a_study_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = {"widths": [2, 4, 1], "seed": 0, "box": 4}
    Path("c.json").write_text(
        json.dumps({"study": "c", "runner": "cells", "job": job, "vary": {"seed": [0, 1, 2]}})
    )
    done = CliRunner().invoke(main, ["lab", "run", "c.json", "--jobs", "1", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["finished"], report["total"], report["complete"]) == (3, 3, True)
    assert "0 of 3 finished, 1 running" in done.stderr
    shown = CliRunner().invoke(main, ["lab", "status", "c"])
    assert shown.output.splitlines()[:3] == [
        "study c: 3 jobs, runner cells",
        "          number",
        "finished       3",
    ]
    with RunStore("out/c") as store:
        cells = [row.values["n_cells"] for row in store.rows()]
    square = hm.Box.cube(2, -4, 4)
    assert cells == [hm.count_cells(hm.Network.random_mlp([2, 4, 1], s), square).n_cells for s in (0, 1, 2)]
    assert CliRunner().invoke(main, ["lab", "run", "c.json"]).exit_code == 0
    assert CliRunner().invoke(main, ["lab", "run", "out/c"]).exit_code == 0
    assert CliRunner().invoke(main, ["lab", "run", "c"]).exit_code == 0  # as status and resume say it


def test_a_foreign_runner_has_to_be_confirmed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(study_of([*jobs(1), {"n": 5, "do": "raise"}]), "t.json")
    done = CliRunner().invoke(main, ["lab", "run", "t.json"])
    assert done.exit_code == 2
    assert f"say so with --runner {tiny_runner.NAME}" in done.output
    assert not Path("out").exists()
    done = CliRunner().invoke(main, ["lab", "run", "t.json", "--runner", "os:system"])
    assert done.exit_code == 2
    done = CliRunner().invoke(main, ["lab", "run", "t.json", "--runner", tiny_runner.NAME])
    assert done.exit_code == 1
    assert "1 of 2 jobs failed" in done.stderr
    assert "RuntimeError: no way" in done.stdout
    done = CliRunner().invoke(main, ["lab", "resume", "tiny"])
    assert done.exit_code == 2
    assert "if you trust it" in done.output
