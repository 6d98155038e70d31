"""Studies whose workers, drivers, disks and clusters are taken away from them, for real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from oracles import tiny_runner
from oracles.tiny_runner import jobs, lines, runs, workers

import hardmax as hm
from hardmax.cli import main
from hardmax.lab import drivers
from hardmax.lab.drivers import run_study
from hardmax.lab.store import RunStore
from hardmax.lab.studies import Study, write_study

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(drivers, "_POLL", 0.05)
    monkeypatch.setattr(drivers, "_TELL", 0.02)


def study_of(entries) -> Study:
    return Study.of("tiny", entries, runner=tiny_runner.NAME)


def environment() -> dict[str, str]:
    """Processes that are started find the same hardmax, and the runner."""
    source, tests = Path(hm.__file__).resolve().parent.parent, Path(__file__).resolve().parent
    path = [str(source), str(tests), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def started(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A driver of its own, on the command line; what it says is in the file ``words``."""
    command = [sys.executable, "-m", "hardmax", "lab", *arguments, "--runner", tiny_runner.NAME]
    with open(folder / "words", "ab") as words:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdout=words,
            stderr=words,
            # a run of the tests in the background would hand on that interrupts are ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def until(true, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")  # a zombie waits for nobody's call here
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def finished_jobs(folder: Path) -> set[int]:
    with RunStore(folder) as store:
        return {row.job["n"] for row in store.rows("finished")}


def test_a_worker_that_is_killed(tmp_path):
    log, gate = tmp_path / "log", tmp_path / "gate"
    killed = []

    def kill(progress):
        if not killed and len(lines(log)) == 2:
            os.kill(workers(log)[0], signal.SIGKILL)
            killed.append(int(lines(log)[0].split()[0]))
        elif killed and len(lines(log)) == 3:
            gate.touch()

    done = run_study(tmp_path / "s", study_of(jobs(5, log, gate=str(gate))), jobs=2, progress=kill)
    assert done.complete
    assert runs(log) == {n: 1 + (n in killed) for n in range(5)}
    with RunStore(tmp_path / "s") as store:
        (row,) = [row for row in store.rows() if row.job["n"] in killed]
        assert (row.attempts, row.deaths) == (2, 1)
        events = [(what, detail) for _, _, what, detail in store.history(row.key)]
    assert events == [
        ("claimed", ""),
        ("worker died", "it was killed by SIGKILL"),
        ("claimed", ""),
        ("finished", ""),
    ]


