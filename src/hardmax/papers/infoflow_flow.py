"""P2 figures 2, 3 and 5 and the predictions of section 6 that need no training."""

from __future__ import annotations

from collections.abc import Iterable
from math import comb
from typing import Any

import numpy as np

from hardmax.claims.infoflow_predictions import pairwise_plan, paper_triangles, safe_triangles
from hardmax.flow.architectures import Architecture
from hardmax.flow.comparisons import maximum_comparisons, minimal_set_size
from hardmax.flow.cost_law import cost_exponents
from hardmax.flow.head_scores import BilinearScore, KeyScore
from hardmax.flow.information_flow import InformationFlow
from hardmax.flow.information_sets import information_sets
from hardmax.flow.plans import GlobalRead, MaxPosition, Plan, Positions, Rule
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings
from hardmax.targets import builtin
from hardmax.targets.functions import Coordinate
from hardmax.targets.target import Target
from hardmax.targets.terms import Term

__all__ = ["RECIPES"]


def _compared(quantity: str, paper: Any, computed: Any) -> Comparison:
    agrees = str(paper) == str(computed)
    return Comparison(quantity, str(paper), str(computed), "agrees" if agrees else "differs")


def _set(positions: Iterable[int]) -> str:
    """Positions counted from 1, as the paper prints them."""
    return "{" + ", ".join(str(int(t) + 1) for t in sorted(positions)) + "}"


# Figure 2
# ----------------------------------------------------------------------------------------------------------


def _cook_figure_2(settings: Settings) -> Outcome:
    from hardmax.plotting.comparison_trees import draw_trees

    values = list(settings["values"])
    target = Target(
        (Term(Coordinate(0)), Term(Coordinate(0), extremum="min")), d_token=1, name="largest plus smallest"
    )
    X = np.array(values)[None, :, None]
    trees = [tree for tree in target.trees(len(values)) if tree.n_leaves > 1]
    roots = [[int(t) for t in tree(X)[0] if t >= 0] for tree in trees]
    number = target.comparisons(len(values))
    comparisons: tuple[Comparison, ...] = ()
    if values == [0.1, 0.3, 0.4, 0.2]:
        comparisons = (
            _compared("root of the first tree", "{3}", _set(roots[0])),
            _compared("root of the second tree", "{1}", _set(roots[1])),
            _compared("comparisons, exactly D(T - 1)", 2 * (len(values) - 1), number),
        )
    table: dict[str, list[Any]] = {
        "tree": list(range(1, len(trees) + 1)),
        "leaves": [tree.n_leaves for tree in trees],
        "comparisons": [tree.n_comparisons for tree in trees],
        "root": [_set(root) for root in roots],
    }
    titles = ["the largest value", "the smallest value"]
    return Outcome({"fig2": draw_trees(trees, X[0], titles)}, {"trees": table}, comparisons)


# Figure 3
# ----------------------------------------------------------------------------------------------------------


def _cook_figure_3(settings: Settings) -> Outcome:
    from hardmax.plotting.readings import draw_rules

    T, token, winner = settings["tokens"], settings["reader"], settings["winner"]
    positions = tuple(settings["positions"])

    def wins(keys: np.ndarray) -> np.ndarray:
        return -np.abs(np.broadcast_to(np.arange(keys.shape[1]), keys.shape[:2]) - winner + 0.0)

    rules: dict[str, Rule] = {
        "max-position": MaxPosition(KeyScore(wins)),
        "global": GlobalRead(),
        "positions": Positions(positions, residual=False),
    }
    sets = {}
    for name, rule in rules.items():
        plan = Plan([{token: rule}, {}])
        flow = information_sets(Architecture(T, 1, (1, 1), 1), plan, np.zeros((1, T, 1)), keep="all")
        sets[name] = _set(np.flatnonzero(flow.sets(1, token)[0]).tolist())
    expected = {
        "max-position": _set({winner, token}),
        "global": _set(range(T)),
        "positions": _set(positions),
    }
    return Outcome(
        {"fig3": draw_rules(T, token, winner, positions)},
        {"sets": {"rule": list(sets), "information set": list(sets.values())}},
        tuple(_compared(f"set of token {token + 1}, {name}", expected[name], sets[name]) for name in sets),
    )


# Figure 5
# ----------------------------------------------------------------------------------------------------------

_APPENDIX_E = [[0.0, -1.0], [0.7, 0.7], [0.0, 1.0], [-0.2, -0.9]]


