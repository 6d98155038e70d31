"""P1 Theorem VI.1, Example VI.2 and appendix G: how close softmax is to the maximum at a margin.

Example VI.2 takes 1/sqrt(64) for the temperature of a head with 64 dimensions; it is sqrt(64) on raw scores,
and there nothing is left of its bounds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, failing, holding
from hardmax.papers.recipes import Comparison, Option, Outcome, Settings, recipe, stated, tabulated
from hardmax.temperature.bands import margin_needed
from hardmax.temperature.margin_bounds import (
    QUANTITIES,
    StabilityBounds,
    stability_bounds,
    standard_temperature,
)
from hardmax.temperature.observed_scores import check_stability

Floats = NDArray[np.float64]
MARGIN = "score i leads all others by at least the margin; e = exp(-margin/temperature), m = N - 1"
SLACK = 1 + 1e-12  # what floats may add to a ratio that is 1 in truth


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
        report = check_stability(scores, temperature)
        seen = scale * getattr(report, measured)
        for i in range(0, len(scores), 7 if effort is Effort.QUICK else 40):
            largest = max(largest, _over(seen[i], scores.shape[1], report.margin[i], temperature, bound))
            n_rows += 1
        last = _over(seen[-1], scores.shape[1], report.margin[-1], temperature, bound)
        largest, extreme = max(largest, last), max(extreme, last)
    return largest, extreme, n_rows


def _over(value: float, n: int, margin: float, temperature: float, bound: str) -> float:
    limit = getattr(stability_bounds(n, float(margin), temperature), bound)
    return float(value) / limit if limit > 0.0 else 0.0


@claim("tropical.lse_value", "Theorem VI.1", Verdict.PROVED).states(
    "The log-sum-exp exceeds the maximum by at most temperature log(1 + m e).",
    hypotheses=MARGIN,
    computation="random and extreme scores, N up to 512",
    proof="temperature.md#value-and-gradient",
)
def _lse_value(effort: Effort) -> Finding:
    largest, extreme, rows = _ratios(effort, "value_error", "value")
    return holding(
        largest <= SLACK and extreme >= 1 / SLACK,
        f"error over bound at {rows} score vectors: at most {largest:.12f}; with all rivals at the margin "
        f"{extreme:.12f}",
        {"largest_ratio": largest, "ratio_at_extreme": extreme},
    )


@claim("tropical.lse_grad", "Theorem VI.1", Verdict.PROVED).states(
    "Softmax is within 2 m e of one-hot in the L1 norm.",
    hypotheses=MARGIN,
    computation="random and extreme scores, N up to 512",
    correction="The least upper bound is 2 m e / (1 + m e).",
    proof="temperature.md#value-and-gradient",
)
def _lse_grad(effort: Effort) -> Finding:
    largest, extreme, rows = _ratios(effort, "total_variation", "gradient_sharp", scale=2.0)
    printed = _ratios(effort, "total_variation", "gradient_paper", scale=2.0)[0]
    return holding(
        max(largest, printed) <= SLACK and extreme >= 1 / SLACK,
        f"L1 distance at {rows} score vectors: at most {printed:.6f} of 2 m e and {largest:.12f} of the "
        f"sharp 2 m e / (1 + m e), attained with all rivals at the margin",
        {"largest_ratio": printed, "largest_ratio_sharp": largest, "ratio_at_extreme": extreme},
    )


@claim("tropical.cov_lemma", "Appendix G", Verdict.FAILS).states(
    "The norm of diag(p) - p p^T is at most the largest p_k (1 - p_k).",
    hypotheses="p is a probability vector",
    computation="exact quotients at two probability vectors; dense eigenvalues at random ones",
    correction="It is at least that, always, and at most twice that.",
    proof="temperature.md#the-covariance-lemma-is-reversed",
)
def _cov_lemma(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    ratios = []
    for n in range(2, 9):
        for p in rng.dirichlet(np.full(n, 0.7), 40 if effort is Effort.QUICK else 2000):
            largest = float((p * (1 - p)).max())
            if largest > 1e-9:
                ratios.append(float(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]) / largest)
    return failing(
        min(ratios) >= 1 / SLACK,
        f"p = (1/2, 1/2): norm 1/2, max p(1-p) = 1/4; at {len(ratios)} random p the norm is "
        f"{min(ratios):.3f} to {max(ratios):.3f} times max p(1-p), never less",
        {"least_ratio": min(ratios), "largest_ratio": max(ratios)},
        Certificate(
            "softmax_covariance",
            {"cases": [{"weights": [1, 1], "vector": [1, -1]}, {"weights": [1, 1, 1], "vector": [1, -1, 0]}]},
            {"quotients": [Fraction(1, 2), Fraction(1, 3)]},
        ),
    )


def _star_case(n: int, epsilon: Fraction) -> dict[str, Any]:
    """All rivals at the margin, and the direction in which the variance is largest."""
    return {"weights": [1, *[epsilon] * (n - 1)], "vector": [n - 1, *[-1] * (n - 1)]}


@claim("tropical.lse_hess_paper", "Theorem VI.1", Verdict.FAILS).states(
    "The norm of the Hessian is at most m e / temperature.",
    hypotheses=MARGIN,
    computation="exact quotients with all rivals at the margin, N = 2, 3, 4, 8, 512",
    correction="N e / temperature, and never more than 1 / (2 temperature).",
    proof="temperature.md#the-short-bound-on-the-hessian",
)
def _lse_hess_paper(effort: Effort) -> Finding:
    sizes = (2, 3, 4, 8, 512)
    tiny = Fraction(1, 10**6)
    attained = [Fraction(n) * tiny / (1 + (n - 1) * tiny) ** 2 for n in sizes]
    certificate = Certificate(
        "softmax_covariance",
        {"cases": [_star_case(n, tiny) for n in sizes]},
        {"quotients": attained},
    )
    ratios = [float(value / ((n - 1) * tiny)) for n, value in zip(sizes, attained, strict=True)]
    example = stability_bounds(512, 2.0, 0.125)
    vi2 = example.hessian_sharp / example.hessian_paper
    return failing(
        min(ratios) > 1.0 and vi2 > 1.0,
        "attained over printed at e = 1e-6: "
        + ", ".join(f"{ratio:.4f} (N={n})" for n, ratio in zip(sizes, ratios, strict=True))
        + f"; in Example VI.2 {vi2:.5f}",
        {"n": list(sizes), "ratios": ratios, "example_vi2": vi2},
        certificate,
    )


@claim("tropical.lse_hess_fixed", "Theorem VI.1, corrected", Verdict.PROVED).states(
    "The norm of the Hessian is at most min(N e, 1/2) / temperature.",
    own=True,
    hypotheses=MARGIN,
    computation="the secular equation and dense eigenvalues at random scores",
    proof="temperature.md#the-short-bound-on-the-hessian",
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
        max(largest, dense) <= SLACK,
        f"norm over min(N e, 1/2) / temperature: at most {largest:.6f} at {rows} score vectors by the "
        f"secular equation, {dense:.6f} by dense eigenvalues",
        {"largest_ratio": largest, "largest_ratio_dense": dense},
    )


@claim("tropical.lse_hess_sharp", "Theorem VI.1, sharp", Verdict.PROVED).states(
    "The supremum of the norm of the Hessian is max over k from 1 to m of (k+1) e / (1 + k e)^2, over "
    "the temperature.",
    own=True,
    hypotheses=MARGIN,
    computation="k rivals at the margin and one in between, and random rivals, N up to 512",
    proof="theorems.md#theorem-1",
)
def _lse_hess_sharp(effort: Effort) -> Finding:
    """The family of the proof's last step, k rivals at the margin and one between, and random rivals."""
    from hardmax.temperature.observed_scores import leading_eigenvalue

    rng = np.random.default_rng(0)
    largest, least = 0.0, math.inf
    sizes = (2, 3, 4, 5, 6, 16, 128, 512)
    for n in sizes:
        for e in (1e-4, 0.02, 0.1, 0.25, 0.4, 0.6, 0.8, 0.95, 1.0):
            sharp = stability_bounds(n, -math.log(e), 1.0).hessian_sharp
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
        largest <= SLACK and least >= 1 / SLACK,
        f"largest norm found over the supremum, N from 2 to {sizes[-1]}: {largest:.12f}; for N <= 6 it is "
        f"reached ({least:.12f})",
        {"largest_ratio": largest, "least_ratio_small_n": least},
    )


