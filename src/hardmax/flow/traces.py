"""The way of one input in words, as P2 Appendix E tells it: positions count from 1, CLS is the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hardmax.flow.plans import GlobalRead, MaxPosition, Positions, is_forgotten
from hardmax.flow.propagation import Propagation
from hardmax.flow.routing import scores_of
from hardmax.flow.slots import Group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hardmax.flow.information_flow import InformationFlow

__all__ = ["Reading", "Trace", "set_text", "token_name"]


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


class Reading(NamedTuple):
    """One arrow of a trace: ``source`` is a token one layer earlier, or ``None`` for all input tokens."""

    kind: Literal["own", "head", "position", "all"]
    source: int | None
    head: int  # from 0; -1 for what a token keeps of itself
    pruned: bool  # something of the source was forgotten


class Trace:
    """Who reads whom on one input, and what everyone holds; made of a flow of one input with all kept."""

    def __init__(self, flow: InformationFlow) -> None:
        self.flow = flow
        self.layout = flow._layout()
        self.n_tokens, self.depth = flow.architecture.n_tokens, flow.architecture.depth
        self._spread = Propagation(self.layout, 1)
        self._spread.token_winners = [routing[:, :-1] for routing in flow.routings[:-1]]
        self._spread.cls_winners = [routing[:, -1] for routing in flow.routings]

    def tokens(self, layer: int) -> list[int]:
        """The tokens that exist after a layer; T is the classification token."""
        return [self.n_tokens] if layer == self.depth else list(range(self.n_tokens + 1))

    def held(self, layer: int) -> dict[int, NDArray[np.bool_]]:
        """The information set of every token after a layer."""
        held = {self.n_tokens: self.flow.sets(layer, "cls")[0]}
        if layer < self.depth:
            held |= dict(enumerate(self.flow.sets(layer, "tokens")[0]))
        return held

    def group(self, layer: int, t: int) -> Group:
        """The rules of a token in a layer."""
        if t == self.n_tokens:
            return self.layout.cls[layer - 1]
        return next(group for group in self.layout.tokens[layer - 1] if t in group.rows)

    def winner(self, layer: int, t: int, head: int) -> int:
        """The token that a head of token t picks."""
        row = -1 if t == self.n_tokens else t
        return int(self.flow.routings[layer - 1][0, row, head])

    def tied(self, layer: int, t: int, head: int) -> list[int]:
        """The other tokens with the same greatest score; unknown, so none, for a plan from a file."""
        group = self.group(layer, t)
        rule = group.rules[head]
        if not isinstance(rule, MaxPosition) or is_forgotten(rule):
            return []
        scores = scores_of(self._spread, layer, group, rule, head, self.flow.X)
        row = scores[0, int(np.flatnonzero(group.rows == t)[0])]
        winner = self.winner(layer, t, head)
        return [int(s) for s in np.flatnonzero(row == row[winner]) if s != winner]

    def readings(self, layer: int, t: int) -> list[Reading]:
        """Where the information of token t after a layer comes from, one entry per source and head."""
        group = self.group(layer, t)
        row = int(np.flatnonzero(group.rows == t)[0])
        found = []
        for block in group.blocks:
            source: int | None = t
            if block.source == "head":
                source = self.winner(layer, t, block.index)
            elif block.source == "position":
                source = int(group.table[row, block.index])
            elif block.source == "all":
                source = None
            if source != -1:
                head = -1 if block.source == "own" else block.head
                found.append(Reading(block.source, source, head, not block.whole))
        return found

    def reads(self, layer: int, t: int) -> str:
        """What the heads of token t read in a layer."""
        words = []
        for head, rule in enumerate(self.group(layer, t).rules):
            match rule:
                case MaxPosition():
                    rivals = [self._name(s) for s in self.tied(layer, t, head)]
                    shown = ", ".join(rivals[:3]) + (", ..." if len(rivals) > 3 else "")
                    name = self._name(self.winner(layer, t, head))
                    words.append(f"{name} (ties with {shown})" if rivals else name)
                case GlobalRead():
                    words.append("all")
                case Positions():
                    names = [self._name(j) for j in rule.of(t)]
                    words.append("+".join(names) if len(names) <= 6 else f"{len(names)} positions")
        return ", ".join(words)

    def _name(self, t: int) -> str:
        return token_name(t, self.n_tokens)

    def __str__(self) -> str:
        bound = self.flow.growth_bound
        rows: list[tuple[Any, ...]] = [("layer", "token", "reads", "information set", "size", "at most")]
        for layer in range(self.depth + 1):
            held = self.held(layer)
            for t in self.tokens(layer):
                if not layer:
                    most = int(t < self.n_tokens)
                else:
                    most = (bound.cls if t == self.n_tokens else bound.tokens)[layer - 1]
                reads = self.reads(layer, t) if layer else ""
                size = int(held[t].sum())
                rows.append((layer, self._name(t), reads, set_text(held[t]), size, most))
        cells = [[str(cell) for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        )
