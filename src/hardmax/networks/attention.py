r"""Attention with fixed keys and values, and how a real layer becomes one (P1 section III-C).

Only the query varies. The keys and values of a head are held fixed (P1's conditioned input space), so the
score of key :math:`j` of head :math:`h` is an affine function :math:`a_{hj} \cdot x + b_{hj}` of the input,
and what the head adds when :math:`j` wins is a constant vector :math:`v_{hj}`.

In the forward pass (:class:`DistinctKeys`) keys of a head with equal floats are merged into one that stands
for all of them: matrix products may round equal columns differently, and whether keys tie must not depend on
that. Heads with fewer keys than others are padded with keys of bias minus infinity, so that one matrix
product serves all heads.

With a context :math:`C` (one token per row) the scores of a head are, for :math:`A = [C \mid 1 \mid
\beta / \sigma]`,

.. math:: \sigma\, A
          \begin{bmatrix} W_K^\top & 0 \\ b_K^\top & 0 \\ 0 & 1 \end{bmatrix}
          \begin{bmatrix} W_Q & b_Q \\ 0 & 1 \end{bmatrix}
          \begin{bmatrix} x \\ 1 \end{bmatrix} ,

and its outputs are a product of the same shape. Multiplying floats would round; so
:meth:`Attention.from_weights` keeps the factors, and only zeros and ones are added to them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar, Self

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.arithmetic import exact_stack, fractions_of
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray, as_exact, fraction, nearest_float
from hardmax.networks.affine_maps import FloatMap, exact_scores
from hardmax.networks.block import (
    BaseBlock,
    Traced,
    biases_of,
    check_lengths,
    heads_of,
    many,
    mask_of,
    no_routings,
    no_units,
    not_affine,
    reached,
    rounded_up,
)
from hardmax.networks.heads.head_weights import matrices_of, scales_of, vectors_of
from hardmax.networks.heads.rules import Rule, exact_weights, rule_of
from hardmax.networks.layers import (
    ArgmaxLayer,
    Layer,
    ReluLayer,
    SoftmaxLayer,
    decided_keys,
    mean_rows,
    near_rows,
)
from hardmax.networks.reading.torch_weights import array_of, head_matrices

Floats = NDArray[np.float64]

# Far above the rounding errors of a composed row, relative to the sum of absolute values that it is made of:
# rows that differ by more are different, rows that differ by less are compared in rationals.
_NEARLY = 1e-9


class HeadBlock(BaseBlock):
    """A block with heads: scores and biases over heads and keys, and a mask of the keys that are present."""

    scores: ExactArray
    biases: ExactArray
    mask: NDArray[np.bool_]
    _words: ClassVar[tuple[str, str]] = ("head", "key")  # what heads and keys are called
    near: Any = None  # lists of the keys that can have a wall with each key of a head, if others cannot
    counts: Any = None  # how many keys each stands for where keys share a tie, (H, N), if not one

    def _set_scores(self, scores: Any, biases: Any, mask: Any) -> list[int]:
        """Check and keep the keys; returns how many each head has."""
        head, key = self._words
        a, lengths = heads_of(scores, "scores", ndim=3)
        if 0 in a.shape:
            raise InvalidInputError(
                f"scores must hold at least one {head} with one {key} in one dimension, but has shape "
                f"{a.shape}."
            )
        b = ExactArray(np.zeros(a.shape[:2]))
        if biases is not None:
            b, found = biases_of(biases)
            check_lengths(b, "biases", found, lengths, self._words)
        self._set(scores=a, biases=b, mask=mask_of(mask, lengths, a.shape[1]))
        return lengths

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.scores.shape[2]

    @property
    def heads(self) -> int:
        """The number of heads, each with a routing."""
        return self.scores.shape[0]

    @property
    def n_tokens(self) -> int:
        """The number of keys of the largest head, masked ones included."""
        return self.scores.shape[1]

    @property
    def largest(self) -> int:
        """The most numbers that the forward pass holds per point."""
        return max(super().largest, self.keys.counts.size)

    @property
    @abstractmethod
    def keys(self) -> DistinctKeys:
        """The keys as the forward pass uses them: equal ones merged, masked ones gone."""

    def __repr__(self) -> str:
        head, key = self._words
        masked = int((~self.mask).sum())
        return (
            f"{type(self).__name__}({many(self.scores.shape[0], head)}, {many(self.n_tokens, key)}, "
            f"{self.d_in} -> {self.d_out}{', skip' if self.skip else ''}"
            f"{f', {masked} masked' if masked else ''})"
        )


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Attention(HeadBlock):
    r"""Attention at fixed keys and values.

    .. math:: x \mapsto [x +] \sum_{h=1}^{H} \sum_j p_{hj}(x)\, v_{hj}, \qquad
              s_{hj}(x) = a_{hj} \cdot x + b_{hj} .

    The rule says how the weights :math:`p` follow from the scores :math:`s`. All rules but softmax are
    piecewise affine, so every engine finds their exact cells:

    =============  ==========================================================================================
    rule           weights of a head
    =============  ==========================================================================================
    "hardmax"      1 for the largest score, :math:`j_h = \arg\max_j s_{hj}`
    "top-k"        :math:`1/k` for each of the k largest scores
    "sparsemax"    the point of the simplex nearest to :math:`s / \tau`, with :math:`\tau` the temperature
    "relu"         :math:`\max(s_j, 0) / \tau`; :math:`\tau` is the number of keys unless it is given
    "softmax"      :math:`e^{s_j / \tau}` over their sum, whatever temperature the network is evaluated at;
                   :func:`~hardmax.regions.segment.trace.trace_segment` encloses it
    =============  ==========================================================================================

    Parameters
    ----------
    scores : (H, N, d) array_like
        The slopes :math:`a_{hj}`. A list of H matrices with different numbers of rows is padded, and the
        padding is masked.
    biases : (H, N) array_like or None
        The constants :math:`b_{hj}`; ``None`` for zeros.
    outputs : (H, N, e) array_like
        The vectors :math:`v_{hj}`: values after the output projection.
    rule : {"hardmax", "top-k", "sparsemax", "relu", "softmax"}
        How weights follow from scores.
    k : int, optional
        How many keys win; with rule "top-k" only.
    temperature : number or (H,) array_like, optional
        :math:`\tau`, of all heads or one per head, with the rules "sparsemax" and "relu"; of all heads with
        "softmax".
    ties : {"mean", "leftmost", "rightmost"}
        Who wins among equal scores, with the rules "hardmax" and "top-k": all of them share, or the lowest
        or the highest index wins.
    mask : (H, N) array_like of bool, optional
        ``True`` where a key is present. Every head needs one, and k of them with rule "top-k".
    skip : bool, default True
        Whether the input is added (then :math:`e = d`).

    Attributes
    ----------
    scores, biases, outputs : ExactArray
    mask : (H, N) bool, read-only
    skip : bool
    rule, ties : str
    k : int or None
    temperature : ExactArray or None
    d_in, d_out, n_heads, n_tokens : int
    heads : int
        The heads with a routing in the signature, that of the largest score: all of them with the rules
        "hardmax" and "softmax", otherwise none.
    width : int
        The bits in the signature: with the other rules one per head and key, which says whether the key has
        weight.

    Notes
    -----
    With ``ties="mean"``, keys of a head that tie for the largest score share: the head adds the mean of their
    outputs, which is the limit of softmax at temperature zero. Keys that tie for the last of k places share
    it. In a signature the lowest index stands for keys that tie on a whole cell (the highest with
    ``ties="rightmost"``).

    Examples
    --------
    Two keys on a line; the map jumps by 2 at 0, where both win.

    >>> head = Attention([[[-1], [1]]], None, [[[-1], [1]]])
    >>> head([[-0.5], [0.0], [0.5]])[:, 0]
    array([-1.5,  0. ,  1.5])
    >>> head
    Attention(1 head, 2 keys, 1 -> 1, skip)

    The same keys with sparsemax at temperature 1: between the two the map is continuous.

    >>> soft = Attention([[[-1], [1]]], None, [[[-1], [1]]], rule="sparsemax", temperature=1)
    >>> soft([[-0.5], [0.25], [0.5]])[:, 0]
    array([-1.5 ,  0.75,  1.5 ])
    """

    scores: ExactArray
    biases: ExactArray
    outputs: ExactArray
    mask: NDArray[np.bool_]
    skip: bool
    rule: str
    k: int | None
    temperature: ExactArray | None
    ties: str
    name: ClassVar[str] = "attention"
    _arrays: ClassVar[dict[str, int]] = {"scores": 3, "biases": 2, "outputs": 3}
    _options: ClassVar[tuple[str, ...]] = ("mask", "skip")
    _more: ClassVar[tuple[str, ...]] = ("rule", "k", "temperature", "ties")

    def __init__(
        self,
        scores: ArrayLike | Sequence[ArrayLike],
        biases: ArrayLike | Sequence[ArrayLike] | None,
        outputs: ArrayLike | Sequence[ArrayLike],
        *,
        rule: str = "hardmax",
        k: int | None = None,
        temperature: ArrayLike | None = None,
        ties: str = "mean",
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        skip: bool = True,
    ) -> None:
        lengths = self._set_scores(scores, biases, mask)
        v, found = heads_of(outputs, "outputs", ndim=3)
        check_lengths(v, "outputs", found, lengths, self._words)
        if v.shape[2] == 0:
            raise InvalidInputError(f"outputs must have at least one coordinate, but has shape {v.shape}.")
        if skip and v.shape[2] != self.d_in:
            raise DimensionMismatchError(
                f"a skip connection needs outputs of the dimension of the input ({self.d_in}), but they have "
                f"{v.shape[2]}; say skip=False or change the outputs."
            )
        chosen = rule_of(rule, k, temperature, ties, self.mask)
        self._set(outputs=v, skip=bool(skip), _rule=chosen, rule=rule, k=chosen.k, ties=ties)
        self._set(temperature=chosen.temperature)

    _rule: ClassVar[Rule]  # the rule with what belongs to it

    @property
    def n_heads(self) -> int:
        """The number of heads."""
        return self.scores.shape[0]

    @property
    def heads(self) -> int:
        """The number of heads with a routing in the signature: that of the key with the largest score."""
        return self.n_heads if self.rule in ("hardmax", "softmax") else 0

    @property
    def width(self) -> int:
        """The number of bits in the signature: whether a key has weight, for heads that choose several."""
        return 0 if self.heads else self.n_heads * self.n_tokens

    @property
    def chooses_sets(self) -> bool:
        """Whether heads choose sets of keys, which an engine must know before it starts."""
        return self.rule in ("top-k", "sparsemax")

    @property
    def smooth(self) -> bool:
        """Whether the block is not piecewise affine."""
        return self.rule == "softmax"

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.outputs.shape[2]

    @cached_property
    def keys(self) -> DistinctKeys:
        """The keys as the forward pass uses them: equal ones merged, masked ones gone."""
        return distinct_keys(self.scores, self.biases, self.outputs, self.mask, self.ties)

    @classmethod
    def from_weights(
        cls,
        context: ArrayLike,
        W_Q: Sequence[ArrayLike] | ArrayLike,
        W_K: Sequence[ArrayLike] | ArrayLike,
        W_V: Sequence[ArrayLike] | ArrayLike,
        W_O: Sequence[ArrayLike] | ArrayLike,
        *,
        b_Q: Sequence[ArrayLike] | ArrayLike | None = None,
        b_K: Sequence[ArrayLike] | ArrayLike | None = None,
        b_V: Sequence[ArrayLike] | ArrayLike | None = None,
        b_O: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        score_bias: ArrayLike | None = None,
        scale: Any = 1,
        rule: str = "hardmax",
        k: int | None = None,
        temperature: ArrayLike | None = None,
        ties: str = "mean",
        skip: bool = True,
    ) -> Attention:
        r"""A real attention layer whose context is held fixed.

        For the tokens :math:`c_j` of the context, keys :math:`k_{hj} = W_K^h c_j + b_K^h` and values
        :math:`W_V^h c_j + b_V^h`,

        .. math:: x \mapsto [x +]\; b_O + \sum_h W_O^h \, (W_V^h c_{j_h} + b_V^h), \qquad
                  j_h = \arg\max_j \; \sigma_h\, k_{hj} \cdot (W_Q^h x + b_Q^h) + \beta_{hj} .

        Parameters
        ----------
        context : (N, d_model) array_like
            The tokens that are attended to. When the token that is followed is among them, its key and value
            stay those of this row: a key that moved with the query would make its score quadratic.
        W_Q, W_K, W_V, W_O : sequences of one matrix per head
            Of shapes (r, d), (r, d_model), (s, d_model), (e, s); ranks r and s may differ between heads.
        b_Q, b_K, b_V : sequences of one vector per head, optional
        b_O : (e,) array_like, optional
            Added once.
        mask : (N,) or (H, N) array_like of bool, optional
            ``True`` where a token may be attended to.
        score_bias : (N,) or (H, N) array_like, optional
            :math:`\beta`, added to the scores after scaling: relative positions, for example.
        scale : number or one per head, default 1
            :math:`\sigma_h > 0`. The default leaves the raw scores; softmax of raw scores over
            :math:`\sqrt{d_{head}}` is then temperature :math:`\sqrt{d_{head}}`.
        rule, k, temperature, ties
            As in :class:`Attention`.
        skip : bool, default True

        Returns
        -------
        Attention
            Nothing is rounded: products of weights are kept as their factors and multiplied out exactly when
            regions are asked for, so rank-deficient scores stay rank-deficient.

        Examples
        --------
        Both heads read one coordinate; the second knows the sign only.

        >>> context = [[1.0, 0.5], [-1.0, 2.0]]
        >>> layer = Attention.from_weights(
        ...     context, W_Q=[[[1, 0]], [[0, 1]]], W_K=[[[1, 0]], [[1, 0]]],
        ...     W_V=[[[0, 1]], [[0, 1]]], W_O=[[[1], [0]], [[0], [1]]])
        >>> layer([3.0, -1.0])
        array([3.5, 1. ])
        """
        scores, biases, outputs = _factored(
            context, (W_Q, W_K, W_V, W_O), (b_Q, b_K, b_V), b_O, score_bias, scale
        )
        return cls(
            scores, biases, outputs, rule=rule, k=k, temperature=temperature, ties=ties, mask=mask, skip=skip
        )

    @classmethod
    def from_torch(
        cls,
        module: Any,
        context: ArrayLike,
        *,
        rule: str = "hardmax",
        k: int | None = None,
        temperature: ArrayLike | None = None,
        ties: str = "mean",
        mask: ArrayLike | None = None,
        skip: bool = False,
    ) -> Attention:
        r"""A torch ``nn.MultiheadAttention`` whose context is held fixed.

        Keys and values are those of the context, and the query varies: at temperature
        :math:`\sqrt{d_{head}}` and rule "softmax" this is ``module(x, context, context)`` for one query x.

        Parameters
        ----------
        module : nn.MultiheadAttention
            Read by duck typing; torch is not imported.
        context : (N, kdim) array_like
            The tokens that are attended to.
        rule, k, ties, mask
            As in :class:`Attention`.
        temperature : number or (H,) array_like, optional
            Of the scores :math:`k \cdot q`, which are not divided by :math:`\sqrt{d_{head}}`. With the rules
            "softmax" and "sparsemax" that root, rounded to float64, is the default.
        skip : bool, default False
            Whether the query is added, as a transformer does around the module.

        Returns
        -------
        Attention
            Nothing is rounded: scores and outputs keep the module's matrices as factors.

        Raises
        ------
        UnsupportedNetworkError
            If the module has options that are not read, naming all of them.
        """
        matrices = head_matrices(module)
        if temperature is None and rule in ("softmax", "sparsemax"):
            temperature = sqrt(module.head_dim)
        return cls.from_weights(
            array_of(context),
            **matrices,
            rule=rule,
            k=k,
            temperature=temperature,
            ties=ties,
            mask=mask,
            skip=skip,
        )

    def forward(self, points: Floats, temperature: float = 0.0) -> Floats:
        """The output at the rows of a float64 matrix; a temperature concerns hardmax heads only."""
        if temperature == 0.0 or self.rule != "hardmax":
            return self.trace(points)[0]
        return self._sum(points, self.keys.soft(points, temperature))

    def trace(self, points: Floats) -> Traced:
        """The output, and the winning keys (n, H) or, for rules that choose several, which keys have weight.

        Among ties the lowest index wins, or the highest.
        """
        if self.heads:
            added, routings = self.keys.hard(points, mean=self.ties == "mean")
            if self.smooth:
                added = self.keys.soft(points, float(self._rule.temperatures[0]))
            return self._sum(points, added), routings, no_units(points)
        scores = self.keys.scores_of_keys(points)
        weights, chosen = self._rule.weights(scores)
        outputs = working_floats(self.outputs)
        with np.errstate(over="ignore", invalid="ignore"):
            added = [weights[:, h] @ outputs[h] for h in range(self.n_heads)]
        return self._sum(points, added), no_routings(points), chosen.reshape(len(points), -1)

    def reach(self, size: Floats) -> Floats:
        """Bounds on the absolute values of the output; the weights of a head add up to 1, but for ReLU's."""
        weights = np.ones(self.biases.shape)
        if self.rule == "relu":
            taus = np.array([float(tau) for tau in self._rule.temperatures])
            weights = np.stack(
                [reached(self.scores.take(h), self.biases.take(h), size) for h in range(len(taus))]
            )
            weights = rounded_up(weights / taus[:, None])
        values = weights[:, :, None] * np.abs(self.outputs.floats) * self.mask[:, :, None]
        added = values.sum(axis=(0, 1)) if self.rule == "relu" else values.max(axis=1).sum(axis=0)
        return rounded_up(added + size if self.skip else added)

    def chosen(self, points: Floats) -> NDArray[np.bool_]:
        """Which keys have weight at the rows of a float64 matrix, (n, H, N)."""
        return self._rule.weights(self.keys.scores_of_keys(points))[1]

    def with_keys(self, n_tokens: int) -> Self:
        """The same block with the first keys of each head only; the others are masked."""
        return self._with(mask=self.mask & (np.arange(self.n_tokens) < n_tokens))

    def with_rule(self, **changes: Any) -> Self:
        """The same block with another rule; what belonged to the old one goes with it."""
        if "rule" in changes:
            changes = {"k": None, "temperature": None, "ties": "mean"} | changes
        return self._with(**changes)

    def _with(self, **changes: Any) -> Self:
        """The same block with other options."""
        kept: Any = (self.scores, self.biases, self.outputs)
        options = {name: getattr(self, name) for name in (*self._options, *self._more)}
        return type(self)(*kept, **options | changes)

    def layers(self, head: int, unit: int) -> list[Layer]:
        """The internal form of heads that choose one key, and of ReLU attention.

        Keys with the same score become one key with the mean of their outputs, or that of the first. Heads
        that choose sets have one when the sets are listed: :mod:`hardmax.networks.heads.key_sets`.
        """
        outputs = self.outputs.rearranged(lambda array: array.reshape(-1, self.d_out))
        if self.rule == "relu":
            return [self._units(outputs, unit)]
        decided, groups = decided_keys(self.scores, self.biases, self.mask, last=self.ties == "rightmost")
        mean, all_groups = self.ties == "mean", groups
        if not mean:
            groups = [group[:1] for group in groups]
        counts = (np.ones_like(self.mask, dtype=np.int64) if self.counts is None else self.counts).ravel()
        sizes = np.add.reduceat(counts[np.concatenate(groups)], np.cumsum([0, *map(len, groups)])[:-1])
        means = mean_rows(outputs, groups, counts)
        fields = {**decided, "multiplicities": sizes, "outputs": means, "skip": self.skip, "first_head": head}
        if self.smooth:
            return [SoftmaxLayer(**fields, temperature=float(self._rule.temperatures[0]))]
        near = near_rows(all_groups, self.n_tokens, self.near)
        return [ArgmaxLayer(**fields, mean=mean, near=near)]

    def _units(self, outputs: ExactArray, unit: int) -> ReluLayer:
        """ReLU attention: a unit per key; a masked one has the score -1."""
        masked = np.flatnonzero(~self.mask.ravel())
        scores = self.scores.rearranged(lambda array: _replaced(array.reshape(-1, self.d_in), masked, 0))
        biases = self.biases.rearranged(lambda array: _replaced(array.ravel(), masked, -1))
        shares = np.repeat([1 / tau for tau in self._rule.temperatures], self.n_tokens)
        weights = as_exact(fractions_of(outputs) * shares[:, None], "outputs over temperature", ndim=2)
        offsets = ExactArray(np.zeros(self.d_out))
        return ReluLayer(scores, biases, weights.transposed, offsets, self.skip, unit)

    def _added(
        self, current: FloatMap, choice: NDArray[Any], exactly: Callable[[], flint.fmpq_mat]
    ) -> FloatMap:
        if self.smooth:
            raise not_affine(self)
        if self.rule != "hardmax":
            added = self._added_exactly(exactly(), choice).tolist()
            rows = np.array([[nearest_float(fraction(value)) for value in row] for row in added])
            return FloatMap(rows, np.abs(rows))
        constant = np.zeros((self.d_out, current.rows.shape[1]))
        for h, key in enumerate(choice.tolist()):
            constant[:, -1] += self._output(h, key, current, exactly)
        return FloatMap(constant, np.abs(constant))

    def _output(self, h: int, key: int, current: FloatMap, exactly: Callable[[], flint.fmpq_mat]) -> Floats:
        """What head ``h`` adds on the cell where ``key`` wins: the mean over the keys that tie there."""
        keys = self.keys
        width = keys.offsets.shape[1]
        winner = int(np.flatnonzero((keys.first[h] == key) & (keys.counts[h] > 0))[0])
        slopes = keys.slopes[:, h * width : (h + 1) * width].T
        rows, size = slopes @ current.rows, np.abs(slopes) @ current.size
        rows[:, -1] += keys.offsets[h]
        size[:, -1] += np.abs(keys.offsets[h])
        with np.errstate(invalid="ignore"):  # padding has offset minus infinity
            near = (np.abs(rows - rows[winner]) <= _NEARLY * (size + size[winner])).all(axis=1)
        near &= keys.counts[h] > 0
        if np.count_nonzero(near) > 1:
            exact = exact_scores(self.scores, self.biases, self.mask, exactly())[h]
            near[near] = [exact[j] == exact[key] for j in keys.first[h, near].tolist()]
        weights, outputs = keys.counts[h, near], keys.outputs[h, near]
        if len(weights) == 1 or self.ties != "mean":
            return np.asarray(outputs[0])
        return np.asarray((weights[:, None] * outputs).cumsum(axis=0)[-1] / weights.sum())

    def _added_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat:
        if self.smooth:
            raise not_affine(self)
        columns = current.ncols()
        added = flint.fmpq_mat(self.d_out, columns)
        for h, rows in enumerate(exact_scores(self.scores, self.biases, self.mask, current)):
            if choice is None:
                won = None
            elif self.rule == "hardmax":
                won = [int(choice[h])]
            else:
                won = np.flatnonzero(choice.reshape(self.n_heads, -1)[h]).tolist()
            weights = exact_weights(self._rule, h, rows, won)
            values = [[self.outputs.rational((h, j, i)) for j in weights] for i in range(self.d_out)]
            table = [weight for row in weights.values() for weight in row]
            shares = flint.fmpq_mat(len(weights), columns, table)
            added += flint.fmpq_mat(self.d_out, len(weights), [v for row in values for v in row]) * shares
        return added

    def state(self) -> dict[str, Any]:
        """What must survive a file; the rule of a plain hardmax head need not."""
        plain = self.rule == "hardmax" and self.ties == "mean"
        tau = None if self.temperature is None else self.temperature.numbers
        more = {"rule": self.rule, "k": self.k, "temperature": tau, "ties": self.ties}
        return super().state() | ({} if plain else more)

    def __repr__(self) -> str:
        plain = self.rule == "hardmax" and self.ties == "mean"
        return super().__repr__() if plain else f"{super().__repr__()[:-1]}, {self._rule})"

    def _sum(self, points: Floats, added: list[Floats]) -> Floats:
        y = points.copy() if self.skip else np.zeros((len(points), self.d_out))
        with np.errstate(over="ignore", invalid="ignore"):
            for part in added:
                y += part
        return y


