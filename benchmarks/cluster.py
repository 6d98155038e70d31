"""What a cluster would do: tasks measured on two processes here, workers simulated from 16 to 4,096.

    python benchmarks/cluster.py measure deep-1e7                 a count on a Dask cluster of two processes
    python benchmarks/cluster.py simulate out/tasks-deep-1e7.json     workers, makespan, busy share, load

`measure` counts the cells of a network on a scheduler and two workers, processes of their own on this
machine, and writes down of every task the task it was cut from, its cells and its seconds in the machine, and
of every message the seconds outside of it and the bytes sent and returned. It also measures what a message
costs the scheduler and the client. Seconds are processor time: other work on this machine does not count.

`simulate` replays the tree of tasks. The client hands out the first tasks of the list that wait, in messages,
as `hardmax.regions.engine.workers` does; the client and the scheduler handle one message at a time; a worker
goes on with the pieces of its tasks while the message lasts, and what is left then waits in the list again.
Bigger counts are copies of the measured tree, side by side.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np

import hardmax as hm
from hardmax.regions import api
from hardmax.regions.engine import tasks, workers

FAR_WORKERS = workers.far_workers
MOST_TASKS = 5_000_000  # in a simulation; it takes about a gigabyte
NETWORKS = {  # name: widths, half the side of the square, in cells about
    "small": ([2, 1500, 1], 4.0),  # 9e5
    "line-1e7": ([2, 5000, 1], 4.0),
    "deep-1e7": ([2, 2300, 2300, 1], 8.0),
    "line-1e8": ([2, 15_500, 1], 4.0),
    "deep-1e8": ([2, 7300, 7300, 1], 8.0),
}


@dataclass(frozen=True)
class Measured:
    """The tasks of one count, in the order of the list; ``parents`` are places in it, -1 for the root."""

    name: str
    cells: list[int]
    parents: list[int]
    seconds: list[float]  # in the machine
    weights: list[float]  # about how many cells the subtree has, as tasks say
    notes: list[dict[str, Any]]  # of every message: bytes sent and returned, seconds, tasks left
    elapsed: float  # of the whole count
    scheduler: float  # processor seconds per message
    client: float

    @property
    def start(self) -> float:
        """Seconds until a worker is ready: it lays out the network and bounds its norms."""
        return max(note["start"] for note in self.notes)

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
    start: float = 0.0  # of a worker, before its first message
    deaths: float = 0.0
    back: float = 30.0

    def seconds(self, under_way: int) -> float:
        """How long a message keeps a worker busy, when so many are under way."""
        return self.message or workers.far_slice(under_way)


@dataclass(frozen=True)
class Tree:
    """Tasks in the order of the list: seconds, and the tasks that each is cut into. There are ``copies`` of
    what is listed, one after the other.

    The cost of a message was measured for ``usual`` tasks; each more takes ``bytes``.
    """

    seconds: np.ndarray
    children: list[list[int]]
    roots: list[int]
    weights: list[float] | None = None
    copies: int = 1
    bytes: float = 0.0
    usual: float = 1.0

    @classmethod
    def of(cls, measured: Measured, copies: int = 1) -> Tree:
        """Copies of a measured tree, one after the other in the list."""
        children: list[list[int]] = [[] for _ in measured.cells]
        roots = []
        for i, parent in enumerate(measured.parents):
            (roots if parent < 0 else children[parent]).append(i)
        notes = measured.notes
        inside, whole = (sum(note[what] for note in notes) for what in ("inside", "seconds"))
        sent, n_sent = (sum(note[what] for note in notes) for what in ("sent", "tasks"))
        seconds = np.array(measured.seconds) * max(whole / inside, 1.0)
        usual = n_sent / len(notes)
        return cls(seconds, children, roots, measured.weights, copies, sent / n_sent, usual)

    @property
    def work(self) -> float:
        """Seconds of all tasks."""
        return float(self.copies * self.seconds.sum())

    def pieces(self, task: int) -> list[int]:
        """The tasks into which one is cut."""
        copy, place = divmod(task, len(self.children))
        return [copy * len(self.children) + child for child in self.children[place]]


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

    >>> tree = Tree(np.ones(10), [[] for _ in range(10)], list(range(10)))
    >>> run = simulate(tree, Cluster(4, scheduler=0, client=0, latency=0, ahead=1, bundle=1, message=9.0))
    >>> run.makespan, run.busy
    (3.0, 0.8333333333333334)
    """
    random = np.random.default_rng(rng)
    n, left = len(tree.seconds), tree.seconds.tolist() * tree.copies
    weights = tree.weights or [1.0] * n
    waiting = [copy * n + root for copy in range(tree.copies) for root in tree.roots]
    weight_waiting = sum(weights[task % n] for task in waiting)
    heapq.heapify(waiting)
    events: list[tuple[float, int, str, Any]] = []
    queue: deque[tuple[list[int], float]] = deque()
    idle = fresh = cluster.workers
    under_way = serial = messages = most_waiting = 0
    client_free = scheduler_free = now = repeated = 0.0
    client_used = scheduler_used = 0.0

    def later(at: float, what: str, data: Any = None) -> None:
        nonlocal serial
        serial += 1
        heapq.heappush(events, (at, serial, what, data))

    def by_client(n_tasks: int) -> float:
        nonlocal client_free, client_used
        cost = 0.5 * cluster.client + max(n_tasks - tree.usual, 0.0) * tree.bytes / cluster.bandwidth
        client_free = max(client_free, now) + cost
        client_used += cost
        return client_free

    def by_scheduler() -> float:
        nonlocal scheduler_free, scheduler_used
        scheduler_free = max(scheduler_free, now) + 0.5 * cluster.scheduler
        scheduler_used += 0.5 * cluster.scheduler
        return scheduler_free

    def hand_out() -> None:
        nonlocal under_way, messages, weight_waiting
        while waiting and under_way < cluster.ahead * cluster.workers:
            enough, weight, chosen = workers.enough_weight(weight_waiting, cluster.workers), 0.0, []
            while waiting and len(chosen) < cluster.bundle and not weight >= enough:
                chosen.append(heapq.heappop(waiting))
                weight += weights[chosen[-1] % n]
            weight_waiting -= weight
            under_way += 1
            messages += 1
            later(by_client(len(chosen)), "to scheduler", (chosen, cluster.seconds(under_way)))

    def start() -> None:
        nonlocal idle, fresh
        while queue and idle:
            idle -= 1
            first = cluster.start if fresh else 0.0
            fresh = max(fresh - 1, 0)
            chosen, seconds = queue.popleft()
            spent, done, rest = 0.0, [], chosen[::-1]
            begin = seconds - workers.last_task(seconds)
            while rest and (spent < begin or not done):
                task = rest.pop()
                took = min(left[task], max(seconds - spent, 0.0))
                done.append((task, took))
                spent += took
                if took < left[task]:
                    rest.append(task)
                    break
                if not cluster.alone:
                    rest += tree.pieces(task)[::-1]
            death = random.exponential(1.0 / cluster.deaths) if cluster.deaths else np.inf
            if death < spent:
                later(now + death, "dead", ((chosen, seconds), death))
            else:
                later(now + first + spent, "worked", (done, rest))

    hand_out()
    while under_way:
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
            later(by_client(len(data[1])), "received", data)
        else:
            under_way -= 1
            done, rest = data
            for task, took in done:
                left[task] -= took
                if cluster.alone and left[task] <= 0.0:
                    rest += tree.pieces(task)
            for task in rest:
                heapq.heappush(waiting, task)
                weight_waiting += weights[task % n]
            most_waiting = max(most_waiting, len(waiting))
            hand_out()
        start()
    total = cluster.workers * now
    return Run(
        cluster.workers, now, tree.work / total if total else 1.0, messages,
        scheduler_used / now if now else 0.0, client_used / now if now else 0.0, repeated, most_waiting,
    )  # fmt: skip


