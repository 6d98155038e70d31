"""Every training recipe of the infoflow paper, one after the other, with what each takes.

    make experiments
    python benchmarks/experiments.py --profile medium --out out/experiments

Trainings are kept in a folder of their own below ``--out``, so that recipes share them and a second run shows
what is left to do; nothing that was trained elsewhere is used.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import hardmax as hm
from hardmax.papers.recipes import recipes


def cpu_seconds() -> float:
    """Processor time of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


def main() -> None:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profile", choices=("quick", "medium"), default="quick")
    parser.add_argument("--out", type=Path, default=Path("out/experiments"))
    chosen = parser.parse_args()
    trained = {name: r for name, r in recipes().items() if any(option.name == "keep" for option in r.options)}
    begin, spent = time.perf_counter(), cpu_seconds()
    for name in trained:
        start, used = time.perf_counter(), cpu_seconds()
        hm.reproduce(name, chosen.out, chosen.profile, settings={"keep": str(chosen.out / "trainings")})
        wall, used = time.perf_counter() - start, cpu_seconds() - used
        print(f"{name:32s} {wall:7.1f} s, {used:7.1f} CPU s", flush=True)
    minutes, used = (time.perf_counter() - begin) / 60, cpu_seconds() - spent
    print(f"{len(trained)} recipes, profile {chosen.profile}: {minutes:.1f} minutes, {used:.0f} CPU s")


if __name__ == "__main__":
    main()
