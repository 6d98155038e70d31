r"""Exact enumeration: every cell of a network, their number, and the number of regions they form.

The engine for the dimension (:mod:`hardmax.regions.engine.question`) finds the cells. Its work is a list of
tasks (:mod:`hardmax.regions.engine.tasks`), kept in a checkpoint while threads or a cluster process them
(:mod:`hardmax.regions.engine.workers`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, written
from hardmax.geometry.domains import Box, Domain, Polytope, WholeSpace
from hardmax.limits import Clock, left
from hardmax.networks.heads.key_sets import Listed
from hardmax.networks.network import Network
from hardmax.networks.reading.sources import NetworkLike, as_network
from hardmax.progress import Progress as Progress
from hardmax.progress import shown
from hardmax.regions.cells import Cells, Table
from hardmax.regions.engine.question import ENGINES, Question, engine_for
from hardmax.regions.engine.stack_machine import Tally
from hardmax.regions.engine.tasks import HEAD, Checkpoint, Schedule
from hardmax.regions.engine.workers import check_jobs, run
from hardmax.regions.listing import KeySetList, until_listed
from hardmax.regions.maps.merging import Fingerprints, certain_contacts, repeated
from hardmax.regions.outlook import Outlook
from hardmax.regions.result import CellCount, RegionCount, RegionSet

_ARITHMETICS = ("certified", "exact", "float")


def enumerate_regions(
    network: NetworkLike,
    domain: Domain,
    *,
    arithmetic: str = "certified",
    max_cells: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    sliver: float = 1e-9,
    engine: str | None = None,
) -> RegionSet:
    r"""Every cell of a network in a domain, and the linear regions they form.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or a saved network
        With inputs of any dimension; many cells are within reach up to about six, and
        ``network.restrict(origin, directions)`` cuts any other to a slice.
    domain : Box, Polytope or WholeSpace
        Where to look.
    arithmetic : {"certified", "exact", "float"}
        ``"certified"``: floats decide wherever their proven error bound allows it, then double-double, then
        rationals. ``"exact"``: rationals decide everything; the same cells, slowly. ``"float"``: no bound,
        for comparison; the result says ``exact=False``.
    max_cells, time_limit : int, float, optional
        Stop early; the result then says ``complete=False``.
    n_jobs : int, optional
        How many threads share the work; -1 for every core. ``None`` is one, or what
        ``joblib.parallel_config`` says: with ``backend="dask"`` a cluster does the work. The result does not
        depend on it.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called about twenty times per second with a
        :class:`Progress`.
    checkpoint : path-like, optional
        A file in which the enumeration is kept while it runs. A later call with the same network, domain and
        options goes on from it, also with another ``n_jobs``; it is removed at the end. Many cells need files
        of their own beside it (``run.part-1.npz`` and so on).
    sliver : float
        Tolerance below which a cell is listed among ``slivers``, in units of the size of a bounded domain.
    engine : {"plane", "space", "search", "segment"}, optional
        Which engine; by default the one for the dimension of the domain.

    Returns
    -------
    RegionSet

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random_mlp([2, 16, 16, 16, 1], 0)
    >>> regions = hm.enumerate_regions(net, hm.Box.cube(2, -4, 4))
    >>> regions
    <RegionSet: 778 cells in the plane, complete, exact>
    >>> regions.n_regions, round(regions.coverage, 9)
    (778, 1.0)
    """
    question = _asked(network, domain, arithmetic, sliver, engine, "cells")
    with _run(question, max_cells, time_limit, n_jobs, progress, checkpoint) as run:
        return run.found().regions


def count_cells(
    network: NetworkLike,
    domain: Domain,
    *,
    arithmetic: str = "certified",
    max_cells: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    sliver: float = 1e-9,
    engine: str | None = None,
) -> CellCount:
    """The number of cells of a network in a domain, without keeping them.

    Memory does not grow with the number of cells. The parameters are those of :func:`enumerate_regions`.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.count_cells(hm.Network.random_mlp([2, 32, 32, 32, 1], 0), hm.Box.cube(2, -4, 4))
    <CellCount: 3203 cells, complete, exact>
    """
    question = _asked(network, domain, arithmetic, sliver, engine, "nothing")
    with _run(question, max_cells, time_limit, n_jobs, progress, checkpoint) as run:
        found = run.found()
    tally, machine = found.tally, found.machine
    thresholds = () if found.listed is None else found.listed.thresholds
    by_layer = [
        (layer, cells)
        for i, (layer, cells) in enumerate(zip(machine.layers, tally.layer_cells, strict=False))
        if i - len(machine.layers) not in thresholds
    ]
    return CellCount(
        n_cells=tally.n_cells,
        complete=found.complete,
        exact=arithmetic != "float",
        coverage=found.coverage,
        n_slivers=None if machine.n_slivers is None else tally.n_slivers,
        n_unbounded=None if machine.n_unbounded is None else tally.n_unbounded,
        cells_by_depth=tuple(cells for layer, cells in by_layer if layer.cuts),
        n_double_double=tally.n_double_double,
        n_zero=tally.n_zero,
        n_rational=tally.n_rational,
        outlook=found.outlook,
    )


def count_regions(
    network: NetworkLike,
    domain: Domain,
    *,
    arithmetic: str = "certified",
    max_cells: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    engine: str | None = None,
) -> RegionCount:
    """The number of maximal linear regions of a network in a domain.

    The parameters are those of :func:`enumerate_regions`. Few cells are kept and glued. Many are found twice:
    first a fingerprint of each cell's map is kept, eight bytes; then the cells whose fingerprint occurs more
    than once, which are compared and glued. If that is stopped early, ``n_regions`` counts the different maps
    found so far.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), ([[1.0, 0.0]], [0.0])])
    >>> hm.count_regions(net, hm.Box.cube(2, -1, 1))     # the second unit has no effect
    <RegionCount: 2 regions of 4 cells, complete, exact>
    """
    question = _asked(network, domain, arithmetic, 1e-9, engine, "prints")
    with _run(question, max_cells, time_limit, n_jobs, progress, checkpoint) as run:
        return run.counted()


def _asked(
    network: NetworkLike, domain: Domain, arithmetic: str, sliver: float, engine: str | None, keep: str
) -> Question:
    """The question, once it makes sense."""
    network = as_network(network)
    if not isinstance(domain, Box | Polytope | WholeSpace):
        raise InvalidInputError(
            f"domain must be a Box, Polytope or WholeSpace, but was {type(domain).__name__}; "
            f"try: hm.Box.cube({network.d}, -4, 4)."
        )
    if network.d != domain.d:
        raise DimensionMismatchError(
            f"domain must have the dimension of the network's input, {network.d}, but has {domain.d}."
        )
    if arithmetic not in _ARITHMETICS:
        raise InvalidInputError(
            f"arithmetic must be one of {', '.join(_ARITHMETICS)}, but was {arithmetic!r}."
        )
    if not 0 <= sliver <= sys.float_info.max:
        raise InvalidInputError(f"sliver must be zero or positive, but was {written(sliver)}.")
    engine_for(domain.d, engine)
    return Question(network, domain, arithmetic, float(sliver), keep, engine)


@contextmanager
def _run(
    question: Question,
    max_cells: int | None,
    time_limit: float | None,
    n_jobs: int | None,
    progress: bool | Callable[[Progress], object] | None,
    checkpoint: str | os.PathLike[str] | None,
) -> Iterator[_Run]:
    """An enumeration whose limits make sense, while its progress is shown."""
    check_jobs(n_jobs)
    if max_cells is not None and max_cells < 1:
        raise InvalidInputError(f"max_cells must be at least 1, but was {written(max_cells)}.")
    time_limit = left(Clock(time_limit).time_limit)
    with shown(progress, Progress.line) as report:
        path = None if checkpoint is None else Path(checkpoint)
        yield _Run(question, max_cells, time_limit, n_jobs, report, path)


@dataclass(frozen=True)
class _Found:
    """What an enumeration found."""

    question: Question
    machine: Any
    tally: Tally
    complete: bool
    table: Table
    listed: Listed | None = None

    @property
    def coverage(self) -> float | None:
        """The share of the domain that the cells fill."""
        share: float | None = self.machine.share(self.tally.size)
        return share

    @property
    def outlook(self) -> Outlook | None:
        """A bound and a sample of the number of cells, unless all of them are known."""
        return None if self.complete else self.question.outlook

    @property
    def cells(self) -> Cells:
        """The cells in order, if they were kept."""
        return self.question.cells(self.table, self.machine)

    @property
    def regions(self) -> RegionSet:
        """The cells as a result."""
        asked = self.question
        return RegionSet.of_machine(
            asked.network,
            asked.domain,
            self.machine,
            self.cells,
            arithmetic=asked.arithmetic,
            complete=self.complete,
            covered=self.coverage,
            outlook=self.outlook,
            listed=self.listed,
        )


def _tally_of(found: _Found, proven: NDArray[np.bool_]) -> Tally:
    """What is counted of the proven cells alone; nothing is proven about the layers before the last."""
    regions = found.regions
    volumes, size = regions.volumes, 0.0
    if volumes is not None and proven.any() and found.coverage is not None:
        size = found.tally.size * float(volumes[proven].sum() / volumes.sum())
    return replace(
        found.tally,
        n_cells=int(proven.sum()),
        n_slivers=int(proven[regions.slivers].sum()),
        n_unbounded=int((proven & ~regions.bounded).sum()),
        size=size,
        layer_cells=(),
    )


@dataclass(frozen=True)
class _Run:
    """A question with limits, workers, and where to report and keep what was found so far."""

    question: Question
    max_cells: int | None
    time_limit: float | None
    n_jobs: int | None
    progress: Callable[[Progress], object] | None
    checkpoint: Path | None

    def found(self, keeper: Checkpoint | None = None) -> _Found:
        """Process every task of the question, as far as the limits allow."""
        if any(block.chooses_sets for block in self.question.network.blocks):
            return self._found_listed()
        begin = time.monotonic()  # a machine solves its first programs when it is made
        machine = self.question.machine()
        schedule = Schedule(machine, self.max_cells)
        if self.checkpoint is not None:
            keeper = keeper or Checkpoint(self.checkpoint, self.question.digest)
            keeper.resume(schedule)
        self.process(schedule, begin, keeper)
        return self.gathered(schedule, machine)

    def _found_listed(self) -> _Found:
        """The same for a network whose heads choose sets: again and again, until no set is missing."""
        asked, begin, path = self.question, time.monotonic(), self.checkpoint
        sets = KeySetList(asked.network, asked.domain)
        if path is not None:
            kept = Checkpoint(path, asked.digest)
            if kept.stored() is not None:
                sets.restore(kept.extra["sets"])
        rounds: list[Checkpoint] = []
        begun = True  # whether the first list is the one of every run

        def left() -> float | None:
            return None if self.time_limit is None else self.time_limit - (time.monotonic() - begin)

        def seconds() -> float | None:
            limit = left()
            return None if limit is None else max(limit, 1e-3)

        def asked_of(network: Network) -> Question:
            return replace(asked, network=network, keep="cells", source=asked.network)

        def before(network: Network) -> tuple[Cells, Any]:
            """The cells of the blocks before; a run that is to be resumed needs all of them."""
            nonlocal begun
            most = self.max_cells if path is None else None
            run = replace(
                self, question=asked_of(network), max_cells=most, time_limit=seconds(), checkpoint=None
            )
            result = run.found()
            begun = begun and result.complete
            return result.cells, result.machine.exact_maps

        def find(network: Network) -> tuple[_Found, Cells, Any, bool]:
            question, keeper = asked_of(network), None
            if path is not None and begun:
                # kept at its end too: another round may follow, which begins with a file of its own
                keeper = Checkpoint(path, asked.digest, extra={"sets": sets.state()}, lasting=True)
                if rounds:
                    keeper.save(Schedule(question.machine()))
                    rounds[-1].remove_parts()
                rounds.append(keeper)
            run = replace(
                self, question=question, time_limit=seconds(), checkpoint=None if keeper is None else path
            )
            result = run.found(keeper)
            limit = left()
            go_on = (limit is None or limit > 0) and (path is None or result.complete)
            return result, result.cells, result.machine.exact_maps, go_on

        listed, found, cells, proven = until_listed(sets, find, before if asked.name != "search" else None)
        if rounds and found.complete and proven.all():
            rounds[-1].remove()
        if not proven.all():
            tally = _tally_of(found, proven)
            found = replace(found, complete=False, table=cells.select(proven).table, tally=tally)
        whole: _Found = replace(found, question=asked, listed=listed)
        return whole

    def process(self, schedule: Schedule, begin: float, keeper: Checkpoint | None = None) -> None:
        """Process the tasks of a schedule, as far as the limits allow."""
        run(
            self.question, schedule, n_jobs=self.n_jobs, begin=begin, time_limit=self.time_limit,
            progress=self.progress, checkpoint=keeper,
        )  # fmt: skip

    def gathered(self, schedule: Schedule, machine: Any) -> _Found:
        """What the tasks of a schedule, which began with a machine, found."""
        max_cells, complete, tally = self.max_cells, schedule.done, schedule.tally()
        truncated = max_cells is not None and not complete and tally.n_cells > max_cells
        if truncated or schedule.full:
            tally = schedule.first_tally()
        table = schedule.all_cells(tally.n_cells if truncated else None)
        return _Found(self.question, machine, tally, complete, table)

    def counted(self) -> RegionCount:
        """Regions by fingerprints; if there are few cells, they are kept instead."""
        end = None if self.time_limit is None else time.monotonic() + self.time_limit
        question, checkpoint, max_cells = self.question, self.checkpoint, self.max_cells
        exact = question.arithmetic != "float"
        if any(block.chooses_sets for block in question.network.blocks):
            found = self.found()
            return RegionCount(
                found.regions.n_regions, found.tally.n_cells, found.complete, exact, found.outlook
            )

        def next_run(question: Question, max_cells: int | None = None) -> _Run:
            left = None if end is None else max(end - time.monotonic(), 1e-3)
            return replace(self, question=question, max_cells=max_cells, time_limit=left)

        schedule = None
        if checkpoint is None:
            most = HEAD if max_cells is None else min(HEAD, max_cells)
            first, begin = next_run(replace(question, keep="cells"), most), time.monotonic()
            machine = first.question.machine()
            schedule = Schedule(machine, most)
            first.process(schedule, begin)
            if schedule.done:
                found = first.gathered(schedule, machine)
                return RegionCount(found.regions.n_regions, found.tally.n_cells, True, exact)
            prints_of = Fingerprints(machine.exact_maps).of
            if not schedule.full or most == max_cells:
                found = first.gathered(schedule, machine)
                prints = prints_of(found.cells)
                return RegionCount(len(np.unique(prints)), found.tally.n_cells, False, exact, found.outlook)
            kind = ENGINES[question.name].kind
            schedule.keep_instead(lambda table: {"prints": prints_of(Cells(kind=kind, **table))}, max_cells)
        second = replace(question, keep="repeated")
        known = _second_pass(second, checkpoint)
        if known is None:
            keeper = None if checkpoint is None else Checkpoint(checkpoint, question.digest, lasting=True)
            rest = next_run(question, max_cells)
            if schedule is None:
                found = rest.found(keeper)
            else:  # from the cells that are known on
                rest.process(schedule, time.monotonic())
                found = rest.gathered(schedule, machine)
            prints, n_cells = found.table["prints"], found.tally.n_cells
            if not found.complete:
                return RegionCount(len(np.unique(prints)), n_cells, False, exact, found.outlook)
            values, single = repeated(prints)
            known = {"repeated": values, "single": single, "n_cells": n_cells}
            if keeper is not None and len(values):
                later = Checkpoint(keeper.path, second.digest, extra=known)
                later.save(Schedule(replace(second, repeated=values).machine()))
                keeper.remove_parts()
            elif keeper is not None:
                keeper.remove()
        values, single, n_cells = known["repeated"], int(known["single"]), int(known["n_cells"])
        if not len(values):
            return RegionCount(single, n_cells, True, exact)
        found = next_run(replace(second, repeated=values)).found()
        if not found.complete:
            return RegionCount(single + len(values), n_cells, False, exact, found.outlook)
        some = found.regions
        if not certain_contacts(some):
            # floats cannot vouch for contacts among some of the cells; among all of them they need not
            every = replace(question, keep="cells")
            some = _Run(every, None, None, self.n_jobs, self.progress, None).found().regions
            single = 0
        return RegionCount(single + some.n_regions, n_cells, True, exact)


def _second_pass(question: Question, checkpoint: Path | None) -> dict[str, Any] | None:
    """What a checkpoint of the second pass says about the first."""
    if checkpoint is None:
        return None
    keeper = Checkpoint(checkpoint, question.digest)
    return keeper.extra if keeper.is_mine() and keeper.stored() is not None else None
