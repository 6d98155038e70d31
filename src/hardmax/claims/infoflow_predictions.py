"""Claims of the InfoFlow paper about what its count of comparisons predicts (P2 section 6, appendix B)."""

from __future__ import annotations

from itertools import pairwise
from math import comb
from typing import Any

import numpy as np

from hardmax.claims.certificates import Certificate
from hardmax.claims.exact_relations import relations
from hardmax.claims.infoflow_printed_tables import NMSE_TRIANGLE, TRIANGLE_MODELS
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict
from hardmax.flow.architectures import Architecture
from hardmax.flow.comparisons import maximum_comparisons, minimal_set_size, model_comparisons
from hardmax.flow.cost_law import cost_exponents
from hardmax.flow.head_scores import BilinearScore, KeyScore
from hardmax.flow.information_sets import information_sets
from hardmax.flow.plans import MaxPosition, Plan
from hardmax.targets import builtin

__all__ = ["CLAIMS", "pairwise_plan", "paper_triangles", "safe_triangles"]


def paper_triangles(T: int) -> int:
    """C(T, 3) - 3, the number of comparisons that P2 takes for the triangle-center target; at least 0."""
    return max(comb(T, 3) - 3, 0)


def safe_triangles(T: int) -> int:
    """C(T - 3, 3) - 3, what the corrected argument leaves of it."""
    return max(comb(T - 3, 3) - 3, 0)


def pairwise_plan(matrices: Any, *, omit_first: int | None = None, omit_last: int | None = None) -> Plan:
    """The plan of Proposition 1: token t finds its partner s_i(t), CLS the token whose pair is best.

    ``omit_first`` and ``omit_last`` take away the head of one term in one layer.
    """
    forms = np.asarray(matrices, dtype=np.float64)

    def best_pair(A: np.ndarray, slot: int) -> KeyScore:
        return KeyScore(lambda keys: np.einsum("bti,ij,btj->bt", keys[:, :, 0], A, keys[:, :, slot]))

    first = [i for i in range(len(forms)) if i != omit_first]
    slots = {term: slot for slot, term in enumerate(first, start=1)}
    last = [i for i in first if i != omit_last]
    return Plan(
        [
            {"tokens": [MaxPosition(BilinearScore(forms[i])) for i in first]},
            {"cls": [MaxPosition(best_pair(forms[i], slots[i]), (0, slots[i])) for i in last]},
        ]
    )


def _single_layer(effort: Effort) -> Finding:
    def least(D: int, T: int, comparisons: int, printed: bool) -> int:
        return next(
            s for s in range(1, D + 1) if (s * T - 1 if printed else s * (T - 1)) >= comparisons or s == D
        )

    largest = 8 if effort == Effort.QUICK else 16
    rule = all(
        (least(D, T, D * (T - D), False) == D) == (T > D * (D - 1) + 1)
        for D in range(2, largest)
        for T in range(D + 1, 3 * D * D)
    )
    exact = all(
        least(D, T, D * (T - 1), False) == D for D in range(1, largest) for T in range(D + 1, 3 * D * D)
    )
    found = [(T, least(6, T, 6 * (T - 6), False)) for T in (16, 31, 32)]
    return Finding(
        Verdict.FAILS if found[0][1] < 6 else Verdict.HOLDS,
        f"D = 6: s(T - 1) >= D(T - D) is met by {', '.join(f's = {s} at T = {T}' for T, s in found)}; s >= D "
        f"follows exactly from T > D(D - 1) + 1 on: {rule}; with the exact N = D(T - 1) always: {exact}",
        {"smallest s": {str(T): s for T, s in found}, "rule": rule, "exact": exact},
        relations((["*", 4, ["-", 16, 1]], ">=", ["*", 6, ["-", 16, 6]]),
                  (["*", 5, ["-", 31, 1]], ">=", ["*", 6, ["-", 31, 6]])),
    )  # fmt: skip


