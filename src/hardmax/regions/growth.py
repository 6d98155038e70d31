r"""How counts grow with the number of keys: the experiments of P1 section VII-C, every choice named.

The paper plots counts over N on logarithmic axes and reads growth exponents off the slopes. It states neither
the box, nor the width of the ReLU layer, the rank of the scores, the biases, the number of networks, or
whether the networks of different N share weights; the slopes move with each of them. :class:`NetworkChoices`
and :class:`HeadChoices` hold these choices, :class:`Growth` the counts of several draws with the slope

.. math:: \frac{\sum_i (\log N_i - \overline{\log N})\, \log c_i}{\sum_i (\log N_i - \overline{\log N})^2}

of the mean counts, the slopes of the single draws, and their spread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray
from hardmax.geometry.domains import Box
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.networks.network import Network
from hardmax.regions.api import count_cells, enumerate_regions
from hardmax.regions.sampling.estimate import estimate_cells

Pairing = Literal["paired", "unpaired"]
_PAIRINGS = ("paired", "unpaired")


@dataclass(frozen=True, eq=False)
class Growth:
    """Counts of several draws at several N.

    Attributes
    ----------
    n_tokens : tuple of int
        The values of N.
    counts : int64 (draws, len(n_tokens))

    Examples
    --------
    >>> growth = Growth((2, 4, 8), np.array([[4, 16, 64], [2, 4, 8]]))
    >>> growth.slopes.round(6)
    array([2., 1.])
    >>> growth.mean.tolist(), round(growth.slope_spread, 3)
    ([3.0, 10.0, 36.0], 0.707)
    """

    n_tokens: tuple[int, ...]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(set(self.n_tokens)) < 2:
            raise InvalidInputError(
                f"n_tokens must hold at least two different N to have a slope, but was {self.n_tokens}."
            )

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean count per N."""
        return np.asarray(self.counts.mean(axis=0))

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation of the counts over the draws, per N."""
        return _spread(self.counts)

    @property
    def slope(self) -> float:
        """The slope of the mean counts, which is what one line through a plot shows."""
        return float(_slopes(self.n_tokens, self.mean[None])[0])

    @property
    def intercept(self) -> float:
        """The logarithm of the fitted line at N = 1."""
        return float(np.log(self.mean).mean() - self.slope * np.log(self.n_tokens).mean())

    @property
    def slopes(self) -> NDArray[np.float64]:
        """One slope per draw."""
        return _slopes(self.n_tokens, self.counts)

    @property
    def slope_mean(self) -> float:
        """The mean of the slopes of the draws."""
        return float(self.slopes.mean())

    @property
    def slope_spread(self) -> float:
        """Their standard deviation: how far one draw may lead astray."""
        return float(_spread(self.slopes))

    @property
    def slope_error(self) -> float:
        """The standard error of their mean."""
        return self.slope_spread / float(np.sqrt(len(self.counts)))

    @property
    def last_slope(self) -> float:
        """The slope of the mean counts between the two largest N."""
        return float(_slopes(self.n_tokens[-2:], self.mean[None, -2:])[0])


def _slopes(n_tokens: Sequence[int], counts: NDArray[Any]) -> NDArray[np.float64]:
    x = np.log(np.asarray(n_tokens, dtype=np.float64))
    x = x - x.mean()
    return np.asarray(np.log(counts) @ x / (x @ x))


def _spread(values: NDArray[Any]) -> NDArray[np.float64]:
    """The sample standard deviation; none of a single draw."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(values.std(axis=0, ddof=1))


