"""What one token reads in one layer, and the three rules side by side, as P2 figure 3 draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch

from hardmax.errors import InvalidInputError
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_sets import Trace, information_sets, token_name
from hardmax.flow.plans import GlobalRead, KeyScore, MaxPosition, Plan, Positions, Rule
from hardmax.plotting.flows import COLOURS
from hardmax.plotting.style import INK, LINES, Picture, given_or_new, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.flow.information_sets import InformationFlow

__all__ = ["draw_reading", "draw_rules"]

_OWN = LINES[1]  # the residual connection is orange in the paper
_SHADES = {"own": "#F6CDA8", "head": "#A9CBE6", "position": "#A5DCC8", "all": "#E3C3D6"}
_WORDS = {"own": "residual", "head": "argmax", "position": "fixed position", "all": "all positions"}
_MOST_TOKENS = 16


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
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    title : str, optional
        A line above the picture.

    Returns
    -------
    matplotlib Axes

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
    if T > _MOST_TOKENS:
        raise InvalidInputError(f"a reading is drawn for at most {_MOST_TOKENS} tokens, but there are {T}.")
    if not 1 <= layer <= trace.depth or token not in trace.tokens(layer):
        raise InvalidInputError(
            f"layer {layer} has no token {token}; layers count from 1 to {trace.depth}, tokens from 0 to {T} "
            "(CLS), and the last layer has CLS only."
        )
    kinds: dict[int, list[str]] = {s: [] for s in range(T)}
    for reading in trace.readings(layer, token):
        for s in range(T) if reading.source is None else (reading.source,):
            if s < T and reading.kind not in kinds[s]:
                kinds[s].append(reading.kind)
    with styled():
        ax = given_or_new(ax, 0.95 * T + 0.8, 3.0)
        place = float(token) if token < T else 0.5 * (T - 1)
        for s, found in kinds.items():
            fill = _SHADES[found[-1]] if found else "#EEF1F3"  # what is fetched outshines what is kept
            _token(ax, s, 1.0, token_name(s, T), fill, bool(found))
            for number, kind in enumerate(found or [None]):
                ax.add_patch(_arrow(s, place, T, kind, 0.18 * (number - 0.5 * (len(found or [None]) - 1))))
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

    Returns
    -------
    figure
        ``.savefig("rules.svg")`` writes it.

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


def _arrow(s: float, place: float, T: int, kind: str | None, bend: float) -> FancyArrowPatch:
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
