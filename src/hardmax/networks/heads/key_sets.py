r"""Heads that choose sets of keys, written with heads that choose one: a key for each set.

A top-k head is a hardmax head whose keys are the sets of k keys, with the sums of their scores and the means
of their outputs. The threshold of sparsemax is a maximum over sets (:mod:`hardmax.networks.heads.rules`),
and its weights are ReLU units behind that: :math:`\max(s_j - t, 0) / \tau`. There are too many sets to list
them all, but few of them win anywhere in a domain. :func:`listed` writes a network with the sets that are
known; which ones an enumeration needs is found by :mod:`hardmax.regions.listing`. Sums and means are
fractions where floats would round them.

Keys of a head with the same score are exchangeable. A set holds the first of them (the last with
``ties="rightmost"``), and with ``ties="mean"`` its places are shared by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import chain, combinations, pairwise
from math import comb, lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.exact.arithmetic import exact_stack, fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.exact.residues import common_denominator
from hardmax.networks.attention import Attention
from hardmax.networks.block import reached
from hardmax.networks.blocks import Affine, Block, FeedForward, Maxout, assembled
from hardmax.networks.heads.experts import MixtureOfExperts
from hardmax.networks.layers import decided_keys, equal_scores, layers_of
from hardmax.networks.network import Network

Set = tuple[int, ...]  # keys of a head, ascending
Floats = NDArray[np.float64]

_NOTHING = Fraction(0)
MOST_TIED = 5000  # sets that may win together on a cell


class Choices:
    """What can be said about the sets of one block: which are equivalent, and which are neighbours.

    Keys are numbered from 0 among those of their head that are present; ``keys[h]`` holds their numbers in
    the block.
    """

    def __init__(self, block: Attention) -> None:
        self.block = block
        self.keys = [np.flatnonzero(present) for present in block.mask]
        self.starts = np.cumsum([0, *(len(keys) for keys in self.keys)])
        n = block.n_tokens
        flat = block.scores.rearranged(lambda array: array.reshape(-1, block.d_in))
        biases = block.biases.rearranged(np.ravel)
        self.rows = np.concatenate([h * n + keys for h, keys in enumerate(self.keys)])
        self.scores, self.biases = flat.take(self.rows), biases.take(self.rows)
        self.groups: list[NDArray[np.int64]] = []  # per head, the number of the first key with that score
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            first = np.zeros(stop - start, dtype=np.int64)
            for group in equal_scores(self.scores, self.biases, np.arange(start, stop)):
                first[np.array(group) - start] = group[0] - start
            self.groups.append(first)
        self._all_different = [len(np.unique(first)) == len(first) for first in self.groups]

    @property
    def wide_scores(self) -> ExactArray:
        """The scores of what enters the block that chooses among the sets."""
        more = self.block.n_heads if self.place else 0
        return exact_stack([self.scores, ExactArray(np.zeros((len(self.rows), more)))], axis=1)

    def canonical(self, head: int, members: Iterable[int]) -> Set:
        """The set that stands for all sets whose members have the same scores."""
        if self.block.rule != "top-k" or self._all_different[head]:
            return tuple(sorted(members))
        first, chosen = self.groups[head], []
        values, counts = np.unique(first[list(members)], return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            group = np.flatnonzero(first == value)
            chosen += (group[-count:] if self.block.ties == "rightmost" else group[:count]).tolist()
        return tuple(sorted(chosen))

    def order(self, head: int, sets: Iterable[Set]) -> list[Set]:
        """Sets in the order in which they win ties."""
        if self.block.ties == "rightmost":
            return sorted(sets, key=lambda members: members[::-1], reverse=True)
        return sorted(sets)

    def tied_sets(self, head: int, chosen: Set, level: Sequence[int]) -> Iterable[Set]:
        """The sets that win together with one where some of its members and some others are level."""
        kept = [j for j in chosen if j not in level]
        return (tuple(sorted([*kept, *some])) for some in combinations(level, len(chosen) - len(kept)))

    # blocks

    def blocks(self, sets: Sequence[Sequence[Set]]) -> tuple[Block, ...]:
        """The block with these sets of each head; the last but one of several chooses among them."""
        return self._top_k(sets) if self.block.rule == "top-k" else self._sparsemax(sets)

    @property
    def place(self) -> int:
        """Where the block that chooses among the sets stands among :meth:`blocks`."""
        return 0 if self.block.rule == "top-k" else 1

    @property
    def front(self) -> tuple[Block, ...]:
        """The blocks in front of the one that chooses, whatever the sets."""
        return (Affine(np.eye(self.block.d_in + self.block.n_heads, self.block.d_in)),) * self.place

    def _top_k(self, sets: Sequence[Sequence[Set]]) -> tuple[Block, ...]:
        block = self.block
        sums = [self._sums(h, of_head) for h, of_head in enumerate(sets)]
        outputs = [self._means(h, of_head) for h, of_head in enumerate(sets)]
        ties = "mean" if block.ties == "mean" else "leftmost"  # sets are in the order of preference
        scores, biases = [rows[:, :-1] for rows in sums], [rows[:, -1] for rows in sums]
        heads = Attention(scores, biases, outputs, ties=ties, skip=block.skip)
        heads._set(near=self._near(sets), counts=self._counts(sets))
        return (heads,)

    def steps(self, sets: Sequence[Set]) -> list[list[int]]:
        """For each set the numbers of its neighbours."""
        return exchanges(sets) if self.block.rule == "top-k" else toggles(sets)

    def _near(self, sets: Sequence[Sequence[Set]]) -> list[list[list[int]] | None]:
        """The neighbours of sets, head by head: sets with a common wall are neighbours.

        Not where keys have the same score: they enter and leave together, and sets in between have no cell.
        """
        return [self.steps(of_head) if self._all_different[h] else None for h, of_head in enumerate(sets)]

    def _counts(self, sets: Sequence[Sequence[Set]]) -> NDArray[np.int64]:
        """How many sets each stands for, cut off above what may tie on a cell: they share ties equally."""
        counts = np.ones((len(sets), max(map(len, sets))), dtype=np.int64)
        for h, of_head in enumerate(sets):
            if self._all_different[h]:
                continue
            sizes, first = np.bincount(self.groups[h]), self.groups[h]
            for s, members in enumerate(of_head):
                inside = np.bincount(first[list(members)], minlength=len(sizes))
                stands_for = prod(map(comb, sizes.tolist(), inside.tolist()))
                counts[h, s] = min(stands_for, MOST_TIED + 1)
        return counts

    def _sums(self, h: int, sets: Sequence[Set]) -> NDArray[np.object_]:
        """Sums of scores, one row per set, the bias last; thresholds for sparsemax."""
        rows = slice(self.starts[h], self.starts[h + 1])
        table = exact_stack([self.scores.take(rows), self._column(rows)], axis=1)
        if self.block.rule == "top-k":
            return _row_sums(table, sets, [1] * len(sets))
        return _row_sums(table, sets, [len(members) for members in sets], self.block._rule.temperatures[h])

    def _column(self, rows: slice) -> ExactArray:
        return self.biases.take(rows).rearranged(lambda array: array[:, None])

    def _means(self, h: int, sets: Sequence[Set]) -> NDArray[np.object_]:
        """The means of the outputs of sets; keys with the same score share their places."""
        block, first = self.block, self.groups[h]
        outputs = fractions_of(block.outputs.take(h))[self.keys[h]]
        if block.ties == "mean" and not self._all_different[h]:
            outputs = np.array([outputs[first == value].mean(axis=0) for value in first])
        return _row_sums(as_exact(outputs, "outputs", ndim=2), sets, [len(members) for members in sets])

    def _sparsemax(self, sets: Sequence[Sequence[Set]]) -> tuple[Block, ...]:
        r"""The thresholds behind what entered, then ReLU units :math:`s_j - t`."""
        block, heads, n, d = self.block, self.block.n_heads, len(self.rows), self.block.d_in
        temperatures = block._rule.temperatures
        scores: list[Any] = []
        biases: list[Any] = []
        for h, of_head in enumerate(sets):
            rows = self._sums(h, of_head)
            scores.append(np.column_stack([rows[:, :-1], np.zeros((len(rows), heads), dtype=np.int64)]))
            biases.append(rows[:, -1])
        below = np.zeros((n, heads))
        for h, (start, stop) in enumerate(pairwise(self.starts.tolist())):
            below[start:stop, h] = -1.0
        flat = block.outputs.rearranged(lambda array: array.reshape(-1, block.d_out)).take(self.rows)
        taus = np.repeat([1 / tau for tau in temperatures], np.diff(self.starts))
        values = as_exact(fractions_of(flat) * taus[:, None], "outputs over temperature", ndim=2).transposed
        above: Any = exact_stack([self.scores, ExactArray(below)], axis=1)
        added: Any = exact_stack([values, ExactArray(np.zeros((heads, n)))]) if block.skip else values
        thresholds = Maxout(scores, biases, np.eye(d + heads, heads, -d), None, skip=True)
        thresholds._set(near=self._near(sets))
        units = FeedForward(above, self.biases, added, None, skip=block.skip)  # type: ignore[arg-type]
        units._set(given=self._given(sets, thresholds))
        return (
            *self.front,
            thresholds,
            units,
            *((Affine(np.eye(d, d + heads)),) if block.skip else ()),
        )

    def _given(self, sets: Sequence[Sequence[Set]], thresholds: Maxout) -> list[NDArray[np.bool_] | None]:
        """The units that are on where a set has the threshold; ``None`` where sets coincide."""
        _, groups = decided_keys(thresholds.scores, thresholds.biases, thresholds.mask)
        found: list[NDArray[np.bool_] | None] = []
        for group in groups:
            h, number = divmod(group[0], thresholds.scores.shape[1])
            units = np.zeros(len(self.rows), dtype=np.bool_)
            units[self.starts[h] + np.array(sets[h][number])] = True
            found.append(units if len(group) == 1 else None)
        return found


def _row_sums(
    table: ExactArray, sets: Sequence[Set], divisors: Sequence[int], less: Fraction = _NOTHING
) -> NDArray[np.object_]:
    """Sums of rows over a divisor each, as fractions; ``less`` is taken off the last column before.

    Whole numbers are added up, in digits of 32 bits: fractions are slow.
    """
    scale = lcm(common_denominator(table), less.denominator)
    whole = [int(value * scale) for value in fractions_of(table).ravel().tolist()]
    low = min(whole)
    n_digits = max(-(-(max(whole) - low).bit_length() // 32), 1)
    digits = np.array(
        [[((value - low) >> (32 * i)) & 0xFFFFFFFF for i in range(n_digits)] for value in whole],
        dtype=np.int64,
    ).reshape(*table.shape, n_digits)
    sizes = [len(members) for members in sets]
    flat = np.fromiter(chain.from_iterable(sets), dtype=np.int64, count=sum(sizes))
    sums = np.add.reduceat(digits[flat], np.cumsum([0, *sizes[:-1]]), axis=0)
    found = np.empty(sums.shape[:2], dtype=object)
    for row, of_set, size, divisor in zip(found, sums.tolist(), sizes, divisors, strict=True):
        values = [size * low + sum(digit << (32 * i) for i, digit in enumerate(entry)) for entry in of_set]
        values[-1] -= int(less * scale)
        row[:] = [Fraction(value, scale * divisor) for value in values]
    return found


class ExpertChoices(Choices):
    r"""The same for a mixture of experts, where the absolute values of its input are at most ``size``.

    The hidden vector is :math:`(y, u, c)`: the input, the pre-activations of the units of all experts, room
    for the output. The router adds 0 to the units of the experts that run and :math:`-M` to all others, so
    that these are off: M is above all :math:`|u|`. For key e of the router :math:`-M + kM` for its own units
    does that, on average over k keys. ReLU units and an affine map do the rest.
    """

    def __init__(self, block: MixtureOfExperts, size: Floats) -> None:
        n, k, d, e = block.starts[-1], block.k, block.d_in, block.d_out
        most = np.concatenate([reached(expert.w_in, expert.b_in, size) for expert in block.experts]).max()
        if not most * k < 2.0**1000:
            raise InvalidInputError(
                f"domain must be bounded for {block!r}, so that its units have a bound within float64; try a "
                "Box."
            )
        gate = float(np.ldexp(1.0, np.frexp(most)[1]))
        all_of = block.experts
        w_in = exact_stack([ExactArray(np.eye(d)) if each.w_in is None else each.w_in for each in all_of])
        w_out = fractions_of(exact_stack([each.w_out for each in all_of], axis=1)) * Fraction(1, k)
        b_out = exact_stack([each.b_out.rearranged(lambda array: array[None]) for each in all_of])
        own = np.repeat(np.eye(len(all_of)), np.diff(block.starts), axis=1)
        hidden = d + n + e
        inputs, units, ends = slice(d), slice(d, d + n), slice(d + n, hidden)
        eye, shape = np.eye(hidden), (1, len(all_of), hidden)
        self.before = Affine(
            assembled((hidden, d), (inputs, ExactArray(np.eye(d))), (units, w_in)),
            assembled((hidden,), (units, exact_stack([each.b_in for each in all_of]))),
        )
        router = Attention(
            assembled(shape, ((0, slice(None), inputs), block.router)),
            block.head.biases,  # type: ignore[arg-type]
            assembled(
                shape,
                ((0, slice(None), units), ExactArray(gate * (k * own - 1.0))),
                ((0, slice(None), ends), b_out),
            ),
            rule="top-k",
            k=k,
            ties="leftmost",
        )
        added = assembled((hidden, n), (ends, as_exact(w_out, "w_out over k", ndim=2)))
        self.behind = (
            FeedForward(eye[units], None, added, skip=True),
            Affine(eye[ends] + (eye[inputs] if block.skip else 0.0)),
        )
        super().__init__(router)

    @property
    def wide_scores(self) -> ExactArray:
        """The scores of what enters the router."""
        return self.scores

    @property
    def place(self) -> int:
        """Where the router stands among :meth:`blocks`."""
        return 1

    @property
    def front(self) -> tuple[Block, ...]:
        """What computes the units."""
        return (self.before,)

    def blocks(self, sets: Sequence[Sequence[Set]]) -> tuple[Block, ...]:
        """The mixture with these sets of experts."""
        return (*self.front, *super().blocks(sets), *self.behind)


def exchanges(sets: Sequence[Set]) -> list[list[int]]:
    """For each set the numbers of those that differ from it in one member.

    >>> exchanges([(0, 1), (1, 2), (2, 3)])
    [[1], [0, 2], [1]]
    """
    common: dict[Set, list[int]] = {}
    for number, members in enumerate(sets):
        for a in range(len(members)):
            common.setdefault(members[:a] + members[a + 1 :], []).append(number)
    near: list[set[int]] = [set() for _ in sets]
    for numbers in common.values():
        for number in numbers:
            near[number].update(numbers)
    return [sorted(numbers - {number}) for number, numbers in enumerate(near)]


def toggles(sets: Sequence[Set]) -> list[list[int]]:
    """For each set the numbers of those with one member more or fewer.

    >>> toggles([(0,), (0, 1), (1,)])
    [[1], [0, 2], [1]]
    """
    numbers = {members: number for number, members in enumerate(sets)}
    near: list[list[int]] = [[] for _ in sets]
    for members, number in numbers.items():
        for a in range(len(members)):
            other = numbers.get(members[:a] + members[a + 1 :])
            if other is not None:
                near[number].append(other)
                near[other].append(number)
    return [sorted(others) for others in near]


@dataclass(frozen=True, eq=False)
class Listed:
    """A network whose sets are listed, as blocks that choose single keys.

    Attributes
    ----------
    network : Network
        The blocks that engines understand.
    source : Network
        The network as it was given.
    choices : dict of Choices
        By the number of their block in ``source``.
    sets : dict of lists of lists of sets
        The same, head by head.
    deciders : dict of int
        The same: where the block whose routings number the sets stands in ``network``.
    """

    network: Network
    source: Network
    choices: dict[int, Choices]
    sets: dict[int, list[list[Set]]]
    deciders: dict[int, int]

    @property
    def plain_sets(self) -> list[list[list[list[int]]]]:
        """The sets for a file, block by block and head by head."""
        return [[list(map(list, head)) for head in heads] for heads in self.sets.values()]

    @cached_property
    def first_heads(self) -> dict[int, int]:
        """The number of the first head of each deciding block among all heads of ``network``."""
        blocks = self.network.blocks
        return {b: sum(block.heads for block in blocks[:at]) for b, at in self.deciders.items()}

    @cached_property
    def layers_before(self) -> dict[int, int]:
        """The number of layers in front of each deciding block."""
        counts = [0, *np.cumsum([len(layers_of(Network((block,)))) for block in self.network.blocks])]
        return {b: int(counts[at]) for b, at in self.deciders.items()}

    @cached_property
    def thresholds(self) -> set[int]:
        """The layers that compute thresholds of sparsemax, counted from the end: ReLU units repeat their
        cells.
        """
        total = len(layers_of(self.network))
        soft = [b for b, choices in self.choices.items() if choices.block.rule == "sparsemax"]
        return {self.layers_before[b] - total for b in soft}

    def chosen(self, block: int, routings: NDArray[np.int32], bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which keys a block of ``source`` chooses where ``network`` has this signature, (n, H, N).

        Keys that are level with the threshold of sparsemax on a whole cell may be in the set that attains
        it, but have no weight. So the units say which keys are chosen.
        """
        choices, first = self.choices[block], self.first_heads[block]
        found = np.zeros((len(routings), *choices.block.mask.shape), dtype=np.bool_)
        if choices.block.rule == "sparsemax":
            unit = sum(other.width for other in self.network.blocks[: self.deciders[block]])
            found.reshape(len(routings), choices.block.mask.size)[:, choices.rows] = bits[
                :, unit : unit + len(choices.rows)
            ]
            return found
        for h, (sets, keys) in enumerate(zip(self.sets[block], choices.keys, strict=True)):
            table = np.zeros((len(sets), found.shape[2]), dtype=np.bool_)
            for row, members in zip(table, sets, strict=True):
                row[keys[list(members)]] = True
            found[:, h] = table[routings[:, first + h]]
        return found


