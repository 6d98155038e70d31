"""The table of heads: which numbers it shows, how they are written, and how sure each of them is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hardmax.models.report_svg import escape, number, shortened

if TYPE_CHECKING:
    from hardmax.models.atlas import HeadAtlas
    from hardmax.models.head_records import HeadRecord

__all__ = ["COLUMNS", "Column", "head_rows", "heads_csv", "heads_table"]


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


def _whole(value: float) -> str:
    return "–" if value < 0 else f"{value:,.0f}"


COLUMNS = (
    Column("layer", "layer", "Head", "", "counted from 0", _whole),
    Column("head", "head", "Head", "", "counted from 0", _whole),
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
        _whole,
    ),
    Column("keys_do_win", "do win", "Keys", "measured", "keys that win for a query of this text", _whole),
    Column("usage_entropy", "entropy", "Keys", "measured", "entropy of how often each key wins, in bits"),
    Column(
        "largest_reach_margin",
        "margin",
        "Reach",
        "bounded",
        "the largest margin that any key can get at the largest query norm that occurs: attained; the bound "
        "that is "
        "never exceeded stands in heads.csv",
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
        "distance of a query to the nearest wall of its cell, in query space; median. The formula is exact, "
        "rounding "
        "is bounded by wall_distance_rounding in heads.csv",
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


def heads_table(atlas: HeadAtlas) -> str:
    """The table as markup; a script sorts it by the numbers that the cells carry."""
    groups: list[tuple[str, list[Column]]] = []
    for column in COLUMNS:
        if not groups or groups[-1][0] != column.group:
            groups.append((column.group, []))
        groups[-1][1].append(column)
    over = "".join(
        f'<th colspan="{len(columns)}" scope="colgroup">{escape(name)}</th>' for name, columns in groups
    )
    starts = {columns[0].field for _, columns in groups}
    heads = "".join(
        f'<th scope="col" aria-sort="none" class="{_classes(column, starts)}" '
        f'title="{escape(column.meaning)}">'
        f'<button type="button" class="sort">{escape(column.name)}</button>'
        f'<span class="sure">{escape(column.certainty)}</span></th>'
        for column in COLUMNS
    )
    body = "".join(_line(record, atlas.key_tokens, starts) for record in atlas.heads)
    return (
        '<table class="heads" id="table"><caption>One row per head. Choose a column to sort by it; choose it '
        "again to turn the order round.</caption>"
        f"<thead><tr>{over}</tr><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )


def _classes(column: Column, starts: set[str]) -> str:
    sticky = {"layer": " pin pin-0", "head": " pin pin-1"}.get(column.field, "")
    return ("first" if column.field in starts else "next") + sticky


def _line(record: HeadRecord, names: Sequence[str], starts: set[str]) -> str:
    cells = []
    for column in COLUMNS:
        value = getattr(record, column.field)
        shown = column.shown(value) if column.field != "sink" else _sink(record, names)
        if column.field == "keys_can_win" and value >= 0:
            shown = f"{shown}&thinsp;/&thinsp;{record.keys_can_win_of}"
            shown += "" if record.certified else '<abbr title="not certified">?</abbr>'
        key = float(value)
        sorts = "" if math.isnan(key) or (column.field == "sink" and key < 0) else f"{key:.17g}"
        tag = "th" if column.field in ("layer", "head") else "td"
        scope = ' scope="row"' if tag == "th" else ""
        cells.append(f'<{tag}{scope} class="{_classes(column, starts)}" data-v="{sorts}">{shown}</{tag}>')
    return f"<tr>{''.join(cells)}</tr>"


def _sink(record: HeadRecord, names: Sequence[str]) -> str:
    if not 0 <= record.sink < len(names):
        return "–"
    whole = escape(f"{names[record.sink]} (position {record.sink})")
    return f'<span class="word" title="{whole}">{escape(shortened(names[record.sink], 12))}</span>'


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