def _cook_figure_5(settings: Settings) -> Outcome:
    from hardmax.plotting.flows import draw_flow

    target = builtin.depth_separation(2)
    X = np.array([_APPENDIX_E])
    active = target.active_set(X)
    flows = {"negated": _appendix_e(X, -1.0), "as printed": _appendix_e(X, 1.0)}
    rows: dict[str, list[str]] = {
        "score": [],
        "layer 1 reads": [],
        "sets after layer 1": [],
        "CLS at the end": [],
    }
    for name, flow in flows.items():
        rows["score"].append(name)
        rows["layer 1 reads"].append(_winners(flow))
        rows["sets after layer 1"].append(_token_sets(flow))
        rows["CLS at the end"].append(_set(np.flatnonzero(flow.sets()[0]).tolist()))
    comparisons = (
        _compared("positions read in layer 1, score as printed", "3, 4, 1, 3", rows["layer 1 reads"][1]),
        _compared("positions read in layer 1, score negated", "3, 4, 1, 3", rows["layer 1 reads"][0]),
        _compared("sets after layer 1", "{1, 3} {2, 4} {1, 3} {3, 4}", rows["sets after layer 1"][0]),
        _compared("I(5, 2)", "{1, 3}", rows["CLS at the end"][0]),
        _compared("I_F", "{1, 3}", _set(np.flatnonzero(active[0]).tolist())),
    )
    notes = (
        "The printed scores have the wrong sign: their argmax is another one. The second layer ties between "
        "tokens 1 and 3.",
    )
    figures: dict[str, Any] = {
        name: draw_flow(flow, active=active[0]).figure
        for name, flow in (("fig5", flows["negated"]), ("fig5_as_printed", flows["as printed"]))
    }
    return Outcome(figures, {"sets": rows}, comparisons, notes)


def _appendix_e(X: np.ndarray, sign: float) -> InformationFlow:
    def least_product(keys: np.ndarray) -> np.ndarray:
        products = np.einsum("btid,btjd->btij", keys, keys)
        return np.asarray(sign * products.min(axis=(2, 3)))

    plan = Plan(
        [
            {"tokens": MaxPosition(BilinearScore(sign * np.eye(2)))},
            {"cls": MaxPosition(KeyScore(least_product))},
        ]
    )
    return information_sets(Architecture(4, 2, (1, 1), 4), plan, X, keep="all")


def _winners(flow: InformationFlow) -> str:
    return ", ".join(str(int(s) + 1) for s in flow.routings[0][0, :-1, 0])


def _token_sets(flow: InformationFlow) -> str:
    return " ".join(_set(np.flatnonzero(row).tolist()) for row in flow.sets(1, "tokens")[0])


# Section 6: one layer
# ----------------------------------------------------------------------------------------------------------


