"""P2 section 4.2, mechanism III, and Appendix C.3: a head that reads fixed positions. Figure 4.

One layer, one head, learned positions: the sum of the first three of ten tokens. The attention of CLS should
be 1/3 at each of these positions, whatever the tokens are.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.papers.findings import Claim, Effort, Finding, Verdict, holding
from hardmax.papers.recipes import NOT_RUN, Comparison, Option, Outcome, Recipe, Settings, measured
from hardmax.papers.training_reports import (
    formatted,
    quick_note,
    runs_table,
    spread,
    stuck_note,
    summary_table,
)
from hardmax.papers.training_runs import Group, sweep, training_options, trainings

__all__ = ["CLAIMS", "RECIPES"]


def _permutation_floor(effort: Effort) -> Finding:
    T, n = 10, 200_000 if effort == Effort.FULL else 40_000
    x = np.random.default_rng(0).standard_normal((n, T))
    wanted = x[:, :3].sum(axis=1)
    symmetric = 3 / T * x.sum(axis=1)
    squares = (wanted - symmetric) ** 2 / 3  # the variance of the target is 3
    measured, spread = float(squares.mean()), float(squares.std() / np.sqrt(n))
    floor, c = 1 - Fraction(3, T), Fraction(3, T)
    exact = (3 * (1 - c) ** 2 + (T - 3) * c**2) / 3  # of c times the sum of all tokens
    agree = exact == floor and abs(measured - float(floor)) < 4 * spread
    return holding(
        agree,
        f"T = 10: the best symmetric predictor has NMSE {exact} = 1 - 3/T; on {n} samples {measured:.3f}, "
        f"standard error {spread:.3f}",
        {"measured": measured, "floor": floor},
    )


_READ = (0, 1, 2)


def _run_positions(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import draw_weights
    from hardmax.training.layout import TransformerShape

    T, d, width = settings["tokens"], settings["d"], settings["d_model"]
    shape = TransformerShape(
        n_tokens=T,
        d_token=d,
        widths=(width,),
        heads=(1,),
        hidden=(settings["hidden"] or 2 * width,),
        n_outputs=d,
        activation=settings["activation"],
        positions="additive",
        beta=settings["beta"],
        layer_norm=True,
        cls_position=True,
    )
    target = {"name": "positions", "positions": list(_READ), "d": d}
    trials = sweep(settings, "one layer, one head", target, shape, schedule="cosine then constant")
    groups = trainings(settings, {"one head": trials})
    group = groups["one head"]
    best = group.best
    X = settings.rng("shown").standard_normal((settings["shown"], T, d))
    weights = None if best is None else _weights(best[1], X)
    figures: dict[str, Any] = {}
    columns = ("mean", "deviation", "least", "most")
    table: dict[str, list[Any]] = {"position": list(range(1, T + 1)), **{c: [NOT_RUN] * T for c in columns}}
    if weights is not None:
        figures["fig4"] = draw_weights(weights, expected=1 / 3, title=f"F(X) = x(1) + x(2) + x(3), T = {T}")
        table |= {
            "mean": weights.mean(axis=0).tolist(),
            "deviation": weights.std(axis=0).tolist(),
            "least": weights.min(axis=0).tolist(),
            "most": weights.max(axis=0).tolist(),
        }
    return Outcome(
        figures,
        {"weights": table, "summary": summary_table(groups), "runs": runs_table(groups)},
        _rows(group, weights),
        (
            f"{settings['samples']:,} samples in batches of {settings['batch']}: half of them with a cosine, "
            f"half at 1e-4, as in the paper, which has 1000 epochs of 50,000 for each. {_rates(settings)}",
            f"d_model = {width}, hidden width {shape.hidden[0]}, beta = {settings['beta']:.4g}, "
            f"{settings['activation']} (not stated; the theory asks for a sigmoidal one). CLS attends to the "
            f"{T} inputs only.",
            "NMSE is MSE over variance; the variance of the sum of three standard normal tokens is 3 per "
            "coordinate.",
            stuck_note(groups),
            *((quick_note(settings),) if settings.profile == "quick" else ()),
        ),
    )


def _rates(settings: Settings) -> str:
    tried = ", ".join(f"{rate:g}" for rate in settings["rates"])
    same = "as in the paper" if settings["rates"] == (1e-3,) else "the paper has 0.001"
    return f"The cosine starts at the rate {tried}: {same}."


def _weights(result: Any, X: Any) -> Any:
    from hardmax.training.states import run_states

    first = run_states(result.shape, result.best_parameters, X)[0][0]
    return first.weights(first.cls_scores)[:, 0]


def _rows(group: Group, weights: Any) -> tuple[Comparison, ...]:
    if weights is None:
        return tuple(
            measured(name, paper, NOT_RUN)
            for name, paper in (("attention at positions 1 to 3", "1/3 each"), ("attention elsewhere", "0"))
        )
    read, rest = weights[:, list(_READ)], np.delete(weights, _READ, axis=1)
    return (
        measured(
            "attention at positions 1 to 3, mean",
            "1/3 each",
            ", ".join(f"{value:.3f}" for value in read.mean(axis=0)),
        ),
        measured("attention at any other position, mean", "0", f"at most {rest.mean(axis=0).max():.4f}"),
        measured(
            "the same for all inputs", "yes", f"deviation over inputs at most {weights.std(axis=0).max():.4f}"
        ),
        measured("validation NMSE", "near zero", spread(group.values)),
        measured("validation MSE", "near zero", formatted(3 * min(group.values))),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="infoflow",
        name="pe.floor",
        place="Section 4.2, mechanism III",
        statement="Reading fixed positions needs positional encoding.",
        hypotheses="independent tokens, F = x(1) + x(2) + x(3), T = 10",
        computation="the error of the best permutation-invariant predictor, exact and sampled",
        check=_permutation_floor,
        expected=Verdict.HOLDS,
        proof="advise.md#without-positions-the-error-is-at-least-1---3t",
    ),
)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "infoflow.fig4",
        "A head that reads three fixed positions",
        (
            Option("tokens", 10, "sequence length T", least=4),
            Option("d", 2, "dimension of a token", least=2),
            Option("d_model", 32, "width E (not stated)", least=1),
            Option(
                "hidden", 0, "hidden width of the output block; 0 for twice the width (not stated)", least=0
            ),
            Option("shown", 1000, "inputs whose attention is shown", least=1),
            *training_options(
                (768_000, 2_560_000, 100_000_000),
                rates=((3e-3,), (1e-3, 3e-3), (1e-3,)),
                seeds=(1, 3, 3),
                batch=256,
                train_size=50_000,
                validation_size=10_000,
                beta=0.1767766952966369,  # 1/sqrt(32)
            ),
        ),
        _run_positions,
    ),
)
