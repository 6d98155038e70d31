"""Search for ReLU networks of widths 2, 3, 3 with many cells (P1 Example III.3).

    python tests/scripts/mlp_search.py --seconds 60 --seed 0

Up to an affine map of the plane the first layer is the lines x = 0, y = 0 and x + y = 1, each oriented one
way or the other; up to symmetry there are four ways. A second layer is three functions that are affine on
each of the seven cells, and in general position

    cells = 7 + (cells crossed by the zero set of each function) + (points where two zero sets cross),

which is cheap to count for thousands of networks at once. The best network of every way is checked with
hm.count_cells: the formula counts too much where three zero sets meet in one point.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import hardmax as hm

A, B, C = (0, 0, 1), (1, 0, 1), (0, 1, 1)
CELLS = {  # which of x, y, 1 - x - y are positive: corners and directions to infinity of the cell
    (1, 1, 1): [A, B, C],
    (1, 1, 0): [B, C, (1, 0, 0), (0, 1, 0)],
    (1, 0, 1): [A, B, (0, -1, 0), (1, -1, 0)],
    (0, 1, 1): [A, C, (-1, 0, 0), (-1, 1, 0)],
    (1, 0, 0): [B, (1, 0, 0), (1, -1, 0)],
    (0, 1, 0): [C, (0, 1, 0), (-1, 1, 0)],
    (0, 0, 1): [A, (-1, 0, 0), (0, -1, 0)],
}
LINES = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, 1.0]])  # rows act on (x, y, 1)
WAYS = ((1, 1, 1), (1, 1, -1), (1, -1, -1), (-1, -1, -1))
TINY = 1e-9


def cells(weights, biases, way):
    """The number of cells of each of many networks: weights (M, 3, 3), biases (M, 3)."""
    signs = np.array(way, dtype=float)
    lines = LINES * signs[:, None]
    total = np.full(len(weights), len(CELLS))
    for pattern, corners in CELLS.items():
        on = np.where(signs > 0, pattern, 1 - np.array(pattern)).astype(float)
        functions = np.einsum("mui,i,ij->muj", weights, on, lines)
        functions[:, :, 2] += biases
        values = np.einsum("muj,gj->mug", functions, np.array(corners, dtype=float))
        total += ((values.max(axis=2) > TINY) & (values.min(axis=2) < -TINY)).sum(axis=1)
        for u, v in ((0, 1), (0, 2), (1, 2)):
            points = np.cross(functions[:, u], functions[:, v])
            meet = np.abs(points[:, 2]) > TINY
            heights = points / np.where(meet, points[:, 2], 1.0)[:, None] @ lines.T
            inside = np.where(on > 0, heights > TINY, heights < -TINY).all(axis=1)
            total += meet & inside
    return total


def search(way, seconds, rng):
    """Random starts, then steps that are kept when they do not lose too much."""
    best, network, tried, end = 0, None, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        weights = rng.standard_normal((3000, 3, 3)) * np.exp(rng.standard_normal((3000, 3, 3)))
        biases = rng.standard_normal((3000, 3))
        counts = cells(weights, biases, way)
        kept = np.argsort(-counts)[:300]
        weights, biases, counts = weights[kept], biases[kept], counts[kept]
        tried += 3000
        for step in range(200):
            size = 10 ** rng.uniform(-2.5, 0.3)
            moved = rng.random((300, 3, 1)) < 0.6
            w = weights + size * moved * rng.standard_normal(weights.shape) * np.maximum(abs(weights), 0.1)
            b = biases + size * moved[:, :, 0] * rng.standard_normal(biases.shape)
            c = cells(w, b, way)
            tried += 300
            accepted = rng.random(300) < np.exp(np.minimum(0.0, (c - counts) * (1 + step / 10)))
            weights[accepted], biases[accepted], counts[accepted] = w[accepted], b[accepted], c[accepted]
            if c.max() > best:
                best, network = int(c.max()), (w[c.argmax()].copy(), b[c.argmax()].copy())
    return best, network, tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each of the four ways")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for i, way in enumerate(WAYS):
        best, (weights, biases), tried = search(
            way, options.seconds, np.random.default_rng([options.seed, i])
        )
        signs = np.array(way)
        first = (LINES[:, :2] * signs[:, None], LINES[:, 2] * signs)
        network = hm.Network.mlp([first, (weights, biases), (np.eye(3), np.zeros(3))])
        exact = hm.count_cells(network, hm.WholeSpace(2))
        print(f"way {way}: {best} cells among {tried} networks; counted exactly: {exact.n_cells}")
        print(f"  weights {weights.tolist()}\n  biases {biases.tolist()}")


if __name__ == "__main__":
    main()
