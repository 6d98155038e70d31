"""Claims of the InfoFlow paper about its own tables (P2 sections 4.2 and 6, appendix C).

No network is trained here: the sentences around Tables 1 to 12 are compared with the numbers printed in them
(:mod:`hardmax.claims.infoflow_printed_tables`), in exact fractions.
"""

from __future__ import annotations

from fractions import Fraction
from math import log10

from hardmax.claims.exact_relations import relations
from hardmax.claims.infoflow_printed_tables import (
    NMSE_PAIRWISE,
    NMSE_TRIANGLE,
    RECOVERY,
    ratio_is_consistent,
)
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict

__all__ = ["CLAIMS"]

LARGEST, SECOND = RECOVERY[:3], RECOVERY[3:]
ROUNDING = Fraction(1, 20000)


def _ratios(effort: Effort) -> Finding:
    columns = [column for table in RECOVERY for column in table.columns]
    good = sum(ratio_is_consistent(*column) for column in columns)
    lines = []
    for before, after, ratio in columns:
        lines.append((["/", after - ROUNDING, before + ROUNDING], "<=", ratio + ROUNDING))
        lines.append((["/", after + ROUNDING, before - ROUNDING], ">=", ratio - ROUNDING))
    return Finding(
        Verdict.HOLDS if good == len(columns) else Verdict.FAILS,
        f"{good} of {len(columns)} printed ratios agree with the printed errors within rounding",
        {"consistent": good, "entries": len(columns)},
        relations(*lines),
    )


def _range(effort: Effort) -> Finding:
    ratios = [ratio for table in LARGEST for ratio in table.ratio]
    low, high = min(ratios), max(ratios)
    tenfold = sum(ratio <= Fraction(1, 10) for ratio in ratios)
    right = (round(low, 2), round(high, 2)) == (Fraction("0.08"), Fraction("0.84"))
    return Finding(
        Verdict.HOLDS if right else Verdict.FAILS,
        f"ratios from {float(low):.4f} to {float(high):.4f}; a tenth or less for {tenfold} of {len(ratios)} "
        "heads, all of them in Table 1",
        {"smallest": low, "largest": high, "at most a tenth": tenfold, "heads": len(ratios)},
        relations((["min", *ratios], "=", low), (low, "<", Fraction("0.075")), (high, "=", ["max", *ratios]),
                  (high, "<", Fraction("0.835"))),
    )  # fmt: skip


def _table_11a(effort: Effort) -> Finding:
    full = [errors[0] for errors in NMSE_PAIRWISE.values()]
    decades = [_decade(error) for error in full]
    return Finding(
        Verdict.HOLDS if set(decades) == {-5} else Verdict.FAILS,
        f"NMSE of (D, D) for D = 2, ..., 6: powers of ten {', '.join(map(str, decades))}",
        {"decades": decades},
        relations(*((error, "<", Fraction(1, 10**4)) for error in full),
                  true=[error < Fraction(1, 10**4) for error in full]),
    )  # fmt: skip


def _table_11b(effort: Effort) -> Finding:
    gaps = {D: [other / full for other in others] for D, (full, *others) in NMSE_PAIRWISE.items()}
    claimed = {D: all(100 <= gap <= 1000 for gap in gaps[D]) for D in gaps if D <= 5}
    words = "; ".join(f"D={D}: {', '.join(f'{log10(gap):.2f}' for gap in each)}" for D, each in gaps.items())
    lines = [(gap, ">=", 100) for D in claimed for gap in gaps[D]]
    return Finding(
        Verdict.HOLDS if all(claimed.values()) else Verdict.FAILS,
        f"orders of magnitude between (D, D) and one head less: {words}",
        {f"D={D}": each for D, each in gaps.items()},
        relations(*lines, true=[gap >= 100 for D in claimed for gap in gaps[D]]),
    )


def _table_12(effort: Effort) -> Finding:
    at_16 = NMSE_TRIANGLE[16]
    above = all(error > Fraction("0.85") for error in at_16)
    spread = {T: max(errors) / min(errors) for T, errors in NMSE_TRIANGLE.items()}
    alike = all(value <= Fraction("1.05") for value in spread.values())
    return Finding(
        Verdict.HOLDS if above and alike else Verdict.FAILS,
        f"at T=16 the smallest NMSE is {float(min(at_16)):.3f}; largest over smallest of the "
        f"three models is {float(spread[3]):.2f} at T=3, {float(spread[5]):.2f} at T=5, "
        f"{float(spread[10]):.2f} at T=10, {float(spread[24]):.2f} at T=24",
        {"smallest at T=16": min(at_16), "spread": {str(T): value for T, value in spread.items()}},
        relations(
            (["min", *at_16], ">", Fraction("0.85")),
            *((["/", ["max", *errors], ["min", *errors]], ">", Fraction("1.05"))
              for errors in NMSE_TRIANGLE.values()),
            true=[above, *(value > Fraction("1.05") for value in spread.values())],
        ),
    )  # fmt: skip


