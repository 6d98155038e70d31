"""What commands print and write: a table for people, JSON for machines, result files and pictures."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.results import Result, strict
from hardmax.storage import written_whole

__all__ = ["check_targets", "number", "output_options", "point", "print_json", "print_table", "save_and_draw"]

MAX_ROWS = 40
"""A table shows at most this many rows; JSON shows all."""

MAX_COORDINATES = 8

_PICTURES = (".svg", ".png")


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options ``--json``, ``--out`` and ``--plot``."""
    path = click.Path(dir_okay=False, path_type=Path)
    for option in (
        click.option("--plot", type=path, metavar="FILE.svg|png", help="Draw the result into this file."),
        click.option("--out", type=path, metavar="FILE.npz", help="Save the result; hm.load reads it back."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
    ):
        command = option(command)
    return command


def check_targets(out: Path | None, plot: Path | None) -> None:
    """Refuse a file that could not be written before any time is spent on the mathematics."""
    for path, endings in ((out, (".npz",)), (plot, _PICTURES)):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise InvalidInputError(f"{path} must end in {' or '.join(endings)}.")
        if not path.resolve().parent.is_dir():
            raise FileNotFoundError(f"cannot write {path}: its folder does not exist.")
    if plot is not None:
        import_module("hardmax.plotting")  # says which extra is missing, if it is


def save_and_draw(result: Result, out: Path | None, plot: Path | None, *, box: Any = None) -> None:
    """Write the files that were asked for, and say so on standard error."""
    if out is not None:
        result.save(out)
        click.echo(f"saved {out}", err=True)
    if plot is not None:
        figure = result.plot(box=box).figure
        with written_whole(plot) as file:
            figure.savefig(file, format=plot.suffix.lower()[1:])
        click.echo(f"drew {plot}", err=True)


def print_json(value: Any) -> None:
    """Print strict JSON: NaN becomes null, an infinity the string ``"inf"`` or ``"-inf"``."""
    click.echo(json.dumps(strict(value), indent=2, allow_nan=False))


def number(value: float) -> str:
    """A number as a table shows it; an absent one as an empty cell."""
    return "" if math.isnan(value) else f"{value:.6g}"


def point(values: Sequence[float] | NDArray[np.float64]) -> str:
    """A point as a table shows it: in full up to eight coordinates, else its first ones and how many there
    are."""
    if len(values) <= MAX_COORDINATES:
        return "(" + ", ".join(number(float(value)) for value in values) + ")"
    return "(" + ", ".join(number(float(value)) for value in values[:3]) + f", ... {len(values)} numbers)"


def print_table(
    title: str,
    columns: Sequence[str],
    row: Callable[[int], Sequence[str]],
    n_rows: int,
    notes: Sequence[str] = (),
    *,
    most: int = MAX_ROWS,
) -> None:
    """Print a table whose line ``i`` is ``row(i)``: drawn by rich on a terminal, aligned text otherwise."""
    shown = [row(i) for i in range(min(n_rows, most))]
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
