"""Cells and regions: sampled by compiled code and by numpy, and counted exactly.

The reference is the tropical paper's method in numpy: draw points, send them through the network, and count
the distinct signature rows by ``np.unique(axis=0)``. It runs in batches, as it has to, on a part of the two
million points; its time is scaled up linearly, which flatters it, because sorting is not linear. Packing the
bits of a row into bytes before sorting helps numpy a lot; the notes say how much.
"""

from __future__ import annotations

import os
import time

from timing import Comparison, print_table, seconds, side_by_side, spell

import numpy as np  # isort: skip (the thread counts come first)

import hardmax as hm

SAMPLES = 2_000_000
PART = 20  # numpy runs on one point of this many
BATCH = 10_000
BOX = hm.Box.cube(2, -4, 4)
POINTS = 4096  # of a forward pass
WIDTHS = {64: 0.9, 128: 0.6, 256: 0.35}  # of [2,n,n,n,1]: the most that counting may take, in forward passes
LINES = (153, 484, 1532)  # [2, n, 1] has about 1e4, 1e5 and 1e6 cells in the box

NETWORKS = {
    "[2,64,64,64,1]": (hm.Network.random_mlp([2, 64, 64, 64, 1], 0), 800.0),
    "H=2 N=50 d_ff=64 L=2": (hm.Network.random(2, n_tokens=50, heads=2, depth=2, d_ff=64, rng=0), 500.0),
}

# maps, adjacency and regions are also compared with counting on wider networks and in space
KEPT = {name: network for name, (network, _) in NETWORKS.items()} | {
    f"[{','.join(map(str, widths))}]": hm.Network.random_mlp(widths, 0)
    for widths in ([2, 128, 128, 128, 1], [3, 32, 32, 1], [4, 16, 16, 1])
}


def signature_rows(network: hm.Network, points: np.ndarray) -> np.ndarray:
    """Routings and bits side by side, one byte each."""
    batches = []
    for start in range(0, len(points), BATCH):
        y, columns = points[start : start + BATCH], []
        for block in network.blocks:
            if isinstance(block, hm.Attention):
                added = y if block.skip else 0.0
                for scores, biases, outputs in zip(
                    block.scores.floats, block.biases.floats, block.outputs.floats, strict=True
                ):
                    winners = (y @ scores.T + biases).argmax(axis=1)
                    columns.append(winners[:, None])
                    added = added + outputs[winners]
                y = added
            else:
                z = (y if block.w_in is None else y @ block.w_in.floats.T) + block.b_in.floats
                columns.append(z > 0)
                y = np.maximum(z, 0) @ block.w_out.floats.T + block.b_out.floats
        batches.append(np.concatenate(columns, axis=1, dtype=np.uint8, casting="unsafe"))
    return np.concatenate(batches)


