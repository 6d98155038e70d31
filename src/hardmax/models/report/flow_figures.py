"""Figures of information flow and of slices.

Information flow (P2 section 5, measured): how information sets grow, what the read-out token may know, and
how much of what really matters lies inside. Slices (P1): the exact routing cells of all heads on a plane of
inputs, with the tokens in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.models.report.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Figure,
    axis_title,
    element,
    escape,
    legend,
    line,
    linear_scale,
    mark,
    number,
    shortened,
    text,
    tick,
    y_axis,
)
from hardmax.networks.block import many

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas
    from hardmax.models.atlas.layer_cells import LayerSlice
    from hardmax.models.influence.influence_report import InfluenceReport
    from hardmax.models.influence.routing_flow import TokenFlow

Floats = NDArray[np.float64]

_ROWS = 8  # layers in the picture of recall
_COMPARED = 0.05  # share of tokens whose sets can be compared, below which a layer is left out of it

_EDGE, _WIDEST, _TALLEST = 1.0, WIDTH - 2.0, 400.0
_LABELS = 60  # tokens beyond this many get a point and no name
_LINES = 6  # colours of walls; the next six heads are dashed
_VISIBLE = 0.7  # a strip narrower than this disappears under the strokes of its walls


def growth(flows: Sequence[TokenFlow], position: int) -> Figure:
    """Sizes of information sets after every layer, one curve per rule, and the read-out's own."""
    n_keys, depth = len(flows[0].key_tokens), flows[0].n_layers
    top, bottom = 26.0, 166.0
    scale = linear_scale(0.0, float(n_keys), bottom, top, whole=True)
    parts = y_axis(scale, LEFT, RIGHT, "positions that a token may know", top)
    inner = (RIGHT - LEFT - 24) / max(depth, 1)
    xs = [LEFT + 12 + inner * layer for layer in range(depth + 1)]
    parts += [tick(xs[layer], bottom + 13, layer) for layer in range(0, depth + 1, 1 + depth // 17)]
    parts.append(axis_title((LEFT + RIGHT) / 2, bottom + 27, "layers passed"))
    items, medians = [], []

    def points(sizes: Floats) -> list[str]:
        return [f"{x:.1f},{scale.place(float(v)):.1f}" for x, v in zip(xs, sizes, strict=True)]

    for i, flow in enumerate(flows[:4]):
        sizes = flow.sizes
        low, middle, high = np.quantile(sizes, [0.25, 0.5, 0.75], axis=1)
        band = " ".join(points(high) + points(low)[::-1])
        parts.append(element("polygon", points=band, class_=f"band-{i}"))
        parts.append(element("polyline", points=" ".join(points(middle)), class_=f"curve line-{i}"))
        for layer, x in enumerate(xs):
            own = int(sizes[layer, position])
            hover = f"{flow.rule}, after {layer} layers: the read-out knows {own}"
            parts.append(mark(x, scale.place(float(own)), hover, ring=True, colour=i, r=2.8, stroke=1.3))
        items.append((line(-6, 6, 0, 0, f"line-{i}", stroke_width=1.8), flow.rule))
        medians.append(f"{flow.rule}: median {', '.join(number(float(v)) for v in middle)}")
    read_out = f"read-out ({shortened(flows[0].tokens[position], 12)})"
    items.append((mark(0, 0, ring=True, colour=5, r=2.8, stroke=1.3), read_out))
    key, used = legend(items, LEFT, bottom + 45, RIGHT - LEFT)
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
    some = np.unique(np.linspace(1, depth, min(depth, _ROWS)).round().astype(int)).tolist()
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
    step, top, left = 30.0, 8.0, 140.0
    bottom = top + step * len(rows)
    parts = []
    inner = RIGHT - left
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + share * inner
        parts += [line(x, x, top, bottom, "grid"), tick(x, bottom + 13, number(share))]
    parts.append(axis_title(left + inner / 2, bottom + 27, "share of influence inside the set"))
    for i, row in enumerate(rows):
        y = top + step * (i + 0.5)
        parts.append(text(0, y - 1, row["where"]))
        parts.append(text(0, y + 10, row["measure"], class_="key small"))
        for j, (kind, colour, ring) in enumerate(kinds):
            at, low, high = row[kind]  # all three are NaN where nothing was compared
            if math.isnan(at):
                continue
            level = y - 7.5 + 5 * j
            a, b = left + low * inner, left + high * inner
            parts.append(line(a, b, level, level, f"line-{colour}", stroke_width=1))
            hover = f"{row['where']}, {row['measure']}, {kind}: {number(at)}"
            parts.append(mark(left + at * inner, level, hover, ring=ring, colour=colour))
    items = [(mark(0, 0, ring=ring, colour=colour, r=3), kind) for kind, colour, ring in kinds]
    key, used = legend(items, 0, bottom + 47, RIGHT)
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


def slice_figures(atlas: HeadAtlas) -> dict[str, Figure]:
    """One picture per slice, by name."""
    made = [slice_figure(piece, atlas.text_tokens, i) for i, piece in enumerate(atlas.slices)]
    return {figure.name: figure for figure in made}


def slice_figure(piece: LayerSlice, tokens: Sequence[str], number: int) -> Figure:
    """The walls of one slice, coloured by head; tokens where they fall into the plane, filled where their own
    routing holds."""
    low, high = piece.low, piece.high
    extent = np.where(high > low, high - low, 1.0)
    # one unit for both axes: angles and distances are true
    unit = min(_WIDEST / extent[0], _TALLEST / extent[1])
    wide, tall = float(unit * extent[0]), float(unit * extent[1])

    def place(points: Floats) -> Floats:
        moved = (points - low) * unit
        return np.column_stack([_EDGE + moved[:, 0], _EDGE + tall - moved[:, 1]])

    holds, polygons = piece.holds, piece.polygons
    parts = [
        element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in place(polygon)), class_="own-cell")
        for polygon in polygons
        if _any_inside(polygon, piece.token_places[holds])
    ]
    items = []
    for i, head in enumerate(piece.heads):
        walls = piece.walls(i)
        if not len(walls):
            continue
        ends = place(walls.reshape(-1, 2)).reshape(-1, 4)
        path = "".join(f"M{_tenths(a)} {_tenths(b)}L{_tenths(c)} {_tenths(d)}" for a, b, c, d in ends)
        style = f"line-{head % _LINES} wall-of{' dashed' if head // _LINES % 2 else ''}"
        hover = element("title", escape(f"head {head}: {many(int(piece.n_cells_per_head[i]), 'cell')}"))
        parts.append(element("path", hover, d=path, class_=style))
        items.append((line(-7, 7, 0, 0, style), f"head {head}"))
    parts.append(element("rect", x=_EDGE, y=_EDGE, width=wide, height=tall, class_="frame"))
    parts += _tokens(place(piece.token_places), tokens, holds, piece.spanning, wide, tall)
    key, used = legend(items, 0, _EDGE + tall + 18, WIDTH) if items else ([], 0.0)
    n_cells, per_head = f"{piece.n_cells:,}", ", ".join(f"{n:,}" for n in piece.n_cells_per_head)
    shown = per_head if len(per_head) <= 80 else per_head[:80].rsplit(",", 1)[0] + ", …"
    n_thin = sum(_width(place(polygon)) < _VISIBLE for polygon in polygons)
    thin = f" {n_thin:,} of the cells are too thin to see at this size." if n_thin else ""
    unseen = len(piece.heads) - len(items)
    silent = f" {many(unseen, 'head')} without a wall here." if unseen else ""
    repeat = " Colours repeat from one dozen of heads to the next." if max(piece.heads) >= 2 * _LINES else ""
    after = ""
    if not piece.any_position:
        token = shortened(tokens[piece.position], 20)
        after += f" Masks and positions are those of the query at position {piece.position} ({token})."
    if piece.frozen:
        after += f" Held fixed: {', '.join(piece.frozen)}."
    return Figure(
        f"slice-{number}",
        f"Layer {piece.layer}: {n_cells} cells in this window",
        f"A wall is where one head changes its key; its colour names the head. Inside a cell every head "
        f"keeps its key.{silent}{repeat}{thin} The plane is that of {_spanned(piece, tokens)}; on all of it "
        f"there are {piece.n_cells_plane:,} cells, and heads of this size could have "
        f"{piece.refinement_bound:,}. Head by head in the window: {shown}. Cells of filled tokens are "
        f"tinted.{after}",
        _how_sure(piece),
        "".join(parts + key),
        _EDGE + tall + (9 + used if items else 1),
        f"{n_cells} cells; cells per head: {per_head}.",
    )


