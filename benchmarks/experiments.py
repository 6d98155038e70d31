"""Every training recipe of the infoflow paper, one after the other, with what each takes.

    make experiments
    python benchmarks/experiments.py --profile medium --out out/experiments | tee out/log.txt
    python benchmarks/experiments.py --collect out/log.txt --out out/experiments
    python docs/write.py results/experiments

Trainings are kept in a folder of their own below ``--out``, so that recipes share them and a second run shows
what is left to do; nothing that was trained elsewhere is used. ``--collect`` trains nothing: it keeps what
the folder and the lines of the log say, and what the paper's profile would train, in the file that the ledger
and the page read.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hardmax as hm
from hardmax.papers.infoflow import experiments
from hardmax.papers.recipes import Profile, Recipe, recipes
from hardmax.papers.training_runs import operations
from hardmax.training.jobs import Job
from hardmax.training.studies import read_study

FILE = Path(experiments.__file__).with_name(experiments.FILE)
PRINTED = "{name:32s} {wall:7.1f} s, {used:7.1f} CPU s"
READ = re.compile(r"^(\S+) +([0-9.]+) s, +([0-9.]+) CPU s$", re.MULTILINE)
NOT_KEPT = ("train", "keep", "study", "jobs")  # options that change no number


def cpu_seconds() -> float:
    """Processor time of this process, all its threads, and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


def trained() -> dict[str, Recipe]:
    """The recipes that train."""
    return {name: r for name, r in recipes().items() if any(option.name == "keep" for option in r.options)}


def run(profile: Profile, out: Path) -> None:
    """Run them, and say what each took."""
    begin, spent = time.perf_counter(), cpu_seconds()
    for name in trained():
        start, used = time.perf_counter(), cpu_seconds()
        hm.reproduce(name, out, profile, settings={"keep": str(out / "trainings")})
        wall, used = time.perf_counter() - start, cpu_seconds() - used
        print(PRINTED.format(name=name, wall=wall, used=used), flush=True)
    minutes, used = (time.perf_counter() - begin) / 60, cpu_seconds() - spent
    print(f"{len(trained())} recipes, profile {profile}: {minutes:.1f} minutes, {used:.0f} CPU s")


def jobs_of(recipe: Recipe, profile: Profile) -> dict[str, Job]:
    """What a recipe trains in a profile, by key; nothing is trained."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.json"
        recipe.run(recipe.settings(profile, 0, {"keep": "nowhere", "train": "no", "study": str(path)}))
        jobs = [Job.from_json(job.text) for job in read_study(path).jobs]
    return {job.key: job for job in jobs}


def work(jobs: Sequence[Job]) -> dict[str, Any]:
    """How much training is in some jobs."""
    each = [operations(job.shape) * job.settings.n_samples for job in jobs]
    return {
        "trainings": len(jobs),
        "samples": sum(job.settings.n_samples for job in jobs),
        "operations": sum(each),
        "longest": max(each, default=0.0),
    }


def rounded(value: Any) -> Any:
    """Six digits of every number."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def collected(out: Path, log: str, commit: str) -> dict[str, Any]:
    """All that is kept of a run: settings, comparisons, tables and times, and the work of two profiles."""
    taken = {name: (float(wall), float(used)) for name, wall, used in READ.findall(log)}
    found: dict[str, Any] = {}
    unions: dict[str, dict[str, Job]] = {"medium": {}, "paper": {}}
    first: dict[str, str] = {}
    for name, recipe in trained().items():
        numbers = json.loads((out / name / "numbers.json").read_text())
        tables = {
            table: {column: values for column, values in columns.items() if column != "job"}
            for table, columns in numbers["tables"].items()
        }
        text = json.dumps([tables, numbers["comparisons"]])
        same = first.setdefault(text, name)
        found[name] = {
            "title": numbers["title"],
            "profile": numbers["profile"],
            "seed": numbers["seed"],
            "settings": {key: value for key, value in numbers["settings"].items() if key not in NOT_KEPT},
            "seconds": taken[name][0],
            "cpu_seconds": taken[name][1],
            "work": {},
        }
        if same == name:
            found[name]["comparisons"] = [
                [row["quantity"], row["paper"], row["computed"]] for row in numbers["comparisons"]
            ]
            found[name]["tables"] = rounded(tables)
        else:
            found[name]["same_as"] = same
        for profile, union in unions.items():
            jobs = jobs_of(recipe, profile)
            found[name]["work"][profile] = work(list(jobs.values()))
            if profile == "medium":  # "first" is what no recipe before this one has trained
                found[name]["work"]["first"] = work([job for key, job in jobs.items() if key not in union])
            union.update(jobs)
    versions = numbers["versions"]
    return {
        "command": "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/experiments.py "
        "--profile medium --out out/experiments",
        "commit": commit,
        "versions": {name: versions[name] for name in ("hardmax", "python", "numpy", "numba")},
        "work": {profile: work(list(union.values())) for profile, union in unions.items()},
        "recipes": found,
    }


def main() -> None:
    """Run them, or keep what a run found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profile", choices=("quick", "medium"), default="quick")
    parser.add_argument("--out", type=Path, default=Path("out/experiments"))
    parser.add_argument("--collect", type=Path, metavar="LOG", help="keep the results of a medium run")
    parser.add_argument("--commit", default="unknown", help="the sources of that run, with --collect")
    chosen = parser.parse_args()
    if chosen.collect is None:
        run(chosen.profile, chosen.out)
        return
    kept = collected(chosen.out, chosen.collect.read_text(), chosen.commit)
    lines = [json.dumps({key: value for key, value in kept.items() if key != "recipes"})[:-1]]
    rows = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in kept["recipes"].items()]
    FILE.write_text(lines[0] + ', "recipes": {\n' + ",\n".join(rows) + "\n}}\n")
    print(f"wrote {FILE}, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
