r"""Every change of a signature along [0, 1], isolated with proof.

An *item* is an interval [a, b] on which the choices of the first stages are known. At both ends the choices
of all stages are certified, on the smooth function that belongs to the known ones. Items are sent through the
network as jets, many at a time. At a stage every function must have one sign on the item, or be monotone with
the same sign at both ends. A function that is monotone with different signs at the ends has exactly one root.
If what leaves the stage does not depend on the choice (softmax, and the last stage that decides) this is as
good: the item goes on, and its roots are looked at when it has passed all stages. What is left is split:

- Functions that are monotone with different signs at the ends have exactly one root each. Interval Newton
  steps shrink it to a bracket :math:`(\alpha, \beta)`. To the left of the root one smooth function holds, to
  the right of it another: the left part is followed up to :math:`\beta`, the right part from :math:`\alpha`
  on. If neither changes anything else inside the bracket, the bracket holds exactly one change.
- Otherwise the item is cut at a place where all signs are certain.
- An item that is too short to be cut is *stuck*. Brackets that overlap are stuck as well, unless their
  functions are proportional.

What is stuck in floats is tried once more with python-flint's balls; what remains is reported as not
separated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log10
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.regions.enclosures.fields import Field, outward
from hardmax.regions.enclosures.jets import Jet
from hardmax.regions.enclosures.stages import Stage, midpoints, taken

_NUMBERS = 1 << 19  # of a jet at once
_SHARES = (0.5, 0.4375, 0.578125, 0.34375, 0.65625)  # where an item may be cut
_LONG = 1 / 64
_NEWTON = 80  # steps at most; the usual number is four


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices of all stages for n intervals: bits of units, places of winners."""

    bits: NDArray[np.bool_]
    winners: NDArray[np.int32]

    def __getitem__(self, index: Any) -> Choices:
        return Choices(self.bits[index], self.winners[index])

    def of(self, stage: Stage) -> NDArray[Any]:
        """The choices of one stage."""
        return self.bits[:, stage.places] if stage.units else self.winners[:, stage.places]

    def copy(self) -> Choices:
        """Arrays of its own."""
        return Choices(self.bits.copy(), self.winners.copy())

    @classmethod
    def joined(cls, parts: Sequence[Choices]) -> Self:
        """One behind the other."""
        return cls(np.concatenate([p.bits for p in parts]), np.concatenate([p.winners for p in parts]))

    @classmethod
    def nothing(cls, n: int, stages: Sequence[Stage]) -> Self:
        """Room for n rows."""
        units, groups = sum(s.units for s in stages), sum(s.groups for s in stages)
        return cls(np.zeros((n, units), dtype=np.bool_), np.zeros((n, groups), dtype=np.int32))