def test_a_driver_that_is_killed(tmp_path):
    """Its workers end, finished jobs stay, the others need not wait for the lease."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    entries = [*jobs(3, log), *({"n": n, "log": str(log), "gate": str(gate)} for n in (3, 4, 5))]
    write_study(study_of(entries), tmp_path / "s.json")
    driver = started(tmp_path, "run", "s.json", "--jobs", "2")
    try:
        until(lambda: len(lines(log)) == 5, "three jobs are finished and two are running")
        until(lambda: len(finished_jobs(tmp_path / "out" / "tiny")) == 3, "three rows are committed")
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == -signal.SIGKILL
    until(lambda: not any(alive(pid) for pid in workers(log)), "its workers have ended")
    with RunStore(tmp_path / "out" / "tiny") as store:
        assert store.counts() == {"waiting": 1, "running": 2, "finished": 3, "failed": 0}
    told = CliRunner().invoke(main, ["lab", "status", str(tmp_path / "out" / "tiny")]).output
    assert "nobody is at work" in told
    assert "hardmax lab resume runs them again" in told
    gate.touch()
    begin = time.monotonic()
    done = run_study(tmp_path / "out" / "tiny", runner=tiny_runner.NAME, jobs=2)
    assert time.monotonic() - begin < drivers.LEASE / 2
    assert done.complete
    assert runs(log) == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 1}
    assert list((tmp_path / "out" / "tiny" / "drivers").iterdir()) == []


def test_drivers_that_are_killed_at_any_moment(tmp_path):
    """Whatever was finished at the time of the kill is never run again; in the end all is there, once."""
    log, folder = tmp_path / "log", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(40, log, seconds=0.01))).close()
    for after in (3, 15):
        driver = started(tmp_path, "resume", "s", "--jobs", "2")
        try:
            until(lambda after=after: len(lines(log)) >= after, f"{after} jobs have begun")
        finally:
            driver.kill()
            driver.wait()
        until(lambda: not any(alive(pid) for pid in workers(log)), "its workers have ended")
        done, before = finished_jobs(folder), runs(log)
        with RunStore(folder) as store:
            assert store.damaged() == []
    assert run_study(folder, runner=tiny_runner.NAME).complete
    assert {n: runs(log)[n] for n in done} == {n: before[n] for n in done}
    assert set(runs(log)) == set(range(40))
    assert sum(runs(log).values()) <= 40 + 2 * 2  # at most what was under way
    files = {path.name for path in (folder / "results").iterdir()}
    with RunStore(folder) as store:
        assert files == {f"{row.key}.npz" for row in store.rows()}


def test_two_drivers_on_one_store(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "s"
    gate = tmp_path / "gate"
    RunStore.create(folder, study_of(jobs(30, log, gate=str(gate)))).close()
    both = [started(tmp_path, "resume", "s", "--jobs", "1") for _ in range(2)]
    try:
        until(lambda: len(lines(log)) == 2, "each of them runs a job")
        gate.touch()
        for driver in both:
            assert driver.wait(timeout=PATIENCE) == 0, (tmp_path / "words").read_text()
    finally:
        for driver in both:
            driver.kill()
            driver.wait()
    assert runs(log) == dict.fromkeys(range(30), 1)
    with RunStore(folder) as store:
        assert len({row.driver for row in store.rows("finished")}) == 2


def test_one_of_two_drivers_is_killed(tmp_path):
    """The other one takes over what it was running, without being told."""
    log, gate, folder = tmp_path / "log", tmp_path / "gate", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(6, log, gate=str(gate)))).close()
    both = [started(tmp_path, "resume", "s", "--jobs", "1") for _ in range(2)]
    try:
        until(lambda: len(lines(log)) == 2, "each of them runs a job")
        both[0].kill()
        gate.touch()
        assert both[1].wait(timeout=PATIENCE) == 0
    finally:
        for driver in both:
            driver.kill()
            driver.wait()
    assert finished_jobs(folder) == set(range(6))
    assert sum(runs(log).values()) == 7


STOPPED = """
import sys
from click.testing import CliRunner
from oracles import tiny_runner
from hardmax.lab.drivers import run_study
sys.exit(not run_study(sys.argv[1], runner=tiny_runner.NAME, lease=1.0).complete)
"""


def test_a_driver_that_was_asleep(tmp_path):
    """Its lease has run out, another driver has its job: it lets go of it, and nothing is written twice."""
    log, gate, folder = tmp_path / "log", tmp_path / "gate", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(1, log, gate=str(gate)))).close()
    asleep = subprocess.Popen([sys.executable, "-c", STOPPED, folder], env=environment())

    def wake(progress):
        if len(lines(log)) == 2 and not gate.exists():
            asleep.send_signal(signal.SIGCONT)
            until(lambda: not alive(workers(log)[0]), "it has stopped its worker")
            gate.touch()

    try:
        until(lambda: len(lines(log)) == 1, "the job is running")
        asleep.send_signal(signal.SIGSTOP)
        assert run_study(folder, runner=tiny_runner.NAME, progress=wake).complete
        assert asleep.wait(timeout=PATIENCE) == 0
    finally:
        asleep.kill()
        asleep.wait()
    with RunStore(folder) as store:
        (row,) = store.rows()
        events = [(what, detail) for _, _, what, detail in store.history(row.key)]
    assert events == [("claimed", ""), ("abandoned", "lease ran out"), ("claimed", ""), ("finished", "")]


def test_an_interrupt_gives_jobs_back(tmp_path):
    log, gate, folder = tmp_path / "log", tmp_path / "gate", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(3, log, gate=str(gate)))).close()
    driver = started(tmp_path, "resume", "s", "--jobs", "2")
    try:
        until(lambda: len(lines(log)) == 2, "two jobs are running")
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=PATIENCE) == 130
    finally:
        driver.kill()
        driver.wait()
    assert "go on with: hardmax lab resume s" in (tmp_path / "words").read_text()
    assert not any(alive(pid) for pid in workers(log))
    with RunStore(folder) as store:
        assert store.counts()["waiting"] == 3
    assert list((folder / "drivers").iterdir()) == []


FULL = """
import json, os, sys
from pathlib import Path
from click.testing import CliRunner
from oracles import tiny_runner
from hardmax.errors import IncompleteError
from hardmax.lab.drivers import run_study
from hardmax.lab.store import RunStore
from hardmax.lab.studies import Study

