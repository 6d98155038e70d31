r"""The segment engine: the cells of a network on the line or on an interval, exactly.

On an interval of the partition so far the hidden vector is :math:`y = us + c`, with :math:`s` the position
relative to a point of the domain, so the scores of the next layer are affine in :math:`s`: units change sign
at roots, the winners of a head form the upper envelope of lines. Both cut the interval into its *children*,
from left to right. Many intervals are sent through a layer by one matrix product, which is all the cost of a
big network.

A *frame* holds intervals that entered a layer and their children, which are taken from it a batch at a time
into the frame of the next layer; the children of the last layer are cells. The frames are a stack, so memory
does not grow with the number of cells, and cells come out in the order of the line. Whole batches that wait
in a frame are pieces that another machine can process: it forms the same products, to the last bit.

Floats decide with the bounds of :func:`~hardmax.regions.engine.layer_kernels.enter`. Signs at ends, winners
and the order of breaks that they leave open are decided behind them
(:mod:`hardmax.regions.segment.undecided`); breaks that coincide are one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import EmptyDomainError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, nearest_float
from hardmax.geometry.domains import Domain
from hardmax.networks.layers import ArgmaxLayer, Layer, ReluLayer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, Cells
from hardmax.regions.engine import layer_kernels as constants
from hardmax.regions.engine.decide import OutOfTime
from hardmax.regions.engine.layer_kernels import ERRORS, GAMMA, GAMMA_OUT, RHO, RHO_OUT, TAME
from hardmax.regions.engine.program import Program, norms_of
from hardmax.regions.engine.stack_machine import ARITHMETICS, SERIALS, State, Tally
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.segment import kernels
from hardmax.regions.segment.geometry import Place, interval_cells, interval_of
from hardmax.regions.segment.undecided import Events, Intervals, Undecided, rows_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TERMS = 384  # summed at once
_NUMBERS = 2**19  # per array of a batch: 4 MB
_CELLS = 8192  # counted or written down at once
_MOST = 512  # intervals of a batch; bigger ones are no faster, and more batches are more tasks
_BIG = 2**14  # weights
_NO_UNITS = np.zeros((1, 1), dtype=np.uint64)


class Stage:
    r"""A layer of the program as batches read it.

    Hidden vectors of many intervals are the rows of one array (2, n, m), first all slopes :math:`u`, then all
    constants :math:`c`, so a layer is one matrix product. Rows of scores are bounded by their own norms here,
    not by the largest of them.
    """

    def __init__(self, program: Program, i: int) -> None:
        self.layer = layer = program.layers[i]
        self.table = program.table[i : i + 1]
        self.f = f = program.bounds[i].copy()
        self.scores = None if layer.scores is None else layer.scores.floats
        self.biases = np.array(layer.biases.floats)
        self.outputs = self.unit_norms = np.zeros((0, 0))
        self.row_norms = np.ones(len(self.biases)) if layer.scores is None else _row_norms(layer)
        if layer.cuts:
            outputs = cast(ReluLayer, layer).outputs.floats
            self.outputs = np.ascontiguousarray(outputs.T if layer.units else outputs)
        if layer.units:
            self.unit_norms = norms_of(self.outputs)
            f[GAMMA_OUT] = (min(layer.units, _TERMS) + layer.units // _TERMS + 10) * constants.UNIT
        if not np.isfinite(self.row_norms).all():
            f[RHO:GAMMA] = np.inf
        if any(_lost(array).any() for array in layer.factors[-1]):
            f[RHO_OUT:] = np.inf

    @property
    def gamma(self) -> float:
        """Relative error of the sums behind a score, the rounding of the weights included."""
        return float(self.f[GAMMA])

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.biases) * self.layer.d_in + self.outputs.size

    def rows(self, y: Floats) -> Floats:
        """Scores of n intervals: (2, n, d_in) to (2, n, rows)."""
        two, n, m = y.shape
        z = y.copy() if self.scores is None else (y.reshape(2 * n, m) @ self.scores.T).reshape(two, n, -1)
        z[1] += self.biases
        return np.asarray(z)

    def errors(
        self, y: Floats, z: Floats, entering: Floats, f: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Bounds for the scores and for what leaves, by ``kernels.interval_errors``; ``f`` replaces norms."""
        n = y.shape[1]
        rows, leaving = np.empty((2, n)), np.empty((4, n))
        flat = np.ascontiguousarray(y).ravel(), np.ascontiguousarray(z).ravel()
        kernels.interval_errors(
            self.table, self.f if f is None else f, n, *flat, np.ascontiguousarray(entering),
            np.zeros(ERRORS), rows, leaving,
        )  # fmt: skip
        return rows, leaving

    def folded(self, y: Floats, z: Floats, on: NDArray[np.bool_]) -> Floats:
        """What leaves a fold layer when these units are on."""
        two, n, units = z.shape
        masked = np.where(on, z, 0.0).reshape(two * n, units)
        left = masked[:, :_TERMS] @ self.outputs[:_TERMS]
        for begin in range(_TERMS, units, _TERMS):  # shorter sums have smaller bounds
            left += masked[:, begin : begin + _TERMS] @ self.outputs[begin : begin + _TERMS]
        left = left.reshape(two, n, -1)
        left[1] += self.layer.offsets.floats  # type: ignore[union-attr]
        if self.layer.skip:  # type: ignore[union-attr]
            left += y
        return np.asarray(left)

    def changes(self, z: Floats, left: Floats, parents: Integers, units: Integers) -> Floats:
        r"""How much more the children of a fold may be off than ``left``, which leaves for the leftmost.

        ``parents`` and ``units`` name the units that change inside. Each change adds :math:`\pm z_i U_i` to
        the sum so far, E of them to one of norm at most :math:`\|left\| + \sum |z_i| \|U_i\|`.
        """
        n = z.shape[1]
        count = np.bincount(parents, minlength=n)
        sizes = [self.unit_norms[units] * np.abs(part[parents, units]) for part in z]
        moved = [
            norms_of(part) + 1.0001 * np.bincount(parents, weights=size, minlength=n)
            for part, size in zip(left, sizes, strict=True)
        ]
        changed = np.where(count > 0, 1.01 * constants.UNIT * (count + 1) * np.array(moved), 0.0)
        return np.tile(changed, (2, 1))


