"""A runner for tests: computes next to nothing, writes down that it ran, and misbehaves on demand.

A job is ``{"n": 3, "log": FILE, "gate": FILE or null, "do": what or null, "seconds": 0}``. Each run adds one
line to the log, so that a test can count how often every job was run, and where.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hardmax as hm
from hardmax.results import Result

NAME = "oracles.tiny_runner:run"


def run(text: str, *, progress: Any) -> Result:
    job = json.loads(text)
    if job.get("log"):
        with open(job["log"], "a") as log:
            log.write(f"{job['n']} {os.getpid()}\n")
    while job.get("gate") and not Path(job["gate"]).exists():
        time.sleep(0.01)
    time.sleep(job.get("seconds", 0))
    match job.get("do"):
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(3)
        case "raise":
            raise RuntimeError("no way")
        case "refuse":
            raise hm.errors.InvalidInputError("n must be smaller.")
        case "print":
            print("noise", flush=True)
            os.write(1, b"more noise")
        case "nonsense":
            return "no result"
        case "half":
            progress(0.2)
            time.sleep(1.5)
            progress(0.5)
            time.sleep(1.5)
    return hm.bounds.head_budget(2 + job["n"], 4, heads=[1, 2])


def jobs(n: int, log: Path | None = None, **entries: Any) -> list[dict[str, Any]]:
    where = {} if log is None else {"log": str(log)}
    return [{"n": i, **where, **entries} for i in range(n)]


def runs(log: Path) -> Counter[int]:
    """How often each job was begun."""
    return Counter(int(line.split()[0]) for line in lines(log))


def workers(log: Path) -> list[int]:
    """The process of each run, in the order in which they began."""
    return [int(line.split()[1]) for line in lines(log)]


def lines(log: Path) -> list[str]:
    text = log.read_text() if log.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
