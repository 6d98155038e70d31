"""How many first-layer heads the pairwise target needs, by exhaustive search over all rankings of letters.

    python tests/scripts/first_layer_search.py [--seeds 4] [--decisions 20000]

For every line of the grid, alphabets of random tokens on the unit sphere (with random matrices A_i), or
random tables of pair values ("any"), are asked whether h_1 heads can bring the winning pair of every term
together in one token. "no" excludes h_1 heads at this T for the given target; "yes" says that this alphabet
does not.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from hardmax.flow.theorems.pair_search import pair_values, search_first_layer, unseen_pairs

GRID = [  # tokens, T, D, h_1, letters
    ("any", 4, 2, 1, 8), ("any", 4, 2, 1, 12), ("any", 5, 2, 1, 8), ("any", 5, 2, 1, 12),
    ("any", 6, 2, 1, 13), ("any", 5, 2, 2, 10),
    ("sphere", 4, 2, 1, 16), ("sphere", 5, 2, 1, 16), ("sphere", 5, 2, 1, 18), ("sphere", 6, 2, 1, 18),
    ("any", 4, 3, 1, 8), ("any", 4, 3, 1, 10), ("any", 4, 3, 2, 12), ("any", 4, 3, 2, 14),
]  # fmt: skip


def alphabet(tokens: str, n_terms: int, n_letters: int, seed: int) -> np.ndarray:
    """Pair values of one random alphabet."""
    rng = np.random.default_rng([seed, n_terms, n_letters])
    if tokens == "any":
        values = rng.normal(size=(n_terms, n_letters, n_letters))
        values[:, range(n_letters), range(n_letters)] = values.min() - 1  # a letter is no pair with itself
        return np.maximum(values, values.swapaxes(1, 2))
    letters = rng.normal(size=(n_letters, 3))
    return pair_values(rng.normal(size=(n_terms, 3, 3)), letters / np.linalg.norm(letters, axis=1)[:, None])


def main() -> None:
    """Print one line per entry of the grid."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--decisions", type=int, default=20_000)
    options = parser.parse_args()
    print(f"{'tokens':8} {'T':>2} {'D':>2} {'h_1':>3} {'letters':>7}  yes  no open  decisions  seconds")
    for tokens, n_tokens, n_terms, heads, n_letters in GRID:
        start, answers, decisions = time.perf_counter(), [], 0
        for seed in range(options.seeds):
            values = alphabet(tokens, n_terms, n_letters, seed)
            found = search_first_layer(values, n_tokens, heads, max_decisions=options.decisions)
            if found.possible and unseen_pairs(values, found.rankings, n_tokens):
                raise SystemExit("the rankings that were found do not see every pair: a defect")
            answers.append(found.possible)
            decisions = max(decisions, found.decisions)
        counts = [answers.count(answer) for answer in (True, False, None)]
        print(
            f"{tokens:8} {n_tokens:2} {n_terms:2} {heads:3} {n_letters:7}  {counts[0]:3} {counts[1]:3} "
            f"{counts[2]:4}  {decisions:9}  {time.perf_counter() - start:7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
