r"""Equal tokens, traced once: a sequence with one token of each kind, and what it says of all of them.

Tokens that are equal along the whole segment stay equal in every layer, if no mask, bias or position tells
them apart: they ask the same question of the same keys. As keys they tie with each other everywhere, and as
queries they change their winners at the same places, so that floats could never tell which comes first. A
sequence with one token of each kind has the same states, and nothing of this to decide.

Only the mean over keys of *different* kinds that tie on a whole piece depends on how many there are of each.
Where that happens, and with ``ties="rightmost"``, all tokens are traced.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions, Transformer

if TYPE_CHECKING:
    from hardmax.regions.sequences.sweep import Record

Indices = NDArray[np.int64]


def kinds_of_tokens(transformer: Transformer, start: ExactArray, end: ExactArray) -> Indices:
    """For every token the number of its kind; kinds are numbered by their first tokens.

    >>> import hardmax as hm
    >>> from hardmax.exact.rationals import as_exact
    >>> layer = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]])
    >>> start, end = as_exact([[1], [2], [1]], "start", ndim=2), as_exact([[0], [0], [0]], "end", ndim=2)
    >>> kinds_of_tokens(hm.Transformer([layer]), start, end)
    array([0, 1, 0])
    """
    n = start.shape[0]
    told: list[list[Any]] = [[row.tobytes()] for row in np.hstack([start.floats, end.floats]) + 0.0]
    exact = [array for array in (start, end) if array.fractions is not None]
    for block in transformer.blocks:
        if isinstance(block, Positions):
            exact.append(block.values)
        elif isinstance(block, SelfAttention):
            present = block.present(n)
            for t in range(n):
                told[t] += [present[t].tobytes(), present[:, t].tobytes(), block.ties == "rightmost" and t]
            if block.score_bias is not None:
                rows = block.score_bias
                exact += [rows.rearranged(lambda array: _by_token(array, 1))]
                exact += [rows.rearranged(lambda array: _by_token(array, 2))]
    for array in exact:
        for t, row in enumerate(fractions_of(array)):
            told[t].append(tuple(row))
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(tuple(what), len(numbers)) for what in told], dtype=np.int64)


def _by_token(array: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)


def with_one_of_each(transformer: Transformer, kinds: Indices, first: Indices) -> Transformer:
    """The transformer of sequences that hold only the first token of each kind."""
    blocks = []
    for block in transformer.blocks:
        if isinstance(block, Positions):
            block = Positions(block.values.take(first).numbers)
        elif isinstance(block, SelfAttention):
            block = copy(block)
            if isinstance(block.mask, np.ndarray):
                object.__setattr__(block, "mask", block.mask[np.ix_(first, first)])
            if block.score_bias is not None:
                own = block.score_bias.rearranged(lambda array: array[:, first][:, :, first])
                object.__setattr__(block, "score_bias", own)
        blocks.append(block)
    read = None if transformer.read is None else tuple(kinds[list(transformer.read)].tolist())
    return Transformer(tuple(blocks), read, transformer.description)


def record_of_all(record: Record, transformer: Transformer, kinds: Indices, first: Indices) -> Record | None:
    """What a trace with one token of each kind says of all tokens; ``None`` where it depends on how many."""
    if record.ties:
        return None
    members = [np.flatnonzero(kinds == kind).tolist() for kind in range(len(first))]
    keys = [
        first.tolist() if isinstance(block, SelfAttention) else list(range(_most_keys(block)))
        for block in transformer.blocks
    ]
    winners = [
        None if array is None else np.array(own, dtype=np.int32)[array[kinds]]
        for array, own in zip(record.winners, keys, strict=True)
    ]
    broken = [(i, int(first[t]), g, keys[i][old], keys[i][new]) for i, t, g, old, new in record.broken]
    changes = [
        (piece, i, own, g, keys[i][key]) for piece, i, t, g, key in record.changes for own in members[t]
    ]
    return replace(record, winners=winners, broken=broken, changes=changes)


def _most_keys(block: Any) -> int:
    """How many keys the rows of a block that all tokens pass through have: pieces, or off and on."""
    scores = getattr(block, "scores", None)
    return 2 if scores is None else int(scores.shape[1])
