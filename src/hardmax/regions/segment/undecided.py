r"""What floats leave open on the line: signs at ends, winners of heads, and the order of breaks.

Double-double is tried first for big networks, rationals decide the rest. A break that was decided here is
placed anew: its float is then correctly rounded, or nearly so.

For a big network the exact map of one interval costs seconds; two breaks that floats cannot order are nearly
always told apart by 30 digits. The signature of the interval is known, so only units that are on, winners,
and the rows in question are touched. A row is returned as rationals with a bound on their errors; what is
still open afterwards is, in practice, exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.double_double import pair_of, sum_of_pairs
from hardmax.exact.double_double_kernels import UNIT, products
from hardmax.exact.rationals import nearest_float
from hardmax.networks.layers import ArgmaxLayer, Layer
from hardmax.networks.signatures import unpack_bits
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, decode_wall
from hardmax.regions.engine import layer_kernels as constants
from hardmax.regions.engine.decide import Ladder
from hardmax.regions.engine.layer_kernels import GAMMA, GAMMA_OUT
from hardmax.regions.engine.program import norms_of
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.segment import kernels
from hardmax.regions.segment.geometry import Place, exact_place, root_of, sign_at, upper_envelope

if TYPE_CHECKING:
    from hardmax.regions.segment.machine import Stage

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PLACES_KEPT = 2**16  # exact places that are kept
_LARGEST = 1.7e308
_PAIRS_FROM = 2**14  # weights from which double-double is tried before rationals
_Event = tuple[int, int, int, int, float, float]  # the fields of Events
_MAPS_KEPT = 64
_TAME = 1e100


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

    def take(self, order: Integers) -> Events:
        """Some events, in this order."""
        return self._each(lambda column, _: column[order])

    def joined(self, more: list[_Event]) -> Events:
        """These events and more."""
        if not more:
            return self
        columns = list(zip(*more, strict=True))
        return self._each(lambda column, i: np.append(column, np.array(columns[i], dtype=column.dtype)))

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
        self._balls: dict[tuple[int, int], Ball] = {}
        big = trust == constants.CERTIFIED and sum(stage.size for stage in stages) >= _PAIRS_FROM
        self.pairs = PairMaps(layers, stages) if big else None
        self.ladder = Ladder(pairs=trust == constants.CERTIFIED)

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
        self, events: Events, parents: Integers, units: Integers, on: NDArray[np.uint64]
    ) -> list[_Event]:
        """Signs of units at the ends of intervals; new events, and bits for the left."""
        more: list[_Event] = []
        many = np.bincount(parents, minlength=events.intervals.n) > 3
        for k, unit in zip(parents.tolist(), units.tolist(), strict=True):
            self.ladder.decide(self._unit_exactly, self._unit_by_pairs, events, k, unit, on, more, many[k])
        return more

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

    def head(
        self, events: Events, k: int, head: int, z: Floats, errors: Floats, winner: Integers
    ) -> list[_Event]:
        """The winners of a head along an interval."""
        block, stage = cast(ArgmaxLayer, self.layers[events.layer]), self.stages[events.layer]
        keys = np.arange(block.head_start[head], block.head_start[head + 1])
        if self.trust == constants.CERTIFIED:
            keys = keys[_contenders(stage, events.intervals, k, keys, z, errors)]
        found: list[_Event] = self.ladder.decide(
            self._head_exactly, self._head_by_pairs, events, k, head, keys, winner
        )
        return found

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

    def ordered(self, events: Events) -> tuple[Events, NDArray[np.bool_]]:
        """Events in their true order, interval by interval, and which of them begin a new break."""
        events = events.take(np.lexsort((events.place - events.error, events.parent)))
        first = np.zeros(len(events.parent), dtype=np.int64)
        counts = np.zeros(1, dtype=np.int64)
        kernels.cluster(events.parent, events.place, events.error, first, counts)
        if counts[0] == len(first) or self.trust == constants.FLOAT:
            return events, first.astype(np.bool_)
        starts = np.append(np.flatnonzero(first), len(first))
        order = np.arange(len(first))
        for group in np.flatnonzero(np.diff(starts) > 1).tolist():
            among = range(int(starts[group]), int(starts[group + 1]))
            self.ladder.decide(self._order_exactly, self._order_by_pairs, events, among, order, first)
        return events.take(order), first.astype(np.bool_)

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
        old, new = rows_of(block, np.array([events.old[e], events.key[e]]), events.ties).tolist()
        return old, new

    def _root(self, events: Events, e: int) -> Fraction:
        """The exact place of an event."""
        k, group, key = int(events.parent[e]), int(events.group[e]), int(events.key[e])
        root = events.roots.get((k, group, key))
        if root is None:
            row = self.exact_maps.line(events.layer, group, *self._keys(events, e), *events.signature(k))
            root = events.roots[k, group, key] = root_of(row)
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
            if len(self._balls) >= _PLACES_KEPT:
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
        return (rows[0] if len(rows) == 1 else rows[1].minus(rows[0])).root()

    def _rows_in_pairs(
        self, events: Events, k: int, chosen: list[int]
    ) -> tuple[list[Row], Ball, Ball] | None:
        """Some rows of a layer on an interval, and its ends; ``None`` if pairs do not tell."""
        if self.pairs is None or events.intervals.tied[k]:
            return None
        low, high = self._ball(events.intervals, k, "low"), self._ball(events.intervals, k, "high")
        rows = self.pairs.rows(events.layer, chosen, *events.signature(k))
        return None if low is None or high is None or rows is None else (rows, low, high)

    def _unit_by_pairs(
        self, events: Events, k: int, unit: int, on: NDArray[np.uint64], more: list[_Event], many: bool
    ) -> bool | None:
        """Settle a unit on an interval; ``None`` if it stays open."""
        known = self._rows_in_pairs(events, k, [unit])
        if known is None:
            return None
        (row,), low, high = known
        left, right = row.sign_at(low), row.sign_at(high)
        if left is None or right is None:
            return None
        if left > 0:
            on[k, unit >> 6] |= np.uint64(1 << (unit & 63))
        if left * right < 0:
            root = row.root()
            if root is None:
                return None
            more.append((k, unit, 0, 0, *self._float_ball(root)))
        return True

    def _head_by_pairs(
        self, events: Events, k: int, head: int, keys: Integers, winner: Integers
    ) -> list[_Event] | None:
        """The winners of a head along an interval; ``None`` if something stays open."""
        known = self._rows_in_pairs(events, k, keys.tolist())
        found = known and winners(dict(zip(keys.tolist(), known[0], strict=True)), *known[1:])
        if found is None:
            return None
        winner[k, head] = found[0][0]
        return [(k, head, old, new, *self._float_ball(place)) for (old, _), (new, place) in pairwise(found)]

    def _order_by_pairs(self, events: Events, among: range, order: Integers, first: Integers) -> bool | None:
        """Order some events of one interval; ``None`` if two may coincide."""
        k = int(events.parent[among.start])
        if self.pairs is None or events.intervals.tied[k]:
            return None
        found: list[tuple[Ball, int]] = []
        for e in among:
            group = int(events.group[e])
            root = events.roots.get((k, group, int(events.key[e])))
            if root is not None:
                found.append((Ball(root, Fraction(0)), e))
                continue
            ball = self._pair_root(events.layer, group, *self._keys(events, e), events.intervals, k)
            if ball is None:
                return None
            found.append((ball, e))
        found.sort(key=lambda pair: pair[0].middle)
        if not disjoint([ball for ball, _ in found]):
            return None
        order[among.start : among.stop] = [e for _, e in found]
        first[among.start : among.stop] = 1
        for ball, e in found:
            events.place[e], events.error[e] = self._float_ball(ball)
        return True

    def _float_ball(self, ball: Ball) -> tuple[float, float]:
        place, error = self.float_place(ball.middle)
        return place, error + 1.0001 * nearest_float(ball.radius) + 1e-300


def _contenders(
    stage: Stage, intervals: Intervals, k: int, keys: Integers, z: Floats, errors: Floats
) -> NDArray[np.bool_]:
    """Keys of a head that are not certainly beaten, at both ends of an interval, by one and the same key."""
    ends = [(intervals.low[k], intervals.low_error[k]), (intervals.high[k], intervals.high_error[k])]
    kept = np.ones(len(keys), dtype=np.bool_)
    if not np.isfinite(ends).all():
        return kept
    a, c = z[0, k, keys], z[1, k, keys]
    rho = stage.row_norms[keys]
    alpha, kappa = rho * errors[0][k], rho * errors[1][k] + stage.gamma * np.abs(stage.biases[keys])
    for best in {int(np.argmax(a * s + c)) for s, _ in ends}:
        beaten = np.ones(len(keys), dtype=np.bool_)
        for s, e in ends:
            slack = (
                (alpha + alpha[best]) * (abs(s) + e) + kappa + kappa[best] + np.abs(a - a[best]) * e
                + 8.0 * constants.UNIT * ((np.abs(a) + abs(a[best])) * abs(s) + np.abs(c) + abs(c[best]))
            )  # fmt: skip
            slack = np.where((slack > constants.TINY) & (slack < constants.HUGE), 1.0001 * slack, np.nan)
            beaten &= (a - a[best]) * s + (c - c[best]) < -slack
        kept &= ~beaten
    return kept


def rows_of(block: ArgmaxLayer, keys: Integers, ties: list[list[int]]) -> Integers:
    """Numbers of compiled keys; for keys that win together, the lowest."""
    lowest = np.array([tie[0] for tie in ties], dtype=np.int64)
    return np.concatenate([np.arange(len(block.key)), lowest])[keys]


@dataclass(frozen=True)
class Ball:
    """A number up to an error."""

    middle: Fraction
    radius: Fraction


@dataclass(frozen=True)
class Row:
    """An affine function :math:`at + c` up to errors of its coefficients."""

    slope: Ball
    constant: Ball

    def minus(self, other: Row) -> Row:
        """The difference of two rows."""
        return Row(
            Ball(self.slope.middle - other.slope.middle, self.slope.radius + other.slope.radius),
            Ball(self.constant.middle - other.constant.middle, self.constant.radius + other.constant.radius),
        )

    def sign_at(self, place: Ball) -> int | None:
        """The sign at a place; ``None`` if it is open.

        >>> row = Row(Ball(Fraction(1), Fraction(1, 100)), Ball(Fraction(-1), Fraction(0)))
        >>> row.sign_at(Ball(Fraction(2), Fraction(0))), row.sign_at(Ball(Fraction(1), Fraction(0)))
        (1, None)
        """
        a, c = self.slope, self.constant
        value = a.middle * place.middle + c.middle
        slack = a.radius * (abs(place.middle) + place.radius) + abs(a.middle) * place.radius + c.radius
        if abs(value) <= slack:
            return None
        return 1 if value > 0 else -1

    def root(self) -> Ball | None:
        """Where the row vanishes; ``None`` if its slope may be zero."""
        a, c = self.slope, self.constant
        room = abs(a.middle) - a.radius
        if room <= 0:
            return None
        root = -c.middle / a.middle
        return Ball(root, (c.radius + abs(root) * a.radius) / room)


def disjoint(balls: Sequence[Ball]) -> bool:
    """Whether balls, sorted by their middles, certainly are in this order."""
    return all(p.middle + p.radius < q.middle - q.radius for p, q in pairwise(balls))


def winners(rows: dict[int, Row], low: Ball, high: Ball) -> list[tuple[int, Ball]] | None:
    """The winners of a head along an interval and where each begins; ``None`` if something is open."""
    middles = {key: (row.slope.middle, row.constant.middle) for key, row in rows.items()}
    guess = upper_envelope(middles, low.middle, high.middle)  # type: ignore[arg-type]
    if any(len(tied) > 1 for tied, _ in guess):
        return None
    keys = [tied[0] for tied, _ in guess]
    found = [(keys[0], low)]
    for old, new in pairwise(keys):
        difference = rows[new].minus(rows[old])
        place = difference.root()
        if place is None or difference.slope.middle < 0:
            return None
        found.append((new, place))
    for i, (key, place) in enumerate([*found, (keys[-1], high)]):
        meeting = {keys[i - 1], key} if 0 < i < len(found) else {key}
        for j, row in rows.items():
            if j not in meeting and row.minus(rows[key]).sign_at(place) != -1:
                return None
    return found


@dataclass(frozen=True)
class _Hidden:
    """A hidden map as pairs, (m, 2): slopes and constants; bounds on their errors, (4, 1)."""

    high: Floats
    low: Floats
    errors: Floats

    @property
    def floats(self) -> Floats:
        """The map as the engine keeps it, (2, 1, m)."""
        return np.ascontiguousarray(self.high.T)[:, None]


class PairMaps:
    """Rows of the layers on cells of a network on the line, by signature."""

    def __init__(self, layers: tuple[Layer, ...], stages: tuple[Stage, ...]) -> None:
        self.layers = layers
        self.stages = stages
        self._hidden: dict[Hashable, _Hidden] = {}
        self._units = [0, *accumulate(layer.units for layer in layers)]
        self._heads = [0, *accumulate(layer.heads for layer in layers)]
        self._norms = [self._norms_in_pairs(stage) for stage in stages]

    @staticmethod
    def _norms_in_pairs(stage: Stage) -> Floats:
        """The norms of a layer, with gammas for pairs: four times as many units cover every sum of them."""
        f = stage.f.copy()
        if stage.layer.units:
            f[GAMMA_OUT] = (stage.layer.units + 10) * constants.UNIT
        f[[GAMMA, GAMMA_OUT]] *= 4.0 * UNIT / constants.UNIT
        return np.where(_tame(f), f, math.inf)

    def rows(
        self,
        layer: int,
        chosen: Sequence[int],
        bits_row: NDArray[np.uint64],
        routings_row: NDArray[np.int32],
    ) -> list[Row] | None:
        """Some rows of a layer, on the cell with this signature; no keys may tie on it before the layer."""
        relu = unpack_bits(bits_row[None], self._units[-1])[0] if self._units[-1] else np.zeros(0, np.bool_)
        hidden = self._entering(layer, relu, routings_row)
        picked, stage, f = np.array(chosen, dtype=np.int64), self.stages[layer], self._norms[layer]
        high, low = self._scores(layer, picked, hidden)
        nothing = np.zeros((2, 1, len(stage.biases)))
        errors = stage.row_norms[picked] * stage.errors(hidden.floats, nothing, hidden.errors, f)[0]
        errors[1] += f[GAMMA] * np.abs(stage.biases[picked])
        if not np.isfinite(errors).all():
            return None
        return [
            Row(*(_ball(high[i, part], low[i, part], errors[part, i]) for part in range(2)))
            for i in range(len(picked))
        ]

    def _entering(self, layer: int, relu: NDArray[np.bool_], routings: NDArray[np.int32]) -> _Hidden:
        if layer == 0:
            return _Hidden(np.array([[1.0, 0.0]]), np.zeros((1, 2)), np.zeros((4, 1)))
        key = (layer, relu[: self._units[layer]].tobytes(), routings[: self._heads[layer]].tobytes())
        hidden = self._hidden.pop(key, None)
        if hidden is None:
            before = self._entering(layer - 1, relu, routings)
            hidden = self._through(layer - 1, before, relu, routings)
            while len(self._hidden) >= _MAPS_KEPT:
                self._hidden.pop(next(iter(self._hidden)))
        self._hidden[key] = hidden
        return hidden

    def _scores(self, layer: int, chosen: NDArray[np.int64], hidden: _Hidden) -> tuple[Floats, Floats]:
        """Chosen rows S y + b."""
        block = self.layers[layer]
        bh, bl = pair_of(block.biases.take(chosen))
        if block.scores is None:
            high, low = hidden.high[chosen], hidden.low[chosen]
            high[:, 1], low[:, 1] = sum_of_pairs(high[:, 1], low[:, 1], bh, bl)
            return high, low
        wh, wl = pair_of(block.scores.take(chosen))
        high, low = np.zeros((len(chosen), 2)), np.zeros((len(chosen), 2))
        high[:, 1], low[:, 1] = bh, bl
        products(wh, wl, hidden.high, hidden.low, high, low)
        return high, low

    def _through(
        self, layer: int, hidden: _Hidden, relu: NDArray[np.bool_], routings: NDArray[np.int32]
    ) -> _Hidden:
        block, stage = cast(Any, self.layers[layer]), self.stages[layer]
        z = np.zeros((2, 1, len(stage.biases)))
        high, low = hidden.high, hidden.low
        if block.jumps:
            if not block.skip:
                high, low = np.zeros((block.d_out, 2)), np.zeros((block.d_out, 2))
            high, low = high.copy(), low.copy()
            vh, vl = pair_of(block.outputs.take(block.winners(routings)))
            for h in range(block.heads):
                high[:, 1], low[:, 1] = sum_of_pairs(high[:, 1], low[:, 1], vh[h], vl[h])
        elif block.heads:
            zh, zl = self._scores(layer, block.winners(routings), hidden)
            high, low = (np.concatenate([high, zh]), np.concatenate([low, zl])) if block.skip else (zh, zl)
        elif not block.cuts:
            high, low = self._scores(layer, np.arange(block.d_out), hidden)
        else:
            chosen = np.flatnonzero(relu[block.unit_slice])
            zh, zl = self._scores(layer, chosen, hidden)
            z[:, 0, chosen] = zh.T
            high, low = np.zeros((block.d_out, 2)), np.zeros((block.d_out, 2))
            high[:, 1], low[:, 1] = pair_of(block.offsets)
            uh, ul = (np.ascontiguousarray(part[:, chosen]) for part in pair_of(block.outputs))
            products(uh, ul, zh, zl, high, low)
            if block.skip:
                high, low = sum_of_pairs(high, low, hidden.high, hidden.low)
        errors = stage.errors(hidden.floats, z, hidden.errors, self._norms[layer])[1]
        if not _tame(norms_of(np.ascontiguousarray(high.T))).all():
            errors[:] = math.inf
        return _Hidden(high, low, errors)


def _ball(high: float, low: float, error: float) -> Ball:
    return Ball(Fraction(float(high)) + Fraction(float(low)), Fraction(float(error)))


def _tame(sizes: Floats) -> NDArray[np.bool_]:
    """Which norms are zero, or such that products of pairs are neither lost nor overflow."""
    return np.asarray((sizes == 0.0) | ((sizes > 1.0 / _TAME) & (sizes < _TAME)))
