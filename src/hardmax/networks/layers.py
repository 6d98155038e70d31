r"""The internal form: every block is an affine map or a layer of max-groups.

A max-group is a set of affine scores of which the largest wins. In a :class:`ArgmaxLayer` (attention) the
winner adds a constant vector, so the map may jump where the routing changes. In a :class:`ReluLayer` (ReLU)
the two scores of unit :math:`i` are its pre-activation and zero, and the winning *value* times a column is
added, so the map only bends. In a :class:`MaxLayer` (maxout, max-pooling) the winning scores themselves go
on. Engines see these layers and nothing else of a network.

A leaky ReLU layer is a plain one between two affine maps, exactly. With :math:`\alpha \ne 0`,

.. math:: \max(0, z) + \alpha \min(0, z)
          = \alpha \left( z + \tfrac{1 - \alpha}{\alpha} \max(0, z) \right),

a plain layer with a skip connection, scaled. The plain layer sees the same pre-activations, so bits and folds
are the same. Numbers that are no floats are kept as fractions.

Two clean-ups are done here, once and exactly: masked keys disappear, and keys of one head with the same
score become one key with the mean of their outputs (they win together wherever they win; the zero-temperature
limit of softmax is that mean).

What an engine does with a :class:`MaxLayer`. It is a :class:`ArgmaxLayer` in everything that is decided:
heads, keys, scores, walls, their codes, the order of cells, the lowest key in the signature where several
coincide on a cell. Only what leaves it is different:

- The map that leaves a cell consists of rows that are known already: first, if ``skip``, the rows of the map
  that entered, then for each head the composed score of its winner. Nothing is added up, a node carries no
  hidden vector while its heads are settled, and ``outputs`` is empty, (K, 0).
- Keys that coincide on a cell have the same score, so no mean is taken and the cell is not ``tied``.
- Errors are those of the composed scores, with ``skip`` also those of the map that entered: the larger of the
  two bounds per row, the sum of the two bounds on 2-norms.
- The map is continuous across its walls: cells that part there are adjacent through a *fold*.

In :class:`~hardmax.regions.engine.program.Program` its row says ``KIND = WALL`` with ``OUTPUTS = -1``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.blocks import Affine, Attention, Block, FeedForward, Maxout

if TYPE_CHECKING:
    from hardmax.networks.network import Network

__all__ = ["AffineLayer", "ReluLayer", "Layer", "MaxLayer", "ArgmaxLayer", "layers_of", "plain_blocks"]


class _AnyLayer:
    """What every layer says of itself, so that a walk over layers need not ask for its class.

    Attributes
    ----------
    heads, units : int
        Heads with a routing and ReLU units with a bit; 0 for layers without.
    head_slice, unit_slice : slice
        Where they stand among all heads and units of the network.
    cuts : bool
        Whether it is a layer of max-groups; otherwise it is affine.
    jumps : bool
        Whether the map may jump where a routing changes: a wall. Otherwise it only bends: a fold.
    factors : tuple of tuple of ExactArray
        What the map on a cell is multiplied and added up from: each matrix with the vector added to it.
    """

    @property
    def heads(self) -> int:
        """The number of heads."""
        return 0

    @property
    def units(self) -> int:
        """The number of ReLU units."""
        return 0

    @property
    def cuts(self) -> bool:
        """Whether it is a layer of max-groups; otherwise it is affine."""
        return True

    @property
    def head_slice(self) -> slice:
        """Its heads among all heads."""
        return slice(0, 0)

    @property
    def unit_slice(self) -> slice:
        """Its units among all units."""
        return slice(0, 0)

    @property
    def jumps(self) -> bool:
        """Whether the map may jump."""
        return False


@dataclass(frozen=True, eq=False)
class AffineLayer(_AnyLayer):
    r""":math:`y \mapsto Wy + b`."""

    weights: ExactArray
    offsets: ExactArray

    @property
    def factors(self) -> tuple[tuple[ExactArray, ...], ...]:
        """The matrix and the vector."""
        return ((self.weights, self.offsets),)

    @property
    def cuts(self) -> bool:
        """An affine map cuts nothing."""
        return False

    @property
    def d_in(self) -> int:
        """Dimension of what enters."""
        return self.weights.shape[1]

    @property
    def d_out(self) -> int:
        """Dimension of what leaves."""
        return self.weights.shape[0]


@dataclass(frozen=True, eq=False)
class ReluLayer(_AnyLayer):
    r""":math:`y \mapsto [y +]\; U \max(Zy + z, 0) + b`; ``scores`` is :math:`Z`, or ``None`` for the
    identity.

    ``first_unit`` is the number of its unit 0 among all ReLU units of the network.
    """

    scores: ExactArray | None
    biases: ExactArray
    outputs: ExactArray
    offsets: ExactArray
    skip: bool
    first_unit: int

    @property
    def factors(self) -> tuple[tuple[ExactArray, ...], ...]:
        """Scores, then outputs."""
        scores = (self.biases,) if self.scores is None else (self.scores, self.biases)
        return (scores, (self.outputs, self.offsets))

    @property
    def units(self) -> int:
        """The number of ReLU units."""
        return self.biases.shape[0]

    @property
    def unit_slice(self) -> slice:
        """Its units among all units."""
        return slice(self.first_unit, self.first_unit + self.units)

    @property
    def d_in(self) -> int:
        """Dimension of what enters."""
        return self.units if self.scores is None else self.scores.shape[1]

    @property
    def d_out(self) -> int:
        """Dimension of what leaves."""
        return self.outputs.shape[0]


@dataclass(frozen=True, eq=False)
class ArgmaxLayer(_AnyLayer):
    r""":math:`y \mapsto [y +]\; \sum_h v_{j_h}` with :math:`j_h = \arg\max_j \langle s_j, y\rangle + b_j`
    over head h.

    The keys of head ``h`` are the rows ``head_start[h]:head_start[h + 1]``; ``key`` holds their numbers in
    the block, ``multiplicities`` how many keys of the block each stands for. ``first_head`` is the number of
    head 0 among all heads of the network.
    """

    scores: ExactArray
    biases: ExactArray
    head_start: NDArray[np.int64]
    key: NDArray[np.int64]
    multiplicities: NDArray[np.int64]
    outputs: ExactArray
    skip: bool
    first_head: int

    @property
    def factors(self) -> tuple[tuple[ExactArray, ...], ...]:
        """The outputs: scores only decide."""
        return ((self.outputs,),)

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.head_start) - 1

    @property
    def head_slice(self) -> slice:
        """Its heads among all heads."""
        return slice(self.first_head, self.first_head + self.heads)

    @property
    def jumps(self) -> bool:
        """Whether the map may jump: outputs of two winners differ."""
        return True

    @property
    def d_in(self) -> int:
        """Dimension of what enters."""
        return self.scores.shape[1]

    @property
    def d_out(self) -> int:
        """Dimension of what leaves."""
        return self.outputs.shape[1]


@dataclass(frozen=True, eq=False)
class MaxLayer(ArgmaxLayer):
    r""":math:`y \mapsto [y,]\; (\max_j \langle s_j, y\rangle + b_j)_h`: the winning scores, behind y if
    ``skip``.

    Decided like a :class:`ArgmaxLayer`; ``outputs`` is empty. See the head of this module.
    """

    @property
    def factors(self) -> tuple[tuple[ExactArray, ...], ...]:
        """The scores: those of the winners go on."""
        return ((self.scores, self.biases),)

    @property
    def jumps(self) -> bool:
        """A maximum bends without a jump."""
        return False

    @property
    def d_out(self) -> int:
        """Dimension of what leaves."""
        return self.heads + (self.d_in if self.skip else 0)


Layer = AffineLayer | ReluLayer | ArgmaxLayer | MaxLayer


def layers_of(network: Network) -> tuple[Layer, ...]:
    """The blocks of a network in the internal form.

    Attention, plain ReLU layers and affine maps give one layer each; a :class:`Maxout` gives a
    :class:`MaxLayer` and, unless its maxima go on as they are, an affine layer; a leaky layer a fold between
    affine layers.

    Examples
    --------
    >>> from hardmax.networks.network import Network
    >>> net = Network([Attention([[[1.0], [1.0], [-1.0]]], None, [[[0.0], [1.0], [3.0]]])])
    >>> layer, = layers_of(net)
    >>> layer.key, layer.outputs.floats[:, 0]       # keys 0 and 1 have the same score: they share the mean
    (array([0, 2]), array([0.5, 3. ]))
    """
    layers: list[Layer] = []
    unit = head = 0
    for block in plain_blocks(network.blocks):
        if isinstance(block, Attention):
            layers.append(_walls(block, head))
            head += block.heads
        elif isinstance(block, Maxout):
            layers.extend(_maxima(block, head))
            head += block.heads
        elif isinstance(block, FeedForward):
            scores = None if block.w_in is None or _is_identity(block.w_in) else block.w_in
            layers.append(ReluLayer(scores, block.b_in, block.w_out, block.b_out, block.skip, unit))
            unit += block.width
        else:
            layers.append(_affine(block))
    return tuple(layers)


def _affine(block: Affine) -> AffineLayer:
    return AffineLayer(block.w, block.b)


def _is_identity(matrix: ExactArray) -> bool:
    rows, columns = matrix.shape
    return rows == columns and not matrix.rounded and bool((matrix.floats == np.eye(rows)).all())


def _walls(block: Attention, first_head: int) -> ArgmaxLayer:
    heads, n_tokens, d = block.scores.shape
    e = block.outputs.shape[2]
    score_rows = _flat(block.scores, (heads * n_tokens, d))
    bias_rows = _flat(block.biases, (heads * n_tokens,))
    output_rows = _flat(block.outputs, (heads * n_tokens, e))
    chosen: list[int] = []
    means: dict[int, list[int]] = {}
    head_start = [0]
    for h in range(heads):
        present = h * n_tokens + np.flatnonzero(block.mask[h])
        for group in _equal_scores(score_rows, bias_rows, present):
            if len(group) > 1:
                means[len(chosen)] = group
            chosen.append(group[0])
        head_start.append(len(chosen))
    rows = np.array(chosen, dtype=np.int64)
    return ArgmaxLayer(
        score_rows.take(rows),
        bias_rows.take(rows),
        np.array(head_start, dtype=np.int64),
        rows % n_tokens,
        np.array([len(means.get(place, [0])) for place in range(len(rows))], dtype=np.int64),
        _with_means(output_rows, rows, means),
        block.skip,
        first_head,
    )


def _maxima(block: Maxout, first_head: int) -> list[Layer]:
    groups, pieces, d = block.scores.shape
    score_rows = _flat(block.scores, (groups * pieces, d))
    bias_rows = _flat(block.biases, (groups * pieces,))
    chosen: list[int] = []
    head_start = [0]
    for g in range(groups):
        present = g * pieces + np.flatnonzero(block.mask[g])
        chosen += [equal[0] for equal in _equal_scores(score_rows, bias_rows, present)]
        head_start.append(len(chosen))
    rows = np.array(chosen, dtype=np.int64)
    maxima = MaxLayer(
        score_rows.take(rows),
        bias_rows.take(rows),
        np.array(head_start, dtype=np.int64),
        rows % pieces,
        np.ones(len(rows), dtype=np.int64),
        ExactArray(np.zeros((len(rows), 0))),
        block.skip,
        first_head,
    )
    if block.w_out is None and block.b_out.all_zero() and not block.skip:
        return [maxima]
    w_out = ExactArray(np.eye(groups)) if block.w_out is None else block.w_out
    return [maxima, AffineLayer(_beside_identity(w_out) if block.skip else w_out, block.b_out)]


def _beside_identity(matrix: ExactArray) -> ExactArray:
    """The matrix (I, M)."""
    floats = np.hstack([np.eye(matrix.shape[0]), matrix.floats])
    if matrix.fractions is None:
        return ExactArray(floats)
    identity = fractions_of(ExactArray(np.eye(matrix.shape[0])))
    return ExactArray(floats, np.hstack([identity, matrix.fractions]))


def _flat(array: ExactArray, shape: tuple[int, ...]) -> ExactArray:
    fractions = None if array.fractions is None else array.fractions.reshape(shape)
    return ExactArray(array.floats.reshape(shape), fractions)


def _equal_scores(scores: ExactArray, biases: ExactArray, present: NDArray[np.int64]) -> list[list[int]]:
    """Rows with the same exact score, grouped; groups and their members in ascending order."""
    if scores.fractions is None and biases.fractions is None:
        table = np.column_stack([scores.floats[present], biases.floats[present]]) + 0.0
        keys: Sequence[object] = [row.tobytes() for row in table]
    else:
        rows, offsets = fractions_of(scores.take(present)), fractions_of(biases.take(present))
        keys = [(*row, offset) for row, offset in zip(rows, offsets, strict=True)]
    groups: dict[object, list[int]] = {}
    for row, key in zip(present.tolist(), keys, strict=True):
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _with_means(outputs: ExactArray, rows: NDArray[np.int64], means: dict[int, list[int]]) -> ExactArray:
    if not means:
        return outputs.take(rows)
    values = fractions_of(outputs.take(rows)).copy()
    for place, group in means.items():
        members = fractions_of(outputs.take(np.array(group)))
        values[place] = members.sum(axis=0) * Fraction(1, len(group))
    return as_exact(values, "outputs", ndim=2)


def plain_blocks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The same map without leaky units: every leaky layer becomes at most three plain blocks.

    Examples
    --------
    >>> leaky = FeedForward([[2.0]], [1.0], [[3.0]], slope=0.25)
    >>> plain = plain_blocks([leaky])
    >>> plain
    (Affine(1 -> 1), FeedForward(1 unit, 1 -> 1, skip), Affine(1 -> 1))
    >>> from hardmax.networks.network import Network
    >>> points = [[-2.0], [0.0], [2.0]]
    >>> Network(plain)(points)[:, 0], leaky(points)[:, 0]
    (array([-2.25,  3.  , 15.  ]), array([-2.25,  3.  , 15.  ]))
    """
    return tuple(plain for block in blocks for plain in _plain(block))


