"""P2 Theorems 2 and 5, appendix A.2: retrieving the k-th largest value; no training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.flow.theorems.colliding_pairs import (
    CollidingPair,
    retrieval_exponents,
    retrieval_pair,
    retrieval_width_bound,
)
from hardmax.flow.theorems.softmax_transformers import TwoLayer
from hardmax.papers.certificates import Certificate
from hardmax.papers.findings import Claim, Effort, Finding, Verdict, earned, holding, within
from hardmax.papers.infoflow.theorem1 import theorem_claim
from hardmax.papers.recipes import Option, Outcome, Recipe, Settings, compared, judged

__all__ = ["CLAIMS", "RECIPES"]

# Theorem 2
# ----------------------------------------------------------------------------------------------------------


_CASES = [(16, 2, 2), (64, 2, 6), (64, 32, 6)]  # T, k, n
_BOUNDED = [(16, 2, 2, 1e-4), (64, 2, 6, 1e-4), (64, 2, 6, 1e-5), (64, 32, 6, 1e-5)]  # and epsilon


def _t2_exponents(effort: Effort) -> Finding:
    return _exponents(_CASES)


def _exponents(cases: Sequence[tuple[int, int, int]]) -> Finding:
    found = [retrieval_exponents(*case) for case in cases]
    ordered = all(each.informal < each.formal < each.proof for each in found)
    certificate = Certificate(
        "retrieval_exponents",
        {"cases": [list(case) for case in cases]},
        {"exponents": [[each.informal, each.formal, each.proof] for each in found]},
    )
    text = "; ".join(
        f"{case}: {float(each.informal):.4f} / {float(each.formal):.4f} / {float(each.proof):.4f}"
        for case, each in zip(cases, found, strict=True)
    )
    return earned(
        Verdict.INCONSISTENT,
        ordered,
        f"informal / formal / proof at (T, k, n) {text}; the one of the proof implies the others",
        {"exponents": [[float(e.informal), float(e.formal), float(e.proof)] for e in found]},
        certificate,
    )


def _t2_pair(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    epsilon, pairs = 1 / 512, []
    for _ in range(3 if effort is Effort.QUICK else 30):
        pairs.append(_random_pair(rng, epsilon))
    weight, value = [1, 2, 5], [Fraction(1, 4), Fraction(1, 2), Fraction(-1, 8)]
    pair = retrieval_pair(
        lambda x: (0.25 + 0.5 * x - x**2 / 8)[:, None],
        lambda x: np.log(1 + 2 * x + 5 * x**2),
        n_tokens=7,
        k=2,
        epsilon=epsilon,
    )
    certificate = Certificate(
        "retrieval_pair",
        {
            "weight": weight,
            "value": value,
            "k": 2,
            "first": [Fraction(float(x)) for x in pair.first[:, 0]],
            "second": [Fraction(float(x)) for x in pair.second[:, 0]],
            "target_gap": Fraction(4, 512) - Fraction(1, 10**12),
            "attention_gap": Fraction(1, 10**6),
        },
        {"targets_apart": True, "attention_apart": False},
    )
    gaps, limit = [p.attention_gap for p in pairs], 1e-6
    return holding(
        _collide([*pairs, pair], epsilon) and max(gaps) < limit,
        f"T = 7, k = 2, n = 1, epsilon = 1/512: {len(pairs)} random maps, targets 4 epsilon apart, attention "
        f"{within(max(gaps), limit)} apart (guaranteed: {pair.guaranteed_gap:.2f})",
        {"attention_gaps": gaps, "target_gaps": [p.target_gap for p in pairs]},
        certificate,
    )


def _collide(pairs: Sequence[CollidingPair], epsilon: float) -> bool:
    """Whether the targets of all pairs are 4 epsilon apart, and attention no further than guaranteed."""
    return all(p.target_gap >= 4 * epsilon - 1e-12 and p.attention_gap <= p.guaranteed_gap for p in pairs)


def _random_pair(rng: np.random.Generator, epsilon: float) -> CollidingPair:
    """Two sequences of seven tokens that collide in a random attention map."""
    theta, shift, outer = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 4), rng.uniform(0, 0.25, 4)
    slopes = rng.uniform(0, 5, 2)
    net = TwoLayer(theta[:, None], shift, outer[None] / 2, np.array([outer.sum() / 2]))
    return retrieval_pair(
        lambda x: net(x[:, None]),
        lambda x: slopes[0] * x + slopes[1] * np.tanh(3 * x - 1),
        n_tokens=7,
        k=2,
        epsilon=epsilon,
    )


def _t2_bound(effort: Effort) -> Finding:
    found = [retrieval_width_bound(*case) for case in _BOUNDED]
    return holding(
        _follow_from_the_chain(_BOUNDED, found),
        "width at least "
        + ", ".join(f"{value:.4g} at {case}" for value, case in zip(found, _BOUNDED, strict=True)),
        {"cases": _BOUNDED, "width": found},
    )


def _follow_from_the_chain(cases: Sequence[tuple[int, int, int, float]], widths: Sequence[float]) -> bool:
    """Whether the widths are those of the inequality chain of the proof, which is not the closed form."""
    again = []
    for tokens, k, n, epsilon in cases:
        m = tokens - k + 1
        grid = math.floor(1 / (16 * m * epsilon))
        eta = 4 * m * grid ** (-m / (n + 1))
        again.append(2 * epsilon / (math.sqrt(n) * 2 * math.sqrt(n) * eta / (k - 1)))
    return bool(np.allclose(widths, again, rtol=1e-9))


def _run_theorem_2(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Panel, draw_rates

    k, n = settings["k"], settings["head_width"]
    tokens = [max(8, k) + 4 * i for i in range(7)]
    found = [retrieval_exponents(t, k, n) for t in tokens]
    exponents: dict[str, list[Any]] = {
        "T": tokens,
        "informal": [float(each.informal) for each in found],
        "formal": [float(each.formal) for each in found],
        "proof": [float(each.proof) for each in found],
    }
    epsilons = [10.0**-e for e in np.arange(3.0, 7.01, 0.5)]
    widths: dict[str, Any] = {"epsilon": epsilons}
    for t, place, width in _CASES:
        widths[f"T{t}_k{place}_n{width}"] = [retrieval_width_bound(t, place, width, e) for e in epsilons]
    epsilon = settings["epsilon"]
    pairs = [_random_pair(settings.rng("map", i), epsilon) for i in range(settings["maps"])]
    table: dict[str, list[Any]] = {
        "map": list(range(len(pairs))),
        "target_gap": [pair.target_gap for pair in pairs],
        "attention_gap": [pair.attention_gap for pair in pairs],
        "guaranteed_gap": [pair.guaranteed_gap for pair in pairs],
        "required_width": [pair.required_width for pair in pairs],
    }
    shown = pairs[0]
    places = list(range(1, len(shown.first) + 1))
    figure = draw_rates(
        [
            Panel(
                f"three printed exponents, k = {k}, n = {n}",
                "T",
                "o: at least $\\varepsilon^{-o}$ parameters",
                (
                    Curve("proof (use this)", tokens, exponents["proof"]),
                    Curve("formal statement", tokens, exponents["formal"], "dashed"),
                    Curve("informal statement", tokens, exponents["informal"], "dashed"),
                ),
                x_log=False,
                y_log=False,
            ),
            Panel(
                "width of the block behind attention",
                "ε",
                "units, at least",
                tuple(
                    Curve(
                        f"T = {t}, k = {place}, n = {width}",
                        *_positive(epsilons, widths[f"T{t}_k{place}_n{width}"]),
                    )
                    for t, place, width in _CASES
                ),
                x_falls=True,
            ),
            Panel(
                f"two inputs: targets {shown.target_gap:.3g} apart,\nattention {shown.attention_gap:.0e}",
                "position",
                "token",
                (
                    Curve("first", places, shown.first[:, 0].tolist(), "points", 0),
                    Curve("second", [p + 0.15 for p in places], shown.second[:, 0].tolist(), "points", 1),
                ),
                x_log=False,
                y_log=False,
            ),
        ]
    )
    at_64 = retrieval_exponents(64, 2, 6)
    return Outcome(
        figures={"thm2": figure},
        tables={"exponents": exponents, "widths": widths, "pairs": table},
        comparisons=(
            judged(
                "exponent at T = 64, k = 2, n = 6",
                f"{float(at_64.informal):.4f} (Theorem 2), {float(at_64.formal):.4f} (Theorem 5)",
                f"{float(at_64.proof):.4f} (the proof)",
                _exponents([(64, 2, 6)]),
                claim="infoflow.t2.exponents",
            ),
            compared(
                "colliding pair, T = 7, k = 2, n = 1: targets apart over 4ε",
                "at least 1",
                f"{min(table['target_gap']) / (4 * epsilon):.4f}; attention "
                f"{min(table['attention_gap']):.0e} to {max(table['attention_gap']):.0e} apart, guaranteed "
                f"{table['guaranteed_gap'][0]:.2f}",
                _collide(pairs, epsilon),
                claim="infoflow.t2.pair",
            ),
            *(
                compared(
                    f"width at (T, k, n, ε) = {case}, by the chain of inequalities of the proof",
                    "not stated",
                    f"{retrieval_width_bound(*case):.4g}",
                    _follow_from_the_chain([case], [retrieval_width_bound(*case)]),
                    claim="infoflow.t2.bound",
                )
                for case in _BOUNDED
            ),
        ),
        notes=("For k = T, the minimum, the bound says nothing; it needs T - k > n.",),
    )


def _positive(x: list[float], y: list[float]) -> tuple[list[float], list[float]]:
    """Without the zeros, which a logarithmic axis cannot show."""
    kept = [(a, b) for a, b in zip(x, y, strict=True) if b > 0]
    return [a for a, _ in kept], [b for _, b in kept]


CLAIMS: tuple[Claim, ...] = (
    theorem_claim(
        "t2.exponents",
        "Theorems 2 and 5 and the proof",
        "one exponent for retrieving the k-th largest value",
        "k at least 2",
        "the three printed exponents as fractions",
        _t2_exponents,
        Verdict.INCONSISTENT,
        correction="use (T - k + 1)/(n + 1) - 1, which the proof gives; it is the largest",
        proof="only-the-maximum-is-cheap",
    ),
    theorem_claim(
        "t2.pair",
        "Appendix A.2",
        "for any attention map two sequences collide although their k-th largest values differ by 4 epsilon",
        "rho non-decreasing, epsilon < 1/(64 m)",
        "search over all grid sequences, T = 7, k = 2, n = 1",
        _t2_pair,
        Verdict.HOLDS,
        proof="only-the-maximum-is-cheap",
    ),
    theorem_claim(
        "t2.bound",
        "Appendix A.2",
        "the width of the block behind the attention is bounded below explicitly",
        "weights at most 1, epsilon < 1/(64 m)",
        "closed form against the chain of inequalities",
        _t2_bound,
        Verdict.HOLDS,
        proof="only-the-maximum-is-cheap",
    ),
)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "infoflow.thm2",
        "Retrieving the k-th largest value: exponents, width bounds, colliding pairs",
        (
            Option("k", 2, "which largest value in the plot of exponents", least=2),
            Option("head_width", 6, "dimension n in the plot of exponents", least=1),
            Option(
                "maps", 3, "random attention maps for which a pair is searched", medium=30, paper=100, least=1
            ),
            Option("epsilon", 1 / 512, "accuracy for the pairs, below 1/384"),
        ),
        _run_theorem_2,
    ),
)