def _configurations(effort: Effort) -> Finding:
    heads = {table.heads for table in RECOVERY}
    per_head = {table.heads[0]: Fraction(table.width, table.heads[0]) for table in RECOVERY}
    consistent = len(heads) == 6 and len(set(per_head.values())) == 1
    rounded_up = all(-(-36 // h) == n for h, n in per_head.items())
    return Finding(
        Verdict.HOLDS if consistent else Verdict.FAILS,
        f"{len(heads)} configurations {sorted(heads)}; head widths n_1 = "
        f"{', '.join(f'{n} for h_1={h}' for h, n in sorted(per_head.items()))}"
        + ("; that is E_1 = ceil(36 / h_1) h_1" if rounded_up else ""),
        {"configurations": sorted(map(list, heads)), "head widths": {str(h): n for h, n in per_head.items()}},
        relations((len(heads), "=", 6), *((n, "=", 6) for _, n in sorted(per_head.items())),
                  true=[len(heads) == 6, *(n == 6 for _, n in sorted(per_head.items()))]),
    )  # fmt: skip


def _second_largest(effort: Effort) -> Finding:
    ratios = [ratio for table in SECOND for ratio in table.ratio]
    near = sum(abs(ratio - 1) <= Fraction(1, 20) for ratio in ratios)
    mean = sum(ratios) / len(ratios)
    return Finding(
        Verdict.MEASUREMENT,
        f"ratios from {float(min(ratios)):.3f} to {float(max(ratios)):.4f}, mean {float(mean):.4f}; "
        f"{near} of {len(ratios)} within 5 %, {sum(ratio > 1 for ratio in ratios)} above 1",
        {"smallest": min(ratios), "largest": max(ratios), "mean": mean, "within 5 %": near},
    )


def _decade(error: Fraction) -> int:
    """The power of ten of a number: -5 for 5.89e-5."""
    power = 0
    while error < 1:
        error, power = error * 10, power - 1
    return power


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="infoflow",
        name="tab.ratios",
        place="Tables 1 to 10",
        statement="Every third line is the trained error over the initialised one.",
        hypotheses="all entries rounded to four decimals",
        computation="57 quotients in fractions, with the rounding of all three numbers",
        check=_ratios,
        expected=Verdict.HOLDS,
    ),
    Claim(
        paper="infoflow",
        name="tab.range",
        place="Section 4.2 and appendix C.1",
        statement="Training shrinks the recovery error by an order of magnitude in all configurations; the "
        "ratios run from 0.08 to 0.84.",
        hypotheses="the printed Tables 1 to 3",
        computation="smallest and largest ratio",
        check=_range,
        expected=Verdict.FAILS,
        correction="The ratios run from 0.065 to 0.779; an order of magnitude is reached in Table 1 only, "
        "the one configuration with h_1 >= D.",
    ),
    Claim(
        paper="infoflow",
        name="tab.11a",
        place="Section 6.1",
        statement="Heads (D, D) reach an NMSE of the order 1e-5 for all D.",
        hypotheses="the printed Table 11",
        computation="powers of ten",
        check=_table_11a,
        expected=Verdict.FAILS,
        correction="1e-5 for D = 2, 3, 4; 1e-4 for D = 5; 1e-3 for D = 6.",
    ),
    Claim(
        paper="infoflow",
        name="tab.11b",
        place="Appendix C.4",
        statement="One head less costs two to three orders of magnitude for D <= 5.",
        hypotheses="the printed Table 11",
        computation="quotients of the printed errors",
        check=_table_11b,
        expected=Verdict.FAILS,
        correction="2.3 to 3.0 orders for D <= 4, one order for D = 5, half an order for D = 6.",
    ),
    Claim(
        paper="infoflow",
        name="tab.12",
        place="Section 6.2",
        statement="At T = 16 all three models have NMSE above 0.85, and they perform almost identically for "
        "all T.",
        hypotheses="the printed Table 12; almost identically read as within 5 %",
        computation="smallest error at T = 16; largest over smallest error for every T",
        check=_table_12,
        expected=Verdict.FAILS,
        correction="The smallest error at T = 16 is 0.843 (appendix C.5 says 0.84); the models differ by a "
        "factor 2.1 at T = 3 and agree within 2 % from T = 16 on.",
    ),
    Claim(
        paper="infoflow",
        name="c1.configs",
        place="Appendix C.1",
        statement="Six configurations with a fixed head width n_1, so that E_1 is proportional to h_1.",
        hypotheses="the printed Tables 1 to 10",
        computation="counting; E_1 / h_1",
        check=_configurations,
        expected=Verdict.FAILS,
        correction="Seven configurations, three of them with Tables 1 to 3; E_1 = ceil(36 / h_1) h_1, so n_1 "
        "is 6, 8, 6 for h_1 = 6, 5, 7.",
    ),
    Claim(
        paper="infoflow",
        name="c.2",
        place="Appendix C.2",
        statement="Ratios for the second largest score are uniformly close to 1.",
        hypotheses="the printed Tables 4 to 10; the paper does not say what close means",
        computation="range, mean, and how many lie within 5 %",
        check=_second_largest,
        expected=Verdict.MEASUREMENT,
        correction="Close on average (1.006), not uniformly: 0.777 to 1.091.",
    ),
)