@claim("tropical.lse_affine_paper", "Theorem VI.1", Verdict.FAILS).states(
    "The gradient is Lipschitz with constant m e / temperature, and the tangent plane is off by at most "
    "half of that times the squared distance.",
    hypotheses=MARGIN,
    computation="two keys with rational e before and after a step, logarithms in intervals; short steps "
    "in 60 digits",
    correction="N in place of m.",
    proof="temperature.md#lipschitz-constant-and-tangent-plane",
)
def _lse_affine_paper(effort: Effort) -> Finding:
    step = math.log(2)  # what the margin gains when e goes from 1/20 to 1/40
    gradient = (1 / 21 - 1 / 41) / (step / 40)
    tangent = (step / 21 - math.log(42 / 41)) / (step**2 / 80)
    cases = {2: (3.0, 0.5), 3: (2.0, 0.125), 512: (2.0, 0.125)}
    ratios = {n: _affine_ratios(n, *case, 1e-5)[0] for n, case in cases.items()}
    return failing(
        min(gradient, tangent) > 1.0 and all(max(pair) > 1.0 for pair in ratios.values()),
        f"two keys, e from 1/20 to 1/40: the gradient moves {gradient:.3f} times as much as the bound "
        f"allows, the tangent plane is off by {tangent:.3f} times its bound; after short steps: "
        + ", ".join(f"{a:.3f} and {b:.3f} (N={n})" for n, (a, b) in ratios.items()),
        {"ratios": {str(n): list(pair) for n, pair in ratios.items()}},
        Certificate(
            "tangent_error",
            {"before": Fraction(1, 20), "after": Fraction(1, 40)},
            {"gradient": math.floor(1000 * gradient), "tangent": math.floor(1000 * tangent)},
        ),
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


@claim("tropical.lse_affine_fixed", "Theorem VI.1, corrected", Verdict.PROVED).states(
    "The gradient is Lipschitz with constant N e / temperature, and the tangent plane is off by at most "
    "half of that times the squared distance.",
    own=True,
    hypotheses=MARGIN,
    computation="steps in the worst direction in 60 digits",
    proof="temperature.md#lipschitz-constant-and-tangent-plane",
)
def _lse_affine_fixed(effort: Effort) -> Finding:
    cases = [(2, 3.0, 0.5), (3, 2.0, 0.125), (10, 1.0, 1.0), (512, 2.0, 0.125)]
    steps = (1e-3, 0.1, 1.0, 10.0)
    largest = max(max(_affine_ratios(*case, step)[1]) for case in cases for step in steps)
    nearest = max(_affine_ratios(512, 2.0, 0.125, 1e-9)[1])
    return holding(
        largest <= SLACK,
        f"steps of 0.001 to 10 in the worst direction, N = 2, 3, 10, 512: at most {largest:.6f} of the "
        f"corrected bounds, {nearest:.6f} for N = 512 and a step of 1e-9",
        {"largest_ratio": largest},
    )


@claim("tropical.ex_vi2_numbers", "Example VI.2", Verdict.PROVED).states(
    "For N = 512, margin 2 and temperature 1/8 the three bounds are 7.18e-6, 1.15e-4 and 4.6e-4, and the "
    "concentration is 99.98%.",
    hypotheses="the printed digits are truncated, not rounded",
    computation="the four numbers in intervals",
    correction="The first is 7.19e-6 when rounded; the concentration is at least 99.994%, because total "
    "variation is half of the L1 distance; and 4.6004e-4 is below 4.6089e-4, which is attained.",
)
def _ex_vi2_numbers(effort: Effort) -> Finding:
    bounds = stability_bounds(512, 2.0, 0.125)
    return holding(
        _truncated(bounds) == [718, 115, 46, 9998],
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
        Certificate(
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
        ),
    )


def _truncated(bounds: StabilityBounds) -> list[int]:
    """The digits that Example VI.2 prints: value, L1 distance, Hessian, concentration."""
    shares = (bounds.value * 1e8, bounds.gradient_paper * 1e6, bounds.hessian_paper * 1e5)
    return [math.floor(x) for x in (*shares, 1e4 * (1 - bounds.gradient_paper))]


def _top_probability(d_head: int, temperature: float | None = None) -> float:
    """What the larger of the scores 2 and 0 gets: in a standard head, or at a temperature."""
    if temperature is not None:
        return float(check_stability([[2.0, 0.0]], temperature).top_probability[0])
    weights = np.exp(np.array([2.0, 0.0]) / math.sqrt(d_head))
    return float(weights[0] / weights.sum())


@claim("tropical.ex_vi2_tau", "Example VI.2, section III-D", Verdict.FAILS).states(
    "A standard transformer with d_k = 64 has temperature 1/sqrt(d_k) = 0.125.",
    hypotheses="attention is softmax(q.k / sqrt(d_k)), temperature divides the scores",
    computation="softmax of raw scores over sqrt(64), beside temperatures 8 and 1/8",
    correction="It is sqrt(d_k) = 8 on raw scores, 1 on scaled ones, and there every bound of the example "
    "is vacuous.",
    proof="temperature.md#one-word-for-it",
)
def _ex_vi2_tau(effort: Effort) -> Finding:
    standard = _top_probability(64)
    seen = {t: _top_probability(64, t) for t in (8.0, 0.125)}
    bounds = stability_bounds(512, 2.0, standard_temperature(64))
    return failing(
        abs(seen[8.0] - standard) < 1e-15 and abs(seen[0.125] - standard) > 0.4 and len(bounds.vacuous) == 5,
        f"scores 2 and 0, 64 dimensions: softmax(s/sqrt 64) gives {standard:.4f}, temperature 8 gives "
        f"the same, 1/8 gives {seen[0.125]:.7f}; at temperature 8 every bound of the example is vacuous: top "
        f"probability at least {bounds.top_probability:.2%}, value bound {bounds.value:.3g}, Hessian "
        f"{bounds.hessian_paper:.3g} (true supremum {bounds.hessian_sharp:.3g})",
        {"standard": standard, "at_8": seen[8.0], "at_one_eighth": seen[0.125]},
        Certificate(
            "softmax_tail",
            {"n_tokens": 512, "margin": 2, "d_head": 64},
            {"standard": "2.50647e-3", "printed": "9.99942e-1"},
        ),
    )


@recipe(
    "tropical.exVI2",
    "Example VI.2 at the temperature it takes, and at the one a head has",
    Option("n_tokens", 512, "keys (the paper: 512)", least=2),
    Option("margin", 2.0, "lead of the largest score (the paper: 2)", least=0.001),
    Option("d_head", 64, "dimension of the head, d_k (the paper: 64)", least=1),
)
def _run_example_vi2(settings: Settings) -> Outcome:
    n, margin, d_head = settings["n_tokens"], settings["margin"], settings["d_head"]
    raw = standard_temperature(d_head)
    ways = {"paper": 1 / raw, "raw scores": raw, "scaled scores": 1.0}
    bounds = {way: stability_bounds(n, margin, temperature) for way, temperature in ways.items()}
    printed, real = bounds["paper"], bounds["raw scores"]
    as_in_paper = (n, margin, d_head) == (512, 2.0, 64)
    distance = f"{printed.gradient_paper:.4g} (sharp {printed.gradient_sharp:.5g})"
    concentration = (
        f"{1 - printed.gradient_paper:.4%}; the total variation is half of L1: at least "
        f"{printed.top_probability:.4%}"
    )
    standard, upside_down = _top_probability(d_head), _top_probability(d_head, printed.temperature)
    return Outcome(
        figures={"exVI2": _margin_picture(n, margin, ways)},
        tables={"bounds": _bounds_table(bounds)},
        comparisons=(
            stated(
                f"temperature of a standard head, d_k = {d_head}",
                f"1/sqrt({d_head}) = {printed.temperature:g}",
                "tropical.ex_vi2_tau",
            ).compared(
                f"sqrt({d_head}) = {real.temperature:g} on raw scores, 1 on scaled ones; scores 2 and 0: "
                f"{standard:.4f}, at the temperature of the paper {upside_down:.4f}",
                abs(upside_down - standard) < 1e-12,
            ),
            *(
                stated(quantity, paper if as_in_paper else "not stated", "tropical.ex_vi2_numbers").compared(
                    computed, _truncated(printed)[place] == digits if as_in_paper else None, exactly=True
                )
                for quantity, paper, computed, place, digits in (
                    ("value above the maximum", "7.18e-6", f"{printed.value:.4g}", 0, 718),
                    ("L1 distance to one-hot", "1.15e-4", distance, 1, 115),
                    ("concentration on the winner, 1 - L1 distance", "99.98%", concentration, 3, 9998),
                )
            ),
            stated(
                "norm of the Hessian at most",
                "4.6e-4" if as_in_paper else f"{printed.hessian_paper:.5g} (the formula)",
                "tropical.lse_hess_paper",
            ).compared(
                f"supremum {printed.hessian_sharp:.5g}, formula {printed.hessian_paper:.5g}, corrected "
                f"{printed.hessian:.5g}",
                printed.hessian_sharp <= printed.hessian_paper,
            ),
            *(_at_real_temperature(way, bounds[way]) for way in ("raw scores", "scaled scores")),
            stated(
                "margin that gives the printed accuracy on raw scores", f"{margin:g}", "tropical.ex_vi2_tau"
            ).compared(f"{margin * raw * raw:g} raw, {margin * raw:g} scaled", margin * raw * raw <= margin),
        ),
        notes=(
            "The same ratio of margin to temperature gives the same gradient, the same value over "
            "temperature and the same Hessian times temperature.",
            f"On raw scores a margin of {margin_needed(n, raw):.4g} makes every query of such a head hard "
            "up to 1%.",
        ),
    )


def _bounds_table(bounds: dict[str, StabilityBounds]) -> dict[str, Any]:
    rows = []
    for way, one in bounds.items():
        for quantity in QUANTITIES:
            values = (getattr(one, f"{quantity}{form}") for form in ("", "_sharp", "_paper"))
            rows.append((way, one.temperature, quantity, *values, quantity in one.vacuous))
    return tabulated("reading temperature quantity corrected sharp paper vacuous", rows)


def _at_real_temperature(way: str, bounds: StabilityBounds) -> Comparison:
    empty = len(bounds.vacuous)
    computed = (
        f"{empty} of {len(QUANTITIES)} bounds say nothing: top probability at least "
        f"{bounds.top_probability:.2%}, value {bounds.value:.3g}, Hessian formula "
        f"{bounds.hessian_paper:.3g}, supremum {bounds.hessian_sharp:.3g}"
    )
    return stated(
        f"the same example at temperature {bounds.temperature:g} ({way})",
        "virtually affine",
        "tropical.ex_vi2_tau",
    ).judged(computed, earned(Verdict.VACUOUS, empty > 0, computed))


def _margin_picture(n: int, margin: float, ways: dict[str, float]) -> Any:
    from hardmax.plotting.temperatures import draw_guarantees

    margins = np.geomspace(0.05, 500.0, 161).tolist()
    rows = {
        f"{temperature:g} ({way})": [stability_bounds(n, delta, temperature) for delta in margins]
        for way, temperature in sorted(ways.items(), key=lambda way: way[1])
    }
    return draw_guarantees(rows, margin=margin)
