"""Pictures of layers: the exact routing cells of all heads on a plane of inputs, with the tokens in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.models.report.svg import WIDTH, Figure, element, escape, shortened, text

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas
    from hardmax.models.atlas.layer_cells import LayerSlice

__all__ = ["slice_figure", "slice_figures"]

Floats = NDArray[np.float64]

_LEFT, _TOP, _SIDE, _TALL = 1.0, 1.0, WIDTH - 2.0, 400.0
_LABELS = 60  # tokens beyond this many get a point and no name
_FILLS = 6
_VISIBLE = 0.7  # a strip narrower than this disappears under the strokes of its walls


def slice_figures(atlas: HeadAtlas) -> dict[str, Figure]:
    """One picture per slice, by name."""
    made = [slice_figure(piece, atlas.text_tokens, i) for i, piece in enumerate(atlas.slices)]
    return {figure.name: figure for figure in made}


def slice_figure(piece: LayerSlice, tokens: Sequence[str], number: int) -> Figure:
    """The cells of one slice; one colour per routing, tokens where they fall into the plane."""
    polygons = [np.asarray(polygon, dtype=np.float64) for polygon in piece.polygons]
    corners = np.concatenate(polygons) if polygons else np.asarray(piece.token_places, dtype=np.float64)
    low, high = corners.min(axis=0), corners.max(axis=0)
    extent = np.where(high > low, high - low, 1.0)
    unit = min(_SIDE / extent[0], _TALL / extent[1])  # one unit for both axes: angles and distances are true
    wide, tall = float(unit * extent[0]), float(unit * extent[1])

    def place(points: Floats) -> Floats:
        moved = (np.asarray(points, dtype=np.float64) - low) * unit
        return np.column_stack([_LEFT + moved[:, 0], _TOP + tall - moved[:, 1]])

    parts = []
    routings = np.asarray(piece.routings)
    for polygon, colour in zip(polygons, _colours(routings), strict=True):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in place(polygon))
        parts.append(element("polygon", points=points, class_=f"fill-{colour} wall"))
    parts.append(element("rect", x=_LEFT, y=_TOP, width=wide, height=tall, class_="frame"))
    parts += _tokens(place(piece.token_places), tokens, wide, tall)
    many, per_head = f"{piece.n_cells:,}", ", ".join(f"{n:,}" for n in piece.n_cells_per_head)
    shown = per_head if len(per_head) <= 80 else per_head[:80].rsplit(",", 1)[0] + ", …"
    agree = np.asarray(piece.token_agreement, dtype=np.float64)
    agree = agree[np.isfinite(agree)]
    seen = (
        ""
        if not agree.size
        else (f" At their projections {agree.mean():.0%} of the routings are those of the tokens themselves.")
    )
    where = (
        ""
        if piece.any_position
        else (
            f" Masks and positions are those of the query at position {piece.position} "
            f"({shortened(tokens[piece.position], 20)})."
        )
    )
    frozen = f" Held fixed: {', '.join(piece.frozen)}." if piece.frozen else ""
    n_thin = sum(_width(place(polygon)) < _VISIBLE for polygon in polygons)
    thin = f" {n_thin:,} of the cells are too thin to see at this size." if n_thin else ""
    return Figure(
        f"slice-{number}",
        f"Layer {piece.layer}: {many} cells in this window",
        f"Inside a cell every head keeps its key; a wall is where one head changes it.{thin} The plane is "
        f"that of {piece.spanned_by}; on all of it there are {piece.n_cells_plane:,} cells, and heads of "
        f"this size could have {piece.refinement_bound:,}. Head by head in the window: {shown}. Points are "
        f"tokens, projected.{seen}{where}{frozen}".replace("%", "\u00a0%"),
        "exact" if piece.complete else "a lower bound: time ran out before all cells were found",
        "".join(parts),
        _TOP + tall + 1,
        f"{many} polygons; cells per head: {per_head}.",
    )


def _width(polygon: Floats) -> float:
    """The width of a long strip with the area and perimeter of a polygon."""
    x, y = polygon.T
    area = abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    around = float(np.linalg.norm(polygon - np.roll(polygon, -1, axis=0), axis=1).sum())
    return 2 * area / around if around else 0.0


def _colours(routings: NDArray[np.int64]) -> list[int]:
    """A colour for every routing: the same routing has the same one, neighbours mostly differ."""
    multipliers = 2654435761 * (2 * np.arange(routings.shape[1], dtype=np.uint64) + 1) % (1 << 32)
    mixed = (routings.astype(np.uint64) + 1) * multipliers % (1 << 32)
    return [int(value) for value in (mixed.sum(axis=1) // 7919) % _FILLS]


def _tokens(places: Floats, tokens: Sequence[str], wide: float, tall: float) -> list[str]:
    inside = [
        (float(x), float(y), t)
        for t, (x, y) in enumerate(places)
        if _LEFT <= x <= _LEFT + wide and _TOP <= y <= _TOP + tall
    ]
    parts = []
    for x, y, t in inside:
        title = element("title", escape(f"{shortened(tokens[t], 40)} (position {t})"))
        parts.append(element("circle", title, cx=x, cy=y, r=2.3, class_="token"))
    if len(inside) <= _LABELS:
        room = (_LEFT + 2, _TOP + 2, _LEFT + wide - 2, _TOP + tall - 2)
        words = [shortened(tokens[t], 12) for _, _, t in inside]
        spots = place_labels([(x, y) for x, y, _ in inside], words, 9.0, room)
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
        chosen = None
        for dx, dy in ((5, 3), (-5 - wide, 3), (-wide / 2, -5), (-wide / 2, size + 4)):
            box = (x + dx, y + dy - size, x + dx + wide, y + dy + 1)
            if box[0] < left or box[1] < top or box[2] > right or box[3] > bottom:
                continue
            if any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken):
                continue
            taken.append(box)
            chosen = (x + dx, y + dy)
            break
        found.append(chosen)
    return found
