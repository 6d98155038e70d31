r"""A network as verification reads it: four kinds of stages, one after the other.

A state :math:`y` passes through

- *affine* stages :math:`y \mapsto Wy + b`;
- *relu* stages: the coordinates from ``first`` on become :math:`\max(y_i, 0)`;
- *max* stages: the coordinates from ``first`` on fall into groups, and each group becomes its maximum;
- *choose* stages: the coordinates from ``first`` on are the scores of heads; what the heads put out is added
  to the coordinates before, or stands alone. The rule is top-k (hardmax is top-1) or sparsemax.

Skip connections are rows of an identity in the affine stage before. Units that read the same function up to
sign are one unit: networks pass a value on as :math:`\max(v, 0) - \max(-v, 0)`, which decides nothing. Only
affine stages multiply; the other three decide. The canonical form (:func:`canonical`) is what certificates
hold and hashes are made of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import flint
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, NotFiniteError
from hardmax.exact.arithmetic import exact_stack, fractions_of
from hardmax.exact.products import integer_matrix
from hardmax.exact.rationals import ExactArray
from hardmax.networks.attention import Attention
from hardmax.networks.heads.experts import MixtureOfExperts
from hardmax.networks.layers import AffineLayer, Layer, MaxLayer, ReluLayer, refuse_smooth
from hardmax.networks.network import Network

Floats = NDArray[np.float64]

_SPARSE = 0.2  # matrices with a smaller share of entries that are not zero are kept as such


@dataclass(frozen=True, eq=False)
class AffineStage:
    """``y -> Wy + b``."""

    weights: ExactArray
    offsets: ExactArray

    @cached_property
    def matrix(self) -> Any:
        """W in floats, sparse if most of it is zero."""
        w = self.weights.floats
        if w.size > 1000 and np.count_nonzero(w) < _SPARSE * w.size:
            return scipy.sparse.csr_array(w)
        return np.ascontiguousarray(w)

    @cached_property
    def absolute(self) -> Any:
        """The absolute values of W, rounded up where W was rounded."""
        return abs(self.matrix)

    @cached_property
    def rationals(self) -> tuple[flint.fmpq_mat, list[flint.fmpq]]:
        """W and b without rounding."""
        numerators, denominator = integer_matrix(self.weights)
        n = self.offsets.shape[0]
        return flint.fmpq_mat(numerators) * flint.fmpq(1, denominator), [
            self.offsets.rational(i) for i in range(n)
        ]

    def composed(self, current: flint.fmpq_mat) -> flint.fmpq_mat:
        """W times an exact map [A | b] of the inputs, with the offsets added to its last column."""
        weights, offsets = self.rationals
        made = weights * current
        last = made.ncols() - 1
        for i, offset in enumerate(offsets):
            if offset != 0:
                made[i, last] = made[i, last] + offset
        return made


@dataclass(frozen=True, eq=False)
class ReluStage:
    """Coordinates from ``first`` on become their positive parts."""

    first: int
    size: int


@dataclass(frozen=True, eq=False)
class MaxStage:
    """Groups ``starts[g]:starts[g + 1]`` become their maxima, behind the coordinates before ``first``."""

    first: int
    starts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ChooseStage:
    """Heads read scores ``starts[h]:starts[h + 1]`` and put out a mix of their rows of ``outputs``.

    ``k`` keys win; ``None`` stands for sparsemax with ``temperatures``. ``keep``: what comes out is added to
    the first coordinates.
    """

    first: int
    starts: tuple[int, ...]
    outputs: ExactArray
    keep: bool
    k: int | None
    ties: str
    temperatures: tuple[Fraction, ...] = ()

    @cached_property
    def values(self) -> NDArray[np.object_]:
        """The outputs as fractions."""
        return fractions_of(self.outputs)


Stage = AffineStage | ReluStage | MaxStage | ChooseStage


@dataclass(frozen=True, eq=False)
class Program:
    """The stages of a network.

    Attributes
    ----------
    d, d_out : int
    stages : tuple
    equal : dict
        For each head of a choose stage, the pairs of keys whose scores are the same function.

    Examples
    --------
    >>> import hardmax as hm
    >>> program = program_of(hm.Network.mlp([([[1.0]], [0.5]), ([[2.0]], [1.0])]))
    >>> [type(stage).__name__ for stage in program.stages]
    ['AffineStage', 'ReluStage', 'AffineStage']
    """

    d: int
    d_out: int
    stages: tuple[Stage, ...]
    equal: dict[tuple[int, int], NDArray[np.bool_]] = field(default_factory=dict)

    def values(self, points: Floats) -> Floats:
        """The outputs at the rows of a matrix, in floats: to guess with, not to prove."""
        y = points.T
        for stage in self.stages:
            if isinstance(stage, AffineStage):
                y = stage.matrix @ y + stage.offsets.floats[:, None]
            elif isinstance(stage, ReluStage):
                y = y.copy()
                np.maximum(y[stage.first :], 0.0, out=y[stage.first :])
            elif isinstance(stage, MaxStage):
                maxima = np.maximum.reduceat(y, stage.starts[:-1], axis=0)
                y = np.concatenate([y[: stage.first], maxima])
            else:
                y = _chosen(stage, y)
        return np.asarray(y.T)

    def magnitudes(self, size: Floats) -> list[float]:
        """Bounds on the absolute values of the states, powers of two, one per stage; inputs below ``size``.

        They fix what counts as rounding in a stage, for the search and for the replay alike.
        """
        found = []
        with np.errstate(over="ignore", invalid="ignore"):
            for stage in self.stages:
                if isinstance(stage, AffineStage):
                    size = stage.absolute @ size + np.abs(stage.offsets.floats)
                elif isinstance(stage, MaxStage):
                    size = np.concatenate([size[: stage.first], np.maximum.reduceat(size, stage.starts[:-1])])
                elif isinstance(stage, ChooseStage):
                    added = np.zeros(stage.outputs.shape[1])
                    for a, b in zip(stage.starts, stage.starts[1:], strict=False):
                        rows = slice(a - stage.first, b - stage.first)
                        added += np.abs(stage.outputs.floats[rows]).max(axis=0)
                    size = added + size[: stage.first] if stage.keep else added
                largest = float(size.max(initial=2.0**-900))
                if not largest < 2.0**900:
                    raise NotFiniteError(
                        "values must stay within float64 on the domain, but overflow; rescale the weights or "
                        "make the domain smaller."
                    )
                found.append(2.0 ** int(np.ceil(np.log2(largest)) + 1))
        return found


def _chosen(stage: ChooseStage, y: Floats) -> Floats:
    values = stage.outputs.floats
    total = y[: stage.first].copy() if stage.keep else np.zeros((values.shape[1], y.shape[1]))
    for h, (a, b) in enumerate(zip(stage.starts, stage.starts[1:], strict=False)):
        scores, rows = y[a:b], values[a - stage.first : b - stage.first]
        if stage.k is None:
            z = (scores - scores.max(axis=0)) / float(stage.temperatures[h])
            ordered = -np.sort(-z, axis=0)
            sums = np.cumsum(ordered, axis=0)
            size = np.count_nonzero(np.arange(1, b - a + 1)[:, None] * ordered > sums - 1.0, axis=0)
            threshold = (sums[size - 1, np.arange(len(size))] - 1.0) / size
            weights = np.maximum(z - threshold, 0.0)
        else:
            last = np.sort(scores, axis=0)[-stage.k]
            above, level = scores > last, scores == last
            left = stage.k - np.count_nonzero(above, axis=0)
            if stage.ties == "mean":
                weights = (above + level * (left / np.count_nonzero(level, axis=0))) / stage.k
            else:
                turn = slice(None, None, -1 if stage.ties == "rightmost" else 1)
                taken = level & (np.cumsum(level[turn], axis=0)[turn] <= left)
                weights = (above | taken) / stage.k
        total += rows.T @ weights
    return total


def program_of(network: Network) -> Program:
    """The stages of a piecewise-affine network."""
    refuse_smooth(network)
    stages: list[Stage] = []
    for block in network.blocks:
        if isinstance(block, MixtureOfExperts):
            raise InvalidInputError(
                f"network must consist of affine maps, ReLU layers, maxout and attention, but has {block!r}, "
                "which verify does not take; enumerate_regions does."
            )
        for plain in block.plain():
            if isinstance(plain, Attention) and plain.rule != "relu":
                stages += _attention(plain)
            else:
                for layer in plain.layers(0, 0):
                    stages += _of_layer(layer)
    stages = _without_twins(stages)
    return Program(network.d, network.d_out, tuple(stages), _equal_scores(stages))


def _of_layer(layer: Layer) -> list[Stage]:
    if isinstance(layer, AffineLayer):
        return [AffineStage(layer.weights, layer.offsets)]
    if isinstance(layer, ReluLayer):
        read = _read(layer.scores, layer.biases, layer.d_in, layer.skip)
        first = layer.d_in if layer.skip else 0
        out = layer.outputs
        if layer.skip:
            out = exact_stack([ExactArray(np.eye(layer.d_in)), out], axis=1)
        return [*read, ReluStage(first, layer.units), AffineStage(out, layer.offsets)]
    assert isinstance(layer, MaxLayer)
    first = layer.d_in if layer.skip else 0
    starts = tuple(first + int(start) for start in layer.head_start)
    return [*_read(layer.scores, layer.biases, layer.d_in, layer.skip), MaxStage(first, starts)]


def _read(scores: ExactArray | None, biases: ExactArray, d: int, skip: bool) -> list[Stage]:
    """The affine stage before a decision: scores, behind the state itself if that is needed later."""
    if scores is None and not skip and biases.all_zero():
        return []
    rows = ExactArray(np.eye(d)) if scores is None else scores
    if not skip:
        return [AffineStage(rows, biases)]
    return [
        AffineStage(
            exact_stack([ExactArray(np.eye(d)), rows]), exact_stack([ExactArray(np.zeros(d)), biases])
        )
    ]


def _attention(block: Attention) -> list[Stage]:
    heads, n_tokens, d = block.scores.shape
    present = np.flatnonzero(block.mask.ravel())
    scores = block.scores.rearranged(lambda array: array.reshape(-1, d)).take(present)
    biases = block.biases.rearranged(np.ravel).take(present)
    outputs = block.outputs.rearranged(lambda array: array.reshape(heads * n_tokens, -1)).take(present)
    first = d if block.skip else 0
    starts = (first, *(first + int(n) for n in np.cumsum(block.mask.sum(axis=1))))
    k = {"hardmax": 1, "top-k": block.k, "sparsemax": None}[block.rule]
    taus = tuple(block._rule.temperatures) if k is None else ()
    stage = ChooseStage(first, starts, outputs, block.skip, k, block.ties, taus)
    return [*_read(scores, biases, d, block.skip), stage]


# Twins: units that read the same function up to sign
# ----------------------------------------------------------------------------------------------------------

_Sparse = dict[int, Fraction]  # an affine function: coefficients that are not zero, the constant at -1


def _without_twins(stages: list[Stage]) -> list[Stage]:
    """Write max(-z, 0) as max(z, 0) - z, so that no two units read z or -z."""
    made: list[Stage] = []
    for stage in stages:
        made.append(stage)
        if len(made) > 2 and isinstance(made[-2], ReluStage):
            read, relu, out = made[-3:]
            if isinstance(read, AffineStage) and isinstance(relu, ReluStage) and isinstance(out, AffineStage):
                made[-3:] = _merged(read, relu, out)
    return made


def _merged(read: AffineStage, relu: ReluStage, out: AffineStage) -> list[Stage]:
    if _all_differ(read, relu.first):  # wide networks: no fraction is made for any weight
        return [read, relu, out]
    first, rows = relu.first, _sparse_rows(read)
    leads: dict[tuple[tuple[int, Fraction], ...], tuple[int, int]] = {}
    lead = []  # per unit the first that reads the same up to sign, and that sign
    for u, row in enumerate(rows[first:]):
        sign = -1 if row and next(iter(row.values())) < 0 else 1
        of, its = leads.setdefault(tuple((j, sign * v) for j, v in row.items()), (u, sign))
        lead.append((of, sign * its))
    if len(leads) == relu.size:
        return [read, relu, out]
    plain: list[_Sparse] = []  # what the outputs have of the state itself
    units: list[_Sparse] = []
    for row in _sparse_rows(out):
        through: _Sparse = {}
        of_units: _Sparse = {-1: row.pop(-1, Fraction(0))}
        for place, weight in row.items():
            if place < first:
                _add(through, rows[place], weight)
                continue
            u, sign = lead[place - first]
            of_units[u] = of_units.get(u, Fraction(0)) + weight
            if sign < 0:
                _add(through, rows[first + u], -weight)
        plain.append(through)
        units.append({u: w for u, w in of_units.items() if w})
    used = sorted({u for row in units for u in row if u >= 0})
    n = len(plain)
    place_of = {u: n + k for k, u in enumerate(used)} | {-1: -1}
    made = [{o: Fraction(1)} | {place_of[u]: w for u, w in row.items()} for o, row in enumerate(units)]
    try:
        read = _affine_stage([*plain, *(rows[first + u] for u in used)], read.weights.shape[1])
        out = _affine_stage(made, n + len(used))
    except OverflowError:  # a sum that no float can stand for
        return [read, relu, out]
    return [read, ReluStage(n, len(used)), out] if used else [read, out]


def _all_differ(read: AffineStage, first: int) -> bool:
    """Whether rounding alone shows that no two units read the same function up to sign.

    Rounding keeps signs and equality, so rows that differ as floats differ.
    """
    rows = np.column_stack([read.weights.floats, read.offsets.floats])[first:]
    leads = rows[np.arange(len(rows)), (rows != 0.0).argmax(axis=1)]
    rows = np.where(leads[:, None] < 0.0, -rows, rows) + 0.0  # no negative zero
    return len({row.tobytes() for row in rows}) == len(rows)


def _add(total: _Sparse, row: _Sparse, weight: Fraction) -> None:
    for j, value in row.items():
        total[j] = total.get(j, Fraction(0)) + weight * value


def _sparse_rows(stage: AffineStage) -> list[_Sparse]:
    rows: list[_Sparse] = [{} for _ in range(stage.weights.shape[0])]
    numbers, offsets = stage.weights.numbers, stage.offsets.numbers
    for i, j in zip(*(places.tolist() for places in np.nonzero(numbers)), strict=True):
        rows[i][j] = Fraction(numbers[i, j])
    for i in np.flatnonzero(offsets).tolist():
        rows[i][-1] = Fraction(offsets[i])
    return rows


def _affine_stage(rows: list[_Sparse], columns: int) -> AffineStage:
    whole = np.zeros((len(rows), columns + 1), dtype=object)
    for i, row in enumerate(rows):
        for j, value in row.items():
            whole[i, j] = value
    floats = whole.astype(np.float64)
    exact = all(Fraction(float(v)) == v for row in rows for v in row.values())
    if exact:
        return AffineStage(ExactArray(floats[:, :-1].copy()), ExactArray(floats[:, -1].copy()))
    values = np.array([[Fraction(v) for v in row] for row in whole.tolist()], dtype=object)
    return AffineStage(
        ExactArray(floats[:, :-1].copy(), values[:, :-1].copy()),
        ExactArray(floats[:, -1].copy(), values[:, -1].copy()),
    )


def _equal_scores(stages: Sequence[Stage]) -> dict[tuple[int, int], NDArray[np.bool_]]:
    found = {}
    for i, stage in enumerate(stages):
        if not isinstance(stage, ChooseStage):
            continue
        read = stages[i - 1]
        assert isinstance(read, AffineStage)
        for h, (a, b) in enumerate(zip(stage.starts, stage.starts[1:], strict=False)):
            rows = [
                (*row, offset)
                for row, offset in zip(
                    fractions_of(read.weights.take(slice(a, b))).tolist(),
                    fractions_of(read.offsets.take(slice(a, b))).tolist(),
                    strict=True,
                )
            ]
            found[i, h] = np.array([[p == q for q in rows] for p in rows])
    return found


# The canonical form
# ----------------------------------------------------------------------------------------------------------


def exact_text(value: Fraction | float) -> int | str:
    """An exact number as certificates write it: an integer, the hexadecimal form of a float, or p/q.

    >>> exact_text(2.0), exact_text(0.5), exact_text(Fraction(1, 3))
    (2, '0x1.0000000000000p-1', '1/3')
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2.0**53 else value.hex()
    if value.denominator == 1:
        return int(value)
    if value.denominator & (value.denominator - 1) == 0:
        try:
            rounded = float(value)
        except OverflowError:
            return str(value)
        if Fraction(rounded) == value:
            return rounded.hex()
    return str(value)


