"""What all blocks of a network share: one interface, and the checks of their arguments.

A walk over blocks need not ask for their class. Arguments may be heads of different sizes, masks, and vectors
that are left out. In a file a block is a dictionary of plain values. Exact numbers survive: an array whose
floats are exact is saved as floats, any other as fractions, and the product of weights as its factors, each
of them once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError, written
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.affine_maps import FloatMap
from hardmax.networks.layers import Layer

if TYPE_CHECKING:
    from hardmax.networks.blocks import Block

Floats = NDArray[np.float64]
Traced = tuple[Floats, NDArray[np.int32], NDArray[np.bool_]]  # output, routings, which units are on


class BaseBlock(ABC):
    """A piecewise-affine map with heads whose routing it chooses and ReLU units that it switches."""

    _arrays: ClassVar[dict[str, int]]  # the arrays of a block and their numbers of axes
    _options: ClassVar[tuple[str, ...]]  # what else makes the block
    _more: ClassVar[tuple[str, ...]] = ()  # options that a file need not have

    if TYPE_CHECKING:  # fields of some blocks, constants of others

        @property
        def skip(self) -> bool:
            """Whether the input is added."""
            ...

        @property
        def name(self) -> str:
            """What the block is, in words."""
            ...

    @property
    def heads(self) -> int:
        """The number of heads, each with a routing in the signature."""
        return 0

    @property
    def n_tokens(self) -> int:
        """The number of keys of the largest head, masked ones included."""
        return 0

    @property
    def width(self) -> int:
        """The number of ReLU units, each with a bit in the signature."""
        return 0

    @property
    def chooses_sets(self) -> bool:
        """Whether heads choose sets of keys, which an engine must know before it starts."""
        return False

    def _set(self, **fields: Any) -> None:
        """Fill the fields of a frozen block."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def d_in(self) -> int:
        """The dimension of the input."""

    @property
    @abstractmethod
    def d_out(self) -> int:
        """The dimension of the output."""

    @property
    def cuts(self) -> bool:
        """Whether the block has heads or units; otherwise it is affine and cuts nothing."""
        return self.heads + self.width > 0

    @property
    def smooth(self) -> bool:
        """Whether the block is not piecewise affine: then it has no cells, and segments only are traced."""
        return False

    @property
    def largest(self) -> int:
        """The most numbers that the forward pass holds per point."""
        return max(self.d_in, self.d_out, self.width)

    # Values
    # ------------------------------------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, temperature: float = 0.0) -> Floats:
        r"""The output at points; heads are softmax of their scores over :math:`\tau` at a temperature."""
        points, single = points_of(x, self.d_in)
        y = self.forward(as_exact(points, "x", ndim=2).floats, checked_temperature(temperature))
        return y[0] if single else y

    def forward(self, points: Floats, temperature: float = 0.0) -> Floats:
        """The output at the rows of a float64 matrix."""
        return self.trace(points)[0]

    @abstractmethod
    def trace(self, points: Floats) -> Traced:
        """The output at temperature zero, the winning keys (n, heads), and which units are on (n, width).

        Among tied keys the lowest index wins; a unit is on when its pre-activation is above zero.
        """

    @abstractmethod
    def reach(self, size: Floats) -> Floats:
        """Bounds on the absolute values of the output, where those of the input are at most ``size``.

        They hold beyond rounding errors; infinite or NaN where floats overflow.
        """

    # The affine map of a cell, from that of the blocks before
    # ------------------------------------------------------------------------------------------------------

    def compose(
        self, current: FloatMap, choice: NDArray[Any], exactly: Callable[[], flint.fmpq_mat]
    ) -> FloatMap:
        """The map behind the block in floats, where its heads or units take a ``choice``.

        ``exactly`` gives the map in front of the block in rationals, for ties that floats leave open.
        """
        added = self._added(current, choice, exactly)
        return current.plus(added) if self.skip else added

    def compose_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat:
        """The same in rationals; the values at a point, a single column, need no choice."""
        added = self._added_exactly(current, choice)
        return current + added if self.skip else added

    @abstractmethod
    def _added(
        self, current: FloatMap, choice: NDArray[Any], exactly: Callable[[], flint.fmpq_mat]
    ) -> FloatMap: ...

    @abstractmethod
    def _added_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat: ...

    # Other forms
    # ------------------------------------------------------------------------------------------------------

    def with_keys(self, n_tokens: int) -> Self:
        """The same block with the first keys of each head only."""
        return self

    def with_rule(self, **changes: Any) -> Self:
        """The same block with another rule, k, temperature or ties, if it has heads with a rule."""
        return self

    def plain(self) -> tuple[Block, ...]:
        """The same map as blocks without leaky units."""
        return (self,)  # type: ignore[return-value]

    @abstractmethod
    def layers(self, head: int, unit: int) -> list[Layer]:
        """The internal form of a plain block whose first head and unit have these numbers."""

    def state(self) -> dict[str, Any]:
        """What must survive a file.

        >>> from hardmax.networks.blocks import Affine
        >>> Affine([[2.0]]).state()
        {'block': 'Affine', 'w': array([[2.]]), 'b': array([0.])}
        """
        state: dict[str, Any] = {"block": type(self).__name__}
        factors: dict[int, tuple[int, ExactArray]] = {}
        for name in self._arrays:
            array: ExactArray | None = getattr(self, name)
            if isinstance(array, ExactProduct):
                chains = [
                    [factors.setdefault(id(factor), (len(factors), factor))[0] for factor in chain]
                    for chain in array.chains
                ]
                state[name] = {"chains": chains, "scales": list(array.scales), "column": array.column}
            else:
                state[name] = None if array is None else array.numbers
        if factors:
            state["factors"] = [factor.numbers for _, factor in factors.values()]
        return state | {name: getattr(self, name) for name in self._options}


