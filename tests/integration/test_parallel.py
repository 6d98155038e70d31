"""Many cores and clusters: the same result for every number of workers, whatever happens to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest
from oracles.random_networks import instance
from oracles.random_space import space_instance

import hardmax as hm
from hardmax.errors import FileFormatError, InvalidInputError, UnsupportedDimensionError
from hardmax.networks import sawtooth_network
from hardmax.networks.layers import layers_of
from hardmax.regions.cells import Cells, JoinedTables, Ragged
from hardmax.regions.engine import program, tasks
from hardmax.regions.engine import workers as running
from hardmax.regions.engine.question import Question, engine_for
from hardmax.regions.engine.tasks import Schedule
from hardmax.regions.maps.adjacency import adjacent_cells
from hardmax.regions.maps.merging import Fingerprints, repeated
from hardmax.regions.plane.geometry import planar
from hardmax.regions.plane.machine import PlaneMachine

SQUARE = hm.Box.cube(2, -4, 4)
LINES = hm.Network.random_mlp([2, 600, 1], 0)  # 150,000 cells in the square
DEEP = hm.Network.random(2, n_tokens=20, heads=2, depth=3, d_ff=24, rng=1)
INSTANCES = range(0, 160, 3)


@pytest.fixture
def many_tasks(monkeypatch):
    """Small problems are cut into many tasks."""
    monkeypatch.setattr(tasks, "HEAD", 5)
    monkeypatch.setattr(tasks, "FIRST", 3)
    monkeypatch.setattr(tasks, "QUOTA", 7)
    monkeypatch.setattr(tasks, "WINDOW", 4)
    monkeypatch.setattr(tasks, "ENOUGH", 6)
    monkeypatch.setattr(tasks, "PIECES", 3)


def arrays_of(cells):
    found = {}
    for name, column in cells.table.items():
        parts = vars(column) if isinstance(column, Ragged) else {"": column}
        found |= {f"{name}.{part}": array for part, array in parts.items()}
    return found


def same_cells(one, other) -> bool:
    """Whether all arrays agree bit by bit, the numbers of layer cells included."""
    first, second = arrays_of(one), arrays_of(other)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def alike(one, other) -> bool:
    """The same but for the last bits of places: the map of a cell depends on the cells before it."""
    first, second = arrays_of(one), arrays_of(other)
    places = {name for name in first if first[name].dtype == np.float64}
    exact = all(np.array_equal(first[name], second[name]) for name in first.keys() - places)
    return (
        first.keys() == second.keys()
        and exact
        and all(np.allclose(first[name], second[name], rtol=1e-6, atol=1e-9) for name in places)
    )


def one_machine(network, domain, arithmetic="certified"):
    """The unsplit machine, worked off alone."""
    layers, plane = planar(layers_of(network), domain)
    machine = PlaneMachine(layers, plane, arithmetic=arithmetic, store=True, sliver=1e-9)
    while not machine.done:
        machine.advance(10_000)
    return machine


def numbers(count) -> tuple:
    """What is counted, but for how signs were decided: that depends on what a machine has met before."""
    how = ("provenance", "n_zero", "n_double_double", "n_rational")
    return tuple(count.to_dict()[name] for name in count.to_dict() if name not in how)


# The same for every number of workers -------------------------------------------------------------


@pytest.mark.parametrize("number", INSTANCES)
def test_tasks_give_what_one_machine_gives(many_tasks, number):
    case = instance(number)
    machine = one_machine(case.network, case.domain)
    tally, cells, coverage = machine.tally, machine.cells(), machine.coverage
    found = [hm.enumerate_regions(case.network, case.domain, n_jobs=jobs) for jobs in (1, 2)]
    counts = [hm.count_cells(case.network, case.domain, n_jobs=jobs) for jobs in (1, 3)]
    for result in found:
        assert result.complete
        assert alike(result.cells, cells)
    assert same_cells(found[0].cells, found[1].cells)
    assert numbers(counts[0]) == numbers(counts[1])
    assert (counts[0].n_cells, counts[0].n_slivers, counts[0].n_unbounded) == (
        tally.n_cells,
        tally.n_slivers,
        tally.n_unbounded,
    )
    assert found[0].coverage == found[1].coverage == counts[0].coverage
    if coverage is not None:
        assert abs(coverage - counts[0].coverage) < 1e-12


def test_every_number_of_workers_gives_the_same_bits():
    machine = one_machine(LINES, SQUARE)
    counts = [hm.count_cells(LINES, SQUARE, n_jobs=jobs) for jobs in (None, 1, 2, 3, -1)]
    assert counts[0].n_cells == machine.n_cells == cells_of_lines(600)
    assert all(numbers(count) == numbers(counts[0]) for count in counts)
    found = [hm.enumerate_regions(LINES, SQUARE, n_jobs=jobs) for jobs in (1, 2, 3, -1)]
    assert all(same_cells(result.cells, found[0].cells) for result in found)
    assert all(result.coverage == found[0].coverage for result in found)
    assert same_cells(found[0].cells, machine.cells())


@pytest.mark.parametrize("most", [1, 5, 6, 40, 41, 333])
def test_a_limit_on_cells_gives_the_first_ones(many_tasks, most):
    found = [hm.enumerate_regions(DEEP, SQUARE, n_jobs=jobs, max_cells=most) for jobs in (1, 2, 3)]
    whole = one_machine(DEEP, SQUARE).cells()
    first = whole.select(np.arange(whole.n) < most)
    counts = [hm.count_cells(DEEP, SQUARE, n_jobs=jobs, max_cells=most) for jobs in (1, 2, 3)]
    for result, count in zip(found, counts, strict=True):
        assert (result.n_cells, result.complete, count.complete) == (most, False, False)
        assert same_cells(result.cells, found[0].cells)
        assert alike(result.cells, first)
        assert numbers(count) == numbers(counts[0])
        assert result.coverage == count.coverage


def test_exact_arithmetic_is_split_too(many_tasks):
    network = instance(8).network
    one, other = (hm.enumerate_regions(network, SQUARE, arithmetic="exact", n_jobs=j) for j in (1, 2))
    assert same_cells(one.cells, other.cells)
    assert alike(one.cells, one_machine(network, SQUARE, "exact").cells())


def test_joblib_says_how_many(monkeypatch):
    asked = []
    monkeypatch.setattr(running, "_in_threads", lambda *args: asked.append(args[-1]))
    for options, n_jobs, jobs in [
        ({"n_jobs": 3}, None, 3),
        ({"backend": "threading", "n_jobs": 2}, None, 2),
        ({"n_jobs": 3}, 2, 2),
        ({}, 4, 4),
    ]:
        with joblib.parallel_config(**options):
            hm.count_cells(LINES, SQUARE, n_jobs=n_jobs)
        assert asked.pop() == jobs
    hm.count_cells(LINES, SQUARE)
    with joblib.parallel_config(n_jobs=5):
        hm.count_cells(LINES, SQUARE, n_jobs=1)
    assert asked == []
    with joblib.parallel_config(n_jobs=5):
        hm.count_cells(DEEP, SQUARE)  # over before anybody else could help
    assert asked == []


def test_layer_cells_are_numbered_as_by_one_machine(many_tasks):
    """Tasks use numbers of their own; joined, the contacts are those of the unsplit machine."""
    machine = one_machine(DEEP, SQUARE)
    found = hm.enumerate_regions(DEEP, SQUARE, n_jobs=2)
    assert int(found.cells.owner.max()) < machine.tally.serials + 1
    contacts = adjacent_cells(machine.cells(), machine.layers, machine.exact_maps)
    assert np.array_equal(contacts.pairs, found.adjacency)


# Limits, progress, interrupts -----------------------------------------------------------------------


def test_progress_comes_from_the_main_thread():
    told = []

    def progress(state):
        told.append((threading.current_thread(), state))

    count = hm.count_cells(LINES, SQUARE, n_jobs=2, progress=progress)
    assert {thread for thread, _ in told} == {threading.main_thread()}
    states = [state for _, state in told]
    assert states[-1].n_cells == count.n_cells
    assert abs(states[-1].share - 1) < 1e-9
    assert all(a.n_cells <= b.n_cells and a.seconds <= b.seconds for a, b in pairwise(states))


def test_a_time_limit_stops_threads_and_leaves_a_checkpoint(tmp_path):
    network, path, rounds = hm.Network.random_mlp([2, 1500, 1], 0), tmp_path / "count.npz", 0
    while rounds < 200:
        count = hm.count_cells(network, SQUARE, time_limit=0.15, n_jobs=1 + rounds % 3, checkpoint=path)
        rounds += 1
        if count.complete:
            break
        assert path.stat().st_size < 3e6
    assert rounds > 1
    assert numbers(count) == numbers(hm.count_cells(network, SQUARE, n_jobs=2))
    assert not path.exists()


def test_an_interrupt_among_threads_loses_nothing(tmp_path):
    path = tmp_path / "half.npz"

    def interrupt(progress):
        if progress.n_cells > 60_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hm.enumerate_regions(LINES, SQUARE, checkpoint=path, progress=interrupt, n_jobs=2)
    assert threading.active_count() == 1 or all("loop" not in t.name for t in threading.enumerate())
    resumed = hm.enumerate_regions(LINES, SQUARE, checkpoint=path, n_jobs=3)
    straight = hm.enumerate_regions(LINES, SQUARE)
    assert same_cells(resumed.cells, straight.cells)
    assert resumed.coverage == straight.coverage


def test_an_error_in_a_thread_is_raised_here(monkeypatch):
    begun = running.Worker.work

    def fail(self, state, limit, seconds):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("out of order")
        return begun(self, state, limit, seconds)

    monkeypatch.setattr(running.Worker, "work", fail)
    with pytest.raises(RuntimeError, match="out of order"):
        hm.count_cells(LINES, SQUARE, n_jobs=2)


def test_a_limit_holds_where_others_were_faster(many_tasks, monkeypatch, tmp_path):
    """Every task is done before anybody knows that the last ones are not wanted."""
    path, whole = tmp_path / "run.npz", hm.enumerate_regions(DEEP, SQUARE)
    most = whole.n_cells - 5
    with monkeypatch.context() as eager:
        eager.setattr(Schedule, "next", Schedule._next_found)
        eager.setattr(Schedule, "limit", lambda self, task: task.quota)
        part = hm.enumerate_regions(DEEP, SQUARE, max_cells=most, checkpoint=path, n_jobs=1)
    assert (part.complete, part.n_cells) == (False, most)
    assert same_cells(part.cells, whole.cells.select(np.arange(whole.n_cells) < most))
    assert same_cells(hm.enumerate_regions(DEEP, SQUARE, checkpoint=path).cells, whole.cells)


# Checkpoints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [SQUARE, hm.WholeSpace(2)], ids=["square", "plane"])
def test_stopped_at_every_turn_with_other_workers(many_tasks, monkeypatch, tmp_path, domain):
    """Parts of a few cells, another number of workers each time: the result is the straight one."""
    monkeypatch.setattr(tasks, "_PART", 2_000)
    network, path = DEEP, tmp_path / "run.npz"
    straight = hm.enumerate_regions(network, domain)
    steps = list(range(1, straight.n_cells, max(1, straight.n_cells // 12)))
    for turn, most in enumerate(steps):
        jobs = 1 + turn % 3
        part = hm.enumerate_regions(network, domain, max_cells=most, checkpoint=path, n_jobs=jobs)
        assert not part.complete
        assert part.n_cells == most
        assert same_cells(part.cells, straight.cells.select(np.arange(straight.n_cells) < most))
    assert len(list(tmp_path.glob("run.part-*.npz"))) > 1
    resumed = hm.enumerate_regions(network, domain, checkpoint=path)
    assert same_cells(resumed.cells, straight.cells)
    assert (resumed.complete, resumed.coverage) == (True, straight.coverage)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_gone_or_foreign_is_refused(many_tasks, monkeypatch, tmp_path):
    monkeypatch.setattr(tasks, "_PART", 2_000)
    path, other = tmp_path / "run.npz", tmp_path / "other.npz"
    for name, network in ((path, DEEP), (other, DEEP.truncate(4))):
        hm.enumerate_regions(network, SQUARE, max_cells=60, checkpoint=name)
    part = tmp_path / "run.part-1.npz"
    data = part.read_bytes()
    part.write_bytes((tmp_path / "other.part-1.npz").read_bytes())
    with pytest.raises(FileFormatError, match=r"run\.part-1\.npz must be the checkpoint of this"):
        hm.enumerate_regions(DEEP, SQUARE, checkpoint=path)
    part.unlink()
    with pytest.raises(FileFormatError, match=r"part run\.part-1\.npz, which is missing"):
        hm.enumerate_regions(DEEP, SQUARE, checkpoint=path)
    part.write_bytes(data)
    assert alike(hm.enumerate_regions(DEEP, SQUARE, checkpoint=path).cells, one_machine(DEEP, SQUARE).cells())


def cells_of_lines(n: int) -> int:
    """Cells into which the units of random_mlp([2, n, 1], 0) cut the square: one more with each line that
    meets it, and with each crossing inside."""
    block = hm.Network.random_mlp([2, n, 1], 0).blocks[0]
    a, b, c = *block.w_in.floats.T, block.b_in.floats
    values = [a * x + b * y + c for x in (-4, 4) for y in (-4, 4)]
    meets = (np.min(values, axis=0) < 0) & (np.max(values, axis=0) > 0)
    i, j = np.triu_indices(n, 1)
    w = a[i] * b[j] - a[j] * b[i]
    x, y = (b[i] * c[j] - b[j] * c[i]) / w, (c[i] * a[j] - c[j] * a[i]) / w
    return 1 + int(meets.sum()) + int(((abs(x) < 4) & (abs(y) < 4)).sum())


KILLED = """
import os, signal, sys
import hardmax as hm
from hardmax.regions.engine import tasks
jobs, what = int(sys.argv[1]), getattr(hm, sys.argv[2])
save = tasks.Checkpoint.save

