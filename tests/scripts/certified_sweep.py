"""Certified traces of smooth networks and transformers against dense sampling in float64.

    python tests/scripts/certified_sweep.py --count 20 --points 1000000

Every change that sampling finds must lie in a bracket, and where all changes are separated there must be as
many pieces. Prints one line for every kind, and one for everything that is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from oracles.smooth_networks import KINDS, judge, sampled, smooth_network, smooth_transformer

import hardmax as hm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--depth", type=int, default=2)
    options = parser.parse_args()
    wrong = 0
    for maker, shape in ((smooth_network, (6,)), (smooth_transformer, (4, 4))):
        for kind in KINDS:
            pieces = seen = unseparated = equal = 0
            seconds = 0.0
            for number in range(options.start, options.start + options.count):
                net = maker(number, kind, depth=options.depth)
                start, end = 2 * np.random.default_rng(number).normal(size=(2, *shape))
                begin = time.process_time()
                trace = hm.trace_segment(net, start, end)
                seconds += time.process_time() - begin
                if not hasattr(trace, "brackets"):
                    continue  # piecewise affine
                changes = sampled(net, start, end, options.points)
                problem = judge(trace, changes)
                if problem:
                    wrong += 1
                    print(f"number {number} of {kind}: {problem}", flush=True)
                pieces, seen = pieces + trace.n_pieces, seen + len(changes) + 1
                unseparated += trace.n_unseparated
                equal += trace.n_pieces == len(changes) + 1
            share = 1e3 * seconds / max(pieces, 1)
            print(
                f"{maker.__name__}, {kind}: {pieces} pieces, {seen} seen by sampling, "
                f"{equal} of {options.count} equal, {unseparated} not separated, {share:.1f} ms per piece",
                flush=True,
            )
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
