"""The file in which a running enumeration is kept.

It holds the list of tasks with their states, what was counted, and the cells found last. Cells that are
settled move into parts, files of their own beside it that are written once; the file says how many there are.
Each is written whole or not at all, the parts first, so a killed process leaves a checkpoint that is right,
though perhaps a little old. A count keeps only numbers, and its checkpoint stays small for any number of
cells.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hardmax import storage
from hardmax.errors import FileFormatError
from hardmax.regions.cells import JoinedTables, Table, plain_table, table_of
from hardmax.regions.engine.stack_machine import State, Tally
from hardmax.regions.engine.tasks import Schedule, Task

__all__ = ["Checkpoint"]

_EVERY = 20.0  # seconds
_PART = 1 << 26  # bytes of cells that are worth a part
_LEFTOVER = r"\.{}(\.part-\d+)?\.npz\.[0-9a-f]{{8}}\.partial"


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
        storage.write(path, storage.Stored(kind, state, {}), packed=kind == "Enumeration")

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
                _tally(task["tally"]),
                [table_of(part) for part in task["cells"]],
            )
            for task, now, begin in zip(state["tasks"], states, beginnings, strict=True)
        ]


def _task_state(task: Task) -> dict[str, Any]:
    cells = JoinedTables()
    for part in task.cells:
        cells.append(part)
    parts = [plain_table(cells.part(0, cells.n))] if cells.n else []
    return {"number": task.number, "quota": task.quota, "tally": asdict(task.tally), "cells": parts}


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
