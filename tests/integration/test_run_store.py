"""Studies, the run store, tables, the command line; test_run_store_killed.py kills processes."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import math
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from click.testing import CliRunner
from oracles import tiny_runner
from oracles.tiny_runner import jobs, runs

import hardmax as hm
from hardmax import storage
from hardmax.cli import main
from hardmax.errors import FileFormatError, IncompleteError, InvalidInputError, MissingExtraError
from hardmax.training.data import canonical
from hardmax.training.studies import RunStore, Study, StudyJob, overview, read_study, run_study, write_study
from hardmax.training.studies import driver as driver_module
from hardmax.training.studies import runners as runs_module
from hardmax.training.studies import store as store_module
from hardmax.training.studies.runners import perform
from hardmax.training.studies.store import SCHEMA, DriverState, RunRecord, checked_content, run_file


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(driver_module, "_POLL", 0.05)
    monkeypatch.setattr(driver_module, "_RETRY", 0.02)
    monkeypatch.setattr(driver_module, "_REPORT_EVERY", 0.05)


def study_of(entries, name="tiny") -> Study:
    return Study.of(name, entries, runner=tiny_runner.NAME)


def made(tmp_path, n=4, **entries) -> RunStore:
    return RunStore.create(tmp_path / "study", study_of(jobs(n, **entries)))


def finish(store: RunStore, key: str, n: int = 0) -> None:
    result = hm.bounds.head_budget(2 + n, 4, heads=[1, 2])
    content = storage.to_bytes(storage.Stored(result.kind, result._state(), {}))
    store.finish(content, RunRecord(key, {"n_tokens": 2 + n}, 1.0, 0.5, 1, "0.1.0", time.time()))


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
        ("{", "must be JSON, but is not"),
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
    pytest.importorskip("hardmax.training.loop", reason="the trainer is not there")
    job = {
        "target": {"name": "pairwise", "D": 2, "d": 4, "seed": 0},
        "shape": {"n_tokens": 15, "d_token": 4, "widths": [12, 12], "heads": [2, 2], "hidden": [32, 32]},
        "settings": {"n_samples": -36_000},
        "seed": 0,
    }
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"study": "x", "job": job}))
    done = CliRunner().invoke(main, ["training", "run", str(path), "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "n_samples must be a whole number, 1 or more, but was -36000" in done.output
    path.write_text(json.dumps({"study": "x", "job": {**job, "shape": {**job["shape"], "heads": [5, 2]}}}))
    done = CliRunner().invoke(main, ["training", "run", str(path), "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "heads must divide widths" in done.output
    assert not (tmp_path / "x").exists()


# The store ----------------------------------------------------------------------------------------------


def test_more_jobs_are_added_and_known_ones_kept(tmp_path):
    store = made(tmp_path, 2)
    first = next(iter(store.jobs))
    finish(store, first)
    store = made(tmp_path, 5)
    assert store.counts() == {"waiting": 4, "running": 0, "finished": 1, "failed": 0}
    assert [row.job["n"] for row in store.rows()] == list(range(5))
    assert store.state_of(first) == "finished"
    with pytest.raises(InvalidInputError, match="but belongs to 'tiny'"):
        RunStore.create(tmp_path / "study", study_of(jobs(1), name="other"))


def test_jobs_that_two_drivers_add_at_once_are_all_kept(tmp_path, monkeypatch):
    """Each list is a file of its own, so neither replaces the other, whatever number both choose."""
    made(tmp_path, 1)
    monkeypatch.setattr(store_module.Path, "glob", lambda self, pattern: [])  # neither sees the other's list
    store_module._write_jobs(tmp_path / "study" / "jobs", list(study_of(jobs(3)).jobs[1:2]))
    store_module._write_jobs(tmp_path / "study" / "jobs", list(study_of(jobs(3)).jobs[2:]))
    monkeypatch.undo()
    assert sorted(row.job["n"] for row in RunStore(tmp_path / "study").rows()) == [0, 1, 2]


def test_what_is_no_store(tmp_path):
    with pytest.raises(InvalidInputError, match=r"holds no study\.json"):
        RunStore(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="holds other files"):
        RunStore.create(tmp_path, study_of(jobs(1)))
    with pytest.raises(NotADirectoryError, match="is a file"):
        RunStore.create(tmp_path / "thesis.txt", study_of(jobs(1)))
    for damage in ("", "{", "[1]", '{"schema": 1}', '{"schema": "x", "study": "a", "runner": "b:c"}'):
        (tmp_path / "study.json").write_text(damage)
        with pytest.raises(FileFormatError, match="is damaged"):
            RunStore(tmp_path)


def test_a_list_of_jobs_that_was_changed_is_refused(tmp_path):
    made(tmp_path, 1)
    (path,) = (tmp_path / "study" / "jobs").iterdir()
    path.write_text(path.read_text().replace('"key": "', '"key": "../../'))
    with pytest.raises(FileFormatError, match="is not the file that was written"):
        RunStore(tmp_path / "study")
    path.unlink()  # even with a checksum that fits, a key names no other place
    line = json.dumps({"key": "../../elsewhere", "cost": 1.0, "text": "{}"}) + "\n"
    path.with_name(f"000000-{store_module._digest(line)}.json").write_text(line)
    with pytest.raises(InvalidInputError, match="64 hexadecimal digits"):
        RunStore(tmp_path / "study")


def test_a_creation_that_was_killed_is_begun_anew(tmp_path, monkeypatch):
    write = store_module._write

    def killed(path, text):
        if path.name == "study.json":
            raise KeyboardInterrupt
        write(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, 3)
    assert made(tmp_path, 3).counts()["waiting"] == 3


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    made(tmp_path)
    path = tmp_path / "study" / "study.json"
    newer = {**json.loads(path.read_text()), "schema": SCHEMA + 1, "version": "9.1"}
    path.write_text(json.dumps(newer))
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
        done = CliRunner().invoke(main, ["training", command, str(tmp_path / "study")])
        assert done.exit_code == 2
        assert "newer hardmax" in done.output


def test_drivers_see_what_others_run(tmp_path):
    """By their process if they are on this machine, otherwise by the time of their last word."""
    store = made(tmp_path, 2)
    key = next(iter(store.jobs))
    here = store_module.platform.node()
    for host, pid, age, alive in (
        (here, os.getpid(), 0, True),
        (here, os.getpid(), 1000, False),
        (here, 2**22 + 1, 0, False),  # above the largest process number
        ("elsewhere", 2**22 + 1, 0, True),
        ("elsewhere", 2**22 + 1, 1000, False),
    ):
        store.write_driver(DriverState("d", host, pid, 1, {key: 0.0}, time.time() - age))
        assert (store.state_of(key) == "running") is alive
        assert store.counts()["running"] == len(store.drivers()) == alive
        assert [row.key for row in store.rows("running")] == [key] * alive


def test_the_file_of_a_run_is_the_npz_file_of_its_result(tmp_path):
    store = made(tmp_path, 1)
    (key,) = store.jobs
    finish(store, key)
    path = store.result_path(key)
    assert isinstance(hm.load(path), hm.bounds.HeadBudget)
    assert "header.json" in np.load(path)
    result = hm.bounds.head_budget(2, 4, heads=[1, 2])
    assert checked_content(path) == storage.to_bytes(storage.Stored(result.kind, result._state(), {}))
    with pytest.raises(InvalidInputError, match="must fit into 65535 bytes"):
        run_file(checked_content(path), RunRecord(key, {"x": "y" * 70_000}, 1.0, 1.0, 1, "0.1.0", 0.0))


@pytest.mark.parametrize("point", ["write", "fsync", "rename"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "no space left")])
def test_nothing_half_written_counts(tmp_path, monkeypatch, point, error):
    """Writing a result stops at each point: the job is not finished, and nothing is left."""
    store = made(tmp_path, 1)
    (key,) = store.jobs

    def stop(*arguments):
        raise error

    class Half:
        """A file that takes a part of what it is given."""

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
                patch.setattr(storage, "open", Half, raising=False)
            case "fsync":
                patch.setattr(storage.os, "fsync", stop)
            case "rename":
                patch.setattr(storage.os, "replace", stop)
        with pytest.raises(type(error) if isinstance(error, OSError) else error):
            finish(store, key)
    assert store.state_of(key) == "waiting"
    assert list((tmp_path / "study" / "results").iterdir()) == []
    finish(store, key)
    assert store.state_of(key) == "finished"


# Running ------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: checked_content(path) for path in (folder / "results").iterdir()}


def test_every_number_of_workers_gives_the_same_results(tmp_path):
    """In processes or in threads: the files differ in times only."""
    study = study_of(jobs(7, do="print"))
    for name, n in (("one", 1), ("three", 3)):
        assert run_study(tmp_path / name, study, n_jobs=n).complete
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert run_study(tmp_path / "threads", study_of(jobs(7, do="print"))).complete
    found = []
    for name in ("one", "three", "threads"):
        rows = overview.job_rows(RunStore(tmp_path / name))
        timeless = [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]
        found.append((contents(tmp_path / name), timeless))
    assert found[0] == found[1] == found[2]
    assert [row["job.n"] for row in rows] == list(range(7))
    assert [row["result.n_tokens"] for row in rows] == list(range(2, 9))


def test_the_configuration_of_joblib_is_respected(tmp_path):
    log = tmp_path / "log"
    with joblib.parallel_config(backend="threading", n_jobs=2):
        run_study(tmp_path / "threads", study_of(jobs(3, log)))
    assert set(tiny_runner.workers(log)) == {os.getpid()}
    log.unlink()
    slots = []
    with joblib.parallel_config(n_jobs=2):
        study = study_of(jobs(3, log))
        run_study(tmp_path / "processes", study, progress=lambda state: slots.append(state.slots))
    assert max(slots) == 2
    assert os.getpid() not in tiny_runner.workers(log)


def test_the_most_costly_jobs_are_run_first(tmp_path):
    log = tmp_path / "log"
    study = Study.of("x", jobs(6, log), runner=tiny_runner.NAME, cost=lambda job: 1 + job["n"] // 2)
    run_study(tmp_path / "x", study)
    assert list(runs(log)) == [4, 5, 2, 3, 0, 1]


def test_a_job_that_fails_is_reported_and_the_others_finish(tmp_path):
    log = tmp_path / "log"
    entries = [*jobs(3, log), *(jobs(1, log, do=what)[0] for what in ("raise", "refuse", "nonsense", "exit"))]
    done = run_study(tmp_path / "s", study_of(entries), n_jobs=2)
    assert (done.finished, done.failed, done.complete) == (3, 4, False)
    errors = [str(row.error) for row in RunStore(tmp_path / "s").rows("failed")]
    assert errors[0].startswith("Traceback")
    assert errors[0].endswith("RuntimeError: no way")
    assert errors[1] == "InvalidInputError: n must be smaller."
    assert "a runner must return a result or the bytes of its file" in errors[2]
    assert errors[3].endswith("SystemExit: 3")
    assert sum(runs(log).values()) == 7
    assert run_study(tmp_path / "s", runner=tiny_runner.NAME).failed == 4
    assert sum(runs(log).values()) == 7
    assert run_study(tmp_path / "s", runner=tiny_runner.NAME, retry_failed=True).failed == 4
    assert sum(runs(log).values()) == 11
    assert [row.attempts for row in RunStore(tmp_path / "s").rows("failed")] == [2] * 4


def test_a_job_that_kills_its_workers_has_failed(tmp_path):
    """And nobody else suffers, not even those that run beside it."""
    log = tmp_path / "log"
    entries = [{"n": 0, "log": str(log), "do": "die"}, *({"n": n, "log": str(log)} for n in (1, 2, 3))]
    done = run_study(tmp_path / "s", study_of(entries), n_jobs=2)
    assert (done.finished, done.failed) == (3, 1)
    assert runs(log) == {0: 3, 1: 1, 2: 1, 3: 1}
    (row,) = RunStore(tmp_path / "s").rows("failed")
    assert "its worker died 3 times" in row.error
    assert "SIGKILL" in row.error


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("no_such_module:run", "no module 'no_such_module'"),
        ("oracles.tiny_runner:walk", "has no attribute 'walk'"),
        ("oracles.tiny_runner:NAME", "must be a function"),
    ],
)
def test_a_runner_that_does_not_exist(tmp_path, runner, message):
    with pytest.raises(InvalidInputError, match=message):
        run_study(tmp_path / "s", Study.of("x", jobs(2), runner=runner))
    assert RunStore(tmp_path / "s").counts()["waiting"] == 2  # nothing of it is the fault of the jobs


def test_a_missing_extra_is_not_the_fault_of_the_job(monkeypatch):
    def run(text):
        raise MissingExtraError("try: pip install torch.")

    monkeypatch.setattr(tiny_runner, "run", run)
    with pytest.raises(MissingExtraError, match="pip install torch"):
        perform(tiny_runner.NAME, "{}")


def test_long_texts_are_no_single_values(monkeypatch):
    """They would not fit into the record; the result has them."""
    content = storage.to_bytes(storage.Stored("HeadBudget", {"note": "x" * 70_000, "n": 3}, {}))
    monkeypatch.setattr(tiny_runner, "run", lambda text: content)
    monkeypatch.setattr(runs_module, "restored", lambda stored, path: None)
    assert perform(tiny_runner.NAME, "{}").values == {"n": 3}


def test_a_stored_name_alone_runs_nothing(tmp_path):
    made(tmp_path)
    for runner, message in ((None, "if you trust it"), ("os:system", "which is 'oracles.tiny_runner:run'")):
        with pytest.raises(InvalidInputError, match=message):
            run_study(tmp_path / "study", runner=runner)
    with pytest.raises(InvalidInputError, match="n_jobs must be a positive number"):
        run_study(tmp_path / "study", runner=tiny_runner.NAME, n_jobs=0)


def test_jobs_of_other_numerics_are_refused(tmp_path):
    study = Study.of("x", [{"widths": [2, 4, 1], "seed": 0, "box": 4}], runner="cells")
    RunStore.create(tmp_path / "x", Study("x", (StudyJob(study.jobs[0].text, key="0" * 64),), "cells"))
    with pytest.raises(InvalidInputError, match="with other numbers"):
        run_study(tmp_path / "x")


def test_remaining_time_is_reported(tmp_path):
    reports = []
    study = study_of([*jobs(2, do="half"), *jobs(3, seconds=0.2)])
    done = run_study(tmp_path / "s", study, n_jobs=2, progress=reports.append)
    last = reports[-1]
    assert (done.remaining, done.drivers, last.remaining, last.drivers) == (0.0, 0, 0.0, 1)
    assert reports[0].remaining is None  # nothing is known yet
    guesses = [state.remaining for state in reports if state.remaining]
    assert guesses
    assert all(0 < guess < 60 for guess in guesses)
    half = [state for state in reports if state.finished == 0 and state.remaining]
    assert half, "the share of a running job says how long it takes, before any is finished"


def test_a_bar(tmp_path, capsys):
    assert run_study(tmp_path / "s", study_of(jobs(2)), progress=True).complete
    assert "[##############################] 100 %  2 of 2 finished, 0 running" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match="progress must be True"):
        run_study(tmp_path / "s", runner=tiny_runner.NAME, progress="yes")


# Disks and files ----------------------------------------------------------------------------------------


def test_a_disk_that_is_full_for_a_while(tmp_path, monkeypatch):
    """Results wait in memory until there is room; no job is run twice."""
    log, refused, finish = tmp_path / "log", [], RunStore.finish

    def refusing(*arguments):
        if len(refused) < 5:
            refused.append(True)
            raise OSError(errno.ENOSPC, "No space left on device")
        finish(*arguments)

    monkeypatch.setattr(RunStore, "finish", refusing)
    reports = []
    assert run_study(tmp_path / "s", study_of(jobs(4, log)), progress=reports.append).complete
    assert len(refused) == 5
    troubles = {state.trouble for state in reports}
    assert troubles == {"", "waiting for room on the disk (No space left on device)"}
    assert reports[-1].trouble == ""
    assert runs(log) == dict.fromkeys(range(4), 1)


def test_a_disk_that_stays_full(tmp_path, monkeypatch):
    log = tmp_path / "log"
    study = study_of(jobs(4, log))
    RunStore.create(tmp_path / "s", study)
    with monkeypatch.context() as patch:

        def full(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(storage.os, "fsync", full)
        with pytest.raises(
            IncompleteError, match=r"cannot be written \(No space left on device\).*Make room"
        ):
            run_study(tmp_path / "s", study, n_jobs=2, disk_full_timeout=0.05)
    assert sum(runs(log).values()) == 2  # nothing new is started on a full disk
    assert RunStore(tmp_path / "s").counts() == {"waiting": 4, "running": 0, "finished": 0, "failed": 0}
    assert not list((tmp_path / "s").glob("**/.*"))
    assert run_study(tmp_path / "s", runner=tiny_runner.NAME).complete


def test_an_error_that_is_no_full_disk_is_raised(tmp_path, monkeypatch):
    def broken(*arguments):
        raise PermissionError(errno.EACCES, "not yours")

    monkeypatch.setattr(RunStore, "finish", broken)
    with pytest.raises(PermissionError):
        run_study(tmp_path / "s", study_of(jobs(1)))


def test_damaged_result_files_are_computed_again_and_no_others(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "s"
    study = study_of(jobs(6, log))
    run_study(folder, study)
    store = RunStore(folder)
    paths = [store.result_path(job.key) for job in study.jobs]
    sound = [path.read_bytes() for path in paths]
    before = contents(folder)
    flipped = bytearray(sound[0])
    flipped[len(flipped) // 2] ^= 1
    paths[0].write_bytes(flipped)
    paths[1].write_bytes(sound[1][:-7])
    paths[2].write_bytes(sound[2].replace(b'cpu_seconds\\": ', b'cpu_seconds\\": 9'))
    paths[3].write_bytes(sound[5])  # a sound file, but of another job
    paths[4].unlink()
    assert store.damaged() == [job.key for job in study.jobs[:4]]
    for job in study.jobs[:4]:
        with pytest.raises(
            FileFormatError, match="is not the file that was written; hardmax training resume"
        ):
            store.result(job.key)
    checked = CliRunner().invoke(main, ["training", "status", str(folder), "--check"])
    assert "damaged result files: 4" in checked.output
    untouched = paths[5].stat().st_mtime_ns
    done = run_study(folder, runner=tiny_runner.NAME)
    assert (done.recovered, done.complete) == (4, True)
    assert runs(log) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 1}
    assert contents(folder) == before
    assert paths[5].stat().st_mtime_ns == untouched


@pytest.mark.parametrize("seed", range(3))
def test_every_changed_byte_of_a_result_file_is_noticed(tmp_path, seed):
    store = made(tmp_path, 1)
    (key,) = store.jobs
    finish(store, key)
    sound = store.result_path(key).read_bytes()
    rng = np.random.default_rng(seed)
    for place in rng.integers(len(sound), size=100):
        changed = bytearray(sound)
        changed[place] ^= 1 << rng.integers(8)
        store.result_path(key).write_bytes(changed)
        assert store.damaged() == [key], place
    with zipfile.ZipFile(store.result_path(key), "w") as archive:  # an archive with an object to unpickle
        archive.writestr("heads.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'shape': (1,)}\n")
    with pytest.raises(FileFormatError):
        store.result(key)
    assert store.state_of(key) == "waiting"


# Tables -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Two finished jobs and one that waits."""
    folder = tmp_path_factory.mktemp("studies") / "tiny"
    run_study(folder, study_of([{"n": n, "list": [n, 1]} for n in (3, 4)]))
    RunStore.create(folder, study_of([{"n": 5, "more": {"x": 0.5}}]))
    return folder


