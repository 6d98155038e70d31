"""How information spreads: slots from the plan alone, then winners and sets for a block of inputs.

Which slots a token carries after every layer, and where each comes from, is decided by the plan before any
input: the :class:`Layout`. After layer l a token carries blocks of slots, one block per source (itself, a
head, a position), so a slot number is split into a block and a slot of the source one layer earlier. Slots
are never listed: eight heads in five layers make half a million of them, and scores ask for a few.

Given inputs, :func:`find_winners` evaluates the scores of a layer and :class:`Propagation` follows the
winners. It has two views of the same thing: the position in a slot of a token, found by following winners
back through the layers, and the set of positions of a token as words of bits, found by uniting the sets of
its sources, word by word where nothing was pruned and slot by slot otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow import bitsets
from hardmax.flow.architectures import Architecture
from hardmax.flow.bitsets import Words
from hardmax.flow.plans import GlobalRead, LayerPlan, MaxPosition, Plan, Positions, Rule, Slots, Ties

Floats = NDArray[np.float64]
Indices = NDArray[Any]  # integers of any width


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
    is_cls: bool  # the classification token alone
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

    def groups(self, layer: int) -> tuple[Group, ...]:
        """The groups of layer 1, 2, ..., the classification token last."""
        of_tokens = self.tokens[layer - 1] if layer <= len(self.tokens) else ()
        return (*of_tokens, self.cls[layer - 1])


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
        *groups, last = (
            _group(number, rows, rules, (cls_slots if rows[0] == T else token_slots)[-1], token_slots[-1], T)
            for rows, rules in _rows(number, layer, architecture)
        )
        cls.append(last)
        cls_slots.append(last.n_slots)
        if number < plan.depth:
            tokens.append(tuple(groups))
            token_slots.append(max(group.n_slots for group in groups))
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
    for t in range(T if last else 0, T + 1):
        members.setdefault(-1 if t == T else id(rules_of.get(t, ())), []).append(t)
    return [(np.array(ts, dtype=np.intp), rules_of.get(ts[0], ())) for ts in members.values()]


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
    is_cls = bool(rows[0] == T)
    filled = tuple(block for block in blocks if len(block))
    return Group(rows, len(rows) == T and not is_cls, is_cls, rules, filled, stacked)


def _own_block(number: int, rules: tuple[Rule, ...], n_own: int) -> Block:
    residuals = [rule.residual for rule in rules]
    if not rules or True in residuals:
        return Block("own", -1, range(n_own), True)
    named = [_kept(number, slots, n_own, "residual") for slots in residuals if not isinstance(slots, bool)]
    return Block("own", -1, tuple(dict.fromkeys(chain(*named))), False)


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
    read = [rule.of(int(t)) for t in rows]
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


class Propagation:
    """The spread of information for ``n`` inputs, layer by layer.

    ``winners[l]`` is (n, rows, heads), -1 for a head that looks for no maximum: the T tokens and, in the last
    row, the classification token, which is alone in the last layer.
    """

    def __init__(self, layout: Layout, n: int) -> None:
        self.layout = layout
        self.n = n
        self.n_tokens = layout.architecture.n_tokens
        self.winners: list[Indices] = []
        self._places: dict[tuple[int, int, bool], Indices] = {}
        self._inputs = np.arange(n)[:, None]

    def token_places(self, layer: int, slot: int) -> Indices:
        """The positions in a slot of all tokens after ``layer`` layers, (n, T); -1 where a slot is empty."""
        key = (layer, slot, False)
        if key not in self._places:
            self._places[key] = self._find_token_places(layer, slot)
        return self._places[key]

    def cls_places(self, layer: int, slot: int) -> Indices:
        """The positions in a slot of the classification token, (n, 1)."""
        key = (layer, slot, True)
        if key not in self._places:
            group = self.layout.cls[layer - 1]
            self._places[key] = self._from_block(layer, group, *group.locate(slot))
        return self._places[key]

    def _find_token_places(self, layer: int, slot: int) -> Indices:
        if layer == 0:
            return np.broadcast_to(np.arange(self.n_tokens), (self.n, self.n_tokens))
        groups = self.layout.tokens[layer - 1]
        if groups[0].everyone:
            return self._from_block(layer, groups[0], *groups[0].locate(slot))
        places = np.full((self.n, self.n_tokens), -1, dtype=np.intp)
        for group in groups:
            if slot < group.n_slots:
                places[:, group.rows] = self._from_block(layer, group, *group.locate(slot))
        return places

    def own_places(self, layer: int, group: Group, slot: int) -> Indices:
        """The positions in a slot of the tokens of a group, (n, rows)."""
        if group.is_cls:
            return self.cls_places(layer, slot)
        places = self.token_places(layer, slot)
        return places if group.everyone else places[:, group.rows]

    def _from_block(self, layer: int, group: Group, block: Block, inner: int) -> Indices:
        """The positions that a block takes from slot ``inner`` of its source, (n, rows)."""
        if block.source == "all":
            return np.full((self.n, len(group.rows)), inner, dtype=np.intp)
        if block.source == "own":
            return self.own_places(layer - 1, group, inner)
        sources = self._sources(layer, group, block)
        places: Indices = self.token_places(layer - 1, inner)[self._inputs, sources]
        return np.where(sources < 0, -1, places) if block.source == "position" else places

    def _sources(self, layer: int, group: Group, block: Block) -> Indices:
        """The tokens that a block reads, (n, rows)."""
        if block.source == "position":
            return np.broadcast_to(group.table[:, block.index], (self.n, len(group.rows)))
        winners = self.winners[layer - 1][:, :, block.index]
        if group.is_cls:
            return winners[:, -1:]
        return winners[:, :-1] if group.everyone else winners[:, group.rows]

    def token_sets(self, layer: int, before: Words) -> Words:
        """The sets of all tokens after ``layer`` layers, from those one layer before, (n, T, W)."""
        groups = self.layout.tokens[layer - 1]
        if groups[0].everyone:
            return self._united(layer, groups[0], before, before)
        sets = np.empty_like(before)
        for group in groups:
            sets[:, group.rows] = self._united(layer, group, before, before[:, group.rows])
        return sets

    def cls_sets(self, layer: int, before: Words, own: Words) -> Words:
        """The sets of the classification token, (n, W), from the sets of the tokens and its own."""
        return self._united(layer, self.layout.cls[layer - 1], before, own[:, None])[:, 0]

    def _united(self, layer: int, group: Group, before: Words, own: Words) -> Words:
        sets = np.zeros((self.n, len(group.rows), before.shape[-1]), dtype=np.uint64)
        for block in group.blocks:
            if block.source == "all":
                sets |= bitsets.full(self.n_tokens)
            elif block.whole and block.source == "own":
                sets |= own
            elif block.whole:
                sources = self._sources(layer, group, block)
                found = before[self._inputs, sources]
                if block.source == "position":
                    found = np.where((sources < 0)[..., None], np.uint64(0), found)
                sets |= found
            else:
                for inner in block.kept:
                    bitsets.add_positions(sets, self._from_block(layer, group, block, inner))
        return sets

    def first_sets(self) -> Words:
        """The sets before the first layer: every token holds itself."""
        words = bitsets.singletons(self.n_tokens)
        return np.broadcast_to(words, (self.n, *words.shape))


def find_winners(spread: Propagation, layer: int, X: Floats, ties: Ties) -> Indices:
    """Evaluate the scores of a layer and add the winners to ``spread``."""
    architecture = spread.layout.architecture
    rows = spread.n_tokens + 1 if layer < architecture.depth else 1
    winners = np.full((spread.n, rows, architecture.heads[layer - 1]), -1, dtype=np.intp)
    for group in spread.layout.groups(layer):
        readers = [-1] if group.is_cls else group.rows
        for head, rule in enumerate(group.rules):
            if isinstance(rule, MaxPosition):
                scores = scores_of(spread, layer, group, rule, head, X)
                winners[:, readers, head] = _winning(scores, ties, layer, head)
    spread.winners.append(winners)
    return winners


def scores_of(
    spread: Propagation, layer: int, group: Group, rule: MaxPosition, head: int, X: Floats
) -> Floats:
    """The scores of one head, (n, rows, T), checked."""
    queries, keys = states_of(spread, layer, group, rule, X)
    values = np.asarray(rule.score(queries, keys))
    expected = (spread.n, len(group.rows), spread.n_tokens)
    if values.shape != expected:
        raise DimensionMismatchError(
            f"the score of head {head + 1} in layer {layer} must have the shape (B, S, T) = {expected}, but "
            f"had {values.shape}."
        )
    if not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
        raise InvalidInputError(
            f"the score of head {head + 1} in layer {layer} must be real numbers, but was {values.dtype}."
        )
    return values


def states_of(
    spread: Propagation, layer: int, group: Group, rule: MaxPosition, X: Floats
) -> tuple[Floats, Floats]:
    """What a score is called with: queries (n, rows, slots, d) and keys (n, T, slots, d)."""
    layout, before = spread.layout, layer - 1
    n_own = (layout.cls_slots if group.is_cls else layout.token_slots)[before]
    own = range(n_own) if rule.query_slots is None else rule.query_slots
    fetched = range(layout.token_slots[before]) if rule.key_slots is None else rule.key_slots
    first = X[:, :, None, :]  # before the first layer slot 0 of a token is the token: nothing to look up
    if layer == 1 and tuple(own) == (0,) and not group.is_cls:
        queries = first if group.everyone else first[:, group.rows]
    else:
        queries = _contents(X, [spread.own_places(before, group, slot) for slot in own], len(group.rows))
    if layer == 1 and tuple(fetched) == (0,):
        return queries, first
    keys = _contents(X, [spread.token_places(before, slot) for slot in fetched], spread.n_tokens)
    return queries, keys


def _contents(X: Floats, places: list[Indices], rows: int) -> Floats:
    """The tokens at the given places, (n, rows, slots, d); NaN where a slot is empty."""
    contents = np.empty((len(X), rows, len(places), X.shape[-1]))
    inputs = np.arange(len(X))[:, None]
    for k, place in enumerate(places):
        contents[:, :, k] = X[inputs, place]
        empty = place < 0
        if empty.any():
            contents[:, :, k][empty] = np.nan
    return contents


def _winning(scores: Floats, ties: Ties, layer: int, head: int) -> Indices:
    """The index of the greatest score in every row; numpy's arg-max stops at a NaN, so looking at the winners
    finds them all."""
    if scores.strides[1] == 0 and scores.shape[1] > 1:  # the same for all queries
        winners = _winning(scores[:, :1], ties, layer, head)
        return np.broadcast_to(winners, scores.shape[:2])
    if ties == "highest":
        winners = scores.shape[-1] - 1 - scores[..., ::-1].argmax(axis=-1)
    else:
        winners = scores.argmax(axis=-1)
    best = np.take_along_axis(scores, winners[..., None], axis=-1)
    if not np.isfinite(best).all():
        value = best[~np.isfinite(best)][0]
        raise NotFiniteError(
            f"the score of head {head + 1} in layer {layer} must be a number, with -inf for keys that must "
            f"not win, but its greatest value was {value} somewhere."
        )
    if ties == "refuse":
        tied = (scores == best).sum(axis=-1) > 1
        if tied.any():
            raise InvalidInputError(
                f"the scores of head {head + 1} in layer {layer} tie for {int(tied.sum())} queries, which "
                'ties="refuse" forbids; try ties="lowest".'
            )
    return np.asarray(winners)
