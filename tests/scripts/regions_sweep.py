"""Hold the exact regions of many small networks against the rational enumerator; run by hand.

    python tests/scripts/regions_sweep.py                 # 100,000 networks, a good half hour on two cores
    python tests/scripts/regions_sweep.py 2000 --start 7 --jobs 1

Every network has a number, which decides about kind, domain and weights (every tenth at the ends of the range
of floats). Finished numbers are written to a log in the folder ``--out``; the same command with the same
sources goes on where it stopped. A mismatch leaves a program there that repeats it. Exits with 1 if there was
one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.judging_regions import judge
from oracles.random_networks import Instance, described, instance, rescaled

import hardmax

TESTS = Path(__file__).resolve().parent.parent
PART = 250
EXACT_EVERY = 4  # every fourth network also with arithmetic="exact"
RESCALED_EVERY = 10  # every tenth at the ends of the range of floats
PATIENCE = 120  # seconds for one network


@contextmanager
def patience(seconds: int) -> Iterator[None]:
    """A network that takes longer is a failure, not the end of the sweep."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not finished after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def case_of(number: int) -> Instance:
    """The network of a number; every tenth with weights and domain times powers of two."""
    case = instance(number)
    return rescaled(case) if number % RESCALED_EVERY == RESCALED_EVERY - 1 else case


def work_off(start: int, stop: int) -> dict:
    """Judge the networks start .. stop - 1: sums for the summary, and what went wrong."""
    warnings.simplefilter("error")
    sums: Counter[str] = Counter()
    failures: dict[str, list[str]] = {}
    for number in range(start, stop):
        arithmetics = ("certified", "exact") if number % EXACT_EVERY == 0 else ("certified",)
        try:
            with patience(PATIENCE):
                judgement = judge(case_of(number), arithmetics)
        except TimeoutError as error:
            failures[str(number)] = [str(error)]
            continue
        expected = judgement.expected
        sums.update(
            networks=1,
            exact_runs=len(arithmetics) - 1,
            cells=expected.n_cells,
            contacts=len(expected.adjacency),
            walls=sum(kind == "wall" for kind in expected.adjacency.values()),
            regions=expected.n_regions,
            cells_beyond_regions=expected.n_cells > expected.n_regions,
            needed_rationals=judgement.n_rational > 0,
        )
        if judgement.problems:
            failures[str(number)] = judgement.problems
    return {"start": start, "stop": stop, "sums": dict(sums), "failures": failures}


def reproducer(case: Instance, problems: list[str]) -> str:
    """A program that shows the mismatch again."""
    found = "\n".join(f"#   {problem[:300]}" for problem in problems[:10])
    return f"""# {case.name}
{found}
import sys
from fractions import Fraction

import numpy as np

sys.path.insert(0, {str(TESTS)!r})
import hardmax as hm
from oracles.judging_regions import cell_problems, contact_problems
from oracles.rational_regions import enumerate_rationally

{described(case.network, case.domain)}
expected = enumerate_rationally(network, domain)
for arithmetic in ("certified", "exact"):
    found = hm.enumerate_regions(network, domain, arithmetic=arithmetic)
    print(arithmetic, cell_problems(found, expected) or contact_problems(found, expected) or "no mismatch")
"""


def fingerprint() -> str:
    """Of the sources that are tested and of those that test: a log is worth nothing for others."""
    digest = hashlib.sha256()
    for folder in (Path(hardmax.__file__).parent, TESTS / "oracles"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def finished(log: Path, sources: str) -> list[dict]:
    """The parts a log holds for these sources; a last line that was cut off counts for nothing."""
    parts = []
    for line in log.read_text().splitlines() if log.exists() else []:
        try:
            part = json.loads(line)
        except ValueError:
            continue
        if part["sources"] == sources:
            parts.append(part)
    return parts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=100_000, help="number of networks")
    parser.add_argument("--start", type=int, default=0, help="number of the first network")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--out", type=Path, default=Path("out/regions_sweep"), help="folder of log and mismatches"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / f"from_{options.start}.jsonl"
    stop = options.start + options.count
    sources = fingerprint()
    parts = {(c["start"], c["stop"]): c for c in finished(log, sources)}
    wanted = [(low, min(low + PART, stop)) for low in range(options.start, stop, PART)]
    open_parts = [part for part in wanted if part not in parts]
    if len(open_parts) < len(wanted):
        print(f"{len(wanted) - len(open_parts)} of {len(wanted)} parts are in {log}")
    begin = time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool, log.open("a") as written:
        futures = [pool.submit(work_off, *part) for part in open_parts]
        for done, future in enumerate(as_completed(futures), 1):
            part = {"sources": sources, **future.result()}
            parts[part["start"], part["stop"]] = part
            written.write("\n" * (written.tell() > 0 and done == 1) + json.dumps(part) + "\n")
            written.flush()
            os.fsync(written.fileno())
            for number, problems in part["failures"].items():
                case = case_of(int(number))
                program = options.out / f"mismatch_{number}.py"
                program.write_text(reproducer(case, problems))
                print(f"MISMATCH {case.name}: {problems[0][:300]}\n  repeat it with {program}", flush=True)
            if done % 10 == 0 or done == len(futures):
                rate = done / (time.monotonic() - begin)
                print(
                    f"{done} of {len(futures)} parts, about {(len(futures) - done) / rate / 60:.0f} min left",
                    flush=True,
                )
    sums: Counter[str] = Counter()
    failures: set[str] = set()
    for part in (parts[key] for key in wanted):
        sums.update(part["sums"])
        failures.update(part["failures"])
    print(
        f"{sums['networks']} networks ({sums['exact_runs']} of them also all in rationals; floats could not "
        f"decide everything in {sums['needed_rationals']}), {sums['cells']} cells, {sums['regions']} regions "
        f"(fewer than cells in {sums['cells_beyond_regions']} networks), {sums['contacts']} contacts, "
        f"{sums['walls']} of them walls"
    )
    print(f"{len(failures)} mismatches{': ' + ', '.join(sorted(failures, key=int)) if failures else ''}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
