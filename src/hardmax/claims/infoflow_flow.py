"""Claims of the InfoFlow paper about information sets and costs (P2 sections 4 and 5, appendix E)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.claims.certificates import Certificate
from hardmax.claims.exact_relations import relations
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict
from hardmax.flow.architectures import Architecture
from hardmax.flow.comparisons import model_comparisons
from hardmax.flow.cost_law import cost_exponents
from hardmax.flow.head_scores import BilinearScore, KeyScore
from hardmax.flow.information_sets import information_sets
from hardmax.flow.plans import MaxPosition, Plan
from hardmax.targets import builtin

__all__ = ["CLAIMS"]

APPENDIX_E: list[list[Any]] = [[0, -1], ["7/10", "7/10"], [0, 1], ["-1/5", "-9/10"]]
"""The four tokens of the example in appendix E."""


def _versions(effort: Effort) -> Finding:
    exponents = cost_exponents(64, 4, 36).versions
    different = set(exponents.values())
    words = ", ".join(f"{name} {float(value):.3f}" for name, value in exponents.items())
    T, d, E = 64, 4, 36
    return Finding(
        Verdict.INCONSISTENT if len(different) > 1 else Verdict.HOLDS,
        f"T = 64, d = 4, E = 36, one head that reads everything: {words}",
        exponents,
        relations(
            (["-", ["/", ["*", T, d], E], 1], "=", exponents["law"]),
            (["/", ["*", T, d], E], "=", exponents["upper"]),
            (["/", T, E], "=", exponents["appendix_b"]),
            (exponents["law"], "<", exponents["upper"]),
            (exponents["appendix_b"], "<", exponents["law"]),
        ),
    )


def _appendix_e(effort: Effort) -> Finding:
    tokens = [[Fraction(entry) for entry in row] for row in APPENDIX_E]
    printed, negated = (_small_flow(tokens, sign) for sign in (1, -1))
    least = min(_dot(a, b) for a in tokens for b in tokens)
    active = {t for t, a in enumerate(tokens) if any(_dot(a, b) == least for b in tokens)}
    X = np.array([[[float(entry) for entry in row] for row in tokens]])
    simulated = _simulated_appendix_e(X)
    agrees = simulated == negated[2] and negated[0] == [2, 3, 0, 2]  # what the paper prints, from 0
    found = Verdict.FAILS if not active <= printed[2] and active <= negated[2] and agrees else Verdict.HOLDS
    last = {"sign": -1, "arity": 2, "form": ["bilinear", [[1, 0], [0, 1]]]}
    return Finding(
        found,
        f"the printed score (least product) has its argmax at {_names(printed[0])}, and CLS ends with "
        f"{_set(printed[2])}; with the other sign the argmax is {_names(negated[0])} as printed, and CLS "
        f"ends with {_set(negated[2])} = I_F",
        {"printed": printed[0], "negated": negated[0]},
        Certificate(
            "information_sets",
            {
                "tokens": APPENDIX_E,
                "first": [[[1, 0], [0, 1]]],
                "reads": [],
                "last": [{**last, "negated": True}],
                "pruned": False,
            },
            {"after one layer": [sorted(held) for held in printed[1]], "cls": sorted(printed[2])},
        ),
    )


def _small_flow(
    tokens: Sequence[Sequence[Fraction]], sign: int
) -> tuple[list[int], list[set[int]], set[int]]:
    """Appendix E in fractions, with both scores multiplied by ``sign``: winners, sets, and what CLS holds."""

    def dot(s: int, t: int) -> Fraction:
        return _dot(tokens[s], tokens[t])

    T = range(len(tokens))
    winners = [max(T, key=lambda s: (sign * dot(s, t), -s)) for t in T]
    sets = [{t, winners[t]} for t in T]
    least = [min(dot(a, b) for a in held for b in held) for held in sets]
    best = max(T, key=lambda s: (sign * least[s], -s))
    return winners, sets, sets[best]


def _dot(x: Sequence[Fraction], y: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def _simulated_appendix_e(X: NDArray[np.float64]) -> set[int]:
    """The same by the simulator, with negated scores."""

    def least_product(keys: NDArray[np.float64]) -> NDArray[np.float64]:
        products = np.einsum("btid,btjd->btij", keys, keys)
        return np.asarray(-products.min(axis=(2, 3)))

    plan = Plan(
        [
            {"tokens": MaxPosition(BilinearScore(-np.eye(2)))},
            {"cls": MaxPosition(KeyScore(least_product))},
        ]
    )
    flow = information_sets(Architecture(4, 2, (1, 1), 4), plan, X)
    return set(np.flatnonzero(flow.sets()[0]).tolist())


def _figure_2(effort: Effort) -> Finding:
    values = [Fraction(text) for text in ("1/10", "3/10", "2/5", "1/5")]
    roots = []
    for sign in (1, -1):
        left = max((0, 1), key=lambda t: sign * values[t])
        right = max((2, 3), key=lambda t: sign * values[t])
        roots.append((left, right, max((left, right), key=lambda t: sign * values[t])))
    trees: list[dict[str, Any]] = [{"term": i, "leaves": [[t] for t in range(4)]} for i in range(2)]
    terms = [{"sign": sign, "arity": 1, "form": ["linear", [1]]} for sign in (1, -1)]
    right_roots = roots == [(1, 2, 2), (0, 3, 0)]
    return Finding(
        Verdict.HOLDS if right_roots else Verdict.FAILS,
        f"level 1: {_names(roots[0][:2])} and {_names(roots[1][:2])}; roots "
        f"{_names([roots[0][2], roots[1][2]])}; "
        f"N = {sum(len(tree['leaves']) - 1 for tree in trees)}, F = {values[2] + values[0]}",
        {"roots": [root[2] for root in roots], "comparisons": 6},
        Certificate(
            "comparison_trees",
            {"terms": terms, "trees": trees, "dimension": 1, "inputs": [[[value] for value in values]]},
            {"comparisons": 6, "missed": 0},
        ),
    )


def _equation_5_empty(effort: Effort) -> Finding:
    shape, sizes = Architecture(4, 2, (1, 1), 4), ([2], [0, 2])
    printed, clamped = (
        int(model_comparisons(shape, 2, version=version, sizes=sizes)) for version in ("printed", "clamped")
    )
    return Finding(
        Verdict.FAILS if printed < clamped else Verdict.HOLDS,
        f"example of appendix E: {printed} comparisons as printed, {clamped} if the empty I(CLS, 1) counts 0",
        {"printed": printed, "clamped": clamped},
        relations(
            (["-", ["^", 0, 2], 1], "<", 0),
            (["+", ["*", 4, ["+", 3, 3]], ["-", 0, 1], 3, ["-", 4, 1], 3], "=", printed),
        ),
    )


def _equation_5_global(effort: Effort) -> Finding:
    shape, D = Architecture(8, 1, (1,), 1), 3
    sizes: tuple[list[int], list[int]] = ([], [8])
    printed = int(model_comparisons(shape, 1, sizes=sizes))
    repaired = int(model_comparisons(shape, 1, sizes=sizes, version="repaired", max_active=D))
    paper, exact = D * (8 - D), D * (8 - 1)
    return Finding(
        Verdict.FAILS if printed < paper else Verdict.HOLDS,
        f"D = 3, T = 8, one head that reads everything and learns by definition: (5) gives {printed} < "
        f"{paper}; repaired {repaired} >= {exact}",
        {"printed": printed, "paper's lower bound": paper, "repaired": repaired, "exact N": exact},
        relations(
            (["+", ["-", 8, 1], ["-", 8, 1]], "=", printed),
            (printed, "<", ["*", 3, ["-", 8, 3]]),
            (["+", ["*", 3, ["-", 8, 1]], ["-", 8, 1]], "=", repaired),
            (repaired, ">=", ["*", 3, ["-", 8, 1]]),
        ),
    )


def _two_layers(effort: Effort) -> Finding:
    D, T = 6, 64
    target = builtin.retrieval(D)
    X = target.sample(4000 if effort == Effort.FULL else 1000, T, 0)
    shares = {}
    for heads in ((3, 3), (2, 3)):
        plan = _reading_in_turn(heads)
        flow = information_sets(Architecture(T, D, heads, 12), plan, X)
        shares[heads] = flow.learns(target).share
    tokens = np.random.default_rng(3).permuted(np.tile(np.arange(8), (D, 1)), axis=1).T
    terms = [{"sign": 1, "arity": 1, "form": ["linear", [int(i == j) for j in range(D)]]} for i in range(D)]
    best = sorted(set(tokens.argmax(axis=0).tolist()))
    return Finding(
        Verdict.FAILS if shares[3, 3] == 1.0 else Verdict.HOLDS,
        f"D = 6, T = 64, CLS reads h_1 maxima in layer 1 and h_2 in layer 2: (3, 3) learns on a share of "
        f"{shares[3, 3]:.3f}, (2, 3) on {shares[2, 3]:.3f}",
        {"(3, 3)": shares[3, 3], "(2, 3)": shares[2, 3]},
        Certificate(
            "information_sets",
            {
                "tokens": tokens,
                "first": [],
                "reads": [term["form"][1] for term in terms[:3]],  # type: ignore[index]
                "last": terms[3:],
                "pruned": True,
            },
            {"after one layer": [[t] for t in range(8)], "cls": best},
        ),
    )


def _reading_in_turn(heads: tuple[int, int]) -> Plan:
    """CLS reads the maxima of the first coordinates in layer 1, of the next ones in layer 2."""

    def largest(i: int) -> MaxPosition:
        return MaxPosition(KeyScore(lambda keys: keys[:, :, 0, i]))

    layers = [range(heads[0]), range(heads[0], sum(heads))]
    return Plan([{"cls": [largest(i) for i in layer]} for layer in layers])


def _permutation_floor(effort: Effort) -> Finding:
    T, n = 10, 200_000 if effort == Effort.FULL else 40_000
    x = np.random.default_rng(0).standard_normal((n, T))
    wanted = x[:, :3].sum(axis=1)
    symmetric = 3 / T * x.sum(axis=1)
    squares = (wanted - symmetric) ** 2 / 3  # the variance of the target is 3
    measured, spread = float(squares.mean()), float(squares.std() / np.sqrt(n))
    floor, c = 1 - Fraction(3, T), Fraction(3, T)
    exact = (3 * (1 - c) ** 2 + (T - 3) * c**2) / 3  # of c times the sum of all tokens
    agree = exact == floor and abs(measured - float(floor)) < 4 * spread
    return Finding(
        Verdict.HOLDS if agree else Verdict.FAILS,
        f"T = 10: the best symmetric predictor has NMSE {exact} = 1 - 3/T; on {n} samples {measured:.3f}, "
        f"standard error {spread:.3f}",
        {"measured": measured, "floor": floor},
    )


def _names(positions: Sequence[int]) -> str:
    return ", ".join(f"x{t + 1}" for t in positions)


def _set(positions: set[int]) -> str:
    return "{" + _names(sorted(positions)) + "}"


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="infoflow",
        name="law.versions",
        place="Sections 4.2, 5.2 and 6, appendices A.3 and B.2",
        statement="The cost of decoding an information set is stated in five places.",
        hypotheses="T = 64 tokens of d = 4 numbers in width E = 36, read by one global head",
        computation="the five exponents as fractions",
        check=_versions,
        expected=Verdict.INCONSISTENT,
        correction="Used here: max(M d/E - 1, 0), labelled law, with the upper M d/E beside it.",
    ),
    Claim(
        paper="infoflow",
        name="if.appe",
        place="Appendix E",
        statement="With the least inner product as score, the argmax positions are 3, 4, 1, 3 and CLS ends "
        "with {1, 3}.",
        hypotheses="the four tokens of the example; the lowest position wins a tie",
        computation="both layers in fractions, and by the simulator",
        check=_appendix_e,
        expected=Verdict.FAILS,
        correction="True for the negated score; as printed the argmax is 1, 2, 3, 1 and CLS ends with {1}.",
    ),
    Claim(
        paper="infoflow",
        name="if.fig2",
        place="Figure 2",
        statement="Two trees over the inputs 0.1, 0.3, 0.4, 0.2 end in {3} and {1}.",
        hypotheses="none",
        computation="both trees, node by node",
        check=_figure_2,
        expected=Verdict.HOLDS,
    ),
    Claim(
        paper="infoflow",
        name="if.eq5.empty",
        place="Equation (5)",
        statement="Every term of (5) counts comparisons.",
        hypotheses="the example of appendix E, whose I(CLS, 1) is empty",
        computation="(5) literally and with an empty set counted 0",
        check=_equation_5_empty,
        expected=Verdict.FAILS,
        correction="An empty set contributes |I|^beta1 - 1 = -1; it must count 0.",
    ),
    Claim(
        paper="infoflow",
        name="if.eq5.global",
        place="Equation (5) and section 6",
        statement="A model that learns a target has at least as many comparisons as the target.",
        hypotheses="retrieval of D = 3 maxima of T = 8 tokens by one layer and one global head",
        computation="(5) as printed and repaired, against D(T - D) and D(T - 1)",
        check=_equation_5_global,
        expected=Verdict.FAILS,
        correction="Inside a set D0 (|I|^beta1 - 1) comparisons must be allowed, one tree per token to be "
        "found.",
    ),
    Claim(
        paper="infoflow",
        name="c1.two-layer",
        place="Appendix C.1",
        statement="A two-layer transformer needs h_1 >= D heads for the retrieval of D maxima.",
        hypotheses="D = 6, T = 64, max-position retrieval",
        computation="information sets of a plan with heads (3, 3)",
        check=_two_layers,
        expected=Verdict.FAILS,
        correction="CLS reads in both layers, so h_1 + h_2 >= D is enough.",
    ),
    Claim(
        paper="infoflow",
        name="pe.floor",
        place="Section 4.2, mechanism III",
        statement="Reading fixed positions needs positional encoding.",
        hypotheses="independent tokens, F = x(1) + x(2) + x(3), T = 10",
        computation="the error of the best permutation-invariant predictor, exact and sampled",
        check=_permutation_floor,
        expected=Verdict.HOLDS,
        proof="advise.md#without-positions-the-error-is-at-least-1---3t",
    ),
)
