"""The report as one HTML file: what was read, figures, the table of heads, and how sure each number is.

The file carries its style, script and data, refuses by its own policy to load anything else, and opens from
disk. Token strings are data: they pass through :func:`~hardmax.models.report_svg.escape`, and in the embedded
JSON no character is left that HTML could read as markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from hardmax.models.report_figures import head_figures, layers_of
from hardmax.models.report_flow import growth, known_text, recall, recall_rows
from hardmax.models.report_slices import slice_figures
from hardmax.models.report_svg import Figure, drawing_style, escape, figure_style, number
from hardmax.models.report_table import COLUMNS, head_rows, heads_csv, heads_table
from hardmax.results import strict

if TYPE_CHECKING:
    from hardmax.models.atlas import HeadAtlas
    from hardmax.models.report import Report

__all__ = ["figures_of", "json_for_script", "page"]

_SHOWN_TOKENS = 600


def figures_of(report: Report) -> dict[str, Figure]:
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


def page(report: Report) -> str:
    """The whole file."""
    figures = report.figures
    sections = [
        ("read", "What was read", _read(report)),
        ("hard", "Is attention hard?", _hard(figures)),
        ("winning-keys", "Which keys win?", _keys(report, figures)),
        ("cells", "How a layer cuts its inputs", _cells(report.atlas, figures)),
        ("flow", "What can the read-out token know?", _flow(report, figures)),
        ("influence", "Does influence follow the sets?", _influence(report, figures)),
        ("premises", "The premises of theory, in practice", _premises(report)),
        ("heads", "Every head", _heads(report.atlas)),
        ("certainty", "How sure each number is", _certainty(report)),
        ("settings", "Settings and versions", _settings(report)),
    ]
    present = [section for section in sections if section[2]]
    contents = "".join(f'<li><a href="#{key}">{escape(title)}</a></li>' for key, title, _ in present)
    body = "".join(
        f'<section id="{key}" aria-labelledby="{key}-heading"><h2 '
        f'id="{key}-heading">{escape(title)}</h2>{inside}</section>'
        for key, title, inside in present
    )
    script = _resource("report.js")
    data = {"heads": head_rows(report.atlas), "csv": heads_csv(report.atlas), "style": drawing_style()}
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<title>{escape(report.atlas.model)}: hardmax report</title>
<style>
{figure_style()}{_resource("report.css")}</style>
</head>
<body>
<a class="skip" href="#heads">To the table of heads</a>
<div class="page">
<header>
<p class="kicker">hardmax report</p>
<button type="button" id="theme" hidden>Dark</button>
<h1>{escape(report.atlas.model)}</h1>
<p class="lede">{_lede(report)}</p>
{_facts(report)}
</header>
<div class="frame-of-page">
<nav aria-label="Contents"><ol>{contents}</ol></nav>
<main>{body}</main>
</div>
<footer>Made by hardmax {escape(report.provenance.get("hardmax", ""))}. This file is complete: it loads
nothing and sends nothing. Its numbers stand beside it as report.json and heads.csv, its drawings in the
folder figures.</footer>
</div>
<p class="away" id="said" role="status" aria-live="polite"></p>
<script type="application/json" id="data">{json_for_script(data)}</script>
<script>{script}</script>
</body>
</html>
"""


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
    return (files("hardmax.models") / name).read_text(encoding="utf-8")


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}".replace("%", "\u00a0%")


def _median(values: Sequence[float]) -> float:
    known = [float(v) for v in values if not math.isnan(v)]
    return statistics.median(known) if known else math.nan


# The top of the page
# ----------------------------------------------------------------------------------------------------------


def _shape(atlas: HeadAtlas) -> str:
    layers = layers_of(atlas.heads)
    counts = sorted({len(records) for _, records in layers})
    per = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{_many(len(layers), 'layer')} of {per} head{'' if per == '1' else 's'}"


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _lede(report: Report) -> str:
    atlas = report.atlas
    tokens = _many(len(atlas.text_tokens), "token")
    family = escape(atlas.family)
    return (
        f"{_shape(atlas)} ({family}) on {tokens}: how hard its attention is, which keys can win, how its "
        "heads "
        "cut the space of inputs, and where information can have come from."
    )


