r"""Transformers: sequences that pass through layers in which tokens look at each other.

A :class:`Transformer` is a list of blocks. :class:`~hardmax.networks.self_attention.SelfAttention` mixes the
tokens, :class:`Positions` adds a vector that depends on the position, and every other block is a map that all
tokens pass through, one by one. In a :class:`~hardmax.networks.network.Network` only the query varies and
keys are fixed; here everything moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.rationals import ExactArray, as_exact, fraction
from hardmax.networks.block import checked_temperature, many
from hardmax.networks.blocks import Affine, FeedForward, Maxout, block_of
from hardmax.networks.norms import LayerNorm, RMSNorm
from hardmax.networks.self_attention import SelfAttention, sequences_of
from hardmax.networks.smooth import SmoothFeedForward
from hardmax.results import Result

Floats = NDArray[np.float64]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Positions:
    """A vector for each position, added to the token that stands there.

    Parameters
    ----------
    values : (T, d) array_like

    Examples
    --------
    >>> Positions([[0.0, 1.0], [0.0, 2.0]])([[5.0, 0.0], [5.0, 0.0]])
    array([[5., 1.],
           [5., 2.]])
    """

    values: ExactArray
    heads: ClassVar[int] = 0
    width: ClassVar[int] = 0
    skip: ClassVar[bool] = True
    name: ClassVar[str] = "positions"

    def __init__(self, values: ArrayLike) -> None:
        array = as_exact(values, "values", ndim=2)
        if 0 in array.shape:
            raise InvalidInputError(
                f"values must hold one vector per position, at least one, but has shape {array.shape}."
            )
        object.__setattr__(self, "values", array)

    @property
    def n_tokens(self) -> int:
        """The length of sequences."""
        return self.values.shape[0]

    @property
    def d_in(self) -> int:
        """The dimension of a token."""
        return self.values.shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of a token."""
        return self.values.shape[1]

    def __call__(self, x: ArrayLike) -> Floats:
        """The output at one sequence (T, d) or many (B, T, d), in float64."""
        sequences, single = sequences_of(x, self.d_in, self.n_tokens)
        y = self.forward(sequences)
        return y[0] if single else y

    def forward(self, x: Floats, temperature: float | None = None) -> Floats:
        """The output at sequences (B, T, d)."""
        return np.asarray(x + self.values.floats)

    def added(self, t: int, state: flint.fmpq_mat) -> flint.fmpq_mat:
        """The state of token t, a column or a map with the constants in its last column, and its position."""
        total, last = flint.fmpq_mat(state), state.ncols() - 1
        for i in range(self.d_in):
            total[i, last] = total[i, last] + self.values.rational((t, i))
        return total

    def state(self) -> dict[str, Any]:
        """What must survive a file."""
        return {"block": type(self).__name__, "values": self.values.numbers}

    def __repr__(self) -> str:
        return f"Positions({many(self.n_tokens, 'token')}, {self.d_in} -> {self.d_in})"


SequenceBlock = SelfAttention | Positions
TokenBlock = (
    FeedForward | Maxout | Affine | LayerNorm | RMSNorm | SmoothFeedForward
)  # a map that all tokens pass through


