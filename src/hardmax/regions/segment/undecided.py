r"""What floats leave open on the line: signs at ends, winners of heads, and the order of breaks.

The compiled rungs of the ladder are asked first (:mod:`hardmax.regions.segment.sign_kernels`), a batch at a
time; rationals decide the rest, one question after the other. A break that was decided in rationals is placed
anew: its float is then correctly rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import nearest_float
from hardmax.networks.layers import ArgmaxLayer, Layer
from hardmax.regions.cells import AT_INFINITY
from hardmax.regions.engine import layer_kernels as constants
from hardmax.regions.engine.decide import CompiledLadder, Ladder
from hardmax.regions.engine.program import Program
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.segment import kernels, sign_kernels
from hardmax.regions.segment.geometry import Place, exact_place, root_of, sign_at, upper_envelope

if TYPE_CHECKING:
    from hardmax.regions.segment.machine import Stage

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PLACES_KEPT = 2**16  # exact places that are kept
_LARGEST = 1.7e308
_Event = tuple[int, int, int, int, float, float]  # the fields of Events


@dataclass
class Intervals:
    """Intervals with their signatures so far; positions are relative to the machine's origin."""

    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    low: Floats
    low_error: Floats
    low_owner: Integers
    low_wall: Integers
    high: Floats
    high_error: Floats
    high_owner: Integers
    high_wall: Integers

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.tied)


