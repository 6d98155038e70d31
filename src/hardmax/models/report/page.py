"""The report as one HTML file: what was read, figures, the table of heads, and how sure each number is.

The columns of the table say which numbers it shows, how they are written, and how sure each of them is.
The words stand in the template ``page.html.j2``, the numbers come from here. The file carries its style,
script and data, refuses by its own policy to load anything else, and opens from disk. Token strings are data:
the template escapes every value, and in the embedded JSON no character is left that HTML could read as
markup.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from hardmax.models.report.flow_figures import (
    growth,
    known_levels,
    known_tokens,
    recall,
    recall_rows,
    slice_figures,
)
from hardmax.models.report.head_figures import head_figures, layers_of
from hardmax.models.report.svg import CONTROL, Figure, drawing_style, figure_style, number, shortened
from hardmax.results import strict

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas, HeadRecord
    from hardmax.models.report.report import ModelReport

__all__ = [
    "COLUMNS",
    "Cell",
    "Column",
    "GROUPS",
    "column_classes",
    "figures_of",
    "head_cells",
    "head_rows",
    "heads_csv",
    "json_for_script",
    "page",
]


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
        "MaxMargin",
        "bounded",
        "the largest margin that any key can get at the largest query norm that occurs: attained; the "
        "bound that is never exceeded stands in heads.csv",
    ),
    Column(
        "largest_reach_probability",
        "probability",
        "MaxMargin",
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

_SHOWN_TOKENS = 600

_CERTAINTIES = (
    (
        "exact",
        "true of the numbers of the model as they are; decided in rationals where floats cannot decide",
    ),
    ("certified", "proven, with a witness for every key that can win and a certificate for every other"),
    ("measured", "computed in double precision on this text; another text gives other numbers"),
    ("bounded", "a guarantee from one side; the truth may be better"),
)


def figures_of(report: ModelReport) -> dict[str, Figure]:
    """Every figure of a report, by name, in the order of the page."""
    made = {**head_figures(report.atlas), **slice_figures(report.atlas)}
    if report.flows:
        figure = growth(report.flows, report.read_out)
        made[figure.name] = figure
    if report.influence is not None:
        rows = recall_rows(report.influence)
        if rows:
            figure = recall(rows)
            made[figure.name] = figure
    return made


def page(report: ModelReport) -> str:
    """The whole file."""
    atlas, figures = report.atlas, report.figures
    slices = [name for name in figures if name.startswith("slice-")]
    sections = {
        "read": "What was read",
        "hard": "Is attention hard?",
        "winning-keys": "Which keys win?",
        **({"cells": "How a layer cuts its inputs"} if slices or atlas.notes else {}),
        **({"flow": "What can the read-out token know?"} if report.flows else {}),
        **({"influence": "Does influence follow the sets?"} if report.influence else {}),
        "assumptions": "The assumptions of the theory, in practice",
        "heads": "Every head",
        "certainty": "How sure each number is",
        "settings": "Settings and versions",
    }
    script = _resource("report.js")
    data = {"heads": head_rows(atlas), "csv": heads_csv(atlas), "style": drawing_style()}
    return _template().render(
        report=report,
        atlas=atlas,
        figures=figures,
        slices=slices,
        sections=sections,
        policy=_policy(script),
        style=figure_style() + _resource("report.css"),
        script=script,
        data=json_for_script(data),
        shape=_shape(atlas),
        facts=_facts(report),
        shown_tokens=_SHOWN_TOKENS,
        fidelity=_fidelity(atlas),
        most_keys=max(record.keys_can_win_of for record in atlas.heads),
        assumptions=_assumptions(report),
        groups=GROUPS,
        columns=COLUMNS,
        classes=column_classes(),
        rows=head_cells(atlas),
        certainties=_CERTAINTIES,
        numbers=[(f"{c.group}: {c.name}", c.meaning, c.certainty) for c in COLUMNS if c.certainty],
        settings=_settings(report),
        **_known(report),
    )


@cache
def _template() -> Template:
    """The template; every value is escaped, and control characters in it become visible."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_visible)
    environment.filters["many"] = _many
    return environment.from_string(_resource("page.html.j2"))


def _visible(value: Any) -> Any:
    return value.translate(CONTROL) if isinstance(value, str) and not isinstance(value, Markup) else value


