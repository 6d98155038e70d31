"""Go on with every sweep from where the kept record ends, for some hours.

    python tests/scripts/all_sweeps.py --hours 2             # a few hundred networks of each in turn
    python tests/scripts/all_sweeps.py --hours 1 --only plane
    python tests/scripts/all_sweeps.py --table               # what the record says

Every network has a number, and none is judged twice: ``docs/results/sweeps.json`` keeps which numbers were
judged, how many cells they had, and every mismatch. It is written after each part, whole or not at all, so a
run may be ended at any moment. Exits with 1 if the record holds a mismatch. A number is repeated by the
script of its sweep, with ``1 --start NUMBER``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import regions_sweep
import rules_sweep
import space_sweep
import structured_sweep
from sweeping import Sweep, work_off

from hardmax.storage import written_whole

ROOT = Path(__file__).resolve().parents[2]
FIRST = 1_000_000  # numbers below were used by hand before there was a record
SWEEPS: dict[str, tuple[str, Sweep]] = {
    "plane": ("generic and degenerate, in the plane", regions_sweep.SWEEP),
    "space": ("generic and degenerate, in three to six dimensions", space_sweep.sweep("front door")),
    "search": ("the same by linear programs alone", space_sweep.sweep("search")),
    "ties": ("ties are the rule, in one to four dimensions", structured_sweep.sweep()),
    "ties-7": ("ties are the rule, in seven dimensions", structured_sweep.sweep(dimension=7)),
    "ties-8": ("ties are the rule, in eight dimensions", structured_sweep.sweep(dimension=8)),
    "ties-9": ("ties are the rule, in nine dimensions", structured_sweep.sweep(dimension=9)),
    "ties-10": ("ties are the rule, in ten dimensions", structured_sweep.sweep(dimension=10)),
    "rules": ("top-k, sparsemax, ReLU attention, one-sided ties", rules_sweep.SWEEP),
}


def joined(ranges: list[list[int]]) -> list[list[int]]:
    """Ranges of numbers, neighbours made one."""
    result: list[list[int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1]:
            result[-1][1] = max(result[-1][1], high)
        else:
            result.append([low, high])
    return result


def next_part(done: list[list[int]], part: int) -> tuple[int, int]:
    """The first numbers that are in no range."""
    start = FIRST
    for low, high in joined(done):
        if low > start:
            return start, min(start + part, low)
        start = max(start, high)
    return start, start + part


def add(entry: dict[str, Any], part: dict[str, Any]) -> None:
    entry["numbers"] = joined([*entry["numbers"], [part["start"], part["stop"]]])
    entry["networks"] += part["stop"] - part["start"]
    entry["cells"] += part["sums"].get("cells", 0)
    entry["in_rationals"] += part["sums"].get("exact_runs", 0)
    entry["mismatches"] |= part["failures"]


def table(record: dict[str, Any]) -> str:
    lines = ["| networks | tried | also all in rationals | cells | mismatches |", "|---|---|---|---|---|"]
    for name, (words, _) in SWEEPS.items():
        if entry := record.get(name):
            cells = f"{entry['networks']:,} | {entry['in_rationals']:,} | {entry['cells']:,}"
            lines.append(f"| {words} | {cells} | {len(entry['mismatches'])} |")
    total = [sum(e[key] for e in record.values()) for key in ("networks", "in_rationals", "cells")]
    wrong = sum(len(entry["mismatches"]) for entry in record.values())
    return "\n".join([*lines, f"| all | {' | '.join(f'{n:,}' for n in total)} | {wrong} |"])


def sweep_on(record: dict[str, Any], names: list[str], options: argparse.Namespace) -> None:
    """Work until the time is over; the record is written after every part."""
    end, turns = time.monotonic() + 3600 * options.hours, cycle(names)
    under_way: dict[Future[dict[str, Any]], tuple[str, list[int]]] = {}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        while True:
            while len(under_way) < options.jobs and time.monotonic() < end:
                name = next(turns)
                taken = [numbers for other, numbers in under_way.values() if other == name]
                done = record.get(name, {}).get("numbers", [])
                low, high = next_part([*done, *taken], SWEEPS[name][1].part // 5)
                under_way[pool.submit(work_off, SWEEPS[name][1], low, high)] = name, [low, high]
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                name, (low, high) = under_way.pop(future)
                part = future.result()
                empty = {"numbers": [], "networks": 0, "in_rationals": 0, "cells": 0, "mismatches": {}}
                add(record.setdefault(name, empty), part)
                with written_whole(options.record) as file:
                    file.write((json.dumps(record, indent=1) + "\n").encode())
                print(f"{name} {low:,} to {high - 1:,}: {len(part['failures'])} mismatches", flush=True)
                for number, problems in part["failures"].items():
                    print(f"  MISMATCH {number}: {problems[0][:300]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", nargs="*", choices=list(SWEEPS), default=list(SWEEPS))
    parser.add_argument("--record", type=Path, default=ROOT / "docs/results/sweeps.json")
    parser.add_argument("--table", action="store_true", help="judge nothing")
    options = parser.parse_args()
    record = json.loads(options.record.read_text()) if options.record.exists() else {}
    if not options.table:
        sweep_on(record, options.only, options)
    print(table(record))
    return 1 if any(entry["mismatches"] for entry in record.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