class SmoothBlock(BaseBlock):
    """A block that is not piecewise affine: a norm, GELU, SiLU. It has values and no affine map of a cell."""

    @property
    def smooth(self) -> bool:
        """Whether the block is not piecewise affine."""
        return True

    def reach(self, size: Floats) -> Floats:
        """Nobody asks for it: engines refuse such a network."""
        raise not_affine(self)

    def _added(
        self, current: FloatMap, choice: NDArray[Any], exactly: Callable[[], flint.fmpq_mat]
    ) -> FloatMap:
        raise not_affine(self)

    def _added_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat:
        raise not_affine(self)


def not_affine(block: BaseBlock) -> InvalidInputError:
    """The error of a question that needs affine maps."""
    return InvalidInputError(
        f"this question needs a piecewise-affine network, but {block!r} is not piecewise affine; "
        "trace_segment follows such a network along a segment, with proof."
    )


def reached(weights: ExactArray | None, offsets: ExactArray, size: Floats) -> Floats:
    """A bound on :math:`|Wy + b|` where :math:`|y|` is at most ``size``.

    >>> reached(as_exact([[1, -2]], "w", ndim=2), as_exact([3], "b", ndim=1), np.array([1.0, 1.0])).round(3)
    array([6.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        seen = size if weights is None else np.abs(weights.floats) @ size
        return rounded_up(seen + np.abs(offsets.floats), float(size.sum()))


def rounded_up(values: Floats, terms: float = 1.0) -> Floats:
    """Sums and products of numbers that are not negative, above all roundings and underflows.

    Each of up to :math:`2^{30}` terms is off by less than :math:`2^{-51}` of itself, or by a multiple of the
    least float that ``terms`` bounds.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return values * (1.0 + 2.0**-20) + (1.0 + terms) * 2.0**-1000


def no_routings(points: Floats) -> NDArray[np.int32]:
    """The routings of a block without heads."""
    return np.zeros((len(points), 0), dtype=np.int32)


def no_units(points: Floats) -> NDArray[np.bool_]:
    """The bits of a block without units."""
    return np.zeros((len(points), 0), dtype=np.bool_)


def heads_of(values: Any, name: str, *, ndim: int) -> tuple[ExactArray, list[int]]:
    """An array over heads and keys, and the number of keys of each head; a list of heads is padded.

    >>> stack, lengths = heads_of([[[1.0], [2.0]], [[3.0]]], "scores", ndim=3)
    >>> stack.shape, lengths
    ((2, 2, 1), [2, 1])
    """
    if isinstance(values, ExactArray) and len(values.shape) == ndim:
        return values, [values.shape[1]] * values.shape[0]
    if not isinstance(values, (list, tuple)):
        array = as_exact(values, name, ndim=ndim)
        return array, [array.shape[1]] * array.shape[0]
    parts = [as_exact(part, f"{name}[{h}]", ndim=ndim - 1) for h, part in enumerate(values)]
    lengths = [part.shape[0] for part in parts]
    tails = {part.shape[1:] for part in parts}
    if len(tails) > 1:
        raise DimensionMismatchError(
            f"{name} must have the same last dimension in every head, but has "
            f"{', '.join(str(part.shape[-1]) for part in parts)}."
        )
    tail = next(iter(tails)) if tails else (0,) * (ndim - 2)
    shape = (len(parts), max(lengths, default=0), *tail)
    floats = np.zeros(shape)
    for h, part in enumerate(parts):
        floats[h, : lengths[h]] = part.floats
    if not any(part.rounded for part in parts):
        return ExactArray(floats), lengths
    exact = np.full(shape, Fraction(0), dtype=object)
    for h, part in enumerate(parts):
        exact[h, : lengths[h]] = fractions_of(part)
    return ExactArray(floats, exact), lengths


