"""From uniform points to 64-bit hashes of their signatures, and from hashes to counts.

A box is scaled; a polygon is cut into triangles, found exactly, so that even a sliver wastes no draw; a
polytope in higher dimension is cut out of its bounding box by rejection.

The weights of the program are those of the forward pass, so the signatures are those of
:meth:`hardmax.Network.signature`.
"""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import EmptyDomainError, InvalidInputError, NotFiniteError
from hardmax.exact.rationals import ExactArray
from hardmax.geometry.domains import Box, Domain, Polytope
from hardmax.networks.attention import working_floats
from hardmax.networks.layers import ArgmaxLayer, Layer, refuse_smooth
from hardmax.networks.network import Network
from hardmax.regions.engine.layer_kernels import ROWS
from hardmax.regions.engine.program import Program
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.plane.geometry import corners_of, domain_polygon
from hardmax.regions.sampling import kernels
from hardmax.regions.segment.geometry import interval_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

_SHARED_UP_TO = 8  # dimensions in which points share the maps of their prefixes
_BUDGET = 10**8  # multiplications between two chances to interrupt
_LARGEST = 1e300  # hidden vectors that may pass this are checked for overflow
_TRIES = 1 << 16  # points of the bounding box that are drawn at a time
_LEAST_SHARE = 1e-4  # of the bounding box; below it rejection would take too long


class SignatureHasher:
    """The hash of the signature at each of many points.

    Parameters
    ----------
    network : Network
    source : UniformPoints
        Where the points will lie.
    generator : numpy Generator
        For the words: one for every unit and every key.
    largest_batch : int
        The largest number of points in one call.

    Examples
    --------
    >>> from hardmax.geometry.domains import Box
    >>> network = Network.mlp([([[1.0]], [0.0]), ([[1.0]], [0.0])])
    >>> source = UniformPoints(Box([-1], [1]))
    >>> hasher = SignatureHasher(network, source, np.random.default_rng(0), largest_batch=3)
    >>> a, b, c = hasher.hashes(np.array([[-0.5], [0.25], [0.75]]))
    >>> bool(a == b), bool(b == c)
    (False, True)
    """

    def __init__(
        self, network: Network, source: UniformPoints, generator: np.random.Generator, *, largest_batch: int
    ) -> None:
        self.network = network
        self.shares = network.d <= _SHARED_UP_TO
        self.low, self.high = source.low, source.high
        self.largest_batch = largest_batch
        layers = _forward_layers(network)
        self.may_overflow = not _bound(layers, source) < _LARGEST
        self._rooms: list[kernels.Workspace] = []
        self.last = max((i for i, layer in enumerate(layers) if layer.cuts), default=-1)
        program = Program.of(layers[: self.last + 1], columns=1, whole=True)
        self.widest = max(1, network.d, program.widest)
        words_at = np.cumsum([0, *program.table[:, ROWS]])
        self.net = kernels.Sampled(
            table=program.table,
            numbers=program.by_columns(),
            heads_at=program.heads_at,
            counts=np.concatenate(
                [np.zeros(0), *(_counts(cast(ArgmaxLayer, layer)) for layer in layers if layer.heads)]
            ),
            words=generator.integers(0, 2**64, size=int(words_at[-1]) + 1, dtype=np.uint64),
            words_at=words_at,
            last=self.last,
        )

    def hashes(self, points: Floats) -> Words:
        """One hash per point (rows). Safe to call from several threads."""
        if self.may_overflow:
            self.network.signature(points)  # says where floats overflow
        hashes = np.zeros(len(points), dtype=np.uint64)
        if self.last < 0:
            return hashes
        room = self._rooms.pop() if self._rooms else self._room()
        arguments = (self.net, points, hashes, room, _BUDGET)
        if self.shares:
            room.order[: len(points)] = self._neighbours_together(points)
            room.state[:] = kernels.NOT_BEGUN, 0, 0
            while not kernels.share_prefixes(*arguments):
                pass
        else:
            room.left[: len(points)] = np.arange(len(points))
            room.state[:] = -1, len(points), 0
        while not kernels.push_points(*arguments):
            pass
        self._rooms.append(room)
        return hashes

    def _neighbours_together(self, points: Floats) -> Integers:
        """An order of the points in which neighbours in space are close: cell by cell of a grid."""
        n, d = points.shape
        across = int((n / kernels.NEIGHBOURS) ** (1 / d))
        if across < 2:
            return np.arange(n)
        cell = np.zeros(n)
        for c in range(d):
            share = (points[:, c] - self.low[c]) / (self.high[c] - self.low[c])
            cell *= across
            cell += np.minimum(np.floor(across * share), across - 1.0)
        return np.argsort(cell.astype(np.uint16), kind="stable")  # numpy sorts short integers in linear time

    def _room(self) -> kernels.Workspace:
        n, d, layers = self.largest_batch, self.network.d, self.last + 1
        sorted_ = n if self.shares else 1
        depth = layers * (d + 1) + 2 if self.shares else 0

        def integers(*shape: int) -> Integers:
            return np.empty(shape, dtype=np.int64)

        def words(*shape: int) -> Words:
            return np.empty(shape, dtype=np.uint64)

        def floats(rows: int) -> Floats:
            return np.empty((max(rows, kernels.BLOCK), self.widest))

        return kernels.Workspace(
            state=integers(3),
            hidden=floats(depth),
            scores=floats(depth),
            near=floats(d + 3 if self.shares else 0),
            frame=integers(layers, 3),
            prefix=words(layers),
            active=integers(2 * self.widest),
            run=np.empty((d + 2, kernels.NEIGHBOURS)),
            best=integers(kernels.NEIGHBOURS),
            near_words=words(self.widest),
            near_heads=integers(self.widest + 1),
            everything=np.arange(self.widest),
            order=integers(sorted_),
            part=words(sorted_),
            left=integers(n),
            member=integers(sorted_),
            swap=integers(sorted_),
            slots=integers(4 << int(sorted_).bit_length()),
            group_part=words(sorted_),
            group_at=integers(sorted_),
        )


