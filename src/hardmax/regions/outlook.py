r"""What is known at once about the number of cells: how many there can be, how many random points fall into.

An enumeration that runs for a second asks for both, so that nobody waits for an hour to learn that the
question is hopeless. They are two things. The *bound* is a closed form: on each cell of the layers before it,
a layer of n units is an arrangement of n hyperplanes, which has at most :math:`\sum_{j \le d} \binom{n}{j}`
cells, and heads with :math:`N_h` keys have at most :math:`\prod_h N_h`; in a plain ReLU network the count
with ranks (:func:`hardmax.bounds.mlp_bounds`) is smaller. The *sample* is a few thousand points, the same
ones every time: every signature seen is a cell's, up to the rounding of the forward pass.

Points that all fall into different cells say more than their number: if there are N cells, of any
sizes, the first k points hit k different ones with probability at most :math:`e^{-k(k-1)/(2N)}` (equal
sizes are the best case). So N is at least :math:`k(k-1) / (2 \ln 20)` with confidence 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log, prod
from typing import Any, Self, cast

import numpy as np

from hardmax.bounds.arrangements import rank_aware_step, zaslavsky
from hardmax.bounds.bound import Bound, Side
from hardmax.bounds.large_integers import readable
from hardmax.errors import NotFiniteError
from hardmax.geometry.domains import Box, Domain, WholeSpace
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Block
from hardmax.networks.heads.experts import MixtureOfExperts
from hardmax.networks.layers import Layer, ReluLayer, layers_of
from hardmax.networks.network import Network

_MOST_POINTS = 4096
_MULTIPLICATIONS = 3e8  # of the whole sample, about a quarter of a second
_MOST_TERMS = 1 << 22  # of the count with ranks
_DOUBT = 0.05


@dataclass(frozen=True)
class Outlook:
    """Bound and sample of the number of cells, made before the cells are counted.

    Attributes
    ----------
    upper : Bound
        A proven upper bound on the number of cells.
    n_signatures : int or None
        Different signatures among random points: at least so many cells. ``None``: no points were drawn, the
        domain being a polytope, or the network overflows floats at some of them.
    n_samples : int
        The number of points.
    n_before_repeat : int
        How many of the first points have different signatures.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = outlook(hm.Network.random_mlp([8, 12, 12, 1], 0), hm.Box.cube(8, -1, 1))
    >>> print(found)
    random points fall into at least 1213 cells; there are at most 9598384
    """

    upper: Bound
    n_signatures: int | None
    n_samples: int
    n_before_repeat: int

    @property
    def n_cells_likely(self) -> int | None:
        """A lower bound on the number of cells, with probability 95 % over the draw of the points."""
        if self.n_signatures is None:
            return None
        k = self.n_before_repeat
        return max(self.n_signatures, int(k * (k - 1) / (-2.0 * log(_DOUBT))))

    def _state(self) -> dict[str, Any]:
        return {**vars(self), "upper": self.upper._state()}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**{**state, "upper": Bound._from_state(state["upper"])})

    def __str__(self) -> str:
        most = f"there are at most {self.upper.text}"
        likely = self.n_cells_likely
        if self.n_signatures is None or likely is None:
            return most
        text = f"random points fall into at least {readable(self.n_signatures)} cells"
        if likely > self.n_signatures:
            text += f", so with confidence 95 % there are at least {readable(likely)}"
        return f"{text}; {most}"


def outlook(network: Network, domain: Domain) -> Outlook:
    """Bound and sample the number of cells of a network in a domain; takes a fraction of a second."""
    points = _points(network, domain)
    if points is None:
        return Outlook(upper_bound(network), None, 0, 0)
    try:
        with np.errstate(all="ignore"):
            signatures = network.signature(points)
    except NotFiniteError:  # numbers that only rationals can follow: the bound stands alone
        return Outlook(upper_bound(network), None, 0, 0)
    rows = np.concatenate(
        [np.ascontiguousarray(part).view(np.uint8).reshape(len(points), -1)
         for part in (signatures.routings, signatures.bits)], axis=1
    )  # fmt: skip
    seen: dict[bytes, int] = {}
    repeat = len(points)
    for i, row in enumerate(rows):
        if seen.setdefault(row.tobytes(), i) < i:
            repeat = min(repeat, i)
    return Outlook(upper_bound(network), len(seen), len(points), repeat)


def _points(network: Network, domain: Domain) -> np.ndarray | None:
    """The same random points every time: uniform in a box, normal in the whole space."""
    sizes = [max(block.width, block.heads * block.n_tokens, block.d_out) for block in network.blocks]
    cost = sum(2 * block.d_in * size for block, size in zip(network.blocks, sizes, strict=True)) + 1
    n = int(min(_MOST_POINTS, max(2, _MULTIPLICATIONS / cost)))
    rng = np.random.default_rng(0)
    if isinstance(domain, Box):
        low, high = domain.low.floats, domain.high.floats
        share = rng.random((n, domain.d))
        with np.errstate(over="ignore"):
            points = (1.0 - share) * low + share * high
        return points if np.isfinite(points).all() else None
    return 2.0 * rng.standard_normal((n, domain.d)) if isinstance(domain, WholeSpace) else None


def upper_bound(network: Network) -> Bound:
    """How many cells a network of these sizes can have at most.

    >>> from hardmax.networks.network import Network
    >>> upper_bound(Network.random_mlp([2, 3, 3, 1], 0)).value
    40
    """
    if any(block.chooses_sets for block in network.blocks):
        value = prod(_most_choices(block, network.d) for block in network.blocks)
        formula = "prod_l R(n_l, d) prod_h C(N_h, k), or 2^N_h - 1 supports"
        return Bound("product", Side.UPPER, value, formula, "any blocks")
    d, layers = network.d, [layer for layer in layers_of(network) if layer.cuts]
    if all(isinstance(layer, ReluLayer) and not layer.skip for layer in layers) and (
        (d + 1) * len(layers) <= _MOST_TERMS
    ):
        counts = [1] * (d + 1)
        for layer in reversed(layers):
            counts = rank_aware_step(layer.units, counts, lambda dimension: 1)
        formula = "sum over j of prod_l C(n_l, j_l), j_l <= min(d, n_1 - j_1, ..., n_l)"
        return Bound("rank_aware", Side.UPPER, counts[d], formula, "ReLU layers one after the other")
    value = prod(_most_cells(layer, d) for layer in layers)
    return Bound("product", Side.UPPER, value, "prod_l R(n_l, d) prod_h N_h", "any blocks")


def _most_choices(block: Block, d: int) -> int:
    """Into how many cells one block can cut a cell of the blocks before it."""
    if not block.chooses_sets:
        return prod(_most_cells(layer, d) for layer in layers_of(Network((block,))) if layer.cuts)
    if isinstance(block, MixtureOfExperts):
        widest = sorted(expert.width for expert in block.experts)[-block.k :]
        return comb(block.n_experts, block.k) * zaslavsky(sum(widest), d)
    attention = cast(Attention, block)
    sizes, k = attention.mask.sum(axis=1).tolist(), attention.k
    return prod(2**n - 1 if k is None else comb(n, k) for n in sizes)


def _most_cells(layer: Layer, d: int) -> int:
    """Into how many cells one layer can cut a cell of the layers before it."""
    if layer.heads:
        sizes = np.diff(layer.head_start)  # type: ignore[union-attr]
        return prod(sizes.tolist())
    return zaslavsky(layer.units, d)