@dataclass(frozen=True, kw_only=True)
class NetworkChoices:
    """What figure 6(a) leaves open about its random transformers in the plane.

    Weights are those of :meth:`hardmax.networks.network.Network.random`.

    Parameters
    ----------
    heads, d_ff : int
    d_k : int
        The rank of the scores; 0 draws Gaussian scores without a projection.
    box : float
        Cells are counted in :math:`[-box, box]^2`; "uniform in the plane" does not exist.
    score_bias : bool
        Whether scores carry Gaussian biases.
    ffn_bias : float
        The standard deviation of the biases of the ReLU layer.
    attention_skip, ffn_skip : bool
    pairing : {"paired", "unpaired"}
        Paired: a network with N keys has the first N keys of the largest one and the same ReLU layers.
        Unpaired: every N has its own weights.
    """

    heads: int = 1
    d_ff: int = 8
    d_k: int = 0
    box: float = 4.0
    score_bias: bool = False
    ffn_bias: float = 0.5
    attention_skip: bool = True
    ffn_skip: bool = False
    pairing: Pairing = "paired"

    def __post_init__(self) -> None:
        if self.pairing not in _PAIRINGS:
            raise InvalidInputError(
                f"pairing must be one of {', '.join(_PAIRINGS)}, but was {self.pairing!r}."
            )
        if not self.box > 0:
            raise InvalidInputError(f"box must be positive, but was {self.box}.")

    @property
    def domain(self) -> Box:
        """Where cells are counted."""
        return Box.cube(2, -self.box, self.box)

    def draw(self, n_tokens: Sequence[int], depth: int, rng: np.random.Generator) -> list[Network]:
        """One network per N.

        Examples
        --------
        >>> nets = NetworkChoices().draw((2, 5), 1, np.random.default_rng(0))
        >>> [int(net.blocks[0].mask.sum()) for net in nets]
        [2, 5]
        """
        if self.pairing == "unpaired":
            return [self._network(n, depth, rng) for n in n_tokens]
        largest = self._network(max(n_tokens), depth, rng)
        return [Network(tuple(block.with_keys(n) for block in largest.blocks)) for n in n_tokens]

    def _network(self, n_tokens: int, depth: int, rng: np.random.Generator) -> Network:
        return Network.random(
            2,
            n_tokens,
            self.heads,
            depth,
            self.d_ff,
            rng,
            d_head=self.d_k or None,
            biased=self.score_bias,
            attention_skip=self.attention_skip,
            ffn_skip=self.ffn_skip,
            ffn_bias_scale=self.ffn_bias,
        )


@dataclass(frozen=True, eq=False)
class CellGrowth:
    """What was counted at one depth: exact cells and, if they were asked for, exact regions and the
    signatures of random points."""

    cells: Growth
    regions: Growth | None
    signatures: Growth | None

    @property
    def missed(self) -> float:
        """The share of cells that no random point fell into; NaN without random points."""
        if self.signatures is None:
            return float("nan")
        return 1.0 - int(self.signatures.counts.sum()) / int(self.cells.counts.sum())

    @property
    def above_regions(self) -> int:
        """In how many networks random points found more signatures than there are linear regions."""
        if self.signatures is None or self.regions is None:
            return 0
        return int((self.signatures.counts > self.regions.counts).sum())


def cell_growth(
    choices: NetworkChoices,
    *,
    n_tokens: Sequence[int],
    depths: Sequence[int],
    draws: int,
    stream: Callable[[int], np.random.Generator],
    n_samples: int = 0,
    with_regions: bool = False,
) -> dict[int, CellGrowth]:
    """Count cells, and if asked regions and signatures of random points, depth by depth (figure 6(a)).

    Shallow networks are the first layers of the deepest one. ``stream(i)`` gives the random numbers of draw
    i.

    Examples
    --------
    >>> found = cell_growth(NetworkChoices(), n_tokens=(2, 3), depths=(1,), draws=2,
    ...                     stream=np.random.default_rng, n_samples=10_000)
    >>> bool((found[1].signatures.counts <= found[1].cells.counts).all())
    True
    """
    counts = np.zeros((3, len(depths), draws, len(n_tokens)), dtype=np.int64)
    for i in range(draws):
        rng = stream(i)
        for k, deepest in enumerate(choices.draw(n_tokens, max(depths), rng)):
            for l, depth in enumerate(depths):
                network = _shallow(deepest, depth)
                if with_regions:
                    found = enumerate_regions(network, choices.domain, n_jobs=1)
                    counts[:2, l, i, k] = found.n_cells, found.n_regions
                else:
                    counts[0, l, i, k] = count_cells(network, choices.domain, n_jobs=1).n_cells
                if n_samples:
                    points = estimate_cells(network, choices.domain, n_samples=n_samples, rng=rng, n_jobs=1)
                    counts[2, l, i, k] = points.n_signatures
    lengths = tuple(n_tokens)
    return {
        depth: CellGrowth(
            Growth(lengths, counts[0, l]),
            Growth(lengths, counts[1, l]) if with_regions else None,
            Growth(lengths, counts[2, l]) if n_samples else None,
        )
        for l, depth in enumerate(depths)
    }