def _cook_section_6(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Panel, draw_rates

    D = settings["maxima"]
    lengths = list(range(D + 1, settings["longest"] + 1))
    paper = [_fewest(D, T, D * (T - D), "paper") for T in lengths]
    printed = [_fewest(D, T, D * (T - D), "printed") for T in lengths]
    repaired = [_fewest(D, T, D * (T - 1), "repaired") for T in lengths]
    exact = [_fewest(D, T, D * (T - 1), "paper") for T in lengths]
    panel = Panel(
        f"heads that one layer needs, D = {D}",
        "T",
        "smallest number of heads by counting",
        (
            Curve("s(T-1), N = D(T-D), as the paper", lengths, paper),
            Curve("equation (5) printed, N = D(T-D)", lengths, printed, "dashed"),
            Curve("equation (5) repaired, exact N", lengths, repaired, "dashed"),
            Curve("s(T-1), exact N = D(T-1)", lengths, exact),
        ),
        x_log=False,
        y_log=False,
    )
    first = next((T for T, s in zip(lengths, paper, strict=True) if s == D), None)
    comparisons = (
        _compared("heads by the paper's count", f">= {D} for all T", f">= {D} from T = {first} on"),
        _compared("first T, formula D(D - 1) + 2", D * (D - 1) + 2, first),
        _compared("heads with the exact N", f">= {D}", f">= {min(exact)}"),
    )
    table = {
        "T": lengths,
        "paper": paper,
        "equation (5), printed": printed,
        "equation (5), repaired": repaired,
        "exact": exact,
    }
    return Outcome({"sec6": draw_rates([panel])}, {"heads": table}, comparisons)


def _fewest(D: int, T: int, wanted: int, version: str) -> int:
    """The fewest heads of one layer whose count reaches ``wanted``, at most D."""

    def count(s: int) -> int:
        if version == "paper":
            return s * (T - 1)
        inside = min(s, T) - 1
        return s * (T - 1) + (D * inside if version == "repaired" else inside)

    return next((s for s in range(1, D) if count(s) >= wanted), D)


# Proposition 1
# ----------------------------------------------------------------------------------------------------------


def _cook_proposition_1(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Panel, draw_rates

    T, d, n = settings["tokens"], settings["d"], settings["inputs"]
    terms = list(settings["terms"])
    table: dict[str, list[Any]] = {
        name: []
        for name in (
            "D",
            "paper N",
            "unordered N",
            "h1 by paper",
            "h1 by unordered",
            "(D, D) learns",
            "(D-1, D) learns",
            "(D, D-1) learns",
        )
    }
    for D in terms:
        reached = {h: int(maximum_comparisons(Architecture(T, d, (h, D), h * D), 2)) for h in range(1, D + 1)}
        ordered, unordered = D * (T**2 - 1), max(D * (comb(T, 2) - comb(2 * D, 2) - 1), 0)
        rng = settings.rng(f"matrices {D}")
        matrices = rng.standard_normal((D, d, d))
        target = builtin.pairwise(matrices)
        X = target.sample(n, T, rng)
        shares = [
            information_sets(Architecture(T, d, (D, D), D), plan, X).learns(target).share
            for plan in (
                pairwise_plan(matrices),
                pairwise_plan(matrices, omit_first=D - 1),
                pairwise_plan(matrices, omit_last=D - 1),
            )
        ]
        values = (
            D,
            ordered,
            unordered,
            next((h for h in reached if reached[h] >= ordered), None),
            next(h for h in reached if reached[h] >= unordered),
            *shares,
        )
        for name, value in zip(table, values, strict=True):
            table[name].append(value)
    D = max(terms)
    heads = list(range(1, D + 1))
    counts = [int(maximum_comparisons(Architecture(T, d, (h, D), h * D), 2)) for h in heads]
    figure = draw_rates(
        [
            Panel(
                f"comparisons by equation (5), D = {D}, T = {T}",
                "heads of the first layer",
                "comparisons",
                (
                    Curve("two layers of maxima", heads, counts),
                    Curve("paper: D(T² - 1)", heads, [table["paper N"][-1]] * D, "dashed"),
                    Curve("unordered pairs", heads, [table["unordered N"][-1]] * D, "dashed"),
                ),
                x_log=False,
                y_log=False,
            ),
            Panel(
                f"inputs on which CLS has what it needs, T = {T}",
                "D",
                "share",
                (
                    Curve("(D, D)", terms, table["(D, D) learns"]),
                    Curve("this plan without a head of layer 1", terms, table["(D-1, D) learns"]),
                    Curve("this plan without a head of layer 2", terms, table["(D, D-1) learns"], "points"),
                ),
                x_log=False,
                y_log=False,
            ),
        ]
    )
    comparisons = [
        _compared(f"h1 by the paper's count, D = {D}", D, table["h1 by paper"][terms.index(D)]) for D in terms
    ]
    comparisons.append(
        _compared("(D, D) learns by maxima alone", "yes", "yes" if min(table["(D, D) learns"]) == 1 else "no")
    )
    notes = (
        "Unordered pairs need about half as many comparisons as the paper counts, so its count asks for "
        "about "
        "D/2 heads.",
        "What is lost with a head is lost for this plan; docs/advise.md says what a search over all scores "
        "found.",
    )
    return Outcome({"prop1": figure}, {"counts": table}, tuple(comparisons), notes)


# Proposition 2
# ----------------------------------------------------------------------------------------------------------


def _cook_proposition_2(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Panel, draw_rates

    lengths = list(settings["lengths"])
    models = [((2, 2), 24), ((4, 4), 24), ((4, 4), 48)]
    count = {"paper": paper_triangles, "safe": safe_triangles}[settings["comparisons"]]
    formula = {"paper": "C(T,3) - 3", "safe": "C(T-3,3) - 3"}[settings["comparisons"]]
    table: dict[str, list[Any]] = {"T": lengths, "comparisons": [count(T) for T in lengths]}
    sizes, exponents, thresholds = [], [], []
    for heads, width in models:
        M = [minimal_set_size(count(T), Architecture(T, 2, heads, width), 3) for T in lengths]
        p = [cost_exponents(m, 2, width).law for m in M]
        name = f"{heads}, E = {width}"
        table[f"M {name}"], table[f"exponent {name}"] = M, p
        sizes.append(Curve(name, lengths, M))
        exponents.append(Curve(name, lengths, [float(value) for value in p]))
        thresholds.append(_first_positive(heads, width, count))
    scale = sizes[0].y[-1] / lengths[-1] ** (2 / 3)
    slope = Curve("slope 2/3", lengths, [scale * T ** (2 / 3) for T in lengths], "reference")
    figure = draw_rates(
        [
            Panel("size that information sets must have", "T", "M", (*sizes, slope)),
            Panel(
                "predicted cost exponent, triangle-center",
                "T",
                "max(2M/E - 1, 0)",
                tuple(exponents),
                y_log=False,
            ),
        ]
    )
    tested = (3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
    largest = max(
        cost_exponents(minimal_set_size(count(T), Architecture(T, 2, heads, width), 3), 2, width).law
        for heads, width in models
        for T in tested
    )
    heads_enough = next(
        H for H in range(1, 65) if minimal_set_size(count(64), Architecture(64, 2, (H, H), H), 3) == 1
    )
    first = [
        Comparison(
            f"first T with a positive exponent, {heads}, E = {width}",
            "not stated",
            str(T),
            f"computed, N = {formula}, (5) as printed",
        )
        for (heads, width), T in zip(models, thresholds, strict=True)
    ]
    helps = heads_enough < 64
    enough = f"{'yes' if helps else 'no'}: M = 1 is enough from H = {heads_enough} on"
    comparisons = (
        Comparison(
            "exponent at the tested T <= 64",
            "grows with T",
            str(largest),
            "differs: the bound is trivial" if largest == 0 else "agrees",
        ),
        *first,
        Comparison("more heads help at T = 64, L = 2", "no", enough, "differs" if helps else "agrees"),
    )
    notes = (
        f"M is the least size with which equation (5), as printed, reaches N = {formula}.",
        "The paper's C(T,3) - 3 is no lower bound: trees with C(T,3) - 21 comparisons run. C(T-3,3) - 3 is "
        "one from T = 18 on.",
        "The repaired equation (5) asks for smaller sets: hardmax flow estimate triangle-center.",
    )
    return Outcome({"prop2": figure}, {"sizes": table}, comparisons, notes)


def _first_positive(heads: tuple[int, int], width: int, count: Any) -> int:
    T = 4
    while cost_exponents(minimal_set_size(count(T), Architecture(T, 2, heads, width), 3), 2, width).law == 0:
        T += 1
    return T


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "infoflow.fig2",
        "Two comparison trees at work on four numbers",
        (Option("values", (0.1, 0.3, 0.4, 0.2), "the tokens"),),
        _cook_figure_2,
    ),
    Recipe(
        "infoflow.fig3",
        "The three ways in which a token reads others",
        (
            Option("tokens", 4, "how many tokens", least=2),
            Option("reader", 2, "the token that reads, counted from 0", least=0),
            Option("winner", 0, "the key with the largest score", least=0),
            Option("positions", (0, 1), "the positions that rule 3 reads", least=0),
        ),
        _cook_figure_3,
    ),
    Recipe("infoflow.fig5", "The example of appendix E, layer by layer", (), _cook_figure_5),
    Recipe(
        "infoflow.sec6",
        "How many heads one layer needs for D maxima, by counting",
        (
            Option("maxima", 6, "D", least=2),
            Option("longest", 64, "the largest T", least=8),
        ),
        _cook_section_6,
    ),
    Recipe(
        "infoflow.prop1",
        "Proposition 1: what counting asks of the first layer, and what a plan learns",
        (
            Option("tokens", 64, "T", least=4),
            Option("d", 4, "numbers per token", least=1),
            Option("terms", (2, 3, 4, 5, 6), "D", least=2),
            Option("inputs", 100, "samples per D", medium=1000, paper=4000, least=1),
        ),
        _cook_proposition_1,
    ),
    Recipe(
        "infoflow.prop2",
        "Proposition 2: set sizes and cost exponents of the triangle-center target against T",
        (
            Option(
                "lengths",
                (16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
                "the lengths T",
                least=4,
            ),
            Option("comparisons", "paper", "C(T,3) - 3, or the safe C(T-3,3) - 3", choices=("paper", "safe")),
        ),
        _cook_proposition_2,
    ),
)