def test_tables(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["training", "export", str(finished)]
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
    assert CliRunner().invoke(main, ["training", "export", str(finished), "--out", str(path)]).exit_code == 0
    table = pandas.read_parquet(path)
    expected = overview.job_rows(RunStore(finished))
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
    table = pandas.read_parquet(io.BytesIO(overview.export_rows(rows, "parquet")))
    assert table["final"][:2].tolist() == [0.5, math.inf]
    assert table["final"].isna().tolist() == [False, False, True]
    assert table["target"][:2].tolist() == ['"max(t) x[t]"', "3"]


def test_parquet_without_pyarrow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="try: pip install pandas pyarrow"):
        overview.export_rows([{"a": 1}], "parquet")


def test_the_store_needs_neither_torch_nor_dask():
    code = (
        "import sys, hardmax.training.studies; "
        "print(*({'torch', 'distributed', 'pandas'} & set(sys.modules)))"
    )
    source = str(Path(hm.__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


# The command line ---------------------------------------------------------------------------------------


def test_an_unknown_study(finished, monkeypatch):
    monkeypatch.chdir(finished.parent)
    for command in ("run", "resume", "status", "export"):
        done = CliRunner().invoke(main, ["training", command, "tinny"])
        assert done.exit_code == 2
        assert "did you mean tiny?" in done.output
        done = CliRunner().invoke(main, ["training", command, "quite/another"])
        assert done.exit_code == 2
        assert "STUDY must be" in done.output


def test_a_study_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = {"widths": [2, 4, 1], "seed": 0, "box": 4}
    Path("c.json").write_text(
        json.dumps({"study": "c", "runner": "cells", "job": job, "vary": {"seed": [0, 1, 2]}})
    )
    done = CliRunner().invoke(main, ["training", "run", "c.json", "--jobs", "1", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["finished"], report["total"], report["complete"]) == (3, 3, True)
    assert "0 of 3 finished, 1 running" in done.stderr
    shown = CliRunner().invoke(main, ["training", "status", "c"])
    assert shown.output.splitlines()[:3] == [
        "study c: 3 jobs, runner cells",
        "          number",
        "finished       3",
    ]
    cells = [row.values["n_cells"] for row in RunStore("out/c").rows()]
    square = hm.Box.cube(2, -4, 4)
    assert cells == [hm.count_cells(hm.Network.random_mlp([2, 4, 1], s), square).n_cells for s in (0, 1, 2)]
    assert CliRunner().invoke(main, ["training", "run", "c.json"]).exit_code == 0
    assert CliRunner().invoke(main, ["training", "run", "out/c"]).exit_code == 0
    assert CliRunner().invoke(main, ["training", "run", "c"]).exit_code == 0  # as status and resume do


def test_a_foreign_runner_has_to_be_confirmed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(study_of([*jobs(1), {"n": 5, "do": "raise"}]), "t.json")
    done = CliRunner().invoke(main, ["training", "run", "t.json"])
    assert done.exit_code == 2
    assert f"say so with --runner {tiny_runner.NAME}" in done.output
    assert not Path("out").exists()
    done = CliRunner().invoke(main, ["training", "run", "t.json", "--runner", "os:system"])
    assert done.exit_code == 2
    done = CliRunner().invoke(main, ["training", "run", "t.json", "--runner", tiny_runner.NAME])
    assert done.exit_code == 1
    assert "1 of 2 jobs failed" in done.stderr
    assert "RuntimeError: no way" in done.stdout
    done = CliRunner().invoke(main, ["training", "resume", "tiny"])
    assert done.exit_code == 2
    assert "if you trust it" in done.output
