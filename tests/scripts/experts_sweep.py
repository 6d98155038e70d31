"""Random small networks with mixtures of experts, on the line and in the plane, against brute force.

    PYTHONPATH=src:. python tests/scripts/experts_sweep.py [SECONDS]

Prints every mismatch, and how many networks, cells and mixtures that choose (k < E) there were.
"""

from __future__ import annotations

import sys
import time

import hardmax as hm
from hardmax.networks import MixtureOfExperts
from tests.oracles.rational_regions import enumerate_rationally
from tests.unit.networks.test_experts import assert_right, instance

BOX = hm.Box.cube(2, -3, 3)
STRIP = hm.Polytope([[1, 0], [-1, 0], [0, 1], [0, -1]], [3, 3, 1, 0])


def main(seconds: float) -> int:
    """Sweep for so many seconds of CPU time; returns the number of mismatches."""
    begin, seed, networks, cells, choosing, wrong = time.process_time(), 1000, 0, 0, 0, 0
    while time.process_time() - begin < seconds:
        for d in (1, 2):
            network = instance(seed, d)
            try:
                if d == 2:
                    found = assert_right(network, BOX, enumerate_rationally(network, BOX))
                else:
                    flat = hm.Network([hm.Affine([[1, 0]]), *network.blocks])
                    found = assert_right(network, hm.Box([-3], [3]), enumerate_rationally(flat, STRIP))
                cells += found.n_cells
            except Exception as error:  # whatever it is, it is a mismatch
                wrong += 1
                print(f"seed {seed}, d = {d}: {type(error).__name__}: {error}")
            networks += 1
            choosing += any(isinstance(b, MixtureOfExperts) and b.k < b.n_experts for b in network.blocks)
        seed += 1
    print(f"{networks} networks, {choosing} with k < E, {cells} cells, {wrong} mismatches")
    return wrong


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0) > 0)
