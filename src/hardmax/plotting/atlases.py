"""Real models: cells of a layer and its tokens, how hard every head is, who reads whom, and what may flip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection

from hardmax.models.report.flow_figures import place_labels
from hardmax.plotting.style import INK, LINES, given_or_new, number_of, size_in_points, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.models.atlas.head_atlas import HeadAtlas
    from hardmax.models.atlas.layer_cells import LayerSlice
    from hardmax.models.atlas.router_flips import RouterFlips
    from hardmax.models.influence.routing_flow import TokenFlow

_MAX_LABELS = 40  # beyond this, words would cover the picture
_MAX_ROUTES = 80  # tokens of a text whose names fit beside its routes


def draw_slice(
    piece: LayerSlice,
    *,
    ax: Axes | None = None,
    tokens: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the exact cells of all heads of a layer on a plane of inputs, and where the tokens are.

    Walls are coloured by head. A token is a full dot where the routing at its place
    in the plane is its own in every head; others are hollow dots at their nearest point.

    Parameters
    ----------
    piece : LayerSlice
    tokens : sequence of str, optional
        Words beside the dots (left out beyond forty, and where there is no place for them).
    title : str, optional
        By default the layer and the number of cells.
    """
    with styled():
        ax = given_or_new(ax, 5.4, 5.0)
        ax.add_collection(PolyCollection(piece.polygons, facecolors="white", edgecolors="none"))
        for number, head in enumerate(piece.heads):
            walls = LineCollection(
                list(piece.walls(number)),
                colors=LINES[head % len(LINES)],
                linestyles=("-", (0, (4, 2)))[head // len(LINES) % 2],
                linewidths=0.9,
                label=f"head {head}",
            )
            ax.add_collection(walls)
        if 1 < len(piece.heads) <= 2 * len(LINES):
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=7.5)
        for which, face in ((~piece.holds, "none"), (piece.holds, INK)):
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
        if tokens is not None and len(tokens) <= _MAX_LABELS:
            _name_tokens(ax, piece, tokens)
    return ax


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


def draw_routes(flow: TokenFlow, *, position: int = -1, ax: Axes | None = None) -> Axes:
    """Draw who reads whom: the text once per layer, a line from every token to what it reads.

    Lines and tokens on the way to the token at ``position`` are dark, the others pale.

    Examples
    --------
    >>> import hardmax as hm
    >>> flow = hm.models.token_flow(hm.models.bundled_source())
    >>> axes = draw_routes(flow)
    >>> axes.get_title()
    'argmax: CLS can know 6 of 15 positions'
    """
    live, routes = flow.on_the_way(position), flow.routes
    n, depth = len(flow.tokens), flow.n_layers
    with styled():
        ax = given_or_new(ax, 1.6 + 1.25 * depth, 1.2 + 0.17 * max(n, 8))
        for strong in (False, True):
            lines, kept = [], []
            for layer in range(depth):
                on = live[layer + 1]
                lines += [
                    [(layer + 1, t), (layer, s)] for t, s in np.argwhere(routes[layer]) if on[t] == strong
                ]
                kept += [[(layer + 1, t), (layer, t)] for t in range(n) if on[t] == strong]
            for segments, colour in ((kept, INK), (lines, LINES[0])):
                ax.add_collection(
                    LineCollection(segments, colors=colour, linewidths=0.8, alpha=0.75 if strong else 0.1)
                )
        for layer in range(depth + 1):
            ax.scatter(
                np.full(n, layer),
                range(n),
                s=9,
                zorder=3,
                color=[INK if on else "#C9CED3" for on in live[layer]],
            )
        words = flow.tokens if n <= _MAX_ROUTES else ["" if t % 10 else str(t) for t in range(n)]
        ax.set(
            xlim=(-0.2, depth + 0.2),
            ylim=(n - 0.5, -0.5),
            xticks=range(depth + 1),
            xticklabels=["input", *(f"layer {layer}" for layer in range(depth))],
            yticks=range(n),
            yticklabels=words,
            title=f"{flow.rule}: {flow.tokens[position]} can know {len(flow.known_by(position))} of "
            f"{number_of(len(flow.key_tokens), 'position')}",
        )
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
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
                ax.bar(
                    bins[:-1],
                    heights,
                    np.diff(bins),
                    row,
                    align="edge",
                    color=colour,
                    linewidth=0,
                    label=label,
                )
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
