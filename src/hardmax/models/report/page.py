"""The report as one HTML file: what was read, figures, the table of heads, and how sure each number is.

The words stand in the template ``page.html.j2`` and in the table of columns ``columns.csv``, the numbers come
from here. The file carries its style, script and data, refuses by its own policy to load anything else, and
opens from disk. Token strings are data: the template escapes every value, and in the embedded JSON no
character is left that HTML could read as markup.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from hardmax.models.report.flow_figures import (
    growth,
    known_levels,
    known_tokens,
    recall,
    recall_rows,
    slice_figures,
)
from hardmax.models.report.head_figures import head_figures, layers_of, mean_of
from hardmax.models.report.kept_attention import MOST_ROWS, KeptAttention, margins_of
from hardmax.models.report.svg import CONTROL, Figure, drawing_style, figure_style, number, shortened
from hardmax.models.report.verdict import quoted
from hardmax.results import Result, strict

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas, HeadRecord
    from hardmax.models.report.model_report import ModelReport


def _resource(name: str) -> str:
    return (files("hardmax.models.report") / name).read_text(encoding="utf-8")


class Column(NamedTuple):
    """One column of the table of heads: the field of a record that it shows, what it is called, how sure it
    is ("" for numbers that only name a head), how it is written, and what it means."""

    group: str
    field: str
    name: str
    certainty: str
    form: str
    meaning: str


COLUMNS = tuple(Column(*row) for row in list(csv.reader(io.StringIO(_resource("columns.csv"))))[1:])
"""The columns of the table, in order."""


WORDS = (
    ("token", "a piece of the text; the model keeps one vector for each"),
    ("head", "in each layer, several heads let every token read from others; this is attention"),
    ("query, key", "a token that reads, and a token that is read, in one head"),
    ("probability", "how much of its attention a query gives to a key; over all keys it sums to 1"),
    ("winning key", "the key with the largest probability"),
    ("margin", "how far its score leads; one temperature makes a key 2.7 times as probable as the next"),
    (
        "hardmax",
        "attention that gives everything to the winning key; the theory behind this page is about it",
    ),
    ("read-out", "the token whose state is used after the last layer, such as a classification token"),
    ("sink", "a key that wins far more queries than its share, often without saying much"),
    ("influence", "how far the state of a token moves when one input token is replaced"),
)
"""What a reader who has not read the papers needs."""


def figures_of(report: ModelReport) -> dict[str, Figure]:
    """Every figure of a report, by name, in the order of the page."""
    made = {**head_figures(report.atlas), **slice_figures(report.atlas)}
    if report.flows:
        made["growth"] = growth(report.flows, report.read_out)
    rows = recall_rows(report.influence) if report.influence is not None else []
    if rows:
        made["recall"] = recall(rows)
    return made


def text_sections(report: ModelReport) -> dict[str, str]:
    """The sections about one text that there are, with their titles."""
    atlas = report.atlas
    slices = any(name.startswith("slice-") for name in report.figures)
    return {
        **({"routes": "Who reads whom"} if report.flows else {}),
        "read": "What was read",
        "hard": "Is attention hard?",
        "winning-keys": "Which keys win?",
        **({"cells": "How a layer cuts its inputs"} if slices or atlas.notes else {}),
        **({"flow": "What can the read-out token know?"} if report.flows else {}),
        **({"influence": "Does influence follow the sets?"} if report.influence else {}),
        "assumptions": "The assumptions of the theory, in practice",
        "heads": "Every head",
    }


def text_part(report: ModelReport, *, prefix: str = "", index: int = 0) -> Markup:
    """The sections about one text; ``prefix`` stands before their ids, ``index`` is its place in the data."""
    atlas, figures = report.atlas, report.figures
    groups = [(name, len(list(columns))) for name, columns in groupby(COLUMNS, key=lambda c: c.group)]
    return Markup(
        template("text.html.j2").render(
            report=report,
            prefix=prefix,
            index=index,
            atlas=atlas,
            figures=figures,
            slices=[name for name in figures if name.startswith("slice-")],
            sections=text_sections(report),
            verdict=report.verdict,
            strongest=_strongest_reads(report),
            rounding=_rounding(report.attention),
            most_rows=MOST_ROWS,
            mean=lambda field: whole_percent(mean_of(atlas.heads, field)),
            groups=groups,
            columns=COLUMNS,
            classes=_column_classes(),
            rows=head_cells(atlas),
        )
    )


def text_data(report: ModelReport, prefix: str = "") -> dict[str, Any]:
    """What the script of the page knows about one text."""
    found: dict[str, Any] = {"prefix": prefix, "csv": heads_csv(report.atlas)}
    if report.attention is not None:
        found.update(_attention_data(report, report.attention))
    return found


def framed(body: Markup, data: dict[str, Any], **words: Any) -> str:
    """A whole file around a body; the words are those of ``page.html.j2``."""
    routes = any("attention" in text for text in data["texts"])
    names = [*(("routes.js", "routes_view.js") if routes else ()), "report.js"]
    script = "\n".join(map(_resource, names))
    return template("page.html.j2").render(
        body=body,
        data=json_for_script({"style": drawing_style(), **data}),
        policy=content_policy(script),
        style=figure_style() + _resource("report.css"),
        script=script,
        columns=COLUMNS,
        **words,
    )


LAST_SECTIONS = (
    ("certainty", "How sure each number is", ""),
    ("settings", "Settings and versions", ""),
)
"""What stands below everything else: anchor, name, and the section of a text that it is, if any."""


def page(report: ModelReport) -> str:
    """The whole file."""
    atlas = report.atlas
    return framed(
        text_part(report),
        {"texts": [text_data(report)]},
        title=atlas.model,
        lede=f"{shape_of(atlas.heads)} ({atlas.family}) on {counted(len(atlas.text_tokens), 'token')}.",
        verdict=report.verdict,
        words=WORDS,
        facts=_facts(report),
        contents=[*((key, name, "") for key, name in text_sections(report).items()), *LAST_SECTIONS],
        skip_to="heads",
        settings=settings_of(report, atlas.settings),
        provenance=report.provenance,
        numbers="report.json and heads.csv",
    )


@cache
def template(name: str) -> Template:
    """A template; every value is escaped, and control characters in it become visible."""
    environment = Environment(
        loader=FunctionLoader(_resource), autoescape=True, undefined=StrictUndefined, finalize=_visible
    )
    environment.filters.update(many=counted, number=number, median=_median, joined=_joined, quoted=quoted)
    environment.globals.update(known_tokens=known_tokens, known_levels=known_levels)
    return environment.get_template(name)


def _visible(value: Any) -> Any:
    return value.translate(CONTROL) if isinstance(value, str) and not isinstance(value, Markup) else value


def json_for_script(value: Any) -> str:
    """Strict JSON that may stand inside a script element, whatever strings it holds.

    Examples
    --------
    >>> json_for_script(["</script><b>&"])
    '["\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e\\\\u0026"]'
    """
    # ASCII: U+2028 is escaped too
    written = json.dumps(strict(value), allow_nan=False, separators=(",", ":"))
    return written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def content_policy(script: str, *, connect: str | None = None) -> str:
    """Nothing may be loaded, no script may run but this one, and it may ask ``connect`` or nobody."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = ["default-src 'none'", "style-src 'unsafe-inline'", f"script-src 'sha256-{digest}'"]
    if connect is not None:
        allowed.append(f"connect-src {connect}")
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])