def biases_of(values: Any) -> tuple[ExactArray, list[int]]:
    """Biases over heads and keys; minus infinity is answered with the argument that was meant."""
    try:
        return heads_of(values, "biases", ndim=2)
    except NotFiniteError as error:
        raise NotFiniteError(f"{str(error)[:-1]}; leave out a key that must never win by mask.") from None


def mask_of(values: Any, lengths: list[int], n_tokens: int) -> NDArray[np.bool_]:
    """Which keys are present, read-only; padding is absent, and one row of values may serve all heads.

    >>> mask_of([True, False], [2, 1], 2)
    array([[ True, False],
           [ True, False]])
    """
    present = np.arange(n_tokens) < np.array(lengths)[:, None]
    if values is not None:
        for h, row in enumerate(_mask_rows(values, lengths, n_tokens)):
            present[h, : len(row)] &= row
    if not present.any(axis=1).all():
        h = int(np.flatnonzero(~present.any(axis=1))[0])
        raise InvalidInputError(f"mask must leave every head at least one key, but head {h} has none.")
    present.setflags(write=False)
    return present


def _mask_rows(values: Any, lengths: list[int], n_tokens: int) -> list[NDArray[np.bool_]]:
    try:
        rows = [np.asarray(row) for row in values]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"mask must hold one row of True and False per head, but was {values!r}."
        ) from error
    if rows and all(row.ndim == 0 for row in rows):
        rows = [np.array(rows)] * len(lengths)
    wrong = next((row.dtype for row in rows if row.dtype != np.bool_), None)
    if wrong is not None:
        raise InvalidInputError(
            f"mask must hold True (key present) and False (key absent), but has entries of type {wrong}."
        )
    shapes = [row.shape for row in rows]
    if shapes not in ([(n,) for n in lengths], [(n_tokens,)] * len(lengths)):
        raise DimensionMismatchError(
            f"mask must hold one entry per head and key, {sizes(lengths)}, but has rows of shapes "
            f"{', '.join(map(str, shapes)) or 'none at all'}."
        )
    return rows


def points_of(x: ArrayLike, d: int) -> tuple[NDArray[Any], bool]:
    """Points as rows, not converted yet, and whether there was only one, given as a vector.

    >>> points_of([1, 2], 2)
    (array([[1, 2]]), True)
    """
    try:
        points = np.asarray(x)
    except (ValueError, TypeError) as error:
        raise InvalidInputError("x must be a rectangular array of numbers, but its rows differ.") from error
    if points.ndim not in (1, 2) or points.shape[-1] != d:
        raise DimensionMismatchError(
            f"x must have {d} coordinates per point, shape ({d},) or (n, {d}), but has shape {points.shape}."
        )
    return np.atleast_2d(points), points.ndim == 1


def checked_temperature(temperature: float) -> float:
    """A temperature that makes sense.

    >>> checked_temperature(1)
    1.0
    """
    try:
        value = float(temperature)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not (value >= 0.0 and math.isfinite(value)):
        raise InvalidInputError(
            f"temperature must be a finite number of at least 0, but was {written(temperature)}."
        )
    return value


def sizes(lengths: list[int], head: str = "head", key: str = "key") -> str:
    """The heads and their keys in words.

    >>> sizes([3, 3]), sizes([3, 1])
    ('2 heads of 3 keys', 'heads of 3, 1 keys')
    """
    if len(set(lengths)) == 1:
        return f"{many(len(lengths), head)} of {many(lengths[0], key)}"
    return f"{head}s of {', '.join(str(n) for n in lengths)} {key}s"


def check_lengths(
    array: ExactArray, name: str, found: list[int], lengths: list[int], words: tuple[str, str]
) -> None:
    """Refuse an array that has not as many entries per head as the scores."""
    if found != lengths:
        raise DimensionMismatchError(
            f"{name} must hold one entry per {words[0]} and {words[1]}, {sizes(lengths, *words)}, but has "
            f"shape {array.shape}{'' if len(set(found)) == 1 else f' with {sizes(found, *words)}'}."
        )


def many(n: int, thing: str) -> str:
    """A number of things.

    >>> many(1, "head"), many(2, "head")
    ('1 head', '2 heads')
    """
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