Certain = tuple[Choices, NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Items:
    """Intervals with what is known about them; ``path`` is their order along the segment."""

    path: list[tuple[int, ...]]
    a: NDArray[Any]
    b: NDArray[Any]
    level: NDArray[np.int64]
    known: Choices
    at_a: Choices
    at_b: Choices

    def __len__(self) -> int:
        return len(self.path)

    def __getitem__(self, index: NDArray[Any]) -> Items:
        rows = np.flatnonzero(index) if index.dtype == np.bool_ else index
        return Items(
            [self.path[i] for i in rows.tolist()],
            self.a[rows],
            self.b[rows],
            self.level[rows],
            self.known[rows],
            self.at_a[rows],
            self.at_b[rows],
        )

    @classmethod
    def joined(cls, parts: Sequence[Items]) -> Self:
        """One behind the other."""
        return cls(
            [path for part in parts for path in part.path],
            np.concatenate([p.a for p in parts]),
            np.concatenate([p.b for p in parts]),
            np.concatenate([p.level for p in parts]),
            Choices.joined([p.known for p in parts]),
            Choices.joined([p.at_a for p in parts]),
            Choices.joined([p.at_b for p in parts]),
        )


class Record(NamedTuple):
    """A part of the segment: with one signature, or stuck (``choices`` is ``None``)."""

    path: tuple[int, ...]
    a: Any
    b: Any
    choices: Choices | None


class Event(NamedTuple):
    """A root of a function of a stage: a unit, or a group with the old and the new winner.

    ``function`` is the jet of that function on its item, with the sign that makes it increase, and ``middle``
    the middle of the item.
    """

    item: int
    stage: int
    what: tuple[int, ...]
    function: Jet
    middle: Any


@dataclass(frozen=True, eq=False)
class Passed:
    """How far items came: ``stage`` is where they stopped, ``events`` what can be isolated there.

    An item that passed all stages has the events of all stages whose choice does not matter behind them.
    """

    stage: NDArray[np.int64]
    known: Choices
    halve: NDArray[np.bool_]
    events: list[Event]


class Isolation:
    """The isolation of all changes along a segment, in one arithmetic."""

    def __init__(
        self, stages: Sequence[Stage], field: Field, backup: Isolation | None = None, allowance: int = 1 << 60
    ) -> None:
        self.stages, self.field = tuple(stages), field
        self.backup = backup  # sharper, for points and roots that this arithmetic leaves open
        self.allowance = allowance  # evaluations that a backup may cost
        self.n_evaluations = 0
        self._last = max((i for i, stage in enumerate(self.stages) if stage.decide is not None), default=-1)
        self._free = [stage.free or i == self._last for i, stage in enumerate(self.stages)]
        self._widest = 1

    # Sending jets through the network
    # ------------------------------------------------------------------------------------------------------

    def points(
        self, places: NDArray[Any], level: NDArray[np.int64], known: Choices, *, insist: bool = False
    ) -> Certain:
        """The choices of all stages at points, and where all of them are certain; the backup may insist."""
        if len(places) == 0:
            return known, np.zeros(0, dtype=np.bool_)
        parts = [self._points(places[rows], level[rows], known[rows]) for rows in self._parts(len(places))]
        found, sure = Choices.joined([c for c, _ in parts]), np.concatenate([sure for _, sure in parts])
        if insist and not sure.all() and self._backed(int(np.count_nonzero(~sure))):
            assert self.backup is not None
            open_ = np.flatnonzero(~sure)
            with self.backup.field.active():
                exact = self.backup.field.places(places[open_])
                better, sure[open_] = self.backup.points(exact, level[open_], known[open_])
            found.bits[open_], found.winners[open_] = better.bits, better.winners
        return found, sure

    def _backed(self, n: int) -> bool:
        """Whether the backup can be asked for n evaluations."""
        return self.backup is not None and self.backup.n_evaluations + n <= self.backup.allowance

    def _points(self, places: NDArray[Any], level: NDArray[np.int64], known: Choices) -> Certain:
        found, sure = known.copy(), np.ones(len(places), dtype=np.bool_)
        self.n_evaluations += len(places)
        jet = self.field.variable(places, places, 0)
        ends = np.asarray((places == 0) | (places == 1), dtype=np.bool_)
        full = None  # with slopes, for ties at the two ends of the segment
        if ends.any():
            full = self.field.variable(places[ends], places[ends], 1)
            inward = np.where(np.asarray(places[ends] == 0, dtype=np.bool_), 1, -1)
        for number, stage in enumerate(self.stages[: self._last + 1]):
            if stage.decide is None:
                jet = stage.leave(jet, None, None)
                full = None if full is None else stage.leave(full, None, None)
                continue
            functions = stage.decide(jet)
            self._seen(functions)
            choice, certain = (_signs if stage.units else _largest)(functions, stage)
            if full is not None:
                tied = stage.decide(full)
                better, proven = (_signs if stage.units else _largest)(tied, stage, inward)
                choice[ends], certain[ends] = better, proven
            forced = (level > number) & (not self._free[number])
            found.of(stage)[~forced] = choice[~forced]
            sure &= forced | certain.all(axis=1)
            if number == self._last:
                break
            jet = stage.leave(jet, functions, found.of(stage))
            if full is not None:
                full = stage.leave(full, tied, found.of(stage)[ends])
        return found, sure

    def digits_lost(self, place: Any) -> float:
        """How many decimal digits the functions of stages have lost at a place, by their error bounds."""
        worst = 0.0
        with self.field.active():
            at = self.field.places([place])
            jet = self.field.variable(at, at, 0)
            for stage in self.stages[: self._last + 1]:
                functions = None if stage.decide is None else stage.decide(jet)
                choice = None
                if functions is not None:
                    worst = float(np.max(functions.c.radius(), initial=worst))  # NaN stays
                    choice = (_signs if stage.units else _largest)(functions, stage)[0]
                jet = stage.leave(jet, functions, choice)
        if worst == 0.0:
            return 0.0
        return log10(worst * 2.0**self.field.precision) if worst < 1.0 else np.inf

    def passed(self, items: Items) -> Passed:
        """Send items through the network until something is not decided."""
        parts = [
            self._passed(items[np.arange(len(items))[rows]], rows.start) for rows in self._parts(len(items))
        ]
        return Passed(
            np.concatenate([p.stage for p in parts]),
            Choices.joined([p.known for p in parts]),
            np.concatenate([p.halve for p in parts]),
            [event for p in parts for event in p.events],  # of the stages where their items stopped
        )

    def _passed(self, items: Items, offset: int) -> Passed:
        n = len(items)
        self.n_evaluations += n
        known = items.known.copy()
        stopped = np.full(n, len(self.stages))
        halve = np.zeros(n, dtype=np.bool_)
        events: list[Event] = []
        jet = self.field.variable(items.a, items.b, self.field.order)
        middle = self.field.middle(items.a, items.b)
        alive = np.arange(n)
        for number, stage in enumerate(self.stages[: self._last + 1]):
            if stage.decide is None:
                jet = stage.leave(jet, None, None)
                continue
            functions = stage.decide(jet)
            self._seen(functions)
            free = self._free[number]
            open_ = np.flatnonzero((items.level[alive] <= number) | free)
            going = np.ones(len(alive), dtype=np.bool_)
            if len(open_):
                rows = alive[open_]
                ends = items.at_a.of(stage)[rows], items.at_b.of(stage)[rows]
                part = functions if len(open_) == len(alive) else functions.rows(open_)
                decided, choice, single, what = (_decide_signs if stage.units else _decide_largest)(
                    part, stage, *ends
                )
                known.of(stage)[rows] = choice  # what holds at a, and where it is decided
                fine, once = decided.all(axis=1), (decided | single).all(axis=1)
                halve[rows[~once]] = True
                stops = ~once if free else ~fine
                stopped[rows[stops]] = number
                going[open_[stops]] = False
                index, place = np.nonzero(~decided & once[:, None])
                if len(index):
                    whats = [what(i, p) for i, p in zip(index.tolist(), place.tolist(), strict=True)]
                    at = rows[index]
                    found = _increasing(part.rows(index), stage, np.array(whats), items.at_a[at])
                    events += [
                        Event(offset + int(row), number, whats[e], found.rows([e]), middle[row])
                        for e, row in enumerate(at)
                    ]
            if not going.all():
                alive = alive[going]
                if not len(alive):
                    break
                jet, functions = jet.rows(going), functions.rows(going)
            if number < self._last:
                jet = stage.leave(jet, functions, known.of(stage)[alive])
        reached = [
            event for event in events if stopped[event.item - offset] in (event.stage, len(self.stages))
        ]
        return Passed(stopped, known, halve, [e for e in reached if not halve[e.item - offset]])

    def _seen(self, functions: Jet) -> None:
        self._widest = max(self._widest, int(np.prod(functions.balls.shape[2:])))

    def _parts(self, n: int) -> list[slice]:
        step = max(1, min(self.field.batch, _NUMBERS // self._widest))
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    # Brackets of roots
    # ------------------------------------------------------------------------------------------------------

    def brackets(self, items: Items, events: list[Event]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Short intervals that hold the roots of events, one each."""
        at = np.array([event.item for event in events])
        return self._shrunk(events, items.a[at].copy(), items.b[at].copy(), items.known[at])

    def _shrunk(
        self, events: list[Event], a: NDArray[Any], b: NDArray[Any], known: Choices
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Brackets [a, b] made shorter by interval Newton steps.

        Slopes come from the jets of the items. So do values, as long as that helps; then the network is
        evaluated at points.
        """
        kind = type(events[0].function.balls)
        functions = Jet(kind.joined([event.function.balls for event in events], 1), np.zeros(len(events)))
        middle = self.field.places([event.middle for event in events])
        for sharp in (False, True):
            busy = np.flatnonzero(np.asarray(b - a > self.field.width, dtype=np.bool_))
            for _ in range(_NEWTON):
                if not len(busy):
                    break
                done = []
                for rows in self._parts(len(busy)) if sharp else [slice(None)]:
                    some = busy[rows]
                    m = self.field.middle(a[some], b[some])
                    if sharp:
                        value = self._values([events[i] for i in some.tolist()], m, known[some])
                    else:
                        value = self.field.value(functions.rows(some), middle[some], m)
                    slope = self.field.slope(functions.rows(some), middle[some], a[some], b[some])
                    new_a, new_b = self._step(a[some], b[some], m, value, slope)
                    width = new_b - new_a
                    slow = _as_numbers(width) > 0.9 * _as_numbers(b[some] - a[some])
                    done.append(np.asarray(width <= self.field.width, dtype=np.bool_) | slow)
                    a[some], b[some] = new_a, new_b
                busy = busy[~np.concatenate(done)]
        wide = np.flatnonzero(np.asarray(b - a > 2 * self.field.width, dtype=np.bool_))
        if len(wide) and self._backed(8 * len(wide)):
            assert self.backup is not None
            with self.backup.field.active():
                ends = self.backup.field.places(a[wide]), self.backup.field.places(b[wide])
                low, high = self.backup._shrunk([events[i] for i in wide.tolist()], *ends, known[wide])
            a[wide], b[wide] = outward(low, high)
        return a, b

    def _step(self, a: Any, b: Any, m: Any, value: Any, slope: Any) -> tuple[Any, Any]:
        """Brackets of roots of increasing functions after a step of Newton's from m."""
        low, high = self.field.newton(m, value, slope)
        low = np.where(value.negative(), np.maximum(low, m), low)
        high = np.where(value.positive(), np.minimum(high, m), high)
        new_a, new_b = np.maximum(a, low), np.minimum(b, high)
        crossed = np.asarray(new_a > new_b, dtype=np.bool_)  # only rounding of the last digits can do that
        return np.where(crossed, a, new_a), np.where(crossed, b, new_b)

    def _values(self, events: list[Event], places: NDArray[Any], known: Choices) -> Any:
        """The increasing functions of events at places of their own."""
        self.n_evaluations += len(events)
        jet = self.field.variable(places, places, 0)
        order = np.array([event.stage for event in events])
        found: list[tuple[NDArray[Any], Jet]] = []
        alive = np.arange(len(events))
        for number, stage in enumerate(self.stages[: self._last + 1]):
            if stage.decide is None:
                jet = stage.leave(jet, None, None)
                continue
            functions = stage.decide(jet)
            here = order[alive] == number
            if here.any():
                rows = alive[here]
                what = np.array([events[i].what for i in rows.tolist()])
                found.append((rows, _increasing(functions.rows(here), stage, what, known[rows])))
                if here.all():
                    break
                alive = alive[~here]
                jet, functions = jet.rows(~here), functions.rows(~here)
            jet = stage.leave(jet, functions, known.of(stage)[alive])
        rows = np.concatenate([rows for rows, _ in found])
        balls = type(found[0][1].balls).joined([jet.balls for _, jet in found], 1)
        return balls[0, np.argsort(rows)]

    # The search
    # ------------------------------------------------------------------------------------------------------

    def start(self, low: Any, high: Any) -> Items | None:
        """The whole of [low, high] as one item, if all choices at its two ends are certain."""
        ends = self.field.places([low, high])
        nothing = Choices.nothing(2, self.stages)
        level = np.zeros(2, dtype=np.int64)
        with self.field.active():
            found, sure = self.points(ends, level, nothing, insist=True)
        if not sure.all():
            return None
        return self.between(ends[:1], ends[1:], found[:1], found[1:])

    def between(self, a: NDArray[Any], b: NDArray[Any], at_a: Choices, at_b: Choices) -> Items:
        """One item whose ends are certain."""
        nothing = Choices.nothing(1, self.stages)
        return Items([(0,)], a, b, np.zeros(1, dtype=np.int64), nothing, at_a, at_b)

    def run(
        self, items: Items, stop: Callable[[int, float], bool] = lambda n, left: False
    ) -> tuple[list[Record], bool]:
        """Parts of the segment in order, and whether the search came to its end.

        ``stop`` is asked again and again, with the number of parts and the length that is left.
        """
        records: list[Record] = []
        ended: list[tuple[Items, list[Event]]] = []
        with self.field.active():
            while len(items):
                if stop(len(records), float((items.b - items.a).sum())):
                    records += [
                        Record(p, a, b, None) for p, a, b in zip(items.path, items.a, items.b, strict=True)
                    ]
                    break
                everything = np.arange(len(items))
                items, later = items[everything[: self.field.batch]], items[everything[self.field.batch :]]
                passed = self.passed(items)
                items = replace(items, known=passed.known, level=np.maximum(items.level, passed.stage))
                finished = passed.stage == len(self.stages)
                ended.append((items, [event for event in passed.events if finished[event.item]]))
                with_roots = np.zeros(len(items), dtype=np.bool_)
                with_roots[[event.item for event in ended[-1][1]]] = True
                for i in np.flatnonzero(finished & ~with_roots).tolist():
                    records.append(Record(items.path[i], items.a[i], items.b[i], items.known[i : i + 1]))
                after = []
                if passed.halve.any():
                    after.append(self._halved(items[passed.halve], records))
                cutting = [event for event in passed.events if not finished[event.item]]
                if cutting:
                    after.append(self._split(items, cutting, records))
                items = Items.joined([*after, later])  # from the start on
            self._ended(ended, records)
        records.sort(key=lambda record: record.path)
        return records, not len(items)

    def _halved(self, items: Items, records: list[Record]) -> Items:
        """Items cut in two where all signs are certain; those that cannot be cut are recorded as stuck."""
        short = np.asarray((items.b - items.a) <= self.field.least, dtype=np.bool_)
        waiting = np.flatnonzero(~short)
        long_ = bool(len(items)) and float(max(items.b - items.a)) > _LONG
        cuts: list[tuple[NDArray[Any], NDArray[Any], Choices]] = []
        for share in _SHARES:
            if not len(waiting):
                break
            places = self.field.middle(items.a[waiting], items.b[waiting], share)
            # what is known of the stage where it stopped is not certain at the cut
            level, known = items.level[waiting], items.known[waiting]
            # where points are not certain, short intervals are not either: the backup helps few, long ones
            found, sure = self.points(places, level, known, insist=share == _SHARES[-1] and long_)
            sure &= np.asarray((places > items.a[waiting]) & (places < items.b[waiting]), dtype=np.bool_)
            cuts.append((waiting[sure], places[sure], found[sure]))
            waiting = waiting[~sure]
        for i in [*np.flatnonzero(short).tolist(), *waiting.tolist()]:
            records.append(Record(items.path[i], items.a[i], items.b[i], None))
        halves = []
        for rows, places, found in cuts:
            if len(rows):
                part = items[rows]
                paths = [[(*path, side) for path in part.path] for side in (0, 1)]
                halves.append(replace(part, path=paths[0], b=places, at_b=found))
                halves.append(replace(part, path=paths[1], a=places, at_a=found))
        return Items.joined(halves) if halves else items[np.zeros(len(items), dtype=np.bool_)]

    def _split(self, items: Items, events: list[Event], records: list[Record]) -> Items:
        """Items cut at the roots of events."""
        low, high = self.brackets(items, events)
        margin = self.field.width / 8
        by_item: dict[int, list[int]] = {}
        for e, event in enumerate(events):
            by_item.setdefault(event.item, []).append(e)
        plans: list[tuple[int, list[_Cut]]] = []
        for i, mine in by_item.items():
            plans.append((i, self._cuts(items, i, [events[e] for e in mine], low[mine], high[mine], margin)))
        self._certify(items, plans, margin)
        made: list[Items] = []
        failed = []
        for i, cuts in plans:
            if _in_order(cuts):
                made += self._children(items, i, cuts, records)
            else:
                failed.append(i)
        if failed:
            made.append(self._halved(items[np.array(failed)], records))
        return Items.joined(made) if made else items[np.zeros(len(items), dtype=np.bool_)]

    def _ended(self, ended: list[tuple[Items, list[Event]]], records: list[Record]) -> None:
        """The parts of items that passed all stages, cut at the roots in them; all items at once."""
        offsets = np.cumsum([0, *(len(items) for items, _ in ended)]).tolist()
        moved = zip(offsets, ended, strict=False)
        events = [event._replace(item=event.item + first) for first, (_, some) in moved for event in some]
        if not events:
            return
        items = Items.joined([items for items, _ in ended])
        low, high = self.brackets(items, events)
        by_item: dict[int, list[int]] = {}
        for e, event in enumerate(events):
            by_item.setdefault(event.item, []).append(e)
        for i, mine in by_item.items():
            cuts = self._cuts(
                items, i, [events[e] for e in mine], low[mine], high[mine], self.field.width / 8
            )
            begin, number = items.a[i], 0
            for cut in cuts:
                records.append(
                    Record((*items.path[i], number), begin, cut.beta if cut.single else cut.alpha, cut.before)
                )
                if not cut.single:
                    records.append(Record((*items.path[i], number + 1), cut.alpha, cut.beta, None))
                begin, number = (cut.alpha if cut.single else cut.beta), number + 2
            records.append(Record((*items.path[i], number), begin, items.b[i], cuts[-1].after))

    def _cuts(
        self, items: Items, i: int, events: list[Event], low: Any, high: Any, margin: Any
    ) -> list[_Cut]:
        """Brackets in order, those that overlap joined; with the choices before and behind each."""
        a, b = items.a[i], items.b[i]
        cuts: list[_Cut] = []
        choices = items.known[i : i + 1]
        for e in sorted(range(len(events)), key=lambda e: (low[e], high[e])):
            alpha, beta = max(a, low[e] - margin), min(b, high[e] + margin)
            if cuts and alpha <= cuts[-1].beta:
                last = cuts[-1]
                event, stage = events[e], self.stages[events[e].stage]
                same = (
                    event.stage == other.stage and stage.same(event.what, other.what) for other in last.events
                )
                last.beta, last.single = max(beta, last.beta), last.single and all(same)
                last.events.append(event)
            else:
                cuts.append(_Cut(alpha, beta, [events[e]], True, choices, choices))
            cut = cuts[-1]
            choices = _switched(cut.after, self.stages[events[e].stage], events[e].what)
            cut.after = choices
        return cuts

    def _certify(self, items: Items, plans: list[tuple[int, list[_Cut]]], margin: Any) -> None:
        """The choices behind the known stages at both ends of every bracket, on the side it is needed for."""
        level = {i: int(items.level[i]) + 1 for i, _ in plans}
        for attempt in range(6):
            waiting = [(i, cut) for i, cuts in plans for cut in cuts if cut.left is None or cut.right is None]
            if not waiting:
                return
            if attempt:
                for i, cut in waiting:  # something happens beside the root: the two are not separated here
                    grow = margin * 8 * 4**attempt
                    cut.single = False
                    cut.alpha, cut.beta = max(items.a[i], cut.alpha - grow), min(items.b[i], cut.beta + grow)
            places, known = [], []
            for _, cut in waiting:
                # a bracket with one root: followed up to its far end; otherwise only up to its near end
                places += [cut.beta, cut.alpha] if cut.single else [cut.alpha, cut.beta]
                known += [cut.before, cut.after]
            levels = np.repeat([level[i] for i, _ in waiting], 2)
            found, sure = self.points(self.field.places(places), levels, Choices.joined(known), insist=True)
            for k, (_, cut) in enumerate(waiting):
                if sure[2 * k] and sure[2 * k + 1]:
                    cut.left, cut.right = found[2 * k : 2 * k + 1], found[2 * k + 1 : 2 * k + 2]

    def _children(self, items: Items, i: int, cuts: list[_Cut], records: list[Record]) -> list[Items]:
        """The parts of an item between its brackets."""
        path, level = items.path[i], np.array([int(items.level[i]) + 1])
        made = []
        begin, at_begin, number = items.a[i], items.at_a[i : i + 1], 0
        for cut in [*cuts, None]:
            if cut is None:
                end, at_end, known = items.b[i], items.at_b[i : i + 1], cuts[-1].after
            else:
                assert cut.left is not None
                end, at_end, known = (cut.beta if cut.single else cut.alpha), cut.left, cut.before
            ends = self.field.places([begin, end])
            if begin < end:
                made.append(Items([(*path, number)], ends[:1], ends[1:], level, known, at_begin, at_end))
            if cut is not None:
                assert cut.right is not None
                if not cut.single:
                    records.append(Record((*path, number + 1), cut.alpha, cut.beta, None))
                begin, at_begin, number = (cut.alpha if cut.single else cut.beta), cut.right, number + 2
        return made


@dataclass
class _Cut:
    """A bracket inside an item: ``single`` if it holds one root, with the choices before and behind it."""

    alpha: Any
    beta: Any
    events: list[Event]
    single: bool
    before: Choices
    after: Choices
    left: Choices | None = None  # all choices at the end of the part before
    right: Choices | None = None  # and at the beginning of the part behind


def _in_order(cuts: list[_Cut]) -> bool:
    """Whether brackets are certified and apart."""
    return all(cut.left is not None for cut in cuts) and all(p.beta < q.alpha for p, q in pairwise(cuts))


# Decisions
# ----------------------------------------------------------------------------------------------------------


def _signs(z: Jet, stage: Stage, inward: Any = None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which units are on at points, and where that is certain; zero is off.

    With ``inward`` the points are ends of the segment: a function that vanishes there has the sign of its
    slope into the segment.
    """
    value = z.c
    on, sure = value.positive(), value.positive() | value.negative() | value.zero()
    if inward is not None:
        slope, zero = z.balls[1], value.zero()
        rises = np.where(inward[:, None] > 0, slope.positive(), slope.negative())
        falls = np.where(inward[:, None] > 0, slope.negative(), slope.positive())
        on, sure = on | (zero & rises), sure & (~zero | rises | falls | slope.zero())
    return on, sure


def _largest(scores: Jet, stage: Stage, inward: Any = None) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The winners at points, and where they are certain."""
    middle = np.where(stage.present, midpoints(scores.c), -np.inf)
    if inward is not None:  # among keys that tie at an end, the steepest is ahead
        slopes = midpoints(scores.balls[1]) * inward[:, None, None]
        best = middle.max(axis=-1, keepdims=True)
        middle = np.where(middle == best, slopes, -np.inf)
        middle = np.where(stage.present, middle, -np.inf)
    winner = middle.argmax(axis=-1)
    ahead = taken(scores, winner, keep=True) - scores
    sure = ahead.c.positive()
    if inward is not None:
        slope = ahead.balls[1]
        rises = np.where(inward[:, None, None] > 0, slope.positive(), slope.negative())
        sure = sure | (ahead.c.zero() & rises)
    others = stage.present & (np.arange(stage.present.shape[1]) != winner[..., None])
    return winner.astype(np.int32), (sure | ~others).all(axis=-1)


def _decide_signs(z: Jet, stage: Stage, at_a: NDArray[Any], at_b: NDArray[Any]) -> tuple[Any, Any, Any, Any]:
    """Which units keep their sign, their bits, and which of the others have exactly one root."""
    value, slope = z.value(), z.slope()
    on, off = value.positive(), value.negative() | (value.zero())
    monotone = slope.positive() | slope.negative()
    decided = on | off | (monotone & (at_a == at_b))
    bits = np.where(on, True, np.where(off, False, at_a))
    return decided, bits, monotone & (at_a != at_b), lambda i, unit: (unit,)


def _decide_largest(
    scores: Jet, stage: Stage, at_a: NDArray[Any], at_b: NDArray[Any]
) -> tuple[Any, Any, Any, Any]:
    """Which groups keep their winner, the winners at a, and which of the others change it exactly once."""
    places = np.arange(stage.present.shape[1])
    ahead = taken(scores, at_a, keep=True) - scores
    slope = ahead.slope()
    monotone = slope.positive() | slope.negative()
    behind = ahead.value().positive() | ~stage.present
    same = (at_a == at_b)[..., None]
    decided = (behind | (monotone & same) | (places == at_a[..., None])).all(axis=-1)
    single = np.zeros_like(decided)
    if not decided.all():
        never = behind | (taken(scores, at_b, keep=True) - scores).value().positive()
        never |= (places == at_a[..., None]) | (places == at_b[..., None])
        turns = np.take_along_axis(monotone, at_b[..., None].astype(np.int64), axis=-1)[..., 0]
        single = ~same[..., 0] & turns & never.all(axis=-1)
    return decided, at_a, single, lambda i, g: (g, int(at_a[i, g]), int(at_b[i, g]))


def _increasing(functions: Jet, stage: Stage, what: NDArray[Any], at_a: Choices) -> Jet:
    """The functions of events, with the sign that makes them increase."""
    rows = np.arange(len(what))
    if stage.units:
        unit = what[:, 0]
        z = functions.arranged(lambda array: array[:, rows, unit])
        sign = np.where(at_a.of(stage)[rows, unit], -1.0, 1.0)
        return z.times(type(z.c).exactly(sign))
    group, old, new = what.T
    before = functions.arranged(lambda array: array[:, rows, group, old])
    return functions.arranged(lambda array: array[:, rows, group, new]) - before


def _switched(choices: Choices, stage: Stage, what: tuple[int, ...]) -> Choices:
    """The choices behind an event."""
    after = choices.copy()
    if stage.units:
        after.of(stage)[0, what[0]] ^= True
    else:
        after.of(stage)[0, what[0]] = what[2]
    return after


def _as_numbers(widths: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([float(w) for w in widths]) if widths.dtype == object else widths
