r"""How far softmax can carry one input away from hardmax, layer by layer, proven.

Fix an input. At temperature zero every head has winners T, the keys with the largest score, and adds the mean
of their outputs (or the output of one of them, by its rule for ties). At temperature :math:`\tau` the state
behind each block is different; call the difference its *deviation*. It is a sum of sources, each carried on
by the affine maps that the later blocks are at temperature zero:

* *A head* adds :math:`\sum_j p_j (v_j - v)`, where v is what it adds at temperature zero. Let key j be behind
  by the margin :math:`m_j`, and let the deviation in front of the head raise its score against the winner's
  by at most :math:`\eta_j`. Then :math:`p_j \le r_j P`, where P is what the winners get together and

  .. math:: r_j = \frac{1}{n} e^{-(m_j - \eta_j)/\tau} .

  n = :math:`\lvert T\rvert` if nothing in front of the head can part the winners: then they share evenly at
  every temperature. Otherwise n = 1, and they may share in any way. A key with :math:`\eta_j \ge m_j` may get
  any share.
* *A ReLU unit* whose sign the deviation can change adds what it bends away from its affine piece: between 0
  and :math:`(1 - \alpha)` times the overshoot. A group of maxout pieces likewise.

For a direction c let :math:`d_j = c \cdot (v_j - v)`. The largest that a head can contribute to c is

.. math:: \max_{A} \frac{d_T + \sum_{j \in A} r_j d_j}{1 + \sum_{j \in A} r_j},

over sets A of keys, with :math:`d_T = 0` for winners that share evenly, else the largest :math:`d_t \ge 0`:
a fraction of linear functions of the :math:`p_j / P \in [0, r_j]` is largest at a corner of that box, and of
all corners one takes the keys with the largest d first. So a sort finds it. The sum over the sources bounds
:math:`c \cdot` deviation. With one head and no deviation in front of it the bound is attained as soon as no
key outside A has a part in it: :mod:`hardmax.temperature.certified` says what follows.

Every :math:`r_j` grows with :math:`\tau` (:math:`m_j - \eta_j > 0` shrinks and is divided by more), and with
it every contribution. So what is shown at one temperature holds at all lower ones.

Margins, directions and the maps of blocks are exact rationals; only :math:`e^{-x}` and sums of it are balls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import flint
import numpy as np

from hardmax.errors import InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.products import integer_matrix, integer_stack
from hardmax.exact.rationals import ExactArray
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Affine, Block, FeedForward, Maxout
from hardmax.networks.heads.experts import MixtureOfExperts
from hardmax.networks.layers import sets_unknown

Rational = flint.fmpq
Matrix = flint.fmpq_mat

ZERO, INFINITE = 0.0, float("inf")
"""The limits of temperature at which a bound can be asked for too."""


@dataclass(frozen=True)
class Direction:
    """What a direction sees of each source: coefficients above zero with their key, largest first."""

    seen: tuple[tuple[int, tuple[tuple[flint.arb, int], ...]], ...]

    @property
    def still(self) -> bool:
        """Whether no source raises it."""
        return not self.seen


@dataclass
class Source:
    """Something that deviates: a head with rivals, or a unit (or group) with one bend."""

    margins: tuple[flint.arb, ...]  # of the rivals; of a bend, how far its signs are from changing
    raised: tuple[Direction, ...]  # the direction in which each of them is lost
    winners: int = 1  # that share evenly; 0 if they may share in any way
    n_tied: int = 0  # columns of winners that may share in any way, before those of the rivals
    bend: bool = False


@dataclass
class Walk:
    """One input on its way through a network: sources, margins, and the exact values at the end.

    Attributes
    ----------
    value : list of fmpq
        The output at temperature zero.
    head_margins : list of (block, fmpq)
        The smallest margin of each head with a rival.
    """

    look: Callable[[], object] | None = None  # called between pieces of work; what it raises ends them
    value: list[Rational] = field(default_factory=list)
    head_margins: list[tuple[int, Rational]] = field(default_factory=list)
    tied: list[tuple[int, int]] = field(default_factory=list)  # block and head whose winners can be parted
    _sources: list[Source] = field(default_factory=list)
    _columns: list[list[tuple[int, Matrix]]] = field(default_factory=list)  # per block: source, its columns
    _maps: list[Matrix] = field(default_factory=list)

    # Building
    # ------------------------------------------------------------------------------------------------------

    def directions(self, rows: Matrix) -> list[Direction]:
        """The rows as directions of the state behind the blocks so far."""
        seen: list[list[tuple[int, tuple[tuple[flint.arb, int], ...]]]] = [[] for _ in range(rows.nrows())]
        for columns, local in zip(reversed(self._columns), reversed(self._maps), strict=True):
            for source, matrix in columns:
                if self.look is not None:
                    self.look()
                for i, coefficients in enumerate((rows * matrix).tolist()):
                    positive = sorted(
                        ((c, j) for j, c in enumerate(coefficients) if c > 0), key=_largest_first
                    )
                    if positive:
                        seen[i].append((source, tuple((flint.arb(c), j) for c, j in positive)))
            rows = rows * local
        return [Direction(tuple(parts)) for parts in seen]

    def enter(self, local: Matrix) -> None:
        """Begin a block that is this linear map around the exact state."""
        self._maps.append(local)
        self._columns.append([])

    def add(self, source: Source, columns: Matrix) -> None:
        """A source whose deviation is made of these columns, behind the last block."""
        self._columns[-1].append((len(self._sources), columns))
        self._sources.append(source)

    # Bounds
    # ------------------------------------------------------------------------------------------------------

    def bounds(self, asked: Sequence[Direction], temperature: float) -> list[flint.arb]:
        """The largest that each direction can get of the deviation, at a temperature or in a limit."""
        parts: list[list[flint.arb | None]] = []
        for source in self._sources:
            if self.look is not None:
                self.look()
            parts.append(self._ratios(source, parts, temperature))
        return [self._most(direction, parts) for direction in asked]

    def _ratios(
        self, source: Source, parts: list[list[flint.arb | None]], temperature: float
    ) -> list[flint.arb | None]:
        """For each column the ratio r, None for any share; of a bend, how much it bends at most."""
        raised = [self._most(direction, parts) for direction in source.raised]
        if source.bend:
            over = flint.arb(0)
            for most, margin in zip(raised, source.margins, strict=True):
                over = over.max(most - margin)
            return [over]
        ratios: list[flint.arb | None] = [None] * source.n_tied
        for most, margin in zip(raised, source.margins, strict=True):
            left = margin - most
            if not left > 0:
                ratios.append(None)
            elif temperature == ZERO:
                ratios.append(flint.arb(0))
            else:
                power = flint.arb(1) if temperature == INFINITE else (-left / flint.arb(temperature)).exp()
                ratios.append(power / max(source.winners, 1))
        return ratios

    def _most(self, direction: Direction, parts: list[list[flint.arb | None]]) -> flint.arb:
        total = flint.arb(0)
        for number, coefficients in direction.seen:
            source, ratios = self._sources[number], parts[number]
            if source.bend:
                bent = ratios[0]
                assert bent is not None
                total += coefficients[0][0] * bent
                continue
            free, shared = flint.arb(0), flint.arb(1)  # what any share can give, and the denominator
            for c, j in coefficients:
                if ratios[j] is None:
                    free = free.max(c)
            tied = flint.arb(0)
            for c, j in coefficients:
                if j < source.n_tied:
                    tied = tied.max(c)
            best, gained = free.max(tied), tied
            for c, j in coefficients:
                r = ratios[j]
                if r is not None:
                    gained, shared = gained + r * c, shared + r
                    best = best.max(gained / shared)
            total += best
        return total


def walk(
    blocks: Sequence[Block], point: Sequence[Rational], look: Callable[[], object] | None = None
) -> Walk:
    """One input through the blocks, exactly."""
    way = Walk(look)
    y = Matrix(len(point), 1, list(point))
    for i, block in enumerate(blocks):
        after = block.compose_exactly(y, None)
        if isinstance(block, Attention):
            _attention(way, i, block, y)
        elif isinstance(block, FeedForward):
            _feed_forward(way, block, y)
        elif isinstance(block, Maxout):
            _maxout(way, block, y)
        elif isinstance(block, Affine):
            way.enter(_matrix(block.w))
        else:
            raise InvalidInputError(
                f"network must be made of Attention, FeedForward, Maxout and Affine, but block {i} is a "
                f"{type(block).__name__}."
            )
        y = after
    way.value = [y[i, 0] for i in range(y.nrows())]
    return way


def _attention(way: Walk, number: int, block: Attention, y: Matrix) -> None:
    found = []
    mean = getattr(block, "ties", "mean") == "mean"
    last = getattr(block, "ties", "mean") == "rightmost"
    for h, ((slopes, unit), (outputs, output_unit)) in enumerate(
        zip(integer_stack(block.scores), integer_stack(block.outputs), strict=True)
    ):
        a, v = Matrix(slopes) * Rational(1, unit), Matrix(outputs) * Rational(1, output_unit)
        s = a * y
        present = np.flatnonzero(block.mask[h]).tolist()
        scores = {j: s[j, 0] + block.biases.rational((h, j)) for j in present}
        top = max(scores.values())
        tied = [j for j in present if scores[j] == top]
        rivals = [j for j in present if scores[j] != top]
        winner = tied[-1 if last else 0]
        shared = tied if mean else [winner]
        e, d = v.ncols(), a.ncols()
        base = [sum((v[j, c] for j in shared), Rational(0)) / len(shared) for c in range(e)]
        apart = _differences(a, [j for j in tied if j != winner], winner, d)
        even = len(tied) == 1 or (
            mean
            and all(direction.still for ways in (apart, -1 * apart) for direction in way.directions(ways))
        )
        if not even:
            way.tied.append((number, h))
        kept = rivals if even else [*tied, *rivals]
        if rivals:
            way.head_margins.append((number, top - max(scores[j] for j in rivals)))
        if kept:
            source = Source(
                margins=tuple(flint.arb(top - scores[j]) for j in rivals),
                raised=tuple(way.directions(_differences(a, rivals, winner, d))) if rivals else (),
                winners=len(tied) if even else 1,
                n_tied=len(kept) - len(rivals),
            )
            columns = Matrix(e, len(kept), [v[j, c] - base[c] for c in range(e) for j in kept])
            found.append((source, columns))
    way.enter(_identity(block.d_in) if block.skip else Matrix(block.d_out, block.d_in))
    for source, columns in found:
        way.add(source, columns)


def _feed_forward(way: Walk, block: FeedForward, y: Matrix) -> None:
    w = _identity(block.d_in) if block.w_in is None else _matrix(block.w_in)
    z, v = w * y, _matrix(block.w_out)
    slopes = [Rational(s.numerator, s.denominator) for s in fractions_of(block.slope).tolist()]
    factors, bends = [], []
    rows, n, d, e = w.tolist(), block.width, block.d_in, block.d_out
    for u in range(n):
        level = z[u, 0] + block.b_in.rational(u)
        on = level > 0
        factors.append(Rational(1) if on else slopes[u])
        if slopes[u] != 1:
            sign = -1 if on else 1
            bends.append((u, abs(level), [sign * c for c in rows[u]]))
    found = []
    if bends:
        for (u, level, _), direction in zip(
            bends, way.directions(Matrix(len(bends), d, [c for _, _, row in bends for c in row])), strict=True
        ):
            if not direction.still:
                source = Source(margins=(flint.arb(level),), raised=(direction,), bend=True)
                found.append((source, Matrix(e, 1, [(1 - slopes[u]) * v[c, u] for c in range(e)])))
    local = v * Matrix(n, d, [factors[u] * c for u in range(n) for c in rows[u]])
    way.enter(local + _identity(d) if block.skip else local)
    for source, columns in found:
        way.add(source, columns)


def _maxout(way: Walk, block: Maxout, y: Matrix) -> None:
    g, d = block.heads, block.d_in
    v = _identity(g) if block.w_out is None else _matrix(block.w_out)
    e = v.nrows()
    winning, found = [], []
    for h, (slopes, unit) in enumerate(integer_stack(block.scores)):
        a = Matrix(slopes) * Rational(1, unit)
        s = a * y
        present = np.flatnonzero(block.mask[h]).tolist()
        scores = {j: s[j, 0] + block.biases.rational((h, j)) for j in present}
        winner = max(present, key=scores.__getitem__)
        rivals = [j for j in present if j != winner]
        winning += [a[winner, c] for c in range(d)]
        if rivals:
            raised = tuple(way.directions(_differences(a, rivals, winner, d)))
            margins = tuple(flint.arb(scores[winner] - scores[j]) for j in rivals)
            if not all(direction.still for direction in raised):
                found.append((Source(margins, raised, bend=True), Matrix(e, 1, [v[c, h] for c in range(e)])))
    local = v * Matrix(g, d, winning)
    way.enter(local + _identity(d) if block.skip else local)
    for source, columns in found:
        way.add(source, columns)


def _differences(a: Matrix, rows: list[int], winner: int, d: int) -> Matrix:
    return Matrix(len(rows), d, [a[j, c] - a[winner, c] for j in rows for c in range(d)])


def _matrix(array: ExactArray) -> Matrix:
    numerators, denominator = integer_matrix(array)
    return Matrix(numerators) * Rational(1, denominator)


def _identity(n: int) -> Matrix:
    return Matrix(n, n, [int(i == j) for i in range(n) for j in range(n)])


def _largest_first(item: tuple[Rational, int]) -> Rational:
    return -item[0]


# The softmax network itself
# ----------------------------------------------------------------------------------------------------------


def soft_value(blocks: Sequence[Block], point: Sequence[Fraction], temperature: float) -> list[flint.arb]:
    """The output of one input at a temperature as balls, in the working precision of flint."""
    y = [flint.arb(_fmpq(value)) for value in point]
    for block in blocks:
        if isinstance(block, MixtureOfExperts):
            raise sets_unknown(block)
        if isinstance(block, Attention):
            y = _soft_attention(block, y, flint.arb(temperature))
        elif isinstance(block, Affine):
            y = _image(block.w, block.b, y)
        elif isinstance(block, FeedForward):
            z = (
                [p + block.b_in.rational(u) for u, p in enumerate(y)]
                if block.w_in is None
                else _image(block.w_in, block.b_in, y)
            )
            bent = [p.max(0) + block.slope.rational(u) * p.min(0) for u, p in enumerate(z)]
            added = _image(block.w_out, block.b_out, bent)
            y = [p + q for p, q in zip(added, y, strict=True)] if block.skip else added
        elif isinstance(block, Maxout):
            best = []
            for h in range(block.heads):
                pieces = _scores(block, h, y)
                top = next(iter(pieces.values()))
                for piece in pieces.values():
                    top = top.max(piece)
                best.append(top)
            added = (
                [p + block.b_out.rational(c) for c, p in enumerate(best)]
                if block.w_out is None
                else _image(block.w_out, block.b_out, best)
            )
            y = [p + q for p, q in zip(added, y, strict=True)] if block.skip else added
    return y


def _soft_attention(block: Attention, y: list[flint.arb], temperature: flint.arb) -> list[flint.arb]:
    out = list(y) if block.skip else [flint.arb(0)] * block.d_out
    for h in range(block.scores.shape[0]):
        scores = _scores(block, h, y)
        top = max(scores.values(), key=lambda ball: float(ball.mid()))
        weights = {j: ((s - top) / temperature).exp() for j, s in scores.items()}
        total = sum(weights.values(), flint.arb(0))
        for c in range(block.d_out):
            read = (w * block.outputs.rational((h, j, c)) for j, w in weights.items())
            out[c] = out[c] + sum(read, flint.arb(0)) / total
    return out


def _scores(block: Attention | Maxout, h: int, y: list[flint.arb]) -> dict[int, flint.arb]:
    return {
        j: sum(
            (block.scores.rational((h, j, c)) * p for c, p in enumerate(y)),
            flint.arb(block.biases.rational((h, j))),
        )
        for j in np.flatnonzero(block.mask[h]).tolist()
    }


def _image(w: ExactArray, b: ExactArray, y: list[flint.arb]) -> list[flint.arb]:
    return [
        sum((w.rational((i, c)) * p for c, p in enumerate(y)), flint.arb(b.rational(i)))
        for i in range(w.shape[0])
    ]


def _fmpq(value: Fraction) -> Rational:
    return Rational(value.numerator, value.denominator)