def _facts(report: Report) -> str:
    atlas = report.atlas
    heads = atlas.heads
    hard = [r for r in heads if r.top_probability >= 0.9]
    can = _median(
        [r.keys_can_win / r.keys_can_win_of for r in heads if r.keys_can_win_of > 0 <= r.keys_can_win]
    )
    facts = [
        (
            number(_median([r.margin_median for r in heads])),
            "median margin over heads, in units of temperature",
        ),
        (
            f"{len(hard)}<small> of {len(heads)}</small>",
            "heads whose winner gets at least 0.9 of the probability, median over queries",
        ),
        (_share(can), "of the keys of a head can win at all, median over heads"),
    ]
    if report.flows:
        flow = report.flows[0]
        known, of = int(flow.sizes[-1, report.read_out]), len(flow.key_tokens)
        facts.append(
            (
                f"{known}<small> of {of}</small>",
                f"positions that {escape(flow.tokens[report.read_out][:12])} can know at the end, by "
                f"{escape(flow.rule)} routing",
            )
        )
    return '<dl class="facts">' + "".join(f"<div><dt>{d}</dt><dd>{v}</dd></div>" for v, d in facts) + "</dl>"


# Sections
# ----------------------------------------------------------------------------------------------------------


def _read(report: Report) -> str:
    atlas, reading = report.atlas, report.atlas.reading
    tokens = atlas.text_tokens[:_SHOWN_TOKENS]
    shown = " ".join(f'<span class="tok">{escape(token)}</span>' for token in tokens)
    rest = len(atlas.text_tokens) - len(tokens)
    more = f" <span>… and {rest:,} more</span>" if rest else ""
    rows = [
        ("Scores", f"{number(reading.score_difference, 2)} of the largest score"),
        ("Probabilities", number(reading.probability_difference, 2)),
    ]
    if reading.native_difference is not None:
        rows.append(("Probabilities, in the precision of the weights", number(reading.native_difference, 2)))
    table = "".join(f"<tr><th scope='row'>{name}</th><td>{value}</td></tr>" for name, value in rows)
    about = f"<p>{escape(report.about)}</p>" if report.about else ""
    return (
        f"{about}<p>{_many(len(atlas.text_tokens), 'token')}, as the model sees them:</p>"
        f'<p class="tokens" tabindex="0" role="region" aria-label="tokens">{shown}{more}</p>'
        "<h3>Fidelity</h3><p>Queries, keys and masks were taken out of the model and its scores rebuilt from "
        "them. "
        "The largest difference to what the model computes itself:</p>"
        f'<table class="plain"><tbody>{table}</tbody></table>'
    )


def _figure(figure: Figure) -> str:
    return (
        f'<figure id="{figure.name}"><h3>{escape(figure.title)}</h3>{figure.inline()}'
        f'<figcaption>{escape(figure.caption)}<span class="sure">{escape(figure.certainty)}</span>'
        f'<button type="button" data-save="{figure.name}" aria-label="Save as SVG: {escape(figure.title)}" '
        "hidden>"
        "Save as SVG</button></figcaption></figure>"
    )


def _grid(figures: Mapping[str, Figure], names: Sequence[str]) -> str:
    made = "".join(_figure(figures[name]) for name in names if name in figures)
    return f'<div class="figures">{made}</div>' if made else ""


def _hard(figures: Mapping[str, Figure]) -> str:
    return (
        "<p>At temperature zero a head sends every query to one key. A real head does so nearly, where the "
        "winning "
        "score leads by a margin of several units of temperature.</p>"
        + _grid(figures, ["margins", "hardness", "guarantees"])
    )


def _keys(report: Report, figures: Mapping[str, Figure]) -> str:
    most = max(record.keys_can_win_of for record in report.atlas.heads)
    few = (
        f" Here that says little: {most} keys in {report.d_head} dimensions are all corners of their hull "
        "unless they "
        "are placed specially."
        if 0 < most <= report.d_head + 1
        else ""
    )
    return (
        "<p>The queries that choose one key form a cell of a power diagram. A key inside the hull of the "
        "others has "
        f"no cell: no query of any size chooses it.{few}</p>" + _grid(figures, ["keys", "sinks"])
    )


def _cells(atlas: HeadAtlas, figures: Mapping[str, Figure]) -> str:
    grid = _grid(figures, [name for name in figures if name.startswith("slice-")])
    notes = "".join(f"<p>{escape(note)}</p>" for note in atlas.notes)
    if not grid:
        return notes
    return (
        "<p>What the query projection of a layer receives, on a plane through its inputs. The walls of all "
        "heads "
        "together cut it into cells; inside each the routing is constant.</p>" + grid + notes
    )


