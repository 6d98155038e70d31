r"""Do information sets hold what really matters? Recall of influence on real texts (P2's open validation).

:func:`measure_influence` sends texts through a model, records the information sets of its own routing
(:mod:`hardmax.models.influence.routing_flow`) and attention rollout, disturbs every input token
(:mod:`hardmax.models.influence.interventions`), and asks for every layer, token, rule and measure how much of
the influence lies inside the set (:mod:`hardmax.models.influence.recall`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.models.influence.influence_report import InfluenceReport, TextInfluence, report_of
from hardmax.models.influence.interventions import Disturbed, disturb
from hardmax.models.influence.rollout import RolloutRecorder
from hardmax.models.influence.routing_flow import FlowRecorder, TokenFlow
from hardmax.models.reading.recorders import read
from hardmax.models.reading.sources import as_source, named_texts
from hardmax.progress import shown

__all__ = ["CANDIDATES", "InfluenceReport", "measure_influence", "text_influence"]

Progress = Callable[[str, int, int], object]

CANDIDATES = "readable"
"""The rule whose sets hold everything that can matter: recall is a share of these."""

_EXACT_PASSES = 4096  # texts whose Jacobians take no more directions than this are differentiated exactly
_PROBES = 8


def measure_influence(
    model: Any,
    texts: str | Sequence[str] | dict[str, str] | None = None,
    *,
    rules: Sequence[str] = ("argmax", "top-3", "mass 0.5"),
    baselines: Sequence[str] | None = None,
    probes: int | None = None,
    tokenizer: Any = None,
    hub: bool = False,
    n_draws: int = 200,
    n_bootstrap: int = 1000,
    rng: int = 0,
    progress: bool | Progress | None = None,
) -> InfluenceReport:
    r"""How much of the influence of input tokens on output tokens lies inside the information sets.

    Parameters
    ----------
    model : OpenModel, path, hub id or torch module
    texts : str, sequence of str, or dict from names to texts
        None for a source that has a sequence of its own.
    rules : sequence of str
        Under which the sets are made: ``argmax``, ``top-K``, ``mass M``.
    baselines : sequence of {"mean", "mask", "zero"}, optional
        What tokens are replaced by; mean, and mask where the tokenizer has one, if not given. Exact: one
        forward pass per token.
    probes : int, optional
        Directions for the gradient. None: all of them, which is exact, for texts so short that they are no
        more than 4096 (tokens times width of the model), 8 otherwise, which is an estimate whose error is
        reported; 0 leaves the gradient out. Models of :mod:`hardmax.training` have none.
    tokenizer, hub
        As in :func:`hardmax.head_atlas`.
    n_draws : int
        Random sets per token and size; their expectation is known exactly besides.
    n_bootstrap : int
    rng : int
        The seed of draws, directions and bootstrap.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the name of a text, the passes
        through the model that were made for it, and how many there will be: a long text takes tokens times
        (baselines plus directions) of them.

    Returns
    -------
    InfluenceReport

    Examples
    --------
    The bundled model has a sequence of its own; nothing need be installed for it:

    >>> from hardmax.models.bundled import bundled_source
    >>> report = measure_influence(bundled_source(), rules=["argmax"])
    >>> report
    <InfluenceReport: pairwise-2, 1 text, ... argmax by ablation mean: recall ...>
    >>> read_out = report.texts[0].flows[0].known_by(-1)         # what CLS can know at the end
    >>> int(report.texts[0].influence["ablation mean"][-1, -1].argmax()) in read_out
    True
    """
    named = named_texts(texts)
    source = as_source(model, tokenizer=tokenizer, hub=hub)
    measured = []
    with shown(progress, lambda name, done, total: (done / total, name)) as passed:
        for i, (name, text) in enumerate(named.items()):
            disturbed = disturb(source, text)
            flow, rollout = FlowRecorder([*rules, CANDIDATES]), RolloutRecorder()
            reading = read(source, text, [flow, rollout])
            measured.append(
                text_influence(
                    disturbed,
                    flow.flows(reading),
                    rollout.rollout(len(reading.key_tokens)),
                    name=name,
                    baselines=baselines,
                    probes=probes,
                    rng=rng + i,
                    progress=passed,
                )
            )
    return report_of(source.name, measured, n_draws=n_draws, n_bootstrap=n_bootstrap, rng=rng)


def text_influence(
    disturbed: Disturbed,
    flows: tuple[TokenFlow, ...],
    rollout: NDArray[np.float64],
    *,
    name: str = "text",
    baselines: Sequence[str] | None = None,
    probes: int | None = None,
    rng: int = 0,
    progress: Progress | None = None,
) -> TextInfluence:
    """The influence of every token of a text that was read: by extra passes with one token changed in each.

    Parameters
    ----------
    disturbed : Disturbed
        The text in its model.
    flows : tuple of TokenFlow
        Its information sets, the last under the rule :data:`CANDIDATES`.
    rollout : array (L, Q, N)
    name, baselines, probes, rng, progress
        As in :func:`measure_influence`, for one text.
    """
    chosen = baselines
    if chosen is None:
        chosen = [baseline for baseline in disturbed.baselines() if baseline != "zero"]
    words = disturbed.baselines()
    wanted = probes != 0 and (disturbed.differentiable or probes is not None)
    directions = _directions(disturbed, probes) if wanted else 0
    done, total = 0, disturbed.n_tokens * (len(chosen) + directions)

    def passed(n: int) -> None:
        nonlocal done
        done += n
        if progress is not None:
            progress(name, done, total)

    influence = {f"ablation {baseline}": disturbed.ablation(baseline, passed=passed) for baseline in chosen}
    gradient = disturbed.gradient(probes=directions, rng=rng, passed=passed) if wanted else None
    if gradient is not None:
        influence["gradient"] = gradient.norms
    if not influence:
        raise InvalidInputError(
            "baselines must name at least one where probes is 0, but was empty; try ['mean']."
        )
    return TextInfluence(
        name=name,
        flows=flows,
        influence=influence,
        baselines={baseline: words[baseline] for baseline in chosen},
        rollout=rollout,
        gradient_probes=0 if gradient is None else gradient.probes,
        d=disturbed.d,
        gradient_error=0.0 if gradient is None else gradient.relative_error,
    )


def _directions(disturbed: Disturbed, probes: int | None) -> int:
    if probes is not None:
        return probes
    exact = disturbed.n_tokens * disturbed.d <= _EXACT_PASSES
    return disturbed.d if exact else min(_PROBES, disturbed.d)
