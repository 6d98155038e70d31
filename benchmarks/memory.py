"""Peak memory of big enumerations, each in a process of its own: `make memory`.

Three million cells of a transformer with 2,000 ReLU units, kept with packed signatures; the same cells
counted without being kept; both on one thread and on two; and the linear regions of three million cells,
counted by fingerprints.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from time import perf_counter

CELLS = 3_000_000
LIMIT = {  # MB
    "enumerate": 2000,
    "enumerate, 2 threads": 2500,  # what was found too early has to wait
    "count": 300,
    "count, 2 threads": 300,
    "regions": 500,
}


def measure(what: str) -> None:
    import hardmax as hm

    network, box = hm.Network.random(2, 50, 4, 2, 1000, 0), hm.Box.cube(2, -1000, 1000)
    start = perf_counter()
    if what == "regions":
        lines = hm.Network.random_mlp([2, 2650, 1], 0)
        found = hm.count_regions(lines, hm.Box.cube(2, -4, 4))
    else:
        run = hm.enumerate_regions if what.startswith("enumerate") else hm.count_cells
        found = run(network, box, max_cells=CELLS, n_jobs=2 if "2 threads" in what else 1)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    verdict = "ok" if peak < LIMIT[what] else "TOO MUCH"
    print(
        f"{what:20} {found.n_cells:9,} cells  {seconds:6.1f} s  peak {peak:6.0f} MB  "
        f"(limit {LIMIT[what]} MB)  {verdict}"
    )
    sys.exit(peak >= LIMIT[what])


def main() -> None:
    failures = sum(subprocess.run([sys.executable, __file__, what], check=False).returncode for what in LIMIT)
    sys.exit(failures > 0)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