def _vector(values: ExactArray) -> list[int | str]:
    if values.fractions is None:  # exact_text, written out for millions of weights
        floats = values.floats.tolist()
        return [int(v) if v.is_integer() and -(2.0**53) < v < 2.0**53 else v.hex() for v in floats]
    return [exact_text(value) for value in values.fractions.tolist()]


def _matrix(values: ExactArray) -> dict[str, Any]:
    rows, columns = values.shape
    if np.count_nonzero(values.floats) < _SPARSE * values.floats.size:
        listed = []
        for i in range(rows):
            row = values.take(i)
            places = np.flatnonzero(row.floats if row.fractions is None else row.fractions != 0)
            listed.append([places.tolist(), _vector(row.take(places))])
        return {"columns": columns, "sparse": listed}
    return {"columns": columns, "rows": [_vector(values.take(i)) for i in range(rows)]}


def canonical(program: Program) -> dict[str, Any]:
    """The network as plain exact values; equal functions of equal form have equal values.

    >>> import hardmax as hm
    >>> canonical(program_of(hm.Network.mlp([([[0.5]], [1])])))["stages"]
    [{'kind': 'affine', 'w': {'columns': 1, 'rows': [['0x1.0000000000000p-1']]}, 'b': [1]}]
    """
    stages: list[dict[str, Any]] = []
    for stage in program.stages:
        if isinstance(stage, AffineStage):
            stages.append({"kind": "affine", "w": _matrix(stage.weights), "b": _vector(stage.offsets)})
        elif isinstance(stage, ReluStage):
            stages.append({"kind": "relu", "first": stage.first, "size": stage.size})
        elif isinstance(stage, MaxStage):
            stages.append({"kind": "max", "first": stage.first, "starts": list(stage.starts)})
        else:
            stages.append(
                {
                    "kind": "choose",
                    "first": stage.first,
                    "starts": list(stage.starts),
                    "outputs": [_vector(stage.outputs.take(i)) for i in range(stage.outputs.shape[0])],
                    "keep": stage.keep,
                    "k": stage.k,
                    "ties": stage.ties,
                    "temperatures": [exact_text(tau) for tau in stage.temperatures],
                }
            )
    return {"inputs": program.d, "outputs": program.d_out, "stages": stages}


def digest(value: Any) -> str:
    """SHA-256 of plain values, written in the one way that the replay writes them too.

    >>> digest({"a": 1})[:8]
    '015abd7f'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
