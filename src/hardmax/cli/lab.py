"""``hardmax lab``: run the jobs of a study, go on with it, see how far it is, take its table out."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hardmax.cli.outputs import print_json, print_table
from hardmax.errors import IncompleteError, InvalidInputError

if TYPE_CHECKING:
    from hardmax.lab.progress import StudyProgress
    from hardmax.lab.studies import Study

__all__ = ["lab"]

_TELL = 30.0  # seconds between two lines in a log


@click.group()
def lab() -> None:
    """Run studies: lists of jobs of which none is ever lost.

    A study lives in a folder. It is begun from a JSON file with `run`, continued with `resume` after whatever
    happened, and may be worked on by several drivers at once.

    \b
    Examples:
      hardmax lab run heads.json --jobs 2
      hardmax lab status out/heads
      hardmax lab resume out/heads --jobs -1
      hardmax lab export out/heads --out heads.csv
    """


def _driving(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
        click.option("--retry-failed", is_flag=True, help="Run jobs again that have failed, too."),
        click.option(
            "--runner",
            metavar="MODULE:FUNCTION",
            help="Confirm the code that a study runs, when it is no part of hardmax.",
        ),
        click.option(
            "--dask", metavar="tcp://...", help="The scheduler of a Dask cluster that runs the jobs."
        ),
        click.option(
            "--jobs", type=int, metavar="N", help="Jobs at a time; -1 for every core.  [default: 1]"
        ),
    ):
        command = option(command)
    return command


@lab.command()
@click.argument("study")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    metavar="DIR",
    help="The folder in which the folder of a new study is made.",
)
@_driving
def run(
    study: str,
    out: Path,
    jobs: int | None,
    dask: str | None,
    runner: str | None,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Run a study until every job is finished.

    STUDY is a JSON file that describes one, or the folder of one that was begun. What is finished is never
    run again; jobs that the file has gained are added.

    \b
    Examples:
      hardmax lab run heads.json --jobs 2
      hardmax lab run heads.json --dask tcp://10.0.0.1:8786
    """
    begun = None if Path(study).is_file() else _begun(study, out)
    if begun is not None:
        folder, made = begun, None
    else:
        made = _read(study, out)
        folder = out / made.name
        _confirm(made, runner, study)
    _drive(folder, made, jobs, dask, runner, retry_failed, as_json)


@lab.command()
@click.argument("study")
@_driving
def resume(
    study: str, jobs: int | None, dask: str | None, runner: str | None, retry_failed: bool, as_json: bool
) -> None:
    """Go on with a study that was begun.

    STUDY is its folder. Result files are checked first; the job of a missing or damaged one is run again.

    \b
    Examples:
      hardmax lab resume out/heads --jobs 2
      hardmax lab resume out/heads --retry-failed
    """
    _drive(_folder(study), None, jobs, dask, runner, retry_failed, as_json)


