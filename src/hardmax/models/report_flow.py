"""Figures of information flow: how information sets grow, what the read-out token may know, and how much of
what really matters lies inside (P2 section 5, measured).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.models.report_svg import (
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

if TYPE_CHECKING:
    from hardmax.models.influence import InfluenceReport
    from hardmax.models.routing_flow import TokenFlow

__all__ = ["growth", "known_text", "recall", "recall_rows"]

_LEFT, _RIGHT = 40.0, WIDTH - 8.0


def growth(flows: Sequence[TokenFlow], position: int) -> Figure:
    """Sizes of information sets after every layer, one curve per rule, and the read-out's own."""
    n_keys, depth = len(flows[0].key_tokens), flows[0].n_layers
    top, bottom = 40.0, 180.0
    scale = linear_scale(0.0, float(n_keys), bottom, top)
    parts = y_axis(scale, _LEFT, _RIGHT, "positions that a token may know", top)
    inner = (_RIGHT - _LEFT - 24) / max(depth, 1)
    xs = [_LEFT + 12 + inner * layer for layer in range(depth + 1)]
    for layer in range(0, depth + 1, 1 + depth // 17):
        parts.append(text(xs[layer], bottom + 13, layer, class_="tick", text_anchor="middle"))
    parts.append(text((_LEFT + _RIGHT) / 2, bottom + 27, "layers passed", class_="axis-title", text_anchor="middle"))
    items, told = [], []
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
        told.append(f"{flow.rule}: median {', '.join(number(float(v)) for v in middle)}")
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
        "Size of the information sets after each layer: median and quartiles over all tokens, circles for the "
        "read-out token. Under argmax a head carries what its winning key holds; the other rules are declared "
        "relaxations.",
        "exact for each rule; the rules are models of attention",
        "".join(parts + key),
        bottom + 40 + used,
        "; ".join(told) + ".",
    )


def known_text(flow: TokenFlow, position: int) -> str:
    """The text itself, as markup: every token coloured by the layer after which the read-out may know it."""
    first = flow.first_layer(position)
    depth = flow.n_layers
    pieces = []
    for s, token in enumerate(flow.key_tokens):
        layer = int(first[s])
        level = 0 if layer < 0 else 5 - round(4 * layer / max(depth, 1))
        when = "never" if layer < 0 else "its own" if layer == 0 else f"after layer {layer - 1}"
        shown = escape(shortened(token, 40))
        hint = escape(f"position {s}: {when}")
        unknown = " unknown" if layer < 0 else ""
        pieces.append(f'<span class="tok k{level}{unknown}" title="{hint}">{shown}</span>')
    known = int((first >= 0).sum())
    steps = [
        (5 - round(4 * layer / max(depth, 1)), "itself" if layer == 0 else f"after layer {layer - 1}")
        for layer in range(depth + 1)
    ]
    shown_steps = steps if len(steps) <= 8 else [steps[i * (len(steps) - 1) // 7] for i in range(8)]
    key = "".join(f'<span class="tok k{level}">{escape(word)}</span>' for level, word in shown_steps)
    key += '<span class="tok k0 unknown">never</span>' if known < len(first) else ""
    return (
        f'<p class="known" aria-label="tokens of the text">{" ".join(pieces)}</p>'
        f'<p class="known-key"><span class="key-word">known:</span> {key}</p>'
    )


def recall_rows(influence: InfluenceReport) -> list[dict[str, Any]]:
    """Recall after the last layer, rule by rule and measure by measure: medians with their quartiles."""
    kinds = {"information set": "recall", "rollout": "rollout", "random": "random", "best": "best"}
    rows: list[dict[str, Any]] = []
    for rule in influence.rules:
        for measure in influence.measures:
            found = influence.summary(rule=rule, measure=measure)
            spreads = {kind: getattr(found, field) for kind, field in kinds.items()}
            rows.append(
                {
                    "rule": rule,
                    "measure": measure,
                    **{kind: (s.median, s.lower_quartile, s.upper_quartile) for kind, s in spreads.items()},
                }
            )
    return rows


def recall(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """How much of the influence lies inside the sets, beside random, rollout's and best sets of the same size.

    Each row has the ``rule``, the ``measure`` of influence, and for each kind of set its ``value`` and, where
    known, ``low`` and ``high``.
    """
    kinds = [("information set", 0, False), ("rollout", 1, False), ("random", 5, False), ("best", 2, True)]
    line, top = 30.0, 30.0
    left = 112.0
    bottom = top + line * len(rows)
    parts = []
    inner = _RIGHT - left
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + tick * inner
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        parts.append(text(x, bottom + 13, number(tick), class_="tick", text_anchor="middle"))
    parts.append(
        text(left + inner / 2, bottom + 27, "share of influence inside the set", class_="axis-title", text_anchor="middle")
    )
    for i, row in enumerate(rows):
        y = top + line * (i + 0.5)
        parts.append(text(8, y - 1, row["rule"]))
        parts.append(text(8, y + 10, row["measure"], class_="key"))
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
                parts.append(element("line", x1=a, x2=b, y1=level, y2=level, class_=f"line-{colour}", stroke_width=1))
            hover = element("title", escape(f"{row['rule']}, {row['measure']}, {kind}: {number(at)}"))
            style = f"ring line-{colour}" if ring else f"dot-{colour}"
            parts.append(
                element("circle", hover, cx=left + at * inner, cy=level, r=2.6, class_=style, stroke_width=1.2)
            )
    items = []
    for kind, colour, ring in kinds:
        style = f"ring line-{colour}" if ring else f"dot-{colour}"
        items.append((element("circle", cx=0, cy=0, r=3, class_=style, stroke_width=1.2), kind))
    key, used = legend(items, 8, bottom + 47, _RIGHT - 8)
    return Figure(
        "recall",
        "Does influence stay inside the information sets?",
        "Share of the influence of input tokens on output tokens that lies inside sets of equal size: the "
        "information sets, the largest entries of attention rollout, random ones, and the best there are. Bars: "
        "quartiles over output tokens.",
        "measured",
        "".join(parts + key),
        bottom + 42 + used,
        "; ".join(f"{r['rule']}, {r['measure']}: {number(r['information set'][0])}" for r in rows) + ".",
    )
