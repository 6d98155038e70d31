r"""The blocks of a network: attention, ReLU layers, maxout, affine maps (P1 Definition III.1).

All numbers are :class:`~hardmax.exact.rationals.ExactArray`: floats drive the forward pass, and the exact
numbers behind them, where they differ, decide about regions. :class:`Attention` and
:class:`MixtureOfExperts` have modules of their own, :mod:`hardmax.networks.attention` and
:mod:`hardmax.networks.heads.experts`.

A leaky ReLU layer is a plain one between two affine maps, exactly. With :math:`\alpha \ne 0`,

.. math:: \max(0, z) + \alpha \min(0, z)
          = \alpha \left( z + \tfrac{1 - \alpha}{\alpha} \max(0, z) \right),

a plain layer with a skip connection, scaled. The plain layer sees the same pre-activations, so bits and folds
are the same. Numbers that are no floats are kept as fractions.

A group of a :class:`Maxout` is a head whose output is the winning *score* instead of a value that belongs to
the winner. So its routing, the index of the winning piece, is part of the signature like that of a head; but
where it changes the two pieces have the same value, and the map bends without a jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, get_args

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import exact_stack, fractions_of
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray, as_exact, vector_of
from hardmax.networks.affine_maps import FloatMap, exact_affine, exact_scores
from hardmax.networks.attention import Attention, DistinctKeys, HeadBlock, distinct_keys
from hardmax.networks.block import BaseBlock, Traced, many, no_routings, no_units, reached, rounded_up
from hardmax.networks.heads.experts import MixtureOfExperts
from hardmax.networks.layers import AffineLayer, Layer, MaxLayer, ReluLayer, decided_keys, near_rows
from hardmax.networks.norms import LayerNorm, RMSNorm
from hardmax.networks.smooth import SmoothFeedForward

Floats = NDArray[np.float64]
Exactly = Callable[[], flint.fmpq_mat]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FeedForward(BaseBlock):
    r"""A ReLU layer, or a leaky one.

    .. math:: x \mapsto [x +]\; W_{out}\, \varphi(W_{in} x + b_{in}) + b_{out}, \qquad
              \varphi(z) = \max(0, z) + \alpha \min(0, z) .

    Parameters
    ----------
    w_in : (n, d) array_like or None
        ``None`` stands for the identity: the units read the coordinates of the input.
    b_in : (n,) array_like or None
        ``None`` for zeros.
    w_out : (e, n) array_like
    b_out : (e,) array_like or None
        ``None`` for zeros.
    skip : bool, default False
        Whether the input is added (then :math:`e = d`).
    slope : number or (n,) array_like, default 0
        :math:`\alpha`, the slope of a unit that is off: 0 is ReLU, a small number leaky ReLU, one number per
        unit PReLU, -1 the absolute value.

    Attributes
    ----------
    w_in : ExactArray or None
    b_in, w_out, b_out, slope : ExactArray
    skip : bool
    d_in, d_out, width : int

    Examples
    --------
    One tooth of the sawtooth of P1 Lemma F.2: 0, 1, 0 at 0, 1/2, 1.

    >>> tooth = FeedForward([[1], [1]], [0, -0.5], [[2, -4]], None)
    >>> tooth([[0.0], [0.5], [1.0]])[:, 0]
    array([0., 1., 0.])
    >>> tooth
    FeedForward(2 units, 1 -> 1)

    A leaky unit.

    >>> FeedForward([[1]], None, [[1]], slope=0.25)([[-2.0], [2.0]])[:, 0]
    array([-0.5,  2. ])
    """

    w_in: ExactArray | None
    b_in: ExactArray
    w_out: ExactArray
    b_out: ExactArray
    skip: bool
    slope: ExactArray
    given: ClassVar[Any] = None  # which units are on for every winner of the head before, if that is known
    _arrays: ClassVar[dict[str, int]] = {"w_in": 2, "b_in": 1, "w_out": 2, "b_out": 1}
    _options: ClassVar[tuple[str, ...]] = ("skip",)

    def __init__(
        self,
        w_in: ArrayLike | None,
        b_in: ArrayLike | None,
        w_out: ArrayLike,
        b_out: ArrayLike | None = None,
        *,
        skip: bool = False,
        slope: ArrayLike = 0,
    ) -> None:
        second = as_exact(w_out, "w_out", ndim=2)
        first = None if w_in is None else as_exact(w_in, "w_in", ndim=2)
        width, d = (second.shape[1], second.shape[1]) if first is None else first.shape
        if width == 0 or d == 0:
            shape = second.shape if first is None else first.shape
            raise InvalidInputError(
                f"{'w_out' if first is None else 'w_in'} must hold at least one unit with one input, but has "
                f"shape {shape}."
            )
        if second.shape[1] != width or second.shape[0] == 0:
            raise DimensionMismatchError(
                f"w_out must have one column per unit ({width}) and at least one row, but has shape "
                f"{second.shape}."
            )
        _check_skip(skip, d, second.shape[0])
        one_for_all = not isinstance(slope, ExactArray) and np.ndim(slope) == 0
        slopes: Any = np.full(width, slope) if one_for_all else slope
        self._set(
            w_in=first,
            b_in=vector_of(b_in, "b_in", width, "unit"),
            w_out=second,
            b_out=vector_of(b_out, "b_out", second.shape[0], "output"),
            skip=bool(skip),
            slope=vector_of(slopes, "slope", width, "unit"),
        )

    @property
    def name(self) -> str:
        """What the block is, in words."""
        return f"{'leaky ' if self.leaky else ''}ReLU layer"

    @property
    def leaky(self) -> bool:
        """Whether some unit that is off has a slope."""
        return not self.slope.all_zero()

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.width if self.w_in is None else self.w_in.shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.w_out.shape[0]

    @property
    def width(self) -> int:
        """The number of ReLU units."""
        return self.w_out.shape[1]

    def trace(self, points: Floats) -> Traced:
        """The output and which units are on, (n, width): those whose pre-activation is above zero."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.w_in is None:
                z = points + self.b_in.floats
            else:
                z = points @ self.w_in.floats.T
                z += self.b_in.floats
            on = z > 0.0
            if self.leaky:
                z = np.where(on, z, z * self.slope.floats)
            else:
                z = np.maximum(z, 0.0, out=z)
            y = z @ self.w_out.floats.T
            y += self.b_out.floats
            if self.skip:
                y += points
        return y, no_routings(points), on

    def reach(self, size: Floats) -> Floats:
        """Bounds on the absolute values of the output."""
        steepest = np.maximum(1.0, np.abs(self.slope.floats))
        seen = rounded_up(reached(self.w_in, self.b_in, size) * steepest)
        added = reached(self.w_out, self.b_out, seen)
        return rounded_up(added + size) if self.skip else added

    def plain(self) -> tuple[Block, ...]:
        """The same map without leaky units, as at most three plain blocks."""
        return tuple(self._plain()) if self.leaky else (self,)

    def _plain(self) -> Iterator[Block]:
        slopes = fractions_of(self.slope).tolist()
        n, d, e = self.width, self.d_in, self.d_out
        kept = d if self.skip else 0
        # the hidden vector: the input if it is added, the pre-activations, a place for each zero slope
        zero = np.array([slope == 0 for slope in slopes])
        size = kept + n + int(zero.sum())
        places = kept + np.arange(n)
        ends = np.where(zero, kept + n - 1 + np.cumsum(zero), places)
        kept_part = (np.diag_indices(kept), ExactArray(np.ones(kept)))
        simple = size == n
        if not (simple and self.w_in is None and self.b_in.all_zero()):
            w_in = ExactArray(np.eye(d)) if self.w_in is None else self.w_in
            w = assembled((size, d), kept_part, (np.ix_(places, np.arange(d)), w_in))
            yield Affine(w, assembled((size,), ((places,), self.b_in)))
        factors = [Fraction(1) if slope == 0 else (1 - slope) / slope for slope in slopes]
        steeper = as_exact(np.array(factors, dtype=object), "(1 - slope) / slope", ndim=1)
        selected = assembled((n, size), ((np.arange(n), places), ExactArray(np.ones(n))))
        added = assembled((size, n), ((ends, np.arange(n)), steeper))
        yield FeedForward(None if simple else selected, None, added, None, skip=True)
        w_out = _scaled(self.w_out, [Fraction(1) if slope == 0 else slope for slope in slopes])
        b_out: Any = self.b_out
        yield Affine(assembled((e, size), kept_part, (np.ix_(np.arange(e), ends), w_out)), b_out)

    def layers(self, head: int, unit: int) -> list[Layer]:
        """The internal form; an identity in front is left out."""
        w = self.w_in
        square = w is not None and w.shape[0] == w.shape[1]  # an identity as wide as the layer may be huge
        identity = w is None or (square and not w.rounded and np.array_equal(w.floats, np.eye(self.width)))
        scores = None if identity else w
        return [ReluLayer(scores, self.b_in, self.w_out, self.b_out, self.skip, unit, self.given)]

    def state(self) -> dict[str, Any]:
        """What must survive a file; a slope of zero need not."""
        return super().state() | ({"slope": self.slope.numbers} if self.leaky else {})

    def _added(self, current: FloatMap, choice: NDArray[Any], exactly: Exactly) -> FloatMap:
        seen = current.then(self.w_in, self.b_in)
        factor = np.where(choice, 1.0, self.slope.floats)[:, None]
        return FloatMap(seen.rows * factor, seen.size * np.abs(factor)).then(self.w_out, self.b_out)

    def _added_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat:
        z = exact_affine(self.w_in, self.b_in, current)
        for u in range(self.width):
            on = z[u, 0] > 0 if choice is None else choice[u]
            for c in range(0 if on else z.ncols()):
                z[u, c] = self.slope.rational(u) * z[u, c]
        return exact_affine(self.w_out, self.b_out, z)

    def __repr__(self) -> str:
        size = f"{many(self.width, 'unit')}, {self.d_in} -> {self.d_out}"
        return f"FeedForward({size}{', leaky' if self.leaky else ''}{', skip' if self.skip else ''})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Affine(BaseBlock):
    r"""An affine map :math:`x \mapsto W x + b`.

    Parameters
    ----------
    w : (e, d) array_like
    b : (e,) array_like, optional
        Zeros when left out.

    Attributes
    ----------
    w, b : ExactArray
    d_in, d_out : int

    Examples
    --------
    >>> Affine([[1, 2]], [3])([1.0, 1.0])
    array([6.])
    """

    w: ExactArray
    b: ExactArray
    skip: ClassVar[bool] = False
    name: ClassVar[str] = "affine map"
    _arrays: ClassVar[dict[str, int]] = {"w": 2, "b": 1}
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, w: ArrayLike, b: ArrayLike | None = None) -> None:
        matrix = as_exact(w, "w", ndim=2)
        if 0 in matrix.shape:
            raise InvalidInputError(
                f"w must have at least one row and one column, but has shape {matrix.shape}."
            )
        self._set(w=matrix, b=vector_of(b, "b", matrix.shape[0], "output"))

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.w.shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.w.shape[0]

    def trace(self, points: Floats) -> Traced:
        """The output; an affine map chooses nothing."""
        with np.errstate(over="ignore", invalid="ignore"):
            y = np.asarray(points @ self.w.floats.T + self.b.floats)
        return y, no_routings(points), no_units(points)

    def reach(self, size: Floats) -> Floats:
        """Bounds on the absolute values of the output."""
        return reached(self.w, self.b, size)

    def layers(self, head: int, unit: int) -> list[Layer]:
        """The internal form."""
        return [AffineLayer(self.w, self.b)]

    def _added(self, current: FloatMap, choice: NDArray[Any], exactly: Exactly) -> FloatMap:
        return current.then(self.w, self.b)

    def _added_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat:
        return exact_affine(self.w, self.b, current)

    def __repr__(self) -> str:
        return f"Affine({self.d_in} -> {self.d_out})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Maxout(HeadBlock):
    r"""The largest of several affine pieces, group by group.

    .. math:: x \mapsto [x +]\; W_{out}\, m(x) + b_{out}, \qquad
              m_g(x) = \max_j \; a_{gj} \cdot x + b_{gj} .

    Parameters
    ----------
    scores : (G, k, d) array_like
        The slopes :math:`a_{gj}` of the pieces. A list of G matrices with different numbers of rows is
        padded, and the padding is masked.
    biases : (G, k) array_like or None
        The constants :math:`b_{gj}`; ``None`` for zeros.
    w_out : (e, G) array_like or None
        ``None`` stands for the identity: the maxima themselves go on.
    b_out : (e,) array_like or None
        ``None`` for zeros.
    mask : (G, k) array_like of bool, optional
        ``True`` where a piece is present. Every group needs one.
    skip : bool, default False
        Whether the input is added (then :math:`e = d`).

    Attributes
    ----------
    scores, biases, b_out : ExactArray
    w_out : ExactArray or None
    mask : (G, k) bool, read-only
    skip : bool
    d_in, d_out, heads, pieces : int
        ``heads`` is G: in signatures a group counts as a head.

    Examples
    --------
    The absolute value and the larger of two coordinates.

    >>> block = Maxout([[[1, 0], [-1, 0]], [[1, 0], [0, 1]]])
    >>> block([-3.0, 2.0])
    array([3., 2.])
    >>> block
    Maxout(2 groups, 2 pieces, 2 -> 2)

    Max-pooling over pairs of neighbours.

    >>> Maxout.pool(4, [[0, 1], [2, 3]])([1.0, 5.0, 4.0, 2.0])
    array([5., 4.])
    """

    scores: ExactArray
    biases: ExactArray
    w_out: ExactArray | None
    b_out: ExactArray
    mask: NDArray[np.bool_]
    skip: bool
    name: ClassVar[str] = "maxout"
    _words: ClassVar[tuple[str, str]] = ("group", "piece")
    _arrays: ClassVar[dict[str, int]] = {"scores": 3, "biases": 2, "w_out": 2, "b_out": 1}
    _options: ClassVar[tuple[str, ...]] = ("mask", "skip")

    def __init__(
        self,
        scores: ArrayLike | Sequence[ArrayLike],
        biases: ArrayLike | Sequence[ArrayLike] | None = None,
        w_out: ArrayLike | None = None,
        b_out: ArrayLike | None = None,
        *,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        skip: bool = False,
    ) -> None:
        self._set_scores(scores, biases, mask)
        groups = self.heads
        second = None if w_out is None else as_exact(w_out, "w_out", ndim=2)
        if second is not None and (second.shape[1] != groups or second.shape[0] == 0):
            raise DimensionMismatchError(
                f"w_out must have one column per group ({groups}) and at least one row, but has shape "
                f"{second.shape}."
            )
        e = groups if second is None else second.shape[0]
        _check_skip(skip, self.d_in, e)
        self._set(w_out=second, b_out=vector_of(b_out, "b_out", e, "output"), skip=bool(skip))

    @classmethod
    def pool(cls, d: int, windows: Sequence[Sequence[int]]) -> Maxout:
        r"""Max-pooling: :math:`x \mapsto (\max_{i \in w_1} x_i, \max_{i \in w_2} x_i, \dots)`.

        Parameters
        ----------
        d : int
            The dimension of the input.
        windows : sequence of sequences of int
            The coordinates of each window. Windows may overlap and differ in size; piece j of a group is the
            j-th coordinate of its window.

        Examples
        --------
        >>> Maxout.pool(3, [[0, 1], [1, 2], [2]])([3.0, 1.0, 2.0])
        array([3., 2., 2.])
        """
        rows = []
        for g, window in enumerate(windows):
            index = np.asarray(window)
            if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
                raise InvalidInputError(
                    f"windows must hold lists of at least one coordinate, but window {g} is {window!r}."
                )
            if index.min() < 0 or index.max() >= d:
                raise InvalidInputError(
                    f"windows must name coordinates from 0 to {d - 1}, but window {g} is {index.tolist()}."
                )
            rows.append(np.eye(d)[index])
        return cls(rows)

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.b_out.shape[0]

    @property
    def pieces(self) -> int:
        """The number of pieces of the largest group, masked ones included."""
        return self.scores.shape[1]

    @cached_property
    def keys(self) -> DistinctKeys:
        """The pieces as the forward pass uses them: equal ones merged, masked ones gone."""
        nothing = ExactArray(np.zeros((*self.biases.shape, 0)))
        return distinct_keys(self.scores, self.biases, nothing, self.mask)

    def trace(self, points: Floats) -> Traced:
        """The output and the winning pieces (n, G), the lowest index among ties."""
        keys = self.keys
        _, winners, best = keys.scores(points)
        with np.errstate(over="ignore", invalid="ignore"):
            y = best[:, :, 0] if self.w_out is None else best[:, :, 0] @ self.w_out.floats.T
            y = y + self.b_out.floats
            if self.skip:
                y += points
        return y, keys.first[np.arange(len(keys.first)), winners[:, :, 0]], no_units(points)

    def reach(self, size: Floats) -> Floats:
        """Bounds on the absolute values of the output."""
        pieces = [reached(self.scores.take(g), self.biases.take(g), size) for g in range(self.heads)]
        best = np.array([values[present].max() for values, present in zip(pieces, self.mask, strict=True)])
        added = reached(self.w_out, self.b_out, best)
        return rounded_up(added + size) if self.skip else added

    def layers(self, head: int, unit: int) -> list[Layer]:
        """The internal form: the maxima and, unless they go on as they are, an affine layer."""
        decided, groups = decided_keys(self.scores, self.biases, self.mask)
        single, nothing = np.ones(len(groups), dtype=np.int64), ExactArray(np.zeros((len(groups), 0)))
        near = near_rows(groups, self.scores.shape[1], self.near)
        maxima = MaxLayer(
            **decided, multiplicities=single, outputs=nothing, skip=self.skip, first_head=head, near=near
        )
        if self.w_out is None and self.b_out.all_zero() and not self.skip:
            return [maxima]
        w_out = ExactArray(np.eye(self.heads)) if self.w_out is None else self.w_out
        if self.skip:
            w_out = exact_stack([ExactArray(np.eye(self.d_out)), w_out], axis=1)
        return [maxima, AffineLayer(w_out, self.b_out)]

    def _winning(self, winners: NDArray[Any]) -> tuple[ExactArray, ExactArray]:
        """Slopes and constants of the winning pieces."""
        chosen = (np.arange(self.heads), winners)
        return self.scores.take(chosen), self.biases.take(chosen)

    def _added(self, current: FloatMap, choice: NDArray[Any], exactly: Exactly) -> FloatMap:
        return current.then(*self._winning(choice)).then(self.w_out, self.b_out)

    def _added_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat:
        if choice is None:
            scores = exact_scores(self.scores, self.biases, self.mask, current)
            choice = np.array([max(rows, key=rows.__getitem__) for rows in scores])
        return exact_affine(self.w_out, self.b_out, exact_affine(*self._winning(choice), current))


