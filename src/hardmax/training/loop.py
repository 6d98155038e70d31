r"""Training one job: AdamW on the mean squared error, with clipping, warm-up and cosine.

Two ways compute the same steps. ``"fused"`` is one compiled kernel for forward pass, backward pass and AdamW
(:mod:`hardmax.training.fused`), needs no torch and is several times faster; ``"torch"`` is the plain loop,
kept as the reference. Both start from the same vector and see the same batches in the same order.

Values are standardised by the training set, so the loss is the training NMSE. ``best`` is the least
validation NMSE along the way, the number that P2 reports; it is chosen on the validation set and therefore
optimistic. ``final`` is the last.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax import storage
from hardmax.errors import InvalidInputError
from hardmax.limits import Clock
from hardmax.progress import shown
from hardmax.results import Result
from hardmax.training.data import BLOCK, Examples, examples, nmse
from hardmax.training.jobs import NUMERICS, Job, TrainingSettings
from hardmax.training.layout import TransformerShape

if TYPE_CHECKING:
    from hardmax.training.fused import FusedSteps
    from hardmax.training.transformer import TorchSteps

    Steps = FusedSteps | TorchSteps

Floats = NDArray[np.float32]
Progress = Callable[[int, float], None]

_TRAINING, _VALIDATION = 0, 1  # streams of data_seed
_ORDER, _FRESH = 1, 2  # streams of the job's seed; the first draws the parameters
_STEPS = 512  # at most, between two looks at the clock
_WORK = 2e10  # about that many multiplications, too: a second or so
_EXPLODED = 1e4  # an NMSE beyond which a run counts as diverged


@dataclass(frozen=True, eq=False, repr=False)
class TrainingResult(Result):
    """What came of a job.

    Attributes
    ----------
    job : Job
        What was asked.
    parameters, best_parameters : array (P,)
        At the end, and where the validation NMSE was least.
    samples, train_nmse, validation_nmse : array (n,)
        The history: samples seen, mean loss since the entry before (NaN in the first), NMSE on the validation
        set.
    mean, scale : array (outputs,)
        A prediction is ``mean + scale *`` what the transformer puts out.
    checkpoint_samples, checkpoint_parameters : array (c,), (c, P)
        The vectors that were asked for along the way.
    diverged : bool
        Whether the loss became infinite, NaN or very large; the run then ended early.
    cpu_seconds : float
        Processor time, data included.
    path : str
        ``"fused"`` or ``"torch"``.

    Examples
    --------
    >>> shape = TransformerShape(3, 1, widths=(4,), heads=(1,), hidden=(8,), beta=1.0)
    >>> settings = TrainingSettings(
    ...     3200, batch=32, learning_rate=1e-2, train_size=1000, validation_size=200, evaluations=4
    ... )
    >>> result = train(Job("max(t) x[t][0]", shape, settings))
    >>> result.samples.tolist(), bool(result.best < result.validation_nmse[0])
    ([0, 800, 1600, 2400, 3200], True)
    >>> result.predict([[[0.1], [0.7], [0.2]]]).shape
    (1, 1)
    """

    kind: ClassVar[str] = "TrainingResult"
    _timed: ClassVar[bool] = True  # what a training costs belongs to it
    _shapes: ClassVar[dict[str, str]] = {
        "parameters": "P",
        "best_parameters": "P",
        "samples": "n",
        "train_nmse": "n",
        "validation_nmse": "n",
        "mean": "outputs",
        "scale": "outputs",
        "checkpoint_samples": "checkpoints",
        "checkpoint_parameters": "checkpoints P",
    }
    job: Job
    parameters: Floats
    best_parameters: Floats
    samples: NDArray[np.int64]
    train_nmse: NDArray[np.float64]
    validation_nmse: NDArray[np.float64]
    mean: Floats
    scale: Floats
    checkpoint_samples: NDArray[np.int64]
    checkpoint_parameters: Floats
    diverged: bool
    cpu_seconds: float
    path: str

    @property
    def shape(self) -> TransformerShape:
        """The shape of the transformer."""
        return self.job.shape

    @property
    def best(self) -> float:
        """The least validation NMSE; infinite if there was no finite one."""
        finite = self.validation_nmse[np.isfinite(self.validation_nmse)]
        return float(finite.min()) if len(finite) else math.inf

    @property
    def final(self) -> float:
        """The last validation NMSE; infinite for a run that diverged."""
        last = float(self.validation_nmse[-1])
        return math.inf if self.diverged or not math.isfinite(last) else last

    @property
    def stuck(self) -> bool:
        """Whether the last four fifths of a run that did not diverge failed to halve the validation NMSE.

        A run that cannot fit its target looks the same as one that had bad luck; other seeds tell them apart.
        """
        early = self.validation_nmse[self.samples <= 0.2 * self.job.settings.n_samples]
        return not self.diverged and self.best > 0.5 * float(early.min())

    def predict(self, X: ArrayLike, *, best: bool = True) -> Floats:
        """What the model says of sequences (B, T, d), in the units of the target: (B, outputs)."""
        vector = self.best_parameters if best else self.parameters
        return predict(self.shape, vector, X) * self.scale + self.mean

    def to_torch(self, *, best: bool = True) -> Any:
        """The model as a torch module; its output is standardised (needs the extra ``training``)."""
        from hardmax.training.transformer import Transformer

        return Transformer(self.shape, self.best_parameters if best else self.parameters)

    # The result as a file
    # ------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        rest = {name: value for name, value in super()._state().items() if name != "job"}
        return {"job": json.loads(self.job.to_json()), "numerics": NUMERICS, **rest}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        rest = {name: value for name, value in state.items() if name not in ("job", "numerics")}
        found = cls(job=Job.from_json(state["job"]), **rest)
        found.shape.split(found.parameters)  # refuses a vector of another length
        return found

    def _summary(self) -> str:
        how = "diverged" if self.diverged else "stuck" if self.stuck else "trained"
        return (
            f"{how}, best validation NMSE {self.best:.3g}, final {self.final:.3g}, {int(self.samples[-1])} "
            f"samples, {self.cpu_seconds:.1f} CPU s"
        )

    def _table(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("samples", "train_nmse", "validation_nmse")}


def train(
    job: Job,
    *,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
    path: str = "fused",
    cache: str | Path | None = None,
    n_jobs: int | None = 1,
) -> TrainingResult:
    """Train one job.

    Parameters
    ----------
    job : Job
        What to train.
    time_limit : float, optional
        Seconds after which it is given up, looked at between blocks of data and of steps.
    progress : bool or callable, optional
        ``True`` shows a bar; a function is called with the samples seen and the latest validation NMSE, about
        once a second.
    path : {"fused", "torch"}
        The compiled step, or the plain torch loop (needs the extra ``training``).
    cache : path-like, optional
        A folder in which training and validation sets are kept.
    n_jobs : int, optional
        Processes that make the data; the steps take one core, and the result does not depend on it.
    """
    if path not in ("fused", "torch"):
        raise InvalidInputError(f"path must be 'fused' or 'torch', but was {path!r}.")
    clock = Clock(time_limit, "train the job")
    with clock.around_calls():
        return _trained(job, progress, path, cache, n_jobs)


def _trained(
    job: Job, progress: Progress | bool | None, path: str, cache: str | Path | None, n_jobs: int | None
) -> TrainingResult:
    begin = time.thread_time()
    settings, shape = job.settings, job.shape

    def made(n: int, stream: int) -> Examples:
        seed = settings.data_seed
        return examples(job.target, shape.n_tokens, n, seed=seed, stream=stream, n_jobs=n_jobs, cache=cache)

    known, held_out = made(settings.train_size, _TRAINING), made(settings.validation_size, _VALIDATION)
    mean = known.Y.mean(axis=0, dtype=np.float64).astype(np.float32)
    scale = known.Y.std(axis=0, dtype=np.float64).astype(np.float32)
    scale[scale == 0] = 1.0
    steps = _steps(path, job)
    journal = _Journal(steps, held_out, mean, scale, settings)
    journal.look(0, math.nan)
    done, losses, n_losses = 0, 0.0, 0
    rates = settings.rates()
    most = _steps_at_once(shape, settings)
    with shown(
        progress, lambda n, nmse: (n / settings.n_samples, f"{n:,} samples, validation NMSE {nmse:.2g}")
    ) as report:
        for data, order in _epochs(job, known):
            wanted = (data.Y - mean) / scale
            while len(order) >= settings.batch and done < settings.n_steps and not journal.diverged:
                n = min(len(order) // settings.batch, journal.next_stop(done) - done, most)
                loss = steps.run(data.X, wanted, order[: n * settings.batch], rates[done : done + n])
                order = order[n * settings.batch :]
                done, losses, n_losses = done + n, losses + n * loss, n_losses + n
                if done == journal.next_look(done - n) or not loss < _EXPLODED:
                    journal.look(done, losses / n_losses)
                    losses, n_losses = 0.0, 0
                journal.keep(done)
                if report is not None:
                    report(done * settings.batch, journal.validation[-1])
            if done >= settings.n_steps or journal.diverged:
                break
    return TrainingResult(
        job=job,
        parameters=steps.parameters,
        best_parameters=journal.best_parameters,
        samples=np.array(journal.samples, dtype=np.int64),
        train_nmse=np.array(journal.losses),
        validation_nmse=np.array(journal.validation),
        mean=mean,
        scale=scale,
        checkpoint_samples=np.array(journal.kept_samples, dtype=np.int64),
        checkpoint_parameters=np.array(journal.kept, dtype=np.float32).reshape(-1, shape.n_parameters),
        diverged=journal.diverged,
        cpu_seconds=time.thread_time() - begin,
        path=path,
    )


def _steps_at_once(shape: TransformerShape, settings: TrainingSettings) -> int:
    """Steps between two looks at the clock: by the shape alone, because losses are rounded by it."""
    tokens = shape.n_tokens + 1
    layers = zip(shape.widths, shape.hidden, strict=True)
    step = 3 * settings.batch * sum(tokens * (4 * E * E + 2 * tokens * E + 2 * E * w) for E, w in layers)
    return max(1, min(_STEPS, int(_WORK / step)))


def _epochs(job: Job, known: Examples) -> Iterator[tuple[Examples, NDArray[np.int64]]]:
    """Data and the order in which it is seen, for ever; a rest shorter than a batch is left out."""
    settings = job.settings
    order = np.random.default_rng((job.seed, _ORDER))
    n = len(known)
    repeats = -(-settings.batch // n)  # a batch may be larger than the set
    for epoch in range(settings.n_steps):
        data = known
        if settings.fresh:
            seed = settings.data_seed * 1_000_003 + job.seed
            data = examples(job.target, job.shape.n_tokens, n, seed=seed, stream=_FRESH + epoch)
        yield data, np.concatenate([order.permutation(n) for _ in range(repeats)])


class _Journal:
    """Looks at the validation set, keeps the best vector and the checkpoints."""

    def __init__(
        self, steps: Steps, held_out: Examples, mean: Floats, scale: Floats, settings: TrainingSettings
    ) -> None:
        self._steps, self._held_out, self._mean, self._scale = steps, held_out, mean, scale
        self._batch, self._n_steps = settings.batch, settings.n_steps
        n = min(settings.evaluations, self._n_steps)
        self._looks = sorted({-(-self._n_steps * i // n) for i in range(1, n + 1)})
        self._stops = [min(-(-samples // self._batch), self._n_steps) for samples in settings.checkpoints]
        self.samples: list[int] = []
        self.losses: list[float] = []
        self.validation: list[float] = []
        self.kept: list[Floats] = []
        self.kept_samples: list[int] = []
        self.best_parameters = steps.parameters
        self.diverged = False
        self.keep(0)

    def next_look(self, done: int) -> int:
        """The step after which the validation set is looked at next."""
        return next((step for step in self._looks if step > done), self._n_steps)

    def next_stop(self, done: int) -> int:
        """The step after which something has to be written down next."""
        return min([self.next_look(done), *(step for step in self._stops if step > done)])

    def look(self, done: int, loss: float) -> None:
        """Write down the loss since the last look, and the validation NMSE."""
        predicted = self._steps.predict(self._held_out.X) * self._scale + self._mean
        value = nmse(predicted, self._held_out.Y)
        if not self.validation or value < min(self.validation):
            self.best_parameters = self._steps.parameters
        self.samples.append(done * self._batch)
        self.losses.append(loss)
        self.validation.append(value)
        self.diverged = done > 0 and not (value < _EXPLODED and loss < _EXPLODED)

    def keep(self, done: int) -> None:
        """Keep the vector if a checkpoint was asked for here."""
        for _ in range(self._stops.count(done)):
            self.kept.append(self._steps.parameters)
            self.kept_samples.append(done * self._batch)


def _steps(path: str, job: Job) -> Steps:
    settings = job.settings
    options: Any = {"batch": settings.batch, "weight_decay": settings.weight_decay, "clip": settings.clip}
    if path == "fused":
        from hardmax.training.fused import FusedSteps

        return FusedSteps(job.shape, job.initial(), **options)
    from hardmax.training.transformer import TorchSteps

    return TorchSteps(job.shape, job.initial(), **options)


def predict(
    shape: TransformerShape,
    vector: NDArray[Any],
    X: ArrayLike,
    *,
    time_limit: float | None = None,
    progress: Callable[[int, int], object] | bool | None = None,
) -> Floats:
    """What the transformer puts out for sequences: (B, T, d) -> (B, outputs), standardised as in training.

    ``progress`` is called with the number of sequences done and their total; ``True`` shows a bar.
    """
    from hardmax.training.fused import FusedSteps

    sequences = np.asarray(X, dtype=np.float32)
    steps, n = FusedSteps(shape, np.array(vector, dtype=np.float32)), len(sequences)
    if n <= BLOCK:
        return steps.predict(sequences)
    clock, found = Clock(time_limit, "predict all sequences"), []
    with shown(progress, lambda done, total: (done / total, f"{done:,} of {total:,}"), clock) as report:
        for start in range(0, n, BLOCK):
            found.append(steps.predict(sequences[start : start + BLOCK]))
            if report is not None:
                report(min(start + BLOCK, n), n)
    return np.concatenate(found)


def run_job(
    job_json: str,
    *,
    cache: str | Path | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> bytes:
    """Train the job that :meth:`Job.to_json` described, as :func:`train`; the bytes of the result's npz
    file."""
    result = train(Job.from_json(job_json), cache=cache, time_limit=time_limit, progress=progress)
    return storage.to_bytes(storage.Stored(result.kind, result._state(), result.provenance))
