"""Hold networks in which ties are the rule against the rational enumerator, by hand.

    python tests/scripts/structured_sweep.py              # 100,000 networks, about half an hour on two cores
    python tests/scripts/structured_sweep.py 2000 --start 7 --jobs 1
    python tests/scripts/structured_sweep.py 10000 --kind "ties behind ties"
    python tests/scripts/structured_sweep.py 20000 --dimension 1      # all of them on the line
    python tests/scripts/structured_sweep.py 1000 --dimension 7 --kind "ties behind ties"

Small integers, ternary weights, lattices, duplicated and negated units, sums that cancel, coinciding
hyperplanes, tied keys and ties behind ties, maxout, sawtooth, in one to four dimensions
(``oracles/structured_networks.py``);
every seventh with one number moved a little, every fourth also with all decisions in rationals, every fifth
also by linear programs. Works like ``regions_sweep.py``: numbered networks, a log to go on from, a program
for every mismatch, exit code 1 if there was one.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracles.random_networks import Instance
from oracles.structured_networks import STRUCTURED_KINDS, judge_structured, structured_instance
from sweeping import PLANE_PROGRAM, SPACE_PROGRAM, Sweep, run_sweep, sweep_parser


def program(case: Instance) -> str:
    return PLANE_PROGRAM if case.domain.d == 2 else SPACE_PROGRAM.format(engine="enumerated")


def sweep(kind: str | None = None, dimension: int | None = None) -> Sweep:
    case_of = partial(structured_instance, kind=kind, dimension=dimension)
    return Sweep(case_of, judge_structured, program, part=250, patience=120)


def main() -> int:
    parser = sweep_parser(__doc__, count=100_000, out="out/structured_sweep")
    parser.add_argument("--kind", choices=list(STRUCTURED_KINDS), help="networks of this kind only")
    parser.add_argument("--dimension", type=int, choices=(1, 2, 3, 4, 7, 8, 9, 10), help="of all; else drawn")
    options = parser.parse_args()
    where = "" if options.dimension is None else f" in dimension {options.dimension}"
    return run_sweep(
        sweep(options.kind, options.dimension), options, f"{options.kind or 'all kinds'}{where} from"
    )


if __name__ == "__main__":
    sys.exit(main())