@dataclass(frozen=True, eq=False, repr=False)
class Transformer(Result):
    r"""Blocks that a whole sequence passes through: :math:`X_{l+1} = f_l(X_l)`.

    Parameters
    ----------
    blocks : sequence of blocks
        SelfAttention, Positions, FeedForward, Maxout, Affine, LayerNorm, RMSNorm, SmoothFeedForward.
        Each must take what the one before it gives.
    read : sequence of int, optional
        The tokens whose output counts, as that of the classification token; all of them when left out. The
        last SelfAttention and what follows is computed for these alone, so the others cut nothing there.
    description : dict, optional
        How the transformer was made, in plain values; it is saved along.

    Attributes
    ----------
    blocks : tuple
    read : tuple of int or None
    d, d_out : int
        Dimensions of a token, before and behind.
    n_tokens : int or None
        The length of sequences, where a block fixes it.
    piecewise_affine : bool
        Whether it is piecewise affine along segments: no softmax, norm or smooth activation.

    Examples
    --------
    >>> import hardmax as hm
    >>> look = hm.SelfAttention([[[1.0, 0.0]]], [[[1.0, 0.0]]], [[[0.0, 1.0]]], [[[0.0], [1.0]]])
    >>> model = Transformer([look, hm.FeedForward([[1, 1]], None, [[1], [0]], skip=True)])
    >>> model
    <Transformer: 2 -> 2, 2 blocks, 1 head, 1 unit per token>
    >>> model([[1.0, 0.0], [2.0, 3.0]])
    array([[ 5.,  3.],
           [10.,  6.]])
    """

    kind: ClassVar[str] = "Transformer"

    blocks: tuple[SequenceBlock | TokenBlock, ...]
    read: tuple[int, ...] | None = None
    description: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blocks: tuple[Any, ...] = tuple(self.blocks)
        if not blocks:
            raise InvalidInputError("blocks must hold at least one block, but is empty.")
        for i, block in enumerate(blocks):
            if not isinstance(block, SequenceBlock | TokenBlock):
                raise InvalidInputError(
                    "blocks must hold SelfAttention, Positions, FeedForward, Maxout, Affine, LayerNorm, "
                    f"RMSNorm and SmoothFeedForward, but block {i} is a {type(block).__name__}."
                )
        for i, (before, after) in enumerate(pairwise(blocks)):
            if before.d_out != after.d_in:
                raise DimensionMismatchError(
                    f"block {i + 1} must take what block {i} gives, but block {i}, {before!r}, gives "
                    f"{many(before.d_out, 'coordinate')} and block {i + 1}, {after!r}, takes {after.d_in}."
                )
        fixed = {block.n_tokens for block in blocks if isinstance(block, SequenceBlock)}
        lengths = sorted(n for n in fixed if n is not None)
        if len(lengths) > 1:
            raise DimensionMismatchError(
                "blocks must be of sequences of one length, but are of the lengths "
                f"{', '.join(map(str, lengths))}."
            )
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "read", _read(self.read, self.n_tokens))

    @property
    def d(self) -> int:
        """The dimension of a token."""
        return self.blocks[0].d_in

    @property
    def d_out(self) -> int:
        """The dimension of a token behind the last block."""
        return self.blocks[-1].d_out

    @property
    def n_tokens(self) -> int | None:
        """The length of sequences, where a block fixes it."""
        lengths = (block.n_tokens for block in self.blocks if isinstance(block, SequenceBlock))
        return next((length for length in lengths if length is not None), None)

    @property
    def heads_total(self) -> int:
        """The number of heads of all blocks; groups of a Maxout count as heads."""
        return sum(block.heads for block in self.blocks)

    @property
    def units_total(self) -> int:
        """The number of ReLU units of all blocks, per token."""
        return sum(block.width for block in self.blocks)

    @property
    def piecewise_affine(self) -> bool:
        """Whether it is piecewise affine along segments: every head is hardmax, and nothing is smooth."""
        return not any(
            block.rule == "softmax" if isinstance(block, SelfAttention) else getattr(block, "smooth", False)
            for block in self.blocks
        )

    def computed(self, n_tokens: int) -> list[tuple[int, ...]]:
        """For each block the tokens that it is computed for."""
        everyone = tuple(range(n_tokens))
        if self.read is None:
            return [everyone] * len(self.blocks)
        mixing = [i for i, block in enumerate(self.blocks) if isinstance(block, SelfAttention)]
        last = mixing[-1] if mixing else 0
        return [everyone if i < last else self.read for i in range(len(self.blocks))]

    # Values
    # ------------------------------------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, temperature: float | None = None) -> Floats:
        """The output at one sequence (T, d) or a batch (B, T, d), in float64.

        Parameters
        ----------
        x : (T, d) or (B, T, d) array_like
        temperature : float, optional
            Of all heads instead of their own rules; 0 for hardmax.

        Returns
        -------
        (T, d_out) or (B, T, d_out) float64
            With ``read``, only the tokens that are read.
        """
        tau = None if temperature is None else checked_temperature(temperature)
        y, single = sequences_of(x, self.d, self.n_tokens)
        self._check_read(y.shape[1])
        everyone = tuple(range(y.shape[1]))
        before = everyone
        for block, tokens in zip(self.blocks, self.computed(len(everyone)), strict=True):
            if isinstance(block, SelfAttention):
                y = block.forward(y, tau, None if tokens == everyone else tokens)
            else:
                y = y if tokens == before else y[:, list(tokens)]
                y = self._passed(block, y, tokens)
            before = tokens
        if not np.isfinite(y).all():
            raise NotFiniteError("f(x) must stay within float64, but overflows at some x; rescale the input.")
        return y[0] if single else y

    def _passed(self, block: Positions | TokenBlock, y: Floats, tokens: tuple[int, ...]) -> Floats:
        """Some tokens behind a block that does not mix them."""
        if isinstance(block, Positions):
            return np.asarray(y + block.values.floats[list(tokens)])
        return block.forward(y.reshape(-1, block.d_in)).reshape(*y.shape[:2], block.d_out)

    def exact_value(self, x: ArrayLike) -> NDArray[np.object_]:
        """The output at one sequence at temperature zero, as fractions: nothing is rounded.

        Examples
        --------
        >>> from fractions import Fraction
        >>> third = Affine([[Fraction(1, 3)]])
        >>> Transformer([third]).exact_value([[1], [2]])
        array([[Fraction(1, 3)],
               [Fraction(2, 3)]], dtype=object)
        """
        tokens = self.sequence(x, "x")
        columns = [
            flint.fmpq_mat(self.d, 1, [tokens.rational((t, i)) for i in range(self.d)])
            for t in range(tokens.shape[0])
        ]
        for block in self.blocks:
            if isinstance(block, SelfAttention):
                columns = block.forward_exactly(columns)
            elif isinstance(block, Positions):
                columns = [block.added(t, column) for t, column in enumerate(columns)]
            else:
                columns = [block.compose_exactly(column, None) for column in columns]
        read = range(len(columns)) if self.read is None else self.read
        values = np.empty((len(read), self.d_out), dtype=object)
        for i, t in enumerate(read):
            values[i] = [fraction(value) for value in columns[t].entries()]
        return values

    def sequence(self, x: ArrayLike, name: str) -> ExactArray:
        """One sequence, checked and exact."""
        tokens = as_exact(x, name, ndim=2)
        if tokens.shape[1] != self.d or 0 in tokens.shape or self.n_tokens not in (None, tokens.shape[0]):
            length = "T" if self.n_tokens is None else str(self.n_tokens)
            raise DimensionMismatchError(
                f"{name} must be a sequence of shape ({length}, {self.d}), but has shape {tokens.shape}."
            )
        self._check_read(tokens.shape[0])
        return tokens

    def _check_read(self, n_tokens: int) -> None:
        if self.read is not None and self.read[-1] >= n_tokens:
            raise DimensionMismatchError(
                f"x must hold the tokens that are read, up to {self.read[-1]}, but has {n_tokens}."
            )

    # What every result has
    # ------------------------------------------------------------------------------------------------------

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        read, description = state["read"], state["description"]
        if not isinstance(description, dict):
            raise TypeError("a description is a dictionary")
        blocks = tuple(_block_of(block) for block in state["blocks"])
        return cls(blocks, None if read is None else tuple(read), description)

    def _summary(self) -> str:
        counts = [many(len(self.blocks), "block")]
        counts += [many(self.heads_total, "head")] if self.heads_total else []
        counts += [f"{many(self.units_total, 'unit')} per token"] if self.units_total else []
        counts += [] if self.n_tokens is None else [many(self.n_tokens, "token")]
        return f"{self.d} -> {self.d_out}, {', '.join(counts)}"

    def _table(self) -> dict[str, list[Any]]:
        blocks = self.blocks
        return {
            "block": [type(block).__name__ for block in blocks],
            "d_in": [block.d_in for block in blocks],
            "d_out": [block.d_out for block in blocks],
            "heads": [block.heads for block in blocks],
            "units": [block.width for block in blocks],
            "skip": [block.skip for block in blocks],
        }


def _block_of(state: Mapping[str, Any]) -> Any:
    """The block of a state."""
    if state["block"] == "SelfAttention":
        return SelfAttention.from_state(dict(state))
    if state["block"] == "Positions":
        return Positions(state["values"])
    return block_of(state)


def _read(values: Any, n_tokens: int | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    tokens = np.asarray(values)
    if tokens.ndim != 1 or tokens.size == 0 or tokens.dtype.kind not in "iu":
        raise InvalidInputError(f"read must be None or list at least one token, but was {values!r}.")
    if tokens.min() < 0 or (n_tokens is not None and tokens.max() >= n_tokens):
        span = "0 on" if n_tokens is None else f"0 to {n_tokens - 1}"
        raise InvalidInputError(f"read must name tokens from {span}, but was {tokens.tolist()}.")
    return tuple(sorted({int(t) for t in tokens}))
