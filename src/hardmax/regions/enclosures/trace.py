r"""The certified trace of a network along a segment: pieces, brackets that hold one change, and what is open.

For networks with norms, smooth activations or softmax, where breakpoints are roots of transcendental
functions: they are not computed but enclosed (:mod:`hardmax.regions.enclosures.isolate`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, log10
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax import limits
from hardmax.errors import InvalidInputError
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.fields import check_finite, check_shapes
from hardmax.networks.layers import all_layers_of
from hardmax.networks.network import Network
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.signatures import Signature, pack_bits, unpack_bits
from hardmax.networks.transformer import Transformer
from hardmax.regions.enclosures.fields import ArbField, FloatField, outward
from hardmax.regions.enclosures.isolate import Choices, Isolation, Record
from hardmax.regions.enclosures.sequences import sequence_stages, signature_of
from hardmax.regions.enclosures.stages import Stage, stage_of, way
from hardmax.regions.sequences.equal_tokens import kinds_of_tokens, with_one_of_each
from hardmax.results import Result

Floats = NDArray[np.float64]

_WORK = 3e7  # multiplications at points that python-flint may do for a trace, and for each stuck bracket
_FLOAT_DIGITS = 13  # decimal digits that a network may lose in floats
_PRECISIONS = (128, 192, 256, 384, 512)  # bits that are tried where it loses more
_SPARE = 15  # decimal digits that must be left at a point
_HIGHEST_ORDER = 48
_AT_ONCE = 4_000_000  # multiplications of a forward pass, times the intervals that python-flint sees at once


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedTrace(Result):
    """A network along a segment, with proof where it is not piecewise affine.

    The segment is cut into pieces and brackets, in turn. On a piece the signature is proven to be constant.
    Places are shares of the way from ``start`` to ``end``.

    Attributes
    ----------
    network, start, end
        What was asked.
    n_pieces : int
        The number of pieces.
    pieces : ndarray of float64, (n_pieces, 2)
        Where each piece begins and ends; both ends belong to it.
    brackets : ndarray of float64, (n_brackets, 2)
        The short gaps between them, ascending. A gap may also stand at the very beginning or end.
    proven : ndarray of bool, (n_brackets,)
        ``True``: the bracket holds exactly one change, from the signature of the piece before it to that of
        the piece behind it. ``False``: two or more changes could not be separated, or a function touches
        zero.
    breakpoints, errors : ndarray of float64, (n_brackets,)
        The midpoints of the brackets, and half their widths.
    n_unseparated : int
        The number of brackets that are not proven.
    routings : ndarray of int32, (n_pieces, heads)
        The winning key of every head; of a softmax head that with the largest score. For a transformer
        (n_pieces, heads, T), with -1 where a token is not computed.
    relu : ndarray of bool, (n_pieces, units)
        Which ReLU units are on; for a transformer (n_pieces, units, T).
    signatures : Signature
        Both, for a network.
    complete : bool
        Whether the whole segment was searched; brackets may still be unproven.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1, 0], [0, 1]]], [[0, 0.25]], [[[1, 0], [0, 1]]])
    >>> net = hm.Network([hm.networks.RMSNorm([1, 1], epsilon=0), head])
    >>> trace = hm.trace_segment(net, [1, 0], [0, 1])
    >>> trace
    <CertifiedTrace: 2 pieces, complete, certified>
    >>> trace.signatures.routings[:, 0], trace.breakpoints.round(6)
    (array([0, 1], dtype=int32), array([0.437006]))
    """

    kind: ClassVar[str] = "CertifiedTrace"

    network: Network | Transformer
    start: ExactArray
    end: ExactArray
    pieces: Floats
    brackets: Floats
    proven: NDArray[np.bool_]
    routings: NDArray[np.int32]
    bits: NDArray[np.uint64]
    complete: bool

    @property
    def n_pieces(self) -> int:
        """The number of pieces."""
        return len(self.pieces)

    @property
    def n_unseparated(self) -> int:
        """The number of brackets that may hold several changes, or none."""
        return int(np.count_nonzero(~self.proven))

    @property
    def breakpoints(self) -> Floats:
        """The midpoints of the brackets."""
        return np.asarray(self.brackets.mean(axis=1))

    @property
    def errors(self) -> Floats:
        """Half the widths of the brackets, rounded up."""
        return np.asarray((self.brackets[:, 1] - self.brackets[:, 0]) * 0.5000001 + 2.0**-53)

    @cached_property
    def signatures(self) -> Signature:
        """The signatures of the pieces of a network, in order."""
        if isinstance(self.network, Transformer):
            raise InvalidInputError("signatures are those of a network; a transformer has routings and relu.")
        return Signature(self.routings, self.bits, self.network.units_total)

    @cached_property
    def relu(self) -> NDArray[np.bool_]:
        """Which units are on: (n_pieces, units), with one more axis for the tokens of a transformer."""
        shape = (self.network.units_total, *self.routings.shape[2:])
        return unpack_bits(self.bits, int(np.prod(shape))).reshape(self.n_pieces, *shape)

    def point(self, t: float) -> Floats:
        """The point of the input space at a share ``t`` of the way."""
        return np.asarray((1.0 - t) * self.start.floats + t * self.end.floats)

    def _state(self) -> dict[str, Any]:
        return {
            "network": self.network._state(),
            "start": self.start.numbers,
            "end": self.end.numbers,
            **{name: getattr(self, name) for name in _ARRAYS},
            "complete": self.complete,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        whole = state["network"]
        network: Any = (Transformer if "read" in whole else Network)._from_state(whole)
        axes = 2 if isinstance(network, Transformer) else 1
        ends: dict[str, Any] = {name: as_exact(state[name], name, ndim=axes) for name in ("start", "end")}
        arrays: dict[str, Any] = {name: np.asarray(state[name]) for name in _ARRAYS}
        check_shapes(
            arrays, {"pieces": "n 2", "proven": "m", "brackets": "m 2", "routings": "n ...", "bits": "n ..."}
        )
        check_finite("pieces", arrays["pieces"])
        return cls(
            network=network,
            **ends,
            **arrays,
            complete=bool(state["complete"]),
        )

    def _summary(self) -> str:
        pieces = "1 piece" if self.n_pieces == 1 else f"{self.n_pieces} pieces"
        open_ = f", {self.n_unseparated} not separated" if self.n_unseparated else ""
        return f"{pieces}, {'complete' if self.complete else 'incomplete'}, certified{open_}"

    def _table(self) -> dict[str, Any]:
        table: dict[str, Any] = {"begin": self.pieces[:, 0], "end": self.pieces[:, 1]}
        if self.routings.ndim == 2 and self.routings.shape[1]:
            table["routing"] = self.routings
        return table


_ARRAYS = ("pieces", "brackets", "proven", "routings", "bits")


def certified_trace(
    network: Network | Transformer,
    start: ExactArray,
    end: ExactArray,
    *,
    bracket_width: float = 1e-12,
    max_pieces: int | None = None,
    time_limit: float | None = None,
    report: Callable[[int, float, float], object] | None = None,
) -> CertifiedTrace:
    """The certified trace of any network; :func:`hardmax.trace_segment` calls it where there are no maps."""
    if not 2.0**-48 <= bracket_width <= 0.1:
        raise InvalidInputError(
            f"bracket_width must be from 4e-15 to 0.1 of the segment, but was {bracket_width}."
        )
    _defined_at(network, start, end)
    if isinstance(network, Transformer):
        kinds = kinds_of_tokens(network, start, end)
        _, first, counts = np.unique(kinds, return_index=True, return_counts=True)
        fewer = network if len(first) == len(kinds) else with_one_of_each(network, kinds, first)
        ends = start.take(first), end.take(first)
        stages, places = sequence_stages(fewer, *ends, None if fewer is network else counts)
    else:
        stages, places = [way(start, end), *map(stage_of, all_layers_of(network))], []
    size = _size(network, start.shape[0])
    parts = isolated(stages, bracket_width, time_limit, size, report)
    if max_pieces is not None and len(parts.pieces) > max_pieces:
        parts = parts.first(max_pieces)
    choices = parts.choices if parts.pieces else Choices.nothing(0, stages)
    if isinstance(network, Transformer):
        routings, relu = signature_of(choices, stages, places, fewer, len(first))
        if fewer is not network:
            routings, relu = _of_all(routings, relu, network, kinds, first)
    else:
        routings, relu = _routings(choices, stages), choices.bits
    return CertifiedTrace(
        network=network,
        start=start,
        end=end,
        pieces=_inward(parts.pieces),
        brackets=_outward([(b.low, b.high) for b in parts.brackets]),
        proven=np.array([b.proven for b in parts.brackets], dtype=np.bool_),
        routings=routings,
        bits=pack_bits(relu.reshape(len(relu), int(np.prod(relu.shape[1:])))),
        complete=parts.complete,
    )


def _of_all(
    routings: NDArray[np.int32],
    relu: NDArray[np.bool_],
    transformer: Transformer,
    kinds: NDArray[np.int64],
    first: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The signature of all tokens from that of one token of each kind."""
    routings, relu = routings[:, :, kinds], relu[:, :, kinds]
    head = unit = 0
    for block, tokens in zip(transformer.blocks, transformer.computed(len(kinds)), strict=True):
        heads, units = slice(head, head + block.heads), slice(unit, unit + block.width)
        left_out = np.setdiff1d(np.arange(len(kinds)), tokens)
        if isinstance(block, SelfAttention):  # a winner is a token: the first of its kind
            routings[:, heads] = np.where(routings[:, heads] < 0, -1, first[routings[:, heads]])
        routings[:, heads, left_out] = -1
        relu[:, units, left_out] = False
        head, unit = heads.stop, units.stop
    return routings, relu


