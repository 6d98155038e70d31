"""Information sets by a plain Python loop: one input, one token, one head, one key at a time.

Nothing is shared with the library but the description of a plan: states are lists of positions, sets are
Python sets, and a score is asked for one pair at a time. ``score_of(rule, query, key)`` gets lists of tokens
(lists of numbers, ``None`` for an empty slot).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import hardmax as hm


@dataclass
class LoopFlow:
    """The sets and winners of one input: ``sets[l][t]``, ``winners[l][t][head]``, t = T for CLS."""

    sets: list[dict[int, set[int]]] = field(default_factory=list)
    winners: list[dict[int, list[int]]] = field(default_factory=list)


def one_pair(d: int) -> Callable[[hm.MaxPosition, list[Any], list[Any]], float]:
    """The score of one key for one query of d numbers each, through the library's calling convention."""

    def score_of(rule: hm.MaxPosition, query: list[Any], key: list[Any]) -> float:
        arrays = []
        for tokens in (query, key):
            rows = [[np.nan] * d if token is None else token for token in tokens]
            arrays.append(np.array(rows, dtype=float).reshape(1, 1, len(tokens), d))
        return float(np.asarray(rule.score(*arrays))[0, 0, 0])

    return score_of


def plain_bilinear(rule: hm.MaxPosition, query: list[Any], key: list[Any]) -> float:
    """x' A y in Python numbers, for bilinear scores; A as nested lists in ``rule.score.rows``."""
    x, y = query[0], key[0]
    return sum(
        x[i] * sum(a * b for a, b in zip(row, y, strict=True)) for i, row in enumerate(rule.score.rows)
    )


def information_loop(
    architecture: hm.Architecture,
    plan: hm.Plan,
    x: list[list[float]],
    score_of: Callable[[hm.MaxPosition, list[Any], list[Any]], float] | None = None,
) -> LoopFlow:
    T, L = architecture.n_tokens, architecture.depth
    score_of = one_pair(architecture.d_token) if score_of is None else score_of
    states: dict[int, list[int | None]] = {t: [t] for t in range(T)}
    states[T] = []
    flow = LoopFlow()
    flow.sets.append(_sets(states))
    for number, layer in enumerate(plan.layers, start=1):
        after: dict[int, list[int | None]] = {}
        won: dict[int, list[int]] = {}
        keys: dict[Any, list[list[Any]]] = {}  # what the tokens show to a head, by the slots that it reads
        for t in range(T + 1) if number < L else [T]:
            rules = _rules(layer, t, T)
            own: list[int] = []
            for rule in rules:
                residual = rule.residual
                slots = range(len(states[t])) if residual is True else () if residual is False else residual
                own += [slot for slot in slots if slot not in own]
            if any(rule.residual is True for rule in rules) or not rules:
                own = list(range(len(states[t])))
            state = [states[t][slot] for slot in own]
            won[t] = []
            for rule in rules:
                if isinstance(rule, hm.GlobalRead):
                    state += list(range(T))
                    won[t].append(-1)
                elif isinstance(rule, hm.Positions):
                    for j in rule.of(t):
                        state += _kept(states[j], rule.prune)
                    alike = [u for u in range(T + 1) if (u == T) == (t == T) and _rules(layer, u, T) is rules]
                    missing = max(len(rule.of(u)) for u in alike) - len(rule.of(t))
                    state += [None] * (missing * len(_kept(states[0], rule.prune)))
                    won[t].append(-1)
                else:
                    query = [None if p is None else x[p] for p in _kept(states[t], rule.query_slots)]
                    best, winner = None, -1
                    if rule.key_slots not in keys:
                        keys[rule.key_slots] = [
                            [None if p is None else x[p] for p in _kept(states[s], rule.key_slots)]
                            for s in range(T)
                        ]
                    for s in range(T):
                        score = score_of(rule, query, keys[rule.key_slots][s])
                        if best is None or score > best or (score == best and plan.ties == "highest"):
                            best, winner = score, s
                    state += _kept(states[winner], rule.prune)
                    won[t].append(winner)
            after[t] = state
        longest = max((len(after[t]) for t in after if t < T), default=0)
        for t in after:
            if t < T:  # keys have the same number of slots
                after[t] = after[t] + [None] * (longest - len(after[t]))
        states = after
        flow.sets.append(_sets(states))
        flow.winners.append(won)
    return flow


def _rules(layer: Any, t: int, T: int) -> tuple[Any, ...]:
    found: tuple[Any, ...] = ()
    for who, rules in layer:
        if who == "tokens" and t < T:
            found = rules
    for who, rules in layer:
        if (who == "cls" and t == T) or (not isinstance(who, str) and t in who):
            found = rules
    return found


def _kept(state: list[int | None], slots: Any) -> list[int | None]:
    return list(state) if slots is None else [state[slot] for slot in slots]


def _sets(states: dict[int, list[int | None]]) -> dict[int, set[int]]:
    return {t: {p for p in state if p is not None} for t, state in states.items()}
