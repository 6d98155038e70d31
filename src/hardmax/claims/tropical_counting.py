"""Claims of the tropical paper about how many cells heads cut together (P1 section V-A, appendix D)."""

from __future__ import annotations

from hardmax.claims.certificates import Certificate
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict

__all__ = ["CLAIMS"]


def _pow_512_8(effort: Effort) -> Finding:
    value, printed = 512**8, 11 * 10**20
    wrong = not 10 * value < 11 * printed  # further off than rounding to two digits allows
    return Finding(
        Verdict.FAILS if wrong else Verdict.HOLDS,
        f"512^8 = 2^72 = {value} = {value / 1e21:.3f}e21; printed 1.1e21, short by a factor of "
        f"{value / printed:.1f}",
        {"value": value, "printed": printed},
        Certificate("power", {"base": 512, "exponent": 8}, {"value": value}),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="tropical",
        name="pow_512_8",
        place="Example V.3",
        statement="Eight heads of 512 tokens reach 512^8, which is about 1.1e21.",
        hypotheses="none",
        computation="the integer",
        check=_pow_512_8,
        expected=Verdict.FAILS,
        correction="512^8 = 2^72 = 4.722e21.",
    ),
)
