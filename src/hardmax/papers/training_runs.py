"""What the recipes that train have in common: jobs, sweeps, seeds and costs.

A recipe lists its jobs, gets the trainings (those that are kept from earlier are not repeated, those that are
not to be run are ``None`` and stay "not run"), and reports every seed. Every configuration of an experiment
gets the same learning rates, seeds and number of samples; the rate is chosen per configuration by the lowest
median over the seeds, by one rule for all.

What the paper does not state is an option: number of samples, batch, activation, inverse temperature, and the
draw of matrices. The best validation value is optimistic, because it is selected on the validation set; the
paper reports it, so the final value stands beside it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.errors import FileFormatError
from hardmax.papers.recipes import NOT_RUN, Comparison, Option, Outcome, Settings, Value, tabulated
from hardmax.results import load

if TYPE_CHECKING:
    from hardmax.training.jobs import Job
    from hardmax.training.layout import TransformerShape
    from hardmax.training.loop import TrainingResult

CHECKPOINTS = (0.0, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)
"""After which shares of a training its parameters are kept."""


# Options
# ----------------------------------------------------------------------------------------------------------


def training_options(
    samples: tuple[int, int, int] = (4_000_000, 6_000_000, 18_000_000),
    *,
    rates: tuple[tuple[float, ...], ...] = ((1e-2,), (3e-3, 1e-2), (1e-3, 1e-2)),
    seeds: tuple[int, int, int],
    batch: int = 128,
    beta: float = 1.0,
    activation: str = "gelu",
    train_size: int = 36_000,
    validation_size: int = 4_000,
) -> tuple[Option, ...]:
    """The options of a training; triples are those of the profiles quick, medium and paper."""

    def option(name: str, values: Sequence[Value], words: str, **rest: Any) -> Option:
        return Option(name, values[0], words, medium=values[1], paper=values[2], **rest)

    return (
        option("samples", samples, "samples per training, with repetition (not stated)", least=1),
        option("rates", rates, "learning rates, each tried for every configuration", positive=True),
        option("seeds", seeds, "trainings per configuration and rate", least=1),
        Option("batch", batch, "samples per step (not stated)", least=1),
        Option("beta", beta, "inverse temperature of every softmax (not stated)", positive=True),
        Option(
            "activation",
            activation,
            "of the feed-forward blocks: sigmoidal in the paper; gelu is a deviation",
            choices=("tanh", "gelu"),
        ),
        Option("train_size", train_size, "different training sequences", least=1),
        Option("validation_size", validation_size, "validation sequences", least=2),
        option("train", ("yes", "yes", "no"), "whether what is not kept is trained", choices=("yes", "no")),
        Option("keep", "cache", "where trainings are kept: a folder, a run store, cache or nowhere"),
        Option("study", "none", "a JSON file to write what is not kept to, for hardmax training run"),
        Option("jobs", 0, "trainings at a time; 0 for one per processor", least=0),
    )


# Jobs
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One training of a configuration: its job, and what tables say of it."""

    label: str
    rate: float
    seed: int
    job: Job


