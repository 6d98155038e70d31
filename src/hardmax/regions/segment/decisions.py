r"""What floats leave open on the line: signs at ends, winners of heads, and the order of breaks.

Double-double is tried first for big networks, rationals decide the rest. A break that was decided here is
placed anew: its float is then correctly rounded, or nearly so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import nearest_float
from hardmax.networks.layers import ArgmaxLayer, Layer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, decode_wall
from hardmax.regions.engine.decide import Ladder
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.segment import double_double_rows as pairs
from hardmax.regions.segment import kernels
from hardmax.regions.segment.double_double_rows import Ball, PairMaps
from hardmax.regions.segment.geometry import exact_place
from hardmax.regions.segment.program import SegmentProgram, Stage
from hardmax.regions.segment.rational_intervals import Place, root_of, sign_at, upper_envelope

__all__ = ["Decisions", "Events", "Intervals", "rows_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_REMEMBERED = 2**16  # exact places that are kept
_LARGEST = 1.7e308
_PAIRS_FROM = 2**14  # weights from which double-double is tried before rationals


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
    """Where something changes: in which interval, which unit or head, at which place (sorted in the end)."""

    parent: Integers
    group: Integers
    old: Integers  # the winner before; 0 for a unit
    key: Integers  # the new winner; 0 for a unit
    place: Floats
    error: Floats
    roots: dict[tuple[int, int, int], Fraction] = field(default_factory=dict)  # known exactly

    def take(self, order: Integers) -> Events:
        """Some events, in this order."""
        return Events(
            self.parent[order],
            self.group[order],
            self.old[order],
            self.key[order],
            self.place[order],
            self.error[order],
            self.roots,
        )

    def joined(self, more: list[_Event]) -> Events:
        """These events and more."""
        if not more:
            return self
        integers = np.array([event[:4] for event in more], dtype=np.int64).T
        places = np.array([event[4:] for event in more]).T
        return Events(
            np.append(self.parent, integers[0]),
            np.append(self.group, integers[1]),
            np.append(self.old, integers[2]),
            np.append(self.key, integers[3]),
            np.append(self.place, places[0]),
            np.append(self.error, places[1]),
            self.roots,
        )


class Decisions:
    """Decides what floats cannot, for one network and domain.

    ``trust`` says how far floats are trusted; ``origin`` is the point to which positions are relative.
    """

    def __init__(
        self,
        layers: tuple[Layer, ...],
        program: SegmentProgram,
        exact_maps: ExactMaps,
        trust: int,
        origin: float,
    ) -> None:
        self.layers = layers
        self.program = program
        self.exact_maps = exact_maps
        self.trust = trust
        self.origin = origin
        self._places: dict[tuple[int, int], Place] = {}
        self._balls: dict[tuple[int, int], Ball] = {}
        big = trust == kernels.CERTIFIED and program.size >= _PAIRS_FROM
        self.pairs = PairMaps(layers, program) if big else None
        self.ladder = Ladder(pairs=trust == kernels.CERTIFIED)

    def float_place(self, place: Place) -> tuple[float, float]:
        """A place relative to the origin, and how far that float is from it."""
        if not isinstance(place, Fraction):
            return float(place), 0.0
        exact = place - Fraction(self.origin)
        nearest = nearest_float(exact)
        if not abs(nearest) < _LARGEST:
            return (_LARGEST if nearest > 0 else -_LARGEST), np.inf
        return nearest, 0.0 if Fraction(nearest) == exact else kernels.UNIT * abs(nearest) + 1e-300

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
            if len(self._places) >= _REMEMBERED:
                self._places.clear()
            self._places[owner, wall] = place
        return place

    def units(
        self,
        layer: int,
        intervals: Intervals,
        parents: Integers,
        units: Integers,
        on: NDArray[np.uint64],
        events: Events,
    ) -> list[_Event]:
        """Signs of units at the ends of intervals; new events, and bits for the left."""
        more: list[_Event] = []
        many = np.bincount(parents, minlength=intervals.n) > 3
        for k, unit in zip(parents.tolist(), units.tolist(), strict=True):
            self.ladder.decide(
                self._unit_exactly, self._unit_by_pairs, layer, intervals, k, unit, on, more, events, many[k]
            )
        return more

    def _unit_exactly(
        self,
        layer: int,
        intervals: Intervals,
        k: int,
        unit: int,
        on: NDArray[np.uint64],
        more: list[_Event],
        events: Events,
        many: bool,
    ) -> None:
        """Settle a unit on an interval; ``many`` if other units of the layer are asked for too."""
        bits, routings = intervals.bits[k], intervals.routings[k]
        if many:
            row: Any = self.exact_maps.lines(layer, bits, routings)[unit]
        else:
            row = self.exact_maps.line(layer, unit, 0, 0, bits, routings)
        low, high = self.ends(intervals, k)
        left, right = sign_at(row, low), sign_at(row, high)
        if left > 0 or (left == 0 and right > 0):
            on[k, unit >> 6] |= np.uint64(1 << (unit & 63))
        if left * right < 0:
            root = root_of(row)
            events.roots[k, unit, 0] = root
            more.append((k, unit, 0, 0, *self.float_place(root)))

    def head(
        self,
        layer: int,
        intervals: Intervals,
        k: int,
        head: int,
        z: Floats,
        errors: tuple[Floats, Floats],
        winner: Integers,
        ties: list[list[int]],
        events: Events,
    ) -> list[_Event]:
        """The winners of a head along an interval."""
        block, stage = self.layers[layer], self.program.stages[layer]
        assert isinstance(block, ArgmaxLayer)
        keys = np.arange(block.head_start[head], block.head_start[head + 1])
        if self.trust == kernels.CERTIFIED:
            keys = keys[_contenders(stage, intervals, k, keys, z, errors)]
        found: list[_Event] = self.ladder.decide(
            self._head_exactly, self._head_by_pairs, layer, intervals, k, head, keys, winner, ties, events
        )
        return found

    def _head_exactly(
        self,
        layer: int,
        intervals: Intervals,
        k: int,
        head: int,
        keys: Integers,
        winner: Integers,
        ties: list[list[int]],
        events: Events,
    ) -> list[_Event]:
        """The winners of a head along an interval, in rationals."""
        block, bits, routings = self.layers[layer], intervals.bits[k], intervals.routings[k]
        assert isinstance(block, ArgmaxLayer)
        base = int(keys[0])
        rows = {
            j: (0, 0) if j == base else self.exact_maps.line(layer, head, base, j, bits, routings)
            for j in keys.tolist()
        }
        more = []
        before = 0
        for number, (tied, place) in enumerate(upper_envelope(rows, *self.ends(intervals, k))):  # type: ignore[arg-type]
            key = tied[0]
            if len(tied) > 1 and block.jumps:  # there is no mean of equal maxima
                key = len(block.key) + len(ties)
                ties.append(tied)
            if number == 0:
                winner[k, head] = key
            else:
                assert isinstance(place, Fraction)
                events.roots[k, head, key] = place
                more.append((k, head, before, key, *self.float_place(place)))
            before = key
        return more

    def ordered(
        self, layer: int, intervals: Intervals, events: Events, ties: list[list[int]]
    ) -> tuple[Events, NDArray[np.bool_]]:
        """Events in their true order, interval by interval, and which of them begin a new break."""
        events = events.take(np.lexsort((events.place - events.error, events.parent)))
        first = np.zeros(len(events.parent), dtype=np.int64)
        counts = np.zeros(1, dtype=np.int64)
        kernels.cluster(events.parent, events.place, events.error, first, counts)
        if counts[0] == len(first) or self.trust == kernels.FLOAT:
            return events, first.astype(np.bool_)
        starts = np.append(np.flatnonzero(first), len(first))
        order = np.arange(len(first))
        for group in np.flatnonzero(np.diff(starts) > 1).tolist():
            begin, end = int(starts[group]), int(starts[group + 1])
            self.ladder.decide(
                self._order_exactly, self._order_by_pairs, layer, intervals, events, ties, begin, end, order,
                first,
            )  # fmt: skip
        return events.take(order), first.astype(np.bool_)

    def _order_exactly(
        self,
        layer: int,
        intervals: Intervals,
        events: Events,
        ties: list[list[int]],
        begin: int,
        end: int,
        order: Integers,
        first: Integers,
    ) -> None:
        """Order the events ``begin:end`` of one interval."""
        found = sorted((self._root(layer, intervals, events, e, ties), e) for e in range(begin, end))
        order[begin:end] = [e for _, e in found]
        for position, (root, e) in enumerate(found):
            first[begin + position] = position == 0 or root != found[position - 1][0]
            events.place[e], events.error[e] = self.float_place(root)

    def _root(
        self, layer: int, intervals: Intervals, events: Events, e: int, ties: list[list[int]]
    ) -> Fraction:
        """The exact place of an event."""
        k, group, key = int(events.parent[e]), int(events.group[e]), int(events.key[e])
        root = events.roots.get((k, group, key))
        if root is None:
            block, bits, routings = self.layers[layer], intervals.bits[k], intervals.routings[k]
            old, new = 0, 0
            if isinstance(block, ArgmaxLayer):
                old, new = rows_of(block, np.array([events.old[e], key]), ties).tolist()
            root = root_of(self.exact_maps.line(layer, group, old, new, bits, routings))
            events.roots[k, group, key] = root
        return root

    # the second look

    def _ball(self, intervals: Intervals, k: int, side: str) -> Ball | None:
        """An end of an interval, in pairs; ``None`` at infinity or if nothing is known."""
        owner, wall = int(getattr(intervals, side + "_owner")[k]), int(getattr(intervals, side + "_wall")[k])
        if owner == AT_INFINITY:
            return None
        known = self._places.get((owner, wall))
        if owner == DOMAIN_SIDE or known is not None:
            place = known if known is not None else root_of(self.exact_maps.domain_line(wall))
            return Ball(place, Fraction(0)) if isinstance(place, Fraction) else None
        ball = self._balls.get((owner, wall))
        if ball is None:
            layer, group, a, b = decode_wall(wall)
            found = self._pair_root(layer, group, a, b, intervals, k)
            if found is None:
                return None
            if len(self._balls) >= _REMEMBERED:
                self._balls.clear()
            ball = self._balls[owner, wall] = found
        return ball

    def _pair_root(self, layer: int, group: int, a: int, b: int, intervals: Intervals, k: int) -> Ball | None:
        """Where a unit or a pair of keys changes, in pairs."""
        assert self.pairs is not None
        chosen = [group] if self.layers[layer].units else [a, b]
        rows = self.pairs.rows(layer, chosen, intervals.bits[k], intervals.routings[k])
        if rows is None:
            return None
        return pairs.root_of(rows[0] if len(rows) == 1 else rows[1].minus(rows[0]))

    def _unit_by_pairs(
        self,
        layer: int,
        intervals: Intervals,
        k: int,
        unit: int,
        on: NDArray[np.uint64],
        more: list[_Event],
        events: Events,
        many: bool,
    ) -> bool | None:
        """Settle a unit on an interval; ``None`` if it stays open."""
        if self.pairs is None or intervals.tied[k]:
            return None
        low, high = self._ball(intervals, k, "low"), self._ball(intervals, k, "high")
        rows = self.pairs.rows(layer, [unit], intervals.bits[k], intervals.routings[k])
        if low is None or high is None or rows is None:
            return None
        left, right = pairs.sign_at(rows[0], low), pairs.sign_at(rows[0], high)
        if left is None or right is None:
            return None
        if left > 0:
            on[k, unit >> 6] |= np.uint64(1 << (unit & 63))
        if left * right < 0:
            root = pairs.root_of(rows[0])
            if root is None:
                return None
            more.append((k, unit, 0, 0, *self._float_ball(root)))
        return True

    def _head_by_pairs(
        self,
        layer: int,
        intervals: Intervals,
        k: int,
        head: int,
        keys: Integers,
        winner: Integers,
        ties: list[list[int]],
        events: Events,
    ) -> list[_Event] | None:
        """The winners of a head along an interval; ``None`` if something stays open."""
        if self.pairs is None or intervals.tied[k]:
            return None
        low, high = self._ball(intervals, k, "low"), self._ball(intervals, k, "high")
        rows = self.pairs.rows(layer, keys.tolist(), intervals.bits[k], intervals.routings[k])
        if low is None or high is None or rows is None:
            return None
        found = pairs.winners(dict(zip(keys.tolist(), rows, strict=True)), low, high)
        if found is None:
            return None
        winner[k, head] = found[0][0]
        return [(k, head, old, new, *self._float_ball(place)) for (old, _), (new, place) in pairwise(found)]

    def _order_by_pairs(
        self,
        layer: int,
        intervals: Intervals,
        events: Events,
        ties: list[list[int]],
        begin: int,
        end: int,
        order: Integers,
        first: Integers,
    ) -> bool | None:
        """Order the events ``begin:end`` of one interval; ``None`` if two may coincide."""
        k = int(events.parent[begin])
        if self.pairs is None or intervals.tied[k]:
            return None
        block = self.layers[layer]
        found: list[tuple[Ball, int]] = []
        for e in range(begin, end):
            group, old, key = int(events.group[e]), int(events.old[e]), int(events.key[e])
            root = events.roots.get((k, group, key))
            if root is not None:
                found.append((Ball(root, Fraction(0)), e))
                continue
            if isinstance(block, ArgmaxLayer):
                old, key = rows_of(block, np.array([old, key]), ties).tolist()
            ball = self._pair_root(layer, group, old, key, intervals, k)
            if ball is None:
                return None
            found.append((ball, e))
        found.sort(key=lambda pair: pair[0].middle)
        if not pairs.disjoint([ball for ball, _ in found]):
            return None
        order[begin:end] = [e for _, e in found]
        first[begin:end] = 1
        for ball, e in found:
            events.place[e], events.error[e] = self._float_ball(ball)
        return True

    def _float_ball(self, ball: Ball) -> tuple[float, float]:
        place, error = self.float_place(ball.middle)
        return place, error + 1.0001 * nearest_float(ball.radius) + 1e-300


_Event = tuple[int, int, int, int, float, float]  # the fields of Events


def _contenders(
    stage: Stage, intervals: Intervals, k: int, keys: Integers, z: Floats, errors: tuple[Floats, Floats]
) -> NDArray[np.bool_]:
    """Keys of a head that are not certainly beaten, at both ends of an interval, by one and the same key."""
    ends = [(intervals.low[k], intervals.low_error[k]), (intervals.high[k], intervals.high_error[k])]
    kept = np.ones(len(keys), dtype=np.bool_)
    if not np.isfinite(ends).all():
        return kept
    a, c = z[0, k, keys], z[1, k, keys]
    rho = stage.norms.rows[keys]
    alpha, kappa = rho * errors[0][k], rho * errors[1][k] + stage.gamma * np.abs(stage.biases[keys])
    for best in {int(np.argmax(a * s + c)) for s, _ in ends}:
        beaten = np.ones(len(keys), dtype=np.bool_)
        for s, e in ends:
            slack = (
                (alpha + alpha[best]) * (abs(s) + e) + kappa + kappa[best] + np.abs(a - a[best]) * e
                + 8.0 * kernels.UNIT * ((np.abs(a) + abs(a[best])) * abs(s) + np.abs(c) + abs(c[best]))
            )  # fmt: skip
            slack = np.where((slack > kernels.TINY) & (slack < kernels.HUGE), 1.0001 * slack, np.nan)
            beaten &= (a - a[best]) * s + (c - c[best]) < -slack
        kept &= ~beaten
    return kept


def rows_of(block: ArgmaxLayer, keys: Integers, ties: list[list[int]]) -> Integers:
    """Numbers of compiled keys; for keys that win together, the lowest."""
    lowest = np.array([tie[0] for tie in ties], dtype=np.int64)
    return np.concatenate([np.arange(len(block.key)), lowest])[keys]
