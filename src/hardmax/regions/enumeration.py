r"""The front door of exact enumeration: which engine, how long, how far, and where to go on.

Dimension 2 is the plane engine's. A network on the line is enumerated as the same network on a strip
:math:`[l, h] \times [0, 1]` whose second coordinate it ignores: cells correspond one to one.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax import storage
from hardmax.algebra.rationals import ExactArray
from hardmax.errors import (
    DimensionMismatchError,
    FileFormatError,
    InvalidInputError,
    UnsupportedDimensionError,
)
from hardmax.geometry.domains import Box, Domain, Polytope, WholeSpace
from hardmax.networks.groups import AffineLayer, Layer, layers_of
from hardmax.networks.network import Network
from hardmax.regions import plane_kernels as kernels
from hardmax.regions.counts import CellCount, RegionCount
from hardmax.regions.plane import PlaneMachine
from hardmax.regions.region_set import RegionSet

__all__ = ["Progress", "count_cells", "count_regions", "enumerate_regions"]

_SLICE = 0.05  # seconds between two looks at the clock
_CHECKPOINT_EVERY = 20.0  # seconds
_ARITHMETICS = ("certified", "exact", "float")


@dataclass(frozen=True)
class Progress:
    """What a progress function is told.

    Attributes
    ----------
    n_cells : int
        Cells found so far.
    share : float or None
        Share of the domain's area that is settled; ``None`` in an unbounded domain.
    seconds : float
        Since this process took up the enumeration.
    """

    n_cells: int
    share: float | None
    seconds: float


def enumerate_regions(
    network: Network,
    domain: Domain,
    *,
    arithmetic: str = "certified",
    max_cells: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    sliver: float = 1e-9,
) -> RegionSet:
    r"""Every cell of a network in a domain, and the linear regions they form.

    Parameters
    ----------
    network : Network
        With inputs of dimension 1 or 2; ``network.restrict(origin, directions)`` cuts any other to a slice.
    domain : Box, Polytope or WholeSpace
        Where to look.
    arithmetic : {"certified", "exact", "float"}
        ``"certified"``: floats decide wherever their proven error bound allows it, then double-double, then
        rationals. ``"exact"``: rationals decide everything; the same cells, slowly. ``"float"``: no bound,
        for comparison; the result says ``exact=False``.
    max_cells, time_limit : int, float, optional
        Stop early; the result then says ``complete=False``.
    n_jobs : int, optional
        The result does not depend on it.
    progress : callable, optional
        Called about twenty times per second with a :class:`Progress`.
    checkpoint : path-like, optional
        A file in which the enumeration is kept while it runs. A later call with the same network, domain and
        options goes on from it; it is removed at the end.
    sliver : float
        Tolerance below which a cell is listed among ``slivers``, in units of the size of a bounded domain.

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
    _check_jobs(n_jobs)
    machine, complete = _enumerate(
        network, domain, arithmetic, max_cells, time_limit, progress, checkpoint, sliver, store=True
    )
    return RegionSet.of_machine(network, domain, machine, complete, arithmetic)


def count_cells(
    network: Network,
    domain: Domain,
    *,
    arithmetic: str = "certified",
    max_cells: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    sliver: float = 1e-9,
) -> CellCount:
    """The number of cells of a network in a domain, without keeping them.

    Memory does not grow with the number of cells. The parameters are those of :func:`enumerate_regions`.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.count_cells(hm.Network.random_mlp([2, 32, 32, 32, 1], 0), hm.Box.cube(2, -4, 4))
    <CellCount: 3203 cells, complete, exact>
    """
    _check_jobs(n_jobs)
    machine, complete = _enumerate(
        network, domain, arithmetic, max_cells, time_limit, progress, checkpoint, sliver, store=False
    )
    return CellCount(
        n_cells=machine.n_cells,
        complete=complete,
        exact=arithmetic != "float",
        coverage=machine.coverage,
        n_slivers=int(machine.control[kernels.C_SLIVERS]),
        n_unbounded=int(machine.control[kernels.C_UNBOUNDED]),
        cells_by_depth=tuple(
            int(machine.layer_cells[i])
            for i, layer in enumerate(machine.layers[: machine.program.last + 1])
            if not isinstance(layer, AffineLayer)
        ),
        decided_in_pairs=machine.decided_by_pairs,
        decided_exactly=machine.decided_exactly,
    )