def _inequality_47(effort: Effort) -> Finding:
    cases = [(1, 1), (1, 2), (2, 2), (6, 6)]
    exact = {case: int(maximum_comparisons(Architecture(64, 4, case, 12), 2)) for case in cases}
    right_side = {(a, b): _printed_47(64, a, b) for a, b in cases}
    grid = range(1, 9)
    always = all(
        (int(maximum_comparisons(Architecture(T, 1, (a, b), a * b), 2)) <= _printed_47(T, a, b))
        == (a + b < 3)
        for a in grid
        for b in grid
        for T in (128, 256)
    )
    words = ", ".join(f"({a}, {b}): {exact[a, b]} against {right_side[a, b]}" for a, b in cases)
    return Finding(
        Verdict.FAILS if exact[1, 2] > right_side[1, 2] else Verdict.HOLDS,
        f"T = 64: {words}; fails exactly for h1 + h2 >= 3 (h1, h2 <= 8, T = 128, 256): {always}",
        {f"({a}, {b})": [exact[a, b], right_side[a, b]] for a, b in cases},
        relations(
            (["+", ["*", 64, ["-", ["^", 2, 2], 1]], ["*", 64, 63], ["^", 1, 2], ["^", 5, 2], -2,
              ["*", 3, 63]], "=", exact[1, 2]),
            (["+", ["*", 64, ["^", 2, 2]], -64, ["*", 64, 63], 1, ["*", ["^", 2, 2], ["^", 3, 2]], -2,
              ["*", 2, 63]], "=", right_side[1, 2]),
            (exact[1, 2], ">", right_side[1, 2]),
        ),
    )  # fmt: skip


def _printed_47(T: int, h1: int, h2: int) -> int:
    return T * (h1 + 1) ** 2 - T + h1 * T * (T - 1) + h1**2 + (h1 + 1) ** 2 * (h2 + 1) ** 2 - 2 + 2 * (T - 1)


def _first_layer_heads(effort: Effort) -> Finding:
    T = 64
    by_paper, unordered = [], []
    for D in range(1, 7):
        counts = {h: int(maximum_comparisons(Architecture(T, 4, (h, D), h * D), 2)) for h in range(1, D + 1)}
        halved = D * (comb(T, 2) - comb(2 * D, 2) - 1)
        by_paper.append(next(h for h in counts if counts[h] >= D * (T**2 - 1)))
        unordered.append(next(h for h in counts if counts[h] >= halved))
    reached = int(maximum_comparisons(Architecture(T, 4, (5, 6), 30), 2))
    return Finding(
        Verdict.FAILS if by_paper[5] < 6 else Verdict.HOLDS,
        f"T = 64, h_2 = D: the count asks for h_1 >= {', '.join(map(str, by_paper))} for D = 1, ..., 6 with "
        f"N = D(T^2 - 1), and {', '.join(map(str, unordered))} with unordered pairs; (5, 6) reaches "
        f"{reached}",
        {"paper": by_paper, "unordered": unordered, "(5, 6)": reached},
        relations((reached, ">=", ["*", 6, ["-", ["^", 64, 2], 1]]),
                  (["+", ["*", 64, ["-", ["^", 6, 2], 1]], ["*", 5, 64, 63], ["^", 5, 2], ["^", 41, 2], -2,
                    ["*", 11, 63]], "=", reached)),
    )  # fmt: skip