def _flow(report: Report, figures: Mapping[str, Figure]) -> str:
    if not report.flows:
        return ""
    flow = report.flows[0]
    name = escape(flow.tokens[report.read_out])
    parts = [
        "<p>If a head carries only what its winning key holds, information travels along the winners. The "
        f"information set of a token holds the positions that can have reached it. Read-out: {name}, "
        "position&nbsp;"
        f"{report.read_out}.</p>",
        _grid(figures, ["growth"]),
    ]
    known = len(flow.known_by(report.read_out))
    parts.append(
        f"<h3>What {name} can know under {escape(flow.rule)}: {known} of {len(flow.key_tokens)} "
        "positions</h3>"
    )
    parts.append(known_text(flow, report.read_out, report.needed))
    if report.needed:
        inside = set(flow.known_by(report.read_out))
        names = ", ".join(escape(flow.key_tokens[s]) for s in report.needed)
        all_of = "all of them are" if inside.issuperset(report.needed) else "not all of them are"
        parts.append(f"<p>The answer depends on {names} (underlined); {all_of} in the set.</p>")
    others = ", ".join(
        f"{len(one.known_by(report.read_out))} under {escape(one.rule)}" for one in report.flows[1:]
    )
    if others:
        parts.append(f"<p>Of the same {len(flow.key_tokens)} positions it can know {others}.</p>")
    return "".join(parts)


def _influence(report: Report, figures: Mapping[str, Figure]) -> str:
    if report.influence is None:
        return ""
    return (
        "<p>Sets say what could arrive. Replacing one input token at a time, or differentiating, says what "
        "does "
        "matter.</p>"
        + (
            _grid(figures, ["recall"])
            or "<p>On this text every set holds everything, so there is nothing to compare.</p>"
        )
    )


def _premises(report: Report) -> str:
    heads = report.atlas.heads

    def mean(field: str) -> float:
        values = [float(getattr(r, field)) for r in heads if not math.isnan(float(getattr(r, field)))]
        return sum(values) / len(values) if values else math.nan

    every = [r for r in heads if 0 <= r.keys_can_win == r.keys_can_win_of]
    speaks = [r for r in heads if r.share_hard_10 > 0]
    ties = [int(flow.ties.sum()) for flow in report.flows[:1]]
    rows = [
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
            "1 %; in "
            f"{len(speaks)} of {len(heads)} heads for any query at 10 %.",
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
            "query’s norm "
            "away in the median head.",
            "measured",
        ),
    ]
    body = "".join(
        f"<tr><th scope='row'>{escape(a)}</th><td>{escape(b)}</td><td>{escape(c)}</td></tr>"
        for a, b, c in rows
    )
    return (
        "<p>The theorems about regions are about hardmax, keys in general position and margins that are "
        "large. This is "
        "how far they hold here.</p>"
        '<div class="wide"><table class="plain"><thead><tr><th scope="col">Premise</th><th scope="col">In '
        "this model"
        f'</th><th scope="col">How sure</th></tr></thead><tbody>{body}</tbody></table></div>'
    )


def _heads(atlas: HeadAtlas) -> str:
    return (
        '<div class="wide tall" tabindex="0" role="region" aria-label="Table of '
        f'heads">{heads_table(atlas)}</div>'
        '<div class="row"><button type="button" data-save="csv" hidden>Save as CSV</button>'
        '<button type="button" data-save="json" hidden>Save as JSON</button></div>'
    )


def _certainty(report: Report) -> str:
    words = [
        (
            "exact",
            "true of the numbers that were handed over; decided in rationals where floats cannot decide",
        ),
        ("certified", "proven, with a witness for every key that can win and a certificate for every other"),
        ("measured", "computed in double precision on this text; another text gives other numbers"),
        ("bounded", "a guarantee from one side; the truth may be better"),
    ]
    told = "".join(f"<tr><th scope='row'>{w}</th><td>{escape(m)}</td></tr>" for w, m in words)
    rows = "".join(
        f"<tr><th scope='row'>{escape(c.group)}: {escape(c.name)}</th><td>{escape(c.meaning)}</td>"
        f"<td>{escape(c.certainty)}</td></tr>"
        for c in COLUMNS
        if c.certainty
    )
    return (
        f'<div class="wide"><table class="plain"><tbody>{told}</tbody></table></div>'
        '<h3>Number by number</h3><div class="wide"><table class="plain"><thead><tr><th '
        'scope="col">Number</th>'
        '<th scope="col">What it is</th><th scope="col">How '
        f"sure</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _settings(report: Report) -> str:
    atlas = report.atlas
    forward = atlas.reading.forward_seconds
    times = f"{number(float(atlas.seconds), 2)} s for the atlas, {number(forward, 2)} s for the forward pass"
    pairs = {
        **{str(key): value for key, value in dict(atlas.settings).items()},
        "time": times,
        **{f"version of {key}": value for key, value in report.provenance.items()},
    }
    rows = "".join(
        f"<tr><th scope='row'>{escape(key.replace('_', ' '))}</th><td>{escape(_told(value))}</td></tr>"
        for key, value in pairs.items()
    )
    return f'<div class="wide"><table class="plain"><tbody>{rows}</tbody></table></div>'


def _told(value: Any) -> str:
    if value is None:
        return "by default"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(_told(item) for item in value)
    return str(value)
