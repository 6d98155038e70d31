r"""The work of an enumeration as a list of tasks that depends on the question only.

The tree of cells is cut into subtrees. The first task is the whole tree; when it has found ``HEAD`` cells and
is not done, the subtrees that wait on its stack become tasks of their own, the biggest of them cut further
until there are ``ENOUGH``. Every other task that has found ``QUOTA`` cells is cut in the same way, so none is
long. All of that is decided by counting cells, never by time or by the number of workers: the list is the
same for every number of workers and every order in which they process it.

Results are joined in the order of the list, which is the order of cells: cells one after the other, sums of
areas added from the first task to the last. Layer cells are numbered inside each task, with the task's number
in front; when a task is joined it is known how many come before, and they get the numbers that one machine,
running alone, would have given them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.regions.cells import JoinedTables, Table
from hardmax.regions.engine.stack_machine import SERIALS, State, Tally

__all__ = ["Outcome", "Schedule", "Task"]

HEAD = 1 << 15  # cells that the first task finds before it is cut, in the plane
QUOTA = 1 << 16  # the same for every other task
ENOUGH = 32  # tasks after the first cut
PIECES = 16  # tasks after every later cut

_LOCAL = (1 << SERIALS) - 1
_ENDLESS = np.iinfo(np.int64).max  # the quota of what cannot be cut


@dataclass(frozen=True)
class Outcome:
    """Where a task stands after some work: its state (``None``: done), what it counted in all, and the
    cells it found this time."""

    state: State | None
    tally: Tally
    cells: Table | None


@dataclass(eq=False)
class Task:
    """A subtree. ``state`` is ``None`` once it is done."""

    number: int
    state: State | None
    begin: State | None  # as it was cut
    quota: int
    tally: Tally = field(default_factory=Tally)
    cells: list[Table] = field(default_factory=list)  # found, and not joined yet
    running: bool = False


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
        self.tasks = [Task(0, root, root, self._quota(HEAD))]
        self.n_numbers = 1
        self.joined = Tally()
        self.cells = JoinedTables()
        self._ready: deque[Table] = deque()  # cells that are next in order
        self.serials_before = np.zeros(64, dtype=np.int64)  # by the number of the task that made them
        self._front_known()

    # starting tasks and taking their outcomes

    def next(self) -> Task | None:
        """The first task that waits for a worker and can be among the first ``max_cells`` cells."""
        before = self.joined.n_cells
        for task in self.tasks:
            if self.max_cells is not None and before + _settled(task) >= self.max_cells:
                return None
            if task.state is not None and not task.running:
                task.running = True
                return task
            before += task.tally.n_cells
        return None

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
        task.state, task.tally = outcome.state, outcome.tally
        if outcome.cells is not None:
            task.cells.append(outcome.cells)
        if task.state is not None and task.tally.n_cells >= task.quota:
            self._cut(task)
        self._join()

    def put_back(self) -> None:
        """No worker is left: tasks that were running go back to the state they were started from."""
        for task in self.tasks:
            task.running = False

    @property
    def done(self) -> bool:
        """Whether every task is done."""
        return not any(task.state is not None for task in self.tasks)

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
        if task.tally.n_cells <= left or task.begin is None:
            return self.joined + task.tally
        self.machine.restore(task.begin)
        self.machine.limit(left)
        while self.machine.n_cells < left:
            self.machine.advance(1000)
        counted: Tally = self.machine.tally
        return self.joined + counted

    # cutting

    def _cut(self, task: Task) -> None:
        """Replace the rest of a task by the subtrees on its stack."""
        first = task.number == 0
        pieces = self.machine.cut(task.state, 4 * ENOUGH if first else PIECES)
        task.state = None
        tasks = [self._new(piece) for piece in pieces]
        at = self.tasks.index(task) + 1
        self.tasks[at:at] = tasks
        if first:
            self._cut_further()

    def _new(self, piece: State) -> Task:
        number = self.n_numbers
        self.n_numbers += 1
        if number >= len(self.serials_before):
            self.serials_before = np.concatenate([self.serials_before, np.zeros_like(self.serials_before)])
        state = self.machine.numbered(piece, number)
        return Task(number, state, state, self._quota(QUOTA))

    def _quota(self, cells: int) -> int:
        """Fewer cells where each takes longer; no end where nothing can be cut."""
        return max(2, cells >> self.machine.log2_cost) if hasattr(self.machine, "cut") else _ENDLESS

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
            task.state, task.tally = None, self.machine.tally
            at = self.tasks.index(task) + 1
            self.tasks[at:at] = [self._new(piece) for piece in self.machine.cut(self.machine.state(), ENOUGH)]

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
    """A copy of the state of a machine whose cells were taken."""
    return {name: array.copy() for name, array in machine.state().items() if not name.startswith("output_")}