def _size(network: Network | Transformer, rows: int) -> int:
    """About how many multiplications a forward pass takes."""
    if isinstance(network, Transformer):
        inner = [getattr(block, "largest", block.d_in) for block in network.blocks]
        return sum(
            rows * block.d_in * max(4 * block.d_in, n) for block, n in zip(network.blocks, inner, strict=True)
        )
    return sum(block.d_in * max(block.largest, block.n_tokens * block.heads) for block in network.blocks)


@dataclass
class Bracket:
    """A gap between pieces, and whether it holds exactly one change."""

    low: Any
    high: Any
    proven: bool


@dataclass
class Parts:
    """Pieces and brackets along a segment, each list in order."""

    pieces: list[tuple[Any, Any]]
    rows: list[Choices]
    brackets: list[Bracket]
    complete: bool

    @property
    def choices(self) -> Choices:
        """The choices of the pieces."""
        return Choices.joined(self.rows)

    def first(self, n: int) -> Parts:
        """The first pieces and the brackets before and between them."""
        end = self.pieces[n - 1][1]
        kept = [bracket for bracket in self.brackets if bracket.high <= end]
        return Parts(self.pieces[:n], self.rows[:n], kept, False)


def isolated(
    stages: Sequence[Stage],
    width: float,
    time_limit: float | None = None,
    size: int = 1,
    report: Callable[[int, float, float], object] | None = None,
) -> Parts:
    """Pieces and brackets of [0, 1]: in floats, then with python-flint where floats leave something open.

    ``report`` is called with the number of parts, the share of [0, 1] that is settled, and the seconds.
    """
    begin, time_limit = time.monotonic(), limits.left(time_limit)

    def late(n: int, left: float) -> bool:
        seconds = time.monotonic() - begin
        if report is not None:
            report(n, max(0.0, 1.0 - left), seconds)
        return time_limit is not None and seconds >= time_limit

    isolation = _arithmetic(stages, width, size)
    items = isolation.start(0, 1)
    low, high = 0.0, 1.0
    if items is None:
        low, high = _certain_end(isolation, 0.0, width), _certain_end(isolation, 1.0, width)
        items = isolation.start(low, high) if low < high else None
    if items is None:
        return Parts([], [], [Bracket(0.0, 1.0, False)], True)
    records, complete = isolation.run(items, late)
    edges = [Record((-1,), 0.0, low, None)] if low > 0.0 else []
    edges_after = [Record((9,), high, 1.0, None)] if high < 1.0 else []
    records = [*edges, *records, *edges_after]
    parts = assembled(records, complete)
    if complete and isolation.backup is not None and any(not bracket.proven for bracket in parts.brackets):
        parts = _refined(stages, parts, width, size, late)
    return parts


