r"""The work of an enumeration: a list of tasks that depends on the question only, and its checkpoint.

The tree of cells is cut into subtrees. The first task is the whole tree; when it has found ``HEAD`` cells and
is not done, the subtrees that wait on its stack become tasks of their own, the biggest of them cut further
until there are ``ENOUGH``. These find ``FIRST`` cells before they are cut in the same way, their pieces twice
as many, and so on up to ``QUOTA``: the list grows fast at first, so that many workers are busy soon, and what
is big is cut into long tasks, so that a cluster exchanges few messages (``benchmarks/cluster.py`` simulates
it). All of that is decided by counting cells, never by time or by the number of workers: the list is the same
for every number of workers and every order in which they process it.

Results are joined in the order of the list, which is the order of cells: cells one after the other, sums of
areas added from the first task to the last. Layer cells are numbered inside each task, with the task's number
in front; when a task is joined it is known how many come before, and they get the numbers that one machine,
running alone, would have given them.

A running enumeration is kept in a file (:class:`Checkpoint`): the list of tasks with their states, what was
counted, and the cells found last. Cells that are settled move into parts, files of their own beside it that
are written once; the file says how many there are. Each is written whole or not at all, the parts first, so a
killed process leaves a checkpoint that is right, though perhaps a little old. A count keeps only numbers, and
its checkpoint stays small for any number of cells.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax import storage
from hardmax.errors import DamagedFileError, FileFormatError
from hardmax.regions.cells import JoinedTables, Table, plain_table, table_of
from hardmax.regions.engine.seals import is_sealed, seal_of
from hardmax.regions.engine.stack_machine import SERIALS, State, Tally

HEAD = 1 << 15  # cells that the first task finds before it is cut, in the plane
FIRST = 1 << 13  # the same for the tasks of the first cut; twice as many with every later cut,
QUOTA = 1 << 17  # but never more than that
ENOUGH = 32  # tasks after the first cut
PIECES = 4  # tasks after every later cut
WINDOW = 16  # the share of the list that is looked for at once is one in so many

_LOCAL = (1 << SERIALS) - 1
_EVERY = 20.0  # seconds between two checkpoints
_PART = 1 << 26  # bytes of cells that are worth a part
_LEFTOVER = r"\.{}(\.part-\d+)?\.npz\.[0-9a-f]{{8}}\.partial"


@dataclass(frozen=True)
class Outcome:
    """Where a task stands after some work: its state (``None``: done), what it counted in all, the cells it
    found this time, and the processor time of the machine."""

    state: State | None
    tally: Tally
    cells: Table | None
    seconds: float = 0.0


@dataclass(eq=False)
class Task:
    """A subtree. ``state`` is ``None`` once it is done."""

    number: int
    state: State | None
    begin: State | None  # as it was cut; kept only where the number of cells is limited
    quota: int
    generation: int = 0  # cuts between the root and this task
    weight: float = 1.0  # about how many cells it has, for messages to a cluster
    tally: Tally = field(default_factory=Tally)
    cells: list[Table] = field(default_factory=list)  # found, and not joined yet
    running: bool = False
    seconds: float = 0.0  # of processor time that machines took for it, as far as this process knows

    def take(self, outcome: Outcome) -> None:
        """Write down what a worker did."""
        self.state, self.tally = outcome.state, outcome.tally
        self.seconds += outcome.seconds
        if outcome.cells is not None:
            self.cells.append(outcome.cells)

    @property
    def used_up(self) -> bool:
        """Whether it is to be cut: not done after as many cells as it may find."""
        return self.state is not None and self.tally.n_cells >= self.quota

    @property
    def waiting(self) -> bool:
        """Whether there is something to do that no worker does."""
        return self.state is not None and not self.running


def quota(machine: Any, generation: int) -> int:
    """Cells of a task before it is cut; fewer where each takes longer."""
    cells = min(FIRST << min(generation - 1, 32), QUOTA) if generation else HEAD
    return max(2, cells >> int(machine.log2_cost))


def new_task(machine: Any, piece: State, number: int, generation: int) -> Task:
    """The task of a piece."""
    state, weight = machine.numbered(piece, number), machine.weight(piece)
    return Task(number, state, None, quota(machine, generation), generation, weight)


def cut_task(machine: Any, task: Task, numbers: Iterator[int]) -> list[Task] | None:
    """The tasks into which one is cut that has used up its quota; ``None`` if there are too few numbers."""
    reserved = list(islice(numbers, PIECES))
    if task.state is None or len(reserved) < PIECES:
        return None
    pieces = machine.cut(task.state, PIECES)
    task.state = None
    return [
        new_task(machine, piece, number, task.generation + 1)
        for piece, number in zip(pieces, reserved, strict=False)
    ]


class Schedule:
    """The tasks that are not joined yet, in order, and what the others found.

    Parameters
    ----------
    machine
        A machine for the question, at its beginning; also used to cut tasks.
    max_cells : int, optional
        How many cells are wanted, the first ones in order.
    """

    def __init__(self, machine: Any, max_cells: int | None = None) -> None:
        self.machine = machine
        self.max_cells = max_cells
        root = snapshot(machine)
        self._root = root
        self.tasks = [Task(0, root, None, quota(machine, 0))]
        self.n_numbers = 1
        self.weight_waiting = self.tasks[0].weight
        self._spare: list[range] = []  # numbers that were reserved and not used
        self._found: deque[Task] = deque()  # tasks that wait, the first ones when they were looked for
        self.joined = Tally()
        self.cells = JoinedTables()
        self._ready: deque[Table] = deque()  # cells that are next in order
        self.serials_before = np.zeros(64, dtype=np.int64)  # by the number of the task that made them
        self._front_known()

    # starting tasks and taking their outcomes

    def next(self) -> Task | None:
        """The first task that waits for a worker and can be among the first ``max_cells`` cells.

        Without a limit it is one of the first: some of them are looked for at once, because a cluster may
        have thousands of tasks under way in front of them.
        """
        if self.max_cells is None:
            return self._next_found()
        before = self.joined.n_cells
        for task in self.tasks:
            if self.max_cells is not None and before + _settled(task) >= self.max_cells:
                return None
            if task.waiting:
                return self._started(task)
            before += task.tally.n_cells
        return None

    def _next_found(self) -> Task | None:
        for _ in range(2):
            while self._found:
                task = self._found.popleft()
                if task.waiting:
                    return self._started(task)
            window = 1 + len(self.tasks) // WINDOW
            self._found.extend(islice((task for task in self.tasks if task.waiting), window))
        return None

    def _started(self, task: Task) -> Task:
        task.running = True
        self._waits(task, -1)
        if self.max_cells is not None and not task.tally.n_cells:
            task.begin = task.state
        return task

    def limit(self, task: Task) -> int:
        """How many cells a task may find before it is looked at again."""
        if self.max_cells is None:
            return task.quota
        before = self.joined.n_cells
        for other in self.tasks:
            if other is task:
                break
            before += other.tally.n_cells
        return min(task.quota, self.max_cells - before)

    def give_back(self, task: Task, outcome: Outcome) -> None:
        """Write down what a worker did, cut the task if its quota is used up, and join what can be joined."""
        task.running = False
        task.take(outcome)
        if task.state is not None:
            self._waits(task)
            if task.used_up:
                self._cut(task)
        self._join()

    def reserve(self, count: int) -> range:
        """Numbers for tasks that another process will cut."""
        if self._spare and len(self._spare[-1]) >= count:
            return self._spare.pop()
        numbers = range(self.n_numbers, self.n_numbers + count)
        self._numbered(numbers.stop)
        return numbers

    def exchange(self, task: Task, tasks: list[Task], numbers: range) -> None:
        """Put the tasks that another process made of one in its place; ``numbers`` were not used."""
        first = tasks[0]
        first.begin, first.cells = task.begin, task.cells + first.cells
        first.seconds += task.seconds
        task.running = False
        at = self.tasks.index(task)
        self.tasks[at : at + 1] = tasks
        for other in tasks:
            if other.waiting:
                self._waits(other)
        for other in tasks:
            if other.used_up:  # it had no time or no numbers
                self._cut(other)
        if numbers:
            self._spare.append(numbers)
        self._join()

    def put_back(self, tasks: Iterable[Task] | None = None) -> None:
        """Their workers are gone: these tasks, or all, are in the state that they were started from."""
        for task in self.tasks if tasks is None else tasks:
            if task.running and task.state is not None:
                self._waits(task)
            task.running = False

    def _waits(self, task: Task, sign: int = 1) -> None:
        """One more task waits, or one less."""
        self.weight_waiting += sign * task.weight

    @property
    def done(self) -> bool:
        """Whether every task is done and no more cells were found than are wanted."""
        if any(task.state is not None for task in self.tasks):
            return False
        # others may have found what comes after the limit
        return self.max_cells is None or self.tally().n_cells <= self.max_cells

    @property
    def full(self) -> bool:
        """Whether the first ``max_cells`` cells are all known."""
        if self.max_cells is None:
            return False
        return self.joined.n_cells + (_settled(self.tasks[0]) if self.tasks else 0) >= self.max_cells

    def tally(self) -> Tally:
        """Everything that was counted so far, added in the order of the tasks."""
        return sum((task.tally for task in self.tasks), self.joined)

    def first_tally(self) -> Tally:
        """What belongs to the first ``max_cells`` cells, as if one machine alone had stopped there."""
        if not self.tasks or self.max_cells is None:
            return self.joined
        task, left = self.tasks[0], self.max_cells - self.joined.n_cells
        if task.tally.n_cells <= left:
            return self.joined + task.tally
        if task.begin is None:  # found without a limit, resumed with one
            return self._counted_again(self._root, self.max_cells)
        return self.joined + self._counted_again(task.begin, left)

    def _counted_again(self, state: State, n_cells: int) -> Tally:
        self.machine.restore(state)
        self.machine.limit(n_cells)
        while self.machine.n_cells < n_cells:
            self.machine.advance(1000)
        tally: Tally = self.machine.tally
        return tally

    # cutting

    def _cut(self, task: Task) -> None:
        """Replace the rest of a task by the subtrees on its stack."""
        if task.generation:
            self._follow(task, cut_task(self.machine, task, self._numbers()))
        else:
            self._follow(task, self._new(self.machine.cut(task.state, 4 * ENOUGH), 1))
            if self.machine.small_steps:
                self._cut_further()

    def _follow(self, task: Task, tasks: list[Task] | None) -> None:
        """A task is done, and these come after it."""
        tasks, task.state = tasks or [], None
        self._waits(task, -1)
        for other in tasks:
            self._waits(other)
        at = self.tasks.index(task) + 1
        self.tasks[at:at] = tasks

    def _new(self, pieces: list[State], generation: int) -> list[Task]:
        numbers = self._numbers()
        return [new_task(self.machine, piece, next(numbers), generation) for piece in pieces]

    def _numbers(self) -> Iterator[int]:
        """Numbers for new tasks."""
        while True:
            self._numbered(self.n_numbers + 1)
            yield self.n_numbers - 1

    def _numbered(self, n: int) -> None:
        self.n_numbers = n
        while n > len(self.serials_before):
            self.serials_before = np.concatenate([self.serials_before, np.zeros_like(self.serials_before)])

    def _cut_further(self) -> None:
        """Cut the biggest tasks, step by step, until there are enough."""
        whole: set[int] = set()  # tasks that one step leads to a cell
        while sum(task.state is not None for task in self.tasks) < ENOUGH:
            waiting = [t for t in self.tasks if t.state is not None and t.number not in whole]
            if not waiting:
                return
            task = min(waiting, key=lambda t: self.machine.depth(t.state))
            self.machine.restore(task.state)
            self.machine.limit(None)
            self.machine.advance(1)
            if self.machine.n_cells:
                whole.add(task.number)
                continue
            task.tally = self.machine.tally
            self._follow(task, self._new(self.machine.cut(self.machine.state(), ENOUGH), task.generation))

    # joining

    def _front_known(self) -> None:
        """The first task's numbers begin where those of all joined tasks end."""
        if self.tasks:
            self.serials_before[self.tasks[0].number] = self.joined.serials

    def _join(self) -> None:
        while self.tasks:
            task = self.tasks[0]
            self._ready.extend(task.cells)
            task.cells.clear()
            if task.state is not None or task.running:
                return
            if self.max_cells is not None and self.joined.n_cells + task.tally.n_cells > self.max_cells:
                return
            self.joined += task.tally
            self.tasks.pop(0)
            self._front_known()

    def collect(self) -> None:
        """Append the cells that are next in order. Copying takes time, so it is done outside the lock."""
        while self._ready:
            self.cells.append(self._ready.popleft(), self._renumbered)

    def _renumbered(self, owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """Final numbers of layer cells; sides of the domain keep their negative ones."""
        if not len(owner) or int(owner.max()) <= _LOCAL:
            return owner
        return np.where(owner < 0, owner, self.serials_before[owner >> SERIALS] + (owner & _LOCAL))

    def keep_instead(self, kept: Callable[[Table], Table], max_cells: int | None) -> None:
        """Keep something else of the cells found so far, and go on to so many cells."""
        self.collect()
        found, self.cells = self.cells.finish(), JoinedTables()
        if found:
            self.cells.append(kept(found))
        for task in self.tasks:
            task.cells = [kept(cells) for cells in task.cells]
        self.max_cells = max_cells
        self._join()

    def all_cells(self, n: int | None = None) -> Table:
        """The columns of every cell found, in order (or of the first ``n``); the schedule is of no use
        afterwards."""
        self.collect()
        serials = self.joined.serials
        for task in self.tasks:
            self.serials_before[task.number] = serials
            serials += task.tally.serials
            for cells in task.cells:
                self.cells.append(cells, self._renumbered)
        return self.cells.finish(n)


def _settled(task: Task) -> int:
    """Cells that a task is known to have; 0 while a worker has it."""
    return 0 if task.running else task.tally.n_cells


def snapshot(machine: Any) -> State:
    """The state of a machine whose cells were taken, copied where the machine goes on writing."""
    state = {name: array for name, array in machine.state().items() if not name.startswith("output_")}
    return state if machine.state_lasts else {name: array.copy() for name, array in state.items()}


# Checkpoints
# ----------------------------------------------------------------------------------------------------------


class Checkpoint:
    """Keeps a schedule in a file.

    Parameters
    ----------
    path : Path
    question : str
        The fingerprint of what is asked; the file of another question is refused.
    extra : dict
        More plain values to keep.
    lasting : bool
        Whether the end of the run is worth keeping too.
    """

    def __init__(
        self, path: Path, question: str, *, extra: dict[str, Any] | None = None, lasting: bool = False
    ) -> None:
        self.path = path
        self.question = question
        self.extra = extra or {}
        self.lasting = lasting
        self._settled: list[int] = []  # cells up to the end of each part
        self._next = time.monotonic() + _EVERY

    def part_path(self, number: int) -> Path:
        """Where a part is kept."""
        return self.path.with_name(f"{self.path.stem}.part-{number}{self.path.suffix}")

    # writing

    def maybe_save(self, schedule: Schedule) -> None:
        """Save when it is time again; the more there is to write, the longer the pause."""
        before = time.monotonic()
        if before >= self._next:
            self.save(schedule)
            after = time.monotonic()
            self._next = after + max(_EVERY, 10.0 * (after - before))

    def save(self, schedule: Schedule) -> None:
        """Write down where a schedule stands."""
        schedule.collect()
        cells = schedule.cells
        settled = self._settled[-1] if self._settled else 0
        latest = cells.part(settled, cells.n)
        if _bytes(latest) > _PART:
            self._write(
                self.part_path(len(self._settled) + 1),
                "EnumerationPart",
                {"question": self.question, "cells": plain_table(latest)},
            )
            self._settled.append(cells.n)
            latest = cells.part(cells.n, cells.n)
        self._write(
            self.path,
            "Enumeration",
            {
                "question": self.question,
                "extra": self.extra,
                "settled": list(self._settled),
                "cells": plain_table(latest),
                "joined": asdict(schedule.joined),
                "numbers": schedule.n_numbers,
                "serials_before": schedule.serials_before,
                "tasks": [_task_state(task) for task in schedule.tasks],
                "states": _packed([task.state for task in schedule.tasks]),
                "beginnings": _packed([task.begin for task in schedule.tasks]),
            },
        )

    def _write(self, path: Path, kind: str, state: dict[str, Any]) -> None:
        stored = storage.Stored(kind, state, {})
        storage.write(path, stored, packed=kind == "Enumeration", sign=seal_of)

    def finish(self, schedule: Schedule) -> None:
        """The run is over: nothing is left to resume."""
        if self.lasting:
            self.save(schedule)
        else:
            self.remove()

    def remove(self) -> None:
        """Remove the file and its parts."""
        self.path.unlink(missing_ok=True)
        self.remove_parts()
        for leftover in self.path.absolute().parent.glob(f".{self.path.stem}*.partial"):
            if re.fullmatch(_LEFTOVER.format(re.escape(self.path.stem)), leftover.name):
                leftover.unlink(missing_ok=True)  # a process was killed while it wrote

    def remove_parts(self) -> None:
        """Remove the parts, which no file names any more."""
        for number in range(1, len(self._settled) + 2):  # one may have been written without being named
            self.part_path(number).unlink(missing_ok=True)

    # reading

    def is_mine(self) -> bool:
        """Whether the file exists and belongs to this question."""
        if not self.path.exists():
            return False
        stored = storage.read(self.path)
        return stored.kind == "Enumeration" and stored.state.get("question") == self.question

    def stored(self) -> dict[str, Any] | None:
        """What the file says, if there is one and it belongs to this question."""
        if not self.path.exists():
            if not self.path.absolute().parent.is_dir():
                raise FileNotFoundError(f"cannot write {self.path}: its folder does not exist.")
            seal_of("")  # a damaged key is noticed before there is something to lose
            return None
        state = self._read(self.path, "Enumeration")
        self.extra = state["extra"]
        return state

    def _read(self, path: Path, kind: str) -> dict[str, Any]:
        stored = storage.read(path)
        if stored.kind != kind or stored.state.get("question") != self.question:
            raise FileFormatError(
                f"{path} must be the checkpoint of this enumeration, but belongs to another network, "
                "domain or option; name another file or remove it."
            )
        if not is_sealed(stored.digest, stored.seal):
            raise DamagedFileError(
                f"{path} must be a checkpoint that you wrote, but carries the seal of somebody else or of "
                "another machine; if you trust where it comes from, set HARDMAX_TRUST_CHECKPOINTS=1, "
                "otherwise remove it."
            )
        return stored.state

    def resume(self, schedule: Schedule) -> None:
        """Bring a new schedule to where the file is, if there is one."""
        state = self.stored()
        if state is None:
            return
        self._settled = [int(n) for n in state["settled"]]
        schedule.cells = JoinedTables()
        for number in range(1, len(self._settled) + 1):
            path = self.part_path(number)
            if not path.exists():
                raise FileFormatError(
                    f"{self.path} must stand beside its part {path.name}, which is missing."
                )
            schedule.cells.append(table_of(self._read(path, "EnumerationPart")["cells"]))
        if state["cells"]:
            schedule.cells.append(table_of(state["cells"]))
        schedule.joined = _tally(state["joined"])
        schedule.n_numbers = int(state["numbers"])
        schedule.serials_before = np.array(state["serials_before"])
        states, beginnings = _unpacked(state["states"]), _unpacked(state["beginnings"])
        schedule.tasks = [
            Task(
                int(task["number"]),
                now,
                begin,
                int(task["quota"]),
                int(task["generation"]),
                float(task["weight"]),
                _tally(task["tally"]),
                [table_of(part) for part in task["cells"]],
            )
            for task, now, begin in zip(state["tasks"], states, beginnings, strict=True)
        ]
        schedule.weight_waiting = sum(task.weight for task in schedule.tasks if task.waiting)


def _task_state(task: Task) -> dict[str, Any]:
    cells = JoinedTables()
    for part in task.cells:
        cells.append(part)
    parts = [plain_table(cells.part(0, cells.n))] if cells.n else []
    plain = {name: getattr(task, name) for name in ("number", "quota", "generation", "weight")}
    return plain | {"tally": asdict(task.tally), "cells": parts}


def _tally(state: dict[str, Any]) -> Tally:
    return Tally(**{**state, "layer_cells": tuple(state["layer_cells"])})


def _bytes(table: Table) -> int:
    return sum(column.nbytes for column in table.values())


# Tasks that were cut from one stack share the arrays of the way that led there: each is kept once.


def _packed(states: list[State | None]) -> dict[str, Any]:
    kept: dict[tuple[str, bytes], int] = {}
    arrays: list[Any] = []
    index: list[dict[str, int] | None] = []
    for state in states:
        if state is None:
            index.append(None)
            continue
        entry: dict[str, int] = {}
        for name, array in state.items():
            key = (f"{array.dtype.str}{array.shape}", array.tobytes())
            if key not in kept:
                kept[key] = len(arrays)
                arrays.append(array)
            entry[name] = kept[key]
        index.append(entry)
    by_kind: dict[str, list[int]] = {}
    for number, array in enumerate(arrays):
        by_kind.setdefault(array.dtype.str[1:], []).append(number)
    return {
        "index": index,
        "shapes": [list(array.shape) for array in arrays],
        "numbers": by_kind,
        **{
            f"values.{kind}": np.concatenate([arrays[number].ravel() for number in numbers])
            for kind, numbers in by_kind.items()
        },
    }


def _unpacked(packed: dict[str, Any]) -> list[State | None]:
    arrays: dict[int, Any] = {}
    for kind, numbers in packed["numbers"].items():
        values, at = packed[f"values.{kind}"], 0
        for number in numbers:
            shape = packed["shapes"][number]
            size = int(np.prod(shape, dtype=np.int64))
            arrays[number] = values[at : at + size].reshape(shape)
            at += size
    return [
        None if entry is None else {name: arrays[number] for name, number in entry.items()}
        for entry in packed["index"]
    ]
