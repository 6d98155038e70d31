"""Claims of the InfoFlow paper about information sets, trees and costs (P2 sections 4 and 5, D, E)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.claims.certificates import Certificate
from hardmax.claims.exact_relations import relations
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict
from hardmax.flow.architectures import Architecture
from hardmax.flow.comparisons import model_comparisons
from hardmax.flow.cost_law import cost_exponents
from hardmax.flow.information_sets import information_sets
from hardmax.flow.plans import MaxPosition, Plan
from hardmax.flow.scores import BilinearScore, KeyScore
from hardmax.targets import builtin

__all__ = ["CLAIMS"]

APPENDIX_E: list[list[Any]] = [[0, -1], ["7/10", "7/10"], [0, 1], ["-1/5", "-9/10"]]
"""The four tokens of the example in appendix E."""

_NORM_TRIPLE = {"sign": -1, "arity": 3, "form": ["norm"]}


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
    active = {0, 2}  # the least inner product is that of x1 and x3; checked by the certificate of _domains
    X = np.array([[[float(entry) for entry in row] for row in tokens]])
    simulated = _simulated_appendix_e(X)
    agrees = (simulated == negated[2]) and printed[0] == [0, 1, 2, 0]
    found = Verdict.FAILS if not active <= printed[2] and active <= negated[2] and agrees else Verdict.HOLDS
    last = {"sign": -1, "arity": 2, "form": ["bilinear", [[1, 0], [0, 1]]]}
    return Finding(
        found,
        f"the printed score (least product) has its argmax at {_names(printed[0])}, and CLS ends with "
        f"{_set(printed[2])}; with the other sign the argmax is {_names(negated[0])} as printed, and CLS "
        "ends "
        f"with {_set(negated[2])} = I_F",
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
        return sum((a * b for a, b in zip(tokens[s], tokens[t], strict=True)), Fraction(0))

    T = range(len(tokens))
    winners = [max(T, key=lambda s: (sign * dot(s, t), -s)) for t in T]
    sets = [{t, winners[t]} for t in T]
    least = [min(dot(a, b) for a in held for b in held) for held in sets]
    best = max(T, key=lambda s: (sign * least[s], -s))
    return winners, sets, sets[best]


def _simulated_appendix_e(X: NDArray[np.float64]) -> set[int]:
    """The same by the simulator, with negated scores."""

    def least_product(keys: NDArray[np.float64]) -> NDArray[np.float64]:
        products = np.einsum("btid,btjd->btij", keys, keys)
        return -products.min(axis=(2, 3))

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
        int(model_comparisons(shape, 2, version=version, sizes=sizes))  # type: ignore[arg-type]
        for version in ("printed", "clamped")
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
        f"{paper}; "
        f"repaired {repaired} >= {exact}",
        {"printed": printed, "paper's lower bound": paper, "repaired": repaired, "exact N": exact},
        relations(
            (["+", ["-", 8, 1], ["-", 8, 1]], "=", printed),
            (printed, "<", ["*", 3, ["-", 8, 3]]),
            (["+", ["*", 3, ["-", 8, 1]], ["-", 8, 1]], "=", repaired),
            (repaired, ">=", ["*", 3, ["-", 8, 1]]),
        ),
    )


def _retrieval_exact(effort: Effort) -> Finding:
    """D = 2, T = 3: every pair of trees with at most three comparisons misses the active set somewhere.

    A one-leaf tree always answers the same position, so the other tree alone would have to find two; hence
    both trees have at least two leaves, and 2 + 2 and 2 + 3 leaves remain. Tokens are 4 or 5 types (every
    ranking of them is a score), inputs all triples of different types.
    """
    n_types = 5 if effort == Effort.FULL else 4
    inputs = np.array(list(permutations(range(n_types), 3)))
    scores = [np.arange(n_types), np.arange(n_types)[::-1]]  # max x and max -x
    winners = np.stack([score[inputs].argmax(axis=1) for score in scores])
    two, three = _outputs_of_trees(inputs, n_types)
    feasible = 0
    for tree in two:
        for others in (two, three):
            found = np.logical_or(others[:, None] == winners, tree == winners).all(axis=(1, 2))
            feasible += int(found.sum())
    both = all((three == winner).all(axis=1).any() for winner in winners)  # a tree per maximum: 4 comparisons
    return Finding(
        Verdict.HOLDS if feasible == 0 and both else Verdict.FAILS,
        f"D = 2, T = 3, {n_types} types of tokens: {feasible} of {len(two)} x {len(two) + len(three)} pairs "
        "of "
        "trees with up to 3 comparisons work; two trees with 4 comparisons do",
        {"feasible": feasible, "two-leaf trees": len(two), "three-leaf trees": len(three)},
    )


def _outputs_of_trees(inputs: NDArray[Any], n_types: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """What every tree with two, and with three leaves answers at every input; without repetitions."""
    rankings = np.array(list(permutations(range(n_types))))
    rows = np.arange(len(inputs))
    values = rankings[:, inputs]  # (rankings, inputs, 3 positions)
    pairs = np.concatenate(
        [
            np.where(values[:, :, a] > values[:, :, b], a, b).astype(np.int8)
            for a, b in product(range(3), repeat=2)
        ]
    )
    pairs = np.unique(pairs, axis=0)
    triples = []
    for ranking in rankings:
        scores = ranking[inputs]
        held = scores[rows, pairs]
        triples += [np.where(held > scores[:, c], pairs, c).astype(np.int8) for c in range(3)]
    return pairs, np.unique(np.concatenate(triples), axis=0)


def _retrieval_size(effort: Effort) -> Finding:
    target = builtin.retrieval(2)
    shares = {}
    for T in (4, 16):
        X = target.sample(200_000 if effort == Effort.FULL else 20_000, T, 0)
        shares[T] = float((target.active_set(X).sum(axis=1) < 2).mean())
    tokens = [[3, 3], [1, 2], [2, 1], [0, 0]]
    terms = [{"sign": 1, "arity": 1, "form": ["linear", w]} for w in ([1, 0], [0, 1])]
    return Finding(
        Verdict.FAILS if min(shares.values()) > 0 else Verdict.HOLDS,
        "max x_1 + max x_2: one token wins both on a share of "
        + ", ".join(f"{share:.4f} of inputs at T = {T} (1/T = {1 / T:.4f})" for T, share in shares.items()),
        {f"T={T}": share for T, share in shares.items()},
        Certificate("active_sets", {"terms": terms, "inputs": [tokens]}, {"active": [[0]]}),
    )


def _zero(effort: Effort) -> Finding:
    n = 40 if effort == Effort.FULL else 20
    good = all(
        -(-T // beta1) <= max_active
        for max_active in range(1, n)
        for beta1 in range(1, n)
        for T in range(1, max_active * beta1 + 1)
    )
    target = builtin.depth_separation(2)
    X = target.sample(1000, 4, 0)
    leaves = np.zeros(X.shape[:2], dtype=bool)
    for leaf in ((0, 1), (2, 3)):
        leaves[:, list(leaf)] = True
    covered = bool((target.active_set(X) <= leaves).all())
    return Finding(
        Verdict.HOLDS if good and covered else Verdict.FAILS,
        "ceil(T / beta1) <= D0 single leaves hold all positions for every T <= D0 beta1 with D0, beta1 < "
        f"{n}; "
        "appendix E (T = 4, D0 = beta1 = 2) needs no comparison",
        {"checked up to": n - 1},
        Certificate(
            "comparison_trees",
            {
                "terms": [{"sign": -1, "arity": 2, "form": ["bilinear", [[1, 0], [0, 1]]]}],
                "trees": [{"term": 0, "leaves": [[0, 1]]}, {"term": 0, "leaves": [[2, 3]]}],
                "dimension": 2,
                "inputs": [APPENDIX_E],
            },
            {"comparisons": 0, "missed": 0},
        ),
    )


def _pair_half(effort: Effort) -> Finding:
    D, counts, missed, n_inputs = 2, {}, 0, 0
    matrices = np.random.default_rng(7).integers(-9, 10, (D, 2, 2))
    terms = [{"sign": 1, "arity": 2, "form": ["bilinear", matrix]} for matrix in matrices]
    certificate = None
    for T in (8, 10):
        trees = _pair_trees(T, D)
        inputs = _integer_inputs(6 if effort == Effort.QUICK else 60, T, seed=T)
        data = {"terms": terms, "trees": trees, "dimension": 2, "inputs": inputs}
        counts[T] = D * (comb(T, 2) - comb(2 * D, 2) - 1)
        certificate = Certificate("comparison_trees", data, {"comparisons": counts[T], "missed": 0})
        missed += 0 if certificate.holds else 1
        n_inputs += len(inputs)
    return Finding(
        Verdict.HOLDS if missed == 0 else Verdict.FAILS,
        f"D = 2: {counts[8]} comparisons at T = 8, {counts[10]} at T = 10 (the paper's D(T^2 - 1): 126 and "
        "198); "
        f"nothing missed at {n_inputs} inputs",
        {f"T={T}": count for T, count in counts.items()},
        certificate,
    )


def _pair_trees(T: int, D: int) -> list[dict[str, Any]]:
    """D trees over the pairs not inside the first 2D positions, and D single leaves that hold those."""
    corner = set(range(2 * D))
    leaves = [list(pair) for pair in combinations(range(T), 2) if not set(pair) <= corner]
    single = [{"term": 0, "leaves": [[2 * i, 2 * i + 1]]} for i in range(D)]
    return [*({"term": i, "leaves": leaves} for i in range(D)), *single]


def _triangle_lower(effort: Effort) -> Finding:
    last = 12 if effort == Effort.FULL else 8
    counts, missed = {}, 0
    first_certificate = None
    for T in range(7, last + 1):
        leaves = [list(triple) for triple in combinations(range(T), 3) if not set(triple) <= set(range(6))]
        trees = [{"term": 0, "leaves": each} for each in ([[0, 1, 2]], [[3, 4, 5]], leaves)]
        inputs = _integer_inputs(3, T, seed=T)
        data = {"terms": [_NORM_TRIPLE], "trees": trees, "dimension": 3, "inputs": inputs}
        counts[T] = len(leaves) - 1
        certificate = Certificate("comparison_trees", data, {"comparisons": counts[T], "missed": 0})
        missed += 0 if certificate.holds else 1
        first_certificate = first_certificate or certificate
    fewer = all(count < comb(T, 3) - 3 for T, count in counts.items())
    return Finding(
        Verdict.FAILS if fewer and not missed else Verdict.HOLDS,
        "three trees that never miss: "
        + ", ".join(f"T = {T}: {count} < {comb(T, 3) - 3}" for T, count in counts.items())
        + "; T = 9: three single leaves, 0 < 81",
        {f"T={T}": count for T, count in counts.items()},
        first_certificate,
    )


def _triangle_domain(effort: Effort) -> Finding:
    n = 20_000 if effort == Effort.FULL else 2_000
    shares = {}
    for d in (1, 2):
        target = builtin.triangle_center(d, domain="cube01")
        sizes = target.active_set(target.sample(n, 12, d)).sum(axis=1)
        shares[d] = np.bincount(sizes, minlength=4)[1:4] / n
    inputs = [
        [[Fraction(value, 10)] for value in values] for values in ([5, 2, 9, 7], [4, 8, 3, 6], [1, 2, 3, 4])
    ]
    words = "; ".join(f"d = {d}: {', '.join(f'{share:.3f}' for share in each)}" for d, each in shares.items())
    return Finding(
        Verdict.FAILS if shares[1][0] == 1.0 else Verdict.HOLDS,
        "on [0, 1]^1 the same token is always taken three times; shares of active sets of size 1, 2, 3 in "
        f"{n} "
        f"samples at T = 12: {words}",
        {f"d={d}": each for d, each in shares.items()},
        Certificate("active_sets", {"terms": [_NORM_TRIPLE], "inputs": inputs}, {"active": [[1], [2], [0]]}),
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
    measured = float(((wanted - symmetric) ** 2).mean() / wanted.var())
    floor = 1 - Fraction(3, T)
    return Finding(
        Verdict.HOLDS if abs(measured - float(floor)) < 0.02 else Verdict.FAILS,
        f"T = 10: NMSE {measured:.4f} of the best symmetric predictor, floor 1 - 3/T = {float(floor):.4f}",
        {"measured": measured, "floor": floor},
    )


def _integer_inputs(n: int, T: int, *, seed: int) -> list[list[list[int]]]:
    """Sequences of tokens with two whole coordinates, without ties."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-997, 998, (T, 2)).tolist() for _ in range(n)]


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
        "with "
        "{1, 3}.",
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
        name="cmp.dret.exact",
        place="Section 5.3 and appendix D.1",
        statement="Retrieval of D maxima needs between D(T - D) and D(T - 1) comparisons.",
        hypotheses="maximisers of the f_i differ; T > D",
        computation="exhaustive for D = 2, T = 3 over rankings of finitely many tokens; the written proof "
        "for all",
        check=_retrieval_exact,
        expected=Verdict.HOLDS,
        correction="Exactly D(T - 1) for T > D, and 0 for T <= D.",
        proof="advise.md#retrieval-needs-exactly-dt-1-comparisons",
    ),
    Claim(
        paper="infoflow",
        name="cmp.dret.ae",
        place="Appendix D.1",
        statement="The active set of a D-retrieval target has exactly D elements almost everywhere.",
        hypotheses="max x_1 + max x_2 on [0, 1]^2",
        computation="how often one token wins both; one exact input",
        check=_retrieval_size,
        expected=Verdict.FAILS,
        correction="At most D; for independent coordinates the share of smaller sets is 1/T at D = 2.",
    ),
    Claim(
        paper="infoflow",
        name="cmp.zero",
        place="Definition 2",
        statement="(not in the paper) For T <= D0 beta1 a target needs no comparison at all.",
        hypotheses="none",
        computation="D0 single leaves of beta1 positions hold all positions",
        check=_zero,
        expected=Verdict.HOLDS,
        proof="advise.md#short-sequences-need-no-comparison",
    ),
    Claim(
        paper="infoflow",
        name="cmp.pair.half",
        place="Proposition 1",
        statement="(sharper than the paper's D T^2) The pairwise target needs at most D(C(T,2) - C(2D,2) - "
        "1) "
        "comparisons.",
        hypotheses="none",
        computation="explicit trees over unordered pairs at integer inputs",
        check=_pair_half,
        expected=Verdict.HOLDS,
        proof="advise.md#pairs-need-half-of-what-the-paper-counts",
    ),
    Claim(
        paper="infoflow",
        name="cmp.tri.lb",
        place="Appendix D.1",
        statement="The triangle-center target needs at least C(T,3) - 3 comparisons.",
        hypotheses="T > 6",
        computation="explicit trees with fewer, for T = 7, 8, ...",
        check=_triangle_lower,
        expected=Verdict.FAILS,
        correction="At most C(T,3) - 21 for T >= 7, and 0 for T <= 9; T^3/6 + O(T^2) survives.",
    ),
    Claim(
        paper="infoflow",
        name="cmp.tri.domain",
        place="Appendix D.1",
        statement="The results for the triangle-center target carry over from [-1, 1]^d to [0, 1]^d.",
        hypotheses="the unshifted target, d = 1 and 2",
        computation="sizes of active sets",
        check=_triangle_domain,
        expected=Verdict.FAILS,
        correction="For the shifted target. On [0, 1]^1 it is nine times the square of the least token: "
        "D0 = beta1 = 1; on [0, 1]^2 three different tokens can win, but rarely do.",
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
        proof="advise.md#without-positions-the-error-is-at-least-1-3t",
    ),
)
