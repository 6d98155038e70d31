"""What long runs keep: numbered trials, judged once, in a file of the repository.

A record is a JSON file in ``docs/results``, written whole after every part, so that a run may be ended at any
moment and goes on from there; tables of ``docs/reliability.md`` are made of it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from hardmax.storage import written_whole

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, record: dict[str, Any]) -> None:
    with written_whole(path) as file:
        file.write((json.dumps(record, indent=1) + "\n").encode())


def joined(ranges: list[list[int]]) -> list[list[int]]:
    """Ranges of numbers in order, neighbours made one.

    >>> joined([[5, 9], [0, 5], [20, 21]])
    [[0, 9], [20, 21]]
    """
    result: list[list[int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1]:
            result[-1][1] = max(result[-1][1], high)
        else:
            result.append([low, high])
    return result


def next_part(taken: list[list[int]], first: int, size: int) -> tuple[int, int]:
    """The first numbers from ``first`` on that are in no range.

    >>> next_part([[10, 15], [18, 40]], 10, 5)
    (15, 18)
    """
    start = first
    for low, high in joined(taken):
        if low > start:
            return start, min(start + size, low)
        start = max(start, high)
    return start, start + size


def commit() -> str:
    """Which sources were judged; a + says that they were changed since."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10"], cwd=ROOT, capture_output=True, text=True
    )
    return said.stdout.strip() or "unknown"


def rows(*lines: tuple[object, ...]) -> str:
    """A table in Markdown; the first line is its head."""
    head, *body = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])
