"""Which input positions are still available at which token: the information sets of P2 section 5.1.

For every input the winners of all heads are found layer by layer, and with them the sets

    I(t, 0) = {t},   I(CLS, 0) = {},   I(t, l+1) = union of what the heads fetched and of what was kept.

Inputs go through in blocks, so that only one block of scores is in memory at a time. What stays of an input
are the winners in small integers, the sizes of all sets, and the sets of the classification token; any other
set is derived from the winners when it is asked for.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow import bitsets
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_flow import InformationFlow, Sizes
from hardmax.flow.plans import Plan
from hardmax.flow.propagation import Propagation
from hardmax.flow.routing import Winners, find_winners
from hardmax.flow.slots import Layout, lay_out

__all__ = ["information_sets", "inputs_of"]

_BLOCK_NUMBERS = 1 << 20  # numbers in one block of scores: 8 MB
_SLOTS_COUNTED = 64  # a score that reads more slots than this is given smaller blocks


def information_sets(
    architecture: Architecture, plan: Plan, X: ArrayLike, keep: Literal["cls", "all"] = "cls"
) -> InformationFlow:
    """Follow information through a transformer that obeys a plan.

    Parameters
    ----------
    architecture : Architecture
        Sequence length, heads and widths.
    plan : Plan
        What every head does.
    X : array (B, T, d) or (T, d)
        The inputs.
    keep : {"cls", "all"}
        Whose winners are kept: those of the classification token, or of all tokens. The sizes of all sets and
        the sets of the classification token are always there; with ``"all"`` so is any other set.

    Returns
    -------
    InformationFlow

    Raises
    ------
    DimensionMismatchError
        When X, the plan or the result of a score function does not fit the architecture.
    NotFiniteError
        When X or a score is NaN, or all scores of a token are -inf.
    InvalidInputError
        When the plan names a token or a slot that does not exist, or a tie was to be refused.

    Notes
    -----
    A layer costs one evaluation of T x T scores per head and an arg-max over them; the sets add T/64 words
    per head and token. Memory beyond X is that of the winners, one or two bytes per token and head, and a few
    megabytes for the block at work.

    Examples
    --------
    The example of P2 Appendix E, with the sign of its scores corrected:

    >>> import numpy as np
    >>> import hardmax as hm
    >>> first = hm.MaxPosition(lambda q, k: -np.einsum("bsid,btjd->bst", q, k))
    >>> last = hm.MaxPosition(hm.KeyScore(lambda k: -np.einsum("btid,btjd->btij", k, k).min((-1, -2))))
    >>> plan = hm.Plan([{"tokens": [first]}, {"cls": [last]}])
    >>> X = [[0, -1], [0.7, 0.7], [0, 1], [-0.2, -0.9]]
    >>> flow = hm.information_sets(hm.Architecture(4, 2, (1, 1), 2), plan, X)
    >>> flow
    <InformationFlow: 1 input of 4 tokens through 2 layers, CLS holds 2>
    >>> flow.sets()
    array([[ True, False,  True, False]])
    """
    if keep not in ("cls", "all"):
        raise InvalidInputError(f'keep must be "cls" or "all", but was {keep!r}.')
    inputs = inputs_of(X, architecture)
    layout = lay_out(plan, architecture)
    B, T, L = len(inputs), architecture.n_tokens, architecture.depth
    small = np.int8 if T <= 128 else np.int16 if T <= 2**15 else np.int32
    kept_rows = [1 if keep == "cls" or layer == L else T + 1 for layer in range(1, L + 1)]
    routings = [
        np.empty((B, rows, heads), dtype=small)
        for rows, heads in zip(kept_rows, architecture.heads, strict=True)
    ]
    token_sizes = np.empty((B, L - 1, T), dtype=np.min_scalar_type(T))
    cls_sizes = np.empty((B, L), dtype=np.int32)
    cls_words = np.empty((B, L, bitsets.n_words(T)), dtype=np.uint64)
    step = _block_length(layout)
    for start in range(0, B, step):
        block = slice(start, min(start + step, B))
        spread = Propagation(layout, len(inputs[block]))
        sets = spread.first_sets()
        own = np.zeros((spread.n, bitsets.n_words(T)), dtype=np.uint64)
        for layer in range(1, L + 1):
            winners = find_winners(spread, layer, inputs[block], plan.ties)
            _keep(routings[layer - 1][block], winners)
            own = spread.cls_sets(layer, sets, own)
            cls_words[block, layer - 1] = own
            cls_sizes[block, layer - 1] = bitsets.count(own)
            if layer < L:
                sets = spread.token_sets(layer, sets)
                token_sizes[block, layer - 1] = bitsets.count(sets)
    return InformationFlow(
        architecture=architecture,
        plan=plan,
        X=inputs,
        routings=tuple(routings),
        sizes=Sizes(token_sizes, cls_sizes),
        cls_words=cls_words,
        keep=keep,
    )


def inputs_of(X: ArrayLike, architecture: Architecture) -> NDArray[np.float64]:
    """X as an array (B, T, d) of finite numbers, read-only; one sequence (T, d) is a batch of one."""
    inputs = np.asarray(X, dtype=np.float64)
    if inputs.flags.writeable:  # the caller may write to it later
        inputs = inputs.copy() if np.shares_memory(inputs, np.asarray(X)) else inputs
        inputs.setflags(write=False)
    if inputs.ndim == 2:
        inputs = inputs[None]
    expected = (architecture.n_tokens, architecture.d_token)
    if inputs.ndim != 3 or inputs.shape[1:] != expected:
        raise DimensionMismatchError(
            f"X must have the shape (B, {expected[0]}, {expected[1]}), but had {np.shape(X)}."
        )
    if not len(inputs):
        raise InvalidInputError("X must hold at least one input, but was empty.")
    if not np.isfinite(inputs).all():
        raise NotFiniteError("X must be finite, but holds NaN or an infinity.")
    return inputs


def _block_length(layout: Layout) -> int:
    T, d = layout.architecture.n_tokens, layout.architecture.d_token
    slots = max(min(n, _SLOTS_COUNTED) for n in (*layout.token_slots, *layout.cls_slots))
    return max(1, _BLOCK_NUMBERS // (T * max(T, slots * d)))


def _keep(routings: NDArray[Any], winners: Winners) -> None:
    routings[:, -1] = winners.cls
    if routings.shape[1] > 1 and winners.tokens is not None:
        routings[:, :-1] = winners.tokens
