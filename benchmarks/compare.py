"""Has a kind of network become slower? ``python benchmarks/compare.py BEFORE AFTER``

Both files were written by ``benchmarks/bench_kinds.py --out``. A time is compared as a multiple of one
forward pass per cell, measured in the same run on the same machine; the multiple of a random network of the
same shape is shown too, and decides with ``--by random`` (take it when the two files come from different
processors or versions of numpy). A kind is slower if its multiple grew by more than ``--slack``, or if it was
finished before and is stopped now. Another number of cells for the same network is an error, not a change.
Exits with 1 if a kind is slower, wrong or missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

SLACK = 1.3  # least of several runs on a busy machine: a tenth is noise


def verdict(before: dict[str, Any], after: dict[str, Any] | None, by: str, slack: float) -> str:
    """One of: missing, another network, WRONG, stopped, slower, faster, same."""
    if after is None:
        return "missing"
    if before["digest"] != after["digest"]:
        return "another network"
    if before["complete"] and after["complete"] and before["cells"] != after["cells"]:
        return f"WRONG: {before['cells']:,} cells before, {after['cells']:,} after"
    if before["complete"] and not after["complete"]:
        return "stopped"
    growth = after[by] / before[by]
    if growth > slack:
        return "slower"
    return "faster" if growth < 1 / slack else "same"


def read(path: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(path.read_text())
    if held.get("schema") != 1:
        raise SystemExit(f"{path} must be written by bench_kinds.py --out with schema 1.")
    return held


def compare(before: dict[str, Any], after: dict[str, Any], by: str, slack: float) -> tuple[list[str], int]:
    """The lines of the table, and how many kinds are worse."""
    lines = []
    for name in ("hardmax", "python", "numpy", "numba", "platform"):
        versions = [held["versions"].get(name) for held in (before, after)]
        if versions[0] != versions[1]:
            lines.append(f"{name}: {versions[0]} before, {versions[1]} after")
    new = {line["name"]: line for line in after["kinds"]}
    width = max((len(line["name"]) for line in before["kinds"]), default=4)
    lines.append(f"{'kind'.ljust(width)} |      /forward before, after |       /random before, after |")
    worse = 0
    for old in before["kinds"]:
        now = new.pop(old["name"], None)
        said = verdict(old, now, by, slack)
        worse += said.startswith(("missing", "WRONG", "stopped", "slower"))
        ratios = [
            f"{old[ratio]:12.2f} {now[ratio]:12.2f}" if now else f"{old[ratio]:12.2f} {'-':>12}"
            for ratio in ("ratio_to_forward", "ratio_to_random")
        ]
        lines.append(f"{old['name'].ljust(width)} |   {ratios[0]} |   {ratios[1]} | {said}")
    lines += [f"{name.ljust(width)} | new" for name in new]
    return lines, worse


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--by", choices=["forward", "random"], default="forward", help="what decides")
    parser.add_argument("--slack", type=float, default=SLACK, help="growth that is not called slower")
    options = parser.parse_args(arguments)
    lines, worse = compare(read(options.before), read(options.after), f"ratio_to_{options.by}", options.slack)
    print("\n".join(lines))
    print(f"kinds that are worse: {worse}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