disk, log = Path(sys.argv[1]), Path(sys.argv[2])
study = Study.of("tiny", tiny_runner.jobs(40, log), runner=tiny_runner.NAME)
filler, room = disk / "filler", int(sys.argv[3])
RunStore.create(disk / "s", study).close()
with open(filler, "wb") as file:  # leave room for some results and not for all
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    file.write(bytes(free - room))
told = {}
try:
    run_study(disk / "s", study, jobs=2, patience=0.2)
except IncompleteError as error:
    told["error"] = str(error)
with RunStore(disk / "s") as store:
    told["counts"] = store.counts()
    told["damaged"] = store.damaged()
    told["done"] = [row.job["n"] for row in store.rows("finished")]
told["hidden"] = [p.name for p in (disk / "s" / "results").iterdir() if p.name.startswith(".")]
filler.unlink()
told["complete"] = run_study(disk / "s", runner=tiny_runner.NAME).complete
print(json.dumps(told))
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
    room = 120_000
    done = subprocess.run(
        [*unshare, "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, script, disk, log, str(room)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "cannot be written" in told["error"]
    assert "Make room" in told["error"]
    assert 0 < told["counts"]["finished"] < 40
    assert told["counts"]["failed"] == 0
    assert (told["damaged"], told["hidden"], told["complete"]) == ([], [], True)
    again = runs(log)
    assert set(again) == set(range(40))
    assert all(again[n] == 1 for n in told["done"])  # what was finished was not repeated
    assert sum(again.values()) <= 40 + 2


LIMITED = """
import resource, sys
from click.testing import CliRunner
from oracles import tiny_runner
from hardmax.errors import IncompleteError
from hardmax.lab.drivers import run_study

folder, most = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
try:
    run_study(folder, runner=tiny_runner.NAME, jobs=1, patience=0.1)
except IncompleteError as error:
    print(error)
"""


@pytest.mark.parametrize("least", [0, 1])
def test_a_database_that_may_not_grow(tmp_path, least):
    """A limit on the size of files, reached after some rows, or by the first word."""
    log, folder = tmp_path / "log", tmp_path / "s"
    RunStore.create(folder, study_of(jobs(40, log))).close()
    size = (folder / "store.sqlite").stat().st_size
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, folder, str(size if least else size // 4)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout
    kept = finished_jobs(folder)
    assert least <= len(kept) < 40
    assert run_study(folder, runner=tiny_runner.NAME).complete
    assert all(runs(log)[n] == 1 for n in kept)
    assert sum(runs(log).values()) <= 41


# Clusters ----------------------------------------------------------------------------------------------


@contextmanager
def cluster(folder):
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
                    "worker", "--scheduler-file", str(where), "--nthreads", "1", "--no-nanny",
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
    pytest.importorskip("distributed")
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
        gate.unlink()
        more = study_of([{"n": 20, "log": str(log), "gate": str(gate)}])

        def gone(progress):
            if runs(log)[20]:
                scheduler.kill()

        with pytest.raises(hm.errors.IncompleteError, match="is gone"):
            run_study(tmp_path / "s", more, dask=address, progress=gone)
    gate.touch()
    run_study(tmp_path / "here", study, jobs=2)
    done = run_study(tmp_path / "s", runner=tiny_runner.NAME)  # here, now that the cluster is gone
    assert (done.finished, done.failed) == (7, 1)
    for path in (tmp_path / "here" / "results").iterdir():
        assert path.read_bytes() == (tmp_path / "s" / "results" / path.name).read_bytes()


def test_a_cluster_that_does_not_answer(tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(hm.errors.InvalidInputError, match="'bogus://nowhere' does not"):
        run_study(tmp_path / "s", study_of(jobs(1)), dask="bogus://nowhere")
    with RunStore(tmp_path / "s") as store:
        assert store.counts()["waiting"] == 1