@dataclass
class Events:
    """Where something changes in a layer: in which interval, which unit or head, at which place (sorted in
    the end)."""

    layer: int
    intervals: Intervals
    parent: Integers
    group: Integers
    old: Integers  # the winner before; 0 for a unit
    key: Integers  # the new winner; 0 for a unit
    place: Floats
    error: Floats
    roots: dict[tuple[int, int, int], Fraction] = field(default_factory=dict)  # known exactly
    ties: list[list[int]] = field(default_factory=list)  # keys that win together, as one more key

    def _each(self, change: Callable[[NDArray[Any], int], NDArray[Any]]) -> Events:
        columns = ("parent", "group", "old", "key", "place", "error")
        changed: dict[str, Any] = {name: change(getattr(self, name), i) for i, name in enumerate(columns)}
        return replace(self, **changed)

    def begin(self, count: int) -> Events:
        """The first events."""
        return self._each(lambda column, _: column[:count])

    def take(self, order: Integers) -> Events:
        """Some events, in this order."""
        return self._each(lambda column, _: column[order])

    def joined(self, more: list[_Event]) -> Events:
        """These events and more."""
        if not more:
            return self
        columns = list(zip(*more, strict=True))
        return self._each(lambda column, i: np.append(column, np.array(columns[i], dtype=column.dtype)))

    def with_rows(self, numbers: Integers, places: Floats) -> Events:
        """These events and those of a kernel: interval, group, winners before and after; place, error."""
        if not len(numbers):
            return self
        whole = np.zeros((len(numbers), 4), dtype=np.int64)
        whole[:, : numbers.shape[1]] = numbers
        columns = [*whole.T, *places.T]
        return self._each(lambda column, i: np.append(column, columns[i]))

    def signature(self, k: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """That of an interval, so far."""
        return self.intervals.bits[k], self.intervals.routings[k]


class Undecided:
    """Decides what floats cannot, for one network and domain.

    ``trust`` says how far floats are trusted; ``origin`` is the point to which positions are relative.
    """

    def __init__(
        self,
        layers: tuple[Layer, ...],
        stages: tuple[Stage, ...],
        exact_maps: ExactMaps,
        trust: int,
        origin: float,
    ) -> None:
        self.layers = layers
        self.stages = stages
        self.exact_maps = exact_maps
        self.trust = trust
        self.origin = origin
        self._places: dict[tuple[int, int], Place] = {}
        self.ladder = Ladder()
        self._path: sign_kernels.Path | None = None

    def _rungs(self) -> CompiledLadder:
        """The compiled rungs; their tables are made when they are first asked."""
        if self._path is None:
            program = Program.of(self.layers, columns=2, whole=True)
            ladder = CompiledLadder(program, self.exact_maps.domain, first_primes=0)
            ladder.decided = self.ladder.decided
            self.ladder, self._net = ladder, program.net
            self._path = sign_kernels.Path(
                path=np.zeros(program.path_size),
                errors=np.zeros((len(program.table) + 1, constants.ERRORS)),
                signs=np.full(program.sign_size, -1, dtype=np.int64),
                known=np.zeros(2, dtype=np.int64),
                word=np.zeros(program.widest + 1, dtype=np.int64),
                units=np.zeros(program.widest + 1, dtype=np.int64),
                hidden=np.zeros(2 * program.widest + 2),
                place=np.zeros(3),
            )
        return cast(CompiledLadder, self.ladder)

    def _settle(
        self, kernel: Callable[..., None], asked: sign_kernels.Asked, layer: int, *arrays: Any
    ) -> bool:
        """Ask the compiled rungs; returns whether it is worth to ask again, with more primes."""
        ladder = self._rungs()
        kernel(self._net, self._path, ladder.rungs, asked, np.int64(layer), *arrays)
        return ladder.grow()

    def _asked(
        self, intervals: Intervals, rows: tuple[Stage, Floats, Floats] | None = None
    ) -> sign_kernels.Asked:
        """Intervals, and the scores of a layer on them, as the compiled rungs read them."""
        nothing = np.zeros((1, 1))
        stage, z, errors = (None, np.zeros((2, 1, 1)), np.zeros((2, 1))) if rows is None else rows
        return sign_kernels.Asked(
            zu=z[0],
            zc=z[1],
            rho=nothing[0] if stage is None else stage.row_norms,
            bias=nothing[0] if stage is None else stage.biases,
            ea=errors[0],
            ec=errors[1],
            gamma=0.0 if stage is None else stage.gamma,
            bits=intervals.bits,
            routings=intervals.routings,
            tied=intervals.tied,
            ends=np.array([intervals.low, intervals.low_error, intervals.high, intervals.high_error]),
            names=np.array(
                [intervals.low_owner, intervals.low_wall, intervals.high_owner, intervals.high_wall]
            ),
            origin=self.origin,
        )

    def float_place(self, place: Place) -> tuple[float, float]:
        """A place relative to the origin, and how far that float is from it."""
        if not isinstance(place, Fraction):
            return float(place), 0.0
        exact = place - Fraction(self.origin)
        nearest = nearest_float(exact)
        if not abs(nearest) < _LARGEST:
            return (_LARGEST if nearest > 0 else -_LARGEST), np.inf
        return nearest, 0.0 if Fraction(nearest) == exact else constants.UNIT * abs(nearest) + 1e-300

    # what floats leave open

    def ends(self, intervals: Intervals, k: int) -> tuple[Place, Place]:
        """The exact ends of an interval."""
        return (
            self._place(intervals, k, int(intervals.low_owner[k]), int(intervals.low_wall[k]), -np.inf),
            self._place(intervals, k, int(intervals.high_owner[k]), int(intervals.high_wall[k]), np.inf),
        )

    def _place(self, intervals: Intervals, k: int, owner: int, wall: int, infinity: float) -> Place:
        if owner == AT_INFINITY:
            return infinity
        place = self._places.get((owner, wall))
        if place is None:
            found = exact_place(self.exact_maps, owner, wall, intervals.bits[k], intervals.routings[k])
            place = infinity if found is None else found
            if len(self._places) >= _PLACES_KEPT:
                self._places.clear()
            self._places[owner, wall] = place
        return place

    def units(
        self, events: Events, questions: Integers, on: NDArray[np.uint64], z: Floats, errors: Floats
    ) -> Events:
        """Signs of units at the ends of intervals: more events, and bits for the left.

        ``questions`` are rows of (interval, unit).
        """
        if self.trust == constants.CERTIFIED and len(questions):
            asked = self._asked(events.intervals, (self.stages[events.layer], z, errors))
            again, counts = True, np.zeros(2, dtype=np.int64)
            while again and len(questions):
                numbers, places = np.zeros((len(questions), 2), dtype=np.int64), np.zeros((len(questions), 2))
                again = self._settle(
                    sign_kernels.settle_units, asked, events.layer, questions, on, numbers, places, counts
                )
                events = events.with_rows(numbers[: counts[0]], places[: counts[0]])
                questions = questions[: counts[1]].copy()
        more: list[_Event] = []
        many = np.bincount(questions[:, 0], minlength=events.intervals.n) > 3
        for k, unit in questions.tolist():
            self.ladder.decide(self._unit_exactly, events, k, unit, on, more, many[k])
        return events.joined(more)

    def _unit_exactly(
        self, events: Events, k: int, unit: int, on: NDArray[np.uint64], more: list[_Event], many: bool
    ) -> None:
        """Settle a unit on an interval; ``many`` if other units of the layer are asked for too."""
        if many:
            row: Any = self.exact_maps.lines(events.layer, *events.signature(k))[unit]
        else:
            row = self.exact_maps.line(events.layer, unit, 0, 0, *events.signature(k))
        low, high = self.ends(events.intervals, k)
        left, right = sign_at(row, low), sign_at(row, high)
        if left > 0 or (left == 0 and right > 0):
            on[k, unit >> 6] |= np.uint64(1 << (unit & 63))
        if left * right < 0:
            root = root_of(row)
            events.roots[k, unit, 0] = root
            more.append((k, unit, 0, 0, *self.float_place(root)))

    def heads(
        self, events: Events, questions: Integers, winner: Integers, z: Floats, errors: Floats
    ) -> Events:
        """The winners of heads along intervals: more events, and the first ones.

        ``questions`` are rows of (interval, head).
        """
        block = cast(ArgmaxLayer, self.layers[events.layer])
        starts = block.head_start
        keys, steep = np.zeros((2, len(block.key)), dtype=np.int64)
        asked = self._asked(events.intervals, (self.stages[events.layer], z, errors))
        if self.trust == constants.CERTIFIED and len(questions):
            again, counts = True, np.zeros(2, dtype=np.int64)
            while again and len(questions):
                room = int((starts[1:] - starts[:-1])[questions[:, 1]].sum()) + 1
                numbers, places = np.zeros((room, 4), dtype=np.int64), np.zeros((room, 2))
                again = self._settle(
                    sign_kernels.settle_heads, asked, events.layer, starts, block.jumps, questions, keys,
                    steep, winner, numbers, places, counts,
                )  # fmt: skip
                events = events.with_rows(numbers[: counts[0]], places[: counts[0]])
                questions = questions[: counts[1]].copy()
        more: list[_Event] = []
        for k, head in questions.tolist():
            among = np.arange(starts[head], starts[head + 1])
            if self.trust == constants.CERTIFIED:
                among = keys[: sign_kernels.contenders(asked, k, starts[head], starts[head + 1], keys)].copy()
            more += self.ladder.decide(self._head_exactly, events, k, head, among, winner)
        return events.joined(more)

    def _head_exactly(
        self, events: Events, k: int, head: int, keys: Integers, winner: Integers
    ) -> list[_Event]:
        """The winners of a head along an interval, in rationals."""
        block = cast(ArgmaxLayer, self.layers[events.layer])
        base = int(keys[0])
        signature = events.signature(k)
        rows: Any = {j: self.exact_maps.line(events.layer, head, base, j, *signature) for j in keys.tolist()}
        more = []
        before = 0
        for number, (tied, place) in enumerate(upper_envelope(rows, *self.ends(events.intervals, k))):
            key = tied[0]
            if len(tied) > 1 and block.shares:
                key = len(block.key) + len(events.ties)
                events.ties.append(tied)
            if number == 0:
                winner[k, head] = key
            else:
                assert isinstance(place, Fraction)
                events.roots[k, head, key] = place
                more.append((k, head, before, key, *self.float_place(place)))
            before = key
        return more

    def ordered(
        self, events: Events, on: NDArray[np.uint64], z: Floats, errors: Floats
    ) -> tuple[Events, NDArray[np.bool_]]:
        """Events in their true order, interval by interval, and which of them begin a new break."""
        n, counts = len(events.parent), np.zeros(1, dtype=np.int64)
        order, spare, first = np.empty((3, n), dtype=np.int64)
        kernels.order_events(
            np.empty(events.intervals.n + 1, dtype=np.int64), events.parent, events.place, events.error,
            np.empty(n), order, spare, first, counts,
        )  # fmt: skip
        events = events.take(order)
        if counts[0] == len(first) or self.trust == constants.FLOAT:
            return events, first.astype(np.bool_)
        starts = np.append(np.flatnonzero(first), len(first))
        order[:] = np.arange(n)
        groups = np.flatnonzero(np.diff(starts) > 1)
        clusters = np.column_stack([starts[groups], starts[groups + 1]])
        if self.trust == constants.CERTIFIED:
            asked = self._asked(events.intervals, (self.stages[events.layer], z, errors))
            block, again = cast(ArgmaxLayer, self.layers[events.layer]), True
            while again and len(clusters):
                again = self._settle(
                    sign_kernels.settle_order, asked, events.layer,
                    np.int64(len(block.key) if block.heads else 0), on, clusters, events.parent, events.group,
                    events.old, events.key, events.place, events.error, order, first, counts,
                )  # fmt: skip
                clusters = clusters[: counts[0]].copy()
        for begin, end in clusters.tolist():
            self.ladder.decide(self._order_exactly, events, range(begin, end), order, first)
        return events.take(order), first.astype(np.bool_)

    def lengths(self, intervals: Intervals, chosen: Integers, lengths: Floats) -> None:
        """Lengths of cells that floats do not know well."""
        cutting = [i for i, layer in enumerate(self.layers) if layer.cuts]
        if self.trust == constants.CERTIFIED and len(chosen) and cutting:
            counts, asked = np.zeros(1, dtype=np.int64), self._asked(intervals)
            self._settle(sign_kernels.settle_lengths, asked, cutting[-1], chosen, lengths, counts)
            chosen = chosen[: counts[0]]
        for k in chosen.tolist():
            self.ladder.check_time()
            low, high = self.ends(intervals, k)
            if isinstance(low, Fraction) and isinstance(high, Fraction):
                lengths[k] = nearest_float(high - low)

    def _order_exactly(self, events: Events, among: range, order: Integers, first: Integers) -> None:
        """Order some events of one interval."""
        found = sorted((self._root(events, e), e) for e in among)
        order[among.start : among.stop] = [e for _, e in found]
        for position, (root, e) in enumerate(found):
            first[among[position]] = position == 0 or root != found[position - 1][0]
            events.place[e], events.error[e] = self.float_place(root)

    def _keys(self, events: Events, e: int) -> tuple[int, int]:
        """The compiled keys between which a head changes; zeros for a unit."""
        block = cast(ArgmaxLayer, self.layers[events.layer])
        if not block.heads:
            return 0, 0
        old, new = rows_of(block, events.ties)[[events.old[e], events.key[e]]].tolist()
        return old, new

    def _root(self, events: Events, e: int) -> Fraction:
        """The exact place of an event."""
        k, group, key = int(events.parent[e]), int(events.group[e]), int(events.key[e])
        root = events.roots.get((k, group, key))
        if root is None:
            row = self.exact_maps.line(events.layer, group, *self._keys(events, e), *events.signature(k))
            root = events.roots[k, group, key] = root_of(row)
        return root


def rows_of(block: ArgmaxLayer, ties: list[list[int]]) -> Integers:
    """The number of every compiled key; for keys that win together, the lowest."""
    return np.concatenate([np.arange(len(block.key)), np.array([tie[0] for tie in ties], dtype=np.int64)])
