"""What the sweeps share: networks have numbers, parts of numbers are judged by processes, a log keeps them.

Finished parts are written to a log in the folder ``--out``; the same command with the same sources goes on
where it stopped. A network that differs leaves a program there that repeats it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from oracles.random_networks import Instance, described

import hardmax

TESTS = Path(__file__).resolve().parent.parent
EXACT_EVERY = 4  # every fourth network also with arithmetic="exact"

Arithmetics = tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """What is particular to a sweep. The functions are sent to other processes: they have to be importable.

    Attributes
    ----------
    case_of : callable
        The network of a number.
    judge : callable
        Holds it against an oracle; has ``expected``, ``n_rational`` and ``problems``.
    program : callable
        The end of a program that repeats a mismatch, by the network: what follows ``network`` and
        ``domain``.
    part : int
        Networks that one process judges before the log is written.
    patience : int
        Seconds for one network.
    """

    case_of: Callable[[int], Instance]
    judge: Callable[[Instance, Arithmetics], Any]
    program: Callable[[Instance], str]
    part: int
    patience: int


def sweep_parser(description: str | None, *, count: int, out: str) -> argparse.ArgumentParser:
    """The options of every sweep."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=count, help="number of networks")
    parser.add_argument("--start", type=int, default=0, help="number of the first network")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder of log and mismatches")
    return parser


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


def work_off(sweep: Sweep, start: int, stop: int) -> dict:
    """Judge the networks start .. stop - 1: sums for the summary, and what went wrong."""
    warnings.simplefilter("error")
    sums: Counter[str] = Counter()
    failures: dict[str, list[str]] = {}
    for number in range(start, stop):
        arithmetics = ("certified", "exact") if number % EXACT_EVERY == 0 else ("certified",)
        try:
            with patience(sweep.patience):
                judgement = sweep.judge(sweep.case_of(number), arithmetics)
        except TimeoutError as error:
            failures[str(number)] = [str(error)]
            continue
        expected = judgement.expected
        sums.update(
            networks=1,
            exact_runs=len(arithmetics) - 1,
            cells=expected.n_cells,
            with_lines=any(cell.cone.lines for cell in expected.cells if hasattr(cell, "cone")),
            contacts=len(expected.adjacency),
            walls=sum(kind == "wall" for kind in expected.adjacency.values()),
            regions=expected.n_regions,
            cells_beyond_regions=expected.n_cells > expected.n_regions,
            needed_rationals=judgement.n_rational > 0,
        )
        if judgement.problems:
            failures[str(number)] = judgement.problems
    return {"start": start, "stop": stop, "sums": dict(sums), "failures": failures}


PLANE_PROGRAM = """from oracles.judging_regions import cell_problems, contact_problems
from oracles.rational_regions import enumerate_rationally

expected = enumerate_rationally(network, domain)
for arithmetic in ("certified", "exact"):
    found = hm.enumerate_regions(network, domain, arithmetic=arithmetic)
    print(arithmetic, cell_problems(found, expected) or contact_problems(found, expected) or "no mismatch")
"""

SPACE_PROGRAM = """from oracles.judging_space import {engine}, space_problems, touching_problems
from oracles.rational_space import enumerate_space

expected = enumerate_space(network, domain)
for arithmetic in ("certified", "exact"):
    found, _ = {engine}(network, domain, arithmetic)
    print(arithmetic, space_problems(found, expected) or touching_problems(found, expected) or "no mismatch")
"""


def reproducer(case: Instance, problems: list[str], program: str) -> str:
    """A program that shows the mismatch again."""
    found = "\n".join(f"#   {problem[:300]}" for problem in problems[:10])
    return f"""# {case.name}
{found}
import sys
from fractions import Fraction

import numpy as np

sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}]
import hardmax as hm

{described(case.network, case.domain)}

{program}"""


def fingerprint() -> str:
    """Of the sources that are tested and of those that test: a log is worth nothing for others."""
    digest = hashlib.sha256()
    makers = TESTS.parent / "benchmarks/kinds.py"
    folders = Path(hardmax.__file__).parent, TESTS / "oracles"
    for path in (makers, *(path for folder in folders for path in sorted(folder.rglob("*.py")))):
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


def run_sweep(sweep: Sweep, options: argparse.Namespace, log_name: str = "from") -> int:
    """Judge what is not in the log yet, print mismatches and a summary; 1 if there was a mismatch."""
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / f"{log_name}_{options.start}.jsonl"
    stop = options.start + options.count
    sources = fingerprint()
    parts = {(c["start"], c["stop"]): c for c in finished(log, sources)}
    wanted = [(low, min(low + sweep.part, stop)) for low in range(options.start, stop, sweep.part)]
    open_parts = [part for part in wanted if part not in parts]
    if len(open_parts) < len(wanted):
        print(f"{len(wanted) - len(open_parts)} of {len(wanted)} parts are in {log}")
    begin = time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool, log.open("a") as written:
        futures = [pool.submit(work_off, sweep, *part) for part in open_parts]
        for done, future in enumerate(as_completed(futures), 1):
            part = {"sources": sources, **future.result()}
            parts[part["start"], part["stop"]] = part
            written.write("\n" * (written.tell() > 0 and done == 1) + json.dumps(part) + "\n")
            written.flush()
            os.fsync(written.fileno())
            for number, problems in part["failures"].items():
                case = sweep.case_of(int(number))
                program = options.out / f"mismatch_{number}.py"
                program.write_text(reproducer(case, problems, sweep.program(case)))
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
    lines = f"; cells contain lines in {sums['with_lines']}" if sums["with_lines"] else ""
    print(
        f"{sums['networks']} networks ({sums['exact_runs']} of them also all in rationals; floats could not "
        f"decide everything in {sums['needed_rationals']}{lines}), {sums['cells']} cells, {sums['regions']} "
        f"regions (fewer than cells in {sums['cells_beyond_regions']} networks), {sums['contacts']} "
        f"contacts, {sums['walls']} of them walls"
    )
    print(f"{len(failures)} mismatches{': ' + ', '.join(sorted(failures, key=int)) if failures else ''}")
    return 1 if failures else 0