def working_floats(array: ExactArray) -> Floats:
    """Floats that are at hand: those of a product are not multiplied out exactly for a forward pass."""
    return array.approximation if isinstance(array, ExactProduct) else array.floats


@dataclass(frozen=True, eq=False)
class DistinctKeys:
    """H heads of at most K distinct keys.

    Attributes
    ----------
    slopes : (d, H * K) float64
    offsets : (H, K) float64
        Minus infinity for padding.
    first : (H, K) int32
        The lowest index of a key that it stands for, or the highest if that wins ties.
    counts : (H, K) float64
        The number of keys that it stands for, zero for padding.
    outputs : (H, K, e) float64
        The mean of their outputs, or that of the key that wins a tie.
    place : (H, N) int
        Where each key stands among the distinct ones; -1 if it is not present.
    """

    slopes: Floats
    offsets: Floats
    first: NDArray[np.int32]
    counts: Floats
    outputs: Floats
    place: NDArray[np.intp]

    def scores_of_keys(self, points: Floats) -> Floats:
        """The scores of all keys (n, H, N); minus infinity for those that are not present."""
        s = self.scores(points)[0]
        found = np.full((*s.shape[:2], self.place.shape[1]), -np.inf)
        for h, place in enumerate(self.place):
            found[:, h, place >= 0] = s[:, h, place[place >= 0]]
        return found

    def scores(self, points: Floats) -> tuple[Floats, NDArray[np.intp], Floats]:
        """The scores (n, H, K), the first winning key of each head (n, H, 1), and its score."""
        with np.errstate(over="ignore", invalid="ignore"):
            s = (points @ self.slopes).reshape(-1, *self.offsets.shape)
            s += self.offsets
        winners = s.argmax(axis=2, keepdims=True)  # of a NaN, if there is one
        best = np.take_along_axis(s, winners, axis=2)
        if not np.isfinite(best).all():
            raise NotFiniteError(
                "scores must stay within float64, but overflow at some x; rescale the input or the weights."
            )
        return s, winners, best

    def hard(self, points: Floats, *, mean: bool) -> tuple[list[Floats], NDArray[np.int32]]:
        """What each head adds at temperature zero, and the routings (n, H); the first of tied keys, or their
        mean.
        """
        s, winners, best = self.scores(points)
        tied = s == best
        several = (np.count_nonzero(tied, axis=2) > 1) & mean
        added = []
        for h, outputs in enumerate(self.outputs):
            part = outputs[winners[:, h, 0]]
            shared = np.flatnonzero(several[:, h])
            if len(shared):
                weights = tied[shared, h] * self.counts[h]
                part[shared] = weights @ outputs / weights.sum(axis=1, keepdims=True)
            added.append(part)
        return added, self.first[np.arange(len(self.first)), winners[:, :, 0]]

    def soft(self, points: Floats, temperature: float) -> list[Floats]:
        """What each head adds at a positive temperature."""
        s, _, best = self.scores(points)
        with np.errstate(over="ignore", under="ignore"):  # far below the best: exp(-inf) is zero
            s -= best
            s /= temperature
            weights = np.exp(s, out=s)
        weights *= self.counts
        weights /= weights.sum(axis=2, keepdims=True)  # the best has weight exp(0), so this is at least one
        return [weights[:, h] @ outputs for h, outputs in enumerate(self.outputs)]