Block = Attention | FeedForward | Maxout | MixtureOfExperts | Affine | LayerNorm | RMSNorm | SmoothFeedForward


def plain_blocks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The same map without leaky units: every leaky layer becomes at most three plain blocks.

    Examples
    --------
    >>> leaky = FeedForward([[2.0]], [1.0], [[3.0]], slope=0.25)
    >>> plain = plain_blocks([leaky])
    >>> plain
    (Affine(1 -> 1), FeedForward(1 unit, 1 -> 1, skip), Affine(1 -> 1))
    >>> from hardmax.networks.network import Network
    >>> points = [[-2.0], [0.0], [2.0]]
    >>> Network(plain)(points)[:, 0], leaky(points)[:, 0]
    (array([-2.25,  3.  , 15.  ]), array([-2.25,  3.  , 15.  ]))
    """
    return tuple(plain for block in blocks for plain in block.plain())


def block_of(state: Mapping[str, Any]) -> Block:
    """The block of a state; whatever does not fit together raises ``ValueError``, ``KeyError`` or the like.

    >>> block_of(Affine([[2.0]], [1.0]).state())([3.0])
    array([7.])
    """
    kinds: dict[str, type[Block]] = {kind.__name__: kind for kind in get_args(Block)}
    kind = kinds[state["block"]]
    factors = [as_exact(values, "factor", ndim=2) for values in state.get("factors", [])]
    options: dict[str, Any] = {name: state[name] for name in kind._options}
    options |= {name: state[name] for name in kind._more if name in state}
    for name, ndim in kind._arrays.items():
        values = state[name]
        if isinstance(values, Mapping):
            chains = [[factors[i] for i in chain] for chain in values["chains"]]
            options[name] = ExactProduct(chains, values["scales"], column=values["column"])
        else:
            options[name] = None if values is None else as_exact(values, name, ndim=ndim)
    if "experts" in state:
        options["experts"] = [block_of(expert) for expert in state["experts"]]
    if "slope" in state:
        options["slope"] = as_exact(state["slope"], "slope", ndim=1)
    if not isinstance(options.get("skip", False), bool):
        raise TypeError(f"skip must be True or False, not {options['skip']!r}")
    return kind(**options)


def _check_skip(skip: bool, d_in: int, d_out: int) -> None:
    if skip and d_out != d_in:
        raise DimensionMismatchError(
            f"a skip connection needs as many outputs as inputs, but has {d_out} and {d_in}; say skip=False "
            "or change w_out."
        )


def assembled(shape: tuple[int, ...], *parts: tuple[Any, ExactArray]) -> Any:
    """An exact array that is zero but for its parts, each an index and what stands there."""
    floats = np.zeros(shape)
    for index, part in parts:
        floats[index] = part.floats
    if not any(part.rounded for _, part in parts):
        return ExactArray(floats)
    fractions = np.full(shape, Fraction(0), dtype=object)
    for index, part in parts:
        fractions[index] = fractions_of(part)
    return ExactArray(floats, fractions)


def _scaled(matrix: ExactArray, factors: list[Fraction]) -> ExactArray:
    """Columns times factors."""
    if not matrix.rounded and all(_is_power_of_two(abs(factor)) for factor in factors):
        floats = np.array([float(factor) for factor in factors])
        products = matrix.floats * floats
        if (products / floats == matrix.floats).all():  # nothing was lost at the ends of the range
            return ExactArray(products)
    return as_exact(fractions_of(matrix) * np.array(factors, dtype=object), "w_out times slope", ndim=2)


def _is_power_of_two(value: Fraction) -> bool:
    p, q = value.numerator, value.denominator
    return p & (p - 1) == 0 and q & (q - 1) == 0 and max(p, q) < 2**500