def _forward_layers(network: Network) -> tuple[Layer, ...]:
    """The layers of a network with the floats of its forward pass, where products are not multiplied out."""
    refuse_smooth(network)
    layers: list[Layer] = []
    head = unit = 0
    for block in network.blocks:
        for plain in block.plain():
            working = copy(plain)
            for name, value in vars(plain).items():
                if isinstance(value, ExactArray):
                    object.__setattr__(working, name, ExactArray(working_floats(value)))
            layers += working.layers(head, unit)
        head, unit = head + block.heads, unit + block.width
    return tuple(layers)


def _bound(layers: tuple[Layer, ...], source: UniformPoints) -> float:
    """A bound on every number of the forward pass and of the composed maps."""
    largest = float(max(1.0, np.abs(source.low).max(), np.abs(source.high).max())) * len(source.low)
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in layers:
            reached = largest
            steps = [(layer.biases,)] if layer.scores is None else [(layer.scores, layer.biases)]
            for *matrix, constants in [*steps, *layer.factors[1:]]:
                if matrix:
                    reached *= float(np.abs(matrix[0].floats).sum(axis=1).max(initial=0.0))
                reached += float(np.abs(constants.floats).max(initial=0.0))
            if layer.jumps:
                reached += layer.heads * float(np.abs(layer.factors[0][0].floats).max(initial=0.0))
            largest = max(1.0, largest + reached)
    return largest


