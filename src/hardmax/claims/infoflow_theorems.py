"""Claims of the InfoFlow paper about its theorems: depth separation, retrieval, encoding and decoding (P2 appendix A).

What is checked here is built in :mod:`hardmax.flow`; proofs stand in ``docs/constructions.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.integrate import quad

from hardmax.claims.certificates import Certificate
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict
from hardmax.flow.antipodes import antipodal_pair
from hardmax.flow.codes import analog_code, binary_code
from hardmax.flow.decoding_bounds import (
    alternation_program,
    alternation_width_bound,
    decoder_width_bound,
    identity_block,
    identity_error,
)
from hardmax.flow.depth_separation import (
    affine_readout,
    inner_product_block,
    separation_transformer,
    softmax_gap,
)
from hardmax.flow.retrieval_bound import retrieval_exponents, retrieval_pair, retrieval_width_bound
from hardmax.flow.separation_inputs import sup_error
from hardmax.flow.single_layer_bound import cap_centres, separation_exponents
from hardmax.flow.tanh_steps import tanh_step
from hardmax.flow.two_layer import TwoLayer

__all__ = ["CLAIMS"]

_PAGE = "constructions.md"


def _holding(
    true: bool, computed: str, numbers: dict[str, Any], certificate: Certificate | None = None
) -> Finding:
    """Holds if the computation agrees (and the certificate is accepted); otherwise nothing is decided."""
    sure = true and (certificate is None or certificate.holds)
    return Finding(Verdict.HOLDS if sure else Verdict.UNDECIDED, computed, numbers, certificate)


def _failing(fails: bool, computed: str, numbers: dict[str, Any], certificate: Certificate) -> Finding:
    verdict = Verdict.FAILS if fails and certificate.holds else Verdict.UNDECIDED
    return Finding(verdict, computed, numbers, certificate)


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
    return _holding(
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
    return _holding(
        deviation < 1e-12,
        f"equal at {cases} rational points, which decides it (degree 2 in each Q, linear in V); in floats "
        f"{deviation:.1e} on 2000 draws",
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
    return _failing(
        lowest > 0 and highest + reach < 0,
        f"b = (-2, -3, -6)/7, L = 1/12: on -B(b, L) the third coordinate is at least {lowest} > 0, but Q0 needs "
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
    return _failing(
        printed > 0.1 and corrected < 1e-3,
        f"one token (1, 0, 0): x.v = 1/3 at every beta, not 1/9; {len(tokens)} sequences at beta = 1e5: printed "
        f"off by {printed:.2f}, (x/3).v by {corrected:.1e}",
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
    return _holding(
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
    return _holding(
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


def _slope(x: list[float], y: list[float]) -> float:
    """The slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _width(effort: Effort) -> Finding:
    epsilons = [0.4 / 2**i for i in range(8)]
    plain = [inner_product_block(epsilon / 72)[0].width for epsilon in epsilons]
    better = [inner_product_block(epsilon / 72, square="richardson")[0].width for epsilon in epsilons]
    slope, slope_better = _slope(epsilons, plain), _slope(epsilons, better)
    bounded = all(w <= 12 * (1 + 1.2 / e) for w, e in zip(plain, epsilons, strict=True))
    return _holding(
        bounded and -1.05 < slope < -0.9,
        f"widths {plain[0]} to {plain[-1]} for epsilon 0.4 to {epsilons[-1]:g}: slope {slope:.3f}; with Richardson "
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
    return _holding(
        bool((product == np.array(expected)).all()),
        "W_Q with rows e_2, e_2 and W_K with rows -e_1, -e_1: the product has the single entry -2, from entries of 1",
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
    slope = _slope(epsilons, widths)
    return _failing(
        -0.55 < slope < -0.45,
        f"18 units are off by at least 6 - 18 tanh(1/3) = {6 - 18 * math.tanh(1 / 3):.3f} > 1/5, and no fixed "
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
    return _holding(
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
        net = TwoLayer(theta[:, None], shift, outer[None] / 2, [outer.sum() / 2])  # type: ignore[arg-type]
        pairs.append(
            retrieval_pair(
                lambda x, net=net: net(x[:, None]),
                lambda x, slopes=slopes: slopes[0] * x + slopes[1] * np.tanh(3 * x - 1),
                n_tokens=7,
                k=2,
                epsilon=epsilon,
            )
        )
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
    return _holding(
        fine,
        f"T = 7, k = 2, n = 1, epsilon = 1/512: {len(pairs)} random maps, targets 4 epsilon apart, attention "
        f"{min(gaps):.0e} to {max(gaps):.0e} apart (guaranteed: {pair.guaranteed_gap:.2f})",
        {"attention_gaps": gaps, "target_gaps": [p.target_gap for p in pairs]},
        certificate,
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
    return _holding(
        bool(same),
        "width at least "
        + ", ".join(f"{value:.4g} at {case}" for value, case in zip(found, cases, strict=True)),
        {"cases": cases, "width": found},
    )


# Theorem 3
# ----------------------------------------------------------------------------------------------------------


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
    certificate = Certificate("step_code", {"bits": code.bits, **blocks}, {"cells": 64, "truncated": 64})
    return _holding(
        exact,
        f"{cells} dyadic cells of {len(cases)} codes: decoder after encoder is the L-bit truncation in every one",
        {"cells": cells},
        certificate,
    )


def _t3_slope(effort: Effort) -> Finding:
    ranges = {(2, 1): 7, (3, 1): 4, (3, 2): 6, (4, 2): 5, (4, 3): 7}
    slopes, bounded = {}, True
    for (m, n), steps in ranges.items():
        epsilons = [0.5 / 2**i for i in range(steps)]
        counts = [_binary_parameters(m, n, epsilon) for epsilon in epsilons]
        slopes[f"{m},{n}"] = _slope(epsilons, counts)
        bounded &= all(
            count <= 40 * m**2 * (4 * m / e) ** (m / n) for count, e in zip(counts, epsilons, strict=True)
        )
    check = binary_code(4, 3, 0.0625)
    same = _binary_parameters(4, 3, 0.0625) == check.n_parameters
    text = ", ".join(f"{slope:.2f} for ({name})" for name, slope in slopes.items())
    return _holding(
        bounded and same,
        f"slope of parameters in epsilon {text}; -m/n is the limit",
        {"slopes": slopes},
    )


def _binary_parameters(m: int, n: int, epsilon: float) -> int:
    """The dense count of the binary code without building it."""
    bits = max(1, math.ceil(math.log2(2 * m / epsilon) - 1e-12))
    encoder, decoder = m * (2**bits - 1), n * (2 ** -(-m * bits // n) - 1)
    return encoder * (m + 1 + n) + n + decoder * (n + 1 + m) + m


def _tanh_lp(effort: Effort) -> Finding:
    rows, fine = [], True
    for epsilon in (0.5, 0.25, 0.125) if effort is Effort.QUICK else (0.5, 0.25, 0.125, 0.0625):
        code = binary_code(2, 1, epsilon, units="tanh")
        error = code.mean_error(n_samples=2000)
        fine &= error <= epsilon
        rows.append((epsilon, error, code.largest_weight))
    text = ", ".join(f"{error:.3f} <= {epsilon:g} (weights to {w:.1e})" for epsilon, error, w in rows)
    return _holding(
        fine,
        f"m = 2, n = 1, error in L_2: {text}",
        {"epsilon": [r[0] for r in rows], "error": [r[1] for r in rows], "weight": [r[2] for r in rows]},
    )


def _supnorm(effort: Effort) -> Finding:
    w_in = [[1, Fraction(1, 2)], [Fraction(-1, 3), 1], [Fraction(3, 4), Fraction(-2, 3)]]
    b_in, w_out = [Fraction(-1, 2), Fraction(1, 5), 0], [1, Fraction(-1, 2), Fraction(3, 5)]
    # V = (s, 1) runs along one side of the square; f(V) - f(1 - V) changes its sign
    points = [[Fraction(0), Fraction(1)], [Fraction(1), Fraction(1)]]
    encoder = TwoLayer(*(np.array(part, dtype=float) for part in (w_in, b_in, [w_out], [0.0])))  # type: ignore[arg-type]
    ends = np.array([[float(c) for c in point] for point in points])
    signs = [int(s) for s in np.sign(encoder(ends) - encoder(1 - ends))[:, 0]]
    certificate = Certificate(
        "antipodal_signs",
        {"w_in": w_in, "b_in": b_in, "w_out": w_out, "points": points},
        {"signs": signs, "face": 1},
    )
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
    vacuous = signs[0] * signs[1] < 0 and certificate.holds and max(gaps) < 1e-9 and min(errors) >= 0.5
    return Finding(
        Verdict.VACUOUS if vacuous else Verdict.UNDECIDED,
        f"{len(gaps)} encoders, each with an antipodal pair 1 apart and the same code (gaps to {max(gaps):.0e}); "
        f"the tanh codes are off by {', '.join(f'{e:.4f}' for e in errors)} there: no error below 1/2",
        {"code_gaps": gaps, "errors": errors},
        certificate,
    )


def _analog(effort: Effort) -> Finding:
    rows, fine = [], True
    for m, n in ((2, 1), (3, 1), (4, 2), (6, 2)):
        code = analog_code(m, n, 1 / 32)
        r = m // n
        fine &= code.n_units == n * ((r - 1) * (code.cells - 1) + code.cells ** (r - 1) + 1)
        error = code.mean_error()
        smooth = analog_code(m, n, 1 / 32, units="tanh").mean_error(n_samples=1000)
        fine &= error <= 1 / 32 and smooth <= 1 / 32
        rows.append((m, n, code.n_parameters, error, smooth))
    epsilons = [1 / 8 / 2**i for i in range(5)]
    slopes = [
        _slope(epsilons, [analog_code(m, n, e).n_parameters for e in epsilons]) for m, n in ((2, 1), (3, 1))
    ]
    text = "; ".join(f"({m},{n}) {count} weights, {e:.4f}, tanh {s:.4f}" for m, n, count, e, s in rows)
    return _holding(
        fine and -1.1 < slopes[0] < -0.9 and -2.1 < slopes[1] < -1.7,
        f"epsilon = 1/32: {text}; slopes {slopes[0]:.2f} for (2,1), {slopes[1]:.2f} for (3,1)",
        {"cases": [row[:2] for row in rows], "parameters": [row[2] for row in rows], "slopes": slopes},
    )


def _bounded(effort: Effort) -> Finding:
    last = 5 if effort is Effort.QUICK else 6
    options = {"n_dictionary": 41, "n_check": 201} if effort is Effort.QUICK else {}
    widths = [alternation_program(k, **options).width for k in range(1, last + 1)]
    proven = [alternation_width_bound(k) for k in range(1, last + 1)]
    above = all(w >= p for w, p in zip(widths[1:], proven[1:], strict=True))
    return _holding(
        above and all(b / a > 3.43 for a, b in zip(proven, proven[1:], strict=False)),
        f"amplitude 1/4, 1 to {last} alternations: linear programs give {', '.join(f'{w:.3g}' for w in widths)}; "
        f"proven {', '.join(f'{p:.3g}' for p in proven)}, a factor 3.433 each",
        {"program": widths, "proven": proven},
    )


def _big_o(effort: Effort) -> Finding:
    sizes = [1, 4, 16, 64]
    counts = [identity_block(1, 1, p).n_parameters for p in sizes]
    certificate = Certificate(
        "tanh_signs",
        {"sums": [{"constant": Fraction(1, 4) - 1, "terms": [[p, Fraction(1, p)]]} for p in sizes]},
        {"signs": [1] * len(sizes)},
    )
    values = [decoder_width_bound(*case) for case in ((2, 1, 0.01), (2, 1, 0.001), (3, 1, 0.01), (8, 2, 0.01))]
    return _failing(
        counts == [3 * p + 1 for p in sizes],
        f"m = n = 1, epsilon = 1/4: p tanh(v/p) meets the hypothesis for every p, with {', '.join(map(str, counts))}, "
        "... parameters, so O(1) is no consequence; as a lower bound in the mean: width at least "
        + ", ".join(f"{value:.4g}" for value in values),
        {"parameters": counts, "lower_bounds": values},
        certificate,
    )


def _identity(effort: Effort) -> Finding:
    sizes = [1, 2, 4, 8, 16]
    errors = [identity_error(p) for p in sizes]
    sums = [{"constant": 1, "terms": [[-p, Fraction(1, p)]]} for p in sizes]
    certificate = Certificate("tanh_signs", {"sums": sums}, {"signs": [1] * len(sizes)})
    grid = np.linspace(0, 1, 1001)[:, None]
    measured = [float(np.abs(identity_block(1, 1, p)(grid) - grid).max()) for p in sizes]
    same = np.allclose(measured, errors, atol=1e-12)
    return _failing(
        bool(same),
        f"p tanh(v/p) is off by {', '.join(f'{e:.3g}' for e in errors)} for p = {', '.join(map(str, sizes))}, about "
        "1/(3 p^2); no tanh network is the identity on an interval",
        {"p": sizes, "error": errors},
        certificate,
    )


def _lemma1(effort: Effort) -> Finding:
    rows, fine = [], True
    for p in (1.0, 2.0, 4.0):
        for delta in (0.1, 0.01):
            step = tanh_step(delta, p=p, atoms={0.0: 1.0})
            left, right = (
                quad(lambda t, step=step, p=p: _tail_power(step, t, p), 0, 80, limit=200)[0],
                quad(lambda t, step=step, p=p: _tail_power(step, -t, p), 0, 80, limit=200)[0],
            )
            error = (left + right + float(1 - step(0.0)) ** p) ** (1 / p)
            sup = float(step(-1e-3 / step.steepness))
            fine &= error <= step.error_bound < delta
            rows.append((p, delta, error, sup))
    worst = min(row[3] for row in rows)
    text = ", ".join(f"{error:.2g} < {delta:g} (p = {p:g})" for p, delta, error, _ in rows[1::2])
    return _holding(
        fine and worst > 0.5,
        f"density 1 on [-1, 1] and an atom of mass 1 at zero: {text}; next to zero the error is {worst:.2f} and more, so "
        "not in the maximum norm",
        {"p": [r[0] for r in rows], "delta": [r[1] for r in rows], "error": [r[2] for r in rows]},
    )


def _tail_power(step: Any, t: float, p: float) -> float:
    """The error to the power p at x = -t/B (or, for t < 0, on the right), per dx; tails beyond 80 are below 1e-69."""
    argument = step.shift - t if t >= 0 else -(step.shift - t)
    if abs(t) / step.steepness > 1.0:
        return 0.0
    return float((1.0 / (1.0 + math.exp(-2.0 * argument))) ** p / step.steepness)


def _claim(
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


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "t1.k.order",
        "Theorems 1 and 4",
        "the exponent of the informal statement is at most that of the formal one",
        "H, n, T at least 1",
        "both exponents as fractions over a range",
        _k_order,
        Verdict.HOLDS,
        correction="the formal exponent is the larger one for H >= 2, by (H - 1)/(H(n+1)+1); it implies the informal one",
        proof="one-layer-is-not-enough",
    ),
    _claim(
        "t1.identity14",
        "Appendix A.1, (14) = (15)",
        "the difference of two weighted means splits into a part from the weights and one from the values",
        "positive weights",
        "exact values on a grid that decides the identity, and random draws",
        _identity14,
        Verdict.HOLDS,
    ),
    _claim(
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
    _claim(
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
    _claim(
        "t1.softmaxgap",
        "Appendix A.1, steps 3 and 6",
        "a large beta brings the softmax average close to the maximum, uniformly",
        "T scores, any real numbers",
        "random and extreme scores against W((T-1)/e)/beta",
        _softmaxgap,
        Verdict.HOLDS,
        correction="exactly W((T-1)/e)/beta, so beta = (72/epsilon) W((T-1)/e), at most 72 ln(T)/epsilon; beta must not count as a weight",
        proof="how-far-softmax-is-from-the-maximum",
    ),
    _claim(
        "t1.build",
        "Theorem 4, part 2",
        "a two-layer transformer with one head each and dimension 6 is within epsilon of the target, with O(1/epsilon) parameters",
        "weights at most 1, beta free",
        "the transformer is built; largest error over random, nearly tied and climbed inputs",
        _build,
        Verdict.HOLDS,
        correction="after repairs: (x/3).v in step 3, W_K of layer 2, and an output block of O(epsilon^-1/2) units",
        proof="two-layers-are",
    ),
    _claim(
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
    _claim(
        "t1.a21",
        "Appendix A.1, step 5",
        "the product of query and key matrix can have the single entry -2 although weights are at most 1",
        "entries at most 1",
        "the matrices of the construction, multiplied",
        _a21,
        Verdict.HOLDS,
    ),
    _claim(
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
    _claim(
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
    _claim(
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
    _claim(
        "t2.pair",
        "Appendix A.2",
        "for any attention map two sequences collide although their k-th largest values differ by 4 epsilon",
        "rho non-decreasing, epsilon < 1/(64 m)",
        "search over all grid sequences, T = 7, k = 2, n = 1",
        _t2_pair,
        Verdict.HOLDS,
        proof="only-the-maximum-is-cheap",
    ),
    _claim(
        "t2.bound",
        "Appendix A.2",
        "the width of the block behind the attention is bounded below explicitly",
        "weights at most 1, epsilon < 1/(64 m)",
        "closed form against the chain of inequalities",
        _t2_bound,
        Verdict.HOLDS,
        proof="only-the-maximum-is-cheap",
    ),
    _claim(
        "t3.heaviside",
        "Appendix A.3, part 1",
        "decoder after encoder is the truncation to L bits",
        "Heaviside units",
        "every dyadic cell, exactly",
        _heaviside,
        Verdict.HOLDS,
        correction="thresholds of the decoder belong halfway between the latent values, or no tanh unit can replace them",
        proof="the-code-of-the-paper",
    ),
    _claim(
        "t3.slope",
        "Theorem 6, part 1",
        "O(epsilon^(-m/n)) parameters suffice",
        "m > n",
        "parameters of the code for five pairs (m, n)",
        _t3_slope,
        Verdict.HOLDS,
        correction="true and not sharp, see t3.analog",
        proof="the-code-of-the-paper",
    ),
    _claim(
        "t3.tanhlp",
        "Theorem 6, part 1",
        "tanh networks reach an L_p error of epsilon",
        "weights without bound",
        "the tanh code, its error in L_2",
        _tanh_lp,
        Verdict.HOLDS,
        correction="the weights grow at least like epsilon^(-m/n), far outside any constant bound",
        proof="the-code-of-the-paper",
    ),
    _claim(
        "t3.supnorm",
        "Theorem 6, part 2",
        "an error of at most epsilon in the maximum norm forces many parameters",
        "m > n, continuous encoder",
        "antipodal pairs on the boundary of the cube",
        _supnorm,
        Verdict.VACUOUS,
        correction="no such encoder exists for epsilon < 1/2; with the mean error in place of the largest the bound is true",
        proof="no-code-in-the-maximum-norm",
    ),
    _claim(
        "t3.analog",
        "Theorem 6, part 1, sharpened",
        "O(epsilon^(-max(1, m/n - 1))) parameters suffice",
        "n divides m, weights without bound",
        "the code is built; units, error, slopes",
        _analog,
        Verdict.HOLDS,
        proof="a-cheaper-code",
    ),
    _claim(
        "t3.bounded",
        "Theorem 6 with bounded weights",
        "with weights at most 1 every alternation of a decoder costs a factor",
        "n = 1, tanh units",
        "linear programs, and a proven bound from analyticity",
        _bounded,
        Verdict.HOLDS,
        correction="the cost law is no upper bound when weights are bounded: decoding m = 2 numbers from n = 1 costs exp(c/epsilon)",
        proof="bounded-weights",
    ),
    _claim(
        "t3.o",
        "Theorems 3 and 6, part 2",
        "encoder and decoder must have O(epsilon^min(1 - m/n, 0)) parameters",
        "m = n = 1, epsilon = 1/4",
        "networks of every size that meet the hypothesis",
        _big_o,
        Verdict.FAILS,
        correction="Omega instead of O, and the mean error instead of the largest",
        proof="a-lower-bound-in-the-mean",
    ),
    _claim(
        "t3.identity",
        "Appendix A.3",
        "for n >= m the representation is exact with O(1) parameters",
        "tanh networks",
        "enclosures of 1 - p tanh(1/p)",
        _identity,
        Verdict.FAILS,
        correction="never exact; p tanh(v/p) has weights at most 1 and error about 1/(3 p^2)",
        proof="enough-room",
    ),
    _claim(
        "lemma1",
        "Lemma 1",
        "a step is a tanh unit up to any error in L_p(mu)",
        "mu finite, 1 <= p < infinity",
        "quadrature with an atom at zero",
        _lemma1,
        Verdict.HOLDS,
        correction="p = 1 works too, and zero need not lie inside; in the maximum norm it is false",
        proof="lemma-1",
    ),
)
"""In the order of the paper."""
