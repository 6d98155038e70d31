"""Networks on lines against the rational enumerator, as many as asked for.

    python tests/scripts/segment_sweep.py --count 5000 --start 0
    python tests/scripts/segment_sweep.py --count 5000 --scaled   weights to the ends of the range of floats

Prints one line for every network that differs, and what it takes to see it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "unit/regions"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.lines import on_a_line
from oracles.random_networks import described
from oracles.rational_space import enumerate_space
from test_segment import finished, judge, machine_of, signatures_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--scaled", action="store_true")
    options = parser.parse_args()
    begin, wrong, cells = time.monotonic(), 0, 0
    for number in range(options.start, options.start + options.count):
        network, domain = on_a_line(number, scaled=options.scaled)
        machine = machine_of(network, domain)
        try:
            finished(machine)
            cells += machine.n_cells
            if options.scaled:
                expected = enumerate_space(network, domain)
                assert signatures_of(network, machine.cells()) == expected.signatures
            else:
                judge(network, domain, machine)
        except AssertionError as problem:
            wrong += 1
            print(f"number {number}: {problem}\n{described(network, domain)}", flush=True)
    print(f"{options.count} networks, {cells} cells, {wrong} wrong, {time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
