"""The report as one HTML file: what was read, figures, the table of heads, and how sure each number is.

The words stand in the template ``page.html.j2``, the numbers come from here. The file carries its style,
script and data, refuses by its own policy to load anything else, and opens from disk. Token strings are data:
the template escapes every value, and in the embedded JSON no character is left that HTML could read as
markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import statistics
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from hardmax.models.report.flow_figures import growth, known_levels, known_tokens, recall, recall_rows
from hardmax.models.report.head_figures import head_figures, layers_of
from hardmax.models.report.slice_figures import slice_figures
from hardmax.models.report.svg import CONTROL, Figure, drawing_style, figure_style, number
from hardmax.models.report.table import COLUMNS, GROUPS, column_classes, head_cells, head_rows, heads_csv
from hardmax.results import strict

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas
    from hardmax.models.report.report import ModelReport

__all__ = ["figures_of", "json_for_script", "page"]

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


def _share(value: float) -> str:
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
        (_share(_median(can)), None, "of the keys of a head can win at all, median over heads"),
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
            f"{_share(mean('share_measured_1'))} of the queries are within 1 % of it in total variation, "
            f"{_share(mean('share_measured_10'))} within 10 % (mean over heads).",
            "measured",
        ),
        (
            "The margin is large enough for the stability theorem to say something (Theorem VI.1, "
            "corrected).",
            f"For {_share(mean('share_hard_10'))} of the queries at 10 %, {_share(mean('share_hard_1'))} at "
            f"1 %; in {len(speaks)} of {len(heads)} heads for any query at 10 %.",
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
