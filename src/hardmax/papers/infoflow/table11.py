"""P2 section 6.1 and appendix C.4: how many heads the target (6) needs. Table 11 and figure 1(a).

Two-layer transformers with (D, D), (D-1, D) and (D, D-1) heads learn D maxima of bilinear forms. By InfoFlow
(D, D) heads suffice for max-position retrieval and fewer do not. A third recipe compares the sigmoidal
activation of the paper with GELU.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import log10
from typing import Any

from hardmax.papers.certificates import relations
from hardmax.papers.findings import Claim, Effort, Finding, Verdict, failing
from hardmax.papers.infoflow.printed_tables import (
    NMSE_PAIRWISE,
)
from hardmax.papers.recipes import NOT_RUN, Comparison, Option, Outcome, Recipe, Settings, measured
from hardmax.papers.training_reports import (
    deviation_notes,
    formatted,
    runs_table,
    spread,
    stuck_note,
    summary_table,
)
from hardmax.papers.training_runs import Group, Trial, shape_for, sweep, training_options, trainings

__all__ = ["CLAIMS", "RECIPES", "pairwise_target", "width_of"]


def _table_11a(effort: Effort) -> Finding:
    full = [errors[0] for errors in NMSE_PAIRWISE.values()]
    decades = [_decade(error) for error in full]
    return failing(
        set(decades) != {-5},
        f"NMSE of (D, D) for D = 2, ..., 6: powers of ten {', '.join(map(str, decades))}",
        {"decades": decades},
        relations(*((error, "<", Fraction(1, 10**4)) for error in full),
                  true=[error < Fraction(1, 10**4) for error in full]),
    )  # fmt: skip


def _table_11b(effort: Effort) -> Finding:
    gaps = {D: [other / full for other in others] for D, (full, *others) in NMSE_PAIRWISE.items()}
    claimed = {D: all(100 <= gap <= 1000 for gap in gaps[D]) for D in gaps if D <= 5}
    words = "; ".join(f"D={D}: {', '.join(f'{log10(gap):.2f}' for gap in each)}" for D, each in gaps.items())
    lines = [(gap, ">=", 100) for D in claimed for gap in gaps[D]]
    return failing(
        not all(claimed.values()),
        f"orders of magnitude between (D, D) and one head less: {words}",
        {f"D={D}": each for D, each in gaps.items()},
        relations(*lines, true=[gap >= 100 for D in claimed for gap in gaps[D]]),
    )


def _decade(error: Fraction) -> int:
    """The power of ten of a number: -5 for 5.89e-5."""
    power = 0
    while error < 1:
        error, power = error * 10, power - 1
    return power


PAPER_TOKENS = 64


def pairwise_target(D: int, d: int, draw: int) -> dict[str, Any]:
    """The target (6) with standard normal matrices."""
    return {"name": "pairwise", "D": D, "d": d, "seed": draw}


def width_of(D: int, heads: int) -> int:
    """E = ceil(6D / h) h, as in Appendix C.4.

    >>> width_of(6, 5), width_of(6, 6), width_of(6, 7)
    (40, 36, 42)
    """
    return -(-6 * D // heads) * heads


def _configurations(D: int) -> tuple[tuple[int, int], ...]:
    return (D, D), (D - 1, D), (D, D - 1)


def _name(D: int, heads: tuple[int, int]) -> str:
    return f"D={D} ({heads[0]},{heads[1]})"


def _sweeps(settings: Settings) -> dict[str, list[Trial]]:
    sweeps = {}
    for D in settings["maxima"]:
        for heads in _configurations(D):
            widths = [width_of(D, h) for h in heads]
            shape = shape_for(settings, settings["tokens"], settings["d"], heads, widths, 16 * D)
            target = pairwise_target(D, settings["d"], settings["draw"])
            sweeps[_name(D, heads)] = sweep(settings, _name(D, heads), target, shape)
    return sweeps


def _run_dimension(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import Measured, MeasuredPanel, draw_measured

    groups = trainings(settings, _sweeps(settings))
    shown = sorted({*settings["maxima"], *NMSE_PAIRWISE})
    labels = ("(D, D)", "(D-1, D)", "(D, D-1)")
    series = []
    for i, label in enumerate(labels):
        seeds = [_group(groups, D, i).values if _group(groups, D, i) else [] for D in shown]  # type: ignore[union-attr]
        printed = [float(NMSE_PAIRWISE[D][i]) if D in NMSE_PAIRWISE else None for D in shown]
        series.append(Measured(label, shown, seeds, printed))
    T = settings["tokens"]
    panel = MeasuredPanel(f"target (6), T = {T} (the paper: {PAPER_TOKENS})", "D", tuple(series))
    return Outcome(
        {"fig1a": draw_measured([panel], y_label="best validation NMSE")},
        {"summary": summary_table(groups), "runs": runs_table(groups)},
        (*_rows(settings, groups, shown, labels), *_gaps(groups, settings["maxima"])),
        (
            *deviation_notes(
                settings,
                f"T = {T} in place of {PAPER_TOKENS}." if T != PAPER_TOKENS else "T = 64 as in the paper.",
            ),
            _shown_by(settings),
            stuck_note(groups),
        ),
    )


def _group(groups: dict[str, Group], D: int, i: int) -> Group | None:
    return groups.get(_name(D, _configurations(D)[i]))


def _rows(
    settings: Settings, groups: dict[str, Group], shown: list[int], labels: tuple[str, ...]
) -> list[Comparison]:
    rows = []
    for D in shown:
        for i, label in enumerate(labels):
            group = _group(groups, D, i)
            paper = f"{float(NMSE_PAIRWISE[D][i]):.2e}" if D in NMSE_PAIRWISE else "not printed"
            values = group.values if group else []
            quantity = f"best NMSE, D = {D}, {label}"
            rows.append(measured(quantity, paper, spread(values), claim="infoflow.tab.11a"))
    return rows


def _gaps(groups: dict[str, Group], maxima: tuple[int, ...]) -> list[Comparison]:
    """How far (D, D) heads are below the others, by medians."""
    rows = []
    for D in maxima:
        medians = [_median(_group(groups, D, i)) for i in range(3)]
        paper = NMSE_PAIRWISE.get(D)
        printed = (
            f"{min(float(paper[1] / paper[0]), float(paper[2] / paper[0])):.3g}" if paper else "not printed"
        )
        gap = NOT_RUN
        if None not in medians:
            full, fewer_first, fewer_second = (float(m) for m in medians if m is not None)
            gap = f"{min(fewer_first, fewer_second) / full:.3g} (medians)"
        rows.append(measured(f"D = {D}: least gap to (D, D)", printed, gap, claim="infoflow.tab.11b"))
    return rows


def _median(group: Group | None) -> float | None:
    return None if group is None else group.median


def _shown_by(settings: Settings) -> str:
    return {
        "quick": "It shows the order of three configurations at D = 2 on short sequences, and nothing for "
        "larger D.",
        "medium": "Medium gives all configurations the same sweep and three seeds on short sequences.",
        "paper": "Paper profile: jobs that were not found are marked; run them with hardmax training run, or "
        "train=yes.",
    }[settings.profile]


# The activation
# ----------------------------------------------------------------------------------------------------------


def _run_activation(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import Measured, MeasuredPanel, draw_measured

    D = settings["maxima"][0]
    sweeps: dict[str, list[Trial]] = {}
    for kind in ("tanh", "gelu"):
        chosen = Settings(
            settings.profile, settings.seed, {**settings.chosen, "activation": kind, "maxima": (D,)}
        )
        sweeps |= {f"{name} {kind}": trials for name, trials in _sweeps(chosen).items()}
    groups = trainings(settings, sweeps)
    heads = [_name(D, h) for h in _configurations(D)]
    series = tuple(
        Measured(kind, [1, 2, 3], [groups[f"{name} {kind}"].values for name in heads])
        for kind in ("tanh", "gelu")
    )
    panel = MeasuredPanel(
        f"target (6), D = {D}, T = {settings['tokens']}",
        "heads",
        series,
        ticks=tuple(name.split()[1] for name in heads),
    )
    both = Settings(
        settings.profile, settings.seed, {**settings.chosen, "activation": "tanh and gelu (not sigmoidal)"}
    )
    rows = []
    for name in heads:
        medians = [groups[f"{name} {kind}"].median for kind in ("tanh", "gelu")]
        run = any(median is not None for median in medians)
        rows.append(
            measured(
                f"best NMSE {name}, tanh and gelu",
                "not stated which sigmoidal activation",
                f"{formatted(medians[0])} and {formatted(medians[1])} (medians)" if run else NOT_RUN,
            )
        )
    return Outcome(
        {"activation": draw_measured([panel])},
        {"summary": summary_table(groups), "runs": runs_table(groups)},
        tuple(rows),
        (*deviation_notes(both), stuck_note(groups)),
    )


_COMMON = (
    Option("d", 4, "dimension of a token", least=1),
    Option("draw", 0, "which draw of the matrices A_i, standard normal (not stated)", least=0),
)


_TRAINING = training_options(
    (4_000_000, 6_000_000, 18_000_000),
    rates=((1e-2,), (3e-3, 1e-2), (1e-3, 1e-2)),
    seeds=(2, 3, 16),
)


_DIMENSION = (
    Option("maxima", (2,), "numbers D of maxima", medium=(2, 3), paper=(2, 3, 4, 5, 6), least=2),
    Option("tokens", 15, "sequence length T", paper=PAPER_TOKENS, least=2),
    *_COMMON,
    *_TRAINING,
)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="infoflow",
        name="tab.11a",
        place="Section 6.1",
        statement="Heads (D, D) reach an NMSE of the order 1e-5 for all D.",
        hypotheses="the printed Table 11",
        computation="powers of ten",
        check=_table_11a,
        expected=Verdict.FAILS,
        correction="1e-5 for D = 2, 3, 4; 1e-4 for D = 5; 1e-3 for D = 6.",
    ),
    Claim(
        paper="infoflow",
        name="tab.11b",
        place="Appendix C.4",
        statement="One head less costs two to three orders of magnitude for D <= 5.",
        hypotheses="the printed Table 11",
        computation="quotients of the printed errors",
        check=_table_11b,
        expected=Verdict.FAILS,
        correction="2.3 to 3.0 orders for D <= 4, one order for D = 5, half an order for D = 6.",
    ),
)


RECIPES: tuple[Recipe, ...] = (
    Recipe("infoflow.table11", "Heads that D maxima of bilinear forms need", _DIMENSION, _run_dimension),
    Recipe("infoflow.fig1a", "The same as a picture: the intrinsic dimension", _DIMENSION, _run_dimension),
    Recipe(
        "infoflow.activation",
        "tanh, which the paper assumes, against GELU",
        (
            Option("maxima", (2,), "D; the first entry counts", least=2),
            Option("tokens", 15, "sequence length T", least=2),
            *_COMMON,
            *(replace(option, default=1) if option.name == "seeds" else option for option in _TRAINING),
        ),
        _run_activation,
    ),
)