def _joined(sentence: str) -> str:
    """A sentence in which no line breaks between a number and its per cent sign."""
    return sentence.replace(" %", "\u00a0%")


def whole_percent(value: float) -> str:
    """A share in whole per cent."""
    return "–" if math.isnan(value) else f"{value:.0%}".replace("%", "\u00a0%")


def _median(values: Iterable[float]) -> float:
    known = [float(v) for v in values if not math.isnan(v)]
    return statistics.median(known) if known else math.nan


def counted(n: int, what: str) -> str:
    """A number of things."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def shape_of(heads: Sequence[Any]) -> str:
    """How many layers and heads there are, in words."""
    layers = layers_of(heads)
    counts = sorted({len(records) for _, records in layers})
    per = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{counted(len(layers), 'layer')} of {per} head{'' if per == '1' else 's'}"


def _facts(report: ModelReport) -> list[tuple[str, int | None, str]]:
    """The numbers at the top: what, out of how many, and what it means."""
    heads, verdict = report.atlas.heads, report.verdict
    facts: list[tuple[str, int | None, str]] = [
        (whole_percent(verdict.share), None, "of the queries are within 10\u00a0% of hardmax"),
        (
            str(len(verdict.described)),
            len(heads),
            "heads are near hardmax for at least half of their queries",
        ),
        (
            number(_median(r.top_probability for r in heads), 2),
            None,
            "probability of the winning key, median",
        ),
        (number(_median(r.margin_median for r in heads), 2), None, "temperatures by which it leads, median"),
    ]
    return facts


def _attention_data(report: ModelReport, kept: KeptAttention) -> dict[str, Any]:
    """What the section on routes reads."""
    atlas = report.atlas
    hardness: list[list[float | None]] = [[None] * n for n in kept.heads]
    for record in atlas.heads:
        known = not math.isnan(record.top_probability)
        hardness[record.layer][record.head] = round(record.top_probability, 3) if known else None
    return {
        "attention": kept.for_page(margins_of(kept, atlas.heads, atlas.margins)),
        "tokens": list(atlas.text_tokens),
        "keyTokens": list(atlas.key_tokens),
        "readOut": report.read_out,
        "hardness": hardness,
        "spanning": {piece.layer: list(piece.spanning) for piece in atlas.slices if piece.spanning},
        "sink": report.verdict.sinks[0].position if report.verdict.sinks else None,
    }


def _strongest_reads(report: ModelReport) -> list[tuple[str, ...]]:
    """What the read-out reads most, layer by layer: one row per layer with three reads at most."""
    kept = report.attention
    rows: list[tuple[str, ...]] = []
    if kept is None:
        return rows
    for layer in range(len(kept.heads)):
        best: dict[int, tuple[float, int]] = {}
        for head, row in enumerate(kept.rows_of(layer)):
            reads = zip(
                kept.order[row, report.read_out], kept.probabilities[row, report.read_out], strict=True
            )
            for key, p in reads:
                if p > best.get(int(key), (0.0, 0))[0]:
                    best[int(key)] = (float(p), head)
        ranked = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))[:3]
        words = [f"{_named(report.atlas.key_tokens, k)} ({p:.2f}, head {h})" for k, (p, h) in ranked]
        if words:
            rows.append((str(layer), words[0], ", ".join(words[1:])))
    return rows


def _named(tokens: Sequence[str], position: int) -> str:
    """A token in a sentence; one that occurs more than once with its position.

    >>> _named(["a", "b", "a"], 1), _named(["a", "b", "a"], 2)
    ('“b”', '“a” at 2')
    """
    token = tokens[position]
    return quoted(token) + (f" at {position}" if tokens.count(token) > 1 else "")


def _rounding(kept: KeptAttention | None) -> dict[str, str]:
    """How far what the page keeps is rounded, in words."""
    if kept is None:
        return {}
    what = (
        f"the {kept.n_kept} strongest of {kept.n_keys}" if kept.n_kept < kept.n_keys else f"all {kept.n_keys}"
    )
    scores = f"{kept.columns.shape[1]} of them" if kept.columns.shape[1] < kept.n_keys else "all of them"
    return {
        "probability": "square roots rounded to 1/255",
        "score": number(float(kept.step.max()), 2),
        "words": f"This section keeps, for every query of every head, {what} keys with probabilities whose "
        f"square roots are rounded to 1/255, and scores against {scores}. Which keys each rule reads was "
        "decided before rounding.",
    }


def settings_of(result: Result, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Settings and versions in words; no times: the same report gives the same bytes."""
    versions = {f"version of {key}": value for key, value in result.provenance.items()}
    pairs = {**settings, **versions}
    return [(str(key).replace("_", " "), _in_words(value)) for key, value in pairs.items()]


