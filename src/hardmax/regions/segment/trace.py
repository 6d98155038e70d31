r"""A network along a segment: the pieces one after the other, and where each begins.

The network is restricted to :math:`t \mapsto f((1 - t)\,p + t\,q)` without rounding and cut by the segment
engine, so the order of the breakpoints and the signatures between them are proven, whatever the dimension of
the input: the cost per piece is that of a few forward passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DamagedFileError, DimensionMismatchError, InvalidInputError, written
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.geometry.domains import Box
from hardmax.limits import Clock, left
from hardmax.networks.heads.key_sets import Listed, listed_in_file
from hardmax.networks.layers import AffineLayer, Layer, layers_of
from hardmax.networks.network import Network
from hardmax.networks.reading.sources import NetworkLike, as_network_or_transformer
from hardmax.networks.signatures import Signature
from hardmax.networks.transformer import Transformer
from hardmax.progress import Progress, shown
from hardmax.regions.cell_checks import check_cells, sound_cells
from hardmax.regions.cells import Cells
from hardmax.regions.enclosures.trace import CertifiedTrace, certified_trace
from hardmax.regions.listing import KeySetList, domain_size, until_listed
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.result import _how_sure
from hardmax.regions.segment.geometry import SegmentGeometry, kinds_between
from hardmax.regions.segment.machine import SegmentMachine, Stage, stages_of
from hardmax.regions.sequences.trace import segment_of, trace_transformer
from hardmax.results import Result

Floats = NDArray[np.float64]

_ARITHMETICS = ("certified", "exact", "float")
_STEPS = 1_000  # intervals between two looks at the clock


def trace_segment(
    network: NetworkLike,
    start: ArrayLike,
    end: ArrayLike,
    *,
    arithmetic: str = "certified",
    max_pieces: int | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
    bracket_width: float = 1e-12,
) -> Any:
    r"""The pieces of a network along the segment from ``start`` to ``end``, exactly and in order.

    A network with norms, smooth activations or softmax has no exact breakpoints: every change of its
    signature is enclosed in a bracket, with proof, and the result says what could not be separated.

    Parameters
    ----------
    network : Network, Transformer, torch module, or path of an ONNX file or of a saved network
        With inputs of any dimension d. In a transformer keys and values move with the sequence.
    start, end : (d,) or, for a transformer, (T, d) array_like
        Two different points or sequences.
    arithmetic : {"certified", "exact", "float"}
        As in :func:`~hardmax.regions.api.enumerate_regions`; a transformer knows only "certified".
    max_pieces, time_limit : int, float, optional
        Stop early, after so many pieces from ``start`` on or so many seconds; the result then says
        ``complete=False``.
    progress : bool or callable, optional
        As in :func:`~hardmax.regions.api.enumerate_regions`.
    bracket_width : float, default 1e-12
        For networks that are not piecewise affine: how short brackets should be, as a share of the segment.
        Where float64 cannot tell, they are longer.

    Returns
    -------
    SegmentTrace
        Of a piecewise-affine network.
    TransformerTrace
        Of a piecewise-affine transformer.
    CertifiedTrace
        Of any network or transformer with norms, smooth activations or softmax.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random(16, n_tokens=10, heads=4, depth=2, d_ff=64, rng=0)
    >>> trace = hm.trace_segment(net, [-1.0] * 16, [1.0] * 16)
    >>> trace
    <SegmentTrace: 41 pieces, complete, exact>
    >>> trace.signatures.routings[0]
    array([9, 4, 9, 6, 5, 7, 8, 3], dtype=int32)
    """
    time_limit = _checked_limits(arithmetic, max_pieces, time_limit)
    network = as_network_or_transformer(network)
    if isinstance(network, Transformer):
        if arithmetic != "certified":
            raise InvalidInputError(
                f'arithmetic must be "certified" for a transformer, but was {arithmetic!r}; it is exact.'
            )
        if network.piecewise_affine:
            return trace_transformer(
                network, start, end, max_pieces=max_pieces, time_limit=time_limit, progress=progress
            )
        first, last = segment_of(network, start, end)
        return _enclosed(network, first, last, bracket_width, max_pieces, time_limit, progress)
    first, last = _checked(network, start, end)
    if any(block.smooth for block in network.blocks):
        if arithmetic != "certified":
            raise InvalidInputError(
                'arithmetic must be "certified" for a network that is not piecewise affine, but was '
                f"{arithmetic!r}."
            )
        return _enclosed(network, first, last, bracket_width, max_pieces, time_limit, progress)
    begin = time.monotonic()

    def run(layers: tuple[Layer, ...], stages: tuple[Stage, ...], most: int | None) -> SegmentMachine:
        machine = SegmentMachine(
            layers, Box([0], [1]), arithmetic=arithmetic, store=True, sliver=0.0, stages=stages
        )
        machine.limit(most)
        machine.deadline = np.inf if time_limit is None else begin + time_limit
        while not machine.done:
            machine.advance(_STEPS)
            seconds = time.monotonic() - begin
            if report is not None:
                report(Progress(machine.n_cells, machine.coverage, seconds))
            if machine.n_cells >= machine.most_cells:
                break
            if time_limit is not None and seconds >= time_limit:
                break
        return machine

    with shown(progress, Progress.line) as report:
        if not any(block.chooses_sets for block in network.blocks):
            machine = run(*_laid_out(network, first, last), max_pieces)
            return SegmentTrace._of(network, first, last, machine.take(), arithmetic, machine.done)

        def find(listed: Network, most: int | None = max_pieces) -> tuple[bool, Cells, ExactMaps, bool]:
            layers = layers_of(listed)
            machine = run(layers, stages_of(layers), most)
            in_time = time_limit is None or time.monotonic() - begin < time_limit
            return machine.done, machine.take(), ExactMaps(layers, Box([0], [1])), in_time

        sets = KeySetList(_along(network, first, last), Box([0], [1]))
        listed, done, cells, proven = until_listed(sets, find, lambda before: find(before)[1:3])
        if not proven.all():  # up to the first piece that is not proven
            done, cells = False, cells.select(np.arange(int(proven.argmin())))
        return SegmentTrace._of(network, first, last, cells, arithmetic, done, listed)


def _along(network: Network, start: ExactArray, end: ExactArray) -> Network:
    """The network behind the map from [0, 1] to the segment."""
    return network.restrict(start, (fractions_of(end) - fractions_of(start))[None])  # type: ignore[arg-type]


def _enclosed(
    network: Network | Transformer,
    start: ExactArray,
    end: ExactArray,
    bracket_width: float,
    max_pieces: int | None,
    time_limit: float | None,
    progress: bool | Callable[[Progress], object] | None,
) -> CertifiedTrace:
    with shown(progress, Progress.line) as report:
        return certified_trace(
            network,
            start,
            end,
            bracket_width=bracket_width,
            max_pieces=max_pieces,
            time_limit=time_limit,
            report=None if report is None else lambda n, share, s: report(Progress(n, share, s)),
        )


@dataclass(frozen=True, eq=False, repr=False)
class SegmentTrace(Result):
    """A network along a segment.

    Attributes
    ----------
    network, start, end
        What was asked.
    n_pieces : int
        The pieces; at least one.
    breakpoints : ndarray of float64, (n_pieces - 1,)
        Where one piece ends and the next begins, ascending, as shares of the way from ``start`` to ``end``.
    errors : ndarray of float64, (n_pieces - 1,)
        Proven bounds on their errors; ``exact_breakpoint(i)`` has none.
    kinds : ndarray of uint8, (n_pieces - 1,)
        0 = fold, 1 = wall: across a wall the map may jump.
    signatures : Signature
        One row per piece, from ``start`` to ``end``.
    slopes : ndarray of float64, (n_pieces, d_out)
        How the output changes along each piece, per whole segment.
    values : ndarray of float64, (n_pieces, 2, d_out)
        The output at the beginning and at the end of each piece, as limits from inside.
    complete, exact : bool
        Whether the end was reached; whether every decision was proven.
    reach : float
        Where the last piece ends: 1 if ``complete``.

    Examples
    --------
    >>> import hardmax as hm
    >>> tent = hm.Network.mlp([([[1, 0], [1, 0]], [0, -0.5]), ([[2, -4]], [0])])    # 2x, then 2 - 2x
    >>> trace = hm.trace_segment(tent, [-1, 7], [1, 7])
    >>> trace.breakpoints, trace.slopes[:, 0]
    (array([0.5 , 0.75]), array([ 0.,  4., -4.]))
    >>> trace.values[:, :, 0]
    array([[0., 0.],
           [0., 1.],
           [1., 0.]])
    """

    kind: ClassVar[str] = "SegmentTrace"

    network: Network
    start: ExactArray
    end: ExactArray
    breakpoints: Floats
    errors: Floats
    routings: NDArray[np.int32]
    bits: NDArray[np.uint64]
    tied: NDArray[np.uint8]
    cells: Cells
    arithmetic: str
    complete: bool
    reach: float
    listed: Listed | None = None  # of the network behind the map from [0, 1] to the segment

    @classmethod
    def _of(
        cls,
        network: Network,
        start: ExactArray,
        end: ExactArray,
        cells: Cells,
        arithmetic: str,
        complete: bool,
        listed: Listed | None = None,
    ) -> Self:
        high, error = cells.vertices.content[1::2].T  # the cells are in the order of the line
        return cls(
            network=network,
            start=start,
            end=end,
            breakpoints=high[:-1],
            errors=error[:-1],
            routings=cells.routings,
            bits=cells.bits,
            tied=cells.tied,
            cells=cells,
            arithmetic=arithmetic,
            complete=complete,
            reach=float(high[-1]) if cells.n else 0.0,
            listed=listed,
        )

    @property
    def n_pieces(self) -> int:
        """The number of pieces."""
        return len(self.tied)

    @property
    def exact(self) -> bool:
        """Whether every decision was proven."""
        return self.arithmetic != "float"

    @cached_property
    def signatures(self) -> Signature:
        """The signatures of the pieces, in order."""
        plain = self.network if self.listed is None else self.listed.network
        return Signature(self.routings, self.bits, plain.units_total)

    def chosen(self, block: int) -> NDArray[np.bool_]:
        """Which keys the heads of a block with rule "top-k" or "sparsemax" choose, (n_pieces, H, N).

        >>> import hardmax as hm
        >>> head = hm.Attention([[[1.0], [0.0], [-1.0]]], None, [[[0.0], [1.0], [2.0]]], rule="top-k", k=2)
        >>> hm.trace_segment(hm.Network([head]), [1], [-1]).chosen(0)[:, 0].astype(int)
        array([[1, 1, 0],
               [0, 1, 1]])
        """
        if self.listed is None or block + 1 not in self.listed.choices:
            raise InvalidInputError(
                f"block must be the number of one whose heads choose sets of keys, but was {block!r}."
            )
        return self.listed.chosen(block + 1, self.routings, self.signatures.relu)

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """For each breakpoint: 0 = fold, 1 = wall, after the first block in which the two sides differ."""
        pieces = np.arange(self.n_pieces)
        return kinds_between(self._layers, self.cells, pieces[:-1], pieces[1:])

    def point(self, t: float) -> Floats:
        """The point of the input space at a share ``t`` of the way."""
        return np.asarray((1.0 - t) * self.start.floats + t * self.end.floats)

    @sound_cells()
    def exact_breakpoint(self, i: int) -> Fraction:
        """Breakpoint ``i`` without rounding; for a big network this takes seconds."""
        if not -len(self.breakpoints) <= i < len(self.breakpoints):
            raise InvalidInputError(f"i must be in range({len(self.breakpoints)}), but was {i}.")
        geometry = SegmentGeometry(self.cells, self._exact_maps, 1)
        place = geometry.exact_ends(i % len(self.breakpoints))[1]
        assert isinstance(place, Fraction)
        return place

    @property
    def slopes(self) -> Floats:
        """How the output changes along each piece, per whole segment."""
        return np.asarray(self._maps.linear[:, :, 0])

    @cached_property
    def values(self) -> Floats:
        """The output at the two ends of each piece."""
        places = np.concatenate([[0.0], self.breakpoints, [self.reach]])
        ends = np.column_stack([places[:-1], places[1:]])[: self.n_pieces]
        values = self._maps.offset[:, None, :] + ends[:, :, None] * self._maps.linear[:, None, :, 0]
        values.setflags(write=False)
        return np.asarray(values)

    @cached_property
    def _maps(self) -> Any:
        from hardmax.regions.maps.float_maps import pattern_maps

        signatures = self.bits, self.routings
        maps = pattern_maps(self._layers, *signatures, self.tied, self._exact_maps)
        return maps.finite(*signatures, self._exact_maps)

    @cached_property
    def _layers(self) -> tuple[Layer, ...]:
        if self.listed is not None:
            return layers_of(self.listed.network)
        return (_way(self.start, self.end), *layers_of(self.network))

    @cached_property
    def _exact_maps(self) -> ExactMaps:
        return ExactMaps(self._layers, Box([0], [1]))

    # what every result has

    def _state(self) -> dict[str, Any]:
        return {
            "network": self.network._state(),
            "start": _numbers(self.start),
            "end": _numbers(self.end),
            "arithmetic": self.arithmetic,
            "complete": self.complete,
            "cells": self.cells.state(),
            **({} if self.listed is None else {"sets": self.listed.plain_sets}),
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        network, cells = Network._from_state(state["network"]), Cells.from_state(state["cells"])
        start, end, listed = _array(state["start"]), _array(state["end"]), None
        if "sets" in state:
            size = partial(domain_size, Box([0], [1]))
            listed = listed_in_file(_along(network, start, end), size, state["sets"])
        if start.shape != (network.d,) or end.shape != (network.d,):
            raise DamagedFileError(f"its start and end must have {network.d} coordinates, but have others.")
        layers = layers_of(listed.network) if listed else (_way(start, end), *layers_of(network))
        check_cells(cells, layers, Box([0], [1]))
        if cells.kind != "intervals":
            raise DamagedFileError("its cells must be intervals, but are not.")
        return cls._of(network, start, end, cells, state["arithmetic"], state["complete"], listed)

    def _summary(self) -> str:
        pieces = "1 piece" if self.n_pieces == 1 else f"{self.n_pieces} pieces"
        return f"{pieces}, {_how_sure(self.complete, self.exact)}"

    def _table(self) -> dict[str, Any]:
        places = np.concatenate([[0.0], self.breakpoints, [self.reach]])[: self.n_pieces + 1]
        table: dict[str, Any] = {"begin": places[:-1], "end": places[1:]}
        if self.routings.shape[1]:
            table["routing"] = self.routings
        return table


def _checked(network: Network, start: ArrayLike, end: ArrayLike) -> tuple[ExactArray, ExactArray]:
    first, last = as_exact(start, "start", ndim=1), as_exact(end, "end", ndim=1)
    for name, point in (("start", first), ("end", last)):
        if point.shape[0] != network.d:
            raise DimensionMismatchError(
                f"{name} must have the {network.d} coordinates of the network's input, but has "
                f"{point.shape[0]}."
            )
    if all(first.rational(i) == last.rational(i) for i in range(network.d)):
        raise InvalidInputError("start and end must be different points, but are the same.")
    return first, last


def _checked_limits(arithmetic: str, max_pieces: int | None, time_limit: float | None) -> float | None:
    """The seconds that there are."""
    if arithmetic not in _ARITHMETICS:
        raise InvalidInputError(
            f"arithmetic must be one of {', '.join(_ARITHMETICS)}, but was {arithmetic!r}."
        )
    if max_pieces is not None and max_pieces < 1:
        raise InvalidInputError(f"max_pieces must be at least 1, but was {written(max_pieces)}.")
    return left(Clock(time_limit).time_limit)


def _way(start: ExactArray, end: ExactArray) -> AffineLayer:
    """The map from [0, 1] to the segment; differences that floats round are kept as fractions."""
    steps = fractions_of(end) - fractions_of(start)
    return AffineLayer(as_exact(steps[:, None], "end", ndim=2), start)


def _laid_out(
    network: Network, start: ExactArray, end: ExactArray
) -> tuple[tuple[Layer, ...], tuple[Stage, ...]]:
    """The network behind a segment; what does not depend on the segment is kept with the network."""
    kept = network.__dict__.get("_segment_stages")
    if kept is None:
        layers = layers_of(network)
        kept = network.__dict__["_segment_stages"] = (layers, stages_of(layers))
    way = _way(start, end)
    return (way, *kept[0]), (*stages_of((way,)), *kept[1])


def _numbers(array: ExactArray) -> list[Any]:
    return array.floats.tolist() if array.fractions is None else [str(v) for v in array.fractions]


def _array(values: list[Any]) -> ExactArray:
    return as_exact([Fraction(v) if isinstance(v, str) else v for v in values], "point", ndim=1)
