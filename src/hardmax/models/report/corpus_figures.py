"""Figures over many texts: heads with intervals, where attention is hard on average, and the texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hardmax.models.report.head_figures import (
    MANY,
    head_map,
    head_name,
    head_places,
    in_words,
    layer_axis,
)
from hardmax.models.report.svg import (
    LEFT,
    RIGHT,
    Figure,
    axis_title,
    legend,
    line,
    linear_scale,
    mark,
    number,
    shortened,
    tick,
    y_axis,
)

if TYPE_CHECKING:
    from hardmax.models.atlas.corpus_atlas import CorpusHead
    from hardmax.models.report.corpus_report import CorpusReport

_MOST_DOTS = 2000  # texts that are drawn one by one


def corpus_figures(report: CorpusReport) -> dict[str, Figure]:
    """Every figure over all texts, by name."""
    made = [shares_of_heads(report), top_probabilities(report), shares_of_texts(report)]
    return {figure.name: figure for figure in made}


def _share(record: CorpusHead) -> float:
    return record.mean["share_within_10"]


def shares_of_heads(report: CorpusReport) -> Figure:
    """The share of queries near hardmax, head by head, with intervals over texts."""
    heads = report.atlas.heads
    top, bottom = 26.0, 180.0
    scale = linear_scale(0.0, 1.0, bottom, top)
    parts = y_axis(scale, LEFT, RIGHT, "share of queries within 10\u00a0% of hardmax", top)
    parts += layer_axis(heads, top, bottom)
    half = scale.place(0.5)
    parts.append(line(LEFT, RIGHT, half, half, "limit"))
    r = 1.5 if len(heads) > MANY else 2.6
    for record, x in head_places(heads):
        mean, low, high = (part["share_within_10"] for part in (record.mean, record.low, record.high))
        if math.isnan(mean):
            continue
        ends = "" if math.isnan(low) else f", {low:.0%} to {high:.0%}"
        if ends:
            parts.append(line(x, x, scale.place(low), scale.place(high), "line-0", stroke_width=1.1))
        parts.append(mark(x, scale.place(mean), f"{head_name(record)}: {mean:.0%}{ends}", r=r))
    confidence = f"{100 * report.atlas.confidence:g}\u00a0%"
    key, used = legend(
        [
            (mark(0, 0), "mean over texts"),
            (line(0, 0, -6, 5, "line-0"), f"{confidence} interval over texts"),
            (line(-7, 7, 0, 0, "limit"), "one half: described"),
        ],
        LEFT,
        bottom + 45,
        RIGHT - LEFT,
    )
    return Figure(
        "heads-over-texts",
        "Which heads hardmax describes, over all texts",
        "One dot per head: the share of its queries whose winning key holds at least 0.9 of the probability, "
        "mean over texts. Bars are intervals over texts (Student’s t); a bar that crosses one half leaves "
        "the verdict on that head open.",
        "measured; intervals hold for texts of this kind",
        "".join(parts + key),
        bottom + 40 + used,
        in_words(heads, "share of queries within 10 % of hardmax", _share),
    )


def top_probabilities(report: CorpusReport) -> Figure:
    """The probability of the winning key, one square per head."""
    return head_map(
        report.atlas.heads,
        "hardness-over-texts",
        "Where attention is hard, over all texts",
        "Median probability of the winning key over the queries of a text, mean over texts: 1 is hardmax.",
        lambda r: r.mean["top_probability"],
        lambda r: (
            f"{r.mean['top_probability']:.2f}".lstrip("0") if r.mean["top_probability"] < 0.995 else "1"
        ),
        lambda r: f"{head_name(r)}: {number(r.mean['top_probability'])}",
        "median top probability, mean over texts",
    )


def shares_of_texts(report: CorpusReport) -> Figure:
    """The share of queries near hardmax of every text, by its length."""
    atlas, shares = report.atlas, report.shares
    top, bottom = 26.0, 150.0
    known = np.flatnonzero(np.isfinite(shares))
    most = next((edge for edge in (0.1, 0.2, 0.5) if known.size and shares[known].max() <= edge), 1.0)
    scale = linear_scale(0.0, most, bottom, top)
    lengths = atlas.n_tokens
    across = linear_scale(0.0, float(lengths.max()), LEFT + 4, RIGHT - 4, whole=True)
    parts = y_axis(scale, LEFT, RIGHT, "share of the text’s queries within 10\u00a0% of hardmax", top)
    parts += [tick(across.place(value), bottom + 13, word) for value, word in across.ticks]
    parts.append(axis_title((LEFT + RIGHT) / 2, bottom + 27, "tokens of the text"))
    full = set(report.full.tolist())
    drawn = [i for i in known.tolist() if i not in full][:_MOST_DOTS] + [
        i for i in known.tolist() if i in full
    ]
    for i in drawn:
        hover = f"{shortened(atlas.names[i], 40)}: {shares[i]:.1%} of the queries, {lengths[i]} tokens"
        place = across.place(float(lengths[i])), scale.place(float(shares[i]))
        parts.append(mark(*place, hover, colour=1 if i in full else 0, r=3.4 if i in full else 2.0))
    items = [(mark(0, 0, colour=1, r=3.4), "kept in full")]
    items = [(mark(0, 0, r=2.0), "a text"), *items] if len(full) < atlas.n_texts else items
    key, used = legend(items, LEFT, bottom + 45, RIGHT - LEFT)
    left_out = f" {len(known) - len(drawn):,} texts are not drawn." if len(drawn) < len(known) else ""
    low, high = (float(f(shares[known])) if known.size else math.nan for f in (np.min, np.max))
    return Figure(
        "texts",
        "How much the texts differ",
        "One dot per text: its length, and the share of its queries, over all heads, that are near hardmax. "
        f"Those in orange are kept in full.{left_out}",
        "measured",
        "".join(parts + key),
        bottom + 40 + used,
        f"{len(known)} texts; share of queries within 10 % of hardmax from {number(low)} to {number(high)}.",
    )
