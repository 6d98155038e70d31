r"""A graph of operations becomes a chain of blocks.

Every value is a vector of affine forms of *variables*: the input, what units, maxima and blocks give, and
affine maps that are kept as factors. Forms are multiplied out only where that is exact and no larger, so a
convolution behind a selection is one matrix, and two dense matrices in a row stay two.

The chain carries a *state*, the variables that are needed later. One step of the chain switches units (or
takes maxima, or gives part of the state to a block) and writes the next state,

.. math:: s' = P s + U \max(Z s + z, 0) + c ,

which is one :class:`~hardmax.networks.blocks.FeedForward` if P is zero or the identity. Otherwise an
:class:`~hardmax.networks.blocks.Affine` block comes first: it writes P s and what the units read beside it,
and the units add to it with a skip connection. If everything that is needed later goes through what the next
step reads, that is the next state, so Linear, ReLU, Linear becomes one block as in
:meth:`~hardmax.networks.network.Network.mlp`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedNetworkError
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Affine, Block, FeedForward, Maxout
from hardmax.networks.reading.forms import (
    Forms,
    Integers,
    Numbers,
    SparseMatrix,
    joined,
    stacked,
    stacked_forms,
    times,
)

MOST_NUMBERS = 2**24  # of one dense array of a block: 134 MB, a matrix of 4,096 x 4,096
MOST_IN_ALL = 2**26  # of all blocks together: 537 MB
_MOST_LEVELS = 5_000  # layers; what each needs is compared with all behind it
_MOST_PRODUCTS = 2**22  # while forms are multiplied out
_MOST_FRACTIONS = 2**16  # products that are no floats: more are kept as factors


# Operations
# ----------------------------------------------------------------------------------------------------------


class Operation(ABC):
    """What a node of the graph does with the nodes it reads."""

    @abstractmethod
    def constants(self, known: list[Forms]) -> Numbers:
        """The result for inputs that do not depend on anything."""

    def apply(self, inputs: list[Forms], lowering: _Lowering) -> Forms:
        """The result as forms of variables."""
        raise NotImplementedError


class AffineOperation(Operation):
    """An operation whose result is again forms of the same variables."""

    @abstractmethod
    def forms(self, inputs: list[Forms]) -> Forms:
        """The result."""

    def constants(self, known: list[Forms]) -> Numbers:
        """The result for inputs that do not depend on anything."""
        return self.forms(known).offsets

    def apply(self, inputs: list[Forms], lowering: _Lowering) -> Forms:
        """The result as forms of variables."""
        return self.forms(inputs)


@dataclass(frozen=True)
class Source(Operation):
    """The input of the graph, or a constant."""

    size: int

    def constants(self, known: list[Forms]) -> Numbers:
        """A source reads nothing."""
        raise NotImplementedError


@dataclass(frozen=True)
class Gather(AffineOperation):
    """Entries of several tensors, in any order."""

    index: Integers

    def forms(self, inputs: list[Forms]) -> Forms:
        """The forms that are named."""
        return (inputs[0] if len(inputs) == 1 else stacked_forms(inputs)).take(self.index)


@dataclass(frozen=True)
class Sum(AffineOperation):
    """The sum of two tensors."""

    def forms(self, inputs: list[Forms]) -> Forms:
        """The sums of forms."""
        return inputs[0].plus(inputs[1])


@dataclass(frozen=True)
class Shift(AffineOperation):
    """A tensor plus known numbers."""

    offsets: Numbers

    def forms(self, inputs: list[Forms]) -> Forms:
        """The forms with other constants."""
        return inputs[0].shifted(self.offsets)


@dataclass(frozen=True)
class Scale(AffineOperation):
    """A tensor times known factors."""

    factors: Numbers

    def forms(self, inputs: list[Forms]) -> Forms:
        """The forms times factors."""
        return inputs[0].scaled(self.factors)

    def apply(self, inputs: list[Forms], lowering: _Lowering) -> Forms:
        """The result; a large matrix that products would turn into fractions is kept as a factor."""
        (before,) = inputs
        if before.matrix.count > _MOST_FRACTIONS and not before.matrix.single:
            factors = self.factors[before.matrix.rows]
            if times(before.matrix.values[:1], factors[:1]).dtype == object or not _floats(before, factors):
                before = lowering.variable(before)
        return self.forms([before])


@dataclass(frozen=True)
class Linear(AffineOperation):
    """Weights times a tensor, plus a bias."""

    weights: SparseMatrix
    offsets: Numbers

    def forms(self, inputs: list[Forms]) -> Forms:
        """The product."""
        return inputs[0].mapped(self.weights, self.offsets)

    def apply(self, inputs: list[Forms], lowering: _Lowering) -> Forms:
        """The product if it is exact and no larger than its factors; otherwise of a variable."""
        (before,) = inputs
        if not before.matrix.selects and not before.constant:
            product = self._product(before)
            if product is not None:
                return product
            before = lowering.variable(before)
        return self.forms([before])

    def _product(self, before: Forms) -> Forms | None:
        m, k = self.weights.shape
        width = len(before.matrix.used)
        if m * width > m * k + k * width or self.weights.expanded(before.matrix) > _MOST_PRODUCTS:
            return None
        exact = before.matrix.values.dtype == object or self.weights.values.dtype == object
        if exact and (not before.matrix.single or self.weights.count > _MOST_FRACTIONS):
            return None
        if self.weights.count > _MOST_FRACTIONS and before.offsets.any():
            return None
        product = self.forms([before])
        rounded = product.matrix.values.dtype == object and not before.matrix.single
        return None if rounded or product.matrix.count > _MOST_PRODUCTS else product


@dataclass(frozen=True)
class Units(Operation):
    """ReLU units, with the slope that they have when they are off."""

    slopes: Numbers

    def constants(self, known: list[Forms]) -> Numbers:
        """Known numbers behind the units."""
        z = known[0].offsets
        return np.where(np.asarray(z > 0, dtype=np.bool_), z, times(z, self.slopes))

    def apply(self, inputs: list[Forms], lowering: _Lowering) -> Forms:
        """New variables."""
        return lowering.step(self, inputs[0], inputs[0].size)


@dataclass(frozen=True)
class Maxima(Operation):
    """The largest entry of each group; -1 stands for no entry."""

    groups: Integers

    def constants(self, known: list[Forms]) -> Numbers:
        """Known maxima."""
        values = stacked_forms(known).offsets
        return np.array([max(values[i] for i in group if i >= 0) for group in self.groups.tolist()])

    def apply(self, inputs: list[Forms], lowering: _Lowering) -> Forms:
        """New variables."""
        return lowering.step(self, stacked_forms(inputs), len(self.groups))


@dataclass(frozen=True)
class BlockOf(Operation):
    """A block that reads a tensor."""

    block: Block

    def constants(self, known: list[Forms]) -> Numbers:
        """A block that reads known numbers has known outputs, if it is piecewise affine."""
        (given,) = known
        if self.block.smooth:
            raise UnsupportedNetworkError([f"{self.block!r} reads constants only"])
        from hardmax.networks.affine_maps import exact_value

        point = as_exact(given.offsets, "a constant", ndim=1)
        exact = np.empty(self.block.d_out, dtype=object)
        exact[:] = exact_value([self.block], point)
        return as_exact(exact, "a constant", ndim=1).numbers

    def apply(self, inputs: list[Forms], lowering: _Lowering) -> Forms:
        """New variables."""
        return lowering.step(self, inputs[0], self.block.d_out)


@dataclass(frozen=True)
class Node:
    """One operation of the graph, the nodes it reads, and its value if that is known."""

    operation: Operation
    inputs: tuple[int, ...]
    value: Numbers | None


def _floats(forms: Forms, factors: Numbers) -> bool:
    return times(forms.matrix.values, factors).dtype != object


# From nodes to steps
# ----------------------------------------------------------------------------------------------------------


@dataclass
class _Step:
    """One operation that makes variables which are no forms of others, or an affine map of its own."""

    operation: Operation | None  # None for an affine map
    forms: Forms
    start: int
    stop: int
    level: int


@dataclass
class _Lowering:
    """Variables and the steps that make them, in an order in which they can be made."""

    levels: list[int] = field(default_factory=list)  # of each variable: how many switches lie before it
    steps: list[_Step] = field(default_factory=list)

    def _new(self, size: int, level: int) -> Forms:
        start = len(self.levels)
        self.levels += [level] * size
        return Forms.variables(start, start + size)

    def _level(self, forms: Forms) -> int:
        return max((self.levels[i] for i in forms.matrix.used.tolist()), default=0)

    def step(self, operation: Operation | None, forms: Forms, size: int) -> Forms:
        """The variables that an operation makes of forms."""
        level = self._level(forms) + (operation is not None)
        made = self._new(size, level)
        start = len(self.levels) - size
        self.steps.append(_Step(operation, forms, start, start + size, level))
        return made

    def variable(self, forms: Forms) -> Forms:
        """Forms as variables of their own: an affine map that is not multiplied with what follows."""
        return self.step(None, forms, forms.size)

    def read(self, nodes: Sequence[Node], output: int) -> Forms:
        """The forms of the output; every node that it depends on is looked at once."""
        wanted = reachable(nodes, output)
        readers = Counter(i for j in wanted for i in set(nodes[j].inputs))
        known: dict[int, Forms] = {}
        for j in sorted(wanted | {0}):
            node = nodes[j]
            if node.value is not None:
                known[j] = Forms.constants(node.value)
            elif isinstance(node.operation, Source):
                known[j] = self._new(node.operation.size, 0)
            else:
                forms = node.operation.apply([known[i] for i in node.inputs], self)
                shared = readers[j] > 1 and not forms.matrix.single
                known[j] = self.variable(forms) if shared else forms
        return known[output]


def reachable(nodes: Sequence[Node], output: int) -> set[int]:
    """The nodes that one node depends on, itself among them."""
    found, stack = set(), [output]
    while stack:
        j = stack.pop()
        if j not in found:
            found.add(j)
            if nodes[j].value is None:
                stack.extend(nodes[j].inputs)
    return found


# From steps to blocks
# ----------------------------------------------------------------------------------------------------------


def lowered(nodes: Sequence[Node], output: int) -> tuple[Block, ...]:
    """The blocks of a network from the input to one node."""
    lowering = _Lowering()
    result = lowering.read(nodes, output)
    affine = [step for step in lowering.steps if step.operation is None]
    source = nodes[0].operation
    d = source.size if isinstance(source, Source) else 0
    stages = list(_stages(lowering.steps))
    return _Chain(len(lowering.levels), d, stages, affine, result).written()


def _stages(steps: list[_Step]) -> Iterator[list[_Step]]:
    """Steps that one block can take: all units of a level, all maxima, or one block."""
    levels: dict[int, list[_Step]] = {}
    for step in steps:
        if step.operation is not None:
            levels.setdefault(step.level, []).append(step)
    if len(levels) > _MOST_LEVELS:
        raise UnsupportedNetworkError([f"more than {_MOST_LEVELS:,} layers, one behind the other"])
    for _, here in sorted(levels.items()):
        for kind in (Units, Maxima):
            if together := [step for step in here if isinstance(step.operation, kind)]:
                yield together
        yield from ([step] for step in here if isinstance(step.operation, BlockOf))


class _Chain:
    """The blocks so far, and where the variables stand in what leaves them.

    Stage i reads the forms ``reads[i]``; the last entry is the output. Behind the variables of the lowering
    come variables for all forms that are read: they are used where what the next stage reads is the state.
    """

    def __init__(self, n: int, d: int, stages: list[list[_Step]], affine: list[_Step], output: Forms) -> None:
        self._stages, self._waiting = stages, affine
        self._reads = [*(stacked_forms([step.forms for step in stage]) for stage in stages), output]
        self._first = np.cumsum([n, *(forms.size for forms in self._reads)])
        n = int(self._first[-1])
        self._known = np.arange(n) < d
        self._places = np.where(self._known, np.arange(n), -1)  # -1 for what is not in the state
        self._width = d
        self._drafts: list[_Draft] = []

    def written(self) -> tuple[Block, ...]:
        """All blocks; what leaves the last is the output."""
        self._settle(0)
        for i, stage in enumerate(self._stages):
            made = np.concatenate([np.arange(step.start, step.stop) for step in stage])
            self._advance(i + 1, stage, made)
            self._settle(i + 1)
        output = self._here(self._reads[-1])
        if not (output.matrix.identity and not output.offsets.any() and self._drafts):
            self._affine(output.matrix, output.offsets)
        room = _Room()
        return tuple(draft.finished(room) for draft in self._drafts)

    def _settle(self, following: int) -> None:
        """Write affine maps of the state until none is ready."""
        while any(self._has(step.forms) for step in self._waiting):
            self._advance(following, [], np.zeros(0, dtype=np.int64))

    def _has(self, forms: Forms) -> bool:
        return bool(self._known[forms.matrix.used].all())

    def _used(self, forms: Sequence[Forms]) -> NDArray[np.bool_]:
        used = np.zeros(len(self._known), dtype=np.bool_)
        for some in forms:
            used[some.matrix.used] = True
        return used

    def _here(self, forms: Forms) -> Forms:
        """Forms of variables as forms of the state."""
        return Forms(forms.matrix.placed(self._places, self._width), forms.offsets)

    def _advance(self, following: int, stage: list[_Step], made: Integers) -> None:
        """Write the blocks of a stage, or of affine maps only; stage ``following`` comes next."""
        self._known[made] = True
        direct = bool(stage) and self._has(self._reads[following])
        ready: list[_Step] = []
        waiting: list[_Step] = []
        for step in self._waiting:
            (ready if self._has(step.forms) else waiting).append(step)
        self._waiting = waiting
        for step in ready:
            self._known[step.start : step.stop] = True
        later = self._used([*self._reads[following + 1 :], *(step.forms for step in self._waiting)])
        if direct and not (later & self._known).any():
            target, columns = self._reads[following], np.arange(*self._first[following : following + 2])
            self._reads[following] = Forms.variables(int(columns[0]), int(columns[-1]) + 1)
        else:
            live = (later | self._used([self._reads[following]])) & self._known
            target, columns = self._collected(live, ready)
        self._write(following, stage, made, target)
        self._known[columns] = True
        self._places[:] = -1
        self._places[columns] = np.arange(len(columns))

    def _collected(self, live: NDArray[np.bool_], ready: list[_Step]) -> tuple[Forms, Integers]:
        """The variables that are needed later, in ascending order, affine maps by their forms."""
        parts, columns = [], []
        plain = live.copy()
        for step in ready:
            here = np.arange(step.start, step.stop)[live[step.start : step.stop]]
            plain[here] = False
            parts.append(step.forms.take(here - step.start))
            columns.append(here)
        kept = np.flatnonzero(plain)
        parts.append(Forms(SparseMatrix.selection(kept, len(live)), np.zeros(len(kept))))
        columns.append(kept)
        order = np.argsort(np.concatenate(columns))
        return stacked_forms(parts).take(order), np.concatenate(columns)[order]

    def _write(self, following: int, stage: list[_Step], made: Integers, target: Forms) -> None:
        """Blocks that give the target, forms of the state and of what the stage makes."""
        state = self._here(target)
        kept, offsets = state.matrix, state.offsets
        if not stage:
            self._affine(kept, offsets)
            return
        at = np.full(len(self._places), -1, dtype=np.int64)
        at[made] = np.arange(len(made))
        added = target.matrix.placed(at, len(made))
        read, given = self._here(self._reads[following - 1]), Forms(added, offsets)
        operation = stage[0].operation
        if isinstance(operation, BlockOf):
            self._give(operation.block, kept, read, given)
            return
        skip = kept.count > 0
        if skip and not kept.identity:
            read, more = self._make_room(kept, read)
            given = stacked_forms([given, Forms(SparseMatrix.zeros(more, len(made)), np.zeros(more))])
        self._drafts.append(_Draft(given, stage, read, skip))
        self._width = given.size

    def _make_room(self, kept: SparseMatrix, read: Forms) -> tuple[Forms, int]:
        """Write what is kept and beside it what the stage reads; returns its forms of that, and how many."""
        n, needed = kept.shape[0], read.matrix.used
        alone = np.flatnonzero(np.diff(kept.starts) == 1)
        alone = alone[np.asarray(kept.values[kept.starts[alone]] == 1, dtype=np.bool_)]
        place = np.full(self._width, -1, dtype=np.int64)
        place[kept.columns[kept.starts[alone]]] = alone
        missing = needed[place[needed] < 0]
        more = len(missing)
        if more <= read.size:
            place[missing] = n + np.arange(more)
            self._affine(stacked([kept, SparseMatrix.selection(missing, self._width)]))
            return Forms(read.matrix.placed(place, n + more), read.offsets), more
        more = read.size
        self._affine(stacked([kept, read.matrix]), joined([np.zeros(n), read.offsets]))
        return Forms(SparseMatrix.selection(n + np.arange(more), n + more), np.zeros(more)), more

    def _affine(self, matrix: SparseMatrix, offsets: Numbers | None = None) -> None:
        """An affine map; one that only rearranges what the step before gives becomes part of it."""
        shifts = np.zeros(matrix.shape[0]) if offsets is None else offsets
        before = self._drafts[-1] if self._drafts else None
        moves = matrix.single and bool((matrix.values == 1).all())
        if before is not None and before.block is None and not before.skip and moves:
            before.given = before.given.mapped(matrix, shifts)
        else:
            self._drafts.append(_Draft(Forms(matrix, shifts)))
        self._width = matrix.shape[0]

    def _give(self, block: Block, kept: SparseMatrix, read: Forms, given: Forms) -> None:
        """Give part of the state to a block; ``given`` are forms of what it makes."""
        if kept.count == 0:
            if not (read.matrix.identity and not read.offsets.any()):
                self._affine(read.matrix, read.offsets)
            self._drafts.append(_Draft(given, block=block))
            if not (given.matrix.identity and not given.offsets.any()):
                self._drafts.append(_Draft(given))
            self._width = given.size
            return
        if block.name != "attention":
            raise UnsupportedNetworkError([f"values that are needed later cannot pass {block!r}"])
        # the state: what is kept, with what the block adds its own input to, then what the block reads
        first = Forms(kept, given.offsets)
        if block.skip:
            first = first.plus(read.mapped(given.matrix, np.zeros(given.size)))
        room = stacked_forms([first, read])
        self._affine(room.matrix, room.offsets)
        n, d = given.size, block.d_in
        heads: Any = block
        reading = SparseMatrix.selection(n + np.arange(d), n + d).dense()
        writing = stacked([given.matrix, SparseMatrix.zeros(d, given.matrix.shape[1])]).dense().transposed
        wider = Attention(
            _followed(heads.scores, reading),
            heads.biases,
            _followed(heads.outputs, writing),
            skip=True,
            **{name: getattr(heads, name) for name in ("rule", "k", "temperature", "ties", "mask")},
        )
        self._drafts.append(_Draft(given, block=wider))
        self._width = n + d


def _followed(stack: ExactArray, factor: ExactArray) -> Any:
    """Each matrix of a stack times a factor, not multiplied out."""
    if isinstance(stack, ExactProduct):
        return ExactProduct([[*chain, factor] for chain in stack.chains], stack.scales)
    return ExactProduct([[stack.take(h), factor] for h in range(stack.shape[0])])


@dataclass
class _Draft:
    """A block whose matrices are sparse still; see :class:`_Chain`.

    ``given`` are forms of what the units or maxima make, or of the state if there are none.
    """

    given: Forms
    stage: Sequence[_Step] = ()
    read: Forms | None = None
    skip: bool = False
    block: Block | None = None

    def finished(self, room: _Room) -> Block:
        """The block with dense matrices."""
        if self.block is not None:
            return self.block
        if self.read is None:
            return Affine(room.dense(self.given.matrix), _vector(self.given.offsets))
        if isinstance(self.stage[0].operation, Units):
            return self._units(self.read, room)
        return self._maxima(self.read, room)

    def _units(self, read: Forms, room: _Room) -> FeedForward:
        slopes = joined([step.operation.slopes for step in self.stage if isinstance(step.operation, Units)])
        return FeedForward(
            None if read.matrix.identity else room.dense(read.matrix),
            _vector(read.offsets),
            room.dense(self.given.matrix),
            _vector(self.given.offsets),
            skip=self.skip,
            slope=_vector(slopes),
        )

    def _maxima(self, read: Forms, room: _Room) -> Maxout:
        groups, first = [], 0
        for step in self.stage:
            if isinstance(step.operation, Maxima):
                groups.append(np.where(step.operation.groups >= 0, step.operation.groups + first, -1))
            first += step.forms.size
        longest = max(table.shape[1] for table in groups)
        index = np.concatenate(
            [np.pad(t, ((0, 0), (0, longest - t.shape[1])), constant_values=-1) for t in groups]
        )
        pieces = read.take(np.maximum(index, 0))
        shape = index.shape
        plain = self.given.matrix.identity and not self.skip
        return Maxout(
            room.dense(pieces.matrix).rearranged(lambda array: array.reshape(*shape, -1)),
            _vector(pieces.offsets).rearranged(lambda array: array.reshape(shape)),
            None if plain else room.dense(self.given.matrix),
            _vector(self.given.offsets),
            mask=index >= 0,
            skip=self.skip,
        )


class _Room:
    """Dense matrices, as long as there is memory for them."""

    def __init__(self) -> None:
        self._total = 0

    def dense(self, matrix: SparseMatrix) -> Any:
        """The matrix with its zeros."""
        check_size(*matrix.shape)
        self._total += matrix.shape[0] * matrix.shape[1]
        if self._total > MOST_IN_ALL:
            raise UnsupportedNetworkError([f"matrices of more than {MOST_IN_ALL} numbers in all"])
        return matrix.dense()


def check_size(rows: int, columns: int) -> None:
    """Refuse a matrix for which there is no memory."""
    if rows * columns > MOST_NUMBERS:
        raise UnsupportedNetworkError(
            [f"a matrix of {rows} x {columns} numbers, where at most {MOST_NUMBERS} are possible"]
        )


def _vector(values: Numbers) -> Any:
    """Numbers as an exact vector."""
    return as_exact(values, "offsets", ndim=1)