class SignatureTally:
    """Counts of hashes, in the order of their first appearance.

    Parameters
    ----------
    limit : int
        The largest number of different hashes.

    Examples
    --------
    >>> tally = SignatureTally(limit=10)
    >>> tally.add(np.array([7, 9, 7], dtype=np.uint64))
    >>> tally.counts, tally.first_samples
    (array([2, 1]), array([0, 1]))
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.n_samples = 0
        self.full = False  # a hash was met that the list has no room for; points from there on do not count
        self._listed = 0
        self._hashes: Words = np.empty(0, dtype=np.uint64)
        self._counts: Integers = np.empty(0, dtype=np.int64)
        self._first: Integers = np.empty(0, dtype=np.int64)
        self._grow(min(limit, 1 << 12))

    def __len__(self) -> int:
        return self._listed

    @property
    def counts(self) -> Integers:
        """How often each hash came up."""
        return self._counts[: self._listed]

    @property
    def first_samples(self) -> Integers:
        """The number of the point at which it came up first."""
        return self._first[: self._listed]

    def add(self, hashes: Words) -> None:
        """Count more points; stops at the first that the list has no room for."""
        begin = 0
        while begin < len(hashes) and not self.full:
            begin, self._listed = kernels.tally(
                hashes, begin, self.n_samples, self._listed, self._slots, self._hashes, self._counts,
                self._first,
            )  # fmt: skip
            if begin < len(hashes):
                self.full = len(self._hashes) >= self.limit
                if not self.full:
                    self._grow(min(self.limit, 2 * len(self._hashes)))
        self.n_samples += begin

    def _grow(self, room: int) -> None:
        self._hashes, self._counts, self._first = (
            np.concatenate([old, np.empty(room - len(old), dtype=old.dtype)])
            for old in (self._hashes, self._counts, self._first)
        )
        self._slots: Integers = np.full(1 << (2 * room - 1).bit_length(), -1, dtype=np.int64)
        kernels.rebuild(self._hashes, self._listed, self._slots)


class ForwardHasher:
    """The same by the forward pass, for networks whose heads choose sets of keys.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[1.0], [0.0], [-1.0]]], None, [[[0.0], [1.0], [2.0]]], rule="top-k", k=2)
    >>> hasher = ForwardHasher(hm.Network([head]), np.random.default_rng(0))
    >>> a, b, c = hasher.hashes(np.array([[-0.5], [0.25], [0.75]]))
    >>> bool(a == b), bool(b == c)
    (False, True)
    """

    def __init__(self, network: Network, generator: np.random.Generator) -> None:
        self.network = network
        sizes = [block.n_tokens for block in network.blocks for _ in range(block.heads)]
        sizes += [2] * network.units_total
        self.starts = np.cumsum([0, *sizes])[:-1]
        self.words = generator.integers(0, 2**64, size=sum(sizes) + 1, dtype=np.uint64)

    def hashes(self, points: Floats) -> Words:
        """One hash per point (rows). Safe to call from several threads."""
        signature = self.network.signature(points)
        hashes = np.zeros(len(points), dtype=np.uint64)
        for start, chosen in zip(self.starts, (*signature.routings.T, *signature.relu.T), strict=True):
            hashes ^= self.words[start + chosen]
        return hashes


def hasher_for(
    network: Network, source: UniformPoints, generator: np.random.Generator, *, largest_batch: int
) -> SignatureHasher | ForwardHasher:
    """The hasher for a network: maps of prefixes are not known where heads choose sets of keys."""
    if any(block.chooses_sets for block in network.blocks):
        return ForwardHasher(network, generator)
    return SignatureHasher(network, source, generator, largest_batch=largest_batch)


class UniformPoints:
    """A source of uniform points in a domain.

    Parameters
    ----------
    domain : Box or Polytope
        Bounded, with interior.

    Attributes
    ----------
    low, high : (d,) float64
        The bounding box.

    Examples
    --------
    >>> from hardmax.geometry.domains import Polytope
    >>> triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
    >>> points = UniformPoints(triangle).draw(1000, np.random.default_rng(0))
    >>> bool(triangle.contains(points).all()) and np.allclose(points.mean(axis=0), 1 / 3, atol=0.03)
    True
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.corners: Floats | None = None
        match domain:
            case Box():
                self.low, self.high = domain.low.floats, domain.high.floats
            case Polytope() if domain.d == 1:
                self.low, self.high = _interval(domain)
            case Polytope() if domain.d == 2:
                self.corners = _corners(domain)
                self.low, self.high = self.corners.min(axis=0), self.corners.max(axis=0)
            case Polytope():
                self.low, self.high = _bounding_box(domain)
            case _:
                raise _unbounded(domain)
        with np.errstate(over="ignore"):
            if not np.isfinite(self.high - self.low).all():
                raise NotFiniteError("domain must have sides that fit into float64; try a smaller box.")
        if not (self.high > self.low).all():
            raise EmptyDomainError(
                "domain must be wide enough for floats to tell its ends apart; scale it up."
            )

    def draw(self, n: int, generator: np.random.Generator) -> Floats:
        """Independent uniform points, one per row."""
        if self.corners is not None:
            return self._in_triangles(n, generator)
        if isinstance(self.domain, Polytope) and self.domain.d > 2:
            return self._by_rejection(n, generator)
        return self._in_box(n, generator)

    def _in_box(self, n: int, generator: np.random.Generator) -> Floats:
        points = generator.random((n, len(self.low)))
        points *= self.high - self.low
        points += self.low
        return np.minimum(points, self.high, out=points)

    def _in_triangles(self, n: int, generator: np.random.Generator) -> Floats:
        """A triangle of the fan at the first corner, by area; in it a uniform point."""
        apex = self.corners[0]  # type: ignore[index]
        sides = self.corners[1:] - apex  # type: ignore[index]
        u, v = sides[:-1], sides[1:]
        areas = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
        shares = np.cumsum(areas) / areas.sum()
        r = generator.random((3, n))
        i = np.minimum(np.searchsorted(shares, r[0], side="right"), len(shares) - 1)
        root = np.sqrt(r[1])[:, None]
        t = r[2][:, None]
        return np.asarray(apex + root * ((1 - t) * u[i] + t * v[i]))

    def _by_rejection(self, n: int, generator: np.random.Generator) -> Floats:
        points = np.empty((n, len(self.low)))
        found = tried = 0
        while found < n:
            some = self._in_box(_TRIES, generator)
            some = some[self.domain.contains(some)][: n - found]
            points[found : found + len(some)] = some
            found, tried = found + len(some), tried + _TRIES
            if found < _LEAST_SHARE * tried and found < n:
                raise InvalidInputError(
                    f"domain must fill at least {_LEAST_SHARE:g} of its bounding box to be sampled, but "
                    f"{found} of {tried} points were inside; try a Box, or network.restrict to a slice."
                )
        return points


