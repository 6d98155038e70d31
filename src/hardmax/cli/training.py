"""``hardmax training``: run the jobs of a study, resume it, see how far it is, export its table."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hardmax.cli.numbers import TIME_LIMIT, WHOLE
from hardmax.cli.outputs import JSON, out_folder, print_json, print_table
from hardmax.errors import IncompleteError, InvalidInputError

if TYPE_CHECKING:
    from hardmax.training.studies import RunStore, Study, StudyProgress

_LOG_EVERY = 30.0  # seconds between two lines in a log


@click.group()
def training() -> None:
    """Run studies: lists of jobs, of which no finished run is ever lost.

    A study is a folder. `run` starts it from a JSON file, `resume` continues it after any interruption, and
    several drivers may run it at once.

    \b
    Examples:
      hardmax training run heads.json --jobs 2
      hardmax training status out/heads
      hardmax training resume out/heads --jobs -1
      hardmax training export out/heads --out heads.csv
    """


def _driving(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        JSON,
        TIME_LIMIT,
        click.option("--retry-failed", is_flag=True, help="Also run failed jobs again."),
        click.option(
            "--runner",
            metavar="MODULE:FUNCTION",
            help="Confirm the code that a study runs, when it is no part of hardmax.",
        ),
        click.option(
            "--dask", metavar="tcp://...", help="The scheduler of a Dask cluster that runs the jobs."
        ),
        click.option(
            "--jobs", type=WHOLE, metavar="N", help="Jobs at a time; -1 for every core.  [default: 1]"
        ),
    ):
        command = option(command)
    return command


@training.command()
@click.argument("study")
@out_folder("The folder in which the folder of a new study is made.", "out")
@_driving
def run(
    study: str,
    out: Path,
    jobs: int | None,
    dask: str | None,
    runner: str | None,
    retry_failed: bool,
    time_limit: float | None,
    as_json: bool,
) -> None:
    """Run a study until every job is finished.

    STUDY is a JSON file that describes one, or the folder of one that was started. What is finished is never
    run again; jobs that the file has gained are added.

    \b
    Examples:
      hardmax training run heads.json --jobs 2
      hardmax training run heads.json --dask tcp://10.0.0.1:8786
    """
    started = None if Path(study).is_file() else _started(study, out)
    if started is not None:
        folder, made = started, None
    else:
        made = _read(study, out)
        folder = out / made.name
        _confirm(made, runner, study)
    _drive(folder, made, jobs, dask, runner, retry_failed, time_limit, as_json)


@training.command()
@click.argument("study")
@_driving
def resume(
    study: str,
    jobs: int | None,
    dask: str | None,
    runner: str | None,
    retry_failed: bool,
    time_limit: float | None,
    as_json: bool,
) -> None:
    """Continue a study that was started.

    STUDY is its folder. Result files are checked first; the job of a missing or damaged one is run again.

    \b
    Examples:
      hardmax training resume out/heads --jobs 2
      hardmax training resume out/heads --retry-failed
    """
    _drive(_folder(study), None, jobs, dask, runner, retry_failed, time_limit, as_json)


@training.command()
@click.argument("study")
@click.option("--check", is_flag=True, help="Read every result file and compare it with its checksum.")
@JSON
def status(study: str, check: bool, as_json: bool) -> None:
    """How far a study is.

    STUDY is its folder. Others may be running it meanwhile.

    \b
    Examples:
      hardmax training status out/heads
      hardmax training status out/heads --check --json
    """
    from hardmax.training.studies import RunStore
    from hardmax.training.studies.overview import progress_of

    store = RunStore(_folder(study))
    report = _report(store, progress_of(store))
    if check:
        report["damaged"] = store.damaged()
    if as_json:
        print_json(report)
    else:
        _print(report)


@training.command()
@click.argument("study")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.csv|json|parquet",
    help="The file to write; CSV on standard output otherwise.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of CSV.")
@click.option(
    "--history", is_flag=True, help="One row per line of each result's own table: the history of a training."
)
def export(study: str, out: Path | None, as_json: bool, history: bool) -> None:
    """Export the table of a study: one row per job, finished or not.

    STUDY is its folder. Parquet needs pandas and pyarrow.

    \b
    Examples:
      hardmax training export out/heads --out heads.csv
      hardmax training export out/heads --history --out curves.parquet
    """
    from hardmax.training.studies import RunStore
    from hardmax.training.studies.overview import FORMATS, export_rows, history_rows, job_rows, write_table

    if out is not None and out.suffix.lower().removeprefix(".") not in FORMATS:
        raise InvalidInputError(
            f"--out must end in {', '.join('.' + f for f in FORMATS)}, but was {str(out)!r}."
        )
    store = RunStore(_folder(study))
    rows = history_rows(store) if history else job_rows(store)
    if out is None:
        click.echo(export_rows(rows, "json" if as_json else "csv").decode().replace("\r\n", "\n"), nl=False)
        return
    write_table(rows, out)
    click.echo(f"wrote {out}: {len(rows)} rows", err=True)


# What STUDY means
# ----------------------------------------------------------------------------------------------------------


def _folder(study: str) -> Path:
    """The folder of a study that was started; ``out/`` may be left out."""
    folder = _started(study)
    if folder is None:
        raise InvalidInputError(
            f"STUDY must be the folder of a study, but {study!r} is none{_nearest(study)}"
        )
    return folder


def _started(study: str, out: Path = Path("out")) -> Path | None:
    from hardmax.training.studies import is_store

    return next((folder for folder in (Path(study), out / study) if is_store(folder)), None)


def _read(study: str, out: Path) -> Study:
    from hardmax.training.studies import read_study

    path = Path(study)
    if path.is_file():
        return read_study(path)
    raise InvalidInputError(
        f"STUDY must be a JSON file or the folder of a study, but {study!r} is neither{_nearest(study, out)}"
    )


def _nearest(study: str, out: Path = Path("out")) -> str:
    from hardmax.training.studies import is_store

    known: dict[str, str] = {}
    for parent in (Path(study).parent, out):
        if parent.is_dir():
            known.update({p.name: str(p) for p in parent.iterdir() if p.suffix == ".json" or is_store(p)})
    close = difflib.get_close_matches(Path(study).name, known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else "; docs/studies.md shows how to write one."


def _confirm(study: Study, runner: str | None, file: str) -> None:
    from hardmax.training.studies.runners import RUNNERS

    if runner is not None and runner != study.runner:
        raise InvalidInputError(f"--runner must be that of {file}, {study.runner!r}, but was {runner!r}.")
    if runner is None and study.runner not in RUNNERS:
        raise InvalidInputError(
            f"{file} asks to run {study.runner!r}, which is no part of hardmax; if you trust it, say so with "
            f"--runner {study.runner}."
        )


# Running
# ----------------------------------------------------------------------------------------------------------


def _drive(
    folder: Path,
    study: Study | None,
    jobs: int | None,
    dask: str | None,
    runner: str | None,
    retry_failed: bool,
    time_limit: float | None,
    as_json: bool,
) -> None:
    from hardmax.training.studies import RunStore, run_study

    try:
        done = run_study(
            folder,
            study,
            n_jobs=jobs,
            dask=dask,
            runner=runner if study is None else None,
            retry_failed=retry_failed,
            time_limit=time_limit,
            progress=True if sys.stderr.isatty() else _Log().write,
        )
    except KeyboardInterrupt:
        click.echo(f"what is finished is kept; continue with: hardmax training resume {folder}", err=True)
        raise
    report = _report(RunStore(folder), done)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report["failures"]:
        raise IncompleteError(
            f"{len(report['failures'])} of {done.total} jobs failed; hardmax training status {folder} says "
            "why, --retry-failed runs them again."
        )


class _Log:
    """A log: a line when something has changed, but not too often."""

    def __init__(self) -> None:
        self._next, self._last = float("-inf"), ""

    def write(self, state: StudyProgress) -> None:
        words = str(state)
        if words != self._last and time.monotonic() >= self._next:
            click.echo(words, err=True)
            self._next, self._last = time.monotonic() + _LOG_EVERY, words


# Reports
# ----------------------------------------------------------------------------------------------------------


def _report(store: RunStore, progress: StudyProgress) -> dict[str, Any]:
    return {
        "study": store.name,
        "runner": store.runner,
        "total": progress.total,
        "complete": progress.complete,
        **asdict(progress),
        "failures": [{"key": row.key, "job": row.job, "error": row.error} for row in store.rows("failed")],
    }


def _print(report: dict[str, Any]) -> None:
    from hardmax.training.studies.overview import duration

    rows = [[state, str(report[state])] for state in ("finished", "running", "waiting", "failed")]
    rows.append(["CPU time", duration(report["cpu_seconds"])])
    if report["drivers"]:
        rows.append(["drivers", f"{report['drivers']}, {report['slots']} jobs at a time"])
    if report["waiting"] or report["running"]:
        left = report["remaining"]
        unknown = "not known yet" if report["drivers"] else "no driver is running"
        rows.append(["remaining", unknown if left is None else f"about {duration(left)}"])
    notes = []
    if report["recovered"]:
        notes.append(f"{report['recovered']} result files were damaged; their jobs were run again.")
    if "damaged" in report:
        notes.append(f"damaged result files: {len(report['damaged'])}")
    for failure in report["failures"][:5]:
        notes.append(f"failed: {failure['key'][:12]}: {str(failure['error']).strip().splitlines()[-1]}")
    title = f"study {report['study']}: {report['total']} jobs, runner {report['runner']}"
    print_table(title, ["", "number"], rows, notes)
