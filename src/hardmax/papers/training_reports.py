"""Reports of trainings: every seed, mean, median, spread, what went wrong, what differs from the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.papers.recipes import NOT_RUN, Settings
from hardmax.papers.training_runs import Group

if TYPE_CHECKING:
    from hardmax.training.loop import TrainingResult

__all__ = [
    "deviation_notes",
    "quick_note",
    "runs_table",
    "spread",
    "stuck_note",
    "summary_table",
    "formatted",
]


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
        f"mean {np.mean(values):.2e}, median {np.median(values):.2e} ({min(values):.2e} to "
        f"{max(values):.2e}, "
        f"{len(values)} seeds)"
    )


def formatted(value: Any, spec: str = ".2e") -> str:
    """A number, or "not run".

    >>> formatted(None), formatted(0.0123)
    ('not run', '1.23e-02')
    """
    return NOT_RUN if value is None else format(float(value), spec)


def runs_table(groups: Mapping[str, Group]) -> dict[str, list[Any]]:
    """Every training: configuration, rate, seed, values, and what went wrong or was not run."""
    names = ("configuration", "rate", "seed", "samples", "best", "final", "state", "job")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for group in groups.values():
        for trial, result in zip(group.trials, group.results, strict=True):
            row: tuple[Any, ...] = (
                group.label,
                trial.rate,
                trial.job.seed,
                trial.job.settings.n_samples,
                NOT_RUN if result is None else float(result.best),
                NOT_RUN if result is None else float(result.final),
                _state(result),
                trial.job.key,
            )
            for name, value in zip(names, row, strict=True):
                table[name].append(value)
    return table


def _state(result: TrainingResult | None) -> str:
    if result is None:
        return NOT_RUN
    return "diverged" if result.diverged else "stuck" if result.stuck else "trained"


def summary_table(groups: Mapping[str, Group]) -> dict[str, list[Any]]:
    """One row per configuration at its chosen rate."""
    table: dict[str, list[Any]] = {
        name: []
        for name in (
            "configuration",
            "rate",
            "seeds",
            "mean",
            "median",
            "least",
            "most",
            "median_final",
            "stuck",
        )
    }
    for group in groups.values():
        values = group.values
        row = (
            group.label,
            group.rate if values else NOT_RUN,
            len(values),
            *((float(f(values)) if values else NOT_RUN) for f in (np.mean, np.median, min, max)),
            float(np.median(group.finals)) if values else NOT_RUN,
            sum(bool(result.stuck or result.diverged) for _, result in group.chosen) if values else NOT_RUN,
        )
        for name, value in zip(table, row, strict=True):
            table[name].append(value)
    return table


def stuck_note(groups: Mapping[str, Group]) -> str:
    """Which seeds stopped learning or diverged, at any rate."""
    bad = [
        f"{group.label} at rate {trial.rate:g}, seed {trial.job.seed}: {_state(result)}"
        for group in groups.values()
        for trial, result in zip(group.trials, group.results, strict=True)
        if result is not None and (result.diverged or result.stuck)
    ]
    run = [result is not None for group in groups.values() for result in group.results]
    none = "none." if all(run) else f"none of the {sum(run)} trainings of {len(run)} that were run."
    if not any(run):
        none = f"{NOT_RUN}."
    return "Stuck or diverged seeds: " + ("; ".join(bad) + "." if bad else none)


_SIGMOIDAL = {
    "tanh": "tanh",
    "gelu": "gelu, a deviation: the paper's theory asks for a sigmoidal activation",
}


def deviation_notes(settings: Settings, *more: str) -> tuple[str, ...]:
    """What differs from the paper, or is not stated there, in one place; and what a profile cannot show."""
    rates = ", ".join(f"{rate:g}" for rate in settings["rates"])
    chosen = (
        f"Every configuration gets the learning rates {rates}; shown is the one with the lowest median over "
        f"seeds."
        if len(settings["rates"]) > 1
        else f"Learning rate {rates} for all."
    )
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
