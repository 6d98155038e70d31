"""Commands in bad surroundings, interrupted and killed: what they leave behind, and what they say.

    python tests/scripts/process_trials.py                    # everything once, 40 interrupts, 40 kills
    python tests/scripts/process_trials.py kills --count 1000
    python tests/scripts/process_trials.py surroundings caches

*surroundings*: each command with closed or full outputs, a reader that leaves, a deleted folder, no room for
files. *caches*: kernels where nothing can be kept, kept by several processes at once, kept by an older
version, cut off. *interrupts*: Ctrl-C at a random moment between the start and the end. *kills*: SIGKILL at
random moments of enumerations with a checkpoint, studies, corpora and saves, each begun again until it is
done; then everything must be there once, equal to what an undisturbed run gives.

Trials have numbers, which decide everything that is random. ``docs/results/processes.json`` keeps the
finished ones; the same command goes on from there, and repeats those that failed. The exit code is 1 if
something failed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import numpy as np  # noqa: E402
import records  # noqa: E402

import hardmax as hm  # noqa: E402

RECORD = records.RESULTS / "processes.json"
PATIENCE = 180.0
MLP = "mlp:2,8,8,1,seed=0"
COMMANDS = {
    "bounds": "bounds --mlp 2,3,3",
    "claims": "claims list",
    "diagram": "diagram keys.npy --out made.npz",
    "minkowski": "minkowski heads.npy --plot made.svg",
    "regions": f"regions {MLP} --box -4 4 --out made.npz",
    "estimate": f"estimate {MLP} --box -4 4 --samples 20000",
    "trace": f"trace {MLP} --from -4,-4 --to 4,4 --out made.npz",
    "verify": f"verify {MLP} y0<=1000 --box -1 1 --certificate made.json.gz",
    "boundary": "boundary mlp:2,8,3,seed=0 --box -4 4 --out made.npz",
    "flow": "flow advise pairwise:2 --n-tokens 16 --json",
    "stability": "stability --n-tokens 512 --margin 2 --temperature 0.125",
    "atlas": "atlas --out made",
    "influence": "influence --read-out 15 --json",
    "report": "report --no-influence --out made",
    "reproduce": "reproduce tropical.fig4 --out made",
}
WRITES = {name for name, line in COMMANDS.items() if " made" in line}
"""Commands that make a file or a folder."""

CELLS = """
import hardmax as hm
from hardmax.cli.networks import read_network
from hardmax.regions.engine import tasks
tasks._EVERY = 0.02
network = read_network("mlp:2,32,32,1,seed=0")
box = hm.Box.cube(2, -4, 4)
hm.enumerate_regions(network, box, arithmetic="exact", checkpoint="state.npz").save("cells.npz")
"""
CORPUS = """
import time, hardmax as hm
from hardmax.models.reading.text_runs import over_texts
def measure(text):
    with open("log", "a") as log:
        log.write(text + "\\n")
    time.sleep(0.02)
    return {"n": len(text)}
texts = {f"t{i}": "x" * (i + 1) for i in range(40)}
print(sum(m["n"] for m in over_texts(texts, measure, question={}, checkpoint="run")))
"""
SAVES = """
import numpy as np, hardmax as hm
for seed in range(60):
    keys = np.random.default_rng(seed).standard_normal((400, 3))
    hm.power_diagram(keys).save("diagram.npz")
"""


ARRAYS = ("bits", "vertices", "witnesses", "linear", "offset", "region_of_cell")
"""Of a set of cells: what kills must not change."""


# Running ------------------------------------------------------------------------------------------------


class Ended(Exception):
    """A process that did not end in time."""


def environment(folder: Path, **more: str) -> dict[str, str]:
    """This hardmax, its runner for studies, and a folder of its own for temporary files."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    path = [str(Path(hm.__file__).resolve().parents[1]), str(TESTS)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "TMPDIR": str(temporary), **more}


def start(folder: Path, arguments: list[str], **more: object) -> subprocess.Popen[bytes]:
    """A process in a group of its own; what is not said otherwise goes into the files printed, complained."""
    surroundings = environment(folder, **more.pop("environment", {}))  # type: ignore[arg-type]
    with open(folder / "printed", "wb") as out, open(folder / "complained", "wb") as err:
        options = {"stdout": out, "stderr": err, "stdin": subprocess.DEVNULL, "cwd": folder, **more}
        return subprocess.Popen(
            [sys.executable, *arguments], env=surroundings, start_new_session=True, **options
        )


def ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise Ended(f"still running after {PATIENCE:.0f} s") from None


def leftovers(folder: Path) -> list[str]:
    """Problems that a process left: traces of errors, temporary files, half-written files."""
    said = (folder / "complained").read_text(errors="replace") if (folder / "complained").exists() else ""
    found = [
        f"printed {what}" for what in ("Traceback", "Exception ignored", "resource_tracker") if what in said
    ]
    found += [f"left {path.name} in the folder of temporary files" for path in (folder / "tmp").iterdir()]
    return found


