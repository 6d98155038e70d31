"""Trees of comparison at work on one input, as P2 figure 2 draws them.

Leaves at the bottom carry positions, counted from 1; every inner node takes over the tuple of the child that
wins, and the way of the winner is drawn thick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hardmax.errors import InvalidInputError
from hardmax.plotting.style import FILLS, INK, LINES, Picture, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.targets.comparison_trees import ComparisonTree

_MOST_LEAVES = 32


def draw_tree(
    tree: ComparisonTree, x: ArrayLike, *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw a tree of comparison with the tuples that travel up for one input.

    Parameters
    ----------
    tree : ComparisonTree
        At most 32 leaves.
    x : array (T, d)
        The input.
    title : str, optional
        A line above the picture; by default what arrives at the root.
    """
    leaves = tree.leaves
    count = len(leaves)
    if count > _MOST_LEAVES:
        raise InvalidInputError(f"a tree is drawn with at most {_MOST_LEAVES} leaves, but has {count}.")
    tokens = np.asarray(x, dtype=np.float64)
    if tokens.ndim != 2 or len(tokens) < tree.n_tokens:
        raise InvalidInputError(
            f"x must be one sequence (T, d) that has the positions of the leaves, but had {tokens.shape}."
        )
    nodes = _balanced(count) if tree.nodes is None else tree.nodes.tolist()
    holds, places, winners = list(leaves), [(float(i), 0.0) for i in range(count)], {}
    for left, right, which in nodes:
        scores = [
            float(np.asarray(tree.functions[which](tokens[None, list(holds[c])]))[0]) for c in (left, right)
        ]
        winner = left if scores[0] >= scores[1] else right
        winners[len(holds)] = winner
        across = 0.5 * (places[left][0] + places[right][0])
        places.append((across, max(places[left][1], places[right][1]) + 1.0))
        holds.append(holds[winner])
    way = {len(holds) - 1}
    for node in range(len(holds) - 1, count - 1, -1):
        if node in way:
            way.add(winners[node])
    with styled():
        height = places[-1][1]
        ax = given_or_new(ax, max(3.2, 0.85 * count), 0.9 * height + 1.4)
        for number, (left, right, _) in enumerate(nodes, start=count):
            for child in (left, right):
                wins, strong = winners[number] == child, child in way and number in way
                ax.plot(
                    *zip(places[child], places[number], strict=True),
                    color=LINES[0] if strong else INK if wins else "#B8BFC5",
                    linewidth=2.4 if strong else 1.2,
                    linestyle="-" if wins else (0, (3, 2)),
                    zorder=1,
                )
        for node, (place, held) in enumerate(zip(places, holds, strict=True)):
            root = node == len(holds) - 1
            fill = FILLS[3] if root else FILLS[5] if node in way else "#E9EEF2"
            ax.text(
                *place,
                _positions(held),
                ha="center",
                va="center",
                fontsize=9,
                zorder=3,
                bbox={"boxstyle": "round,pad=0.35", "facecolor": fill, "edgecolor": INK, "linewidth": 0.9},
            )
        ax.set(xlim=(-0.6, count - 0.4), ylim=(-0.45, height + 0.45))
        ax.axis("off")
        ax.set_title(f"root {_positions(holds[-1])}" if title is None else title)
    return ax


def draw_trees(trees: Sequence[ComparisonTree], x: ArrayLike, titles: Sequence[str] | None = None) -> Picture:
    """Several trees at work on one input, side by side (figure 2).

    Parameters
    ----------
    trees : sequence of ComparisonTree
        At most 32 leaves each.
    x : array (T, d)
        The input.
    titles : sequence of str, optional
        One line above each tree.
    """
    if not trees:
        raise InvalidInputError("trees must hold at least one tree, but was empty.")
    if titles is not None and len(titles) != len(trees):
        raise InvalidInputError(f"titles must name {len(trees)} trees, but has {len(titles)} entries.")
    with styled():
        widths = [max(2.4, 0.75 * len(tree.leaves)) for tree in trees]
        depth = max(len(tree.leaves) - 1 for tree in trees).bit_length()
        figure = new_figure(sum(widths), 0.8 * depth + 1.2)
        panels = figure.subplots(1, len(trees), width_ratios=widths, squeeze=False)[0]
        for number, (axes, tree) in enumerate(zip(panels, trees, strict=True)):
            draw_tree(tree, x, ax=axes, title=None if titles is None else titles[number])
    return figure


def _positions(held: tuple[int, ...]) -> str:
    """A tuple of positions, counted from 1."""
    return "{" + ", ".join(str(t + 1) for t in held) + "}"


def _balanced(count: int) -> list[list[int]]:
    """Neighbours are compared round by round, as in a tournament."""
    nodes: list[list[int]] = []
    standing = list(range(count))
    while len(standing) > 1:
        ahead = []
        for left, right in zip(standing[::2], standing[1::2], strict=False):
            nodes.append([left, right, 0])
            ahead.append(count + len(nodes) - 1)
        standing = ahead + standing[len(standing) - len(standing) % 2 :]
    return nodes
