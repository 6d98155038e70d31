"""Try to break the transformer of Theorem 1 for many accuracies and lengths; run by hand.

    python tests/scripts/constructions_sweep.py             # some minutes
    python tests/scripts/constructions_sweep.py --tokens 8 --epsilons 0.1 --inputs 20000 --steps 2000

Prints one line per construction; exits with 1 if an error above epsilon, or a weight above 1, was found.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product

from hardmax.flow.theorems.depth_separation import separation_transformer, sup_error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 0.1, 0.05, 0.0125])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 2, 8, 64, 256])
    parser.add_argument("--inputs", type=int, default=1000, help="sequences per family")
    parser.add_argument("--steps", type=int, default=300, help="steps of hill climbing")
    options = parser.parse_args()
    broken = 0
    print("square      domain     eps    T      beta widths        weights  bound/eps  random/eps  found/eps")
    cases = product(("plain", "richardson"), ("cube11", "cube01"), options.epsilons, options.tokens)
    for square, domain, epsilon, n_tokens in cases:
        built = separation_transformer(epsilon, n_tokens, square=square, domain=domain)
        inputs = max(20, options.inputs // max(1, n_tokens // 8))
        found = sup_error(built, n_each=inputs, steps=options.steps)
        net = built.transformer
        broken += found.largest > epsilon or net.largest_weight > 1.0 or built.error_bound > epsilon
        shares = [e / epsilon for e in (built.error_bound, found.random, found.adversarial)]
        print(
            f"{square:11s} {domain} {epsilon:7g} {n_tokens:4d} {net.beta:9.1f} {built.widths!s:13s}",
            f"{net.n_parameters:7d} {shares[0]:10.3f} {shares[1]:11.3f} {shares[2]:10.3f}",
            flush=True,
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
