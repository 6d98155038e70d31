"""P2 section 5.3, equation (5), appendix D and figure 2: comparisons that targets need and models make."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.flow.architectures import Architecture
from hardmax.flow.costs.cost_law import model_comparisons
from hardmax.papers import replay
from hardmax.papers.infoflow.sec4_information_sets import names_of, positions_set
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, failing, holding
from hardmax.papers.recipes import Option, Outcome, Settings, recipe, stated
from hardmax.targets import builtin, switch_support
from hardmax.targets.target import Target
from hardmax.targets.terms import Term
from hardmax.targets.tokens import Coordinate


@claim("infoflow.if.fig2", "Figure 2", Verdict.PROVED).states(
    "Two trees over the inputs 0.1, 0.3, 0.4, 0.2 end in {3} and {1}.",
    hypotheses="none",
    computation="both trees, node by node",
)
def _figure_2(effort: Effort) -> Finding:
    values = [Fraction(text) for text in ("1/10", "3/10", "2/5", "1/5")]
    roots = []
    for sign in (1, -1):
        left = max((0, 1), key=lambda t: sign * values[t])
        right = max((2, 3), key=lambda t: sign * values[t])
        roots.append((left, right, max((left, right), key=lambda t: sign * values[t])))
    right_roots = roots == [(1, 2, 2), (0, 3, 0)]
    return holding(
        right_roots,
        f"level 1: {names_of(roots[0][:2])} and {names_of(roots[1][:2])}; roots "
        f"{names_of([roots[0][2], roots[1][2]])}; "
        f"N = 6, F = {values[2] + values[0]}",
        {"roots": [root[2] for root in roots], "comparisons": 6},
        Certificate(
            "comparison_trees",
            {"inputs": values},
            {"roots": [list(root) for root in roots], "comparisons": 6},
        ),
    )


@claim("infoflow.if.eq5.empty", "Equation (5)", Verdict.PROVED).states(
    "(not in the paper) An empty information set must count 0 in (5), where |I|^beta1 - 1 is -1.",
    own=True,
    hypotheses="the example of appendix E, whose I(CLS, 1) is empty",
    computation="(5) literally and with an empty set counted 0",
)
def _equation_5_empty(effort: Effort) -> Finding:
    shape, sizes = Architecture(4, 2, (1, 1), 4), ([2], [0, 2])
    printed, clamped = (
        int(model_comparisons(shape, 2, version=version, sizes=sizes)) for version in ("printed", "clamped")
    )
    return holding(
        printed == clamped - 1,
        f"example of appendix E: {printed} comparisons as printed, {clamped} if the empty I(CLS, 1) counts 0",
        {"printed": printed, "clamped": clamped},
        Certificate(
            "equation_5",
            {"tokens": 4, "beta1": 2, "heads": [1, 1], "token_sets": [2], "cls_sets": [0, 2]},
            {"printed": printed, "clamped": clamped},
        ),
    )


@claim("infoflow.if.eq5.global", "Equation (5) and section 6", Verdict.FAILS).states(
    "A model that learns a target has at least as many comparisons as the target.",
    hypotheses="retrieval of D = 3 maxima of T = 8 tokens by one layer and one global head",
    computation="(5) as printed and repaired, against D(T - D) and D(T - 1)",
    correction="Inside a set D0 (|I|^beta1 - 1) comparisons must be allowed, one tree per token to be found.",
)
def _equation_5_global(effort: Effort) -> Finding:
    shape, D = Architecture(8, 1, (1,), 1), 3
    sizes: tuple[list[int], list[int]] = ([], [8])
    printed = int(model_comparisons(shape, 1, sizes=sizes))
    repaired = int(model_comparisons(shape, 1, sizes=sizes, version="repaired", max_active=D))
    paper, exact = D * (8 - D), D * (8 - 1)
    return failing(
        printed < paper,
        f"D = 3, T = 8, one head that reads everything and learns by definition: (5) gives {printed} < "
        f"{paper}; repaired {repaired} >= {exact}",
        {"printed": printed, "paper's lower bound": paper, "repaired": repaired, "exact N": exact},
        Certificate(
            "equation_5",
            {"tokens": 8, "maxima": D},
            {"printed": printed, "needed": paper, "repaired": repaired},
        ),
    )


@claim("infoflow.cmp.dret.exact", "Section 5.3 and appendix D.1", Verdict.PROVED).states(
    "Retrieval of D maxima needs between D(T - D) and D(T - 1) comparisons.",
    hypotheses="maximisers of the f_i differ, F_0 depends on every argument almost everywhere (the paper's "
    "non-degeneracy); T > D",
    computation="exhaustive for D = 2, T = 3 over rankings of finitely many tokens; the written proof for "
    "all",
    correction="Exactly D(T - 1) for T > D, and 0 for T <= D.",
    proof="advise.md#retrieval-needs-exactly-dt---1-comparisons",
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
    return holding(
        feasible == 0 and both,
        f"D = 2, T = 3, {n_types} types of tokens: {feasible} of {len(two)} x {len(two) + len(three)} pairs "
        "of trees with up to 3 comparisons work; two trees with 4 comparisons do",
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


@claim("infoflow.cmp.dret.ae", "Appendix D.1", Verdict.FAILS).states(
    "The active set of a D-retrieval target has exactly D elements almost everywhere.",
    hypotheses="max x_1 + max x_2 on [0, 1]^2",
    computation="how often one token wins both; one exact input",
    correction="At most D; for independent coordinates the share of smaller sets is 1/T at D = 2. The lower "
    "bound only needs it on a set of positive measure.",
)
def _retrieval_size(effort: Effort) -> Finding:
    target = builtin.retrieval(2)
    shares = {}
    for T in (4, 16):
        X = target.sample(200_000 if effort == Effort.FULL else 20_000, T, 0)
        shares[T] = float((target.active_set(X).sum(axis=1) < 2).mean())
    tokens = [[Fraction(a, 8), Fraction(b, 8)] for a, b in ((6, 6), (2, 4), (4, 2), (1, 1))]
    return failing(
        min(shares.values()) > 0,
        "max x_1 + max x_2: one token wins both on a share of "
        + ", ".join(f"{share:.4f} of inputs at T = {T} (1/T = {1 / T:.4f})" for T, share in shares.items()),
        {f"T={T}": share for T, share in shares.items()},
        Certificate("active_sets", {"tokens": tokens}, {"active": [0]}),
    )


@claim("infoflow.cmp.zero", "Definition 2", Verdict.PROVED).states(
    "(not in the paper) For T <= D0 beta1 a target needs no comparison at all.",
    own=True,
    hypotheses="Definition 2: D0 trees are allowed, with leaves of at most beta1 positions; a tree with n "
    "leaves makes n - 1 comparisons, so a single leaf makes none",
    computation="D0 single leaves of beta1 positions hold all positions",
    proof="advise.md#short-sequences-need-no-comparison",
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
    return holding(
        good and covered,
        "ceil(T / beta1) <= D0 single leaves hold all positions for every T <= D0 beta1 with D0, beta1 < "
        f"{n}; appendix E (T = 4, D0 = beta1 = 2) needs no comparison",
        {"checked up to": n - 1},
        Certificate(
            "single_leaves",
            {"tokens": 4, "max_active": 2, "dimension": 2, "leaves": [[0, 1], [2, 3]]},
            {"comparisons": 0},
        ),
    )


@claim("infoflow.cmp.pair.half", "Proposition 1", Verdict.PROVED).states(
    "(sharper than the paper's D T^2) The pairwise target needs at most D(C(T,2) - C(2D,2) - 1) comparisons.",
    own=True,
    hypotheses="T > 2D; for T <= 4D none are needed. Definition 2 allows D0 = 2D trees: D compare pairs, the "
    "others are single leaves {1, 2}, {3, 4}, ..., so pairs inside the first 2D positions need no leaf",
    computation="explicit trees over unordered pairs: every pair is a leaf or covered, and integer inputs",
    proof="advise.md#pairs-need-half-of-what-the-paper-counts",
)
def _pair_half(effort: Effort) -> Finding:
    D, counts, covered = 2, {}, True
    for T in (8, 10) if effort is Effort.QUICK else (8, 10, 16):
        trees = _pair_trees(T, D)
        counts[T] = replay.covering_trees(trees, T, D, 2)[0]
        covered &= counts[T] == D * (comb(T, 2) - comb(2 * D, 2) - 1)
    matrices = np.random.default_rng(7).standard_normal((D, 2, 2))
    target = builtin.pairwise(matrices)
    X = target.sample(500, 8, 0)
    missed = int((target.active_set(X) & ~_roots(matrices, X)).any(axis=1).sum())
    return holding(
        covered and missed == 0,
        f"D = 2: {counts[8]} comparisons at T = 8, {counts[10]} at T = 10 (the paper's D(T^2 - 1): 126 and "
        f"198); every pair is a leaf or covered, whatever the input; {missed} of {len(X)} samples missed",
        {f"T={T}": count for T, count in counts.items()},
        Certificate(
            "covering_trees",
            {"tokens": 10, "terms": D, "trees": _pair_trees(10, D)},
            {"comparisons": counts[10], "paper": D * (10**2 - 1)},
        ),
    )


def _roots(matrices: NDArray[Any], X: NDArray[Any]) -> NDArray[np.bool_]:
    """What the roots of the trees of :func:`_pair_trees` hold: the corner, and the best pair of each term
    that is not inside it."""
    n, T, _ = X.shape
    corner = np.arange(T) < 2 * len(matrices)
    held = np.tile(corner, (n, 1))
    for matrix in matrices:
        values = np.einsum("nsd,de,nte->nst", X, matrix, X)
        alone = np.diagonal(values, axis1=1, axis2=2)
        best = np.maximum(values, values.transpose(0, 2, 1))
        best = np.maximum(best, np.maximum(alone[:, :, None], alone[:, None, :]))
        allowed = ~(corner[:, None] & corner[None, :]) & ~np.eye(T, dtype=bool)
        first, second = np.divmod(np.where(allowed, best, -np.inf).reshape(n, -1).argmax(axis=1), T)
        held[np.arange(n), first] = held[np.arange(n), second] = True
    return held


def _pair_trees(T: int, D: int) -> list[dict[str, Any]]:
    """D trees over the pairs not inside the first 2D positions, and D single leaves that hold those."""
    corner = set(range(2 * D))
    leaves = [list(pair) for pair in combinations(range(T), 2) if not set(pair) <= corner]
    single = [{"term": 0, "leaves": [[2 * i, 2 * i + 1]]} for i in range(D)]
    return [*({"term": i, "leaves": leaves} for i in range(D)), *single]


@claim("infoflow.cmp.tri.lb", "Appendix D.1", Verdict.FAILS).states(
    "The triangle-center target needs at least C(T,3) - 3 comparisons.",
    hypotheses="T > 6, tokens in [-1, 1]^d",
    computation="explicit trees with fewer, for T = 7, 8, ...: every triple is a leaf or covered, whatever "
    "the input",
    correction="At most C(T,3) - 21 for T >= 7, and 0 for T <= 9; T^3/6 + O(T^2) survives.",
    proof="advise.md#triples-need-fewer-than-the-paper-says",
)
def _triangle_lower(effort: Effort) -> Finding:
    last = 12 if effort == Effort.FULL else 8
    cases, counts = [], {}
    for T in range(7, last + 1):
        leaves = [list(triple) for triple in combinations(range(T), 3) if not set(triple) <= set(range(6))]
        trees = [{"term": 0, "leaves": each} for each in ([[0, 1, 2]], [[3, 4, 5]], leaves)]
        cases.append({"tokens": T, "trees": trees})
        counts[T] = replay.covering_trees(trees, T, 1, 3)[0]
    return failing(
        all(count < comb(T, 3) - 3 for T, count in counts.items()),
        "three trees that never miss: "
        + ", ".join(f"T = {T}: {count} < {comb(T, 3) - 3}" for T, count in counts.items())
        + f"; T = 9: three single leaves, 0 < {comb(9, 3) - 3}",
        {f"T={T}": count for T, count in counts.items()},
        Certificate(
            "covering_trees",
            {"cases": cases[:2]},
            {"comparisons": [[counts[T], comb(T, 3) - 3] for T in (7, 8)]},
        ),
    )


@claim("infoflow.cmp.tri.upper", "Section 5.3, appendix D.1", Verdict.PROVED).states(
    "The triangle-center target needs at most T^3 - 1 comparisons.",
    hypotheses="the target is min over s, t, u of |x(s) + x(t) + x(u)|^2; a tree with n leaves makes n - 1 "
    "comparisons",
    computation="the tree of all ordered triples: every triple is a leaf, whatever the input",
    correction="Unordered triples suffice: C(T,3) - 1, and fewer (cmp.tri.lb).",
    proof="advise.md#triples-need-fewer-than-the-paper-says",
)
def _triangle_upper(effort: Effort) -> Finding:
    counts = {}
    for T in (3, 4, 5):
        leaves = [list(triple) for triple in product(range(T), repeat=3)]
        counts[T] = replay.covering_trees([{"term": 0, "leaves": leaves}], T, 1, 3)[0]
    return holding(
        all(count == T**3 - 1 for T, count in counts.items()),
        ", ".join(f"T = {T}: {count} comparisons" for T, count in counts.items()) + ", T^3 - 1 each",
        {f"T={T}": count for T, count in counts.items()},
        Certificate("covering_trees", {"tokens": 5}, {"comparisons": counts[5]}),
    )


@claim("infoflow.cmp.beta", "Proposition 1, section 5.3, appendix D.1", Verdict.NUMERICAL).states(
    "Dimension and Order of Comparison are 2 for the pairwise target and 3 for the triangle-center target.",
    hypotheses="generic matrices and d >= 2; tokens in [-1, 1]^d",
    computation="how many tokens take part when the best tuple changes, on random segments: a comparison of "
    "two tuples involves at most twice the dimension",
    correction="That no smaller dimension suffices is seen, not proven, here: the paper's argument uses "
    "ties of two tuples, which D0 trees can hold at once. Upper bounds: cmp.pair.half, cmp.tri.upper.",
)
def _dimensions(effort: Effort) -> Finding:
    n = 300 if effort is Effort.QUICK else 2000
    pair = builtin.pairwise(np.random.default_rng(0).standard_normal((1, 2, 2)))
    found = {
        name: switch_support(target, n=n).dimension
        for name, target in (("pairwise", pair), ("triangle", builtin.triangle_center(2)))
    }
    return holding(
        found == {"pairwise": 2, "triangle": 3},
        f"{n} segments each: dimension at least {found['pairwise']} for a generic bilinear term, "
        f"{found['triangle']} for the triangle-center target",
        found,
        by=Verdict.NUMERICAL,
    )


@claim("infoflow.cmp.tri.domain", "Appendix D.1", Verdict.UNSTATED).states(
    "The results for the triangle-center target carry over from [-1, 1]^d to [0, 1]^d.",
    unstated="The target is shifted along: it is F(2X - 1) on [0, 1]^d.",
    hypotheses="as stated, the same formula on [0, 1]^d",
    computation="active sets of the shifted target and of the unshifted one, d = 1 and 2",
    correction="Without the shift, on [0, 1]^1 it is nine times the square of the least token: D0 = beta1 = "
    "1. For d >= 2 three different tokens can win there, if rarely.",
    proof="advise.md#triples-need-fewer-than-the-paper-says",
)
def _triangle_domain(effort: Effort) -> Finding:
    n = 20_000 if effort == Effort.FULL else 2_000
    shares = {}
    for d in (1, 2):
        target = builtin.triangle_center(d, domain="cube01")
        sizes = target.active_set(target.sample(n, 12, d)).sum(axis=1)
        shares[d] = np.bincount(sizes, minlength=4)[1:4] / n
    unit = np.random.default_rng(3).random((n, 12, 2))
    shifted = float((builtin.triangle_center(2).active_set(2 * unit - 1).sum(axis=1) == 3).mean())
    inputs = [
        [[Fraction(value, 10)] for value in values] for values in ([5, 2, 9, 7], [4, 8, 3, 6], [1, 2, 3, 4])
    ]
    words = "; ".join(f"d = {d}: {', '.join(f'{share:.3f}' for share in each)}" for d, each in shares.items())
    return earned(
        Verdict.UNSTATED,
        shares[1][0] == 1.0 and shifted > 0.5,
        "with the shift X to 2X - 1, a bijection onto [-1, 1]^d, three different tokens are active on a "
        "share "
        f"of {shifted:.3f} of inputs at d = 2; without it, on "
        f"[0, 1]^1, the same token is always taken three times; shares of active sets of size 1, 2, 3 in {n} "
        f"samples at T = 12: {words}",
        {f"d={d}": each for d, each in shares.items()},
        Certificate("active_sets", {"inputs": inputs}, {"active": [[1], [2], [0]]}),
    )


def _integer_inputs(n: int, T: int, *, seed: int) -> list[list[list[int]]]:
    """Sequences of tokens with two whole coordinates, without ties."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-997, 998, (T, 2)).tolist() for _ in range(n)]