def _learns_with_d(effort: Effort) -> Finding:
    shares, without = {}, {}
    n = 4000 if effort == Effort.FULL else 600
    for T, D in ((8, 2), (16, 3)):
        rng = np.random.default_rng([T, D])
        matrices = rng.standard_normal((D, 4, 4))
        target = builtin.pairwise(matrices)
        X = target.sample(n, T, rng)
        shape = Architecture(T, 4, (D, D), 6 * D)
        shares[T, D] = information_sets(shape, pairwise_plan(matrices), X).learns(target).share
        without[T, D] = [
            information_sets(shape, pairwise_plan(matrices, **{where: 0}), X).learns(target).share
            for where in ("omit_first", "omit_last")
        ]
    good = all(share == 1.0 for share in shares.values())
    words = "; ".join(
        f"T = {T}, D = {D}: {shares[T, D]:.3f} of {n} inputs, without one head of layer 1 / 2 "
        f"{without[T, D][0]:.2f} / {without[T, D][1]:.2f}"
        for T, D in shares
    )
    return Finding(Verdict.HOLDS if good else Verdict.FAILS, words, {"shares": list(shares.values())})


def _distinct(effort: Effort) -> Finding:
    target = builtin.pairwise([c * np.eye(3) for c in (1.0, 2.0, 3.0)])
    X = target.sample(2000, 16, 0)
    largest = int(target.active_set(X).sum(axis=1).max())
    rng = np.random.default_rng(1)
    inputs = rng.integers(-99, 100, (4, 5, 2))
    terms = [{"sign": 1, "arity": 2, "form": ["bilinear", [[c, 0], [0, c]]]} for c in (1, 2, 3)]
    longest = (inputs**2).sum(axis=2).argmax(axis=1)
    return Finding(
        Verdict.FAILS if largest == 1 else Verdict.HOLDS,
        "A_i = i times the identity, i = 1, 2, 3: the longest token wins all three; active sets have size "
        f"{largest} in 2000 samples, so D0 = beta1 = 1",
        {"largest active set": largest},
        Certificate(
            "active_sets", {"terms": terms, "inputs": inputs}, {"active": [[int(t)] for t in longest]}
        ),
    )


def _in_the_depth(effort: Effort) -> Finding:
    """M >= ((N - HLT(T+1)) / (L(T+1)))^(1/3), from (54), against the exact M; and how M falls with L."""
    lengths = (256, 1024, 4096) if effort == Effort.QUICK else (64, 128, 256, 512, 1024, 2048, 4096, 16384)
    valid, exact = True, {}
    for T in lengths:
        for L in (1, 2, 4, 8):
            for H in (1, 2, 4):
                M = minimal_set_size(paper_triangles(T), Architecture(T, 2, (H,) * L, 4 * H), 3)
                valid &= paper_triangles(T) - H * L * T * (T + 1) <= L * (T + 1) * M**3
                exact[T, L, H] = M
    falls = exact[4096, 2, 1] / exact[4096, 8, 1]
    return Finding(
        Verdict.HOLDS if valid else Verdict.FAILS,
        f"valid for all {len(exact)} combinations of T, L, H; at T = 4096, H = 1 the exact M is "
        f"{exact[4096, 2, 1]} for L = 2 and {exact[4096, 8, 1]} for L = 8: a factor {falls:.2f}, where 1/L "
        f"would give 4; L - 1 layers of tokens count, and 7^(1/3) = {7 ** (1 / 3):.2f}",
        {f"T={T}, L={L}, H={H}": M for (T, L, H), M in exact.items()},
    )


def _premise(effort: Effort) -> Finding:
    """max over the first sqrt(T) positions: trees of size sqrt(T) suffice, and no order is below 1."""
    lengths = [10 ** (2 * k) for k in range(1, 5)]
    ratios = [(10**k - 1) / 10 ** (2 * k) for k in range(1, 5)]
    vanishing = all(later < earlier / 5 for earlier, later in pairwise(ratios))
    return Finding(
        Verdict.FAILS if vanishing else Verdict.HOLDS,
        "the maximum over the first sqrt(T) positions has order 1 and N = sqrt(T) - 1: N / T = "
        + ", ".join(f"{ratio:.1e}" for ratio in ratios)
        + " for T = 1e2, 1e4, 1e6, 1e8; likewise N ~ T^2.5 has order 3",
        {"N over T": ratios},
        relations(*((["-", 10**k, 1], "<", ["/", T, 5**k]) for k, T in enumerate(lengths, start=1))),
    )


