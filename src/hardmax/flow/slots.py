"""Which slots a token carries after every layer, and where each of them comes from.

That is decided by the plan alone, before any input: a plan laid out against an architecture. After layer l a
token carries blocks of slots, one block per source (itself, a head, a position), so a slot number is split
into a block and a slot of the source one layer earlier. Slots are never listed: eight heads in five layers
make half a million of them, and scores ask for a few.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow.architectures import Architecture
from hardmax.flow.plans import GlobalRead, LayerPlan, MaxPosition, Plan, Positions, Rule, Slots

__all__ = ["Block", "Group", "Layout", "lay_out"]


@dataclass(frozen=True)
class Block:
    """Slots from one source: the token itself, the winner of a head, column ``index`` of a table of
    positions, or all input tokens."""

    source: Literal["own", "head", "position", "all"]
    index: int
    kept: Slots | range
    whole: bool  # nothing was pruned, so sets can be united without looking at slots
    head: int = -1  # the head that fetched them

    def __len__(self) -> int:
        return len(self.kept)


@dataclass(frozen=True)
class Group:
    """Tokens that share their rules in one layer."""

    rows: NDArray[np.intp]  # the reading tokens; T is the classification token
    everyone: bool  # all T tokens
    rules: tuple[Rule, ...]
    blocks: tuple[Block, ...]
    table: NDArray[np.intp]  # (rows, columns) positions read by rule 3, -1 where a token reads fewer

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(block) for block in self.blocks))

    @property
    def n_slots(self) -> int:
        """The slots that these tokens carry after the layer."""
        return self._ends[-1] if self.blocks else 0

    def locate(self, slot: int) -> tuple[Block, int]:
        """The block of a slot, and the slot of its source."""
        i = bisect_right(self._ends, slot)
        start = self._ends[i - 1] if i else 0
        return self.blocks[i], self.blocks[i].kept[slot - start]


@dataclass(frozen=True)
class Layout:
    """A plan laid out against an architecture.

    ``tokens[l]`` are the groups of layer l + 1 (none in the last), ``cls[l]`` the group of the classification
    token; ``token_slots[l]`` and ``cls_slots[l]`` count the slots after l layers, of the token with most.
    """

    architecture: Architecture
    tokens: tuple[tuple[Group, ...], ...]
    cls: tuple[Group, ...]
    token_slots: tuple[int, ...]
    cls_slots: tuple[int, ...]


def lay_out(plan: Plan, architecture: Architecture) -> Layout:
    """Check a plan against an architecture and count its slots.

    >>> from hardmax.flow.architectures import Architecture
    >>> from hardmax.flow.plans import MaxPosition, Plan
    >>> rule = MaxPosition(lambda q, k: k)
    >>> layout = lay_out(Plan([{"tokens": [rule] * 2}, {"cls": [rule] * 3}]), Architecture(8, 1, (2, 3), 6))
    >>> layout.token_slots, layout.cls_slots
    ((1, 3), (0, 0, 9))
    """
    if plan.depth != architecture.depth:
        raise DimensionMismatchError(
            f"plan must have one entry per layer, but has {plan.depth} for an architecture of depth "
            f"{architecture.depth}."
        )
    T = architecture.n_tokens
    token_slots, cls_slots = [1], [0]
    tokens: list[tuple[Group, ...]] = []
    cls: list[Group] = []
    for number, layer in enumerate(plan.layers, start=1):
        rows_of = _rows(number, layer, architecture)
        groups = []
        for rows, rules in rows_of:
            is_cls = rows[0] == T
            own = cls_slots[-1] if is_cls else token_slots[-1]
            group = _group(number, rows, rules, own, token_slots[-1], T)
            if is_cls:
                cls.append(group)
            else:
                groups.append(group)
        if number < plan.depth:
            tokens.append(tuple(groups))
            token_slots.append(max(group.n_slots for group in groups))
        cls_slots.append(cls[-1].n_slots)
    return Layout(architecture, tuple(tokens), tuple(cls), tuple(token_slots), tuple(cls_slots))


def _rows(
    number: int, layer: LayerPlan, architecture: Architecture
) -> list[tuple[NDArray[np.intp], tuple[Rule, ...]]]:
    """The tokens of every group of a layer, the classification token last; checks what the layer names."""
    T, heads, last = architecture.n_tokens, architecture.heads[number - 1], number == architecture.depth
    rules_of: dict[int, tuple[Rule, ...]] = {}
    for who, rules in sorted(layer, key=lambda entry: entry[0] != "tokens"):  # positions take precedence
        if len(rules) > heads:
            raise DimensionMismatchError(
                f"layer {number} has {heads} heads, but the plan gives {len(rules)} rules to {who!r}."
            )
        positions = range(T) if who == "tokens" else (T,) if who == "cls" else who
        outside = [t for t in positions if t > T]
        if outside:
            raise InvalidInputError(
                f"a plan for {T} tokens may name the positions 0 to {T - 1}, and {T} for the classification "
                f"token, but layer {number} gives rules to position {outside[0]}."
            )
        if last and any(t < T for t in positions):
            raise InvalidInputError(
                f"the last layer has the classification token only, but layer {number} gives rules to "
                f"{who!r}."
            )
        for t in positions:
            if t == T and T in rules_of:
                raise InvalidInputError(f"layer {number} gives rules twice to the classification token.")
            rules_of[t] = rules
    members: dict[int, list[int]] = {}  # by the identity of their rules, so that a class stays one group
    keys: dict[int, tuple[Rule, ...]] = {}
    idle: tuple[Rule, ...] = ()
    for t in range(0 if not last else T, T + 1):
        rules = rules_of.get(t, idle)
        key = -1 if t == T else id(rules)
        members.setdefault(key, []).append(t)
        keys[key] = rules
    return [(np.array(ts, dtype=np.intp), keys[key]) for key, ts in members.items()]


def _group(
    number: int, rows: NDArray[np.intp], rules: tuple[Rule, ...], n_own: int, n_fetched: int, T: int
) -> Group:
    blocks = [_own_block(number, rules, n_own)]
    columns: list[NDArray[np.intp]] = []
    for head, rule in enumerate(rules):
        match rule:
            case GlobalRead():
                blocks.append(Block("all", head, range(T), True, head))
            case Positions():
                table = _table(number, rule, rows, T)
                kept = _kept(number, rule.prune, n_fetched, "prune")
                for column in table.T:
                    blocks.append(Block("position", len(columns), kept, rule.prune is None, head))
                    columns.append(column)
            case MaxPosition():
                kept = _kept(number, rule.prune, n_fetched, "prune")
                blocks.append(Block("head", head, kept, rule.prune is None, head))
                _kept(number, rule.query_slots, n_own, "query_slots")
                _kept(number, rule.key_slots, n_fetched, "key_slots")
    stacked = np.stack(columns, axis=1) if columns else np.empty((len(rows), 0), dtype=np.intp)
    return Group(
        rows, len(rows) == T and rows[0] == 0, rules, tuple(block for block in blocks if len(block)), stacked
    )


def _own_block(number: int, rules: tuple[Rule, ...], n_own: int) -> Block:
    residuals = [rule.residual for rule in rules]
    if not rules or True in residuals:
        return Block("own", -1, range(n_own), True)
    kept: dict[int, None] = {}
    for residual in residuals:
        if not isinstance(residual, bool):
            kept.update(dict.fromkeys(_kept(number, residual, n_own, "residual")))
    return Block("own", -1, tuple(kept), False)


def _kept(number: int, slots: Slots | None, n_slots: int, name: str) -> Slots | range:
    if slots is None:
        return range(n_slots)
    outside = [slot for slot in slots if slot >= n_slots]
    if outside:
        carried = f"slots 0 to {n_slots - 1}" if n_slots else "no slots"
        raise InvalidInputError(
            f"{name} of layer {number} names slot {outside[0]}, but the token carries {carried} there."
        )
    return slots


def _table(number: int, rule: Positions, rows: NDArray[np.intp], T: int) -> NDArray[np.intp]:
    read = [rule.of(int(t)) for t in rows] if callable(rule.positions) else [rule.positions] * len(rows)
    for positions in read:
        for j in positions:
            if j >= T:
                reason = " (the classification token is never read)" if j == T else ""
                raise InvalidInputError(
                    f"positions must lie between 0 and {T - 1}, but a rule of layer {number} reads position "
                    f"{j}{reason}."
                )
    table = np.full((len(rows), max((len(positions) for positions in read), default=0)), -1, dtype=np.intp)
    for row, positions in zip(table, read, strict=True):
        row[: len(positions)] = positions
    return table
