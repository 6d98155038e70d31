"""Hold Minkowski vertices against PPL on as many instances as asked for.

    python tests/scripts/minkowski_sweep.py 20000
    python tests/scripts/minkowski_sweep.py 500 --start 7 --tuples 600 --dimensions 3 4

The instances are numbered, so a failure is repeated with ``1 --start NUMBER`` and the same options.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.certificates import lift_heads
from oracles.instances import instance
from oracles.judging import HAS_PPL, WITHOUT_PPL, missing_and_extra, reference, result_problems

import hardmax as hm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, help="number of instances")
    parser.add_argument("--start", type=int, default=0, help="number of the first instance")
    parser.add_argument("--tuples", type=int, default=150, help="largest number of sums of an instance")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--verify", action="store_true", help="also run .verify() on every instance")
    options = parser.parse_args()
    if not HAS_PPL:
        print(WITHOUT_PPL)
    failures = compared = vertices = 0
    ours = 0.0
    for number in range(options.start, options.start + options.count):
        case = instance(number, tuples=options.tuples, dimensions=tuple(options.dimensions))
        heads = lift_heads(case.point_sets, case.biases)
        try:
            begin = time.process_time()
            result = hm.minkowski_vertices(case.point_sets, case.biases)
            spent = time.process_time() - begin
            problems = result_problems(result, heads)
            expected = reference(heads)
            if expected is not None:
                missing, extra = missing_and_extra(result, expected)
                problems += [f"missing {sorted(missing)}"] if missing else []
                problems += [f"extra {sorted(extra)}"] if extra else []
                compared += 1
            if options.verify and not result.verify().ok:
                problems.append("verify() is not ok")
            vertices += result.count
            ours += spent
            if spent > 2.0 and number > options.start:
                print(f"slow: {spent:.1f} s for {case.name}")
        except Exception as error:  # a sweep reports every failure and goes on
            problems = [f"{type(error).__name__}: {error}"]
        if problems:
            failures += 1
            print(f"FAILED number {number}\n  {case}\n  " + "\n  ".join(problems[:6]), flush=True)
    print(f"{options.count} instances, {compared} compared exactly, {vertices} vertices in {ours:.1f} s")
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
