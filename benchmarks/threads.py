"""Two threads instead of one, every engine, a million cells each: `python benchmarks/threads.py`.

Elapsed times need two idle cores; the load is printed beside them. The last column does not depend on other
work on the machine: the processor time of one thread alone, over what two threads cannot share, the main
thread and the busier of the two. It says what the list of tasks and the work outside kernels allow.

``machine`` says what two cores allow at most: twice the speed of one thread while another process runs the
same. The two share nothing but caches, memory and clock, so no two threads can be faster than that.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.regions.engine import workers

CASES: dict[str, Callable[[], tuple[hm.Network, Any]]] = {
    "segment": lambda: (zigzag(38, 4), hm.Box([0], [1])),
    "segment, deep": lambda: (zigzag(11, 6), hm.Box([0], [1])),
    "plane": lambda: (hm.Network.random_mlp([2, 1550, 1], 0), hm.Box.cube(2, -4, 4)),
    "plane, deep": lambda: (hm.Network.random_mlp([2, 800, 800, 1], 0), hm.Box.cube(2, -8, 8)),
    "space": lambda: (hm.Network.random_mlp([3, 110, 110, 1], 0), hm.Box.cube(3, -4, 4)),
    "search": lambda: (hm.Network.random_mlp([7, 20, 18, 1], 0), hm.Box.cube(7, -1, 1)),
}


def zigzag(teeth: int, depth: int) -> hm.Network:
    """Layers that each fold an interval many times, at places and with slopes that are not quite regular."""
    rng = np.random.default_rng(0)
    layers, weights, biases = [], np.ones((teeth, 1)), 0.0
    for _ in range(depth):
        breaks = (np.arange(teeth) + 0.1 * rng.random(teeth)) / teeth
        layers.append((weights, biases - breaks))
        slopes = teeth * np.where(np.arange(teeth) % 2, -2.0, 2.0)
        slopes[0] = teeth
        slopes *= 1 + 1e-4 * rng.random(teeth)
        weights, biases = np.tile(slopes, (teeth, 1)), 0.0
    layers.append((weights[:1], [0.0]))
    return hm.Network.mlp(layers)


def run(
    verb: Callable[..., Any], network: hm.Network, domain: Any, jobs: int
) -> tuple[int, float, float, float]:
    """Cells, elapsed seconds, processor seconds, and those of the main thread and the busiest other."""
    used: dict[int, float] = {}
    work = workers.Worker.work

    def noted(self: workers.Worker, *arguments: Any) -> Any:
        outcome = work(self, *arguments)
        used[threading.get_ident()] = time.thread_time()
        return outcome

    workers.Worker.work = noted  # type: ignore[method-assign]
    try:
        begin, cpu, main = time.perf_counter(), time.process_time(), time.thread_time()
        found = verb(network, domain, n_jobs=jobs)
        elapsed, cpu, main = time.perf_counter() - begin, time.process_time() - cpu, time.thread_time() - main
    finally:
        workers.Worker.work = work  # type: ignore[method-assign]
    used.pop(threading.get_ident(), None)
    return found.n_cells, elapsed, cpu, main + max(used.values(), default=0.0)


def beside(verb: Callable[..., Any], network: hm.Network, domain: Any, rounds: int) -> float:
    """Elapsed seconds of one thread, the best of some, while another process does the same."""
    context = multiprocessing.get_context("fork")
    begun, ended = context.Event(), context.Event()

    def repeat() -> None:
        begun.set()
        while not ended.is_set():
            verb(network, domain, n_jobs=1)

    other = context.Process(target=repeat, daemon=True)
    other.start()
    begun.wait()
    try:
        return min(run(verb, network, domain, 1)[1] for _ in range(rounds))
    finally:
        ended.set()
        other.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engines", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(
        "engine         verb                   cells   1 thread  2 threads  ratio  machine  load  by cpu time"
    )
    for name in options.engines:
        network, domain = CASES[name]()
        hm.count_cells(network, domain, max_cells=1000)
        for verb in (hm.count_cells, hm.enumerate_regions):
            one, two = [], []
            for _ in range(options.rounds):
                one.append(run(verb, network, domain, 1))
                two.append(run(verb, network, domain, 2))
            elapsed = [min(r[1] for r in runs) for runs in (one, two)]
            alone, shared = min(r[2] for r in one), min(r[3] for r in two)
            load = os.getloadavg()[0]
            ceiling = 2 * elapsed[0] / beside(verb, network, domain, options.rounds)
            print(
                f"{name:14} {verb.__name__:17} {one[0][0]:10,} {elapsed[0]:8.2f} s {elapsed[1]:8.2f} s "
                f"{elapsed[0] / elapsed[1]:6.2f} {ceiling:8.2f} {load:5.1f} {alone / shared:12.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
