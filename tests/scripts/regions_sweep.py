"""Hold the exact regions of many small networks against the rational enumerator; run by hand.

    python tests/scripts/regions_sweep.py                 # 100,000 networks, a good half hour on two cores
    python tests/scripts/regions_sweep.py 2000 --start 7 --jobs 1

Every network has a number, which decides about kind, domain and weights (every tenth at the ends of the range
of floats). Finished numbers are written to a log in the folder ``--out``; the same command with the same
sources goes on where it stopped. A mismatch leaves a program there that repeats it. Exits with 1 if there was
one.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.judging_regions import judge
from oracles.random_networks import Instance, instance, rescaled
from sweeping import PLANE_PROGRAM, Sweep, run_sweep, sweep_parser

RESCALED_EVERY = 10  # every tenth at the ends of the range of floats


def case_of(number: int) -> Instance:
    """The network of a number; every tenth with weights and domain times powers of two."""
    case = instance(number)
    return rescaled(case) if number % RESCALED_EVERY == RESCALED_EVERY - 1 else case


def program(case: Instance) -> str:
    return PLANE_PROGRAM


SWEEP = Sweep(case_of, judge, program, part=250, patience=120)


def main() -> int:
    options = sweep_parser(__doc__, count=100_000, out="out/regions_sweep").parse_args()
    return run_sweep(SWEEP, options)


if __name__ == "__main__":
    sys.exit(main())