def _unbounded(domain: Domain) -> InvalidInputError:
    return InvalidInputError(
        f"domain must be bounded, because an unbounded one has no uniform points, but was {domain!r}; "
        f"try hm.Box.cube({domain.d}, -4, 4)."
    )


def _empty() -> EmptyDomainError:
    return EmptyDomainError(
        "domain must have interior, but its half-spaces leave no open set; check the signs of A x <= b."
    )


def _halfspaces(domain: Polytope) -> list[list[int]]:
    exact = ExactMaps((), domain)
    return [list(exact.domain_line(i)) for i in range(domain.b.shape[0])]


def _corners(domain: Polytope) -> Floats:
    """The corners of a polygon, counterclockwise, from exact lines."""
    polygon = domain_polygon(_halfspaces(domain))
    if polygon is None:
        raise _empty()
    lines, labels = polygon
    if min(labels) < 0:
        raise _unbounded(domain)
    return np.array(
        [[Fraction(x, w), Fraction(y, w)] for x, y, w, _, _ in corners_of(lines)], dtype=np.float64
    )


def _interval(domain: Polytope) -> tuple[Floats, Floats]:
    interval = interval_of(_halfspaces(domain))
    if interval is None:
        raise _empty()
    low, low_side, high, high_side = interval
    if min(low_side, high_side) < 0:
        raise _unbounded(domain)
    return np.array([float(low)]), np.array([float(high)])


def _bounding_box(domain: Polytope) -> tuple[Floats, Floats]:
    """By linear programs; one more finds the largest ball inside and shows that there is one."""
    from scipy.optimize import linprog

    a, b = domain.halfspaces()
    norms = np.linalg.norm(a, axis=1)
    free = [(None, None)] * domain.d
    ball = linprog(
        np.append(np.zeros(domain.d), -1.0), np.column_stack([a, norms]), b, bounds=[*free, (None, 1.0)]
    )
    if ball.status == 2 or (ball.status == 0 and not ball.x[-1] > 0.0):
        raise _empty()
    ends = []
    for sign in (1.0, -1.0):
        for i in range(domain.d):
            end = linprog(sign * np.eye(domain.d)[i], a, b, bounds=free)
            if end.status != 0:
                raise _unbounded(domain)
            ends.append(end.x[i])
    return np.array(ends[: domain.d]), np.array(ends[domain.d :])


def _counts(layer: ArgmaxLayer) -> Integers:
    """How many keys of the block each key stands for; negative where tied keys do not share."""
    return layer.multiplicities if layer.mean else -layer.multiplicities