def _in_words(value: Any) -> str:
    if value is None:
        return "by default"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(_in_words(item) for item in value)
    return str(value)


# The table of heads
# ----------------------------------------------------------------------------------------------------------


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
        token = _sink_name(record, names)
        if token is None:
            return Cell("sink", "", "–")
        return Cell("sink", str(value), shortened(token, 12), f"{token} (position {value})")
    shown = {"share": share_words, "integer": "{:,.0f}".format, "number": number}[column.form](value)
    if column.field == "keys_can_win":
        shown = f"{shown}\u2009/\u2009{record.keys_can_win_of}"
    return Cell(column.field, sorted_by(value), shown)


def sorted_by(value: float) -> str:
    """What a cell is sorted by: seven digits, which keeps the page small; heads.csv has all of them."""
    return "" if math.isnan(value) else f"{value:.7g}"


def share_words(value: float) -> str:
    """A share in per cent, with what is not quite nothing or all said so."""
    if math.isnan(value):
        return "–"
    if 0 < value < 0.001 or 0.999 < value < 1:
        return f"{value:.2%}".replace("%", "\u00a0%")
    return f"{value:.1%}".replace(".0%", "%").replace("%", "\u00a0%")


def _sink_name(record: HeadRecord, names: Sequence[str]) -> str | None:
    return names[record.sink] if 0 <= record.sink < len(names) else None


def _column_classes() -> dict[str, str]:
    """How each column looks: the first of a group has a line before it, layer and head stay in sight."""
    starts = {next(columns).field for _, columns in groupby(COLUMNS, key=lambda c: c.group)}
    pinned = {"layer": " pin pin-0", "head": " pin pin-1"}
    return {c.field: ("first" if c.field in starts else "") + pinned.get(c.field, "") for c in COLUMNS}


def head_rows(atlas: HeadAtlas) -> list[dict[str, Any]]:
    """Every number of every head in plain Python, with the name of its sink."""
    return [{**asdict(r), "sink_token": _sink_name(r, atlas.key_tokens) or ""} for r in atlas.heads]


def heads_csv(atlas: HeadAtlas) -> str:
    """The same as comma-separated values."""
    return quoted_csv(head_rows(atlas))


def quoted_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as comma-separated values; words are quoted, so that no token breaks a line."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(list(rows[0]) if rows else [])
    for row in rows:
        writer.writerow(["" if isinstance(v, float) and math.isnan(v) else v for v in row.values()])
    return file.getvalue()
