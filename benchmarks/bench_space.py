"""Cells in space: split polyhedra against linear programs, the Monte Carlo of numpy, and forward passes."""

from __future__ import annotations

from timing import Comparison, print_table, seconds, side_by_side

from bench_regions import PART, SAMPLES, signature_rows  # isort: skip

import numpy as np  # isort: skip (the thread counts come first)

import hardmax as hm

WIDTHS = ([3, 32, 32, 1], [4, 16, 16, 1])
POINTS = 4096  # of a forward pass
PASSES = {(3, 64, 64, 1): 2.5, (4, 16, 16, 1): 12.0}  # the most that counting may take, in forward passes


def against_linear_programs() -> list[Comparison]:
    """Both engines certified, the same cells."""
    comparisons = []
    for widths in WIDTHS:
        network, box = hm.Network.random_mlp(widths, 0), hm.Box.cube(widths[0], -4, 4)
        split = hm.count_cells(network, box, engine="space").n_cells  # these two also compile
        searched = hm.count_cells(network, box, engine="search").n_cells
        if split != searched:
            raise SystemExit(f"{widths}: {split} cells by splitting, but {searched} by linear programs")
        ours, reference = side_by_side(
            lambda network=network, box=box: hm.count_cells(network, box, engine="space"),
            lambda network=network, box=box: hm.count_cells(network, box, engine="search"),
            repeats=3,
            rounds=2,
        )
        name = f"exact count {widths}".replace(" ", "").replace("count", " count ")
        comparisons.append(
            Comparison(f"{name}: space over search", ours, reference, 3.0, note=f"{split:,} cells")
        )
    return comparisons


def against_numpy() -> Comparison:
    """The exact count against sampling two million points."""
    network, box = hm.Network.random_mlp(WIDTHS[0], 0), hm.Box.cube(3, -4, 4)
    count = hm.count_cells(network, box).n_cells

    def sampled() -> int:
        points = np.random.default_rng(0).uniform(-4, 4, (SAMPLES // PART, 3))
        return len(np.unique(signature_rows(network, points), axis=0))

    if (seen := sampled()) > count:
        raise SystemExit(f"numpy finds {seen} signatures, but there are {count} cells")
    ours = min(seconds(lambda: hm.count_cells(network, box)) for _ in range(8))
    reference = PART * min(seconds(sampled) for _ in range(2))
    return Comparison(
        "exact count [3,32,32,1]: over numpy", ours, reference, 100.0,
        note=f"all {count:,} cells, certified; numpy timed on {SAMPLES // PART:,} points, scaled by {PART}",
    )  # fmt: skip


def against_forward_passes() -> list[Comparison]:
    """The exact count against one forward pass of numpy per cell, in batches."""
    comparisons = []
    for widths, target in PASSES.items():
        network, box = hm.Network.random_mlp(list(widths), 0), hm.Box.cube(widths[0], -4, 4)
        count = hm.count_cells(network, box)  # also compiles
        points = np.random.default_rng(0).uniform(-4, 4, (POINTS, widths[0]))
        first, *_ = blocks = network.blocks
        layers = [(first.w_in.floats, first.b_in.floats), *((b.w_out.floats, b.b_out.floats) for b in blocks)]

        def passes(layers=layers, n_cells=count.n_cells, points=points) -> None:
            for start in range(0, n_cells, POINTS):
                y = points[: n_cells - start]
                for weights, biases in layers:
                    y = np.maximum(y @ weights.T + biases, 0)

        counted, reference = side_by_side(
            lambda network=network, box=box: hm.count_cells(network, box), passes, repeats=5, rounds=5
        )
        comparisons.append(
            Comparison(
                f"count over forward passes {list(widths)}".replace(", ", ","), counted, reference, target,
                at_most=True,
                note=f"{count.n_cells:,} cells, certified; numpy sends as many points through the network, "
                f"{POINTS:,} at a time",
            )
        )  # fmt: skip
    return comparisons


def run() -> list[Comparison]:
    return [*against_linear_programs(), against_numpy(), *against_forward_passes()]


if __name__ == "__main__":
    print_table(run())