def choices_of(network: Network, size: Callable[[], Floats]) -> dict[int, Choices]:
    """The blocks that choose sets, by their number; ``size`` bounds the inputs, where that is needed."""
    found: dict[int, Choices] = {}
    for b, block in enumerate(network.blocks):
        if isinstance(block, MixtureOfExperts):
            found[b] = ExpertChoices(
                block, reduce(lambda most, before: before.reach(most), network.blocks[:b], size())
            )
        elif block.chooses_sets:
            found[b] = Choices(block)  # type: ignore[arg-type]
    return found


def listed(network: Network, choices: dict[int, Choices], sets: dict[int, list[set[Set]]]) -> Listed:
    """The network with these sets of each head of the blocks that choose sets."""
    blocks: list[Block] = []
    deciders, ordered = {}, {}
    for b, block in enumerate(network.blocks):
        if b not in choices:
            blocks.append(block)
            continue
        chosen = choices[b]
        ordered[b] = [chosen.order(h, of_head) for h, of_head in enumerate(sets[b])]
        deciders[b] = len(blocks) + chosen.place
        blocks += chosen.blocks(ordered[b])
    return Listed(Network(tuple(blocks), network.description), network, choices, ordered, deciders)


def listed_in_file(network: Network, size: Callable[[], Floats], sets: Any) -> Listed:
    """The network with the sets that a file lists, once they fit the network; ``size`` bounds its inputs."""
    choices = choices_of(network, size)
    if len(sets) != len(choices):
        raise ValueError(f"sets must be listed for {len(choices)} blocks, but are for {len(sets)}.")
    found: dict[int, list[set[Set]]] = {}
    for (b, chosen), heads in zip(choices.items(), sets, strict=True):
        if len(heads) != len(chosen.keys):
            raise ValueError(f"sets of block {b} must be listed for {len(chosen.keys)} heads.")
        found[b] = []
        for keys, head in zip(chosen.keys, heads, strict=True):
            members = {tuple(int(j) for j in some) for some in head}
            for some in members:
                ascending = all(a < b for a, b in pairwise(some))
                inside = bool(some) and some[0] >= 0 and some[-1] < len(keys)
                if not inside or not ascending or len(some) != (chosen.block.k or len(some)):
                    raise ValueError(f"a set of block {b} must name keys of its head in order, not {some}.")
            found[b].append(members)
    return listed(network, choices, found)
