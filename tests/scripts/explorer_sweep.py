"""Compare the explorer's JavaScript with the library on random and degenerate layouts.

Usage: PYTHONPATH=src:tests python tests/scripts/explorer_sweep.py [--layouts 5000] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np
from explorer_layouts import draw, judged

from hardmax.explorer.answers import answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layouts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    states = [draw(rng, i) for i in range(asked.layouts)]
    start = time.process_time()
    found = judged(states)
    tally: Counter[str] = Counter()
    for i, (state, page) in enumerate(zip(states, found, strict=True)):
        expected = answer(state)
        tally[f"layouts {state['mode']}"] += 1
        tally["live count differs"] += page["live"]["count"] != expected["count"]
        if (
            any(page["exact"][name] != value for name, value in expected.items())
            or not page["exact"]["complete"]
        ):
            tally["MISMATCH"] += 1
            print(f"layout {i}: python {expected}, page {page['exact']}\n  {state}", flush=True)
    for name in sorted(tally):
        print(f"{name}: {tally[name]}")
    print(f"mismatches after confirmation: {tally['MISMATCH']} of {len(states)}")
    print(f"{time.process_time() - start:.0f} s of processor time in Python")
    return int(tally["MISMATCH"] > 0)


if __name__ == "__main__":
    sys.exit(main())