# Measuring
# ----------------------------------------------------------------------------------------------------------


class Recorded(tasks.Schedule):
    """A schedule that notes every task that is joined: generation, cells, seconds, weight."""

    joined_tasks: ClassVar[list[tuple[int, int, float, float]]] = []

    def _join(self) -> None:
        before = list(self.tasks)
        super()._join()
        for task in before[: len(before) - len(self.tasks)]:
            self.joined_tasks.append((task.generation, task.tally.n_cells, task.seconds, task.weight))


class Counted:
    """Workers of which the bytes of every message and its answer are noted, and how long they had it."""

    def __init__(self, far: Any, notes: list[dict[str, Any]]) -> None:
        self._far, self._notes = far, notes
        self._note: dict[Any, dict[str, Any]] = {}
        self.lost = far.lost

    def send(self, messages: list[workers.Message]) -> list[Any]:
        futures = self._far.send(messages, timed)
        for message, future in zip(messages, futures, strict=True):
            note = {"sent": len(pickle.dumps(message, protocol=5)), "tasks": len(message.tasks)}
            self._notes.append(note)
            self._note[future] = note
        return futures

    def results(self, futures: list[Any]) -> list[Any]:
        return [
            self._noted(self._note.pop(future), result)
            for future, result in zip(futures, self._far.results(futures), strict=True)
        ]

    def _noted(self, note: dict[str, Any], result: Any) -> Any:
        if isinstance(result, BaseException):
            return result
        answer, seconds, note["start"] = result
        found = [task for tasks in answer.tasks or [] for task in tasks]
        note["returned"] = len(pickle.dumps(answer, protocol=5))
        note["seconds"], note["inside"] = seconds, sum(task.seconds for task in found)
        note["left"] = sum(task.state is not None for task in found)
        note["cut"] = len(found)
        return answer


