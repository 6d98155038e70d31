"""Hold order-k diagrams against brute force over all subsets of k keys, on as many instances as asked for.

    python tests/scripts/order_k_sweep.py 6000
    python tests/scripts/order_k_sweep.py 1 --start 4711

The instances are numbered, so a failure is repeated with ``1 --start NUMBER`` and the same options. Every
twentieth is also decided by one linear program per subset in fractions.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.judging import HAS_PPL, WITHOUT_PPL
from oracles.order_k import order_instance, problems_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, help="number of instances")
    parser.add_argument("--start", type=int, default=0, help="number of the first instance")
    parser.add_argument("--keys", type=int, default=7, help="largest number of keys")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 3, 4])
    options = parser.parse_args()
    if not HAS_PPL:
        print(WITHOUT_PPL)
    failures, cells, kinds = 0, 0, Counter()
    begin = time.process_time()
    for number in range(options.start, options.start + options.count):
        case = order_instance(number, dimensions=tuple(options.dimensions), largest=options.keys)
        kinds[case.name.split(",")[0]] += 1
        try:
            found, problems = problems_of(case, slow=number % 20 == 0)
            cells += found
        except Exception as error:  # a sweep reports every failure and goes on
            problems = [f"{type(error).__name__}: {error}"]
        if problems:
            failures += 1
            print(f"FAILED number {number}\n  {case}\n  " + "\n  ".join(problems[:6]), flush=True)
    print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    spent = time.process_time() - begin
    print(f"{options.count} instances, {cells} cells, {failures} failures, {spent:.0f} s of processor time")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