def save_and_die(self, schedule):
    save(self, schedule)
    os.kill(os.getpid(), signal.SIGKILL)

if jobs == 2:
    tasks._EVERY = 0.0
    tasks.Checkpoint.save = save_and_die
found = what(hm.Network.random_mlp([2, 1000, 1], 0), hm.Box.cube(2, -4, 4), n_jobs=jobs, checkpoint="run.npz")
print(found.n_cells, found.complete, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")
@pytest.mark.parametrize("what", ["count_cells", "enumerate_regions"])
def test_a_killed_process_is_resumed(tmp_path, what):
    """Killed right after its first checkpoint, two threads at work: a second process ends the run."""

    def run(jobs):
        command = [sys.executable, "-c", KILLED, str(jobs), what]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=240
        )

    assert run(2).returncode == -signal.SIGKILL
    assert (tmp_path / "run.npz").exists()
    assert run(1).stdout.split() == [str(cells_of_lines(1000)), "True"]
    assert list(tmp_path.iterdir()) == []


def environment() -> dict[str, str]:
    """Processes that are started find the same hardmax."""
    source = str(Path(hm.__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize("number", [5 + 26 * 5, 26 * 5 + 1, 26 * 5])
def test_a_machine_goes_on_from_the_state_after_any_step(number):
    """Polygons with more sides than a mask has bits: what was just decided is part of the state."""
    case = instance(number)
    assert case.place == "many sides"
    layers, plane = planar(layers_of(case.network), case.domain)
    straight = one_machine(case.network, case.domain)
    options = {"arithmetic": "certified", "store": True, "sliver": 1e-9}
    machine = PlaneMachine(layers, plane, **options)
    other = PlaneMachine(layers, plane, **options)
    for _ in range(400):
        machine.advance(1)
        other.restore({name: array.copy() for name, array in machine.state().items()})
        machine, other = other, machine
        if machine.done:
            break
    while not machine.done:
        machine.advance(1000)
    assert same_cells(machine.cells(), straight.cells())


# Clusters ---------------------------------------------------------------------------------------------


class Flaky:
    """Processes that die after a few messages."""

    calls = 0
    lasts = 3

    def __init__(self, question):
        Flaky.calls += 1
        self.question, self.call, self.messages = question, Flaky.calls, 0

    def send(self, messages):
        return [self.submitted(message) for message in messages]

    def submitted(self, message):
        future, self.messages = Future(), self.messages + 1
        if self.messages > self.lasts and self.call <= 4:
            future.set_exception(ConnectionError("a worker is gone"))
        else:
            future.set_result(running.work(message, self.question))
        return future

    results = running.Processes.results

    def lost(self):
        pass


@pytest.fixture
def flaky(monkeypatch):
    Flaky.calls = 0
    monkeypatch.setattr(running, "far_workers", lambda backend, jobs, question: Flaky(question))
    monkeypatch.setattr(running, "_jobs", lambda n_jobs: (2, "cluster"))


def test_tasks_of_workers_that_died_are_run_again(flaky, monkeypatch):
    monkeypatch.setattr(running, "BUNDLE", 1)
    monkeypatch.setattr(running, "far_slice", lambda under_way: 0.01)  # many messages
    straight = one_machine(LINES, SQUARE)
    found = hm.enumerate_regions(LINES, SQUARE)
    assert Flaky.calls >= 5
    assert same_cells(found.cells, straight.cells())


@pytest.mark.parametrize("number", INSTANCES[::4])
def test_workers_cut_the_tasks_that_the_list_would_cut(many_tasks, monkeypatch, flaky, number):
    """A worker goes on with the pieces of its task: the same cells and the same tasks, in the same order."""
    case = instance(number)
    seen: dict[str, list] = {}
    join = Schedule._join

    def note(self):
        # how signs were decided depends on what a machine has met before
        before = [(task.generation, replace(task.tally, n_zero=0, n_double_double=0)) for task in self.tasks]
        join(self)
        seen.setdefault(name, []).extend(before[: len(before) - len(self.tasks)])

    monkeypatch.setattr(Schedule, "_join", note)
    name = "far"
    far = hm.enumerate_regions(case.network, case.domain)
    monkeypatch.setattr(running, "_NUMBERS", 0)
    name = "far, cut here"
    assert same_cells(hm.enumerate_regions(case.network, case.domain).cells, far.cells)
    monkeypatch.setattr(running, "_jobs", lambda n_jobs: (n_jobs or 1, None))
    for jobs in (1, 3):
        name = f"{jobs} here"
        here = hm.enumerate_regions(case.network, case.domain, n_jobs=jobs)
        assert same_cells(far.cells, here.cells)
        assert far.coverage == here.coverage
    assert all(tasks == seen["1 here"] for tasks in seen.values())


def test_a_count_from_a_cluster_is_resumed_with_a_limit(many_tasks, flaky, monkeypatch, tmp_path):
    path, whole = tmp_path / "run.npz", hm.count_cells(DEEP, SQUARE)

    def interrupt(progress):
        if progress.n_cells > whole.n_cells // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hm.count_cells(DEEP, SQUARE, checkpoint=path, progress=interrupt)
    for most in (whole.n_cells // 3, whole.n_cells - 5):
        straight = hm.count_cells(DEEP, SQUARE, max_cells=most, n_jobs=1)
        part = hm.count_cells(DEEP, SQUARE, max_cells=most, checkpoint=path)
        assert numbers(part)[:2] == numbers(straight)[:2]
        assert part.cells_by_depth == straight.cells_by_depth
    assert numbers(hm.count_cells(DEEP, SQUARE, checkpoint=path)) == numbers(whole)


def test_a_cluster_that_never_answers_is_given_up(flaky, monkeypatch, tmp_path):
    monkeypatch.setattr(Flaky, "lasts", 0)
    path = tmp_path / "count.npz"
    with pytest.raises(ConnectionError):
        hm.count_cells(LINES, SQUARE, checkpoint=path)
    monkeypatch.undo()
    assert hm.count_cells(LINES, SQUARE, checkpoint=path).n_cells == hm.count_cells(LINES, SQUARE).n_cells


def test_a_worker_asks_for_the_question_it_does_not_know():
    question = Question(LINES, SQUARE, "certified", 1e-9, "nothing")
    schedule = Schedule(question.machine())
    task = schedule.next()

    def message(run):
        return running.Message(run, [(replace(task, begin=None), 1000)], range(0), 1.0)

    assert running.work(message("a run"), None).tasks is None
    [[found]] = running.work(message("a run"), question.message()).tasks
    assert found.tally.n_cells == 1000
    [[again]] = running.work(message("a run"), None).tasks
    assert again.tally == found.tally
    assert running.work(message("another run"), None).tasks is None


@pytest.mark.parametrize("number", range(0, 40, 7))
def test_a_question_survives_its_message(number):
    case = instance(number)
    question = Question(case.network, case.domain, "certified", 1e-9, "cells")
    again = Question.of_message(question.message())
    assert again.digest == question.digest


def test_a_worker_does_not_compute_norms_again(monkeypatch):
    question = Question(DEEP, SQUARE, "certified", 1e-9, "nothing")
    here = question.machine()  # it keeps the program that has the norms
    message = question.message()
    assert here.program.norms.keys() == message["norms"].keys()

    def again(matrix):
        raise AssertionError

    monkeypatch.setattr(program, "spectral_bound", again)
    machine = Question.of_message(message).machine()
    machine.advance(100)
    assert machine.n_cells > 0
    with pytest.raises(AssertionError):
        Question.of_message({**message, "norms": {}}).machine()


def test_pieces_travel_without_the_maps_they_do_not_need():
    """Those that wait in the first layer have no map at all; together they find what was left."""
    machine = Question(DEEP, SQUARE, "certified", 1e-9, "nothing").machine()
    whole = hm.count_cells(DEEP, SQUARE).n_cells
    machine.advance(200)
    state, found = {name: array.copy() for name, array in machine.state().items()}, machine.n_cells
    pieces = machine.cut(state, 1000)
    assert min(len(piece["path"]) for piece in pieces) == 0
    assert max(len(piece["path"]) for piece in pieces) < machine.program.path_size
    for piece in pieces:
        fresh = Question(DEEP, SQUARE, "certified", 1e-9, "nothing").machine()
        fresh.advance(37)  # whatever it did before
        fresh.restore(piece)
        while not fresh.done:
            fresh.advance(10_000)
        found += fresh.n_cells
    assert found == whole


def test_small_tasks_share_a_message():
    question = Question(LINES, SQUARE, "certified", 1e-9, "nothing")
    schedule = Schedule(question.machine())
    worker = running.Worker(question, schedule.machine)
    while len(schedule.tasks) == 1:
        task = schedule.next()
        schedule.give_back(task, worker.work(task.state, schedule.limit(task), 1.0))
    assert schedule.weight_waiting == pytest.approx(
        sum(task.weight for task in schedule.tasks if task.waiting)
    )
    limits = running._Limits(question, schedule, 0.0, None, None, None)
    messages = running._Messages(schedule, limits, 4)
    waiting = sum(task.waiting for task in schedule.tasks)
    sent = []
    while message := messages.next(len(sent)):
        sent.append([task.weight for task in message.tasks])
    assert sum(map(len, sent)) == waiting
    assert len(sent) < waiting / 2
    assert schedule.weight_waiting == pytest.approx(0.0, abs=1e-6)


@contextmanager
def cluster(folder):
    """A scheduler and two workers, started from the command line on ports that are free."""

    def start(*arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        log = open(folder / f"{arguments[0]}.log", "ab")  # noqa: SIM115
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment(), cwd=folder)

    where = folder / "scheduler.json"
    scheduler = start(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(where)
    )
    started = [scheduler]
    try:
        for _ in range(2):
            started.append(
                start(
                    "worker", "--scheduler-file", str(where), "--nthreads", "1", "--no-nanny",
                    "--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(folder),
                )
            )  # fmt: skip
        end = time.monotonic() + 60
        while not where.exists():
            assert time.monotonic() < end
            assert scheduler.poll() is None
            time.sleep(0.05)
        yield where, started[1:]
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")
def test_a_cluster_with_a_worker_that_is_killed(tmp_path):
    distributed = pytest.importorskip("distributed")
    network = hm.Network.random_mlp([2, 1200, 1], 0)
    straight, kept = hm.count_cells(network, SQUARE), hm.enumerate_regions(LINES, SQUARE)
    with cluster(tmp_path) as (where, workers), distributed.Client(scheduler_file=str(where)) as client:
        client.wait_for_workers(2, timeout=60)
        killed = []

        def kill(progress):
            if progress.n_cells > 100_000 and not killed:
                workers[0].send_signal(signal.SIGKILL)
                killed.append(progress.n_cells)

        with joblib.parallel_config(backend="dask", client=client):
            count = hm.count_cells(network, SQUARE, progress=kill)
            assert killed
            assert killed[0] < straight.n_cells
            assert workers[0].wait(timeout=30) == -signal.SIGKILL
            assert len(client.scheduler_info()["workers"]) == 1
            found = hm.enumerate_regions(LINES, SQUARE)
    assert numbers(count) == numbers(straight)
    assert same_cells(found.cells, kept.cells)
    assert found.coverage == kept.coverage


# Regions by fingerprints ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", INSTANCES)
def test_regions_by_fingerprints(many_tasks, monkeypatch, number):
    case = instance(number)
    monkeypatch.setattr("hardmax.regions.api.HEAD", 2)
    found = hm.enumerate_regions(case.network, case.domain)
    count = hm.count_regions(case.network, case.domain, n_jobs=1 + number % 2)
    assert (count.n_regions, count.n_cells, count.complete) == (found.n_regions, found.n_cells, True)


@pytest.mark.parametrize("number", INSTANCES)
def test_contacts_among_some_cells_are_those_among_all(number):
    case = instance(number)
    machine = one_machine(case.network, case.domain)
    cells = machine.cells()
    whole = adjacent_cells(cells, machine.layers, machine.exact_maps).pairs
    rng = np.random.default_rng(number)
    for share in (0.2, 0.5, 0.9):
        chosen = rng.random(cells.n) < share
        some = adjacent_cells(cells.select(chosen), machine.layers, machine.exact_maps).pairs
        places = np.flatnonzero(chosen)
        expected = whole[chosen[whole].all(axis=1)]
        assert {tuple(p) for p in places[some].tolist()} == {tuple(p) for p in expected.tolist()}


@pytest.mark.parametrize("number", INSTANCES)
def test_equal_maps_have_equal_fingerprints(number):
    case = instance(number)
    machine = one_machine(case.network, case.domain)
    cells, exact = machine.cells(), machine.exact_maps
    prints = Fingerprints(exact).of(cells)
    maps: dict = {}
    for i in range(cells.n):
        rows, denominator = exact.output(cells.bits[i], cells.routings[i])
        key = tuple(str(v) + "/" + str(denominator) for v in rows.entries())
        assert maps.setdefault(key, prints[i]) == prints[i]
    assert len(set(maps.values())) == len(maps)  # and different ones, as it happens, different ones


def test_counting_prints():
    prints = np.array([5, 1, 5, 2, 9, 9, 9], dtype=np.uint64)
    values, single = repeated(prints)
    assert (values.tolist(), single) == ([5, 9], 2)
    values, single = repeated(np.zeros(0, dtype=np.uint64))
    assert (len(values), single) == (0, 0)


def test_counting_regions_is_stopped_and_resumed(many_tasks, monkeypatch, tmp_path):
    """Interrupts in both passes, and a checkpoint of parts."""
    monkeypatch.setattr(tasks, "_PART", 100)
    body = hm.Network.random_mlp([2, 12, 12, 1], 0).blocks
    network = hm.Network([*body, hm.FeedForward([[-1]], [0], [[1]], [0])])  # where it is off, maps are equal
    straight = hm.enumerate_regions(network, SQUARE)
    assert straight.n_regions < straight.n_cells - 50
    path, turn = tmp_path / "run.npz", 0
    seen = set()

    def interrupt(progress):
        seen.add(progress.n_cells)
        if len(seen) % 9 == 8:
            raise KeyboardInterrupt

    while True:
        turn += 1
        try:
            count = hm.count_regions(network, SQUARE, checkpoint=path, progress=interrupt)
            break
        except KeyboardInterrupt:
            seen.add(-turn)
            assert path.exists()
    assert turn > 3
    assert (count.n_regions, count.n_cells) == (straight.n_regions, straight.n_cells)
    assert list(tmp_path.iterdir()) == []


def test_an_incomplete_count_of_regions_counts_maps(monkeypatch):
    whole = hm.count_regions(DEEP, SQUARE)
    for most in (1, 50):
        part = hm.count_regions(DEEP, SQUARE, max_cells=most)
        assert (part.n_cells, part.complete) == (most, False)
        assert 1 <= part.n_regions <= min(most, whole.n_regions)


def test_regions_of_many_cells_go_on_from_the_first_ones(many_tasks, monkeypatch):
    """What was found before there were too many cells to keep is not found again."""
    monkeypatch.setattr("hardmax.regions.api.HEAD", 40)
    whole, made, machine = hm.count_cells(DEEP, SQUARE), [], Question.machine

    def counted(question):
        made.append((question.keep, machine(question)))
        return made[-1][1]

    monkeypatch.setattr(Question, "machine", counted)
    count = hm.count_regions(DEEP, SQUARE)
    assert (count.n_cells, count.complete) == (whole.n_cells, True)
    assert [keep for keep, _ in made][:2] in (["cells"], ["cells", "repeated"])
    for most in (41, 60, 100):
        part = hm.count_regions(DEEP, SQUARE, max_cells=most)
        assert (part.n_cells, part.complete) == (most, False)
        assert part.n_regions <= count.n_regions


# Every engine -------------------------------------------------------------------------------------------


SPACE = hm.Network.random_mlp([3, 12, 8, 1], 0)


@pytest.mark.parametrize(
    ("network", "domain", "engine"),
    [
        (SPACE, hm.Box.cube(3, -4, 4), "space"),
        (hm.Network.random(3, 5, 2, 1, 5, 0), hm.WholeSpace(3), "space"),
        (hm.Network.random(4, 4, 2, 1, 4, 0), hm.WholeSpace(4), "space"),
        (hm.Network.random_mlp([3, 8, 5, 1], 0), hm.Box.cube(3, -4, 4), "search"),
    ],
)
def test_other_engines_are_split_too(many_tasks, tmp_path, network, domain, engine):
    machine = Question(network, domain, "certified", 1e-9, "cells", engine).machine()
    while not machine.done:
        machine.advance(10_000)
    tally, cells = machine.tally, machine.cells()
    for jobs in (1, 2):
        found = hm.enumerate_regions(network, domain, engine=engine, n_jobs=jobs)
        assert same_cells(found.cells, cells)
        count = hm.count_cells(network, domain, engine=engine, n_jobs=jobs)
        assert (count.n_cells, count.n_rational) == (tally.n_cells, tally.n_rational)
    path = tmp_path / "run.npz"
    for most in (3, 30, 60):
        part = hm.enumerate_regions(network, domain, engine=engine, max_cells=most, checkpoint=path, n_jobs=2)
        assert (part.n_cells, part.complete) == (most, False)
    resumed = hm.enumerate_regions(network, domain, engine=engine, checkpoint=path)
    assert same_cells(resumed.cells, cells)


LINE_NETWORKS = {
    "folds": (hm.Network.random_mlp([1, 40, 40, 40, 1], 0), hm.WholeSpace(1)),
    "heads": (hm.Network.random(1, 12, 2, 3, 20, 0), hm.Box([-40], [40])),
    "one layer": (hm.Network.random_mlp([1, 300, 1], 0), hm.Box([-4], [4])),
    "sawtooth": (sawtooth_network(1, n_tokens=3, teeth=2, depth=3), hm.Box([0], [1])),
}


@pytest.mark.parametrize("name", LINE_NETWORKS)
def test_a_line_is_split_between_batches(many_tasks, monkeypatch, tmp_path, name):
    """The same bits as from one machine, the numbers of layer cells included."""
    monkeypatch.setattr("hardmax.regions.segment.machine._NUMBERS", 1)  # 32 intervals in a batch
    network, domain = LINE_NETWORKS[name]
    question = Question(network, domain, "certified", 1e-9, "cells")
    machine = question.machine()
    while not machine.done:
        machine.advance(10_000)
    tally, cells = machine.tally, machine.cells()
    assert tally.n_cells > 100
    for jobs in (1, 2):
        found = hm.enumerate_regions(network, domain, n_jobs=jobs)
        assert same_cells(found.cells, cells)
        count = hm.count_cells(network, domain, n_jobs=jobs)
        assert (count.n_cells, count.n_rational) == (tally.n_cells, tally.n_rational)
    path = tmp_path / "run.npz"
    for most in (3, 30, 60):
        part = hm.enumerate_regions(network, domain, max_cells=most, checkpoint=path, n_jobs=2)
        assert (part.n_cells, part.complete) == (most, False)
    assert same_cells(hm.enumerate_regions(network, domain, checkpoint=path).cells, cells)
    schedule = Schedule(question.machine())
    worker = running.Worker(question, schedule.machine)
    n_tasks = 0
    while (task := schedule.next()) is not None:
        schedule.give_back(task, worker.work(task.state, task.quota, 1.0))
        n_tasks = max(n_tasks, schedule.n_numbers)
    assert n_tasks > 5


def test_lengths_of_cells_that_are_only_counted():
    """Cells of one interval in several batches, some so thin that their ends are asked for exactly."""
    rng = np.random.default_rng(0)
    layers, weights, signs = [], np.ones((104, 1)), np.where(np.arange(104) % 2, -208.0, 208.0)
    signs[0] = 104.0
    for _ in range(3):
        layers.append((weights, -(np.arange(104) + 0.1 * rng.random(104)) / 104))
        weights = np.tile(signs * (1 + 1e-4 * rng.random(104)), (104, 1))
    network, domain = hm.Network.mlp([*layers, (weights[:1], [0.0])]), hm.Box([0], [1])
    found = hm.enumerate_regions(network, domain)
    for jobs in (1, 2):
        count = hm.count_cells(network, domain, n_jobs=jobs)
        assert (count.n_cells, count.n_slivers) == (found.n_cells, len(found.slivers))
        assert count.coverage == found.coverage


def test_regions_in_space_by_fingerprints(many_tasks, monkeypatch):
    monkeypatch.setattr("hardmax.regions.api.HEAD", 2)
    body = hm.Network.random_mlp([3, 6, 5, 1], 0).blocks
    network = hm.Network([*body, hm.FeedForward([[-1]], [0], [[1]], [0])])
    found = hm.enumerate_regions(network, hm.Box.cube(3, -4, 4))
    count = hm.count_regions(network, hm.Box.cube(3, -4, 4), n_jobs=2)
    assert (count.n_regions, count.n_cells) == (found.n_regions, found.n_cells)
    assert count.n_regions < count.n_cells


@pytest.mark.parametrize("number", range(12))
def test_contacts_among_some_cells_in_space(number):
    case = space_instance(number)
    whole = hm.enumerate_regions(case.network, case.domain)
    rng = np.random.default_rng(number)
    for share in (0.3, 0.8):
        chosen = rng.random(whole.n_cells) < share
        some = replace(whole, cells=whole.cells.select(chosen))
        expected = whole.adjacency[chosen[whole.adjacency].all(axis=1)]
        places = np.flatnonzero(chosen)
        assert {tuple(p) for p in places[some.adjacency].tolist()} == {tuple(p) for p in expected.tolist()}


def test_a_line_is_resumed_in_the_order_of_signatures(tmp_path):
    network, path = hm.Network.random(1, 12, 2, 3, 20, 0), tmp_path / "run.npz"
    line = hm.Box([-4], [4])
    straight = hm.enumerate_regions(network, line)
    other = hm.enumerate_regions(network, line, engine="plane")
    assert np.array_equal(straight.routings, other.routings)
    assert np.array_equal(straight.bits, other.bits)
    assert hm.enumerate_regions(network, line, max_cells=20, checkpoint=path).n_cells == 20
    assert same_cells(hm.enumerate_regions(network, line, checkpoint=path, n_jobs=2).cells, straight.cells)


# Parts of cells -----------------------------------------------------------------------------------------


def test_cells_that_come_in_parts():
    cells = one_machine(DEEP, hm.WholeSpace(2)).cells()
    rng = np.random.default_rng(0)
    for parts in (1, 2, 7):
        ends = np.sort(rng.integers(0, cells.n + 1, parts - 1))
        bounds = [0, *ends.tolist(), cells.n]
        joined = JoinedTables()
        for low, high in pairwise(bounds):
            some = (np.arange(cells.n) >= low) & (np.arange(cells.n) < high)
            joined.append(cells.select(some).table)
        assert joined.n == cells.n
        middle = joined.part(10, 30)
        assert np.array_equal(middle["witnesses"], cells.witnesses[10:30])
        assert middle["facets"].offsets[0] == 0
        assert same_cells(Cells(kind=cells.kind, **joined.finish()), cells)


def test_engines():
    assert [engine_for(d) for d in (1, 2, 3, 6, 7, 50)] == [
        "segment", "plane", "space", "space", "search", "search",
    ]  # fmt: skip
    assert engine_for(1, "plane") == "plane"
    assert engine_for(3, "search") == "search"
    with pytest.raises(InvalidInputError, match="engine must be one of segment, plane, space, search"):
        hm.count_cells(DEEP, SQUARE, engine="line")
    with pytest.raises(UnsupportedDimensionError, match="engine must be one that enumerates dimension 2"):
        hm.count_cells(DEEP, SQUARE, engine="space")