# Figure 2
# ----------------------------------------------------------------------------------------------------------


@recipe(
    "infoflow.fig2",
    "Two comparison trees at work on four numbers",
    Option("values", (0.1, 0.3, 0.4, 0.2), "the tokens"),
)
def _run_figure_2(settings: Settings) -> Outcome:
    from hardmax.plotting.comparison_trees import draw_trees

    values = list(settings["values"])
    target = Target(
        (Term(Coordinate(0)), Term(Coordinate(0), extremum="min")), d_token=1, name="largest plus smallest"
    )
    X = np.array(values)[None, :, None]
    trees = [tree for tree in target.trees(len(values)) if tree.n_leaves > 1]
    roots = [[int(t) for t in tree(X)[0] if t >= 0] for tree in trees]
    number = target.comparisons(len(values))
    as_drawn = values == [0.1, 0.3, 0.4, 0.2]
    wanted = 2 * (len(values) - 1)
    comparisons = (
        *(
            stated(
                f"root of the {which} tree", paper if as_drawn else "not stated", "infoflow.if.fig2"
            ).compared(positions_set(root), positions_set(root) == paper if as_drawn else None, exactly=True)
            for which, paper, root in zip(("first", "second"), ("{3}", "{1}"), roots, strict=True)
        ),
        stated("comparisons, exactly D(T - 1)", str(wanted), "infoflow.cmp.dret.exact").compared(
            str(number), str(number) == str(wanted), exactly=True
        ),
    )
    table: dict[str, list[Any]] = {
        "tree": list(range(1, len(trees) + 1)),
        "leaves": [tree.n_leaves for tree in trees],
        "comparisons": [tree.n_comparisons for tree in trees],
        "root": [positions_set(root) for root in roots],
    }
    titles = ["the largest value", "the smallest value"]
    return Outcome({"fig2": draw_trees(trees, X[0], titles)}, {"trees": table}, comparisons)
