"""Real models: the cells of a layer with the tokens among them, how hard every head is, and what may flip."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from numpy.typing import NDArray

from hardmax.models.report.flow_figures import place_labels
from hardmax.plotting.style import FILLS, INK, LINES, given_or_new, number_of, size_in_points, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.models.atlas.head_atlas import HeadAtlas
    from hardmax.models.atlas.layer_cells import LayerSlice
    from hardmax.models.atlas.router_flips import RouterFlips

_MAX_LABELS = 40  # beyond this, words would cover the picture
_NEAR = 0.05  # a token this close to the plane, relative to the picture, counts as on it


def draw_slice(
    piece: LayerSlice,
    *,
    ax: Axes | None = None,
    tokens: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the exact cells of all heads of a layer on a plane of inputs, and where the tokens are.

    Cells with different colours have different routings; up to six heads, a wall has the colour of the head
    whose routing changes there. A token on the plane is a full dot, one off it a hollow dot at its nearest
    point.

    Parameters
    ----------
    piece : LayerSlice
    tokens : sequence of str, optional
        Words beside the dots (left out beyond forty, and where there is no place for them).
    title : str, optional
        By default the layer and the number of cells.
    """
    colours = np.zeros(piece.n_cells, dtype=np.int64)
    for column in piece.routings.T:  # across a wall one rank changes, and the colour with it
        colours += np.unique(column, return_inverse=True)[1].ravel()
    with styled():
        ax = given_or_new(ax, 5.4, 5.0)
        ax.add_collection(
            PolyCollection(
                piece.polygons,
                facecolors=[FILLS[c % len(FILLS)] for c in colours],
                edgecolors=INK,
                linewidths=0.25 if piece.n_cells > 150 else 0.6,
            )
        )
        off = piece.token_distances > _NEAR * float(np.linalg.norm(piece.high - piece.low))
        for which, face in ((off, "none"), (~off, INK)):
            x, y = piece.token_places[which].T
            ax.scatter(x, y, s=16, facecolors=face, edgecolors=INK, linewidths=0.9)
        cells, heads = number_of(piece.n_cells, "cell"), number_of(len(piece.heads), "head")
        principal = piece.spanned_by == "principal directions"
        known = "" if piece.complete else " so far"
        ax.set(
            xlim=(piece.low[0], piece.high[0]),
            ylim=(piece.low[1], piece.high[1]),
            xlabel="first principal direction" if principal else f"plane of {piece.spanned_by}",
            ylabel="second principal direction" if principal else "",
            title=title or f"layer {piece.layer}: {cells}{known} of {heads}",
        )
        ax.set_aspect("equal")
        ax.locator_params(nbins=5)
        if 1 < len(piece.heads) <= len(LINES):
            _draw_walls(ax, piece)
        if tokens is not None and len(tokens) <= _MAX_LABELS:
            _name_tokens(ax, piece, tokens)
    return ax


def _draw_walls(ax: Axes, piece: LayerSlice) -> None:
    """Draw over every edge between two cells in the colour of the head that changes there."""
    grain = 1e-7 * float((piece.high - piece.low).max())
    edges: dict[frozenset[tuple[int, ...]], list[tuple[int, NDArray[np.float64]]]] = {}
    for i, corners in enumerate(piece.polygons):
        names = [tuple(corner) for corner in np.rint(corners / grain).astype(np.int64).tolist()]
        for a, b in pairwise([*range(len(corners)), 0]):
            edges.setdefault(frozenset((names[a], names[b])), []).append((i, corners[[a, b]]))
    walls: list[list[NDArray[np.float64]]] = [[] for _ in piece.heads]
    for sides in edges.values():
        if len(sides) == 2:
            (i, ends), (j, _) = sides
            changed = np.flatnonzero(piece.routings[i] != piece.routings[j])
            if len(changed) == 1:  # where two heads change at once the edge stays black
                walls[changed[0]].append(ends)
    width = 0.8 if piece.n_cells > 150 else 1.6
    for h, colour, lines in zip(piece.heads, LINES, walls, strict=False):
        ax.add_collection(LineCollection(lines, colors=colour, linewidths=width), autolim=False)
        ax.plot([], [], color=colour, linewidth=1.6, label=f"wall of head {h}")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=3, frameon=False)


