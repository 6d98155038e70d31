r"""Monte Carlo: how many cells do random points fall into? (The method of P1 figure 6a.)

Uniform points are sent through the network and their distinct signatures counted. That number is a lower
bound on the number of *cells*: every signature seen at a point is a cell's, and cells that no point hit are
missing. It is no bound on the number of linear *regions*: a region may consist of many cells, so there can be
more signatures than regions.

How much is missing? The share of points whose signature came up only once estimates the volume of all unseen
cells together (Good and Turing), and points that are held back turn that into a bound. The exact count of
:func:`hardmax.count_cells` needs none of this where it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DamagedFileError, DimensionMismatchError, InvalidInputError, written
from hardmax.fields import check_range, check_shapes
from hardmax.geometry.domains import Box, Domain, Polytope
from hardmax.limits import Clock
from hardmax.networks.network import Network
from hardmax.networks.reading.sources import NetworkLike, as_network
from hardmax.progress import Progress, shown
from hardmax.randomness import generator_of
from hardmax.regions.engine.workers import check_jobs
from hardmax.regions.sampling.signature_hashes import SignatureTally, UniformPoints, hasher_for
from hardmax.results import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_POINTS = 10**15  # a billion seconds at a million points per second
_BATCH = 1 << 18  # points per task; the tasks do not depend on the number of threads
_NUMBERS = 1 << 22  # coordinates per task at most
_HELD_BACK = 4  # one point of this many, the last ones, tests what the others have not seen


@dataclass(frozen=True, eq=False, repr=False)
class CellEstimate(Result):
    """What random points say about the number of cells.

    Attributes
    ----------
    n_signatures : int
        Distinct signatures seen. A lower bound on the number of cells, not on the number of linear regions.
    n_samples : int
        Points drawn.
    counts : (n_signatures,) int64
        Points with each signature, in the order of their first appearance.
    first_samples : (n_signatures,) int64
        The number of the first such point.
    first_points : (n_signatures, d) float64 or None
        That point, a witness of the cell, if it was asked for.
    domain : Box or Polytope
        Where the points were drawn.
    n_requested : int
        Points asked for; more than ``n_samples`` when the list of signatures was full or the time over.

    Notes
    -----
    Signatures are those of :meth:`hardmax.Network.signature`, in float arithmetic: a point within rounding of
    a wall may be put on its other side. Where keys tie on an open set only up to rounding, which takes
    weights made for it, this can show signatures that no cell has; exact counts do not suffer from it.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random_mlp([2, 16, 16, 16, 1], rng=0)
    >>> box = hm.Box.cube(2, -4, 4)
    >>> estimate = hm.estimate_cells(net, box, n_samples=100_000)
    >>> hm.count_cells(net, box).n_cells >= estimate.n_signatures
    True
    >>> estimate.unseen_mass < estimate.unseen_mass_upper() < 0.003
    True
    """

    kind: ClassVar[str] = "CellEstimate"

    counts: Integers
    first_samples: Integers
    first_points: Floats | None
    domain: Domain
    n_samples: int
    n_requested: int

    @property
    def n_signatures(self) -> int:
        """Distinct signatures seen: a lower bound on the number of cells, not on the number of regions."""
        return len(self.counts)

    @property
    def complete(self) -> bool:
        """Whether as many points were drawn as asked for (not: whether every cell was found)."""
        return self.n_samples == self.n_requested

    @property
    def unseen_mass(self) -> float:
        r"""Good and Turing's estimate of the share of the domain's volume that lies in cells not seen.

        :math:`f_1 / n`, with :math:`f_1` the number of signatures seen once among :math:`n` points. Its
        expectation exceeds that of the unseen share by at most :math:`1/n`.
        """
        return int((self.counts == 1).sum()) / self.n_samples

    def unseen_mass_upper(self, confidence: float = 0.95) -> float:
        r"""An upper bound on the share of the domain's volume that lies in cells not seen.

        The last quarter of the points is held back. Each of them falls outside the cells that the others have
        seen with the probability of just that outside, so their number is binomial, and the bound is Clopper
        and Pearson's. What all points together have not seen is less. Nothing is assumed about the cells.

        Parameters
        ----------
        confidence : float
            The probability, over the draw of the points, with which the bound holds.

        Examples
        --------
        >>> import hardmax as hm
        >>> halves = hm.Network.mlp([([[1.0, 0.0]], [0.0]), ([[1.0]], [0.0])])
        >>> estimate = hm.estimate_cells(halves, hm.Box.cube(2, -1, 1), n_samples=4000)
        >>> estimate.n_signatures, estimate.unseen_mass, round(estimate.unseen_mass_upper(), 3)
        (2, 0.0, 0.003)
        """
        from scipy.special import betaincinv

        if not 0.0 < confidence < 1.0:
            raise InvalidInputError(f"confidence must lie between 0 and 1, but was {confidence}.")
        held_back = self.n_samples // _HELD_BACK
        late = self.first_samples >= self.n_samples - held_back
        outside = int(self.counts[late].sum())
        if outside == held_back:
            return 1.0
        return float(betaincinv(outside + 1, held_back - outside, confidence))

    @property
    def collision_probability(self) -> float:
        """A bound on the probability that two of the signatures had the same hash and were counted as one.

        Hashes are exclusive ors of independent random 64-bit words: a pair collides with probability 2^-64.
        """
        return self.n_signatures * (self.n_signatures - 1) / 2.0**65

    @property
    def n_cells_chao1(self) -> float:
        r"""Chao's species estimate of the number of cells: not a bound, and usually too low.

        :math:`S + \frac{n-1}{n} \frac{f_1 (f_1 - 1)}{2 (f_2 + 1)}` with :math:`S` signatures, of which
        :math:`f_1` were seen once and :math:`f_2` twice. It would be right if the rare cells were equally
        large.
        """
        once, twice = int((self.counts == 1).sum()), int((self.counts == 2).sum())
        missing = (self.n_samples - 1) / self.n_samples * once * (once - 1) / (2 * (twice + 1))
        return self.n_signatures + missing

    def n_signatures_after(self, n_samples: int) -> int:
        """Distinct signatures among the first points only: how the number grew."""
        return int((self.first_samples < n_samples).sum())

    def _state(self) -> dict[str, Any]:
        domain = self.domain
        sides = (domain.low, domain.high) if isinstance(domain, Box) else (domain.a, domain.b)
        return {
            "counts": self.counts,
            "first_samples": self.first_samples,
            "first_points": self.first_points,
            "domain": {
                "box": isinstance(domain, Box),
                "numbers": [side.floats if side.fractions is None else side.fractions for side in sides],
            },
            "n_samples": self.n_samples,
            "n_requested": self.n_requested,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        domain = (Box if state["domain"]["box"] else Polytope)(*state["domain"]["numbers"])
        found = cls(**{**state, "domain": domain})
        if found.counts.sum() != found.n_samples or found.counts.shape != found.first_samples.shape:
            raise DamagedFileError("its counts must add up to the number of points, but do not.")
        check_range("counts", found.counts, 1, found.n_samples + 1)
        check_range("first_samples", found.first_samples, 0, max(found.n_samples, 1))
        check_shapes(vars(found), {"counts": "n", "first_samples": "n", "first_points": "n d"})
        return found

    def _summary(self) -> str:
        stopped = "" if self.complete else f" of {self.n_requested:,} asked for, INCOMPLETE"
        return (
            f"{self.n_signatures:,} signatures at {self.n_samples:,} points{stopped}, "
            f"{self.unseen_mass:.2g} of the domain unseen"
        )

    def _table(self) -> dict[str, Any]:
        table: dict[str, Any] = {"points": self.counts, "first": self.first_samples}
        return table if self.first_points is None else {**table, "x": self.first_points}


def estimate_cells(
    network: NetworkLike,
    domain: Domain,
    *,
    n_samples: int = 2_000_000,
    rng: int | np.random.Generator = 0,
    first_points: bool = False,
    max_signatures: int = 2**24,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
) -> CellEstimate:
    r"""Count the signatures of uniform random points: a lower bound on the number of cells.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or a saved network
        In any input dimension.
    domain : Box or Polytope
        Bounded. In three and more dimensions a polytope should fill a fair part of its bounding box.
    n_samples : int
        The number of points; P1 takes two million.
    rng : int or numpy Generator
        The same seed gives the same points, whatever ``n_jobs``.
    first_points : bool
        Whether to keep the first point with each signature.
    max_signatures : int
        Sampling stops when the list is full; the estimate then says ``complete=False``. An entry takes up to
        100 bytes while the list grows; nothing else grows with the number of points.
    time_limit : float, optional
        Stop after so many seconds; the estimate then says ``complete=False``.
    n_jobs : int, optional
        Threads; ``None`` is one, or what ``joblib.parallel_config`` says.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with a
        :class:`~hardmax.progress.Progress`: the signatures seen, and the share of the points drawn.

    Returns
    -------
    CellEstimate

    See Also
    --------
    hardmax.count_cells : the exact number, in the plane and on the line.

    Notes
    -----
    Points that agree on the first layers share the composed affine map of these layers, so in low dimension a
    point costs little more than a few multiplications per layer. Beyond eight dimensions every point takes
    the forward pass, in blocks; so do networks whose heads choose sets of keys.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.random(2, n_tokens=10, heads=2, depth=2, d_ff=8, rng=0)
    >>> hm.estimate_cells(net, hm.Box.cube(2, -4, 4), n_samples=50_000)
    <CellEstimate: ... signatures at 50,000 points, ... of the domain unseen>
    """
    network = as_network(network)
    _check(network, domain, n_samples, max_signatures, n_jobs)
    clock = Clock(time_limit)
    source, n_samples = UniformPoints(domain), int(n_samples)
    batch = max(1, min(_BATCH, _NUMBERS // network.d))
    generator = generator_of(rng)
    (for_words,) = generator.spawn(1)
    hasher = hasher_for(network, source, for_words, largest_batch=min(batch, n_samples))
    tally = SignatureTally(max_signatures)
    witnesses = []
    over = False  # then tasks that wait are taken and left unused: joblib warns of what is thrown away

    def batches() -> Iterator[tuple[int, np.random.Generator]]:
        # one stream after the other: a trillion points are more than anybody waits for
        for start in range(0, n_samples, batch):
            if over:
                return
            yield min(batch, n_samples - start), generator.spawn(1)[0]

    def hashed(size: int, stream: np.random.Generator) -> tuple[Floats, NDArray[np.uint64]]:
        points = source.draw(size, stream)
        if not clock.limited:
            return points, hasher.hashes(points)
        hashes = _until(clock, hasher, points)
        return points[: len(hashes)], hashes

    with shown(progress, Progress.line) as report:
        for points, hashes in _in_order(hashed, batches(), n_samples > batch, n_jobs):
            if over:
                continue
            start, known = tally.n_samples, len(tally)
            tally.add(hashes)
            if first_points:
                witnesses.append(points[tally.first_samples[known:] - start])
            if report is not None:
                report(Progress(len(tally), tally.n_samples / n_samples, clock.seconds))
            over = tally.full or clock.over
    return CellEstimate(
        counts=tally.counts,
        first_samples=tally.first_samples,
        first_points=np.concatenate(witnesses) if first_points else None,
        domain=domain,
        n_samples=tally.n_samples,
        n_requested=n_samples,
    )


def _until(clock: Clock, hasher: Any, points: Floats) -> NDArray[np.uint64]:
    """The hashes of the first points, as many as there is time for, in pieces that grow while they are quick.

    The numbers of the others stay unknown; those that are known do not depend on where it stopped.
    """
    found, done, piece = [], 0, 64
    while done < len(points):
        begin = clock.seconds
        found.append(hasher.hashes(points[done : done + piece]))
        done += len(found[-1])
        if clock.over:
            break
        if clock.seconds - begin < 0.05:
            piece *= 4
    return np.concatenate(found)


def _in_order(task: Any, arguments: Iterator[Any], several: bool, n_jobs: int | None) -> Iterator[Any]:
    """The results of ``task`` for all arguments in order, as they are needed, computed by threads."""
    import joblib

    if not several or n_jobs == 1:
        return (task(*given) for given in arguments)
    # compiled kernels release the interpreter's lock, so threads are enough and nothing is copied
    run = joblib.Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator", batch_size=1)
    results: Iterator[Any] = run(joblib.delayed(task)(*given) for given in arguments)
    return results


def _check(network: Network, domain: Domain, n_samples: int, max_signatures: int, n_jobs: int | None) -> None:
    if not hasattr(domain, "halfspaces"):
        raise InvalidInputError(f"domain must be a Box or a Polytope, but was a {type(domain).__name__}.")
    if network.d != domain.d:
        raise DimensionMismatchError(
            f"domain must have the dimension of the network's input, {network.d}, but has {domain.d}."
        )
    for name, value in (("n_samples", n_samples), ("max_signatures", max_signatures)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise InvalidInputError(f"{name} must be a whole number of at least 1, but was {written(value)}.")
        if value > MOST_POINTS:
            raise InvalidInputError(
                f"{name} must be at most {MOST_POINTS:,}, which take years, but was {written(value)}."
            )
    check_jobs(n_jobs)
