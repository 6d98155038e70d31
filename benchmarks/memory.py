"""Peak memory of big enumerations, each in a process of its own: `make memory`.

Three million cells of a transformer with 2,000 ReLU units, kept with packed signatures; the same cells
counted without being kept; both on one thread and on two; the linear regions of three million cells,
counted by fingerprints; and the information flow of 10,000 sequences of 1,024 tokens with all routings kept.
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
    "flow": 2000,
}


def measure(what: str) -> None:
    import hardmax as hm

    network, box = hm.Network.random(2, 50, 4, 2, 1000, 0), hm.Box.cube(2, -1000, 1000)
    start = perf_counter()
    if what == "flow":
        found = f"{flow()!r}"
    elif what == "regions":
        lines = hm.Network.random_mlp([2, 2650, 1], 0)
        found = hm.count_regions(lines, hm.Box.cube(2, -4, 4))
    else:
        run = hm.enumerate_regions if what.startswith("enumerate") else hm.count_cells
        found = run(network, box, max_cells=CELLS, n_jobs=2 if "2 threads" in what else 1)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    verdict = "ok" if peak < LIMIT[what] else "TOO MUCH"
    size = found if isinstance(found, str) else f"{found.n_cells:9,} cells"
    print(f"{what:20} {size}  {seconds:6.1f} s  peak {peak:6.0f} MB  (limit {LIMIT[what]} MB)  {verdict}")
    sys.exit(peak >= LIMIT[what])


def flow() -> object:
    """Two heads per token, then CLS: 10,000 x 1,024 winners per head are kept in two bytes each."""
    import numpy as np

    import hardmax as hm

    rng = np.random.default_rng(0)
    rules = [hm.MaxPosition(hm.BilinearScore(rng.normal(size=(4, 4)))) for _ in range(2)]
    largest = hm.MaxPosition(hm.KeyScore(lambda keys: keys[:, :, 0, 0]), key_slots=(0,))
    plan = hm.Plan([{"tokens": rules}, {"cls": largest}])
    architecture = hm.Architecture(1024, 4, (2, 1), 16)
    found = hm.information_sets(architecture, plan, rng.normal(size=(10_000, 1024, 4)), keep="all")
    found.sets(1, 512)  # the sets of one token, derived from the routings of all
    return found


def main() -> None:
    failures = sum(subprocess.run([sys.executable, __file__, what], check=False).returncode for what in LIMIT)
    sys.exit(failures > 0)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
