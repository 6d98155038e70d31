r"""What arithmetic of low precision can make of scores: enclosures that no conforming computation leaves.

The exact score is that of the numbers as they were given. The computed one is made like this, with the
formats of :class:`Arithmetic`: R rounds to nearest, ties to even, and every format has its unit roundoff u.

* *Conversion.* A given number x becomes R(x), or R of its float32 value where it is no float32: torch rounds
  twice. A number below the smallest normal one of the accumulator may be read as zero.
* *Products.* :math:`\sum_{i=1}^n a_i b_i`, and a bias, are summed in the accumulator's format in any order,
  with or without fused operations. Each of the n products passes through at most n roundings, so the result
  is :math:`\sum a_i b_i (1 + \theta_i)` with :math:`\lvert\theta_i\rvert \le \gamma = (1+u)^n - 1`, and for
  every underflow at most the smallest normal number :math:`\eta` is lost or gained:

  .. math:: \bigl\lvert \mathrm{fl}(a \cdot b) - a \cdot b \bigr\rvert
            \le \gamma \sum_i \lvert a_i\rvert \lvert b_i\rvert + 2 n \eta (1 + \gamma) .

  A bias is one more term: it may be summed with the others, or added after the sum was rounded; both are
  enclosed. Where a partial sum may exceed the largest number of the accumulator, nothing is known.
* *Results* are rounded to the format in which they are kept. R is monotone: a sum in [a, b] becomes a number
  in [R(a), R(b)], which is mostly a single number, because the errors of an accumulator are far below the
  grain of a result. That is why these enclosures are much tighter than :math:`u \lvert s\rvert`.
* *Attention* multiplies by the scale, rounded to the accumulator's format, and adds the bias of positions,
  both with one rounding in the accumulator and one in the format of scores.

The enclosures are evaluated in float64, whose own rounding is added to them by the same rule. Where that
rounding leaves open which exact scores are the largest, they are computed in rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.formats import FORMATS, Format
from hardmax.exact.products import integer_matrix
from hardmax.exact.rationals import ExactArray
from hardmax.models.reading.sources import CapturedLayer

Floats = NDArray[np.float64]

_UNIT = 2.0**-53
_NUMBERS = 2**20  # scores in one part


@dataclass(frozen=True)
class Arithmetic:
    """The formats of a computation of scores.

    Attributes
    ----------
    inputs : Format
        To which inputs, weights, queries and keys are rounded.
    accumulate : Format
        In which products are summed.
    scores : Format
        In which scores are kept.
    """

    inputs: Format
    accumulate: Format
    scores: Format


class Enclosed(NamedTuple):
    """Numbers that lie between two ends."""

    low: Floats
    high: Floats

    def middle(self) -> tuple[Floats, Floats]:
        """Centres, and radii that are not too small; a single number is its own centre."""
        with np.errstate(invalid="ignore", over="ignore"):
            centre = self.low + (self.high - self.low) * 0.5
            apart = np.maximum(centre - self.low, self.high - centre)
        return centre, apart * (1.0 + 4 * _UNIT)

    def kept(self, form: Format) -> Enclosed:
        """The numbers after rounding to a format."""
        return Enclosed(form.rounded(self.low), form.rounded(self.high))

    def operated(self, form: Format, arithmetic: Arithmetic) -> Enclosed:
        """The exact results of one operation after rounding, by way of the accumulator's format or not."""
        accumulate = arithmetic.accumulate
        through = self.kept(accumulate).or_zero(accumulate.smallest_normal).kept(form)
        return self.kept(form).hull(through)

    def plus(self, other: Enclosed) -> Enclosed:
        """Sums of two numbers."""
        with np.errstate(invalid="ignore", over="ignore"):
            return Enclosed(_down(self.low + other.low), _up(self.high + other.high))

    def or_zero(self, below: float) -> Enclosed:
        """The numbers, or zero where they may be subnormal and are flushed."""
        small = (self.low < below) & (self.high > -below)
        low, high = np.minimum(self.low, 0.0), np.maximum(self.high, 0.0)
        return Enclosed(np.where(small, low, self.low), np.where(small, high, self.high))

    def hull(self, other: Enclosed) -> Enclosed:
        """What holds both."""
        return Enclosed(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def converted(values: ArrayLike, arithmetic: Arithmetic) -> Enclosed:
    """What becomes of given numbers when they are rounded to the format of inputs."""
    x = np.asarray(values, dtype=np.float64)
    once, twice = (arithmetic.inputs.rounded(y) for y in (x, FORMATS["float32"].rounded(x)))
    return Enclosed(once, once).hull(Enclosed(twice, twice)).or_zero(arithmetic.accumulate.smallest_normal)


def products(a: Enclosed, b: Enclosed, arithmetic: Arithmetic, bias: Enclosed | None = None) -> Enclosed:
    """Every value that the sums :math:`a b^T` can take in the accumulator."""
    (ac, ar), (bc, br) = a.middle(), b.middle()
    n, form = ac.shape[-1] + (bias is not None), arithmetic.accumulate
    growth = np.expm1(n * np.log1p(form.unit)) * (1.0 + 16 * _UNIT)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        centre = ac @ bc.T
        size = (np.abs(ac) + ar) @ (np.abs(bc) + br).T
        wrong = np.zeros_like(centre)
        if ar.any():
            wrong += ar @ (np.abs(bc) + br).T
        if br.any():
            wrong += np.abs(ac) @ br.T
        if bias is not None:
            middle, apart = bias.middle()
            centre = centre + middle
            wrong, size = wrong + apart, size + (np.abs(middle) + apart)
        wrong += (growth + (n + 4) * _UNIT) * size + 2 * n * form.smallest_normal * (1.0 + growth)
        wrong *= 1.0 + (2 * n + 16) * _UNIT
        low, high = _down(centre - wrong), _up(centre + wrong)
        known = size * (1.0 + growth) * (1.0 + (2 * n + 16) * _UNIT) < form.largest
        known &= np.isfinite(low) & np.isfinite(high)
    return Enclosed(np.where(known, low, -np.inf), np.where(known, high, np.inf))


def linear(x: Enclosed, w: Enclosed, b: Enclosed | None, arithmetic: Arithmetic, form: Format) -> Enclosed:
    """Every value of :math:`x W^T + b` that is kept in a format."""
    made = products(x, w, arithmetic, b).kept(form)
    if b is not None:
        apart = products(x, w, arithmetic).kept(form)
        made = made.hull(apart.plus(b).operated(form, arithmetic))
    return made


def attended(
    queries: Enclosed, keys: Enclosed, scale: float, bias: Floats | None, arithmetic: Arithmetic
) -> Enclosed:
    """Every value of the scores :math:`\\sigma q \\cdot k + B`."""
    form = arithmetic.scores
    scores = products(queries, keys, arithmetic).kept(form)
    if scale != 1.0:
        factor = float(arithmetic.accumulate.rounded(scale))
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = Enclosed(_down(scores.low * factor), _up(scores.high * factor))
        scores = scaled.operated(form, arithmetic)
    if bias is not None:
        scores = scores.plus(converted(bias, arithmetic)).operated(form, arithmetic)
    return scores


class Scores(NamedTuple):
    """Some decisions of one head or router.

    ``normals[j]`` is the gradient of score j, so the wall between keys i and j is orthogonal to
    ``normals[i] - normals[j]``; each is wrong by at most ``normal_errors[j]``. None where the scores are all
    there is. ``rationals(rows)`` are the scores of some decisions without rounding; None where floats are.
    """

    head: int
    first: int  # the number of the first decision
    exact: Floats  # the scores in float64, -inf where a key may not be read
    rounding: Floats  # how far they are from the exact ones at most
    computed: Enclosed
    present: NDArray[np.bool_]
    normals: Floats | None
    normal_errors: Floats | None
    rationals: Callable[[NDArray[np.int64]], flint.fmpq_mat] | None


@dataclass(frozen=True, eq=False)
class ProjectedAttention:
    r"""Attention whose queries and keys are made by the arithmetic in question, as plain arrays.

    Head h gives token s the score :math:`\sigma\,(W_Q^h x_t + b_Q^h) \cdot (W_K^{g} x_s + b_K^{g})`; queries
    and keys are kept in the format of inputs.

    Parameters
    ----------
    inputs : (T, d) array
    W_Q : (H, r, d) array
    W_K : (G, r, d) array
        Of the groups of heads that share keys: head h reads group ``h // (H // G)``.
    b_Q, b_K : (H, r) and (G, r) arrays, optional
    scale : float
    present : (T, T) array of bool, optional
        Which keys each query may read.
    index : int
        The layer, counted from 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> layer = ProjectedAttention(
    ...     rng.standard_normal((40, 16)), rng.standard_normal((2, 8, 16)), rng.standard_normal((2, 8, 16)),
    ...     scale=8**-0.5)
    >>> import hardmax as hm
    >>> hm.models.router_flips(layer, dtype="bfloat16")
    <RouterFlips: 80 decisions in bfloat16, 79 of them cannot flip>
    """

    inputs: Floats
    W_Q: Floats
    W_K: Floats
    b_Q: Floats | None = None
    b_K: Floats | None = None
    scale: float = 1.0
    present: NDArray[np.bool_] | None = None
    index: int = 0

    def __post_init__(self) -> None:
        x, query, key = (
            finite(self.inputs, "inputs", 2),
            finite(self.W_Q, "W_Q", 3),
            finite(self.W_K, "W_K", 3),
        )
        if query.shape[2] != x.shape[1] or key.shape[1:] != query.shape[1:] or len(query) % len(key):
            raise DimensionMismatchError(
                f"W_Q and W_K must have shapes (H, r, {x.shape[1]}) and (G, r, {x.shape[1]}) with G "
                f"dividing H, but have {query.shape} and {key.shape}."
            )
        parts = {"inputs": x, "W_Q": query, "W_K": key}
        for name, weights in (("b_Q", query), ("b_K", key)):
            if getattr(self, name) is not None:
                parts[name] = finite(getattr(self, name), name, 2)
                if parts[name].shape != weights.shape[:2]:
                    raise DimensionMismatchError(
                        f"{name} must have shape {weights.shape[:2]}, but has {parts[name].shape}."
                    )
        may = np.ones((len(x),) * 2, dtype=bool) if self.present is None else np.asarray(self.present)
        if may.shape != (len(x),) * 2 or may.dtype != np.bool_:
            raise DimensionMismatchError(
                f"present must hold True and False in shape {(len(x),) * 2}, but has shape {may.shape} "
                f"and type {may.dtype}."
            )
        for name, value in {**parts, "present": may, "scale": positive_scale(self.scale)}.items():
            object.__setattr__(self, name, value)


def finite(values: ArrayLike, name: str, ndim: int) -> Floats:
    """Real numbers in so many axes."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name} must be an array of real numbers, but was something else."
        ) from error
    if array.ndim != ndim or array.size == 0:
        raise DimensionMismatchError(
            f"{name} must have {ndim} axes and no empty one, but has shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise NotFiniteError(f"{name} must be finite, but holds NaN or infinities.")
    return array


def positive_scale(scale: float) -> float:
    """What scores are multiplied by."""
    value = float(scale)
    if not 0.0 < value < np.inf:
        raise InvalidInputError(f"scale must be a finite number above 0, but was {scale}.")
    return value


# The decisions of a layer, part by part
# ----------------------------------------------------------------------------------------------------------


def of_logits(logits: Floats, arithmetic: Arithmetic) -> Iterator[Scores]:
    """Scores that are given, and only rounded; minus infinity masks a key."""
    present = ~np.isneginf(logits)
    for rows in _parts(*logits.shape):
        exact = np.where(present[rows], logits[rows], 0.0)
        once, twice = (arithmetic.scores.rounded(y) for y in (exact, FORMATS["float32"].rounded(exact)))
        computed = Enclosed(once, once).hull(Enclosed(twice, twice))
        none = np.zeros_like(exact)
        yield Scores(0, rows.start, logits[rows], none, computed, present[rows], None, None, None)


def of_router(x: Floats, w: Floats, b: Floats | None, arithmetic: Arithmetic) -> Iterator[Scores]:
    """Scores :math:`W x + b` of a router."""
    weights, offsets = converted(w, arithmetic), None if b is None else converted(b, arithmetic)
    for rows in _parts(len(x), len(w)):
        exact, rounding = _affine(x[rows], w, b)
        computed = linear(converted(x[rows], arithmetic), weights, offsets, arithmetic, arithmetic.scores)
        present = np.ones(exact.shape, dtype=bool)
        rationals = partial(_exact_affine, x[rows], w, b)
        yield Scores(0, rows.start, exact, rounding, computed, present, w, np.zeros(len(w)), rationals)


def of_captured(layer: CapturedLayer, heads: Sequence[int], arithmetic: Arithmetic) -> Iterator[Scores]:
    """Scores of queries and keys as they were captured; both are rounded to the format of inputs first."""
    scale = positive_scale(layer.scale)
    if layer.softcap is not None:
        raise InvalidInputError(
            f"layer {layer.index} must have no softcap, whose rounding is not enclosed, but has one of "
            f"{layer.softcap:g}."
        )
    for h in heads:
        where = f" of layer {layer.index}"
        q, k = finite(layer.queries[h], f"queries{where}", 2), finite(layer.keys_of(h), f"keys{where}", 2)
        may, bias = layer.readable(h)
        keys = converted(k, arithmetic)
        for rows in _parts(*may.shape):
            shift = None if bias is None else bias[rows]
            exact, rounding = _products(q[rows], k, scale, shift)
            computed = attended(converted(q[rows], arithmetic), keys, scale, shift, arithmetic)
            exact = np.where(may[rows], exact, -np.inf)
            errors, rationals = _UNIT * scale * _norms(k), partial(_exact_attended, q[rows], k, scale, shift)
            yield Scores(h, rows.start, exact, rounding, computed, may[rows], scale * k, errors, rationals)


def of_projected(layer: ProjectedAttention, heads: Sequence[int], arithmetic: Arithmetic) -> Iterator[Scores]:
    """Scores of queries and keys that are made in low precision themselves."""
    x, may, scale = layer.inputs, layer.present, layer.scale
    assert may is not None
    rounded_x = converted(x, arithmetic)
    made: dict[int, tuple[Floats, Floats, Enclosed]] = {}
    for h in heads:
        g = h // (len(layer.W_Q) // len(layer.W_K))
        if g not in made:
            b = None if layer.b_K is None else layer.b_K[g]
            made[g] = (*_affine(x, layer.W_K[g], b), _made(rounded_x, layer.W_K[g], b, arithmetic))
        k, k_wrong, keys = made[g]
        b = None if layer.b_Q is None else layer.b_Q[h]
        q, q_wrong = _affine(x, layer.W_Q[h], b)
        queries = _made(rounded_x, layer.W_Q[h], b, arithmetic)
        normals, size = scale * (k @ layer.W_Q[h]), scale * (np.abs(k) @ np.abs(layer.W_Q[h]))
        errors = _norms((len(q.T) + 4) * _UNIT * size + 2.0 * scale * (k_wrong @ np.abs(layer.W_Q[h])))
        for rows in _parts(*may.shape):
            exact, rounding = _products(q[rows], k, scale, None)
            rationals = partial(_exact_projected, layer, h, g, rows.start)
            more = q_wrong[rows] @ (np.abs(k) + k_wrong).T + np.abs(q[rows]) @ k_wrong.T
            rounding = rounding + 2.0 * scale * more
            some = Enclosed(queries.low[rows], queries.high[rows])
            computed = attended(some, keys, scale, None, arithmetic)
            exact = np.where(may[rows], exact, -np.inf)
            yield Scores(h, rows.start, exact, rounding, computed, may[rows], normals, errors, rationals)


def _made(x: Enclosed, w: Floats, b: Floats | None, arithmetic: Arithmetic) -> Enclosed:
    """Queries or keys, kept in the format of inputs."""
    offset = None if b is None else converted(b, arithmetic)
    made = linear(x, converted(w, arithmetic), offset, arithmetic, arithmetic.inputs)
    return made.or_zero(arithmetic.accumulate.smallest_normal)


def _affine(x: Floats, w: Floats, b: Floats | None) -> tuple[Floats, Floats]:
    """:math:`x W^T + b` in float64, and twice what rounding can have done to it."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        y, size = x @ w.T, np.abs(x) @ np.abs(w).T
        if b is not None:
            y, size = y + b, size + np.abs(b)
        return y, 2.0 * ((x.shape[1] + 2) * _UNIT * size + x.shape[1] * 2.0**-1074)


def _products(q: Floats, k: Floats, scale: float, bias: Floats | None) -> tuple[Floats, Floats]:
    """:math:`\\sigma q k^T + B` in float64, and twice what rounding can have done to it."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        y, size = (q @ k.T) * scale, (np.abs(q) @ np.abs(k).T) * scale
        if bias is not None:
            y, size = y + bias, size + np.abs(bias)
        return y, 2.0 * ((q.shape[1] + 4) * _UNIT * size + (q.shape[1] * scale + 1) * 2.0**-1074)


def _exact_affine(x: Floats, w: Floats, b: Floats | None, rows: NDArray[np.int64]) -> flint.fmpq_mat:
    """Rows of :math:`x W^T + b` in rationals."""
    if b is not None:
        x, w = np.column_stack([x, np.ones(len(x))]), np.column_stack([w, b])
    return _rational(x[rows]) * _rational(w).transpose()


def _exact_attended(
    q: Floats, k: Floats, scale: float, bias: Floats | None, rows: NDArray[np.int64]
) -> flint.fmpq_mat:
    """Rows of :math:`\\sigma q k^T + B` in rationals."""
    scores = _rational(q[rows]) * _rational(k).transpose() * _rational(np.array([[scale]]))[0, 0]
    return scores if bias is None else scores + _rational(bias[rows])


def _exact_projected(
    layer: ProjectedAttention, head: int, group: int, first: int, rows: NDArray[np.int64]
) -> flint.fmpq_mat:
    """Rows of the scores of a head in rationals, from the inputs on."""
    x, b_q, b_k = layer.inputs, layer.b_Q, layer.b_K
    q = _exact_affine(x, layer.W_Q[head], None if b_q is None else b_q[head], first + rows)
    k = _exact_affine(x, layer.W_K[group], None if b_k is None else b_k[group], np.arange(len(x)))
    return q * k.transpose() * _rational(np.array([[layer.scale]]))[0, 0]


def _rational(matrix: Floats) -> flint.fmpq_mat:
    numerators, denominator = integer_matrix(ExactArray(np.ascontiguousarray(matrix)))
    return flint.fmpq_mat(numerators) * flint.fmpq(1, denominator)


def _norms(rows: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def _parts(n: int, n_keys: int) -> Iterator[slice]:
    step = max(1, _NUMBERS // n_keys)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _down(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, -np.inf))


def _up(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, np.inf))
