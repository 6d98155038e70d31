"""Questions without an end in sight, asked with a limit: how long they really take.

    python tests/scripts/time_limits.py            # with a limit of 3 seconds each
    python tests/scripts/time_limits.py --table    # what was found last

Kernels are compiled before. Every answer must come within two seconds of the limit and say that it is
incomplete, or be complete; the exit code is 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import records

import hardmax as hm
from hardmax.cli.networks import read_network

RECORD = records.RESULTS / "time_limits.json"
RNG = np.random.default_rng(0)


def counted(widths: str, **options: Any) -> Callable[..., Any]:
    network = read_network(f"mlp:{widths},seed=0")
    return partial(hm.count_cells, network, hm.Box.cube(int(widths.partition(",")[0]), -4, 4), **options)


def questions() -> dict[str, Callable[..., Any]]:
    long = read_network("mlp:8,300,300,300,1,seed=0")
    classes = read_network("mlp:6,80,80,3,seed=0")
    return {
        '`count_cells`, [2,64,64,64,1], `arithmetic="exact"`': counted("2,64,64,64,1", arithmetic="exact"),
        '`count_cells`, [3,40,40,1], `arithmetic="exact"`': counted("3,40,40,1", arithmetic="exact"),
        '`count_cells`, [1,300,300,1], `arithmetic="exact"`': counted("1,300,300,1", arithmetic="exact"),
        "`count_cells`, [4,60,60,1]": counted("4,60,60,1"),
        "`count_cells`, [50,300,300,1]": counted("50,300,300,1"),
        '`trace_segment`, [8,300,300,300,1], `arithmetic="exact"`': partial(
            hm.trace_segment, long, -np.ones(8), np.ones(8), arithmetic="exact"
        ),
        "`estimate_cells`, 10^12 points": partial(
            hm.estimate_cells, read_network("mlp:3,32,32,1,seed=0"), hm.Box.cube(3, -4, 4), n_samples=10**12
        ),
        "`minkowski_vertices`, 8 heads of 60 keys in R^6": partial(
            hm.minkowski_vertices, [RNG.standard_normal((60, 6)) for _ in range(8)]
        ),
        "`verify`, [6,80,80,3]": partial(hm.verify, classes, "y0 <= y1", hm.Box.cube(6, -1, 1)),
        "`decision_boundary`, [6,80,80,3]": partial(hm.decision_boundary, classes, hm.Box.cube(6, -1, 1)),
    }


def table(record: dict[str, Any]) -> str:
    """Of the record, as docs/reliability.md shows it."""
    head = (f"question, `time_limit={record['limit']:g}`", "seconds", "answer")
    return records.rows(head, *record["answers"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=3.0, help="seconds")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true", help="ask nothing")
    options = parser.parse_args()
    limit, late = options.limit, 0
    if options.table:
        print(table(records.read(options.record)))
        return 0
    answers: list[tuple[str, str, str]] = []
    for name, ask in questions().items():
        for seconds in (0.2, limit):  # once for the kernels
            begin = time.monotonic()
            try:
                found = ask(time_limit=seconds)
                complete = getattr(found, "complete", None)
                said = f"complete: {found}" if complete else "incomplete, and says so"
                said = getattr(found, "status", said)
            except hm.errors.HardmaxError as error:
                said = f"refused: {error}"
            taken = time.monotonic() - begin
        late += taken > limit + 2.0
        answers.append((name, f"{taken:.1f}", said))
        print(*answers[-1], sep=" | ", flush=True)
    record = {"limit": limit, "answers": answers}
    records.write(options.record, record)
    print(table(record))
    return bool(late)


if __name__ == "__main__":
    sys.exit(main())
