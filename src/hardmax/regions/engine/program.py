r"""A network laid out for the kernels of the stack machines: one table of layers, one array of weights.

Beside the weights stand the numbers that every analysis of rounding errors needs: the largest row norm
:math:`\rho` and upper bounds on the spectral norms of each matrix and of its absolute value. They are
computed once per network, with a margin that covers the rounding of their own computation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedDimensionError
from hardmax.exact.rationals import ExactArray
from hardmax.exact.residues import common_denominator
from hardmax.networks.layers import AffineLayer, ArgmaxLayer, Layer, MaxLayer, ReluLayer
from hardmax.networks.signatures import pack_bits
from hardmax.regions.engine import layer_kernels as kernels
from hardmax.regions.engine.layer_kernels import TAME

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_UNIT = kernels.UNIT
_AS_GIVEN, _SCORES, _COLUMNS = range(3)  # how a part stands in the weights; see Program.parts
_SPARSE, _SMALL = 0.25, 64  # the share of nonzero weights up to which they are listed, in matrices so large
MOST_LAYERS, MOST_GROUPS, MOST_KEYS = 2**9, 2**16, 2**19  # what the code of a wall has room for


def _floats(array: ExactArray) -> Floats:
    return array.floats


@dataclass(frozen=True)
class Program:
    """The table of layers, the weights, and the sizes of everything a run works on.

    ``last`` is the last layer with a max-group; what follows is affine and cuts nothing. A network without
    max-groups is laid out as a fold of no units: its one cell is the whole domain.

    ``parts`` are the matrices and vectors in the order in which they stand in the weights. Outputs of units
    stand by columns, one run of numbers per unit; scores stand by rows in ``weights``, by columns in
    ``by_columns``. Weights and bounds are computed when they are first read.
    """

    layers: tuple[Layer, ...]
    table: Integers
    parts: tuple[tuple[ExactArray, int], ...]
    heads_at: Integers
    key_of: Integers
    multiplicities: Integers
    near: tuple[Integers, Integers]
    given_bits: Integers
    nonzeros: tuple[Integers, Integers, Integers]
    like: Integers
    last: int
    path_size: int
    sign_size: int
    widest: int
    words: int
    heads: int
    columns: int
    given: tuple[Layer, ...]  # all layers, those behind the last max-group included

    @property
    def net(self) -> kernels.Net:
        """The arrays that kernels read."""
        return kernels.Net(
            self.table,
            self.bounds,
            self.weights,
            self.heads_at,
            self.key_of,
            self.multiplicities,
            *self.near,
            self.given_bits,
            *self.nonzeros[:2],
            self.weights[self.nonzeros[2]],
            self.like,
        )

    @cached_property
    def weights(self) -> Floats:
        """All parts one after the other, scores by rows."""
        return self.by_rows(_floats)

    def by_rows(self, read: Callable[[ExactArray], NDArray[Any]]) -> NDArray[Any]:
        """The same with every part turned into numbers by ``read``."""
        parts = [read(a).reshape(a.shape) for a, _ in self.parts]
        turns = [turn for _, turn in self.parts]
        flat = [(p.T if turn == _COLUMNS else p).ravel() for p, turn in zip(parts, turns, strict=True)]
        return np.concatenate([*flat, np.zeros(0)])

    @cached_property
    def denominators(self) -> Integers:
        """Bits of a common denominator of the rows of each layer, on any cell without tied keys.

        Means of tied keys add bits of their own (:data:`~.layer_kernels.MEANS`).
        """
        bits, hidden = [], 0

        def denominator(*arrays: ExactArray | None) -> int:
            return lcm(*(common_denominator(array) for array in arrays if array is not None)).bit_length()

        for layer in self.layers:
            rows = hidden + denominator(layer.scores, layer.biases)
            bits.append(rows)
            if layer.jumps:  # scores only decide
                hidden += denominator(layer.outputs)  # type: ignore[union-attr]
            elif layer.units:
                hidden = rows + denominator(*layer.factors[1])
            else:
                hidden = rows
        return np.array(bits, dtype=np.int64)

    def by_columns(self, read: Callable[[ExactArray], NDArray[Any]] = _floats) -> NDArray[Any]:
        """All parts one after the other, scores by columns; ``read`` turns a part into numbers."""
        parts = [read(a).reshape(a.shape) for a, _ in self.parts] or [read(ExactArray(np.zeros(0)))]
        turns = [turn for _, turn in self.parts] or [_AS_GIVEN]
        return np.concatenate([(p.T if turn else p).ravel() for p, turn in zip(parts, turns, strict=True)])

    @cached_property
    def bounds(self) -> Floats:
        """The numbers that error bounds need, one row per layer and one of zeros."""
        for layer in self.layers:
            if layer not in _norms:
                _norms[layer] = _bounds(layer)
        return np.array([*(_norms[layer] for layer in self.layers), [0.0] * 12])

    @property
    def norms(self) -> dict[str, NDArray[Any]]:
        """What took long to compute and is the same for whoever has the network, as far as it is known."""
        return {name: self.__dict__[name] for name in ("bounds", "denominators") if name in self.__dict__}

    def take_norms(self, norms: dict[str, NDArray[Any]]) -> None:
        """Take over what another process has computed for the same network."""
        self.__dict__.update(norms)

    @property
    def row_at(self) -> Integers:
        """Where the scores of each layer begin among those of all layers."""
        return np.concatenate([[0], np.cumsum(self.table[: self.last + 1, kernels.ROWS])]).astype(np.int64)

    def row(self, layer: int) -> kernels.LayerRow:
        """What kernels know about a layer."""
        return kernels.LayerRow(*self.table[layer].tolist())

    def keys(self, layer: int, head: int) -> slice:
        """The rows of a head among those of its layer."""
        at = self.row(layer).head_at + head
        return slice(int(self.heads_at[at]), int(self.heads_at[at + 1]))

    @property
    def first(self) -> int:
        """The first layer with a max-group."""
        return next((i for i, layer in enumerate(self.layers) if layer.cuts), 0)

    def path_end(self, layer: int) -> int:
        """Where the composed maps up to the scores of a layer end in the path."""
        row = self.row(layer)
        return row.z_at + self.columns * row.rows

    def carried(self, layer: int) -> int:
        """How many rows of what leaves a layer its nodes carry along."""
        row = self.row(layer)
        return 0 if layer == self.last or row.outputs < 0 else row.d_out

    @classmethod
    def of(cls, layers: tuple[Layer, ...], *, columns: int = 3, whole: bool = False) -> Program:
        """Lay out the layers of a network.

        ``columns`` is the number of vectors of a composed map: the slopes of every input coordinate, then the
        constants. A plane has three. ``whole`` keeps the affine layers behind the last max-group, too, and
        the row behind the last layer then says where its output stands. Machines for the same layers share a
        program, because its bounds take products of matrices.
        """
        key = tuple(map(id, layers)), columns, whole  # a program keeps its layers, so their names stay theirs
        program = _known.get(key)
        if program is None:
            program = _known[key] = cls._laid_out(layers, columns, whole)
        return program

    @classmethod
    def _laid_out(cls, layers: tuple[Layer, ...], columns: int, whole: bool) -> Program:
        given = layers
        groups = [i for i, layer in enumerate(layers) if layer.cuts]
        last = groups[-1] if groups else 0
        if not whole:
            layers = layers[: last + 1] if groups else (_nothing_to_fold(columns - 1),)
            _check_sizes(layers)
        table = np.zeros((len(layers) + 1, kernels.ROW), dtype=np.int64)
        parts: list[tuple[ExactArray, int]] = []
        heads_at: list[int] = []
        key_of: list[int] = []
        multiplicities: list[int] = []
        near_at: list[int] = []
        near: list[int] = []
        given_bits: list[Integers] = []
        nonzeros = _Nonzeros()
        like: list[Integers] = []
        size = path = sign = units = heads = 0
        widest = columns - 1

        def keep(array: ExactArray, turn: int = _AS_GIVEN) -> int:
            nonlocal size
            parts.append((array, turn))
            size += array.floats.size
            return size - array.floats.size

        for i, layer in enumerate(layers):
            row = table[i]
            row[kernels.D_IN], row[kernels.D_OUT] = layer.d_in, layer.d_out
            row[kernels.Y_AT] = path
            path += columns * layer.d_in
            row[kernels.SIGN_AT] = sign
            row[kernels.SCORES] = row[kernels.OUTPUTS] = row[kernels.OFFSETS] = -1
            row[kernels.NONZERO_SCORES] = row[kernels.NONZERO_OUTPUTS] = row[kernels.GIVEN] = -1
            row[kernels.LIKE] = -1
            if isinstance(layer, AffineLayer):
                row[kernels.KIND], row[kernels.ROWS] = kernels.AFFINE, layer.d_out
                row[kernels.SCORES] = keep(layer.weights, _SCORES)
                row[kernels.BIASES] = keep(layer.offsets)
            elif isinstance(layer, ReluLayer):
                row[kernels.KIND], row[kernels.ROWS] = kernels.FOLD, layer.units
                row[kernels.SKIP], row[kernels.FIRST] = layer.skip, units
                row[kernels.SCORES] = -1 if layer.scores is None else keep(layer.scores, _SCORES)
                row[kernels.BIASES] = keep(layer.biases)
                row[kernels.OUTPUTS] = keep(layer.outputs, _COLUMNS)
                row[kernels.NONZERO_OUTPUTS] = nonzeros.of_rows(
                    layer.outputs, int(row[kernels.OUTPUTS]), turned=True
                )
                row[kernels.OFFSETS] = keep(layer.offsets)
                row[kernels.WORDS] = -(-layer.units // 64)
                if layer.given is not None and any(units is not None for units in layer.given):
                    row[kernels.GIVEN] = sum(map(len, given_bits))
                    row[kernels.GIVER] = max(j for j in range(i) if table[j, kernels.KIND] == kernels.WALL)
                    given_bits.append(_packed(layer.given))
                alike = _alike(layer, layers[i - 1] if i else None)
                if (alike >= 0).any():
                    row[kernels.LIKE] = sum(map(len, like))
                    like.append(alike)
                units += layer.units
                sign += 3 + int(row[kernels.WORDS]) + 2 * layer.units  # bits, then units that follow others
            else:
                row[kernels.KIND], row[kernels.ROWS] = kernels.WALL, len(layer.key)
                row[kernels.HEADS], row[kernels.SKIP], row[kernels.FIRST] = layer.heads, layer.skip, heads
                row[kernels.SCORES] = keep(layer.scores, _SCORES)
                row[kernels.BIASES] = keep(layer.biases)
                if not isinstance(layer, MaxLayer):  # there, the winning scores themselves leave
                    row[kernels.OUTPUTS] = keep(layer.outputs)
                row[kernels.OFFSETS] = len(key_of)
                row[kernels.HEAD_AT] = len(heads_at)
                heads_at.extend(layer.head_start.tolist())
                key_of.extend(layer.key.tolist())
                multiplicities.extend((layer.multiplicities * layer.mean).tolist())
                if layer.near is None:
                    near_at.extend([-1] * len(layer.key))
                for rivals in layer.near or []:
                    near_at.append(-1 if rivals is None else len(near))
                    near.extend([] if rivals is None else [len(rivals), *rivals])
                heads += layer.heads
                sign += 3 + layer.heads + 2 * len(layer.key)  # winners, then keys that win with others
            if row[kernels.SCORES] >= 0:
                row[kernels.NONZERO_SCORES] = nonzeros.of_rows(layer.scores, int(row[kernels.SCORES]))
            row[kernels.Z_AT] = path
            path += columns * int(row[kernels.ROWS])
            widest = max(widest, layer.d_in, layer.d_out, int(row[kernels.ROWS]))
        if whole:
            table[len(layers), kernels.Y_AT] = path
            path += columns * (layers[-1].d_out if layers else columns - 1)
        return cls(
            layers=layers,
            table=table,
            parts=tuple(parts),
            heads_at=np.array(heads_at or [0], dtype=np.int64),
            key_of=np.array(key_of or [0], dtype=np.int64),
            multiplicities=np.array(multiplicities or [1], dtype=np.int64),
            given_bits=np.concatenate([*given_bits, np.zeros(1, dtype=np.int64)]),
            near=(np.array(near_at or [-1], dtype=np.int64), np.array(near or [0], dtype=np.int64)),
            nonzeros=nonzeros.lists(),
            like=np.concatenate([*like, np.zeros(1, dtype=np.int64)]),
            last=last,
            path_size=path + 8,
            sign_size=sign + 8,
            widest=widest,
            words=-(-units // 64),
            heads=heads,
            columns=columns,
            given=given,
        )


_known: WeakValueDictionary[tuple[tuple[int, ...], int, bool], Program] = WeakValueDictionary()
_norms: WeakKeyDictionary[Layer, list[float]] = WeakKeyDictionary()  # the bounds of layers, whoever uses them


def _packed(given: list[NDArray[np.bool_] | None]) -> Integers:
    """For every winner, whether its units are known, and their bits as words."""
    width = next(len(units) for units in given if units is not None)
    table = np.zeros((len(given), 1 + -(-width // 64)), dtype=np.int64)
    for row, units in zip(table, given, strict=True):
        if units is not None:
            row[0], row[1:] = 1, pack_bits(units[None])[0].view(np.int64)
    return table.ravel()


def _alike(layer: ReluLayer, before: Layer | None) -> Integers:
    """Per unit of a layer, twice the first unit with the same weights, plus one if they are the opposite; -1
    where no other unit has them.

    Units that take what enters as it is have the weights of the layer before.
    """
    parts = [layer.biases]
    if layer.scores is not None:
        parts.append(layer.scores)
    elif isinstance(before, ReluLayer) and not before.skip:
        parts += [before.outputs, before.offsets]
    if len(parts) == 1 or layer.units < 2:
        return np.full(layer.units, -1, dtype=np.int64)
    exact = [part.floats if part.fractions is None else part.fractions for part in parts]
    rows = np.hstack([part.reshape(layer.units, -1) for part in exact])
    signs = np.sign(rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)])
    turned = rows * signs[:, None] + 0
    names = [tuple(row) for row in turned] if rows.dtype == object else [row.tobytes() for row in turned]
    first: dict[Any, int] = {}
    found = np.array([first.setdefault(name, i) for i, name in enumerate(names)], dtype=np.int64)
    alone = np.bincount(found, minlength=len(found))[found] == 1
    return np.where(alone, -1, 2 * found + (signs != signs[found]))


class _Nonzeros:
    """Lists of the nonzero entries of rows, for matrices that have few: lattices, pruned networks."""

    def __init__(self) -> None:
        self._starts: list[Integers] = [np.zeros(1, dtype=np.int64)]
        self._entries: list[Integers] = []
        self._places: list[Integers] = []
        self._n_starts, self._n_entries = 1, 0

    def of_rows(self, matrix: Any, at: int, *, turned: bool = False) -> int:
        """Where the lists of the rows (columns if ``turned``) of the matrix that stands at ``at`` begin; -1
        if zeros are not worth a list.
        """
        if matrix.floats.size < _SMALL:
            return -1
        entries = matrix.floats if matrix.fractions is None else matrix.fractions
        there = np.asarray((entries.T if turned else entries) != 0, dtype=np.bool_)
        if np.count_nonzero(there) > _SPARSE * there.size:
            return -1
        rows, columns = np.nonzero(there)
        begin = self._n_starts
        self._starts.append(self._n_entries + np.searchsorted(rows, np.arange(len(there) + 1)))
        self._entries.append(columns)
        self._places.append(at + np.flatnonzero(there))
        self._n_starts += len(there) + 1
        self._n_entries += len(columns)
        return begin

    def lists(self) -> tuple[Integers, Integers, Integers]:
        """Where each list begins, the lists one after the other, and the places of entries in the weights."""
        none = np.zeros(0, dtype=np.int64)
        entries, places = (np.concatenate([*parts, none]) for parts in (self._entries, self._places))
        return np.concatenate(self._starts), entries, places


def _nothing_to_fold(d: int) -> ReluLayer:
    return ReluLayer(
        scores=ExactArray(np.zeros((0, d))),
        biases=ExactArray(np.zeros(0)),
        outputs=ExactArray(np.zeros((d, 0))),
        offsets=ExactArray(np.zeros(d)),
        skip=False,
        first_unit=0,
    )


def _check_sizes(layers: tuple[Layer, ...]) -> None:
    if len(layers) >= MOST_LAYERS:
        raise UnsupportedDimensionError(
            f"network must have fewer than {MOST_LAYERS} blocks for exact regions, but has {len(layers)}; "
            "try network.truncate(n_blocks)."
        )
    for i, layer in enumerate(layers):
        groups = max(layer.units, layer.heads)
        if groups >= MOST_GROUPS:
            raise UnsupportedDimensionError(
                f"block {i} must have fewer than {MOST_GROUPS} units or heads for exact regions, but "
                f"has {groups}."
            )
        if layer.n_keys >= MOST_KEYS:
            raise UnsupportedDimensionError(
                f"block {i} must have fewer than {MOST_KEYS} keys in all its heads for exact regions, but "
                f"has {layer.n_keys}."
            )


def _gamma(terms: int) -> float:
    """Relative error of a sum of that many products, the rounding of the weights included."""
    return (terms + 6) * _UNIT


def _largest(array: ExactArray) -> tuple[float, float]:
    floats = array.floats
    scale = float(np.abs(floats).max(initial=0.0))
    if scale == 0.0:
        return 0.0, 0.0
    return scale, 1.01 * scale * float(np.sqrt(((floats / scale) ** 2).sum()))


def _score_bounds(scores: ExactArray | None, biases: ExactArray) -> list[float]:
    if scores is None:
        return [1.0, 1.0, 1.0, _gamma(1), *_largest(biases)]
    return [*score_norms(scores), _gamma(scores.shape[1]), *_largest(biases)]


def _bounds(layer: Layer) -> list[float]:
    """The row of a layer: its scores and biases, then its outputs and offsets."""
    if isinstance(layer, AffineLayer):
        return [*_score_bounds(layer.weights, layer.offsets), *[0.0] * 6]
    scores = _score_bounds(layer.scores, layer.biases)
    if isinstance(layer, ReluLayer):
        outputs = [*score_norms(layer.outputs), _gamma(layer.units + 4), *_largest(layer.offsets)]
        return [*scores, *outputs]
    return [*scores, 0.0, 0.0, 0.0, _gamma(2 * layer.heads + 4), *value_norms(layer)]


def spectral_bound(matrix: Floats) -> float:
    r"""An upper bound on :math:`\|A\|_2`, a few per cent above it.

    :math:`\|A\|_2^{2^{k+1}} = \|(A^T A)^{2^k}\|_2 \le \|(A^T A)^{2^k}\|_\infty`.

    >>> 5.0 <= spectral_bound(np.array([[3.0, 0.0], [0.0, 5.0]])) <= 5.1
    True
    """
    if matrix.size == 0:
        return 0.0
    scale = float(np.abs(matrix).max())
    if scale == 0.0 or not np.isfinite(scale):
        return scale
    a = matrix / scale
    entries = np.abs(a)
    crude = np.sqrt(float(entries.sum(axis=0).max()) * float(entries.sum(axis=1).max()))
    if crude <= 1.01 * np.sqrt(float(np.einsum("ij,ij->i", a, a).max())):
        return 1.01 * scale * float(crude)  # selections and diagonals, which may be large: no better bound
    gram = a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a
    log_norm, power = 0.0, 1.0
    for _ in range(5):
        size = float(np.abs(gram).sum(axis=1).max())
        if not size > 1e-100:
            break
        log_norm += np.log(size) / power
        gram = gram / size
        gram = gram @ gram
        power *= 2.0
    log_norm += np.log(max(float(np.abs(gram).sum(axis=1).max()), 1e-100)) / power
    return 1.01 * scale * float(min(np.exp(0.5 * log_norm), crude))


def perron_bound(matrix: Floats) -> float:
    r"""An upper bound on :math:`\|A\|_2` for a matrix without negative entries, usually 1 % above it.

    :math:`\|A\|_2^2` is the largest eigenvalue of :math:`G = A^T A`, and at most
    :math:`\max_i (Gx)_i / x_i` for any :math:`x > 0` (Collatz and Wielandt).

    >>> 10.0 <= perron_bound(np.full((5, 20), 1.0)) <= 10.2
    True
    """
    scale = float(matrix.max(initial=0.0))
    if scale == 0.0 or not np.isfinite(scale):
        return scale
    a = matrix / scale
    x, square = np.ones(a.shape[1]), np.inf
    for _ in range(4):
        y = a.T @ (a @ x)
        square = min(square, float((y / x).max()))
        x = y / y.max() + 1e-6
    return 1.01 * scale * float(np.sqrt(square))


def score_norms(array: ExactArray) -> tuple[float, float, float]:
    """Bounds on the largest row norm, the spectral norm, and the spectral norm of the absolute values."""
    if array.floats.size == 0:
        return 0.0, 0.0, 0.0
    scale = float(np.abs(array.floats).max())
    if scale > 0.0 and not 1.0 / TAME < scale < TAME:
        return np.inf, np.inf, np.inf  # squares would be lost or infinite: nothing is certain here
    rows = 1.01 * float(np.sqrt((array.floats**2).sum(axis=1).max()))
    return rows, spectral_bound(array.floats), perron_bound(np.abs(array.floats))


def norms_of(rows: Floats) -> Floats:
    """2-norms of rows, rounded up; infinite where the squares prove nothing."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    sure = (squares > 1e-270) & (squares < 1e280)
    norms = np.where(sure, 1.0001 * np.sqrt(np.where(sure, squares, 1.0)), np.inf)
    vanish = np.flatnonzero(squares == 0.0)  # zeros, or squares that underflow
    norms[vanish[~rows[vanish].any(axis=1)]] = 0.0
    return norms


def value_norms(layer: ArgmaxLayer) -> tuple[float, float]:
    """Bounds on the largest entry and on the 2-norm of the sum of what the winners of all heads add."""
    largest = norm = 0.0
    for h in range(layer.heads):
        values = layer.outputs.floats[layer.head_start[h] : layer.head_start[h + 1]]
        most = float(np.abs(values).max(initial=0.0))
        largest += most
        norm += min(1.01 * most * float(np.sqrt(values.shape[1])), float(norms_of(values).max(initial=0.0)))
    return largest, norm
