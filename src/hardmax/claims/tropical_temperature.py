"""Claims of the tropical paper about positive temperatures (P1 section VI, Corollary IV.4, figure 5)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hardmax as hm
from hardmax.claims.certificates import Certificate, network_record
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict, failing, holding, within

__all__ = ["CLAIMS"]

Floats = NDArray[np.float64]

_SLACK = 1 + 1e-12  # what floats may add to a ratio that is 1 in truth


def _margin_scores(effort: Effort) -> list[tuple[Floats, float]]:
    """Scores whose first key leads: random ones, and the extreme ones with every rival at the margin."""
    rng = np.random.default_rng(0)
    tables = []
    for n in (2, 3, 5, 17, 512):
        for temperature in (0.01, 0.125, 1.0, 8.0):
            rows = 40 if effort is Effort.QUICK else 2000
            scores = -rng.exponential(rng.choice([0.1, 1.0, 10.0], (rows, 1)), (rows, n))
            scores[::4] = -np.round(scores[::4] * -4) / 4  # ties among rivals
            scores[:, 0] = rng.exponential(2 * temperature, rows)
            scores[-1, 1:] = 0.0
            tables.append((scores, temperature))
    return tables


def _ratios(effort: Effort, measured: str, bound: str, scale: float = 1.0) -> tuple[float, float, int]:
    """The largest measured quantity over its bound at the query's own margin, that at the extreme rows, and
    the number of rows."""
    largest = extreme = 0.0
    n_rows = 0
    for scores, temperature in _margin_scores(effort):
        report = hm.check_stability(scores, temperature)
        seen = scale * getattr(report, measured)
        for i in range(0, len(scores), 7 if effort is Effort.QUICK else 40):
            largest = max(largest, _over(seen[i], scores.shape[1], report.margin[i], temperature, bound))
            n_rows += 1
        last = _over(seen[-1], scores.shape[1], report.margin[-1], temperature, bound)
        largest, extreme = max(largest, last), max(extreme, last)
    return largest, extreme, n_rows


def _over(value: float, n: int, margin: float, temperature: float, bound: str) -> float:
    limit = getattr(hm.stability_bounds(n, float(margin), temperature), bound)
    return float(value) / limit if limit > 0.0 else 0.0


def _lse_value(effort: Effort) -> Finding:
    largest, extreme, rows = _ratios(effort, "value_error", "value")
    return holding(
        largest <= _SLACK and extreme >= 1 / _SLACK,
        f"error over bound at {rows} score vectors: at most {largest:.12f}; with all rivals at the margin "
        f"{extreme:.12f}",
        {"largest_ratio": largest, "ratio_at_extreme": extreme},
    )


def _lse_grad(effort: Effort) -> Finding:
    largest, extreme, rows = _ratios(effort, "total_variation", "gradient_sharp", scale=2.0)
    printed = _ratios(effort, "total_variation", "gradient_paper", scale=2.0)[0]
    return holding(
        max(largest, printed) <= _SLACK and extreme >= 1 / _SLACK,
        f"L1 distance at {rows} score vectors: at most {printed:.6f} of 2 m e and {largest:.12f} of the "
        f"sharp 2 m e / (1 + m e), attained with all rivals at the margin",
        {"largest_ratio": printed, "largest_ratio_sharp": largest, "ratio_at_extreme": extreme},
    )


def _cov_lemma(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    ratios = []
    for n in range(2, 9):
        for p in rng.dirichlet(np.full(n, 0.7), 40 if effort is Effort.QUICK else 2000):
            largest = float((p * (1 - p)).max())
            if largest > 1e-9:
                ratios.append(float(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]) / largest)
    certificate = Certificate(
        "softmax_covariance",
        {"cases": [{"weights": [1, 1], "vector": [1, -1]}, {"weights": [1, 1, 1], "vector": [1, -1, 0]}]},
        [
            {"quotient": Fraction(1, 2), "above_lemma": True, "above_printed": False},
            {"quotient": Fraction(1, 3), "above_lemma": True, "above_printed": False},
        ],
    )
    return failing(
        min(ratios) >= 1 / _SLACK,
        f"p = (1/2, 1/2): norm 1/2, max p(1-p) = 1/4; at {len(ratios)} random p the norm is "
        f"{min(ratios):.3f} to {max(ratios):.3f} times max p(1-p), never less",
        {"least_ratio": min(ratios), "largest_ratio": max(ratios)},
        certificate,
    )


def _star_case(n: int, epsilon: Fraction) -> dict[str, Any]:
    """All rivals at the margin, and the direction in which the variance is largest."""
    return {"weights": [1, *[epsilon] * (n - 1)], "vector": [n - 1, *[-1] * (n - 1)]}


def _lse_hess_paper(effort: Effort) -> Finding:
    sizes = (2, 3, 4, 8, 512)
    tiny = Fraction(1, 10**6)
    attained = [Fraction(n) * tiny / (1 + (n - 1) * tiny) ** 2 for n in sizes]
    certificate = Certificate(
        "softmax_covariance",
        {"cases": [_star_case(n, tiny) for n in sizes]},
        [{"quotient": value, "above_lemma": True, "above_printed": True} for value in attained],
    )
    ratios = [float(value / ((n - 1) * tiny)) for n, value in zip(sizes, attained, strict=True)]
    example = hm.stability_bounds(512, 2.0, 0.125)
    vi2 = example.hessian_sharp / example.hessian_paper
    return failing(
        min(ratios) > 1.0 and vi2 > 1.0,
        "attained over printed at e = 1e-6: "
        + ", ".join(f"{ratio:.4f} (N={n})" for n, ratio in zip(sizes, ratios, strict=True))
        + f"; in Example VI.2 {vi2:.5f}",
        {"n": list(sizes), "ratios": ratios, "example_vi2": vi2},
        certificate,
    )


def _lse_hess_fixed(effort: Effort) -> Finding:
    largest, _, rows = _ratios(effort, "hessian_norm", "hessian")
    rng = np.random.default_rng(1)
    dense = 0.0
    for _ in range(60 if effort is Effort.QUICK else 3000):
        n, e = int(rng.integers(2, 40)), float(rng.choice([1e-3, 0.05, 0.3, 0.9]))
        p = np.concatenate([[1.0], e * rng.random(n - 1) ** rng.choice([0.1, 1.0])])
        p /= p.sum()
        norm = float(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1])
        dense = max(dense, norm / min(n * e, 0.5))
    return holding(
        max(largest, dense) <= _SLACK,
        f"norm over min(N e, 1/2) / temperature: at most {largest:.6f} at {rows} score vectors by the "
        f"secular equation, {dense:.6f} by dense eigenvalues",
        {"largest_ratio": largest, "largest_ratio_dense": dense},
    )


def _lse_hess_sharp(effort: Effort) -> Finding:
    """The family of the proof's last step, k rivals at the margin and one between, and random rivals."""
    from hardmax.temperature.covariance import leading_eigenvalue

    rng = np.random.default_rng(0)
    largest, least = 0.0, math.inf
    sizes = (2, 3, 4, 5, 6, 16, 128, 512)
    for n in sizes:
        for e in (1e-4, 0.02, 0.1, 0.25, 0.4, 0.6, 0.8, 0.95, 1.0):
            sharp = hm.stability_bounds(n, -math.log(e), 1.0).hessian_sharp
            rows = [e * rng.random((24, n - 1)) ** rng.uniform(0.02, 2, (24, 1))]
            for k in {*range(min(n - 1, 6)), n - 2}:
                between = np.zeros((41, n - 1))
                between[:, :k] = e
                between[:, k] = e * np.linspace(0, 1, 41)
                rows.append(between)
            with np.errstate(divide="ignore"):
                scores = np.log(np.concatenate(rows))
            norms = leading_eigenvalue(np.insert(scores, 0, 0.0, axis=1), 1.0).norm
            largest = max(largest, float(norms.max()) / sharp)
            if n <= 6:
                least = min(least, float(norms.max()) / sharp)
    return holding(
        largest <= _SLACK and least >= 1 / _SLACK,
        f"largest norm found over the supremum, N from 2 to {sizes[-1]}: {largest:.12f}; for N <= 6 it is "
        f"reached ({least:.12f})",
        {"largest_ratio": largest, "least_ratio_small_n": least},
    )


