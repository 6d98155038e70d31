"""Times verdicts on the lattices of the benchmarks: verify_lattices.py FUNCTIONS HOLDS VIOLATED."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import kinds

import hardmax as hm

BOX = hm.Box.cube(2, -8, 8)


def timed(text: str, question, limit: float = 60.0) -> object:
    """Ask, print, replay; the answer."""
    begun = time.process_time()
    try:
        found = question(limit)
    except hm.errors.IncompleteError as error:
        print(f"{text}: {error} {time.process_time() - begun:.1f} s", flush=True)
        return None
    seconds, begun = time.process_time() - begun, time.process_time()
    if getattr(found, "verdict", "") != "unknown":
        found.certificate.replay()
    print(f"{text}: {found}, {seconds:.1f} s, replay {time.process_time() - begun:.1f} s", flush=True)
    return found


if __name__ == "__main__":
    n, holds, violated = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    net = kinds.lattice(n)
    for text in (f"y0 <= {holds}", f"y0 <= {violated}"):
        timed(text, lambda limit, text=text: hm.verify(net, text, BOX, time_limit=limit))
    best = timed("maximum", lambda limit: hm.maximise(net, 0, BOX, time_limit=limit))
    if best is not None:
        for text in (f"y0 <= {best.value}", f"y0 < {best.value}"):
            timed(text[:12] + "...", lambda limit, text=text: hm.verify(net, text, BOX, time_limit=limit))
