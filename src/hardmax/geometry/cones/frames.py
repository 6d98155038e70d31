r"""Coordinates in which cells are cut.

Three things are settled before the first cut, all without rounding:

* which coordinates of :math:`x` matter (score differences may span a smaller space),
* whether the problem is linear (cells are cones already) or affine (homogenised to :math:`y = (x, x_0)`,
  :math:`x_0 \ge 0`),
* powers of two that bring all columns to one size, so that one error bound fits them all and nothing
  overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import grain as grain_of
from hardmax.exact.rationals import power_of_two
from hardmax.geometry.cones.splitting_kernels import INEXACT, Rows
from hardmax.geometry.domains import Domain
from hardmax.geometry.scores import Scores

__all__ = ["Frame", "Head", "independent_columns", "scaled_heads"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NOTHING = -(1 << 20)  # exponent of zero
_TINY = 1e-250  # entries below this size after scaling count as rounded


@dataclass
class Frame:
    """Some columns of x, scaled by powers of two, and x_0 last when the problem is affine."""

    d: int
    columns: list[int]
    linear: bool
    exponents: list[int] = field(default_factory=list)  # y_i = 2^exponents[i] x_i

    @property
    def D(self) -> int:
        """The number of homogeneous coordinates."""
        return len(self.columns) + (not self.linear)

    def floats(self, slopes: Floats, offsets: Floats) -> Floats:
        """The rows (a, b) in the frame's columns, not yet scaled."""
        columns = slopes[:, self.columns]
        return columns if self.linear else np.column_stack([columns, offsets])

    def exact(self, row: list[flint.fmpq]) -> list[flint.fmpq]:
        """An exact row (a, b) in the frame, scaled."""
        picked = [row[c] for c in self.columns] + ([] if self.linear else [row[-1]])
        return [value * power_of_two(-e) for value, e in zip(picked, self.exponents, strict=True)]

    def unscaled(self, y: Floats) -> Floats:
        """Undo the powers of two: homogeneous rows (x, x_0), up to a factor that avoids overflow."""
        powers = -np.array(self.exponents, dtype=np.int64)
        return np.asarray(np.ldexp(y, np.minimum(powers, powers - powers.max(initial=0))))

    def to_space(self, y: Floats) -> Floats:
        """Homogeneous points as points of R^d; directions of largest entry 1 when linear."""
        x = np.zeros((len(y), self.d))
        y = self.unscaled(y)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.linear:
                x[:, self.columns] = y / np.abs(y).max(axis=1, initial=0.0, keepdims=True)
            else:
                x[:, self.columns] = y[:, :-1] / y[:, -1:]
        return x

    def to_space_exactly(self, y: Sequence[int | Fraction]) -> list[Fraction]:
        """The same for one integer vector."""
        powers = [Fraction(2**-e) if e < 0 else Fraction(1, 2**e) for e in self.exponents]
        scaled = [v * power for v, power in zip(y, powers, strict=True)]
        size = max(map(abs, scaled), default=Fraction(1)) if self.linear else scaled[-1]
        x = [Fraction(0)] * self.d
        for c, value in zip(self.columns, scaled, strict=False):
            x[c] = value / size
        return x


@dataclass
class Head:
    """One head in the frame: a row per distinct score."""

    rows: Rows
    index: Integers  # row -> key of the user
    exact: Callable[[int], list[flint.fmpq]]

    @property
    def n_keys(self) -> int:
        """The number of rows."""
        return len(self.rows.points)

    def restricted(self, keep: Integers, start: Integers, neighbours: Integers) -> Head:
        """Only some rows, with new lists of neighbours (numbered among those rows)."""
        exact, old, rows = self.exact, keep.tolist(), self.rows
        points = np.ascontiguousarray(rows.points[keep])
        columns = np.ascontiguousarray(points.T)
        kept = Rows(points, columns, rows.error[keep], rows.noise, rows.grain, start, neighbours)
        return Head(kept, self.index[keep], lambda j: exact(old[j]))


