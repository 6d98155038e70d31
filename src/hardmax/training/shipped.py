"""The trained model that comes with hardmax, to look into without training one.

Two layers of two heads on the sum of two maxima of bilinear forms (P2 equation (6), D = 2) over 15 tokens,
the smallest model of the experiments in which information has to travel twice.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from hardmax.errors import InvalidInputError
from hardmax.training.tensor_files import TrainedModel, load_model

__all__ = ["MODELS", "shipped_model"]

MODELS = ("pairwise-2",)
"""Their names."""


def shipped_model(name: str = "pairwise-2") -> TrainedModel:
    """A model that comes with the package.

    Parameters
    ----------
    name : str
        ``"pairwise-2"``: target (6) with D = 2, heads (2, 2), T = 15. ``about`` tells how it was trained and
        how well.

    Examples
    --------
    >>> from hardmax.training.data import outputs_of
    >>> model = shipped_model()
    >>> model.shape.heads, model.shape.n_tokens
    ((2, 2), 15)
    >>> (target,) = outputs_of(model.about["job"]["target"])
    >>> X = target.sample(1000, 15, rng=5)
    >>> bool(((model(X)[:, 0] - target(X)) ** 2).mean() < 1e-3 * target(X).var())
    True
    """
    if name not in MODELS:
        raise InvalidInputError(f"name must be one of {', '.join(MODELS)}, but was {name!r}.")
    with as_file(files("hardmax.training") / "trained" / f"{name}.safetensors") as path:
        return load_model(path)
