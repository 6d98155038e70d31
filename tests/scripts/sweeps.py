"""Hold the exact answers for many small networks against plain oracles in rationals; run by hand, resumable.

    python tests/scripts/sweeps.py --hours 2                      # some of every sweep in turn
    python tests/scripts/sweeps.py --only plane ties --jobs 1
    python tests/scripts/sweeps.py --only ties --numbers 4711     # one network again, as source text
    python tests/scripts/sweeps.py --only space --numbers 0:2000  # without the record
    python tests/scripts/sweeps.py --table                        # what the record says

Every network has a number, which decides about kind, domain and weights; every fourth is also enumerated in
rationals alone. No number is judged twice: ``docs/results/sweeps.json`` keeps which were judged, with which
commits, how many cells they had, and every mismatch. It is written after each part, whole or not at all, so a
run may be ended at any moment. A mismatch is printed with the source text of its network. Exits with 1 if
there was one.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import records
from oracles.extreme_networks import extreme_case, extreme_problems
from oracles.judging_regions import judge
from oracles.judging_rules import judge_rules
from oracles.judging_space import enumerated, judge_space, searched
from oracles.random_networks import Instance, described, instance, rescaled
from oracles.random_rules import rule_instance
from oracles.random_space import space_instance
from oracles.rational_boundary import any_classifier, judge_boundary
from oracles.structured_networks import judge_structured, structured_instance

FIRST = 1_000_000  # smaller numbers were used by hand before there was a record
EXACT_EVERY = 4
PATIENCE = 300  # seconds for one network
RECORD = records.RESULTS / "sweeps.json"


@dataclass(frozen=True)
class Sweep:
    """What is particular to a sweep. The functions are sent to other processes: they have to be importable.

    Attributes
    ----------
    words : str
        What the networks are.
    case_of : callable
        The network of a number.
    judge : callable
        Holds it against an oracle, in the arithmetics named; gives the number of cells and the problems.
    part : int
        Networks that one process judges before the record is written.
    exact : bool
        Whether every fourth network is also enumerated in rationals alone.
    """

    words: str
    case_of: Callable[[int], Instance]
    judge: Callable[[Instance, tuple[str, ...]], tuple[int, list[str]]]
    part: int = 50
    exact: bool = True


def _plane(number: int) -> Instance:
    """Every tenth with weights and domain times powers of two, at the ends of the range of floats."""
    case = instance(number)
    return rescaled(case) if number % 10 == 9 else case


def _extreme(number: int) -> Instance:
    return Instance(number, "extreme", "box", *extreme_case(number))


def _judge_extreme(case: Instance, arithmetics: tuple[str, ...]) -> tuple[int, list[str]]:
    return 0, extreme_problems(case.number)


def _against(
    judge: Callable[..., Any], case: Instance, arithmetics: tuple[str, ...], **options: Any
) -> tuple[int, list[str]]:
    judgement = judge(case, arithmetics, **options)
    return judgement.expected.n_cells, [str(problem) for problem in judgement.problems]


def _ties(dimension: int | None) -> tuple[Callable[..., Any], ...]:
    return partial(structured_instance, dimension=dimension), partial(_against, judge_structured)


SWEEPS = {
    "plane": Sweep("generic and degenerate, in the plane", _plane, partial(_against, judge)),
    "space": Sweep(
        "generic and degenerate, in three to six dimensions",
        space_instance,
        partial(_against, judge_space, engine=enumerated),
        part=20,
    ),
    "search": Sweep(
        "the same by linear programs alone",
        space_instance,
        partial(_against, judge_space, engine=searched),
        part=20,
    ),
    "ties": Sweep("ties are the rule, in one to four dimensions", *_ties(None)),
    "ties-7": Sweep("ties are the rule, in seven dimensions", *_ties(7), part=20),
    "ties-8": Sweep("ties are the rule, in eight dimensions", *_ties(8), part=20),
    "ties-9": Sweep("ties are the rule, in nine dimensions", *_ties(9), part=10),
    "ties-10": Sweep("ties are the rule, in ten dimensions", *_ties(10), part=10),
    "rules": Sweep(
        "top-k, sparsemax, ReLU attention, one-sided ties", rule_instance, partial(_against, judge_rules)
    ),
    "boundaries": Sweep(
        "decision boundaries and distances", any_classifier, partial(_against, judge_boundary), part=20
    ),
    "extreme": Sweep("numbers from 5e-324 to 1e308", _extreme, _judge_extreme, exact=False),
}


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


def work_off(name: str, start: int, stop: int) -> dict[str, Any]:
    """Judge the networks start .. stop - 1 of a sweep: cells, and what went wrong."""
    warnings.simplefilter("error")
    sweep = SWEEPS[name]
    part: dict[str, Any] = {"cells": 0, "in_rationals": 0, "mismatches": {}}
    for number in range(start, stop):
        also = sweep.exact and number % EXACT_EVERY == 0
        try:
            with patience(PATIENCE):
                arithmetics = ("certified", "exact") if also else ("certified",)
                cells, problems = sweep.judge(sweep.case_of(number), arithmetics)
        except Exception as error:  # whatever it is, it is a failure of this network
            cells, problems = 0, [f"{type(error).__name__}: {error}"]
        part["cells"] += cells
        part["in_rationals"] += also
        if problems:
            part["mismatches"][str(number)] = problems[0][:300]
    return part


# The record ---------------------------------------------------------------------------------------------


def add(record: dict[str, Any], name: str, start: int, stop: int, part: dict[str, Any], version: str) -> None:
    empty = {"numbers": [], "networks": 0, "cells": 0, "in_rationals": 0, "mismatches": {}, "commits": []}
    entry = record.setdefault(name, empty)
    entry["numbers"] = records.joined([*entry["numbers"], [start, stop]])
    entry["networks"] += stop - start
    entry["cells"] += part["cells"]
    entry["in_rationals"] += part["in_rationals"]
    entry["mismatches"] |= part["mismatches"]
    entry["commits"] = list(dict.fromkeys([*entry["commits"], version]))


def table(record: dict[str, Any]) -> str:
    """Of the record, as docs/reliability.md shows it."""
    lines: list[tuple[object, ...]] = []
    for name, sweep in SWEEPS.items():
        if entry := record.get(name):
            numbers = (entry[key] for key in ("networks", "in_rationals", "cells"))
            lines.append((sweep.words, *numbers, len(entry["mismatches"])))
    sums = (sum(column) for column in zip(*(line[1:] for line in lines), strict=True))
    head = ("networks", "tried", "also all in rationals", "cells", "mismatches")
    return records.rows(head, *lines, ("all", *sums))


# Running ------------------------------------------------------------------------------------------------


def tell(name: str, start: int, stop: int, part: dict[str, Any]) -> None:
    print(f"{name} {start:,} to {stop - 1:,}: {len(part['mismatches'])} mismatches", flush=True)
    for number, problem in part["mismatches"].items():
        case = SWEEPS[name].case_of(int(number))
        print(f"MISMATCH {case.name}: {problem}\n{described(case.network, case.domain)}", flush=True)


def sweep_on(names: list[str], hours: float, jobs: int, path: Path) -> dict[str, Any]:
    """Work until the time is over; the record is written after every part."""
    record = records.read(path)
    end, turns, version = time.monotonic() + 3600 * hours, cycle(names), records.commit()
    under_way: dict[Future[dict[str, Any]], tuple[str, int, int]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        while True:
            while len(under_way) < jobs and time.monotonic() < end:
                name = next(turns)
                taken = [[low, high] for other, low, high in under_way.values() if other == name]
                taken += record.get(name, {}).get("numbers", [])
                numbers = records.next_part(taken, FIRST, SWEEPS[name].part)
                under_way[pool.submit(work_off, name, *numbers)] = name, *numbers
            if not under_way:
                return record
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                which, part = under_way.pop(future), future.result()
                add(record, *which, part, version)
                records.write(path, record)
                tell(*which, part)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", nargs="*", choices=list(SWEEPS), default=list(SWEEPS), metavar="SWEEP")
    parser.add_argument("--numbers", help="judge these, as in 4711 or 0:2000, and record nothing")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true", help="judge nothing")
    options = parser.parse_args()
    if options.numbers:
        low, _, high = options.numbers.partition(":")
        start, stop = int(low), int(high or int(low) + 1)
        record: dict[str, Any] = {}
        for name in options.only:
            part = work_off(name, start, stop)
            add(record, name, start, stop, part, "")
            tell(name, start, stop, part)
    elif options.table:
        record = records.read(options.record)
    else:
        record = sweep_on(options.only, options.hours, options.jobs, options.record)
    print(table(record))
    return 1 if any(entry["mismatches"] for entry in record.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
