r"""A graph of operations on tensors, into which a reader writes what it finds in a file or a module.

Tensors have no batch axis: the graph is a map of one point. Nothing is computed while a graph is written, but
for tensors whose values are known; :meth:`Graph.blocks` turns it into a chain of blocks
(:mod:`hardmax.networks.reading.lowering`).

Four kinds of operations are enough. Entries are rearranged (:meth:`Graph.select`, :meth:`Graph.concat`),
mapped by an affine map (:meth:`Graph.affine`, :meth:`Graph.add`, :meth:`Graph.scale`, :meth:`Graph.shift`),
switched or compared (:meth:`Graph.relu`, :meth:`Graph.clip`, :meth:`Graph.pool_max`,
:meth:`Graph.maximum`), or given to a block (:meth:`Graph.block`). Numbers may be floats, integers,
``Fraction`` or exact arrays, and nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.networks.blocks import Block
from hardmax.networks.reading.forms import (
    Forms,
    Numbers,
    SparseMatrix,
    joined,
    numbers_of,
)
from hardmax.networks.reading.lowering import (
    BlockOf,
    Gather,
    Linear,
    Maxima,
    Node,
    Operation,
    Scale,
    Shift,
    Source,
    Sum,
    Units,
    lowered,
    reachable,
)

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the graph: an array of some shape, without a batch axis.

    Attributes
    ----------
    graph : Graph
    shape : tuple of int
    value : ndarray or None
        The entries, float64 or ``Fraction``, if they do not depend on the input.
    """

    graph: Graph
    node: int
    shape: Shape
    value: Numbers | None = None

    @property
    def size(self) -> int:
        """The number of entries."""
        return prod(self.shape)

    @property
    def positions(self) -> NDArray[np.int64]:
        """The numbers of the entries, in the shape of the tensor: what :meth:`Graph.select` takes."""
        return np.arange(self.size).reshape(self.shape)