def scaled_heads(families: list[Scores], domain: Domain, frame: Frame) -> list[Head]:
    """Choose the powers of two and express every head in the frame, one row per group of identical scores."""
    kept = [np.unique(family.tie_group) for family in families]
    raw = [frame.floats(f.slopes[index], f.offsets[index]) for f, index in zip(families, kept, strict=True)]
    # sizes as exponents: a product of two powers of two may leave the float range that its factors are in
    sizes = [_exponents(points) for points in raw]
    shifts = [
        -int(size.max(initial=_NOTHING)) if size.max(initial=_NOTHING) > _NOTHING else 0 for size in sizes
    ]
    columns = [size + shift for size, shift in zip(sizes, shifts, strict=True)]
    columns.append(_exponents(frame.floats(domain.a.floats, domain.b.floats)))
    largest = np.max(columns, axis=0, initial=_NOTHING)
    frame.exponents = [int(e) if e > _NOTHING // 2 else 0 for e in largest]
    return [
        _scaled_head(family, index, points, shift, frame)
        for family, index, points, shift in zip(families, kept, raw, shifts, strict=True)
    ]


def _exponents(points: Floats) -> Integers:
    """For each column the e with largest entry in [2^(e-1), 2^e), or far below everything when it is zero."""
    largest = np.abs(points).max(axis=0, initial=0.0)
    return np.where(largest > 0.0, np.frexp(largest)[1].astype(np.int64), _NOTHING)


def _scaled_head(family: Scores, index: Integers, raw: Floats, shift: int, frame: Frame) -> Head:
    powers = shift - np.array(frame.exponents, dtype=np.int64)
    points = np.ascontiguousarray(np.ldexp(raw, powers))
    with np.errstate(over="ignore"):
        error = np.ldexp(family.row_error[index], int(powers.max(initial=0)))
    if bool((np.abs(points)[raw != 0.0] < _TINY).any()):  # something came close to underflow
        error = error + _TINY
    grain = -INEXACT if error.any() else grain_of(points)
    rows: dict[int, list[flint.fmpq]] = {}
    power = power_of_two(shift)

    def exact(j: int) -> list[flint.fmpq]:
        if j not in rows:
            rows[j] = [value * power for value in frame.exact(family.exact_row(int(index[j])))]
        return rows[j]

    nobody = np.empty(0, dtype=np.int64)
    columns = np.ascontiguousarray(points.T)
    D = frame.D
    noise = 4.1 * D * (D + 2) * 2.0**-53 + 2.1 * float(error.max(initial=0.0))
    return Head(Rows(points, columns, error, noise, grain, nobody, nobody), index, exact)


def independent_columns(families: list[Scores], domain: Domain) -> list[int]:
    r"""Coordinates that carry the whole partition.

    Score differences (and the domain's rows) span a space of rank r. Restricting x to r coordinates whose
    columns are independent keeps every value of all differences, hence every cell, so the other coordinates
    can be set to zero.
    """
    d = families[0].d
    # halves, because the difference of two large slopes may overflow
    floats = np.concatenate([0.5 * f.slopes - 0.5 * f.slopes[0] for f in families] + [domain.a.floats])

    def exact(i: int) -> list[flint.fmpq]:
        for f in families:
            if i < f.n_keys:
                return [a - b for a, b in zip(f.exact_row(i)[:-1], f.exact_row(0)[:-1], strict=True)]
            i -= f.n_keys
        return domain.a.rational_row(i)

    proposed = _proposed(floats, d)
    if len(proposed) == d and flint.fmpq_mat([exact(i) for i in proposed]).rank() == d:
        return list(range(d))
    basis: list[list[flint.fmpq]] = []
    # a float elimination proposes independent rows, an exact rank confirms them; only if that falls short
    # every row is looked at
    for i in [*proposed, *range(len(floats))]:
        if len(basis) == d:
            return list(range(d))
        row = exact(i)
        if any(row) and flint.fmpq_mat([*basis, row]).rref()[1] > len(basis):
            basis.append(row)
    if len(basis) == d:
        return list(range(d))
    if not basis:
        return []
    reduced, rank = flint.fmpq_mat(basis).rref()
    return [next(c for c in range(d) if reduced[i, c] != 0) for i in range(rank)]


def _proposed(rows: Floats, d: int) -> list[int]:
    residual = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    proposed: list[int] = []
    for _ in range(min(d, len(rows))):
        norms = np.einsum("ij,ij->i", residual, residual)
        i = int(np.argmax(norms))
        if norms[i] < 1e-24:
            break
        proposed.append(i)
        residual = residual - np.outer(residual @ residual[i], residual[i]) / norms[i]
    return proposed
