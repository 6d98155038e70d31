"""Jobs: everything that a training run depends on, as plain data with a content hash.

Two jobs with the same key give the same numbers on the same kind of machine; a study stores results under
keys, so nothing is trained twice and nothing is confused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.training.data import Description, canonical, content_hash, outputs_of
from hardmax.training.layout import TransformerShape, as_integer
from hardmax.untrusted import parsed_json

NUMERICS = 2
"""Version of the numbers that training gives; it grows when the same job would end elsewhere."""

_START = 0  # the stream of the seed that draws the first parameters; training draws from others

SCHEDULES = ("cosine", "constant", "cosine then constant")


@dataclass(frozen=True)
class TrainingSettings:
    """How long, how fast and on what a model is trained.

    Parameters
    ----------
    n_samples : int
        Sequences seen in total, repetitions counted; the cosine ends there.
    batch : int
        Sequences per step.
    learning_rate : float
        The highest rate of AdamW.
    warmup : float
        Share of the steps in which the rate rises linearly.
    weight_decay, clip : float
        Of AdamW, and the largest norm of a gradient (0: no clipping).
    schedule : {"cosine", "constant", "cosine then constant"}
        The last is that of appendix C.3: cosine in the first half, then ``second_rate``.
    train_size : int
        Size of the training set, seen in a new order in each epoch.
    fresh : bool
        Draw new sequences throughout instead; ``train_size`` is then how many are drawn at a time.
    validation_size, evaluations : int
        Sequences held out, and how often they are looked at.
    checkpoints : tuple of int
        After how many samples the parameters are kept.
    data_seed : int
        Of the training and validation sets, which runs with different seeds share.

    Examples
    --------
    >>> settings = TrainingSettings.of_epochs(100, batch=128, learning_rate=1e-2)
    >>> settings.n_samples, settings.n_steps
    (3600000, 28125)
    """

    n_samples: int
    batch: int = 128
    learning_rate: float = 1e-3
    warmup: float = 0.02
    weight_decay: float = 1e-2
    clip: float = 1.0
    schedule: str = "cosine"
    second_rate: float = 1e-4
    train_size: int = 36_000
    fresh: bool = False
    validation_size: int = 4_000
    evaluations: int = 20
    checkpoints: tuple[int, ...] = ()
    data_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n_samples", "batch", "train_size", "validation_size", "evaluations"):
            object.__setattr__(self, name, as_integer(getattr(self, name), name))
        object.__setattr__(self, "data_seed", as_integer(self.data_seed, "data_seed", least=0))
        if self.n_samples < self.batch:
            raise InvalidInputError(
                f"n_samples must be at least one batch of {self.batch}, but was {self.n_samples}."
            )
        if self.validation_size < 2:
            raise InvalidInputError("validation_size must be at least 2, for its variance, but was 1.")
        for name in ("learning_rate", "second_rate", "weight_decay", "clip"):
            value = float(getattr(self, name))
            if not math.isfinite(value) or value < 0 or (name == "learning_rate" and value == 0):
                raise InvalidInputError(f"{name} must be a positive number, but was {value}.")
            object.__setattr__(self, name, value)
        if not 0 <= self.warmup < 1:
            raise InvalidInputError(f"warmup must be a share between 0 and 1, but was {self.warmup}.")
        if self.schedule not in SCHEDULES:
            raise InvalidInputError(
                f"schedule must be one of {', '.join(map(repr, SCHEDULES))}, but was {self.schedule!r}."
            )
        kept = tuple(sorted(int(samples) for samples in self.checkpoints))
        if kept and not (kept[0] >= 0 and kept[-1] <= self.n_samples):
            raise InvalidInputError(
                f"checkpoints must lie between 0 and n_samples, {self.n_samples}, but were {kept}."
            )
        object.__setattr__(self, "checkpoints", kept)

    @classmethod
    def of_epochs(cls, epochs: float, *, train_size: int = 36_000, **settings: Any) -> TrainingSettings:
        """Settings whose ``n_samples`` is so many passes over the training set; ``settings`` are the other
        fields."""
        if isinstance(epochs, bool) or not isinstance(epochs, int | float) or not 0 < epochs < math.inf:
            raise InvalidInputError(f"epochs must be positive, but was {epochs}.")
        size = as_integer(train_size, "train_size")
        return cls(n_samples=round(epochs * size), train_size=size, **settings)

    @property
    def n_steps(self) -> int:
        """Steps of AdamW."""
        return self.n_samples // self.batch

    def rates(self) -> NDArray[np.float64]:
        """The learning rate of each step.

        Examples
        --------
        >>> TrainingSettings(640, batch=64, learning_rate=1.0, warmup=0.2).rates().round(2)
        array([0.5 , 1.  , 1.  , 0.96, 0.85, 0.69, 0.5 , 0.31, 0.15, 0.04])
        """
        steps = np.arange(self.n_steps, dtype=np.float64)
        rising = round(self.warmup * self.n_steps)
        falling = self.n_steps // 2 if self.schedule == "cosine then constant" else self.n_steps
        share = np.clip((steps - rising) / max(falling - rising, 1), 0.0, 1.0)
        factor = np.ones_like(steps) if self.schedule == "constant" else 0.5 * (1.0 + np.cos(np.pi * share))
        factor = np.where(steps < rising, (steps + 1) / max(rising, 1), factor)
        rates = self.learning_rate * factor
        return np.where(steps < falling, rates, self.second_rate)

    def to_json(self) -> dict[str, Any]:
        """The settings in plain Python."""
        return {**asdict(self), "checkpoints": list(self.checkpoints)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> TrainingSettings:
        """The settings that :meth:`to_json` described, or with ``"epochs"`` in place of ``"n_samples"``."""
        unknown = sorted(set(plain) - set(cls.__dataclass_fields__) - {"epochs"})
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise InvalidInputError(f"training has no setting {unknown[0]!r}; it has {known}.")
        if ("epochs" in plain) == ("n_samples" in plain):
            found = "both" if "epochs" in plain else "neither"
            raise InvalidInputError(f"settings must have n_samples or epochs, but have {found}.")
        stated = {**plain, "checkpoints": tuple(plain.get("checkpoints", ()))}
        return cls.of_epochs(**stated) if "epochs" in plain else cls(**stated)


@dataclass(frozen=True)
class Job:
    """One training run: a target, a shape, settings and a seed.

    Parameters
    ----------
    target : str or mapping
        The text of a target or its description (:func:`hardmax.training.data.outputs_of`).
    shape : TransformerShape
    settings : TrainingSettings
    seed : int
        Of the initial parameters and of the order of the data.

    Examples
    --------
    >>> shape = TransformerShape(15, 4, widths=(12, 12), heads=(2, 2), hidden=(32, 32), beta=1.0)
    >>> target = {"name": "pairwise", "D": 2, "d": 4, "seed": 0}
    >>> job = Job(target, shape, TrainingSettings(100_000), seed=1)
    >>> Job.from_json(job.to_json()) == job, len(job.key)
    (True, 64)
    >>> [other.settings.learning_rate for other in job.sweep([1e-3, 1e-2])]
    [0.001, 0.01]
    """

    target: Description
    shape: TransformerShape
    settings: TrainingSettings
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", as_integer(self.seed, "seed", least=0))
        targets = outputs_of(self.target)
        # a plain copy: later changes of the caller's mapping, or tuples in it, must not change the key
        object.__setattr__(self, "target", json.loads(canonical(self.target)))
        if (targets[0].d_token, len(targets)) != (self.shape.d_token, self.shape.n_outputs):
            raise DimensionMismatchError(
                f"shape must have tokens of dimension {targets[0].d_token} and {len(targets)} outputs for "
                f"this target, but has {self.shape.d_token} and {self.shape.n_outputs}."
            )
        needed = max(target.min_tokens for target in targets)
        if self.shape.n_tokens < needed:
            raise InvalidInputError(
                f"n_tokens must be at least {needed} for this target, but was {self.shape.n_tokens}."
            )

    @property
    def key(self) -> str:
        """SHA-256 of the job and of the version of the numerics."""
        return content_hash({"numerics": NUMERICS, **json.loads(self.to_json())})

    def initial(self) -> NDArray[np.float32]:
        """The parameters with which it begins."""
        return self.shape.initial(np.random.default_rng((self.seed, _START)))

    def to_json(self) -> str:
        """The job as one line of canonical JSON."""
        parts = {"shape": self.shape.to_json(), "settings": self.settings.to_json()}
        return canonical({"target": self.target, "seed": self.seed, **parts})

    @classmethod
    def from_json(cls, text: str | Mapping[str, Any]) -> Job:
        """The job that :meth:`to_json` described."""
        plain = parsed_json(text, "a job") if isinstance(text, str) else text
        try:
            return cls(
                plain["target"],
                TransformerShape.from_json(plain["shape"]),
                TrainingSettings.from_json(plain["settings"]),
                plain["seed"],
            )
        except KeyError as error:
            raise InvalidInputError(
                f"a job needs target, shape, settings and seed, but {error.args[0]!r} is missing."
            ) from error

    def sweep(self, learning_rates: list[float]) -> tuple[Job, ...]:
        """The same job at several learning rates."""
        return tuple(
            replace(self, settings=replace(self.settings, learning_rate=rate)) for rate in learning_rates
        )