def timed(message: workers.Message, question: Any) -> tuple[workers.Answer, float, float]:
    """What a worker does, and how much processor time it takes; before that, to lay out a new question."""
    begin = time.thread_time()
    if getattr(workers._here, "run", None) != message.run:
        workers.work(replace(message, tasks=[]), question)
    ready = time.thread_time()
    answer = workers.work(message, question)
    return answer, time.thread_time() - ready, ready - begin


def nothing(data: Any, question: Any) -> Any:
    """A task without work: what is left is the cost of a message."""
    return data


@contextmanager
def local_cluster(n_workers: int) -> Iterator[tuple[Any, int]]:
    """A client of a scheduler with workers of one thread, each a process; also the scheduler's process id."""
    from distributed import Client

    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": here, **workers._ONE_THREAD}
    with tempfile.TemporaryDirectory() as folder:
        where, log = Path(folder) / "scheduler.json", subprocess.DEVNULL

        def start(*arguments: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(where)]
            command += ["--host", "127.0.0.1", "--no-dashboard"]
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)

        started = [start("scheduler", "--port", "0")]
        try:
            while not where.exists():
                time.sleep(0.05)
            started += [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(n_workers)]
            with Client(scheduler_file=str(where)) as client:
                client.wait_for_workers(n_workers, timeout=120)
                yield client, started[0].pid
        finally:
            for process in reversed(started):
                process.kill()
                process.wait()


