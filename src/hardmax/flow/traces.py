"""The way of one input in words, as P2 Appendix E tells it: positions count from 1, CLS is the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardmax.flow.plans import GlobalRead, MaxPosition, Positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hardmax.flow.information_flow import InformationFlow

__all__ = ["reads_of", "set_text", "token_name", "trace_text"]


def token_name(t: int, n_tokens: int) -> str:
    """x1, ..., xT and CLS for positions 0, ..., T.

    >>> token_name(0, 4), token_name(4, 4)
    ('x1', 'CLS')
    """
    return "CLS" if t == n_tokens else f"x{t + 1}"


def set_text(members: NDArray[np.bool_], limit: int = 12) -> str:
    """A set of positions; long ones are cut.

    >>> set_text(np.array([True, False, True]))
    '{x1, x3}'
    """
    names = [f"x{t + 1}" for t in np.flatnonzero(members)]
    if len(names) == len(members) > 3:
        return f"{{x1, ..., x{len(members)}}}"
    shown = names if len(names) <= limit else [*names[: limit - 2], "...", names[-1]]
    return "{" + ", ".join(shown) + "}"


def reads_of(flow: InformationFlow, layer: int, t: int) -> list[str]:
    """What the heads of token t read in a layer, one entry per head; flow of one input, all kept."""
    group = _group_of(flow, layer, t)
    T = flow.architecture.n_tokens
    row = -1 if t == T else t
    reads = []
    for head, rule in enumerate(group.rules):
        match rule:
            case MaxPosition():
                reads.append(token_name(int(flow.routings[layer - 1][0, row, head]), T))
            case GlobalRead():
                reads.append("all")
            case Positions():
                names = [token_name(j, T) for j in rule.of(t)]
                reads.append("+".join(names) if len(names) <= 6 else f"{len(names)} positions")
    return reads


def trace_text(flow: InformationFlow) -> str:
    """The table of a flow of one input with everything kept."""
    T, L = flow.architecture.n_tokens, flow.architecture.depth
    rows = [("layer", "token", "reads", "information set", "size")]
    for layer in range(L + 1):
        sets = flow.sets(layer, "tokens")[0] if layer < L else np.empty((0, T), dtype=bool)
        held = [*sets, flow.sets(layer, "cls")[0]]
        tokens = [*range(len(sets)), T]
        for t, members in zip(tokens, held, strict=True):
            reads = ", ".join(reads_of(flow, layer, t)) if layer else ""
            rows.append((str(layer), token_name(t, T), reads, set_text(members), str(int(members.sum()))))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _group_of(flow: InformationFlow, layer: int, t: int):  # type: ignore[no-untyped-def]
    layout = flow._layout()
    if t == flow.architecture.n_tokens:
        return layout.cls[layer - 1]
    return next(group for group in layout.tokens[layer - 1] if t in group.rows)
