r"""Theorem 1 of P2, part 2, built: two layers of one head, O(1/epsilon) weights, none above 1.

.. math:: F(X) = \min_{s,t} 2\,(1 + x(s)^\top x(t)), \qquad x(t) \in [-1, 1]^3 .

The first layer lets every token find the token that is most opposite to it, the first feed-forward block
multiplies the two, the second layer lets CLS find the smallest product, the output block computes 2 + 18 c.
The paper's construction needs four repairs, all made here: the limit of its step 3 is :math:`(x(t)/3)^\top
v \to m/9` (printed without the third); the keys of the second layer are its own; with bounded
weights the affine output needs :math:`O(\varepsilon^{-1/2})` units, not O(1); and :math:`\beta` must be free,
see :func:`separation_beta`. Every weight is at most 1, and so the square comes from

.. math::

    u^2 \approx \frac{2\tanh b - \tanh(b + \theta u) - \tanh(b - \theta u)}{k \theta^2}, \qquad
    b = \operatorname{artanh}\tfrac{1}{\sqrt 3}, \quad k = -\tanh''(b) = \tfrac{4}{3\sqrt 3},

with the coefficient :math:`1/(k\theta^2)` spread over equal units. The point b is where :math:`\tanh'' ` is
least, which makes the error one-sided; ``docs/constructions.md`` proves every bound that is used.

:func:`sup_error` tries to break the construction. Random sequences hardly ever come close to the error bound;
what hurts is a softmax that cannot decide. Near ties put many tokens at the score gap (1 + W)/beta below the
best, where the softmax average is worst, and hill climbing starts from the worst sequences found.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from hardmax.errors import InvalidInputError
from hardmax.flow.theorems.softmax_transformers import (
    Floats,
    SoftmaxLayer,
    SoftmaxTransformer,
    TwoLayer,
    positive_number,
)
from hardmax.limits import look
from hardmax.networks.random_networks import check_size
from hardmax.randomness import generator_of

Cube = Literal["cube11", "cube01"]
Square = Literal["plain", "richardson"]

_B = math.atanh(1.0 / math.sqrt(3.0))
_K = 4.0 / (3.0 * math.sqrt(3.0))
_REACH = 2.0 / 3.0  # |x_i + y_i| for |x_i|, |y_i| <= 1/3
_GRID = 4001
_MOST_COPIES = 50_000


def separation_target(tokens: ArrayLike, *, domain: Cube = "cube11") -> Floats:
    r"""The target of Theorem 1, :math:`\min_{s,t} 2(1 + x(s)^\top x(t))`: (B, T, 3) -> (B,).

    Parameters
    ----------
    tokens : array of shape (B, T, 3)
    domain : {"cube11", "cube01"}
        On [0, 1]^3 the tokens are first mapped by 2x - 1; without that all inner products would be at least
        0, which is another target.

    Examples
    --------
    >>> separation_target([[[1, 1, 1], [-1, -1, -1]]])
    array([-4.])
    """
    x = np.asarray(tokens, dtype=np.float64)
    x = 2.0 * x - 1.0 if domain == "cube01" else x
    return np.array([2.0 * (1.0 + (each @ each.T).min()) for each in x])


def softmax_gap(n_tokens: int, beta: float) -> float:
    r"""How far a softmax average can stay below the maximum, exactly: :math:`W((T-1)/e)/\beta`.

    .. math:: \sup_{\rho \in \mathbb{R}^T} \Bigl(\max_s \rho(s) - \sum_s \sigma_\beta[\rho](s)\, \rho(s)\Bigr)
              = \frac{1}{\beta} W\!\Bigl(\frac{T-1}{e}\Bigr),

    W the Lambert function; attained when all but one score lie :math:`(1 + W)/\beta` below the largest.

    Examples
    --------
    >>> [round(softmax_gap(T, 1.0), 6) for T in (2, 4, 8, 64, 1024)]
    [0.278465, 0.603546, 0.973139, 2.30713, 4.43987]
    """
    check_size(n_tokens, "n_tokens", 1)
    return float(lambertw((n_tokens - 1) / math.e).real) / positive_number(beta, "beta")


def separation_beta(n_tokens: int, epsilon: float) -> float:
    r"""The inverse temperature of the construction: :math:`(72/\varepsilon)\, W((T-1)/e)`.

    Examples
    --------
    >>> round(separation_beta(64, 0.1), 2)
    1661.13
    """
    gap = softmax_gap(n_tokens, 1.0)
    return 72.0 * gap / positive_number(epsilon, "epsilon") if gap > 0 else 1.0


@dataclass(frozen=True, eq=False)
class DepthSeparation:
    """The transformer of Theorem 1 with the error it is allowed, part by part.

    Attributes
    ----------
    transformer : SoftmaxTransformer
        Two layers, one head each, dimension 6.
    epsilon : float
        The error that is guaranteed.
    n_tokens : int
        The number of tokens for which it is guaranteed.
    domain : {"cube11", "cube01"}
    softmax_error, product_error, readout_error : float
        Proven bounds on the parts; ``18 * (2 * softmax_error + product_error) + readout_error`` is
        ``error_bound``.

    Examples
    --------
    >>> built = separation_transformer(0.1, n_tokens=8)
    >>> built
    DepthSeparation(epsilon=0.1, n_tokens=8, widths=(144, 56), 2630 parameters)
    >>> built.transformer.largest_weight, built.error_bound <= 0.1
    (1.0, True)
    """

    transformer: SoftmaxTransformer
    epsilon: float
    n_tokens: int
    domain: Cube
    softmax_error: float
    product_error: float
    readout_error: float

    def __repr__(self) -> str:
        return (
            f"DepthSeparation(epsilon={self.epsilon:g}, n_tokens={self.n_tokens}, widths={self.widths}, "
            f"{self.transformer.n_parameters} parameters)"
        )

    @property
    def widths(self) -> tuple[int, int]:
        """Hidden widths of the first feed-forward block and of the output block."""
        return self.transformer.blocks[0].width, self.transformer.output.width

    @property
    def error_bound(self) -> float:
        """A proven bound on the largest error over all inputs, up to rounding."""
        return 18.0 * (2.0 * self.softmax_error + self.product_error) + self.readout_error

    def errors(self, tokens: ArrayLike) -> Floats:
        """Absolute errors at sequences (B, T, 3) of the domain, of ``n_tokens`` tokens at most."""
        x = np.asarray(tokens, dtype=np.float64)
        look()
        values = self.transformer(x)
        if x.shape[1] > self.n_tokens:
            raise InvalidInputError(
                f"tokens must be at most the n_tokens = {self.n_tokens} that beta was chosen for, but were "
                f"{x.shape[1]}."
            )
        low = 0.0 if self.domain == "cube01" else -1.0
        if not (low <= x.min(initial=low) and x.max(initial=low) <= 1.0):
            raise InvalidInputError(
                f"tokens must lie in [{low:g}, 1]^3, but reach from {x.min():g} to {x.max():g}."
            )
        return np.abs(values - separation_target(x, domain=self.domain))

    def to_torch(self) -> Any:
        """The transformer as a torch module (needs the extra ``training``)."""
        return self.transformer.to_torch()


def separation_transformer(
    epsilon: float, n_tokens: int, *, square: Square = "plain", domain: Cube = "cube11"
) -> DepthSeparation:
    r"""The two-layer, one-head transformer of Theorem 1 as real weights, all at most 1, beta apart.

    Parameters
    ----------
    epsilon : float
        The error that is allowed for every input, at most 6.
    n_tokens : int
        T. Only beta depends on it.
    square : {"plain", "richardson"}
        How the square is approximated: the plain difference needs :math:`O(1/\varepsilon)` units, its
        Richardson extrapolation :math:`O(\varepsilon^{-1/2})`.
    domain : {"cube11", "cube01"}
        Tokens in [-1, 1]^3, or in [0, 1]^3 with the target of 2x - 1 (the remark after the theorem).

    Examples
    --------
    >>> built = separation_transformer(0.05, 8)
    >>> rng = np.random.default_rng(0)
    >>> bool(built.errors(rng.uniform(-1, 1, (200, 8, 3))).max() <= 0.05)
    True
    """
    epsilon = positive_number(epsilon, "epsilon")
    if epsilon > 6.0:
        raise InvalidInputError(f"epsilon must be at most 6, or a constant would do, but was {epsilon:g}.")
    check_size(n_tokens, "n_tokens", 1)
    if domain not in ("cube11", "cube01"):
        raise InvalidInputError(f"domain must be cube11 or cube01, but was {domain!r}.")
    block, product_error = inner_product_block(epsilon / 72.0, square=square)
    # c is a softmax average of numbers a(t), each within product_error of an inner product of at most 1/3
    output, readout_error = affine_readout(epsilon / 4.0, reach=1.0 / 3.0 + product_error)
    beta = separation_beta(n_tokens, epsilon)
    shift = 1.0 if domain == "cube01" else 0.0
    transformer = SoftmaxTransformer(
        embedding=np.eye(3) * ((1.0 + shift) / 3.0),
        embedding_bias=np.full(3, -shift / 3.0),
        cls=np.zeros(6),
        layers=(_most_opposite(), _smallest_product()),
        blocks=(block,),
        output=output,
        beta=beta,
    )
    softmax_error = softmax_gap(n_tokens, beta)
    return DepthSeparation(
        transformer, epsilon, int(n_tokens), domain, softmax_error, product_error, readout_error
    )


def _into_second_half() -> Floats:
    w_o = np.zeros((6, 6))
    w_o[3:, :3] = np.eye(3)
    return w_o


def _most_opposite() -> SoftmaxLayer:
    """Scores -x(t).x(s)/9; the value lands in coordinates 4 to 6."""
    top = np.zeros((6, 6))
    top[:3, :3] = np.eye(3)
    return SoftmaxLayer(-top[None], top[None], np.eye(6)[None], _into_second_half())


def _smallest_product() -> SoftmaxLayer:
    """Scores -a(s) for a query with second coordinate 1/2: W_Q^T W_K has the entry -2, from entries of 1."""
    w_q, w_k = np.zeros((6, 6)), np.zeros((6, 6))
    w_q[:2, 1], w_k[:2, 0] = 1.0, -1.0
    return SoftmaxLayer(w_q[None], w_k[None], np.eye(6)[None], _into_second_half())


def inner_product_block(error: float, *, square: Square = "plain") -> tuple[TwoLayer, float]:
    r"""A tanh block for :math:`(x, y) \mapsto (x^\top y, 1/2, 0, 0, 0, 0)`, weights at most 1.

    Parameters
    ----------
    error : float
        What is allowed for :math:`x, y \in [-1/3, 1/3]^3`.
    square : {"plain", "richardson"}

    Returns
    -------
    TwoLayer
    float
        The proven error, at most ``error``.

    Examples
    --------
    >>> block, error = inner_product_block(0.1 / 72)
    >>> block.width, block.largest_weight, error < 0.1 / 72
    (144, 1.0, True)
    """
    error = positive_number(error, "error")
    if square not in ("plain", "richardson"):
        raise InvalidInputError(f"square must be plain or richardson, but was {square!r}.")
    copies = _first(lambda c: _product_error(_square_terms(c, square)) <= error, _MOST_COPIES, error)
    terms = _square_terms(copies, square)
    units, scales = [], []
    for theta, weight, n_copies in terms:
        for i in range(3):
            for side in (1.0, -1.0):  # (x_i + y_i)^2 with weight 1/4, (x_i - y_i)^2 with weight -1/4
                for sign in (1.0, -1.0):
                    row = np.zeros(6)
                    row[i], row[3 + i] = sign * theta, sign * side * theta
                    units += [row] * n_copies
                    scales += [-side * weight] * n_copies
    w_out = np.zeros((6, len(units)))
    w_out[0] = scales
    b_out = np.array([0.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    block = TwoLayer(np.array(units), np.full(len(units), _B), w_out, b_out)
    return block, _product_error(terms)


def _square_terms(copies: int, square: Square) -> list[tuple[float, float, int]]:
    """(theta, outer weight, copies) of the differences that approximate u^2 / 4; outer weights at most 1.

    The constants 2 tanh b cancel between (x + y)^2 and (x - y)^2.
    """
    if square == "plain":
        return [(math.sqrt(1.0 / (4.0 * _K * copies)), 1.0, copies)]
    theta = math.sqrt(4.0 / 3.0 / (4.0 * _K * copies))  # (4 D(theta) - D(2 theta)) / 3
    coarse = 1.0 / 3.0 / (4.0 * _K * 4.0 * theta**2)
    n_coarse = math.ceil(coarse)
    return [(theta, 1.0, copies), (2.0 * theta, -coarse / n_coarse, n_coarse)]


def _product_error(terms: list[tuple[float, float, int]]) -> float:
    r"""A bound on the error of the inner product: :math:`3 \max |e(x+y) - e(x-y)|`, e the error of u^2 / 4.

    e is even and :math:`|e''| \le \sum |w| n\, 2k\theta^2 + 1/2` because :math:`|\tanh''| \le k`, so a grid
    with the curvature term bounds its range on [0, 2/3].
    """
    if max(theta for theta, _, _ in terms) > 1.0:
        return math.inf  # an inner weight would be too large
    u = np.linspace(0.0, _REACH, _GRID)
    e, curvature = -(u**2) / 4.0, 0.5
    for theta, weight, n_copies in terms:
        bend = 2.0 * math.tanh(_B) - np.tanh(_B + theta * u) - np.tanh(_B - theta * u)
        e += weight * n_copies * bend
        curvature += abs(weight) * n_copies * 2.0 * _K * theta**2
    step = _REACH / (_GRID - 1)
    return float(3.0 * (e.max() - e.min() + 2.0 * curvature * step**2 / 8.0))


def affine_readout(error: float, *, reach: float) -> tuple[TwoLayer, float]:
    r"""A tanh block for :math:`c \mapsto 2 + 18 c_4` on :math:`|c_4| \le` reach, weights at most 1.

    p equal units :math:`\tanh(18 c_4 / p)`, and two units whose input is the constant 1, which together with
    the output bias make the 2 exactly. The error is :math:`z - p \tanh(z/p) \approx z^3/(3p^2)` at
    :math:`z = 18 \cdot` reach, so :math:`p \sim \varepsilon^{-1/2}`.

    Examples
    --------
    >>> block, error = affine_readout(0.025, reach=1 / 3)
    >>> block.width, block.largest_weight
    (56, 1.0)
    """
    z = 18.0 * positive_number(reach, "reach")
    p = _first(lambda p: p >= 18 and z - p * math.tanh(z / p) <= error, 10**7, error)
    w_in, b_in = np.zeros((p + 2, 6)), np.zeros(p + 2)
    w_in[:p, 3], b_in[p:] = 18.0 / p, 1.0
    w_out = np.ones((1, p + 2))
    w_out[0, p:] = 0.5 / math.tanh(1.0)
    return TwoLayer(w_in, b_in, w_out, [1.0]), z - p * math.tanh(z / p)  # type: ignore[arg-type]


def _first(fits: Callable[[int], bool], most: int, error: float) -> int:
    """The smallest number of equal units from 1 on that fits; what fits stays so for larger numbers."""
    high = 1
    while not fits(high):
        high *= 2
        if high > most:
            raise InvalidInputError(
                f"error must leave room for at most {most} equal units, but was {error:g}; try a larger "
                "epsilon."
            )
    return bisect_left(range(high), True, lo=high // 2 + 1, key=fits)


@dataclass(frozen=True)
class SupError:
    """The largest errors that were found; a lower bound on the supremum."""

    random: float  # over the random families
    adversarial: float  # over near ties and after hill climbing
    n_inputs: int  # sequences that were evaluated

    @property
    def largest(self) -> float:
        """The larger of the two."""
        return max(self.random, self.adversarial)


def separation_inputs(
    n_tokens: int, n_each: int, *, beta: float, rng: int | np.random.Generator = 0
) -> dict[str, Floats]:
    """Families of sequences in [-1, 1]^3, each of shape (n_each, T, 3).

    Uniform tokens, corners, points of the sphere, clusters with an antipode, equal tokens, and near ties at
    the scale of 1/beta.

    Examples
    --------
    >>> sorted(separation_inputs(4, 2, beta=100.0))
    ['clusters', 'corners', 'equal', 'sphere', 'ties', 'uniform']
    """
    check_size(n_tokens, "n_tokens", 1)
    check_size(n_each, "n_each", 1)
    rng = generator_of(rng)
    shape = (n_each, n_tokens, 3)
    sphere = rng.normal(size=shape)
    sphere /= np.linalg.norm(sphere, axis=2, keepdims=True)
    centre = rng.uniform(-1, 1, (n_each, 1, 3))
    clusters = np.clip(centre + rng.normal(scale=0.02, size=shape), -1, 1)
    clusters[:, 0] = -centre[:, 0]
    return {
        "uniform": rng.uniform(-1, 1, shape),
        "corners": rng.choice([-1.0, 1.0], size=shape),
        "sphere": sphere,
        "clusters": clusters,
        "equal": np.broadcast_to(rng.uniform(-1, 1, (n_each, 1, 3)), shape).copy(),
        "ties": _near_ties(n_each, n_tokens, beta, rng),
    }


def _near_ties(n_each: int, n_tokens: int, beta: float, rng: np.random.Generator) -> Floats:
    """One token at a corner, one opposite to it, the others almost opposite: scores lag by about 1/beta."""
    corner = rng.choice([-1.0, 1.0], size=(n_each, 1, 3))
    corner[n_each // 2 :] *= rng.uniform(0.3, 1.0, (n_each - n_each // 2, 1, 3))
    lag = np.exp(rng.uniform(np.log(0.3), np.log(30.0), (n_each, 1, 1))) * 9.0 / beta
    lag = lag / (corner**2).sum(axis=2, keepdims=True)
    tokens = np.repeat(-corner * np.clip(1.0 - lag, 0.0, 1.0), n_tokens, axis=1)
    tokens[:, 0] = corner[:, 0]
    tokens[:, -1] = -corner[:, 0]
    few = rng.random((n_each, 1)) < 0.5  # in half of them, half of the tokens ask instead
    askers = few & (rng.random((n_each, n_tokens)) < 0.5)
    return np.where(askers[:, :, None], corner * np.clip(1.0 - lag, 0.0, 1.0), tokens)


def sup_error(
    built: DepthSeparation, *, n_each: int = 200, climbers: int = 8, steps: int = 60, rng: int = 0
) -> SupError:
    """The largest error of the transformer over random and adversarial inputs.

    Parameters
    ----------
    built : DepthSeparation
    n_each : int
        Sequences per family.
    climbers, steps : int
        Hill climbing: how many sequences, how many steps.
    rng : int

    Examples
    --------
    >>> found = sup_error(separation_transformer(0.5, 8), n_each=50, steps=20)
    >>> found.largest <= 0.5
    True
    """
    check_size(climbers, "climbers", 1)
    check_size(steps, "steps", 0)
    generator = generator_of(rng)
    families = separation_inputs(built.n_tokens, n_each, beta=built.transformer.beta, rng=generator)
    if built.domain == "cube01":
        families = {name: (tokens + 1.0) / 2.0 for name, tokens in families.items()}
    errors = {name: built.errors(tokens) for name, tokens in families.items()}
    random = max(float(found.max()) for name, found in errors.items() if name != "ties")
    every, found = np.concatenate(list(families.values())), np.concatenate(list(errors.values()))
    worst = np.argsort(found)[-climbers:]
    best, heights = every[worst], found[worst]
    low = -1.0 if built.domain == "cube11" else 0.0
    for step in range(steps):
        scale = 0.3 * (1e-4 ** (step / max(1, steps - 1)))
        moved = generator.random((*best.shape[:2], 1)) < 2.0 / built.n_tokens  # a few tokens at a time
        tried = np.clip(best + moved * generator.normal(scale=scale, size=best.shape), low, 1.0)
        reached = built.errors(tried)
        better = reached > heights
        best, heights = np.where(better[:, None, None], tried, best), np.where(better, reached, heights)
    adversarial = max(float(errors["ties"].max()), float(heights.max(initial=0.0)))
    return SupError(random, adversarial, len(every) + steps * len(best))