def problems_of_made(folder: Path, code: int) -> list[str]:
    """A file that was made is complete; without one the exit code is not 0."""
    made = [path for path in folder.rglob("*") if path.is_file() and "made" in path.as_posix()]
    found = [f"left {path.name}" for path in made if path.name.startswith(".") or path.suffix == ".partial"]
    for path in made:
        if path.suffix == ".npz":
            try:
                hm.load(path)
            except hm.errors.HardmaxError as error:
                found.append(f"half-written {path.name}: {error}")
        elif not path.stat().st_size and not path.name.startswith("."):
            found.append(f"{path.name} is empty")
    if code == 0 and not made:
        found.append("exit code 0 and nothing made")
    return found


def inputs(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "keys.npy", rng.standard_normal((12, 2)))
    np.save(folder / "heads.npy", rng.standard_normal((3, 6, 2)))


# Surroundings -------------------------------------------------------------------------------------------


def _closed(*numbers: int) -> Callable[[], None]:
    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


def _no_room() -> None:
    """No file may grow: as on a full disk, an error comes from every write."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _deleted(folder: Path) -> Callable[[], None]:
    def delete() -> None:
        gone = folder / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    return delete


SURROUNDINGS = (
    "standard output closed",
    "standard error closed",
    "both closed",
    "standard output is /dev/full",
    "the reader of standard output leaves",
    "the working folder is deleted",
    "no room for files",
)


def surroundings(number: int) -> tuple[str, list[str], int]:
    """One command in one of the surroundings."""
    situation = SURROUNDINGS[number % len(SURROUNDINGS)]
    name = list(COMMANDS)[number // len(SURROUNDINGS) % len(COMMANDS)]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        inputs(folder)
        options: dict[str, object] = {}
        arguments = ["-m", "hardmax", *COMMANDS[name].split()]
        if situation.endswith("output closed"):
            options["preexec_fn"] = _closed(1)
        elif situation.endswith("error closed"):
            options["preexec_fn"] = _closed(2)
        elif situation == "both closed":
            options["preexec_fn"] = _closed(1, 2)
        elif "/dev/full" in situation:
            options["stdout"] = open("/dev/full", "wb")  # noqa: SIM115 - closed with the process
        elif "reader" in situation:
            reading, options["stdout"] = os.pipe()
            os.close(reading)
        elif "folder" in situation:
            options["preexec_fn"] = _deleted(folder)
            arguments = [a if a not in ("keys.npy", "heads.npy") else str(folder / a) for a in arguments]
        else:
            options["preexec_fn"] = _no_room
            options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = start(folder, arguments, **options)
        if options.get("stderr") == subprocess.PIPE:
            said, complained = process.communicate(timeout=PATIENCE)
            (folder / "printed").write_bytes(said)
            (folder / "complained").write_bytes(complained)
        code = ended(process)
        problems = leftovers(folder)
        if isinstance(options.get("stdout"), int) and options["stdout"] > 2:
            os.close(options["stdout"])
        complained = (folder / "complained").read_text(errors="replace")
        lost = "output" in situation or (
            situation in ("no room for files", "the working folder is deleted") and name in WRITES
        )
        if code < 0:
            problems.append(f"ended by signal {-code}")
        if lost and "both" not in situation and code == 0 and situation != "standard error closed":
            problems.append("exit code 0 although nothing could be written")
        if code and "error closed" not in situation and "both" not in situation:
            lines = [line for line in complained.splitlines() if line.startswith("hardmax: ")]
            if "reader" not in situation and len(lines) != 1:
                problems.append(f"no sentence: {complained[-200:]!r}")
        problems += (
            problems_of_made(folder, code) if name in WRITES and situation != "no room for files" else []
        )
    return situation, [f"{name}: {problem}" for problem in problems], 1


# Caches -------------------------------------------------------------------------------------------------

KERNEL = (
    "from hardmax.cli.networks import read_network; import hardmax as hm;"
    "print(hm.count_cells(read_network('mlp:1,8,8,1,seed=0'), hm.Box.cube(1, -4, 4)).n_cells)"
)
CACHES = (
    "no folder for kernels can be made",
    "four processes compile into one empty cache",
    "a cache whose machine code is cut off",
    "a cache whose index is cut off",
    "a cache of an older version",
    "killed while it compiles, then once more",
)


def caches(number: int) -> tuple[str, list[str], int]:
    """Kernels are compiled or loaded, whatever the cache is like."""
    situation = CACHES[number % len(CACHES)]
    chance = random.Random(number)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        kept = "/proc/nowhere" if number % len(CACHES) == 0 else str(folder / "cache")
        where = {"environment": {"NUMBA_CACHE_DIR": kept}}

        def result() -> str:
            code = ended(start(folder, ["-c", KERNEL], **where))
            return (
                (folder / "printed").read_text().strip()
                if code == 0
                else (folder / "complained").read_text()[-300:]
            )

        expected = subprocess.run(
            [sys.executable, "-c", KERNEL],
            capture_output=True,
            text=True,
            env=environment(folder),
            check=True,
        ).stdout.strip()
        if "four" in situation:
            folders = [folder / str(i) for i in range(4)]
            for each in folders:
                each.mkdir()
            processes = [start(each, ["-c", KERNEL], **where) for each in folders]
            codes = [ended(process) for process in processes]
            answers = [(each / "printed").read_text().strip() for each in folders]
            problems = [p for each in folders for p in leftovers(each)]
            if codes != [0] * 4 or set(answers) != {expected}:
                problems.append(f"exit codes {codes}, answers {answers}")
        elif "killed" in situation:
            process = start(folder, ["-c", KERNEL], **where)
            time.sleep(chance.uniform(0.2, 8.0))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            problems = []
        else:
            first = result()
            problems = [] if first == expected else [f"first run: {first}"]
        changed = (
            list(Path(kept).rglob("*.nbc" if "code" in situation else "*.nbi")) if "/proc" not in kept else []
        )
        for path in changed:
            data = path.read_bytes()
            if "cut off" in situation:
                path.write_bytes(data[: chance.randrange(len(data))])
            elif "older" in situation:
                path.write_bytes(data.replace(b"numba.core", b"numba.gone"))
        again = result()
        if again != expected:
            problems.append(f"afterwards: {again}")
        problems += leftovers(folder)
    return situation, problems, 1


# Interrupts ---------------------------------------------------------------------------------------------

_usual: dict[str, float] = {}


def _seconds(name: str) -> float:
    """How long a command usually takes."""
    if name not in _usual:
        with tempfile.TemporaryDirectory() as made:
            inputs(Path(made))
            begin = time.monotonic()
            ended(start(Path(made), ["-m", "hardmax", *COMMANDS[name].split()]))
            _usual[name] = time.monotonic() - begin
    return _usual[name]


def interrupts(number: int) -> tuple[str, list[str], int]:
    """Ctrl-C at a random moment; every tenth time with an empty cache of kernels."""
    chance = random.Random(number)
    name = chance.choice(sorted(COMMANDS))
    empty = number % 10 == 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        inputs(folder)
        more = {"NUMBA_CACHE_DIR": str(folder / "cache")} if empty else {}
        moment = chance.uniform(0.0, 12.0 if empty else 1.1 * _seconds(name))
        process = start(
            folder,
            ["-m", "hardmax", *COMMANDS[name].split()],
            environment=more,
            # a run in the background would pass on that interrupts are ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        time.sleep(moment)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        begin = time.monotonic()
        code = ended(process)
        late = time.monotonic() - begin
        complained = (folder / "complained").read_text(errors="replace")
        problems = leftovers(folder)
        # before the program has begun, Python itself answers
        if "Traceback" in complained and "hardmax" not in complained:
            problems = [p for p in problems if "Traceback" not in p]
        if name in WRITES:
            problems += problems_of_made(folder, code)
        if late > 20.0:
            problems.append(f"ended only {late:.0f} s after the interrupt")
    phase = "with an empty cache" if empty else "with compiled kernels"
    return f"Ctrl-C {phase}", [f"{name} at {moment:.2f} s, exit code {code}: {p}" for p in problems], 1


# Kills --------------------------------------------------------------------------------------------------


def _killed(folder: Path, arguments: list[str], chance: random.Random, longest: float, most: int) -> int:
    """Start again and again, each time killed at a random moment; then to the end. How many kills."""
    kills = 0
    for _ in range(most):
        process = start(folder, arguments)
        time.sleep(chance.uniform(0.3, longest))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    return kills


def kills(number: int) -> tuple[str, list[str], int]:
    """Four kills of one of the four, and what is there at the end."""
    what = ("enumerations", "studies", "corpora", "saves")[number % 4]
    chance = random.Random(number)
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if what == "enumerations":
            arguments = ["-c", CELLS]
            count = _killed(folder, arguments, chance, 2.5, 4)
            if ended(start(folder, arguments)):
                return f"kills of {what}", [(folder / "complained").read_text()[-300:]], count
            expected = hm.enumerate_regions(_cells_network(), hm.Box.cube(2, -4, 4), arithmetic="exact")
            found = hm.load(folder / "cells.npz")
            same = found.complete and found.n_regions == expected.n_regions
            if not same or any(not np.array_equal(getattr(found, n), getattr(expected, n)) for n in ARRAYS):
                problems.append("other cells than without kills")
        elif what == "studies":
            from oracles.tiny_runner import NAME, jobs, runs

            from hardmax.training.studies import RunStore, Study, write_study

            log = folder / "log"
            write_study(Study.of("tiny", jobs(30, log, seconds=0.05), runner=NAME), folder / "s.json")
            arguments = ["-m", "hardmax", "training", "run", "s.json", "--jobs", "2", "--runner", NAME]
            done: set[int] = set()
            before: Counter[int] = Counter()
            for _ in range(4):
                count += _killed(folder, arguments, chance, 3.0, 1)
                time.sleep(0.5)  # workers notice that their driver is gone
                after = runs(log) if log.exists() else Counter()
                if repeated := [n for n in done if after[n] != before[n]]:
                    problems.append(f"finished jobs ran again: {repeated}")
                if (folder / "out" / "tiny" / "study.json").exists():  # before it, nothing was run
                    store = RunStore(folder / "out" / "tiny")
                    done, before = {row.job["n"] for row in store.rows("finished")}, after
                    problems += [f"damaged: {each}" for each in store.damaged()]
            if ended(start(folder, arguments)):
                problems.append((folder / "complained").read_text()[-300:])
            if set(runs(log)) != set(range(30)):
                problems.append("jobs are missing")
        elif what == "corpora":
            arguments = ["-c", CORPUS]
            count = _killed(folder, arguments, chance, 2.0, 4)
            code = ended(start(folder, arguments))
            measured = (folder / "log").read_text().splitlines()
            if code or (folder / "printed").read_text().strip() != str(sum(range(1, 41))):
                problems.append(f"exit code {code}, {(folder / 'printed').read_text()!r}")
            if len(set(measured)) != 40 or len(measured) > 40 + count:
                problems.append(f"{len(measured)} measurements of {len(set(measured))} texts, {count} kills")
        else:
            for _ in range(4):
                count += _killed(folder, ["-c", SAVES], chance, 2.0, 1)
                if (folder / "diagram.npz").exists():
                    try:
                        hm.load(folder / "diagram.npz")
                    except hm.errors.HardmaxError as error:
                        problems.append(f"half-written: {error}")
            if ended(start(folder, ["-c", SAVES])) or not (folder / "diagram.npz").exists():
                problems.append((folder / "complained").read_text()[-300:])
    return f"kills of {what}", problems, count


def _cells_network() -> hm.Network:
    from hardmax.cli.networks import read_network

    return read_network(re.search(r'"(mlp:[^"]*)"', CELLS).group(1))


# All of it ----------------------------------------------------------------------------------------------

TRIALS: dict[str, tuple[Callable[[int], tuple[str, list[str], int]], int]] = {
    # gives the situation, what was wrong, and for how many tries it counts; how many tries by default
    "surroundings": (surroundings, len(SURROUNDINGS) * len(COMMANDS)),
    "caches": (caches, len(CACHES)),
    "interrupts": (interrupts, 40),
    "kills": (kills, 40),
}


def try_on(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Trials that failed, and those that are not in the record yet, in order of their numbers."""
    for kind in options.kinds or TRIALS:
        function, count = TRIALS[kind]
        known = {number: entry for number, entry in record.get(kind, {}).items() if not entry["problems"]}
        tried, number = sum(entry["tries"] for entry in known.values()), 0
        while tried < (options.count or count):
            if str(number) not in known:
                try:
                    situation, problems, tries = function(number)
                except Ended as error:
                    situation, problems, tries = "did not end", [str(error)], 1
                entry = {"situation": situation, "tries": tries, "problems": problems}
                record.setdefault(kind, {})[str(number)] = entry
                records.write(options.record, record)
                tried += tries
                for problem in problems:
                    print(f"{kind} {number}: {situation}: {problem}", flush=True)
            number += 1


def table(record: dict[str, Any]) -> str:
    """Of the record, as docs/reliability.md shows it."""
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for entry in (entry for trials in record.values() for entry in trials.values()):
        tried[entry["situation"]] += entry["tries"]
        failed[entry["situation"]] += bool(entry["problems"])
    return records.rows(("situation", "tried", "failed"), *((s, n, failed[s]) for s, n in tried.items()))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", choices=[*TRIALS, []], help="all by default")
    parser.add_argument("--count", type=int, help="tries in the record")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--again", type=int, help="repeat this trial of the kind and print what is wrong")
    parser.add_argument("--table", action="store_true", help="try nothing")
    options = parser.parse_args()
    if options.again is not None:
        situation, problems, _ = TRIALS[options.kinds[0]][0](options.again)
        print(situation, problems or "nothing wrong")
        return bool(problems)
    record = records.read(options.record)
    if not options.table:
        try_on(record, options)
    print(table(record))
    return any(entry["problems"] for trials in record.values() for entry in trials.values())


if __name__ == "__main__":
    sys.exit(main())