def numpy_count(network: hm.Network, *, packed: bool = False) -> int:
    points = np.random.default_rng(0).uniform(-4, 4, (SAMPLES // PART, 2))
    rows = signature_rows(network, points)
    if packed:
        heads = network.heads_total
        routings, bits = [], []
        at = 0
        for block in network.blocks:  # heads and units alternate
            wide = block.heads if isinstance(block, hm.Attention) else block.width
            (routings if isinstance(block, hm.Attention) else bits).append(rows[:, at : at + wide])
            at += wide
        columns = [np.packbits(np.concatenate(bits, axis=1), axis=1)]
        rows = np.concatenate([*routings, *columns], axis=1) if heads else columns[0]
    return len(np.unique(rows, axis=0))


def against_numpy() -> list[Comparison]:
    """Compiled Monte Carlo, and the exact certified count, against the Monte Carlo of numpy."""
    comparisons = []
    for name, (network, target) in NETWORKS.items():
        estimate = hm.estimate_cells(network, BOX)  # these two also compile
        count = hm.count_cells(network, BOX)
        if estimate.n_signatures > count.n_cells:
            raise SystemExit(f"{name}: {estimate.n_signatures} signatures, but {count.n_cells} cells")
        if numpy_count(network, packed=True) > count.n_cells:
            raise SystemExit(f"{name}: numpy finds more signatures than there are cells")
        sampled, reference = side_by_side(
            lambda network=network: hm.estimate_cells(network, BOX, n_samples=SAMPLES),
            lambda network=network: numpy_count(network),
            repeats=2,
            rounds=2,
        )
        counted = min(seconds(lambda network=network: hm.count_cells(network, BOX)) for _ in range(20))
        packed = PART * seconds(lambda network=network: numpy_count(network, packed=True))
        reference *= PART
        scaled = f"numpy timed on {SAMPLES // PART:,} points, scaled by {PART}"
        comparisons.append(
            Comparison(
                f"sampling {name}", sampled, reference, 20.0,
                note=f"{SAMPLES:,} points, {estimate.n_signatures:,} signatures of {count.n_cells:,} cells; "
                f"{scaled}; with packed rows it takes {spell(packed)} ({packed / sampled:.1f}x)",
            )
        )  # fmt: skip
        comparisons.append(
            Comparison(
                f"exact count {name}", counted, reference, target,
                note=f"all {count.n_cells:,} cells, certified, against sampling {SAMPLES:,} points; "
                f"{scaled}; with packed rows {packed / counted:.0f}x",
            )
        )  # fmt: skip
    return comparisons


def cost_per_cell() -> Comparison:
    """The same work for every cell, from ten thousand to a million: seconds per million cells."""
    networks = [hm.Network.random_mlp([2, n, 1], 0) for n in LINES]
    counts = [hm.count_cells(network, BOX).n_cells for network in networks]
    times = [
        min(seconds(lambda network=network: hm.count_cells(network, BOX)) for _ in range(repeats))
        for network, repeats in zip(networks, (30, 8, 3), strict=True)
    ]
    each = [1e6 * time / count for time, count in zip(times, counts, strict=True)]
    spelt = ", ".join(f"{count:,} cells {spell(time)}" for count, time in zip(counts, times, strict=True))
    return Comparison(
        "a million cells of [2,n,1]", max(each), min(each), 1.5, at_most=True,
        note=f"dearest against cheapest of three sizes: {spelt}",
    )  # fmt: skip


def against_forward_passes() -> list[Comparison]:
    """The exact count against one forward pass of numpy per cell, in batches."""
    comparisons = []
    for n, target in WIDTHS.items():
        network = hm.Network.random_mlp([2, n, n, n, 1], 0)
        count = hm.count_cells(network, BOX)  # also compiles
        points = np.random.default_rng(0).uniform(-4, 4, (POINTS, 2))

        first, *_ = blocks = network.blocks
        layers = [(first.w_in.floats, first.b_in.floats), *((b.w_out.floats, b.b_out.floats) for b in blocks)]

        def passes(layers=layers, n_cells=count.n_cells, points=points) -> None:
            for start in range(0, n_cells, POINTS):
                y = points[: n_cells - start]
                for weights, biases in layers:
                    y = np.maximum(y @ weights.T + biases, 0)

        counted, reference = side_by_side(
            lambda network=network: hm.count_cells(network, BOX),
            passes,
            repeats=5 if n < 256 else 1,
            rounds=5,
        )
        comparisons.append(
            Comparison(
                f"count over forward passes [2,{n},{n},{n},1]", counted, reference, target, at_most=True,
                note=f"{count.n_cells:,} cells, certified; numpy sends as many points through the network, "
                f"{POINTS:,} at a time",
            )
        )  # fmt: skip
    return comparisons


def cost_of_certainty() -> list[Comparison]:
    """What the proven error bounds cost over floats."""
    comparisons = []
    for name, (network, _) in NETWORKS.items():
        certified, floats = side_by_side(
            lambda network=network: hm.count_cells(network, BOX),
            lambda network=network: hm.count_cells(network, BOX, arithmetic="float"),
            repeats=10,
            rounds=10,
        )
        comparisons.append(Comparison(f"certified over float {name}", certified, floats, 1.5, at_most=True))
    return comparisons


def cost_of_keeping() -> list[Comparison]:
    """What maps, adjacency and regions cost over counting cells, and what counting regions costs."""
    comparisons = []
    for name, network in KEPT.items():
        box = hm.Box.cube(network.d, -4, 4)

        def everything(network: hm.Network = network, box: hm.Box = box) -> int:
            regions = hm.enumerate_regions(network, box)
            _ = regions.linear, regions.offset, regions.adjacency
            return regions.n_regions

        def count_regions(network: hm.Network = network, box: hm.Box = box) -> int:
            return hm.count_regions(network, box).n_regions

        n_regions = everything()
        if count_regions() != n_regions:
            raise SystemExit(f"{name}: counting finds other regions than gluing")
        for what, run in (("maps and regions", everything), ("counting regions", count_regions)):
            full, counted = side_by_side(
                run,
                lambda network=network, box=box: hm.count_cells(network, box),
                repeats=3,
                rounds=5,
            )
            comparisons.append(
                Comparison(
                    f"{what} over counting {name}", full, counted, 4.0, at_most=True,
                    note=f"{n_regions:,} regions",
                )
            )  # fmt: skip
    return comparisons


def two_threads() -> list[Comparison]:
    """Two threads against one on a million cells, by the clock on the wall: wants a quiet machine."""
    network = hm.Network.random_mlp([2, LINES[-1], 1], 0)
    comparisons = []
    for name, ask in (("counting", hm.count_cells), ("keeping", hm.enumerate_regions)):
        best = {1: float("inf"), 2: float("inf")}
        n_cells = {ask(network, BOX, n_jobs=jobs).n_cells for jobs in best}  # also compiles
        if len(n_cells) > 1:
            raise SystemExit(f"two threads find {n_cells} cells")
        for _ in range(5):
            for jobs in best:
                begin = time.perf_counter()
                ask(network, BOX, n_jobs=jobs)
                best[jobs] = min(best[jobs], time.perf_counter() - begin)
        load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
        comparisons.append(
            Comparison(
                f"two threads {name} [2,{LINES[-1]},1]", best[2], best[1], 1.6 if name == "counting" else 1.2,
                note=f"{n_cells.pop():,} cells on {os.cpu_count()} cores{load}; elapsed time",
            )
        )  # fmt: skip
    return comparisons


def run() -> list[Comparison]:
    return [
        *against_numpy(),
        *against_forward_passes(),
        cost_per_cell(),
        *cost_of_certainty(),
        *cost_of_keeping(),
        *two_threads(),
    ]


if __name__ == "__main__":
    print_table(run())
