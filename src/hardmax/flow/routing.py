"""Which key wins in which head, for a block of inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.plans import MaxPosition, Ties
from hardmax.flow.propagation import Propagation
from hardmax.flow.slots import Group

__all__ = ["Winners", "find_winners", "scores_of", "states_of"]

Floats = NDArray[np.float64]
Indices = NDArray[Any]


class Winners(NamedTuple):
    """The winners of one layer: of the tokens (n, T, heads), absent in the last layer, and of CLS."""

    tokens: Indices | None
    cls: Indices


def find_winners(spread: Propagation, layer: int, X: Floats, ties: Ties) -> Winners:
    """Evaluate the scores of a layer and note the winners in ``spread``."""
    heads = spread.layout.architecture.heads[layer - 1]
    tokens: Indices | None = None
    if layer < spread.layout.architecture.depth:
        groups = spread.layout.tokens[layer - 1]
        tokens = np.full((spread.n, spread.n_tokens, heads), -1, dtype=np.intp)
        for group in groups:
            for head, rule in enumerate(group.rules):
                if isinstance(rule, MaxPosition):
                    scores = scores_of(spread, layer, group, rule, head, X)
                    tokens[:, group.rows, head] = _winning(scores, ties, layer, head)
        spread.token_winners.append(tokens)
    cls = np.full((spread.n, heads), -1, dtype=np.intp)
    group = spread.layout.cls[layer - 1]
    for head, rule in enumerate(group.rules):
        if isinstance(rule, MaxPosition):
            scores = scores_of(spread, layer, group, rule, head, X)
            cls[:, head] = _winning(scores, ties, layer, head)[:, 0]
    spread.cls_winners.append(cls)
    return Winners(tokens, cls)


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
    """What a score is handed: queries (n, rows, slots, d) and keys (n, T, slots, d)."""
    return _queries(spread, layer, group, rule, X), _keys(spread, layer, rule, X)


def _queries(spread: Propagation, layer: int, group: Group, rule: MaxPosition, X: Floats) -> Floats:
    if group.rows[0] == spread.n_tokens:
        slots = range(spread.layout.cls_slots[layer - 1]) if rule.query_slots is None else rule.query_slots
        places = [spread.cls_places(layer - 1, slot)[:, None] for slot in slots]
    else:
        slots = range(spread.layout.token_slots[layer - 1]) if rule.query_slots is None else rule.query_slots
        if layer == 1 and tuple(slots) == (0,):
            return X[:, group.rows, None, :] if not group.everyone else X[:, :, None, :]
        places = [spread.token_places(layer - 1, slot)[:, group.rows] for slot in slots]
    return _contents(X, places, len(group.rows))


def _keys(spread: Propagation, layer: int, rule: MaxPosition, X: Floats) -> Floats:
    slots = range(spread.layout.token_slots[layer - 1]) if rule.key_slots is None else rule.key_slots
    if layer == 1 and tuple(slots) == (0,):
        return X[:, :, None, :]
    return _contents(X, [spread.token_places(layer - 1, slot) for slot in slots], spread.n_tokens)


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