def _tenths(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _spanned(piece: LayerSlice, tokens: Sequence[str]) -> str:
    if not piece.spanning:
        return piece.spanned_by
    names = [f"{shortened(tokens[t], 16)} ({t})" for t in piece.spanning]
    return f"the tokens {names[0]}, {names[1]} and {names[2]}"


def _how_sure(piece: LayerSlice) -> str:
    """What is exact in a slice and what is not, in numbers: cells and dots."""
    cells = "cells exact" if piece.complete else "cells a lower bound: time ran out before all were found"
    known = np.isfinite(piece.token_agreement)
    if not known.any():
        return cells
    agree, n = piece.token_agreement[known], int(piece.holds.sum())
    dots = f"dots: {n} of {int(known.sum())} tokens are filled, their own routing holds at their place"
    if n < known.sum():
        kept = f"{float(agree[agree < 1].mean()):.0%}".replace("%", "\u00a0%")
        dots += f"; hollow ones are projections that keep {kept} of their routings on average"
    return f"{cells}; {dots}"


def _any_inside(polygon: Floats, points: Floats) -> bool:
    """Whether a convex polygon, counterclockwise, holds one of some points."""
    if not len(points):
        return False
    side = np.roll(polygon, -1, axis=0) - polygon
    off = points[:, None] - polygon[None]
    return bool((side[:, 0] * off[:, :, 1] - side[:, 1] * off[:, :, 0] >= 0).all(axis=1).any())


def _width(polygon: Floats) -> float:
    """The width of a long strip with the area and perimeter of a polygon."""
    x, y = polygon.T
    area = abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    around = float(np.linalg.norm(polygon - np.roll(polygon, -1, axis=0), axis=1).sum())
    return 2 * area / around if around else 0.0


def _tokens(
    places: Floats,
    tokens: Sequence[str],
    holds: NDArray[np.bool_],
    spanning: Sequence[int],
    wide: float,
    tall: float,
) -> list[str]:
    within = np.all((places >= _EDGE) & (places <= [_EDGE + wide, _EDGE + tall]), axis=1)
    # those that belong to the picture come last, above the others, and are named first
    inside = sorted(np.flatnonzero(within).tolist(), key=lambda t: (t in spanning, bool(holds[t]), t))
    parts = []
    crowd = [t for t in inside if not holds[t]] if len(inside) > _LABELS else []
    if crowd:  # many points are one path of dots, hollow by a smaller dot of paper in each
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places[crowd].tolist())
        parts += [element("path", d=dots, class_=f"crowd {which}") for which in ("crowd-ring", "crowd-hole")]
    for t in (t for t in inside if t not in crowd):
        other = "" if holds[t] else "; its own routing does not hold here"
        title = element("title", escape(f"{shortened(tokens[t], 40)} (position {t}){other}"))
        style = "token" if holds[t] else "token hollow"
        x, y = places[t].tolist()
        parts.append(element("circle", title, cx=x, cy=y, r=3.2 if t in spanning else 2.3, class_=style))
    named = inside[::-1] if len(inside) <= _LABELS else [t for t in spanning if within[t]]
    room = (_EDGE + 2, _EDGE + 2, _EDGE + wide - 2, _EDGE + tall - 2)
    words = [shortened(tokens[t], 12) for t in named]
    spots = place_labels([(float(places[t, 0]), float(places[t, 1])) for t in named], words, 9.0, room)
    for spot, word in zip(spots, words, strict=True):
        if spot is not None:
            parts.append(text(spot[0], spot[1], word, class_="small halo", pointer_events="none"))
    return parts


def place_labels(
    points: Sequence[tuple[float, float]],
    words: Sequence[str],
    size: float,
    room: tuple[float, float, float, float],
) -> list[tuple[float, float] | None]:
    """Where labels go so that none covers another or a point; None for those that find no place."""
    taken = [(x - 3.0, y - 3.0, x + 3.0, y + 3.0) for x, y in points]
    left, top, right, bottom = room
    found: list[tuple[float, float] | None] = []
    for (x, y), word in zip(points, words, strict=True):
        wide = len(word) * size * 0.56
        for dx, dy in ((5, 3), (-5 - wide, 3), (-wide / 2, -5), (-wide / 2, size + 4)):
            box = (x + dx, y + dy - size, x + dx + wide, y + dy + 1)
            fits = box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom
            if fits and not any(
                box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken
            ):
                taken.append(box)
                found.append((x + dx, y + dy))
                break
        else:
            found.append(None)
    return found
