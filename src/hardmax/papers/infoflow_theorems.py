"""P2 Theorems 1, 2 and 3 as constructions that run: rates, bounds and colliding pairs; no training.

The paper prints no numbers for these theorems, so the comparisons are about exponents, orders and what holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.flow.theorems.antipodes import antipodal_pair
from hardmax.flow.theorems.codes import analog_code, binary_code
from hardmax.flow.theorems.decoding_bounds import (
    alternation_program,
    alternation_width_bound,
    decoder_width_bound,
)
from hardmax.flow.theorems.depth_separation import separation_transformer
from hardmax.flow.theorems.retrieval_bound import retrieval_exponents, retrieval_pair, retrieval_width_bound
from hardmax.flow.theorems.separation_inputs import sup_error
from hardmax.flow.theorems.single_layer_bound import SingleLayer, separation_exponents, separation_pair
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings

__all__ = ["RECIPES"]


def _slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _cook_theorem_1(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Look, Panel, draw_rates

    n_tokens, epsilons = settings["n_tokens"], list(settings["epsilons"])
    rows: dict[str, list[Any]] = {name: [] for name in _CONSTRUCTION}
    for square in ("plain", "richardson"):
        for epsilon in epsilons:
            built = separation_transformer(epsilon, n_tokens, square=square)
            found = sup_error(built, n_each=settings["inputs"], rng=settings.seed)
            values = (
                square,
                epsilon,
                n_tokens,
                built.transformer.beta,
                *built.widths,
                built.transformer.n_parameters,
                built.transformer.largest_weight,
                built.error_bound,
                found.random,
                found.adversarial,
            )
            for name, value in zip(_CONSTRUCTION, values, strict=True):
                rows[name].append(value)
    n = len(epsilons)
    exponents = _separation_table(settings["heads"], settings["head_width"])
    pairs = _separation_pairs(settings)
    forms: tuple[tuple[str, str, Look], ...] = (
        ("formal", "", "line"),
        ("informal", ", informal", "dashed"),
    )
    inverse = [1 / epsilon for epsilon in epsilons]
    plain, better = rows["parameters"][:n], rows["parameters"][n:]
    worst = [max(a, b) for a, b in zip(rows["random"], rows["adversarial"], strict=True)]
    slope = _slope(epsilons, rows["width_product"][:n]) if n > 1 else float("nan")
    slope_output = _slope(epsilons, rows["width_output"][:n]) if n > 1 else float("nan")
    figure = draw_rates(
        [
            Panel(
                f"two layers, one head, T = {n_tokens}",
                "1/ε",
                "parameters",
                (
                    Curve("plain square", inverse, plain),
                    Curve("Richardson square", inverse, better),
                    Curve("slope 1", inverse, [plain[-1] * v / inverse[-1] for v in inverse], "reference"),
                ),
            ),
            Panel(
                "largest error that was found",
                "ε",
                "error",
                (
                    Curve("near ties, hill climbing", epsilons, rows["adversarial"][:n]),
                    Curve("random inputs", epsilons, rows["random"][:n]),
                    Curve("proven bound", epsilons, rows["error_bound"][:n], "dashed"),
                    Curve("ε", epsilons, epsilons, "reference"),
                ),
            ),
            Panel(
                f"one layer: exponent k, n = {settings['head_width']}",
                "T",
                "k: at least $\\varepsilon^{-k}$ parameters",
                tuple(
                    Curve(
                        f"H = {h}{name if h > 1 else ', both forms'}",
                        exponents["T"],
                        exponents[f"{form}_H{h}"],
                        look,
                        colour,
                    )
                    for colour, h in enumerate(settings["heads"])
                    for form, name, look in forms
                    if h > 1 or form == "formal"
                ),
                x_log=False,
                y_log=False,
            ),
        ]
    )
    return Outcome(
        figures={"thm1": figure},
        tables={"construction": rows, "exponents": exponents, "pairs": pairs},
        comparisons=(
            Comparison(
                "largest error over ε",
                "at most 1",
                f"{max(w / e for w, e in zip(worst, rows['epsilon'], strict=True)):.3f}",
                "holds",
            ),
            Comparison(
                "largest weight",
                "1",
                f"{max(rows['largest_weight']):g}",
                "holds, with β free: about 72 ln(T)/ε",
            ),
            Comparison(
                "width of the product block, slope in ε", "-1", f"{slope:.3f}", "holds; Richardson needs less"
            ),
            Comparison(
                "width of the output block, slope in ε",
                "0, that is O(1) units",
                f"{slope_output:.3f}",
                "fails: O(ε^-1/2) units, total still O(1/ε)",
            ),
            Comparison(
                "exponent for one layer",
                "(T-2H)/(H(n+1)+1)-1 and (T-H-1)/(H(n+1)+1)-1",
                "equal for H = 1 only",
                "the second implies the first",
            ),
            Comparison(
                "colliding pairs: targets apart over 4ε",
                "at least 1",
                f"{min(g / (4 * e) for g, e in zip(pairs['target_gap'], pairs['epsilon'], strict=True)):.3f}",
                f"holds; attention {min(pairs['attention_gap']):.1e} to {max(pairs['attention_gap']):.1e} "
                "apart",
            ),
        ),
        notes=(
            "Errors are found by search, so they are lower bounds on the supremum; the proven bound is "
            "above.",
            "An exponent k of at most 0 says nothing: T must be at least H(n+2)+3.",
        ),
    )


_CONSTRUCTION = (
    "square",
    "epsilon",
    "n_tokens",
    "beta",
    "width_product",
    "width_output",
    "parameters",
    "largest_weight",
    "error_bound",
    "random",
    "adversarial",
)


def _separation_table(heads: tuple[int, ...], n: int) -> dict[str, Any]:
    tokens = [8, 16, 32, 48, 64, 96, 128]
    table: dict[str, Any] = {"T": tokens}
    for h in heads:
        found = [separation_exponents(t, h, n) for t in tokens]
        table[f"formal_H{h}"] = [float(each.formal) for each in found]
        table[f"informal_H{h}"] = [float(each.informal) for each in found]
    return table


def _separation_pairs(settings: Settings) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {
        name: [] for name in ("H", "n", "T", "epsilon", "target_gap", "attention_gap", "required_width")
    }
    for heads, n, n_tokens, epsilon in ((1, 1, 8, 1.1e-4), (1, 2, 10, 1e-4), (2, 1, 10, 6e-5)):
        layer = SingleLayer.random(heads, n, settings.rng("layer", heads, n))
        pair = separation_pair(layer, n_tokens=n_tokens, epsilon=epsilon)
        values = (heads, n, n_tokens, epsilon, pair.target_gap, pair.attention_gap, pair.required_width)
        for name, value in zip(table, values, strict=True):
            table[name].append(value)
    return table


def _cook_theorem_2(settings: Settings) -> Outcome:
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
    cases = [(16, 2, 2), (64, 2, 6), (64, 32, 6)]
    epsilons = [10.0**-e for e in np.arange(3.0, 7.01, 0.5)]
    widths: dict[str, Any] = {"epsilon": epsilons}
    for t, place, width in cases:
        widths[f"T{t}_k{place}_n{width}"] = [retrieval_width_bound(t, place, width, e) for e in epsilons]
    epsilon = settings["epsilon"]
    pairs = [_random_retrieval_pair(settings, i, epsilon) for i in range(settings["maps"])]
    table = {
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
                    for t, place, width in cases
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
    golden = [(16, 2, 2, 1e-4), (64, 2, 6, 1e-4), (64, 2, 6, 1e-5), (64, 32, 6, 1e-5)]
    at_64 = retrieval_exponents(64, 2, 6)
    return Outcome(
        figures={"thm2": figure},
        tables={"exponents": exponents, "widths": widths, "pairs": table},
        comparisons=(
            Comparison(
                "exponent at T = 64, k = 2, n = 6",
                f"{float(at_64.informal):.4f} (Theorem 2), {float(at_64.formal):.4f} (Theorem 5)",
                f"{float(at_64.proof):.4f}",
                "inconsistent versions; the proof gives the largest, which implies the others",
            ),
            Comparison(
                "colliding pair, T = 7, k = 2, n = 1: targets apart over 4ε",
                "at least 1",
                f"{min(table['target_gap']) / (4 * epsilon):.4f}",
                f"holds; attention {min(table['attention_gap']):.0e} to {max(table['attention_gap']):.0e} "
                "apart, "
                f"guaranteed {table['guaranteed_gap'][0]:.2f}",
            ),
            *(
                Comparison(
                    f"width at (T, k, n, ε) = {case}",
                    "not stated",
                    f"{retrieval_width_bound(*case):.4g}",
                    "proven",
                )
                for case in golden
            ),
        ),
        notes=("For k = T, the minimum, the bound says nothing; it needs T - k > n.",),
    )


def _positive(x: list[float], y: list[float]) -> tuple[list[float], list[float]]:
    """Without the zeros, which a logarithmic axis cannot show."""
    kept = [(a, b) for a, b in zip(x, y, strict=True) if b > 0]
    return [a for a, _ in kept], [b for _, b in kept]


def _random_retrieval_pair(settings: Settings, number: int, epsilon: float) -> Any:
    rng = settings.rng("map", number)
    theta, shift, outer = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 4), rng.uniform(0, 0.25, 4)
    slopes = rng.uniform(0, 5, 2)
    return retrieval_pair(
        lambda x: ((1 + np.tanh(x[:, None] * theta + shift)) / 2 @ outer)[:, None],
        lambda x: slopes[0] * x + slopes[1] * np.tanh(3 * x - 1),
        n_tokens=7,
        k=2,
        epsilon=epsilon,
    )


def _cook_theorem_3(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Look, Panel, draw_rates

    epsilons = list(settings["epsilons"])
    sizes: dict[str, list[Any]] = {
        name: [] for name in ("m", "n", "epsilon", "code", "units", "parameters", "l2_error", "lower_bound")
    }
    for m, n in ((2, 1), (3, 1)):
        for epsilon in epsilons:
            for name, make in (("binary", binary_code), ("analog", analog_code)):
                if name == "binary" and (2 * m / epsilon) ** (m / n) > settings["units"]:
                    continue
                code = make(m, n, epsilon)
                values = (
                    m,
                    n,
                    epsilon,
                    name,
                    code.n_units,
                    code.n_parameters,
                    code.mean_error(n_samples=400, rng=settings.seed),
                    decoder_width_bound(m, n, epsilon),
                )
                for key, value in zip(sizes, values, strict=True):
                    sizes[key].append(value)
    smooth = _smooth_table(epsilons[:4], settings)
    last = settings["alternations"]
    alternations: dict[str, Any] = {
        "alternations": list(range(1, last + 1)),
        "program": [alternation_program(k).width for k in range(1, last + 1)],
        "proven": [alternation_width_bound(k) for k in range(1, last + 1)],
    }

    looks: tuple[tuple[str, Look], ...] = (("binary", "line"), ("analog", "dashed"))

    def curve(m: int, code: str) -> tuple[list[float], list[float]]:
        rows = zip(sizes["m"], sizes["code"], sizes["epsilon"], sizes["parameters"], strict=True)
        kept = [(e, count) for row_m, name, e, count in rows if (row_m, name) == (m, code)]
        return [e for e, _ in kept], [count for _, count in kept]

    figure = draw_rates(
        [
            Panel(
                "parameters of codes into one number",
                "ε",
                "parameters",
                tuple(
                    Curve(f"m = {m}, {name} code", *curve(m, name), look, colour)
                    for colour, m in enumerate((2, 3))
                    for name, look in looks
                ),
                x_falls=True,
            ),
            Panel(
                "tanh version of the binary code, m = 2, n = 1",
                "ε",
                "error",
                (
                    Curve("in $L_2$", smooth["epsilon"], smooth["l2_error"]),
                    Curve("at the antipodal pair", smooth["epsilon"], smooth["antipodal_error"]),
                    Curve("ε", smooth["epsilon"], smooth["epsilon"], "reference"),
                ),
                x_falls=True,
            ),
            Panel(
                "weights at most 1: width to alternate",
                "alternations of amplitude 1/4",
                "units, at least",
                (
                    Curve("linear program", alternations["alternations"], alternations["program"]),
                    Curve("proven", alternations["alternations"], alternations["proven"], "dashed"),
                ),
                x_log=False,
            ),
        ]
    )
    slopes = {
        (m, name): _slope(*curve(m, name))
        for m in (2, 3)
        for name in ("binary", "analog")
        if len(curve(m, name)[0]) > 1
    }
    golden = ((2, 1, 0.01), (2, 1, 0.001), (3, 1, 0.01), (8, 2, 0.01))
    comparisons = [
        Comparison(
            f"slope of parameters in ε, m = {m}, n = 1, {name} code",
            f"{-m}" if name == "binary" else f"{-m} (the paper's code)",
            f"{slope:.2f}",
            "holds" if name == "binary" else f"better: {-max(1, m - 1)} in the limit",
        )
        for (m, name), slope in slopes.items()
    ]
    return Outcome(
        figures={"thm3": figure},
        tables={"codes": sizes, "tanh": smooth, "alternations": alternations},
        comparisons=(
            *comparisons,
            Comparison(
                "largest error of a continuous code, m > n",
                "at most ε",
                f"at least {min(smooth['antipodal_error']):.4f} at antipodal pairs",
                "vacuous: never below 1/2",
            ),
            *(
                Comparison(
                    f"width of a decoder with mean error ε, (m, n, ε) = {case}",
                    "O(ε^(1-m/n)), meant as a lower bound",
                    f"at least {decoder_width_bound(*case):.4g}",
                    "holds with Ω, in the mean",
                )
                for case in golden
            ),
            Comparison(
                f"units for {last} alternations, weights at most 1",
                "polynomial in 1/ε",
                f"at least {alternations['program'][-1]:.3g} (linear program), "
                f"{alternations['proven'][-1]:.3g} (proven)",
                "the cost law is no upper bound for bounded weights",
            ),
        ),
        notes=(
            "Errors in L_2 are estimated from samples; the steepness of the tanh units is the proven one.",
            "The linear programs are numerical; the proven bound grows by 3.433 per alternation.",
        ),
    )


def _smooth_table(epsilons: list[float], settings: Settings) -> dict[str, list[float]]:
    table: dict[str, list[float]] = {
        name: [] for name in ("epsilon", "l2_error", "antipodal_error", "code_gap", "largest_weight")
    }
    for epsilon in epsilons:
        code = binary_code(2, 1, epsilon, units="tanh")
        pair = antipodal_pair(code.encoder, 2)
        values = (
            epsilon,
            code.mean_error(n_samples=1000, rng=settings.seed),
            pair.sup_error(code.decoder, code.encoder),
            pair.code_gap,
            code.largest_weight,
        )
        for name, value in zip(table, values, strict=True):
            table[name].append(value)
    return table


RECIPES = (
    Recipe(
        "infoflow.thm1",
        "Depth separation: two layers built, and what collides in one",
        (
            Option(
                "epsilons", (0.4, 0.2, 0.1, 0.05), "accuracies", paper=(0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
            ),
            Option("n_tokens", 8, "T of the construction (the paper: any)", paper=64, least=1),
            Option("inputs", 100, "random inputs per family", medium=1000, paper=1000, least=1),
            Option("heads", (1, 2, 4), "heads H of the single layer", least=1),
            Option("head_width", 6, "dimension n of a head in the exponents", least=1),
        ),
        _cook_theorem_1,
    ),
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
        _cook_theorem_2,
    ),
    Recipe(
        "infoflow.thm3",
        "Encoding and decoding: codes, what they cost, and what no code can do",
        (
            Option("epsilons", (0.5, 0.25, 0.125, 0.0625, 0.03125), "accuracies"),
            Option("units", 40_000, "largest decoder that is built", paper=600_000, least=100),
            Option(
                "alternations",
                5,
                "alternations of a block with weights at most 1",
                medium=6,
                paper=7,
                least=1,
            ),
        ),
        _cook_theorem_3,
    ),
)