def distinct_keys(
    scores: ExactArray, biases: ExactArray, outputs: ExactArray, mask: NDArray[np.bool_], ties: str = "mean"
) -> DistinctKeys:
    """Merge keys with equal floats, drop those that the mask leaves out, and pad.

    Keys are in the order in which they win ties.

    >>> from hardmax.exact.rationals import as_exact
    >>> a, v = as_exact([[[1], [1], [2]]], "a", ndim=3), as_exact([[[0], [1], [5]]], "v", ndim=3)
    >>> keys = distinct_keys(a, as_exact([[0, 0, 0]], "b", ndim=2), v, np.ones((1, 3), dtype=bool))
    >>> keys.first, keys.counts, keys.outputs[0, :, 0]
    (array([[0, 2]], dtype=int32), array([[2., 1.]]), array([0.5, 5. ]))
    """
    a, b, v = working_floats(scores), working_floats(biases), working_floats(outputs)
    heads, _, d = a.shape
    groups = []
    for h in range(heads):
        present = np.flatnonzero(mask[h])[:: -1 if ties == "rightmost" else 1]
        rows = np.concatenate([a[h, present], b[h, present, None]], axis=1)
        _, lowest, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(lowest)  # by the index that wins ties, so that the first maximum is the winner
        groups.append((present, present[lowest[order]], np.argsort(order)[group.ravel()]))
    shape = (heads, max(len(lowest) for _, lowest, _ in groups))
    slopes, offsets = np.zeros((*shape, d)), np.full(shape, -np.inf)
    first, counts = np.zeros(shape, dtype=np.int32), np.zeros(shape)
    means, place = np.zeros((*shape, v.shape[2])), np.full(mask.shape, -1)
    for h, (present, lowest, group) in enumerate(groups):
        k = len(lowest)
        slopes[h, :k], offsets[h, :k], first[h, :k] = a[h, lowest], b[h, lowest], lowest
        counts[h, :k] = np.bincount(group, minlength=k)
        place[h, present] = group
        if ties == "mean":
            np.add.at(means[h], group, v[h, present])
            means[h, :k] /= counts[h, :k, None]
        else:
            means[h, :k] = v[h, lowest]
    return DistinctKeys(np.ascontiguousarray(slopes.reshape(-1, d).T), offsets, first, counts, means, place)


