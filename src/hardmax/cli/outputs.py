"""What commands print and write: a table for people, JSON for machines, result files and pictures."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.results import Result, strict
from hardmax.storage import target_of, written_whole

MAX_ROWS = 40
"""A table shows at most this many rows; JSON shows all."""

MAX_COORDINATES = 8

FILE = click.Path(path_type=Path)
"""A file that is read."""

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
"""The option of every command that prints a table."""

_TARGET = click.Path(dir_okay=False, path_type=Path)
_PLOT = click.option("--plot", type=_TARGET, metavar="FILE.svg|png", help="Draw the result into this file.")
_PICTURES = (".svg", ".png")

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def out_option(what: str = "Save the result; hm.load reads it back.") -> Option:
    """The option ``--out``, for a result."""
    return click.option("--out", type=_TARGET, metavar="FILE.npz", help=what)


def out_folder(what: str, default: str | None = None) -> Option:
    """The option ``--out``, for a folder."""
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=None if default is None else Path(default),
        show_default=True,
        metavar="DIR",
        help=what,
    )


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options ``--json``, ``--out`` and ``--plot``."""
    return JSON(out_option()(_PLOT(command)))


def check_targets(out: Path | None, plot: Path | None) -> None:
    """Refuse a file that could not be written before any time is spent on the mathematics."""
    for path, endings in ((out, (".npz",)), (plot, _PICTURES)):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise InvalidInputError(f"{path} must end in {' or '.join(endings)}.")
        check_folder(path)
    if plot is not None:
        import_module("hardmax.plotting")  # says which extra is missing, if it is


def check_folder(path: Path) -> None:
    """Refuse a place whose folder does not exist."""
    if not target_of(path).parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist.")


def save_and_draw(result: Result, out: Path | None, plot: Path | None, *, box: Any = None) -> None:
    """Write the files that were asked for, and say so on standard error."""
    if out is not None:
        result.save(out)
        click.echo(f"saved {out}", err=True)
    if plot is not None:
        write_picture(result.plot(box=box).figure, plot)


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure whole or not at all, and say so on standard error."""
    with written_whole(path) as file:
        figure.savefig(file, format=path.suffix.lower()[1:])
    click.echo(f"drew {path}", err=True)


def print_json(value: Any) -> None:
    """Print strict JSON: NaN becomes null, an infinity the string ``"inf"`` or ``"-inf"``."""
    click.echo(json.dumps(strict(value), indent=2, allow_nan=False))


def number(value: float) -> str:
    """A number as a table shows it; an absent one as an empty cell."""
    return "" if math.isnan(value) else f"{value:.6g}"


def counted(n: int, word: str, words: str = "") -> str:
    """A number and what it counts; ``words`` is the plural, where it takes more than an s.

    >>> counted(1, "claim"), counted(1200, "claim"), counted(2, "query", "queries")
    ('1 claim', '1200 claims', '2 queries')
    """
    return f"{n} {word}" if n == 1 else f"{n} {words or word + 's'}"


def point(values: Sequence[float] | NDArray[np.float64]) -> str:
    """A point as a table shows it: in full up to eight coordinates, else three of them and their number."""
    shown = [number(float(value)) for value in values[: MAX_COORDINATES + 1]]
    if len(values) > MAX_COORDINATES:
        shown = [*shown[:3], f"... {len(values)} numbers"]
    return f"({', '.join(shown)})"


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    n_rows: int | None = None,
    most: int = MAX_ROWS,
) -> None:
    """Print a table: drawn by rich on a terminal, aligned text otherwise.

    Rows may come one by one, if it is said how many there are; those beyond the most are never made.
    """
    if n_rows is None:
        rows = list(rows)
        n_rows = len(rows)
    shown = list(islice(rows, most))
    if n_rows > most:
        notes = [f"... and {n_rows - most} more rows; --json prints all.", *notes]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left", title_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for line in shown:
            table.add_row(*line)
        console = Console()
        console.print(table)
        for note in notes:
            console.print(note, markup=False, highlight=False)
        return
    click.echo(title)
    aligned = [_aligned([columns[i], *(line[i] for line in shown)]) for i in range(len(columns))]
    for line in zip(*aligned, strict=True):
        click.echo("  ".join(line).rstrip())
    for note in notes:
        click.echo(note)


def _aligned(column: Sequence[str]) -> list[str]:
    """A column padded to one width: numbers to the right, words to the left."""
    width = max(len(entry) for entry in column)
    numbers = all(entry[:1] in "-0123456789" for entry in column[1:])
    return [entry.rjust(width) if numbers else entry.ljust(width) for entry in column]
