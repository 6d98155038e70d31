"""Figures of the heads of a model: margins, hardness, guarantees, keys and sinks, layer by layer.

They read the rows of a :class:`~hardmax.models.atlas.head_atlas.HeadAtlas`. A figure shows every head: as an
interval or a labelled square where there is room, as a point or a bare square in models of many heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hardmax.models.report.svg import (
    LEFT,
    RIGHT,
    Figure,
    axis_title,
    element,
    escape,
    legend,
    line,
    linear_scale,
    log_scale,
    mark,
    number,
    shortened,
    text,
    tick,
    y_axis,
)
from hardmax.temperature.bands import margin_needed

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas, HeadRecord

MANY = 160
"""Heads from which on intervals would be a smear."""

_STEPS = (0.1, 0.25, 0.5, 0.75, 0.9)  # where the colours of a map change


def head_figures(atlas: HeadAtlas) -> dict[str, Figure]:
    """Every figure of the heads that has something to show, by name."""
    made = [margins(atlas), hardness_map(atlas)]
    made += [guarantees(atlas)] if any(r.share_measured_10 > 0 for r in atlas.heads) else []
    made.append(keys_that_win(atlas))
    made += [sinks(atlas)] if any(r.sink >= 0 for r in atlas.heads) else []
    return {figure.name: figure for figure in made}


# Layers side by side, heads within them
# ----------------------------------------------------------------------------------------------------------


def layers_of(heads: Sequence[Any]) -> list[tuple[int, list[Any]]]:
    """Heads by layer, both in order."""
    numbers = sorted({record.layer for record in heads})
    return [(n, sorted((r for r in heads if r.layer == n), key=lambda r: r.head)) for n in numbers]


def head_places(heads: Sequence[Any], right: float = RIGHT) -> list[tuple[Any, float]]:
    """Where every head stands."""
    layers = layers_of(heads)
    step = (right - LEFT) / len(layers)
    places = []
    for i, (_, records) in enumerate(layers):
        room = min(step * 0.84 / len(records), 14.0)
        start = LEFT + step * (i + 0.5) - room * (len(records) - 1) / 2
        places += [(record, start + room * j) for j, record in enumerate(records)]
    return places


def layer_axis(heads: Sequence[Any], top: float, bottom: float, right: float = RIGHT) -> list[str]:
    """The layers below a drawing, with lines between them."""
    layers = layers_of(heads)
    step = (right - LEFT) / len(layers)
    every = 1 + (len(layers) - 1) // 16
    parts = []
    for i, (layer, _) in enumerate(layers):
        x = LEFT + step * i
        if i:
            parts.append(line(x, x, top, bottom, "grid", stroke_dasharray="1 2"))
        if i % every == 0:
            parts.append(tick(x + step / 2, bottom + 13, layer))
    return [*parts, axis_title((LEFT + right) / 2, bottom + 27, "layer")]


def head_name(record: Any) -> str:
    """What a head is called in a picture."""
    return f"layer {record.layer}, head {record.head}"


def margins(atlas: HeadAtlas) -> Figure:
    """Median margin and its deciles, head by head, beside the margins that guarantee hardness."""
    heads = atlas.heads
    top, bottom, right = 26.0, 180.0, RIGHT - 26
    keys = max(record.n_keys for record in heads)
    needed = [(eta, margin_needed(keys, 1.0, tolerance=eta)) for eta in (0.01, 0.1)] if keys > 1 else []
    finite = [m for r in heads for m in (r.margin_median, r.margin_high) if math.isfinite(m) and m > 0]
    lows = [r.margin_low for r in heads if math.isfinite(r.margin_low) and r.margin_low > 0]
    high = max([*finite, *(m for _, m in needed), 1.0])
    low = max(min([*lows, *finite, 1.0]), high * 1e-4, 1e-3)
    scale = log_scale(low, high, bottom, top)
    parts = y_axis(scale, LEFT, right, "margin of the winning key, in units of temperature", top)
    parts += layer_axis(heads, top, bottom, right)
    many = len(heads) > MANY
    for eta, margin in needed:
        y = scale.place(margin)
        parts.append(line(LEFT, right, y, y, "limit"))
        down = 6.0 if eta > 0.05 else 0.0  # the lower line gets its number a little below it
        parts.append(text(right + 3, y + down + 0.4, f"{eta:.0%}".replace("%", " %"), class_="small"))
    for record, x in head_places(heads, right):
        if math.isnan(record.margin_median):
            continue
        hover = (
            f"{head_name(record)}: median {number(record.margin_median)}, "
            f"10 % to 90 %: {number(record.margin_low)} to {number(record.margin_high)}"
        )
        if not many:
            y1, y2 = scale.place(record.margin_low), scale.place(record.margin_high)
            parts.append(line(x, x, y1, y2, "line-0", stroke_width=1.1))
        parts.append(mark(x, scale.place(record.margin_median), hover, r=1.5 if many else 2.6))
    words = " and ".join(f"{number(m)} for {eta:.0%}".replace("%", " %") for eta, m in needed)
    items = [(mark(0, 0), "median"), (line(0, 0, -6, 5, "line-0"), "10 % to 90 %")]
    items += [(line(-7, 7, 0, 0, "limit"), f"proven near hardmax from {words}")] if needed else []
    key, used = legend(items, LEFT, bottom + 45, RIGHT - LEFT)
    return Figure(
        "margins",
        "How far the winning key leads, head by head",
        f"Medians over the queries of a head, with bars from the lowest to the highest tenth. With {keys} "
        "keys a margin above a dashed line guarantees that softmax is within 1 % or 10 % of hardmax in "
        "total variation.",
        "measured; dashed lines are proven",
        "".join(parts + key),
        bottom + 40 + used,
        in_words(heads, "median margin", lambda r: r.margin_median),
    )


def guarantees(atlas: HeadAtlas) -> Figure:
    """Share of queries that are hard, as measured and as guaranteed by their margins.

    There is no panel for 1 % where no query is that close.
    """
    heads = atlas.heads
    panels = [p for p in (10, 1) if any(getattr(r, f"share_measured_{p}") > 0 for r in heads)]
    layers = layers_of(heads)
    top, height, gap = 26.0, 74.0, 34.0
    parts: list[str] = []
    step = (RIGHT - LEFT) / len(layers)
    for panel, percent in enumerate(panels):
        y0 = top + panel * (height + gap)
        largest = max(mean_of(records, f"share_measured_{percent}") for _, records in layers)
        most = next(edge for edge in (0.1, 0.2, 0.5, 1.0) if not largest > edge)
        scale = linear_scale(0.0, most, y0 + height, y0, steps=2)
        parts += y_axis(scale, LEFT, RIGHT, f"share of queries within {percent}\u00a0% of hardmax", y0)
        for i, (layer, records) in enumerate(layers):
            x = LEFT + step * (i + 0.5)
            proven, measured = (mean_of(records, f"share_{how}_{percent}") for how in ("hard", "measured"))
            if math.isnan(measured):
                continue
            hover = f"layer {layer}: measured {measured:.1%}, guaranteed {proven:.1%}"
            a, b = scale.place(proven), scale.place(measured)
            parts.append(line(x, x, a, b, "line-0", stroke_width=1))
            parts += [mark(x, a, hover, ring=True, r=3.8), mark(x, b, hover, r=2.4)]
    bottom = top + len(panels) * (height + gap) - gap
    parts += layer_axis(heads, bottom - height, bottom)
    items = [(mark(0, 0, r=2.4), "measured"), (mark(0, 0, ring=True, r=3.8), "guaranteed by margins")]
    key, used = legend(items, LEFT, bottom + 45, RIGHT - LEFT)
    return Figure(
        "guarantees",
        "How many queries are hard, and how many are so for certain",
        "Mean over the heads of a layer. Open circles: queries whose margin alone proves it, by the "
        "corrected bound of Theorem VI.1; full circles: what the probabilities say."
        + ("" if 1 in panels else " No query is within 1\u00a0% of hardmax."),
        "measured, and bounded from below",
        "".join(parts + key),
        bottom + 40 + used,
        in_words(heads, "share of queries within 10 % of hardmax", lambda r: r.share_measured_10),
    )


def keys_that_win(atlas: HeadAtlas) -> Figure:
    """Which share of the keys can win at all, and which does on this text."""
    heads = atlas.heads
    top, bottom = 26.0, 166.0
    scale = linear_scale(0.0, 1.0, bottom, top)
    parts = y_axis(scale, LEFT, RIGHT, "share of the keys of a head", top) + layer_axis(heads, top, bottom)
    r = 1.5 if len(heads) > MANY else 2.6
    for record, x in head_places(heads):
        can = scale.place(record.keys_can_win / max(record.keys_can_win_of, 1))
        do = scale.place(record.keys_do_win / max(record.n_keys, 1))
        hover = (
            f"{head_name(record)}: {record.keys_can_win} of {record.keys_can_win_of} keys can win, "
            f"{record.keys_do_win} do"
        )
        title = element("title", escape(hover))
        marks = mark(x, can, ring=True, colour=1, r=r) + mark(x, do, r=r)
        parts.append(element("g", title + line(x, x, can, do, "grid") + marks))
    can_win = (mark(0, 0, ring=True, colour=1), "can win: their cell has interior")
    key, used = legend([can_win, (mark(0, 0), "do win here")], LEFT, bottom + 45, RIGHT - LEFT)
    return Figure(
        "keys",
        "Keys that can win, and keys that do",
        "A key can win when its cell in the head’s power diagram has interior: some query would be sent to "
        "it. It does win when a query of this text is.",
        "certified; do win: measured",
        "".join(parts + key),
        bottom + 40 + used,
        in_words(heads, "keys that can win", lambda r: r.keys_can_win),
    )


# Layers below each other, heads side by side
# ----------------------------------------------------------------------------------------------------------


def hardness_map(atlas: HeadAtlas) -> Figure:
    """The median probability of the winning key, one square per head."""
    return head_map(
        atlas.heads,
        "hardness",
        "Where attention is hard",
        "Median probability of the winning key over the queries of a head: 1 is hardmax.",
        lambda r: r.top_probability,
        lambda r: f"{r.top_probability:.2f}".lstrip("0") if r.top_probability < 0.995 else "1",
        lambda r: f"{head_name(r)}: median top probability {number(r.top_probability)}",
        "median top probability",
    )


def sinks(atlas: HeadAtlas) -> Figure:
    """The key that wins most, where one wins far more than its share."""
    names = atlas.key_tokens

    def token(record: HeadRecord) -> str:
        return names[record.sink] if 0 <= record.sink < len(names) else ""

    return head_map(
        atlas.heads,
        "sinks",
        "Sinks: keys that win far more than their share",
        "Share of the queries of a head that one key wins; the square names it where it is a sink. Without "
        "a name no key stands out.",
        lambda r: r.sink_share if r.sink >= 0 else math.nan,
        lambda r: shortened(token(r), 5) if r.sink >= 0 else "",
        lambda r: (
            f"{head_name(r)}: {shortened(token(r), 24)} (position {r.sink}) wins {r.sink_share:.0%}"
            if r.sink >= 0
            else f"{head_name(r)}: no sink"
        ),
        "share of queries that the sink wins",
    )


def head_map(
    heads: Sequence[Any],
    name: str,
    title: str,
    caption: str,
    value: Callable[[Any], float],
    word: Callable[[Any], str],
    hover: Callable[[Any], str],
    measured: str,
) -> Figure:
    """One square per head, coloured by a number between 0 and 1."""
    layers = layers_of(heads)
    n_columns = max(record.head for record in heads) + 1
    top = 30.0
    side = min((RIGHT - LEFT) / n_columns, 44.0)
    tall = min(max(side, 15.0), 26.0) if side >= 15 else side
    parts = [axis_title(LEFT + side * n_columns / 2, top - 16, "head")]
    every = 1 + (n_columns - 1) // 16
    parts += [tick(LEFT + side * (c + 0.5), top - 4, c) for c in range(0, n_columns, every)]
    down = 1 + int(10 // tall) if tall < 10 else 1
    for i, (layer, records) in enumerate(layers):
        y = top + tall * i
        if i % down == 0:
            parts.append(tick(LEFT - 6, y + tall / 2 + 3.2, layer, anchor="end"))
        for record in records:
            x = LEFT + side * record.head
            level = sum(value(record) >= step for step in _STEPS)  # 0 for NaN
            words = word(record)
            gap = 1.0 if side > 8 else 0.0
            wide, high = side - gap, tall - gap
            tip = element("title", escape(hover(record)))
            parts.append(element("rect", tip, x=x, y=y, width=wide, height=high, class_=f"heat-{level}"))
            size = min(8.5, (side - 2) / max(len(words), 1) / 0.56)
            if words and size >= 6.0:
                style = {"class_": f"on-{level}", "text_anchor": "middle", "style": f"font-size:{size:.1f}px"}
                where = (x + wide / 2, y + tall / 2 + size * 0.34)
                parts.append(text(*where, words, **style, pointer_events="none"))
    bottom = top + tall * len(layers)
    middle = (top + bottom) / 2
    parts.append(axis_title(14, middle, "layer", transform=f"rotate(-90 14 {middle:.1f})"))
    parts.append(text(LEFT, bottom + 20, measured, class_="key"))
    for level, edge in enumerate([0.0, *_STEPS]):
        x = LEFT + 44 * level
        parts.append(element("rect", x=x, y=bottom + 27, width=43, height=9, class_=f"heat-{level}"))
        parts.append(tick(x, bottom + 47, f"{edge:g}", anchor="middle" if level else "start"))
    parts.append(tick(LEFT + 44 * (len(_STEPS) + 1), bottom + 47, "1"))
    return Figure(
        name, title, caption, "measured", "".join(parts), bottom + 54, in_words(heads, measured, value)
    )


def mean_of(records: Sequence[HeadRecord], field: str) -> float:
    """The mean of a field over the heads that have one."""
    values = [v for v in (float(getattr(r, field)) for r in records) if not math.isnan(v)]
    return sum(values) / len(values) if values else math.nan


def in_words(heads: Sequence[Any], what: str, value: Callable[[Any], float]) -> str:
    """A figure in words: the range over all heads, and where the ends are."""
    known = [(float(value(r)), r) for r in heads if not math.isnan(float(value(r)))]
    if not known:
        return f"No head has a {what} here."
    least, most = min(known, key=lambda pair: pair[0]), max(known, key=lambda pair: pair[0])
    return (
        f"{len(known)} heads; {what} from {number(least[0])} ({head_name(least[1])}) to {number(most[0])} "
        f"({head_name(most[1])})."
    )
