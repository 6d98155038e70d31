"""What a plan must hold against what its layers can hold, and suggested architectures side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardmax.errors import InvalidInputError
from hardmax.plotting.style import FILLS, INK, LINES, given_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.flow.costs.advise import Advice
    from hardmax.flow.costs.estimate import CostEstimate

_COLOURS = {"maxima": LINES[0], "everything": LINES[1]}


def draw_estimate(estimate: CostEstimate, *, ax: Axes | None = None) -> Axes:
    """Draw, layer by layer, the numbers that a state must carry and the width that it has.

    A bar that passes its width costs epsilon^{-p} parameters, p as written beside it.
    """
    shape = estimate.architecture
    d, layers = shape.d_token, range(shape.depth)
    needed = [size * d for size in estimate.layer_sizes]
    everything = shape.n_tokens * d
    with styled():
        ax = given_or_new(ax, 7.0, 0.75 * shape.depth + 1.9)
        ax.barh(
            layers, needed, height=0.5, color=FILLS[0], edgecolor=INK, linewidth=0.8, label="to hold: |I| d"
        )
        for layer in layers:
            ax.plot(
                [shape.widths[layer]] * 2,
                [layer - 0.36, layer + 0.36],
                color=LINES[1],
                linewidth=2.6,
                label="width E" if layer == 0 else None,
            )
            over = max(needed[layer] / shape.widths[layer] - 1, 0)
            ax.annotate(
                f"{estimate.layer_sizes[layer]} tokens, p = {over:.3g}",
                (max(needed[layer], shape.widths[layer]), layer),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        right = max(*needed, *shape.widths)
        if everything < 1.6 * right:
            ax.axvline(everything, color=INK, linestyle=(0, (4, 3)), linewidth=1, label="all tokens: T d")
        ax.set(
            xlim=(0, 1.42 * right),
            ylim=(-0.6, shape.depth - 0.4),
            xlabel="numbers per state",
            yticks=list(layers),
        )
        ax.set_yticklabels([f"layer {layer + 1}\n{shape.heads[layer]} heads" for layer in layers])
        ax.set_title(f"{estimate.rules}: exponent {estimate.lower} to {estimate.upper}")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def draw_advice(advice: Advice, *, ax: Axes | None = None) -> Axes:
    """Draw the parameters of the suggested architectures, the smallest at the top.

    Parameters
    ----------
    advice : Advice
        With at least one suggestion.
    """
    if not advice.suggestions:
        raise InvalidInputError("there is nothing to draw: the advice has no suggestions.")
    rows = advice.suggestions
    with styled():
        ax = given_or_new(ax, 7.6, 0.52 * len(rows) + 1.5)
        low, high = min(row.parameters for row in rows) / 2, max(row.parameters for row in rows) * 4
        for place, row in enumerate(rows):
            colour = _COLOURS[row.rules]
            ax.plot(row.parameters, place, "o", color=colour, markersize=8, markeredgecolor=INK, zorder=2)
            text = f"{row.parameters:,}" + ("" if row.exponent == 0 else f", p = {float(row.exponent):.3g}")
            ax.annotate(
                text,
                (row.parameters, place),
                xytext=(9, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        ax.set(xscale="log", xlim=(low, high), ylim=(len(rows) - 0.4, -0.6), xlabel="parameters")
        labels = [f"heads {_listed(row.heads)}; widths {_listed(row.widths)}" for row in rows]
        ax.set_yticks(range(len(rows)), labels)
        ax.grid(axis="y", color="#E3E7EA", linewidth=0.8)  # no stems: a logarithmic axis has no zero
        ax.set_axisbelow(True)
        ax.set_title(f"{advice.target}, T = {advice.n_tokens}, d = {advice.d_token}")
        for rules in _COLOURS:
            if any(row.rules == rules for row in rows):
                label = f"reads {rules}"
                ax.plot([], [], "o", color=_COLOURS[rules], markersize=8, markeredgecolor=INK, label=label)
        ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.18), ncols=2, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