def count_regions(
    network: Network,
    domain: Domain,
    *,
    arithmetic: str = "certified",
    max_cells: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> RegionCount:
    """The number of maximal linear regions of a network in a domain.

    The parameters are those of :func:`enumerate_regions`.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), ([[1.0, 0.0]], [0.0])])
    >>> hm.count_regions(net, hm.Box.cube(2, -1, 1))     # the second unit has no effect
    <RegionCount: 2 regions of 4 cells, complete, exact>
    """
    found = enumerate_regions(
        network,
        domain,
        arithmetic=arithmetic,
        max_cells=max_cells,
        time_limit=time_limit,
        n_jobs=n_jobs,
        progress=progress,
        checkpoint=checkpoint,
    )
    return RegionCount(found.n_regions, found.n_cells, found.complete, found.exact)


def _enumerate(
    network: Network,
    domain: Domain,
    arithmetic: str,
    max_cells: int | None,
    time_limit: float | None,
    progress: Callable[[Progress], object] | None,
    checkpoint: str | os.PathLike[str] | None,
    sliver: float,
    *,
    store: bool,
) -> tuple[PlaneMachine, bool]:
    _check(network, domain, arithmetic, max_cells, time_limit, sliver)
    layers, plane = planar(layers_of(network), domain)
    machine = PlaneMachine(layers, plane, arithmetic=arithmetic, store=store, sliver=sliver)
    if max_cells is not None:
        machine.control[kernels.C_MOST_CELLS] = max_cells
    keeper = None
    if checkpoint is not None:
        keeper = _Checkpoint(Path(checkpoint), _question(network, domain, arithmetic, sliver, store))
        keeper.resume(machine, max_cells)
    complete = _drive(machine, time_limit, progress, keeper)
    return machine, complete


def planar(layers: tuple[Layer, ...], domain: Domain) -> tuple[tuple[Layer, ...], Domain]:
    """The same question in the plane: a line becomes a strip of height 1."""
    if domain.d == 2:
        return layers, domain
    forget = AffineLayer(ExactArray(np.array([[1.0, 0.0]])), ExactArray(np.zeros(1)))
    sides = [[0.0, 1.0], [0.0, -1.0]]
    a, b = domain.a, domain.b
    rows: list[list[Any]] = [[a.rational((i, 0)), 0] for i in range(a.shape[0])]
    ends = [b.rational(i) for i in range(b.shape[0])]
    strip = Polytope(
        np.array(rows + sides, dtype=object),
        np.array([*ends, 1, 0], dtype=object),
    )
    return (forget, *layers), strip


def _check(
    network: Network,
    domain: Domain,
    arithmetic: str,
    max_cells: int | None,
    time_limit: float | None,
    sliver: float,
) -> None:
    if not isinstance(network, Network):
        raise InvalidInputError(f"network must be a hardmax Network, but was {type(network).__name__}.")
    if not isinstance(domain, Box | Polytope | WholeSpace):
        raise InvalidInputError(
            f"domain must be a Box, Polytope or WholeSpace, but was {type(domain).__name__}."
        )
    if network.d != domain.d:
        raise DimensionMismatchError(
            f"domain must have the dimension of the network's input, {network.d}, but has {domain.d}."
        )
    if network.d > 2:
        raise UnsupportedDimensionError(
            f"network must take inputs of dimension 1 or 2 to be enumerated exactly, but takes {network.d}; "
            "try a slice, network.restrict(origin, directions), or hm.estimate_cells."
        )
    if arithmetic not in _ARITHMETICS:
        raise InvalidInputError(
            f"arithmetic must be one of {', '.join(_ARITHMETICS)}, but was {arithmetic!r}."
        )
    if max_cells is not None and max_cells < 1:
        raise InvalidInputError(f"max_cells must be at least 1, but was {max_cells}.")
    if time_limit is not None and not time_limit > 0:
        raise InvalidInputError(f"time_limit must be a positive number of seconds, but was {time_limit}.")
    if not sliver >= 0:
        raise InvalidInputError(f"sliver must be zero or positive, but was {sliver}.")


def _check_jobs(n_jobs: int | None) -> None:
    if n_jobs is not None and n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0; try 1, or -1 for every core.")


def _drive(
    machine: PlaneMachine,
    time_limit: float | None,
    progress: Callable[[Progress], object] | None,
    keeper: _Checkpoint | None,
) -> bool:
    """Advance in slices until done or told to stop; returns whether everything was worked off."""
    begin = time.monotonic()
    steps = 2_000
    try:
        while True:
            before = time.monotonic()
            machine.advance(steps)
            now = time.monotonic()
            if progress is not None:
                progress(Progress(machine.n_cells, machine.coverage, now - begin))
            if machine.done or machine.n_cells >= int(machine.control[kernels.C_MOST_CELLS]):
                break
            if time_limit is not None and now - begin >= time_limit:
                break
            if keeper is not None:
                keeper.maybe_save(machine, now)
            spent = now - before
            steps = max(1, min(int(steps * _SLICE / max(spent, 1e-6)), 4 * steps))
    except BaseException:
        if keeper is not None and machine.whole:
            keeper.save(machine)
        raise
    if keeper is not None:
        if machine.done:
            keeper.path.unlink(missing_ok=True)
        else:
            keeper.save(machine)
    return machine.done


def _question(network: Network, domain: Domain, arithmetic: str, sliver: float, store: bool) -> str:
    """A fingerprint of everything that decides how an enumeration runs."""
    digest = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, ExactArray):
            digest.update(repr(value.shape).encode())
            digest.update(value.floats.tobytes())
            if value.fractions is not None:
                digest.update(repr([str(entry) for entry in value.fractions.flat]).encode())
        elif isinstance(value, np.ndarray):
            digest.update(value.tobytes())
        else:
            digest.update(repr(value).encode())
        digest.update(b"|")

    for layer in layers_of(network):
        feed(type(layer).__name__)
        for name in layer.__dataclass_fields__:
            feed(getattr(layer, name))
    for value in (domain.d, domain.a, domain.b, arithmetic, sliver, store, kernels.FLOATS_PER_EDGE):
        feed(value)
    return digest.hexdigest()