def stages_of(layers: tuple[Layer, ...]) -> tuple[Stage, ...]:
    """The layers up to the last with a max-group, or one affine layer."""
    program = Program.of(layers, columns=2, whole=True)
    cut = [i + 1 for i, layer in enumerate(layers) if layer.cuts] or [int(len(layers) == 1)]
    return tuple(Stage(program, i) for i in range(cut[-1]))


def _row_norms(layer: Layer) -> Floats:
    """Norms of the rows of scores, rounded up; infinite where they prove nothing."""
    assert layer.scores is not None
    rows = 1.01 * norms_of(layer.scores.floats)
    rows[(rows > 0.0) & ~((rows > 1.0 / TAME) & (rows < TAME))] = np.inf
    rows[_lost(layer.scores).any(axis=1) | _lost(layer.biases)] = np.inf
    return rows


def _lost(array: ExactArray) -> NDArray[np.bool_]:
    """Fractions that are so small that floats do not hold them to relative accuracy."""
    if array.fractions is None:
        return np.zeros(array.shape, dtype=np.bool_)
    return np.asarray((np.abs(array.floats) < 1e-290) & (array.fractions != 0))


@dataclass
class Frame:
    """Intervals in a layer, and their children, of which the first ``cursor`` have been taken."""

    layer: int
    bits: NDArray[np.uint64]
    routings: NDArray[np.int32]
    tied: NDArray[np.uint8]
    child_parent: Integers
    ev_start: Integers
    ends: Floats  # low, its error, high, its error: (4, children)
    names: Integers  # owner and wall of the low end, of the high end: (4, children)
    carry_bits: NDArray[np.uint64]
    cursor: int = 0
    ev_group: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    ev_key: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    # what enters (walls), or leaves before the first event (folds): (2, n, m)
    y: Floats = field(default_factory=lambda: np.zeros((2, 0, 0)))
    z: Floats = field(default_factory=lambda: np.zeros((2, 0, 0)))  # scores (folds)
    errors: Floats = field(default_factory=lambda: np.zeros((4, 1)))  # of what leaves: (4, n)
    on: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 0), np.uint64))
    winner: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    more_outputs: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # of keys that win together
    more_keys: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    carry_y: Floats = field(default_factory=lambda: np.zeros((2, 1)))
    carry_winner: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    carried: int = 0  # where the three above stand; cells that are only counted do not move it

    @property
    def children(self) -> int:
        """How many intervals come next."""
        return len(self.child_parent)