def _replaced(array: NDArray[Any], rows: NDArray[np.intp], value: int) -> NDArray[Any]:
    """A copy in which some rows hold another value."""
    array = array.copy()
    array[rows] = value
    return array


def _factored(
    context: Any,
    matrices: tuple[Any, Any, Any, Any],
    vectors: tuple[Any, Any, Any],
    b_O: Any,
    score_bias: Any,
    scale: Any,
) -> tuple[Any, Any, Any]:
    """Scores, biases and outputs of :meth:`Attention.from_weights`, multiplied out only when needed."""
    c = as_exact(context, "context", ndim=2)
    if 0 in c.shape:
        raise InvalidInputError(
            f"context must hold at least one token of one dimension, but has shape {c.shape}."
        )
    n_tokens, d_model = c.shape
    w_q, w_k, w_v, w_o = matrices_of(matrices, d_model)
    heads, e = len(w_q), w_o[0].shape[0]
    b_q, b_k, b_v = (
        vectors_of(v, name, [m.shape[0] for m in some])
        for v, name, some in zip(vectors, ("b_Q", "b_K", "b_V"), (w_q, w_k, w_v), strict=True)
    )
    scales = scales_of(scale, heads)
    shifts = _score_biases(score_bias, heads, n_tokens)
    offset = None if b_O is None else vectors_of([b_O], "b_O", [e])[0]

    ones = ExactArray(np.ones((n_tokens, 1)))
    tokens = exact_stack([c, ones], axis=1)
    scores, biases, outputs = [], [], []
    biased = any(b is not None for b in b_q) or shifts is not None
    for h in range(heads):
        keys = exact_stack([w_k[h].transposed, _row(b_k[h], w_k[h].shape[0])])
        scores.append((tokens, keys, w_q[h]))
        if biased:
            column = _row(b_q[h], w_q[h].shape[0]).transposed
            if shifts is None:
                biases.append((tokens, keys, column))
            else:
                shift = as_exact(fractions_of(shifts)[h] / scales[h], "score_bias over scale", ndim=1)
                shifted = exact_stack([tokens, _row(shift, n_tokens).transposed], axis=1)
                one = ExactArray(np.ones((1, 1)))
                biases.append((shifted, _with_corner(keys), exact_stack([column, one])))
        values = exact_stack([w_v[h].transposed, _row(b_v[h], w_v[h].shape[0])])
        readout = w_o[h].transposed
        if h == 0 and offset is not None:  # every winner of head 0 brings b_O along, so it is added once
            values = exact_stack([values, ExactArray(np.eye(d_model + 1)[:, -1:])], axis=1)
            readout = exact_stack([readout, _row(offset, e)])
        outputs.append((tokens, values, readout))
    return (
        ExactProduct(scores, scales),
        ExactProduct(biases, scales, column=True) if biased else ExactArray(np.zeros((heads, n_tokens))),
        ExactProduct(outputs),
    )


def _score_biases(values: Any, heads: int, n_tokens: int) -> ExactArray | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim == 1:
        array = np.broadcast_to(array, (heads, *array.shape))
    shifts = as_exact(array, "score_bias", ndim=2)
    if shifts.shape != (heads, n_tokens):
        raise DimensionMismatchError(
            f"score_bias must hold one number per token ({n_tokens}), or one per head and token "
            f"({heads}, {n_tokens}), but has shape {np.asarray(values).shape}."
        )
    return shifts


def _row(vector: ExactArray | None, length: int) -> ExactArray:
    if vector is None:
        return ExactArray(np.zeros((1, length)))
    return vector.rearranged(lambda array: array[None])


def _with_corner(a: ExactArray) -> ExactArray:
    """The matrix with one more row and column, which hold a one where they meet."""
    rows, columns = a.shape
    wider = exact_stack([a, ExactArray(np.zeros((rows, 1)))], axis=1)
    return exact_stack([wider, ExactArray(np.eye(columns + 1)[-1:])])
