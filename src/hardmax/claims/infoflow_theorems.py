"""Claims of the InfoFlow paper about depth separation and retrieval (P2 Theorems 1 and 2).

What is checked here is built in :mod:`hardmax.flow`; proofs stand in ``docs/constructions.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.claims.certificates import Certificate
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict, failing, holding, within
from hardmax.flow.theorems.colliding_pairs import CollidingPair
from hardmax.flow.theorems.depth_separation import (
    affine_readout,
    inner_product_block,
    separation_transformer,
    softmax_gap,
)
from hardmax.flow.theorems.retrieval_bound import retrieval_exponents, retrieval_pair, retrieval_width_bound
from hardmax.flow.theorems.separation_inputs import sup_error
from hardmax.flow.theorems.single_layer_bound import cap_centres, separation_exponents
from hardmax.flow.theorems.two_layer import TwoLayer

__all__ = ["CLAIMS", "log_slope", "theorem_claim"]

_PAGE = "constructions.md"


def log_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y against log x.

    >>> round(log_slope([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def theorem_claim(
    name: str,
    place: str,
    statement: str,
    hypotheses: str,
    computation: str,
    check: Any,
    expected: Verdict,
    *,
    correction: str = "",
    proof: str = "",
) -> Claim:
    """A claim of P2 whose proof, if it has one, stands on the page about constructions."""
    return Claim(
        paper="infoflow",
        name=f"infoflow.{name}",
        place=place,
        statement=statement,
        hypotheses=hypotheses,
        computation=computation,
        check=check,
        expected=expected,
        correction=correction,
        proof=f"{_PAGE}#{proof}" if proof else "",
    )


# Theorem 1
# ----------------------------------------------------------------------------------------------------------


def _k_order(effort: Effort) -> Finding:
    heads, n, tokens = (6, 6, 64) if effort is Effort.QUICK else (16, 12, 256)
    smaller = equal = 0
    ordered = True
    for h in range(1, heads + 1):
        for width in range(1, n + 1):
            for t in range(1, tokens + 1):
                found = separation_exponents(t, h, width)
                smaller += found.informal < found.formal
                equal += found.informal == found.formal
                ordered &= found.informal <= found.formal
    cases = heads * n * tokens
    certificate = Certificate(
        "separation_exponents",
        {"heads": heads, "n": n, "tokens": tokens},
        {"cases": cases, "smaller": smaller, "equal": equal, "equal_iff_one_head": True},
    )
    return holding(
        ordered and equal == n * tokens,
        f"{cases} triples (T, H, n): informal k smaller in {smaller}, equal in {equal}, all of them H = 1",
        {"cases": cases, "smaller": smaller, "equal": equal},
        certificate,
    )


def _identity14(effort: Effort) -> Finding:
    grid = [1, 2, 3] if effort is Effort.QUICK else [1, 2, 3, 5]
    cases = 4 * len(grid) ** 4
    certificate = Certificate("weighted_means", {"grid": grid}, {"cases": cases, "agree": cases})
    rng = np.random.default_rng(0)
    q1, q2, q4, q5 = rng.uniform(0.1, 2.0, (4, 2000, 1))
    v1, v2, v4, v5 = rng.uniform(-1.0, 1.0, (4, 2000, 3))
    first, second = q1 + q4 + q5, q2 + q4 + q5
    left = (q1 * v1 + q4 * v4 + q5 * v5) / first - (q2 * v2 + q4 * v4 + q5 * v5) / second
    right = (q2 - q1) * (q4 * (v4 - v2) + q5 * (v5 - v2)) / (first * second) + q1 / first * (v1 - v2)
    deviation = float(np.abs(left - right).max())
    limit = 1e-12
    return holding(
        deviation < limit,
        f"equal at {cases} rational points, which decides it (degree 2 in each Q, linear in V); the "
        f"difference in floats is {within(deviation, limit)} on 2000 draws",
        {"points": cases, "deviation": deviation},
        certificate,
    )


def _kset(effort: Effort) -> Finding:
    centre, radius = [Fraction(-2, 7), Fraction(-3, 7), Fraction(-6, 7)], Fraction(1, 12)
    lowest = -centre[2] - radius
    certificate = Certificate(
        "mirrored_cap",
        {"centre": centre, "radius": radius},
        {"third_coordinate_at_least": lowest, "misses": True},
    )
    centres, reach = cap_centres(4 if effort is Effort.QUICK else 64)
    highest = float(centres[:, 2].max())
    return failing(
        lowest > 0 and highest + reach < 0,
        f"b = (-2, -3, -6)/7, L = 1/12: on -B(b, L) the third coordinate is at least {lowest} > 0, but Q0 "
        "needs "
        f"a negative one; on Q0 it is at most -0.707 (of {len(centres)} centres used here, {highest:.3f})",
        {"third_coordinate_at_least": float(lowest), "highest_centre": highest},
        certificate,
    )


def _step3(effort: Effort) -> Finding:
    certificate = Certificate(
        "single_token",
        {"token": [1, 0, 0]},
        {"printed": Fraction(1, 3), "corrected": Fraction(1, 9), "limit": Fraction(1, 9)},
    )
    rng = np.random.default_rng(0)
    tokens = rng.uniform(-1, 1, (200 if effort is Effort.QUICK else 5000, 6, 3))
    built = separation_transformer(0.5, 6).transformer.with_beta(1e5)
    after = built.states(tokens)[0][0]
    smallest = (tokens @ np.swapaxes(tokens, 1, 2)).min(axis=2)
    printed = float(np.abs((tokens * after[:, :, 3:]).sum(axis=2) - smallest / 9).max())
    corrected = float(np.abs((after[:, :, :3] * after[:, :, 3:]).sum(axis=2) - smallest / 9).max())
    limit = 1e-3
    return failing(
        printed > 0.1 and corrected < limit,
        f"one token (1, 0, 0): x.v = 1/3 at every beta, not 1/9; {len(tokens)} sequences at beta = 1e5: "
        f"x.v is off by {printed:.2f}, the difference of (x/3).v is {within(corrected, limit)}",
        {"printed": printed, "corrected": corrected},
        certificate,
    )


def _softmaxgap(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    above, attained = 0.0, []
    for n_tokens in (2, 4, 8, 64, 1024):
        bound = softmax_gap(n_tokens, 1.0)
        scales = np.exp(rng.uniform(-2, 3, (200 if effort is Effort.QUICK else 5000, 1)))
        rho = np.concatenate([scales * rng.random((len(scales), n_tokens)), _one_above(n_tokens)])
        weights = np.exp(rho - rho.max(axis=1, keepdims=True))
        gaps = rho.max(axis=1) - (weights * rho).sum(axis=1) / weights.sum(axis=1)
        above = max(above, float(gaps.max() - bound))
        attained.append(float(gaps.max() / bound))
    return holding(
        above < 1e-9 and min(attained) > 1 - 1e-6,
        f"T = 2 to 1024: no draw exceeds W((T-1)/e)/beta, and one score above equal others attains "
        f"{min(attained):.7f} of it",
        {"bound": [softmax_gap(t, 1.0) for t in (2, 4, 8, 64, 1024)], "attained": attained},
    )


def _one_above(n_tokens: int) -> Any:
    """All scores but one a little lower, by gaps on a fine grid."""
    gaps = np.linspace(0.5, 8.0, 4001)
    rho = np.zeros((len(gaps), n_tokens)) if n_tokens <= 64 else np.zeros((401, n_tokens))
    rho[:, 1:] = -gaps[:, None] if n_tokens <= 64 else -(1.0 + softmax_gap(n_tokens, 1.0))
    return rho


def _build(effort: Effort) -> Finding:
    rows, fine = [], True
    for epsilon in (0.5, 0.1, 0.05):
        for n_tokens in (8,) if effort is Effort.QUICK else (8, 64):
            built = separation_transformer(epsilon, n_tokens)
            found = sup_error(built, n_each=100 if effort is Effort.QUICK else 1000)
            fine &= found.largest <= epsilon and built.error_bound <= epsilon
            fine &= built.transformer.largest_weight <= 1.0
            rows.append((epsilon, n_tokens, built.transformer.n_parameters, built.error_bound, found.largest))
    text = "; ".join(f"{e:g}: {found:.3f} ({count} weights)" for e, _, count, _, found in rows)
    return holding(
        fine,
        f"largest error found, random and adversarial inputs, by epsilon: {text}; all weights at most 1",
        {
            "epsilon": [row[0] for row in rows],
            "n_tokens": [row[1] for row in rows],
            "parameters": [row[2] for row in rows],
            "error_bound": [row[3] for row in rows],
            "largest_error": [row[4] for row in rows],
        },
    )


def _width(effort: Effort) -> Finding:
    epsilons = [0.4 / 2**i for i in range(8)]
    plain = [inner_product_block(epsilon / 72)[0].width for epsilon in epsilons]
    better = [inner_product_block(epsilon / 72, square="richardson")[0].width for epsilon in epsilons]
    slope, slope_better = log_slope(epsilons, plain), log_slope(epsilons, better)
    bounded = all(w <= 12 * (1 + 1.6 / e) for w, e in zip(plain, epsilons, strict=True))
    return holding(
        bounded and -1.05 < slope < -0.9,
        f"widths {plain[0]} to {plain[-1]} for epsilon 0.4 to {epsilons[-1]:g}: slope {slope:.3f}; with "
        "Richardson "
        f"extrapolation {better[0]} to {better[-1]}, slope {slope_better:.2f}: O(1/epsilon) is not sharp",
        {"epsilon": epsilons, "width": plain, "slope": slope, "richardson": better},
    )


def _a21(effort: Effort) -> Finding:
    layer = separation_transformer(0.5, 4).transformer.layers[1]
    product = layer.w_q[0].T @ layer.w_k[0]
    expected = [[0] * 6 for _ in range(6)]
    expected[1][0] = -2
    certificate = Certificate(
        "matrix_product",
        {"left": layer.w_q[0].astype(int).tolist(), "right": layer.w_k[0].astype(int).tolist()},
        {"product": expected, "largest": 1},
    )
    return holding(
        bool((product == np.array(expected)).all()),
        "W_Q with rows e_2, e_2 and W_K with rows -e_1, -e_1: the product has the single entry -2, from "
        "entries of 1",
        {"entry": float(product[1, 0])},
        certificate,
    )


def _output_o1(effort: Effort) -> Finding:
    # 18 units: f(1/3) - f(-1/3) is at most 36 tanh(1/3), but the target moves by 12
    certificate = Certificate(
        "tanh_signs",
        {"sums": [{"constant": Fraction(29, 5), "terms": [[-18, Fraction(1, 3)]]}]},
        {"signs": [1]},
    )
    epsilons = [0.4 / 4**i for i in range(6)]
    widths = [affine_readout(epsilon / 4, reach=1 / 3)[0].width for epsilon in epsilons]
    slope = log_slope(epsilons, widths)
    return failing(
        -0.55 < slope < -0.45,
        f"18 units are off by at least 6 - 18 tanh(1/3) = {6 - 18 * math.tanh(1 / 3):.3f} > 1/5, and no "
        "fixed "
        f"number reaches every epsilon; built with {widths[0]} to {widths[-1]} units, slope {slope:.3f}",
        {"epsilon": epsilons, "width": widths, "slope": slope},
        certificate,
    )


def _t1_remark(effort: Effort) -> Finding:
    rows, fine = [], True
    for epsilon in (0.5, 0.1) if effort is Effort.QUICK else (0.5, 0.1, 0.05):
        built = separation_transformer(epsilon, 8, domain="cube01")
        found = sup_error(built, n_each=100)
        fine &= found.largest <= epsilon and built.transformer.largest_weight <= 1.0
        rows.append((epsilon, found.largest))
    return holding(
        fine,
        "embedding (2x - 1)/3, target F(2X - 1): largest errors "
        + ", ".join(f"{found:.3f} for epsilon {epsilon:g}" for epsilon, found in rows),
        {"epsilon": [row[0] for row in rows], "largest_error": [row[1] for row in rows]},
    )


# Theorem 2
# ----------------------------------------------------------------------------------------------------------


def _t2_exponents(effort: Effort) -> Finding:
    cases = [(16, 2, 2), (64, 2, 6), (64, 32, 6)]
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
    return Finding(
        Verdict.INCONSISTENT if ordered and certificate.holds else Verdict.UNDECIDED,
        f"informal / formal / proof at (T, k, n) {text}; the one of the proof implies the others",
        {"exponents": [[float(e.informal), float(e.formal), float(e.proof)] for e in found]},
        certificate,
    )


def _t2_pair(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    epsilon, pairs = 1 / 512, []
    for _ in range(3 if effort is Effort.QUICK else 30):
        theta, shift, outer = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 4), rng.uniform(0, 0.25, 4)
        slopes = rng.uniform(0, 5, 2)
        pairs.append(_random_pair(theta, shift, outer, slopes, epsilon))
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
    fine = all(
        p.target_gap >= 4 * epsilon - 1e-12 and p.attention_gap <= p.guaranteed_gap for p in (*pairs, pair)
    )
    gaps = [p.attention_gap for p in pairs]
    return holding(
        fine,
        f"T = 7, k = 2, n = 1, epsilon = 1/512: {len(pairs)} random maps, targets 4 epsilon apart, attention "
        f"{min(gaps):.0e} to {max(gaps):.0e} apart (guaranteed: {pair.guaranteed_gap:.2f})",
        {"attention_gaps": gaps, "target_gaps": [p.target_gap for p in pairs]},
        certificate,
    )


def _random_pair(theta: Any, shift: Any, outer: Any, slopes: Any, epsilon: float) -> CollidingPair:
    net = TwoLayer(theta[:, None], shift, outer[None] / 2, np.array([outer.sum() / 2]))
    return retrieval_pair(
        lambda x: net(x[:, None]),
        lambda x: slopes[0] * x + slopes[1] * np.tanh(3 * x - 1),
        n_tokens=7,
        k=2,
        epsilon=epsilon,
    )


def _t2_bound(effort: Effort) -> Finding:
    cases = [(16, 2, 2, 1e-4), (64, 2, 6, 1e-4), (64, 2, 6, 1e-5), (64, 32, 6, 1e-5)]
    found = [retrieval_width_bound(*case) for case in cases]
    again = []
    for tokens, k, n, epsilon in cases:  # by the inequality chain of the proof, not by the closed form
        m = tokens - k + 1
        grid = math.floor(1 / (16 * m * epsilon))
        eta = 4 * m * grid ** (-m / (n + 1))
        again.append(2 * epsilon / (math.sqrt(n) * 2 * math.sqrt(n) * eta / (k - 1)))
    same = np.allclose(found, again, rtol=1e-9)
    return holding(
        bool(same),
        "width at least "
        + ", ".join(f"{value:.4g} at {case}" for value, case in zip(found, cases, strict=True)),
        {"cases": cases, "width": found},
    )


CLAIMS: tuple[Claim, ...] = (
    theorem_claim(
        "t1.k.order",
        "Theorems 1 and 4",
        "the exponent of the informal statement is at most that of the formal one",
        "H, n, T at least 1",
        "both exponents as fractions over a range",
        _k_order,
        Verdict.HOLDS,
        correction="the formal exponent is the larger one for H >= 2, by (H - 1)/(H(n+1)+1); it implies the "
        "informal one",
        proof="one-layer-is-not-enough",
    ),
    theorem_claim(
        "t1.identity14",
        "Appendix A.1, (14) = (15)",
        "the difference of two weighted means splits into a part from the weights and one from the values",
        "positive weights",
        "exact values on a grid that decides the identity, and random draws",
        _identity14,
        Verdict.HOLDS,
    ),
    theorem_claim(
        "t1.kset",
        "Appendix A.1",
        "the sets K_i = -B(b_i, L) cap Q0 hold tokens",
        "b_i in Q0, L below 0.7",
        "sign of the third coordinate on -B(b, L)",
        _kset,
        Verdict.FAILS,
        correction="K_i = -(B(b_i, L) cap Q0); with it the proof goes through",
        proof="one-layer-is-not-enough",
    ),
    theorem_claim(
        "t1.step3.factor",
        "Appendix A.1, step 3",
        "x(t).v(t) tends to a ninth of the smallest inner product",
        "v(t) the softmax average of x(s)/3, beta to infinity",
        "one token exactly; random sequences at beta = 1e5",
        _step3,
        Verdict.FAILS,
        correction="(x(t)/3).v(t) does; x(t)/3 is what the residual stream holds",
        proof="two-layers-are",
    ),
    theorem_claim(
        "t1.softmaxgap",
        "Appendix A.1, steps 3 and 6",
        "a large beta brings the softmax average close to the maximum, uniformly",
        "T scores, any real numbers",
        "random and extreme scores against W((T-1)/e)/beta",
        _softmaxgap,
        Verdict.HOLDS,
        correction="exactly W((T-1)/e)/beta, so beta = (72/epsilon) W((T-1)/e), at most 72 ln(T)/epsilon; "
        "beta must not count as a weight",
        proof="how-far-softmax-is-from-the-maximum",
    ),
    theorem_claim(
        "t1.build",
        "Theorem 4, part 2",
        "a two-layer transformer with one head each and dimension 6 is within epsilon of the target, with "
        "O(1/epsilon) parameters",
        "weights at most 1, beta free",
        "the transformer is built; largest error over random, nearly tied and climbed inputs",
        _build,
        Verdict.HOLDS,
        correction="after repairs: (x/3).v in step 3, W_K of layer 2, and an output block of "
        "O(epsilon^-1/2) units",
        proof="two-layers-are",
    ),
    theorem_claim(
        "t1.width",
        "Appendix A.1, step 4",
        "O(1/epsilon) units compute the inner product",
        "weights at most 1",
        "widths for epsilon from 0.4 to 0.003",
        _width,
        Verdict.HOLDS,
        correction="true and not sharp: Richardson extrapolation needs O(epsilon^-1/2), and so on",
        proof="two-layers-are",
    ),
    theorem_claim(
        "t1.a21",
        "Appendix A.1, step 5",
        "the product of query and key matrix can have the single entry -2 although weights are at most 1",
        "entries at most 1",
        "the matrices of the construction, multiplied",
        _a21,
        Verdict.HOLDS,
    ),
    theorem_claim(
        "t1.outputo1",
        "Appendix A.1, step 6",
        "the output block computes 2 + 18 c with O(1) parameters",
        "tanh units, weights at most 1, every epsilon",
        "a bound for 18 units by enclosures of tanh; widths of the block that is built",
        _output_o1,
        Verdict.FAILS,
        correction="O(epsilon^-1/2) units do it, so the total stays O(1/epsilon); no fixed number does",
        proof="the-output-block",
    ),
    theorem_claim(
        "t1-rem",
        "Remark after Theorem 4",
        "the same holds on [0, 1]^3 with a similar target",
        "target F(2X - 1)",
        "the transformer with embedding (2x - 1)/3; largest error found",
        _t1_remark,
        Verdict.HOLDS,
        correction="the same formula on [0, 1]^3 is another target: all inner products are at least 0",
        proof="two-layers-are",
    ),
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
"""In the order of the paper."""
