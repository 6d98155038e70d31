r"""The sweep from one end of a segment to the other: what happens next, for certain.

Every row (a head at a token, a unit, a group of pieces) knows its winner and a place before which certainly
no rival overtakes it. The row with the least such place comes next, and it comes alone if floats prove that
its rival has overtaken before anything else can happen. Otherwise the rows that compete are decided in
rationals: the places are roots of quadratics, compared exactly
(:mod:`~hardmax.exact.quadratic_numbers`). Behind a break only the tokens that have changed are recomputed,
block by block; winners that floats leave open just behind it are decided by the signs of exact differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.quadratic_numbers import Polynomial, QuadraticNumber, upward_root
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Transformer
from hardmax.regions.sequences.exact_states import ExactStates, difference
from hardmax.regions.sequences.kernels import crossings, earliest, settle
from hardmax.regions.sequences.stages import STAGES, Stage, first_states

Row = tuple[int, int, int]  # block, token, group

_NO_EVENT = np.array([-1, -1, -1], dtype=np.int64)


@dataclass(frozen=True)
class Place:
    """A break, known between two floats and exactly on demand."""

    low: float
    high: float
    find: Callable[[], QuadraticNumber]

    @cached_property
    def exact(self) -> QuadraticNumber:
        """The place without rounding."""
        return self.find()


@dataclass(frozen=True)
class Event:
    """Rows whose winner changes at one place; for a single one that floats proved, the new winner."""

    place: Place
    rows: tuple[Row, ...]
    overtaken_by: int | None


@dataclass
class Record:
    """What the sweep found: winners of the first piece, and what changes from piece to piece."""

    winners: list[NDArray[np.int32] | None] = field(default_factory=list)
    breaks: list[Event] = field(default_factory=list)
    broken: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # a row, its old and new key
    changes: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # piece, row, new key
    ties: list[tuple[int, int, int, int, tuple[int, ...]]] = field(default_factory=list)
    n_filter: int = 0
    n_exact: int = 0


class Sweep:
    """One segment of sequences, piece by piece.

    Parameters
    ----------
    transformer : Transformer
        Piecewise affine.
    start, end : ExactArray
        Two sequences (T, d).
    """

    def __init__(self, transformer: Transformer, start: ExactArray, end: ExactArray) -> None:
        self._transformer = transformer
        self._start, self._step = start, step_of(start, end)
        self._n = start.shape[0]
        self.stages: list[Stage] = []
        states = first_states(start, self._step)
        for block, tokens in zip(transformer.blocks, transformer.computed(self._n), strict=True):
            stage = STAGES[type(block)](block, states, np.array(tokens, dtype=np.int64))
            self.stages.append(stage)
            states = stage.target
        self._cutting = [i for i, stage in enumerate(self.stages) if stage.rows is not None]
        rows = max((self.stages[i].rows.winner.size for i in self._cutting), default=0)  # type: ignore[union-attr]
        self._log, self._opened = np.zeros((rows, 3), dtype=np.int64), np.zeros((rows, 2), dtype=np.int64)
        self._earliest: dict[int, tuple[float, float, int, int]] = {}
        self._version = 0  # of the winners
        self._exact: dict[int, ExactStates] = {}
        self.record = Record()
        self.done = False
        self.place = Place(0.0, 0.0, lambda: QuadraticNumber.of(0))
        with np.errstate(all="ignore"):
            self._pass(0, np.ones(self._n, dtype=np.bool_), None)
        self.record.winners = self._winners()
        self.record.changes.clear()

    @property
    def n_pieces(self) -> int:
        """The pieces that are certain to have begun."""
        return len(self.record.breaks) + 1

    def advance(self) -> None:
        """Go to the next break and across it."""
        with np.errstate(all="ignore"):
            event = self._next()
            if event is None:
                self.done = True
                return
            i, t, g = event.rows[0]
            old = int(self._rows(i).winner[t, g])
            self.record.breaks.append(event)
            self.place = event.place
            self._pass(i, np.zeros(self._n, dtype=np.bool_), event)
            self.record.broken.append((i, t, g, old, int(self._rows(i).winner[t, g])))

    # What comes next
    # ------------------------------------------------------------------------------------------------------

    def _next(self) -> Event | None:
        first, other, at = np.inf, np.inf, (-1, -1, -1)
        for i in self._cutting:
            low, second, t, g = self._earliest_of(i)
            if low < first:
                first, other, at = low, min(first, other, second), (i, t, g)
            else:
                other = min(other, low)
        if first == np.inf:
            return None
        rows = self._rows(at[0])
        high = float(rows.high[at[1:]])
        if high < min(other, float(rows.second[at[1:]])) and high < 1.0:
            rival = int(rows.rival[at[1:]])
            self.record.n_filter += 1
            old, new = int(rows.winner[at[1:]]), rival
            before = self._snapshot()
            find = lambda: crossed(before(), at, old, new)  # noqa: E731
            return Event(Place(first, high, find), (at,), rival)
        self.record.n_exact += 1
        return self._next_exactly()

    def _earliest_of(self, i: int) -> tuple[float, float, int, int]:
        found = self._earliest.get(i)
        if found is None:
            at = np.empty(2, dtype=np.int64)
            low, second = earliest(self._rows(i).low, self.stages[i].tokens, at)
            found = self._earliest[i] = (low, second, int(at[0]), int(at[1]))
        return found

    def _next_exactly(self) -> Event | None:
        """The next break where floats do not tell which row comes first."""
        places: dict[Row, QuadraticNumber | None] = {}
        while True:
            bound = min(1.0, *(float(self._rows(i).high.min()) for i in self._cutting))
            competing = [
                (i, t, g)
                for i in self._cutting
                for t, g in np.argwhere(self._rows(i).low <= bound).tolist()
                if (i, t, g) not in places
            ]
            if not competing:
                break
            for row in competing:
                places[row] = self._overtaken_at(row)
        self._earliest.clear()
        found = {row: place for row, place in places.items() if place is not None}
        if not found:
            return None
        place = min(found.values())
        rows = tuple(sorted(row for row, other in found.items() if other == place))
        return Event(Place(*place.enclosure(), lambda: place), rows, None)

    def _overtaken_at(self, row: Row) -> QuadraticNumber | None:
        """Where the winner of a row is overtaken, exactly; the row then knows it as well as floats can."""
        i, t, g = row
        rows = self._rows(i)
        lows, highs = np.empty((2, rows.present.shape[2]))
        crossings(rows, t, g, self.place.low, self.place.high, lows, highs)
        w = int(rows.winner[t, g])
        places: dict[int, QuadraticNumber | None] = {}
        while True:
            bound = min(1.0, float(highs.min()))
            competing = [k for k in np.flatnonzero(lows <= bound).tolist() if k not in places]
            if not competing:
                break
            for k in competing:
                place = places[k] = self._overtakes_at(self._difference(row, k, w))
                lows[k], highs[k] = (np.inf, np.inf) if place is None else place.enclosure()
        self._summarise(row, lows, highs)
        return min((place for place in places.values() if place is not None), default=None)

    def _summarise(self, row: Row, lows: Any, highs: Any) -> None:
        i, t, g = row
        rows = self._rows(i)
        k = int(lows.argmin())
        rows.low[t, g], rows.high[t, g], rows.rival[t, g] = lows[k], highs[k], k
        rows.second[t, g] = np.partition(lows, 1)[1] if len(lows) > 1 else np.inf

    def _overtakes_at(self, d: Polynomial) -> QuadraticNumber | None:
        """Where a difference that is negative or zero just behind the present place becomes positive."""
        root = upward_root(d)
        if root is None or root >= 1:
            return None
        if d[2] < 0:  # the root of a concave one may lie behind us
            low, high = root.enclosure()
            if high < self.place.low or (low <= self.place.high and root <= self.place.exact):
                return None
        return root

    # Across a break
    # ------------------------------------------------------------------------------------------------------

    def _pass(self, first: int, changed: NDArray[np.bool_], event: Event | None) -> None:
        """Bring all stages from the first one on to just behind the present place."""
        rows = () if event is None else event.rows
        last = max((i for i, _, _ in rows), default=first)
        proven = _NO_EVENT
        for i in range(first, len(self.stages)):
            stage, forced = self.stages[i], [(t, g) for j, t, g in rows if j == i]
            if not changed.any() and not forced:
                if i > last:
                    break
                continue
            if event is not None and event.overtaken_by is not None and forced:
                proven, forced = np.array([*forced[0], event.overtaken_by], dtype=np.int64), []
            changed = self._pass_stage(i, stage, changed, proven, forced)
            proven = _NO_EVENT

    def _pass_stage(
        self,
        i: int,
        stage: Stage,
        changed: NDArray[np.bool_],
        proven: NDArray[np.int64],
        forced: list[tuple[int, int]],
    ) -> NDArray[np.bool_]:
        tokens = np.flatnonzero(changed)
        stage.refresh(tokens, changed)
        if stage.rows is None:
            dirty = changed & stage.computed
        else:
            dirty = np.zeros(self._n, dtype=np.bool_)
            n_log, n_open = settle(
                stage.rows, stage.tokens, changed, stage.moving, stage.units, self.place.low,
                self.place.high, proven, dirty, self._log, self._opened,
            )  # fmt: skip
            self._earliest.pop(i, None)
            piece = len(self.record.breaks)
            if n_log:
                self._version += 1
                self.record.changes.extend((piece, i, *change) for change in self._log[:n_log].tolist())
            for t, g in {*forced, *map(tuple, self._opened[:n_open].tolist())}:
                if self._settle_exactly((i, t, g), changed):
                    dirty[t] = True
        stage.output(np.flatnonzero(dirty))
        return dirty

    def _settle_exactly(self, row: Row, changed: NDArray[np.bool_]) -> bool:
        """The winner of a row just behind the present place, in rationals; whether its output is new."""
        i, t, g = row
        stage, rows = self.stages[i], self._rows(i)
        here, old = self.place.exact, int(rows.winner[t, g])
        lows, highs = np.empty((2, rows.present.shape[2]))
        q, s = rows.quadratics[t, g], self.place.high
        values = np.where(rows.present[t, g], q[:, 0] + s * (q[:, 1] + s * q[:, 2]), -np.inf)
        guess = best = int(np.flatnonzero(rows.present[t, g])[0])
        if np.isfinite(values).any() and not np.isnan(values).any():
            guess = best = int(values.argmax())
        rows.winner[t, g] = guess
        crossings(rows, t, g, self.place.low, self.place.high, lows, highs)
        near = [k for k in range(len(lows)) if lows[k] < 0.0]
        for k in near:
            if here.sign_after(self._difference(row, k, best)) > 0:
                best = k
        tied = [k for k in sorted({guess, *near}) if not any(self._difference(row, k, best))]
        chosen = stage.block.chosen(tied) if isinstance(stage.block, SelfAttention) else tied[:1]
        winner = rows.winner[t, g] = chosen[0]
        if winner != guess:
            crossings(rows, t, g, self.place.low, self.place.high, lows, highs)
        for k in np.flatnonzero(lows < 0.0).tolist():
            place = self._overtakes_at(self._difference(row, k, winner))
            lows[k], highs[k] = (np.inf, np.inf) if place is None else place.enclosure()
        self._summarise(row, lows, highs)
        self._earliest.pop(i, None)
        rows.tied[t, g] = len(tied) > 1
        shared = tuple(chosen) if len(chosen) > 1 else ()
        before = stage.ties.pop((t, g), ())
        if shared:
            stage.ties[t, g] = shared
        piece = len(self.record.breaks)
        self._version += winner != old or winner != guess or shared != before
        if winner != old:
            self.record.changes.append((piece, i, t, g, winner))
        if shared != before:
            self.record.ties.append((piece, i, t, g, shared))
        moved = stage.moving and any(changed[k] for k in chosen)
        return bool(changed[t] or moved or winner != old or shared != before)

    # Exact values
    # ------------------------------------------------------------------------------------------------------

    def _rows(self, i: int) -> Any:
        return self.stages[i].rows

    def _winners(self) -> list[NDArray[np.int32] | None]:
        return [None if stage.rows is None else stage.rows.winner.copy() for stage in self.stages]

    def _ties(self) -> dict[Row, tuple[int, ...]]:
        return {(i, *at): keys for i, stage in enumerate(self.stages) for at, keys in stage.ties.items()}

    def _snapshot(self) -> Callable[[], ExactStates]:
        """The exact states of the present winners, to be made later."""
        made = self._exact.get(self._version)
        if made is not None:
            return lambda: made
        parts = self._transformer, self._start, self._step, self._winners(), self._ties()
        return lambda: ExactStates(*parts)

    def _difference(self, row: Row, k: int, w: int) -> Polynomial:
        """The exact score of key k of a row minus that of key w.

        Winners of the row's own block and of those behind it may still be old: the score does not depend on
        them.
        """
        exact = self._exact.get(self._version)
        if exact is None:
            self._exact = {self._version: self._snapshot()()}
            exact = self._exact[self._version]
        return difference(exact.score(*row, k), exact.score(*row, w))


def crossed(exact: ExactStates, row: Row, old: int, new: int) -> QuadraticNumber:
    """Where one key of a row overtakes another: a quadratic becomes positive once at most."""
    place = upward_root(difference(exact.score(*row, new), exact.score(*row, old)))
    assert place is not None
    return place


def step_of(start: ExactArray, end: ExactArray) -> ExactArray:
    """The difference of two sequences, exactly."""
    return as_exact(fractions_of(end) - fractions_of(start), "end", ndim=2)
