"""P2 Theorems 1 and 4, appendix A.1: depth separation, built and bounded; no training.

What is checked here is built in :mod:`hardmax.flow`; proofs stand in ``docs/constructions.md``. The paper
prints no numbers for its theorems, so the comparisons are about exponents, orders and what holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from hardmax.flow.theorems.colliding_pairs import (
    SingleLayer,
    cap_centres,
    separation_exponents,
    separation_pair,
)
from hardmax.flow.theorems.depth_separation import (
    affine_readout,
    inner_product_block,
    separation_transformer,
    softmax_gap,
    sup_error,
)
from hardmax.papers import replay
from hardmax.papers.ledger import (
    Certificate,
    Effort,
    Finding,
    Verdict,
    claim,
    earned,
    exact,
    failing,
    holding,
    within,
)
from hardmax.papers.recipes import Option, Outcome, Settings, recipe, stated, tabulated


def log_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y against log x.

    >>> round(log_slope([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# Theorem 1
# ----------------------------------------------------------------------------------------------------------


@claim("infoflow.t1.lower", "Theorems 1 and 4, part 1", Verdict.PROVED).states(
    "a single layer with H heads of dimension n needs Omega(epsilon^-k) parameters for the target, k = (T "
    "- H "
    "- 1)/(H(n+1)+1) - 1",
    hypotheses="T, H, n fixed, epsilon to 0; weights at most 1, embedded tokens of norm at most 1",
    computation="for random layers, two sequences with targets 4 epsilon apart that the layer hardly tells "
    "apart, and the width they force; one pair in intervals",
    correction="the proof is right up to slips (t1.kset; sqrt(nE) for 1 as the bound on |v_i|; a factor "
    "2T in "
    "(20)); its constants depend on T, H, n, and it says nothing for T < H(n+2) + 3",
    proof="constructions.md#one-layer-is-not-enough",
)
def _lower(effort: Effort) -> Finding:
    epsilon = 1.1e-4
    layers = [SingleLayer.random(1, 1, seed) for seed in range(3 if effort is Effort.QUICK else 20)]
    pairs = [separation_pair(layer, n_tokens=8, epsilon=epsilon) for layer in layers]
    widths = [pair.required_width for pair in pairs]
    layer, pair = layers[0], pairs[0]

    def listed(array: Any) -> list[Any]:
        return [[Fraction(float(x)) for x in row] for row in array]

    data = {
        "scores": listed(layer.scores),
        "values": [listed(rows) for rows in layer.values],
        "beta": Fraction(layer.beta),
        "epsilon": Fraction(epsilon),
        "first": listed(np.clip(pair.first, -1, 1)),
        "second": listed(np.clip(pair.second, -1, 1)),
    }
    width = replay.value_of("infoflow.t1.lower", exact(data))["width_at_least"]
    return holding(
        all(pair.target_gap > 3.9 * epsilon for pair in pairs) and min(widths) > 1000 and width > 1000,
        f"T = 8, H = n = 1, epsilon = {epsilon:g}: {len(pairs)} random layers, targets "
        f"{pairs[0].target_gap / epsilon:.2f} epsilon apart; the block behind them needs at least "
        f"{', '.join(f'{each:.3g}' for each in widths)} units; the first in intervals {width}",
        {"widths": widths, "in_intervals": width},
        Certificate("separation_pair", data, {"width_at_least": width}),
    )


@claim("infoflow.t1.k.order", "Theorems 1 and 4", Verdict.PROVED).states(
    "the exponent of the informal statement is at most that of the formal one",
    hypotheses="H, n, T at least 1",
    computation="both exponents as fractions over a range",
    correction="the formal exponent is the larger one for H >= 2, by (H - 1)/(H(n+1)+1); it implies the "
    "informal one",
    proof="constructions.md#one-layer-is-not-enough",
)
def _k_order(effort: Effort) -> Finding:
    heads, n, tokens = (6, 6, 64) if effort is Effort.QUICK else (16, 12, 256)
    smaller = equal = 0
    ordered = True
    for h, width, t in product(range(1, heads + 1), range(1, n + 1), range(1, tokens + 1)):
        found = separation_exponents(t, h, width)
        smaller += found.informal < found.formal
        equal += found.informal == found.formal
        ordered &= found.informal <= found.formal
    cases = heads * n * tokens
    return holding(
        ordered and equal == n * tokens,
        f"{cases} triples (T, H, n): informal k smaller in {smaller}, equal in {equal}, all of them H = 1",
        {"cases": cases, "smaller": smaller, "equal": equal},
        Certificate(
            "separation_exponents",
            {"heads": heads, "n": n, "tokens": tokens},
            {"smaller": smaller, "equal": equal},
        ),
    )


@claim("infoflow.t1.identity14", "Appendix A.1, (14) = (15)", Verdict.PROVED).states(
    "the difference of two weighted means splits into a part from the weights and one from the values",
    hypotheses="positive weights",
    computation="exact values on a grid that decides the identity, and random draws",
)
def _identity14(effort: Effort) -> Finding:
    grid = [1, 2, 3] if effort is Effort.QUICK else [1, 2, 3, 5]
    cases = 4 * len(grid) ** 4
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
        Certificate("weighted_means", {"grid": grid}, {"cases": cases}),
    )


@claim("infoflow.t1.kset", "Appendix A.1", Verdict.MISPRINT).states(
    "the sets K_i = -B(b_i, L) cap Q0 hold tokens",
    hypotheses="b_i in Q0, L below 0.7",
    computation="sign of the third coordinate on -B(b, L)",
    correction="K_i = -(B(b_i, L) cap Q0); with it the proof goes through",
    proof="constructions.md#one-layer-is-not-enough",
)
def _kset(effort: Effort) -> Finding:
    centre, radius = [Fraction(-2, 7), Fraction(-3, 7), Fraction(-6, 7)], Fraction(1, 12)
    lowest = -centre[2] - radius
    centres, reach = cap_centres(4 if effort is Effort.QUICK else 64)
    highest = float(centres[:, 2].max())
    return earned(
        Verdict.MISPRINT,
        lowest > 0 and highest + reach < 0,
        f"b = (-2, -3, -6)/7, L = 1/12: on -B(b, L) the third coordinate is at least {lowest} > 0, but Q0 "
        f"needs a negative one; on Q0 it is at most -0.707 (of {len(centres)} centres used here, "
        f"{highest:.3f})",
        {"third_coordinate_at_least": float(lowest), "highest_centre": highest},
        Certificate(
            "mirrored_cap",
            {"centre": centre, "radius": radius},
            {"third_coordinate_at_least": lowest},
        ),
    )


@claim("infoflow.t1.step3.factor", "Appendix A.1, step 3", Verdict.MISPRINT).states(
    "x(t).v(t) tends to a ninth of the smallest inner product",
    hypotheses="v(t) the softmax average of x(s)/3, beta to infinity",
    computation="one token exactly; random sequences at beta = 1e5",
    correction="(x(t)/3).v(t) does; x(t)/3 is what the residual stream holds",
    proof="constructions.md#two-layers-are",
)
def _step3(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    tokens = rng.uniform(-1, 1, (200 if effort is Effort.QUICK else 5000, 6, 3))
    built = separation_transformer(0.5, 6).transformer.with_beta(1e5)
    after = built.states(tokens)[0][0]
    smallest = (tokens @ np.swapaxes(tokens, 1, 2)).min(axis=2)
    printed = float(np.abs((tokens * after[:, :, 3:]).sum(axis=2) - smallest / 9).max())
    corrected = float(np.abs((after[:, :, :3] * after[:, :, 3:]).sum(axis=2) - smallest / 9).max())
    limit = 1e-3
    return earned(
        Verdict.MISPRINT,
        printed > 0.1 and corrected < limit,
        f"one token (1, 0, 0): x.v = 1/3 at every beta, not 1/9; {len(tokens)} sequences at beta = 1e5: "
        f"x.v is off by {printed:.2f}, the difference of (x/3).v is {within(corrected, limit)}",
        {"printed": printed, "corrected": corrected},
        Certificate(
            "single_token",
            {"token": [1, 0, 0]},
            {"printed": Fraction(1, 3), "corrected": Fraction(1, 9), "limit": Fraction(1, 9)},
        ),
    )


@claim("infoflow.t1.softmaxgap", "Appendix A.1, steps 3 and 6", Verdict.PROVED).states(
    "a large beta brings the softmax average close to the maximum, uniformly",
    hypotheses="T scores, any real numbers",
    computation="random and extreme scores against W((T-1)/e)/beta",
    correction="exactly W((T-1)/e)/beta, so beta = (72/epsilon) W((T-1)/e), at most 72 ln(T)/epsilon; beta "
    "must not count as a weight",
    proof="constructions.md#how-far-softmax-is-from-the-maximum",
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


@claim("infoflow.t1.build", "Theorem 4, part 2", Verdict.PROVED).states(
    "a two-layer transformer with one head each and dimension 6 is within epsilon of the target, with "
    "O(1/epsilon) parameters",
    hypotheses="weights at most 1, beta free",
    computation="the transformer is built; largest error over random, nearly tied and climbed inputs",
    correction="after repairs: (x/3).v in step 3, W_K of layer 2, and an output block of O(epsilon^-1/2) "
    "units",
    proof="constructions.md#two-layers-are",
)
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
        tabulated("epsilon n_tokens parameters error_bound largest_error", rows),
    )


def _of_order_one_over(widths: Sequence[int], epsilons: Sequence[float]) -> bool:
    """Whether the widths of the product block are O(1/epsilon), with the constant of the construction."""
    return all(w <= 12 * (1 + 1.6 / e) for w, e in zip(widths, epsilons, strict=True))


@claim("infoflow.t1.width", "Appendix A.1, step 4", Verdict.PROVED).states(
    "O(1/epsilon) units compute the inner product",
    hypotheses="weights at most 1",
    computation="widths for epsilon from 0.4 to 0.003",
    correction="true and not sharp: Richardson extrapolation needs O(epsilon^-1/2), and so on",
    proof="constructions.md#two-layers-are",
)
def _width(effort: Effort) -> Finding:
    epsilons = [0.4 / 2**i for i in range(8)]
    plain = [inner_product_block(epsilon / 72)[0].width for epsilon in epsilons]
    better = [inner_product_block(epsilon / 72, square="richardson")[0].width for epsilon in epsilons]
    slope, slope_better = log_slope(epsilons, plain), log_slope(epsilons, better)
    return holding(
        _of_order_one_over(plain, epsilons) and -1.05 < slope < -0.9,
        f"widths {plain[0]} to {plain[-1]} for epsilon 0.4 to {epsilons[-1]:g}: slope {slope:.3f}; with "
        "Richardson "
        f"extrapolation {better[0]} to {better[-1]}, slope {slope_better:.2f}: O(1/epsilon) is not sharp",
        {"epsilon": epsilons, "width": plain, "slope": slope, "richardson": better},
    )


@claim("infoflow.t1.a21", "Appendix A.1, step 5", Verdict.PROVED).states(
    "the product of query and key matrix can have the single entry -2 although weights are at most 1",
    hypotheses="entries at most 1",
    computation="the matrices of the construction, multiplied",
)
def _a21(effort: Effort) -> Finding:
    layer = separation_transformer(0.5, 4).transformer.layers[1]
    product = layer.w_q[0].T @ layer.w_k[0]
    expected = [[0] * 6 for _ in range(6)]
    expected[1][0] = -2
    return holding(
        bool((product == np.array(expected)).all()),
        "W_Q with rows e_2, e_2 and W_K with rows -e_1, -e_1: the product has the single entry -2, from "
        "entries of 1",
        {"entry": float(product[1, 0])},
        Certificate(
            "matrix_product",
            {"left": layer.w_q[0].astype(int).tolist(), "right": layer.w_k[0].astype(int).tolist()},
            {"entry": expected[1][0]},
        ),
    )


@claim("infoflow.t1.outputo1", "Appendix A.1, step 6", Verdict.FAILS).states(
    "the output block computes 2 + 18 c with O(1) parameters",
    hypotheses="tanh units, weights at most 1, every epsilon",
    computation="a bound for 18 units by enclosures of tanh; widths of the block that is built",
    correction="O(epsilon^-1/2) units do it, so the total stays O(1/epsilon); no fixed number does",
    proof="constructions.md#the-output-block",
)
def _output_o1(effort: Effort) -> Finding:
    epsilons = [0.4 / 4**i for i in range(6)]
    return _output_width(
        epsilons, [affine_readout(epsilon / 4, reach=1 / 3)[0].width for epsilon in epsilons]
    )


def _output_width(epsilons: Sequence[float], widths: Sequence[int]) -> Finding:
    """Whether the output block needs more units the smaller epsilon is: no fixed number reaches every one."""
    slope = log_slope(epsilons, widths) if len(set(epsilons)) > 1 else math.nan
    return failing(
        -0.55 < slope < -0.45,
        f"18 units are off by at least 6 - 18 tanh(1/3) = {6 - 18 * math.tanh(1 / 3):.3f} > 1/5, and no "
        "fixed "
        f"number reaches every epsilon; built with {widths[0]} to {widths[-1]} units, slope {slope:.3f}",
        {"epsilon": list(epsilons), "width": list(widths), "slope": slope},
        Certificate(  # 18 units: f(1/3) - f(-1/3) is at most 36 tanh(1/3), but the target moves by 12
            "tanh_signs",
            {"units": 18},
            {"error_above": Fraction(1, 5)},
        ),
    )


@claim("infoflow.t1-rem", "Remark after Theorem 4", Verdict.PROVED).states(
    "the same holds on [0, 1]^3 with a similar target",
    hypotheses="target F(2X - 1)",
    computation="the transformer with embedding (2x - 1)/3; largest error found",
    correction="the same formula on [0, 1]^3 is another target: all inner products are at least 0",
    proof="constructions.md#two-layers-are",
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
        tabulated("epsilon largest_error", rows),
    )


@recipe(
    "infoflow.thm1",
    "Depth separation: two layers built, and what collides in one",
    Option("epsilons", (0.4, 0.2, 0.1, 0.05), "accuracies", paper=(0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)),
    Option("n_tokens", 8, "T of the construction (the paper: any)", paper=64, least=1),
    Option("inputs", 100, "random inputs per family", medium=1000, paper=1000, least=1),
    Option("heads", (1, 2, 4), "heads H of the single layer", least=1),
    Option("head_width", 6, "dimension n of a head in the exponents", least=1),
)
def _run_theorem_1(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Look, Panel, draw_rates

    n_tokens, epsilons = settings["n_tokens"], list(settings["epsilons"])
    made = []
    for square in ("plain", "richardson"):
        for epsilon in epsilons:
            built = separation_transformer(epsilon, n_tokens, square=square)
            found, net = sup_error(built, n_each=settings["inputs"], rng=settings.seed), built.transformer
            sizes = (net.beta, *built.widths, net.n_parameters, net.largest_weight)
            errors = (built.error_bound, found.random, found.adversarial)
            made.append((square, epsilon, n_tokens, *sizes, *errors))
    rows = tabulated(
        "square epsilon n_tokens beta width_product width_output parameters largest_weight "
        "error_bound random adversarial",
        made,
    )
    n = len(epsilons)
    exponents = _separation_table(settings["heads"], settings["head_width"])
    pairs = _separation_pairs(settings)
    forms: tuple[tuple[str, str, Look], ...] = (("formal", "", "line"), ("informal", ", informal", "dashed"))
    inverse = [1 / epsilon for epsilon in epsilons]
    plain, better = rows["parameters"][:n], rows["parameters"][n:]
    over = np.maximum(rows["random"], rows["adversarial"]) / rows["epsilon"]
    outputs = rows["width_output"][:n]
    products, by_richardson = rows["width_product"][:n], rows["width_product"][n:]
    equal = [h for h in settings["heads"] if exponents[f"formal_H{h}"] == exponents[f"informal_H{h}"]]
    parameter_curves = (
        Curve("plain square", inverse, plain),
        Curve("Richardson square", inverse, better),
        Curve("slope 1", inverse, [plain[-1] * v / inverse[-1] for v in inverse], "reference"),
    )
    error_curves = (
        Curve("near ties, hill climbing", epsilons, rows["adversarial"][:n]),
        Curve("random inputs", epsilons, rows["random"][:n]),
        Curve("proven bound", epsilons, rows["error_bound"][:n], "dashed"),
        Curve("ε", epsilons, epsilons, "reference"),
    )
    exponent_curves = tuple(
        Curve(f"H = {h}{name}", exponents["T"], exponents[f"{form}_H{h}"], look, colour)
        for colour, h in enumerate(settings["heads"])
        for form, name, look in (forms if h > 1 else [("formal", ", both forms", forms[0][2])])
    )
    panels = [
        Panel(f"two layers, one head, T = {n_tokens}", "1/ε", "parameters", parameter_curves),
        Panel("largest error that was found", "ε", "error", error_curves),
        Panel(
            f"one layer: exponent k, n = {settings['head_width']}",
            "T",
            "k: at least $\\varepsilon^{-k}$ parameters",
            exponent_curves,
            x_log=False,
            y_log=False,
        ),
    ]
    figure = draw_rates(panels)
    return Outcome(
        figures={"thm1": figure},
        tables={"construction": rows, "exponents": exponents, "pairs": pairs},
        comparisons=(
            stated("largest error over ε", "at most 1", "infoflow.t1.build").compared(
                f"{over.max():.3f}", bool(over.max() <= 1)
            ),
            stated("largest weight", "1", "infoflow.t1.build").compared(
                f"{max(rows['largest_weight']):g}, with β from {min(rows['beta']):.4g} to "
                f"{max(rows['beta']):.4g}",
                max(rows["largest_weight"]) <= 1.0,
            ),
            stated("width of the product block, O(1/ε)", "slope -1 in ε", "infoflow.t1.width").compared(
                f"{_grown(epsilons, products)}; by Richardson extrapolation "
                f"{_grown(epsilons, by_richardson)}",
                _of_order_one_over(products, epsilons),
            ),
            stated("width of the output block, O(1)", "slope 0 in ε", "infoflow.t1.outputo1").judged(
                _grown(epsilons, outputs), _output_width(epsilons, outputs)
            ),
            stated(
                "exponent for one layer, informal at most formal",
                "(T-2H)/(H(n+1)+1)-1 and (T-H-1)/(H(n+1)+1)-1",
                "infoflow.t1.k.order",
            ).compared(
                f"equal for H = {', '.join(map(str, equal)) or 'none'}, of "
                f"{', '.join(map(str, settings['heads']))}",
                all(
                    informal <= formal
                    for h in settings["heads"]
                    for informal, formal in zip(
                        exponents[f"informal_H{h}"], exponents[f"formal_H{h}"], strict=True
                    )
                ),
            ),
            stated("colliding pairs: targets apart over 4ε", "at least 1").compared(
                f"{min(g / e for g, e in zip(pairs['target_gap'], pairs['epsilon'], strict=True)) / 4:.3f}; "
                f"attention {min(pairs['attention_gap']):.1e} to {max(pairs['attention_gap']):.1e} apart",
                all(g >= 4 * e - 1e-12 for g, e in zip(pairs["target_gap"], pairs["epsilon"], strict=True)),
            ),
        ),
        notes=(
            "Errors are found by search, so they are lower bounds on the supremum; the proven bound is "
            "above.",
            "An exponent k of at most 0 says nothing: T must be at least H(n+2)+3.",
        ),
    )


def _grown(epsilons: Sequence[float], widths: Sequence[int]) -> str:
    slope = f", slope {log_slope(epsilons, widths):.3f}" if len(set(epsilons)) > 1 else ""
    return f"{min(widths)} to {max(widths)} units{slope}"


def _separation_table(heads: tuple[int, ...], n: int) -> dict[str, Any]:
    tokens = [8, 16, 32, 48, 64, 96, 128]
    table: dict[str, Any] = {"T": tokens}
    for h in heads:
        found = [separation_exponents(t, h, n) for t in tokens]
        table[f"formal_H{h}"] = [float(each.formal) for each in found]
        table[f"informal_H{h}"] = [float(each.informal) for each in found]
    return table


def _separation_pairs(settings: Settings) -> dict[str, list[Any]]:
    rows = []
    for heads, n, n_tokens, epsilon in ((1, 1, 8, 1.1e-4), (1, 2, 10, 1e-4), (2, 1, 10, 6e-5)):
        layer = SingleLayer.random(heads, n, settings.rng("layer", heads, n))
        pair = separation_pair(layer, n_tokens=n_tokens, epsilon=epsilon)
        gaps = (pair.target_gap, pair.attention_gap, pair.required_width)
        rows.append((heads, n, n_tokens, epsilon, *gaps))
    return tabulated("H n T epsilon target_gap attention_gap required_width", rows)
