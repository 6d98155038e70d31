r"""What is known exactly about a cell: its affine map, the rows that bound it, the signature at a point.

On a cell every routing and every ReLU bit is fixed, so the hidden vector that enters layer :math:`l` is an
affine function :math:`y_l = (R_l / q_l)\,(x, 1)` of the input, with an integer matrix :math:`R_l` and one
positive denominator :math:`q_l`: floats are dyadic, fractions have a common denominator. Each layer is scaled
to integers once; after that a map is a chain of integer matrix products, and the line on which a unit of
layer :math:`l` switches, or two keys tie, is one more row. Nothing is rounded, so the sign of anything
built from these rows is a proof.

Hidden vectors depend on the signature up to their layer only. They are kept by that prefix, least recently
used ones going first, because cells that are asked about one after the other share most of it.

A facet is stored by name: a side of the domain, infinity, a unit, or a pair of keys of a head. Its row
:math:`(a, b)` says :math:`a \cdot x + b \ge 0` on the cell, in homogeneous coordinates :math:`a \cdot x + b
x_0 \ge 0`. The name and the cell's signature determine it: nothing about the geometry is needed.

Signatures at rational points are read from the blocks of the network themselves, not from the internal form,
so that verification relies on nothing here. *Just beyond* a point :math:`p` in direction :math:`v` means at
:math:`p + \varepsilon v` for all small :math:`\varepsilon > 0`: every quantity is carried as a value and a
slope, and compared by value first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from operator import mul
from typing import Any, cast

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray, rational
from hardmax.exact.residues import common_denominator
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import EMPTIES
from hardmax.geometry.domains import Box, Domain
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Affine, FeedForward, Maxout
from hardmax.networks.layers import ArgmaxLayer, Layer, refuse_smooth
from hardmax.networks.network import Network
from hardmax.networks.signatures import unpack_bits
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, decode_wall

_REMEMBERED = 2048
Row = tuple[int, ...]
Name = tuple[int, int]  # owner and wall


class ExactMaps:
    r"""Exact affine maps of the cells of a network, and the lines that bound them.

    A signature is given as one packed row of bits and one row of routings; entries beyond the layer
    asked for are never looked at.

    Parameters
    ----------
    layers : tuple of Layer
        The network in its internal form.
    domain : Domain
        Where cells are looked for.
    remembered : int
        How many hidden maps are kept.

    Examples
    --------
    >>> from hardmax.geometry.domains import Box
    >>> from hardmax.networks.blocks import FeedForward
    >>> from hardmax.networks.network import Network
    >>> from hardmax.networks.layers import layers_of
    >>> net = Network([FeedForward([[1.0, 0.5], [0.0, 1.0]], [0.25, 0.0], [[1.0, 1.0]], [0.0])])
    >>> exact = ExactMaps(layers_of(net), Box.cube(2, 0, 1))
    >>> on_off, none = np.array([1], dtype=np.uint64), np.zeros(0, dtype=np.int32)
    >>> exact.line(0, 0, 0, 0, on_off, none)        # 4 (x + y/2 + 1/4)
    (4, 2, 1)
    >>> exact.output(on_off, none)
    ([4, 2, 1], 4)
    """

    def __init__(self, layers: tuple[Layer, ...], domain: Domain, *, remembered: int = _REMEMBERED) -> None:
        self.layers = layers
        self.domain = domain
        self.d = layers[0].d_in if layers else domain.d
        self._integers: list[_Integers | None] = [None] * len(layers)
        self._prefixes = _prefixes(layers)
        self._remembered = remembered
        self._hidden: dict[Hashable, _Hidden] = {}
        self._domain_lines: dict[int, tuple[int, ...]] = {}

    def entering(
        self, layer: int, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]
    ) -> tuple[flint.fmpz_mat, int]:
        """The map of the vector entering ``layer``: integer rows (slope, constant) over one denominator.

        ``layer`` may be the number of layers: then it is the map of the whole network.
        """
        rows = self._entering(layer, bits_row, routings_row).rows
        d, m = self.d, rows.nrows() - 1
        entries = rows.entries()
        return flint.fmpz_mat(m, d + 1, entries[: m * (d + 1)]), int(entries[-1])

    def output(
        self, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]
    ) -> tuple[flint.fmpz_mat, int]:
        """The map of the network on the cell with this signature."""
        return self.entering(len(self.layers), bits_row, routings_row)

    def line(
        self,
        layer: int,
        group: int,
        a: int,
        b: int,
        bits_row: NDArray[np.uint64],
        routings_row: NDArray[np.int32],
    ) -> tuple[int, ...]:
        r"""A positive multiple of the affine function whose zero set is a fold or a wall.

        For a :class:`ReluLayer` the pre-activation of unit ``group``; for a :class:`ArgmaxLayer` the score of
        compiled key ``b`` minus that of key ``a`` (row numbers of the layer), so it is negative where ``a``
        wins.
        """
        hidden = self._entering(layer, bits_row, routings_row)
        integers = self._layer(layer)
        if self.layers[layer].heads:
            row = integers.score_rows[b] - integers.score_rows[a]
        else:
            row = integers.score_rows[group]
        return tuple(int(value) for value in (row * hidden.rows).entries())

    def lines(
        self, layer: int, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]
    ) -> list[list[int]]:
        """The composed scores of a layer over one positive denominator: a row per unit or compiled key."""
        scores = self._scores(layer, self._entering(layer, bits_row, routings_row))
        return [[int(value) for value in row] for row in scores.tolist()[:-1]]

    def tied_keys(
        self, layer: int, head: int, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]
    ) -> list[int]:
        """The compiled keys whose score agrees identically with the winner's, the winner included."""
        walls = cast(ArgmaxLayer, self.layers[layer])
        if not walls.heads:
            return []
        hidden = self._entering(layer, bits_row, routings_row)
        return self._tied(layer, walls, hidden, head, int(walls.winners(routings_row)[head]))

    def domain_line(self, i: int) -> tuple[int, ...]:
        r"""Half-space ``i`` of the domain as integers :math:`(-A_i, b_i)`: nonnegative inside."""
        if i not in self._domain_lines:
            end = self.domain.b.rational_row(i)
            if isinstance(self.domain, Box):  # one slope, of size 1
                slopes, scale = [0] * self.d, int(end[0].q)
                slopes[i % self.d] = -scale if i < self.d else scale
                self._domain_lines[i] = (*slopes, int(end[0].p))
            else:
                values = [-value for value in self.domain.a.rational_row(i)] + end
                scale = lcm(*(int(value.q) for value in values))
                self._domain_lines[i] = tuple(int(value.p) * (scale // int(value.q)) for value in values)
        return self._domain_lines[i]

    # hidden vectors

    def _entering(self, layer: int, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]) -> _Hidden:
        key = self._prefixes[layer].key(bits_row, routings_row)
        hidden = self._hidden.pop(key, None)
        if hidden is None:
            if layer == 0:
                hidden = _Hidden(_identity(self.d + 1))
            else:
                before = self._entering(layer - 1, bits_row, routings_row)
                hidden = _Hidden(_reduced(self._through(layer - 1, before, bits_row, routings_row)))
            while len(self._hidden) >= self._remembered:
                self._hidden.pop(next(iter(self._hidden)), None)
        self._hidden[key] = hidden
        return hidden

    def _layer(self, layer: int) -> _Integers:
        integers = self._integers[layer]
        if integers is None:
            integers = self._integers[layer] = _Integers(self.layers[layer])
        return integers

    def _scores(self, layer: int, hidden: _Hidden) -> flint.fmpz_mat:
        if hidden.scores is None:
            hidden.scores = self._layer(layer).scores * hidden.rows
        return hidden.scores

    def _tied(self, layer: int, walls: ArgmaxLayer, hidden: _Hidden, head: int, winner: int) -> list[int]:
        start, stop = int(walls.head_start[head]), int(walls.head_start[head + 1])
        if stop - start == 1:
            return [winner]
        ties = hidden.ties.get(winner)
        if ties is None:
            table = self._scores(layer, hidden).tolist()
            ties = [k for k in range(start, stop) if table[k] == table[winner]]
            hidden.ties[winner] = ties
        return ties

    def _through(
        self,
        layer: int,
        hidden: _Hidden,
        bits_row: NDArray[np.uint64],
        routings_row: NDArray[np.int32],
    ) -> flint.fmpz_mat:
        integers, block = self._layer(layer), cast(Any, self.layers[layer])
        if not block.cuts:
            return self._scores(layer, hidden)
        if block.heads:
            return (self._routed if block.jumps else self._largest)(layer, block, hidden, routings_row)
        on = unpack_bits(bits_row[None], block.unit_slice.stop)[0, block.unit_slice]
        entries, width = self._scores(layer, hidden).entries(), self.d + 1
        zeros = [flint.fmpz(0)] * width
        for unit in np.flatnonzero(~on).tolist():
            entries[unit * width : (unit + 1) * width] = zeros
        rows = integers.outputs * flint.fmpz_mat(block.units + 1, width, entries)
        return rows + _raised(hidden.rows, integers.growth) if block.skip else rows

    def _largest(
        self, layer: int, maxima: ArgmaxLayer, hidden: _Hidden, routings_row: NDArray[np.int32]
    ) -> flint.fmpz_mat:
        """The scores of the winners, behind what entered if that is kept."""
        scores, width = self._scores(layer, hidden).entries(), self.d + 1
        entries: list[flint.fmpz] = []
        if maxima.skip:
            entries = (hidden.rows * self._layer(layer).growth).entries()[: maxima.d_in * width]
        for winner in maxima.winners(routings_row).tolist():
            entries += scores[winner * width : (winner + 1) * width]
        return flint.fmpz_mat(maxima.d_out + 1, width, entries + scores[-width:])

    def _routed(
        self, layer: int, walls: ArgmaxLayer, hidden: _Hidden, routings_row: NDArray[np.int32]
    ) -> flint.fmpz_mat:
        integers = self._layer(layer)
        won = enumerate(walls.winners(routings_row).tolist())
        groups = [
            self._tied(layer, walls, hidden, head, winner) if walls.mean else [winner] for head, winner in won
        ]
        shares = [integers.multiplicity(group) for group in groups]
        common = lcm(*shares) if shares else 1
        moved = [0] * walls.d_out
        for group, share in zip(groups, shares, strict=True):
            for k in group:
                weight = (common // share) * integers.multiplicities[k]
                moved = [v + weight * w for v, w in zip(moved, integers.output_row(k), strict=True)]
        scale, width = common * integers.growth, self.d + 1
        if not walls.skip:
            constant = [v if j == self.d else 0 for v in [*moved, scale] for j in range(width)]
            return flint.fmpz_mat(walls.d_out + 1, width, constant)
        entries = (hidden.rows * scale).entries()
        q = hidden.rows[hidden.rows.nrows() - 1, self.d]
        for i, value in enumerate(moved):
            entries[i * width + self.d] += q * value
        return flint.fmpz_mat(walls.d_out + 1, width, entries)


@dataclass
class _Hidden:
    """A hidden map as an integer matrix with last row (0, ..., 0, denominator), and what follows from it."""

    rows: flint.fmpz_mat
    scores: flint.fmpz_mat | None = None
    ties: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Prefix:
    """Which part of a signature decides what enters a layer."""

    layer: int
    words: int
    tail: int  # mask of the units in the word that is not full
    heads: int

    def key(self, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]) -> Hashable:
        last = int(bits_row[self.words]) & self.tail if self.tail else 0
        return (self.layer, bits_row[: self.words].tobytes(), last, routings_row[: self.heads].tobytes())


class _Integers:
    """A layer scaled to integers: matrices that act on columns (y, 1) times a denominator."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self.scores, self.growth = _homogeneous(layer.scores, layer.biases)
        if layer.jumps:
            walls = cast(ArgmaxLayer, layer)
            self.growth = common_denominator(walls.outputs)  # what a skip connection is multiplied by
            self.multiplicities = walls.multiplicities.tolist()
            self._output_rows: dict[int, list[int]] = {}
        elif layer.cuts and not layer.heads:
            # the skip connection multiplies columns y over q, but the denominator row only once
            self.outputs, scale = _homogeneous(*layer.factors[1])
            self.growth *= scale

    @cached_property
    def score_rows(self) -> list[flint.fmpz_mat]:
        """The rows of the scores as matrices, for one line at a time."""
        return [flint.fmpz_mat([row]) for row in self.scores.tolist()]

    def output_row(self, k: int) -> list[int]:
        """The output of a compiled key times ``growth``."""
        if k not in self._output_rows:
            layer = self._layer
            row = layer.outputs.take(np.array([k]))  # type: ignore[union-attr]
            self._output_rows[k] = _scaled(row, self.growth)
        return self._output_rows[k]

    def multiplicity(self, group: list[int]) -> int:
        """How many keys of the block a group of compiled keys stands for."""
        return sum(self.multiplicities[k] for k in group)


def _prefixes(layers: tuple[Layer, ...]) -> list[_Prefix]:
    prefixes, units, heads = [], 0, 0
    for number in range(len(layers) + 1):
        words, rest = divmod(units, 64)
        prefixes.append(_Prefix(number, words, (1 << rest) - 1, heads))
        if number < len(layers):
            layer = layers[number]
            units += layer.units
            heads += layer.heads
    return prefixes


def _scaled(array: ExactArray, scale: int) -> list[int]:
    """Every entry times a multiple of the common denominator, as integers."""
    if array.fractions is not None:
        return [int(v.numerator) * (scale // int(v.denominator)) for v in array.fractions.ravel().tolist()]
    mantissas, exponents = np.frexp(array.floats.ravel())
    digits = np.ldexp(mantissas, 53).astype(np.int64).tolist()
    twos = scale.bit_length() - 1
    if scale == 1 << twos:
        return [
            m << s if s >= 0 else m >> -s
            for m, s in zip(digits, (exponents - 53 + twos).tolist(), strict=True)
        ]
    return [p * (scale // q) for p, q in (v.as_integer_ratio() for v in array.floats.ravel().tolist())]


def _homogeneous(matrix: ExactArray | None, vector: ExactArray) -> tuple[flint.fmpz_mat, int]:
    """The integer matrix s ((M, v), (0, 1)) and its scale s; ``None`` stands for the identity."""
    n = vector.shape[0]
    scale = common_denominator(vector)
    if matrix is None:
        m = n
        flat = [0] * (n * n)
        flat[:: n + 1] = [scale] * n
    else:
        m = matrix.shape[1]
        scale = lcm(scale, common_denominator(matrix))
        flat = _scaled(matrix, scale)
    tail = _scaled(vector, scale)
    entries: list[int] = []
    for i in range(n):
        entries += flat[i * m : (i + 1) * m]
        entries.append(tail[i])
    return flint.fmpz_mat(n + 1, m + 1, entries + [0] * m + [scale]), scale


def _identity(n: int) -> flint.fmpz_mat:
    return flint.fmpz_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])


def _raised(rows: flint.fmpz_mat, factor: int) -> flint.fmpz_mat:
    """A hidden map times a factor, with zeros in place of its denominator row."""
    entries = (rows * factor).entries()
    entries[-1] = flint.fmpz(0)
    return flint.fmpz_mat(rows.nrows(), rows.ncols(), entries)


def _reduced(rows: flint.fmpz_mat) -> flint.fmpz_mat:
    """The same map in lowest terms."""
    entries = rows.entries()
    divisor = int(entries[-1])
    for value in entries:
        if divisor == 1:
            return rows
        divisor = gcd(divisor, int(value))
    return (
        rows if divisor == 1 else flint.fmpz_mat(rows.nrows(), rows.ncols(), [v // divisor for v in entries])
    )


def exact_signature(network: Network, point: list[Fraction]) -> tuple[list[int], list[bool], bool]:
    """Routings and bits at a rational point, and whether a unit is zero or keys are level there.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 1], [1, -1]], [0, 0]), ([[1, 1]], [0])])
    >>> exact_signature(net, [Fraction(1, 3), Fraction(1, 3)])
    ([], [True, False], True)
    """
    return signature_beyond(network, point, [Fraction(0)] * len(point))


def signature_beyond(
    network: Network, point: list[Fraction], direction: list[Fraction]
) -> tuple[list[int], list[bool], bool]:
    """Routings and bits just beyond a rational point, and whether something stays level in that direction.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 1], [1, -1]], [0, 0]), ([[1, 1]], [0])])
    >>> signature_beyond(net, [Fraction(1, 3), Fraction(1, 3)], [Fraction(0), Fraction(-1)])
    ([], [True, True], False)
    """
    columns = [rational(value) for pair in zip(point, direction, strict=True) for value in pair]
    y = flint.fmpq_mat(len(point), 2, columns)
    routings: list[int] = []
    bits: list[bool] = []
    level = False
    refuse_smooth(network)
    blocks: tuple[Any, ...] = network.blocks
    for block in blocks:
        if isinstance(block, Affine):
            y = _product(block.w, y, block.b)
            continue
        if isinstance(block, FeedForward):
            rows = _product(block.w_in, y, block.b_in).tolist()
            on = [value > 0 or (value == 0 and slope > 0) for value, slope in rows]
            bits += on
            level |= any(value == 0 == slope for value, slope in rows)
            slopes = [flint.fmpq(1) if lit else block.slope.rational(i) for i, lit in enumerate(on)]
            bent = [value * slope for row, slope in zip(rows, slopes, strict=True) for value in row]
            out = _product(block.w_out, flint.fmpq_mat(len(rows), 2, bent), block.b_out)
        elif block.width:  # ReLU attention
            zero = (flint.fmpq(0), flint.fmpq(0))
            scores = [_scores(block, h, y) for h in range(len(block.mask))]
            on = [of_head.get(j, zero) > zero for of_head in scores for j in range(block.n_tokens)]
            bits += on
            level |= any(score == zero for of_head in scores for score in of_head.values())
            out = block.compose_exactly(y, np.array(on)) - (y if block.skip else 0 * y)
        else:
            winners = [_winners(block, h, y) for h in range(block.heads)]
            routings += [tied[0] for _, tied in winners]
            level |= any(len(tied) > 1 for _, tied in winners)
            if isinstance(block, Maxout):
                largest = [value for best, _ in winners for value in best]
                out = _product(block.w_out, flint.fmpq_mat(block.heads, 2, largest), block.b_out)
            else:
                moved = [flint.fmpq(0)] * (2 * block.d_out)
                for h, (_, tied) in enumerate(winners):
                    tied = tied if block.ties == "mean" else tied[:1]
                    for k in range(block.d_out):
                        total = sum((block.outputs.rational((h, j, k)) for j in tied), flint.fmpq(0))
                        moved[2 * k] += total / len(tied)
                out = flint.fmpq_mat(block.d_out, 2, moved)
        y = y + out if block.skip else out
    return routings, bits, level


def _winners(
    block: Attention | Maxout, h: int, y: flint.fmpq_mat
) -> tuple[tuple[flint.fmpq, flint.fmpq], list[int]]:
    """The largest score of a head, as value and slope, and the keys that have it, the winner first."""
    scores = _scores(block, h, y)
    best = max(scores.values())
    tied = [j for j, score in scores.items() if score == best]
    return best, tied[::-1] if getattr(block, "ties", "mean") == "rightmost" else tied


def _scores(block: Attention | Maxout, h: int, y: flint.fmpq_mat) -> dict[int, tuple[flint.fmpq, flint.fmpq]]:
    """The scores of the keys of a head that are present, each as value and slope."""
    scores = {}
    for j in np.flatnonzero(block.mask[h]).tolist():
        row = flint.fmpq_mat([[block.scores.rational((h, j, k)) for k in range(block.d_in)]])
        value, slope = (row * y).entries()
        scores[j] = (value + block.biases.rational((h, j)), slope)
    return scores


def _product(matrix: ExactArray | None, y: flint.fmpq_mat, offsets: ExactArray) -> flint.fmpq_mat:
    """Values and slopes of an affine map; ``None`` stands for the identity."""
    n = offsets.shape[0]
    if matrix is not None:
        rows = [value for i in range(n) for value in matrix.rational_row(i)]
        y = flint.fmpq_mat(n, matrix.shape[1], rows) * y
    moved = [value for i in range(n) for value in (offsets.rational(i), flint.fmpq(0))]
    return y + flint.fmpq_mat(n, 2, moved)


def inner_row(
    exact: ExactMaps, name: Name, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]
) -> Row:
    """The row of a facet of the cell with this signature, nonnegative on the cell.

    Examples
    --------
    >>> from hardmax.geometry.domains import Box
    >>> exact = ExactMaps((), Box.cube(3, -1, 2))
    >>> none = np.zeros(1, dtype=np.uint64), np.zeros(0, dtype=np.int32)
    >>> inner_row(exact, (DOMAIN_SIDE, 0), *none), inner_row(exact, (AT_INFINITY, 0), *none)
    ((-1, 0, 0, 2), (0, 0, 0, 1))
    """
    owner, wall = name
    if owner == AT_INFINITY:
        return (0,) * exact.d + (1,)
    if owner == DOMAIN_SIDE:
        return exact.domain_line(wall)
    row = exact.line(*decode_wall(wall), bits_row, routings_row)
    return row if is_positive(exact, wall, bits_row, routings_row) else tuple(-v for v in row)


def is_positive(
    exact: ExactMaps, wall: int, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]
) -> bool:
    """Whether the cell with this signature is on the positive side of a row that was drawn in it."""
    layer, group, a, b = decode_wall(wall)
    block = exact.layers[layer]
    if block.units:
        unit = block.unit_slice.start + group
        return bool(int(bits_row[unit // 64]) >> (unit % 64) & 1)
    if not block.heads:
        return True
    walls = cast(ArgmaxLayer, block)
    winner = int(routings_row[walls.first_head + group])
    if int(walls.key[b]) == winner or int(walls.key[a]) == winner:
        return int(walls.key[b]) == winner
    return b in exact.tied_keys(layer, group, bits_row, routings_row)  # level with the winner on the cell


def exact_ray(rows: list[Row], free: int = 0) -> list[int]:
    """The line in which hyperplanes and the coordinate planes of ``free`` intersect, up to its sign.

    >>> exact_ray([(1, 0, -2), (0, 2, -1)])
    [4, 1, 2]
    """
    d = len(rows[0])
    table = [list(row) for row in rows]
    table += [[int(k == c) for k in range(d)] for c in range(d) if free >> c & 1]
    kernel, _ = flint.fmpz_mat(table).nullspace()
    ray = [int(kernel[c, 0]) for c in range(d)]
    divisor = int(np.gcd.reduce(np.array(ray, dtype=object)))
    divisor = -divisor if ray[-1] < 0 else divisor
    return [v // divisor for v in ray]


def scaled_rows(rows: Iterable[Row], d: int) -> list[list[Fraction]]:
    r"""Rows :math:`(a, b)` with :math:`a \cdot x \le b` and max |a| = 1, each once, none constant."""
    found: list[list[Fraction]] = []
    for row in rows:
        size = max((abs(v) for v in row[:d]), default=0)
        if size:
            scaled = [Fraction(-v, size) for v in row[:d]] + [Fraction(row[-1], size)]
            if scaled not in found:
                found.append(scaled)
    return found


def strictly_inside(rows: Iterable[Row], point: list[Fraction]) -> bool:
    """Whether a point satisfies every inequality strictly.

    >>> strictly_inside([(1, 0, 0), (-1, 1, 2)], [Fraction(1), Fraction(-1)])
    False
    """
    return all(sum((a * x for a, x in zip(row, point, strict=False)), Fraction(row[-1])) > 0 for row in rows)


def interior_point(rows: list[Row], d: int) -> list[Fraction] | None:
    """A point strictly inside an intersection of half-spaces; ``None`` if it has no interior.

    >>> interior_point([(1, 0, 0), (0, 1, 0), (-1, -1, 1)], 2)
    [Fraction(1, 3), Fraction(1, 3)]
    """
    cone = RationalCone(d + 1)
    for row in [(0,) * d + (1,), *rows]:
        if cone.cut(list(row), (0, 0)) == EMPTIES:
            return None
    point = [Fraction(0)] * (d + 1)
    for ray in cone.rays:  # vertices weigh the same, whatever the scale of their coordinates
        weight = Fraction(1, ray[-1]) if ray[-1] else Fraction(1, max(abs(v) for v in ray))
        point = [p + weight * v for p, v in zip(point, ray, strict=True)]
    return [p / point[-1] for p in point[:d]]


def hyperplane_basis(row: Row) -> list[list[int]]:
    """Integer vectors that span the hyperplane where a row vanishes.

    >>> [[sum(a * b for a, b in zip((1, 2, 3), v)) for v in hyperplane_basis((1, 2, 3))]]
    [[0, 0]]
    """
    kernel, rank = flint.fmpz_mat([list(row)]).nullspace()
    return [[int(kernel[i, j]) for i in range(len(row))] for j in range(rank)]


def common_cone(here: list[Row], there: list[Row], row: Row, d: int) -> RationalCone | None:
    """The common part of two cells on a hyperplane as a cone in a basis of it; ``None`` if it is thinner.

    Cells that touch from two sides of another hyperplane have opposite rows on this one, which is seen before
    anything is cut.

    Examples
    --------
    >>> square = [(1, 0, 0, 0), (0, 1, 0, 0), (0, -1, 0, 1), (0, 0, 1, 0), (0, 0, -1, 1)]
    >>> beside = [(-1, 0, 0, 0), (0, 1, 0, -1)]                  # meets the square in an edge only
    >>> common_cone(square, beside, (1, 0, 0, 0), 3) is None
    True
    """
    basis = hyperplane_basis(row)
    parts: dict[tuple[int, ...], None] = {}
    for other in [*here, *there]:
        part = [sum(map(mul, other, vector)) for vector in basis]
        divisor = gcd(*part)
        if divisor:
            parts[tuple(v // divisor for v in part)] = None
    if any(tuple(-v for v in part) in parts for part in parts):
        return None
    cone = RationalCone(d)
    if any(cone.cut(list(part), (0, 0)) == EMPTIES for part in parts):
        return None
    return cone


def rays_in_space(cone: RationalCone, row: Row) -> list[list[int]]:
    """The rays of a cone in the basis of a hyperplane, in the coordinates of space; lines in both directions.

    >>> square = [(1, 0, 0), (0, 1, 0), (0, -1, 1), (0, 0, 1)]
    >>> rays_in_space(common_cone(square, [(-1, 0, 0)], (1, 0, 0), 2), (1, 0, 0))    # its side from 0 to 1
    [[0, 1, 1], [0, 0, 1]]
    """
    basis = hyperplane_basis(row)
    lines = [[sign * v for v in line] for line in cone.lines for sign in (1, -1)]
    mixed = (
        [sum(v * b[c] for v, b in zip(ray, basis, strict=True)) for c in range(len(row))]
        for ray in cone.rays + lines
    )
    return [[v // gcd(*ray) for v in ray] for ray in mixed]