class SegmentMachine:
    """A resumable enumeration on the line: ``advance`` until ``done``, then read counts and cells.

    Parameters
    ----------
    layers : tuple of Layer
        The network; its input is the line.
    domain : Domain
        An interval, a half-line or the line.
    arithmetic : str
        ``"certified"``, ``"exact"`` or ``"float"``.
    store : bool
        Whether cells are written down or only counted.
    sliver : float
        A cell shorter than this counts as a sliver, in units of the size of a bounded domain.
    stages : tuple of Stage, optional
        The layers, laid out before.

    Examples
    --------
    >>> from hardmax.geometry.domains import Box
    >>> from hardmax.networks.constructions import sawtooth_network
    >>> from hardmax.networks.layers import layers_of
    >>> net = sawtooth_network(1, n_tokens=3, teeth=2, depth=2)
    >>> machine = SegmentMachine(
    ...     layers_of(net), Box([0], [1]), arithmetic="certified", store=True, sliver=0.0)
    >>> machine.advance(10_000)
    >>> machine.done, machine.n_cells
    (True, 144)
    """

    state_lasts = True  # arrays of a frame are replaced, never written again
    small_steps = False  # a step is a whole batch
    deadline: float = np.inf  # when, by time.monotonic, even a decision in rationals is left

    def __init__(
        self,
        layers: tuple[Layer, ...],
        domain: Domain,
        *,
        arithmetic: str,
        store: bool,
        sliver: float,
        stages: tuple[Stage, ...] | None = None,
    ) -> None:
        self.layers = layers
        self.domain = domain
        self.exact_maps = ExactMaps(layers, domain)
        self.stages = stages_of(layers) if stages is None else stages
        cuts = [i for i, layer in enumerate(layers) if layer.cuts]
        self.last = cuts[-1] if cuts else -1
        self.words, self.heads = -(-sum(layer.units for layer in layers) // 64), sum(l.heads for l in layers)
        self.trust = ARITHMETICS[arithmetic]
        self.store = store
        self.most_cells = np.iinfo(np.int64).max
        sizes = [max(len(stage.biases), stage.layer.d_in, stage.layer.d_out) for stage in self.stages]
        self.batch = int(np.clip(_NUMBERS // max(sizes, default=1), 32, _MOST))
        if self.trust == constants.EXACT:
            self.batch = 2  # so that a time limit finds an end of a step
        self.layer_cells = np.zeros(len(layers) + 1, dtype=np.int64)
        self.shares = [[4.0, 1.0] for _ in layers]  # events and questions of an interval to leave room for
        self.serial = 0
        self.n_cells = self.n_slivers = self.n_unbounded = 0
        self.total = 0.0
        self.log2_cost = self._log2_cost()
        # a second look at a length is expensive in a big network
        self.doubt = 4.0 if sum(stage.size for stage in self.stages) >= _BIG else 1e7
        self.whole = True  # false while a batch is being booked
        self.written: list[dict[str, NDArray[Any]]] = []
        self._begin(sliver)

    def _log2_cost(self) -> int:
        """A cell takes about 2^log2_cost times as long as in the plane, in floats; it pays for products, and
        for its length, which is nearly always looked at twice.
        """
        weights = sum(stage.size for stage in self.stages)
        slow = int(np.clip(weights.bit_length() - 15, 2, 8))
        return slow + (6 if self.trust == constants.EXACT else 0)

    # the domain

    def _begin(self, sliver: float) -> None:
        rows = [self.exact_maps.domain_line(i) for i in range(self.domain.b.shape[0])]
        interval = interval_of(rows)
        if interval is None:
            raise EmptyDomainError(
                "domain must have interior, but its half-lines leave no open set; check A x <= b."
            )
        low, low_side, high, high_side = interval
        self.ends = low, high
        self.origin = _origin(low, high)
        self.undecided = Undecided(self.layers, self.stages, self.exact_maps, self.trust, self.origin)
        self.unbounded = not (isinstance(low, Fraction) and isinstance(high, Fraction))
        self.unit, self.domain_length = (1.0, 0.0) if self.unbounded else _size(high - low)  # type: ignore[arg-type]
        self.sliver = sliver * self.unit
        ends = np.zeros((4, 1))
        ends[0], ends[1] = self.undecided.float_place(low)
        ends[2], ends[3] = self.undecided.float_place(high)
        sides = [(DOMAIN_SIDE, i) if i >= 0 else (AT_INFINITY, 0) for i in (low_side, high_side)]
        bits, routings = np.zeros((1, self.words), np.uint64), np.zeros((1, self.heads), np.int32)
        self.frames = [
            Frame(
                -1, bits, routings, np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(2, np.int64),
                ends, np.array(sides, dtype=np.int64).reshape(4, 1), bits[0].copy(),
                y=np.array([[[1.0]], [[self.origin]]]),
            )
        ]  # fmt: skip

    # running

    def limit(self, max_cells: int | None) -> None:
        """Stop after so many cells."""
        self.most_cells = np.iinfo(np.int64).max if max_cells is None else max_cells

    @property
    def done(self) -> bool:
        """Whether every interval has been processed."""
        return not self.frames

    def share(self, size: float) -> float | None:
        """A length over the length of the domain; ``None`` where that has no meaning."""
        return None if self.unbounded or not self.domain_length > 0.0 else size / self.domain_length

    def settled(self, size: float) -> float | None:
        """The share of the work that cells of this length stand for, for a report of progress."""
        return self.share(size)

    @property
    def coverage(self) -> float | None:
        """The share of the domain that the cells fill."""
        return self.share(self.total)

    @property
    def n_double_double(self) -> int:
        """How often floats could not tell and double-double arithmetic decided."""
        return self.undecided.ladder.n_double_double

    @property
    def n_zero(self) -> int:
        """How often floats could not tell and residues proved a zero."""
        return self.undecided.ladder.n_zero

    @property
    def n_rational(self) -> int:
        """How often rationals decided."""
        return self.undecided.ladder.n_rational

    def advance(self, steps: int) -> None:
        """Process about ``steps`` intervals, counted once per layer; fewer where the time is over."""
        self.undecided.ladder.deadline = self.deadline
        with np.errstate(over="ignore", under="ignore", invalid="ignore"), suppress(OutOfTime):
            while steps > 0 and self.frames:
                frame = self.frames[-1]
                take = min(self.batch, frame.children - frame.cursor)
                if frame.layer == self.last:
                    take = min(_CELLS, frame.children - frame.cursor, self.most_cells - self.n_cells)
                    if take <= 0:
                        return
                    self._emit(frame, take)
                else:
                    self._descend(frame, take)
                steps -= take

    def _descend(self, frame: Frame, take: int) -> None:
        """Send the next children of a frame into the next layer with max-groups."""
        intervals, y, carry = self._children(frame, take, True)
        errors = frame.errors[:, frame.child_parent[frame.cursor : frame.cursor + take]]
        layer = frame.layer + 1
        while not self.layers[layer].cuts:
            stage = self.stages[layer]
            z = stage.rows(y)
            y, errors = z, stage.errors(y, z, errors)[1]
            layer += 1
        fold = self.layers[layer].units > 0
        entered = (self._fold if fold else self._wall)(layer, intervals, y, errors)
        self.whole = False
        self.layer_cells[layer] += entered.children
        self.serial += take
        self.frames.append(entered)
        self._book(frame, take, carry)
        self.whole = True

    def _book(self, frame: Frame, take: int, carry: tuple[Any, Any, Any] | None) -> None:
        """The next children of a frame have been taken; frames that are used up go."""
        frame.cursor += take
        if carry is not None:
            frame.carry_bits, frame.carry_y, frame.carry_winner = carry
            frame.carried = frame.cursor
        while self.frames and self.frames[-1].cursor == self.frames[-1].children:
            self.frames.pop()

    def _children(self, frame: Frame, take: int, wanted: bool) -> tuple[Intervals, Floats, Any]:
        """The next children: their signatures and, if wanted, the maps of what enters the next layer."""
        end = frame.cursor + take
        leftmost = int(np.searchsorted(frame.child_parent, frame.child_parent[frame.cursor]))
        begin = max(leftmost, frame.carried)
        late, take = frame.cursor - begin, end - begin
        bits = np.zeros((take, self.words), dtype=np.uint64)
        routings = np.zeros((take, self.heads), dtype=np.int32)
        tied = np.zeros(take, dtype=np.uint8)
        carry = frame.carry_bits.copy(), frame.carry_y.copy(), frame.carry_winner.copy()
        layer = self.layers[frame.layer] if frame.layer >= 0 else None
        if layer is not None and not layer.heads:
            layer = cast(ReluLayer, layer)
            y = np.empty((2, take if wanted else 0, layer.d_out))
            kernels.fold_children(
                begin, end, frame.child_parent, frame.ev_start, frame.ev_group, layer.first_unit,
                frame.bits, frame.tied, frame.routings, frame.on, frame.y, frame.z[0], frame.z[1],
                self.stages[frame.layer].outputs, bits, tied, routings, y, carry[0], carry[1], wanted,
            )  # fmt: skip
        elif layer is not None:
            layer = cast(ArgmaxLayer, layer)
            summed = wanted and layer.jumps
            y = np.empty((2, take if summed else 0, layer.d_out))
            outputs = self.stages[frame.layer].outputs
            won = np.zeros((take, layer.heads), dtype=np.int64)
            ties = np.zeros(len(layer.key) + len(frame.more_keys), dtype=np.uint8)
            ties[len(layer.key) :] = 1
            kernels.wall_children(
                begin, end, frame.child_parent, frame.ev_start, frame.ev_group, frame.ev_key, frame.winner,
                layer.first_head, frame.bits, frame.tied, frame.routings,
                np.concatenate([layer.key, layer.key[frame.more_keys]]), ties,
                np.concatenate([outputs, frame.more_outputs]) if len(frame.more_keys) else outputs,
                layer.skip, frame.y, bits, tied, routings, y, won, carry[2], summed,
            )  # fmt: skip
            if wanted and not summed:  # the winning scores themselves leave, behind what entered
                parents = frame.child_parent[begin:end]
                y = frame.z[:, parents[:, None], won]
                if layer.skip:
                    y = np.concatenate([frame.y[:, parents], y], axis=2)
        else:
            y = frame.y[:, begin:end]
        chosen = slice(frame.cursor, end)
        low, low_error, high, high_error = frame.ends[:, chosen]
        low_owner, low_wall, high_owner, high_wall = frame.names[:, chosen]
        if late:  # the children before them were only needed to get here
            bits, routings, tied, y = bits[late:], routings[late:], tied[late:], y[:, late:]
        intervals = Intervals(
            bits, routings, tied, low, low_error, low_owner, low_wall, high, high_error, high_owner, high_wall
        )
        return intervals, y, carry

    def _emit(self, frame: Frame, take: int) -> None:
        """The next children are cells."""
        chosen = slice(frame.cursor, frame.cursor + take)
        low, low_error, high, high_error = frame.ends[:, chosen]
        lengths = high - low
        thin = np.flatnonzero(~(lengths > self.doubt * (low_error + high_error)))
        carry: Any = None
        written = None
        if self.store or (len(thin) and self.trust != constants.FLOAT):
            intervals, _, carry = self._children(frame, take, False)
            if self.trust != constants.FLOAT:
                self.undecided.lengths(intervals, thin, lengths)
            if self.store:
                written = self._written(intervals, lengths)
        lengths = np.maximum(lengths, 0.0)
        finite = np.isfinite(lengths)
        self.whole = False
        if written is not None:
            self.written.append(written)
        self.n_cells += take
        self.n_unbounded += int((~finite).sum())
        self.n_slivers += int((lengths < self.sliver).sum())
        self.total += float(lengths[finite].sum())
        self._book(frame, take, carry)
        self.whole = True

    def _written(self, intervals: Intervals, lengths: Floats) -> dict[str, NDArray[Any]]:
        table: dict[str, NDArray[Any]] = {f.name: getattr(intervals, f.name) for f in fields(intervals)}
        table["lengths"] = np.maximum(lengths, 0.0)
        table["position"] = np.arange(self.n_cells, self.n_cells + intervals.n)
        if self.origin != 0.0:
            for name in ("low", "high"):
                place = table[name] + self.origin
                table[f"{name}_error"] = np.where(
                    np.isfinite(place), table[f"{name}_error"] + constants.UNIT * np.abs(place), 0.0
                )
                table[name] = place
        for name, end in (("low", self.ends[0]), ("high", self.ends[1])):  # sides of the domain, as given
            side = table[f"{name}_owner"] == DOMAIN_SIDE
            if isinstance(end, Fraction) and side.any():
                rounded = nearest_float(end)
                if abs(rounded) < np.inf:
                    error = 0.0 if Fraction(rounded) == end else constants.UNIT * abs(rounded) + 1e-300
                    table[name] = np.where(side, rounded, table[name])
                    table[f"{name}_error"] = np.where(side, error, table[f"{name}_error"])
        return table

    # a layer

    def _fold(self, layer: int, intervals: Intervals, y: Floats, errors: Floats) -> Frame:
        stage, block = self.stages[layer], cast(ReluLayer, self.layers[layer])
        z = stage.rows(y)
        rows, leaving = stage.errors(y, z, errors)
        on = np.zeros((intervals.n, -(-block.units // 64)), dtype=np.uint64)

        def signs(events: Events, asked: tuple[Integers, Integers], counts: Integers) -> None:
            kernels.fold_signs(
                z[0], z[1], stage.row_norms, stage.biases, *rows, stage.gamma,
                intervals.low, intervals.low_error, intervals.high, intervals.high_error, self.trust,
                on, events.parent, events.group, events.place, events.error, *asked, counts,
            )  # fmt: skip

        events, questions = self._collected(signs, layer, intervals, block.units)
        events = self.undecided.units(events, questions, on, z, rows)
        events, first = self.undecided.ordered(events, on, z, rows)
        frame = self._cut(events, first)
        frame.on = on
        if layer != self.last:
            shown = np.unpackbits(
                on.astype("<u8").view(np.uint8), axis=1, count=block.units, bitorder="little"
            )
            frame.y = stage.folded(y, z, shown.view(np.bool_))
            frame.z = z
            frame.errors = leaving + stage.changes(z, frame.y, events.parent, events.group)
            frame.carry_y = np.zeros((2, block.d_out))
        return frame

    def _wall(self, layer: int, intervals: Intervals, y: Floats, errors: Floats) -> Frame:
        stage, block = self.stages[layer], cast(ArgmaxLayer, self.layers[layer])
        z = stage.rows(y)
        rows, leaving = stage.errors(y, z, errors)
        winner = np.zeros((intervals.n, block.heads), dtype=np.int64)

        def envelopes(events: Events, asked: tuple[Integers, Integers], counts: Integers) -> None:
            kernels.head_winners(
                z[0], z[1], stage.row_norms, stage.biases, *rows, stage.gamma, block.head_start,
                intervals.low, intervals.low_error, intervals.high, intervals.high_error, self.trust,
                winner, events.parent, events.group, events.old, events.key, events.place, events.error,
                *asked, counts,
            )  # fmt: skip

        events, questions = self._collected(envelopes, layer, intervals, len(block.key))
        events = self.undecided.heads(events, questions, winner, z, rows)
        events, first = self.undecided.ordered(events, _NO_UNITS, z, rows)
        frame, ties = self._cut(events, first), events.ties
        frame.winner = winner
        frame.carry_winner = np.zeros(block.heads, dtype=np.int64)
        frame.more_keys = np.array([tie[0] for tie in ties], dtype=np.int64)
        frame.more_outputs = np.array([_mean(block, tie) for tie in ties]).reshape(len(ties), block.d_out)
        if layer != self.last:
            frame.y = y
            if not block.jumps:
                frame.z = z
            frame.errors = leaving
        return frame

    def _collected(
        self,
        kernel: Callable[[Events, tuple[Integers, Integers], Integers], None],
        layer: int,
        intervals: Intervals,
        rows: int,
    ) -> tuple[Events, Integers]:
        """Run a kernel that writes events and open questions, with more room if it asks for it."""
        n, counts = intervals.n, np.zeros(2, dtype=np.int64)
        room = [min(int(share * n) + 256, n * rows) for share in self.shares[layer]]
        while True:
            events = Events(
                layer, intervals, *np.zeros((4, room[0]), dtype=np.int64), *np.zeros((2, room[0]))
            )
            asked = np.zeros(room[1], dtype=np.int64), np.zeros(room[1], dtype=np.int64)
            kernel(events, asked, counts)
            found = counts.tolist()
            if found[0] <= room[0] and found[1] <= room[1]:
                return events.begin(found[0]), np.column_stack(asked)[: found[1]]
            room = [max(a, b) for a, b in zip(room, found, strict=True)]
            self.shares[layer] = [1.1 * size / n for size in room]

    def _cut(self, events: Events, first: NDArray[np.bool_]) -> Frame:
        """The children that ordered events make; ``first`` marks events that begin a new break."""
        intervals, block = events.intervals, cast(ArgmaxLayer, self.layers[events.layer])
        total = intervals.n + int(np.count_nonzero(first))
        child_parent, ev_start = np.empty(total, dtype=np.int64), np.empty(total + 1, dtype=np.int64)
        ends, names = np.empty((4, total)), np.empty((4, total), dtype=np.int64)
        kernels.cut_intervals(
            np.int64(events.layer), np.int64(self.serial), events.parent, events.group, events.old,
            events.key, events.place, events.error, first,
            rows_of(block, events.ties) if block.heads else np.zeros(0, dtype=np.int64),
            intervals.low, intervals.low_error, intervals.low_owner, intervals.low_wall,
            intervals.high, intervals.high_error, intervals.high_owner, intervals.high_wall,
            child_parent, ev_start, ends, names,
        )  # fmt: skip
        return Frame(
            events.layer, intervals.bits, intervals.routings, intervals.tied, child_parent, ev_start, ends,
            names, np.zeros(self.words, np.uint64), ev_group=events.group, ev_key=events.key,
        )  # fmt: skip

    # results

    def take(self) -> Cells:
        """The cells that were written down since the last time, from left to right."""
        parts, self.written = self.written or [self._nothing()], []
        return interval_cells({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    def _nothing(self) -> dict[str, NDArray[Any]]:
        """The columns of no cells."""
        floats, names = np.zeros((2, 0)), np.zeros((2, 0), dtype=np.int64)
        bits, routings = np.zeros((0, self.words), np.uint64), np.zeros((0, self.heads), np.int32)
        none = Intervals(bits, routings, np.zeros(0, np.uint8), *floats, *names, *floats, *names)
        return self._written(none, np.zeros(0))

    def cells(self) -> Cells:
        """The cells that were written down, in the order of signatures."""
        parts = self.written
        cells = self.take()
        self.written = parts
        return cells.in_order(self.layers)

    @property
    def tolerance(self) -> float:
        """How short a sliver is."""
        return self.sliver

    @property
    def tally(self) -> Tally:
        """All numbers at once."""
        return Tally(
            self.n_cells,
            self.n_slivers,
            self.n_unbounded,
            self.serial & ((1 << SERIALS) - 1),
            self.total,
            tuple(self.layer_cells.tolist()),
            self.n_rational,
            self.n_double_double,
            self.n_zero,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later process needs to go on, as arrays."""
        counts = [self.serial, self.n_cells, self.n_slivers, self.n_unbounded]
        counts += [*self.undecided.ladder.decided]
        state = _state(self.frames, counts, self.layer_cells, self.total)
        if self.written:
            for name in self.written[0]:
                state[f"output_{name}"] = np.concatenate([part[name] for part in self.written])
        return state

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take up a state."""
        counts = state["counts"].tolist()
        self.serial, self.n_cells, self.n_slivers, self.n_unbounded, *decided, n_frames = counts
        self.undecided.ladder.decided = decided
        self.layer_cells = np.array(state["layer_cells"])
        self.total = float(state["size"][0])
        self.frames = _frames(state, n_frames)
        found = {name.removeprefix("output_"): a for name, a in state.items() if name.startswith("output_")}
        self.written = [found] if found else []

    # pieces

    def cut(self, state: State, most: int) -> list[State]:
        """The batches that wait in the frames of a state, in the order of cells, each a state of its own that
        has found nothing.

        There are at most ``most`` pieces: a piece may be several batches in a row, and the upper frames stay
        together in the first.
        """
        frames = _frames(state, int(state["counts"][-1]))
        ranges: list[list[Frame]] = []  # from right to left
        while frames:
            frame, room = frames[0], most - len(ranges)
            if frame.cursor == frame.children:  # used up, but for what waits above it
                frames.pop(0)
                continue
            batches = -(-(frame.children - frame.cursor) // self.batch)
            n = min(batches, room if len(frames) == 1 else room - 1)
            if frame.layer == self.last:
                n = min(n, 1)  # its cells are found: they only have to be counted or written down
            if n < 1:
                break
            frames.pop(0)
            ends = frame.cursor + self.batch * (batches * np.arange(n + 1) // n)
            ends[-1] = frame.children
            parts = [frame] if n == 1 else [self._part(frame, a, b) for a, b in pairwise(ends.tolist())]
            ranges += [[part] for part in reversed(parts)]
        if frames:
            ranges.append(frames)
        counts, layer_cells = [0] * 7, np.zeros_like(state["layer_cells"])
        return [_state(stack, counts, layer_cells, 0.0) for stack in reversed(ranges)]

    def weight(self, state: State) -> float:
        """About how many cells a piece has: one message to a cluster is as good for it as for any other."""
        return 1.0

    def _part(self, frame: Frame, begin: int, end: int) -> Frame:
        """The children ``begin:end`` of a frame as a frame of their own."""
        n = len(frame.tied)
        first, last = int(frame.child_parent[begin]), int(frame.child_parent[end - 1]) + 1
        carry: Any = frame.carry_bits, frame.carry_y, frame.carry_winner
        inside = frame.ev_start[begin] < frame.ev_start[begin + 1]  # not the leftmost child of its parent
        if inside and frame.carried != begin:
            before = replace(frame, cursor=begin - 1)
            carry = self._children(before, 1, frame.layer != self.last)[2]
        events = slice(int(frame.ev_start[begin]), int(frame.ev_start[end]))

        def own(array: NDArray[Any], axis: int = 0) -> NDArray[Any]:
            """The rows of the parents; arrays that the layer does not need have none."""
            if array.shape[axis] != n:
                return array
            return np.ascontiguousarray(array[first:last] if axis == 0 else array[:, first:last])

        return Frame(
            frame.layer, own(frame.bits), own(frame.routings), own(frame.tied),
            frame.child_parent[begin:end] - first, frame.ev_start[begin : end + 1] - events.start,
            np.ascontiguousarray(frame.ends[:, begin:end]), np.ascontiguousarray(frame.names[:, begin:end]),
            carry[0], ev_group=frame.ev_group[events].copy(), ev_key=frame.ev_key[events].copy(),
            y=own(frame.y, 1), z=own(frame.z, 1), errors=own(frame.errors, 1), on=own(frame.on),
            winner=own(frame.winner), more_outputs=frame.more_outputs, more_keys=frame.more_keys,
            carry_y=carry[1], carry_winner=carry[2],
        )  # fmt: skip

    @staticmethod
    def numbered(state: State, number: int) -> State:
        """The state of a piece whose intervals are numbered from ``number`` times 2^32 on."""
        counts = state["counts"].copy()
        counts[0] = number << SERIALS
        return {**state, "counts": counts}

    @staticmethod
    def depth(state: State) -> tuple[int, int, int]:
        """How far a piece is from the root: the lower, the bigger it may be."""
        top = int(state["counts"][-1]) - 1
        waiting = len(state[f"frame.{top}.child_parent"]) - int(state[f"frame.{top}.cursor"])
        return int(state[f"frame.{top}.layer"]), 0, -waiting


def _state(frames: list[Frame], counts: list[int], layer_cells: Integers, size: float) -> State:
    state = {"counts": np.array([*counts, len(frames)]), "layer_cells": layer_cells.copy()}
    state["size"] = np.array([size])
    for i, frame in enumerate(frames):
        for f in fields(Frame):
            state[f"frame.{i}.{f.name}"] = np.asarray(getattr(frame, f.name))
    return state


def _frames(state: State, n: int) -> list[Frame]:
    frames = []
    for i in range(n):
        arrays: dict[str, Any] = {f.name: np.asarray(state[f"frame.{i}.{f.name}"]) for f in fields(Frame)}
        arrays |= {name: int(arrays[name]) for name in ("layer", "cursor", "carried")}
        frames.append(Frame(**arrays))
    return frames


def _mean(block: ArgmaxLayer, tie: list[int]) -> list[float]:
    """What a head adds where these keys win together, correctly rounded."""
    members = fractions_of(block.outputs.take(np.array(tie)))
    weights = [int(m) for m in block.multiplicities[tie]]
    total = sum(weights)
    return [
        nearest_float(sum((w * v for w, v in zip(weights, column, strict=True)), Fraction(0)) / total)
        for column in members.T.tolist()
    ]


def _origin(low: Place, high: Place) -> float:
    """Zero, or for a domain that is small and far from zero a float inside it: its digits are not lost."""
    ends = [end for end in (low, high) if isinstance(end, Fraction)]
    if not ends:
        return 0.0
    far = min(abs(end) for end in ends)
    if len(ends) == 2 and (ends[0] <= 0 <= ends[1] or far < 4 * (ends[1] - ends[0])):
        return 0.0
    middle = nearest_float(ends[-1])
    return middle if len(ends) == 2 and abs(middle) < 1e100 else 0.0


def _size(length: Fraction) -> tuple[float, float]:
    """A power of two near a length, and the length as a float; (1, 0) beyond the range of floats."""
    exponent = length.numerator.bit_length() - length.denominator.bit_length()
    if abs(exponent) > 1000:
        return 1.0, 0.0
    return 2.0**exponent, float(length)