class _Checkpoint:
    """The file in which a running enumeration is kept."""

    def __init__(self, path: Path, question: str) -> None:
        self.path = path
        self.question = question
        self.next = time.monotonic() + _CHECKPOINT_EVERY

    def resume(self, machine: PlaneMachine, max_cells: int | None) -> None:
        """Take up the file's state, if there is one."""
        if not self.path.exists():
            return
        stored = storage.read(self.path)
        if stored.kind != "Enumeration" or stored.state.get("question") != self.question:
            raise FileFormatError(
                f"{self.path} must be the checkpoint of this enumeration, but belongs to another network, "
                "domain or option; name another file or remove it."
            )
        machine.restore(stored.state)
        machine.control[kernels.C_MOST_CELLS] = np.iinfo(np.int64).max if max_cells is None else max_cells

    def maybe_save(self, machine: PlaneMachine, now: float) -> None:
        """Save when it is time again; the more there is to write, the longer the pause."""
        if now >= self.next:
            self.save(machine)
            after = time.monotonic()
            self.next = after + max(_CHECKPOINT_EVERY, 10.0 * (after - now))

    def save(self, machine: PlaneMachine) -> None:
        """Write the machine's state, whole or not at all."""
        storage.write(
            self.path, storage.Stored("Enumeration", {"question": self.question, **machine.state()}, {})
        )
