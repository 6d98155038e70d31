"""Hold the exact regions of many small networks beyond the plane against the rational enumerator, by hand.

    python tests/scripts/space_sweep.py                   # 20,000 networks
    python tests/scripts/space_sweep.py 2000 --start 7 --jobs 1
    python tests/scripts/space_sweep.py 2000 --engine search

Works like ``regions_sweep.py``: every network has a number, which decides about kind, domain, dimension and
weights; finished numbers are written to a log in the folder ``--out``, and the same command with the same
sources goes on where it stopped. A mismatch leaves a program there that repeats it. Exits with 1 if there was
one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from oracles.judging_space import enumerated, judge_space, searched
from oracles.random_networks import Instance, described
from oracles.random_space import space_instance
from regions_sweep import fingerprint, finished, patience

TESTS = Path(__file__).resolve().parent.parent
PART = 100
EXACT_EVERY = 4  # every fourth network also with arithmetic="exact"
PATIENCE = 300  # seconds for one network
ENGINES = {"front door": enumerated, "search": searched}


def work_off(start: int, stop: int, engine: str) -> dict:
    """Judge the networks start .. stop - 1: sums for the summary, and what went wrong."""
    warnings.simplefilter("error")
    sums: Counter[str] = Counter()
    failures: dict[str, list[str]] = {}
    for number in range(start, stop):
        arithmetics = ("certified", "exact") if number % EXACT_EVERY == 0 else ("certified",)
        try:
            with patience(PATIENCE):
                judgement = judge_space(space_instance(number), arithmetics, ENGINES[engine])
        except TimeoutError as error:
            failures[str(number)] = [str(error)]
            continue
        expected = judgement.expected
        sums.update(
            networks=1,
            exact_runs=len(arithmetics) - 1,
            cells=expected.n_cells,
            with_lines=any(cell.cone.lines for cell in expected.cells),
            contacts=len(expected.adjacency),
            walls=sum(kind == "wall" for kind in expected.adjacency.values()),
            regions=expected.n_regions,
            cells_beyond_regions=expected.n_cells > expected.n_regions,
            needed_rationals=judgement.n_rational > 0,
        )
        if judgement.problems:
            failures[str(number)] = judgement.problems
    return {"start": start, "stop": stop, "engine": engine, "sums": dict(sums), "failures": failures}


def reproducer(case: Instance, problems: list[str], engine: str) -> str:
    """A program that shows the mismatch again."""
    found = "\n".join(f"#   {problem[:300]}" for problem in problems[:10])
    name = ENGINES[engine].__name__
    return f"""# {case.name}
{found}
import sys
from fractions import Fraction

import numpy as np

sys.path.insert(0, {str(TESTS)!r})
import hardmax as hm
from oracles.judging_space import {name}, space_problems, touching_problems
from oracles.rational_space import enumerate_space

{described(case.network, case.domain)}
expected = enumerate_space(network, domain)
for arithmetic in ("certified", "exact"):
    found, _ = {name}(network, domain, arithmetic)
    print(arithmetic, space_problems(found, expected) or touching_problems(found, expected) or "no mismatch")
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=20_000, help="number of networks")
    parser.add_argument("--start", type=int, default=0, help="number of the first network")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--engine", choices=list(ENGINES), default="front door", help="who enumerates")
    parser.add_argument(
        "--out", type=Path, default=Path("out/space_sweep"), help="folder of log and mismatches"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / f"{options.engine.replace(' ', '_')}_from_{options.start}.jsonl"
    stop = options.start + options.count
    sources = fingerprint()
    parts = {(c["start"], c["stop"]): c for c in finished(log, sources)}
    wanted = [(low, min(low + PART, stop)) for low in range(options.start, stop, PART)]
    open_parts = [part for part in wanted if part not in parts]
    if len(open_parts) < len(wanted):
        print(f"{len(wanted) - len(open_parts)} of {len(wanted)} parts are in {log}")
    begin = time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool, log.open("a") as written:
        futures = [pool.submit(work_off, *part, options.engine) for part in open_parts]
        for done, future in enumerate(as_completed(futures), 1):
            part = {"sources": sources, **future.result()}
            parts[part["start"], part["stop"]] = part
            written.write("\n" * (written.tell() > 0 and done == 1) + json.dumps(part) + "\n")
            written.flush()
            os.fsync(written.fileno())
            for number, problems in part["failures"].items():
                case = space_instance(int(number))
                program = options.out / f"mismatch_{number}.py"
                program.write_text(reproducer(case, problems, options.engine))
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
        f"decide everything in {sums['needed_rationals']}; cells contain lines in {sums['with_lines']}), "
        f"{sums['cells']} cells, {sums['regions']} regions (fewer than cells in "
        f"{sums['cells_beyond_regions']} networks), {sums['contacts']} contacts, {sums['walls']} of them "
        "walls"
    )
    print(f"{len(failures)} mismatches{': ' + ', '.join(sorted(failures, key=int)) if failures else ''}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
