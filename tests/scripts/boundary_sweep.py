"""Hold the decision boundaries of many small classifiers against brute force in rationals; run by hand.

    python tests/scripts/boundary_sweep.py                # 20,000 classifiers, ten minutes on two cores
    python tests/scripts/boundary_sweep.py 2000 --start 7 --jobs 1

Pieces, their exact ends, classes, cells and jumps, connected parts, and distances in three norms; every third
classifier is one in which ties are the rule (``oracles/structured_networks.py``). Works like
``regions_sweep.py``: numbered networks, a log to go on from, a program for every mismatch, exit code 1 if
there was one. In its summary, contacts are pieces, walls those with a jump, regions decision regions.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracles.random_networks import Instance
from oracles.rational_boundary import any_classifier, judge_boundary
from sweeping import Sweep, run_sweep, sweep_parser

PROGRAM = """from oracles.random_networks import Instance
from oracles.rational_boundary import boundary_problems

for arithmetic in ("certified", "exact"):
    print(arithmetic, boundary_problems(Instance(0, "", "", network, domain), arithmetic)[1] or "no mismatch")
"""


def program(case: Instance) -> str:
    return PROGRAM


def main() -> int:
    options = sweep_parser(__doc__, count=20_000, out="out/boundary_sweep").parse_args()
    return run_sweep(Sweep(any_classifier, judge_boundary, program, part=100, patience=120), options)


if __name__ == "__main__":
    sys.exit(main())