def _lse_affine_paper(effort: Effort) -> Finding:
    step = math.log(2)  # what the margin gains when e goes from 1/20 to 1/40
    gradient = (1 / 21 - 1 / 41) / (step / 40)
    tangent = (step / 21 - math.log(42 / 41)) / (step**2 / 80)
    certificate = Certificate(
        "tangent_error",
        {"before": Fraction(1, 20), "after": Fraction(1, 40)},
        {"gradient": math.floor(1000 * gradient), "tangent": math.floor(1000 * tangent)},
    )
    cases = {2: (3.0, 0.5), 3: (2.0, 0.125), 512: (2.0, 0.125)}
    ratios = {n: _affine_ratios(n, *case, 1e-5)[0] for n, case in cases.items()}
    return failing(
        min(gradient, tangent) > 1.0 and all(max(pair) > 1.0 for pair in ratios.values()),
        f"two keys, e from 1/20 to 1/40: the gradient moves {gradient:.3f} times as much as the bound "
        f"allows, the tangent plane is off by {tangent:.3f} times its bound; after short steps: "
        + ", ".join(f"{a:.3f} and {b:.3f} (N={n})" for n, (a, b) in ratios.items()),
        {"ratios": {str(n): list(pair) for n, pair in ratios.items()}},
        certificate,
    )


