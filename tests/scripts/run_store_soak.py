"""Drivers and workers of one study are killed at random, again and again, and nothing is lost or repeated.

    python tests/scripts/run_store_soak.py [SECONDS] [SEED]

Two drivers with two workers each run 400 short jobs; every now and then one of the six processes gets SIGKILL
or is stopped for a while, and killed drivers are replaced. In the end each job must have one finished row, a
whole file, and a history in which "finished" occurs once and nothing comes after it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from oracles import tiny_runner  # noqa: E402

from hardmax.lab.store import RunStore  # noqa: E402
from hardmax.lab.studies import Study  # noqa: E402

DRIVER = """
import sys
from oracles import tiny_runner
from hardmax.lab.drivers import run_study
run_study(sys.argv[1], runner=tiny_runner.NAME, jobs=2, lease=3.0)
"""


def started(folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2])}
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(folder)], env=environment)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    dice = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    place = Path(tempfile.mkdtemp())
    folder, log = place / "study", place / "log"
    n = 400
    entries = [{"n": i, "log": str(log), "seconds": dice.choice([0.0, 0.05, 0.3])} for i in range(n)]
    RunStore.create(folder, Study.of("soak", entries, runner=tiny_runner.NAME)).close()
    drivers = [started(folder), started(folder)]
    killed = {"driver": 0, "worker": 0, "stopped": 0}
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(driver.poll() is None for driver in drivers):
        time.sleep(dice.uniform(0.05, 1.0))
        match dice.choice(["driver", "worker", "worker", "stopped"]):
            case "driver":
                i = dice.randrange(2)
                drivers[i].kill()
                drivers[i].wait()
                drivers[i] = started(folder)
                killed["driver"] += 1
            case "worker" if log.exists():
                pids = tiny_runner.workers(log)[-4:]
                with suppress(ProcessLookupError, IndexError):
                    os.kill(dice.choice(pids), signal.SIGKILL)
                    killed["worker"] += 1
            case "stopped":
                driver = dice.choice(drivers)
                if driver.poll() is None:
                    driver.send_signal(signal.SIGSTOP)
                    time.sleep(dice.choice([0.2, 4.0]))
                    driver.send_signal(signal.SIGCONT)
                    killed["stopped"] += 1
    for driver in drivers:
        assert driver.wait(timeout=300) == 0
    with RunStore(folder) as store:
        counts = store.counts()
        while counts["failed"]:  # a job may have lost three workers to the dice
            store.retry_failed()
            assert started(folder).wait(timeout=300) == 0
            counts = store.counts()
        assert counts == {"waiting": 0, "running": 0, "finished": n, "failed": 0}, counts
        assert store.damaged() == []
        for row in store.rows():
            events = [what for _, _, what, _ in store.history(row.key)]
            assert events.count("finished") == 1, (row.job, events)
            assert events[-1] == "finished", (row.job, events)
            assert store.result(row.key).n_tokens == 2 + row.job["n"]
        names = {path.name for path in (folder / "results").iterdir()}
        assert names == {f"{row.key}.npz" for row in store.rows()}, "something was left over"
    assert list((folder / "drivers").iterdir()) == []
    begun = sum(tiny_runner.runs(log).values())
    print(f"{n} jobs, {begun} runs, killed or stopped: {killed}")


if __name__ == "__main__":
    main()