def json_for_script(value: Any) -> str:
    """Strict JSON that may stand inside a script element, whatever strings it holds.

    Examples
    --------
    >>> json_for_script(["</script><b>&"])
    '["\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e\\\\u0026"]'
    """
    written = json.dumps(
        strict(value), allow_nan=False, separators=(",", ":")
    )  # ASCII: U+2028 is escaped too
    return written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(script: str) -> str:
    """Nothing may be loaded from anywhere, and no script may run but the one below."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = ["default-src 'none'", "style-src 'unsafe-inline'", f"script-src 'sha256-{digest}'"]
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])


def _resource(name: str) -> str:
    return (files("hardmax.models.report") / name).read_text(encoding="utf-8")


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}".replace("%", "\u00a0%")


def _median(values: Sequence[float]) -> float:
    known = [float(v) for v in values if not math.isnan(v)]
    return statistics.median(known) if known else math.nan


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _shape(atlas: HeadAtlas) -> str:
    layers = layers_of(atlas.heads)
    counts = sorted({len(records) for _, records in layers})
    per = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{_many(len(layers), 'layer')} of {per} head{'' if per == '1' else 's'}"


def _facts(report: ModelReport) -> list[tuple[str, int | None, str]]:
    """The numbers at the top: what, out of how many, and what it means."""
    heads = report.atlas.heads
    can = [r.keys_can_win / r.keys_can_win_of for r in heads if r.keys_can_win_of > 0 <= r.keys_can_win]
    facts: list[tuple[str, int | None, str]] = [
        (
            number(_median([r.margin_median for r in heads])),
            None,
            "median margin over heads, in units of temperature",
        ),
        (
            str(sum(r.top_probability >= 0.9 for r in heads)),
            len(heads),
            "heads whose winner gets at least 0.9 of the probability, median over queries",
        ),
        (_percent(_median(can)), None, "of the keys of a head can win at all, median over heads"),
    ]
    for flow in report.flows[:1]:
        name, known = flow.tokens[report.read_out][:12], int(flow.sizes[-1, report.read_out])
        meaning = f"positions that {name} can know at the end, by {flow.rule} routing"
        facts.append((str(known), len(flow.key_tokens), meaning))
    return facts


def _fidelity(atlas: HeadAtlas) -> list[tuple[str, str]]:
    reading = atlas.reading
    rows = [
        ("Scores", f"{number(reading.score_difference, 2)} of the largest score"),
        ("Probabilities", number(reading.probability_difference, 2)),
    ]
    if reading.native_difference is not None:
        rows.append(("Probabilities, in the precision of the weights", number(reading.native_difference, 2)))
    return rows


def _known(report: ModelReport) -> dict[str, Any]:
    """What the read-out may know, token by token."""
    if not report.flows:
        return {}
    flow, position = report.flows[0], report.read_out
    return {
        "known": known_tokens(flow, position, report.needed),
        "known_levels": known_levels(flow, position),
        "needed": [flow.key_tokens[s] for s in report.needed],
        "all_needed_known": set(flow.known_by(position)).issuperset(report.needed),
    }


def _assumptions(report: ModelReport) -> list[tuple[str, str, str]]:
    heads = report.atlas.heads

    def mean(field: str) -> float:
        values = [float(getattr(r, field)) for r in heads if not math.isnan(float(getattr(r, field)))]
        return sum(values) / len(values) if values else math.nan

    every = [r for r in heads if 0 <= r.keys_can_win == r.keys_can_win_of]
    speaks = [r for r in heads if r.share_hard_10 > 0]
    ties = [int(flow.ties.sum()) for flow in report.flows[:1]]
    return [
        *(
            (
                "One key wins: no two share the largest score.",
                "So for every query of every head."
                if n == 0
                else f"Not so for {n:,} queries, over all heads.",
                "measured",
            )
            for n in ties
        ),
        (
            "Attention is hardmax.",
            f"{_percent(mean('share_measured_1'))} of the queries are within 1 % of it in total variation, "
            f"{_percent(mean('share_measured_10'))} within 10 % (mean over heads).",
            "measured",
        ),
        (
            "The margin is large enough for the stability theorem to say something (Theorem VI.1, "
            "corrected).",
            f"For {_percent(mean('share_hard_10'))} of the queries at 10 %, "
            f"{_percent(mean('share_hard_1'))} at 1 %; in {len(speaks)} of {len(heads)} heads for any query "
            "at 10 %.",
            "bounded",
        ),
        (
            "Every key has a cell with interior (keys in general position, none in the hull of the others).",
            f"In {len(every)} of {len(heads)} heads.",
            "certified" if all(r.certified for r in heads) else "partly certified",
        ),
        (
            "Cells are used.",
            f"On this text {number(_median([r.keys_do_win for r in heads]))} of "
            f"{number(_median([r.n_keys for r in heads]))} keys win in the median head.",
            "measured",
        ),
        (
            "Queries lie clear of walls.",
            f"The nearest wall is {number(_median([r.wall_distance_relative for r in heads]))} of the "
            "query’s norm away in the median head.",
            "measured",
        ),
    ]


def _settings(report: ModelReport) -> list[tuple[str, str]]:
    atlas = report.atlas
    forward = atlas.reading.forward_seconds
    times = f"{number(float(atlas.seconds), 2)} s for the atlas, {number(forward, 2)} s for the forward pass"
    pairs = {
        **dict(atlas.settings),
        "time": times,
        **{f"version of {key}": value for key, value in report.provenance.items()},
    }
    return [(str(key).replace("_", " "), _in_words(value)) for key, value in pairs.items()]


def _in_words(value: Any) -> str:
    if value is None:
        return "by default"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(_in_words(item) for item in value)
    return str(value)


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