@lab.command()
@click.argument("study")
@click.option("--check", is_flag=True, help="Read every result file and compare it with its checksum.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def status(study: str, check: bool, as_json: bool) -> None:
    """How far a study is.

    STUDY is its folder. Others may be at work on it meanwhile.

    \b
    Examples:
      hardmax lab status out/heads
      hardmax lab status out/heads --check --json
    """
    from hardmax.lab.progress import progress_of
    from hardmax.lab.store import RunStore

    with RunStore(_folder(study)) as store:
        progress = progress_of(store)
        failed = store.rows("failed")
        report = {
            "study": store.name,
            "runner": store.runner,
            **_numbers(progress),
            "failures": [{"key": row.key, "job": row.job, "error": row.error} for row in failed],
            **({"damaged": store.damaged()} if check else {}),
        }
    if as_json:
        print_json(report)
    else:
        _print(report)


@lab.command()
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
    """Take the table of a study out: one row per job, finished or not.

    STUDY is its folder. Parquet needs pandas and pyarrow.

    \b
    Examples:
      hardmax lab export out/heads --out heads.csv
      hardmax lab export out/heads --history --out curves.parquet
    """
    from hardmax.lab.exports import FORMATS, export_rows, history_rows, job_rows, write_table
    from hardmax.lab.store import RunStore

    if out is not None and out.suffix.lower().removeprefix(".") not in FORMATS:
        raise InvalidInputError(
            f"--out must end in {', '.join('.' + f for f in FORMATS)}, but was {str(out)!r}."
        )
    with RunStore(_folder(study)) as store:
        rows = history_rows(store) if history else job_rows(store)
    if out is None:
        click.echo(export_rows(rows, "json" if as_json else "csv").decode().replace("\r\n", "\n"), nl=False)
        return
    write_table(rows, out)
    click.echo(f"wrote {out}: {len(rows)} rows", err=True)


# What STUDY means
# ----------------------------------------------------------------------------------------------------------


def _folder(study: str) -> Path:
    """The folder of a study that was begun; ``out/`` need not be said."""
    folder = _begun(study)
    if folder is None:
        raise InvalidInputError(
            f"STUDY must be the folder of a study, but {study!r} is none{_nearest(study)}"
        )
    return folder


def _begun(study: str, out: Path = Path("out")) -> Path | None:
    from hardmax.lab.store import is_store

    return next((folder for folder in (Path(study), out / study) if is_store(folder)), None)


def _read(study: str, out: Path) -> Study:
    from hardmax.lab.studies import read_study

    path = Path(study)
    if path.is_file():
        return read_study(path)
    raise InvalidInputError(
        f"STUDY must be a JSON file or the folder of a study, but {study!r} is neither{_nearest(study, out)}"
    )


def _nearest(study: str, out: Path = Path("out")) -> str:
    from hardmax.lab.store import is_store

    known: dict[str, str] = {}
    for parent in (Path(study).parent, out):
        if parent.is_dir():
            known.update({p.name: str(p) for p in parent.iterdir() if p.suffix == ".json" or is_store(p)})
    close = difflib.get_close_matches(Path(study).name, known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else "; docs/studies.md shows how to write one."


def _confirm(study: Study, runner: str | None, file: str) -> None:
    from hardmax.lab.runners import RUNNERS

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
    as_json: bool,
) -> None:
    from hardmax.lab.drivers import run_study
    from hardmax.lab.store import RunStore

    try:
        with _told() as told:
            done = run_study(
                folder,
                study,
                jobs=jobs,
                dask=dask,
                runner=runner if study is None else None,
                retry_failed=retry_failed,
                progress=told,
            )
    except KeyboardInterrupt:
        click.echo(f"what is finished is kept; go on with: hardmax lab resume {folder}", err=True)
        raise
    with RunStore(folder) as store:
        failed = [{"key": row.key, "job": row.job, "error": row.error} for row in store.rows("failed")]
        report = {"study": store.name, "runner": store.runner, **_numbers(done), "failures": failed}
    if as_json:
        print_json(report)
    else:
        _print(report)
    if failed:
        raise IncompleteError(
            f"{len(failed)} of {done.total} jobs failed; hardmax lab status {folder} says why, "
            "--retry-failed runs them again."
        )


@contextmanager
def _told() -> Iterator[Callable[[StudyProgress], object]]:
    """Progress on standard error: a line that changes on a terminal, a line now and then in a log."""
    if not sys.stderr.isatty():
        yield _Log().tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task("", total=None)

        def told(state: StudyProgress) -> None:
            line.update(task, total=state.total, completed=state.finished, description=_in_words(state))

        yield told


class _Log:
    """Says something when jobs have finished, but not too often."""

    def __init__(self) -> None:
        self._next, self._last = float("-inf"), ""

    def tell(self, state: StudyProgress) -> None:
        words = _in_words(state)
        if words != self._last and time.monotonic() >= self._next:
            click.echo(words, err=True)
            self._next, self._last = time.monotonic() + _TELL, words


def _in_words(state: StudyProgress) -> str:
    words = [f"{state.finished} of {state.total} finished", f"{state.running} running"]
    if state.failed:
        words.append(f"{state.failed} failed")
    if state.recovered:
        words.append(f"{state.recovered} with a damaged file run again")
    if state.remaining is not None:
        words.append(f"about {_duration(state.remaining)} left")
    if state.trouble:
        words.append(state.trouble)
    return ", ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


# Telling
# ----------------------------------------------------------------------------------------------------------


def _numbers(progress: StudyProgress) -> dict[str, Any]:
    return {"total": progress.total, "complete": progress.complete, **asdict(progress)}


def _print(report: dict[str, Any]) -> None:
    rows = [[state, str(report[state])] for state in ("finished", "running", "waiting", "failed")]
    rows.append(["CPU time", _duration(report["cpu_seconds"])])
    if report["drivers"]:
        rows.append(["drivers", f"{report['drivers']}, {report['slots']} jobs at a time"])
    if report["waiting"] or report["running"]:
        left = report["remaining"]
        unknown = "not known yet" if report["drivers"] else "nobody is at work"
        rows.append(["remaining", unknown if left is None else f"about {_duration(left)}"])
    notes = []
    if report["recovered"]:
        notes.append(f"{report['recovered']} result files were damaged; their jobs were run again.")
    if report["running"] and not report["drivers"]:
        notes.append("Whoever ran the jobs that were running is gone; hardmax lab resume runs them again.")
    if "damaged" in report:
        notes.append(f"damaged result files: {len(report['damaged'])}")
    for failure in report["failures"][:5]:
        notes.append(f"failed: {failure['key'][:12]}: {str(failure['error']).strip().splitlines()[-1]}")
    title = f"study {report['study']}: {report['total']} jobs, runner {report['runner']}"
    print_table(title, ["", "number"], rows.__getitem__, len(rows), notes)
