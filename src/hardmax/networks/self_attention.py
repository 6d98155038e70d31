r"""Self-attention: all tokens pass through the layer, so keys and values move with the input.

.. math:: y_t = [x_t +]\; b_O + \sum_h W_O^h \sum_s p_{hts} (W_V^h x_s + b_V^h), \qquad
          S_{hts} = \sigma_h\, (W_Q^h x_t + b_Q^h) \cdot (W_K^h x_s + b_K^h) + \beta_{hts} ,

with weights :math:`p_{ht}` that sit on the best keys (``rule="hardmax"``) or are the softmax of
:math:`S_{ht} / \tau`. A score is a product of two tokens: not affine, as in
:class:`~hardmax.networks.attention.Attention`, where the context is held fixed, but quadratic along a segment
of sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError, written
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.affine_maps import exact_affine
from hardmax.networks.block import many
from hardmax.networks.heads.head_weights import matrices_of, scales_of, vectors_of

Floats = NDArray[np.float64]

RULES = ("hardmax", "softmax")
_ALL = slice(None)  # tokens
TIES = ("mean", "leftmost", "rightmost")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class SelfAttention:
    r"""A layer of attention over the tokens that pass through it.

    Parameters
    ----------
    W_Q, W_K, W_V, W_O : sequences of one matrix per head
        Of shapes (r, d), (r, d), (s, d), (e, s); ranks r and s may differ between heads.
    b_Q, b_K, b_V : sequences of one vector per head, optional
    b_O : (e,) array_like, optional
        Added once.
    score_bias : (T, T) or (H, T, T) array_like, optional
        :math:`\beta`, added to the scores of query t (row) and key s (column) after scaling.
    mask : None, "causal" or (T, T) array_like of bool
        ``True`` where query t (row) may see key s (column); "causal": keys up to the query itself.
    scale : number or one per head, default 1
        :math:`\sigma_h > 0`. Without ``score_bias`` it does not change who wins.
    rule : {"hardmax", "softmax"}
    temperature : float, optional
        :math:`\tau > 0`, for softmax only.
    ties : {"mean", "leftmost", "rightmost"}
        What a query reads where several keys have the largest score: the mean of their values, which is the
        limit of softmax at temperature zero, or the value of the first or of the last of them.
    skip : bool, default True
        Whether the input is added (then e = d).

    Attributes
    ----------
    W_Q, W_K, W_V, W_O : tuple of ExactArray
    b_Q, b_K, b_V : tuple of (ExactArray or None)
    b_O, score_bias : ExactArray or None
    mask : None, "causal" or (T, T) bool, read-only
    scale : tuple of Fraction
    d_in, d_out, heads : int
    n_tokens : int or None
        The length of sequences, where a mask or a score bias fixes it.

    Examples
    --------
    Every token reads the token that is largest in its own direction.

    >>> layer = SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]], skip=False)
    >>> layer([[1.0], [-2.0], [0.5]])[:, 0]
    array([ 1., -2.,  1.])
    >>> SelfAttention([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]], mask="causal")
    SelfAttention(1 head, 1 -> 1, skip, causal)
    """

    W_Q: tuple[ExactArray, ...]
    W_K: tuple[ExactArray, ...]
    W_V: tuple[ExactArray, ...]
    W_O: tuple[ExactArray, ...]
    b_Q: tuple[ExactArray | None, ...]
    b_K: tuple[ExactArray | None, ...]
    b_V: tuple[ExactArray | None, ...]
    b_O: ExactArray | None
    score_bias: ExactArray | None
    mask: NDArray[np.bool_] | str | None
    scale: tuple[Fraction, ...]
    rule: str
    temperature: float | None
    ties: str
    skip: bool
    width: ClassVar[int] = 0
    name: ClassVar[str] = "self-attention"

    def __init__(
        self,
        W_Q: Any,
        W_K: Any,
        W_V: Any,
        W_O: Any,
        *,
        b_Q: Any = None,
        b_K: Any = None,
        b_V: Any = None,
        b_O: ArrayLike | None = None,
        score_bias: ArrayLike | None = None,
        mask: ArrayLike | str | None = None,
        scale: Any = 1,
        rule: str = "hardmax",
        temperature: float | None = None,
        ties: str = "mean",
        skip: bool = True,
    ) -> None:
        w_q, w_k, w_v, w_o = matrices_of((W_Q, W_K, W_V, W_O), None)
        heads, d, e = len(w_q), w_q[0].shape[1], w_o[0].shape[0]
        vectors = {
            name: tuple(vectors_of(given, name, [m.shape[0] for m in some]))
            for name, given, some in (("b_Q", b_Q, w_q), ("b_K", b_K, w_k), ("b_V", b_V, w_v))
        }
        if skip and d != e:
            raise DimensionMismatchError(
                f"a skip connection needs as many outputs as inputs, but W_O gives {e} and W_Q takes {d}; "
                "say skip=False or change W_O."
            )
        if rule not in RULES:
            raise InvalidInputError(f"rule must be one of {', '.join(RULES)}, but was {rule!r}.")
        if ties not in TIES:
            raise InvalidInputError(f"ties must be one of {', '.join(TIES)}, but was {ties!r}.")
        fields: dict[str, Any] = {
            "W_Q": tuple(w_q),
            "W_K": tuple(w_k),
            "W_V": tuple(w_v),
            "W_O": tuple(w_o),
            **vectors,
            "b_O": None if b_O is None else vectors_of([b_O], "b_O", [e])[0],
            "score_bias": _score_bias(score_bias, heads),
            "mask": _mask(mask),
            "scale": tuple(scales_of(scale, heads)),
            "rule": rule,
            "temperature": _temperature(rule, temperature),
            "ties": ties,
            "skip": bool(skip),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        bias, shown = self.score_bias, self.mask
        if bias is not None and isinstance(shown, np.ndarray) and bias.shape[1:] != shown.shape:
            raise DimensionMismatchError(
                "score_bias and mask must be of sequences of one length, but have shapes "
                f"{bias.shape} and {shown.shape}."
            )

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.W_Q)

    @property
    def d_in(self) -> int:
        """The dimension of a token."""
        return self.W_Q[0].shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of a token behind the layer."""
        return self.W_O[0].shape[0]

    @property
    def n_tokens(self) -> int | None:
        """The length of sequences, where a mask or a score bias fixes it."""
        if isinstance(self.mask, np.ndarray):
            return int(self.mask.shape[0])
        return None if self.score_bias is None else self.score_bias.shape[1]

    def present(self, n_tokens: int) -> NDArray[np.bool_]:
        """Which keys (columns) a query (row) may see, in a sequence of a length."""
        if isinstance(self.mask, np.ndarray):
            return self.mask
        everything = np.ones((n_tokens, n_tokens), dtype=np.bool_)
        return np.tril(everything) if self.mask == "causal" else everything

    # Values
    # ------------------------------------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, temperature: float | None = None) -> Floats:
        """The output at one sequence (T, d) or many (B, T, d), in float64."""
        sequences, single = sequences_of(x, self.d_in, self.n_tokens)
        y = self.forward(sequences, temperature)
        return y[0] if single else y

    def forward(
        self, x: Floats, temperature: float | None = None, queries: Sequence[int] | None = None
    ) -> Floats:
        """The output at sequences (B, T, d), of all tokens or of some.

        A temperature replaces the rule of the layer, 0 by hardmax.
        """
        tau = self.temperature if temperature is None else temperature
        asking = _ALL if queries is None else list(queries)
        return self._outputs(x, asking, self._weights(x, tau or 0.0, asking)[0])

    def trace(self, x: Floats) -> tuple[Floats, NDArray[np.int32]]:
        """The output at sequences (B, T, d) at temperature zero, and the winning keys (B, H, T).

        Among tied keys the lowest index, with ``ties="rightmost"`` the highest.
        """
        weights, winners = self._weights(x, 0.0, _ALL)
        return self._outputs(x, _ALL, weights), winners

    def scores(self, x: Floats, asking: slice | list[int] = _ALL) -> Floats:
        """The scores (B, H, T, T) of queries against keys, minus infinity where the mask hides a key."""
        queries = x[:, asking]
        s = np.empty((len(x), self.heads, queries.shape[1], x.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for h in range(self.heads):
                q = _affine(queries, self.W_Q[h], self.b_Q[h])
                k = _affine(x, self.W_K[h], self.b_K[h])
                s[:, h] = q @ k.swapaxes(1, 2)
                if self.scale[h] != 1:
                    s[:, h] *= float(self.scale[h])
            if self.score_bias is not None:
                s += self.score_bias.floats[:, asking]
        if self.mask is not None:
            s[:, :, ~self.present(x.shape[1])[asking]] = -np.inf
        return s

    def _weights(self, x: Floats, tau: float, asking: slice | list[int]) -> tuple[Floats, NDArray[np.int32]]:
        """What each query reads of each key (B, H, T, T), and the keys with the largest score."""
        s = self.scores(x, asking)
        if self.ties == "rightmost":
            winners = s.shape[3] - 1 - s[..., ::-1].argmax(axis=3)
        else:
            winners = s.argmax(axis=3)  # of a NaN, if there is one
        best = np.take_along_axis(s, winners[..., None], axis=3)
        if not np.isfinite(best).all():
            raise NotFiniteError(
                "scores must stay within float64, but overflow at some x; rescale the input or the weights."
            )
        if tau > 0.0:
            with np.errstate(over="ignore", under="ignore"):
                weights = np.exp((s - best) / tau)
        elif self.ties == "mean":
            weights = (s == best).astype(np.float64)
        else:
            weights = (np.arange(s.shape[3]) == winners[..., None]).astype(np.float64)
        weights /= weights.sum(axis=3, keepdims=True)
        return weights, winners.astype(np.int32)

    def _outputs(self, x: Floats, asking: slice | list[int], weights: Floats) -> Floats:
        y = x[:, asking].copy() if self.skip else np.zeros((len(x), weights.shape[2], self.d_out))
        with np.errstate(over="ignore", invalid="ignore"):
            for h in range(self.heads):
                v = _affine(x, self.W_V[h], self.b_V[h])
                y += (weights[:, h] @ v) @ self.W_O[h].floats.T
            if self.b_O is not None:
                y += self.b_O.floats
        return y

    # Without rounding
    # ------------------------------------------------------------------------------------------------------

    @cached_property
    def shifts(self) -> ExactArray | None:
        r"""The score bias over the scale: :math:`q \cdot k + \beta / \sigma` has the same winners."""
        if self.score_bias is None:
            return None
        scales = np.array(self.scale, dtype=object)[:, None, None]
        return as_exact(fractions_of(self.score_bias) / scales, "score_bias over scale", ndim=3)

    def query(self, h: int, state: flint.fmpq_mat) -> flint.fmpq_mat:
        """The query of a token whose state is a column, or a map with the constants in its last column."""
        return exact_affine(self.W_Q[h], _or_zeros(self.b_Q[h], self.W_Q[h]), state)

    def key(self, h: int, state: flint.fmpq_mat) -> flint.fmpq_mat:
        """The key of a token, as :meth:`query`."""
        return exact_affine(self.W_K[h], _or_zeros(self.b_K[h], self.W_K[h]), state)

    def value(self, h: int, state: flint.fmpq_mat) -> flint.fmpq_mat:
        """The value of a token behind the output projection."""
        v = exact_affine(self.W_V[h], _or_zeros(self.b_V[h], self.W_V[h]), state)
        return exact_affine(self.W_O[h], ExactArray(np.zeros(self.d_out)), v)

    def shift(self, h: int, t: int, s: int) -> flint.fmpq:
        """What the score bias adds to a query times a key."""
        return flint.fmpq(0) if self.shifts is None else self.shifts.rational((h, t, s))

    def exact_output(self, state: flint.fmpq_mat, read: list[list[flint.fmpq_mat]]) -> flint.fmpq_mat:
        """The output of a token from its state and, for each head, the values of the keys that it reads."""
        total = flint.fmpq_mat(state) if self.skip else flint.fmpq_mat(self.d_out, state.ncols())
        for values in read:
            summed = values[0]
            for value in values[1:]:
                summed = summed + value
            total = total + summed * flint.fmpq(1, len(values))
        if self.b_O is not None:
            last = total.ncols() - 1
            for i in range(self.d_out):
                total[i, last] = total[i, last] + self.b_O.rational(i)
        return total

    def forward_exactly(self, states: list[flint.fmpq_mat]) -> list[flint.fmpq_mat]:
        """The layer at temperature zero on columns of rationals, one per token."""
        T = len(states)
        present = self.present(T)
        reads: list[list[list[flint.fmpq_mat]]] = [[] for _ in range(T)]
        for h in range(self.heads):
            queries, keys = [self.query(h, x) for x in states], [self.key(h, x) for x in states]
            values = [self.value(h, x) for x in states]
            for t in range(T):
                seen = np.flatnonzero(present[t]).tolist()
                row = queries[t].transpose()
                scores = {s: (row * keys[s])[0, 0] + self.shift(h, t, s) for s in seen}
                best = max(scores.values())
                tied = [s for s in seen if scores[s] == best]
                reads[t].append([values[s] for s in self.chosen(tied)])
        return [self.exact_output(x, read) for x, read in zip(states, reads, strict=True)]

    def chosen(self, tied: list[int]) -> list[int]:
        """The keys that are read where some tie, in ascending order."""
        return {"mean": tied, "leftmost": tied[:1], "rightmost": tied[-1:]}[self.ties]

    # Other forms
    # ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What must survive a file."""
        state: dict[str, Any] = {"block": type(self).__name__}
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
            arrays = getattr(self, name)
            empty = all(array is None for array in arrays)
            state[name] = None if empty else [None if a is None else a.numbers for a in arrays]
        for name in ("b_O", "score_bias"):
            array = getattr(self, name)
            state[name] = None if array is None else array.numbers
        options = {name: getattr(self, name) for name in ("mask", "rule", "temperature", "ties", "skip")}
        return state | options | {"scale": list(self.scale)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SelfAttention:
        """The block of a state."""
        options = {name: value for name, value in state.items() if name != "block"}
        return cls(**options)

    def __repr__(self) -> str:
        soft = f", softmax at {self.temperature:g}" if self.rule == "softmax" else ""
        ties = "" if self.ties == "mean" else f", {self.ties}"
        masked = "" if self.mask is None else ", causal" if isinstance(self.mask, str) else ", masked"
        return (
            f"SelfAttention({many(self.heads, 'head')}, {self.d_in} -> {self.d_out}"
            f"{', skip' if self.skip else ''}{soft}{ties}{masked})"
        )


def sequences_of(x: ArrayLike, d: int, n_tokens: int | None) -> tuple[Floats, bool]:
    """Sequences (B, T, d) as float64, and whether there was only one, given as a matrix.

    >>> sequences_of([[1, 2]], 2, None)
    (array([[[1., 2.]]]), True)
    """
    array = np.asarray(x)
    single = array.ndim == 2
    floats = as_exact(array[None] if single else array, "x", ndim=3).floats
    if floats.shape[2] != d or 0 in floats.shape or n_tokens not in (None, floats.shape[1]):
        length = "T" if n_tokens is None else str(n_tokens)
        raise DimensionMismatchError(
            f"x must be sequences of tokens with {many(d, 'coordinate')}, shape ({length}, {d}) or "
            f"(B, {length}, {d}), but has shape {array.shape}."
        )
    return floats, single


def _affine(x: Floats, w: ExactArray, b: ExactArray | None) -> Floats:
    y = x @ w.floats.T
    return np.asarray(y if b is None else y + b.floats)


def _or_zeros(vector: ExactArray | None, matrix: ExactArray) -> ExactArray:
    return ExactArray(np.zeros(matrix.shape[0])) if vector is None else vector


def _mask(values: Any) -> Any:
    if values is None or (isinstance(values, str) and values == "causal"):
        return values
    array = np.array(values)
    if array.dtype != np.bool_ or array.ndim != 2 or array.shape[0] != array.shape[1]:
        was = repr(values) if isinstance(values, str) else f"of shape {array.shape} and type {array.dtype}"
        raise InvalidInputError(
            'mask must be None, "causal" or a square matrix of True (the query of the row may see the key of '
            f"the column) and False, but was {was}."
        )
    if not array.any(axis=1).all():
        t = int(np.flatnonzero(~array.any(axis=1))[0])
        raise InvalidInputError(f"mask must leave every query at least one key, but query {t} has none.")
    array.setflags(write=False)
    return array


def _score_bias(values: Any, heads: int) -> ExactArray | None:
    if values is None:
        return None
    array = values.numbers if isinstance(values, ExactArray) else np.asarray(values)
    if array.ndim == 2:
        array = np.broadcast_to(array, (heads, *array.shape))
    bias = as_exact(array, "score_bias", ndim=3)
    if bias.shape[0] != heads or bias.shape[1] != bias.shape[2]:
        raise DimensionMismatchError(
            f"score_bias must have shape (T, T) or ({heads}, T, T), one matrix per head, but has shape "
            f"{array.shape}."
        )
    return bias


def _temperature(rule: str, temperature: Any) -> float | None:
    if rule == "hardmax":
        if temperature is not None:
            raise InvalidInputError(
                'temperature belongs to rule="softmax", but rule was "hardmax" and temperature '
                f"{written(temperature)}."
            )
        return None
    if temperature is None or not (0.0 < float(temperature) < float("inf")):
        raise InvalidInputError(
            f'temperature must be a finite number above 0 for rule="softmax", but was {temperature}; '
            'rule="hardmax" is the limit at 0.'
        )
    return float(temperature)