def message_cost(client: Any, scheduler: int, size: int, n: int = 1000) -> tuple[float, float]:
    """Processor seconds of the scheduler and of the client per message of this size, on the way that
    :mod:`hardmax.regions.engine.workers` goes, with as many under way as a bundle holds."""
    import psutil

    def used() -> tuple[float, float]:
        return tuple(sum(psutil.Process(pid).cpu_times()[:2]) for pid in (scheduler, os.getpid()))

    far, answers = workers.DaskWorkers(client, {}), SimpleQueue()

    def send(count: int) -> None:
        for future in far.send([np.zeros(max(size // 8, 1)) for _ in range(count)], nothing):
            future.add_done_callback(answers.put)

    letter = max(1, min(workers.LETTER, workers.LETTER_BYTES // size))

    def exchange(messages: int) -> None:
        send(letter)
        handed, back = letter, 0
        while back < messages:
            done = workers._waiting(answers, letter)
            far.results(done)
            back += len(done)
            count = min(len(done), messages - handed)
            handed += count
            if count:
                send(count)

    exchange(50)
    before = used()
    exchange(n)
    after = used()
    return (after[0] - before[0]) / n, (after[1] - before[1]) / n


def measure(name: str) -> Measured:
    """Count the cells of a network on a local cluster of two processes."""
    import joblib

    widths, half = NETWORKS[name]
    network, domain = hm.Network.random_mlp(widths, 0), hm.Box.cube(2, -half, half)
    hm.count_cells(network, domain, max_cells=1000)  # compiles
    notes: list[dict[str, Any]] = []

    workers.far_workers = lambda *arguments: Counted(FAR_WORKERS(*arguments), notes)
    api.Schedule = Recorded  # type: ignore[misc]
    Recorded.joined_tasks.clear()
    with local_cluster(2) as (client, scheduler):
        with joblib.parallel_config(backend="dask", client=client):
            hm.count_cells(
                hm.Network.random_mlp([2, 600, 1], 0), hm.Box.cube(2, -4, 4)
            )  # workers load kernels
            Recorded.joined_tasks.clear()
            notes.clear()
            begin = time.perf_counter()
            count = hm.count_cells(network, domain)
            elapsed = time.perf_counter() - begin
        mean = int(np.mean([note["sent"] + note["returned"] for note in notes]) / 2)
        costs = message_cost(client, scheduler, mean)
    print(f"{count!r} in {elapsed:.1f} s, load {os.getloadavg()[0]:.1f}")
    generations, cells, seconds, weights = zip(*Recorded.joined_tasks, strict=True)
    parents, latest = [], {-1: -1}
    for i, generation in enumerate(generations):
        parents.append(latest[generation - 1])
        latest[generation] = i
    return Measured(name, list(cells), parents, list(seconds), list(weights), notes, elapsed, *costs)


def describe(measured: Measured) -> None:
    """Print what was measured."""
    notes, seconds = measured.notes, np.array(measured.seconds)
    cells = np.array(measured.cells)
    worker = sum(note["seconds"] for note in notes)
    inside = sum(note["inside"] for note in notes)
    print(f"{measured.name}: {measured.n_cells:,} cells, {len(cells):,} tasks, {len(notes):,} messages")
    for what, values in (("cells of a task", cells), ("milliseconds of a task", 1e3 * seconds)):
        marks = np.quantile(values, [0.1, 0.5, 0.9, 0.99, 1.0])
        print(f"  {what:24} 10 %, 50 %, 90 %, 99 %, most: " + ", ".join(f"{v:,.3g}" for v in marks))
    print(f"  {1e6 * seconds.sum() / cells.sum():.2f} us per cell in the machine")
    print(
        f"  workers: {worker:.2f} s in messages, {inside:.2f} s in the machine, "
        f"{1 - inside / worker:.2%} outside"
    )
    for what in ("sent", "returned"):
        size = [note[what] for note in notes]
        print(
            f"  bytes {what}: {np.mean(size):,.0f} per message, {max(size):,} at most, {sum(size):,} in all"
        )
    print(f"  a worker is ready after {measured.start:.2f} s")
    print(
        f"  a message costs the scheduler {1e3 * measured.scheduler:.2f} ms, "
        f"the client {1e3 * measured.client:.2f} ms"
    )


def table(measured: Measured, copies: int, sizes: list[int], **options: Any) -> None:
    """Print what clusters of these sizes would do."""
    tree, cells = Tree.of(measured, copies), measured.n_cells * copies
    print(f"{measured.name} x {copies}: {cells:.3g} cells, {tree.work:,.0f} s of work, {options or ''}")
    print("  workers  makespan s   busy  messages  scheduler  client  repeated s  waiting tasks")
    for n in sizes:
        run = simulate(tree, cluster_of(measured, n, **options))
        print(
            f"  {n:7,} {run.makespan:11.1f} {run.busy:6.1%} {run.messages:9,} {run.scheduler_load:10.0%} "
            f"{run.client_load:7.0%} {run.repeated:11.0f} {run.waiting:14,}",
            flush=True,
        )


def cluster_of(measured: Measured, n: int, **options: Any) -> Cluster:
    """So many workers at the costs that were measured."""
    costs = {"scheduler": measured.scheduler, "client": measured.client, "start": measured.start}
    return Cluster(n, **costs | options)


def smallest(measured: Measured, n: int, busy: float = 0.85) -> int | None:
    """Copies of the tree from which so many workers are busy for this share of the time, within a tenth;
    ``None``: more tasks than are simulated."""

    def enough(copies: int) -> bool:
        return simulate(Tree.of(measured, copies), cluster_of(measured, n)).busy >= busy

    low = max(1, int(4 * n / Tree.of(measured).work))  # four seconds of work for each are mostly too little
    while low > 1 and enough(low):
        low //= 2
    high = 2 * low
    while not enough(high):
        low, high = high, 2 * high
        if high * len(measured.cells) > MOST_TASKS:
            return None
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "simulate"])
    parser.add_argument("names", nargs="+", help=f"measure: {', '.join(NETWORKS)}; simulate: files")
    parser.add_argument("--folder", type=Path, default=Path("out"))
    parser.add_argument("--cells", type=float, nargs="+", default=[1e9, 1e10])
    options = parser.parse_args()
    for name in options.names:
        if options.what == "measure":
            measured = measure(name)
            describe(measured)
            options.folder.mkdir(parents=True, exist_ok=True)
            (options.folder / f"tasks-{name}.json").write_text(json.dumps(asdict(measured)))
            continue
        measured = Measured(**json.loads(Path(name).read_text()))
        describe(measured)
        here = simulate(Tree.of(measured), cluster_of(measured, 2))
        print(f"  two workers: {measured.elapsed:.1f} s measured, {here.makespan:.1f} s simulated")
        sizes = [16, 64, 256, 1000, 4096]
        for cells in options.cells:
            copies = max(1, round(cells / measured.n_cells))
            table(measured, copies, sizes)
            table(measured, copies, [1000], deaths=1 / 3600)
            table(measured, copies, [1000], alone=True, bundle=8, message=1.0)
        print("  workers are 85 % busy from cells   processor hours   seconds per worker")
        for n in sizes:
            copies = smallest(measured, n)
            if copies is None:
                print(f"  {n:7,} more than {MOST_TASKS * measured.n_cells / len(measured.cells) / 2:10.2g}")
                continue
            work = Tree.of(measured, copies).work
            found = f"{copies * measured.n_cells:20.2g} {work / 3600:17.2g} {work / n:20.1f}"
            print(f"  {n:7,} {found}", flush=True)


if __name__ == "__main__":
    main()
