"""How much the picture with frozen keys (P1's conditioned input space) differs from the truth.

P1 follows one token and holds all keys and values fixed, its own included. In a transformer they move: the
token's own key and value in every layer, and behind the first layer those of every token that reads it.
:func:`frozen_context` is P1's network, :func:`frozen_context_effect` traces both along one segment and says
where they read different tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import as_exact
from hardmax.limits import Clock
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Affine
from hardmax.networks.network import Network
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions, Transformer
from hardmax.progress import watched
from hardmax.regions.segment.trace import trace_segment
from hardmax.results import Result

Floats = NDArray[np.float64]


def frozen_context(transformer: Transformer, sequence: ArrayLike, token: int) -> Network:
    """P1's network of one token: keys and values stay those of a sequence.

    Parameters
    ----------
    transformer : Transformer
        Piecewise affine, with ``ties="mean"``.
    sequence : (T, d) array_like
        The context of each layer is what the transformer makes of it, in float64.
    token : int
        The token that is followed.

    Returns
    -------
    Network
        From the token's input to its output.

    Examples
    --------
    >>> import hardmax as hm
    >>> layer = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]])
    >>> net = frozen_context(hm.Transformer([layer]), [[1.0], [-2.0]], 0)
    >>> net([3.0])    # its own key and value are still those of 1
    array([4.])
    """
    states: Floats = transformer.sequence(sequence, "sequence").floats[None]
    n = states.shape[1]
    if not 0 <= token < n:
        raise InvalidInputError(f"token must be in range({n}), but was {token}.")
    blocks: list[Any] = []
    for block in transformer.blocks:
        if isinstance(block, SelfAttention):
            blocks.append(_frozen(block, states[0], token))
            states = block.forward(states, 0.0)
        elif isinstance(block, Positions):
            here: Any = block.values.take(token)
            blocks.append(Affine(np.eye(block.d_in), here))
            states = block.forward(states)
        else:
            blocks.append(block)
            states = block.forward(states[0])[None]
    return Network(tuple(blocks), {"made_by": "frozen_context", "token": int(token)})


def _frozen(block: SelfAttention, context: Floats, token: int) -> Attention:
    if block.ties != "mean" or block.rule != "hardmax":
        raise InvalidInputError(
            f'transformer must have rule="hardmax" and ties="mean" to be frozen, but has {block!r}.'
        )
    bias: Any = None if block.score_bias is None else block.score_bias.take((slice(None), token)).numbers
    some: dict[str, Any] = {
        name: None if parts[0] is None else list(parts)
        for name, parts in (("b_Q", block.b_Q), ("b_K", block.b_K), ("b_V", block.b_V))
    }
    weights: tuple[Any, ...] = (block.W_Q, block.W_K, block.W_V, block.W_O)
    b_O: Any = block.b_O
    return Attention.from_weights(
        context,
        *weights,
        **some,
        b_O=b_O,
        mask=block.present(len(context))[token],
        score_bias=bias,
        scale=list(block.scale),
        skip=block.skip,
    )


@dataclass(frozen=True, eq=False, repr=False)
class FrozenContextEffect(Result):
    """A token that is followed while one moves, with keys that are frozen and with keys that move.

    Attributes
    ----------
    token, follow : int
        The token that moves, and the one whose heads are compared.
    agreement : ndarray of float64, (heads,)
        For each head of each attention layer the share of the way on which it reads the same token in both.
    agreement_of_all : float
        The share on which all heads of the token do.
    first_difference : float
        Where the first head differs; 1 if none does.
    n_pieces_frozen : int
        Pieces of the frozen network.
    n_pieces_own : int
        Pieces in which the heads and units of the followed token do not change, with keys that move.
    n_pieces : int
        Pieces of the transformer, all tokens considered.
    breakpoints : ndarray of float64
        Where one of both pictures has a break, ends of the way included.
    frozen, moving : ndarray of int32, (len(breakpoints) - 1, heads)
        Which token each head reads between them.

    Examples
    --------
    >>> import hardmax as hm
    >>> layer = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]])
    >>> effect = frozen_context_effect(hm.Transformer([layer]), [[1.0], [2.0]], 0, [4.0])
    >>> effect.frozen[:, 0], effect.moving[:, 0]    # behind 2 the token reads itself, if its key moves
    (array([1, 1], dtype=int32), array([1, 0], dtype=int32))
    """

    kind: ClassVar[str] = "FrozenContextEffect"
    _shapes: ClassVar[dict[str, str]] = {
        "frozen": "pieces heads",
        "moving": "pieces heads",
        "breakpoints": "pieces+1",
    }

    token: int
    follow: int
    breakpoints: Floats
    frozen: NDArray[np.int32]
    moving: NDArray[np.int32]
    n_pieces_frozen: int
    n_pieces_own: int
    n_pieces: int

    @property
    def _lengths(self) -> Floats:
        return np.diff(self.breakpoints)

    @property
    def agreement(self) -> Floats:
        """The share of the way on which each head reads the same token."""
        return np.asarray(self._lengths @ (self.frozen == self.moving))

    @property
    def agreement_of_all(self) -> float:
        """The share of the way on which all heads do."""
        return float(self._lengths @ (self.frozen == self.moving).all(axis=1))

    @property
    def first_difference(self) -> float:
        """Where the first head differs."""
        differ = np.flatnonzero((self.frozen != self.moving).any(axis=1))
        return float(self.breakpoints[differ[0]]) if len(differ) else 1.0

    def _summary(self) -> str:
        return (
            f"token {self.follow}, all heads agree on {100 * self.agreement_of_all:.1f} % of the way, "
            f"{self.n_pieces_frozen} pieces frozen and {self.n_pieces_own} moving"
        )

    def _table(self) -> dict[str, Any]:
        return {
            "begin": self.breakpoints[:-1],
            "end": self.breakpoints[1:],
            "frozen": self.frozen,
            "moving": self.moving,
        }


def frozen_context_effect(
    transformer: Transformer,
    sequence: ArrayLike,
    token: int,
    end: ArrayLike,
    *,
    follow: int | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> FrozenContextEffect:
    """Move one token from where it stands in a sequence to ``end``, with frozen and with moving keys.

    Parameters
    ----------
    transformer : Transformer
        As in :func:`frozen_context`.
    sequence : (T, d) array_like
        Where the segment begins.
    token : int
    end : (d,) array_like
        Where the token goes; all others stay.
    follow : int, optional
        The token whose heads are compared, the one that moves when left out. With frozen keys any other
        token sees nothing of the movement: one piece.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being computed, in words,
        and the seconds since it began.

    Examples
    --------
    A token moves away from its own old key: with keys that move it goes on reading itself.

    >>> import hardmax as hm
    >>> layer = hm.SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]])
    >>> frozen_context_effect(hm.Transformer([layer]), [[1.0], [2.0]], 0, [4.0])
    <FrozenContextEffect: token 0, all heads agree on 33.3 % of the way, 1 pieces frozen and 2 moving>
    """
    first = transformer.sequence(sequence, "sequence")
    last = as_exact(end, "end", ndim=1)
    if last.shape[0] != transformer.d:
        raise DimensionMismatchError(f"end must have {transformer.d} coordinates, but has {last.shape[0]}.")
    followed = int(token) if follow is None else int(follow)
    net = frozen_context(transformer, first.numbers, followed)
    own = Transformer(transformer.blocks, (followed,), transformer.description)
    whole = np.array(first.numbers, dtype=object)
    whole[token] = last.numbers
    with watched(progress, Clock(time_limit, "trace the segment twice")):
        moving = trace_segment(own, first.numbers, as_exact(whole, "end", ndim=2).numbers)
        still = trace_segment(net, first.take(token).numbers, last.numbers) if followed == token else None
    routings, relu = moving.routings[:, :, followed], moving.relu[:, :, followed]
    changes = (np.diff(routings, axis=0) != 0).any(axis=1) | (relu[1:] != relu[:-1]).any(axis=1)
    if still is not None:
        breaks, read = still.breakpoints, still.signatures.routings
    else:
        breaks, read = np.zeros(0), net.signature(first.floats[followed]).routings
    places = np.unique(np.concatenate([[0.0, 1.0], moving.breakpoints, breaks]))
    middles = 0.5 * (places[:-1] + places[1:])
    return FrozenContextEffect(
        token=int(token),
        follow=followed,
        breakpoints=places,
        frozen=read[np.searchsorted(breaks, middles)],
        moving=routings[np.searchsorted(moving.breakpoints, middles)],
        n_pieces_frozen=len(read),
        n_pieces_own=1 + int(changes.sum()),
        n_pieces=moving.n_pieces,
    )
