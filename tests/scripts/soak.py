"""Mixed work in one process for hours, under a limit of memory: resident memory must stay flat.

    python tests/scripts/soak.py --hours 8
    python tests/scripts/soak.py --hours 0.1

Each round does one task of every kind with new random inputs: cells in one to four dimensions, regions,
traces, diagrams, Minkowski sums, estimates, advice, verification, an atlas of the bundled model, results
saved and loaded, and wrong input. The first tenth warms up (kernels, caches). Afterwards the largest
resident memory of the last third may exceed that of the first by at most 5 % and 20 MB. A line per minute
goes to the log.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import records

import hardmax as hm
from hardmax.cli.networks import read_network

RECORD = records.RESULTS / "soak.json"
LIMIT = 6 << 30


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def cells(rng: np.random.Generator, folder: Path) -> None:
    d = int(rng.integers(1, 5))
    network = read_network(f"mlp:{d},{12 if d < 3 else 7},{8 if d < 3 else 5},1,seed={rng.integers(10**9)}")
    found = hm.enumerate_regions(network, hm.Box.cube(d, -2, 2))
    assert found.complete
    assert found.n_regions <= found.n_cells


def structured(rng: np.random.Generator, folder: Path) -> None:
    weights = rng.integers(-2, 3, (8, 2)).astype(float)
    layer = hm.FeedForward(weights, rng.integers(-2, 3, 8), rng.integers(-1, 2, (2, 8)), [0, 0])
    hm.count_cells(hm.Network([layer, layer]), hm.Box.cube(2, -3, 3))


def trace(rng: np.random.Generator, folder: Path) -> None:
    network = read_network(f"mlp:8,40,40,1,seed={rng.integers(10**9)}")
    hm.trace_segment(network, rng.standard_normal(8), rng.standard_normal(8))


def diagram(rng: np.random.Generator, folder: Path) -> None:
    kept = hm.power_diagram(rng.standard_normal((60, 3))).save(folder / "diagram.npz")
    hm.load(kept)


def minkowski(rng: np.random.Generator, folder: Path) -> None:
    hm.minkowski_vertices([rng.standard_normal((8, 3)) for _ in range(3)])


def estimate(rng: np.random.Generator, folder: Path) -> None:
    network = read_network(f"mlp:3,16,16,1,seed={rng.integers(10**9)}")
    hm.estimate_cells(network, hm.Box.cube(3, -2, 2), n_samples=50_000)


def advice(rng: np.random.Generator, folder: Path) -> None:
    hm.advise(f"pairwise:{rng.integers(1, 4)}", n_tokens=16)


def verification(rng: np.random.Generator, folder: Path) -> None:
    network = read_network(f"mlp:2,10,10,1,seed={rng.integers(10**9)}")
    hm.verify(network, f"y0 <= {rng.uniform(0, 3)}", hm.Box.cube(2, -1, 1))


def atlas(rng: np.random.Generator, folder: Path) -> None:
    hm.head_atlas(hm.models.bundled_source(), rng.standard_normal((15, 4)))


def wrong(rng: np.random.Generator, folder: Path) -> None:
    path = folder / "wrong.npz"
    path.write_bytes(rng.bytes(int(rng.integers(1, 2000))))
    for question in (
        lambda: hm.load(path),
        lambda: hm.power_diagram([[np.nan]]),
        lambda: read_network("mlp:2"),
    ):
        try:
            question()
        except hm.errors.HardmaxError:
            continue
        raise AssertionError("wrong input was accepted")


TASKS: list[Callable[[np.random.Generator, Path], None]] = [
    cells, structured, trace, diagram, minkowski, estimate, advice, verification, atlas, wrong,
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/soak.jsonl"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true", help="do no work")
    options = parser.parse_args()
    if options.table:
        print(table(records.read(options.record)))
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    rng = np.random.default_rng(options.seed)
    begin, rounds, told = time.monotonic(), 0, 0.0
    seen: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder, options.out.open("w") as log:
        while (passed := time.monotonic() - begin) < 3600 * options.hours:
            for task in TASKS:
                task(rng, Path(folder))
            rounds += 1
            gc.collect()
            seen.append((passed, resident()))
            if passed - told > 60 or rounds == 1:
                told = passed
                line = {"seconds": round(passed), "rounds": rounds, "resident": round(seen[-1][1], 1)}
                log.write(json.dumps(line) + "\n")
                log.flush()
                print(line, flush=True)
    warm = [size for moment, size in seen if moment > 360 * options.hours]
    third = max(len(warm) // 3, 1)
    first, last = max(warm[:third]), max(warm[-third:])
    record = records.read(options.record)
    record[str(options.seed)] = {
        "hours": round(passed / 3600, 2),
        "rounds": rounds,
        "first": round(first),
        "last": round(last),
        "flat": last <= 1.05 * first + 20,
    }
    records.write(options.record, record)
    print(table(record))
    return 0 if record[str(options.seed)]["flat"] else 1


def table(record: dict[str, Any]) -> str:
    """Of the record, as docs/reliability.md shows it."""
    head = ("seed", "hours", f"rounds of {len(TASKS)} tasks", "MB, first third", "MB, last third", "flat")
    lines = (
        (seed, run["hours"], run["rounds"], run["first"], run["last"], "yes" if run["flat"] else "**no**")
        for seed, run in record.items()
    )
    return records.rows(head, *lines)


if __name__ == "__main__":
    sys.exit(main())
