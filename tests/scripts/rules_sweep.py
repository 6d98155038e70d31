"""Hold the exact cells of many small networks with rules of attention against the plain oracle; run by hand.

    python tests/scripts/rules_sweep.py                 # 25,000 networks, 5,000 per rule
    python tests/scripts/rules_sweep.py 2000 --start 7 --jobs 1

Number modulo 5 decides about the first block: top-k, sparsemax, ReLU, hardmax with ties to the left, to the
right; the rest of the network and the box follow from the number. Finished numbers are written to a log in
the folder ``--out``; the same command with the same sources goes on where it stopped. A mismatch leaves a
program there that repeats it. Exits with 1 if there was one.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.judging_rules import judge_rules
from oracles.random_networks import Instance
from oracles.random_rules import rule_instance
from sweeping import Sweep, run_sweep, sweep_parser

PROGRAM = """from oracles.judging_rules import judge_rules
from oracles.random_networks import Instance

# number 0: all engines of the dimension
print(judge_rules(Instance(0, "", "", network, domain), ("certified", "exact")).problems or "no mismatch")
"""


def program(case: Instance) -> str:
    return PROGRAM


SWEEP = Sweep(rule_instance, judge_rules, program, part=250, patience=120)


def main() -> int:
    options = sweep_parser(__doc__, count=25_000, out="out/rules_sweep").parse_args()
    return run_sweep(SWEEP, options)


if __name__ == "__main__":
    sys.exit(main())
