"""Peak memory of big enumerations, each in a process of its own: `make memory`.

Three million cells of a transformer with 2,000 ReLU units, kept with packed signatures; and the same cells
counted without being kept.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from time import perf_counter

CELLS = 3_000_000
LIMIT = {"enumerate": 2000, "count": 300}  # MB


def measure(what: str) -> None:
    import hardmax as hm

    network, box = hm.Network.random(2, 50, 4, 2, 1000, 0), hm.Box.cube(2, -1000, 1000)
    start = perf_counter()
    run = hm.enumerate_regions if what == "enumerate" else hm.count_cells
    found = run(network, box, max_cells=CELLS)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    verdict = "ok" if peak < LIMIT[what] else "TOO MUCH"
    print(
        f"{what:10} {found.n_cells:9,} cells  {seconds:6.1f} s  peak {peak:6.0f} MB  "
        f"(limit {LIMIT[what]} MB)  {verdict}"
    )
    sys.exit(peak >= LIMIT[what])


def main() -> None:
    failures = sum(subprocess.run([sys.executable, __file__, what], check=False).returncode for what in LIMIT)
    sys.exit(failures > 0)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
