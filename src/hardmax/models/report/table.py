"""The table of heads: which numbers it shows, how they are written, and how sure each of them is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from hardmax.models.report.svg import number, shortened

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas
    from hardmax.models.atlas.head_records import HeadRecord

__all__ = ["COLUMNS", "GROUPS", "Cell", "Column", "column_classes", "head_cells", "head_rows", "heads_csv"]


@dataclass(frozen=True)
class Column:
    """One column: where its number comes from, what it is called, and how sure it is."""

    field: str
    name: str
    group: str
    certainty: str
    meaning: str
    shown: Callable[[Any], str] = number


def _share(value: float) -> str:
    if math.isnan(value):
        return "–"
    if 0 < value < 0.001 or 0.999 < value < 1:
        return f"{value:.2%}".replace("%", "\u00a0%")
    return f"{value:.1%}".replace(".0%", "%").replace("%", "\u00a0%")


def _integer(value: float) -> str:
    return "–" if value < 0 else f"{value:,.0f}"


COLUMNS = (
    Column("layer", "layer", "Head", "", "counted from 0", _integer),
    Column("head", "head", "Head", "", "counted from 0", _integer),
    Column(
        "margin_median",
        "median",
        "Margin",
        "measured",
        "lead of the winning score over the next, in units of temperature; median over queries",
    ),
    Column("margin_low", "lowest tenth", "Margin", "measured", "one query in ten leads by less"),
    Column("margin_high", "highest tenth", "Margin", "measured", "one query in ten leads by more"),
    Column(
        "top_probability",
        "top probability",
        "Distance to hardmax",
        "measured",
        "probability of the winning key, median over queries",
    ),
    Column(
        "tv_to_hardmax",
        "total variation",
        "Distance to hardmax",
        "measured",
        "one minus the probability of the winner, median over queries",
    ),
    Column(
        "output_distance",
        "output",
        "Distance to hardmax",
        "measured",
        "distance between the outputs of softmax and hardmax over the norm of the former, median",
        _share,
    ),
    Column(
        "share_hard_10",
        "≤ 10 %, proven",
        "Hard queries",
        "bounded",
        "share of queries whose margin alone proves a total variation of at most 10 %",
        _share,
    ),
    Column(
        "share_measured_10",
        "≤ 10 %",
        "Hard queries",
        "measured",
        "share of queries for which it is so",
        _share,
    ),
    Column(
        "share_hard_1",
        "≤ 1 %, proven",
        "Hard queries",
        "bounded",
        "the same for a total variation of 1 %",
        _share,
    ),
    Column(
        "share_measured_1", "≤ 1 %", "Hard queries", "measured", "share of queries for which it is so", _share
    ),
    Column(
        "keys_can_win",
        "can win",
        "Keys",
        "certified",
        "keys whose cell has interior: some query would choose them",
        _integer,
    ),
    Column("keys_do_win", "do win", "Keys", "measured", "keys that win for a query of this text", _integer),
    Column("usage_entropy", "entropy", "Keys", "measured", "entropy of how often each key wins, in bits"),
    Column(
        "largest_reach_margin",
        "margin",
        "Reach",
        "bounded",
        "the largest margin that any key can get at the largest query norm that occurs: attained; the "
        "bound that is never exceeded stands in heads.csv",
    ),
    Column(
        "largest_reach_probability",
        "probability",
        "Reach",
        "bounded",
        "the largest probability that such a query can give a key: attained; its bound stands in heads.csv",
    ),
    Column("sink", "key", "Sink", "measured", "a key that wins far more than its share", str),
    Column("sink_share", "wins", "Sink", "measured", "share of the queries that it wins", _share),
    Column(
        "wall_distance_median",
        "distance",
        "Nearest wall",
        "measured",
        "distance of a query to the nearest wall of its cell, in query space; median. The formula is "
        "exact, rounding is bounded by wall_distance_rounding in heads.csv",
    ),
    Column(
        "wall_distance_relative",
        "over norm",
        "Nearest wall",
        "measured",
        "the same over the norm of the query",
    ),
)
"""The columns of the table, in order."""


GROUPS = tuple((name, len(list(columns))) for name, columns in groupby(COLUMNS, key=lambda c: c.group))
"""The groups that stand above the columns, and how many columns each has."""


class Cell(NamedTuple):
    """One cell: the number it is sorted by ("" where there is none), its words, and what a pointer shows."""

    field: str
    value: str
    shown: str
    hint: str = ""


def head_cells(atlas: HeadAtlas) -> list[list[Cell]]:
    """The cells of the table, one row per head."""
    return [[_cell(column, record, atlas.key_tokens) for column in COLUMNS] for record in atlas.heads]


def _cell(column: Column, record: HeadRecord, names: Sequence[str]) -> Cell:
    value = getattr(record, column.field)
    if column.field == "sink":
        if not 0 <= record.sink < len(names):
            return Cell("sink", "", "–")
        token = names[record.sink]
        return Cell("sink", str(record.sink), shortened(token, 12), f"{token} (position {record.sink})")
    shown = column.shown(value)
    if column.field == "keys_can_win" and value >= 0:
        shown = f"{shown}\u2009/\u2009{record.keys_can_win_of}{'' if record.certified else ' ?'}"
    return Cell(column.field, "" if math.isnan(value) else f"{float(value):.17g}", shown)


def column_classes() -> dict[str, str]:
    """How each column looks: the first of a group has a line before it, layer and head stay in sight."""
    starts = {next(columns).field for _, columns in groupby(COLUMNS, key=lambda c: c.group)}
    pinned = {"layer": " pin pin-0", "head": " pin pin-1"}
    return {c.field: ("first" if c.field in starts else "next") + pinned.get(c.field, "") for c in COLUMNS}


def head_rows(atlas: HeadAtlas) -> list[dict[str, Any]]:
    """Every number of every head in plain Python, with the name of its sink."""
    names = atlas.key_tokens
    return [
        {**asdict(record), "sink_token": names[record.sink] if 0 <= record.sink < len(names) else ""}
        for record in atlas.heads
    ]


def heads_csv(atlas: HeadAtlas) -> str:
    """The same as comma-separated values; words are quoted, so that no token breaks a line."""
    rows = head_rows(atlas)
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(list(rows[0]) if rows else [])
    for row in rows:
        writer.writerow([_plain(v) for v in row.values()])
    return file.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return "" if isinstance(value, float) and math.isnan(value) else value
