"""What a cluster would do: tasks measured on two processes here, workers simulated from 16 to 4,096.

    python benchmarks/cluster.py measure deep --out deep.json     a count on a Dask cluster of two processes
    python benchmarks/cluster.py simulate deep.json ...           workers, makespan, idle share, load

`measure` counts the cells of a network on a scheduler and two workers, processes of their own on this machine, and
writes one line per task: the task it was cut from, cells, seconds in the machine, seconds outside of it, bytes
sent and returned. It also measures what a message costs the scheduler and the client.

`simulate` replays the tree of tasks. The client hands out the first tasks of the list that wait, in messages, as
`hardmax.regions.engine.workers` does; the client and the scheduler handle one message at a time; a task is
cut when its answer arrives, and only then do its pieces wait. Bigger counts are copies of the tree that was
measured, side by side: the longest tasks of a bigger tree are no longer than those, only more of them are long.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.regions import api
from hardmax.regions.engine import tasks, workers

NETWORKS = {  # name: widths, half the side of the square, in cells about
    "small": ([2, 1500, 1], 4.0),  # 9e5
    "line-1e7": ([2, 5000, 1], 4.0),
    "deep-1e7": ([2, 1100, 1100, 1], 8.0),
    "line-1e8": ([2, 15_500, 1], 4.0),
    "deep-1e8": ([2, 3600, 3600, 1], 8.0),
}


@dataclass(frozen=True)
class Measured:
    """The tasks of one count, in the order of the list; ``parents`` are places in it, -1 for the root."""

    name: str
    cells: list[int]
    parents: list[int]
    seconds: list[float]  # in the machine
    outside: list[float]  # of the worker: restoring and copying states
    sent: list[int]  # bytes
    returned: list[int]
    elapsed: float  # of the whole count
    messages: int
    scheduler: float  # processor seconds per message
    client: float

    @property
    def n_cells(self) -> int:
        """Cells of the whole count."""
        return sum(self.cells)


# The simulator
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """Workers and what messages cost; seconds.

    ``deaths`` is the rate at which one worker dies, ``back`` how long it takes until another replaces it.
    """

    workers: int
    scheduler: float = 1.0e-3
    client: float = 1.0e-3
    latency: float = 1.0e-3
    bandwidth: float = 1.0e9  # bytes per second through the client
    ahead: int = workers.AHEAD
    bundle: int = workers.BUNDLE
    alone: bool = False  # whether a worker gives the pieces of its tasks back instead of going on with them
    message: float = 0.0  # seconds of a message; 0: what workers.py takes
    deaths: float = 0.0
    back: float = 30.0

    def seconds(self, under_way: int) -> float:
        """How long a message keeps a worker busy, when so many are under way."""
        return self.message or workers.far_slice(under_way)


@dataclass(frozen=True)
class Tree:
    """Tasks in the order of the list: seconds, bytes, and the tasks that each is cut into."""

    seconds: np.ndarray
    bytes: np.ndarray
    children: list[list[int]]
    roots: list[int]

    @classmethod
    def of(cls, measured: Measured, copies: int = 1) -> Tree:
        """Copies of a measured tree, one after the other in the list."""
        n = len(measured.cells)
        children: list[list[int]] = [[] for _ in range(n * copies)]
        roots = []
        for copy in range(copies):
            for i, parent in enumerate(measured.parents):
                (roots if parent < 0 else children[copy * n + parent]).append(copy * n + i)
        seconds = np.tile(np.add(measured.seconds, measured.outside), copies)
        size = np.tile(np.add(measured.sent, measured.returned), copies)
        return cls(seconds, size, children, roots)


@dataclass
class Run:
    """What a simulation found."""

    workers: int
    makespan: float
    busy: float  # share of the workers' time
    messages: int
    scheduler_load: float
    client_load: float
    repeated: float  # seconds of work that dead workers lost
    waiting: int  # tasks in the list, at most


def simulate(tree: Tree, cluster: Cluster, rng: int = 0) -> Run:
    """Process every task on simulated workers.

    Equal tasks without costs take ceil(n / workers) times as long as one:

    >>> tree = Tree(np.ones(10), np.zeros(10), [[] for _ in range(10)], list(range(10)))
    >>> run = simulate(tree, Cluster(4, scheduler=0, client=0, latency=0, ahead=1, bundle=1, message=9.0))
    >>> run.makespan, run.busy
    (3.0, 0.8333333333333334)
    """
    random = np.random.default_rng(rng)
    left = tree.seconds.tolist()
    waiting = list(tree.roots)
    heapq.heapify(waiting)
    events: list[tuple[float, int, str, Any]] = []
    queue: deque[tuple[list[int], float]] = deque()
    idle = cluster.workers
    under_way = serial = messages = most_waiting = 0
    client_free = scheduler_free = now = repeated = 0.0
    client_used = scheduler_used = 0.0

    def later(at: float, what: str, data: Any = None) -> None:
        nonlocal serial
        serial += 1
        heapq.heappush(events, (at, serial, what, data))

    def by_client(chosen: list[int]) -> float:
        nonlocal client_free, client_used
        cost = 0.5 * cluster.client + sum(tree.bytes[task] for task in chosen) / cluster.bandwidth
        client_free = max(client_free, now) + cost
        client_used += cost
        return client_free

    def by_scheduler() -> float:
        nonlocal scheduler_free, scheduler_used
        scheduler_free = max(scheduler_free, now) + 0.5 * cluster.scheduler
        scheduler_used += 0.5 * cluster.scheduler
        return scheduler_free

    def hand_out() -> None:
        nonlocal under_way, messages
        while waiting and under_way < cluster.ahead * cluster.workers:
            size = max(1, min(cluster.bundle, len(waiting) // (2 * cluster.workers)))
            chosen = [heapq.heappop(waiting) for _ in range(min(size, len(waiting)))]
            under_way += 1
            messages += 1
            later(by_client(chosen), "to scheduler", (chosen, cluster.seconds(under_way)))

    def start() -> None:
        nonlocal idle
        while queue and idle:
            idle -= 1
            chosen, seconds = queue.popleft()
            spent, done, rest = 0.0, [], chosen[::-1]
            while rest and (spent < seconds or not done):
                task = rest.pop()
                took = min(left[task], max(seconds - spent, 0.0))
                done.append((task, took))
                spent += took
                if took < left[task]:
                    rest.append(task)
                    break
                if not cluster.alone:
                    rest += tree.children[task][::-1]
            death = random.exponential(1.0 / cluster.deaths) if cluster.deaths else np.inf
            if death < spent:
                later(now + death, "dead", ((chosen, seconds), death))
            else:
                later(now + spent, "worked", (done, rest))

    hand_out()
    while events:
        now, _, what, data = heapq.heappop(events)
        if what == "to scheduler":
            later(by_scheduler() + cluster.latency, "queued", data)
        elif what == "queued":
            queue.append(data)
        elif what == "worked":
            idle += 1
            later(now + cluster.latency, "at scheduler", data)
        elif what == "dead":
            message, spent = data
            repeated += spent
            queue.appendleft(message)
            later(now + cluster.back, "back")
        elif what == "back":
            idle += 1
        elif what == "at scheduler":
            later(by_scheduler(), "at client", data)
        elif what == "at client":
            later(by_client(data[1]), "received", data)
        else:
            under_way -= 1
            done, rest = data
            for task, took in done:
                left[task] -= took
                if cluster.alone and left[task] <= 0.0:
                    rest += tree.children[task]
            for task in rest:
                heapq.heappush(waiting, task)
            most_waiting = max(most_waiting, len(waiting))
            hand_out()
        start()
    total = cluster.workers * now
    return Run(
        cluster.workers, now, float(tree.seconds.sum()) / total if total else 1.0, messages,
        scheduler_used / now if now else 0.0, client_used / now if now else 0.0, repeated, most_waiting,
    )  # fmt: skip
