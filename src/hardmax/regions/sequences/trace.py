r"""A transformer along a segment of sequences: its pieces in order, exactly.

At temperature zero, with ReLU and without norms, the states are piecewise affine along
:math:`X(s) = X_0 + s (X_1 - X_0)`. Keys and queries move together, so scores are quadratics in :math:`s` with
rational coefficients, and a piece ends at a root of one of them. The order of the breaks and the routing
between them are proven (:mod:`~hardmax.regions.sequences.sweep`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.exact.quadratic_numbers import QuadraticNumber
from hardmax.exact.rationals import ExactArray, as_exact, fraction
from hardmax.networks.blocks import FeedForward
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions, Transformer
from hardmax.progress import Progress, shown
from hardmax.regions.sequences.equal_tokens import kinds_of_tokens, record_of_all, with_one_of_each
from hardmax.regions.sequences.exact_states import ExactStates
from hardmax.regions.sequences.sweep import Record, Sweep, crossed, step_of
from hardmax.results import Result

Floats = NDArray[np.float64]
Winners = list[NDArray[np.int32] | None]

_EVERY = 64  # pieces between two reports of progress


def trace_transformer(
    transformer: Transformer,
    start: ArrayLike,
    end: ArrayLike,
    *,
    max_pieces: int | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
) -> TransformerTrace:
    """The pieces of a transformer along a segment; :func:`hardmax.trace_segment` calls this."""
    first, last = segment_of(transformer, start, end)
    begin = time.monotonic()
    kinds = kinds_of_tokens(transformer, first, last)
    one_of_each = np.unique(kinds, return_index=True)[1]
    if len(one_of_each) < len(kinds):
        fewer = with_one_of_each(transformer, kinds, one_of_each)
        sweep = _swept(
            Sweep(fewer, first.take(one_of_each), last.take(one_of_each)),
            begin,
            max_pieces,
            time_limit,
            progress,
        )
        record = record_of_all(sweep.record, transformer, kinds, one_of_each)
        if record is not None:
            return TransformerTrace._of(transformer, first, last, record, sweep.done)
    sweep = _swept(Sweep(transformer, first, last), begin, max_pieces, time_limit, progress)
    return TransformerTrace._of(transformer, first, last, sweep.record, sweep.done)


def _swept(
    sweep: Sweep,
    begin: float,
    max_pieces: int | None,
    time_limit: float | None,
    progress: bool | Callable[[Progress], object] | None,
) -> Sweep:
    """The sweep as far as it may go."""
    with shown(progress, Progress.line) as report:
        while not sweep.done and not (max_pieces is not None and sweep.n_pieces > max_pieces):
            sweep.advance()
            seconds = time.monotonic() - begin
            if report is not None and (sweep.done or sweep.n_pieces % _EVERY == 0):
                report(Progress(sweep.n_pieces, 1.0 if sweep.done else sweep.place.low, seconds))
            if time_limit is not None and seconds >= time_limit:
                break
    return sweep


def segment_of(transformer: Transformer, start: ArrayLike, end: ArrayLike) -> tuple[ExactArray, ExactArray]:
    """The two ends of a segment of sequences, checked."""
    first, last = transformer.sequence(start, "start"), transformer.sequence(end, "end")
    if first.shape != last.shape:
        raise InvalidInputError(
            f"start and end must be sequences of one shape, but have shapes {first.shape} and {last.shape}."
        )
    if not step_of(first, last).numbers.any():
        raise InvalidInputError("start and end must be different sequences, but are the same.")
    return first, last


@dataclass(frozen=True, eq=False, repr=False)
class TransformerTrace(Result):
    """A transformer along a segment of sequences.

    Attributes
    ----------
    transformer, start, end
        What was asked.
    n_pieces : int
        The pieces; at least one if ``complete``.
    breakpoints : ndarray of float64, (n_pieces - 1,)
        Where one piece ends and the next begins, ascending, as shares of the way from ``start`` to ``end``.
    errors : ndarray of float64, (n_pieces - 1,)
        Proven bounds on their errors; ``exact_breakpoint(i)`` has none.
    kinds : ndarray of uint8, (n_pieces - 1,)
        0 = fold, 1 = wall: across a wall, where a routing changes, the states may jump.
    routings : ndarray of int32, (n_pieces, heads, T)
        The winning key of every head at every token, block by block; -1 where a token is not computed. Groups
        of a Maxout count as heads. Among keys that tie on the whole piece the lowest index, with
        ``ties="rightmost"`` the highest.
    relu : ndarray of bool, (n_pieces, units, T)
        Which units are on, block by block.
    slopes : ndarray of float64, (n_pieces, T, d_out)
        How the output of the tokens that are read changes along each piece, per whole segment.
    values : ndarray of float64, (n_pieces, 2, T, d_out)
        That output at the beginning and at the end of each piece, as limits from inside.
    complete : bool
        Whether the end was reached.
    exact : bool
        Always ``True``: every decision is proven.
    reach : float
        Where the last piece ends: 1 if ``complete``.
    n_filter, n_exact : int
        Breaks whose place among the others floats proved, and those that rationals decided.

    Examples
    --------
    Two tokens; the first one passes the second, and both read the larger of the two from then on.

    >>> import hardmax as hm
    >>> layer = hm.SelfAttention([[[0.0]]], [[[1.0]]], [[[1.0]]], [[[1.0]]], b_Q=[[1.0]], skip=False)
    >>> trace = hm.trace_segment(hm.Transformer([layer]), [[0.0], [0.5]], [[1.0], [0.5]])
    >>> trace
    <TransformerTrace: 2 pieces, complete, exact>
    >>> trace.exact_breakpoint(0), trace.routings[:, 0]
    (1/2, array([[1, 1],
           [0, 0]], dtype=int32))
    """

    kind: ClassVar[str] = "TransformerTrace"
    exact: ClassVar[bool] = True

    transformer: Transformer
    start: ExactArray
    end: ExactArray
    lows: Floats
    highs: Floats
    broken: NDArray[np.int64]  # for each break a row that breaks there: block, token, group, old and new key
    first: tuple[NDArray[np.int32], ...]  # the winners of the first piece in each block that has any
    changes: NDArray[np.int64]  # piece, block, token, group, new winner
    ties: list[list[Any]]  # piece, block, token, group, keys that share from then on
    complete: bool
    n_filter: int
    n_exact: int

    @classmethod
    def _of(
        cls, transformer: Transformer, start: ExactArray, end: ExactArray, record: Record, complete: bool
    ) -> Self:
        n = len(record.breaks)  # the piece behind the last break is known only if the end was reached
        return cls(
            transformer=transformer,
            start=start,
            end=end,
            lows=np.array([event.place.low for event in record.breaks], dtype=np.float64),
            highs=np.array([event.place.high for event in record.breaks], dtype=np.float64),
            broken=np.array(record.broken, dtype=np.int64).reshape(n, 5),
            first=tuple(w for w in record.winners if w is not None),
            changes=np.array(record.changes, dtype=np.int64).reshape(-1, 5),
            ties=[[*at, list(keys)] for *at, keys in record.ties],
            complete=complete,
            n_filter=record.n_filter,
            n_exact=record.n_exact,
        )

    @property
    def n_pieces(self) -> int:
        """The number of pieces whose end is known."""
        return len(self.lows) + self.complete

    @property
    def n_tokens(self) -> int:
        """The length of the sequences."""
        return self.start.shape[0]

    @property
    def reach(self) -> float:
        """Where the last piece ends."""
        return 1.0 if self.complete else float(self._places[-1]) if len(self.lows) else 0.0

    @property
    def _places(self) -> Floats:
        return np.asarray(self.lows + 0.5 * (self.highs - self.lows))

    @property
    def breakpoints(self) -> Floats:
        """Where one piece ends and the next begins."""
        return self._places[: max(0, self.n_pieces - 1)]

    @property
    def errors(self) -> Floats:
        """Bounds on the errors of the breakpoints."""
        return np.nextafter(self.highs - self.lows, np.inf)[: max(0, self.n_pieces - 1)]

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """For each breakpoint: 0 = fold, 1 = wall, after the first block in which the two sides differ."""
        walls = np.array([isinstance(block, SelfAttention) for block in self.transformer.blocks])
        return walls[self.broken[:, 0]].astype(np.uint8)[: max(0, self.n_pieces - 1)]

    def point(self, s: float) -> Floats:
        """The sequence at a share ``s`` of the way."""
        return np.asarray((1.0 - s) * self.start.floats + s * self.end.floats)

    def exact_breakpoint(self, i: int) -> QuadraticNumber:
        """Breakpoint ``i`` without rounding: a root of a rational quadratic."""
        if not -len(self.breakpoints) <= i < len(self.breakpoints):
            raise InvalidInputError(f"i must be in range({len(self.breakpoints)}), but was {i}.")
        i %= len(self.breakpoints)
        block, t, g, old, new = self.broken[i].tolist()
        return crossed(self._exact_states(i), (block, t, g), old, new)

    # Pieces
    # ------------------------------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[tuple[Winners, dict[tuple[int, int, int], tuple[int, ...]]]]:
        """Winners and ties of one piece after the other; the same arrays, changed in place."""
        firsts = iter(self.first)
        winners: Winners = [
            next(firsts).copy() if block.heads + block.width else None for block in self.transformer.blocks
        ]
        shared: dict[tuple[int, int, int], tuple[int, ...]] = {}
        changes, ties = iter(self.changes.tolist()), iter(self.ties)
        change, tie = next(changes, None), next(ties, None)
        for piece in range(self.n_pieces):
            while change is not None and change[0] <= piece:
                _, block, t, g, key = change
                array = winners[block]
                assert array is not None
                array[t, g] = key
                change = next(changes, None)
            while tie is not None and tie[0] <= piece:
                _, block, t, g, keys = tie
                shared.pop((block, t, g), None)
                if keys:
                    shared[block, t, g] = tuple(keys)
                tie = next(ties, None)
            yield winners, shared

    def _piece(self, i: int) -> tuple[Winners, dict[tuple[int, int, int], tuple[int, ...]]]:
        if not -self.n_pieces <= i < self.n_pieces:
            raise InvalidInputError(f"i must be in range({self.n_pieces}), but was {i}.")
        i %= self.n_pieces
        for j, piece in enumerate(self._pieces()):
            if j == i:
                return piece
        raise AssertionError

    def _exact_states(self, i: int) -> ExactStates:
        return ExactStates(self.transformer, self.start, step_of(self.start, self.end), *self._piece(i))

    @cached_property
    def routings(self) -> NDArray[np.int32]:
        """The winning keys (n_pieces, heads, T)."""
        return self._gathered(lambda block: not isinstance(block, FeedForward), np.int32, -1)

    @cached_property
    def relu(self) -> NDArray[np.bool_]:
        """Which units are on (n_pieces, units, T)."""
        return self._gathered(lambda block: isinstance(block, FeedForward), np.bool_, False)

    def _gathered(self, wanted: Callable[[Any], bool], dtype: Any, nothing: Any) -> NDArray[Any]:
        blocks = self.transformer.blocks
        computed = self.transformer.computed(self.n_tokens)
        parts = [(i, list(computed[i])) for i, block in enumerate(blocks) if wanted(block)]
        sizes = [blocks[i].heads + blocks[i].width for i, _ in parts]
        table = np.full((self.n_pieces, sum(sizes), self.n_tokens), nothing, dtype=dtype)
        for piece, (winners, _) in enumerate(self._pieces()):
            at = 0
            for (i, tokens), size in zip(parts, sizes, strict=True):
                array = winners[i]
                if array is not None:
                    table[piece, at : at + size, tokens] = array[tokens]
                at += size
        table.setflags(write=False)
        return table

    def affine(self, i: int) -> tuple[Floats, Floats]:
        """The map of piece ``i``: (offset, slope) with output offset + s slope, each (T, d_out)."""
        states = np.stack([self.start.floats, step_of(self.start, self.end).floats])  # (2, T, d)
        winners, ties = self._piece(i)
        return self._mapped(states, winners, ties)

    def exact_affine(self, i: int) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """The same without rounding, as arrays of fractions."""
        exact, read = self._exact_states(i), self._read
        maps = [exact.state(len(self.transformer.blocks), t) for t in read]
        parts = np.empty((2, len(read), self.transformer.d_out), dtype=object)
        for j, rows in enumerate(maps):
            for k in range(self.transformer.d_out):
                parts[0, j, k], parts[1, j, k] = fraction(rows[k, 1]), fraction(rows[k, 0])
        return parts[0], parts[1]

    @property
    def _read(self) -> list[int]:
        read = self.transformer.read
        return list(range(self.n_tokens) if read is None else read)

    def _mapped(self, states: Floats, winners: Winners, ties: Any) -> tuple[Floats, Floats]:
        constant = np.array([1.0, 0.0])[:, None, None]
        for i, (block, chosen) in enumerate(zip(self.transformer.blocks, winners, strict=True)):
            if isinstance(block, Positions):
                states = states + constant * block.values.floats
            elif isinstance(block, SelfAttention):
                assert chosen is not None
                total = states.copy() if block.skip else np.zeros((*states.shape[:2], block.d_out))
                for h in range(block.heads):
                    value = states @ block.W_V[h].floats.T
                    offset = block.b_V[h]
                    if offset is not None:
                        value = value + constant * offset.floats
                    read = value[:, chosen[:, h]]
                    for t in range(self.n_tokens):
                        keys = ties.get((i, t, h))
                        if keys:
                            read[:, t] = value[:, list(keys)].mean(axis=1)
                    total += read @ block.W_O[h].floats.T
                states = total if block.b_O is None else total + constant * block.b_O.floats
            else:
                states = _token_map(block, states, chosen, constant)
        return states[0, self._read], states[1, self._read]

    @cached_property
    def _maps(self) -> tuple[Floats, Floats]:
        states = np.stack([self.start.floats, step_of(self.start, self.end).floats])
        maps = [self._mapped(states, *piece) for piece in self._pieces()]
        return np.stack([offset for offset, _ in maps]), np.stack([slope for _, slope in maps])

    @property
    def slopes(self) -> Floats:
        """How the output changes along each piece, (n_pieces, T, d_out)."""
        return self._maps[1]

    @cached_property
    def values(self) -> Floats:
        """The output at the two ends of each piece, (n_pieces, 2, T, d_out)."""
        places = np.concatenate([[0.0], self.breakpoints, [self.reach]])
        ends = np.column_stack([places[:-1], places[1:]])[: self.n_pieces]
        offset, slope = self._maps
        return np.asarray(offset[:, None] + ends[:, :, None, None] * slope[:, None])

    # What every result has
    # ------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        names = ("lows", "highs", "broken", "changes", "ties", "complete", "n_filter", "n_exact")
        return {
            "transformer": self.transformer._state(),
            "start": self.start.numbers,
            "end": self.end.numbers,
            "first": list(self.first),
            **{name: getattr(self, name) for name in names},
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        whole = dict(state)
        whole["transformer"] = Transformer._from_state(state["transformer"])
        for name in ("start", "end"):
            whole[name] = as_exact(state[name], name, ndim=2)
        whole["first"] = tuple(state["first"])
        trace = cls(**whole)
        trace._check()
        return trace

    def _check(self) -> None:
        """Refuse a file whose parts do not fit together."""
        cutting = [block for block in self.transformer.blocks if block.heads + block.width]
        shapes = [(self.n_tokens, block.heads + block.width) for block in cutting]
        rows = [*self.broken.tolist(), *(change[1:] for change in self.changes.tolist())]
        rows += [[*tie[1:4], *tie[4]] for tie in self.ties]
        fits = (
            self.start.shape == self.end.shape
            and [array.shape for array in self.first] == shapes
            and self.lows.shape == self.highs.shape == (len(self.broken),)
            and all(0 <= i < len(self.transformer.blocks) and t < self.n_tokens for i, t, *_ in rows)
            and all(number >= 0 for row in rows for number in row)
            and all(
                g < self.transformer.blocks[i].heads + self.transformer.blocks[i].width
                for i, _, g, *_ in rows
            )
        )
        if not fits:
            raise ValueError("pieces that do not belong to the transformer")

    def _summary(self) -> str:
        pieces = "1 piece" if self.n_pieces == 1 else f"{self.n_pieces} pieces"
        return f"{pieces}, {'complete' if self.complete else f'stopped at {self.reach:.3g}'}, exact"

    def _table(self) -> dict[str, Any]:
        places = np.concatenate([[0.0], self.breakpoints, [self.reach]])[: self.n_pieces + 1]
        return {"begin": places[:-1], "end": places[1:]}


def _token_map(block: Any, states: Floats, chosen: Any, constant: Floats) -> Floats:
    """States (2, T, d) behind a map that all tokens pass through, at the winners of a piece."""
    if isinstance(block, FeedForward):
        inner = states if block.w_in is None else states @ block.w_in.floats.T
        inner = inner + constant * block.b_in.floats
        inner = np.where(chosen[None] == 1, inner, inner * block.slope.floats)
        w_out = block.w_out
    elif chosen is None:  # Affine
        return np.asarray(states @ block.w.floats.T + constant * block.b.floats)
    else:  # Maxout
        groups = np.arange(block.heads)
        slopes, offsets = block.scores.floats[groups, chosen], block.biases.floats[groups, chosen]
        inner = np.einsum("tgd,ctd->ctg", slopes, states) + constant * offsets
        w_out = block.w_out
    outer = inner if w_out is None else inner @ w_out.floats.T
    outer = outer + constant * block.b_out.floats
    return np.asarray(outer + states if block.skip else outer)