def _arithmetic(stages: Sequence[Stage], width: float, size: int) -> Isolation:
    """Floats with python-flint behind them, or python-flint alone, if floats lose nearly all their digits."""
    sharp = ArbField(128, Fraction(width) / 4, Fraction(1, 2**60))
    backup = Isolation(stages, sharp, allowance=max(200, int(_WORK / max(1, size))))
    floats = Isolation(stages, FloatField(width), backup)
    if floats.digits_lost(0.3125) < _FLOAT_DIGITS:
        return floats
    for precision in _PRECISIONS:
        field = replace(sharp, precision=precision, batch=max(1, min(16, _AT_ONCE // max(1, size))))
        digits = Isolation(stages, field).digits_lost(Fraction(5, 16))
        if digits < _FLOAT_DIGITS:
            return floats
        if digits < precision * log10(2) - _SPARE:
            # a jet of order K on an interval in which a term is worth a digit bears the loss of K digits
            return Isolation(stages, replace(field, order=min(ceil(digits), _HIGHEST_ORDER)))
    return floats


def _certain_end(isolation: Isolation, end: float, width: float) -> float:
    """The place nearest to an end of the segment at which all choices are certain."""
    for k in range(24):
        step = width * 4.0**k
        if step > 0.5:
            break
        place = step if end == 0.0 else 1.0 - step
        if isolation.start(place, place) is not None:
            return place
    return 1.0 - end


def assembled(records: list[Record], complete: bool) -> Parts:
    """Pieces and brackets of records in order; brackets that meet become one, which is not proven.

    Two pieces that follow one another overlap in the bracket of the change between them.
    """
    stack: list[
        tuple[Bracket | None, Any, Choices | None]
    ] = []  # bracket, end of the piece behind it, choices

    def push(bracket: Bracket, end: Any, choices: Choices | None) -> None:
        while stack and stack[-1][0] is not None and bracket.low <= stack[-1][0].high:
            last, _, _ = stack.pop()
            assert last is not None
            bracket = Bracket(min(last.low, bracket.low), max(last.high, bracket.high), False)
        stack.append((bracket, end, choices))

    for record in records:
        if record.choices is None:
            push(Bracket(record.a, record.b, False), record.b, None)
            continue
        if not stack:
            stack.append((None, record.b, record.choices))
            continue
        bracket, end, choices = stack[-1]
        if choices is None:  # behind what is stuck
            stack[-1] = (bracket, record.b, record.choices)
        elif _equal(choices, record.choices):
            stack[-1] = (bracket, record.b, choices)
        else:
            push(Bracket(record.a, end, True), record.b, record.choices)
    pieces, rows, brackets = [], [], []
    for i, (bracket, _end, choices) in enumerate(stack):
        if bracket is not None:
            brackets.append(bracket)
        follower = stack[i + 1][0] if i + 1 < len(stack) else None
        low = records[0].a if bracket is None else bracket.high
        high = records[-1].b if follower is None else follower.low
        if choices is not None and low < high:
            pieces.append((low, high))
            rows.append(choices)
    return Parts(pieces, rows, brackets, complete)


def _refined(
    stages: Sequence[Stage], parts: Parts, width: float, size: int, late: Callable[[int, float], bool]
) -> Parts:
    """Brackets that are not proven, searched again with python-flint's balls."""
    records: list[Record] = []
    most = max(200, int(_WORK / max(1, size)))
    pieces = list(zip(parts.pieces, parts.rows, strict=True))
    brackets = list(parts.brackets)
    ends = {piece[1]: rows for piece, rows in pieces}
    begins = {piece[0]: rows for piece, rows in pieces}
    for number, ((low, high), rows) in enumerate(pieces):
        before = next((b for b in brackets if b.high == low), None)
        behind = next((b for b in brackets if b.low == high), None)
        a = before.low if before is not None and before.proven else low
        b = behind.high if behind is not None and behind.proven else high
        records.append(Record((number,), a, b, rows))
    open_ = [bracket for bracket in brackets if not bracket.proven]
    for bracket in open_:
        at_a, at_b = ends.get(bracket.low), begins.get(bracket.high)
        found: list[Record] = []
        if at_a is not None and at_b is not None and not late(len(records), 0.0):
            field = ArbField(160, Fraction(width) / 2**50, Fraction(1, 2**100))
            isolation = Isolation(stages, field)
            places = field.places([bracket.low, bracket.high])

            def spent(n: int, left: float, isolation: Isolation = isolation) -> bool:
                return isolation.n_evaluations > most or late(n, left)

            found, _ = isolation.run(isolation.between(places[:1], places[1:], at_a, at_b), spent)
        if not found:
            found = [Record((0,), bracket.low, bracket.high, None)]
        place = next((i for i, record in enumerate(records) if record.a >= bracket.high), len(records))
        records[place:place] = found
    return assembled(records, parts.complete)


def _equal(p: Choices, q: Choices) -> bool:
    return bool((p.bits == q.bits).all() and (p.winners == q.winners).all())


def _routings(choices: Choices, stages: Sequence[Stage]) -> NDArray[np.int32]:
    """The numbers of the winning keys."""
    routings = np.zeros_like(choices.winners)
    for stage in stages:
        for g in range(stage.groups):
            at = stage.first + g
            routings[:, at] = stage.keys[g][choices.winners[:, at]]
    return routings


def _outward(pairs: list[tuple[Any, Any]]) -> Floats:
    """Pairs of places as floats, rounded away from each other."""
    low, high = outward([p[0] for p in pairs], [p[1] for p in pairs])
    return np.column_stack([low, high])


def _inward(pairs: list[tuple[Any, Any]]) -> Floats:
    """Rounded towards each other."""
    high, low = outward([p[1] for p in pairs], [p[0] for p in pairs])
    return np.column_stack([low, high])


def _defined_at(network: Network | Transformer, start: ExactArray, end: ExactArray) -> None:
    """Both ends must have a value: a norm with epsilon 0 is not defined everywhere."""
    for name, point in (("start", start), ("end", end)):
        try:
            network(point.floats)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{name} must be a point at which the network has a value: {error}"
            ) from None
