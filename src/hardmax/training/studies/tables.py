"""The runs of a study as a table: CSV, JSON or parquet, one row per job, in the order of the study.

The columns are the entries of the jobs (``job.``), the single values of their results (``result.``), and what
the store knows. A file is written whole or not at all. Whatever is not finished is in the table too, with its
state and without a result.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hardmax.errors import InvalidInputError, MissingExtraError
from hardmax.results import columns_of, plain, strict
from hardmax.storage import written_whole
from hardmax.training.studies.store import JobRow, RunStore

__all__ = ["FORMATS", "export_rows", "history_rows", "job_rows", "write_table"]

FORMATS = ("csv", "json", "parquet")


def job_rows(store: RunStore) -> list[dict[str, Any]]:
    """One dictionary per job, all with the same entries."""
    return _filled(_row(row) for row in store.rows())


def _row(row: JobRow) -> dict[str, Any]:
    return {
        "position": row.position,
        "key": row.key,
        "state": row.state,
        **_flat(row.job, "job"),
        **{f"result.{name}": value for name, value in row.values.items()},
        "seconds": None if row.record is None else row.record.seconds,
        "cpu_seconds": None if row.record is None else row.record.cpu_seconds,
        "attempts": row.attempts,
        "version": None if row.record is None else row.record.version,
        "error": row.error,
    }


def history_rows(store: RunStore) -> list[dict[str, Any]]:
    """One dictionary per line of the table of each result; of a training, that is its history.

    Raises
    ------
    FileFormatError
        When a result file is damaged.
    """
    rows: list[dict[str, Any]] = []
    for row in store.rows("finished"):
        columns = {name: plain(list(c)) for name, c in columns_of(store.result(row.key)._table()).items()}
        job = _flat(row.job, "job")
        for step in range(max((len(column) for column in columns.values()), default=0)):
            values = {name: column[step] for name, column in columns.items() if step < len(column)}
            rows.append({"position": row.position, "key": row.key, **job, "step": step, **values})
    return _filled(rows)


def _flat(value: Any, name: str) -> dict[str, Any]:
    """The entries of nested objects under dotted names; a list is one entry, as JSON."""
    if isinstance(value, dict):
        return {
            key: entry for inner in value for key, entry in _flat(value[inner], f"{name}.{inner}").items()
        }
    return {name: json.dumps(value) if isinstance(value, list) else value}


def _filled(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the same entries in the same order, absent ones as ``None``; job, result, then the rest."""
    rows = list(rows)
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    first = [n for n in names if n in ("position", "key", "state")]
    groups = [first, *([n for n in names if n.startswith(prefix)] for prefix in ("job", "result."))]
    placed = {name for group in groups for name in group}
    order = [*(name for group in groups for name in group), *(n for n in names if n not in placed)]
    return [{name: row.get(name) for name in order} for row in rows]


def export_rows(rows: list[dict[str, Any]], form: str) -> bytes:
    """A table as the bytes of a file.

    Examples
    --------
    >>> export_rows([{"key": "a", "job.seed": 1}, {"key": "b", "job.seed": None}], "csv")
    b'key,job.seed\\r\\na,1\\r\\nb,\\r\\n'
    """
    match form:
        case "csv":
            text = io.StringIO(newline="")
            table = csv.DictWriter(text, list(rows[0]) if rows else [])
            table.writeheader()
            table.writerows(rows)
            return text.getvalue().encode()
        case "json":
            return (json.dumps(strict(rows), indent=1, allow_nan=False) + "\n").encode()
        case "parquet":
            return _parquet(rows)
        case _:
            raise InvalidInputError(
                f"the form of a table must be one of {', '.join(FORMATS)}, but was {form!r}."
            )


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    try:
        import pandas
        import pyarrow  # noqa: F401 (pandas writes parquet with it)
    except ImportError as error:
        raise MissingExtraError(
            "parquet needs pandas and pyarrow, which are not both installed; try: "
            "pip install 'hardmax[parquet]'."
        ) from error
    file = io.BytesIO()
    columns = {name: _one_kind([row[name] for row in rows]) for name in (rows[0] if rows else {})}
    pandas.DataFrame(columns).to_parquet(file, index=False, engine="pyarrow")
    return file.getvalue()


def _one_kind(column: list[Any]) -> list[Any]:
    """A column as parquet wants it, with values of one kind: numbers, where infinities are words in JSON, or
    else the JSON of each.

    Examples
    --------
    >>> _one_kind([1, 0.5, "inf", None]), _one_kind([2, "x"])
    ([1.0, 0.5, inf, None], ['2', '"x"'])
    """
    infinite = {"inf": math.inf, "-inf": -math.inf}
    kinds = {type(value) for value in column if value is not None}
    if len(kinds) < 2:
        return column
    numbers = [infinite.get(value, value) if isinstance(value, str) else value for value in column]
    if all(value is None or type(value) in (int, float) for value in numbers):
        return [None if value is None else float(value) for value in numbers]
    return [None if value is None else json.dumps(value) for value in column]


def write_table(rows: list[dict[str, Any]], path: str | Path) -> Path:
    """Write a table to a file whose ending says which form it has."""
    path = Path(path)
    content = export_rows(rows, path.suffix.lower().removeprefix("."))
    with written_whole(path) as file:
        file.write(content)
    return path