class Graph:
    """Operations on tensors, from one input to one output.

    Parameters
    ----------
    input_shape : sequence of int
        Without a batch axis.

    Attributes
    ----------
    input : Tensor

    Examples
    --------
    A residual layer, x + relu(-x).

    >>> graph = Graph((2,))
    >>> x = graph.input
    >>> y = graph.add(x, graph.relu(graph.negate(x)))
    >>> graph.blocks(y)
    (FeedForward(2 units, 2 -> 2, skip),)

    Transposed, flattened and pooled.

    >>> graph = Graph((2, 2))
    >>> turned = graph.select(graph.input, graph.input.positions.T.ravel())
    >>> block, = graph.blocks(graph.pool_max(turned, [[0, 1], [2, 3]]))
    >>> block([1.0, 5.0, 7.0, 2.0])
    array([7., 5.])
    """

    def __init__(self, input_shape: Sequence[int]) -> None:
        shape = tuple(int(n) for n in input_shape)
        if min(shape, default=1) < 1:
            raise InvalidInputError(f"input_shape must hold numbers of at least 1, but was {shape}.")
        self._nodes: list[Node] = []
        self.input = self._add(Source(prod(shape)), (), shape)

    def _add(self, operation: Operation, inputs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
        """A new tensor; it is a constant if all that it is made of is."""
        for tensor in inputs:
            if tensor.graph is not self:
                raise InvalidInputError("tensors must belong to one graph, but come from two.")
        shape = tuple(int(n) for n in shape)
        value = None
        if inputs and all(tensor.value is not None for tensor in inputs):
            known = [Forms.constants(np.asarray(tensor.value)) for tensor in inputs]
            value = operation.constants(known).reshape(shape)
        self._nodes.append(Node(operation, tuple(tensor.node for tensor in inputs), value))
        return Tensor(self, len(self._nodes) - 1, shape, value)

    def constant(self, values: Any) -> Tensor:
        """A tensor whose entries are known."""
        numbers = numbers_of(values, "a constant")
        self._nodes.append(Node(Source(0), (), numbers))
        return Tensor(self, len(self._nodes) - 1, numbers.shape, numbers)

    # Entries in another order
    # ------------------------------------------------------------------------------------------------------

    def select(self, tensor: Tensor, index: Any) -> Tensor:
        """The entries with these numbers, in the shape of ``index``.

        Reshape, flatten, transpose, slice, expand and gather are this, with an index made from
        :attr:`Tensor.positions`.
        """
        return self.gather([tensor], index)

    def gather(self, tensors: Sequence[Tensor], index: Any) -> Tensor:
        """Entries of several tensors: their numbers count through all tensors, one after the other."""
        chosen, total = np.asarray(index), sum(tensor.size for tensor in tensors)
        if chosen.dtype.kind not in "iu" and chosen.size:
            raise InvalidInputError(f"index must hold integers, but holds {chosen.dtype.name} values.")
        if chosen.size and (chosen.min() < 0 or chosen.max() >= total):
            raise InvalidInputError(
                f"index must name entries from 0 to {total - 1}, but names {chosen.min()} to {chosen.max()}."
            )
        return self._add(Gather(chosen.astype(np.int64).ravel()), tensors, chosen.shape)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Tensors one after the other along an axis; constants among them are welcome."""
        starts = np.cumsum([0, *(tensor.size for tensor in tensors)])
        parts = [tensor.positions + start for tensor, start in zip(tensors, starts, strict=False)]
        try:
            index = np.concatenate(parts, axis=axis)
        except ValueError:
            shapes = ", ".join(str(tensor.shape) for tensor in tensors)
            raise DimensionMismatchError(
                f"tensors must agree in all axes but axis {axis} to be joined, but have shapes {shapes}."
            ) from None
        return self.gather(tensors, index)

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """The entries in the same order and another shape."""
        wanted = tuple(int(n) for n in shape)
        if prod(wanted) != tensor.size:
            raise DimensionMismatchError(f"shape must have room for {tensor.size} entries, but was {wanted}.")
        return Tensor(
            self, tensor.node, wanted, None if tensor.value is None else tensor.value.reshape(wanted)
        )

    def broadcast(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """The entries repeated along axes of length one, as numpy does."""
        wanted = tuple(int(n) for n in shape)
        if tensor.shape == wanted:
            return tensor
        try:
            index = np.broadcast_to(tensor.positions, wanted)
        except ValueError:
            raise DimensionMismatchError(
                f"a tensor of shape {tensor.shape} must be repeated to shape {wanted}, but does not fit."
            ) from None
        return self.select(tensor, index)

    # Affine maps
    # ------------------------------------------------------------------------------------------------------

    def affine(
        self, tensor: Tensor, weights: Any, bias: Any = None, shape: Sequence[int] | None = None
    ) -> Tensor:
        """Weights times the entries, plus a bias.

        Parameters
        ----------
        tensor : Tensor
            Its entries count as one vector.
        weights : (m, tensor.size) array_like or SparseMatrix
        bias : m numbers, optional
        shape : sequence of int, optional
            Of the result; (m,) by default.
        """
        matrix = weights if isinstance(weights, SparseMatrix) else SparseMatrix.of_dense(weights, "weights")
        if matrix.shape[1] != tensor.size:
            raise DimensionMismatchError(
                f"weights must take the {tensor.size} coordinates that come before them, but take "
                f"{matrix.shape[1]}."
            )
        m = matrix.shape[0]
        offsets = np.zeros(m) if bias is None else numbers_of(bias, "bias").ravel()
        if len(offsets) != m:
            raise DimensionMismatchError(f"bias must hold {m} numbers, but holds {len(offsets)}.")
        return self._add(Linear(matrix, offsets), [tensor], (m,) if shape is None else shape)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """The sum; shapes are broadcast."""
        shape = _common([a.shape, b.shape])
        a, b = self.broadcast(a, shape), self.broadcast(b, shape)
        for one, other in ((a, b), (b, a)):
            if other.value is not None:
                return self._add(Shift(other.value.ravel()), [one], shape)
        return self._add(Sum(), [a, b], shape)

    def subtract(self, a: Tensor, b: Tensor) -> Tensor:
        """The difference."""
        return self.add(a, self.negate(b))

    def scale(self, tensor: Tensor, factors: Any) -> Tensor:
        """The entries times known factors; shapes are broadcast."""
        numbers = numbers_of(factors, "factors")
        shape = _common([tensor.shape, numbers.shape])
        spread = np.broadcast_to(numbers, shape).ravel()
        return self._add(Scale(spread), [self.broadcast(tensor, shape)], shape)

    def shift(self, tensor: Tensor, offsets: Any) -> Tensor:
        """The entries plus known numbers; shapes are broadcast."""
        return self.add(tensor, self.constant(offsets))

    def negate(self, tensor: Tensor) -> Tensor:
        """The entries with the other sign."""
        return self.scale(tensor, -1)

    # Switches and maxima
    # ------------------------------------------------------------------------------------------------------

    def relu(self, tensor: Tensor, slope: Any = 0) -> Tensor:
        """max(0, z) + slope min(0, z), entry by entry; one slope, or an array that is broadcast."""
        slopes = np.broadcast_to(numbers_of(slope, "slope"), tensor.shape)
        return self._add(Units(slopes.ravel()), [tensor], tensor.shape)

    def clip(self, tensor: Tensor, low: Any = None, high: Any = None) -> Tensor:
        """The entries, but at least ``low`` and at most ``high``, known numbers; ``None`` for no limit."""
        if low is not None and high is not None:
            a, b = (np.broadcast_to(numbers_of(v, "a limit"), tensor.shape).ravel() for v in (low, high))
            if np.asarray(a > b, dtype=np.bool_).any():
                raise InvalidInputError("low must be at most high, but is above it.")
            twice = self.gather([tensor], np.concatenate([tensor.positions.ravel()] * 2))
            units = self.relu(self.shift(twice, -joined([a, b])))
            n = tensor.size
            signs = np.concatenate([np.ones(n), -np.ones(n)])
            place = np.arange(2 * n)
            return self.affine(
                units, SparseMatrix.of_entries(place % n, place, signs, (n, 2 * n)), a, tensor.shape
            )
        if low is not None:
            offset = numbers_of(low, "low")
            return self.shift(self.relu(self.shift(tensor, -offset)), offset)
        if high is not None:
            return self.negate(self.clip(self.negate(tensor), -numbers_of(high, "high")))
        return tensor

    def maximum(self, tensors: Sequence[Tensor]) -> Tensor:
        """The largest, entry by entry; shapes are broadcast. A minimum is the maximum of negatives."""
        shape = _common([tensor.shape for tensor in tensors])
        free = [tensor for tensor in tensors if tensor.value is None]
        known = [np.broadcast_to(tensor.value, shape) for tensor in tensors if tensor.value is not None]
        if len(free) == 1 and known:
            limit = known[0]
            for value in known[1:]:
                limit = np.where(np.asarray(value > limit, dtype=np.bool_), value, limit)
            return self.clip(self.broadcast(free[0], shape), limit)
        if len(tensors) == 1:
            return tensors[0]
        parts = [self.broadcast(tensor, shape) for tensor in tensors]
        n = prod(shape)
        groups = np.arange(n)[:, None] + n * np.arange(len(parts))
        return self._add(Maxima(groups), parts, shape)

    def pool_max(self, tensor: Tensor, groups: Any, shape: Sequence[int] | None = None) -> Tensor:
        """The largest entry of each group.

        Parameters
        ----------
        tensor : Tensor
        groups : sequence of sequences of int, or (G, k) array of int
            The numbers of the entries; -1 stands for no entry. Every group needs one.
        shape : sequence of int, optional
            Of the result; (G,) by default.
        """
        index = _padded(groups)
        if index.size == 0 or not (index >= 0).any(axis=1).all():
            raise InvalidInputError("groups must hold at least one entry each, but one is empty.")
        if index.max() >= tensor.size:
            raise InvalidInputError(
                f"groups must name entries from 0 to {tensor.size - 1}, but name {index.max()}."
            )
        return self._add(Maxima(index), [tensor], (len(index),) if shape is None else shape)

    def block(self, tensor: Tensor, block: Block, shape: Sequence[int] | None = None) -> Tensor:
        """What a block makes of the entries: attention, a norm, or any other."""
        if block.d_in != tensor.size:
            raise DimensionMismatchError(
                f"a block must take the {tensor.size} coordinates that come before it, but {block!r} takes "
                f"{block.d_in}."
            )
        return self._add(BlockOf(block), [tensor], (block.d_out,) if shape is None else shape)

    def reads(self, node: int, output: Tensor) -> bool:
        """Whether a tensor depends on what a node gives."""
        return node in reachable(self._nodes, output.node)

    def blocks(self, output: Tensor) -> tuple[Block, ...]:
        """The blocks of a network from the input to a tensor, both as one vector each.

        Raises
        ------
        UnsupportedNetworkError
            If a matrix would be too large, or a value must pass a block that lets none pass.
        """
        if output.graph is not self:
            raise InvalidInputError("output must belong to this graph, but comes from another.")
        return lowered(self._nodes, output.node)


def _common(shapes: Sequence[Shape]) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise DimensionMismatchError(
            f"tensors must have shapes that can be broadcast, but have {', '.join(map(str, shapes))}."
        ) from None


def _padded(groups: Any) -> NDArray[np.int64]:
    if isinstance(groups, np.ndarray):
        return groups.astype(np.int64)
    longest = max((len(group) for group in groups), default=0)
    return np.array([[*group, *[-1] * (longest - len(group))] for group in groups], dtype=np.int64)
