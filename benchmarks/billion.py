"""A billion cells, counted and compared with a formula: `python benchmarks/billion.py`.

n lines in general position cut the plane into 1 + n + n(n-1)/2 cells; 44,721 random lines are the units of a
one-hidden-layer network. Two threads count its cells, with a checkpoint. The process is killed (SIGKILL) on
the way, and a second one goes on from the file. Each prints its memory as it goes; the last one compares.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.progress import Progress


def network(lines: int) -> hm.Network:
    """Gaussian lines: no two parallel, no three through a point (the count would differ)."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal((lines, 2)), rng.standard_normal(lines)
    return hm.Network.mlp([first, (rng.standard_normal((1, lines)), [0.0])])


def count(lines: int, path: Path, kill_at: float | None) -> int:
    expected = 1 + lines + lines * (lines - 1) // 2
    begin, shown = time.perf_counter(), 0

    def progress(state: Progress) -> None:
        nonlocal shown
        tenth = int(20 * state.n_cells / expected)
        if tenth > shown:
            shown = tenth
            size = path.stat().st_size / 1e6 if path.exists() else 0.0
            peak, now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, _resident()
            elapsed, cpu = time.perf_counter() - begin, time.process_time()
            print(
                f"{state.n_cells:13,} cells  {elapsed:6.0f} s  {cpu:6.0f} s of processor time  "
                f"memory {now:4.0f} MB, peak {peak:4.0f} MB  checkpoint {size:4.1f} MB",
                flush=True,
            )
        if kill_at is not None and state.n_cells > kill_at * expected and path.exists():
            print(f"killed at {state.n_cells:,} cells", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    found = hm.count_cells(network(lines), hm.WholeSpace(2), n_jobs=2, checkpoint=path, progress=progress)
    seconds, cpu = time.perf_counter() - begin, time.process_time()
    right = found.complete and found.exact and found.n_cells == expected
    print(
        f"{found!r}\n1 + n + n(n-1)/2 = {expected:,}: {'equal' if right else 'DIFFERENT'}; "
        f"{found.n_unbounded:,} unbounded (2n = {2 * lines:,}); "
        f"this process {seconds:.0f} s, {cpu:.0f} s of processor time, "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB; "
        f"{found.n_double_double} signs in double-double, {found.n_rational} in rationals",
        flush=True,
    )
    return int(not right or found.n_unbounded != 2 * lines)


def _resident() -> float:
    """Megabytes of memory in use now, where the system says so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lines", nargs="?", type=int, default=44_721)
    parser.add_argument("--kill-at", type=float, default=0.4, help="share of the cells; 0: do not kill")
    parser.add_argument("--checkpoint", type=Path, default=Path("billion.npz"))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.exit(count(options.lines, options.checkpoint, options.kill_at or None))
    command = [sys.executable, __file__, str(options.lines), "--child", "--checkpoint", options.checkpoint]
    if options.kill_at:
        killed = subprocess.run([*command, "--kill-at", str(options.kill_at)], check=False)
        assert killed.returncode == -signal.SIGKILL, "the run ended before it was killed"
    sys.exit(subprocess.run([*command, "--kill-at", "0"], check=False).returncode)


if __name__ == "__main__":
    main()
