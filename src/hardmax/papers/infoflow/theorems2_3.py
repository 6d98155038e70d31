"""P2 Theorems 2, 3, 5, 6 and Lemma 1, appendices A.2 and A.3: retrieving the k-th largest value; codes.

No training: what is checked here is built in :mod:`hardmax.flow`; proofs stand in ``docs/constructions.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.integrate import quad

from hardmax.flow.theorems.codes import analog_code, binary_code, tanh_step
from hardmax.flow.theorems.colliding_pairs import (
    CollidingPair,
    retrieval_exponents,
    retrieval_pair,
    retrieval_width_bound,
)
from hardmax.flow.theorems.decoding_bounds import (
    alternation_program,
    alternation_width_bound,
    antipodal_pair,
    decoder_width_bound,
    identity_block,
    identity_error,
)
from hardmax.flow.theorems.depth_separation import softmax_gap
from hardmax.flow.theorems.softmax_transformers import TwoLayer
from hardmax.papers.infoflow.theorem1 import log_slope
from hardmax.papers.ledger import (
    Certificate,
    Effort,
    Finding,
    Verdict,
    claim,
    earned,
    failing,
    holding,
    within,
)
from hardmax.papers.recipes import Option, Outcome, Settings, recipe, stated, tabulated

# Theorem 2
# ----------------------------------------------------------------------------------------------------------


_CASES = [(16, 2, 2), (64, 2, 6), (64, 32, 6)]  # T, k, n
_BOUNDED = [(16, 2, 2, 1e-4), (64, 2, 6, 1e-4), (64, 2, 6, 1e-5), (64, 32, 6, 1e-5)]  # and epsilon


@claim("infoflow.t2.exponents", "Theorems 2 and 5", Verdict.PROVED).states(
    "a head that retrieves the k-th largest value up to epsilon needs Omega(epsilon^-o) parameters, with o = "
    "(T-k-1)/(n+1) - 1 (Theorem 2), (T-k)/(n+1) - 1 (Theorem 5), (T-k+1)/(n+1) - 1 (its proof)",
    hypotheses="2 <= k < T, weights at most 1, rho non-decreasing, epsilon to 0",
    computation="the three printed exponents as fractions",
    correction="three exponents are printed; the one of the proof is the largest and implies the others",
    proof="theorems.md#theorem-5",
)
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
    return holding(
        ordered and bool(found),
        f"informal / formal / proof at (T, k, n) {text}; the one of the proof implies the others",
        {"exponents": [[float(e.informal), float(e.formal), float(e.proof)] for e in found]},
        certificate,
    )


@claim("infoflow.t2.pair", "Appendix A.2", Verdict.PROVED).states(
    "for any attention map two sequences collide although their k-th largest values differ by 4 epsilon",
    hypotheses="rho non-decreasing, epsilon < 1/(64 m)",
    computation="search over all grid sequences, T = 7, k = 2, n = 1",
    proof="theorems.md#theorem-5",
)
def _t2_pair(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    epsilon = 1 / 512
    pairs = [_random_pair(rng, epsilon) for _ in range(3 if effort is Effort.QUICK else 30)]
    weight, value = [1, 2, 5], [Fraction(1, 4), Fraction(1, 2), Fraction(-1, 8)]
    pair = retrieval_pair(
        lambda x: (0.25 + 0.5 * x - x**2 / 8)[:, None],
        lambda x: np.log(1 + 2 * x + 5 * x**2),
        n_tokens=7,
        k=2,
        epsilon=epsilon,
    )
    gaps, limit = [p.attention_gap for p in pairs], 1e-6
    return holding(
        _collide([*pairs, pair], epsilon) and max(gaps) < limit,
        f"T = 7, k = 2, n = 1, epsilon = 1/512: {len(pairs)} random maps, targets 4 epsilon apart, attention "
        f"{within(max(gaps), limit)} apart (guaranteed: {pair.guaranteed_gap:.2f})",
        {"attention_gaps": gaps, "target_gaps": [p.target_gap for p in pairs]},
        Certificate(
            "retrieval_pair",
            {
                "weight": weight,
                "value": value,
                "first": [Fraction(float(x)) for x in pair.first[:, 0]],
                "second": [Fraction(float(x)) for x in pair.second[:, 0]],
            },
            {"targets": 2, "collide": True},
        ),
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


@claim("infoflow.t2.bound", "Appendix A.2", Verdict.PROVED).states(
    "the width of the block behind the attention is bounded below explicitly",
    hypotheses="weights at most 1, epsilon < 1/(64 m)",
    computation="closed form against the chain of inequalities",
    proof="theorems.md#theorem-5",
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


@recipe(
    "infoflow.thm2",
    "Retrieving the k-th largest value: exponents, width bounds, colliding pairs",
    Option("k", 2, "which largest value in the plot of exponents", least=2),
    Option("head_width", 6, "dimension n in the plot of exponents", least=1),
    Option("maps", 3, "random attention maps for which a pair is searched", medium=30, paper=100, least=1),
    Option("epsilon", 1 / 512, "accuracy for the pairs, below 1/384"),
)
def _run_theorem_2(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Panel, draw_rates

    k, n = settings["k"], settings["head_width"]
    tokens = [max(8, k) + 4 * i for i in range(7)]
    found = [retrieval_exponents(t, k, n) for t in tokens]
    exponents = tabulated(
        "T informal formal proof",
        [(t, *map(float, (e.informal, e.formal, e.proof))) for t, e in zip(tokens, found, strict=True)],
    )
    epsilons = [10.0**-e for e in np.arange(3.0, 7.01, 0.5)]
    widths: dict[str, Any] = {"epsilon": epsilons}
    for t, place, width in _CASES:
        widths[f"T{t}_k{place}_n{width}"] = [retrieval_width_bound(t, place, width, e) for e in epsilons]
    epsilon = settings["epsilon"]
    pairs = [_random_pair(settings.rng("map", i), epsilon) for i in range(settings["maps"])]
    table = tabulated(
        "map target_gap attention_gap guaranteed_gap required_width",
        [
            (i, pair.target_gap, pair.attention_gap, pair.guaranteed_gap, pair.required_width)
            for i, pair in enumerate(pairs)
        ],
    )
    shown = pairs[0]
    places = list(range(1, len(shown.first) + 1))
    exponent_curves = (
        Curve("proof (use this)", tokens, exponents["proof"]),
        Curve("formal statement", tokens, exponents["formal"], "dashed"),
        Curve("informal statement", tokens, exponents["informal"], "dashed"),
    )
    width_curves = tuple(
        Curve(f"T = {t}, k = {place}, n = {width}", *_positive(epsilons, widths[f"T{t}_k{place}_n{width}"]))
        for t, place, width in _CASES
    )
    pair_curves = (
        Curve("first", places, shown.first[:, 0].tolist(), "points", 0),
        Curve("second", [p + 0.15 for p in places], shown.second[:, 0].tolist(), "points", 1),
    )
    panels = [
        Panel(
            f"three printed exponents, k = {k}, n = {n}",
            "T",
            "o: at least $\\varepsilon^{-o}$ parameters",
            exponent_curves,
            x_log=False,
            y_log=False,
        ),
        Panel("width of the block behind attention", "ε", "units, at least", width_curves, x_falls=True),
        Panel(
            f"two inputs: targets {shown.target_gap:.3g} apart,\nattention {shown.attention_gap:.0e}",
            "position",
            "token",
            pair_curves,
            x_log=False,
            y_log=False,
        ),
    ]
    figure = draw_rates(panels)
    at_64 = retrieval_exponents(64, 2, 6)
    return Outcome(
        figures={"thm2": figure},
        tables={"exponents": exponents, "widths": widths, "pairs": table},
        comparisons=(
            stated(
                "exponent at T = 64, k = 2, n = 6",
                f"{float(at_64.informal):.4f} (Theorem 2), {float(at_64.formal):.4f} (Theorem 5)",
                "infoflow.t2.exponents",
            ).judged(f"{float(at_64.proof):.4f} (the proof)", _exponents([(64, 2, 6)])),
            stated(
                "colliding pair, T = 7, k = 2, n = 1: targets apart over 4ε", "at least 1", "infoflow.t2.pair"
            ).compared(
                f"{min(table['target_gap']) / (4 * epsilon):.4f}; attention "
                f"{min(table['attention_gap']):.0e} to {max(table['attention_gap']):.0e} apart, guaranteed "
                f"{table['guaranteed_gap'][0]:.2f}",
                _collide(pairs, epsilon),
            ),
            *(
                stated(
                    f"width at (T, k, n, ε) = {case}, by the chain of inequalities of the proof",
                    "not stated",
                    "infoflow.t2.bound",
                ).compared(
                    f"{retrieval_width_bound(*case):.4g}",
                    _follow_from_the_chain([case], [retrieval_width_bound(*case)]),
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


@claim("infoflow.t2.rem", "Remark after Theorem 5", Verdict.PROVED).states(
    "rho is taken non-decreasing, because otherwise the k-th largest token may be the maximiser of another "
    "score.",
    hypotheses="one head, T tokens in [0, 1]",
    computation="a decreasing rho and the smallest token, k = T: the error of the softmax average",
    correction="For k = T and decreasing rho the error is at most W((T-1)/e)/beta, with no large block at "
    "all.",
    proof="constructions.md#how-far-softmax-is-from-the-maximum",
)
def _t2_remark(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    T, beta = 16, 1000.0
    x = rng.random((200 if effort is Effort.QUICK else 5000, T))
    weights = np.exp(-beta * (x - x.min(axis=1, keepdims=True)))
    error = float((((weights * x).sum(axis=1) / weights.sum(axis=1)) - x.min(axis=1)).max())
    bound = softmax_gap(T, beta)
    return holding(
        0.0 <= error <= bound,
        f"T = 16, rho(x) = -1000 x: the smallest token is read up to {error:.4f}, bound {bound:.4f}",
        {"error": error, "bound": bound},
    )


@claim("infoflow.t3.rem", "Remark after Theorem 6", Verdict.PROVED).states(
    "any 1-Lipschitz sigmoidal activation can take the place of tanh",
    hypotheses="sigmoidal: bounded, with different limits at both ends",
    computation="steps from the logistic function and the arctangent in L_2, an atom at zero included",
    proof="constructions.md#lemma-1",
)
def _t3_remark(effort: Effort) -> Finding:
    found = {}
    t = (np.arange(4001) - 2000) / 2000.0
    step = (t >= 0).astype(float)
    units: dict[str, Any] = {
        "logistic": lambda z: 1 / (1 + np.exp(-z)),
        "arctan": lambda z: np.arctan(z) / np.pi + 0.5,
    }
    for name, unit in units.items():
        errors = []
        for steepness in (1e2, 1e4, 1e6):
            with np.errstate(over="ignore"):
                made = unit(steepness * t + np.sqrt(steepness))
            errors.append(float(np.sqrt(((made - step) ** 2).mean() * 2 + (made[2000] - 1) ** 2)))
        found[name] = errors
    falls = all(b < a for errors in found.values() for a, b in pairwise(errors))
    return holding(
        falls and max(errors[-1] for errors in found.values()) < 0.1,
        "; ".join(f"{name}: {', '.join(f'{e:.3f}' for e in errors)}" for name, errors in found.items())
        + " for steepness 100, 10^4, 10^6",
        found,
    )


@claim("infoflow.t3.heaviside", "Appendix A.3, part 1", Verdict.PROVED).states(
    "decoder after encoder is the truncation to L bits",
    hypotheses="Heaviside units",
    computation="every dyadic cell, exactly",
    correction="thresholds of the decoder belong halfway between the latent values, or no tanh unit can "
    "replace them",
    proof="constructions.md#the-code-of-the-paper",
)
def _heaviside(effort: Effort) -> Finding:
    cases = [(2, 1, 0.5), (2, 1, 0.25), (3, 2, 0.5)] + ([] if effort is Effort.QUICK else [(4, 3, 0.25)])
    cells, exact = 0, True
    for m, n, epsilon in cases:
        code = binary_code(m, n, epsilon)
        axis = np.arange(code.cells) / code.cells
        corners = np.stack(np.meshgrid(*[axis] * m, indexing="ij"), axis=-1).reshape(-1, m)
        inside = corners + np.random.default_rng(0).random(corners.shape) / code.cells
        exact &= bool((code(corners) == corners).all() and (code(inside) == corners).all())
        cells += len(corners)
    code = binary_code(2, 1, 0.5)
    blocks = {
        name: {part: getattr(block, part).tolist() for part in ("w_in", "b_in", "w_out", "b_out")}
        for name, block in (("encoder", code.encoder), ("decoder", code.decoder))
    }
    return holding(
        exact,
        f"{cells} dyadic cells of {len(cases)} codes: decoder after encoder is the L-bit truncation in "
        "every one",
        {"cells": cells},
        Certificate("step_code", {"bits": code.bits, **blocks}, {"cells": 64}),
    )


@claim("infoflow.t3.slope", "Theorem 6, part 1", Verdict.PROVED).states(
    "O(epsilon^(-m/n)) parameters suffice",
    hypotheses="m > n",
    computation="parameters of the code for five pairs (m, n)",
    correction="true and not sharp, see t3.analog",
    proof="constructions.md#the-code-of-the-paper",
)
def _t3_slope(effort: Effort) -> Finding:
    ranges = {(2, 1): 7, (3, 1): 4, (3, 2): 6, (4, 2): 5, (4, 3): 7}
    slopes, bounded = {}, True
    for (m, n), steps in ranges.items():
        epsilons = [0.5 / 2**i for i in range(steps)]
        counts = [_binary_parameters(m, n, epsilon) for epsilon in epsilons]
        slopes[f"{m},{n}"] = log_slope(epsilons, counts)
        bounded &= _of_order(m, n, epsilons, counts)
    check = binary_code(4, 3, 0.0625)
    same = _binary_parameters(4, 3, 0.0625) == check.n_parameters
    text = ", ".join(f"{slope:.2f} for ({name})" for name, slope in slopes.items())
    return holding(
        bounded and same, f"slope of parameters in epsilon {text}; -m/n is the limit", {"slopes": slopes}
    )


def _of_order(m: int, n: int, epsilons: Sequence[float], counts: Sequence[float]) -> bool:
    """Whether a code has O(epsilon^(-m/n)) parameters, with the constant of the construction."""
    return all(c <= 40 * m**2 * (4 * m / e) ** (m / n) for c, e in zip(counts, epsilons, strict=True))


def _binary_parameters(m: int, n: int, epsilon: float) -> int:
    """The dense count of the binary code without building it."""
    bits = max(1, math.ceil(math.log2(2 * m / epsilon) - 1e-12))
    q = -(-m * bits // n)
    encoder, decoder = m * ((1 << bits) - 1), n * ((1 << q) - 1)
    return encoder * (m + 1 + n) + n + decoder * (n + 1 + m) + m


@claim("infoflow.t3.tanhlp", "Theorem 6, part 1", Verdict.PROVED).states(
    "tanh networks reach an L_p error of epsilon",
    hypotheses="weights without bound",
    computation="the tanh code, its error in L_2",
    correction="the weights grow at least like epsilon^(-m/n), far outside any constant bound",
    proof="constructions.md#the-code-of-the-paper",
)
def _tanh_lp(effort: Effort) -> Finding:
    rows, fine = [], True
    for epsilon in (0.5, 0.25, 0.125) if effort is Effort.QUICK else (0.5, 0.25, 0.125, 0.0625):
        code = binary_code(2, 1, epsilon, units="tanh")
        error = code.mean_error(n_samples=2000)
        fine &= error <= epsilon
        rows.append((epsilon, error, code.largest_weight))
    text = ", ".join(f"{error:.3f} <= {epsilon:g} (weights to {w:.1e})" for epsilon, error, w in rows)
    return holding(fine, f"m = 2, n = 1, error in L_2: {text}", tabulated("epsilon error weight", rows))


@claim("infoflow.t3.supnorm", "Theorem 6, part 2", Verdict.VACUOUS).states(
    "an error of at most epsilon in the maximum norm forces many parameters",
    hypotheses="m > n, continuous encoder",
    computation="antipodal pairs on the boundary of the cube",
    correction="no such encoder exists for epsilon < 1/2; with the mean error in place of the largest the "
    "bound is true",
    proof="theorems.md#theorem-4",
)
def _supnorm(effort: Effort) -> Finding:
    w_in = [[1, Fraction(1, 2)], [Fraction(-1, 3), 1], [Fraction(3, 4), Fraction(-2, 3)]]
    b_in, w_out = [Fraction(-1, 2), Fraction(1, 5), 0], [1, Fraction(-1, 2), Fraction(3, 5)]
    # V = (s, 1) runs along one side of the square; f(V) - f(1 - V) changes its sign
    points = [[Fraction(0), Fraction(1)], [Fraction(1), Fraction(1)]]
    inner, shifts, outer = (np.array(part, dtype=float) for part in (w_in, b_in, [w_out]))
    encoder = TwoLayer(inner, shifts, outer, np.zeros(1))
    ends = np.array([[float(c) for c in point] for point in points])
    signs = [int(s) for s in np.sign(encoder(ends) - encoder(1 - ends))[:, 0]]
    rng = np.random.default_rng(0)
    gaps, errors = [], []
    for epsilon in (0.5, 0.25, 0.125):
        code = binary_code(2, 1, epsilon, units="tanh", steepness=(64.0 / epsilon, 32.0 * 4 / epsilon**2))
        pair = antipodal_pair(code.encoder, 2)
        gaps.append(pair.code_gap)
        errors.append(pair.sup_error(code.decoder, code.encoder))
    for m, n in ((2, 1), (3, 2)) if effort is Effort.QUICK else ((2, 1), (3, 1), (3, 2), (4, 3), (6, 2)):
        net = TwoLayer(rng.normal(size=(5, m)), rng.normal(size=5), rng.normal(size=(n, 5)), np.zeros(n))
        gaps.append(antipodal_pair(net, m).code_gap)
    limit = 1e-9
    vacuous = signs[0] * signs[1] < 0 and max(gaps) < limit and min(errors) >= 0.5
    return earned(
        Verdict.VACUOUS,
        vacuous,
        f"{len(gaps)} encoders, each with an antipodal pair 1 apart and the same code (gaps "
        f"{within(max(gaps), limit)}); "
        f"the tanh codes are off by {', '.join(f'{e:.4f}' for e in errors)} there: no error below 1/2",
        {"code_gaps": gaps, "errors": errors},
        Certificate(
            "antipodal_signs",
            {"w_in": w_in, "b_in": b_in, "w_out": w_out, "points": points},
            {"signs": signs, "side": 1},
        ),
    )


@claim("infoflow.t3.analog", "Theorem 6, part 1, sharpened", Verdict.PROVED).states(
    "O(epsilon^(-max(1, m/n - 1))) parameters suffice",
    own=True,
    hypotheses="n divides m, weights without bound",
    computation="the code is built; units, error, slopes",
    proof="constructions.md#a-cheaper-code",
)
def _analog(effort: Effort) -> Finding:
    rows, fine = [], True
    for m, n in ((2, 1), (3, 1), (4, 2), (6, 2)):
        code = analog_code(m, n, 1 / 32)
        fine &= _has_few_units(code, m, n)
        error = code.mean_error()
        smooth = analog_code(m, n, 1 / 32, units="tanh").mean_error(n_samples=1000)
        fine &= error <= 1 / 32 and smooth <= 1 / 32
        rows.append((m, n, code.n_parameters, error, smooth))
    epsilons = [1 / 8 / 2**i for i in range(5)]
    slopes = [
        log_slope(epsilons, [analog_code(m, n, e).n_parameters for e in epsilons])
        for m, n in ((2, 1), (3, 1))
    ]
    text = "; ".join(f"({m},{n}) {count} weights, {e:.4f}, tanh {s:.4f}" for m, n, count, e, s in rows)
    return holding(
        fine and -1.1 < slopes[0] < -0.9 and -2.1 < slopes[1] < -1.7,
        f"epsilon = 1/32: {text}; slopes {slopes[0]:.2f} for (2,1), {slopes[1]:.2f} for (3,1)",
        {"cases": [row[:2] for row in rows], "parameters": [row[2] for row in rows], "slopes": slopes},
    )


def _has_few_units(code: Any, m: int, n: int) -> bool:
    """Whether the analog code has n ((r - 1)(c - 1) + c^(r - 1) + 1) units, r = m/n, c its cells per axis."""
    r = m // n
    return bool(code.n_units == n * ((r - 1) * (code.cells - 1) + code.cells ** (r - 1) + 1))


@claim("infoflow.t3.bounded", "Theorem 6 with bounded weights", Verdict.PROVED).states(
    "with weights at most 1 every alternation of a decoder costs a factor",
    own=True,
    hypotheses="n = 1, tanh units",
    computation="linear programs, and a bound from analyticity",
    correction="the cost law is no upper bound when weights are bounded: decoding m = 2 numbers from n = 1 "
    "costs exp(c/epsilon)",
    proof="theorems.md#theorem-5",
)
def _bounded(effort: Effort) -> Finding:
    last = 5 if effort is Effort.QUICK else 6
    options = {"n_dictionary": 41, "n_check": 201} if effort is Effort.QUICK else {}
    widths = [alternation_program(k, **options).width for k in range(1, last + 1)]
    bounds = [alternation_width_bound(k) for k in range(1, last + 1)]
    return holding(
        _above(widths, bounds) and all(b / a > 3.43 for a, b in pairwise(bounds)),
        f"amplitude 1/4, 1 to {last} alternations: linear programs give "
        f"{', '.join(f'{w:.3g}' for w in widths)}; "
        f"by analyticity {', '.join(f'{p:.3g}' for p in bounds)}, a factor 3.433 each",
        {"program": widths, "analyticity": bounds},
    )


def _above(widths: Sequence[float], bounds: Sequence[float]) -> bool:
    """Whether the linear programs ask for more units than analyticity, from two alternations on."""
    return all(w >= p for w, p in zip(widths[1:], bounds[1:], strict=True))


@claim("infoflow.t3.o", "Theorems 3 and 6, part 2", Verdict.MISPRINT).states(
    "encoder and decoder must have O(epsilon^min(1 - m/n, 0)) parameters",
    hypotheses="m = n = 1, epsilon = 1/4",
    computation="networks of every size that meet the hypothesis",
    correction="Omega instead of O, and the mean error instead of the largest: width at least 2 epsilon "
    "(2^(-1/n) (6 epsilon)^(-m/n) - 1) / n with weights at most 1",
    proof="theorems.md#theorem-5",
)
def _big_o(effort: Effort) -> Finding:
    sizes = [1, 4, 16, 64]
    counts = [identity_block(1, 1, p).n_parameters for p in sizes]
    certificate = Certificate("tanh_signs", {"sizes": sizes}, {"sizes": sizes})
    cases = ((2, 1, 0.01), (2, 1, 0.001), (3, 1, 0.01), (8, 2, 0.01))
    values = [decoder_width_bound(*case) for case in cases]
    return earned(
        Verdict.MISPRINT,
        counts == [3 * p + 1 for p in sizes],
        "m = n = 1, epsilon = 1/4: p tanh(v/p) meets the hypothesis for every p, with "
        f"{', '.join(map(str, counts))}, "
        "... = 3p + 1 parameters, so O(1) is no consequence; as a lower bound in the mean, for (m, n, "
        "epsilon) = "
        + ", ".join(f"({m}, {n}, {epsilon})" for m, n, epsilon in cases)
        + ": width at least "
        + ", ".join(f"{value:.4g}" for value in values),
        {"parameters": counts, "lower_bounds": values},
        certificate,
    )


@claim("infoflow.t3.identity", "Appendix A.3", Verdict.FAILS).states(
    "for n >= m the representation is exact with O(1) parameters",
    hypotheses="tanh networks",
    computation="enclosures of 1 - p tanh(1/p)",
    correction="never exact; p tanh(v/p) has weights at most 1 and error about 1/(3 p^2)",
    proof="constructions.md#enough-room",
)
def _identity(effort: Effort) -> Finding:
    sizes = [1, 2, 4, 8, 16]
    errors = [identity_error(p) for p in sizes]
    grid = np.linspace(0, 1, 1001)[:, None]
    measured = [float(np.abs(identity_block(1, 1, p)(grid) - grid).max()) for p in sizes]
    same = np.allclose(measured, errors, atol=1e-12)
    return failing(
        bool(same),
        f"p tanh(v/p) is off by {', '.join(f'{e:.3g}' for e in errors)} for p = "
        f"{', '.join(map(str, sizes))}, about 1/(3 p^2); no tanh network is the identity on an interval",
        {"p": sizes, "error": errors},
        Certificate("tanh_signs", {"sizes": sizes}, {"sizes": sizes}),
    )


@claim("infoflow.lemma1", "Lemma 1", Verdict.PROVED).states(
    "a step is a tanh unit up to any error in L_p(mu)",
    hypotheses="mu finite, 1 <= p < infinity",
    computation="quadrature with an atom at zero; the unit is (1 + tanh(B x + C)) / 2",
    correction="p = 1 works too, and zero need not lie inside; in the maximum norm it is false",
    proof="constructions.md#lemma-1",
)
def _lemma1(effort: Effort) -> Finding:
    rows, fine = [], True
    for p in (1.0, 2.0, 4.0):
        for delta in (0.1, 0.01):
            step = tanh_step(delta, p=p, atoms={0.0: 1.0})
            left, right = (
                quad(lambda t, step=step, p=p, side=side: _tail_power(step, side * t, p), 0, 80, limit=200)[0]
                for side in (1, -1)
            )
            error = (left + right + float(1 - step(0.0)) ** p) ** (1 / p)
            sup = float(step(-1e-3 / step.steepness))
            fine &= error <= step.error_bound < delta
            rows.append((p, delta, error, sup, step.steepness))
    worst = min(row[3] for row in rows)
    text = ", ".join(
        f"{error:.2g} < {delta:g} (p = {p:g}, B = {steep:.3g})" for p, delta, error, _, steep in rows[1::2]
    )
    return holding(
        fine and worst > 0.5,
        f"density 1 on [-1, 1] and an atom of mass 1 at zero: {text}; next to zero the error is {worst:.2f} "
        "and more, so not in the maximum norm",
        tabulated("p delta error", [row[:3] for row in rows]),
    )


def _tail_power(step: Any, t: float, p: float) -> float:
    """The error to the power p at x = -t/B (or, for t < 0, on the right), per dx; tails beyond 80 are
    below 1e-69."""
    argument = step.shift - t if t >= 0 else -(step.shift - t)
    if abs(t) / step.steepness > 1.0:
        return 0.0
    return float((1.0 / (1.0 + math.exp(-2.0 * argument))) ** p / step.steepness)


@recipe(
    "infoflow.thm3",
    "Encoding and decoding: codes, what they cost, and what no code can do",
    Option("epsilons", (0.5, 0.25, 0.125, 0.0625, 0.03125), "accuracies"),
    Option("units", 40_000, "largest decoder that is built", paper=600_000, least=100),
    Option("alternations", 5, "alternations of a block with weights at most 1", medium=6, paper=7, least=1),
)
def _run_theorem_3(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Look, Panel, draw_rates

    epsilons = list(settings["epsilons"])
    rows: list[tuple[Any, ...]] = []
    few_units = {2: True, 3: True}
    for m, n in ((2, 1), (3, 1)):
        for epsilon in epsilons:
            for name, make in (("binary", binary_code), ("analog", analog_code)):
                if name == "binary" and (2 * m / epsilon) ** (m / n) > settings["units"]:
                    continue
                code = make(m, n, epsilon)
                few_units[m] &= name == "binary" or _has_few_units(code, m, n)
                error = code.mean_error(n_samples=400, rng=settings.seed)
                size = (code.n_units, code.n_parameters)
                rows.append((m, n, epsilon, name, *size, error, decoder_width_bound(m, n, epsilon)))
    sizes = tabulated("m n epsilon code units parameters l2_error lower_bound", rows)
    smooth = _smooth_table(epsilons[:4], settings)
    last = settings["alternations"]
    alternations: dict[str, Any] = {
        "alternations": list(range(1, last + 1)),
        "program": [alternation_program(k).width for k in range(1, last + 1)],
        "proven": [alternation_width_bound(k) for k in range(1, last + 1)],
    }

    looks: tuple[tuple[str, Look], ...] = (("binary", "line"), ("analog", "dashed"))

    def curve(m: int, code: str) -> tuple[list[float], list[float]]:
        kept = [row for row in rows if (row[0], row[3]) == (m, code)]
        return [row[2] for row in kept], [row[5] for row in kept]

    code_curves = tuple(
        Curve(f"m = {m}, {name} code", *curve(m, name), look, colour)
        for colour, m in enumerate((2, 3))
        for name, look in looks
    )
    tanh_curves = (
        Curve("in $L_2$", smooth["epsilon"], smooth["l2_error"]),
        Curve("at the antipodal pair", smooth["epsilon"], smooth["antipodal_error"]),
        Curve("ε", smooth["epsilon"], smooth["epsilon"], "reference"),
    )
    alternation_curves = (
        Curve("linear program", alternations["alternations"], alternations["program"]),
        Curve("proven", alternations["alternations"], alternations["proven"], "dashed"),
    )
    panels = [
        Panel("parameters of codes into one number", "ε", "parameters", code_curves, x_falls=True),
        Panel("tanh version of the binary code, m = 2, n = 1", "ε", "error", tanh_curves, x_falls=True),
        Panel(
            "weights at most 1: width to alternate",
            "alternations of amplitude 1/4",
            "units, at least",
            alternation_curves,
            x_log=False,
        ),
    ]
    figure = draw_rates(panels)
    slopes = {
        (m, name): log_slope(*curve(m, name))
        for m in (2, 3)
        for name in ("binary", "analog")
        if len(curve(m, name)[0]) > 1
    }
    golden = ((2, 1, 0.01), (2, 1, 0.001), (3, 1, 0.01), (8, 2, 0.01))
    antipodal = f"at least {min(smooth['antipodal_error']):.4f} at antipodal pairs"
    return Outcome(
        figures={"thm3": figure},
        tables={"codes": sizes, "tanh": smooth, "alternations": alternations},
        comparisons=(
            *(
                stated(
                    f"slope of parameters in ε, m = {m}, n = 1, {name} code",
                    f"{-m}" if name == "binary" else f"{-m} (the paper's code)",
                    "infoflow.t3.slope" if name == "binary" else "infoflow.t3.analog",
                ).compared(
                    f"{slope:.2f}" + ("" if name == "binary" else f"; {-max(1, m - 1)} in the limit"),
                    _of_order(m, 1, *curve(m, name)) if name == "binary" else few_units[m],
                )
                for (m, name), slope in slopes.items()
            ),
            stated("largest error of a continuous code, m > n", "at most ε", "infoflow.t3.supnorm").judged(
                antipodal,
                earned(
                    Verdict.VACUOUS,
                    min(smooth["antipodal_error"]) >= 0.5 and max(smooth["code_gap"]) < 1e-9,
                    antipodal,
                ),
            ),
            *(
                stated(
                    f"width of a decoder with mean error ε, (m, n, ε) = {case}",
                    "O(ε^(1-m/n)), meant as a lower bound",
                    "infoflow.t3.o",
                ).compared(f"at least {decoder_width_bound(*case):.4g}", None)  # the paper bounds from above
                for case in golden
            ),
            stated(
                f"units for {last} alternations, weights at most 1, grow by a factor per alternation",
                "polynomial in 1/ε",
                "infoflow.t3.bounded",
            ).compared(
                f"at least {alternations['program'][-1]:.3g} (linear program), "
                f"{alternations['proven'][-1]:.3g} (proven)",
                _above(alternations["program"], alternations["proven"]),
            ),
        ),
        notes=(
            "Errors in L_2 are estimated from samples; the steepness of the tanh units is the proven one.",
            "The cost law is no upper bound for bounded weights. The linear programs are numerical; the "
            "proven bound grows by 3.433 per alternation.",
        ),
    )


def _smooth_table(epsilons: list[float], settings: Settings) -> dict[str, list[float]]:
    rows = []
    for epsilon in epsilons:
        code = binary_code(2, 1, epsilon, units="tanh")
        pair = antipodal_pair(code.encoder, 2)
        error = code.mean_error(n_samples=1000, rng=settings.seed)
        at_pair = pair.sup_error(code.decoder, code.encoder)
        rows.append((epsilon, error, at_pair, pair.code_gap, code.largest_weight))
    return tabulated("epsilon l2_error antipodal_error code_gap largest_weight", rows)