@dataclass(frozen=True)
class Group:
    """All trainings of one configuration, with their results (``None`` where one was not run)."""

    label: str
    trials: tuple[Trial, ...]
    results: tuple[TrainingResult | None, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        """The learning rate with the lowest median of the best validation values; all seeds must have run."""
        medians = {}
        for rate in dict.fromkeys(trial.rate for trial in self.trials):
            values = [result for trial, result in self.pairs if trial.rate == rate]
            if all(value is not None for value in values):
                medians[rate] = float(np.median([_best(value) for value in values]))
        return min(medians, key=lambda rate: medians[rate]) if medians else None

    @property
    def chosen(self) -> list[tuple[Trial, TrainingResult]]:
        """The trainings at that rate."""
        rate = self.rate
        return [(trial, result) for trial, result in self.pairs if result is not None and trial.rate == rate]

    @property
    def values(self) -> list[float]:
        """Their best validation NMSE, seed by seed; infinity for one that diverged from the start."""
        return [_best(result) for _, result in self.chosen]

    @property
    def finals(self) -> list[float]:
        """Their NMSE at the end."""
        return [float(result.final) for _, result in self.chosen]

    @property
    def median(self) -> float | None:
        """The median over the seeds, if anything was run."""
        return float(np.median(self.values)) if self.chosen else None

    @property
    def best(self) -> tuple[Trial, TrainingResult] | None:
        """The seed with the lowest value, as the paper records it in C.1; ``None`` when nothing was run."""
        return min(self.chosen, key=lambda pair: _best(pair[1]), default=None)

    @property
    def pairs(self) -> Iterable[tuple[Trial, Any]]:
        """Every trial with its result."""
        return zip(self.trials, self.results, strict=True)


def _best(result: Any) -> float:
    value = float(result.best)
    return value if np.isfinite(value) else float("inf")


def shape_for(
    settings: Settings,
    n_tokens: int,
    d_token: int,
    heads: Sequence[int],
    widths: Sequence[int],
    hidden: int,
    *,
    beta: float | None = None,
) -> TransformerShape:
    """The shape of section 3 with the options of a recipe."""
    from hardmax.training.layout import TransformerShape

    return TransformerShape(
        n_tokens=n_tokens,
        d_token=d_token,
        widths=tuple(widths),
        heads=tuple(heads),
        hidden=(hidden,) * len(heads),
        activation=settings["activation"],
        beta=settings["beta"] if beta is None else beta,
    )


def sweep(
    settings: Settings,
    label: str,
    target: Any,
    shape: TransformerShape,
    *,
    samples: int | None = None,
    schedule: str = "cosine",
) -> list[Trial]:
    """The trials of one configuration: every learning rate with every seed.

    Parameters are kept at the start, for probes that compare with it, and a few times on the way.
    """
    from hardmax.training.jobs import Job, TrainingSettings

    n = settings["samples"] if samples is None else samples
    trials = []
    for rate in settings["rates"]:
        training = TrainingSettings(
            n,
            learning_rate=rate,
            schedule=schedule,
            data_seed=settings.seed,
            checkpoints=tuple(int(share * n) for share in CHECKPOINTS),
            **{name: settings[name] for name in ("batch", "train_size", "validation_size")},
        )
        for seed in range(settings["seeds"]):
            job = Job(target, shape, training, seed=1000 * settings.seed + seed)
            trials.append(Trial(label, rate, seed, job))
    return trials


def trainings(settings: Settings, sweeps: Mapping[str, Sequence[Trial]]) -> dict[str, Group]:
    """Train, or fetch, every trial: a group for each name.

    Jobs that occur several times are trained once, the longest first. In the profile ``paper`` nothing is
    trained unless ``train=yes``: what is not found where trainings are kept stays ``None``. With ``study``
    the missing jobs are written to a file for ``hardmax training run``, and its folder can be given as
    ``keep``.
    """
    from hardmax.training.studies import Study, write_study

    trials = [trial for sweep in sweeps.values() for trial in sweep]
    jobs = {trial.job.key: trial.job for trial in trials}
    folder = kept_folder(settings["keep"])
    found = {key: result for key, job in jobs.items() if (result := _kept(job, folder)) is not None}
    missing = sorted(
        (job for key, job in jobs.items() if key not in found),
        key=lambda job: operations(job.shape) * job.settings.n_samples,
        reverse=True,
    )
    if missing and settings.profile == "paper":
        announce(cost_note(missing))
    if missing and settings["study"] != "none":
        path = Path(settings["study"])  # the name of the file is that of the study
        write_study(Study.of(path.stem, missing), path)
    if settings["train"] == "yes":
        at_once = settings["jobs"] or os.cpu_count() or 1
        with ThreadPoolExecutor(max_workers=at_once) as pool:  # kernels run without the interpreter's lock
            # a copy of the context each: a clock that stands around this call is seen in the threads
            runs = [pool.submit(copy_context().run, _train, job, folder) for job in missing]
            for job, run in zip(missing, runs, strict=True):
                found[job.key] = run.result()
    return {
        name: Group(name, tuple(sweep), tuple(found.get(trial.job.key) for trial in sweep))
        for name, sweep in sweeps.items()
    }


def _train(job: Job, folder: Path | None) -> TrainingResult:
    from hardmax.training.loop import train
    from hardmax.training.studies import is_store

    result = train(job)
    if folder is not None and not is_store(folder):
        folder.mkdir(parents=True, exist_ok=True)
        result.save(folder / f"{job.key}.npz")
    return result


def kept_folder(keep: str) -> Path | None:
    """The folder in which trainings are kept: that of the user's cache, one that was named, or none."""
    if keep == "nowhere":
        return None
    if keep == "cache":
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "hardmax" / "trainings"
    return Path(keep)


def _kept(job: Job, folder: Path | None) -> TrainingResult | None:
    """The result of an earlier training of the same job; a damaged file is as good as none."""
    from hardmax.training.loop import TrainingResult
    from hardmax.training.studies import RunStore, is_store

    if folder is None:
        return None
    if folder.is_dir() and is_store(folder):
        store = RunStore(folder)
        return store.result(job.key) if store.state_of(job.key) == "finished" else None
    try:
        result = load(folder / f"{job.key}.npz")
    except (OSError, FileFormatError):
        return None
    return result if isinstance(result, TrainingResult) else None


# Costs
# ----------------------------------------------------------------------------------------------------------


def operations(shape: TransformerShape) -> float:
    """Multiplications of a forward pass for one sequence, roughly: training takes about three times that."""
    T = shape.n_tokens
    columns = -(-(T + 1) // 16) * 16  # the compiled step works on 16 tokens at a time
    total = columns * shape.d_token * shape.widths[0]
    for layer, (E, w) in enumerate(zip(shape.widths, shape.hidden, strict=True)):
        above = shape.widths[layer + 1] if layer + 1 < shape.depth else shape.n_outputs
        if layer + 1 < shape.depth:
            total += columns * (4 * E * E + 2 * T * E + shape.heads[layer] * T * 8 + w * (E + above + 8))
        else:
            total += columns * 2 * shape.heads[layer] * E + 4 * E * E + w * (E + above)
    return float(total)


def cost_note(jobs: Sequence[Job]) -> str:
    """What trainings will cost, from the measured speed of a short one on this machine."""
    work = sum(operations(job.shape) * job.settings.n_samples for job in jobs)
    rate = _measured_rate()
    hours = work / rate / 3600
    longest = max(operations(job.shape) * job.settings.n_samples for job in jobs) / rate / 3600
    total = sum(job.settings.n_samples for job in jobs)
    return (
        f"Estimated cost of {len(jobs)} trainings ({total / 1e6:,.0f} million samples): {_time(hours)} of "
        f"one core, the longest {_time(longest)}; an estimate from one short training on this machine, good "
        "to a factor of two."
    )


def _time(hours: float) -> str:
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"


@cache
def _measured_rate() -> float:
    """Operations per second of a short training."""
    from hardmax.training.jobs import Job, TrainingSettings
    from hardmax.training.layout import TransformerShape
    from hardmax.training.loop import train

    shape = TransformerShape(15, 4, (12, 12), (2, 2), (32, 32), beta=1.0)
    target = {"name": "pairwise", "D": 2, "d": 4, "seed": 0}
    seconds = 0.0
    for n in (256, 20_000):  # the first one compiles
        settings = TrainingSettings(n, train_size=2_000, validation_size=64, evaluations=1)
        start = process_time()
        train(Job(target, shape, settings))
        seconds = process_time() - start
    return operations(shape) * 20_000 / max(seconds, 1e-3)


def announce(text: str) -> None:
    """Say something before it is computed; the command line shows it on stderr."""
    logging.getLogger("hardmax").warning(text)


# Reports: every seed, mean, median, spread, what went wrong, what differs from the paper
# ----------------------------------------------------------------------------------------------------------


def spread(values: Sequence[float]) -> str:
    """Mean, median and range of seeds.

    >>> spread([1e-4, 3e-4]), spread([2e-2]), spread([])
    ('mean 2.00e-04, median 2.00e-04 (1.00e-04 to 3.00e-04, 2 seeds)', '2.00e-02 (1 seed)', 'not run')
    """
    if not values:
        return NOT_RUN
    if len(values) == 1:
        return f"{values[0]:.2e} (1 seed)"
    return (
        f"mean {np.mean(values):.2e}, median {np.median(values):.2e} "
        f"({min(values):.2e} to {max(values):.2e}, {len(values)} seeds)"
    )


def values_of(groups: Mapping[str, Group], name: str) -> list[float]:
    """The best values of a configuration, seed by seed; none if it is not among the groups."""
    return groups[name].values if name in groups else []


def formatted(value: Any, spec: str = ".2e") -> str:
    """A number, or "not run".

    >>> formatted(None), formatted(0.0123)
    ('not run', '1.23e-02')
    """
    return NOT_RUN if value is None else format(float(value), spec)


def runs_table(groups: Mapping[str, Group]) -> dict[str, list[Any]]:
    """Every training: configuration, rate, seed, values, and what went wrong or was not run."""
    rows = []
    for group in groups.values():
        for trial, result in group.pairs:
            job = trial.job
            values = (NOT_RUN,) * 2 if result is None else (float(result.best), float(result.final))
            tried = (group.label, trial.rate, job.seed, job.settings.n_samples)
            rows.append((*tried, *values, _state(result), job.key))
    return tabulated("configuration rate seed samples best final state job", rows)


def _state(result: TrainingResult | None) -> str:
    if result is None:
        return NOT_RUN
    return "diverged" if result.diverged else "stuck" if result.stuck else "trained"


def summary_table(groups: Mapping[str, Group]) -> dict[str, list[Any]]:
    """One row per configuration at its chosen rate."""
    rows: list[tuple[Any, ...]] = []
    for group in groups.values():
        if values := group.values:
            measures = (float(measure(values)) for measure in (np.mean, np.median, min, max))
            stuck = sum(bool(result.stuck or result.diverged) for _, result in group.chosen)
            rows.append((group.rate, len(values), *measures, float(np.median(group.finals)), stuck))
        else:
            rows.append((NOT_RUN, 0, *(NOT_RUN,) * 6))
    table = tabulated("rate seeds mean median least most median_final stuck", rows)
    return {"configuration": [group.label for group in groups.values()], **table}


def stuck_note(groups: Mapping[str, Group]) -> str:
    """Which seeds stopped learning or diverged, at any rate."""
    bad = [
        f"{group.label} at rate {trial.rate:g}, seed {trial.job.seed}: {_state(result)}"
        for group in groups.values()
        for trial, result in group.pairs
        if result is not None and (result.diverged or result.stuck)
    ]
    run = [result is not None for group in groups.values() for result in group.results]
    none = "none." if all(run) else f"none of the {sum(run)} trainings of {len(run)} that were run."
    if not any(run):
        none = f"{NOT_RUN}."
    return "Stuck or diverged seeds: " + ("; ".join(bad) + "." if bad else none)


_SIGMOIDAL = {"tanh": "tanh", "gelu": "gelu, a deviation: the paper's theory asks for a sigmoidal activation"}


def reported(
    settings: Settings,
    groups: Mapping[str, Group],
    figures: Mapping[str, Any],
    comparisons: Iterable[Comparison],
    *,
    tables: Mapping[str, Any] | None = None,
    deviations: Sequence[str] = (),
    choices: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Outcome:
    """The outcome of a recipe that trains: every training is in its tables, every deviation in its notes."""
    return Outcome(
        figures,
        {**(tables or {}), "summary": summary_table(groups), "runs": runs_table(groups)},
        tuple(comparisons),
        (*deviation_notes(settings, *deviations), *choices, stuck_note(groups), *notes),
    )


def deviation_notes(settings: Settings, *more: str) -> tuple[str, ...]:
    """What differs from the paper, or is not stated there, in one place; and what a profile cannot show."""
    rates = ", ".join(f"{rate:g}" for rate in settings["rates"])
    chosen = f"Learning rate {rates} for all."
    if len(settings["rates"]) > 1:
        chosen = f"Every configuration gets the learning rates {rates}; shown is the one with the lowest "
        chosen += "median over seeds."
    lines = [
        f"{settings['samples']:,} samples per training in batches of {settings['batch']}, beta = "
        f"{settings['beta']:g}, {_SIGMOIDAL.get(settings['activation'], settings['activation'])} (the paper "
        f"states none of these numbers; its rate is 1e-3). {chosen}",
        *more,
        "The best validation value is selected on the validation set, as in the paper, and so optimistic; "
        "final values are in the tables.",
    ]
    if settings.profile == "quick":
        lines.append(quick_note(settings))
    return tuple(lines)


def quick_note(settings: Settings) -> str:
    """What the quick profile does not show."""
    n = settings["seeds"]
    return (
        f"Quick profile: {n} seed{'s' * (n > 1)}, no sweep of learning rates, few samples and small models. "
        "It does not show the paper's values or how much they vary; a bad value may be a bad rate or seed."
    )