def _affine_ratios(n: int, margin: float, temperature: float, step: float) -> tuple[tuple[float, float], ...]:
    """How far the gradient and the tangent plane are off after a step away from the walls, over the printed
    bounds and over the corrected ones; in decimal arithmetic, because the differences are tiny."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        m, tau, h = n - 1, Decimal(temperature), Decimal(step)
        moved = h * n / m  # what the margin gains when the scores move by (1, -1/m, ..., -1/m) h
        e, f = (-(Decimal(margin) / tau)).exp(), (-((Decimal(margin) + moved) / tau)).exp()
        length = (h * h * n / m).sqrt()
        p, q = m * e / (1 + m * e), m * f / (1 + m * f)  # the rivals' share before and after
        gradient = ((p - q) ** 2 * (1 + 1 / Decimal(m))).sqrt()
        tangent = h + tau * ((1 + m * f) / (1 + m * e)).ln() - h * ((1 - p) - p / m)
        return tuple(
            (float(gradient / (c * e / tau * length)), float(2 * tangent / (c * e / tau * length**2)))
            for c in (m, n)
        )


def _lse_affine_fixed(effort: Effort) -> Finding:
    cases = [(2, 3.0, 0.5), (3, 2.0, 0.125), (10, 1.0, 1.0), (512, 2.0, 0.125)]
    pairs = [
        pair for case in cases for step in (1e-3, 0.1, 1.0, 10.0) for pair in [_affine_ratios(*case, step)[1]]
    ]
    largest = max(max(pair) for pair in pairs)
    nearest = max(_affine_ratios(512, 2.0, 0.125, 1e-9)[1])
    return holding(
        largest <= _SLACK,
        f"steps of 0.001 to 10 in the worst direction, N = 2, 3, 10, 512: at most {largest:.6f} of the "
        f"corrected bounds, {nearest:.6f} for N = 512 and a step of 1e-9",
        {"largest_ratio": largest},
    )


def _ex_vi2_numbers(effort: Effort) -> Finding:
    bounds = hm.stability_bounds(512, 2.0, 0.125)
    printed = (bounds.value * 1e8, bounds.gradient_paper * 1e6, bounds.hessian_paper * 1e5)
    truncated = [math.floor(x) for x in printed]
    certificate = Certificate(
        "softmax_tail",
        {"n_tokens": 512, "margin": 2, "temperature": Fraction(1, 8)},
        {
            "value": "7.18797e-6",
            "gradient": "1.15010e-4",
            "hessian_printed": "4.60043e-4",
            "hessian_attained": "4.60891e-4",
            "attained_above_printed": True,
            "top_probability": "9.99942e-1",
        },
    )
    return holding(
        truncated == [718, 115, 46] and math.floor(1e4 * (1 - bounds.gradient_paper)) == 9998,
        f"{bounds.value:.4g}, {bounds.gradient_paper:.4g}, {bounds.hessian_paper:.4g} and "
        f"{1 - bounds.gradient_paper:.4%}: as printed when truncated; but the top probability is at least "
        f"{bounds.top_probability:.4%}, and {bounds.hessian_sharp:.5g} > {bounds.hessian_paper:.5g} is "
        "attained",
        {
            "value": bounds.value,
            "gradient": bounds.gradient_paper,
            "hessian": bounds.hessian_paper,
            "hessian_attained": bounds.hessian_sharp,
            "top_probability": bounds.top_probability,
        },
        certificate,
    )


def _ex_vi2_tau(effort: Effort) -> Finding:
    raw = np.array([[2.0, 0.0]])
    standard = np.exp(raw / math.sqrt(64))
    standard /= standard.sum()
    seen = {t: hm.check_stability(raw, t).top_probability[0] for t in (8.0, 0.125)}
    bounds = hm.stability_bounds(512, 2.0, hm.standard_temperature(64))
    certificate = Certificate(
        "softmax_tail",
        {"n_tokens": 512, "margin": 2, "temperature": 8},
        {
            "value": "4.79110e1",
            "gradient": "7.95934e2",
            "hessian_printed": "4.97459e1",
            "hessian_attained": "3.13135e-4",
            "attained_above_printed": False,
            "top_probability": "2.50647e-3",
        },
    )
    return failing(
        abs(seen[8.0] - standard[0, 0]) < 1e-15
        and abs(seen[0.125] - standard[0, 0]) > 0.4
        and len(bounds.vacuous) == 5,
        f"scores 2 and 0, 64 dimensions: softmax(s/sqrt 64) gives {standard[0, 0]:.4f}, temperature 8 gives "
        f"the same, 1/8 gives {seen[0.125]:.7f}; at temperature 8 every bound of the example is vacuous: top "
        f"probability at least {bounds.top_probability:.2%}, value bound {bounds.value:.3g}, Hessian "
        f"{bounds.hessian_paper:.3g} (true supremum {bounds.hessian_sharp:.3g})",
        {"standard": float(standard[0, 0]), "at_8": float(seen[8.0]), "at_one_eighth": float(seen[0.125])},
        certificate,
    )


def _uniform_limit(effort: Effort) -> Finding:
    head = hm.Network((hm.Attention([[[1], [-1]]], None, [[[1], [-1]]], skip=False),))
    errors = {t: float(1 - head([[t * 1e-4]], t)[0, 0]) for t in (1.0, 0.1, 1e-3, 1e-6)}
    certificate = Certificate(
        "soft_output",
        {"weights": [1, Fraction(1000, 1001)], "values": [1, -1]},
        Fraction(2000, 2001),
    )
    return failing(
        min(errors.values()) > 0.9998,
        "keys and values 1, -1: at the query 1e-4 temperature, inside the cell of key 1, the error is "
        + ", ".join(f"{error:.4f} ({t:g})" for t, error in errors.items())
        + " at the temperatures in brackets; the supremum over the cell is 1 at every one of them",
        {"errors": {str(t): error for t, error in errors.items()}},
        certificate,
    )


def _uniform_limit_fixed(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    largest, rows = 0.0, 0
    for temperature in (0.01, 0.2, 1.0, 8.0):
        for n in (2, 3, 9):
            scores = temperature * rng.standard_normal((100 if effort is Effort.QUICK else 5000, n)) * 4
            report = hm.check_stability(scores, temperature, values=rng.standard_normal((n, 3)))
            if report.output_error is None or report.output_error_bound is None:
                continue
            largest = max(largest, float((report.output_error / report.output_error_bound).max()))
            rows += len(scores)
    extreme = hm.check_stability([[2.0, 0.0, 0.0]], 0.5, values=[[0.0], [1.0], [1.0]])
    attained = 0.0
    if extreme.output_error is not None and extreme.output_error_bound is not None:
        attained = float(extreme.output_error[0] / extreme.output_error_bound[0])
    return holding(
        0.0 < largest <= _SLACK and abs(attained - 1) < 1e-12,
        f"error over (m e / (1 + m e)) max |v_l - v_i| at {rows} queries: at most {largest:.6f}; "
        f"{attained:.12f} where all rivals are at the margin and share a value",
        {"largest_ratio": largest, "ratio_at_extreme": attained},
    )


def _ties_average(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    gap = 0.0
    for _ in range(50 if effort is Effort.QUICK else 1000):
        n, tied = int(rng.integers(3, 9)), int(rng.integers(2, 4))
        keys = rng.integers(-4, 5, (n, 2)).astype(float)
        keys[:, 1] = np.minimum(keys[:, 1], 4)
        keys[:tied, 1] = 5.0  # all of these win at q = (0, 1), by 1 at least
        keys[:tied, 0] = np.arange(tied)
        values = rng.standard_normal((n, 2))
        head = hm.Network((hm.Attention([keys], None, [values], skip=False),))
        soft = head([[0.0, 1.0]], 1e-3)
        gap = max(gap, float(np.abs(soft - values[:tied].mean(axis=0)).max()))
    limit = 1e-12
    return holding(
        gap < limit,
        "on walls of random heads at temperature 0.001 the difference of the output from the mean of the "
        f"tied values is {within(gap, limit)}",
        {"largest_gap": gap},
    )


def _loglift_limit(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    largest = 0.0
    rows = 500 if effort is Effort.QUICK else 50_000
    for temperature in (0.01, 0.3, 2.0):
        for n in (2, 5, 20):
            s, v = rng.standard_normal((2, rows, n)) * rng.exponential(temperature, (2, rows, 1))
            lifted = hm.tropical_sum(s + v, axis=1, temperature=temperature)
            plain = hm.tropical_sum(s, axis=1, temperature=temperature)
            limit = (s + v).max(axis=1) - s.max(axis=1)
            largest = max(largest, float(np.abs(lifted - plain - limit).max() / (temperature * math.log(n))))
    return holding(
        largest <= 1 + 1e-9,
        f"distance from the limit over temperature log N at {9 * rows} random heads: at most {largest:.3f}",
        {"largest_ratio": largest, "instances": 9 * rows},
    )


def _finite_tau_depth(effort: Effort) -> Finding:
    net = hm.sawtooth_network(d=1, n_tokens=4, teeth=1, depth=3)
    middles = np.arange(1, 1024, 2)[:, None] / 1024  # one point in each of the 512 cells
    survivals = [hm.surviving_cells(net, t, middles) for t in (1 / 8, 1e-2, 1e-3, 1e-4, 1e-5)]
    step = 64 if effort is Effort.QUICK else 8
    points = [[Fraction(2 * i + 1, 1024)] for i in range(0, 512, step)]
    certificate = Certificate(
        "soft_signatures",
        {"network": network_record(net), "temperature": Fraction(1, 8), "points": points},
        {"points": len(points), "kept": 0},
    )
    return failing(
        survivals[0].n_cells == 512 and survivals[0].n_surviving == 0,
        "the network of Theorem V.7, d=1, N=4, w=1, L=3, at the middle of each of its 512 cells: signatures "
        "kept "
        + ", ".join(f"{s.n_surviving} ({s.temperature:g})" for s in survivals)
        + f" at the temperatures in brackets; at 1/8 only {survivals[0].n_soft} different signatures occur",
        {
            "temperatures": [s.temperature for s in survivals],
            "surviving": [s.n_surviving for s in survivals],
            "soft_signatures": [s.n_soft for s in survivals],
        },
        certificate,
    )


def _rem_vi3(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    outside = soft = 0
    inside = True
    for _ in range(10 if effort is Effort.QUICK else 200):
        n = int(rng.integers(2, 12))
        keys = rng.standard_normal((n, 2))
        band = hm.transition_band(keys, 0.1, tolerance=0.01)
        scores = rng.uniform(-4, 4, (500, 2)) @ keys.T
        report = hm.check_stability(scores, 0.1, tolerance=0.01)
        gaps = scores.max(axis=1)[:, None] - scores
        with np.errstate(invalid="ignore"):
            near = gaps / band.distance[report.routing] < band.width[report.routing] / 2
        near[np.arange(len(scores)), report.routing] = False
        inside &= bool((near.any(axis=1) | report.hard).all())
        soft += int((~report.hard).sum())
        outside += int((~near.any(axis=1)).sum())
    width = 2 * hm.margin_needed(512, 1.0, tolerance=0.01)
    return holding(
        inside,
        f"{soft} soft queries all lie in the bands, {outside} queries outside them are hard; for 512 keys "
        f"and 1% a band is {width:.1f} temperatures over |k_i - k_j| wide",
        {"soft": soft, "outside": outside, "width_512": width},
    )


def _fig5_hidden_regions(effort: Effort) -> Finding:
    keys = np.array([[2, 0], [0, 2], [-2, 1], [-1, -2], [0, 0]])  # the last one never wins on an open set
    diagram = hm.attention_diagram(keys)
    axis = np.linspace(-4, 4, 81) + 1e-3
    queries = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    temperatures = (1.0, 0.5, 0.1, 0.001)
    cells = []
    for temperature in temperatures:
        scores = queries @ keys.T / temperature
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        cells.append(p.argmax(axis=1))
    same = all((cell == cells[0]).all() for cell in cells)
    counts = [len(np.unique(cell)) for cell in cells]
    words = ", ".join(map(str, counts))
    winners = np.flatnonzero(diagram.nonempty).tolist()
    points = [[Fraction(float(c)) for c in diagram.witnesses[j]] for j in winners]
    certificate = Certificate(
        "routing",
        {"scores": [[*key, 0] for key in keys.tolist()], "points": points},
        {"winners": [[j] for j in winners], "identical": []},
    )
    return failing(
        same and counts == [len(winners)] * 4,
        f"five keys, the most probable key on a grid of {len(queries)} queries: {words} cells at "
        "temperatures 1, 0.5, 0.1, 0.001, the same at every query; none of them is hidden at temperature 1",
        {"cells": counts},
        certificate,
    )


_MARGIN = "score i leads all others by at least the margin; e = exp(-margin/temperature), m = N - 1"


def _claim(name: str, place: str, statement: str, computation: str, **rest: Any) -> Claim:
    rest.setdefault(
        "hypotheses",
        _MARGIN,
    )
    return Claim("tropical", name, place, statement, computation=computation, **rest)


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "lse_value",
        "Theorem VI.1",
        "The log-sum-exp exceeds the maximum by at most temperature log(1 + m e).",
        "random and extreme scores, N up to 512",
        check=_lse_value,
        expected=Verdict.HOLDS,
        proof="temperature.md#value-and-gradient",
    ),
    _claim(
        "lse_grad",
        "Theorem VI.1",
        "Softmax is within 2 m e of one-hot in the L1 norm.",
        "random and extreme scores, N up to 512",
        check=_lse_grad,
        expected=Verdict.HOLDS,
        correction="The least upper bound is 2 m e / (1 + m e).",
        proof="temperature.md#value-and-gradient",
    ),
    _claim(
        "cov_lemma",
        "Appendix G",
        "The norm of diag(p) - p p^T is at most the largest p_k (1 - p_k).",
        "exact quotients at two probability vectors; dense eigenvalues at random ones",
        hypotheses="p is a probability vector",
        check=_cov_lemma,
        expected=Verdict.FAILS,
        correction="It is at least that, always, and at most twice that.",
        proof="temperature.md#the-covariance-lemma-is-reversed",
    ),
    _claim(
        "lse_hess_paper",
        "Theorem VI.1",
        "The norm of the Hessian is at most m e / temperature.",
        "exact quotients with all rivals at the margin, N = 2, 3, 4, 8, 512",
        check=_lse_hess_paper,
        expected=Verdict.FAILS,
        correction="N e / temperature, and never more than 1 / (2 temperature).",
        proof="temperature.md#the-short-bound-on-the-hessian",
    ),
    _claim(
        "lse_hess_fixed",
        "Theorem VI.1, corrected",
        "The norm of the Hessian is at most min(N e, 1/2) / temperature.",
        "the secular equation and dense eigenvalues at random scores",
        check=_lse_hess_fixed,
        expected=Verdict.HOLDS,
        proof="temperature.md#the-short-bound-on-the-hessian",
    ),
    _claim(
        "lse_hess_sharp",
        "Theorem VI.1, sharp",
        "The supremum of the norm of the Hessian is max over k from 1 to m of (k+1) e / (1 + k e)^2, over "
        "the temperature.",
        "k rivals at the margin and one in between, and random rivals, N up to 512",
        check=_lse_hess_sharp,
        expected=Verdict.HOLDS,
        proof="temperature.md#the-least-upper-bound-on-the-hessian",
    ),
    _claim(
        "lse_affine_paper",
        "Theorem VI.1",
        "The gradient is Lipschitz with constant m e / temperature, and the tangent plane is off by at most "
        "half of that times the squared distance.",
        "two keys with rational e before and after a step, logarithms in intervals; short steps in 60 digits",
        check=_lse_affine_paper,
        expected=Verdict.FAILS,
        correction="N in place of m.",
        proof="temperature.md#lipschitz-constant-and-tangent-plane",
    ),
    _claim(
        "lse_affine_fixed",
        "Theorem VI.1, corrected",
        "The gradient is Lipschitz with constant N e / temperature, and the tangent plane is off by at most "
        "half of that times the squared distance.",
        "steps in the worst direction in 60 digits",
        check=_lse_affine_fixed,
        expected=Verdict.HOLDS,
        proof="temperature.md#lipschitz-constant-and-tangent-plane",
    ),
    _claim(
        "ex_vi2_numbers",
        "Example VI.2",
        "For N = 512, margin 2 and temperature 1/8 the three bounds are 7.18e-6, 1.15e-4 and 4.6e-4, and the "
        "concentration is 99.98%.",
        "the four numbers in intervals",
        hypotheses="the printed digits are truncated, not rounded",
        check=_ex_vi2_numbers,
        expected=Verdict.HOLDS,
        correction="The first is 7.19e-6 when rounded; the concentration is at least 99.994%, because total "
        "variation is half of the L1 distance; and 4.6004e-4 is below 4.6089e-4, which is attained.",
    ),
    _claim(
        "ex_vi2_tau",
        "Example VI.2, section III-D",
        "A standard transformer with d_k = 64 has temperature 1/sqrt(d_k) = 0.125.",
        "softmax of raw scores over sqrt(64), beside temperatures 8 and 1/8",
        hypotheses="attention is softmax(q.k / sqrt(d_k)), temperature divides the scores",
        check=_ex_vi2_tau,
        expected=Verdict.FAILS,
        correction="It is sqrt(d_k) = 8 on raw scores, 1 on scaled ones, and there every bound of the "
        "example is vacuous.",
        proof="temperature.md#one-word-for-it",
    ),
    _claim(
        "uniform_limit",
        "Corollary IV.4, Appendix C",
        "On the interior of a cell the output tends to the winner's value uniformly.",
        "keys and values 1 and -1 at a query that shrinks with the temperature",
        hypotheses="linear scores, distinct keys",
        check=_uniform_limit,
        expected=Verdict.FAILS,
        correction="Only where the margin is bounded below: |Z - v_i| <= (m e / (1 + m e)) max |v_l - v_i|.",
        proof="temperature.md#the-output",
    ),
    _claim(
        "uniform_limit_fixed",
        "Corollary IV.4, corrected",
        "Where key i leads by the margin, |Z - v_i| <= (m e / (1 + m e)) max |v_l - v_i|.",
        "random scores and values, and the extreme ones",
        check=_uniform_limit_fixed,
        expected=Verdict.HOLDS,
        proof="temperature.md#the-output",
    ),
    _claim(
        "ties_average",
        "Corollary IV.4",
        "On a wall the limit of the output is the mean of the values of the tied keys.",
        "random heads with exact ties at temperature 0.001",
        hypotheses="fixed values",
        check=_ties_average,
        expected=Verdict.HOLDS,
        proof="temperature.md#ties",
    ),
    _claim(
        "loglift_limit",
        "Definition III.10",
        "With log-lifted values, temperature log z tends to the difference of two tropical polynomials.",
        "distance from the limit over temperature log N at random heads",
        hypotheses="fixed lifted values",
        check=_loglift_limit,
        expected=Verdict.HOLDS,
        correction="With a rate: the distance is at most temperature log N.",
        proof="temperature.md#log-lifted-values",
    ),
    _claim(
        "finite_tau_depth",
        "Remark VI.3, abstract",
        "The cells of a deep network persist at finite temperature.",
        "soft and hard signatures in every cell of a sawtooth network with three layers; intervals in the "
        "certificate",
        hypotheses="depth 3, temperature 1/8 as in Example VI.2",
        check=_finite_tau_depth,
        expected=Verdict.FAILS,
        correction="Routings of the first layer persist at every temperature; deeper ones need margins that "
        "are large against it.",
        proof="temperature.md#what-is-left-of-a-deep-network",
    ),
    _claim(
        "rem_vi3",
        "Remark VI.3",
        "Outside transition bands of width O(temperature) around the walls, one head is within a tolerance "
        "of one-hot.",
        "random queries inside and outside the bands",
        hypotheses="one head, fixed keys and tolerance; argmax cells are the same at every temperature",
        check=_rem_vi3,
        expected=Verdict.HOLDS,
        correction="The width is 2 temperature log((N-1)(1-t)/t) / |k_i - k_j| for a tolerance t: it grows "
        "with log N.",
        proof="temperature.md#how-wide-a-wall-is",
    ),
    _claim(
        "fig5_hidden_regions",
        "Figure 5, section VII-B",
        "As the temperature falls, regions emerge that were hidden at temperature 1.",
        "the most probable key on a grid at four temperatures; a query for each cell",
        hypotheses="a region is where one key has the largest weight",
        check=_fig5_hidden_regions,
        expected=Verdict.FAILS,
        correction="Softmax keeps the order of the scores: the cells are the same at every temperature, "
        "only their contrast grows.",
        proof="temperature.md#what-is-left-of-a-deep-network",
    ),
)
