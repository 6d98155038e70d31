r"""Where a sign is decided when floats cannot tell: one ladder for every engine of regions.

1. *Floats.* A kernel computes the value of a row at a point and a proven bound on its error:
   ``threshold`` of the engine, from the bounds of :func:`~hardmax.regions.engine.layer_kernels.enter`. A
   value beyond its bound has a certain sign. A value within it is undecided.
2. *Zero proof.* What is undecided is almost always exactly zero. Residues modulo primes prove that, or that
   it is not (:mod:`hardmax.regions.engine.sign_kernels`).
3. *Double-double.* What is not zero is computed with thirty digits and a proven bound again (there too).
4. *Rationals.* The rows as integers (:class:`~hardmax.regions.maps.exact_maps.ExactMaps`): the last word, in
   Python.

The first three rungs are compiled into the kernels of the line, the plane and space; zero comes before
double-double because one residue tells, at the price of a float, which of the two is worth asking. A kernel
stops where all of them leave a sign open, and the machine decides it in rationals. :class:`Ladder` holds the
tables that the compiled rungs need and counts what each rung decides. In exact arithmetic floats decide
nothing and only rationals are asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from math import ceil, inf
from typing import Any

import numpy as np

from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.double_double import pair_of
from hardmax.exact.double_double_kernels import UNIT
from hardmax.exact.rationals import ExactArray
from hardmax.exact.residue_kernels import BITS, LANES, TOP
from hardmax.exact.residues import Residues, common_denominator, primes_below
from hardmax.geometry.domains import Domain
from hardmax.regions.engine import sign_kernels as kernels
from hardmax.regions.engine.layer_kernels import LayerRow
from hardmax.regions.engine.program import Program

_MEMORY = 2**28  # bytes that tables of residues may take
_FEW_PRIMES, _MOST_PRIMES = 12, 400  # the most to begin with; beyond, rationals are as fast


class OutOfTime(Exception):
    """A decision in rationals was left because the time of the run is over; it is made again later."""


class Ladder:
    """The rungs behind floats, and how many questions each of them has decided.

    Examples
    --------
    >>> from fractions import Fraction
    >>> ladder = Ladder()
    >>> ladder.decide(lambda x, y: x < y, Fraction(1, 3), Fraction(1, 2))
    True
    >>> ladder.n_zero, ladder.n_double_double, ladder.n_rational
    (0, 0, 1)
    """

    def __init__(self) -> None:
        self.counts = np.zeros(kernels.COUNTS, dtype=np.int64)
        self.n_rational = 0
        self.deadline = inf  # when, by time.monotonic, no further decision is made in rationals

    def check_time(self) -> None:
        """Leave a decision for which there is no time."""
        if time.monotonic() > self.deadline:
            raise OutOfTime

    @property
    def n_zero(self) -> int:
        """How often a zero was proven by residues."""
        return int(self.counts[kernels.N_ZERO])

    @property
    def n_double_double(self) -> int:
        """How often double-double arithmetic decided."""
        return int(self.counts[kernels.N_PAIRS])

    @property
    def decided(self) -> tuple[int, int, int]:
        """What rationals, double-double and zero proofs have decided, to be saved."""
        return self.n_rational, self.n_double_double, self.n_zero

    @decided.setter
    def decided(self, numbers: Any) -> None:
        self.n_rational = int(numbers[0])
        self.counts[kernels.N_PAIRS], self.counts[kernels.N_ZERO] = numbers[1:]

    def forget(self) -> None:
        """Keep nothing about the path: the numbers of layer cells begin anew."""

    def grow(self) -> bool:
        """Provide what the last question lacked; False if nothing can be done."""
        return False

    def decide(self, in_rationals: Callable[..., Any], *question: Any) -> Any:
        """The answer of the last rung."""
        self.check_time()
        self.n_rational += 1
        return in_rationals(*question)


class CompiledLadder(Ladder):
    """A ladder whose middle rungs are compiled: it holds their tables, for a network and a domain.

    ``units`` are the powers of two in which a machine measures coordinates. ``rungs`` begins without primes.
    When a proof lacks some, the kernel says how many bits they must have, and :meth:`grow` provides them: on
    the first question at most ``first_primes`` more than it needs, because it may be the only one.
    """

    def __init__(
        self, program: Program, domain: Domain, *, units: Any = None, first_primes: int = _FEW_PRIMES
    ) -> None:
        super().__init__()
        self._first_primes = first_primes
        self._program = program
        self._domain = domain
        self._units = np.zeros(domain.d, dtype=np.int64) if units is None else units
        self.rungs = self._tables([])

    def forget(self) -> None:
        """Keep nothing about the path: the numbers of layer cells begin anew."""
        for numbers in (self.rungs.mod, self.rungs.pairs):
            for array in (numbers.entered, numbers.origin, numbers.known):
                array[...] = kernels.NO_FACET
        self.rungs.vertex.asked[...] = kernels.NO_FACET

    def grow(self) -> bool:
        """Provide the primes that the last proof lacked; False if it lacked none, or too many."""
        bits, self.counts[kernels.MISSING] = int(self.counts[kernels.MISSING]), 0
        before = int((self.rungs.mod.primes > 1).sum())
        needed = ceil((bits + 8) / BITS)
        size = 8 * (sum(len(place) for place, _ in self._numbers) + 2 * self._program.path_size)
        most = _MEMORY // (LANES * size) * LANES
        if not bits or needed <= before or needed > min(_MOST_PRIMES, most):
            return False
        if self._program.multiplicities.sum() > TOP // 2:  # a prime might divide the share of tied keys
            return False
        # as many as a vertex on rows of the deepest layer will need, where these are few
        deepest = ceil((self._domain.d + 1) * float(self.rungs.denominators.max()) / BITS)
        count = max(needed, 2 * before, min(deepest, _FEW_PRIMES if before else self._first_primes))
        count = min(count, most)
        arrays = [array for array, _ in self._program.parts]
        arrays += [self._domain.a, self._domain.b]
        self.rungs = self._tables(list(islice(primes_below(TOP, arrays), count)))
        return True

    @cached_property
    def _numbers(self) -> list[tuple[Any, Residues]]:
        """Places and residues of the weights that are not listed, and of those that are."""
        program = self._program
        dense = np.ones(len(program.weights), dtype=np.bool_)
        for row in program.table[:-1]:
            here = LayerRow(*row.tolist())
            if here.nonzero_scores >= 0:
                dense[here.scores : here.scores + here.rows * here.d_in] = False
            if here.nonzero_outputs >= 0:
                dense[here.outputs : here.outputs + here.rows * here.d_out] = False
        rounded = any(array.rounded for array, _ in program.parts)
        fractions = program.by_rows(fractions_of) if rounded else None
        return [
            (
                places,
                Residues(
                    ExactArray(program.weights[places], None if fractions is None else fractions[places])
                ),
            )
            for places in (np.flatnonzero(dense), program.nonzeros[2])
        ]

    def _tables(self, primes: list[int]) -> kernels.Rungs:
        program, domain = self._program, self._domain
        d, D, L = domain.d, domain.d + 1, LANES
        layers, path, blocks = len(program.table), program.path_size, -(-len(primes) // L)
        weights = np.zeros((blocks, len(program.weights), L))
        listed = np.zeros((blocks, len(program.nonzeros[2]), L))
        side_rows = np.zeros((blocks, domain.b.shape[0] * D, L))
        units, start = np.ldexp(1.0, self._units), np.zeros((blocks, path, L))
        moduli = np.ones((blocks, L))
        known: Any = self.rungs.mod if primes else None
        of_domain = [Residues(array) for array in (domain.a, domain.b, ExactArray(units))] if primes else []
        for k, prime in enumerate(primes):
            at = k // L, slice(None), k % L
            (places, dense), (_, sparse) = self._numbers
            moduli[k // L, k % L] = prime
            if k < known.primes.size and known.primes.flat[k] == prime:
                weights[at] = known.weights[k // L, k % L :: L]
                listed[at] = known.nonzero[k // L, k % L :: L]
            else:
                weights[k // L, places, k % L] = dense.balanced(prime)
                listed[at] = sparse.balanced(prime)
            a, b, one = (residues.modulo(prime) for residues in of_domain)
            rows = np.hstack([-a.reshape(-1, d) * one, b[:, None]]) % prime
            side_rows[at] = np.where(rows > prime // 2, rows - prime, rows).ravel()
            start[k // L, : d * d, k % L] = np.diag(np.where(one > prime // 2, one - prime, one)).ravel()

        def by_block(numbers: Any) -> Any:
            return numbers.reshape(blocks, numbers.shape[1] * L)

        def none(*shape: int) -> Any:
            return np.full(shape, kernels.NO_FACET, dtype=np.int64)

        def sides(read: Callable[[ExactArray], Any]) -> Any:
            a, b = read(domain.a).reshape(domain.a.shape), read(domain.b).reshape(-1, 1)
            return np.hstack([-a * units, b]).ravel() if a.size else np.zeros(0)

        identity = np.zeros(path)
        identity[: d * d] = np.diag(units).ravel()
        rounded = domain.a.rounded or domain.b.rounded
        rows = np.abs(sides(lambda array: array.floats)).reshape(-1, D)
        scale = rows.max(axis=1, initial=0.0)
        below = max(0, -int(self._units.min()))  # bits that units smaller than one add to denominators
        denominator = (common_denominator(domain.a) * common_denominator(domain.b)).bit_length() + below
        bits = np.column_stack([np.log2(scale * D + 1e-300) + 0.1, np.full(len(scale), float(denominator))])
        return kernels.Rungs(
            mod=kernels.Modulo(
                primes=moduli,
                inverses=1.0 / moduli,
                bits=BITS * (moduli > 1).sum(axis=1),
                shares=np.zeros((blocks, L)),
                weights=by_block(weights),
                nonzero=by_block(listed),
                path=by_block(start),
                entered=none(blocks, layers),
                origin=none(blocks, layers),
                words=none(blocks, program.sign_size),
                known=none(blocks, path),
            ),
            pairs=kernels.Pairs(
                weights_low=program.by_rows(lambda array: pair_of(array)[1]),
                high=identity.copy(),
                low=np.zeros(path),
                entered=none(1, layers),
                origin=none(1, layers),
                words=none(1, program.sign_size),
                known=none(1, path),
            ),
            sides=kernels.Sides(
                mod=by_block(side_rows),
                high=sides(lambda array: pair_of(array)[0]),
                low=sides(lambda array: pair_of(array)[1]),
                error=4.0 * UNIT * scale if rounded else np.zeros(len(scale)),
                bits=bits,
            ),
            vertex=kernels.Vertex(
                names=none(2 * D),
                asked=none(2 * D),
                rays_mod=np.zeros((blocks, D * L)),
                ray_high=np.zeros(D),
                ray_low=np.zeros(D),
                fresh=np.zeros(1 + blocks, dtype=np.int64),
                facets_high=np.zeros(D * D * L),
                facets_low=np.zeros(D * D * L),
                minors_high=np.zeros(L << D),
                minors_low=np.zeros(1 << D),
                size=np.zeros(3),
            ),
            denominators=np.concatenate([program.denominators, [0]]).astype(np.float64) + below,
            counts=self.counts,
        )
