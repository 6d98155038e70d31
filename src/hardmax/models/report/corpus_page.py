"""The page of a report over many texts: the verdict over all, tables and figures, and one text at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from hardmax.models.report.page import (
    LAST_SECTIONS,
    WORDS,
    Cell,
    counted,
    framed,
    quoted_csv,
    settings_of,
    shape_of,
    share_words,
    sorted_by,
    template,
    text_data,
    text_part,
    text_sections,
    whole_percent,
)
from hardmax.models.report.svg import number, shortened

if TYPE_CHECKING:
    from hardmax.models.atlas.corpus_atlas import CorpusHead
    from hardmax.models.report.corpus_report import CorpusReport

MOST_TEXTS = 200
"""Texts in the table of the page; all are in ``texts.csv``."""


class _Column(NamedTuple):
    """One statistic in the table of heads: what it is called, and how it is written."""

    field: str
    name: str
    form: str


_COLUMNS = (
    _Column("share_within_10", "near hardmax", "share"),
    _Column("share_hard_10", "proven near", "share"),
    _Column("top_probability", "top probability", "number"),
    _Column("margin", "margin", "number"),
    _Column("entropy", "entropy, bits", "number"),
    _Column("keys_that_win", "keys that win", "share"),
    _Column("sink_share", "sink wins", "share"),
)


def corpus_page(report: CorpusReport) -> str:
    """The whole file."""
    atlas, verdict = report.atlas, report.verdict
    prefixes = [f"text-{i + 1}-" for i in report.full]
    parts = [
        {
            "name": atlas.names[i],
            "why": why,
            "opening": report.openings[i],
            "prefix": prefix,
            "verdict": text.verdict,
            "body": text_part(text, prefix=prefix, index=k),
        }
        for k, (i, why, prefix, text) in enumerate(
            zip(report.full, report.why, prefixes, report.texts, strict=True)
        )
    ]
    body = template("corpus.html.j2").render(
        report=report,
        atlas=atlas,
        parts=parts,
        figures=report.figures,
        texts=_text_rows(report),
        left_out=max(0, atlas.n_texts - MOST_TEXTS),
        columns=_COLUMNS,
        rows=[_cells(record) for record in atlas.heads],
        confidence=f"{100 * atlas.confidence:g}",
    )
    heads = [0] * (int(atlas.layer.max()) + 1)
    for layer, head in zip(atlas.layer, atlas.head, strict=True):
        heads[layer] = max(heads[layer], int(head) + 1)
    return framed(
        Markup(body),
        {
            "csv": corpus_heads_csv(report),
            "heads": heads,
            "texts": [text_data(text, prefix) for text, prefix in zip(report.texts, prefixes, strict=True)],
        },
        title=atlas.model,
        lede=f"{shape_of(atlas.heads)} ({atlas.family}) on {counted(atlas.n_texts, 'text')} with "
        f"{int(atlas.n_tokens.sum()):,} tokens.",
        verdict=verdict,
        words=[
            *WORDS,
            (
                "interval",
                "numbers differ from text to text; the mean over all texts of this kind lies in the interval "
                f"for {100 * atlas.confidence:g} of 100 such collections",
            ),
        ],
        facts=_facts(report),
        contents=[
            ("over-texts", "Every head, over all texts", ""),
            ("texts-section", "The texts", ""),
            ("one-text", "One text", ""),
            *((prefixes[0] + key, name, key) for key, name in text_sections(report.texts[0]).items()),
            *LAST_SECTIONS,
        ],
        skip_to="over-texts",
        settings=settings_of(
            report, {**atlas.settings, "texts": atlas.n_texts, "confidence": atlas.confidence}
        ),
        provenance=report.provenance,
        numbers="report.json, heads.csv and texts.csv",
    )


def _facts(report: CorpusReport) -> list[tuple[str, int | None, str]]:
    atlas, verdict = report.atlas, report.verdict
    top, margin = (np.nanmedian(atlas.interval(name).mean) for name in ("top_probability", "margin"))
    return [
        (
            whole_percent(verdict.share.mean),
            None,
            "of the queries of a text are within 10\u00a0% of hardmax, mean over texts",
        ),
        (
            str(len(verdict.described)),
            verdict.n_heads,
            "heads are near hardmax for at least half of their queries",
        ),
        (number(float(top), 2), None, "probability of the winning key, median head"),
        (number(float(margin), 2), None, "temperatures by which it leads, median head"),
    ]


def _cells(record: CorpusHead) -> list[Cell]:
    """One row of the table of heads: the mean is sorted by, the interval stands beside it."""
    cells = [
        Cell("layer", str(record.layer), str(record.layer)),
        Cell("head", str(record.head), str(record.head)),
    ]
    for column in _COLUMNS:
        form = share_words if column.form == "share" else number
        mean, low, high = (part[column.field] for part in (record.mean, record.low, record.high))
        alike = math.isnan(low) or form(low) == form(mean) == form(high)
        ends = "" if alike else f"{form(low)} to {form(high)}".replace("\u00a0% to", " to")
        cells.append(Cell(column.field, sorted_by(mean), form(mean), ends))
    sink = shortened(record.sink, 12) if record.sink else "–"
    cells.append(
        Cell(
            "sink",
            str(record.sink_texts) if record.sink else "",
            sink,
            counted(record.sink_texts, "text") if record.sink else "",
        )
    )
    return cells


def _text_rows(report: CorpusReport) -> list[dict[str, Any]]:
    """The texts that the table of the page holds: those in full first, then the others in order."""
    atlas, shares = report.atlas, report.shares
    place = {int(i): k for k, i in enumerate(report.full)}
    order = [*place, *(i for i in range(atlas.n_texts) if i not in place)][:MOST_TEXTS]
    return [
        {
            "name": atlas.names[i],
            "opening": report.openings[i],
            "tokens": int(atlas.n_tokens[i]),
            "share": share_words(float(shares[i])),
            "why": report.why[place[i]] if i in place else "",
            "index": place.get(i),
        }
        for i in order
    ]


def corpus_heads_csv(report: CorpusReport) -> str:
    """Statistics of every head with intervals, as comma-separated values."""
    table = report.atlas._table()
    rows = zip(*(np.asarray(column).tolist() for column in table.values()), strict=True)
    return quoted_csv([dict(zip(table, row, strict=True)) for row in rows])


def texts_csv(report: CorpusReport) -> str:
    """Every text with its share, as comma-separated values."""
    reasons = dict(zip(report.full.tolist(), report.why, strict=True))
    return quoted_csv(
        [
            {
                "name": name,
                "tokens": int(report.atlas.n_tokens[i]),
                "share_within_10": float(report.shares[i]),
                "in_full": reasons.get(i, ""),
                "opening": report.openings[i],
            }
            for i, name in enumerate(report.atlas.names)
        ]
    )
