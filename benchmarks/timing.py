"""Side-by-side timing: one thread, compiled kernels warm, ours and the reference in the same run.

Import this module before numpy: it sets the thread counts that the numerical libraries read when they load.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402


@dataclass(frozen=True)
class Comparison:
    """One line of the table: ``target`` is the least speed-up, or with ``at_most`` the greatest slow-down.

    A ``known_miss`` is a target that a page says is missed: the table shows the miss, and the run goes on.
    """

    name: str
    ours: float
    reference: float
    target: float
    at_most: bool = False
    note: str = ""
    known_miss: bool = False

    @property
    def ratio(self) -> float:
        return self.ours / self.reference if self.at_most else self.reference / self.ours

    @property
    def ok(self) -> bool:
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    @property
    def fails(self) -> bool:
        return not self.ok and not self.known_miss

    @property
    def verdict(self) -> str:
        return "yes" if self.ok else "miss" if self.known_miss else "NO"


def seconds(run: Callable[[], object]) -> float:
    """Processor time of one call: everything runs on one thread, and a busy machine disturbs it little."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def side_by_side(
    ours: Callable[[], object], reference: Callable[[], object], *, repeats: int, rounds: int
) -> tuple[float, float]:
    """Least times of both, in turns: ours ``repeats`` times before and after each run of the reference."""
    best_ours = min(seconds(ours) for _ in range(repeats))
    best_reference = float("inf")
    for _ in range(rounds):
        best_reference = min(best_reference, seconds(reference))
        best_ours = min(best_ours, *(seconds(ours) for _ in range(repeats)))
    return best_ours, best_reference


def spell(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def print_table(comparisons: list[Comparison]) -> None:
    """name | ours | reference | ratio | target | ok, with the notes underneath."""
    rows = [("name", "ours", "reference", "ratio", "target", "ok")]
    for line in comparisons:
        sign = "<=" if line.at_most else ">="
        ratio = f"{line.ratio:.2f}x" if line.at_most else f"{line.ratio:.1f}x"
        target = f"{sign} {line.target:g}x"
        rows.append((line.name, spell(line.ours), spell(line.reference), ratio, target, line.verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for number, row in enumerate(rows):
        print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("-|-".join("-" * width for width in widths))
    for line in comparisons:
        if line.note:
            print(f"  {line.name}: {line.note}")
