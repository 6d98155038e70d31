"""Pictures of layers: the exact routing cells of all heads on a plane of inputs, with the tokens in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hardmax.models.report_svg import WIDTH, Figure, element, escape, shortened, text

if TYPE_CHECKING:
    from hardmax.models.atlas import HeadAtlas, LayerSlice

__all__ = ["slice_figure", "slice_figures"]

_LEFT, _TOP, _SIDE = 10.0, 10.0, WIDTH - 20.0
_LABELS = 60  # tokens beyond this many get a point and no name
_FILLS = 6


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
    tall = float(_SIDE * min(max(extent[1] / extent[0], 0.5), 1.15))

    def place(points: np.ndarray) -> np.ndarray:
        share = (np.asarray(points, dtype=np.float64) - low) / extent
        return np.column_stack([_LEFT + share[:, 0] * _SIDE, _TOP + (1.0 - share[:, 1]) * tall])

    parts = []
    routings = np.asarray(piece.routings)
    for polygon, colour in zip(polygons, _colours(routings), strict=True):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in place(polygon))
        parts.append(element("polygon", points=points, class_=f"fill-{colour} wall"))
    parts.append(element("rect", x=_LEFT, y=_TOP, width=_SIDE, height=tall, class_="frame"))
    parts += _tokens(place(np.asarray(piece.token_places)), tokens, tall)
    exact = bool(piece.complete)
    many = f"{piece.n_cells:,}"
    per_head = ", ".join(f"{n:,}" for n in piece.n_cells_per_head)
    position = getattr(piece, "position", None)
    where = (
        f" The plane is that of the query at position {position} ({shortened(tokens[position], 20)})."
        if position is not None and 0 <= position < len(tokens)
        else ""
    )
    return Figure(
        f"slice-{number}",
        f"Layer {piece.layer}: {many} cells of all heads together, on a plane of inputs",
        f"Inside a cell every head keeps its key; a wall is where one head changes it. Cells head by head: "
        f"{_listed(per_head)}. Points are the tokens, projected into the plane.{where}",
        "exact" if exact else "lower bound: stopped before it was complete",
        "".join(parts),
        _TOP + tall + 10,
        f"{many} polygons; cells per head: {per_head}.",
    )


def _listed(per_head: str) -> str:
    return per_head if len(per_head) <= 80 else per_head[:80].rsplit(",", 1)[0] + ", …"


def _colours(routings: np.ndarray) -> list[int]:
    """A colour for every routing: the same routing has the same one, neighbours mostly differ."""
    multipliers = 2654435761 * (2 * np.arange(routings.shape[1], dtype=np.uint64) + 1) % (1 << 32)
    mixed = (routings.astype(np.uint64) + 1) * multipliers % (1 << 32)
    return [int(value) for value in (mixed.sum(axis=1) // 7919) % _FILLS]


def _tokens(places: np.ndarray, tokens: Sequence[str], tall: float) -> list[str]:
    inside = [
        (float(x), float(y), t)
        for t, (x, y) in enumerate(places)
        if _LEFT <= x <= _LEFT + _SIDE and _TOP <= y <= _TOP + tall
    ]
    parts = []
    for x, y, t in inside:
        title = element("title", escape(f"{shortened(tokens[t], 40)} (position {t})"))
        parts.append(element("circle", title, cx=x, cy=y, r=2.3, class_="token"))
    if len(inside) <= _LABELS:
        room = (_LEFT + 2, _TOP + 2, _LEFT + _SIDE - 2, _TOP + tall - 2)
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
