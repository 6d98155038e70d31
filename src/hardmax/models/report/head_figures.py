"""Figures of the heads of a model: margins, hardness, guarantees, keys and sinks, layer by layer.

They read the rows of a :class:`~hardmax.models.atlas.head_atlas.HeadAtlas`. A figure shows every head: as an
interval or a labelled square where there is room, as a point or a bare square in models of many heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardmax.models.report.svg import (
    WIDTH,
    Figure,
    element,
    escape,
    legend,
    linear_scale,
    log_scale,
    number,
    shortened,
    text,
    y_axis,
)
from hardmax.temperature.bands import margin_needed

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas, HeadRecord

__all__ = ["guarantees", "hardness_map", "head_figures", "keys_that_win", "margins", "sinks"]

_LEFT, _RIGHT = 40.0, WIDTH - 8.0
_MANY = 160  # heads from which on intervals would be a smear


def head_figures(atlas: HeadAtlas) -> dict[str, Figure]:
    """Every figure of the heads, by name."""
    made = [margins(atlas), hardness_map(atlas), guarantees(atlas), keys_that_win(atlas), sinks(atlas)]
    return {figure.name: figure for figure in made}


# Layers side by side, heads within them
# ----------------------------------------------------------------------------------------------------------


def layers_of(heads: Sequence[HeadRecord]) -> list[tuple[int, list[HeadRecord]]]:
    """Heads by layer, both in order."""
    numbers = sorted({record.layer for record in heads})
    return [(n, sorted((r for r in heads if r.layer == n), key=lambda r: r.head)) for n in numbers]


def _columns(heads: Sequence[HeadRecord], right: float = _RIGHT) -> list[tuple[HeadRecord, float]]:
    """Where every head stands."""
    layers = layers_of(heads)
    step = (right - _LEFT) / len(layers)
    places = []
    for i, (_, records) in enumerate(layers):
        room = min(step * 0.84 / len(records), 14.0)
        start = _LEFT + step * (i + 0.5) - room * (len(records) - 1) / 2
        places += [(record, start + room * j) for j, record in enumerate(records)]
    return places


def _layer_axis(heads: Sequence[HeadRecord], top: float, bottom: float, right: float = _RIGHT) -> list[str]:
    layers = layers_of(heads)
    step = (right - _LEFT) / len(layers)
    every = 1 + (len(layers) - 1) // 16
    parts = []
    for i, (layer, _) in enumerate(layers):
        x = _LEFT + step * i
        if i:
            parts.append(
                element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid", stroke_dasharray="1 2")
            )
        if i % every == 0:
            parts.append(text(x + step / 2, bottom + 13, layer, class_="tick", text_anchor="middle"))
    parts.append(text((_LEFT + right) / 2, bottom + 27, "layer", class_="axis-title", text_anchor="middle"))
    return parts


def _name(record: HeadRecord) -> str:
    return f"layer {record.layer}, head {record.head}"


def _mark(x: float, y: float, hover: str, *, ring: bool = False, colour: int = 0, r: float = 2.6) -> str:
    title = element("title", escape(hover))
    if ring:
        return element("circle", title, cx=x, cy=y, r=r, class_=f"ring line-{colour}", stroke_width=1.2)
    return element("circle", title, cx=x, cy=y, r=r, class_=f"dot-{colour}")


def margins(atlas: HeadAtlas) -> Figure:
    """Median margin and its deciles, head by head, beside the margins that guarantee hardness."""
    heads = atlas.heads
    top, bottom, right = 26.0, 180.0, _RIGHT - 26
    keys = max(record.n_keys for record in heads)
    needed = [(eta, margin_needed(keys, 1.0, tolerance=eta)) for eta in (0.01, 0.1)] if keys > 1 else []
    finite = [m for r in heads for m in (r.margin_median, r.margin_high) if math.isfinite(m) and m > 0]
    lows = [r.margin_low for r in heads if math.isfinite(r.margin_low) and r.margin_low > 0]
    high = max([*finite, *(m for _, m in needed), 1.0])
    low = max(min([*lows, *finite, 1.0]), high * 1e-4, 1e-3)
    scale = log_scale(low, high, bottom, top)
    parts = y_axis(scale, _LEFT, right, "margin of the winning key, in units of temperature", top)
    parts += _layer_axis(heads, top, bottom, right)
    many = len(heads) > _MANY
    for eta, margin in needed:
        y = scale.place(margin)
        parts.append(element("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="limit"))
        down = 6.0 if eta > 0.05 else 0.0  # the lower line gets its number a little below it
        parts.append(text(right + 3, y + down + 0.4, f"{eta:.0%}".replace("%", " %"), class_="small"))
    for record, x in _columns(heads, right):
        if math.isnan(record.margin_median):
            continue
        hover = (
            f"{_name(record)}: median {number(record.margin_median)}, "
            f"10 % to 90 %: {number(record.margin_low)} to {number(record.margin_high)}"
        )
        if not many:
            y1, y2 = scale.place(record.margin_low), scale.place(record.margin_high)
            parts.append(element("line", x1=x, x2=x, y1=y1, y2=y2, class_="line-0", stroke_width=1.1))
        parts.append(_mark(x, scale.place(record.margin_median), hover, r=1.5 if many else 2.6))
    dash = element("line", x1=-7, x2=7, y1=0, y2=0, class_="limit")
    words = " and ".join(f"{number(m)} for {eta:.0%}".replace("%", " %") for eta, m in needed)
    items = [
        (_mark(0, 0, ""), "median"),
        (element("line", x1=0, x2=0, y1=-6, y2=5, class_="line-0"), "10 % to 90 %"),
    ]
    items += [(dash, f"proven near hardmax from {words}")] if needed else []
    key, used = legend(items, _LEFT, bottom + 45, _RIGHT - _LEFT)
    parts += key
    body = "".join(parts)
    return Figure(
        "margins",
        "How far the winning key leads, head by head",
        f"Medians over the queries of a head, with bars from the lowest to the highest tenth. With {keys} "
        "keys a margin above a dashed line guarantees that softmax is within 1 % or 10 % of hardmax in "
        "total variation.",
        "measured; dashed lines are proven",
        body,
        bottom + 40 + used,
        _in_words(heads, "median margin", lambda r: r.margin_median),
    )


def guarantees(atlas: HeadAtlas) -> Figure:
    """Share of queries that are hard, as measured and as guaranteed by their margins."""
    heads = atlas.heads
    layers = layers_of(heads)
    top, height, gap = 26.0, 74.0, 34.0
    parts: list[str] = []
    for panel, (eta, bound, seen) in enumerate(
        ((0.1, "share_hard_10", "share_measured_10"), (0.01, "share_hard_1", "share_measured_1"))
    ):
        y0 = top + panel * (height + gap)
        scale = linear_scale(0.0, 1.0, y0 + height, y0, steps=2)
        parts += y_axis(
            scale, _LEFT, _RIGHT, f"share of queries within {eta:.0%} of hardmax".replace("%", "\u00a0%"), y0
        )
        step = (_RIGHT - _LEFT) / len(layers)
        for i, (layer, records) in enumerate(layers):
            x = _LEFT + step * (i + 0.5)
            proven, measured = _mean(records, bound), _mean(records, seen)
            if math.isnan(measured):
                continue
            hover = f"layer {layer}: measured {measured:.1%}, guaranteed {proven:.1%}"
            a, b = scale.place(proven), scale.place(measured)
            parts.append(element("line", x1=x, x2=x, y1=a, y2=b, class_="line-0", stroke_width=1))
            parts.append(_mark(x, a, hover, ring=True, r=3.8))
            parts.append(_mark(x, b, hover, r=2.4))
        if panel == 1:
            parts += _layer_axis(heads, y0, y0 + height)
    bottom = top + 2 * height + gap
    key, used = legend(
        [
            (_mark(0, 0, "", r=2.4), "measured"),
            (_mark(0, 0, "", ring=True, r=3.8), "guaranteed by margins"),
        ],
        _LEFT,
        bottom + 45,
        _RIGHT - _LEFT,
    )
    return Figure(
        "guarantees",
        "How many queries are hard, and how many are so for certain",
        "Mean over the heads of a layer. Open circles: queries whose margin alone proves it, by the "
        "corrected bound of Theorem VI.1; full circles: what the probabilities say.",
        "measured, and bounded from below",
        "".join(parts + key),
        bottom + 40 + used,
        _in_words(heads, "share of queries within 10 % of hardmax", lambda r: r.share_measured_10),
    )


def keys_that_win(atlas: HeadAtlas) -> Figure:
    """Which share of the keys can win at all, and which does on this text."""
    heads = atlas.heads
    top, bottom = 26.0, 166.0
    scale = linear_scale(0.0, 1.0, bottom, top)
    parts = y_axis(scale, _LEFT, _RIGHT, "share of the keys of a head", top) + _layer_axis(heads, top, bottom)
    r = 1.5 if len(heads) > _MANY else 2.6
    proven = all(record.certified for record in heads)
    for record, x in _columns(heads):
        can = record.keys_can_win / max(record.keys_can_win_of, 1) if record.keys_can_win >= 0 else math.nan
        do = record.keys_do_win / max(record.n_keys, 1)
        hover = (
            f"{_name(record)}: {record.keys_can_win} of {record.keys_can_win_of} keys can win"
            f"{'' if record.certified else ' (not certified)'}, {record.keys_do_win} do"
        )
        if not math.isnan(can):
            a, b = scale.place(can), scale.place(do)
            parts.append(element("line", x1=x, x2=x, y1=a, y2=b, class_="grid"))
            parts.append(_mark(x, a, hover, ring=True, colour=1, r=r))
        parts.append(_mark(x, scale.place(do), hover, r=r))
    key, used = legend(
        [
            (_mark(0, 0, "", ring=True, colour=1), "can win: their cell has interior"),
            (_mark(0, 0, ""), "do win here"),
        ],
        _LEFT,
        bottom + 45,
        _RIGHT - _LEFT,
    )
    return Figure(
        "keys",
        "Keys that can win, and keys that do",
        "A key can win when its cell in the head’s power diagram has interior: some query would be sent to "
        "it. It does win when a query of this text is.",
        "certified; do win: measured" if proven else "partly certified; do win: measured",
        "".join(parts + key),
        bottom + 40 + used,
        _in_words(heads, "keys that can win", lambda r: r.keys_can_win),
    )


# Layers below each other, heads side by side
# ----------------------------------------------------------------------------------------------------------


def hardness_map(atlas: HeadAtlas) -> Figure:
    """The median probability of the winning key, one square per head."""
    return _map(
        atlas.heads,
        "hardness",
        "Where attention is hard",
        "Median probability of the winning key over the queries of a head: 1 is hardmax.",
        lambda r: r.top_probability,
        lambda r: f"{r.top_probability:.2f}".lstrip("0") if r.top_probability < 0.995 else "1",
        lambda r: f"{_name(r)}: median top probability {number(r.top_probability)}",
        [0.1, 0.25, 0.5, 0.75, 0.9],
        "median top probability",
    )


def sinks(atlas: HeadAtlas) -> Figure:
    """The key that wins most, where one wins far more than its share."""
    names = atlas.key_tokens

    def token(record: HeadRecord) -> str:
        return names[record.sink] if 0 <= record.sink < len(names) else ""

    return _map(
        atlas.heads,
        "sinks",
        "Sinks: keys that win far more than their share",
        "Share of the queries of a head that one key wins; the square names it where it is a sink. Without "
        "a name no key stands out.",
        lambda r: r.sink_share if r.sink >= 0 else math.nan,
        lambda r: shortened(token(r), 5) if r.sink >= 0 else "",
        lambda r: (
            f"{_name(r)}: {shortened(token(r), 24)} (position {r.sink}) wins {r.sink_share:.0%}"
            if r.sink >= 0
            else f"{_name(r)}: no sink"
        ),
        [0.1, 0.25, 0.5, 0.75, 0.9],
        "share of queries that the sink wins",
    )


def _map(
    heads: Sequence[HeadRecord],
    name: str,
    title: str,
    caption: str,
    value: Callable[[HeadRecord], float],
    word: Callable[[HeadRecord], str],
    hover: Callable[[HeadRecord], str],
    steps: Sequence[float],
    measured: str,
) -> Figure:
    layers = layers_of(heads)
    n_columns = max(record.head for record in heads) + 1
    top = 30.0
    side = min((_RIGHT - _LEFT) / n_columns, 44.0)
    tall = min(max(side, 15.0), 26.0) if side >= 15 else side
    parts = [text(_LEFT + side * n_columns / 2, top - 16, "head", class_="axis-title", text_anchor="middle")]
    every = 1 + (n_columns - 1) // 16
    for column in range(0, n_columns, every):
        x = _LEFT + side * (column + 0.5)
        parts.append(text(x, top - 4, column, class_="tick", text_anchor="middle"))
    down = 1 + int(10 // tall) if tall < 10 else 1
    for i, (layer, records) in enumerate(layers):
        y = top + tall * i
        if i % down == 0:
            parts.append(text(_LEFT - 6, y + tall / 2 + 3.2, layer, class_="tick", text_anchor="end"))
        for record in records:
            x = _LEFT + side * record.head
            number_of = value(record)
            level = 0 if math.isnan(number_of) else sum(number_of >= step for step in steps)
            words = word(record)
            inside = element("title", escape(hover(record)))
            gap = 1.0 if side > 8 else 0.0
            square = element(
                "rect", inside, x=x, y=y, width=side - gap, height=tall - gap, class_=f"heat-{level}"
            )
            parts.append(square)
            size = min(8.5, (side - 2) / max(len(words), 1) / 0.56)
            if words and size >= 6.0:
                parts.append(
                    text(
                        x + (side - gap) / 2,
                        y + tall / 2 + size * 0.34,
                        words,
                        class_=f"on-{level}",
                        text_anchor="middle",
                        style=f"font-size:{size:.1f}px",
                        pointer_events="none",
                    )
                )
    bottom = top + tall * len(layers)
    y_middle = top + tall * len(layers) / 2
    parts.append(
        text(
            14,
            y_middle,
            "layer",
            class_="axis-title",
            text_anchor="middle",
            transform=f"rotate(-90 14 {y_middle:.1f})",
        )
    )
    edges = ["0", *(f"{step:g}" for step in steps), "1"]
    parts.append(text(_LEFT, bottom + 20, measured, class_="key"))
    for level in range(len(steps) + 1):
        x = _LEFT + 44 * level
        parts.append(element("rect", x=x, y=bottom + 27, width=43, height=9, class_=f"heat-{level}"))
        parts.append(
            text(x, bottom + 47, edges[level], class_="tick", text_anchor="middle" if level else "start")
        )
    parts.append(
        text(_LEFT + 44 * (len(steps) + 1), bottom + 47, edges[-1], class_="tick", text_anchor="middle")
    )
    return Figure(
        name, title, caption, "measured", "".join(parts), bottom + 54, _in_words(heads, measured, value)
    )


def _mean(records: Sequence[HeadRecord], field: str) -> float:
    values = [v for v in (float(getattr(r, field)) for r in records) if not math.isnan(v)]
    return sum(values) / len(values) if values else math.nan


def _in_words(heads: Sequence[HeadRecord], what: str, value: Callable[[HeadRecord], float]) -> str:
    """A figure in words: the range over all heads, and where the ends are."""
    known = [(float(value(r)), r) for r in heads if not math.isnan(float(value(r)))]
    if not known:
        return f"No head has a {what} here."
    least, most = min(known, key=lambda pair: pair[0]), max(known, key=lambda pair: pair[0])
    return (
        f"{len(known)} heads; {what} from {number(least[0])} ({_name(least[1])}) to {number(most[0])} "
        f"({_name(most[1])})."
    )