def _shallow(network: Network, depth: int) -> Network:
    """The first ``depth`` layers, a layer being attention and what follows it."""
    starts = [i for i, block in enumerate(network.blocks) if block.heads]
    return network.truncate([*starts, len(network.blocks)][depth])


@dataclass(frozen=True, kw_only=True)
class HeadChoices:
    r"""What figure 6(b) leaves open about its random heads.

    Parameters
    ----------
    d : int
        The dimension of the input.
    d_k : int
        The rank of a head. Scores are :math:`k_j^\top W x` with W of shape (d_k, d), never multiplied out in
        floats, because a rounded product has full rank.
    tokens : {"independent", "shared"}
        Gaussian keys per head, or :math:`k_j = W_K^\top c_j` of Gaussian tokens that all heads share.
    """

    d: int = 4
    d_k: int = 4
    tokens: Literal["independent", "shared"] = "independent"

    def __post_init__(self) -> None:
        if self.tokens not in ("independent", "shared"):
            raise InvalidInputError(f"tokens must be independent or shared, but was {self.tokens!r}.")

    def draw(self, n_tokens: int, heads: int, rng: np.random.Generator) -> list[list[ExactArray]]:
        """Per head the factors of its scores."""
        factors = []
        shared = ExactArray(rng.standard_normal((n_tokens, self.d))) if self.tokens == "shared" else None
        for _ in range(heads):
            if shared is None:
                chain = [ExactArray(rng.standard_normal((n_tokens, self.d_k)))]
            else:
                chain = [shared, ExactArray(rng.standard_normal((self.d, self.d_k)))]
            factors.append([*chain, ExactArray(rng.standard_normal((self.d_k, self.d)))])
        return factors


def vertex_growth(
    choices: HeadChoices,
    *,
    n_tokens: Sequence[int],
    heads: int,
    draws: int,
    stream: Callable[[int], np.random.Generator],
) -> list[Growth]:
    """Vertices of the sums of 1, 2, ..., ``heads`` random heads (figure 6(b)), exactly.

    Heads with N keys have the first N keys of the largest ones, and the sum of H heads starts with that of
    H - 1.

    Examples
    --------
    Heads of rank one are segments, whatever the number of keys: a sum of H of them has 2^H vertices.

    >>> flat = vertex_growth(HeadChoices(d_k=1), n_tokens=(2, 5), heads=3, draws=1,
    ...                      stream=np.random.default_rng)
    >>> [growth.counts.tolist() for growth in flat]
    [[[2, 2]], [[4, 4]], [[8, 8]]]
    """
    counts = np.zeros((heads, draws, len(n_tokens)), dtype=np.int64)
    for i in range(draws):
        factors = choices.draw(max(n_tokens), heads, stream(i))
        for k, n in enumerate(n_tokens):
            points: list[Any] = [
                _multiplied([ExactArray(first.floats[:n]), *rest]) for first, *rest in factors
            ]
            for h in range(heads):
                counts[h, i, k] = minkowski_vertices(points[: h + 1]).count
    return [Growth(tuple(n_tokens), counts[h]) for h in range(heads)]


def _multiplied(chain: list[ExactArray]) -> Any:
    """The product, in fractions where floats cannot hold it."""
    product = ExactProduct([chain])
    return product.floats[0] if product.fractions is None else product.fractions[0]