def _name_tokens(ax: Axes, piece: LayerSlice, tokens: Sequence[str]) -> None:
    """Write words beside the dots where they cover nothing."""
    inside = np.flatnonzero(
        ((piece.token_places >= piece.low) & (piece.token_places <= piece.high)).all(axis=1)
    )
    wide, tall = size_in_points(ax)
    scale = min(wide / (piece.high[0] - piece.low[0]), tall / (piece.high[1] - piece.low[1]))
    places = (piece.token_places[inside] - piece.low) * scale * [1.0, -1.0]  # there, heights count downwards
    extent = (piece.high - piece.low) * scale
    words = [tokens[t] for t in inside.tolist()]
    room = (0.0, -float(extent[1]), float(extent[0]), 0.0)
    spots = place_labels([(x, y) for x, y in places.tolist()], words, 7.5, room)
    for t, place, spot, word in zip(inside, places, spots, words, strict=True):
        if spot is not None:
            x, y = np.array(spot) - place
            ax.annotate(
                word,
                piece.token_places[t],
                xytext=(x, -y),
                textcoords="offset points",
                fontsize=7.5,
                zorder=5,
            )


def draw_atlas(atlas: HeadAtlas, *, ax: Axes | None = None) -> Axes:
    """Draw how hard every head is: the median probability of the winner, layers down, heads across."""
    layers = atlas.layers
    table = np.full((len(layers), max(record.head for record in atlas.heads) + 1), np.nan)
    for record in atlas.heads:
        table[layers.index(record.layer), record.head] = record.top_probability
    with styled():
        ax = given_or_new(ax, 1.8 + 0.36 * table.shape[1], 1.5 + 0.36 * len(layers))
        image = ax.imshow(table, vmin=0.0, vmax=1.0, cmap="cividis", aspect="equal")
        ax.set(
            xticks=range(0, table.shape[1], max(1, table.shape[1] // 12)),
            yticks=range(len(layers)),
            yticklabels=[str(number) for number in layers],
            xlabel="head",
            ylabel="layer",
            title="median probability of the winner",
        )
        if ax.figure is not None:
            ax.figure.colorbar(image, ax=ax, shrink=0.9)
    return ax


def draw_flips(found: RouterFlips, *, ax: Axes | None = None) -> Axes:
    """Draw margins over the bounds of their errors, layer by layer, and the share that cannot flip.

    Right of 1 a margin is a proof by itself. What lies beyond the picture is drawn at its edges.

    Examples
    --------
    >>> import hardmax as hm
    >>> axes = draw_flips(hm.models.router_flips(hm.models.bundled_source(), dtype="float8_e5m2"))
    >>> axes.get_xlabel()
    'margin over bound'
    """
    low, high = 1e-2, 1e4
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(found.bound > 0.0, found.margin / found.bound, np.inf)
    ratio = np.clip(np.nan_to_num(ratio, nan=0.0, posinf=high), low * 1.01, high * 0.99)
    bins = np.geomspace(low, high, 61)
    layers = found.layers
    with styled():
        ax = given_or_new(ax, 5.8, 1.6 + 0.5 * max(3, len(layers)))
        for row, (layer, share) in enumerate(zip(layers, found.layer_shares, strict=True)):
            here = found.layer == layer
            safe, all_of_them = (
                np.histogram(ratio[which], bins)[0] for which in (here & found.cannot_flip, here)
            )
            looks = ((all_of_them, LINES[1], "may flip"), (safe, LINES[2], "cannot flip"))
            for counts, colour, name in looks:
                heights = 0.85 * counts / max(1, all_of_them.max())
                label = None if row else name
                look: Any = {"align": "edge", "color": colour, "linewidth": 0, "label": label}
                ax.bar(bins[:-1], heights, np.diff(bins), row, **look)
            ax.annotate(
                f"{100 * share:.1f} %",
                (1.01, row + 0.3),
                xycoords=("axes fraction", "data"),
                annotation_clip=False,
            )
        ax.axvline(1.0, color=INK, linewidth=0.9)
        ax.set(
            xscale="log",
            xlim=(low, high),
            ylim=(-0.05, len(layers)),
            yticks=np.arange(len(layers)) + 0.4,
            yticklabels=[str(layer) for layer in layers],
            xlabel="margin over bound",
            ylabel="layer",
            title=f"{100 * found.share:.1f} % of {number_of(found.n_decisions, 'decision')} cannot flip in "
            f"{found.dtype}",
        )
        ax.legend(loc="upper right", frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    return ax