def _first_length(heads: tuple[int, int], width: int, count: Any) -> int:
    """The first T at which the bound on M gives a positive cost exponent."""
    T = 4
    while True:
        M = minimal_set_size(count(T), Architecture(T, 2, heads, width), 3)
        if cost_exponents(M, 2, width).law > 0:
            return T
        T += 1


def _experiment(effort: Effort) -> Finding:
    exponents = [
        cost_exponents(
            minimal_set_size(paper_triangles(T), Architecture(T, 2, heads, width), 3), 2, width
        ).law
        for heads, width in TRIANGLE_MODELS
        for T in NMSE_TRIANGLE
    ]
    first = [_first_length(heads, width, paper_triangles) for heads, width in TRIANGLE_MODELS]
    safe = [_first_length(heads, width, safe_triangles) for heads, width in TRIANGLE_MODELS]
    M = minimal_set_size(paper_triangles(64), Architecture(64, 2, (2, 2), 24), 3)
    return Finding(
        Verdict.FAILS if max(exponents) == 0 else Verdict.HOLDS,
        f"largest exponent for the three models and T <= 64: {max(exponents)}; first positive at T = "
        f"{', '.join(map(str, first))} with C(T,3) - 3, at {', '.join(map(str, safe))} with C(T-3,3) - 3",
        {"largest exponent": max(exponents), "first T": first, "first T, safe N": safe},
        relations(*_bound_on_m(64, 2, M), (["/", ["*", M, 2], 24], "<=", 1)),
    )


def _bound_on_m(T: int, H: int, M: int) -> list[tuple[Any, str, Any]]:
    """That M is the least size with which two layers of H heads reach C(T,3) - 3 comparisons."""

    def reached(m: int) -> list[Any]:
        return ["+", ["*", T + 2, ["-", ["^", m, 3], 1]], ["*", H, T + 2, T - 1]]

    wanted = ["-", ["binomial", T, 3], 3]
    lines: list[tuple[Any, str, Any]] = [(reached(M), ">=", wanted)]
    return lines if M == 1 else [*lines, (reached(M - 1), "<", wanted)]


def _heads(effort: Effort) -> Finding:
    found = {}
    for T in (16, 32, 64, 128, 256):
        H = 1
        while minimal_set_size(paper_triangles(T), Architecture(T, 2, (H, H), H), 3) > 1:
            H += 1
        found[T] = H
    return Finding(
        Verdict.FAILS if found[64] < 64 else Verdict.HOLDS,
        "two layers, every set of size 1: enough comparisons from "
        + ", ".join(f"H = {H} at T = {T}" for T, H in found.items()),
        {f"T={T}": H for T, H in found.items()},
        relations(*_bound_on_m(64, found[64], 1)),
    )


def _typo(effort: Effort) -> Finding:
    cases = [(T, H, L) for T in (64, 4096) for H in (1, 4) for L in (1, 2)]
    follows = any(comb(T, 3) > H * L * T**3 for T, H, L in cases)
    return Finding(
        Verdict.HOLDS if follows else Verdict.FAILS,
        "with beta1 = beta' = 3 the term H L T^beta1 alone exceeds N <= C(T,3) for every M, T, H, L: nothing "
        "follows about M; (55) has H L T^2",
        {},
        relations(*((["*", H, L, ["^", T, 3]], ">=", ["binomial", T, 3]) for T, H, L in cases)),
    )