def _plain(block: Block) -> Iterator[Block]:
    if not isinstance(block, FeedForward) or not block.leaky:
        yield block
        return
    slopes = fractions_of(block.slope).tolist()
    n, d, e = block.width, block.d_in, block.d_out
    kept = d if block.skip else 0
    # the hidden vector: the input if it is added, the pre-activations, a place for each unit of slope zero
    zero = np.array([slope == 0 for slope in slopes])
    size = kept + n + int(zero.sum())
    places = kept + np.arange(n)
    ends = np.where(zero, kept + n - 1 + np.cumsum(zero), places)
    kept_part = (np.diag_indices(kept), ExactArray(np.ones(kept)))
    simple = size == n
    if not (simple and block.w_in is None and block.b_in.all_zero()):
        w_in = ExactArray(np.eye(d)) if block.w_in is None else block.w_in
        w = _assembled((size, d), kept_part, (np.ix_(places, np.arange(d)), w_in))
        yield Affine(w, _assembled((size,), ((places,), block.b_in)))
    factors = [Fraction(1) if slope == 0 else (1 - slope) / slope for slope in slopes]
    steeper = as_exact(np.array(factors, dtype=object), "(1 - slope) / slope", ndim=1)
    selected = _assembled((n, size), ((np.arange(n), places), ExactArray(np.ones(n))))
    added = _assembled((size, n), ((ends, np.arange(n)), steeper))
    yield FeedForward(None if simple else selected, None, added, None, skip=True)
    w_out = _scaled(block.w_out, [Fraction(1) if slope == 0 else slope for slope in slopes])
    b_out: Any = block.b_out
    yield Affine(_assembled((e, size), kept_part, (np.ix_(np.arange(e), ends), w_out)), b_out)


def _assembled(shape: tuple[int, ...], *parts: tuple[Any, ExactArray]) -> Any:
    """An exact array that is zero but for its parts, each an index and what stands there."""
    floats = np.zeros(shape)
    for index, part in parts:
        floats[index] = part.floats
    if not any(part.rounded for _, part in parts):
        return ExactArray(floats)
    fractions = np.full(shape, Fraction(0), dtype=object)
    for index, part in parts:
        fractions[index] = fractions_of(part)
    return ExactArray(floats, fractions)


def _scaled(matrix: ExactArray, factors: list[Fraction]) -> ExactArray:
    """Columns times factors."""
    if not matrix.rounded and all(_is_power_of_two(abs(factor)) for factor in factors):
        floats = np.array([float(factor) for factor in factors])
        products = matrix.floats * floats
        if (products / floats == matrix.floats).all():  # nothing was lost at the ends of the range
            return ExactArray(products)
    return as_exact(fractions_of(matrix) * np.array(factors, dtype=object), "w_out times slope", ndim=2)


def _is_power_of_two(value: Fraction) -> bool:
    p, q = value.numerator, value.denominator
    return p & (p - 1) == 0 and q & (q - 1) == 0 and max(p, q) < 2**500
