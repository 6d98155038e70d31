"""Hold the exact regions of many small networks beyond the plane against the rational enumerator, by hand.

    python tests/scripts/space_sweep.py                   # 20,000 networks
    python tests/scripts/space_sweep.py 2000 --start 7 --jobs 1
    python tests/scripts/space_sweep.py 2000 --engine search

Works like ``regions_sweep.py``: every network has a number, which decides about kind, domain, dimension and
weights; finished numbers are written to a log in the folder ``--out``, and the same command with the same
sources goes on where it stopped. A mismatch leaves a program there that repeats it. Exits with 1 if there was
one.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.judging_space import enumerated, judge_space, searched
from oracles.random_networks import Instance
from oracles.random_space import space_instance
from sweeping import SPACE_PROGRAM, Sweep, run_sweep, sweep_parser

ENGINES = {"front door": enumerated, "search": searched}


def program(case: Instance, engine: str) -> str:
    return SPACE_PROGRAM.format(engine=ENGINES[engine].__name__)


def sweep(engine: str) -> Sweep:
    judge = partial(judge_space, engine=ENGINES[engine])
    return Sweep(space_instance, judge, partial(program, engine=engine), part=100, patience=300)


def main() -> int:
    parser = sweep_parser(__doc__, count=20_000, out="out/space_sweep")
    parser.add_argument("--engine", choices=list(ENGINES), default="front door", help="who enumerates")
    options = parser.parse_args()
    return run_sweep(sweep(options.engine), options, f"{options.engine.replace(' ', '_')}_from")


if __name__ == "__main__":
    sys.exit(main())
