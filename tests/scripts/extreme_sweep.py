"""Compare networks with numbers from 5e-324 to 1e308 with rational arithmetic, in one to three dimensions.

python tests/scripts/extreme_sweep.py --count 2000
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracles.extreme_networks import extreme_problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("error")
    failed, begin = 0, time.monotonic()
    for number in range(options.start, options.start + options.count):
        try:
            problems = extreme_problems(number)
        except Exception as error:  # an overflow that no engine expects
            problems = [f"{type(error).__name__}: {error}"]
        if problems:
            failed += 1
            print(f"number {number}: {'; '.join(problems)[:300]}", flush=True)
    print(f"{options.count} networks, {failed} failed, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
