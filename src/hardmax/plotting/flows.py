"""The way of information through the layers, as P2 figure 5 draws it, and what one token reads (figure 3).

One row per layer, from the input at the bottom to the last layer at the top, one column per token, the
classification token last. An arrow goes from what is read to the token that reads: blue for the winner of a
head, green for fixed positions, purple for reading everything, grey for what a token keeps of itself. What
never reaches the classification token is pale. Tokens of the input on which the target depends are red.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_sets import (
    InformationFlow,
    Reading,
    Trace,
    information_sets,
    set_text,
    token_name,
)
from hardmax.flow.plans import GlobalRead, KeyScore, MaxPosition, Plan, Positions, Rule
from hardmax.plotting.style import FILLS, INK, LINES, Picture, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


COLOURS = {"own": "#8A939B", "head": LINES[0], "position": LINES[2], "all": LINES[3]}
"""The colour of each kind of reading."""

NAMES = {"own": "kept", "head": "winner of a head", "position": "fixed position", "all": "all input tokens"}
"""And its name in a legend."""

_MOST_TOKENS = 40
_LABELLED = 12  # more tokens are drawn as dots, and only sets on the way to CLS are written out
_ACTIVE = "#F4B6A6"
_PALE = 0.28
_OWN = LINES[1]  # the residual connection is orange in the paper
_SHADES = {"own": "#F6CDA8", "head": "#A9CBE6", "position": "#A5DCC8", "all": "#E3C3D6"}
_WORDS = {"own": "residual", "head": "argmax", "position": "fixed position", "all": "all positions"}
_MOST_READ = 16


def draw_flow(
    flow: InformationFlow, *, ax: Axes | None = None, active: NDArray[np.bool_] | None = None
) -> Axes:
    """Draw the way of information for the first input of a flow; ``flow.of_input(i)`` for another.

    Parameters
    ----------
    flow : InformationFlow
        At most 40 tokens.
    active : bool array (T,), optional
        The tokens on which a target depends at this input; they are shaded red, and the title says whether
        the classification token ends up with all of them.

    Examples
    --------
    >>> import hardmax as hm
    >>> nearest = hm.MaxPosition(hm.BilinearScore([[1.0]]))
    >>> plan = hm.Plan([{"tokens": [nearest]}, {"cls": [hm.Positions([1])]}])
    >>> flow = hm.information_sets(hm.Architecture(3, 1, (1, 1), 1), plan, [[1.0], [2.0], [3.0]])
    >>> axes = draw_flow(flow)
    >>> [text.get_text() for text in axes.texts if "CLS" in text.get_text()]
    ['CLS\\n∅', 'CLS\\n∅', 'CLS\\n{2, 3}']
    """
    trace = Trace(flow.of_input(0))
    T, L = trace.n_tokens, trace.depth
    if T > _MOST_TOKENS:
        raise InvalidInputError(
            f"a flow is drawn for at most {_MOST_TOKENS} tokens, but has {T}; try trace() for a table."
        )
    shaded = np.zeros(T, dtype=bool) if active is None else np.asarray(active, dtype=bool)
    if shaded.shape != (T,):
        raise DimensionMismatchError(f"active must have the shape ({T},), but had {shaded.shape}.")
    readings = {
        (layer, t): trace.readings(layer, t) for layer in range(1, L + 1) for t in trace.tokens(layer)
    }
    live = _on_the_way(readings, T, L)
    held = [trace.held(layer) for layer in range(L + 1)]
    named = T <= _LABELLED
    with styled():
        ax = given_or_new(ax, max(5.2, (1.15 if named else 0.42) * (T + 1) + 1.2), 1.35 * L + 1.6)
        for (layer, t), sources in readings.items():
            for reading in sources:
                _arrow(ax, layer, t, reading, T, (layer, t) in live)
        for layer in range(L + 1):
            for t in trace.tokens(layer):
                red = layer == 0 and t < T and bool(shaded[t])
                _node(ax, layer, t, T, held[layer][t], (layer, t) in live, red, named)
        _frame(ax, T, L, [reading for sources in readings.values() for reading in sources])
        ax.set_title(_title(held[L][T], shaded if active is not None else None))
    return ax


def _on_the_way(readings: dict[tuple[int, int], list[Reading]], T: int, L: int) -> set[tuple[int, int]]:
    """The tokens from which arrows lead to the classification token of the last layer."""
    live = {(L, T)}
    for layer in range(L, 0, -1):
        for t in range(T + 1):
            if (layer, t) in live:
                for reading in readings[layer, t]:
                    live |= {(layer - 1, s) for s in _sources(reading, T)}
    return live


def _sources(reading: Reading, T: int) -> Sequence[int]:
    """The tokens that are read: one, or all of the input."""
    return range(T) if reading.source is None else (reading.source,)


def _column(t: int, T: int) -> float:
    """Where a token stands; beside a row of dots CLS needs room."""
    return t + 1.2 if t == T > _LABELLED else float(t)


def _arrow(ax: Axes, layer: int, t: int, reading: Reading, T: int, strong: bool) -> None:
    above, below = (0.24 if T <= _LABELLED or token == T else 0.1 for token in (t, reading.source))
    for s in _sources(reading, T):
        bend = 0.0 if s == t else 0.06 * (reading.head % 3 - 1)
        ax.add_patch(
            FancyArrowPatch(
                (_column(s, T), layer - 1 + below),
                (_column(t, T), layer - above),
                arrowstyle="-|>",
                mutation_scale=9 if strong else 6,
                connectionstyle=f"arc3,rad={bend:.2f}",
                color=COLOURS[reading.kind],
                alpha=1.0 if strong else _PALE,
                linewidth=(0.7 if reading.source is None else 1.5) if strong else 0.8,
                linestyle=(0, (4, 2)) if reading.pruned else "-",
                shrinkA=0,
                shrinkB=0,
                zorder=2 if strong else 1,
            )
        )


def _node(
    ax: Axes, layer: int, t: int, T: int, held: NDArray[np.bool_], strong: bool, red: bool, named: bool
) -> None:
    fill = _ACTIVE if red else FILLS[3] if t == T else "#E9EEF2"
    alpha = 1.0 if strong or red else 0.45
    if not named and t < T:
        ax.plot(t, layer, "o", markerfacecolor=fill, markeredgecolor=INK, markersize=7, alpha=alpha, zorder=3)
        if layer == 0:
            ax.text(t, -0.16, str(t + 1), ha="center", va="top", fontsize=8, alpha=alpha)
        return
    width = 0.78 if named else 2.8
    ax.add_patch(
        FancyBboxPatch(
            (_column(t, T) - 0.5 * width, layer - 0.2),
            width,
            0.4,
            boxstyle="round,pad=0.02,rounding_size=0.08",
            facecolor=fill,
            edgecolor=INK,
            linewidth=1.0 if strong else 0.5,
            alpha=alpha,
            zorder=3,
        )
    )
    members = _short(held)
    ax.text(
        _column(t, T),
        layer,
        f"{token_name(t, T)}\n{members}",
        ha="center",
        va="center",
        fontsize=8.5 if len(members) <= 11 else 7,
        alpha=1.0 if strong or red else 0.6,
        zorder=4,
        linespacing=1.25,
    )


def _short(held: NDArray[np.bool_]) -> str:
    """The set in few characters: positions from 1, as in the paper."""
    numbers = [str(t + 1) for t in np.flatnonzero(held)]
    if not numbers:
        return "∅"
    if len(numbers) == len(held) > 4:
        return f"{{1, …, {len(held)}}}"
    if len(numbers) > 5:
        return f"{{{', '.join(numbers[:3])}, …}}: {len(numbers)}"
    return "{" + ", ".join(numbers) + "}"


def _frame(ax: Axes, T: int, L: int, drawn: list[Reading]) -> None:
    ax.set(xlim=(-0.75, T + (0.75 if T <= _LABELLED else 2.8)), ylim=(-0.4, L + 0.3))
    ax.set_yticks(range(L + 1), ["input", *(f"layer {layer}" for layer in range(1, L + 1))])
    ax.set_xticks([])
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    kinds = {reading.kind for reading in drawn}
    handles = [Line2D([], [], color=COLOURS[kind], label=NAMES[kind]) for kind in COLOURS if kind in kinds]
    if any(reading.pruned for reading in drawn):
        handles.append(Line2D([], [], color=INK, linestyle=(0, (4, 2)), label="in part"))
    if handles:
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5, frameon=False)


def _title(held: NDArray[np.bool_], active: NDArray[np.bool_] | None) -> str:
    known = f"CLS holds {set_text(held)}"
    if active is None:
        return known
    missing = active & ~held
    if missing.any():
        return f"{known}, misses {set_text(missing)}"
    return f"{known}: all that the target needs"


def draw_reading(
    flow: InformationFlow, token: int, *, layer: int = 1, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw what one token reads in one layer, for the first input of a flow.

    Parameters
    ----------
    flow : InformationFlow
        At most 16 tokens.
    token : int
        The reading token, counted from 0; T is the classification token.
    layer : int
        The layer.
    title : str, optional
        A line above the picture.

    Examples
    --------
    >>> import hardmax as hm
    >>> flow = hm.information_sets(
    ...     hm.Architecture(4, 1, (1,), 1), hm.Plan([{"cls": [hm.Positions([0, 3])]}]), np.zeros((1, 4, 1))
    ... )
    >>> axes = draw_reading(flow, 4)
    >>> len([patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)])
    4
    """
    trace = Trace(flow.of_input(0))
    T = trace.n_tokens
    if T > _MOST_READ:
        raise InvalidInputError(f"a reading is drawn for at most {_MOST_READ} tokens, but there are {T}.")
    if not 1 <= layer <= trace.depth or token not in trace.tokens(layer):
        raise InvalidInputError(
            f"layer {layer} has no token {token}; layers count from 1 to {trace.depth}, tokens from 0 to {T} "
            "(CLS), and the last layer has CLS only."
        )
    kinds: dict[int, list[str]] = {s: [] for s in range(T)}
    for reading in trace.readings(layer, token):
        for s in _sources(reading, T):
            if s < T and reading.kind not in kinds[s]:
                kinds[s].append(reading.kind)
    with styled():
        ax = given_or_new(ax, 0.95 * T + 0.8, 3.0)
        place = float(token) if token < T else 0.5 * (T - 1)
        for s, found in kinds.items():
            fill = _SHADES[found[-1]] if found else "#EEF1F3"  # what is fetched outshines what is kept
            _token(ax, s, 1.0, token_name(s, T), fill, bool(found))
            for number, kind in enumerate(found or [None]):
                ax.add_patch(
                    _reading_arrow(s, place, T, kind, 0.18 * (number - 0.5 * (len(found or [None]) - 1)))
                )
        _token(ax, place, 0.0, token_name(token, T) + "′", "#FFFFFF", True)
        taken: list[float] = []
        for kind in dict.fromkeys(kind for found in kinds.values() for kind in found):
            at = [s for s, found in kinds.items() if kind in found]
            where = sum(at) / len(at)
            height = 1.34 + 0.22 * sum(abs(where - other) < 1.3 for other in taken)
            taken.append(where)
            word = _WORDS[kind] + ("s" if kind == "position" and len(at) > 1 else "")
            colour = _OWN if kind == "own" else COLOURS[kind]
            ax.text(where, height, word, ha="center", va="bottom", fontsize=9, color=colour)
        ax.set(xlim=(-0.6, T - 0.4), ylim=(-0.42, 1.66), aspect="equal")
        ax.axis("off")
        if title is not None:
            ax.set_title(title)
    return ax


