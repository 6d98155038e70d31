r"""The internal form: every block is an affine map or a layer of max-groups.

A max-group is a set of affine scores of which the largest wins. In a :class:`ArgmaxLayer` (attention) the
winner adds a constant vector, so the map may jump where the routing changes. In a :class:`ReluLayer` (ReLU)
the two scores of unit :math:`i` are its pre-activation and zero, and the winning *value* times a column is
added, so the map only bends. In a :class:`MaxLayer` (maxout, max-pooling) the winning scores themselves go
on. Engines see these layers and nothing else of a network: a leaky ReLU layer is a plain one between two
affine maps (:mod:`hardmax.networks.blocks`).

Two clean-ups are done here, once and exactly: masked keys disappear, and keys of one head with the same
score become one key with the mean of their outputs (they win together wherever they win; the zero-temperature
limit of softmax is that mean).

Norms (:class:`NormLayer`), smooth activations (:class:`SmoothLayer`) and softmax (:class:`SoftmaxLayer`) are
not piecewise affine. :func:`layers_of` refuses them unless asked; the enclosures along a segment ask.

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

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact

if TYPE_CHECKING:
    from hardmax.networks.network import Network


class _AnyLayer:
    """What every layer says of itself, so that a walk over layers need not ask for its class."""

    first_head: int = 0  # the number of its head 0 among all heads of the network
    first_unit: int = 0

    @property
    def heads(self) -> int:
        """The number of heads with a routing; 0 for layers without."""
        return 0

    @property
    def units(self) -> int:
        """The number of ReLU units with a bit; 0 for layers without."""
        return 0

    @property
    def n_keys(self) -> int:
        """The number of keys of all heads."""
        return 0

    @property
    def cuts(self) -> bool:
        """Whether it is a layer of max-groups; otherwise it is affine."""
        return self.heads + self.units > 0

    def mean_output(self, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """What keys of one head add that win together: the mean over the keys of the block."""
        return np.zeros(0)

    def has_keys(self, head: int, keys: NDArray[Any]) -> NDArray[np.bool_]:
        """Which numbers are keys of a head."""
        return np.zeros(len(keys), dtype=np.bool_)

    def has_walls(self, head: NDArray[Any], a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
        """Which triples are a head and two rows of its keys in order."""
        return np.zeros(len(head), dtype=np.bool_)

    @property
    def head_slice(self) -> slice:
        """Where its heads stand among all heads of the network."""
        return slice(self.first_head, self.first_head + self.heads)

    @property
    def unit_slice(self) -> slice:
        """Where its units stand among all units of the network."""
        return slice(self.first_unit, self.first_unit + self.units)

    @property
    def jumps(self) -> bool:
        """Whether the map may jump where a routing changes: a wall. Otherwise it only bends: a fold."""
        return False

    @property
    def shares(self) -> bool:
        """Whether keys that coincide on a cell share: the mean of their outputs goes on."""
        return False


@dataclass(frozen=True, eq=False)
class AffineLayer(_AnyLayer):
    r""":math:`y \mapsto Wy + b`."""

    weights: ExactArray
    offsets: ExactArray

    @property
    def scores(self) -> ExactArray:
        """The matrix, under the name that it has in other layers."""
        return self.weights

    @property
    def biases(self) -> ExactArray:
        """The vector, under the name that it has in other layers."""
        return self.offsets

    @property
    def factors(self) -> tuple[tuple[ExactArray, ...], ...]:
        """The matrix and the vector."""
        return ((self.weights, self.offsets),)

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
    given: list[NDArray[np.bool_] | None] | None = None  # units that are on, by the winner of the head before

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
    mean: bool = True  # whether keys that tie on a cell share; otherwise the first of them wins
    near: list[list[int] | None] | None = (
        None  # the rows that can have a wall with each row, if others cannot
    )

    def winners(self, routings: NDArray[np.int32]) -> NDArray[np.int64]:
        """The rows of the keys that a cell's routings mean, one per head."""
        won = routings[self.head_slice].tolist()
        return np.array([row[key] for row, key in zip(self._rows, won, strict=True)], dtype=np.int64)

    def has_keys(self, head: int, keys: NDArray[Any]) -> NDArray[np.bool_]:
        """Which numbers are keys of a head."""
        return np.isin(keys, self.key[self.head_start[head] : self.head_start[head + 1]])

    def has_walls(self, head: NDArray[Any], a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
        """Which triples are a head and two rows of its keys in order."""
        near = np.minimum(head, self.heads - 1)
        inside = (self.head_start[near] <= a) & (a < b) & (b < self.head_start[near + 1])
        return np.asarray((head < self.heads) & inside)

    @cached_property
    def _rows(self) -> list[dict[int, int]]:
        keys, starts = self.key.tolist(), self.head_start.tolist()
        return [{keys[row]: row for row in range(a, b)} for a, b in pairwise(starts)]

    @property
    def factors(self) -> tuple[tuple[ExactArray, ...], ...]:
        """The outputs: scores only decide."""
        return ((self.outputs,),)

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.head_start) - 1

    @property
    def n_keys(self) -> int:
        """The number of keys of all heads."""
        return len(self.key)

    def mean_output(self, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """What keys of one head add that win together: the mean over the keys of the block."""
        if not self.mean:
            return np.asarray(self.outputs.floats[keys[0]])
        shares = self.multiplicities[keys] / self.multiplicities[keys].sum()
        parts = shares[:, None] * self.outputs.floats[keys]
        return np.array([fsum(column) for column in parts.T])  # off by three roundings, however many keys tie

    @property
    def jumps(self) -> bool:
        """Whether the map may jump: outputs of two winners differ."""
        return True

    @property
    def shares(self) -> bool:
        """Whether the mean of outputs goes on where keys coincide."""
        return self.mean

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
    def shares(self) -> bool:
        """Equal maxima are one: there is no mean."""
        return False

    @property
    def d_out(self) -> int:
        """Dimension of what leaves."""
        return self.heads + (self.d_in if self.skip else 0)


@dataclass(frozen=True, eq=False)
class SoftmaxLayer(ArgmaxLayer):
    r""":math:`y \mapsto [y +]\; \sum_h \sum_j p_{hj} v_{hj}` with softmax probabilities of the scores over a
    temperature.

    The routing is still the largest score; it decides nothing that goes on.
    """

    temperature: float = 1.0


@dataclass(frozen=True, eq=False)
class NormLayer(_AnyLayer):
    r""":math:`y \mapsto \gamma \odot y / \sqrt{|y|^2 / d + \varepsilon} + \beta`; ``centred``: of :math:`y`
    less its mean.
    """

    scale: ExactArray
    shift: ExactArray
    epsilon: ExactArray
    centred: bool

    @property
    def d_in(self) -> int:
        """Dimension of what enters."""
        return self.scale.shape[0]

    @property
    def d_out(self) -> int:
        """Dimension of what leaves."""
        return self.d_in


@dataclass(frozen=True, eq=False)
class SmoothLayer(_AnyLayer):
    r""":math:`y \mapsto [y +]\; U \varphi(Zy + z) + b` with a smooth activation."""

    scores: ExactArray
    biases: ExactArray
    outputs: ExactArray
    offsets: ExactArray
    skip: bool
    activation: str

    @property
    def d_in(self) -> int:
        """Dimension of what enters."""
        return self.scores.shape[1]

    @property
    def d_out(self) -> int:
        """Dimension of what leaves."""
        return self.outputs.shape[0]


Layer = AffineLayer | ReluLayer | ArgmaxLayer | MaxLayer
AnyLayer = Layer | NormLayer | SmoothLayer | SoftmaxLayer


def refuse_smooth(network: Network) -> None:
    """One sentence for a network that is not piecewise affine, where cells are asked for."""
    for i, block in enumerate(network.blocks):
        if block.smooth:
            raise InvalidInputError(
                f"network must be piecewise affine, but block {i} is {block!r}; try trace_segment, which "
                "follows such a network along a segment, or hm.regions.routing_network for the cells of its "
                "first routing."
            )


def layers_of(network: Network) -> tuple[Layer, ...]:
    """The blocks of a piecewise-affine network in the internal form.

    Attention, plain ReLU layers and affine maps give one layer each; maxout gives a
    :class:`MaxLayer` and, unless its maxima go on as they are, an affine layer; a leaky layer a fold between
    affine layers.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network([hm.Attention([[[1.0], [1.0], [-1.0]]], None, [[[0.0], [1.0], [3.0]]])])
    >>> layer, = layers_of(net)
    >>> layer.key, layer.outputs.floats[:, 0]       # keys 0 and 1 have the same score: they share the mean
    (array([0, 2]), array([0.5, 3. ]))
    """
    refuse_smooth(network)
    return all_layers_of(network)


def all_layers_of(network: Network) -> tuple[Any, ...]:
    """The same for any network, with norms, smooth activations and softmax."""
    layers: list[Any] = []
    head = unit = 0
    for block in network.blocks:
        if block.chooses_sets:
            raise sets_unknown(block)
        for plain in block.plain():
            layers += plain.layers(head, unit)
        head, unit = head + block.heads, unit + block.width
    return tuple(layers)


def sets_unknown(block: object) -> InvalidInputError:
    """What to say where single keys must win."""
    return InvalidInputError(
        f"network must have blocks that choose single keys here, but has {block!r}, whose sets only "
        "enumerate_regions, count_cells and count_regions find; try one of these."
    )


def decided_keys(
    scores: ExactArray, biases: ExactArray, mask: NDArray[np.bool_], *, last: bool = False
) -> tuple[dict[str, Any], list[list[int]]]:
    """The fields of an :class:`ArgmaxLayer` that decide, and the rows that each of its keys stands for.

    Keys are in the order in which they win ties: ascending, or descending if the ``last`` wins.
    """
    heads, n_tokens, d = scores.shape
    score_rows = scores.rearranged(lambda array: array.reshape(-1, d))
    bias_rows = biases.rearranged(np.ravel)
    groups: list[list[int]] = []
    head_start = [0]
    for h in range(heads):
        present = h * n_tokens + np.flatnonzero(mask[h])
        groups += equal_scores(score_rows, bias_rows, present[::-1] if last else present)
        head_start.append(len(groups))
    rows = np.array([group[0] for group in groups], dtype=np.int64)
    decided = {
        "scores": score_rows.take(rows),
        "biases": bias_rows.take(rows),
        "head_start": np.array(head_start, dtype=np.int64),
        "key": rows % n_tokens,
    }
    return decided, groups


def equal_scores(scores: ExactArray, biases: ExactArray, present: NDArray[np.int64]) -> list[list[int]]:
    """Rows with the same exact score, grouped; groups and their members in the order of ``present``."""
    table = np.column_stack([scores.floats[present], biases.floats[present]]) + 0.0
    groups: dict[object, list[int]] = {}
    for row, floats in zip(present.tolist(), table, strict=True):
        groups.setdefault(floats.tobytes(), []).append(row)
    if (scores.fractions is None and biases.fractions is None) or len(groups) == len(present):
        return list(groups.values())
    found: dict[object, list[int]] = {}
    for floats, group in groups.items():  # equal scores have equal floats
        rows, offsets = fractions_of(scores.take(group)), fractions_of(biases.take(group))
        for row, slopes, offset in zip(group, rows, offsets, strict=True):
            found.setdefault((floats, *slopes, offset) if len(group) > 1 else floats, []).append(row)
    place = {row: i for i, row in enumerate(present.tolist())}
    return sorted(found.values(), key=lambda group: place[group[0]])


def near_rows(
    groups: list[list[int]], n_tokens: int, near: list[list[list[int]] | None] | None
) -> list[list[int] | None] | None:
    """Which rows of a layer are near each row, from lists of keys, head by head and key by key.

    ``None`` for a row that must be compared with all: where keys that are near coincide, what lies beyond
    their wall may be a key that is not near.
    """
    if near is None:
        return None
    row_of = {member: row for row, group in enumerate(groups) for member in group}
    found: list[list[int] | None] = []
    for group in groups:
        h, key = divmod(group[0], n_tokens)
        lists = near[h]
        if len(group) > 1 or lists is None:
            found.append(None)
            continue
        others = [row_of.get(h * n_tokens + j, -1) for j in lists[key]]
        single = all(other >= 0 and len(groups[other]) == 1 for other in others)
        found.append(sorted(others) if single else None)
    return found


def mean_rows(array: ExactArray, groups: list[list[int]], counts: NDArray[np.int64]) -> ExactArray:
    """The mean of each group of rows, exactly; ``counts`` says how often each row of the array counts."""
    first = array.take([group[0] for group in groups])
    if all(len(group) == 1 for group in groups):
        return first
    values = fractions_of(first).copy()
    for place, group in enumerate(groups):
        if len(group) > 1:
            total = fractions_of(array.take(group)) * counts[group, None].astype(object)
            values[place] = total.sum(axis=0) * Fraction(1, int(counts[group].sum()))
    return as_exact(values, "outputs", ndim=2)
