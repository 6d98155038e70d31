r"""Mixtures of experts: a router chooses which ReLU layers run.

A router scores E experts with affine functions of the input. The k best ones run, and the mean of what they
put out goes on. Which experts run is decided like the winners of a top-k head, so on a cell the router
chooses one set of experts, their units are on or off, and the map is affine.

**Why uniform gates.** With gates that depend on the input the output is gate times expert. Softmax gates are
no piecewise-affine functions. Sparsemax gates are, but so are experts, and a product of two affine functions
is quadratic: the block would not be piecewise affine, unless every expert is constant. That is an
:class:`~hardmax.networks.attention.Attention` head with ``rule="sparsemax"``, whose outputs are constants.

**Ties.** Where experts have the same score the one with the lowest index runs. A mean over all of them would
let more than k experts run, on whole cells if two rows of the router are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import ExactArray, as_exact, vector_of
from hardmax.networks.affine_maps import FloatMap, exact_scores
from hardmax.networks.attention import Attention
from hardmax.networks.block import BaseBlock, Traced, many, no_routings
from hardmax.networks.heads.rules import exact_weights
from hardmax.networks.layers import Layer, sets_unknown

if TYPE_CHECKING:
    from hardmax.networks.blocks import FeedForward

Floats = NDArray[np.float64]

_REFUSED = {
    "softmax": "softmax gates are no piecewise-affine functions",
    "sparsemax": "sparsemax gates times experts are quadratic on a cell, not affine",
}


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MixtureOfExperts(BaseBlock):
    r"""The mean of the k experts with the best scores.

    .. math:: x \mapsto [x +]\; \frac{1}{k} \sum_{e \in S(x)} f_e(x), \qquad
              S(x) = \text{the } k \text{ largest of } r_e \cdot x + c_e .

    Parameters
    ----------
    router : (E, d) array_like
        The slopes :math:`r_e`.
    router_bias : (E,) array_like or None
        The constants :math:`c_e`; ``None`` for zeros.
    experts : sequence of E FeedForward
        :math:`f_e`: plain ReLU layers without skip connection, of the same dimensions; their widths may
        differ.
    k : int, default 1
        How many experts run.
    gates : {"uniform"}
        Each expert that runs counts the same. Other gates are not piecewise affine: see the head of
        :mod:`hardmax.networks.heads.experts`.
    skip : bool, default False
        Whether the input is added.

    Attributes
    ----------
    router, router_bias : ExactArray
    experts : tuple of FeedForward
    k : int
    gates : str
    skip : bool
    d_in, d_out, n_experts : int
    width : int
        The bits in the signature: one per expert, which says whether it runs, then those of the units of all
        experts. Units of experts that do not run are off.

    Notes
    -----
    Among experts with the same score the lowest index runs. Exact cells need a bounded domain: engines gate
    the units of an expert by a constant that is larger than any pre-activation in the domain.

    Examples
    --------
    Two experts on a line: left of 0 runs the first, right of it the second.

    >>> from hardmax.networks.blocks import FeedForward
    >>> experts = [FeedForward([[1]], [1], [[1]]), FeedForward([[1]], [-1], [[2]])]
    >>> block = MixtureOfExperts([[-1], [1]], None, experts)
    >>> block([[-2.0], [-0.5], [0.5], [2.0]])[:, 0]
    array([0. , 0.5, 0. , 2. ])
    >>> block
    MixtureOfExperts(1 of 2 experts, 2 units, 1 -> 1)

    Each of them has a unit that folds where it runs: four cells.

    >>> import hardmax as hm
    >>> hm.count_cells(hm.Network([block]), hm.Box([-3], [3])).n_cells
    4
    """

    router: ExactArray
    router_bias: ExactArray
    experts: tuple[FeedForward, ...]
    k: int
    gates: str
    skip: bool
    name: ClassVar[str] = "mixture of experts"
    _arrays: ClassVar[dict[str, int]] = {"router": 2, "router_bias": 1}
    _options: ClassVar[tuple[str, ...]] = ("k", "gates", "skip")

    def __init__(
        self,
        router: ArrayLike,
        router_bias: ArrayLike | None,
        experts: Sequence[FeedForward],
        *,
        k: int = 1,
        gates: str = "uniform",
        skip: bool = False,
    ) -> None:
        slopes = as_exact(router, "router", ndim=2)
        if 0 in slopes.shape:
            raise InvalidInputError(
                f"router must hold at least one expert with one input, but has shape {slopes.shape}."
            )
        if gates != "uniform":
            because = f": {_REFUSED[gates]}" if gates in _REFUSED else ""
            raise InvalidInputError(f"gates must be 'uniform', but was {gates!r}{because}.")
        n, d = slopes.shape
        all_experts = _checked(experts, n, d)
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= n:
            raise InvalidInputError(
                f"k must be a whole number from 1 to the number of experts, {n}, but was {k!r}."
            )
        e = all_experts[0].d_out
        if skip and e != d:
            raise DimensionMismatchError(
                f"a skip connection needs as many outputs as inputs, but has {e} and {d}; say skip=False or "
                "change the experts."
            )
        biases = vector_of(router_bias, "router_bias", n, "expert")
        # who wins is decided as in a head; what it puts out is no constant
        keys: list[Any] = [array.rearranged(lambda numbers: numbers[None]) for array in (slopes, biases)]
        outputs = np.zeros((1, n, 1))
        head = Attention(keys[0], keys[1], outputs, rule="top-k", k=int(k), ties="leftmost", skip=False)
        self._set(router=slopes, router_bias=biases, experts=all_experts, k=int(k), gates=gates)
        self._set(skip=bool(skip), head=head)

    head: ClassVar[Attention]  # chooses the experts

    @property
    def n_experts(self) -> int:
        """The number of experts."""
        return self.router.shape[0]

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.router.shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.experts[0].d_out

    @property
    def starts(self) -> list[int]:
        """Where the units of each expert begin among those of all, and their number."""
        return [0, *np.cumsum([expert.width for expert in self.experts]).tolist()]

    @property
    def width(self) -> int:
        """The number of bits in the signature: one per expert, then one per unit."""
        return self.n_experts + self.starts[-1]

    @property
    def chooses_sets(self) -> bool:
        """Sets of experts, which an engine must know before it starts."""
        return True

    def chosen(self, points: Floats) -> NDArray[np.bool_]:
        """Which experts run at the rows of a float64 matrix, (n, 1, E)."""
        return self.head.chosen(points)

    def trace(self, points: Floats) -> Traced:
        """The output, and which experts run, then which of their units are on."""
        y, bits = np.zeros((len(points), self.d_out)), np.zeros((len(points), self.width), dtype=np.bool_)
        bits[:, : self.n_experts] = self.chosen(points)[:, 0]
        for e, (expert, units) in enumerate(zip(self.experts, self._units(), strict=True)):
            rows = np.flatnonzero(bits[:, e])
            if len(rows):
                part, _, bits[rows, units] = expert.trace(points[rows])
                with np.errstate(over="ignore", invalid="ignore"):
                    y[rows] += part
        y /= self.k
        with np.errstate(over="ignore", invalid="ignore"):
            return y + points if self.skip else y, no_routings(points), bits

    def _units(self) -> list[slice]:
        """Where the units of each expert stand among the bits."""
        return [slice(self.n_experts + a, self.n_experts + b) for a, b in pairwise(self.starts)]

    def reach(self, size: Floats) -> Floats:
        """Bounds on the absolute values of the output."""
        parts = np.max([expert.reach(size) for expert in self.experts], axis=0)
        return np.asarray(parts + size if self.skip else parts)

    def layers(self, head: int, unit: int) -> list[Layer]:
        """There is none before the sets of experts are listed: :mod:`hardmax.networks.heads.key_sets`."""
        raise sets_unknown(self)

    def _added(
        self, current: FloatMap, choice: NDArray[Any], exactly: Callable[[], flint.fmpq_mat]
    ) -> FloatMap:
        parts = [
            expert._added(current, choice[units], exactly)
            for e, (expert, units) in enumerate(zip(self.experts, self._units(), strict=True))
            if choice[e]
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total.plus(part)
        return FloatMap(total.rows / self.k, total.size / self.k)

    def _added_exactly(self, current: flint.fmpq_mat, choice: NDArray[Any] | None) -> flint.fmpq_mat:
        head = self.head
        if choice is None:
            scores = exact_scores(head.scores, head.biases, head.mask, current)[0]
            runs = list(exact_weights(head._rule, 0, scores, None))
        else:
            runs = np.flatnonzero(choice[: self.n_experts]).tolist()
        units = self._units()
        added = flint.fmpq_mat(self.d_out, current.ncols())
        for e in runs:
            added += self.experts[e]._added_exactly(current, None if choice is None else choice[units[e]])
        return added * flint.fmpq(1, self.k)

    def state(self) -> dict[str, Any]:
        """What must survive a file."""
        return super().state() | {"experts": [expert.state() for expert in self.experts]}

    def __repr__(self) -> str:
        size = f"{many(self.starts[-1], 'unit')}, {self.d_in} -> {self.d_out}"
        return (
            f"MixtureOfExperts({self.k} of {many(self.n_experts, 'expert')}, {size}"
            f"{', skip' if self.skip else ''})"
        )


def _checked(experts: Any, n: int, d: int) -> tuple[FeedForward, ...]:
    try:
        found = tuple(experts)
    except TypeError:
        raise InvalidInputError(f"experts must be a sequence of FeedForward, but was {experts!r}.") from None
    for e, expert in enumerate(found):
        if getattr(expert, "name", None) != "ReLU layer" or expert.skip:
            raise InvalidInputError(
                "experts must be FeedForward blocks without slope or skip connection, but expert "
                f"{e} is {expert!r}; the mixture itself can have skip=True."
            )
    if len(found) != n:
        raise DimensionMismatchError(
            f"experts must hold one block per row of the router ({n}), but holds {len(found)}."
        )
    shapes = [(expert.d_in, expert.d_out) for expert in found]
    for e, shape in enumerate(shapes):
        if shape != (d, shapes[0][1]):
            raise DimensionMismatchError(
                f"experts must take the {d} inputs of the router and agree in their outputs, but expert {e} "
                f"maps {shape[0]} -> {shape[1]} and expert 0 {shapes[0][0]} -> {shapes[0][1]}."
            )
    return found