def draw_rules(
    n_tokens: int = 4, token: int = 2, winner: int = 0, positions: tuple[int, ...] = (0, 1)
) -> Picture:
    """The three rules of P2 section 5.1 side by side, read by one token (figure 3).

    Parameters
    ----------
    n_tokens, token, winner, positions : int, int, int, tuple of int
        The sequence, the reading token, the key with the greatest score, and the positions that rule 3 reads.

    Examples
    --------
    >>> figure = draw_rules()
    >>> [axes.get_title() for axes in figure.axes]
    ['I: max-position', 'II: global', 'III: fixed positions']
    """
    greatest = np.zeros((1, n_tokens, 1))
    greatest[0, winner] = 1.0
    rules: dict[str, Rule] = {
        "I: max-position": MaxPosition(KeyScore(lambda keys: keys[:, :, 0, 0])),
        "II: global": GlobalRead(),
        "III: fixed positions": Positions(positions, residual=False),
    }
    with styled():
        figure = new_figure(3 * (0.72 * n_tokens + 0.5), 2.6)
        for axes, (title, rule) in zip(np.atleast_1d(figure.subplots(1, 3)), rules.items(), strict=True):
            plan = Plan([{"tokens": [rule]}, {}])
            flow = information_sets(Architecture(n_tokens, 1, (1, 1), 1), plan, greatest)
            draw_reading(flow, token, ax=axes, title=title)
    return figure


def _reading_arrow(s: float, place: float, T: int, kind: str | None, bend: float) -> FancyArrowPatch:
    return FancyArrowPatch(
        (s, 1.0 - 0.3),
        (place + 0.14 * (s - place) / max(T - 1, 1), 0.3),
        arrowstyle="-|>",
        mutation_scale=10,
        connectionstyle=f"arc3,rad={bend:.2f}",
        color="#B8BFC5" if kind is None else _OWN if kind == "own" else COLOURS[kind],
        linestyle=(0, (3, 2.5)) if kind is None else "-",
        linewidth=0.7 if kind is None else 1.6,
        shrinkA=0,
        shrinkB=0,
        zorder=1 if kind is None else 2,
    )


def _token(ax: Axes, x: float, y: float, name: str, fill: str, strong: bool) -> None:
    ax.add_patch(
        Circle((x, y), 0.28, facecolor=fill, edgecolor=INK if strong else "#B8BFC5", linewidth=1.0, zorder=3)
    )
    ax.text(x, y, name, ha="center", va="center", fontsize=9, color=INK if strong else "#8A939B", zorder=4)
