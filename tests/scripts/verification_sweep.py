"""Verdicts and maxima against full enumeration: python tests/scripts/verification_sweep.py FIRST LAST."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracles.random_properties import condition, drawn, unsafe
from oracles.unsafe_sets import judge, supremum

import hardmax as hm


def check(number: int) -> str:
    """One network and property; the verdict, or an AssertionError."""
    network, domain = drawn(number)
    cases = unsafe(number, network, lambda weights: supremum(network, domain, weights)[0])
    expected = "violated" if judge(network, domain, cases) else "holds"
    verdict = hm.verify(network, ~condition(cases), domain, max_nodes=20_000)
    assert verdict.verdict == expected, (number, verdict, expected)
    verdict.certificate.replay()
    if verdict.counterexample is not None:
        values = network.exact_value(list(verdict.counterexample))
        assert values == verdict.outputs
    if number % 4 == 0:
        weights = [1, *[-1] * (network.d_out - 1)]
        best = hm.maximise(network, weights, domain)
        assert (best.value, best.attained) == supremum(network, domain, weights), number
        best.certificate.replay()
    return expected


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[2])
    counts, begun = Counter(), time.process_time()
    for number in range(first, last):
        try:
            counts[check(number)] += 1
        except Exception as error:
            counts["FAILED"] += 1
            print("FAILED", number, type(error).__name__, str(error)[:300], flush=True)
    print(dict(counts), f"{time.process_time() - begun:.0f} s of processor time")
    sys.exit(1 if counts["FAILED"] else 0)
