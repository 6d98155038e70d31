"""Inputs that try to break the transformer of Theorem 1: random families, near ties, and hill climbing.

Random sequences hardly ever come close to the error bound; what hurts is a softmax that cannot decide. The
near ties put many tokens at the score gap (1 + W)/beta below the best, where the softmax average is worst,
and hill climbing starts from the worst sequences found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.flow.theorems.depth_separation import DepthSeparation
from hardmax.flow.theorems.two_layer import Floats
from hardmax.networks.constructions.random_networks import check_size

__all__ = ["SupError", "separation_inputs", "sup_error"]


@dataclass(frozen=True)
class SupError:
    """The largest errors that were found; a lower bound on the supremum.

    Attributes
    ----------
    random : float
        Over the random families.
    adversarial : float
        Over near ties and after hill climbing.
    n_inputs : int
        Sequences that were evaluated.
    """

    random: float
    adversarial: float
    n_inputs: int

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
    rng = np.random.default_rng(rng)
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
    """One token at a corner q, one opposite to it, the others almost opposite: their scores lag by about "
    "1/beta."""
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
    >>> from hardmax.flow.theorems.depth_separation import separation_transformer
    >>> found = sup_error(separation_transformer(0.5, 8), n_each=50, steps=20)
    >>> found.largest <= 0.5
    True
    """
    check_size(climbers, "climbers", 1)
    check_size(steps, "steps", 0)
    generator = np.random.default_rng(rng)
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