def _section_62(effort: Effort) -> Finding:
    """6 L M >= T^(2/3), with the exact M, wherever T is large against H L."""
    lengths = (
        (64, 256, 1024, 4096) if effort == Effort.QUICK else (64, 128, 256, 512, 1024, 2048, 4096, 16384)
    )
    worst = 0
    deep = minimal_set_size(paper_triangles(64), Architecture(64, 2, (1,) * 8, 1), 3)
    for T in lengths:
        for L in (1, 2, 4, 8):
            for H in (1, 2, 4, 8, 16):
                M = minimal_set_size(paper_triangles(T), Architecture(T, 2, (H,) * L, H), 3)
                if (6 * L * M) ** 3 < T**2:
                    worst = max(worst, T // (H * L))
    return Finding(
        Verdict.HOLDS_NUMERICALLY if worst < 8 else Verdict.FAILS,
        f"M >= T^(2/3) / (6L) holds whenever T > {worst} H L, on T <= {max(lengths)}, L <= 8, H <= 16; the "
        f"sharper T^(2/3) / (6L)^(1/3) = {64 ** (2 / 3) / 48 ** (1 / 3):.2f} against the exact M = {deep} at "
        "T = 64, L = 8, H = 1",
        {"largest T / HL that violates it": worst, "M at T=64, L=8": deep},
    )


def _table_12_consistent(effort: Effort) -> Finding:
    exponents = {
        (heads, width, T): cost_exponents(
            minimal_set_size(paper_triangles(T), Architecture(T, 2, heads, width), 3), 2, width
        ).law
        for heads, width in TRIANGLE_MODELS
        for T in NMSE_TRIANGLE
    }
    below = {}
    for heads in ((2, 2), (4, 4)):
        T = 10
        while int(model_comparisons(Architecture(T, 2, heads, 4), 3)) >= paper_triangles(T):
            T += 1
        below[heads] = T
    trivial = all(value == 0 for value in exponents.values())
    return Finding(
        Verdict.VACUOUS if trivial else Verdict.HOLDS,
        f"the predicted exponent is 0 for all {len(exponents)} entries of Table 12, so every outcome is "
        "consistent "
        f"with it; max-position retrieval alone falls short of C(T,3) - 3 from T = {below[2, 2]} with (2, 2) "
        f"and {below[4, 4]} with (4, 4), but the NMSE is {float(min(NMSE_TRIANGLE[16])):.2f} at T = 16",
        {"entries": len(exponents), "first T": {str(heads): T for heads, T in below.items()}},
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="infoflow",
        name="6-a",
        place="Section 6",
        statement="s(T - 1) >= D(T - D) implies s >= D.",
        hypotheses="one layer, max-position retrieval",
        computation="the smallest s for D < 8 and T < 3 D^2",
        check=_single_layer,
        expected=Verdict.FAILS,
        correction="Only for T > D(D - 1) + 1; with the exact N = D(T - 1) for all T > D.",
    ),
    Claim(
        paper="infoflow",
        name="p1.47",
        place="Inequality (47)",
        statement="The count of two layers is at most the right side of (47).",
        hypotheses="beta1 = 2, sets as large as max-position retrieval makes them",
        computation="both sides in integers",
        check=_inequality_47,
        expected=Verdict.FAILS,
        correction="2(T - 1) must be (h1 + h2)(T - 1); (48), h1 T^2 + O(T), survives.",
    ),
    Claim(
        paper="infoflow",
        name="p1.h1",
        place="Proposition 1",
        statement="The count of comparisons forces h1 >= D.",
        hypotheses="T = 64 as in the experiments, h2 = D",
        computation="the smallest h1 whose count reaches N, with the paper's N and with unordered pairs",
        check=_first_layer_heads,
        expected=Verdict.FAILS,
        correction="At T = 64, D = 6 the count accepts h1 = 5, and with unordered pairs about D/2. What a "
        "search over score functions says is on the page linked below.",
        proof="advise.md#is-one-head-per-term-necessary",
    ),
    Claim(
        paper="infoflow",
        name="p1.dd",
        place="Proposition 1",
        statement="Two layers with heads (D, D) learn the pairwise target by max-position retrieval alone.",
        hypotheses="Gaussian matrices and tokens, d = 4",
        computation="information sets of the plan on samples; the written proof for all",
        check=_learns_with_d,
        expected=Verdict.HOLDS,
        correction="(50) must be the union of {t_i, s_i(t_i)}.",
        proof="advise.md#heads-d-d-are-enough",
    ),
    Claim(
        paper="infoflow",
        name="p1.distinct",
        place="Equation (6)",
        statement="Distinct matrices A_i make D the intrinsic dimension of the target.",
        hypotheses="A_i = c_i times the identity",
        computation="sizes of active sets; exact inputs",
        check=_distinct,
        expected=Verdict.FAILS,
        correction="Generic matrices and d >= 2 are needed.",
    ),
    Claim(
        paper="infoflow",
        name="p2.l",
        place="Proposition 2",
        statement="M >= C T^((beta'-1)/beta1) / L.",
        hypotheses="N >= C1 T^beta', T large against H L",
        computation="the exact M for the triangle-center count",
        check=_in_the_depth,
        expected=Verdict.HOLDS,
        correction="Valid and weak: L^(-1/beta1) instead of 1/L.",
        proof="advise.md#how-the-set-size-falls-with-depth",
    ),
    Claim(
        paper="infoflow",
        name="p2.premise",
        place="Appendix B.2",
        statement="Order beta' means N >= C1 T^beta', by definition.",
        hypotheses="none",
        computation="a target of order 1 with N = sqrt(T) - 1",
        check=_premise,
        expected=Verdict.FAILS,
        correction="Definition 2 bounds the size of trees from above only; the lower bound on N must be "
        "assumed.",
    ),
    Claim(
        paper="infoflow",
        name="p2.experiment",
        place="Section 6.2",
        statement="Proposition 2 explains the failures of Table 12.",
        hypotheses="the three models of Table 12, law exponent max(2M/E - 1, 0)",
        computation="M and exponent for every T of the table; the first T with a positive exponent",
        check=_experiment,
        expected=Verdict.FAILS,
        correction="The bound is trivial for T <= 64; it starts at T = 111, 118 and 303.",
    ),
    Claim(
        paper="infoflow",
        name="p2.heads",
        place="Section 6.2",
        statement="The limit cannot be overcome by more heads.",
        hypotheses="the count (5), two layers",
        computation="the smallest H with which M = 1 is enough",
        check=_heads,
        expected=Verdict.FAILS,
        correction="Inside InfoFlow about T/6 heads over all layers make every bound trivial: H = 11 at T = "
        "64.",
    ),
    Claim(
        paper="infoflow",
        name="p2-b",
        place="Appendix B.2, after (55)",
        statement="T L M^beta1 + H L T^beta1 + ... >= C1 T^beta' forces M to grow.",
        hypotheses="beta1 = beta' = 3",
        computation="the term H L T^beta1 against N",
        check=_typo,
        expected=Verdict.FAILS,
        correction="H L T^2, as in (55).",
    ),
    Claim(
        paper="infoflow",
        name="6.2-a",
        place="Section 6.2",
        statement="The cost is of the order eps^(1 - T^(2/3)/(6LE)).",
        hypotheses="read as a lower bound (Omega, not O), T large against H L",
        computation="T^(2/3) <= 6 L M with the exact M",
        check=_section_62,
        expected=Verdict.HOLDS_NUMERICALLY,
        correction="Omega; a factor d and T^(2/3)/(6L)^(1/3) would be sharper, for T much larger than H L "
        "only.",
    ),
    Claim(
        paper="infoflow",
        name="tab12-c",
        place="Section 6.2 and Table 12",
        statement="The errors of Table 12 are consistent with InfoFlow.",
        hypotheses="the three models of Table 12",
        computation="the predicted exponent for every entry",
        check=_table_12_consistent,
        expected=Verdict.VACUOUS,
    ),
)
