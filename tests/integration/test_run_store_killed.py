"""Studies whose workers, drivers, disks and clusters are killed or full, for real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path

import joblib
import pytest
from click.testing import CliRunner
from oracles import tiny_runner
from oracles.tiny_runner import jobs, lines, runs, workers

import hardmax as hm
from hardmax.cli import main
from hardmax.training.studies import RunStore, Study, run_study, write_study
from hardmax.training.studies import driver as driver_module
from hardmax.training.studies.driver import pool_for
from hardmax.training.studies.runners import Run
from hardmax.training.studies.store import checked_content

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")

TIMEOUT = 120.0


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(driver_module, "_POLL", 0.05)
    monkeypatch.setattr(driver_module, "_REPORT_EVERY", 0.02)


def study_of(entries) -> Study:
    return Study.of("tiny", entries, runner=tiny_runner.NAME)


def environment() -> dict[str, str]:
    """Processes that are started find the same hardmax, and the runner."""
    source, tests = Path(hm.__file__).resolve().parent.parent, Path(__file__).resolve().parents[1]
    path = [str(source), str(tests), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def started(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A driver of its own, on the command line; what it prints is in the file ``output``."""
    command = [sys.executable, "-m", "hardmax", "training", *arguments, "--runner", tiny_runner.NAME]
    with open(folder / "output", "ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdout=output,
            stderr=output,
            # a run of the tests in the background would pass on that interrupts are ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def until(true, what: str) -> None:
    end = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")  # a zombie has ended
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def finished_jobs(folder: Path) -> set[int]:
    return {row.job["n"] for row in RunStore(folder).rows("finished")}


def end(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def test_a_worker_that_is_killed(tmp_path):
    """Its job is run again, the job beside it goes on."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    killed = []

    def kill(progress):
        if not killed and len(lines(log)) == 2:
            os.kill(workers(log)[0], signal.SIGKILL)
            killed.append(int(lines(log)[0].split()[0]))
        elif killed and len(lines(log)) == 3:
            gate.touch()

    done = run_study(tmp_path / "s", study_of(jobs(5, log, gate=str(gate))), n_jobs=2, progress=kill)
    assert done.complete
    assert runs(log) == {n: 1 + (n in killed) for n in range(5)}
    rows = RunStore(tmp_path / "s").rows()
    assert [row.attempts for row in rows] == [1 + (row.job["n"] in killed) for row in rows]


def test_a_worker_that_is_killed_while_it_is_idle(tmp_path):
    log = tmp_path / "log"
    pool = pool_for(1, None)
    try:
        first, second = (json.dumps(job) for job in jobs(2, log))
        assert isinstance(pool.outcome(_done(pool.submit(tiny_runner.NAME, first, None))), Run)
        os.kill(workers(log)[0], signal.SIGKILL)
        until(lambda: not alive(workers(log)[0]), "it is dead")
        time.sleep(0.5)  # loky notices
        assert isinstance(pool.outcome(_done(pool.submit(tiny_runner.NAME, second, None))), Run)
    finally:
        pool.close()
    assert len(set(workers(log))) == 2


def _done(future):
    wait([future], timeout=TIMEOUT)
    return future


def test_a_driver_that_is_killed(tmp_path):
    """Its workers end, finished jobs stay, the others are run by the next driver at once."""
    log, gate, folder = tmp_path / "log", tmp_path / "gate", tmp_path / "out" / "tiny"
    entries = [*jobs(3, log), *({"n": n, "log": str(log), "gate": str(gate)} for n in (3, 4, 5))]
    write_study(study_of(entries), tmp_path / "s.json")
    driver = started(tmp_path, "run", "s.json", "--jobs", "2")
    try:
        until(lambda: len(lines(log)) == 5, "three jobs are finished and two are running")
        until(lambda: len(finished_jobs(folder)) == 3, "three files are written")
        until(lambda: RunStore(folder).counts()["running"] == 2, "it says what it runs")
        (folder / "results" / f".{'0' * 64}.npz.abcd.partial").touch()  # as if it were writing
    finally:
        end(driver)
    assert driver.returncode == -signal.SIGKILL
    until(lambda: not any(alive(pid) for pid in workers(log)), "its workers have ended")
    assert RunStore(folder).counts() == {"waiting": 3, "running": 0, "finished": 3, "failed": 0}
    assert "no driver is running" in CliRunner().invoke(main, ["training", "status", str(folder)]).output
    gate.touch()
    assert run_study(folder, runner=tiny_runner.NAME, n_jobs=2).complete
    assert runs(log) == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 1}
    assert list((folder / "drivers").iterdir()) == []
    assert not list(folder.glob("**/.*"))


@pytest.mark.slow
def test_drivers_that_are_killed_at_any_moment(tmp_path):
    """Whatever was finished at the time of the kill is never run again; in the end everything is there."""
    log, folder = tmp_path / "log", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(40, log, seconds=0.01)))
    for after in (3, 15):
        driver = started(tmp_path, "resume", "s", "--jobs", "2")
        try:
            until(lambda after=after: len(lines(log)) >= after, f"{after} jobs have begun")
        finally:
            end(driver)
        until(lambda: not any(alive(pid) for pid in workers(log)), "its workers have ended")
        done, before = finished_jobs(folder), runs(log)
        assert RunStore(folder).damaged() == []
    assert run_study(folder, runner=tiny_runner.NAME).complete
    assert {n: runs(log)[n] for n in done} == {n: before[n] for n in done}
    assert set(runs(log)) == set(range(40))
    assert sum(runs(log).values()) <= 40 + 2 * 2  # at most what was running
    files = {path.name for path in (folder / "results").iterdir()}
    assert files == {f"{key}.npz" for key in RunStore(folder).jobs}


def test_two_drivers_on_one_study(tmp_path):
    """They share the jobs; one of them is killed, and the other runs what is left."""
    log, gate, folder = tmp_path / "log", tmp_path / "gate", tmp_path / "s"
    entries = [{"n": n, "log": str(log), "gate": f"{gate}{'' if n < 20 else 'later'}"} for n in range(24)]
    RunStore.create(folder, Study.of("tiny", entries, runner=tiny_runner.NAME))
    both = [started(tmp_path, "resume", "s", "--jobs", "1") for _ in range(2)]
    try:
        until(lambda: len(set(workers(log))) == 2, "each of them runs a job")
        gate.touch()
        until(lambda: finished_jobs(folder) == set(range(20)), "they have finished what they can")
        until(lambda: sum(runs(log)[n] for n in range(20, 24)) == 2, "each of them runs another one")
        repeated = sum(runs(log)[n] - 1 for n in range(20))
        end(both[0])
        Path(f"{gate}later").touch()
        assert both[1].wait(timeout=TIMEOUT) == 0, (tmp_path / "output").read_text()
    finally:
        end(*both)
    assert finished_jobs(folder) == set(range(24))
    assert repeated <= 2  # both may choose the same job at the same moment
    assert sum(runs(log)[n] for n in range(20, 24)) <= 4 + 1 + 1
    assert RunStore(folder).damaged() == []


def test_two_drivers_that_know_nothing_of_each_other(tmp_path, monkeypatch):
    """Without the files of drivers every job may be run twice: the results are the same, none is lost."""
    monkeypatch.setattr(RunStore, "drivers", lambda self: [])
    log, gate, folder = tmp_path / "log", tmp_path / "gate", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(2, log, gate=str(gate))))
    other = started(tmp_path, "resume", "s", "--jobs", "2")
    try:
        until(lambda: len(lines(log)) == 2, "the other driver runs both")

        def open_gate(progress):
            if len(lines(log)) == 4:
                gate.touch()

        done = run_study(folder, runner=tiny_runner.NAME, n_jobs=2, progress=open_gate)
        assert other.wait(timeout=TIMEOUT) == 0
    finally:
        end(other)
    assert done.complete
    assert runs(log) == {0: 2, 1: 2}
    store = RunStore(folder)
    assert store.damaged() == []
    assert [store.result(row.key).n_tokens for row in store.rows()] == [2, 3]


@pytest.mark.parametrize("whom", ["the driver", "everybody"])
def test_an_interrupt_ends_in_order(tmp_path, whom):
    """Also when a terminal sends it to the workers, too."""
    log, gate, folder = tmp_path / "log", tmp_path / "gate", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(3, log, gate=str(gate))))
    driver = started(tmp_path, "resume", "s", "--jobs", "2")
    try:
        until(lambda: len(lines(log)) == 2, "two jobs are running")
        for pid in workers(log) if whom == "everybody" else ():
            os.kill(pid, signal.SIGINT)
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=TIMEOUT) == 130
    finally:
        end(driver)
    output = (tmp_path / "output").read_text()
    assert "continue with: hardmax training resume s" in output
    assert "Traceback" not in output
    assert not any(alive(pid) for pid in workers(log))
    assert RunStore(folder).counts()["waiting"] == 3
    assert list((folder / "drivers").iterdir()) == []


FULL = """
import json, os, sys
from pathlib import Path
from click.testing import CliRunner
from oracles import tiny_runner
from hardmax.errors import IncompleteError
from hardmax.training.studies import RunStore, Study, run_study

disk, log = Path(sys.argv[1]), Path(sys.argv[2])
study = Study.of("tiny", tiny_runner.jobs(40, log), runner=tiny_runner.NAME)
filler, room = disk / "filler", int(sys.argv[3])
RunStore.create(disk / "s", study)
with open(filler, "wb") as file:  # leave room for some results and not for all
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    file.write(bytes(free - room))
found = {}
try:
    run_study(disk / "s", study, n_jobs=2, disk_full_timeout=0.2)
except IncompleteError as error:
    found["error"] = str(error)
store = RunStore(disk / "s")
found["counts"] = store.counts()
found["damaged"] = store.damaged()
found["done"] = [row.job["n"] for row in store.rows("finished")]
found["hidden"] = [p.name for p in (disk / "s").glob("**/.*")]
filler.unlink()
found["complete"] = run_study(disk / "s", runner=tiny_runner.NAME).complete
print(json.dumps(found))
"""


def test_a_disk_that_is_really_full(tmp_path):
    """A small disk in memory, mounted where only the test can see it."""
    log, disk = tmp_path / "log", tmp_path / "disk"
    disk.mkdir()
    unshare = [shutil.which("unshare") or "unshare", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size=512k none {disk}"
    try:
        possible = subprocess.run([*unshare, "sh", "-c", mount], capture_output=True).returncode == 0
    except OSError:
        possible = False
    if not possible:
        pytest.skip("a small disk cannot be mounted here")
    script = tmp_path / "full.py"
    script.write_text(FULL)
    room = 60_000
    done = subprocess.run(
        [*unshare, "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, script, disk, log, str(room)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=2 * TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "cannot be written" in found["error"]
    assert "Make room" in found["error"]
    assert 0 < found["counts"]["finished"] < 40
    assert found["counts"]["failed"] == 0
    assert (found["damaged"], found["hidden"], found["complete"]) == ([], [], True)
    again = runs(log)
    assert set(again) == set(range(40))
    assert all(again[n] == 1 for n in found["done"])  # what was finished was not repeated
    assert sum(again.values()) <= 40 + 2


# Clusters ----------------------------------------------------------------------------------------------


@contextmanager
def cluster(folder, nanny="--no-nanny"):
    """A scheduler and two workers, started from the command line on ports that are free."""

    def start(*arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        log = open(folder / f"{arguments[0]}.log", "ab")  # noqa: SIM115
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment(), cwd=folder)

    where = folder / "scheduler.json"
    begun = [
        start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(where),
        )
    ]
    try:
        for _ in range(2):
            begun.append(
                start(
                    "worker", "--scheduler-file", str(where), "--nthreads", "1", nanny,
                    "--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(folder),
                )
            )  # fmt: skip
        until(where.exists, "the scheduler is there")
        until(lambda: where.read_text().rstrip().endswith("}"), "it has said where")
        yield json.loads(where.read_text())["address"], begun
    finally:
        for process in reversed(begun):
            process.kill()
            process.wait(timeout=30)


@pytest.mark.slow
def test_a_cluster_with_a_worker_that_is_killed(tmp_path):
    distributed = pytest.importorskip("distributed")
    log, gate = tmp_path / "log", tmp_path / "gate"
    study = study_of([*jobs(6, log, gate=str(gate)), {"n": 9, "log": str(log), "do": "raise"}])
    killed = []
    with cluster(tmp_path) as (address, (scheduler, *members)):

        def kill(progress):
            if not killed and len(lines(log)) >= 2 and len(set(workers(log))) == 2:
                victim = next(member for member in members if member.pid == workers(log)[0])
                victim.kill()
                killed.append(int(lines(log)[0].split()[0]))
                gate.touch()

        done = run_study(tmp_path / "s", study, dask=address, progress=kill)
        assert killed
        assert (done.finished, done.failed) == (6, 1)
        assert runs(log) == {**{n: 1 + (n in killed) for n in range(6)}, 9: 1}
        with (
            distributed.Client(address, set_as_default=False) as client,
            joblib.parallel_config(backend="dask", client=client),
        ):
            assert run_study(tmp_path / "configured", study_of(jobs(2))).complete
            assert client.status == "running"  # a client that is not ours is not closed
        gate.unlink()
        more = study_of([{"n": 20, "log": str(log), "gate": str(gate)}])

        def gone(progress):
            if runs(log)[20]:
                scheduler.kill()

        with pytest.raises(hm.errors.IncompleteError, match="is gone"):
            run_study(tmp_path / "s", more, dask=address, progress=gone)
    gate.touch()
    run_study(tmp_path / "here", study, n_jobs=2)
    done = run_study(tmp_path / "s", runner=tiny_runner.NAME)  # here, now that the cluster is gone
    assert (done.finished, done.failed) == (7, 1)
    for path in (tmp_path / "here" / "results").iterdir():
        assert checked_content(path) == checked_content(tmp_path / "s" / "results" / path.name)


@pytest.mark.slow
def test_a_job_that_kills_the_workers_of_a_cluster_has_failed(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    log = tmp_path / "log"
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    study = study_of([{"n": 0, "log": str(log), "do": "die"}, {"n": 1, "log": str(log)}])
    with cluster(tmp_path, "--nanny") as (address, _):  # a nanny starts another worker
        done = run_study(tmp_path / "s", study, dask=address)
    assert (done.finished, done.failed) == (1, 1)
    (row,) = RunStore(tmp_path / "s").rows("failed")
    assert "its worker died 3 times; the last time, it was killed on the cluster" in row.error


def test_a_cluster_that_does_not_answer(tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(hm.errors.InvalidInputError, match="'bogus://nowhere' does not"):
        run_study(tmp_path / "s", study_of(jobs(1)), dask="bogus://nowhere")
    assert RunStore(tmp_path / "s").counts()["waiting"] == 1
