"""Figures of information flow: how information sets grow, what the read-out token may know, and how much of
what really matters lies inside (P2 section 5, measured).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax.models.report.svg import (
    WIDTH,
    Figure,
    element,
    escape,
    legend,
    linear_scale,
    number,
    shortened,
    text,
    y_axis,
)
from hardmax.networks.arguments import many

if TYPE_CHECKING:
    from hardmax.models.influence.influence_report import InfluenceReport
    from hardmax.models.influence.routing_flow import TokenFlow

__all__ = ["growth", "known_levels", "known_tokens", "recall", "recall_rows"]

_LEFT, _RIGHT = 40.0, WIDTH - 8.0
_ROWS = 8  # layers in the picture of recall
_COMPARED = 0.05  # share of tokens whose sets can be compared, below which a layer is left out of it


def growth(flows: Sequence[TokenFlow], position: int) -> Figure:
    """Sizes of information sets after every layer, one curve per rule, and the read-out's own."""
    n_keys, depth = len(flows[0].key_tokens), flows[0].n_layers
    top, bottom = 26.0, 166.0
    scale = linear_scale(0.0, float(n_keys), bottom, top)
    parts = y_axis(scale, _LEFT, _RIGHT, "positions that a token may know", top)
    inner = (_RIGHT - _LEFT - 24) / max(depth, 1)
    xs = [_LEFT + 12 + inner * layer for layer in range(depth + 1)]
    for layer in range(0, depth + 1, 1 + depth // 17):
        parts.append(text(xs[layer], bottom + 13, layer, class_="tick", text_anchor="middle"))
    parts.append(
        text((_LEFT + _RIGHT) / 2, bottom + 27, "layers passed", class_="axis-title", text_anchor="middle")
    )
    items, medians = [], []
    for i, flow in enumerate(flows[:4]):
        sizes = flow.sizes
        low, middle, high = np.quantile(sizes, [0.25, 0.5, 0.75], axis=1)
        upper = [f"{x:.1f},{scale.place(float(v)):.1f}" for x, v in zip(xs, high, strict=True)]
        lower = [f"{x:.1f},{scale.place(float(v)):.1f}" for x, v in zip(xs, low, strict=True)]
        parts.append(element("polygon", points=" ".join(upper + lower[::-1]), class_=f"band-{i}"))
        line = " ".join(f"{x:.1f},{scale.place(float(v)):.1f}" for x, v in zip(xs, middle, strict=True))
        parts.append(element("polyline", points=line, class_=f"curve line-{i}"))
        for layer, x in enumerate(xs):
            own = int(sizes[layer, position])
            hover = element("title", escape(f"{flow.rule}, after {layer} layers: the read-out knows {own}"))
            y = scale.place(float(own))
            parts.append(
                element("circle", hover, cx=x, cy=y, r=2.8, class_=f"ring line-{i}", stroke_width=1.3)
            )
        mark = element("line", x1=-6, x2=6, y1=0, y2=0, class_=f"line-{i}", stroke_width=1.8)
        items.append((mark, flow.rule))
        medians.append(f"{flow.rule}: median {', '.join(number(float(v)) for v in middle)}")
    items.append(
        (
            element("circle", cx=0, cy=0, r=2.8, class_="ring line-5", stroke_width=1.3),
            f"read-out ({shortened(flows[0].tokens[position], 12)})",
        )
    )
    key, used = legend(items, _LEFT, bottom + 45, _RIGHT - _LEFT)
    return Figure(
        "growth",
        "How far information can have travelled",
        "Size of the information sets after each layer: median and quartiles over all tokens, circles for "
        "the read-out token. Under argmax a head carries what its winning key holds; the other rules are "
        "declared relaxations.",
        "exact for each rule; the rules are models of attention",
        "".join(parts + key),
        bottom + 40 + used,
        "; ".join(medians) + ".",
    )


class KnownToken(NamedTuple):
    """A token of the text, and after how many layers the read-out may know it."""

    position: int
    word: str
    level: int
    when: str
    needed: bool


def known_tokens(flow: TokenFlow, position: int, needed: Sequence[int] = ()) -> list[KnownToken]:
    """The text itself: every token with the layer after which the read-out may know it, as a colour level.

    Level 5 is what it knows by itself, 0 what it never knows. Tokens that the answer depends on are marked,
    where a target says which they are.
    """
    depth, found = flow.n_layers, []
    for s, (token, first) in enumerate(zip(flow.key_tokens, flow.first_layer(position), strict=True)):
        layer = int(first)
        level = 0 if layer < 0 else 5 if layer == 0 else _level(layer, depth)
        when = "never" if layer < 0 else "its own" if layer == 0 else f"after {many(layer, 'layer')}"
        found.append(KnownToken(s, shortened(token, 40), level, when, s in needed))
    return found


def known_levels(flow: TokenFlow, position: int) -> list[tuple[int, str]]:
    """The colour levels of :func:`known_tokens` in words."""
    first, depth = flow.first_layer(position), flow.n_layers
    levels: dict[int, list[int]] = {}
    for layer in range(1, depth + 1):
        levels.setdefault(_level(layer, depth), []).append(layer)
    steps = [(5, "itself")] if 0 in first else []
    for level, layers in levels.items():
        words = f"{layers[0]} to {layers[-1]} layers" if layers[1:] else many(layers[0], "layer")
        steps.append((level, f"after {words}"))
    return [*steps, (0, "never")] if (first < 0).any() else steps


def _level(layer: int, depth: int) -> int:
    return 5 - max(1, round(4 * layer / depth))


def recall_rows(influence: InfluenceReport) -> list[dict[str, Any]]:
    """Recall after some of the layers under the first rule, by at most two measures: medians with quartiles.

    Layers at which hardly a set can be compared, because most hold everything or nothing, are left out.
    """
    kinds = {"information set": "recall", "rollout": "rollout", "random": "random", "best": "best"}
    measures = [influence.measures[0], *(m for m in influence.measures[1:] if m == "gradient")]
    depth = influence.n_layers
    some = sorted(
        {1 + round(i * (depth - 1) / max(min(depth, _ROWS) - 1, 1)) for i in range(min(depth, _ROWS))}
    )
    rows: list[dict[str, Any]] = []
    for measure in measures:
        for layer in some:
            found = influence.summary(layer=layer, measure=measure)
            if not found.share_compared >= _COMPARED:
                continue
            spreads = {kind: getattr(found, field) for kind, field in kinds.items()}
            rows.append(
                {
                    "rule": found.rule,
                    "where": f"after {many(layer, 'layer')}",
                    "measure": f"{measure}, {found.share_compared:.0%} of tokens".replace("%", "\u00a0%"),
                    **{kind: (s.median, s.lower_quartile, s.upper_quartile) for kind, s in spreads.items()},
                }
            )
    return rows


def recall(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """How much of the influence lies inside the sets, beside random, rollout's and best sets of the size."""
    kinds = [("information set", 0, False), ("rollout", 1, False), ("random", 5, False), ("best", 2, True)]
    line, top = 30.0, 8.0
    left = 140.0
    bottom = top + line * len(rows)
    parts = []
    inner = _RIGHT - left
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + tick * inner
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        parts.append(text(x, bottom + 13, number(tick), class_="tick", text_anchor="middle"))
    parts.append(
        text(
            left + inner / 2,
            bottom + 27,
            "share of influence inside the set",
            class_="axis-title",
            text_anchor="middle",
        )
    )
    for i, row in enumerate(rows):
        y = top + line * (i + 0.5)
        parts.append(text(0, y - 1, row["where"]))
        parts.append(text(0, y + 10, row["measure"], class_="key small"))
        for j, (kind, colour, ring) in enumerate(kinds):
            found = row.get(kind)
            if found is None:
                continue
            at, low, high = found
            if math.isnan(at):
                continue
            level = y - 7.5 + 5 * j
            if not math.isnan(low) and not math.isnan(high):
                a, b = left + low * inner, left + high * inner
                parts.append(
                    element("line", x1=a, x2=b, y1=level, y2=level, class_=f"line-{colour}", stroke_width=1)
                )
            hover = element("title", escape(f"{row['where']}, {row['measure']}, {kind}: {number(at)}"))
            style = f"ring line-{colour}" if ring else f"dot-{colour}"
            parts.append(
                element(
                    "circle", hover, cx=left + at * inner, cy=level, r=2.6, class_=style, stroke_width=1.2
                )
            )
    items = []
    for kind, colour, ring in kinds:
        style = f"ring line-{colour}" if ring else f"dot-{colour}"
        items.append((element("circle", cx=0, cy=0, r=3, class_=style, stroke_width=1.2), kind))
    key, used = legend(items, 0, bottom + 47, _RIGHT)
    return Figure(
        "recall",
        "Influence inside the information sets, layer by layer",
        "Share of the influence of input tokens on output tokens that lies inside sets of equal size: the "
        f"information sets under {rows[0]['rule']}, the largest entries of attention rollout, random ones, "
        "and the best there are. Points are medians over output tokens whose set is neither empty nor "
        "full, bars their quartiles.",
        "measured",
        "".join(parts + key),
        bottom + 42 + used,
        "; ".join(f"{r['where']}, {r['measure']}: {number(r['information set'][0])}" for r in rows) + ".",
    )
